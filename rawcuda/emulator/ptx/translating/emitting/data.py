"""The code of arithmetic, logic, comparisons and moves: a general method, and one for each irregular instruction.

Read next    ../../running/integers.py, ../../running/rounding.py and ../../running/half.py, which the expressions call
"""

from __future__ import annotations

import re

from ...reading.operands import SPECIAL
from ...reading.syntax import (
    BITS,
    Float,
    Instruction,
    Int,
    Pair,
    Register,
    Sink,
    Special,
    Symbol,
    Variable,
    Vector,
)
from ..table.forms import check_read, check_written, fits
from .access import AccessEmitter
from .emit import FLOAT_TYPES, mask

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...reading.syntax import Operand
    from ..table.forms import Shape

__all__ = ["DataEmitter"]

_PLACE = re.compile(r"\{([^{}]+)\}")
_HALVES = ("f16", "f16x2", "bf16", "bf16x2")
_NAN_AWARE = {"eq": "{a} == {b}", "ne": "({a} < {b} or {a} > {b})", "lt": "{a} < {b}", "le": "{a} <= {b}",
              "gt": "{a} > {b}", "ge": "{a} >= {b}", "equ": "not ({a} < {b} or {a} > {b})", "neu": "{a} != {b}",
              "ltu": "not {a} >= {b}", "leu": "not {a} > {b}", "gtu": "not {a} <= {b}", "geu": "not {a} < {b}",
              "num": "({a} == {a} and {b} == {b})", "nan": "({a} != {a} or {b} != {b})"}  # fmt: skip
_WHOLE = {
    "eq": "==",
    "ne": "!=",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "lo": "<",
    "ls": "<=",
    "hi": ">",
    "hs": ">=",
}


class DataEmitter(AccessEmitter):
    """The emitter of instructions that compute on registers.

    Why long  it has a method for each instruction of its kind
    """

    # -- the general case

    def general(self, instruction: Instruction, shape: Shape) -> None:
        """Write an instruction with the expression in its row."""
        result = shape.result
        if result == "half":
            self._half(instruction, shape)
            return
        chosen = shape.chosen
        type = shape.wanted[0]
        directed = chosen.get("rnd", "rn") != "rn"
        ftz = "ftz" in chosen
        values = self._values(instruction, shape, ftz)
        if result == "round" and directed:
            arguments = ", ".join(values[slot.name] for slot in shape.slots[1 : len(instruction.operands)])
            expression = f"directed_{instruction.opcode}({BITS[type]}, {chosen['rnd']!r}, {arguments})"
            result = "float"
        else:
            if instruction.opcode in ("min", "max") and result == "float":
                expression = self._extreme(instruction, shape, values)
            else:
                expression = self._expand(shape.form.value, values, shape)
        target = instruction.operands[0]
        if result == "wrap":
            self.assign(target, type, f"({expression}) & {mask(BITS[type])}")
        elif result in ("exact", "pred"):
            self.assign(target, type, expression)
        else:
            flushes = ftz and type == "f32"  # approximations of doubles flush by themselves
            self.finish_float(target, type, expression, result in ("round", "approx"), flushes, "sat" in chosen)

    def _values(self, instruction: Instruction, shape: Shape, ftz: bool) -> dict[str, str]:
        values = {}
        for slot, type, operand in zip(shape.slots, shape.wanted, instruction.operands):
            if slot.written:
                continue
            text = self.value(operand, type)
            if ftz and type == "f32":
                values[slot.name] = self.flushed(text)
            else:
                values[slot.name] = text
        for slot, type, operand in zip(shape.slots, shape.wanted, instruction.operands):
            if not slot.written and f"{{s{slot.name}}}" in shape.form.value:
                values["s" + slot.name] = self.signed(operand, type)
        return values

    def _expand(self, template: str, values: dict[str, str], shape: Shape) -> str:
        bits = BITS.get(shape.type, 32)

        def fill(found: re.Match[str]) -> str:
            word = found.group(1)
            if word in values:
                return values[word]
            if word == "W":
                return str(bits)
            if word == "M":
                return mask(bits)
            if word == "S":
                return f"{1 << bits - 1:#x}"
            if word == "T":
                return shape.types[0]
            if word in ("T2", "T3"):
                return shape.types[int(word[1]) - 1]
            return shape.chosen.get(word, "")

        return _PLACE.sub(fill, template)

    def flushed(self, text: str) -> str:
        """Write a float32 with subnormals flushed to zero."""
        return f"({text} if not -TINY < {text} < TINY else {text} * 0.0)"

    def finish_float(
        self, target: Operand, type: str, expression: str, rounds: bool, ftz: bool = False, saturate: bool = False
    ) -> None:
        """Write rounding, flush, saturation and store of a result."""
        if rounds and type == "f32":
            self.put(f"T4[0] = {expression}")
            expression = "T4[0]"
        if ftz or saturate:
            self.put(f"x = {expression}")
            expression = "x"
            if ftz:
                self.put("if -TINY < x < TINY:")
                self.indent += 1
                self.put("x *= 0.0")
                self.indent -= 1
            if saturate:
                expression = "(0.0 if not x > 0.0 else 1.0 if x > 1.0 else x)"
        self.assign(target, type, expression)

    def _extreme(self, instruction: Instruction, shape: Shape, values: dict[str, str]) -> str:
        if instruction.opcode == "min":
            name = "minimum"
        else:
            name = "maximum"
        if "NaN" in shape.chosen:
            suffix = "_nan"
        else:
            suffix = ""
        a, b = values["a"], values["b"]
        module = self.unit.module
        if "c" in values and (module.version < (8, 8) or module.architecture < (10, 0)):
            words = "requires PTX ISA .version 8.8 or later, and .target sm_100 or higher"
            raise self.reject(f"Feature '{instruction.text}' with {len(values)} input operands {words}")
        if "abs" in shape.chosen and "c" not in values and "xorsign" not in shape.chosen:
            raise self.reject("Modifier '.abs' requires modifier '.xorsign'")
        if "xorsign" in shape.chosen:
            return f"signs_multiplied({name}{suffix}(abs({a}), abs({b})), {a}, {b})"
        if "c" in values:
            a, b, c = (f"abs({values[each]})" if "abs" in shape.chosen else values[each] for each in "abc")
            return f"{name}{suffix}({name}{suffix}({a}, {b}), {c})"
        return f"{name}{suffix}({a}, {b})"

    def _half(self, instruction: Instruction, shape: Shape) -> None:
        arguments = [self.value(operand, type) for type, operand in zip(shape.wanted[1:], instruction.operands[1:])]
        flags = ",".join(sorted(set(shape.chosen.values()) - {"rn", "approx", "noftz"}))
        call = f"HALVES['{shape.form.value} {shape.type} {flags}']({', '.join(arguments)})"
        self.assign(instruction.operands[0], shape.type, call)

    # -- integers

    def do_carry(self, instruction: Instruction, shape: Shape) -> None:
        """Write an addition or subtraction with carry in, carry out or both; the carry is not a borrow."""
        self.uses_carry = True
        values = self._values(instruction, shape, False)
        bits = BITS[shape.type]
        self.put(f"x = {self._expand(shape.form.value, values, shape)}")
        if "cc" in shape.chosen:
            self.put(f"cf = x >> {bits} & 1")
        self.assign(instruction.operands[0], shape.type, f"x & {mask(bits)}")

    def do_shift(self, instruction: Instruction, shape: Shape) -> None:
        """Write a shift; after a shift by more than the width, only bits that were shifted in are left."""
        bits = BITS[shape.type]
        amount = instruction.operands[2]
        left = instruction.opcode == "shl"
        values = self._values(instruction, shape, False)
        if isinstance(amount, Int):
            shift = min(amount.value & 0xFFFFFFFF, bits)
            values["b"] = str(shift)
            text = self._expand(shape.form.value, values, shape)
            self.assign(instruction.operands[0], shape.type, "0" if left and shift >= bits else text)
            return
        b = values["b"]
        if shape.type[0] == "s":
            values["b"] = f"({b} if {b} < {bits} else {bits})"
            self.assign(instruction.operands[0], shape.type, self._expand(shape.form.value, values, shape))
        elif left:
            text = self._expand(shape.form.value, values, shape)
            self.assign(instruction.operands[0], shape.type, f"{text} if {b} < {bits} else 0")
        else:
            self.assign(instruction.operands[0], shape.type, f"{values['a']} >> {b}")

    def do_lop3(self, instruction: Instruction, shape: Shape) -> None:
        """Write a combination of three operands by a truth table, as a sum of its terms."""
        table = instruction.operands[4]
        if not isinstance(table, Int):
            raise self.mismatch(instruction)
        a, b, c = (self.value(operand, "b32") for operand in instruction.operands[1:4])
        terms = []
        for row in range(8):
            if table.value >> row & 1:
                parts = [x if row & bit else f"~{x}" for x, bit in ((a, 4), (b, 2), (c, 1))]
                terms.append(" & ".join(parts))
        known = {0x80: f"{a} & {b} & {c}", 0xFE: f"{a} | {b} | {c}", 0x96: f"{a} ^ {b} ^ {c}"}
        text = known.get(table.value & 0xFF) or (f"({' | '.join(terms)}) & 0xffffffff" if terms else "0")
        target = instruction.operands[0]
        if len(instruction.operands) == 5:
            self.assign(target, "b32", text)
            return
        if not isinstance(target, Pair) or not isinstance(target.second, Register) or target.second.type != "pred":
            raise self.mismatch(instruction)
        self.put(f"x = {text}")
        if "or" in shape.chosen.values():
            join = "or"
        else:
            join = "and"
        self.put(f"y = x != 0 {join} {self.value(instruction.operands[5], 'pred')}")
        if isinstance(target.first, Register):
            self.assign(target.first, "b32", "x")
        self.assign(target.second, "pred", "y")

    # -- floats

    def do_fma(self, instruction: Instruction, shape: Shape) -> None:
        """Write a fused multiply and add."""
        type, ftz = shape.type, "ftz" in shape.chosen
        values = self._values(instruction, shape, ftz)
        a, b, c = values["a"], values["b"], values["c"]
        if shape.chosen["rnd"] != "rn":
            call = f"directed_fma({BITS[type]}, {shape.chosen['rnd']!r}, {a}, {b}, {c})"
            self.finish_float(instruction.operands[0], type, call, False, ftz, "sat" in shape.chosen)
            return
        if type == "f64":
            self.assign(instruction.operands[0], type, f"fma_64({a}, {b}, {c})")
            return
        # x is rounded twice: to 53 bits, then to 24. The result is wrong only if x is a midpoint of two float32.
        # Then it has at most 25 bits, which the splitting recognizes (running/rounding.py).
        self.put(f"x = {a} * {b} + {c}; z = x * SPLIT; T4[0] = x; y = T4[0]")
        self.put("if z - (z - x) == x and y != x:")
        self.indent += 1
        self.put(f"y = fma_midpoint({a}, {b}, {c}, x)")
        self.indent -= 1
        self.finish_float(instruction.operands[0], type, "y", False, ftz, "sat" in shape.chosen)

    # -- comparison and selection

    def comparison(self, instruction: Instruction, shape: Shape, type: str, a: Operand, b: Operand) -> str:
        """Write a comparison as a Python condition."""
        cmp = shape.chosen["cmp"]
        wrong = self.reject("Mismatch between instruction type and comparison qualifier")
        if type in _HALVES:
            return self._comparison_of_halves(shape, type, self.value(a, type), self.value(b, type))
        if type in FLOAT_TYPES:
            if cmp not in _NAN_AWARE:
                raise wrong
            texts = [self.value(x, type) for x in (a, b)]
            if "ftz" in shape.chosen:
                texts = [self.flushed(text) for text in texts]
            return _NAN_AWARE[cmp].replace("{a}", texts[0]).replace("{b}", texts[1])
        if cmp not in _WHOLE or "ftz" in shape.chosen:
            raise wrong
        if cmp not in ("eq", "ne") and (type[0] == "b" or (type[0] == "s" and cmp in ("lo", "ls", "hi", "hs"))):
            raise wrong
        if type[0] == "s" and cmp not in ("eq", "ne"):
            return f"{self.signed(a, type)} {_WHOLE[cmp]} {self.signed(b, type)}"
        return f"{self.value(a, type)} {_WHOLE[cmp]} {self.value(b, type)}"

    def combined(self, condition: str, instruction: Instruction, shape: Shape) -> str:
        """Write the combination of a comparison with a predicate by `.and`, `.or` or `.xor`."""
        bool = shape.chosen.get("bool")
        if (bool is None) == (len(instruction.operands) == 4):
            raise self.mismatch(instruction)
        if bool is None:
            return condition
        other = self.value(instruction.operands[3], "pred")
        if bool == "xor":
            return f"({condition}) != {other}"
        return f"({condition}) {bool} {other}"

    def do_setp(self, instruction: Instruction, shape: Shape) -> None:
        """Write a comparison into a predicate, or into a predicate and its negation."""
        target, a, b = instruction.operands[:3]
        type = shape.type
        if "x2" in type:
            self._setp_pair(instruction, shape)
            return
        condition = self.comparison(instruction, shape, type, a, b)
        if isinstance(target, Pair):
            first, second = (target.first, target.second)
        else:
            first, second = (target, None)
        for register in (first, second):
            if isinstance(register, Register) and register.type != "pred":
                raise self.mismatch(instruction)
        if isinstance(second, Register):
            self.put(f"x = {condition}")
            text = self.combined("not x", instruction, shape)
            straight = self.combined("x", instruction, shape)
            self.put(f"y = {text}")
            if isinstance(first, Register):
                self.assign(first, "pred", straight)
            self.assign(second, "pred", "y")
        elif isinstance(first, Register):
            self.assign(first, "pred", self.combined(condition, instruction, shape))

    def _setp_pair(self, instruction: Instruction, shape: Shape) -> None:
        target = instruction.operands[0]
        if isinstance(target, Pair):
            targets = [target.first, target.second]
        else:
            targets = [target]
        conditions = self._pair_conditions(instruction, shape, shape.type)
        names = ["x", "y"][: len(targets)]
        for name, condition in zip(names, conditions):
            self.put(f"{name} = {condition}")
        for name, register in zip(names, targets):
            if isinstance(register, Register):
                if register.type != "pred":
                    raise self.mismatch(instruction)
                self.assign(register, "pred", name)

    def _comparison_of_halves(self, shape: Shape, type: str, *bits: str) -> str:
        """Write a comparison of two halves as a Python condition."""
        cmp = shape.chosen["cmp"]
        if cmp not in _NAN_AWARE:
            raise self.reject("Mismatch between instruction type and comparison qualifier")
        a, b = (f"numbers_{type}{'_ftz' * ('ftz' in shape.chosen)}[{text}]" for text in bits)
        return _NAN_AWARE[cmp].replace("{a}", a).replace("{b}", b)

    def _pair_conditions(self, instruction: Instruction, shape: Shape, type: str) -> list[str]:
        """Write the comparisons of the lower and the upper halves."""
        made = []
        for part in ("& 0xffff", ">> 16"):
            x, y = (f"{self.value(operand, type)} {part}" for operand in instruction.operands[1:3])
            condition = self._comparison_of_halves(shape, type[:-2], x, y)
            made.append(f"({self.combined(condition, instruction, shape)})")
        return made

    def do_set(self, instruction: Instruction, shape: Shape) -> None:
        """Write a comparison into a number."""
        target, a, b = instruction.operands[:3]
        to, source = shape.types
        if "x2" in source:
            one = {"f16x2": 0x3C00, "bf16x2": 0x3F80}.get(to, 0xFFFF)
            parts = self._pair_conditions(instruction, shape, source)
            self.assign(target, to, f"({one} if {parts[0]} else 0) | ({one} if {parts[1]} else 0) << 16")
            return
        condition = self.combined(self.comparison(instruction, shape, source, a, b), instruction, shape)
        if to == "f32":
            self.assign(target, to, f"1.0 if {condition} else 0.0")
        else:
            one = {"f16": 0x3C00, "bf16": 0x3F80}.get(to, (1 << BITS[to]) - 1)
            self.assign(target, to, f"{one:#x} if {condition} else 0")

    def do_select(self, instruction: Instruction, shape: Shape) -> None:
        """Write a selection by a predicate."""
        target, a, b, condition = instruction.operands
        self._choose(target, shape.type, self.value(condition, "pred"), a, b)

    def do_slct(self, instruction: Instruction, shape: Shape) -> None:
        """Write a selection by a sign."""
        target, a, b, c = instruction.operands
        values = {"c": self.value(c, shape.types[1])}
        if shape.types[1] == "s32":
            values["sc"] = self.signed(c, "s32")
        if "ftz" in shape.chosen:
            values["c"] = self.flushed(values["c"])
        self._choose(target, shape.type, self._expand(shape.form.value, values, shape), a, b)

    def _choose(self, target: Operand, type: str, condition: str, a: Operand, b: Operand) -> None:
        type = self.carried(target, type)
        self.assign(
            target, type, f"{self.moved(target, a, type)} if {condition} else {self.moved(target, b, type)}", True
        )

    def moved(self, target: Operand, source: Operand, type: str) -> str:
        """Return a source of a move, with the bits of its NaN if those of the destination matter."""
        wanted = isinstance(target, Register) and target.index in self.copied
        if wanted:
            return self.kept(source, type)
        return self.value(source, type)

    def carried(self, target: Operand, type: str) -> str:
        """Return the type in which a value is moved: a float type if the destination is a Python float."""
        bits = BITS[type]
        if isinstance(target, Register) and self.holds_float[target.index]:
            if bits == 32:
                return "f32"
            return "f64"
        return f"b{bits}"

    # -- moves

    def do_mov(self, instruction: Instruction, shape: Shape) -> None:
        """Write a move, a pack, an unpack or an address."""
        target, source = instruction.operands
        type = shape.type
        if "vec" in shape.chosen:
            count = int(shape.chosen["vec"][1:])
            for side in (target, source):
                if not isinstance(side, Vector) or len(side.items) != count or side.round:
                    raise self.mismatch(instruction)
            self._move_all(instruction, target, source, type)
        elif isinstance(target, Vector):
            self._unpack(instruction, target, source, type)
        elif isinstance(source, Vector):
            self._pack(instruction, target, source, type)
        else:
            self._move(instruction, target, source, type)

    def _move_all(self, instruction: Instruction, target: Operand, source: Operand, type: str) -> None:
        """Write the move of a vector, all of whose parts are read first."""
        assert isinstance(target, Vector) and isinstance(source, Vector)
        names = []
        for at, (to, of) in enumerate(zip(target.items, source.items)):
            check_written(instruction, to, type, False)
            check_read(instruction, of, type, False)
            names.append(f"x{at}")
            self.put(f"x{at} = {self.value(of, self.carried(to, type))}")
        for to, name in zip(target.items, names):
            self.assign(to, self.carried(to, type), name)

    def _move(self, instruction: Instruction, target: Operand, source: Operand, type: str) -> None:
        check_written(instruction, target, type, False)
        assert isinstance(target, Register)
        if isinstance(source, Special):
            held = SPECIAL[source.name][0]
            if type[0] == "f":
                raise self.reject("Special register argument not allowed for instruction 'mov'")
            if held == "pred" or BITS[held] != BITS[type] and not (BITS[held] == 32 and BITS[type] == 16):
                raise self.mismatch(instruction)
            text = self.special(source)
            if BITS[type] == 16:
                text = f"({text}) & 0xffff"
            self.assign(target, f"b{BITS[type]}", text)
        elif isinstance(source, Symbol):
            if BITS[type] not in (32, 64) or not fits(f"b{BITS[type]}", type, False) or type[0] == "f":
                raise self.mismatch(instruction)
            if isinstance(source.target, Variable):
                held = source.target.space
            else:
                held = "code"
            if BITS[type] == 32 and held in ("global", "const", "code"):
                raise self.reject("Program uses 32-bit address, which is conflicting with .address_size 64")
            text = self.symbol(source)
            self.assign(target, f"b{BITS[type]}", text)
        else:
            check_read(instruction, source, type, False)
            type = self.carried(target, type)
            self.assign(target, type, self.moved(target, source, type), True)

    def _pieces(self, instruction: Instruction, vector: Vector, type: str) -> int:
        count = len(vector.items)
        self.check_neighbours(instruction, vector.items)
        if type[0] != "b" or count not in (1, 2, 4) or vector.round or BITS[type] // count < 8:
            raise self.mismatch(instruction)
        bits = BITS[type] // count
        for item in vector.items:
            if isinstance(item, Register):
                fits = BITS[item.type] == bits
            else:
                fits = isinstance(item, (Sink, Int, Float))
            if not fits:
                raise self.mismatch(instruction)
        return bits

    def _pack(self, instruction: Instruction, target: Operand, source: Vector, type: str) -> None:
        if not isinstance(target, Register) or BITS[target.type] != BITS[type]:
            raise self.mismatch(instruction)
        bits = self._pieces(instruction, source, type)
        parts = []
        for at, item in enumerate(source.items):
            text = self.value(item, f"b{bits}")
            parts.append(f"{text} << {bits * at}" if at else text)
        self.assign(target, type, " | ".join(parts))

    def _unpack(self, instruction: Instruction, target: Vector, source: Operand, type: str) -> None:
        bits = self._pieces(instruction, target, type)
        if any(isinstance(item, (Int, Float)) for item in target.items):
            raise self.reject("Result register required for instruction 'mov'")
        if all(isinstance(item, Sink) for item in target.items):
            raise self.mismatch(instruction)
        if isinstance(source, Float):
            check_read(instruction, source, type, False)
        if (
            not isinstance(source, (Register, Int, Float))
            or isinstance(source, Register)
            and BITS[source.type] != BITS[type]
        ):
            raise self.mismatch(instruction)
        self.put(f"x = {self.value(source, type)}")
        for at, item in enumerate(target.items):
            if isinstance(item, Register):
                last = at == len(target.items) - 1
                if at:
                    text = f"x >> {bits * at}"
                else:
                    text = "x"
                self.assign(item, f"b{bits}", text if last else f"{text} & {mask(bits)}")

    def do_cvta(self, instruction: Instruction, shape: Shape) -> None:
        """Write the conversion of an address in a state space to a generic one, or back."""
        space = shape.chosen["space"].split("::")[0]
        to = "to" in shape.chosen
        target, source = instruction.operands
        if isinstance(source, Symbol):
            if not isinstance(source.target, Variable) or source.target.space != space:
                raise self.mismatch(instruction)
            text = self.symbol(source)
        elif (
            isinstance(source, Int) or isinstance(source, Register) and BITS[source.type] == 64 and source.type != "f64"
        ):
            text = self.value(source, "b64")
        else:
            raise self.mismatch(instruction)
        window = self.unit.WINDOWS.get(space)
        if window is not None:
            if to:
                text = f"{text} - {window:#x} & {mask(64)}"
            else:
                text = f"{text} + {window:#x} & {mask(64)}"
        self.assign(target, "b64", text)

    def do_isspacep(self, instruction: Instruction, shape: Shape) -> None:
        """Write a test for the state space of a generic address."""
        space = shape.chosen["space"]
        if space == "shared::cluster":
            space = "cluster"
        self.assign(
            instruction.operands[0],
            "pred",
            f"L.in_space({space.split('::')[0]!r}, {self.value(instruction.operands[1], 'b64')})",
        )
