"""Memory that several processes use.

What it is   `share_memory`, the function behind Memory.share(), and `open_memory`, behind Memory.from_handle().
How          the driver tells how the memory at an address can be exported. Memory from cuMemAlloc needs 64 bytes,
             memory of a pool a file descriptor of the pool and 64 bytes, and virtual memory a descriptor for each
             mapping. If the address is inside an allocation, the whole allocation is exported, with an offset.
Source       CUDA Driver API, "Memory Management": cuIpcGetMemHandle; "Stream Ordered Memory Allocator": "Interprocess
             communication support"; "Virtual Memory Management"
Read next    gpu/memory/memory.py
"""

from __future__ import annotations

import ctypes
import os
import struct
from ctypes import byref

from ...driver import as_argument
from ...errors import Closed, unsupported
from ...headers import cuda_h
from ..core.handles import IPC_MEMORY, POOL, POOLED
from ..core.reservation import NO_FLAGS, Piece, Reservation, granularity
from . import server
from .opening import Opened, device_with
from .shared_events import open_part
from .shared_handles import SharedHandle, checked_timeout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

    from ...gpu.memory.memory import Memory
    from ..core.context import PrimaryContext

__all__ = ["checked_answer", "open_memory", "share_memory"]

_IPC_CAPABLE, _HANDLE_TYPES, _POOL = 10, 14, 17  # CU_POINTER_ATTRIBUTE_...
_DESCRIPTOR = ctypes.c_int(1)  # CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
_LAZY_PEER_ACCESS = ctypes.c_uint(1)  # CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS
_HEAD = struct.Struct("<cQQ")  # how, offset, number of mappings
_HANDLE_SIZE = 64  # bytes of CUipcMemHandle and CUmemPoolPtrExportData
_MOST = 1 << 62  # bytes: more than any address space


def share_memory(memory: Memory, timeout: object) -> SharedHandle:
    """Offer memory to other processes; see Memory.share."""
    server.check_system()
    seconds = checked_timeout(timeout)
    address, nbytes = memory.ptr, memory.nbytes
    if not nbytes:
        raise ValueError(f"{memory!r} has no bytes that could be shared")
    if memory.kind != "device":
        raise ValueError(
            f"{memory!r} is {memory.kind} memory, which the driver cannot share: use multiprocessing.shared_memory, "
            "and Memory.register() in each process; or share device memory"
        )
    descriptors: list[int] = []
    lease = memory.lease()
    try:
        payload = _export(memory, address, nbytes, descriptors)
        return SharedHandle._make("memory", memory.device, nbytes, payload, descriptors, lease, seconds)
    except BaseException:
        while descriptors:
            os.close(descriptors.pop())
        raise


def _export(memory: Memory, address: int, nbytes: int, descriptors: list[int]) -> bytes:
    """Return the bytes for the receiver, and append the descriptors.

    calls   cuPointerGetAttribute, cuIpcGetMemHandle, cuMemPoolExportToShareableHandle, cuMemPoolExportPointer,
            cuMemRetainAllocationHandle, cuMemExportToShareableHandle
    """
    primary = memory._primary
    calls = primary.calls

    def ask(attribute: int) -> int:
        value = ctypes.c_uint64()
        calls.cuPointerGetAttribute(byref(value), ctypes.c_int(attribute), as_argument(address))
        return value.value

    pool, by_descriptor = ask(_POOL), ask(_HANDLE_TYPES) & 1
    if pool and by_descriptor:
        if pool in primary.destroyed:
            raise Closed(
                f"{memory!r} cannot be shared: its MemoryPool was closed, or nothing has kept it. Keep the pool open "
                "as long as you share memory from it, or share a copy"
            )
        base, _ = _range(primary, address)
        data, descriptor = cuda_h.CUmemPoolPtrExportData(), ctypes.c_int(-1)
        calls.cuMemPoolExportPointer(byref(data), as_argument(base))
        calls.cuMemPoolExportToShareableHandle(byref(descriptor), as_argument(pool), _DESCRIPTOR, NO_FLAGS)
        descriptors.append(descriptor.value)
        return _HEAD.pack(b"P", address - base, 1) + bytes(data)
    if by_descriptor:
        first, at = _range(primary, address)[0], address
        sizes = []
        while at < address + nbytes:
            base, size = _range(primary, at)
            descriptors.append(_descriptor(primary, base))
            sizes.append(size)
            at = base + size
        return _HEAD.pack(b"V", address - first, len(sizes)) + struct.pack(f"<{len(sizes)}Q", *sizes)
    if not ask(_IPC_CAPABLE):
        if pool:
            remedy = "allocate it from a pool that was made with shareable=True"
        elif hasattr(memory, "granularity"):
            remedy = "make it with shareable=True"
        else:
            remedy = "only the process that allocated it can share it; this process can share a copy"
        raise unsupported(
            f"{memory!r} cannot be shared: {remedy}",
            call="cuIpcGetMemHandle",
        )
    base, _ = _range(primary, address)
    raw = cuda_h.CUipcMemHandle()
    calls.cuIpcGetMemHandle(byref(raw), as_argument(base))
    return _HEAD.pack(b"I", address - base, 1) + bytes(raw)


def _range(primary: PrimaryContext, address: int) -> tuple[int, int]:
    """Return the first address and the size of an allocation, or of a mapping."""
    base, size = ctypes.c_uint64(), ctypes.c_size_t()
    primary.calls.cuMemGetAddressRange_v2(byref(base), byref(size), as_argument(address))
    return base.value, size.value


def _descriptor(primary: PrimaryContext, address: int) -> int:
    """Return a new descriptor of the memory that is mapped at an address."""
    handle, descriptor = ctypes.c_uint64(), ctypes.c_int(-1)
    primary.calls.cuMemRetainAllocationHandle(byref(handle), as_argument(address))
    try:
        primary.calls.cuMemExportToShareableHandle(byref(descriptor), handle, _DESCRIPTOR, NO_FLAGS)
    finally:
        primary.calls.cuMemRelease(handle)
    return descriptor.value


def open_memory(blank: Callable[..., Memory], given: object, timeout: object) -> Memory:
    """Open memory of another process; see Memory.from_handle.

    blank   makes the Memory: blank(device, context, nbytes, kind, stream)
    calls   cuIpcOpenMemHandle_v2, cuMemPoolImportFromShareableHandle, cuMemPoolImportPointer,
            cuMemImportFromShareableHandle, cuMemAddressReserve, cuMemMap, cuMemSetAccess
    """
    opened = Opened(given, "memory", timeout)
    try:
        opened.begin()
        device = device_with(opened.handle.device, "the memory")
        device.context
        primary = device._primary
        memory = blank(device, primary, opened.handle.nbytes, "device", None)
        memory._own(None, opened)
        how, offset, data, sizes = checked_answer(opened.answer.payload, len(opened.answer.descriptors), opened.handle)
        calls = primary.calls
        if how == b"I":
            part = open_part(opened, primary, IPC_MEMORY)
            raw = cuda_h.CUipcMemHandle.from_buffer_copy(data)
            calls.cuIpcOpenMemHandle_v2(byref(part), raw, _LAZY_PEER_ACCESS)
            address = part.value
        elif how == b"P":
            pool = open_part(opened, primary, POOL)
            descriptor = ctypes.c_void_p(opened.answer.descriptors[0])
            calls.cuMemPoolImportFromShareableHandle(byref(pool), descriptor, _DESCRIPTOR, NO_FLAGS)
            part = open_part(opened, primary, POOLED)
            exported = cuda_h.CUmemPoolPtrExportData.from_buffer_copy(data)
            calls.cuMemPoolImportPointer(byref(part), pool, byref(exported))
            address = part.value
        else:
            address = _map(opened, primary, sizes)
        _refuse_outside(primary, address or 0, offset, sizes, opened.handle)
        opened.answer.close_descriptors()
    except BaseException:
        opened.abandon()
        raise
    memory._handle = (address or 0) + offset
    return memory


def checked_answer(payload: bytes, descriptors: int, handle: SharedHandle) -> tuple[bytes, int, bytes, tuple[int, ...]]:
    """Return how memory is opened, the offset in it, the data for the driver, and the sizes of its mappings.

    descriptors  the number of descriptors that came with the answer
    raises       ValueError  what the owner sent does not fit together
    """
    head = payload[: _HEAD.size].ljust(_HEAD.size, b"\0")
    how, offset, count = _HEAD.unpack(head)
    data, sizes = payload[_HEAD.size :], ()
    if how == b"V":
        fits = 0 < count == descriptors and len(data) == 8 * count
        sizes = struct.unpack(f"<{count}Q", data) if fits else ()
        fits = all(sizes) and offset + handle.nbytes <= sum(sizes) <= _MOST
    else:
        fits = len(data) == _HANDLE_SIZE and descriptors == {b"I": 0, b"P": 1}.get(how)
    if not fits:
        raise ValueError(
            f"process {handle.pid} sent an answer of {len(payload)} bytes and {descriptors} descriptors that does not "
            f"describe {handle.nbytes} bytes of memory: use the same version of this package in both processes"
        )
    return how, offset, data, sizes


def _refuse_outside(
    primary: PrimaryContext, address: int, offset: int, sizes: tuple[int, ...], handle: SharedHandle
) -> None:
    """Refuse an offset and a size that are not inside the memory that was opened.

    calls   cuMemGetAddressRange_v2
    """
    if sizes:
        base, size = (address, sum(sizes))
    else:
        base, size = _range(primary, address)
    if address + offset + handle.nbytes > base + size:
        raise ValueError(
            f"process {handle.pid} sent memory of {size} bytes, but {handle!r} says that its {handle.nbytes} bytes "
            f"begin at byte {offset} of it"
        )


def _map(opened: Opened, primary: PrimaryContext, sizes: tuple[int, ...]) -> int:
    """Map memory by its descriptors, and return the address."""
    calls, whole = primary.calls, sum(sizes)
    reservation = Reservation(primary, whole)
    reservation.rights = {primary.ordinal: 3}
    opened.parts.append(reservation)
    primary.hold(reservation)
    calls.cuMemAddressReserve(
        byref(reservation.address), as_argument(whole), as_argument(granularity(primary)), as_argument(0), NO_FLAGS
    )
    first, offset = reservation.address.value, 0
    for size, descriptor in zip(sizes, tuple(opened.answer.descriptors)):
        piece = Piece(first, offset, size, primary.ordinal)
        reservation.pieces.append(piece)
        calls.cuMemImportFromShareableHandle(byref(piece.handle), ctypes.c_void_p(descriptor), _DESCRIPTOR)
        calls.cuMemMap(as_argument(first + offset), as_argument(size), as_argument(0), piece.handle, NO_FLAGS)
        piece.is_there = True
        offset += size
    wanted = cuda_h.CUmemAccessDesc(flags=3)
    wanted.location.type, wanted.location.id = 1, primary.ordinal
    calls.cuMemSetAccess(as_argument(first), as_argument(whole), byref(wanted), as_argument(1))
    return first
