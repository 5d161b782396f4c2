"""Read DLPack by a type's table of C functions, without a capsule: `__dlpack_c_exchange_api__`.

The protocol  an attribute of the type, a capsule named "dlpack_exchange_api" with the table's address; header version 1.2 called it
              `__c_dlpack_exchange_api__`, and an int was as good. The table is for objects of exactly that type. Its functions
              are called with the GIL held, return 0 or -1 with an exception set, and synchronise nothing: whoever asks also
              asks for the stream that is at work.
For whom      unasked only torch's own tensors go this way, which is four times as fast as their `__dlpack__`. The table checks
              nothing, so what `Tensor.__dlpack__` refuses, and what it forgets to (the negative bit), is checked here first.
Source        dlpack.h 1.3, struct DLPackExchangeAPI; array API standard (draft), `__dlpack_c_exchange_api__`
Read next     strided.py
"""

from __future__ import annotations

import ctypes
import sys

from .. import tracing
from ..dlpack import VERSION, Consumed, is_capsule
from ..errors import refusal
from ..interpreter.cpython import bind, reader
from .description import Description
from .dlpack import describe_fields, describe_tensor, meet, read_legacy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .dlpack import Kind

__all__ = ["NAME", "Table", "check_torch", "describe", "describe_host_tensor", "is_torch", "table_of"]

NAME = "dlpack_c_exchange"
_CAPSULE_NAME = b"dlpack_exchange_api"
_CUDA, _CUDA_MANAGED, _LEGACY, _COMPLEX = 2, 13, 1, 5

_get_pointer = bind("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
_read_header = reader("IIQ")
_read_functions = reader("16xQQQQQ")
_read_deleter = reader("16xQ")
_ByObject = ctypes.PYFUNCTYPE(ctypes.c_int)  # of a py_object and an address: without declared types, a call costs less
_ByDevice = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int32, ctypes.c_int32, ctypes.c_void_p)


class Table:
    """A type's functions: `own` fills in a managed tensor's address, `borrow` a DLTensor, `stream` the one at work."""

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
        self.capsule = capsule  # the table lives as long as the process; this does no harm


def table_of(kind: type) -> Table | None:
    """Return the table of a type, None where there is none.

    raises   ProtocolError   neither a capsule of that name nor an address; no table of major version 1
    """
    offered: Any = None
    for name in ("__dlpack_c_exchange_api__", "__c_dlpack_exchange_api__"):
        # A subclass may mean anything by its memory, so the attribute is to be the type's own; but torch's Parameter has
        # Tensor's, and is a Tensor to the letter.
        if offered is None and (name in kind.__dict__ or is_torch(kind)):
            offered = getattr(kind, name, None)
    if offered is None:
        return None
    if is_capsule(offered):
        try:
            address = _get_pointer(offered, _CAPSULE_NAME)
        except ValueError:
            raise refusal(
                NAME, "capsule.name", offered, 'is not "dlpack_exchange_api"; the exporter is at fault'
            ) from None
    elif isinstance(offered, int) and 0xFFF < offered < 2**63:
        address = offered
    else:
        raise refusal(NAME, "__dlpack_c_exchange_api__", offered, "is a capsule; the exporter is at fault")
    seen = 0
    while address and seen < 100:  # newer tables lead to older ones
        major, _, previous = _read_header(address)
        if major == VERSION[0]:
            return Table(address, offered)
        address, seen = previous, seen + 1
    raise refusal(NAME, "header.version.major", major, "is not 1, and leads to no table that is; use protocol='dlpack'")


# -- torch

_tables: dict[type, Table | None] = {}  # of torch's own two types only
_spare: list[tuple[int, Any]] = []  # DLTensors to be filled in: (address, the struct as an argument)


def _struct() -> tuple[int, Any]:
    """Return a DLTensor that nobody else fills in."""
    try:
        return _spare.pop()
    except IndexError:
        struct = ctypes.create_string_buffer(48)
        return ctypes.addressof(struct), ctypes.c_void_p.from_param(struct)


def is_torch(kind: type) -> bool:
    """Tell whether a type is exactly one of torch's own: a subclass may mean anything by its memory."""
    torch = sys.modules.get("torch")
    return torch is not None and (
        kind is getattr(torch, "Tensor", None) or kind is getattr(getattr(torch, "nn", None), "Parameter", None)
    )


def check_torch(tensor: Any) -> None:
    """Refuse a torch tensor whose memory is not what its elements say.

    raises   ProtocolError   it is sparse, requires a gradient, or is to be conjugated or negated when it is read
    """
    if str(tensor.layout) != "torch.strided":
        raise refusal("dlpack", "layout", str(tensor.layout), "is not strided memory; view tensor.to_dense()")
    if tensor.requires_grad:
        raise refusal("dlpack", "requires_grad", True, "the view would bypass autograd; view tensor.detach()")
    if tensor.is_conj():
        raise refusal("dlpack", "is_conj", True, "the memory holds the conjugate; view tensor.resolve_conj()")
    if tensor.is_neg():
        raise refusal("dlpack", "is_neg", True, "the memory holds the negative; view tensor.resolve_neg()")


def describe(exporter: Any, kind: type[Description] = Description) -> Description | None:
    """Describe what the table of the exporter's type says, or return None where there is none.

    kind     the class to make, with Description's arguments
    returns  a Description whose stream is the handle of the stream at work, for CUDA memory
    raises   ProtocolError            a field that no view can have; a torch tensor whose memory is not what it says
             RuntimeError and others  the exporter's own
    """
    type_ = type(exporter)
    torch = is_torch(type_)
    if torch:
        if type_ not in _tables:
            _tables[type_] = table_of(type_)
        table = _tables[type_]
    else:
        table = table_of(type_)
    if table is None:
        return None
    if torch:
        check_torch(exporter)
    if torch and table.borrow is not None:
        made = _borrowed(exporter, table.borrow, kind)
    else:
        made = _owned(exporter, table, kind)
    device, ordinal = made._place.device or ("cpu", 0)
    if device in ("cuda", "cuda_managed") and ordinal is not None:
        made.stream = _stream_at_work(table, _CUDA if device == "cuda" else _CUDA_MANAGED, ordinal)
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


_host: dict[Any, Kind] = {}  # what the short way has seen
_unpack, _window, _new, _by_value = read_legacy.func, read_legacy.args[0], object.__new__, ctypes.py_object


def describe_host_tensor(tensor: Any, kind: type[Description] = Description) -> Description | None:
    """Describe one of torch's own tensors the short way; None leaves it to describe(), as it does CUDA tensors."""
    if tensor.requires_grad or tensor.is_neg():
        return None
    try:
        struct = _spare.pop()
        if _tables[type(tensor)].borrow(_by_value(tensor), struct[1]):  # type: ignore[union-attr, misc]
            return None
        data, what, shape, strides, offset = _unpack(_window, struct[0])
        _spare.append(struct)
        if what[12] == _COMPLEX and tensor.is_conj():  # only of complex numbers: torch's TensorImpl::_set_conj
            return None
        try:
            apart, numbers, sized, known, work_out = _host[what]
        except KeyError:
            apart, numbers, sized, known, work_out = meet(_host, 0, what, NAME, strides - shape)
        if strides - shape != apart:
            return None
        made = _new(kind)
        seen = numbers(sized, shape)
        try:
            made.shape, made.strides, made.dtype, made._place = known[seen]
        except KeyError:
            made.shape, made.strides, made.dtype, made._place = work_out(seen)
        if not data and 0 not in made.shape:
            return None
    except Exception:  # not exportable, not in host memory, or every struct in use
        return None
    made.ptr = data + offset
    made.owner = tensor.untyped_storage()
    made.stream = None
    return made


def _borrowed(tensor: Any, borrow: Any, kind: type[Description]) -> Description:
    """Describe a tensor by the call that gives nothing away.

    Its shape and strides are the tensor's own and are copied at once. The memory is the storage's: the tensor may get
    another one (tensor.data = ...), so it is the storage that is held.
    """
    owner = tensor.untyped_storage()
    address, struct = _struct()
    if borrow(_by_value(tensor), struct):
        raise refusal(NAME, "dltensor_from_py_object_no_sync", -1, "failed without an exception; use protocol='dlpack'")
    made = describe_fields(owner, kind, NAME, 0, *read_legacy(address))
    if len(_spare) < 8:
        _spare.append((address, struct))
    return made


def _owned(exporter: Any, table: Table, kind: type[Description]) -> Description:
    """Describe an object by the call that gives a managed tensor, which is ours to delete."""
    out = ctypes.c_uint64()
    if table.own(_by_value(exporter), ctypes.byref(out)) or not out.value:
        raise refusal(
            NAME, "managed_tensor_from_py_object_no_sync", -1, "failed without an exception; use protocol='dlpack'"
        )
    owner = Consumed(out.value, _read_deleter(out.value)[0])
    return describe_tensor(out.value, True, owner, kind, protocol=NAME)


def _stream_at_work(table: Table, device: int, ordinal: int) -> int:
    """Return the handle of the stream that the exporter works on; its null is the legacy default stream."""
    out = ctypes.c_uint64()
    if table.stream(device, ordinal, ctypes.addressof(out)):
        raise refusal(NAME, "current_work_stream", -1, "failed without an exception; use protocol='dlpack'")
    return out.value or _LEGACY
