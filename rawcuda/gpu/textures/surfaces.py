"""Surface objects: CUDA arrays that kernels read and write by integer coordinates.

What it is   `SurfaceObject`, the argument of a kernel with a parameter of type cudaSurfaceObject_t.
What not     It has no options: the function that the kernel calls says what happens out of range (trap, clamp, zero).
Source       CUDA Driver API, "Surface Object Management"
Read next    tensor_map.py
"""

from __future__ import annotations

import ctypes

from ...arguments import SetOnce
from ...errors import a_kind
from ...headers import cuda_h
from ..core.handles import SURFACE, shown_handle
from ..core.stream_arguments import InContext
from ..kernels.declared_parameters import Passed
from .mipmapped import MipmappedArray
from .opaque_arrays import ArrayRegion, OpaqueArray
from .texture import check_passing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...gpu.devices.device import Device
    from ..kernels.parameters import Slot

__all__ = ["SurfaceObject"]


class SurfaceObject(SetOnce, InContext, Passed):
    """A surface over an OpaqueArray, which is its `resource`; made by Device.surface().

    >>> device = Device(0)
    >>> image = device.array((4, 8), "float32", surface=True)
    >>> surface = device.surface(image)
    >>> surface.resource is image
    True
    """

    __slots__ = ("resource",)
    declares = "surface"
    _instead = "make another surface"

    resource: OpaqueArray

    def __init__(self, *_: object, **__: object) -> None:
        raise TypeError("a SurfaceObject is made by Device.surface()")

    @classmethod
    def create(cls, device: Device, array: object) -> SurfaceObject:
        """Make a surface over an array that was made with surface=True.

        calls   cuSurfObjectCreate
        raises  TypeError   not an OpaqueArray
                ValueError  the array was not made for surfaces, or is on another device
        """
        if not isinstance(array, OpaqueArray):
            hint = "device.array(view, surface=True) makes one"
            if isinstance(array, MipmappedArray):
                hint = "take a level, mipmapped[0]"
            elif isinstance(array, ArrayRegion):
                hint = "give the whole array"
            raise TypeError(f"a surface needs an OpaqueArray, not {a_kind(array)}: {hint}")
        primary = array._open()
        if getattr(device, "_primary", None) is not primary:
            raise ValueError(f"{array!r} is not on this device: use array.device.surface(array)")
        if not array.surface:
            raise ValueError(f"{array!r} was not made for surfaces: give surface=True to device.array()")
        resource = cuda_h.CUDA_RESOURCE_DESC()
        resource.res.array.hArray = array.handle
        made = cls.__new__(cls)
        made.resource = array
        made._create(device, SURFACE, (ctypes.byref(resource),))
        return made

    def _pass(self, slot: Slot) -> tuple[int, object]:
        check_passing(self, slot, self.resource)
        return self.handle, self.resource

    def __repr__(self) -> str:
        where = shown_handle(self)
        return f"<SurfaceObject {where} over {self.resource!r}>"
