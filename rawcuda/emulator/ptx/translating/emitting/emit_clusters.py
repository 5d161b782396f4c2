"""Instructions of clusters: the cluster's barrier, and the shared memory of the other blocks.

In an address of the cluster's shared memory, the bits from 24 on are the rank of a block plus one, or 0 for the block
of the thread, and the lower bits are the offset in the memory of that block. So an address of shared::cta is also an
address of shared::cluster, and a generic address is the window of shared memory plus either of them.

Source       PTX ISA, "barrier.cluster", "mapa", "getctarank"; "State Spaces", Shared State Space
Read next    ../table/cluster_opcodes.py, its rows; ../../running/clusters.py, which runs the blocks of a cluster
"""

from __future__ import annotations

from ...reading.syntax import BITS, Int, Register, Symbol, Variable
from .control import ControlEmitter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...reading.syntax import Instruction, Operand
    from ..table.forms import Shape

__all__ = ["ClusterEmitter"]


class ClusterEmitter(ControlEmitter):
    """The emitter of instructions that need a cluster."""

    def do_bar_cluster(self, instruction: Instruction, shape: Shape) -> None:
        """Write an arrival at the cluster's barrier, or a wait for it."""
        self.needs_block = True
        if shape.has("arrive"):
            self.needs_block = True
            self.put(f"B.mates.arrive(B, {self.line})")
            self.put_order(True)
        else:
            self.put(f"yield 'cluster', 'wait', {self.line}")

    def do_mapa(self, instruction: Instruction, shape: Shape) -> None:
        """Write the address of the same place in the shared memory of another block of the cluster."""
        target, source, rank = instruction.operands
        self.needs_block = True
        generic = not shape.has("shared::cluster")
        address = self._shared_source(instruction, source, shape.type, generic)
        self.assign(target, f"b{BITS[shape.type]}", f"B.mates.mapped({address}, {self.value(rank, 'u32')}, {generic})")

    def do_getctarank(self, instruction: Instruction, shape: Shape) -> None:
        """Write the rank of the block that an address in the cluster's shared memory belongs to."""
        target, source = instruction.operands
        self.needs_block = True
        generic = not shape.has("shared::cluster")
        self.assign(
            target,
            "b32",
            f"B.mates.rank_of(B, {self._shared_source(instruction, source, shape.type, generic)}, {generic})",
        )

    def _shared_source(self, instruction: Instruction, source: Operand, type: str, generic: bool) -> str:
        """Return the address operand of mapa or getctarank: a register, or, if it is not generic, a shared variable."""
        if isinstance(source, Register) and BITS[source.type] == BITS[type] and source.type[0] != "f":
            if generic and BITS[type] == 32:
                raise self.reject(f"'{instruction.opcode}.u32' of a generic address is not emulated: use .u64")
            return self.value(source, f"b{BITS[type]}")
        if not generic and isinstance(source, Symbol):
            if isinstance(source.target, Variable) and source.target.space == "shared":
                return self.symbol(source)
        if not generic and isinstance(source, Int):
            return self.value(source, f"b{BITS[type]}")
        raise self.mismatch(instruction)
