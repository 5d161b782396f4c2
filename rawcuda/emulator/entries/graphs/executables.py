"""Executable graphs: instantiation, launch, and the change of nodes.

How          an executable graph is a copy of the graph without handles. A launch lists the nodes of the copy and of its
             child graphs in one order that the edges permit, and submits them to the stream one after another, between
             a begin and an end: in eager mode in the order in which they were added, in lazy mode the latest first, in
             random mode in any order. So a missing edge gives wrong results in one of the modes. When a conditional
             node runs, it inserts the work of its body behind itself. Launches of one executable graph run one after
             another.
Source       CUDA Driver API, cuGraphInstantiateWithParams, cuGraphLaunch, cuGraphExecUpdate
Read next    dot.py
"""

from __future__ import annotations

import random
import struct
from bisect import bisect_left, insort
from time import perf_counter

from ...interface.thunks import WORD, entry, out, put_bytes, put_int, put_u64, put_uint, put_word, read
from ...machine import queues
from ...machine.codes import GRAPH_EXEC_UPDATE_FAILURE, Refused
from ...machine.machine import Device, Machine
from ...machine.queues import INSTANT, Event, Stream, Work
from ...machine.space import Fault
from ..tasks.attribute_entries import events_of
from .definitions import Graph, Node, cycle_in, graph_at, let_go, node_at, share_all
from .operations import Allocate, Child, Conditional, Copy, Empty, Fill, Free, Launch, Operation, Record, Wait
from .parameter_entries import _read_copy, _read_fill, _read_host, operation_at, read_kernel
from .reservations import check_room

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from .objects import UserObject

__all__ = ["GraphExec"]

INSTANTIATE = struct.Struct("Q PP i 0Q")  # flags, stream; failing node; result
UPDATED = struct.Struct("i PP")  # result; node, the node that its edge comes from
_RESULT = 8 + WORD  # where the failing node is in INSTANTIATE
_AUTO_FREE, _UPLOAD, _DEVICE, _USE_PRIORITY, _FLAGS = 1, 2, 4, 8, 15
_STRUCTURE, _UNUSED = 2, 5  # CUgraphInstantiateResult
_ERROR, _TOPOLOGY, _PARAMETERS, _ATTRIBUTES = 1, 2, 5, 8  # CUgraphExecUpdateResult


class GraphExec:
    """An executable graph: a copy of a graph, and its launches; `twins` maps nodes of the graph to their copies.

    origin      the graph from which it was instantiated
    places      where the operands of each copy and fill were at the instantiation; they must stay there
    conditions  the graphs whose conditions launches use, the newest last; pending ones use those before an update, too
    retired     the user objects that pending launches may use, though an update has replaced them
    """

    __slots__ = (
        "handle", "graph", "origin", "places", "conditions", "twins", "disabled", "flags", "last", "pending", "retired",
        "closed",
    )  # fmt: skip

    def __init__(self, machine: Machine, graph: Graph, flags: int) -> None:
        self.handle = 0
        self.origin, self.flags = graph, flags
        self.twins: dict[Node, Node] = {}
        self.graph = graph.copy(None, self.twins)
        self.places = {node: node.does.places(machine) for node in self.graph.walk()}
        self.disabled: set[Node] = set()
        self.last: Work | None = None  # the end of the newest launch
        self.pending = 0  # launches that have not ended
        self.closed = False
        self.retired: list[dict[UserObject, int]] = []
        share_all(graph, self.graph)
        self.conditions = [graph]
        graph.users += 1
        graph.executables += 1

    def node(self, original: Node) -> Node:
        """Return the node that was made from a node of the graph."""
        found = self.twins.get(original)
        if found is None or original.graph.root is not self.origin.root:
            raise Refused(1, f"{original!r} is not a node of the graph from which this was instantiated")
        return found

    def prevents(self, machine: Machine, node: Node, does: Operation) -> int:
        """Return 0 if a node of this can change to another operation, or else a CUgraphExecUpdateResult."""
        why = node.does.prevents(does)
        if not why and does.places(machine) != self.places[node]:
            return _PARAMETERS
        if not why and self.flags & _USE_PRIORITY and node.does.priority != does.priority:
            return _ATTRIBUTES
        return why

    def replace(self, machine: Machine, old: Graph, new: Graph) -> None:
        """Hold the user objects of a graph with the same nodes instead of those of a part of this one."""
        self.retired += [part.objects for part in old.parts()]
        share_all(new, old)
        self.release(machine)

    def take_conditions(self, machine: Machine, graph: Graph) -> None:
        """Have the conditions of a graph with the same nodes instead of those until now."""
        graph.users += 1
        self.conditions.append(graph)
        self.release(machine)

    def release(self, machine: Machine) -> None:
        """Release what no launch that is pending, or to come, can use."""
        if self.pending:
            return
        while self.retired:
            let_go(machine, self.retired.pop())
        while len(self.conditions) > (not self.closed):
            graph = self.conditions.pop(0)
            graph.users -= 1
            if not graph.users and graph.handle not in machine.handles:
                graph.drop_conditions(machine)
        if self.closed:
            for part in self.graph.parts():
                let_go(machine, part.objects)

    def end(self, machine: Machine) -> None:
        """Record the end of a launch."""
        self.pending -= 1
        self.release(machine)


# -- the order of a launch


def _steps(graph: Graph, first: frozenset[int], steps: list[tuple[Node | None, frozenset[int]]]) -> frozenset[int]:
    """Append the nodes of a graph and its child graphs to `steps`, each with the numbers of the steps it waits for.

    Between several nodes and the many that wait for all of them, at both ends of a child graph, comes a step without
    a node: each would otherwise have the numbers of all others.

    first    the steps for which nodes without edges wait
    returns  the steps for which a successor of the whole graph waits
    """
    ends: dict[Node, frozenset[int]] = {}
    for node in _sorted(graph.nodes):
        if node.after:
            before = frozenset().union(*[ends[other] for other in node.after])
        else:
            before = first
        if isinstance(node.does, Child):
            ends[node] = _joined(_steps(node.does.graph, _joined(before, steps), steps), steps)
        else:
            ends[node] = frozenset((len(steps),))
            steps.append((node, before))
    if ends:
        return frozenset().union(*ends.values())
    return first


def _joined(before: frozenset[int], steps: list[tuple[Node | None, frozenset[int]]]) -> frozenset[int]:
    """Return at most one step, which waits for some others."""
    if len(before) < 2:
        return before
    steps.append((None, before))
    return frozenset((len(steps) - 1,))


def _sorted(nodes: Sequence[Node]) -> list[Node]:
    """Return nodes in an order in which they can run: in that of their numbers, as often as it takes to reach all.

    A node is reached one time later than a node for which it waits, if that one has a higher number.
    """
    number, left = {node: at for at, node in enumerate(nodes)}, {node: len(node.after) for node in nodes}
    followers: dict[Node, list[Node]] = {node: [] for node in nodes}
    for node in nodes:
        for other in node.after:
            followers[other].append(node)
    times = {node: 0 for node in nodes if not left[node]}
    ready = list(times)
    for node in ready:  # it gets longer meanwhile
        for other in followers[node]:
            times[other] = max(times.get(other, 0), times[node] + (number[node] > number[other]))
            left[other] -= 1
            if not left[other]:
                ready.append(other)
    if len(ready) < len(nodes):
        raise Refused(1, f"nodes wait for each other in a cycle: {[node for node in nodes if left[node]]}")
    return sorted(ready, key=lambda node: (times[node], number[node]))


def _order(machine: Machine, graph: Graph, disabled: set[Node]) -> list[Node]:
    """Return the nodes of a graph in an order in which they can run."""
    steps: list[tuple[Node | None, frozenset[int]]] = []
    _steps(graph, frozenset(), steps)
    mode, chance = machine.queues.mode, machine.queues.chance
    if mode != "eager":
        steps = _shuffled(steps, chance)
    return [node for node, _ in steps if node is not None and node not in disabled]


def _shuffled(
    steps: list[tuple[Node | None, frozenset[int]]], chance: random.Random | None
) -> list[tuple[Node | None, frozenset[int]]]:
    """Return steps in a permitted order: a random one, or, without `chance`, always the last step that can run."""
    left, followers = [len(before) for _, before in steps], [list[int]() for _ in steps]
    for number, (_, before) in enumerate(steps):
        for other in before:
            followers[other].append(number)
    ready, ordered = [number for number, count in enumerate(left) if not count], []  # in the order of their numbers
    while ready:
        if chance is None:
            number = ready.pop()
        else:
            number = chance.choice(ready)
            del ready[bisect_left(ready, number)]
        ordered.append(steps[number])
        for other in followers[number]:
            left[other] -= 1
            if not left[other]:
                insort(ready, other)
    return ordered


class _Turns:
    """The turns of a conditional node: the seconds that its work has taken, that of nodes inside it included."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def timed(self, work: Callable[[], None]) -> Callable[[], None]:
        """Return a function that does work, and adds its time."""

        def run() -> None:
            began = perf_counter()
            work()
            self.seconds += perf_counter() - began

        return run


def _pieces(
    machine: Machine, stream: Stream, graph: Graph, disabled: set[Node], turns: _Turns | None = None
) -> Iterable[tuple[Node, Callable[[], None]]]:
    """Return the nodes to run, in order, each with the function that does its work."""
    made = []
    for node in _order(machine, graph, disabled):
        does = node.does
        if isinstance(does, Conditional):
            made.append((node, _choice(machine, stream, does, disabled, turns or _Turns())))
        elif turns is not None:
            made.append((node, turns.timed(does.work(machine))))
        else:
            made.append((node, does.work(machine)))
    return made


def _choice(
    machine: Machine, stream: Stream, does: Conditional, disabled: set[Node], turns: _Turns
) -> Callable[[], None]:
    """Return the function of a conditional node, which inserts the work of the chosen body behind itself."""

    def choose() -> None:
        limit = machine.space.timeout
        if limit and turns.seconds > limit:
            raise Fault(
                702, f"a conditional node of a graph has run for more than {limit:g} seconds (timeout={limit:g})"
            )
        body = does.chosen()
        if body is None:
            return
        if does.form == 1 and not body.holds(Launch):
            raise Fault(
                702,
                "endless loop: a conditional node of a graph repeats its body while its condition is not 0, and no "
                "kernel in the body can change the condition: add one that calls cudaGraphSetConditional to the graph "
                "that phGraph_out gave when the node was added",
            )
        following = [
            (run, node.does.name, node.does.kind) for node, run in _pieces(machine, stream, body, disabled, turns)
        ]
        if does.form == 1:
            following.append((choose, does.name, does.kind))
        machine.queues.follow(stream, following)

    return choose


def _check_memory(machine: Machine, ready: GraphExec, order: Iterable[Node]) -> list[Allocate]:
    """Refuse a second allocation, a free of memory that is not allocated, and more memory than the device has.

    returns  the allocations to free first
    """
    taken: dict[object, bool] = {}
    more: dict[Device, int] = {}  # how many bytes more than now the graph uses at this point of the order
    most: dict[Device, int] = {}  # the largest of these numbers
    first = []
    for node in order:
        does = node.does
        if isinstance(does, (Allocate, Free)):
            memory = does.memory
            has = taken.get(memory, memory.is_taken)
            now = more.get(memory.device, 0) + memory.size * (isinstance(does, Allocate) - has)
            more[memory.device], most[memory.device] = now, max(now, most.get(memory.device, 0))
            if isinstance(does, Free):
                if not has:
                    raise Refused(1, f"this graph frees {memory.base:#x}, which is not allocated: allocate it first")
            elif has and memory not in taken and ready.flags & _AUTO_FREE:
                first.append(does)
            elif has:
                raise Refused(
                    1,
                    f"{memory.base:#x}, which an earlier launch of this graph allocated, was not freed: free it, or "
                    "instantiate the graph with CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH",
                )
            taken[memory] = isinstance(does, Allocate)
    for device, needed in most.items():
        check_room(machine, device, needed)
    return first


def _events(machine: Machine, does: Operation) -> list[Event]:
    """Return the events that a node records."""
    if isinstance(does, Launch):
        return events_of(machine, does.attributes)
    if isinstance(does, Record):
        return [does.event]
    return []


@entry("cuGraphLaunch(CUgraphExec hGraphExec, CUstream hStream)", since=10000)
def launch(machine: Machine, handle: int, stream_handle: int) -> None:
    """Submit a graph's nodes to a stream; in a capture, add a child graph."""
    stream = machine.stream(stream_handle)
    ready = machine.get(GraphExec, handle)
    if stream.capture is not None:
        if ready.graph.holds(Allocate, Free, Conditional):
            stream.capture.invalidate()
            raise Refused(801, "a graph with allocations, frees or conditional nodes cannot be captured")
        stream.capture.graph.check_node(Child(ready.graph))  # before the copy, which nothing would destroy
        copies: dict[Node, Node] = {}
        copied = machine.add(ready.graph.copy(machine, copies))
        for node in ready.disabled:
            copies[node].does = Empty()
        share_all(ready.graph, copied)
        copied.counted = False
        stream.capture.add(stream, Child(copied))
        return
    machine.queues.admit(stream)
    graph, disabled = ready.graph, ready.disabled
    if graph.holds(Conditional):  # later changes do not affect this launch, whose bodies are read while it runs
        twins: dict[Node, Node] = {}
        graph, disabled = graph.copy(None, twins), {twins[node] for node in disabled}
    pieces = list(_pieces(machine, stream, graph, disabled))
    events = [_events(machine, node.does) for node, _ in pieces]
    first = _check_memory(machine, ready, [node for node, _ in pieces])
    conditions = [each.does.condition for each in graph.walk() if isinstance(each.does, Conditional)]

    def begin() -> None:
        for condition in conditions:
            condition.begin()

    with machine.queues.together():
        for early in first:
            early.memory.leave()
            machine.queues.submit(stream, early.memory.end, "the end of memory of a graph")
        end = _queue(machine, stream, ready, begin, pieces, events)
    machine.queues.go_on(end)


def _queue(
    machine: Machine, stream: Stream, ready: GraphExec, begin: Callable[[], None],
    pieces: list[tuple[Node, Callable[[], None]]], events: list[list[Event]],
) -> Work:  # fmt: skip
    """Queue the pieces of a launch, each with the events that it records, and return their end."""
    submit, last = machine.queues.submit, ready.last
    ready.pending += 1
    submit(stream, begin, "the start of a graph", INSTANT, [last] if last is not None else ())
    for (node, run), marks in zip(pieces, events):
        does = node.does
        if isinstance(does, Allocate):
            does.memory.enter()
        elif isinstance(does, Free):
            does.memory.leave()
        if isinstance(does, Wait) and does.event.work is not None:
            after = [does.event.work]
        else:
            after = []
        if isinstance(does, Wait) and does.event.shared is not None:
            run = does.event.shared.wait()
        work = submit(stream, run, does.name, does.kind, after)
        for event in marks:
            event.work, event.captured = work, None
    ready.last = submit(stream, queues.Conditional(lambda: ready.end(machine), always=True), "the end of a graph")
    return ready.last


# -- instantiation


def _instantiate(machine: Machine, graph: Graph, flags: int) -> tuple[GraphExec | None, int, Node | None, str]:
    """Return the executable graph, or the CUgraphInstantiateResult, the failing node, and a report."""
    machine.context()
    if graph.parent is not None:
        raise Refused(1, "a graph that belongs to a node cannot be instantiated: instantiate the outermost graph")
    if flags & ~_FLAGS:
        raise Refused(1)
    if flags & _DEVICE:
        raise Refused(801, "launches of graphs by kernels (CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) are not emulated")
    graph.refuse_while_capturing()
    for part in (graph, *(inner for node in graph.walk() for inner in node.inside)):
        cycle = cycle_in(part)
        if cycle:
            return None, _STRUCTURE, cycle[0], f"nodes wait for each other in a cycle: {cycle}"
    for condition in graph.conditions:
        if condition.node is None or condition.node.handle not in machine.handles:
            return None, _UNUSED, None, "a condition of this graph is used by no conditional node: add a node for it"
    if graph.executables and graph.holds(Allocate, Free, Conditional):
        return (
            None,
            _ERROR,
            None,
            (
                "a graph with allocations, frees or conditional nodes can have only one executable graph at a time: "
                "destroy the other one first"
            ),
        )
    for node in graph.walk():
        node.does.check(machine)
        choice = node.graph.choice
        if choice is not None:
            node.does.check_in_body(machine, choice.condition.context)
    return machine.add(GraphExec(machine, graph, flags)), 0, None, ""


@entry("cuGraphInstantiateWithFlags(CUgraphExec *phGraphExec, CUgraph hGraph, unsigned long long flags)", since=11040)
def instantiate(machine: Machine, address: int, handle: int, flags: int) -> None:
    """Create an executable graph."""
    out(address)
    if flags & _UPLOAD:
        raise Refused(1, "CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD needs a stream: use cuGraphInstantiateWithParams")
    made, _, _, report = _instantiate(machine, graph_at(machine, handle), flags)
    if made is None:
        raise Refused(1, report)
    put_word(address, made.handle)


@entry(
    "cuGraphInstantiateWithParams(CUgraphExec *phGraphExec, CUgraph hGraph, "
    "CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams)",
    since=12000,
)
def instantiate_with(machine: Machine, address: int, handle: int, parameters: int) -> None:
    """Create an executable graph, and write the result or the reason why that is not possible."""
    out(address)
    flags, stream, _, _ = read(INSTANTIATE, parameters)
    if flags & _UPLOAD:
        machine.stream(stream)
    put_int(parameters + _RESULT + WORD, _ERROR)
    made, result, node, report = _instantiate(machine, graph_at(machine, handle), flags)
    put_bytes(parameters + _RESULT, struct.pack("Pi", node.handle if node is not None else 0, result))
    if made is None:
        raise Refused(1, report)
    put_word(address, made.handle)


@entry("cuGraphExecDestroy(CUgraphExec hGraphExec)", since=10000)
def exec_destroy(machine: Machine, handle: int) -> None:
    """Destroy an executable graph; pending launches still run."""
    ready = machine.get(GraphExec, handle)
    del machine.handles[handle]
    ready.origin.executables -= 1
    ready.closed = True
    ready.release(machine)


@entry("cuGraphExecGetFlags(CUgraphExec hGraphExec, cuuint64_t *flags)", since=12000)
def get_flags(machine: Machine, handle: int, address: int) -> None:
    """Write the flags of the instantiation."""
    put_u64(address, machine.get(GraphExec, handle).flags)


@entry("cuGraphUpload(CUgraphExec hGraphExec, CUstream hStream)", since=11010)
def upload(machine: Machine, handle: int, stream: int) -> None:
    """Check the handles, and do nothing else: a launch needs no preparation."""
    machine.stream(stream)
    machine.get(GraphExec, handle)


# -- changing nodes of executable graphs


def _replace(machine: Machine, handle: int, node_handle: int, make: Callable[[Node], Operation]) -> None:
    """Give a node of an executable graph another operation, if the node can be changed in this way."""
    ready = machine.get(GraphExec, handle)
    node = ready.node(node_at(machine, node_handle))
    does = make(node)
    does.check(machine)
    if isinstance(does, Launch) and isinstance(node.does, Launch):
        does.attributes = node.does.attributes
    why = ready.prevents(machine, node, does)
    if why:
        raise Refused(
            1,
            f"{node.does.name} of an executable graph cannot be changed into {does.name} like this: "
            "instantiate the graph again",
        )
    if isinstance(does, Copy) and not (does.is_flat and node.does.is_flat):  # type: ignore[attr-defined]
        raise Refused(1, "a copy of several rows in an executable graph cannot be changed: instantiate the graph again")
    node.does = does


@entry(
    "cuGraphExecKernelNodeSetParams_v2(CUgraphExec hGraphExec, CUgraphNode hNode, "
    "const CUDA_KERNEL_NODE_PARAMS *nodeParams)",
    since=12000,
)
def set_kernel(machine: Machine, handle: int, node: int, address: int) -> None:
    """Set the parameters of a launch."""
    _replace(machine, handle, node, lambda _: read_kernel(machine, address))


@entry(
    "cuGraphExecKernelNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode, "
    "const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)",
    since=10010,
)
def set_old_kernel(machine: Machine, handle: int, node: int, address: int) -> None:
    """Set the parameters of a launch."""
    _replace(machine, handle, node, lambda _: read_kernel(machine, address, is_old=True))


@entry(
    "cuGraphExecMemcpyNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode, const CUDA_MEMCPY3D *copyParams, "
    "CUcontext ctx)",
    since=10020,
)
def set_copy(machine: Machine, handle: int, node: int, address: int, context: int) -> None:
    """Set the parameters of a copy of one row."""
    _replace(machine, handle, node, lambda _: _read_copy(machine, address, context))


@entry(
    "cuGraphExecMemsetNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode, "
    "const CUDA_MEMSET_NODE_PARAMS *memsetParams, CUcontext ctx)",
    since=10020,
)
def set_fill(machine: Machine, handle: int, node: int, address: int, context: int) -> None:
    """Set the parameters of a fill."""
    _replace(machine, handle, node, lambda _: _read_fill(machine, address, context))


@entry(
    "cuGraphExecHostNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode, const CUDA_HOST_NODE_PARAMS *nodeParams)",
    since=10020,
)
def set_host(machine: Machine, handle: int, node: int, address: int) -> None:
    """Set the parameters of a host function."""
    _replace(machine, handle, node, lambda _: _read_host(machine, address))


@entry("cuGraphExecEventRecordNodeSetEvent(CUgraphExec hGraphExec, CUgraphNode hNode, CUevent event)", since=11010)
def set_record(machine: Machine, handle: int, node: int, event: int) -> None:
    """Set the event that a node records."""
    _replace(machine, handle, node, lambda _: Record(machine.event(event)))


@entry("cuGraphExecEventWaitNodeSetEvent(CUgraphExec hGraphExec, CUgraphNode hNode, CUevent event)", since=11010)
def set_wait(machine: Machine, handle: int, node: int, event: int) -> None:
    """Set the event that a node waits for."""
    _replace(machine, handle, node, lambda _: Wait(machine.event(event)))


@entry("cuGraphExecChildGraphNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode, CUgraph childGraph)", since=11010)
def set_child(machine: Machine, handle: int, node_handle: int, child: int) -> None:
    """Set the parameters of all nodes of a child graph."""
    ready = machine.get(GraphExec, handle)
    node = ready.node(node_at(machine, node_handle))
    if not isinstance(node.does, Child):
        raise Refused(1, f"this node is {node.does.name}, not a child graph")
    if _replace_all(machine, ready, node.does.graph, graph_at(machine, child))[0]:
        raise Refused(1, "the child graph must have the same nodes and edges as the child graph in the node")


@entry(
    "cuGraphExecNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode, CUgraphNodeParams *nodeParams)", since=12020
)
def set_node(machine: Machine, handle: int, node_handle: int, address: int) -> None:
    """Set the parameters of a node of any type."""
    original = node_at(machine, node_handle)
    if isinstance(original.does, Child):
        set_child(machine, handle, node_handle, read(struct.Struct("16x P"), address)[0])
        return
    _replace(machine, handle, node_handle, lambda _: operation_at(machine, original.graph, address, old=original))


@entry("cuGraphNodeSetEnabled(CUgraphExec hGraphExec, CUgraphNode hNode, unsigned int isEnabled)", since=11060)
def set_enabled(machine: Machine, handle: int, node_handle: int, enabled: int) -> None:
    """Disable a launch, copy or fill, or enable it again."""
    ready, node = _switched(machine, handle, node_handle)
    (ready.disabled.discard if enabled else ready.disabled.add)(node)


@entry("cuGraphNodeGetEnabled(CUgraphExec hGraphExec, CUgraphNode hNode, unsigned int *isEnabled)", since=11060)
def get_enabled(machine: Machine, handle: int, node_handle: int, address: int) -> None:
    """Write whether a launch, copy or fill does its work."""
    ready, node = _switched(machine, handle, node_handle)
    put_uint(address, node not in ready.disabled)


def _switched(machine: Machine, handle: int, node_handle: int) -> tuple[GraphExec, Node]:
    ready = machine.get(GraphExec, handle)
    node = ready.node(node_at(machine, node_handle))
    if not isinstance(node.does, (Launch, Copy, Fill)):
        raise Refused(1, f"{node.does.name} cannot be disabled: only launches, copies and fills can")
    return ready, node


# -- updates of whole graphs


def _update(
    machine: Machine, ready: GraphExec, old: Graph, new: Graph
) -> tuple[int, Node | None, Node | None, list[tuple[Node, Operation]]]:
    """Compare two graphs; return a CUgraphExecUpdateResult, the node and the edge that differ, and the changes."""
    changes: list[tuple[Node, Operation]] = []
    if len(old.nodes) != len(new.nodes):
        return _TOPOLOGY, None, None, []
    pairs = dict(zip(new.nodes, old.nodes))
    for node, mine in pairs.items():
        if len(node.after) != len(mine.after):
            return _TOPOLOGY, node, None, []
        for other, theirs in zip(node.after, mine.after):
            if pairs[other] is not theirs or node.after[other] != mine.after[theirs]:
                return _TOPOLOGY, node, other, []
    for node, mine in pairs.items():
        why = ready.prevents(machine, mine, node.does)
        if why:
            return why, node, None, []
        if isinstance(node.does, Conditional) and isinstance(mine.does, Conditional):
            changes.append((mine, Conditional(node.does.condition, node.does.form, mine.does.bodies)))
        if isinstance(node.does, (Child, Conditional)):
            for its_body, body in zip(mine.inside, node.inside):
                result, *place, inner = _update(machine, ready, its_body, body)
                if result:
                    return result, *place, []  # type: ignore[return-value]
                changes += inner
        else:
            changes.append((mine, node.does))
    for mine, does in changes:
        mine.does = does
    return 0, None, None, changes


def _updated(machine: Machine, handle: int, graph_handle: int) -> tuple[int, Node | None, Node | None]:
    ready, graph = machine.get(GraphExec, handle), graph_at(machine, graph_handle)
    graph.refuse_while_capturing()
    differs = _replace_all(machine, ready, ready.graph, graph)
    if not differs[0]:
        ready.take_conditions(machine, graph)
    return differs


def _replace_all(machine: Machine, ready: GraphExec, old: Graph, new: Graph) -> tuple[int, Node | None, Node | None]:
    """Give the nodes of an executable graph, or of a graph inside it, the parameters of another graph, or change none.

    returns  a CUgraphExecUpdateResult, and the node and the edge that differ
    """
    before = [(node, node.does) for node in old.walk()]
    result, node, source, _ = _update(machine, ready, old, new)
    if result:
        for mine, does in before:
            mine.does = does
    else:
        ready.replace(machine, old, new)
    return result, node, source


@entry(
    "cuGraphExecUpdate_v2(CUgraphExec hGraphExec, CUgraph hGraph, CUgraphExecUpdateResultInfo *resultInfo)", since=12000
)
def update(machine: Machine, handle: int, graph: int, address: int) -> None:
    """Give an executable graph the parameters of a graph with the same nodes and edges."""
    out(address)
    result, node, source = _updated(machine, handle, graph)
    put_bytes(address, UPDATED.pack(result, node.handle if node else 0, source.handle if source else 0))
    if result:
        raise Refused(
            GRAPH_EXEC_UPDATE_FAILURE, f"the graph differs at {node!r}" if node else "the numbers of nodes differ"
        )


@entry(
    "cuGraphExecUpdate(CUgraphExec hGraphExec, CUgraph hGraph, CUgraphNode *hErrorNode_out, "
    "CUgraphExecUpdateResult *updateResult_out)",
    since=10020,
)
def old_update(machine: Machine, handle: int, graph: int, node_at_fault: int, why: int) -> None:
    """Give an executable graph the parameters of a graph with the same nodes and edges."""
    out(node_at_fault, why)
    result, node, _ = _updated(machine, handle, graph)
    put_word(node_at_fault, node.handle if node else 0)
    put_int(why, result)
    if result:
        raise Refused(
            GRAPH_EXEC_UPDATE_FAILURE, f"the graph differs at {node!r}" if node else "the numbers of nodes differ"
        )
