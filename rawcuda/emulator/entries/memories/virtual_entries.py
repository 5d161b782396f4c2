"""Entry points: virtual memory, which is reserved, created, mapped and made accessible in separate steps.

What it is   a reservation is a range of addresses without memory; a PhysicalMemory is memory without an address; a
             mapping puts one into the other. If a kernel uses an address where nothing is mapped, or to which its
             device was given no access, it is stopped; a copy of such memory is refused.
How          a mapping is an Allocation of the space, and its bytes are those of the PhysicalMemory, so memory that is
             mapped twice has one content. Unmapping waits for no work.
What not     multicast objects or sparse arrays. Memory of other processes is imported in ipc.py.
Source       CUDA Driver API, "Virtual Memory Management"
Read next    copy_entries.py
"""

from __future__ import annotations

import struct

from ...interface.thunks import ACCESS_DESC, LOCATION, entry, out, put_bytes, put_u64, put_word, read
from ...machine.codes import Refused
from ...machine.machine import Device, Holding, Machine
from ...machine.sharing import Backing
from ...machine.space import POISONED_UP_TO, Allocation, new_memory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["physical_of", "physical_over"]

_DEVICE, _HOST, _NUMA = 1, 2, 3  # CU_MEM_LOCATION_TYPE_DEVICE, HOST, HOST_NUMA
_DESCRIPTOR = 1  # CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
_PINNED = 1  # CU_MEM_ALLOCATION_TYPE_PINNED
_PROPERTIES = struct.Struct("2i 2i P 2BH4x 0P")  # type, handle types; location; metadata; compression, RDMA, usage


class PhysicalMemory:
    """Memory of a device, or of the host, that can be mapped; it lives while there is a handle or a mapping.

    handles  how many times the handle must still be released; mapped: the number of its mappings
    backing  for memory that other processes may use: a Backing of sharing.py
    """

    __slots__ = ("handle", "device", "place", "size", "data", "written", "handles", "mapped", "backing")

    def __init__(
        self, device: Device | None, place: tuple[int, int], size: int, watch: bool, backing: Backing | None = None
    ) -> None:
        self.handle = 0
        self.device, self.place, self.size, self.backing = device, place, size, backing
        self.data: Any = new_memory(size, "physical memory") if backing is None else backing.pages
        self.written = bytearray(size) if watch and backing is None and size <= POISONED_UP_TO else None
        self.handles, self.mapped = 1, 0

    def forget(self, machine: Machine) -> None:
        """Free this memory if it has neither a handle nor a mapping; after an interrupt, it may be called again."""
        if not self.handles:
            machine.handles.pop(self.handle, None)
        if not self.handles and not self.mapped and self in machine.physical:
            if self.backing is not None:
                self.backing.close()
            self.data = self.written = None  # not only when a garbage collection finds what refers to this
            del machine.physical[self]
            if self.device is not None:
                self.device.used -= self.size


class Mapping:
    """A mapping: its allocation, the memory behind it, and the access of each device, by ordinal."""

    __slots__ = ("allocation", "physical", "access")

    def __init__(self, allocation: Allocation, physical: PhysicalMemory) -> None:
        self.allocation, self.physical = allocation, physical
        self.access: dict[int, int] = {}


def _whole(machine: Machine, name: str, *sizes: int) -> None:
    """Check that sizes and addresses are multiples of the granularity."""
    unit = machine.answers.granularity
    for size in sizes:
        if size % unit:
            raise Refused(1, f"{name}: {size:#x} is not a multiple of the granularity, {unit:#x} bytes")


def physical_of(machine: Machine, handle: int) -> PhysicalMemory:
    """Return the physical memory of a handle, or refuse the handle."""
    thing = machine.handles.get(handle)
    if type(thing) is not PhysicalMemory:
        raise Refused(1, f"{handle:#x} is not the handle of memory from cuMemCreate, or it was released")
    return thing


def physical_over(machine: Machine, device: Device, backing: Backing) -> PhysicalMemory:
    """Return new physical memory over a file in memory, which may belong to another process."""
    made = PhysicalMemory(device, (_DEVICE, device.ordinal), backing.size, False, backing)
    device.used += made.size
    machine.physical[machine.add(made)] = None
    return made


# -- addresses


@entry(
    "cuMemAddressReserve(CUdeviceptr *ptr, size_t size, size_t alignment, CUdeviceptr addr, unsigned long long flags)",
    since=10020,
)
def reserve(machine: Machine, address: int, size: int, alignment: int, hint: int, flags: int) -> None:
    """Reserve addresses; the hint for their place is ignored."""
    out(address)
    _whole(machine, "cuMemAddressReserve", size)
    if flags or not size or alignment & (alignment - 1):
        raise Refused(1)
    base = machine.space.reserve(size, max(alignment, machine.answers.granularity), machine.caller())
    machine.restricted = True
    put_u64(address, base)


@entry("cuMemAddressFree(CUdeviceptr ptr, size_t size)", since=10020)
def address_free(machine: Machine, base: int, size: int) -> None:
    """Free reserved addresses, at which no memory may be mapped."""
    reserved, _ = machine.space.reserved.get(base, (0, ""))
    if not reserved:
        raise Refused(1, f"{base:#x} is not the start of a reservation: {machine.space.explain(base, 1)}")
    if reserved != size:
        raise Refused(1, f"size {size}: {reserved} bytes were reserved at {base:#x}, and can only be freed as a whole")
    if machine.space.overlapping(base, size) is not None:
        raise Refused(1, f"memory is still mapped at the {size} bytes from {base:#x} on: unmap it first")
    machine.space.unreserve(base)


# -- memory


def _place(machine: Machine, properties: int) -> tuple[Device | None, tuple[int, int], int]:
    """Read a CUmemAllocationProp; return the device, or None for the host, the location, and the types of handles."""
    kind, handles, where, number, metadata, compression, _, usage = read(_PROPERTIES, properties)
    if kind != _PINNED or metadata:
        raise Refused(1)
    if handles & ~_DESCRIPTOR or handles and where != _DEVICE or compression or usage:
        raise Refused(
            801,
            f"handle types {handles:#x}, compression {compression}, usage {usage:#x}: must be 0, because they are not "
            "emulated; memory of a device can have file descriptors (1)",
        )
    if where == _DEVICE:
        return machine.device(number), (where, number), handles
    if where == _HOST or where == _NUMA and number == 0:
        return None, (where, 0), 0
    raise Refused(1, f"physical memory cannot lie at a location of type {where}, id {number}")


@entry(
    "cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size, const CUmemAllocationProp *prop, unsigned long "
    "long flags)",
    since=10020,
)
def create(machine: Machine, address: int, size: int, properties: int, flags: int) -> None:
    """Create memory without an address."""
    out(address)
    device, place, handles = _place(machine, properties)
    _whole(machine, "cuMemCreate", size)
    if flags or not size:
        raise Refused(1)
    if device is not None:
        machine.make_room(device, size)
        if handles:
            put_u64(address, physical_over(machine, device, Backing.create(size, device.index, "physical")).handle)
            return
    physical = machine.add(PhysicalMemory(device, place, size, machine.space.watch))
    if device is not None:
        device.used += size
    machine.physical[physical] = None
    put_u64(address, physical.handle)


@entry("cuMemRelease(CUmemGenericAllocationHandle handle)", since=10020)
def release(machine: Machine, handle: int) -> None:
    """Release a handle; mapped memory lives until it is unmapped."""
    physical = physical_of(machine, handle)
    physical.handles -= 1
    physical.forget(machine)


@entry("cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *addr)", since=11000)
def retain(machine: Machine, address: int, mapped: int) -> None:
    """Write the handle of the memory that is mapped at an address; it must be released once more."""
    out(address)
    physical = _mapping(machine, mapped).physical
    physical.handles += 1
    machine.handles[physical.handle] = physical
    put_u64(address, physical.handle)


@entry(
    "cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *prop, "
    "CUmemAllocationGranularity_flags option)",
    since=10020,
)
def granularity(machine: Machine, address: int, properties: int, option: int) -> None:
    """Write the granularity: sizes and addresses must be multiples of it."""
    out(address)
    _place(machine, properties)
    if option not in (0, 1):
        raise Refused(1)
    put_word(address, machine.answers.granularity)


@entry(
    "cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop, CUmemGenericAllocationHandle handle)",
    since=10020,
)
def properties_of(machine: Machine, address: int, handle: int) -> None:
    """Write the location of physical memory."""
    out(address)
    physical = physical_of(machine, handle)
    if physical.backing is None:
        handles = 0
    else:
        handles = _DESCRIPTOR
    put_bytes(address, _PROPERTIES.pack(_PINNED, handles, *physical.place, 0, 0, 0, 0))


# -- mappings


def _mapping(machine: Machine, address: int) -> Mapping:
    allocation = machine.space.find(address)
    holding: Any = allocation.context if allocation is not None else None
    if holding is None or holding.mapping is None:
        raise Refused(1, machine.space.explain(address, 1))
    mapping: Mapping = holding.mapping
    return mapping


def _mappings(machine: Machine, base: int, size: int) -> list[Mapping]:
    """Return the mappings of a range, which must consist of whole mappings without a gap."""
    found: list[Mapping] = []
    at = base
    while at < base + size or not found:
        mapping = _mapping(machine, at)
        if mapping.allocation.base != at or at + mapping.allocation.size > base + size:
            raise Refused(
                1,
                f"the {size} bytes from {base:#x} on contain only a part of a {mapping.allocation.describe()} at "
                f"{mapping.allocation.base:#x}: a mapping can only be changed as a whole",
            )
        found.append(mapping)
        at += mapping.allocation.size
    return found


@entry(
    "cuMemMap(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle, unsigned long long "
    "flags)",
    since=10020,
)
def map_memory(machine: Machine, base: int, size: int, offset: int, handle: int, flags: int) -> None:
    """Map memory at reserved addresses; no device has access yet."""
    physical = physical_of(machine, handle)
    _whole(machine, "cuMemMap", base, size)
    if flags or offset or not size:
        raise Refused(1)
    if size > physical.size:
        raise Refused(1, f"{size} bytes cannot be mapped: the memory has {physical.size}")
    around = machine.space.reservation(base)
    if around is None or base + size > sum(around):
        raise Refused(1, f"the {size} bytes from {base:#x} on are not reserved: {machine.space.explain(base, size)}")
    other = machine.space.overlapping(base, size)
    if other is not None:
        raise Refused(1, f"memory is mapped there already: a {other.describe()} at {other.base:#x}")
    allocation = machine.space.map(base, memoryview(physical.data)[:size], physical.written)
    context = (physical.device or machine.devices[0]).primary
    holding = Holding(allocation, context, "virtual", 0, next(machine.counter))
    holding.mapping = Mapping(allocation, physical)
    allocation.context, allocation.origin = holding, machine.caller()
    physical.mapped += 1


@entry("cuMemUnmap(CUdeviceptr ptr, size_t size)", since=10020)
def unmap(machine: Machine, base: int, size: int) -> None:
    """Unmap whole mappings; it waits for no work, which then accesses memory that is not there."""
    mappings = _mappings(machine, base, size)
    for mapping in mappings:
        machine.space.free(mapping.allocation.base)
        mapping.physical.mapped -= 1
        mapping.physical.forget(machine)


@entry("cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc, size_t count)", since=10020)
def set_access(machine: Machine, base: int, size: int, descriptions: int, count: int) -> None:
    """Set the access of devices to whole mappings."""
    mappings = _mappings(machine, base, size)
    changed = {}
    for index in range(count):
        where, number, flags = read(ACCESS_DESC, descriptions + index * ACCESS_DESC.size)
        if flags not in (0, 1, 3):
            raise Refused(1, f"access {flags}: must be 0, 1 or 3 (CUmemAccess_flags)")
        if where == _DEVICE:
            device = machine.device(number)
            for home in (mapping.physical.device for mapping in mappings if flags):
                if home is not None and home is not device and not machine.reaches(device, home):
                    raise Refused(101, f"device {number} cannot reach the memory of device {home.ordinal}")
            changed[number] = flags
        elif where not in (_HOST, _NUMA) or any(mapping.physical.device is not None for mapping in mappings):
            raise Refused(1, "the host cannot be given access to memory of a device")
    if not count:
        raise Refused(1)
    for mapping in mappings:
        mapping.access.update(changed)


@entry(
    "cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location, CUdeviceptr ptr)",
    since=10020,
)
def get_access(machine: Machine, address: int, location: int, mapped: int) -> None:
    """Write the access of a device to a mapping."""
    out(address)
    where, number = read(LOCATION, location)
    mapping = _mapping(machine, mapped)
    if where != _DEVICE:
        raise Refused(1)
    put_u64(address, mapping.access.get(machine.device(number).ordinal, 0))
