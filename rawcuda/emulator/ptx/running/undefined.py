"""Undefined values on their way through a kernel, and the mark that each one carries.

What it is   `Mark`, which a register has beside an undefined value and which knows where the value comes from;
             `Parts`, the marks of the parts of a packed register; `Undefined`, by which a thread learns that a value is
             undefined; `Marked`, such a value on its way to another lane.

A value is undefined if it was read from memory or from a register that was never written, or from a lane that takes no
part in a shuffle, or if it was computed from such a value. That is no error, as long as nothing depends on it:
compilers compute values and drop them with a select. So it is reported where it matters, see `Launch.reaches`. A value
that was only copied from memory or a register may be stored, since programs copy padding.

The code of a thread does not look for marks. When the first undefined value arises, `Undefined` interrupts it, and the
thread continues in the form of its function that moves the marks along: see ../translating/tracking.py.

Source       Compute Sanitizer, "Initcheck Tool"; PTX ISA, "shfl.sync"; N. Nethercote and J. Seward, "How to Shadow
             Every Byte of Memory Used by a Program" (2007)
Read next    ../translating/tracking.py
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from ..checking.history import Found

__all__ = ["Mark", "Marked", "Parts", "Undefined", "joined", "part_of"]


class Mark:
    """The mark of an undefined value.

    found     the report, with the place where the value was read
    counts    whether a store of the value is reported, because it was not only copied
    where     the address, the number of bytes and the state space, if the report has no words yet
    computed  the mark of what is computed from the value
    """

    __slots__ = ("found", "counts", "where", "computed")

    def __init__(self, found: Found, counts: bool, where: tuple[int, int, str] = (0, 0, "")) -> None:
        self.found = found
        self.counts = counts
        self.where = where
        self.computed: Mark = self if counts else Mark(found, True, where)


class Parts(Mark):
    """The marks of the parts of a register, lowest first."""

    __slots__ = ("parts",)

    def __init__(self, parts: Sequence[Mark | None]) -> None:
        some = [each for each in parts if each is not None]
        first = next((each for each in some if each.counts), some[0])
        super().__init__(first.found, first.counts, first.where)
        self.parts = parts


class Marked:
    """An undefined value that a lane offers in a shuffle."""

    __slots__ = ("value", "mark")

    def __init__(self, value: Any, mark: Mark) -> None:
        self.value = value
        self.mark = mark


class Undefined(Exception):
    """The exception by which a thread learns of an undefined value.

    marks   the marks of the values that the instruction gives, or none if the instruction must be run again
    answer  these values
    """

    def __init__(self, marks: Sequence[Mark | None] = (), answer: Any = None) -> None:
        super().__init__()
        self.marks = marks
        self.answer = answer


def part_of(mark: Mark | None, at: int, count: int) -> Mark | None:
    """Return the mark of one of `count` parts of a register."""
    if isinstance(mark, Parts) and len(mark.parts) == count:
        return mark.parts[at]
    return mark


def joined(*marks: Mark | None) -> Mark | None:
    """Return the mark of a register that is packed from parts, lowest first."""
    return Parts(marks) if any(marks) else None
