"""The race checker for shared and global memory: which accesses of a launch happen before which others.

What it is   `History`. It stores, for each granule of memory, the last write and a few reads since. Two accesses of
             different threads race if at least one of them writes, if not both are strong (atomic or volatile), and if
             neither happens before the other.
How          The threads of a launch run one after another, so one number that grows with each synchronization is the
             time of every access. A thread knows of other threads' accesses up to a time: its knowledge is a dictionary
             from a thread, a warp or a block (as a number) to a time. A barrier merges the knowledge of the threads
             that meet. A fence makes a thread's knowledge a snapshot, and the thread's next strong write publishes the
             snapshot at its address. A strong read of that address adds what was published there.
Lenient      A report that is wrong is worse than a race that is missed. So a strong read needs no fence after it, a
             failed compare-and-swap is a read, a store by the thread whose atomic was the last at the place counts as
             strong (it releases a lock), and so does any store after a fence (it sets a flag). A plain read beside
             atomics is reported only when the launch has ended, and only if no thread follows the same read with an
             atomic at the same place: such a read only decides whether an atomic is worth its cost. Instructions whose
             effect is not modelled count as a barrier of the block.
What not     a proof: a granule remembers a few of its readers, and a run shows the races of one order of the threads.
Source       PTX ISA, "Memory Consistency Model"; C. Flanagan, S. Freund, "FastTrack" (2009)
Read next    ../running/scheduler.py, which reports the threads that have met at a barrier
"""

from __future__ import annotations

import sys

from ...space import Fault
from ..translating.unit import CLUSTER_BITS, SHARED_WINDOW

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any, Union

    from ..running.machine import Block, Launch

    Knowledge = dict[int, int]
    # a line of the PTX; in a function, also the generated lines above it
    Line = Union[int, tuple[int, tuple[int, ...]]]

__all__ = ["Found", "History", "no_proxy_fence"]

LAUNCH_FAILED = 719  # CUDA_ERROR_LAUNCH_FAILED: the driver has no code for races
_MOST_READERS = 4
_MOST_SUSPECTS = 256
_THREADS = 1024  # of a block, at most
_WINDOW = 3 << 40  # generic addresses that are not global
_MANY = 8  # places in shared memory
_PLAIN, _STRONG, _ATOMIC = 0, 1, 2
_VOLATILE = 2  # how strong an access is: 0 weak, 1 relaxed or more
_SCOPES = {"cta": 0, "cluster": 1, "gpu": 2, "sys": 3}


class Found(Fault):
    """A fault with a known place in the code, where its thread no longer runs."""

    line, block, thread = 0, 0, 0
    callers: tuple[int, ...] = ()  # lines of the generated code
    frames: list[tuple[FrameType, int]] = []


class _Access:
    """One access to a granule."""

    __slots__ = ("time", "who", "line", "kind", "scope")

    def __init__(self, time: int, who: int, line: Line, kind: int, scope: int) -> None:
        self.time, self.who, self.line, self.kind, self.scope = time, who, line, kind, scope


class _Cell:
    """A granule: its last write, and the reads since."""

    __slots__ = ("write", "reads", "released")

    def __init__(self) -> None:
        self.write: _Access | None = None
        self.reads: list[_Access] = []
        self.released: list[tuple[int, int, Knowledge]] | None = None  # (scope, block, snapshot)


class History:
    """The accesses of one launch.

    shape   granule: bytes; who: a thread of the launch, as 1024 times its block plus its number there
    """

    def __init__(self, launch: Launch, granule: int) -> None:
        self.launch, self.granule = launch, granule
        self.time = 1
        self.cells: dict[int, _Cell] = {}
        self.shared: dict[int, dict[int, _Cell]] = {}
        self.known: dict[int, Knowledge] = {}
        self.fences: dict[int, tuple[int, Knowledge]] = {}
        self.arrivals: dict[tuple[int, int], list[Knowledge]] = {}
        self.suspects: dict[tuple[Line, _Cell], Found] = {}  # by the plain read: its line, and its granule
        self.guards: set[Line | _Cell] = set()  # lines and granules of plain reads that an atomic follows there
        self.watched: dict[tuple[Line, Line], set[int]] = {}  # granules, by the lines of volatile accesses in a warp
        self.proxied: dict[int, int] = {}  # when a block's threads last executed fence.proxy.async
        self.looked: dict[tuple[int, int], tuple[Line, int]] = {}  # plain reads beside atomics: line, time

    # -- who knows what

    def _knows(self, who: int) -> Knowledge:
        return self.known.get(who) or {}

    def _ordered(self, access: _Access, who: int) -> bool:
        """Tell whether an access happens before what a thread does now."""
        other = access.who
        if other == who:
            return True
        known = self.known.get(who)
        if known is None:
            return False
        time, block = access.time, other // _THREADS
        return (
            known.get(other, 0) >= time
            or known.get(-1 - (block << 6 | other % _THREADS >> 5) * 2, 0) >= time
            or known.get(-2 - block * 2, 0) >= time
        )

    def meet(self, blocks: list[Block], members: list[int] | None, barrier: int = -1, warp: int = -1) -> None:
        """Record that threads have synchronized: all of these blocks, or members of one, perhaps a whole warp."""
        now, self.time = self.time, self.time + 1
        made: Knowledge = {}
        seen: set[int] = set()
        everyone = [
            block.number * _THREADS + t
            for block in blocks
            for t in (range(self.launch.threads) if members is None else members)
        ]
        for who in everyone:
            known = self.known.get(who)
            if known is not None and id(known) not in seen:
                seen.add(id(known))
                _merge(made, known)
        for known in self.arrivals.pop((blocks[0].number, barrier), ()):
            _merge(made, known)
        if members is None:
            for block in blocks:
                made[-2 - block.number * 2] = now
        elif warp >= 0:
            made[-1 - (blocks[0].number << 6 | warp) * 2] = now
        else:
            made.update(dict.fromkeys(everyone, now))
        for who in everyone:
            self.known[who] = made

    def arrive(self, block: Block, t: int, barrier: int) -> None:
        """Record that a thread has arrived at a barrier without waiting for it."""
        self.arrivals.setdefault((block.number, barrier), []).append(self._snapshot(block.number * _THREADS + t))

    def order(self) -> None:
        """Record an instruction whose effect on the order is not modelled: it counts as a barrier of the block."""
        block = self.launch.block
        if block is not None:
            self.meet([block], None)

    def fence(self, scope: str) -> None:
        """Record a fence of the running thread."""
        who, level = self._who(), _SCOPES[scope]
        made = self._snapshot(who)
        old = self.fences.get(who)
        if old is not None and old[0] > level:  # what the wider fence covered stays so
            return
        self.fences[who] = level, made

    def fence_proxy(self, block: Block) -> None:
        """Record a fence.proxy.async of a thread of a block."""
        self.time += 1
        self.proxied[block.number] = self.time

    def check_proxy(self, block: Block, place: int, count: int) -> None:
        """Check that such a fence follows the plain writes to shared memory that a bulk copy reads.

        raises  Fault   it does not (719)
        """
        since, cells = self.proxied.get(block.number, 0), self.shared.get(block.number, {})
        for q in range(place // self.granule, (place + count - 1) // self.granule + 1):
            write = cells[q].write if q in cells else None
            if write is not None and write.time >= since:
                who = self.launch.index_of(block.running or 0), self.launch.index_of(write.who % _THREADS)
                raise no_proxy_fence(f"shared address {q * self.granule:#x}", *who, _words(write.line))

    def _snapshot(self, who: int) -> Knowledge:
        now, self.time = self.time, self.time + 1
        made = dict(self._knows(who))
        made[who] = now
        return made

    def _who(self) -> int:
        block: Any = self.launch.block
        return block.number * _THREADS + block.running  # type: ignore[no-any-return]

    def _publish(self, cell: _Cell, who: int, replace: bool) -> None:
        fenced = self.fences.get(who)
        if replace or cell.released is None:
            cell.released = []
        if fenced is not None:
            cell.released = [entry for entry in cell.released if entry[1] != who]
            cell.released.append((fenced[0], who, fenced[1]))

    def _acquire(self, cell: _Cell, who: int) -> None:
        if not cell.released:
            return
        made: Knowledge | None = None
        for scope, other, snapshot in cell.released:
            if other != who and (scope >= 2 or other // _THREADS == who // _THREADS or scope == 1):
                if made is None:
                    made = dict(self._knows(who))
                _merge(made, snapshot)
        if made is not None:
            self.known[who] = made

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
            found = self.shared.get(number)
            cells = self.shared[number] = {} if found is None else found
            address = place
        return cells, range(address // self.granule, (address + total - 1) // self.granule + 1)

    def read(self, address: int, total: int, line: Line, strong: int) -> None:
        """Check and record a load, before it happens.

        raises  Fault   an unordered write by another thread (719)
        """
        places = self._places(address & 0xFFFFFFFFFFFFFFFF, total)
        if places is None:
            return
        who, cells = self._who(), places[0]
        for q in places[1]:
            cell = cells.get(q)
            if cell is None:
                cell = cells[q] = _Cell()
            if strong:
                write = cell.write
                if strong == _VOLATILE and write is not None and write.kind == _STRONG and cells is not self.cells:
                    self._in_step(write, "reads", "wrote", who, line, q, cells)
                self._acquire(cell, who)
            else:
                write = cell.write
                if write is not None and write.who != who and write.kind != _STRONG and not self._ordered(write, who):
                    if write.kind == _ATOMIC:
                        self._suspect(cell, line, who, q, cells, write, True)
                    else:
                        raise self._race("read after write", "reads", who, line, q, cells, "wrote", write)
                elif write is not None and write.kind == _ATOMIC:
                    self.looked[who, q] = line, self.time
            self._remember(cell, who, line, _STRONG if strong else _PLAIN)

    def _remember(self, cell: _Cell, who: int, line: Line, kind: int) -> None:
        reads = cell.reads
        for at, old in enumerate(reads):
            if old.who == who or self._ordered(old, who):
                reads[at] = _Access(self.time, who, line, kind, 3)
                return
        made = _Access(self.time, who, line, kind, 3)
        if len(reads) < _MOST_READERS:
            reads.append(made)
        else:
            reads[-1] = made

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
        who, cells = self._who(), places[0]
        if releases:
            self.fence(releases)
        kind = _STRONG if strong else _PLAIN
        for q in places[1]:
            cell = cells.get(q)
            if cell is None:
                cell = cells[q] = _Cell()
            write = cell.write
            plain = not strong and not (write is not None and write.kind == _ATOMIC and write.who == who)
            if plain:
                self._check_write(cell, who, line, q, cells, view, index, values)
            elif strong == _VOLATILE and cells is not self.cells:
                for read in cell.reads:
                    if read.kind == _STRONG:
                        self._in_step(read, "writes", "read", who, line, q, cells)
            if who in self.fences or strong:
                self._publish(cell, who, True)
            cell.write = _Access(self.time, who, line, kind if plain or strong else _STRONG, 3)
            cell.reads.clear()

    def _check_write(
        self, cell: _Cell, who: int, line: Line, q: int, cells: Any, view: Any, index: int, values: Any
    ) -> None:
        write = cell.write
        if write is not None and write.who != who and write.kind != _STRONG and not self._ordered(write, who):
            if write.kind == _PLAIN and _same(view, index, values):
                self._warn(
                    self._race("write after write", "writes the same value to", who, line, q, cells, "wrote", write)
                )
                return
            raise self._race("write after write", "writes", who, line, q, cells, _DID[write.kind], write)
        for read in cell.reads:
            if read.who != who and read.kind != _STRONG and not self._ordered(read, who):
                if _same(view, index, values):
                    continue
                raise self._race("write after read", "writes", who, line, q, cells, "read", read)

    def _in_step(self, other: _Access, does: str, did: str, who: int, line: Line, q: int, cells: Any) -> None:
        """Look for volatile accesses without __syncwarp(), which are right only if the threads of a warp run in step.

        One such pair of accesses may be a flag. If the same two lines access many shared addresses, it is not.

        raises  Fault   many (719)
        """
        if other.who == who or other.who >> 5 != who >> 5 or self._ordered(other, who):
            return
        fenced = self.fences.get(other.who)
        if fenced is not None and fenced[1].get(other.who, 0) >= other.time:
            return
        places = self.watched.setdefault((other.line, line), set())
        places.add(q)
        if len(places) >= _MANY:
            kind = "read after write" if does == "reads" else f"write after {'read' if did == 'read' else 'write'}"
            raise self._race(kind, does, who, line, q, cells, did, other)

    def atomic(self, address: int, total: int, line: Line, scope: str, order: str, changes: bool) -> None:
        """Check and record an atomic operation, before it happens.

        shape   order: "", "acquire", "release" or "acq_rel"; changes: whether it writes (a compare-and-swap may not)
        raises  Fault   an unordered plain access by another thread, or an atomic whose scope excludes it (719)
        """
        places = self._places(address & 0xFFFFFFFFFFFFFFFF, total)
        if places is None:
            return
        who, cells, level = self._who(), places[0], _SCOPES[scope]
        since = self._knows(who).get(-2 - who // _THREADS * 2, 0)  # the last barrier
        if order in ("release", "acq_rel"):
            self.fence(scope)
        for q in places[1]:
            cell = cells.get(q)
            if cell is None:
                cell = cells[q] = _Cell()
            looked = self.looked.pop((who, q), None)
            if looked is not None and looked[1] > since:
                self.guards.update((looked[0], cell))
            self._acquire(cell, who)
            if not changes:
                self._remember(cell, who, line, _STRONG)
                continue
            write = cell.write
            if write is not None and write.who != who and not self._ordered(write, who):
                if write.kind == _PLAIN:
                    raise self._race("write after write", "atomically changes", who, line, q, cells, "wrote", write)
                if write.kind == _ATOMIC and not min(level, write.scope) and write.who // _THREADS != who // _THREADS:
                    raise self._race(
                        "write after write", "atomically changes", who, line, q, cells, "changed", write,
                        "the scope of one of these atomics is the block, which does not include the other thread",
                    )  # fmt: skip
            for read in cell.reads:
                if read.who == who:
                    if read.kind == _PLAIN and read.time > since:
                        self.guards.update((read.line, cell))
                elif read.kind == _PLAIN and not self._ordered(read, who):
                    self._suspect(cell, line, who, q, cells, read, False)
            self._publish(cell, who, False)
            cell.write = _Access(self.time, who, line, _ATOMIC, level)
            cell.reads = [read for read in cell.reads if read.kind == _PLAIN and read.who != who]

    # -- reports

    def _suspect(
        self, cell: _Cell, line: Line, who: int, q: int, cells: Any, other: _Access, reads: bool
    ) -> None:  # fmt: skip
        """Keep a race between a plain read and an atomic until it is known whether the read only guards an atomic."""
        key = line if reads else other.line
        if reads:
            self.looked[who, q] = line, self.time
        if (key, cell) in self.suspects or key in self.guards or len(self.suspects) > _MOST_SUSPECTS:
            return
        self.suspects[key, cell] = (
            self._race("read after write", "reads", who, line, q, cells, "changed", other)
            if reads
            else self._race("write after read", "atomically changes", who, line, q, cells, "read", other)
        )

    def end(self) -> None:
        """Report what was kept until the end of the launch.

        raises  Fault   a race of a plain read and an atomic (719)
        """
        for (line, cell), found in self.suspects.items():
            if line not in self.guards and cell not in self.guards:
                raise found

    def leave(self, block: Block) -> None:
        """Forget the shared memory of a block that has ended."""
        self.shared.pop(block.number, None)
        first = block.number * _THREADS
        for who in range(first, first + self.launch.threads):
            self.known.pop(who, None)
            self.fences.pop(who, None)

    def _warn(self, found: Fault) -> None:
        frame: Any = sys._getframe(1)
        while frame.f_globals is globals():  # up to the frame of the kernel
            frame = frame.f_back
        self.launch.warn(found.report, frame)

    def _race(
        self, kind: str, does: str, who: int, line: Line, q: int, cells: Any, did: str, other: _Access, why: str = ""
    ) -> Found:
        launch, address = self.launch, q * self.granule
        same = who // _THREADS == other.who // _THREADS
        here = launch.index_of(who % _THREADS)
        there = f"thread {launch.index_of(other.who % _THREADS)}"
        if not same:
            there += f" of block {launch.index_of_block(other.who // _THREADS)}"
        place = (
            f"shared address {address:#x}" if cells is not self.cells else launch.space.explain(address, self.granule)
        )
        warp = same and who % _THREADS >> 5 == other.who % _THREADS >> 5
        if not why:
            if not same:
                why = (
                    "nothing orders the two blocks: write with atomics, or publish the data with __threadfence() "
                    "before an atomic or volatile flag, or divide the work into two launches"
                )
            elif warp:
                why = "a barrier is missing between them, __syncwarp() or __syncthreads()"
            else:
                why = "a barrier is missing between them, __syncthreads()"
        if other.kind == _ATOMIC:
            there, did = f"an atomic of {there}", "changed"
        found = Found(
            LAUNCH_FAILED,
            f"racecheck: {kind}: thread {here} {does} {place}, which {there} {did} at {_words(other.line)}, with no "
            f"barrier in between: {why}",
        )
        found.line, found.callers = (line, ()) if isinstance(line, int) else line
        found.block, found.thread = who // _THREADS, who % _THREADS
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
    """Return the text for a line; the report replaces the line of the generated code."""
    if isinstance(line, int):
        return f"ptx line {line}"
    return ", called from ".join([f"ptx line {line[0]}", *(f"generated line {each}" for each in line[1])])


_DID = {_PLAIN: "wrote", _ATOMIC: "changed", _STRONG: "wrote"}


def _same(view: Any, index: int, values: Any) -> bool:
    """Tell whether a store would change nothing."""
    return view is not None and tuple(view[index : index + len(values)]) == tuple(values)


def _merge(made: Knowledge, more: Knowledge) -> None:
    for key, time in more.items():
        if made.get(key, 0) < time:
            made[key] = time
