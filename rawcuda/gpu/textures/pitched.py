"""Pitched memory: arrays in which each row begins at an aligned address, for 2-D textures over memory.

What it is   `empty_pitched`, which makes a view with gaps between its rows.
Source       CUDA Driver API, cuMemAllocPitch
Read next    gpu/memory/memory.py
"""

from __future__ import annotations

import ctypes

from ...arrays import making
from ...arrays.strided import StridedView
from ...driver import as_argument
from ...elements import layout
from ...errors import a_kind
from ..core.context import primary_of
from ..core.handles import PITCHED, make
from ..memory.memory import Memory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...gpu.devices.device import Device

__all__ = ["empty_pitched"]


def empty_pitched(device: Device, shape: object, dtype: object) -> StridedView:
    """Return a new, uninitialized array whose rows (its last dimension) are aligned.

    The distance between rows, the pitch, is strides[-2]; the driver chooses it. The view keeps the memory alive.

    calls   cuMemAllocPitch_v2
    raises  ValueError   no dimension, a negative extent, or a size too large for any memory
            OutOfMemory  not enough memory is free
    """
    primary = primary_of(device)
    if primary is None:
        raise TypeError(f"memory is allocated on a Device, not on {a_kind(device)}")
    element = making._element(dtype)
    extents, _, nbytes = layout.c_layout(shape, element.itemsize)
    if not extents:
        raise ValueError("an array without dimensions has no rows: give at least the width")
    if not nbytes:
        return making.empty(device, extents, element)
    row = extents[-1] * element.itemsize
    rows = nbytes // row
    pitch = ctypes.c_size_t()
    unit = element.itemsize if element.itemsize in (4, 8, 16) else 4
    memory = Memory.__new__(Memory)
    memory._describe(device, 0, "device", None)
    arguments = ctypes.byref(pitch), as_argument(row), as_argument(rows), ctypes.c_uint(unit)
    make(memory, PITCHED, primary, arguments)
    memory._nbytes = pitch.value * rows
    strides, distance = [element.itemsize], pitch.value
    for extent in extents[-2::-1]:
        strides.append(distance)
        distance *= extent
    return making._over(memory, extents, tuple(strides[::-1]), element)
