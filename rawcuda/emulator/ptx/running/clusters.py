"""Clusters: blocks that run at the same time, wait for each other, and use each other's shared memory.

What it is   `Cluster`, the blocks of one cluster and its barrier; `Group`, which runs the blocks. A launch without
             clusters has clusters of one block.
How          The blocks run one after the other, each until all of its threads have ended or wait. When every thread of
             the cluster has arrived at the cluster's barrier, the threads that wait there continue.
Strict       A block's shared memory exists while the block runs. An access before the block has started or after it
             has ended is always an error here; on a GPU it may succeed. Only the cluster's barrier ensures that the
             other blocks have started.
Source       PTX ISA, "barrier.cluster"; CUDA Programming Guide, "Distributed Shared Memory"
Read next    grid.py
"""

from __future__ import annotations

from ...space import Fault
from ..checking.places import shared_fault
from ..translating.unit import CLUSTER_BITS, SHARED_WINDOW
from .machine import ILLEGAL_ADDRESS, LAUNCH_FAILED, Block, Launch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from .races import Watch
    from .scheduler import Team

__all__ = ["Cluster", "Group", "clusters_of", "divide"]

MOST_TURNS = 16  # of the blocks of a cluster that wait for each other, before other clusters run
_ARRIVED, _PASSED = 1, 2
_OFFSET = (1 << CLUSTER_BITS) - 1


class Cluster:
    """The blocks of a cluster, and what its threads have done at its barrier.

    status  for each thread that has arrived, (rank of the block, thread): whether all others have arrived since
    """

    __slots__ = ("blocks", "status")

    def __init__(self, blocks: list[Block]) -> None:
        self.blocks = blocks
        self.status: dict[tuple[int, int], int] = {}

    def arrive(self, block: Block, line: int) -> None:
        """Record that the running thread has arrived.

        raises  Fault   it has arrived before, and has not waited since (719)
        """
        key = block.cluster_rank, block.running or 0
        if key in self.status:
            raise Fault(LAUNCH_FAILED, "a second barrier.cluster.arrive without barrier.cluster.wait between the two")
        self.status[key] = _ARRIVED

    def may_pass(self, block: Block, t: int, line: int) -> bool:
        """Tell whether a thread that waits may continue at once.

        raises  Fault   it has not arrived (719)
        """
        status = self.status.get((block.cluster_rank, t))
        if status is None:
            raise Fault(
                LAUNCH_FAILED, f"barrier.cluster.wait without barrier.cluster.arrive before it, ptx line {line}"
            )
        if status == _PASSED:
            del self.status[block.cluster_rank, t]
            block.order()
        return status == _PASSED

    def complete(self, teams: list[Team]) -> bool:
        """Let the waiting threads continue if every thread that has not ended has arrived; tell whether they do."""
        left = sum(team.left for team in teams)
        if not left or sum(status == _ARRIVED for status in self.status.values()) < left:
            return False
        self.status = dict.fromkeys(self.status, _PASSED)
        history = teams[0].block.launch.history
        if history is not None:
            history.meet(self.blocks, None)
        for team in teams:
            rank, waiting = team.block.cluster_rank, team.waiting
            team.block.order()
            for t, request in enumerate(waiting):
                if request is not None and request[0] == "cluster":
                    del self.status[rank, t]
                    waiting[t] = None
                    team.ready[t // 32][t] = None
        return True

    def leave(self, block: Block, t: int) -> None:
        """Forget a thread that has ended."""
        self.status.pop((block.cluster_rank, t), None)

    def reach(self, block: Block, address: int, code: str, total: int) -> tuple[memoryview, int]:
        """Return the memory of an access to any block's shared memory: the view of the block, and the offset.

        raises  Fault   misaligned (716); past the end, or no such block (700); a block that does not run (719)
        """
        rank, place = ((address & 0xFFFFFFFF) >> CLUSTER_BITS) - 1, address & _OFFSET
        if rank >= 0:
            if rank >= len(self.blocks):
                raise Fault(
                    ILLEGAL_ADDRESS,
                    f"shared memory of block {rank} of the cluster, which has {len(self.blocks)} blocks",
                )
            block = self.blocks[rank]
            if not block.present:
                happened = "has not started" if block.present is None else "has ended"
                raise Fault(
                    LAUNCH_FAILED,
                    f"shared memory of block {rank} of the cluster, which {happened}: a barrier of the cluster must "
                    "keep it running",
                )
        if place % total or not block.launch.in_shared(place, total):
            raise shared_fault(block.launch, place, total, total, block.cluster_rank)
        return block.shared_view(code), place

    def want(self, block: Block, address: int, total: int, line: int) -> None:
        """Check that the memory that a thread of a block reads was written.

        raises  Undefined   it was not
        """
        watch, place = self._watch_of(block, address)
        if watch is not None:
            watch.want(place // watch.granule, max(1, total // watch.granule), line)

    def mark(self, block: Block, address: int, total: int) -> None:
        """Record that a thread of a block writes memory."""
        watch, place = self._watch_of(block, address)
        if watch is not None:
            watch.mark(place // watch.granule, max(1, total // watch.granule))

    def update(self, block: Block, address: int, total: int, line: int) -> None:
        """Record that a thread of a block changes memory by an atomic.

        raises  Fault   the memory was never written, and the emulator is strict (719)
        """
        watch, place = self._watch_of(block, address)
        if watch is not None:
            watch.update(place // watch.granule, max(1, total // watch.granule), line)

    def _watch_of(self, block: Block, address: int) -> tuple[Watch | None, int]:
        """Return the Watch of the shared memory that an address names, if it has one, and the place in this memory."""
        rank = ((address & 0xFFFFFFFF) >> CLUSTER_BITS) - 1
        return (block if rank < 0 else self.blocks[rank])._watch, address & _OFFSET

    def mapped(self, address: int, rank: int, generic: bool) -> int:
        """Return the address of the same place in another block's shared memory (mapa).

        raises  Fault   a generic address that is not of shared memory (719)
        """
        base = _window(address, generic)
        return base + ((rank + 1 << CLUSTER_BITS) & 0xFFFFFFFF | address - base & _OFFSET)

    def rank_of(self, block: Block, address: int, generic: bool) -> int:
        """Return the rank of the block that an address of shared memory belongs to (getctarank).

        raises  Fault   a generic address that is not of shared memory (719)
        """
        tag = address - _window(address, generic) >> CLUSTER_BITS
        return tag - 1 if tag else block.cluster_rank


def _window(address: int, generic: bool) -> int:
    """Return the base of an address: the window of shared memory for a generic address, otherwise 0."""
    if generic and not 0 <= address - SHARED_WINDOW < 1 << 32:
        raise Fault(LAUNCH_FAILED, f"address {address:#x} is not in shared memory")
    return SHARED_WINDOW if generic else 0


class Group:
    """The teams of a cluster's blocks, which run until they end or wait for blocks of other clusters."""

    __slots__ = ("teams", "launch")

    def __init__(self, teams: list[Team], launch: Launch) -> None:
        self.teams, self.launch = teams, launch

    def run(self) -> bool:
        """Run until all threads have ended; return False if the remaining ones may wait for other clusters.

        raises  Fault   a deadlock (719)
        """
        several = len(self.teams) > 1  # with a single block, another turn changes nothing
        turns = 0
        while True:
            moved = False
            for team in self.teams:
                block = team.block
                if team.left:
                    self.launch.block = block
                    before, block.present = team.moves, True
                    self.launch.delays.resume(block)
                    if team.run():
                        block.present = False
                        block.order()
                        if self.launch.history is not None:
                            self.launch.history.leave(block)
                    self.launch.delays.suspend(block)
                    if not team.left:
                        block.end()
                    moved = moved or several and team.moves != before
            left = [team for team in self.teams if team.left]
            if not left:
                return True
            cluster = left[0].block.together
            if cluster is not None and cluster.complete(self.teams):
                continue
            turns += 1
            if not moved or turns == MOST_TURNS:
                if any(any(team.ready) for team in left):  # one of their loops may see what another cluster writes
                    return False
                if not moved:
                    self.launch.block = left[0].block
                    raise left[0].deadlock()


def divide(launch: Launch, cluster: tuple[int, int, int]) -> None:
    """Divide the grid of a launch into clusters."""
    (x, y, z), launch.cluster, launch.explicit_cluster = cluster, cluster, True
    launch.clusters = launch.gx // x, launch.gy // y, launch.gz // z
    launch.cluster_size = x * y * z


def clusters_of(launch: Launch, first: int, count: int) -> Iterator[list[Block]]:
    """Yield the blocks of each cluster of a grid, in order, and in the order of their ranks.

    shape   first, count: which blocks, if each is a cluster of its own; otherwise all clusters are made
    """
    if launch.cluster == (1, 1, 1):
        gx, gy = launch.gx, launch.gy
        for number in range(first, first + count):
            yield [Block(launch, number % gx, number // gx % gy, number // (gx * gy))]
        return
    sides = launch.cluster
    places = [(x, y, z) for z in range(sides[2]) for y in range(sides[1]) for x in range(sides[0])]
    counts = launch.clusters
    for kz in range(counts[2]):
        for ky in range(counts[1]):
            for kx in range(counts[0]):
                made = Cluster([_block(launch, (kx, ky, kz), place, rank) for rank, place in enumerate(places)])
                for block in made.blocks:
                    block.together = made
                yield made.blocks


def _block(launch: Launch, index: Any, place: Any, rank: int) -> Block:
    block = Block(launch, *[i * side + at for i, side, at in zip(index, launch.cluster, place)])
    block.cluster, block.cluster_place, block.cluster_rank = index, place, rank
    return block
