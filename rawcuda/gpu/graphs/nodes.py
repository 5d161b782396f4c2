"""Nodes: their place in a graph, their edges, and their parameters.

What it is   Node and its subclasses; ExecutableNode, a node as it is in an executable graph; and `add`.
How          a graph asks the driver for its nodes, and makes a Node object for each of them. So nodes that a capture or
             other software has added are included.
What not     it does not read the parameters that a user gives: node_parameters.py does.
Source       CUDA Driver API, "Graph Management"
Read next    graph.py
"""

from __future__ import annotations

import ctypes
from _weakref import ref
from ctypes import byref

from ...arguments import as_list
from ...driver import as_argument
from ...errors import Closed, CudaError, a_kind
from ...headers import cuda_h
from ...interpreter.cpython import facts
from ...protocols.device_memory import gpu
from ..core.stream_arguments import queue_of, work_handle
from . import node_parameters
from .conditions import Condition, explained
from .updates import set_executable_node, set_node

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from ctypes import _SimpleCData
    from typing import Any, Callable, NoReturn

    from typing_extensions import Self

    from ...gpu.graphs.executable import Executable
    from ...gpu.graphs.graph import Graph
    from ...gpu.memory.memory import Memory
    from .node_parameters import Given

__all__ = [
    "AllocationNode",
    "ChildNode",
    "ConditionalNode",
    "ExecutableNode",
    "Node",
    "add",
    "array_of",
    "check_node",
    "count_nodes",
    "dependencies",
    "handles",
    "node_at",
    "nodes_at",
    "path",
    "word",
]

# CUgraphNodeType, as words
_KINDS = {
    0: "kernel",
    1: "copy",
    2: "fill",
    3: "callback",
    4: "graph",
    5: "empty",
    6: "wait",
    7: "record",
    8: "semaphore signal",
    9: "semaphore wait",
    10: "allocation",
    11: "free",
    12: "memory operations",
    13: "conditional",
}


@facts("graph", "kind")
class Node:
    """A node of a graph; `kind` is a word such as "kernel", and `label` names what it does.

    graph   the graph that it is in
    number  its place in the order in which the nodes were added
    """

    __slots__ = ("_graph", "_kind", "_handle", "_label", "__weakref__")

    graph: Graph
    kind: str
    if TYPE_CHECKING:
        _graph: Graph
        _kind: str
        _handle: int | None
        _label: str | None

    def __init__(self, *_: object, **__: object) -> None:
        raise TypeError("nodes are added by the methods of a Graph: kernel(), copy(), ...")

    @classmethod
    def _of(cls, graph: Graph, handle: int, kind: str) -> Self:
        made = cls.__new__(cls)
        made._graph, made._kind, made._handle, made._label = graph, kind, handle, None
        return made

    @property
    def _given(self) -> Given | None:
        """Return the parameters that were given for this node; None if a capture or other software has added it."""
        return self.graph._root._given.get(self._handle or 0)

    @property
    def label(self) -> str:
        """Return a short description of what the node does, such as the name of its kernel."""
        given = self._given
        if given is not None:
            return given.label
        if self._label is None:
            if self.kind == "kernel" and not self.graph.closed:
                self._label = _kernel_name(self)
            else:
                self._label = ""
        return self._label or ""

    @property
    def handle(self) -> int:
        """Return the CUgraphNode; raises Closed after destroy(), or if the graph is closed."""
        if self._handle is None:
            raise Closed(f"this node, {self!r}, was destroyed: add another node")
        self.graph.handle
        return self._handle

    @property
    def number(self) -> int:
        """Return the place among the graph's nodes; raises Closed as `handle` does."""
        with self.graph._asking(), self.graph._primary.current():
            handle = self.handle
            return node_handles(self.graph).index(handle)

    @property
    def pred(self) -> list[Node]:
        """Return the nodes that this one waits for.

        calls   cuGraphNodeGetDependencies, cuGraphNodeGetDependencies_v2
        """
        return _neighbours(self, "cuGraphNodeGetDependencies")

    @property
    def succ(self) -> list[Node]:
        """Return the nodes that wait for this one.

        calls   cuGraphNodeGetDependentNodes, cuGraphNodeGetDependentNodes_v2
        """
        return _neighbours(self, "cuGraphNodeGetDependentNodes")

    def update(self, *args: object, **named: object) -> None:
        """Change what this node does; the arguments are those of the method that added it, without `after`.

        A kernel node accepts new arguments alone, or a Launch and its arguments. With new arguments, `grid`, `block`
        and the options that are not given stay as they are. The next launch of the graph uses the change; an existing
        Executable does not.

        raises  TypeError  the node cannot be changed, or a wrong number or kind of arguments
        """
        set_node(self, args, named)

    def destroy(self) -> None:
        """Remove this node and its edges from the graph; a second destroy() does nothing.

        Without its conditional node, a condition may prevent later launches of the graph: see docs/graphs.md.

        calls   cuGraphDestroyNode
        raises  Unsupported  the graph has allocations
        """
        graph, is_destroyed = self.graph, self._handle is None
        if is_destroyed:
            return
        root = graph._root
        held: list[object] = []  # what the nodes used, until the lock is free: see Executable._held
        with graph._changing(), graph._primary.current(), explained(graph, "cannot lose a node: build another graph"):
            graph._refuse_recording()
            handle = self._handle
            if handle is None:  # another thread has destroyed it
                return
            nodes = self, *_inside(self)
            try:
                graph._primary.driver.cuGraphDestroyNode(cuda_h.CUgraphNode(handle))
                _forget(root, nodes, held)
            except CudaError:
                raise
            except BaseException:  # an interrupt: the driver may have destroyed the node, and give its handle again
                if handle not in node_handles(graph):
                    _forget(root, nodes, held)
                raise
            if not count_nodes(root):
                held.extend(root._kept.values())
                root._kept.clear()  # also what captures have used
                root._changed()

    def __copy__(self) -> NoReturn:
        raise TypeError("a node belongs to its graph and cannot be copied: clone the graph")

    def __deepcopy__(self, memo: object) -> NoReturn:
        self.__copy__()

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a node holds a handle of this process and cannot be pickled")

    def __repr__(self) -> str:
        if self._handle is None:
            return f"<{self.kind} node, destroyed>"
        given = self._given
        label = given.label if given is not None else self._label
        return f"<{self.kind} node {self._handle:#x}{f': {label}' if label else ''}>"


class ChildNode(Node):
    """A child graph node; `child` is the graph in it."""

    __slots__ = ("_child", "_graphs")

    @property
    def child(self) -> Graph:
        """Return the graph in this node, whose nodes can be changed.

        calls   cuGraphChildGraphNodeGetGraph
        """
        known = getattr(self, "_child", None)
        if known is None:
            handle, graph = cuda_h.CUgraph(), self.graph
            with graph._asking(), graph._primary.current():
                graph._primary.driver.cuGraphChildGraphNodeGetGraph(cuda_h.CUgraphNode(self.handle), byref(handle))
            known = self._child = handle.value or 0
        return _graph_in(self, known)


class AllocationNode(Node):
    """An allocation node; its `memory` exists from the time a launch reaches this node until it is freed.

    nbytes  its size in bytes
    """

    __slots__ = ("_memory", "_known")

    @property
    def ptr(self) -> int:
        """Return the address, which is the same in each launch.

        calls   cuGraphMemAllocNodeGetParams
        """
        return self._parameters()[0]

    @property
    def nbytes(self) -> int:
        """Return the size in bytes."""
        return self._parameters()[1]

    def _parameters(self) -> tuple[int, int]:
        """Return the address and the size, which are known after the graph was closed, too."""
        known = getattr(self, "_known", None)
        if known is None:
            found, graph = cuda_h.CUDA_MEM_ALLOC_NODE_PARAMS(), self.graph
            with graph._asking(), graph._primary.current():
                node = cuda_h.CUgraphNode(self.handle)
                graph._primary.driver.cuGraphMemAllocNodeGetParams(node, byref(found))
            known = self._known = found.dptr, found.bytesize
        return known

    @property
    def memory(self) -> Memory:
        """Return the memory, which is closed with the graph; that does not free it: use Graph.free() or release()."""
        found = getattr(self, "_memory", None)
        if found is None:
            address, nbytes = self._parameters()
            found = self._memory = gpu.borrowed(self.graph.device, address, nbytes, self.graph._root)
        return found  # type: ignore[no-any-return]

    def release(self, stream: object = None) -> None:
        """Free the memory that the last launch allocated, in the order of a stream.

        calls   cuMemFreeAsync
        """
        address = as_argument(self.ptr)  # (this may wait for the lock of the graph)
        self.graph._primary.calls.cuMemFreeAsync(address, queue_of(work_handle(stream)))


class ConditionalNode(Node):
    """A node that runs one of its graphs, or none.

    You can add nodes to these graphs, or capture into them. They may contain kernels, copies and fills of device
    memory, child graphs, empty nodes and conditional nodes.
    """

    __slots__ = ("_graphs",)

    @property
    def branches(self) -> tuple[Graph, ...]:
        """Return the graphs of this node."""
        return tuple([_graph_in(self, handle) for handle in self._chosen().bodies])

    @property
    def form(self) -> str:
        """Return "if", "while" or "switch"."""
        return self._chosen().form

    @property
    def condition(self) -> Condition:
        """Return the condition by which this node chooses."""
        return Condition._of(self.graph._root, *self._chosen().condition)

    @property
    def then(self) -> Graph:
        """Return the graph that runs if the condition is not 0."""
        return self._branch("if", 0)

    @property
    def else_(self) -> Graph:
        """Return the graph that runs if the condition is 0; raises AttributeError if the node has none."""
        return self._branch("if", 1)

    @property
    def body(self) -> Graph:
        """Return the graph that runs as long as the condition is not 0."""
        return self._branch("while", 0)

    def _branch(self, form: str, number: int) -> Graph:
        if self.form != form or number >= len(self.branches):
            raise AttributeError(f"{self!r} has no such graph: it has {len(self.branches)} branches")
        return self.branches[number]

    def _chosen(self) -> node_parameters.Choice:
        given = self._given
        if not isinstance(given, node_parameters.Choice):
            self.handle  # raises Closed
            raise TypeError(f"{self!r} was added by other software, so its graphs are not known")
        return given


def _graph_in(node: Any, handle: int) -> Graph:
    """Return the graph in a node that has a handle. It keeps the node, which therefore refers to it weakly."""
    graphs: dict[int, ref[Graph]] | None = getattr(node, "_graphs", None)
    if graphs is None:
        graphs = node._graphs = {}
    known = graphs.get(handle)
    found = known() if known is not None else None
    if found is None:
        found = type(node.graph)._inside(node, handle)
        graphs[handle] = ref(found)
    return found


def _forget(root: Graph, nodes: Iterable[Node], held: list[object]) -> None:
    """Forget nodes that were destroyed, and what they used, which is put into a list."""
    for node in nodes:
        gone = node._handle or 0
        root._nodes.pop(gone, None)
        given = root._given.get(gone)
        held += [given, root._kept.get(gone)]
        if given is not None:
            root._given.pop(given.once, None)
            root._given.pop(gone, None)
        root._keep(gone, None)
        node._handle = None  # at last: after an interrupt, all of this is done again


def _inside(node: Node) -> list[Node]:
    """Return the nodes of the graphs in a node, also in nodes of these."""
    found = [node]
    for each in found:  # (the list grows meanwhile; graphs may be nested deeper than Python's stack)
        graphs: tuple[Graph, ...] = ()
        if isinstance(each, ChildNode):
            graphs = (each.child,)
        elif isinstance(each, ConditionalNode) and each._given is not None:
            graphs = each.branches
        found += [inner for graph in graphs for inner in graph.nodes]
    return found[1:]


class ExecutableNode:
    """A node as it is in an executable graph: executable[node].

    calls   cuGraphNodeGetEnabled, cuGraphNodeSetEnabled
    """

    __slots__ = ("executable", "node")

    def __init__(self, executable: Executable, node: Node) -> None:
        if not isinstance(node, Node):
            raise TypeError(f"an executable graph is indexed by a Node, not by {a_kind(node)}")
        executable.handle
        if node.graph._root is not executable._graph():
            raise ValueError(f"{node!r} is not a node of the graph from which {executable!r} was made")
        self.executable, self.node = executable, node

    def update(self, *args: object, **named: object) -> None:
        """Change what this node does in later launches; the arguments are those of Node.update()."""
        set_executable_node(self.executable, self.node, args, named, _inside)

    @property
    def is_enabled(self) -> bool:
        """Tell whether launches run this node; kernels, copies and fills can be disabled."""
        answer = ctypes.c_uint()
        self._call("cuGraphNodeGetEnabled", byref(answer))
        return bool(answer.value)

    def enable(self) -> None:
        """Run this node in later launches again."""
        self._call("cuGraphNodeSetEnabled", 1)

    def disable(self) -> None:
        """Do not run this node in later launches; the nodes that wait for it wait for its predecessors instead.

        raises  InvalidUse  the node is neither a kernel nor a copy nor a fill
        """
        self._call("cuGraphNodeSetEnabled", 0)

    def _call(self, symbol: str, *arguments: object) -> None:
        graph = self.node.graph
        with graph._asking(), self.executable._lock, graph._primary.current():
            executable, node = cuda_h.CUgraphExec(self.executable.handle), cuda_h.CUgraphNode(self.node.handle)
            getattr(graph._primary.driver, symbol)(executable, node, *arguments)

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a node of an executable graph cannot be copied or pickled")

    def __repr__(self) -> str:
        return f"<{self.node!r} of {self.executable!r}>"


# -- adding


def array_of(nodes: list[Node]) -> ctypes.Array[_SimpleCData[int]] | None:
    """Return an array of the handles of nodes, or None for none."""
    made = None
    if nodes:
        made = (cuda_h.CUgraphNode * len(nodes))(*[node.handle for node in nodes])
    return made


def path(start: Node, end: Node) -> list[Node]:
    """Return the nodes of a path along edges from one node to another, including both, or an empty list."""
    if start is not end and not (start.succ and end.pred):
        return []
    followers: dict[int, list[int]] = {}
    for one, other in start.graph._edges():
        followers.setdefault(one, []).append(other)
    came: dict[int, int] = {start.handle: 0}
    todo = [start.handle]
    while todo:
        one = todo.pop()
        if one == end.handle:
            path = []
            while one:
                path.append(node_at(start.graph, one))
                one = came[one]
            return path[::-1]
        for other in followers.get(one, ()):
            if other not in came:
                came[other] = one
                todo.append(other)
    return []


def dependencies(graph: Graph, after: object) -> list[Node]:
    """Return the nodes that `after` names: None, a node, or several.

    raises  TypeError   not nodes
            ValueError  a node of another graph, or a node that is given twice
    """
    if after is None:
        return []
    given = [after] if isinstance(after, Node) else after
    found: dict[Node, None] = {}
    for node in as_list("after", given, "nodes"):
        check_node(graph, node, "after")
        if node in found:
            raise ValueError(f"after: {node!r} is given twice")
        found[node] = None
    return list(found)


def check_node(graph: Graph, node: object, name: str) -> None:
    """Check that an argument is a node of a graph; `name` is the name of the parameter."""
    if not isinstance(node, Node):
        raise TypeError(f"{name} must be a node of the graph, not {a_kind(node)}")
    node.handle  # raises Closed
    if node.graph.handle != graph.handle:
        raise ValueError(f"{name}: {node!r} is a node of another graph, {node.graph!r}, and this is {graph!r}")


def add(graph: Graph, what: str, after: object, given: tuple[Any, ...], named: dict[str, object]) -> Node:
    """Add a node.

    what    the name of the function of node_parameters.py that reads the arguments
    """
    handle, key = cuda_h.CUgraphNode(), object()
    first, second = graph._locks((*given, *named.values()))
    graph._refuse_recording()
    others = dependencies(graph, after)
    with graph._primary.current():
        read = getattr(node_parameters, what)(graph, *given, **named)
    with first, second, graph._primary.current():
        graph.handle  # raises Closed
        graph._refuse_recording()
        read.check(graph)
        before = array_of(others)  # raises Closed
        graph._keep(key, read.kept)  # before the call, so that the objects are alive even after an interrupt
        inner = given[0] if what == "embed" else None
        try:
            with explained(inner, "cannot be a child graph with this driver: add its nodes to the other graph"):
                read.add(graph, handle, before, len(others))
        except CudaError:
            graph._keep(key, None)
            raise
        number = handle.value or 0
        graph._keep(number, read.kept)
        graph._root._given[number] = read
        if read.once is not None:
            graph._root._given[read.once] = read
        graph._keep(key, None)
        return node_at(graph, number)


# -- queries


def word(handle: Any) -> int:
    """Return an element of an array of handles as a number."""
    return getattr(handle, "value", handle) or 0


def handles(ask: Callable[..., object]) -> list[int]:
    """Ask the driver for a list of nodes: first for their number, then for their handles."""
    count = ctypes.c_size_t()
    ask(None, byref(count))
    found = (cuda_h.CUgraphNode * max(count.value, 1))()
    if count.value:
        ask(found, byref(count))
    return [*map(word, found[: count.value])]


def node_handles(graph: Graph) -> list[int]:
    """Return the handles of the nodes of a graph, in the order in which they were added.

    calls   cuGraphGetNodes
    """
    driver, handle = graph._primary.driver, cuda_h.CUgraph(graph.handle)
    return handles(lambda *given: driver.cuGraphGetNodes(handle, *given))


def count_nodes(graph: Graph) -> int:
    """Return the number of nodes of a graph.

    calls   cuGraphGetNodes
    """
    count = ctypes.c_size_t()
    with graph._asking(), graph._primary.current():
        graph._primary.calls.cuGraphGetNodes(as_argument(graph.handle), None, byref(count))
    return count.value


_SUBCLASSES: dict[str, type[Node]] = {"graph": ChildNode, "allocation": AllocationNode, "conditional": ConditionalNode}


def node_at(graph: Graph, handle: int) -> Node:
    """Return the Node object of a handle; make one if there is none."""
    root = graph._root
    known = root._nodes.get(handle)
    found = known() if known is not None else None
    if found is None:
        given = root._given.get(handle)
        if given is not None:
            kind = given.kind
        else:
            number = ctypes.c_uint()
            graph._primary.driver.cuGraphNodeGetType(cuda_h.CUgraphNode(handle), byref(number))
            kind = _KINDS.get(number.value, f"type {number.value}")
        found = _SUBCLASSES.get(kind, Node)._of(graph, handle, kind)
        root._nodes[handle] = ref(found)
    return found


def nodes_at(graph: Graph, found: Iterable[int]) -> list[Node]:
    """Return the Node objects of handles."""
    return [node_at(graph, handle) for handle in found]


def _kernel_name(node: Node) -> str | None:
    """Return the name of the kernel that a recorded node launches, if the driver knows it.

    None: not now, during a capture, or while the graph uses something that is closed, maybe the module of the kernel.
    """
    graph = node.graph
    if graph._recording() is not None:
        return None
    driver, text = graph._primary.driver, ctypes.c_char_p()
    if not driver.has("cuFuncGetName") or not driver.has("cuGraphKernelNodeGetParams_v2"):
        return ""
    found = cuda_h.CUDA_KERNEL_NODE_PARAMS()
    with graph._asking(), graph._primary.current():
        try:
            node_parameters.check_open(graph)
        except Closed:
            return None
        driver.cuGraphKernelNodeGetParams_v2(cuda_h.CUgraphNode(node.handle), byref(found))
        function = getattr(found.func, "value", found.func)
        if not function:
            return ""
        driver.cuFuncGetName(byref(text), cuda_h.CUfunction(function))
    return (text.value or b"").decode("utf-8", "replace")


def _neighbours(node: Node, symbol: str) -> list[Node]:
    graph = node.graph
    driver = graph._primary.driver

    def ask(array: object, count: Any) -> None:
        handle = cuda_h.CUgraphNode(node.handle)
        if driver.has(symbol + "_v2"):
            data = None
            if array is not None:
                data = (cuda_h.CUgraphEdgeData * count._obj.value)()
            getattr(driver, symbol + "_v2")(handle, array, data, count)
        else:
            getattr(driver, symbol)(handle, array, count)

    with graph._asking(), graph._primary.current():
        return nodes_at(graph, handles(ask))
