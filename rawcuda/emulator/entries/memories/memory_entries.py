"""Entry points: device, pinned and managed memory, and the attributes of pointers.

How          device memory has addresses that the host never uses; pinned and managed memory has the same address on the
             host and on devices. A free first finishes the context's work, as in the driver. pools.py has the calls
             for memory in stream order.
Source       CUDA Driver API, "Memory Management", "Unified Addressing"
Read next    managed_entries.py, pools.py, copy_entries.py
"""

from __future__ import annotations

from ...interface.thunks import WORD, entry, get_int, out, put_bytes, put_u64, put_uint, put_word, take
from ...machine.codes import Refused
from ...machine.host_access import is_mapped
from ...machine.machine import Context, Holding, Machine
from ...machine.sharing import is_supported
from ...machine.space import Allocation, Fault

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

__all__ = ["access_of", "allocate", "allocation_at", "holding_at"]

_PORTABLE, _READ_ONLY = 1, 8  # CU_MEMHOSTREGISTER_PORTABLE, _READ_ONLY


def allocate(machine: Machine, context: Context, nbytes: int) -> Allocation:
    """Allocate device memory if enough is free."""
    if not nbytes:
        raise Refused(1, "an allocation of zero bytes: the size must be positive")
    machine.make_room(context.device, nbytes)
    return machine.space.allocate(nbytes, alignment=machine.answers.alignment)


def allocation_at(machine: Machine, address: int) -> Allocation | None:
    """Return the allocation that contains an address; memory that malloc allocated in a kernel is refused."""
    allocation = machine.space.find(address)
    if allocation is not None and allocation.context is None:
        raise Refused(1, f"{machine.space.explain(address, 1)}: only kernels can use what malloc allocated in one")
    return allocation


def holding_at(machine: Machine, address: int) -> Holding:
    """Return the holding of the allocation that contains an address."""
    allocation = allocation_at(machine, address)
    if allocation is None:
        raise Refused(1, machine.space.explain(address, 1))
    holding: Holding = allocation.context
    return holding


def _based_at(machine: Machine, address: int, *flavours: str) -> Holding:
    """Return the holding that starts at an address, or refuse it if it has none of the given flavours."""
    holding = holding_at(machine, address)
    if holding.allocation.base != address:
        raise Refused(
            1,
            f"{address:#x} lies {address - holding.allocation.base} bytes inside a {holding.allocation.describe()}: "
            "only its start can be freed",
        )
    if holding.released:
        raise Refused(1, f"{address:#x} was already freed, in stream order")
    if holding.flavour not in flavours:
        raise Refused(1, f"{address:#x} is {holding.flavour} memory, which this call does not free")
    return holding


def _free(machine: Machine, address: int, *flavours: str) -> None:
    machine.context()
    holding = _based_at(machine, address, *flavours)
    holding.context.check()
    if holding.pool is not None:  # the driver does not wait for the work that uses it
        machine.give_back(holding)
        return
    if machine.queues.inside_work():  # in a __del__ or a signal handler: the thread cannot wait for itself
        holding.released, where = True, machine.caller()
        machine.queues.after_work(lambda: _free_late(machine, holding, where))
        return
    machine.queues.complete_context(holding.context)
    holding.context.check()
    machine.give_back(_based_at(machine, address, *flavours))  # another thread may have freed it meanwhile


def _free_late(machine: Machine, holding: Holding, where: str) -> None:
    machine.queues.complete_context(holding.context)
    machine.give_back(holding, where)


# -- device memory


@entry("cuMemGetInfo_v2(size_t *free, size_t *total)", since=3020)
def get_info(machine: Machine, free: int, total: int) -> None:
    """Write how much of the device's memory is free."""
    out(free, total)
    put_word(free, max(0, machine.answers.memory - machine.context().device.used))  # (graphs may reuse memory inside)
    put_word(total, machine.answers.memory)


@entry("cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize)", since=3020)
def mem_alloc(machine: Machine, address: int, nbytes: int) -> None:
    """Allocate device memory."""
    out(address)
    context = machine.context()
    allocation = allocate(machine, context, nbytes)
    machine.hold(allocation, context, "device")
    put_u64(address, allocation.base)


@entry(
    "cuMemAllocPitch_v2(CUdeviceptr *dptr, size_t *pPitch, size_t WidthInBytes, size_t Height, unsigned int "
    "ElementSizeBytes)",
    since=3020,
)
def alloc_pitch(machine: Machine, address: int, pitch: int, width: int, height: int, element: int) -> None:
    """Allocate rows with a pitch that is a multiple of the preferred alignment."""
    out(address, pitch)
    context = machine.context()
    if element not in (4, 8, 16) or not width or not height:
        raise Refused(1)
    row = -(-width // machine.answers.pitch) * machine.answers.pitch
    allocation = allocate(machine, context, row * height)
    machine.hold(allocation, context, "device")
    put_u64(address, allocation.base)
    put_word(pitch, row)


@entry("cuMemFree_v2(CUdeviceptr dptr)", since=3020)
def mem_free(machine: Machine, address: int) -> None:
    """Free device or managed memory after the context's work, and memory of a pool at once."""
    _free(machine, address, "device", "pool", "managed")


@entry("cuMemGetAddressRange_v2(CUdeviceptr *pbase, size_t *psize, CUdeviceptr dptr)", since=3020)
def address_range(machine: Machine, base: int, size: int, address: int) -> None:
    """Write start and size of the allocation that contains an address."""
    machine.context()
    allocation = allocation_at(machine, address)
    if allocation is None:
        raise Refused(500, machine.space.explain(address, 1))
    if base:
        put_u64(base, allocation.base)
    if size:
        put_word(size, allocation.size)


@entry("cuMemAllocManaged(CUdeviceptr *dptr, size_t bytesize, unsigned int flags)", since=6000)
def alloc_managed(machine: Machine, address: int, nbytes: int, flags: int) -> None:
    """Allocate memory that host and device use at the same address."""
    out(address)
    context = machine.context()
    if not nbytes or flags not in (1, 2):
        raise Refused(1)
    allocation = machine.space.allocate_host(nbytes, kind="managed")
    machine.hold(allocation, context, "managed", flags=flags)
    put_u64(address, allocation.base)


# -- pinned memory


@entry("cuMemAllocHost_v2(void **pp, size_t bytesize)", since=3020)
@entry("cuMemHostAlloc(void **pp, size_t bytesize, unsigned int Flags)", since=2020)
def host_alloc(machine: Machine, address: int, nbytes: int, flags: int = 0) -> None:
    """Allocate pinned host memory, which devices access at the same address."""
    out(address)
    context = machine.context()
    if not nbytes or flags & ~7:
        raise Refused(1)
    allocation = machine.space.allocate_host(nbytes, kind="pinned")
    machine.hold(allocation, context, "pinned", flags=flags | 2)
    put_word(address, allocation.base)


@entry("cuMemFreeHost(void *p)", since=2000)
def free_host(machine: Machine, address: int) -> None:
    """Free pinned host memory after the context's work."""
    _free(machine, address, "pinned")


def _save_registered(machine: Machine, address: int, nbytes: int, flags: int) -> Callable[[], None]:
    """Return a function that ends a registration that an interrupt has divided: it could not be ended otherwise."""
    before = machine.space.find(address)

    def undo() -> None:
        found = machine.space.find(address)
        if found is None or found is before or found.base != address:
            return
        if found.context is None:
            machine.space.free(address)
        else:
            machine.give_back(found.context)

    return undo


@entry("cuMemHostRegister_v2(void *p, size_t bytesize, unsigned int Flags)", since=6050, save=_save_registered)
def host_register(machine: Machine, address: int, nbytes: int, flags: int) -> None:
    """Register memory of the caller as pinned."""
    context = machine.context()
    if not address or not nbytes or flags & ~15:
        raise Refused(1)
    if flags & 4:
        raise Refused(801, "CU_MEMHOSTREGISTER_IOMEMORY: the emulator cannot register input/output memory")
    if not is_mapped(address, nbytes):
        raise Refused(1, f"the host does not have all of the {nbytes} bytes from {address:#x} on")
    if not flags & _READ_ONLY and not is_mapped(address, nbytes, "rw"):
        raise Refused(
            1,
            f"the host can only read some of the {nbytes} bytes from {address:#x} on: CU_MEMHOSTREGISTER_READ_ONLY (8) "
            "is required",
        )
    try:
        allocation = machine.space.register_host(address, nbytes)
    except Fault as fault:
        raise Refused(712, fault.report) from None
    machine.restricted |= bool(flags & _READ_ONLY)
    machine.hold(allocation, context, "registered", flags=flags | 2)


@entry("cuMemHostUnregister(void *p)", since=4000)
def host_unregister(machine: Machine, address: int) -> None:
    """Unregister memory of the caller after the context's work."""
    context = machine.context()
    allocation = allocation_at(machine, address)
    if allocation is None or allocation.context.flavour != "registered" or allocation.base != address:
        raise Refused(713, machine.space.explain(address, 1))
    holding = allocation.context
    if holding.context is not context and not holding.flags & _PORTABLE:
        raise Refused(713, f"the memory at {address:#x} was registered in another context, and not as portable memory")
    _free(machine, address, "registered")


@entry("cuMemHostGetDevicePointer_v2(CUdeviceptr *pdptr, void *p, unsigned int Flags)", since=3020)
def host_device_pointer(machine: Machine, address: int, pointer: int, flags: int) -> None:
    """Write the device address of pinned memory, which is its host address."""
    out(address)
    machine.context()
    if flags or holding_at(machine, pointer).flavour not in ("pinned", "registered"):
        raise Refused(1)
    put_u64(address, pointer)


@entry("cuMemHostGetFlags(unsigned int *pFlags, void *p)", since=2030)
def host_flags(machine: Machine, address: int, pointer: int) -> None:
    """Write the flags with which pinned memory was allocated."""
    out(address)
    machine.context()
    holding = holding_at(machine, pointer)
    if holding.flavour not in ("pinned", "registered"):
        raise Refused(1)
    put_uint(address, holding.flags)


# -- attributes of pointers


def access_of(holding: Holding, context: Context) -> int:
    """Return the access of kernels in a context to memory: 0, 1 to read, 3 to read and write."""
    device = context.device
    if holding.reservation is not None:  # memory of a graph, which lists the other devices in its node
        return int(holding.reservation.access_from(device))
    if holding.pool is not None:
        return holding.pool.access.get(device.ordinal, 3 if holding.pool.kind == "managed" else 0)
    if holding.mapping is not None:
        return int(holding.mapping.access.get(device.ordinal, 0))
    if holding.flavour == "registered":
        if holding.flags & _READ_ONLY:
            return 1
        return 3
    if holding.flavour not in ("device", "variable", "shared") or holding.context in (context, *context.peers):
        return 3
    return 0  # each context has its own addresses, also on the same device


def _host_pointer(holding: Holding, address: int) -> int:
    if holding.allocation.kind not in ("pinned", "managed"):
        raise Refused(1, f"{address:#x} is {holding.flavour} memory, which has no host address")
    return address


def _range_of(holding: Holding) -> tuple[int, int]:
    """Return first address and size of an allocation, or of the reservation in which it is mapped."""
    allocation = holding.allocation
    if holding.mapping is None:
        around = None
    else:
        around = holding.context.machine.space.reservation(allocation.base)
    return around or (allocation.base, allocation.size)


def _context_handle(holding: Holding) -> int:
    if holding.pool is not None or holding.mapping is not None:
        return 0
    return holding.context.handle


def _handle_types(holding: Holding) -> int:
    """Return the CUmemAllocationHandleType by which memory can be exported."""
    if holding.mapping is None:
        physical = None
    else:
        physical = holding.mapping.physical
    return int(any(thing is not None and thing.backing is not None for thing in (holding.pool, physical)))


# CUpointer_attribute -> (size of its value in bytes, function of the holding, the address and the current context);
# the attributes of features that are not emulated are 0
_POINTER_ATTRIBUTES: dict[int, tuple[int, Callable[[Holding, int, Context], int]]] = {
    1: (WORD, lambda holding, address, _: _context_handle(holding)),
    2: (4, lambda holding, address, _: 1 if holding.allocation.kind == "pinned" else 2),
    3: (8, lambda holding, address, _: address),
    4: (WORD, lambda holding, address, _: _host_pointer(holding, address)),
    6: (4, lambda holding, address, _: holding.attributes.get(6, 0)),
    7: (8, lambda holding, address, _: holding.ident),
    8: (4, lambda holding, address, _: int(holding.allocation.kind == "managed")),
    9: (4, lambda holding, address, _: holding.ordinal),
    10: (4, lambda holding, address, _: int(holding.flavour == "device" and is_supported())),
    11: (8, lambda holding, address, _: _range_of(holding)[0]),
    12: (WORD, lambda holding, address, _: _range_of(holding)[1]),
    13: (4, lambda holding, address, _: 1),
    14: (4, lambda holding, address, _: _handle_types(holding)),
    15: (4, lambda holding, address, _: 0),
    16: (4, lambda holding, address, context: access_of(holding, context)),
    17: (WORD, lambda holding, address, _: holding.pool.handle if holding.pool is not None else 0),
    18: (WORD, lambda holding, address, _: holding.allocation.size),
    19: (8, lambda holding, address, _: holding.allocation.base),
    20: (8, lambda holding, address, _: holding.ident),
    21: (4, lambda holding, address, _: 0),
}


def _put_attribute(data: int, width: int, value: int) -> None:
    put_bytes(data, (value & (1 << 8 * width) - 1).to_bytes(width, "little"))


@entry("cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr ptr)", since=4000)
def pointer_attribute(machine: Machine, data: int, number: int, address: int) -> None:
    """Write one attribute of a pointer; plain host memory is refused with 1."""
    out(data)
    context = machine.context()
    if number not in _POINTER_ATTRIBUTES:
        raise Refused(1)
    width, look_up = _POINTER_ATTRIBUTES[number]
    if number in (11, 12, 13):
        around = machine.space.reservation(address)
    else:
        around = None
    if around is not None and machine.space.find(address) is None:  # reserved addresses at which nothing is mapped
        _put_attribute(data, width, (*around, 0)[number - 11])
        return
    _put_attribute(data, width, look_up(holding_at(machine, address), address, context))


@entry(
    "cuPointerGetAttributes(unsigned int numAttributes, CUpointer_attribute *attributes, void **data, CUdeviceptr ptr)",
    since=7000,
)
def pointer_attributes(machine: Machine, count: int, attributes: int, data: int, address: int) -> None:
    """Write several attributes of a pointer; for plain host memory, all are 0, and the device is -2."""
    context = machine.context()
    if not count:
        raise Refused(1)
    out(attributes, data)
    found = machine.space.find(address)
    if found is None:
        holding = None
    else:
        holding = found.context
    for index, target in enumerate(take(data, count)):
        number = get_int(attributes + 4 * index)
        if number not in _POINTER_ATTRIBUTES:
            raise Refused(1)
        width, look_up = _POINTER_ATTRIBUTES[number]
        if number == 9:
            value = -2
        else:
            value = 0
        if holding is not None:
            try:
                value = look_up(holding, address, context)
            except Refused:  # a host pointer of device memory, or a device pointer without access
                pass
        _put_attribute(target, width, value)


@entry("cuPointerSetAttribute(const void *value, CUpointer_attribute attribute, CUdeviceptr ptr)", since=6000)
def set_pointer_attribute(machine: Machine, value: int, number: int, address: int) -> None:
    """Store CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, the only attribute that can be set."""
    out(value)
    machine.context()
    if number != 6:
        raise Refused(1)
    holding_at(machine, address).attributes[6] = get_int(value)
