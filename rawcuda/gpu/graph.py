"""Graphs: work that a stream recorded instead of doing it, launched as one as often as wanted.

What it is   Graph, made by Stream.capture(): a with block records, launch() runs what was recorded.
What not     graphs are not built node by node, nor updated.
Source       CUDA Driver API, "Graph Management", cuStreamBeginCapture; CUDA Programming Guide, "Stream Capture"
Read next    kernel.py
"""

from __future__ import annotations

import ctypes

from ..errors import Closed, CudaError, ForkedAfterInit
from ..headers import cuda_h
from ..owned import Owned
from .context import release
from .stream import Stream, capture_number, capturing, retain, sweep, work_handle

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any

__all__ = ["Graph"]

_MODES = {"global": 0, "thread_local": 1, "relaxed": 2}  # CU_STREAM_CAPTURE_MODE_...


class Graph(Owned):
    """Record a stream's work in a with block; launch it afterwards.

        with stream.capture() as graph:
            launch(a, b, n)
        graph.launch(stream)

    What was viewed on the fly while recording lives as long as the graph; arrays and memory given as such are the caller's
    to keep. In the block nothing may wait for the stream: copies with pageable memory do, and are refused.

    calls   cuStreamBeginCapture_v2, cuStreamEndCapture, cuGraphInstantiateWithFlags, cuGraphDestroy, cuGraphExecDestroy
    raises  InvalidUse  what may not be captured
            ValueError  a default or borrowed stream, an unknown mode
    """

    __slots__ = ("stream", "_mode", "_kept", "_state", "_number")

    def __init__(self, stream: Stream, mode: str = "thread_local") -> None:
        if mode not in _MODES:
            raise ValueError(f"mode {mode!r}: give one of {', '.join(map(repr, _MODES))}")
        if not isinstance(stream, Stream) or stream.device is None:
            raise ValueError(f"{stream!r} cannot be captured: use a stream made by Device.stream()")
        stream.handle
        self.stream, self._mode, self._state = stream, mode, "new"
        self._kept: list[Any] = []
        self._number = 0
        self._handle = self._release = None

    @property
    def handle(self) -> int:
        """Return the CUgraphExec; raises Closed before it was recorded and after close()."""
        if self._handle is None and self._state != "recorded":
            raise Closed(f"this Graph is {self._state}: it can be launched once it was recorded, after its with block")
        return super().handle

    def __enter__(self) -> Graph:
        if self._state != "new":
            raise ValueError("a graph records once: capture() anew")
        stream, device = self.stream, self.stream.device
        assert device is not None
        with stream._current():
            stream._driver().cuStreamBeginCapture_v2(cuda_h.CUstream(stream.handle), _MODES[self._mode])
            self._number = capture_number(device, stream.handle) or 0
        self._state = "recording"
        capturing[self._number] = self._kept
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._state = "spoilt"
        capturing.pop(self._number, None)
        loaded, graph = self.stream._driver(), cuda_h.CUgraph()
        with self.stream._current():
            if kind is None:
                loaded.cuStreamEndCapture(cuda_h.CUstream(self.stream.handle), ctypes.byref(graph))
            elif not self.stream.closed:  # the error in the block matters more than what it left behind
                release(loaded, "cuStreamEndCapture", cuda_h.CUstream(self.stream.handle), ctypes.byref(graph))
            try:
                if kind is None:
                    self._instantiate(graph)
            finally:
                if graph:
                    release(loaded, "cuGraphDestroy", graph)

    def _instantiate(self, graph: cuda_h.CUgraph) -> None:
        executable, primary = cuda_h.CUgraphExec(), self.stream._primary
        assert primary is not None
        primary.driver.cuGraphInstantiateWithFlags(ctypes.byref(executable), graph, 0)
        primary.hold()

        def destroy(handle: int, late: bool) -> None:
            try:  # a launch that still runs keeps what it needs of it
                with primary.current():
                    release(primary.driver, "cuGraphExecDestroy", cuda_h.CUgraphExec(handle))
            except (CudaError, ForkedAfterInit):
                pass
            primary.let_go()

        self._own(executable.value or 0, destroy)
        self._state = "recorded"

    def launch(self, stream: Any = None) -> None:
        """Run what was recorded, in a stream's order; None is the legacy default stream.

        calls   cuGraphLaunch
        raises  Closed  it is closed, or was never recorded
        """
        executable, queue, device = cuda_h.CUgraphExec(self.handle), work_handle(stream), self.stream.device
        try:
            with self.stream._current():
                self.stream._driver().cuGraphLaunch(executable, cuda_h.CUstream(queue))
        finally:
            if self._kept and device is not None:  # the graph may be closed before this launch is done
                sweep()
                retain(device, queue, self._kept)

    def __repr__(self) -> str:
        return f"<Graph {self._state}{' closed' if self._state == 'recorded' and self.closed else ''}>"
