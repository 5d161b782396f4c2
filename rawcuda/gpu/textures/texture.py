"""Texture objects: arrays and memory that kernels read through the texture hardware.

What it is   `TextureObject`, the argument of a kernel with a parameter of type cudaTextureObject_t; `TextureOptions`,
             how it is read: filter, address modes, normalized coordinates, and the conversion of integers.
How          A texture over an OpaqueArray or a MipmappedArray keeps the array alive. A texture over a view reads the
             memory of the view: one dimension is linear memory, which tex1Dfetch() reads; two dimensions are pitched
             memory.
What not     No data is copied: Device.array() makes an array from a view.
Source       CUDA Driver API, "Texture Object Management"; CUDA C++ Programming Guide, "Texture Memory"
Read next    surfaces.py
"""

from __future__ import annotations

import ctypes

from ...arguments import SetOnce, as_bool, as_float, as_int, as_list
from ...arrays import copying
from ...arrays.strided import StridedView, view
from ...errors import Closed, a_kind, worded
from ...headers import cuda_h
from ..core.context import is_device
from ..core.handles import TEXTURE, shown_handle
from ..core.stream_arguments import InContext
from ..kernels.declared_parameters import Passed
from .formats import FORMATS, channels_of, choice, data_of, element_of, limited, vector_of
from .mipmapped import MipmappedArray
from .opaque_arrays import ArrayRegion, OpaqueArray

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Union

    from ...elements.dtypes import DType
    from ...gpu.devices.device import Device
    from ..core.context import PrimaryContext
    from ..kernels.parameters import Slot

    Resource = Union[OpaqueArray, MipmappedArray, StridedView]

__all__ = ["TextureObject", "TextureOptions", "check_passing"]

_ADDRESS = {"wrap": 0, "clamp": 1, "mirror": 2, "border": 3}  # CUaddress_mode
_FILTER = {"point": 0, "linear": 1}  # CUfilter_mode
_READ = {"element_type": 0, "normalized_float": 1}
_LARGEST = 2.0**128 - 2.0**104  # the largest 32-bit float
_INTEGERS, _NORMALIZED, _SRGB, _NO_TRILINEAR, _SEAMLESS = 1, 2, 0x10, 0x20, 0x40  # CU_TRSF_*


class TextureOptions(SetOnce):
    """Options that say how a texture is read: the arguments of Device.texture().

    address_mode   what a coordinate out of range reads: "clamp", "border", "wrap" or "mirror"; a tuple has one for each
                   dimension, in the order of the shape. The last two need normalized coordinates
    filter_mode    "point": the element at the coordinate; "linear": a weighted sum of the nearest ones, of floats only
    read_mode      "element_type": integers stay integers; "normalized_float": fractions of their largest value
    normalized_coords  whether coordinates go from 0 to 1 instead of from 0 to the extent
    border_color   up to four numbers, which address_mode "border" reads out of range
    srgb           whether the first three channels of uint8 are decoded from sRGB
    max_anisotropy up to 16; 0 or 1: none
    mipmap_filter_mode, mipmap_level_bias, min_mipmap_level_clamp, max_mipmap_level_clamp
                   how levels are chosen; without max_mipmap_level_clamp, all levels are used
    disable_trilinear_optimization, seamless_cubemap   as in the driver
    """

    __slots__ = (
        "address_mode",
        "filter_mode",
        "read_mode",
        "normalized_coords",
        "border_color",
        "srgb",
        "max_anisotropy",
        "mipmap_filter_mode",
        "mipmap_level_bias",
        "min_mipmap_level_clamp",
        "max_mipmap_level_clamp",
        "disable_trilinear_optimization",
        "seamless_cubemap",
    )
    _instead = "make another texture"

    address_mode: tuple[str, ...]
    filter_mode: str
    read_mode: str
    normalized_coords: bool
    border_color: tuple[float, ...]
    srgb: bool
    max_anisotropy: int
    mipmap_filter_mode: str
    mipmap_level_bias: float
    min_mipmap_level_clamp: float
    max_mipmap_level_clamp: float | None
    disable_trilinear_optimization: bool
    seamless_cubemap: bool

    def __init__(
        self,
        *,
        address_mode: str | tuple[str, ...] = "clamp",
        filter_mode: str = "point",
        read_mode: str = "element_type",
        normalized_coords: bool = False,
        border_color: object = None,
        srgb: bool = False,
        max_anisotropy: int = 0,
        mipmap_filter_mode: str = "point",
        mipmap_level_bias: float = 0.0,
        min_mipmap_level_clamp: float = 0.0,
        max_mipmap_level_clamp: float | None = None,
        disable_trilinear_optimization: bool = False,
        seamless_cubemap: bool = False,
    ) -> None:
        if isinstance(address_mode, (tuple, list)):
            modes = address_mode
        else:
            modes = (address_mode,)
        for mode in modes:
            choice("address_mode", mode, _ADDRESS)
        self.address_mode = tuple(modes)
        choice("filter_mode", filter_mode, _FILTER)
        choice("read_mode", read_mode, _READ)
        choice("mipmap_filter_mode", mipmap_filter_mode, _FILTER)
        self.filter_mode, self.read_mode, self.mipmap_filter_mode = filter_mode, read_mode, mipmap_filter_mode
        self.normalized_coords = as_bool("normalized_coords", normalized_coords)
        self.srgb = as_bool("srgb", srgb)
        self.disable_trilinear_optimization = as_bool("disable_trilinear_optimization", disable_trilinear_optimization)
        self.seamless_cubemap = as_bool("seamless_cubemap", seamless_cubemap)
        self.max_anisotropy = as_int("max_anisotropy", max_anisotropy)
        if not 0 <= self.max_anisotropy <= 16:
            raise ValueError(f"max_anisotropy={worded(max_anisotropy)}: give a number from 0 to 16")
        self.mipmap_level_bias = _number("mipmap_level_bias", mipmap_level_bias)
        self.min_mipmap_level_clamp = _number("min_mipmap_level_clamp", min_mipmap_level_clamp)
        given = max_mipmap_level_clamp
        if given is None:
            self.max_mipmap_level_clamp = None
        else:
            self.max_mipmap_level_clamp = _number("max_mipmap_level_clamp", given)
        self.border_color = _color(border_color)
        if border_color is not None and "border" not in self.address_mode:
            raise ValueError('border_color has an effect only with address_mode="border": give both, or neither')
        if not self.normalized_coords and not {"wrap", "mirror"}.isdisjoint(self.address_mode):
            raise ValueError(
                'the address modes "wrap" and "mirror" need normalized_coords=True: without, a GPU would clamp'
            )

    @classmethod
    def read(cls, options: dict[str, Any]) -> TextureOptions:
        """Return the options that were given by name to Device.texture()."""
        for name in options:
            if name not in cls.__slots__:
                raise TypeError(f"a texture has no option {worded(name)}: it has {', '.join(cls.__slots__)}")
        return cls(**options)

    def check(self, what: _Source) -> None:
        """Refuse combinations that the driver refuses, or that have no effect."""
        form = what.dtype
        is_float = form.kind == "float"
        if len(self.address_mode) not in (1, what.ndim):
            raise ValueError(
                f"address_mode={self.address_mode}: give one mode, or one for each of {what.ndim} dimensions"
            )
        if self.read_mode == "normalized_float" and form.itemsize == 4 and not is_float:
            raise ValueError(f"{form} elements cannot be read as fractions: only those of 8 and 16 bits can")
        if self.filter_mode == "linear" and not is_float and self.read_mode == "element_type":
            hint = ': give read_mode="normalized_float"'
            if form.itemsize == 4:
                hint = ": use float32"
            raise ValueError(f'filter_mode="linear" needs floats, and the elements are read as {form}{hint}')
        if self.srgb and (form.name != "uint8" or self.read_mode != "normalized_float"):
            raise ValueError(f'srgb=True needs uint8 elements and read_mode="normalized_float", not {form}')
        if any(self.border_color) and not is_float and self.read_mode == "element_type":
            raise ValueError('a border_color of integers is not defined: give read_mode="normalized_float"')
        if what.kind == "linear" and (
            self.filter_mode != "point" or self.normalized_coords or set(self.address_mode) != {"clamp"}
        ):
            raise ValueError(
                "a texture over linear memory is read by tex1Dfetch(), without filter, address mode or normalized "
                "coordinates: copy the data into an array, device.array(view), to use them"
            )
        if what.levels > 1 or what.kind == "mipmapped":
            if not self.normalized_coords:
                raise ValueError("a texture over a mipmapped array needs normalized_coords=True")
            most, least = self._last_level(what), self.min_mipmap_level_clamp
            if most < least:
                raise ValueError(f"min_mipmap_level_clamp={least} is above the last level, {most}: give a smaller one")
        elif (
            self.mipmap_filter_mode != "point"
            or self.mipmap_level_bias
            or self.min_mipmap_level_clamp
            or self.max_mipmap_level_clamp
        ):
            raise ValueError("options of mipmap levels need a MipmappedArray: device.mipmapped_array()")
        if self.seamless_cubemap and not what.cubemap:
            raise ValueError("seamless_cubemap=True needs an array that was made with cubemap=True")

    def _last_level(self, what: _Source) -> float:
        """Return the largest level that is read: max_mipmap_level_clamp, or without it the last one that there is."""
        most = self.max_mipmap_level_clamp
        return float(what.levels - 1) if most is None else most

    def write(self, what: _Source) -> Any:
        """Return the CUDA_TEXTURE_DESC."""
        made = cuda_h.CUDA_TEXTURE_DESC()
        if len(self.address_mode) > 1:
            modes = self.address_mode[::-1]
        else:
            modes = self.address_mode * 3
        if what.layered and len(self.address_mode) > 1:
            modes = modes[:-1]
        for axis in range(3):
            made.addressMode[axis] = _ADDRESS[modes[min(axis, len(modes) - 1)]]
        made.filterMode, made.mipmapFilterMode = _FILTER[self.filter_mode], _FILTER[self.mipmap_filter_mode]
        made.flags = (
            (_INTEGERS if self.read_mode == "element_type" and what.dtype.kind != "float" else 0)
            | (_NORMALIZED if self.normalized_coords else 0)
            | (_SRGB if self.srgb else 0)
            | (_NO_TRILINEAR if self.disable_trilinear_optimization else 0)
            | (_SEAMLESS if self.seamless_cubemap else 0)
        )
        made.maxAnisotropy, made.mipmapLevelBias = self.max_anisotropy, self.mipmap_level_bias
        made.minMipmapLevelClamp = self.min_mipmap_level_clamp
        made.maxMipmapLevelClamp = self._last_level(what)
        for channel, value in enumerate(self.border_color):
            made.borderColor[channel] = value
        return made

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__)
        return f"TextureOptions({shown})"


def _number(name: str, value: object) -> float:
    number = as_float(name, value)
    if not abs(number) <= _LARGEST:
        raise ValueError(f"{name}={worded(value)}: give a finite number that fits into a 32-bit float")
    return number


def _color(given: object) -> tuple[float, ...]:
    if given is None:
        return (0.0, 0.0, 0.0, 0.0)
    is_one = isinstance(given, str) or hasattr(type(given), "__float__") and not getattr(given, "shape", None)
    if is_one:
        values = [given]
    else:
        values = as_list("border_color", given, "numbers")
    if len(values) > 4:
        raise ValueError(f"border_color has {len(values)} numbers: at most 4, one for each channel")
    color = [_number("border_color", value) for value in values]
    return tuple([*color, 0.0, 0.0, 0.0, 0.0][:4])


class _Source:
    """The memory that a texture reads: `kind` is "array", "mipmapped", "linear" or "pitched"."""

    __slots__ = ("kind", "resource", "dtype", "channels", "ndim", "levels", "layered", "cubemap", "descriptor")

    def __init__(self, kind: str, resource: Resource, dtype: DType, channels: int, ndim: int) -> None:
        self.kind, self.resource, self.dtype, self.channels, self.ndim = kind, resource, dtype, channels, ndim
        self.levels, self.layered, self.cubemap = 1, False, False
        self.descriptor = cuda_h.CUDA_RESOURCE_DESC()

    @classmethod
    def over_array(cls, array: OpaqueArray | MipmappedArray, device: Device) -> _Source:
        """Describe an array."""
        form = array.form
        is_mipmapped = isinstance(array, MipmappedArray)
        if isinstance(array, OpaqueArray):
            primary: PrimaryContext | int | None = array._open()
        else:
            primary = array.handle and array._primary
        if getattr(device, "_primary", None) is not primary:
            raise ValueError(f"{array!r} is not on this device: use array.device.texture(array)")
        made = cls("mipmapped" if is_mipmapped else "array", array, form.dtype, form.channels, len(form.shape))
        made.layered, made.cubemap = form.is_layered, form.cubemap
        if isinstance(array, MipmappedArray):
            made.levels = array.num_levels
            made.descriptor.resType, made.descriptor.res.mipmap.hMipmappedArray = 1, array.handle
        else:
            made.descriptor.res.array.hArray = array.handle
        return made

    @classmethod
    def over_view(cls, seen: StridedView, channels: int | None, device: Device) -> _Source:
        """Describe memory of one or two dimensions."""
        dtype, lanes = vector_of(seen.dtype)
        element_of(dtype)
        count = channels_of(lanes if channels is None else channels)
        data = data_of(seen, dtype, count)
        shape, strides = data.shape, data.strides
        if count > 1:
            if len(shape) < 2 or shape[-1] != count or strides[-1] != dtype.itemsize:
                raise ValueError(
                    f"shape {shape}, strides {strides}: with channels={count}, the last dimension must have {count} "
                    "elements without gaps"
                )
            shape, strides = shape[:-1], strides[:-1]
        if len(shape) not in (1, 2):
            raise ValueError(
                f"a texture over memory has 1 or 2 dimensions, not {len(shape)}: copy the data into an array, "
                "device.array(view)"
            )
        _check_memory(data, device)
        size = dtype.itemsize * count
        if 0 in shape:
            raise ValueError(f"shape {shape}: a texture needs at least one element")
        if shape[-1] > 1 and strides[-1] != size:
            raise ValueError(
                f"strides {strides}: the elements of a row must lie without gaps, {size} bytes from one to the next; "
                "copy the data into an array, device.array(view)"
            )
        alignment = device.attribute("TEXTURE_ALIGNMENT")
        if data.ptr % alignment:
            raise ValueError(
                f"the memory begins at {data.ptr:#x}, which is not a multiple of {alignment} (TEXTURE_ALIGNMENT): give "
                "a view that begins where its memory does, or copy the data into an array, device.array(view)"
            )
        made = cls("linear" if len(shape) == 1 else "pitched", seen, dtype, count, len(shape))
        made._describe_memory(data.ptr, shape, strides, size, device)
        return made

    def _describe_memory(
        self, address: int, shape: tuple[int, ...], strides: tuple[int, ...], size: int, device: Device
    ) -> None:
        descriptor = self.descriptor
        if self.kind == "linear":
            limited("a width", shape[0], device, "MAXIMUM_TEXTURE1D_LINEAR_WIDTH")
            descriptor.resType, target = 2, descriptor.res.linear
            target.sizeInBytes = shape[0] * size
        else:
            limited("a width", shape[1], device, "MAXIMUM_TEXTURE2D_LINEAR_WIDTH")
            limited("a height", shape[0], device, "MAXIMUM_TEXTURE2D_LINEAR_HEIGHT")
            unit = device.attribute("TEXTURE_PITCH_ALIGNMENT")
            row = shape[1] * size
            pitch = strides[0] if shape[0] > 1 else -(-row // unit) * unit
            if pitch < row:
                raise ValueError(
                    f"strides {strides}: rows of {row} bytes overlap, or lie in another order: copy the data into an "
                    "array, device.array(view)"
                )
            if pitch % unit:
                raise ValueError(
                    f"a pitch of {pitch} bytes is not a multiple of {unit} (TEXTURE_PITCH_ALIGNMENT): copy the data "
                    "into device.empty_pitched(shape, dtype), or into an array, device.array(view)"
                )
            limited("a pitch in bytes", pitch, device, "MAXIMUM_TEXTURE2D_LINEAR_PITCH")
            descriptor.resType, target = 3, descriptor.res.pitch2D
            target.height, target.width, target.pitchInBytes = shape[0], shape[1], pitch
        target.devPtr, target.format, target.numChannels = address, FORMATS[self.dtype.name], self.channels


def _check_memory(data: StridedView, device: Device) -> None:
    """Refuse memory that the device cannot reach."""
    side = copying.examine(data)
    copying._check_usable(side, data)
    if side.kind == "host":
        raise ValueError(
            "a texture reads memory of the device, and this is host memory: copy it, with device.array(it) or "
            "device.upload(it)"
        )
    if side.kind == "device" and side.primary is not device._primary:
        raise ValueError(f"{data!r} is not on device {device.ordinal}: use the device of the memory, or copy it")


class TextureObject(SetOnce, InContext, Passed):
    """A texture: its `resource` (an array or a view) and its `options`; made by Device.texture().

    >>> device = Device(0)
    >>> image = device.array((4, 8), "float32")
    >>> texture = device.texture(image, filter_mode="linear")
    >>> texture.resource is image
    True
    """

    __slots__ = ("resource", "options", "kind")
    declares = "texture"
    _instead = "make another texture"

    resource: Resource
    options: TextureOptions
    kind: str

    def __init__(self, *_: object, **__: object) -> None:
        raise TypeError("a TextureObject is made by Device.texture()")

    @classmethod
    def create(cls, device: Device, source: object, channels: int | None, options: TextureOptions) -> TextureObject:
        """Make a texture over an array, or over the memory of an exporter.

        calls   cuTexObjectCreate
        raises  ValueError  memory that a texture cannot read, with the attribute that says so; options that cannot be
                            combined
                TypeError   neither an array nor an exporter
        """
        if not is_device(device):
            raise TypeError(f"a texture needs a Device, not {a_kind(device)}")
        if isinstance(source, ArrayRegion):
            raise TypeError("a texture reads a whole array: give the array, or copy the part into a smaller one")
        if isinstance(source, (OpaqueArray, MipmappedArray)):
            if channels is not None and channels_of(channels) != source.channels:
                raise ValueError(f"channels={channels}: {source!r} has {source.channels}: leave channels out")
            what = _Source.over_array(source, device)
        else:
            seen = source if isinstance(source, StridedView) else view(source)
            what = _Source.over_view(seen, channels, device)
        options.check(what)
        made = cls.__new__(cls)
        made.resource, made.options, made.kind = what.resource, options, what.kind
        arguments = ctypes.byref(what.descriptor), ctypes.byref(options.write(what)), None
        made._create(device, TEXTURE, arguments)
        return made

    def _pass(self, slot: Slot) -> tuple[int, object]:
        check_passing(self, slot, self.resource)
        return self.handle, self.resource

    def __repr__(self) -> str:
        where = shown_handle(self)
        options = self.options
        modes: str | tuple[str, ...] = options.address_mode
        if len(set(modes)) == 1:
            modes = modes[0]
        return f"<TextureObject {where} {options.filter_mode}, {modes}, over {self.resource!r}>"


def check_passing(thing: InContext, slot: Slot, resource: Resource) -> None:
    """Check that a kernel's parameter takes a texture or a surface, and that its memory is open.

    raises  Closed      the object, its array or its memory is closed
            TypeError   the parameter is declared or marked as a pointer
            ValueError  the object is on another device
    """
    thing.handle
    if slot.size != 8:
        slot.refuse(ValueError, thing, f"has 8 bytes, not {slot.size}")
    if slot.type == "pointer" or slot.parameter.pointer:
        slot.refuse(TypeError, thing, "is not a pointer: declare the parameter as u64")
    if thing.device.ordinal != slot.ordinal:
        slot.refuse(ValueError, thing, f"is on device {thing.device.ordinal}, the kernel on device {slot.ordinal}")
    if isinstance(resource, OpaqueArray):
        resource._open()
    elif isinstance(resource, InContext):
        resource.handle
    elif resource.ptr is None:
        raise Closed("the memory of this texture is closed: make another texture")
