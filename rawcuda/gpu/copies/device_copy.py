"""Copies and fills on a device that are not one run of bytes: by pitched copies where possible, otherwise by a kernel.

What it is   the device part of arrays/copying.py, except for what contiguous.py does; imported when it is first needed.
How          A walk of zero, one or two dimensions over runs of bytes is a 1-D, 2-D or 3-D copy of the driver, if its
             strides are pitches. Any other walk is copied by a kernel (strided_kernel.py) if the device can access both
             sides. Pageable memory is gathered or scattered by the CPU, and transferred as one contiguous block.
Order        If pageable memory takes part, the copy is complete on return; otherwise it is in the order of the stream,
             and foreign memory is retained until the stream has completed the copy.
Read next    transfer.py, strided_kernel.py
"""

from __future__ import annotations

import ctypes
from itertools import product
from operator import mul
from sys import byteorder

from ...arrays import host_copy
from ...arrays.host_copy import LARGEST_PITCH, Walk, box_of
from ...driver import as_argument
from ...elements import layout
from ...errors import CudaError
from ..core.context import PrimaryContext, pool_access
from ..core.stream_arguments import LEGACY, PER_THREAD, home_of, queue_of, settled, work_handle
from ..memory.memory import allocate
from ..memory.ordering import (
    PAGEABLE,
    end_work,
    finish_given,
    follow_default,
    hold_back_default,
    keep,
    make_ready,
    note,
    refuse_capture,
    uncaptured,
)
from ..streams.stream import Stream
from . import transfer
from .contiguous import FILLS_OF_ROWS
from .peer_copy import copy_across
from .strided_kernel import launch_of as strided_launch
from .strided_kernel import run as run_kernel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ...arrays.copying import Side

    Ints = tuple[int, ...]

__all__ = ["constant_walk", "copy_on_device", "fill_on_device", "strided_launch"]


def copy_on_device(target: Any, source: Any, to: Side, of: Side, walk: Walk, stream: Any) -> None:
    """Do the copy `walk` between two views or Memories, at least one of which is device-accessible.

    to, of   the Sides of target and source
    """
    if stream is None:
        stream = LEGACY
    stream = settled(stream)
    handle, device = work_handle(stream), _worker(to, of, stream)
    if device is None:  # pinned memory that is not ours, and host memory
        finish_given(stream, target, source)
        host_copy.copy(walk)
        return
    home = home_of(stream, device)
    homes = {side.primary for side in (to, of) if side.primary is not None}
    if homes == {home}:
        _do_copy(target, source, to, of, walk, stream, device, handle)
        return
    try:  # close() of memory does not wait for a stream of another device, so the memory is kept after any exception
        if device is to.primary:
            other = of.primary
        else:
            other = to.primary
        follow_default(device, handle, other)
        _do_copy(target, source, to, of, walk, stream, device, handle)
        hold_back_default(device, handle, other)
    except BaseException as error:
        end_work(error, home, queue_of(handle), target, source)
        raise


def _worker(to: Side, of: Side, stream: Any) -> PrimaryContext | None:
    """Return the context of the device that copies: that of device memory, otherwise that of the stream."""
    if to.kind == "device" or of.kind == "device":
        device: PrimaryContext | None
        if to.kind == "device":
            device = to.primary
        else:
            device = of.primary
        return device
    device = to.primary or of.primary
    if device is None:
        return None
    if work_handle(stream) <= PER_THREAD and to.kind in _HOST_KINDS and of.kind not in _HOST_KINDS:
        device = of.primary  # work that writes the source may still be pending in a default stream of its device
    if device is None:
        return device
    return home_of(stream, device)


def _do_copy(
    target: Any,
    source: Any,
    to: Side,
    of: Side,
    walk: Walk,
    stream: Any,
    device: PrimaryContext,
    handle: int,
) -> None:
    device.open()
    pair = target, source, to, of, walk, stream, device, handle
    if "host" in (to.kind, of.kind):
        uncaptured(device, stream, PAGEABLE, _copy_pair, *pair)
    else:
        _copy_pair(*pair)


def _copy_pair(
    target: Any,
    source: Any,
    to: Side,
    of: Side,
    walk: Walk,
    stream: Any,
    device: PrimaryContext,
    handle: int,
) -> None:
    kinds = to.kind, of.kind
    before, theirs = target.stream, source.stream
    make_ready(device, stream, target)
    if theirs is not before or to.primary is not of.primary:
        make_ready(device, stream, source)
    target.ptr, source.ptr  # raises Closed: the code of a stream may have closed memory
    if "host" not in kinds:
        note(target, stream)  # before the calls: an interrupt may end them
    try:
        if to.kind in _HOST_KINDS and of.kind in _HOST_KINDS:
            refuse_capture(device, stream, "the CPU copies between layouts of pinned memory: use device memory")
            _wait(device, stream)  # first complete the work of the device on pinned memory
            host_copy.copy(walk)
        elif kinds == ("device", "device") and to.primary is not of.primary:
            copy_across(walk, device, of.primary, stream)
        elif walk.overlaps() and (walk.shape or walk.target != walk.source):
            refuse_capture(device, stream, "overlapping sides need temporary memory: copy to another array first")
            _copy_aside(walk, kinds, device, stream)
        else:
            _copy_walk(walk, kinds, device, stream)
        if "host" not in kinds:
            keep(device, stream, target, to)
            keep(device, stream, source, of)
    except BaseException as error:
        if not to.waits or not of.waits or isinstance(error, CudaError):
            end_work(error, device, queue_of(handle), target, source)
            target.stream = before
        raise


_HOST_KINDS = ("host", "pinned")


def _copy_walk(walk: Walk, kinds: tuple[str, str], device: PrimaryContext, stream: Any) -> None:
    if _copy_pitched(walk, kinds, device, stream):
        return
    target, source = kinds
    if "host" not in kinds:
        target, source = _seen(target, walk.target, device, 3), _seen(source, walk.source, device, 1)
        if "host" in (target, source):
            refuse_capture(device, stream, "the CPU copies page-locked memory whose pool gives the device no access")
            _wait(device, stream)  # first complete the work on that memory
    kinds = target, source
    if "host" not in kinds:
        run_kernel(walk, device, stream)
    elif kinds == ("host", "host"):
        host_copy.copy(walk)
    elif kinds[1] == "host":
        _from_host(walk, kinds[0], device, stream)
    else:
        _to_host(walk, kinds[1], device, stream)


def _seen(kind: str, address: int, device: PrimaryContext, needed: int) -> str:
    """Return the kind of memory as a kernel of a device sees it: "host" if it is of a pool that forbids its use.

    needed  the access: 1 to read, 3 to write
    """
    if kind == "device":
        return kind
    given = pool_access(device.ordinal, address)
    return kind if given is None or given >= needed else "host"


def _copy_pitched(walk: Walk, kinds: tuple[str, str], device: PrimaryContext, stream: Any) -> bool:
    """Copy by one call of the driver if the walk's strides are pitches, and tell whether they are."""
    sides: dict[str, Any] = {"target_kind": kinds[0], "source_kind": kinds[1], "device": device, "stream": stream}
    if not walk.shape:
        transfer.copy_bytes(walk.target, walk.source, walk.nbytes, **sides)
        return True
    box = box_of(walk)
    if box is None:
        return False
    (pitch, rows), (source_pitch, source_rows), height, depth = box
    if len(walk.shape) == 1:
        transfer.copy_2d(walk.target, pitch, walk.source, source_pitch, walk.nbytes, height, **sides)
    else:
        transfer.copy_3d(
            walk.target, pitch, rows, walk.source, source_pitch, source_rows, walk.nbytes, height, depth, **sides
        )
    return True


def _from_host(walk: Walk, kind: str, device: PrimaryContext, stream: Any) -> None:
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
            stream=stream,
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
            stream=stream,
        )
        _copy_walk(
            Walk(walk.nbytes, walk.shape, walk.target, walk.target_strides, there.ptr, packed),
            (kind, "device"),
            device,
            stream,
        )
        _wait(device, stream)


def _to_host(walk: Walk, kind: str, device: PrimaryContext, stream: Any) -> None:
    """Gather on the device, transfer one block, scatter on the CPU."""
    packed = layout.c_strides(walk.shape, walk.nbytes)
    size = layout.size(walk.shape) * walk.nbytes
    direct = packed == walk.target_strides
    aside: Any
    if direct:
        aside = None
    else:
        aside = (ctypes.c_char * size)()
    if direct:
        landing = walk.target
    else:
        landing = ctypes.addressof(aside)
    with allocate(device, size) as there:
        _copy_walk(
            Walk(walk.nbytes, walk.shape, there.ptr, packed, walk.source, walk.source_strides),
            ("device", kind),
            device,
            stream,
        )
        transfer.copy_bytes(
            landing, there.ptr, size, target_kind="host", source_kind="device", device=device, stream=stream
        )
    if not direct:
        host_copy.copy(Walk(walk.nbytes, walk.shape, walk.target, walk.target_strides, landing, packed))


def _copy_aside(walk: Walk, kinds: tuple[str, str], device: PrimaryContext, stream: Any) -> None:
    """Copy between sides that may overlap, through a temporary buffer on the device."""
    packed = layout.c_strides(walk.shape, walk.nbytes)
    with allocate(device, layout.size(walk.shape) * walk.nbytes) as there:
        _copy_walk(
            Walk(walk.nbytes, walk.shape, there.ptr, packed, walk.source, walk.source_strides),
            ("device", kinds[1]),
            device,
            stream,
        )
        _copy_walk(
            Walk(walk.nbytes, walk.shape, walk.target, walk.target_strides, there.ptr, packed),
            (kinds[0], "device"),
            device,
            stream,
        )
        _wait(device, stream)


def _wait(device: PrimaryContext, stream: Any) -> None:
    calls, queue = device.calls, queue_of(stream)
    calls.cuStreamSynchronize(queue)


def fill_on_device(target: Any, to: Side, pattern: bytes, stream: Any) -> None:
    """Set every element of a view of device-accessible memory to bytes that no fill of the driver can repeat.

    order   in the order of the stream if few calls fill the words of the elements; otherwise, one element is copied to
            all the others: this is complete on return, and cannot be captured
    """
    form, device = to.form, to.primary
    address = to.address + form.offset
    device.open()
    if stream is None:
        stream = LEGACY
    stream = settled(stream)
    handle, before = work_handle(stream), target.stream
    make_ready(device, stream, target)
    target.ptr  # raises Closed, as in _do_copy
    note(target, stream)  # as in _copy_pair
    shape, strides = form.shape or (1,), form.strides or (0,)
    try:
        why_not = _fill_by_words(shape, strides, address, pattern, device, stream)
        if why_not:
            refuse_capture(device, stream, why_not)
            _fill_by_copy(Walk(len(pattern), shape, address, strides, 0, (0,) * len(shape)), pattern, device, stream)
        keep(device, stream, target, to)
    except BaseException as error:  # the bytes of the element are in pageable memory
        end_work(error, device, queue_of(handle), target)
        target.stream = before
        raise


def _fill_by_words(
    shape: Ints, strides: Ints, address: int, pattern: bytes, device: PrimaryContext, stream: Any
) -> str:
    """Fill with a call for each word of an element and each row of elements; return "", or why that is not possible.

    calls   cuMemsetD2D8Async, cuMemsetD2D16Async, cuMemsetD2D32Async
    """
    size, columns = len(pattern), shape[-1]
    if columns > 1:
        pitch = strides[-1]
    else:
        pitch = size
    width = next(n for n in (4, 2, 1) if not any(number % n for number in (size, address, pitch, *strides)))
    if home_of(stream, device) is not device:
        return (
            "a captured fill is done by a stream of the device of the memory: give a stream of device "
            f"{device.ordinal} that waits for the captured one, and let that wait for it afterwards"
        )
    if not size <= pitch <= LARGEST_PITCH:
        return f"a captured fill takes no elements that are {pitch} bytes apart: add it with graph.fill()"
    if size // width * layout.size(shape[:-1]) > _MOST_CALLS:
        return (
            f"a captured fill takes at most {_MOST_CALLS} calls; this one, of {layout.size(shape)} separate elements "
            f"of {size} bytes, needs more: add it with graph.fill()"
        )
    calls, queue = device.calls, queue_of(stream)
    fill = getattr(calls, FILLS_OF_ROWS[width])
    for row in product(*map(range, shape[:-1])):
        first = address + sum(map(mul, row, strides))
        for at in range(0, size, width):
            word = int.from_bytes(pattern[at : at + width], byteorder)
            fill(*map(as_argument, (first + at, pitch, word, 1, columns)), queue)
    return ""


_MOST_CALLS = 64


def _fill_by_copy(walk: Walk, pattern: bytes, device: PrimaryContext, stream: Any) -> None:
    with _uploaded(pattern, device, stream) as one:
        walk.source = one.ptr
        run_kernel(walk, device, stream)
        _wait(device, stream)


def constant_walk(form: Any, address: int, pattern: bytes, device: PrimaryContext) -> tuple[Walk, Any]:
    """Return the copy that sets every element of a layout to these bytes, and the memory that contains them."""
    aside: Any = device
    with Stream(aside) as aside:  # (another thread may capture a stream that waits for the default one)
        one = _uploaded(pattern, device, aside)
    shape, strides = form.shape or (1,), form.strides or (0,)
    return Walk(len(pattern), shape, address + form.offset, strides, one.ptr, (0,) * len(shape)), one


def _uploaded(pattern: bytes, device: PrimaryContext, stream: Any) -> Any:
    """Return new memory with these bytes."""
    source = ctypes.create_string_buffer(pattern, len(pattern))
    one = allocate(device, len(pattern))
    transfer.copy_bytes(
        one.ptr,
        ctypes.addressof(source),
        len(pattern),
        target_kind="device",
        source_kind="host",
        device=device,
        stream=stream,
    )
    return one
