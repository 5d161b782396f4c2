"""The code of conversions of floats of 8 bits and less, and of video instructions.

Source       PTX ISA, "cvt", "Scalar Video Instructions", "SIMD Video Instructions"
Read next    ptx/running/units/small_units.py and ../../running/units/video.py, which the expressions call
"""

from __future__ import annotations

from ...reading.syntax import BITS, Int, Part, Register, Vector
from ..table.forms import check_read
from .control import ControlEmitter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...reading.syntax import Instruction, Operand
    from ..table.forms import Shape

__all__ = ["SmallEmitter"]

_ONE = ("", "b0", "b1", "b2", "b3", "h0", "h1")


class SmallEmitter(ControlEmitter):
    """The emitter of instructions on parts of registers."""

    def do_cvt_small(self, instruction: Instruction, shape: Shape) -> None:
        """Write a conversion to or from two or four small floats."""
        to, type = shape.types
        target, *sources = instruction.operands
        self._specific(instruction, shape)
        if isinstance(sources[0], Vector):
            if len(sources[0].items) != 4:
                raise self.mismatch(instruction)
            sources = [*sources[0].items, *sources[1:]]
        elif "rs" in shape.chosen or any(isinstance(each, Vector) for each in sources):
            raise self.mismatch(instruction)
        values: list[str] = []
        for source in sources:
            if type == "f32" and len(values) < 4:
                held = type
            else:
                held = "b32"
            if isinstance(source, Register) and BITS[source.type] < 32:
                held = f"b{BITS[source.type]}"
            values.append(self.value(source, held))
        if "rs" in shape.chosen:
            self._check_random(instruction)
            values[-1] = self.value(sources[-1], "b32")
        mode = next((word for word in ("rn", "rz", "rp", "rs") if word in shape.chosen.values()), "rn")
        flags = ",".join(word for word in ("relu", "satfinite") if word in shape.chosen)
        call = f"SMALL['{to} {type} {mode} {flags}']({', '.join(values)})"
        if isinstance(target, Register):
            wide = BITS[target.type]
        else:
            wide = 32
        self.assign(target, f"b{wide}", call)

    def do_cvt_random(self, instruction: Instruction, shape: Shape) -> None:
        """Write a conversion to two halves that rounds with random bits."""
        self._specific(instruction, shape)
        self._check_random(instruction)
        target, a, b, extra = instruction.operands
        flags = ",".join(word for word in ("relu", "satfinite") if word in shape.chosen)
        values = f"{self.value(a, 'f32')}, {self.value(b, 'f32')}, {self.value(extra, 'b32')}"
        self.assign(target, "b32", f"to_half_randomly({shape.type[:-2]!r}, {values}, {flags!r})")

    def _check_random(self, instruction: Instruction) -> None:
        """Reject random bits that are not in a register, or in one of another type, as ptxas does."""
        extra = instruction.operands[-1]
        if not isinstance(extra, Register) or extra.type not in ("b32", "f32"):
            raise self.mismatch(instruction)

    def _specific(self, instruction: Instruction, shape: Shape) -> None:
        """Reject formats and modes that only the targets of one architecture or family have."""
        words = {word[:4] for word in shape.types}
        module = self.unit.module
        if "rs" in shape.chosen:
            fine = module.target[-1] == "a" and module.architecture[0] == 10
        else:
            fine = module.target[-1] in "af" or not words & {"e2m1", "e2m3", "e3m2", "ue8m"}
        if not fine:
            raise self.reject(f"Feature '{instruction.text}' requires an architecture-specific .target such as sm_100a")
        if module.version < (8, 1) and module.architecture < (9, 0):  # sm_89 is older, and got the formats later
            raise self.reject(f"Feature '{instruction.text}' requires PTX ISA .version 8.1 or later")

    # -- video instructions

    def _selected(self, instruction: Instruction, operand: Operand, selectors: tuple[str, ...]) -> tuple[str, str]:
        """Return a register as an expression, and the selector of the part that is used."""
        part = ""
        if isinstance(operand, Part):
            part, operand = operand.selector, operand.of
            if part.strip("-") not in selectors or part[:1] == "-" and instruction.opcode != "vmad":
                raise self.reject(f"Illegal selector '.{part}' for instruction '{instruction.opcode}'")
        check_read(instruction, operand, "u32", False)
        return self.value(operand, "u32"), part

    def do_video(self, instruction: Instruction, shape: Shape) -> None:
        """Write a scalar video instruction."""
        operands = instruction.operands
        target, first, second = operands[:3]
        verb, chosen = instruction.opcode, shape.chosen
        way = next((word for word in ("add", "min", "max") if word in chosen.values()), "")
        place = ""
        if isinstance(target, Part):
            place, target = target.selector, target.of
            if place not in _ONE[1:] or verb == "vmad":
                raise self.mismatch(instruction)
        if not isinstance(target, Register) or BITS[target.type] != 32 or target.type == "f32":
            raise self.mismatch(instruction)
        if len(operands) == 3 and (way or place) or way and place:
            raise self.mismatch(instruction)
        types = shape.types if len(shape.types) == 3 else ("u32", *shape.types)
        (a, sa), (b, sb) = (self._selected(instruction, each, _ONE) for each in (first, second))
        c = "0"
        if len(operands) == 4:
            third = operands[3]
            if isinstance(third, Part) and third.selector == "-" and verb == "vmad":
                third, way = third.of, "-"
            check_read(instruction, third, "u32", False)
            text = self.value(third, "u32")
            c = text
        flags = ",".join(sorted(word for word in chosen.values() if word not in ("add", "min", "max")))
        self.assign(
            target,
            "u32",
            f"VIDEO['{verb}|{','.join(types)}|{flags}|{way}|{place}|{sa}|{sb}']({a}, {b}, {c})",
        )

    def do_video_lanes(self, instruction: Instruction, shape: Shape) -> None:
        """Write a SIMD video instruction."""
        target, first, second, third = instruction.operands
        count = int(instruction.opcode[-1])
        if count == 2:
            letter = "h"
        else:
            letter = "b"
        if count == 2:
            mask = "10"
        else:
            mask = "3210"
        if isinstance(target, Part):
            text, target = target.selector, target.of
            digits = text[1:]
            if text[:1] != letter or not digits or any(each not in mask for each in digits):
                raise self.mismatch(instruction)
            if list(digits) != sorted(set(digits), reverse=True):
                raise self.mismatch(instruction)
            mask = digits
        if not isinstance(target, Register) or BITS[target.type] != 32 or target.type == "f32":
            raise self.mismatch(instruction)
        given: list[str] = []
        parts: list[str] = []
        for operand, plain in ((first, "10" if count == 2 else "3210"), (second, "32" if count == 2 else "7654")):
            if isinstance(operand, Part):
                text, digits = operand.selector, operand.selector[1:]
                if text[:1] != letter or len(digits) != count or any(not "0" <= d < str(2 * count) for d in digits):
                    raise self.mismatch(instruction)
                operand, plain = operand.of, digits
            if isinstance(operand, Int):
                raise self.mismatch(instruction)
            check_read(instruction, operand, "u32", False)
            given.append(self.value(operand, "u32"))
            parts.append(plain)
        types = shape.types if len(shape.types) == 3 else ("u32", *shape.types)
        if "add" in shape.chosen:
            way = "add"
        else:
            way = ""
        flags = ",".join(word for word in shape.chosen.values() if word != "add")
        key = "|".join([instruction.opcode, ",".join(types), flags, way, mask, *parts])
        self.assign(target, "u32", f"VIDEO[{key!r}]({', '.join(given)}, {self.value(third, 'u32')})")
