"""A cluster: the blocks that can use each other's shared memory, and the barrier at which they meet.

What it is   `Cluster`, the blocks of one cluster and its barrier. A block of a launch without clusters is a cluster of
             its own.
Source       PTX ISA, "barrier.cluster", "mapa", "getctarank"
Read next    clusters.py, which makes and runs clusters
"""

from __future__ import annotations

from ...machine.codes import ILLEGAL_ADDRESS, LAUNCH_FAILED
from ...machine.space import Fault
from ..checking.places import shared_fault
from ..translating.unit import CLUSTER_BITS, SHARED_WINDOW

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .lookups import Block
    from .races import Watch
    from .scheduler import Team

__all__ = ["Cluster"]

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
                if block.present is None:
                    happened = "has not started"
                else:
                    happened = "has ended"
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
        if tag:
            return tag - 1
        return block.cluster_rank


def _window(address: int, generic: bool) -> int:
    """Return the base of an address: the window of shared memory for a generic address, otherwise 0."""
    if generic and not 0 <= address - SHARED_WINDOW < 1 << 32:
        raise Fault(LAUNCH_FAILED, f"address {address:#x} is not in shared memory")
    if generic:
        return SHARED_WINDOW
    return 0
