"""Captures beside other work: what a view's stream still does, releases in other threads, and memory freed late."""

from __future__ import annotations

import array
import ctypes
import gc
import sys
import threading
import weakref

import pytest

from tests.subject import module, rawcuda

from . import kernels

errors, owned = module("errors"), module("ownership")


@pytest.fixture
def streams(device):
    with device.stream() as first, device.stream() as second:
        yield first, second


def calls(heard):
    return [call.name for call in heard if hasattr(call, "name")]


# -- what a view's stream still does


@pytest.mark.parametrize("closed", [False, True])
@pytest.mark.parametrize("waited", [False, True])
def test_a_view_of_another_stream_in_a_capture(device, streams, closed, waited):
    """A graph cannot wait for work outside of it, so the CPU waits before the work is captured."""
    x, y, (stream, _) = device.empty(4, "float32"), device.empty(4, "float32"), streams
    other = device.stream()
    x.fill(1, stream=other)
    if waited:
        other.synchronize()
    if closed:
        other.close()
    with stream.capture() as graph:
        y.copy_from(x, stream=stream)
        x.fill(2, stream=stream)
    assert x.tolist() == [1] * 4
    graph.launch(stream)
    stream.synchronize()
    assert x.tolist() == [2] * 4 and y.tolist() == [1] * 4
    graph.close()
    other.close()


@pytest.mark.codes("cuStreamIsCapturing returned 906")
@pytest.mark.parametrize("use", ["copy", "node"])
def test_work_of_the_default_stream_before_a_capture_that_bars_it(device, streams, use):
    """While a blocking stream is captured, no other stream can wait for the default stream; the CPU can."""
    x, y, z = (device.full(4, 0, "float32") for _ in range(3))
    other, ones = streams[0], device.full(4, 1, "float32")
    device.synchronize()
    with device.stream(nonblocking=False) as stream, device.graph() as nodes:
        x.copy_from(ones)
        with stream.capture() as graph:
            if use == "copy":
                y.copy_from(x, stream=other)
            else:
                nodes.copy(y, x)
                nodes.launch(other)
            z.fill(1, stream=stream)
            other.synchronize()
        graph.close()
    assert y.tolist() == [1] * 4


@pytest.mark.codes("cuStreamIsCapturing returned 906")
@pytest.mark.parametrize("written", ["default stream", "captured stream"])
def test_what_came_before_a_capture_is_known_as_soon_as_it_has_begun(device, streams, written, monkeypatch):
    """Another thread may use the array before this one has learned the number of its capture."""
    x, y, ones = (device.full(4, value, "float32") for value in (0, 0, 1))
    other, flag = device.empty(4, "float32"), device.allocate(4, kind="pinned").view("uint32")
    flag.fill(0)
    device.synchronize()
    word = flag.memoryview()
    recording = module("gpu.graphs.recording")
    number = recording.capture_number

    def use():
        y.copy_from(x, stream=streams[0])
        streams[0].synchronize()

    def late(*given):
        thread = threading.Thread(target=use)
        thread.start()
        thread.join(0.3)  # it waits for the flag
        word[0] = 1
        thread.join(10)
        assert not thread.is_alive()
        return number(*given)

    with device.stream(nonblocking=written == "captured stream") as stream:
        queue = stream if written == "captured stream" else rawcuda.Stream.legacy
        with device.current():
            queue.wait_value(flag[0], 1)
        x.copy_from(ones, stream=queue)
        with monkeypatch.context() as patch:
            patch.setattr(recording, "capture_number", late)
            with stream.capture() as graph:
                patch.undo()
                other.fill(1, stream=stream)
        graph.close()
    assert y.tolist() == [1] * 4


@pytest.mark.codes("cuStreamIsCapturing returned 906")
@pytest.mark.parametrize("written", ["default stream", "captured stream"])
def test_what_is_queued_while_a_capture_is_about_to_begin_comes_before_it(device, streams, written, monkeypatch):
    """A capture begins after waits of other threads for the device, and still others queue work until then."""
    x, y, z = (device.zeros(4, "uint32") for _ in range(3))
    device.synchronize()
    with device.stream(nonblocking=written == "captured stream") as stream:
        queue = stream if written == "captured stream" else rawcuda.Stream.legacy
        monkeypatch.setattr(module("gpu.graphs.recording"), "_let_waits_end", lambda: x.fill(7, stream=queue))
        with stream.capture() as graph:
            z.fill(3, stream=stream)
            y.copy_from(x, stream=streams[0])
            streams[0].synchronize()
        graph.close()
    assert y.tolist() == [7] * 4


@pytest.mark.parametrize("what", ["copy", "copy of a part", "fill"])
@pytest.mark.parametrize("as_number", [False, True])
def test_work_on_host_memory_is_refused_in_a_capture(device, streams, what, as_number):
    """It is done at once, so the graph would not contain it."""
    x, a, b = device.empty(4, "float32"), array.array("f", [1] * 8), array.array("f", [2] * 8)
    target, source, stream = rawcuda.view(a), rawcuda.view(b), streams[0]
    given = stream.handle if as_number else stream
    work = {
        "copy": lambda: target.copy_from(source, stream=given),
        "copy of a part": lambda: target[::2].copy_from(source[::2], stream=given),
        "fill": lambda: target.fill(3, stream=given),
    }[what]
    with stream.capture() as graph:
        x.fill(1, stream=stream)
        x[:0].fill(2, stream=given)  # nothing is done
        target[:0].copy_from(source[:0], stream=given)
        with pytest.raises(errors.InvalidUse, match="being captured, and work on pageable host memory is done at once"):
            work()
    assert a.tolist() == [1] * 8 and len(graph.nodes) == 1
    graph.close()
    work()
    assert a.tolist() != [1] * 8


class Theirs:
    """Page-locked memory of another library."""

    def __init__(self, memory):
        shape = (memory.nbytes // 4,)
        self.__cuda_array_interface__ = {"version": 3, "shape": shape, "typestr": "<u4", "data": (memory.ptr, False)}


THEIRS = {
    "copy": lambda there, stream: there.copy_from(array.array("I", [7] * 8), stream=stream),
    "copy of a part": lambda there, stream: there[::2].copy_from(array.array("I", [7] * 4), stream=stream),
    "copy of its parts": lambda there, stream: there[:4].copy_from(there[4:], stream=stream),
    "fill": lambda there, stream: there.fill(7, stream=stream),
}


@pytest.mark.parametrize("what", THEIRS)
@pytest.mark.parametrize("viewed", ["plainly", "without order", "after a closed stream"])
def test_page_locked_memory_of_others_in_a_capture(device, streams, what, viewed):
    """The CPU works on it at once, whatever is known of the work that came before."""
    x, ones, stream = device.empty(8, "uint32"), device.full(8, 1, "uint32"), streams[0]
    with device.allocate(32, kind="pinned") as memory:
        there = rawcuda.view(Theirs(memory), stream=-1 if viewed == "without order" else None)
        memory.fill(0)
        device.synchronize()
        if viewed == "after a closed stream":
            with device.stream() as closed:
                there.copy_from(ones, stream=closed)
        with stream.capture() as graph:
            x.fill(1, stream=stream)
            with pytest.raises(errors.InvalidUse, match="being captured, and the CPU copies and fills page-locked"):
                THEIRS[what](there, stream)
        assert len(graph.nodes) == 1 and 7 not in memory.view("uint32").tolist()
        graph.close()


@pytest.mark.parametrize("what", THEIRS)
@pytest.mark.parametrize("given", ["stream", "number", "default"])
def test_page_locked_memory_of_others_in_order(device, streams, what, given):
    """Two views without order: only the stream that is given tells what comes first."""
    source, flag = (
        device.upload(array.array("I", [9] * 4 + [7] * 4)),
        device.allocate(4, kind="pinned").view("uint32").fill(0),
    )
    use = {"stream": streams[0], "number": streams[0].handle, "default": None}[given]
    with device.allocate(32, kind="pinned") as memory:
        memory.fill(0)
        device.synchronize()
        word = flag.memoryview()
        first, second = (rawcuda.view(Theirs(memory), stream=-1) for _ in range(2))
        with device.current():
            (use if given == "stream" else rawcuda.Stream.from_handle(use or 1)).wait_value(flag[0], 1)
        first.copy_from(source, stream=use)
        timer = threading.Timer(0.1, word.__setitem__, (0, 1))
        timer.start()
        THEIRS[what](second, use)
        assert memory.view("uint32")[:4].tolist()[::2] == [7, 7]
        device.synchronize()
        timer.join()
        assert memory.view("uint32")[:4].tolist()[::2] == [7, 7]


def test_page_locked_memory_of_others_takes_no_stream_that_is_none(device):
    with device.allocate(32, kind="pinned") as memory:
        there, closed = rawcuda.view(Theirs(memory)), device.stream()
        closed.close()
        for what in THEIRS.values():
            for wrong, error in ((-1, ValueError), ("s", TypeError), (closed, errors.Closed)):
                with pytest.raises(error):
                    what(there, wrong)


JOINING = {
    "own": lambda stream: stream,
    "borrowed": lambda stream: rawcuda.Stream.from_handle(stream.handle),
    "per-thread": lambda stream: rawcuda.Stream.per_thread,
}


@pytest.mark.codes("cuStreamIsCapturing returned 906")
@pytest.mark.parametrize("whose", JOINING)
@pytest.mark.parametrize("where", ["inside", "outside", "host"])
def test_what_a_stream_had_to_do_before_it_joined_a_capture_is_waited_for(device, streams, where, whose):
    x, y = device.allocate(16, kind="pinned").view("uint32").fill(1), device.zeros(4, "uint32")
    flag, ones = device.allocate(4, kind="pinned").view("uint32").fill(0), device.full(4, 41, "uint32")
    other, z, stream, joining = device.stream(), device.empty(4, "uint32"), streams[0], JOINING[whose](streams[1])
    device.synchronize()
    timer = threading.Timer(0.2, flag.memoryview().__setitem__, (0, 1))
    with device.current():
        joining.wait_value(flag[0], 1)
    x.copy_from(ones, stream=joining)
    timer.start()
    with device.current(), stream.capture("relaxed") as graph:
        z.fill(0, stream=stream)
        joining.wait(stream)
        z.fill(1, stream=joining)
        if where == "host":
            assert x.memoryview().tolist() == [41] * 4
        else:
            y.copy_from(x, stream=stream if where == "inside" else other)
        stream.wait(joining)
    graph.launch(other)
    other.synchronize()
    timer.join()
    assert where == "host" or y.tolist() == [41] * 4
    graph.close()
    other.close()


@pytest.mark.codes("cuStreamIsCapturing returned 906")
@pytest.mark.parametrize("how", ["two captures", "a stream that joins"])
def test_what_bars_the_default_stream_later_knows_its_work(device, streams, how):
    x, y, ones = (device.full(4, value, "float32") for value in (0, 0, 1))
    z, other = device.empty(4, "float32"), streams[1]
    flag = device.allocate(4, kind="pinned").view("uint32").fill(0)
    device.synchronize()
    timer = threading.Timer(0.2, flag.memoryview().__setitem__, (0, 1))
    with device.stream(nonblocking=False) as first, device.stream(nonblocking=False) as second:
        with device.current():
            rawcuda.Stream.legacy.wait_value(flag[0], 1)
        x.copy_from(ones)
        timer.start()
        if how == "two captures":
            with first.capture("relaxed") as graph:
                z.fill(1, stream=first)
                later = second.capture("relaxed").__enter__()
                z.fill(2, stream=second)
            y.copy_from(x, stream=other)
            later.__exit__(None, None, None)
            later.close()
        else:
            with streams[0].capture("relaxed") as graph:
                z.fill(1, stream=streams[0])
                second.wait(streams[0])
                y.copy_from(x, stream=other)
                streams[0].wait(second)
        other.synchronize()
        timer.join()
        graph.close()
    assert y.tolist() == [1] * 4


@pytest.mark.codes("cuStreamIsCapturing returned 906")
def test_each_device_knows_what_its_default_stream_had_to_do(device):
    """A stream of another device joins the capture, and both bar the default streams of their devices."""
    if len(rawcuda.devices()) < 2:
        pytest.skip("there is only one device")
    homes = device, rawcuda.Device(1)
    first, second = (home.stream(nonblocking=False) for home in homes)
    x, y, ones = ([home.full(4, value, "float32") for home in homes] for value in (0, 0, 1))
    z = device.empty(4, "float32")
    flag = device.allocate(4, kind="pinned").view("uint32").fill(0)
    rawcuda.synchronize()
    timer = threading.Timer(0.2, flag.memoryview().__setitem__, (0, 1))
    with device.current():
        rawcuda.Stream.legacy.wait_value(flag[0], 1)  # that of the other device has less to do
    for made, one in zip(x, ones):
        made.copy_from(one)
    timer.start()
    others = [home.stream() for home in homes]
    with first.capture("relaxed") as graph:
        z.fill(1, stream=first)
        second.wait(first)
        for made, result, other in zip(x, y, others):
            result.copy_from(made, stream=other)
        first.wait(second)
    for other in others:
        other.synchronize()
    timer.join()
    graph.close()
    assert [made.tolist() for made in y] == [[1] * 4] * 2


@pytest.mark.parametrize("how", ["a stream", "an event", "a borrowed stream"])
def test_a_wait_for_a_device_whose_stream_has_joined_a_capture_is_refused(device, streams, how):
    """The driver would refuse it, too, and end the capture."""
    if len(rawcuda.devices()) < 2:
        pytest.skip("there is only one device")
    stream, home = streams[0], rawcuda.Device(1)
    x, y = device.zeros(4, "uint32"), home.zeros(4, "uint32")
    memory = home.virtual_memory(1)
    rawcuda.synchronize()
    with home.stream() as joined:
        with stream.capture() as graph:
            x.fill(3, stream=stream)
            waiting = rawcuda.Stream.from_handle(joined.handle) if how == "a borrowed stream" else joined
            waiting.wait(stream.record() if how == "an event" else stream)
            y.fill(4, stream=joined)
            for wait in (device.synchronize, home.synchronize, rawcuda.synchronize, lambda: memory.shrink(0)):
                with pytest.raises(errors.InvalidUse, match="of this device is being captured, so a wait would break"):
                    wait()
            stream.wait(joined)
        home.synchronize()  # it is refused no more
        graph.launch(stream)
        stream.synchronize()
        graph.close()
        assert x.tolist() == [3] * 4 and y.tolist() == [4] * 4
    memory.close()


@pytest.mark.parametrize("kind", ["pinned", "managed"])
@pytest.mark.parametrize("how", ["memoryview", "__array_interface__", "tolist"])
def test_the_host_reads_in_a_capture_what_was_copied_before(device, streams, kind, how):
    source, other = device.full(4, 41, "uint32"), device.zeros(4, "uint32")
    with device.allocate(16, kind=kind) as memory:
        made, stream = memory.view("uint32").fill(1), streams[0]
        device.synchronize()
        made.copy_from(source, stream=stream)
        with stream.capture() as graph:
            other.fill(3, stream=stream)
            if how == "__array_interface__":
                found = list((ctypes.c_uint32 * 4).from_address(made.__array_interface__["data"][0]))
            else:
                found = getattr(made, how)()
                found = found.tolist() if how == "memoryview" else found
        graph.close()
        assert found == [41] * 4


def test_memory_of_a_closed_stream_in_a_capture(device, streams):
    other, (stream, _) = device.stream(), streams
    memory = device.allocate(4, stream=other)
    memory.fill(1, stream=other)
    other.close()
    with stream.capture() as graph:
        memory.fill(2, stream=stream)
    graph.launch(stream)
    stream.synchronize()
    assert memory.view().tolist() == [2] * 4
    graph.close()
    memory.close()


def test_a_stream_that_joined_the_capture_stays_in_it(device, streams):
    x, (stream, other) = device.empty(4, "float32"), streams
    with stream.capture() as graph:
        other.wait(stream)
        x.fill(2, stream=other)
        x[:2].fill(3, stream=stream)  # waits for the other stream, by an edge
        stream.wait(other)
    assert len(graph.nodes) == 2 and len(graph.edges) == 1
    graph.launch(stream)
    stream.synchronize()
    assert x.tolist() == [3, 3, 2, 2]
    graph.close()


def test_a_stream_that_joins_a_capture_with_the_handle_of_a_closed_one(device, library, streams, monkeypatch):
    """A driver gives the handle of a destroyed stream again: what the new stream did before it joined is waited for."""
    x, y, z = (device.zeros(4, "int32") for _ in range(3))
    (stream, _), other = streams, device.stream()
    device.synchronize()
    if library is not None:  # the emulator gives each handle once
        machine = module("emulator.machine.machine").Machine
        add = machine.add

        def add_again(self, thing):
            if type(thing) is not kind or old in self.handles:
                return add(self, thing)
            thing.handle, self.handles[old] = old, thing
            self.destroyed.discard(old)
            return thing

        kind, old = type(library._machine.handles[other.handle]), other.handle
        monkeypatch.setattr(machine, "add", add_again)
    with stream.capture() as graph:
        other.wait(stream)
        z.fill(1, stream=other)
        stream.wait(other)
        other.close()
        with device.stream() as again:
            x.fill(5, stream=again)  # it is not captured yet
            again.wait(stream)
            stream.wait(again)
            y.copy_from(x, stream=stream)
    graph.launch(streams[1])
    streams[1].synchronize()
    assert y.tolist() == [5] * 4
    graph.close()


def test_the_end_of_a_closed_stream_is_waited_for_alone(device, streams):
    """Work of other streams is not waited for, and a stream that was idle leaves nothing to wait for."""
    x, (stream, busy) = device.empty(4, "float32"), streams
    flag = device.allocate(4, kind="pinned").view("uint32")
    flag.fill(0)
    device.synchronize()
    other = device.stream()
    x.fill(1, stream=other)
    other.close()
    busy.wait_value(flag[0], 1)
    x.fill(2, stream=stream)  # waits for the closed stream, and not for the whole device
    assert not busy.query()
    flag.memoryview()[0] = 1
    busy.synchronize()
    stream.synchronize()
    assert x.tolist() == [2] * 4


def test_an_exporter_s_work_on_a_closed_stream_is_waited_for(device, streams):
    """The exporter makes a stream wait for its work, and nothing else uses that stream."""
    stream, busy = streams
    x, flag = device.empty(4, "float32"), device.allocate(4, kind="pinned").view("uint32")
    flag.fill(0)
    x.fill(1)
    device.synchronize()
    busy.wait_value(flag[0], 1)
    x.fill(2, stream=busy)
    other = device.stream()
    viewed = rawcuda.view(x, stream=other, protocol="dlpack")  # `other` waits for `busy`
    other.close()
    copied = device.empty(4, "float32")
    thread = threading.Timer(0.1, lambda: flag.memoryview().__setitem__(0, 1))
    thread.start()
    copied.copy_from(viewed, stream=stream)
    stream.synchronize()
    thread.join()
    assert copied.tolist() == [2] * 4
    busy.synchronize()
    device.synchronize()


def test_many_closed_streams_leave_few_events(device, driver):
    events = module("gpu.core.context").context_of(0).events
    device.synchronize()
    before = len(events)
    x = device.empty(4, "float32")
    for _ in range(100):
        with device.stream() as stream:
            x.fill(1, stream=stream)
    assert len(events) < before + 40


# -- releases in other threads


@pytest.mark.filterwarnings("ignore:nothing was captured")
def test_each_release_that_waits_for_the_end_of_a_capture_is_tried_once(device, streams):
    """If each of them tried the others, too, 200 would never end, or exceed the recursion limit."""
    registered = [device.register(array.array("i", [0] * 100)) for _ in range(200)]
    with streams[0].capture() as graph:
        registered.clear()
        device.empty(4, "int32")
        assert len(owned.dropped) >= 200
    graph.close()
    device.stream().close()
    assert not owned.dropped


@pytest.mark.filterwarnings("ignore:nothing was captured")
def test_releases_of_other_threads_break_no_capture(device):
    """What a release waits for is the whole context, which would break a capture that begins at that moment."""
    broken, over = [], threading.Event()

    def capture():
        with device.stream() as stream:
            for _ in range(400):
                try:
                    with stream.capture() as graph:
                        pass
                    graph.close()
                except errors.CudaError as error:
                    broken.append(error)
        over.set()

    def release():
        while not over.is_set():
            device.allocate(64, kind="pinned").close()

    threads = [threading.Thread(target=target) for target in (capture, release, release, release)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not broken


def test_a_wait_for_the_device_breaks_no_capture_of_another_thread(device, streams):
    """The wait is done before the capture begins, or refused."""
    target, (stream, _), done, waits = device.empty(4, "float32"), streams, threading.Event(), []

    def wait():
        while not done.is_set():
            try:
                device.synchronize()
                waits.append("done")
            except errors.InvalidUse:
                waits.append("refused")

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    waiting = threading.Thread(target=wait)
    waiting.start()
    try:
        for _ in range(2000):
            with stream.capture() as graph:
                target.fill(1, stream=stream)
            graph.close()
    finally:
        done.set()
        waiting.join()
        sys.setswitchinterval(interval)
    assert {*waits} == {"done", "refused"}


@pytest.mark.filterwarnings("ignore:nothing was captured")
def test_a_capture_does_not_wait_long_for_a_release(device, streams):
    """The release waits for work that goes on only when the capture has begun."""
    flag, (stream, busy) = device.allocate(4, kind="pinned").view("uint32"), streams
    flag.fill(0)
    device.synchronize()
    busy.wait_value(flag[0], 1)
    with device.allocate(64, kind="pinned") as memory:
        thread = threading.Thread(target=memory.close)
        thread.start()
        with stream.capture() as graph:
            pass
        flag.memoryview()[0] = 1
        thread.join()
    graph.close()
    busy.synchronize()


# -- memory that is freed late


class Exporter(bytearray):
    """Host memory that can be watched."""


@pytest.mark.emulator_only("a driver cannot be made to refuse")
def test_an_array_that_stays_page_locked_is_kept(device, library):
    still_locked = module("gpu.memory.registered").still_locked
    exporter = Exporter(64)
    watched = weakref.ref(exporter)
    memory = device.register(exporter)
    address = memory.handle
    del exporter
    library.fail("cuMemHostUnregister", 1, 999)
    memory.close()
    gc.collect()
    assert watched() is not None and len(still_locked) == 1  # a device may still write to it
    still_locked.clear()
    with device.current():
        rawcuda.cu.cuMemHostUnregister(address)
    gc.collect()
    assert watched() is None


@pytest.mark.codes("cuMemHostUnregister returned 713")
def test_an_array_that_other_software_released_is_not_kept(device):
    exporter = Exporter(64)
    watched = weakref.ref(exporter)
    memory = device.register(exporter)
    with device.current():
        rawcuda.cu.cuMemHostUnregister(memory.handle)
    memory.close()
    del exporter
    gc.collect()
    assert watched() is None and not module("gpu.memory.registered").still_locked


@pytest.mark.parametrize("closed", [False, True])
def test_exported_memory_is_freed_after_the_work_of_others(device, closed):
    """Nobody knows on which streams another library has used the bytes, so the next release waits for the device."""
    stream = device.stream()
    memory = device.allocate(64, stream=stream)
    lease = memory.lease()
    memory.close()
    if closed:
        memory_work = device.empty(4, "float32").fill(1, stream=stream)
        stream.close()
        del memory_work
        owned.drain()
    heard = []
    with rawcuda.trace(heard):
        del lease
        owned.drain()
    made = calls(heard)
    assert "cuMemFreeAsync" not in made and made.index("cuCtxSynchronize") < made.index("cuMemFree_v2")
    stream.close()
    device.synchronize()


def test_exported_memory_that_is_closed_waits_for_the_device(device, streams):
    memory = device.allocate(64, stream=streams[0])
    lease = memory.lease()
    del lease
    heard = []
    with rawcuda.trace(heard):
        memory.close()
    made = calls(heard)
    assert made.index("cuCtxSynchronize") < made.index("cuMemFree_v2")


@pytest.mark.parametrize("ended", ["raised", "broken", "recorded"])
@pytest.mark.parametrize("stream_closed", [False, True])
@pytest.mark.parametrize("pooled", [False, True])
def test_memory_of_a_capture_without_a_graph_is_not_freed(device, ended, stream_closed, pooled):
    """Its address may be that of the memory of another graph by now."""
    stream, heard, made = device.stream(), [], []
    pool = device.memory_pool() if pooled else None
    try:
        with stream.capture("relaxed") as graph:
            made.append(device.allocate(16, stream=stream, pool=pool))
            if ended == "raised":
                raise ZeroDivisionError
            if ended == "broken":
                with pytest.raises(rawcuda.CudaError), device.current():
                    rawcuda.cu.cuStreamSynchronize(module("headers.cuda_h").CUstream(stream.handle))
        assert ended == "recorded"
        graph.launch(stream)
    except (ZeroDivisionError, rawcuda.CudaError):
        pass
    if stream_closed:
        stream.close()
    with rawcuda.trace(heard):
        made.pop().close()
        device.stream().close()
    device.synchronize()
    freed = {"cuMemFreeAsync", "cuMemFree_v2"}.intersection(calls(heard))
    assert freed == ({"cuMemFree_v2" if stream_closed else "cuMemFreeAsync"} if ended == "recorded" else set())
    for each in (graph, stream, pool):
        if each is not None:
            each.close()


@pytest.mark.filterwarnings("ignore:nothing was captured")
def test_memory_of_a_stream_is_freed_late_in_a_capture(device, streams):
    stream, other = streams
    blocking = device.stream(nonblocking=False)
    memory = device.allocate(64, stream=other)
    lease = memory.lease()
    memory.close()
    with blocking.capture() as graph:  # the legacy stream must not be used now
        del lease
        owned.drain()
    graph.close()
    blocking.close()


CLOSED_LATE = {
    "pinned": (lambda device: device.allocate(64, kind="pinned"), "cuMemFreeHost"),
    "registered": (lambda device: rawcuda.Memory.register(bytearray(4096)), "cuMemHostUnregister"),
    "array": (lambda device: device.array((4, 7), "float32"), "cuArrayDestroy"),
    "texture": (lambda device: device.texture(device.array((4, 7), "float32")), "cuTexObjectDestroy"),
    "module": (lambda device: device.load(kernels.GLOBALS), "cuModuleUnload"),
}


@pytest.mark.filterwarnings("ignore:nothing was captured")
@pytest.mark.parametrize("kind", CLOSED_LATE)
def test_what_other_streams_may_use_is_released_after_the_capture(device, streams, kind):
    """Its release has to wait for the context, which a capture forbids."""
    make, release = CLOSED_LATE[kind]
    made, (stream, _), heard = make(device), streams, []
    device.synchronize()
    with rawcuda.trace(heard.append):
        with stream.capture() as graph:
            made.close()
            assert release not in calls(heard)
        graph.close()
        owned.drain()
    made_calls = calls(heard)
    assert made_calls.count(release) == 1 and "cuCtxSynchronize" in made_calls[: made_calls.index(release)]


# -- graphs in streams of another device


def test_a_graph_in_a_stream_that_is_given_as_a_number(device):
    if len(rawcuda.devices()) < 2:
        pytest.skip("there is only one device")
    other = rawcuda.Device(1)
    x = device.upload(array.array("f", [1, 2]))
    with device.graph() as graph, other.stream() as stream:
        graph.fill(x, 3)
        graph.launch(stream.handle)
        other.synchronize()
        assert x.tolist() == [3, 3]


def test_a_graph_in_a_stream_of_another_context(device):
    """Its end could not be found out, so that nothing is launched."""
    if len(rawcuda.devices()) < 2:
        pytest.skip("there is only one device")
    cu, context, handle = rawcuda.cu, rawcuda.cu.CUcontext(), rawcuda.cu.CUstream()
    x = device.upload(array.array("f", [1, 2]))
    cu.cuCtxCreate_v2(ctypes.byref(context), 0, 1)
    try:
        cu.cuStreamCreate(ctypes.byref(handle), 1)
        cu.cuCtxPopCurrent_v2(ctypes.byref(cu.CUcontext()))
        with device.graph() as graph:
            graph.fill(x, 3)
            with pytest.raises(ValueError, match="another context than the primary context"):
                graph.launch(handle.value)
        device.synchronize()
        assert x.tolist() == [1, 2]
    finally:
        cu.cuCtxDestroy_v2(context)


# -- batches


def test_a_batch_refuses_arrays_with_the_remedy(device):
    with device.array((4,), "float32") as image:
        for pair in ((image, device.empty(4, "float32")), (device.empty(2, "float32"), image[1:3])):
            with pytest.raises(
                TypeError, match=r"pair 1: copy_batch\(\) does not accept an \w+, which has no addresses: copy it"
            ):
                rawcuda.copy_batch([(device.empty(4, "uint8"), bytes(4)), pair])
