"""The properties of a device: its name, its memory, its attributes.

What it is   Facts, the base class of Device with these properties; DeviceAttributes, the attributes as a mapping.
Source       CUDA Driver API, "Device Management"; cuda.h, enum CUdevice_attribute
Read next    gpu/devices/device.py
"""

from __future__ import annotations

import ctypes
from _collections_abc import Mapping

from ... import driver
from ...arguments import as_int
from ...errors import CudaError, NotFound, a_kind, worded
from ...headers import cuda_h
from ...headers.status import INVALID_DEVICE, INVALID_VALUE
from ...interpreter.cpython import facts
from ...ownership import Owned
from ..core.context import Current, PrimaryContext, count, uuid_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from typing_extensions import Self

    from ...gpu.devices.limits import Limits

    Attributes = Mapping[str, int]
else:
    Attributes = Mapping

__all__ = ["DeviceAttributes", "Facts"]

_PREFIX = "CU_DEVICE_ATTRIBUTE_"
_NAME, _UUID = ("name",), ("uuid",)  # keys besides those of the attributes, which are names and numbers


@facts("ordinal")
class Facts(Owned):
    """The properties of a Device; those that never change are kept with its context."""

    __slots__ = ("_ordinal", "_primary", "_held")

    ordinal: int
    if TYPE_CHECKING:
        _ordinal: int
        _primary: PrimaryContext
        _held: PrimaryContext | None  # the context, while the device is open and holds it

        def __init__(self, ordinal: int = 0) -> None: ...

        @property
        def context(self) -> int:
            """Return the primary context's handle."""

        def current(self) -> Current:
            """Return a context manager that makes the context current."""

    @property
    def name(self) -> str:
        """Return the device's name."""
        known = self._primary.attributes.get(_NAME)
        if known is None or self._handle is None:
            text = ctypes.create_string_buffer(256)
            self._primary.driver.cuDeviceGetName(text, len(text), self.handle)
            known = self._primary.attributes[_NAME] = text.value.decode("utf-8", "replace")
        return known

    @property
    def uuid(self) -> str:
        """Return the device's UUID, as nvidia-smi writes it: "GPU-..." or, of a MIG instance, "MIG-...".

        calls   cuDeviceGetUuid, cuDeviceGetUuid_v2
        """
        known = self._primary.attributes.get(_UUID)
        if known is None or self._handle is None:
            # The first function returns the UUID of the GPU, the second one that of a MIG instance if it is one.
            names = [name for name in ("cuDeviceGetUuid", "cuDeviceGetUuid_v2") if self._primary.driver.has(name)]
            answers = []
            for name in names:
                raw = cuda_h.CUuuid()
                getattr(self._primary.driver, name)(ctypes.byref(raw), self.handle)
                answers.append(bytes(raw))
            known = uuid_text(answers[-1], "GPU" if answers[0] == answers[-1] else "MIG")
            self._primary.attributes[_UUID] = known
        return known

    @property
    def compute_capability(self) -> tuple[int, int]:
        """Return (major, minor)."""
        return self.attribute("COMPUTE_CAPABILITY_MAJOR"), self.attribute("COMPUTE_CAPABILITY_MINOR")

    @property
    def total_memory(self) -> int:
        """Return the size of the device's memory in bytes."""
        size = ctypes.c_size_t()
        self._primary.driver.cuDeviceTotalMem_v2(ctypes.byref(size), self.handle)
        return size.value

    @property
    def free_memory(self) -> int:
        """Return the number of bytes of its memory that are free now; other processes may change it."""
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        with self.current():
            self._primary.driver.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))
        return free.value

    def attribute(self, which: str | int) -> int:
        """Return a device attribute by its name in cuda.h, with or without CU_DEVICE_ATTRIBUTE_, or by its number.

        calls   cuDeviceGetAttribute
        raises  ValueError  an unknown name
        """
        known = None
        if type(which) is str:
            try:
                known = self._primary.attributes[which]
            except KeyError:
                pass
        if known is None or self._handle is None:
            known = self._ask_attribute(which)
        return known

    def _ask_attribute(self, which: object) -> int:
        if isinstance(which, str):
            number = _attribute_number(which)
        elif isinstance(which, bool) or not hasattr(type(which), "__index__") or getattr(which, "shape", None):
            raise TypeError(f"an attribute must be a name in cuda.h or its number, not {a_kind(which)}")
        else:
            number = as_int("an attribute", which)
        known = self._primary.attributes
        if number not in known or self._handle is None:
            value = ctypes.c_int()
            self._primary.driver.cuDeviceGetAttribute(ctypes.byref(value), number, self.handle)
            known[number] = value.value
        if type(which) is str:
            known[which] = known[number]
        return int(known[number])

    @property
    def attributes(self) -> Mapping[str, int]:
        """Return all attributes as a mapping from their names: device.attributes["WARP_SIZE"]."""
        all_of_them: Mapping[str, int] = DeviceAttributes(self)
        return all_of_them

    @property
    def limits(self) -> Limits:
        """Return the limits of the context, which can be set: device.limits.stack_size = 4096."""
        from .limits import Limits

        return Limits(self)

    @property
    def stream_priorities(self) -> tuple[int, int]:
        """Return the priorities of streams, (lowest, highest): a higher priority is a lower number, such as (0, -5).

        calls   cuCtxGetStreamPriorityRange
        """
        lowest, highest = ctypes.c_int(), ctypes.c_int()
        self.context
        self._primary.calls.cuCtxGetStreamPriorityRange(ctypes.byref(lowest), ctypes.byref(highest))
        return lowest.value, highest.value

    @property
    def pci_bus_id(self) -> str:
        """Return the device's address on the PCI bus, such as "0000:3b:00.0".

        calls   cuDeviceGetPCIBusId
        """
        text = ctypes.create_string_buffer(32)
        self._primary.driver.cuDeviceGetPCIBusId(text, len(text), self.handle)
        return text.value.decode("ascii", "replace")

    @classmethod
    def from_pci_bus_id(cls, address: str) -> Self:
        """Return the device with an address on the PCI bus, such as "0000:3b:00.0".

        calls   cuDeviceGetByPCIBusId
        raises  ValueError  no visible device has this address
        """
        if not isinstance(address, str):
            raise TypeError(f"an address on the PCI bus is a str, not {a_kind(address)}")
        handle = ctypes.c_int()
        try:
            driver.current().cuDeviceGetByPCIBusId(ctypes.byref(handle), address.encode("utf-8", "replace"))
        except CudaError as error:
            if error.code not in (INVALID_DEVICE, INVALID_VALUE):
                raise
            there = ", ".join(device.pci_bus_id for device in map(cls, range(count())))
            raise ValueError(f"no visible device has the address {worded(address)}: there are {there}") from None
        return next(device for device in map(cls, range(count())) if device.handle == handle.value)

    @property
    def compute_mode(self) -> str:
        """Return which processes may use the device: "default" (all), "exclusive_process" (one) or "prohibited"."""
        return {0: "default", 2: "prohibited", 3: "exclusive_process"}.get(self.attribute("COMPUTE_MODE"), "unknown")


def _attribute_number(name: str) -> int:
    full = name.upper()
    if not full.startswith("CU_DEVICE_ATTRIBUTE_"):
        full = "CU_DEVICE_ATTRIBUTE_" + full
    table = cuda_h.enum("CUdevice_attribute")
    if full not in table:
        import difflib

        near = difflib.get_close_matches(full, table, 3, 0.5)
        short = ", ".join(each[len("CU_DEVICE_ATTRIBUTE_") :] for each in near)
        raise ValueError(f"unknown device attribute {worded(name)}" + (f": did you mean {short}" if near else ""))
    return table[full]


class DeviceAttributes(Attributes):
    """All attributes that the driver knows of a device, by their names in cuda.h without CU_DEVICE_ATTRIBUTE_.

    The name may be written in any case, and may be a Python attribute: device.attributes.warp_size.

    raises  NotFound  no attribute has this name
    """

    __slots__ = ("_device",)

    def __init__(self, device: Facts) -> None:
        self._device = device

    def __getitem__(self, name: str) -> int:
        try:
            if not isinstance(name, str):
                raise ValueError(f"{worded(name)} is not the name of an attribute")
            return self._device.attribute(name)
        except CudaError as error:  # an attribute that only a newer driver knows
            if error.code != INVALID_VALUE:
                raise
            raise NotFound(f"this driver does not know the device attribute {name}") from None
        except ValueError as error:
            if type(error) is not ValueError:
                raise
            raise NotFound(str(error)) from None

    def __getattr__(self, name: str) -> int:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self[name]
        except NotFound as error:
            raise AttributeError(str(error)) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._known())

    def __len__(self) -> int:
        return len(self._known())

    def __dir__(self) -> list[str]:
        return [*object.__dir__(self), *(name.lower() for name in _names())]

    def _known(self) -> list[str]:
        return [name for name in _names() if name in self]

    def __repr__(self) -> str:
        return f"<attributes of {self._device!r}>"


def _names() -> list[str]:
    """List the names of all attributes in the header; of several names for the same number, the first."""
    by_number: dict[int, str] = {}
    for name, number in cuda_h.enum("CUdevice_attribute").items():
        if name != _PREFIX + "MAX" and name.startswith(_PREFIX):
            by_number.setdefault(number, name[len(_PREFIX) :])
    return list(by_number.values())
