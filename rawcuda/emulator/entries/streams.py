"""Entry points: streams, events, host functions.

Source       CUDA Driver API, "Stream Management", "Event Management", "Execution Control" (cuLaunchHostFunc)
Read next    queues.py, memory.py
"""

from __future__ import annotations

from ..codes import Refused
from ..machine import Machine
from ..queues import HOST, Event, Stream, host_function
from ..thunks import entry, out, put_float, put_int, put_u64, put_uint

__all__: list[str] = []

_NOT_READY = 600
_LEAST, _GREATEST = 0, -5
_DISABLE_TIMING = 2


# -- streams


@entry("cuStreamCreate(CUstream *phStream, unsigned int Flags)", since=2000)
@entry("cuStreamCreateWithPriority(CUstream *phStream, unsigned int flags, int priority)", since=5050)
def create(machine: Machine, address: int, flags: int, priority: int = 0) -> None:
    """Make a stream; a priority out of range is clamped."""
    out(address)
    if flags & ~1:
        raise Refused(1)
    put_u64(address, machine.context().new_stream(flags, max(_GREATEST, min(_LEAST, priority))).handle)


@entry("cuStreamDestroy_v2(CUstream hStream)", since=4000)
def destroy(machine: Machine, handle: int) -> None:
    """Forget a stream; work that is pending is still done."""
    machine.context()
    stream = machine.get(Stream, handle)
    stream.context.check()
    if stream.capture is not None:
        stream.capture.invalidate()
        stream.capture.leave(stream)
    del machine.handles[handle], stream.context.owned[handle]
    stream.closed = True
    if not stream.queue and stream.running is None:
        stream.context.streams.pop(stream.ident, None)


@entry("cuStreamGetPriority(CUstream hStream, int *priority)", since=5050)
def get_priority(machine: Machine, handle: int, address: int) -> None:
    """Give a stream's priority."""
    out(address)
    put_int(address, machine.stream(handle).priority)


@entry("cuStreamGetFlags(CUstream hStream, unsigned int *flags)", since=5050)
def get_flags(machine: Machine, handle: int, address: int) -> None:
    """Give a stream's flags."""
    out(address)
    put_uint(address, machine.stream(handle).flags)


@entry("cuStreamGetId(CUstream hStream, unsigned long long *streamId)", since=12000)
def get_id(machine: Machine, handle: int, address: int) -> None:
    """Give a number that no other stream has or will have."""
    out(address)
    put_u64(address, machine.stream(handle).ident)


@entry("cuStreamGetCtx(CUstream hStream, CUcontext *pctx)", since=9020)
def get_context(machine: Machine, handle: int, address: int) -> None:
    """Give the context that a stream is of."""
    out(address)
    put_u64(address, machine.stream(handle).context.handle)


@entry("cuStreamGetDevice(CUstream hStream, CUdevice *device)", since=12080)
def get_device(machine: Machine, handle: int, address: int) -> None:
    """Give the device that a stream is of."""
    out(address)
    put_int(address, machine.stream(handle).context.device.ordinal)


def _settled(machine: Machine, handle: int) -> Stream:
    """Return a stream to ask or wait for, which is forbidden while it captures."""
    stream = machine.stream(handle)
    if stream.capture is not None:
        stream.capture.invalidate()
        raise Refused(900, "a stream that is capturing cannot be asked or waited for")
    if stream is stream.context.legacy and stream.context.captures:
        stream.context.refuse_implicit()
    return stream


@entry("cuStreamQuery(CUstream hStream)", since=2000)
def query(machine: Machine, handle: int) -> int:
    """Say whether all work of a stream is done, and let some be done if not."""
    stream = _settled(machine, handle)
    pending = machine.queues.pending(stream)
    if not pending:
        return 0
    machine.queues.nudge(pending[-1])
    stream.context.check()
    return _NOT_READY


@entry("cuStreamSynchronize(CUstream hStream)", since=2000)
def synchronize(machine: Machine, handle: int) -> None:
    """Finish all work of a stream; for the legacy default stream, that of every stream which it joins."""
    stream = _settled(machine, handle)
    for work in machine.queues.pending(stream):
        machine.queues.complete(work)
    stream.context.check()


@entry("cuStreamWaitEvent(CUstream hStream, CUevent hEvent, unsigned int Flags)", since=3020)
def wait_event(machine: Machine, handle: int, event_handle: int, flags: int) -> None:
    """Make work given from now on wait for an event; one that was never recorded holds up nothing."""
    stream, event = machine.stream(handle), machine.event(event_handle)
    if flags & ~1:
        raise Refused(1)
    if event.captured is not None:
        capture, nodes = event.captured
        capture.wait(stream, nodes)
    elif stream.capture is not None:
        stream.capture.isolate()
    elif event.work is not None and not event.work.done:
        machine.queues.submit(stream, _pass, "a wait for an event", after=[event.work])


def _pass() -> None:
    """Do nothing: to wait for the work before it is all that a wait does."""


# -- host functions


@entry("cuLaunchHostFunc(CUstream hStream, CUhostFn fn, void *userData)", since=10000)
def launch_host_function(machine: Machine, handle: int, function: int, data: int) -> None:
    """Queue a call of the host's; in it, every driver call is refused."""
    stream = machine.stream(handle)
    if not function:
        raise Refused(1)
    machine.queues.submit(stream, host_function(function, data), "a host function", HOST)


# -- events


@entry("cuEventCreate(CUevent *phEvent, unsigned int Flags)", since=2000)
def event_create(machine: Machine, address: int, flags: int) -> None:
    """Make an event; those for other processes are not supported."""
    out(address)
    context = machine.context()
    if flags & ~7 or (flags & 4 and not flags & _DISABLE_TIMING):
        raise Refused(1)
    if flags & 4:
        raise Refused(801, "events for other processes are not emulated")
    event = machine.add(Event(context, flags))
    context.owned[event.handle] = event
    put_u64(address, event.handle)


@entry("cuEventDestroy_v2(CUevent hEvent)", since=4000)
def event_destroy(machine: Machine, handle: int) -> None:
    """Forget an event; who waits for its mark still does."""
    event = machine.event(handle)
    del machine.handles[handle], event.context.owned[handle]


@entry("cuEventRecord(CUevent hEvent, CUstream hStream)", since=2000)
def event_record(machine: Machine, handle: int, stream_handle: int) -> None:
    """Mark the point that a stream has now."""
    event, stream = machine.event(handle), machine.stream(stream_handle)
    if event.context is not stream.context:
        raise Refused(400, "an event can be recorded only in a stream of its own context")
    if stream.capture is not None:
        event.captured = (stream.capture, stream.capture.mark(stream))
        return
    event.captured = None
    event.work = machine.queues.submit(stream, _pass, "an event's mark")


def _recorded(machine: Machine, handle: int) -> Event:
    event = machine.event(handle)
    if event.captured is not None:
        event.captured[0].invalidate()
        raise Refused(907)
    return event


@entry("cuEventQuery(CUevent hEvent)", since=2000)
def event_query(machine: Machine, handle: int) -> int:
    """Say whether an event's mark is reached, and let some work be done if not."""
    event = _recorded(machine, handle)
    if event.reached:
        return 0
    machine.queues.nudge(event.work)
    event.context.check()
    return _NOT_READY


@entry("cuEventSynchronize(CUevent hEvent)", since=2000)
def event_synchronize(machine: Machine, handle: int) -> None:
    """Finish the work before an event's mark."""
    event = _recorded(machine, handle)
    machine.queues.complete(event.work)
    event.context.check()


@entry("cuEventElapsedTime_v2(float *pMilliseconds, CUevent hStart, CUevent hEnd)", since=12080)
@entry("cuEventElapsedTime(float *pMilliseconds, CUevent hStart, CUevent hEnd)", since=2000)
def elapsed_time(machine: Machine, address: int, start_handle: int, end_handle: int) -> int:
    """Give the milliseconds between two marks, by this machine's clock."""
    out(address)
    start, end = _recorded(machine, start_handle), _recorded(machine, end_handle)
    if start.work is None or end.work is None or (start.flags | end.flags) & _DISABLE_TIMING:
        raise Refused(400, "elapsed time needs two recorded events that were made without CU_EVENT_DISABLE_TIMING")
    if start.context.device is not end.context.device:
        raise Refused(400, "elapsed time needs two events of one device")
    if not (start.work.done and end.work.done):
        machine.queues.nudge(end.work if start.work.done else start.work)
        return _NOT_READY
    put_float(address, (end.work.time_ns - start.work.time_ns) / 1e6)
    return 0
