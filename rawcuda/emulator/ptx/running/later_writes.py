"""Reads of global memory that was never written, and whether another thread of the launch writes it later.

What it is   `LaterWrites`. A thread that reads such memory lets the other threads of its block go first, and then
             reads what they have written, as it does where the threads of a warp advance together. If one of them has
             written it, that is a race for certain: the thread did nothing between its read and the write, so nothing
             orders them.
How          If no other thread has written it, the read is reported as one of memory that was never written, at the end
             of the launch. If the kernel orders nothing between blocks, and a later block writes the memory, that is a
             race, too. `look` is called after each turn of a thread, as long as there is an open question.
What not     memory that was written before the launch: there, races are found with the word racecheck
Read next    scheduler.py, which gives the others their turn; ../checking/history.py, for the word racecheck
"""

from __future__ import annotations

from copy import copy

from ..checking.places import barrier_missing
from ..reading.syntax import Function, Instruction, Name, Symbol, Vector

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ...machine.space import Allocation
    from ..checking.history import Found
    from ..translating.unit import Prepared
    from .lookups import Launch

    Place = tuple[int, int]  # block and thread

__all__ = ["LaterWrites", "OTHERS_FIRST", "orders_blocks"]

MOST_ASKED = 64  # reads whose reports wait
MOST_NESTED = 32  # threads that let others go first, at the same time: as many as there are in a warp
_STRONG = frozenset("volatile relaxed acquire release acq_rel mmio cluster".split())
_ORDERING = frozenset("atom red fence membar mbarrier multimem griddepcontrol".split())


class _Question:
    """A read, and whether another thread has written there since.

    shape   found: its report, without words yet unless the report waits for the answer; ordered: which later writes may
            be ordered after the read: none, those of the same block, or all (0, 1, 2)
    """

    __slots__ = ("held", "start", "total", "reader", "found", "waits", "answered", "ordered")

    def __init__(self, held: Allocation, start: int, total: int, reader: Place, found: Found, waits: bool) -> None:
        self.held, self.start, self.total, self.reader = held, start, total, reader
        self.found, self.waits = found, waits
        self.answered, self.ordered = False, 0

    def written(self) -> bool:
        written = self.held.written
        return written is None or any(written[self.start : self.start + self.total])


class LaterWrites:
    """The open questions of a launch.

    shape   races: the first race of each line that reads; lines: those of the reads whose reports wait
    """

    def __init__(self, launch: Launch) -> None:
        self.launch = launch
        self.asked: list[_Question] = []
        self.races: dict[int, Found] = {}
        self.lines: set[int] = set()
        self.nested = 0  # how many threads have let others go first, and have not continued

    def others_first(self, found: Found, address: int, total: int) -> bool:
        """Let the other threads of the block run before a read; tell whether one of them wrote there.

        shape   found: the report of the read, for `races`
        """
        launch = self.launch
        block, held = launch.block, launch.space.find(address)
        if held is None or block is None or block.run_others is None or self.nested == MOST_NESTED:
            return False
        running, tracking, mark = block.running or 0, launch.tracking, launch.mark
        self.look(running)
        question = _Question(held, address - held.base, total, (block.number, running), found, False)
        self.asked.append(question)
        launch.tracking, self.nested = False, self.nested + 1
        block.run_others(running)
        block.running, launch.tracking, launch.mark = running, tracking, mark
        self.asked.remove(question)
        self.nested -= 1
        return question.answered

    def keep(self, found: Found, address: int, total: int) -> None:
        """Report a read when it is known whether it is a race; of the reads of one line, that of the first thread."""
        held, kernel, reader = self.launch.space.find(address), self.launch.kernel, (found.block, found.thread)
        if held is None or kernel is None:
            self.launch.warn_at(found)
            return
        earlier = next((each for each in self.asked if each.waits and each.found.line == found.line), None)
        if earlier is not None and reader < earlier.reader:
            self.asked.remove(earlier)
        elif found.line in self.lines:
            return
        if len(self.asked) >= MOST_ASKED:  # each turn of a thread looks at all of them
            self.launch.warn_at(found)
            return
        self.lines.add(found.line)
        self.asked.append(_Question(held, address - held.base, total, reader, found, True))
        self.asked[-1].ordered = 2 * kernel.orders_blocks()

    def look(self, t: int | None) -> None:
        """See what a thread of the running block has written in its turn; None: one of its threads, or of no block."""
        block = self.launch.block
        if block is not None:
            here = block.number
        else:
            here = None
        for each in list(self.asked):
            if not each.answered and each.written():
                each.answered = True
                same = here == each.reader[0]
                if each.ordered < (1 if same else 2) and not (same and t in (None, each.reader[1])):
                    self.races.setdefault(each.found.line, self._race(each, here, t))
            elif block is not None and (here, t) == each.reader and block.can_wait:
                each.ordered = each.ordered or 1

    def _race(self, question: _Question, block: int | None, thread: int | None) -> Found:
        """Return the report of a race of a read with a later write."""
        launch, found, reader = self.launch, question.found, question.reader
        if thread is not None:
            who = f"thread {launch.index_of(thread)}"
        else:
            who = "a thread"
        if block != reader[0]:
            who += f" of block {launch.index_of_block(block)}" if block is not None else " of another block"
            why = "nothing orders the two blocks: divide the work into two launches"
        else:
            why = barrier_missing(thread is not None and thread >> 5 == reader[1] >> 5)
        place = launch.space.explain(question.held.base + question.start, question.total)
        made = copy(found)
        made.report = (
            f"racecheck: write after read: {who} writes {place}, which thread {launch.index_of(reader[1])} read at ptx "
            f"line {found.line} when it was never written, with no barrier in between: {why}"
        )
        return made

    def end(self) -> None:
        """Report what is still open at the end of the launch, and delete the reference back to it.

        Without that reference, the launch is freed without a garbage collection.
        """
        if self.asked:
            self.launch.block = None
            self.look(None)
            for each in self.asked:
                if each.waits:
                    self.launch.warn_at(self.races.get(each.found.line, each.found))
            self.asked.clear()
        del self.launch


OTHERS_FIRST = LaterWrites.others_first.__code__  # a frame with this code is between those of two threads


def orders_blocks(functions: list[Prepared]) -> bool:
    """Tell whether functions contain what may order accesses of different blocks."""
    items = [item for made in functions for item in made.function.body or ()]
    return any(isinstance(item, Instruction) and _orders(item) for item in items)


def _orders(instruction: Instruction) -> bool:
    if instruction.opcode == "call":  # through a pointer: what it calls is not known
        operands: list[Any] = instruction.operands[isinstance(instruction.operands[0], Vector) :]
        return not isinstance(operands[0], Name) and not (
            isinstance(operands[0], Symbol) and isinstance(operands[0].target, Function)
        )
    return instruction.opcode in _ORDERING or not _STRONG.isdisjoint(instruction.modifiers)
