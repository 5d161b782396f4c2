"""The race checker: accesses to shared memory since the threads of a block last synchronized.

Each granule of shared memory stores its last writer and the readers since, each as one number: a clock value and a
thread, or a mark for several threads. Synchronization advances a clock: a barrier advances that of the block, and a
warp operation that of the warp. Operations that may synchronize in ways that are not tracked (fences, locks, polled
flags) count as barriers, so the checker may miss a race, but every race that it reports is real. Atomic and volatile
accesses never take part in a race.

If two threads write the same value, this is reported but is no error, because programs do that on purpose.

An asynchronous copy counts as writing its target from its start until a thread has waited for it. If a copy has arrived
on an mbarrier, a thread may read the target only after it has waited for anything since then. Bulk copies read what
threads wrote before a fence.proxy.async of any thread.

Source       compute-sanitizer, "Racecheck Tool", "Initcheck Tool"; PTX ISA, "Memory Consistency Model"
Read next    scheduler.py, which calls `order` and `order_warp`
"""

from __future__ import annotations

import sys

from ...machine.codes import LAUNCH_FAILED
from ...machine.space import Fault
from ..checking.history import Found, no_proxy_fence
from ..checking.places import barrier_missing
from .undefined import Mark

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from .lookups import Block

__all__ = ["Unwritten", "Watch"]

_TICK = 2048  # one step of the clock; the lower bits are the thread
_SEVERAL_OF = 1025  # + warp: several threads of one warp
_MANY = 2047  # threads of several warps
_MOST_PENDING = 16
_OF_ANOTHER_BLOCK = -1
_NOBODY = 0, 0
_FEW = 16  # granules; for so few, a loop is faster than slices of lists
_COPIED = 1 << 62  # in place of the reads of a granule that a copy will write or read: writes then use no fast function


class Unwritten(Found):
    """A read of shared memory that was never written; a race, if another thread of the block is about to write it."""

    def __init__(self, text: str, line: int, block: Block, watch: Watch) -> None:
        super().__init__(LAUNCH_FAILED, f"initcheck: {text}")
        self.line, self.block, self.thread, self.watch = line, block.number, block.running or 0, watch


class Watch:
    """The history of one block's shared memory, in granules of a fixed size.

    arriving  copies that nobody has waited for: (first granule, number of granules) of the target -> (thread, line)
    leaving   granule of a bulk copy's source -> (thread, line)
    copies    the lines of all copies
    *_lines   the line of the last write, and the one at which all threads of the reads' number read; 0: several lines
    arrived   granule of a copy that arrived on an mbarrier -> (number of the arrival, (thread, line) of the start)
    shown     the number of the last arrival
    seen      the last arrival that a thread can know of
    proxied   the clock at the last fence.proxy.async
    Why long  reads, writes, copies and barriers all change the same history
    """

    # Until a copy is started, see _begin_copies():
    arriving: dict[tuple[int, int], tuple[int, int]] = {}
    leaving: dict[int, tuple[int, int]] = {}
    copies: set[int] = set()
    arrived: dict[int, tuple[int, tuple[int, int]]] = {}
    seen: dict[int, int] = {}
    shown, proxied = 0, _TICK

    def __init__(self, block: Block, granule: int) -> None:
        launch = block.launch
        count = -(-launch.shared_end // granule)
        self.block, self.granule, self.copying = block, granule, False
        self.writes, self.reads = [0] * count, [0] * count
        if launch.reserved_at < launch.shared_end:  # the system has written it
            own = launch.reserved_at // granule
            self.writes[own:] = [1] * (count - own)
        self.write_lines, self.read_lines = [0] * count, [0] * count
        self.clock = self.since = _TICK
        self.pending: list[Unwritten] = []  # reported if no thread writes there before the next barrier
        self.warps = [_TICK] * launch.warps
        self.read_one, self.write_one, self.mine = self._short_ways()

    def end(self) -> None:
        """Delete the references back to this object, so that it is freed without a garbage collection."""
        del self.read_one, self.write_one, self.mine, self._tell

    def _begin_copies(self) -> None:
        self.copying, self.copies = True, set()
        self.arriving, self.leaving, self.arrived, self.seen = {}, {}, {}, {}

    def order(self) -> None:
        """Record that the threads of the block have synchronized, or may have."""
        self.clock += _TICK
        self.since = self.clock
        if self.pending:
            for found in self.pending:
                self.block.launch.warn_at(found)
            self.pending.clear()
        if self.copying and self.arrived:
            self.notice(self.block.running)
        self._tell(self.clock, self.clock)

    def order_warp(self, warp: int) -> None:
        """Record that threads of a warp have synchronized."""
        self.clock += _TICK
        self.warps[warp] = self.clock
        if self.copying and self.arrived:
            for thread in range(32 * warp, 32 * warp + 32):
                self.notice(thread)
        self._tell(self.clock, self.since)

    def _short_ways(self) -> tuple[Callable[..., None], Callable[..., None], Callable[[], tuple[int, int, int]]]:
        """Return three fast functions: record a read, record a write, and return the stamps that need no new record."""
        block, writes, reads, read_lines, write_lines = (
            self.block,
            self.writes,
            self.reads,
            self.read_lines,
            self.write_lines,
        )
        read, write, together = self.read, self.write, self._together
        clock = since = _TICK

        def read_one(at: int, judged: bool, line: int) -> None:
            if 0 < writes[at] < since:
                had, thread = reads[at], block.running
                mine = clock + thread + 1  # type: ignore[operator]
                if had < since:
                    reads[at], read_lines[at] = mine, line
                else:
                    made = reads[at] = together(had, thread, mine)  # type: ignore[arg-type]
                    if made == mine or read_lines[at] == line:
                        read_lines[at] = line
                    else:
                        read_lines[at] = 0
            else:
                read(at, 1, judged, line)

        def write_one(at: int, line: int, code: str, value: Any) -> None:
            if writes[at] < since and reads[at] < since:
                writes[at] = clock + block.running + 1  # type: ignore[operator]
                write_lines[at] = line
            else:
                write(at, 1, line, code, value)

        def mine() -> tuple[int, int, int]:
            thread: Any = block.running
            return clock + _SEVERAL_OF + (thread >> 5), clock + _MANY, clock + thread + 1

        def tell(now: int, met: int) -> None:
            nonlocal clock, since
            clock, since = now, met

        self._tell = tell
        return read_one, write_one, mine

    def read(self, at: int, count: int, judged: bool, line: int) -> None:
        """Check and record a read of granules, before it happens.

        A stamp of `mine` means that this thread, its warp or several warps have read a granule that was written
        earlier. So a granule that was never written, or that the reader has just written, gets no such stamp.

        raises  Fault   an unordered write by another thread (719)
                Undefined   no granule was written
        """
        thread: Any = self.block.running
        clock, had = self.clock, self.reads[at]
        mine = clock + thread + 1
        if judged and not self.writes[at] and not self._written(at, count):
            self._undefined(at, line)  # nothing was recorded: the thread reads again if this raises
        if had >= clock and had in (mine, clock + _MANY, clock + _SEVERAL_OF + (thread >> 5)):
            if self.reads[at : at + count].count(had) == count:  # nothing new
                return
        unwritten, since, writes, reads, lines = False, self.since, self.writes, self.reads, self.read_lines
        for q in range(at, at + count):
            wrote, had = writes[q], reads[q]
            if wrote >= since and wrote != mine and self._meets(wrote, thread):
                raise self._race("reads", q, thread, "wrote", wrote, self.write_lines[q])
            if not wrote:
                unwritten = True
            if wrote != mine and had != mine:
                made = reads[q] = mine if had < since else self._together(had, thread, mine)
                if made == mine or lines[q] == line:
                    lines[q] = line
                else:
                    lines[q] = 0
        if unwritten and (self.arriving or self.arrived):
            for q in range(at, at + count):
                if self.reads[q] == _COPIED and self._arrival(q):
                    raise self._too_early("reads", q, thread)
                if not self.writes[q] and q in self.arrived:
                    if self.seen.get(thread, 0) < self.arrived[q][0]:
                        raise self._not_seen(q, thread)

    def want(self, at: int, count: int, line: int) -> None:
        """Check that at least one of the granules was written, for a strong load.

        raises  Undefined   none was written
        """
        if not self._written(at, count):
            self._undefined(at, line)

    def need(self, at: int, count: int, line: int) -> None:
        """Check that at least one of the granules was written, for a read that takes part in no race.

        raises  Fault   none was written, and the emulator is strict (719)
        """
        if not self._written(at, count):
            self.report(self._unwritten(at, line))

    def _written(self, at: int, count: int) -> bool:
        return any(self.writes[q] or q in self.arrived or self.reads[q] == _COPIED for q in range(at, at + count))

    def update(self, at: int, count: int, line: int) -> None:
        """Check and record an access that reads granules and then writes them, and takes part in no race.

        raises  Fault   none was written before, and the emulator is strict (719)
        """
        if self.copying or count > 1 or not self.writes[at]:
            self.need(at, count, line)
            self.mark(at, count)

    def _unwritten(self, at: int, line: int) -> Unwritten:
        text = f"{self._place(at)} was never written: its content is undefined"
        return Unwritten(text, line, self.block.launch.block or self.block, self)

    def _undefined(self, at: int, line: int) -> None:
        """Tell the running thread that what it reads is undefined.

        raises  Undefined   unless the function tracks undefined values
        """
        if self.block.launch.tracks(line):
            self.block.launch.mark = Mark(self._unwritten(at, line), False)

    def report(self, found: Unwritten) -> None:
        """Report a read when the threads have met, or raise it if the emulator is strict.

        raises  Unwritten   strict (719)
        """
        if self.block.launch.space.strict:
            raise found
        self.pending.append(found)
        del self.pending[_MOST_PENDING:]

    def write(self, at: int, count: int, line: int, code: str = "", *values: Any) -> None:
        """Check and record a write of granules, before it happens.

        raises  Fault   an unordered access by another thread (719)
        """
        thread: Any = self.block.running
        mine = self.clock + thread + 1
        since, writes, reads = self.since, self.writes, self.reads
        for q in range(at, at + count):
            wrote, read = writes[q], reads[q]
            if wrote >= since and wrote != mine and self._meets(wrote, thread):
                self._conflict("wrote", q, at, thread, wrote, self.write_lines[q], code, values)
            if read >= since and read != mine:
                if read == _COPIED:
                    raise self._too_early("writes", q, thread)
                if self._meets(read, thread):
                    self._conflict("read", q, at, thread, read, self.read_lines[q], code, values)
            writes[q], reads[q] = mine, 0
            self.write_lines[q] = line

    # -- asynchronous copies

    def unwrite(self, at: int, count: int, line: int, own: bool) -> None:
        """Record that the content is undefined until an asynchronous copy arrives; `own`: of the running thread.

        raises  Fault   an unordered access by another thread (719)
        """
        if not self.copying:
            self._begin_copies()
        since, end, writes, reads = self.since, at + count, self.writes, self.reads
        if count <= _FEW:
            for q in range(at, end):
                if own and (writes[q] >= since or reads[q] >= since):
                    self._may_start(q)
                writes[q], reads[q] = 0, _COPIED
        else:
            if own and (max(writes[at:end]) >= since or max(reads[at:end]) >= since):
                for q in range(at, end):
                    self._may_start(q)
            writes[at:end], reads[at:end] = [0] * count, [_COPIED] * count
        self.copies.add(line)
        self.arriving[at, count] = self.block.running or 0 if own else _OF_ANOTHER_BLOCK, line

    def _may_start(self, q: int) -> None:
        """Check that the target of a copy of the running thread is not in use."""
        thread: Any = self.block.running
        wrote, read, line = self.writes[q], self.reads[q], self.write_lines[q]
        mine, copies = self.clock + (thread or 0) + 1, "starts an asynchronous copy to"
        if self.since <= read != mine and read != _COPIED and self._meets(read, thread):
            raise self._race(copies, q, thread, "read", read, self.read_lines[q])
        if self.since <= wrote != mine and line not in self.copies and self._meets(wrote, thread):
            raise self._race(copies, q, thread, "wrote", wrote, line)

    def _started(self, thread: int, line: int) -> str:
        starter = "of another block" if thread == _OF_ANOTHER_BLOCK else self.block.launch.index_of(thread)
        return f"started by thread {starter} at ptx line {line}"

    def arrive(self, at: int, count: int, line: int) -> None:
        """Record the end of a copy: a write by the thread that waited for it, or an arrival on an mbarrier (line 0)."""
        if not self.copying:
            self._begin_copies()
        end, writes, reads = at + count, self.writes, self.reads
        started = self.arriving.pop((at, count), _NOBODY)
        if line and count <= _FEW:
            mine, lines = self.clock + (self.block.running or 0) + 1, self.write_lines
            for q in range(at, end):
                reads[q] = 0
                if writes[q]:
                    self.write(q, 1, line)
                else:
                    writes[q], lines[q] = mine, line
            return
        reads[at:end] = [0] * count
        if not line:
            self.shown += 1
            writes[at:end] = [0] * count
            self.arrived.update(dict.fromkeys(range(at, end), (self.shown, started)))
        elif any(writes[at:end]):
            self.write(at, count, line)
        else:
            writes[at:end] = [self.clock + (self.block.running or 0) + 1] * count
            self.write_lines[at:end] = [line] * count

    def _arrival(self, q: int) -> tuple[int, int] | None:
        """Return the thread and the line that started a copy to a granule for which nobody has waited, or None."""
        for (at, count), started in self.arriving.items():
            if at <= q < at + count:
                return started
        return None

    def leave(self, at: int, count: int, line: int) -> None:
        """Record that a bulk copy reads granules until the wait for it.

        raises  Fault   no fence.proxy.async follows the writes of threads to the granules (719)
        """
        if not self.copying:
            self._begin_copies()
        index_of, started = self.block.launch.index_of, (self.block.running or 0, line)
        for q in range(at, at + count):
            if self.writes[q] >= self.proxied and self.write_lines[q] not in self.copies:
                who = index_of(self.block.running or 0), index_of(self.writes[q] % _TICK - 1)
                raise no_proxy_fence(self._place(q), *who, f"ptx line {self.write_lines[q]}")
            self.reads[q], self.leaving[q] = _COPIED, started

    def left(self, at: int, count: int) -> None:
        """Record the end of a bulk copy that has read granules."""
        for q in range(at, at + count):
            if self.leaving.pop(q, None) is not None and not self._arrival(q):
                self.reads[q] = 0

    def notice(self, thread: int | None) -> None:
        """Record that a thread may know what has arrived on mbarriers, because it has waited for something."""
        if thread is not None and self.copying:
            self.seen[thread] = self.shown

    def notice_all(self) -> None:
        """Record that all threads know what has arrived on mbarriers."""
        if self.copying and self.arrived:
            for q in self.arrived:
                self.writes[q] = self.writes[q] or 1
            self.arrived.clear()

    def _too_early(self, does: str, q: int, thread: int) -> Found:
        arrives = self._arrival(q)
        started = arrives or self.leaving.get(q, _NOBODY)
        return Found(
            LAUNCH_FAILED,
            f"racecheck: {does[:-1]} before the end of a copy: thread {self.block.launch.index_of(thread)} {does} "
            f"{self._place(q)}, which is the {'target' if arrives else 'source'} of an asynchronous copy, "
            f"{self._started(*started)}, that nobody has waited for",
        )

    def _not_seen(self, q: int, thread: int) -> Found:
        return Found(
            LAUNCH_FAILED,
            f"racecheck: read before the end of a copy: thread {self.block.launch.index_of(thread)} reads "
            f"{self._place(q)}, which is the target of an asynchronous copy, {self._started(*self.arrived[q][1])}; "
            "another thread has waited for the copy, and this one has not: a wait for the mbarrier or a barrier is "
            "missing between them, __syncthreads()",
        )

    def mark(self, at: int, count: int) -> None:
        """Record a write that takes part in no race."""
        if self.copying:
            if self.arrived:
                self.notice(self.block.running)
            for q in range(at, at + count):
                if self.reads[q] == _COPIED:
                    raise self._too_early("writes", q, self.block.running or 0)
        writes = self.writes
        for q in range(at, at + count):
            if not writes[q]:
                writes[q] = 1

    def _meets(self, stamp: int, thread: int) -> bool:
        """Tell whether a stamp belongs to another thread, and is not ordered before this one's access."""
        who, warp = stamp % _TICK, thread >> 5
        if who == _MANY:
            return True
        if who >= _SEVERAL_OF:
            return who - _SEVERAL_OF != warp or stamp >= self.warps[warp]
        return who - 1 != thread and (who - 1 >> 5 != warp or stamp >= self.warps[warp])

    def _together(self, had: int, thread: int, mine: int) -> int:
        if had == _COPIED:
            return had
        who, warp = had % _TICK, thread >> 5
        if who == _MANY:
            other = -1
        elif who >= _SEVERAL_OF:
            other = who - _SEVERAL_OF
        else:
            other = who - 1 >> 5
        if other != warp:
            return self.clock + _MANY
        if who - 1 == thread or had < self.warps[warp]:
            return mine
        return self.clock + _SEVERAL_OF + warp

    def _conflict(self, verb: str, q: int, at: int, thread: int, stamp: int, line: int, code: str, values: Any) -> None:
        if not code:
            return  # a generic access, whose value is not known here
        view = self.block.shared_view(code)
        start = at * self.granule // view.itemsize
        if tuple(view[start : start + len(values)]) != values:
            raise self._race("writes", q, thread, verb, stamp, line)
        frame, launch = _frame_of_kernel(), self.block.launch
        if not launch.has_warned(frame):
            launch.warn(self._race("writes the same value again to", q, thread, verb, stamp, line).report, frame)

    def _place(self, q: int) -> str:
        return f"shared address {q * self.granule:#x}"

    def _race(self, does: str, q: int, thread: int, did: str, stamp: int, line: int) -> Fault:
        who, launch = stamp % _TICK, self.block.launch
        other = (
            "other threads" if who == _MANY else f"threads of warp {who - _SEVERAL_OF}" if who >= _SEVERAL_OF
            else f"thread {launch.index_of(who - 1)}"
        )  # fmt: skip
        kind = f"{'read' if does == 'reads' else 'write'} after {'read' if did == 'read' else 'write'}"
        where = (
            f" at ptx line {line}" if line else ""
        )  # 0: they read at different lines, and one of them may be ordered
        near = _SEVERAL_OF + (thread >> 5) == who or who <= 1024 and who - 1 >> 5 == thread >> 5
        return Fault(
            LAUNCH_FAILED,
            f"racecheck: {kind}: thread {launch.index_of(thread)} {does} {self._place(q)}, which {other} {did}{where}, "
            f"with no barrier in between: {barrier_missing(near, kind)}",
        )


def _frame_of_kernel() -> Any:
    frame: Any = sys._getframe(1)
    while frame.f_globals is globals():
        frame = frame.f_back
    return frame
