"""Memory: device, stream-ordered, pinned, managed; owned, and freed by the call that matches its allocation.

What it is   a run of bytes with an address. As an array it is one dimension of uint8, and exports every protocol so.
What not     it copies nothing (transfer.py) and has no shape (strided.py).
Source       CUDA Driver API, "Memory Management", "Stream Ordered Memory Allocator"
Read next    transfer.py
"""

from __future__ import annotations

import ctypes
from _weakref import ref
from functools import partial
from operator import index
from types import MethodType

from ..errors import RawCudaError, a_kind, worded
from ..headers import cuda_h
from ..owned import Owned, drain, dropped
from ..tracing import careful
from .context import Calls, PrimaryContext, release
from .device import Device
from .stream import Stream, Unnoticed, finish, work_handle

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..arrays.strided import StridedView

__all__ = ["Memory", "allocate", "allocate_again"]

_KINDS = ("device", "pinned", "managed")
_PORTABLE_AND_MAPPED = 1 | 2  # CU_MEMHOSTALLOC_PORTABLE, CU_MEMHOSTALLOC_DEVICEMAP
_ATTACH_GLOBAL = 1  # CU_MEM_ATTACH_GLOBAL
_PER_THREAD = 2  # CU_STREAM_PER_THREAD


class Memory(Owned):
    """A run of bytes: `ptr` (its address), `nbytes`, `kind`, `device`, and `stream` when it is stream-ordered.

    close() with work pending waits for it, or frees in the order of the memory's stream.

    units   nbytes is bytes
    """

    __slots__ = ("nbytes", "kind", "device", "stream", "_keeps", "_trusted")

    nbytes: int
    kind: str
    device: Device
    stream: Any
    _keeps: Any
    _trusted: list[Any]

    def __init__(self) -> None:
        raise TypeError(
            "Memory comes from Device.allocate(), or from Memory.borrow() where the bytes are somebody else's"
        )

    @classmethod
    def borrow(cls, device: Device, address: int, nbytes: int, *, kind: str = "device", owner: Any = None) -> Memory:
        """Make a Memory over bytes of somebody else's, which close() never frees.

        owner   kept alive as long as this Memory
        raises  ValueError  a kind or address that cannot be
        """
        _check_kind(kind)
        address, nbytes = _whole("address", address), _whole("nbytes", nbytes)
        if not 0 <= address < 2**64 or not 0 <= nbytes < 2**63 or address + nbytes > 2**64:
            raise ValueError(f"no memory has address {worded(address)} and {worded(nbytes)} bytes")
        borrowed = cls.__new__(cls)
        borrowed.device, borrowed.nbytes, borrowed.kind, borrowed.stream, borrowed._keeps = (
            device,
            nbytes,
            kind,
            None,
            owner,
        )
        borrowed._own(address, None)
        borrowed._trusted = []
        return borrowed

    @property
    def ptr(self) -> int:
        """Return the address of the first byte; raises Closed after close(), its own or that of what it was borrowed from."""
        if isinstance(self._keeps, Owned):
            self._keeps.handle
        return self.handle

    def trust(self, view: Any) -> bool:
        """Give a view of this memory its `_ready`, an address that launches take unasked, until close(); tell whether it has it now."""
        if self.borrowed or len(self._trusted) > 200:  # somebody else's goes unseen; and nothing grows without end
            return False
        self._trusted.append(ref(view))
        view._ready = view.start
        if self._handle is None:  # closed just now, maybe before the view was entered
            self._gone()
        return self._handle is not None

    def _gone(self) -> None:
        for one in self._trusted:
            view = one()
            if hasattr(view, "_ready"):
                del view._ready

    @property
    def is_host_accessible(self) -> bool:
        """Tell whether the CPU may read and write it."""
        return self.kind != "device"

    # -- an exporter: all of it goes through a view of one dimension of uint8

    def view(self) -> StridedView:
        """Return the bytes as an array: one dimension of uint8."""
        from ..arrays.strided import over_memory

        return over_memory(self)

    def copy_from(self, source: Any, *, stream: Any = None) -> Memory:
        """Copy from any exporter of exactly as many bytes, and return self.

        raises  ValueError  it has another number of bytes
        """
        from ..arrays.strided import copy_raw

        copy_raw(self.view(), source.view() if isinstance(source, Memory) else source, stream=stream)
        return self

    def copy_to(self, target: Any, *, stream: Any = None) -> Any:
        """Copy to any writable exporter of exactly as many bytes, and return it.

        raises  ValueError  it has another number of bytes
        """
        from ..arrays.strided import copy_raw

        copy_raw(target.view() if isinstance(target, Memory) else target, self.view(), stream=stream)
        return target

    def fill(self, value: int, *, stream: Any = None) -> Memory:
        """Set every byte to a value of 0 to 255, and return self."""
        self.view().fill(value, stream=stream)
        return self

    def __dlpack__(
        self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: Any = None
    ) -> Any:
        """Export by DLPack; see StridedView."""
        return self.view().__dlpack__(stream=stream, max_version=max_version, dl_device=dl_device, copy=copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return DLPack's (device type, id)."""
        return self.view().__dlpack_device__()

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Return the CUDA Array Interface, version 3."""
        interface: dict[str, Any] = self.view().__cuda_array_interface__
        return interface

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """Return the array interface; AttributeError where the CPU cannot reach the memory."""
        interface: dict[str, Any] = self.view().__array_interface__
        return interface

    def __len__(self) -> int:
        return self.nbytes

    def __repr__(self) -> str:
        where = "closed" if self._handle is None else hex(self._handle)
        return f"<Memory {where} {self.nbytes} bytes, {self.kind}, device {self.device.ordinal}>"


def _check_kind(kind: str) -> None:
    if kind not in _KINDS:
        raise ValueError(f"kind {kind!r}: give one of {', '.join(map(repr, _KINDS))}")


def _whole(name: str, number: Any) -> int:
    if isinstance(number, bool) or not hasattr(type(number), "__index__"):
        raise TypeError(f"{name} is an int, not {a_kind(number)}")
    return int.__index__(index(number))


def allocate(device: Device, nbytes: int, *, kind: str = "device", stream: Any = None) -> Memory:
    """Allocate memory.

    units   bytes; 0 allocates nothing and gives the address 0
    kind    "device"; "pinned": host memory that the device reaches; "managed": moves between both by itself
    stream  with one, "device" memory is allocated and freed in its order
    calls   cuMemAlloc_v2, cuMemAllocAsync, cuMemHostAlloc, cuMemAllocManaged
    raises  OutOfMemory  there is not so much
            ValueError   a negative or impossible size, an unknown kind, a stream with another kind than "device"
    """
    _check_kind(kind)
    nbytes = _whole("nbytes", nbytes)
    if not 0 <= nbytes < 2**63:
        raise ValueError(f"nbytes={worded(nbytes)}: a size lies in 0 .. 2**63-1")
    if stream is not None and kind != "device":
        raise ValueError(f"{kind} memory is not stream-ordered: leave stream out")
    number = work_handle(stream) if stream is not None else None
    drain()
    memory = Memory.__new__(Memory)
    memory.device, memory.nbytes, memory.kind, memory.stream, memory._keeps, memory._trusted = (
        device,
        nbytes,
        kind,
        stream,
        None,
        [],
    )
    if nbytes == 0:
        memory._own(0, lambda handle, late: None)
        return memory
    device.context
    primary = device._primary
    primary.hold()
    try:
        address = _allocate(primary, nbytes, kind, number)
    except BaseException:
        primary.let_go()
        raise
    memory._own(address, partial(_free, primary, kind, stream, number))
    return memory


def _allocate(primary: PrimaryContext, nbytes: int, kind: str, stream: int | None) -> int:
    loaded, where = primary.driver, cuda_h.CUdeviceptr()
    with primary.current():
        if kind == "pinned":
            host = ctypes.c_void_p()
            loaded.cuMemHostAlloc(ctypes.byref(host), nbytes, _PORTABLE_AND_MAPPED)
            return host.value or 0
        if kind == "managed":
            loaded.cuMemAllocManaged(ctypes.byref(where), nbytes, _ATTACH_GLOBAL)
        elif stream is not None:
            loaded.cuMemAllocAsync(ctypes.byref(where), nbytes, cuda_h.CUstream(stream))
        else:
            loaded.cuMemAlloc_v2(ctypes.byref(where), nbytes)
    return where.value or 0


# -- device memory by prepared calls


def allocate_again(device: Device, nbytes: Any, stream: Any, new: Any = object.__new__) -> Memory | None:
    """Allocate device memory the short way, on a stream of the device's own or on none; None leaves it to allocate().

    Nothing needs to be current for a stream of ours, which knows its context.
    """
    primary, queue = device._held, None
    if primary is None or type(nbytes) is not int or not 0 < nbytes < 2**63 or careful:
        return None
    if stream is not None:
        if type(stream) is not Stream or stream._primary is not primary:
            return None
        queue = stream._argument or stream._prepared()
        if queue is None:
            return None
    if dropped:
        drain()
    primary.hold()
    try:
        calls = primary.pool.pop()
    except IndexError:
        calls = Calls(primary)
    calls.words[1] = nbytes
    if queue is None:
        failed = calls.in_context(calls.allocate, (calls.out, calls.size))
    else:
        failed = calls.allocate_in_order(calls.out, calls.size, queue)
    address = calls.words[0]
    primary.pool.append(calls)
    if failed:
        primary.let_go()
        return None
    memory: Memory = new(Memory)
    memory.device, memory.nbytes, memory.kind, memory.stream, memory._keeps, memory._trusted = (
        device,
        nbytes,
        "device",
        stream,
        None,
        [],
    )
    memory._release = MethodType(_free_at_once, primary) if queue is None else MethodType(_free_in_order, stream)
    memory._handle = address
    return memory


def _free_at_once(primary: PrimaryContext, address: int, late: bool) -> None:
    """Free what was allocated without a stream, in no capture's way."""
    if careful:
        return _free(primary, "device", None, None, address, late)
    try:
        calls = primary.pool.pop()
    except IndexError:
        calls = Calls(primary)
    calls.words[0] = address
    calls.exchange(*calls.mode)
    calls.in_context(calls.free, (calls.handle,))
    calls.exchange(*calls.mode)
    primary.pool.append(calls)
    primary.let_go()


def _free_in_order(stream: Stream, address: int, late: bool) -> None:
    """Free in the order of the stream that it was allocated on; what needs another way is left to _free()."""
    primary: Any = stream._primary
    queue, failed = stream._argument, True
    if queue is not None and not careful:
        try:
            calls = primary.pool.pop()
        except IndexError:
            calls = Calls(primary)
        calls.words[0] = address
        calls.exchange(*calls.mode)
        failed = (
            calls.is_capturing(queue, calls.capturing) or calls.words[3] or calls.free_in_order(calls.handle, queue)
        )
        calls.exchange(*calls.mode)
        primary.pool.append(calls)
    if failed:
        _free(primary, "device", stream, stream._handle, address, late)
    else:
        primary.let_go()


def _free(primary: PrimaryContext, kind: str, stream: Any, number: int | None, address: int, late: bool) -> None:
    """Free by the call that matches; never raises.

    stream  what was given, kept alive until now, and its handle; None and None without one
    calls   cuMemFree_v2, cuMemFreeAsync, cuMemFreeHost
    order   cuMemFree_v2 waits for the device; it frees stream-ordered memory as well, whose stream is gone or captured
    """
    try:
        with primary.current(), Unnoticed(primary.driver):
            if kind == "pinned":
                finish(primary.driver, late)
                release(primary.driver, "cuMemFreeHost", address)
            elif not _freed_in_order(primary, address, stream, number):
                release(primary.driver, "cuMemFree_v2", address)
    except RawCudaError:  # the context is lost, or this is a fork()ed child: nothing is left to free
        pass
    finally:
        primary.let_go()


def _freed_in_order(primary: PrimaryContext, address: int, stream: Any, number: int | None) -> bool:
    """Free in the order of the memory's stream, if that can still take it; tell whether it did.

    calls   cuMemFreeAsync, cuStreamIsCapturing
    """
    if number is None or number == _PER_THREAD or isinstance(stream, Stream) and stream.closed:
        return False  # (this may be another thread than the one whose stream it was)
    queue, status = cuda_h.CUstream(number), ctypes.c_uint()
    return (
        release(primary.driver, "cuStreamIsCapturing", queue, ctypes.byref(status))
        and status.value == 0
        and release(primary.driver, "cuMemFreeAsync", address, queue)
    )
