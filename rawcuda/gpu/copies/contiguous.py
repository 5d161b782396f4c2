"""Copies and fills of runs of bytes in any kind of memory, on any stream: each is one call of the driver.

What it is   `copy_run` and `fill_run`; most copies and fills are one of these. Both go the same way: which context,
             which stream, what must be done first, the call, and what must be kept until it is done.
How          Unified addressing: cuMemcpyAsync finds out from the addresses what kind of memory they are.
What not     other layouts, overlapping sides and copies between devices: copies/device_copy.py does them, where these
             functions return False.
Source       CUDA Driver API, "Memory Management", "Unified Addressing"
Read next    gpu/memory/ordering.py, copies/device_copy.py
"""

from __future__ import annotations

from sys import byteorder

from ...arrays.copying import pattern_of, widest
from ...arrays.host_copy import LARGEST_PITCH
from ...driver import as_argument
from ...errors import CudaError
from ...ownership import drain, dropped
from ..core.context import check_reach
from ..core.points import own_stream, retained, sweep, waiting
from ..core.stream_arguments import (
    LEGACY,
    PER_THREAD,
    StreamHandle,
    home_of,
    is_lasting,
    queue_of,
    settled,
)
from ..memory.ordering import PAGEABLE, end_work, hold_captures, keep, make_ready, note

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ...arrays.copying import Form, Side
    from ..core.context import PrimaryContext

__all__ = ["FILLS_OF_ROWS", "copy_run", "fill_run"]


def copy_run(dst: Any, src: Any, to: Side, of: Side, stream: Any) -> bool:
    """Copy one run of bytes to another, and tell whether that was possible.

    dst, src  views or Memories, whose Sides are `to` and `of`; both are open, and at least one has a context
    stream    as for queue_of
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
    if isinstance(stream, StreamHandle) and stream._primary is primary:
        queue = stream._argument or stream._prepare()
    else:
        queue, stream = _other_queue(stream, primary, dst, src)
        if queue is None:
            return False
    if not (to.waits and of.waits):
        _copy_foreign(dst, src, to, of, primary, queue, stream)
        return True
    before, theirs = dst.stream, src.stream
    if before is not None and before is not stream:
        make_ready(primary, stream, dst)
        dst.ptr, src.ptr  # raises Closed: the code of a stream that a user has set may close memory
    if theirs is not None and theirs is not stream and theirs is not before:
        make_ready(primary, stream, src)
        dst.ptr, src.ptr
    if to.form.dtype is not None or is_lasting(stream):  # a Memory may outlive the streams of other software
        dst.stream = stream  # its elements will be ready in this stream's order; an interrupt may end the call
    try:
        primary.calls.cuMemcpyAsync(to.argument, of.argument, to.form.size, queue)
    except CudaError:
        dst.stream = before
        raise
    if retained:
        sweep()
    if dropped:
        drain()
    return True


def _copy_foreign(dst: Any, src: Any, to: Side, of: Side, primary: PrimaryContext, queue: Any, stream: Any) -> None:
    """Copy a run of bytes where a side is not our memory, whose close() would wait for the work."""
    is_pageable, wait, before = "host" in (to.kind, of.kind), object(), dst.stream
    for thing, side in ((dst, to), (src, of)):
        if thing.stream is not None and (thing.stream is not stream or side.primary is None):
            make_ready(primary, stream, thing)
            dst.ptr, src.ptr
    if not is_pageable:
        note(dst, stream)
    try:
        if is_pageable:
            hold_captures(wait, primary, stream, PAGEABLE)  # (uncaptured() would take 6 % of a short copy)
        primary.calls.cuMemcpyAsync(to.argument, of.argument, to.form.size, queue)
        if is_pageable:  # nothing keeps it alive, and its owner may use it immediately
            primary.calls.cuStreamSynchronize(queue)
        else:
            keep(primary, stream, dst, to)
            keep(primary, stream, src, of)
    except BaseException as error:
        end_work(error, primary, queue, dst, src)
        dst.stream = before
        raise
    finally:
        try:
            waiting.discard(wait)
        except BaseException:  # before Python 3.11, an interrupt may come here before the call, too
            waiting.discard(wait)
            raise
    if retained:
        sweep()
    if dropped:
        drain()


def _other_queue(stream: Any, primary: PrimaryContext, *things: Any) -> tuple[Any, Any]:
    """Return a stream as an argument of prepared calls, and in the form in which memory notes it.

    things   views or Memories, which the code of the stream may have closed; the first one is the target
    returns  None for the argument of a stream of another device, for which close() would not wait
    raises   Closed  one of `things` is closed
    """
    if primary._handle is None:
        primary.open()
    if stream is None:
        return queue_of(None), LEGACY
    if type(stream) is not int and not isinstance(stream, StreamHandle):
        stream = settled(stream, things[0].stream)
        for thing in things:
            thing.ptr  # raises Closed
    handle = stream._handle or 0 if isinstance(stream, StreamHandle) else stream
    if 0 < handle <= PER_THREAD:
        stream = LEGACY if handle == LEGACY else own_stream()
    elif home_of(stream, primary) is not primary:
        return None, stream
    return queue_of(stream), stream


_FILLS = {1: "cuMemsetD8Async", 2: "cuMemsetD16Async", 4: "cuMemsetD32Async"}
FILLS_OF_ROWS = {1: "cuMemsetD2D8Async", 2: "cuMemsetD2D16Async", 4: "cuMemsetD2D32Async"}


def _calls_of(form: Form, value: Any) -> tuple[int, list[tuple[str, int, Any]]]:
    """Find out which calls fill the elements of a form, and remember that in form.fills.

    value    an int, or the bytes of an element
    returns  the size of a word, and for each call its function, the offset of its first word, and its arguments after
             the address. There is no call if the elements are neither one run nor rows of words, or need many calls
    """
    pattern = pattern_of(form, value)
    word = pattern if len(pattern) in _FILLS else widest(pattern)
    width = len(word)
    calls: list[tuple[str, int, Any]] = []
    if word and form.size is not None:
        calls.append((_FILLS[width], 0, (_number(word), as_argument(form.nbytes // width))))
    elif form.size is not None and len(pattern) in (8, 16):  # each word of all elements is a column of a pitch
        width, pitch, one, count = 4, as_argument(len(pattern)), as_argument(1), form.nbytes // len(pattern)
        for at in range(0, len(pattern), 4):
            arguments = pitch, _number(pattern[at : at + 4]), one, as_argument(count)
            calls.append((FILLS_OF_ROWS[4], at, arguments))
    elif word and form.rows is not None:
        row, pitch, rows = form.rows
        if row <= pitch <= LARGEST_PITCH and not pitch % width:
            arguments = as_argument(pitch), _number(word), as_argument(row // width), as_argument(rows)
            calls.append((FILLS_OF_ROWS[width], 0, arguments))
    form.fills.keep(value, (width, calls))
    return width, calls


def _number(word: bytes) -> Any:
    return as_argument(int.from_bytes(word, byteorder))


def _call_each(calls: Any, fills: Any, start: int, queue: Any) -> None:
    """Make the calls of a fill: functions, with the offset and the arguments of each."""
    for function, offset, arguments in fills:
        getattr(calls, function)(as_argument(start + offset), *arguments, queue)


def fill_run(target: Any, to: Side, value: Any, stream: Any) -> bool:
    """Fill a run of bytes, or rows of them at a pitch, with an element's bytes; tell whether that was possible.

    target  a view or a Memory, whose Side is `to`; it is open, and has a context
    value   an int, or the bytes of an element
    stream  as for queue_of
    calls   cuMemsetD8Async, cuMemsetD16Async, cuMemsetD32Async, cuMemsetD2D8Async, cuMemsetD2D16Async,
            cuMemsetD2D32Async
    raises  ValueError  the stream is of a device that cannot access the memory
    order   returns at once; done when the stream reaches it
    """
    form = to.form
    primary: Any = to.primary
    calls: Any = primary.calls
    width, fills = form.fills.answers.get(value) or _calls_of(form, value)
    if isinstance(stream, StreamHandle) and stream._primary is primary:
        queue = stream._argument or stream._prepare()
    else:
        if isinstance(stream, StreamHandle):
            check_reach(stream, "stream", target, to)
        queue, stream = _other_queue(stream, primary, target)
    start = to.address + form.offset
    if not fills or queue is None or start % width:
        return False
    before = target.stream
    if before is not None and before is not stream:
        make_ready(primary, stream, target)
        target.ptr  # as in copy_run
    if form.dtype is not None or is_lasting(stream):
        target.stream = stream  # as in copy_run
    try:
        _call_each(calls, fills, start, queue)
        if not to.waits:
            keep(primary, stream, target, to)
    except BaseException as error:
        if not to.waits or isinstance(error, CudaError):
            end_work(error, primary, queue, target)
            target.stream = before
        raise
    if retained:
        sweep()
    if dropped:
        drain()
    return True
