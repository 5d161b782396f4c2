"""Calls that a driver refuses while a stream is captured: the package makes them so that no capture breaks."""

from __future__ import annotations

import asyncio
import ctypes
import threading

import pytest

from tests.driver import kernels
from tests.subject import module, rawcuda

errors = module("errors")


@pytest.fixture
def stream(device):
    with device.stream() as made:
        yield made


def in_a_thread(function):
    """Call a function in another thread, and return its result."""
    results, raised = [], []

    def call():
        try:
            results.append(function())
        except Exception as error:  # raised again here
            raised.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    if raised:
        raise raised[0]
    return results[0]


def here(function):
    return function()


@pytest.fixture(params=[here, in_a_thread])
def called(request):
    return request.param


@pytest.fixture(params=["global", "thread_local"])
def mode(request):
    return request.param


def test_a_strided_copy_loads_its_kernel_in_a_capture(device, stream, mode):
    """The shape and the element size are those of no other copy in this process, so the kernel is new."""
    x = device.empty((2, 3, 2, 3, 2, 3), "int16")
    y = device.empty((3, 2, 3, 2, 3, 2), "int16")
    x.fill(7)
    device.synchronize()
    with stream.capture(mode) as graph:
        y.copy_from(x.transpose((5, 4, 3, 2, 1, 0))[::1], stream=stream)
    graph.launch(stream)
    stream.synchronize()
    assert set(bytes(y.download().memoryview().cast("B"))) == {0, 7}
    graph.close()


def test_code_is_loaded_in_a_capture(device, stream, mode, called):
    x = device.empty(4, "int32")
    device.synchronize()
    with stream.capture(mode) as graph:
        x.fill(3, stream=stream)
        loaded = called(lambda: device.load(kernels.ADD))
        assert called(lambda: len(loaded.names))
    graph.launch(stream)
    stream.synchronize()
    assert x.tolist() == [3] * 4
    graph.close()
    loaded.close()


@pytest.mark.filterwarnings("ignore:nothing was captured")
def test_a_library_is_loaded_in_a_capture(device, stream, mode, called):
    library = rawcuda.Library(kernels.ADD)
    with stream.capture(mode) as graph:
        assert called(lambda: len(library.module(device).names))
    graph.close()
    library.close()


ALLOCATE = {
    "device": lambda device: device.allocate(64),
    "pinned": lambda device: device.allocate(64, kind="pinned"),
    "managed": lambda device: device.allocate(64, kind="managed"),
    "registered": lambda device: rawcuda.Memory.register(bytearray(4096)),
    "array": lambda device: device.array((8, 8), "float32"),
    "mipmapped": lambda device: device.mipmapped_array((8, 8), "float32", levels=2),
    "pitched": lambda device: device.empty_pitched((8, 8), "float32").owner,
}


@pytest.mark.parametrize("kind", ALLOCATE)
def test_memory_is_allocated_and_freed_in_a_capture(device, stream, mode, called, kind):
    """Allocating is refused in a capture, and breaks it, unless the capture mode is exchanged."""
    x = device.empty(4, "int32")
    device.synchronize()
    with stream.capture(mode) as graph:
        x.fill(3, stream=stream)
        called(lambda: ALLOCATE[kind](device)).close()
    graph.launch(stream)
    stream.synchronize()
    assert x.tolist() == [3] * 4
    graph.close()


def read_foreign(device, stream):
    """Read pinned memory of another library; nothing tells which device may be using it."""
    memory = device.allocate(4, kind="pinned")
    rawcuda.view(memory.__dlpack__(max_version=(1, 0))).tolist()
    memory.close()


def borrowed(stream):
    return rawcuda.Stream.from_handle(stream.handle)


WAIT = {
    "Stream.synchronize": lambda device, stream: stream.synchronize(),
    "Stream.query": lambda device, stream: stream.query(),
    "Stream.synchronize with a timeout": lambda device, stream: stream.synchronize(timeout=1),
    "synchronize of a borrowed stream": lambda device, stream: borrowed(stream).synchronize(),
    "query of a borrowed stream": lambda device, stream: borrowed(stream).query(),
    "Device.synchronize": lambda device, stream: device.synchronize(),
    "rawcuda.synchronize": lambda device, stream: rawcuda.synchronize(),
    "a read of foreign pinned memory": read_foreign,
}


@pytest.mark.parametrize("wait", WAIT)
def test_a_wait_that_would_break_the_capture_is_refused_before_the_driver_is_asked(device, stream, mode, called, wait):
    x = device.empty(4, "int32")
    device.synchronize()
    with stream.capture(mode) as graph:
        with pytest.raises(rawcuda.InvalidUse, match="end the capture, launch the graph, and wait then") as raised:
            called(lambda: WAIT[wait](device, stream))
        assert raised.value.code == 900
        x.fill(3, stream=stream)
    graph.launch(stream)
    WAIT[wait](device, stream)
    stream.synchronize()
    assert x.tolist() == [3] * 4
    graph.close()


@pytest.mark.codes("cuStreamIsCapturing returned 906")
@pytest.mark.parametrize("borrowed", [False, True])
@pytest.mark.parametrize("wait", ["synchronize", "query"])
def test_a_wait_for_the_default_stream_that_a_capture_bars_is_refused(device, mode, called, wait, borrowed):
    x = device.empty(4, "int32")
    legacy = rawcuda.Stream.from_handle(1) if borrowed else rawcuda.Stream.legacy
    device.synchronize()

    def waited():
        with device.current():
            getattr(legacy, wait)()

    with device.stream(nonblocking=False) as stream:
        with stream.capture(mode) as graph:
            with pytest.raises(rawcuda.InvalidUse, match="end the capture, launch the graph, and wait then") as raised:
                called(waited)
            assert raised.value.code == 906
            x.fill(3, stream=stream)
        graph.launch(stream)
        called(waited)
        stream.synchronize()
    assert x.tolist() == [3] * 4
    graph.close()


@pytest.mark.filterwarnings("ignore:nothing was captured")
def test_events_are_queried_and_waited_for_in_a_capture(device, stream, mode, called):
    event, other = device.event(), device.stream()
    event.record(other)

    async def awaited():
        await event

    with stream.capture(mode) as graph:
        called(event.query)
        called(lambda: asyncio.run(awaited()))
        called(lambda: event.synchronize(timeout=10))
        called(event.synchronize)
        assert called(event.query)
    graph.close()
    event.close()
    other.close()


def capture_mode():
    """Return this thread's capture mode."""
    now = ctypes.c_uint(0)
    rawcuda.cu.cuThreadExchangeStreamCaptureMode(ctypes.byref(now))
    before = now.value
    rawcuda.cu.cuThreadExchangeStreamCaptureMode(ctypes.byref(now))
    return before


def test_the_capture_mode_is_as_before(device):
    event = device.event()
    event.query()
    event.synchronize()
    with pytest.raises(errors.CudaError):
        device.load(".version 6.3\n.target sm_50\n.address_size 64\nnonsense")
    assert capture_mode() == 0
    event.close()
