"""The benchmark of the emulator runs, counts instructions correctly, and computes right results."""

from __future__ import annotations

import importlib.util
import json
import os
import struct
import subprocess
import sys
from typing import Any

import pytest

from tests.subject import CHECKOUT, NAME

pytestmark = pytest.mark.skipif(NAME != "rawcuda", reason="the benchmark measures only the package of the checkout")
PATH = CHECKOUT / "benchmarks" / "emulator.py"


@pytest.fixture(scope="module")
def measuring() -> Any:
    """Import the benchmark from its file, because it is not in a package."""
    spec = importlib.util.spec_from_file_location("benchmark_of_the_emulator", PATH)
    assert spec and spec.loader
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


@pytest.mark.parametrize(
    "name,code,want",
    [
        ("add", "f", lambda given: [a + b for a, b in zip(*given)]),
        ("reduce", "f", lambda given: [sum(given[0][k * 128 : k * 128 + 128]) for k in range(64)]),
        (
            "product",
            "f",
            lambda given: [
                sum(given[0][y * 64 + k] * given[1][k * 64 + x] for k in range(64))
                for y in range(64)
                for x in range(64)
            ],
        ),
    ],
)
def test_its_kernels_are_right(measuring: Any, name: str, code: str, want: Any) -> None:
    loaded, run = measuring.prepare(name)
    run()
    given = [
        struct.unpack(f"<{len(each) // 4}f", each) for each in measuring.WORK[name][2][1:] if isinstance(each, bytes)
    ]
    size = len(measuring.WORK[name][2][0])
    out = min(
        (each for each in loaded.space.live() if each.kind == "device" and each.size == size),
        key=lambda each: each.base,
    )
    assert list(struct.unpack(f"<{size // 4}{code}", out.data)) == pytest.approx(want(given), rel=1e-4, abs=1e-4)


def test_instructions_are_counted(measuring: Any) -> None:
    loaded, run = measuring.prepare("add")
    counted = measuring.count(loaded, lambda: run((3,)), 256)
    assert 20 * 768 <= counted <= 25 * 768  # the kernel has 23 instructions and a return


def test_it_runs() -> None:
    done = subprocess.run(
        [sys.executable, str(PATH), "--only", "reduce", "--repeat", "1", "--json"],
        stdout=subprocess.PIPE,
        text=True,
        timeout=120,
        env={**os.environ, "BENCHMARK_NUMBA": "0"},
    )
    assert done.returncode == 0
    row, last = map(json.loads, done.stdout.splitlines())
    assert row["kernel"] == "reduce" and row["a_second"] > 1e5 and last["load_ms"] > 0
