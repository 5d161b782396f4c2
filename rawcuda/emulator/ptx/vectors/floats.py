"""The functions of the opcode table for arrays of floats: each result has the same bits as that of the scalar function.

Sums, products, quotients and square roots of float32 are rounded once by the hardware, as the scalar executor's second
rounding is innocuous. An FMA of float32 is computed in double; the few elements whose double result may be a midpoint
of two float32 are computed again. So are the elements of an approximation whose double result lies so near to a
midpoint that another library could round it differently.

Source       ../running/rounding.py
Read next    directed.py
"""

from __future__ import annotations

import math
from functools import cache

from ..running import rounding
from .late_numpy import np
from .numeric import unsigned

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    Array = Any

__all__ = [
    "binary_logarithm", "coarse_inverse_root", "coarse_quotient", "coarse_reciprocal", "cosine", "divide_double",
    "flushed", "fma_32", "fma_64", "fma_parts", "from_bf16", "from_f16", "half_of_bf16", "half_of_f16",
    "inverse_root", "inverse_root_64", "maximum", "minimum", "narrowed", "power_of_two", "product_error",
    "reciprocal", "root", "saturated", "signs_multiplied", "sine", "tanh", "test_property", "to_integer",
    "to_whole",
]  # fmt: skip

# -- floats


def flushed(value: Array) -> Array:
    """Return float32 with subnormals flushed to zero."""
    small = np.abs(value) < np.f4(2.0**-126)
    if small.any():
        return np.where(small, value * np.f4(0), value)
    return value


def saturated(value: Array) -> Array:
    """Limit floats to 0 to 1; a NaN becomes 0."""
    kind = value.dtype.type
    return np.where(value > 0, np.where(value > 1, kind(1), value), kind(0))


def fma_32(a: Array, b: Array, c: Array) -> Array:
    """Multiply and add float32 with one rounding."""
    x = a.astype(np.f8)
    if a.ndim:
        x *= b
        x += c
    else:
        x = x * b + c
    y = x.astype(np.f4)
    if not x.ndim:
        p, q, r = float(a), float(b), float(c)
        if float(y) != float(x):
            return np.f4(rounding.fma_midpoint(p, q, r, float(x)))
        return y
    low = x.view(np.i8)
    low &= np.i8(0xFFFFFFF)
    if not low.all():  # at most 25 bits: perhaps a midpoint
        places = np.flatnonzero(low == 0)
        rows = [(value[places] if value.ndim else np.full(len(places), value)).astype(np.f8) for value in (a, b, c)]
        x = rows[0] * rows[1] + rows[2]
        short = (y[places] != x) & (x - x == 0.0)
        if short.any():  # as rounding.fma_midpoint: the error of the addition decides
            product = rows[0] * rows[1]
            rest_ = x - product
            error = (product - (x - rest_)) + (rows[2] - rest_)
            x = np.where(error > 0, np.nextafter(x, np.inf), np.where(error < 0, np.nextafter(x, -np.inf), x))
            y[places[short]] = x[short].astype(np.f4)
    return y


def product_error(a: Array, b: Array, product: Array) -> Array:
    """Return what a product of float64 lost by its rounding, exactly if nothing overflows or underflows."""
    x = a * 134217729.0
    a_high = x - (x - a)
    a_low = a - a_high
    x = b * 134217729.0
    b_high = x - (x - b)
    b_low = b - b_high
    return ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


def fma_parts(a: Array, b: Array, c: Array) -> tuple[Array, Array, Array, Array]:
    """Return a * b + c as two float64, the lower one rounded to odd, what that lost, and where all this is exact."""
    product = a * b
    low = product_error(a, b, product)
    t = c + low
    x = t - c
    t_low = (c - (t - x)) + (low - x)
    v = product + t
    x = v - product
    v_low = (product - (v - x)) + (t - x)
    z = t_low + v_low
    x = z - t_low
    error = (t_low - (z - x)) + (v_low - x)
    odd = (error != 0) & ((z.view(np.i8) & 1) == 0)
    if odd.any():
        z = np.where(odd, np.nextafter(z, np.where(error > 0, np.inf, -np.inf)), z)
    size, p, q, r = np.abs(product), np.abs(a), np.abs(b), np.abs(c)
    plain = (size > 1e-250) & (size < 1e250) & (p > 1e-200) & (p < 1e200) & (q > 1e-200) & (q < 1e200)
    plain &= (r == 0) | ((r > 1e-250) & (r < 1e250))
    return v, z, error, plain


def fma_64(a: Array, b: Array, c: Array) -> Array:
    """Multiply and add float64 with one rounding."""
    if a.ndim or b.ndim or c.ndim:
        a, b, c = np.broadcast_arrays(a, b, c)
    if not a.ndim:
        return np.f8(rounding.fma_64(float(a), float(b), float(c)))
    v, z, _, plain = fma_parts(a, b, c)
    made = v + z
    if not plain.all():
        places = np.flatnonzero(~plain)
        made[places] = list(map(rounding.fma_64, a[places].tolist(), b[places].tolist(), c[places].tolist()))
    return made


def divide_double(a: Array, b: Array) -> Array:
    """Divide float64."""
    made = a / b
    none = (b == 0) & (made != made)
    if none.any():
        return np.where(none, np.NAN_64, made)
    return made


def root(a: Array) -> Array:
    """Return square roots."""
    made = np.sqrt(a)
    none = made != made
    if none.any():
        return np.where(none, made.dtype.type(np.nan), made)
    return made


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


def signs_multiplied(value: Array, a: Array, b: Array) -> Array:
    """Return values with the product of two signs."""
    return np.copysign(value, np.where(np.signbit(a) == np.signbit(b), value.dtype.type(1), value.dtype.type(-1)))


def to_integer(value: Array, mode: str, to: str, kind: Any) -> Array:
    """Convert floats to an integer type with saturation; for a NaN, see half.to_integer."""
    x = value.astype(np.f8)
    x = {"rzi": np.trunc, "rni": np.rint, "rmi": np.floor, "rpi": np.ceil}[mode](x)
    bits = int(to[1:])
    if to[0] == "u":
        low, high_ = (0, (1 << bits) - 1)
    else:
        low, high_ = (-(1 << bits - 1), (1 << bits - 1) - 1)
    none = x != x
    if to[0] == "s":
        sign = "i"
    else:
        sign = "u"
    inner = np.dtype(f"{sign}{bits // 8}")
    over, under = x >= float(high_ + 1), x < float(low)
    safe = np.where(none | over | under, 0.0, x)
    made = safe.astype(np.dtype(f"{sign}8")).astype(inner)
    made = np.where(over, inner.type(high_), np.where(under, inner.type(low), made))
    if value.dtype == np.f8 or bits == 64:
        made = np.where(none, inner.type(low if to[0] == "s" else high_ // 2 + 1), made)
    return unsigned(made.astype(np.dtype(f"{sign}{kind().itemsize}")))


def to_whole(value: Array, mode: str) -> Array:
    """Round floats to integral values."""
    return {"rzi": np.trunc, "rni": np.rint, "rmi": np.floor, "rpi": np.ceil}[mode](value)


def narrowed(value: Array, mode: str) -> Array:
    """Round float64 to float32 with a directed rounding."""
    made = value.astype(np.f4)
    back = made.astype(np.f8)
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
    return np.where(value != value, np.u2(0x7FFF), value.astype(np.f2).view(np.u2))


def half_of_bf16(value: Array) -> Array:
    """Round float32 to bfloat16, as bits."""
    bits = value.view(np.u4)
    made = (bits + np.u4(0x7FFF) + (bits >> np.u4(16) & np.u4(1))) >> np.u4(16)
    return np.where(value != value, np.u2(0x7FFF), made.astype(np.u2))


@cache
def _numbers_of_f16() -> Array:
    bits = np.arange(1 << 16, dtype=np.u2)
    made = bits.view(np.f2).astype(np.f4)
    return np.where(made == made, made, np.copysign(np.f4(np.nan), np.where(bits >> np.u2(15), np.f4(-1), np.f4(1))))


def from_f16(bits: Array) -> Array:
    """Return the float32 of float16 bits; a NaN keeps its sign only."""
    return np.take(_numbers_of_f16(), bits, mode="wrap")  # a third of the time of a conversion


def from_bf16(bits: Array) -> Array:
    """Return the float32 of bfloat16 bits."""
    return (bits.astype(np.u4) << np.u4(16)).view(np.f4)


def test_property(kind: str, value: Array, bits: int) -> Array:
    """Tell which floats have a property (testp)."""
    size = np.abs(value)
    least = value.dtype.type(2.0**-126 if bits == 32 else 2.0**-1022)
    if kind in ("number", "notanumber"):
        if kind == "number":
            return value == value
        return value != value
    if kind == "infinite":
        return size == np.inf
    if kind == "subnormal":
        return (size > 0) & (size < least)
    if kind == "finite":
        return size < np.inf
    return (size < np.inf) & ((size >= least) | (size == 0))


# -- approximations


def inverse_root(a: Array) -> Array:
    """Return 1 / sqrt(a) in double."""
    x = a.astype(np.f8)
    return 1.0 / np.sqrt(x, out=x if x.ndim else None)


def inverse_root_64(a: Array) -> Array:
    """Return 1 / sqrt(a), rounded once; results near a midpoint are computed by the scalar function."""
    near = 1.0 / np.sqrt(a)
    square = near * near
    low = product_error(near, near, square)
    product = a * square
    rest = ((1.0 - product) - product_error(a, square, product)) - a * low  # 1 - a * near ** 2
    step = 0.5 * near * rest
    made = near + step
    unit = np.spacing(near)
    doubt = np.abs(np.abs(step - (made - near)) - 0.5 * unit) < 2.0**-12 * unit
    doubt |= np.abs(np.abs(step) - 0.25 * unit) < 2.0**-12 * unit  # below a power of two
    positive = a > 0
    made = np.where(positive, made, np.where(a == 0, np.copysign(np.inf, a), np.NAN_64))
    usual = (~doubt & (a > 1e-100) & (a < 1e100)) | ~positive
    if not usual.all():
        if not made.ndim:
            return np.f8(rounding.inverse_root_64(float(a)))
        places = np.flatnonzero(~usual)
        made[places] = list(map(rounding.inverse_root_64, a[places].tolist()))
    return made


def coarse_quotient(a: Array, b: Array) -> Array:
    """Return a / b as div.approx.f32 does: 0, or NaN for an infinite a, if the reciprocal of b is subnormal."""
    return np.where(np.abs(b) > np.f4(2.0**126), a * np.copysign(np.f4(0), b), a / b)


def coarse_reciprocal(a: Array) -> Array:
    """Return 1 / a to 20 bits of fraction."""
    made = np.where(np.abs(a) < 2.0**-1022, np.copysign(np.inf, a), _coarse(1.0 / a))
    return np.where(a != a, a, made)


def coarse_inverse_root(a: Array) -> Array:
    """Return 1 / sqrt(a) to 20 bits of fraction."""
    made = _coarse(1.0 / np.sqrt(a))
    made = np.where(made != made, np.NAN_64, made)
    return np.where(np.abs(a) < 2.0**-1022, np.copysign(np.inf, a), made)


def _coarse(value: Array) -> Array:
    made = (value.view(np.u8) & np.u8(0xFFFFFFFF00000000)).view(np.f8)
    made = np.where(np.abs(value) < 2.0**-1022, np.copysign(0.0, value), made)
    return np.where(np.isfinite(value), made, value)


def _approximation(
    fast: str, exact: Callable[[float], float], usual: Callable[[Array], Array]
) -> Callable[[Array], Array]:
    """Return a function that rounds a double result to float32, and computes doubtful elements one by one."""

    def approximate(a: Array) -> Array:
        if not a.ndim:
            return np.array(exact(float(a))).astype(np.f4)[()]
        x = getattr(np, fast)(a.astype(np.f8))
        bits = x.view(np.i8)
        near = np.abs((bits & 0x1FFFFFFF) - 0x10000000) < 64  # of the 29 bits that the rounding drops
        doubt = near | (np.abs(x) < 2.0**-124) | ~usual(a)
        made = x.astype(np.f4)
        if doubt.any():
            places = np.flatnonzero(doubt)
            made[places] = np.array(list(map(exact, a[places].tolist())), np.f8).astype(np.f4)
        return made

    return approximate


def _small(a: Array) -> Array:
    return np.abs(a) < 1e5


def _far_from_one(a: Array) -> Array:
    return np.abs(a - 1) > 1e-3


def _of_exponent(a: Array) -> Array:
    return np.abs(a) < 120


sine = _approximation("sin", rounding.sine, _small)
cosine = _approximation("cos", rounding.cosine, _small)
binary_logarithm = _approximation("log2", rounding.binary_logarithm, _far_from_one)
power_of_two = _approximation("exp2", rounding.power_of_two, _of_exponent)
tanh = _approximation("tanh", math.tanh, _small)
