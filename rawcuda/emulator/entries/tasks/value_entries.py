"""Entry points: waiting for and writing values in the order of a stream.

How          A wait is work that cannot run before the memory has the value; machine/queues.py checks the value
             repeatedly.
Source       CUDA Driver API, "Stream Memory Operations"; cuda.h, union CUstreamBatchMemOpParams
Read next    stream_entries.py
"""

from __future__ import annotations

import struct
from functools import partial

from ...interface.thunks import entry, read
from ...machine.codes import Refused
from ...machine.machine import Machine
from ...machine.queues import Conditional, Stream
from ..memories.memory_entries import access_of, allocation_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

__all__: list[str] = []

_OPERATION = struct.Struct("<i4x QQI4x Q 8x")  # operation; address, value, flags; alias
_AT_LEAST, _EQUAL, _AND, _NOR = range(4)
_FLUSH = 1 << 30
_WAIT_32, _WRITE_32, _FLUSH_WRITES, _WAIT_64, _WRITE_64, _BARRIER = range(1, 7)


def _checked(machine: Machine, stream: Stream, address: int, width: int, *, writes: bool = False) -> None:
    """Refuse an address that the stream's device cannot read, or write, for a value of this width."""
    if address % width:
        raise Refused(1, f"address {address:#x} must be a multiple of {width}")
    found = allocation_at(machine, address)
    if found is None or address - found.base + width > found.size:
        raise Refused(1, machine.space.explain(address, width))
    holding = found.context
    if getattr(holding, "flavour", "") == "managed":
        raise Refused(1, "values in managed memory cannot be waited for or written in stream order")
    access = access_of(holding, stream.context)
    if not access:
        raise Refused(1, machine.space.refuse(found, address, width))
    if writes and access != 3:
        raise Refused(1, f"{machine.space.explain(address, width)}, which devices may only read")


def _holds(now: int, value: int, how: int, width: int) -> bool:
    """Tell whether a value in memory meets a condition."""
    every = (1 << 8 * width) - 1
    if how == _AT_LEAST:  # cyclic: the difference, as a signed number, is not negative
        return (now - value) & every <= every >> 1
    if how == _EQUAL:
        return now == value
    return bool(now & value if how == _AND else ~(now | value) & every)


_WORDS = {_AT_LEAST: "at least", _EQUAL: "equal to", _AND: "nonzero after AND with", _NOR: "nonzero after NOR with"}


def _wait(machine: Machine, stream: Stream, address: int, value: int, flags: int, width: int) -> Callable[[], object]:
    """Check the arguments of a wait, and return a function that queues it."""
    if flags & ~(3 | _FLUSH):
        raise Refused(1)
    if flags & _FLUSH:
        raise Refused(801, "CU_STREAM_WAIT_VALUE_FLUSH is not emulated: device attribute CAN_FLUSH_REMOTE_WRITES is 0")
    _checked(machine, stream, address, width)
    how, space = flags & 3, machine.space

    def ready() -> bool:
        found = space.find(address)
        if found is None:
            return True  # the memory was freed, and look() reports that
        start = address - found.base
        return _holds(int.from_bytes(found.data[start : start + width], "little"), value, how, width)

    def look() -> None:
        space.window(address, width)

    name = f"a wait for the value at {address:#x} to become {_WORDS[how]} {value}"
    work = Conditional(look, ready)
    return partial(machine.queues.submit, stream, work, name)


def _write(machine: Machine, stream: Stream, address: int, value: int, flags: int, width: int) -> Callable[[], object]:
    if flags & ~1:
        raise Refused(1)
    _checked(machine, stream, address, width, writes=True)
    space = machine.space

    def store() -> None:
        space.window(address, width)[:] = value.to_bytes(width, "little")
        found = space.find(address)
        if found is not None:
            found.wrote(address - found.base, width)

    return partial(machine.queues.submit, stream, store, f"a write of a value at {address:#x}")


@entry("cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr addr, cuuint32_t value, unsigned int flags)", since=11070)
def wait_32(machine: Machine, handle: int, address: int, value: int, flags: int) -> None:
    """Make later work of a stream wait until 4 bytes meet a condition."""
    _wait(machine, machine.stream(handle), address, value, flags, 4)()


@entry("cuStreamWaitValue64_v2(CUstream stream, CUdeviceptr addr, cuuint64_t value, unsigned int flags)", since=11070)
def wait_64(machine: Machine, handle: int, address: int, value: int, flags: int) -> None:
    """Make later work of a stream wait until 8 bytes meet a condition."""
    _wait(machine, machine.stream(handle), address, value, flags, 8)()


@entry("cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr addr, cuuint32_t value, unsigned int flags)", since=11070)
def write_32(machine: Machine, handle: int, address: int, value: int, flags: int) -> None:
    """Write 4 bytes in the order of a stream."""
    _write(machine, machine.stream(handle), address, value, flags, 4)()


@entry("cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr addr, cuuint64_t value, unsigned int flags)", since=11070)
def write_64(machine: Machine, handle: int, address: int, value: int, flags: int) -> None:
    """Write 8 bytes in the order of a stream."""
    _write(machine, machine.stream(handle), address, value, flags, 8)()


@entry(
    "cuStreamBatchMemOp_v2(CUstream stream, unsigned int count, CUstreamBatchMemOpParams *paramArray, "
    "unsigned int flags)",
    since=11070,
)
def batch(machine: Machine, handle: int, count: int, address: int, flags: int) -> None:
    """Queue several operations; nothing is queued if one of them is wrong."""
    stream = machine.stream(handle)
    if flags or count > 256:
        raise Refused(1)
    steps: list[Callable[[], object]] = []
    for index in range(count):
        kind, where, value, how, _ = read(_OPERATION, address + index * _OPERATION.size)
        if kind in (_WAIT_32, _WRITE_32):
            steps.append((_wait if kind == _WAIT_32 else _write)(machine, stream, where, value & 0xFFFFFFFF, how, 4))
        elif kind in (_WAIT_64, _WRITE_64):
            steps.append((_wait if kind == _WAIT_64 else _write)(machine, stream, where, value, how, 8))
        elif kind == _FLUSH_WRITES:
            raise Refused(801, "a flush of remote writes: device attribute CAN_FLUSH_REMOTE_WRITES is 0")
        elif kind != _BARRIER:
            raise Refused(1, f"operation {kind} is not a CUstreamBatchMemOpType")
    for step in steps:
        step()
