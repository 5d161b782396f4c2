"""The scheduler of a block: its threads run one after the other, each until it ends or waits.

Threads that cannot wait are plain calls. Threads that can wait are generators. Each runs until it yields; then warp
operations (shuffles, votes) are completed, then barriers, and last, when no thread can continue, queries for the active
threads. The ISA permits this order (independent thread scheduling), and it exposes errors: a missing barrier gives
wrong results every time, and a wait for a thread that never arrives is reported and does not hang.

But a thread that reads global memory which was never written lets the others go first: see later_writes.py.

A request is (kind, verb, member mask or None, line, operands...). A group of a warp is answered together.

Source       PTX ISA, "Parallel Synchronization and Communication Instructions"
Read next    races.py, later_writes.py, units/exchanges.py
"""

from __future__ import annotations

from functools import lru_cache
from types import GeneratorType

from ...machine.codes import LAUNCH_FAILED
from ...machine.recovery import is_outside
from ...machine.space import Fault
from ..checking.history import Found
from .lookups import Block, Exited
from .races import Unwritten
from .undefined import Mark, Marked, Undefined
from .units.exchanges import WHOLE, exchange, source_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from typing import Any, Callable

    from .lookups import Launch

    Request = tuple[Any, ...]

__all__ = ["Team", "run_plainly"]

MOST_WAITS = 16  # passes of a block in which a thread waits in a loop, before other blocks run


def run_plainly(thread: Callable[[int, int, int, int], None], block: Block) -> None:
    """Run the threads of a block that cannot wait."""
    launch = block.launch
    everyone, _, indices = _shape(launch.nx, launch.ny, launch.nz)
    places = zip(everyone, *indices)  # of the threads that have not begun
    early: Found | None = None

    def run(_: int) -> None:
        nonlocal early
        asked, here, call = launch.later.asked, block, thread
        for t, tx, ty, tz in places:
            if not t & 31:
                launch.look_at_clock()
            here.running = t
            try:
                call(t, tx, ty, tz)
            except Exited:
                pass
            except Exception as caught:
                early = _judged(caught, early, launch)
            if asked:
                launch.later.look(t)

    block.run_others = run
    run(0)
    block.run_others = None
    if early is not None:
        raise early


def _judged(caught: Exception, early: Found | None, launch: Launch) -> Found:
    """Return the read of unwritten memory that ends a launch, unless the other threads then show that it is a race.

    They run to the next barrier, only to find out whether one of them writes the memory; their other errors are
    ignored. If a thread has let this one go first, it may have the same to report, and comes first.
    """
    if is_outside(caught) or not isinstance(caught, Found) and early is None:
        raise caught
    unwritten = isinstance(caught, Found) and caught.report.startswith("initcheck")
    if isinstance(caught, Fault) and caught.report.startswith("racecheck"):
        raise caught
    if early is None:
        if not isinstance(caught, Unwritten) and not (unwritten and launch.later.nested):
            raise caught
        return caught  # type: ignore[return-value]
    return caught if unwritten and caught.thread < early.thread else early  # type: ignore[attr-defined,return-value]


@lru_cache(maxsize=256)
def _shape(nx: int, ny: int, nz: int) -> tuple[list[int], list[list[int]], tuple[list[int], ...]]:
    """Return the threads of a block of this size, the threads of each warp, and the threads' indices x, y and z."""
    everyone = list(range(nx * ny * nz))
    warps = [everyone[start : start + 32] for start in range(0, len(everyone), 32)]
    return (
        everyone,
        warps,
        ([t % nx for t in everyone], [t // nx % ny for t in everyone], [t // nx // ny for t in everyone]),
    )


class Team:
    """The threads of one block that can wait.

    Why long  every kind of waiting is decided by the state of all threads of the block
    """

    def __init__(self, thread: Callable[[int, int, int, int], Generator[Any, Any, None]], block: Block) -> None:
        launch = block.launch
        self.block = block
        self.everyone, self.warps, indices = _shape(launch.nx, launch.ny, launch.nz)
        self.threads: list[Generator[Any, Any, None] | None] = list(map(thread, self.everyone, *indices))
        self.left = len(self.threads)
        self.waiting: list[Request | None] = [None] * self.left  # the request of each waiting thread
        self.resumed = self.waiting  # the requests before the waiting loops were last resumed
        self.ended = [0] * len(self.warps)  # how many threads of each warp have ended
        self.ready: list[dict[int, Any]] = [
            dict.fromkeys(warp) for warp in self.warps
        ]  # thread -> the value to send to it
        self.arrived: dict[int, int] = {}  # barrier -> the number of threads that arrived without waiting
        self.moves = 0  # changes whenever a thread does more than wait
        self.early: Found | None = None  # a read that ends the launch when the other threads have reached a barrier
        # the threads of each warp that have not had their turn since it began to run
        self.rests: list[Iterator[tuple[int, Any]]] = [iter(())] * len(self.warps)
        block.run_others, block.can_wait = self._run_others, True

    def run(self) -> bool:
        """Run until all threads have ended; return False if the remaining ones may wait for other blocks.

        raises  Fault   a deadlock (719)
        """
        try:
            return self._run()
        except Fault as reason:
            if self.early is None or reason.report.startswith("racecheck"):
                raise
            raise self.early from None  # a thread that ended early may have caused the other error

    def _run(self) -> bool:
        waits = 0  # how often all threads waited, and at least one of them in a loop
        while self.left:
            moved = False
            for number in range(len(self.warps)):
                if self.ready[number]:
                    moved = self._run_warp(number) or moved
            self.moves += moved
            if self.early is not None and not (moved and any(self.ready)):
                raise self.early
            if not self.left:
                break
            if self._barriers() or self._convergence():
                continue
            if any(request is not None and request[0] == "spin" for request in self.waiting):
                waits += 1
                self._spin()
                if not moved or waits == MOST_WAITS:
                    self.block.launch.delays.end()
                    return False
                continue
            if not any(self.ready):
                if any(request is not None and request[0] == "cluster" for request in self.waiting):
                    return False
                raise self.deadlock()
        return True

    # -- one warp

    def _run_warp(self, number: int) -> bool:
        """Run a warp until each of its threads waits for another warp; tell whether one did more than spin."""
        block, ready = self.block, self.ready[number]
        moved = False
        while ready:
            self.ready[number] = {}
            block.switches += 1
            block.launch.look_at_clock()
            self.rests[number] = iter(ready.items())
            moved = self._run_rest(number) or moved
            self._serve(number)
            ready = self.ready[number]
        return moved

    def _run_rest(self, number: int) -> bool:
        """Give the threads of a warp that have not had it their turn; tell whether one did more than spin."""
        threads, waiting, block, later = self.threads, self.waiting, self.block, self.block.launch.later
        moved = False
        for t, value in self.rests[number]:
            block.running = t
            try:
                thread: Any = threads[t]
                if value.__class__ is Undefined:
                    request = thread.throw(value)
                else:
                    request = thread.send(value)
            except (StopIteration, Exited):
                request = None
            except Exception as caught:
                self.early, request = _judged(caught, self.early, block.launch), None
            if later.asked:
                later.look(t)
            if request is None:
                threads[t] = waiting[t] = None
                self.left -= 1
                self.ended[number] += 1
                moved = True
                if block.together is not None and block.together.status:
                    block.together.leave(block, t)
                if block.late is not None:
                    block.late.leave(t)
                continue
            waiting[t] = request
            kind = request[0]
            if kind != "spin":
                moved = True
                if kind == "bar" and request[3] == "arrive":
                    self._arrive(t, request)
                elif kind == "cluster" and block.mates.may_pass(block, t, request[2]):
                    waiting[t], self.ready[number][t] = None, None
        return moved

    def _run_others(self, t: int) -> None:
        """Run the threads beside one that is in its turn, those of its warp first, until each waits."""
        self._run_rest(t >> 5)
        for number, ready in enumerate(self.ready):
            if number != t >> 5 and ready:
                self._run_warp(number)

    def _serve(self, number: int) -> None:
        """Release the groups of a warp whose members have all arrived."""
        warp, waiting = self.warps[number], self.waiting
        requests = waiting[warp[0] : warp[0] + len(warp)]
        first = requests[0]
        if _alike(requests) and (first is None or first[0] not in _WARP):
            return
        if first is not None and first[0] in _WARP and first[2] is not None:  # usually all lanes make the same request
            kind, verb, mask = first[:3]
            if not ~mask & (1 << len(warp)) - 1:
                for request in requests:
                    if request is None or request[0] != kind or request[1] != verb or request[2] != mask:
                        break
                else:
                    self._release(number, warp)
                    return
        groups: dict[Request, list[int]] = {}
        for t, request in zip(warp, requests):
            if request is not None and request[0] in _WARP and request[2] is not None:
                groups.setdefault(request[:3], []).append(t)
        for (_, _, mask), members in groups.items():
            if self._complete(number, mask, members):
                self._release(number, members)

    def _complete(self, number: int, mask: int, members: list[int]) -> bool:
        first = self.warps[number][0]
        here = 0
        for t in members:
            here |= 1 << (t - first)
        for t in members:
            if not mask >> (t - first) & 1:
                raise self._found(f"thread {t} is not in the member mask {mask:#x} that it gave to a warp operation", t)
        for t in self.warps[number]:
            if mask >> (t - first) & 1 and not here >> (t - first) & 1 and self.threads[t] is not None:
                return False
        return True

    def _release(self, number: int, members: list[int]) -> None:
        waiting = self.waiting
        first = self.warps[number][0]
        requests: list[Any] = [waiting[t] for t in members]
        if requests[0][0] != "activemask":
            whole = len(self.warps[number])
            living = whole - self.ended[number]
            if living < whole and requests[0][2] is not None:
                self._named(number, members)
            self.block.order_warp(number, members, len(members) < living)
        if members is self.warps[number]:
            lanes = self.everyone[: len(members)]
        else:
            lanes = [t - first for t in members]
        answers = exchange(lanes, requests)
        if requests[0][0] == "shfl" and (len(members) < 32 or self.block.launch.marking):
            answers = self._marked(number, members, requests, answers)
        if members is self.warps[number]:
            waiting[first : first + len(members)] = [None] * len(members)
        else:
            for t in members:
                waiting[t] = None
        self.ready[number].update(zip(members, answers))

    def _marked(self, number: int, members: list[int], requests: list[Request], answers: list[Any]) -> list[Any]:
        """Return the answers of a shuffle, as exceptions where the values are undefined."""
        launch, first = self.block.launch, self.warps[number][0]
        made = []
        for t, request, (value, inside) in zip(members, requests, answers):
            mark: Mark | None = None
            if value.__class__ is Marked:
                value, mark = value.value, value.mark
            source, _ = source_of(request[1], t - first, request[5] & 31, request[6])
            if source + first not in members and launch.space.watch:
                mark = self._absent_mark(number, t, source, request)
            made.append((value, inside) if mark is None else Undefined([mark], (value, inside)))
        return made

    def _absent_mark(self, number: int, t: int, source: int, request: Request) -> Mark | None:
        """Return the mark of the value of a lane that takes no part in a shuffle."""
        launch = self.block.launch
        if not launch.space.strict and (launch.code_name, -_line(self.waiting[t])) in launch.space.told:
            return None
        found = self._found("", t)
        if request[2] is None:
            mask = ""
        else:
            mask = f" {request[2]:#x}"
        if source >= len(self.warps[number]):
            why = "has no thread"
        else:
            why = f"is not in the member mask{mask}"
        found.report = (
            f"synccheck: thread {self._index(t)} reads the value of lane {source} of its warp, which {why}: the value "
            "is undefined"
        )
        found.callers = tuple(line for _, line in found.frames[:-1][::-1])
        found.frames = []
        return Mark(found, True)

    def _named(self, number: int, members: list[int]) -> None:
        """Look for threads that have ended although the member mask of an operation names them.

        A vote or a barrier of the warp does not wait for them. A shuffle that reads the value of one is undefined; a
        lane that never had a thread, or that the mask does not name, is often read for a result that is not used.
        """
        first, living = self.warps[number][0], self.threads
        requests: list[Any] = [self.waiting[t] for t in members]
        kind, verb, mask = requests[0][:3]  # all members have the same ones
        ended = [u for u in self.warps[number] if living[u] is None and mask >> (u - first) & 1]
        for t, request in zip(members, requests) if ended else ():
            if kind == "shfl":
                source, inside = source_of(verb, t - first, request[5] & 31, request[6])
                if inside and source + first in ended:
                    raise self._found(
                        f"thread {self._index(t)} reads the value of lane {source} of its warp, whose thread "
                        f"{self._index(source + first)} has ended without this shuffle, although the member mask "
                        f"{mask:#x} names it: the value is undefined",
                        t,
                    )
            elif kind in ("vote", "match", "redux") and self.block.launch.space.meetings:
                self._doubt(
                    f"the member mask {mask:#x} of {kind} names thread {self._index(ended[0])}, which has ended "
                    "without it",
                    t,
                )
                return

    def _index(self, t: int) -> tuple[int, int, int]:
        return self.block.launch.index_of(t)

    def _found(self, text: str, t: int) -> Found:
        """Return the fault for a thread that waits, with its place in the code."""
        request: Any = self.waiting[t]
        made = Found(LAUNCH_FAILED, f"synccheck: {text}")
        made.line, made.block, made.thread = _line(request), self.block.number, t
        each: Any = self.threads[t]
        made.frames = []
        while isinstance(each, GeneratorType) and each.gi_frame is not None:
            made.frames.append((each.gi_frame, each.gi_frame.f_lineno))
            each = each.gi_yieldfrom
        return made

    def _doubt(self, text: str, t: int) -> None:
        """Report what is probably wrong, although newer devices define it; with the setting synccheck, raise it."""
        found = self._found(text, t)
        if self.block.launch.space.meetings:
            raise found
        self.block.launch.warn_at(found)

    # -- barriers

    def _arrive(self, t: int, request: Request) -> None:
        self.block.order()
        if self.block.launch.history is not None:
            self.block.launch.history.arrive(self.block, t, request[1])
        self.waiting[t] = None
        self.ready[t // 32][t] = None
        arrived = self.arrived.get(request[1], 0) + 1
        if arrived == request[2] and not any(each and each[:2] == ("bar", request[1]) for each in self.waiting):
            arrived = 0  # the phase is complete, although no thread waits for it
        self.arrived[request[1]] = arrived

    def _barriers(self) -> bool:
        waiting = self.waiting
        groups: dict[int, list[int]] = {}
        if waiting[0] is not None and waiting[0][0] == "bar" and _alike(waiting):
            groups[waiting[0][1]] = self.everyone
        else:
            for t, request in enumerate(waiting):
                if request is not None and request[0] == "bar":
                    groups.setdefault(request[1], []).append(t)
        released = False
        for barrier, members in groups.items():
            requests: list[Any] = [waiting[t] for t in members] if members is not self.everyone else waiting[:]
            alike = requests.count(requests[0]) == len(requests)  # usually they are one constant
            count = requests[0][2]
            if count or not alike:
                self._fits(barrier, members, count, alike)
            came = len(members) + self.arrived.get(barrier, 0)
            if came >= (count or self.left):
                self.arrived[barrier] = (came - count) % count if count else 0  # what came early for the next phase
                self._release_barrier(members, requests, alike)
                released = True
        return released

    def _fits(self, barrier: int, members: list[int], count: int, alike: bool) -> None:
        """Check the counts that threads gave to a barrier.

        raises  Fault   they differ, are no multiple of a warp, or are not the number of threads that came (719)
        """
        other: int | None = None
        if not alike:
            other = next((t for t in members if self.waiting[t][2] != count), None)  # type: ignore[index]
        first, text = members[0], ""
        if other is not None:
            counts = [self.waiting[t][2] or "all" for t in (first, other)]  # type: ignore[index]
            text = (
                f"thread {self._index(first)} waits at barrier {barrier} for {counts[0]} threads, and thread "
                f"{self._index(other)} for {counts[1]}, ptx line {_line(self.waiting[other])}"
            )
        elif count % 32:
            text = f"barrier {barrier} for {count} threads, which is not a multiple of 32"
        elif count > -(-len(self.threads) // 32) * 32:
            text = f"deadlock: barrier {barrier} is for {count} threads, and the block has {len(self.threads)}"
        elif 0 < count < len(members):
            text = f"{len(members)} threads came to barrier {barrier}, which is for {count}"
        if text:
            raise self._found(text, first)

    def _release_barrier(self, members: list[int], requests: list[Any], alike: bool) -> None:
        if not alike and any(request[5] != requests[0][5] for request in requests):
            self._converged(members)
        if self.left < len(self.threads) and not requests[0][2]:
            ended = self.threads.index(None)
            self._doubt(
                f"{len(members)} threads (first: {self._index(members[0])}) come to barrier {requests[0][1]}, and "
                f"{len(self.threads) - self.left} threads (first: {self._index(ended)}) have ended without it. From "
                "sm_70 on, CUDA waits only for the threads that have not ended; on older devices, the block may wait "
                "forever: let every thread come to the barrier, and put only the work into the `if`",
                members[0],
            )
        self.block.order(members, requests[0][1], len(members) < self.left)
        verb = requests[0][3]
        result: Any = None
        if verb in ("popc", "and", "or"):
            votes = [bool(request[4]) for request in requests]
            if verb == "popc":
                result = sum(votes)
            elif verb == "and":
                result = all(votes)
            else:
                result = any(votes)
        if len(members) == len(self.threads):
            self.waiting[:] = [None] * len(members)
            self.ready[:] = [dict.fromkeys(warp, result) for warp in self.warps]
            return
        for t in members:
            self.waiting[t], self.ready[t // 32][t] = None, result

    def _converged(self, members: list[int]) -> None:
        """Report threads of one warp at different aligned barriers, which the ISA leaves undefined.

        Threads of different warps may do that, and the barrier does not wait for threads that have ended.
        """
        places: dict[int, tuple[int, int]] = {}
        lines: dict[int, int] = {}  # a thread at each line
        for t in members:
            request = self.waiting[t]
            if request is not None and request[6]:
                other, line = places.setdefault(t // 32, (t, request[5]))
                if not request[2]:
                    lines.setdefault(request[5], t)
                if line != request[5]:
                    raise self._found(
                        f"barrier divergence: thread {self._index(other)} waits at ptx line {line}, and thread "
                        f"{self._index(t)} of the same warp at ptx line {request[5]}: all threads of a warp must reach "
                        "the same aligned barrier",
                        t,
                    )
        if len(lines) > 1:
            (line, other), (second, t) = list(lines.items())[:2]
            self._doubt(
                f"barrier divergence: thread {self._index(other)} waits at ptx line {line}, and thread "
                f"{self._index(t)} of another warp at ptx line {second}: __syncthreads() may be in conditional code "
                "only if all threads of the block take the same branch",
                t,
            )

    def _convergence(self) -> bool:
        """Answer one query for the active threads, when no other thread of its warp can continue."""
        for number, warp in enumerate(self.warps):
            groups: dict[Any, list[int]] = {}
            for t in warp if any(self.waiting[warp[0] : warp[0] + len(warp)]) else ():
                request = self.waiting[t]
                if request is not None and request[0] in _WARP and request[2] is None:
                    groups.setdefault((request[0], request[1], request[3]), []).append(t)
            if groups:
                self._release(number, max(groups.values(), key=len))
                return True
        return False

    def _spin(self) -> None:
        """Resume the threads that wait in a loop."""
        self.block.order()
        self.resumed = list(self.waiting)
        for t, request in enumerate(self.resumed):
            if request is not None and request[0] == "spin":
                self.waiting[t] = None
                self.ready[t // 32][t] = None

    # -- reports

    def deadlock(self) -> Fault:
        """Return the error for a block in which no thread can continue."""
        t = next(t for t, request in enumerate(self.waiting) if request is not None)
        return self._found("deadlock: no thread of the block can continue: " + self._whereabouts(), t)

    def endless(self, text: str, code: int) -> Fault:
        """Return the error for a block whose threads wait forever; `text`: what waits for what."""
        self.waiting = [now or before for now, before in zip(self.waiting, self.resumed)]
        t = next(t for t, request in enumerate(self.waiting) if request is not None)
        made = self._found(text + self._whereabouts(), t)
        made.code, made.report = code, made.report.replace("synccheck", "endless loop", 1)
        return made

    def _whereabouts(self) -> str:
        places: dict[str, list[int]] = {}
        for t, request in enumerate(self.waiting):
            if request is not None:
                places.setdefault(_words(request), []).append(t)
        ended = len(self.threads) - self.left
        texts = [
            f"{len(threads)} threads (first: {self.block.launch.index_of(threads[0])}) at {words}"
            for words, threads in places.items()
        ]
        if ended:
            texts.append(f"{ended} threads have ended")
        return "; ".join(texts)


_WARP = frozenset(("shfl", "vote", "match", "redux", "syncwarp", "activemask", "elect", *WHOLE))


def _alike(requests: list[Any]) -> bool:
    """Tell whether all requests are the same object, a constant of the generated code, or all are None."""
    return requests[0] is requests[-1] and requests.count(requests[0]) == len(requests)


def _line(request: Any) -> int:
    """Return the PTX line of a request."""
    return int(
        {"bar": lambda: request[5], "cluster": lambda: request[2], "spin": lambda: request[1]}.get(
            request[0], lambda: request[3]
        )()
    )


def _words(request: Request) -> str:
    kind = request[0]
    if kind == "bar":
        if request[2]:
            count = f" for {request[2]} threads"
        else:
            count = ""
        return f"barrier {request[1]}{count}, ptx line {request[5]}"
    if kind == "cluster":
        return f"the cluster's barrier, ptx line {request[2]}"
    if kind == "spin":
        return f"a waiting loop, ptx line {request[1]}"
    if request[2] is not None:
        mask = f" with member mask {request[2]:#x}"
    else:
        mask = ""
    return f"{kind}{'.' + request[1] if request[1] else ''}{mask}, ptx line {request[3]}"
