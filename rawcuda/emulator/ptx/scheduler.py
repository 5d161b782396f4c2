"""Running the threads of a block: one after the other, each until it ends or waits.

Threads that cannot wait are plain calls. Threads that can are generators; each runs until it yields, then warps are
served (shuffles, votes), then barriers, and last those who ask which threads are active, when nobody else can move.
That is independent thread scheduling as the ISA allows it, in the order least kind to programs: a missing barrier gives
wrong numbers every time, and who waits for a thread that never comes is reported, not hung.

source       PTX ISA, "Parallel Synchronization and Communication Instructions"
Read next    warps.py, which computes what the lanes of a warp get
"""

from __future__ import annotations

from time import monotonic

from ..space import Fault
from .machine import LAUNCH_FAILED, LAUNCH_TIMEOUT, Block, Exited
from .warps import exchange

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Generator

    Request = tuple[Any, ...]

__all__ = ["Team", "run_plainly"]


def run_plainly(thread: Callable[[int, int, int, int], None], block: Block) -> None:
    """Run threads that cannot wait."""
    launch = block.launch
    t = 0
    for tz in range(launch.nz):
        for ty in range(launch.ny):
            for tx in range(launch.nx):
                block.running = t
                try:
                    thread(t, tx, ty, tz)
                except Exited:
                    pass
                t += 1


class Team:
    """The threads of one block, where they can wait."""

    def __init__(self, thread: Callable[[int, int, int, int], Generator[Any, Any, None]], block: Block) -> None:
        launch = block.launch
        self.block = block
        self.threads: list[Generator[Any, Any, None] | None] = [
            thread(tx + launch.nx * (ty + launch.ny * tz), tx, ty, tz)
            for tz in range(launch.nz)
            for ty in range(launch.ny)
            for tx in range(launch.nx)
        ]
        self.left = len(self.threads)
        self.waiting: list[Request | None] = [None] * self.left  # what each thread waits for
        self.warps: list[list[int]] = [
            list(range(start, min(start + 32, self.left))) for start in range(0, self.left, 32)
        ]
        self.ready: list[dict[int, Any]] = [dict.fromkeys(warp) for warp in self.warps]  # thread -> what to send it
        self.arrived: dict[int, int] = {}  # barrier -> threads that arrived without waiting
        self.idle_rounds = 0
        self.idle_since = 0.0

    def run(self) -> bool:
        """Run until all threads have ended; False when all that is left waits for other blocks.

        raises  Fault   a deadlock (719), a wait without end (702)
        """
        while self.left:
            moved = False
            for number in range(len(self.warps)):
                if self.ready[number]:
                    moved = self._run_warp(number) or moved
            if not self.left:
                break
            if self._barriers() or self._convergence():
                self.idle_rounds = 0
                continue
            if any(request is not None and request[0] == "spin" for request in self.waiting):
                self._spin(moved)
                if not moved:
                    return False
                continue
            if not any(self.ready):
                raise self._deadlock()
        return True

    # -- one warp

    def _run_warp(self, number: int) -> bool:
        """Run a warp until each of its threads waits for something outside it; tell whether one did more than spin."""
        threads, waiting, block = self.threads, self.waiting, self.block
        ready = self.ready[number]
        moved = False
        while ready:
            self.ready[number] = {}
            for t, value in ready.items():
                thread = threads[t]
                block.running = t
                try:
                    request = thread.send(value)  # type: ignore[union-attr]
                except (StopIteration, Exited):
                    threads[t] = None
                    waiting[t] = None
                    self.left -= 1
                    moved = True
                    continue
                waiting[t] = request
                if request[0] != "spin":
                    moved = True
                    if request[0] == "bar" and request[3] == "arrive":
                        self._arrive(t, request)
            self._serve(number)
            ready = self.ready[number]
        return moved

    def _serve(self, number: int) -> None:
        """Release the groups of a warp whose members have all come."""
        warp, waiting = self.warps[number], self.waiting
        requests = waiting[warp[0] : warp[0] + len(warp)]
        first = requests[0]
        if first is not None and first[0] in _WARP and first[2] is not None:  # mostly all lanes want the same
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
                raise Fault(LAUNCH_FAILED, f"thread {t} is not in the member mask {mask:#x} that it gave to a warp operation")
        for t in self.warps[number]:
            if mask >> (t - first) & 1 and not here >> (t - first) & 1 and self.threads[t] is not None:
                return False
        return True

    def _release(self, number: int, members: list[int]) -> None:
        waiting = self.waiting
        first = self.warps[number][0]
        requests = [waiting[t] for t in members]
        results = exchange([t - first for t in members], requests)  # type: ignore[arg-type]
        for t in members:
            waiting[t] = None
        self.ready[number].update(zip(members, results))

    # -- what a whole block waits for

    def _arrive(self, t: int, request: Request) -> None:
        self.arrived[request[1]] = self.arrived.get(request[1], 0) + 1
        self.waiting[t] = None
        self.ready[t // 32][t] = None

    def _barriers(self) -> bool:
        groups: dict[int, list[int]] = {}
        for t, request in enumerate(self.waiting):
            if request is not None and request[0] == "bar":
                groups.setdefault(request[1], []).append(t)
        released = False
        for barrier, members in groups.items():
            wanted = self.waiting[members[0]][2] or self.left  # type: ignore[index]
            if len(members) + self.arrived.get(barrier, 0) >= wanted:
                self.arrived.pop(barrier, None)
                self._release_barrier(members)
                released = True
        return released

    def _release_barrier(self, members: list[int]) -> None:
        requests = [self.waiting[t] for t in members]
        verb = requests[0][3]  # type: ignore[index]
        result: Any = None
        if verb in ("popc", "and", "or"):
            votes = [bool(request[4]) for request in requests]  # type: ignore[index]
            result = sum(votes) if verb == "popc" else all(votes) if verb == "and" else any(votes)
        for t in members:
            self.waiting[t] = None
            self.ready[t // 32][t] = result

    def _convergence(self) -> bool:
        """Answer one group that asked for whoever is there: nobody else in its warp can move."""
        for number, warp in enumerate(self.warps):
            groups: dict[Any, list[int]] = {}
            for t in warp:
                request = self.waiting[t]
                if request is not None and request[0] in _WARP and request[2] is None:
                    groups.setdefault((request[0], request[1], request[3]), []).append(t)
            if groups:
                self._release(number, max(groups.values(), key=len))
                return True
        return False

    def _spin(self, moved: bool) -> None:
        """Let those who wait in a loop look again."""
        if moved:
            self.idle_rounds = 0
        else:
            if not self.idle_rounds:
                self.idle_since = monotonic()
            self.idle_rounds += 1
            limits = self.block.launch.limits
            if self.idle_rounds > limits.rounds and monotonic() - self.idle_since >= limits.seconds:
                raise Fault(
                    LAUNCH_TIMEOUT, "every thread that is left waits in a loop for another one: " + self._whereabouts()
                )
        for t, request in enumerate(self.waiting):
            if request is not None and request[0] == "spin":
                self.waiting[t] = None
                self.ready[t // 32][t] = None

    # -- reports

    def _deadlock(self) -> Fault:
        return Fault(LAUNCH_FAILED, "deadlock: no thread of the block can go on: " + self._whereabouts())

    def _whereabouts(self) -> str:
        places: dict[str, list[int]] = {}
        for t, request in enumerate(self.waiting):
            if request is not None:
                places.setdefault(_words(request), []).append(t)
        ended = len(self.threads) - self.left
        texts = [f"{len(threads)} threads (first: {threads[0]}) at {words}" for words, threads in places.items()]
        if ended:
            texts.append(f"{ended} threads have ended")
        return "; ".join(texts)


_WARP = frozenset(("shfl", "vote", "match", "redux", "syncwarp", "activemask", "elect"))


def _words(request: Request) -> str:
    kind = request[0]
    if kind == "bar":
        count = f" for {request[2]} threads" if request[2] else ""
        return f"barrier {request[1]}{count}, ptx line {request[5]}"
    if kind == "spin":
        return f"a waiting loop, ptx line {request[1]}"
    mask = f" with member mask {request[2]:#x}" if request[2] is not None else ""
    return f"{kind}{'.' + request[1] if request[1] else ''}{mask}, ptx line {request[3]}"
