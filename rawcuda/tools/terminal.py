"""What a terminal can show: its width, its colours, its characters.

What it is   `say`, by which commands print; `width`, `folded` and `columns`, for the form of what they print.
What not     it sends no codes to anything but a terminal, and no control characters of foreign text to anything.
Source       https://no-color.org and the practice of FORCE_COLOR
Read next    checking/check.py
"""

from __future__ import annotations

import os
import shutil
import sys

from ..errors import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

__all__ = ["colours", "columns", "folded", "narrow", "painted", "say", "width"]

_CODES = {"good": "32", "bad": "31;1", "quiet": "2", "strong": "1"}


def width(stream: Any = None) -> int:
    """Return the number of columns: those of the terminal, of COLUMNS, or else 100; never fewer than 20.

    units  characters
    """
    stream = stream or sys.stdout
    said = os.environ.get("COLUMNS", "")
    if said.isdecimal() and int(said):
        return max(int(said), 20)
    try:
        found = os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError, AttributeError):  # no terminal, closed, or no file at all
        found = 100
        if stream_is_terminal(stream):
            found = shutil.get_terminal_size((100, 24)).columns
    return max(found or 100, 20)  # some terminals say 0


def stream_is_terminal(stream: Any) -> bool:
    """Tell whether a stream is a terminal."""
    try:
        return bool(stream.isatty())
    except (AttributeError, ValueError):
        return False


def narrow(stream: Any = None) -> bool:
    """Tell whether the terminal is too narrow for a table of several columns."""
    return width(stream) < 72


def colours(stream: Any = None) -> bool:
    """Tell whether colours may be used: on a terminal, but not with NO_COLOR or TERM=dumb; always with FORCE_COLOR."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR", "") not in ("", "0"):
        return True
    stream = stream or sys.stdout
    can = sys.platform != "win32" or "WT_SESSION" in os.environ or "ANSICON" in os.environ
    return can and os.environ.get("TERM", "") != "dumb" and stream_is_terminal(stream)


def painted(text: str, kind: str, stream: Any = None) -> str:
    """Return a text in the colour of a kind ("good", "bad", "quiet" or "strong") if the stream shows colours."""
    text = shown(text)
    if text and colours(stream):
        return f"\033[{_CODES[kind]}m{text}\033[0m"
    return text


def say(*pieces: str | tuple[str, str], end: str = "\n", stream: Any = None, flush: bool = False) -> None:
    """Write a line to standard output, or to another stream, with the control characters of its text escaped.

    pieces  texts, which are joined; or (text, kind), which is shown in the colour of this kind as by painted()
    """
    stream = stream or sys.stdout
    line = "".join(shown(each) if isinstance(each, str) else painted(*each, stream) for each in pieces)
    print(line, end=end, file=stream, flush=flush)


def folded(text: str, indent: str = "", first: str | None = None, columns: int | None = None) -> str:
    """Return a text in lines that fit; long words such as paths are broken only where nothing else is possible."""
    import textwrap

    size = columns or width()
    made: list[str] = []
    if first is None:
        begin = indent
    else:
        begin = first
    for line in text.splitlines() or [""]:
        made += textwrap.wrap(
            line,
            max(size - 1, 10),
            initial_indent=begin,
            subsequent_indent=indent,
            break_long_words=size < 72,  # a path in one piece can be copied; a narrow terminal would break it, too
            break_on_hyphens=False,
        ) or [begin]
        begin = indent
    return "\n".join(made)


def columns(rows: Iterable[Sequence[str]], right: Iterable[int] = ()) -> list[str]:
    """Align cells in columns; those whose number is in `right` to the right. The last column may have any length."""
    table = [tuple(map(str, cells)) for cells in rows]
    to_right = {*right}
    widths = [max(map(len, cells)) for cells in zip(*table)]
    return [
        "  ".join(
            [
                cell.rjust(size) if at in to_right else cell.ljust(size)
                for at, (cell, size) in enumerate(zip(cells, widths))
            ]
        ).rstrip()
        for cells in table
    ]
