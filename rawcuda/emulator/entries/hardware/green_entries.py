"""Entry points: green contexts, each of which has a part of a device's multiprocessors.

What it is   GreenContext, and the calls that divide the multiprocessors and make contexts of the parts. The private
             bytes of a CUdevResource contain its device, its multiprocessors, and the number of the call that made it.
What not     concurrency: kernels in all contexts run one after another. A part has at least two multiprocessors, and an
             even number of them. A CUcontext made of a green context is the primary context.
Source       CUDA Driver API, "Green Contexts"
Read next    contexts.py
"""

from __future__ import annotations

import struct

from ...interface.thunks import WORD, entry, get_int, out, put_bytes, put_int, put_u64, put_word, read
from ...machine.codes import Refused
from ...machine.machine import Context, Device, Machine
from ...machine.queues import Event, Stream, nothing

__all__ = ["GreenContext"]

# type; device + 1, call, multiprocessors; count, smallest, alignment; the pointer at the end
_RESOURCE = struct.Struct(f"<i4x QQ 64s 8x 3I 28x {WORD}x")
_SM = 1
_SMALLEST = 2  # multiprocessors of a part
_REQUIRED, _NON_BLOCKING = 1, 1


class Descriptor:
    """A description of a green context: a device, and a mask of its multiprocessors."""

    __slots__ = ("handle", "device", "mask")

    def __init__(self, device: Device, mask: int) -> None:
        self.handle, self.device, self.mask = 0, device, mask


class GreenContext:
    """A green context and its streams, which belong to the primary context of the device."""

    __slots__ = ("handle", "ident", "device", "mask", "streams", "own", "context")

    def __init__(self, ident: int, device: Device, mask: int) -> None:
        self.handle, self.ident, self.device, self.mask = 0, ident, device, mask
        self.context = device.primary
        self.own = device.primary._stream(_NON_BLOCKING)  # for marks in the order of the whole green context
        self.streams: list[Stream] = []

    def pending(self) -> list[Stream]:
        """Return the streams of the green context that still exist."""
        self.streams = [stream for stream in self.streams if not stream.closed or stream.queue]
        return [self.own, *self.streams]

    def close(self) -> None:
        """Give back the retain of the primary context, which ends before this green context is destroyed."""
        if self.device.retained:  # else the program has released more often than it has retained
            self.device.retained -= 1


def _written(device: Device, mask: int, call: int) -> bytes:
    count = bin(mask).count("1")
    return _RESOURCE.pack(_SM, device.ordinal + 1, call, mask.to_bytes(64, "little"), count, _SMALLEST, _SMALLEST)


def _put(machine: Machine, address: int, kind: int, device: Device, mask: int) -> None:
    if kind != _SM:
        raise Refused(914, f"resource type {kind}: only multiprocessors (CU_DEV_RESOURCE_TYPE_SM, 1) can be divided")
    put_bytes(address, _written(device, mask, 0))


def _taken(machine: Machine, address: int) -> tuple[Device, int, int]:
    """Read a resource: its device, its multiprocessors, and the number of the call that made it."""
    kind, device, call, written, *_ = read(_RESOURCE, address)
    mask = int.from_bytes(written, "little")
    if kind != _SM or not device or not mask:
        raise Refused(914, "no call wrote this CUdevResource: get one with cuDeviceGetDevResource")
    return machine.device(device - 1), mask, call


def _everything(machine: Machine) -> int:
    return (1 << min(machine.answers.attributes[16], 512)) - 1


@entry("cuDeviceGetDevResource(CUdevice device, CUdevResource *resource, CUdevResourceType type)", since=12040)
def device_resource(machine: Machine, device: int, address: int, kind: int) -> None:
    """Write all multiprocessors of a device."""
    out(address)
    _put(machine, address, kind, machine.device(device), _everything(machine))


@entry("cuCtxGetDevResource(CUcontext hCtx, CUdevResource *resource, CUdevResourceType type)", since=12040)
def context_resource(machine: Machine, handle: int, address: int, kind: int) -> None:
    """Write all multiprocessors of a context's device."""
    out(address)
    _put(machine, address, kind, machine.get(Context, handle).device, _everything(machine))


@entry("cuGreenCtxGetDevResource(CUgreenCtx hCtx, CUdevResource *resource, CUdevResourceType type)", since=12040)
def green_resource(machine: Machine, handle: int, address: int, kind: int) -> None:
    """Write the multiprocessors of a green context."""
    out(address)
    green = machine.get(GreenContext, handle)
    _put(machine, address, kind, green.device, green.mask)


@entry(
    "cuDevSmResourceSplitByCount(CUdevResource *result, unsigned int *nbGroups, const CUdevResource *input, "
    "CUdevResource *remainder, unsigned int flags, unsigned int minCount)",
    since=12040,
)
def split(machine: Machine, result: int, groups: int, given: int, remaining: int, flags: int, least: int) -> None:
    """Divide multiprocessors into groups of equal size, and a remainder."""
    out(groups, given)
    device, mask, call = _taken(machine, given)
    if flags & ~3:
        raise Refused(1)
    if call:
        raise Refused(915, "a result of a split cannot be split again: make a green context of it first")
    free = [bit for bit in range(mask.bit_length()) if mask >> bit & 1]
    if least > len(free):
        raise Refused(1, f"minCount {least}: there are only {len(free)} multiprocessors")
    size = max(_SMALLEST, (least + 1) // 2 * 2)
    possible = len(free) // size
    if not result:
        put_int(groups, possible)
        return
    if not possible:
        raise Refused(915, f"a group has {size} multiprocessors, and the input only {len(free)}")
    made = min(possible, get_int(groups) & 0xFFFFFFFF)  # an unsigned int
    number = next(machine.counter)
    for index in range(made):
        bits = sum(1 << bit for bit in free[index * size : (index + 1) * size])
        put_bytes(result + index * _RESOURCE.size, _written(device, bits, number))
    put_int(groups, made)
    if remaining:
        left = sum(1 << bit for bit in free[made * size :])
        put_bytes(remaining, _written(device, left, number) if left else bytes(_RESOURCE.size))


@entry(
    "cuDevResourceGenerateDesc(CUdevResourceDesc *phDesc, CUdevResource *resources, unsigned int nbResources)",
    since=12040,
)
def describe(machine: Machine, address: int, resources: int, count: int) -> None:
    """Combine resources of one split into a descriptor, which is never freed."""
    out(address, resources)
    if not count:
        raise Refused(1)
    found = [_taken(machine, resources + index * _RESOURCE.size) for index in range(count)]
    if len({(device, call) for device, _, call in found}) != 1 or count > 1 and not found[0][2]:
        raise Refused(915, "the resources of a descriptor must come from one call of cuDevSmResourceSplitByCount")
    mask = 0
    for _, bits, _ in found:
        if mask & bits:
            raise Refused(915, "a resource is listed twice: list each resource once")
        mask |= bits
    put_word(address, machine.add(Descriptor(found[0][0], mask)).handle)


@entry("cuGreenCtxCreate(CUgreenCtx *phCtx, CUdevResourceDesc desc, CUdevice dev, unsigned int flags)", since=12040)
def create(machine: Machine, address: int, handle: int, device: int, flags: int) -> None:
    """Create a green context, which retains the primary context of its device."""
    out(address)
    descriptor, held = machine.get(Descriptor, handle), machine.device(device)
    if flags != _REQUIRED:
        raise Refused(1, f"flags {flags:#x}: must be CU_GREEN_CTX_DEFAULT_STREAM (1)")
    if descriptor.device is not held:
        raise Refused(101, f"the resources belong to device {descriptor.device.ordinal}, not to device {device}")
    if held.primary.state == 709:
        held.primary.open()
    held.primary.check()
    held.retained += 1
    green = machine.add(GreenContext(next(machine.counter), held, descriptor.mask))
    held.primary.owned[green.handle] = green
    put_word(address, green.handle)


@entry("cuGreenCtxDestroy(CUgreenCtx hCtx)", since=12040)
def destroy(machine: Machine, handle: int) -> None:
    """Destroy a green context; its streams can only be destroyed afterwards. What they capture is invalidated."""
    green = machine.get(GreenContext, handle)
    for stream in green.pending():
        machine.queues.complete(stream.last)
    green.device.finish()
    machine.get(GreenContext, handle)  # another thread may have destroyed it meanwhile
    for stream in green.pending():
        if stream.capture is not None:
            stream.capture.drop(stream)
    green.context.streams.pop(green.own.ident, None)
    green.context.owned.pop(handle, None)
    green.device.release(handle)


@entry("cuCtxFromGreenCtx(CUcontext *pContext, CUgreenCtx hCtx)", since=12040)
def from_green(machine: Machine, address: int, handle: int) -> None:
    """Write the context of a green context: here, the primary context of its device."""
    out(address)
    put_word(address, machine.get(GreenContext, handle).context.handle)


@entry("cuGreenCtxGetId(CUgreenCtx greenCtx, unsigned long long *greenCtxId)", since=12090)
def get_id(machine: Machine, handle: int, address: int) -> None:
    """Write a number that is unique among all contexts."""
    out(address)
    put_u64(address, machine.get(GreenContext, handle).ident)


@entry("cuGreenCtxStreamCreate(CUstream *phStream, CUgreenCtx greenCtx, unsigned int flags, int priority)", since=12050)
def create_stream(machine: Machine, address: int, handle: int, flags: int, priority: int) -> None:
    """Create a stream in a green context, which must be non-blocking."""
    out(address)
    green = machine.get(GreenContext, handle)
    green.context.check()
    if flags != _NON_BLOCKING:
        raise Refused(1, f"flags {flags:#x}: a stream of a green context must have CU_STREAM_NON_BLOCKING (1)")
    least, greatest = machine.answers.priorities
    stream = green.context.new_stream(flags, max(greatest, min(least, priority)))
    stream.green = green
    green.streams.append(stream)
    put_word(address, stream.handle)


@entry("cuStreamGetGreenCtx(CUstream hStream, CUgreenCtx *phCtx)", since=12040)
def of_stream(machine: Machine, handle: int, address: int) -> None:
    """Write the green context of a stream, or NULL."""
    out(address)
    green = machine.stream(handle).green
    put_word(address, green.handle if green is not None else 0)


def _refuse_captured(green: GreenContext) -> None:
    for stream in green.pending():
        if stream.capture is not None:
            stream.capture.invalidate()
            raise Refused(900, "a stream of the green context is capturing: end the capture first")


@entry("cuGreenCtxRecordEvent(CUgreenCtx hCtx, CUevent hEvent)", since=12040)
def record_event(machine: Machine, handle: int, event_handle: int) -> None:
    """Record an event after the current work of all streams of a green context."""
    green, event = machine.get(GreenContext, handle), machine.get(Event, event_handle)
    if event.context is not green.context:
        raise Refused(400, f"event {event_handle:#x} and the green context must belong to the same primary context")
    _refuse_captured(green)
    after = [stream.last for stream in green.pending() if stream.last is not None]
    event.captured = None
    event.work = machine.queues.submit(green.own, nothing, "an event's mark", after=after)


@entry("cuGreenCtxWaitEvent(CUgreenCtx hCtx, CUevent hEvent)", since=12040)
def wait_event(machine: Machine, handle: int, event_handle: int) -> None:
    """Make later work in all streams of a green context wait for an event, which may be of another context."""
    green, event = machine.get(GreenContext, handle), machine.get(Event, event_handle)
    _refuse_captured(green)
    if event.captured is not None:
        event.captured[0].invalidate()
        raise Refused(900, "this event was last recorded in a capture: record it again, outside of captures")
    if event.shared is not None:
        for stream in green.pending():
            machine.queues.submit(stream, event.shared.wait(), "a wait for a shared event")
    elif event.work is not None and not event.work.done:
        for stream in green.pending():
            machine.queues.submit(stream, nothing, "a wait for an event", after=[event.work])
