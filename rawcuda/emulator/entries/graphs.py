"""Entry points: stream capture, and the graphs that it creates.

What it is   Capture, which turns the work submitted to streams into nodes; Graph and GraphExec, which hold the nodes.
What not     the creation of single nodes: see emulator/gaps.py.
How          a graph is a list of nodes, each with the numbers of the earlier nodes that it waits for, so the list is an
             order in which the nodes can run. A launch submits the nodes to a stream one after another, in random mode
             in any permitted order. A node repeats what the captured call did: it reads host memory in each launch.
Source       CUDA Driver API, "Stream Management" (capture), "Graph Management"; Programming Guide, "CUDA Graphs"
Read next    emulator/gaps.py
"""

from __future__ import annotations

import random

from ..codes import Refused
from ..machine import Machine, Thread
from ..queues import Stream
from ..thunks import entry, get_int, out, put_int, put_u64

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

__all__ = ["Capture", "Node", "Graph", "GraphExec"]

_GLOBAL, _THREAD_LOCAL, _RELAXED = range(3)
_NONE, _ACTIVE, _INVALIDATED = range(3)


class Node:
    """A piece of work in a graph, and the numbers of the nodes that it waits for."""

    __slots__ = ("run", "name", "kind", "after")

    def __init__(self, run: Callable[[], None], name: str, kind: int, after: tuple[int, ...]) -> None:
        self.run, self.name, self.kind, self.after = run, name, kind, after


class Graph:
    """A list of nodes, each after those that it waits for."""

    __slots__ = ("handle", "nodes")

    def __init__(self) -> None:
        self.handle = 0
        self.nodes: list[Node] = []


class GraphExec:
    """An executable graph: the nodes of a graph at the time of its instantiation."""

    __slots__ = ("handle", "nodes")

    def __init__(self, graph: Graph) -> None:
        self.handle = 0
        self.nodes = tuple(graph.nodes)

    def order(self, chance: random.Random | None) -> list[Node]:
        """Return the nodes in an order in which they can run: as captured, or a random one."""
        if chance is None:
            return list(self.nodes)
        waiting, ordered = set(range(len(self.nodes))), []
        done: set[int] = set()
        while waiting:
            index = chance.choice([index for index in sorted(waiting) if done.issuperset(self.nodes[index].after)])
            waiting.remove(index)
            done.add(index)
            ordered.append(self.nodes[index])
        return ordered


class Capture:
    """A capture in progress: its graph, its streams, and the nodes that the next node of each stream waits for."""

    def __init__(self, machine: Machine, origin: Stream, mode: int) -> None:
        self.machine, self.origin, self.mode = machine, origin, mode
        self.thread = machine.thread()
        self.ident = next(machine.counter)
        self.graph = Graph()
        self.valid, self.over = True, False
        self.frontier: dict[Stream, tuple[int, ...]] = {}
        machine.captures.add(self)
        self.enter(origin, ())

    def enter(self, stream: Stream, after: tuple[int, ...]) -> None:
        """Add a stream to this capture."""
        stream.capture = self
        stream.context.captures += stream.blocking
        self.frontier[stream] = after

    def leave(self, stream: Stream) -> None:
        """Remove a stream from this capture."""
        if stream.capture is self:
            stream.capture = None
            stream.context.captures -= stream.blocking
        self.frontier.pop(stream, None)
        if not self.frontier:
            self.over = True
            self.machine.captures.discard(self)

    def add(self, stream: Stream, run: Callable[[], None], name: str, kind: int) -> None:
        """Add a node for work that is submitted to a stream."""
        if not self.valid:
            raise Refused(901)
        self.graph.nodes.append(Node(run, name, kind, self.frontier[stream]))
        self.frontier[stream] = (len(self.graph.nodes) - 1,)

    def mark(self, stream: Stream) -> tuple[int, ...]:
        """Return the nodes that an event waits for if it is recorded now."""
        if not self.valid:
            raise Refused(901)
        return self.frontier[stream]

    def wait(self, stream: Stream, nodes: tuple[int, ...]) -> None:
        """Make a stream wait for nodes, and add it to the capture if it is not capturing yet."""
        if self.over:
            raise Refused(907, "this event was last recorded in a capture that has ended: record it again")
        if not self.valid:
            raise Refused(901)
        if stream.capture is None:
            if stream is stream.context.legacy:
                self.invalidate()
                raise Refused(906)
            self.enter(stream, nodes)
        elif stream.capture is not self:
            stream.capture.invalidate()
            self.invalidate()
            raise Refused(902)
        else:
            self.frontier[stream] = tuple(sorted({*self.frontier[stream], *nodes}))

    def repair(self, streams: list[Stream]) -> None:
        """Correct the effects of an interrupted call; a stream that was partly added invalidates the capture."""
        for stream in streams:
            if (stream.capture is self) != (stream in self.frontier):
                self.invalidate()
                stream.capture = None if stream.capture is self else stream.capture
                self.frontier.pop(stream, None)
        if self.origin.capture is not self:
            for stream in list(self.frontier):
                self.leave(stream)
        if not self.frontier:
            self.over = True
            self.machine.captures.discard(self)

    def isolate(self) -> None:
        """Refuse to wait for work outside the capture."""
        self.invalidate()
        raise Refused(905)

    def invalidate(self) -> None:
        """Invalidate this capture: it can only be ended now."""
        self.valid = False

    def refuse_unsafe(self, thread: Thread) -> None:
        """Refuse a call that could disturb a capture, unless the modes permit it."""
        if _RELAXED in (self.mode, thread.capture_mode) or (
            _THREAD_LOCAL in (self.mode, thread.capture_mode) and self.thread is not thread
        ):
            return
        self.invalidate()
        raise Refused(
            900, "this call may synchronize, and a stream is capturing; see cuThreadExchangeStreamCaptureMode"
        )

    def end(self) -> Graph | None:
        """End the capture; return its graph, or None if it was invalidated."""
        unjoined = {index for stream, nodes in self.frontier.items() if stream is not self.origin for index in nodes}
        joined = self._reaching(self.frontier[self.origin])
        for stream in list(self.frontier):
            self.leave(stream)
        if not self.valid:
            return None
        if not unjoined <= joined:
            raise Refused(
                904,
                "a stream that joined this capture has work that the first stream does not wait for: record an "
                "event there, and let the first stream wait for it",
            )
        return self.graph

    def _reaching(self, nodes: tuple[int, ...]) -> set[int]:
        """Return these nodes and all nodes that they wait for."""
        found: set[int] = set()
        todo = list(nodes)
        while todo:
            index = todo.pop()
            if index not in found:
                found.add(index)
                todo += self.graph.nodes[index].after
        return found


# -- capturing


@entry("cuStreamBeginCapture_v2(CUstream hStream, CUstreamCaptureMode mode)", since=10010)
def begin(machine: Machine, handle: int, mode: int) -> None:
    """Begin a capture of the work that is submitted to a stream."""
    stream = machine.stream(handle)
    if not 0 <= mode <= 2:
        raise Refused(1)
    if stream is stream.context.legacy:
        raise Refused(900, "the legacy default stream cannot be captured")
    if stream.capture is not None:
        raise Refused(401, "this stream is already capturing")
    stream.capture = Capture(machine, stream, mode)


@entry("cuStreamEndCapture(CUstream hStream, CUgraph *phGraph)", since=10000)
def end(machine: Machine, handle: int, address: int) -> None:
    """End a capture, and write its graph."""
    out(address)
    stream = machine.stream(handle)
    capture = stream.capture
    if capture is None:
        raise Refused(401, "this stream is not capturing")
    if capture.origin is not stream:
        capture.invalidate()
        raise Refused(903)
    if capture.mode != _RELAXED and capture.thread is not machine.thread():
        raise Refused(908)
    put_u64(address, 0)
    graph = capture.end()
    if graph is None:
        raise Refused(901)
    put_u64(address, machine.add(graph).handle)


def _status(stream: Stream) -> int:
    return _NONE if stream.capture is None else _ACTIVE if stream.capture.valid else _INVALIDATED


@entry("cuStreamIsCapturing(CUstream hStream, CUstreamCaptureStatus *captureStatus)", since=10000)
def is_capturing(machine: Machine, handle: int, address: int) -> None:
    """Write whether a stream is capturing."""
    out(address)
    stream = machine.stream(handle)
    if stream is stream.context.legacy and stream.context.captures:
        raise Refused(906)
    put_int(address, _status(stream))


@entry(
    "cuStreamGetCaptureInfo(CUstream hStream, CUstreamCaptureStatus *captureStatus_out, cuuint64_t *id_out)",
    since=10010,
)
def capture_info(machine: Machine, handle: int, status: int, ident: int) -> None:
    """Write a capture's status and number."""
    out(status)
    stream = machine.stream(handle)
    put_int(status, _status(stream))
    if ident and stream.capture is not None:
        put_u64(ident, stream.capture.ident)


def _save_mode(machine: Machine, address: int) -> Callable[[], object]:
    """Return a function that restores the calling thread's capture mode, and the caller's."""
    thread, wanted = machine.thread(), get_int(address)
    before = thread.capture_mode

    def restore() -> None:
        thread.capture_mode = before
        put_int(address, wanted)

    return restore


@entry("cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)", since=10010, save=_save_mode)
def exchange_mode(machine: Machine, address: int) -> None:
    """Set the calling thread's capture mode, and write the previous one."""
    wanted = get_int(address)
    if not 0 <= wanted <= 2:
        raise Refused(1)
    thread = machine.thread()
    put_int(address, thread.capture_mode)
    thread.capture_mode = wanted


# -- graphs


@entry("cuGraphDestroy(CUgraph hGraph)", since=10000)
def destroy(machine: Machine, handle: int) -> None:
    """Destroy a graph; what was instantiated from it stays."""
    machine.get(Graph, handle)
    del machine.handles[handle]


@entry("cuGraphInstantiateWithFlags(CUgraphExec *phGraphExec, CUgraph hGraph, unsigned long long flags)", since=11040)
def instantiate(machine: Machine, address: int, handle: int, flags: int) -> None:
    """Create an executable graph."""
    out(address)
    machine.context()
    if flags & ~15:
        raise Refused(1)
    put_u64(address, machine.add(GraphExec(machine.get(Graph, handle))).handle)


@entry("cuGraphLaunch(CUgraphExec hGraphExec, CUstream hStream)", since=10000)
def launch(machine: Machine, handle: int, stream_handle: int) -> None:
    """Submit a graph's nodes to a stream."""
    stream = machine.stream(stream_handle)
    graph = machine.get(GraphExec, handle)
    if stream.capture is not None:
        stream.capture.invalidate()
        raise Refused(801, "a graph inside a graph is not emulated")
    for node in graph.order(machine.queues.chance):
        machine.queues.submit(stream, node.run, node.name, node.kind)


@entry("cuGraphExecDestroy(CUgraphExec hGraphExec)", since=10000)
def exec_destroy(machine: Machine, handle: int) -> None:
    """Destroy an executable graph."""
    machine.get(GraphExec, handle)
    del machine.handles[handle]
