"""Video instructions: arithmetic on bytes and half words that are chosen from registers.

What it is   `video`, the scalar instructions (vadd ... vset), and `video_lanes`, the SIMD ones (vadd2 ... vset4). The
             results are exact integers, then saturated or truncated, and then combined with a third operand.
Source       PTX ISA, "Scalar Video Instructions", "SIMD Video Instructions"
Read next    calls.py
"""

from __future__ import annotations

__all__ = ["video", "video_lanes"]


def _part(value: int, selector: str, type: str) -> int:
    """Return a byte, a half word or the whole of a register as a number."""
    bits, shift = 32, 0
    if selector:
        bits = 8 if selector[0] == "b" else 16
        shift = int(selector[1:]) * bits
    value = value >> shift & (1 << bits) - 1
    return value - (value >> bits - 1 << bits) if type == "s32" else value


def _clamped(value: int, bits: int, type: str) -> int:
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if type == "s32" else (0, (1 << bits) - 1)
    return min(max(value, low), high)


def _compare(cmp: str, x: int, y: int) -> int:
    return {"eq": x == y, "ne": x != y, "lt": x < y, "le": x <= y, "gt": x > y, "ge": x >= y}[cmp]


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

    shape   types: of d, a and b; flags: of sat, po, shr7, shr15, clamp, wrap, a comparison; way: add, min or max, or ""
            for none; target: the part of c that the result replaces; sa, sb: the parts of a and b; for vmad also signs
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
        value = _compare(words[0], x, y)
        type = "u32"
    elif verb in ("vshl", "vshr"):
        y &= 0xFFFFFFFF
        y = min(y, 32) if "clamp" in words else y & 31
        value = x << y if verb == "vshl" else x >> y
        if verb == "vshl" and "sat" not in words:
            value &= 0xFFFFFFFF
    else:
        value = {"vadd": x + y, "vsub": x - y, "vabsdiff": abs(x - y), "vmin": min(x, y), "vmax": max(x, y)}[verb]
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


def video_lanes(
    verb: str, types: tuple[str, ...], flags: str, mask: str, a: int, sa: str, b: int, sb: str, c: int
) -> int:
    """Return the result of a SIMD video instruction.

    shape   types: of d, a and b; flags: of sat, add, a comparison; mask: the lanes that are written, as digits; sa, sb:
            which of the lanes of a and b (from 4 in b on) go into each lane, the highest first
    """
    words = flags.split(",")
    count = int(verb[-1])
    bits = 32 // count
    whole = (1 << bits) - 1
    both = a | b << 32
    made, total = c, c
    for lane in range(count):
        if str(lane) not in mask:
            continue
        x = both >> int(sa[count - 1 - lane]) * bits & whole
        y = both >> int(sb[count - 1 - lane]) * bits & whole
        if types[1] == "s32":
            x -= x >> bits - 1 << bits
        if types[2] == "s32":
            y -= y >> bits - 1 << bits
        name = verb[:-1]
        if name == "vset":
            value = _compare(words[0], x, y)
        else:
            value = {
                "vadd": x + y, "vsub": x - y, "vavrg": x + y + (x + y >= 0) >> 1, "vabsdiff": abs(x - y),
                "vmin": min(x, y), "vmax": max(x, y),
            }[name]  # fmt: skip
        if "add" in words:
            total += value
        else:
            if "sat" in words:
                value = _clamped(value, bits, types[0])
            made = made & ~(whole << lane * bits) | (value & whole) << lane * bits
    return (total if "add" in words else made) & 0xFFFFFFFF
