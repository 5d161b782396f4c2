"""The functions of the opcode table for arrays of integers and of bits, and those that move values.

A function has the name of the scalar one in ../running/ if the expression of a row calls it. All of them take NumPy
scalars as well as arrays.

Source       ../running/integers.py
Read next    floats.py
"""

from __future__ import annotations

from ..running.integers import SELECTORS
from .late_numpy import np

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    Array = Any

__all__ = [
    "bit_mask", "bits_32", "bits_64", "blank", "canonical", "carried_sum", "count_bits", "divide", "each", "field",
    "find_bit", "find_nth", "funnel", "got", "high", "high_signed", "insert", "leading_zeros", "least", "limited",
    "most", "old_bits", "packed", "packed_parts", "part", "permute", "pick", "put", "quotient", "remainder", "rest",
    "reverse", "selected", "shift_left", "shift_right", "sign_extend", "signed24", "signed_field", "spread", "unsigned",
    "whole", "wide", "zero_extend",
]  # fmt: skip


# -- kinds


def bits_32(value: Array) -> Array:
    """Return the bits of float32; every NaN is 0x7fffffff."""
    bits = value.view(np.u4)
    strange = value != value
    if strange.any():
        if value.ndim:
            return np.where(strange, np.u4(0x7FFFFFFF), bits)
        return np.u4(0x7FFFFFFF)
    return bits


def canonical(value: Array) -> Array:
    """Return float32 in which every NaN is 0x7fffffff."""
    return bits_32(value).view(np.f4)


def bits_64(value: Array) -> Array:
    """Return the bits of float64."""
    return value.view(np.u8)


def old_bits(value: Array, kind: Any) -> Array:
    """Return the low bits of a register of any kind, or zero if it has no value yet."""
    if value is None:
        return kind(0)
    if value.dtype.kind == "f":
        value = value.view(np.UNSIGNED[value.dtype.itemsize])
    return value.astype(kind)


def part(value: Array, shift: int, kind: Any) -> Array:
    """Return the bits from a position on."""
    return ((value >> value.dtype.type(shift)) if shift else value).astype(kind)


def packed_parts(kind: Any, bits: int, *parts: Array) -> Array:
    """Join parts, the lowest first."""
    made = parts[0].astype(kind)
    for at, each in enumerate(parts[1:], 1):
        made = made | each.astype(kind) << kind(bits * at)
    return made


def pick(condition: Array, yes: Array, no: Array) -> Array:
    """Return elements of `yes` where the condition is true, and of `no` elsewhere."""
    if no is None:
        return yes
    if not condition.ndim:
        if condition:
            return yes
        return no
    if yes.ndim == 2 or no.ndim == 2:
        return np.where(condition[:, None], yes, no)
    return np.where(condition, yes, no)


def selected(condition: Array, count: int) -> Array | None:
    """Return the indexes of the elements that are true; None means all."""
    if not condition.ndim:
        if condition:
            return None
        return np.empty(0, np.i8)
    found = np.flatnonzero(condition)
    if len(found) == count:
        return None
    return found


def spread(values: Array, places: Array | None, old: Array, count: int) -> Array:
    """Return old values with new ones at some places; places None means all."""
    if places is None:
        return values
    made = np.empty(count, values.dtype)
    made[:] = old
    made[places] = values
    return made


def each(function: Callable[..., Any], kind: Any, *values: Array) -> Array:
    """Call a scalar function for each thread."""
    size = 0
    for value in values:
        if value.ndim:
            size = len(value)
    if not size:
        return kind(function(*(value.item() for value in values)))
    if len(values) == 1:
        return np.fromiter(map(function, values[0].tolist()), kind, size)
    lists = [value.tolist() if value.ndim else [value.item()] * size for value in values]
    return np.fromiter(map(function, *lists), kind, size)


# -- parts of registers


def parts(kind: Any, *values: Array) -> list[Array]:
    """Return registers as arrays of their parts: those of the first thread, those of the second, and so on."""
    width = kind().itemsize
    if values[0].dtype.itemsize == width:
        return [value.view(kind) for value in values]
    count = max(len(value) if value.ndim else 1 for value in values)
    return [(np.ascontiguousarray(value) if value.ndim else np.full(count, value)).view(kind) for value in values]


def joined(made: Array, *operands: Array) -> Array:
    """Return the registers with these parts; they are the same for all threads if the operands are."""
    kind = operands[0].dtype
    if made.dtype.itemsize == kind.itemsize:
        return made
    made = made.view(kind)
    if any(operand.ndim for operand in operands):
        return made
    return made[0]


class Known:
    """A function of 16 bits that is called once for each of the numbers that occur."""

    def __init__(self, function: Callable[[int], int], kind: Any) -> None:
        self._function = function
        self._results, self._known = np.zeros(1 << 16, kind), np.zeros(1 << 16, bool)

    def of(self, bits: Array) -> Array:
        """Return the results for numbers."""
        known = np.take(self._known, bits, mode="wrap")
        if not known.all():
            new = np.unique(np.atleast_1d(bits)[~np.atleast_1d(known)])
            self._results[new] = list(map(self._function, new.tolist()))
            self._known[new] = True
        return np.take(self._results, bits, mode="wrap")


# -- parameters that are arrays


def blank(size: int) -> Array:
    """Return the bytes of an array before it has values."""
    return np.zeros((1, size), np.u1)


def put(memory: Array, offset: int, value: Array, count: int) -> Array:
    """Return the bytes of an array after a store."""
    width = value.dtype.itemsize
    if value.ndim or len(memory) > 1:
        rows = count
    else:
        rows = 1
    made = np.empty((rows, memory.shape[1]), np.u1)
    made[:] = memory
    made[:, offset : offset + width] = np.atleast_1d(value).view(np.u1).reshape(-1, width)
    return made


def got(memory: Array, offset: int, width: int) -> Array:
    """Return a part of an array as bits."""
    made = np.ascontiguousarray(memory[:, offset : offset + width]).view(np.UNSIGNED[width])[:, 0]
    if len(made) == 1:
        return made[0]
    return made


# -- integers


def wide(value: Array) -> Array:
    """Return integers of twice the width."""
    return value.astype(np.dtype(f"{value.dtype.kind}{2 * value.dtype.itemsize}"))


def unsigned(value: Array) -> Array:
    """Return the bits of signed integers."""
    return value.view(np.UNSIGNED[value.dtype.itemsize])


def high(a: Array, b: Array) -> Array:
    """Return the upper half of unsigned products."""
    width = a.dtype.itemsize
    if width < 8:
        product = wide(a) * wide(b)
        return (product >> product.dtype.type(8 * width)).astype(a.dtype)
    low, half = np.u8(0xFFFFFFFF), np.u8(32)
    a0, a1, b0, b1_ = a & low, a >> half, b & low, b >> half
    middle = a1 * b0 + (a0 * b0 >> half)
    other = a0 * b1_ + (middle & low)
    return a1 * b1_ + (middle >> half) + (other >> half)


def high_signed(a: Array, b: Array) -> Array:
    """Return the upper half of signed products, as unsigned bits."""
    if a.dtype.itemsize < 8:
        bits = 8 * a.dtype.itemsize
        product = wide(a) * wide(b)
        return unsigned((product >> product.dtype.type(bits)).astype(a.dtype))
    made = high(a.view(np.u8), b.view(np.u8))
    return made - np.where(a < 0, b.view(np.u8), np.u8(0)) - np.where(b < 0, a.view(np.u8), np.u8(0))


def quotient(a: Array, b: Array) -> Array:
    """Divide; a division by zero returns all ones."""
    zero = b == 0
    if zero.any():
        return np.where(zero, ~a.dtype.type(0), a // np.where(zero, b.dtype.type(1), b))
    return a // b


def rest(a: Array, b: Array) -> Array:
    """Return the remainder; of a division by zero, the dividend."""
    zero = b == 0
    if zero.any():
        return np.where(zero, a, a % np.where(zero, b.dtype.type(1), b))
    return a % b


def divide(a: Array, b: Array) -> Array:
    """Divide signed integers, rounding towards zero."""
    size = quotient(unsigned(np.abs(a)), unsigned(np.abs(b)))
    made = np.where((a < 0) == (b < 0), size, (~size) + size.dtype.type(1))
    return np.where(b == 0, ~size.dtype.type(0), made)


def remainder(a: Array, b: Array) -> Array:
    """Return the remainder with the dividend's sign."""
    size = rest(unsigned(np.abs(a)), unsigned(np.abs(b)))
    made = np.where(a < 0, (~size) + size.dtype.type(1), size)
    return np.where(b == 0, unsigned(a), made)


def least(a: Array, b: Array) -> Array:
    """Return the smaller integer."""
    return np.minimum(a, b)


def most(a: Array, b: Array) -> Array:
    """Return the larger integer."""
    return np.maximum(a, b)


def bit_lengths(a: Array) -> Array:
    """Return the position above the highest set bit, or 0 for 0."""
    if a.dtype.itemsize < 8:
        return np.frexp(a.astype(np.f8))[1].astype(np.u4)
    above = (a >> np.u8(32)).astype(np.f8)
    below = (a & np.u8(0xFFFFFFFF)).astype(np.f8)
    return np.where(above > 0, np.frexp(above)[1] + 32, np.frexp(below)[1]).astype(np.u4)


def leading_zeros(a: Array, bits: int) -> Array:
    """Return the number of zeros above the highest set bit."""
    return np.u4(bits) - bit_lengths(a)


def count_bits(a: Array) -> Array:
    """Return the number of set bits."""
    return np.bitwise_count(a).astype(np.u4)


def find_bit(a: Array, bits: int, shiftamt: str) -> Array:
    """Return the position of the highest set bit, or its distance from the top; all ones for 0."""
    place = bit_lengths(a) - np.u4(1)
    return np.where(a == 0, np.u4(0xFFFFFFFF), np.u4(bits - 1) - place if shiftamt else place)


def reverse(a: Array, bits: int) -> Array:
    """Reverse the order of the bits."""
    kind = a.dtype.type
    full = (1 << bits) - 1
    shift = bits // 2
    while shift:
        keep = kind(full // ((1 << shift) + 1))
        a = (a >> kind(shift)) & keep | (a & keep) << kind(shift)
        shift //= 2
    return a


def shift_left(a: Array, amount: Array, bits: int, kind: Any) -> Array:
    """Shift left; by the width or more, the result is zero."""
    big = amount >= bits
    return np.where(big, kind(0), a << np.where(big, np.u4(0), amount).astype(kind))


def shift_right(a: Array, amount: Array, bits: int, kind: Any) -> Array:
    """Shift right; signed integers repeat their sign."""
    if np.dtype(kind).kind == "i":
        return a >> np.minimum(amount, np.u4(bits - 1)).astype(kind)
    big = amount >= bits
    return np.where(big, kind(0), a >> np.where(big, np.u4(0), amount).astype(kind))


def field(a: Array, start: Array, length: Array) -> Array:
    """Extract a bit field (bfe)."""
    kind, bits = a.dtype.type, 8 * a.dtype.itemsize
    moved = shift_right(a, start & np.u4(0xFF), bits, kind)
    length = length & np.u4(0xFF)
    keep = shift_left(np.broadcast_to(kind(1), np.shape(length))[()], length, bits, kind) - kind(1)
    return moved & keep


def insert(a: Array, into: Array, start: Array, length: Array) -> Array:
    """Insert a bit field (bfi)."""
    kind, bits = a.dtype.type, 8 * a.dtype.itemsize
    start, length = start & np.u4(0xFF), length & np.u4(0xFF)
    keep = shift_left(np.broadcast_to(kind(1), np.shape(length))[()], length, bits, kind) - kind(1)
    cover = shift_left(keep, start, bits, kind)
    return into & ~cover | shift_left(a, start, bits, kind) & cover


def funnel(a: Array, b: Array, amount: Array, direction: str, mode: str) -> Array:
    """Shift the 64 bits b:a and return the upper (left) or the lower (right) half (shf)."""
    if mode == "clamp":
        amount = np.minimum(amount, np.u4(32))
    else:
        amount = amount & np.u4(31)
    both = b.astype(np.u8) << np.u8(32) | a.astype(np.u8)
    by = amount.astype(np.u8)
    return (both << by >> np.u8(32) if direction == "l" else both >> by).astype(np.u4)


def permute(a: Array, b: Array, selector: Array, mode: str) -> Array:
    """Select four bytes of b:a (prmt)."""
    if mode:
        selector = np.take(np.array(SELECTORS[mode], np.u4), selector & np.u4(3))
    both = b.astype(np.u8) << np.u8(32) | a.astype(np.u8)
    made: Array = np.u4(0)
    for place in range(4):
        picked = selector >> np.u4(4 * place)
        byte = both >> ((picked & np.u4(7)) << np.u4(3)).astype(np.u8) & np.u8(0xFF)
        sign = (picked & np.u4(8)) != 0
        if sign.any():
            byte = np.where(sign, np.where(byte & np.u8(0x80), np.u8(0xFF), np.u8(0)), byte)
        made = made | byte.astype(np.u4) << np.u4(8 * place)
    return made


def limited(value: Array, type: str, kind: Any) -> Array:
    """Limit wide integers to those of a type, and return them as bits of a kind."""
    low, high_ = limits(type)
    return np.minimum(np.maximum(value, value.dtype.type(low)), value.dtype.type(high_)).astype(kind)


def limits(type: str) -> tuple[int, int]:
    """Return the smallest and the largest number of an integer type."""
    bits = int(type[1:])
    if type[0] == "u":
        return (0, (1 << bits) - 1)
    return (-(1 << bits - 1), (1 << bits - 1) - 1)


def carried_sum(a: Array, b: Array, carry: Array) -> tuple[Array, Array]:
    """Add unsigned numbers and a carry; return the sum, and the carry out of it."""
    kind = a.dtype.type
    made = a + b
    over = made < a
    total = made + carry.astype(kind)
    return total, (over | (total < made)).astype(np.u1)


def signed24(a: Array) -> Array:
    """Read the low 24 bits as signed integers of 64 bits."""
    return ((a.view(np.i4) << np.i4(8)) >> np.i4(8)).astype(np.i8)


def signed_field(a: Array, start: Array, length: Array) -> Array:
    """Extract a bit field and extend its sign; above the top the sign bit repeats (bfe.s32, bfe.s64)."""
    kind, bits = a.dtype.type, 8 * a.dtype.itemsize
    length = length & np.u4(0xFF)
    moved = shift_right(a, start & np.u4(0xFF), bits, kind)
    unused = (np.u4(bits) - np.minimum(np.maximum(length, np.u4(1)), np.u4(bits))).astype(kind)
    return np.where(length == 0, kind(0), moved << unused >> unused)


def bit_mask(start: Array, length: Array, mode: str) -> Array:
    """Return a mask of consecutive ones (bmsk)."""
    if mode == "wrap":
        start, length = start & np.u4(31), length & np.u4(31)
    start, length = (np.minimum(value, np.u4(32)).astype(np.u8) for value in (start, length))
    return (((np.u8(1) << length) - np.u8(1)) << start).astype(np.u4)


def zero_extend(a: Array, length: Array, mode: str) -> Array:
    """Return the low bits, zero-extended (szext.u32)."""
    if mode == "wrap":
        length = length & np.u4(31)
    else:
        length = np.minimum(length, np.u4(32))
    return a & ((np.u8(1) << length.astype(np.u8)) - np.u8(1)).astype(np.u4)


def sign_extend(a: Array, length: Array, mode: str) -> Array:
    """Return the low bits, sign-extended (szext.s32)."""
    if mode == "wrap":
        length = length & np.u4(31)
    else:
        length = np.minimum(length, np.u4(32))
    return unsigned(signed_field(a.view(np.i4), np.u4(0), length))


def find_nth(a: Array, start: Array, offset: Array) -> Array:
    """Return the position of the offset-th set bit from bit start on, upwards or downwards (fns)."""
    offset = offset.view(np.i4)
    down = offset < 0
    inside = start < 32
    from_ = np.where(inside, start, np.u4(0))
    bits = np.where(down, reverse(a, 32), a) >> np.where(down, np.u4(31) - from_, from_)
    bits = np.where(offset == 0, bits & np.u4(1), bits)
    left = np.where(offset == 0, np.u4(1), np.where(down, np.i4(0) - offset, offset).view(np.u4))
    inside = inside & (left <= count_bits(bits))
    place: Array = np.u4(0)
    for half in (16, 8, 4, 2, 1):
        found = count_bits(bits & np.u4((1 << half) - 1))
        above = left > found
        left = np.where(above, left - found, left)
        bits = np.where(above, bits >> np.u4(half), bits)
        place = place + np.where(above, np.u4(half), np.u4(0))
    return np.where(inside, np.where(down, from_ - place, from_ + place), np.u4(0xFFFFFFFF))


def packed(type: str, above: Array, a: Array, b: Array) -> Array:
    """Saturate two signed numbers and pack them below the bits of a third (cvt.pack)."""
    bits = int(type[1:])
    one, other = (limited(value, type, np.i4).view(np.u4) & np.u4((1 << bits) - 1) for value in (a, b))
    return (above << np.u4(2 * bits) if bits < 16 else np.u4(0)) | one << np.u4(bits) | other


def whole(value: Array, to: str, saturate: bool, kind: Any) -> Array:
    """Convert integers to another integer type, in registers of a kind."""
    bits = int(to[1:])
    if saturate:
        if to[0] == "u":
            low, high_ = (0, (1 << bits) - 1)
        else:
            low, high_ = (-(1 << bits - 1), (1 << bits - 1) - 1)
        limits = np.iinfo(value.dtype)
        value = np.clip(value, value.dtype.type(max(low, limits.min)), value.dtype.type(min(high_, limits.max)))
    narrow = value.astype(np.dtype(f"{'i' if to[0] == 's' else 'u'}{bits // 8}"))
    return unsigned(narrow.astype(np.dtype(f"{'i' if to[0] == 's' else 'u'}{kind().itemsize}")))
