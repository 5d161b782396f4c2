"""A nested copy under another name passes the tests, and runs."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.conftest import Python, Rerun

from .conftest import NESTED


@pytest.mark.parametrize("folder", ["null", "driver"])
def test_a_renamed_copy_passes_the_tests(rerun: Rerun, site: Path, pytestconfig: pytest.Config, folder: str) -> None:
    output = rerun(
        [
            sys.executable,
            "-m",
            "pytest",
            f"tests/{folder}",
            "-p",
            "no:cacheprovider",
            "--again",
            "--driver",
            pytestconfig.getoption("driver"),
        ],
        env={"TESTED_PACKAGE": NESTED, "PYTHONPATH": str(site)},
    )
    assert f"package: {NESTED}" in output


def test_a_renamed_copy_runs_its_demo(python: Python, site: Path) -> None:
    result = python(["-m", NESTED, "demo"], flags=("-S",), env={"PYTHONPATH": str(site), "RAWCUDA_DRIVER": "emulator"})
    assert result.returncode == 0, result.stdout + result.stderr


def test_a_renamed_copy_calls_itself_by_its_name(python: Python, site: Path) -> None:
    result = python(["-m", NESTED, "--help"], env={"PYTHONPATH": str(site)}, check=True)
    assert NESTED in result.stdout and "rawcuda" not in result.stdout
