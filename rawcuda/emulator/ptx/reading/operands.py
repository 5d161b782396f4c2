"""Operands: registers, constants, names, addresses, vectors, pairs.

Names are looked up here, in the scope in which they are used. A name that is not declared yet stays a `Name`, because
labels and callees may come later in the text.

A special register is a row: its type, a Python expression over names of the generated code (`tx ty tz t`, the thread's
index and its linear number; `B`, the block; `L`, the launch), whether it is the same for a whole block and computed
once, and the PTX version and the architecture that introduced it.

Source       PTX ISA, "Instruction Operands", "Special Registers"
Read next    parser.py
"""

from __future__ import annotations

from .declare import constant
from .lexer import WORD, Tokens
from .syntax import (
    BITS,
    Address,
    Int,
    Name,
    Not,
    Pair,
    Part,
    Prototype,
    Register,
    Scope,
    Sink,
    Special,
    Sum,
    Symbol,
    Texel,
    Variable,
    Vector,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .syntax import Operand

    Since = tuple[tuple[int, int], tuple[int, int]]

__all__ = ["OperandReader", "RESERVED", "SPECIAL"]

MOST_ITEMS = 4096
RESERVED = 1024  # bytes of shared memory that the system reserves in each block; cooperative groups use the second half


class OperandReader:
    """A reader of operands, from the cursor of a token stream."""

    def __init__(self, tokens: Tokens) -> None:
        self.tokens = tokens
        self.sums: list[Sum] = []  # those of the instruction that is read

    def operand(self, scope: Scope, calls: bool = False) -> Operand:
        """Read an operand; parentheses enclose a list in a call, and an expression elsewhere."""
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
            if tokens.text == "+" and isinstance(found, Register) and "." not in found.name:
                tokens.advance()
                return self._sum(found, scope)
            if tokens.text == "[" and isinstance(found, Symbol):
                return self._element(found)
            return found
        if text == "[":
            return self._address(scope)
        if text == "{":
            tokens.advance()
            vector = Vector(self._list(scope, "}"))
            if tokens.text == "|":
                tokens.advance()
                return Pair(vector, self._named(scope))
            return vector
        if text == "(" and calls:
            tokens.advance()
            return Vector(self._list(scope, ")"), round=True)
        if text == "-" and tokens.kinds[tokens.at + 1] == WORD:
            tokens.advance()
            found = self._named(scope)
            if isinstance(found, Part):
                return Part(found.of, f"-{found.selector}")
            if isinstance(found, Register):
                return Part(found, "-")
            raise tokens.fail("A minus sign needs a register or a constant")
        if text == "!" and tokens.kinds[tokens.at + 1] == WORD:
            tokens.advance()
            found = self._named(scope)
            if not isinstance(found, Register) or found.type != "pred":
                raise tokens.fail("'!' needs a predicate register")
            return Not(found)
        return constant(tokens)

    def _sum(self, register: Register, scope: Scope) -> Sum:
        number = self._offset()
        if register.type[0] not in "bus" or BITS[register.type] not in (16, 32, 64):
            raise self.tokens.fail("A register plus a constant needs an integer register of 16, 32 or 64 bits")
        held = scope.names.get(f"{register.name}+{number}")
        if isinstance(held, Sum):
            made = held
        else:
            made = scope.declare_sum(register, number)
        self.sums.append(made)
        return made

    def _list(self, scope: Scope, closing: str) -> list[Operand]:
        tokens = self.tokens
        items: list[Operand] = []
        while not tokens.accept(closing):
            if tokens.kind == WORD:
                item = self._named(scope)
            else:
                item = constant(tokens)
            if isinstance(item, Vector) and closing == ")":  # an argument that is a vector of registers
                items += item.items
            elif closing == ")" and isinstance(item, Register) and "." in item.name:
                raise tokens.fail(f"An element of a vector, {item.name[:80]!a}, cannot be an argument of a call")
            else:
                items.append(item)
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
        if isinstance(found, Vector):
            tokens.advance()
            return Vector(list(found.items))
        if found is not None and not isinstance(found, Prototype):
            tokens.note(found)
            tokens.advance()
            return Symbol(found)
        if text == "_":
            tokens.advance()
            return Sink()
        if text[0] == "%" and text[1:] in SPECIAL:
            tokens.advance()
            return Special(text[1:])
        if text == "WARP_SZ":
            return constant(tokens)
        stem, _, selector = text.rpartition(".")
        if selector[:1] in ("b", "h") and selector[1:].isdecimal():
            held = scope.find(stem)
        else:
            held = None
        if isinstance(held, Register):
            tokens.advance()
            return Part(held, selector)
        if text[0] == "%":
            raise tokens.fail(f"Unknown symbol '{text[:80]}'")
        made = Name(text, scope, found)
        tokens.note(made)
        tokens.advance()
        return made

    def _address(self, scope: Scope) -> Address | Texel:
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
        else:
            offset = self._offset()
        if tokens.accept(","):
            if tokens.accept("{"):
                items = self._list(scope, "}")
            else:
                items = [self._named(scope) if tokens.kind == WORD else constant(tokens)]
                if isinstance(items[0], Vector):
                    items = items[0].items
            if tokens.text == ",":
                raise tokens.fail("Textures with separate samplers are not emulated")
            tokens.expect("]")
            return Texel(base, offset, Vector(items))
        tokens.expect("]")
        return Address(base, offset)

    def _element(self, found: Symbol) -> Symbol:
        """Read the index of `name[3]`: the address of an element of an array."""
        tokens = self.tokens
        array = found.target
        if not isinstance(array, Variable) or array.scalar:
            raise tokens.fail("Array indexing on non-array")
        tokens.advance()
        if tokens.kind == WORD:
            raise tokens.fail("An index in a register is not emulated: compute the address in a register instead")
        found.offset += self._offset() * array.element
        tokens.expect("]")
        return found

    def _offset(self) -> int:
        value = constant(self.tokens)
        if not isinstance(value, Int):
            raise self.tokens.fail("Integer offset expected")
        return value.value - (value.value >> 63 << 64)


_FIRST: Since = ((1, 0), (1, 0))
_CLUSTERS: Since = ((7, 8), (9, 0))
_RESERVED: Since = ((7, 6), (8, 0))


def _rows() -> dict[str, tuple[str, str, bool, Since]]:
    # name -> type, expression, whether it is the same for a whole block, the oldest .version and .target that have it
    rows: dict[str, tuple[str, str, bool, Since]] = {}

    def row(name: str, type: str, expression: str, uniform: bool = True, since: Since = _FIRST) -> None:
        rows[name] = (type, expression, uniform, since)

    for at, axis in enumerate("xyz"):
        row(f"tid.{axis}", "u32", f"t{axis}", False)
        row(f"ntid.{axis}", "u32", f"L.n{axis}")
        row(f"ctaid.{axis}", "u32", f"B.{axis}")
        row(f"nctaid.{axis}", "u32", f"L.g{axis}")
        row(f"clusterid.{axis}", "u32", f"B.cluster[{at}]", since=_CLUSTERS)
        row(f"nclusterid.{axis}", "u32", f"L.clusters[{at}]", since=_CLUSTERS)
        row(f"cluster_ctaid.{axis}", "u32", f"B.cluster_place[{at}]", since=_CLUSTERS)
        row(f"cluster_nctaid.{axis}", "u32", f"L.cluster[{at}]", since=_CLUSTERS)
    row("tid.w", "u32", "0")
    row("ntid.w", "u32", "1")
    row("ctaid.w", "u32", "0")
    row("nctaid.w", "u32", "1")
    row("clusterid.w", "u32", "0", since=_CLUSTERS)
    row("nclusterid.w", "u32", "1", since=_CLUSTERS)
    row("cluster_ctaid.w", "u32", "0", since=_CLUSTERS)
    row("cluster_nctaid.w", "u32", "1", since=_CLUSTERS)
    row("cluster_ctarank", "u32", "B.cluster_rank", since=_CLUSTERS)
    row("cluster_nctarank", "u32", "L.cluster_size", since=_CLUSTERS)
    row("laneid", "u32", "t & 31", False)
    row("warpid", "u32", "t >> 5", False)
    row("nwarpid", "u32", "L.warps")
    row("smid", "u32", "B.number % L.multiprocessors")
    row("nsmid", "u32", "L.multiprocessors")
    row("gridid", "u64", "L.number")
    row("is_explicit_cluster", "pred", "L.explicit_cluster", since=_CLUSTERS)
    row("lanemask_eq", "u32", "1 << (t & 31)", False)
    row("lanemask_lt", "u32", "(1 << (t & 31)) - 1", False)
    row("lanemask_le", "u32", "(2 << (t & 31)) - 1", False)
    row("lanemask_gt", "u32", "0xffffffff & -2 << (t & 31)", False)
    row("lanemask_ge", "u32", "0xffffffff & -1 << (t & 31)", False)
    row("clock", "u32", "L.clock() & 0xffffffff", False)
    row("clock_hi", "u32", "L.clock() >> 32 & 0xffffffff", False)
    row("clock64", "u64", "L.clock()", False)
    row("globaltimer", "u64", "L.nanoseconds()", False)
    row("globaltimer_lo", "u32", "L.nanoseconds() & 0xffffffff", False)
    row("globaltimer_hi", "u32", "L.nanoseconds() >> 32", False)
    row("total_smem_size", "u32", "L.allocated_shared()")
    row("dynamic_smem_size", "u32", "L.dynamic_shared")
    row("aggr_smem_size", "u32", f"L.allocated_shared() + {RESERVED}", since=((8, 1), (9, 0)))
    row("current_graph_exec", "u64", "0", since=((8, 0), (1, 0)))
    row("envreg1", "b32", "L.workspace() >> 32")
    row("envreg2", "b32", "L.workspace() & 0xffffffff")
    for number in range(32):
        if number not in (1, 2):
            row(f"envreg{number}", "b32", "0")
    for number in range(8):
        row(f"pm{number}", "u32", "0")
        row(f"pm{number}_64", "u64", "0")
    for word, place in (("begin", 0), ("end", RESERVED), ("0", 0), ("1", RESERVED // 2)):
        row(f"reserved_smem_offset_{word}", "b32", f"L.reserved_at + {place}", since=_RESERVED)
    row("reserved_smem_offset_cap", "b32", str(RESERVED), since=_RESERVED)
    return rows


SPECIAL = _rows()
