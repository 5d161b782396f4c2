"""The classes of a parsed module, and the scopes of its names.

Types are the words of PTX without the dot ("u32", "f64", "pred"). A register has two names: the one in the text, for
reports, and the one in the generated Python, which consists of checked characters.

Source       PTX ISA, "State Spaces, Types, and Variables", "Instruction Operands"
Read next    parser.py, which creates these; ../translating/registers.py and ../translating/translate.py, which read
             them
"""

from __future__ import annotations

import re

from ...machine.codes import INVALID_PTX

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Union

    Operand = Union[
        "Register",
        "Special",
        "Int",
        "Float",
        "Symbol",
        "Address",
        "Texel",
        "Vector",
        "Not",
        "Pair",
        "Part",
        "Sink",
        "Name",
    ]
    Item = Union["Instruction", "Label"]

__all__ = [
    "Address", "BITS", "Float", "Function", "Instruction", "Int", "Label", "Module",
    "Name", "Not", "Pair", "Part", "Prototype", "python_name", "Register",
    "Rejected", "Scope", "Sink", "Special", "Sum", "Symbol", "Texel", "Variable", "Vector",
    "signature",
]  # fmt: skip

BITS = {
    "b8": 8, "u8": 8, "s8": 8, "b16": 16, "u16": 16, "s16": 16, "f16": 16, "bf16": 16, "b32": 32, "u32": 32, "s32": 32,
    "f32": 32, "f16x2": 32, "bf16x2": 32, "u16x2": 32, "s16x2": 32, "tf32": 32, "b64": 64, "u64": 64, "s64": 64,
    "f64": 64, "f32x2": 64,
    **dict.fromkeys("e4m3x2 e5m2x2 e2m3x2 e3m2x2 ue8m0x2 e2m1x4".split(), 16), "e2m1x2": 8,
    **dict.fromkeys("e4m3x4 e5m2x4 e2m3x4 e3m2x4".split(), 32),
    **dict.fromkeys("e4m3 e5m2 e2m3 e3m2 e2m1".split(), 8), "s4": 4, "u4": 4, "b1": 1,
    "b128": 128, "b1024": 1024, "pred": 1,
}  # fmt: skip

LONGEST_NAME = 60
_PLAIN = re.compile(r"%?([A-Za-z_]\w*)\Z", re.ASCII)


class Register:
    """A virtual register, declared by .reg."""

    __slots__ = ("name", "type", "python", "index")

    def __init__(self, name: str, type: str, python: str, index: int) -> None:
        self.name = name
        self.type = type
        self.python = python
        self.index = index  # its number in the function, the bit position in sets of registers


class Sum(Register):
    """An operand that is a register plus a constant, `%r1 + 4`: an addition before the instruction writes it."""

    __slots__ = ("of", "number")

    def __init__(self, of: Register, number: int, python: str, index: int) -> None:
        super().__init__(f"{of.name}+{number}", of.type, python, index)
        self.of, self.number = of, number


class Variable:
    """A variable: global, constant, shared or local memory, or a parameter.

    shape   count elements of `type`; size in bytes; initial: (offset, bytes or Symbol, width), sorted
    """

    __slots__ = (
        "name",
        "space",
        "type",
        "size",
        "alignment",
        "initial",
        "line",
        "linkage",
        "managed",
        "scalar",
        "element",
        "offset",
    )

    def __init__(self, name: str, space: str, type: str, size: int, alignment: int, line: int) -> None:
        self.name = name
        self.space = space
        self.type = type
        self.size = size
        self.alignment = alignment
        self.initial: list[tuple[int, int | Symbol, int]] = []
        self.line = line
        self.linkage = ""
        self.managed = False
        self.scalar = True
        self.element = size  # bytes of an element of an array
        self.offset = 0  # in the parameters, the local frame or shared memory; set by the layout


class Special:
    """A special register such as %tid.x, named without the percent sign."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


class Int:
    """An integer constant: its 64 bits, and whether they are a .u64 or, as usual, a .s64."""

    __slots__ = ("value", "unsigned")

    def __init__(self, value: int, unsigned: bool = False) -> None:
        self.value = value
        self.unsigned = unsigned


class Float:
    """A floating-point constant: its value, and its 32 bits if it was written in the form 0f3F800000."""

    __slots__ = ("value", "single")

    def __init__(self, value: float, single: int | None = None) -> None:
        self.value = value
        self.single = single


class Symbol:
    """The address of a variable or function with an offset; `generic` if written as generic(name)."""

    __slots__ = ("target", "offset", "generic", "mask")

    def __init__(self, target: Variable | Function, offset: int = 0, generic: bool = False, mask: int = 0) -> None:
        self.target = target
        self.offset = offset
        self.generic = generic
        self.mask = mask  # 0xff00(name) selects one byte of the address


class Name:
    """A name of a label, a callee or a prototype, depending on the instruction."""

    __slots__ = ("text", "scope", "prototype")

    def __init__(self, text: str, scope: Scope, prototype: Prototype | None = None) -> None:
        self.text = text
        self.scope = scope
        self.prototype = prototype  # the target, if it is known already


class Address:
    """An address in square brackets."""

    __slots__ = ("base", "offset")

    def __init__(self, base: Register | Symbol | None, offset: int) -> None:
        self.base = base
        self.offset = offset


class Texel:
    """A texture or surface with coordinates, `[%rd1, {%f1, %f2}]`."""

    __slots__ = ("base", "offset", "coordinates")

    def __init__(self, base: Register | Symbol | None, offset: int, coordinates: Vector) -> None:
        self.base = base
        self.offset = offset
        self.coordinates = coordinates


class Vector:
    """Operands in braces, or the argument list of a call in parentheses."""

    __slots__ = ("items", "round")

    def __init__(self, items: list[Operand], round: bool = False) -> None:
        self.items = items
        self.round = round


class Not:
    """A negated predicate operand, `!%p1`."""

    __slots__ = ("of",)

    def __init__(self, of: Register) -> None:
        self.of = of


class Pair:
    """Two destinations, `%r1|%p1`."""

    __slots__ = ("first", "second")

    def __init__(self, first: Operand, second: Operand) -> None:
        self.first = first
        self.second = second


class Part:
    """A part of a register, `%r1.b0`: bytes or half words."""

    __slots__ = ("of", "selector")

    def __init__(self, of: Register, selector: str) -> None:
        self.of = of
        self.selector = selector


class Sink:
    """The destination `_`, which discards the result."""

    __slots__ = ()


class Label:
    """A label, the target of branches."""

    __slots__ = ("name", "line", "number")

    def __init__(self, name: str, line: int) -> None:
        self.name = name
        self.line = line
        self.number = -1  # the number of its basic block


class Instruction:
    """An instruction, `@!%p1 opcode.modifier operands;`."""

    __slots__ = ("line", "guard", "negated", "opcode", "modifiers", "operands", "scope", "alignment", "inside", "used")

    def __init__(
        self, line: int, guard: Register | None, negated: bool, words: list[str], operands: list[Operand], scope: Scope
    ) -> None:
        self.line = line
        self.guard = guard
        self.negated = negated
        self.opcode = words[0]
        self.modifiers = tuple(words[1:])
        self.operands = operands
        self.scope = scope
        self.alignment = 0  # of a load of a part of a vector: that of the vector
        self.inside = 0  # the offset of the part in the vector
        self.used: tuple[list[Register], list[Register]] | None = None  # see reads_and_writes()

    @property
    def text(self) -> str:
        """Return the opcode with its modifiers."""
        return ".".join((self.opcode, *self.modifiers))


class Prototype:
    """The signature of an indirect call, or a table of labels or callees."""

    __slots__ = ("returns", "parameters", "labels")

    def __init__(self, returns: list[Variable], parameters: list[Variable], labels: list[Name] | None = None) -> None:
        self.returns = returns
        self.parameters = parameters
        self.labels = labels


def signature(parameters: Iterable[Variable | Register], returns: Iterable[Variable | Register]) -> str:
    """Return how values get into and out of a device function: "(b32, f64, 8 bytes) -> (b32)"."""

    def passed(each: Variable | Register) -> str:
        if isinstance(each, Variable) and not each.scalar:
            return f"{each.size} bytes"
        if each.type in ("f32", "f64", "pred"):
            return each.type
        return f"b{BITS[each.type]}"

    return f"({', '.join(map(passed, parameters))}) -> ({', '.join(map(passed, returns))})"


class Function:
    """A kernel or a device function; without a body, only a declaration."""

    def __init__(self, name: str, entry: bool, line: int) -> None:
        self.name = name
        self.entry = entry
        self.line = line
        self.returns: list[Variable] = []
        self.parameters: list[Variable] = []
        self.return_registers: list[Register] = []
        self.parameter_registers: list[Register] = []
        self.body: list[Item] | None = None
        self.registers: list[Register] = []
        self.variables: list[Variable] = []  # .local and .shared and .param inside the body
        self.limits: dict[str, tuple[int, ...]] = {}
        self.index = 0  # its number in the module, and part of its address
        self.python = ""
        self.scope: Scope | None = None


class Module:
    """A PTX module."""

    def __init__(self) -> None:
        self.version = (0, 0)
        self.target = ""
        self.architecture = (0, 0)
        self.functions: dict[str, Function] = {}
        self.prototypes: dict[str, int] = {}  # the numbers of the signatures that calls through pointers expect
        self.variables: dict[str, Variable] = {}
        self.files: dict[int, str] = {}
        # of .loc: PTX line, number of the file, line of the file, column
        self.locations: list[tuple[int, int, int, int]] = []
        self.inlined: dict[int, tuple[int, int]] = {}  # of such a PTX line: file and line into which it was inlined
        self.text = ""


class Scope:
    """The names of a block in braces. Inline assembly repeats names in inner scopes, so look-up goes outwards.

    A declaration `.reg .b32 %r<1000000>;` is cheap: its registers are created when they are first named.

    lowest  the lowest number at the end of names that are declared singly, by the text before it
    """

    __slots__ = ("outer", "names", "ranges", "lowest", "labels", "function")

    def __init__(self, outer: Scope | None, function: Function | None) -> None:
        self.outer = outer
        self.function = function
        self.names: dict[str, Register | Variable | Function | Prototype | Vector] = {}
        self.ranges: dict[str, tuple[int, str]] = {}
        self.lowest: dict[str, int] = {}
        self.labels: dict[str, Label] = {}

    def find(self, name: str) -> Register | Variable | Function | Prototype | Vector | None:
        """Look a name up, from this scope outwards."""
        scope: Scope | None = self
        while scope is not None:
            found = scope.names.get(name)
            if found is not None:
                return found
            if scope.ranges:
                whole = name.partition(".")[0]  # a vector and one of its parts are declared together
                if whole not in scope.names:
                    type = scope.in_range(whole)
                else:
                    type = ""
                if type:
                    scope.declare(whole, type)
                    return scope.names.get(name)
            scope = scope.outer
        return None

    def in_range(self, name: str) -> str:
        """Return the type of a name in a numbered declaration of this scope, or "".

        As in ptxas, all digits at the end are the number, with leading zeros, and modulo 2**32.
        """
        stem = name.rstrip("0123456789")
        digits, held = name[len(stem) :], self.ranges.get(stem)
        if digits and held is not None and int(digits[-32:]) % 2**32 < held[0]:  # (2**32 divides 10**32)
            return held[1]
        return ""

    def note(self, name: str) -> None:
        """Note a name that is declared singly: a later range with it is refused, except for 0, as in ptxas."""
        stem = name.rstrip("0123456789")
        digits = name[len(stem) :]
        if digits[:1] not in ("", "0") and len(digits) < 11:  # (no range has more than 2**32 registers)
            self.lowest[stem] = min(int(digits), self.lowest.get(stem, int(digits)))

    def find_label(self, name: str) -> Label | None:
        """Look a label up, from this scope outwards."""
        scope: Scope | None = self
        while scope is not None:
            found = scope.labels.get(name)
            if found is not None:
                return found
            scope = scope.outer
        return None

    def declare(self, name: str, type: str) -> Register | Vector:
        """Create a register in this scope, or a vector of registers if the type begins with `v2.` or `v4.`."""
        count, dot, element = type.partition(".")
        if dot:
            items: list[Operand] = []
            for first, second in zip("xyzw"[: int(count[1])], "rgba"):
                part = self.names[f"{name}.{second}"] = self.declare(f"{name}.{first}", element)
                items.append(part)
            vector = self.names[name] = Vector(items)
            return vector
        function = self.function
        assert function is not None
        index = len(function.registers)
        made = Register(name, type, python_name("r", name, index, self is function.scope), index)
        function.registers.append(made)
        self.names[name] = made
        return made

    def declare_sum(self, of: Register, number: int) -> Sum:
        """Create the register for a register plus a constant in this scope."""
        function = self.function
        assert function is not None
        index = len(function.registers)
        made = Sum(of, number, python_name("r", "+", index), index)
        function.registers.append(made)
        self.names[made.name] = made
        return made


def python_name(prefix: str, name: str, number: int, plain: bool = True) -> str:
    """Return a safe Python name for a PTX name.

    The number distinguishes names that would be equal: those of inner scopes, `x` and `%x`, names without letters.

    >>> python_name("r", "%rd4", 7), python_name("r", "rd4", 7), python_name("r", "%a$b", 7)
    ('r_rd4', 'r7_rd4', 'r7_')
    """
    if len(name) <= LONGEST_NAME:
        match = _PLAIN.match(name)
    else:
        match = None
    if match is None:
        return f"{prefix}{number}_"
    if plain and name[0] == "%":
        return f"{prefix}_{match.group(1)}"
    return f"{prefix}{number}_{match.group(1)}"


# -- rejections


class Rejected(Exception):
    """The rejection of an image, with a log in the format of ptxas.

    shape   code: the CUresult; log: the content of the JIT error log; line: the line of the error, or None
    """

    def __init__(self, code: int, log: str, line: int | None = None) -> None:
        super().__init__(code, log, line)
        self.code = code
        self.log = log
        self.line = line

    def __str__(self) -> str:
        return self.log

    @classmethod
    def at(cls, line: int, message: str, code: int = INVALID_PTX) -> Rejected:
        """Return a rejection that names a line of the text."""
        log = (
            f"ptxas application ptx input, line {line}; error   : {message}\n"
            "ptxas fatal   : Ptx assembly aborted due to errors"
        )
        return cls(code, log, line)
