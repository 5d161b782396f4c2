"""The places of PTX lines in the source that they were compiled from, and the text of these lines.

What it is   `place_of`, for the words "ptx line 30 (kernel.cu:4)"; `texts_of_line`, for the line itself. The text comes
             from the compiler, which keeps each source under a hash of the PTX that it made from the source. If it is
             not there, it comes from the file that `.loc` names, and otherwise from the PTX.
Read next    ../running/report.py
"""

from __future__ import annotations

import hashlib
import linecache
import os
import stat
from bisect import bisect_right

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..reading.syntax import Module

__all__ = ["place_of", "texts_of_line"]

_LONGEST = 160
_LARGEST = 16 << 20  # bytes of a source file


def _location(line: int, module: Module) -> tuple[int, int, int] | None:
    """Return the .loc that a PTX line belongs to, if its file is known; line 0 means that there is no line."""
    first = max((each.line for each in module.functions.values() if each.line <= line), default=0)
    at = bisect_right(module.locations, (line, 1 << 64, 0)) - 1
    while at >= 0 and not module.locations[at][2]:
        at -= 1
    found = module.locations[at] if at >= 0 else None
    return found if found is not None and found[0] >= first and found[1] in module.files else None


def place_of(line: int, module: Module) -> str:
    """Return the words for a line of the PTX, with the source line from .loc."""
    found = _location(line, module)
    if found is None:
        return f"ptx line {line}"
    file, number = found[1:]
    inlined = module.inlined.get(found[0])
    more = f", inlined at {module.files[inlined[0]]}:{inlined[1]}" if inlined and inlined[0] in module.files else ""
    return f"ptx line {line} ({module.files[file]}:{number}{more})"


def texts_of_line(line: int, module: Module) -> list[str]:
    """Return the source line of a PTX line and the one into which it was inlined, or else the PTX line."""
    found = _location(line, module)
    texts = []
    if found is not None:
        for file, number in (found[1:], module.inlined.get(found[0], (0, 0))):
            text = _text(module, module.files.get(file, ""), number)
            if text:
                texts.append(f"{os.path.basename(module.files[file])}:{number} | {text}")
    if not texts:
        lines = module.text.split("\n", line)
        text = _plain(" ".join(lines[line - 1].split())) if 0 < line <= len(lines) else ""
        texts = [f"ptx line {line} | {text}"] if text else []
    return texts


def _text(module: Module, file: str, number: int) -> str:
    """Return a line of a source file, or ""."""
    if not file:
        return ""
    key = f"<source of {hashlib.sha1(module.text.encode(), usedforsecurity=False).hexdigest()}>"
    kept = linecache.cache.get(key)
    if kept is not None and len(kept) == 4 and os.path.basename(file) == os.path.basename(kept[3]):
        lines = kept[2]
        text = lines[number - 1] if 0 < number <= len(lines) else ""
    else:
        text = linecache.getline(file, number) if _is_readable(file) else ""
    return _plain(text)


def _is_readable(file: str) -> bool:
    """Tell whether a report may quote a file that the PTX names; the PTX is not trusted."""
    try:
        found = os.stat(file)
    except (OSError, ValueError):
        return False
    return os.path.isabs(file) and stat.S_ISREG(found.st_mode) and 0 < found.st_size <= _LARGEST


def _plain(text: str) -> str:
    """Return a line without the characters that a terminal would not print."""
    return "".join(each if each.isprintable() else " " for each in text.strip()[:_LONGEST])
