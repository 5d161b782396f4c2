"""Entry points: start, version, error texts, devices, addresses of entry points.

What it is   cuInit, cuDriverGetVersion, cuGetError*, cuGetProcAddress, cuDevice* without contexts and pools.
Source       CUDA Driver API, "Initialization", "Version Management", "Error Handling", "Device Management", "Driver Entry
             Point Access"
Read next    contexts.py
"""
from __future__ import annotations

import ctypes
import os

from .attributes import ATTRIBUTES
from .codes import NAMES, TEXTS, Refused
from .machine import TOTAL_MEMORY, Machine
from .thunks import ENTRIES, entry
from .words import out, put_bytes, put_int, put_u64, text

__all__ = ["DRIVER_VERSION"]

DRIVER_VERSION = 13000


@entry("cuInit(unsigned int Flags)", free=True, since=2000)
def init(machine: Machine, flags: int) -> None:
    """Start the driver; in a child that was forked after that, refuse."""
    if flags:
        raise Refused(1)
    pid = os.getpid()
    if machine.pid not in (0, pid):
        raise Refused(3)
    machine.pid = pid


@entry("cuDriverGetVersion(int *driverVersion)", free=True, since=2020)
def version(machine: Machine, address: int) -> None:
    """Say which CUDA this driver is of."""
    put_int(address, DRIVER_VERSION)


def _put_text(address: int, texts: dict[int, bytes], code: int) -> None:
    out(address)
    found = texts.get(code)
    if found is None:
        put_u64(address, 0)
        raise Refused(1)
    put_u64(address, ctypes.cast(ctypes.c_char_p(found), ctypes.c_void_p).value or 0)


@entry("cuGetErrorName(CUresult error, const char **pStr)", free=True, since=6000)
def error_name(machine: Machine, code: int, address: int) -> None:
    """Give the name of a code; an unknown one is 1, and NULL is written."""
    _put_text(address, NAMES, code)


@entry("cuGetErrorString(CUresult error, const char **pStr)", free=True, since=6000)
def error_text(machine: Machine, code: int, address: int) -> None:
    """Give the text of a code."""
    _put_text(address, TEXTS, code)


def _find_entry(machine: Machine, symbol: str, version: int) -> tuple[int, int]:
    """Find the newest entry for a base name that a CUDA version has: (address, query result).

    A client asks for cuMemAlloc and gets cuMemAlloc_v2; the ABI of an older CUDA is not served.
    """
    candidates = [ENTRIES[name] for name in (symbol, *(f"{symbol}_v{number}" for number in range(2, 6))) if name in ENTRIES]
    if not candidates:
        return 0, 1
    fitting = [candidate for candidate in candidates if candidate.since <= version]
    if not fitting:
        return 0, 2
    return machine.address(fitting[-1].name) or 0, 0


@entry("cuGetProcAddress_v2(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags, "
       "CUdriverProcAddressQueryResult *symbolStatus)", free=True, since=12000)
def get_proc_address(machine: Machine, symbol: int, function: int, version: int, flags: int, status: int) -> None:
    """Find an entry point by base name and version."""
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


@entry("cuGetProcAddress(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags)", free=True, since=11030)
def get_proc_address_v1(machine: Machine, symbol: int, function: int, version: int, flags: int) -> None:
    """Find an entry point by base name and version, as CUDA 11 did."""
    get_proc_address(machine, symbol, function, version, flags, 0)


@entry("cuDeviceGet(CUdevice *device, int ordinal)", since=2000)
def device_get(machine: Machine, address: int, ordinal: int) -> None:
    """Give a device's handle, which is its ordinal."""
    out(address)
    put_int(address, machine.device(ordinal).ordinal)


@entry("cuDeviceGetCount(int *count)", since=2000)
def device_count(machine: Machine, address: int) -> None:
    """Count the devices."""
    put_int(address, len(machine.devices))


@entry("cuDeviceGetName(char *name, int len, CUdevice dev)", since=2000)
def device_name(machine: Machine, address: int, length: int, device: int) -> None:
    """Write a device's name, cut to what fits."""
    machine.device(device)
    if length <= 0:
        raise Refused(1)
    name = f"{__name__.split('.')[-3]} emulator".encode()
    put_bytes(address, name[:length - 1] + b"\0")


@entry("cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice dev)", since=11040)
@entry("cuDeviceGetUuid(CUuuid *uuid, CUdevice dev)", since=9020)
def device_uuid(machine: Machine, address: int, device: int) -> None:
    """Write a device's UUID: always the same one for an ordinal."""
    import uuid
    put_bytes(address, uuid.uuid5(uuid.NAMESPACE_OID, f"emulated device {machine.device(device).ordinal}").bytes)


@entry("cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev)", since=3020)
def total_memory(machine: Machine, address: int, device: int) -> None:
    """Say how much memory a device has."""
    machine.device(device)
    put_u64(address, TOTAL_MEMORY)


@entry("cuDeviceGetAttribute(int *pi, CUdevice_attribute attrib, CUdevice dev)", since=2000)
def attribute(machine: Machine, address: int, number: int, device: int) -> None:
    """Give an attribute."""
    out(address)
    if number not in ATTRIBUTES:
        raise Refused(1)
    ordinal = machine.device(device).ordinal
    put_int(address, ordinal + 1 if number == 33 else ATTRIBUTES[number])


@entry("cuDeviceComputeCapability(int *major, int *minor, CUdevice dev)", since=2000)
def compute_capability(machine: Machine, major: int, minor: int, device: int) -> None:
    """Give the compute capability."""
    out(major, minor)
    machine.device(device)
    put_int(major, ATTRIBUTES[75])
    put_int(minor, ATTRIBUTES[76])


def _bus_id(ordinal: int) -> bytes:
    return b"0000:%02x:00.0" % (ordinal + 1)


@entry("cuDeviceGetPCIBusId(char *pciBusId, int len, CUdevice dev)", since=4010)
def bus_id(machine: Machine, address: int, length: int, device: int) -> None:
    """Write a made-up PCI address."""
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


@entry("cuDeviceGetExecAffinitySupport(int *pi, CUexecAffinityType type, CUdevice dev)", since=11040)
def exec_affinity_support(machine: Machine, address: int, kind: int, device: int) -> None:
    """Say that a context cannot be bound to some multiprocessors."""
    machine.device(device)
    put_int(address, 0)


@entry("cuDeviceCanAccessPeer(int *canAccessPeer, CUdevice dev, CUdevice peerDev)", since=4000)
def can_access_peer(machine: Machine, address: int, device: int, peer: int) -> None:
    """Say that every other device's memory can be reached; a device is not its own peer."""
    out(address)
    put_int(address, int(machine.device(device) is not machine.device(peer)))


@entry("cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attrib, CUdevice srcDevice, CUdevice dstDevice)", since=8000)
def p2p_attribute(machine: Machine, address: int, number: int, source: int, target: int) -> None:
    """Say how two devices reach each other."""
    out(address)
    if not 1 <= number <= 5:
        raise Refused(1)
    if machine.device(source) is machine.device(target):
        raise Refused(101)
    put_int(address, {2: 1, 3: 1}.get(number, 0))
