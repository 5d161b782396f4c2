"""Functions that device code calls without defining them: vprintf, __assertfail, malloc, free, and one for graphs.

Output is buffered until the launch ends, as on a GPU, and is then written to Python's stdout. The buffer is circular:
see `Launch.print`.

Source       CUDA C++ Programming Guide, "Formatted Output", "Assertion", "Dynamic Global Memory Allocation"; CUDA
             device runtime API, cudaGraphSetConditional
Read next    lookups.py
"""

from __future__ import annotations

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
_CONVERSION = re.compile(r"%([-+ #0]*)(\*|[1-9]\d*)?(?:\.(\*|\d+))?(hh|h|ll|l|j|z|t|L)?([diouxXcsfFeEgGaAp%])")


def _string(thread: Thread, address: int) -> str:
    made = bytearray()
    while len(made) < LONGEST_TEXT:
        view, at, _ = thread.reach(address + len(made), 0, "B", 1)
        byte = view[at]
        if not byte:
            break
        made.append(byte)
    return made.decode("utf-8", "replace")


def _value(thread: Thread, address: int, code: str, width: int) -> int | float:
    raw = bytearray()
    for at in range(width):
        view, offset, _ = thread.reach(address + at, 0, "B", 1)
        raw.append(view[offset])
    value: int | float = struct.unpack("<" + code, raw)[0]
    return value


def vprintf(thread: Thread, text: int, arguments: int) -> int:
    """Format as C's printf does, and buffer the text; return the number of arguments."""
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
            flags, width = (flags + "-", str(-size)) if size < 0 else (flags, str(size))
        if precision == "*":
            precision = str(max(0, int(take("i", 4))))
        digits = "" if precision is None else f".{_size(precision)}"
        spec = f"%{flags}{_size(width) if width else ''}{digits}"
        long = length in ("l", "ll", "j", "z", "t")
        if kind == "p":
            return f"{spec}s" % f"0x{int(take('Q', 8)):x}"
        if kind == "s":
            return f"{spec}s" % _string(thread, int(take("Q", 8)))
        if kind == "c":
            return f"{spec}s" % chr(int(take("i", 4)) & 0xFF)
        if kind in "di":
            value = take("q", 8) if long else take("i", 4)
            return f"{spec}d" % _narrow(int(value), length, True)
        if kind in "ouxX":
            value = take("Q", 8) if long else take("I", 4)
            return f"{spec}{'d' if kind == 'u' else kind}" % _narrow(int(value), length, False)
        value = take("d", 8)
        if kind in "aA":
            return f"{spec.split('.')[0]}s" % (float(value).hex() if kind == "a" else float(value).hex().upper())
        return f"{spec}{kind}" % value

    thread.launch.print(_CONVERSION.sub(convert, _string(thread, text)))
    return count


def _size(digits: str) -> int:
    """Return a width or precision, 4096 at most: a text may have more digits than Python converts."""
    digits = digits.lstrip("0")
    return min(int(digits[:9] or 0), 4096)


def _narrow(value: int, length: str | None, signed: bool) -> int:
    bits = {"hh": 8, "h": 16}.get(length or "")
    if bits is None:
        return value
    value &= (1 << bits) - 1
    return (value ^ 1 << bits - 1) - (1 << bits - 1) if signed else value


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
    launch.print(text + "\n")
    raise Fault(ASSERT, text)


def malloc(thread: Thread, size: int) -> int:
    """Allocate from the context's heap, which is global memory; return 0 if the size is 0 or does not fit."""
    launch = thread.launch
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
