"""A hook that replaces modules of the package when they are imported: Python runs this file when it starts.

MUTANT_MODULES names a folder with one file of compiled code for each module that is replaced. MUTANT_RECORD names a
file; the replaced modules write there what runs. Tests count what an import imports, so this file imports almost
nothing.
"""

from __future__ import annotations

import marshal
import os
import sys
from importlib.machinery import PathFinder, SourceFileLoader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class _Loader(SourceFileLoader):
    """The loader of a replaced module: everything is as usual, except for the code."""

    def __init__(self, fullname: str, path: str, replaced: str) -> None:
        super().__init__(fullname, path)
        self.replaced = replaced

    def get_code(self, fullname: str) -> Any:
        """Return the replaced code."""
        with open(self.replaced, "rb") as file:
            return marshal.load(file)


class Finder:
    """A finder of replaced modules."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.names = set(os.listdir(folder))

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        """Return the usual specification, with another loader."""
        if fullname not in self.names:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.origin:
            spec.loader = _Loader(fullname, spec.origin, os.path.join(self.folder, fullname))
        return spec


class Record:
    """What has run since the last start of a test, in memory and in a file that child processes share."""

    def __init__(self) -> None:
        self.seen: set[tuple[str, int]] = set()
        self.file = -1

    def start(self, path: str) -> None:
        """Record what runs from now on in another file."""
        before, self.file = self.file, os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self.seen = set()
        if before >= 0:
            os.close(before)

    def __call__(self, number: tuple[str, int]) -> None:
        """Record one statement."""
        if number not in self.seen:
            self.seen.add(number)
            if self.file >= 0:
                os.write(self.file, b"%s %d\n" % (number[0].encode(), number[1]))


def install(folder: str) -> None:
    """Replace modules that are imported from now on, here and in each child process that inherits the environment."""
    sys.meta_path.insert(0, Finder(folder))
    os.environ["MUTANT_MODULES"] = folder


def record() -> Record:
    """Define what the probes call."""
    import builtins

    made = Record()
    vars(builtins)["_ran_"] = made
    return made


if "MUTANT_MODULES" in os.environ and __name__ == "sitecustomize":
    sys.path[:] = [each for each in sys.path if each != os.path.dirname(__file__)]
    sys.meta_path.insert(0, Finder(os.environ["MUTANT_MODULES"]))
    if "MUTANT_RECORD" in os.environ:
        record().start(os.environ["MUTANT_RECORD"])
