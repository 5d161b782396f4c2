"""The part of NVML that programs use when they start: versions, the number of devices, their names, UUIDs and memory.

What it is   `open_nvml`, which returns the addresses of the C functions of libnvidia-ml.so.1; and NAMES, the functions
             that it exports. A handle is the number of the device plus 1.
What not     clocks, temperatures, processes: the functions that programs expect are exported, and return
             NVML_ERROR_NOT_SUPPORTED.
Source       NVML API Reference Guide
Read next    stand_in_libraries.py
"""

from __future__ import annotations

import ctypes
import struct
from functools import partial

from ..entries.hardware.device_entries import bus_id_of, uuid_of
from ..interface.thunks import keep_for_ever, out, put_bytes, put_int, put_uint, put_word, text
from ..machine.codes import Refused
from ..machine.recovery import answering

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from .. import Emulator
    from ..machine.machine import Machine

__all__ = ["NAMES", "TEXTS", "open_nvml"]

_UNINITIALIZED, _INVALID, _UNSUPPORTED, _NOT_FOUND, _TOO_SMALL, _UNKNOWN = 1, 2, 3, 6, 7, 999
_DRIVER = b"580.0"  # of the first driver for CUDA 13.0
TEXTS = {
    0: b"Success",
    1: b"Uninitialized",
    2: b"Invalid Argument",
    3: b"Not Supported",
    4: b"Insufficient Permissions",
    6: b"Not Found",
    7: b"Insufficient Size",
    13: b"Function Not Found",
}


class _Failed(Exception):
    """An error code that a call returns."""

    def __init__(self, code: int) -> None:
        self.code = code


def _index_of(machine: Machine, handle: int) -> int:
    """Return the number of a device. NVML counts all devices, whatever CUDA_VISIBLE_DEVICES says."""
    if not 1 <= handle <= machine.count:
        raise _Failed(_INVALID)
    return handle - 1


def _used(machine: Machine, handle: int) -> int:
    index = _index_of(machine, handle)
    return sum(device.used for device in machine.devices if device.index == index)


def _put_text(address: int, length: int, text: bytes) -> None:
    out(address)
    if length <= len(text):
        raise _Failed(_TOO_SMALL)
    put_bytes(address, text + b"\0")


_begun: list[None] = []  # one item for each nvmlInit without its nvmlShutdown


def _init(machine: Machine, *flags: int) -> None:
    _begun.append(None)


def _shutdown(machine: Machine) -> None:
    try:
        _begun.pop()
    except IndexError:  # another thread was faster
        raise _Failed(_UNINITIALIZED) from None


def _count(machine: Machine, address: int) -> None:
    put_uint(address, machine.count)


def _by_index(machine: Machine, index: int, address: int) -> None:
    _index_of(machine, index + 1)
    put_word(address, index + 1)


def _find(machine: Machine, wanted: str, address: int, key: Callable[[int], str]) -> None:
    for index in range(machine.count):
        if key(index) == wanted:
            put_word(address, index + 1)
            return
    raise _Failed(_NOT_FOUND)


def _by_uuid(machine: Machine, uuid: int, address: int) -> None:
    _find(machine, text(uuid), address, uuid_of)


def _by_bus_id(machine: Machine, name: int, address: int) -> None:
    wanted = text(name).lower()
    _find(machine, wanted[-12:], address, lambda index: bus_id_of(index).decode())


def _name(machine: Machine, handle: int, address: int, length: int) -> None:
    _index_of(machine, handle)
    _put_text(address, length, machine.answers.name.encode())


def _uuid(machine: Machine, handle: int, address: int, length: int) -> None:
    _put_text(address, length, uuid_of(_index_of(machine, handle)).encode())


def _index(machine: Machine, handle: int, address: int) -> None:
    put_uint(address, _index_of(machine, handle))


def _memory(machine: Machine, handle: int, address: int) -> None:
    used = _used(machine, handle)
    out(address)
    put_bytes(address, struct.pack("<3Q", machine.answers.memory, machine.answers.memory - used, used))


def _memory_2(machine: Machine, handle: int, address: int) -> None:
    used = _used(machine, handle)
    out(address)
    put_bytes(
        address + 8, struct.pack("<4Q", machine.answers.memory, 0, machine.answers.memory - used, used)
    )  # after the version


def _capability(machine: Machine, handle: int, major: int, minor: int) -> None:
    _index_of(machine, handle)
    out(major, minor)
    put_int(major, machine.architecture // 10)
    put_int(minor, machine.architecture % 10)


def _pci(machine: Machine, handle: int, address: int) -> None:
    """Write nvmlPciInfo_t: the short name, domain, bus, device, two IDs of the vendor (0), and the long name."""
    _old_pci(machine, handle, address, struct.pack("<32s", b"0000" + bus_id_of(_index_of(machine, handle))))


def _old_pci(machine: Machine, handle: int, address: int, end: bytes = bytes(16)) -> None:
    """Write the structure of older versions, which has four reserved words instead of the long name."""
    index = _index_of(machine, handle)
    out(address)
    put_bytes(address, struct.pack("<16s5I", bus_id_of(index), 0, index + 1, 0, 0, 0) + end)


def _version_text(machine: Machine, address: int, length: int, value: bytes = _DRIVER) -> None:
    _put_text(address, length, value)


def _cuda_version(machine: Machine, address: int) -> None:
    put_int(address, machine.cuda)


def _unsupported(machine: Machine, handle: int, *_: int) -> None:
    _index_of(machine, handle)
    raise _Failed(_UNSUPPORTED)


_I, _P = ctypes.c_uint, ctypes.c_size_t
_TABLE: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "nvmlInit": (_init, ()),
    "nvmlInit_v2": (_init, ()),
    "nvmlInitWithFlags": (_init, (_I,)),
    "nvmlShutdown": (_shutdown, ()),
    "nvmlSystemGetDriverVersion": (_version_text, (_P, _I)),
    "nvmlSystemGetNVMLVersion": (partial(_version_text, value=b"13." + _DRIVER), (_P, _I)),
    "nvmlSystemGetCudaDriverVersion": (_cuda_version, (_P,)),
    "nvmlSystemGetCudaDriverVersion_v2": (_cuda_version, (_P,)),
    "nvmlDeviceGetCount": (_count, (_P,)),
    "nvmlDeviceGetCount_v2": (_count, (_P,)),
    "nvmlDeviceGetHandleByIndex": (_by_index, (_I, _P)),
    "nvmlDeviceGetHandleByIndex_v2": (_by_index, (_I, _P)),
    "nvmlDeviceGetHandleByUUID": (_by_uuid, (_P, _P)),
    "nvmlDeviceGetHandleByPciBusId": (_by_bus_id, (_P, _P)),
    "nvmlDeviceGetHandleByPciBusId_v2": (_by_bus_id, (_P, _P)),
    "nvmlDeviceGetName": (_name, (_P, _P, _I)),
    "nvmlDeviceGetUUID": (_uuid, (_P, _P, _I)),
    "nvmlDeviceGetIndex": (_index, (_P, _P)),
    "nvmlDeviceGetMemoryInfo": (_memory, (_P, _P)),
    "nvmlDeviceGetMemoryInfo_v2": (_memory_2, (_P, _P)),
    "nvmlDeviceGetCudaComputeCapability": (_capability, (_P, _P, _P)),
    "nvmlDeviceGetPciInfo": (_old_pci, (_P, _P)),
    "nvmlDeviceGetPciInfo_v2": (_old_pci, (_P, _P)),
    "nvmlDeviceGetPciInfo_v3": (_pci, (_P, _P)),
    "nvmlDeviceGetUtilizationRates": (_unsupported, (_P, _P)),
    "nvmlDeviceGetTemperature": (_unsupported, (_P, _I, _P)),
    "nvmlDeviceGetPowerUsage": (_unsupported, (_P, _P)),
    "nvmlDeviceGetClockInfo": (_unsupported, (_P, _I, _P)),
    "nvmlDeviceGetComputeRunningProcesses": (_unsupported, (_P, _P, _P)),
    "nvmlDeviceGetComputeRunningProcesses_v3": (_unsupported, (_P, _P, _P)),
}
NAMES = [*sorted(_TABLE), "nvmlErrorString"]  # the last is answered without Python


def open_nvml(emulator: Emulator) -> Callable[[str], int | None]:
    """Return a function that returns the address of the C function of a name."""
    machine = emulator._machine

    def answers(name: str) -> int:
        function, parameters = _TABLE[name]
        made = ctypes.CFUNCTYPE(ctypes.c_int, *parameters)(_wrapped(machine, name, function))
        keep_for_ever(made)
        return ctypes.cast(made, ctypes.c_void_p).value or 0

    return answers


def _wrapped(machine: Machine, name: str, function: Callable[..., Any]) -> Any:
    """Return a function for C. It takes no lock of the machine, which a fork may have copied while it was held."""

    def call(*arguments: int) -> int:
        try:
            if not _begun and function is not _init:
                return _UNINITIALIZED
            function(machine, *arguments)
            return 0
        except Refused:  # NULL
            return _INVALID
        except _Failed as failed:
            return failed.code

    return answering(machine, name, call, _UNKNOWN)
