"""Streams as the target of work: the handle, the calls that take it, and its context.

What it is   `handle_of`, which reads any stream given from outside; `queue_of`, which returns it as an argument of
             prepared calls; and `InContext` and `StreamHandle`, the common part of streams and events.
What not     gpu/kernels/launch.py reads the usual kinds of streams itself, for speed, and leaves others to
             `work_handle`.
Source       CUDA Driver API, "Stream synchronization behavior"; cuda.core, "CUDA stream protocol" (__cuda_stream__)
Read next    gpu/graphs/graph.py, gpu/streams/stream.py
"""

from __future__ import annotations

import ctypes

from ...arguments import as_int
from ...driver import as_argument, current
from ...errors import worded
from ...interpreter.cpython import facts
from ...ownership import Owned, invalidate, releases_later, tokens
from ...protocols.cuda_stream import handle_from as _protocol_handle
from ...protocols.description import Bytes
from ...remembered import Remembered
from .context import (
    ANY_CALLS,
    FOREIGN,
    AnyContext,
    PrimaryContext,
    active_contexts,
    current_primary,
    held_contexts,
    no_device,
    primary_of,
    some_context,
)
from .handles import Lifetime, destroying, make
from .points import PerThread, Point, mark_end, own_stream, retain, sweep, take_event

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ...gpu.streams.stream import Event

__all__ = [
    "Foreign",
    "InContext",
    "LEGACY",
    "NO_SYNC",
    "Ordering",
    "PER_THREAD",
    "StreamHandle",
    "check_device",
    "context_of_stream",
    "failed",
    "handle_of",
    "home_of",
    "home_of_call",
    "is_of_another_thread",
    "noted_form",
    "order",
    "queue_of",
    "record_and_wait",
    "release_of",
    "settled",
    "work_handle",
]

NO_SYNC = -1
LEGACY, PER_THREAD = 1, 2  # CU_STREAM_LEGACY, CU_STREAM_PER_THREAD
_LEGACY_ARGUMENT = as_argument(LEGACY)
_NO_FLAGS = ctypes.c_uint(0)
failed: list[Any] = []  # what host functions raised, each with its origin: see host_functions.py


@facts("device")
class InContext(Owned):
    """An owned handle in a device's primary context, or a borrowed one in an unknown context."""

    __slots__ = ("_device", "_primary", "_calls", "_argument")

    _maker = ""  # what makes one, for the error of a call without a Device
    device: Any  # None where the handle is borrowed
    _device: Any
    _primary: PrimaryContext | None
    _calls: Any
    _argument: Any  # the handle as an argument of prepared calls, once it was needed; None when closed

    def _create(self, device: object, kind: Any, arguments: tuple[Any, ...]) -> Any:
        primary = getattr(device, "_held", None)
        if type(primary) is not PrimaryContext:
            primary = primary_of(device)
            if primary is None:
                raise no_device(type(self).__name__, device, self._maker)
        self._device, self._primary = device, primary
        self._calls, self._argument = primary.calls, None
        make(self, kind, primary, arguments)
        return self

    def _prepare(self) -> Any:
        """Return the handle as an argument of prepared calls, and store that; raises Closed."""
        argument = self._argument = as_argument(self.handle)
        if self._handle is None:  # closed just now
            self._argument = None
        return argument

    def _closing(self) -> None:
        self._argument = None


class StreamHandle(InContext):
    """The part of a stream that is needed to queue work on it."""

    __slots__ = ("_end", "_owner", "_number", "_given")

    _number: int  # the handle, also after close()
    _owner: Any  # of a borrowed handle: keeps the stream alive
    _end: Point | None  # the end of its work at close() or detach(), if that could be recorded
    _given: bool  # set by detach(): others may go on to queue work

    def _create(self, device: object, kind: Any, arguments: tuple[Any, ...]) -> Any:
        super()._create(device, kind, arguments)
        self._number = self._handle or 0
        return self

    def _borrow(self, handle: int, owner: object) -> None:
        self._device = self._primary = self._argument = None
        self._calls = ANY_CALLS[handle in (LEGACY, PER_THREAD)]
        self._own(handle, None)
        self._owner, self._number = owner, handle

    def queue(self) -> Any:
        """Return the handle as an argument of prepared calls, or None if the stream is closed."""
        handle = self._handle  # read once: another thread may close the stream now
        if handle is None:
            return None
        return as_argument(handle)

    def end(self) -> Point | None:
        """Return the point at the end of a closed stream's work, or None if it is not known, as after detach()."""
        return None if hasattr(self, "_given") else self.last()

    def last(self) -> Point | None:
        """Return the point at the end of the work that was queued by this closed stream, or None if it is not known."""
        return getattr(self, "_end", None)  # (another thread may be closing the stream now)

    def detach(self) -> int:
        """Return the handle and give up its ownership: the caller must release it.

        Memory that was allocated on this stream is freed after all work of its device, since more work may be queued.
        raises  Closed   after close() or detach()
        """
        self.handle  # raises Closed
        self._given = True
        return super().detach()

    def _closing(self) -> None:
        release, primary = self._release, self._primary
        if hasattr(self, "_end"):  # an interrupt has ended a close() after this was found out
            pass
        elif type(release) is Lifetime and release.value and primary is not None and not releases_later():
            with destroying:
                if not hasattr(self, "_end"):  # otherwise another thread has closed it just now
                    self._end = mark_end(primary, release)
            sweep()
        else:
            self._end = None
        self._argument = None
        if tokens:
            invalidate()


def handle_of(stream: object) -> int:
    """Return the driver's handle for a stream given from outside; NO_SYNC stays -1.

    stream  None: the legacy default stream, 1; a Stream; an object with __cuda_stream__ (its 0 is legacy, 1);
            1 legacy; 2 per-thread; above 2 a handle; -1 NO_SYNC
    raises  TypeError   not a stream
            ValueError  0, below -1, above 2**64-1
            Closed      a closed Stream
    """
    if stream is None:
        return LEGACY
    if type(stream) is int and 0 < stream < 2**64:
        return stream
    if isinstance(stream, StreamHandle):
        return stream._handle or stream.handle  # (the property costs a call)
    if isinstance(stream, _NOTED):
        return int(stream)
    if isinstance(stream, bool):
        raise TypeError(f"stream={stream} is a bool: give a Stream, None, 1 (legacy), 2 (per-thread) or a handle")
    if hasattr(type(stream), "__index__") and not getattr(stream, "shape", None):  # (arrays have __index__, too)
        number = as_int("stream", stream)
        if number == 0:
            raise ValueError(
                "stream=0 is ambiguous: give None or 1 for the legacy default stream, 2 for the per-thread one"
            )
        if number < NO_SYNC or number >= 2**64:
            raise ValueError(f"stream={worded(number)} is not a stream: a handle is in 1 .. 2**64-1; -1 is NO_SYNC")
        return number
    return _protocol_handle(stream)


def work_handle(stream: object) -> int:
    """Return the handle of a stream on which work will be queued, so not NO_SYNC.

    raises  ValueError  NO_SYNC
    """
    handle = handle_of(stream)
    if handle == NO_SYNC:
        raise ValueError(
            "stream=-1 (NO_SYNC) means no ordering and cannot do work: give a stream, or None for the legacy one"
        )
    return handle


class Foreign(int):
    """The handle of a stream object of other software, in the form in which memory notes it.

    Such an object may stand for the current stream: its handle is another one later.
    owner  the object: it keeps the stream alive
    """

    owner: object

    def is_named(self) -> bool:
        """Tell whether the object still names this handle; otherwise its stream may have been destroyed."""
        try:
            return handle_of(self.owner) == self
        except Exception:  # it was closed
            return False


_NOTED = Foreign, PerThread  # numbers that are handles, also as long as they are noted


def settled(stream: Any, noted: object = None) -> Any:
    """Return a stream in a form that need not be asked for its handle again, which may run code of the user.

    noted   what memory notes: it is returned if it is the same, so that nothing waits (which takes 30 % of a copy)
    raises  TypeError, ValueError, Closed  as for handle_of()
    """
    if stream is None:
        return None
    handle = handle_of(stream)
    if type(stream) is int or isinstance(stream, (StreamHandle, Foreign)):
        return stream
    if handle <= PER_THREAD:
        return handle
    if type(noted) is Foreign and noted == handle and noted.owner is stream:
        return noted
    made = Foreign(handle)
    made.owner = stream
    return made


def queue_of(stream: object) -> Any:
    """Return a stream, on which work will be queued, as an argument of prepared calls.

    stream  as for handle_of, except NO_SYNC. A default stream is that of the context in which the call is made
    """
    if isinstance(stream, StreamHandle):
        return stream._argument or stream._prepare()
    if stream is None:
        return _LEGACY_ARGUMENT
    if type(stream) is int and 0 < stream < 2**64 or type(stream) in _NOTED:
        return as_argument(stream)
    return as_argument(work_handle(stream))


def release_of(stream: object) -> object:
    """Return the release of a Stream of ours, for retain(), or None."""
    return stream._release if isinstance(stream, StreamHandle) else None


def is_lasting(stream: Any) -> bool:
    """Tell whether a stream is ours or a default one: a handle of another one means nothing after its owner has ended.

    stream  as for queue_of, except None
    """
    if isinstance(stream, StreamHandle):
        return stream._primary is not None or (stream._handle or 0) <= PER_THREAD
    return isinstance(stream, int) and stream <= PER_THREAD


def noted_form(stream: Any) -> Any:
    """Return a stream in the form in which memory notes it.

    For the per-thread one, it is the object of this thread; for the legacy one, a number: each device has its own; for
    an object of other software, the handle that it has now.
    """
    if stream is not None and not isinstance(stream, (int, StreamHandle)):
        stream = settled(stream)
    handle = stream._handle if isinstance(stream, StreamHandle) else stream
    if handle == LEGACY:
        return LEGACY
    if handle == PER_THREAD:
        return own_stream()
    return stream


def is_of_another_thread(stream: Any) -> bool:
    """Tell whether a stream, in the form in which memory notes it, is the per-thread one of another thread."""
    return type(stream) is PerThread and stream is not own_stream()


def home_of(stream: object, primary: PrimaryContext) -> PrimaryContext:
    """Return the context of a stream, in which an event must be made that is recorded on the stream.

    stream   as for handle_of
    primary  the context that is the answer for a default stream
    calls    cuStreamGetCtx_v2, cuStreamGetCtx
    raises   ValueError  the stream is of a context that is no primary context
    """
    handle: Any = stream
    if type(stream) is not int or not 0 < stream < 2**64:
        if isinstance(stream, StreamHandle):
            if stream._primary is not None:
                return stream._primary
            handle = stream._handle
        else:
            handle = handle_of(stream)
    if handle is None or handle <= PER_THREAD:
        return primary
    context = ctypes.c_uint64()
    if primary.driver.has("cuStreamGetCtx_v2"):  # for a stream of a green context, it tells the primary context
        primary.calls.cuStreamGetCtx_v2(as_argument(handle), ctypes.byref(context), ctypes.byref(ctypes.c_uint64()))
    else:
        primary.calls.cuStreamGetCtx(as_argument(handle), ctypes.byref(context))
    for held in held_contexts():
        if held._handle == context.value:
            held.hold(FOREIGN)
            return held
    return _foreign_home(context.value, handle)


def context_of_stream(stream: StreamHandle, other: PrimaryContext | None) -> PrimaryContext | None:
    """Return the context of a stream, or None if that is no primary context, or not known.

    other   the answer for a borrowed stream if no context of ours is current
    """
    primary = stream._primary or current_primary() or other
    if primary is None:
        return None
    try:
        return home_of(stream, primary)
    except ValueError:
        return None


def home_of_call(stream: StreamHandle) -> PrimaryContext:
    """Return the context of a stream on which a call is made; a default one is that of the current context.

    raises  ValueError  the stream is of no primary context; or it is a default one, no context is current, and we do
                        not hold exactly one
    """
    if stream._primary is not None:
        return stream._primary
    if stream._number > PER_THREAD:
        return home_of(stream, some_context())
    with AnyContext(for_default=True):
        now = current().current_context() or 0
        return current_primary() or _foreign_home(now, stream._number)


def keep_ours(primary: PrimaryContext, stream: object, thing: Any) -> None:
    """Keep our memory until a stream has completed its work, if its close() does not wait for that.

    It waits for the work of its own device only, and not at all for bytes that are borrowed from another library.
    primary  the context of a default stream
    thing    a Memory, or a view whose owner is one
    """
    owner: Any = thing if isinstance(thing, Bytes) else thing._owner
    home = home_of(stream, primary)
    if home is not owner._primary or not owner._close_waits():
        retain(home, work_handle(stream), owner._lease_for_work(), release_of(stream))


def _foreign_home(context: int, handle: int) -> PrimaryContext:
    """Return the primary context of a device that only other software has used so far.

    Each of them is asked for its handle: a push of the context, to ask for its device, is no step that an interrupt
    cannot divide.
    """
    for home in active_contexts():
        if home.open() == context:
            home.hold(FOREIGN)
            return home
    raise ValueError(
        f"the stream {handle:#x} belongs to another context than the primary context of a device, so the end "
        "of its work cannot be determined: give a stream made by Device.stream()"
    )


def record_and_wait(
    primary: PrimaryContext, working: object, waiting: object, there: PrimaryContext | None = None
) -> None:
    """Make a stream wait for the work that another stream has now, by an event in the context of that stream.

    working, waiting  two different streams, in any form that queue_of takes, also of two devices
    primary           the context of `waiting` if that is a default stream
    there             the context of `working` if that is a default stream; the same one by default
    calls   cuEventCreate, cuEventRecord, cuStreamWaitEvent
    """
    source = working if type(working) is int else handle_of(working)
    target = waiting if type(waiting) is int else handle_of(waiting)
    order(home_of(working, there or primary), source, primary, target)


def order(home: PrimaryContext, source: int, primary: PrimaryContext, target: int) -> None:
    """Make a stream wait for the work that another stream has now: as record_and_wait(), from handles and contexts."""
    try:
        record, first, wait, second = _ways.answers[home, source, primary, target]
    except KeyError:
        record, first, wait, second = _prepare_way(home, source, primary, target)
    try:
        event = home.pool.pop()  # (a call of take_event() in each wait takes 60 ns)
    except IndexError:
        event = None
    if event is None:  # (an error of the driver would be shown below the IndexError)
        event = take_event(home)
    # The driver stores the wait during the call, so the event can be reused afterwards.
    try:
        record(event.argument, first)
        wait(second, event.argument, _NO_FLAGS)
    finally:
        event.pool.append(event)  # (another thread may have reset the device meanwhile)


# (home, working, primary, waiting) -> the calls of record_and_wait(), each with its stream as an argument. Preparing
# them for each wait takes 400 ns of 1,500.
_ways: Remembered[tuple[PrimaryContext, int, PrimaryContext, int], tuple[Any, Any, Any, Any]] = Remembered(1000)


def _prepare_way(home: PrimaryContext, source: int, primary: PrimaryContext, target: int) -> tuple[Any, Any, Any, Any]:
    """Return the entry of `_ways`. It contains numbers only, so that it stays right when a handle is used again."""
    way = home.calls.cuEventRecord, queue_of(source), primary.calls.cuStreamWaitEvent, queue_of(target)
    return _ways.keep((home, source, primary, target), way)


def check_device(event: Event, stream: Any) -> None:
    """Refuse to record an event on a stream of another device."""
    primary = getattr(stream, "_primary", None)
    if primary is not None and primary is not event._primary:
        raise ValueError(
            f"the event is of device {event._primary.ordinal} and the stream of device {primary.ordinal}: an event can "
            "be recorded only on its own device, so make the event there; any stream can wait for it"
        )


class Ordering:
    """The stream that memory was allocated on, for its release, where that is not a Stream of the memory's context."""

    __slots__ = ("given", "handle")

    def __init__(self, given: object) -> None:
        self.given = given  # keeps the stream alive
        self.handle = work_handle(given)

    def queue(self) -> Any:
        """Return the stream as an argument, or None if it is closed or may be another thread's per-thread stream."""
        if self.handle == PER_THREAD or isinstance(self.given, StreamHandle) and self.given._handle is None:
            return None
        return as_argument(self.handle)

    def end(self) -> Point | None:
        """Return the point at the end of a closed stream's work, or None if it is not known."""
        if isinstance(self.given, StreamHandle):
            return self.given.last()  # (a wait for the context of the memory does not replace it on another device)
        return None
