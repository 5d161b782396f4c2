"""An exception at any line of the package, as a signal handler may raise it, releases nothing twice or while it is in
use, leaves no lock held, and the next call works.

What it may leave is a handle, which then lives as long as its context, a pushed context, or the capture mode of the
thread; the tests put these two back.

Tracing raises it once at each line; a timer raises it at random moments. A driver is C code, which runs no Python
signal handlers, so no exception is raised inside the emulator.
"""

from __future__ import annotations

import array
import contextlib
import ctypes
import dis
import gc
import linecache
import os
import random
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from types import CodeType
from typing import Any

import pytest

from tests.driver.graph_kernels import STEP
from tests.shared import each_opcode
from tests.subject import FOLDER, module, rawcuda

owned, cuda_h, points = module("ownership"), module("headers.cuda_h"), module("gpu.core.points")
core = module("gpu.core.calls")
PACKAGE_FILES = tuple(
    str(FOLDER / name) + ("" if name.endswith(".py") else os.sep)
    for name in ("ownership.py", "driver.py", "gpu", "arrays")
)
CALLED_BY_C = str(FOLDER / "emulator") + os.sep, str(FOLDER / "interpreter") + os.sep


class Injected(BaseException):
    """The exception that is raised instead of KeyboardInterrupt, so that it cannot be confused with a real one."""


# A release that an interrupt ends after the driver has made it is made again: then the handle is no longer valid.
GONE = (
    "cuGraphDestroy returned 401",
    "cuMemHostUnregister returned 713",
    "cuMemUnmap returned 1",
    "cuStreamDestroy_v2 returned 400",
    "cuStreamEndCapture returned 401",
)
pytestmark = [pytest.mark.counts_handles, pytest.mark.codes(*GONE)]


def state() -> tuple[Any, int]:
    """Return the current context and the capture mode of this thread."""
    context, mode = cuda_h.CUcontext(), ctypes.c_uint(0)
    rawcuda.cu.cuCtxGetCurrent(ctypes.byref(context))
    rawcuda.cu.cuThreadExchangeStreamCaptureMode(ctypes.byref(mode))
    was = mode.value
    rawcuda.cu.cuThreadExchangeStreamCaptureMode(ctypes.byref(mode))
    return context.value, was


def put_back(before: tuple[Any, int]) -> None:
    """Check that no lock of the package is held, and restore what an interrupt may have changed in this thread."""
    for lock in (points.beginning, module("driver")._lock, *(primary._lock for primary in contexts())):
        while lock._is_owned():
            assert sys.version_info < (3, 11), "a lock is held"  # before, a signal may come just before __exit__()
            lock.release()
    while state()[0] != before[0]:
        rawcuda.cu.cuCtxPopCurrent_v2(ctypes.byref(cuda_h.CUcontext()))
    rawcuda.cu.cuThreadExchangeStreamCaptureMode(ctypes.byref(ctypes.c_uint(before[1])))


@pytest.fixture(autouse=True)
def put_back_at_the_end() -> Iterator[None]:
    """Restore what the last interrupt of a test may have changed in this thread."""
    before = state()
    yield
    put_back(before)


def cleans_up(frame: Any) -> bool:
    """Tell whether no signal handler runs at the present line: from Python 3.11 on, none does just before __exit__()
    is called, and between a try block and its finally block. A function that traces is called there."""
    above = linecache.getline(frame.f_code.co_filename, frame.f_lineno - 1).strip()
    here = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
    return here.startswith("with ") or above.startswith("finally:") or frame.f_code.co_name == "__del__"


def contexts() -> list[Any]:
    """Return every PrimaryContext."""
    return list(module("gpu.core.context")._contexts.values())


class World:
    """The objects that the sequences use."""

    def __init__(self, device: Any) -> None:
        self.device = device
        self.stream, self.event = device.stream(), device.event()
        self.a, self.b = device.empty((8,), "float32").fill(1), device.empty((8,), "float32").fill(2)
        self.texels = device.array((8,), "float32")
        self.texels.copy_from(self.a)
        self.pinned = device.allocate(32, kind="pinned")
        self.ordered = device.allocate(32, stream=self.stream)
        self.managed = device.allocate(4096, kind="managed")
        self.virtual = device.virtual_memory(reserve=1 << 24)
        self.grain = self.virtual.granularity
        device.synchronize()

    def close(self) -> None:
        for thing in (
            self.virtual,
            self.managed,
            self.ordered,
            self.pinned,
            self.texels,
            self.a.owner,
            self.b.owner,
            self.event,
            self.stream,
        ):
            thing.close()


def current_block(w: World) -> None:
    with w.device.current():
        w.stream.query()


def leased(w: World) -> None:
    memory = w.device.allocate(32, kind="pinned")
    lease = memory.lease()
    memory.close()
    del lease


def captured(w: World) -> None:
    with w.stream.capture() as graph:
        w.a.fill(3, stream=w.stream)
    graph.launch(w.stream)
    graph.close()


def built(w: World) -> None:
    with w.device.graph() as graph:
        first = graph.fill(w.a, 3)
        graph.copy(w.b, w.a, after=first)
        graph.launch(w.stream)
        first.update(w.a, 4)
        with graph.instantiate() as executable:
            executable.launch(w.stream)
        with w.stream.capture(into=graph, after=first):
            w.b.fill(1, stream=w.stream)


def conditional(w: World) -> None:
    with w.device.graph() as graph:
        chosen = graph.if_then(graph.create_condition(default=0))
        chosen.then.fill(w.a, 3)
        graph.launch(w.stream)


def into_a_graph(w: World) -> None:
    with w.device.graph() as graph:
        with w.stream.capture(into=graph, after=graph.empty()):
            w.a.fill(3, stream=w.stream)
        graph.clone().close()


def textured(w: World) -> None:
    with w.device.array((2, 4), "float32", surface=True) as made, w.device.surface(made):
        made.copy_from(w.a.reshape(2, 4), stream=w.stream)
        with w.device.texture(made):
            made[0, 1:3].tolist()


def in_green(w: World) -> None:
    with w.device.split(w.device.attribute("MULTIPROCESSOR_COUNT") // 2) as (green,), green.stream() as stream:
        w.a.fill(3, stream=stream)
        stream.synchronize()
    w.a.stream = None  # (the stream is closed)


def signalled(w: World) -> None:
    word = w.ordered.view("uint32")[0]
    w.stream.write_value(word, 1)
    w.stream.wait_value(word, 1)
    w.stream.batch([("write", word, 2), ("wait", word, 2)])
    w.stream.call(int)


def linked(w: World) -> None:
    with w.device.link([STEP]) as module, rawcuda.Library(STEP) as library:
        module["step"].attributes.num_regs  # noqa: B018
        library.module(w.device)["step"]


class Foreign:
    def __init__(self, memory: Any) -> None:
        self.memory = memory
        self.__cuda_array_interface__ = memory.__cuda_array_interface__


def pooled(w: World) -> None:
    with w.device.memory_pool() as pool:
        memory = pool.allocate(64, stream=w.stream)
        memory.close()
        w.device.allocate(64, pool=pool).close()
        pool.trim()


def registered(w: World) -> None:
    given = bytearray(64)
    w.device.register(given).close()
    w.device.register(given)  # dropped
    owned.drain()


def across(w: World) -> None:
    other = rawcuda.devices()[-1]
    there = other.empty((8,), "float32")
    there.copy_from(w.a, stream=w.stream)
    there[::2].copy_from(w.a[::2])
    there.owner.close()


SEQUENCES: dict[str, Callable[[World], object]] = {
    "stream": lambda w: w.device.stream().close(),
    "event": lambda w: w.device.event().close(),
    "device memory": lambda w: w.device.allocate(64).close(),
    "pinned memory": lambda w: w.device.allocate(64, kind="pinned").close(),
    "managed memory": lambda w: w.device.allocate(64, kind="managed").close(),
    "ordered memory": lambda w: w.device.allocate(64, stream=w.stream).close(),
    "default-stream memory": lambda w: w.device.allocate(64, stream=1).close(),
    "dropped": lambda w: (w.device.allocate(64), w.device.stream(), owned.drain()),
    "leased": leased,
    "synchronize": lambda w: (w.stream.synchronize(), w.device.synchronize(), rawcuda.synchronize()),
    "record and wait": lambda w: (w.stream.record(w.event), w.stream.wait(w.event), w.stream.wait(None)),
    "record a new one": lambda w: w.stream.record().close(),
    "copy": lambda w: (rawcuda.copy(w.a, w.b, stream=w.stream), rawcuda.copy(w.a, w.b)),
    "copy bytes": lambda w: (w.pinned.copy_from(w.ordered, stream=w.stream), w.ordered.copy_from(bytes(32))),
    "fill": lambda w: (w.a.fill(3, stream=w.stream), w.pinned.fill(1), w.a[::2].fill(1)),
    "with current": current_block,
    "captured": captured,
    "virtual memory": lambda w: w.device.virtual_memory(reserve=1).close(),
    "virtual memory grows and shrinks": lambda w: w.virtual.grow(1).shrink(0),
    "virtual memory of any place": lambda w: w.virtual.shrink(0).map(w.grain, w.grain).unmap(w.grain, w.grain),
    "access to virtual memory": lambda w: w.virtual.set_access(w.device, "readwrite"),
    "a pool": pooled,
    "a pool of host memory": lambda w: w.device.memory_pool(kind="pinned").close(),
    "registered memory": registered,
    "managed memory with advice": lambda w: (
        w.device.allocate(64, kind="managed").prefetch(w.device, stream=w.stream).advise("set_read_mostly").close()
    ),
    "a batch": lambda w: rawcuda.copy_batch([(w.a, w.b), (w.pinned, w.ordered)], stream=w.stream),
    "between devices": across,
    "built by hand": built,
    "foreign": lambda w: rawcuda.copy(w.a, rawcuda.view(Foreign(w.b)), stream=w.stream),
    "conditional node": conditional,
    "captured into a graph": into_a_graph,
    "texture": textured,
    "green context": in_green,
    "values and calls": signalled,
    "linked": linked,
    "blocking event": lambda w: w.device.event(blocking=True).record(w.stream).close(),
}
# An exception is raised at every third line (of a sequence with many lines, at every seventh), beginning at another one
# in each of the emulator's three modes: together they see all lines.
STRIDES = {"linked": 7}
EACH = 3
STRIDE = 3  # between interrupted lines where work is queued; a call and what keeps its memory are further apart


def interrupted(sequence: Callable[[], object], nth: int, code: CodeType | None = None) -> bool:
    """Run a sequence, and raise at the nth line of the package, or of one function; tell whether it was reached."""
    left = [nth]

    def trace(frame: Any, event: str, _: object) -> Any:
        if not (frame.f_code is code if code else frame.f_code.co_filename.startswith(PACKAGE_FILES)):
            return None
        if event == "line" and not cleans_up(frame):
            left[0] -= 1
            if left[0] == 0:
                sys.settrace(None)
                raise Injected
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        sequence()
    except Injected:
        pass
    finally:
        sys.settrace(before)
    return left[0] <= 0


def test_an_exception_at_the_entry_of_each_function_leaves_no_capture(device: Any) -> None:
    """Python looks for signals there, also where a function is called between try and the end of finally."""
    files = tuple(str(FOLDER / "gpu" / name) for name in ("graphs/recording.py", "core/points.py"))
    left, x = [0], device.empty((8,), "float32")

    def trace(frame: Any, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename in files:
            left[0] -= 1
            if left[0] == 0:
                sys.settrace(None)
                raise Injected

    def capture() -> None:
        with device.stream(nonblocking=False) as stream, stream.capture() as graph:
            x.fill(1, stream=stream)
        graph.close()

    capture()
    before, nth = sys.gettrace(), 0
    while left[0] <= 0:
        nth += 1
        left[0] = nth
        sys.settrace(trace)
        try:
            capture()
        except Injected:
            pass
        finally:
            sys.settrace(before)
        gc.collect()
        owned.drain()
        assert not points.capturing, f"call {nth} leaves a capture"
        rawcuda.synchronize()
        x.stream = None
    assert nth > 10


WAITS = {
    "core/points.py": lambda device: device.synchronize(),
    "copies/contiguous.py": lambda device: rawcuda.copy(bytearray(64), device.allocate(64)),
    "memory/ordering.py": lambda device: (
        rawcuda.view(bytearray(64)).reshape((8, 8)).copy_from(device.zeros((8, 8), "uint8").T)
    ),
}


@pytest.mark.parametrize("name", WAITS)
def test_an_interrupt_between_finally_and_its_call_leaves_no_wait(device: Any, name: str) -> None:
    """Before Python 3.11, Python looks for signals there; each later capture would wait for 0.25 s."""
    lines = (FOLDER / "gpu" / name).read_text("utf-8").splitlines()
    (number,) = [at for at, line in enumerate(lines, 1) if lines[at - 2].strip() == "try:" and "discard(wait)" in line]

    def trace(frame: Any, event: str, _: object) -> Any:
        if not frame.f_code.co_filename.endswith(name):
            return None
        if event == "line" and frame.f_lineno == number:
            sys.settrace(None)
            raise Injected
        return trace

    WAITS[name](device)
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        with pytest.raises(Injected):
            WAITS[name](device)
    finally:
        sys.settrace(before)
    assert not points.waiting


def test_an_interrupt_before_a_capture_is_no_longer_beginning_leaves_none(device: Any) -> None:
    lines = (FOLDER / "gpu" / "graphs" / "recording.py").read_text("utf-8").splitlines()
    (number,) = [at for at, line in enumerate(lines, 1) if "capturing.pop(NEXT" in line]

    def trace(frame: Any, event: str, _: object) -> Any:
        if not frame.f_code.co_filename.endswith("recording.py"):
            return None
        if event == "line" and frame.f_lineno == number:
            sys.settrace(None)
            raise Injected
        return trace

    def capture() -> None:
        with device.stream() as stream, stream.capture() as graph:
            device.empty((8,), "float32").fill(1, stream=stream)
        graph.close()

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        with pytest.raises(Injected):
            capture()
    finally:
        sys.settrace(before)
    gc.collect()
    owned.drain()
    assert not points.capturing
    device.synchronize()


def test_an_exception_before_a_capture_into_a_graph_leaves_the_graph_usable(device: Any) -> None:
    """At each line of __enter__(), and while the traceback, and with it the recording, is kept."""
    code = module("gpu.graphs.recording").Recording.__enter__.__code__
    x, caught = device.empty((8,), "float32"), []

    def capture(stream: Any, graph: Any) -> None:
        try:
            with stream.capture(into=graph):
                x.fill(1, stream=stream)
        except Injected as error:
            caught.append(error)

    place, nth, hit = state(), 0, True
    while hit:
        nth += 1
        graph = device.graph()
        with device.stream() as stream:
            hit = interrupted(partial(capture, stream, graph), nth, code)
            put_back(place)
            graph.empty()
            graph.launch(stream)
            with stream.capture(into=graph):
                x.fill(2, stream=stream)
            caught.clear()
            gc.collect()
            owned.drain()
        graph.close()
    assert nth > 10


@pytest.mark.parametrize("into", [False, True])
@pytest.mark.parametrize("name", ["begin", "_note_number", "end", "_end", "_goes_on", "_note_end"])
def test_an_exception_in_a_capture_leaves_the_next_one_of_the_stream_whole(device: Any, name: str, into: bool) -> None:
    """At each line, and while the traceback is kept until the next capture has begun."""
    code = getattr(module("gpu.graphs.recording").StreamCapture, name).__code__
    x, caught = device.empty((8,), "float32"), []

    def capture(stream: Any) -> None:
        try:
            with device.graph() as graph, stream.capture(into=graph) if into else stream.capture():
                x.fill(1, stream=stream)
                if name == "_goes_on":
                    raise Injected
        except Injected as error:
            caught.append(error)

    place, nth, hit = state(), 0, True
    while hit:
        nth += 1
        with device.stream() as stream, device.graph() as graph:
            hit = interrupted(partial(capture, stream), nth, code)
            put_back(place)
            with stream.capture(into=graph):
                x.fill(2, stream=stream)
                caught.clear()
                gc.collect()
                owned.drain()
                x.fill(3, stream=stream)
            assert len(graph.nodes) == 2, f"line {nth}"
        assert not points.capturing, f"line {nth} leaves a capture"
    assert nth > 2


@pytest.mark.parametrize("name", SEQUENCES)
def test_an_exception_at_each_line(device: Any, library: Any, name: str) -> None:
    world, sequence = World(device), SEQUENCES[name]
    for _ in range(2):
        sequence(world)
    rawcuda.synchronize()
    before = state()
    try:
        step = STRIDES.get(name, EACH)
        nth = 1 + len(getattr(library, "mode", "")) % step
        while True:
            hit = interrupted(lambda: sequence(world), nth)
            owned.drain()
            put_back(before)
            sequence(world)  # it still works
            rawcuda.synchronize()
            gc.collect(0)
            owned.drain()
            assert not points.capturing, f"line {nth} leaves a capture"
            if not hit:
                break
            nth += step
        assert nth > 3
    finally:
        world.close()


@pytest.mark.parametrize("name", ["stream", "pinned memory", "ordered memory", "dropped", "record and wait", "copy"])
def test_an_exception_at_each_line_of_traced_calls(device: Any, library: Any, name: str) -> None:
    with rawcuda.trace(lambda event: None):
        test_an_exception_at_each_line(device, library, name)


INSIDE = "stream, event, device memory, pinned memory, ordered memory, dropped, record a new one, copy, fill".split(
    ", "
)


@pytest.mark.parametrize("name", INSIDE)
def test_an_exception_at_each_line_while_the_context_is_current(device: Any, library: Any, name: str) -> None:
    with device.current():
        test_an_exception_at_each_line(device, library, name)


def from_a_batch(w: World, target: Any) -> None:
    rawcuda.copy_batch([(target[:4], w.a[:4]), (target[4:], w.a[4:])], stream=w.stream)


def from_an_array(w: World, target: Any) -> None:
    w.texels.copy_to(target, stream=w.stream)


INTO_PAGEABLE: dict[str, Callable[[World, Any], object]] = {
    "copy": lambda w, target: rawcuda.copy(target, w.a, stream=w.stream),
    "on the default stream": lambda w, target: rawcuda.copy(target, w.a),
    "backwards": lambda w, target: rawcuda.copy(target, w.a[::-1], stream=w.stream),
    "a pitched copy": lambda w, target: rawcuda.copy(target[::2], w.a[::2], stream=w.stream),
    "boxes": lambda w, target: rawcuda.copy(target.reshape(2, 4)[:, :2], w.a.reshape(2, 4)[:, 2:], stream=w.stream),
    "a batch": from_a_batch,
    "from an array": from_an_array,
}


@pytest.fixture
def late(library: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the emulator work late, as a GPU may, also in its eager mode."""
    if library is not None and library.mode == "eager":
        queues = library._machine.queues
        monkeypatch.setattr(queues, "mode", "lazy")
        monkeypatch.setattr(queues, "_submit_more", queues._submit_lazy)


@pytest.mark.parametrize("name", INTO_PAGEABLE)
def test_a_copy_that_an_exception_ends_writes_nothing_later(device: Any, late: None, name: str) -> None:
    """Nothing keeps pageable memory alive after the call, so what was queued must be done when the exception leaves."""
    world, nth, hit = World(device), 0, True
    try:
        while hit:
            nth += STRIDE
            target = rawcuda.view(array.array("f", [0.0] * 8))
            with device.current():  # else a context that an interrupt left current would save lines, and end the loop
                hit = interrupted(lambda target=target: INTO_PAGEABLE[name](world, target), nth)  # type: ignore[misc]
            seen = target.tolist()
            device.synchronize()
            assert target.tolist() == seen, f"written after the exception at line {nth}"
        assert any(seen) and nth > 30
    finally:
        world.close()


WRITES: dict[str, Callable[[World, Any], object]] = {
    "copy": lambda w, x: x.copy_from(w.a, stream=w.stream),
    "copy backwards": lambda w, x: x.copy_from(w.a[::-1], stream=w.stream),
    "fill": lambda w, x: x.fill(1, stream=w.stream),
    "fill of another element": lambda w, x: x.fill(0.1, stream=w.stream),
    "copy to a Memory": lambda w, x: x.copy_from(w.a, stream=w.stream),
    "fill of a Memory": lambda w, x: x.fill(1, stream=w.stream),
    "batch": lambda w, x: rawcuda.copy_batch([(x, w.a), (w.b, w.a)], stream=w.stream),
    "copy to an array": lambda w, x: x.copy_from(w.a, stream=w.stream),
    "copy between arrays": lambda w, x: x.copy_from(w.texels, stream=w.stream),
}


@pytest.mark.parametrize("name", WRITES)
def test_work_that_an_exception_ends_is_not_done_over_later_work(device: Any, late: None, name: str) -> None:
    """The driver may have queued it, so the memory knows its stream."""
    world, nth, hit, twos = World(device), 0, True, device.full(8, 2, "float32")
    try:
        while hit:
            nth += 1
            view = device.full(8, 0, "float32")
            x: Any = view.owner if "Memory" in name else device.array(8, "float32") if "array" in name else view
            device.synchronize()
            with device.current():  # as above
                hit = interrupted(lambda x=x: WRITES[name](world, x), nth)  # type: ignore[misc]
            x.copy_from(twos)
            device.synchronize()
            assert (view if x is view.owner else x).tolist() == [2] * 8, f"line {nth}"
        assert nth > 15
    finally:
        world.close()


ASSIGNMENTS: dict[str, Callable[[Any], object]] = {
    "a number": lambda x: x.__setitem__(..., 5),
    "an element": lambda x: x.__setitem__(3, 5),
    "a list": lambda x: x.__setitem__(..., [5] * 8),
    "every second": lambda x: x.__setitem__(slice(None, None, 2), 5),
    "flat": lambda x: x.flat.__setitem__(3, 5),
}


@pytest.mark.parametrize("name", ASSIGNMENTS)
def test_an_assignment_that_an_exception_ends_is_waited_for(device: Any, late: None, name: str) -> None:
    """It is made on the default stream, which the view notes, and not only the part that was assigned to."""
    nth, hit = 0, True
    with device.stream() as stream:
        while hit:
            nth += 1
            view, out = device.full(8, 0, "float32"), device.full(8, 1, "float32")
            device.synchronize()
            view.stream = out.stream = None
            with device.current():  # as above
                hit = interrupted(lambda view=view: ASSIGNMENTS[name](view), nth)  # type: ignore[misc]
            out.copy_from(view, stream=stream)
            stream.synchronize(), device.synchronize()
            assert out.tolist() == view.tolist(), f"line {nth}"
    assert nth > 15


class Freed:
    """Memory of another library, which frees it in the order of its own stream as soon as nobody holds it."""

    def __init__(self, stream: Any) -> None:
        self.stream, self.address = cuda_h.CUstream(stream.handle), cuda_h.CUdeviceptr()
        rawcuda.cu.cuMemAllocAsync(ctypes.byref(self.address), 32, self.stream)
        rawcuda.cu.cuMemsetD8Async(self.address.value, 2, 32, self.stream)
        data = self.address.value, False
        self.__cuda_array_interface__ = {"shape": (8,), "typestr": "<f4", "data": data, "version": 3}

    def __del__(self) -> None:
        rawcuda.cu.cuMemFreeAsync(self.address.value, self.stream)


def with_an_array(w: World, _: Any) -> None:
    w.device.array((8,), "float32").copy_from(w.a, stream=w.stream)


def between_arrays(w: World, _: Any) -> None:
    w.device.array((8,), "float32").copy_from(w.texels, stream=w.stream)


def in_a_graph(w: World, foreign: Any) -> None:
    with w.device.graph() as graph:
        graph.copy(w.a, rawcuda.view(foreign))
        graph.launch(w.stream)


USES_OF_FOREIGN: dict[str, Callable[[World, Any], object]] = {
    "copied from": lambda w, foreign: rawcuda.copy(w.a, rawcuda.view(foreign), stream=w.stream),
    "copied to": lambda w, foreign: rawcuda.copy(rawcuda.view(foreign), w.a, stream=w.stream),
    "copied backwards": lambda w, foreign: rawcuda.copy(w.a, rawcuda.view(foreign)[::-1], stream=w.stream),
    "uploaded in part": lambda w, foreign: rawcuda.copy(
        rawcuda.view(foreign)[::2], rawcuda.view(array.array("f", [1.0] * 8))[::2], stream=w.stream
    ),
    "an array": with_an_array,
    "two arrays": between_arrays,
    "filled": lambda w, foreign: rawcuda.view(foreign).fill(1, stream=w.stream),
    "filled in part": lambda w, foreign: rawcuda.view(foreign)[::3].fill(1, stream=w.stream),
    "filled by copies": lambda w, foreign: rawcuda.view(foreign).reinterpret("float64").fill(0.1, stream=w.stream),
    "in a batch": lambda w, foreign: rawcuda.copy_batch(
        [(w.a[:4], rawcuda.view(foreign)[:4]), (w.b[:4], rawcuda.view(foreign)[4:])], stream=w.stream
    ),
    "in a graph": in_a_graph,
    "a value": lambda w, foreign: w.stream.write_value(rawcuda.view(foreign).reinterpret("uint32")[0], 1),
    "a batch of values": lambda w, foreign: w.stream.batch(
        [("write", rawcuda.view(foreign).reinterpret("uint32")[n], n) for n in range(2)]
    ),
}


@pytest.mark.parametrize("name", USES_OF_FOREIGN)
def test_foreign_memory_outlives_work_that_an_exception_ends(device: Any, late: None, name: str) -> None:
    """Foreign memory, or an array, that is freed as soon as nobody holds it is not used after that."""
    world, nth, hit = World(device), 0, True
    with device.stream() as theirs, device.current():  # which also saves lines
        try:
            while hit:
                nth += STRIDE
                held = [Freed(theirs)]
                theirs.synchronize()
                device.synchronize()
                hit = interrupted(lambda held=held: USES_OF_FOREIGN[name](world, held[0]), nth)  # type: ignore[misc]
                held.clear()
                gc.collect(0)
                owned.drain()
                theirs.synchronize()  # it is freed
                device.synchronize()  # and everything else is done
            assert nth > 30
        finally:
            world.close()


class Interrupted:
    """A function of the driver that an interrupt meets once: just before the n-th call, or just after it."""

    def __init__(self, function: Any, nth: int, after: bool) -> None:
        self.function, self.symbol, self.left, self.after = function, function.symbol, nth, after

    def __call__(self, *arguments: Any) -> Any:
        self.left -= 1
        if self.left == 0 and not self.after:
            raise Injected
        code = self.function(*arguments)
        if self.left == 0:
            raise Injected
        return code


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("how", ["a call", "a with block"])
def test_an_interrupt_at_the_pop_leaves_no_context_pushed(
    device: Any, monkeypatch: pytest.MonkeyPatch, how: str, after: bool
) -> None:
    primary, before = device._primary, state()
    with device.event() as event, device.stream() as stream:
        monkeypatch.setattr(primary, "pop", Interrupted(primary.pop, 1, after))
        with pytest.raises(Injected):
            if how == "a call":
                event.record(stream)
            else:
                with primary.current():
                    pass
        left = state()
        monkeypatch.undo()
    assert left == before


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("nth", [1, 2])
@pytest.mark.parametrize("how", ["a call", "a with block"])
def test_an_interrupt_at_an_exchange_leaves_the_capture_mode_as_before(
    device: Any, monkeypatch: pytest.MonkeyPatch, how: str, nth: int, after: bool
) -> None:
    primary, before, memory = device._primary, state(), ctypes.c_uint64()
    with device.current():
        exchange = Interrupted(primary.driver.exchange_mode, nth, after)
        monkeypatch.setattr(primary.driver, "exchange_mode", exchange)
        with pytest.raises(Injected):
            if how == "a call":
                core.Calls(primary.driver, primary).cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(64))
            else:
                with core.relaxed(primary.driver):
                    pass
        monkeypatch.undo()
        left = state()
        if memory.value:
            rawcuda.cu.cuMemFree_v2(memory.value)
    assert left[1] == before[1]


@pytest.mark.skipif(sys.version_info >= (3, 11), reason="no signal handler runs before just any instruction here")
@pytest.mark.parametrize("how", ["a call", "the end of a with block", "a relaxed call", "the end of a relaxed block"])
def test_an_interrupt_before_any_instruction_leaves_context_and_mode_as_before(device: Any, how: str) -> None:
    """Before Python 3.11, it may come before each but those that begin a try statement."""
    primary, before = device._primary, state()
    here, there = primary.current(), core.relaxed(primary.driver)
    calls = core.Calls(primary.driver, primary)
    memory = ctypes.c_uint64()

    def call() -> None:
        calls.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(64))

    def block() -> None:
        with here:
            pass

    def relaxed_block() -> None:
        with there:
            pass

    context = module("gpu.core.context")
    codes = {
        "a call": {context.PrimaryContext.call_pushed.__code__},
        "the end of a with block": {context.Current.__exit__.__code__},
        "a relaxed call": {calls.cuMemAlloc_v2.__code__},
        "the end of a relaxed block": {getattr(core.relaxed, name).__code__ for name in ("__exit__", "_restore")},
    }[how]

    def interrupt() -> None:
        frame = sys._getframe(2)
        if dis.opname[frame.f_code.co_code[frame.f_lasti]] != "SETUP_FINALLY":
            raise Injected

    def work() -> None:
        with contextlib.suppress(Injected):
            {"the end of a with block": block, "the end of a relaxed block": relaxed_block}.get(how, call)()
        sys.settrace(None)
        assert state() == before
        if memory.value:
            with device.current():
                rawcuda.cu.cuMemFree_v2(memory.value)
            memory.value = 0

    assert each_opcode(codes, work, interrupt) > 10


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no interval timers here")
def test_real_signals(device: Any) -> None:
    """A timer sends signals at random moments, for a second or two."""
    if threading.current_thread() is not threading.main_thread():
        pytest.skip("signals are handled in the main thread only")
    world, choose, before, caught = World(device), random.Random(5), state(), 0
    armed = False  # the system may give a signal to another thread, which runs later on a busy machine

    def handler(_: int, frame: Any) -> None:
        if not armed or not frame.f_code.co_filename.startswith(PACKAGE_FILES):
            return
        while frame is not None:
            if frame.f_code.co_filename.startswith(CALLED_BY_C):
                return
            frame = frame.f_back
        raise KeyboardInterrupt

    old = signal.signal(signal.SIGALRM, handler)
    try:
        left_out = {"with current", "foreign", "captured", "captured into a graph", *STRIDES}
        sequences = [SEQUENCES[name] for name in SEQUENCES if name not in left_out]
        for _ in range(1500):
            sequence = choose.choice(sequences)
            try:
                armed = True
                signal.setitimer(signal.ITIMER_REAL, choose.uniform(1e-6, 4e-4))
                sequence(world)
                signal.setitimer(signal.ITIMER_REAL, 0)
            except KeyboardInterrupt:
                caught += 1
            armed = False
            signal.setitimer(signal.ITIMER_REAL, 0)
            gc.collect(0)
            owned.drain()
            put_back(before)
        assert caught > 50
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
        rawcuda.synchronize()
        world.close()
