"""Streams and events.

What it is   Stream and Event.
What not     gpu/core/stream_arguments.py reads streams given from outside; gpu/graphs/graph.py records a stream's work.
Source       CUDA Driver API, "Stream Management", "Event Management"
Read next    gpu/memory/memory.py, copies/transfer.py
"""

from __future__ import annotations

import ctypes

from ...arguments import as_bool, as_int
from ...errors import CudaError, a_kind, worded
from ...headers.status import INVALID_HANDLE, INVALID_VALUE
from ...hints import hinted, of
from ...interpreter.cpython import facts
from ...ownership import drain, dropped
from ..core.calls import Explained
from ..core.context import current_primary
from ..core.handles import EVENT, SHARED_EVENT, STREAM, TIMED_EVENT, Lifetime
from ..core.points import capturing, legacy_end, mark_end, note_joined, refuse_wait, retain, retained, sweep
from ..core.stream_arguments import (
    LEGACY,
    NO_SYNC,
    PER_THREAD,
    InContext,
    StreamHandle,
    check_device,
    context_of_stream,
    failed,
    handle_of,
    queue_of,
    record_and_wait,
    work_handle,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable
    from typing import Any, ClassVar, NoReturn

    from ...gpu.devices.device import Device
    from ...gpu.graphs.graph import Graph
    from ...gpu.graphs.recording import Recording
    from ...gpu.processes.shared_handles import SharedHandle
    from ...gpu.streams.stream_attributes import StreamAttributes
    from ..core.context import PrimaryContext

__all__ = [
    "Event",
    "NO_SYNC",
    "Stream",
    "capturing",
    "handle_of",
    "priority_from",
    "record_and_wait",
    "retain",
    "retained",
    "sweep",
    "work_handle",
]

_NON_BLOCKING = ctypes.c_uint(1)  # CU_STREAM_NON_BLOCKING
_NO_FLAGS = ctypes.c_uint(0)
_BLOCKING, _BLOCKING_UNTIMED = ctypes.c_uint(1), ctypes.c_uint(1 | 2)  # CU_EVENT_BLOCKING_SYNC, _DISABLE_TIMING
_SHAREABLE = ctypes.c_uint(2 | 4), ctypes.c_uint(1 | 2 | 4)  # also CU_EVENT_INTERPROCESS
_EXTERNAL = ctypes.c_uint(1)  # CU_EVENT_RECORD_EXTERNAL, CU_EVENT_WAIT_EXTERNAL


@hinted
class Stream(StreamHandle):
    """A queue of work that a device executes in order.

    A new stream is non-blocking: it does not wait for the legacy default stream. Any thread may use it.

    Device.stream() makes a stream.

    >>> device = Device(0)
    >>> with device.stream() as stream:
    ...     x = device.upload(b"abc", stream=stream)
    ...     stream.synchronize()

    device       the device, or None for a borrowed handle
    priority     a lower number is a higher priority; 0 is the default; values outside the device's range are clamped
    nonblocking  False: work in this stream and in the legacy default stream wait for each other
    calls        cuStreamCreateWithPriority, cuStreamDestroy_v2
    Why long     whatever is queued on a stream is queued by a method of it; most only say what a lower module does
    """

    __slots__ = ()

    device: Device | None
    if TYPE_CHECKING:
        legacy: ClassVar[Stream]
        per_thread: ClassVar[Stream]

    _maker = "device.stream()"

    def __init__(
        self,
        device: Device = None,  # type: ignore[assignment]  # (so that Stream() says how one is made)
        *,
        priority: int = 0,
        nonblocking: bool = True,
    ) -> None:
        # A stream or event may be destroyed while work is pending: the driver waits until the work is done.
        kept_apart = as_bool("nonblocking", nonblocking)
        if type(priority) is int and priority == 0 and kept_apart:
            self._create(device, STREAM, STREAM.numbers)
        else:
            self._create(device, STREAM, (_NON_BLOCKING if kept_apart else _NO_FLAGS, priority_from(priority)))

    @classmethod
    def from_handle(cls, handle: Any) -> Stream:
        """Borrow a foreign stream, given by its handle or __cuda_stream__; close() does not destroy it."""
        borrowed = cls.__new__(cls)
        borrowed._borrow(work_handle(handle), handle)
        return borrowed

    @property
    def priority(self) -> int:
        """Return the priority; a lower number is a higher priority.

        calls   cuStreamGetPriority
        """
        value = ctypes.c_int()
        self._calls.cuStreamGetPriority(self._argument or self._prepare(), ctypes.byref(value))
        return value.value

    @property
    def is_nonblocking(self) -> bool:
        """Tell whether this stream and the legacy default stream do not wait for each other.

        calls   cuStreamGetFlags
        """
        return self._is_nonblocking(self._calls)

    def _is_nonblocking(self, calls: Any) -> bool:
        value = ctypes.c_uint()
        calls.cuStreamGetFlags(self._argument or self._prepare(), ctypes.byref(value))
        return bool(value.value & 1)

    @property
    def id(self) -> int:
        """Return a number that no other stream of this process ever has; in contrast, a handle may be used again.

        calls   cuStreamGetId
        """
        value = ctypes.c_uint64()
        self._calls.cuStreamGetId(self._argument or self._prepare(), ctypes.byref(value))
        return value.value

    @property
    def attributes(self) -> StreamAttributes:
        """Return the attributes, which can be set: stream.attributes.synchronization_policy = "spin"."""
        from .stream_attributes import StreamAttributes

        self.handle  # raises Closed
        return StreamAttributes(self)

    def synchronize(self, timeout: float | None = None) -> None:
        """Wait until all work on this stream is done; raise what a function that was passed to call() has raised.

        timeout  the largest number of seconds to wait, by polling; None: no limit
        calls    cuStreamSynchronize, cuStreamQuery
        raises   TimeoutError  the time is over; the work continues
                 InvalidUse    the stream is being captured, or is the legacy default stream and a capture bars it
        """
        if timeout is not None:
            from .waiting import wait_until

            wait_until(self, timeout)
        else:
            if capturing:
                self._refuse_wait("Stream.synchronize()")
            self._calls.cuStreamSynchronize(self._argument or self._prepare())
        if retained or dropped or failed:
            self._after_wait()

    def _after_wait(self) -> None:
        """Release what finished work used, and raise what a function of this stream has raised."""
        if retained:
            sweep(now=True)
        if dropped:
            drain()
        if failed:
            from ..core.host_functions import raise_from

            raise_from(self)

    def _refuse_wait(self, what: str) -> None:
        if dropped:  # a capture that an interrupt left without its end is ended there
            drain()
        refuse_wait(self._calls, what, self.handle)

    def __await__(self) -> Generator[Any, None, None]:
        """Wait in asyncio, without blocking the event loop: `await stream` does what synchronize() does."""
        from .waiting import awaited

        yield from awaited(self).__await__()
        self._after_wait()

    def query(self) -> bool:
        """Tell whether all work on this stream is done.

        calls   cuStreamQuery
        """
        if capturing:
            self._refuse_wait("Stream.query()")
        return not self._calls.cuStreamQuery(self._argument or self._prepare())

    def record(self, event: Event | None = None) -> Event:
        """Record the current point of this stream in an event, a new one by default, and return the event.

        calls   cuEventRecord
        raises  ValueError  a new event for a borrowed stream, whose device is not known
        """
        if event is None:
            return self._record_new()
        if not isinstance(event, Event):
            raise TypeError(f"record() needs an Event, not {a_kind(event)}")
        primary = event._primary
        if self._primary is not primary:
            check_device(event, self)
        primary.calls.cuEventRecord(event._argument or event._prepare(), self._argument or self._prepare())
        return event

    def _record_new(self) -> Event:
        """Record a new event."""
        device, primary = self.device, self._primary
        if device is None or primary is None:
            raise ValueError("this stream is borrowed, so its device is not known: give an event to record")
        queue = self._argument or self._prepare()
        event = new_event(device)
        try:
            primary.calls.cuEventRecord(event._release, queue)  # (making event._argument takes 100 ns)
        except CudaError:
            event.close()
            raise
        return event

    def wait(self, other: Any, *, external: bool = False) -> None:
        """Make later work on this stream wait for an event, or for the work that another stream has now.

        other     an Event, of any device, or a stream in any form that handle_of takes
        external  in a capture: each launch of the graph waits for the last record of the event before the launch
        calls     cuStreamWaitEvent
        """
        home = end = legacy = None
        if capturing:  # this stream may take part in a capture from now on
            home = context_of_stream(self, getattr(other, "_primary", None))
        if home is not None:
            end = mark_end(home, self._argument or self._prepare())
        if home is not None and end is not None and not self._is_nonblocking(home.calls):  # (no device may be current)
            legacy = legacy_end(home)
        self._wait(other, external)
        if home is not None:
            note_joined(home, self.handle, end, legacy)

    def _wait(self, other: Any, external: object) -> None:
        if isinstance(other, Event):
            primary = self._primary or current_primary() or other._primary  # a default stream is that of a device
            queue, event = self._argument or self._prepare(), other._argument or other._prepare()
            if external is False or not as_bool("external", external):
                primary.calls.cuStreamWaitEvent(queue, event, _NO_FLAGS)
                return
            with _CAPTURED:
                primary.calls.cuStreamWaitEvent(queue, event, _EXTERNAL)
            if capturing:
                retain(primary, self.handle, other)  # as long as the graph
            return
        if external is not False and as_bool("external", external):
            raise TypeError(f"external=True is for an Event, not for {a_kind(other)}")
        is_ours = isinstance(other, StreamHandle)
        source = other.handle if is_ours else work_handle(other)
        if source == self.handle:
            return  # work on one stream is ordered already
        here, there = self._primary, other._primary if is_ours else None
        if here is None or there is None:  # a default stream is that of the current context, if one of ours is current
            now = current_primary()
            here, there = here or now or there, there or now or here
        if here is None:
            raise ValueError("both streams are borrowed, so their device is not known: record an event and wait for it")
        record_and_wait(here, other if is_ours else source, self, there)

    def call(self, function: Callable[..., object], *arguments: Any) -> None:
        """Call a function on the CPU when the earlier work on this stream is done; later work waits until it returns.

        The function runs in a thread of the driver, and must not call the driver: a driver may refuse such a call or
        hang in it. If the function raises an exception, the next synchronize() of this stream or of its device raises
        it. In a capture, each launch of the graph calls the function.

        The function needs the interpreter's lock. Do not use it beside a library that calls CUDA while it holds this
        lock: if that call waits for the stream, or for a lock of the driver, both wait for ever.

        calls   cuLaunchHostFunc
        raises  TypeError  not a function, or a coroutine or generator function
        """
        from ..core.host_functions import call

        call(self, function, arguments)

    def wait_value(
        self, where: Any, value: int, how: str = ">=", *, bits: int | None = None, flush: bool = False
    ) -> None:
        """Make later work on this stream wait until an integer in memory meets a condition.

        where   a view of one element of 32 or 64 bits, a Memory, or an address; not managed memory
        how     ">=", a cyclic comparison: the difference, as a signed number, is not negative; "=="; "&": they have a
                bit in common; "nor": a bit is 0 in both
        bits    32 (the default) or 64, where the elements do not determine it
        flush   also wait until earlier writes of other devices are visible; few systems support it
        calls   cuStreamWaitValue32_v2, cuStreamWaitValue64_v2
        raises  Unsupported  the device does not support a condition, or 64 bits
        """
        from .stream_values import wait_value

        wait_value(self, where, value, how, bits, flush)

    def write_value(self, where: Any, value: int, *, bits: int | None = None) -> None:
        """Write an integer to memory when the earlier work on this stream is done.

        where   and the other arguments: as in wait_value()
        calls   cuStreamWriteValue32_v2, cuStreamWriteValue64_v2
        """
        from .stream_values import write_value

        write_value(self, where, value, bits)

    def batch(self, operations: Iterable[tuple[Any, ...]]) -> None:
        """Queue several waits and writes of values with one call; if one is wrong, none is queued.

        operations  tuples ("wait", where, value), ("wait", where, value, how), ("write", where, value), ("barrier",)
        calls       cuStreamBatchMemOp_v2
        """
        from .stream_values import batch

        batch(self, operations)

    def capture(self, mode: str = "thread_local", *, into: Graph | None = None, after: Any = None) -> Graph | Recording:
        """Return a graph whose with block captures the work that is queued on this stream.

        mode    "thread_local", "global" or "relaxed": which unsafe calls, in this or any thread, break the capture
        into    a graph to add the work to; in this case a Recording is returned, whose with block yields this graph
        after   the node or nodes of that graph for which the work waits
        raises  SymbolNotFound  with `into`, if the driver is older than CUDA 12.3
        """
        from ..graphs.graph import Graph
        from ..graphs.recording import Recording

        if into is None:
            if after is not None:
                raise ValueError("after names nodes of a graph to capture into: give the graph as into=")
            return Graph(self, mode)
        if not isinstance(into, Graph):
            raise TypeError(f"into must be a Graph, not {a_kind(into)}")
        return Recording(self, mode, into, after)

    def __cuda_stream__(self) -> tuple[int, int]:
        """Return (0, handle): the CUDA stream protocol, version 0."""
        return 0, self.handle

    def __eq__(self, other: object) -> bool:
        return self is other or isinstance(other, Stream) and self._handle is not None and other._handle == self._handle

    def __hash__(self) -> int:  # the same after close()
        return hash(("stream", self._number))

    def __repr__(self) -> str:
        names: dict[int | None, str] = {LEGACY: "legacy", PER_THREAD: "per-thread", None: "closed"}
        said = names.get(self._handle) or hex(self._handle or 0)
        device = None if self._handle is None else getattr(self, "device", None)
        return f"<Stream {said}{'' if device is None else f' on device {device.ordinal}'}>"


_CAPTURED = Explained(
    INVALID_VALUE, "external=True is for a stream that is being captured, and this one is not: leave it out"
)
_RECORDED = Explained(
    INVALID_HANDLE, "an event was not recorded, so there is no time to measure: record() both events before"
)


def priority_from(given: object) -> ctypes.c_int:
    """Return the priority of a new stream as an argument of prepared calls; raises TypeError or ValueError."""
    number = as_int("priority", given)
    if not -(2**31) <= number < 2**31:
        raise ValueError(f"priority={worded(number)}: a priority must be a small number, such as -1 or 0")
    return ctypes.c_int(number)


class _DefaultStream(Stream):
    """One of the two streams that exist without being created; it cannot be closed."""

    __slots__ = ()

    def __init__(self, handle: int) -> None:
        self._borrow(handle, None)

    def close(self) -> None:
        """Do nothing: a default stream belongs to its context."""

    def detach(self) -> int:
        """Return the handle; this stream stays usable."""
        return self.handle


Stream.legacy = _DefaultStream(LEGACY)
Stream.per_thread = _DefaultStream(PER_THREAD)


@hinted
@facts("timing", "blocking")
class Event(InContext):
    """A point in a stream that other streams can wait for; with timing, also a time stamp.

    Stream.record() makes an event and records it; Device.event() makes one that is not recorded yet.

    >>> device = Device(0)
    >>> first, second = device.stream(), device.stream()
    >>> event = first.record()
    >>> second.wait(event)  # what comes next in `second` waits for what is in `first`
    >>> event.synchronize()

    blocking   synchronize() lets the CPU sleep instead of polling
    shareable  made for share(), which otherwise replaces the driver's event; without timing
    calls      cuEventCreate, cuEventDestroy_v2
    raises     ValueError  shareable with timing
    """

    __slots__ = ("_timing", "_blocking")

    device: Device
    timing: bool
    blocking: bool
    if TYPE_CHECKING:
        _timing: bool
        _blocking: bool
        _primary: PrimaryContext

    _maker = "device.event()"

    def __init__(
        self,
        device: Device = None,  # type: ignore[assignment]
        *,
        timing: bool = False,
        blocking: bool = False,
        shareable: bool = False,
    ) -> None:
        self._timing, self._blocking = as_bool("timing", timing), as_bool("blocking", blocking)
        if as_bool("shareable", shareable):
            if self.timing:
                raise ValueError(_NO_TIMING)
            self._create(device, SHARED_EVENT, (_SHAREABLE[self.blocking],))
            return
        kind, numbers = (TIMED_EVENT, (_BLOCKING,)) if self.timing else (EVENT, (_BLOCKING_UNTIMED,))
        self._create(device, kind, numbers if self.blocking else kind.numbers)

    def record(self, stream: Any = None, *, external: bool = False) -> Event:
        """Record the current point of a stream, and return the event.

        external  in a capture: each launch of the graph records the event, so that work outside can wait for it
        calls     cuEventRecord, cuEventRecordWithFlags
        raises    ValueError  a stream of another device
        """
        calls, queue = self._calls, queue_of(stream)
        check_device(self, stream)
        if external is False or not as_bool("external", external):
            calls.cuEventRecord(self._argument or self._prepare(), queue)
            return self
        with _CAPTURED:
            calls.cuEventRecordWithFlags(self._argument or self._prepare(), queue, _EXTERNAL)
        if capturing:
            retain(self._primary, handle_of(stream), self)  # as long as the graph
        return self

    def synchronize(self, timeout: float | None = None) -> None:
        """Wait until the recorded point is reached; an event that was never recorded counts as reached.

        timeout  the largest number of seconds to wait, by polling; None: no limit
        calls    cuEventSynchronize, cuEventQuery, cuThreadExchangeStreamCaptureMode
        raises   TimeoutError  the time is over; the work continues
        """
        if timeout is not None:
            from .waiting import wait_until

            wait_until(self, timeout)
            return
        self._calls.cuEventSynchronize(self._argument or self._prepare())

    def __await__(self) -> Generator[Any, None, None]:
        """Wait in asyncio, without blocking the event loop: `await event` does what synchronize() does."""
        from .waiting import awaited

        waiting: Generator[Any, None, None] = awaited(self).__await__()
        return waiting

    def query(self) -> bool:
        """Tell whether the recorded point is reached; an event that was never recorded counts as reached.

        calls   cuEventQuery, cuThreadExchangeStreamCaptureMode
        """
        return not self._calls.cuEventQuery(self._argument or self._prepare())

    def elapsed_ms(self, since: Event) -> float:
        """Return the time in milliseconds from another event's point to this event's point.

        units   milliseconds, with a resolution of about half a microsecond
        calls   cuEventElapsedTime
        raises  ValueError  an event without timing, or of another device
                InvalidUse  an event that was not recorded, or whose point is not reached yet
        """
        if not isinstance(since, Event):
            raise TypeError(f"elapsed_ms() needs the Event to measure from, not {a_kind(since)}")
        if not (self.timing and since.timing):
            which = "the event to measure from" if self.timing else "this event"
            raise ValueError(f"{which} was made without timing: make both with device.event(timing=True)")
        if since._primary is not self._primary:
            raise ValueError("the events are of two devices, whose clocks are not compared: make both on one device")
        start, end = since._argument or since._prepare(), self._argument or self._prepare()
        elapsed = ctypes.c_float()
        with _RECORDED:
            self._calls.cuEventElapsedTime(ctypes.byref(elapsed), start, end)
        return elapsed.value

    def __sub__(self, start: object) -> NoReturn:
        raise TypeError(f"events are not subtracted: {of('Event', 'elapsed_time')}")

    def share(self, *, timeout: float = 30.0) -> SharedHandle:
        """Offer the event to other processes of this machine and user, and return a handle to send to them.

        All processes can record the event and wait for it. If it was made without shareable=True, its handle changes
        here, so share it before another thread or a graph uses it. The handle works as that of Memory.share().

        timeout  the largest number of seconds for which the end of the handle's with block waits
        calls    cuIpcGetEventHandle
        raises   ValueError   an event with timing
                 Unsupported  the device or the driver does not support it
        """
        from ..processes.shared_events import exchange, share_event

        self.handle
        if self.timing:
            raise ValueError(_NO_TIMING)
        if type(self._release) is not Lifetime:
            raise ValueError(f"{self!r} belongs to another process, and only that process can share it")
        if self._release.kind is not SHARED_EVENT:
            made = Event(self.device, blocking=self.blocking, shareable=True)
            with self.device.stream() as stream:
                stream.wait(self)
                made.record(stream)
            exchange(self, made, ("_handle", "_release", "_ending", "_argument"))
            made.close()
        return share_event(self, timeout, _keepers)

    @classmethod
    def from_handle(cls, handle: Any, *, timeout: float = 30.0) -> Event:
        """Open an event of another process, on the same GPU; close() gives it back.

        handle   a SharedHandle, or its bytes
        timeout  the largest number of seconds to wait for the answer of that process
        calls    cuIpcOpenEventHandle
        raises   ValueError, Closed, TimeoutError, Unsupported  as Memory.from_handle()
        """
        from ..processes.shared_events import open_event

        def blank(device: Any, primary: Any) -> Event:
            event = cls.__new__(cls)
            event._timing = event._blocking = False
            event._device, event._primary, event._calls, event._argument = device, primary, primary.calls, None
            return event

        event: Event = open_event(blank, handle, timeout)
        return event

    def _closing(self) -> bool | None:  # type: ignore[override]
        self._argument = None
        if not _keepers or (known := _keepers.get(self._release)) is None or (keeper := known()) is None:
            return None
        own = self._ending
        if own is not None:  # (another thread may have done this already, or do it now)
            keeper.ending, self._ending = own, None
        return True

    def __repr__(self) -> str:
        if self._handle is None:
            return "<Event closed>"
        device = getattr(self, "device", None)
        where = "" if device is None else f" on device {device.ordinal}"
        return f"<Event {hex(self._handle)}{where}{', with timing' if getattr(self, 'timing', False) else ''}>"


_new: Any = object.__new__


def new_stream(device: Any) -> Stream:
    """Return what Stream(device) returns, in 100 ns less."""
    made: Stream = _new(Stream)
    made._create(device, STREAM, STREAM.numbers)
    return made


def new_event(device: Any) -> Event:
    """Return what Event(device) returns, in 100 ns less."""
    made: Event = _new(Event)
    made._timing = made._blocking = False
    made._create(device, EVENT, EVENT.numbers)
    return made


_NO_TIMING = "an event with timing cannot be shared with other processes: make one without timing"
_keepers: dict[Any, Any] = {}  # of the shared events, by their releases: see processes/shared_events.py
