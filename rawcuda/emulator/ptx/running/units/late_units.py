"""Asynchronous copies, and the barriers in shared memory (mbarrier) on which threads wait for them.

What it is   `Late`, the operations that the threads of one block have started and not yet waited for. A copy happens as
             late as the ISA permits: when its thread waits for its group, or when a thread tests a barrier on which the
             copy arrives. Until then its target holds poison, and the race checker calls it unwritten, so a program
             that reads before it waits is wrong each time.
Limit        All copies that fit into shared memory at once can be pending. A program that starts more of them than that
             and never waits gets them all completed, which the ISA permits at any time; they would fill the memory.
How          A barrier is the eight bytes that the program gives it: from the lowest bit, the arrivals that are
             pending, those that each phase expects, the bytes that are pending (plus an offset), the phase, and a mark
             that no poison has.
Source       PTX ISA, "mbarrier", "cp.async", "cp.async.bulk", "st.async", "Async Proxy"
Read next    tensors.py
"""

from __future__ import annotations

import struct

from ....machine.codes import LAUNCH_FAILED
from ....machine.space import POISON, Fault
from ...checking.places import shared_fault
from ...translating.unit import CLUSTER_BITS, SHARED_WINDOW
from ..half import HALVES
from ..lookups import Block

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from ...checking.access_order import Arrival

__all__ = ["Late", "combine", "finish", "started"]

MOST_ARRIVALS = (1 << 20) - 1
_BIAS = 1 << 20
_POISON = bytes((POISON,))
_MARK = 1  # in the two highest bits
MOST_STORES = 16  # of a block, for which the bytes are kept
MOST_PENDING = 1 << 16  # shared memory has at most 227 KB, and a copy at least 4 bytes


def started(block: Block) -> Late:
    """Return the operations that the threads of a block have started and not waited for."""
    made: Late | None = block.late
    if made is None:
        made = block.late = Late(block)
    return made


def finish(copies: list[list[Any]], waited: bool) -> None:
    """Make those copies that have not been made yet.

    shape   copies: a list for each copy that was started: its function, and the arguments after the first one, which is
            `waited`: whether the thread that started the copy waits for it; the list is empty once the copy is made
    """
    for started in copies:
        if started:
            copy, *arguments = started
            started.clear()
            copy(waited, *arguments)


class Late:
    """The operations that a block's threads have started: groups of copies, and copies that arrive on barriers.

    shape   groups, open: lists of copies as finish() takes them; promised: pairs of what a work counts, and the work
    Why long  groups and barriers are two ways to wait for the same copies
    """

    __slots__ = ("block", "completed", "groups", "open", "pending", "promised", "shared", "stores", "visitors")

    def __init__(self, block: Block) -> None:
        self.block = block
        self.shared = memoryview(block.shared)  # writing a slice of it is faster than of the bytearray
        self.groups: dict[tuple[int, str], list[list[Any]]] = {}  # by thread and kind, oldest first
        self.open: dict[tuple[int, str], list[Any]] = {}  # not yet committed
        self.promised: dict[int, list[tuple[int, Callable[[], None]]]] = {}  # by the place of a barrier
        self.stores: dict[int, list[Callable[[bool], None]]] = {}  # by thread: see start_store()
        self.pending = 0  # the number of all these, and of what the promised work refers to
        # What threads of other blocks gave on arrival, by the place of a barrier: in this phase, by the number of the
        # block and the thread, and in the last one, until a thread of this block has waited for it.
        self.visitors: dict[int, dict[tuple[int, int], Arrival]] = {}
        self.completed: dict[int, list[Arrival]] = {}

    # -- groups

    def _key(self, kind: str) -> tuple[int, str]:
        return self.block.running or 0, kind

    def start(self, kind: str, work: Callable[[bool], None], keeps: int = 0) -> None:
        """Add a copy to the open group of the running thread.

        keeps  the number of things that the work refers to
        """

        def counted(waited: bool) -> None:
            self.pending -= keeps
            work(waited)

        self.open.setdefault(self._key(kind), []).append([counted])
        self._count(1 + keeps)

    def start_store(self, read: Callable[[], Callable[[bool], None]], keeps: int = 0) -> None:
        """Add a copy out of shared memory to the open group of the running thread.

        It reads when the thread waits for that by wait_group.read, and writes later: when the thread waits again.

        shape   read: copies the bytes, and returns the function that writes them; its argument is that of finish()
        """
        t = self.block.running or 0

        def work(_: bool) -> None:
            self.block.launch.look_at_clock()  # each copy can be large
            if sum(map(len, self.stores.values())) >= MOST_STORES:
                self._store_all()
            self.stores.setdefault(t, []).append(read())

        self.start("bulk", work, keeps)

    def _store(self, t: int, waited: bool = True) -> None:
        """Write what the copies of a thread have read; `waited`: it waits for that."""
        for store in self.stores.pop(t, ()):
            self.block.launch.look_at_clock()
            store(waited)

    def _store_all(self) -> None:
        """Write what the copies of all threads have read: the ISA permits it at any time."""
        for t in tuple(self.stores):
            self._store(t, False)

    def commit(self, kind: str) -> None:
        """Close the open group of the running thread."""
        key = self._key(kind)
        self.groups.setdefault(key, []).append(self.open.pop(key, []))
        self._count(1)

    def _count(self, more: int) -> None:
        """Count what was started; beyond the limit, complete everything that is pending."""
        self.pending += more
        if self.pending > MOST_PENDING:
            for copies in (*self.open.values(), *(each for groups in self.groups.values() for each in groups)):
                finish(copies, False)
            self._store_all()
            self.open.clear()
            self.groups.clear()
            for place in tuple(self.promised):
                self.settle(place)
            self.pending = 0

    def wait(self, kind: str, most: int, reads: bool = False) -> None:
        """Complete the groups of the running thread except the newest `most`; with -1, all and the open group.

        reads   wait only until the copies have read (wait_group.read)
        """
        key = self._key(kind)
        if reads:
            self._store(key[0])  # what was read before
        groups = self.groups.get(key, [])
        if most < 0:
            self.commit(kind)
            groups, most = self.groups.get(key, []), 0
        for copies in groups[: max(len(groups) - most, 0)]:
            finish(copies, True)
            self.pending -= len(copies) + 1
        del groups[: max(len(groups) - most, 0)]
        if kind == "bulk" and not reads:
            self._store(key[0])
        self._notice()

    def _notice(self) -> None:
        if self.block._watch is not None:
            self.block._watch.notice(self.block.running)

    def leave(self, t: int) -> None:
        """Complete the bulk copies out of shared memory that a thread started before it ended."""
        if (t, "bulk") in self.open:
            self.groups.setdefault((t, "bulk"), []).append(self.open.pop((t, "bulk")))
            self.pending += 1
        for copies in self.groups.pop((t, "bulk"), []):
            finish(copies, True)
            self.pending -= len(copies) + 1
        self._store(t)

    # -- shared memory

    def home(self, address: int, generic: bool, total: int) -> tuple[Block, int]:
        """Return the block and the offset of an address in shared memory, which may be in another block of the cluster.

        raises  Fault   misaligned (716), past the end (700), not of shared memory (719)
        """
        if generic:
            if not 0 <= address - SHARED_WINDOW < 1 << 32:
                raise Fault(LAUNCH_FAILED, f"address {address:#x} is not in shared memory")
            address -= SHARED_WINDOW
        block = self.block
        address &= 0xFFFFFFFF
        if address >> CLUSTER_BITS:
            block.mates.reach(block, address, "B", 1)
            block = block.mates.blocks[(address >> CLUSTER_BITS) - 1]
            address &= (1 << CLUSTER_BITS) - 1
        if total:
            unit = min(total & -total, 16)
        else:
            unit = 1
        if address % unit or not block.launch.in_shared(address, total):
            raise shared_fault(block.launch, address, total, unit, block.cluster_rank)
        return block, address

    def expect(self, block: Block, place: int, count: int, line: int) -> None:
        """Poison the target of a copy that has been started."""
        block.shared[place : place + count] = _POISON * count
        watch = block._watch
        if watch is not None:
            watch.unwrite(place // watch.granule, max(1, count // watch.granule), line, block is self.block)

    def put(self, block: Block, place: int, data: bytes | memoryview, line: int = 0) -> None:
        """Write the target of a copy; without a line, an mbarrier orders the write."""
        block.shared[place : place + len(data)] = data
        watch = block._watch
        if watch is not None:
            watch.arrive(place // watch.granule, max(1, len(data) // watch.granule), line)

    def update(self, block: Block, place: int, count: int, line: int) -> None:
        """Check and record a reduction into the shared memory of a block: it reads what is there.

        raises  Fault   nothing was ever written there, and the emulator is strict (719)
        """
        watch = block._watch
        if watch is not None and count:
            watch.update(place // watch.granule, max(1, count // watch.granule), line)

    def copy_group(self, place: int, total: int, view: memoryview, at: int, used: int, line: int) -> None:
        """Start cp.async: `used` bytes of a view to shared memory, and zeros up to `total`."""
        block = self.block
        self.shared[place : place + total] = _POISON * total
        watch = block._watch
        if watch is not None:
            watch.unwrite(place // watch.granule, total // watch.granule or 1, line, True)
        key, copy = (block.running or 0, "cp"), [self._arrive, place, total, view, at, used, line]
        copies = self.open.get(key)
        if copies is None:
            self.open[key] = [copy]
        else:
            copies.append(copy)
        self._count(1)

    def _arrive(self, waited: bool, place: int, total: int, view: memoryview, at: int, used: int, line: int) -> None:
        data: Any = view[at : at + used]
        if used == total:
            self.shared[place : place + total] = data
        else:
            self.shared[place : place + total] = bytes(data).ljust(total, b"\0")
        watch = self.block._watch
        if watch is not None:
            watch.arrive(place // watch.granule, total // watch.granule or 1, line if waited else 0)

    def fence_proxy(self) -> None:
        """Record a fence.proxy.async of the running thread."""
        watch, history = self.block._watch, self.block.launch.history
        if watch is not None:
            watch.proxied = watch.clock
        if history is not None:
            history.fence_proxy(self.block)

    def leaving(self, place: int, count: int, line: int) -> None:
        """Record that a bulk copy reads shared memory of the block until the wait for it.

        raises  Fault   no fence.proxy.async follows the writes of threads to this memory (719)
        """
        watch, history = self.block._watch, self.block.launch.history
        if history is not None:
            history.check_proxy(self.block, place, count)
        if watch is not None:
            watch.leave(place // watch.granule, max(1, count // watch.granule), line)

    def left(self, place: int, count: int) -> None:
        """Record the end of a bulk copy that has read shared memory."""
        watch = self.block._watch
        if watch is not None:
            watch.left(place // watch.granule, max(1, count // watch.granule))

    # -- barriers

    def _state(self, address: int, generic: bool) -> tuple[Late, memoryview, int, list[int]]:
        """Return where a barrier is, and [pending, expected, bytes, phase]."""
        block, place = self.home(address, generic, 8)
        view = block.shared_view("Q")
        value = view[place >> 3]
        if value >> 62 != _MARK:
            raise Fault(LAUNCH_FAILED, f"there is no mbarrier at shared address {place:#x}: mbarrier.init makes one")
        parts = [value & 0xFFFFF, value >> 20 & 0xFFFFF, (value >> 40 & 0x1FFFFF) - _BIAS, value >> 61 & 1]
        return started(block), view, place, parts

    def _keep(self, home: Late, view: memoryview, place: int, parts: list[int]) -> None:
        """Store the state of a barrier; if nothing is pending any more, its next phase begins."""
        pending, expected, count, phase = parts
        if not -_BIAS < count < _BIAS:
            raise Fault(
                LAUNCH_FAILED, f"the mbarrier at shared address {place:#x} waits for {count} bytes, not below 2**20"
            )
        if not pending and not count:
            pending, phase = expected, phase ^ 1
            home.completed[place] = [*home.visitors.pop(place, {}).values()]
        view[place >> 3] = pending | expected << 20 | count + _BIAS << 40 | phase << 61 | _MARK << 62

    def init(self, address: int, generic: bool, count: int) -> None:
        """Make a barrier.

        raises  Fault   the count is not 1 to 2**20 - 1 (719)
        """
        block, place = self.home(address, generic, 8)
        if not 0 < count <= MOST_ARRIVALS:
            raise Fault(LAUNCH_FAILED, f"mbarrier.init with a count of {count}, not 1 to {MOST_ARRIVALS}")
        block.shared_view("Q")[place >> 3] = count | count << 20 | _BIAS << 40 | _MARK << 62
        if block._watch is not None:
            block._watch.mark(place // block._watch.granule, 8 // block._watch.granule)

    def invalidate(self, address: int, generic: bool) -> None:
        """End a barrier."""
        home, view, place, _ = self._state(address, generic)
        home.settle(place)
        view[place >> 3] = 0

    def arrive(
        self, address: int, generic: bool, count: int = 1, nbytes: int = 0, drop: bool = False, completes: bool = True
    ) -> int:
        """Add to the bytes that a barrier waits for, then arrive; return the state before that.

        raises  Fault   more arrivals than are pending, or .noComplete on the last one (719)
        """
        home, view, place, parts = self._state(address, generic)
        history = self.block.launch.history
        if home is not self and history is not None:
            who = self.block.number, self.block.running or 0
            home.visitors.setdefault(place, {})[who] = history.arrival(self.block, who[1])
        before = view[place >> 3]
        if not 0 < count <= parts[0]:
            raise Fault(
                LAUNCH_FAILED,
                f"{count} arrivals at the mbarrier at shared address {place:#x}, where {parts[0]} of {parts[1]} are "
                "pending in this phase",
            )
        parts[0] -= count
        parts[2] += nbytes
        if drop:
            parts[1] -= count
        if not completes and not parts[0] and not parts[2]:
            raise Fault(LAUNCH_FAILED, "mbarrier.arrive.noComplete completes the phase")
        self._keep(home, view, place, parts)
        return before

    def transact(self, address: int, generic: bool, nbytes: int) -> None:
        """Add to the bytes that a barrier waits for."""
        home, view, place, parts = self._state(address, generic)
        parts[2] += nbytes
        self._keep(home, view, place, parts)

    def passed(self, address: int, generic: bool, given: int, by_parity: bool) -> bool:
        """Tell whether a phase of a barrier is complete; a state or a parity says which phase."""
        home, view, place, parts = self._state(address, generic)
        if by_parity:
            phase = given & 1
        else:
            phase = given >> 61 & 1
        if parts[3] == phase and home.settle(place):
            parts[3] = view[place >> 3] >> 61 & 1
        if parts[3] == phase:
            return False
        self._notice()
        if self.block.launch.history is not None:
            if home is self:  # then it tells all threads that may wait there
                arrived = home.completed.pop(place, [])
            else:
                arrived = home.completed.get(place, [])
            self.block.launch.history.order(arrived)
        return True

    def promise(self, address: int, generic: bool, work: Callable[[], None], counts: int = 1) -> None:
        """Register work that is done when a thread tests a barrier.

        counts  the number of things that the work keeps
        """
        home, _, place, _ = self._state(address, generic)
        home.promised.setdefault(place, []).append((counts, work))
        home._count(counts)

    def settle(self, place: int) -> bool:
        """Do the work that is registered for a barrier; tell whether there was any."""
        works = self.promised.pop(place, ())
        for counts, work in works:
            self.pending -= counts
            self.block.launch.look_at_clock()
            work()
        return bool(works)

    def arrive_after_copies(self, address: int, generic: bool, counted: bool) -> None:
        """Arrive on a barrier after all copies of the running thread are complete (cp.async.mbarrier.arrive)."""
        key = self._key("cp")
        started = []
        for copies in (*self.groups.get(key, ()), self.open.get(key, [])):
            self.pending -= len(copies)
            copies[:] = [each for each in copies if each]  # a program that waits by barriers alone ends no group
            self.pending += len(copies)
            started += copies
        if not counted:
            home, view, place, parts = self._state(address, generic)
            parts[0] += 1
            self._keep(home, view, place, parts)

        def work() -> None:
            finish(started, False)
            self.arrive(address, generic)

        self.promise(address, generic, work, 1 + len(started))

    # -- bulk copies

    def bulk_in(
        self, target: int, data: Callable[[], bytes], count: int, barrier: int, blocks: int, line: int,
        runs: list[tuple[int, int]] | None = None, keeps: int = 0,
    ) -> None:  # fmt: skip
        """Start a copy of bytes to shared memory that arrives on a barrier.

        shape   data: returns the bytes; blocks: a mask of the ranks of the cluster's blocks that get them, or 0; runs:
                which ranges of them are copied, as offsets and lengths; None: all; keeps: how many things data keeps
        """
        if runs is None:
            runs = [(0, count)]
        reach = max(at + length for at, length in runs)
        low = (1 << CLUSTER_BITS) - 1
        for rank in [rank for rank in range(16) if blocks >> rank & 1] if blocks else [-1]:
            to, at = target, barrier
            if rank >= 0:
                to, at = (rank + 1 << CLUSTER_BITS | each & low for each in (target, barrier))
            block, place = self.home(to, False, reach)
            if place % 16:
                raise shared_fault(block.launch, place, count, 16, block.cluster_rank)
            for start, length in runs:
                if length:
                    self.expect(block, place + start, length, line)
            self.promise(at, False, self._arrival(block, place, data, at, count, runs), 1 + keeps)

    def _arrival(
        self, block: Block, place: int, data: Callable[[], bytes], at: int, count: int, runs: list[tuple[int, int]]
    ) -> Callable[[], None]:
        def work() -> None:
            made = data()
            for start, length in runs:
                self.put(block, place + start, made[start : start + length])
            self.transact(at, False, -count)

        return work

    def async_store(self, target: int, generic: bool, data: bytes, barrier: int, line: int) -> None:
        """Start a store to shared memory that arrives on a barrier (st.async)."""
        block, place = self.home(target, generic, len(data))
        self.expect(block, place, len(data), line)

        def work() -> None:
            self.put(block, place, data)
            self.transact(barrier, generic, -len(data))

        self.promise(barrier, generic, work)

    def async_reduction(
        self, target: int, generic: bool, verb: str, type: str, value: int, barrier: int, line: int
    ) -> None:
        """Start an atomic operation on shared memory that arrives on a barrier (red.async)."""
        width = int(type.strip("usbf")) // 8
        block, place = self.home(target, generic, width)
        self.update(block, place, width, line)

        def work() -> None:
            combine(verb, type, memoryview(block.shared)[place : place + width], value.to_bytes(width, "little"))
            self.transact(barrier, generic, -width)

        self.promise(barrier, generic, work)


def combine(verb: str, type: str, target: Any, data: Any) -> None:
    """Combine the numbers in two ranges of bytes into the first one (cp.reduce.async.bulk)."""
    if type in ("f16", "bf16"):
        call = HALVES[f"{verb} {type} "]
        numbers = zip(memoryview(bytes(target)).cast("H"), memoryview(bytes(data)).cast("H"))
        target[:] = struct.pack(f"<{len(data) // 2}H", *(call(a, b) for a, b in numbers))
        return
    bits = int(type[1:])
    code = {"f32": "f", "f64": "d"}.get(type) or ("bhiq" if type[0] == "s" else "BHIQ")[bits.bit_length() - 4]
    size = bits // 8
    whole = (1 << bits) - 1
    made = bytearray()
    for (a,), (b,) in zip(struct.iter_unpack("<" + code, bytes(target)), struct.iter_unpack("<" + code, bytes(data))):
        if verb == "add" and type[0] == "f":
            made += _float(a + b, code)
            continue
        if verb in ("min", "max"):
            if verb == "min":
                c = min(a, b)
            else:
                c = max(a, b)
            made += struct.pack("<" + code, c)
            continue
        c = {
            "add": a + b, "and": int(a) & int(b), "or": int(a) | int(b), "xor": int(a) ^ int(b),
            "inc": 0 if a >= b else a + 1, "dec": b if not a or a > b else a - 1,
        }[verb] if type[0] != "f" else b  # fmt: skip
        made += (c & whole).to_bytes(size, "little")
    target[:] = bytes(made)


def _float(value: float, code: str) -> bytes:
    try:
        return struct.pack("<" + code, value)
    except OverflowError:
        return struct.pack("<" + code, float("inf") if value > 0 else float("-inf"))
