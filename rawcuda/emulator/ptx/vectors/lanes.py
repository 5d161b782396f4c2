"""Bytes and half words in a register, for arrays: products of bytes, minima of half words, video instructions.

A register is seen as an array of its bytes or half words, so one operation of NumPy computes those of all threads.
Sums and products are exact in wider integers, and are then saturated or truncated.

Functions have the names of those in ../running/integers.py and ../running/units/video.py, and the same results.

Source       PTX ISA, "dp4a", "dp2a", "Scalar Video Instructions", "SIMD Video Instructions"
Read next    small_vectors.py
"""

from __future__ import annotations

from .late_numpy import np
from .numeric import joined, limits, parts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    Array = Any

__all__ = ["dot2", "dot4", "halves", "signed_halves", "video", "video_lanes"]

_COMPARED = {
    "eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal",
}  # fmt: skip


# -- products of bytes, and the extremes of half words


def dot4(a: Array, b: Array, first: str, second: str) -> Array:
    """Multiply four bytes with four bytes and add the products (dp4a), as unsigned bits."""
    x, y = parts(_kind(8, first), a)[0].astype(np.i4), parts(_kind(8, second), b)[0].astype(np.i4)
    if a.ndim != b.ndim:  # one is the same for all threads
        x, y = (value.reshape(-1, 4) for value in (x, y))
        x, y = (value.reshape(-1) for value in np.broadcast_arrays(x, y))
    made = x * y
    total = made[0::4] + made[1::4] + made[2::4] + made[3::4]
    return (total if a.ndim or b.ndim else total[0]).view(np.u4)


def dot2(a: Array, b: Array, first: str, second: str, half: str) -> Array:
    """Multiply two 16-bit numbers with two of four bytes and add the products (dp2a), as unsigned bits."""
    if half == "hi":
        start = 16
    else:
        start = 0
    made = _field(a, 0, 16, first) * _field(b, start, 8, second)
    return (made + _field(a, 16, 16, first) * _field(b, start + 8, 8, second)).view(np.u4)


def _kind(bits: int, type: str) -> Any:
    return getattr(np, f"{'i' if type[0] == 's' else 'u'}{bits // 8}")


def _field(value: Array, start: int, bits: int, type: str) -> Array:
    """Return a byte or a half word of registers as numbers."""
    if start:
        part = value >> np.u4(start)
    else:
        part = value
    return part.astype(_kind(bits, type)).astype(np.i4)


def halves(pick: Callable[[Array, Array], Array], a: Array, b: Array) -> Array:
    """Apply a function to both unsigned halves."""
    return joined(pick(*parts(np.u2, a, b)), a, b)


def signed_halves(pick: Callable[[Array, Array], Array], a: Array, b: Array, relu: str) -> Array:
    """Apply a function to both signed halves."""
    made = pick(*parts(np.i2, a, b))
    return joined(np.maximum(made, np.i2(0)) if relu else made, a, b)


# -- video instructions


def _computed(verb: str, x: Array, y: Array, words: list[str]) -> Array:
    """Return the exact result for parts of registers."""
    if verb == "vadd":
        return x + y
    if verb == "vsub":
        return x - y
    if verb == "vabsdiff":
        return np.abs(x - y)
    if verb == "vavrg":
        total = x + y
        return total + (total >= 0) >> 1
    if verb == "vset":
        return getattr(np, _COMPARED[words[0]])(x, y).astype(x.dtype)
    return (np.minimum if verb == "vmin" else np.maximum)(x, y)


def _clamped(value: Array, bits: int, type: str) -> Array:
    low, high = limits(f"{type[0]}{bits}")
    return np.minimum(np.maximum(value, low), high)


def _selected(value: Array, selector: str, type: str) -> Array:
    """Return a byte, a half word or the whole of registers as numbers of 64 bits."""
    if not selector:
        return value.view(_kind(32, type)).astype(np.i8)
    if selector[0] == "b":
        bits = 8
    else:
        bits = 16
    return (value >> np.u4(int(selector[1:]) * bits)).astype(_kind(bits, type)).astype(np.i8)


def video(
    verb: str, types: tuple[str, ...], flags: str, way: str, target: str, a: Array, sa: str, b: Array, sb: str, c: Array
) -> Array:
    """Return the results of a scalar video instruction.

    shape   types: of d, a and b; flags: any of sat, po, shr7, shr15, clamp, wrap, a comparison; way: add, min or
            max, or "" for none; target: the part of c that the result replaces; sa, sb: the parts of a and b; for vmad
            also signs
    """
    words = flags.split(",")
    x, y = _selected(a, sa.strip("-"), types[1]), _selected(b, sb.strip("-"), types[2])
    type, third = types[0], c.astype(np.i8)
    if verb == "vmad":
        negated = (sa[:1] == "-") != (sb[:1] == "-")
        signed = "s32" in types[1:] or negated  # C, and with a negated C the result, too
        if signed:
            third = c.view(np.i4).astype(np.i8)
        if signed or way == "-":
            type = "s32"
        else:
            type = "u32"
        return _multiplied(x, y, negated, -third if way == "-" else third, words, type)
    if not target:
        bits = 32
    elif target[0] == "b":
        bits = 8
    else:
        bits = 16
    if verb in ("vshl", "vshr"):
        if "clamp" in words:
            y = np.minimum(y, 32)
        else:
            y = y & 31
        if verb == "vshr":
            value = x >> y
        elif "sat" in words:  # exact in double
            value = _clamped(np.ldexp(x.astype(np.f8), y.astype(np.i4)), bits, type).astype(np.i8)
        else:
            value = x << y & 0xFFFFFFFF
    else:
        value = _computed(verb, x, y, words)
        if verb == "vset":
            type = "u32"
    if "sat" in words:
        value = _clamped(value, bits, type)
    if target:
        shift, whole = int(target[1:]) * bits, (1 << bits) - 1
        return c & np.u4(0xFFFFFFFF - (whole << shift)) | (value & whole).astype(np.u4) << np.u4(shift)
    if way == "add":
        value = value + third
    elif way:
        kind = _kind(32, type)
        if way == "min":
            pick = np.minimum
        else:
            pick = np.maximum
        return pick(value.astype(np.u4).view(kind), c.view(kind)).view(np.u4)
    return value.astype(np.u4)


def _multiplied(x: Array, y: Array, negative: bool, c: Array, words: list[str], type: str) -> Array:
    """Multiply, add and shift (vmad); the sum, which may have 66 bits, is held as high * 2**16 + low."""
    high, low = x * (y >> 16), x * (y & 0xFFFF)
    if negative:
        high, low = -high, -low
    low = low + c + ("po" in words)
    high, low = high + (low >> 16), low & 0xFFFF
    if "shr7" in words:
        shift = 7
    elif "shr15" in words:
        shift = 15
    else:
        shift = 0
    if "sat" in words:
        edge = 1 << 50  # far outside the limits
        high = np.minimum(np.maximum(high, -(edge >> 16 - shift)), edge >> 16 - shift)
    value = (high << 16 - shift) + (low >> shift)
    return (_clamped(value, 32, type) if "sat" in words else value).astype(np.u4)


def _lanes(a: Array, b: Array, digits: str, bits: int, type: str) -> Array:
    """Return chosen bytes or half words of b:a, the lowest first, those of each thread together."""
    count = 32 // bits
    places = [int(digit) for digit in reversed(digits)]
    own = [given for given, start in ((a, 0), (b, count)) if places == list(range(start, start + count))]
    kind = _kind(bits, type)
    if own:
        return parts(kind, own[0])[0]
    both = np.concatenate([value.reshape(-1, count) for value in parts(kind, *_alike(a, b))], axis=1)
    return both[:, places].reshape(-1)


def _alike(*values: Array) -> list[Array]:
    """Return arrays of one length."""
    count = max(len(value) if value.ndim else 1 for value in values)
    return [value if value.ndim else np.full(count, value) for value in values]


def video_lanes(
    verb: str, types: tuple[str, ...], flags: str, mask: str, a: Array, sa: str, b: Array, sb: str, c: Array
) -> Array:
    """Return the results of a SIMD video instruction.

    shape   types: of d, a and b; flags: any of sat, add, a comparison; mask: the lanes that are written, as digits; sa,
            sb: which of the lanes of a and b (from 4 in b on) go into each lane, the highest first
    """
    words, count = flags.split(","), int(verb[-1])
    bits = 32 // count
    same = not (a.ndim or b.ndim or c.ndim)
    a, b, c = _alike(a, b, c)
    x, y = (_lanes(a, b, digits, bits, type).astype(np.i4) for digits, type in ((sa, types[1]), (sb, types[2])))
    value = _computed(verb[:-1], x, y, words)
    if "sat" in words:
        value = _clamped(value, bits, types[0])
    written = sorted(int(digit) for digit in mask)
    if "add" in words:
        total = c
        for lane in written:
            total = total + value[lane::count].view(np.u4)
        if same:
            return total[0]
        return total
    whole = (1 << bits) - 1
    covered = sum(whole << lane * bits for lane in written)
    made = value.astype(_kind(bits, "u")).view(np.u4)
    if covered != 0xFFFFFFFF:
        made = made & np.u4(covered) | c & np.u4(0xFFFFFFFF - covered)
    if same:
        return made[0]
    return made
