"""Graphs: work that a stream records and does not execute, and that can be launched many times.

What it is   Graph, made by Stream.capture(): a with block records work, and launch() runs it.
What not     graphs cannot be built node by node, nor updated.
Source       CUDA Driver API, "Graph Management", cuStreamBeginCapture; CUDA Programming Guide, "Stream Capture"
Read next    stream.py
"""

from __future__ import annotations

import ctypes
from _weakref import ref
from functools import partial
from itertools import chain, repeat, starmap

from .. import names
from ..errors import Closed, CudaError
from ..headers import cuda_h
from ..owned import Owned, invalidate
from .calls import invoke, run
from .context import PrimaryContext
from .handles import EXECUTABLE, capturing, make
from .queue import StreamHandle, calls_on, work_handle
from .retention import capture_number, retain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["Graph"]

_MODES = {"global": 0, "thread_local": 1, "relaxed": 2}  # CU_STREAM_CAPTURE_MODE_...


class _Exit(partial):  # type: ignore[type-arg]
    """The __exit__ of a Graph for one with block; only the block refers to it.

    If an interrupt keeps it from being called, its finalizer, a C function, ends the capture. It is a partial object,
    because a method would stay alive in the traceback of the interrupt.
    """

    __slots__ = ("__del__",)

    __del__: names.Any

    def disarm(self) -> None:
        """Do nothing when this object is deleted."""
        self.__del__ = "".__len__


class _ExitOf:
    """The attribute __exit__ of graphs: each with block gets an _Exit of its own."""

    def __get__(self, graph: Graph | None, kind: Any = None) -> Any:
        if graph is None:
            return Graph._finish
        made = _Exit(Graph._finish, graph)
        made.disarm()
        graph._exit = ref(made)
        return made


_call: Any = partial.__call__


class Graph(Owned):
    """The work of a stream, recorded in a with block and launched afterwards.

        with stream.capture() as graph:
            launch(a, b, n)
        graph.launch(stream)

    Arrays of other libraries that a recorded launch uses are kept alive with the graph; the caller must keep our own
    arrays and memory alive. The block must not wait for the stream: copies with pageable memory do, and are refused.

    calls   cuStreamBeginCapture_v2, cuStreamEndCapture, cuGraphInstantiateWithFlags, cuGraphDestroy, cuGraphExecDestroy
    raises  InvalidUse  a call that must not be captured
            ValueError  a default or borrowed stream, an unknown mode
    """

    __slots__ = (
        "stream",
        "_primary",
        "_mode",
        "_kept",
        "_state",
        "_numbers",
        "_graph",
        "_exit",
        "_ends",
        "_destroys",
        "_end",
    )

    __exit__: names.Any = _ExitOf()
    _exit: names.Any  # a weak reference to the _Exit of the with block
    _ends: names.Any  # an iterator of the step that ends the capture, for one caller only
    _destroys: names.Any  # likewise, of the step that destroys the graph from which the executable one is made
    _end: names.Any  # does what is left to do, in one call of a C function, which no interrupt divides

    def __init__(self, stream: names.Any, mode: str = "thread_local") -> None:
        if mode not in _MODES:
            raise ValueError(f"mode {mode!r}: give one of {', '.join(map(repr, _MODES))}")
        if not isinstance(stream, StreamHandle) or stream._primary is None:
            raise ValueError(f"{stream!r} cannot be captured: use a stream made by Device.stream()")
        stream.handle
        self.stream, self._mode, self._state = stream, mode, "new"
        self._primary: PrimaryContext = stream._primary
        self._kept: list[Any] = []
        self._graph = cuda_h.CUgraph()  # destroyed once the executable graph is made from it
        self._numbers: list[int] = []  # the number of the capture, once it began
        self._exit = type(None)  # called like a weak reference
        self._own(0, None)
        self._handle = None

    @property
    def handle(self) -> int:
        """Return the CUgraphExec; raises Closed before the recording and after close()."""
        if self._handle is None and self._state != "recorded":
            raise Closed(f"this Graph is {self._state}: it can be launched after its with block has recorded it")
        return super().handle

    def __enter__(self) -> Graph:
        if self._state != "new":
            raise ValueError("a graph records only once: call capture() again")
        stream, primary, exit = self.stream, self._primary, self._exit()
        mode, queue = ctypes.c_uint(_MODES[self._mode]), stream._argument or stream._prepare()
        self._prepare_end(queue)
        try:
            if exit is not None:
                exit.__del__ = self._end
            primary.inside.cuStreamBeginCapture_v2(queue, mode)
            number = capture_number(primary, stream.handle)
            if number:
                self._numbers.append(number)
                capturing[number] = self._kept
            self._state = "recording"
        except CudaError:
            if exit is not None:
                exit.disarm()
            raise
        except BaseException:  # an interrupt: the with block is not entered, so nothing else would end the capture
            self._end()
            raise
        return self

    def _prepare_end(self, queue: Any) -> None:
        """Prepare the end of the capture, as steps of which each is made only once."""
        primary, graph = self._primary, self._graph
        push, pop = primary.pushing
        done: list[Any] = []
        self._ends = iter(((primary.function("cuStreamEndCapture"), queue, ctypes.byref(graph)),))
        self._destroys = zip((primary.function("cuGraphDestroy"),), filter(None, (graph,)))  # (NULL is not destroyed)
        forget: Any = partial(done.extend, map(capturing.pop, self._numbers, repeat(None)))
        inside: Any = partial(done.extend, starmap(invoke, chain(self._ends, self._destroys, (pop,))))
        self._end = partial(any, map(_call, (forget, partial(*push), inside)))

    def _finish(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: names.TracebackType | None
    ) -> None:
        """End the with block: make the graph, or only end the capture if an exception left the block."""
        self._state = "spoilt"
        primary, exit = self._primary, self._exit()
        try:
            if self.stream.closed:
                next(self._ends, None)  # its handle must not reach the driver
            if kind is None:
                handle = self.stream.handle  # raises Closed
                failed = next(filter(None, run(self._ends, primary._to_push())), 0)
                if failed:
                    raise primary.driver.error(failed, "cuStreamEndCapture", ["hStream"], (cuda_h.CUstream(handle),))
                make(self, EXECUTABLE, primary, (self._graph, *EXECUTABLE.numbers))
                self._state = "recorded"
                run(self._destroys, primary._to_push())
        finally:  # an error in the block matters more than an unfinished capture
            self._end()
            if exit is not None:
                exit.disarm()

    def launch(self, stream: names.Any = None) -> None:
        """Run the recorded work in the order of a stream; None is the legacy default stream.

        calls   cuGraphLaunch
        raises  Closed  the graph is closed, or was never recorded
        """
        executable, queue = cuda_h.CUgraphExec(self.handle), work_handle(stream)
        calls, argument = calls_on(queue, self._primary)
        try:
            calls.cuGraphLaunch(executable, argument)
        finally:
            if self._kept:  # the graph may be closed before this launch is done
                retain(self._primary, queue, self._kept)

    def _closing(self) -> None:
        invalidate()

    def __repr__(self) -> str:
        return f"<Graph {self._state}{' closed' if self._state == 'recorded' and self.closed else ''}>"
