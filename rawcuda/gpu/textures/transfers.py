"""Copies between CUDA arrays and any memory, and between CUDA arrays.

What it is   `Box`, part of an array; `store`, `load` and `move`, which copy into one, out of one, and between two.
How          Each copy is one cuMemcpy3DAsync. The rows of the memory side must have one pitch, and its slices one
             distance. Memory of any other layout is copied through a temporary array in C order; so are parts of two
             CUDA arrays that differ in x, y or z: a row and a column, layers and rows.
Order        If pageable memory takes part, the copy is complete on return; otherwise it is in the order of the stream,
             and the array and memory of other libraries are kept alive until it is complete. With a temporary array,
             the CPU waits for the copy between it and the CUDA array.
Source       CUDA Driver API, cuMemcpy3DAsync
Read next    opaque_arrays.py
"""

from __future__ import annotations

import ctypes

from ...arrays import copying, making
from ...arrays.host_copy import LARGEST_PITCH
from ...arrays.strided import StridedView, view
from ...elements import layout
from ...errors import refusal, worded
from ...headers import cuda_h
from ...ownership import drain
from ...protocols.description import Bytes
from ..core.points import retain, sweep
from ..core.stream_arguments import (
    LEGACY,
    PER_THREAD,
    home_of,
    queue_of,
    record_and_wait,
    release_of,
    settled,
    work_handle,
)
from ..memory.ordering import (
    PAGEABLE,
    end_work,
    follow_default,
    hold_back_default,
    keep,
    make_ready,
    note,
    refuse_capture,
    uncaptured,
)
from ..streams.stream import Stream
from .formats import data_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ...arrays.copying import Side
    from ..core.context import PrimaryContext
    from .opaque_arrays import OpaqueArray

    Ints = tuple[int, ...]

__all__ = ["Box", "load", "move", "store"]

_HOST, _DEVICE, _ARRAY = 1, 2, 3  # CUmemorytype


class Box:
    """Part of an array: its first element and its number of elements in each dimension of the array.

    kept   for each dimension, whether the shape contains it; a dimension that was indexed by an int is not in the shape
    """

    __slots__ = ("array", "start", "counts", "kept")

    def __init__(self, array: OpaqueArray, start: Ints, counts: Ints, kept: tuple[bool, ...]) -> None:
        self.array, self.start, self.counts, self.kept = array, start, counts, kept

    @property
    def shape(self) -> Ints:
        """Return the shape of a view of this part, without the channels."""
        return tuple([count for count, kept in zip(self.counts, self.kept) if kept])

    def ordered(self, values: Ints, missing: int) -> tuple[int, int, int]:
        """Return a value for each of x, y and z."""
        if len(values) == 2 and self.array.form.is_layered:
            return values[1], missing, values[0]
        x, y, z = (*values[::-1], missing, missing)[:3]
        return x, y, z

    def extent(self) -> tuple[int, int, int]:
        """Return the number of elements in each of x, y and z."""
        return self.ordered(self.counts, 1)


class _Rows:
    """Memory as rows: the address of the first row, the pitch, and the number of rows from one slice to the next."""

    __slots__ = ("address", "pitch", "height", "on_host")

    def __init__(self, address: int, pitch: int, height: int, on_host: bool) -> None:
        self.address, self.pitch, self.height, self.on_host = address, pitch, height, on_host


def _rows_of(data: StridedView, box: Box, on_host: bool) -> _Rows | None:
    """Return memory as rows, or None if it has another layout."""
    form = box.array.form
    strides, element = list(data.strides), form.itemsize
    if form.channels > 1 and strides.pop() != form.dtype.itemsize:
        return None
    remaining = iter(strides)
    full = [next(remaining) if kept else 0 for kept in box.kept]  # a dimension that an int removed has one element
    x, y, z = box.ordered(tuple(full), 0)
    width, height, depth = box.extent()
    row = width * element
    if 0 in (width, height, depth):
        return _Rows(data.ptr, row, height, on_host)
    if width > 1 and x != element:
        return None
    if height > 1:
        pitch = y
    elif depth > 1:
        pitch = z
    else:
        pitch = row
    if not row <= pitch <= LARGEST_PITCH:
        return None
    if depth == 1 or height == 1:
        return _Rows(data.ptr, pitch, height, on_host)
    if z < pitch * height or z % pitch:
        return None
    return _Rows(data.ptr, pitch, z // pitch, on_host)


def _wanted(box: Box) -> Ints:
    form = box.array.form
    if form.channels > 1:
        return (*box.shape, form.channels)
    return box.shape


def _seen(thing: object, box: Box, stream: object) -> tuple[Any, StridedView]:
    """Return the user's object as a view or a Memory, and its elements in the shape of a box."""
    form, wanted = box.array.form, _wanted(box)
    if isinstance(thing, Bytes):
        whole = making.over_memory(thing, form.dtype)  # type: ignore[arg-type]
        if whole.size != layout.size(wanted):
            raise ValueError(
                f"{whole.nbytes} bytes cannot hold {layout.size(wanted) * form.dtype.itemsize}: with a Memory all "
                "bytes are copied; use a part of memory.view()"
            )
        return thing, whole.reshape(wanted)
    if isinstance(thing, StridedView):
        made = thing
    else:
        made = view(thing, stream=stream)
    data = data_of(made, form.dtype, form.channels)
    if form.channels == 1 and data.shape == (*wanted, 1):
        data = data.squeeze(len(wanted))
    return made, data


def _begin(box: Box, stream: object) -> tuple[int, PrimaryContext]:
    """Return the handle of a stream, and the context of an array; both must be on one device."""
    handle, primary = work_handle(stream), box.array._open()
    if home_of(stream, primary) is not primary:
        raise ValueError(f"the stream {worded(stream)} is not on device {primary.ordinal}, where {box.array!r} is")
    return handle, primary


def _ends(box: Box, data: StridedView, stream: object) -> tuple[int, PrimaryContext, Side, _Rows | None]:
    """Return both ends of a copy: handle and context of the array; side and rows, None if it needs a temporary array.

    raises  InvalidUse  the stream is being captured, and the copy must be waited for
    """
    handle, primary = _begin(box, stream)
    side = copying.examine(data)
    copying._check_usable(side, data)
    if side.kind == "device" and side.primary is not primary:
        rows = None
    else:
        rows = _rows_of(data, box, side.kind in _HOST_KINDS)
    if rows is None:
        _refuse_capture(_TEMPORARY, stream, handle, primary, side.primary)
    return handle, primary, side, rows


_TEMPORARY = "this copy needs temporary memory: copy between the CUDA array and rows on its device"


def _refuse_capture(
    why: str, stream: object, handle: int, primary: PrimaryContext, other: PrimaryContext | None
) -> None:
    """Refuse a copy of two contexts if the stream is being captured; a default stream is that of each of them."""
    refuse_capture(primary, stream, why)
    if other is not None and other is not primary and handle <= PER_THREAD:
        refuse_capture(other, stream, why)


def store(box: Box, source: object, stream: object) -> None:
    """Copy an exporter's elements into part of an array; they are broadcast to its shape.

    calls   cuMemcpy3DAsync_v2, cuStreamSynchronize
    raises  TypeError   another dtype
            ValueError  a shape that cannot be broadcast
    """
    stream = settled(stream)
    thing, data = _seen(copying.readable(source, stream), box, stream)
    wanted = _wanted(box)
    if data.shape != wanted:
        try:
            data = data.broadcast_to(wanted)
        except ValueError:
            raise ValueError(f"could not broadcast source of shape {data.shape} into shape {wanted}") from None
    handle, primary, side, rows = _ends(box, data, stream)
    if rows is None:
        aside = _aside(box, side)
        if side.primary is not None:
            follow_default(side.primary, handle, primary)  # the CPU may copy, on a stream of the memory's device alone
        copying.copy(aside, data, stream=stream)
        rows = _rows_of(aside, box, side.kind in _HOST_KINDS)
        assert rows is not None
        _run(box, rows, "dst", stream, handle, primary, aside, None)
    else:
        _run(box, rows, "dst", stream, handle, primary, thing, side)


def load(box: Box, target: object, stream: object) -> None:
    """Copy part of an array into an exporter's memory.

    calls   cuMemcpy3DAsync_v2, cuStreamSynchronize
    raises  TypeError      another dtype
            ValueError     another shape, or a target whose elements overlap
            ProtocolError  the target is read-only
    """
    stream = settled(stream)
    thing, data = _seen(target, box, stream)
    wanted = _wanted(box)
    if data.shape != wanted:
        raise ValueError(f"the target has shape {data.shape}, and the elements to copy have {wanted}: reshape() one")
    if data.readonly:
        raise refusal(data.protocol, "readonly", True, "the memory must not be written to; copy into another array")
    handle, primary, side, rows = _ends(box, data, stream)
    if rows is None:
        aside = _aside(box, side)
        inner = _rows_of(aside, box, side.kind in _HOST_KINDS)
        assert inner is not None
        _run(box, inner, "src", stream, handle, primary, aside, None)
        if side.kind != "host":
            make_ready(primary, stream, thing)
            note(thing, LEGACY if stream is None else stream)  # as in _submit(); the copy notes that in `data`
        copying.copy(data, aside, stream=stream)
    else:
        _run(box, rows, "src", stream, handle, primary, thing, side)


_HOST_KINDS = ("host", "pinned")


def move(target: Box, source: Box, stream: object) -> None:
    """Copy part of an array into part of another, or of the same, which must not overlap.

    calls   cuMemcpy3DAsync_v2, cuStreamSynchronize
    raises  TypeError   another dtype or number of channels
            ValueError  another shape, or parts of one array that overlap
    """
    to, of = target.array.form, source.array.form
    if to.dtype is not of.dtype or to.channels != of.channels:
        raise TypeError(f"a copy converts nothing: the target is of {to.describe()}, the source of {of.describe()}")
    if target.shape != source.shape:
        raise ValueError(
            f"the target has shape {target.shape}, the source {source.shape}: give parts of the same shape"
        )
    if target.array.handle == source.array.handle and all(
        a < b + count and b < a + other
        for a, b, count, other in zip(target.start, source.start, source.counts, target.counts)
    ):
        raise ValueError("the two parts of the array overlap: copy through another array")
    stream = settled(stream)
    (handle, primary), there = _begin(target, stream), source.array._open()
    if primary is not there or target.extent() != source.extent():
        why = "this copy needs temporary memory: copy between parts of the same extents"
        _refuse_capture(why, stream, handle, primary, there)
        aside = making.empty(source.array.device, _wanted(source), of.dtype)
        if primary is there or handle <= PER_THREAD:  # a default stream is that of each device
            follow_default(there, handle, primary)
            load(source, aside, stream)
            store(target, aside, stream)
        else:  # the stream cannot read the source, but may have been made to wait for what writes it
            device: Any = there
            with Stream(device) as sending:
                record_and_wait(there, stream, sending)
                load(source, aside, sending)
                store(target, aside, stream)
        return
    description = cuda_h.CUDA_MEMCPY3D()
    _describe_array(description, "src", source)
    _describe_array(description, "dst", target)
    _submit(description, target, stream, handle, primary, target.array, (target.array, source.array))


def _aside(box: Box, side: Side) -> StridedView:
    """Make a temporary array in C order, in host memory or on the array's device."""
    if side.kind in _HOST_KINDS:
        return StridedView._plain_kind._empty_host(_wanted(box), box.array.form.dtype)
    return making.empty(box.array.device, _wanted(box), box.array.form.dtype)


def _describe_array(description: object, side: str, box: Box) -> None:
    x, y, z = box.ordered(box.start, 0)
    setattr(description, f"{side}MemoryType", _ARRAY)
    setattr(description, f"{side}Array", cuda_h.CUarray(box.array.handle))
    setattr(description, f"{side}XInBytes", x * box.array.form.itemsize)
    setattr(description, f"{side}Y", y)
    setattr(description, f"{side}Z", z)


def _run(
    box: Box,
    rows: _Rows,
    end: str,
    stream: object,
    handle: int,
    primary: PrimaryContext,
    thing: object,
    side: Side | None,
) -> None:
    """Copy between a box, at the given end, and rows; wait if the rows are pageable or temporary, else keep them.

    thing, side  whose rows these are; no side: they are temporary
    """
    description = cuda_h.CUDA_MEMCPY3D()
    _describe_array(description, end, box)
    other = "src" if end == "dst" else "dst"
    setattr(description, f"{other}MemoryType", _HOST if rows.on_host else _DEVICE)
    setattr(description, f"{other}Host" if rows.on_host else f"{other}Device", rows.address)
    setattr(description, f"{other}Pitch", rows.pitch)
    setattr(description, f"{other}Height", rows.height)
    if end == "dst":
        written: Any = box.array
    else:
        written = thing
    arguments = description, box, stream, handle, primary, written, (box.array,), thing, side
    if side is None or side.kind == "host":  # it is waited for
        uncaptured(primary, stream, _TEMPORARY if side is None else PAGEABLE, _submit, *arguments)
    else:
        _submit(*arguments)


def _submit(
    description: Any,
    box: Box,
    stream: object,
    handle: int,
    primary: PrimaryContext,
    written: Any,
    arrays: tuple[OpaqueArray, ...],
    thing: Any = None,
    side: Side | None = None,
) -> None:
    """Copy on a stream, in the order of the arrays and the memory, and keep these until the copy is done.

    box          has the extent of the copy
    written      the array or the memory that the copy writes
    thing, side  memory; it is waited for here if it is pageable, or temporary, which has no Side
    """
    waits = thing is not None and (side is None or side.kind == "host")
    if side is None:
        other = None
    else:
        other = side.primary
    for each in (*arrays, thing) if side is not None else arrays:
        make_ready(primary, stream, each)
    follow_default(primary, handle, other)
    before = written.stream
    if not waits or written is not thing:
        note(written, LEGACY if stream is None else stream)  # before the calls: an interrupt may end them
    try:
        _queue(description, box, stream, primary)
        if waits:
            calls, queue = primary.calls, queue_of(stream)
            calls.cuStreamSynchronize(queue)
        else:
            retain(primary, handle, arrays, release_of(stream))
            if side is not None:
                keep(primary, stream, thing, side)
        hold_back_default(primary, handle, other)
    except BaseException as error:
        end_work(error, primary, queue_of(stream), thing, *arrays)
        written.stream = before
        raise
    sweep()
    drain()


def _queue(description: Any, box: Box, stream: object, primary: PrimaryContext) -> None:
    width, height, depth = box.extent()
    description.WidthInBytes, description.Height, description.Depth = width * box.array.form.itemsize, height, depth
    if not width * height * depth:
        return
    calls, queue = primary.calls, queue_of(stream)
    calls.cuMemcpy3DAsync_v2(ctypes.byref(description), queue)
