"""Small functions that generated code calls by name: errors of addresses, parts of parameters, calls that may wait.

Read next    lookups.py
"""

from __future__ import annotations

import sys
from struct import pack_into, unpack_from
from types import GeneratorType

from ...machine.codes import INVALID_PC, LAUNCH_FAILED
from ...machine.space import Fault
from ..checking.places import shared_fault

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .lookups import Launch

__all__ = ["barrier", "beyond", "caller", "finish", "misaligned", "pack", "unpack", "wrapped"]


def caller() -> tuple[int, ...]:
    """Return the lines of the generated code from which the calling function was called, innermost first."""
    frame: Any = sys._getframe(1)
    found: list[int] = []
    file = frame.f_code.co_filename
    while len(found) < 4 and frame.f_back is not None and frame.f_back.f_code.co_filename == file:
        frame = frame.f_back
        found.append(frame.f_lineno)
    return tuple(found)


def finish(result: Any) -> Any:
    """Complete a call through a pointer, whether the callee is a generator or not."""
    if isinstance(result, GeneratorType):
        result = yield from result
    return result


def barrier(number: int) -> int:
    """Check the number of a barrier that comes from a register, and return it.

    raises  Fault   a block has no such barrier (719)
    """
    if number > 15:
        raise Fault(LAUNCH_FAILED, f"synccheck: barrier {number} does not exist: a block has the barriers 0 to 15")
    return number


def beyond(index: int, count: int) -> None:
    """Report an index that a table of branch targets does not have.

    raises  Fault   always (718)
    """
    raise Fault(INVALID_PC, f"a branch beyond its table: brx.idx has index {index}, and the table has {count} targets")


def misaligned(launch: Launch, address: int, width: int) -> None:
    """Report a misaligned access to shared memory.

    raises  Fault   always (716)
    """
    raise shared_fault(launch, address, width, width)


class Wrapped(int):
    """An index that wraps around at the end of the address space when an offset is added."""

    def __new__(cls, value: int, modulus: int) -> Wrapped:
        """Create an index with a modulus."""
        made = super().__new__(cls, value)
        made.modulus = modulus
        return made

    modulus: int

    def __add__(self, offset: int) -> int:
        return (int(self) + offset) % self.modulus


def wrapped(launch: Launch, address: int, bits: int, total: int, shift: int, offset: int) -> int:
    """Return the index of a shared address that wraps around, or raise for a misaligned one.

    offset  what the access adds to the address, a multiple of its width
    raises  Fault   misaligned (716)
    """
    if address % total:
        misaligned(launch, address + offset & (1 << bits) - 1, total)
    return Wrapped(address >> shift, 1 << bits - shift)


def pack(code: str, memory: bytearray, offset: int, value: Any) -> None:
    """Store into a call's parameter."""
    pack_into("<" + code, memory, offset, value)


def unpack(code: str, memory: bytes, offset: int) -> Any:
    """Load from a call's parameter."""
    return unpack_from("<" + code, memory, offset)[0]
