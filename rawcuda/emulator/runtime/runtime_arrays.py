"""Functions: arrays, mipmapped arrays, textures and surfaces, whose structures are converted into those of the driver.

Source       CUDA Runtime API, "Memory Management", "Texture Object Management", "Surface Object Management"
Read next    runtime_launches.py
"""

from __future__ import annotations

import ctypes
import struct

from ..interface.thunks import out, put_bytes, put_uint
from ..machine.codes import Refused
from ..machine.device_arrays import FORMATS, Array
from .runtime_structures import ChannelFormat, Extent, Resource, Texture
from .state import Runtime, runtime

__all__: list[str] = []

_INVALID_FORMAT = 20  # cudaErrorInvalidChannelDescriptor
_SIGNED, _UNSIGNED, _FLOAT = range(3)  # cudaChannelFormatKind
_KINDS = {_SIGNED: "int", _UNSIGNED: "uint", _FLOAT: "float"}
_ARRAY, _MIPMAPPED, _LINEAR, _PITCHED = range(4)  # cudaResourceType, and CUresourcetype
_INTEGERS, _NORMALIZED, _SRGB, _NO_TRILINEAR, _SEAMLESS = 1, 2, 0x10, 0x20, 0x40  # CU_TRSF_*
_AS_ELEMENTS, _AS_FRACTIONS = range(2)  # cudaTextureReadMode
_SEAMLESS_AT = ctypes.sizeof(Texture)  # where cudaTextureDesc has `seamlessCubemap`, since CUDA 12
_DESCRIPTION = struct.Struct("<QQQ iII4x")  # CUDA_ARRAY3D_DESCRIPTOR
_RESOURCE = struct.Struct("<i4x 128s I4x")  # CUDA_RESOURCE_DESC
_SAMPLING = struct.Struct("<3i i I I i 3f 4f 12i")  # CUDA_TEXTURE_DESC
_VIEW = struct.Struct("<i4x QQQ 4I")  # cudaResourceViewDesc; that of the driver has 64 more bytes, which are reserved


def _format_of(channels: ChannelFormat) -> tuple[int, int]:
    """Return the CUarray_format and the number of channels, or refuse a description that is not emulated."""
    bits = [channels.x, channels.y, channels.z, channels.w]
    used = [width for width in bits if width]
    name = f"{_KINDS.get(channels.kind)}{bits[0]}"
    number = next((number for number, known in FORMATS.items() if known.name == name), 0)
    if not number or bits[: len(used)] != used or set(used) != {bits[0]}:
        raise Refused(
            _INVALID_FORMAT,
            f"channels of {tuple(bits)} bits of cudaChannelFormatKind {channels.kind}: the emulator has integers of 8, "
            "16 and 32 bits and floating-point numbers of 16 and 32 bits, and all channels must be equal",
        )
    return number, len(used)


def _channels_of(number: int, count: int) -> ChannelFormat:
    """Return the description of a CUarray_format."""
    found = FORMATS[number]
    bits = [8 * found.width] * count + [0] * (4 - count)
    return ChannelFormat(*bits, {name: kind for kind, name in _KINDS.items()}[found.kind])


# -- arrays


@runtime("cudaCreateChannelDesc", context=False, records=False)
def create_channel_format(state: Runtime, address: int, x: int, y: int, z: int, w: int, kind: int) -> int:
    """Write a description of channels, and return its address, as C functions return structures."""
    put_bytes(address, bytes(ChannelFormat(x, y, z, w, kind)))
    return address


def _create(address: int, extents: tuple[int, int, int], flags: int) -> ctypes.Array[ctypes.c_char]:
    """Return the description of an array in the form of the driver."""
    out(address)
    format = _format_of(ChannelFormat.from_address(address))
    return ctypes.create_string_buffer(_DESCRIPTION.pack(*extents, *format, flags), _DESCRIPTION.size)


@runtime("cudaMallocArray")
def malloc_array(state: Runtime, address: int, channels: int, width: int, height: int, flags: int) -> None:
    """Create an array of one or two dimensions."""
    state.do("cuArray3DCreate_v2", address, _create(channels, (width, height, 0), flags))


@runtime("cudaMalloc3DArray")
def malloc_3d_array(state: Runtime, address: int, channels: int, extent: Extent, flags: int) -> None:
    """Create an array."""
    extents = extent.width, extent.height, extent.depth
    state.do("cuArray3DCreate_v2", address, _create(channels, extents, flags))


@runtime("cudaMallocMipmappedArray")
def malloc_mipmapped_array(
    state: Runtime, address: int, channels: int, extent: Extent, levels: int, flags: int
) -> None:
    """Create a mipmapped array."""
    made = _create(channels, (extent.width, extent.height, extent.depth), flags)
    state.do("cuMipmappedArrayCreate", address, made, levels)


@runtime("cudaFreeArray")
def free_array(state: Runtime, array: int) -> None:
    """Destroy an array; NULL is allowed."""
    if array:
        state.do("cuArrayDestroy", array)


@runtime("cudaFreeMipmappedArray")
def free_mipmapped_array(state: Runtime, array: int) -> None:
    """Destroy a mipmapped array; NULL is allowed."""
    if array:
        state.do("cuMipmappedArrayDestroy", array)


@runtime("cudaArrayGetInfo")
def array_info(state: Runtime, channels: int, extent: int, flags: int, array: int) -> None:
    """Write the description of an array; each pointer may be NULL."""
    found = state.machine.get(Array, array)
    if channels:
        put_bytes(channels, bytes(_channels_of(found.format.number, found.channels)))
    if extent:
        put_bytes(extent, bytes(Extent(found.width, found.height, found.depth)))
    if flags:
        put_uint(flags, found.flags)


@runtime("cudaGetChannelDesc")
def get_channel_format(state: Runtime, channels: int, array: int) -> None:
    """Write the channels of an array."""
    out(channels)
    array_info(state, channels, 0, 0, array)


# -- textures and surfaces


def _resource(address: int) -> ctypes.Array[ctypes.c_char]:
    """Return the resource of a texture or a surface in the form of the driver."""
    out(address)
    given = Resource.from_address(address)
    if given.type in (_ARRAY, _MIPMAPPED):
        union = struct.pack("<Q", given.of.array)
    elif given.type == _LINEAR:
        linear = given.of.linear
        union = struct.pack("<Q iI Q", linear.pointer, *_format_of(linear.format), linear.size)
    elif given.type == _PITCHED:
        rows = given.of.pitched
        union = struct.pack("<Q iI QQQ", rows.pointer, *_format_of(rows.format), rows.width, rows.height, rows.pitch)
    else:
        raise Refused(1, f"{given.type} is not a cudaResourceType")
    return ctypes.create_string_buffer(_RESOURCE.pack(given.type, union, 0), _RESOURCE.size)


def _put_resource(address: int, words: bytes) -> None:
    """Write the resource of a texture or a surface in the form of the runtime."""
    kind, union, _ = _RESOURCE.unpack(words)
    made = Resource(kind)
    if kind in (_ARRAY, _MIPMAPPED):
        made.of.array = struct.unpack_from("<Q", union)[0]
    elif kind == _LINEAR:
        pointer, number, count, size = struct.unpack_from("<Q iI Q", union)
        made.of.linear.pointer, made.of.linear.format, made.of.linear.size = pointer, _channels_of(number, count), size
    else:
        pointer, number, count, width, height, pitch = struct.unpack_from("<Q iI QQQ", union)
        rows = made.of.pitched
        rows.pointer, rows.format, rows.width, rows.height, rows.pitch = (
            pointer,
            _channels_of(number, count),
            width,
            height,
            pitch,
        )
    put_bytes(address, bytes(made))


@runtime("cudaCreateTextureObject", "cudaCreateTextureObject_v2")
def create_texture(state: Runtime, address: int, resource: int, sampling: int, view: int) -> None:
    """Create a texture."""
    out(sampling)
    given = Texture.from_address(sampling)
    if given.read_mode == _AS_ELEMENTS:
        flags = _INTEGERS
    else:
        flags = 0
    flags |= _NORMALIZED if given.normalized else 0
    flags |= _SRGB if given.srgb else 0
    flags |= _NO_TRILINEAR if given.disable_trilinear else 0
    if state.major > 11 and ctypes.c_int.from_address(sampling + _SEAMLESS_AT).value:
        flags |= _SEAMLESS
    words = _SAMPLING.pack(
        *given.address_mode,
        given.filter_mode,
        flags,
        given.max_anisotropy,
        given.mipmap_filter_mode,
        given.mipmap_level_bias,
        given.min_mipmap_level,
        given.max_mipmap_level,
        *given.border_color,
        *(0,) * 12,
    )
    made, sampled = _resource(resource), ctypes.create_string_buffer(words, len(words))
    if view:
        seen = ctypes.create_string_buffer(ctypes.string_at(view, _VIEW.size), _VIEW.size + 64)
    else:
        seen = None
    state.do(
        "cuTexObjectCreate",
        address,
        made,
        sampled,
        seen if seen is not None else 0,
    )


@runtime("cudaGetTextureObjectResourceDesc")
def texture_resource(state: Runtime, address: int, texture: int) -> None:
    """Write what a texture reads."""
    out(address)
    words = ctypes.create_string_buffer(_RESOURCE.size)
    state.do("cuTexObjectGetResourceDesc", words, texture)
    _put_resource(address, words.raw)


@runtime("cudaGetTextureObjectTextureDesc", "cudaGetTextureObjectTextureDesc_v2")
def texture_sampling(state: Runtime, address: int, texture: int) -> None:
    """Write how a texture is read."""
    out(address)
    words = ctypes.create_string_buffer(_SAMPLING.size)
    state.do("cuTexObjectGetTextureDesc", words, texture)
    x, y, z, filter, flags, anisotropy, mip, bias, least, most, *rest = _SAMPLING.unpack(words.raw)
    made = Texture(
        (x, y, z),
        filter,
        _AS_ELEMENTS if flags & _INTEGERS else _AS_FRACTIONS,
        int(bool(flags & _SRGB)),
        tuple(rest[:4]),
        int(bool(flags & _NORMALIZED)),
        anisotropy,
        mip,
        bias,
        least,
        most,
        int(bool(flags & _NO_TRILINEAR)),
    )
    put_bytes(address, bytes(made))
    if state.major > 11:
        ctypes.c_int.from_address(address + _SEAMLESS_AT).value = int(bool(flags & _SEAMLESS))


@runtime("cudaGetTextureObjectResourceViewDesc")
def texture_view(state: Runtime, address: int, texture: int) -> None:
    """Write the view of a texture."""
    out(address)
    words = ctypes.create_string_buffer(_VIEW.size + 64)
    state.do("cuTexObjectGetResourceViewDesc", words, texture)
    put_bytes(address, words.raw[: _VIEW.size])


@runtime("cudaCreateSurfaceObject")
def create_surface(state: Runtime, address: int, resource: int) -> None:
    """Create a surface."""
    state.do("cuSurfObjectCreate", address, _resource(resource))


@runtime("cudaGetSurfaceObjectResourceDesc")
def surface_resource(state: Runtime, address: int, surface: int) -> None:
    """Write what a surface reads and writes."""
    out(address)
    words = ctypes.create_string_buffer(_RESOURCE.size)
    state.do("cuSurfObjectGetResourceDesc", words, surface)
    _put_resource(address, words.raw)
