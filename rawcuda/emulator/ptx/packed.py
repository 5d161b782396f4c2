"""Arithmetic on numbers that share a register: two float32 in 64 bits, a half and a float32, four bytes.

source       PTX ISA, "Floating Point Instructions" (.f32x2), "Mixed Precision Floating Point Instructions",
             "SIMD Video Instructions"
Read next    half.py: two halves in 32 bits
"""

from __future__ import annotations

from .half import from_half
from .rounding import (
    NAN, TINY, bits_of_32, directed_add, directed_fma, directed_mul, directed_sub, float_of_32,
)  # fmt: skip

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

__all__ = ["byte_differences", "mixed_add", "mixed_fma", "mixed_sub", "pair_add", "pair_fma", "pair_mul", "pair_sub"]


def _flush(value: float) -> float:
    return value * 0.0 if -TINY < value < TINY else value


def _both(operation: Callable[..., float], mode: str, ftz: str, *operands: int) -> int:
    made = 0
    for shift in (32, 0):
        values = [float_of_32(bits >> shift & 0xFFFFFFFF) for bits in operands]
        if ftz:
            values = [_flush(value) for value in values]
        value = operation(32, mode or "rn", *values)
        if ftz:
            value = _flush(value)
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
    """Multiply and add, twice, each with one rounding."""
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
    """Give the differences of four bytes, or add them to a number (vabsdiff4)."""
    made, total = 0, c
    for shift in (24, 16, 8, 0):
        x, y = a >> shift & 0xFF, b >> shift & 0xFF
        x = x - (x >> 7 << 8) if first[0] == "s" else x
        y = y - (y >> 7 << 8) if second[0] == "s" else y
        made = made << 8 | abs(x - y) & 0xFF
        total += abs(x - y)
    return total & 0xFFFFFFFF if add else made
