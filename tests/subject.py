"""The package under test: `rawcuda` itself, or a copy with the name in TESTED_PACKAGE.

from tests.subject import rawcuda, module          # module("errors") is a submodule of it
"""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from types import ModuleType

__all__ = ["NAME", "CHECKOUT", "FOLDER", "ROOT", "rawcuda", "module"]

NAME = os.environ.get("TESTED_PACKAGE", "rawcuda")
CHECKOUT = Path(__file__).resolve().parent.parent  # the folder with setup.cfg

rawcuda = importlib.import_module(NAME)
FOLDER = Path(str(rawcuda.__file__)).resolve().parent  # the folder of the package
ROOT = FOLDER.parents[NAME.count(".")]  # the folder that must be on sys.path to import NAME


def module(name: str) -> ModuleType:
    """Import a submodule of the package under test: module("emulator.ptx")."""
    return importlib.import_module(f".{name}", NAME)
