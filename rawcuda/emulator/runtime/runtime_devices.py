"""Functions: the last error, versions, devices and their properties, peers.

Source       CUDA Runtime API, "Device Management", "Error Handling", "Peer Device Memory Access", "Version Management"
Read next    runtime_memory.py
"""

from __future__ import annotations

import ctypes

from ..interface.thunks import out, put_bytes, put_int
from ..machine.codes import NO_DEVICE, Refused
from .runtime_structures import device_properties
from .state import Runtime, runtime

__all__ = ["RUNTIME_VERSIONS", "context_of"]

RUNTIME_VERSIONS = {11: 11080, 12: 12090, 13: 13000}  # what cudaRuntimeGetVersion reports
_ARE_VALID = 1  # cudaInitDeviceFlagsAreValid


# -- errors


@runtime("cudaGetLastError", context=False, records=False)
def get_last_error(state: Runtime) -> int:
    """Return the last error of the calling thread, and forget it."""
    thread = state.thread()
    error, thread.error = thread.error, 0
    return error


@runtime("cudaPeekAtLastError", context=False, records=False)
def peek_at_last_error(state: Runtime) -> int:
    """Return the last error of the calling thread."""
    return state.thread().error


# -- versions


@runtime("cudaRuntimeGetVersion", context=False)
def runtime_version(state: Runtime, address: int) -> None:
    """Write the version of the runtime."""
    put_int(address, RUNTIME_VERSIONS[state.major])


@runtime("cudaDriverGetVersion", context=False)
def driver_version(state: Runtime, address: int) -> None:
    """Write the version of the driver."""
    state.do("cuDriverGetVersion", address)


@runtime("cudaGetDriverEntryPoint", context=False)
def driver_entry_point(state: Runtime, name: int, address: int, flags: int, status: int = 0) -> None:
    """Write the address of a function of the driver, as of the version of the runtime."""
    driver_entry_point_by_version(state, name, address, RUNTIME_VERSIONS[state.major], flags, status)


@runtime("cudaGetDriverEntryPointByVersion", context=False)
def driver_entry_point_by_version(
    state: Runtime, name: int, address: int, version: int, flags: int, status: int = 0
) -> None:
    """Write the address of a function of the driver. The default of the flags depends on the form of this function."""
    state.initialize()
    found = ctypes.c_int()
    chosen = flags or (2 if state.machine.thread().null == 2 else 1)
    state.do("cuGetProcAddress_v2", name, address, version, chosen, status or found)


# -- devices


@runtime("cudaGetDeviceCount", context=False)
def device_count(state: Runtime, address: int) -> None:
    """Write the number of devices."""
    out(address)
    try:
        state.initialize()
    except Refused as refused:
        if refused.code == NO_DEVICE:
            put_int(address, 0)
        raise
    state.do("cuDeviceGetCount", address)


@runtime("cudaSetDevice", context=False)
def set_device(state: Runtime, device: int) -> None:
    """Make a device, and its primary context, current in the calling thread."""
    state.check_device(device)
    state.use(device)


@runtime("cudaGetDevice", context=False)
def get_device(state: Runtime, address: int) -> None:
    """Write the number of the current device."""
    state.initialize()
    put_int(address, state.device())


@runtime("cudaSetDeviceFlags", context=False)
def set_device_flags(state: Runtime, flags: int) -> None:
    """Set the flags of the current device."""
    state.initialize()
    state.do("cuDevicePrimaryCtxSetFlags_v2", state.device(), flags)


@runtime("cudaGetDeviceFlags", context=False)
def get_device_flags(state: Runtime, address: int) -> None:
    """Write the flags of the current device."""
    out(address)
    state.initialize()
    active = ctypes.c_int()
    state.do("cuDevicePrimaryCtxGetState", state.device(), address, active)


@runtime("cudaInitDevice", context=False)
def init_device(state: Runtime, device: int, device_flags: int, flags: int) -> None:
    """Initialize a device, without making it current."""
    state.check_device(device)
    if flags & ~_ARE_VALID:
        raise Refused(1)
    if flags & _ARE_VALID:
        state.do("cuDevicePrimaryCtxSetFlags_v2", device, device_flags)
    state.retain(device)


@runtime("cudaDeviceReset", "cudaThreadExit", context=False)
def device_reset(state: Runtime) -> None:
    """Destroy everything in the primary context of the current device."""
    state.initialize()
    state.do("cuDevicePrimaryCtxReset_v2", state.device())


@runtime("cudaChooseDevice", context=False)
def choose_device(state: Runtime, address: int, properties: int) -> None:
    """Write the number of the device that fits some properties best: all devices are equal."""
    out(address, properties)
    state.check_device(0)
    put_int(address, 0)


@runtime("cudaGetDeviceProperties", context=False)
def get_device_properties(state: Runtime, address: int, device: int) -> None:
    """Write the properties of a device; the function of CUDA 12 without _v2 has the structure of CUDA 11."""
    _put_properties(state, address, device, 13 if state.major == 13 else 11)


@runtime("cudaGetDeviceProperties_v2", context=False)
def get_device_properties_v2(state: Runtime, address: int, device: int) -> None:
    """Write the properties of a device."""
    _put_properties(state, address, device, 12)


def _put_properties(state: Runtime, address: int, device: int, major: int) -> None:
    out(address)
    state.check_device(device)
    layout = device_properties(major)
    made = layout.structure()
    for name, numbers in layout.numbers.items():
        values = [state.get("cuDeviceGetAttribute", number, device, kind=ctypes.c_int) for number in numbers]
        if isinstance(getattr(made, name), ctypes.Array):
            getattr(made, name)[:] = values
        else:
            setattr(made, name, values[0])
    uuid = (ctypes.c_char * 16)()
    state.do("cuDeviceGetUuid_v2", uuid, device)
    ctypes.memmove(ctypes.addressof(made) + layout.structure.uuid.offset, uuid, len(uuid))
    made.name, made.totalGlobalMem = state.machine.answers.name.encode(), state.machine.answers.memory
    put_bytes(address, bytes(made))


# -- peers


def context_of(state: Runtime, device: int) -> int:
    """Return the handle of the primary context of a device, and initialize it."""
    state.check_device(device)
    return state.retain(device)


@runtime("cudaDeviceEnablePeerAccess")
def enable_peer_access(state: Runtime, device: int, flags: int) -> None:
    """Give the current device access to the memory of another one."""
    state.do("cuCtxEnablePeerAccess", context_of(state, device), flags)


@runtime("cudaDeviceDisablePeerAccess")
def disable_peer_access(state: Runtime, device: int) -> None:
    """Take this access away."""
    state.do("cuCtxDisablePeerAccess", context_of(state, device))
