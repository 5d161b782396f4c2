"""Copies and fills that involve a device: by the driver's pitched copies where possible, otherwise by a kernel.

What it is   the device part of arrays/copying.py, imported when device-accessible memory is first copied.
How          A walk of zero, one or two dimensions over runs of bytes is a 1-D, 2-D or 3-D copy of the driver, if its
             strides are pitches. Any other walk is copied by a kernel (strided_kernel.py) if the device can access both
             sides. Pageable memory is gathered or scattered by the CPU, and transferred as one contiguous block.
Order        If pageable memory takes part, the copy is complete on return; otherwise it is in the order of the stream,
             and foreign memory is retained until the stream has completed the copy.
Read next    transfer.py, strided_kernel.py
"""

from __future__ import annotations

import ctypes
import sys

from ...arrays import host_copy
from ...arrays.host_copy import Walk
from ...elements import layout
from ...headers import cuda_h
from ..context import PrimaryContext, context_of
from ..memory import Memory, allocate
from ..ordering import device_of, forget_closed, hold_back, settle, wait_between
from ..queue import calls_on, handle_of, work_handle
from ..retention import retain
from ..stream import Stream
from . import transfer
from .strided_kernel import run as run_kernel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ...arrays.strided import StridedView

    Ints = tuple[int, ...]

__all__ = ["copy_on_device", "fill_on_device", "ordered"]

_KINDS = {"cpu": "host", "cuda_host": "pinned", "cuda": "device", "cuda_managed": "managed"}
_LARGEST_PITCH = 2**31 - 1  # CU_DEVICE_ATTRIBUTE_MAX_PITCH of all devices so far


def _kind(view: StridedView) -> str:
    return _KINDS[view.device[0]]


def copy_on_device(target: StridedView, source: StridedView, walk: Walk, stream: Any) -> None:
    """Do the copy `walk` between two views, at least one of which is device-accessible."""
    device = device_of(target) or device_of(source)
    kinds = _kind(target), _kind(source)
    if device is None:  # pinned memory that is not ours, and host memory
        settle(target)
        settle(source)
        host_copy.copy(walk)
        return
    handle = ordered(device, stream, target, source)
    if set(kinds) <= {"host", "pinned"}:
        _wait(device, handle)  # what the device still does to pinned memory comes first
        host_copy.copy(walk)
    elif _on_two_devices(target, source):
        _copy_across(walk, device, context_of(source.device[1] or 0), handle)
    elif walk.overlaps() and (walk.shape or walk.target != walk.source):
        _copy_aside(target, source, walk, device, handle)
    else:
        _copy_walk(walk, kinds, device, handle)
    hold_back((target, source), handle, device)
    if "host" not in kinds:
        _retain(device, handle, target, source)
        target.stream = stream  # its elements will be ready in this stream's order


def ordered(device: PrimaryContext, stream: Any, *views: StridedView) -> int:
    """Return the handle of the stream to use, after making it wait for the streams of the views."""
    handle = work_handle(stream)
    for view in views:
        forget_closed(view)
        if view.stream is not None and view.is_device_accessible:
            theirs = handle_of(view.stream)
            if theirs > 0:
                wait_between(handle, theirs, device)
    return handle


def _retain(device: PrimaryContext, handle: int, *views: StridedView) -> None:
    """Keep foreign memory until the stream has completed its work; closing our own memory waits for that anyway."""
    foreign = [view.owner for view in views if not isinstance(view.owner, Memory)]
    if foreign:
        retain(device, handle, foreign)


def _copy_walk(walk: Walk, kinds: tuple[str, str], device: PrimaryContext, handle: int) -> None:
    if _copy_pitched(walk, kinds, device, handle):
        return
    if "host" not in kinds:
        run_kernel(walk, device, handle)
    elif kinds == ("host", "host"):
        host_copy.copy(walk)
    elif kinds[1] == "host":
        _from_host(walk, kinds[0], device, handle)
    else:
        _to_host(walk, kinds[1], device, handle)


def _on_two_devices(target: StridedView, source: StridedView) -> bool:
    return target.device[0] == source.device[0] == "cuda" and target.device[1] != source.device[1]


def _copy_across(walk: Walk, device: PrimaryContext, there: PrimaryContext, handle: int) -> None:
    """Copy between two devices: pack on the source device, transfer one block, unpack on the target device.

    A kernel could access the other device's memory only if peer access is enabled.
    calls   cuMemcpyPeerAsync, cuStreamSynchronize, cuCtxSynchronize
    """
    size = layout.size(walk.shape) * walk.nbytes
    packed = layout.c_strides(walk.shape, walk.nbytes)
    there.open()

    with allocate(there, size) as first, allocate(device, size) as second, _stream(there) as sending:
        device.inside.cuCtxSynchronize()  # order the streams of both devices by waiting: this copy is rare
        there.inside.cuCtxSynchronize()
        _copy_walk(
            Walk(walk.nbytes, walk.shape, first.ptr, packed, walk.source, walk.source_strides),
            ("device", "device"),
            there,
            sending.handle,
        )
        sending.synchronize()
        with device.current():
            device.driver.cuMemcpyPeerAsync(
                second.ptr,
                cuda_h.CUcontext(device.handle),
                first.ptr,
                cuda_h.CUcontext(there.handle),
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


def _stream(primary: Any) -> Stream:
    return Stream(primary)


def _copy_pitched(walk: Walk, kinds: tuple[str, str], device: PrimaryContext, handle: int) -> bool:
    """Copy by one call of the driver if the walk's strides are pitches, and tell whether they are."""
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


def _from_host(walk: Walk, kind: str, device: PrimaryContext, handle: int) -> None:
    """Gather on the CPU, transfer one block, scatter on the device."""
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
    with allocate(device, size) as there:
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


def _to_host(walk: Walk, kind: str, device: PrimaryContext, handle: int) -> None:
    """Gather on the device, transfer one block, scatter on the CPU."""
    packed = layout.c_strides(walk.shape, walk.nbytes)
    size = layout.size(walk.shape) * walk.nbytes
    direct = packed == walk.target_strides
    aside: Any = None if direct else (ctypes.c_char * size)()
    landing = walk.target if direct else ctypes.addressof(aside)
    with allocate(device, size) as there:
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


def _copy_aside(target: StridedView, source: StridedView, walk: Walk, device: PrimaryContext, handle: int) -> None:
    """Copy between sides that may overlap, through a temporary buffer on the device."""
    packed = layout.c_strides(walk.shape, walk.nbytes)
    kinds = _kind(target), _kind(source)
    with allocate(device, layout.size(walk.shape) * walk.nbytes) as there:
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


def _wait(device: PrimaryContext, handle: int) -> None:
    calls, queue = calls_on(handle, device)
    calls.cuStreamSynchronize(queue)


def fill_on_device(target: StridedView, pattern: bytes, stream: Any) -> None:
    """Set every element of a view of device-accessible memory to these bytes."""
    device = device_of(target)
    if device is None:  # pinned memory that is not ours
        settle(target)
        host_copy.fill(target, pattern)
        return
    handle = ordered(device, stream, target)
    if _kind(target) == "pinned":
        _wait(device, handle)
        host_copy.fill(target, pattern)
        return
    shape, (strides,), (offset,) = layout.coalesce(target.shape, target.strides)
    _fill(target.ptr + offset, shape, strides, pattern, device, handle)
    hold_back((target,), handle, device)
    target.stream = stream
    _retain(device, handle, target)


def _fill(address: int, shape: Ints, strides: Ints, pattern: bytes, device: PrimaryContext, handle: int) -> None:
    """Fill by the driver's fill functions if they support the layout, otherwise by copying one element to all."""
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
    """Return the shortest pattern of 1, 2 or 4 bytes whose repetition is this one, or else the pattern itself."""
    for width in (1, 2, 4):
        if len(pattern) % width == 0 and pattern == pattern[:width] * (len(pattern) // width):
            return pattern[:width]
    return pattern


def _fill_by_copy(walk: Walk, pattern: bytes, device: PrimaryContext, handle: int) -> None:
    source = ctypes.create_string_buffer(pattern, len(pattern))
    with allocate(device, len(pattern)) as one:
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
        run_kernel(walk, device, handle)
        _wait(device, handle)
