"""What a view tells others: DLPack, both array interfaces, the buffer protocol.

What it is   one function a protocol; StridedView's methods of those names call them. All read the same fields of the view:
             nothing here has a device, a stream or a flag of its own.
Refusals     inside __dlpack__ always BufferError (as ProtocolError): consumers swallow a TypeError and ask again, for less.
Source       array API standard, `__dlpack__`; CUDA Array Interface (Version 3); NumPy, "The array interface protocol"; PEP 3118
Read next    strided.py
"""

from __future__ import annotations

import ctypes
import sys

from .. import tracing
from ..dlpack import (
    DLPACK_FLAG_BITMASK_IS_COPIED,
    DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED,
    DLPACK_FLAG_BITMASK_READ_ONLY,
    export,
    export_like,
    identify,
    lend,
    template_of,
)
from ..elements import layout
from ..errors import refusal
from ..protocols.buffer import struct_of
from ..protocols.description import HOST
from .copying import check_labels, duplicate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..protocols.buffer import Py_buffer
    from .strided import StridedView

    Ints = tuple[int, ...]

__all__ = [
    "array_interface",
    "buffer_struct",
    "cuda_array_interface",
    "dlpack_capsule",
    "dlpack_device",
    "host_capsule",
    "lend_view",
    "memory_view",
    "numpy_array",
]

_PYTHON_BUFFERS: bool = sys.version_info >= (3, 12)  # PEP 688: __buffer__ in a class of Python's
_TYPES = {"cpu": 1, "cuda": 2, "cuda_host": 3, "cuda_managed": 13}


# -- DLPack


def dlpack_device(view: StridedView) -> tuple[int, int]:
    """Return (DLDeviceType, id): the ordinal for device memory, 0 for every kind of host memory and for managed memory."""
    kind, ordinal = view.device
    if ordinal is None:
        raise refusal("dlpack", "device", kind, "has no known ordinal: the array is empty and was given without one")
    return _TYPES[kind], ordinal if kind == "cuda" else 0


def dlpack_capsule(view: StridedView, stream: Any, max_version: Any, dl_device: Any, copy: Any) -> Any:
    """Serve `__dlpack__`.

    stream       None, -1, 1, 2 or a handle for memory of a device; None or -1 for host memory
    max_version  None or major 0: a legacy capsule. Else a versioned one, whatever the minor: ours is told in it
    dl_device    None, the view's own, or (1, 0): a copy in host memory
    copy         True: always, False: never, None: if dl_device makes it necessary
    raises       ProtocolError   (a BufferError) whatever cannot be exported
    """
    device = dlpack_device(view)
    versioned = _is_versioned(max_version)
    wanted = device if dl_device is None else _pair("dl_device", dl_device)
    if copy is not None and not isinstance(copy, bool):
        raise refusal("dlpack", "copy", copy, "is True, False or None")
    needs_copy = wanted != device and not (wanted == (1, 0) and device[0] == 3)
    if needs_copy and (wanted != (1, 0) or copy is False):
        why = (
            "would need a copy, which copy=False forbids"
            if wanted == (1, 0)
            else "is not where the memory is; copy it there first"
        )
        raise refusal("dlpack", "dl_device", wanted, why)
    flags, source = 0, view
    if needs_copy or copy:
        source, device = _copied(view, stream, wanted)
        flags = DLPACK_FLAG_BITMASK_IS_COPIED
    else:
        _order(view, stream, device)
        device = wanted
    if source.readonly:
        if not versioned:
            raise refusal(
                "dlpack",
                "max_version",
                max_version,
                "asks for a legacy capsule, which cannot say that the memory is read-only; ask "
                "with max_version=(1, 0), or export a copy",
            )
        flags |= DLPACK_FLAG_BITMASK_READ_ONLY
    return _capsule(source, device, versioned, flags)


# The layouts of writable host memory that were exported before: (shape, strides, dtype's name, place) -> what to make the struct from.
# `shortcuts = False` makes every export anew.
shortcuts = True
_templates: dict[Any, Any] = {}
_asked: Any = ()  # the max_version that was checked last: most consumers keep theirs as one object


def host_capsule(view: StridedView, max_version: Any) -> Any:
    """Serve `__dlpack__(max_version=max_version)` of host memory the short way; None leaves it to dlpack_capsule()."""
    global _asked
    if max_version is not _asked:
        if type(max_version) is not tuple or [type(n) for n in max_version] != [int, int] or max_version[0] < 1:
            return None
        _asked = max_version
    if tracing.listeners:
        return None
    key = view.shape, view.strides, view.dtype.name, view._place  # the name: a DType's own hash costs more
    template = _templates.get(key)
    if template is not None:
        return export_like(template, view.ptr, view)
    if not shortcuts or view._place.device != HOST or not view.size:
        return None
    capsule = dlpack_capsule(view, None, max_version, None, None)
    if len(_templates) > 300:
        _templates.clear()
    _templates[key] = template_of(capsule)
    return capsule


def _is_versioned(max_version: Any) -> bool:
    if max_version is None:
        return False
    return _pair("max_version", max_version)[0] >= 1


def _pair(field: str, value: Any) -> tuple[int, int]:
    if isinstance(value, (tuple, list)) and len(value) == 2:
        first, second = value
        if hasattr(type(first), "__index__") and hasattr(type(second), "__index__"):
            return first.__index__(), second.__index__()
    raise refusal("dlpack", field, value, "is None or a pair of ints")


def _order(view: StridedView, stream: Any, device: tuple[int, int]) -> None:
    """Make the consumer's stream wait for what is pending on the view's memory."""
    if device[0] in (1, 3):
        if stream is not None and not (type(stream) is int and stream == -1):
            raise refusal("dlpack", "stream", stream, "means nothing for host memory, which takes None or -1")
        if device[0] == 3 and stream is None:
            from ..gpu.ordering import settle

            settle(view)  # a host consumer cannot wait in a stream
        return
    from ..gpu.ordering import make_wait

    make_wait(_consumers_handle(stream), view)


def _consumers_handle(stream: Any) -> int:
    """Read the stream that a consumer gave: the table of the array API standard for CUDA."""
    if stream is None:
        return 1
    if isinstance(stream, bool) or not hasattr(type(stream), "__index__"):
        raise refusal("dlpack", "stream", stream, "is None, -1, 1, 2 or a handle, an int")
    handle: int = stream.__index__()
    if handle == 0:
        raise refusal(
            "dlpack", "stream", 0, "is ambiguous: give 1 for the legacy default stream, 2 for the per-thread one"
        )
    if not -1 <= handle < 2**64:
        raise refusal(
            "dlpack", "stream", handle, "is no stream: a handle lies in 1 .. 2**64-1; -1 asks for no ordering"
        )
    return handle


def _copied(view: StridedView, stream: Any, wanted: tuple[int, int]) -> tuple[StridedView, tuple[int, int]]:
    """Copy for an export: to the host, ready on return; or on the device, in the order of the consumer's stream."""
    if wanted[0] in (1, 3):
        if stream is not None and not (type(stream) is int and stream == -1):
            raise refusal("dlpack", "stream", stream, "must be None where the copy is made in host memory")
        handle = 1
    else:
        handle = _consumers_handle(stream)
    made = view.download() if wanted[0] == 1 else duplicate(view, 1 if handle == -1 else handle)
    return made, dlpack_device(made)


def _capsule(view: StridedView, device: tuple[int, int], versioned: bool, flags: int) -> Any:
    what, flags = _described(view, versioned, flags)
    capsule = export(what[0], device, *what[1:], view, versioned=versioned, flags=flags)
    if tracing.listeners:
        tracing.emit(
            tracing.Step(
                "dlpack",
                "export",
                f"dltensor{'_versioned' if versioned else ''}, device {device}, shape {view.shape}, "
                f"strides {what[3]}, {view.dtype}, flags {flags}",
                identify(capsule)[0],
            )
        )
    return capsule


def lend_view(view: StridedView) -> int:
    """Make a managed tensor of a view, without a capsule, and return its address; nothing waits but the legacy stream.

    raises   ProtocolError   (a BufferError) whatever cannot be exported
    """
    device = dlpack_device(view)
    what, flags = _described(view, True, DLPACK_FLAG_BITMASK_READ_ONLY if view.readonly else 0)
    _order(view, None, device)
    if tracing.listeners:
        tracing.emit(
            tracing.Step(
                "dlpack_c_exchange",
                "export",
                f"device {device}, shape {view.shape}, strides {what[3]}, {view.dtype}, flags {flags}",
            )
        )
    return lend(what[0], device, *what[1:], view, versioned=True, flags=flags)


def _described(
    view: StridedView, versioned: bool, flags: int
) -> tuple[tuple[int, tuple[int, int, int], Ints, Ints], int]:
    """Return (address, DLDataType, shape, element strides), and the flags."""
    dtype = view.dtype
    if dtype.code is None:
        raise refusal(
            "dlpack",
            "dtype",
            str(dtype),
            "is no type that DLPack has; export by another protocol, or reinterpret() the bytes",
        )
    if dtype.padded:
        flags |= DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED
        if not versioned:
            raise refusal(
                "dlpack",
                "max_version",
                None,
                "asks for a legacy capsule, which cannot say that the elements are padded",
            )
    return (
        view.ptr if view.size else 0,
        (dtype.code, dtype.bits, dtype.lanes),
        view.shape,
        _element_strides(view),
    ), flags


def _element_strides(view: StridedView) -> tuple[int, ...]:
    """Return the strides in elements; those of an empty array, and of extents of 1, say nothing and are made plain."""
    shape, strides, itemsize = view.shape, view.strides, view.dtype.itemsize
    if layout.is_c_contiguous(shape, strides, itemsize):
        return layout.c_strides(shape, 1)
    out = []
    for n, stride in zip(shape, strides):
        if n > 1 and stride < 0:
            raise refusal(
                "dlpack",
                "strides",
                strides,
                "are negative, and PyTorch up to 2.13 ends the process on that; export a copy, or use another protocol",
            )
        if n > 1 and stride % itemsize:
            raise refusal("dlpack", "strides", strides, f"are no whole elements of {itemsize} bytes; export a copy")
        out.append(stride // itemsize if n > 1 else 1)
    return tuple(out)


# -- the array interfaces


def _interface(view: StridedView) -> dict[str, Any]:
    dtype, shape, strides = view.dtype, view.shape, view.strides
    plain = layout.is_c_contiguous(shape, strides, dtype.itemsize)
    said = {
        "version": 3,
        "shape": shape,
        "typestr": dtype.typestr,
        "data": (view.ptr if view.size else 0, view.readonly),
        "strides": None if plain else strides,
        "descr": dtype.descr if dtype.descr is not None else [("", dtype.typestr)],
    }
    if tracing.listeners:
        tracing.emit(tracing.Step("array_interface", "export", f"{said!r}"))
    return said


def array_interface(view: StridedView) -> dict[str, Any]:
    """Serve `__array_interface__`; AttributeError, which reads as "not offered", where the CPU cannot reach the memory."""
    if not view.is_host_accessible:
        raise AttributeError(
            f"__array_interface__: memory on {_place(view)} is out of the CPU's reach; download() it first"
        )
    if view.is_device_accessible:
        from ..gpu.ordering import settle

        settle(view)
    check_labels(view)
    said = _interface(view)
    if not said["data"][0]:
        said["data"] = (ctypes.addressof(_NOTHING), view.readonly)  # NumPy takes null for scalars only since 2.3
    return said


def cuda_array_interface(view: StridedView) -> dict[str, Any]:
    """Serve `__cuda_array_interface__`, version 3; AttributeError where the device cannot reach the memory."""
    if not view.is_device_accessible:
        raise AttributeError(
            "__cuda_array_interface__: pageable host memory is out of the device's reach; upload it first"
        )
    said = _interface(view)
    said["mask"] = None
    from ..gpu.ordering import pending_handle

    said["stream"] = pending_handle(view)
    return said


def _place(view: StridedView) -> str:
    return f"{view.device[0]} {view.device[1]}"


def numpy_array(view: StridedView, dtype: Any, copy: bool | None) -> Any:
    """Serve `__array__`, which NumPy asks last; what it needs of NumPy is there, since NumPy asks."""
    if not view.is_host_accessible:
        raise TypeError(f"a copy from {_place(view)} to the host is made by download() only, never silently")
    array = sys.modules["numpy"].asarray(memory_view(view), dtype=dtype)
    return array.copy() if copy else array


# -- the buffer protocol

_NOTHING = ctypes.create_string_buffer(64)  # where arrays without elements point, if they must point somewhere


def buffer_struct(view: StridedView, writable: bool) -> Py_buffer:
    """Fill a Py_buffer with a view's memory; whoever uses it keeps the view alive.

    raises   BufferError   the CPU cannot reach the memory, or it is read-only and writing was asked for
    """
    if not view.is_host_accessible:
        raise refusal("buffer", "device", _place(view), "is out of the CPU's reach; download() it first")
    if writable and view.readonly:
        raise refusal("buffer", "readonly", True, "but a writable buffer was asked for; copy the array first")
    if view.is_device_accessible:
        from ..gpu.ordering import settle

        settle(view)
    check_labels(view)
    if not view.dtype.itemsize:
        raise refusal("buffer", "itemsize", 0, "is no size that a buffer can have")
    return struct_of(view, view.ptr if view.size else ctypes.addressof(_NOTHING))


def memory_view(view: StridedView) -> memoryview:
    """Make a memoryview that keeps the view alive, on every Python."""
    if _PYTHON_BUFFERS:
        return memoryview(view)  # by __buffer__
    from ..interpreter.buffer_type import exporter_of

    return memoryview(exporter_of(view, buffer_struct(view, False)))
