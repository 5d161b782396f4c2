"""Operands: registers, constants, names, addresses, vectors, pairs.

What a name stands for is looked up here, in the scope where it is used; a name that is not declared yet stays a `Name`,
since labels and callees may come later in the text.

source       PTX ISA, "Instruction Operands"
Read next    parser.py
"""

from __future__ import annotations

from .declare import constant
from .lexer import WORD, Tokens
from .special import SPECIAL
from .syntax import Address, Int, Name, Not, Pair, Prototype, Register, Scope, Sink, Special, Symbol, Vector

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .syntax import Operand

__all__ = ["OperandReader"]

MOST_ITEMS = 4096


class OperandReader:
    """Reads operands from the cursor of a token stream."""

    def __init__(self, tokens: Tokens) -> None:
        self.tokens = tokens

    def operand(self, scope: Scope, calls: bool = False) -> Operand:
        """Read one operand; those of a call may be lists in parentheses, elsewhere those are expressions."""
        tokens = self.tokens
        text = tokens.text
        if tokens.kind == WORD:
            found = self._named(scope)
            if tokens.text == "|" and isinstance(found, (Register, Sink)):
                tokens.advance()
                return Pair(found, self._named(scope))
            if tokens.text == "+" and isinstance(found, Symbol):
                tokens.advance()
                found.offset = self._offset()
            return found
        if text == "[":
            return self._address(scope)
        if text == "{":
            tokens.advance()
            return Vector(self._list(scope, "}"))
        if text == "(" and calls:
            tokens.advance()
            return Vector(self._list(scope, ")"), round=True)
        if text == "!" and tokens.kinds[tokens.at + 1] == WORD:
            tokens.advance()
            found = self._named(scope)
            if not isinstance(found, Register) or found.type != "pred":
                raise tokens.fail("'!' needs a predicate register")
            return Not(found)
        return constant(tokens)

    def _list(self, scope: Scope, closing: str) -> list[Operand]:
        tokens = self.tokens
        items: list[Operand] = []
        while not tokens.accept(closing):
            items.append(self._named(scope) if tokens.kind == WORD else constant(tokens))
            if tokens.text != closing:
                tokens.expect(",")
            if len(items) > MOST_ITEMS:
                raise tokens.fail("Too many operands")
        return items

    def _named(self, scope: Scope) -> Operand:
        tokens = self.tokens
        text = tokens.text
        if tokens.kind != WORD or text[0] == ".":
            raise tokens.unexpected("an operand")
        found = scope.find(text)
        if isinstance(found, Register):
            tokens.advance()
            return found
        if found is not None and not isinstance(found, Prototype):
            tokens.advance()
            return Symbol(found)
        if text == "_":
            tokens.advance()
            return Sink()
        if text[0] == "%" and text[1:] in SPECIAL:
            tokens.advance()
            return Special(text[1:])
        if text == "WARP_SZ":
            tokens.advance()
            return Int(32)
        if text[0] == "%":
            raise tokens.fail(f"Unknown symbol '{text[:80]}'")
        tokens.advance()
        return Name(text, scope, found)

    def _address(self, scope: Scope) -> Address:
        tokens = self.tokens
        tokens.expect("[")
        base: Register | Symbol | None = None
        offset = 0
        if tokens.kind == WORD and tokens.text != "WARP_SZ":
            found = self._named(scope)
            if isinstance(found, Name):
                raise tokens.fail(f"Unknown symbol '{found.text[:80]}'")
            if not isinstance(found, (Register, Symbol)):
                raise tokens.unexpected("an address")
            base = found
            if tokens.accept("+"):
                offset = self._offset()
            elif tokens.text == "[":  # name[3], the array form
                tokens.advance()
                offset = self._offset()
                tokens.expect("]")
        else:
            offset = self._offset()
        if tokens.text == ",":
            raise tokens.fail("Tensor and texture addresses are not emulated")
        tokens.expect("]")
        return Address(base, offset)

    def _offset(self) -> int:
        value = constant(self.tokens)
        if not isinstance(value, Int):
            raise self.tokens.fail("Integer offset expected")
        return value.value - (value.value >> 63 << 64)
