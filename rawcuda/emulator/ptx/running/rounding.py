"""Exact floating-point arithmetic in Python.

Python has one type of float, binary64. An operation on float32 is computed in double, and rounded a second time by
storing it in four bytes. For add, subtract, multiply, divide and square root the result is exact: 53 >= 2 * 24 + 2, so
the first rounding never loses on which side of a float32 midpoint the true result lies. There is no such bound for FMA,
where the first rounding can produce a midpoint. The midpoint is recognized (it has at most 25 bits, so splitting at 25
bits leaves it unchanged), and the error of the addition decides the direction.

Directed roundings and special cases use integers: a result is a ratio, and `round_ratio` rounds ratios.

Source       S. Figueroa, "When is double rounding innocuous?" (1995); S. Boldo and G. Melquiond, "Emulation of a FMA
             and correctly rounded sums: proved algorithms using rounding to odd" (2008); PTX ISA, "Floating-Point
             Instructions"
Read next    half.py
"""

from __future__ import annotations

import math
import struct
from math import copysign, inf, isinf, ldexp, nan, nextafter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "INF", "NAN", "SPLIT", "T4", "TINY", "binary_logarithm", "bits_of_32", "bits_of_64", "coarse_inverse_root",
    "coarse_quotient", "coarse_reciprocal", "copied_bits_of_32", "cosine", "directed_add", "directed_cvt",
    "directed_div", "directed_fma", "directed_mul", "directed_rcp", "directed_sqrt", "directed_sub",
    "divide_by_zero", "float_of_32", "float_of_64", "fma_64", "fma_midpoint", "inverse_root", "inverse_root_64",
    "maximum", "maximum_nan", "minimum", "minimum_nan", "power_of_two", "root_of_other", "round_ratio",
    "signs_multiplied", "sine", "test_property", "to_integer_value", "to_tf32", "to_whole", "whole_to_single",
]  # fmt: skip

INF = inf
# the NaN of float32 operations on a GPU, 0x7fffffff, as a double that rounds to it
NAN: float = struct.unpack("<d", struct.pack("<Q", 0x7FFFFFFFE0000000))[0]
TINY = 2.0**-126  # the smallest normal float32
SPLIT = 2.0**28 + 1.0  # x * SPLIT - (x * SPLIT - x) keeps 25 bits of x

_cell4 = bytearray(4)
T4 = memoryview(_cell4).cast("f")  # a store rounds to float32, a load returns the result
_I4 = memoryview(_cell4).cast("I")
_cell8 = bytearray(8)
_T8 = memoryview(_cell8).cast("d")
_I8 = memoryview(_cell8).cast("Q")

_FORMATS = {32: (24, -126, 127), 64: (53, -1022, 1023)}


def bits_of_32(value: float) -> int:
    """Return a float32's bits."""
    if value != value:
        return 0x7FFFFFFF
    T4[0] = value
    return _I4[0]


def copied_bits_of_32(value: float) -> int:
    """Return the bits of a float32 whose NaN keeps its bits."""
    T4[0] = value
    return _I4[0]


def float_of_32(bits: int) -> float:
    """Return the float32 with these bits."""
    _I4[0] = bits
    return T4[0]


def bits_of_64(value: float) -> int:
    """Return a float64's bits."""
    _T8[0] = value
    return _I8[0]


def float_of_64(bits: int) -> float:
    """Return the float64 with these bits."""
    _I8[0] = bits
    return _T8[0]


# -- rounding a ratio


def round_ratio(numerator: int, denominator: int, precision: int, least: int, mode: str) -> tuple[int, int]:
    """Round numerator / denominator to `precision` bits: the signed significand and its exponent.

    shape   mode: rn, rz, rm, rp; least: the smallest exponent of a normal number; denominator > 0
    """
    size = abs(numerator)
    if not size:
        return 0, 0
    negative = numerator < 0
    exponent = max(size.bit_length() - denominator.bit_length() - precision, least - precision + 1)
    while True:
        if exponent >= 0:
            unit = denominator << exponent
            quotient, rest = divmod(size, unit)
        else:
            unit = denominator
            quotient, rest = divmod(size << -exponent, unit)
        if quotient.bit_length() <= precision:
            break
        exponent += 1
    if mode == "rn":
        up = 2 * rest > unit or (2 * rest == unit and quotient & 1 == 1)
    else:
        up = rest != 0 and mode == ("rm" if negative else "rp")
    quotient += up
    return (-quotient if negative else quotient), exponent


def _float(numerator: int, denominator: int, bits: int, mode: str) -> float:
    """Round a ratio to float32 or float64, as a Python float; overflow as the mode requires."""
    precision, least, most = _FORMATS[bits]
    significand, exponent = round_ratio(numerator, denominator, precision, least, mode)
    if significand.bit_length() + exponent - 1 > most:
        negative = significand < 0
        if mode == "rn" or mode == ("rm" if negative else "rp"):
            if negative:
                return -inf
            return inf
        return copysign(ldexp((1 << precision) - 1, most - precision + 1), significand)
    value = ldexp(significand, exponent)
    if not significand and numerator < 0:
        return -0.0
    return value


def _finite(*values: float) -> bool:
    return all(value - value == 0.0 for value in values)


def directed_add(bits: int, mode: str, a: float, b: float) -> float:
    """Add with a directed rounding."""
    if not _finite(a, b):
        return a + b
    (p, q), (r, s) = a.as_integer_ratio(), b.as_integer_ratio()
    top = p * s + r * q
    if not top:
        if a == 0.0 == b and copysign(1.0, a) == copysign(1.0, b):
            return a
        if mode == "rm":
            return -0.0
        return 0.0
    return _float(top, q * s, bits, mode)


def directed_sub(bits: int, mode: str, a: float, b: float) -> float:
    """Subtract with a directed rounding."""
    return directed_add(bits, mode, a, -b)


def directed_mul(bits: int, mode: str, a: float, b: float) -> float:
    """Multiply with a directed rounding."""
    if not _finite(a, b) or not a or not b:
        return a * b
    (p, q), (r, s) = a.as_integer_ratio(), b.as_integer_ratio()
    return _float(p * r, q * s, bits, mode)


def directed_div(bits: int, mode: str, a: float, b: float) -> float:
    """Divide with a directed rounding."""
    if not b:
        return divide_by_zero(a, b)
    if not _finite(a, b) or not a:
        return a / b
    (p, q), (r, s) = a.as_integer_ratio(), b.as_integer_ratio()
    top, bottom = p * s, q * r
    made = _float(top if bottom > 0 else -top, abs(bottom), bits, mode)
    if not made:
        return copysign(made, copysign(1.0, a) * copysign(1.0, b))
    return made


def directed_rcp(bits: int, mode: str, a: float) -> float:
    """Divide 1 with a directed rounding."""
    return directed_div(bits, mode, 1.0, a)


def directed_sqrt(bits: int, mode: str, a: float) -> float:
    """Take a square root with a directed rounding."""
    if not a > 0.0 or isinf(a):
        if not a >= 0.0:
            return root_of_other(a)
        return a
    top, bottom = a.as_integer_ratio()
    # sqrt(top / bottom) = sqrt(top * bottom) / bottom, with 64 bits to spare and a sticky last one
    spare = max(0, 2 * (64 + bottom.bit_length()) - top.bit_length())
    spare += spare & 1
    scaled = top * bottom << spare
    root = math.isqrt(scaled)
    return _float(2 * root + (root * root != scaled), bottom << spare // 2 + 1, bits, mode)


def directed_fma(bits: int, mode: str, a: float, b: float, c: float) -> float:
    """Multiply and add with a single rounding in any mode."""
    if not _finite(a, b, c):
        if _finite(a, b):
            return c
        return a * b + c
    (p, q), (r, s), (t, u) = a.as_integer_ratio(), b.as_integer_ratio(), c.as_integer_ratio()
    top = p * r * u + t * q * s
    if not top:
        sign = copysign(1.0, a) * copysign(1.0, b)
        if (not a or not b) and not c and sign == copysign(1.0, c):
            return c
        if mode == "rm":
            return -0.0
        return 0.0
    return _float(top, q * s * u, bits, mode)


def directed_cvt(bits: int, mode: str, value: int | float) -> float:
    """Convert an integer or a float with a directed rounding."""
    if isinstance(value, float):
        if not value or not _finite(value):
            return value
        return _float(*value.as_integer_ratio(), bits, mode)
    return _float(value, 1, bits, mode)


# -- fused multiply and add


def fma_midpoint(a: float, b: float, c: float, x: float) -> float:
    """Round a float32 FMA whose sum in double, x, is a midpoint of two float32: the error of the addition decides."""
    product = a * b
    if x - x != 0.0:
        return x
    part = x - product
    error = (product - (x - part)) + (c - part)
    if error:
        x = nextafter(x, inf if error > 0.0 else -inf)
    T4[0] = x
    return T4[0]


def _fma_64(a: float, b: float, c: float) -> float:
    product = a * b
    if not 1e-250 < abs(product) < 1e250 or not 1e-200 < abs(a) < 1e200 or not 1e-200 < abs(b) < 1e200:
        return directed_fma(64, "rn", a, b, c)
    if not (c == 0.0 or 1e-250 < abs(c) < 1e250):
        return directed_fma(64, "rn", a, b, c)
    # a * b = product + low, exactly (Dekker)
    x = a * 134217729.0
    a_high = x - (x - a)
    a_low = a - a_high
    x = b * 134217729.0
    b_high = x - (x - b)
    b_low = b - b_high
    low = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
    # c + low = t + t_low and product + t = v + v_low, exactly (Knuth)
    t = c + low
    x = t - c
    t_low = (c - (t - x)) + (low - x)
    v = product + t
    x = v - product
    v_low = (product - (v - x)) + (t - x)
    # the sum of the two errors, rounded to odd, decides the last rounding
    z = t_low + v_low
    x = z - t_low
    error = (t_low - (z - x)) + (v_low - x)
    if error and not _last_bit(z):
        z = nextafter(z, inf if error > 0.0 else -inf)
    return v + z


def _last_bit(value: float) -> int:
    _T8[0] = value
    return _I8[0] & 1


def _fma_of_library(a: float, b: float, c: float) -> float:
    try:
        return float(_library_fma(a, b, c))
    except (ValueError, OverflowError):  # it raises where IEEE returns a NaN or an infinity
        return directed_fma(64, "rn", a, b, c)


_library_fma: Any = getattr(math, "fma", None)  # Python 3.13
if _library_fma is None:
    fma_64 = _fma_64
else:
    fma_64 = _fma_of_library


# -- special cases


def divide_by_zero(a: float, b: float) -> float:
    """Divide by zero as IEEE 754 does."""
    if a != a or not a:
        return nan
    return copysign(inf, copysign(1.0, a) * copysign(1.0, b))


def root_of_other(a: float) -> float:
    """Return the square root of a number that is not positive, or of a NaN."""
    if not a and a == a:
        return a
    return nan


def minimum(a: float, b: float) -> float:
    """Return the smaller number, ignoring a NaN; -0 is smaller than +0."""
    if a < b:
        return a
    if b < a:
        return b
    if a == b:
        if copysign(1.0, a) < 0.0:
            return a
        return b
    if a != a:
        return b
    return a


def maximum(a: float, b: float) -> float:
    """Return the larger number, ignoring a NaN; +0 is larger than -0."""
    if a > b:
        return a
    if b > a:
        return b
    if a == b:
        if copysign(1.0, a) < 0.0:
            return b
        return a
    if a != a:
        return b
    return a


def minimum_nan(a: float, b: float) -> float:
    """Return the smaller number, or NaN if one of them is NaN."""
    if a != a or b != b:
        return NAN
    return minimum(a, b)


def maximum_nan(a: float, b: float) -> float:
    """Return the larger number, or NaN if one of them is NaN."""
    if a != a or b != b:
        return NAN
    return maximum(a, b)


def signs_multiplied(value: float, a: float, b: float) -> float:
    """Return a value with the product of two signs (.xorsign)."""
    return copysign(value, copysign(1.0, a) * copysign(1.0, b))


def test_property(kind: str, value: float, bits: int) -> bool:
    """Tell whether a float has a property (testp)."""
    if bits == 32:
        least = 2.0**-126
    else:
        least = 2.0**-1022
    if kind == "finite":
        return value - value == 0.0
    if kind == "infinite":
        return isinf(value)
    if kind == "number":
        return value == value
    if kind == "notanumber":
        return value != value
    if kind == "normal":
        return value - value == 0.0 and (abs(value) >= least or value == 0.0)
    return 0.0 < abs(value) < least


# -- conversions


def whole_to_single(value: int) -> int:
    """Shorten an integer so that rounding to double and then to float32 equals a single rounding."""
    extra = value.bit_length() - 40
    if extra <= 0:
        return value
    kept = value >> extra
    return (kept | (kept << extra != value)) << extra


def to_integer_value(value: float, mode: str) -> int:
    """Round a finite float to an integer."""
    if mode == "rzi":
        return int(value)
    if mode == "rni":
        return round(value)
    if mode == "rmi":
        return math.floor(value)
    return math.ceil(value)


def to_whole(value: float, mode: str) -> float:
    """Round a float to an integral value, keeping its sign, infinities and NaN."""
    if value - value != 0.0 or abs(value) >= 4503599627370496.0:
        return value
    return copysign(float(to_integer_value(value, mode)), value)


def to_tf32(value: float, mode: str, flags: str) -> int:
    """Round a float32 to 10 bits of fraction; mode rna is to nearest, ties away from zero."""
    if "relu" in flags and value < 0.0:
        return 0
    bits = bits_of_32(value)
    if value != value:
        return 0x7FFFFFFF
    if bits & 0x7F800000 != 0x7F800000:
        bits = bits + {"rna": 0x1000, "rn": 0xFFF + (bits >> 13 & 1), "rz": 0}[mode] & 0xFFFFE000
    if "satfinite" in flags and bits & 0x7F800000 == 0x7F800000:
        bits = bits & 0x80000000 | 0x7F7FE000
    return bits


# -- approximations


def inverse_root(a: float) -> float:
    """Return 1 / sqrt(a)."""
    if a > 0.0:
        return 1.0 / math.sqrt(a)
    if a == 0.0:
        return copysign(inf, a)
    return nan


def inverse_root_64(a: float) -> float:
    """Return 1 / sqrt(a), rounded once: two roundings would exceed the error bound of CUDA."""
    if not 0.0 < a < inf:
        return inverse_root(a)
    fraction, exponent = math.frexp(a)
    if exponent & 1:
        fraction, exponent = fraction * 2.0, exponent - 1
    scaled = math.isqrt((1 << 195) // int(fraction * 2.0**53))  # 1 / sqrt(fraction), times 2 ** 71
    return ldexp(float(scaled), -71 - exponent // 2)


def sine(a: float) -> float:
    """Return sin(a)."""
    if isinf(a):
        return nan
    return math.sin(a)


def cosine(a: float) -> float:
    """Return cos(a)."""
    if isinf(a):
        return nan
    return math.cos(a)


def binary_logarithm(a: float) -> float:
    """Return log2(a)."""
    if a > 0.0:
        return math.log2(a)
    if a == 0.0:
        return -inf
    return nan


def power_of_two(a: float) -> float:
    """Return 2 ** a."""
    if a != a:
        return a
    if a >= 1024.0:
        return inf
    return 0.0 if a <= -1100.0 else 2.0**a


def coarse_quotient(a: float, b: float) -> float:
    """Return a / b as div.approx.f32 does: 0, or NaN for an infinite a, if the reciprocal of b is subnormal."""
    if abs(b) > 2.0**126:
        return a * copysign(0.0, b)
    return a / b if b else divide_by_zero(a, b)


def coarse_reciprocal(a: float) -> float:
    """Return 1 / a to 20 bits of fraction, as rcp.approx.ftz.f64 does; library code refines it."""
    if abs(a) < 2.0**-1022 or a != a:
        if a == a:
            return divide_by_zero(1.0, copysign(0.0, a))
        return a
    return _coarse(1.0 / a)


def coarse_inverse_root(a: float) -> float:
    """Return 1 / sqrt(a) to 20 bits of fraction, as rsqrt.approx.ftz.f64 does."""
    if abs(a) < 2.0**-1022:
        return copysign(inf, a)
    return _coarse(inverse_root(a))


def _coarse(value: float) -> float:
    if value - value != 0.0:
        return value
    if 0.0 < abs(value) < 2.0**-1022:
        return copysign(0.0, value)
    return float_of_64(bits_of_64(value) & 0xFFFFFFFF00000000)
