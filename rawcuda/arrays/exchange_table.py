"""The table of C functions that views export as `__dlpack_c_exchange_api__`.

What it is   `offer`, which makes the table once, on first access: four Python functions behind C pointers, which may
             raise. `dltensor_from_py_object_no_sync` is null, as the protocol allows: a borrowed tensor would need
             memory for its shape that outlives the call.
What not     Nothing is copied, and no function waits: a consumer works on the stream that current_work_stream returns,
             the legacy default stream, which is made to wait for the view's own stream.
Source       dlpack.h 1.3, struct DLPackExchangeAPI
Read next    exporting.py, protocols/dlpack_c_exchange.py: the other side
"""

from __future__ import annotations

import ctypes

from .. import tracing
from ..dlpack import VERSION, Consumed, DLManagedTensorVersioned, DLPackExchangeAPI, DLTensor
from ..elements.dtypes import from_dlpack
from ..elements.layout import MAX_NDIM
from ..errors import refusal
from ..interpreter.callback import available, raising
from ..interpreter.cpython import bind, immortal
from ..protocols.device_memory import gpu
from ..protocols.tensor import BY_CAPSULE, describe_tensor
from .exporting import lend_view

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .strided import StridedView

__all__ = ["offer"]

_CUDA_TYPES = (2, 13)  # kDLCUDA, kDLCUDAManaged
_NAME = ctypes.create_string_buffer(b"dlpack_exchange_api")
_SetError = ctypes.PYFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p)
_kept: list[Any] = []


def offer(kind: type[StridedView]) -> Any:
    """Return the capsule with the table, always the same one; it lives as long as the process.

    kind    the class of the table, and of the arrays that are made for consumers

    raises  AttributeError   this interpreter does not support callbacks that raise, so there is no table
    """
    if not available():
        raise AttributeError("__dlpack_c_exchange_api__: not on this interpreter; use __dlpack__")
    if not _kept:
        functions = [_allocator(kind), _from_py_object(kind), _to_py_object(kind), _current_work_stream()]
        pointers = [ctypes.cast(function, ctypes.c_void_p).value for function in functions]
        table = DLPackExchangeAPI()
        table.header.version.major, table.header.version.minor = VERSION
        (
            table.managed_tensor_allocator,
            table.managed_tensor_from_py_object_no_sync,
            table.managed_tensor_to_py_object_no_sync,
            table.current_work_stream,
        ) = pointers
        immortal((table, functions, _NAME))
        new = bind("PyCapsule_New", ctypes.py_object, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
        _kept.append(new(ctypes.addressof(table), ctypes.addressof(_NAME), None))
    return _kept[0]


def _from_py_object(kind: type[StridedView]) -> Any:
    @raising(ctypes.c_int, ctypes.py_object, ctypes.c_void_p)
    def managed_tensor_from_py_object_no_sync(thing: Any, out: int) -> int:
        if not isinstance(thing, kind):
            raise refusal(
                "dlpack_c_exchange", "py_object", type(thing).__name__, "is not of the type that this table belongs to"
            )
        ctypes.c_size_t.from_address(out).value = lend_view(thing)
        return 0

    return managed_tensor_from_py_object_no_sync


def _to_py_object(kind: type[StridedView]) -> Any:
    retain = bind("Py_IncRef", None, ctypes.py_object)

    @raising(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
    def managed_tensor_to_py_object_no_sync(address: int, out: int) -> int:
        # We own the tensor from here on and must delete it, even if it is refused.
        owner = Consumed(address, DLManagedTensorVersioned.from_address(address).deleter or 0)
        made = describe_tensor(kind, BY_CAPSULE, owner, address)
        if not made._place.is_host:
            gpu.finish_view(made, None)
        retain(made)
        ctypes.c_size_t.from_address(out).value = id(made)
        if tracing.listeners:
            tracing.emit(tracing.Step("dlpack_c_exchange", "to_py_object", f"-> {made!r}"))
        return 0

    return managed_tensor_to_py_object_no_sync


def _current_work_stream() -> Any:
    @raising(ctypes.c_int, ctypes.c_int32, ctypes.c_int32, ctypes.c_void_p)
    def current_work_stream(device: int, ordinal: int, out: int) -> int:
        if device in _CUDA_TYPES:  # the legacy default stream; none
            ctypes.c_size_t.from_address(out).value = 1
        else:
            ctypes.c_size_t.from_address(out).value = 0
        return 0

    return current_work_stream


def _allocator(kind: type[StridedView]) -> Any:
    @raising(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
    def managed_tensor_allocator(prototype: int, out: int, context: int, set_error: int) -> int:
        try:
            ctypes.c_size_t.from_address(out).value = lend_view(_allocate(kind, DLTensor.from_address(prototype)))
        except Exception as error:  # reported as the protocol defines it; an error of Python that this sets is raised
            _SetError(set_error)(context, type(error).__name__.encode(), str(error).encode("utf-8", "replace"))
            return -1
        return 0

    return managed_tensor_allocator


def _allocate(kind: type[StridedView], wanted: DLTensor) -> StridedView:
    """Return a new array with the dtype, shape and device of a DLTensor."""
    if not 0 <= wanted.ndim <= MAX_NDIM:
        raise refusal("dlpack_c_exchange", "prototype.ndim", wanted.ndim, f"must be in 0 .. {MAX_NDIM}")
    shape: tuple[int, ...] = ()
    if wanted.ndim:
        shape = tuple((ctypes.c_int64 * wanted.ndim).from_address(wanted.shape))
    dtype = from_dlpack(wanted.dtype.code, wanted.dtype.bits, wanted.dtype.lanes)
    where, ordinal = wanted.device.device_type, wanted.device.device_id
    if any(n < 0 for n in shape) or dtype.packed:
        raise refusal("dlpack_c_exchange", "prototype", (str(dtype), shape), "cannot be allocated")
    if where == 1:
        return kind._empty_host(shape, dtype)
    if where == 2:
        return gpu.empty_on(ordinal, shape, dtype)  # type: ignore[no-any-return]
    raise refusal("dlpack_c_exchange", "prototype.device", (where, ordinal), "is neither host nor CUDA memory")
