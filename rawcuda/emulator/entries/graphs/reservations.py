"""Memory of graphs: addresses that are reserved when a node is made, and allocated in each launch.

How          the address of an allocation node never changes, and no other memory gets it. The call that launches it
             enters the memory in the address space, so that later calls can name it; the node resets its content
             when it runs. If a later launch is queued already when a free runs, the memory stays for that launch.
Source       CUDA Driver API, cuGraphAddMemAllocNode, cuGraphAddMemFreeNode
Read next    executables.py
"""

from __future__ import annotations

from bisect import bisect_right, insort

from ...interface.thunks import entry, get_u64, out, put_u64
from ...machine.codes import Refused
from ...machine.machine import Device, Machine
from ...machine.space import POISON, POISONED_UP_TO

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...machine.machine import Context, Holding
    from .definitions import Graph

__all__ = ["Reservation", "check_room", "covers", "reserve", "reserved_at"]


class Reservation:
    """The memory of an allocation node.

    holding  the Holding of the newest allocation at this address, or None; queued: how many queued launches will
             allocate it again
    """

    __slots__ = ("machine", "device", "base", "size", "graph", "access", "holding", "queued", "freed_by", "__weakref__")

    def __init__(
        self, machine: Machine, device: Device, base: int, size: int, graph: Graph, access: dict[int, int]
    ) -> None:
        self.machine, self.device, self.base, self.size = machine, device, base, size
        self.graph, self.access = graph, access
        self.holding: Holding | None = None
        self.queued = 0
        self.freed_by: Graph | None = None  # the graph that has a free node for this memory

    @property
    def is_taken(self) -> bool:
        """Tell whether the memory is allocated once all work of the calls so far is done."""
        holding = self.holding
        return holding is not None and not holding.released and holding.allocation.alive

    def access_from(self, device: Device) -> int:
        """Return the access of kernels of a device: 0, 1 to read, 3 to read and write."""
        return self.access.get(device.ordinal, 3 if device is self.device else 0)

    def enter(self) -> None:
        """Allocate the memory for a launch that is being queued."""
        self._revive()
        self.queued += 1

    def _revive(self) -> None:
        machine, holding = self.machine, self.holding
        if holding is None or not holding.allocation.alive:
            context: Context = self.device.primary
            allocation = machine.space.allocate(self.size, base=self.base, label="memory of a graph")
            holding = machine.hold(allocation, context, "pool", pool=self.device.graph_pool)
            holding.reservation = self
            self.holding = holding
        holding.released = False

    def leave(self) -> None:
        """Record that a call has queued a free of this memory."""
        if self.holding is not None:
            self.holding.released = True

    def begin(self) -> None:
        """Start a new allocation, whose content is that of new memory."""
        self.queued -= 1
        holding = self.holding
        if holding is None or not holding.allocation.alive:
            self._revive()
        elif self.size <= POISONED_UP_TO:
            allocation = holding.allocation
            allocation.data[:] = bytes([POISON]) * self.size
            if self.machine.space.watch:
                allocation.written = bytearray(self.size)

    def end(self) -> None:
        """Free the memory."""
        if self.holding is not None:
            self.machine.give_back(self.holding)

    def stays(self) -> bool:
        """Tell whether a queued launch will use the memory again; a free must not remove it then."""
        return self.queued > 0


def _known(machine: Machine) -> list[Reservation]:
    found = [reference() for reference in machine.graph_memory.valuerefs()]
    return [made for made in found if made is not None]


def check_room(machine: Machine, device: Device, more: int) -> None:
    """Refuse a launch that needs more bytes than graphs have now, once all work of the calls so far is done."""
    pool = device.graph_pool
    needed = more + sum(made.size for made in _known(machine) if made.device is device and made.is_taken)
    growth = pool.growth(needed - pool.used)
    if growth:
        machine.make_room(device, growth)


def reserved_at(machine: Machine, address: int) -> Reservation | None:
    """Return the memory of a graph for which an address is reserved, and which may not exist now, or None."""
    at = bisect_right(machine.graph_bases, address)
    if not at:
        return None
    made: Reservation | None = machine.graph_memory.get(machine.graph_bases[at - 1])
    if made is None or address >= made.base + made.size:
        return None
    return made


def covers(machine: Machine, address: int) -> bool:
    """Tell whether an address is reserved for memory of a graph."""
    return reserved_at(machine, address) is not None


def reserve(machine: Machine, graph: Graph, device: Device, nbytes: int, access: dict[int, int]) -> Reservation:
    """Reserve an address for an allocation node."""
    if not nbytes:
        raise Refused(1, "an allocation node of zero bytes")
    if nbytes > 1 << 40:
        raise Refused(2, f"{nbytes} bytes cannot be reserved: at most {1 << 40} can")
    base = machine.space.new_address(nbytes)
    made = Reservation(machine, device, base, nbytes, graph, access)
    machine.graph_memory[base] = made
    if len(machine.graph_bases) > 2 * len(machine.graph_memory):  # most of this memory is gone
        machine.graph_bases[:] = sorted(machine.graph_memory.keys())
    else:
        insort(machine.graph_bases, base)
    return made


@entry("cuDeviceGraphMemTrim(CUdevice device)", since=11040)
def trim(machine: Machine, device: int) -> None:
    """Release the memory that no graph uses now."""
    machine.device(device).graph_pool.trim(0)


@entry("cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr, void *value)", since=11040)
def get_attribute(machine: Machine, device: int, number: int, address: int) -> None:
    """Write how much memory the graphs of a device use or reserve now, or did at most."""
    out(address)
    pool = machine.device(device).graph_pool
    if number not in range(4):
        raise Refused(1)
    put_u64(address, (pool.used, pool.used_high, pool.reserved, pool.reserved_high)[number])


@entry("cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr, void *value)", since=11040)
def set_attribute(machine: Machine, device: int, number: int, address: int) -> None:
    """Reset a high-water mark, which can only be set to 0."""
    out(address)
    pool = machine.device(device).graph_pool
    if number not in (1, 3) or get_u64(address):
        raise Refused(1, "only the high-water marks can be set, and only to 0")
    if number == 1:
        pool.used_high = pool.used
    else:
        pool.reserved_high = pool.reserved
