"""Copies and fills of runs of bytes in any kind of memory, on any stream: each is one call of the driver.

What it is   `copy_run` and `fill_run`; most copies and fills are one of these.
How          Unified addressing: cuMemcpyAsync finds out from the addresses what kind of memory they are.
What not     other layouts, overlapping sides and copies between devices: copies/device_copy.py does them, where these
             functions return False.
Source       CUDA Driver API, "Memory Management", "Unified Addressing"
Read next    ordering.py, copies/device_copy.py
"""

from __future__ import annotations

from ..driver import as_argument
from ..owned import drain, dropped
from .context import reaches
from .handles import capturing
from .memory import Memory
from .ordering import PAGEABLE, end_work, keep, make_ready, refuse_capture
from .queue import StreamHandle, calls_on, home_of
from .retention import retained, sweep

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..arrays.copying import Side

__all__ = ["FILLS_OF_ROWS", "LARGEST_PITCH", "copy_run", "fill_run"]

LARGEST_PITCH = 2**31 - 1  # CU_DEVICE_ATTRIBUTE_MAX_PITCH of all devices so far


def copy_run(dst: Any, src: Any, to: Side, of: Side, stream: Any) -> bool:
    """Copy one run of bytes to another, and tell whether that was possible.

    dst, src  views or Memories, whose Sides are `to` and `of`; both are open
    stream    as for queue.calls_on
    calls     cuMemcpyAsync, cuStreamSynchronize
    order     done on return if either side is pageable, else when the stream reaches it
    """
    primary: Any = to.primary
    if primary is not of.primary:
        if primary is None:
            primary = of.primary
        elif of.primary is not None:
            return False
    if to.address < of.end and of.address < to.end and to.address != of.address:
        return False
    if isinstance(stream, StreamHandle) and stream._primary is primary:  # saves 130 ns of 900
        calls: Any = primary.direct  # type: ignore[union-attr, unused-ignore]
        queue = stream._argument or stream._prepare()
    elif stream is None or home_of(stream, primary) is primary:
        calls, queue = calls_on(stream, primary)
    else:  # a stream of another device: close() would not wait for its work
        return False
    if primary._handle is None:
        primary.open()
    if capturing and "host" in (to.kind, of.kind):
        refuse_capture(primary, stream, PAGEABLE)
    before, theirs = dst.stream, src.stream
    if before is not None and before is not stream:
        make_ready(primary, stream, dst)
    if theirs is not None and theirs is not stream and theirs is not before:
        make_ready(primary, stream, src)
    try:
        calls.cuMemcpyAsync(to.argument, of.argument, to.form.size, queue)
        if not to.ours or not of.ours:
            _finish(primary, calls, queue, (dst, to), (src, of), stream)
        elif to.form.dtype is not None:  # (the stream of a Memory is that of its allocation)
            dst.stream = stream  # its elements will be ready in this stream's order
    except BaseException as error:
        if not to.ours or not of.ours:  # (the close() of our memory waits for its work)
            end_work(error, primary, queue, dst, src)
        raise
    if retained:
        sweep()
    if dropped:
        drain()
    return True


def _finish(
    primary: Any, calls: Any, queue: Any, target: tuple[Any, Side], source: tuple[Any, Side], stream: Any
) -> None:
    """Wait if a side is pageable: nothing keeps it alive, and its owner may use it immediately. Keep other memory."""
    if target[1].kind == "host" or source[1].kind == "host":
        calls.cuStreamSynchronize(queue)
        return
    for thing, side in (target, source):
        keep(primary, stream, thing, side)
    if target[1].form.dtype is not None:
        target[0].stream = stream


def fill_run(target: Any, to: Side, word: tuple[Any, int, Any], stream: Any) -> bool:
    """Fill a run of bytes, or rows of them at a pitch, with a word of 1, 2 or 4 bytes; tell whether that was possible.

    word    the word as an argument; its width, 0 if the element does not repeat any; the number of words in the run
    stream  as for queue.calls_on
    calls   cuMemsetD8Async, cuMemsetD16Async, cuMemsetD32Async, cuMemsetD2D8Async, cuMemsetD2D16Async,
            cuMemsetD2D32Async
    raises  ValueError  the stream is of a device that cannot access the memory
    order   returns at once; done when the stream reaches it
    """
    form, primary = to.form, to.primary
    value, width, count = word
    is_here = False
    if isinstance(stream, StreamHandle):
        is_here = stream._primary is primary
        if not is_here:
            _check_reach(stream, target, to)
    if not width:
        return False
    if form.size is None:
        first = to.address + form.offset
        row, pitch, rows = form.rows or (1, 0, 0)
        if not row <= pitch <= LARGEST_PITCH or first % width or pitch % width:
            return False
    elif to.address % width:
        return False
    if primary._handle is None:
        primary.open()
    if is_here:
        calls, queue = primary.direct, stream._argument or stream._prepare()
    elif stream is None or home_of(stream, primary) is primary:  # close() would not wait for another device's stream
        calls, queue = calls_on(stream, primary)
    else:
        return False
    if target.stream is not None and target.stream is not stream:
        make_ready(primary, stream, target)
    try:
        if form.size is not None:
            fill = (
                calls.cuMemsetD32Async
                if width == 4
                else calls.cuMemsetD16Async
                if width == 2
                else calls.cuMemsetD8Async
            )
            fill(to.argument, value, count, queue)
        else:
            fill = getattr(calls, FILLS_OF_ROWS[width])
            fill(*map(as_argument, (first, pitch)), value, *map(as_argument, (row // width, rows)), queue)
        if not to.ours:
            keep(primary, stream, target, to)
    except BaseException as error:
        if not to.ours:
            end_work(error, primary, queue, target)
        raise
    if form.dtype is not None:
        target.stream = stream
    if retained:
        sweep()
    if dropped:
        drain()
    return True


def _check_reach(stream: StreamHandle, target: Any, to: Side) -> None:
    """Check that the device of a stream can access memory that it is to fill."""
    working, there = stream._primary, to.primary.ordinal
    if working is None or to.kind != "device":
        return
    owner = target if isinstance(target, Memory) else target._owner
    ours = isinstance(owner, Memory)
    if owner.is_accessible_from(working.ordinal) if ours else reaches(working.ordinal, there):
        return
    remedy = f"Device({working.ordinal}).enable_peer_access(Device({there}))"
    raise ValueError(
        f"{stream!r} belongs to device {working.ordinal}, which cannot access memory of device {there}: give a "
        f"stream of device {there}, or call {owner._remedy(working.ordinal) if ours else remedy} first"
    )


FILLS_OF_ROWS = {1: "cuMemsetD2D8Async", 2: "cuMemsetD2D16Async", 4: "cuMemsetD2D32Async"}
