"""Texture fetches, and loads and stores of surfaces: the objects that generated code gets for a handle.

How          A fetch follows the formulas of the programming guide. A coordinate is rounded to 8 bits of fraction; its
             whole part chooses the elements, and the fraction is their weight. Address modes apply to the index of each
             element. Weighted sums are computed in double and rounded to float32 once.
What not     anisotropy, and seamless cubemaps. A GPU rounds sums differently, in the last bits.
Source       CUDA C++ Programming Guide, "Texture Fetching", "Texture Functions", "Surface Functions"; PTX ISA, "tex",
             "tld4", "suld", "sust", "sured"
Read next    machine/device_arrays.py
"""

from __future__ import annotations

import math
import struct
import sys

from ...machine.codes import ILLEGAL_ADDRESS, LAUNCH_FAILED, MISALIGNED_ADDRESS
from ...machine.space import Fault

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType
    from typing import Any

    from ...machine.device_arrays import Array, Surface, Texture
    from ...machine.space import Allocation
    from .lookups import Launch

    Values = tuple[Any, ...]

__all__ = ["Pixels", "Sampler", "open_surface", "open_texture"]

_CLAMP, _MIRROR, _BORDER = 1, 2, 3
_LAYERED, _SURFACE, _CUBEMAP, _GATHER = 1, 2, 4, 8
_MOST = 2.0**31
_M32 = 0xFFFFFFFF


def single(value: float) -> float:
    """Round to float32."""
    try:
        return struct.unpack("<f", struct.pack("<f", value))[0]  # type: ignore[no-any-return]
    except OverflowError:
        return math.copysign(math.inf, value)


def _bits(value: float) -> int:
    return struct.unpack("<I", struct.pack("<f", single(value)))[0]  # type: ignore[no-any-return]


def _half(value: float) -> int:
    """Round to float16, and return the bits."""
    try:
        return struct.unpack("<H", struct.pack("<e", value))[0]  # type: ignore[no-any-return]
    except OverflowError:
        if value < 0:
            return 0xFC00
        return 0x7C00


def _finite(value: float) -> float:
    if value != value:
        return 0.0
    return max(-_MOST, min(_MOST, value))


def _indexed(index: int, extent: int, mode: int) -> int:
    """Apply an address mode to an index; -1 is the border."""
    if 0 <= index < extent:
        return index
    if mode == _CLAMP:
        if index < 0:
            return 0
        return extent - 1
    if mode == _BORDER:
        return -1
    if mode == _MIRROR:
        index %= 2 * extent
        if index < extent:
            return index
        return 2 * extent - 1 - index
    return index % extent


def _linear(fraction: float) -> float:
    """Decode a component of the sRGB encoding."""
    if fraction <= 0.04045:
        return fraction / 12.92
    return math.pow((fraction + 0.055) / 1.055, 2.4)


def _geometry(array: Array) -> str:
    """Return the geometry of an array, in the words of PTX."""
    if array.flags & _CUBEMAP:
        if array.flags & _LAYERED:
            return "acube"
        return "cube"
    if array.flags & _LAYERED:
        if array.height:
            return "a2d"
        return "a1d"
    if array.depth:
        return "3d"
    if array.height:
        return "2d"
    return "1d"


# The faces of a cube, in the order of its layers: the axis, its sign, and axis and sign of the two coordinates there.
_FACES = (
    (0, 1, 2, -1, 1, -1),
    (0, -1, 2, 1, 1, -1),
    (1, 1, 0, 1, 2, 1),
    (1, -1, 0, 1, 2, -1),
    (2, 1, 0, 1, 1, -1),
    (2, -1, 0, -1, 1, -1),
)


class _Level:
    """The memory of a level: where its elements are, and how many."""

    __slots__ = ("allocation", "start", "width", "height", "depth", "pitch", "plane")

    def __init__(
        self, allocation: Allocation, start: int, extents: tuple[int, int, int], pitch: int, plane: int
    ) -> None:
        self.allocation, self.start, self.pitch, self.plane = allocation, start, pitch, plane
        self.width, self.height, self.depth = extents


class _Opened:
    """The base of textures and surfaces: their reports."""

    def __init__(self, launch: Launch, words: str) -> None:
        self.launch, self.words = launch, words

    def warn(self, text: str, *, aloud: bool = True) -> None:
        """Report a finding that does not stop the kernel; `aloud`: also on stderr."""
        self.launch.warn(f"{text}: {self.words}", self._frame(), aloud=aloud)

    def unwritten(self, x: int, y: int, z: int) -> None:
        """Report a read of an element that was never written, or raise it if the emulator is strict."""
        text = f"element {(x, y, z)} was never written: {self.words}"
        if self.launch.space.strict:
            raise Fault(LAUNCH_FAILED, text)
        self.launch.warn(text, self._frame(), aloud=True)

    def _frame(self) -> FrameType:
        """Return the frame of the generated code."""
        frame: Any = sys._getframe(1)
        here = frame.f_code.co_filename  # a frozen module has no __file__
        while frame.f_code.co_filename == here and frame.f_back is not None:
            frame = frame.f_back
        return frame  # type: ignore[no-any-return]


class Sampler(_Opened):
    """A texture as a kernel uses it."""

    def __init__(self, launch: Launch, texture: Texture) -> None:
        super().__init__(launch, texture.describe())
        self.texture = texture
        self.element = texture.format.width * texture.channels
        self.unpack = struct.Struct(f"<{texture.channels}{texture.format.code}").unpack_from
        if texture.levels:
            self.geometry = _geometry(texture.levels[0])
            self.levels = [_level_of(array) for array in texture.levels]
        else:
            assert texture.memory is not None
            if texture.kind == "linear":
                self.geometry = "1d"
            else:
                self.geometry = "2d"
            extents = texture.width, max(texture.height, 1), 1
            self.levels = [_Level(texture.memory, texture.offset, extents, texture.pitch, 0)]
        self.cube = "cube" in self.geometry
        self.layered = self.geometry[0] == "a" or self.cube
        if self.cube:
            self.dimensions = 2
        else:
            self.dimensions = int(self.geometry.lstrip("a")[0])
        self.most = {"B": 255, "H": 65535, "b": 127, "h": 32767}.get(texture.format.code, 0)

    # -- elements

    def _read(self, level: _Level, x: int, y: int, z: int) -> Values:
        """Return the components of an element, as floats or as integers; any index of -1 is the border."""
        texture = self.texture
        if x < 0 or y < 0 or z < 0:
            border = texture.border[: texture.channels]
            if texture.integers:
                return tuple(map(int, border))
            return border
        allocation = level.allocation
        if not allocation.alive:
            raise Fault(ILLEGAL_ADDRESS, f"the memory was freed: {self.words}")
        at = level.start + z * level.plane + y * level.pitch + x * self.element
        written = allocation.written
        if written is not None and not any(written[at : at + self.element]):
            self.unwritten(x, y, z)
        values: Values = self.unpack(allocation.data, at)
        if texture.integers or not self.most:
            return values
        most = self.most
        values = tuple([max(value / most, -1.0) for value in values])
        if texture.srgb:
            values = tuple([_linear(value) if channel < 3 else value for channel, value in enumerate(values)])
        return values

    def _finish(self, values: Values, dtype: str) -> Values:
        """Return four components as an instruction's type has them: floats, or 32 bits."""
        integers = self.texture.integers
        if integers == (dtype[0] == "f"):
            self.warn(f"a fetch of .{dtype} reads {'integers' if integers else 'floats'} as their bits")
        if integers:
            values = *values, *(0, 0, 0, 1)[len(values) :]
            words = [value & _M32 for value in values]
            if dtype == "f32":
                return tuple([struct.unpack("<f", struct.pack("<I", word))[0] for word in words])
            if dtype == "f16x2":
                return words[0] & 0xFFFF | (words[1] & 0xFFFF) << 16, words[2] & 0xFFFF | (words[3] & 0xFFFF) << 16
            if dtype == "f16":
                return tuple([word & 0xFFFF for word in words])
            return tuple(words)
        values = *values, *(0.0, 0.0, 0.0, 1.0)[len(values) :]
        if dtype == "f32":
            return tuple([single(value) for value in values])
        if dtype[:3] == "f16":
            halves = [_half(value) for value in values]
            if dtype == "f16":
                return tuple(halves)
            return (halves[0] | halves[1] << 16, halves[2] | halves[3] << 16)
        return tuple([_bits(value) for value in values])

    # -- fetches

    def fetch(self, geometry: str, dtype: str, *coordinates: int) -> Values:
        """Read the element of an integer index, from linear memory."""
        if self.texture.kind != "linear" or geometry != "1d":
            raise Fault(
                LAUNCH_FAILED,
                f"a fetch with integer coordinates (tex1Dfetch) reads linear memory; this is {self.words}",
            )
        index, level = coordinates[0], self.levels[0]
        if not 0 <= index < level.width:
            self.warn(f"element {index} is out of range, and reads as 0", aloud=False)
            zero: Any = 0 if self.texture.integers else 0.0
            return self._finish((zero,) * self.texture.channels, dtype)
        return self._finish(self._read(level, index, 0, 0), dtype)

    def sample(self, geometry: str, dtype: str, lod: float | None, *coordinates: Any) -> Values:
        """Read with the address and filter modes of the texture.

        lod          the level of detail; None: level 0
        coordinates  the layer first if there is one, then x, y, z
        """
        self._check(geometry)
        layer, place = self._place(coordinates)
        return self._finish(self._at_lod(lod, place, layer), dtype)

    def _check(self, geometry: str) -> None:
        if geometry != self.geometry or self.texture.kind == "linear":
            if self.texture.kind == "linear":
                needs = "tex1Dfetch"
            else:
                needs = f".{self.geometry}"
            raise Fault(LAUNCH_FAILED, f"a fetch of geometry .{geometry} needs another texture ({needs}): {self.words}")

    def _place(self, coordinates: Sequence[Any]) -> tuple[int, list[float]]:
        """Return the layer, and the coordinates in it."""
        layer, texture = 0, self.texture
        values = list(coordinates)
        if self.geometry[0] == "a":
            layer = values.pop(0)
            if self.cube:
                count = texture.layers // 6
            else:
                count = texture.layers
            layer = min(max(layer, 0), count - 1)
        if self.cube:
            face, x, y, _ = _face(values)
            return 6 * layer + face, [_finite(x), _finite(y)]
        return layer, [_finite(value) for value in values[: self.dimensions]]

    def _at_lod(self, lod: float | None, place: list[float], layer: int) -> Values:
        texture = self.texture
        if not texture.mipmapped:
            return self._filtered(self.levels[0], place, layer)
        last = len(self.levels) - 1
        detail = _finite(lod or 0.0) + texture.mip_bias
        detail = min(max(min(max(detail, texture.mip_least), texture.mip_most), 0.0), float(last))
        if not texture.mip_linear:
            return self._filtered(self.levels[min(math.floor(detail + 0.5), last)], place, layer)
        fixed = math.floor(detail * 256 + 0.5)
        low, weight = fixed >> 8, (fixed & 255) / 256
        first = self._filtered(self.levels[low], place, layer)
        if not weight:
            return first
        second = self._filtered(self.levels[low + 1], place, layer)
        return tuple([a * (1 - weight) + b * weight for a, b in zip(first, second)])

    def _filtered(self, level: _Level, place: list[float], layer: int) -> Values:
        """Return the (weighted) element of a place in one level."""
        texture = self.texture
        extents = (level.width, level.height, level.depth)[: self.dimensions]
        modes = (_CLAMP, _CLAMP) if self.cube else texture.address_modes
        layer += texture.first_layer
        if texture.normalized or self.cube:
            place = [single(value * extent) for value, extent in zip(place, extents)]
        if not texture.linear:
            found = [_indexed(math.floor(value), extent, mode) for value, extent, mode in zip(place, extents, modes)]
            return self._element(level, found, layer)
        taps: list[tuple[float, list[int]]] = [(1.0, [])]
        for value, extent, mode in zip(place, extents, modes):
            fixed = math.floor((value - 0.5) * 256 + 0.5)
            index, weight = fixed >> 8, (fixed & 255) / 256
            ends = [(1 - weight, _indexed(index, extent, mode))]
            if weight:
                ends.append((weight, _indexed(index + 1, extent, mode)))
            taps = [(whole * part, [*before, end]) for whole, before in taps for part, end in ends]
        sums = [0.0] * texture.channels
        for weight, found in taps:
            for channel, component in enumerate(self._element(level, found, layer)):
                sums[channel] += weight * component
        return tuple(sums)

    def _element(self, level: _Level, found: list[int], layer: int) -> Values:
        x, y, z = (*found, 0, 0)[:3]
        return self._read(level, x, y, layer if self.layered else z)

    def slope(self, geometry: str, dx: tuple[float, ...], dy: tuple[float, ...], *coordinates: Any) -> float:
        """Return the level of detail for two gradients of the coordinates."""
        level = self.levels[0]
        scale: Sequence[float] = (level.width, level.height, level.depth)
        if not self.texture.normalized:
            scale = 1.0, 1.0, 1.0
        if self.cube:
            largest = max(abs(value) for value in coordinates[-3:]) or 1.0
            scale = (level.width / 2 / largest,) * 3
        if self.cube:
            count = 3
        else:
            count = self.dimensions
        longest = max(
            math.sqrt(sum((_finite(step) * factor) ** 2 for step, factor in zip(steps[:count], scale)))
            for steps in (dx, dy)
        )
        if longest:
            return math.log2(longest)
        return -_MOST

    def gather(self, component: int, geometry: str, dtype: str, *coordinates: Any) -> Values:
        """Return a component of the four elements that linear filtering would use, counterclockwise from lower left."""
        self._check(geometry)
        levels = self.texture.levels
        if not levels or not levels[0].flags & _GATHER and not self.cube:
            raise Fault(
                LAUNCH_FAILED, f"a gather needs an array made for it (CUDA_ARRAY3D_TEXTURE_GATHER): {self.words}"
            )
        layer, place = self._place(coordinates)
        texture, level = self.texture, self.levels[0]
        ends = []
        for value, extent, mode in zip(place, (level.width, level.height), texture.address_modes):
            if texture.normalized or self.cube:
                value = single(value * extent)
            index = math.floor((value - 0.5) * 256 + 0.5) >> 8
            if self.cube:
                mode = _CLAMP
            ends.append((_indexed(index, extent, mode), _indexed(index + 1, extent, mode)))
        (left, right), (top, bottom) = ends
        layer += texture.first_layer
        found = []
        for x, y in ((left, bottom), (right, bottom), (right, top), (left, top)):
            values = self._element(level, [x, y], layer)
            missing: Any = 1 if component == 3 else 0
            found.append(values[component] if component < len(values) else missing)
        return self._finish(tuple(found), dtype)

    def query(self, what: str, level: int = 0) -> int:
        """Answer txq."""
        texture = self.texture
        if level >= len(self.levels):
            raise Fault(LAUNCH_FAILED, f"level {level} of {len(self.levels)}: {self.words}")
        chosen = self.levels[level]
        if what == "normalized_coords":
            return int(texture.normalized)
        if what == "num_mipmap_levels":
            return len(self.levels)
        if what == "num_samples":
            return 1
        if what == "array_size":
            if self.layered:
                return texture.layers
            return 0
        if what in _EXTENTS:
            return _extent(what, chosen, self.dimensions)
        return _described(what, texture)


_EXTENTS = ("width", "height", "depth")


def _extent(what: str, level: _Level, dimensions: int) -> int:
    place = _EXTENTS.index(what)
    if place < dimensions:
        return (level.width, level.height, level.depth)[place]
    return 0


def _described(what: str, thing: Texture | Array) -> int:
    """Return the channel order or the data type of a format, as the numbers of OpenCL that PTX uses."""
    if what == "channel_order":
        return {1: 0x10B0, 2: 0x10B2, 4: 0x10B5}[thing.channels]
    kinds = {"int8": 0x10D7, "int16": 0x10D8, "int32": 0x10D9, "uint8": 0x10DA, "uint16": 0x10DB, "uint32": 0x10DC}
    return {**kinds, "float16": 0x10DD, "float32": 0x10DE}[thing.format.name]


def _level_of(array: Array) -> _Level:
    pitch = array.width * array.element
    extents = array.width, max(array.height, 1), max(array.depth, 1)
    return _Level(array.allocation, 0, extents, pitch, pitch * extents[1])


def _face(values: Sequence[float]) -> tuple[int, float, float, float]:
    """Return the face of a cube that a direction hits, the place in it from 0 to 1, and the major coordinate."""
    direction = [0.0 if value != value else value for value in values[:3]]
    lengths = [abs(value) for value in direction]
    if lengths[0] >= max(lengths[1:]):
        axis = 0
    elif lengths[1] >= lengths[2]:
        axis = 1
    else:
        axis = 2
    face = 2 * axis + (direction[axis] < 0)
    _, _, s_axis, s_sign, t_axis, t_sign = _FACES[face]
    major = lengths[axis] or 1.0
    return face, (s_sign * direction[s_axis] / major + 1) / 2, (t_sign * direction[t_axis] / major + 1) / 2, major


class Pixels(_Opened):
    """A surface as a kernel uses it."""

    def __init__(self, launch: Launch, surface: Surface) -> None:
        super().__init__(launch, f"a surface over an {surface.array.describe()}")
        self.array = array = surface.array
        self.level = _level_of(array)
        if array.flags & _CUBEMAP:
            self.geometry = "a2d"
        else:
            self.geometry = _geometry(array)

    def _locate(self, geometry: str, bounds: str, size: int, coordinates: Sequence[int], in_bytes: bool) -> int:
        """Return the offset of an access, or -1 for one that is out of range and has no effect."""
        array, level = self.array, self.level
        if geometry != self.geometry:
            raise Fault(
                LAUNCH_FAILED, f"an access of geometry .{geometry} to another kind (.{self.geometry}): {self.words}"
            )
        if not array.allocation.alive:
            raise Fault(ILLEGAL_ADDRESS, f"the array was destroyed: {self.words}")
        values = list(coordinates)
        if geometry[0] == "a":
            layer = values.pop(0)
        else:
            layer = 0
        x, y, z = (*values[: int(geometry.lstrip("a")[0])], 0, 0)[:3]
        if geometry[0] == "a":
            z = layer
        if in_bytes:
            step = 1
        else:
            step = array.element
        if in_bytes and x % size and bounds != "clamp":
            raise Fault(
                MISALIGNED_ADDRESS,
                f"byte {x} of a row is not a multiple of the {size} bytes of the access: {self.words}",
            )
        if size > level.pitch and bounds != "zero":
            raise Fault(LAUNCH_FAILED, f"{size} bytes are more than a row of {level.pitch} has: {self.words}")
        last = (level.pitch - size, level.height - 1, level.depth - 1)
        places = [x * step, y, z]
        for axis, (place, most) in enumerate(zip(places, last)):
            if 0 <= place <= most:
                continue
            if bounds == "clamp":
                if place < 0:
                    places[axis] = 0
                else:
                    places[axis] = most
            elif bounds == "zero":
                return -1  # (always if the access is wider than a row)
            else:
                what = ("byte" if in_bytes else "element", "row", "layer" if geometry[0] == "a" else "slice")[axis]
                raise Fault(
                    LAUNCH_FAILED, f"{what} {place // (step if axis == 0 else 1)} is out of range: {self.words}"
                )
        if places[0] % size and in_bytes:
            places[0] -= places[0] % size
        return places[2] * level.plane + places[1] * level.pitch + places[0]

    def load(self, geometry: str, width: int, count: int, bounds: str, *coordinates: int) -> Values:
        """Read `count` values of `width` bytes; the first coordinate counts bytes."""
        at = self._locate(geometry, bounds, width * count, coordinates, True)
        if at < 0:
            return (0,) * count
        allocation = self.array.allocation
        if allocation.written is not None and not any(allocation.written[at : at + width * count]):
            plane, rest = divmod(at, self.level.plane)
            row, byte = divmod(rest, self.level.pitch)
            self.unwritten(byte // self.array.element, row, plane)
        return struct.unpack_from(f"<{count}{_CODES[width]}", allocation.data, at)

    def store(self, geometry: str, width: int, bounds: str, values: Sequence[int], *coordinates: int) -> None:
        """Write values of `width` bytes; the first coordinate counts bytes."""
        at = self._locate(geometry, bounds, width * len(values), coordinates, True)
        if at >= 0:
            mask = (1 << 8 * width) - 1
            self._put(at, struct.pack(f"<{len(values)}{_CODES[width]}", *[value & mask for value in values]))

    def _put(self, at: int, data: bytes) -> None:
        self.array.allocation.data[at : at + len(data)] = data
        self.array.allocation.wrote(at, len(data))

    def store_formatted(self, geometry: str, bounds: str, words: Sequence[int], *coordinates: int) -> None:
        """Convert 32-bit words to the format of the array, and write an element."""
        array = self.array
        at = self._locate(geometry, bounds, array.element, coordinates, False)
        if at < 0:
            return
        kind, width, code = array.format.kind, array.format.width, array.format.code
        made = bytearray()
        for word in (*words, 0, 0, 0)[: array.channels]:
            if kind == "float":
                value = struct.unpack("<f", struct.pack("<I", word & _M32))[0]
                try:
                    made += struct.pack("<" + code, value)
                except OverflowError:
                    made += struct.pack("<" + code, math.copysign(math.inf, value))
            elif kind == "uint":
                made += struct.pack("<" + code, min(word & _M32, (1 << 8 * width) - 1))
            else:
                number = (word & _M32) - ((word & 1 << 31) << 1)
                most = (1 << 8 * width - 1) - 1
                made += struct.pack("<" + code, min(max(number, -most - 1), most))
        self._put(at, bytes(made))

    def reduce(
        self, operation: str, in_bytes: bool, type: str, geometry: str, bounds: str, value: int, *coordinates: int
    ) -> None:
        """Update a value in place: add, min, max, and, or."""
        width = int(type[1:]) // 8
        at = self._locate(geometry, bounds, width if in_bytes else self.array.element, coordinates, in_bytes)
        if at < 0:
            return
        signed = type[0] == "s" or type[0] == "b" and self.array.format.kind == "int"
        if signed:
            code = _CODES[width].lower()
        else:
            code = _CODES[width]
        old = struct.unpack_from("<" + code, self.array.allocation.data, at)[0]
        mask = (1 << 8 * width) - 1
        if signed:
            value = (value & mask) - ((value & mask) >> 8 * width - 1 << 8 * width)
        else:
            value = value & mask
        new = {
            "add": old + value,
            "min": min(old, value),
            "max": max(old, value),
            "and": old & value,
            "or": old | value,
        }
        self._put(at, (new[operation] & mask).to_bytes(width, "little"))

    def query(self, what: str) -> int:
        """Answer suq."""
        array = self.array
        if what == "memory_layout":
            return 1
        if what == "array_size":
            if self.geometry[0] == "a":
                return max(array.depth, 1)
            return 0
        if what in _EXTENTS:
            return _extent(what, self.level, int(self.geometry.lstrip("a")[0]))
        return _described(what, array)


_CODES = {1: "B", 2: "H", 4: "I", 8: "Q"}


def open_texture(launch: Launch, handle: int) -> Sampler:
    """Return the texture of a handle for a launch.

    raises  Fault   the handle is not that of a texture in the launch's context (719)
    """
    made = launch.opened.get(handle)
    if type(made) is Sampler:
        return made
    if launch.opaque is not None:
        found = launch.opaque(handle)
    else:
        found = None
    if found is None or type(found).__name__ != "Texture":
        raise Fault(LAUNCH_FAILED, _unknown(handle, found, "a texture"))
    if found.memory is not None and launch.rights is not None and found.memory.alive:
        if not launch.rights(found.memory):
            raise Fault(
                ILLEGAL_ADDRESS, f"memory of another device or context, without access to it: {found.describe()}"
            )
    made = launch.opened[handle] = Sampler(launch, found)
    return made


def open_surface(launch: Launch, handle: int) -> Pixels:
    """Return the surface of a handle for a launch.

    raises  Fault   the handle is not that of a surface in the launch's context (719)
    """
    made = launch.opened.get(handle)
    if type(made) is Pixels:
        return made
    if launch.opaque is not None:
        found = launch.opaque(handle)
    else:
        found = None
    if found is None or type(found).__name__ != "Surface":
        raise Fault(LAUNCH_FAILED, _unknown(handle, found, "a surface"))
    made = launch.opened[handle] = Pixels(launch, found)
    return made


def _unknown(handle: int, found: object, wanted: str) -> str:
    if found is not None:
        what = f"that of a {type(found).__name__.lower()}"
    else:
        what = "unknown, or of a destroyed object"
    return f"{handle:#x} is not the handle of {wanted} object: it is {what}"
