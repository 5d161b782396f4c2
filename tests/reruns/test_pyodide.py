"""Tests in CPython for WebAssembly, as in a browser: what `python3 -m tests --pyodide` runs."""

from __future__ import annotations

import hashlib
import subprocess
import sys

import pytest

from tests.pyodide.command import NotInstalled, files, pyodide
from tests.subject import CHECKOUT, NAME

pytestmark = [pytest.mark.heavy, pytest.mark.skipif(NAME != "rawcuda", reason="this runs the checkout")]


@pytest.mark.every_change
def test_the_tests_pass_in_pyodide(pytestconfig: pytest.Config) -> None:
    """A change runs a tenth of the files; the commits of some weeks select all of them."""
    commit, names = pytestconfig.getoption("change"), files()
    if commit:
        names = names[int(hashlib.sha256(commit.encode()).hexdigest(), 16) % 10 :: 10]
    try:
        pyodide()
    except NotInstalled as missing:
        pytest.skip(str(missing))
    done = subprocess.run(
        [sys.executable, "-m", "tests.pyodide", *names],
        cwd=CHECKOUT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=3600,
    )
    print(done.stdout)
    assert done.returncode == 0 and " passed" in done.stdout.splitlines()[-1], done.stdout
