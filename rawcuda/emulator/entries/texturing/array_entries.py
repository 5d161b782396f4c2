"""Entry points: CUDA arrays, mipmapped arrays, and the copies of one row from and to them.

How          the call checks format, flags and extents against the attributes of the device. Destroying an array waits
             for the work of its context. Copies of rectangles and boxes are in entries/memories/copy_entries.py.
Source       CUDA Driver API, "Memory Management": cuArrayCreate, cuArray3DCreate, cuMipmappedArrayCreate, cuMemcpyAtoA
Read next    texture_entries.py
"""

from __future__ import annotations

import struct

from ...interface.thunks import entry, out, put_bytes, put_word, read
from ...machine.codes import Refused
from ...machine.device_arrays import CUBEMAP, GATHER, LAYERED, SURFACE, Array, MipmappedArray, format_of
from ...machine.machine import Machine
from ..memories.copy_entries import array_box, copy_boxes, device_box, host_box, stream_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..memories.copy_entries import Box

    Extents = tuple[int, int, int]

__all__: list[str] = []

_ARRAY_2D = struct.Struct("NN iI")  # width, height, format, channels
_ARRAY_3D = struct.Struct("NNN iII 0N")  # width, height, depth, format, channels, flags
_EMULATED_FLAGS = LAYERED | SURFACE | CUBEMAP | GATHER
_ALL_FLAGS = 0x1FF


def _limits(extents: Extents, flags: int, mipmapped: bool) -> list[tuple[int, ...]]:
    """Return the attributes that limit the extents of an array: those of a texture, and of a surface if it is one."""
    _, height, depth = extents
    texture: tuple[int, ...]
    surface: tuple[int, ...]
    if flags & CUBEMAP:
        if flags & LAYERED:
            texture, surface = ((53, 53, 54), (67, 67, 68))
        else:
            texture, surface = ((52, 52), (66, 66))
    elif flags & LAYERED:
        if height:
            texture, surface = ((27, 28, 29), (63, 64, 65))
        else:
            texture, surface = ((42, 43), (61, 62))
    elif depth:
        texture, surface = (24, 25, 26), (58, 59, 60)
    elif height:
        texture, surface = ((73, 74) if mipmapped else (45, 46) if flags & GATHER else (22, 23)), (56, 57)
    else:
        texture, surface = ((77,) if mipmapped else (21,)), (55,)
    if flags & SURFACE:
        return [texture, surface]
    return [texture]


def _check(machine: Machine, extents: Extents, channels: int, number: int, flags: int, mipmapped: bool = False) -> None:
    """Refuse an invalid description of an array."""
    format_of(number, channels)
    if flags & ~_ALL_FLAGS:
        raise Refused(1, f"flags {flags:#x} are unknown")
    if flags & ~_EMULATED_FLAGS:
        raise Refused(801, f"flags {flags:#x}: depth, color, sparse and deferred arrays are not emulated")
    width, height, depth = extents
    if not width:
        raise Refused(1, "an array of width 0: the width must be at least 1")
    if flags & CUBEMAP:
        if width != height:
            raise Refused(1, f"the faces of a cubemap are squares, not {width} x {height}")
        if depth % 6 or not depth or depth > 6 and not flags & LAYERED:
            raise Refused(1, f"a cubemap has 6 faces (a layered one a multiple of 6), not {depth}")
    elif flags & LAYERED and not depth:
        raise Refused(1, "a layered array of depth 0: the depth is the number of layers, and must be at least 1")
    elif not height and depth and not flags & LAYERED:
        raise Refused(1, f"an array of height 0 and depth {depth}: an array with a depth must have a height")
    if flags & GATHER and (not height or depth):
        raise Refused(1, "CUDA_ARRAY3D_TEXTURE_GATHER: only a 2-D array can have this flag")
    sizes = [extent for extent in extents if extent]
    limits = machine.answers.attributes
    for numbers in _limits(extents, flags, mipmapped):
        most = [limits[number] for number in numbers]
        if numbers == (24, 25, 26):
            other = [limits[number] for number in (47, 48, 49)]
        else:
            other = most
        if any(a > b for a, b in zip(sizes, most)) and any(a > b for a, b in zip(sizes, other)):
            shown = " x ".join(map(str, sizes))
            raise Refused(1, f"extents of {shown} exceed {' x '.join(map(str, most))} (device attributes {numbers})")


def _create(machine: Machine, address: int, extents: Extents, number: int, channels: int, flags: int) -> None:
    out(address)
    context = machine.context()
    _check(machine, extents, channels, number, flags)
    format = format_of(number, channels)
    width, height, depth = extents
    size = width * max(height, 1) * max(depth, 1) * format.width * channels
    machine.make_room(context.device, size)
    made = machine.add(Array(context, extents, format, channels, flags))
    context.device.used += size
    context.owned[made.handle] = made
    put_word(address, made.handle)


@entry("cuArrayCreate_v2(CUarray *pHandle, const CUDA_ARRAY_DESCRIPTOR *pAllocateArray)", since=3020)
def array_create(machine: Machine, address: int, descriptor: int) -> None:
    """Create a 1-D or 2-D array."""
    width, height, number, channels = read(_ARRAY_2D, descriptor)
    _create(machine, address, (width, height, 0), number, channels, 0)


@entry("cuArray3DCreate_v2(CUarray *pHandle, const CUDA_ARRAY3D_DESCRIPTOR *pAllocateArray)", since=3020)
def array_3d_create(machine: Machine, address: int, descriptor: int) -> None:
    """Create an array of any kind."""
    width, height, depth, number, channels, flags = read(_ARRAY_3D, descriptor)
    _create(machine, address, (width, height, depth), number, channels, flags)


@entry("cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR *pArrayDescriptor, CUarray hArray)", since=3020)
def array_descriptor(machine: Machine, address: int, handle: int) -> None:
    """Write width, height, format and channels."""
    found = machine.usable(Array, handle)
    put_bytes(address, _ARRAY_2D.pack(found.width, found.height, found.format.number, found.channels))


@entry("cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR *pArrayDescriptor, CUarray hArray)", since=3020)
def array_3d_descriptor(machine: Machine, address: int, handle: int) -> None:
    """Write everything with which an array was created."""
    found = machine.usable(Array, handle)
    put_bytes(
        address,
        _ARRAY_3D.pack(found.width, found.height, found.depth, found.format.number, found.channels, found.flags),
    )


@entry("cuArrayDestroy(CUarray hArray)", since=2000)
def array_destroy(machine: Machine, handle: int) -> None:
    """Destroy an array after the context's work."""
    found = machine.usable(Array, handle)
    if found.parent is not None:
        raise Refused(400, "a level of a mipmapped array cannot be destroyed: destroy the mipmapped array")
    _destroy(machine, found)


def _destroy(machine: Machine, found: Array | MipmappedArray) -> None:
    """End an array after the work of its context; in a __del__ or a signal handler, after the running work."""
    context, is_inside = found.context, machine.queues.inside_work()
    if not is_inside:
        machine.queues.complete_context(context)
        context.check()
    if found.handle not in machine.handles:
        raise Refused(400, "another thread has destroyed this array meanwhile")

    def end() -> None:
        machine.queues.complete_context(context)
        found.close()

    if is_inside:
        machine.queues.after_work(end)
    else:
        found.close()
    context.owned.pop(found.handle, None)
    del machine.handles[found.handle]


@entry("cuArrayGetPlane(CUarray *pPlaneArray, CUarray hArray, unsigned int planeIdx)", since=11020)
def array_plane(machine: Machine, address: int, handle: int, plane: int) -> None:
    """Refuse the plane of an array, since no emulated format has planes."""
    out(address)
    raise Refused(1, f"an {machine.usable(Array, handle).describe()} has no planes")


@entry(
    "cuArrayGetSparseProperties(CUDA_ARRAY_SPARSE_PROPERTIES *sparseProperties, CUarray array)",
    since=11010,
)
def array_sparse(machine: Machine, address: int, handle: int) -> None:
    """Refuse the properties of a sparse array, since no emulated array is sparse."""
    out(address)
    raise Refused(1, f"an {machine.usable(Array, handle).describe()} is not sparse (CUDA_ARRAY3D_SPARSE)")


@entry(
    "cuArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *memoryRequirements, CUarray array, CUdevice device)",
    since=11060,
)
def array_requirements(machine: Machine, address: int, handle: int, device: int) -> None:
    """Refuse the requirements of an array, since each array has its own memory."""
    out(address)
    machine.device(device)
    raise Refused(
        1, f"an {machine.usable(Array, handle).describe()} has its own memory: it has no CUDA_ARRAY3D_DEFERRED_MAPPING"
    )


@entry(
    "cuMipmappedArrayCreate(CUmipmappedArray *pHandle, const CUDA_ARRAY3D_DESCRIPTOR *pMipmappedArrayDesc, "
    "unsigned int numMipmapLevels)",
    since=5000,
)
def mipmapped_create(machine: Machine, address: int, descriptor: int, levels: int) -> None:
    """Create a mipmapped array; the number of levels is clamped, as documented."""
    out(address)
    context = machine.context()
    width, height, depth, number, channels, flags = read(_ARRAY_3D, descriptor)
    extents = width, height, depth
    _check(machine, extents, channels, number, flags, mipmapped=True)
    sides = (width, height) if flags & (LAYERED | CUBEMAP) else extents
    levels = min(max(levels, 1), max(sides).bit_length())
    format = format_of(number, channels)
    sizes = [
        max(width >> level, 1) * max(height >> level, 1) * max(depth if len(sides) == 2 else depth >> level, 1)
        for level in range(levels)
    ]
    machine.make_room(context.device, sum(sizes) * format.width * channels)
    made = machine.add(MipmappedArray(context, extents, format, channels, flags, levels))
    context.device.used += sum(sizes) * format.width * channels
    for level in made.levels:
        machine.add(level)
    context.owned[made.handle] = made
    put_word(address, made.handle)


@entry(
    "cuMipmappedArrayGetLevel(CUarray *pLevelArray, CUmipmappedArray hMipmappedArray, unsigned int level)", since=5000
)
def mipmapped_level(machine: Machine, address: int, handle: int, level: int) -> None:
    """Write the array of a level."""
    out(address)
    found = machine.usable(MipmappedArray, handle)
    if level >= len(found.levels):
        raise Refused(1, f"there is no level {level}: this array has {len(found.levels)}, numbered from 0")
    put_word(address, found.levels[level].handle)


@entry("cuMipmappedArrayDestroy(CUmipmappedArray hMipmappedArray)", since=5000)
def mipmapped_destroy(machine: Machine, handle: int) -> None:
    """Destroy a mipmapped array with all of its levels after the context's work."""
    _destroy(machine, machine.usable(MipmappedArray, handle))


@entry(
    "cuMipmappedArrayGetSparseProperties(CUDA_ARRAY_SPARSE_PROPERTIES *sparseProperties, CUmipmappedArray mipmap)",
    since=11010,
)
def mipmapped_sparse(machine: Machine, address: int, handle: int) -> None:
    """Refuse the properties of a sparse array, since no emulated array is sparse."""
    out(address)
    machine.usable(MipmappedArray, handle)
    raise Refused(1, "the mipmapped array is not sparse (CUDA_ARRAY3D_SPARSE)")


@entry(
    "cuMipmappedArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *memoryRequirements, CUmipmappedArray "
    "mipmap, CUdevice device)",
    since=11060,
)
def mipmapped_requirements(machine: Machine, address: int, handle: int, device: int) -> None:
    """Refuse the requirements of a mipmapped array, since each has its own memory."""
    out(address)
    machine.device(device)
    machine.usable(MipmappedArray, handle)
    raise Refused(1, "the mipmapped array has its own memory: it has no CUDA_ARRAY3D_DEFERRED_MAPPING")


# -- copies of one row


def _row(machine: Machine, target: Box, source: Box, nbytes: int, stream: int | None) -> None:
    copy_boxes(machine, stream_of(machine, stream), target, source, nbytes, waits=stream is None)


def _whole(machine: Machine, handle: int, offset: int, nbytes: int) -> Box:
    return array_box(machine, handle, (offset, 0, 0), (nbytes, 1, 1))


@entry("cuMemcpyAtoA_v2(CUarray dstArray, size_t dstOffset, CUarray srcArray, size_t srcOffset, size_t ByteCount)",
       since=3020)  # fmt: skip
def array_to_array(machine: Machine, target: int, at: int, source: int, begin: int, nbytes: int) -> None:
    """Copy part of a row of an array to another."""
    if nbytes:
        _row(machine, _whole(machine, target, at, nbytes), _whole(machine, source, begin, nbytes), nbytes, None)


@entry("cuMemcpyAtoD_v2(CUdeviceptr dstDevice, CUarray srcArray, size_t srcOffset, size_t ByteCount)", since=3020)
def array_to_device(machine: Machine, target: int, source: int, begin: int, nbytes: int) -> None:
    """Copy part of a row of an array to device memory."""
    if nbytes:
        box = device_box(machine, target, nbytes, nbytes, nbytes)
        _row(machine, box, _whole(machine, source, begin, nbytes), nbytes, None)


@entry("cuMemcpyDtoA_v2(CUarray dstArray, size_t dstOffset, CUdeviceptr srcDevice, size_t ByteCount)", since=3020)
def device_to_array(machine: Machine, target: int, at: int, source: int, nbytes: int) -> None:
    """Copy device memory to part of a row of an array."""
    if nbytes:
        box = device_box(machine, source, nbytes, nbytes, nbytes)
        _row(machine, _whole(machine, target, at, nbytes), box, nbytes, None)


@entry("cuMemcpyAtoHAsync_v2(void *dstHost, CUarray srcArray, size_t srcOffset, size_t ByteCount, CUstream hStream)",
       since=3020)  # fmt: skip
@entry("cuMemcpyAtoH_v2(void *dstHost, CUarray srcArray, size_t srcOffset, size_t ByteCount)", since=3020)
def array_to_host(
    machine: Machine, target: int, source: int, begin: int, nbytes: int, stream: int | None = None
) -> None:
    """Copy part of a row of an array to host memory."""
    if nbytes:
        box = host_box(machine, target, nbytes, nbytes, nbytes)
        _row(machine, box, _whole(machine, source, begin, nbytes), nbytes, stream)


@entry("cuMemcpyHtoAAsync_v2(CUarray dstArray, size_t dstOffset, const void *srcHost, size_t ByteCount, "
       "CUstream hStream)", since=3020)  # fmt: skip
@entry("cuMemcpyHtoA_v2(CUarray dstArray, size_t dstOffset, const void *srcHost, size_t ByteCount)", since=3020)
def host_to_array(machine: Machine, target: int, at: int, source: int, nbytes: int, stream: int | None = None) -> None:
    """Copy host memory to part of a row of an array."""
    if nbytes:
        box = host_box(machine, source, nbytes, nbytes, nbytes)
        _row(machine, _whole(machine, target, at, nbytes), box, nbytes, stream)
