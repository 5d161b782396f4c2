"""Memory pools: where stream-ordered memory comes from, and how much of it is kept for later allocations.

What it is   MemoryPool, its attributes, and the access of other devices to its memory.
What not     the memory itself, which is a Memory like any other. It stays valid if the pool is closed; the driver frees
             the pool with the last memory from it.
Source       CUDA Driver API, "Stream Ordered Memory Allocator"
Read next    memory.py
"""

from __future__ import annotations

import ctypes
from _thread import RLock
from ctypes import byref

from ...arguments import SetOnce, as_bool, as_choice, as_int
from ...driver import as_argument, dotted
from ...errors import NotFound, OutOfMemory, a_kind, unsupported, worded
from ...headers import cuda_h
from ...interpreter.cpython import free_after_fork
from ...ownership import Owned, unless_inside
from ..core import locations
from ..core.calls import reworded
from ..core.context import PrimaryContext, count, is_device, no_device, primary_of
from ..core.handles import POOL, POOLED, make, shown_handle
from ..core.stream_arguments import Ordering, StreamHandle, noted_form, queue_of
from ..streams.stream import Stream
from .memory import OF_POOLS, Memory, blank, size_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import NoReturn

    from ...gpu.devices.device import Device

__all__ = ["MemoryPool", "PoolAttributes", "allocate_from", "set_pool"]

_PINNED, _MANAGED = 1, 2  # CU_MEM_ALLOCATION_TYPE_PINNED, MANAGED
_NONE, _DEVICE, _HOST, _NUMA = range(4)  # CU_MEM_LOCATION_TYPE_NONE, DEVICE, HOST, HOST_NUMA
_KINDS = ("device", "pinned", "managed")

# the attributes of a pool: CUmemPool_attribute, and what can be set: a switch, a number, only 0, or nothing
_ATTRIBUTES = {
    "reuse_follow_event_dependencies": (1, "switch"),
    "reuse_allow_opportunistic": (2, "switch"),
    "reuse_allow_internal_dependencies": (3, "switch"),
    "release_threshold": (4, "number"),
    "reserved_mem_current": (5, ""),
    "reserved_mem_high": (6, "zero"),
    "used_mem_current": (7, ""),
    "used_mem_high": (8, "zero"),
}


class PoolAttributes:
    """The attributes of a pool, which are read from the driver: pool.attributes.used_mem_current.

    The sizes are in bytes. `release_threshold` and the three switches `reuse_...` can be set; the high-water marks
    `reserved_mem_high` and `used_mem_high` can be set to 0, which resets them to the present sizes.

    calls   cuMemPoolGetAttribute, cuMemPoolSetAttribute
    """

    __slots__ = ("_pool",)

    _pool: MemoryPool

    def __init__(self, pool: MemoryPool) -> None:
        object.__setattr__(self, "_pool", pool)

    def __getattr__(self, name: str) -> int:
        if name not in _ATTRIBUTES:
            raise AttributeError(f"a pool has no attribute {name!r}: it has {', '.join(_ATTRIBUTES)}")
        number, setting = _ATTRIBUTES[name]
        if setting == "switch":
            value: ctypes.c_int | ctypes.c_uint64 = ctypes.c_int()
        else:
            value = ctypes.c_uint64()
        pool = self._pool
        pool._primary.calls.cuMemPoolGetAttribute(pool._argument(), ctypes.c_int(number), byref(value))
        if setting == "switch":
            return bool(value.value)
        return int(value.value)

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError(
            "the attributes of a pool belong to it, and cannot be copied or pickled: "
            "dict(pool.attributes) has their values"
        )

    def __setattr__(self, name: str, value: object) -> None:
        if name not in _ATTRIBUTES:
            raise AttributeError(f"a pool has no attribute {name!r}: it has {', '.join(_ATTRIBUTES)}")
        number, setting = _ATTRIBUTES[name]
        if not setting:
            raise AttributeError(f"{name} cannot be set: it is the present size")
        if setting == "switch":
            value = as_bool(name, value)
            given: ctypes.c_int | ctypes.c_uint64 = ctypes.c_int(bool(value))
        else:
            size = as_int(name, value)
            if setting == "zero" and size:
                raise ValueError(f"{name}={worded(size)}: a high-water mark can only be set to 0")
            if not 0 <= size < 2**64:
                raise ValueError(f"{name}={worded(size)}: give a number of bytes from 0 to 2**64-1")
            given = ctypes.c_uint64(size)
        pool = self._pool
        pool._primary.calls.cuMemPoolSetAttribute(pool._argument(), ctypes.c_int(number), byref(given))

    def __iter__(self) -> Iterator[str]:
        return iter(_ATTRIBUTES)

    def keys(self) -> Iterator[str]:
        """Return the names, so that dict(pool.attributes) works."""
        return iter(_ATTRIBUTES)

    def __getitem__(self, name: str) -> int:
        if not isinstance(name, str) or name not in _ATTRIBUTES:
            raise NotFound(f"a pool has no attribute {worded(name)}: it has {', '.join(_ATTRIBUTES)}")
        return self.__getattr__(name)

    def __dir__(self) -> list[str]:
        return [*_ATTRIBUTES, "keys"]

    def __repr__(self) -> str:
        if self._pool.closed:
            return f"<attributes of {self._pool!r}>"
        return f"<attributes of a pool: {', '.join(f'{name}={self[name]}' for name in self)}>"


class MemoryPool(SetOnce, locations.PeerAccess, Owned):
    """A pool from which memory is allocated in the order of a stream.

    Freed memory stays in the pool for later allocations. If the pool has reserved more than `release_threshold` bytes
    (0 at first), the driver returns unused memory to the system at a call that waits for a stream, an event or the
    device. After close(), the memory that was allocated from the pool stays valid until it is closed itself.

    It is made with its own name; Device.default_pool is one that is always there.

    >>> device = Device(0)
    >>> pool = MemoryPool(device)
    >>> memory = pool.allocate(64, stream=device.stream())
    >>> memory.nbytes
    64

    device  the Device whose memory it is, or whose kernels have access to it
    shareable  whether Memory.share() can offer its memory, which must be of a device, to other processes
    kind    "device"; "pinned": page-locked host memory; "managed"
    units   max_size is in bytes; 0: no limit
    calls   cuMemPoolCreate, cuMemPoolDestroy, cuMemPoolSetAccess
    raises  Unsupported  the device or its driver has no pools of this kind
            ValueError   an unknown kind, an impossible size, a location of another kind of pool
    """

    # location   of a "pinned" pool "host" or a node, "numa:0"; of a "managed" one the preferred location
    __slots__ = ("device", "kind", "max_size", "_primary", "_where", "_pool")
    _instead = "make another pool"

    device: Device
    kind: str
    max_size: int  # 0: no limit, or that of a pool that the driver made
    if TYPE_CHECKING:
        _primary: PrimaryContext
        _where: locations.Location
        _pool: MemoryPool | None  # ours, which this one is; None for all others

    def __init__(
        self,
        device: Device = None,  # type: ignore[assignment]
        *,
        kind: str = "device",
        max_size: int = 0,
        location: object = None,
        shareable: bool = False,
    ) -> None:
        allocation, where = _place_of(device, kind, location)
        size = size_of("max_size", max_size)
        primary = primary_of(device)
        assert primary is not None  # _place_of() has checked the device
        self.device, self.kind, self.max_size, self._primary, self._where = device, kind, size, primary, where
        self._pool = None
        _require(primary, kind, where)
        if as_bool("shareable", shareable):
            _require_sharing(primary, kind)
        wanted = cuda_h.CUmemPoolProps(
            allocType=allocation, handleTypes=int(bool(shareable)), location=where.struct(), maxSize=size
        )
        make(self, POOL, primary, (byref(wanted),))
        try:
            self._let_in()
        except BaseException:
            self.close()
            raise

    def _let_in(self) -> None:
        """Give the device access to page-locked memory, to which at first only the host has access."""
        if self.kind == "pinned" and self.access(self.device) == "none":
            self.set_access(self.device, "readwrite")

    @classmethod
    def default(cls, device: Device, kind: str = "device", location: object = None) -> MemoryPool:
        """Return the default pool, which always exists; close() does not destroy it. The device gets access to it.

        calls   cuDeviceGetDefaultMemPool, cuMemGetDefaultMemPool, cuMemPoolSetAccess
        """
        return cls._borrow(device, kind, location, "cuDeviceGetDefaultMemPool", "cuMemGetDefaultMemPool")

    @classmethod
    def current(cls, device: Device, kind: str = "device", location: object = None) -> MemoryPool:
        """Return the pool from which memory is allocated if no pool is given; close() does not destroy it.

        The device gets access to it, unless it is one that this package has made.

        calls   cuDeviceGetMemPool, cuMemGetMemPool, cuMemPoolSetAccess
        """
        return cls._borrow(device, kind, location, "cuDeviceGetMemPool", "cuMemGetMemPool")

    @classmethod
    def _borrow(cls, device: Device, kind: str, location: object, of_device: str, of_location: str) -> MemoryPool:
        allocation, where = _place_of(device, kind, location)
        primary = primary_of(device)
        assert primary is not None
        _require(primary, kind, where)
        handle = cuda_h.CUmemoryPool()
        if kind == "device":
            getattr(primary.calls, of_device)(byref(handle), ctypes.c_int(device.handle))
        else:
            getattr(primary.calls, of_location)(byref(handle), byref(where.struct()), ctypes.c_int(allocation))
        made, kept = cls.__new__(cls), _current.get(_key(allocation, where), [])
        ours = next((each for each in kept if not each.borrowed and each._handle == handle.value), None)
        made.device, made.kind, made._primary, made._where, made._pool = device, kind, primary, where, ours
        made.max_size = 0 if ours is None else ours.max_size
        made._own(handle.value or 0, None)
        if ours is None:
            made._let_in()
        return made

    @property
    def handle(self) -> int:
        """Return the CUmemoryPool; raises Closed after close(), also of the pool for which this one stands."""
        if self._pool is not None and self._handle is not None:
            return self._pool.handle
        return super().handle

    def make_current(self) -> None:
        """Make this the pool from which memory of its kind and location is allocated if no pool is given.

        It is kept until another one is made current there.

        calls   cuDeviceSetMemPool, cuMemSetMemPool
        """
        calls, pool = self._primary.calls, self._argument()
        allocation = _MANAGED if self.kind == "managed" else _PINNED
        key, made = _key(allocation, self._where), self._pool or self
        with unless_inside(_assigning):
            before = _current.get(key, [])
            _current[key] = [*before, made]  # an interrupt may come before the call, and after it
            if self.kind == "device":
                calls.cuDeviceSetMemPool(ctypes.c_int(self._primary.ordinal), pool)
            else:
                calls.cuMemSetMemPool(byref(self._where.struct()), ctypes.c_int(allocation), pool)
            _current[key] = [made]

    @property
    def location(self) -> Device | str | None:
        """Return the location of the memory, or the preferred one: a Device, "host", "numa:0", or None for any."""
        if self._where.kind == _NONE:
            return None
        return self._where.public()

    # -- allocating

    def allocate(self, nbytes: int, *, stream: object = None) -> Memory:
        """Allocate memory in the order of a stream; it is freed in the order of the same stream.

        stream  None: the legacy default stream; it may be a stream of another device
        units   bytes; for 0 nothing is allocated, and the address is 0
        calls   cuMemAllocFromPoolAsync, cuMemFreeAsync
        raises  OutOfMemory  not enough memory is free, or the pool would exceed its max_size
                Closed       after close()
        """
        self.handle  # raises Closed
        nbytes, primary = size_of("nbytes", nbytes), self._primary
        if stream is None:
            stream = Stream.legacy
        if isinstance(stream, StreamHandle) and stream._primary is primary:
            ordering: StreamHandle | Ordering = stream
        else:
            ordering = Ordering(stream)
        queue = queue_of(stream if ordering is stream else ordering.handle)  # raises Closed, also for 0 bytes
        memory = blank(self.device, primary, nbytes, self.kind, noted_form(stream), OF_POOLS[self.kind])
        if nbytes:
            try:
                make(memory, POOLED, primary, (as_argument(nbytes), as_argument(self.handle), queue), ordering)
            except OutOfMemory as error:
                if not self.max_size:
                    raise
                used = self.attributes.used_mem_current
                message = (
                    f"{error}\n{self!r} was made with max_size={self.max_size}, of which {used} bytes are in use: "
                    "close memory from it, or make a larger pool"
                )
                raise reworded(error, message, OutOfMemory) from None
        return memory

    def trim(self, keep: int = 0) -> None:
        """Return unused memory to the system, until the pool reserves at most `keep` bytes or has no unused memory.

        calls   cuMemPoolTrimTo
        """
        self._primary.calls.cuMemPoolTrimTo(self._argument(), as_argument(size_of("keep", keep)))

    @property
    def attributes(self) -> PoolAttributes:
        """Return the attributes, such as the numbers of bytes that are reserved and used."""
        return PoolAttributes(self)

    @property
    def release_threshold(self) -> int:
        """Return the number of reserved bytes above which the driver returns unused memory; it can be set."""
        return self.attributes.release_threshold

    @release_threshold.setter
    def release_threshold(self, nbytes: int) -> None:
        self.attributes.release_threshold = nbytes

    # -- access of devices

    def access(self, device: object) -> str:
        """Return the access of a device to the pool's memory: "none", "read" or "readwrite".

        device  a Device or its ordinal
        calls   cuMemPoolGetAccess
        """
        where = locations.Location(_DEVICE, locations.ordinal_from(device)).struct()
        flags = ctypes.c_uint()
        self._primary.calls.cuMemPoolGetAccess(byref(flags), self._argument(), byref(where))
        return locations.right_of(flags.value)

    def set_access(self, device: object, access: str) -> None:
        """Give a device access to all memory of the pool, including earlier allocations, or take the access away.

        device  a Device or its ordinal
        access  "none", "read" or "readwrite"
        order   before access is taken away, all work of the device is completed
        calls   cuMemPoolSetAccess
        raises  Unsupported  the device cannot reach the memory
                ValueError   less than "readwrite" for the pool's own device
                InvalidUse   a stream of the device is being captured, and access is taken away
        """
        flags = locations.right_from(access)
        self._set_access({locations.ordinal_from(device): flags})

    def _set_access(self, rights: dict[int, int]) -> None:
        own, handle = self._primary.ordinal, self._argument()
        for ordinal, flags in rights.items():
            if self.kind == "device":
                if ordinal == own and flags != 3:
                    raise ValueError(f"device {own} always has access to the memory of its own pool")
                if flags:
                    locations.require_peer(ordinal, own, "a pool of it")
        if not rights:
            return
        locations.finish_work((ordinal for ordinal, flags in rights.items() if flags != 3), "set_access()")
        wanted = (cuda_h.CUmemAccessDesc * len(rights))()
        for each, ordinal in zip(wanted, rights):
            each.location, each.flags = locations.Location(_DEVICE, ordinal).struct(), rights[ordinal]
        self._primary.calls.cuMemPoolSetAccess(handle, byref(wanted), as_argument(len(rights)))

    def _peers(self) -> list[Device]:
        others = [ordinal for ordinal in range(count()) if ordinal != self._primary.ordinal]
        return [locations.device_from(ordinal) for ordinal in others if self.access(ordinal) != "none"]

    def _argument(self) -> object:
        """Return the handle as an argument of prepared calls; raises Closed."""
        if self._primary._handle is None:  # the pool is borrowed, and the Device was closed
            self._primary.open()
        return as_argument(self.handle)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, MemoryPool) and self._handle is not None and other._handle == self._handle

    def __hash__(self) -> int:
        return hash(("pool", self.device.ordinal, self.kind))  # the same after close()

    def __repr__(self) -> str:
        where = shown_handle(self)
        return f"<MemoryPool {where}, {self.kind}, device {self.device.ordinal}>"


# The pools that were made current, by what for. Nothing else may keep them, and the driver would return to the default
# pool if one were destroyed. There are several if it is not known whether a call of the driver had an effect.
_current: dict[tuple[int, int, int], list[MemoryPool]] = {}
_assigning = free_after_fork(RLock())  # so that threads change the table in the order of their calls of the driver


def _key(allocation: int, where: locations.Location) -> tuple[int, int, int]:
    return allocation, where.kind, where.number


def _place_of(device: Device, kind: object, location: object) -> tuple[int, locations.Location]:
    """Check the arguments that say where a pool's memory is; return the CUmemAllocationType and the location."""
    if not is_device(device):
        raise no_device("MemoryPool", device, "device.memory_pool()")
    as_choice("kind", kind, _KINDS)
    if kind == "device":
        if location is not None:
            raise ValueError("location is for pools of pinned or managed memory: leave it out, or give another kind")
        return _PINNED, locations.Location(_DEVICE, device.ordinal)
    if location is None:
        where = None
    else:
        where = locations.location_from(location)
    if kind == "pinned":
        where = where or locations.Location(_HOST)
        if where.kind not in (_HOST, _NUMA):
            raise ValueError(f"location {worded(location)}: pinned memory is on the host: give 'host' or 'numa:0'")
        return _PINNED, where
    where = where or locations.Location(_NONE)
    if where.kind not in (_NONE, _DEVICE, _HOST, _NUMA):
        raise ValueError(f"location {worded(location)}: a pool is for all threads: give a Device, 'host' or 'numa:0'")
    return _MANAGED, where


def allocate_from(device: Device, pool: MemoryPool, nbytes: int, kind: str, stream: object) -> Memory:
    """Allocate from a pool, for Device.allocate().

    raises  TypeError   not a MemoryPool
            ValueError  a pool of another device, or of another kind of memory
    """
    _check_pool(device, pool)
    if as_choice("kind", kind, _KINDS) not in ("device", pool.kind):
        raise ValueError(f"kind {worded(kind)}: {pool!r} contains {pool.kind} memory: leave kind out")
    device.context
    return pool.allocate(nbytes, stream=stream)


def set_pool(device: Device, pool: MemoryPool) -> None:
    """Make a pool the current one of a device, for Device.pool."""
    _check_pool(device, pool)
    if pool.kind != "device":
        raise ValueError(f"a pool of {pool.kind} memory cannot be the pool of a device: use pool.make_current()")
    pool.make_current()


def _check_pool(device: Device, pool: MemoryPool) -> None:
    if not isinstance(pool, MemoryPool):
        raise TypeError(f"pool must be a MemoryPool, not {a_kind(pool)}")
    pool.handle  # raises Closed
    if pool._primary is not device._primary:
        other = pool._primary.ordinal
        raise ValueError(f"{pool!r} belongs to device {other}, not to {device!r}: use Device({other}), or another pool")


def _require_sharing(primary: PrimaryContext, kind: str) -> None:
    if kind != "device":
        raise ValueError(f"shareable=True is for pools of a device's memory, not for {kind} memory")
    locations.require(primary, "MEMPOOL_SUPPORTED_HANDLE_TYPES", "pools for other processes")


def _require(primary: PrimaryContext, kind: str, where: locations.Location) -> None:
    if kind == "device":
        locations.require(primary, "MEMORY_POOLS_SUPPORTED", "memory pools")
    elif kind == "pinned":
        attribute = "HOST_NUMA_MEMORY_POOLS_SUPPORTED"
        if where.kind == _HOST:
            attribute = "HOST_MEMORY_POOLS_SUPPORTED"
        locations.require(primary, attribute, "pools of host memory")
    elif primary.driver.version < 13000:
        raise unsupported(
            "pools of managed memory exist from CUDA 13.0 on, and this driver is of CUDA "
            f"{dotted(primary.driver.version)}: use device.allocate(nbytes, kind='managed'), or update the driver",
        )
