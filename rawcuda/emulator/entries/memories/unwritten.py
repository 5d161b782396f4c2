"""The check for copies to the host of device memory that was never written, with the word `initcheck`.

What it is   `checked`, which adds the check to the work of a copy.
What not     an error: programs may copy memory that they do not use, such as padding. So only the word turns the check
             on, and the copy is always done.
Source       Compute Sanitizer, "Initcheck Tool", whose reports say "Uninitialized access ... by cudaMemcpy source"
Read next    copies.py
"""

from __future__ import annotations

import sys

from ...space import say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from ...machine import Machine
    from ...space import Allocation
    from .copies import Box

__all__ = ["checked"]


def checked(
    machine: Machine, target: Box, source: Box, extents: tuple[int, int, int], work: Callable[[], None]
) -> Callable[[], None]:
    """Return the work of a copy; with `initcheck`, it first looks for bytes that were never written."""
    if not machine.space.copies or not target.is_host or source.allocation is None:
        return work
    name, site = _entry(), machine.caller()

    def copy() -> None:
        _look(machine, source, extents, name, site)
        work()

    return copy


def _entry() -> str:
    """Return the name of the function that the program called."""
    frame: Any = sys._getframe(2)
    while frame is not None and frame.f_code.co_name != "call_entry":
        frame = frame.f_back
    return str(frame.f_locals["name"]) if frame is not None else "a copy"


def _look(machine: Machine, source: Box, extents: tuple[int, int, int], name: str, site: str) -> None:
    """Report the bytes of a source that were never written, once for each line of the program."""
    first, missing = 0, 0
    for piece, begin, end in _ranges(source, extents):
        if piece.alive and piece.written is not None:
            count = piece.written.count(0, begin, end)
            first = first or count and piece.base + piece.written.find(0, begin, end)
            missing += count
    space, width = machine.space, extents[0]
    key = f"{name} at {site}", 0
    if not missing or key in space.told:
        return
    space.told.add(key)
    text = (
        f"initcheck: {name} copies {width * extents[1] * extents[2]} bytes to the host, of which {missing} were never "
        f"written, the first at {space.explain(first, 1)}" + (f"; the call is at {site}" if site else "")
    )
    space.warnings.append(text)
    say(text)


def _ranges(source: Box, extents: tuple[int, int, int]) -> Iterator[tuple[Allocation, int, int]]:
    """Yield each range of bytes that a copy reads: its allocation, and where it begins and ends there, in bytes."""
    width, height, depth = extents
    assert source.allocation is not None
    pieces = source.pieces or [source.allocation]
    for plane in range(depth):
        for row in range(height):
            at = source.start + plane * source.plane + row * source.pitch
            for piece in pieces:
                begin, end = max(at, piece.base) - piece.base, min(at + width, piece.base + piece.size) - piece.base
                if begin < end:
                    yield piece, begin, end
