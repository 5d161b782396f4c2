"""Streams, events, and the one function that reads a stream from outside.

What it is   Stream and Event; `handle_of`; and what must outlive queued work (`retain`).
What not     no other module makes a stream handle out of user input.
Source       CUDA Driver API, "Stream Management", "Event Management", "Stream synchronization behavior";
             cuda.core, "CUDA stream protocol" (__cuda_stream__)
Read next    memory.py, transfer.py, kernel.py
"""

from __future__ import annotations

import ctypes
from collections import deque
from operator import index

from .. import driver
from ..errors import Closed, CudaError, ForkedAfterInit, a_kind, worded
from ..headers import cuda_h
from ..owned import Owned, drain, dropped, outdate
from ..protocols.cuda_stream import handle_from as _protocol_handle
from ..tracing import careful
from .context import EVENT, STREAM, TIMED_EVENT, AnyContext, PrimaryContext, release
from .device import Device

TYPE_CHECKING = False
if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from typing import Any, ClassVar

    from .graph import Graph

__all__ = [
    "Stream",
    "Event",
    "NO_SYNC",
    "Unnoticed",
    "capture_number",
    "capturing",
    "create",
    "finish",
    "handle_of",
    "retain",
    "sweep",
    "work_handle",
]

NO_SYNC = -1
_LEGACY, _PER_THREAD = 1, 2  # CU_STREAM_LEGACY, CU_STREAM_PER_THREAD
_NON_BLOCKING = 1  # CU_STREAM_NON_BLOCKING


def handle_of(stream: Any) -> int:
    """Return the driver's handle for a stream given from outside; NO_SYNC stays -1.

    stream  None: the legacy default stream, 1; a Stream; an object with __cuda_stream__ (its 0 is legacy, 1);
            1 legacy; 2 per-thread; above 2 a handle; -1 NO_SYNC
    raises  TypeError   not a stream
            ValueError  0, below -1, above 2**64-1
            Closed      a closed Stream
    """
    if stream is None:
        return _LEGACY
    if isinstance(stream, Stream):
        return stream.handle
    if isinstance(stream, bool):
        raise TypeError(f"stream={stream} is a bool: give a Stream, None, 1 (legacy), 2 (per-thread) or a handle")
    if hasattr(type(stream), "__index__"):
        number = int.__index__(index(stream))
        if number == 0:
            raise ValueError(
                "stream=0 is ambiguous: give None or 1 for the legacy default stream, 2 for the per-thread one"
            )
        if number < NO_SYNC or number >= 2**64:
            raise ValueError(f"stream={worded(number)} is no stream: a handle lies in 1 .. 2**64-1; -1 is NO_SYNC")
        return number
    return _protocol_handle(stream)


def work_handle(stream: Any) -> int:
    """Return the handle of a stream that shall do work, which NO_SYNC cannot.

    raises  ValueError  NO_SYNC
    """
    handle = handle_of(stream)
    if handle == NO_SYNC:
        raise ValueError(
            "stream=-1 (NO_SYNC) orders nothing and can do no work: give a stream, or None for the legacy one"
        )
    return handle


class _InContext(Owned):
    """Be an owned thing in a device's primary context, or a borrowed one in whichever context is current."""

    __slots__ = ("device", "_primary")

    device: Device | None
    _primary: PrimaryContext | None

    def _create(self, device: Device, which: int, *numbers: int) -> None:
        if not isinstance(device, Device):
            raise TypeError(f"{type(self).__name__} wants a Device, not {a_kind(device)}")
        if dropped:
            drain()
        device.context
        primary = device._primary
        handle = 0 if numbers else primary.make(which)
        self.device, self._primary = device, primary
        # Destroying a stream or event with work pending is fine: the driver does it when the work is done.
        self._own(handle or primary.make_checked(which, *numbers), primary.releases[which])

    def _driver(self) -> driver.Driver:
        return self._primary.driver if self._primary is not None else driver.current()

    def _current(self) -> AbstractContextManager[None]:
        """Return a with block: our context when it is known, else the one that is current, or one of ours."""
        if self._primary is not None:
            return self._primary.current()
        return AnyContext(for_default=self._handle in (_LEGACY, _PER_THREAD))


class Stream(_InContext):
    """A queue of work that a device does in order.

    A new stream is non-blocking: it does not wait for the legacy default stream. Any thread may use it.

    device    the device, or None for a borrowed handle
    priority  lower is more urgent; 0 is the default, what is out of the device's range is clamped
    calls     cuStreamCreateWithPriority, cuStreamDestroy_v2
    """

    __slots__ = ("_argument", "_owner")

    _argument: Any  # the handle as raw() functions take it, once something was prepared with it
    _owner: Any
    legacy: ClassVar[Stream]
    per_thread: ClassVar[Stream]

    def __init__(self, device: Device, *, priority: int = 0) -> None:
        self._argument = None
        if type(priority) is int and priority == 0:
            self._create(device, STREAM)
        else:
            self._create(device, STREAM, _NON_BLOCKING, priority)

    @classmethod
    def from_handle(cls, handle: Any) -> Stream:
        """Borrow a stream of somebody else's, by its handle or its __cuda_stream__; close() never destroys it."""
        borrowed = cls.__new__(cls)
        borrowed.device = borrowed._primary = borrowed._argument = None
        borrowed._own(work_handle(handle), None)
        borrowed._owner = handle  # whoever uses the handle keeps the stream alive
        return borrowed

    @property
    def priority(self) -> int:
        """Return the priority; lower is more urgent.

        calls   cuStreamGetPriority
        """
        value = ctypes.c_int()
        with self._current():
            self._driver().cuStreamGetPriority(cuda_h.CUstream(self.handle), ctypes.byref(value))
        return value.value

    def synchronize(self) -> None:
        """Wait until all work given to this stream is done.

        calls   cuStreamSynchronize
        """
        with self._current():
            self._driver().cuStreamSynchronize(cuda_h.CUstream(self.handle))
        sweep()
        drain()

    def query(self) -> bool:
        """Tell whether all work given to this stream is done.

        calls   cuStreamQuery
        """
        with self._current():
            return bool(self._driver().cuStreamQuery(cuda_h.CUstream(self.handle)))

    def record(self, event: Event | None = None) -> Event:
        """Mark this point of the stream in an event, a new one if none is given, and return it.

        calls   cuEventRecord
        raises  ValueError  a new event for a borrowed stream, whose device is not known
        """
        # Done before, and both still open: they know their context, so nothing needs to be current. Any failure is left to the long way.
        try:
            queue, again, arguments = event._again  # type: ignore[union-attr]
            if queue is self._argument and not careful and not again(*arguments):
                return event  # type: ignore[return-value]
        except AttributeError:  # None, most likely
            pass
        if event is None:
            if self.device is None:
                raise ValueError("this stream is borrowed and its device not known: give an event to record")
            event = Event(self.device)
        with event._current():
            event._driver().cuEventRecord(cuda_h.CUevent(event.handle), cuda_h.CUstream(self.handle))
        primary = self._primary
        if primary is not None and event._primary is primary and type(event) is Event:
            queue, point = self._prepared(), event._handle
            if queue is not None and point is not None:
                event._again = queue, primary.raw("cuEventRecord"), (driver.as_argument(point), queue)
                if event._handle is None:  # closed just now
                    event._gone()
        return event

    def wait(self, other: Any) -> None:
        """Make work given from now on wait for an event, or for all that another stream has now.

        other   an Event, or anything that is a stream
        calls   cuStreamWaitEvent
        """
        if isinstance(other, Event):
            # A default stream is that of the current context: make it the event's.
            with (other if self._primary is None else self)._current():
                self._driver().cuStreamWaitEvent(cuda_h.CUstream(self.handle), cuda_h.CUevent(other.handle), 0)
            return
        source = work_handle(other)
        if source == self.handle:
            return  # a stream is in order with itself
        device = self.device or (other.device if isinstance(other, Stream) else None)
        if device is None:
            raise ValueError("both streams are borrowed and their device not known: record an event and wait for it")
        with Event(device) as event:
            with event._current():
                event._driver().cuEventRecord(cuda_h.CUevent(event.handle), cuda_h.CUstream(source))
            self.wait(event)

    def capture(self, mode: str = "thread_local") -> Graph:
        """Return a graph that records, in a with block, what this stream is given.

        mode  "thread_local", "global" or "relaxed": which unsafe calls, of this or any thread, break the recording
        """
        from .graph import Graph

        return Graph(self, mode)

    def _prepared(self) -> Any:
        """Return the handle as an argument of raw() functions, always the same; None once this is closed."""
        handle = self._handle
        if self._argument is None and handle is not None:
            self._argument = driver.as_argument(handle)
            if self._handle is None:  # closed just now
                self._gone()
        return self._argument

    def _gone(self) -> None:
        if self._argument is not None:
            self._argument = None  # what was prepared with it knows by this that it is closed
            outdate()

    def __cuda_stream__(self) -> tuple[int, int]:
        """Return (0, handle): the CUDA stream protocol, version 0."""
        return 0, self.handle

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and self._handle is not None and other._handle == self._handle

    def __hash__(self) -> int:
        return id(self) if self._handle is None else hash(("stream", self._handle))

    def __repr__(self) -> str:
        names: dict[int | None, str] = {_LEGACY: "legacy", _PER_THREAD: "per-thread", None: "closed"}
        return f"<Stream {names.get(self._handle) or hex(self._handle or 0)}>"


def create(device: Device, priority: int, new: Any = object.__new__) -> Stream:
    """Make a stream as Stream() does, for less."""
    primary, made = device._held, new(Stream)
    if primary is not None and type(priority) is int and priority == 0 and not dropped:
        handle = primary.make(STREAM)
        if handle:
            made.device, made._primary, made._argument, made._handle = device, primary, None, handle
            made._release = primary.releases[STREAM]
            return made  # type: ignore[no-any-return]
    made.__init__(device, priority=priority)
    return made  # type: ignore[no-any-return]


def _default_stream(handle: int) -> Stream:
    """Make a Stream of one of the two handles that exist without being created; they cannot be closed."""
    stream = _DefaultStream.__new__(_DefaultStream)
    stream.device = stream._primary = stream._argument = None
    stream._own(handle, None)
    return stream


class _DefaultStream(Stream):
    __slots__ = ()

    def close(self) -> None:
        """Do nothing: a default stream belongs to its context."""

    def detach(self) -> int:
        """Return the handle; it stays usable."""
        return self.handle


Stream.legacy = _default_stream(_LEGACY)
Stream.per_thread = _default_stream(_PER_THREAD)


class Event(_InContext):
    """A point in a stream that others can wait for; with timing, also a clock.

    calls   cuEventCreate, cuEventDestroy_v2
    """

    __slots__ = ("timing", "_again")

    _again: tuple[Any, Any, Any]  # the stream of the last record, and the call that does it again

    def __init__(self, device: Device, *, timing: bool = False) -> None:
        self._gone()
        self.timing = timing
        self._create(device, TIMED_EVENT if timing else EVENT)

    def record(self, stream: Any = None) -> Event:
        """Mark the point that a stream has reached now, and return the event.

        calls   cuEventRecord
        """
        with self._current():
            self._driver().cuEventRecord(cuda_h.CUevent(self.handle), cuda_h.CUstream(work_handle(stream)))
        return self

    def synchronize(self) -> None:
        """Wait until the recorded point is reached; an event never recorded is.

        calls   cuEventSynchronize
        """
        with self._current():
            self._driver().cuEventSynchronize(cuda_h.CUevent(self.handle))

    def query(self) -> bool:
        """Tell whether the recorded point is reached; an event never recorded is.

        calls   cuEventQuery
        """
        with self._current():
            return bool(self._driver().cuEventQuery(cuda_h.CUevent(self.handle)))

    def _gone(self) -> None:
        self._again = 0, None, ()

    def elapsed_ms(self, since: Event) -> float:
        """Return the milliseconds from another event's point to this one's.

        units   milliseconds, of some half microsecond's resolution
        calls   cuEventElapsedTime
        raises  ValueError  an event without timing
                InvalidUse  an event that was not recorded, or is not reached yet
        """
        for event in (self, since):
            if not isinstance(event, Event):
                raise TypeError(f"elapsed_ms() wants the Event to count from, not {a_kind(event)}")
            if not event.timing:
                raise ValueError("an event measures time only when made with timing=True")
        elapsed = ctypes.c_float()
        with self._current():
            self._driver().cuEventElapsedTime(
                ctypes.byref(elapsed), cuda_h.CUevent(since.handle), cuda_h.CUevent(self.handle)
            )
        return elapsed.value

    def __repr__(self) -> str:
        return f"<Event {'closed' if self._handle is None else hex(self._handle)}>"


# -- while a stream is captured

capturing: dict[
    int, list[Any]
] = {}  # the number of each capture of ours that goes on: what must live as long as its graph


def finish(loaded: driver.Driver, late: bool) -> None:
    """Wait for the current context's work, before what it may use is released.

    Not where that would break a capture: cuMemFreeHost and cuModuleUnload wait by themselves, too, though no manual says so.

    calls   cuCtxSynchronize
    """
    if not late and not capturing:
        release(loaded, "cuCtxSynchronize")


class Unnoticed:
    """Let this thread free or query in a with block while a stream is captured, here or elsewhere: that would break the capture.

    calls   cuThreadExchangeStreamCaptureMode
    source  CUDA Driver API, cuThreadExchangeStreamCaptureMode: the mode "global" forbids unsafe calls in every thread
    """

    __slots__ = ("_driver", "_mode")

    def __init__(self, loaded: driver.Driver) -> None:
        self._driver = loaded
        self._mode = ctypes.c_uint(2)  # CU_STREAM_CAPTURE_MODE_RELAXED; exchanged, then back again

    def _exchange(self) -> None:
        release(self._driver, "cuThreadExchangeStreamCaptureMode", ctypes.byref(self._mode))

    def __enter__(self) -> None:
        self._exchange()

    def __exit__(self, *_: object) -> None:
        self._exchange()


# -- what queued work still uses, and nobody else may hold any more

_retained: deque[tuple[Event, Any]] = deque()


def capture_number(device: Device, stream: int) -> int | None:
    """Return the number of the capture that a stream takes part in, None if it is not captured.

    calls   cuStreamGetCaptureInfo
    """
    status, number = ctypes.c_uint(), ctypes.c_uint64()
    with device._primary.current():
        release(
            device._primary.driver,
            "cuStreamGetCaptureInfo",
            cuda_h.CUstream(stream),
            ctypes.byref(status),
            ctypes.byref(number),
        )
    return number.value if status.value else None


def retain(device: Device, stream: int, things: Any) -> None:
    """Keep things alive until a stream has passed this point: foreign memory that queued work uses.

    Where we capture the stream they live as long as the graph; where somebody else does, that is theirs to see to.
    A host function would tell sooner, but costs more, and may not call the driver.
    """
    if capturing:
        kept = capturing.get(capture_number(device, stream) or 0)
        if kept is not None:
            kept.append(things)
            return
    try:
        event = Event(Device(device.ordinal) if device.closed else device).record(stream)
    except BaseException:
        with device._primary.current():  # the work is queued: its memory must outlive it all the same
            release(device._primary.driver, "cuCtxSynchronize")
        raise
    _retained.append((event, things))


def sweep() -> None:
    """Let go of what finished work used; called where we launch, copy or wait anyway."""
    for _ in range(len(_retained)):
        try:
            event, things = _retained.popleft()
        except IndexError:
            return
        try:
            with Unnoticed(event._driver()):
                done = event.query()
        except (CudaError, ForkedAfterInit, Closed):
            done = True  # the context is lost: nothing runs there any more
        if done:
            event.close()
        else:
            _retained.append((event, things))
