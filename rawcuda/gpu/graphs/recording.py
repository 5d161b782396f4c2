"""Stream capture: a with block in which the work of a stream becomes nodes of a graph.

What it is   Recording, which begins and ends a capture of a stream. A Graph of Stream.capture() uses one to make
             itself, and Stream.capture(into=graph) returns one.
Source       CUDA Driver API, cuStreamBeginCapture, cuStreamBeginCaptureToGraph; CUDA Programming Guide, "Stream
             Capture"
Read next    graph.py
"""

from __future__ import annotations

import ctypes
from _weakref import ref
from time import monotonic, sleep

from ...arguments import as_choice
from ...driver import as_argument
from ...errors import Closed, CudaError, ForkedAfterInit, worded
from ...headers import cuda_h
from ...headers.status import OUT_OF_MEMORY, STREAM_CAPTURE_WRONG_THREAD
from ...ownership import drain, dropped, invalidate
from ..core.context import PrimaryContext
from ..core.points import (
    NEXT,
    Capture,
    beginning,
    capture_number,
    capturing,
    legacy_end,
    mark_end,
    waiting,
)
from ..core.stream_arguments import StreamHandle
from .nodes import array_of, count_nodes, dependencies

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Any, NoReturn

    from ...gpu.graphs.graph import Graph

__all__ = ["Recording", "no_recording"]

# After this time, the call of a thread that waits for a context has begun: a capture does not disturb it.
_PATIENCE_S = 0.25
_MODES = {"global": 0, "thread_local": 1, "relaxed": 2}  # CU_STREAM_CAPTURE_MODE_...


def no_recording() -> None:
    """Return None, as the reference to a Recording that was collected does."""


def _let_waits_end() -> None:
    """Wait until no thread waits for a context, or until those that do have certainly begun."""
    latest = monotonic() + _PATIENCE_S
    while waiting and monotonic() < latest:
        sleep(0.0001)


class Recording:
    """A with block in which the work of a stream becomes nodes of a graph.

        with stream.capture(into=graph, after=[node]):
            launch(a, b, n)

    calls   cuStreamBeginCaptureToGraph, cuStreamBeginCapture_v2, cuStreamEndCapture
    """

    __slots__ = (
        "stream",
        "graph",
        "_primary",
        "_mode",
        "_after",
        "_kept",
        "_nodes",
        "_number",
        "_result",
        "_state",
        "__weakref__",
    )

    _nodes: int  # that the graph had before
    _number: int  # of the capture, after it has begun
    _result: Any  # the C memory that the end of the capture writes the graph to

    def __init__(self, stream: object, mode: str, graph: Graph | None = None, after: object = None) -> None:
        as_choice("mode", mode, _MODES)
        if not isinstance(stream, StreamHandle) or stream._primary is None:
            raise ValueError(f"{worded(stream)} cannot be captured: use a stream made by Device.stream()")
        stream.handle
        self.stream, self.graph, self._mode, self._after = stream, graph, mode, after
        self._primary: PrimaryContext = stream._primary
        self._kept: list[object] = []
        self._nodes = 0
        self._number, self._result, self._state = 0, None, "new"  # then "begun" and "over"

    def __enter__(self) -> Graph:
        graph = self.graph
        assert graph is not None
        if self._state != "new" or graph._root._recording() is self:
            raise ValueError("a recording begins only once: call capture() again")
        primary = self._primary
        if graph._primary is not primary:
            raise ValueError(
                f"{graph!r} is on device {graph._primary.ordinal}, the stream on device {primary.ordinal}: capture a "
                "stream of the graph's device"
            )
        primary.driver.address("cuStreamBeginCaptureToGraph")  # raises SymbolNotFound
        try:
            lock = graph._changing()
            nodes = dependencies(graph, self._after)
            with lock, graph._primary.current():
                graph.handle  # raises Closed
                graph._refuse_recording()
                self._nodes = count_nodes(graph)
                array = array_of(nodes)
                graph._root._recording = ref(self)
                graph._root._kept[object()] = self._kept  # what is recorded, also before an exception, stays there
                graph._changed()
            begin = (cuda_h.CUgraph(graph.handle), array, None, as_argument(len(nodes)))
            self._begin("cuStreamBeginCaptureToGraph", begin, ctypes.c_void_p())
            return graph
        except BaseException:
            self._end(False)
            if graph._root._recording() is self:  # (another capture into the graph may be in progress)
                self._state, graph._root._recording = "over", no_recording
            raise

    def _begin(self, symbol: str, arguments: tuple[object, ...], result: object) -> None:
        """Begin the capture; its end writes the graph to `result`."""
        stream: Any = self.stream
        mode, queue = ctypes.c_uint(_MODES[self._mode]), stream._argument or stream._prepare()
        self._result = result
        try:
            with beginning:  # no wait begins from here on, and those that have begun end
                self._note_number(getattr(self._primary.calls, symbol), (queue, *arguments, mode))
        except CudaError:
            self._state = "over"
            raise
        except BaseException:  # an interrupt: the with block is not entered, so nothing else would end the capture
            self._end(False)
            raise

    def _note_number(self, call: Callable[..., int], arguments: tuple[object, ...]) -> None:
        """Make the call that begins the capture, and note it in `capturing` by its number.

        It is in `capturing` before it looks at `waiting`, since another thread enters `waiting` before it looks at
        `capturing`. All of it is there before the number is known: another thread may look there as soon as the stream
        is captured, and a __del__ may close something in this thread.
        """
        stream: Any = self.stream
        primary, handle, queue = self._primary, stream.handle, arguments[0]
        noted = Capture(self._kept, primary.ordinal)
        try:
            capturing[NEXT] = noted
            _let_waits_end()
            earlier = mark_end(primary, queue)  # last, as other threads queue work meanwhile
            if earlier is not None:
                noted.before[handle] = earlier
            legacy = None
            if not stream.is_nonblocking:  # the capture will bar the default stream
                legacy = legacy_end(primary)
            if legacy is not None:
                noted.legacy[primary.ordinal] = legacy
            invalidate()  # from now on, each launch keeps its module if it is captured
            self._state = "begun"
            call(*arguments)
            self._number = capture_number(primary.calls, handle) or 0
            capturing[self._number] = noted
        finally:
            capturing.pop(NEXT, None)  # one call of a C function, which no interrupt divides

    def _end(self, is_wanted: bool, is_late: bool = False) -> None:
        """End the capture, if nothing else has; raise the driver's error if the recorded work is wanted.

        is_late  drain() calls this, and tries again if the capture goes on
        """
        if self._state != "begun":
            return
        failed: Exception | None = None
        try:
            self._primary.calls.cuStreamEndCapture(as_argument(self.stream.handle), ctypes.byref(self._result))
        except (CudaError, ForkedAfterInit, Closed) as error:  # (a closed stream must not reach the driver)
            failed = error
            code = getattr(error, "code", 0)
            if code in (STREAM_CAPTURE_WRONG_THREAD, OUT_OF_MEMORY):  # it goes on, and its own thread can end it later
                if code == OUT_OF_MEMORY and not is_late:
                    dropped.append(self)
                if is_wanted:
                    raise
                return
        except BaseException:  # an interrupt: the graph and the error may keep this object, so no finalizer would run
            dropped.append(self)
            raise
        noted = capturing.pop(self._number, None)
        if noted is not None and self.graph is None and (failed is not None or not is_wanted):
            for each in noted.allocated:  # there is no graph: its addresses may soon be those of another one's memory
                each.give_away()
        self._state = "over"  # (after an interrupt, the finalizer tries again)
        if failed is not None and is_wanted:  # otherwise an error in the block matters more
            raise failed
        if dropped:  # also what could not be released during the capture
            drain()

    def warn_if_empty(self, graph: Graph) -> None:
        """Warn if nothing was captured: probably the work was not given the stream, and has run at once.

        calls   cuGraphGetNodes
        """
        if count_nodes(graph) == self._nodes:
            import warnings

            warnings.warn(
                "nothing was captured: only work that is given the captured stream is, as in launch(..., stream=...) "
                "and x.copy_from(..., stream=...); other work runs at once",
                RuntimeWarning,
                stacklevel=3,
            )

    def release(self, late: bool) -> bool:
        """End the capture of a with block that was left without its end; return False if that must wait."""
        self._end(False, True)
        return not self.is_in_progress

    def __del__(self) -> None:
        if getattr(self, "_state", "") == "begun":
            dropped.append(self)

    def give_away(self) -> bool:
        """Return False: a capture cannot be given away."""
        return False

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End the with block; work that was captured before an exception stays in the graph."""
        assert self.graph is not None
        self._end(kind is None)
        if kind is None:
            self.warn_if_empty(self.graph)

    @property
    def is_in_progress(self) -> bool:
        """Tell whether the capture has begun, or is about to, and has not ended."""
        return self._state != "over"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a Recording is one with block, and cannot be copied or pickled: call capture() again")

    def __repr__(self) -> str:
        return f"<Recording of {self.stream!r} into {self.graph!r}>"
