"""Registers and operands in the source for arrays, and the rows of the opcode table.

Most rows have an expression that arrays can evaluate: their own, if it has only operators; the one in their sixth
column; or a function that ptx/vectors/numeric.py has under the same name. For the rest, the row's expression is
evaluated for each thread.

Read next    moves.py, which has the instructions that are not an expression
"""

from __future__ import annotations

import re

from ...reading.operands import SPECIAL
from ...reading.syntax import (
    BITS,
    Float,
    Function,
    Instruction,
    Int,
    Not,
    Pair,
    Register,
    Sink,
    Special,
    Symbol,
    Variable,
)
from ...translating.emitting.emit import FLOAT_TYPES, mask, single_bits
from ...translating.registers import values_that_matter, with_branches
from .value_graph import Program, Unsuited

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...reading.syntax import Operand
    from ...translating.table.forms import Shape
    from ...translating.unit import Unit

__all__ = ["BaseWriter", "kind_of", "width_of"]

POISONED = 0xFBFBFBFBFBFBFBFBFBFBFBFBFBFBFBFB
_PLACE = re.compile(r"\{([^{}]+)\}")
_DIRECT = re.compile(r"(\{[abc]\}|[-+*&|^() ]|0x[0-9a-f]+)+\Z")
_NUMBER = re.compile(r"0x[0-9a-f]+")
_CALL = re.compile(r"(\w+)\(((\{\w+\}|'[^']*'|-?\w+)(, )?)*\)\Z")
ARRAY_NAMES = frozenset(  # functions in rows that ../naming.py has, too
    "divide remainder find_bit find_nth reverse funnel permute bit_mask zero_extend sign_extend packed halves "
    "signed_halves abs copysign inverse_root inverse_root_64 coarse_quotient coarse_reciprocal coarse_inverse_root "
    "sine cosine binary_logarithm power_of_two tanh test_property pair_add pair_sub pair_mul pair_fma "
    "mixed_add mixed_sub mixed_fma".split()
)
_BY_THREAD = frozenset(
    "tid.x tid.y tid.z ctaid.x ctaid.y ctaid.z laneid warpid smid lanemask_eq lanemask_lt lanemask_le lanemask_gt "
    "lanemask_ge".split()
)


def width_of(type: str) -> int:
    """Return the bytes of a type."""
    bits = BITS[type]
    if bits > 64:
        raise Unsuited("128-bit values")
    return bits // 8


def kind_of(type: str) -> str:
    """Return NumPy's code for the values of a type: floats, truth values, or unsigned integers for all others."""
    if type == "pred":
        return "b1"
    return f"{'f' if type in FLOAT_TYPES else 'u'}{width_of(type)}"


class BaseWriter:
    """The base of the writers: the state for one kernel, and how registers are read and written."""

    def __init__(self, unit: Unit, program: Program, shared: dict[int, int]) -> None:
        self.unit = unit
        self.program = program
        self.shared = shared
        self.constants: dict[tuple[str, int], str] = {}  # (kind, bits) -> name
        self.lambdas: dict[str, str] = {}  # source -> name
        self.lines: list[str] = []
        self.inlined = program.root
        self.guard = ""  # the truth value of the instruction, "" if it has none
        self.line = 0
        self.sites: list[int] = []  # the line of each access that may find something
        self._judged: dict[int, set[int]] = {}

    def put(self, text: str) -> None:
        """Write a line of the current node."""
        self.lines.append("    " + text)

    def constant(self, kind: str, bits: int) -> str:
        """Return the name of a constant."""
        return self.constants.setdefault((kind, bits), f"c{len(self.constants)}")

    def function(self, source: str) -> str:
        """Return the name of a scalar function."""
        return self.lambdas.setdefault(source, f"l{len(self.lambdas)}")

    def judged(self) -> set[int]:
        """Return the registers of this function whose value is used for more than a store."""
        made = self.inlined.made
        found = self._judged.get(id(made))
        if found is None:
            found = self._judged[id(made)] = values_that_matter(with_branches(made.blocks, made.shapes))
        return found

    # -- operands

    def place(self, register: Register) -> int:
        """Return the place of a register."""
        return self.inlined.base + register.index

    def holds_float(self, register: Register) -> bool:
        """Tell whether a register is an array of floats."""
        return self.inlined.holds_float[register.index]

    def is_copied(self, operand: Operand) -> bool:
        """Tell whether a register holds float32 whose NaN keep their bits."""
        return isinstance(operand, Register) and operand.index in self.inlined.copied

    def moved(self, target: Operand, source: Operand, type: str) -> str:
        """Return a source of a move, with the bits of its NaN if those of the destination matter."""
        text = self.value(source, type)
        computed = isinstance(source, Register) and self.holds_float(source) and not self.is_copied(source)
        if type == "f32" and computed and self.is_copied(target):
            return f"canonical({text})"
        return text

    def value(self, operand: Operand, type: str) -> str:
        """Return an operand as an expression of the kind of a type."""
        if isinstance(operand, Register):
            return self.register(operand, type)
        if isinstance(operand, Int):
            if type == "pred":
                if operand.value:
                    return "TRUE"
                return "FALSE"
            return self.constant(kind_of(type), operand.value & (1 << BITS[type]) - 1)
        if isinstance(operand, Float):
            if type == "f64" or BITS[type] == 64:
                return self.constant(kind_of(type), _double_bits(operand.value))
            return self.constant(kind_of(type), single_bits(operand))
        if isinstance(operand, Not):
            return f"(~r{self.place(operand.of)})"
        if isinstance(operand, Special):
            text, have = self.special(operand), width_of(SPECIAL[operand.name][0])
            if have == width_of(type):
                return text
            return f"{text}.astype(u{width_of(type)})"
        if isinstance(operand, Symbol):
            return self.constant(kind_of(type), self.symbol(operand) & (1 << BITS[type]) - 1)
        raise Unsuited(f"an operand at line {self.line}")

    def register(self, register: Register, type: str) -> str:
        """Return a register as an expression; of a wider register, the low bits."""
        name = f"r{self.place(register)}"
        if type == "pred":
            return name
        have, want = BITS[register.type], BITS[type]
        held = self.holds_float(register)
        if held and type in FLOAT_TYPES and have == want:
            return name
        if have > 64:
            raise Unsuited("128-bit values")
        if held:
            if self.is_copied(register):
                name = f"{name}.view(u4)"
            else:
                name = f"bits_{have}({name})"
        if have > want:
            name = f"{name}.astype(u{want // 8})"
        elif have < want:
            raise Unsuited("a narrow register")
        if type in FLOAT_TYPES:
            return f"{name}.view(f{want // 8})"
        return name

    def signed(self, operand: Operand, type: str) -> str:
        """Return an operand as an expression of a signed integer."""
        return f"{self.value(operand, type)}.view(i{width_of(type)})"

    def special(self, operand: Special) -> str:
        """Return the expression of a special register."""
        name = operand.name
        kind, text, *_ = SPECIAL[name]
        if name in _BY_THREAD:
            return f"M.special(g, {name!r})"
        if "cluster" in name or "reserved" in name or "B." in text:
            raise Unsuited(f"%{name}")
        return f"u{BITS[kind] // 8}({text.replace('L.', 'M.launch.')})"

    def symbol(self, operand: Symbol) -> int:
        """Return the address of a name in its state space."""
        target = operand.target
        if isinstance(target, Function):
            return self.unit.code_address(target) + operand.offset
        assert isinstance(target, Variable)
        if target.space == "shared":
            return self.shared[id(target)] + operand.offset & 0xFFFFFFFF
        if target.space == "local":
            return self.inlined.low + target.offset + operand.offset & 0xFFFFFFFF
        if target.space == "param":
            if self.is_kernel_parameter(target):
                return target.offset + operand.offset & 0xFFFFFFFF
            raise Unsuited("the address of a parameter")
        return self.unit.addresses[id(target)] + operand.offset

    def is_kernel_parameter(self, variable: Variable) -> bool:
        """Tell whether a variable is a parameter of the kernel."""
        function = self.inlined.made.function
        return function.entry and variable in function.parameters

    # -- results

    def assign(self, operand: Operand, type: str, text: str, exact: bool = False, kept: bool = False) -> None:
        """Write the value of a type into a destination.

        exact  the expression has the kind of the type
        kept   a NaN has its bits already
        """
        if isinstance(operand, Pair):
            operand = operand.first
        if isinstance(operand, Sink):
            return
        assert isinstance(operand, Register)
        kind = kind_of(type)
        if not exact:
            text = f"to_{kind}({text})"
        if type != "pred":
            held, have = self.holds_float(operand), width_of(operand.type)
            if kind == "f4" and self.is_copied(operand) and not kept:
                text = f"canonical({text})"
            if kind[0] == "f" and not (held and have == width_of(type)):
                text, kind = f"bits_{BITS[type]}({text})", f"u{width_of(type)}"
            if kind[0] == "u":
                if int(kind[1:]) != have:
                    if text.isidentifier():
                        text = f"{text}.astype(u{have})"
                    else:
                        text = f"({text}).astype(u{have})"
                if held:
                    text = f"({text}).view(f{have})"
        self.set(f"r{self.place(operand)}", text)

    def set(self, name: str, text: str) -> None:
        """Write an assignment, which the guard may limit to some threads."""
        if self.guard:
            text = f"pick({self.guard}, {text}, {name})"
        if name != text:
            self.put(f"{name} = {text}")

    def carried(self, target: Operand, type: str) -> str:
        """Return the type in which a value is moved: a float type if the destination holds floats."""
        bits = BITS[type]
        if isinstance(target, Register) and self.holds_float(target) and BITS[target.type] == bits:
            if bits == 32:
                return "f32"
            return "f64"
        return f"b{bits}"

    # -- rows of the table

    def general(self, instruction: Instruction, shape: Shape) -> None:
        """Write an instruction by the expression in its row."""
        form, chosen, result = shape.form, shape.chosen, shape.result
        type, target = shape.wanted[0], instruction.operands[0]
        pairs = list(zip(shape.slots, shape.wanted, instruction.operands))
        names = [slot.name for slot, _, _ in pairs if not slot.written]
        ftz = "ftz" in chosen
        values: dict[str, str] = {}
        for slot, wanted, operand in pairs:
            if not slot.written:
                text = self.value(operand, wanted)
                if ftz and wanted == "f32":
                    values[slot.name] = f"flushed({text})"
                else:
                    values[slot.name] = text
                if f"{{s{slot.name}}}" in form.value + form.vector:
                    values["s" + slot.name] = self.signed(operand, wanted)
        if result == "half":
            flags = ",".join(sorted(set(chosen.values()) - {"rn", "approx", "noftz"}))
            given = ", ".join(values[name] for name in names)
            self.assign(target, type, f"half_{form.value}({shape.type!r}, {flags!r}, {given})", True)
            return
        if result == "round" and chosen.get("rnd", "rn") != "rn":
            text = f"directed_{instruction.opcode}({BITS[type]}, {chosen['rnd']!r}, {', '.join(values.values())})"
            self.finish(target, type, text, ftz, "sat" in chosen, True)
            return
        template, exact = form.vector or form.value, False
        if result == "float" and instruction.opcode in ("min", "max"):
            text = self._extreme(instruction.opcode, shape, values)
        elif form.vector or self._is_direct(shape):
            text = self.expand(template, values, shape)
            exact = not form.vector and not _CALL.match(template)  # operators keep the kind
        else:
            wanted_names = [name for name in values if f"{{{name}}}" in template]
            source = self.expand(template, {name: name for name in values}, shape)
            if result == "wrap":
                source = f"({source}) & {mask(BITS[type])}"
            arguments = ", ".join(values[name] for name in wanted_names)
            text = (
                f"each({self.function(f'lambda {chr(44).join(wanted_names)}: {source}')}, {kind_of(type)}, {arguments})"
            )
        if kind_of(type)[0] == "f":
            self.finish(target, type, text, ftz and type == "f32", "sat" in chosen, exact)
        else:
            self.assign(target, type, text, exact)

    def _is_direct(self, shape: Shape) -> bool:
        """Tell whether arrays can evaluate the expression of a row as it is."""
        template = shape.form.value
        found = _CALL.match(template)
        if found:
            return found.group(1) in ARRAY_NAMES
        same = all(kind_of(type) == kind_of(shape.wanted[0]) for type in shape.wanted if type in BITS)
        most = (1 << BITS.get(shape.wanted[0], 0)) - 1
        fits = all(int(number, 16) <= most for number in _NUMBER.findall(template))
        return same and fits and BITS.get(shape.type, 0) >= 8 and bool(_DIRECT.match(template))

    def expand(self, template: str, values: dict[str, str], shape: Shape) -> str:
        """Fill the operands and the facts of an instruction into the expression of its row."""
        bits = BITS.get(shape.type, 32)
        facts = {"W": str(bits), "M": mask(bits), "S": f"{1 << bits - 1:#x}"}

        def fill(found: re.Match[str]) -> str:
            word = found.group(1)
            if word in values:
                return values[word]
            if word in facts:
                return facts[word]
            if word[0] == "T" and word[1:] in ("", "2", "3"):
                return shape.types[int(word[1:] or 1) - 1]
            return shape.chosen.get(word, "")

        return _PLACE.sub(fill, template)

    def _extreme(self, opcode: str, shape: Shape, values: dict[str, str]) -> str:
        name = ("minimum" if opcode == "min" else "maximum") + ("_nan" if "NaN" in shape.chosen else "")
        a, b = values["a"], values["b"]
        if "xorsign" in shape.chosen:
            return f"signs_multiplied({name}(abs({a}), abs({b})), {a}, {b})"
        if "c" in values:
            a, b, c = (f"abs({values[each]})" if "abs" in shape.chosen else values[each] for each in "abc")
            return f"{name}({name}({a}, {b}), {c})"
        return f"{name}({a}, {b})"

    def finish(
        self, target: Operand, type: str, text: str, ftz: bool = False, saturate: bool = False, exact: bool = False
    ) -> None:
        """Write the rounding, the flush and the saturation of a float result."""
        if not exact:
            text = f"to_{kind_of(type)}({text})"
        if ftz:
            text = f"flushed({text})"
        if saturate:
            text = f"saturated({text})"
        self.assign(target, type, text, True)


def _double_bits(value: float) -> int:
    import struct

    return int(struct.unpack("<Q", struct.pack("<d", value))[0])
