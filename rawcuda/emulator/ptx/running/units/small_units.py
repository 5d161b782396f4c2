"""Floats of 8 bits and less, TF32's operands, and the numbers in the operands of tensor cores.

What it is   `FORMATS`, the small formats; `decode`, from bits to a float; `encode`, from a float to the nearest bits;
             `SMALL`, whose functions the generated code calls for `cvt`; `numbers`, which reads those in registers.
Source       PTX ISA, "Alternate Floating-Point Data Formats", "cvt"; OCP Microscaling Formats (MX) 1.0
Read next    matrix_units.py
"""

from __future__ import annotations

import math
import struct
from functools import cache

from ..half import Kept, from_half, to_half
from ..rounding import bits_of_32, round_ratio

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Callable

__all__ = ["FORMATS", "SMALL", "decode", "element", "encode", "numbers", "to_half_randomly"]

# format: bits, bits of fraction, bias of the exponent; the bits of the largest magnitude, infinity and NaN (or None)
FORMATS: dict[str, tuple[int, int, int, int, int | None, int | None]] = {
    "e4m3": (8, 3, 7, 0x7E, None, 0x7F),
    "e5m2": (8, 2, 15, 0x7B, 0x7C, 0x7F),
    "e2m3": (6, 3, 1, 0x1F, None, None),
    "e3m2": (6, 2, 3, 0x1F, None, None),
    "e2m1": (4, 1, 1, 0x7, None, None),
}


@cache
def _table(format: str) -> tuple[float, ...]:
    if format == "ue8m0":
        return (*(2.0 ** (bits - 127) for bits in range(255)), math.nan)
    bits, fraction, bias, most, infinity, _ = FORMATS[format]
    sign = 1 << bits - 1
    made = []
    for value in range(1 << bits):
        size = value & sign - 1
        exponent, rest = size >> fraction, size & (1 << fraction) - 1
        number = (rest if not exponent else rest + (1 << fraction)) * 2.0 ** (max(exponent, 1) - bias - fraction)
        if size > most:
            if size == infinity:
                number = math.inf
            else:
                number = math.nan
        made.append(-number if value & sign else number)
    return tuple(made)


def decode(format: str, bits: int) -> float:
    """Return the number with these bits; bits above the width of the format are ignored."""
    table = _table(format)
    return table[bits & len(table) - 1]


def encode(format: str, value: float, flags: str = "", mode: str = "rn", random: int = 0) -> int:
    """Return the bits of a rounded number; a number that is too large becomes the largest one.

    shape   flags: any of relu, satfinite; mode: rn, rz, rp, or rs, which adds `random` / 2**16 of the
            last bit and truncates
    """
    if format == "ue8m0":
        return _encode_scale(value, mode, "satfinite" in flags)
    bits, fraction, bias, most, _, nan = FORMATS[format]
    if value != value:
        if nan is None:
            return most
        return nan
    if value < 0.0 and "relu" in flags:
        return 0
    if math.copysign(1.0, value) < 0.0:
        sign = 1 << bits - 1
    else:
        sign = 0
    size = abs(value)
    if math.isinf(size) or size >= 2.0 * _table(format)[most]:
        return sign | most
    if not size:
        return sign
    top, bottom = size.as_integer_ratio()
    if mode == "rs":
        exponent = max(math.frexp(size)[1] - 1, 1 - bias)
        top, bottom, mode = _randomly(top, bottom, exponent - fraction, random, 16), 1, "rz"
        significand, power = top, exponent - fraction
    else:
        significand, power = round_ratio(top, bottom, fraction + 1, 1 - bias, mode)
    if not significand:
        return sign
    while significand.bit_length() > fraction + 1:
        significand, power = significand >> 1, power + 1
    least = 1 - bias - fraction
    while significand.bit_length() <= fraction and power > least:
        significand, power = significand << 1, power - 1
    if significand >> fraction == 0:
        made = significand
    else:
        made = (power - least + 1 << fraction) + significand - (1 << fraction)
    return sign | min(made, most)


def _randomly(top: int, bottom: int, power: int, random: int, width: int) -> int:
    """Return a positive ratio in units of 2**power, rounded up if the rest and a random number reach one unit."""
    if power >= 0:
        bottom <<= power
    else:
        top <<= -power
    whole, rest = divmod(top << width, bottom)
    return whole + (random & (1 << width) - 1) >> width


def _encode_scale(value: float, mode: str, finite: bool) -> int:
    if value != value or math.isinf(value) and not finite:
        return 0xFF
    size = abs(value)
    if math.isinf(size):
        return 0xFE
    if not size:
        return 0
    significand, exponent = math.frexp(size)
    exponent -= 1
    if mode == "rp" and significand != 0.5:
        exponent += 1
    return min(max(exponent + 127, 0), 0xFE if finite else 0xFF)


def to_half_randomly(to: str, high: float, low: float, random: int, flags: str) -> int:
    """Round two float32 to the halves of a register with random bits (cvt.rs)."""
    made = 0
    for value, extra in ((high, random >> 16), (low, random)):
        if to == "f16":
            fraction, least = (10, -14)
        else:
            fraction, least = (7, -126)
        bits = to_half(to, "f32", value, "rz", flags)
        if value == value and not math.isinf(value) and not ("relu" in flags and value < 0.0):
            if to == "f16":
                width = 13
            else:
                width = 16
            top, bottom = abs(value).as_integer_ratio()
            if value:
                exponent = max(math.frexp(value)[1] - 1, least)
            else:
                exponent = least
            rounded = math.ldexp(_randomly(top, bottom, exponent - fraction, extra, width), exponent - fraction)
            bits = to_half(to, "f32", math.copysign(rounded, value), "rz" if "satfinite" in flags else "rn", flags)
        made = made << 16 | bits
    return made


class Small(dict[str, "Callable[..., int]"]):
    """The conversions between packed small formats and float32, f16x2 or bf16x2, each made when it is first used.

    A key is "to type mode flags": formats with the number of their elements ("e4m3x2"), or f32, f16x2, bf16x2; rn, rz,
    rp or rs; any of relu and satfinite. The first argument of a function is the upper number.
    """

    def __missing__(self, key: str) -> Callable[..., int]:
        to, type, mode, flags = key.split(" ")
        if type == "f32":
            make = _from_numbers
        elif "f16" in type:
            make = _from_halves
        else:
            make = _from_small
        made = self[key] = make(to, type, mode, flags)
        return made


SMALL = Small()


def element(format: str) -> int:
    """Return the distance of two elements of a packed format in bits."""
    if format == "ue8m0":
        width = 8
    else:
        width = FORMATS[format][0]
    if width == 6:
        return 8
    return width


def _from_numbers(to: str, type: str, mode: str, flags: str) -> Callable[..., int]:
    """Return the conversion of float32: except for `rs`, a function of their upper halves, rounded to odd.

    A small float has at most 6 bits of precision, so the lower half matters only by whether it is 0.
    """
    format = to[:-2]
    step = element(format)
    if mode == "rs":

        def randomly(*values: Any) -> int:
            made, random = 0, values[-1]
            if step == 4:  # the upper bytes of both halves are for the first two elements
                random = random & 0xFF0000FF | random >> 8 & 0xFF00 | random << 8 & 0xFF0000
            for at, number in enumerate(values[:-1]):
                made = made << step | encode(format, number, flags, mode, random >> 16 * (1 - at // 2))
            return made

        return randomly
    table = Kept(lambda bits: encode(format, from_half("bf16", bits), flags, mode))

    def convert(high: float, low: float) -> int:
        one, other = bits_of_32(high), bits_of_32(low)
        return table[one >> 16 | (one & 0xFFFF != 0)] << step | table[other >> 16 | (other & 0xFFFF != 0)]

    return convert


def _from_halves(to: str, type: str, mode: str, flags: str) -> Callable[..., int]:
    format, half = to[:-2], type[:-2]
    step = element(format)
    table = Kept(lambda bits: encode(format, from_half(half, bits), flags, mode))
    return lambda pair: table[pair >> 16] << step | table[pair & 0xFFFF]


def _from_small(to: str, type: str, mode: str, flags: str) -> Callable[..., int]:
    format, half = type[:-2], to[:-2]
    step = element(format)

    def convert(pair: int) -> int:
        high, low = (to_half(half, "f32", decode(format, bits), "rn", flags) for bits in (pair >> step, pair))
        return high << 16 | low

    table = Kept(convert)
    return lambda pair: table[pair & 0xFFFF]


_UNPACKED = {"f16": "e", "s8": "b", "u8": "B", "s32": "i", "u32": "I"}


def numbers(type: str, registers: Sequence[Any]) -> Sequence[Any]:
    """Return the numbers in registers of 32 bits, lowest first; registers of f64 and f32 are numbers themselves."""
    if type in ("f32", "f64", "b1"):
        return registers
    raw = struct.pack(f"<{len(registers)}I", *registers)
    code = _UNPACKED.get(type)
    if code is not None:
        return struct.unpack(f"<{len(raw) // struct.calcsize(code)}{code}", raw)
    if type == "bf16":
        halves = struct.unpack(f"<{len(raw) // 2}H", raw)
        return struct.unpack(f"<{len(halves)}f", struct.pack(f"<{len(halves)}I", *(each << 16 for each in halves)))
    if type == "tf32":
        cut = struct.pack(f"<{len(registers)}I", *(each & 0xFFFFE000 for each in registers))
        return struct.unpack(f"<{len(registers)}f", cut)
    if type in ("s4", "u4"):
        signed = type == "s4"
        nibbles = [part for byte in raw for part in (byte & 15, byte >> 4)]
        return [part - 16 if signed and part > 7 else part for part in nibbles]
    table = _table(type)
    most = len(table) - 1
    if type in ("e2m3", "e3m2", "e2m1"):  # in a byte each, in the middle bits
        if type == "e2m1":
            shift = 2
        else:
            shift = 0
        return [table[byte >> shift & most] for byte in raw]
    return [table[byte] for byte in raw]
