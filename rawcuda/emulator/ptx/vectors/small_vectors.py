"""Floats of 8 bits and less for arrays: conversions by tables, and the operands of TF32.

A small float has at most 6 bits of precision, so its rounding depends only on the upper 16 bits of a float32 and on
whether the lower ones are 0. With that as a number of 16 bits, and with halves and pairs of small floats as they are,
every conversion is a function of 16 bits. The scalar function computes it once for each number that occurs.

Source       ptx/running/units/small_units.py
Read next    naming.py
"""

from __future__ import annotations

from functools import cache

from ..running.half import from_half
from ..running.units.small_units import FORMATS, SMALL, element, encode
from .halves import to_half
from .late_numpy import np
from .numeric import Known, bits_32

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Array = Any

__all__ = ["cvt_small", "to_half_randomly", "to_tf32"]


@cache
def _encoded(source: str, format: str, flags: str, mode: str) -> Known:
    """Return the table from halves, or from the upper bits of float32, to the bits of a small float."""
    if source == "f16x2":
        kind = "f16"
    else:
        kind = "bf16"
    return Known(lambda bits: encode(format, from_half(kind, bits), flags, mode), np.u4)


@cache
def _decoded(to: str, type: str, mode: str, flags: str) -> Known:
    """Return the table from pairs of small floats to pairs of halves."""
    return Known(SMALL[f"{to} {type} {mode} {flags}"], np.u4)


def _upper(value: Array) -> Array:
    """Return the upper half of float32, whose last bit is 1 if the lower half is not 0."""
    bits = bits_32(value)
    return (bits >> np.u4(16) | ((bits & np.u4(0xFFFF)) != 0)).astype(np.u2)


def cvt_small(to: str, type: str, mode: str, flags: str, *values: Array) -> Array:
    """Convert between a packed small format and float32, f16x2 or bf16x2; the first value is the upper one.

    shape   to, type: formats with the number of their elements ("e4m3x2"), or f32, f16x2, bf16x2
    """
    if type not in ("f32", "f16x2", "bf16x2"):
        return _decoded(to, type, mode, flags).of(values[0].astype(np.u2))
    format = to[:-2]
    step = element(format)
    random: Array = None
    if mode == "rs":
        *values, random = values  # type: ignore[assignment]
        if step == 4:  # the upper bytes of both halves are for the first two elements
            outer, second, third = (random & np.u4(mask) for mask in (0xFF0000FF, 0xFF0000, 0xFF00))
            random = outer | second >> np.u4(8) | third << np.u4(8)
    if type == "f32":
        numbers = [_upper(value) if random is None else value for value in values]
    else:
        numbers = [(values[0] >> np.u4(16)).astype(np.u2), values[0].astype(np.u2)]
    made: Array = np.u4(0)
    for at, number in enumerate(numbers):
        if random is not None:
            extra = random >> np.u4(16 * (1 - at // 2))
            number = _upper(_pushed(number, *FORMATS[format][1:3], extra, 16, flags))
            each = _encoded("f32", format, flags, "rz").of(number)
        else:
            each = _encoded(type, format, flags, mode).of(number)
        made = made << np.u4(step) | each
    return made


def _pushed(value: Array, fraction: int, bias: int, random: Array, width: int, flags: str) -> Array:
    """Return float32 cut to a format's bits of fraction, after adding random bits below them (cvt.rs)."""
    bits = value.view(np.u4)
    size = bits & np.u4(0x7FFFFFFF)
    random = random & np.u4((1 << width) - 1)
    dropped = 23 - fraction
    made = size + (random << np.u4(dropped - width)) & np.u4(0xFFFFFFFF << dropped & 0xFFFFFFFF)  # may carry
    small = size < (128 - bias << 23)  # subnormal in the format: multiples of one unit
    if small.any():
        unit = 2.0 ** (1 - bias - fraction)
        scaled = np.floor(size.view(np.f4).astype(np.f8) * (2.0**width / unit)) + random
        made = np.where(small, (np.floor(scaled * 2.0**-width) * unit).astype(np.f4).view(np.u4), made)
    made = np.where(size >= 0x7F800000, bits, made | bits & np.u4(0x80000000)).view(np.f4)
    if "relu" in flags:
        return np.where(value < 0, np.f4(0), made)
    return made


def to_half_randomly(to: str, high: Array, low: Array, random: Array, flags: str) -> Array:
    """Round two float32 to the halves of a register with random bits (cvt.rs)."""
    if to == "f16":
        fraction, bias, width = (10, 15, 13)
    else:
        fraction, bias, width = (7, 127, 16)
    made: Array = np.u4(0)
    for value, extra in ((high, random >> np.u4(16)), (low, random)):
        number = _pushed(value, fraction, bias, extra, width, flags)
        half = to_half(to, "f32", number, "rz" if "satfinite" in flags else "rn", flags)
        made = made << np.u4(16) | half.astype(np.u4)
    return made


def to_tf32(value: Array, mode: str, flags: str) -> Array:
    """Round float32 to 10 bits of fraction; mode rna is to nearest, ties away from zero."""
    bits = bits_32(value)
    finite = (bits & np.u4(0x7F800000)) != 0x7F800000
    extra = {"rna": np.u4(0x1000), "rn": np.u4(0xFFF) + (bits >> np.u4(13) & np.u4(1)), "rz": np.u4(0)}[mode]
    made = np.where(finite, bits + extra & np.u4(0xFFFFE000), bits)
    if "satfinite" in flags:
        large = (made & np.u4(0x7FFFFFFF) >= 0x7F800000) & (value == value)
        made = np.where(large, made & np.u4(0x80000000) | np.u4(0x7F7FE000), made)
    if "relu" in flags:
        return np.where(value < 0, np.u4(0), made)
    return made
