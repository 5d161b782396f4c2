"""Entry points: initialization, version, error texts, devices, addresses of entry points.

What it is   cuInit, cuDriverGetVersion, cuGetError*, cuGetProcAddress, and cuDevice* without contexts and pools. A
             table lists the attributes of a plausible device of compute capability 9.0, one row for each that is not
             0: number, value, name. The limits are those of that architecture. Features that are not emulated are 0, so
             that a program that asks for them avoids them. Numbers that only describe speed are invented.
What not     a model of a product: it has four multiprocessors, so that a grid sized by the device stays small.
Source       cuda.h, enum CUdevice_attribute; CUDA Programming Guide, "Technical specifications per compute capability";
             CUDA Driver API, "Initialization", "Version Management", "Error Handling", "Device Management", "Driver
             Entry Point Access"
Read next    contexts.py
"""

from __future__ import annotations

import os

from ..codes import NAMES, TEXTS, Refused
from ..machine import TOTAL_MEMORY, Machine
from ..thunks import ENTRIES, entry, out, put_address_of, put_bytes, put_int, put_u64, text

__all__ = ["ATTRIBUTES", "ATTRIBUTE_NAMES", "DRIVER_VERSION", "FUNCTION"]

DRIVER_VERSION = 13000
MULTIPROCESSORS = 4
_TABLE = """
  1 1024        MAX_THREADS_PER_BLOCK
  2 1024        MAX_BLOCK_DIM_X
  3 1024        MAX_BLOCK_DIM_Y
  4 64          MAX_BLOCK_DIM_Z
  5 2147483647  MAX_GRID_DIM_X
  6 65535       MAX_GRID_DIM_Y
  7 65535       MAX_GRID_DIM_Z
  8 49152       MAX_SHARED_MEMORY_PER_BLOCK
  9 65536       TOTAL_CONSTANT_MEMORY
 10 32          WARP_SIZE
 11 2147483647  MAX_PITCH
 12 65536       MAX_REGISTERS_PER_BLOCK
 13 1000000     CLOCK_RATE
 14 512         TEXTURE_ALIGNMENT
 15 1           GPU_OVERLAP
 16 4           MULTIPROCESSOR_COUNT
 19 1           CAN_MAP_HOST_MEMORY
 30 512         SURFACE_ALIGNMENT
 31 1           CONCURRENT_KERNELS
 36 1000000     MEMORY_CLOCK_RATE
 37 512         GLOBAL_MEMORY_BUS_WIDTH
 38 8388608     L2_CACHE_SIZE
 39 2048        MAX_THREADS_PER_MULTIPROCESSOR
 40 2           ASYNC_ENGINE_COUNT
 41 1           UNIFIED_ADDRESSING
 51 32          TEXTURE_PITCH_ALIGNMENT
 75 9           COMPUTE_CAPABILITY_MAJOR
 76 0           COMPUTE_CAPABILITY_MINOR
 78 1           STREAM_PRIORITIES_SUPPORTED
 79 1           GLOBAL_L1_CACHE_SUPPORTED
 80 1           LOCAL_L1_CACHE_SUPPORTED
 81 233472      MAX_SHARED_MEMORY_PER_MULTIPROCESSOR
 82 65536       MAX_REGISTERS_PER_MULTIPROCESSOR
 83 1           MANAGED_MEMORY
 87 2           SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO
 89 1           CONCURRENT_MANAGED_ACCESS
 90 1           COMPUTE_PREEMPTION_SUPPORTED
 91 1           CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM
 95 1           COOPERATIVE_LAUNCH
 97 232448      MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
 99 1           HOST_REGISTER_SUPPORTED
102 1           VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED
106 32          MAX_BLOCKS_PER_MULTIPROCESSOR
111 1024        RESERVED_SHARED_MEMORY_PER_BLOCK
113 1           READ_ONLY_HOST_REGISTER_SUPPORTED
115 1           MEMORY_POOLS_SUPPORTED
120 1           CLUSTER_LAUNCH
126 1           MEM_SYNC_DOMAIN_COUNT
131 -1          NUMA_ID
134 0           HOST_NUMA_ID
141 1           HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED
142 1           HOST_NUMA_MEMORY_POOLS_SUPPORTED
144 1           HOST_MEMORY_POOLS_SUPPORTED
145 1           HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED
"""
_LAST = 147  # the last attribute in the header; those that the table does not list are 0

ATTRIBUTES: dict[int, int] = dict.fromkeys(range(1, _LAST + 1), 0)
ATTRIBUTE_NAMES: dict[int, str] = {}
for _line in _TABLE.strip().splitlines():
    _number, _value, _name = _line.split()
    ATTRIBUTES[int(_number)] = int(_value)
    ATTRIBUTE_NAMES[int(_number)] = _name
FUNCTION = range(16)  # CUfunction_attribute


@entry("cuInit(unsigned int Flags)", free=True, since=2000)
def init(machine: Machine, flags: int) -> None:
    """Initialize the driver; refuse this in a process that was forked after the initialization."""
    if flags:
        raise Refused(1)
    pid = os.getpid()
    if machine.pid not in (0, pid):
        raise Refused(3)
    machine.pid = pid


@entry("cuDriverGetVersion(int *driverVersion)", free=True, since=2020)
def version(machine: Machine, address: int) -> None:
    """Write the CUDA version of this driver."""
    put_int(address, DRIVER_VERSION)


def _put_text(address: int, texts: dict[int, bytes], code: int) -> None:
    out(address)
    found = texts.get(code)
    if found is None:
        put_u64(address, 0)
        raise Refused(1)
    put_address_of(address, found)


@entry("cuGetErrorName(CUresult error, const char **pStr)", free=True, since=6000)
def error_name(machine: Machine, code: int, address: int) -> None:
    """Write the name of a code; an unknown code is refused with 1, and NULL is written."""
    _put_text(address, NAMES, code)


@entry("cuGetErrorString(CUresult error, const char **pStr)", free=True, since=6000)
def error_text(machine: Machine, code: int, address: int) -> None:
    """Write the text of a code."""
    _put_text(address, TEXTS, code)


def _find_entry(machine: Machine, symbol: str, version: int) -> tuple[int, int]:
    """Return the address of the newest ABI that a CUDA version has of a base name, and the query result.

    A client asks for cuMemAlloc and gets cuMemAlloc_v2. ABIs before CUDA 11 are not emulated.
    """
    candidates = [
        ENTRIES[name] for name in (symbol, *(f"{symbol}_v{number}" for number in range(2, 6))) if name in ENTRIES
    ]
    if not candidates:
        return 0, 1
    fitting = [candidate for candidate in candidates if candidate.since <= version]
    if not fitting:
        return 0, 2
    return machine.address(fitting[-1].name) or 0, 0


@entry("cuGetProcAddress(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags)", free=True, since=11030)
@entry(
    "cuGetProcAddress_v2(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags, "
    "CUdriverProcAddressQueryResult *symbolStatus)",
    free=True,
    since=12000,
)
def get_proc_address(machine: Machine, symbol: int, function: int, version: int, flags: int, status: int = 0) -> None:
    """Write the address of an entry point by base name and version."""
    out(function)
    name = text(symbol)
    if flags > 2:
        raise Refused(1)
    address, result = _find_entry(machine, name, version)
    put_u64(function, address)
    if status:
        put_int(status, result)
    if not address and not status:
        raise Refused(500)


@entry("cuDeviceGet(CUdevice *device, int ordinal)", since=2000)
def device_get(machine: Machine, address: int, ordinal: int) -> None:
    """Write a device's handle, which is its ordinal."""
    out(address)
    put_int(address, machine.device(ordinal).ordinal)


@entry("cuDeviceGetCount(int *count)", since=2000)
def device_count(machine: Machine, address: int) -> None:
    """Write the number of devices."""
    put_int(address, len(machine.devices))


@entry("cuDeviceGetName(char *name, int len, CUdevice dev)", since=2000)
def device_name(machine: Machine, address: int, length: int, device: int) -> None:
    """Write a device's name, truncated to the buffer."""
    machine.device(device)
    if length <= 0:
        raise Refused(1)
    name = f"{__name__.split('.')[-4]} emulator".encode()
    put_bytes(address, name[: length - 1] + b"\0")


@entry("cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice dev)", since=11040)
@entry("cuDeviceGetUuid(CUuuid *uuid, CUdevice dev)", since=9020)
def device_uuid(machine: Machine, address: int, device: int) -> None:
    """Write a device's UUID, which depends only on the ordinal."""
    import uuid

    put_bytes(address, uuid.uuid5(uuid.NAMESPACE_OID, f"emulated device {machine.device(device).ordinal}").bytes)


@entry("cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev)", since=3020)
def total_memory(machine: Machine, address: int, device: int) -> None:
    """Write the size of a device's memory."""
    machine.device(device)
    put_u64(address, TOTAL_MEMORY)


@entry("cuDeviceGetAttribute(int *pi, CUdevice_attribute attrib, CUdevice dev)", since=2000)
def attribute(machine: Machine, address: int, number: int, device: int) -> None:
    """Write an attribute."""
    out(address)
    if number not in ATTRIBUTES:
        raise Refused(1)
    its_own = {33: machine.device(device).ordinal + 1, 75: machine.architecture // 10, 76: machine.architecture % 10}
    put_int(address, its_own.get(number, ATTRIBUTES[number]))


def _bus_id(ordinal: int) -> bytes:
    return b"0000:%02x:00.0" % (ordinal + 1)


@entry("cuDeviceGetPCIBusId(char *pciBusId, int len, CUdevice dev)", since=4010)
def bus_id(machine: Machine, address: int, length: int, device: int) -> None:
    """Write an invented PCI address."""
    ordinal = machine.device(device).ordinal
    if length < 13:
        raise Refused(1)
    put_bytes(address, _bus_id(ordinal) + b"\0")


@entry("cuDeviceGetByPCIBusId(CUdevice *dev, const char *pciBusId)", since=4010)
def by_bus_id(machine: Machine, address: int, name: int) -> None:
    """Find a device by its PCI address."""
    out(address)
    wanted = text(name).lower()
    for device in machine.devices:
        full = _bus_id(device.ordinal).decode()
        if wanted in (full, full[5:], full[:-2]):
            put_int(address, device.ordinal)
            return
    raise Refused(101)


@entry("cuDeviceCanAccessPeer(int *canAccessPeer, CUdevice dev, CUdevice peerDev)", since=4000)
def can_access_peer(machine: Machine, address: int, device: int, peer: int) -> None:
    """Write whether a device can access another's memory: all can, but a device is not its own peer."""
    out(address)
    put_int(address, int(machine.device(device) is not machine.device(peer)))
