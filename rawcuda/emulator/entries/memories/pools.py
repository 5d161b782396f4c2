"""Entry points: memory in stream order, and its pools.

How          the call that allocates returns the address; the memory is freed when the stream reaches the free. A pool
             keeps freed memory until it is trimmed, or until a call that waits releases what exceeds its threshold. An
             address is never used again, so a pool only counts the bytes that it keeps.
Source       CUDA Driver API, "Stream Ordered Memory Allocator"
Read next    copy_entries.py
"""

from __future__ import annotations

import ctypes

from ...interface.thunks import (
    ACCESS_DESC,
    LOCATION,
    POOL_PROPS,
    entry,
    get_int,
    get_u64,
    out,
    put_int,
    put_u64,
    put_word,
    read,
)
from ...machine.codes import Refused
from ...machine.machine import Machine, Pool
from ...machine.queues import Stream
from ...machine.sharing import MARK_SIZE, Backing
from .memory_entries import holding_at

__all__ = ["properties_at"]

_NOWHERE, _DEVICE, _HOST, _NUMA = 0, 1, 2, 3  # CU_MEM_LOCATION_TYPE_NONE, DEVICE, HOST, HOST_NUMA
_PINNED, _MANAGED = 1, 2  # CU_MEM_ALLOCATION_TYPE_PINNED, MANAGED
_DESCRIPTOR = 1  # CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
_LARGEST = 1 << 62
_RESERVED = 53  # the bytes at the end of CUmemPoolProps that no version of the header uses


# -- allocating and freeing


def _allocate(machine: Machine, address: int, nbytes: int, pool: Pool, stream: Stream) -> None:
    if stream.capture is not None:
        put_u64(address, stream.capture.allocate(stream, pool, nbytes))
        return
    machine.queues.admit(stream)
    if not nbytes:
        put_u64(address, 0)
        return
    if _is_imported(pool):
        raise Refused(1, "the pool belongs to another process: memory can be allocated only there, and imported here")
    growth = pool.growth(min(nbytes, _LARGEST))
    if pool.maximum and pool.used + nbytes > pool.maximum:
        raise Refused(
            2, f"{nbytes} bytes requested: the pool has at most {pool.maximum}, of which {pool.used} are in use"
        )
    context = stream.context
    if pool.device is not None and pool.device is not context.device:
        context = pool.device.primary
        context.check()
    if pool.kind != "device":
        allocation = machine.space.allocate_host(nbytes, kind=pool.kind)
    else:
        machine.make_room(context.device, growth)
        allocation = machine.space.allocate(nbytes)
    machine.hold(allocation, context, "pool", pool=pool)
    put_u64(address, allocation.base)


@entry("cuMemAllocAsync(CUdeviceptr *dptr, size_t bytesize, CUstream hStream)", since=11020)
def alloc_async(machine: Machine, address: int, nbytes: int, handle: int) -> None:
    """Allocate from the device's current pool, in stream order."""
    out(address)
    stream = machine.stream(handle)
    _allocate(machine, address, nbytes, stream.context.device.pool, stream)


@entry("cuMemAllocFromPoolAsync(CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool, CUstream hStream)", since=11020)
def alloc_from_pool(machine: Machine, address: int, nbytes: int, pool: int, handle: int) -> None:
    """Allocate from a pool, in stream order."""
    out(address)
    _allocate(machine, address, nbytes, _pool(machine, pool), machine.stream(handle))


@entry("cuMemFreeAsync(CUdeviceptr dptr, CUstream hStream)", since=11020)
def free_async(machine: Machine, address: int, handle: int) -> None:
    """Free memory in stream order; it may also be memory that was not allocated so (programming guide)."""
    stream = machine.stream(handle)
    memory = machine.graph_memory.get(address)
    if stream.capture is not None:
        if memory is None:
            stream.capture.invalidate()
            raise Refused(1, f"a graph cannot free {address:#x}: it can free only memory that a graph allocates")
        stream.capture.free(stream, memory)
        return
    if not address:  # what an allocation of zero bytes returns
        return
    holding = holding_at(machine, address)
    if holding.pool is None and holding.flavour != "device" or holding.allocation.base != address:
        raise Refused(1, f"{address:#x} is not the start of device memory, or of memory of a pool")
    if holding.released:
        raise Refused(1, f"{address:#x} was already freed, in stream order")
    where = machine.caller()
    machine.queues.submit(stream, lambda: machine.give_back(holding, where), f"free of {address:#x}")
    holding.released = True  # (last: after a refusal or an interrupt before this line, it can be freed again)


# -- pools


def _pool(machine: Machine, handle: int) -> Pool:
    pool = machine.handles.get(handle)
    if type(pool) is not Pool:
        raise Refused(1, f"{handle:#x} is not the handle of a memory pool")
    return pool


def _check_place(machine: Machine, kind: int, place: tuple[int, int]) -> tuple[int, int]:
    """Check the location of the memory of a pool, and return it; the id of the host is always 0."""
    where, number = place
    if where == _DEVICE and kind in (_PINNED, _MANAGED):
        machine.device(number)
        return place
    if where == _NUMA and kind in (_PINNED, _MANAGED):
        if number:
            raise Refused(101, f"the emulated host has one NUMA node, 0, and no node {number}")
        return place
    if where == _HOST and kind in (_PINNED, _MANAGED) or where == _NOWHERE and kind == _MANAGED:
        return where, 0
    raise Refused(
        1,
        f"no pool can have allocations of type {kind} (CUmemAllocationType) at a location of type {where} "
        "(CUmemLocationType)",
    )


def _named(kind: int, place: tuple[int, int]) -> str:
    if kind == _MANAGED:
        return "managed"
    if place[0] == _DEVICE:
        return "device"
    return "pinned"


def _default(machine: Machine, kind: int, place: tuple[int, int]) -> Pool:
    """Return the default pool of a location; pools of the host and of managed memory are created on first use."""
    place = _check_place(machine, kind, place)
    if kind == _PINNED and place[0] == _DEVICE:
        return machine.device(place[1]).default_pool
    for pool in machine.pools:
        if pool.default and pool.place == place and pool.kind == _named(kind, place):
            return pool
    if place[0] == _DEVICE:
        device = machine.device(place[1])
    else:
        device = None
    machine.restricted = True
    return machine.add_pool(Pool(device, place=place, kind=_named(kind, place), default=True))


def _current(machine: Machine, kind: int, place: tuple[int, int]) -> Pool:
    place = _check_place(machine, kind, place)
    if kind == _PINNED and place[0] == _DEVICE:
        return machine.device(place[1]).pool
    return machine.current_pools.get((kind, *place)) or _default(machine, kind, place)


def _is_imported(pool: Pool) -> bool:
    return pool.backing is not None and bool(pool.backing.imported)


def _set_current(machine: Machine, kind: int, place: tuple[int, int], handle: int) -> None:
    place = _check_place(machine, kind, place)
    pool = machine.handles.get(handle)
    if type(pool) is not Pool or pool.place != place or pool.kind != _named(kind, place) or _is_imported(pool):
        raise Refused(1, f"{handle:#x} is not the handle of a pool with memory at this location")
    if pool.kind == "device":
        machine.device(place[1]).pool = pool
    else:
        machine.current_pools[(kind, place[0], place[1])] = pool


@entry("cuDeviceGetDefaultMemPool(CUmemoryPool *pool_out, CUdevice dev)", since=11020)
def default_pool(machine: Machine, address: int, device: int) -> None:
    """Write a device's default pool."""
    out(address)
    put_word(address, machine.device(device).default_pool.handle)


@entry("cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice dev)", since=11020)
def device_pool(machine: Machine, address: int, device: int) -> None:
    """Write a device's current pool."""
    out(address)
    put_word(address, machine.device(device).pool.handle)


@entry("cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool)", since=11020)
def set_device_pool(machine: Machine, device: int, handle: int) -> None:
    """Set a device's current pool."""
    _set_current(machine, _PINNED, (_DEVICE, device), handle)


@entry("cuMemGetDefaultMemPool(CUmemoryPool *pool_out, CUmemLocation *location, CUmemAllocationType type)", since=13000)
def default_pool_of(machine: Machine, address: int, location: int, kind: int) -> None:
    """Write the default pool of a location."""
    out(address)
    put_word(address, _default(machine, kind, _place(location)).handle)


@entry("cuMemGetMemPool(CUmemoryPool *pool, CUmemLocation *location, CUmemAllocationType type)", since=13000)
def pool_of(machine: Machine, address: int, location: int, kind: int) -> None:
    """Write the current pool of a location."""
    out(address)
    put_word(address, _current(machine, kind, _place(location)).handle)


@entry("cuMemSetMemPool(CUmemLocation *location, CUmemAllocationType type, CUmemoryPool pool)", since=13000)
def set_pool_of(machine: Machine, location: int, kind: int, handle: int) -> None:
    """Set the current pool of a location."""
    _set_current(machine, kind, _place(location), handle)


def _place(address: int) -> tuple[int, int]:
    where, number = read(LOCATION, address)
    return where, number


def properties_at(address: int) -> tuple[int, int, int, int, int]:
    """Return type, handle types, location and largest size of a CUmemPoolProps."""
    kind, handles, where, number, _, maximum, _ = read(POOL_PROPS, address)
    if any(ctypes.string_at(address + POOL_PROPS.size - _RESERVED, _RESERVED)):
        raise Refused(1, "the reserved bytes of CUmemPoolProps must be 0")
    return kind, handles, where, number, maximum


@entry("cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *poolProps)", since=11020)
def create(machine: Machine, address: int, properties: int) -> None:
    """Create a pool. A pool of device memory can be shared with other processes by file descriptors."""
    out(address)
    kind, handles, where, number, maximum = properties_at(properties)
    place = _check_place(machine, kind, (where, number))
    if where == _DEVICE:
        device = machine.device(number)
    else:
        device = None
    pool = Pool(device, place=place, kind=_named(kind, place), maximum=maximum)
    if handles:
        if handles != _DESCRIPTOR or device is None or pool.kind != "device":
            raise Refused(801, "only pools of device memory can be shared, and only by file descriptors")
        pool.backing = Backing.create(MARK_SIZE, device.index, "pool")
    machine.restricted |= pool.kind != "device"
    put_word(address, machine.add_pool(pool).handle)


@entry("cuMemPoolDestroy(CUmemoryPool pool)", since=11020)
def destroy(machine: Machine, handle: int) -> None:
    """Destroy a pool; memory allocated from it stays until it is freed."""
    pool = _pool(machine, handle)
    if pool.default:
        raise Refused(1, f"{handle:#x} is a default pool, which cannot be destroyed")
    if pool.device is not None and pool.device.pool is pool:
        pool.device.pool = pool.device.default_pool
    for key in [key for key, current in machine.current_pools.items() if current is pool]:
        del machine.current_pools[key]
    pool.closed = True
    if pool.backing is not None:
        pool.backing.close()
    machine.pools[:] = [other for other in machine.pools if other is not pool]
    machine.handles.pop(handle, None)
    pool.trim(0)


@entry("cuMemPoolTrimTo(CUmemoryPool pool, size_t minBytesToKeep)", since=11020)
def trim(machine: Machine, handle: int, keep: int) -> None:
    """Release unused memory of a pool until it keeps at most a number of bytes."""
    _pool(machine, handle).trim(keep)


@entry("cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value)", since=11020)
def set_attribute(machine: Machine, handle: int, number: int, address: int) -> None:
    """Set an attribute of a pool; the high-water marks can only be set to 0."""
    out(address)
    pool = _pool(machine, handle)
    if number in (1, 2, 3):
        pool.attributes[number] = int(get_int(address) != 0)
    elif number == 4:
        pool.attributes[4] = get_u64(address)
    elif number == 6 and get_u64(address) == 0:
        pool.reserved_high = pool.reserved
    elif number == 8 and get_u64(address) == 0:
        pool.used_high = pool.used
    else:
        raise Refused(1)


@entry("cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value)", since=11020)
def get_attribute(machine: Machine, handle: int, number: int, address: int) -> None:
    """Write an attribute of a pool."""
    out(address)
    pool = _pool(machine, handle)
    if number in (1, 2, 3):
        put_int(address, pool.attributes[number])
    elif number in (4, 5, 6, 7, 8):
        numbers = (pool.attributes[4], pool.reserved, pool.reserved_high, pool.used, pool.used_high)
        put_u64(address, numbers[number - 4])
    else:
        raise Refused(1)


@entry("cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *map, size_t count)", since=11020)
def set_access(machine: Machine, handle: int, address: int, count: int) -> None:
    """Store which devices may access a pool's memory; the pool's own device always may."""
    pool = _pool(machine, handle)
    changed = {}
    for index in range(count):
        where, number, flags = read(ACCESS_DESC, address + index * ACCESS_DESC.size)
        if where == _DEVICE:
            device = machine.device(number)
            if flags not in (0, 1, 3) or device is pool.device and flags != 3:
                raise Refused(1, f"device {number}, access {flags}: must be 0, 1 or 3, and 3 for the pool's device")
            if flags and pool.device is not None and device is not pool.device:
                if not machine.reaches(device, pool.device):
                    raise Refused(101, f"device {number} cannot reach the memory of device {pool.device.ordinal}")
            changed[number] = flags
        elif pool.device is not None or (where, flags) not in ((_HOST, 3), (_NUMA, 3)):
            raise Refused(1)
    pool.access.update(changed)


@entry("cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool memPool, CUmemLocation *location)", since=11020)
def get_access(machine: Machine, address: int, handle: int, location: int) -> None:
    """Write the access of a location to a pool's memory; the host has access to all but device memory."""
    out(address)
    pool = _pool(machine, handle)
    where, number = _place(location)
    if where == _DEVICE:
        put_int(address, pool.access.get(machine.device(number).ordinal, 3 if pool.kind == "managed" else 0))
    elif where in (_HOST, _NUMA):
        put_int(address, 0 if pool.kind == "device" else 3)
    else:
        raise Refused(1)
