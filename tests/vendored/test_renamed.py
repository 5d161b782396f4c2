"""A nested copy under another name passes the tests, and runs."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.conftest import Python, Rerun, third_of

from .conftest import NESTED

SAMPLE = "null/test_view", "null/test_dlpack_import", "driver/test_launch", "driver/test_stream", "driver/test_copies"


def run_on_the_copy(rerun: Rerun, site: Path, pytestconfig: pytest.Config, *tests: str) -> None:
    """Run tests on the renamed copy, where the original cannot be imported."""
    output = rerun(
        [sys.executable, "-m", "pytest", *tests, "-p", "no:cacheprovider", "--again"]
        + ["--driver", pytestconfig.getoption("driver")],
        env={"TESTED_PACKAGE": NESTED, "PYTHONPATH": str(site)},
    )
    assert f"package: {NESTED}" in output


@pytest.mark.heavy
@pytest.mark.every_change
def test_a_renamed_copy_passes_a_sample_of_the_tests(rerun: Rerun, site: Path, pytestconfig: pytest.Config) -> None:
    run_on_the_copy(rerun, site, pytestconfig, *(f"tests/{name}.py" for name in SAMPLE))


@pytest.mark.heavy
def test_a_renamed_copy_passes_the_tests_with_the_fast_paths_off(
    rerun: Rerun, site: Path, pytestconfig: pytest.Config
) -> None:
    run_on_the_copy(
        rerun,
        site,
        pytestconfig,
        "tests/null",
        "tests/emulator",
        "tests/driver",
        "--plain",
        *third_of(pytestconfig, "renamed"),
    )


def test_a_renamed_copy_runs_its_demo(python: Python, site: Path) -> None:
    result = python(["-m", NESTED, "demo"], flags=("-S",), env={"PYTHONPATH": str(site), "RAWCUDA_DRIVER": "emulator"})
    assert result.returncode == 0, result.stdout + result.stderr


def test_a_renamed_copy_calls_itself_by_its_name(python: Python, site: Path) -> None:
    result = python(["-m", NESTED, "--help"], env={"PYTHONPATH": str(site)}, check=True)
    assert NESTED in result.stdout and "rawcuda" not in result.stdout
