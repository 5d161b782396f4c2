"""The rows about a device: its identity, its attributes, and its context.

What it is   the group "device".
What not     these rows allocate no memory.
Read next    check_memory.py
"""

from __future__ import annotations

import ctypes
import re

from ....driver import current, dotted
from ....gpu.devices.device import Device, devices
from ....headers import cuda_h
from ..rows import Given, Missing, expect, row

__all__: list[str] = []


@row("device", "driver version")
def _driver_version(given: Given) -> str:
    found = ctypes.c_int()
    loaded = current()
    loaded.cuDriverGetVersion(ctypes.byref(found))
    expect("the version, asked again", found.value, loaded.version)
    return f"CUDA {dotted(found.value)}"


@row("device", "list of devices")
def _list(given: Given) -> str:
    found = ctypes.c_int()
    current().cuDeviceGetCount(ctypes.byref(found))
    expect("the number of devices", len(devices()), found.value)
    expect("their ordinals", [each.ordinal for each in devices()], list(range(found.value)))
    return f"{found.value}"


@row("device", "name, UUID, PCI bus")
def _identity(given: Given) -> str:
    device = given.device
    if not device.name or len(re.sub("^(GPU|MIG)-|-", "", device.uuid)) != 32:
        raise AssertionError(f"the name {device.name!r} or the UUID {device.uuid!r} is malformed")
    expect("the device at its own PCI bus", Device.from_pci_bus_id(device.pci_bus_id), device)
    return device.name


@row("device", "attributes")
def _attributes(given: Given) -> str:
    known = dict(given.device.attributes)
    expect("the threads of a warp", known["warp_size"] if "warp_size" in known else known["WARP_SIZE"], 32)
    major, minor = given.device.compute_capability
    expect("the attribute", given.device.attribute("COMPUTE_CAPABILITY_MAJOR"), major)
    if not 3 <= major < 100:
        raise AssertionError(f"compute capability {major}.{minor} does not exist")
    return f"{len(known)}; compute capability {major}.{minor}"


@row("device", "size of its memory")
def _size(given: Given) -> str:
    total, free = given.device.total_memory, given.device.free_memory
    if not 0 < free <= total:
        raise AssertionError(f"{free} bytes of {total} are free")
    return f"{total / 2**30:.1f} GiB, {free / 2**30:.1f} free"


@row("device", "primary context")
def _context(given: Given) -> None:
    now, handle = cuda_h.CUcontext(), given.device.context
    driver = current()
    with given.device.current():
        driver.cuCtxGetCurrent(ctypes.byref(now))
        expect("the current context", now.value, int(handle))
    driver.cuCtxGetCurrent(ctypes.byref(now))
    expect("the context that is left", now.value or 0, 0)


@row("device", "limits")
def _limits(given: Given) -> str:
    limits = given.device.limits
    before = limits.stack_size
    limits.stack_size = 2048
    try:
        if limits.stack_size < 2048:
            raise AssertionError(f"the stack size was set to 2048, and is {limits.stack_size}")
    finally:
        limits.stack_size = before
    return f"{len(dict(limits))}"


@row("device", "priorities of streams")
def _priorities(given: Given) -> str:
    least, greatest = given.device.stream_priorities
    with given.device.stream(priority=greatest) as stream:
        expect("the priority", stream.priority, greatest)
    return f"{least} to {greatest}"


@row("device", "peer access")
def _peers(given: Given) -> None:
    other = given.other()
    if not given.device.can_reach(other):
        raise Missing(f"devices {given.device.ordinal} and {other.ordinal} cannot reach each other")
    there = other.empty(64, "float32").fill(3)
    other.synchronize()
    with given.device.peer_access(other):
        given.scaled(there)
    expect("what a kernel wrote on the other device", there.tolist(), [6.0] * 64)
