"""Video instructions: arithmetic on bytes and half words that are chosen from registers.

What it is   `VIDEO`, the functions of the scalar instructions (vadd ... vset) and of the SIMD ones (vadd2 ... vset4).
             Their results are exact integers, then saturated or truncated, and then combined with a third operand.
Source       PTX ISA, "Scalar Video Instructions", "SIMD Video Instructions"
Read next    call_units.py
"""

from __future__ import annotations

import operator
from array import array

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

__all__ = ["VIDEO"]

_COMPARED = {name: getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge")}
_COMPUTED: dict[str, Callable[[int, int], int]] = {
    "vadd": operator.add,
    "vsub": operator.sub,
    "vabsdiff": lambda x, y: abs(x - y),
    "vavrg": lambda x, y: x + y + (x + y >= 0) >> 1,
    "vmin": min,
    "vmax": max,
}


def _limits(bits: int, type: str) -> tuple[int, int]:
    if type == "s32":
        return (-(1 << bits - 1), (1 << bits - 1) - 1)
    return (0, (1 << bits) - 1)


def _combined(way: str, value: int, c: int, type: str) -> int:
    if way == "add":
        return value + c
    value, c = value & 0xFFFFFFFF, c & 0xFFFFFFFF
    if type == "s32":
        value, c = value - (value >> 31 << 32), c - (c >> 31 << 32)
    if way == "min":
        return min(value, c)
    return max(value, c)


def _reader(selector: str, type: str) -> Callable[[int], int]:
    """Return the function that reads a part of a register as a number."""
    bits, shift = 32, 0
    if selector:
        if selector[0] == "b":
            bits = 8
        else:
            bits = 16
        shift = int(selector[1:]) * bits
    whole, sign = (1 << bits) - 1, 1 << bits - 1
    if type == "s32":
        return lambda value: (value >> shift & whole ^ sign) - sign
    return lambda value: value >> shift & whole


class Video(dict[str, "Callable[[int, int, int], int]"]):
    """The functions of video instructions, each made when it is first used.

    A key has the parts of an instruction, separated by "|": the opcode; the types of d, a and b; any of sat, po, shr7,
    shr15, clamp, wrap and a comparison; how the result and c are combined (add, min, max, for vmad "-", or ""); the
    part of c that the result replaces, or for SIMD instructions the lanes that are written; the parts of a and b, for
    vmad with signs, or the lanes of b:a that go into each lane, the highest first.
    """

    def __missing__(self, key: str) -> Callable[[int, int, int], int]:
        verb, types, flags, way, target, sa, sb = key.split("|")
        parts = (verb, types.split(","), flags.split(","), way, target, sa, sb)
        if verb[-1] in "24":
            function = _lanes(*parts)
        elif verb == "vmad":
            function = _multiplied(*parts)
        else:
            function = _single(*parts)
        self[key] = function
        return function


VIDEO = Video()


def _multiplied(
    verb: str, types: list[str], words: list[str], way: str, target: str, sa: str, sb: str
) -> Callable[[int, int, int], int]:
    """Return the function of a product and a sum."""
    first, second = _reader(sa.strip("-"), types[1]), _reader(sb.strip("-"), types[2])
    if (sa[:1] == "-") != (sb[:1] == "-"):
        sign = -1
    else:
        sign = 1
    is_signed = "s32" in types[1:] or sign < 0  # C, and with a negated C the result, too
    third = _reader("", "s32" if is_signed else "u32")
    sign_c, more = -1 if way == "-" else 1, int("po" in words)
    if "shr7" in words:
        shift = 7
    elif "shr15" in words:
        shift = 15
    else:
        shift = 0
    low, high = _limits(32, "s32" if is_signed or sign_c < 0 else "u32")

    def compute(a: int, b: int, c: int) -> int:
        value = sign * first(a) * second(b) + sign_c * third(c) + more >> shift
        return value & 0xFFFFFFFF

    def limited(a: int, b: int, c: int) -> int:
        value = sign * first(a) * second(b) + sign_c * third(c) + more >> shift
        return (low if value < low else high if value > high else value) & 0xFFFFFFFF

    if "sat" in words:
        return limited
    return compute


def _single(
    verb: str, types: list[str], words: list[str], way: str, target: str, sa: str, sb: str
) -> Callable[[int, int, int], int]:
    """Return the function of an instruction on one part of each register."""
    first, second = _reader(sa, types[1]), _reader(sb, types[2])
    type = types[0]
    if verb == "vset":
        operation: Callable[[int, int], int] = _COMPARED[words[0]]
        type = "u32"
    elif verb in ("vshl", "vshr"):
        operation = _shift(verb, words)
    else:
        operation = _COMPUTED[verb]
    if not target:
        bits = 32
    elif target[0] == "b":
        bits = 8
    else:
        bits = 16
    if "sat" in words:
        operation = _limited(operation, *_limits(bits, type))
    if target:
        shift, whole = int(target[1:]) * bits, (1 << bits) - 1
        kept = 0xFFFFFFFF - (whole << shift)
        return lambda a, b, c: c & kept | (operation(first(a), second(b)) & whole) << shift
    if not way:
        return lambda a, b, c: operation(first(a), second(b)) & 0xFFFFFFFF
    return lambda a, b, c: _combined(way, operation(first(a), second(b)), c, type) & 0xFFFFFFFF


def _shift(verb: str, words: list[str]) -> Callable[[int, int], int]:
    clamps, left, kept = "clamp" in words, verb == "vshl", -1 if "sat" in words else 0xFFFFFFFF

    def shift(x: int, y: int) -> int:
        if clamps:
            y = min(y, 32)
        else:
            y = y & 31
        if left:
            return x << y & kept
        return x >> y

    return shift


def _operation(verb: str, types: list[str], words: list[str]) -> Callable[[int, int], int]:
    """Return the function that a SIMD instruction applies to two lanes."""
    bits = 32 // int(verb[-1])
    if verb.startswith("vset"):
        call: Callable[[int, int], int] = _COMPARED[words[0]]
    else:
        call = _COMPUTED[verb[:-1]]
    if "s32" in types[1:3]:
        call = _signed(call, *(1 << bits - 1 if type == "s32" else 0 for type in types[1:3]))
    if "sat" in words:
        call = _limited(call, *_limits(bits, types[0]))
    return call


def _bytewise(call: Callable[[int, int], int]) -> Callable[[int, int, int], int]:
    """Return the function of a SIMD instruction on all bytes of a and b, in their order.

    It looks results up, which takes half of the time; 128 kB for each of a few hundred operations.
    """
    table = array("h", [call(x, y) for x in range(256) for y in range(256)])
    return lambda a, b, c: (
        table[(a & 0xFF) << 8 | b & 0xFF] & 0xFF
        | (table[a & 0xFF00 | b >> 8 & 0xFF] & 0xFF) << 8
        | (table[a >> 8 & 0xFF00 | b >> 16 & 0xFF] & 0xFF) << 16
        | (table[a >> 16 & 0xFF00 | b >> 24] & 0xFF) << 24
    )


def _lanes(
    verb: str, types: list[str], words: list[str], way: str, mask: str, sa: str, sb: str
) -> Callable[[int, int, int], int]:
    """Return the function of a SIMD instruction."""
    count = int(verb[-1])
    bits = 32 // count
    order = range(count - 1, -1, -1)  # the selectors start with the highest lane
    lanes = [(int(sa[n]) * bits, int(sb[n]) * bits, lane * bits) for n, lane in enumerate(order) if str(lane) in mask]
    whole = (1 << bits) - 1
    kept = 0xFFFFFFFF - sum(whole << to for _, _, to in lanes)
    call = _operation(verb, types, words)

    def total(a: int, b: int, c: int) -> int:
        both = a | b << 32
        for in_a, in_b, _ in lanes:
            c += call(both >> in_a & whole, both >> in_b & whole)
        return c & 0xFFFFFFFF

    def each(a: int, b: int, c: int) -> int:
        both = a | b << 32
        made = c & kept
        for in_a, in_b, to in lanes:
            made |= (call(both >> in_a & whole, both >> in_b & whole) & whole) << to
        return made

    if way == "add":
        return total
    if (mask, sa, sb) == ("3210", "3210", "7654"):
        return _bytewise(call)
    return each


def _signed(call: Callable[[int, int], int], sign_a: int, sign_b: int) -> Callable[[int, int], int]:
    return lambda x, y: call(x - ((x & sign_a) << 1), y - ((y & sign_b) << 1))


def _limited(call: Callable[[int, int], int], low: int, high: int) -> Callable[[int, int], int]:
    def limited(x: int, y: int) -> int:
        value = call(x, y)
        if value < low:
            return low
        if value > high:
            return high
        return value

    return limited
