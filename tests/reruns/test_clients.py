"""A sample of the test suites of other projects, and the Triton and PyCUDA programs, on the emulator."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.__main__ import environment
from tests.clients.suites import SUITES
from tests.conftest import Rerun
from tests.subject import NAME, ROOT, module

loading = module("emulator.impersonating.loading")
PROGRAMS = Path(__file__).resolve().parents[1] / "clients" / "programs"
pytestmark = [
    pytest.mark.heavy,
    pytest.mark.skipif(bool(loading.unusable()), reason=loading.unusable()),
    pytest.mark.skipif(sys.version_info < (3, 11), reason="the newest of these packages need Python 3.11"),
]


@pytest.mark.parametrize("name", SUITES)
def test_a_sample_of_a_suite_is_as_good_as_the_stored_table(rerun: Rerun, name: str) -> None:
    said = rerun([sys.executable, "-m", "tests", "--clients", name, "--sample"], timeout=1800)
    assert "no row is worse than the stored one" in said


def run(python: str, program: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a program under `emulate`, with an environment's Python."""
    return subprocess.run(
        [sys.executable, "-m", NAME, "emulate", "--", "env", "-u", "PYTHONPATH", python, str(PROGRAMS / program)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore", **variables},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=900,
        stdin=subprocess.DEVNULL,
    )


def test_triton_softmax_and_product(tmp_path: Path) -> None:
    python = environment(list(SUITES["triton"].packages))
    result = run(python, "triton_kernels.py", tmp_path, TRITON_CACHE_DIR=str(tmp_path))
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("as NumPy") == 3
