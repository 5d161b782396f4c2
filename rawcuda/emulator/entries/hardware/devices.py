"""Entry points: initialization, version, error texts, devices, addresses of entry points.

What it is   cuInit, cuDriverGetVersion, cuGetError*, cuGetProcAddress, and cuDevice* without contexts and pools. A
             table lists the attributes of a plausible device of compute capability 9.0, in rows of number, value and
             name; attributes without a row are 0. The limits are those of that architecture. The attributes of
             features that are not emulated are 0, so programs that query them do not use these features. Numbers that
             only describe speed are invented.
What not     a model of a product: a device has four multiprocessors, so a grid whose size depends on the device stays
             small.
Source       cuda.h, enum CUdevice_attribute; CUDA Programming Guide, "Technical specifications per compute capability";
             CUDA Driver API, "Initialization", "Version Management", "Error Handling", "Device Management", "Driver
             Entry Point Access"
Read next    contexts.py
"""

from __future__ import annotations

import ctypes
import os
import re

from ...abis import NOT_FOUND, VERSION, symbol_of
from ...codes import NAMES, TEXTS, Refused
from ...machine import TOTAL_MEMORY, Machine
from ...space import say
from ...thunks import entry, out, put_address_of, put_bytes, put_int, put_u64, text
from ..memories.sharing import is_supported
from .capabilities import capability_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from uuid import UUID

__all__ = ["ATTRIBUTES", "ATTRIBUTE_NAMES", "DRIVER_VERSION", "FUNCTION", "bus_id_of", "name_of", "uuid_of", "visible"]

DRIVER_VERSION = VERSION
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
 21 131072      MAXIMUM_TEXTURE1D_WIDTH
 22 131072      MAXIMUM_TEXTURE2D_WIDTH
 23 65536       MAXIMUM_TEXTURE2D_HEIGHT
 24 16384       MAXIMUM_TEXTURE3D_WIDTH
 25 16384       MAXIMUM_TEXTURE3D_HEIGHT
 26 16384       MAXIMUM_TEXTURE3D_DEPTH
 27 32768       MAXIMUM_TEXTURE2D_LAYERED_WIDTH
 28 32768       MAXIMUM_TEXTURE2D_LAYERED_HEIGHT
 29 2048        MAXIMUM_TEXTURE2D_LAYERED_LAYERS
 30 512         SURFACE_ALIGNMENT
 31 1           CONCURRENT_KERNELS
 36 1000000     MEMORY_CLOCK_RATE
 37 512         GLOBAL_MEMORY_BUS_WIDTH
 38 8388608     L2_CACHE_SIZE
 39 2048        MAX_THREADS_PER_MULTIPROCESSOR
 40 2           ASYNC_ENGINE_COUNT
 41 1           UNIFIED_ADDRESSING
 42 32768       MAXIMUM_TEXTURE1D_LAYERED_WIDTH
 43 2048        MAXIMUM_TEXTURE1D_LAYERED_LAYERS
 44 1           CAN_TEX2D_GATHER
 45 32768       MAXIMUM_TEXTURE2D_GATHER_WIDTH
 46 32768       MAXIMUM_TEXTURE2D_GATHER_HEIGHT
 47 8192        MAXIMUM_TEXTURE3D_WIDTH_ALTERNATE
 48 8192        MAXIMUM_TEXTURE3D_HEIGHT_ALTERNATE
 49 32768       MAXIMUM_TEXTURE3D_DEPTH_ALTERNATE
 51 32          TEXTURE_PITCH_ALIGNMENT
 52 32768       MAXIMUM_TEXTURECUBEMAP_WIDTH
 53 32768       MAXIMUM_TEXTURECUBEMAP_LAYERED_WIDTH
 54 2046        MAXIMUM_TEXTURECUBEMAP_LAYERED_LAYERS
 55 32768       MAXIMUM_SURFACE1D_WIDTH
 56 131072      MAXIMUM_SURFACE2D_WIDTH
 57 65536       MAXIMUM_SURFACE2D_HEIGHT
 58 16384       MAXIMUM_SURFACE3D_WIDTH
 59 16384       MAXIMUM_SURFACE3D_HEIGHT
 60 16384       MAXIMUM_SURFACE3D_DEPTH
 61 32768       MAXIMUM_SURFACE1D_LAYERED_WIDTH
 62 2048        MAXIMUM_SURFACE1D_LAYERED_LAYERS
 63 32768       MAXIMUM_SURFACE2D_LAYERED_WIDTH
 64 32768       MAXIMUM_SURFACE2D_LAYERED_HEIGHT
 65 2048        MAXIMUM_SURFACE2D_LAYERED_LAYERS
 66 32768       MAXIMUM_SURFACECUBEMAP_WIDTH
 67 32768       MAXIMUM_SURFACECUBEMAP_LAYERED_WIDTH
 68 2046        MAXIMUM_SURFACECUBEMAP_LAYERED_LAYERS
 69 268435456   MAXIMUM_TEXTURE1D_LINEAR_WIDTH
 70 131072      MAXIMUM_TEXTURE2D_LINEAR_WIDTH
 71 65000       MAXIMUM_TEXTURE2D_LINEAR_HEIGHT
 72 2097120     MAXIMUM_TEXTURE2D_LINEAR_PITCH
 73 32768       MAXIMUM_TEXTURE2D_MIPMAPPED_WIDTH
 74 32768       MAXIMUM_TEXTURE2D_MIPMAPPED_HEIGHT
 75 9           COMPUTE_CAPABILITY_MAJOR
 76 0           COMPUTE_CAPABILITY_MINOR
 77 32768       MAXIMUM_TEXTURE1D_MIPMAPPED_WIDTH
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
103 1           HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED
106 32          MAX_BLOCKS_PER_MULTIPROCESSOR
108 4194304     MAX_PERSISTING_L2_CACHE_SIZE
109 134213632   MAX_ACCESS_POLICY_WINDOW_SIZE
111 1024        RESERVED_SHARED_MEMORY_PER_BLOCK
113 1           READ_ONLY_HOST_REGISTER_SUPPORTED
115 1           MEMORY_POOLS_SUPPORTED
119 1           MEMPOOL_SUPPORTED_HANDLE_TYPES
120 1           CLUSTER_LAUNCH
122 1           CAN_USE_64_BIT_STREAM_MEM_OPS
123 1           CAN_USE_STREAM_WAIT_VALUE_NOR
125 1           IPC_EVENT_SUPPORTED
126 4           MEM_SYNC_DOMAIN_COUNT
127 1           TENSOR_MAP_ACCESS_SUPPORTED
131 -1          NUMA_ID
134 0           HOST_NUMA_ID
141 1           HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED
142 1           HOST_NUMA_MEMORY_POOLS_SUPPORTED
144 1           HOST_MEMORY_POOLS_SUPPORTED
145 1           HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED
"""
_BETWEEN_PROCESSES = (103, 119, 125)
_TENSOR_MAPS = 127  # CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED
_LAST = 147  # the last attribute in the header; those that the table does not list are 0

ATTRIBUTES: dict[int, int] = dict.fromkeys(range(1, _LAST + 1), 0)
ATTRIBUTE_NAMES: dict[int, str] = {}
for _line in _TABLE.strip().splitlines():
    _number, _value, _name = _line.split()
    ATTRIBUTES[int(_number)] = int(_value)
    ATTRIBUTE_NAMES[int(_number)] = _name
if not is_supported():
    ATTRIBUTES.update(dict.fromkeys(_BETWEEN_PROCESSES, 0))
FUNCTION = range(16)  # CUfunction_attribute


@entry("cuInit(unsigned int Flags)", free=True, since=2000)
def init(machine: Machine, flags: int) -> None:
    """Initialize the driver; a process that was forked after the initialization is refused."""
    if flags:
        raise Refused(1)
    pid = os.getpid()
    if machine.pid not in (0, pid):
        raise Refused(3)
    if not machine.pid:
        _hide(machine)
    machine.pid = pid
    for observer in machine.observers:
        observer()


# -- which devices are visible


def _hide(machine: Machine) -> None:
    """Keep only the devices that CUDA_VISIBLE_DEVICES names, in its order."""
    text = os.environ.get("CUDA_VISIBLE_DEVICES")  # of the driver, so Python's -E and -I do not matter
    if text is None:
        return
    count = len(machine.devices)
    chosen = visible(text, [uuid_of(index) for index in range(count)])
    if not chosen:
        raise Refused(
            100,
            f"CUDA_VISIBLE_DEVICES={text!r} names none of the {count} emulated devices (devices=COUNT sets their "
            "number): unset the variable, or name devices that exist, each once"
            + (". Parts of devices (MIG) are not emulated" if text.startswith("MIG-") else ""),
        )
    if chosen != [*range(count)]:
        machine.show_only(chosen)


def visible(text: str, uuids: list[str]) -> list[int]:
    """Return the numbers of the devices that a value of CUDA_VISIBLE_DEVICES names.

    An element is a number, or the beginning of a UUID ("GPU-...") that matches exactly one device. The list ends at the
    first element that names no device, and a device that is named twice makes the whole list empty. In an element such
    as "1x", only the number counts. If the first element is a UUID, the others must be UUIDs as well.
    """
    chosen: list[int] = []
    by_uuid = text.startswith("GPU-")
    for element in text.split(","):
        if by_uuid:
            found = [
                index for index, uuid in enumerate(uuids) if element.startswith("GPU-") and uuid.startswith(element)
            ]
        else:
            number = re.match(r"\s*\+?(\d+)", element, re.ASCII)
            found = [int(number[1])] if number else []
        if len(found) != 1 or found[0] >= len(uuids):
            break
        if found[0] in chosen:
            return []
        chosen += found
    return chosen


def uuid_of(index: int) -> str:
    """Return the UUID of a device as text, as nvidia-smi writes it."""
    return f"GPU-{_uuid(index)}"


def _uuid(index: int) -> UUID:
    from uuid import NAMESPACE_OID, uuid5

    return uuid5(NAMESPACE_OID, f"emulated device {index}")


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


@entry("cuGetProcAddress(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags)", free=True, since=11030)
@entry(
    "cuGetProcAddress_v2(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags, "
    "CUdriverProcAddressQueryResult *symbolStatus)",
    free=True,
    since=12000,
)
def get_proc_address(
    machine: Machine, symbol: int, function: int, version: int, flags: int, newer: int | None = None
) -> None:
    """Write the address of an entry point for a base name, a version and a kind of default stream.

    The older form, without a status, refuses a name that it does not find, and then writes nothing. An ABI that the
    emulator lacks counts as not found; it is never replaced by another one.
    """
    out(symbol, function)
    if flags > 3:
        raise Refused(1)
    found, result = symbol_of(text(symbol), version, flags)
    address = (machine.address(found) or 0) if found else 0
    if found and not address:
        result = NOT_FOUND
    elif result == NOT_FOUND:
        machine.address(text(symbol))  # returns None; an impersonated libcuda records the name in its journal
    if newer is None and result:
        raise Refused(500)
    put_u64(function, address)
    if newer:
        put_int(newer, result)


_TABLE_OF_RUNTIME = bytes.fromhex("6bd5fb6c5bf4e74a8987d93912fd9df9")
_OWN_RUNTIME = (
    "this process contains NVIDIA's own CUDA runtime, which works only with NVIDIA's driver. nvcc links it into every "
    "program, unless it is called with -cudart=shared: build the program, or the library, with this option, and start "
    "it with the command `emulate`, which has a runtime of its own"
)


@entry("cuGetExportTable(const void **ppExportTable, const CUuuid *pExportTableId)", free=True, since=3000)
def export_table(machine: Machine, address: int, ident: int) -> None:
    """Refuse every table of functions that are not documented, and tell who needs the runtime's how to do without."""
    out(address, ident)
    wanted = ctypes.string_at(ident, 16)
    if wanted == _TABLE_OF_RUNTIME and not machine.met_own_runtime:
        machine.met_own_runtime = True
        say(_OWN_RUNTIME)
    if machine.pid != os.getpid():  # the driver was not initialized
        raise Refused(3)
    if wanted == _TABLE_OF_RUNTIME:
        raise Refused(801, "this table is one that NVIDIA's own CUDA runtime needs")
    raise Refused(801, f"there is no table {wanted.hex()}: it has functions of the driver that are not documented")


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
    put_bytes(address, name_of()[: length - 1] + b"\0")


def name_of() -> bytes:
    """Return the name of all devices, which says that they are emulated."""
    return f"{__name__.partition('.emulator.')[0].rpartition('.')[2]} emulator".encode()


@entry("cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice dev)", since=11040)
@entry("cuDeviceGetUuid(CUuuid *uuid, CUdevice dev)", since=9020)
def device_uuid(machine: Machine, address: int, device: int) -> None:
    """Write a device's UUID, which depends only on its number among all devices."""
    put_bytes(address, _uuid(machine.device(device).index).bytes)


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
    architecture = machine.architecture
    its_own = {33: machine.device(device).index + 1, 75: architecture // 10, 76: architecture % 10}
    if architecture != 90:  # what the table lists is that of compute capability 9.0
        its_own.update(capability_of(architecture).attributes())
        its_own[120] = int(architecture >= 90)
    if architecture < 90:
        its_own[_TENSOR_MAPS] = 0
    put_int(address, its_own.get(number, ATTRIBUTES[number]))


def bus_id_of(index: int) -> bytes:
    """Return the invented PCI address of a device."""
    return b"0000:%02x:00.0" % (index + 1)


@entry("cuDeviceGetPCIBusId(char *pciBusId, int len, CUdevice dev)", since=4010)
def bus_id(machine: Machine, address: int, length: int, device: int) -> None:
    """Write an invented PCI address."""
    index = machine.device(device).index
    if length < 13:
        raise Refused(1)
    put_bytes(address, bus_id_of(index) + b"\0")


@entry("cuDeviceGetByPCIBusId(CUdevice *dev, const char *pciBusId)", since=4010)
def by_bus_id(machine: Machine, address: int, name: int) -> None:
    """Find a device by its PCI address."""
    out(address)
    wanted = text(name).lower()
    for device in machine.devices:
        full = bus_id_of(device.index).decode()
        if wanted in (full, full[5:], full[:-2]):
            put_int(address, device.ordinal)
            return
    raise Refused(101)


@entry("cuDeviceCanAccessPeer(int *canAccessPeer, CUdevice dev, CUdevice peerDev)", since=4000)
def can_access_peer(machine: Machine, address: int, device: int, peer: int) -> None:
    """Write whether a device can access another's memory, which `peers` decides; a device is not its own peer."""
    out(address)
    put_int(address, int(machine.reaches(machine.device(device), machine.device(peer))))


@entry(
    "cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attrib, CUdevice srcDevice, CUdevice dstDevice)",
    since=8000,
)
def peer_attribute(machine: Machine, address: int, number: int, device: int, peer: int) -> None:
    """Write a property of the connection between two devices: all connections that exist are equally good."""
    out(address)
    here, there = machine.device(device), machine.device(peer)
    if here is there:
        raise Refused(101, "a device is not its own peer")
    if number not in (1, 2, 3, 4, 5):
        raise Refused(1)
    # performance rank, access, native atomics, access to arrays, some native atomics only
    put_int(address, (0, 1, 1, 0, 0)[number - 1] if machine.reaches(here, there) else 0)
