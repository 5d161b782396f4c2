"""Tests in CPython for WebAssembly, as in a browser; `python3 -m tests --pyodide` runs more than this part."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.pyodide.command import NotInstalled, pyodide
from tests.subject import CHECKOUT, NAME

pytestmark = [pytest.mark.heavy, pytest.mark.skipif(NAME != "rawcuda", reason="this runs the checkout")]

FILES = (
    "tests/null/test_layout.py",
    "tests/driver/test_answers.py",
    "tests/driver/test_closed_meanwhile.py",
    "tests/driver/test_cluster.py",
    "tests/driver/test_copies.py",
    "tests/driver/test_driver_table.py",
)


@pytest.mark.every_change
def test_a_part_of_the_tests_passes_in_pyodide() -> None:
    try:
        pyodide()
    except NotInstalled as missing:
        pytest.skip(str(missing))
    done = subprocess.run(
        [sys.executable, "-m", "tests.pyodide", *FILES],
        cwd=CHECKOUT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=1500,
    )
    print(done.stdout)
    assert done.returncode == 0 and " passed" in done.stdout.splitlines()[-1], done.stdout
