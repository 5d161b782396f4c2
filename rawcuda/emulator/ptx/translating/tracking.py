"""The form of a function that tracks undefined values.

A thread runs here from the instruction that first gave it an undefined value. Each register has a mark, in the list
`U`: None, or where the undefined value comes from. Each instruction moves the marks along with the values.

    def u_k0_add(L, at, state, found):     # where to continue, the variables until then, what was found
        r_f1, r_f2 = state.get('r_f1', 0), state.get('r_f2', 0)
        U = [None] * 3
        for _ in fuel:
            if at < 1:
                L.mark, L.tracking = None, True
                r_f1 = v0[i >> 2]
                L.tracking = False
                U[0] = L.mark
                at = 1
            else:
                u = U[0]
                U[1] = u and u.computed
                r_f2 = ...

What passes a mark on: every instruction that only computes on registers, from any operand to its results; a move, a
logical operation or a selection passes it as it is, since the value is only copied. A register may have marks of some
of its bits: compilers pack registers, and take the defined bits out of them by mov, cvt, and, bfe or shifts.
What absorbs it: a selection, of the operand that it does not choose; `and` with 0 and `or` with 1, of each bit; false
and true for predicates; prmt with a constant selector, of an operand from which it takes no byte; a register minus
itself, or xor itself. A product with 0 does not absorb, as in other checkers.
What reports it: an address, a store of a value that is not only a copy, a branch or predicate, an operand of an atomic,
of a vote, of a matrix operation or of anything else that is not only arithmetic.

Read next    ../running/undefined.py, which has the marks; ptx/ptx_program.py, which compiles this form when it is
             needed
"""

from __future__ import annotations

from ..reading.syntax import BITS, Address, Int, Not, Pair, Part, Register, Symbol, Texel, Variable, Vector
from .emitting.checks import lines_before_reads
from .emitting.emit import Line, mask
from .flow import EXIT
from .registers import ignored, reads_and_writes
from .translate import Writer
from .unit import MOST_CALLS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..reading.syntax import Function, Instruction, Operand
    from .flow import Block
    from .table.forms import Shape
    from .unit import Prepared, Unit

__all__ = ["Tracker"]

# instructions that have methods of their own and only compute on registers
_PURE = frozenset(
    "!carry !cvt !cvt_pair !cvt_random !cvt_small !cvt_tf32 !cvta !fma !getctarank !isspacep !lop3 !mapa !mov !policy "
    "!select !set !setp !shift !slct !video !video_lanes".split()
)
_COPIES = frozenset(("mov", "and", "or", "not", "lop3", "cvta"))  # see registers.values_that_matter
_WHOLE, _UPWARDS = frozenset(("u32", "s32", "u64", "s64")), frozenset(("hi", "wide", "sat", "cc"))
_NOTHING = frozenset(("!nothing", "!ret", "!exit", "!trap", "!activemask", "!bra", "!setmaxnreg"))


class Piece:
    """A part of a block: a thread may continue at its first instruction."""

    __slots__ = ("block", "instructions", "last")

    def __init__(self, block: Block, instructions: list[Instruction], last: bool) -> None:
        self.block = block
        self.instructions = instructions
        self.last = last  # whether the block ends here


class Tracker(Writer):
    """The writer of the tracked form of one function.

    Why long  it has a method for each kind of instruction, which says how marks pass through it
    """

    def __init__(self, unit: Unit, prepared: Prepared) -> None:
        super().__init__(unit, prepared)
        self.tracking = True
        self.pieces: list[Piece] = []
        self.starts: dict[int, int] = {}  # instruction, by id -> the piece that begins with it
        self._first: dict[int, int] = {}  # block -> its first piece
        self._extra: dict[str, int] = {}  # parameters of calls, and the carry -> the place of their mark
        self._at = 0
        for block in prepared.blocks:
            self._first[block.number] = len(self.pieces)
            part: list[Instruction] = []
            for instruction in block.instructions:
                if self.gives_undefined(instruction, prepared.shapes[id(instruction)]):
                    if part:
                        self.pieces.append(Piece(block, part, False))
                        part = []
                    self.starts[id(instruction)] = len(self.pieces)
                part.append(instruction)
            self.pieces.append(Piece(block, part, True))

    @property
    def name(self) -> str:
        """Return the Python name of the function."""
        return f"u_{self.function.python}"

    # -- marks

    def _place_of(self, name: str) -> str:
        return f"U[{self._extra.setdefault(name, len(self.function.registers) + len(self._extra))}]"

    def _mark(self, operand: Operand | None) -> str:
        """Return the mark of an operand as an expression; "" if it has none."""
        registers: list[Register] = []
        if isinstance(operand, Register):
            registers = [operand]
        elif isinstance(operand, (Address, Texel, Vector, Pair)):
            parts = [getattr(operand, name, None) for name in ("base", "first", "second")]
            parts += getattr(getattr(operand, "coordinates", operand), "items", [])
            return " or ".join(dict.fromkeys(text for part in parts for text in [self._mark(part)] if text))
        elif isinstance(operand, (Not, Part)):
            registers = [operand.of]
        return " or ".join(f"U[{each.index}]" for each in registers if each.index not in self.early)

    def _any(self, operands: Sequence[Operand]) -> str:
        return " or ".join(dict.fromkeys(text for each in operands for text in [self._mark(each)] if text))

    def _report(self, text: str, what: str, counts: bool = False) -> None:
        """Write the report of a mark, if there is one."""
        if text:
            self.put(f"u = {text}")
            self.put(f"if u{' and u.counts' * counts}: L.reaches(u, {what!r}, {self.line})")

    # -- one instruction

    def _dispatch(self, instruction: Instruction, shape: Shape) -> None:
        if self.out is self.prologue:
            super()._dispatch(instruction, shape)
            return
        result = shape.result
        if result[0] != "!" or result in _PURE:
            self._pass_on(instruction, shape)
            super()._dispatch(instruction, shape)
        elif result == "!ld":
            self._load(instruction, shape)
        elif result == "!st":
            self._store(instruction, shape)
        else:
            if result not in _NOTHING | {"!call", "!shfl"}:
                reads = [o for s, o in zip(shape.slots, instruction.operands) if not s.written]
                places = [o for o in reads if isinstance(o, (Address, Texel))]
                self._report(self._any(places), "address")
                self._report(self._any([o for o in reads if o not in places]), instruction.opcode)
            super()._dispatch(instruction, shape)
            if result not in ("!call", "!shfl"):
                self._clear(instruction, shape)

    def _clear(self, instruction: Instruction, shape: Shape) -> None:
        writes = reads_and_writes(instruction, shape)[1]
        if writes:
            self.put(" = ".join(f"U[{each.index}]" for each in writes) + " = None")

    def _guarded(self, instruction: Instruction, shape: Shape) -> None:
        guard = instruction.guard
        writes = reads_and_writes(instruction, shape)[1]
        if shape.result[0] == "!" and shape.result not in _PURE:
            self._report(self._mark(guard), "predicate")
            super()._guarded(instruction, shape)
            return
        text = self._mark(guard)
        if text:
            self.put(f"g = {text}")
        super()._guarded(instruction, shape)
        if text and writes:
            self.put(f"if g: {' = '.join(f'U[{each.index}]' for each in writes)} = g.computed")

    def _pass_on(self, instruction: Instruction, shape: Shape) -> None:
        """Write the marks of the results of an instruction that only computes."""
        opcode, operands = instruction.opcode, instruction.operands
        if opcode in ("selp", "slct"):
            return  # see _choose
        target, sources = operands[0], list(operands[1:])
        if opcode == "mov" and (isinstance(target, Vector) or isinstance(operands[1], Vector)):
            self._move_marks(target, operands[1])
            return
        moved = self._moved_bits(instruction, shape)
        if moved and isinstance(target, Register):
            self.put(f"U[{target.index}] = {moved}")
            return
        if opcode == "prmt":
            left = ignored(instruction)
            sources = [each for each in sources if each not in left]
        text = self._any(sources)
        if opcode in ("and", "or") and len(operands) == 3:
            text = self._absorbed(opcode, shape.type, operands[1], operands[2])
        elif opcode == "cvt" and text and len(operands) == 2 and isinstance(operands[1], Register):
            text = f"taken({text}, 0, {BITS[shape.types[-1]]})"  # whose .computed is that of all bits of the result
        elif opcode == "lop3":
            text = f"both({', '.join(filter(None, map(self._mark, operands[1:4])))})"
        elif opcode in ("xor", "sub") and operands[1] is operands[2]:
            text = ""
        elif opcode == "setp" and shape.chosen.get("bool") in ("and", "or") and "x2" not in shape.type:
            text = self._combined_marks(instruction, shape)
        if shape.result == "!carry":
            carry = self._place_of("cf")
            if "cf" in shape.form.value:
                if text:
                    text = f"{text} or {carry}"
                else:
                    text = carry
            if "cc" in shape.chosen:
                self.put(f"u = {text or None}")
                self.put(f"{carry} = u and u.computed")
        writes = reads_and_writes(instruction, shape)[1]
        if not writes:
            return
        made = " = ".join(f"U[{each.index}]" for each in writes)
        if not text:
            self.put(f"{made} = None")
        elif opcode in _COPIES and shape.type != "pred":
            self.put(f"{made} = {text}")
        else:
            self.put(f"u = {text}")
            self.put(f"{made} = u and u.computed")

    def _move_marks(self, target: Operand, source: Operand) -> None:
        if isinstance(target, Vector) and isinstance(source, Vector):
            made = [(to, self._mark(of)) for to, of in zip(target.items, source.items)]
            self.put(f"u = ({''.join(f'{text or None}, ' for _, text in made)})")
            self.put(
                "; ".join(f"U[{to.index}] = u[{at}]" for at, (to, _) in enumerate(made) if isinstance(to, Register))
            )
        elif isinstance(target, Vector):
            text = self._mark(source)
            self.put(f"u = {text or None}")
            for at, to in enumerate(target.items):
                if isinstance(to, Register):
                    bits = BITS[to.type]
                    self.put(f"U[{to.index}] = taken(u, {at * bits}, {at * bits + bits})")
        elif isinstance(target, Register) and isinstance(source, Vector):
            parts = [self._mark(each) for each in source.items]
            bits = BITS[target.type] // len(parts)
            if any(parts):
                text = f"joined({bits}, {', '.join(text or 'None' for text in parts)})"
            else:
                text = "None"
            self.put(f"U[{target.index}] = {text}")

    def _moved_bits(self, instruction: Instruction, shape: Shape) -> str:
        """Return the mark of the result of an instruction that moves bits of a register to known places, or upwards.

        returns  "" for any other instruction, and for a register that has no mark
        """
        opcode, operands = instruction.opcode, instruction.operands
        numbers = [each.value & 0xFFFFFFFF for each in operands[2:] if isinstance(each, Int)]
        if len(operands) > 1 and isinstance(operands[1], Register):
            mark = self._mark(operands[1])
        else:
            mark = ""
        if opcode == "bfi" and len(numbers) == 2:
            return self._inserted_bits(operands, shape, numbers)
        if opcode in ("add", "sub", "mul") and shape.type in _WHOLE and _UPWARDS.isdisjoint(instruction.modifiers):
            marks = [text for text in map(self._mark, operands[1:]) if text]
            is_zero = opcode == "sub" and operands[1] is operands[2]
            if marks and not is_zero:
                return f"carried({', '.join(marks)})"
            return ""
        if not mark or opcode not in ("cvt", "bfe", "shl", "shr"):
            return ""
        if opcode == "cvt":
            to, type = shape.types[0], shape.types[-1]
            if len(operands) > 2 or "sat" in shape.chosen or not {to[0], type[0]} <= {"s", "u"}:
                return ""
            if "s" in (to[0], type[0]):
                signs = 64
            else:
                signs = 0
            return f"computed(taken({mark}, 0, {min(BITS[to], BITS[type])}, {signs}))"
        bits, signs = BITS[shape.type], 64 if shape.type[0] == "s" else 0
        if opcode == "bfe" and len(numbers) == 2 and numbers[0] < bits and numbers[1]:
            return f"computed(taken({mark}, {numbers[0]}, {min(sum(numbers), bits)}, {signs}))"
        if opcode == "shl" and numbers:
            return f"computed(raised({mark}, {min(numbers[0], bits)}, {bits}))"
        if opcode == "shr" and numbers and numbers[0] < bits:
            return f"computed(taken({mark}, {numbers[0]}, {bits}, {signs}))"
        return ""

    def _inserted_bits(self, operands: Sequence[Operand], shape: Shape, numbers: list[int]) -> str:
        bits, (place, count) = BITS[shape.type], [number & 0xFF for number in numbers]
        into, field = mask(bits), (1 << count) - 1 << place & (1 << bits) - 1
        texts = []
        for operand, form in (
            (operands[1], f"raised(taken({{}}, 0, {count}), {min(place, bits)}, {bits})"),
            (operands[2], f"chosen({{}}, {into} ^ {field:#x})"),
        ):
            mark = self._mark(operand)
            if mark:
                texts.append(form.format(mark))
        if texts:
            return f"both({', '.join(texts)})"
        return ""

    def _absorbed(self, opcode: str, type: str, a: Operand, b: Operand) -> str:
        """Return the mark of a logical operation, which an operand may decide alone."""
        marks = self._mark(a), self._mark(b)
        values = [f"({self.value(each, type)})" for each in (a, b)]
        if type != "pred":
            if opcode == "and":
                bits = values
            else:
                bits = [f"~{value} & {mask(BITS[type])}" for value in values]
            texts = []
            for mine, other, used in ((marks[0], marks[1], bits[1]), (marks[1], marks[0], bits[0])):
                if mine:
                    texts.append(f"{f'{mine} if {other} else ' * bool(other)}chosen({mine}, {used})")
            if len(texts) == 1:
                return texts[0]
            if texts:
                return f"both({', '.join(texts)})"
            return ""
        keeps = [value if opcode == "and" else f"not {value}" for value in values]
        texts = []
        for mine, other, keep in ((marks[0], marks[1], keeps[1]), (marks[1], marks[0], keeps[0])):
            if mine:
                texts.append(f"({mine} if {keep}{f' or {other}' if other else ''} else None)")
        return " or ".join(texts)

    def _combined_marks(self, instruction: Instruction, shape: Shape) -> str:
        """Return the mark of a comparison that is combined with a predicate; one of them may decide alone."""
        operands = instruction.operands
        compared, other = self._any(operands[1:3]), self._mark(operands[3])
        if isinstance(operands[0], Pair) or not (compared or other):
            return self._any(operands[1:])
        if shape.chosen["bool"] == "or":
            negation = "not "
        else:
            negation = ""
        predicate = self.value(operands[3], "pred")
        condition = self.comparison(instruction, shape, shape.type, operands[1], operands[2])
        texts = []
        if compared:
            texts.append(f"(({compared}) if {negation}{predicate}{f' or {other}' if other else ''} else None)")
        if other:
            texts.append(f"({other} if {negation}({condition}){f' or {compared}' if compared else ''} else None)")
        return " or ".join(texts)

    def _choose(self, target: Operand, type: str, condition: str, a: Operand, b: Operand) -> None:
        assert self.instruction is not None
        if self.out is not self.prologue and isinstance(target, Register):
            marks = [self._mark(each) or "None" for each in (a, b)]
            decides = self._mark(self.instruction.operands[3])
            if decides:
                self.put(f"u = {decides}")
            if marks == ["None", "None"]:
                chosen = "None"
            else:
                chosen = f"{marks[0]} if {condition} else {marks[1]}"
            self.put(f"U[{target.index}] = {f'u.computed if u else {chosen}' if decides else chosen}")
        super()._choose(target, type, condition, a, b)

    # -- memory and parameters

    def _load(self, instruction: Instruction, shape: Shape) -> None:
        address = instruction.operands[1]
        writes = reads_and_writes(instruction, shape)[1]
        made = " = ".join(f"U[{each.index}]" for each in writes)
        base = getattr(address, "base", None)
        if "param" in {word.split("::")[0] for word in instruction.modifiers}:
            if isinstance(base, Symbol):
                target = base.target
            else:
                target = None
            slot = ""
            if isinstance(target, Variable) and not self.is_kernel_parameter(target):
                slot = self._place_of(self.slot(target))
            super()._dispatch(instruction, shape)
            if writes:
                self.put(f"{made} = {slot or None}")
            return
        self._report(self._mark(address), "address")
        self.put("L.mark, L.tracking = None, True")
        super()._dispatch(instruction, shape)
        self.put("L.tracking = False")
        if writes:
            self.put(f"{made} = L.mark")

    def _store(self, instruction: Instruction, shape: Shape) -> None:
        address, value = instruction.operands[:2]
        base = getattr(address, "base", None)
        if "param" in {word.split("::")[0] for word in instruction.modifiers}:
            if isinstance(base, Symbol) and isinstance(base.target, Variable):
                target, slot = base.target, self._place_of(self.slot(base.target))
                whole = target.scalar and not isinstance(value, Vector)
                text = self._mark(value) or "None"
                self.put(f"{slot} = {text if whole else f'{slot} or {text}'}")
        else:
            self._report(self._mark(address), "address")
            bits = BITS[shape.type]
            for each in value.items if isinstance(value, Vector) else [value]:
                text = self._mark(each)
                if text and isinstance(each, Register) and BITS[each.type] > bits:
                    text = f"taken({text}, 0, {bits})"
                self._report(text, "store", True)
        super()._dispatch(instruction, shape)

    # -- other lanes and other functions

    def do_shfl(self, instruction: Instruction, shape: Shape) -> None:
        """Write a read of another lane's value, which may be undefined; so may the value for the other lanes."""
        target, a, *rest = instruction.operands
        if isinstance(target, Pair):
            first = target.first
        else:
            first = target
        type = self.carried(first, "b32")
        self._report(self._any(rest), "lane")
        values = ", ".join(self.value(each, "b32") for each in rest[:2])
        value, mark = self.value(a, type), self._mark(a)
        if mark:
            self.put(f"u = {mark}")
            value = f"Marked({value}, u) if u else {value}"
        asked = f"yield 'shfl', {shape.chosen['shfl']!r}, {self._mask(instruction, 4)}, {self.line}, {value}, {values}"
        self._ask(asked)
        self._two(target, type)
        if isinstance(first, Register):
            self.put(f"U[{first.index}] = u[0] if u else None")
        if isinstance(target, Pair) and isinstance(target.second, Register):
            self.put(f"U[{target.second.index}] = None")

    def _ask(self, asked: str) -> None:
        """Write what may be answered with undefined values, or has been before the thread came here."""
        self.put("if redo is not None: x, u, redo = redo.answer, redo.marks, None")
        self.put("else:")
        self.put(f"    try: x = {asked}; u = ()")
        self.put("    except Undefined as found: x, u = found.answer, found.marks")

    def _callee(
        self,
        instruction: Instruction,
        callee: Function | None,
        target: Operand | None,
        texts: list[str],
        prototype: int,
    ) -> str:
        call = super()._callee(instruction, callee, target, texts, prototype)
        given: list[Operand] = []
        for operand in instruction.operands[1:]:
            if isinstance(operand, Vector) and operand.round:
                given = operand.items
        marks = [self._argument_mark(each) or "None" for each in given[: len(texts)]]
        own = callee is not None and callee.name in self.unit.prepared
        if any(text != "None" for text in marks):
            if own and callee is not None:
                self.put(f"u = ({', '.join(marks)},)")
                started = f"L.start({callee.index}, T, ({', '.join(texts)},), u)"
                if self.unit.prepared[callee.name].blocking:
                    started = f"(yield from {started})"
                call = f"{started} if any(u) else {call}"
            else:
                self._report(" or ".join(text for text in marks if text != "None"), "call")
        if isinstance(target, Register):
            self._report(self._mark(target), "callee")
        self._ask(call)
        return "x"

    def _argument_mark(self, argument: Operand) -> str:
        if isinstance(argument, Symbol) and isinstance(argument.target, Variable) and argument.target.space == "param":
            return self._place_of(self.slot(argument.target))
        return self._mark(argument)

    def do_call(self, instruction: Instruction, shape: Shape) -> None:
        """Write a call, and the marks of its results."""
        super().do_call(instruction, shape)
        first = instruction.operands[0]
        for at, result in enumerate(first.items if isinstance(first, Vector) and first.round else ()):
            place = self._argument_mark(result)
            if place:
                self.put(f"{place} = u[{at}] if u else None")

    def leave(self) -> None:
        """Write the end of the function, with its results and their marks."""
        function = self.function
        if function.entry or not (function.returns or function.return_registers):
            super().leave()
            return
        marks = [self._place_of(self.slot(variable)) for variable in function.returns]
        marks += [f"U[{register.index}]" for register in function.return_registers]
        results = [self.slot(variable) for variable in function.returns]
        results += [self.kept(register, register.type) for register in function.return_registers]
        self.put(f"u = ({', '.join(marks)},)")
        self.put("if any(u):")
        self.indent += 1
        if self.has_frame:
            self.put("T.leave()")
        elif self.nests:
            self.put("T.depth -= 1")
        if len(results) == 1:
            answer = results[0]
        else:
            answer = f"({', '.join(results)})"
        self.put(f"raise Undefined(u, {answer})")
        self.indent -= 1
        super().leave()

    # -- flow

    def flow(self) -> None:
        """Write all pieces in one loop, selected by binary search."""
        self.needs_fuel = True
        self.put("for _ in fuel:")
        self.indent += 1
        if -1 in self.prepared.spins:
            self.put("yield 'spin', 0")
        self._search(0, len(self.pieces))
        self.indent -= 1

    def _search(self, low: int, high: int) -> None:
        if high - low == 1:
            self._piece(low)
            return
        middle = (low + high) // 2
        for text, start, end in ((f"if at < {middle}:", low, middle), ("else:", middle, high)):
            self.put(text)
            self.indent += 1
            self._search(start, end)
            self.indent -= 1

    def _piece(self, number: int) -> None:
        self.known.clear()
        self._at, self.straight = number, 0
        piece = self.pieces[number]
        if piece.instructions:
            self.line = piece.instructions[0].line
        else:
            self.line = piece.block.line
        for instruction in piece.instructions:
            self.write(instruction)
        block = piece.block
        branch = block.branch
        if not piece.last:
            self.put(f"at = {number + 1}")
            return
        if branch is not None:
            self.line = branch.line
        if block.kind == "go":
            self._go(block.targets[0])
        elif block.kind == "if":
            assert branch is not None and branch.guard is not None
            self._report(self._mark(branch.guard), "branch")
            self.put(f"if {'not ' if branch.negated else ''}{branch.guard.python}:")
            for target in block.targets:
                self.indent += 1
                self._go(target)
                self.indent -= 1
                if target is block.targets[0]:
                    self.put("else:")
        elif block.kind == "switch":
            assert branch is not None
            self._report(self._mark(branch.operands[0]), "branch")
            self.put_selector(block)
            for at, target in enumerate(block.targets):
                self.put(f"if x == {at}:")
                self.indent += 1
                self._go(target)
                self.indent -= 1

    def _go(self, target: int) -> None:
        if target == EXIT:
            self.leave()
            return
        if target in self.prepared.spins and self._first[target] <= self._at:
            self.put(f"yield 'spin', {self.line}")
        self.put(f"at = {self._first[target]}")

    # -- the frame

    def finish(self) -> list[Line]:
        """Assemble the function."""
        function = self.function
        lines: list[Line] = []

        def put(indent: int, text: str) -> None:
            lines.append(Line(indent, text, function.line, None))

        put(0, f"def {self.name}(L, at, state, found):")
        if function.entry:
            put(1, "B = L.block")
            for code in self.shared_views:
                put(1, f"s_{code} = B.shared_view({code!r})")
            for text in self._watching():
                put(1, text)
            put(1, "t, tx, ty, tz = state['t'], state['tx'], state['ty'], state['tz']")
            if self.needs_thread or self.has_frame:
                put(1, "T = state['T'] if 'T' in state else Thread(B, t, tx, ty, tz)")
        else:
            put(1, "T = state['T']")
            for text in self.surroundings():
                put(1, text)
        if self.needs_fuel:
            put(1, "fuel = L.fuel")
        if self.needs_functions:
            put(1, "F = L.functions")
        for site in range(self.sites):
            put(1, f"v{site} = m{site} = None; lo{site} = n{site} = 0")
        for line in self.prologue:
            line.indent += 1
            lines.append(line)
        if self.needs_mine:
            put(1, "mine = watch_mine()")
        put(1, f"U = [None] * {len(function.registers) + len(self._extra)}")
        for register, first in self.never.items():
            put(1, f"U[{register.index}] = L.never_written({function.index}, {register.index}, {first})")
        self._put_state(put)
        if self.blocks and not any("yield" in line.text for line in self.body):
            put(1, "if 0: yield")
        if self.needs_mine:
            stamps = lines_before_reads(self.body)
        else:
            stamps = set()
        for number, line in enumerate(self.body):
            line.indent += 1
            lines.append(line)
            if number in stamps:
                lines.append(Line(line.indent, "mine = watch_mine()", line.line, None))
        return lines

    def _put_state(self, put: object) -> None:
        """Write how the variables get their values, at the beginning of the function or where the thread came from."""
        assert callable(put)
        function = self.function
        slots = [self.slot(v) for v in function.variables if v.space == "param"]
        slots += [self.slot(v) for v in function.returns]
        given = [self.slot(v) for v in function.parameters if not function.entry]
        if self.frame_size:
            frame = "frame = state['frame']"
        else:
            frame = "pass"
        put(1, "redo = found if found.marks else None")
        if not function.entry:
            enters = "pass"
            if self.has_frame:
                enters = self.enter()
            elif self.nests:
                enters = f"T.depth += 1; T.depth > {MOST_CALLS} and T.overflow()"
            put(1, "if at < 0:")
            names = given + [register.python for register in function.parameter_registers]
            if names:
                places = [self._place_of(name) for name in given] + [
                    f"U[{r.index}]" for r in function.parameter_registers
                ]
                put(2, f"{', '.join(names)}, = found.answer")
                put(2, f"{', '.join(places)}, = found.marks")
            put(2, enters)
            for text in self.first_values():
                put(2, text)
            others = [
                r.python for r in function.registers if r not in function.parameter_registers and r not in self.late
            ]
            for name in others:
                put(2, f"{name} = 0")
            put(2, "at, redo = 0, None")
            put(1, "else:")
        if not function.entry:
            level = 2
        else:
            level = 1
        put(level, frame)
        kept = [*slots, *given, *(r.python for r in function.registers if r.index not in self.early)]
        if self.uses_carry:
            kept.append("cf")
        for name in kept:
            put(level, f"{name} = state.get({name!r}, 0)")
        for text in self.views_of_frame():
            put(1, text)
