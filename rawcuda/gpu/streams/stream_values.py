"""Values in memory that a stream waits for or writes: signals between streams, devices and the host.

What it is   the methods wait_value(), write_value() and batch() of Stream.
How          The value is an integer of 32 or 64 bits: an element of a view, the beginning of a Memory or of other
             bytes, or an address. All arguments are checked before the first call.
What not     the driver does not know such waits as dependencies between streams. Where the order of work could lead to
             a deadlock, use events in addition.
Source       CUDA Driver API, "Stream Memory Operations"
Read next    stream_attributes.py
"""

from __future__ import annotations

import ctypes

from ...arguments import as_bool, as_int, as_list
from ...arrays.strided import StridedView, view
from ...driver import as_argument
from ...errors import CudaError, refusal, unsupported, worded
from ...headers import cuda_h
from ...protocols.description import Bytes
from ...protocols.device_memory import gpu
from ..core.context import access_remedy, reaches
from ..core.stream_arguments import home_of_call, keep_ours

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..core.context import PrimaryContext
    from ..core.stream_arguments import StreamHandle

__all__ = ["batch", "wait_value", "write_value"]

_CONDITIONS = {">=": 0, "==": 1, "&": 2, "nor": 3, "geq": 0, "eq": 1, "and": 2}  # CU_STREAM_WAIT_VALUE_...
_FLUSH = 1 << 30  # CU_STREAM_WAIT_VALUE_FLUSH
_WAIT, _WRITE, _BARRIER = {4: 1, 8: 4}, {4: 2, 8: 5}, 6  # CU_STREAM_MEM_OP_..., by width in bytes
_MOST = 256  # operations in a batch


class _Operation:
    """A checked operation: kind (CU_STREAM_MEM_OP_...), address, value, flags, width; and what owns the memory."""

    __slots__ = ("kind", "address", "value", "flags", "width", "seen")

    def __init__(self, kind: int, address: int = 0, value: int = 0, flags: int = 0, width: int = 4) -> None:
        self.kind, self.address, self.value, self.flags, self.width = kind, address, value, flags, width
        self.seen: StridedView | None = None

    def reread(self) -> None:
        """Raise Closed if the code of a later argument has closed the memory."""
        if self.seen is not None:
            self.seen.ptr


def wait_value(stream: StreamHandle, where: object, value: object, how: object, bits: int | None, flush: bool) -> None:
    """Make later work on a stream wait until a value in memory meets a condition.

    calls   cuStreamWaitValue32_v2, cuStreamWaitValue64_v2
    """
    step = _wait(stream, where, value, how, bits, flush)
    _queue_one(stream, "cuStreamWaitValue32_v2" if step.width == 4 else "cuStreamWaitValue64_v2", step)


def write_value(stream: StreamHandle, where: object, value: object, bits: int | None) -> None:
    """Write a value to memory when the earlier work of a stream is done.

    calls   cuStreamWriteValue32_v2, cuStreamWriteValue64_v2
    """
    step = _write(stream, where, value, bits)
    _queue_one(stream, "cuStreamWriteValue32_v2" if step.width == 4 else "cuStreamWriteValue64_v2", step)


def batch(stream: StreamHandle, operations: Iterable[object]) -> None:
    """Queue several waits and writes with one call.

    calls   cuStreamBatchMemOp_v2
    raises  ValueError  an unknown operation; nothing is queued then
    """
    asked = as_list("operations", operations, "operations")
    steps = [_one_of(stream, number, operation) for number, operation in enumerate(asked)]
    if len(steps) > _MOST:
        raise ValueError(f"a batch of {len(steps)} operations: at most {_MOST} are possible, so use several batches")
    if not steps:
        stream.handle  # raises Closed
        return
    array = (cuda_h.CUstreamBatchMemOpParams * len(steps))()
    for parameters, step in zip(array, steps):
        step.reread()
        parameters.operation = step.kind
        if step.kind != _BARRIER:
            one = parameters.waitValue if step.kind in _WAIT.values() else parameters.writeValue
            one.operation, one.address, one.value64, one.flags = step.kind, step.address, step.value, step.flags
    _queue(stream, "cuStreamBatchMemOp_v2", (ctypes.c_uint(len(steps)), array, ctypes.c_uint(0)), steps)


def _one_of(stream: StreamHandle, number: int, operation: object) -> _Operation:
    """Check one operation of a batch: ("wait", where, value[, how]), ("write", where, value) or ("barrier",)."""
    if not isinstance(operation, tuple) or not operation or not isinstance(operation[0], str):
        raise TypeError(
            f"operation {number} of the batch is {worded(operation)}: give a tuple, such as "
            '("wait", where, value, ">=") or ("write", where, value)'
        )
    name, *rest = operation
    try:
        if name == "wait" and len(rest) in (2, 3):
            return _wait(stream, rest[0], rest[1], rest[2] if len(rest) == 3 else ">=", None, False)
        if name == "write" and len(rest) == 2:
            return _write(stream, rest[0], rest[1], None)
        if name == "barrier" and not rest:
            return _Operation(_BARRIER)
    except (TypeError, ValueError) as error:
        error.args = (f"operation {number} of the batch: {error}", *error.args[1:])
        raise
    raise ValueError(
        f"operation {number} of the batch is {worded(name)} with {len(rest)} more item{'s' * (len(rest) != 1)}: "
        'give ("wait", where, value[, how]), ("write", where, value) or ("barrier",)'
    )


def _wait(stream: StreamHandle, where: object, value: object, how: object, bits: int | None, flush: bool) -> _Operation:
    flags = _CONDITIONS.get(how) if isinstance(how, str) else None
    if flags is None:
        raise ValueError(f'how={worded(how)}: a condition is one of ">=", "==", "&" and "nor"')
    step = _place(stream, where, value, bits)
    if flags == 3:
        _require(stream, "CAN_USE_STREAM_WAIT_VALUE_NOR", 'how="nor"')
    if as_bool("flush", flush):
        _require(stream, "CAN_FLUSH_REMOTE_WRITES", "flush=True")
        flags |= _FLUSH
    step.kind, step.flags = _WAIT[step.width], flags
    return step


def _write(stream: StreamHandle, where: object, value: object, bits: int | None) -> _Operation:
    step = _place(stream, where, value, bits, 3)
    step.kind = _WRITE[step.width]
    return step


def _place(stream: StreamHandle, where: object, value: object, bits: int | None, needed: int = 1) -> _Operation:
    """Find the address and the width of a value, and check both.

    needed  the access of the device: 1 to read, 3 to write
    """
    if bits is not None:
        bits = as_int("bits", bits)
        if bits not in (32, 64):
            raise ValueError(f"bits={worded(bits)}: a value has 32 or 64 bits")
    seen = None
    # (arrays of other libraries have __index__, too, and NumPy's numbers are exporters)
    if hasattr(type(where), "__index__") and not hasattr(type(where), "__setitem__") and not isinstance(where, bool):
        address, width = as_int("where", where), (bits or 32) // 8
        if not 0 < address < 2**64:
            raise ValueError(f"{worded(address)} is not an address")
    else:
        seen = where if isinstance(where, StridedView) else view(where, stream=-1)  # -1: no ordering
        width = _width_of(seen, bits)
        if needed == 3 and seen.readonly:
            raise refusal(seen.protocol, "readonly", True, "the memory is read-only, so no value can be written to it")
        _check_place(stream, seen, needed)
        address = seen.ptr
    number = _number(value, width)
    if address % width:
        raise ValueError(f"address {address:#x} is not a multiple of {width}, as a value of {8 * width} bits requires")
    if width == 8:
        _require(stream, "CAN_USE_64_BIT_STREAM_MEM_OPS", "a value of 64 bits")
    step = _Operation(0, address, number, width=width)
    step.seen = seen
    return step


def _width_of(seen: StridedView, bits: int | None) -> int:
    """Return the size of the value that a view contains."""
    name, itemsize = seen.dtype.name, seen.itemsize
    if name in ("uint8", "int8"):  # bytes: a Memory, or a buffer
        width = (bits or 32) // 8
        if seen.nbytes < width or not seen.is_c_contiguous:
            raise ValueError(f"a value of {8 * width} bits does not fit into {seen.nbytes} bytes")
        return width
    if name not in ("int32", "uint32", "int64", "uint64"):
        raise TypeError(
            f"elements of {name} cannot be waited for or written in stream order: give a view of int32, uint32, int64 "
            'or uint64, for instance view.reinterpret("uint32")'
        )
    if bits is not None and bits != 8 * itemsize:
        raise ValueError(f"bits={bits}, but the elements are {name}: leave bits out")
    if seen.size != 1:
        raise ValueError(f"the view has {seen.size} elements: give a view of the one to use, such as view[0]")
    return itemsize


def _check_place(stream: StreamHandle, seen: StridedView, needed: int) -> None:
    kind, ordinal = seen.device
    if kind == "cpu":
        raise ValueError(
            'the value is in host memory that no device can access: allocate it with kind="pinned" or on the device'
        )
    if kind == "cuda_managed":
        raise ValueError(
            "the value is in managed memory, where the driver cannot wait for it or write it: use pinned memory"
        )
    ours, owner = stream._primary, seen.owner
    if ours is None:
        return
    if isinstance(owner, Bytes):
        if owner._handle is None or owner._access_from(ours.ordinal) >= needed:  # (a closed one has no address)
            return
        ordinal, remedy = owner.device.ordinal, owner._remedy(ours.ordinal)
    else:
        if kind != "cuda" or ordinal is None or reaches(ours.ordinal, ordinal, seen.ptr) >= needed:
            return
        remedy = access_remedy(ours.ordinal, ordinal, seen.ptr)
    raise ValueError(f"the value is on device {ordinal}, to which device {ours.ordinal} was not given access: {remedy}")


def _number(value: object, width: int) -> int:
    """Return a value as an unsigned number of its width."""
    number = as_int("value", value)
    if not -(1 << 8 * width - 1) <= number < 1 << 8 * width:
        raise ValueError(f"{worded(number)} does not fit into {8 * width} bits")
    return number & (1 << 8 * width) - 1


def _require(stream: StreamHandle, attribute: str, what: str) -> None:
    """Raise Unsupported if the stream's device lacks a feature; for a borrowed stream, only the driver can tell."""
    device = stream.device
    if device is not None and not device.attribute(attribute):
        raise unsupported(
            f"{what}: device {device.ordinal} does not support it (its attribute {attribute} is 0)",
        )


def _queue_one(stream: StreamHandle, symbol: str, step: _Operation) -> None:
    step.reread()
    value = ctypes.c_uint(step.value) if step.width == 4 else ctypes.c_uint64(step.value)
    _queue(stream, symbol, (as_argument(step.address), value, ctypes.c_uint(step.flags)), [step])


def _queue(stream: StreamHandle, symbol: str, arguments: tuple[object, ...], steps: list[_Operation]) -> None:
    """Make the call that queues operations, and keep their memory until the stream has completed them."""
    queue, home = stream._argument or stream._prepare(), None
    if any([step.seen is not None for step in steps]):
        home = home_of_call(stream)
    try:
        getattr(stream._calls, symbol)(queue, *arguments)
        _keep_each(home, stream, steps)
    except BaseException as error:
        if not isinstance(error, CudaError):  # the driver may have accepted the call before the interrupt
            _keep_each(home, stream, steps)
        raise


def _keep_each(home: PrimaryContext | None, stream: StreamHandle, steps: list[_Operation]) -> None:
    """Keep memory until the stream has completed the operations, if its close() would not wait for that.

    home  the context of the stream
    """
    for step in steps:
        if home is None or step.seen is None:
            continue
        if isinstance(step.seen.owner, Bytes):
            keep_ours(home, stream, step.seen)
        else:
            gpu.keep_foreign(home, stream, step.seen)
