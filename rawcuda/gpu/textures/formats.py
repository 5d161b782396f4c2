"""The formats and the extents of CUDA arrays: how a dtype, a number of channels and a shape are passed to the driver.

What it is   `Form`, the checked properties of a CUDA array; `data_of`, which returns a view of the same memory with the
             channels as the last dimension.
How          Shapes are as in NumPy: the last dimension is the width, the one before it the height, and the first of
             three the depth or the layers. An element has 1, 2 or 4 channels of one dtype. Data with several channels
             has them as an additional last dimension, or its elements are vectors (float32x4) or complex numbers.
Source       CUDA Driver API, cuArray3DCreate: the tables of valid extents
Read next    transfers.py
"""

from __future__ import annotations

from operator import index

from ...arguments import as_bool, as_int, as_sequence
from ...elements.dtypes import of
from ...errors import Unsupported, a_kind, worded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ...arrays.strided import StridedView
    from ...elements.dtypes import DType
    from ..devices.device import Device

__all__ = ["FORMATS", "Form", "Formed", "channels_of", "choice", "data_of", "element_of", "as_bool", "limited"]

# dtype -> CUarray_format
FORMATS = {
    "uint8": 0x01,
    "uint16": 0x02,
    "uint32": 0x03,
    "int8": 0x08,
    "int16": 0x09,
    "int32": 0x0A,
    "float16": 0x10,
    "float32": 0x20,
}
DTYPES = {number: name for name, number in FORMATS.items()}
_LAYERED, _SURFACE, _CUBEMAP, _GATHER = 1, 2, 4, 8  # CUDA_ARRAY3D_LAYERED, ..._SURFACE_LDST, ...
_PAIRS = {"complex64": "float32", "complex32": "float16"}


def element_of(dtype: object) -> DType:
    """Return the dtype of a component; raises ValueError if no array can have it."""
    element = of(dtype)
    if element.name not in FORMATS:
        hint = ""
        if element.name == "bool":
            hint = ": reinterpret() the data as uint8"
        raise ValueError(f"dtype {element}: an element of an array is one of {', '.join(FORMATS)}{hint}")
    return element


def channels_of(channels: object) -> int:
    """Return a number of channels; raises ValueError unless it is 1, 2 or 4."""
    count = as_int("channels", channels)
    if count not in (1, 2, 4):
        more = ": add a fourth one, as in RGBA" if count == 3 else ""
        raise ValueError(f"channels={worded(count)}: an element has 1, 2 or 4{more}")
    return count


def choice(name: str, value: Any, choices: Mapping[Any, int]) -> int:
    """Return the number of a word, or of None if that is a choice; raises TypeError or ValueError."""
    if not isinstance(value, str) and not (value is None and None in choices):
        raise TypeError(f"{name} must be one of {', '.join(map(repr, choices))}, not {a_kind(value)}")
    if value not in choices:
        raise ValueError(f"{name}={worded(str(value))}: give one of {', '.join(map(repr, choices))}")
    return choices[value]


def vector_of(dtype: DType) -> tuple[DType, int]:
    """Return the dtype of the components of an element, and how many it has."""
    if dtype.name in _PAIRS:
        return of(_PAIRS[dtype.name]), 2
    if dtype.lanes > 1:
        return of(dtype.name.rpartition("x")[0]), dtype.lanes
    return dtype, 1


def data_of(view: StridedView, dtype: DType, channels: int) -> StridedView:
    """Return a view with the channels as the last dimension; vectors and complex numbers are divided.

    raises  TypeError   another dtype
            ValueError  another number of channels
    """
    component, lanes = vector_of(view.dtype)
    if component is not dtype:
        raise TypeError(
            f"a copy converts nothing: the array has dtype {dtype}, the other side {view.dtype}; reinterpret() one, or "
            "convert first"
        )
    if lanes > 1:
        if lanes != channels:
            raise ValueError(f"elements of {view.dtype} have {lanes} channels, the array has {channels}")
        itemsize = component.itemsize
        return view._derived(view.ptr, (*view.shape, lanes), (*view.strides, itemsize), component)
    return view


class Formed:
    """The facts of every array that has a `form`."""

    __slots__ = ()

    @property
    def shape(self: Any) -> tuple[int, ...]:
        """Return the extents in elements (those of level 0, if it has levels), the width last."""
        shape: tuple[int, ...] = self.form.shape
        return shape

    @property
    def dtype(self: Any) -> DType:
        """Return the dtype of a channel."""
        dtype: DType = self.form.dtype
        return dtype

    @property
    def channels(self: Any) -> int:
        """Return the number of channels of an element: 1, 2 or 4."""
        channels: int = self.form.channels
        return channels

    @property
    def stream(self: Any) -> Any:
        """Return the stream that the elements were last copied to on, in whose order they are ready; it can be set.

        The next copy waits for it; None: nothing is pending. The levels of a mipmapped array share it.
        """
        return self._origin()._stream

    @stream.setter
    def stream(self: Any, stream: object) -> None:
        self._origin()._stream = stream

    def _origin(self) -> Formed:
        """Return the array that knows the order of the elements."""
        return self


class Form:
    """The properties of an array: dtype, channels, shape, and its uses.

    raises  TypeError   an argument of another kind
            ValueError  no array can have these properties, or they exceed a limit of the device
    """

    __slots__ = ("dtype", "channels", "shape", "layered", "cubemap", "surface", "gather")

    dtype: DType
    channels: int
    shape: tuple[int, ...]
    layered: bool
    cubemap: bool
    surface: bool
    gather: bool

    def __init__(
        self,
        shape: object,
        dtype: object,
        channels: object,
        layered: object = False,
        cubemap: object = False,
        surface: object = False,
        gather: object = False,
    ) -> None:
        self.dtype, self.channels = element_of(dtype), channels_of(channels)
        self.layered, self.cubemap = as_bool("layered", layered), as_bool("cubemap", cubemap)
        self.surface, self.gather = as_bool("surface", surface), as_bool("gather", gather)
        self.shape = _extents(shape)
        self._check()

    def _check(self) -> None:
        shape, count = self.shape, len(self.shape)
        least, most = (2 if self.layered else 1), 3
        if self.cubemap:
            least = 3
        if not least <= count <= most:
            if self.cubemap:
                what = "a cubemap"
            elif self.layered:
                what = "a layered array"
            else:
                what = "an array"
            raise ValueError(f"shape {shape}: {what} has {least} to {most} dimensions")
        if 0 in shape:
            raise ValueError(f"shape {shape}: every extent of an array must be at least 1")
        if self.cubemap and shape[1] != shape[2]:
            raise ValueError(f"shape {shape}: the faces of a cubemap must be squares")
        if self.cubemap and (shape[0] % 6 or shape[0] != 6 and not self.layered):
            raise ValueError(
                f"shape {shape}: a cubemap has 6 faces, (6, n, n); with layered=True it has a multiple of 6"
            )
        if self.gather and (count != 2 or self.layered):
            raise ValueError(f"shape {shape}: only an array of 2 dimensions can be made for gathering")

    @property
    def itemsize(self) -> int:
        """Return the size of an element with all of its channels, in bytes."""
        return int(self.dtype.itemsize) * self.channels

    @property
    def flags(self) -> int:
        """Return the flags of cuArray3DCreate."""
        given = self.layered, self.surface, self.cubemap, self.gather
        return sum(number for number, chosen in zip((_LAYERED, _SURFACE, _CUBEMAP, _GATHER), given) if chosen)

    @property
    def is_layered(self) -> bool:
        """Tell whether the first dimension counts layers or faces."""
        return self.layered or self.cubemap

    @property
    def extents(self) -> tuple[int, int, int]:
        """Return width, height and depth, as the driver has them: 0 for a dimension that is not there."""
        if len(self.shape) == 2 and self.is_layered:
            return self.shape[1], 0, self.shape[0]
        width, height, depth = (*self.shape[::-1], 0, 0)[:3]
        return width, height, depth

    @property
    def kind(self) -> str:
        """Return the words for this kind of array."""
        words = ["layered"] * self.layered + [f"{len(self.shape) - self.layered}-D"] * (not self.cubemap)
        return " ".join([*words, "cubemap" if self.cubemap else "array"])

    def check_limits(self, device: Device, mipmapped: bool = False) -> None:
        """Refuse extents that the device does not permit.

        raises  ValueError   an extent above its limit
                Unsupported  an array for gathering, on a device that cannot gather
        """
        if self.gather and not device.attribute("CAN_TEX2D_GATHER"):
            raise Unsupported(
                f"device {device.ordinal} cannot gather (its attribute CAN_TEX2D_GATHER is 0): leave gather out"
            )
        for attributes in self._limits(mipmapped):
            most = [device.attribute(f"MAXIMUM_{name}") for name in attributes.split()]
            shape = self.shape[::-1]
            if all(extent <= bound for extent, bound in zip(shape, most)):
                continue
            if attributes == _TEXTURE_3D:
                other = [device.attribute(f"MAXIMUM_{name}_ALTERNATE") for name in attributes.split()]
                if all(extent <= bound for extent, bound in zip(shape, other)):
                    continue
            raise ValueError(
                f"shape {self.shape}: the limits of this device for this kind of array are {tuple(most[::-1])} "
                f"(MAXIMUM_{', MAXIMUM_'.join(attributes.split()[::-1])})"
            )

    def _limits(self, mipmapped: bool) -> list[str]:
        """Return the names of the attributes, for width, height and depth: of textures, and then of surfaces."""
        if self.cubemap:
            end = "CUBEMAP_LAYERED_" if self.layered else "CUBEMAP_"
            names = [f"{end}WIDTH", f"{end}WIDTH"] + [f"{end}LAYERS"] * self.layered
        elif self.layered:
            names = ["2D_LAYERED_WIDTH", "2D_LAYERED_HEIGHT", "2D_LAYERED_LAYERS"]
            if len(self.shape) == 2:
                names = ["1D_LAYERED_WIDTH", "1D_LAYERED_LAYERS"]
        else:
            names = [f"{len(self.shape)}D_{side}" for side in ("WIDTH", "HEIGHT", "DEPTH")[: len(self.shape)]]
        found = ["TEXTURE" + name for name in names]
        surface = ["SURFACE" + name for name in names]
        if mipmapped and not self.is_layered and len(self.shape) < 3:
            found = [name.replace("D_", "D_MIPMAPPED_") for name in found]
        if self.gather:
            found = [name.replace("D_", "D_GATHER_") for name in found]
        return [" ".join(found)] + ([" ".join(surface)] if self.surface else [])

    def describe(self) -> str:
        """Return the words for a repr."""
        channels = f"x{self.channels}" if self.channels > 1 else ""
        return f"{self.dtype}{channels} {self.shape}"


_TEXTURE_3D = "TEXTURE3D_WIDTH TEXTURE3D_HEIGHT TEXTURE3D_DEPTH"


def _extents(shape: object) -> tuple[int, ...]:
    given = as_sequence("a shape", shape)
    for extent in given:
        if isinstance(extent, bool) or not hasattr(type(extent), "__index__"):
            raise TypeError(f"each extent of a shape must be an int, not {a_kind(extent)}")
    extents = tuple([int.__index__(index(extent)) for extent in given])
    for extent in extents:
        if not 0 <= extent < 2**63:
            raise ValueError(f"shape ({', '.join(map(worded, extents))}): an extent must be in 1 .. 2**63-1")
    return extents


def limited(what: str, value: int, device: Device, name: str) -> None:
    """Refuse a value above that of a device attribute."""
    most = device.attribute(name)
    if value > most:
        raise ValueError(f"{what} of {value}: this device permits {most} ({name})")
