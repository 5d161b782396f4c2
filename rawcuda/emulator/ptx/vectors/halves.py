"""The arithmetic of halves for arrays: float16 and bfloat16, one or two in a register, and two float32 in 64 bits.

A register of two halves is an array of 32-bit numbers; its view as 16-bit numbers has both halves of all threads, one
after the other, and one operation computes them all. A result is rounded once. Sums of halves are innocuously rounded
in float32 (24 >= 2 * 11 + 2). Where a first rounding could lose on which side of a midpoint a result lies, it is a
rounding to odd: the last bit of an inexact result is 1, so the second rounding sees that it is inexact.

Functions have the names of those in ../running/half.py, and the same results to the bit.

Source       ../running/half.py; S. Boldo and G. Melquiond, "Emulation of a FMA and correctly rounded sums: proved
             algorithms using rounding to odd" (2008)
Read next    lanes.py
"""

from __future__ import annotations

from ..running.half import HALVES
from .directed import directed_add, directed_fma, directed_mul, directed_sub
from .floats import flushed, from_bf16, from_f16
from .late_numpy import np
from .numeric import Known, bits_32, joined, parts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    Array = Any

__all__ = [
    "from_half", "half_add", "half_compare", "half_ex2", "half_fma", "half_max", "half_min", "half_mul", "half_sub",
    "half_tanh", "mixed_add", "mixed_fma", "mixed_sub", "pair_add", "pair_compare", "pair_fma", "pair_mul", "pair_sub",
    "to_half",
]  # fmt: skip

_NAN = 0x7FFF
_INFINITY = {"f16": 0x7C00, "bf16": 0x7F80}
_ONE = {"f16": 0x3C00, "bf16": 0x3F80}
_tables: dict[tuple[str, str], Known] = {}


# -- conversions


def from_half(type: str, bits: Array) -> Array:
    """Return the float32 with these 16 bits."""
    if type == "f16":
        return from_f16(bits)
    return from_bf16(bits)


def odd_32(value: Array, error: Array | None = None) -> Array:
    """Round float64 to float32, to odd, and return the bits.

    shape   error: what the rounding to float64 lost, or None if it lost nothing
    """
    near = value.astype(np.f4)
    rest = value - near
    if error is not None:
        rest += error
    return _made_odd(near, rest)


def _made_odd(near: Array, rest: Array) -> Array:
    """Return the bits of a float32, rounded to odd instead of to nearest, from the rest that the rounding dropped."""
    above = rest > 0
    inexact = above | (rest < 0)  # not for a NaN
    bits = near.view(np.u4)
    return bits - (inexact & (above == np.signbit(near))) | inexact


def rounded(type: str, bits: Array, mode: str = "rn") -> Array:
    """Round the bits of float32, which may be rounded to odd, to halves; every NaN is 0x7fff."""
    size = bits & np.u4(0x7FFFFFFF)
    sign = (bits >> np.u4(16)).astype(np.u2) & np.u2(0x8000)
    if type == "f16":
        made = _rounded_16(size, sign, mode)
    else:
        made = (size + _extra(size, sign, 16, mode) >> np.u4(16)).astype(np.u2)
    made |= sign
    none = size > 0x7F800000
    if none.any():
        return np.where(none, np.u2(_NAN), made)
    return made


def _away(sign: Array, mode: str) -> Array:
    """Tell which inexact numbers a directed rounding rounds away from zero."""
    if mode == "rz":
        return np.FALSE
    return (sign != 0) == (mode == "rm")


def _extra(size: Array, sign: Array, dropped: int, mode: str) -> Array:
    """Return what is added before the last bits are dropped."""
    if mode == "rn":
        return (size >> np.u4(dropped) & np.u4(1)) + np.u4((1 << dropped - 1) - 1)
    return np.where(_away(sign, mode), np.u4((1 << dropped) - 1), np.u4(0))


def _rounded_16(size: Array, sign: Array, mode: str) -> Array:
    """Return the bits of float16 without their signs."""
    made = size + _extra(size, sign, 13, mode) - np.u4(112 << 23) >> np.u4(13)
    small = size < 0x38800000  # below 2 ** -14: multiples of 2 ** -24
    if small.any():
        if mode == "rn":
            whole = (size.view(np.f4) + np.f4(0.5)).view(np.u4) - np.u4(0x3F000000)  # the last bit of 0.5 is 2 ** -24
        else:
            scaled = size.view(np.f4) * np.f4(2.0**24)
            below = np.floor(scaled)
            whole = (below + ((scaled > below) & _away(sign, mode))).astype(np.u4)
        made = np.where(small, whole, made)
    large = size >= (0x477FF000 if mode == "rn" else 0x47800000)
    if large.any():
        if mode == "rn":
            infinite = np.TRUE
        else:
            infinite = _away(sign, mode) | (size == 0x7F800000)
        made = np.where(large, np.where(infinite, np.u4(0x7C00), np.u4(0x7BFF)), made)
    return made.astype(np.u2)


def to_half(type: str, source: str, value: Array, mode: str, flags: str) -> Array:
    """Round numbers to halves and return their bits.

    shape   source: the type of the values, which for a half is their bits; flags: any of sat, relu, satfinite
    """
    if source in _INFINITY:
        value = from_half(source, value)
    number = value
    if value.dtype.kind != "f":
        number = (_odd_53(value) if value.dtype.itemsize == 8 else value).astype(np.f8)
    whole = number
    if mode[-1] == "i":
        whole, mode = {"rzi": np.trunc, "rni": np.rint, "rmi": np.floor, "rpi": np.ceil}[mode](number), "rn"
    made = rounded(type, whole.view(np.u4) if whole.dtype == np.f4 else odd_32(whole), mode)
    if flags:
        words = flags.split(",")
    else:
        words = []
    if "satfinite" in words:
        made = np.where((made & np.u2(0x7FFF)) == _INFINITY[type], made - np.u2(1), made)
    if "relu" in words:
        made = np.where(number < 0, np.u2(0), made)
    elif words[:1] == ["sat"]:
        made = np.where(number > 0, np.minimum(made, np.u2(_ONE[type])), np.u2(0))
    return made


def _odd_53(value: Array) -> Array:
    """Shorten 64-bit integers to 53 bits, rounded to odd."""
    kind = value.dtype.type
    above = value >> kind(53)
    low = value & kind(0x7FF)
    short = value - low | (low != 0).astype(kind) << kind(11)
    return np.where((above == 0) | (above == kind(0) - kind(1)) & (value.dtype.kind == "i"), value, short)


# -- arithmetic


def _each(type: str, flags: str, operation: Callable[..., Array], *operands: Array) -> Array:
    """Apply an operation to the halves of all registers."""
    if flags:
        words = flags.split(",")
    else:
        words = []
    if type[-2:] == "x2":
        kind = type[:-2]
    else:
        kind = type
    given = parts(np.u2, *operands)
    if "ftz" in words:
        given = [_flushed(kind, bits) for bits in given]
    bits = operation(kind, words, *given)
    if "ftz" in words:
        bits = _flushed(kind, bits)
    if "sat" in words:  # a number with a sign is at least 0x8000
        bits = np.where(bits > _INFINITY[kind], np.u2(0), np.minimum(bits, np.u2(_ONE[kind])))
    if "relu" in words:
        bits = np.where(bits & np.u2(0x8000), np.u2(0), bits)
    return joined(bits, *operands)


def _flushed(type: str, bits: Array) -> Array:
    return np.where(bits & np.u2(_INFINITY[type]), bits, bits & np.u2(0x8000))


def _two(operation: Callable[[Array, Array], Array]) -> Callable[..., Array]:
    """Return an operation on two halves that is exact or innocuously rounded in float32."""

    def compute(type: str, words: list[str], a: Array, b: Array) -> Array:
        return rounded(type, operation(from_half(type, a), from_half(type, b)).view(np.u4))

    return compute


_sum, _difference = _two(lambda x, y: x + y), _two(lambda x, y: x - y)


def _product(type: str, words: list[str], a: Array, b: Array) -> Array:
    x, y = from_half(type, a), from_half(type, b)
    if type == "f16":
        return rounded(type, (x * y).view(np.u4))
    return rounded(type, odd_32(x.astype(np.f8) * y))  # float32 may underflow


def _fused(type: str, words: list[str], a: Array, b: Array, c: Array) -> Array:
    x, y, z = from_half(type, a), from_half(type, b), from_half(type, c)
    if type == "bf16":
        x = x.astype(np.f8)
    product = x * y  # exactly
    near = product + z
    part = near - product
    error = (product - (near - part)) + (z - part)
    made = rounded(type, _made_odd(near, error) if type == "f16" else odd_32(near, error))
    if "oob" in words:
        made = np.where((a == _NAN) | (b == _NAN), np.u2(0), made)
    return made


def _keys(type: str, bits: Array, of_nan: int) -> Array:
    """Return integers in the order of the numbers; the function is its own inverse."""
    made = bits.view(np.i2)
    made = made ^ (made >> np.i2(15) & np.i2(0x7FFF))
    none = (bits & np.u2(0x7FFF)) > _INFINITY[type]
    if none.any():
        return np.where(none, np.i2(of_nan), made)
    return made


def _extreme(smaller: bool) -> Callable[..., Array]:
    """Return the operation that finds the smaller or the larger number."""

    def pick(type: str, words: list[str], a: Array, b: Array) -> Array:
        if "xorsign" in words:
            given = [a & np.u2(0x7FFF), b & np.u2(0x7FFF)]
        else:
            given = [a, b]
        if smaller != ("NaN" in words):
            of_nan = 0x7FFF
        else:
            of_nan = -0x8000
        keys = [_keys(type, bits, of_nan) for bits in given]
        made = (np.minimum if smaller else np.maximum)(*keys)
        made = (made ^ (made >> np.i2(15) & np.i2(0x7FFF))).view(np.u2)
        if "xorsign" in words:
            made = made & np.u2(0x7FFF) | (a ^ b) & np.u2(0x8000)
        none = (made & np.u2(0x7FFF)) > _INFINITY[type]
        if none.any():
            return np.where(none, np.u2(_NAN), made)
        return made

    return pick


_smaller, _larger = _extreme(True), _extreme(False)


def _known(name: str) -> Callable[..., Array]:
    """Return an operation on one half by the scalar function, which is called once for each of its numbers."""

    def find(type: str, words: list[str], a: Array) -> Array:
        table = _tables.get((name, type))
        if table is None:
            table = _tables[name, type] = Known(HALVES[f"{name} {type} "], np.u2)
        return table.of(a)

    return find


_power, _tangent = _known("ex2"), _known("tanh")


def half_add(type: str, flags: str, a: Array, b: Array) -> Array:
    """Add."""
    return _each(type, flags, _sum, a, b)


def half_sub(type: str, flags: str, a: Array, b: Array) -> Array:
    """Subtract."""
    return _each(type, flags, _difference, a, b)


def half_mul(type: str, flags: str, a: Array, b: Array) -> Array:
    """Multiply."""
    return _each(type, flags, _product, a, b)


def half_fma(type: str, flags: str, a: Array, b: Array, c: Array) -> Array:
    """Multiply and add with one rounding."""
    return _each(type, flags, _fused, a, b, c)


def half_min(type: str, flags: str, a: Array, b: Array) -> Array:
    """Return the smaller numbers."""
    return _each(type, flags, _smaller, a, b)


def half_max(type: str, flags: str, a: Array, b: Array) -> Array:
    """Return the larger numbers."""
    return _each(type, flags, _larger, a, b)


def half_ex2(type: str, flags: str, a: Array) -> Array:
    """Return 2 ** a."""
    return _each(type, flags, _power, a)


def half_tanh(type: str, flags: str, a: Array) -> Array:
    """Return tanh(a)."""
    return _each(type, flags, _tangent, a)


# -- comparisons

_FUNCTIONS = {
    "eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal",
}  # fmt: skip


def _compared(type: str, cmp: str, a: Array, b: Array) -> Array:
    if "," in cmp:
        cmp, a, b = cmp[:-4], _flushed(type, a), _flushed(type, b)
    sizes = a & np.u2(0x7FFF), b & np.u2(0x7FFF)
    none = (sizes[0] > _INFINITY[type]) | (sizes[1] > _INFINITY[type])
    if cmp in ("num", "nan"):
        if cmp == "nan":
            return none
        return ~none
    numbers = []
    for bits, size in zip((a, b), sizes):  # whole numbers in the order of the halves; both zeros are 0
        sign = bits.view(np.i2) >> np.i2(15)
        numbers.append((size.view(np.i2) ^ sign) - sign)
    made = getattr(np, _FUNCTIONS[cmp[:2]])(*numbers)
    if cmp.endswith("u"):
        return made | none
    return made & ~none


def half_compare(type: str, cmp: str, a: Array, b: Array) -> Array:
    """Compare with an ordered or unordered operator of setp; `cmp` may end in ",ftz"."""
    return _compared(type, cmp, a, b)


def pair_compare(type: str, cmp: str, a: Array, b: Array) -> tuple[Array, Array]:
    """Compare the lower and the upper halves of registers."""
    made = _compared(type, cmp, *parts(np.u2, a, b))
    if a.ndim or b.ndim:
        return (made[0::2], made[1::2])
    return (made[0], made[1])


# -- two float32 in 64 bits, a half and a float32


def _both(operation: Callable[..., Array], mode: str, ftz: str, *operands: Array) -> Array:
    given = parts(np.f4, *operands)
    if ftz:
        given = [flushed(value) for value in given]
    made = operation(32, mode or "rn", *given)
    return joined(bits_32(flushed(made) if ftz else made), *operands)


def pair_add(mode: str, ftz: str, a: Array, b: Array) -> Array:
    """Add two float32 to two others."""
    return _both(directed_add, mode, ftz, a, b)


def pair_sub(mode: str, ftz: str, a: Array, b: Array) -> Array:
    """Subtract two float32 from two others."""
    return _both(directed_sub, mode, ftz, a, b)


def pair_mul(mode: str, ftz: str, a: Array, b: Array) -> Array:
    """Multiply two float32 with two others."""
    return _both(directed_mul, mode, ftz, a, b)


def pair_fma(mode: str, ftz: str, a: Array, b: Array, c: Array) -> Array:
    """Multiply and add two pairs of float32, each with one rounding."""
    return _both(directed_fma, mode, ftz, a, b, c)


def mixed_add(type: str, mode: str, a: Array, c: Array) -> Array:
    """Add halves to float32."""
    return directed_add(32, mode or "rn", from_half(type, a), c)


def mixed_sub(type: str, mode: str, a: Array, c: Array) -> Array:
    """Subtract float32 from halves."""
    return directed_sub(32, mode or "rn", from_half(type, a), c)


def mixed_fma(type: str, mode: str, a: Array, b: Array, c: Array) -> Array:
    """Multiply two halves and add a float32, with one rounding."""
    x, y = from_half(type, a), from_half(type, b)
    product = x * y
    size = np.abs(product)
    if type == "f16" or ((size > 2.0**-100) & (size < np.inf)).all():  # the product is exact
        return directed_add(32, mode, product, c)
    return directed_fma(32, mode, x, y, c)
