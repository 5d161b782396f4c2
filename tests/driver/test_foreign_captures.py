"""Captures that other software begins, such as torch.cuda.graph: the driver alone knows of them."""

import ctypes
import gc
import threading
import warnings
import weakref

import pytest

from tests.driver import kernels
from tests.subject import module, rawcuda

cuda_h, errors = module("headers.cuda_h"), module("errors")
points, owned = module("gpu.core.points"), module("ownership")


class Foreign:
    """An exporter of memory on a device, as another library's array is, perhaps with the stream of its last work."""

    def __init__(self, array, stream=None):
        self.array = array
        self.__cuda_array_interface__ = {**array.__cuda_array_interface__, "stream": stream}


@pytest.fixture
def begin(device):
    """Return a function that begins a capture with the driver's own call, and returns one that ends it."""

    def begin(stream, mode):
        rawcuda.cu.cuStreamBeginCapture_v2(cuda_h.CUstream(stream.handle), mode)

        def end():
            graph = cuda_h.CUgraph()
            rawcuda.cu.cuStreamEndCapture(cuda_h.CUstream(stream.handle), ctypes.byref(graph))
            rawcuda.cu.cuGraphDestroy(graph)

        return end

    with device.current():
        yield begin


@pytest.mark.parametrize("mode", [0, 1, 2])
def test_launches_with_foreign_arrays_break_no_capture_of_other_software(device, begin, mode):
    """A query of an event that was recorded in the capture would."""
    with device.load(kernels.ADD) as code, device.stream() as stream:
        array = Foreign(device.zeros(4, "float32"))
        add = code["add"].configure(grid=1, block=4, stream=stream)
        device.synchronize()
        end = begin(stream, mode)
        for _ in range(40):
            add(array, array, array, 4)
        end()
        add(array, array, array, 4)
        stream.synchronize()


def test_a_fill_of_page_locked_memory_breaks_no_capture_of_other_software(device, begin):
    with device.stream() as stream, device.allocate(16, kind="pinned") as memory:
        end = begin(stream, 0)
        memory.fill(3, stream=stream)
        end()


@pytest.mark.parametrize("mode", [0, 1, 2])
@pytest.mark.parametrize("where", ["legacy", "per-thread", "another"])
def test_a_copy_of_what_is_pending_on_a_stream(device, begin, where, mode):
    """A graph cannot wait for work outside of it, so the CPU does."""
    with device.stream() as stream, device.stream() as another:
        working = {"legacy": None, "per-thread": rawcuda.Stream.per_thread, "another": another}[where]
        five, array = device.full((4,), 5, "float32", stream=working), device.empty((4,), "float32")
        memory = device.allocate(16).fill(3, stream=working)
        end = begin(stream, mode)
        array.copy_from(five, stream=stream)
        memory.copy_from(five, stream=stream)
        end()


@pytest.mark.codes("cuStreamIsCapturing returned 906")
@pytest.mark.parametrize("ours", [False, True])
@pytest.mark.parametrize("same", [False, True])
def test_a_blocking_stream_is_captured(device, begin, ours, same):
    """It waits for the default stream, which can then be neither used nor waited for."""
    five, copied, last = device.full((4,), 5, "float32"), device.empty((4,), "float32"), device.empty((4,), "float32")
    with device.stream(nonblocking=False) as blocking, device.stream() as other:
        device.synchronize()
        stream = blocking if same else other
        if ours:
            with blocking.capture() as graph:
                five.copy_to(last, stream=blocking)
                copied.copy_from(five, stream=stream)
            graph.launch(blocking)
            graph.close()
        else:
            end = begin(blocking, 2)
            copied.copy_from(five, stream=stream)
            end()
        device.synchronize()
        if ours or not same:
            assert copied.tolist() == [5.0] * 4


@pytest.mark.codes("cuCtxSynchronize returned 900")
def test_virtual_memory_that_is_collected_in_a_capture_of_other_software(device, begin):
    """The wait for the work that may use it is refused, so it is released later."""
    calls = []
    memory = device.virtual_memory(1)
    with device.stream() as stream:
        end = begin(stream, 2)
        with rawcuda.trace(lambda event: calls.append(getattr(event, "name", ""))):
            del memory
            gc.collect()
            owned.drain()
        with pytest.raises(errors.CudaError):
            end()
        assert "cuMemUnmap" not in calls
    owned.drain()


@pytest.mark.parametrize("ours", [False, True])
@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize("where", ["legacy", "per-thread", "another"])
@pytest.mark.parametrize("use", ["launch", "copy"])
def test_arrays_whose_exporter_names_a_stream_are_used_in_a_capture(device, begin, use, where, before, ours):
    """A graph cannot wait for that stream, so the CPU does; and that stream waits for no work of the graph."""
    with device.load(kernels.ADD) as code, device.stream() as stream, device.stream() as another:
        exporting = {"legacy": 1, "per-thread": 2, "another": another.handle}[where]
        one, out = device.full((4,), 1, "float32", stream=another), device.empty((4,), "float32")
        device.synchronize()
        given = Foreign(one, exporting)
        if before:
            given = rawcuda.view(given)

        def work():
            if use == "launch":
                code["add"].launch(given, given, out, 4, grid=1, block=4, stream=stream)
            else:
                out.copy_from(given, stream=stream)

        if ours:
            with stream.capture() as graph:
                work()
            graph.launch(stream)
            stream.synchronize()
            assert out.tolist() == [2.0 if use == "launch" else 1.0] * 4
            graph.close()
        else:
            end = begin(stream, 1)
            work()
            end()


def test_an_array_of_a_captured_stream_is_used_outside_of_the_capture(device, begin):
    """What is captured is not pending; the stream cannot wait for our use, so the CPU does."""
    with device.load(kernels.ADD) as code, device.stream() as stream, device.stream() as another:
        one, out = device.full((4,), 1, "float32", stream=another), device.empty((4,), "float32")
        device.synchronize()
        end = begin(another, 1)
        given = Foreign(one, another.handle)
        code["add"].launch(given, given, out, 4, grid=1, block=4, stream=stream)
        with device.graph() as graph:
            graph.kernel(code["add"], given, given, out, 4, grid=1, block=4)
        end()
        stream.synchronize()
        assert out.tolist() == [2.0] * 4


def test_an_array_of_a_stream_in_the_same_capture_is_ordered_in_it(device):
    with device.load(kernels.ADD) as code, device.stream() as stream, device.stream() as another:
        one, out = device.full((4,), 1, "float32"), device.empty((4,), "float32")
        device.synchronize()
        with stream.capture() as graph:
            one.fill(3, stream=stream)
            another.wait(stream)
            given = Foreign(one, stream.handle)
            code["add"].launch(given, given, out, 4, grid=1, block=4, stream=another)
            one.fill(5, stream=stream)  # after the launch, since the exporter's stream waits for our use
            stream.wait(another)
        graph.launch(stream)
        stream.synchronize()
        assert out.tolist() == [6.0] * 4 and one.tolist() == [5.0] * 4
        fill, launched, last = graph.nodes
        assert launched in last.pred or launched.pred == [fill]
        graph.close()


@pytest.mark.codes("cuStreamIsCapturing returned 906")
@pytest.mark.parametrize("add", ["copy", "fill", "kernel", "wide", "strided"])
def test_adding_nodes_breaks_no_capture_of_a_stream_that_waits_for_the_default_stream(device, begin, add):
    with device.load(kernels.ADD) as code, device.stream(nonblocking=False) as blocking, device.graph() as graph:
        array, wide = device.zeros(4, "float32"), device.zeros(4, "complex128")
        device.synchronize()
        foreign = Foreign(array)
        end = begin(blocking, 1)
        {
            "copy": lambda: graph.copy(foreign, memoryview(bytes(16)).cast("f")),
            "fill": lambda: graph.fill(foreign, 1.0),
            "kernel": lambda: graph.kernel(code["add"], foreign, array, array, 4, grid=1, block=4),
            "wide": lambda: graph.fill(wide, 1 + 2j),
            "strided": lambda: graph.fill(array.reshape(2, 2)[:, ::2], 2.0),
        }[add]()
        end()
        graph.launch()
        device.synchronize()


@pytest.mark.parametrize("kind", ["download", "upload", "strided", "batch", "array"])
def test_no_capture_begins_while_pageable_memory_is_copied(device, monkeypatch, kind):
    """The copy would be recorded, and each launch of the graph would use memory of a call that has returned."""
    calls, copies, counts, graphs, begun = device._primary.calls, [], [], [], threading.Event()

    def capture():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # nothing was captured
            with stream.capture() as graph:
                counts.append(len(copies))
                begun.set()
        graphs.append(graph)

    def late(call):
        def copy(*arguments):
            if not thread.ident:
                thread.start()
                begun.wait(0.1)
            copies.append(arguments)
            return call(*arguments)

        return copy

    thread = threading.Thread(target=capture)
    with device.stream() as stream, device.array((16,), "uint8") as other:
        array, target = device.zeros(16, "uint8"), bytearray(16)
        other.copy_from(bytes(16))
        device.synchronize()
        for name in ("cuMemcpyAsync", "cuMemcpy2DAsync_v2", "cuMemcpy3DAsync_v2"):
            monkeypatch.setattr(calls, name, late(getattr(calls, name)))
        {
            "download": lambda: array.copy_to(target, stream=stream),
            "upload": lambda: array.copy_from(bytes(16), stream=stream),
            "strided": lambda: array[::2].copy_from(rawcuda.view(bytes(16))[::2], stream=stream),
            "batch": lambda: rawcuda.copy_batch([(array, bytes(16))], stream=stream),
            "array": lambda: other.copy_to(target, stream=stream),
        }[kind]()
        thread.join(60)
        assert copies and counts == [len(copies)]  # all copies were made before it began
        assert not graphs[0].nodes
        graphs[0].close()


def test_an_export_to_a_captured_stream_does_not_break_the_capture(device, begin):
    """A graph cannot wait for work outside of it, so the CPU does."""
    with device.stream() as stream, device.stream() as another:
        array = device.full((4,), 1, "float32", stream=another)
        end = begin(stream, 1)
        capsule = array.__dlpack__(stream=stream.handle)
        end()
        assert capsule


def test_what_was_used_before_the_capture_stays(device, begin):
    """Work that was queued before is not done yet: its memory is not kept by an event of the capture."""
    with device.load(kernels.ADD) as code, device.stream() as stream:
        array = Foreign(device.zeros(4, "float32"))
        add = code["add"].configure(grid=1, block=4, stream=stream)
        device.synchronize()
        add(array, array, array, 4)
        gone = weakref.ref(array)
        (point,) = [each for each in points.retained if each.key[1] == stream.handle]
        record = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(points.Point, "record", lambda self, queue: record.append(self))
            end = begin(stream, 2)
            add(array, array, array, 4)
            end()
        assert not record and gone() is array and len(point.things) == 1
        stream.synchronize()


@pytest.mark.parametrize("mode", [0, 1, 2])
def test_a_stream_is_closed_during_a_capture_of_other_software(device, begin, mode):
    with device.stream() as stream, device.allocate(16) as memory:
        other = device.stream()
        memory.fill(1, stream=other)
        end = begin(stream, mode)
        other.close()
        end()
