"""Closing and dropping: in any order, twice, in several threads, in collections, with pending work, in a capture."""

import array
import contextlib
import gc
import os
import sys
import threading
import weakref

import pytest

from tests.driver import kernels
from tests.shared import sampled
from tests.subject import FOLDER, module, rawcuda

errors, owned, streams = module("errors"), module("ownership"), module("gpu.streams.stream")

WAIT = 60
NAMES = [
    "device",
    "stream",
    "event",
    "plain",
    "ordered",
    "pinned",
    "managed",
    "module",
    "launch",
    "graph",
    "view",
    "variable",
    "pool",
    "pooled",
    "virtual",
    "registered",
]


def everything():
    """Make one object of each kind, with pending work on each."""
    device = rawcuda.Device(0)
    stream = device.stream()
    world = dict(
        device=device,
        stream=stream,
        event=device.event(),
        plain=device.allocate(400),
        ordered=device.allocate(400, stream=stream),
        pinned=device.allocate(400, kind="pinned"),
        managed=device.allocate(400, kind="managed"),
        module=device.load(kernels.ADD),
        pool=device.memory_pool(),
        virtual=device.virtual_memory(1),
        registered=device.register(array.array("f", [0] * 100)),
    )
    world["pooled"] = device.allocate(400, pool=world["pool"], stream=stream)
    code = device.load(kernels.GLOBALS)
    world["variable"] = code.global_("table")
    world["view"] = world["plain"].view().reinterpret("float32")
    launch = world["launch"] = world["module"]["add"].configure(grid=1, block=128, stream=stream)
    with stream.capture() as world["graph"]:
        launch(world["plain"], world["managed"], world["pinned"], 100)
    world["graph"].launch(stream)
    launch(world["view"], world["ordered"], world["managed"], 100)
    world["pinned"].copy_to(world["plain"], stream=stream)
    world["plain"].copy_to(world["managed"], stream=stream)
    world["registered"].copy_to(world["pooled"], stream=stream)
    launch(world["virtual"], world["pooled"], world["registered"], 100)
    stream.record(world["event"])
    return world


def close(thing):
    if hasattr(thing, "close"):
        thing.close()


@pytest.mark.parametrize("first", sampled(NAMES))
def test_every_pair_in_both_orders_and_twice(first):
    for second in NAMES:
        world = everything()
        for name in (first, second, first, *world):
            close(world.pop(name, None) if name != first else world.get(name))
        close(world.get(first))
        world.clear()
        gc.collect()
        owned.drain()
    rawcuda.synchronize()


@pytest.mark.parametrize("name", NAMES)
def test_dropped_without_the_collector(name):
    """Our objects are in no reference cycle: a dropped object is released by the next call that can do it."""
    rawcuda.synchronize()
    gc.collect()
    gc.disable()
    try:
        world = everything()
        thing = weakref.ref(world[name]) if hasattr(type(world[name]), "__weakref__") else lambda: None
        world.clear()
        rawcuda.synchronize()
        assert thing() is None and not owned.dropped
    finally:
        gc.enable()


class Marker:
    pass


class Refusing:
    """An exporter that no protocol can view."""

    __cuda_array_interface__ = {"shape": (1,)}

    def __dlpack__(self, **_):
        raise BufferError("not today")

    def __dlpack_device__(self):
        return 2, 0


class Falling(Refusing):
    """An exporter whose second protocol works."""

    def __init__(self, device):
        self.memory = device.allocate(8)
        self.__cuda_array_interface__ = self.memory.__cuda_array_interface__


FAILURES = {
    "compile": lambda device, _: device.load(kernels.ADD.replace("add.f32 %f3,", "add.f32 3,")),
    "name": lambda device, _: device.load(kernels.ADD)["nope"],
    "size": lambda device, _: device.allocate(2**62),
    "ordinal": lambda device, _: rawcuda.Device(99),
    "view": lambda device, _: rawcuda.view(Refusing()),
    "one protocol": lambda device, _: rawcuda.view(Refusing(), protocol="dlpack"),
    "argument": lambda device, _: device.load(kernels.ADD)["add"].launch(Refusing(), 0, 0, 0, grid=1, block=1),
    "value": lambda device, marker: device.load(kernels.ADD)["add"].launch(0, 0, 0, 2**40, grid=1, block=1),
    "copy": lambda device, _: device.allocate(8).copy_from(b"1"),
    "c type": lambda device, _: rawcuda.cu.cuMemFree_v2("x"),
    "c call": lambda device, _: rawcuda.cu.cuMemFree_v2(5),
}


@pytest.mark.parametrize("failure", FAILURES.values(), ids=FAILURES)
def test_an_error_keeps_nobodys_frame(device, failure):
    """A traceback refers to the caller's frame; an error in a cycle with it would keep the caller's objects alive."""
    gc.collect()
    gc.disable()
    try:

        def caller():
            marker = Marker()
            gone.append(weakref.ref(marker))
            try:
                failure(device, marker)
            except Exception:
                return
            pytest.fail("went through")

        gone = []
        caller()
        assert gone[0]() is None
    finally:
        gc.enable()


def test_a_protocol_that_refused_keeps_nobodys_frame(device):
    gc.collect()
    gc.disable()
    try:
        exporter = Falling(device)
        gone = weakref.ref(exporter)
        assert rawcuda.view(exporter).protocol == "cuda_array_interface"
        del exporter
        assert gone() is None
    finally:
        gc.enable()


def test_a_with_block_that_raises_closes(device):
    with pytest.raises(KeyError):
        with (
            device.stream() as stream,
            device.event() as event,
            device.allocate(8) as memory,
            device.allocate(8, stream=stream) as ordered,
            device.load(kernels.GLOBALS) as loaded,
        ):
            loaded["nothing"].launch(grid=1, block=1, stream=stream)
            raise KeyError
    assert all(thing.closed for thing in (stream, event, memory, ordered, loaded))


@pytest.mark.parametrize("where", ["here", "nowhere", "on another device"])
def test_everything_is_released_whichever_context_is_current(device, library, where):
    """A handle implies its context: its release makes that context current only if the driver asks for it."""

    def current():
        return rawcuda.devices()[-1].current() if where == "on another device" else device.current()

    def use_and_close():
        world = everything()
        for name in NAMES[1:]:
            close(world.pop(name))
        device.event(), device.allocate(64)  # noqa: B018  dropped
        owned.drain()
        device.synchronize()

    def live():
        """Count the handles by kind, without the events that a context keeps for the ends of streams closed at work."""
        if library is None:
            return None
        spare = sum(len(each._primary.events) for each in rawcuda.devices())
        counted = dict(library.live_handles())
        return {**counted, "event": counted["event"] - spare}

    with contextlib.ExitStack() as stack:
        if where != "nowhere":
            stack.enter_context(current())
        use_and_close()  # what is made once and kept exists now
        before = live()
        use_and_close()
        gc.collect(0)
        owned.drain()
        assert not owned.dropped
        assert live() == before


def test_closed_by_many_threads_at_once():
    for _ in range(5):
        world, start = everything(), threading.Barrier(4)

        def work(order):
            start.wait()
            for thing in order:
                close(thing)

        things = list(world.values())
        threads = [
            threading.Thread(target=work, args=(order,))
            for order in (things, things[::-1], things[5:] + things[:5], things)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(WAIT)
        assert not any(thread.is_alive() for thread in threads)


@pytest.mark.parametrize("symbol", ["cuStreamIsCapturing", "cuMemFreeAsync"])
def test_a_stream_is_not_destroyed_while_memory_is_freed_on_it(device, monkeypatch, symbol):
    """Another thread that closes the stream waits until the call has returned."""
    stream, closing, codes = device.stream(), [], []
    memory = device.allocate(16, stream=stream).fill(1, stream=stream)
    stream._end = None  # as if its end had been looked for already
    calls = memory._primary.calls
    call = getattr(calls, symbol)

    def close_meanwhile(*arguments):
        closing.append(threading.Thread(target=stream.close))
        closing[0].start()
        closing[0].join(0.1)
        codes.append(call(*arguments))

    monkeypatch.setattr(calls, symbol, close_meanwhile)
    memory.close()
    closing[0].join(WAIT)
    assert codes == [0] and stream.closed and not closing[0].is_alive()


def test_the_end_of_a_stream_that_another_thread_has_closed_stays_as_it_was_found(device, monkeypatch):
    class Late:
        """A lock that another thread has first, and closes the stream."""

        def __enter__(self):
            monkeypatch.undo()
            closing = threading.Thread(target=stream.close)
            closing.start()
            closing.join(WAIT)
            ends.append(stream.end())

        def __exit__(self, *error):
            pass

    stream, ends = device.stream(), []
    device.allocate(16).fill(1, stream=stream)
    monkeypatch.setattr(module("gpu.core.stream_arguments"), "destroying", Late())
    stream._closing()  # as close() of a second thread does, which began when the stream was open
    assert ends == [stream.end()] and ends != [None]


@pytest.mark.parametrize("use", ["copy", "export", "wait"])
def test_the_stream_of_what_is_used_is_not_destroyed_meanwhile(device, monkeypatch, use):
    """What was handed over names the stream of its last work, which another thread may close at any time."""
    stream, closing = device.stream(), []
    memory = device.allocate(16, kind="pinned" if use == "wait" else "device").fill(1, stream=stream)
    ordering = module("gpu.memory.ordering")
    asked = ordering.capture_number

    def close_meanwhile(calls, number):
        if not closing:
            closing.append(threading.Thread(target=stream.close))
            closing[0].start()
            closing[0].join(0.1)
        return asked(calls, number)

    view = rawcuda.view(memory, stream=stream)
    monkeypatch.setattr(ordering, "capture_number", close_meanwhile)
    if use == "copy":
        with device.stream() as using:
            assert device.allocate(16).copy_from(memory, stream=using).copy_to(bytearray(16)) == bytearray([1] * 16)
    elif use == "export":
        with device.stream() as using:
            view.__dlpack__(stream=using.handle)
    else:
        assert view.memoryview().tobytes() == bytes([1] * 16)
    closing[0].join(WAIT)
    assert stream.closed and not closing[0].is_alive()


@pytest.mark.parametrize("use", ["copy", "export", "wait"])
def test_what_is_written_during_the_wait_for_a_closed_stream_is_waited_for(device, monkeypatch, use):
    ordering = module("gpu.memory.ordering")
    made, other, wait = device.upload(array.array("i", [1] * 4)), device.stream(), ordering._finish_closed
    with device.stream() as stream:
        made.fill(2, stream=stream)

    def meanwhile(stream):
        monkeypatch.undo()
        wait(stream)
        made.fill(3, stream=other)  # as another thread does

    monkeypatch.setattr(ordering, "_finish_closed", meanwhile)
    if use == "copy":
        made.download()
    elif use == "export":
        made.__cuda_array_interface__
    else:
        ordering.wait_on_host(made)
    assert made.stream is other
    assert made.download(stream=device.stream()).tolist() == [3] * 4


def test_the_end_of_a_generator_uses_what_is_garbage_with_it(device):
    """Python calls the finalizers of a cycle in any order, and frees its objects afterwards."""
    seen = []

    def work(buffer, out):
        me = yield  # a reference to itself makes the cycle
        with device.stream() as stream:
            try:
                yield me
            finally:
                for _ in range(3):
                    out.copy_from(buffer, stream=stream)
                    stream.synchronize()
                    seen.append((buffer.closed, {*out.view().tolist()}))

    buffer, out = device.allocate(64), device.allocate(64, kind="pinned")
    buffer.fill(3)
    device.synchronize()
    begun = work(buffer, out)
    next(begun)
    begun.send(begun)
    del begun, buffer, out
    gc.collect()
    assert seen == [(False, {3})] * 3


def test_what_a_finalizer_saves_stays_usable(device):
    """Buffers that __del__ puts back into a list are an ordinary idiom."""
    free = []

    class Tensor:
        def __init__(self):
            self.buffer = free.pop() if free else device.allocate(4096)
            self.me = self

        def __del__(self):
            free.append(self.buffer)

    Tensor()
    gc.collect()
    with device.allocate(4096) as other, Tensor().buffer as saved:
        assert not free and saved.ptr != other.ptr and not saved.closed
        other.fill(1)
        saved.fill(7)
        assert [{*each.view().tolist()} for each in (other, saved)] == [{1}, {7}]


def test_collections_inside_every_call(device):
    """Memory that only a garbage collection finds is released in the middle of calls; each call runs a collection."""

    class Circle:
        def __init__(self):
            self.me = self
            self.things = device.allocate(64), device.stream(), device.allocate(64, kind="pinned"), device.event()

    class Opens:
        def __init__(self):
            self.me = self

        def __del__(self):  # it runs in the middle of one of our calls
            with device.allocate(32):
                device.stream().close()

    before = gc.get_threshold()
    try:
        gc.set_threshold(5, 1, 1)
        with device.load(kernels.ADD) as loaded, device.stream() as stream:
            out = device.empty(100, "float32")
            launch = loaded["add"].configure(grid=1, block=128, stream=stream)
            for _ in range(10):
                Circle()
                Opens()
                launch(out, out, out, 100)
                out.copy_from(array.array("f", range(100)), stream=stream)
                stream.record().close()
            assert out.tolist() == list(range(100))
    finally:
        gc.set_threshold(*before)


@pytest.mark.emulator_only("a collection cannot begin inside a call of compiled code")
@pytest.mark.parametrize("dropped", [False, True])
def test_close_inside_a_call_of_the_emulator_waits_for_no_lock(device, monkeypatch, dropped):
    """A __del__ that a collection calls there may close; another thread may hold our locks, and wait for that call."""
    handles, points, peers = module("gpu.core.handles"), module("gpu.core.points"), module("gpu.devices.peers")
    space = module("emulator.machine.space").Space
    world = everything()
    world["executable"] = world["graph"].instantiate()
    world["access"] = device.peer_access(rawcuda.Device(1))
    rawcuda.synchronize()
    locks = [handles.destroying, points.beginning, peers._lock, world["virtual"]._lock, world["graph"]._lock]
    held, end, closed, allocate = threading.Event(), threading.Event(), [], space.allocate

    def hold():
        for lock in locks:
            lock.acquire()
        held.set(), end.wait(WAIT)
        for lock in locks:
            lock.release()

    def close_all():
        for name in [*world]:
            thing = world.pop(name)
            if not dropped:
                close(thing)
            del thing
            device.event().close()  # (close() releases what was dropped, too)
            closed.append(name)

    def collect_and_allocate(*arguments, **named):
        if world and threading.current_thread() is threading.main_thread():
            caller = threading.Timer(WAIT / 6, end.set)  # ends a wait, so that the test fails and does not hang
            caller.start()
            close_all()
            caller.cancel()
        return allocate(*arguments, **named)

    thread = threading.Thread(target=hold)
    thread.start(), held.wait(WAIT)
    monkeypatch.setattr(space, "allocate", collect_and_allocate)
    memory = device.allocate(64)
    waited, _ = end.is_set(), end.set()
    thread.join(WAIT)
    memory.close()
    assert len(closed) > len(NAMES) and not waited
    rawcuda.synchronize()
    assert not owned.dropped


# -- work pending


def test_memory_closed_while_a_kernel_or_copy_still_uses_it(device):
    n = 64
    with device.load(kernels.ADD) as loaded, device.stream() as stream, device.allocate(4 * n, kind="pinned") as result:
        one = array.array("f", [1.0] * n)
        for make in (
            lambda: device.allocate(4 * n),
            lambda: device.allocate(4 * n, stream=stream),
            lambda: device.allocate(4 * n, kind="managed"),
            lambda: device.allocate(4 * n, kind="pinned"),
        ):
            for closing in (lambda thing: thing.close(), lambda thing: None):
                memory, out = make(), make()
                memory.copy_from(one, stream=stream)
                loaded["add"].launch(memory, memory, out, n, grid=1, block=n, stream=stream)
                closing(memory)
                del memory
                out.copy_to(result, stream=stream)
                closing(out)
                del out
                device.allocate(8).close()  # drains
                stream.synchronize()
                assert result.view().reinterpret("float32").tolist() == [2.0] * n


def test_a_module_dropped_while_its_kernel_is_queued(device):
    out = device.empty(96, "uint32")
    with device.stream() as stream:
        device.load(kernels.REVERSE)["reverse"].launch(out, grid=1, block=96, shared_bytes=384, stream=stream)
        device.allocate(8).close()
        stream.synchronize()
        assert out.tolist() == list(range(95, -1, -1))


def test_pageable_memory_may_go_as_soon_as_a_copy_returns(device):
    with device.stream() as stream, device.allocate(8) as memory:
        source = bytearray(b"12345678")
        memory.copy_from(source, stream=stream)
        source[:] = b"x" * 20  # no buffer of it is held any more
        target = bytearray(8)
        memory.copy_to(target, stream=stream)
        assert target == b"12345678"
        target += b"9"


def test_the_stream_of_somebody_else_lives_as_long_as_what_needs_it(device):
    class Theirs:
        alive = 0

        def __init__(self):
            Theirs.alive += 1
            self.real = device.stream()

        def __cuda_stream__(self):
            return 0, self.real.handle

        def __del__(self):
            Theirs.alive -= 1
            self.real.close()

    borrowed = rawcuda.Stream.from_handle(Theirs())
    borrowed.synchronize()
    assert Theirs.alive == 1
    del borrowed
    assert Theirs.alive == 0
    memory = device.allocate(64, stream=Theirs())
    assert Theirs.alive == 1
    del memory
    rawcuda.synchronize()
    assert Theirs.alive == 0


def test_a_device_closed_before_its_launches(device):
    class Exporter:
        alive = 0

        def __init__(self, memory):
            Exporter.alive += 1
            self.memory, self.__cuda_array_interface__ = memory, memory.__cuda_array_interface__

        def __del__(self):
            Exporter.alive -= 1

    own = rawcuda.Device(0)
    with own.load(kernels.ADD) as loaded, own.stream() as stream:
        launch = loaded["add"].configure(grid=1, block=4, stream=stream)
        memory = device.allocate(16)
        own.close()
        with pytest.raises(errors.Closed, match="device of kernel add is closed"):
            launch(Exporter(memory), memory, memory, 4)
        assert not streams.retained and Exporter.alive == 0
        memory.close()


# -- captures


@pytest.mark.parametrize("mode", ["global", "thread_local", "relaxed"])
@pytest.mark.parametrize("dropping", [False, True])
def test_closing_while_another_thread_captures(device, mode, dropping):
    with device.load(kernels.GLOBALS) as loaded, device.stream() as stream:
        launch = loaded["nothing"].configure(grid=1, block=1, stream=stream)
        world = everything()
        del world["device"]
        rawcuda.synchronize()
        began, done, failed = threading.Event(), threading.Event(), []

        def capture():
            try:
                with stream.capture(mode) as graph:
                    launch()
                    began.set()
                    done.wait(WAIT)
                    launch()
                graph.launch(stream)
                stream.synchronize()
                graph.close()
            except Exception as error:
                failed.append(error)
                began.set()

        thread = threading.Thread(target=capture)
        thread.start()
        began.wait(WAIT)
        if not dropping:
            for name in reversed(list(world)):
                close(world[name])
        world.clear()
        owned.drain()
        done.set()
        thread.join(WAIT)
        assert not failed, failed


@pytest.mark.parametrize("mode", ["global", "thread_local", "relaxed"])
def test_closing_while_this_thread_captures(device, mode):
    with device.load(kernels.GLOBALS) as loaded, device.stream() as stream:
        launch = loaded["nothing"].configure(grid=1, block=1, stream=stream)
        world = everything()
        ordered = device.allocate(64, stream=stream)
        rawcuda.synchronize()
        with stream.capture(mode) as graph:
            launch()
            for thing in (ordered, *reversed(list(world.values()))):
                close(thing)
            world.clear()
            launch()
        graph.launch(stream)
        stream.synchronize()
        graph.close()


@pytest.mark.parametrize("after", ["cuStreamBeginCapture_v2", "cuStreamEndCapture"])
def test_closing_in_a_collection_while_a_capture_begins_or_ends(device, monkeypatch, after):
    class Owner:
        def __init__(self):
            self.me, self.memory = self, device.allocate(64, kind="pinned")

        def __del__(self):
            self.memory.close()  # would wait for the context, which breaks a capture

    calls = device._primary.calls
    call = getattr(calls, after)

    def call_and_collect(*arguments):
        code = call(*arguments)
        gc.collect()
        return code

    with device.load(kernels.GLOBALS) as loaded, device.stream() as stream:
        launch = loaded["nothing"].configure(grid=1, block=1, stream=stream)
        gc.collect()
        gc.disable()
        try:
            Owner()
            monkeypatch.setitem(vars(calls), after, call_and_collect)
            with stream.capture() as graph:
                launch()
        finally:
            gc.enable()
        graph.launch(stream)
        stream.synchronize()
        graph.close()
    rawcuda.synchronize()
    assert not owned.dropped


def test_what_a_stream_that_joined_the_capture_uses_lives_as_long_as_the_graph(device):
    class Exporter:
        alive = 0

        def __init__(self, memory):
            Exporter.alive += 1  # (it names no stream to wait for)
            self.__cuda_array_interface__ = {"shape": (4,), "typestr": "<f4", "data": (memory.ptr, False), "version": 3}

        def __del__(self):
            Exporter.alive -= 1

    with (
        device.load(kernels.ADD) as loaded,
        device.stream() as stream,
        device.stream() as side,
        device.allocate(16) as memory,
        device.event() as fork,
        device.event() as join,
    ):
        add = loaded["add"].configure(grid=1, block=4, stream=side)
        exporter = Exporter(memory)
        with stream.capture() as graph:
            stream.record(fork)
            side.wait(fork)
            add(exporter, memory, memory, 4)
            del exporter
            side.record(join)
            stream.wait(join)
        streams.sweep()
        assert Exporter.alive == 1
        graph.launch(stream)
        stream.synchronize()
        assert Exporter.alive == 1
        graph.close()
        del graph
        assert Exporter.alive == 0


@pytest.mark.filterwarnings("ignore:nothing was captured")
def test_a_graph_says_why_it_cannot_be_launched(device):
    with device.stream() as stream:
        graph = stream.capture()
        with pytest.raises(errors.Closed, match="is new: its with block must capture work before it can be used"):
            graph.launch()
        with graph:
            with pytest.raises(errors.Closed, match="is recording"):
                graph.launch()
        graph.launch(stream)
        stream.synchronize()
        graph.close()
        with pytest.raises(errors.Closed, match="is closed"):
            graph.launch()
        graph = stream.capture()
        with pytest.raises(KeyError), graph:
            raise KeyError
        with pytest.raises(errors.Closed, match="spoilt"):
            graph.launch()
        assert not module("gpu.streams.stream").capturing


def test_a_stream_closed_while_it_is_captured(device):
    stream = device.stream()
    with pytest.raises(KeyError):  # the error in the block is the one that is raised
        with stream.capture():
            stream.close()
            raise KeyError
    stream = device.stream()
    with pytest.raises(errors.Closed):
        with stream.capture():
            stream.close()
    assert not module("gpu.streams.stream").capturing


def test_a_lease_that_another_thread_removes(device):
    with device.allocate(8) as memory:

        class Gone:
            def __call__(self):
                memory._leases.remove(self)  # as another thread does after it has found the lease dead

        memory._leases[:] = [Gone()]
        capsule = memory.__dlpack__()  # holds a lease
        assert len(memory._leases) == 1 and memory._leases[0]() is memory.lease()
        del capsule
        assert memory._leases[0]() is None


def close_while_another_does(owner, line):
    """Close an object; as by another thread that has found it open, too, it is closed at a line of _closing().

    returns  whether there is such a line
    """
    handle, closing, hit = owner.handle, type(owner)._closing.__code__, False

    def trace(frame, event, _):
        nonlocal hit
        if frame.f_code is not closing:
            return None
        if event == "line" and frame.f_lineno == closing.co_firstlineno + line:
            sys.settrace(None)
            hit, owner._handle = True, handle
            owner.close()
        return trace

    was = sys.gettrace()
    sys.settrace(trace)
    try:
        owner.close()
    finally:
        sys.settrace(was)
    return hit


def test_leased_memory_that_two_threads_close_is_freed_after_the_last_lease(device, library):
    def live():
        owned.drain()
        return None if library is None else library.live_handles()["memory"]

    before, hits = live(), 0
    for line in range(1, 40):
        memory = device.allocate(4096, kind="pinned")
        leases, during = [memory.lease(), memory._lease_for_work()], live()
        hits += close_while_another_does(memory, line)
        assert memory.closed and live() == during
        leases.clear()
        assert live() == before
    assert hits > 8


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes share memory on Linux only")
def test_a_shared_event_that_two_threads_close_is_destroyed_after_the_last_handle(device, library):
    def live():
        owned.drain()
        return None if library is None else library.live_handles()["event"]

    before, hits = live(), 0
    for line in range(1, 10):
        event = device.event(shareable=True)
        shared, during = event.share(), live()
        hits += close_while_another_does(event, line)
        assert event.closed and live() == during
        shared.close()
        del shared
        assert live() == before
    assert hits > 3


CLOSED_MEANWHILE = {
    "copy out": lambda memory, _: rawcuda.copy(bytearray(memory.nbytes), memory.view()),
    "copy in": lambda memory, _: rawcuda.copy(memory.view(), b"\1" * memory.nbytes),
    "bytes": lambda memory, _: memory.view().tobytes(),
    "list": lambda memory, _: memory.view()[:9].tolist(),
    "every second": lambda memory, _: rawcuda.copy(bytearray(memory.nbytes // 2), memory.view()[::2]),
    "in a stream": lambda memory, stream: rawcuda.copy(memory.view(), b"\1" * memory.nbytes, stream=stream),
    "fill": lambda memory, _: memory.fill(1),
}


@pytest.mark.parametrize("kind", ["pinned", "managed", "device"])
@pytest.mark.parametrize("name", CLOSED_MEANWHILE)
def test_memory_that_is_closed_at_any_line_of_an_operation(device, name, kind):
    """As by another thread: the operation is done or refused. Only work of the device can meet the freed address."""
    operation, stream = CLOSED_MEANWHILE[name], device.stream()
    allowed = {"done", "Closed"}
    if kind == "device" or kind == "managed" and name in ("fill", "every second"):
        allowed.add("InvalidUse")
    found, line, hit = set(), 0, True
    while hit:
        memory, at, hit = device.allocate(4096, kind=kind), 0, False
        memory.fill(0)  # what the emulator says of memory that was never written would be said by lines of the package
        device.synchronize()

        def trace(frame, event, _, memory=memory):
            nonlocal at, hit
            folder = frame.f_code.co_filename
            if not folder.startswith(str(FOLDER)) or f"{os.sep}emulator{os.sep}" in folder:
                return None
            if event == "line":
                at += 1
                if at == line + 1:
                    hit = True
                    sys.settrace(None)
                    memory.close()
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            operation(memory, stream)
            stream.synchronize()
            outcome = "done"
        except (rawcuda.Closed, rawcuda.InvalidUse) as error:
            outcome = type(error).__name__
        finally:
            sys.settrace(before)
        found.add(outcome)
        line += 5
    assert found <= allowed and "done" in found and "Closed" in found


def test_an_interrupted_close_of_a_stream_keeps_the_end_of_its_work(device, monkeypatch):
    """Memory of the stream is freed after that end, and cuMemFree_v2 does not wait for work that uses such memory."""
    stream = device.stream()
    memory = device.allocate(4096, stream=stream)
    memory.fill(1, stream=stream)
    calls, seen = device._primary.calls, []
    destroy = calls.cuStreamDestroy_v2

    def interrupted(*arguments):
        destroy(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setitem(calls.__dict__, "cuStreamQuery", lambda stream: 600)  # the work is not done
    monkeypatch.setitem(calls.__dict__, "cuStreamDestroy_v2", interrupted)
    with pytest.raises(KeyboardInterrupt):
        stream.close()
    monkeypatch.undo()
    end = stream.end()
    assert stream.closed and end is not None and end.event is not None
    with rawcuda.trace(lambda event: seen.append(getattr(event, "name", ""))):
        memory.close()
    assert seen.index("cuEventSynchronize") < seen.index("cuMemFree_v2")


@pytest.mark.parametrize("how", ["close", "drop"])
@pytest.mark.parametrize("kind", ["pinned", "ordered", "array", "module"])
def test_a_wait_of_close_that_is_interrupted_is_made_again(device, library, monkeypatch, kind, how):
    """It is the most likely place of an interrupt; the next call that drains releases the handle."""
    handles, interrupts = module("gpu.core.handles"), [KeyboardInterrupt]
    finish = handles.finish_context

    def interrupted(*arguments):
        if interrupts:
            raise interrupts.pop()
        return finish(*arguments)

    with device.stream() as stream:
        thing = {
            "pinned": lambda: device.allocate(64, kind="pinned"),
            "ordered": lambda: device.allocate(64, stream=stream),
            "array": lambda: device.array(8, "uint8"),
            "module": lambda: device.load(kernels.ADD),
        }[kind]()
        if kind == "ordered":
            thing.lease()  # so that it is not freed in the order of its stream
        monkeypatch.setattr(handles, "finish_context", interrupted)
        before = library.live_handles() if library is not None else {}
        if how == "close":
            with pytest.raises(KeyboardInterrupt):
                thing.close()
            assert thing.closed
        else:
            lifetime = thing._release
            lifetime.stream = handles.Leased(None)  # as if its users were not known
            del thing
            gc.collect()
            with pytest.raises(KeyboardInterrupt):
                owned.drain()
        assert not interrupts
        owned.drain()
        if library is not None:
            name = {"array": "array", "module": "module"}.get(kind, "memory")
            assert library.live_handles().get(name, 0) == before[name] - 1


def test_an_event_is_not_used_elsewhere_while_a_thread_records_it(device, monkeypatch):
    """A thread that records a point waits in the driver, and another one finds meanwhile that the point was reached."""
    points = module("gpu.core.points")
    primary = device._primary
    with device.stream() as stream:
        points.retain(primary, stream.handle, [])
        (point,) = [each for each in points.retained if each.key[:2] == (device.ordinal, stream.handle)]
        event, record = point.event, primary.calls.cuEventRecord

        def found(*arguments):
            point.is_open = False
            point.end()
            assert event not in primary.pool
            return record(*arguments)

        monkeypatch.setitem(primary.calls.__dict__, "cuEventRecord", found)
        points.retain(primary, stream.handle, [])
        monkeypatch.undo()
        assert event not in primary.pool and not point.recording
        points.retain(primary, stream.handle, [])
        stream.synchronize()
    points.sweep(now=True)


def test_an_interrupt_while_foreign_memory_is_kept_breaks_no_capture(device, monkeypatch):
    """The work is waited for, since nothing keeps its memory, in a way that a capture permits."""
    points, x = module("gpu.core.points"), device.zeros(4, "uint32")

    def interrupted(*arguments):
        raise KeyboardInterrupt

    with device.stream() as captured, device.stream() as other, captured.capture() as graph:
        x.fill(1, stream=captured)
        monkeypatch.setattr(points, "Point", interrupted)
        with pytest.raises(KeyboardInterrupt):
            points.retain(device._primary, other.handle, [])
        monkeypatch.undo()
        x.fill(2, stream=captured)
    assert len(graph.nodes) == 2
    graph.close()


@pytest.mark.parametrize("told", [True, False], ids=["with a number", "before CUDA 12.0"])
def test_the_next_stream_with_the_same_handle_has_a_point_of_its_own(device, monkeypatch, told):
    """A driver may use the handle of a destroyed stream again while its work is not done, also one of other software.

    A driver before CUDA 12.0 does not tell whether it is another one.
    """
    points, calls, numbers = module("gpu.core.points"), vars(device._primary.calls), [7, 7, 8]

    def tell(queue, number):
        if not told:
            raise errors.SymbolNotFound("missing", symbol="cuStreamGetId", since=(12, 0), driver_version=11040)
        number._obj.value = numbers.pop(0)

    monkeypatch.setitem(calls, "cuStreamGetId", tell)
    with device.stream() as stream:
        points.sweep(now=True)
        for thing in range(3):
            points.retain(device._primary, stream.handle, thing)
        kept = [point.things for point in points.retained if point.key[1] == stream.handle]
        assert kept == ([[0, 1], [2]] if told else [[0], [1], [2]])
        stream.synchronize()
        numbers += range(40)
        for thing in range(40):
            points.retain(device._primary, stream.handle, thing)
            stream.synchronize()
        assert len(points.retained) < 40  # those that were reached are released meanwhile
    points.sweep(now=True)


def test_each_stream_of_ours_has_a_point_of_its_own(device, monkeypatch):
    """The driver is not asked which one it is, and may use the handle of one that was destroyed again."""
    points, told = module("gpu.core.points"), []
    monkeypatch.setitem(vars(device._primary.calls), "cuStreamGetId", lambda *given: told.append(given))
    with device.stream() as one, device.stream() as two, device.load(kernels.ADD) as code:
        points.sweep(now=True)
        for stream in (one, one, two):
            stream.wait_value(device.full(1, 1, "uint32", stream=stream), 1)
            points.retain(device, one.handle, stream, module("gpu.core.stream_arguments").release_of(stream))
        kept = [point.things for point in points.retained if point.key[1] == one.handle]
        assert kept == [[one, one], [two]]
        add, array = code["add"].configure(grid=1, block=4, stream=one), device.zeros(4, "float32")
        array.stream = None
        foreign = Lent(array)
        add(foreign, foreign, foreign, 4)
        rawcuda.copy(device.zeros(4, "float32"), foreign, stream=one)
        assert not told
        device.synchronize()


class Lent:
    """An array of another library."""

    def __init__(self, array):
        self.__cuda_array_interface__ = array.__cuda_array_interface__


def test_the_default_stream_of_the_next_thread_has_a_point_of_its_own(device):
    """The identifier of a thread that has ended is used again, nearly always at once."""
    points = module("gpu.core.points")
    memory, own = device.allocate(4, kind="pinned"), rawcuda.Stream.per_thread
    flag = memory.view("uint32").memoryview()
    flag[0] = 0
    things = [Thing(), Thing()]
    alive = [weakref.ref(thing) for thing in things]

    def first():
        with device.current():
            own.wait_value(memory.ptr, 1)
            points.retain(device, 2, things.pop(0))

    def second():
        with device.current():
            points.retain(device, 2, things.pop(0))
            own.synchronize()

    for work in (first, second):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    gc.collect()
    assert [thing() is not None for thing in alive] == [True, False]
    flag[0] = 1
    device.synchronize()
    points.sweep(now=True)
    gc.collect()
    assert not alive[0]()


@pytest.mark.parametrize("use", ["give to the CPU", "capture", "close", "copy in a capture"])
def test_what_work_used_is_released_while_no_lock_is_held(device, use):
    """A finalizer may close something, or wait for another thread, which waits for the lock."""
    handles, points = module("gpu.core.handles"), module("gpu.core.points")

    class Watching:
        def __del__(self):
            locked.append([lock._is_owned() for lock in (handles.destroying, points.beginning)])

    locked, closing = [], device.stream()
    with device.stream() as one, device.stream() as other, device.stream(nonblocking=False) as blocking:
        x, y = device.full(4, 1, "float32", stream=one), device.full(4, 1, "float32", stream=closing)
        shared = device.allocate(16, kind="managed").view("float32").fill(3, stream=one)
        y.fill(2)
        new = device.empty(4, "float32")
        points.retain(device, other.handle, Watching())
        device._primary.calls.cuStreamSynchronize(other._argument or other._prepare())
        if use == "give to the CPU":
            shared.__array_interface__
        elif use == "close":
            closing.close()
        else:
            with (blocking if use == "capture" else other).capture() as graph:
                new.fill(4, stream=blocking) if use == "capture" else x.fill(4, stream=other)
            graph.close()
        for _ in range(16):
            points.sweep()
        device.synchronize()
    closing.close()
    assert locked == [[False, False]]


def test_points_that_were_waited_for_are_released(device):
    """A program may give managed memory to the CPU again and again, and do nothing else that waits."""
    points = module("gpu.core.points")
    with device.stream() as stream:
        shared = device.allocate(16, kind="managed").view("float32").fill(3, stream=stream)
        points.sweep(now=True)
        before = len(points.retained), len(device._primary.events)
        for _ in range(5):
            shared.__array_interface__
        assert len(points.retained) == before[0] and len(device._primary.events) <= before[1] + 1
        value = device.zeros(1, "uint32")
        device.synchronize()
        for _ in range(100):
            with device.stream() as other:
                other.write_value(value, 1)
        assert len(points.retained) < 100
    points.sweep(now=True)


class Thing:
    """Something that work uses."""


@pytest.mark.parametrize(
    "code, is_over",
    [(2, False), (800, False), (900, False), (999, False), (201, True), (400, True), (709, True), (719, True)],
)
def test_what_work_uses_is_kept_after_an_error_that_does_not_end_the_work(device, monkeypatch, code, is_over):
    """The next sweep asks again. An event that does not exist any more belonged to a context that has ended."""
    points, primary = module("gpu.core.points"), device._primary

    def refuse(event):
        raise errors.from_code(code, "AN_ERROR", "it is refused", "cuEventQuery")

    with device.stream() as stream:
        points.sweep(now=True)
        thing = Thing()
        watched = weakref.ref(thing)
        points.retain(primary, stream.handle, thing)
        del thing
        primary.calls.cuEventQuery  # so that the attribute exists
        monkeypatch.setitem(vars(primary.calls), "cuEventQuery", refuse)
        points.sweep(now=True)
        monkeypatch.undo()
        assert (watched() is None) == is_over
        stream.synchronize()
        points.sweep(now=True)
        assert watched() is None


def test_a_wait_that_is_refused_gives_its_event_back(device, monkeypatch):
    primary = device._primary
    with device.stream() as one, device.stream() as two:
        one.wait(two)
        two.record()
        events = len(primary.events)

        def refused(*_):
            raise errors.InvalidUse("refused", code=1)

        with monkeypatch.context() as patched:
            patched.setitem(primary.calls.__dict__, "cuEventRecord", refused)
            patched.setattr(module("gpu.core.stream_arguments")._ways, "answers", {})
            for _ in range(3):
                with pytest.raises(errors.InvalidUse):
                    one.wait(two)
        one.wait(two)
        assert len(primary.events) == events


@pytest.mark.parametrize("use", ["fill", "copy to the host", "wait for all"])
def test_what_runs_inside_a_call_of_the_driver_waits_for_no_lock(device, use):
    """In a __del__ or a signal handler, another thread may hold a lock, and wait for the end of that call."""
    handles, points = module("gpu.core.handles"), module("gpu.core.points")
    held, end, done = threading.Event(), threading.Event(), []
    one, other = device.stream(), device.stream()
    x = device.full(4, 1, "float32", stream=one)
    uses = {
        "fill": lambda: x.fill(2, stream=other),
        "copy to the host": lambda: x.download(stream=other),
        "wait for all": rawcuda.synchronize,
    }

    def hold():
        with handles.destroying, points.beginning:
            held.set()
            end.wait(WAIT)

    threads = [threading.Thread(target=hold), threading.Thread(target=lambda: done.append(uses[use]()))]
    threads[0].start()
    held.wait(WAIT)
    inside = lambda: threading.current_thread() is threads[1]
    owned.calling.append(inside)
    try:
        threads[1].start()
        threads[1].join(5)
        assert done
    finally:
        owned.calling.remove(inside)
        end.set()
        for thread in threads:
            thread.join()
        one.close()
        other.close()


@pytest.mark.parametrize("how", ["closed", "dropped"])
def test_a_release_for_which_memory_is_short_is_made_later(device, monkeypatch, how):
    lifetime, released = module("gpu.core.handles").Lifetime, []
    call = lifetime._call

    def refused(self):
        monkeypatch.setattr(lifetime, "_call", counted)
        raise module("errors").OutOfMemory("short", code=2)

    def counted(self):
        call(self)
        released.append(self.value)

    memory = device.allocate(64)
    handle = memory.handle
    monkeypatch.setattr(lifetime, "_call", refused)
    if how == "closed":
        memory.close()
    del memory
    for _ in range(2):
        owned.drain()
    assert released == [handle]
