"""Arrays in memory of our own, and copies between any two exporters: what Device, Memory and the package offer.

What it is   `copy`, `empty`, `upload`, `over_memory`.
What not     how a copy is done: copying.py.
Read next    copying.py
"""

from __future__ import annotations

from .. import names
from ..elements import layout
from ..elements.dtypes import of
from . import copying
from .copying import copy_views
from .strided import StridedView, _MemoryView, view

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..elements.dtypes import DType
    from ..gpu.device import Device
    from ..gpu.memory import Memory

__all__ = ["copy", "copy_raw", "empty", "over_memory", "upload"]


def copy(dst: names.Any, src: names.Any, *, stream: names.Any = None) -> None:
    """Copy elements between any two exporters, of any layout, in host or device memory.

    A Memory itself has no dtype: where one takes part, bytes are copied, of exactly the same number; see Memory.view().

    shape   src is repeated to dst's shape as NumPy does in an assignment
    stream  the stream that device memory is copied on; None is the legacy default stream
    order   done on return where pageable host memory takes part, else when the stream reaches it; overlapping sides are
            copied as if src had been copied aside first
    raises  TypeError       other dtypes: nothing is converted
            ValueError      shapes that do not fit; another number of bytes
            ProtocolError   dst is read-only
    """
    _copy(dst, src, stream, view)


_copy = copying.copy


def copy_raw(dst: Any, src: Any, *, stream: Any = None) -> None:
    """Copy the bytes of one exporter into another of exactly as many, of whatever dtype and shape; raises ValueError."""
    copying.copy_raw(dst, src, stream, view)


_PLACES = {"device": "cuda", "pinned": "cuda_host", "managed": "cuda_managed"}


def _over(memory: Memory, shape: tuple[int, ...], dtype: DType) -> StridedView:
    """View a Memory in C order."""
    ordinal = 0 if memory.kind == "pinned" else memory._primary.ordinal
    return _MemoryView._over(
        memory,
        memory.ptr,
        shape,
        layout.c_strides(shape, dtype.itemsize),
        dtype,
        (_PLACES[memory.kind], ordinal),
        stream=memory.stream,
    )


def over_memory(memory: Memory, dtype: Any = "uint8") -> StridedView:
    """View a Memory with one dimension.

    raises  ValueError  its bytes are no whole number of elements
    """
    element = _element(dtype)
    if not element.itemsize or memory.nbytes % element.itemsize:
        raise ValueError(
            f"{memory.nbytes} bytes are no whole number of {element} elements of {element.itemsize} bytes: give another dtype, "
            'or view("uint8") and take a part of that'
        )
    return _over(memory, (memory.nbytes // element.itemsize,), element)


def _element(dtype: Any) -> DType:
    element = of(dtype)
    if element.packed:
        raise ValueError(f"{element} elements share bytes, so that no view can have them")
    return element


def empty(device: Device, shape: Any, dtype: Any, kind: str = "device") -> StridedView:
    """Make an array on a device, in C order, its contents undefined; the view owns its memory.

    kind    of memory, as Device.allocate has it
    raises  ValueError    a negative extent, a size that no memory has
            OutOfMemory   there is not so much
    """
    extents, element = layout.as_shape(shape), _element(dtype)
    nbytes = layout.checked_size(extents, element.itemsize) * element.itemsize
    return _over(device.allocate(nbytes, kind=kind), extents, element)


def upload(device: Device, exporter: Any, *, stream: Any = None) -> StridedView:
    """Copy an exporter's array into new memory of a device, in C order."""
    source = exporter if isinstance(exporter, StridedView) else view(exporter, stream=stream)
    target = empty(device, source.shape, source.dtype)
    copy_views(target, source, stream)
    return target
