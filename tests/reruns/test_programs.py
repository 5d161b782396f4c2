"""Programs of other people, on the emulator, in an environment of their own: their numbers, and the way they end.

PROGRAM_RUNS is the number of runs of each, 2 if it is not set.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.clients import demos
from tests.clients.demos import DEMOS
from tests.subject import NAME, ROOT, module

loading = module("emulator.impersonating.loading")
pytestmark = [
    pytest.mark.heavy,
    pytest.mark.skipif(bool(loading.unusable()), reason=loading.unusable()),
    pytest.mark.skipif(sys.version_info < (3, 11), reason="the newest of these packages need Python 3.11"),
]
RUNS = int(os.environ.get("PROGRAM_RUNS", "2"))

BUG = """
import numpy
from numba import cuda

@cuda.jit(lineinfo=True)
def saxpy(a, x, y, out):
    i = cuda.grid(1)
    if i <= out.size:  # the bug
        out[i] = a * x[i] + y[i]

def test_saxpy():
    x = cuda.to_device(numpy.arange(63, dtype=numpy.float32))
    out = cuda.device_array_like(x)
    saxpy[1, 64](numpy.float32(2), x, x, out)
    assert (out.copy_to_host() == 3 * numpy.arange(63)).all()

def test_after_it():
    x = cuda.to_device(numpy.arange(64, dtype=numpy.float32))
    assert x.copy_to_host()[63] == 63
"""


@pytest.fixture(scope="module")
def client() -> str:
    """Return the Python of the environment."""
    return demos.python_of("numba")


def run(python: str, *arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command of the package in that environment."""
    variables = {"PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore", "DEV": "CUDA", "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [python, "-m", *arguments],
        env={**os.environ, **variables},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=600,
        stdin=subprocess.DEVNULL,
    )


@pytest.mark.parametrize("name", DEMOS)
def test_a_program_has_the_right_numbers_and_ends_quietly(tmp_path: Path, name: str) -> None:
    if name.startswith("pycuda") and shutil.which("g++") is None:
        pytest.skip("PyCUDA has no wheels, and there is no C++ compiler")
    for _ in range(RUNS):
        result = demos.run(name, tmp_path, 600)
        assert (result.returncode, result.stderr) == (0, ""), result.stdout
        assert "as NumPy" in result.stdout or result.stdout.startswith("ok")


def test_a_bug_in_a_numba_kernel_is_reported_with_the_line_of_its_launch(client: str, tmp_path: Path) -> None:
    test = tmp_path / "test_planted.py"
    test.write_text(BUG)
    result = run(client, "pytest", "-q", "-p", f"{NAME}.emulate", "-p", "no:cacheprovider", str(test), folder=tmp_path)
    line = BUG[: BUG.index("saxpy[1, 64]")].count("\n") + 1
    assert "1 failed, 1 passed" in result.stdout, result.stdout
    assert f"{test}:{line}: the kernel that is launched here is wrong" in result.stdout
    assert ">   saxpy[1, 64](numpy.float32(2), x, x, out)" in result.stdout
    assert f"{test}:{BUG[: BUG.index('out[i] =')].count(chr(10)) + 1}" in result.stdout  # the line of the kernel
