"""Entry points: stream capture, which turns the work that is submitted to streams into nodes of a graph.

What it is   Capture, a capture in progress: its graph, its streams, and the nodes that the next node of each waits for.
How          machine/queues.py and the entry points that submit work give the operation of a node to the capture instead
             of running it. A node repeats the captured call in each launch, so it reads host memory each time.
Source       CUDA Driver API, "Stream Management" (capture); Programming Guide, "CUDA Graphs"
Read next    emulator/interface/gaps.py
"""

from __future__ import annotations

import ctypes

from ...interface.thunks import entry, get_int, out, put_int, put_u64, put_word
from ...machine.codes import Refused
from ...machine.machine import Machine, Thread
from ...machine.queues import INSTANT, Stream
from .definitions import PLAIN, Graph, Node, graph_at, nodes_at
from .operations import Allocate, Copy, Fill, Free, Host, Launch, Operation, Other, Record, Wait
from .reservations import Reservation, reserve

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from ...machine.machine import Pool
    from ...machine.queues import Event

__all__ = ["Capture"]

_GLOBAL, _THREAD_LOCAL, _RELAXED = range(3)
_NONE, _ACTIVE, _INVALIDATED = range(3)


class Capture:
    """A capture in progress: its graph, its streams, and the nodes that the next node of each stream waits for."""

    def __init__(
        self, machine: Machine, origin: Stream, mode: int, graph: Graph | None = None, after: Iterable[Node] = ()
    ) -> None:
        self.machine, self.origin, self.mode = machine, origin, mode
        self.thread = machine.thread()
        self.ident = next(machine.counter)
        self.into = graph  # the existing graph; None: a new graph, which the user owns after the capture
        if graph is None:
            graph = machine.add(Graph())
            graph.counted = False
        self.graph = graph
        self.valid, self.over = True, False
        self.frontier: dict[Stream, tuple[Node, ...]] = {}
        self.dropped: set[Node] = set()  # the last nodes of streams that were destroyed
        self.cut: set[Node] = set()  # nodes that the caller removed from what other work waits for
        self.shown: dict[Stream, Any] = {}  # keeps the C arrays alive whose addresses a caller was given
        machine.captures.add(self)  # first, as repair() looks there after an interrupt
        self.graph.capture = self
        self.enter(origin, tuple(after))

    def enter(self, stream: Stream, after: tuple[Node, ...]) -> None:
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
            self._close()

    def drop(self, stream: Stream) -> None:
        """Remove a stream that is destroyed; its work must be joined before the capture ends."""
        if stream is self.origin:
            self.invalidate()
        self.dropped.update(self.frontier.get(stream, ()))
        self.leave(stream)

    def _close(self) -> None:
        """End this capture, and destroy its new graph if no caller will receive it."""
        self.over = True
        if self.graph.capture is self:
            self.graph.capture = None
            if self.into is None and not self.graph.counted:
                self.graph.forget(self.machine)
        self.machine.captures.discard(self)  # last, as repair() calls this again after an interrupt

    def add(self, stream: Stream, does: Operation) -> Node:
        """Add a node for work that is submitted to a stream."""
        if not self.valid:
            raise Refused(901)
        does.check(self.machine)
        try:
            node = self.graph.add(self.machine, does, dict.fromkeys(self.frontier[stream], PLAIN))
        except Refused:
            self.invalidate()
            raise
        self.frontier[stream] = (node,)
        return node

    def run(self, stream: Stream, run: Callable[[], None], name: str, kind: int = INSTANT, type: int = 12) -> None:
        """Record work that no structure of cuda.h describes; `type` is its CUgraphNodeType."""
        self.add(stream, Other(run, name, kind, type))

    def launch(self, stream: Stream, *configuration: Any) -> None:
        """Record the launch of a kernel, described as Launch is made."""
        self.add(stream, Launch(*configuration))

    def copy(self, stream: Stream, words: tuple[int, ...]) -> None:
        """Record a copy, described by the members of a CUDA_MEMCPY3D; it reads its source in each launch."""
        self.add(stream, Copy(words, stream.context))

    def fill(self, stream: Stream, address: int, pitch: int, value: int, width: int, count: int, height: int) -> None:
        """Record a fill of `height` rows of `count` elements of `width` bytes."""
        self.add(stream, Fill(address, pitch, value, width, count, height, stream.context))

    def call(self, stream: Stream, function: int, data: int) -> None:
        """Record the call of a host function."""
        self.add(stream, Host(function, data))

    def wait_for(self, stream: Stream, event: Event) -> None:
        """Record a wait for an event, which each launch of the graph makes."""
        self.add(stream, Wait(event))

    def record(self, stream: Stream, event: Event) -> None:
        """Record that each launch of the graph records an event."""
        self.add(stream, Record(event))

    def allocate(self, stream: Stream, pool: Pool, nbytes: int) -> int:
        """Add an allocation node, and return its address."""
        if self.graph.parent is not None:
            self.invalidate()
            raise Refused(801, "a graph inside a node cannot have allocation nodes: allocate in the outermost graph")
        if pool.device is None or pool.kind != "device":
            self.invalidate()
            raise Refused(801, "only device memory can be allocated in a graph: use a pool of a device")
        memory = reserve(self.machine, self.graph, pool.device, nbytes, dict(pool.access))
        self.add(stream, Allocate(memory))
        return memory.base

    def free(self, stream: Stream, memory: Reservation) -> None:
        """Add a free node."""
        if memory.freed_by is not None and self.graph in (memory.freed_by, memory.graph):
            raise Refused(1, f"the memory at {memory.base:#x} has a free node already, and can have only one")
        self.add(stream, Free(memory))
        memory.freed_by = self.graph

    def mark(self, stream: Stream) -> tuple[Node, ...]:
        """Return the nodes that an event waits for if it is recorded now."""
        if not self.valid:
            raise Refused(901)
        return self.frontier[stream]

    def wait(self, stream: Stream, nodes: tuple[Node, ...]) -> None:
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
            self.frontier[stream] = tuple(dict.fromkeys((*self.frontier[stream], *nodes)))

    def repair(self, streams: list[Stream]) -> None:
        """Correct the effects of an interrupted call; a stream that was partly added invalidates the capture."""
        for stream in streams:
            if (stream.capture is self) != (stream in self.frontier):
                self.invalidate()
                if stream.capture is self:
                    stream.capture = None
                self.frontier.pop(stream, None)
        if self.origin.capture is not self:
            for stream in list(self.frontier):
                self.leave(stream)
        if not self.frontier:
            self._close()

    def isolate(self) -> None:
        """Invalidate the capture, and refuse to wait for work outside it."""
        self.invalidate()
        raise Refused(905)

    def invalidate(self) -> None:
        """Invalidate this capture: it can only be ended now."""
        self.valid = False

    def refuse_unsafe(self, thread: Thread) -> None:
        """Refuse a call that could disturb this capture, unless the capture modes permit it."""
        if _RELAXED in (self.mode, thread.capture_mode) or (
            _THREAD_LOCAL in (self.mode, thread.capture_mode) and self.thread is not thread
        ):
            return
        self.invalidate()
        raise Refused(
            900,
            "this call is potentially unsafe while a stream is capturing: call it outside the capture, or permit it "
            "with cuThreadExchangeStreamCaptureMode",
        )

    def end(self) -> Graph | None:
        """End the capture; return its graph, or None if it was invalidated."""
        unjoined = {node for stream, nodes in self.frontier.items() if stream is not self.origin for node in nodes}
        unjoined |= self.dropped
        is_joined = unjoined <= self._reaching((*self.frontier[self.origin], *self.cut))
        if self.valid and is_joined and self.into is None:
            self.graph.counted = True
        for stream in list(self.frontier):
            self.leave(stream)
        if not self.valid:
            return None
        if not is_joined:
            raise Refused(
                904,
                "a stream that joined this capture has work that the first stream does not wait for: record an "
                "event there, and let the first stream wait for it",
            )
        return self.graph

    def _reaching(self, nodes: tuple[Node, ...]) -> set[Node]:
        """Return these nodes and all nodes that they wait for."""
        found: set[Node] = set()
        todo = list(nodes)
        while todo:
            node = todo.pop()
            if node not in found:
                found.add(node)
                todo += node.after
        return found


# -- capturing


@entry("cuStreamBeginCapture_v2(CUstream hStream, CUstreamCaptureMode mode)", since=10010)
def begin(machine: Machine, handle: int, mode: int) -> None:
    """Begin a capture of the work that is submitted to a stream."""
    stream = machine.stream(handle)
    if not 0 <= mode <= 2:
        raise Refused(1)
    if stream is stream.context.legacy:
        raise Refused(900, "the legacy default stream cannot be captured: capture in a stream from cuStreamCreate")
    if stream.capture is not None:
        raise Refused(401, f"stream {handle:#x} is already capturing: end this capture first (cuStreamEndCapture)")
    Capture(machine, stream, mode)


@entry(
    "cuStreamBeginCaptureToGraph(CUstream hStream, CUgraph hGraph, const CUgraphNode *dependencies, "
    "const CUgraphEdgeData *dependencyData, size_t numDependencies, CUstreamCaptureMode mode)",
    since=12030,
)
def begin_to_graph(
    machine: Machine, handle: int, graph_handle: int, others: int, data: int, count: int, mode: int
) -> None:
    """Begin a capture that adds nodes to a graph, after some of its nodes."""
    stream, graph = machine.stream(handle), graph_at(machine, graph_handle)
    if not 0 <= mode <= 2:
        raise Refused(1)
    if stream is stream.context.legacy:
        raise Refused(900, "the legacy default stream cannot be captured: capture in a stream from cuStreamCreate")
    if stream.capture is not None:
        raise Refused(401, f"stream {handle:#x} is already capturing: end this capture first (cuStreamEndCapture)")
    graph.refuse_while_capturing()
    Capture(machine, stream, mode, graph, nodes_at(machine, graph, others, count, data))


@entry("cuStreamEndCapture(CUstream hStream, CUgraph *phGraph)", since=10000)
def end(machine: Machine, handle: int, address: int) -> None:
    """End a capture, and write its graph."""
    out(address)
    stream = machine.stream(handle)
    capture = stream.capture
    if capture is None:
        raise Refused(401, f"stream {handle:#x} is not capturing: begin a capture first (cuStreamBeginCapture_v2)")
    if capture.origin is not stream:
        capture.invalidate()
        raise Refused(903)
    if capture.mode != _RELAXED and capture.thread is not machine.thread():
        raise Refused(908)
    put_word(address, 0)
    graph = capture.end()
    if graph is None:
        raise Refused(901)
    put_word(address, graph.handle)


def _status(stream: Stream) -> int:
    if stream.capture is None:
        return _NONE
    if stream.capture.valid:
        return _ACTIVE
    return _INVALIDATED


def _asked(machine: Machine, handle: int) -> Stream:
    """Return a stream about which is asked; a question does not invalidate the captures that forbid it."""
    stream = machine.stream(handle)
    if stream is stream.context.legacy and stream.context.captures:
        raise Refused(906)
    return stream


@entry("cuStreamIsCapturing(CUstream hStream, CUstreamCaptureStatus *captureStatus)", since=10000)
def is_capturing(machine: Machine, handle: int, address: int) -> None:
    """Write whether a stream is capturing."""
    out(address)
    stream = _asked(machine, handle)
    put_int(address, _status(stream))


@entry(
    "cuStreamGetCaptureInfo(CUstream hStream, CUstreamCaptureStatus *captureStatus_out, cuuint64_t *id_out)",
    since=10010,
)
def capture_info(machine: Machine, handle: int, status: int, ident: int) -> None:
    """Write a capture's status and number."""
    out(status)
    stream = _asked(machine, handle)
    put_int(status, _status(stream))
    if ident and stream.capture is not None:
        put_u64(ident, stream.capture.ident)


@entry(
    "cuStreamGetCaptureInfo_v2(CUstream hStream, CUstreamCaptureStatus *captureStatus_out, cuuint64_t *id_out, "
    "CUgraph *graph_out, const CUgraphNode **dependencies_out, size_t *numDependencies_out)",
    since=11030,
)
def capture_info_v2(machine: Machine, handle: int, status: int, ident: int, graph: int, nodes: int, count: int) -> None:
    """Write a capture's status, number and graph, and the nodes that the next node waits for."""
    capture_info(machine, handle, status, ident)
    capture = machine.stream(handle).capture
    if capture is None or not capture.valid:
        return
    waited = capture.frontier[machine.stream(handle)]
    if graph:
        put_word(graph, capture.graph.handle)
    if nodes:
        made = (ctypes.c_void_p * max(len(waited), 1))(*[node.handle for node in waited])
        capture.shown[machine.stream(handle)] = made
        put_word(nodes, ctypes.addressof(made))
    if count:
        put_word(count, len(waited))


@entry(
    "cuStreamGetCaptureInfo_v3(CUstream hStream, CUstreamCaptureStatus *captureStatus_out, cuuint64_t *id_out, "
    "CUgraph *graph_out, const CUgraphNode **dependencies_out, const CUgraphEdgeData **edgeData_out, "
    "size_t *numDependencies_out)",
    since=12030,
)
def capture_info_v3(
    machine: Machine, handle: int, status: int, ident: int, graph: int, nodes: int, data: int, count: int
) -> None:
    """Write what cuStreamGetCaptureInfo_v2 writes; edgeData_out gets NULL, because these edges have no data."""
    capture_info_v2(machine, handle, status, ident, graph, nodes, count)
    if data:
        put_word(data, 0)


@entry(
    "cuStreamUpdateCaptureDependencies_v2(CUstream hStream, CUgraphNode *dependencies, "
    "const CUgraphEdgeData *dependencyData, size_t numDependencies, unsigned int flags)",
    since=12030,
)
def update_dependencies_v2(machine: Machine, handle: int, others: int, data: int, count: int, flags: int) -> None:
    """Add to the nodes that the next node of a stream waits for, or replace them (flags=1)."""
    stream = machine.stream(handle)
    capture = stream.capture
    if capture is None:
        raise Refused(401, f"stream {handle:#x} is not capturing: begin a capture first (cuStreamBeginCapture_v2)")
    if flags not in (0, 1):
        raise Refused(1)
    nodes = nodes_at(machine, capture.graph, others, count, data)
    kept = capture.mark(stream)
    if flags:
        capture.cut.update(kept)
        kept = ()
    capture.frontier[stream] = tuple(dict.fromkeys((*kept, *nodes)))


@entry(
    "cuStreamUpdateCaptureDependencies(CUstream hStream, CUgraphNode *dependencies, size_t numDependencies, "
    "unsigned int flags)",
    since=11030,
)
def update_dependencies(machine: Machine, handle: int, others: int, count: int, flags: int) -> None:
    """Add to the nodes that the next node of a stream waits for, or replace them (flags=1)."""
    update_dependencies_v2(machine, handle, others, 0, count, flags)


def _save_mode(machine: Machine, address: int) -> Callable[[], object]:
    """Return a function that restores the calling thread's capture mode and the value in the caller's variable."""
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
