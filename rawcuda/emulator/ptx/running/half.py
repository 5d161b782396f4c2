"""Half precision: float16 and bfloat16 as bits, one or two in a register; and other numbers that share a register.

Operands are converted to Python floats, which represent all of them exactly. Sums, differences and products are exact,
or innocuously rounded in double (53 >= 2 * 11 + 2), and are then rounded to the half format. FMA uses ratios.

Source       PTX ISA, "Half Precision Floating Point Instructions", "Mixed Precision Floating Point Instructions",
             "Floating Point Instructions" (.f32x2), "SIMD Video Instructions"; IEEE 754 binary16; bfloat16 is float32's
             upper half
Read next    rounding.py
"""

from __future__ import annotations

import math
import operator
import struct
from math import copysign, inf, nan

from .rounding import (
    NAN,
    TINY,
    bits_of_32,
    directed_add,
    directed_fma,
    directed_mul,
    directed_sub,
    float_of_32,
    maximum,
    maximum_nan,
    minimum,
    minimum_nan,
    power_of_two,
    round_ratio,
    signs_multiplied,
    to_integer_value,
    to_whole,
)  # fmt: skip

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

__all__ = [
    "byte_differences", "from_half", "half_add", "half_compare", "half_ex2", "half_fma", "half_max", "half_min",
    "half_mul",
    "half_sub", "half_tanh", "mixed_add", "mixed_fma", "mixed_sub", "pair_add", "pair_fma", "pair_mul", "pair_sub",
    "to_half",
    "to_integer",
]  # fmt: skip

# name: bits of precision, smallest normal exponent, largest exponent, bits of fraction
_FORMATS = {"f16": (11, -14, 15, 10), "bf16": (8, -126, 127, 7)}
_NAN = 0x7FFF
_pack_bits, _unpack_bits = struct.Struct("<H").pack, struct.Struct("<H").unpack
_pack_half, _unpack_half = struct.Struct("<e").pack, struct.Struct("<e").unpack
# the operators of setp: the comparison, and the result if an operand is a NaN
_COMPARED: dict[str, tuple[Callable[[float, float], bool], bool]] = {
    word: (getattr(operator, word[:2]), word.endswith("u"))
    for word in "eq ne lt le gt ge equ neu ltu leu gtu geu".split()
}
_COMPARED["num"] = (lambda x, y: True), False
_COMPARED["nan"] = (lambda x, y: False), True


def from_half(type: str, bits: int) -> float:
    """Return the number with these 16 bits; a NaN of float16 keeps its sign only."""
    if type == "bf16":
        return float_of_32(bits << 16)
    if bits & 0x7FFF > 0x7C00:  # from Python 3.14 on, struct keeps the other bits, too
        return copysign(nan, 1 - (bits >> 14 & 2))
    return _unpack_half(_pack_bits(bits))[0]  # type: ignore[no-any-return]


def to_half(type: str, source: str, value: float, mode: str, flags: str) -> int:
    """Round a number to a half and return its bits.

    shape   source: the type of value, which for a half is its bits; flags: any of sat, relu, satfinite
    """
    if source in _FORMATS:
        value = from_half(source, int(value))
    if value != value:
        return 0 if "relu" not in flags and flags[:4] == "sat" and "satfinite" not in flags else _NAN
    if flags:
        if "relu" in flags and value < 0.0:
            return 0
        if flags.split(",")[0] == "sat":
            value = min(value, 1.0) if value > 0.0 else 0.0
    if mode[-1] == "i":
        value, mode = to_whole(value, mode), "rn"
    bits = _encode(type, value, mode)
    if "satfinite" in flags and bits & 0x7FFF == _infinity(type):
        bits -= 1
    return bits


def _infinity(type: str) -> int:
    return 0x7C00 if type == "f16" else 0x7F80


def _encode(type: str, value: float, mode: str) -> int:
    if type == "f16" and mode == "rn" and abs(value) < 65520.0:
        return _unpack_bits(_pack_half(value))[0]  # type: ignore[no-any-return]
    sign = 0x8000 if copysign(1.0, value) < 0.0 else 0
    if math.isinf(value):
        return sign | _infinity(type)
    if not value:
        return sign
    top, bottom = (value, 1) if isinstance(value, int) else value.as_integer_ratio()
    return _of_ratio(type, top, bottom, mode, sign)


def _of_ratio(type: str, top: int, bottom: int, mode: str, sign: int) -> int:
    precision, least, most, fraction = _FORMATS[type]
    significand, exponent = round_ratio(top, bottom, precision, least, mode)
    size = abs(significand)
    if not size:
        return sign
    if size.bit_length() + exponent - 1 > most:
        away = mode == "rn" or mode == ("rm" if sign else "rp")
        return sign | (_infinity(type) if away else _infinity(type) - 1)
    if size.bit_length() < precision:
        if exponent == least - fraction:
            return sign | size  # subnormal
        shift = precision - size.bit_length()
        shift = min(shift, exponent - (least - fraction))
        size <<= shift
        exponent -= shift
        if size.bit_length() < precision:
            return sign | size
    elif size.bit_length() > precision:
        size >>= 1
        exponent += 1
    return sign | (exponent + fraction - least + 1 << fraction) + size - (1 << fraction)


def _each(type: str, flags: str, operation: Callable[..., int], *operands: int) -> int:
    """Apply an operation to the number or the two numbers in a register."""
    words = flags.split(",") if flags else []
    single = type[:-2] if type[-2:] == "x2" else type
    if single == type:
        return _one(single, words, operation, [x & 0xFFFF for x in operands])
    low = _one(single, words, operation, [x & 0xFFFF for x in operands])
    return _one(single, words, operation, [x >> 16 for x in operands]) << 16 | low


def _one(type: str, words: list[str], operation: Callable[..., int], operands: list[int]) -> int:
    if "ftz" in words:
        operands = [_flush(type, bits) for bits in operands]
    bits = operation(type, words, *operands)
    if bits & 0x7FFF > _infinity(type):
        bits = 0 if "sat" in words else _NAN
    elif words:
        if "ftz" in words:
            bits = _flush(type, bits)
        if "sat" in words:
            bits = 0 if bits & 0x8000 else min(bits, 0x3C00 if type == "f16" else 0x3F80)
        if "relu" in words and bits & 0x8000:
            bits = 0
    return bits


def _flush(type: str, bits: int) -> int:
    return bits & 0x8000 if bits & _infinity(type) == 0 else bits


def _computed(type: str, value: float) -> int:
    return _NAN if value != value else _encode(type, value, "rn")


def half_add(type: str, flags: str, a: int, b: int) -> int:
    """Add."""
    return _each(type, flags, lambda t, w, x, y: _computed(t, from_half(t, x) + from_half(t, y)), a, b)


def half_sub(type: str, flags: str, a: int, b: int) -> int:
    """Subtract."""
    return _each(type, flags, lambda t, w, x, y: _computed(t, from_half(t, x) - from_half(t, y)), a, b)


def half_mul(type: str, flags: str, a: int, b: int) -> int:
    """Multiply."""
    return _each(type, flags, lambda t, w, x, y: _computed(t, from_half(t, x) * from_half(t, y)), a, b)


def half_fma(type: str, flags: str, a: int, b: int, c: int) -> int:
    """Multiply and add with one rounding."""
    return _each(type, flags, _fma, a, b, c)


def _fma(type: str, words: list[str], a: int, b: int, c: int) -> int:
    x, y, z = from_half(type, a), from_half(type, b), from_half(type, c)
    if "oob" in words and _NAN in (a, b):
        return 0
    value = x * y + z
    if value != value or math.isinf(value) or not value:
        return _computed(type, value)
    (p, q), (r, s), (t, u) = x.as_integer_ratio(), y.as_integer_ratio(), z.as_integer_ratio()
    top = p * r * u + t * q * s
    return _of_ratio(type, top, q * s * u, "rn", 0x8000 if top < 0 else 0)


def half_min(type: str, flags: str, a: int, b: int) -> int:
    """Return the smaller number."""
    return _each(type, flags, lambda t, w, x, y: _extreme(t, w, minimum, minimum_nan, x, y), a, b)


def half_max(type: str, flags: str, a: int, b: int) -> int:
    """Return the larger number."""
    return _each(type, flags, lambda t, w, x, y: _extreme(t, w, maximum, maximum_nan, x, y), a, b)


def _extreme(
    type: str,
    words: list[str],
    plain: Callable[[float, float], float],
    strict: Callable[[float, float], float],
    a: int,
    b: int,
) -> int:
    x, y = from_half(type, a), from_half(type, b)
    pick = strict if "NaN" in words else plain
    if "xorsign" in words:
        return _computed(type, signs_multiplied(pick(abs(x), abs(y)), x, y))
    return _computed(type, pick(x, y))


def half_ex2(type: str, flags: str, a: int) -> int:
    """Return 2 ** a."""
    return _each(type, flags, lambda t, w, x: _computed(t, power_of_two(from_half(t, x))), a)


def half_tanh(type: str, flags: str, a: int) -> int:
    """Return tanh(a)."""
    return _each(type, flags, lambda t, w, x: _computed(t, math.tanh(from_half(t, x))), a)


def half_compare(type: str, cmp: str, a: int, b: int) -> bool:
    """Compare with an ordered or unordered operator of setp; `cmp` may end in ",ftz"."""
    if "," in cmp:
        cmp, a, b = cmp[:-4], _flush(type, a), _flush(type, b)
    x, y = from_half(type, a), from_half(type, b)
    compare, unordered = _COMPARED[cmp]
    return unordered if x != x or y != y else compare(x, y)


def to_integer(type: str, value: float, mode: str, to: str) -> int:
    """Convert a float to an integer type with saturation.

    A NaN becomes 0 if the source is not f64 and the result does not have 64 bits, else the highest bit alone.
    """
    if type in _FORMATS:
        value = from_half(type, int(value))
    bits = int(to[1:])
    if value != value:
        highest = 1 << bits - 1
        return 0 if type != "f64" and bits != 64 else highest if to[0] == "u" else -highest
    low, high = (0, (1 << bits) - 1) if to[0] == "u" else (-(1 << bits - 1), (1 << bits - 1) - 1)
    if value in (inf, -inf):
        return high if value > 0.0 else low
    return min(max(to_integer_value(value, mode), low), high)


# -- two float32 in 64 bits, a half and a float32, four bytes


def _flush_32(value: float) -> float:
    return value * 0.0 if -TINY < value < TINY else value


def _both(operation: Callable[..., float], mode: str, ftz: str, *operands: int) -> int:
    made = 0
    for shift in (32, 0):
        values = [float_of_32(bits >> shift & 0xFFFFFFFF) for bits in operands]
        if ftz:
            values = [_flush_32(value) for value in values]
        value = operation(32, mode or "rn", *values)
        if ftz:
            value = _flush_32(value)
        made = made << 32 | bits_of_32(value if value == value else NAN)
    return made


def pair_add(mode: str, ftz: str, a: int, b: int) -> int:
    """Add two float32 to two others."""
    return _both(directed_add, mode, ftz, a, b)


def pair_sub(mode: str, ftz: str, a: int, b: int) -> int:
    """Subtract two float32 from two others."""
    return _both(directed_sub, mode, ftz, a, b)


def pair_mul(mode: str, ftz: str, a: int, b: int) -> int:
    """Multiply two float32 with two others."""
    return _both(directed_mul, mode, ftz, a, b)


def pair_fma(mode: str, ftz: str, a: int, b: int, c: int) -> int:
    """Multiply and add two pairs of float32, each with one rounding."""
    return _both(directed_fma, mode, ftz, a, b, c)


def mixed_add(type: str, mode: str, a: int, c: float) -> float:
    """Add a half to a float32."""
    return directed_add(32, mode or "rn", from_half(type, a), c)


def mixed_sub(type: str, mode: str, a: int, c: float) -> float:
    """Subtract a float32 from a half."""
    return directed_sub(32, mode or "rn", from_half(type, a), c)


def mixed_fma(type: str, mode: str, a: int, b: int, c: float) -> float:
    """Multiply two halves and add a float32, with one rounding."""
    return directed_fma(32, mode, from_half(type, a), from_half(type, b), c)


def byte_differences(a: int, b: int, c: int, first: str, second: str, add: str) -> int:
    """Return the absolute differences of four bytes, or their sum with a number (vabsdiff4)."""
    made, total = 0, c
    for shift in (24, 16, 8, 0):
        x, y = a >> shift & 0xFF, b >> shift & 0xFF
        x = x - (x >> 7 << 8) if first[0] == "s" else x
        y = y - (y >> 7 << 8) if second[0] == "s" else y
        made = made << 8 | abs(x - y) & 0xFF
        total += abs(x - y)
    return total & 0xFFFFFFFF if add else made
