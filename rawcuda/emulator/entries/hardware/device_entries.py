"""Entry points: initialization, version, error texts, devices, addresses of entry points.

What it is   cuInit, cuDriverGetVersion, cuGetError*, cuGetProcAddress, and cuDevice* without contexts and pools.
What not     the attributes and other facts: machine/answers.py.
Source       CUDA Driver API, "Initialization", "Version Management", "Error Handling", "Device Management", "Driver
             Entry Point Access"
Read next    contexts.py
"""

from __future__ import annotations

import ctypes
import os
import re
from uuid import NAMESPACE_OID, UUID, uuid5

from ...interface.abis import NOT_FOUND, symbol_of
from ...interface.thunks import entry, out, put_address_of, put_bytes, put_int, put_word, text
from ...machine.codes import Refused
from ...machine.machine import Machine
from ...machine.sharing import is_supported
from ...machine.space import say

__all__ = ["FUNCTION", "bus_id_of", "uuid_of", "visible"]

_PCI_DEVICE, _BETWEEN_PROCESSES = 33, (103, 119, 125)  # CUdevice_attribute
_CONCURRENT = 89  # CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS
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
    chosen = visible(text, [uuid_of(index, machine.mig) for index in range(count)])
    if not chosen:
        raise Refused(
            100,
            f"CUDA_VISIBLE_DEVICES={text!r} names none of the {count} emulated devices (devices=COUNT sets their "
            "number): unset the variable, or name devices that exist, each once"
            + (
                ". RAWCUDA_EMULATOR=mig makes the devices MIG instances"
                if text.startswith("MIG-") and not machine.mig
                else ""
            ),
        )
    if chosen != [*range(count)]:
        machine.show_only(chosen)


def visible(text: str, uuids: list[str]) -> list[int]:
    """Return the numbers of the devices that a value of CUDA_VISIBLE_DEVICES names.

    An element is a number, or the beginning of a UUID ("GPU-..." or "MIG-...") that matches exactly one device. The
    list ends at the first element that names no device, and a device that is named twice makes the whole list empty. In
    an element such as "1x", only the number counts. If the first element is a UUID, the others must be UUIDs as well.
    """
    chosen: list[int] = []
    by_uuid = text.startswith(("GPU-", "MIG-"))
    for element in text.split(","):
        if by_uuid:
            found = [index for index, uuid in enumerate(uuids) if len(element) >= 4 and uuid.startswith(element)]
        else:
            number = re.match(r"\s*\+?(\d+)", element, re.ASCII)
            if number:
                found = [int(number[1])]
            else:
                found = []
        if len(found) != 1 or found[0] >= len(uuids):
            break
        if found[0] in chosen:
            return []
        chosen += found
    return chosen


def uuid_of(index: int, is_instance: bool = False) -> str:
    """Return the UUID of a device, or of a MIG instance, as text, as nvidia-smi writes it."""
    return f"{'MIG' if is_instance else 'GPU'}-{_uuid(index, is_instance)}"


def _uuid(index: int, is_instance: bool) -> UUID:
    return uuid5(NAMESPACE_OID, f"emulated {'instance' if is_instance else 'device'} {index}")


@entry("cuDriverGetVersion(int *driverVersion)", free=True, since=2020)
def version(machine: Machine, address: int) -> None:
    """Write the CUDA version of this driver."""
    put_int(address, machine.cuda)


def _put_text(address: int, texts: dict[int, bytes], code: int) -> None:
    out(address)
    found = texts.get(code)
    if found is None:
        put_word(address, 0)
        raise Refused(1)
    put_address_of(address, found)


@entry("cuGetErrorName(CUresult error, const char **pStr)", free=True, since=6000)
def error_name(machine: Machine, code: int, address: int) -> None:
    """Write the name of a code; an unknown code is refused with 1, and NULL is written."""
    _put_text(address, machine.answers.names, code)


@entry("cuGetErrorString(CUresult error, const char **pStr)", free=True, since=6000)
def error_text(machine: Machine, code: int, address: int) -> None:
    """Write the text of a code."""
    _put_text(address, machine.answers.texts, code)


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
    found, result = symbol_of(text(symbol), version, flags, machine.cuda)
    if found:
        address = machine.address(found) or 0
    else:
        address = 0
    if found and not address:
        result = NOT_FOUND
    elif result == NOT_FOUND:
        machine.address(text(symbol))  # returns None; an impersonated libcuda records the name in its journal
    if newer is None and result:
        raise Refused(500)
    put_word(function, address)
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
    put_bytes(address, machine.answers.name.encode()[: length - 1] + b"\0")


@entry("cuDeviceGetUuid(CUuuid *uuid, CUdevice dev)", since=9020)
def device_uuid(machine: Machine, address: int, device: int) -> None:
    """Write the UUID of a device, which depends only on its number among all devices."""
    put_bytes(address, _uuid(machine.device(device).index, False).bytes)


@entry("cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice dev)", since=11040)
def instance_uuid(machine: Machine, address: int, device: int) -> None:
    """Write the UUID of a device or, of a MIG instance, that of the instance."""
    put_bytes(address, _uuid(machine.device(device).index, machine.mig).bytes)


@entry("cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev)", since=3020)
def total_memory(machine: Machine, address: int, device: int) -> None:
    """Write the size of a device's memory."""
    machine.device(device)
    put_word(address, machine.answers.memory)


@entry("cuDeviceGetAttribute(int *pi, CUdevice_attribute attrib, CUdevice dev)", since=2000)
def attribute(machine: Machine, address: int, number: int, device: int) -> None:
    """Write an attribute."""
    out(address)
    index = machine.device(device).index
    if number == _PCI_DEVICE:
        value = index + 1
    elif number in _BETWEEN_PROCESSES and not is_supported() or number == _CONCURRENT and not machine.concurrent:
        value = 0
    else:
        known = machine.answers.attributes.get(number)
        if known is None:
            raise Refused(1)
        value = known
    put_int(address, value)


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
    if number not in machine.answers.between_peers:
        raise Refused(1)
    put_int(address, machine.answers.between_peers[number] if machine.reaches(here, there) else 0)
