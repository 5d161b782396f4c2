"""Graphs: work that is described once, by capturing a stream or node by node, and launched many times.

What it is   Graph, with the methods that add nodes. Device.graph() returns one without nodes; Stream.capture() returns
             one whose with block captures the work of the stream.
What not     the nodes, the capture and the launch: see graphs/.
How          a Graph owns a CUgraph. Graph.launch() makes an Executable from it, and makes another one after the graph
             has changed. The objects that nodes use are kept alive by the graph, by every Executable, and by each
             launch until it is done.
             Before an edge from one node to another is added, a path in the opposite direction is searched for. So no
             graph gets a cycle, which the driver would find only when it instantiates the graph.
Threads      the driver does not protect a CUgraph, so a lock does; an Executable may be launched from any thread.
Source       CUDA Driver API, "Graph Management", cuStreamBeginCapture; CUDA Programming Guide, "Stream Capture"
Read next    graphs/nodes.py, gpu/streams/stream.py
"""

from __future__ import annotations

import _thread
import ctypes
from _weakref import ref
from ctypes import byref

from ... import locate
from ...arguments import as_bool
from ...driver import as_argument
from ...errors import Closed, CudaError, InvalidUse, a_kind
from ...headers import cuda_h
from ...hints import hinted
from ...interpreter.cpython import facts, free_after_fork
from ...ownership import drain, dropped, invalidate, unless_inside
from ..core.context import Life, PrimaryContext, no_device, primary_of
from ..core.handles import CLONE, GRAPH, make, shown_handle
from ..core.leases import Lender
from ..core.stream_arguments import StreamHandle
from .conditions import Condition, explained
from .executable import Executable
from .node_parameters import check_open
from .nodes import Node, add, array_of, check_node, node_at, node_handles, nodes_at, path, word
from .recording import StreamCapture, warn_if_empty

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from types import TracebackType
    from typing import Any

    from ...gpu.graphs.nodes import AllocationNode, ChildNode, ConditionalNode
    from ...gpu.streams.stream import Event
    from ...ownership import Owned
    from .node_parameters import Given

__all__ = ["Graph"]

_AUTO_FREE, _PRIORITIES = 1, 8  # CUDA_GRAPH_INSTANTIATE_FLAG_...
_RECORDED = object()  # the key of what a recording keeps; every other key is that of a node


@hinted
@facts("stream", "device")
class Graph(Lender):
    """Work that is launched as a whole: nodes, and the edges that say which node waits for which.

    A with block captures the work of a stream:

        with stream.capture() as graph:
            launch(a, b, n)
        graph.launch(stream)

    Or methods add nodes; `after` names the nodes that a new node waits for:

        graph = device.graph()
        first = graph.kernel(launch, a, b, n)
        graph.copy(c, b, after=first)
        graph.launch(stream)

    >>> device = Device(0)
    >>> stream, source, target = device.stream(), device.upload(b"abc"), device.upload(b"...")
    >>> graph = device.graph()
    >>> node = graph.copy(target, source)
    >>> graph.launch(stream)
    >>> stream.synchronize()
    >>> target.tolist()
    [97, 98, 99]

    The with block must not wait for the stream: copies with pageable memory do so, and are refused. Arrays of other
    libraries that a captured launch uses are kept alive by the graph; the caller must keep our own arrays and memory
    alive. Nodes that are added by methods keep everything alive that they use.

    device  the device; a graph is used in its context
    calls   cuGraphCreate, cuStreamBeginCapture_v2, cuStreamEndCapture, cuGraphDestroy
    raises  InvalidUse  a call that must not be captured
            ValueError  a default or borrowed stream, an unknown mode
    Why long  it has a method for each kind of node, with the options of the node in the docstring
    """

    __slots__ = (
        "_stream",
        "_device",
        "_primary",
        "_state",
        "_record",
        "_outer",
        "_parent",
        "_lock",
        "_kept",
        "_owners",
        "_given",
        "_nodes",
        "_version",
        "_executable",
    )

    stream: Any
    device: Any
    if TYPE_CHECKING:
        _record: StreamCapture | None

    def __init__(self, where: object = None, mode: str = "thread_local") -> None:
        primary = None
        if where is None:
            raise no_device("Graph", None, "`with device.stream().capture() as graph:`, or device.graph(),")
        if not isinstance(where, StreamHandle):
            primary = primary_of(where)
        if primary is not None:
            self._prepare(primary, where)
            make(self, GRAPH, primary, GRAPH.numbers)
            return
        record = StreamCapture(where, mode)
        self._prepare(record.stream._primary, record.stream.device, "new")
        self._record, self._stream = record, where
        self._own(0, None)
        self._handle = None

    def _prepare(self, primary: PrimaryContext, device: object, state: str = "built") -> None:
        self._primary, self._device, self._state = primary, device, state
        self._outer: Graph | None = None
        self._parent: Node | None = None  # the node that this graph belongs to
        self._lock = free_after_fork(_thread.RLock())
        # By the handle of a node: what it uses, what it does, and a weak reference to its Node.
        self._kept: dict[object, Sequence[object]] = {}
        self._given: dict[object, Given] = {}  # also by what only one node may do
        self._nodes: dict[int, ref[Node]] = {}
        self._version = 0  # counts changes
        self._borrowers = {}  # the memory of its allocation nodes
        # What must be open; None: it has to be collected from `_kept`.
        self._owners: tuple[Owned | Life, ...] | None = None
        self._executable: Executable | None = None
        self._record, self._stream = None, None

    @classmethod
    def _inside(cls, node: Node, handle: int) -> Graph:
        """Return the graph that belongs to a node."""
        outer, made = node.graph, cls.__new__(cls)
        made._prepare(outer._primary, outer.device)
        made._outer, made._parent, made._lock = outer._root, node, outer._root._lock
        made._own(handle, None)
        return made

    @property
    def handle(self) -> int:
        """Return the CUgraph; raises Closed before the capture and after close()."""
        if self._handle is None and self._state in ("new", "recording", "spoilt"):
            raise Closed(f"this Graph is {self._state}: its with block must capture work before it can be used")
        outer, parent = self, self._parent
        while parent is not None:  # (no recursion: graphs may be nested deeper than Python's stack)
            outer = parent.graph
            if parent._handle is None or outer._handle is None:
                parent.handle  # raises Closed
            parent = outer._parent
        return super().handle

    # -- recording

    def __enter__(self) -> Graph:
        if self._state == "built":
            self.handle
            return self
        if self._state != "new":
            raise ValueError("a graph captures only once: call capture() again")
        record = self._record
        assert record is not None
        lifetime = make(self, GRAPH, self._primary, None)
        try:
            record.claim(lifetime)
            record.begin("cuStreamBeginCapture_v2", (), lifetime)
            self._state = "recording"
            return self
        except CudaError:
            lifetime.value = None
            lifetime.give_away()
            raise
        except BaseException:  # an interrupt: the with block is not entered
            record.end(False)
            raise

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End the with block: keep what was captured, or only end the capture if an exception left the block.

        The with block of a graph that Device.graph() made closes the graph.
        """
        record = self._record
        if record is None:
            self.close()
            return
        self._state = "spoilt"
        try:
            record.end(kind is None)
            if kind is None:
                self._handle = self._release.value  # type: ignore[union-attr]
                self._keep(_RECORDED, record.kept)
                self._executable = Executable(self)
                self._state = "recorded"
        except CudaError:
            if record.state == "begun":  # it began in another thread, which can end it
                self._state = "recording"
            raise
        finally:
            if self._state != "recording":
                self._record = None  # with the list of what was recorded, which close() is to release
            if self._state == "spoilt":
                self._handle = None
                if self._release is not None and self._release.release(False) is False:
                    dropped.append(self._release)
        if kind is None:
            warn_if_empty(self)

    # -- launching

    def launch(self, stream: object = None) -> None:
        """Run the work in the order of a stream; None is the legacy default stream.

        A graph that was changed since its last launch is instantiated again. In a capture, the graph becomes a child
        graph of the one that is being captured.

        calls   cuGraphLaunch
        raises  Closed  the graph is closed, or nothing was captured
        """
        executable = self._executable
        if executable is None or executable._version != self._version or self._handle is None:
            executable = None  # so that the old one can be destroyed
            executable = self._instantiated()
        executable.launch(stream)

    def upload(self, stream: object = None) -> None:
        """Prepare the first launch in the order of a stream, so that the launch itself costs less.

        calls   cuGraphUpload
        """
        self._instantiated().upload(stream)

    def instantiate(self, *, auto_free: bool = False, priorities: bool = False) -> Executable:
        """Return an executable graph, which stays as it is when this graph changes.

        auto_free   each launch first frees the memory that the previous launch has allocated and not freed
        priorities  kernels run with the priorities of their nodes, not with that of the stream
        calls       cuGraphInstantiateWithFlags
        """
        flags = _AUTO_FREE * as_bool("auto_free", auto_free) | _PRIORITIES * as_bool("priorities", priorities)
        self._executable = None  # a graph with allocations or conditional nodes may have only one; see _instantiated()
        if dropped:
            drain()
        return Executable(self, flags)

    def _instantiated(self) -> Executable:
        """Return the executable graph for launch(); make another one if this graph was changed."""
        self.handle
        while True:
            if dropped:  # (with the lock of the graph, finalizers of the user must not run: see Executable._held)
                drain()
            with self._asking(), self._primary.current():
                own = self._executable
                if own is None:
                    own = self._executable = Executable(self)
                if own._version == self._version:
                    return own
                held = own._held()
                # Another thread may be launching the old one: after its last use, the next drain() destroys it.
                self._executable = own = None
            del held

    # -- nodes

    def kernel(
        self,
        launch: object,
        *args: object,
        after: object = None,
        **configuration: object,
    ) -> Node:
        """Add a launch of a kernel.

        launch         what Kernel.configure() returned; or a Kernel, with its configuration: grid, block, ...
        args           the kernel's arguments; nodes read them when they are added or updated
        after          a node, or several, that must be done first
        configuration  as for Kernel.configure()
        calls          cuGraphAddKernelNode_v2, cuGraphKernelNodeSetAttribute
        raises         ValueError  a kernel of another device, a node of another graph
        """
        made: Node = self._add("kernel", after, launch, *args, **configuration)
        return made

    def copy(self, dst: object, src: object, *, after: object = None) -> Node:
        """Add a copy between two exporters of any layout; host memory is read and written in each launch.

        src     if it has only `__array__`, each launch copies the elements that it has now
        calls   cuGraphAddMemcpyNode, cuGraphAddKernelNode_v2
        raises  TypeError   different dtypes: nothing is converted
                ValueError  shapes that do not broadcast, memory that overlaps
        """
        made: Node = self._add("copy", after, dst, src)
        return made

    def fill(self, target: object, value: object, *, after: object = None) -> Node:
        """Add a fill of every element of a view with a value, or of every byte of a Memory.

        calls   cuGraphAddMemsetNode, cuGraphAddKernelNode_v2
        """
        made: Node = self._add("fill", after, target, value)
        return made

    def callback(self, function: Callable[..., object], *arguments: object, after: object = None) -> Node:
        """Add a call of a Python function, made in a thread of the driver.

        The function must not call the driver: that is refused. What it raises is raised by the next synchronize() of
        a stream or of the device.

        calls   cuGraphAddHostNode
        raises  TypeError  not a function, or a coroutine or generator function
        """
        made: Node = self._add("callback", after, function, *arguments)
        return made

    def record(self, event: Event, *, after: object = None) -> Node:
        """Add the record of an event: the event is reached when this node is reached.

        calls   cuGraphAddEventRecordNode
        """
        made: Node = self._add("record", after, event)
        return made

    def wait(self, event: Event, *, after: object = None) -> Node:
        """Add a wait for an event; it waits for the last record before the launch of the graph.

        calls   cuGraphAddEventWaitNode
        """
        made: Node = self._add("wait", after, event)
        return made

    def embed(self, graph: Graph, *, after: object = None) -> ChildNode:
        """Add a copy of another graph as one node, a child graph; later changes of the other graph have no effect.

        calls   cuGraphAddChildGraphNode
        """
        made: ChildNode = self._add("embed", after, graph)
        return made

    def empty(self, *, after: object = None) -> Node:
        """Add a node that does nothing; other nodes can wait for it.

        calls   cuGraphAddEmptyNode
        """
        made: Node = self._add("empty", after)
        return made

    def join(self, *nodes: Node) -> Node:
        """Add an empty node that waits for all of these nodes."""
        return self.empty(after=nodes)

    def allocate(self, nbytes: int, *, after: object = None) -> AllocationNode:
        """Add an allocation of device memory, which exists from this node to the node of free().

        The node's `memory` has the same address in each launch.

        units   bytes
        calls   cuGraphAddMemAllocNode
        """
        made: AllocationNode = self._add("allocate", after, nbytes)
        made._parameters()  # the memory can be released after this graph was closed
        return made

    def free(self, allocation: AllocationNode, *, after: object = None) -> Node:
        """Add a node that frees an allocation of this or another graph; ValueError if either graph already frees it.

        after   give the nodes that use the memory; the default is the allocation, if it is in this graph
        calls   cuGraphAddMemFreeNode
        """
        if after is None and getattr(allocation, "graph", None) is self:
            after = allocation
        made: Node = self._add("free", after, allocation)
        return made

    def create_condition(self, default: int | None = None) -> Condition:
        """Return a condition: a value by which a conditional node of this graph chooses.

        A kernel takes it as an argument of 64 bits, and sets it by cudaGraphSetConditional(condition, value).

        default  the value at the start of each launch; None: the value at the end of the previous launch
        calls    cuGraphConditionalHandleCreate
        raises   Unsupported  the driver is older than CUDA 12.4
        """
        return Condition(self, default)

    def if_then(self, condition: Condition, *, after: object = None) -> ConditionalNode:
        """Add a node whose graph `then` runs if a condition is not 0.

        calls   cuGraphAddNode_v2
        """
        made: ConditionalNode = self._add("conditional", after, condition, "if", 1)
        return made

    def if_else(self, condition: Condition, *, after: object = None) -> ConditionalNode:
        """Add a node whose graph `then` runs if a condition is not 0, and whose graph `else_` runs otherwise.

        calls   cuGraphAddNode_v2
        raises  Unsupported  the driver is older than CUDA 12.8
        """
        made: ConditionalNode = self._add("conditional", after, condition, "if", 2)
        return made

    def while_loop(self, condition: Condition, *, after: object = None) -> ConditionalNode:
        """Add a node whose graph `body` runs as long as a condition, tested before each run, is not 0.

        calls   cuGraphAddNode_v2
        """
        made: ConditionalNode = self._add("conditional", after, condition, "while", 1)
        return made

    def switch(self, condition: Condition, count: int, *, after: object = None) -> ConditionalNode:
        """Add a node with the graphs `branches`; the one whose number is the condition's value runs, if there is one.

        calls   cuGraphAddNode_v2
        raises  Unsupported  the driver is older than CUDA 12.8
        """
        made: ConditionalNode = self._add("conditional", after, condition, "switch", count)
        return made

    # -- edges

    @property
    def nodes(self) -> list[Node]:
        """Return the nodes, in the order in which they were added.

        calls   cuGraphGetNodes
        """
        self.handle  # raises Closed
        with self._asking(), self._primary.current():
            return nodes_at(self, node_handles(self))

    @property
    def edges(self) -> list[tuple[Node, Node]]:
        """Return the edges: pairs of a node and one that waits for it.

        calls   cuGraphGetEdges, cuGraphGetEdges_v2
        """
        with self._asking(), self._primary.current():
            return self._ends()

    def _ends(self) -> list[tuple[Node, Node]]:
        return [(node_at(self, first), node_at(self, second)) for first, second in self._edges()]

    def _edges(self) -> list[tuple[int, int]]:
        driver, handle, count = self._primary.driver, cuda_h.CUgraph(self.handle), ctypes.c_size_t()
        ask: Callable[..., object] = driver.cuGraphGetEdges
        data: list[object] = []
        if driver.has("cuGraphGetEdges_v2"):  # the first one refuses edges with data
            ask, data = driver.cuGraphGetEdges_v2, [None]
        ask(handle, None, None, *data, byref(count))
        many = count.value
        if not many:
            return []
        if data:
            data = [(cuda_h.CUgraphEdgeData * many)()]
        first, second = (cuda_h.CUgraphNode * many)(), (cuda_h.CUgraphNode * many)()
        ask(handle, first, second, *data, byref(count))
        return [*zip(map(word, first[: count.value]), map(word, second[: count.value]))]

    def add_edge(self, first: Node, second: Node) -> None:
        """Make the second node wait for the first.

        calls   cuGraphAddDependencies, cuGraphAddDependencies_v2
        raises  ValueError  the edge exists, or would create a cycle; a node of another graph
        """
        with self._changing(), self._primary.current():
            self._refuse_recording()
            check_node(self, first, "first")
            check_node(self, second, "second")
            if first in second.pred:
                raise ValueError(f"there is already an edge from {first!r} to {second!r}: graph.edges lists all")
            cycle = path(second, first)
            if cycle:
                raise ValueError(
                    f"an edge from {first!r} to {second!r} would create a cycle: "
                    f"{' -> '.join(map(repr, [first, *cycle]))}; none of these nodes could ever run"
                )
            self._change_edge("cuGraphAddDependencies", first, second)

    def remove_edge(self, first: Node, second: Node) -> None:
        """Remove the edge from the first node to the second.

        calls   cuGraphRemoveDependencies, cuGraphRemoveDependencies_v2
        raises  ValueError  there is no such edge
        """
        with self._changing(), self._primary.current():
            self._refuse_recording()
            check_node(self, first, "first")
            check_node(self, second, "second")
            try:
                self._change_edge("cuGraphRemoveDependencies", first, second)
            except CudaError:
                if first in second.pred:  # (asked only now: a node may have many)
                    raise
                raise ValueError(f"there is no edge from {first!r} to {second!r}: graph.edges lists all") from None

    def _change_edge(self, symbol: str, first: Node, second: Node) -> None:
        driver, graph, ends = self._primary.driver, cuda_h.CUgraph(self.handle), (array_of([first]), array_of([second]))
        if driver.has(symbol + "_v2"):
            getattr(driver, symbol + "_v2")(graph, *ends, None, 1)
        else:
            getattr(driver, symbol)(graph, *ends, 1)
        self._changed()

    # -- copies and pictures

    def clone(self) -> Graph:
        """Return a copy of this graph with its child graphs.

        calls   cuGraphClone
        raises  Unsupported  a graph with allocations or conditional nodes
        """
        if self._parent is not None:
            raise ValueError(f"{self!r} belongs to a node: clone the graph of that node")
        made = Graph.__new__(Graph)
        made._prepare(self._primary, self.device)
        if dropped:
            drain()
        with self._changing(), self._primary.current():
            self._refuse_recording()
            self._clone(made)
        return made

    def _clone(self, made: Graph) -> None:
        """Make the clone, while no other thread changes this graph."""
        check_open(self)
        with explained(self, "cannot be cloned: build it a second time"):
            make(made, CLONE, self._primary, (as_argument(self.handle),), is_locked=True)
        kept = dict(self._kept)
        for node in self.nodes:
            copied, given = made.find(node).handle, node._given
            made._keep(copied, kept.pop(node.handle, None))
            if given is not None:
                made._given[copied] = given
        # The nodes of child graphs: the clone's have other handles, and may later get these.
        made._kept.update({(key,): things for key, things in kept.items()})

    def find(self, node: Node) -> Node:
        """Return the node of this clone that was made from a node of the original.

        calls   cuGraphNodeFindInClone
        raises  ValueError  this graph is not a clone of the node's graph, or does not have the node any more; a node of
                            a child graph, which is in `clone.find(child_node).child`
        """
        if not isinstance(node, Node):
            raise TypeError(f"find() needs a node of the graph that was cloned, not {a_kind(node)}")
        if node.graph._parent is not None:
            raise ValueError(
                f"{node!r} is in a graph that belongs to {node.graph._parent!r}: find that node, and this one in the "
                "graph of its copy"
            )
        found = cuda_h.CUgraphNode()
        first, second = self._locks((node,))  # another thread may destroy the node
        with first, second, self._primary.current():
            original = cuda_h.CUgraphNode(node.handle)
            try:
                self._primary.driver.cuGraphNodeFindInClone(byref(found), original, cuda_h.CUgraph(self.handle))
            except InvalidUse:
                raise ValueError(
                    f"{self!r} has no node that was made from {node!r}: it is not a clone of that node's graph"
                ) from None
            return node_at(self, found.value or 0)

    def debug_dot(self, *, verbose: bool = False) -> str:
        """Return the driver's description of this graph in the language of Graphviz.

        verbose  with all parameters and handles
        calls    cuGraphDebugDotPrint
        raises   Closed           a node uses a module, event, texture or CUDA array that is closed
                 PermissionError  other users can exchange files in the folder for temporary files
        """
        import os
        import secrets
        import sys
        import tempfile

        flags, folder = int(as_bool("verbose", verbose)), os.path.abspath(tempfile.gettempdir())
        if sys.platform != "emscripten":  # (a browser has one user, and a /tmp without the sticky bit)
            locate.refuse_planted(folder, private=True)  # the driver opens the file by its path, and follows a link
        path = os.path.join(folder, f"{secrets.token_hex(16)}.dot")  # known before: an interrupt leaves no file
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))  # for no other user
            with self._asking(), self._primary.current():
                check_open(self)  # the driver reads the names of functions
                self._primary.driver.cuGraphDebugDotPrint(cuda_h.CUgraph(self.handle), os.fsencode(path), flags)
            with open(path, encoding="utf-8", errors="replace") as file:
                return file.read()
        finally:
            try:
                os.unlink(path)
            except FileNotFoundError:
                pass

    def _repr_svg_(self) -> str | None:
        from ... import _graph_picture

        return _graph_picture(self)

    def _repr_html_(self) -> str | None:
        from ... import _html

        picture = self._repr_svg_()
        if picture:
            return _html(repr(self), picture)
        return None

    # -- for the modules in graphs/

    @property
    def _root(self) -> Graph:
        """Return the outermost graph that contains this one, or this graph if none does."""
        return self._outer or self

    def _add(self, what: str, after: object, *given: object, **named: object) -> Any:
        """Add a node; `what` names the function of graphs/node_parameters.py that reads the arguments."""
        return add(self, what, after, given, named)

    def _changing(self) -> Any:
        """Return the lock for a change of the CUgraph, as _asking(); call _refuse_recording() in the with block."""
        self.handle  # raises Closed
        return self._asking()

    def _locks(self, given: Iterable[object]) -> tuple[Any, Any]:
        """Return the lock of _changing(), and that of a graph or node among the arguments, in the order of all threads.

        Another one may embed this graph in that one, or free its memory.
        """
        graphs = [each.graph if isinstance(each, Node) else each for each in given]
        other = next((each for each in graphs if isinstance(each, Graph)), self)
        first, second = sorted((self._changing(), other._root._lock), key=id)
        return first, second

    def _asking(self) -> Any:
        """Return the lock for a use of the CUgraph; refuse a host function, for which a launch that has it may wait.

        It is for `with graph._asking(), graph._primary.current():`. An interrupt between the two would leave it locked.
        """
        self._primary.driver.check_thread("a graph")
        return self._root._lock

    def _recording(self) -> StreamCapture | None:
        """Return the capture into this graph that is in progress, if there is one."""
        release: Any = self._root._release
        if getattr(release, "recording", None) is not None and dropped:  # its with block may have been left
            drain()
        return getattr(release, "recording", None)

    def _refuse_recording(self) -> None:
        """Refuse a change during a capture into this graph, which may begin before the lock is taken."""
        recording = self._recording()
        if recording is not None:
            raise ValueError(f"{recording!r} is in progress: a graph cannot be changed until its with block ends")

    def _changed(self) -> None:
        """Record a change, so that the next launch instantiates this graph again."""
        self._root._version += 1
        self._root._owners = None

    def _keep(self, key: object, things: Sequence[object] | None) -> None:
        """Keep alive what a node uses now, instead of what it used before."""
        if things:
            self._root._kept[key] = things
        else:
            self._root._kept.pop(key, None)
        self._changed()

    def close(self) -> None:
        """Destroy the graph, and release what its nodes use; pending launches are still completed.

        The graph in a node belongs to the node, so that its close() does nothing.
        """
        if self._parent is None:
            super().close()

    def _close(self) -> None:
        with unless_inside(self._root._lock):
            own = self._executable
            held = [*self._kept.values(), *self._given.values(), *(() if own is None else own._held())]
            super()._close()
            self._kept.clear()
            self._given.clear()
            self._changed()
        del held  # (after the lock: see Executable._held)

    def detach(self) -> int:
        """Return the handle and give up its ownership; the graph in a node stays usable, and belongs to the node."""
        if self._parent is not None:
            return self.handle
        return super().detach()

    def _closing(self) -> bool:
        invalidate()
        recording = self._recording()
        if recording is not None:
            recording.release(False)  # the driver must not go on to capture into it
        own = self._executable
        if own is not None:
            self._executable = None
            own._close()
        return super()._closing()

    def __repr__(self) -> str:
        if self._state == "built":
            return f"<Graph {shown_handle(self)}>"
        return f"<Graph {self._state}{' closed' if self._state == 'recorded' and self.closed else ''}>"
