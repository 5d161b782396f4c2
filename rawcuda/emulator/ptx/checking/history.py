"""The race checker for shared and global memory: which accesses to the same place race.

What it is   `History`. It stores, for each granule of memory, the last plain store, the last strong write after it, and
             a few later reads. An access is plain, or strong: volatile, atomic, or with an order and a scope. Two
             accesses of different threads race if at least one of them writes, if at least one of them is plain (or if
             the scope of an atomic excludes the other thread), and if neither happens before the other
             (access_order.py).
Table        What is done if nothing orders an access of one thread (rows) and a later one of another (columns):

             the earlier access   plain read   strong read   plain store   strong store   atomic
             plain read           -            -             report v      suspect        suspect
             strong read          -            -             -             -              -
             plain store          report s     -             report s v    report s v f   report
             strong store         suspect s    -             report s v f  -              -
             atomic               suspect s    -             report s      -              report, if a scope excludes it

Lenient      A wrong report is worse than a missed race. So:
             - a strong read needs no fence after it, and a failed compare-and-swap is a strong read;
             - a strong read does not race with a plain store, because it may wait for a flag that the store sets;
             - a suspect is a plain read beside strong writes. It is reported when the launch has ended, unless a thread
               follows the same read with a strong write or a failed compare-and-swap at the same place: then the read
               only avoids unnecessary writes;
             - s: not reported if the later thread has seen the earlier access, by an atomic or a strong read at the
               place whose result it uses. So the last of several blocks may set their counter to 0 again;
             - v: a store of the value that is already there causes at most a warning;
             - f: a plain store after a fence of its thread sets a flag, so it counts as strong beside strong stores;
             - a plain store by the thread that took a lock there, by compare-and-swap, exchange, or an atomic `or` of a
               0, releases the lock, so it is a strong store.
             Instructions whose effect is not modelled count as a barrier of the block.
Strict       Volatile accesses of a warp to shared memory need __syncwarp() between them: see `_in_step`.
What not     a proof: a granule remembers a few of its readers, and a run shows the races of one order of the threads.
Source       PTX ISA, "Memory Consistency Model"; C. Flanagan, S. Freund, "FastTrack" (2009)
Read next    ../running/scheduler.py, which reports the threads that have met at a barrier
"""

from __future__ import annotations

import sys

from ...machine.codes import LAUNCH_FAILED
from ...machine.space import Fault
from ..translating.unit import CLUSTER_BITS, SHARED_WINDOW
from .access_order import SCOPES, THREADS, Access, Order, known_time
from .places import barrier_missing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any

    from ..running.lookups import Block, Launch
    from .access_order import Line, Released

__all__ = ["Found", "History", "no_proxy_fence"]

_MOST_READERS = 4
_MOST_SUSPECTS = 256
_WINDOW = 3 << 40  # generic addresses that are not global
_MANY = 8  # places in shared memory
_PLAIN, _STRONG, _ATOMIC = 0, 1, 2
_VOLATILE = 2  # the strength of an access: 0 weak, 1 relaxed or stronger, 2 volatile


class Found(Fault):
    """A fault that knows its place in the code, because its thread may have left that place."""

    line, block, thread = 0, 0, 0
    callers: tuple[int, ...] = ()  # lines of the generated code
    frames: list[tuple[FrameType, int]] = []


class _Cell:
    """A granule: its last plain store, the last strong write after it, and a few later reads.

    before  the last strong write of another thread than the last one, if that has not seen it
    owner   the thread that took a lock there, or -1
    looked  the last plain reads beside strong writes: thread -> (line, time)
    """

    __slots__ = ("store", "strong", "before", "reads", "owner", "released", "looked")

    def __init__(self) -> None:
        self.store: Access | None = None
        self.strong: Access | None = None
        self.before: Access | None = None
        self.reads: list[Access] = []
        self.owner = -1
        self.released: Released | None = None
        self.looked: dict[int, tuple[Line, int]] | None = None


class History(Order):
    """The accesses of one launch.

    shape   granule: bytes

    Why long  each kind of access is compared with all others, and changes the same cells
    """

    def __init__(self, launch: Launch, granule: int) -> None:
        super().__init__(launch)
        self.granule = granule
        self.cells: dict[int, _Cell] = {}
        self.shared_cells: dict[int, dict[int, _Cell]] = {}  # by block
        self.suspects: dict[tuple[Line, _Cell], Found] = {}  # by the plain read: its line, and its granule
        self.guards: set[Line | _Cell] = set()  # lines and granules of plain reads that a strong write follows there
        self.watched: dict[tuple[Line, Line], set[int]] = {}  # granules, by the lines of volatile accesses in a warp
        self.proxied: dict[int, int] = {}  # when a block's threads last executed fence.proxy.async

    def fence_proxy(self, block: Block) -> None:
        """Record a fence.proxy.async of a thread of a block."""
        self.time += 1
        self.proxied[block.number] = self.time

    def check_proxy(self, block: Block, place: int, count: int) -> None:
        """Check that a fence.proxy.async follows the plain writes to shared memory that a bulk copy reads.

        raises  Fault   there is no such fence (719)
        """
        since, cells = self.proxied.get(block.number, 0), self.shared_cells.get(block.number, {})
        for q in range(place // self.granule, (place + count - 1) // self.granule + 1):
            if q in cells:
                write = cells[q].strong or cells[q].store
            else:
                write = None
            if write is not None and write.time >= since:
                who = self.launch.index_of(block.running or 0), self.launch.index_of(write.who % THREADS)
                raise no_proxy_fence(f"shared address {q * self.granule:#x}", *who, _words(write.line))

    # -- accesses

    def _places(self, address: int, total: int) -> tuple[dict[int, _Cell], range] | None:
        """Return the dictionary and the numbers of an access's granules, or None for memory of the thread alone."""
        place = address - SHARED_WINDOW
        cells = self.cells
        if 0 <= place < _WINDOW:
            if place >= 1 << 40:
                return None
            block: Any = self.launch.block
            rank, place = place >> CLUSTER_BITS, place & (1 << CLUSTER_BITS) - 1
            if rank:
                others = block.mates.blocks
                if rank > len(others):
                    return None
                block = others[rank - 1]
            number = block.number
            found = self.shared_cells.get(number)
            cells = self.shared_cells[number] = {} if found is None else found
            address = place
        return cells, range(address // self.granule, (address + total - 1) // self.granule + 1)

    def read(self, address: int, total: int, line: Line, strong: int) -> None:
        """Check and record a load, before it happens.

        raises  Fault   an unordered write by another thread (719)
        """
        places = self._places(address & 0xFFFFFFFFFFFFFFFF, total)
        if places is None:
            return
        who, cells = self.running(), places[0]
        for q in places[1]:
            cell = cells.get(q)
            if cell is None:
                cell = cells[q] = _Cell()
            last = cell.strong
            if strong:
                if strong == _VOLATILE and last is not None and last.kind == _STRONG and cells is not self.cells:
                    self._in_step(last, "reads", "wrote", who, line, q, cells)
                if cell.released:
                    self.acquire(cell.released, who)
            else:
                store = cell.store
                if store is not None and store.who != who and not self.ordered(store, who) and not _saw(cell, who):
                    raise self._race("read after write", "reads", who, line, q, cells, "wrote", store)
                if last is not None:
                    if cell.looked is None:
                        cell.looked = {}
                    cell.looked[who] = line, self.time
                    if last.who != who and not self.ordered(last, who) and not _saw(cell, who):
                        self._suspect("reads", cell, line, who, q, cells, last)
            self._remember(cell, who, line, _STRONG if strong else _PLAIN)

    def _remember(self, cell: _Cell, who: int, line: Line, kind: int) -> None:
        """Record a read. It replaces an earlier read that happens before it, but a strong one replaces no plain one."""
        reads = cell.reads
        for at, old in enumerate(reads):
            if (old.who == who or self.ordered(old, who)) and (kind == _PLAIN or old.kind == _STRONG):
                reads[at] = Access(self.time, who, line, kind, 3)
                return
        if len(reads) < _MOST_READERS:
            reads.append(Access(self.time, who, line, kind, 3))
        elif kind == _PLAIN or reads[-1].kind == _STRONG:
            reads[-1] = Access(self.time, who, line, kind, 3)

    def write(
        self, address: int, total: int, line: Line, strong: int, releases: str, view: Any, index: int, values: Any
    ) -> None:
        """Check and record a store, before it happens.

        shape   releases: the scope of a store that releases; view, index, values: where the values go, if that is known
        raises  Fault   an unordered access by another thread (719)
        """
        places = self._places(address & 0xFFFFFFFFFFFFFFFF, total)
        if places is None:
            return
        who, cells = self.running(), places[0]
        if releases:
            self.fence(releases)
        publishes = strong or who in self.fences
        if publishes:
            released = self.published(None, who)
        else:
            released = None
        for q in places[1]:
            cell = cells.get(q)
            if cell is None:
                cell = cells[q] = _Cell()
            made = Access(self.time, who, line, _STRONG if strong or cell.owner == who else _PLAIN, 3)
            if cell.store is not None or cell.strong is not None or cell.reads:
                self._check_store(cell, made, q, cells, view, index, values)
            if made.kind == _PLAIN:
                cell.store, cell.strong, cell.before = made, None, None
                cell.reads.clear()
            else:
                if cell.reads or cell.looked:
                    self._guard(cell, who)
                    self._check_reads(cell, made, q, cells, "writes", strong == _VOLATILE)
                cell.strong = made
            if publishes:
                cell.released = released
            cell.owner = -1

    def _check_store(self, cell: _Cell, made: Access, q: int, cells: Any, view: Any, index: int, values: Any) -> None:
        """Look for races of a store with earlier writes, and of a plain store with earlier plain reads."""
        who, line, store, last, plain = made.who, made.line, cell.store, cell.strong, made.kind == _PLAIN
        if store is not None and store.who != who and not self.ordered(store, who) and not _saw(cell, who):
            if _same(view, index, values):
                self._warn(
                    self._race("write after write", "writes the same value to", who, line, q, cells, "wrote", store)
                )
                return
            if plain or cell.released is None or store.who not in cell.released.writers:
                raise self._race("write after write", "writes", who, line, q, cells, "wrote", store)
        if not plain:
            return
        if last is not None and last.who == who:
            last = cell.before
        if last is not None and not self.ordered(last, who) and not _saw(cell, who):
            if last.kind == _ATOMIC or who not in self.fences and not _same(view, index, values):
                raise self._race("write after write", "writes", who, line, q, cells, "wrote", last)
        for read in cell.reads:
            if read.who != who and read.kind != _STRONG and not self.ordered(read, who):
                if _same(view, index, values):
                    continue
                raise self._race("write after read", "writes", who, line, q, cells, "read", read)

    def _check_reads(self, cell: _Cell, made: Access, q: int, cells: Any, does: str, volatile: bool) -> None:
        """Compare a strong write with the earlier reads, and keep only the plain reads of other threads."""
        who, line = made.who, made.line
        for read in cell.reads:
            if read.kind == _STRONG:
                if volatile and cells is not self.cells:
                    self._in_step(read, "writes", "read", who, line, q, cells)
            elif not self.ordered(read, who):
                self._suspect(does, cell, line, who, q, cells, read)
        cell.reads = [read for read in cell.reads if read.kind == _PLAIN and read.who != who]

    def _guard(self, cell: _Cell, who: int) -> None:
        """Record that a strong write follows the plain reads that a thread made there since its last barrier."""
        since = known_time(self.knows(who), -2 - who // THREADS * 2)
        if cell.looked:
            looked = cell.looked.pop(who, None)
        else:
            looked = None
        if looked is not None and looked[1] > since:
            self.guards.update((looked[0], cell))
        for read in cell.reads:
            if read.who == who and read.kind == _PLAIN and read.time > since:
                self.guards.update((read.line, cell))

    def _in_step(self, other: Access, does: str, did: str, who: int, line: Line, q: int, cells: Any) -> None:
        """Look for volatile accesses without __syncwarp(), which are right only if the threads of a warp run in step.

        One such pair of accesses may be a flag. If the same two lines access many shared addresses, it is not.

        raises  Fault   the same two lines access many addresses (719)
        """
        if other.who == who or other.who >> 5 != who >> 5 or self.ordered(other, who):
            return
        if any(time >= other.time for _, time in self.fences.get(other.who, {}).values()):
            return
        places = self.watched.setdefault((other.line, line), set())
        places.add(q)
        if len(places) >= _MANY:
            if does == "reads":
                kind = "read after write"
            else:
                kind = f"write after {'read' if did == 'read' else 'write'}"
            raise self._race(kind, does, who, line, q, cells, did, other)

    def atomic(
        self, address: int, total: int, line: Line, scope: str, order: str, changes: bool, takes: bool = False,
        sees: bool = True,
    ) -> None:  # fmt: skip
        """Check and record an atomic operation, before it happens.

        shape   order: "", "acquire", "release" or "acq_rel"; changes: whether it writes (a compare-and-swap may not);
                takes: whether it may take a lock; sees: whether its thread uses the old value
        raises  Fault   an unordered plain store by another thread, or an atomic whose scope excludes it (719)
        """
        places = self._places(address & 0xFFFFFFFFFFFFFFFF, total)
        if places is None:
            return
        who, cells, level = self.running(), places[0], SCOPES[scope]
        if order in ("release", "acq_rel"):
            self.fence(scope)
        for q in places[1]:
            cell = cells.get(q)
            if cell is None:
                cell = cells[q] = _Cell()
            if cell.reads or cell.looked:
                self._guard(cell, who)
            if cell.released:
                self.acquire(cell.released, who)
            if not changes:
                self._remember(cell, who, line, _STRONG)
                continue
            store, last = cell.store, cell.strong
            if store is not None and store.who != who and not self.ordered(store, who):
                raise self._race("write after write", "atomically changes", who, line, q, cells, "wrote", store)
            if last is not None and last.kind == _ATOMIC and not min(level, last.scope):
                if last.who // THREADS != who // THREADS and not self.ordered(last, who):
                    raise self._race(
                        "write after write", "atomically changes", who, line, q, cells, "changed", last,
                        "the scope of one of these atomics is the block, which does not include the other thread",
                    )  # fmt: skip
            if sees:
                cell.before = None
            elif last is not None and last.who != who:
                cell.before = last
            cell.strong = made = Access(self.time, who, line, _ATOMIC, level)
            if cell.reads:
                self._check_reads(cell, made, q, cells, "atomically changes", False)
            if self.fences or self.shared:
                cell.released = self.published(cell.released, who)
            if takes:
                cell.owner = who

    # -- reports

    def _suspect(self, does: str, cell: _Cell, line: Line, who: int, q: int, cells: Any, other: Access) -> None:
        """Keep a race of a plain read until it is known whether the read only decides if a strong write is needed."""
        reads = does == "reads"
        if reads:
            key = line
        else:
            key = other.line
        if (key, cell) in self.suspects or key in self.guards or len(self.suspects) > _MOST_SUSPECTS:
            return
        if reads:
            kind, did = ("read after write", "wrote")
        else:
            kind, did = ("write after read", "read")
        self.suspects[key, cell] = self._race(kind, does, who, line, q, cells, did, other)

    def end(self) -> None:
        """Report what was kept until the end of the launch.

        raises  Fault   a race of a plain read and a strong write (719)
        """
        for (line, cell), found in self.suspects.items():
            if line not in self.guards and cell not in self.guards:
                raise found

    def leave(self, block: Block) -> None:
        """Forget the shared memory and the threads of a block that has ended."""
        self.shared_cells.pop(block.number, None)
        super().leave(block)

    def _warn(self, found: Fault) -> None:
        frame: Any = sys._getframe(1)
        while frame.f_globals is globals():  # up to the frame of the kernel
            frame = frame.f_back
        self.launch.warn(found.report, frame)

    def _race(
        self, kind: str, does: str, who: int, line: Line, q: int, cells: Any, did: str, other: Access, why: str = ""
    ) -> Found:
        launch, address = self.launch, q * self.granule
        same = who // THREADS == other.who // THREADS
        here = launch.index_of(who % THREADS)
        there = f"thread {launch.index_of(other.who % THREADS)}"
        if not same:
            there += f" of block {launch.index_of_block(other.who // THREADS)}"
        if cells is not self.cells:
            place = f"shared address {address:#x}"
        else:
            place = launch.space.explain(address, self.granule)
        warp = same and who % THREADS >> 5 == other.who % THREADS >> 5
        if not why:
            if not same:
                why = (
                    "nothing orders the two blocks: write with atomics, or publish the data with __threadfence() "
                    "before an atomic or volatile flag, or divide the work into two launches"
                )
            else:
                why = barrier_missing(warp, kind)
        if other.kind == _ATOMIC:
            there, did = f"an atomic of {there}", "changed"
        found = Found(
            LAUNCH_FAILED,
            f"racecheck: {kind}: thread {here} {does} {place}, which {there} {did} at {_words(other.line)}, with no "
            f"barrier in between: {why}",
        )
        if isinstance(line, int):
            found.line, found.callers = (line, ())
        else:
            found.line, found.callers = line
        found.block, found.thread = who // THREADS, who % THREADS
        return found


def no_proxy_fence(place: str, reader: Any, writer: Any, line: str) -> Found:
    """Return the fault of a bulk copy that may read what was in memory before a thread wrote there."""
    return Found(
        LAUNCH_FAILED,
        f"racecheck: read after write: the bulk copy of thread {reader} reads {place}, which thread {writer} wrote at "
        f"{line}, with no fence.proxy.async in between: it may read what was there before; the fence belongs between "
        "the write and the barrier before the copy",
    )


def _words(line: Line) -> str:
    """Return the text for a line; running/report.py replaces generated lines in it by PTX lines."""
    if isinstance(line, int):
        return f"ptx line {line}"
    return ", called from ".join([f"ptx line {line[0]}", *(f"generated line {each}" for each in line[1])])


def _saw(cell: _Cell, who: int) -> bool:
    """Tell whether a strong read of a thread has seen the last write."""
    return any(read.who == who and read.kind == _STRONG for read in cell.reads)


def _same(view: Any, index: int, values: Any) -> bool:
    """Tell whether a store would change nothing."""
    return view is not None and tuple(view[index : index + len(values)]) == tuple(values)
