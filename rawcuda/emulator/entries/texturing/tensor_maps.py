"""Entry points: tensor maps, which kernels get as 128 opaque bytes.

How          the call checks every rule that is documented for its arguments, and packs them into the bytes.
             ptx/running/units/tensors.py reads them for the instructions that use a tensor map.
Source       CUDA Driver API, "Tensor Map Object Management"
Read next    texture_entries.py
"""

from __future__ import annotations

import ctypes
import struct

from ...interface.thunks import entry, out, put_bytes
from ...machine.codes import Refused
from ...machine.machine import Machine
from ...machine.tensor_map_layout import LAYOUT, MAGIC, SIZE, SIZES

__all__: list[str] = []

_FLOATS = (6, 7, 8, 9, 10, 11, 12)
_SWIZZLE = (0, 32, 64, 128, 128, 128, 128)


def _many(
    address: int, count: int, kind: type[ctypes.c_uint32] | type[ctypes.c_uint64] | type[ctypes.c_int]
) -> list[int]:
    if not count:
        return []
    out(address)
    return list((kind * count).from_address(address))


class _Tensor:
    """The checked arguments that all forms of a tensor map have in common."""

    def __init__(
        self,
        machine: Machine,
        target: int,
        type: int,
        rank: int,
        least_rank: int,
        address: int,
        extents: int,
        strides: int,
        steps: int,
        modes: tuple[int, int, int, int],
    ) -> None:
        out(target)
        if machine.architecture < 90:
            raise Refused(
                801, f"tensor maps need compute capability 9.0 (device attribute 127), not sm_{machine.architecture}"
            )
        interleave, swizzle, promotion, fill = modes
        if target % 64:
            raise Refused(1, f"the tensor map is at {target:#x}, which is not a multiple of 64")
        if not 0 <= type < 16:
            raise Refused(1, f"{type} is not a CUtensorMapDataType")
        if type >= len(SIZES):
            raise Refused(801, f"data type {type}: packed elements of 4 and 6 bits are not emulated")
        if not least_rank <= rank <= 5 or interleave and rank < 3:
            raise Refused(1, f"rank {rank}: must be {3 if interleave else least_rank} to 5")
        for what, number, most in (
            ("interleave", interleave, 2),
            ("swizzle", swizzle, 6),
            ("promotion", promotion, 3),
            ("fill", fill, 1),
        ):
            if not 0 <= number <= most:
                raise Refused(1, f"{what} {number}: must be 0 to {most}")
        unit = 16
        if interleave == 2:
            unit = 32
        if not address or address % unit:
            raise Refused(1, f"the address {address:#x} is not a multiple of {unit}")
        self.itemsize, self.interleave, self.swizzle = SIZES[type], interleave, swizzle
        self.extents = _many(extents, rank, ctypes.c_uint64)
        self.strides = _many(strides, rank - 1, ctypes.c_uint64)
        self.steps = _many(steps, rank, ctypes.c_uint32)
        if not all(0 < extent <= 1 << 32 for extent in self.extents):
            raise Refused(1, f"extents {self.extents}: each must be 1 to 2**32")
        least = 0
        if not interleave:
            least = self.extents[0] * self.itemsize
        for stride in self.strides:
            if stride % unit or not least <= stride < 1 << 40 or not stride:
                raise Refused(1, f"strides {self.strides}: multiples of {unit} below 2**40, at least {least}")
            least = 0
        if not all(0 < step <= 8 for step in self.steps[0 if interleave else 1 :]):
            raise Refused(1, f"element strides {self.steps}: each must be 1 to 8")
        if interleave == 2 and swizzle != 1:
            raise Refused(1, "interleave 32B needs swizzle 32B")
        if fill and type not in _FLOATS:
            raise Refused(1, f"data type {type}: filling with NaN needs a floating-point type")
        self.fields = (MAGIC, type, rank, interleave, swizzle, promotion, fill, least_rank, address)

    def check_inner(self, count: int) -> None:
        """Check how many elements of the innermost dimension a copy moves."""
        nbytes = count * self.itemsize
        if not self.interleave and nbytes % 16:
            raise Refused(1, f"the inner dimension of the box has {nbytes} bytes, which is not a multiple of 16")
        most = _SWIZZLE[self.swizzle]
        if not self.interleave and most and nbytes > most:
            raise Refused(1, f"the inner dimension of the box has {nbytes} bytes: this swizzle permits at most {most}")

    def write(self, target: int, *more: int) -> None:
        """Write the 128 bytes; numbers that do not fit into the fields of a box follow the other fields."""
        blank = [0] * (5 - len(self.extents))
        box = [side & 0xFFFF for side in (*more, *[0] * 5)]
        steps = [step & 0xFF for step in self.steps]
        made = LAYOUT.pack(
            *self.fields, *self.extents, *blank, *self.strides, *blank, *steps, *blank, *box[:5]
        ) + struct.pack(f"<{len(more[5:])}H", *box[5 : len(more)])  # fmt: skip
        put_bytes(target, made.ljust(SIZE, b"\0"))


@entry(
    "cuTensorMapEncodeTiled(CUtensorMap *tensorMap, CUtensorMapDataType tensorDataType, cuuint32_t tensorRank, "
    "void *globalAddress, const cuuint64_t *globalDim, const cuuint64_t *globalStrides, const cuuint32_t *boxDim, "
    "const cuuint32_t *elementStrides, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle, "
    "CUtensorMapL2promotion l2Promotion, CUtensorMapFloatOOBfill oobFill)",
    since=12000,
)
def encode_tiled(
    machine: Machine, target: int, type: int, rank: int, address: int, extents: int, strides: int, box: int,
    steps: int, interleave: int, swizzle: int, promotion: int, fill: int,
) -> None:  # fmt: skip
    """Encode a tensor map whose copies move boxes."""
    modes = interleave, swizzle, promotion, fill
    made = _Tensor(machine, target, type, rank, 1, address, extents, strides, steps, modes)
    sides = _many(box, rank, ctypes.c_uint32)
    if not all(0 < side <= 256 for side in sides):
        raise Refused(1, f"a box of {sides}: each side must have 1 to 256 elements")
    made.check_inner(sides[0])
    made.write(target, *sides)


@entry(
    "cuTensorMapEncodeIm2col(CUtensorMap *tensorMap, CUtensorMapDataType tensorDataType, cuuint32_t tensorRank, "
    "void *globalAddress, const cuuint64_t *globalDim, const cuuint64_t *globalStrides, const int "
    "*pixelBoxLowerCorner, const int *pixelBoxUpperCorner, cuuint32_t channelsPerPixel, cuuint32_t pixelsPerColumn, "
    "const cuuint32_t *elementStrides, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle, "
    "CUtensorMapL2promotion l2Promotion, CUtensorMapFloatOOBfill oobFill)",
    since=12000,
)
def encode_im2col(
    machine: Machine, target: int, type: int, rank: int, address: int, extents: int, strides: int, lower: int,
    upper: int, channels: int, pixels: int, steps: int, interleave: int, swizzle: int, promotion: int, fill: int,
) -> None:  # fmt: skip
    """Encode a tensor map whose copies move columns of pixels."""
    modes = interleave, swizzle, promotion, fill
    made = _Tensor(machine, target, type, rank, 3, address, extents, strides, steps, modes)
    low, high = (_many(each, rank - 2, ctypes.c_int) for each in (lower, upper))
    most = {3: 1 << 15, 4: 1 << 7, 5: 1 << 4}[rank]
    if not all(-most <= corner < most for corner in (*low, *high)):
        raise Refused(1, f"corners {low} and {high}: with rank {rank}, each must be {-most} to {most - 1}")
    if not 0 < channels <= 256 or not 0 < pixels <= 1024:
        raise Refused(1, f"{channels} channels (1 to 256) and {pixels} pixels (1 to 1024)")
    # Corners are offsets from the first and the last pixel of each spatial dimension.
    if any(extent + b - a <= 0 for extent, a, b in zip(made.extents[1:], low, high)):
        raise Refused(1, f"the box between the corners {low} and {high} has no pixels")
    made.check_inner(channels)
    made.write(target, *low, *high, channels, pixels)


@entry(
    "cuTensorMapEncodeIm2colWide(CUtensorMap *tensorMap, CUtensorMapDataType tensorDataType, cuuint32_t tensorRank, "
    "void *globalAddress, const cuuint64_t *globalDim, const cuuint64_t *globalStrides, int pixelBoxLowerCornerWidth, "
    "int pixelBoxUpperCornerWidth, cuuint32_t channelsPerPixel, cuuint32_t pixelsPerColumn, const cuuint32_t "
    "*elementStrides, CUtensorMapInterleave interleave, CUtensorMapIm2ColWideMode mode, CUtensorMapSwizzle swizzle, "
    "CUtensorMapL2promotion l2Promotion, CUtensorMapFloatOOBfill oobFill)",
    since=12080,
)
def encode_im2col_wide(
    machine: Machine, target: int, type: int, rank: int, address: int, extents: int, strides: int, lower: int,
    upper: int, channels: int, pixels: int, steps: int, interleave: int, mode: int, swizzle: int, promotion: int,
    fill: int,
) -> None:  # fmt: skip
    """Refuse a tensor map for pixels of one row, which needs compute capability 10.0."""
    raise Refused(801, "tensor maps for pixels of one row (im2col wide) are not emulated")


@entry("cuTensorMapReplaceAddress(CUtensorMap *tensorMap, void *globalAddress)", since=12000)
def replace_address(machine: Machine, target: int, address: int) -> None:
    """Replace the address in an encoded tensor map."""
    out(target)
    if ctypes.c_uint32.from_address(target).value != MAGIC:
        raise Refused(1, f"the 128 bytes at {target:#x} are not an encoded tensor map")
    if ctypes.c_uint8.from_address(target + 6).value == 2:
        unit = 32
    else:
        unit = 16
    if not address or address % unit:
        raise Refused(1, f"the address {address:#x} is not a multiple of {unit}")
    ctypes.c_uint64.from_address(target + 12).value = address
