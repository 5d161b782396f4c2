"""How the blocks of a grid run: one after the other, or together because they may wait for each other.

What it is   `run_apart` and `run_together`, which run blocks with the scalar executor, and `run_alone`, which runs one
             to find out whether it ends. Which of them is right depends only on what the kernel can wait for, never on
             the size of the launch: see ptx/translating/waits.py and `Entry.run` in ptx/ptx_program.py.
How          A block whose threads all wait stays resident, and the next ones start. As on a GPU, blocks start in order,
             and only as many are resident as fit on the device; the next one starts when one has ended. If nothing has
             ended for some time, the state of all resident blocks is compared: if a whole pass over them changes
             neither memory nor a register, they wait forever.
Source       CUDA Programming Guide, "Cooperative Groups", "Grid Synchronization"
Read next    scheduler.py, which runs the threads of a block; clusters.py
"""

from __future__ import annotations

from hashlib import blake2b
from time import monotonic
from types import FrameType, GeneratorType

from ...machine.codes import LAUNCH_TIMEOUT
from ...machine.space import Fault
from .clusters import Group, clusters_of
from .lookups import Exited, Launch, Quiet
from .scheduler import Team, run_plainly
from .thread import Thread

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    Ended = Callable[[int], None]  # gets a number of blocks that have ended

__all__ = ["run_alone", "run_apart", "run_together"]

_SECONDS_OF_PROBE = 30.0
_COMPARED = 4  # passes that are compared with a state: waiting loops may take turns
_COUNTING = 10  # times as long as an unchanging wait, until a loop that only counts is taken for endless
_PLAIN = (int, float, str, type(None))


def run_apart(kernel: Callable[..., Any], launch: Launch, ended: Ended, first: int, count: int) -> None:
    """Run blocks whose threads cannot wait, one after the other."""
    delays, history = None if launch.delays is Quiet else launch.delays, launch.history
    for blocks in clusters_of(launch, first, count):
        for block in blocks:
            launch.block, block.present = block, True
            if delays is not None:
                delays.resume(block)
            run_plainly(kernel(launch, block), block)
            block.order()
            if delays is not None:
                delays.suspend(block)
            if history is not None:
                history.leave(block)
            block.present = False
            if launch.later.asked:
                launch.later.look(None)
            block.end()
            ended(1)


def run_together(kernel: Callable[..., Any], launch: Launch, ended: Ended, first: int, count: int) -> None:
    """Run clusters in order; one that waits stays resident, and the later ones start."""
    resident: list[Group] = []
    if launch.resident:
        most = max(launch.resident // launch.cluster_size, 1)
    else:
        most = count
    watch, alone, enough = _Watchdog(launch, count // launch.cluster_size), 0, 1
    for blocks in clusters_of(launch, first, count):
        launch.look_at_clock()
        while len(resident) >= most:
            resident = _pass(resident, ended, watch)
        group = Group([Team(kernel(launch, block), block) for block in blocks], launch)
        watch.start()
        if group.run():
            ended(len(blocks))
            alone += 1
            if resident and alone >= enough:  # they may be what the resident ones wait for
                before = len(resident)
                resident = _pass(resident, ended, watch)
                alone, enough = 0, 1 if len(resident) < before else 2 * enough
        else:
            resident.append(group)
    while resident:
        resident = _pass(resident, ended, watch)


def _pass(groups: list[Group], ended: Ended, watch: _Watchdog) -> list[Group]:
    """Let each cluster run until it waits again; return those that have not ended."""
    left = []
    for group in groups:
        if group.run():
            ended(len(group.teams))
        else:
            left.append(group)
    watch.look(left, len(groups) - len(left))
    return left


class _Watchdog:
    """The search for blocks that wait forever."""

    def __init__(self, launch: Launch, clusters: int) -> None:
        self.launch, self.unstarted = launch, clusters
        self.passes, self.since, self.after = 0, 0.0, 0.0
        self.kept: tuple[bytes, bytes] | None = None
        self.compared = 0

    def start(self) -> None:
        """Record that a cluster starts."""
        self.unstarted -= 1
        self._restart()

    def _restart(self) -> None:
        self.passes, self.kept = 0, None

    def look(self, groups: list[Group], ended: int) -> None:
        """Judge a pass over the resident clusters, of which a number have ended.

        raises  Fault   the others wait forever (702)
        """
        limits = self.launch.limits
        if ended or not groups:
            self._restart()
            return
        if not self.passes:
            self.since, self.after = monotonic(), limits.seconds
        self.passes += 1
        if self.passes > limits.turns:
            raise self._endless(groups)
        if self.kept is None:
            if monotonic() - self.since >= self.after:
                self.kept, self.compared = self._state(groups), 0
            return
        self.compared += 1
        started = monotonic()
        memory, registers = self._state(groups)
        if memory == self.kept[0]:
            counting = self.passes > limits.rounds and started - self.since >= _COUNTING * limits.seconds
            if registers == self.kept[1] or counting:
                raise self._endless(groups)
        if memory != self.kept[0] or self.compared == _COMPARED:
            self.kept, now = None, monotonic()
            self.after = max(2 * (now - self.since), 0.01, now - self.since + 20 * (now - started))

    def _state(self, groups: list[Group]) -> tuple[bytes, bytes]:
        """Return digests of all memory that the blocks can reach, and of their registers."""
        memory, registers = blake2b(digest_size=16), blake2b(digest_size=16)
        for each in self.launch.space.live():
            memory.update(b"%d " % each.base)
            memory.update(each.data)
        memory.update(b"%d" % self.launch.printed)
        for group in groups:
            for team in group.teams:
                memory.update(team.block.shared)
                registers.update(repr((team.waiting, team.arrived)).encode())
                if team.block.together is not None:
                    registers.update(repr(team.block.together.status).encode())
                for thread in team.threads:
                    running: Any = thread
                    while isinstance(running, GeneratorType):
                        if running.gi_frame is not None:
                            _add_registers(registers, running.gi_frame)
                        running = running.gi_yieldfrom
        return memory.digest(), registers.digest()

    def _endless(self, groups: list[Group]) -> Fault:
        team = next(team for group in groups for team in group.teams if team.left)
        self.launch.block = team.block
        text = "every remaining thread waits in a loop for another one: "
        if self.unstarted:
            number = len(groups) * self.launch.cluster_size
            text = (
                f"the {number} blocks that fit on the device at the same time all wait, and "
                f"{self.unstarted * self.launch.cluster_size} blocks can only start when one of these has ended: "
            )
        return team.endless(text, LAUNCH_TIMEOUT)


def _add_registers(registers: Any, frame: FrameType) -> None:
    """Add the values of a frame: its registers, its parameters, and its thread's local memory."""
    registers.update(b"%d" % frame.f_lasti)
    for name, value in frame.f_locals.items():
        if isinstance(value, _PLAIN):
            registers.update(f"{name} {value!r};".encode())
        elif isinstance(value, bytearray):
            registers.update(value)
        elif isinstance(value, Thread):
            for held in value.frames:
                registers.update(held.memory)


class _Enough(Exception):
    """The exception that ends a probe whose time is over."""


def run_alone(kernel: Callable[..., Any], launch: Launch, number: int, thread: int, together: bool) -> None:
    """Run one thread of a block, or the whole block if its threads synchronize, for some seconds.

    The kernel must not be one that can wait for other blocks.

    raises  Fault   it never ends (702), or it has another error
    """
    ((block,),) = clusters_of(launch, number, 1)
    until, told = monotonic() + _SECONDS_OF_PROBE, launch.after_refill

    def look() -> None:
        if monotonic() > until:
            raise _Enough

    launch.block, launch.after_refill, block.present = block, look, True
    try:
        if together:
            Group([Team(kernel(launch, block), block)], launch).run()
        else:
            block.running = thread
            x, y, z = launch.index_of(thread)
            kernel(launch, block)(thread, x, y, z)
    except (Exited, _Enough):
        pass
    finally:
        launch.after_refill = told
        block.end()
    launch.block = None
