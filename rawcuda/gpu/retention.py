"""Keeping objects alive until the work that is queued on a stream is done.

What it is   `retain`, for memory of other libraries that queued work uses, and `sweep`, which releases what finished
             work used.
How          The objects retained for a stream are collected in a batch, whose event is recorded again for each: one
             event, from a pool, for many launches. A batch that was queried takes no more objects; a new one begins.
             The event is recorded immediately, because a foreign stream may be destroyed at any time.
Captures     Objects used in one of our captures live as long as its graph. In a foreign capture, they are the
             capturer's responsibility. (A host function would report completion sooner, but costs more, and may not
             call the driver.)
Source       CUDA Driver API, "Event Management"; cuThreadExchangeStreamCaptureMode
Read next    stream.py
"""

from __future__ import annotations

from _thread import get_ident

from ..driver import as_argument
from ..errors import Closed, CudaError, ForkedAfterInit
from ..owned import Owned, forked
from .calls import run, scratches, take_scratch
from .context import PrimaryContext
from .handles import EVENT, call_unnoticed, capturing, make, unnoticed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["capture_number", "forget", "give_back", "note_end", "retain", "retained", "sweep", "take_event"]

_PER_THREAD = 2
_NOT_READY = 600
_SWEEP_EVERY = 16  # a sweep, and a new batch after it, cost 2,500 ns, which this many calls share

retained: list[_Batch] = []  # every batch; appending and removing are atomic
_newest: dict[tuple[int, int, int], _Batch] = {}  # the open batch, by device, stream and thread
_skipped: list[None] = []  # an entry per skipped sweep


class _Event(Owned):
    """An event from a context's pool.

    argument  the handle as an argument
    queries   the steps that query it without breaking a capture; a query takes them, and puts them back
    """

    __slots__ = ("argument", "queries")

    argument: Any
    queries: list[tuple[Any, ...]]

    def is_reached(self, primary: PrimaryContext) -> bool:
        """Tell whether the recorded point is reached, or never will be because the context is lost."""
        try:
            steps = self.queries.pop()
        except IndexError:  # another thread has them, or was interrupted
            steps = unnoticed(primary, ((primary.functions["cuEventQuery"], self.argument),))
        inside = primary if primary._handle and primary.current_context() != primary._handle else None
        try:
            code = run(steps, inside)[1]
        except (CudaError, ForkedAfterInit):
            return True
        self.queries.append(steps)
        return code != _NOT_READY


class _Batch:
    """The objects retained for one stream, and the event after the work that uses them.

    key    the device, the stream and, for a per-thread stream, the thread
    point  the event and the stream, as the arguments of `record`
    """

    __slots__ = ("primary", "key", "event", "things", "is_open", "point", "record")

    def __init__(self, primary: PrimaryContext, key: tuple[int, int, int]) -> None:
        self.primary, self.key, self.event = primary, key, take_event(primary)
        self.things: list[Any] = []
        self.is_open = True  # set to False before the event is queried: later objects need another batch
        self.point = self.event.argument, as_argument(key[1])
        self.record = primary.direct.cuEventRecord  # (the event determines the context of a default stream)

    def is_done(self) -> bool:
        """Tell whether the stream has completed all work that used these objects, without breaking a capture."""
        self.is_open = False
        return self.event.is_reached(self.primary)


def forget(primary: PrimaryContext) -> None:
    """Release at once what is retained for the work of a context that ends."""
    for batch in tuple(retained):
        if batch.primary is primary:
            try:
                retained.remove(batch)
            except ValueError:  # another thread removed it
                continue
            if _newest.get(batch.key) is batch:
                _newest.pop(batch.key, None)


def take_event(primary: PrimaryContext) -> _Event:
    """Return an event of the context's pool, which no one else uses until it is given back."""
    try:
        event: Any = primary.pool.pop()
    except IndexError:
        event = _Event()
        make(event, EVENT, primary, EVENT.numbers)
        event.argument, event.queries = as_argument(event.handle), []
    return event  # type: ignore[no-any-return]


def give_back(event: _Event, primary: PrimaryContext) -> None:
    """Put an event into the pool of its context."""
    primary.pool.append(event)


def note_end(primary: PrimaryContext, stream: Any) -> int | None:
    """Record the end of the work of a stream that is about to be closed; return the key of the event in primary.ends.

    If the event is no longer there, it was reached. A wait for the event replaces a wait for the whole context, which
    is not possible while a stream is captured.

    stream   the handle as an argument
    returns  0 if the work is done already; None if the event could not be recorded
    calls    cuStreamQuery, cuEventRecord
    """
    if forked:
        return None
    try:
        if capturing and capture_number(primary, stream) is not None:
            return None
        if not call_unnoticed(primary, (primary.functions["cuStreamQuery"], stream)):
            return 0
        event = take_event(primary)
        if run(((primary.functions["cuEventRecord"], event.argument, stream),), primary._to_push())[0]:
            return None
    except (CudaError, Closed, ForkedAfterInit):
        return None
    for key, earlier in tuple(primary.ends.items()):  # the oldest first
        if not earlier.is_reached(primary):
            break
        primary.ends.pop(key, None)
    key = id(event)
    primary.ends[key] = event
    return key


def capture_number(primary: PrimaryContext, stream: Any) -> int | None:
    """Return the number of the capture that a stream takes part in, or None if it is not being captured.

    stream  a handle, or one as an argument
    calls   cuStreamGetCaptureInfo
    """
    scratch = take_scratch()
    scratch.words.status = 0
    queue = as_argument(stream) if type(stream) is int else stream
    step = primary.functions["cuStreamGetCaptureInfo"], queue, scratch.to_status, scratch.to_number
    run((step,), primary._to_push())
    number = scratch.words.number if scratch.words.status else None
    scratches.append(scratch)
    return number


def retain(device: Any, stream: int, things: Any) -> None:
    """Keep objects alive until a stream has completed the work that was queued on it so far.

    device  a Device, or a PrimaryContext
    stream  a handle; the work that uses the objects must be queued already
    """
    primary: PrimaryContext = device if type(device) is PrimaryContext else device._primary
    if capturing:
        kept = capturing.get(capture_number(primary, stream) or 0)
        if kept is not None:
            kept.append(things)
            return
    key = primary.ordinal, stream, get_ident() if stream == _PER_THREAD else 0
    batch = _newest.get(key)
    try:
        if batch is not None and batch.is_open:
            batch.things.append(things)
            batch.record(*batch.point)
        if batch is None or not batch.is_open:  # tested after recording; is_done() clears it before its query
            batch = _Batch(primary, key)
            batch.things.append(things)
            batch.record(*batch.point)
            retained.append(batch)
            _newest[key] = batch
    except BaseException:  # the work is queued: its memory must outlive it in any case
        run(((primary.functions["cuCtxSynchronize"],),), primary._to_push())
        raise
    if len(batch.things) >= _SWEEP_EVERY:
        sweep(now=True)


def sweep(now: bool = False) -> None:
    """Release what finished work used; copies and waits call this, and retain() does for every sixteenth object.

    now  examine all batches; otherwise only every sixteenth call does
    """
    if not retained:
        return
    if not now and len(_skipped) < _SWEEP_EVERY:
        _skipped.append(None)
        return
    _skipped.clear()
    late: set[tuple[int, int, int]] = set()
    for batch in tuple(retained):
        if batch.key in late or not batch.is_done():
            late.add(batch.key)  # work that was queued later on this stream is not done either
            continue
        try:
            retained.remove(batch)
        except ValueError:  # another thread removed it
            continue
        if _newest.get(batch.key) is batch:
            _newest.pop(batch.key, None)
        give_back(batch.event, batch.primary)
