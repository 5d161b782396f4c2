"""Functions that device code calls without defining them: vprintf, __assertfail, malloc, free, and one for graphs.

Output is buffered until the launch ends, as on a GPU, and is then written to Python's stdout. The buffer is circular:
see `Launch.print`.

Source       CUDA C++ Programming Guide, "Formatted Output", "Assertion", "Dynamic Global Memory Allocation"; CUDA
             device runtime API, cudaGraphSetConditional
Read next    lookups.py
"""

from __future__ import annotations

import math
import re
import struct

from ...machine.codes import ASSERT
from ...machine.space import Fault

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .thread import Thread

__all__ = ["assertfail", "free", "malloc", "set_conditional", "vprintf"]

LONGEST_TEXT = 1 << 16
MOST_ARGUMENTS = 32  # of printf; conversions of further ones are printed as they are
# A width begins with no 0, which is a flag: if both could take a zero, a text of zeros would be tried in all divisions.
_CONVERSION = re.compile(r"%([-+ #0]*)(\*|[1-9]\d*)?(?:\.(\*|\d*))?(hh|h|ll|l|j|z|t|L)?([diouxXcsfFeEgGaAp%])")


def _string(thread: Thread, address: int, encoding: str = "utf-8") -> str:
    made = bytearray()
    while len(made) < LONGEST_TEXT:
        view, at, _ = thread.reach(address + len(made), 0, "B", 1)
        byte = view[at]
        if not byte:
            break
        made.append(byte)
    return made.decode(encoding, "replace")


def _value(thread: Thread, address: int, code: str, width: int) -> int | float:
    raw = bytearray()
    for at in range(width):
        view, offset, _ = thread.reach(address + at, 0, "B", 1)
        raw.append(view[offset])
    value: int | float = struct.unpack("<" + code, raw)[0]
    return value


def vprintf(thread: Thread, text: int, arguments: int) -> int:
    """Format as C's printf does, and buffer the text; return the number of arguments.

    Widths count bytes, so each byte is a character here: its encoding is Latin-1.
    """
    thread.launch.look_at_clock()  # each text can be long
    place = arguments
    count = 0

    def take(code: str, width: int) -> int | float:
        nonlocal place, count
        place = -(-place // width) * width
        value = _value(thread, place, code, width)
        place += width
        count += 1
        return value

    def convert(found: re.Match[str]) -> str:
        flags, width, precision, length, kind = found.groups()
        if kind == "%":
            return "%"
        if count >= MOST_ARGUMENTS:
            return found.group()
        if width == "*":
            size = int(take("i", 4))
            if size < 0:
                flags, width = (flags + "-", str(-size))
            else:
                flags, width = (flags, str(size))
        if precision == "*":
            size = int(take("i", 4))
            if size < 0:
                precision = None
            else:
                precision = str(size)
        wide, digits = _size(width or ""), None if precision is None else _size(precision)
        long = length in ("l", "ll", "j", "z", "t")
        if kind == "p":
            return _filled("0x", f"{int(take('Q', 8)):x}", flags, wide)
        if kind == "s":
            return _filled("", _string(thread, int(take("Q", 8)), "latin-1")[:digits], flags.replace("0", ""), wide)
        if kind == "c":
            return _filled("", chr(int(take("i", 4)) & 0xFF), flags.replace("0", ""), wide)
        if kind in "di":
            if long:
                value = take("q", 8)
            else:
                value = take("i", 4)
            return _whole(_narrow(int(value), length, True), kind, flags, wide, digits)
        if kind in "ouxX":
            if long:
                value = take("Q", 8)
            else:
                value = take("I", 4)
            return _whole(_narrow(int(value), length, False), kind, flags, wide, digits)
        return _real(float(take("d", 8)), kind, flags, wide, digits)

    thread.launch.print(_CONVERSION.sub(convert, _string(thread, text, "latin-1")).encode("latin-1"))
    return count


def _size(digits: str) -> int:
    """Return a width or precision, 4096 at most: a text may have more digits than Python converts."""
    digits = digits.lstrip("0")
    return min(int(digits[:9] or 0), 4096)


def _filled(prefix: str, text: str, flags: str, width: int) -> str:
    """Fill a text to a width; zeros stand between the prefix (a sign, 0x) and the rest."""
    if "-" in flags:
        return (prefix + text).ljust(width)
    if "0" in flags:
        text = text.rjust(width - len(prefix), "0")
    return (prefix + text).rjust(width)


def _sign(negative: bool, flags: str) -> str:
    if negative:
        return "-"
    if "+" in flags:
        return "+"
    if " " in flags:
        return " "
    return ""


def _whole(value: int, kind: str, flags: str, width: int, precision: int | None) -> str:
    """Write an integer; a precision is the least number of digits, and 0 is none of them."""
    text = format(abs(value), kind if kind in "oxX" else "d")
    if precision is not None:
        flags = flags.replace("0", "")
        if value or precision:
            text = text.rjust(precision, "0")
        else:
            text = ""
    prefix = ""
    if kind in "di":
        prefix = _sign(value < 0, flags)
    elif "#" in flags and kind == "o" and text[:1] != "0":
        text = "0" + text
    elif "#" in flags and kind in "xX" and value:
        prefix = "0" + kind
    return _filled(prefix, text, flags, width)


def _real(value: float, kind: str, flags: str, width: int, precision: int | None) -> str:
    prefix = _sign(math.copysign(1, value) < 0, flags)
    if not math.isfinite(value):
        flags = flags.replace("0", "")
        text = ("%F" if kind.isupper() else "%f") % abs(value)
    elif kind in "aA":
        text = _hexadecimal(abs(value), precision, "#" in flags)
        prefix, text = prefix + "0x", text[2:]
        if kind == "A":
            prefix, text = prefix.upper(), text.upper()
    else:
        if precision is None:
            digits = ""
        else:
            digits = f".{precision}"
        text = f"%{'#' if '#' in flags else ''}{digits}{kind}" % abs(value)
    return _filled(prefix, text, flags, width)


def _hexadecimal(value: float, precision: int | None, point: bool) -> str:
    """Write a number as %a does: "0x1.8p+1" for 3.0; rounded to a precision, it may begin with 2."""
    mantissa, _, exponent = value.hex()[2:].partition("p")
    whole, _, part = mantissa.partition(".")
    if precision is None:
        part = part.rstrip("0")
    elif precision < len(part):
        cut = 16 ** (len(part) - precision)
        rounded, rest = divmod(int(whole + part, 16), cut)
        rounded += rest * 2 > cut or rest * 2 == cut and rounded & 1
        text = f"{rounded:0{precision + 1}x}"
        whole, part = text[:1], text[1:]
    else:
        part = part.ljust(precision, "0")
    return f"0x{whole}{'.' if part or point else ''}{part}p{exponent}"


def _narrow(value: int, length: str | None, signed: bool) -> int:
    bits = {"hh": 8, "h": 16}.get(length or "")
    if bits is None:
        return value
    value &= (1 << bits) - 1
    if signed:
        return (value ^ 1 << bits - 1) - (1 << bits - 1)
    return value


def assertfail(thread: Thread, message: int, file: int, line: int, function: int) -> None:
    """Report a failed assertion.

    raises  Fault   always (710)
    """
    launch = thread.launch
    t, tx, ty, tz = thread.place_in_block
    block = thread.block
    text = (
        f"{_string(thread, file)}:{line}: {_string(thread, function)}: block: [{block.x},{block.y},{block.z}], "
        f"thread: [{tx},{ty},{tz}] Assertion `{_string(thread, message)}` failed."
    )
    launch.print(f"{text}\n".encode())
    raise Fault(ASSERT, text)


def malloc(thread: Thread, size: int) -> int:
    """Allocate from the context's heap, which is global memory; return 0 if the size is 0 or does not fit."""
    launch = thread.launch
    launch.look_at_clock()  # each allocation can be large
    return launch.heap.allocate(launch.space, size, launch.heap_size)


def free(thread: Thread, address: int) -> None:
    """Free memory that malloc allocated.

    raises  Fault   an address that malloc did not return (700)
    """
    launch = thread.launch
    if address and not launch.heap.free(launch.space, address):
        raise Fault(700, f"free in a kernel of {launch.space.explain(address, 1)}")


def set_conditional(thread: Thread, handle: int, value: int) -> None:
    """Set a condition of a graph, which decides what a conditional node runs.

    raises  Fault   no condition has this handle (719)
    """
    condition = thread.launch.space.conditions.get(handle)
    if condition is None:
        raise Fault(719, f"cudaGraphSetConditional: {handle:#x} is not the handle of a graph's condition")
    condition.value = value & 0xFFFFFFFF
