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
    SPLIT,
    T4,
    TINY,
    directed_add,
    directed_fma,
    directed_mul,
    directed_sub,
    float_of_32,
    fma_midpoint,
    power_of_two,
    round_ratio,
    to_integer_value,
    to_whole,
)  # fmt: skip

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

__all__ = [
    "HALVES", "Kept", "from_half", "mixed_add", "mixed_fma", "mixed_sub", "numbers_bf16", "numbers_bf16_ftz",
    "numbers_f16", "numbers_f16_ftz", "pair_add", "pair_fma", "pair_mul", "pair_sub", "to_half", "to_integer",
]  # fmt: skip

# name: bits of precision, smallest normal exponent, largest exponent, bits of fraction
_FORMATS = {"f16": (11, -14, 15, 10), "bf16": (8, -126, 127, 7)}
_NAN = 0x7FFF
_pack_bits, _unpack_half = struct.Struct("<H").pack, struct.Struct("<e").unpack
_cell = bytearray(4)
_F4, _I4, _H2 = memoryview(_cell).cast("f"), memoryview(_cell).cast("I"), memoryview(_cell).cast("H")
_store_half = struct.Struct("<e").pack_into


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
        if "relu" not in flags and flags[:4] == "sat" and "satfinite" not in flags:
            return 0
        return _NAN
    if flags:
        if "relu" in flags and value < 0.0:
            return 0
        if flags.split(",")[0] == "sat":
            if value > 0.0:
                value = min(value, 1.0)
            else:
                value = 0.0
    if mode[-1] == "i":
        value, mode = to_whole(value, mode), "rn"
    bits = _encode(type, value, mode)
    if "satfinite" in flags and bits & 0x7FFF == _infinity(type):
        bits -= 1
    return bits


def _infinity(type: str) -> int:
    if type == "f16":
        return 0x7C00
    return 0x7F80


def _encode(type: str, value: float, mode: str) -> int:
    if type == "f16" and abs(value) < 65520.0 and (mode == "rn" or mode == "rz"):
        _store_half(_cell, 0, value)
        bits = _H2[0]
        if mode == "rz" and abs(numbers_f16[bits]) > abs(value):
            return bits - 1
        return bits
    if type == "bf16":
        _F4[0] = value
        bits = _I4[0]
        if _F4[0] == value and (mode == "rn" or mode == "rz"):
            return (bits + 0x7FFF + (bits >> 16 & 1) if mode == "rn" else bits) >> 16
    if copysign(1.0, value) < 0.0:
        sign = 0x8000
    else:
        sign = 0
    if math.isinf(value):
        return sign | _infinity(type)
    if not value:
        return sign
    if isinstance(value, int):
        top, bottom = (value, 1)
    else:
        top, bottom = value.as_integer_ratio()
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


# -- arithmetic


def _flush(type: str, bits: int) -> int:
    if bits & _infinity(type) == 0:
        return bits & 0x8000
    return bits


class Numbers(dict[int, float]):
    """The numbers of a half format by their bits, each from its first use on."""

    def __init__(self, type: str, flushes: bool = False) -> None:
        super().__init__()
        self._type, self._flushes = type, flushes

    def __missing__(self, bits: int) -> float:
        number = self[bits] = from_half(self._type, _flush(self._type, bits) if self._flushes else bits)
        return number


numbers_f16, numbers_bf16 = Numbers("f16"), Numbers("bf16")
numbers_f16_ftz, numbers_bf16_ftz = Numbers("f16", True), Numbers("bf16", True)
_NUMBERS = {
    ("f16", False): numbers_f16, ("f16", True): numbers_f16_ftz,
    ("bf16", False): numbers_bf16, ("bf16", True): numbers_bf16_ftz,
}  # fmt: skip


def _round_f16(value: float) -> int:
    """Round a number to float16."""
    try:
        _store_half(_cell, 0, value)
    except OverflowError:
        if value > 0.0:
            return 0x7C00
        return 0xFC00
    if value == value:
        return _H2[0]
    return _NAN


def _round_bf16(value: float) -> int:
    """Round a number to bfloat16, by way of float32 unless that would round twice."""
    _F4[0] = value
    bits = _I4[0]
    if bits & 0xFFFF == 0x8000 and _F4[0] != value:
        return _encode("bf16", value, "rn")
    if value == value:
        return bits + 0x7FFF + (bits >> 16 & 1) >> 16
    return _NAN


_ROUND = {"f16": _round_f16, "bf16": _round_bf16}


def _two(operation: Callable[[float, float], float]) -> Callable[..., Callable[..., int]]:
    """Return the maker of an operation on two numbers that is exact in double, or rounded innocuously."""

    def make(type: str, words: list[str]) -> Callable[..., int]:
        numbers, rounded = _NUMBERS[type, "ftz" in words], _ROUND[type]
        return lambda a, b: rounded(operation(numbers[a], numbers[b]))

    return make


def _fma(type: str, words: list[str]) -> Callable[..., int]:
    numbers, rounded, single = _NUMBERS[type, "ftz" in words], _ROUND[type], type == "f16"

    def compute(a: int, b: int, c: int) -> int:
        x, y, z = numbers[a], numbers[b], numbers[c]
        product = x * y  # exactly
        value = product + z
        if value - product == z and value - z == product:  # a finite and exact sum
            if single and -65520.0 < value < 65520.0:
                _store_half(_cell, 0, value)
                return _H2[0]
            return rounded(value)
        if value - value != 0.0:  # infinite, or a NaN
            return rounded(value)
        (p, q), (r, s), (t, u) = x.as_integer_ratio(), y.as_integer_ratio(), z.as_integer_ratio()
        top = p * r * u + t * q * s
        return _of_ratio(type, top, q * s * u, "rn", 0x8000 if top < 0 else 0)

    if "oob" in words:
        return lambda a, b, c: 0 if a == _NAN or b == _NAN else compute(a, b, c)
    return compute


def _extreme(smaller: bool) -> Callable[..., Callable[..., int]]:
    """Return the maker of the operation that finds the smaller or the larger number."""

    def make(type: str, words: list[str]) -> Callable[..., int]:
        strict, infinity = "NaN" in words, _infinity(type)

        def pick(a: int, b: int) -> int:
            if a & 0x7FFF > infinity:
                if strict or b & 0x7FFF > infinity:
                    return _NAN
                return b
            if b & 0x7FFF > infinity:
                if strict:
                    return _NAN
                return a
            less = (a if a < 0x8000 else 0x7FFF - a) < (b if b < 0x8000 else 0x7FFF - b)
            if less is smaller:
                return a
            return b

        def of_sizes(a: int, b: int) -> int:
            made = pick(a & 0x7FFF, b & 0x7FFF)
            if made <= infinity:
                return made | (a ^ b) & 0x8000
            return made

        if "xorsign" in words:
            chosen = of_sizes
        else:
            chosen = pick
        if "ftz" in words:
            return lambda a, b: chosen(_flush(type, a), _flush(type, b))
        return chosen

    return make


class Kept(dict[int, int]):
    """A function of the bits of a half, or of other 16 bits, computed once for each."""

    def __init__(self, function: Callable[[int], int]) -> None:
        super().__init__()
        self._function = function

    def __missing__(self, bits: int) -> int:
        made = self[bits] = self._function(bits)
        return made


def _kept(operation: Callable[[float], float]) -> Callable[..., Callable[..., int]]:
    """Return the maker of an operation on one number."""

    def make(type: str, words: list[str]) -> Callable[..., int]:
        numbers, rounded = _NUMBERS[type, "ftz" in words], _ROUND[type]
        return Kept(lambda bits: rounded(operation(numbers[bits]))).__getitem__

    return make


_MAKERS: dict[str, tuple[int, Callable[[str, list[str]], Callable[..., int]]]] = {
    "add": (2, _two(operator.add)), "sub": (2, _two(operator.sub)), "mul": (2, _two(operator.mul)), "fma": (3, _fma),
    "min": (2, _extreme(True)), "max": (2, _extreme(False)), "ex2": (1, _kept(power_of_two)),
    "tanh": (1, _kept(math.tanh)),
}  # fmt: skip


class _Operations(dict[str, "Callable[..., int]"]):
    """The operations on registers with one or two halves, by name, type and flags, each made when it is first used."""

    def __missing__(self, key: str) -> Callable[..., int]:
        name, type, flags = key.split(" ")
        if flags:
            words = flags.split(",")
        else:
            words = []
        if type[-2:] == "x2":
            single = type[:-2]
        else:
            single = type
        count, make = _MAKERS[name]
        one = _finished(single, words, count, make(single, words))
        made = self[key] = one if single == type else _PAIRED[count](one)
        return made


HALVES = _Operations()


def _finished(type: str, words: list[str], count: int, one: Callable[..., int]) -> Callable[..., int]:
    """Return an operation whose result is flushed, limited to 0 to 1, or not negative."""
    infinity, top = _infinity(type), 0x3C00 if type == "f16" else 0x3F80
    ftz, sat, relu = "ftz" in words, "sat" in words, "relu" in words
    if not (ftz or sat or relu):
        return one

    if ftz:
        kept = 0x8000
    else:
        kept = 0xFFFF

    def finish(bits: int) -> int:
        if bits & infinity == 0:
            bits &= kept
        if sat:  # a number with a sign is at least 0x8000
            if bits > infinity:
                return 0
            return min(bits, top)
        if relu and bits & 0x8000:
            return 0
        return bits

    if count == 1:
        return lambda a: finish(one(a))
    if count == 2:
        return lambda a, b: finish(one(a, b))
    return lambda a, b, c: finish(one(a, b, c))


_PAIRED: dict[int, Callable[[Callable[..., int]], Callable[..., int]]] = {
    1: lambda one: lambda a: one(a >> 16) << 16 | one(a & 0xFFFF),
    2: lambda one: lambda a, b: one(a >> 16, b >> 16) << 16 | one(a & 0xFFFF, b & 0xFFFF),
    3: lambda one: lambda a, b, c: one(a >> 16, b >> 16, c >> 16) << 16 | one(a & 0xFFFF, b & 0xFFFF, c & 0xFFFF),
}


def to_integer(type: str, value: float, mode: str, to: str) -> int:
    """Convert a float to an integer type with saturation.

    A NaN becomes 0 if the source is not f64 and the result does not have 64 bits, else the highest bit alone.
    """
    if type in _FORMATS:
        value = from_half(type, int(value))
    bits = int(to[1:])
    if value != value:
        highest = 1 << bits - 1
        if type != "f64" and bits != 64:
            return 0
        if to[0] == "u":
            return highest
        return -highest
    if to[0] == "u":
        low, high = (0, (1 << bits) - 1)
    else:
        low, high = (-(1 << bits - 1), (1 << bits - 1) - 1)
    if value in (inf, -inf):
        if value > 0.0:
            return high
        return low
    return min(max(to_integer_value(value, mode), low), high)


# -- two float32 in 64 bits, a half and a float32


def _flush_32(value: float) -> float:
    if -TINY < value < TINY:
        return value * 0.0
    return value


_cell8 = bytearray(8)
_F2, _I8 = memoryview(_cell8).cast("f"), memoryview(_cell8).cast("Q")


def _rounded(operation: Callable[..., float], mode: str, *values: float) -> float:
    """Return the float32 result of an operation, rounded once."""
    if mode not in ("", "rn"):
        return _directed(operation, mode, *values)
    if len(values) == 2:  # in double first, which is innocuous
        x, y = values
        if operation is directed_add:
            value = x + y
        elif operation is directed_sub:
            value = x - y
        else:
            value = x * y
        T4[0] = value
        return T4[0]
    return _fused(*values)


def _directed(operation: Callable[..., float], mode: str, *values: float) -> float:
    """Return a float32 result with a directed rounding: the nearest number, moved by one towards the rest."""
    x, y = values[0], values[-1]
    if operation is directed_sub:
        y = -y
    elif operation is not directed_add:
        x *= values[1]  # exactly
        if len(values) == 3:
            y = values[2]
        else:
            y = 0.0
    value = x + y
    if not value or value - value != 0.0:
        return operation(32, mode, *values)
    part = value - x
    _F4[0] = value
    near, bits = _F4[0], _I4[0]
    rest = value - near or (x - (value - part)) + (y - part)
    if rest and (mode == "rz" or (rest > 0.0) == (mode == "rp")):
        negative = bits >> 31
        if mode != "rz":
            if negative == (mode == "rp"):
                _I4[0] = bits - 1
            else:
                _I4[0] = bits + 1
        elif (rest > 0.0) == negative:
            _I4[0] = bits - 1
    return _F4[0]


def _fused(x: float, y: float, z: float) -> float:
    """Multiply and add float32 with one rounding."""
    value = x * y + z
    T4[0] = value
    near = T4[0]
    top = value * SPLIT
    if top - (top - value) != value or near == value:
        return near
    return fma_midpoint(x, y, z, value)


def _both(operation: Callable[..., float], mode: str, ftz: str, *operands: int) -> int:
    pairs = []
    for bits in operands:
        _I8[0] = bits
        pairs.append(_F2.tolist())
    made = []
    for values in zip(*pairs):
        if ftz:
            values = tuple(map(_flush_32, values))
        value = _rounded(operation, mode, *values)
        if value != value:
            value = NAN
        made.append(_flush_32(value) if ftz else value)
    _F2[0], _F2[1] = made
    return _I8[0]


def _both_near(operation: Callable[[float, float], float], a: int, b: int) -> int:
    """Compute with two float32 and two others, as `_both` does, in the usual mode."""
    _I8[0] = a
    w, x = _F2
    _I8[0] = b
    y, z = _F2
    y, z = operation(w, y), operation(x, z)
    if y == y:
        _F2[0] = y
    else:
        _F2[0] = NAN
    if z == z:
        _F2[1] = z
    else:
        _F2[1] = NAN
    return _I8[0]


def pair_add(mode: str, ftz: str, a: int, b: int) -> int:
    """Add two float32 to two others."""
    if not ftz and (not mode or mode == "rn"):
        return _both_near(operator.add, a, b)
    return _both(directed_add, mode, ftz, a, b)


def pair_sub(mode: str, ftz: str, a: int, b: int) -> int:
    """Subtract two float32 from two others."""
    if not ftz and (not mode or mode == "rn"):
        return _both_near(operator.sub, a, b)
    return _both(directed_sub, mode, ftz, a, b)


def pair_mul(mode: str, ftz: str, a: int, b: int) -> int:
    """Multiply two float32 with two others."""
    if not ftz and (not mode or mode == "rn"):
        return _both_near(operator.mul, a, b)
    return _both(directed_mul, mode, ftz, a, b)


def pair_fma(mode: str, ftz: str, a: int, b: int, c: int) -> int:
    """Multiply and add two pairs of float32, each with one rounding."""
    if not ftz and mode == "rn":
        _I8[0] = a
        p, q = _F2
        _I8[0] = b
        r, s = _F2
        _I8[0] = c
        t, u = _F2
        t, u = _fused(p, r, t), _fused(q, s, u)
        if t == t:
            _F2[0] = t
        else:
            _F2[0] = NAN
        if u == u:
            _F2[1] = u
        else:
            _F2[1] = NAN
        return _I8[0]
    return _both(directed_fma, mode, ftz, a, b, c)


def mixed_add(type: str, mode: str, a: int, c: float) -> float:
    """Add a half to a float32."""
    return _rounded(directed_add, mode, from_half(type, a), c)


def mixed_sub(type: str, mode: str, a: int, c: float) -> float:
    """Subtract a float32 from a half."""
    return _rounded(directed_sub, mode, from_half(type, a), c)


def mixed_fma(type: str, mode: str, a: int, b: int, c: float) -> float:
    """Multiply two halves and add a float32, with one rounding."""
    return _rounded(directed_fma, mode, from_half(type, a), from_half(type, b), c)
