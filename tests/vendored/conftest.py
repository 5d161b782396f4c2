"""Copies of the package, vendored by its own command."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.subject import NAME, ROOT

NESTED = "someproject._vendor.gpu"  # three folders down, under another name
PAIR = "first_copy", "second_copy"


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a folder with three copies: one nested and renamed, and a pair side by side. The original is not in it."""
    folder = tmp_path_factory.mktemp("site")
    for name in (NESTED, *PAIR):
        target = folder.joinpath(*name.split("."))
        target.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run([sys.executable, "-m", NAME, "vendor", target], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        for parent in list(target.relative_to(folder).parents)[:-1] if name == NESTED else ():
            (folder / parent / "__init__.py").touch()
    return folder
