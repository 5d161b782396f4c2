"""Directed roundings for arrays: the nearest number, moved by one where the rest of the exact result says so.

The rest is what the exact result is above or below the nearest number. Only its sign matters, and error-free
transformations give it: in double for float32, and with pairs of doubles for float64. The few float64 operands whose
products could overflow or underflow are computed one by one.

Functions have the names of those in ../running/rounding.py, and the same results to the bit.

Source       ../running/rounding.py; T. J. Dekker, "A floating-point technique for extending the available precision"
             (1971)
Read next    halves.py
"""

from __future__ import annotations

from ..running import rounding
from .floats import fma_32, fma_64, fma_parts, product_error
from .late_numpy import np

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    Array = Any

__all__ = [
    "directed_add", "directed_cvt", "directed_div", "directed_fma", "directed_mul", "directed_rcp", "directed_sqrt",
    "directed_sub",
]  # fmt: skip

_KINDS = {32: "f4", 64: "f8"}


def _settled(mode: str, near: Array, rest: Array) -> Array:
    """Return the nearest numbers, moved by one towards the rest where a rounding mode says so.

    Next to zero, both zeros count as different numbers: the sign of a result that underflows is that of its rest.
    """
    if near.dtype.itemsize == 4:
        kind = np.i4
    else:
        kind = np.i8
    bits = near.view(kind)
    negative = bits < 0
    if mode == "rz":
        moved = bits - (((rest < 0) & ~negative) | ((rest > 0) & negative))
    else:  # the bits of a negative number grow towards minus infinity
        if mode == "rp":
            away = rest > 0
        else:
            away = rest < 0
        moved = bits + (away & (negative == (mode == "rm"))) - (away & (negative != (mode == "rm")))
    return moved.astype(kind, copy=False).view(near.dtype)


def _with(usual: Array, made: Array, function: Callable[..., float], *values: Array) -> Array:
    """Return results in which those of unusual operands are computed one by one."""
    if usual.all():
        return made
    values = np.broadcast_arrays(*values)
    if not made.ndim:
        return np.f8(function(*(float(value) for value in values)))
    places = np.flatnonzero(~usual)
    made[places] = list(map(function, *(value[places].tolist() for value in values)))
    return made


def _scalar(name: str, mode: str) -> Callable[..., float]:
    function: Callable[..., float] = getattr(rounding, name)
    return lambda *values: function(64, mode, *values)


def _moderate(*values: Array) -> Array:
    """Tell for which operands products, quotients and their errors neither overflow nor underflow."""
    made: Array = np.TRUE
    for value in values:
        size = np.abs(value)
        made = made & (size > 1e-120) & (size < 1e120)
    return made


def _sum_error(a: Array, b: Array, total: Array) -> Array:
    part = total - a
    return (a - (total - part)) + (b - part)


def directed_add(bits: int, mode: str, a: Array, b: Array) -> Array:
    """Add with a directed rounding."""
    near = a + b
    if mode == "rn":
        return near
    if bits == 32:
        over = np.isinf(near)
        rest = _sum_error(a, b, near)
        made = _settled(
            mode, near, np.where(over & np.isfinite(a) & np.isfinite(b), -near, rest) if over.any() else rest
        )
    else:
        usual = np.abs(near) < 1e300
        made = _settled(mode, near, np.where(usual, _sum_error(a, b, near), 0.0))
        made = _with(usual, made, _scalar("directed_add", mode), a, b)
    if mode == "rm" and (near == 0).any():
        same = (a == 0) & (b == 0) & (np.signbit(a) == np.signbit(b))
        made = np.where((near == 0) & ~same, near.dtype.type(-0.0), made)
    return made


def directed_sub(bits: int, mode: str, a: Array, b: Array) -> Array:
    """Subtract with a directed rounding."""
    if mode == "rn":
        return a - b
    return directed_add(bits, mode, a, -b)


def directed_mul(bits: int, mode: str, a: Array, b: Array) -> Array:
    """Multiply with a directed rounding."""
    near = a * b
    if mode == "rn":
        return near
    if bits == 32:
        return _settled(mode, near, a.astype(np.f8) * b - near)
    usual = _moderate(a, b)
    made = _settled(mode, near, product_error(a, b, near))
    return _with(usual, made, _scalar("directed_mul", mode), a, b)


def directed_div(bits: int, mode: str, a: Array, b: Array) -> Array:
    """Divide with a directed rounding."""
    near = a / b
    sign = np.where(np.signbit(b), -1.0, 1.0)
    if bits == 32:
        rest = a.astype(np.f8) - near.astype(np.f8) * b
        rest = np.where(np.isinf(near) & np.isfinite(a) & (b != 0), -np.copysign(1.0, near) * sign, rest)
        return _settled(mode, near, np.where(np.isinf(b) | (b == 0), 0.0, rest * sign))
    usual = _moderate(a, b)
    product = near * b
    rest = (a - product) - product_error(near, b, product)
    made = _settled(mode, near, np.where(usual, rest * sign, 0.0))
    return _with(usual, made, _scalar("directed_div", mode), a, b)


def directed_rcp(bits: int, mode: str, a: Array) -> Array:
    """Divide 1 with a directed rounding."""
    return directed_div(bits, mode, a.dtype.type(1), a)


def directed_sqrt(bits: int, mode: str, a: Array) -> Array:
    """Take a square root with a directed rounding."""
    near = np.sqrt(a)
    if bits == 32:
        wide = near.astype(np.f8)
        return _settled(mode, near, a.astype(np.f8) - wide * wide)
    usual = _moderate(a) & (a > 0)
    product = near * near
    rest = (a - product) - product_error(near, near, product)
    made = np.where(near == near, _settled(mode, near, np.where(usual, rest, 0.0)), np.NAN_64)
    return _with(usual | ~(a > 0), made, _scalar("directed_sqrt", mode), a)


def directed_fma(bits: int, mode: str, a: Array, b: Array, c: Array) -> Array:
    """Multiply and add with a single rounding in any mode."""
    if mode == "rn":
        if bits == 32:
            return fma_32(a, b, c)
        return fma_64(a, b, c)
    if bits == 32:
        product = a.astype(np.f8) * b
        total = product + c
        near = total.astype(np.f4)
        rest = total - near
        rest = np.where(rest != 0, rest, _sum_error(product, c.astype(np.f8), total))
        made = _settled(mode, near, rest)
        zero = (total == 0) & np.isfinite(product)
        if mode == "rm" and zero.any():
            same = (product == 0) & (c == 0) & (np.signbit(product) == np.signbit(c))
            made = np.where(zero & ~same, np.f4(-0.0), made)
        return made
    if a.ndim or b.ndim or c.ndim:
        a, b, c = np.broadcast_arrays(a, b, c)
    near, tail, error, usual = fma_parts(a, b, c)
    total = near + tail
    rest = tail - (total - near)
    usual = usual & (total != 0)
    made = _settled(mode, total, np.where(usual, np.where(rest != 0, rest, error), 0.0))
    return _with(usual, made, _scalar("directed_fma", mode), a, b, c)


def directed_cvt(bits: int, mode: str, value: Array) -> Array:
    """Convert integers with a directed rounding."""
    kind = getattr(np, _KINDS[bits])
    near = value.astype(kind)
    if value.dtype.itemsize == 8:  # both parts are exact, and so are their differences
        low = (value & value.dtype.type(0xFFFFFFFF)).astype(np.f8)
        rest = ((value >> value.dtype.type(32)).astype(np.f8) * 4294967296.0 - near.astype(np.f8)) + low
    else:
        rest = value.astype(np.f8) - near.astype(np.f8)
    return _settled(mode, near, rest)
