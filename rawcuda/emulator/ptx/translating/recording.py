"""The form of a function that tells a recorder of each instruction, for the steps of a warp.

    begin(7, p_p1)                               # statement 7, and whether its predicate is true
    if p_p1:
        access('read', 'global', r_rd1 + 4, 4, 'f32')
        ...                                      # what other forms contain, too
        holds(v0, i >> 2, 'f')
        r_f1 = v0[i >> 2]
        ended(9, r_f1)                           # the values that instruction 9 has written

Only a launch that is recorded runs this form; all others run the one of translate.py, which tells nothing.

What not     memory that is not accessed by ld, st, atom or red: copies (cp.async), matrices and textures
Read next    ../running/recorder.py
"""

from __future__ import annotations

import re
from collections import Counter

from ..reading.syntax import BITS, Address, Instruction, Register, Sum, Symbol, Variable
from .emitting.emit import Note
from .flow import Block
from .registers import reads_and_writes
from .tracking import Tracker
from .translate import Writer
from .unit import Prepared, Unit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..reading.syntax import Module, Operand
    from .table.forms import Shape

__all__ = ["RecordingTracker", "RecordingWriter", "Script", "Statement", "Written"]

_LEAVES = ("ret", "exit", "trap")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_HEAD = re.compile(r"^(?:[\s{}]|[\w$%]+\s*:(?!:))+")  # a label, and the braces of scopes
_LONGEST = 300  # characters of a statement
_LINES = 40  # of a statement


class Statement:
    """A statement of the text: the function that contains it, its line from 1, the text itself, and its opcode."""

    __slots__ = ("function", "line", "text", "opcode")

    def __init__(self, function: str, line: int, text: str, opcode: str) -> None:
        self.function, self.line, self.text, self.opcode = function, line, text, opcode


class Written:
    """A register that an instruction writes: its name, its size in bits, and the type as which it is shown."""

    __slots__ = ("name", "bits", "type")

    def __init__(self, name: str, bits: int, type: str) -> None:
        self.name, self.bits, self.type = name, bits, type


class Script:
    """The statements of a module, and which instruction belongs to which of them."""

    def __init__(self, unit: Unit, module: Module) -> None:
        self.statements: list[Statement] = []
        self.written: list[list[Written]] = []  # by the number of the instruction
        self.calls: set[int] = set()  # the numbers of those that are calls
        self.prepared: dict[str, Prepared] = {}
        self._of: dict[int, tuple[int, bool]] = {}  # instruction, by id -> its statement, and whether that begins here
        self._number: dict[int, int] = {}
        self._lines = module.text.split("\n")
        for name, made in unit.prepared.items():
            self.prepared[name] = _with_branches(made)
            self._divide(name, [each for each in made.function.body or () if isinstance(each, Instruction)])

    def statement(self, instruction: Instruction) -> tuple[int, bool]:
        """Return the number of an instruction's statement, and whether it is the first instruction of it."""
        return self._of[id(instruction)]

    def number(self, instruction: Instruction, shape: Shape) -> int:
        """Return the number under which an instruction tells what it has written."""
        found = self._number.get(id(instruction))
        if found is None:
            found = self._number[id(instruction)] = len(self.written)
            if instruction.opcode == "call":
                self.calls.add(found)
            types: dict[int, str] = {}
            for slot, operand, type in zip(shape.slots, instruction.operands, shape.wanted):
                if slot.written and isinstance(operand, Register):
                    types[operand.index] = type
            names = [
                Written(each.name, BITS[each.type], types.get(each.index, shape.type or each.type))
                for each in shown_writes(instruction, shape)
            ]
            self.written.append(names)
        return found

    def _divide(self, function: str, body: list[Instruction]) -> None:
        """Find the statement of each instruction: the parser makes several instructions of some statements."""
        line, texts, at = 0, [""], -1
        counts = Counter([each.line for each in body])
        for instruction in body:
            if instruction.line != line:
                line, at = instruction.line, -1
                texts = self._texts(line)
                single = len(texts) == counts[line]
            begins = at < 0 or (len(texts) > 1 and (single or _opens(texts, at + 1, instruction)))
            if begins:
                at += 1
                if at < len(texts):
                    text = texts[at]
                else:
                    text = instruction.text
                self.statements.append(Statement(function, line, text, instruction.opcode))
            self._of[id(instruction)] = len(self.statements) - 1, begins

    def _texts(self, line: int) -> list[str]:
        """Return the statements that begin in a line."""
        whole = "\n".join(self._lines[line - 1 : line - 1 + _LINES])
        text = _COMMENT.sub(lambda found: " " * len(found[0].split("\n")[0]) if "\n" not in found[0] else " ", whole)
        found, end = [], len(text.split("\n", 1)[0])
        start = 0
        while start < end:
            stop = text.find(";", start)
            if stop < 0:
                break
            one = _HEAD.sub("", text[start:stop])
            if one.strip() and one[0] != ".":
                words = " ".join(one.split())[:_LONGEST]
                found.append("".join(each if each.isprintable() else " " for each in words) + ";")
            start = stop + 1
        return found or [""]


def _opens(texts: list[str], at: int, instruction: Instruction) -> bool:
    return at < len(texts) and re.sub(r"^@!?\S+\s*", "", texts[at]).startswith(instruction.opcode)


def _with_branches(made: Prepared) -> Prepared:
    """Return a function in which branches are instructions of their blocks, too, so that they are told."""
    blocks = []
    for block in made.blocks:
        copy = Block(block.number)
        copy.kind, copy.targets, copy.branch, copy.line = block.kind, block.targets, block.branch, block.line
        copy.instructions = list(block.instructions)
        if block.branch is not None and block.branch.opcode in ("bra", "brx"):
            copy.instructions.append(block.branch)
        blocks.append(copy)
    copied = Prepared(made.function, blocks, made.shapes)
    for name in ("calls", "blocking", "nests", "spins", "waits", "reserves", "shared"):
        setattr(copied, name, getattr(made, name))
    return copied


def shown_writes(instruction: Instruction, shape: Shape) -> list[Register]:
    """Return the registers of the text that an instruction writes."""
    return [each for each in reads_and_writes(instruction, shape)[1] if not isinstance(each, Sum)]


class _Recording(Writer):
    """What both forms of a recorded function have."""

    def __init__(self, unit: Unit, prepared: Prepared, script: Script) -> None:
        super().__init__(unit, prepared)
        self.script = script
        self.uniform = set()  # each thread executes each instruction

    def _watching(self) -> list[str]:
        names = ("begin", "enter", "access", "holds", "parameter", "ended")
        return [*super()._watching(), "; ".join(f"{name} = L.recorder.{name}" for name in names)]

    def write(self, instruction: Instruction) -> None:
        """Write one instruction, and the call that tells that it begins."""
        number, begins = self.script.statement(instruction)
        if begins:
            self.line = instruction.line
            guard = instruction.guard
            if guard is None:
                acts = "True"
            else:
                acts = f"{'not ' if instruction.negated else ''}{guard.python}"
            self.put(self._once(instruction, f"begin({number}, {acts})"))
        super().write(instruction)

    def _once(self, instruction: Instruction, call: str) -> str:
        """Return a call that is made once, although the instruction may be executed again."""
        return call

    def _dispatch(self, instruction: Instruction, shape: Shape) -> None:
        if instruction.opcode == "call":
            self.put(self._once(instruction, f"enter({self.script.statement(instruction)[0]})"))
        super()._dispatch(instruction, shape)
        if instruction.opcode in _LEAVES:
            return
        values = "".join(f", {each.python}" for each in shown_writes(instruction, shape))
        self.put(f"ended({self.script.number(instruction, shape)}{values})")

    def do_bra(self, instruction: Instruction, shape: Shape) -> None:
        """Write nothing: the end of the block has the branch."""

    do_brx = do_bra

    def place(self, space: str, address: Address, code: str, total: int, verb: str) -> tuple[str, str, Note]:
        """Write the checks of an access, and the calls that tell of it."""
        base, offset = self._address(address)
        assert self.instruction is not None
        type = self.prepared.shapes[id(self.instruction)].type
        if offset:
            start = f"{base} + {offset}"
        else:
            start = base
        self.put(f"access({verb!r}, {space or 'generic'!r}, {start}, {total}, {type!r})")
        view, index, note = super().place(space, address, code, total, verb)
        self.put(f"holds({view}, {index}, {code!r})")
        return view, index, note

    def _load_parameter(self, instruction: Instruction, address: Address, targets: list[Operand], type: str) -> None:
        base = address.base
        slot = isinstance(base, Symbol) and isinstance(base.target, Variable)
        if not slot or self.is_kernel_parameter(base.target):  # type: ignore[union-attr,arg-type]
            start, more = self._address(address)
            if self.function.entry:
                self.put(f"parameter({start} + {more}, {BITS[type] // 8 * len(targets)}, {type!r})")
        super()._load_parameter(instruction, address, targets, type)


class RecordingWriter(_Recording):
    """The writer of the recorded form of a function."""


class RecordingTracker(_Recording, Tracker):
    """The writer of the recorded form that tracks undefined values."""

    def __init__(self, unit: Unit, prepared: Prepared, script: Script) -> None:
        Tracker.__init__(self, unit, prepared)
        self.script = script
        self.uniform = set()

    def _once(self, instruction: Instruction, call: str) -> str:
        if instruction.opcode in ("shfl", "call"):
            return f"if redo is None: {call}"
        return call
