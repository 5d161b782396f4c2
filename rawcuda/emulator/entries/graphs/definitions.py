"""Graphs: their nodes and edges, and the calls that query and change them.

How          nodes are listed in the order in which they were added. Each node knows the nodes that it waits for, in the
             order of the edges, and the eight bytes of data of each edge. A graph inside a node (a child graph, the
             body of a conditional node) knows that node, and is destroyed with it.
Source       CUDA Driver API, "Graph Management"
Read next    parameter_entries.py
"""

from __future__ import annotations

import ctypes
import struct
import sys

from ...interface.thunks import WORD, entry, get_word, out, put_bytes, put_int, put_word, take
from ...machine.codes import LOSSY_QUERY, Refused
from ...machine.machine import Machine
from .operations import Allocate, Child, Conditional, Free, Operation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from .capture import Capture
    from .objects import UserObject

__all__ = ["Graph", "Node", "cycle_in", "graph_at", "let_go", "node_at", "nodes_at", "share_all"]

PLAIN = bytes(8)  # the data of an ordinary edge
_IN_BODIES = frozenset((0, 1, 2, 4, 5, 13))  # the types of nodes that bodies of conditional nodes may contain


class Node:
    """A node: what it does, and the nodes that it waits for with the data of each edge.

    shown   the function and arguments of a launch, and the C memory from which a caller may read them
    """

    __slots__ = ("handle", "graph", "does", "after", "shown")

    def __init__(self, graph: Graph, does: Operation, after: dict[Node, bytes]) -> None:
        self.handle = 0
        self.graph, self.does, self.after = graph, does, after
        self.shown: tuple[Any, bytes, Any, Any] | None = None

    @property
    def inside(self) -> tuple[Graph, ...]:
        """Return the graphs in this node: a child graph, or the bodies of a conditional node."""
        does = self.does
        if isinstance(does, Child):
            return (does.graph,)
        if isinstance(does, Conditional):
            return does.bodies
        return ()

    def __repr__(self) -> str:
        return f"<node {self.graph.nodes.index(self) if self in self.graph.nodes else '?'}: {self.does.name}>"


class Graph:
    """A list of nodes; `parent` is the node that contains this graph, or None."""

    __slots__ = (
        "handle", "nodes", "parent", "capture", "conditions", "objects", "executables", "users", "counted", "origin",
    )  # fmt: skip

    def __init__(self, parent: Node | None = None) -> None:
        self.handle = 0
        self.nodes: list[Node] = []
        self.parent = parent
        self.capture: Capture | None = None  # the capture that adds nodes now
        self.conditions: list[Any] = []
        self.objects: dict[UserObject, int] = {}
        self.executables = 0  # how many executable graphs of it there are
        self.users = 0  # how many executable graphs have its conditions
        self.counted = parent is None  # among the objects that the user must destroy
        self.origin: dict[Node, Node] = {}  # of a clone: node of the original -> node of the clone

    @property
    def root(self) -> Graph:
        """Return the graph that contains this one at the outermost level, or this one."""
        graph = self
        while graph.parent is not None:
            graph = graph.parent.graph
        return graph

    @property
    def choice(self) -> Conditional | None:
        """Return the innermost conditional node that has this graph, at any level, in its body."""
        graph = self
        while graph.parent is not None:
            if isinstance(graph.parent.does, Conditional):
                return graph.parent.does
            graph = graph.parent.graph
        return None

    def walk(self) -> Iterator[Node]:
        """Yield the nodes of this graph and of all graphs inside it."""
        for node in self.nodes:
            yield node
            for inner in node.inside:
                yield from inner.walk()

    def parts(self) -> Iterator[Graph]:
        """Yield this graph and all graphs inside it."""
        yield self
        for node in self.nodes:
            for inner in node.inside:
                yield from inner.parts()

    def holds(self, *kinds: type[Operation]) -> bool:
        """Tell whether a node of these kinds is in this graph, at any level."""
        return any(isinstance(node.does, kinds) for node in self.walk())

    def check_node(self, does: Operation) -> None:
        """Refuse an operation that this graph cannot contain."""
        if self.choice is not None and any(
            each.type not in _IN_BODIES
            for each in (does, *(node.does for graph in _graphs_of(does) for node in graph.walk()))
        ):
            raise Refused(801, f"the body of a conditional node cannot contain {does.name}")

    def add(self, machine: Machine, does: Operation, after: dict[Node, bytes]) -> Node:
        """Add a node."""
        self.check_node(does)
        node = machine.add(Node(self, does, after))
        for inner in node.inside:
            inner.parent = node
        self.nodes.append(node)
        return node

    def refuse_while_capturing(self) -> None:
        """Refuse to remove nodes, or to use the graph, while a capture adds nodes to it.

        Other changes are permitted.
        source  CUDA Driver API, cuStreamGetCaptureInfo, graph_out
        """
        if self.capture is not None:
            raise Refused(
                401, "a stream captures into this graph: end the capture before you remove its nodes, or use it"
            )

    def copy(self, machine: Machine | None, twins: dict[Node, Node], parent: Node | None = None) -> Graph:
        """Return a copy, and add each node with its copy to `twins`.

        machine  if it is given, the copies get handles
        """
        made = Graph(parent)
        for node in self.nodes:
            twins[node] = twin = Node(made, node.does, {})
            if machine is not None:
                machine.add(twin)
            does = node.does
            if isinstance(does, Child):
                twin.does = Child(does.graph.copy(machine, twins, twin), does.ownership)
                if machine is not None:
                    machine.add(twin.does.graph)
            elif isinstance(does, Conditional):
                bodies = tuple([body.copy(machine, twins, twin) for body in does.bodies])
                twin.does = Conditional(does.condition, does.form, bodies)
            made.nodes.append(twin)
        for node in self.nodes:
            twins[node].after = {twins[other]: data for other, data in node.after.items()}
        return made

    def forget(self, machine: Machine) -> None:
        """Remove the handles of this graph, its nodes and the graphs inside them."""
        for node in self.nodes:
            for inner in node.inside:
                inner.forget(machine)
            machine.handles.pop(node.handle, None)
        machine.handles.pop(self.handle, None)
        if not self.root.users:  # else they are dropped with the last of these, which may still be launched
            self.drop_conditions(machine)
        let_go(machine, self.objects)

    def drop_conditions(self, machine: Machine) -> None:
        """Make the handles of the conditions of this graph, and of the graphs inside it, invalid."""
        for condition in self.conditions:
            machine.space.conditions.pop(condition.handle, None)
        for node in self.nodes:
            for inner in node.inside:
                inner.drop_conditions(machine)


def share_all(graph: Graph, other: Graph) -> None:
    """Let another graph with the same nodes, and the graphs inside it, hold the user objects that these hold."""
    for mine, theirs in zip(graph.parts(), other.parts()):
        for held, count in mine.objects.items():
            held.count += count
        theirs.objects = dict(mine.objects)


def let_go(machine: Machine, objects: dict[UserObject, int]) -> None:
    """Release references to user objects."""
    while objects:
        held, count = objects.popitem()
        held.release(machine, count)


def _graphs_of(does: Operation) -> tuple[Graph, ...]:
    if isinstance(does, Child):
        return (does.graph,)
    return ()


def cycle_in(graph: Graph) -> list[Node]:
    """Return the nodes of a cycle, each of which waits for the next one, or an empty list."""
    done: set[Node] = set()
    for start in graph.nodes:
        path: dict[Node, None] = {}
        trail: list[Iterator[Node]] = []
        node: Node | None = start
        while node is not None:
            if node in path:
                found = [*path]
                return found[found.index(node) :]
            if node in done:
                node = None
            else:
                path[node] = None
                trail.append(iter(node.after))
                node = next(trail[-1], None)
            while node is None and trail:
                node = next(trail[-1], None)
                if node is None:
                    trail.pop()
                    done.add(path.popitem()[0])
    return []


# -- look-ups


def graph_at(machine: Machine, handle: int) -> Graph:
    """Return the graph of a handle."""
    return machine.get(Graph, handle)


def node_at(machine: Machine, handle: int) -> Node:
    """Return the node of a handle."""
    return machine.get(Node, handle)


def nodes_at(machine: Machine, graph: Graph, address: int, count: int, data: int = 0) -> dict[Node, bytes]:
    """Read an array of nodes of a graph, each of which may occur once, and of the data of their edges."""
    found: dict[Node, bytes] = {}
    for index, handle in enumerate(take(address, count)):
        node = node_at(machine, handle)
        if node.graph is not graph:
            raise Refused(1, f"{node!r} is a node of another graph")
        if node in found:
            raise Refused(1, f"{node!r} is listed twice: list each node once")
        found[node] = _edge_data(data + 8 * index if data else 0)
    return found


def _edge_data(address: int) -> bytes:
    if address:
        data = ctypes.string_at(address, 8)
    else:
        data = PLAIN
    if data[0] > 2 or data[1] or data[2] > 1 or any(data[3:]) or (data[2] == 1) != (data[0] != 0):
        raise Refused(1, f"{data!r} is not valid data of an edge")
    return data


# -- graphs


@entry("cuGraphCreate(CUgraph *phGraph, unsigned int flags)", since=10000)
def create(machine: Machine, address: int, flags: int) -> None:
    """Create a graph without nodes."""
    out(address)
    if flags:
        raise Refused(1)
    put_word(address, machine.add(Graph()).handle)


@entry("cuGraphDestroy(CUgraph hGraph)", since=10000)
def destroy(machine: Machine, handle: int) -> None:
    """Destroy a graph; its executable graphs stay."""
    graph = graph_at(machine, handle)
    if graph.parent is not None:
        raise Refused(1, "this graph belongs to a node of another graph, and is destroyed with that node")
    graph.refuse_while_capturing()
    graph.forget(machine)


@entry("cuGraphClone(CUgraph *phGraphClone, CUgraph originalGraph)", since=10000)
def clone(machine: Machine, address: int, handle: int) -> None:
    """Copy a graph and its child graphs."""
    out(address)
    original = graph_at(machine, handle)
    if original.holds(Allocate, Free, Conditional):
        raise Refused(801, "a graph with allocations, frees or conditional nodes cannot be cloned")
    put_word(address, copy_of(machine, original).handle)


def copy_of(machine: Machine, original: Graph) -> Graph:
    """Return a clone of a graph with handles."""
    twins: dict[Node, Node] = {}
    made = machine.add(original.copy(machine, twins))
    share_all(original, made)
    made.origin = twins
    return made


@entry("cuGraphNodeFindInClone(CUgraphNode *phNode, CUgraphNode hOriginalNode, CUgraph hClonedGraph)", since=10000)
def find_in_clone(machine: Machine, address: int, handle: int, cloned: int) -> None:
    """Write the node of a clone that was made from a node."""
    out(address)
    found = graph_at(machine, cloned).origin.get(node_at(machine, handle))
    if found is None or found.handle not in machine.handles:
        raise Refused(1, "the clone has no node that was made from this one")
    put_word(address, found.handle)


@entry("cuGraphDestroyNode(CUgraphNode hNode)", since=10000)
def destroy_node(machine: Machine, handle: int) -> None:
    """Remove a node and its edges."""
    node = node_at(machine, handle)
    graph = node.graph
    graph.refuse_while_capturing()
    _refuse_memory(graph, "nodes")
    for inner in node.inside:
        inner.forget(machine)
    for other in graph.nodes:
        other.after.pop(node, None)
    graph.nodes.remove(node)
    del machine.handles[handle]


def _refuse_memory(graph: Graph, what: str) -> None:
    if graph.holds(Allocate, Free):
        raise Refused(801, f"{what} of a graph with allocations or frees cannot be removed")


# -- questions


def _list(machine: Machine, values: Iterable[int], address: int, count: int) -> None:
    """Write the handles that fit, and their number; without an array, write only the number of all handles."""
    out(count)
    every = [*values]
    if address:
        room = get_word(count)
        if room > sys.maxsize // WORD:
            raise Refused(1, f"no array has room for {room} handles: initialize the count")
        every = every[:room]
        put_bytes(address, struct.pack(f"{len(every)}N", *every) + bytes(WORD * (room - len(every))))
    put_word(count, len(every))


@entry("cuGraphGetNodes(CUgraph hGraph, CUgraphNode *nodes, size_t *numNodes)", since=10000)
def get_nodes(machine: Machine, handle: int, address: int, count: int) -> None:
    """Write the nodes of a graph."""
    _list(machine, [node.handle for node in graph_at(machine, handle).nodes], address, count)


@entry("cuGraphGetRootNodes(CUgraph hGraph, CUgraphNode *rootNodes, size_t *numRootNodes)", since=10000)
def get_roots(machine: Machine, handle: int, address: int, count: int) -> None:
    """Write the nodes that wait for no other."""
    _list(machine, [node.handle for node in graph_at(machine, handle).nodes if not node.after], address, count)


def _edges(nodes: Iterable[Node]) -> list[tuple[Node, Node, bytes]]:
    return [(first, node, data) for node in nodes for first, data in node.after.items()]


def _put_data(edges: list[tuple[Node, Node, bytes]], asked: int, address: int, count: int) -> None:
    """Write the data of edges; refuse a query without an array for them if some of the data is not zero."""
    if not address:
        if asked and any(data != PLAIN for _, _, data in edges):
            raise Refused(LOSSY_QUERY, "some edges have data: use the form of this call with CUgraphEdgeData (_v2)")
        return
    if not asked:
        raise Refused(1, "the data of edges is written only together with their nodes: pass both arrays")
    put_bytes(address, b"".join([data for _, _, data in edges[: get_word(count)]]))


@entry(
    "cuGraphGetEdges_v2(CUgraph hGraph, CUgraphNode *from, CUgraphNode *to, CUgraphEdgeData *edgeData, "
    "size_t *numEdges)",
    since=12030,
)
def get_edges_v2(machine: Machine, handle: int, sources: int, targets: int, data: int, count: int) -> None:
    """Write the edges of a graph."""
    out(count)
    if bool(sources) != bool(targets):
        raise Refused(1)
    edges = _edges(graph_at(machine, handle).nodes)
    _put_data(edges, sources, data, count)
    if sources:
        room = get_word(count)
    else:
        room = 0
    _list(machine, [first.handle for first, _, _ in edges], sources, count)
    if targets:
        put_word(count, room)
    _list(machine, [second.handle for _, second, _ in edges], targets, count)


@entry("cuGraphGetEdges(CUgraph hGraph, CUgraphNode *from, CUgraphNode *to, size_t *numEdges)", since=10000)
def get_edges(machine: Machine, handle: int, sources: int, targets: int, count: int) -> None:
    """Write the edges of a graph."""
    get_edges_v2(machine, handle, sources, targets, 0, count)


@entry(
    "cuGraphNodeGetDependencies_v2(CUgraphNode hNode, CUgraphNode *dependencies, CUgraphEdgeData *edgeData, "
    "size_t *numDependencies)",
    since=12030,
)
def get_dependencies_v2(machine: Machine, handle: int, address: int, data: int, count: int) -> None:
    """Write the nodes that a node waits for."""
    out(count)
    edges = _edges([node_at(machine, handle)])
    _put_data(edges, address, data, count)
    _list(machine, [first.handle for first, _, _ in edges], address, count)


@entry("cuGraphNodeGetDependencies(CUgraphNode hNode, CUgraphNode *dependencies, size_t *numDependencies)", since=10000)
def get_dependencies(machine: Machine, handle: int, address: int, count: int) -> None:
    """Write the nodes that a node waits for."""
    get_dependencies_v2(machine, handle, address, 0, count)


@entry(
    "cuGraphNodeGetDependentNodes_v2(CUgraphNode hNode, CUgraphNode *dependentNodes, CUgraphEdgeData *edgeData, "
    "size_t *numDependentNodes)",
    since=12030,
)
def get_dependents_v2(machine: Machine, handle: int, address: int, data: int, count: int) -> None:
    """Write the nodes that wait for a node."""
    out(count)
    node = node_at(machine, handle)
    edges = [(node, other, other.after[node]) for other in node.graph.nodes if node in other.after]
    _put_data(edges, address, data, count)
    _list(machine, [second.handle for _, second, _ in edges], address, count)


@entry(
    "cuGraphNodeGetDependentNodes(CUgraphNode hNode, CUgraphNode *dependentNodes, size_t *numDependentNodes)",
    since=10000,
)
def get_dependents(machine: Machine, handle: int, address: int, count: int) -> None:
    """Write the nodes that wait for a node."""
    get_dependents_v2(machine, handle, address, 0, count)


@entry("cuGraphNodeGetType(CUgraphNode hNode, CUgraphNodeType *type)", since=10000)
def get_type(machine: Machine, handle: int, address: int) -> None:
    """Write the type of a node."""
    out(address)
    put_int(address, node_at(machine, handle).does.type)


@entry("cuGraphChildGraphNodeGetGraph(CUgraphNode hNode, CUgraph *phGraph)", since=10000)
def get_child(machine: Machine, handle: int, address: int) -> None:
    """Write the graph inside a child graph node."""
    out(address)
    does = node_at(machine, handle).does
    if not isinstance(does, Child):
        raise Refused(1, f"this node is {does.name}, not a child graph")
    put_word(address, does.graph.handle)


# -- edges


@entry(
    "cuGraphAddDependencies_v2(CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to, "
    "const CUgraphEdgeData *edgeData, size_t numDependencies)",
    since=12030,
)
def add_edges_v2(machine: Machine, handle: int, sources: int, targets: int, data: int, count: int) -> None:
    """Add edges, each of which must be new; cycles are found when the graph is instantiated."""
    graph = graph_at(machine, handle)
    wanted: dict[tuple[Node, Node], bytes] = {}
    for index, (first, second, known) in enumerate(_pairs(machine, graph, sources, targets, count)):
        if first is second:
            raise Refused(1, f"{first!r} cannot wait for itself")
        if known or (first, second) in wanted:
            raise Refused(1, f"there is an edge from {first!r} to {second!r} already")
        wanted[first, second] = _edge_data(data + 8 * index if data else 0)
    for (first, second), one in wanted.items():
        second.after[first] = one


def _pairs(machine: Machine, graph: Graph, sources: int, targets: int, count: int) -> Iterator[tuple[Node, Node, bool]]:
    for start, end in zip(take(sources, count), take(targets, count)):
        first, second = node_at(machine, start), node_at(machine, end)
        if first.graph is not graph or second.graph is not graph:
            raise Refused(1, f"an edge from {first!r} to {second!r}: one of them is in another graph")
        yield first, second, first in second.after


@entry(
    "cuGraphAddDependencies(CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to, size_t numDependencies)",
    since=10000,
)
def add_edges(machine: Machine, handle: int, sources: int, targets: int, count: int) -> None:
    """Add edges."""
    add_edges_v2(machine, handle, sources, targets, 0, count)


@entry(
    "cuGraphRemoveDependencies_v2(CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to, "
    "const CUgraphEdgeData *edgeData, size_t numDependencies)",
    since=12030,
)
def remove_edges_v2(machine: Machine, handle: int, sources: int, targets: int, data: int, count: int) -> None:
    """Remove edges, each of which must exist, with the given data."""
    graph = graph_at(machine, handle)
    _refuse_memory(graph, "edges")
    wanted = []
    for index, (first, second, known) in enumerate(_pairs(machine, graph, sources, targets, count)):
        if not known or second.after[first] != _edge_data(data + 8 * index if data else 0):
            raise Refused(1, f"there is no edge from {first!r} to {second!r} with this data")
        wanted.append((first, second))
    for first, second in wanted:
        second.after.pop(first, None)
        if graph.capture is not None:
            graph.capture.cut.add(first)


@entry(
    "cuGraphRemoveDependencies(CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to, size_t numDependencies)",
    since=10000,
)
def remove_edges(machine: Machine, handle: int, sources: int, targets: int, count: int) -> None:
    """Remove edges."""
    remove_edges_v2(machine, handle, sources, targets, 0, count)
