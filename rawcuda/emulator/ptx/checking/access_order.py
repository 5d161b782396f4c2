"""Which accesses of a launch happen before which others: what each thread knows of the others.

What it is   `Order`. The threads of a launch run one after another, so one number that grows with each synchronization
             is the time of every access. A thread knows of other threads' accesses up to a time: its knowledge is a
             dictionary from a thread, a warp or a block (as a number) to a time. Such a dictionary is never changed,
             but replaced by another one.
How          A barrier merges the knowledge of the threads that meet. The next strong write of a thread after a fence
             publishes, at its address, what the thread knew and had done at the fence. A strong read of this address
             adds what was published to the knowledge of its thread. After a barrier, each thread that took part in it
             publishes what the fences of all of them cover, because all threads of a block may store, execute a fence
             and meet at a barrier, before one of them counts the block as finished. The knowledge then has one number
             for the fences of a whole block or warp: the time of the barrier.
Source       PTX ISA, "Memory Consistency Model": fences are cumulative, and causality order is transitive
Read next    history.py
"""

from __future__ import annotations

from bisect import bisect_left

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, Union

    from ..running.lookups import Block, Launch

    Knowledge = dict[int, int]
    Shared = dict[int, Knowledge]  # by scope
    Arrival = tuple[Knowledge, list[Shared]]
    # a line of the PTX; in a function, also the generated lines above it
    Line = Union[int, tuple[int, tuple[int, ...]]]

__all__ = ["SCOPES", "THREADS", "Access", "Order", "Released"]

THREADS = 1024  # the largest number of threads in a block
SCOPES = {"cta": 0, "cluster": 1, "gpu": 2, "sys": 3}
_BLOCK_FENCES, _WARP_FENCES = 1 << 50, 1 << 60  # keys of knowledge: + 4 * (block or warp) + scope


class Access:
    """One access to a granule."""

    __slots__ = ("time", "who", "line", "kind", "scope")

    def __init__(self, time: int, who: int, line: Line, kind: int, scope: int) -> None:
        self.time, self.who, self.line, self.kind, self.scope = time, who, line, kind, scope


class Released:
    """What a place publishes: knowledge, by whom it reaches (see _reach), and the threads that have written it there.

    What several threads publish at a place is one dictionary: one for each would take cubic time.
    """

    __slots__ = ("known", "writers")

    def __init__(self, who: int) -> None:
        self.known: Shared = {}
        self.writers = {who}

    def add(self, reach: int, more: Knowledge) -> None:
        """Add knowledge."""
        _merge(self.known.setdefault(reach, {}), more)


class Order:
    """What the threads of one launch know.

    shape   who: a thread of the launch, as 1024 times its block plus its number there

    fences  the last fence of each thread by scope: its knowledge then, and the time
    fence_times  the times of all fences of a thread, by 4 times the thread plus the scope
    fenced  the threads whose last fence no barrier has shared
    shared  what a thread may publish because it has met others at a barrier; one object for all who met
    publishes  what a thread publishes, until its next fence or a barrier that shares fences
    """

    def __init__(self, launch: Launch) -> None:
        self.launch = launch
        self.time = 1
        self.known: dict[int, Knowledge] = {}
        self.fences: dict[int, dict[int, tuple[Knowledge, int]]] = {}
        self.fence_times: dict[int, list[int]] = {}
        self.fenced: set[int] = set()
        self.shared: dict[int, Shared] = {}
        self.publishes: dict[int, Released] = {}
        self.arrivals: dict[tuple[int, int], list[Arrival]] = {}

    def knows(self, who: int) -> Knowledge:
        """Return the knowledge of a thread."""
        return self.known.get(who) or {}

    def ordered(self, access: Access, who: int) -> bool:
        """Tell whether an access happens before what a thread does now."""
        other = access.who
        if other == who:
            return True
        known = self.known.get(who)
        if known is None:
            return False
        time, block = access.time, other // THREADS
        return (
            known.get(other, 0) >= time
            or known.get(-1 - (block << 6 | other % THREADS >> 5) * 2, 0) >= time
            or known.get(-2 - block * 2, 0) >= time
            or bool(self.fence_times)
            and self._fenced_off(access, known)
        )

    def _fenced_off(self, access: Access, known: Knowledge) -> bool:
        """Tell whether a thread, after an access, executed a fence and then met a barrier that is in `known`."""
        other = access.who
        for scope in SCOPES.values():
            times = self.fence_times.get(other << 2 | scope)
            if times is not None:
                met = max(known.get(_block_fences(other, scope), 0), known.get(_warp_fences(other, scope), 0))
                last = bisect_left(times, met)
                if last and times[last - 1] >= access.time:
                    return True
        return False

    # -- barriers

    def meet(self, blocks: list[Block], members: list[int] | None, barrier: int = -1, warp: int = -1) -> None:
        """Record that threads have synchronized: all of these blocks, or members of one, perhaps a whole warp."""
        now, self.time = self.time, self.time + 1
        made: Knowledge = {}
        seen: set[int] = set()
        everyone = [
            block.number * THREADS + t
            for block in blocks
            for t in (range(self.launch.threads) if members is None else members)
        ]
        for who in everyone:
            known = self.known.get(who)
            if known is not None and id(known) not in seen:
                seen.add(id(known))
                _merge(made, known)
        arrived = self.arrivals.pop((blocks[0].number, barrier), ())
        for known, _ in arrived:
            _merge(made, known)
        if self.fenced or self.shared:
            if members is None:
                several = [block.number * THREADS for block in blocks]
            else:
                several = []
            if warp >= 0 and members is not None:
                warps = [everyone[0]]
            else:
                warps = []
            self._share(everyone, [each for _, shared in arrived for each in shared], several, warps, now)
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
        self.arrivals.setdefault((block.number, barrier), []).append(self.arrival(block, t))

    def arrival(self, block: Block, t: int) -> Arrival:
        """Return what a thread gives to those who wait for it: its knowledge now, and what its fences cover."""
        who = block.number * THREADS + t
        if who in self.shared:
            shared = [self.shared[who]]
        else:
            shared = []
        for scope, (known, time) in self.fences.get(who, {}).items():
            shared.append({scope: {**known, who: time}})
        now, self.time = self.time, self.time + 1
        return {**self.knows(who), who: now}, shared

    def order(self, arrived: Iterable[Arrival] = ()) -> None:
        """Record an instruction whose effect on the order is not modelled: it counts as a barrier of the block.

        shape   arrived: what threads of other blocks of the cluster gave when they arrived
        """
        block = self.launch.block
        if block is not None:
            self.arrivals.setdefault((block.number, -1), []).extend(arrived)
            self.meet([block], None)

    def leave(self, block: Block) -> None:
        """Forget the threads of a block that has ended."""
        first = block.number * THREADS
        for who in range(first, first + self.launch.threads):
            self.known.pop(who, None)
            self.fences.pop(who, None)
            self.fenced.discard(who)
            self.shared.pop(who, None)
            self.publishes.pop(who, None)

    # -- fences

    def fence(self, scope: str) -> None:
        """Record a fence of the running thread."""
        who, level = self.running(), SCOPES[scope]
        now, self.time = self.time, self.time + 1
        made, old = {level: (self.knows(who), now)}, self.fences.get(who)
        if old is not None and max(old) > level:  # what a fence of a wider scope covered remains covered
            made.update((each, held) for each, held in old.items() if each > level)
        self.fences[who] = made
        self.fence_times.setdefault(who << 2 | level, []).append(now)
        self.fenced.add(who)
        self.publishes.pop(who, None)

    def _share(self, members: list[int], arrived: list[Shared], blocks: list[int], warps: list[int], now: int) -> None:
        """Let each member of a barrier publish what the fences of all of them cover.

        shape   blocks, warps: one thread of each block or warp whose threads are all members
        """
        found = {id(each): each for each in arrived}
        several, own = False, []
        for who in members:
            shared = self.shared.get(who)
            if shared is None:
                several = True
            else:
                found[id(shared)] = shared
            if who in self.fenced:
                self.fenced.discard(who)
                own.append(who)
        if not own and (not found or len(found) == 1 and not several):
            return
        made: Shared = {}
        for each in found.values():
            for scope, known in each.items():
                _merge(made.setdefault(scope, {}), known)
        seen: set[tuple[int, int]] = set()
        for who in own:
            for scope, (known, time) in self.fences[who].items():
                to = made.setdefault(scope, {})
                if (scope, id(known)) not in seen:
                    seen.add((scope, id(known)))
                    _merge(to, known)
                if not blocks and not warps:
                    to[who] = time
        for scope, to in made.items():
            to.update(dict.fromkeys([_block_fences(who, scope) for who in blocks], now))
            to.update(dict.fromkeys([_warp_fences(who, scope) for who in warps], now))
        self.shared.update(dict.fromkeys(members, made))
        for who in members:
            self.publishes.pop(who, None)

    def published(self, released: Released | None, who: int) -> Released | None:
        """Return what a place publishes after a strong write of a thread, in addition to what it published before."""
        own = self.publishes.get(who)
        if own is None:
            own = self.publishes[who] = Released(who)
            for scope, (known, time) in self.fences.get(who, {}).items():
                own.add(_reach(scope, who), known)
                own.add(_reach(scope, who), {who: time})
            for scope, known in self.shared.get(who, {}).items():
                own.add(_reach(scope, who), known)
        if not own.known or not released:
            return own if own.known else released
        made = Released(who)
        made.writers |= released.writers
        for each in (released, own):
            for reach, known in each.known.items():
                made.add(reach, known)
        return made

    def acquire(self, released: Released, who: int) -> None:
        """Add what a place publishes to the knowledge of a thread that reads it."""
        made: Knowledge | None = None
        for reach, known in released.known.items():
            if reach > 0 or reach == _reach(0, who):
                if made is None:
                    made = dict(self.knows(who))
                _merge(made, known)
        if made is not None:
            self.known[who] = made

    def running(self) -> int:
        """Return the thread that runs."""
        block: Any = self.launch.block
        return block.number * THREADS + block.running  # type: ignore[no-any-return]


def _reach(scope: int, who: int) -> int:
    """Return a number for the threads that a scope of a thread includes: the scope, or one for its block."""
    if scope:
        return scope
    return -1 - who // THREADS


def _block_fences(who: int, scope: int) -> int:
    return _BLOCK_FENCES | who // THREADS << 2 | scope


def _warp_fences(who: int, scope: int) -> int:
    return _WARP_FENCES | who >> 5 << 2 | scope


def _merge(made: Knowledge, more: Knowledge) -> None:
    if not made:
        made.update(more)
        return
    for key, time in more.items():
        if made.get(key, 0) < time:
            made[key] = time
