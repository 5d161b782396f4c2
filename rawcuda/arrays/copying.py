"""Copies and fills of any layout, between host and device and within each.

What it is   the decisions: which copies are a single call of the driver or one memmove, and which walk over their
             elements; which memory may be written to; that a copy converts nothing.
What not     it calls no cu* function: gpu/spans.py and gpu/copies/ do, through doors.py. It makes no view of an
             exporter: it is given the function that does.
Order        If pageable memory takes part, the copy is complete on return; otherwise it is in stream order.
Read next    host_copy.py, gpu/spans.py, gpu/copies/device_copy.py
"""

from __future__ import annotations

import ctypes
import sys

from .. import doors
from ..elements import layout
from ..elements.scalars import decode, encode
from ..errors import refusal
from ..protocols.description import HOST, Bytes, Description
from . import host_copy
from .host_copy import walk_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from .strided import StridedView

    Ints = tuple[int, ...]

__all__ = ["check_labels", "copy", "copy_raw", "copy_views", "download", "duplicate", "empty_host", "fill", "tolist"]


# The contiguous layouts that were already copied or filled: (shape, strides, itemsize) -> bytes. Computing that takes a
# microsecond each time, the look-up 150 ns.
_dense: dict[tuple[Ints, Ints, int], int] = {}
# The values that were already used to fill: (dtype's name, int) -> (the number for the driver, its size in bytes).
_patterns: dict[tuple[str, int], tuple[int, int]] = {}
_MOST = 300  # entries in either; then it is emptied


_gpu: Any = None  # doors.gpu(), set on first use: an import statement takes 300 ns and more


def _enter_gpu() -> Any:
    global _gpu
    _gpu = doors.gpu()
    return _gpu


def copy(dst: Any, src: Any, stream: Any, view: Callable[..., Any]) -> None:
    """Copy elements between any two exporters, or bytes if one of them is a Memory.

    view  the function that views an exporter
    """
    if isinstance(dst, Description) and isinstance(src, Description):
        if hasattr(dst, "start") and hasattr(src, "start") and _copy_span(dst, src, stream):  # views of Memory
            return
    elif isinstance(dst, Bytes):
        dst.copy_from(src, stream=stream)
        return
    elif isinstance(src, Bytes):
        copy_raw(dst, src, stream, view)
        return
    target, source = _sides(dst, src, stream, view)
    copy_views(target, source, stream)


def _sides(dst: Any, src: Any, stream: Any, view: Callable[..., Any]) -> Any:
    return [
        side if isinstance(side, Description) else side.view() if isinstance(side, Bytes) else view(side, stream=stream)
        for side in (dst, src)
    ]


def _copy_span(dst: Any, src: Any, stream: Any) -> bool:
    """Copy between contiguous arrays of one layout in our own memory; return False if copy_views() must do it."""
    shape, strides = dst.shape, dst.strides
    nbytes = _dense.get((shape, strides, dst.dtype.itemsize))
    target, source = dst.owner, src.owner
    if (
        nbytes is None
        or src.dtype is not dst.dtype
        or src.shape != shape
        or src.strides != strides
        or dst._place.readonly
        or target._handle is None
        or source._handle is None
    ):
        return False
    gpu = _gpu or _enter_gpu()
    if dst.stream is not None and dst.stream is not stream or src.stream is not None and src.stream is not stream:
        gpu.copies().ordered(target._primary, stream, dst, src)
    if not gpu.copy_span(target, dst.start, source, src.start, nbytes, stream):
        return False
    dst.stream = stream  # its elements will be ready in this stream's order
    return True


def copy_raw(dst: Any, src: Any, stream: Any, view: Callable[..., Any]) -> None:
    """Copy the bytes of an exporter to another of the same size, of any dtype and shape; raises ValueError."""
    target, source = _sides(dst, src, stream, view)
    if target.nbytes != source.nbytes:
        raise ValueError(
            f"{target.nbytes} bytes cannot hold {source.nbytes}: with a Memory all bytes are copied; use a part of "
            "memory.view()"
        )
    if target.is_c_contiguous:
        target = _as_like(target, source)
    elif source.is_c_contiguous:
        source = _as_like(source, target)
    elif (target.shape, target.dtype) != (source.shape, source.dtype):
        raise ValueError("both sides have gaps: copy() between arrays of the same shape and dtype")
    copy_views(target, source, stream)


def _as_like(plain: StridedView, other: StridedView) -> StridedView:
    """Return a view of contiguous memory with the shape and dtype of another view."""
    return plain._derived(plain.ptr, other.shape, layout.c_strides(other.shape, other.dtype.itemsize), other.dtype)


def _check_target(target: StridedView) -> None:
    if target.readonly:
        raise refusal(
            target.protocol,
            "readonly",
            True,
            "the memory must not be written to; copy into another array, or "
            "use view(obj, writable=True) if only the protocol cannot express that it is writable",
        )
    if layout.repeats(target.shape, target.strides, target.dtype.itemsize):
        raise ValueError(
            f"with strides {target.strides}, elements of shape {target.shape} share bytes, so the result of a copy "
            "is undefined: copy into an array without overlapping elements"
        )


def check_labels(*views: StridedView) -> None:
    """If a driver is in use, check with it that foreign memory is on the device that its exporter named."""
    for view in views:
        view._check_label()


def copy_views(target: Any, source: Any, stream: Any = None) -> None:
    """Copy elements between two views; the source is broadcast to the target's shape."""
    _check_target(target)
    if target.dtype is not source.dtype and target.dtype != source.dtype:
        raise TypeError(
            f"a copy converts nothing: the target has dtype {target.dtype}, the source {source.dtype}; reinterpret() "
            "one, or convert first"
        )
    if source.shape != target.shape:
        try:
            strides = layout.broadcast(source.shape, source.strides, target.shape)
        except ValueError:
            raise ValueError(f"could not broadcast source of shape {source.shape} into shape {target.shape}") from None
        source = source._derived(source.ptr, target.shape, strides)
    walk = walk_of(target, source)
    if walk.is_empty():
        return
    if not walk.shape and target.strides == source.strides and walk.target == target.ptr:
        _note(_dense, (target.shape, target.strides, target.dtype.itemsize), walk.nbytes)
    check_labels(target, source)
    if target.is_device_accessible or source.is_device_accessible:
        doors.gpu().copies().copy_on_device(target, source, walk, stream)
    else:
        host_copy.copy(walk)


def _note(table: dict[Any, Any], key: Any, value: Any) -> None:
    if len(table) >= _MOST:
        table.clear()
    table[key] = value


def fill(target: Any, value: Any, stream: Any = None) -> None:
    """Set every element of a view; see StridedView.fill."""
    if type(value) is int and isinstance(target.owner, Bytes) and _fill_span(target, value, stream):
        return
    _check_target(target)
    pattern = encode(target.dtype, value)
    if not target.nbytes:
        return
    check_labels(target)
    if not target.is_device_accessible:
        host_copy.fill(target, pattern)
        return
    if type(value) is int and target.is_c_contiguous:
        _note(_dense, (target.shape, target.strides, target.dtype.itemsize), target.nbytes)
        short = _shortest(pattern)
        if short is not None:
            _note(_patterns, (target.dtype.name, value), short)
    doors.gpu().copies().fill_on_device(target, pattern, stream)


def _shortest(pattern: bytes) -> tuple[int, int] | None:
    """Return the number, and its size in bytes, with which the driver can fill a pattern; None if impossible."""
    for width in (1, 2, 4):
        if len(pattern) % width == 0 and pattern == pattern[:width] * (len(pattern) // width):
            return int.from_bytes(pattern[:width], sys.byteorder), width
    return None


def _fill_span(dst: Any, value: int, stream: Any) -> bool:
    """Fill a contiguous array in our own memory, in stream order; return False if fill() must do it otherwise."""
    pattern, dtype = _patterns.get((dst.dtype.name, value)), dst.dtype
    nbytes = _dense.get((dst.shape, dst.strides, dtype.itemsize))
    if pattern is None or nbytes is None or dst._place.readonly or dst.owner._handle is None or dst.start % pattern[1]:
        return False
    gpu = _gpu or _enter_gpu()
    if dst.stream is not None and dst.stream is not stream:
        gpu.copies().ordered(dst.owner._primary, stream, dst)
    if not gpu.fill_span(dst.owner, dst.start, *pattern, nbytes // pattern[1], stream):
        return False
    dst.stream = stream
    return True


_new_bytearray: Any = None
_ALIGNMENT = 64  # which JAX needs to import an array without a copy


def empty_host(kind: type[StridedView], shape: Ints, dtype: Any) -> StridedView:
    """Return a new, uninitialized array of a class in host memory, in C order, aligned to 64 bytes."""
    from ..interpreter.cpython import bind
    from ..protocols.buffer import Held, address_of

    global _new_bytearray
    if _new_bytearray is None:  # unlike bytearray(n), this does not write zeros first
        _new_bytearray = bind("PyByteArray_FromStringAndSize", ctypes.py_object, ctypes.c_void_p, ctypes.c_ssize_t)
    nbytes = layout.checked_size(shape, dtype.itemsize) * dtype.itemsize
    whole = memoryview(_new_bytearray(None, nbytes + _ALIGNMENT))
    address = address_of(whole)
    return kind._over(
        Held(whole), address + -address % _ALIGNMENT, shape, layout.c_strides(shape, dtype.itemsize), dtype, HOST
    )


def download(source: Any, stream: Any = None) -> StridedView:
    """Copy a view into new host memory; see StridedView.download."""
    target = empty_host(source._plain_kind, source.shape, source.dtype)
    copy_views(target, source, stream)
    return target


def duplicate(source: Any, stream: Any = None) -> StridedView:
    """Copy a view of device-accessible memory into new memory of the same kind, in C order, on a stream."""
    target = doors.gpu().empty_like(source)
    if target is None:  # pinned memory that is not ours
        return download(source, stream)
    copy_views(target, source, stream)
    return target  # type: ignore[no-any-return]


def tolist(source: StridedView) -> Any:
    """Return nested lists of Python values; see StridedView.tolist."""
    check_labels(source)
    plain = source if source.device == HOST and source.is_c_contiguous else download(source)
    data = ctypes.string_at(plain.ptr, plain.nbytes) if plain.nbytes else b""
    values = decode(plain.dtype, data) if plain.dtype.itemsize else [b""] * plain.size
    if not plain.shape:
        return values[0]
    for n in plain.shape[:0:-1]:
        if n == 0:
            return _nested_empty(plain.shape)
        values = [values[i : i + n] for i in range(0, len(values), n)]
    return values


def _nested_empty(shape: Ints) -> list[Any]:
    return [_nested_empty(shape[1:]) for _ in range(shape[0])] if len(shape) > 1 else []
