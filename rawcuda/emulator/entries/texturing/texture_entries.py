"""Entry points: texture objects and surface objects.

How          the call checks both structures against the attributes of the device: alignment, pitch and extents of
             linear memory, and which modes may be combined. A kernel finds the object by its handle (see
             entries/tasks/launch_entries.py), so a kernel that uses a texture or surface reports if the object, or its
             array or memory, was destroyed.
Source       CUDA Driver API, "Texture Object Management", "Surface Object Management"
Read next    machine/device_arrays.py
"""

from __future__ import annotations

import ctypes
import struct

from ...interface.thunks import entry, out, put_bytes, put_u64
from ...machine.codes import Refused
from ...machine.device_arrays import CUBEMAP, LAYERED, SURFACE, Array, MipmappedArray, Surface, Texture, format_of
from ...machine.machine import Machine
from ..memories.memory_entries import allocation_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...machine.machine import Context

__all__: list[str] = []

_RESOURCE = 144  # the size of CUDA_RESOURCE_DESC; its union is at 8, its flags at 136
_TEXTURE = struct.Struct("<3i i I I i 3f 4f 12i")  # CUDA_TEXTURE_DESC
_VIEW = struct.Struct("i NNN 4I 16I")  # CUDA_RESOURCE_VIEW_DESC
_LINEAR = struct.Struct("Q iI N")  # address, format, channels, bytes
_PITCHED = struct.Struct("Q iI NNN")  # address, format, channels, width, height, pitch
_WRAP, _CLAMP, _MIRROR = 0, 1, 2  # CUaddress_mode
_INTEGERS, _NORMALIZED, _SRGB, _NO_TRILINEAR, _SEAMLESS = 1, 2, 0x10, 0x20, 0x40  # CU_TRSF_*


def _bytes(address: int, size: int) -> bytes:
    out(address)
    return ctypes.string_at(address, size)


def _resource(descriptor: bytes) -> tuple[int, bytes]:
    """Return the kind of a resource and the content of its union."""
    kind, flags = struct.unpack_from("<i", descriptor)[0], struct.unpack_from("<I", descriptor, 136)[0]
    if flags:
        raise Refused(1, f"flags {flags:#x} of a resource: must be 0")
    return kind, descriptor[8:136]


def _array_of(machine: Machine, context: Context, union: bytes) -> Array:
    found = machine.get(Array, struct.unpack_from("P", union)[0])
    if found.context is not context:
        raise Refused(1, f"the array belongs to {found.context!r}, not to the current context")
    return found


def _bind(machine: Machine, context: Context, made: Texture, kind: int, union: bytes) -> None:
    """Set what a texture reads."""
    made.memory, made.levels, made.mipmapped = None, [], kind == 1
    made.offset = made.pitch = 0
    limits = machine.answers.attributes
    if kind == 0:
        made.kind, made.levels = "array", [_array_of(machine, context, union)]
    elif kind == 1:
        found = machine.get(MipmappedArray, struct.unpack_from("P", union)[0])
        if found.context is not context:
            raise Refused(1, f"the mipmapped array belongs to {found.context!r}, not to the current context")
        made.kind, made.levels = "array", found.levels
    elif kind == 2:
        address, number, channels, nbytes = _LINEAR.unpack_from(union)
        made.kind, made.format, made.channels = "linear", format_of(number, channels), channels
        made.width, made.height = nbytes // (made.format.width * channels), 0
        if not 0 < made.width <= limits[69]:
            raise Refused(1, f"a texture of {made.width} elements: must be 1 to {limits[69]} (device attribute 69)")
        _use(machine, made, address, nbytes)
    elif kind == 3:
        address, number, channels, made.width, made.height, made.pitch = _PITCHED.unpack_from(union)
        made.kind, made.format, made.channels = "pitched", format_of(number, channels), channels
        row = made.width * made.format.width * channels
        if not 0 < made.width <= limits[70] or not 0 < made.height <= limits[71]:
            raise Refused(
                1,
                f"{made.width} x {made.height} elements: 1 to {limits[70]} x {limits[71]} (attributes 70, 71)",
            )
        if made.pitch % limits[51]:
            raise Refused(
                1, f"a pitch of {made.pitch} bytes is not a multiple of {limits[51]} (TEXTURE_PITCH_ALIGNMENT)"
            )
        if not row <= made.pitch <= limits[72]:
            raise Refused(1, f"a pitch of {made.pitch} bytes: must be {row} (a row) to {limits[72]} (attribute 72)")
        _use(machine, made, address, made.pitch * (made.height - 1) + row)
    else:
        raise Refused(1, f"{kind} is not a CUresourcetype")
    if made.levels:
        first = made.levels[0]
        made.format, made.channels, made.width, made.height = first.format, first.channels, first.width, first.height


def _use(machine: Machine, made: Texture, address: int, nbytes: int) -> None:
    alignment = machine.answers.attributes[14]
    if address % alignment:
        raise Refused(1, f"{address:#x} is not a multiple of {alignment} (TEXTURE_ALIGNMENT)")
    allocation = allocation_at(machine, address)
    if allocation is None or address - allocation.base + nbytes > allocation.size:
        if allocation is not None and allocation.kind == "virtual":
            raise Refused(801, "a texture over several mappings of virtual memory is not emulated")
        raise Refused(1, machine.space.explain(address, nbytes))
    made.memory, made.offset = allocation, address - allocation.base


def _sample(made: Texture, descriptor: bytes) -> None:
    """Set how a texture is sampled."""
    x, y, z, filter, flags, _, mip, bias, least, most, *rest = _TEXTURE.unpack(descriptor)
    if not {x, y, z} <= {0, 1, 2, 3} or not {filter, mip} <= {0, 1}:
        raise Refused(1, f"address modes {x, y, z} must be 0 to 3, and filter modes {filter, mip} 0 or 1")
    if flags & ~(_INTEGERS | _NORMALIZED | _SRGB | _NO_TRILINEAR | _SEAMLESS):
        raise Refused(1, f"texture flags {flags:#x} are unknown")
    made.normalized, made.linear = bool(flags & _NORMALIZED), bool(filter)
    made.integers = made.format.kind != "float" and (bool(flags & _INTEGERS) or made.format.width == 4)
    made.srgb = bool(flags & _SRGB)
    made.mip_linear, made.mip_bias, made.mip_least, made.mip_most = bool(mip), bias, least, most
    made.border = tuple(rest[:4])
    if flags & _SEAMLESS:
        raise Refused(801, "seamless filtering of cubemaps is not emulated")
    if made.srgb and (made.format.name != "uint8" or made.integers):
        raise Refused(1, f"sRGB needs uint8 elements that are read as fractions, not {made.format.name}")
    if made.kind == "linear":  # modes are ignored
        made.linear = made.normalized = False
    # Without normalized coordinates, the modes wrap and mirror mean clamp.
    if not made.normalized:
        x, y, z = (_CLAMP if mode in (_WRAP, _MIRROR) else mode for mode in (x, y, z))
    made.address_modes = x, y, z
    if made.linear and made.integers:
        raise Refused(1, f"{made.format.name} elements that are read as integers cannot be filtered linearly")
    if made.mipmapped and not made.normalized:
        raise Refused(
            1, "a texture over a mipmapped array needs normalized coordinates (CU_TRSF_NORMALIZED_COORDINATES)"
        )
    if any(number != number for number in (bias, least, most)):
        raise Refused(1, f"bias {bias} and clamps {least} and {most} of levels: must not be NaN")


def _restrict(made: Texture, descriptor: bytes) -> None:
    """Apply a view of a resource: another range of levels and layers."""
    number, width, height, depth, first, last, layer, last_layer, *_ = _VIEW.unpack(descriptor)
    if made.kind != "array":
        raise Refused(1, f"a texture over {made.kind} memory cannot have a resource view: only one over an array can")
    whole = made.levels[0]
    if number:
        same = _VIEW_FORMATS.get((whole.format.name, whole.channels))
        if number != same:
            raise Refused(801, f"resource view format {number:#x} over an {whole.describe()} is not emulated")
    if (width, height, depth) != (whole.width, whole.height, whole.depth):
        raise Refused(
            1, f"a view of {width} x {height} x {depth} over an {whole.describe()}: the extents must be the same"
        )
    if not first <= last < len(made.levels):
        raise Refused(1, f"levels {first} to {last} of a view: the array has levels 0 to {len(made.levels) - 1}")
    layered = whole.flags & (LAYERED | CUBEMAP)
    if not layer <= last_layer < (whole.depth if layered else 1):
        raise Refused(1, f"layers {layer} to {last_layer} of a view are not layers of an {whole.describe()}")
    made.levels = made.levels[first : last + 1]
    made.first_layer, made.layers = layer, last_layer - layer + 1


# (format, channels) -> CUresourceViewFormat
_VIEW_FORMATS = {
    (name, channels): 1 + 3 * index + place
    for index, name in enumerate(("uint8", "int8", "uint16", "int16", "uint32", "int32", "float16", "float32"))
    for place, channels in enumerate((1, 2, 4))
}


@entry(
    "cuTexObjectCreate(CUtexObject *pTexObject, const CUDA_RESOURCE_DESC *pResDesc, const CUDA_TEXTURE_DESC *pTexDesc, "
    "const CUDA_RESOURCE_VIEW_DESC *pResViewDesc)",
    since=5000,
)
def texture_create(machine: Machine, address: int, resource: int, texture: int, view: int) -> None:
    """Create a texture object."""
    out(address)
    context = machine.context()
    descriptors = _bytes(resource, _RESOURCE), _bytes(texture, _TEXTURE.size), _bytes(view, _VIEW.size) if view else b""
    made = Texture()
    made.context, made.descriptors = context, descriptors
    kind, union = _resource(descriptors[0])
    _bind(machine, context, made, kind, union)
    _sample(made, descriptors[1])
    made.first_layer = 0
    layered = made.levels and made.levels[0].flags & (LAYERED | CUBEMAP)
    if layered:
        made.layers = made.levels[0].depth
    else:
        made.layers = 1
    if view:
        _restrict(made, descriptors[2])
    machine.add(made)
    context.owned[made.handle] = made
    put_u64(address, made.handle)


@entry("cuTexObjectDestroy(CUtexObject texObject)", since=5000)
def texture_destroy(machine: Machine, handle: int) -> None:
    """Destroy a texture object."""
    found = machine.usable(Texture, handle)
    del machine.handles[handle], found.context.owned[handle]


@entry("cuTexObjectGetResourceDesc(CUDA_RESOURCE_DESC *pResDesc, CUtexObject texObject)", since=5000)
def texture_resource(machine: Machine, address: int, handle: int) -> None:
    """Write the structure that describes the resource."""
    put_bytes(address, machine.usable(Texture, handle).descriptors[0])


@entry("cuTexObjectGetTextureDesc(CUDA_TEXTURE_DESC *pTexDesc, CUtexObject texObject)", since=5000)
def texture_sampling(machine: Machine, address: int, handle: int) -> None:
    """Write the structure that describes the sampling."""
    put_bytes(address, machine.usable(Texture, handle).descriptors[1])


@entry("cuTexObjectGetResourceViewDesc(CUDA_RESOURCE_VIEW_DESC *pResViewDesc, CUtexObject texObject)", since=5000)
def texture_view(machine: Machine, address: int, handle: int) -> None:
    """Write the structure of the resource view."""
    found = machine.usable(Texture, handle).descriptors[2]
    if not found:
        raise Refused(1, "this texture object was created without a resource view")
    put_bytes(address, found)


@entry("cuSurfObjectCreate(CUsurfObject *pSurfObject, const CUDA_RESOURCE_DESC *pResDesc)", since=5000)
def surface_create(machine: Machine, address: int, resource: int) -> None:
    """Create a surface object."""
    out(address)
    context = machine.context()
    descriptor = _bytes(resource, _RESOURCE)
    kind, union = _resource(descriptor)
    if kind != 0:
        raise Refused(1, f"resource type {kind}: a surface needs a CUDA array (CU_RESOURCE_TYPE_ARRAY, 0)")
    array = _array_of(machine, context, union)
    if not array.flags & SURFACE:
        raise Refused(1, f"an {array.describe()} was created without CUDA_ARRAY3D_SURFACE_LDST")
    made = machine.add(Surface(context, array, descriptor))
    context.owned[made.handle] = made
    put_u64(address, made.handle)


@entry("cuSurfObjectDestroy(CUsurfObject surfObject)", since=5000)
def surface_destroy(machine: Machine, handle: int) -> None:
    """Destroy a surface object."""
    found = machine.usable(Surface, handle)
    del machine.handles[handle], found.context.owned[handle]


@entry("cuSurfObjectGetResourceDesc(CUDA_RESOURCE_DESC *pResDesc, CUsurfObject surfObject)", since=5000)
def surface_resource(machine: Machine, address: int, handle: int) -> None:
    """Write the structure that describes the resource."""
    put_bytes(address, machine.usable(Surface, handle).descriptor)
