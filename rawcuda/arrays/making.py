"""Arrays in our own memory, and copies between exporters: the functions behind Device, Memory and the package.

What it is   `copy`, `empty`, `zeros`, `full`, `upload`, `over_memory`.
What not     the copies themselves: copying.py.
Read next    copying.py
"""

from __future__ import annotations

from ..elements import layout
from ..elements.dtypes import of
from ..protocols.description import place
from .copying import copy, readable
from .strided import StridedView, _MemoryView, view

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..elements.dtypes import DType
    from ..gpu.devices.device import Device
    from ..gpu.memory.memory import Memory

__all__ = ["copy", "empty", "full", "over_memory", "upload", "zeros"]


_KINDS = {"device": "cuda", "pinned": "cuda_host", "managed": "cuda_managed"}


def _over(memory: Memory, shape: tuple[int, ...], strides: tuple[int, ...], dtype: DType) -> StridedView:
    """Return a view of a Memory."""
    ordinal = memory._primary.ordinal
    home = ordinal if memory._is_certain else None
    if memory.kind == "pinned":
        ordinal = 0
    made: StridedView = _MemoryView()
    address = None
    if memory._keeps is None:
        address = memory._handle
    made._ptr = address or memory.ptr  # (which asks the owner of the bytes, too)
    made._shape, made._strides, made._dtype = shape, strides, dtype
    made._place = place((_KINDS[memory.kind], ordinal), memory.readonly, "memory", home=home)
    made._owner, made.stream, made._side = memory, memory.stream, None
    return made


def over_memory(memory: Memory, dtype: Any = "uint8") -> StridedView:
    """Return a one-dimensional view of a Memory.

    raises  ValueError  its size is not a multiple of the element size
    """
    if type(dtype) is str and dtype == "uint8":
        element = _BYTE
    else:
        element = _element(dtype)
    if not element.itemsize or memory.nbytes % element.itemsize:
        raise ValueError(
            f"{memory.nbytes} bytes are not a whole number of {element} elements of {element.itemsize} bytes: give "
            'another dtype, or take a part of view("uint8")'
        )
    return _over(memory, (memory.nbytes // element.itemsize,), (element.itemsize,), element)


_BYTE = of("uint8")


def _element(dtype: Any) -> DType:
    element = of(dtype)
    if element.packed:
        raise ValueError(f"{element} elements share bytes, so a view cannot have this dtype")
    return element


def empty(device: Device, shape: Any, dtype: Any, kind: str = "device", stream: Any = None) -> StridedView:
    """Return a new, uninitialized array on a device, in C order, which owns its memory.

    kind    the kind of memory, and the stream, as for Device.allocate
    raises  ValueError    a negative extent, or a size too large for any memory
            OutOfMemory   not enough memory is free
    """
    element = _element(dtype)
    extents, strides, nbytes = layout.c_layout(shape, element.itemsize)
    return _over(device.allocate(nbytes, kind=kind, stream=stream), extents, strides, element)


def zeros(device: Device, shape: Any, dtype: Any, stream: Any = None) -> StridedView:
    """Return a new array on a device, in C order, of which every byte is 0."""
    element = _element(dtype)
    return empty(device, shape, element).fill(bytes(element.itemsize), stream=stream)


def full(device: Device, shape: Any, value: Any, dtype: Any, stream: Any = None) -> StridedView:
    """Return a new array on a device, in C order, whose elements have one value."""
    return empty(device, shape, dtype).fill(value, stream=stream)


def upload(device: Device, exporter: Any, *, stream: Any = None) -> StridedView:
    """Copy an exporter's array into new memory on a device, in C order; an object with only `__array__` will do."""
    source = readable(exporter, stream)
    if not isinstance(source, StridedView):  # it is a Memory
        source = view(source, stream=stream)
    target = empty(device, source.shape, source.dtype)
    copy(target, source, stream=stream)
    return target
