"""Records about memory: how each allocation was made, and how much memory each pool uses and keeps.

What it is   Holding, the part of an allocation that entry points know and the space does not; Pool, a memory pool;
             Heap, the memory that malloc allocates in kernels.
What not     bytes and addresses: space.py.
Source       CUDA Driver API, "Memory Management", "Stream Ordered Memory Allocator"
Read next    machine.py, entries/memories/memory_entries.py, entries/memories/pools.py
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .machine import Context, Device
    from .space import Allocation, Space

__all__ = ["Heap", "Holding", "Pool"]

_RESERVED_AT_ONCE = 2 << 20  # a pool reserves memory in multiples of this
_LEAST = 80  # bytes that an allocation of a kernel takes: a GPU's heap has its own data beside each, too


class Heap:
    """The memory that malloc has allocated in the kernels of a context.

    sizes  the sizes by address, in bytes, rounded up to a multiple of 16, and at least _LEAST; used: their sum
    """

    def __init__(self) -> None:
        self.sizes: dict[int, int] = {}
        self.used = 0

    def allocate(self, space: Space, nbytes: int, most: int) -> int:
        """Return the address of new memory, or 0 if the size is 0 or the heap would have more than `most` bytes."""
        rounded = max(-(-nbytes // 16) * 16, _LEAST)
        if nbytes <= 0 or rounded > most - self.used:
            return 0
        made = space.allocate(nbytes, label="malloc in a kernel", alignment=16)
        self.sizes[made.base] = rounded
        self.used += rounded
        return made.base

    def free(self, space: Space, address: int) -> bool:
        """Free memory; return False if malloc did not return its address, or it was freed."""
        if address not in self.sizes:
            return False
        space.free(address)
        self.used -= self.sizes.pop(address, 0)
        return True

    def repair(self, space: Space) -> None:
        """Forget memory that an interrupted call has freed, and count the rest; kernels may run meanwhile."""
        for address in list(self.sizes):
            if space.find(address) is None:
                self.sizes.pop(address, 0)
        self.used = sum(list(self.sizes.values()))

    def close(self, space: Space) -> None:
        """Free all memory."""
        for address in sorted(self.sizes, reverse=True):  # (from the end of the lists of addresses)
            self.free(space, address)


class Pool:
    """A memory pool: the location of its memory, how much of it is used, and how much it keeps for later allocations.

    place  the CUmemLocation of the memory, (type, id); device: its Device, or None for memory of the host
    kind   "device", "pinned" or "managed"
    """

    __slots__ = (
        "handle",
        "device",
        "place",
        "kind",
        "maximum",
        "attributes",
        "used",
        "used_high",
        "reserved",
        "reserved_high",
        "access",
        "default",
        "counted",
        "closed",
        "backing",
    )

    def __init__(
        self,
        device: Device | None,
        *,
        place: tuple[int, int] = (1, 0),
        kind: str = "device",
        maximum: int = 0,
        default: bool = False,
    ) -> None:
        self.handle = 0
        self.device, self.place, self.kind = device, place, kind
        self.maximum, self.default = maximum, default
        self.counted = not default  # among the objects that the user must destroy
        self.attributes = {1: 1, 2: 1, 3: 1, 4: 0}
        self.used = self.used_high = self.reserved = self.reserved_high = 0
        self.closed = False  # destroyed, while memory from it was still in use
        self.backing: Any = (
            None  # of a pool for other processes: a Backing of machine/sharing.py, whose token names the pool
        )
        self.access: dict[int, int] = {} if device is None else {device.ordinal: 3}

    def growth(self, nbytes: int) -> int:
        """Return how many bytes the pool must reserve before it can allocate nbytes."""
        return max(0, -(-(self.used + nbytes) // _RESERVED_AT_ONCE) * _RESERVED_AT_ONCE - self.reserved)

    def take(self, nbytes: int) -> None:
        """Count an allocation."""
        self._reserve(self.growth(nbytes))
        self.used += nbytes
        self.used_high = max(self.used_high, self.used)

    def put_back(self, nbytes: int) -> None:
        """Count a freed allocation, whose memory is kept; a destroyed pool keeps none."""
        self.used -= nbytes
        if self.closed:
            self.trim(0)

    def trim(self, keep: int) -> None:
        """Release unused memory until at most `keep` bytes are reserved; memory in use stays reserved."""
        used = -(-self.used // _RESERVED_AT_ONCE) * _RESERVED_AT_ONCE
        kept = max(used, keep // _RESERVED_AT_ONCE * _RESERVED_AT_ONCE)
        if kept < self.reserved:
            self._reserve(kept - self.reserved)

    def _reserve(self, nbytes: int) -> None:
        self.reserved += nbytes
        self.reserved_high = max(self.reserved_high, self.reserved)
        if self.device is not None and self.kind == "device":
            self.device.used += nbytes


class Holding:
    """What entry points know about an allocation: its context, how it was made, and whether it was freed."""

    __slots__ = (
        "allocation",
        "context",
        "flavour",
        "flags",
        "pool",
        "mapping",
        "pages",
        "released",
        "ident",
        "attributes",
        "reservation",
        "backing",
    )

    def __init__(
        self, allocation: Allocation, context: Context, flavour: str, flags: int, ident: int, pool: Pool | None = None
    ) -> None:
        self.allocation, self.context, self.flavour, self.flags, self.pool = allocation, context, flavour, flags, pool
        self.mapping: Any = None  # of virtual memory: a Mapping of entries/memories/virtual_entries.py
        self.pages: Any = None  # of managed memory: Pages of entries/memories/managed_entries.py, once there was advice
        self.released = False  # freed in stream order: the user must no longer use it
        self.ident = ident  # CU_POINTER_ATTRIBUTE_BUFFER_ID
        self.attributes: dict[int, int] = {}
        self.reservation: Any = None  # of memory that a graph allocated: a Reservation of entries/graphs/
        self.backing: Any = None  # of memory that other processes use: a Backing of machine/sharing.py

    @property
    def ordinal(self) -> int:
        """Return the device on which the memory was allocated, or in whose context it was registered."""
        if self.pool is not None and self.pool.device is not None:
            return self.pool.device.ordinal
        return self.context.device.ordinal
