"""Which loops of a function wait for another thread: their exit depends on memory that other threads may write.

What it is   `spins_of`, the loops of a function that wait. A thread yields in each iteration of such a loop, so that
             other threads and other blocks can run. A kernel that reaches a function with such a loop can wait for any
             block of its grid. ptx/running/grid.py decides by this alone how the blocks of a launch run.
How          From the branches that leave a loop, the values on which they depend are followed backwards through
             registers, through the branches that decide whether an instruction runs, through memory that the loop
             itself writes, and through the results of calls. The loop waits if a read of changing memory is among them:
             a strong read, a read that bypasses the L1 cache (.cg), an atomic that returns a value, or a call of a
             function that contains one of these. An atomic that adds to a number does not count: the loop then comes
             to its end alone, unless another atomic takes back what was added. A weak read counts if the loop reads the
             same place in each iteration, contains an instruction after which memory must be read again, such as a
             fence, and counts nothing that would end it otherwise, but not one of shared memory between barriers.
What not     whether another thread does write that memory: a loop that tries to take a free lock also waits here.
Source       PTX ISA, "Memory Consistency Model"
Read next    translate.py, which writes the yields; unit.py
"""

from __future__ import annotations

from ..reading.syntax import Address, Function, Int, Name, Register, Symbol, Vector
from .registers import reads_and_writes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..reading.syntax import Instruction
    from .flow import Block
    from .unit import Prepared

__all__ = ["is_watched", "spins_of"]

MOST_STEPS = 10_000, 10  # of the search in a loop, and for each instruction; above that, the loop counts as waiting
NUMBERED = -1  # in place of a loop's header, for a function whose blocks are not nested
_STRONG = frozenset(("volatile", "acquire", "relaxed", "mmio", "cv", "cg"))
_PRIVATE = frozenset(("local", "param", "const", "nc"))  # memory that no other thread writes
_ORDERING = frozenset(("membar", "fence", "bar", "barrier", "atom", "red", "nanosleep", "call"))
_COUNTING = frozenset(("add", "inc", "dec"))
_LEAVING = frozenset(("ret", "exit"))
_MEMORY = -1  # stands for all memory that the loop writes, beside the numbers of registers


def is_watched(instruction: Instruction, watchers: set[str]) -> bool:
    """Tell whether an instruction reads memory that may change, or calls a function that does.

    shape   watchers: the functions that contain such reads; "*" stands for one that a pointer may point to
    """
    opcode = instruction.opcode
    if opcode == "ld":
        return not _STRONG.isdisjoint(instruction.modifiers) and not _is_private(instruction)
    if opcode == "call":
        return _called(instruction) in watchers
    return opcode == "atom"


def _called(instruction: Instruction) -> str:
    """Return the name of the function that is called, "*" for a call through a pointer."""
    operands = instruction.operands[isinstance(instruction.operands[0], Vector) :]
    if operands:
        target = operands[0]
    else:
        target = None
    if isinstance(target, Symbol) and isinstance(target.target, Function):
        return target.target.name
    if isinstance(target, Name):
        return target.text
    return "*"


def _is_private(instruction: Instruction) -> bool:
    return any(word.split("::")[0] in _PRIVATE for word in instruction.modifiers)


def spins_of(made: Prepared, watchers: set[str]) -> set[int]:
    """Return the headers of the loops that wait, or {NUMBERED}."""
    if made.plan is None:
        instructions = [i for block in made.blocks for i in block.instructions]
        found = len(made.blocks) > 1 and any(is_watched(i, watchers) for i in instructions)
        if found:
            return {NUMBERED}
        return set()
    return {header for header, body in made.plan.bodies.items() if _Loop(made, header, body, watchers).waits()}


class _Loop:
    """A loop, and what its exits depend on."""

    def __init__(self, made: Prepared, header: int, body: set[int], watchers: set[str]) -> None:
        self.made, self.header, self.body, self.watchers = made, header, body, watchers
        self.blocks = [made.blocks[number] for number in body]
        self.inside = [(i, block) for block in self.blocks for i in block.instructions]
        self._deciding: dict[int, list[Block]] = {}
        self.steps = 0
        self.most = MOST_STEPS[0] + MOST_STEPS[1] * len(self.inside)

    def waits(self) -> bool:
        """Tell whether an exit of the loop depends on memory that other threads may write."""
        watched = any(is_watched(i, self.watchers) for i, _ in self.inside)
        again = any(i.opcode in _ORDERING or i.opcode == "st" and not _STRONG.isdisjoint(i.modifiers)
                    for i, _ in self.inside)  # fmt: skip
        if not watched and not (again and any(_is_weak(i) for i, _ in self.inside)):
            return False
        self.called = any(i.opcode == "call" and is_watched(i, self.watchers) for i, _ in self.inside)
        self.before: dict[int, list[int]] = {}  # the blocks before each block
        for block in self.blocks:
            for target in block.targets:
                self.before.setdefault(target, []).append(block.number)
        self.writers: dict[int, list[tuple[Instruction, Block]]] = {}  # of each register, and of memory
        for instruction, block in self.inside:
            for number in self._written(instruction):
                self.writers.setdefault(number, []).append((instruction, block))
        for block in self.blocks:
            leaves = any(target not in self.body for target in block.targets) and len(block.targets) > 1
            guards = [i.guard.index for i in block.instructions if i.opcode in _LEAVING and i.guard is not None]
            if leaves or guards:
                wanted = {*guards, *(_asked(block) if leaves else ()), *self._decides(block)}
                if self._depends(wanted, again) or self.steps > self.most:
                    return True
        return False

    def _depends(self, wanted: set[int], again: bool) -> bool:
        """Tell whether values depend on a watched read, or on nothing but weak reads of the same place."""
        reads, sources = self._follow(wanted)
        if self.steps > self.most:
            return True
        for instruction in sources:
            if is_watched(instruction, self.watchers) and not self._counts(instruction):
                return True
            if self.called and _is_result(instruction):
                return True
        if not again or _has_cycle(reads):
            return False
        return any(_is_weak(i) and self._may_change(i) and self._is_same_place(i) for i in sources)

    def _follow(self, wanted: Iterable[int]) -> tuple[dict[int, set[int]], list[Instruction]]:
        """Return which values each value depends on, and the instructions of the loop that make them."""
        reads: dict[int, set[int]] = {}
        sources: list[Instruction] = []
        work = list(wanted)
        while work and self.steps <= self.most:
            number = work.pop()
            if number not in reads:
                reads[number] = set()
                for instruction, block in self.writers.get(number, ()):
                    self.steps += 1
                    sources.append(instruction)
                    reads[number] |= self._read(instruction) | self._decides(block)
                work += reads[number]
        return reads, sources

    def _may_change(self, instruction: Instruction) -> bool:
        """Tell whether other threads may change what a weak read reads, other than between two barriers of the loop."""
        shared = any(word.split("::")[0] == "shared" for word in instruction.modifiers)
        return not (shared and any(i.opcode in ("bar", "barrier") for i, _ in self.inside))

    def _counts(self, instruction: Instruction) -> bool:
        """Tell whether an instruction adds to a number that no other instruction of the loop changes."""
        amount = instruction.operands[-1]
        if instruction.opcode != "atom" or _COUNTING.isdisjoint(instruction.modifiers):
            return False
        if not isinstance(amount, Int) or not amount.value:
            return False
        place = _place(instruction)
        return not any(
            other is not instruction and other.opcode in ("atom", "red", "st") and _place(other) == place
            for other, _ in self.inside
        )

    def _written(self, instruction: Instruction) -> list[int]:
        writes = [r.index for r in reads_and_writes(instruction, self.made.shapes[id(instruction)])[1]]
        if instruction.opcode in ("st", "call"):
            writes.append(_MEMORY)
        return writes

    def _read(self, instruction: Instruction) -> set[int]:
        reads = {r.index for r in reads_and_writes(instruction, self.made.shapes[id(instruction)])[0]}
        if instruction.opcode in ("ld", "ldu") and not {"const", "nc"} & set(instruction.modifiers):
            reads.add(_MEMORY)
        return reads

    def _is_same_place(self, instruction: Instruction) -> bool:
        """Tell whether a read has the same address in each iteration."""
        bases = [o.base.index for o in instruction.operands if isinstance(o, Address) and isinstance(o.base, Register)]
        reads, sources = self._follow(bases)
        return not _has_cycle(reads) and not any(is_watched(i, self.watchers) or _is_weak(i) for i in sources)

    def _decides(self, block: Block) -> set[int]:
        """Return the registers that decide whether a block of the loop runs in an iteration."""
        return {number for branch in self._branches(block) for number in _asked(branch)}

    def _branches(self, block: Block) -> list[Block]:
        """Return the blocks whose branch may lead to a block, or past it to the next iteration.

        A branch that leaves the loop instead is judged as an exit of its own.
        """
        found = self._deciding.get(block.number)
        if found is None and self.steps > self.most:
            return []
        if found is None:
            leading = self._leading_to([block.number], None)
            ends = [each.number for each in self.blocks if each is not block and self.header in each.targets]
            both = leading & self._leading_to(ends, block.number)
            found = [each for each in self.blocks if len(each.targets) > 1 and each.number in both]
            self.steps += len(self.blocks)
            self._deciding[block.number] = found
        return found

    def _leading_to(self, numbers: list[int], without: int | None) -> set[int]:
        """Return the blocks from which others can be reached in the same iteration, without passing one of them."""
        found, work = set(numbers), list(numbers)
        while work:
            number = work.pop()
            for before in self.before.get(number, ()) if number != self.header else ():
                self.steps += 1
                if before not in found and before != without:
                    found.add(before)
                    work.append(before)
        return found


def _place(instruction: Instruction) -> object:
    """Return the base of the address of an access: a register, a variable or None."""
    base = next((o.base for o in instruction.operands if isinstance(o, Address)), None)
    if isinstance(base, Register):
        return base.index
    if isinstance(base, Symbol):
        return base.target
    return None


def _asked(block: Block) -> Iterable[int]:
    """Return the registers by which the branch at the end of a block chooses its target."""
    branch = block.branch
    if branch is None:
        return []
    chosen = [o.index for o in branch.operands if isinstance(o, Register)]
    if branch.guard is not None:
        return [branch.guard.index, *chosen]
    return chosen


def _is_weak(instruction: Instruction) -> bool:
    return instruction.opcode in ("ld", "ldu") and not _is_private(instruction)


def _is_result(instruction: Instruction) -> bool:
    """Tell whether an instruction reads the result of a call."""
    return instruction.opcode == "ld" and any(word.split("::")[0] == "param" for word in instruction.modifiers)


def _has_cycle(reads: dict[int, set[int]]) -> bool:
    """Tell whether a value depends on its own value in the iteration before, as a counter does."""
    left = {number: len(needed & reads.keys()) for number, needed in reads.items()}
    needing: dict[int, list[int]] = {}
    for number, needed in reads.items():
        for each in needed & reads.keys():
            needing.setdefault(each, []).append(number)
    ends = [number for number, count in left.items() if not count]
    for end in ends:
        for number in needing.get(end, ()):
            left[number] -= 1
            if not left[number]:
                ends.append(number)
    return len(ends) < len(left)
