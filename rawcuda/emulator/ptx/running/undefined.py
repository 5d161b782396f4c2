"""Undefined values on their way through a kernel, and the mark that each one carries.

What it is   `Mark`, which a register has beside an undefined value and which knows where the value comes from;
             `Parts`, the marks of some bits of a register, whose other bits are defined; `Undefined`, by which a thread
             learns that a value is undefined; `Marked`, such a value on its way to another lane.

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

    Range = tuple[int, int, "Mark"]

__all__ = ["Mark", "Marked", "Parts", "Undefined", "both", "carried", "chosen", "computed", "joined", "raised", "taken"]


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
    """The marks of ranges of bits; the other bits of the register are defined.

    ranges    tuples: the lowest bit, the bit after the highest one, the mark
    computed  the mark of what is computed from the register: all of that is undefined
    """

    __slots__ = ("ranges",)

    def __init__(self, ranges: Sequence[Range]) -> None:
        first = next((each for _, _, each in ranges if each.counts), ranges[0][2])
        super().__init__(first.found, first.counts, first.where)
        self.computed = first.computed
        self.ranges = ranges


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


# -- the marks of bits: compilers pack registers, and take only the defined bits out of them


def joined(bits: int, *marks: Mark | None) -> Mark | None:
    """Return the mark of a register that is packed from parts of so many bits, lowest first."""
    return _parts([each for at, mark in enumerate(marks) for each in _within(mark, 0, bits, at * bits)])


def taken(mark: Mark | None, low: int, high: int, extend: int = 0) -> Mark | None:
    """Return the mark of the bits from `low` to `high`, excluding `high`, which are moved down to bit 0.

    extend  the number of bits of the result that repeat the highest one, as a sign
    """
    if not isinstance(mark, Parts):
        return mark
    top = high - low
    return _parts([(a, b + extend if b == top else b, each) for a, b, each in _within(mark, low, high, 0)])


def raised(mark: Mark | None, by: int, bits: int) -> Mark | None:
    """Return the mark of a register of so many bits that is shifted to the left."""
    if isinstance(mark, Parts):
        return _parts(_within(mark, 0, max(bits - by, 0), by))
    return mark


def chosen(mark: Mark | None, bits: int) -> Mark | None:
    """Return the mark of those bits of a register that are 1 in `bits`; the others are not used."""
    if not isinstance(mark, Parts):
        if bits:
            return mark
        return None
    return _parts([(a, b, each) for a, b, each in mark.ranges if bits >> a & (1 << b - a) - 1])


def both(*marks: Mark | None) -> Mark | None:
    """Return the mark of a register, each of whose bits is made of the same bits of several registers."""
    return next((each for each in marks if each and not isinstance(each, Parts)), None) or _parts(
        [each for mark in marks for each in _within(mark, 0, 64, 0)]
    )


def computed(mark: Mark | None) -> Mark | None:
    """Return the mark of a value whose bits were only moved, but which counts as computed."""
    if not isinstance(mark, Parts):
        return mark and mark.computed
    return Parts([(a, b, each.computed) for a, b, each in mark.ranges])


def carried(*marks: Mark | None) -> Mark | None:
    """Return the mark of a sum or product, in which a bit depends on those below it."""
    mark = both(*marks)
    if not isinstance(mark, Parts):
        return mark and mark.computed
    return Parts([(mark.ranges[0][0], 64, mark.computed)])


def _within(mark: Mark | None, low: int, high: int, at: int) -> list[Range]:
    """Return the undefined ranges of the bits from `low` to `high`, which are moved to bit `at`."""
    if mark is None or high <= low:
        return []
    if isinstance(mark, Parts):
        ranges = mark.ranges
    else:
        ranges = ((low, high, mark),)
    return [(max(a, low) - low + at, min(b, high) - low + at, each) for a, b, each in ranges if a < high and b > low]


def _parts(ranges: list[Range]) -> Parts | None:
    """Return the mark of ranges of bits; where they overlap, that of the one that begins first counts."""
    found: list[Range] = []
    end = 0
    for a, b, each in sorted(ranges, key=_first):
        if b > end:
            found.append((max(a, end), b, each))
            end = b
    if found:
        return Parts(found)
    return None


def _first(range: Range) -> tuple[int, bool]:
    return range[0], not range[2].counts
