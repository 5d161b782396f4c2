"""Functions: copies between hosts, devices, arrays and variables; fills.

How          a copy of bytes is one call of the driver, which its direction chooses. A copy with a pitch, or with an
             array, is a copy in three dimensions, whose memory types follow from the direction: so a pointer on the
             wrong side is refused.
Source       CUDA Runtime API, "Memory Management"
Read next    runtime_arrays.py
"""

from __future__ import annotations

import ctypes

from ..entries.graphs.operations import Fill
from ..interface.thunks import MEMCPY3D, out
from ..machine.codes import Refused
from ..machine.device_arrays import Array
from .code import variable_at
from .runtime_devices import context_of
from .runtime_structures import Copy, Extent, PeerCopy, PitchedPointer
from .state import Runtime, runtime

TYPE_CHECKING = False
if TYPE_CHECKING:
    Side = tuple[int, ...]

__all__ = [
    "INTO",
    "OUT_OF",
    "copy_words",
    "element_of",
    "memory_side",
    "parameters_of",
    "symbol_place",
    "types_of",
    "words_of",
]

_HOST_TO_HOST, _HOST_TO_DEVICE, _DEVICE_TO_HOST, _DEVICE_TO_DEVICE, _DEFAULT = range(5)  # cudaMemcpyKind
_INVALID_PITCH, _INVALID_DIRECTION = 12, 21
_HOST, _DEVICE, _ARRAY, _UNIFIED = 1, 2, 3, 4  # CUmemorytype
# cudaMemcpyKind -> the memory types of the source and of the target
_TYPES = {
    _HOST_TO_HOST: (_HOST, _HOST),
    _HOST_TO_DEVICE: (_HOST, _DEVICE),
    _DEVICE_TO_HOST: (_DEVICE, _HOST),
    _DEVICE_TO_DEVICE: (_DEVICE, _DEVICE),
    _DEFAULT: (_UNIFIED, _UNIFIED),
}
_CALLS = {
    _HOST_TO_DEVICE: ("cuMemcpyHtoD_v2", "cuMemcpyHtoDAsync_v2"),
    _DEVICE_TO_HOST: ("cuMemcpyDtoH_v2", "cuMemcpyDtoHAsync_v2"),
    _DEVICE_TO_DEVICE: ("cuMemcpyDtoD_v2", "cuMemcpyDtoDAsync_v2"),
    _DEFAULT: ("cuMemcpy", "cuMemcpyAsync"),
}


def types_of(kind: int) -> tuple[int, int]:
    """Return the CUmemorytype of the source and of the target, or refuse what is not a cudaMemcpyKind."""
    if kind not in _TYPES:
        raise Refused(_INVALID_DIRECTION, f"{kind} is not a cudaMemcpyKind")
    return _TYPES[kind]


# -- copies of bytes


@runtime("cudaMemcpy")
def memcpy(state: Runtime, target: int, source: int, size: int, kind: int) -> None:
    """Copy bytes, and wait where the driver does."""
    _copy(state, target, source, size, kind, None)


@runtime("cudaMemcpyAsync")
def memcpy_async(state: Runtime, target: int, source: int, size: int, kind: int, stream: int) -> None:
    """Copy bytes in stream order."""
    _copy(state, target, source, size, kind, stream)


def _copy(state: Runtime, target: int, source: int, size: int, kind: int, stream: int | None) -> None:
    types_of(kind)
    if not size:
        return
    if kind == _HOST_TO_HOST:
        sides = memory_side(source, 0, _HOST), memory_side(target, 0, _HOST)
        _copy_3d(state, *sides, (size, 1, 1), stream)
    elif stream is None:
        state.do(_CALLS[kind][0], target, source, size)
    else:
        state.do(_CALLS[kind][1], target, source, size, stream)


@runtime("cudaMemcpyPeer")
def memcpy_peer(state: Runtime, target: int, target_device: int, source: int, source_device: int, size: int) -> None:
    """Copy bytes between devices."""
    contexts = context_of(state, target_device), context_of(state, source_device)
    state.do("cuMemcpyPeer", target, contexts[0], source, contexts[1], size)


@runtime("cudaMemcpyPeerAsync")
def memcpy_peer_async(
    state: Runtime, target: int, target_device: int, source: int, source_device: int, size: int, stream: int
) -> None:
    """Copy bytes between devices in stream order."""
    contexts = context_of(state, target_device), context_of(state, source_device)
    state.do("cuMemcpyPeerAsync", target, contexts[0], source, contexts[1], size, stream)


# -- copies from and to variables

INTO, OUT_OF = (_HOST_TO_DEVICE, _DEVICE_TO_DEVICE, _DEFAULT), (_DEVICE_TO_HOST, _DEVICE_TO_DEVICE, _DEFAULT)


def symbol_place(state: Runtime, symbol: int, size: int, offset: int, kind: int, kinds: tuple[int, ...]) -> int:
    """Return the address of bytes of a variable, for a copy whose direction must be one of some kinds."""
    place = variable_at(state, symbol, size, offset)
    if kind not in kinds:
        raise Refused(_INVALID_DIRECTION, f"{kind} is not a cudaMemcpyKind for this side of a copy: {kinds} are")
    return place


@runtime("cudaMemcpyToSymbol", "cudaMemcpyToSymbolAsync")
def memcpy_to_symbol(
    state: Runtime, symbol: int, source: int, size: int, offset: int, kind: int, stream: int | None = None
) -> None:
    """Copy bytes into a variable."""
    _copy(state, symbol_place(state, symbol, size, offset, kind, INTO), source, size, kind, stream)


@runtime("cudaMemcpyFromSymbol", "cudaMemcpyFromSymbolAsync")
def memcpy_from_symbol(
    state: Runtime, target: int, symbol: int, size: int, offset: int, kind: int, stream: int | None = None
) -> None:
    """Copy bytes out of a variable."""
    _copy(state, target, symbol_place(state, symbol, size, offset, kind, OUT_OF), size, kind, stream)


# -- copies with a pitch, or with an array; a side is what MEMCPY3D has of it


def memory_side(pointer: int, pitch: int, kind: int, height: int = 0, x: int = 0, y: int = 0, z: int = 0) -> Side:
    """Return a side in memory of a CUmemorytype, from a byte, a row and a slice on."""
    if kind == _HOST:
        host, device = (pointer, 0)
    else:
        host, device = (0, pointer)
    return x, y, z, 0, kind, host, device, 0, 0, pitch, height


def array_side(array: int, x: int, y: int, z: int = 0) -> Side:
    """Return a side in an array, from a byte, a row and a slice on."""
    return x, y, z, 0, _ARRAY, 0, 0, array, 0, 0, 0


def copy_words(source: Side, target: Side, extent: Side) -> ctypes.Array[ctypes.c_char]:
    """Return the CUDA_MEMCPY3D of a copy; the extent is in bytes, rows and slices."""
    return ctypes.create_string_buffer(MEMCPY3D.pack(*source, *target, *extent), MEMCPY3D.size)


def _copy_3d(state: Runtime, source: Side, target: Side, extent: Side, stream: int | None) -> None:
    if 0 in extent:
        return
    words = copy_words(source, target, extent)
    if stream is None:
        state.do("cuMemcpy3D_v2", words)
    else:
        state.do("cuMemcpy3DAsync_v2", words, stream)


def element_of(state: Runtime, array: int) -> int:
    """Return the bytes of an element of an array."""
    return state.machine.get(Array, array).element


@runtime("cudaMemcpy2D", "cudaMemcpy2DAsync")
def memcpy_2d(
    state: Runtime,
    target: int,
    target_pitch: int,
    source: int,
    source_pitch: int,
    width: int,
    height: int,
    kind: int,
    stream: int | None = None,
) -> None:
    """Copy rows."""
    types = types_of(kind)
    if width > target_pitch or width > source_pitch:
        raise Refused(
            _INVALID_PITCH, f"rows of {width} bytes do not fit into pitches of {target_pitch} and {source_pitch} bytes"
        )
    sides = memory_side(source, source_pitch, types[0]), memory_side(target, target_pitch, types[1])
    _copy_3d(state, *sides, (width, height, 1), stream)


@runtime("cudaMemcpy2DToArray", "cudaMemcpy2DToArrayAsync")
def memcpy_2d_to_array(
    state: Runtime,
    array: int,
    x: int,
    y: int,
    source: int,
    pitch: int,
    width: int,
    height: int,
    kind: int,
    stream: int | None = None,
) -> None:
    """Copy rows into an array."""
    side = memory_side(source, pitch, types_of(kind)[0])
    _copy_3d(state, side, array_side(array, x, y), (width, height, 1), stream)


@runtime("cudaMemcpy2DFromArray", "cudaMemcpy2DFromArrayAsync")
def memcpy_2d_from_array(
    state: Runtime,
    target: int,
    pitch: int,
    array: int,
    x: int,
    y: int,
    width: int,
    height: int,
    kind: int,
    stream: int | None = None,
) -> None:
    """Copy rows out of an array."""
    side = memory_side(target, pitch, types_of(kind)[1])
    _copy_3d(state, array_side(array, x, y), side, (width, height, 1), stream)


@runtime("cudaMemcpy2DArrayToArray")
def memcpy_2d_array_to_array(
    state: Runtime, target: int, tx: int, ty: int, source: int, x: int, y: int, width: int, height: int, kind: int
) -> None:
    """Copy rows from one array to another."""
    types_of(kind)
    _copy_3d(state, array_side(source, x, y), array_side(target, tx, ty), (width, height, 1), None)


def _lines(state: Runtime, array: int, x: int, y: int, size: int) -> list[tuple[int, int, int, int, int]]:
    """Divide bytes that follow each other in an array into boxes: x, y, the first byte, the width, the rows.

    Bytes that are not all in the array are refused, before any of them is copied.
    """
    found = state.machine.get(Array, array)
    row = found.width * found.element
    if x >= row:
        raise Refused(1, f"byte {x} of a row that has {row} bytes")
    boxes, at = [], 0
    while at < size:
        width = min(row - x, size - at)
        if not x and width == row:
            rows = (size - at) // row
        else:
            rows = 1
        boxes.append((x, y, at, width, rows))
        at, x, y = at + width * rows, 0, y + rows
    if y > max(found.height, 1):
        raise Refused(1, f"bytes up to row {y - 1} of an array that has {max(found.height, 1)} rows")
    return boxes


@runtime("cudaMemcpyToArray", "cudaMemcpyToArrayAsync")
def memcpy_to_array(
    state: Runtime, array: int, x: int, y: int, source: int, size: int, kind: int, stream: int | None = None
) -> None:
    """Copy bytes into the rows of an array."""
    for left, row, at, width, rows in _lines(state, array, x, y, size):
        memcpy_2d_to_array(state, array, left, row, source + at, width, width, rows, kind, stream)


@runtime("cudaMemcpyFromArray", "cudaMemcpyFromArrayAsync")
def memcpy_from_array(
    state: Runtime, target: int, array: int, x: int, y: int, size: int, kind: int, stream: int | None = None
) -> None:
    """Copy bytes out of the rows of an array."""
    for left, row, at, width, rows in _lines(state, array, x, y, size):
        memcpy_2d_from_array(state, target + at, width, array, left, row, width, rows, kind, stream)


def words_of(state: Runtime, address: int) -> ctypes.Array[ctypes.c_char]:
    """Return the CUDA_MEMCPY3D for a cudaMemcpy3DParms."""
    out(address)
    copy = Copy.from_address(address)
    kinds = types_of(copy.kind)
    source = _side(state, copy.source_array, copy.source_position, copy.source, kinds[0])
    target = _side(state, copy.target_array, copy.target_position, copy.target, kinds[1])
    if copy.source_array or copy.target_array:
        element = element_of(state, copy.source_array or copy.target_array)
    else:
        element = 1
    return copy_words(source, target, (copy.extent.width * element, copy.extent.height, copy.extent.depth))


def _side(state: Runtime, array: int, position: Extent, pointer: PitchedPointer, kind: int) -> Side:
    """Return one side of a copy, whose position is in elements if it is an array, and else in bytes."""
    if array and pointer.pointer or not array and not pointer.pointer:
        raise Refused(1, "each side of a copy must be either an array or a pointer")
    if array:
        return array_side(array, position.x * element_of(state, array), position.y, position.z)
    return memory_side(pointer.pointer, pointer.pitch, kind, pointer.ysize, position.x, position.y, position.z)


def parameters_of(state: Runtime, words: ctypes.Array[ctypes.c_char]) -> Copy:
    """Return the cudaMemcpy3DParms for a CUDA_MEMCPY3D."""
    values = MEMCPY3D.unpack(words.raw)
    source, target, (width, height, depth) = values[:_SIDE], values[_SIDE : 2 * _SIDE], values[2 * _SIDE :]
    arrays = [side[_ARRAY_AT] if side[_TYPE_AT] == _ARRAY else 0 for side in (source, target)]
    if any(arrays):
        element = element_of(state, arrays[0] or arrays[1])
    else:
        element = 1
    types = tuple(_DEVICE if side[_TYPE_AT] == _ARRAY else side[_TYPE_AT] for side in (source, target))
    made = Copy(kind=next((kind for kind, known in _TYPES.items() if known == types), _DEFAULT))
    made.extent = Extent(width // element, height, depth)
    made.source_array, made.target_array = arrays
    for side, array, position, pointer in (
        (source, arrays[0], made.source_position, made.source),
        (target, arrays[1], made.target_position, made.target),
    ):
        x, y, z, _, kind, host, device, _, _, pitch, rows = side
        position.x, position.y, position.z = x // element if array else x, y, z
        if not array:
            pointer.pointer, pointer.pitch, pointer.xsize, pointer.ysize = host or device, pitch, pitch, rows
    return made


_SIDE, _TYPE_AT, _ARRAY_AT = 11, 4, 7  # the number of words of a side, and where two of them are


@runtime("cudaMemcpy3D", "cudaMemcpy3DAsync")
def memcpy_3d(state: Runtime, address: int, stream: int | None = None) -> None:
    """Copy a box."""
    words = words_of(state, address)
    if 0 in MEMCPY3D.unpack(words.raw)[-3:]:
        return
    if stream is None:
        state.do("cuMemcpy3D_v2", words)
    else:
        state.do("cuMemcpy3DAsync_v2", words, stream)


@runtime("cudaMemcpy3DPeer", "cudaMemcpy3DPeerAsync")
def memcpy_3d_peer(state: Runtime, address: int, stream: int | None = None) -> None:
    """Copy a box between devices."""
    out(address)
    copy = PeerCopy.from_address(address)
    source = list(_side(state, copy.source_array, copy.source_position, copy.source, _DEVICE))
    target = list(_side(state, copy.target_array, copy.target_position, copy.target, _DEVICE))
    source[_CONTEXT], target[_CONTEXT] = context_of(state, copy.source_device), context_of(state, copy.target_device)
    array = copy.source_array or copy.target_array
    if array:
        element = element_of(state, array)
    else:
        element = 1
    words = copy_words(
        tuple(source), tuple(target), (copy.extent.width * element, copy.extent.height, copy.extent.depth)
    )
    if stream is None:
        state.do("cuMemcpy3DPeer", words)
    else:
        state.do("cuMemcpy3DPeerAsync", words, stream)


_CONTEXT = 8  # where a side has the context


# -- fills


@runtime("cudaMemset", "cudaMemsetAsync")
def memset(state: Runtime, address: int, value: int, size: int, stream: int | None = None) -> None:
    """Fill bytes."""
    if not size:
        return
    if stream is None:
        state.do("cuMemsetD8_v2", address, value & 255, size)
    else:
        state.do("cuMemsetD8Async", address, value & 255, size, stream)


@runtime("cudaMemset2D", "cudaMemset2DAsync")
def memset_2d(
    state: Runtime, address: int, pitch: int, value: int, width: int, height: int, stream: int | None = None
) -> None:
    """Fill rows."""
    if not width or not height:
        return
    if stream is None:
        state.do("cuMemsetD2D8_v2", address, pitch, value & 255, width, height)
    else:
        state.do("cuMemsetD2D8Async", address, pitch, value & 255, width, height, stream)


@runtime("cudaMemset3D", "cudaMemset3DAsync")
def memset_3d(state: Runtime, pointer: PitchedPointer, value: int, extent: Extent, stream: int | None = None) -> None:
    """Fill slices, or nothing if one of them is refused."""
    if extent.depth > 1 and (extent.height > pointer.ysize or extent.width > pointer.pitch):
        raise Refused(
            1,
            f"{extent.height} rows of {extent.width} bytes, but a slice has {pointer.ysize} of {pointer.pitch}",
        )
    if not extent.width or not extent.height:
        return
    machine, apart = state.machine, pointer.pitch * pointer.ysize
    for z in range(extent.depth):
        address = pointer.pointer + z * apart
        with machine.lock:
            fill = Fill(address, pointer.pitch, value & 255, 1, extent.width, extent.height, machine.context())
            fill.check(machine)
    for z in range(extent.depth):
        address = pointer.pointer + z * apart
        memset_2d(state, address, pointer.pitch, value, extent.width, extent.height, stream)
