"""Copies of the package, as somebody vendors it."""
from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.subject import FOLDER

NESTED = "someproject._vendor.gpu"                # three folders down, under another name
PAIR = "first_copy", "second_copy"


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a folder with three copies: one nested and renamed, and a pair side by side. The original is not in it."""
    folder = tmp_path_factory.mktemp("site")
    for name in (NESTED, *PAIR):
        target = folder.joinpath(*name.split("."))
        shutil.copytree(FOLDER, target, ignore=shutil.ignore_patterns("__pycache__"))
        for parent in list(target.relative_to(folder).parents)[:-1] if name == NESTED else ():
            (folder / parent / "__init__.py").touch()
    return folder
