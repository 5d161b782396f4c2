"""A function whose try statement covers all of it, so that no signal handler can make it end without a result.

What it is   `covered`, for functions that C code calls: ctypes cannot pass an exception
             on, and returns an undefined value.
Source       CPython, Objects/exception_handling_notes.txt
Read next    callback.py, ../emulator/interface/thunks.py
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType, FunctionType

__all__ = ["covered"]


def covered(function: FunctionType) -> FunctionType:
    """Return a version of a function whose first try statement also covers the beginning and the end of the function.

    From Python 3.11 on, a function runs pending signal handlers before its first statement, where no try statement of
    its own can catch what they raise. ctypes would print "Exception ignored" and return an undefined value. Before
    3.11, a function that begins with a try statement has no such gap.
    Python 3.9 runs them between any two instructions, so also between the end of the try statement and the return.
    In the new version, the function returns without ending the statement. There, the statement must have fewer than 256
    bytes of code: its first instruction has a prefix otherwise, before which signal handlers run.
    """
    code: CodeType
    if sys.version_info < (3, 10):
        if function.__code__.co_code[0] != _TRY:
            raise ValueError(f"{function.__qualname__} does not begin with a try statement of less than 256 bytes")
        code = function.__code__.replace(co_code=function.__code__.co_code.replace(_END_AND_RETURN, _RETURN))
    else:
        table = getattr(function.__code__, "co_exceptiontable", b"")
        if not table:
            return function
        start, at = _number(table, 0)
        length, after = _number(table, at)
        wider = _bytes(0, 128) + _bytes(start + length) + table[after:]
        code = function.__code__.replace(co_exceptiontable=wider)  # type: ignore[call-arg,unused-ignore]
    made = type(function)(code, function.__globals__, function.__name__, None, function.__closure__)
    made.__kwdefaults__ = function.__kwdefaults__
    return made


# In 3.9: SETUP_FINALLY; POP_BLOCK, RETURN_VALUE; NOP, RETURN_VALUE.
_TRY, _END_AND_RETURN, _RETURN = 122, b"W\0S\0", b"\t\0S\0"


def _number(table: bytes, at: int) -> tuple[int, int]:
    """Read a number of an exception table, in digits of 6 bits: the number, and where the next one begins."""
    value = table[at] & 63
    while table[at] & 64:
        at += 1
        value = value << 6 | table[at] & 63
    return value, at + 1


def _bytes(value: int, first: int = 0) -> bytes:
    """Write a number of an exception table; bit 7 is set in the first byte of each entry."""
    digits = [value & 63]
    while value > 63:
        value >>= 6
        digits.append(value & 63 | 64)
    digits[-1] |= first
    return bytes(reversed(digits))
