"""The source for arrays of moves, comparisons, shifts, conversions and other instructions that are not one expression.

Each method corresponds to the method of the same name of the scalar executor (../../translating/emitting/data.py,
../../translating/emitting/convert.py), which has already checked the operands.

Read next    write_small.py
"""

from __future__ import annotations

from ...reading.syntax import BITS, Int, Pair, Register, Sink, Special, Symbol, Vector
from ...translating.emitting.emit import FLOAT_TYPES
from .value_graph import Unsuited
from .write_values import BaseWriter, kind_of, width_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...reading.syntax import Instruction, Operand
    from ...translating.table.forms import Shape

__all__ = ["Moves"]

_FLOAT_TESTS = {
    "eq": "{a} == {b}", "ne": "({a} < {b}) | ({a} > {b})", "lt": "{a} < {b}", "le": "{a} <= {b}", "gt": "{a} > {b}",
    "ge": "{a} >= {b}", "equ": "~(({a} < {b}) | ({a} > {b}))", "neu": "{a} != {b}", "ltu": "~({a} >= {b})",
    "leu": "~({a} > {b})", "gtu": "~({a} <= {b})", "geu": "~({a} < {b})", "num": "({a} == {a}) & ({b} == {b})",
    "nan": "({a} != {a}) | ({b} != {b})",
}  # fmt: skip
_WHOLE_TESTS = {
    "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "lo": "<", "ls": "<=", "hi": ">", "hs": ">=",
}  # fmt: skip
_HALVES = ("f16", "bf16")


class Moves(BaseWriter):
    """The writer of instructions on registers.

    Why long  it has a method for each instruction of its kind
    """

    # -- moves

    def do_mov(self, instruction: Instruction, shape: Shape) -> None:
        """Write a move, a pack, an unpack or an address."""
        target, source = instruction.operands
        type = shape.type
        if BITS[type] == 128:
            raise Unsuited("128-bit values")
        if "vec" in shape.chosen:
            assert isinstance(target, Vector) and isinstance(source, Vector)
            pairs = list(zip(target.items, source.items))
            for at, (to, of) in enumerate(pairs):  # all are read before one is written
                self.put(f"x{at} = {self.moved(to, of, self.carried(to, type))}")
            for at, (to, _) in enumerate(pairs):
                self.assign(to, self.carried(to, type), f"x{at}", True, True)
            return
        if isinstance(target, Vector):
            bits = BITS[type] // len(target.items)
            self.put(f"x = {self.value(source, f'b{BITS[type]}')}")
            for at, item in enumerate(target.items):
                if isinstance(item, Register):
                    wide = max(bits, 8)
                    self.assign(item, f"b{wide}", f"part(x, {bits * at}, u{wide // 8})", True)
        elif isinstance(source, Vector):
            bits = BITS[type] // len(source.items)
            parts = [self.value(item, f"b{max(bits, 8)}") for item in source.items]
            self.assign(target, f"b{BITS[type]}", f"packed_parts(u{BITS[type] // 8}, {bits}, {', '.join(parts)})", True)
        elif isinstance(source, Special):
            self.assign(target, f"b{BITS[type]}", self.value(source, type))
        elif isinstance(source, Symbol):
            self.assign(target, f"b{BITS[type]}", self.value(source, f"b{BITS[type]}"), True)
        else:
            type = self.carried(target, type)
            self.assign(target, type, self.moved(target, source, type), True, True)

    def do_select(self, instruction: Instruction, shape: Shape) -> None:
        """Write a selection by a predicate."""
        target, a, b, condition = instruction.operands
        self._choose(target, shape.type, self.value(condition, "pred"), a, b)

    def do_slct(self, instruction: Instruction, shape: Shape) -> None:
        """Write a selection by a sign."""
        target, a, b, c = instruction.operands
        if shape.types[1] == "s32":
            condition = f"({self.signed(c, 's32')} >= 0)"
        else:
            text = self.value(c, "f32")
            condition = f"({f'flushed({text})' if 'ftz' in shape.chosen else text} >= 0)"
        self._choose(target, shape.type, condition, a, b)

    def _choose(self, target: Operand, type: str, condition: str, a: Operand, b: Operand) -> None:
        type = self.carried(target, type)
        one, other = self.moved(target, a, type), self.moved(target, b, type)
        self.assign(target, type, f"pick({condition}, {one}, {other})", True, True)

    def do_cvta(self, instruction: Instruction, shape: Shape) -> None:
        """Write the conversion of an address in a state space to a generic one, or back."""
        space = shape.chosen["space"].split("::")[0]
        target, source = instruction.operands
        text = self.value(source, "b64")
        window = self.unit.WINDOWS.get(space)
        if window is not None:
            text = f"{text} {'-' if 'to' in shape.chosen else '+'} {self.constant('u8', window)}"
        self.assign(target, "b64", text, True)

    def do_isspacep(self, instruction: Instruction, shape: Shape) -> None:
        """Write a test for the state space of a generic address."""
        space = shape.chosen["space"]
        if space == "shared::cluster":
            space = "cluster"
        else:
            space = space.split("::")[0]
        self.assign(
            instruction.operands[0], "pred", f"M.in_space({space!r}, {self.value(instruction.operands[1], 'b64')})"
        )

    def do_nothing(self, instruction: Instruction, shape: Shape) -> None:
        """Write nothing."""

    do_nanosleep = do_nothing

    # -- integers

    def do_carry(self, instruction: Instruction, shape: Shape) -> None:
        """Write an addition or subtraction with carry in, carry out or both."""
        type, opcode, chosen = shape.type, instruction.opcode, shape.chosen
        target, *sources = instruction.operands
        values = [self.value(operand, type) for operand in sources]
        carry = f"r{self.inlined.carry}"
        if opcode[:3] == "mad":
            signed = [self.signed(operand, type) for operand in sources[:2]]
            product = f"{values[0]} * {values[1]}"
            if "hi" in chosen:
                if type[0] == "s":
                    product = f"high_signed({', '.join(signed)})"
                else:
                    product = f"high({', '.join(values[:2])})"
            given = [product, values[2]]
        else:
            given = [values[0], f"~{values[1]}" if opcode[:3] == "sub" else values[1]]
        if opcode[-1] == "c":
            into = carry
        else:
            into = self.constant("u1", int(opcode[:3] == "sub"))
        self.put(f"x, y = carried_sum({', '.join(given)}, {into})")
        if "cc" in chosen:
            self.set(carry, "y")
        self.assign(target, type, "x", True)

    def do_shift(self, instruction: Instruction, shape: Shape) -> None:
        """Write a shift; after a shift by more than the width, only bits that were shifted in are left."""
        target, source, amount = instruction.operands
        bits, kind = BITS[shape.type], kind_of(shape.type)
        left, signed = instruction.opcode == "shl", shape.type[0] == "s" and instruction.opcode == "shr"
        if signed:
            value = self.signed(source, shape.type)
        else:
            value = self.value(source, shape.type)
        if signed:
            sign = "i"
        else:
            sign = "u"
        if isinstance(amount, Int):
            shift = amount.value & 0xFFFFFFFF
            if shift >= bits and not signed:
                self.assign(target, f"b{bits}", self.constant(kind, 0), True)
                return
            shift = min(shift, bits - 1)
            by = self.constant(kind, shift) + (f".view(i{bits // 8})" if signed else "")
            text = f"({value} {'<<' if left else '>>'} {by})"
            self.assign(target, f"b{bits}", f"{text}.view({kind})" if signed else text, True)
            return
        text = f"shift_{'left' if left else 'right'}({value}, {self.value(amount, 'u32')}, {bits}, {sign}{bits // 8})"
        self.assign(target, f"b{bits}", f"{text}.view({kind})" if signed else text, True)

    def do_lop3(self, instruction: Instruction, shape: Shape) -> None:
        """Write a combination of three operands by a truth table, as a sum of its terms."""
        table = instruction.operands[4]
        assert isinstance(table, Int)
        a, b, c = (self.value(operand, "b32") for operand in instruction.operands[1:4])
        terms = []
        for row in range(8):
            if table.value >> row & 1:
                parts = [x if row & bit else f"~{x}" for x, bit in ((a, 4), (b, 2), (c, 1))]
                terms.append("(" + " & ".join(parts) + ")")
        known = {0x80: f"{a} & {b} & {c}", 0xFE: f"{a} | {b} | {c}", 0x96: f"{a} ^ {b} ^ {c}"}
        text = known.get(table.value & 0xFF) or (" | ".join(terms) if terms else self.constant("u4", 0))
        target = instruction.operands[0]
        if len(instruction.operands) == 5:
            self.assign(target, "b32", text, True)
            return
        assert isinstance(target, Pair)
        if "or" in shape.chosen.values():
            join = "|"
        else:
            join = "&"
        self.put(f"x = {text}")
        self.put(f"y = (x != 0) {join} {self.value(instruction.operands[5], 'pred')}")
        self.assign(target.first, "b32", "x", True)
        self.assign(target.second, "pred", "y", True)

    # -- floats

    def do_fma(self, instruction: Instruction, shape: Shape) -> None:
        """Write a fused multiply and add."""
        type, ftz = shape.type, "ftz" in shape.chosen
        values = [self.value(operand, type) for operand in instruction.operands[1:4]]
        if ftz:
            values = [f"flushed({text})" for text in values]
        bits = BITS[type]
        text = f"fma_{bits}({', '.join(values)})"
        if shape.chosen["rnd"] != "rn":
            text = f"directed_fma({bits}, {shape.chosen['rnd']!r}, {', '.join(values)})"
        self.finish(instruction.operands[0], type, text, ftz, "sat" in shape.chosen, True)

    # -- comparisons

    def comparison(self, shape: Shape, type: str, a: Operand, b: Operand) -> str:
        """Return a comparison as an expression."""
        cmp = shape.chosen["cmp"]
        if type in _HALVES:
            operator = ",".join([cmp, *(["ftz"] if "ftz" in shape.chosen else [])])
            return f"half_compare({type!r}, {operator!r}, {self.value(a, type)}, {self.value(b, type)})"
        if type in FLOAT_TYPES:
            texts = [self.value(x, type) for x in (a, b)]
            if "ftz" in shape.chosen:
                texts = [f"flushed({text})" for text in texts]
            return "(" + _FLOAT_TESTS[cmp].replace("{a}", texts[0]).replace("{b}", texts[1]) + ")"
        if type[0] == "s" and cmp not in ("eq", "ne"):
            return f"({self.signed(a, type)} {_WHOLE_TESTS[cmp]} {self.signed(b, type)})"
        return f"({self.value(a, type)} {_WHOLE_TESTS[cmp]} {self.value(b, type)})"

    def pair_comparisons(self, instruction: Instruction, shape: Shape, type: str) -> list[str]:
        """Return the comparisons of the lower and of the upper halves."""
        operator = ",".join([shape.chosen["cmp"], *(["ftz"] if "ftz" in shape.chosen else [])])
        a, b = (self.value(operand, "b32") for operand in instruction.operands[1:3])
        self.put(f"z = pair_compare({type[:-2]!r}, {operator!r}, {a}, {b})")
        return [self.combined(f"z[{at}]", instruction, shape) for at in (0, 1)]

    def combined(self, condition: str, instruction: Instruction, shape: Shape) -> str:
        """Return the combination of a comparison with a predicate by `.and`, `.or` or `.xor`."""
        bool = shape.chosen.get("bool")
        if bool is None:
            return condition
        other = self.value(instruction.operands[3], "pred")
        return f"({condition} {({'and': '&', 'or': '|', 'xor': '^'})[bool]} {other})"

    def do_setp(self, instruction: Instruction, shape: Shape) -> None:
        """Write a comparison into a predicate, or into a predicate and its negation."""
        target, a, b = instruction.operands[:3]
        if "x2" in shape.type:
            if isinstance(target, Pair):
                targets = [target.first, target.second]
            else:
                targets = [target]
            for name, condition in zip("xy", self.pair_comparisons(instruction, shape, shape.type)):
                self.put(f"{name} = {condition}")
            for name, register in zip("xy", targets):
                self.assign(register, "pred", name, True)
            return
        self.put(f"x = {self.comparison(shape, shape.type, a, b)}")
        if isinstance(target, Pair):
            first, second = (target.first, target.second)
        else:
            first, second = (target, None)
        straight, opposite = self.combined("x", instruction, shape), self.combined("~x", instruction, shape)
        if second is not None and not isinstance(second, Sink):
            self.put(f"y = {opposite}")
        if not isinstance(first, Sink):
            self.assign(first, "pred", straight, True)
        if second is not None and not isinstance(second, Sink):
            self.assign(second, "pred", "y", True)

    def do_set(self, instruction: Instruction, shape: Shape) -> None:
        """Write a comparison into a number."""
        target, a, b = instruction.operands[:3]
        to, source = shape.types
        if "x2" in source:
            one = {"f16x2": 0x3C00, "bf16x2": 0x3F80}.get(to, 0xFFFF)
            low, high = self.pair_comparisons(instruction, shape, source)
            none = self.constant("u4", 0)
            texts = (
                f"pick({low}, {self.constant('u4', one)}, {none})",
                f"pick({high}, {self.constant('u4', one << 16)}, {none})",
            )
            self.assign(target, "b32", " | ".join(texts), True)
            return
        condition = self.combined(self.comparison(shape, source, a, b), instruction, shape)
        one = {"f32": 0x3F800000, "f16": 0x3C00, "bf16": 0x3F80}.get(to, (1 << BITS[to]) - 1)
        kind = kind_of(to)
        self.assign(target, to, f"pick({condition}, {self.constant(kind, one)}, {self.constant(kind, 0)})", True)

    # -- conversions

    def do_cvt(self, instruction: Instruction, shape: Shape) -> None:
        """Write the conversion of a number."""
        target, source = instruction.operands
        if len(shape.types) == 2:
            to, type = shape.types
        else:
            to, type = (shape.types[0], shape.types[0])
        chosen = shape.chosen
        rounding = chosen.get("anyrnd") or chosen.get("rnd")
        whole_to, whole_from = to[0] in "us", type[0] in "us"
        saturate, ftz = "sat" in chosen, "ftz" in chosen
        signed = whole_from and type[0] == "s"
        if signed:
            value = self.signed(source, type)
        else:
            value = self.value(source, type)
        if type == "f32" and ftz:
            value = f"flushed({value})"
        if isinstance(target, Register):
            wide = width_of(target.type)
        else:
            wide = width_of(to)
        if whole_to:
            if whole_from:
                text = f"whole({value}, {to!r}, {saturate}, u{wide})"
            else:
                if type in _HALVES:
                    value = f"from_{type}({value})"
                text = f"to_integer({value}, {rounding!r}, {to!r}, u{wide})"
            self.assign(target, f"b{8 * wide}", text, True)
            return
        if to in _HALVES:
            flags = ",".join(word for word in ("sat", "relu", "satfinite") if word in chosen.values())
            if type == "f32" and not flags and (rounding or "rn") == "rn":
                text = f"half_of_{to}({value})"
            else:
                text = f"to_half({to!r}, {type!r}, {value}, {rounding or 'rn'!r}, {flags!r})"
            self.assign(target, to, text, True)
            return
        if type in _HALVES:
            value = f"from_{type}({value})"  # a float32, exactly
        if rounding in ("rz", "rm", "rp"):
            if type[0] in "us":
                text = f"directed_cvt({BITS[to]}, {rounding!r}, {value})"
            else:
                if to == "f32" and type == "f64":
                    text = f"narrowed({value}, {rounding!r})"
                else:
                    text = value
        elif rounding is not None and rounding[-1] == "i":
            text = f"to_whole({value}, {rounding!r})"
        else:
            text = value
        self.finish(target, to, text, ftz, saturate)

    def do_cvt_pair(self, instruction: Instruction, shape: Shape) -> None:
        """Write the conversion of two numbers to the halves of one register."""
        to = shape.type[:-2]
        a, b = (self.value(operand, "f32") for operand in instruction.operands[1:3])
        flags = ",".join(word for word in ("relu", "satfinite") if word in shape.chosen)
        high, low = (f"to_half({to!r}, 'f32', {x}, {shape.chosen['rnd']!r}, {flags!r})" for x in (a, b))
        self.assign(instruction.operands[0], "b32", f"packed_parts(u4, 16, {low}, {high})", True)

    def do_cvt_tf32(self, instruction: Instruction, shape: Shape) -> None:
        """Write a rounding to TF32."""
        flags = ",".join(word for word in ("relu", "satfinite") if word in shape.chosen)
        value, mode = self.value(instruction.operands[1], "f32"), shape.chosen.get("rn|rz", "rna")
        self.assign(instruction.operands[0], "b32", f"to_tf32({value}, {mode!r}, {flags!r})", True)
