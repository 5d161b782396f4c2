"""Entry points: memory in stream order, and its pools.

How          the call that allocates returns the address; the memory is freed when the stream reaches the free. Nothing
             is kept for reuse, so a pool reserves as much as it uses.
Source       CUDA Driver API, "Stream Ordered Memory Allocator"
Read next    copies.py
"""

from __future__ import annotations

from ..codes import Refused
from ..machine import Machine, Pool
from ..queues import Stream
from ..thunks import (
    ACCESS_DESC,
    LOCATION,
    POOL_PROPS,
    entry,
    get_int,
    get_u64,
    out,
    put_int,
    put_u64,
    read,
)
from .memory import allocate, holding_at

__all__: list[str] = []

_DEVICE = 1  # CU_MEM_LOCATION_TYPE_DEVICE


# -- allocating and freeing


def _allocate(machine: Machine, address: int, nbytes: int, pool: Pool, stream: Stream) -> None:
    if stream.capture is not None:
        put_u64(address, stream.capture.allocate(stream, pool, nbytes))
        return
    if pool.maximum and pool.used + nbytes > pool.maximum:
        raise Refused(2, f"the pool has at most {pool.maximum} bytes, of which {pool.used} are in use")
    context = stream.context
    if pool.device is not context.device:
        context = pool.device.primary
        context.check()
    allocation = allocate(machine, context, nbytes)
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
    """Free memory in stream order."""
    stream = machine.stream(handle)
    memory = machine.graph_memory.find(address)
    if stream.capture is not None:
        if memory is None:
            stream.capture.invalidate()
            raise Refused(1, "a graph can free only what a graph allocates")
        stream.capture.free(stream, memory)
        return
    holding = holding_at(machine, address)
    if holding.pool is None or holding.allocation.base != address:
        raise Refused(1, f"{address:#x} is not the start of memory that was allocated in stream order")
    if holding.released:
        raise Refused(1, f"{address:#x} was already freed, in stream order")
    holding.released = True
    machine.queues.submit(stream, lambda: machine.give_back(holding), f"free of {address:#x}")


# -- pools


def _pool(machine: Machine, handle: int) -> Pool:
    machine.context()
    pool = machine.handles.get(handle)
    if type(pool) is not Pool:
        raise Refused(1, f"{handle:#x} is not the handle of a memory pool")
    return pool


@entry("cuDeviceGetDefaultMemPool(CUmemoryPool *pool_out, CUdevice dev)", since=11020)
def default_pool(machine: Machine, address: int, device: int) -> None:
    """Write a device's default pool."""
    out(address)
    put_u64(address, machine.device(device).default_pool.handle)


@entry("cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice dev)", since=11020)
def device_pool(machine: Machine, address: int, device: int) -> None:
    """Write a device's current pool."""
    out(address)
    put_u64(address, machine.device(device).pool.handle)


@entry("cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool)", since=11020)
def set_device_pool(machine: Machine, device: int, handle: int) -> None:
    """Set a device's current pool."""
    changed = machine.device(device)
    pool = machine.handles.get(handle)
    if type(pool) is not Pool or pool.device is not changed:
        raise Refused(1)
    changed.pool = pool


def _located(machine: Machine, address: int) -> int:
    """Read a CUmemLocation, which must be a device."""
    kind, ordinal = read(LOCATION, address)
    if kind != _DEVICE:
        raise Refused(801, "only memory pools on devices are emulated")
    return machine.device(ordinal).ordinal


@entry("cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *poolProps)", since=11020)
def create(machine: Machine, address: int, properties: int) -> None:
    """Create a pool on a device; handles for other processes are not supported."""
    out(address)
    machine.context()
    kind, handles, where, ordinal, _, maximum, _ = read(POOL_PROPS, properties)
    if kind != 1:
        raise Refused(1)
    if handles or where != _DEVICE:
        raise Refused(801, "only pools on devices, without handles for other processes, are emulated")
    put_u64(address, machine.add(Pool(machine.device(ordinal), maximum=maximum)).handle)


@entry("cuMemPoolDestroy(CUmemoryPool pool)", since=11020)
def destroy(machine: Machine, handle: int) -> None:
    """Destroy a pool; memory allocated from it stays until it is freed."""
    pool = _pool(machine, handle)
    if pool.default:
        raise Refused(1, "a default pool cannot be destroyed")
    if pool.device.pool is pool:
        pool.device.pool = pool.device.default_pool
    del machine.handles[handle]


@entry("cuMemPoolTrimTo(CUmemoryPool pool, size_t minBytesToKeep)", since=11020)
def trim(machine: Machine, handle: int, keep: int) -> None:
    """Do nothing: nothing is kept for reuse."""
    _pool(machine, handle)


@entry("cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value)", since=11020)
def set_attribute(machine: Machine, handle: int, number: int, address: int) -> None:
    """Set an attribute of a pool; the high-water marks can only be set to 0."""
    out(address)
    pool = _pool(machine, handle)
    if number in (1, 2, 3):
        pool.attributes[number] = get_int(address)
    elif number == 4:
        pool.attributes[4] = get_u64(address)
    elif number in (6, 8) and get_u64(address) == 0:
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
    elif number == 4:
        put_u64(address, pool.attributes[4])
    elif number in (5, 7):
        put_u64(address, pool.used)
    elif number in (6, 8):
        put_u64(address, pool.used_high)
    else:
        raise Refused(1)


@entry("cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *map, size_t count)", since=11020)
def set_access(machine: Machine, handle: int, address: int, count: int) -> None:
    """Store which devices may access a pool's memory; the pool's own device always may."""
    pool = _pool(machine, handle)
    for index in range(count):
        kind, ordinal, flags = read(ACCESS_DESC, address + index * ACCESS_DESC.size)
        if kind != _DEVICE or flags not in (0, 1, 3) or (machine.device(ordinal) is pool.device and flags != 3):
            raise Refused(1)
        pool.access[ordinal] = flags


@entry("cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool memPool, CUmemLocation *location)", since=11020)
def get_access(machine: Machine, address: int, handle: int, location: int) -> None:
    """Write the access of a device to a pool's memory."""
    out(address)
    pool = _pool(machine, handle)
    put_int(address, pool.access.get(_located(machine, location), 0))
