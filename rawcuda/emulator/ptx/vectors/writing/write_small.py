"""The source for arrays of conversions of floats of 8 bits and less, and of video instructions.

The scalar executor (ptx/translating/emitting/emit_small.py) has already checked the operands.

Read next    accesses.py
"""

from __future__ import annotations

from ...reading.syntax import BITS, Part, Register, Vector
from .moves import Moves
from .write_values import width_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...reading.syntax import Instruction, Operand
    from ...translating.table.forms import Shape

__all__ = ["Small"]


def _words(shape: Shape, wanted: str) -> str:
    return ",".join(word for word in wanted.split() if word in shape.chosen.values())


class Small(Moves):
    """The writer of instructions on parts of registers."""

    def do_cvt_small(self, instruction: Instruction, shape: Shape) -> None:
        """Write a conversion to or from two or four small floats."""
        to, type = shape.types
        target, *sources = instruction.operands
        if isinstance(sources[0], Vector):
            sources = [*sources[0].items, *sources[1:]]
        values: list[str] = []
        for source in sources:
            if type == "f32" and len(values) < 4:
                held = type
            else:
                held = "b32"
            if isinstance(source, Register) and BITS[source.type] < 32:
                held = f"b{BITS[source.type]}"
            values.append(self.value(source, held))
        if "rs" in shape.chosen.values():
            values[-1] = self.value(sources[-1], "b32")
        mode = _words(shape, "rn rz rp rs")
        call = f"cvt_small({to!r}, {type!r}, {mode!r}, {_words(shape, 'relu satfinite')!r}, {', '.join(values)})"
        if isinstance(target, Register):
            wide = width_of(target.type)
        else:
            wide = 4
        self.assign(target, f"b{8 * wide}", f"{call}.astype(u{wide})", True)

    def do_cvt_random(self, instruction: Instruction, shape: Shape) -> None:
        """Write a conversion to two halves that rounds with random bits."""
        target, a, b, extra = instruction.operands
        values = f"{self.value(a, 'f32')}, {self.value(b, 'f32')}, {self.value(extra, 'b32')}"
        flags = _words(shape, "relu satfinite")
        self.assign(target, "b32", f"to_half_randomly({shape.type[:-2]!r}, {values}, {flags!r})", True)

    def do_video(self, instruction: Instruction, shape: Shape) -> None:
        """Write a scalar video instruction."""
        target, first, second, *more = instruction.operands
        verb = instruction.opcode
        way, place = _words(shape, "add min max"), ""
        if isinstance(target, Part):
            place, target = target.selector, target.of
        (a, sa), (b, sb) = (_divided(operand) for operand in (first, second))
        third = self.constant("u4", 0)
        if more:
            c, sign = _divided(more[0])
            third, way = self.value(c, "u32"), sign or way
        types = shape.types if len(shape.types) == 3 else ("u32", *shape.types)
        flags = ",".join(sorted(word for word in shape.chosen.values() if word not in ("add", "min", "max")))
        given = f"{self.value(a, 'u32')}, {sa!r}, {self.value(b, 'u32')}, {sb!r}, {third}"
        self.assign(target, "u32", f"video({verb!r}, {types!r}, {flags!r}, {way!r}, {place!r}, {given})", True)

    def do_video_lanes(self, instruction: Instruction, shape: Shape) -> None:
        """Write a SIMD video instruction."""
        target, first, second, third = instruction.operands
        two = instruction.opcode[-1] == "2"
        mask = every = "10" if two else "3210"
        if isinstance(target, Part):
            mask, target = target.selector[1:], target.of
        given = []
        for operand, plain in ((first, every), (second, "32" if two else "7654")):
            source, selector = _divided(operand)
            given.append(f"{self.value(source, 'u32')}, {selector[1:] or plain!r}")
        types = shape.types if len(shape.types) == 3 else ("u32", *shape.types)
        flags = ",".join(sorted(shape.chosen.values(), key=lambda word: word == "add"))
        call = f"video_lanes({instruction.opcode!r}, {types!r}, {flags!r}, {mask!r}, {', '.join(given)}, "
        self.assign(target, "u32", f"{call}{self.value(third, 'u32')})", True)


def _divided(operand: Operand) -> tuple[Operand, str]:
    """Return a register and the selector of its part, which may be empty."""
    if isinstance(operand, Part):
        return (operand.of, operand.selector)
    return (operand, "")
