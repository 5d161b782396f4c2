"""The text of a graph in the language of Graphviz.

What not     the driver's own format, which is not documented: the labels are similar.
Source       CUDA Driver API, cuGraphDebugDotPrint
Read next    capture.py
"""

from __future__ import annotations

from ...interface.thunks import entry, text
from ...machine.codes import Refused
from ...machine.machine import Machine
from .definitions import Graph, Node, graph_at
from .operations import Allocate, Conditional, Copy, Fill, Free, Host, Launch, Record, Wait

__all__ = ["dot_of"]

_VERBOSE, _HANDLES = 1, 1 << 10
_NAMES = {0: "KERNEL", 1: "MEMCPY", 2: "MEMSET", 3: "HOST", 4: "GRAPH", 5: "EMPTY", 6: "EVENT_WAIT"}
_NAMES.update({7: "EVENT_RECORD", 10: "MEM_ALLOC", 11: "MEM_FREE", 12: "BATCH_MEM_OP", 13: "CONDITIONAL"})
_DETAILS = {0: 1 << 2, 1: 1 << 3, 2: 1 << 4, 3: 1 << 5, 6: 1 << 6, 7: 1 << 6, 10: 1 << 11, 11: 1 << 12, 13: 1 << 15}


def _details(node: Node) -> list[str]:
    does = node.does
    if isinstance(does, Launch):
        return [f"grid {does.grid}", f"block {does.block}", f"shared {does.shared}"]
    if isinstance(does, Copy):
        return [f"{does.words[22]} x {does.words[23]} x {does.words[24]} bytes"]
    if isinstance(does, Fill):
        return [f"{does.address:#x} = {does.value:#x}", f"{does.count} x {does.height} of {does.width} bytes"]
    if isinstance(does, Host):
        return [f"fn {does.function:#x}", f"userData {does.data:#x}"]
    if isinstance(does, (Wait, Record)):
        return [f"event {does.event.handle:#x}"]
    if isinstance(does, (Allocate, Free)):
        return [f"{does.memory.base:#x}, {does.memory.size} bytes"]
    if isinstance(does, Conditional):
        return [f"condition {does.condition.handle:#x}"]
    return []


def _escaped(words: str) -> str:
    return words.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")


def dot_of(graph: Graph, flags: int, name: str = "graph_1") -> list[str]:
    """Return the lines of a graph: a subgraph for each graph inside a node."""
    lines = [f'subgraph "cluster_{name}" {{', f'label="{name}";']
    for number, node in enumerate(graph.nodes):
        label = [str(number), _NAMES[node.does.type]]
        if isinstance(node.does, Launch):
            label.append(node.does.name)
        if flags & (_DETAILS.get(node.does.type, 0) | _VERBOSE):
            label += _details(node)
        if flags & (_VERBOSE | _HANDLES):
            label.append(f"{node.handle:#x}")
        lines.append(f'"{name}_node_{number}" [shape="box" label="{_escaped(" | ".join(label))}"];')
    places = {node: number for number, node in enumerate(graph.nodes)}
    for node, number in places.items():
        lines += [f'"{name}_node_{places[other]}" -> "{name}_node_{number}";' for other in node.after]
    for node, number in places.items():
        for part, inner in enumerate(node.inside):
            lines += dot_of(inner, flags, f"{name}_{number}_{part}")
    return [*lines, "}"]


@entry("cuGraphDebugDotPrint(CUgraph hGraph, const char *path, unsigned int flags)", since=11030)
def dot_print(machine: Machine, handle: int, path: int, flags: int) -> None:
    """Write a graph to a file."""
    graph, name = graph_at(machine, handle), text(path)
    if flags & ~0xFFFF:
        raise Refused(1)
    try:
        with open(name, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write("digraph dot {\n" + "\n".join(dot_of(graph, flags)) + "\n}\n")
    except OSError as reason:
        raise Refused(304, f"{name}: {reason}") from None
