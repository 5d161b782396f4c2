"""Graphs: work that a stream records instead of doing it, and that can be launched many times.

What it is   Graph, made by Stream.capture(): a with block records work, and launch() runs it.
What not     graphs cannot be built node by node, nor updated.
Source       CUDA Driver API, "Graph Management", cuStreamBeginCapture; CUDA Programming Guide, "Stream Capture"
Read next    stream.py
"""

from __future__ import annotations

import ctypes

from .. import names
from ..errors import Closed, CudaError
from ..headers import cuda_h
from ..owned import Owned, invalidate
from .calls import run
from .context import PrimaryContext
from .handles import EXECUTABLE, capturing, make
from .queue import StreamHandle, calls_on, work_handle
from .retention import capture_number, retain, sweep

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["Graph"]

_MODES = {"global": 0, "thread_local": 1, "relaxed": 2}  # CU_STREAM_CAPTURE_MODE_...


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

    __slots__ = ("stream", "_primary", "_mode", "_kept", "_state", "_number")

    def __init__(self, stream: names.Any, mode: str = "thread_local") -> None:
        if mode not in _MODES:
            raise ValueError(f"mode {mode!r}: give one of {', '.join(map(repr, _MODES))}")
        if not isinstance(stream, StreamHandle) or stream._primary is None:
            raise ValueError(f"{stream!r} cannot be captured: use a stream made by Device.stream()")
        stream.handle
        self.stream, self._mode, self._state = stream, mode, "new"
        self._primary: PrimaryContext = stream._primary
        self._kept: list[Any] = []
        self._number = 0
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
        stream, primary = self.stream, self._primary
        mode = ctypes.c_uint(_MODES[self._mode])
        try:
            primary.inside.cuStreamBeginCapture_v2(stream._argument or stream._prepare(), mode)
            self._number = capture_number(primary, stream.handle) or 0
            self._state = "recording"
            capturing[self._number] = self._kept
        except CudaError:
            raise
        except BaseException:  # an interrupt: the with block is not entered, so nothing else would end the capture
            self._abandon()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: names.TracebackType | None
    ) -> None:
        self._state = "spoilt"
        try:
            if kind is None:
                graph = cuda_h.CUgraph()
                try:
                    stream = self.stream
                    self._primary.inside.cuStreamEndCapture(stream._argument or stream._prepare(), ctypes.byref(graph))
                    make(self, EXECUTABLE, self._primary, (graph, *EXECUTABLE.numbers))
                    self._state = "recorded"
                finally:
                    if graph:
                        run(((self._primary.function("cuGraphDestroy"), graph),), self._primary._to_push())
        finally:  # an error in the block matters more than an unfinished capture
            self._abandon()

    def _abandon(self) -> None:
        """End the capture if it has not ended yet."""
        if self._number:
            capturing.pop(self._number, None)
        queue = self.stream.queue()
        if self._state != "recorded" and queue is not None:
            graph = cuda_h.CUgraph()
            run(((self._primary.function("cuStreamEndCapture"), queue, ctypes.byref(graph)),), self._primary._to_push())
            if graph:
                run(((self._primary.function("cuGraphDestroy"), graph),), self._primary._to_push())

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
                sweep()
                retain(self._primary, queue, self._kept)

    def _closing(self) -> None:
        invalidate()

    def __repr__(self) -> str:
        return f"<Graph {self._state}{' closed' if self._state == 'recorded' and self.closed else ''}>"
