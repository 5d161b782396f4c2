"""Tensor maps: descriptions of tensors, for bulk copies of boxes between device memory and shared memory.

What it is   `TensorMap`, the argument of a kernel with a parameter `const __grid_constant__ CUtensorMap`: 128 bytes
             that the driver encodes from a view and the shape of a box.
What not     It is not a handle, so nothing has to be released. It keeps the view's memory alive.
How          Shapes, boxes and steps are in the order of the view's shape; the driver has them reversed. Every rule of
             the driver is checked first, so that an error names the argument.
Source       CUDA Driver API, "Tensor Map Object Management"; CUDA C++ Programming Guide, "Tensor Memory Access"
Read next    pitched.py
"""

from __future__ import annotations

import ctypes

from ...arguments import SetOnce, as_int, as_sequence
from ...arrays import copying
from ...arrays.strided import StridedView, view
from ...elements.dtypes import of
from ...errors import Unsupported, worded
from ...headers import cuda_h
from ..kernels.declared_parameters import Passed
from .formats import choice

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from ..core.context import PrimaryContext
    from ..kernels.parameters import Slot

    Ints = tuple[int, ...]

__all__ = ["TensorMap"]

_SIZE = 128
_SUPPORTED = 127  # CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED
# name -> (CUtensorMapDataType, bytes of an element, whether it is a float)
_TYPES = {
    "uint8": (0, 1, False),
    "uint16": (1, 2, False),
    "uint32": (2, 4, False),
    "int32": (3, 4, False),
    "uint64": (4, 8, False),
    "int64": (5, 8, False),
    "float16": (6, 2, True),
    "float32": (7, 4, True),
    "float64": (8, 8, True),
    "bfloat16": (9, 2, True),
    "float32_ftz": (10, 4, True),
    "tfloat32": (11, 4, True),
    "tfloat32_ftz": (12, 4, True),
}
_INTERLEAVE = {None: 0, "16B": 1, "32B": 2}
_SWIZZLE = {None: 0, "32B": 1, "64B": 2, "128B": 3, "128B_atom_32B": 4, "128B_atom_32B_flip_8B": 5, "128B_atom_64B": 6}
_SPANS = (0, 32, 64, 128, 128, 128, 128)
_PROMOTION = {None: 0, "64B": 1, "128B": 2, "256B": 3}
_FILL: dict[str | None, int] = {None: 0, "zero": 0, "nan": 1}
_CORNERS = {3: 1 << 15, 4: 1 << 7, 5: 1 << 4}


class TensorMap(SetOnce, Passed):
    """A tensor map: `view`, `kind` ("tiled" or "im2col"), `box`; bytes(map) is what a kernel gets.

    TensorMap.tiled() and TensorMap.im2col() make one. A kernel can also write through it; nothing checks that the view
    is not read-only.

    >>> device = Device(0)
    >>> tiles = TensorMap.tiled(device.empty((64, 64), "float32"), box=(16, 16))
    >>> tiles.kind, tiles.box
    ('tiled', (16, 16))
    """

    __slots__ = ("kind", "box", "_described", "_strides", "_interleave", "_ordinal", "_primary", "__weakref__")
    declares = "tensor map"
    _instead = "make another tensor map, or use replace_address()"

    kind: str
    box: tuple[int, ...]
    if TYPE_CHECKING:
        _described: tuple[Any, StridedView]  # the CUtensorMap, and the view whose memory it describes
        _strides: Ints
        _interleave: int
        _ordinal: int
        _primary: PrimaryContext

    @property
    def view(self) -> StridedView:
        """Return the view whose memory is described."""
        return self._described[1]

    def __init__(self, *_: object, **__: object) -> None:
        raise TypeError("a TensorMap is made by TensorMap.tiled(view, box=...) or TensorMap.im2col(view, ...)")

    @classmethod
    def tiled(
        cls,
        view: object,
        *,
        box: int | tuple[int, ...],
        element_strides: int | tuple[int, ...] | None = None,
        dtype: object = None,
        interleave: str | None = None,
        swizzle: str | None = None,
        l2_promotion: str | None = None,
        fill: str | None = None,
    ) -> TensorMap:
        """Describe a tensor of 1 to 5 dimensions; each copy moves a box of it.

        view             an exporter on a device, whose last dimension has no gaps
        box              the extents of the box, in the order of the shape: 1 to 256 each
        element_strides  the step of a copy in each dimension of the tensor, 1 to 8
        dtype            another type of the same size: "tfloat32", "float32_ftz", "tfloat32_ftz"
        interleave       None, "16B" or "32B"
        swizzle          None, "32B", "64B", "128B", or with larger atoms "128B_atom_32B", "128B_atom_64B", ...
        l2_promotion     None, "64B", "128B" or "256B"
        fill             what is read out of bounds: None or "zero", or "nan" for floats
        calls   cuTensorMapEncodeTiled
        raises  ValueError   a rule of the driver is broken, such as a stride that is not a multiple of 16
                Unsupported  the device has no tensor maps (TENSOR_MAP_ACCESS_SUPPORTED)
        """
        made, seen, kind = cls._begin("tiled", view, dtype, (interleave, swizzle, l2_promotion, fill), 1)
        rank = len(seen.shape)
        made.box = sides = _ints("box", box, rank, 1, 256)
        steps = _steps(element_strides, rank, made._interleave)
        made._check_inner("box", sides[-1], kind[1], swizzle)
        made._encode("cuTensorMapEncodeTiled", seen, kind, (_array(ctypes.c_uint32, sides),), steps,
                     (swizzle, l2_promotion, fill))  # fmt: skip
        return made

    @classmethod
    def im2col(
        cls,
        view: object,
        *,
        lower: int | tuple[int, ...],
        upper: int | tuple[int, ...],
        channels: int,
        pixels: int,
        element_strides: int | tuple[int, ...] | None = None,
        dtype: object = None,
        interleave: str | None = None,
        swizzle: str | None = None,
        l2_promotion: str | None = None,
        fill: str | None = None,
    ) -> TensorMap:
        """Describe images, (N, W, C) to (N, D, H, W, C); each copy moves the channels of a column of pixels.

        lower, upper  the corners of the box of pixels, as offsets from the first and the last pixel of each dimension
                      between N and C
        channels      how many channels a copy moves of each pixel, 1 to 256; pixels: how many pixels, 1 to 1024
        calls   cuTensorMapEncodeIm2col
        raises  ValueError   a rule of the driver is broken
                Unsupported  the device has no tensor maps (TENSOR_MAP_ACCESS_SUPPORTED)
        """
        made, seen, kind = cls._begin("im2col", view, dtype, (interleave, swizzle, l2_promotion, fill), 3)
        rank = len(seen.shape)
        most = _CORNERS[rank]
        low, high = (
            _ints(name, given, rank - 2, -most, most - 1) for name, given in (("lower", lower), ("upper", upper))
        )
        for extent, first, last in zip(seen.shape[1:-1], low, high):
            if extent + last - first <= 0:
                raise ValueError(f"lower={low}, upper={high}: the box between the corners has no pixels")
        [count] = _ints("channels", channels, 1, 1, 256)
        [column] = _ints("pixels", pixels, 1, 1, 1024)
        made.box = column, count
        steps = _steps(element_strides, rank, made._interleave)
        made._check_inner("channels", count, kind[1], swizzle)
        corners = _array(ctypes.c_int, low), _array(ctypes.c_int, high), count, column
        made._encode("cuTensorMapEncodeIm2col", seen, kind, corners, steps, (swizzle, l2_promotion, fill))
        return made

    @classmethod
    def _begin(
        cls, word: str, given: object, dtype: object, modes: tuple[str | None, ...], least: int
    ) -> tuple[TensorMap, StridedView, tuple[int, int, bool]]:
        """Check the arguments that both kinds have in common; return the map, the view, and its element type."""
        seen = given if isinstance(given, StridedView) else view(given)
        made = cls.__new__(cls)
        made.kind = word
        made._primary, made._ordinal = _place_of(seen)
        interleave, swizzle, promotion, fill = modes
        made._interleave = choice("interleave", interleave, _INTERLEAVE)
        choice("swizzle", swizzle, _SWIZZLE)
        choice("l2_promotion", promotion, _PROMOTION)
        choice("fill", fill, _FILL)
        kind = _type_of(seen, dtype)
        least = max(least, 3 if made._interleave else 1)
        if not least <= len(seen.shape) <= 5:
            raise ValueError(f"shape {seen.shape}: a tensor map has {least} to 5 dimensions")
        if fill == "nan" and not kind[2]:
            raise ValueError(f'fill="nan" needs floats, not {seen.dtype}')
        if interleave == "32B" and swizzle != "32B":
            raise ValueError('interleave="32B" needs swizzle="32B"')
        made._strides = made._check_layout(seen, kind[1])
        return made, seen, kind

    def _check_layout(self, seen: StridedView, itemsize: int) -> Ints:
        """Check extents, address and strides, and return the strides to encode."""
        unit = 32 if self._interleave == 2 else 16
        for extent in seen.shape:
            if not 0 < extent <= 1 << 32:
                raise ValueError(f"shape {seen.shape}: every extent of a tensor must be from 1 to 2**32")
        _check_address(seen.ptr, unit)
        if seen.shape[-1] > 1 and seen.strides[-1] != itemsize:
            raise ValueError(
                f"strides {seen.strides}: the last dimension must have no gaps, {itemsize} bytes from one element to "
                "the next"
            )
        row = seen.shape[-1] * itemsize
        strides = list(seen.strides[:-1])
        for axis, extent in enumerate(seen.shape[:-1]):
            if extent == 1:  # this stride is never used, but the driver checks it
                strides[axis] = -(-row // unit) * unit
        for axis, stride in enumerate(strides):
            if stride <= 0 or stride % unit or stride >= 1 << 40:
                raise ValueError(
                    f"strides {seen.strides}: the stride of dimension {axis} must be a positive multiple of {unit} "
                    "below 2**40; device.empty_pitched(shape, dtype) makes rows at such a distance"
                )
        if strides and not self._interleave and strides[-1] < row:
            raise ValueError(f"strides {seen.strides}: the rows of {row} bytes overlap")
        return tuple(strides)

    def _check_inner(self, name: str, count: int, itemsize: int, swizzle: str | None) -> None:
        if self._interleave:
            return
        nbytes, most = count * itemsize, _SPANS[_SWIZZLE[swizzle]]
        if nbytes % 16:
            raise ValueError(
                f"{name}: the last dimension has {count} elements of {itemsize} bytes, and {nbytes} is not a multiple "
                "of 16"
            )
        if most and nbytes > most:
            raise ValueError(
                f"{name}: the last dimension has {nbytes} bytes, and swizzle={swizzle!r} permits {most}: give a "
                "smaller one, or another swizzle"
            )

    def _encode(
        self, call: str, seen: StridedView, kind: tuple[int, int, bool], box: tuple[object, ...], steps: Ints,
        modes: tuple[str | None, ...],
    ) -> None:  # fmt: skip
        made = cuda_h.CUtensorMap()
        swizzle, promotion, fill = modes
        rank = len(seen.shape)
        with self._primary.current():
            getattr(self._primary.driver, call)(
                ctypes.byref(made),
                kind[0],
                rank,
                seen.ptr,
                _array(ctypes.c_uint64, seen.shape),
                _array(ctypes.c_uint64, self._strides or (0,)),
                *box,
                _array(ctypes.c_uint32, steps),
                self._interleave,
                _SWIZZLE[swizzle],
                _PROMOTION[promotion],
                _FILL[fill],
            )
        self._described = made, seen

    def replace_address(self, view: object) -> TensorMap:
        """Describe other memory of the same shape, strides and dtype, and return self.

        calls   cuTensorMapReplaceAddress
        raises  ValueError  another shape, other strides, or an address that is not aligned
                TypeError   another dtype
        """
        seen = view if isinstance(view, StridedView) else _view(view)
        old = self.view
        if seen.dtype != old.dtype:
            raise TypeError(f"the tensor map is of {old.dtype}, the view of {seen.dtype}: make another tensor map")
        if (seen.shape, seen.strides) != (old.shape, old.strides):
            raise ValueError(
                f"the view has shape {seen.shape}, strides {seen.strides}; the tensor map was made for {old.shape}, "
                f"{old.strides}: make another one"
            )
        primary, ordinal = _place_of(seen)
        if ordinal != self._ordinal:
            raise ValueError(
                f"the view is on device {ordinal}, the tensor map for device {self._ordinal}: make another one"
            )
        _check_address(seen.ptr, 32 if self._interleave == 2 else 16)
        made = cuda_h.CUtensorMap()
        ctypes.memmove(ctypes.byref(made), ctypes.byref(self._described[0]), _SIZE)
        with primary.current():
            primary.driver.cuTensorMapReplaceAddress(ctypes.byref(made), seen.ptr)
        self._described = made, seen  # together: an interrupt leaves the old ones or the new ones
        return self

    def __bytes__(self) -> bytes:
        return bytes(self._described[0])

    def _pass(self, slot: Slot) -> tuple[bytes, object]:
        if slot.size != _SIZE:
            slot.refuse(
                ValueError,
                self,
                f"has {_SIZE} bytes, not {slot.size}: declare the parameter const __grid_constant__ CUtensorMap",
            )
        made, seen = self._described  # once: another thread may replace the memory
        seen.ptr  # raises Closed
        if self._ordinal != slot.ordinal:
            slot.refuse(
                ValueError, self, f"is of memory on device {self._ordinal}, the kernel is on device {slot.ordinal}"
            )
        return bytes(made), seen

    def __copy__(self) -> NoReturn:
        raise TypeError("a TensorMap cannot be copied: use the object itself, or make another one")

    def __deepcopy__(self, memo: object) -> NoReturn:
        self.__copy__()

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a TensorMap contains an address of this process and cannot be pickled")

    def __repr__(self) -> str:
        return f"<TensorMap {self.kind}, box {self.box}, of {self.view!r}>"


_view = view


def _place_of(seen: StridedView) -> tuple[PrimaryContext, int]:
    """Return the device of a view's memory; raises Unsupported if it has no tensor maps."""
    side = copying.examine(seen)
    copying._check_usable(side, seen)
    if side.kind == "host" or side.primary is None:
        raise ValueError("a tensor map describes device memory, and this is host memory: copy it with device.upload()")
    primary = side.primary
    supported = primary.attributes.get(_SUPPORTED)
    if supported is None:
        value = ctypes.c_int()
        primary.driver.cuDeviceGetAttribute(ctypes.byref(value), _SUPPORTED, primary.ordinal)
        supported = primary.attributes[_SUPPORTED] = value.value
    if not supported:
        raise Unsupported(
            f"device {primary.ordinal} has no tensor maps (its attribute TENSOR_MAP_ACCESS_SUPPORTED is 0): they need "
            "compute capability 9.0"
        )
    return primary, primary.ordinal


def _type_of(seen: StridedView, dtype: object) -> tuple[int, int, bool]:
    if dtype is None:
        name = seen.dtype.name
    else:
        if isinstance(dtype, str) and dtype in _TYPES:
            name = dtype
        else:
            name = of(dtype).name
    found = _TYPES.get(name)
    if found is None:
        hint = ""
        if seen.dtype.itemsize in (1, 2, 4, 8):
            hint = f': give view.reinterpret("uint{8 * seen.dtype.itemsize}")'
        raise ValueError(f"dtype {name}: a tensor map has elements of {', '.join(_TYPES)}{hint}")
    if found[1] != seen.dtype.itemsize:
        raise ValueError(f"dtype={name!r} has {found[1]} bytes, the elements of the view have {seen.dtype.itemsize}")
    return found


def _ints(name: str, given: object, count: int, least: int, most: int) -> Ints:
    """Return one int for each dimension."""
    found = tuple([as_int(f"{name}, or each number in it,", value) for value in as_sequence(name, given)])
    if len(found) != count:
        raise ValueError(f"{name}={worded(found)}: give {count} number{'s' * (count != 1)}, one for each dimension")
    for value in found:
        if not least <= value <= most:
            raise ValueError(f"{name}={worded(found[0]) if count == 1 else found}: must be {least} to {most}")
    return found


def _steps(given: object, rank: int, interleave: int) -> Ints:
    if given is None:
        steps = (1,) * rank
    else:
        steps = _ints("element_strides", given, rank, 1, 8)
    if not interleave and steps[-1] != 1:
        raise ValueError(f"element_strides={steps}: the last one must be 1, since the driver ignores it")
    return steps


def _array(kind: Any, values: Ints) -> object:
    """Return a C array with the values in the driver's order, which is reversed."""
    return (kind * len(values))(*values[::-1])


def _check_address(address: int, unit: int) -> None:
    if address % unit:
        raise ValueError(
            f"the memory begins at {address:#x}, which is not a multiple of {unit}: give a view that begins at such an "
            "address"
        )
