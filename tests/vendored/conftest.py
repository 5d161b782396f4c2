"""Copies of the package, made by its command `vendor`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.subject import NAME, ROOT

NESTED = "someproject._vendor.gpu"  # inside three folders, under another name
PAIR = "first_copy", "second_copy"


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a folder with three copies: a nested and renamed one, and two in one folder. The original is not in it."""
    folder = tmp_path_factory.mktemp("site")
    for name in (NESTED, *PAIR):
        target = folder.joinpath(*name.split("."))
        target.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run([sys.executable, "-m", NAME, "vendor", target], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        for parent in list(target.relative_to(folder).parents)[:-1] if name == NESTED else ():
            (folder / parent / "__init__.py").touch()
    return folder
