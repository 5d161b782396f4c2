"""Conditions: values that kernels set, and by which conditional nodes choose.

Source       CUDA Driver API, cuGraphConditionalHandleCreate; CUDA device runtime API, cudaGraphSetConditional
Read next    executables.py
"""

from __future__ import annotations

from ...interface.thunks import entry, out, put_u64
from ...machine.codes import Refused
from ...machine.machine import Context, Machine
from .definitions import Graph, Node, graph_at

__all__ = ["Condition", "condition_at", "context_at"]

_ASSIGN_DEFAULT = 1
_FROM = 0x6C << 56


class Condition:
    """A value that belongs to a graph; `node` is the only conditional node that uses it."""

    __slots__ = ("handle", "graph", "context", "default", "assigns", "value", "node")

    def __init__(self, handle: int, graph: Graph, context: Context, default: int, assigns: bool) -> None:
        self.handle, self.graph, self.context = handle, graph, context
        self.default, self.assigns = default, assigns
        self.value = 0
        self.node: Node | None = None

    def begin(self) -> None:
        """Set the default value at the start of a launch."""
        if self.assigns:
            self.value = self.default


def context_at(machine: Machine, handle: int) -> Context:
    """Return the context of a handle, or the current one for NULL."""
    if not handle:
        return machine.context()
    found = machine.context_of(handle)
    found.check()
    return found


def condition_at(machine: Machine, graph: Graph, handle: int) -> Condition:
    """Return the condition of a handle for a new conditional node of a graph."""
    found: Condition | None = machine.space.conditions.get(handle)
    if found is None:
        raise Refused(1, f"{handle:#x} is not the handle of a condition")
    if found.graph.root is not graph.root:
        raise Refused(1, f"the condition {handle:#x} belongs to another graph: create one for this graph")
    if found.node is not None:
        raise Refused(1, f"the condition {handle:#x} is used by another node already: create one for each")
    return found


@entry(
    "cuGraphConditionalHandleCreate(CUgraphConditionalHandle *pHandle_out, CUgraph hGraph, CUcontext ctx, "
    "unsigned int defaultLaunchValue, unsigned int flags)",
    since=12030,
)
def create(machine: Machine, address: int, handle: int, context: int, default: int, flags: int) -> None:
    """Create a condition of a graph."""
    out(address)
    graph = graph_at(machine, handle)
    if flags & ~_ASSIGN_DEFAULT:
        raise Refused(1)
    made = Condition(
        _FROM + next(machine.counter), graph, context_at(machine, context), default, bool(flags & _ASSIGN_DEFAULT)
    )
    machine.space.conditions[made.handle] = made
    graph.conditions.append(made)
    put_u64(address, made.handle)
