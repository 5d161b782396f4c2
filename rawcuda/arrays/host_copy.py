"""Arrays in new host memory, and copies between any two layouts of host memory, by C functions of Python itself.

What it is   `Walk`, a copy whose dimensions are merged; `copy`, which performs one in host memory; `box_of`, the way in
             which a device copies one; and `empty_host`.
What not     it converts no dtype, checks neither writability nor equality of shapes, and waits for no device.
How          contiguous dimensions are merged, and a last dimension without gaps becomes one element. What remains
             is one memmove, or a PyObject_CopyData between two memoryviews.
Source       Python/C API Reference Manual, "Buffer Protocol": PyObject_CopyData
Read next    copying.py
"""

from __future__ import annotations

import ctypes
import sys

from ..elements import layout
from ..interpreter.cpython import POINTER, bind
from ..protocols.buffer import Held, Py_buffer, address_of
from ..protocols.description import HOST

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .strided import StridedView

    Ints = tuple[int, ...]

__all__ = ["LARGEST_PITCH", "Walk", "box_of", "copy", "empty_host", "fill", "walk_of"]

LARGEST_PITCH = 2**31 - 1  # CU_DEVICE_ATTRIBUTE_MAX_PITCH of all devices so far


class Walk:
    """A copy with merged dimensions: `nbytes` contiguous bytes at each point of `shape`, from `source` to `target`."""

    __slots__ = ("nbytes", "shape", "target", "target_strides", "source", "source_strides")

    def __init__(
        self, nbytes: int, shape: Ints, target: int, target_strides: Ints, source: int, source_strides: Ints
    ) -> None:
        self.nbytes, self.shape = nbytes, shape
        self.target, self.target_strides, self.source, self.source_strides = (
            target,
            target_strides,
            source,
            source_strides,
        )

    def is_empty(self) -> bool:
        """Tell whether there is nothing to copy."""
        return not self.nbytes or 0 in self.shape

    def overlaps(self) -> bool:
        """Tell whether the two sides may share bytes."""
        return layout.overlaps(
            self.target,
            layout.extent(self.shape, self.target_strides, self.nbytes),
            self.source,
            layout.extent(self.shape, self.source_strides, self.nbytes),
        )


def walk_of(shape: Ints, itemsize: int, target: int, to: Ints, source: int, of: Ints) -> Walk:
    """Return the copy of elements of a shape from one address and strides to others.

    to, of   the strides of the target and of the source
    returns  a Walk whose target strides descend and are never negative
    """
    shape, (to, of), (target_offset, source_offset) = layout.coalesce(shape, to, of)
    nbytes = itemsize
    while shape and to[-1] == of[-1] == nbytes:  # the last dimension has no gaps: treat it as one large element
        nbytes *= shape[-1]
        shape, to, of = shape[:-1], to[:-1], of[:-1]
    return Walk(nbytes, shape, target + target_offset, to, source + source_offset, of)


def box_of(walk: Walk) -> tuple[tuple[int, int], tuple[int, int], int, int] | None:
    """Return a walk as a pitched box, or None if its strides are not pitches.

    returns  (pitch, rows of a layer) of the target and of the source; the height in rows; the depth in layers
    """
    if not 1 <= len(walk.shape) <= 2:
        return None
    pitches = walk.target_strides[-1], walk.source_strides[-1]
    if not walk.nbytes <= min(pitches) <= max(pitches) <= LARGEST_PITCH:
        return None
    if len(walk.shape) == 1:
        return (pitches[0], walk.shape[0]), (pitches[1], walk.shape[0]), walk.shape[0], 1
    layers = walk.target_strides[0], walk.source_strides[0]
    rows = layers[0] // pitches[0], layers[1] // pitches[1]
    if min(rows) < walk.shape[1] or layers != (rows[0] * pitches[0], rows[1] * pitches[1]):
        return None
    return (pitches[0], rows[0]), (pitches[1], rows[1]), walk.shape[1], walk.shape[0]


def copy(walk: Walk) -> None:
    """Copy in host memory; if the two sides overlap, the source is first copied to a temporary buffer."""
    if walk.is_empty():
        return
    if not walk.shape:
        ctypes.memmove(walk.target, walk.source, walk.nbytes)
    elif walk.overlaps():
        aside = (ctypes.c_char * (layout.size(walk.shape) * walk.nbytes))()
        address, strides = ctypes.addressof(aside), layout.c_strides(walk.shape, walk.nbytes)
        _copy(Walk(walk.nbytes, walk.shape, address, strides, walk.source, walk.source_strides))
        _copy(Walk(walk.nbytes, walk.shape, walk.target, walk.target_strides, address, strides))
    else:
        _copy(walk)


def fill(target: int, shape: Ints, strides: Ints, pattern: bytes) -> None:
    """Set every element of a layout of host memory to these bytes: by memset, or by copying one element to all.

    shape, strides  with merged dimensions, as layout.coalesce returns them
    """
    nbytes = len(pattern)
    if (not shape or strides == (nbytes,)) and pattern == pattern[:1] * nbytes:
        ctypes.memset(target, pattern[0], layout.size(shape) * nbytes)
        return
    one = ctypes.create_string_buffer(pattern, nbytes)
    copy(walk_of(shape, nbytes, target, strides, ctypes.addressof(one), (0,) * len(shape)))


_from_buffer = bind("PyMemoryView_FromBuffer", ctypes.py_object, ctypes.c_void_p)
_copy_data = bind("PyObject_CopyData", ctypes.c_int, ctypes.py_object, ctypes.py_object)
_FORMAT = ctypes.create_string_buffer(b"B")  # of every buffer here: elements are only copied


def _copy(walk: Walk) -> None:
    _copy_data(
        _view(walk.target, walk.shape, walk.target_strides, walk.nbytes),
        _view(walk.source, walk.shape, walk.source_strides, walk.nbytes),
    )


def _view(address: int, shape: Ints, strides: Ints, nbytes: int) -> memoryview:
    ndim = len(shape)
    numbers = (ctypes.c_ssize_t * (2 * ndim))(*shape, *strides)
    where = ctypes.addressof(numbers)
    info = Py_buffer(
        buf=address,
        len=layout.size(shape) * nbytes,
        itemsize=nbytes,
        readonly=0,
        ndim=ndim,
        format=ctypes.addressof(_FORMAT),
        shape=where,
        strides=where + POINTER * ndim,
    )
    view: memoryview = _from_buffer(ctypes.addressof(info))
    return view


# -- new arrays

# Unlike bytearray(n), this does not write zeros first. (If the memory is not free, CPython 3.11 may print a SystemError
# of its own beside the MemoryError. PyByteArray_Resize would not, but makes a download 3 % longer.)
_new_bytearray = bind("PyByteArray_FromStringAndSize", ctypes.py_object, ctypes.c_void_p, ctypes.c_ssize_t)
_ALIGNMENT = 64  # which JAX needs to import an array without a copy


def empty_host(kind: type[StridedView], shape: Ints, dtype: Any) -> StridedView:
    """Return a new, uninitialized array of a class in host memory, in C order, aligned to 64 bytes.

    raises  MemoryError  the memory is not free
    """
    nbytes = layout.checked_size(shape, dtype.itemsize) * dtype.itemsize
    try:
        whole = memoryview(_new_bytearray(None, min(nbytes + _ALIGNMENT, sys.maxsize)))  # (more would wrap around)
    except MemoryError:
        raise MemoryError(f"an array of shape {shape} and {dtype} needs {nbytes} bytes of host memory") from None
    address = address_of(whole)
    return kind._over(
        Held(whole), address + -address % _ALIGNMENT, shape, layout.c_strides(shape, dtype.itemsize), dtype, HOST
    )
