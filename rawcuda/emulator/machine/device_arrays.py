"""CUDA arrays, textures and surfaces: memory without addresses, and how kernels read and write it.

What it is   the objects behind the handles of entries/texturing/array_entries.py and
             entries/texturing/texture_entries.py, and the table of formats. The content of an array is an Allocation
             that is in no address space. Its rows follow each other without gaps.
What not     the calls (entries/texturing/array_entries.py, entries/texturing/texture_entries.py), and the arithmetic of
             a fetch (ptx/running/sampling.py).
Source       CUDA Driver API, cuArray3DCreate, cuTexObjectCreate, cuSurfObjectCreate
Read next    entries/texturing/array_entries.py, ptx/running/sampling.py
"""

from __future__ import annotations

from .codes import Refused
from .space import POISONED_UP_TO, Allocation, new_memory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .machine import Context

__all__ = [
    "Array",
    "CUBEMAP",
    "FORMATS",
    "Format",
    "GATHER",
    "LAYERED",
    "MipmappedArray",
    "SURFACE",
    "Surface",
    "Texture",
    "format_of",
]

LAYERED, SURFACE, CUBEMAP, GATHER = (
    1,
    2,
    4,
    8,
)  # CUDA_ARRAY3D_LAYERED, ..._SURFACE_LDST, ..._CUBEMAP, ..._TEXTURE_GATHER


class Format:
    """A format of components: the code of `struct`, bytes, and kind: "uint", "int" or "float"."""

    __slots__ = ("number", "code", "width", "kind", "name")

    def __init__(self, number: int, code: str, width: int, kind: str) -> None:
        self.number, self.code, self.width, self.kind = number, code, width, kind
        self.name = f"{kind}{8 * width}"


# CUarray_format -> Format
FORMATS = {
    number: Format(number, code, width, kind)
    for number, code, width, kind in (
        (0x01, "B", 1, "uint"),
        (0x02, "H", 2, "uint"),
        (0x03, "I", 4, "uint"),
        (0x08, "b", 1, "int"),
        (0x09, "h", 2, "int"),
        (0x0A, "i", 4, "int"),
        (0x10, "e", 2, "float"),
        (0x20, "f", 4, "float"),
    )
}
_MORE_FORMATS = frozenset((0x50, 0x9F, *range(0x91, 0x9F), *range(0xA1, 0xAA), *range(0xB0, 0xB5), *range(0xC0, 0xCC)))


def format_of(number: int, channels: int) -> Format:
    """Return a format, or refuse one that does not exist or is not emulated."""
    found = FORMATS.get(number)
    if found is None:
        if number in _MORE_FORMATS:
            raise Refused(801, f"CUarray_format {number:#x} (compressed, planar or normalized) is not emulated")
        raise Refused(1, f"{number:#x} is not a CUarray_format")
    if channels not in (1, 2, 4):
        raise Refused(1, f"{channels} channels: an element must have 1, 2 or 4")
    return found


class Array:
    """A CUDA array, or a level of a mipmapped one, whose `parent` destroys it."""

    __slots__ = (
        "handle",
        "context",
        "counted",
        "allocation",
        "width",
        "height",
        "depth",
        "format",
        "channels",
        "flags",
        "element",
        "parent",
    )

    def __init__(
        self,
        context: Context,
        extents: tuple[int, int, int],
        format: Format,
        channels: int,
        flags: int,
        parent: MipmappedArray | None = None,
    ) -> None:
        self.handle = 0
        self.context, self.format, self.channels, self.flags, self.parent = context, format, channels, flags, parent
        self.counted = parent is None
        self.width, self.height, self.depth = extents  # a height or depth of 0: there is no such dimension
        self.element = format.width * channels
        size = self.size
        self.allocation = Allocation(0, size, "array", new_memory(size, "an array"), self.describe(), None)
        if context.machine.space.watch and size <= POISONED_UP_TO:
            self.allocation.written = bytearray(size)

    @property
    def size(self) -> int:
        """Return the number of bytes."""
        return self.width * max(self.height, 1) * max(self.depth, 1) * self.element

    def describe(self) -> str:
        """Return the words that describe this array in a report."""
        extents = " x ".join(str(extent) for extent in (self.width, self.height, self.depth) if extent)
        words = [word for flag, word in ((LAYERED, "layered"), (CUBEMAP, "cubemap")) if self.flags & flag]
        return " ".join([*words, f"array of {extents} elements of {self.channels} {self.format.name}"])

    def place(self, x: int, y: int, z: int, width: int, height: int, depth: int) -> tuple[int, int, int]:
        """Return offset, pitch and plane of a box of bytes, rows and slices, or refuse a box that does not fit."""
        if self.context.state:
            raise Refused(self.context.state)
        if x % self.element or width % self.element:
            raise Refused(
                1,
                f"{width} bytes from byte {x} on: both must be multiples of an element, {self.element} bytes",
            )
        pitch = self.width * self.element
        for what, start, count, most in (
            ("bytes of a row", x, width, pitch),
            ("rows", y, height, max(self.height, 1)),
            ("slices", z, depth, max(self.depth, 1)),
        ):
            if start + count > most:
                raise Refused(1, f"{count} {what} from {start} on do not fit into the {most} of an {self.describe()}")
        plane = pitch * max(self.height, 1)
        return z * plane + y * pitch + x, pitch, plane

    def close(self) -> None:
        """End this array, which may have ended."""
        if self.allocation.alive:
            self.context.device.used -= self.size
            self.allocation.close()

    def __repr__(self) -> str:
        return f"<{self.describe()}>"


class MipmappedArray:
    """A mipmapped array: a list of arrays, each of which has half the extents of the previous one."""

    __slots__ = ("handle", "context", "levels")

    def __init__(
        self, context: Context, extents: tuple[int, int, int], format: Format, channels: int, flags: int, count: int
    ) -> None:
        self.handle = 0
        self.context = context
        self.levels: list[Array] = []
        layered = flags & (LAYERED | CUBEMAP)
        for level in range(count):
            w, h, d = (max(extent >> level, 1) if extent else 0 for extent in extents)
            self.levels.append(Array(context, (w, h, extents[2] if layered else d), format, channels, flags, self))

    def close(self) -> None:
        """End all levels."""
        for level in self.levels:
            level.close()
            self.context.machine.handles.pop(level.handle, None)


class Texture:
    """A texture object: its levels or its linear memory, and how it is sampled; the names are those of the structures.

    kind         "array", "linear" or "pitched"
    levels       the arrays of the levels; a plain array has one level, itself
    memory       of linear and pitched memory: the Allocation, and the offset of the first element
    integers     whether integers are read as integers; otherwise they are read as fractions
    descriptors  the bytes of the three structures, as they were given
    """

    __slots__ = (
        "handle",
        "context",
        "kind",
        "levels",
        "mipmapped",
        "memory",
        "offset",
        "pitch",
        "width",
        "height",
        "format",
        "channels",
        "address_modes",
        "linear",
        "integers",
        "normalized",
        "srgb",
        "mip_linear",
        "mip_bias",
        "mip_least",
        "mip_most",
        "border",
        "first_layer",
        "layers",
        "descriptors",
    )

    handle: int
    context: Context
    kind: str
    levels: list[Array]
    mipmapped: bool
    memory: Allocation | None
    offset: int
    pitch: int
    width: int
    height: int
    format: Format
    channels: int
    address_modes: tuple[int, int, int]
    linear: bool
    integers: bool
    normalized: bool
    srgb: bool
    mip_linear: bool
    mip_bias: float
    mip_least: float
    mip_most: float
    border: tuple[float, ...]
    first_layer: int
    layers: int
    descriptors: tuple[bytes, bytes, bytes]

    def describe(self) -> str:
        """Return the words that describe this texture in a report."""
        if self.kind == "array":
            if self.mipmapped:
                levels = f"{len(self.levels)} levels, the first an "
            else:
                levels = "an "
            return f"a texture over {levels}{self.levels[0].describe()}"
        if self.kind == "pitched":
            extents = f"{self.width} x {self.height}"
        else:
            extents = f"{self.width}"
        return f"a texture over {self.kind} memory of {extents} elements of {self.channels} {self.format.name}"


class Surface:
    """A surface object over an array."""

    __slots__ = ("handle", "context", "array", "descriptor")

    def __init__(self, context: Context, array: Array, descriptor: bytes) -> None:
        self.handle = 0
        self.context, self.array, self.descriptor = context, array, descriptor
