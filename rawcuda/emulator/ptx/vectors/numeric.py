"""The functions of the opcode table for arrays: each returns, for each element, what the scalar function returns.

A function has the name of the scalar one in ../running/ if the expression of a row calls it. All of them take NumPy
scalars as well as arrays.

Floating-point results are equal bit by bit. Sums, products, quotients and square roots of float32 are rounded once by
the hardware, as the scalar executor's second rounding is innocuous. An FMA of float32 is computed in double; the few
elements whose double result may be a midpoint of two float32 are computed again by the scalar function. So are the
elements of an approximation whose double result lies so near to a midpoint that another library could round it
differently.

Source       ../running/rounding.py, ../running/integers.py
Read next    running.py
"""

from __future__ import annotations

import math

import numpy as np

from ..running import rounding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    Array = Any

__all__ = ["NAMES"]

if int(np.__version__.split(".")[0]) < 2:  # its rules for types of mixed operands are others
    raise ImportError("NumPy 2.0 or later")

u1, u2, u4, u8 = np.uint8, np.uint16, np.uint32, np.uint64
i1, i2, i4, i8 = np.int8, np.int16, np.int32, np.int64
f2, f4, f8, b1 = np.float16, np.float32, np.float64, np.bool_
TRUE, FALSE = np.bool_(True), np.bool_(False)
_UNSIGNED = {1: u1, 2: u2, 4: u4, 8: u8}
_NAN_32 = u4(0x7FFFFFFF)
_TINY = f4(2.0**-126)
_ZERO, _ONE = f4(0), f4(1)
_LOW_28 = i8(0xFFFFFFF)
_NAN_64 = np.uint64(0x7FF8000000000000).view(f8)


# -- kinds


def _to(kind: Any) -> Callable[[Array], Array]:
    def to(value: Array) -> Array:
        have = value.dtype
        if have == kind:
            return value
        if kind().itemsize == have.itemsize and have.kind in "iu" and kind is not b1 and kind not in (f4, f8):
            return value.view(kind)
        return value.astype(kind)

    return to


def bits_32(value: Array) -> Array:
    """Return the bits of float32; every NaN is 0x7fffffff."""
    bits = value.view(u4)
    strange = value != value
    if strange.any():
        return np.where(strange, _NAN_32, bits) if value.ndim else _NAN_32
    return bits


def bits_64(value: Array) -> Array:
    """Return the bits of float64."""
    return value.view(u8)


def old_bits(value: Array, kind: Any) -> Array:
    """Return the low bits of a register of any kind, or zero if it has no value yet."""
    if value is None:
        return kind(0)
    if value.dtype.kind == "f":
        value = value.view(_UNSIGNED[value.dtype.itemsize])
    return value.astype(kind)


def part(value: Array, shift: int, kind: Any) -> Array:
    """Return bits from a position on."""
    return ((value >> value.dtype.type(shift)) if shift else value).astype(kind)


def packed_parts(kind: Any, bits: int, *parts: Array) -> Array:
    """Join parts, the lowest first."""
    made = parts[0].astype(kind)
    for at, each in enumerate(parts[1:], 1):
        made = made | each.astype(kind) << kind(bits * at)
    return made


def pick(condition: Array, yes: Array, no: Array) -> Array:
    """Return elements of one or the other."""
    if no is None:
        return yes
    if not condition.ndim:
        return yes if condition else no
    if yes.ndim == 2 or no.ndim == 2:
        return np.where(condition[:, None], yes, no)
    return np.where(condition, yes, no)


_NOBODY = np.empty(0, np.int64)


def selected(condition: Array, count: int) -> Array | None:
    """Return the indexes of the elements that are true; None stands for all."""
    if not condition.ndim:
        return None if condition else _NOBODY
    found = np.flatnonzero(condition)
    return None if len(found) == count else found


def spread(values: Array, places: Array | None, old: Array, count: int) -> Array:
    """Return old values, with others at some places."""
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


# -- parameters that are arrays


def blank(size: int) -> Array:
    """Return the bytes of an array before it has values."""
    return np.zeros((1, size), u1)


def put(memory: Array, offset: int, value: Array, count: int) -> Array:
    """Return the bytes of an array after a store."""
    width = value.dtype.itemsize
    rows = count if value.ndim or len(memory) > 1 else 1
    made = np.empty((rows, memory.shape[1]), u1)
    made[:] = memory
    made[:, offset : offset + width] = np.atleast_1d(value).view(u1).reshape(-1, width)
    return made


def got(memory: Array, offset: int, width: int) -> Array:
    """Return a part of an array as bits."""
    made = np.ascontiguousarray(memory[:, offset : offset + width]).view(_UNSIGNED[width])[:, 0]
    return made[0] if len(made) == 1 else made


# -- integers


def wide(value: Array) -> Array:
    """Return integers of twice the width."""
    return value.astype(np.dtype(f"{value.dtype.kind}{2 * value.dtype.itemsize}"))


def unsigned(value: Array) -> Array:
    """Return the bits of signed integers."""
    return value.view(_UNSIGNED[value.dtype.itemsize])


def high(a: Array, b: Array) -> Array:
    """Return the upper half of unsigned products."""
    width = a.dtype.itemsize
    if width < 8:
        product = wide(a) * wide(b)
        return (product >> product.dtype.type(8 * width)).astype(a.dtype)
    low, half = u8(0xFFFFFFFF), u8(32)
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
    made = high(a.view(u8), b.view(u8))
    return made - np.where(a < 0, b.view(u8), u8(0)) - np.where(b < 0, a.view(u8), u8(0))


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
    """Return the position above the highest set bit."""
    if a.dtype.itemsize < 8:
        return np.frexp(a.astype(f8))[1].astype(u4)
    above = (a >> u8(32)).astype(f8)
    below = (a & u8(0xFFFFFFFF)).astype(f8)
    return np.where(above > 0, np.frexp(above)[1] + 32, np.frexp(below)[1]).astype(u4)


def leading_zeros(a: Array, bits: int) -> Array:
    """Return the number of zeros above the highest set bit."""
    return u4(bits) - bit_lengths(a)


def count_bits(a: Array) -> Array:
    """Return the number of set bits."""
    return np.bitwise_count(a).astype(u4)


def find_bit(a: Array, bits: int, shiftamt: str) -> Array:
    """Return the highest set bit, or its distance from the top; all ones if there is none."""
    place = bit_lengths(a) - u4(1)
    return np.where(a == 0, u4(0xFFFFFFFF), u4(bits - 1) - place if shiftamt else place)


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
    return np.where(big, kind(0), a << np.where(big, u4(0), amount).astype(kind))


def shift_right(a: Array, amount: Array, bits: int, kind: Any) -> Array:
    """Shift right; signed integers repeat their sign."""
    if np.dtype(kind).kind == "i":
        return a >> np.minimum(amount, u4(bits - 1)).astype(kind)
    big = amount >= bits
    return np.where(big, kind(0), a >> np.where(big, u4(0), amount).astype(kind))


def field(a: Array, start: Array, length: Array) -> Array:
    """Extract a bit field (bfe)."""
    kind, bits = a.dtype.type, 8 * a.dtype.itemsize
    moved = shift_right(a, start & u4(0xFF), bits, kind)
    length = length & u4(0xFF)
    keep = shift_left(np.broadcast_to(kind(1), np.shape(length))[()], length, bits, kind) - kind(1)
    return moved & keep


def insert(a: Array, into: Array, start: Array, length: Array) -> Array:
    """Insert a bit field (bfi)."""
    kind, bits = a.dtype.type, 8 * a.dtype.itemsize
    start, length = start & u4(0xFF), length & u4(0xFF)
    keep = shift_left(np.broadcast_to(kind(1), np.shape(length))[()], length, bits, kind) - kind(1)
    cover = shift_left(keep, start, bits, kind)
    return into & ~cover | shift_left(a, start, bits, kind) & cover


def funnel(a: Array, b: Array, amount: Array, direction: str, mode: str) -> Array:
    """Shift the 64 bits b:a and return the upper (left) or the lower (right) half (shf)."""
    amount = np.minimum(amount, u4(32)) if mode == "clamp" else amount & u4(31)
    both = b.astype(u8) << u8(32) | a.astype(u8)
    by = amount.astype(u8)
    return (both << by >> u8(32) if direction == "l" else both >> by).astype(u4)


def permute(a: Array, b: Array, selector: Array, mode: str) -> Array:
    """Select four bytes of b:a (prmt)."""
    if mode:
        from ..running.integers import permute as scalar

        return each(lambda x, y, z: scalar(x, y, z, mode), u4, a, b, selector)
    both = b.astype(u8) << u8(32) | a.astype(u8)
    made: Array = u4(0)
    for place in range(4):
        picked = selector >> u4(4 * place)
        byte = both >> ((picked & u4(7)) << u4(3)).astype(u8) & u8(0xFF)
        sign = (picked & u4(8)) != 0
        if sign.any():
            byte = np.where(sign, np.where(byte & u8(0x80), u8(0xFF), u8(0)), byte)
        made = made | byte.astype(u4) << u4(8 * place)
    return made


def whole(value: Array, to: str, saturate: bool, kind: Any) -> Array:
    """Convert integers to another integer type, in registers of a kind."""
    bits = int(to[1:])
    if saturate:
        low, high_ = (0, (1 << bits) - 1) if to[0] == "u" else (-(1 << bits - 1), (1 << bits - 1) - 1)
        limits = np.iinfo(value.dtype)
        value = np.clip(value, value.dtype.type(max(low, limits.min)), value.dtype.type(min(high_, limits.max)))
    narrow = value.astype(np.dtype(f"{'i' if to[0] == 's' else 'u'}{bits // 8}"))
    return unsigned(narrow.astype(np.dtype(f"{'i' if to[0] == 's' else 'u'}{kind().itemsize}")))


# -- floats


def flushed(value: Array) -> Array:
    """Return float32 with subnormals flushed to zero."""
    small = np.abs(value) < _TINY
    return np.where(small, value * _ZERO, value) if small.any() else value


def saturated(value: Array) -> Array:
    """Limit floats to 0 to 1; a NaN becomes 0."""
    kind = value.dtype.type
    return np.where(value > 0, np.where(value > 1, kind(1), value), kind(0))


def fma_32(a: Array, b: Array, c: Array) -> Array:
    """Multiply and add float32 with one rounding."""
    x = a.astype(f8)
    if a.ndim:
        x *= b
        x += c
    else:
        x = x * b + c
    y = x.astype(f4)
    if not x.ndim:
        p, q, r = float(a), float(b), float(c)
        return f4(rounding.fma_midpoint(p, q, r, float(x))) if float(y) != float(x) else y
    low = x.view(i8)
    low &= _LOW_28
    if not low.all():  # at most 25 bits: perhaps a midpoint
        places = np.flatnonzero(low == 0)
        rows = [(value[places] if value.ndim else np.full(len(places), value)).astype(f8) for value in (a, b, c)]
        x = rows[0] * rows[1] + rows[2]
        short = (y[places] != x) & (x - x == 0.0)
        if short.any():  # as rounding.fma_midpoint: the error of the addition decides
            product = rows[0] * rows[1]
            rest_ = x - product
            error = (product - (x - rest_)) + (rows[2] - rest_)
            x = np.where(error > 0, np.nextafter(x, np.inf), np.where(error < 0, np.nextafter(x, -np.inf), x))
            y[places[short]] = x[short].astype(f4)
    return y


def fma_64(a: Array, b: Array, c: Array) -> Array:
    """Multiply and add float64 with one rounding."""
    a, b, c = np.broadcast_arrays(a, b, c) if a.ndim or b.ndim or c.ndim else (a, b, c)
    if not a.ndim:
        return f8(rounding.fma_64(float(a), float(b), float(c)))
    product = a * b
    x = a * 134217729.0
    a_high = x - (x - a)
    a_low = a - a_high
    x = b * 134217729.0
    b_high = x - (x - b)
    b_low = b - b_high
    low = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
    t = c + low
    x = t - c
    t_low = (c - (t - x)) + (low - x)
    v = product + t
    x = v - product
    v_low = (product - (v - x)) + (t - x)
    z = t_low + v_low
    x = z - t_low
    error = (t_low - (z - x)) + (v_low - x)
    odd = (error != 0) & ((z.view(i8) & 1) == 0)
    if odd.any():
        z = np.where(odd, np.nextafter(z, np.where(error > 0, np.inf, -np.inf)), z)
    made = v + z
    size, p, q, r = np.abs(product), np.abs(a), np.abs(b), np.abs(c)
    plain = (size > 1e-250) & (size < 1e250) & (p > 1e-200) & (p < 1e200) & (q > 1e-200) & (q < 1e200)
    plain &= (r == 0) | ((r > 1e-250) & (r < 1e250))
    if not plain.all():
        places = np.flatnonzero(~plain)
        made[places] = list(map(rounding.fma_64, a[places].tolist(), b[places].tolist(), c[places].tolist()))
    return made


def divide_double(a: Array, b: Array) -> Array:
    """Divide float64."""
    made = a / b
    none = (b == 0) & (made != made)
    return np.where(none, _NAN_64, made) if none.any() else made


def root(a: Array) -> Array:
    """Return square roots."""
    made = np.sqrt(a)
    none = made != made
    return np.where(none, made.dtype.type(np.nan), made) if none.any() else made


def reciprocal(a: Array) -> Array:
    """Return 1 / a."""
    return a.dtype.type(1) / a


def minimum(a: Array, b: Array) -> Array:
    """Return the smaller number, ignoring a NaN; -0 is smaller than +0."""
    equal = np.where(np.signbit(a), a, b)
    return np.where(a < b, a, np.where(b < a, b, np.where(a == b, equal, np.where(a != a, b, a))))


def maximum(a: Array, b: Array) -> Array:
    """Return the larger number, ignoring a NaN; +0 is larger than -0."""
    equal = np.where(np.signbit(a), b, a)
    return np.where(a > b, a, np.where(b > a, b, np.where(a == b, equal, np.where(a != a, b, a))))


def _strict(plain: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    def strict(a: Array, b: Array) -> Array:
        made = plain(a, b)
        none = (a != a) | (b != b)
        return np.where(none, made.dtype.type(np.nan), made) if none.any() else made

    return strict


def signs_multiplied(value: Array, a: Array, b: Array) -> Array:
    """Return values with the product of two signs."""
    return np.copysign(value, np.where(np.signbit(a) == np.signbit(b), value.dtype.type(1), value.dtype.type(-1)))


def to_integer(value: Array, mode: str, to: str, kind: Any) -> Array:
    """Convert floats to an integer type with saturation; a NaN becomes 0."""
    x = value.astype(f8)
    x = {"rzi": np.trunc, "rni": np.rint, "rmi": np.floor, "rpi": np.ceil}[mode](x)
    bits = int(to[1:])
    low, high_ = (0, (1 << bits) - 1) if to[0] == "u" else (-(1 << bits - 1), (1 << bits - 1) - 1)
    none = x != x
    sign = "i" if to[0] == "s" else "u"
    inner = np.dtype(f"{sign}{bits // 8}")
    over, under = x >= float(high_ + 1), x < float(low)
    safe = np.where(none | over | under, 0.0, x)
    made = safe.astype(np.dtype(f"{sign}8")).astype(inner)
    made = np.where(over, inner.type(high_), np.where(under, inner.type(low), made))
    return unsigned(made.astype(np.dtype(f"{sign}{kind().itemsize}")))


def to_whole(value: Array, mode: str) -> Array:
    """Round floats to integral values."""
    return {"rzi": np.trunc, "rni": np.rint, "rmi": np.floor, "rpi": np.ceil}[mode](value)


def narrowed(value: Array, mode: str) -> Array:
    """Round float64 to float32 with a directed rounding."""
    made = value.astype(f4)
    back = made.astype(f8)
    if mode == "rz":
        wrong = np.abs(back) > np.abs(value)
        to = np.zeros_like(made)
    elif mode == "rm":
        wrong, to = back > value, np.full_like(made, -np.inf)
    else:
        wrong, to = back < value, np.full_like(made, np.inf)
    wrong = wrong & np.isfinite(value)
    return np.where(wrong, np.nextafter(made, to), made)


def half_of_f16(value: Array) -> Array:
    """Round float32 to float16, as bits."""
    return np.where(value != value, u2(0x7FFF), value.astype(f2).view(u2))


def half_of_bf16(value: Array) -> Array:
    """Round float32 to bfloat16, as bits."""
    bits = value.view(u4)
    made = (bits + u4(0x7FFF) + (bits >> u4(16) & u4(1))) >> u4(16)
    return np.where(value != value, u2(0x7FFF), made.astype(u2))


def from_f16(bits: Array) -> Array:
    """Return the float32 of float16 bits; a NaN keeps its sign only."""
    made = bits.view(f2).astype(f4)
    none = made != made
    if none.any():
        return np.where(none, np.copysign(f4(np.nan), np.where(bits & u2(0x8000), f4(-1), f4(1))), made)
    return made


def from_bf16(bits: Array) -> Array:
    """Return the float32 of bfloat16 bits."""
    return (bits.astype(u4) << u4(16)).view(f4)


# -- approximations


def inverse_root(a: Array) -> Array:
    """Return 1 / sqrt(a) in double."""
    x = a.astype(f8)
    return 1.0 / np.sqrt(x, out=x if x.ndim else None)


def _approximation(
    fast: Callable[[Array], Array], exact: Callable[[float], float], usual: Callable[[Array], Array]
) -> Callable[[Array], Array]:
    """Return a function that rounds a double result to float32, and repeats doubtful elements with the scalar one."""

    def approximate(a: Array) -> Array:
        if not a.ndim:
            return np.array(exact(float(a))).astype(f4)[()]
        x = fast(a.astype(f8))
        bits = x.view(i8)
        near = np.abs((bits & 0x1FFFFFFF) - 0x10000000) < 64  # of the 29 bits that the rounding drops
        doubt = near | (np.abs(x) < 2.0**-124) | ~usual(a)
        made = x.astype(f4)
        if doubt.any():
            places = np.flatnonzero(doubt)
            made[places] = np.array(list(map(exact, a[places].tolist())), f8).astype(f4)
        return made

    return approximate


def _small(a: Array) -> Array:
    return np.abs(a) < 1e5


def _positive(a: Array) -> Array:
    return (a > 0) & (a < np.inf) & (np.abs(a - 1) > 1e-3)


def _of_exponent(a: Array) -> Array:
    return np.abs(a) < 120


sine = _approximation(np.sin, rounding.sine, _small)
cosine = _approximation(np.cos, rounding.cosine, _small)
binary_logarithm = _approximation(np.log2, rounding.binary_logarithm, _positive)
power_of_two = _approximation(np.exp2, rounding.power_of_two, _of_exponent)
tanh = _approximation(np.tanh, math.tanh, _small)

NAMES: dict[str, Any] = {
    "u1": u1, "u2": u2, "u4": u4, "u8": u8, "i1": i1, "i2": i2, "i4": i4, "i8": i8, "f4": f4, "f8": f8, "b1": b1,
    "TRUE": TRUE, "FALSE": FALSE, "where": np.where, "abs": np.abs, "copysign": np.copysign,
    "minimum_nan": _strict(minimum), "maximum_nan": _strict(maximum),
    **{f"to_{name}": _to(kind) for name, kind in
       (("u1", u1), ("u2", u2), ("u4", u4), ("u8", u8), ("f4", f4), ("f8", f8), ("b1", b1))},
}  # fmt: skip
for _each in (
    bits_32, bits_64, old_bits, part, packed_parts, pick, selected, spread, each, blank, put, got, wide, unsigned, high,
    high_signed, quotient, rest, divide, remainder, least, most, leading_zeros, count_bits, find_bit, reverse,
    shift_left, shift_right, field, insert, funnel, permute, whole, flushed, saturated, fma_32, fma_64, divide_double,
    root, reciprocal, minimum, maximum, signs_multiplied, to_integer, to_whole, narrowed, half_of_f16, half_of_bf16,
    from_f16, from_bf16, inverse_root,
):  # fmt: skip
    NAMES[_each.__name__] = _each
NAMES.update(sine=sine, cosine=cosine, binary_logarithm=binary_logarithm, power_of_two=power_of_two, tanh=tanh)
