"""Mipmapped arrays: an image and smaller copies of it, among which a texture chooses.

What it is   `MipmappedArray`, a sequence of levels, each of which is an OpaqueArray.
What not     It does not compute the smaller images: copy them in, or let a kernel write them through surfaces.
Source       CUDA Driver API, cuMipmappedArrayCreate, cuMipmappedArrayGetLevel
Read next    texture.py
"""

from __future__ import annotations

import ctypes

from ...arguments import SetOnce, as_int
from ...errors import Closed, worded
from ...headers import cuda_h
from ..core.handles import MIPMAPPED, shown_handle
from ..core.stream_arguments import InContext
from ..kernels.declared_parameters import Passed
from .formats import Form, Formed
from .opaque_arrays import OpaqueArray, _check_device, descriptor_of, refuse_passing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import NoReturn

    from ...gpu.devices.device import Device
    from ..kernels.parameters import Slot

__all__ = ["MipmappedArray"]


class MipmappedArray(SetOnce, Formed, InContext, Passed):
    """A mipmapped array: `shape` (of level 0), `dtype`, `channels`, `num_levels`; made by Device.mipmapped_array().

    `mipmapped[0]` is the largest level, and each of the following ones has half its extents, rounded down, at least 1.
    The number of layers or faces is the same in all levels. The levels are closed with this object.

    >>> device = Device(0)
    >>> with device.mipmapped_array((8, 8), "float32", levels=3) as mipmapped:
    ...     mipmapped[2].shape
    (2, 2)
    """

    __slots__ = ("form", "num_levels", "_stream")
    _instead = "make another array"

    form: Form
    num_levels: int

    def __init__(self, *_: object, **__: object) -> None:
        raise TypeError("a MipmappedArray is made by Device.mipmapped_array()")

    @classmethod
    def create(cls, device: Device, form: Form, levels: int | None) -> MipmappedArray:
        """Create an uninitialized mipmapped array.

        levels  None: all levels, down to a single element
        calls   cuMipmappedArrayCreate
        raises  ValueError  too many levels, or a limit of the device is exceeded
        """
        made = cls.__new__(cls)
        made._stream = None
        _check_device(device)
        most = max(_sides(form)).bit_length()
        made.form, made.num_levels = form, most if levels is None else _count(levels, most, form)
        form.check_limits(device, mipmapped=True)
        descriptor = ctypes.byref(descriptor_of(form))
        made._create(device, MIPMAPPED, (descriptor, ctypes.c_uint(made.num_levels)))
        return made

    def level(self, number: int) -> OpaqueArray:
        """Return a level; it can be used until this object is closed.

        calls   cuMipmappedArrayGetLevel
        raises  IndexError  there is no such level
        """
        wanted = as_int("a level", number)
        if not -self.num_levels <= wanted < self.num_levels:
            raise IndexError(f"there is no level {worded(wanted)}: this array has {self.num_levels}, numbered from 0")
        wanted %= self.num_levels
        found = cuda_h.CUarray()
        if self._primary is None:
            raise Closed("this MipmappedArray was never created: make one with Device.mipmapped_array()")
        with self._primary.current():
            self._primary.driver.cuMipmappedArrayGetLevel(
                ctypes.byref(found), cuda_h.CUmipmappedArray(self.handle), wanted
            )
        return OpaqueArray._over(self.device, found.value or 0, _smaller(self.form, wanted), self, wanted)

    get_level = __getitem__ = level

    def _pass(self, slot: Slot) -> NoReturn:
        refuse_passing(self, slot)

    def __len__(self) -> int:
        return self.num_levels

    def __iter__(self) -> Iterator[OpaqueArray]:
        return (self.level(number) for number in range(self.num_levels))

    def __repr__(self) -> str:
        where = shown_handle(self)
        return (
            f"<MipmappedArray {where} {self.form.describe()}, {self.form.kind}, {self.num_levels} levels, "
            f"device {self.device.ordinal}>"
        )


def _sides(form: Form) -> tuple[int, ...]:
    if form.is_layered:
        return form.shape[1:]
    return form.shape


def _count(levels: object, most: int, form: Form) -> int:
    count = as_int("levels", levels)
    if not 1 <= count <= most:
        raise ValueError(f"levels={worded(count)}: an array of shape {form.shape} has 1 to {most}")
    return count


def _smaller(form: Form, level: int) -> Form:
    """Return the form of a level."""
    layers = form.shape[:1] if form.is_layered else ()
    shape = (*layers, *[max(side >> level, 1) for side in _sides(form)])
    return Form(shape, form.dtype, form.channels, form.layered, form.cubemap, form.surface, form.gather)
