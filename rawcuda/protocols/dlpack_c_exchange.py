"""Reading DLPack by a type's table of C functions, without a capsule: `__dlpack_c_exchange_api__`.

The protocol  An attribute of the type, a capsule named "dlpack_exchange_api" with the table's address; header version
              1.2 called it `__c_dlpack_exchange_api__`, and accepted an int. The table is for objects of exactly that
              type. Its functions are called with the GIL held, return 0, or -1 with an exception set, and do not
              synchronize: the caller must also ask for the current stream.
For whom      If no protocol is named, only torch's own tensors are read in this way, which is four times as fast as
              their `__dlpack__`. The table checks nothing, so the conditions that `Tensor.__dlpack__` refuses, and one
              that it fails to refuse (the negative bit), are checked here.
Source        dlpack.h 1.3, struct DLPackExchangeAPI; array API standard (draft), `__dlpack_c_exchange_api__`
Read next     arrays/strided.py
"""

from __future__ import annotations

import ctypes
import sys

from .. import tracing
from ..dlpack import (
    VERSION,
    Consumed,
    DLManagedTensorVersioned,
    DLPackExchangeAPIHeader,
    identify,
    is_capsule,
)
from ..errors import protecting, refusal
from ..interpreter.cpython import bind, reader
from ..interpreter.peeking import peek
from ..remembered import Remembered
from .description import HOST, Description, describe_as, place
from .tensor import BY_CAPSULE, BY_TABLE, NO_FLAGS, Moved, describe_tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["NAME", "Table", "check_torch", "describe", "is_torch", "reader_by_capsule", "reader_for_torch", "table_of"]

NAME = "dlpack_c_exchange"
_CAPSULE_NAME = b"dlpack_exchange_api"
_CUDA, _CUDA_MANAGED, _LEGACY, _COMPLEX = 2, 13, 1, 5

_get_pointer = bind("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
_read_header = reader("IIP")
_read_functions = reader(f"{ctypes.sizeof(DLPackExchangeAPIHeader)}x5P")
_read_deleter = reader(f"{DLManagedTensorVersioned.deleter.offset}xP")
_ByObject = ctypes.PYFUNCTYPE(ctypes.c_int)  # of a py_object and an address: without declared types, a call is faster
_ByDevice = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int32, ctypes.c_int32, ctypes.c_void_p)


class Table:
    """The functions of a type: `own` gives a managed tensor, `borrow` a DLTensor, `stream` the current stream."""

    __slots__ = ("own", "borrow", "stream", "capsule")

    def __init__(self, address: int, capsule: Any) -> None:
        _, own, _, borrow, stream = _read_functions(address)
        if not own or not stream:
            raise refusal(
                NAME,
                "managed_tensor_from_py_object_no_sync" if not own else "current_work_stream",
                0,
                "is a null pointer; the exporter is at fault",
            )
        self.own, self.stream = _ByObject(own), _ByDevice(stream)
        self.borrow = _ByObject(borrow) if borrow else None
        self.capsule = capsule  # the table should live as long as the process; holding the capsule is harmless


_ATTRIBUTES = "__dlpack_c_exchange_api__", "__c_dlpack_exchange_api__"


def table_of(kind: type) -> Table | None:
    """Return the table of a type, or None if it has none.

    raises   ProtocolError   neither a capsule of that name nor an address, or no table of major version 1
    """
    offered: Any = None
    for name in _ATTRIBUTES:
        # The memory of a subclass may have another meaning, so the attribute must be the type's own; but torch's
        # Parameter inherits Tensor's, and has the same memory.
        if offered is None and (name in kind.__dict__ or is_torch(kind)):
            offered = getattr(kind, name, None)
    if offered is None:
        return None
    known = _tables.answers.get(id(offered))
    if known is not None:
        return known
    if is_capsule(offered):
        try:
            address = _get_pointer(offered, _CAPSULE_NAME)
        except ValueError:
            raise refusal(
                NAME, "capsule.name", offered, 'is not "dlpack_exchange_api"; the exporter is at fault'
            ) from None
    elif isinstance(offered, int) and 0xFFF < offered < 2**63 and peek(offered, 56):
        address = offered
    else:
        raise refusal(NAME, "__dlpack_c_exchange_api__", offered, "must be a capsule; the exporter is at fault")
    seen = 0
    while address and seen < 100:  # newer tables point to older ones
        major, _, previous = _read_header(address)
        if major == VERSION[0]:
            table = Table(address, offered)
            if is_capsule(offered):
                return _tables.keep(id(offered), table)
            return table
        address, seen = previous, seen + 1
    raise refusal(NAME, "header.version.major", major, "is not 1, and no older table is; use protocol='dlpack'")


# The tables in capsules, by the id of the capsule, which the Table keeps alive. Making one takes 3,000 ns.
_tables: Remembered[int, Table] = Remembered(64)


# -- torch

_spare: list[tuple[int, Any]] = []  # unused DLTensors: (address, the struct as an argument)
_by_value: Any = ctypes.py_object


def _struct() -> tuple[int, Any]:
    """Return a DLTensor for this thread alone."""
    try:
        return _spare.pop()
    except IndexError:
        struct = ctypes.create_string_buffer(48)
        return ctypes.addressof(struct), ctypes.c_void_p.from_param(struct)


def is_torch(kind: type) -> bool:
    """Tell whether a type is exactly one of torch's own; the memory of a subclass may have another meaning."""
    torch = sys.modules.get("torch")
    return torch is not None and (
        kind is getattr(torch, "Tensor", None) or kind is getattr(getattr(torch, "nn", None), "Parameter", None)
    )


def check_torch(tensor: Any) -> None:
    """Refuse a torch tensor whose memory does not hold the values of its elements.

    raises   ProtocolError   it is sparse, requires a gradient, or must be conjugated or negated when it is read
    """
    if str(tensor.layout) != "torch.strided":
        raise protecting("dlpack", "layout", str(tensor.layout), "is not strided memory; view tensor.to_dense()")
    if tensor.requires_grad:
        raise protecting("dlpack", "requires_grad", True, "the view would bypass autograd; view tensor.detach()")
    if tensor.is_conj():
        raise protecting("dlpack", "is_conj", True, "the memory holds the conjugate; view tensor.resolve_conj()")
    if tensor.is_neg():
        raise protecting("dlpack", "is_neg", True, "the memory holds the negative; view tensor.resolve_neg()")


def describe(exporter: Any, kind: type[Description] = Description, stream: Any = None) -> Description | None:
    """Describe the exporter's memory by the table of its type, or return None if there is none.

    kind     the class to make
    returns  a Description; for CUDA memory its stream is the handle of the exporter's current stream
    raises   ProtocolError            a field that is not possible in a view
             RuntimeError and others  raised by the exporter
    """
    type_ = type(exporter)
    table = table_of(type_)
    if table is None:
        return None
    if is_torch(type_) and table.borrow is not None:
        made = _borrowed(exporter, table.borrow, kind)
    else:
        made = _owned(exporter, table, kind)
    device, ordinal = made._place.device or ("cpu", 0)
    if device in ("cuda", "cuda_managed") and ordinal is not None:
        pending = _stream_at_work(table, _CUDA if device == "cuda" else _CUDA_MANAGED, ordinal)
        made = describe_as(
            kind._streamed, made.ptr, made.shape, made.strides, made.dtype, made._place, made._owner, pending
        )
    if tracing.listeners:
        tracing.emit(
            tracing.Step(
                NAME,
                f"{type_.__name__}'s table",
                f"-> device {made._place.device}, shape {made.shape}, "
                f"strides {made.strides}, {made.dtype}, stream {made.stream}",
            )
        )
    return made


def reader_for_torch(type_: type, read_any: Any) -> Any:
    """Return a reader for one of torch's own types, or None if its table cannot lend a tensor.

    Measured on 3.11: 600 ns of 2,000 are saved against describe() with its checks.

    read_any   the reader for tensors that this one refuses, for CUDA memory, and while there are listeners
    """
    table = table_of(type_)
    if table is None or table.borrow is None:
        return None
    borrow, listeners, offered = table.borrow, tracing.listeners, table.capsule
    name = next(name for name in _ATTRIBUTES if getattr(type_, name, None) is offered)

    def read(tensor: Any, kind: type[Description], stream: Any = None) -> Description | None:
        if not (tensor.requires_grad or tensor.is_neg() or listeners) and getattr(type_, name, None) is offered:
            try:  # _borrowed(), inlined; read_any() handles storages that move meanwhile, and every refusal
                address, struct = spare = _spare.pop() if _spare else _struct()
                if not borrow(_by_value(tensor), struct):
                    storage = tensor.untyped_storage()
                    made = describe_tensor(kind, BY_TABLE, storage, address, 0, storage)
                    _spare.append(spare)
                    # only complex numbers can be conjugated: TensorImpl::_set_conj
                    if made._place.is_host and not (made.dtype.code == _COMPLEX and tensor.is_conj()):
                        return made
            except Exception:
                pass
        return read_any(tensor, kind, stream)  # type: ignore[no-any-return]

    return read


def reader_by_capsule(type_: type, read_any: Any) -> Any:
    """Return a reader for torch's tensors by DLPack, also for subclasses that change nothing of it, or None.

    torch's public C function makes the capsule. `Tensor.__dlpack__`, which calls it, takes 2,700 ns of Python code, and
    20,000 ns for a subclass, whose attributes are looked up through `__torch_function__`.

    read_any   the reader that tries all protocols, for tensors that this one refuses, and while there are listeners
    """
    torch: Any = sys.modules["torch"]
    to_dlpack = getattr(getattr(getattr(torch, "utils", None), "dlpack", None), "to_dlpack", None)
    plainly = getattr(getattr(torch, "_C", None), "DisableTorchFunctionSubclass", None)
    if to_dlpack is None or plainly is None:
        return None
    listeners, base = tracing.listeners, torch.Tensor
    names = "__dlpack__", "__dlpack_device__", "__dlpack_c_exchange_api__", "__getattribute__", "__torch_dispatch__"
    plain = [getattr(base, name, None) for name in names]
    functions = base.__torch_function__.__func__, torch._C._disabled_torch_function_impl  # the latter is Parameter's

    def read(tensor: Any, kind: type[Description], stream: Any = None) -> Description | None:
        its: Any = type(tensor)
        if (
            not listeners
            and [getattr(its, name, None) for name in names] == plain
            and getattr(its.__torch_function__, "__func__", its.__torch_function__) in functions
            and not {"__dlpack__", "__dlpack_device__"}.intersection(tensor.__dict__)
        ):
            with plainly():
                fits = tensor.is_cpu and not (
                    tensor.requires_grad or tensor.is_conj() or tensor.is_neg() or tensor.is_pinned()
                )
                capsule = None
                if fits and tensor.layout is torch.strided:
                    capsule = to_dlpack(tensor)
            if capsule is not None:
                address, versioned = identify(capsule)
                made = describe_tensor(kind, BY_CAPSULE, capsule, address, None if versioned else NO_FLAGS)
                if made._place.is_host:
                    made._place = _WRITABLE
                    return made
        return read_any(tensor, kind, stream)  # type: ignore[no-any-return]

    return read


_WRITABLE = place(HOST, False, "dlpack")


def _borrowed(tensor: Any, borrow: Any, kind: type[Description]) -> Description:
    """Describe a torch tensor by the function that only lends a DLTensor.

    Its shape and strides belong to the tensor and are copied immediately. The memory belongs to the storage, which the
    view holds. Another thread may give the tensor another storage (`tensor.data = ...`) meanwhile. So the storage is
    fetched after the tensor was read, and must contain all of its elements; otherwise the read is repeated.
    """
    address, struct = spare = _struct()
    for _ in range(100):
        if borrow(_by_value(tensor), struct):
            raise refusal(
                NAME, "dltensor_from_py_object_no_sync", -1, "failed without an exception; use protocol='dlpack'"
            )
        storage = tensor.untyped_storage()
        try:
            made = describe_tensor(kind, BY_TABLE, storage, address, 0, storage)
        except Moved:
            continue
        _spare.append(spare)
        return made
    raise refusal(NAME, "data", type(tensor).__name__, "is not in its storage; do not change it while it is viewed")


def _owned(exporter: Any, table: Table, kind: type[Description]) -> Description:
    """Describe an object by the function that returns a managed tensor, which we must delete."""
    out = ctypes.c_size_t()
    if table.own(_by_value(exporter), ctypes.byref(out)) or not out.value:
        raise refusal(
            NAME, "managed_tensor_from_py_object_no_sync", -1, "failed without an exception; use protocol='dlpack'"
        )
    owner = Consumed(out.value, _read_deleter(out.value)[0])
    return describe_tensor(kind, BY_TABLE, owner, out.value)


def _stream_at_work(table: Table, device: int, ordinal: int) -> int:
    """Return the handle of the exporter's current stream; null means the legacy default stream."""
    out = ctypes.c_size_t()
    if table.stream(device, ordinal, ctypes.addressof(out)):
        raise refusal(NAME, "current_work_stream", -1, "failed without an exception; use protocol='dlpack'")
    return out.value or _LEGACY
