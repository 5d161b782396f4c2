"""The attributes of a device as a mapping.

What it is   DeviceAttributes, which Device.attributes returns: `dict(device.attributes)`.
Source       CUDA Driver API, cuDeviceGetAttribute; cuda.h, enum CUdevice_attribute
Read next    gpu/device.py, whose attribute() asks the driver
"""

from __future__ import annotations

from _collections_abc import Mapping

from ... import names
from ...errors import CudaError, NotFound
from ...headers import cuda_h

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    Attributes = Mapping[str, int]
else:
    Attributes = Mapping

__all__ = ["DeviceAttributes"]

_PREFIX = "CU_DEVICE_ATTRIBUTE_"


class DeviceAttributes(Attributes):
    """All attributes that the driver knows of a device, by their names in cuda.h without CU_DEVICE_ATTRIBUTE_.

    The name may be written in any case, and may be a Python attribute: device.attributes.warp_size.

    raises  NotFound  no attribute has this name
    """

    __slots__ = ("_device",)

    def __init__(self, device: names.Device) -> None:
        self._device = device

    def __getitem__(self, name: str) -> int:
        try:
            if not isinstance(name, str):
                raise ValueError(f"{name!r} is not the name of an attribute")
            return self._device.attribute(name)
        except CudaError as error:  # a newer driver knows it
            if error.code != cuda_h.CUDA_ERROR_INVALID_VALUE:
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
    by_number: dict[int, Any] = {}
    for name, number in cuda_h.enum("CUdevice_attribute").items():
        if name != _PREFIX + "MAX" and name.startswith(_PREFIX):
            by_number.setdefault(number, name[len(_PREFIX) :])
    return list(by_number.values())
