"""The nodes and edges of a graph as a whole: lists of them, changes of edges, clones, and a description.

What it is   the functions that implement the methods of Graph with these names.
How          before an edge from one node to another is added, a path in the opposite direction is searched for. So no
             graph gets a cycle, which the driver would find only when it instantiates the graph.
Source       CUDA Driver API, "Graph Management"
Read next    executable.py
"""

from __future__ import annotations

import ctypes
from ctypes import byref

from ...errors import InvalidUse, a_kind
from ...headers import cuda_h
from .nodes import Node, array_of, check_node, handles, node_at, word

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["add_edge", "clone", "dot", "edges_of", "find", "nodes_of", "remove_edge"]


def nodes_of(graph: Any) -> list[Node]:
    """Return the nodes of a graph."""
    driver, handle = graph._primary.driver, cuda_h.CUgraph(graph.handle)
    with graph._asking():
        return [node_at(graph, found) for found in handles(lambda *given: driver.cuGraphGetNodes(handle, *given))]


def edges_of(graph: Any) -> list[tuple[Node, Node]]:
    """Return the edges of a graph."""
    driver, handle, count = graph._primary.driver, cuda_h.CUgraph(graph.handle), ctypes.c_size_t()
    newest = driver.has("cuGraphGetEdges_v2")  # the first one refuses edges with data
    with graph._asking():
        data: Any = (None,) if newest else ()
        ask = driver.cuGraphGetEdges_v2 if newest else driver.cuGraphGetEdges
        ask(handle, None, None, *data, byref(count))
        many = max(count.value, 1)
        first, second = (cuda_h.CUgraphNode * many)(), (cuda_h.CUgraphNode * many)()
        if count.value:
            data = ((cuda_h.CUgraphEdgeData * many)(),) if newest else ()
            ask(handle, first, second, *data, byref(count))
        return _pairs(graph, first, second, count.value)


def _pairs(graph: Any, first: Any, second: Any, count: int) -> list[tuple[Node, Node]]:
    ends = [[node_at(graph, word(array[index])) for index in range(count)] for array in (first, second)]
    return list(zip(*ends))


def add_edge(graph: Any, first: Node, second: Node) -> None:
    """Make a node wait for another.

    raises  ValueError  the edge exists, or would create a cycle
    """
    with graph._changing():
        check_node(graph, first, "first")
        check_node(graph, second, "second")
        if first in second.pred:
            raise ValueError(f"there is already an edge from {first!r} to {second!r}: graph.edges lists all")
        cycle = _path(second, first)
        if cycle:
            raise ValueError(
                f"an edge from {first!r} to {second!r} would create a cycle: "
                f"{' -> '.join(map(repr, [first, *cycle]))}; none of these nodes could ever run"
            )
        _change_edge(graph, "cuGraphAddDependencies", first, second)


def _path(start: Node, end: Node) -> list[Node]:
    """Return the nodes of a path along edges from one node to another, including both, or an empty list."""
    came: dict[Node, Node | None] = {start: None}
    todo = [start]
    while todo:
        node = todo.pop()
        if node is end:
            path: list[Node] = [node]
            before = came[node]
            while before is not None:
                path.insert(0, before)
                before = came[before]
            return path
        for other in node.succ:
            if other not in came:
                came[other] = node
                todo.append(other)
    return []


def remove_edge(graph: Any, first: Node, second: Node) -> None:
    """Remove the edge from a node to another one.

    raises  ValueError  there is no such edge
    """
    with graph._changing():
        check_node(graph, first, "first")
        check_node(graph, second, "second")
        if first not in second.pred:
            raise ValueError(f"there is no edge from {first!r} to {second!r}: graph.edges lists all")
        _change_edge(graph, "cuGraphRemoveDependencies", first, second)


def _change_edge(graph: Any, symbol: str, first: Node, second: Node) -> None:
    driver, ends = graph._primary.driver, (array_of([first]), array_of([second]))
    if driver.has(symbol + "_v2"):
        getattr(driver, symbol + "_v2")(cuda_h.CUgraph(graph.handle), *ends, None, 1)
    else:
        getattr(driver, symbol)(cuda_h.CUgraph(graph.handle), *ends, 1)
    graph._changed()


def clone(graph: Any) -> Any:
    """Return a copy of a graph; its nodes use the same objects."""
    if graph._parent is not None:
        raise ValueError(f"{graph!r} belongs to a node: clone the graph of that node")
    made = type(graph)._cloned(graph)
    made._kept.update(graph._root._kept)
    for node in nodes_of(graph):
        find(made, node)
    return made


def find(cloned: Any, node: Node) -> Node:
    """Return the node of a clone that was made from a node.

    raises  ValueError  there is none
    """
    if not isinstance(node, Node):
        raise TypeError(f"find() needs a node of the graph that was cloned, not {a_kind(node)}")
    found, original = cuda_h.CUgraphNode(), cuda_h.CUgraphNode(node.handle)
    with cloned._asking():
        try:
            cloned._primary.driver.cuGraphNodeFindInClone(byref(found), original, cuda_h.CUgraph(cloned.handle))
        except InvalidUse:
            raise ValueError(
                f"{cloned!r} has no node that was made from {node!r}: it is not a clone of that node's graph"
            ) from None
        given = node._given
        if given is not None:
            cloned._root._given.setdefault(found.value, given)
        return node_at(cloned, found.value or 0)  # type: ignore[no-any-return]


def dot(graph: Any, verbose: bool) -> str:
    """Return the driver's description of a graph in the language of Graphviz."""
    import os
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "graph.dot")
        with graph._asking():
            graph._primary.driver.cuGraphDebugDotPrint(cuda_h.CUgraph(graph.handle), os.fsencode(path), int(verbose))
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
