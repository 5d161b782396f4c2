"""From a PTX function to a Python function: the code around the instructions.

    def k0_add(L, B):                      # once for a block: values that are the same in all threads
        r_rd1 = L.parameter(0, 'Q')
        v0 = lo0 = None; n0 = 0            # the caches of the accesses to global memory
        def thread(t, tx, ty, tz):         # once for a thread: linear number and index
            nonlocal v0, lo0, n0
            ...
        return thread

    def functions(L):                      # device functions that the kernel can call, once for a launch
        made = {}
        def make():                    # always this name, as Python copies all outer names for each inner function
            def f3_dot(T, p0_x, p1_y): ...
            return f3_dot
        made[3] = make
        return made

Read next    flow.py for the nesting of blocks; ptx/ptx_program.py, which compiles the source
"""

from __future__ import annotations

from ..reading.syntax import BITS, Instruction, Variable
from .emitting.asynchronous import AsyncEmitter
from .emitting.checks import lines_before_reads
from .emitting.emit import FLOAT_TYPES, Line
from .emitting.emit_matrices import MatrixEmitter
from .emitting.emit_small import SmallEmitter
from .emitting.emit_textures import TextureEmitter
from .flow import EXIT, Block, Plan
from .registers import (
    addressed,
    copied,
    defined_late,
    floating,
    local_pointers,
    never_written,
    reads_and_writes,
    uniform,
    values_that_matter,
    with_branches,
)
from .unit import LEAST_FRAME, MOST_CALLS, Prepared, Unit, frame_alignment, local_layout, parameter_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

    from ..reading.syntax import Register
    from .table.forms import Shape

__all__ = ["Translated", "translate"]

STRAIGHT = 128  # instructions without a branch back, after which a thread takes a turn, so that the clock is looked at
OF_A_CALL = 32  # instructions that a call counts as: the callee may have nearly as many as take a turn
POISONED = 0xFBFBFBFBFBFBFBFBFBFBFBFBFBFBFBFB


class Translated:
    """A translated function: its lines, and the facts that running it needs."""

    def __init__(self, prepared: Prepared, lines: list[Line], writer: Writer) -> None:
        self.prepared = prepared
        self.lines = lines
        self.frame_size = writer.frame_size or (LEAST_FRAME if prepared.nests else 0)
        self.parameter_bytes = writer.parameter_bytes
        self.registers = len(prepared.function.registers)
        self.blocking = prepared.blocking
        self.shared: dict[int, int] = writer.shared
        self.shared_size = writer.shared_size
        self.shared_names = writer.shared_names


class Writer(AsyncEmitter, MatrixEmitter, SmallEmitter, TextureEmitter):
    """The writer of one function.

    Why long  the text of a function is one, and every statement adds to it
    """

    def __init__(self, unit: Unit, prepared: Prepared) -> None:
        function = prepared.function
        self.prepared = prepared
        judged = [(i, prepared.shapes[id(i)]) for block in prepared.blocks for i in block.instructions]
        super().__init__(unit, function, floating(function, judged))
        self.copied = copied(function, judged, self.holds_float)
        self.late = defined_late(function, prepared.blocks, prepared.shapes)
        self.blocks = prepared.blocking
        self.calls_others = not function.entry and bool(prepared.calls)
        self.needs_fuel = self.calls_others
        self.frame_size, self.nests = local_layout(function), prepared.nests
        self.addressed = addressed(function, judged)
        self.parameter_bytes = parameter_bytes(function)  # which are on the stack, too
        self.has_frame = bool(self.frame_size or self.addressed or self.parameter_bytes)
        if self.frame_size:
            self.local_pointers = local_pointers(function, judged)
        else:
            self.local_pointers = set()
        self.shared: dict[int, int] = {}
        self.shared_size = 0
        self.shared_names: list[tuple[int, int, str]] = []  # offset, size (0: dynamic) and name of each variable
        self.uniform: set[int] = set()
        self._todo: list[Callable[[], None]] = []  # what remains to be written, last first
        if function.entry:
            self.shared, self.shared_size, held = unit.shared_layout(prepared)
            self.shared_names = [(self.shared[id(each)], each.size, each.name) for each in held]
            self.uniform = uniform(function, judged, self.late)
        self.never: dict[Register, int] = {}  # what is used and no instruction writes, and the line of its first use
        self.tracks = False  # whether an undefined value may arise
        self.straight = 0  # instructions since the last turn, at most
        self.before: dict[int, int] = {}  # those before each block, by its number
        if unit.watch:
            uses = with_branches(prepared.blocks, prepared.shapes)
            self.judged = values_that_matter(uses)
            self.never = never_written(uses, self.late, self.judged)
            self.tracks = bool(self.never) or any(self.gives_undefined(*each) for each in judged)

    def gives_undefined(self, instruction: Instruction, shape: Shape) -> bool:
        """Tell whether an instruction may interrupt its thread because what it gives is undefined."""
        if shape.result == "!ld":
            if {"param", "const"} & {word.split("::")[0] for word in instruction.modifiers}:
                return False
            return any(register.index in self.judged for register in reads_and_writes(instruction, shape)[1])
        return shape.result in ("!shfl", "!call")

    # -- addresses

    def variable(self, target: Variable, offset: int) -> str:
        """Return the address of a variable in its state space: of 32 bits, except for global and constant memory."""
        space = target.space
        if space == "shared":
            if self.function.entry:
                return f"{self.shared[id(target)] + offset & 0xFFFFFFFF}"
            return _behind(f"L.shared_at[{self.unit.shared_number(target)}]", offset)
        if space == "local":
            self.needs_thread = True
            return _behind("frame_lo", target.offset + offset)
        if space == "param":
            if self.is_kernel_parameter(target):
                return f"{target.offset + offset & 0xFFFFFFFF}"
            if target.scalar:
                raise self.reject(f"The address of the scalar parameter '{target.name[:80]}' is not emulated")
            if target not in self.addressed:
                raise self.reject(f"Illegal to take address of parameter '{target.name[:80]}'")
            self.needs_thread = True
            return _behind(f"T.place({self.slot(target)})", offset)
        address = self.unit.addresses.get(id(target))
        if address is None:
            raise self.reject(f"Unresolved extern variable '{target.name[:80]}'")
        return f"{address + offset & (1 << 64) - 1:#x}"

    # -- one instruction

    def write(self, instruction: Instruction) -> None:
        """Write one instruction, with its guard."""
        self.line, self.instruction = instruction.line, instruction
        shape = self.prepared.shapes[id(instruction)]
        if id(instruction) in self.uniform:
            saved = self.out, self.indent
            self.out, self.indent = self.prologue, 0
            self.early.update(self._written(instruction))
            self._dispatch(instruction, shape)
            self.out, self.indent = saved
            return
        self._take_turn(instruction)
        if instruction.guard is None:
            self._dispatch(instruction, shape)
        else:
            self._guarded(instruction, shape)
        for register in reads_and_writes(instruction, shape)[1]:
            self.known.pop(register.python, None)
        self.instruction = None

    def _take_turn(self, instruction: Instruction) -> None:
        """Let the clock be looked at in code without loops, and before what takes time by the number of its bytes."""
        self.straight += OF_A_CALL if instruction.opcode == "call" else 1
        if "bulk" in instruction.modifiers:
            self.put("L.look_at_clock()")
        elif self.straight > STRAIGHT:
            self.straight, self.needs_fuel = 0, True
            self.put("for _ in fuel: break")

    def _guarded(self, instruction: Instruction, shape: Shape) -> None:
        guard = instruction.guard
        assert guard is not None
        self.put(f"if {'not ' if instruction.negated else ''}{guard.python}:")
        before = len(self.out)
        self.indent += 1
        self._dispatch(instruction, shape)
        if len(self.out) == before:
            self.put("pass")
        self.indent -= 1

    def _written(self, instruction: Instruction) -> list[int]:
        return [r.index for r in reads_and_writes(instruction, self.prepared.shapes[id(instruction)])[1]]

    def _dispatch(self, instruction: Instruction, shape: Shape) -> None:
        if shape.result[0] == "!":
            getattr(self, "do_" + shape.result[1:])(instruction, shape)
        else:
            self.general(instruction, shape)

    # -- flow

    def flow(self) -> None:
        """Write all blocks."""
        plan = self.prepared.plan
        if plan is None:
            self._numbered(self.prepared.blocks)
        else:
            self._nested(plan)

    def _nested(self, plan: Plan) -> None:
        stack = self._todo
        self._block(plan, 0)
        while stack:
            stack.pop()()

    def _block(self, plan: Plan, number: int) -> None:
        """Write a block, and push what follows it on the stack of remaining steps."""
        outer = self.indent
        self.known.clear()
        self.straight = 0 if number in plan.loops else self.before.get(number, 0)
        block = plan.blocks[number]
        guarded = number in plan.numbered
        todo: list[Callable[[], None]] = []
        if guarded or number in plan.loops:
            if block.instructions:
                self.line = block.instructions[0].line
            else:
                self.line = block.line
        if guarded:
            self.put(f"if at == {number}:")
            self.indent += 1
        level = self.indent
        if number in plan.loops:
            self.needs_fuel = True
            self.put("for _ in fuel:")
            self.indent += 1
        inner = self.indent
        for instruction in block.instructions:
            self.write(instruction)
        for target in block.targets:
            self.before[target] = max(self.before.get(target, 0), self.straight)
        self._leave_block(plan, block, todo)
        for following in plan.inside[number]:
            todo.append(self._later(plan, following, inner))
        if number in plan.loops:
            relays = plan.relays.get(number, {})
            todo.append(lambda: self._relay(relays, level))
        for following in plan.after[number]:
            todo.append(self._later(plan, following, level))
        todo.append(lambda: setattr(self, "indent", outer))
        self._todo.extend(reversed(todo))

    def _later(self, plan: Plan, number: int, indent: int) -> Callable[[], None]:
        def write() -> None:
            self.indent = indent
            self._block(plan, number)

        return write

    def _relay(self, relays: dict[int, str], indent: int) -> None:
        self.indent = indent
        for target, verb in relays.items():
            self.put(f"if at == {target}:")
            self.indent += 1
            self.put(verb)
            self.indent -= 1

    def _leave_block(self, plan: Plan, block: Block, todo: list[Callable[[], None]]) -> None:
        if block.branch is not None:
            self.line = block.branch.line
        if block.kind == "end":
            return
        if block.kind == "go":
            self._arm(plan, block, block.targets[0], self.indent, todo)
        elif block.kind == "if":
            self._if(plan, block, todo)
        else:
            self._switch(plan, block, todo)

    def _if(self, plan: Plan, block: Block, todo: list[Callable[[], None]]) -> None:
        branch = block.branch
        assert branch is not None and branch.guard is not None
        name = branch.guard.python
        if not branch.negated:
            yes, no = (name, f"not {name}")
        else:
            yes, no = (f"not {name}", name)
        taken, passed = block.targets
        indent = self.indent
        if self._is_nothing(plan, block, taken):
            self.put(f"if {no}:")
            self._arm(plan, block, passed, indent + 1, todo)
            return
        self.put(f"if {yes}:")
        self._arm(plan, block, taken, indent + 1, todo)
        if self._is_nothing(plan, block, passed):
            return
        if self._leaves(plan, block, taken):
            self._arm(plan, block, passed, indent, todo)
            return
        line = branch.line

        def otherwise() -> None:
            self.indent, self.line = indent, line
            self.put("else:")

        todo.append(otherwise)
        self._arm(plan, block, passed, indent + 1, todo)

    def _is_nothing(self, plan: Plan, block: Block, target: int) -> bool:
        return (
            target != EXIT
            and not plan.is_inline(block.number, target)
            and plan.jump(block.number, target) == ("", False)
        )

    def _leaves(self, plan: Plan, block: Block, target: int) -> bool:
        return not plan.is_inline(block.number, target) and plan.jump(block.number, target)[0] != ""

    def _switch(self, plan: Plan, block: Block, todo: list[Callable[[], None]]) -> None:
        branch = block.branch
        assert branch is not None
        indent, line = self.indent, branch.line
        self.put_selector(block)
        for number, target in enumerate(block.targets):
            last = number == len(block.targets) - 1
            if len(block.targets) == 1:
                text = "if 1:"
            elif last:
                text = "else:"
            else:
                text = f"{'elif' if number else 'if'} x == {number}:"

            def head(text: str = text) -> None:
                self.indent, self.line = indent, line
                self.put(text)

            todo.append(head)
            self._arm(plan, block, target, indent + 1, todo)

    def put_selector(self, block: Block) -> None:
        """Write the index of a block's targets, which must be in its table."""
        assert block.branch is not None
        self.put(f"x = {self.value(block.branch.operands[0], 'u32')}")
        self.put(f"if x >= {len(block.targets)}: beyond(x, {len(block.targets)})")

    def _arm(self, plan: Plan, block: Block, target: int, indent: int, todo: list[Callable[[], None]]) -> None:
        """Write the transition from a block to a target: the target if it is nested here, else a jump."""
        line = self.line
        if plan.is_inline(block.number, target):

            def nested() -> None:
                self.indent, self.line = indent, line
                self._block(plan, target)

            todo.append(nested)
            return

        def jump() -> None:
            self.indent, self.line = indent, line
            statement, says_where = plan.jump(block.number, target)
            if says_where:
                self.put(f"at = {target}")
            if statement == "return":
                self.leave()
            elif statement == "continue" and target in self.prepared.spins:
                self.put(f"yield 'spin', {line}")
                self.put("continue")
            elif statement:
                self.put(statement)
            elif not says_where and self.out and self.out[-1].text[-1] == ":":
                self.put("pass")

        todo.append(jump)

    def _numbered(self, blocks: list[Block]) -> None:
        """Write numbered blocks in one loop, selected by binary search; each takes a turn."""
        self.needs_fuel = True
        self.put("at = 0")
        self.put("for _ in fuel:")
        self.indent += 1
        if self.prepared.spins:
            self.put("yield 'spin', 0")
        self._halve(blocks, 0, len(blocks))
        self.indent -= 1

    def _halve(self, blocks: list[Block], low: int, high: int) -> None:
        if high - low == 1:
            self._numbered_block(blocks[low])
            return
        middle = (low + high) // 2
        self.put(f"if at < {middle}:")
        self.indent += 1
        self._halve(blocks, low, middle)
        self.indent -= 1
        self.put("else:")
        self.indent += 1
        self._halve(blocks, middle, high)
        self.indent -= 1

    def _numbered_block(self, block: Block) -> None:
        self.known.clear()
        self.straight = 0
        for instruction in block.instructions:
            self.write(instruction)
        branch = block.branch
        if branch is not None:
            self.line = branch.line
        if block.kind == "end":
            return
        if block.kind == "go":
            self._go(block.targets[0])
        elif block.kind == "if":
            assert branch is not None and branch.guard is not None
            self.put(f"if {'not ' if branch.negated else ''}{branch.guard.python}:")
            self.indent += 1
            self._go(block.targets[0])
            self.indent -= 1
            self.put("else:")
            self.indent += 1
            self._go(block.targets[1])
            self.indent -= 1
        else:
            self.put_selector(block)
            for number, target in enumerate(block.targets):
                self.put(f"if x == {number}:")
                self.indent += 1
                self._go(target)
                self.indent -= 1

    def _go(self, target: int) -> None:
        if target == EXIT:
            self.leave()
        else:
            self.put(f"at = {target}")

    # -- the frame

    def finish(self) -> list[Line]:
        """Assemble prologue, header and body.

        Why long  it writes the lines of the header in their order
        """
        function = self.function
        first, name = function.line, function.python
        lines: list[Line] = []

        def put(indent: int, text: str) -> None:
            lines.append(Line(indent, text, first, None))

        if self.needs_mine:
            stamps = lines_before_reads(self.body)
        else:
            stamps = set()
        setup = self._setup(-1 in stamps)
        if function.entry:
            put(0, f"def {name}(L, B):")
            base = 2
            for code in self.shared_views:
                put(1, f"s_{code} = B.shared_view({code!r})")
            for text in self._watching():
                put(1, text)
            if self.needs_fuel:
                put(1, "fuel = L.fuel")
            if self.needs_functions:
                put(1, "F = L.functions")
        else:
            put(1, "def make():")
            base = 3
            if self.needs_fuel:
                put(2, "fuel = L.fuel")
            if self.needs_functions:
                put(2, "F = L.functions")
        if self.sites:
            numbers = range(self.sites)
            # It ends the first block of the function: CPython moves all of that block for each of the cells below.
            put(base - 1, "for _ in (): pass")
            put(base - 1, " = ".join(f"v{n} = m{n}" if self.unit.watch else f"v{n}" for n in numbers) + " = None")
            put(base - 1, " = ".join(f"lo{n} = n{n}" for n in numbers) + " = 0")
        for line in self.prologue:
            line.indent += base - 1
            lines.append(line)
        if function.entry:
            put(base - 1, f"def thread({', '.join(['t', 'tx', 'ty', 'tz', *self._at_hand()])}):")
        else:
            parameters = [self.slot(v) for v in function.parameters] + [r.python for r in function.parameter_registers]
            put(base - 1, f"def {name}({', '.join(['T', *parameters, *self._at_hand()])}):")
        if self.sites:
            if self.unit.watch:
                more = ", m{n}"
            else:
                more = ""
            sites = ", ".join(f"v{n}, lo{n}, n{n}{more.format(n=n)}" for n in range(self.sites))
            put(base, f"nonlocal {sites}")
        for text in setup:
            put(base, text)
        if self.blocks and not any("yield" in line.text for line in self.body):
            put(base, "if 0: yield")
        if self.tracks:
            lines.append(Line(base, "try:", self.body[0].line if self.body else first, None))
            base += 1
            if self.never:
                put(base, "raise Undefined")
        for number, line in enumerate(self.body):
            line.indent += base
            lines.append(line)
            if number in stamps:
                lines.append(Line(line.indent, "mine = watch_mine()", line.line, None))
        if self.tracks:
            base -= 1
            put(base, "except Undefined as found:")
            put(base + 1, "redo = found")
            put(base, "else:")
            lines.append(Line(base + 1, "return", self.body[-1].line if self.body else first, None))
            call = f"L.track(redo, {function.index}, locals())"
            put(base, f"return (yield from {call})" if self.blocks else f"return {call}")
        if function.entry:
            put(1, "return thread")
        else:
            put(2, f"return {name}")
            put(1, f"made[{function.index}] = make")
        return lines

    def _at_hand(self) -> list[str]:
        """Return the default arguments that make frequently used objects local variables."""
        return [f"{name}={name}" for name in ("T4", "SPLIT") if any(name in line.text for line in self.body)]

    def _watching(self) -> list[str]:
        """Return the functions that record accesses to shared memory, as default arguments."""
        more = []
        if self.needs_past:
            past = ("read", "write", "atomic", "fence", "order")
            more.append("; ".join(f"past_{name} = L.history.{name}" for name in past))
        if self.needs_delays:
            more.append("; ".join(f"late_{name} = L.delays.{name}" for name in ("store", "touch", "flush")))
        if not self.needs_watch:
            return more
        names = [
            name
            for name in ("read_one", "read", "reads", "write_one", "write", "mark", "want", "update", "order", "mine")
            if name != "mine" or self.needs_mine
        ]
        calls = "; ".join(f"watch_{name} = watch.{name}" for name in names)
        return [*more, f"watch = B.watch({self.granule})", calls]

    def _setup(self, reads: bool) -> list[str]:
        """Return what a function does first; `reads`: it needs the stamps of its thread.

        A function that calls others takes a turn, as a loop does: a chain of functions that each call the next one
        twice never ends, either.
        """
        if self.calls_others:
            frame = ["for _ in fuel: break"]
        else:
            frame = []
        if self.has_frame:
            frame.append(self.enter())
        elif self.nests:
            frame += ["T.depth += 1", f"if T.depth > {MOST_CALLS}: T.overflow()"]
        if reads:
            stamps = ["mine = watch_mine()"]
        else:
            stamps = []
        return [*self.surroundings(), *frame, *self.views_of_frame(), *stamps, *self.first_values()]

    def enter(self) -> str:
        """Return the line that makes the frame of a function."""
        return f"frame = T.enter({self.frame_size}, {frame_alignment(self.function)}, {self.parameter_bytes})"

    def surroundings(self) -> list[str]:
        """Return the lines that give a function its block, its thread and the views of shared memory."""
        function = self.function
        texts = []
        if not function.entry:
            if self.needs_block or self.shared_views or self.needs_watch:
                texts.append("B = T.block")
            texts += self._watching()
            if self.needs_place:
                texts.append("t, tx, ty, tz = T.place_in_block")
            texts += [f"s_{code} = B.shared_view({code!r})" for code in self.shared_views]
        elif self.needs_thread or self.has_frame:
            texts.append("T = Thread(B, t, tx, ty, tz)")
        return texts

    def views_of_frame(self) -> list[str]:
        """Return the lines that give a function the views of its frame."""
        if not self.frame_size:
            return []
        texts = ["frame_lo = frame.low"]
        if self.unit.watch:
            texts += [f"mark_{code} = frame.marks({code!r})" for code in self.local_views]
        return [*texts, *(f"frame_{code} = frame.view({code!r})" for code in self.local_views)]

    def first_values(self) -> list[str]:
        """Return the lines that give parameters of calls and registers their first values."""
        function = self.function
        texts = []
        slots = [v for v in function.variables if v.space == "param"] + list(function.returns)
        for variable in slots:
            if self.slot_is_float(variable):
                start = "0.0"
            elif variable.scalar:
                start = "0"
            else:
                start = f"bytearray({variable.size})"
            texts.append(f"{self.slot(variable)} = {start}")
        for variable in self.addressed:
            if variable not in function.returns:
                texts.append(f"{self.slot(variable)} = {self.slot(variable)}[:]")  # the caller's stays as it is
        for register in self.late:
            if register.type == "pred":
                value = "False"
            elif self.holds_float[register.index]:
                value = f"float_of_{BITS[register.type]}({POISONED & (1 << BITS[register.type]) - 1:#x})"
            else:
                value = f"{POISONED & (1 << BITS[register.type]) - 1:#x}"
            texts.append(f"{register.python} = {value}")
        for register in function.parameter_registers:
            held = self.holds_float[register.index]
            if register.type in FLOAT_TYPES and not held:
                way = "copied_bits_of_32" if register.type == "f32" else "bits_of_64"
                texts.append(f"{register.python} = {way}({register.python})")
            elif held and register.type not in FLOAT_TYPES:
                texts.append(f"{register.python} = float_of_{BITS[register.type]}({register.python})")
        if self.uses_carry:
            texts.append("cf = 0")
        return texts


def _behind(start: str, offset: int) -> str:
    """Return the address that lies so many bytes behind another one of 32 bits."""
    if offset:
        return f"({start} + {offset} & 0xFFFFFFFF)"
    return start


def translate(unit: Unit, prepared: Prepared) -> Translated:
    """Write one function.

    raises  Rejected   an instruction whose operands match its row, but are not valid together
    """
    writer = Writer(unit, prepared)
    writer.flow()
    return Translated(prepared, writer.finish(), writer)
