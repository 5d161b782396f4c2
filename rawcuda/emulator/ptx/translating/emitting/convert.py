"""The code of conversions: cvt between integers, floats and halves, with rounding, saturation and flush.

Source       PTX ISA, "cvt", "cvt.pack"
Read next    ../../running/rounding.py and ../../running/half.py, which the expressions call
"""

from __future__ import annotations

from ...reading.syntax import BITS, Instruction, Register, Special
from .data import DataEmitter
from .emit import mask

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...reading.syntax import Operand
    from ..table.forms import Shape

__all__ = ["ConvertEmitter"]

_RANK = {"bf16": 1, "f16": 1, "f32": 2, "f64": 3}


class ConvertEmitter(DataEmitter):
    """The emitter of conversions."""

    def do_cvt(self, instruction: Instruction, shape: Shape) -> None:
        """Write the conversion of a number."""
        target, source = instruction.operands
        if len(shape.types) == 2:
            to, type = shape.types
        else:
            to, type = (shape.types[0], shape.types[0])
        chosen = shape.chosen
        rounding = chosen.get("anyrnd") or chosen.get("rnd")
        self._check_conversion(to, type, rounding)
        self._check_modifiers(to, type, chosen)
        if "bf16" in (to, type):  # the only type whose conversions take no wider registers
            for operand, kind in ((target, to), (source, type)):
                if isinstance(operand, Register) and BITS[operand.type] != BITS[kind]:
                    raise self.mismatch(instruction)
        whole_to, whole_from = to[0] in "us", type[0] in "us"
        if isinstance(source, Special) and not (whole_to and whole_from):
            raise self.reject("Special register argument not allowed for instruction 'cvt'")
        if whole_to and whole_from:
            text = self._whole_to_whole(source, to, type, "sat" in chosen)
            if isinstance(target, Register):
                wide = BITS[target.type]
            else:
                wide = BITS[to]
            if to[0] == "s" and wide > BITS[to]:
                half = 1 << BITS[to] - 1
                text = f"(({text}) ^ {half:#x}) - {half:#x} & {mask(wide)}"
            self.assign(target, f"b{max(wide, 16)}", text)
            return
        if not (whole_from and type[0] == "s"):
            value = self.value(source, type)
        else:
            value = self.signed(source, type)
        if type == "f32" and "ftz" in chosen:
            value = self.flushed(value)
        if whole_to:
            call = f"to_integer({type!r}, {value}, {rounding!r}, {to!r})"
            if isinstance(target, Register):
                wide = BITS[target.type]
            else:
                wide = BITS[to]
            self.assign(target, f"b{max(wide, 16)}", f"({call}) & {mask(wide)}" if to[0] == "s" else call)
            return
        self._to_float(target, to, type, value, rounding, chosen)

    def _check_conversion(self, to: str, type: str, rounding: str | None) -> None:
        whole_to, whole_from = to[0] in "us", type[0] in "us"
        order = _RANK
        if whole_to and whole_from:
            if rounding:
                raise self.reject("Rounding modifier not allowed for instruction 'cvt'")
        elif whole_to:
            if not rounding or rounding[-1] != "i":
                raise self.reject("Rounding modifier required for instruction 'cvt'")
        elif {to, type} == {"f16", "bf16"}:  # to nearest without a modifier
            if rounding and rounding[-1] == "i":
                raise self.reject("Rounding modifier required for instruction 'cvt'")
        elif whole_from or order[to] < order[type]:
            if not rounding or rounding[-1] == "i":
                raise self.reject("Rounding modifier required for instruction 'cvt'")
        elif type == "bf16" and to != "bf16":
            if rounding and rounding[-1] == "i":
                raise self.reject("Rounding modifier not allowed for instruction 'cvt'")
        elif rounding and (order[to] > order[type] or rounding[-1] != "i"):
            raise self.reject("Rounding modifier not allowed for instruction 'cvt'")

    def _check_modifiers(self, to: str, type: str, chosen: dict[str, str]) -> None:
        if "ftz" in chosen and "f32" not in (to, type):
            raise self.reject("Modifier '.ftz' does not apply to this type of convert operation")
        if "sat" in chosen:
            whole = to[0] in "us" and type[0] in "us"
            (low, high), (least, most) = _range(to), _range(type)
            if "bf16" in (to, type) or whole and low <= least and most <= high:
                raise self.reject("Illegal modifier '.sat' for instruction 'cvt'")

    def _whole_to_whole(self, source: Operand, to: str, type: str, saturate: bool) -> str:
        have, want = BITS[type], BITS[to]
        if saturate:
            if type[0] == "s":
                value = self.signed(source, type)
            else:
                value = self.value(source, type)
            low, high = _range(to)
            return f"clamp({value}, {low}, {high}) & {mask(want)}"
        if want <= have:
            value = self.value(source, type)
            if want < have:
                return f"{value} & {mask(want)}"
            return value
        if type[0] == "s":
            return f"{self.signed(source, type)} & {mask(want)}"
        return self.value(source, type)

    def _to_float(
        self, target: Operand, to: str, type: str, value: str, rounding: str | None, chosen: dict[str, str]
    ) -> None:
        saturate, ftz = "sat" in chosen, "ftz" in chosen
        if to in ("f16", "bf16"):
            flags = ",".join(word for word in ("sat", "relu", "satfinite") if word in chosen.values())
            self.assign(target, to, f"to_half({to!r}, {type!r}, {value}, {rounding or 'rn'!r}, {flags!r})")
            return
        if type in ("f16", "bf16"):
            value = f"from_half({type!r}, {value})"
        if rounding in ("rz", "rm", "rp"):
            self.finish_float(target, to, f"directed_cvt({BITS[to]}, {rounding!r}, {value})", False, ftz, saturate)
        elif rounding is not None and rounding[-1] == "i":
            self.finish_float(target, to, f"to_whole({value}, {rounding!r})", False, ftz, saturate)
        elif type[0] in "us":
            if to == "f32" and BITS[type] == 64:
                value = f"whole_to_single({value})"  # rounding to 53 bits first would round twice
            self.finish_float(target, to, f"float({value})", to == "f32", ftz, saturate)
        else:
            self.finish_float(target, to, value, to == "f32" and type == "f64", ftz, saturate)

    def do_cvt_pair(self, instruction: Instruction, shape: Shape) -> None:
        """Write the conversion of two numbers to the halves of one register."""
        to = shape.type[:-2]
        a, b = (self.value(operand, "f32") for operand in instruction.operands[1:3])
        flags = ",".join(word for word in ("relu", "satfinite") if word in shape.chosen)
        high, low = (f"to_half({to!r}, 'f32', {x}, {shape.chosen['rnd']!r}, {flags!r})" for x in (a, b))
        self.assign(instruction.operands[0], shape.type, f"{high} << 16 | {low}")

    def do_cvt_tf32(self, instruction: Instruction, shape: Shape) -> None:
        """Write a rounding to TF32, the format of tensor cores."""
        chosen = shape.chosen
        flags = ",".join(word for word in ("relu", "satfinite") if word in chosen)
        mode = chosen.get("rn|rz", "rna")
        self.assign(
            instruction.operands[0],
            "b32",
            f"to_tf32({self.value(instruction.operands[1], 'f32')}, {mode!r}, {flags!r})",
        )


def _range(type: str) -> tuple[int, int]:
    """Return the smallest and the largest number of an integer type."""
    bits = BITS[type]
    if type[0] == "u":
        return (0, (1 << bits) - 1)
    return (-(1 << bits - 1), (1 << bits - 1) - 1)
