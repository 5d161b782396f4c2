"""Points in streams, and what waits for them.

What it is   `Point`: an event of the context's pool that was recorded on a stream. Foreign memory is kept alive until
             the work that uses it has passed its Point (`retain`, `sweep`); a closed stream leaves the Point at the end
             of its work (`mark_end`). A stream waits for another one by an event of the pool, which is free at once.
How          Objects retained on one stream share a Point, whose event is recorded again for each: one event for many
             launches. A Point that was queried takes no more objects; a new one begins. The event is recorded at once,
             because a foreign stream may be destroyed at any time.
Captures     `capturing` lists our captures. What is used in one of them lives as long as its graph. In a capture of
             other software, that is the capturer's responsibility. No event of a Point is recorded on a captured
             stream: a query of it would break the capture, whoever began that.
Which stream A handle may be used again while work of the destroyed stream is pending, and so may the identifier of a
             thread. So what tells a stream is the release of a Stream of ours, the number of a thread's PerThread, or
             the number from cuStreamGetId. (To ask for that in each case would take 10 % more of a copy.)
Source       CUDA Driver API, "Event Management"; cuThreadExchangeStreamCaptureMode: the capture mode "global" forbids
             unsafe calls in every thread, even a query of an event
Read next    handles.py
"""

from __future__ import annotations

import _thread  # (threading takes 1 ms to import)
import ctypes
from ctypes import byref
from itertools import count

from ...driver import as_argument, current
from ...errors import Closed, ContextLost, CudaError, ForkedAfterInit, InvalidUse, SymbolNotFound
from ...headers.status import INVALID_CONTEXT, INVALID_HANDLE, STREAM_CAPTURE_IMPLICIT, STREAM_CAPTURE_UNSUPPORTED
from ...interpreter.cpython import free_after_fork
from ...ownership import drain, dropped, forked, unless_inside
from .calls import relaxed
from .context import PrimaryContext, attempt

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "Capture",
    "NEXT",
    "PerThread",
    "REACHED",
    "Point",
    "beginning",
    "capture_number",
    "barred_end",
    "capturing",
    "end_before",
    "end_now",
    "finish_context",
    "forget",
    "is_barred",
    "keep_in_graph",
    "legacy_end",
    "mark_end",
    "note_joined",
    "own_stream",
    "refuse_device_wait",
    "refuse_wait",
    "retain",
    "retained",
    "sweep",
    "take_event",
    "waiting",
]

_LEGACY, _PER_THREAD = 1, 2
_NO_TIMING = ctypes.c_uint(2)  # CU_EVENT_DISABLE_TIMING
_SWEEP_EVERY = 16  # a sweep, and a new Point after it, cost 2,500 ns, which this many calls share

NEXT = -1  # stands in `capturing` for the number of a capture that a thread begins now: it is not known yet


class Capture:
    """What is noted of one of our captures in progress.

    kept      the objects that must live as long as its graph
    ordinals  the devices of its streams
    before    the end of the work that each stream had before it took part, by its handle
    legacy    the end of the work that each device's legacy default stream had when the capture began to bar it
    allocated  the releases of the memory that was allocated in it, which belongs to the graph
    """

    __slots__ = ("kept", "ordinals", "before", "legacy", "allocated")

    def __init__(self, kept: list[object], ordinal: int) -> None:
        self.kept, self.ordinals = kept, {ordinal}
        self.before: dict[int, Point] = {}
        self.legacy: dict[int, Point] = {}
        self.allocated: list[Any] = []


capturing: dict[int, Capture] = {}  # our captures in progress, by their numbers
# A wait for a whole context is possible only if there is no capture, and would break a capture that begins meanwhile.
# So each wait is noted in `waiting`, and a capture begins when there is none. The lock is held while either begins.
waiting: set[object] = set()
beginning = free_after_fork(_thread.RLock())

retained: list[Point] = []  # every Point whose event is in use; appending and removing are atomic
_newest: dict[tuple[int, int, object], Point] = {}  # that takes more objects, by its key
_skipped: list[None] = []  # an entry per skipped sweep


class PerThread(int):
    """The per-thread default stream of one thread, in the form in which memory notes it.

    number  that of no other thread, also after this one has ended
    origin  that of what functions which were queued on it have raised, if any was: see host_functions.py
    """

    number: int
    origin: Any


_own = _thread._local()
_numbers = count(1)


def own_stream() -> PerThread:
    """Return the per-thread default stream of this thread."""
    try:
        return _own.stream  # type: ignore[no-any-return]
    except AttributeError:
        made = PerThread(_PER_THREAD)
        made.number, made.origin = next(_numbers), None
        _own.stream = made
        return made


class Event:
    """An event of a context's pool: `argument` is its handle as an argument, None after its context has ended.

    pool  where it is put when no one uses it; the next context of the device has another list
    """

    __slots__ = ("argument", "pool")

    def __init__(self, primary: PrimaryContext) -> None:
        handle, self.pool = ctypes.c_void_p(), primary.pool
        primary.calls.cuEventCreate(byref(handle), _NO_TIMING)
        self.argument: object = as_argument(handle.value)
        primary.events.append(self)


def take_event(primary: PrimaryContext) -> Event:
    """Return an event of the context's pool; append it to event.pool afterwards."""
    try:
        return primary.pool.pop()  # (atomic: no lock is needed, and a wait between streams is a hot path)
    except IndexError:
        pass
    return Event(primary)  # (an error of the driver would be shown below the IndexError)


class Point:
    """A point in a stream; `things` are kept alive until it is reached.

    key    the device, the handle of the stream, and what _which() tells; 0, 0 for a point that takes no more objects
    event  None after the point was found to be reached
    recording  an entry for each thread that records the event now: another one must not use it elsewhere meanwhile
    """

    __slots__ = ("primary", "key", "event", "things", "is_open", "recording")

    def __init__(self, primary: PrimaryContext, key: tuple[int, int, object], queue: object) -> None:
        self.primary, self.key = primary, key
        self.event: Event | None = take_event(primary)
        self.things: list[object] = []
        self.recording: list[None] = []
        self.is_open = True  # set to False before the event is queried: later objects need another Point
        try:
            self.record(queue)
        except BaseException:
            if self.event.argument is not None:
                primary.pool.append(self.event)
            raise

    def record(self, queue: object) -> None:
        """Move this point to the end of the work that a stream, given as an argument, has now."""
        self.recording.append(None)
        try:
            event = self.event
            if event is not None:
                self.primary.calls.cuEventRecord(event.argument, queue)
        finally:
            self.recording.pop()

    def is_reached(self) -> bool:
        """Tell whether the stream has passed this point, or never will because the context is lost or was destroyed."""
        self.is_open = False
        event = self.event
        if event is None or event.argument is None:
            return True
        try:
            return not self.primary.calls.cuEventQuery(event.argument)
        except CudaError as error:
            # After any other error, such as OUT_OF_MEMORY, or NOT_PERMITTED in a host function, the work may go on.
            return isinstance(error, ContextLost) or error.code in (INVALID_CONTEXT, INVALID_HANDLE)
        except (Closed, ForkedAfterInit):
            return True

    def wait(self) -> None:
        """Wait on the CPU until the stream has passed this point; this does not break a capture."""
        self.is_open = False
        event = self.event
        if event is not None and event.argument is not None:
            self.primary.calls.cuEventSynchronize(event.argument)
        if not self.things:  # (dropping things would run their finalizers)
            self.end()

    def end(self) -> None:
        """Release what this point keeps: it was reached, or its context ends."""
        try:
            retained.remove(self)
        except ValueError:  # another thread ends it
            return
        if _newest.get(self.key) is self:
            _newest.pop(self.key, None)
        event, self.event = self.event, None
        if event is not None and not self.recording:  # (otherwise it ends with the context)
            event.pool.append(event)
        self.things = []
        self.primary.let_go(self)


def forget(primary: PrimaryContext) -> None:
    """Release at once what is retained for the work of a context that ends."""
    for point in tuple(retained):
        if point.primary is primary:
            point.end()


def finish_context(primary: PrimaryContext, what: str = "", is_locked: bool = False) -> bool:
    """Wait for all work of a context, unless that would break a capture of ours; return whether it is done.

    what    the operation, which is refused during a capture on this device; "": it can do without the wait
    is_locked  as for retain(): the caller has waited before it took its lock, and only waits again
    calls   cuCtxSynchronize
    raises  InvalidUse  one of our captures is in progress on this device
    """
    if what and not is_locked and capturing and dropped:  # a capture that an interrupt left is ended there
        drain()  # (which calls this function without `what`, for each of its releases)
    wait = object()
    try:
        with unless_inside(beginning):
            if capturing:
                if not what:
                    return False
                refuse_device_wait(primary, what)
            waiting.add(wait)
        primary.calls.cuCtxSynchronize()
    finally:
        try:
            waiting.discard(wait)
        except BaseException:  # before Python 3.11, an interrupt may come here before the call, too
            waiting.discard(wait)
            raise
    return True


def capture_number(calls: Any, stream: object) -> int | None:
    """Return the number of the capture that a stream takes part in, or None if it is not being captured.

    stream  a handle, or one as an argument
    returns 0 for a capture whose number the driver does not tell, for want of memory
    calls   cuStreamIsCapturing, cuStreamGetCaptureInfo
    """
    status = ctypes.c_uint()
    queue = as_argument(stream) if type(stream) is int else stream
    try:
        calls.cuStreamIsCapturing(queue, byref(status))  # (it takes half the time)
        if not status.value:
            return None
        number = ctypes.c_uint64()
        calls.cuStreamGetCaptureInfo(queue, byref(status), byref(number))
    except CudaError as error:  # a default stream during a capture: the call that follows is refused as well
        current().unnoticed(error)
    if status.value:
        return number.value
    return None  # it ended just now


def is_barred(calls: Any) -> bool:
    """Tell whether a stream that waits for the legacy default stream is being captured.

    That stream can then be neither used nor waited for, which would break the capture. No work was queued on it since.

    calls   cuStreamIsCapturing
    """
    try:
        calls.cuStreamIsCapturing(as_argument(1), byref(ctypes.c_uint()))
        return False
    except CudaError as error:
        return error.code == STREAM_CAPTURE_IMPLICIT


def barred_end(primary: PrimaryContext) -> Point | None:
    """Return the end of the work of the legacy default stream while it is barred; None if that is not known."""
    for noted in [*capturing.values()]:
        end = noted.legacy.get(primary.ordinal)
        if end is not None:
            return end
    return None


def end_before(number: int, stream: int) -> Point | None:
    """Return the end of the work that a stream had before it took part in a capture; None if that is not known."""
    for key in (number, NEXT):
        noted = capturing.get(key)
        if noted is not None and stream in noted.before:
            return noted.before[stream]
    return None


def legacy_end(primary: PrimaryContext) -> Point | None:
    """Return the end of the work that the legacy default stream has now, also while another capture bars it."""
    if is_barred(primary.calls):
        return barred_end(primary)
    return mark_end(primary, as_argument(1))


def note_joined(primary: PrimaryContext, stream: int, end: Point | None, legacy: Point | None) -> None:
    """Note the device of a wait and what came before it, if its stream takes part in a capture of ours since.

    end     of the work of the stream
    legacy  the end of the work of the legacy default stream, if the stream bars it now
    """
    number = capture_number(primary.calls, stream) or 0
    noted = capturing.get(number)
    if noted is None:
        return
    noted.ordinals.add(primary.ordinal)
    noted.kept.append(primary.life)  # the work of the graph is on this device, too
    if end is not None:
        noted.before[stream] = end  # (in the place of that of a closed stream with this handle)
    if legacy is not None:
        noted.legacy[primary.ordinal] = legacy


def refuse_wait(calls: Any, what: str, stream: int, which: str = "this stream") -> None:
    """Refuse to wait for a stream that is captured, or for the legacy default stream while a capture bars it.

    The capture would break. A borrowed stream may be any of these.

    what    the operation, for the error
    which   the stream, for the error
    calls   cuStreamIsCapturing, cuStreamGetCaptureInfo
    raises  InvalidUse  the driver would refuse it with 900 or 906
    """
    if stream == _LEGACY:
        if is_barred(calls):
            raise _refused(what, "a stream that the default stream waits for", STREAM_CAPTURE_IMPLICIT, "IMPLICIT")
    elif capture_number(calls, stream) is not None:
        raise _refused(what, which, STREAM_CAPTURE_UNSUPPORTED, "UNSUPPORTED")


def refuse_device_wait(primary: PrimaryContext, what: str) -> None:
    """Refuse to wait for a device while one of our captures is in progress there: the capture would break.

    raises  InvalidUse  the driver would refuse it with 900
    """
    if any([primary.ordinal in noted.ordinals for noted in [*capturing.values()]]):
        raise _refused(what, "a stream of this device", STREAM_CAPTURE_UNSUPPORTED, "UNSUPPORTED")


def _refused(what: str, which: str, code: int, name: str) -> InvalidUse:
    return InvalidUse(
        f"{what}: {which} is being captured, so a wait would break the capture: "
        "end the capture, launch the graph, and wait then",
        code=code,
        name=f"CUDA_ERROR_STREAM_CAPTURE_{name}",
        call=what,
    )


def mark_end(primary: PrimaryContext, stream: object) -> Point | None:
    """Return the Point at the end of the work of a stream that is about to be closed.

    A wait for it replaces a wait for the whole context, which is not possible while a stream is captured.

    stream   the handle as an argument
    returns  None if the end cannot be recorded
    calls    cuStreamQuery, cuEventRecord
    """
    if forked:
        return None
    try:
        if capture_number(primary.calls, stream) is not None:
            return None
        with relaxed(primary.driver):
            if not primary.calls.cuStreamQuery(stream):
                return REACHED
        return end_now(primary, stream)
    except (CudaError, Closed, ForkedAfterInit) as error:
        primary.driver.unnoticed(error)
        return None


def end_now(primary: PrimaryContext, stream: object) -> Point:
    """Return the Point at the end of the work that a stream, given as an argument, has now.

    Callers may hold a lock, so this releases nothing: that may run a finalizer of the user, which may wait for a lock.
    """
    point = Point(primary, (primary.ordinal, 0, 0), stream)
    retained.append(point)
    return point


REACHED = Point.__new__(Point)  # a point that was reached
REACHED.event, REACHED.things = None, []


def keep_in_graph(primary: PrimaryContext, stream: object, things: object) -> bool:
    """Tell whether a stream is being captured, and keep objects as long as the graph of a capture of ours.

    stream  a handle, or one as an argument
    """
    number = capture_number(primary.calls, stream)
    if number is None:
        return False
    noted = capturing.get(number)
    if noted is not None:
        noted.kept.append(things)
    elif not number:  # it is that of one of these, or of other software
        for each in [*capturing.values()]:
            each.kept.append(things)
    return True


def retain(device: Any, stream: int, things: object, release: object = None, is_locked: bool = False) -> None:
    """Keep objects alive until a stream has completed the work that was queued on it so far.

    device   a Device, or a PrimaryContext
    stream   a handle, or one as an argument; the work that uses the objects must be queued already
    release  that of a Stream of ours; None: another stream
    is_locked  whether the caller has a lock, and sweeps afterwards: a finalizer of the user may wait for another lock
    """
    if type(device) is PrimaryContext:
        primary: PrimaryContext = device
    else:
        primary = device._primary
    queue = as_argument(stream)
    if keep_in_graph(primary, queue, things):
        return
    try:
        key = primary.ordinal, stream, _which(primary, stream, queue) if release is None else release
        point = _newest.get(key)
        if point is not None and point.is_open:
            point.things.append(things)
            point.record(queue)
        if point is None or not point.is_open:  # tested after recording; is_reached() clears it before its query
            point = Point(primary, key, queue)
            point.things.append(things)
            primary.users.add(point)
            retained.append(point)
            _newest[key] = point
    except BaseException:  # the work is queued: its memory must outlive it in any case
        attempt(primary.calls.cuStreamSynchronize, queue)
        raise
    if is_locked:
        return
    if len(point.things) == 1:  # it is new, which all of them are if the driver does not tell which stream it is
        sweep()
    elif not len(point.things) % _SWEEP_EVERY:
        sweep(now=True)


def _which(primary: PrimaryContext, stream: int, queue: object) -> int:
    """Return a number that tells a stream that is not ours from all others with its handle, before and after it.

    calls   cuStreamGetId
    """
    if stream == _LEGACY:
        return 0
    if stream == _PER_THREAD:
        return own_stream().number
    number = ctypes.c_uint64()
    try:
        primary.calls.cuStreamGetId(queue, byref(number))
    except SymbolNotFound:  # before CUDA 12.0
        return -next(_numbers)
    return number.value


def sweep(now: bool = False) -> None:
    """Release what finished work used; copies and waits call this, and retain() does.

    now  examine all points; otherwise only every sixteenth call does
    """
    if not retained:
        return
    if not now and len(_skipped) < _SWEEP_EVERY - 1:
        _skipped.append(None)
        return
    _skipped.clear()
    late: set[tuple[int, int, object]] = set()
    for point in tuple(retained):
        if point.key in late or not point.is_reached():
            if point.key[1]:
                late.add(point.key)  # work that was queued later on this stream is not done either
        else:
            point.end()
