"""The places of PTX lines in the source that they were compiled from, the text of these lines, and signatures.

What it is   `Sources`, for the words "ptx line 30 (kernel.cu:4)" and for the line itself; `declared`, for the
             parameters of a kernel. The text comes from the compiler, which keeps each source under a hash of the
             PTX that it made from the source. If it is not there, it comes from the file that `.loc` names, and
             otherwise from the PTX. The PTX is not trusted: of the files that it names, only those of the quoted lines
             are read, each only to a limit, and nothing of them is kept after a report.
Read next    ../running/report.py
"""

from __future__ import annotations

import hashlib
import linecache
import os
import re
import stat
from bisect import bisect_right
from typing import NamedTuple

from ....compiler.declarations import Declarations
from ....images import mangled

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from ....images.mangled import CType
    from ..reading.syntax import Module

__all__ = ["PTX", "Quote", "Sources"]

PTX = "<ptx>"
_LONGEST = 160
_LARGEST = 1 << 20  # characters of a source file that are read
_MOST_FILES = 16  # that are kept at a time
_MOST_NAMES = 1000  # of which an address is calculated
_SOURCES = (".cu", ".cuh", ".h", ".hpp", ".cpp", ".c", ".py", ".ptx", ".inl")  # how names of sources end


class Quote(NamedTuple):
    """A line of a source: its file, or "<ptx>"; its number; the column, or 0; its text, or ""."""

    file: str
    line: int
    column: int
    text: str

    @property
    def place(self) -> str:
        """Return the words for the file and the line."""
        if self.file == PTX:
            return f"ptx line {self.line}"
        return f"{os.path.basename(self.file)}:{self.line}"

    def __str__(self) -> str:
        return f"{self.place}{f':{self.column}' if self.column else ''} | {self.text}"


class Sources:
    """The sources of one PTX. What is read of them is kept as long as this object exists."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._starts = sorted(each.line for each in module.functions.values())
        self._places = [each for each in module.locations if each[2]]  # (line 0 means that there is no line)
        self._known: dict[str, list[str]] = {}  # the lines by file, PTX for those of the PTX
        self._kept: Any = None  # the source from which the PTX was compiled in this process: see compiler/program.py
        self._declarations: dict[str, Declarations] = {}  # of one file
        self._defined: dict[int, dict[str, set[str]]] = {}  # of one function, by its first line: see _defined()

    def location(self, line: int) -> tuple[int, int, int, int] | None:
        """Return the .loc that a PTX line belongs to, if its file is known."""
        at = bisect_right(self._starts, line) - 1
        first = self._starts[at] if at >= 0 else 0
        at = bisect_right(self._places, (line, 1 << 64, 0, 0)) - 1
        if at >= 0 and self._places[at][0] >= first and self._places[at][1] in self._module.files:
            return self._places[at]
        return None

    def place(self, line: int) -> str:
        """Return the words for a line of the PTX, with the source line from .loc."""
        module, found = self._module, self.location(line)
        if found is None:
            return f"ptx line {line}"
        file, number = found[1:3]
        inlined = module.inlined.get(found[0])
        if inlined and inlined[0] in module.files:
            more = f", inlined at {module.files[inlined[0]]}:{inlined[1]}"
        else:
            more = ""
        return f"ptx line {line} ({module.files[file]}:{number}{more})"

    def source_quotes(self, line: int) -> list[Quote]:
        """Return the source line of a PTX line and the one into which it was inlined, if there are any."""
        found, module = self.location(line), self._module
        quotes = []
        if found is not None:
            for file, number, column in (found[1:], (*module.inlined.get(found[0], (0, 0)), 0)):
                if file in module.files:
                    quotes.append(self._quote(module.files[file], number, column))
        return quotes

    def quotes(self, line: int) -> list[Quote]:
        """Return the same; without text, the PTX line, too."""
        quotes = self.source_quotes(line)
        if not any(quote.text for quote in quotes):
            quotes.append(self._quote(PTX, line, 0))
        return quotes

    def declared(self, name: str, sizes: Sequence[int], line: int) -> list[tuple[str, CType]] | None:
        """Return the names and types of a kernel's parameters, if the source or the kernel's C++ name says them.

        shape   name: of the kernel in the code; sizes: of its parameters, in bytes; line: of the PTX, in the kernel
        """
        file, place, module = "", self.location(line), self._module
        if not self._lines(file) and place is not None:
            file = module.files.get(module.inlined.get(place[0], place[1:])[0], "")
        if file not in self._declarations:
            self._declarations = {file: Declarations(["".join(self._lines(file))])}
        found = self._declarations[file].parameters(name, sizes)
        if found is not None:
            return found
        types = mangled.parameters(name)
        if types is None or len(types) != len(sizes):
            return None
        return [("", type) for type in types]

    @property
    def ptx(self) -> list[str]:
        """Return the lines of the PTX."""
        return self._lines(PTX)

    def reached(self, number: int, first: int) -> set[str]:
        """Return the names of which the address of an access is calculated.

        shape   number: of the line of the access; first: of the first line of its function
        """
        access = re.search(r"\[([^\[\]]{1,200})\]", self.ptx[number - 1])
        if access is None or number < first:
            return set()
        if first not in self._defined:
            self._defined = {first: _defined(self.ptx, first)}
        reached: set[str] = set()
        left = _WORD.findall(access[1])
        while left and len(reached) < _MOST_NAMES:
            name = left.pop()
            if name not in reached:
                reached.add(name)
                left += self._defined[first].get(name, ())
        return reached

    def _quote(self, file: str, line: int, column: int) -> Quote:
        lines, text = self._lines(file), ""
        if 0 < line <= len(lines):
            text = lines[line - 1][: 4 * _LONGEST]  # all of the text may be one line, and quoted many times
            if file == PTX:
                text = " ".join(text.split())
        return Quote(file, line, column, _plain(text))

    def _lines(self, file: str) -> list[str]:
        """Return the lines of a source file, or []; of the module's only source if the file is not known."""
        if file not in self._known:
            if len(self._known) > _MOST_FILES:
                self._known.clear()
            self._known[file] = self._read(file)
        return self._known[file]

    def _read(self, file: str) -> list[str]:
        if file == PTX:
            return self._module.text.split("\n")
        if self._kept is None:
            key = f"<source of {hashlib.sha1(self._module.text.encode(), usedforsecurity=False).hexdigest()}>"
            self._kept = linecache.cache.get(key, ())
        kept = self._kept
        if len(kept) == 4 and (not file or os.path.basename(file) == os.path.basename(kept[3])):
            lines: list[str] = kept[2]
            return lines
        if not file or not _is_readable(file):
            return []
        try:
            with open(file, encoding="utf-8", errors="replace") as source:
                return [f"{each}\n" for each in source.read(_LARGEST).split("\n")]
        except OSError:
            return []


_DEFINES = re.compile(r"\s*(?:@!?%\w+\s+)?(?:mov|add|sub|mad|cvta|ld\.param)[\w.:]*\s+(%?[\w$]+)\s*,([^;]{0,200});")
_WORD = re.compile(r"%?[A-Za-z_$][\w$]*")


def _defined(lines: list[str], first: int) -> dict[str, set[str]]:
    """Return of which names each register of a function is calculated; the function begins at a line."""
    made: dict[str, set[str]] = {}
    for text in lines[first - 1 :]:
        if text.startswith("}"):
            break
        found = _DEFINES.match(text)
        if found is not None:
            made.setdefault(found[1], set()).update(_WORD.findall(found[2]))
    return made


def _is_readable(file: str) -> bool:
    """Tell whether a report may quote a file that the PTX names: the PTX is not trusted, so only a source.

    Neither is a link: what it leads to must have the name of a source, too.
    """
    try:
        if not file.lower().endswith(_SOURCES) or not os.path.realpath(file).lower().endswith(_SOURCES):
            return False
        found = os.stat(file)
    except (OSError, ValueError):
        return False
    return os.path.isabs(file) and stat.S_ISREG(found.st_mode) and found.st_size > 0


def _plain(text: str) -> str:
    """Return a line without the characters that a terminal would not print."""
    return "".join(each if each.isprintable() else " " for each in text.strip()[:_LONGEST])
