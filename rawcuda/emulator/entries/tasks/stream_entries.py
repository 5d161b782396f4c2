"""Entry points: streams, their attributes, events, host functions.

Source       CUDA Driver API, "Stream Management", "Event Management", "Execution Control" (cuLaunchHostFunc)
Read next    emulator/machine/queues.py, entries/memories/memory_entries.py
"""

from __future__ import annotations

import struct

from ...interface.thunks import entry, out, put_bytes, put_float, put_int, put_u64, put_uint, put_word, read
from ...machine.codes import NOT_READY, Refused
from ...machine.host_thread import host_function
from ...machine.machine import Machine
from ...machine.queues import HOST, Event, Stream, nothing
from ...machine.sharing import MARK_SIZE, Backing, SharedMark, pause

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..graphs.capture import Capture

__all__: list[str] = []

_DISABLE_TIMING = 2
_EXTERNAL = 1
_VALUE = struct.Struct("64s")
_WINDOW = struct.Struct("PNf2i")  # CUaccessPolicyWindow: address, bytes, hit ratio, two properties


# -- streams


@entry("cuStreamCreate(CUstream *phStream, unsigned int Flags)", since=2000)
@entry("cuStreamCreateWithPriority(CUstream *phStream, unsigned int flags, int priority)", since=5050)
def create(machine: Machine, address: int, flags: int, priority: int = 0) -> None:
    """Create a stream; a priority out of range is clamped."""
    out(address)
    if flags & ~1:
        raise Refused(1)
    least, greatest = machine.answers.priorities
    put_word(address, machine.context().new_stream(flags, max(greatest, min(least, priority))).handle)


@entry("cuStreamDestroy_v2(CUstream hStream)", since=4000)
def destroy(machine: Machine, handle: int) -> None:
    """Destroy a stream; pending work is still done."""
    machine.context()
    stream = machine.get(Stream, handle)
    stream.context.check()
    if stream.capture is not None:
        stream.capture.drop(stream)
    del machine.handles[handle], stream.context.owned[handle]
    stream.closed = True
    if not stream.queue and stream.running is None:
        stream.context.streams.pop(stream.ident, None)


@entry("cuStreamGetPriority(CUstream hStream, int *priority)", since=5050)
def get_priority(machine: Machine, handle: int, address: int) -> None:
    """Write a stream's priority."""
    out(address)
    put_int(address, machine.stream(handle).priority)


@entry("cuStreamGetFlags(CUstream hStream, unsigned int *flags)", since=5050)
def get_flags(machine: Machine, handle: int, address: int) -> None:
    """Write a stream's flags."""
    out(address)
    put_uint(address, machine.stream(handle).flags)


@entry("cuStreamGetId(CUstream hStream, unsigned long long *streamId)", since=12000)
def get_id(machine: Machine, handle: int, address: int) -> None:
    """Write a number that is unique among all streams."""
    out(address)
    put_u64(address, machine.stream(handle).ident)


@entry("cuStreamGetCtx(CUstream hStream, CUcontext *pctx)", since=9020)
def get_context(machine: Machine, handle: int, address: int) -> None:
    """Write a stream's context; for a stream of a green context, that would be a context of its own."""
    out(address)
    stream = machine.stream(handle)
    if stream.green is not None:
        raise Refused(801, "the own context of a stream of a green context is not emulated: call cuStreamGetCtx_v2")
    put_word(address, stream.context.handle)


@entry("cuStreamGetCtx_v2(CUstream hStream, CUcontext *pCtx, CUgreenCtx *pGreenCtx)", since=12050)
def get_contexts(machine: Machine, handle: int, address: int, green: int) -> None:
    """Write a stream's context and NULL; or the primary context of its device, and its green context."""
    out(address)
    out(green)
    stream = machine.stream(handle)
    put_word(address, stream.context.handle)
    put_word(green, 0 if stream.green is None else stream.green.handle)


@entry("cuStreamGetDevice(CUstream hStream, CUdevice *device)", since=12080)
def get_device(machine: Machine, handle: int, address: int) -> None:
    """Write a stream's device."""
    out(address)
    put_int(address, machine.stream(handle).context.device.ordinal)


# -- attributes, which have no effect; their numbers are those of CUlaunchAttributeID


def _first(stream: Stream, number: int) -> bytes:
    """Return the value that an attribute has before it is set."""
    if number == 8:
        return stream.priority.to_bytes(4, "little", signed=True)
    domains = stream.context.machine.answers.attributes[126]
    firsts = {1: b"", 3: b"\1", 9: bytes((0, min(1, domains - 1))), 10: b""}
    if number not in firsts:
        raise Refused(1, f"attribute {number} is not an attribute of streams: they have 1, 3, 8, 9 and 10")
    return firsts[number]


def _check_attribute(machine: Machine, stream: Stream, number: int, value: bytes) -> None:
    known = machine.answers.attributes
    first, domains = int.from_bytes(value[:4], "little", signed=True), known[126]
    if number == 1:
        address, size, ratio, hit, miss = _WINDOW.unpack_from(value)
        if size > known[109]:
            raise Refused(1, f"an access policy window of {size} bytes: must be at most {known[109]}")
        if not 0 <= ratio <= 1 or hit not in (0, 1, 2) or miss not in (0, 1):
            raise Refused(
                1,
                f"access policy window: hit ratio {ratio} (0 to 1), properties: hit {hit} (0 to 2), miss {miss} (0, 1)",
            )
        if size and machine.space.find(address) is None:
            raise Refused(1, machine.space.explain(address, size))
    elif number == 3 and not 1 <= first <= 4:
        raise Refused(1, f"synchronization policy {first}: must be 1 to 4")
    elif number == 8 and not machine.answers.priorities[1] <= first <= machine.answers.priorities[0]:
        raise Refused(
            1, f"priority {first}: must be {machine.answers.priorities[1]} to {machine.answers.priorities[0]}"
        )
    elif number == 9 and max(value[:2]) >= domains or number == 10 and first not in (0, 1):
        raise Refused(1, f"memory synchronization domains: a map has numbers below {domains}, and a domain is 0 or 1")


@entry("cuStreamGetAttribute(CUstream hStream, CUstreamAttrID attr, CUstreamAttrValue *value_out)", since=11000)
def get_attribute(machine: Machine, handle: int, number: int, address: int) -> None:
    """Write an attribute of a stream."""
    out(address)
    stream = machine.stream(handle)
    put_bytes(address, stream.attributes.get(number, _first(stream, number)).ljust(64, b"\0"))


@entry("cuStreamSetAttribute(CUstream hStream, CUstreamAttrID attr, const CUstreamAttrValue *value)", since=11000)
def set_attribute(machine: Machine, handle: int, number: int, address: int) -> None:
    """Set an attribute of a stream."""
    stream = machine.stream(handle)
    _first(stream, number)
    (value,) = read(_VALUE, address)
    _check_attribute(machine, stream, number, value)
    stream.attributes[number] = value
    if number == 8:
        stream.priority = int.from_bytes(value[:4], "little", signed=True)


@entry("cuStreamCopyAttributes(CUstream dst, CUstream src)", since=11000)
def copy_attributes(machine: Machine, target: int, source: int) -> None:
    """Copy all attributes of a stream to another one of the same context."""
    to, origin = machine.stream(target), machine.stream(source)
    if to.context is not origin.context:
        raise Refused(400, "attributes can be copied only between streams of one context")
    to.attributes, to.priority = dict(origin.attributes), origin.priority


def _settled(machine: Machine, handle: int) -> Stream:
    """Return a stream to query or wait for; a capturing stream is refused."""
    stream = machine.stream(handle)
    if stream.capture is not None:
        stream.capture.invalidate()
        raise Refused(900, "a capturing stream cannot be queried or waited for: end the capture first")
    if stream is stream.context.legacy and stream.context.captures:
        stream.context.refuse_implicit()
    return stream


@entry("cuStreamQuery(CUstream hStream)", since=2000)
def query(machine: Machine, handle: int) -> int:
    """Return 0 if all work of a stream is done; otherwise run some of it, and return 600."""
    stream = _settled(machine, handle)
    pending = machine.queues.pending(stream)
    if not pending:
        return 0
    machine.queues.nudge(pending[-1])
    stream.context.check()
    return NOT_READY


@entry("cuStreamSynchronize(CUstream hStream)", since=2000)
def synchronize(machine: Machine, handle: int) -> None:
    """Finish all work of a stream; for the legacy stream, also that of all blocking streams."""
    stream = _settled(machine, handle)
    for work in machine.queues.pending(stream):
        machine.queues.complete(work)
    stream.context.check()
    machine.settle_pools()


@entry("cuStreamWaitEvent(CUstream hStream, CUevent hEvent, unsigned int Flags)", since=3020)
def wait_event(machine: Machine, handle: int, event_handle: int, flags: int) -> None:
    """Make later work of a stream wait for an event; an event that was never recorded has no effect."""
    stream, event = machine.stream(handle), machine.event(event_handle)
    if flags & ~_EXTERNAL:
        raise Refused(1)
    if flags:
        _captured(stream).wait_for(stream, event)
    elif event.captured is not None:
        capture, nodes = event.captured
        capture.wait(stream, nodes)
    elif stream.capture is not None:
        stream.capture.isolate()
    else:
        _wait(machine, stream, event)


def _wait(machine: Machine, stream: Stream, event: Event) -> None:
    machine.queues.admit(stream)
    if event.shared is not None:
        if not event.reached:
            machine.queues.submit(stream, event.shared.wait(), "a wait for a shared event")
    elif event.work is not None and not event.work.done:
        machine.queues.submit(stream, nothing, "a wait for an event", after=[event.work])


def _captured(stream: Stream) -> Capture:
    if stream.capture is None:
        raise Refused(1, "the external flag needs a stream that is capturing: begin a capture, or pass 0")
    return stream.capture


# -- host functions


@entry("cuLaunchHostFunc(CUstream hStream, CUhostFn fn, void *userData)", since=10000)
def launch_host_function(machine: Machine, handle: int, function: int, data: int) -> None:
    """Queue a call of a host function, in which every driver call is refused."""
    stream = machine.stream(handle)
    if not function:
        raise Refused(1)
    if stream.capture is not None:
        stream.capture.call(stream, function, data)
        return
    machine.queues.submit(stream, host_function(function, data), "a host function", HOST)


# -- events


@entry("cuEventCreate(CUevent *phEvent, unsigned int Flags)", since=2000)
def event_create(machine: Machine, address: int, flags: int) -> None:
    """Create an event, perhaps one that other processes can open."""
    out(address)
    context = machine.context()
    if flags & ~7 or (flags & 4 and not flags & _DISABLE_TIMING):
        raise Refused(1)
    if flags & 4:
        backing = Backing.create(MARK_SIZE, context.device.index)
    else:
        backing = None
    event = machine.add(Event(context, flags))
    if backing is not None:
        event.shared = SharedMark(machine, backing)
    context.owned[event.handle] = event
    put_word(address, event.handle)


@entry("cuEventDestroy_v2(CUevent hEvent)", since=4000)
def event_destroy(machine: Machine, handle: int) -> None:
    """Destroy an event; work that waits for its mark still waits."""
    event = machine.event(handle)
    event.close()
    event.context.owned.pop(handle, None)
    del machine.handles[handle]


@entry("cuEventRecord(CUevent hEvent, CUstream hStream)", since=2000)
@entry("cuEventRecordWithFlags(CUevent hEvent, CUstream hStream, unsigned int flags)", since=11010)
def event_record(machine: Machine, handle: int, stream_handle: int, flags: int = 0) -> None:
    """Record an event after the current work of a stream; with the external flag, each graph launch records it."""
    event, stream = machine.event(handle), machine.stream(stream_handle)
    if flags & ~_EXTERNAL:
        raise Refused(1)
    if event.context is not stream.context:
        raise Refused(400, "an event can be recorded only in a stream of its own context")
    if flags:
        _captured(stream).record(stream, event)
        return
    if stream.capture is not None:
        event.captured = (stream.capture, stream.capture.mark(stream))
        return
    work = machine.queues.submit(stream, nothing, "an event's mark")
    event.captured, event.work = None, work


def _recorded(machine: Machine, handle: int) -> Event:
    event = machine.event(handle)
    if event.captured is not None:
        event.captured[0].invalidate()
        raise Refused(907)
    return event


@entry("cuEventQuery(CUevent hEvent)", since=2000)
def event_query(machine: Machine, handle: int) -> int:
    """Return 0 if an event's mark is reached; otherwise run some work, and return 600."""
    event = _recorded(machine, handle)
    if event.reached:
        return 0
    machine.queues.nudge(event.work)
    _check_recorder(event)
    event.context.check()
    return NOT_READY


def _check_recorder(event: Event) -> None:
    """Make the context unusable if the process that recorded a shared event has ended before reaching it."""
    if event.shared is None:
        reason = ""
    else:
        reason = event.shared.orphaned()
    if reason:
        event.context.lose(719, reason)


@entry("cuEventSynchronize(CUevent hEvent)", since=2000)
def event_synchronize(machine: Machine, handle: int) -> None:
    """Finish the work before an event's mark."""
    event = _recorded(machine, handle)
    machine.queues.complete(event.work)
    while event.shared is not None and not event.reached and not event.context.state:
        _check_recorder(event)
        pause(machine)
    event.context.check()
    machine.settle_pools()


@entry("cuEventElapsedTime_v2(float *pMilliseconds, CUevent hStart, CUevent hEnd)", since=12080)
@entry("cuEventElapsedTime(float *pMilliseconds, CUevent hStart, CUevent hEnd)", since=2000)
def elapsed_time(machine: Machine, address: int, start_handle: int, end_handle: int) -> int:
    """Write the milliseconds between two marks by the host's clock."""
    out(address)
    start, end = _recorded(machine, start_handle), _recorded(machine, end_handle)
    if start.work is None or end.work is None or (start.flags | end.flags) & _DISABLE_TIMING:
        raise Refused(400, "the elapsed time needs two recorded events without CU_EVENT_DISABLE_TIMING")
    if start.context.device is not end.context.device:
        raise Refused(400, "the elapsed time needs two events of the same device")
    if not (start.work.done and end.work.done):
        machine.queues.nudge(end.work if start.work.done else start.work)
        return NOT_READY
    put_float(address, (end.work.time_ns - start.work.time_ns) / 1e6)
    return 0
