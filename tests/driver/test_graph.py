"""Graphs: work that is captured once and launched many times."""

import array
import contextlib
import ctypes
import gc
import threading
import time
import weakref

import pytest

from tests.driver import kernels
from tests.subject import module, rawcuda

errors = module("errors")


def test_record_and_launch(device):
    n = 100
    with device.load(kernels.ADD) as loaded, device.stream() as stream:
        total, one = device.upload(array.array("f", [0.0] * n)), device.upload(array.array("f", [1.0] * n))
        add = loaded["add"].configure(grid=1, block=128, stream=stream)
        with stream.capture() as graph:
            add(total, one, total, n)
            add(total, one, total, n)
        assert total.tolist() == [0.0] * n  # nothing ran yet
        for _ in range(3):
            graph.launch(stream)
        stream.synchronize()
        assert total.tolist() == [6.0] * n
        graph.close()
        graph.close()
        with pytest.raises(errors.Closed):
            graph.launch(stream)


def test_what_was_viewed_on_the_fly_lives_as_long_as_the_graph(device):
    class Exporter:
        alive = 0

        def __init__(self):
            self.memory = device.allocate(400)
            self.__cuda_array_interface__ = {
                "shape": (100,),
                "typestr": "<f4",
                "data": (self.memory.ptr, False),
                "version": 3,
            }
            Exporter.alive += 1

        def __del__(self):
            Exporter.alive -= 1

    with device.load(kernels.ADD) as loaded, device.stream() as stream:
        out = device.empty(100, "float32")
        add = loaded["add"].configure(grid=1, block=128, stream=stream)
        exporter = Exporter()  # (allocating is not allowed while recording)
        with stream.capture() as graph:
            add(exporter, out, out, 100)
        del exporter
        assert Exporter.alive == 1
        graph.launch(stream)
        graph.launch()
        graph.close()  # both launches may still run
        del graph
        device.synchronize()
        assert Exporter.alive == 0


def test_an_error_in_the_block_ends_the_recording(device):
    with device.stream() as stream:
        with pytest.raises(KeyError):
            with stream.capture() as graph:
                raise KeyError
        with pytest.raises(errors.Closed):
            graph.launch(stream)
        stream.synchronize()  # no longer captured
        with pytest.raises(ValueError, match="captures only once"):
            with graph:
                pass


def test_a_capture_of_nothing_warns(device):
    """Most often the work was not given the stream, so that it has run at once, and the graph is empty."""
    x, y = device.zeros(1, "float32"), device.zeros(1, "float32")
    with device.stream() as stream:
        with pytest.warns(
            RuntimeWarning, match=r"nothing was captured: .* as in launch\(\.\.\., stream=\.\.\.\)"
        ) as told:
            with stream.capture() as graph:
                x.fill(2)
        assert told[0].filename == __file__ and graph.nodes == [] and x.tolist() == [2]
        with device.graph() as graph:
            for _ in range(2):
                with pytest.warns(RuntimeWarning, match="nothing was captured"):
                    with stream.capture(into=graph):
                        x.fill(3)
                with stream.capture(into=graph):
                    y.fill(4, stream=stream)
            assert len(graph.nodes) == 2
        with pytest.raises(KeyError), stream.capture():
            raise KeyError  # which matters more


@pytest.mark.filterwarnings("ignore:nothing was captured")
def test_a_stream_that_is_closed_in_the_block(device):
    stream = device.stream()
    with pytest.raises(errors.Closed):
        with stream.capture() as graph:
            stream.close()
    with pytest.raises(errors.Closed):
        graph.launch()
    with device.stream() as other, other.capture() as graph:  # and nothing is left of it
        pass
    graph.launch()
    graph.close()


@pytest.mark.filterwarnings("ignore:nothing was captured")
def test_blocks_without_with(device):
    with device.stream() as stream, contextlib.ExitStack() as stack:
        graph = stack.enter_context(stream.capture())
        stack.close()
        graph.launch(stream)
        graph.close()
        graph = stream.capture()
        graph.__enter__()
        graph.__exit__(None, None, None)
        graph.launch(stream)
        graph.close()


def test_a_graph_runs_when_a_thread_without_a_context_calls_the_driver(device):
    """The emulator runs pending work in any call."""
    with device.stream() as stream, device.graph() as graph:
        memory, gate, address = device.allocate(16).fill(0), threading.Event(), ctypes.c_uint64()
        device.synchronize()
        graph.fill(memory, 7)
        stream.call(gate.wait, 60)
        stream.call(time.sleep, 0.05)
        graph.launch(stream)
        gate.set()

        def call():
            for _ in range(20):
                rawcuda.cu.cuMemAddressReserve(ctypes.byref(address), 1 << 21, 0, 0, 0)
                rawcuda.cu.cuMemAddressFree(address.value, 1 << 21)
                time.sleep(0.01)

        thread = threading.Thread(target=call)
        thread.start()
        thread.join(60)
        device.synchronize()
        assert memory.view("uint8").tolist() == [7] * 16


@pytest.mark.filterwarnings("ignore:nothing was captured")
def test_a_stream_that_is_captured_already_stays_captured(device):
    with device.stream() as stream:
        with stream.capture() as graph:
            with pytest.raises(errors.CudaError):
                with stream.capture():
                    pass
        graph.launch(stream)  # the outer block has ended its own capture
        graph.close()


def test_what_waits_cannot_be_recorded(device):
    with device.stream() as stream, device.allocate(8) as memory:
        with pytest.raises(errors.InvalidUse):
            with stream.capture():
                memory.copy_to(bytearray(8), stream=stream)
        stream.synchronize()
        memory.copy_to(bytearray(8), stream=stream)


def test_streams_and_modes_that_cannot(device):
    with pytest.raises(ValueError, match="cannot be captured"):
        rawcuda.Stream.legacy.capture()
    with device.stream() as stream:
        with pytest.raises(ValueError, match="'global', 'thread_local', 'relaxed'"):
            stream.capture("local")
    with pytest.raises(errors.Closed):
        stream.capture()


@pytest.mark.parametrize("into", [False, True])
def test_a_graph_keeps_the_module_of_a_captured_launch(device, into):
    """The launch may have been checked before, and the module may be collected, or closed."""
    graph, calls = device.graph(), []
    with device.stream() as stream, device.allocate(16) as memory:
        memory.copy_from(array.array("f", [1.0] * 4))
        module = device.load(kernels.ADD)
        launch = module["add"].configure(grid=1, block=4, stream=stream)
        launch(memory, memory, memory, 4)
        stream.synchronize()
        if into:
            with stream.capture(into=graph):
                launch(memory, memory, memory, 4)
        else:
            graph.close()
            with stream.capture() as graph:
                launch(memory, memory, memory, 4)
        gone = weakref.ref(module)
        del module, launch
        gc.collect()
        graph.launch(stream)
        stream.synchronize()
        assert memory.view("float32").tolist() == [4.0] * 4
        gone().close()
        with rawcuda.trace(lambda event: calls.append(getattr(event, "name", ""))):
            with pytest.raises(errors.Closed, match="a node of this graph uses"):
                graph.launch(stream)
        assert "cuGraphLaunch" not in calls
    graph.close()
    rawcuda.synchronize()  # launches do not keep it any more
    gc.collect()
    assert gone() is None


def test_a_launch_keeps_an_exporter_that_is_a_tuple(device):
    """Not only what is in it."""

    class Array(tuple):
        pass

    with device.stream() as stream, device.allocate(16) as memory, device.allocate(16) as target:
        memory.fill(0)
        device.synchronize()
        exporter = Array()
        exporter.__cuda_array_interface__ = {**memory.view().__cuda_array_interface__, "stream": None}
        with stream.capture() as graph:
            target.view().copy_from(exporter, stream=stream)
        made = graph.instantiate()
        assert any([each is exporter for each in made._keeping])
        made.close(), graph.close()


@pytest.mark.parametrize("how", ["its end", "an exception"])
def test_a_capture_whose_end_lacks_memory_is_ended_later(device, monkeypatch, how):
    calls = device._primary.calls

    def refused(*_):
        monkeypatch.undo()
        raise rawcuda.OutOfMemory("short", code=2)

    with device.allocate(64) as memory, device.stream() as stream:
        monkeypatch.setattr(calls, "cuStreamEndCapture", refused)
        with pytest.raises(rawcuda.OutOfMemory if how == "its end" else KeyError) as kept:
            with stream.capture():
                memory.fill(1, stream=stream)
                if how == "an exception":
                    raise KeyError
        with stream.capture() as graph:
            memory.fill(2, stream=stream)
        graph.launch(stream)
        assert memory.view()[0].tolist() == 2 and kept.value is not None
        graph.close()
