"""The base of all emitters: lines of generated Python, operands as expressions, results in registers.

The generated source contains only integers, floats written with repr(), names from `python_name`, and words of this
package; no other part of the PTX text reaches it. Each line has its PTX line and, if it accesses memory, a note from
which a report learns the register of the address.

Read next    access.py, data.py, control.py for the instructions; ../translate.py for the code around them
"""

from __future__ import annotations

import math
import struct

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
    Rejected,
    Sink,
    Special,
    Symbol,
    Variable,
)  # fmt: skip

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...reading.syntax import Operand
    from ..unit import Unit

__all__ = ["Emitter", "Line", "Note", "bits_of_constant", "mask", "plain_float"]

FLOAT_TYPES = ("f32", "f64")


class Note:
    """The memory access of a line, for the report of a fault."""

    __slots__ = ("space", "verb", "width", "register", "offset")

    def __init__(self, space: str, verb: str, width: int, register: str, offset: int) -> None:
        self.space = space
        self.verb = verb
        self.width = width
        self.register = register  # the Python name of the address, or "" if offset is the address
        self.offset = offset


class Line:
    """A line of generated Python, and the instruction that it belongs to."""

    __slots__ = ("indent", "text", "line", "note", "instruction")

    def __init__(
        self, indent: int, text: str, line: int, note: Note | None, instruction: Instruction | None = None
    ) -> None:
        self.indent = indent
        self.text = text
        self.line = line
        self.note = note
        self.instruction = instruction


def mask(bits: int) -> str:
    """Return the mask of a width."""
    return f"{(1 << bits) - 1:#x}"


def plain_float(value: float) -> str:
    """Return a float as an expression that is valid in every place."""
    if value != value:
        return "NAN"
    if math.isinf(value):
        if value > 0:
            return "INF"
        return "(-INF)"
    text = repr(value)
    if text[0] == "-":
        return f"({text})"
    return text


class Emitter:
    """The state of the translation of one function, and the methods that all emitters use."""

    def __init__(self, unit: Unit, function: Function, holds_float: list[bool]) -> None:
        self.unit = unit
        self.function = function
        self.inputs, self.outputs = frozenset(function.parameters), frozenset(function.returns)
        self.holds_float = holds_float
        self.copied: set[int] = set()  # registers of floats whose NaN keeps its bits
        self.body: list[Line] = []
        self.prologue: list[Line] = []
        self.out = self.body
        self.indent = 0
        self.line = function.line
        self.instruction: Instruction | None = None  # the one that is being written
        self.sites = 0
        self.shared_views: dict[str, None] = {}
        self.local_views: dict[str, None] = {}
        self.needs_thread = False
        self.needs_block = False
        self.needs_watch = False  # whether accesses to shared memory are recorded
        self.needs_past = self.needs_delays = False  # whether the history, or the delayed stores, are told of accesses
        self.matters = False  # whether the content of what is read is used for more than a store
        self.order = ""  # how strong the load or store is: see CheckEmitter.strength
        self.needs_mine = False  # whether the stamps of this thread are needed
        self.tracking = False  # whether marks of undefined values are moved along: see ../tracking.py
        self.marks = ""  # the variable with the marks of the last access; "shared" for shared memory
        self.judged: set[int] = set()  # registers that are used for more than a store
        self.needs_place = False  # whether the thread's index in its block is needed
        self.needs_functions = False
        self.needs_fuel = False
        self.uses_carry = False
        self.blocks = False
        self.frame_size = 0
        self.has_frame = False  # whether the function has local variables, or takes the address of a parameter
        self.nests = False  # whether the function may call itself
        self.granule = unit.granules[function.name]  # see Unit
        self.local_pointers: set[int] = set()  # registers that probably hold generic addresses in the frame
        self.known: dict[str, set[str]] = {}  # by register: the names of the checks of it that are still valid
        self.early: set[int] = set()  # registers that are computed once for a block
        self.signed_early: set[int] = set()

    # -- lines

    def put(self, text: str, note: Note | None = None) -> None:
        """Write one line."""
        self.out.append(Line(self.indent, text, self.line, note, self.instruction))

    def reject(self, message: str) -> Rejected:
        """Return (do not raise) a rejection of the current instruction."""
        return Rejected.at(self.line, message)

    def mismatch(self, instruction: Instruction) -> Rejected:
        """Return (do not raise) the rejection of operands that do not match."""
        return self.reject(f"Arguments mismatch for instruction '{instruction.opcode}'")

    # -- operands

    def value(self, operand: Operand, type: str) -> str:
        """Return an operand as an expression: a float for f32 and f64, a bool for pred, else an unsigned integer."""
        if isinstance(operand, Register):
            return self.register(operand, type)
        if isinstance(operand, Int):
            if type == "pred":
                if operand.value:
                    return "True"
                return "False"
            if type in FLOAT_TYPES:
                return self._constant(operand, type)
            number = operand.value & (1 << BITS[type]) - 1
            if number < 4096:
                return str(number)
            return f"{number:#x}"
        if isinstance(operand, Float):
            return self._constant(operand, type)
        if isinstance(operand, Not):
            return f"(not {operand.of.python})"
        if isinstance(operand, Special):
            return f"({self.special(operand)})"
        if isinstance(operand, Symbol):
            return self.symbol(operand)
        raise self.reject("Operand cannot be read")

    def register(self, register: Register, type: str) -> str:
        """Return a register as an expression of a type; of a wider register, the low bits."""
        name = register.python
        if type == "pred":
            return name
        have, want = BITS[register.type], BITS[type]
        held = self.holds_float[register.index]
        if held and type in FLOAT_TYPES and have == want:
            return name
        if held:
            name = f"{'copied_' * (register.index in self.copied)}bits_of_{have}({name})"
        if have > want:
            name = f"({name} & {mask(want)})"
        if type in FLOAT_TYPES:
            return f"float_of_{want}({name})"
        return name

    def kept(self, operand: Operand, type: str) -> str:
        """Return an operand as `value` does, but as a float32 with the bits that its NaN has."""
        text = self.value(operand, type)
        if type != "f32":
            return text
        if not isinstance(operand, Register):
            if text == "NAN":
                return f"float_of_32({bits_of_constant(operand, 32):#x})"
            return text
        held = self.holds_float[operand.index] and operand.index not in self.copied
        if held:
            return f"({text} if {text} == {text} else NAN)"
        return text

    def signed(self, operand: Operand, type: str) -> str:
        """Return an operand as an expression for a signed integer of a type's width."""
        bits = BITS[type]
        if isinstance(operand, Int):
            number = operand.value & (1 << bits) - 1
            number -= number >> bits - 1 << bits
            if number >= 0:
                return str(number)
            return f"({number})"
        name = self.value(operand, type)
        if isinstance(operand, Register) and operand.index in self.early and BITS[operand.type] == bits:
            return self._signed_once(operand, name, bits)
        return f"({name} if {name} < {1 << bits - 1:#x} else {name} - {1 << bits:#x})"

    def _signed_once(self, register: Register, name: str, bits: int) -> str:
        if name.isidentifier():
            made = f"q_{name}"
        else:
            made = ""
        if not made:
            return f"({name} if {name} < {1 << bits - 1:#x} else {name} - {1 << bits:#x})"
        if register.index not in self.signed_early:
            self.signed_early.add(register.index)
            text = f"{made} = {name} if {name} < {1 << bits - 1:#x} else {name} - {1 << bits:#x}"
            self.prologue.append(Line(0, text, self.line, None))
        return made

    def _constant(self, operand: Float | Int, type: str) -> str:
        bits = bits_of_constant(operand, BITS[type])
        if type not in ("f32", "f64"):
            return f"{bits:#x}"
        text = plain_float(float_of_bits(bits, BITS[type]))
        if text == "NAN" and type == "f64":  # of a float32, arithmetic needs no other bits; see kept()
            return f"float_of_64({bits:#x})"
        return text

    def special(self, operand: Special) -> str:
        """Return the expression of a special register."""
        _, expression, uniform, (version, architecture) = SPECIAL[operand.name]
        if self.unit.module.version < version:
            wanted = "PTX ISA .version {}.{} or later".format(*version)
            raise self.reject(f"Feature '%{operand.name}' requires {wanted}")
        if self.unit.module.architecture < architecture:
            raise self.reject(
                f"Feature '%{operand.name}' requires .target sm_{architecture[0]}{architecture[1]} or higher"
            )
        self.needs_place = self.needs_place or not uniform
        self.needs_block = self.needs_block or "B." in expression
        return expression

    def symbol(self, operand: Symbol) -> str:
        """Return the address of a name in its state space."""
        target = operand.target
        if isinstance(target, Function):
            return f"{self.unit.code_address(target) + operand.offset:#x}"
        return self.variable(target, operand.offset)

    def variable(self, target: Variable, offset: int) -> str:
        """Return the address of a variable in its state space."""
        raise NotImplementedError

    # -- results

    def assign(self, operand: Operand, type: str, expression: str, kept: bool = False) -> None:
        """Assign a value of a type to a destination; `kept`: a NaN in the value already has the right bits."""
        if isinstance(operand, Sink):
            self.put(expression)
            return
        if isinstance(operand, Pair):
            operand = operand.first
        if not isinstance(operand, Register):
            raise self.reject("Result register required")
        name = operand.python
        held, have = self.holds_float[operand.index], BITS[operand.type]
        if type in FLOAT_TYPES:
            if not held or have != BITS[type]:
                expression = f"{'copied_' * (kept and type == 'f32')}bits_of_{BITS[type]}({expression})"
                if held:
                    expression = f"float_of_{have}({expression})"
        elif held:
            expression = f"float_of_{have}({expression})"
        if name != expression:
            self.put(f"{name} = {expression}")
        if type == "f32" and operand.index in self.copied and have == 32 and not kept:
            self.put(f"if {name} != {name}: {name} = NAN")


def single_bits(operand: Float) -> int:
    """Return the 32 bits of a constant as a float32."""
    if operand.single is not None:
        return operand.single
    try:
        return int(struct.unpack("<I", struct.pack("<f", operand.value))[0])
    except OverflowError:
        if operand.value < 0:
            return 0xFF800000
        return 0x7F800000


def bits_of_constant(constant: Operand, width: int) -> int:
    """Return the bits of a constant."""
    if not isinstance(constant, Float):
        bits = getattr(constant, "value", 0)
    elif width <= 32:
        bits = single_bits(constant)
    else:
        (bits,) = struct.unpack("<Q", struct.pack("<d", constant.value))
    return bits & (1 << width) - 1


def float_of_bits(bits: int, width: int) -> float:
    """Return the float with these bits."""
    if width == 32:
        code = ("<I", "<f")
    else:
        code = ("<Q", "<d")
    return float(struct.unpack(code[1], struct.pack(code[0], bits & (1 << width) - 1))[0])
