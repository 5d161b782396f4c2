"""Which accesses of a launch happen before which others: what each thread knows of the others.

What it is   `Order`. The threads of a launch run one after another, so one number that grows with each synchronization
             is the time of every access. A thread knows of other threads' accesses up to a time: its knowledge is a
             dictionary from a thread, a warp or a block (as a number) to a time. It is stored as dictionaries in
             dictionaries, by the upper bits of the number. They are never changed, but replaced: what differs in a
             few numbers has all other dictionaries in common, so that each of many threads may add its own number.
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

    Knowledge = dict[int, Any]  # made by _of and _merged, and read by known_time
    Shared = dict[int, Knowledge]  # by scope
    Arrival = tuple[Knowledge, list[Shared]]
    Held = dict[int, dict[int, Any]]  # by block, and there by thread or _REST
    # a line of the PTX; in a function, also the generated lines above it
    Line = Union[int, tuple[int, tuple[int, ...]]]

__all__ = ["SCOPES", "THREADS", "Access", "Order", "Released", "known_time"]

THREADS = 1024  # the largest number of threads in a block
SCOPES = {"cta": 0, "cluster": 1, "gpu": 2, "sys": 3}
_SPLITS = (15, 10, 5)  # the bits below which each dictionary of knowledge but the last divides the numbers
_REST = -1  # what all threads of a block hold that have nothing of their own
_BLOCK_FENCES, _WARP_FENCES = 1 << 50, 1 << 60  # keys of knowledge: + 4 * (block or warp) + scope


class Access:
    """One access to a granule."""

    __slots__ = ("time", "who", "line", "kind", "scope")

    def __init__(self, time: int, who: int, line: Line, kind: int, scope: int) -> None:
        self.time, self.who, self.line, self.kind, self.scope = time, who, line, kind, scope


class Released:
    """What a place publishes: knowledge, by whom it reaches (see _reach), and the threads that have written it there.

    joint   whether it is what several threads publish at one place: then it grows, as a copy for each of them would
            take the square of the threads. What one thread publishes may be at many places, and stays as it is.
    added   what several threads publish, if this is what one publishes, and was last added to it
    """

    __slots__ = ("known", "writers", "joint", "added")

    def __init__(self, writers: set[int], joint: bool = False) -> None:
        self.known: Shared = {}
        self.writers, self.joint = writers, joint
        self.added: Released | None = None

    def add(self, reach: int, more: Knowledge) -> None:
        """Add knowledge."""
        self.known[reach] = _merged(more, self.known.get(reach, {}))


class Order:
    """What the threads of one launch know.

    shape   who: a thread of the launch, as 1024 times its block plus its number there

    known   what each thread knows
    fences  the last fence of each thread by scope: its knowledge then, and the time
    fence_times  the times of all fences of a thread, by 4 times the thread plus the scope
    fenced  by block, the threads whose last fence no barrier has shared
    shared  what a thread may publish because it has met others at a barrier; one object for all who met
    publishes  by block, what a thread publishes, until its next fence or a barrier that shares fences
    acquired  what a thread last acquired: the knowledge, what published it, and by whom it reaches
    """

    def __init__(self, launch: Launch) -> None:
        self.launch = launch
        self.time = 1
        self.known: Held = {}
        self.fences: dict[int, dict[int, tuple[Knowledge, int]]] = {}
        self.fence_times: dict[int, list[int]] = {}
        self.fenced: dict[int, set[int]] = {}
        self.shared: Held = {}
        self.publishes: dict[int, dict[int, Released]] = {}
        self.acquired: dict[int, tuple[Knowledge, Released, int]] = {}
        self.arrivals: dict[tuple[int, int], list[Arrival]] = {}

    def knows(self, who: int) -> Knowledge:
        """Return the knowledge of a thread."""
        return _held(self.known, who) or {}

    def ordered(self, access: Access, who: int) -> bool:
        """Tell whether an access happens before what a thread does now."""
        other = access.who
        if other == who:
            return True
        known = _held(self.known, who)
        if known is None:
            return False
        time, block = access.time, other // THREADS
        return (
            known_time(known, -2 - block * 2) >= time
            or known_time(known, -1 - (block << 6 | other % THREADS >> 5) * 2) >= time
            or known_time(known, other) >= time
            or bool(self.fence_times)
            and self._fenced_off(access, known)
        )

    def _fenced_off(self, access: Access, known: Knowledge) -> bool:
        """Tell whether a thread, after an access, executed a fence and then met a barrier that is in `known`."""
        other = access.who
        for scope in SCOPES.values():
            times = self.fence_times.get(other << 2 | scope)
            if times is not None:
                block, warp = _block_fences(other, scope), _warp_fences(other, scope)
                met = max(known_time(known, block), known_time(known, warp))
                last = bisect_left(times, met)
                if last and times[last - 1] >= access.time:
                    return True
        return False

    # -- barriers

    def meet(self, blocks: list[Block], members: list[int] | None, barrier: int = -1, warp: int = -1) -> None:
        """Record that threads have synchronized: all of these blocks, or members of one, perhaps a whole warp."""
        now, self.time = self.time, self.time + 1
        made: Knowledge = {}
        if members is None:
            whole, some = [block.number for block in blocks], []
        else:
            whole, some = [], [blocks[0].number * THREADS + t for t in members]
        for known in self._all_held(self.known, whole, some):
            made = _merged(known or {}, made)
        arrived = self.arrivals.pop((blocks[0].number, barrier), ())
        for known, _ in arrived:
            made = _merged(known, made)
        if self.fenced or self.shared:
            if warp >= 0 and some:
                warps = [some[0]]
            else:
                warps = []
            self._share(whole, some, [each for _, shared in arrived for each in shared], warps, now)
        if members is None:
            met = [-2 - block * 2 for block in whole]
        elif warp >= 0:
            met = [-1 - (blocks[0].number << 6 | warp) * 2]
        else:
            met = some
        _hold(self.known, whole, some, _merged(_of(met, now), made))

    def arrive(self, block: Block, t: int, barrier: int) -> None:
        """Record that a thread has arrived at a barrier without waiting for it."""
        self.arrivals.setdefault((block.number, barrier), []).append(self.arrival(block, t))

    def arrival(self, block: Block, t: int) -> Arrival:
        """Return what a thread gives to those who wait for it: its knowledge now, and what its fences cover."""
        who = block.number * THREADS + t
        shared = [each for each in (_held(self.shared, who),) if each is not None]
        for scope, (known, time) in self.fences.get(who, {}).items():
            shared.append({scope: _merged(_of([who], time), known)})
        now, self.time = self.time, self.time + 1
        return _merged(_of([who], now), self.knows(who)), shared

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
            self.fences.pop(who, None)
            self.acquired.pop(who, None)
        for held in (self.known, self.fenced, self.shared, self.publishes):
            held.pop(block.number, None)

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
        self.fenced.setdefault(who // THREADS, set()).add(who)
        self.publishes.get(who // THREADS, {}).pop(who, None)

    def _share(self, blocks: list[int], members: list[int], arrived: list[Shared], warps: list[int], now: int) -> None:
        """Let all threads of these blocks, or members of one, publish what the fences of all of them cover.

        shape   warps: one thread of each warp whose threads are all members
        """
        held = self._all_held(self.shared, blocks, members)
        found = {id(each): each for each in (*arrived, *held) if each is not None}
        own = {who for block in blocks for who in self.fenced.pop(block, ())}
        for who in members:
            if who in self.fenced.get(who // THREADS, ()):
                self.fenced[who // THREADS].discard(who)
                own.add(who)
        if not own and (not found or len(found) == 1 and None not in held):
            return
        made: Shared = {}
        for each in found.values():
            for scope, known in each.items():
                made[scope] = _merged(known, made.get(scope, {}))
        seen: set[tuple[int, int]] = set()
        for who in own:
            for scope, (known, time) in self.fences[who].items():
                to = made.get(scope, {})
                if (scope, id(known)) not in seen:
                    seen.add((scope, id(known)))
                    to = _merged(known, to)
                if not blocks and not warps:
                    to = _merged(_of([who], time), to)
                made[scope] = to
        for scope, to in made.items():
            met = [_block_fences(block * THREADS, scope) for block in blocks]
            met += [_warp_fences(who, scope) for who in warps]
            made[scope] = _merged(_of(met, now), to)
        _hold(self.shared, blocks, members, made)
        for block in blocks:
            self.publishes.pop(block, None)
        for who in members:
            self.publishes.get(who // THREADS, {}).pop(who, None)

    def _all_held(self, held: Held, blocks: list[int], members: list[int]) -> list[Any]:
        """Return each thing once that all threads of these blocks, or members of one, hold, and None for nothing."""
        found = [_held(held, who) for who in members]
        for block in blocks:
            own = dict(held.get(block, {}))
            rest = own.pop(_REST, None)
            found += own.values()
            if len(own) < self.launch.threads:
                found.append(rest)
        return list({id(each): each for each in found}.values())

    def published(self, released: Released | None, who: int) -> Released | None:
        """Return what a place publishes after a strong write of a thread, in addition to what it published before."""
        of_block = self.publishes.setdefault(who // THREADS, {})
        own = of_block.get(who)
        if own is None:
            own = of_block[who] = Released({who})
            for scope, (known, time) in self.fences.get(who, {}).items():
                own.add(_reach(scope, who), known)
                own.add(_reach(scope, who), _of([who], time))
            for scope, known in (_held(self.shared, who) or {}).items():
                own.add(_reach(scope, who), known)
        if not own.known or not released:
            return own if own.known else released
        if own.added is released:
            return released
        if not released.joint:
            first, released = released, Released(set(released.writers), True)
            released.known.update(first.known)
        released.writers.add(who)
        for reach, known in own.known.items():
            released.add(reach, known)
        own.added = released
        return released

    def acquire(self, released: Released, who: int) -> None:
        """Add what a place publishes to the knowledge of a thread that reads it."""
        for scope in SCOPES.values():
            reach = _reach(scope, who)
            known = released.known.get(reach)
            if known is None:
                continue
            own, last = self.knows(who), self.acquired.get(who)
            if last is not None and last[0] is own and last[1] is released and last[2] == reach:
                own = known  # what the place publishes has only grown
            else:
                own = _merged(own, known)
            _hold(self.known, [], [who], own)
            self.acquired[who] = known, released, reach

    def running(self) -> int:
        """Return the thread that runs."""
        block: Any = self.launch.block
        return block.number * THREADS + block.running  # type: ignore[no-any-return]


def _held(held: Held, who: int) -> Any:
    """Return what a thread holds, or None."""
    own = held.get(who // THREADS)
    if own is None:
        return None
    return own.get(who, own.get(_REST))


def _hold(held: Held, blocks: list[int], members: list[int], value: Any) -> None:
    """Let all threads of these blocks, or members of one, hold something."""
    for block in blocks:
        held[block] = {_REST: value}
    for who in members:
        held.setdefault(who // THREADS, {})[who] = value


def _reach(scope: int, who: int) -> int:
    """Return a number for the threads that a scope of a thread includes: the scope, or one for its block."""
    if scope:
        return scope
    return -1 - who // THREADS


def _block_fences(who: int, scope: int) -> int:
    return _BLOCK_FENCES | who // THREADS << 2 | scope


def _warp_fences(who: int, scope: int) -> int:
    return _WARP_FENCES | who >> 5 << 2 | scope


def known_time(known: Knowledge, key: int) -> int:
    """Return the time up to which knowledge covers a thread, a warp or a block, or 0."""
    for split in _SPLITS:
        part = known.get(key >> split)
        if part is None:
            return 0
        known = part
    time: int = known.get(key, 0)
    return time


def _of(keys: list[int], time: int) -> Knowledge:
    """Return the knowledge of threads, warps or blocks up to a time."""
    made: Knowledge = {}
    for key in keys:
        part = made
        for split in _SPLITS:
            part = part.setdefault(key >> split, {})
        part[key] = time
    return made


def _merged(one: Knowledge, other: Knowledge) -> Knowledge:
    """Return the knowledge of both, with as many of their dictionaries as possible, preferably of the other."""
    if len(one) > len(other):
        one, other = other, one
    made = other
    for key, value in one.items():
        old = other.get(key)
        if old is value:
            continue
        if old is not None:
            value = max(old, value) if isinstance(old, int) else _merged(value, old)
            if value is old:
                continue
        if made is other:
            made = dict(other)
        made[key] = value
    return made
