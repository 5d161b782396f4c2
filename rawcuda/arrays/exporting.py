"""The exports of a view: DLPack, both array interfaces, the buffer protocol.

What it is   A function for each protocol, called by the method of StridedView with its name. All use the same fields
             of the view; nothing here has a device, a stream or a flag of its own.
Lifetime     An export over a Memory holds a lease of it, so that close() does not free bytes that another library
             still uses.
Refusals     In __dlpack__ always a BufferError (ProtocolError): consumers ignore a TypeError and call again with fewer
             arguments.
Source       array API standard, `__dlpack__`; CUDA Array Interface (Version 3); NumPy, "The array interface
             protocol"; PEP 3118
Read next    strided.py
"""

from __future__ import annotations

import ctypes
import sys
from operator import index

from .. import tracing
from ..arguments import as_int
from ..dlpack import (
    DLPACK_FLAG_BITMASK_IS_COPIED,
    DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED,
    DLPACK_FLAG_BITMASK_READ_ONLY,
    VERSION,
    Template,
    export,
    identify,
    lend,
)
from ..elements import layout
from ..elements.dtypes import opaque
from ..errors import DriverNotFound, refusal
from ..interpreter.buffer_type import memoryview_of
from ..protocols.buffer import buffer_at
from ..protocols.description import KINDS, place
from ..protocols.device_memory import gpu
from ..remembered import Remembered

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .strided import StridedView

    Ints = tuple[int, ...]

__all__ = [
    "array_interface",
    "buffer",
    "cuda_array_interface",
    "dlpack_capsule",
    "dlpack_device",
    "lend_view",
    "memory_view",
    "numpy_array",
]

_NEWEST = (1, 0), VERSION  # the versions that consumers request


# -- DLPack


def dlpack_device(view: StridedView) -> tuple[int, int]:
    """Return (DLDeviceType, id): the id is the ordinal for device memory, and 0 for host and managed memory."""
    where = view._place
    if where.is_host:
        return 1, 0
    kind, ordinal = where.device or ("cuda", _current_ordinal())
    return KINDS[kind], ordinal if kind == "cuda" else 0  # type: ignore[return-value]


def _current_ordinal() -> int:
    """Return the ordinal of the current device: an empty array is there if its exporter named none, as in CuPy."""
    try:
        return gpu.current_ordinal()  # type: ignore[no-any-return]
    except DriverNotFound as error:
        raise refusal(
            "dlpack", "device", "cuda", f"has no ordinal: the array is empty, its exporter named no device, and {error}"
        ) from None


def _placed(view: StridedView) -> StridedView:
    """Return an empty view whose exporter named no device as one on the current device, which may change later."""
    made = view._derived(view.ptr, view.shape, view.strides)
    made._place = place(("cuda", _current_ordinal()), view._place.readonly, view._place.protocol)
    return made


def dlpack_capsule(view: StridedView, stream: Any, max_version: Any, dl_device: Any, copy: Any) -> Any:
    """Implement `__dlpack__`.

    stream       None, -1, 1, 2 or a handle for device memory; None or -1 for host memory
    max_version  None or major 0: a legacy capsule; otherwise a versioned one, of our minor version
    dl_device    None, the view's own device, or (1, 0): a copy in host memory
    copy         True: always copy; False: never copy; None: only if dl_device makes it necessary
    raises       ProtocolError   (a BufferError) the view cannot be exported
    """
    versioned = max_version is not None and _is_versioned(max_version)
    if type(stream) is not int and stream is not None:
        stream = _consumers_handle(stream)
    other = None
    if view._place.device is None:
        view = _placed(view)
    if dl_device is not None or copy is not None:
        view, other = _elsewhere(view, stream, dl_device, copy)
    where, shape, dtype = view._place, view.shape, view.dtype
    key = shape, view.strides, dtype.name, dtype.code, where, versioned, other
    try:
        template = _templates.answers[key]
    except KeyError:
        template = None
    if template is None:  # (a refusal would be shown below the KeyError)
        device, flags = other or (dlpack_device(view), 0)
        template = _template(view, device, max_version, versioned, flags)
        _templates.keep(key, template)
    if other is None and (stream is not None if where.is_host else type(stream) is not int or stream != -1):
        _order(view, stream, template.device)
    capsule = export(template, 0 if 0 in shape else view.ptr, view._kept())
    if tracing.listeners:
        _tell("dlpack", view, template.device, f"dltensor{'_versioned' if versioned else ''}, ", identify(capsule)[0])
    return capsule


# The common part of all exports of one layout. Making it costs 4,000 ns, looking it up 100.
_templates: Remembered[Any, Template] = Remembered(1000)


def _template(
    view: StridedView, device: tuple[int, int], max_version: Any, versioned: bool, flags: int = 0
) -> Template:
    """Return the template from which exports of a view are copied.

    raises   ProtocolError   (a BufferError) DLPack cannot express the view
    """
    dtype = view.dtype
    if view.readonly:
        if not versioned:
            raise refusal(
                "dlpack",
                "max_version",
                max_version,
                "requests a legacy capsule, which cannot mark memory as read-only; request it "
                "with max_version=(1, 0), or export a copy",
            )
        flags |= DLPACK_FLAG_BITMASK_READ_ONLY
    if dtype.code is None:
        raise refusal(
            "dlpack",
            "dtype",
            str(dtype),
            "is not a type of DLPack; export by another protocol, or reinterpret() the bytes",
        )
    if dtype.padded:
        flags |= DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED
        if not versioned:
            raise refusal(
                "dlpack",
                "max_version",
                None,
                "requests a legacy capsule, which cannot tell that the elements are padded",
            )
    bits = dtype.code, dtype.bits, dtype.lanes
    return Template(device, bits, view.shape, _element_strides(view), versioned=versioned, flags=flags)


def _elsewhere(
    view: StridedView, stream: Any, dl_device: Any, copy: Any
) -> tuple[StridedView, tuple[tuple[int, int], int]]:
    """Apply `dl_device` and `copy`: return the view to export, which is ready, with its DLPack device and the flags."""
    device = dlpack_device(view)
    if dl_device is None:
        wanted = device
    else:
        wanted = _pair("dl_device", dl_device)
    if copy is not None and not isinstance(copy, bool):
        raise refusal("dlpack", "copy", copy, "must be True, False or None")
    needs_copy = wanted != device and not (wanted == (1, 0) and device[0] == 3)
    if needs_copy and (wanted != (1, 0) or copy is False):
        why = "is not where the memory is; copy it there first"
        if wanted == (1, 0):
            why = "would need a copy, which copy=False forbids"
        raise refusal("dlpack", "dl_device", wanted, why)
    if needs_copy or copy:
        made, device = _copied(view, stream, wanted)
        if device[0] != 1 and type(stream) is int and stream == -1:  # who orders nothing does not know of the copy
            gpu.wait_on_host(made)
        else:
            _order(made, stream, device)
        return made, (device, DLPACK_FLAG_BITMASK_IS_COPIED)
    _order(view, stream, device)
    return view, (wanted, 0)


def _is_versioned(max_version: Any) -> bool:
    """Tell whether a consumer requests a versioned capsule."""
    try:
        if max_version in _NEWEST:  # (_pair() takes 10 % of an export)
            return True
    except Exception:  # of a comparison, as that of NumPy's arrays
        pass
    return _pair("max_version", max_version)[0] >= 1


def _pair(field: str, value: Any) -> tuple[int, int]:
    if isinstance(value, (tuple, list)) and len(value) == 2:
        try:
            return index(value[0]), index(value[1])
        except Exception:  # no ints, or the error of an __index__(), which must be a BufferError, too
            pass
    raise refusal("dlpack", field, value, "must be None or a pair of ints")


def _order(view: StridedView, stream: Any, device: tuple[int, int]) -> None:
    """Make the consumer's stream wait for the pending work on the view's memory."""
    if type(stream) is int and stream == -1:
        return  # no ordering, which all memory allows
    if device[0] in (1, 3):
        if stream is not None:
            raise refusal("dlpack", "stream", stream, "has no meaning for host memory: give None or -1")
        if device[0] == 3 and stream is None:
            gpu.wait_on_host(view)  # a host consumer cannot wait in a stream
        return
    handle = _consumers_handle(stream)
    gpu.make_wait(handle, view)
    # NumPy takes managed memory, too, and names no stream. Of each device, it is exported as that of device 0, whose
    # default streams are others.
    if device[0] == 13 and (stream is None or handle <= 2 and (view.device[1] or 0) != 0):
        gpu.wait_on_host(view)


def _consumers_handle(stream: Any) -> int:
    """Return the handle of the stream that a consumer gave, by the array API standard's rules for CUDA."""
    if stream is None:
        return 1
    handle: int = stream
    if type(stream) is not int:
        try:
            handle = as_int("stream", stream)
        except Exception:  # as in _pair()
            raise refusal("dlpack", "stream", stream, "must be None, or an int: -1, 1, 2 or a handle") from None
    if handle == 0:
        raise refusal(
            "dlpack", "stream", 0, "is ambiguous: give 1 for the legacy default stream, 2 for the per-thread one"
        )
    if not -1 <= handle < 2**64:
        raise refusal("dlpack", "stream", handle, "is not a stream: a handle is in 1 .. 2**64-1; -1 means no ordering")
    return handle


def _copied(view: StridedView, stream: Any, wanted: tuple[int, int]) -> tuple[StridedView, tuple[int, int]]:
    """Copy for an export: to the host, complete on return; or on the device, in the consumer's stream order."""
    if wanted[0] in (1, 3):
        if stream is not None and not (type(stream) is int and stream == -1):
            raise refusal("dlpack", "stream", stream, "must be None or -1 if the copy is made in host memory")
        handle = 1
    else:
        handle = _consumers_handle(stream)
    if wanted[0] == 1:
        made = view.download()
    else:
        made = view._duplicate(1 if handle == -1 else handle)
    return made, dlpack_device(made)


def _tell(protocol: str, view: StridedView, device: tuple[int, int], what: str = "", tensor: int = 0) -> None:
    """Report an export to the listeners."""
    shown = f"{what}device {device}, shape {view.shape}, strides {_element_strides(view)}, {view.dtype}"
    tracing.emit(tracing.Step(protocol, "export", f"{shown}{', read-only' if view.readonly else ''}", tensor))


def lend_view(view: StridedView) -> int:
    """Return the address of a new managed tensor of a view, without a capsule; the legacy stream waits for the view.

    raises   ProtocolError   (a BufferError) the view cannot be exported
    """
    if view._place.device is None:
        view = _placed(view)
    device = dlpack_device(view)
    template = _template(view, device, None, True)
    _order(view, None, device)
    if tracing.listeners:
        _tell("dlpack_c_exchange", view, device)
    return lend(template, 0 if 0 in view.shape else view.ptr, view._kept()).address


def _element_strides(view: StridedView) -> tuple[int, ...]:
    """Return the strides in elements; meaningless ones (of empty arrays and of extents of 1) are normalized."""
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
                "are negative, which makes PyTorch up to 2.13 abort; export a copy, or use another protocol",
            )
        if n > 1 and stride % itemsize:
            raise refusal("dlpack", "strides", strides, f"are not multiples of {itemsize} bytes; export a copy")
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
        "data": (0 if 0 in shape else view.ptr, view._place.readonly),
        "strides": None if plain else strides,
        "descr": _nameable(dtype.descr) if dtype.descr is not None else [("", dtype.typestr)],
    }
    if tracing.listeners:
        tracing.emit(tracing.Step("array_interface", "export", f"{said!r}"))
    return said


def _nameable(descr: list[Any]) -> list[Any]:
    """Return the fields of a structure, with other names for padding that NumPy would call by the name of a field.

    It calls a field without a name "f1" if it is the second one, and then refuses the structure "i1,f8" of its own.
    """
    names = {name for field in descr for name in (field[0] if type(field[0]) is tuple else field[:1])}
    told: list[Any] = []
    for number, (label, kind, *shape) in enumerate(descr):
        called = f"f{number}"
        if not label and called in names:
            while called in names:
                called += "_"
            label = called
            names.add(called)
        told.append((label, _nameable(kind) if isinstance(kind, list) else kind, *shape))
    return told


def array_interface(view: StridedView) -> dict[str, Any]:
    """Implement `__array_interface__`.

    Raises AttributeError, which means "not offered", if the CPU cannot access the memory, or if NumPy would read
    another dtype from it: then it calls `__array__`.
    """
    if view.dtype.misread:
        raise AttributeError(f"__array_interface__: it has no name for {view.dtype}; use __array__ or memoryview()")
    if not view.is_host_accessible:
        raise AttributeError(
            f"__array_interface__: the CPU cannot access memory on {_place(view)}; download() it first"
        )
    _make_ready(view)
    view._hold()
    said = _interface(view)
    if not said["data"][0]:
        said["data"] = (ctypes.addressof(_NOTHING), view.readonly)  # NumPy accepts null for scalars only since 2.3
    return said


def cuda_array_interface(view: StridedView) -> dict[str, Any]:
    """Implement `__cuda_array_interface__`, version 3; raises AttributeError if no device can access the memory."""
    if not view.is_device_accessible:
        raise AttributeError("__cuda_array_interface__: the device cannot access pageable host memory; upload it first")
    view._hold()
    said = _interface(view)
    said["mask"] = None
    said["stream"] = gpu.pending_handle(view)
    return said


def _make_ready(view: StridedView) -> None:
    """Wait until the CPU may read a view's memory, and check that it is able to."""
    if not view._place.is_host:
        gpu.wait_on_host(view)
    view._check_label()


def _place(view: StridedView) -> str:
    kind, ordinal = view.device
    if ordinal is None:
        return "a device that its exporter did not name"
    return f"{kind} {ordinal}"


def numpy_array(view: StridedView, dtype: Any, copy: bool | None) -> Any:
    """Implement `__array__`, which NumPy calls last; it imports nothing."""
    if not view.is_host_accessible:
        raise TypeError(
            f"a copy from {_place(view)} to the host is never made implicitly: call download(), as in "
            "numpy.asarray(view.download())"
        )
    if "numpy" not in sys.modules:
        raise ImportError("__array__() makes an array of NumPy: import numpy first")
    numpy, own = sys.modules["numpy"], view.dtype
    if own.misread:  # the format of the buffer says less, or means another type to NumPy
        plain = opaque(f"|V{own.itemsize}", own.itemsize, f"|V{own.itemsize}")
        array = numpy.asarray(memory_view(view._derived(view.ptr, view.shape, view.strides, plain))).view(own.dtype)
    else:
        array = numpy.asarray(memory_view(view))
    wanted = array.dtype if dtype is None else numpy.dtype(dtype)
    if copy is False and wanted != array.dtype:
        raise ValueError(f"copy=False, but elements of {own} must be converted to {wanted}: leave copy out")
    return array.astype(wanted, copy=bool(copy))


# -- the buffer protocol

_NOTHING = ctypes.create_string_buffer(64)  # the address of empty arrays where a protocol does not accept null


_WRITABLE, _FORMAT = 1, 4  # PyBUF_WRITABLE, PyBUF_FORMAT


def buffer(view: StridedView, flags: int) -> memoryview:
    """Return the buffer for `__buffer__`.

    flags    of the consumer's request: PyBUF_WRITABLE, PyBUF_FORMAT
    raises   BufferError   as memory_view(); also if the consumer requests the format and NumPy would read another type
                           from it: for example for dates, bfloat16 and vectors
    """
    said = view.dtype.format
    if flags & _FORMAT and (said.endswith("x") or said[0] == "(" or said == "Ze"):
        raise refusal(
            "buffer",
            "dtype",
            str(view.dtype),
            f"has the format {said!r}, which NumPy reads as another type; call view.memoryview() or view.tobytes()",
        )
    return memory_view(view, bool(flags & _WRITABLE))


def memory_view(view: StridedView, writable: bool = False) -> memoryview:
    """Return a memoryview that keeps the view alive, on every version of Python.

    raises   BufferError   the CPU cannot access the memory, or it is read-only and a writable buffer was requested
    """
    where, dtype = view._place, view.dtype
    if not where.is_host and not view.is_host_accessible:
        raise refusal("buffer", "device", _place(view), "cannot be accessed by the CPU; download() it first")
    if writable and where.readonly:
        raise refusal("buffer", "readonly", True, "but a writable buffer was requested; copy the array first")
    _make_ready(view)
    if not dtype.itemsize:
        raise refusal("buffer", "itemsize", 0, "is not a possible item size of a buffer")
    held, shape = view._held(), view.shape
    if 0 in shape:
        address = ctypes.addressof(_NOTHING)
    else:
        address = view.ptr
    # (`kept` exists until the memoryview has its own copy)
    struct, kept = buffer_at(address, shape, view.strides, dtype, where.readonly)
    return memoryview_of(struct, held)
