"""null/, emulator/, driver/ and interop/ again, on every other Python of this machine, each in its own environment."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import Rerun, third_of

pytestmark = pytest.mark.heavy

VERSIONS = ("3.9", "3.10", "3.11", "3.12", "3.13", "3.14", "3.15")
FOLDERS = ("null", "emulator", "driver", "interop")
THIS = "{}.{}".format(*sys.version_info[:2])


def candidates(version: str) -> Iterator[Path]:
    """Yield the places where a Python of this version may be: PATH, the folders of the system, of pyenv and of uv."""
    home = Path.home()
    for folder in (*os.environ.get("PATH", "").split(os.pathsep), "/usr/bin", "/usr/local/bin"):
        if os.path.isabs(folder):
            yield Path(folder, f"python{version}")
    for root, pattern in (
        (Path(os.environ.get("PYENV_ROOT") or home / ".pyenv"), f"versions/{version}*/bin/python{version}"),
        (
            Path(os.environ.get("UV_PYTHON_INSTALL_DIR") or home / ".local/share/uv/python"),
            f"cpython-{version}*/bin/python{version}",
        ),
    ):
        yield from sorted(root.glob(pattern), reverse=True)


def works(python: Path, version: str) -> bool:
    """Tell whether this is a Python that can make an environment; a shim of pyenv, for example, may not work."""
    check = f"import ctypes, ensurepip, ssl, sys, venv; sys.exit('%d.%d' % sys.version_info[:2] != '{version}')"
    try:
        return (
            subprocess.run(
                [python, "-c", check], timeout=60, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            ).returncode
            == 0
        )
    except (OSError, subprocess.TimeoutExpired):
        return False


def found(version: str) -> Path | None:
    """Return the first Python of this version that works, or None."""
    return next((python for python in candidates(version) if python.is_file() and works(python, version)), None)


PYTHONS = {
    version: python for version in VERSIONS if version != THIS for python in [found(version)] if python is not None
}
NEWEST = max((*PYTHONS, THIS), key=VERSIONS.index)


OLDEST = min((*PYTHONS, THIS), key=VERSIONS.index)


def run_all(rerun: Rerun, version: str, pytestconfig: pytest.Config, *options: str) -> None:
    """Run the tests of null/, emulator/, driver/ and interop/ on another Python; for a change, a third of the files."""
    third = third_of(pytestconfig, version)
    command = [str(PYTHONS[version]), "-m", "tests", *FOLDERS, "--", "--numprocesses=0", *options, *third]
    assert f"-- Python {version}." in rerun(command, timeout=3600)


@pytest.mark.every_change
@pytest.mark.parametrize("version", sorted({OLDEST, NEWEST} - {THIS}, key=VERSIONS.index))
def test_tests_pass_on_the_oldest_and_the_newest(rerun: Rerun, version: str, pytestconfig: pytest.Config) -> None:
    run_all(rerun, version, pytestconfig, "--again")


@pytest.mark.parametrize("version", sorted(PYTHONS.keys() - {OLDEST, NEWEST}, key=VERSIONS.index))
def test_tests_pass_on_those_between(rerun: Rerun, version: str, pytestconfig: pytest.Config) -> None:
    run_all(rerun, version, pytestconfig, "--again")


@pytest.mark.skipif(NEWEST == THIS, reason="python3 -m tests runs them")
def test_tests_that_depend_little_on_the_python_pass_on_the_newest(rerun: Rerun, pytestconfig: pytest.Config) -> None:
    run_all(rerun, NEWEST, pytestconfig)


@pytest.mark.parametrize("version", sorted({OLDEST, THIS, NEWEST}))
def test_every_call_survives_exceptions(rerun: Rerun, version: str) -> None:
    command = [str(PYTHONS.get(version, sys.executable)), "-m"]
    command += ["pytest"] if version == THIS else ["tests", "driver", "--", "--numprocesses=0"]
    output = rerun(
        [*command, "--every-call", "-k", "test_every_call", *["tests/driver"] * (version == THIS)], timeout=1800
    )
    assert "passed" in output
