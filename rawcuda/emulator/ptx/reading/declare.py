"""Declarations: registers, variables, parameters and initializers.

An initializer can contain integers, floats, names of functions and variables, `generic(name)`, and a mask that selects
one byte of an address, `0xff00(name)`. It is stored as (offset, value, width), and becomes bytes once addresses are
known.

Source       PTX ISA, "Variables", "Initializers", "Constant Expressions"
Read next    parser.py
"""

from __future__ import annotations

import operator
import re
import struct

from ...machine.codes import OUT_OF_MEMORY
from .lexer import NUMBER, WORD, Tokens
from .syntax import BITS, Float, Function, Int, Register, Rejected, Scope, Symbol, Variable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

__all__ = [
    "SPACES",
    "constant",
    "number",
    "register_declaration",
    "register_parameter",
    "variable_declaration",
    "variable_declarations",
]

SPACES = {".global": "global", ".const": "const", ".shared": "shared", ".local": "local", ".param": "param"}

BIGGEST_VARIABLE = 1 << 30
BIGGEST_PARAMETER = 1 << 20
DEEPEST_EXPRESSION = 64
LONGEST_NUMBER = 4096  # characters
_M64 = (1 << 64) - 1
_BYTES = [0xFF << 8 * place for place in range(8)]
_RANGE = re.compile(r"(?:%?[A-Za-z][\w$%]*|%?[_$][\w$%]+)\Z", re.ASCII)


def number(tokens: Tokens) -> Int | Float:
    """Read a numeric token with int(); nothing is evaluated."""
    text = tokens.text
    if len(text) > LONGEST_NUMBER:
        raise tokens.fail("Constant overflow")
    kind = text[:2]
    if kind in ("0f", "0F") and len(text) == 10:
        bits = int(text[2:], 16)
        tokens.advance()
        return Float(struct.unpack("<f", struct.pack("<I", bits))[0], bits)
    if kind in ("0d", "0D") and len(text) == 18:
        bits = int(text[2:], 16)
        tokens.advance()
        return Float(struct.unpack("<d", struct.pack("<Q", bits))[0])
    if kind not in ("0x", "0X") and ("." in text or "e" in text or "E" in text):
        tokens.advance()
        return Float(float(text))
    if text[-1] == "U":
        digits = text[:-1]
    else:
        digits = text
    if kind in ("0x", "0X"):
        base = 16
    elif kind in ("0b", "0B"):
        base = 2
    elif digits[0] == "0":
        base = 8
    else:
        base = 10
    value = 0
    try:
        for digit in digits[2:] if base in (2, 16) else digits:
            if value >> 63:
                raise tokens.fail("Constant overflow")
            value = (
                value * base + int(digit, base) & _M64
            )  # as in ptxas: 2 ** 64 is 0, and ten times that is an overflow
    except ValueError:
        raise tokens.unexpected("a number") from None
    tokens.advance()
    return Int(value, text[-1] == "U" or value >> 63 != 0)


_PRECEDENCE = {
    "||": 1, "&&": 2, "|": 3, "^": 4, "&": 5, "==": 6, "!=": 6, "<": 7, ">": 7, "<=": 7, ">=": 7, "<<": 8, ">>": 8,
    "+": 9, "-": 9, "*": 10, "/": 10,
}  # fmt: skip


def constant(tokens: Tokens, depth: int = 0, floor: int = 0) -> Int | Float:
    """Read a constant expression: 64-bit integers with C's operators, or a single floating constant."""
    left = _unary(tokens, depth)
    while isinstance(left, Int):
        sign = _operator(tokens)
        rank = _PRECEDENCE.get(sign, 0)
        if rank < max(floor, 1):
            break
        for _ in sign:
            tokens.advance()
        left = _binary(tokens, sign, left, _another(tokens, depth, rank + 1))
    if isinstance(left, Int) and not floor and tokens.accept("?"):
        chosen = _another(tokens, depth)
        tokens.expect(":")
        other = _another(tokens, depth)
        if left.value:
            return chosen
        return other
    return left


def _another(tokens: Tokens, depth: int, floor: int = 0) -> Int:
    """Read a later operand of an operator."""
    if depth > DEEPEST_EXPRESSION:
        raise tokens.fail("Constant expression is nested too deeply")
    found = constant(tokens, depth + 1, floor)
    if not isinstance(found, Int):
        raise tokens.fail("Constant expression mixes integers and floats")
    return found


def _operator(tokens: Tokens) -> str:
    text = tokens.text
    if text in ("<", ">", "=", "!", "&", "|"):
        if tokens.at + 1 < len(tokens.texts):
            following = tokens.texts[tokens.at + 1]
        else:
            following = ""
        if text + following in _PRECEDENCE:
            return text + following
    return text


def _binary(tokens: Tokens, sign: str, left: Int, right: Int) -> Int:
    """Calculate as C does: with signed numbers, unless one of them is unsigned; a shift asks only its first operand."""
    unsigned = left.unsigned or right.unsigned
    if sign in ("<<", ">>"):
        unsigned = left.unsigned
    a, b = left.value, right.value
    if not unsigned:
        a, b = _signed(a), _signed(b)
    if sign in _COMPARISONS:
        return Int(int(_COMPARISONS[sign](a, b)))
    if sign == "/":
        if b == 0:
            raise tokens.fail("Division by zero in a constant expression")
        made = abs(a) // abs(b)
        if (a < 0) != (b < 0):
            made = -made
    elif sign == "<<":
        made = a << (b & 63)
    elif sign == ">>":
        made = a >> (b & 63)
    else:
        made = _ARITHMETIC[sign](a, b)
    return Int(made & _M64, unsigned)


_COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, ">": operator.gt, "<=": operator.le, ">=": operator.ge,
    "&&": lambda a, b: bool(a and b), "||": lambda a, b: bool(a or b),
}  # fmt: skip
_ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul,
    "&": operator.and_, "|": operator.or_, "^": operator.xor,
}  # fmt: skip


def _signed(value: int) -> int:
    return value - ((value >> 63) << 64)


def _unary(tokens: Tokens, depth: int) -> Int | Float:
    if depth > DEEPEST_EXPRESSION:
        raise tokens.fail("Constant expression is nested too deeply")
    sign = tokens.text
    if sign in ("-", "+", "~", "!") and tokens.kind != WORD:
        tokens.advance()
        inner = _unary(tokens, depth + 1)
        if isinstance(inner, Float):
            if sign in ("~", "!") or inner.single is not None:
                raise tokens.unexpected()
            if sign == "-":
                return Float(-inner.value)
            return inner
        if sign == "-":
            return Int(-inner.value & _M64, inner.unsigned)
        if sign == "~":
            return Int(~inner.value & _M64, True)
        if sign == "!":
            return Int(int(not inner.value))
        return inner
    if tokens.accept("("):
        if tokens.text in (".s64", ".u64"):  # a cast
            unsigned = tokens.text == ".u64"
            tokens.advance()
            tokens.expect(")")
            inner = _unary(tokens, depth + 1)
            if isinstance(inner, Int):
                return Int(inner.value, unsigned)
            return inner
        inner = constant(tokens, depth + 1)
        tokens.expect(")")
        return inner
    if tokens.accept("WARP_SZ"):
        return Int(32)
    if tokens.kind != NUMBER:
        raise tokens.unexpected("a constant")
    return number(tokens)


def _integer(tokens: Tokens) -> int:
    value = constant(tokens)
    if not isinstance(value, Int):
        raise tokens.fail("Integer constant expected")
    return value.value


_UNDECLARED = frozenset(  # types that only instructions may have
    "e4m3 e5m2 e2m3 e3m2 e2m1 s4 u4 b1 b1024 e4m3x2 e5m2x2 e2m3x2 e3m2x2 ue8m0x2 e2m1x2 e2m1x4 e4m3x4 e5m2x4 e2m3x4 "
    "e3m2x4 bf16 bf16x2 u16x2 s16x2 tf32 f32x2".split()
)


def _type(tokens: Tokens) -> str:
    name = tokens.text[1:]
    if tokens.text[:1] != "." or name not in BITS or name in _UNDECLARED:
        if tokens.text in (".texref", ".samplerref", ".surfref"):
            raise tokens.fail(f"'{tokens.text}': textures and surfaces are emulated only as .u64 handles")
        raise tokens.unexpected("a type")
    tokens.advance()
    return name


def register_declaration(tokens: Tokens, scope: Scope) -> None:
    """Read a `.reg` declaration up to the semicolon."""
    type = _register_type(tokens)
    while True:
        name = tokens.text
        if tokens.kind != WORD or not _RANGE.match(name):
            raise tokens.unexpected("a register name")
        tokens.advance()
        if tokens.text == "<":
            tokens.advance()
            count = _integer_in_range(tokens)
            tokens.expect(">")
            if name in scope.ranges or scope.lowest.get(name, count) < count:
                raise tokens.fail(f"Duplicate definition of variable '{name}'")
            scope.ranges[name] = (count, type)
        else:
            if name in scope.names or name in scope.labels or scope.in_range(name):
                raise tokens.fail(f"Duplicate definition of variable '{name}'")
            scope.declare(name, type)
            scope.note(name)
        if not tokens.accept(","):
            break
    tokens.expect(";")


def register_parameter(tokens: Tokens, scope: Scope) -> list[Register]:
    """Read a parameter of a function after `.reg`; return its registers: several, if it is a vector."""
    type = _register_type(tokens)
    name = tokens.text
    if tokens.kind != WORD or not _RANGE.match(name) or name in scope.names:
        raise tokens.unexpected("a register parameter")
    tokens.advance()
    made = scope.declare(name, type)
    scope.note(name)
    if isinstance(made, Register):
        return [made]
    return [each for each in made.items if isinstance(each, Register)]


def _register_type(tokens: Tokens) -> str:
    """Read the type of registers; that of vectors begins with `v2.` or `v4.`."""
    if tokens.accept(".align"):
        _integer(tokens)
    if tokens.text in (".v2", ".v4"):
        parts = int(tokens.advance()[2])
    else:
        parts = 0
    type = _type(tokens)
    if parts:
        if type == "pred" or BITS[type] * parts > 128:
            raise tokens.fail(f"A vector register of .v{parts} .{type} is wider than 128 bits, or of predicates")
        type = f"v{parts}.{type}"
    return type


def _integer_in_range(tokens: Tokens) -> int:
    if tokens.kind == NUMBER:
        found = number(tokens)
    else:
        found = None
    if not isinstance(found, Int):
        raise tokens.unexpected("a count")
    if found.value >= 1 << 32:
        raise tokens.fail("Constant overflow")
    return found.value


def variable_declaration(tokens: Tokens, scope: Scope, space: str, linkage: str = "") -> Variable:
    """Read a variable after `.param`, up to but not including the `,` or `)`."""
    return _named(tokens, scope, space, linkage, _Kind(tokens))


def variable_declarations(tokens: Tokens, scope: Scope, space: str, linkage: str = "") -> list[Variable]:
    """Read variables of one type, after `.global` or another space, including the semicolon."""
    kind = _Kind(tokens)
    made = [_named(tokens, scope, space, linkage, kind)]
    while tokens.accept(","):
        made.append(_named(tokens, scope, space, linkage, kind))
    tokens.expect(";")
    return made


class _Kind:
    """The part of a declaration before the names: type, alignment and attributes."""

    def __init__(self, tokens: Tokens) -> None:
        self.type = ""
        self.alignment, self.vector, self.managed = 0, 1, False
        pointer = False
        while tokens.text[:1] == "." and tokens.kind == WORD:
            word = tokens.text
            if self.type and word != ".ptr" and not (pointer and word == ".align"):
                raise tokens.unexpected()
            if word == ".align":
                tokens.advance()
                asked = _integer(tokens)
                if not 0 < asked <= 1 << 20 or asked & (asked - 1):
                    raise tokens.fail(f"Alignment {asked} is not a power of two")
                self.alignment = self.alignment if pointer else asked  # after .ptr it is the alignment of the target
            elif word == ".attribute":
                self.managed = _attributes(tokens) or self.managed
            elif word == ".ptr":
                pointer = True
                tokens.advance()
                if tokens.text in (".global", ".const", ".shared", ".local", ".param", ".generic"):
                    tokens.advance()
            elif word in (".v2", ".v4", ".v8"):
                tokens.advance()
                self.vector = int(word[2:])
                self.type = _type(tokens)
            else:
                self.type = _type(tokens)
        if not self.type or self.type == "pred":
            raise tokens.unexpected("a type")


def _named(tokens: Tokens, scope: Scope, space: str, linkage: str, kind: _Kind) -> Variable:
    line, type = tokens.line(), kind.type
    name = tokens.text
    if tokens.kind != WORD or not _RANGE.match(name) and (name, space) != ("_", "param"):
        raise tokens.unexpected("a variable name")
    earlier = scope.names.get(name)
    joins = isinstance(earlier, Variable) and "extern" in (earlier.linkage, linkage)
    if earlier is not None and not joins or name in scope.labels or scope.in_range(name):
        raise tokens.fail(f"Duplicate definition of variable '{name[:80]}'")
    tokens.advance()
    width = BITS[type] // 8 * kind.vector
    shape, count = _dimensions(tokens)
    made = Variable(name, space, type, width * count, kind.alignment or width, line)
    made.linkage = linkage
    made.managed = kind.managed
    made.scalar = shape is None and kind.vector == 1
    made.element = width
    if width > 16:
        raise tokens.fail("Vector type too large, exceeds 128 bit limit")
    if linkage == "common" and space != "global":
        raise tokens.fail(".common variables must be declared in .global space")
    if kind.managed and space != "global":
        raise tokens.fail(f"Illegal attribute '.managed' for symbol '{name[:80]}'")
    if made.size > (BIGGEST_PARAMETER if space == "param" else BIGGEST_VARIABLE):
        raise Rejected.at(line, f"Variable '{name[:80]}' of {made.size} bytes does not fit", OUT_OF_MEMORY)
    if tokens.accept("="):
        if linkage == "extern":
            raise tokens.fail(f"No initial value is allowed for external symbol '{name[:80]}'")
        if space not in ("global", "const"):
            raise tokens.fail(f"Initial value not allowed for variable '{name[:80]}' in .{space} space")
        _initialiser(tokens, scope, made, BITS[type] // 8, shape, kind.vector)
    elif not count and linkage != "extern" and space != "param":
        raise tokens.fail(f"Non-external variable '{name[:80]}' has incomplete type")
    if isinstance(earlier, Variable):  # one declaration is .extern, and the other one has the size
        # (texts that were linked may differ in the type)
        if earlier.space != space or earlier.size != made.size and earlier.size and made.size:
            raise tokens.fail(f"Inconsistent redefinition of variable '{name[:80]}'")
        if linkage != "extern":
            for field in Variable.__slots__:
                setattr(earlier, field, getattr(made, field))
        # `name[3]` counts what the nearest declaration says
        earlier.element, earlier.scalar = made.element, made.scalar
        return earlier
    scope.names[name] = made
    scope.note(name)
    return made


def _attributes(tokens: Tokens) -> bool:
    tokens.advance()
    tokens.expect("(")
    managed = False
    while not tokens.accept(")"):
        managed = managed or tokens.text == ".managed"
        if tokens.kind == "end of text" or tokens.text[:1] == "." and tokens.text not in (".managed", ".unified"):
            raise tokens.unexpected("')', .managed or .unified")
        tokens.advance()
    return managed


def _dimensions(tokens: Tokens) -> tuple[list[int] | None, int]:
    if tokens.text != "[":
        return None, 1
    shape: list[int] = []
    count = 1
    while tokens.accept("["):
        if not shape and tokens.accept("]"):
            shape.append(0)
            count = 0
            continue
        size = _integer(tokens)
        if shape and not size:
            raise tokens.fail("Array of incomplete type")
        shape.append(size)
        count *= size
        if len(shape) > 16 or count > BIGGEST_VARIABLE:
            raise tokens.fail("Array is too large")
        tokens.expect("]")
    return shape, count


def _initialiser(
    tokens: Tokens, scope: Scope, made: Variable, width: int, shape: list[int] | None, vector: int
) -> None:
    """Read the initial value of a variable; each dimension, and a vector, has braces of its own."""
    sizes = [*(shape or []), *([vector] if vector > 1 else [])]
    if not sizes:
        made.initial.append((0, _value(tokens, scope, made.type), width))
        return
    inner = [width]
    for size in reversed(sizes[1:]):
        inner.insert(0, inner[0] * size)

    def read(depth: int, offset: int) -> int:
        """Read what is in one pair of braces; return how many items it has."""
        last, count = depth + 1 == len(sizes), 0
        tokens.expect("{")
        while tokens.text != "}":
            if last and tokens.text == "{":
                raise tokens.fail("Initializer is nested too deeply")
            if sizes[depth] and count == sizes[depth]:
                raise tokens.fail(f"Too many initial values for variable '{made.name[:80]}'")
            if last:
                made.initial.append((offset, _value(tokens, scope, made.type), width))
            else:
                read(depth + 1, offset)
            offset, count = offset + inner[depth], count + 1
            if not tokens.accept(","):
                break
            if tokens.text == "}":
                raise tokens.unexpected("an initial value")
        tokens.expect("}")
        if last and vector > 1 and count != vector:
            raise tokens.fail(f"Incorrect number of elements in vector initializer of '{made.name[:80]}'")
        return count

    count = read(0, 0)
    if not sizes[0]:
        made.size = count * inner[0]


def _value(tokens: Tokens, scope: Scope, type: str) -> int | Symbol:
    if tokens.kind == WORD and tokens.text != "WARP_SZ":
        return _symbol(tokens, scope)
    value = constant(tokens)
    if isinstance(value, Int) and tokens.accept("("):
        inner = _symbol(tokens, scope)
        tokens.expect(")")
        if value.value not in _BYTES:
            raise tokens.fail(f"Invalid mask value '{value.value:#x}' used in initializer")
        inner.mask = value.value
        return inner
    bits = BITS[type]
    if type in ("f16", "f16x2"):
        raise tokens.fail(f"No initial value is allowed for .{type} type")
    if type in ("f32", "f64"):
        if isinstance(value, Int):
            raise tokens.fail("Initial value type mismatch")
        if type == "f64":
            return int(struct.unpack("<Q", struct.pack("<d", value.value))[0])
        if value.single is not None:
            return value.single
        return _single(value.value)
    if isinstance(value, Float):
        if type[0] != "b":
            raise tokens.fail("Initial value type mismatch")
        if value.single is not None:
            return value.single & (1 << bits) - 1
        if bits == 32:
            held = _single(value.value)
        else:
            held = int(struct.unpack("<Q", struct.pack("<d", value.value))[0])
        return held & (1 << bits) - 1
    return value.value & (1 << bits) - 1


def _single(value: float) -> int:
    try:
        return int(struct.unpack("<I", struct.pack("<f", value))[0])
    except OverflowError:
        if value < 0:
            return 0xFF800000
        return 0x7F800000


def _symbol(tokens: Tokens, scope: Scope) -> Symbol:
    name = tokens.text
    generic = name == "generic"
    if generic:
        tokens.advance()
        tokens.expect("(")
        name = tokens.text
    found = scope.find(name)
    if not isinstance(found, (Variable, Function)):
        raise tokens.fail(f"Unknown symbol '{name[:80]}'")
    tokens.note(found)
    tokens.advance()
    if generic:
        tokens.expect(")")
    offset = 0
    if tokens.text in ("+", "-"):
        negative = tokens.advance() == "-"
        offset = _integer(tokens)
        if negative:
            offset = -offset
    return Symbol(found, offset, generic)
