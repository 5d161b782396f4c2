"""What the threads of a block did to its shared memory since they last waited for each other.

Each granule of shared memory remembers who wrote it last and who read it since, as one number: a clock, and a thread, or
that there were several. Whatever orders threads moves the clock on: a barrier that of the block, a warp operation that of
the warp. What could order them in ways not followed here (fences, locks, flags that are watched) counts as a barrier:
a race may go unseen, but what is reported is one. Atomic and volatile accesses are never part of a race.

Two threads that write the same value are not refused, only reported: programs do that on purpose.

source       compute-sanitizer, "Racecheck Tool", "Initcheck Tool"; PTX ISA, "Memory Consistency Model"
Read next    scheduler.py, which tells this when threads have met
"""

from __future__ import annotations

import sys

from ...space import Fault

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from .machine import Block

__all__ = ["Watch"]

LAUNCH_FAILED = 719  # CUDA_ERROR_LAUNCH_FAILED: the driver has no code of its own for these
_TICK = 2048  # the clock counts above the threads
_SEVERAL_OF = 1025  # + warp: several threads of one warp
_MANY = 2047  # threads of several warps


class Watch:
    """The history of one block's shared memory, in granules of some bytes."""

    def __init__(self, block: Block, granule: int) -> None:
        launch = block.launch
        count = -(-launch.shared_bytes // granule)
        self.block, self.granule = block, granule
        self.writes, self.reads = [0] * count, [0] * count
        self.write_lines, self.read_lines = [0] * count, [0] * count
        self.clock = self.since = _TICK
        self.warps = [_TICK] * launch.warps
        self.read_one, self.write_one, self.mine = self._short_ways()

    def order(self) -> None:
        """Note that the threads of the block have met, or may have."""
        self.clock += _TICK
        self.since = self.clock
        self._tell(self.clock, self.clock)

    def order_warp(self, warp: int) -> None:
        """Note that threads of a warp have met."""
        self.clock += _TICK
        self.warps[warp] = self.clock
        self._tell(self.clock, self.since)

    def _short_ways(self) -> tuple[Callable[..., None], Callable[..., None], Callable[[], tuple[int, int, int]]]:
        """Make what notes a read and a write of one granule, and what tells which notes a read need not add to."""
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
                reads[at] = mine if had < since else together(had, thread, mine)  # type: ignore[arg-type]
                read_lines[at] = line
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
        """Note a read of some granules, before it is done.

        What `mine` names stands for reads by this thread, by its warp or by several, and for writes that they may see:
        so what is not yet written, or was written just now by the reader, gets no such note.

        raises  Fault   another thread wrote there unordered, or nobody ever did (719)
        """
        thread: Any = self.block.running
        mine = self.clock + thread + 1
        unwritten = 0
        for q in range(at, at + count):
            wrote, had = self.writes[q], self.reads[q]
            if wrote >= self.since and wrote != mine and self._meets(wrote, thread):
                raise self._race("reads", q, thread, "wrote", wrote, self.write_lines[q])
            if not wrote:
                unwritten += 1
            elif wrote != mine and had != mine:
                self.reads[q] = mine if had < self.since else self._together(had, thread, mine)
                self.read_lines[q] = line
        if judged and unwritten == count:
            raise Fault(LAUNCH_FAILED, f"{self._place(at)} was never written: it holds whatever was there before")

    def write(self, at: int, count: int, line: int, code: str = "", *values: Any) -> None:
        """Note a write of some granules, before it is done.

        raises  Fault   another thread wrote or read there unordered (719)
        """
        thread: Any = self.block.running
        mine = self.clock + thread + 1
        since, writes, reads = self.since, self.writes, self.reads
        for q in range(at, at + count):
            wrote, read = writes[q], reads[q]
            if wrote >= since and wrote != mine and self._meets(wrote, thread):
                self._conflict("wrote", q, at, thread, wrote, self.write_lines[q], code, values)
            if read >= since and read != mine and self._meets(read, thread):
                self._conflict("read", q, at, thread, read, self.read_lines[q], code, values)
            writes[q], reads[q] = mine, 0
            self.write_lines[q] = line

    def mark(self, at: int, count: int) -> None:
        """Note that something was written that takes part in no race."""
        for q in range(at, at + count):
            self.writes[q] = self.writes[q] or 1

    def _meets(self, stamp: int, thread: int) -> bool:
        """Tell whether what a stamp stands for is another thread's, and not ordered before this one's."""
        who, warp = stamp % _TICK, thread >> 5
        if who == _MANY:
            return True
        if who >= _SEVERAL_OF:
            return who - _SEVERAL_OF != warp or stamp >= self.warps[warp]
        return who - 1 != thread and (who - 1 >> 5 != warp or stamp >= self.warps[warp])

    def _together(self, had: int, thread: int, mine: int) -> int:
        who, warp = had % _TICK, thread >> 5
        other = -1 if who == _MANY else who - _SEVERAL_OF if who >= _SEVERAL_OF else who - 1 >> 5
        if other != warp:
            return self.clock + _MANY
        if who - 1 == thread or had < self.warps[warp]:
            return mine
        return self.clock + _SEVERAL_OF + warp

    def _conflict(self, verb: str, q: int, at: int, thread: int, stamp: int, line: int, code: str, values: Any) -> None:
        if not code:
            return  # a generic access: what it writes is not known here
        view = self.block.shared_view(code)
        start = at * self.granule // view.itemsize
        if tuple(view[start : start + len(values)]) != values:
            raise self._race("writes", q, thread, verb, stamp, line)
        frame: Any = sys._getframe(1)
        while frame.f_globals is globals():  # up to the kernel
            frame = frame.f_back
        self.block.launch.warn(self._race("writes the same value again to", q, thread, verb, stamp, line).report, frame)

    def _place(self, q: int) -> str:
        return f"shared address {q * self.granule:#x}"

    def _race(self, does: str, q: int, thread: int, did: str, stamp: int, line: int) -> Fault:
        who, launch = stamp % _TICK, self.block.launch
        other = (
            "other threads" if who == _MANY else f"threads of warp {who - _SEVERAL_OF}" if who >= _SEVERAL_OF
            else f"thread {launch.index_of(who - 1)}"
        )  # fmt: skip
        return Fault(
            LAUNCH_FAILED,
            f"race: thread {launch.index_of(thread)} {does} {self._place(q)}, which {other} {did} at ptx line {line}, "
            "and no barrier lies between",
        )
