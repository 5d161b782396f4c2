"""Executable graphs: graphs that the driver has prepared for launches.

What it is   Executable, made by Graph.instantiate(), and by a Graph for its own launches.
How          An Executable has its own list of the objects that its nodes use, and each launch keeps them alive until
             the stream has completed it. So the graph may change or be closed at any time.
Threads      what an Executable keeps and what the driver uses change together, under a lock, which launches take, too.
Source       CUDA Driver API, cuGraphInstantiate, cuGraphLaunch, cuGraphExecUpdate
Read next    updates.py
"""

from __future__ import annotations

import _thread
import ctypes
from _weakref import ref
from ctypes import byref

from ...driver import as_argument
from ...errors import Closed, CudaError, ForkedAfterInit
from ...headers import cuda_h
from ...interpreter.cpython import free_after_fork
from ...ownership import Owned, invalidate, serving, unless_inside
from ..core.context import Life, PrimaryContext, attempt
from ..core.handles import EXECUTABLE, MODULE, STREAM, make, shown_handle
from ..core.points import capture_number, capturing, retain, retained, sweep
from ..core.stream_arguments import StreamHandle, home_of, order, queue_of, release_of, settled, work_handle
from .conditions import explained
from .node_parameters import must_be_open, refuse_closed, things_in
from .nodes import ExecutableNode, node_at, node_handles
from .updates import update

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...gpu.graphs.graph import Graph
    from ...gpu.graphs.nodes import Node

__all__ = ["Executable"]


class Executable(Owned):
    """A graph that is ready to be launched; made by Graph.instantiate().

    It does not change with its graph. update() copies the parameters of a graph, and executable[node] changes a node.

    calls   cuGraphInstantiateWithFlags, cuGraphExecDestroy
    """

    __slots__ = (
        "_primary",
        "_graph",
        "_version",
        "_nodes",
        "_kept",
        "_given",
        "_has_options",
        "_captured",
        "_keeping",
        "_elsewhere",
        "_owners",
        "_lock",
    )

    _captured: tuple[object, ...]
    _keeping: tuple[object, ...]
    _elsewhere: set[PrimaryContext]  # of the other devices that do a part of the work
    _owners: tuple[Owned | Life, ...] | None  # None: they have to be collected from `_kept`
    _has_options: bool  # updated from another graph, whose kernels have options, or may have some

    def __init__(self, graph: Graph, flags: int = 0) -> None:
        if graph._parent is not None:
            raise ValueError(f"{graph!r} belongs to a node: instantiate the graph of that node")
        self._own(0, None)
        self._handle = None
        self._primary, self._graph = graph._primary, ref(graph)
        self._lock = free_after_fork(_thread.RLock())
        with graph._asking(), graph._primary.current():
            self._make(graph, flags)

    def _make(self, graph: Graph, flags: int) -> None:
        """Instantiate a graph, which no other thread changes meanwhile."""
        recording = graph._recording()
        if recording is not None:
            raise ValueError(f"{recording!r} is in progress: instantiate the graph after its with block")
        self._version = graph._version
        self._kept: dict[object, Sequence[object]] = dict(graph._kept)
        self._given, self._has_options = dict(graph._given), False  # those of the graph may change
        self._changed()
        self._check_open()  # the driver must not see a function of a module that is closed
        with explained(graph, _ONE):
            make(self, EXECUTABLE, self._primary, (as_argument(graph.handle), ctypes.c_uint64(flags)), is_locked=True)
        self._nodes = node_handles(graph)  # for the error of an update with other nodes

    def _changed(self) -> None:
        """Forget what was collected from `_kept`, which has changed; the next launch collects it again."""
        self._captured = self._keeping = ()
        self._elsewhere = set()
        self._owners = None

    def _collect(self) -> None:
        """Collect the objects that launches must keep alive, those that must be open, and the contexts of the work.

        Launches keep no modules, whose release waits for the work of the context, as for other launches; captures do.
        """
        self._captured = (self._primary.life, *things_in(self._kept.values()))
        self._elsewhere = {each.primary for each in self._captured if type(each) is Life} - {self._primary}
        self._keeping = tuple([each for each in self._captured if not _is_waited_for(each)])
        self._owners = must_be_open(self._captured, self._primary)

    def _check_open(self) -> None:
        if self._owners is None:
            self._collect()
        refuse_closed(self._owners or ())

    def launch(self, stream: object = None) -> None:
        """Run the work in the order of a stream; None is the legacy default stream.

        Launches of one Executable run one after another, in all streams.

        calls   cuGraphLaunch
        raises  Closed  this Executable is closed, a module, event, texture or CUDA array that a node uses,
                        or the context of another device, by reset()
        """
        if serving:  # a host function must not wait for the lock: the launch that has it may wait for the function
            self._primary.driver.check_thread("cuGraphLaunch")
        if not isinstance(stream, StreamHandle):
            stream = settled(stream)  # before the lock: its code may wait for another one, and may close this graph
        with self._lock:  # another thread may change what the nodes use
            self._launch(stream)
        if retained:
            sweep()

    def _launch(self, stream: object) -> None:
        queue = work_handle(stream)
        executable = cuda_h.CUgraphExec(self.handle)
        # The end of the launch is an event there.
        home = home_of(stream, self._primary)
        self._check_open()
        calls, argument = self._primary.calls, queue_of(queue)
        if capturing:
            keeping = self._captured
        else:
            keeping = self._keeping
        try:
            calls.cuGraphLaunch(executable, argument)
            if keeping or self._elsewhere or home is not self._primary:
                self._keep(home, queue, keeping, release_of(stream))
        except (CudaError, ForkedAfterInit, Closed):  # the launch was refused, or its end was waited for
            raise
        except BaseException:  # the driver may have accepted the launch before the interrupt
            self._keep(home, queue, keeping, release_of(stream))
            raise

    def _keep(self, home: PrimaryContext, queue: int, keeping: tuple[object, ...], release: object) -> None:
        """Keep what a launch uses until it is done: the graph, and what belongs to it, may be closed before that.

        What is released without being kept waits for the work of its device. So on each device that does work of the
        graph, a stream waits for the launch.
        """
        if keeping:
            retain(home, queue, keeping, release, is_locked=True)
        for other in {self._primary, *self._elsewhere} - {home}:
            if other._handle is None or capture_number(home.calls, queue) is not None:
                continue
            aside = ctypes.c_void_p()  # (a Stream would release other things when it is made or closed)
            try:
                other.calls.cuStreamCreateWithPriority(byref(aside), *STREAM.numbers)
                order(home, queue, other, aside.value or 0)
            except BaseException:
                attempt(home.calls.cuStreamSynchronize, as_argument(queue))
                raise
            finally:
                if aside.value:
                    attempt(other.calls.cuStreamDestroy_v2, aside)

    def _held(self) -> list[object]:
        """Return what this keeps, for who changes it with the lock, and must not drop things before the lock is free.

        Their finalizers may wait for another lock, whose owner may wait for this one.
        """
        return [*self._kept.values(), *self._given.values(), self._captured, self._keeping]

    def upload(self, stream: object = None) -> None:
        """Prepare the first launch in the order of a stream, so that the launch itself costs less.

        calls   cuGraphUpload
        raises  Closed  as launch()
        """
        if serving:  # as in launch()
            self._primary.driver.check_thread("cuGraphUpload")
        if not isinstance(stream, StreamHandle):
            stream = settled(stream)  # as in launch()
        with self._lock:  # another thread may change what the nodes use
            argument = queue_of(work_handle(stream))
            self._check_open()
            self._primary.calls.cuGraphUpload(cuda_h.CUgraphExec(self.handle), argument)

    def update(self, graph: Graph) -> None:
        """Copy the parameters of all nodes from a graph with the same nodes and edges, for later launches.

        calls   cuGraphExecUpdate_v2, cuGraphExecUpdate
        raises  InvalidUse  the graphs differ; the message names the node
        """
        update(self, graph, node_at)

    def __getitem__(self, node: Node) -> ExecutableNode:
        """Return a node as it is in this executable graph, to change it for later launches."""
        return ExecutableNode(self, node)

    def close(self) -> None:
        """Destroy the executable graph, and release what its nodes use; pending launches are still completed."""
        super().close()

    def _close(self) -> None:
        with unless_inside(self._lock):
            held = self._held()
            super()._close()
            self._kept = {}
            self._given = {}
            self._changed()
        del held

    def _closing(self) -> None:
        invalidate()

    def __repr__(self) -> str:
        return f"<Executable {shown_handle(self)}>"


_ONE = (
    "can have one executable graph only, and needs a node for each condition: close() the Executable that "
    "instantiate() returned, or launch that, or add the missing nodes"
)


def _is_waited_for(thing: object) -> bool:
    """Tell whether the release of a thing waits for the work of its context, or it is the life of one."""
    if type(thing) is Life:
        return True
    return isinstance(thing, Owned) and getattr(thing._release, "kind", None) is MODULE
