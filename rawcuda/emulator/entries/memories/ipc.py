"""Entry points: memory, pools and events that other processes open.

What it is   cuIpc*, for the handles of events and of memory from cuMemAlloc; and the calls that export and import pools
             and physical memory as file descriptors.
How          the bytes of an allocation move into a file in memory when it is exported; machine/sharing.py creates them.
             The address of an opened allocation differs from the one in the process of its owner. As in the driver, a
             process cannot open its own memory by a handle, and opening a handle again in the same context returns the
             same address.
Source       CUDA Driver API, "Memory Management": cuIpcOpenMemHandle; "Stream Ordered Memory Allocator"; "Virtual
             Memory Management"
Read next    machine/sharing.py, memory_entries.py
"""

from __future__ import annotations

import ctypes
import os

from ...interface.thunks import entry, out, put_bytes, put_int, put_u64, put_word
from ...machine.codes import OPERATING_SYSTEM, Refused
from ...machine.machine import Context, Device, Holding, Machine, Pool
from ...machine.queues import Event
from ...machine.sharing import MARK_SIZE, Backing, SharedMark, between_kernels, packed, unpacked
from .memory_entries import holding_at
from .virtual_entries import physical_of, physical_over

__all__: list[str] = []

_LAZY_PEER_ACCESS = 1  # CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS
_INTERPROCESS = 4  # CU_EVENT_INTERPROCESS
_DESCRIPTOR = 1  # CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR


def _back(machine: Machine, holding: Holding) -> Backing:
    """Move memory to a file in memory, unless it is in one already, and return the file."""
    if holding.backing is None:
        lock = between_kernels(machine)  # meanwhile, another thread may share the memory, or free it
        try:
            if not holding.allocation.alive:
                raise Refused(1, machine.space.explain(holding.allocation.base, 1))
            if holding.backing is None:
                made = Backing.create(holding.allocation.size, holding.context.device.index)
                holding.allocation.move_to(made.pages)
                holding.backing = made
        finally:
            lock.release()
    backing: Backing = holding.backing
    return backing


def _owned(machine: Machine, address: int, flavour: str) -> Holding:
    """Return the holding at an address, which must be live memory of one flavour that this process owns."""
    machine.context()
    holding = holding_at(machine, address)
    if holding.flavour != flavour or holding.released or holding.backing is not None and holding.backing.imported:
        raise Refused(1, f"{address:#x} is {holding.flavour} memory, which this call cannot share")
    return holding


def _refuse_own(pid: int) -> None:
    if pid == os.getpid():
        raise Refused(201, "this process made the handle: only other processes can open it")


# -- memory from cuMemAlloc


@entry("cuIpcGetMemHandle(CUipcMemHandle *pHandle, CUdeviceptr dptr)", since=4010)
def get_memory(machine: Machine, address: int, memory: int) -> None:
    """Write the handle of a whole allocation."""
    out(address)
    holding = _owned(machine, memory, "device")
    backing = _back(machine, holding)
    put_bytes(address, packed("memory", backing, holding.allocation.size, holding.context.device.index))


def _device(machine: Machine, index: int) -> Device:
    """Return the device with a number that is the same in all processes."""
    for device in machine.devices:
        if device.index == index:
            return device
    raise Refused(101, f"this belongs to device {index}, which this process cannot see: check CUDA_VISIBLE_DEVICES")


def _context_reaching(machine: Machine, index: int) -> Context:
    """Return the current context, if its device can access the memory of a device."""
    context, device = machine.context(), _device(machine, index)
    if device is not context.device and not machine.reaches(context.device, device):
        raise Refused(
            217,
            f"device {context.device.ordinal} cannot reach the memory of device {device.ordinal}: open the handle in "
            "a context of that device",
        )
    return context


@entry("cuIpcOpenMemHandle_v2(CUdeviceptr *pdptr, CUipcMemHandle handle, unsigned int Flags)", since=11000)
def open_memory(machine: Machine, address: int, handle: ctypes.Structure, flags: int) -> None:
    """Map an allocation of another process, and write its address, which stays the same if it is mapped again."""
    out(address)
    pid, fd, token, size, index = unpacked("memory", bytes(handle))
    if flags != _LAZY_PEER_ACCESS:
        raise Refused(1, "the flags must be CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS (1)")
    context = _context_reaching(machine, index)
    _refuse_own(pid)
    for holding in context.holdings.values():
        if holding.backing is not None and holding.backing.token == token:
            holding.backing.count += 1
            put_u64(address, holding.allocation.base)
            return
    put_word(address, _import(machine, context, Backing.open(pid, fd, token, size), size, "shared").allocation.base)


def _import(
    machine: Machine, context: Context, backing: Backing, size: int, flavour: str, pool: Pool | None = None
) -> Holding:
    allocation = machine.space.map(
        machine.space.new_address(size, 512), memoryview(backing.pages)[:size], None, "of another process", "device"
    )
    holding = machine.hold(allocation, context, flavour, pool=pool)
    holding.backing = backing
    return holding


@entry("cuIpcCloseMemHandle(CUdeviceptr dptr)", since=4010)
def close_memory(machine: Machine, address: int) -> None:
    """Close an allocation of another process; the last close unmaps it."""
    machine.context()
    holding = _opened(machine, address)
    if holding.backing.count == 1:
        machine.queues.complete_context(holding.context)
        holding = _opened(machine, address)  # another thread may have closed it meanwhile, or opened it again
    if holding.backing.count > 1:
        holding.backing.count -= 1
    else:
        machine.give_back(holding)


def _opened(machine: Machine, address: int) -> Holding:
    holding = holding_at(machine, address)
    if holding.flavour != "shared" or holding.allocation.base != address:
        raise Refused(1, f"{address:#x} is not an address that cuIpcOpenMemHandle returned")
    return holding


# -- events


@entry("cuIpcGetEventHandle(CUipcEventHandle *pHandle, CUevent event)", since=4010)
def get_event(machine: Machine, address: int, handle: int) -> None:
    """Write the handle of an event that was made for other processes."""
    out(address)
    event = machine.event(handle)
    if event.shared is None or event.shared.backing.imported:
        raise Refused(1, f"event {handle:#x} has no handle: create it in this process with CU_EVENT_INTERPROCESS")
    put_bytes(address, packed("an event", event.shared.backing, event.context.device.index))


@entry("cuIpcOpenEventHandle(CUevent *phEvent, CUipcEventHandle handle)", since=4010)
def open_event(machine: Machine, address: int, handle: ctypes.Structure) -> None:
    """Open an event of another process."""
    out(address)
    context = machine.context()
    pid, fd, token, _, _ = unpacked("an event", bytes(handle))
    _refuse_own(pid)
    made = machine.add(Event(context, 2 | _INTERPROCESS))
    try:
        made.shared = SharedMark(machine, Backing.open(pid, fd, token, MARK_SIZE, lock=False))
    except BaseException:
        del machine.handles[made.handle]
        raise
    context.owned[made.handle] = made
    put_word(address, made.handle)


# -- pools


def _refuse_kind(kind: int, flags: int) -> None:
    if kind != _DESCRIPTOR:
        raise Refused(801, f"handle type {kind}: only file descriptors (1) are emulated as handles for other processes")
    if flags:
        raise Refused(1)


def _pool(machine: Machine, handle: int, imported: bool) -> Pool:
    machine.context()
    pool = machine.handles.get(handle)
    if type(pool) is not Pool or pool.backing is None or pool.backing.imported is not imported:
        raise Refused(1, f"{handle:#x} is not a pool " + ("of another process" if imported else "for other processes"))
    return pool


@entry(
    "cuMemPoolExportToShareableHandle(void *handle_out, CUmemoryPool pool, CUmemAllocationHandleType handleType, "
    "unsigned long long flags)",
    since=11020,
)
def export_pool(machine: Machine, address: int, handle: int, kind: int, flags: int) -> None:
    """Write a new file descriptor of a pool."""
    out(address)
    _refuse_kind(kind, flags)
    put_int(address, _duplicate(_pool(machine, handle, False).backing.fd))


@entry(
    "cuMemPoolImportFromShareableHandle(CUmemoryPool *pool_out, void *handle, CUmemAllocationHandleType handleType, "
    "unsigned long long flags)",
    since=11020,
)
def import_pool(machine: Machine, address: int, fd: int, kind: int, flags: int) -> None:
    """Import a pool of another process; nothing can be allocated from it here."""
    out(address)
    machine.context()
    _refuse_kind(kind, flags)
    backing = Backing.adopt(fd, "pool")
    try:
        device = _device(machine, backing.index)
    except Refused:
        backing.close()
        raise
    pool = machine.add_pool(Pool(device, place=(1, device.ordinal)))
    pool.backing = backing
    put_word(address, pool.handle)


@entry("cuMemPoolExportPointer(CUmemPoolPtrExportData *shareData_out, CUdeviceptr ptr)", since=11020)
def export_pointer(machine: Machine, address: int, memory: int) -> None:
    """Write the handle of an allocation from a pool for other processes."""
    out(address)
    holding = _owned(machine, memory, "pool")
    if holding.pool is None or holding.pool.backing is None:
        raise Refused(1, f"the pool of {memory:#x} was created without handles for other processes")
    kind = f"memory of the pool {holding.pool.backing.token}"
    put_bytes(address, packed(kind, _back(machine, holding), holding.allocation.size))


@entry(
    "cuMemPoolImportPointer(CUdeviceptr *ptr_out, CUmemoryPool pool, CUmemPoolPtrExportData *shareData)", since=11020
)
def import_pointer(machine: Machine, address: int, handle: int, data: int) -> None:
    """Map an allocation of a pool of another process."""
    out(address, data)
    pool = _pool(machine, handle, True)
    pid, fd, token, size, _ = unpacked(f"memory of the pool {pool.backing.token}", ctypes.string_at(data, 64))
    if pool.device is None or pool.device.primary.state:
        raise Refused(201, "the primary context of the pool's device is not active: retain it first")
    backing = Backing.open(pid, fd, token, size)
    put_word(address, _import(machine, pool.device.primary, backing, size, "pool", pool).allocation.base)


# -- physical memory


@entry(
    "cuMemExportToShareableHandle(void *shareableHandle, CUmemGenericAllocationHandle handle, "
    "CUmemAllocationHandleType handleType, unsigned long long flags)",
    since=10020,
)
def export_physical(machine: Machine, address: int, handle: int, kind: int, flags: int) -> None:
    """Write a new file descriptor of memory from cuMemCreate."""
    out(address)
    _refuse_kind(kind, flags)
    physical = physical_of(machine, handle)
    if physical.backing is None:
        raise Refused(1, f"memory {handle:#x} was created without handles for other processes (requestedHandleTypes)")
    put_int(address, _duplicate(physical.backing.fd))


def _duplicate(descriptor: int) -> int:
    """Return another descriptor of a file, for the caller."""
    try:
        return os.dup(descriptor)
    except OSError as error:
        raise Refused(OPERATING_SYSTEM, f"no other file descriptor: {error.strerror}") from None


@entry(
    "cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *osHandle, CUmemAllocationHandleType "
    "shHandleType)",
    since=10020,
)
def import_physical(machine: Machine, address: int, fd: int, kind: int) -> None:
    """Import memory of another process, so that it can be mapped."""
    out(address)
    machine.context()
    _refuse_kind(kind, 0)
    backing = Backing.adopt(fd, "physical")
    try:
        put_u64(address, physical_over(machine, _device(machine, backing.index), backing).handle)
    except Refused:
        backing.close()
        raise
