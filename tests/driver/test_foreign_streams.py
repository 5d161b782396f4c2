"""Stream-ordered memory that is released while work on a non-blocking stream still uses it: the work comes first."""

from __future__ import annotations

import ctypes
import gc

import pytest

from tests.subject import module, rawcuda

cuda_h, ownership, ordering = module("headers.cuda_h"), module("ownership"), module("gpu.memory.ordering")


@pytest.fixture
def foreign(device):
    """A non-blocking stream of another library, which this package does not know."""
    stream = cuda_h.CUstream()
    with device.current():
        rawcuda.cu.cuStreamCreate(ctypes.byref(stream), 1)
    yield stream
    with device.current():
        rawcuda.cu.cuStreamDestroy_v2(stream)


def settle(device, stream=None):
    """Release what was collected, and finish the work of a stream, and of the legacy default stream."""
    gc.collect()
    ownership.drain()
    if stream is not None:
        stream.synchronize()
    with device.current():
        rawcuda.cu.cuStreamSynchronize(cuda_h.CUstream(1))


@pytest.mark.filterwarnings("ignore:nothing was captured")
@pytest.mark.parametrize("collected", [False, True])
def test_memory_that_is_released_in_a_capture_of_its_stream(device, collected):
    with device.stream() as stream:
        memory, target = device.allocate(16, stream=stream), device.empty(16, "uint8")
        memory.fill(3, stream=stream)
        device.synchronize()
        target.copy_from(memory.view(), stream=stream)
        with stream.capture() as graph:
            if not collected:
                memory.close()
            del memory
            settle(device)
        stream.synchronize()
        assert target.tolist() == [3] * 16
        graph.close()


def test_memory_of_a_stream_that_was_closed_first(device):
    """It is freed when the work of the stream is done, for which the driver does not wait."""
    stream, target = device.stream(), device.empty(16, "uint8")
    memory = device.allocate(16, stream=stream)
    memory.fill(3, stream=stream)
    target.copy_from(memory.view(), stream=stream)
    stream.close()
    memory.close()
    device.synchronize()
    assert target.tolist() == [3] * 16


@pytest.mark.filterwarnings("ignore:nothing was captured")
@pytest.mark.parametrize("captured", [False, True])
@pytest.mark.parametrize("form", ["a capsule", "a lease"])
def test_memory_whose_last_export_is_dropped(device, foreign, captured, form):
    with device.stream() as stream, device.stream() as other:
        memory, target = device.allocate(16, stream=stream), device.empty(16, "uint8")
        memory.fill(3, stream=stream)
        device.synchronize()
        held = memory.view().__dlpack__(stream=foreign.value) if form == "a capsule" else memory.lease()
        with device.current():
            rawcuda.cu.cuMemcpyDtoDAsync_v2(target.ptr, memory.ptr, 16, foreign)
        if captured:
            with other.capture() as graph:
                del memory, held
                settle(device, stream)
            graph.close()
        else:
            del memory, held
            settle(device, stream)
        with device.current():
            rawcuda.cu.cuStreamSynchronize(foreign)
        assert target.tolist() == [3] * 16


@pytest.mark.parametrize("use", ["launch of a graph", "wait of the CPU"])
def test_a_stream_of_other_software_is_asked_once(device, use):
    """It may stand for a current stream, which is another one the next time."""
    asked = []

    class Current:
        def __cuda_stream__(self):
            asked.append(self)
            return 0, stream.handle

    with device.stream() as stream, device.graph() as graph, device.allocate(16) as memory:
        graph.fill(memory, 1)
        with graph.instantiate() as executable:
            if use == "launch of a graph":
                executable.launch(Current())
            else:
                ordering.finish_given(Current())
            stream.synchronize()
    assert len(asked) == 1


@pytest.mark.parametrize("after", ["it raises", "it names the legacy stream", "it names another stream"])
@pytest.mark.parametrize("use", ["host", "fill", "copy"])
def test_a_view_of_a_closed_stream_of_other_software(device, after, use):
    """A driver must not get the handle of a stream that was destroyed, perhaps while the work was pending."""
    other = device.stream()

    class Theirs:
        def __init__(self):
            self.stream = device.stream()

        def __cuda_stream__(self):
            if self.stream is not None:
                return 0, self.stream.handle
            if after == "it raises":
                raise RuntimeError("it was closed")
            return 0, 0 if after == "it names the legacy stream" else other.handle

    theirs, x, y = Theirs(), device.zeros(4, "uint32"), device.zeros(4, "uint32")
    x.fill(7, stream=theirs)
    theirs.stream.close()
    theirs.stream = None
    if use == "fill":
        x[1:].fill(7)
    elif use == "copy":
        y.copy_from(x, stream=other)
        assert y.download(stream=other).tolist() == [7] * 4
    assert x.tolist() == [7] * 4
    other.close()


OF_ANOTHER_CONTEXT = """
import ctypes, os
from tests.subject import module, rawcuda
cu, cuda_h = rawcuda.cu, module("headers.cuda_h")
device, = rawcuda.devices()
array, other = device.zeros(64, "uint8"), device.zeros(64, "uint8")
context, stream = cuda_h.CUcontext(), cuda_h.CUstream()
with device.current():
    cu.cuCtxCreate_v2(ctypes.byref(context), 0, 0)
    cu.cuStreamCreate(ctypes.byref(stream), 1)
    cu.cuCtxPopCurrent_v2(ctypes.byref(cuda_h.CUcontext()))
for given in (stream.value, rawcuda.Stream.from_handle(stream.value)):
    for use in (
        lambda: array.fill(7, stream=given),
        lambda: array.copy_from(other, stream=given),
        lambda: array.T[::2].copy_from(other[::2], stream=given),
        lambda: device.stream().wait(given),
    ):
        try:
            use()
        except ValueError as error:
            assert "belongs to another context than the primary context of a device" in str(error), error
        else:
            raise AssertionError("it was taken for a stream of the primary context")
assert array.tolist() == [0] * 64
print("right")
"""


def test_a_stream_of_another_context_is_refused_on_the_only_device(python):
    """Its work could not be waited for, so that close() freed the memory under it."""
    result = python(OF_ANOTHER_CONTEXT, env={"CUDA_VISIBLE_DEVICES": "0"})
    assert result.stdout == "right\n", result.stderr


@pytest.mark.parametrize("use", ["copy", "export", "read"])
def test_a_stream_stored_in_an_array_is_asked_without_a_lock(device, use):
    """Its method may take a lock of its library, which another thread may hold that closes one of our streams."""
    destroying, asked = module("gpu.core.handles").destroying, []
    with device.stream() as stream:

        class Current:
            def __cuda_stream__(self):
                asked.append(destroying._is_owned())
                return 0, stream.handle

        source, target = device.zeros(16, "int32"), device.zeros(16, "int32")
        pinned = device.allocate(16, kind="pinned").fill(0).view()
        device.synchronize()
        source.stream = pinned.stream = Current()
        if use == "copy":
            target.copy_from(source)
        elif use == "export":
            source.__dlpack__(stream=1)
        else:
            pinned.memoryview()
        device.synchronize()
    assert asked and not any(asked)


@pytest.mark.parametrize("how", ["end_now", "retain"])
def test_an_event_is_given_back_if_it_cannot_be_recorded(device, how, monkeypatch):
    """It was in no list any more, and lived as long as the context."""
    points, primary = module("gpu.core.points"), device._primary

    def refuse(*arguments):
        raise rawcuda.InvalidUse("the stream was destroyed", code=400)

    with device.stream() as stream:
        queue, before = stream._prepare(), len(primary.events) - len(primary.pool)
        monkeypatch.setitem(vars(primary.calls), "cuEventRecord", refuse)
        for _ in range(20):
            with pytest.raises(rawcuda.InvalidUse):
                if how == "retain":
                    points.retain(primary, stream.handle, object(), object())
                else:
                    points.end_now(primary, queue)
        monkeypatch.undo()
        assert len(primary.events) - len(primary.pool) == before
