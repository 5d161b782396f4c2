"""Stream capture: a with block in which the work of a stream becomes nodes of a graph.

What it is   StreamCapture, a capture of a stream from its begin to its end; and Recording, the with block of
             Stream.capture(into=graph). The Graph of Stream.capture() has a StreamCapture of its own.
Who ends it  The end of the with block. If that was interrupted, or never comes, the next drain() does, since a release
             is in `dropped` then: that of the with block, or that of the graph, which is never destroyed before.
             So several may ask for the end, and long after it.
Source       CUDA Driver API, cuStreamBeginCapture, cuStreamBeginCaptureToGraph; CUDA Programming Guide, "Stream
             Capture"
Read next    graph.py
"""

from __future__ import annotations

import ctypes
from time import monotonic, sleep

from ...arguments import as_choice
from ...driver import as_argument
from ...errors import Closed, CudaError, ForkedAfterInit, worded
from ...headers import cuda_h
from ...headers.status import OUT_OF_MEMORY, STREAM_CAPTURE_WRONG_THREAD
from ...ownership import drain, dropped, ending, invalidate
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

__all__ = ["Recording", "StreamCapture", "warn_if_empty"]

# After this time, the call of a thread that waits for a context has begun: a capture does not disturb it.
_PATIENCE_S = 0.25
_MODES = {"global": 0, "thread_local": 1, "relaxed": 2}  # CU_STREAM_CAPTURE_MODE_...


def _let_waits_end() -> None:
    """Wait until no thread waits for a context, or until those that do have certainly begun."""
    latest = monotonic() + _PATIENCE_S
    while waiting and monotonic() < latest:
        sleep(0.0001)


def warn_if_empty(graph: Graph, before: int = 0) -> None:
    """Warn if nothing was captured: probably the work was not given the stream, and has run at once.

    before  the number of nodes that the graph had before
    calls   cuGraphGetNodes
    """
    if count_nodes(graph) == before:
        import warnings

        warnings.warn(
            "nothing was captured: only work that is given the captured stream is, as in launch(..., stream=...) "
            "and x.copy_from(..., stream=...); other work runs at once",
            RuntimeWarning,
            stacklevel=3,
        )


class StreamCapture(Capture):
    """A capture of a stream, which begins once and ends once, whoever asks for the end, and however often.

    It is the release of a with block: it refers to no Graph and no Recording.

    stream  the Stream
    number  that of the capture; 0: it is not known yet
    graph   the release of the graph, after claim()
    result  the C memory that the end writes the graph to: the same object, if the capture makes the graph
    state   "new", "claimed" after claim(), "begun" as soon as the beginning call may have been made, and "over"
    """

    __slots__ = ("stream", "mode", "number", "graph", "result", "state")

    def __init__(self, stream: object, mode: str) -> None:
        as_choice("mode", mode, _MODES)
        if not isinstance(stream, StreamHandle) or stream._primary is None:
            raise ValueError(f"{worded(stream)} cannot be captured: use a stream made by Device.stream()")
        stream.handle
        super().__init__([], stream._primary.ordinal)
        self.stream: Any = stream
        self.mode, self.number, self.state = _MODES[mode], 0, "new"
        self.graph: Any = None
        self.result: Any = None

    def claim(self, graph: Any) -> None:
        """Note that the capture into a graph is about to begin: until it is over, the graph is not destroyed."""
        self.state, self.graph = "claimed", graph
        graph.recording = self

    def begin(self, symbol: str, arguments: tuple[object, ...], result: object) -> None:
        """Begin the capture; its end writes the graph to `result`. After an exception, call end(False)."""
        queue = self.stream._argument or self.stream._prepare()
        self.result = result
        try:
            with beginning:  # no wait begins from here on, and those that have begun end
                call = getattr(self.stream._primary.calls, symbol)
                self._note_number(call, (queue, *arguments, ctypes.c_uint(self.mode)))
        except CudaError:
            self._note_end()
            raise

    def _note_number(self, call: Callable[..., int], arguments: tuple[object, ...]) -> None:
        """Make the call that begins the capture, and note it in `capturing` by its number.

        It is in `capturing` before it looks at `waiting`, since another thread enters `waiting` before it looks at
        `capturing`. All of it is there before the number is known: another thread may look there as soon as the stream
        is captured, and a __del__ may close something in this thread.
        """
        stream, queue = self.stream, arguments[0]
        primary, handle = stream._primary, stream.handle
        try:
            capturing[NEXT] = self
            _let_waits_end()
            earlier = mark_end(primary, queue)  # last, as other threads queue work meanwhile
            if earlier is not None:
                self.before[handle] = earlier
            legacy = None
            if not stream.is_nonblocking:  # the capture will bar the default stream
                legacy = legacy_end(primary)
            if legacy is not None:
                self.legacy[primary.ordinal] = legacy
            invalidate()  # from now on, each launch keeps its module if it is captured
            self.state = "begun"
            call(*arguments)
            self.number = capture_number(primary.calls, handle) or 0
            capturing[self.number] = self
        finally:
            capturing.pop(NEXT, None)  # (before Python 3.11, an interrupt may come before the call: see _note_end())

    def end(self, is_wanted: bool) -> None:
        """End the capture at the end of its with block; raise the driver's error if the recorded work is wanted.

        If it goes on, a drain() ends it, unless its own thread can end it and use what it records.
        """
        failed: Exception | None = None
        try:
            failed = self._end(is_wanted)
        finally:  # also after an interrupt: the graph and the error may keep what would release this
            is_refused = getattr(failed, "code", 0) == STREAM_CAPTURE_WRONG_THREAD
            if self.state != "over" and not (is_wanted and is_refused):
                dropped.append(self)
        if failed is not None and is_wanted:  # otherwise an error in the block matters more
            raise failed
        if dropped and self.state == "over":  # also what could not be released during the capture
            drain()

    def release(self, late: bool) -> bool:
        """End the capture, if nothing else has; return False if that must wait."""
        self._end(False)
        return self.state == "over"

    def give_away(self) -> bool:
        """Return False: a capture cannot be given away."""
        return False

    def _end(self, is_wanted: bool) -> Exception | None:
        """End the capture, if nothing else has; return the driver's error, after which it may go on."""
        failed: Exception | None = None
        if self.state == "begun":
            try:
                if is_wanted or self._goes_on():
                    calls = self.stream._primary.calls
                    calls.cuStreamEndCapture(as_argument(self.stream.handle), ctypes.byref(self.result))
            except (CudaError, ForkedAfterInit, Closed) as error:  # (a closed stream must not reach the driver)
                if getattr(error, "code", 0) in (STREAM_CAPTURE_WRONG_THREAD, OUT_OF_MEMORY):
                    return error  # it goes on
                failed = error
        if self.state != "over":
            self._note_end(failed is None and is_wanted)
        return failed

    def _goes_on(self) -> bool:
        """Ask the driver whether this capture goes on: its end may have been called, and a later one have begun.

        calls   cuStreamGetCaptureInfo
        """
        status, number, stream = ctypes.c_uint(), ctypes.c_uint64(), self.stream
        queue = as_argument(stream.handle)
        stream._primary.calls.cuStreamGetCaptureInfo(queue, ctypes.byref(status), ctypes.byref(number))
        if not status.value:
            return False
        if not self.number:  # an interrupt came before it was asked for
            return number.value not in capturing
        return number.value in (0, self.number)  # 0: it is broken, and the driver does not tell its number

    def _note_end(self, is_recorded: bool = False) -> None:
        """Note that the capture is over, and whether there is something in the graph. This may be repeated."""
        for number in (NEXT, self.number):
            if capturing.get(number) is self:
                capturing.pop(number, None)
        if not is_recorded and self.result is self.graph:
            for each in self.allocated:  # there is no graph: its addresses may soon be those of another one's memory
                each.give_away()
        if self.graph is not None and self.graph.recording is self:
            self.graph.recording = None
        self.state = "over"

    def __repr__(self) -> str:
        return f"<capture of {self.stream!r}>"


class Recording:
    """A with block in which the work of a stream becomes nodes of a graph.

        with stream.capture(into=graph, after=[node]):
            launch(a, b, n)

    calls   cuStreamBeginCaptureToGraph, cuStreamBeginCapture_v2, cuStreamEndCapture
    """

    __slots__ = ("stream", "graph", "_after", "_nodes", "_capture", "_ending", "__weakref__")

    def __init__(self, stream: object, mode: str, graph: Graph, after: object = None) -> None:
        self._capture = StreamCapture(stream, mode)
        self._ending = ending(self._capture)  # of a with block without its end, which an interrupt may leave
        self.stream, self.graph, self._after = stream, graph, after
        self._nodes = 0  # that the graph had before

    def __enter__(self) -> Graph:
        graph, capture = self.graph, self._capture
        if capture.state != "new":
            raise ValueError("a recording begins only once: call capture() again")
        primary = capture.stream._primary
        if graph._primary is not primary:
            raise ValueError(
                f"{graph!r} is on device {graph._primary.ordinal}, the stream on device {primary.ordinal}: capture a "
                "stream of the graph's device"
            )
        primary.driver.address("cuStreamBeginCaptureToGraph")  # raises SymbolNotFound
        if dropped:  # an earlier capture of the stream may be there
            drain()
        lock = graph._changing()
        nodes = dependencies(graph, self._after)
        try:
            with lock, primary.current():
                graph.handle  # raises Closed
                graph._refuse_recording()
                self._nodes = count_nodes(graph)
                array = array_of(nodes)
                capture.claim(graph._root._release)
                graph._root._kept[object()] = capture.kept  # what is recorded, also before an exception, stays there
                graph._changed()
                begin = (cuda_h.CUgraph(graph.handle), array, None, as_argument(len(nodes)))
                capture.begin("cuStreamBeginCaptureToGraph", begin, ctypes.c_void_p())  # no other thread may close it
            return graph
        except BaseException:
            if capture.state != "new":  # otherwise it was refused, and may be tried again
                capture.end(False)
            raise

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End the with block; work that was captured before an exception stays in the graph."""
        self._capture.end(kind is None)
        if kind is None:
            warn_if_empty(self.graph, self._nodes)

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a Recording is one with block, and cannot be copied or pickled: call capture() again")

    def __repr__(self) -> str:
        return f"<Recording of {self.stream!r} into {self.graph!r}>"
