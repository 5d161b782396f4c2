"""A progress bar for a loop: one line on a terminal or in a notebook, and lines of plain text elsewhere.

What it is   `progress`.
What not     it never disturbs the loop: if the output is closed or refuses a character, the loop continues silently.
Read next    commands/console.py
"""

from __future__ import annotations

import sys
from time import monotonic

from ..arguments import as_int
from ..errors import a_kind, shown, worded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

__all__ = ["progress"]

_WIDTH = 30  # columns of the bar
_INTERVAL = 0.1  # seconds between two changes of a line on a terminal
_STEPS = 10  # lines of plain text for a whole loop


class progress:
    """An iterable that yields the items of another one, and reports on sys.stderr how far the loop has come.

        for batch in progress(batches, label="upload"):
            ...

    total   the number of items, if the iterable has no len()
    label   a word in front of the bar
    raises  TypeError   not an iterable, a total that is not an int, or a label that is not a str
            ValueError  a negative total
    """

    def __init__(self, iterable: Any, total: int | None = None, *, label: str = "") -> None:
        if not any(hasattr(type(iterable), name) for name in ("__iter__", "__getitem__")):  # iter() may begin its work
            raise TypeError(f"progress() needs an iterable, not {a_kind(iterable)}")
        if total is None and hasattr(type(iterable), "__len__"):
            total = len(iterable)
        if total is not None:
            total = as_int("total", total)
            if total < 0:
                raise ValueError(f"total={worded(total)}: give the number of items, 0 or more")
        if not isinstance(label, str):
            raise TypeError(f"progress(label=...) must be a str, not {a_kind(label)}")
        self._iterable: Iterable[Any] = iterable
        self.total, self.label = total, label

    def __repr__(self) -> str:
        return f"<progress of {'an unknown number of' if self.total is None else self.total} items>"

    def __len__(self) -> int:
        if self.total is None:
            raise TypeError("the number of items is not known: give progress() a total=")
        return self.total

    def __length_hint__(self) -> int:
        return self.total or 0

    def __iter__(self) -> Iterator[Any]:
        line = _Line(self.total, self.label)
        try:
            yield from self._items(line)
        finally:
            line.end()

    def _items(self, line: _Line) -> Iterator[Any]:
        for item in self._iterable:
            yield item
            line.done += 1
            line.show(line.done)


class _Line:
    """What is printed: one line that is written again on a terminal, or some lines of text."""

    def __init__(self, total: int | None, label: str) -> None:
        self.total, self.label, self.out, self.done = total, shown(label), sys.stderr, 0
        self.live, self.begin, self.last, self.next = _is_live(self.out), monotonic(), 0.0, 1

    def show(self, done: int) -> None:
        """Report the number of items that are done, if the last report is old enough."""
        now = monotonic()
        if self.live:
            if now - self.last >= _INTERVAL:
                self.last = now
                self._write("\r" + self._text(done, now))
        elif done >= self.next and done != self.total:
            if self.total:
                self.next = done + max(1, self.total // _STEPS)
            else:
                self.next = 2 * done
            self._write(self._text(done, now) + "\n")

    def end(self) -> None:
        """Report the end of the loop."""
        self._write(("\r" if self.live else "") + self._text(self.done, monotonic()) + "\n")

    def _text(self, done: int, now: float) -> str:
        seconds = now - self.begin
        if seconds > 0:
            rate = f"{done / seconds:,.1f}/s"
        else:
            rate = ""
        if not self.total:
            parts = [self.label, f"{done}", f"{seconds:.1f} s", rate]
            return " ".join([part for part in parts if part])
        full = min(done * _WIDTH // self.total, _WIDTH)
        if self.live:
            bar = f"[{'#' * full}{'.' * (_WIDTH - full)}]"
        else:
            bar = ""
        parts = [self.label, bar, f"{100 * done // self.total:3d} %", f"{done}/{self.total}", f"{seconds:.1f} s", rate]
        return " ".join([part for part in parts if part])

    def _write(self, text: str) -> None:
        try:
            self.out.write(text)
            self.out.flush()
        except (OSError, ValueError, AttributeError, UnicodeError):  # closed, None, or without such characters
            self.live = False
            self.out = _Nowhere()


class _Nowhere:
    """An output that ignores what is written."""

    def write(self, text: str) -> None:
        """Ignore the text."""

    def flush(self) -> None:
        """Do nothing."""


def _is_live(out: Any) -> bool:
    """Tell whether "\\r" goes back to the beginning of the line: on a terminal, and in a notebook."""
    try:
        if out.isatty():
            return True
    except (AttributeError, ValueError):
        return False
    return type(out).__module__.partition(".")[0] == "ipykernel"
