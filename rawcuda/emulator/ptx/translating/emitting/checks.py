"""The code that notifies the checkers of an access, for unwritten memory, races and delayed stores.

Read next    ../../running/races.py, ../../checking/history.py, ../../checking/delays.py
"""

from __future__ import annotations

import re

from ....machine.space import WIDTH
from ...reading.syntax import Instruction
from .emit import Emitter, Note

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..table.forms import Shape
    from .emit import Line

__all__ = ["CheckEmitter", "lines_before_reads"]

_HIDDEN = ("local", "const", "param")  # spaces that no other thread can write
_MET = re.compile(r"(^|= |\()yield |^watch_order")  # other threads may have run after such a line


def lines_before_reads(body: list[Line]) -> set[int]:
    """Return the lines after which a thread needs new stamps for its reads of shared memory: see Watch.mine.

    After such a line (-1: the beginning of the function), other threads may have run, and this one may read before they
    run again. A read in a loop or after a jump counts as one that may follow.
    """
    loops: list[int] = []  # the indents of the loops around a line
    inside = []
    for line in body:
        while loops and loops[-1] >= line.indent:
            loops.pop()
        inside.append(loops[-1] if loops else -1)
        if line.text.startswith(("for ", "while ")):
            loops.append(line.indent)
    found: set[int] = set()
    after: list[tuple[int, bool]] = []  # for each block around a line: (indent after it, whether that reads)
    reads, indent = False, body[0].indent if body else 0
    for number in range(len(body) - 1, -1, -1):
        line = body[number]
        if line.indent > indent:  # the end of a block
            after.append((indent, reads))
            reads = reads or inside[number] >= indent
        elif line.indent < indent and after:  # the line before a block, which may not run
            reads = reads or after[-1][1]
            if after[-1][0] >= line.indent:
                after.pop()
        indent = line.indent
        if _MET.search(line.text):
            if reads:
                found.add(number)
            reads = False
        elif " not in mine" in line.text or line.text in ("continue", "break"):
            reads = True
        elif line.text.startswith("return"):
            reads = False
    if reads:
        return found | {-1}
    return found


class CheckEmitter(Emitter):
    """The emitter of calls of the checkers."""

    def strength(self, shape: Shape) -> str:
        """Return how strong an access is, and for which threads, such as "acquire.gpu"; "" if it is weak."""
        order = shape.chosen.get("sem", "weak")
        if order == "weak":
            return ""
        return f"{order}.{shape.chosen.get('scope', 'sys')}"

    def put_order(self, modelled: bool = False) -> None:
        """Write the call that tells the race checkers that threads may have synchronized.

        shape   modelled: whether the history of all memory models the effect of the instruction
        """
        if self.granule:
            self.needs_watch = True
            self.put("watch_order()")
        if self.unit.races and not modelled:
            self.needs_past = True
            self.put("past_order()")

    def put_fence(self, instruction: Instruction, shape: Shape) -> None:
        """Write the calls that tell the checkers of a fence."""
        words = set(shape.chosen.values())
        kind = instruction.opcode == "fence" and words & {"proxy", "mbarrier_init"}
        scope = next((word for word in ("cta", "cluster", "gpu", "sys") if word in words), "gpu")  # membar.gl, too
        self.put_order(True)
        if kind:
            return
        if self.unit.races:
            self.needs_past = True
            self.put(f"past_fence({scope!r})")
        if self.unit.delays and scope not in ("cta", "cluster"):
            self.needs_delays = True
            self.put("late_flush()")

    def touch(
        self,
        index: str,
        code: str,
        total: int,
        judged: bool,
        values: list[str] | None,
        watched: str | bool,
        note: Note,
        view: str = "None",
        now: bool = False,
    ) -> None:
        """Write the calls that notify the checkers of an access, which is a read if there are no values.

        shape   watched: the strength of the access, "" for a weak one; view: where the values go; now: whether a read
                of memory that was never written is reported at once
        """
        hidden = note.space in _HIDDEN
        if self.unit.races and not hidden:
            self._touch_past(index, total, values, str(watched or ""), note, view)
        if self.unit.delays and values is not None and not hidden and note.space in ("global", "generic"):
            self.needs_delays = True
            place = self._generic(note)
            if watched:
                self.put("late_flush()" if "release" in str(watched) else f"late_touch({place}, {total})")
            elif view != "None":
                store = f"late_store({place}, {total}, {view}, {index}, {total // WIDTH[code]})"
                window = self.unit.WINDOWS["shared"]
                self.put(
                    store if note.space == "global" else f"if not 0 <= {place} - {window:#x} < {3 << 40:#x}: {store}"
                )
        if not self.unit.watch or not self.marks:
            return
        width = WIDTH[code]
        if self.marks == "shared":
            self._touch_shared(index, width, code, total, judged, values, bool(watched), note)
            return
        marks = self.marks
        places = [f"{marks}[{index} + {at}]" if at else f"{marks}[{index}]" for at in range(total // width)]
        if values is not None:
            self.put(f"if {marks} is not None: {' = '.join(places)} = {int('01' * width, 16):#x}", note)
        elif judged:
            if watched and not now:
                strong = ", True"
            else:
                strong = ""
            self.put(
                f"if {marks} is not None and not ({' or '.join(places)}): L.{'unwritten' if now else 'undefined_at'}("
                f"{note.register or 0} + {note.offset}, {total}, {note.space!r}, {self.line}{strong})",
                note,
            )
        if watched:
            self.put_order(True)

    def _generic(self, note: Note) -> str:
        """Return the generic address of an access."""
        if note.offset or not note.register:
            place = f"{note.register or 0} + {note.offset}"
        else:
            place = note.register
        if note.space in ("shared", "shared::cluster"):
            return f"({place} & 0xffffffff) + {self.unit.WINDOWS['shared']:#x}"
        return place

    def _place(self) -> str:
        """Return the line of an access; in a function, also that of its call."""
        if self.function.entry:
            return str(self.line)
        return f"({self.line}, caller())"

    def _touch_past(
        self, index: str, total: int, values: list[str] | None, strength: str, note: Note, view: str
    ) -> None:
        self.needs_past = True
        order, _, scope = strength.partition(".")
        start = f"{self._generic(note)}, {total}, {self._place()}, {2 if order == 'volatile' else int(bool(strength))}"
        if values is None:
            self.put(f"past_read({start})", note)
        else:
            if order == "release":
                releases = scope
            else:
                releases = ""
            if values and view != "None":
                given = f"({', '.join(values)},)"
            else:
                given = "None"
            self.put(f"past_write({start}, {releases!r}, {view if given != 'None' else None}, {index}, {given})", note)

    def _touch_shared(
        self,
        index: str,
        width: int,
        code: str,
        total: int,
        judged: bool,
        values: list[str] | None,
        watched: bool,
        note: Note,
    ) -> None:
        granule = self.granule
        if not granule:
            return
        self.needs_watch = True
        if width == granule:
            start = index
        else:
            start = f"({index}) * {width // granule}"
        count = total // granule
        if watched or self.unit.races:
            if values is not None:
                self.put(f"watch_mark({start}, {count})", note)
            elif watched and judged and not self.order.startswith("volatile"):
                self.put(f"watch_want({start}, {count}, {self.line})", note)
            elif (judged or self.unit.copies) and not watched:
                self.put(f"watch_read({start}, {count}, {judged}, {self.line})", note)
            if watched:
                self.put_order(True)
        elif values is None and count == 1 and not self.tracking:
            self.needs_mine = True
            self.put(f"if watch_reads[{start}] not in mine: watch_read_one({start}, {judged}, {self.line})", note)
        elif values is None:
            self.put(f"watch_read({start}, {count}, {judged}, {self.line})", note)
        else:
            given = "".join(f", {value}" for value in values)
            if count == len(values) == 1:
                self.put(f"watch_write_one({start}, {self.line}, {code!r}{given})", note)
            else:
                self.put(f"watch_write({start}, {count}, {self.line}{f', {code!r}{given}' if values else ''})", note)

    def touch_atomic(
        self,
        space: str,
        index: str,
        code: str,
        count: int,
        replaces: bool,
        note: Note,
        strength: str = "",
        changes: str = "True",
        takes: str = "",
        sees: bool = True,
    ) -> None:
        """Write the calls that notify the checkers of an atomic, which reads the old value unless it replaces it.

        shape   strength: its order and its scope; changes: whether it writes, as an expression; takes: whether it may
                take a lock, as an expression; sees: whether the thread uses the old value
        """
        total = WIDTH[code] * count
        order, _, scope = strength.partition(".")
        if self.unit.races:
            self.needs_past = True
            start = f"{self._generic(note)}, {total}, {self._place()}"
            more = (f", {takes}" if takes else "") + ("" if sees else ", sees=False")
            self.put(f"past_atomic({start}, {scope or 'gpu'!r}, {order!r}, {changes}{more})", note)
        if self.unit.delays and space != "shared":
            self.needs_delays = True
            place = self._generic(note)
            self.put("late_flush()" if order in ("release", "acq_rel") else f"late_touch({place}, {total})")
        if not self.unit.watch or not self.marks:
            return
        if self.marks == "shared":
            if self.granule:
                self.needs_watch = True
                factor = WIDTH[code] // self.granule
                call = f"{index} * {factor}, {count * factor}"
                self.put(f"watch_mark({call})" if replaces else f"watch_update({call}, {self.line})", note)
            return
        saved, self.unit.races = self.unit.races, False  # the history already has a record of the atomic itself
        delays, self.unit.delays = self.unit.delays, False
        if not replaces:
            self.touch(index, code, total, True, None, "", note, now=True)
        self.touch(index, code, total, False, ["0"], "", note)
        self.unit.races, self.unit.delays = saved, delays
