"""Objects of two devices in one call; what graphs, listeners and the end of the interpreter do with owned objects."""

from __future__ import annotations

import array
import ctypes
import gc
import time
import weakref

import pytest

from tests.driver import kernels
from tests.subject import NAME, module, rawcuda

cuda_h = module("headers.cuda_h")


@pytest.fixture
def other(device):
    if len(rawcuda.devices()) < 2:
        pytest.skip("one device only")
    with rawcuda.Device(1 - device.ordinal) as made:
        yield made


@pytest.mark.parametrize("when", ["now", "after a capture"])
def test_a_library_waits_for_the_work_of_each_of_its_devices_before_it_is_unloaded(device, other, when):
    """No documentation says that the driver does. A capture forbids the wait."""
    library, calls = rawcuda.Library(kernels.ADD), []
    library.module(device), library.module(other)
    with rawcuda.trace(lambda event: calls.append(getattr(event, "name", ""))):
        if when == "now":
            library.close()
        else:
            x = device.empty(4, "uint32")
            with device.stream() as stream, stream.capture():
                x.fill(1, stream=stream)
                library.close()
                assert library.closed and "cuLibraryUnload" not in calls
                calls.clear()
            module("ownership").drain()
    assert calls[: calls.index("cuLibraryUnload")].count("cuCtxSynchronize") == 2, calls


@pytest.mark.parametrize("view", [lambda v: v, lambda v: v[::-3], lambda v: v.reshape(32, 32)[:, ::4]])
def test_a_captured_fill_on_a_stream_of_another_device_names_the_remedy(device, other, view):
    """The number of its calls is not the reason. A stream of the other device takes part, and fills."""
    if not device.can_reach(other):
        pytest.skip("these devices do not reach each other")
    device.enable_peer_access(other)
    x = other.empty(1024, "uint32").fill(0)
    with device.stream() as stream, other.stream() as theirs, stream.capture() as graph:
        with pytest.raises(rawcuda.InvalidUse, match=f"give a stream of device {other.ordinal} that waits"):
            view(x).fill(7, stream=stream)
        theirs.wait(stream)
        x[:3].fill(7, stream=theirs)
        stream.wait(theirs)
    with device.stream() as stream:
        graph.launch(stream)
        stream.synchronize()
    graph.close()
    device.disable_peer_access(other)
    assert x[:4].tolist() == [7, 7, 7, 0]


def ordinal_of(address):
    value = ctypes.c_int(-1)
    which = rawcuda.cu.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
    with rawcuda.Device(0).current():
        rawcuda.cu.cuPointerGetAttribute(ctypes.byref(value), which, address)
    return value.value


@pytest.mark.parametrize("stream", [1, 2, "legacy", "per_thread"])
@pytest.mark.parametrize("call", ["copy", "fill", "batch", "wait for an event", "wait for a stream"])
def test_a_capture_of_another_stream_does_not_disturb_default_streams(device, other, call, stream):
    """No device is current; the capture may be that of another thread."""
    default = getattr(rawcuda.Stream, stream) if isinstance(stream, str) else stream
    source, target = array.array("i", [1, 2]), array.array("i", [0, 0])
    x = device.empty(4, "uint32")
    with device.stream() as captured, other.stream() as third, captured.capture() as graph:
        x.fill(1, stream=captured)
        if call == "copy":
            rawcuda.copy(target, source, stream=default)
        elif call == "fill":
            rawcuda.view(target).fill(5, stream=default)
        elif call == "batch":
            rawcuda.copy_batch([(target, source)], stream=default)
        else:
            waits = rawcuda.Stream.from_handle(default) if isinstance(default, int) else default
            waits.wait(third.record() if call == "wait for an event" else third)
    graph.close()
    expected = {"copy": [1, 2], "batch": [1, 2], "fill": [5, 5]}
    assert list(target) == expected.get(call, [0, 0])


@pytest.mark.parametrize("form", [lambda s: s, lambda s: s.handle, rawcuda.Stream.from_handle])
def test_memory_is_on_its_device_whichever_device_the_stream_is_of(device, other, form):
    with other.stream() as stream:
        for given in (form(stream), None):
            made = device.upload(bytes(range(64)), stream=given)
            stream.synchronize()
            device.synchronize()
            assert ordinal_of(made.ptr) == device.ordinal and made.tolist() == list(range(64))
        with device.allocate(64, stream=form(stream)) as memory:
            assert memory.device is device and ordinal_of(memory.ptr) == device.ordinal
            stream.synchronize()
            memory.fill(3)
            assert memory.view("uint8").tolist() == [3] * 64
        stream.synchronize()


def test_a_closed_stream_of_an_unknown_context_is_refused(device, other):
    made, source = device.empty(64, "uint8"), device.upload(bytes(64))
    with other.stream() as stream:
        closed = rawcuda.Stream.from_handle(stream.handle)
        closed.close()
        for use in (lambda: made.copy_from(source, stream=closed), lambda: made.copy_from(source[::-1], stream=closed)):
            with pytest.raises(rawcuda.Closed):
                use()


@pytest.mark.parametrize("where", ["the same device", "another"])
def test_memory_of_a_stream_of_another_context(device, other, where):
    theirs, stream = cuda_h.CUcontext(), cuda_h.CUstream()
    rawcuda.cu.cuCtxCreate_v2(ctypes.byref(theirs), 0, (device if where == "the same device" else other).ordinal)
    try:
        rawcuda.cu.cuStreamCreate(ctypes.byref(stream), 1)
        with device.allocate(64, stream=stream.value) as memory:
            assert ordinal_of(memory.ptr) == device.ordinal
        rawcuda.cu.cuStreamSynchronize(stream)
    finally:
        rawcuda.cu.cuCtxDestroy_v2(theirs)


def test_times_of_two_devices_are_not_compared(device, other):
    with device.event(timing=True) as first, other.event(timing=True) as second:
        first.record(device.stream()), second.record(other.stream())
        device.synchronize(), other.synchronize()
        with pytest.raises(ValueError, match="of two devices, whose clocks are not compared: make both on one"):
            second.elapsed_ms(first)


@pytest.mark.parametrize("how", ["record", "wait"])
def test_a_graph_keeps_the_external_events_of_its_capture(device, how):
    event = device.event()
    gone = weakref.ref(event)
    with device.stream() as stream:
        event.record(stream)
        with stream.capture() as graph:
            if how == "record":
                event.record(stream, external=True)
            else:
                stream.wait(event, external=True)
        del event
        gc.collect()
        assert gone() is not None
        graph.launch(stream)
        stream.synchronize()
        graph.close()
        del graph
        gc.collect()
        device.synchronize()
    assert gone() is None


def test_a_listener_that_drops_something_in_each_release_does_not_hold_the_call_for_ever(device):
    seen = []

    def listener(event):
        if event.name == "cuMemFree_v2":
            seen.append(event)
            device.allocate(8)  # collected at once, and released by the next call

    with rawcuda.trace(listener):
        device.allocate(8)
        device.allocate(8).close()
    assert 0 < len(seen) < 1000
    device.allocate(8).close()


KINDS = """
    import builtins, sys
    import {name} as rawcuda

    class Closing:
        def __del__(self):
            for name, thing in self.things.items():
                try:
                    thing.close()
                except BaseException as error:
                    print(name, repr(error), flush=True)
            print("closed", len(self.things), flush=True)

    device = rawcuda.Device(0)
    stream, pool, graph = device.stream(), device.memory_pool(), device.graph()
    graph.fill(device.empty(3, "uint32"), 1)
    kept = builtins.kept = Closing()
    kept.things = dict(
        memory=device.allocate(9), ordered=device.allocate(9, stream=stream), pooled=pool.allocate(9, stream=stream),
        pinned=device.allocate(9, kind="pinned"), managed=device.allocate(9, kind="managed"), event=device.event(),
        executable=graph.instantiate(), graph=graph, array=device.array((2, 2), "float32"), pool=pool,
        module=device.load({text!r}), registered=rawcuda.Memory.register(bytearray(100)), stream=stream,
        virtual=device.virtual_memory(1), mipmapped=device.mipmapped_array((4, 4), "float32"),
        library=rawcuda.Library({text!r}),
    )
    kept.cycle = kept
"""


def test_close_raises_nothing_while_the_interpreter_ends(python):
    text = kernels.ADD if isinstance(kernels.ADD, str) else kernels.ADD.decode()
    result = python(KINDS.format(name=NAME, text=text), env={"RAWCUDA_DRIVER": "emulator"})
    assert result.returncode == 0 and result.stdout.split() == ["closed", "16"], result.stdout + result.stderr


def test_an_interrupted_copy_on_another_device_waits_during_a_capture(device, other, monkeypatch):
    """Nothing keeps the memory yet, and the close() of the memory waits for its own device only."""

    def interrupted(*arguments):
        raise KeyboardInterrupt

    source, target, fills = device.zeros(64, "uint8").fill(5), device.zeros(64, "uint8"), device.zeros(4, "int32")
    device.synchronize()
    with other.stream() as stream, device.stream() as captured:
        monkeypatch.setattr(module("gpu.copies.device_copy"), "keep", interrupted)
        with captured.capture("relaxed") as graph:
            fills.fill(1, stream=captured)
            with pytest.raises(KeyboardInterrupt):
                target.reshape(8, 8)[::2].copy_from(source.reshape(8, 8)[::2], stream=stream)
            assert stream.query()
        assert len(graph.nodes) == 1
        graph.close()


def test_an_interrupt_in_a_copy_on_a_captured_stream_leaves_the_capture_valid(device, monkeypatch):
    """What an interrupted operation uses is kept as long as the graph, and is not waited for."""

    def interrupted(*arguments):
        raise KeyboardInterrupt

    class Theirs:
        def __init__(self, array):
            self.array, self.__cuda_array_interface__ = array, array.__cuda_array_interface__

    theirs = Theirs(device.zeros(64, "uint8").fill(5))
    kept, target = weakref.ref(theirs), device.zeros(64, "uint8")
    device.synchronize()
    with device.stream() as stream:
        with stream.capture() as graph:
            monkeypatch.setattr(module("gpu.copies.device_copy"), "keep", interrupted)
            with pytest.raises(KeyboardInterrupt):
                target.reshape(8, 8)[::2].copy_from(rawcuda.view(theirs).reshape(8, 8)[::2], stream=stream)
            monkeypatch.undo()
        del theirs
        gc.collect()
        assert kept() is not None
        graph.launch(stream)
        stream.synchronize()
        assert target.tolist() == ([5] * 8 + [0] * 8) * 4
        graph.close()
    del graph


@pytest.mark.parametrize("where", ["_launch", "record_and_wait"])
def test_an_interrupted_copy_waits_for_its_kernel_on_another_device(device, other, monkeypatch, where):
    """The kernel that copies runs on a stream aside, for which the given stream does not wait yet."""
    copies, heard, calls = module("gpu.copies.strided_kernel"), [], []
    original = getattr(copies, where)

    def interrupted(*arguments):
        calls.append(arguments)
        if where == "_launch" or len(calls) == 1:
            original(*arguments)
        if where == "_launch" or len(calls) == 2:
            raise KeyboardInterrupt

    source, target = device.zeros((8, 8), "int32").fill(5), device.zeros((8, 8), "int32")
    device.synchronize()
    with other.stream() as stream:
        rawcuda.copy(target.T, source, stream=stream)
        monkeypatch.setattr(copies, where, interrupted)
        with rawcuda.trace(heard), pytest.raises(KeyboardInterrupt):
            rawcuda.copy(target.T, source, stream=stream)
        made = [event for event in heard if hasattr(event, "name")]
        after = made[max(at for at, event in enumerate(made) if event.name.startswith("cuLaunchKernel")) :]
        waits = [event.arguments["hStream"] for event in after if event.name == "cuStreamSynchronize"]
        ours = f"{stream.handle:#x}", str(stream.handle)  # a handle of 4 bytes is told as a number
        assert [any(form in each for form in ours) for each in waits] == [False, True]


def test_synchronize_waits_for_every_device_also_after_an_error_of_one(device, other):
    for first, second in ((device, other), (other, device)):
        seen, target = [], first.zeros(4, "int32")
        with first.stream() as captured, second.stream() as stream:
            with captured.capture() as graph:
                target.fill(1, stream=captured)
                stream.call(time.sleep, 0.2)
                stream.call(seen.append, 1)
                with pytest.raises(rawcuda.InvalidUse, match="captur"):
                    rawcuda.synchronize()
                assert seen == [1]
            graph.close()
