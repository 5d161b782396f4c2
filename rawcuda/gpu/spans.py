"""Copies and fills of contiguous bytes in our own memory, on any stream: each is one call of the driver.

What it is   `copy_span` and `fill_span`; most copies are one of these.
What not     layouts with gaps, foreign memory and pageable memory: copies/device_copy.py handles them, when these
             functions return False.
Source       CUDA Driver API, "Memory Management"
Read next    memory.py, copies/device_copy.py
"""

from __future__ import annotations

from ..owned import drain, dropped
from .queue import calls_on
from .retention import retained, sweep

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .memory import Memory

__all__ = ["copy_span", "fill_span"]

# (the target's kind, the source's kind) -> the driver's function; the CPU copies pinned to pinned memory
_COPIES = {
    ("device", "device"): "cuMemcpyDtoDAsync_v2",
    ("device", "managed"): "cuMemcpyDtoDAsync_v2",
    ("managed", "device"): "cuMemcpyDtoDAsync_v2",
    ("managed", "managed"): "cuMemcpyDtoDAsync_v2",
    ("device", "pinned"): "cuMemcpyHtoDAsync_v2",
    ("managed", "pinned"): "cuMemcpyHtoDAsync_v2",
    ("pinned", "device"): "cuMemcpyDtoHAsync_v2",
    ("pinned", "managed"): "cuMemcpyDtoHAsync_v2",
}
_FILLS = {1: "cuMemsetD8Async", 2: "cuMemsetD16Async", 4: "cuMemsetD32Async"}  # by the bytes of an element


def copy_span(target: Memory, to: int, source: Memory, start: int, nbytes: int, stream: Any) -> bool:
    """Copy bytes between memories of ours, in stream order, and tell whether that was possible.

    It is not if the copy is not a single call of the driver.

    to, start  addresses in target and source; both are open, and no other stream has pending work on them
    stream     as for queue.calls_on
    calls      cuMemcpyDtoDAsync_v2, cuMemcpyHtoDAsync_v2, cuMemcpyDtoHAsync_v2
    """
    primary, symbol = target._primary, _COPIES.get((target.kind, source.kind))
    if symbol is None or primary is not source._primary or -nbytes < to - start < nbytes or not nbytes:
        return False
    calls, queue = calls_on(stream, primary)
    getattr(calls, symbol)(to, start, nbytes, queue)
    if retained:
        sweep()
    if dropped:
        drain()
    return True


def fill_span(target: Memory, to: int, value: int, width: int, count: int, stream: Any) -> bool:
    """Fill memory of ours with elements of 1, 2 or 4 bytes, in stream order, and tell whether that was possible.

    to      an address in it, a multiple of the width; the memory is open, and no other stream has pending work on it
    calls   cuMemsetD8Async, cuMemsetD16Async, cuMemsetD32Async
    """
    if target.kind == "pinned" or not count:  # the CPU fills pinned memory
        return False
    calls, queue = calls_on(stream, target._primary)
    getattr(calls, _FILLS[width])(to, value, count, queue)
    if retained:
        sweep()
    if dropped:
        drain()
    return True
