"""Bulk copies of contiguous bytes: cp.async.bulk and cp.reduce.async.bulk.

Source       PTX ISA, "cp.async.bulk", "cp.reduce.async.bulk"
Read next    tensors.py
"""

from __future__ import annotations

import struct

from ....machine.codes import MISALIGNED_ADDRESS
from ....machine.space import Fault
from ...translating.unit import SHARED_WINDOW
from .late_units import Late, combine
from .span_units import again, span

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from ..thread import Thread

__all__ = ["bulk_in", "bulk_out", "packed_as"]


def packed_as(code: str, *values: Any) -> bytes:
    """Return numbers as bytes."""
    return struct.pack("<" + code, *values)


def _check(count: int) -> None:
    if count % 16:
        raise Fault(MISALIGNED_ADDRESS, f"a bulk copy of {count} bytes, which is not a multiple of 16")


def bulk_in(
    thread: Thread, late: Late, target: int, source: int, count: int, barrier: int, ranks: int, kind: str, line: int
) -> None:
    """Start a copy to shared memory, of this block or of others of the cluster.

    shape   target, barrier: addresses in shared memory; source: a generic address; ranks: a mask of the ranks of
            the blocks that get the bytes, or 0; kind: type and operation of a reduction, or "."
    """
    _check(count)
    type, _, verb = kind.partition(".")
    view, at = memoryview(b""), 0
    if count:
        view, at = span(thread, source, count, 16, line, writes=False, needs=bool(verb))
    if not verb:
        late.bulk_in(target, lambda: bytes(view[at : at + count]), count, barrier, ranks, line)
        return
    block, place = late.home(target, False, count)
    late.update(block, place, count, line)

    def work() -> None:
        combine(verb, type, memoryview(block.shared)[place : place + count], view[at : at + count])
        late.transact(barrier, False, -count)

    late.promise(barrier, False, work)


def bulk_out(
    thread: Thread, late: Late, target: int, source: int, count: int, kind: str, mask: int | None, line: int
) -> None:
    """Start a copy from shared to global memory.

    shape   mask: a bit for each byte of 16 that is written, or None for all
    """
    _check(count)
    if not count:
        return
    type, _, verb = kind.partition(".")
    view, at = span(thread, source, count, 16, line, writes=False, needs=bool(verb))
    to, place = span(thread, target, count, 16, line, writes=True, needs=bool(verb))
    home = source - SHARED_WINDOW & 0xFFFFFF
    late.leaving(home, count, line)

    def read() -> Callable[[bool], None]:
        late.left(home, count)
        data = bytes(view[at : at + count])

        def store(waited: bool) -> None:
            if waited:
                again(thread, target, count, line, bool(verb))
            if verb:
                combine(verb, type, to[place : place + count], data)
            elif mask is None:
                to[place : place + count] = data
            else:
                for number in range(count):
                    if mask >> number % 16 & 1:
                        to[place + number] = data[number]

        return store

    late.start_store(read)
