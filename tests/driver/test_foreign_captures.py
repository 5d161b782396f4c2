"""Captures that other software begins, such as torch.cuda.graph: the driver alone knows of them."""

import ctypes
import gc
import weakref

import pytest

from tests.driver import kernels
from tests.subject import module, rawcuda

cuda_h, errors = module("headers.cuda_h"), module("errors")
points, owned = module("gpu.core.points"), module("ownership")


class Foreign:
    """An exporter of memory on a device, as another library's array is."""

    def __init__(self, array):
        self.array = array
        self.__cuda_array_interface__ = {**array.__cuda_array_interface__, "stream": None}


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
