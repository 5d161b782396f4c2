"""The check for copies to the host of device memory that was never written.

What it is   `checked`, which adds the check to the work of a copy.
What not     an error: programs may copy memory that they do not use, such as padding. So the copy is always done. It is
             reported if nothing of the memory was ever written, and with the word `initcheck` also if only a part was.
Source       Compute Sanitizer, "Initcheck Tool", whose reports say "Uninitialized access ... by cudaMemcpy source"
Read next    copy_entries.py
"""

from __future__ import annotations

import sys

from ...machine.reports import Report
from ...machine.space import say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from ...machine.machine import Machine
    from ...machine.space import Allocation
    from .copy_entries import Box

__all__ = ["checked"]


def checked(
    machine: Machine, target: Box, source: Box, extents: tuple[int, int, int], work: Callable[[], None]
) -> Callable[[], None]:
    """Return the work of a copy that first looks for bytes that were never written, if there can be any."""
    if not target.is_host or source.allocation is None or not machine.space.watch:
        return work
    if all(piece.written is None for piece in source.pieces or [source.allocation]):
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
    if frame is not None:
        return str(frame.f_locals["name"])
    return "a copy"


def _look(machine: Machine, source: Box, extents: tuple[int, int, int], name: str, site: str) -> None:
    """Report the bytes of a source that were never written, once for each line of the program."""
    missing, held, at = 0, source.allocation, 0  # the first of the missing bytes is `at` bytes into `held`
    for piece, begin, end in _ranges(source, extents):
        if piece.alive and piece.written is not None:
            count = piece.written.count(0, begin, end)
            if count and not missing:
                held, at = piece, piece.written.find(0, begin, end)
            missing += count
    space, width = machine.space, extents[0]
    key = f"{name} at {site}", 0
    total = width * extents[1] * extents[2]
    if not missing or missing < total and not space.copies or key in space.told:
        return
    space.told.add(key)
    assert held is not None
    first, found = held.base + at, space.find(held.base + at)
    if found is held:
        place, words = space.whereabouts(first, 1), space.explain(first, 1)
    else:
        place = words = f"byte {at} of the {held.size} bytes of a CUDA array, whose order is the device's own"
    if found is None:
        hint = ""
    else:
        hint = space.missed(found)
    if not hint and missing < total:
        hint = "; a kernel whose grid is too small, or too small in one dimension, leaves a part unwritten"
    text = (
        f"initcheck: {name} copies {total} bytes to the host, of which {missing} were never "
        f"written, the first at {words}{hint}" + (f"; the call is at {site}" if site else "")
    )
    report = Report(text, checker="initcheck", address=first, allocation=place)
    (space.warnings if space.copies else machine.reports).append(report)
    say(report)


def _ranges(source: Box, extents: tuple[int, int, int]) -> Iterator[tuple[Allocation, int, int]]:
    """Yield each range of bytes that a copy reads: its allocation, and where it begins and ends there, in bytes."""
    width, height, depth = extents
    assert source.allocation is not None
    for plane in range(depth):
        for row in range(height):
            at = source.start - source.allocation.base + plane * source.plane + row * source.pitch
            if source.joined is None:
                yield source.allocation, at, at + width
            else:
                for piece, begin, end, _ in source.joined.parts(at, at + width):
                    yield piece, begin, end
