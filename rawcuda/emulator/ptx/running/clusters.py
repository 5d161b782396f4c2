"""Clusters: blocks that run at the same time, wait for each other, and use each other's shared memory.

What it is   `Group`, which runs the blocks of a cluster, and the division of a launch into clusters. A launch without
             clusters has clusters of one block.
What not     the barrier of a cluster and the memory of its other blocks, which cluster.py has.
How          The blocks run one after the other, each until all of its threads have ended or wait. When every thread of
             the cluster has arrived at the cluster's barrier, the threads that wait there continue.
Strict       A block's shared memory exists while the block runs. An access before the block has started or after it
             has ended is always an error here; on a GPU it may succeed. Only the cluster's barrier ensures that the
             other blocks have started.
Source       PTX ISA, "barrier.cluster"; CUDA Programming Guide, "Distributed Shared Memory"
Read next    grid.py
"""

from __future__ import annotations

from .cluster import Cluster
from .lookups import Block, Launch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from .scheduler import Team

__all__ = ["Group", "clusters_of", "divide"]

MOST_TURNS = 16  # of the blocks of a cluster that wait for each other, before other clusters run


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
