"""Copies and fills of any layout, between host and device and within each.

What it is   the decisions: which copies are one memmove, one call of the driver, a pitched copy, or a walk by a kernel; where
             memory is staged; what is retained until a stream has passed.
What not     it calls no cu* function itself: transfer.py, kernel.py and host_copy.py do.
Order        done on return where pageable memory takes part; else in stream order.
Read next    transfer.py
"""

from __future__ import annotations

import ctypes

from ..elements import layout
from ..elements.scalars import decode, encode
from ..errors import refusal
from ..protocols.description import HOST
from . import host_copy
from .host_copy import walk_of
from .strided import StridedView

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..gpu.memory import Memory

    Ints = tuple[int, ...]

__all__ = ["check_labels", "copy", "download", "duplicate", "fill", "memory_device", "tolist"]

_KINDS = {"cuda_host": "pinned", "cuda": "device", "cuda_managed": "managed"}


def memory_device(memory: Memory) -> tuple[str, int | None]:
    """Return the device record of a Memory: what every view of it, and every export, says."""
    if memory.kind == "pinned":
        return "cuda_host", 0
    return ("cuda" if memory.kind == "device" else "cuda_managed"), memory.device.ordinal


def _check_target(target: StridedView) -> None:
    if target.readonly:
        raise refusal(
            target.protocol,
            "readonly",
            True,
            "the memory must not be written; copy into another array, or "
            "view(obj, writable=True) where the exporter only cannot say that it may be",
        )
    if layout.repeats(target.shape, target.strides, target.dtype.itemsize):
        raise ValueError(
            f"strides {target.strides} let elements of shape {target.shape} share bytes, so what a copy would leave there "
            "is undefined"
        )


def check_labels(*views: StridedView) -> None:
    """Ask the driver, if one is in use, whether foreign memory is where its exporter says."""
    for view in views:
        view._check_label()


def copy(target: StridedView, source: StridedView, stream: Any = None) -> None:
    """Copy elements between two views; see strided.copy."""
    _check_target(target)
    if target.dtype is not source.dtype and target.dtype != source.dtype:
        raise TypeError(
            f"a copy converts nothing: the target has dtype {target.dtype}, the source {source.dtype}; reinterpret() one, or "
            "convert first"
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
    check_labels(target, source)
    if target.is_device_accessible or source.is_device_accessible:
        from ..gpu.copies.device_copy import copy_on_device

        copy_on_device(target, source, walk, stream)
    else:
        host_copy.copy(walk)


def fill(target: StridedView, value: Any, stream: Any = None) -> None:
    """Set every element of a view; see StridedView.fill."""
    _check_target(target)
    pattern = encode(target.dtype, value)
    if not target.nbytes:
        return
    check_labels(target)
    if target.is_device_accessible:
        from ..gpu.copies.device_copy import fill_on_device

        fill_on_device(target, pattern, stream)
    else:
        host_copy.fill(target, pattern)


_new_bytearray: Any = None
_ALIGNMENT = 64  # what JAX wants in order not to copy


def empty_host(shape: Ints, dtype: Any) -> StridedView:
    """Make an array in new host memory, in C order, its contents undefined; it is aligned to 64 bytes."""
    from ..interpreter.cpython import bind
    from ..protocols.buffer import Held, address_of

    global _new_bytearray
    if _new_bytearray is None:  # unlike bytearray(n), this does not write zeros first
        _new_bytearray = bind("PyByteArray_FromStringAndSize", ctypes.py_object, ctypes.c_void_p, ctypes.c_ssize_t)
    nbytes = layout.checked_size(shape, dtype.itemsize) * dtype.itemsize
    whole = memoryview(_new_bytearray(None, nbytes + _ALIGNMENT))
    address = address_of(whole)
    return StridedView._over(
        Held(whole), address + -address % _ALIGNMENT, shape, layout.c_strides(shape, dtype.itemsize), dtype, HOST
    )


def download(source: StridedView, stream: Any = None) -> StridedView:
    """Copy a view into new host memory; see StridedView.download."""
    target = empty_host(source.shape, source.dtype)
    copy(target, source, stream)
    return target


def duplicate(source: StridedView, stream: Any = None) -> StridedView:
    """Copy a view of device-accessible memory into new memory of the same kind, in C order, on a stream."""
    from ..gpu.ordering import device_of

    device = device_of(source)
    if device is None:  # pinned memory of somebody else's
        return download(source, stream)
    from .strided import empty

    target = empty(device, source.shape, source.dtype, _KINDS[source.device[0]])
    copy(target, source, stream)
    return target


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
