"""Stream capture: a with block in which the work of a stream becomes nodes of a graph.

What it is   Recording, which begins and ends a capture of a stream. A Graph of Stream.capture() uses one to make
             itself, and Stream.capture(into=graph) returns one.
Interrupts   the capture is ended by one call of a C function. The finalizer of the with block's __exit__ makes the
             same call, so that no exception leaves the stream in a capture.
Source       CUDA Driver API, cuStreamBeginCapture, cuStreamBeginCaptureToGraph; CUDA Programming Guide, "Stream
             Capture"
Read next    ../graph.py
"""

from __future__ import annotations

import ctypes
from _weakref import ref
from functools import partial
from itertools import chain, repeat, starmap

from ... import names
from ...driver import as_argument
from ...errors import CudaError, worded
from ...given import one_of
from ...headers import cuda_h
from ...owned import Held
from ..calls import invoke, run
from ..context import PrimaryContext
from ..handles import beginning, capturing
from ..queue import StreamHandle
from ..retention import capture_number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["Changing", "ExitOf", "Recording"]

# A thread that waits for a context holds the lock. After this time, its call has begun: a capture does not disturb it.
_PATIENCE_S = 0.25
_MODES = {"global": 0, "thread_local": 1, "relaxed": 2}  # CU_STREAM_CAPTURE_MODE_...


class _Exit(partial):  # type: ignore[type-arg]
    """The __exit__ of a recording for one with block; only the block refers to it.

    If an interrupt keeps it from being called, its finalizer, a C function, ends the capture. It is a partial object,
    because a method would stay alive in the traceback of the interrupt.
    """

    __slots__ = ("__del__",)

    __del__: names.Any

    def disarm(self) -> None:
        """Do nothing when this object is deleted."""
        self.__del__ = "".__len__


class ExitOf:
    """The attribute __exit__ of graphs and recordings: each with block gets an _Exit of its own."""

    def __get__(self, owner: Any, kind: Any = None) -> Any:
        if owner is None:
            return kind._finish
        made = _Exit(type(owner)._finish, owner)
        made.disarm()
        owner._exit = ref(made)
        return made


_call: Any = partial.__call__


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
        "_numbers",
        "_exit",
        "_ends",
        "_end",
        "_is_new",
    )

    __exit__: names.Any = ExitOf()
    _exit: names.Any  # a weak reference to the _Exit of the with block
    _ends: names.Any  # an iterator of the step that ends the capture, for one caller only
    _end: names.Any  # ends the capture, if nothing else has, by one call of a C function, which no interrupt divides

    def __init__(self, stream: names.Any, mode: str, graph: names.Graph | None = None, after: names.Any = None) -> None:
        one_of("mode", mode, _MODES)
        if not isinstance(stream, StreamHandle) or stream._primary is None:
            raise ValueError(f"{worded(stream)} cannot be captured: use a stream made by Device.stream()")
        stream.handle
        self.stream, self.graph, self._mode, self._after = stream, graph, mode, after
        self._primary: PrimaryContext = stream._primary
        self._kept: list[Any] = []
        self._numbers: list[int] = []  # the number of the capture, after it has begun
        self._exit, self._is_new = type(None), True  # called like a weak reference

    def __enter__(self) -> names.Graph:
        graph = self.graph
        assert graph is not None
        if not self._is_new:
            raise ValueError("a recording begins only once: call capture() again")
        from .nodes import array_of, dependencies

        primary = self._primary
        if graph._primary is not primary:
            raise ValueError(
                f"{graph!r} is on device {graph._primary.ordinal}, the stream on device {primary.ordinal}: capture a "
                "stream of the graph's device"
            )
        primary.driver.address("cuStreamBeginCaptureToGraph")  # raises SymbolNotFound
        with graph._changing():
            nodes = dependencies(graph, self._after)
            array = array_of(nodes)
            self._is_new, graph._root._recording = False, self
            graph._root._kept[object()] = self._kept  # what is recorded, also before an exception, stays in the graph
            graph._changed()
        begin = (cuda_h.CUgraph(graph.handle), array, None, as_argument(len(nodes)))
        try:
            self._begin("cuStreamBeginCaptureToGraph", begin, ctypes.c_void_p(), self._exit())
        except BaseException:
            graph._root._recording = None
            raise
        return graph

    def _begin(self, symbol: str, arguments: tuple[Any, ...], result: Any, exit: Any) -> None:
        """Begin the capture.

        result  the C memory that the end of the capture writes the graph to
        """
        stream, primary = self.stream, self._primary
        mode, queue = ctypes.c_uint(_MODES[self._mode]), stream._argument or stream._prepare()
        self._prepare_end(queue, result)
        try:
            if exit is not None:
                exit.__del__ = self._end
            with Held(beginning, _PATIENCE_S):
                getattr(primary.inside, symbol)(queue, *arguments, mode)
                number = capture_number(primary, stream.handle)
                if number:
                    self._numbers.append(number)
                    capturing[number] = self._kept
        except CudaError:
            if exit is not None:
                exit.disarm()
            raise
        except BaseException:  # an interrupt: the with block is not entered, so nothing else would end the capture
            self._end()
            raise

    def _prepare_end(self, queue: Any, result: Any) -> None:
        """Prepare the end of the capture, as a step that is made only once."""
        primary = self._primary
        push, pop = primary.pushing
        done: list[Any] = []
        self._ends = iter(((primary.functions["cuStreamEndCapture"], queue, ctypes.byref(result)),))
        forget: Any = partial(done.extend, map(capturing.pop, self._numbers, repeat(None)))
        inside: Any = partial(done.extend, starmap(invoke, chain(self._ends, (pop,))))
        self._end = partial(any, map(_call, (forget, partial(*push), inside)))

    def _stop(self, is_wanted: bool) -> None:
        """End the capture; raise the driver's error if the recorded work is wanted."""
        primary = self._primary
        if self.stream.closed:
            next(self._ends, None)  # its handle must not reach the driver
        if is_wanted:
            handle = self.stream.handle  # raises Closed
            failed = next(filter(None, run(self._ends, primary._to_push())), 0)
            if failed:
                raise primary.driver.error(failed, "cuStreamEndCapture", ["hStream"], (cuda_h.CUstream(handle),))

    def _finish(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: names.TracebackType | None
    ) -> None:
        """End the with block; work that was captured before an exception stays in the graph."""
        try:
            self._stop(kind is None)
        finally:  # an error in the block matters more than an unfinished capture
            self._end()
            exit = self._exit()
            if exit is not None:
                exit.disarm()
        assert self.graph is not None
        self.graph._root._recording = None

    @property
    def is_in_progress(self) -> bool:
        """Tell whether the capture has begun, or is about to, and has not ended."""
        return not self._numbers or self._numbers[-1] in capturing

    def __reduce_ex__(self, protocol: object) -> names.NoReturn:
        raise TypeError("a Recording is one with block, and cannot be copied or pickled: call capture() again")

    def __repr__(self) -> str:
        return f"<Recording of {self.stream!r} into {self.graph!r}>"


class Changing:
    """A with block that holds the lock and the context of a graph."""

    __slots__ = ("_root", "_held", "_context")

    def __init__(self, root: names.Graph) -> None:
        self._root, self._held, self._context = root, Held(root._lock), root._primary.current()

    def __enter__(self) -> None:
        self._held.__enter__()
        try:
            self._context.__enter__()
        except BaseException:
            self._held.__exit__()
            raise

    def __exit__(self, *raised: object) -> None:
        try:
            self._context.__exit__()
        finally:
            self._held.__exit__()
