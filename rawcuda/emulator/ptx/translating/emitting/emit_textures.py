"""The emitter of texture fetches, and of loads and stores of surfaces.

A kernel gets a texture or a surface as a 64-bit handle (the "unified mode" of PTX, without .texref variables). The
generated code asks the launch for the object of the handle:

    w = L.texture(r_rd1).sample('2d', 'f32', None, r_f1, r_f2)
    r_f3 = w[0]; r_f4 = w[1]

Source       PTX ISA, "Texture Instructions", "Surface Instructions"
Read next    ../../running/sampling.py
"""

from __future__ import annotations

from ...reading.syntax import BITS, Address, Instruction, Pair, Register, Sink, Texel, Vector
from ..table.forms import check_read, coordinate_types
from .emit import Emitter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...reading.syntax import Operand
    from ..table.forms import Shape

__all__ = ["TextureEmitter"]

# geometry: how many coordinates count; a vector has 1, 2 or 4 items, of which the last may be superfluous
_COORDINATES = {"1d": 1, "2d": 2, "3d": 3, "a1d": 2, "a2d": 3, "cube": 3, "acube": 4}
_SLOPES = {"1d": 1, "2d": 2, "3d": 4, "a1d": 1, "a2d": 2, "cube": 4, "acube": 4}


class TextureEmitter(Emitter):
    """The emitter of instructions that use textures and surfaces."""

    def do_tex(self, instruction: Instruction, shape: Shape) -> None:
        """Write a fetch: with coordinates of float32, or with an integer index."""
        handle, coordinates = self._texel(instruction, shape)
        dtype, ctype = shape.types
        given = f"{shape.chosen['geom']!r}, {dtype!r}"
        if ctype == "s32":
            self.put(f"w = L.texture({handle}).fetch({given}, {', '.join(coordinates)})")
        else:
            lod = "None"
            if "level" in shape.chosen:
                lod = self.value(instruction.operands[2], "f32")
            elif "grad" in shape.chosen:
                count = _SLOPES[shape.chosen["geom"]]
                slopes = [self._slope(instruction, operand, count) for operand in instruction.operands[2:4]]
                self.put(f"x = L.texture({handle}).slope({given[: given.index(',')]}, {', '.join(slopes)}, "
                         f"{', '.join(coordinates)})")  # fmt: skip
                lod = "x"
            self.put(f"w = L.texture({handle}).sample({given}, {lod}, {', '.join(coordinates)})")
        self._scatter(instruction, instruction.operands[0], dtype, 2 if dtype == "f16x2" else 4)

    def do_tld4(self, instruction: Instruction, shape: Shape) -> None:
        """Write a gather of one component of four elements."""
        handle, coordinates = self._texel(instruction, shape)
        dtype = shape.types[0]
        component = "rgba".index(shape.chosen["component"])
        given = f"{component}, {shape.chosen['geom']!r}, {dtype!r}, {', '.join(coordinates)}"
        self.put(f"w = L.texture({handle}).gather({given})")
        self._scatter(instruction, instruction.operands[0], dtype, 4)

    def do_query(self, instruction: Instruction, shape: Shape) -> None:
        """Write a query of a texture or a surface."""
        address = instruction.operands[1]
        assert isinstance(address, Address)
        if instruction.opcode == "txq":
            what = "texture"
        else:
            what = "surface"
        given = repr(shape.chosen["query"])
        if "level" in shape.chosen:
            given += f", {self.value(instruction.operands[2], 'u32')}"
        handle = self._handle(instruction, address.base, address.offset)
        self.assign(instruction.operands[0], "b32", f"L.{what}({handle}).query({given})")

    def do_suld(self, instruction: Instruction, shape: Shape) -> None:
        """Write a load from a surface."""
        handle, coordinates = self._texel(instruction, shape)
        count = self._lanes(shape)
        given = f"{shape.chosen['geom']!r}, {BITS[shape.type] // 8}, {count}, {_bounds(shape)}"
        self.put(f"w = L.surface({handle}).load({given}, {', '.join(coordinates)})")
        self._scatter(instruction, instruction.operands[0], shape.type, count)

    def do_sust(self, instruction: Instruction, shape: Shape) -> None:
        """Write a store to a surface: of bytes, or with a conversion to the format of its elements."""
        handle, coordinates = self._texel(instruction, shape)
        count = self._lanes(shape)
        values = self._components(instruction, instruction.operands[1], count)
        bits = f"b{BITS[shape.type]}"
        shown = "".join(f"{self._word(value, shape.type, bits)}, " for value in values)
        formatted = "p" in shape.chosen
        if formatted:
            width = ""
        else:
            width = f"{BITS[shape.type] // 8}, "
        given = f"{shape.chosen['geom']!r}, {width}{_bounds(shape)}, ({shown}), {', '.join(coordinates)}"
        self.put(f"L.surface({handle}).{'store_formatted' if formatted else 'store'}({given})")

    def do_sured(self, instruction: Instruction, shape: Shape) -> None:
        """Write an update of a value in a surface."""
        handle, coordinates = self._texel(instruction, shape)
        chosen = shape.chosen
        value = self.value(instruction.operands[1], f"b{BITS[shape.type]}")
        given = f"{chosen['reduction']!r}, {'b' in chosen}, {shape.type!r}, {chosen['geom']!r}, {_bounds(shape)}"
        self.put(f"L.surface({handle}).reduce({given}, {value}, {', '.join(coordinates)})")

    # -- operands

    def _lanes(self, shape: Shape) -> int:
        count = int(shape.chosen.get("vec", "v1")[1])
        if count * BITS[shape.type] > 128:
            raise self.reject("Vector type too large, exceeds 128 bit limit")
        return count

    def _word(self, operand: Operand, type: str, bits: str) -> str:
        """Return the bits of a value."""
        if isinstance(operand, Register):
            return self.value(operand, bits)
        text = self.value(operand, type)
        if type == "f32":
            return f"bits_of_32({text})"
        return text

    def _handle(self, instruction: Instruction, base: object, offset: int) -> str:
        if not isinstance(base, Register) or offset:
            raise self.reject(
                f"'{instruction.text[:80]}' is not emulated: textures and surfaces are handles, in a register of .u64"
            )
        if BITS[base.type] != 64 or base.type[0] == "f":
            raise self.mismatch(instruction)
        return self.value(base, "b64")

    def _texel(self, instruction: Instruction, shape: Shape) -> tuple[str, list[str]]:
        """Return the handle, and the coordinates as expressions: signed integers, or floats."""
        texel = next(operand for operand in instruction.operands if isinstance(operand, Texel))
        types = coordinate_types(shape, texel)
        geometry = shape.chosen["geom"]
        count = _COORDINATES[geometry]
        if geometry[-4:] == "cube" and types[-1] != "f32":
            raise self.reject("Floating-point coordinates required")
        if len(types) not in (1, 2, 4):
            raise self.reject(f"Illegal vector size: {len(types)}")
        if len(types) < count:
            raise self.reject(f"Operand vector size doesn't match geometry for instruction '{instruction.opcode}'")
        values = []
        for place, (item, type) in enumerate(zip(texel.coordinates.items[:count], types)):
            # As in ptxas: registers of any type with 32 bits, except for a layer, and for integers without layers.
            if geometry[0] == "a":
                strict = not isinstance(item, Register) or not place
            else:
                strict = type != "f32"
            check_read(instruction, item, type if strict else "b32", False)
            values.append(self.signed(item, type) if type != "f32" else self.value(item, type))
        return self._handle(instruction, texel.base, texel.offset), values

    def _components(self, instruction: Instruction, operand: Operand, count: int) -> list[Operand]:
        items: list[Operand] = operand.items if isinstance(operand, Vector) else [operand]
        if len(items) != count:
            raise self.mismatch(instruction)
        return items

    def _slope(self, instruction: Instruction, operand: Operand, count: int) -> str:
        """Return a vector of floats as a tuple."""
        if not isinstance(operand, Vector):
            raise self.reject(f"Vector expected for instruction '{instruction.opcode}'")
        if len(operand.items) != count:
            raise self.reject(f"Operand vector size doesn't match geometry for instruction '{instruction.opcode}'")
        return "(" + "".join(f"{self.value(item, 'f32')}, " for item in operand.items) + ")"

    def _scatter(self, instruction: Instruction, target: Operand, type: str, count: int) -> None:
        """Write the items of the result, which is in w, to a vector of registers; the predicate is always true."""
        if isinstance(target, Pair):
            self.assign(target.second, "pred", "True")
            target = target.first
        for number, item in enumerate(self._components(instruction, target, count)):
            if not isinstance(item, Sink):
                self.assign(item, type, f"w[{number}]")


def _bounds(shape: Shape) -> str:
    return repr(shape.chosen["bounds"])
