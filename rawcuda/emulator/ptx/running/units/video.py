"""Video instructions: arithmetic on bytes and half words that are chosen from registers.

What it is   `video`, the scalar instructions (vadd ... vset), and `video_lanes`, the SIMD ones (vadd2 ... vset4). The
             results are exact integers, then saturated or truncated, and then combined with a third operand.
Source       PTX ISA, "Scalar Video Instructions", "SIMD Video Instructions"
Read next    calls.py
"""

from __future__ import annotations

import operator
from functools import lru_cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

    _Plan = tuple[Callable[[int, int], int], int, list[tuple[int, int, int]], int, bool]

__all__ = ["video", "video_lanes"]

_COMPARED = {name: getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge")}
_COMPUTED: dict[str, Callable[[int, int], int]] = {
    "vadd": operator.add,
    "vsub": operator.sub,
    "vabsdiff": lambda x, y: abs(x - y),
    "vavrg": lambda x, y: x + y + (x + y >= 0) >> 1,
    "vmin": min,
    "vmax": max,
}


def _part(value: int, selector: str, type: str) -> int:
    """Return a byte, a half word or the whole of a register as a number."""
    bits, shift = 32, 0
    if selector:
        bits = 8 if selector[0] == "b" else 16
        shift = int(selector[1:]) * bits
    value = value >> shift & (1 << bits) - 1
    return value - (value >> bits - 1 << bits) if type == "s32" else value


def _limits(bits: int, type: str) -> tuple[int, int]:
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if type == "s32" else (0, (1 << bits) - 1)


def _clamped(value: int, bits: int, type: str) -> int:
    low, high = _limits(bits, type)
    return min(max(value, low), high)


def _combined(way: str, value: int, c: int, type: str) -> int:
    if way == "add":
        return value + c
    value, c = value & 0xFFFFFFFF, c & 0xFFFFFFFF
    if type == "s32":
        value, c = value - (value >> 31 << 32), c - (c >> 31 << 32)
    return min(value, c) if way == "min" else max(value, c)


def video(
    verb: str, types: tuple[str, ...], flags: str, way: str, target: str, a: int, sa: str, b: int, sb: str, c: int
) -> int:
    """Return the result of a scalar video instruction.

    shape   types: of d, a and b; flags: any of sat, po, shr7, shr15, clamp, wrap, a comparison; way: add, min or
            max, or "" for none; target: the part of c that the result replaces; sa, sb: the parts of a and b; for vmad
            also signs
    """
    words = flags.split(",")
    x, y = _part(a, sa.strip("-"), types[1]), _part(b, sb.strip("-"), types[2])
    type = types[0]
    if verb == "vmad":
        negative = (sa[:1] == "-") != (sb[:1] == "-")
        value = x * y
        value = -value if negative else value
        value += -c if way == "-" else c
        value += "po" in words
        value >>= 7 if "shr7" in words else 15 if "shr15" in words else 0
        return (_clamped(value, 32, type) if "sat" in words else value) & 0xFFFFFFFF
    if verb == "vset":
        value = int(_COMPARED[words[0]](x, y))
        type = "u32"
    elif verb in ("vshl", "vshr"):
        y &= 0xFFFFFFFF
        y = min(y, 32) if "clamp" in words else y & 31
        value = x << y if verb == "vshl" else x >> y
        if verb == "vshl" and "sat" not in words:
            value &= 0xFFFFFFFF
    else:
        value = _COMPUTED[verb](x, y)
    bits = 32
    if target:
        bits = 8 if target[0] == "b" else 16
    if "sat" in words:
        value = _clamped(value, bits, type)
    if target:
        shift = int(target[1:]) * bits
        whole = (1 << bits) - 1
        return c & ~(whole << shift) & 0xFFFFFFFF | (value & whole) << shift
    if way:
        value = _combined(way, value, c, type)
    return value & 0xFFFFFFFF


@lru_cache(1000)
def _plan(verb: str, types: tuple[str, ...], flags: str, mask: str, sa: str, sb: str) -> _Plan:
    """Return the function that combines two lanes, and the lanes to which it is applied.

    shape   the mask of a lane; where each lane is in a, b and d; the bits of c that are kept; whether d is a sum
    """
    words, count = flags.split(","), int(verb[-1])
    bits = 32 // count
    order = range(count - 1, -1, -1)  # the selectors start with the highest lane
    lanes = [(int(sa[n]) * bits, int(sb[n]) * bits, lane * bits) for n, lane in enumerate(order) if str(lane) in mask]
    call = _COMPARED[words[0]] if verb.startswith("vset") else _COMPUTED[verb[:-1]]
    if "s32" in types[1:3]:
        call = _signed(call, *(1 << bits - 1 if type == "s32" else 0 for type in types[1:3]))
    if "sat" in words:
        call = _limited(call, *_limits(bits, types[0]))
    whole = (1 << bits) - 1
    return call, whole, lanes, 0xFFFFFFFF - sum(whole << to for _, _, to in lanes), "add" in words


def _signed(call: Callable[[int, int], int], sign_a: int, sign_b: int) -> Callable[[int, int], int]:
    return lambda x, y: call(x - ((x & sign_a) << 1), y - ((y & sign_b) << 1))


def _limited(call: Callable[[int, int], int], low: int, high: int) -> Callable[[int, int], int]:
    return lambda x, y: min(max(call(x, y), low), high)


def video_lanes(
    verb: str, types: tuple[str, ...], flags: str, mask: str, a: int, sa: str, b: int, sb: str, c: int
) -> int:
    """Return the result of a SIMD video instruction.

    shape   types: of d, a and b; flags: any of sat, add, a comparison; mask: the lanes that are written, as digits; sa,
            sb: which of the lanes of a and b (from 4 in b on) go into each lane, the highest first
    """
    call, whole, lanes, kept, adds = _plan(verb, types, flags, mask, sa, sb)
    both = a | b << 32
    if adds:
        return c + sum(call(both >> in_a & whole, both >> in_b & whole) for in_a, in_b, _ in lanes) & 0xFFFFFFFF
    made = c & kept
    for in_a, in_b, to in lanes:
        made |= (call(both >> in_a & whole, both >> in_b & whole) & whole) << to
    return made
