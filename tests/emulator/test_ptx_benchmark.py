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


# -- the rates of opcodes


@pytest.fixture(scope="module")
def opcodes() -> Any:
    """Import the module of the opcodes from the checkout."""
    pytest.importorskip("numpy", minversion="2.0")
    from benchmarks import opcodes as made

    return made


def test_every_opcode_has_a_rate_or_a_reason(opcodes: Any) -> None:
    names = set(opcodes.opcodes())
    measured = {name for name in names if next(opcodes.forms(name), None) is not None}
    assert names == measured | set(opcodes.UNMEASURED)
    assert not measured & set(opcodes.UNMEASURED) and all(opcodes.UNMEASURED.values())
    assert {key.partition(".")[0] for key in opcodes.REASONS} <= measured and all(opcodes.REASONS.values())


def test_reasons_belong_to_forms(opcodes: Any) -> None:
    names = {key.partition(".")[0] for key in opcodes.REASONS}
    found = {form.name for name in names for form in opcodes.forms(name)}
    unused = [key for key in opcodes.REASONS if not any(f"{name}.".startswith(f"{key}.") for name in found)]
    assert not unused


def test_the_forms_of_an_opcode_have_all_its_types_and_modifiers(opcodes: Any) -> None:
    words = {word for form in opcodes.forms("fma") for word in form.name.split(".")[1:]}
    assert words >= set("rn rz rm rp ftz sat relu oob f16 f16x2 bf16 bf16x2 f32 f64 f32x2".split())
    types = {form.name for form in opcodes.forms("dp4a")}
    assert types == {f"dp4a.{a}.{b}" for a in ("u32", "s32") for b in ("u32", "s32")}


def test_a_slow_form_needs_a_reason(opcodes: Any, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr(opcodes, "BLOCKS", {"numpy": 4, "scalar": 1})
    monkeypatch.setattr(opcodes, "FLOORS", {"numpy": 0.0, "scalar": 0.0})
    monkeypatch.setattr(opcodes, "SLOWEST", 1e12)
    assert opcodes.report(["brev", "trap"], 1, False) == 0
    told = capsys.readouterr().out.splitlines()
    assert told[1].startswith("brev.") and "NO REASON" not in told[1]
    assert told[2].startswith("trap ") and told[2].endswith("ends the thread")
    monkeypatch.setattr(opcodes, "SLOWEST", 0.0)
    assert opcodes.report(["brev"], 1, False) == 1
    assert "NO REASON" in capsys.readouterr().out
    monkeypatch.setitem(opcodes.REASONS, "brev", "a reason")
    assert opcodes.report(["brev"], 1, False) == 0
    assert "a reason" in capsys.readouterr().out


def test_the_rates_of_opcodes_are_printed() -> None:
    pytest.importorskip("numpy", minversion="2.0")
    command = [sys.executable, str(PATH), "--repeat", "1", "--opcodes", "movmatrix"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=240)
    assert "only the scalar executor has tensor cores" in done.stdout
