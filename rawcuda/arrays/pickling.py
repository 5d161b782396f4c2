"""Pickling of views: the pickle contains their elements, as an out-of-band buffer if the protocol supports this.

What it is   `reduce_view`, which describes a view for pickle; `rebuild`, which pickle calls in the receiver; and
             `receive_on`, which says where the receiver puts elements from device memory.
The format   (version, shape, order, dtype, readonly, kind, bytes): the elements in C or in Fortran order without gaps.
             Other layouts are packed first. Host memory in one of these orders is not copied with protocol 5.
What not     a pickle contains no address. Sharing memory between processes by handles is another mechanism.
Source       PEP 574, "Pickle protocol 5 with out-of-band data"
Read next    strided.py
"""

from __future__ import annotations

from ..elements import layout
from ..elements.dtypes import DType, of
from ..errors import worded
from ..protocols.choosing import describe
from ..protocols.device_memory import gpu

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["rebuild", "rebuild_memory", "receive_on", "reduce_memory", "reduce_view"]

_VERSION = 1
_DEVICE_KINDS = {"cuda": "device", "cuda_managed": "managed"}


def reduce_view(view: Any, protocol: int) -> tuple[Any, ...]:
    """Describe a view for pickle; see StridedView.__reduce_ex__."""
    kind = "cuda"
    if view._place.device:
        kind = view._place.device[0]
    order, plain = "C", view
    if view.is_f_contiguous and not view.is_c_contiguous:
        order, plain = "F", view.T
    if kind in _DEVICE_KINDS or not plain.is_c_contiguous:
        plain = plain.download()
    data: Any = b""
    if plain.nbytes:
        data = plain._derived(plain.ptr, (plain.nbytes,), (1,), of("uint8"), view.readonly).memoryview()
        if protocol >= 5:
            from pickle import PickleBuffer

            data = PickleBuffer(data)
        elif view.readonly:
            data = bytes(data)
        else:
            data = bytearray(data)
    return rebuild, (_VERSION, view.shape, order, view.dtype, view.readonly, kind, data)


def rebuild(version: Any, shape: Any, order: Any, dtype: Any, readonly: Any, kind: Any, data: Any) -> Any:
    """Make a view from the result of reduce_view, in host memory or on the device that receive_on() names.

    raises  ValueError  a pickle of a newer version, or a damaged one
    """
    whole = _checked_bytes(version, shape, order, dtype, kind, data)
    made = _array(whole, tuple(shape), order, dtype)
    if kind in _DEVICE_KINDS:
        made = _received(made, order, kind)
    if readonly and not made.readonly:
        made = made._derived(made.ptr, made.shape, made.strides, readonly=True)  # (this one may have been written)
    return made


def _checked_bytes(version: Any, shape: Any, order: Any, dtype: Any, kind: Any, data: Any) -> memoryview:
    if type(version) is not int or version < 1:
        raise ValueError(f"this is not the pickle of a view: its version is {worded(version)}")
    if version > _VERSION:
        raise ValueError(
            f"this view was pickled in version {worded(version)} of the format, and this package knows {_VERSION}: "
            "use the sender's version of this package here"
        )
    if not isinstance(dtype, DType) or order not in ("C", "F") or kind not in ("cpu", "cuda_host", *_DEVICE_KINDS):
        raise ValueError(
            f"a damaged pickle: dtype {worded(dtype)}, order {worded(order)}, kind of memory {worded(kind)}"
        )
    if not isinstance(shape, tuple) or not all([type(n) is int and n >= 0 for n in shape]):
        raise ValueError(f"a damaged pickle: {worded(shape)} is not a shape")
    nbytes = layout.checked_size(layout.as_shape(shape), dtype.itemsize) * dtype.itemsize
    try:
        whole = memoryview(data).cast("B")
    except (TypeError, ValueError, BufferError):
        raise ValueError(f"a damaged pickle: {worded(data)} is not one run of bytes") from None
    if whole.nbytes != nbytes or dtype.packed:
        raise ValueError(
            f"a damaged pickle: {dtype} elements of shape {shape} have {nbytes} bytes, and it has {whole.nbytes}"
        )
    return whole


def _array(whole: memoryview, shape: tuple[int, ...], order: str, dtype: DType) -> Any:
    """Return a view of bytes that were received, which keeps them alive."""
    if order == "F":
        rows = layout.f_strides
    else:
        rows = layout.c_strides
    from .. import StridedView  # (the receiver of a pickle may not have used any view before)

    kind: Any = StridedView._plain_kind
    flat: Any
    if whole.nbytes:
        flat = describe(whole, kind, None)
    else:
        flat = kind._empty_host((0,), of("uint8"))
    return flat._derived(flat.ptr, shape, rows(shape, dtype.itemsize), dtype)


# -- the place for device memory


class receive_on:
    """The place where unpickled device memory arrives: "host", the ordinal of a device, or None.

    None, the default, is the current device of the receiving process. A call changes it for the whole process; in a
    with block, it is changed back at the end.

    raises  TypeError   neither "host", nor an int, nor None
            ValueError  another text, or a negative ordinal
    """

    __slots__ = ("_before",)

    def __init__(self, where: Any) -> None:
        if isinstance(where, str):
            if where != "host":
                raise ValueError(f'receive_on({worded(where)}): give "host", the ordinal of a device, or None')
        elif where is not None:
            if isinstance(where, bool) or not hasattr(type(where), "__index__") or getattr(where, "shape", None):
                raise TypeError(f'receive_on() takes "host", the ordinal of a device, or None, not {worded(where)}')
            where = int.__index__(where.__index__())
            if where < 0:
                raise ValueError(f"receive_on({worded(where)}): give an ordinal of 0 or more")
        self._before = _receiver[0]
        _receiver[0] = where

    def __repr__(self) -> str:
        return f"<receive_on: arrays arrive on {_receiver[0]!r} now>"

    def __enter__(self) -> None:
        pass

    def __exit__(self, *raised: object) -> None:
        _receiver[0] = self._before


_receiver: list[Any] = [None]


def _received(made: Any, order: str, kind: str) -> Any:
    """Copy an array from host memory to the place for device memory."""
    where = _receiver[0]
    if where == "host":
        return made
    if where is None:
        ordinal = gpu.current_ordinal()
    else:
        ordinal = where
    if order == "F":
        plain = made.T
    else:
        plain = made
    target = gpu.empty_on(ordinal, plain.shape, plain.dtype, _DEVICE_KINDS[kind]).copy_from(plain)
    if order == "F":
        return target.T
    return target


def reduce_memory(memory: Any, protocol: Any) -> tuple[Any, ...]:
    """Describe a Memory for pickle; see Memory.__reduce_ex__."""
    _, (version, _, _, _, _, _, data) = reduce_view(memory.view(), protocol)
    return rebuild_memory, (version, memory.nbytes, memory.kind, data)


def rebuild_memory(version: Any, nbytes: Any, kind: Any, data: Any) -> Any:
    """Make a Memory with the bytes that a pickled one had; kind is that of the Memory."""
    views = {"device": "cuda", "managed": "cuda_managed", "pinned": "cuda_host"}
    if not isinstance(kind, str) or kind not in views:
        raise ValueError(f"a damaged pickle: {worded(kind)} is not a kind of memory")
    whole = _checked_bytes(version, (nbytes,), "C", of("uint8"), views[kind], data)
    where = _receiver[0]
    if where in (None, "host"):
        ordinal = gpu.current_ordinal()
    else:
        ordinal = where
    memory = gpu.Device(ordinal).allocate(nbytes, kind="pinned" if where == "host" else kind)
    return memory.copy_from(whole)
