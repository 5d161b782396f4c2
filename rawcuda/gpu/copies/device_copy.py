"""Copies and fills in which a device takes part: by the driver's pitched copies where they fit, else by a kernel.

What it is   the device half of copying.py, imported when device-accessible memory is first copied.
How          a walk of no, one or two dimensions over runs of bytes is a 1-D, 2-D or 3-D copy of the driver, if its strides are
             pitches. Any other walk is a kernel's (strided_kernel.py) where the device reaches both sides; pageable memory
             is gathered or scattered by the CPU, and crosses in one piece.
Order        done on return where pageable memory takes part; else in the order of the stream, and foreign memory is retained
             until the stream has passed.
Read next    transfer.py, strided_kernel.py
"""

from __future__ import annotations

import ctypes
import sys

from ...arrays import host_copy
from ...arrays.host_copy import Walk
from ...driver import as_argument
from ...elements import layout
from ...headers import cuda_h
from ...protocols.description import HOST
from ...tracing import careful
from ..device import Device
from ..memory import Memory
from ..ordering import device_of, forget_closed, hold_back, settle, wait_between
from ..stream import Stream, handle_of, retain, work_handle
from . import transfer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ...arrays.strided import StridedView

    Ints = tuple[int, ...]

__all__ = ["copy_again", "copy_on_device", "fill_on_device", "remember"]

_KINDS = {"cpu": "host", "cuda_host": "pinned", "cuda": "device", "cuda_managed": "managed"}
_LARGEST_PITCH = 2**31 - 1  # CU_DEVICE_ATTRIBUTE_MAX_PITCH, on every device so far


def _kind(view: StridedView) -> str:
    return _KINDS[view.device[0]]


def copy_on_device(target: StridedView, source: StridedView, walk: Walk, stream: Any) -> None:
    """Copy between views of which at least one is device-accessible; `walk` is the copy between them."""
    device = device_of(target) or device_of(source)
    kinds = _kind(target), _kind(source)
    if device is None:  # pinned memory of somebody else's, and host memory
        settle(target)
        settle(source)
        host_copy.copy(walk)
        return
    handle = _ordered(device, stream, target, source)
    if set(kinds) <= {"host", "pinned"}:
        _wait(device, handle)  # what the device still does to pinned memory comes first
        host_copy.copy(walk)
    elif _on_two_devices(target, source):
        _copy_across(walk, device, Device(source.device[1] or 0), handle)
    elif walk.overlaps() and (walk.shape or walk.target != walk.source):
        _copy_aside(target, source, walk, device, handle)
    else:
        _copy_walk(walk, kinds, device, handle)
    hold_back((target, source), handle, device)
    if "host" not in kinds:
        _retain(device, handle, target, source)
        if stream is not None:
            target.stream = stream  # where its elements will be ready


# Copies between arrays of our own memory, without gaps, that were done before: (target's place, source's place, shape, strides,
# itemsize) -> the driver's function and the number of bytes. `shortcuts = False` does every copy the long way.
shortcuts = True
_plans: dict[Any, Any] = {}
_CALLS = {
    ("cuda", "cuda_host"): "cuMemcpyHtoDAsync_v2",
    ("cuda_host", "cuda"): "cuMemcpyDtoHAsync_v2",
    ("cuda", "cuda"): "cuMemcpyDtoDAsync_v2",
}


def copy_again(target: StridedView, source: StridedView, stream: Any) -> bool:
    """Copy the short way what remember() has seen, on a stream of ours, and tell whether it was done.

    Both sides are views of Memory with the stream's device, open, and ordered by no other stream: nothing waits and nothing is
    retained. Any failure is left to the long way, which does it all once more.
    calls   cuMemcpyHtoDAsync_v2, cuMemcpyDtoHAsync_v2, cuMemcpyDtoDAsync_v2
    """
    shape, strides = target.shape, target.strides
    plan = _plans.get((target._place, source._place, shape, strides, target.dtype.itemsize))
    if (
        plan is None
        or source.shape != shape
        or source.strides != strides
        or source.dtype is not target.dtype
        or type(stream) is not Stream
        or careful
    ):
        return False
    queue = stream._prepared()
    primary, to, from_ = stream._primary, target.owner, source.owner
    if (
        primary is None
        or queue is None
        or primary is not plan[2]
        or to.device._primary is not primary
        or from_.device._primary is not primary
        or target.stream is not None
        and target.stream is not stream
        or source.stream is not None
        and source.stream is not stream
    ):
        return False
    call, nbytes = plan[:2]
    at, begin = target.ptr, source.ptr  # (Closed, if it is)
    if -nbytes < at - begin < nbytes or call(at, begin, nbytes, queue):
        return False
    if _last[:] == [id(target), id(source)]:  # twice the same: likely once more
        _prepare(target, source, stream, plan)
    _last[:] = id(target), id(source)
    target.stream = stream
    return True


_last: list[int] = []


def _prepare(target: Any, source: Any, stream: Stream, plan: Any) -> None:
    """Bind a whole copy between two arrays, so that doing it again is one call of strided.copy(); closing any of the three ends that."""
    queue = stream._prepared()
    if queue is not None and all(hasattr(view, "_ready") or view.owner.trust(view) for view in (target, source)):
        arguments = as_argument(target.start), as_argument(source.start), ctypes.c_size_t.from_param(plan[1]), queue
        if not hasattr(source, "_token"):  # (no other array ever has the same, as it might have the same id)
            source._token = object()
        target._again = source._token, queue, plan[2].raw(plan[3]), arguments


def remember(target: StridedView, source: StridedView) -> None:
    """Note a copy that was done, if the next one like it may go the short way."""
    places = target._place, source._place
    kinds = (places[0].device or HOST)[0], (places[1].device or HOST)[0]
    if (
        not shortcuts
        or kinds not in _CALLS
        or not isinstance(target.owner, Memory)
        or not isinstance(source.owner, Memory)
        or not target.is_c_contiguous
        or not target.nbytes
        or places[0].readonly
        or target.strides != source.strides
    ):
        return
    if len(_plans) > 300:
        _plans.clear()
    primary = (target if kinds[0] == "cuda" else source).owner.device._primary
    call = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)(
        primary.driver.address(_CALLS[kinds])
    )
    key = (*places, target.shape, target.strides, target.dtype.itemsize)
    _plans[key] = call, target.nbytes, primary, _CALLS[kinds]


def _ordered(device: Device, stream: Any, *views: StridedView) -> int:
    """Return the stream to work on, having made it wait for the streams that the views were made for."""
    handle = work_handle(stream)
    for view in views:
        forget_closed(view)
        if view.stream is not None and view.is_device_accessible:
            theirs = handle_of(view.stream)
            if theirs > 0:
                wait_between(handle, theirs, device)
    return handle


def _retain(device: Device, handle: int, *views: StridedView) -> None:
    """Keep what is not ours until the stream has passed; our own memory waits for its work when it is closed."""
    foreign = [view.owner for view in views if not isinstance(view.owner, Memory)]
    if foreign:
        retain(device, handle, foreign)


def _copy_walk(walk: Walk, kinds: tuple[str, str], device: Device, handle: int) -> None:
    if _copy_pitched(walk, kinds, device, handle):
        return
    if "host" not in kinds:
        from .strided_kernel import run

        run(walk, device, handle)
    elif kinds == ("host", "host"):
        host_copy.copy(walk)
    elif kinds[1] == "host":
        _from_host(walk, kinds[0], device, handle)
    else:
        _to_host(walk, kinds[1], device, handle)


def _on_two_devices(target: StridedView, source: StridedView) -> bool:
    return target.device[0] == source.device[0] == "cuda" and target.device[1] != source.device[1]


def _copy_across(walk: Walk, device: Device, there: Device, handle: int) -> None:
    """Copy between two devices: packed on the one, over in one piece, spread out on the other.

    A kernel of either could reach the other's memory only where that was switched on.
    calls   cuMemcpyPeerAsync, cuStreamSynchronize, cuCtxSynchronize
    """
    size = layout.size(walk.shape) * walk.nbytes
    packed = layout.c_strides(walk.shape, walk.nbytes)
    with there.allocate(size) as first, device.allocate(size) as second:
        with there.stream() as sending:
            device.synchronize()  # streams of two devices: the plain way, for it is rare
            there.synchronize()
            _copy_walk(
                Walk(walk.nbytes, walk.shape, first.ptr, packed, walk.source, walk.source_strides),
                ("device", "device"),
                there,
                sending.handle,
            )
            sending.synchronize()
        with device.current():
            device._primary.driver.cuMemcpyPeerAsync(
                second.ptr,
                cuda_h.CUcontext(device.context),
                first.ptr,
                cuda_h.CUcontext(there.context),
                size,
                cuda_h.CUstream(handle),
            )
        _copy_walk(
            Walk(walk.nbytes, walk.shape, walk.target, walk.target_strides, second.ptr, packed),
            ("device", "device"),
            device,
            handle,
        )
        _wait(device, handle)


def _copy_pitched(walk: Walk, kinds: tuple[str, str], device: Device, handle: int) -> bool:
    """Copy by one call of the driver if the walk's strides are pitches; tell whether they were."""
    sides: dict[str, Any] = {"target_kind": kinds[0], "source_kind": kinds[1], "device": device, "stream": handle}
    if not walk.shape:
        transfer.copy_bytes(walk.target, walk.source, walk.nbytes, **sides)
        return True
    pitches = walk.target_strides[-1], walk.source_strides[-1]
    if not walk.nbytes <= min(pitches) <= max(pitches) <= _LARGEST_PITCH:
        return False
    if len(walk.shape) == 1:
        transfer.copy_2d(walk.target, pitches[0], walk.source, pitches[1], walk.nbytes, walk.shape[0], **sides)
        return True
    layers = walk.target_strides[0], walk.source_strides[0]
    rows = layers[0] // pitches[0], layers[1] // pitches[1]
    if len(walk.shape) > 2 or min(rows) < walk.shape[1] or layers != (rows[0] * pitches[0], rows[1] * pitches[1]):
        return False
    transfer.copy_3d(
        walk.target,
        pitches[0],
        rows[0],
        walk.source,
        pitches[1],
        rows[1],
        walk.nbytes,
        walk.shape[1],
        walk.shape[0],
        **sides,
    )
    return True


def _from_host(walk: Walk, kind: str, device: Device, handle: int) -> None:
    """Gather on the CPU, cross in one piece, scatter on the device."""
    packed = layout.c_strides(walk.shape, walk.nbytes)
    size = layout.size(walk.shape) * walk.nbytes
    aside = (ctypes.c_char * size)()
    host_copy.copy(Walk(walk.nbytes, walk.shape, ctypes.addressof(aside), packed, walk.source, walk.source_strides))
    if packed == walk.target_strides:
        transfer.copy_bytes(
            walk.target,
            ctypes.addressof(aside),
            size,
            target_kind=kind,
            source_kind="host",
            device=device,
            stream=handle,
        )
        return
    with device.allocate(size) as there:
        transfer.copy_bytes(
            there.ptr,
            ctypes.addressof(aside),
            size,
            target_kind="device",
            source_kind="host",
            device=device,
            stream=handle,
        )
        _copy_walk(
            Walk(walk.nbytes, walk.shape, walk.target, walk.target_strides, there.ptr, packed),
            (kind, "device"),
            device,
            handle,
        )
        _wait(device, handle)


def _to_host(walk: Walk, kind: str, device: Device, handle: int) -> None:
    """Gather on the device, cross in one piece, scatter on the CPU."""
    packed = layout.c_strides(walk.shape, walk.nbytes)
    size = layout.size(walk.shape) * walk.nbytes
    direct = packed == walk.target_strides
    aside: Any = None if direct else (ctypes.c_char * size)()
    landing = walk.target if direct else ctypes.addressof(aside)
    with device.allocate(size) as there:
        _copy_walk(
            Walk(walk.nbytes, walk.shape, there.ptr, packed, walk.source, walk.source_strides),
            ("device", kind),
            device,
            handle,
        )
        transfer.copy_bytes(
            landing, there.ptr, size, target_kind="host", source_kind="device", device=device, stream=handle
        )
    if not direct:
        host_copy.copy(Walk(walk.nbytes, walk.shape, walk.target, walk.target_strides, landing, packed))


def _copy_aside(target: StridedView, source: StridedView, walk: Walk, device: Device, handle: int) -> None:
    """Copy between sides that may share bytes: through memory of the device."""
    packed = layout.c_strides(walk.shape, walk.nbytes)
    kinds = _kind(target), _kind(source)
    with device.allocate(layout.size(walk.shape) * walk.nbytes) as there:
        _copy_walk(
            Walk(walk.nbytes, walk.shape, there.ptr, packed, walk.source, walk.source_strides),
            ("device", kinds[1]),
            device,
            handle,
        )
        _copy_walk(
            Walk(walk.nbytes, walk.shape, walk.target, walk.target_strides, there.ptr, packed),
            (kinds[0], "device"),
            device,
            handle,
        )
        _wait(device, handle)


def _wait(device: Device, handle: int) -> None:
    with device.current():
        device._primary.driver.cuStreamSynchronize(cuda_h.CUstream(handle))


def fill_on_device(target: StridedView, pattern: bytes, stream: Any) -> None:
    """Set every element of a view of device-accessible memory to these bytes."""
    device = device_of(target)
    if device is None:  # pinned memory of somebody else's
        settle(target)
        host_copy.fill(target, pattern)
        return
    handle = _ordered(device, stream, target)
    if _kind(target) == "pinned":
        _wait(device, handle)
        host_copy.fill(target, pattern)
        return
    shape, (strides,), (offset,) = layout.coalesce(target.shape, target.strides)
    _fill(target.ptr + offset, shape, strides, pattern, device, handle)
    hold_back((target,), handle, device)
    if stream is not None:
        target.stream = stream
    _retain(device, handle, target)


def _fill(address: int, shape: Ints, strides: Ints, pattern: bytes, device: Device, handle: int) -> None:
    """Fill by the driver's own fills where the layout is rows of elements they know, else by a copy of one element."""
    if shape and strides[-1] == len(pattern):
        run, shape, strides = shape[-1], shape[:-1], strides[:-1]
    else:
        run = 1
    whole = len(pattern)
    pattern = _shortest(pattern)
    width, columns = len(pattern), run * (whole // len(pattern))
    value = int.from_bytes(pattern, sys.byteorder)
    even = width in (1, 2, 4) and not any(number % width for number in (address, *strides))
    if even and not shape:
        transfer.fill_bytes(address, value, width, columns, device=device, stream=handle)
    elif even and len(shape) == 1 and width * columns <= strides[0] <= _LARGEST_PITCH:
        transfer.fill_2d(address, strides[0], value, width, columns, shape[0], device=device, stream=handle)
    else:
        _fill_by_copy(
            Walk(whole, (*shape, run), address, (*strides, whole), 0, (0,) * (len(shape) + 1)),
            pattern * (whole // width),
            device,
            handle,
        )


def _shortest(pattern: bytes) -> bytes:
    """Return the shortest pattern of 1, 2 or 4 bytes that repeated gives this one, or the pattern itself."""
    for width in (1, 2, 4):
        if len(pattern) % width == 0 and pattern == pattern[:width] * (len(pattern) // width):
            return pattern[:width]
    return pattern


def _fill_by_copy(walk: Walk, pattern: bytes, device: Device, handle: int) -> None:
    from .strided_kernel import run

    source = ctypes.create_string_buffer(pattern, len(pattern))
    with device.allocate(len(pattern)) as one:
        transfer.copy_bytes(
            one.ptr,
            ctypes.addressof(source),
            len(pattern),
            target_kind="device",
            source_kind="host",
            device=device,
            stream=handle,
        )
        walk.source = one.ptr
        run(walk, device, handle)
        _wait(device, handle)
