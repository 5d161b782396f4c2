"""Streams and events: the order of work in each of the three modes, and the work for which a call waits."""

from __future__ import annotations

import ctypes
import itertools
import signal
import struct
import sys
import threading
import time

import pytest

from tests.emulator.emulator_client import Client
from tests.emulator.test_ptx_linear import steps
from tests.subject import module

HostFunction = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
MODES = [("eager", 0), ("lazy", 0), *(("random", seed) for seed in range(6))]
OUT = ctypes.c_uint64()


@pytest.fixture(params=MODES, ids=lambda mode: f"{mode[0]}{mode[1]}")
def client(request):
    made = Client(*request.param)
    yield made
    assert not made.emulator.kept_exceptions


class Log:
    """A number in device memory to which kernels append digits, which shows the order in which they ran."""

    def __init__(self, client):
        self.client, self.step = client, client.kernels()("step")
        self.at = client.allocate(4)
        client.do("cuMemsetD32_v2", self.at, 0, 1)
        client.do("cuCtxSynchronize")

    def append(self, digit, stream):
        assert self.client.launch(self.step, [self.at, struct.pack("<I", digit)], stream=stream) == 0

    def read(self):
        self.client.do("cuCtxSynchronize")
        return self.client.number(self.at)


# -- order


def test_a_stream_is_in_order(client):
    log, stream = Log(client), client.stream()
    for digit in range(1, 8):
        log.append(digit, stream)
    assert log.read() == 1234567


def test_an_event_orders_two_streams(client):
    log, first, second, event = Log(client), client.stream(), client.stream(), client.event(2)
    log.append(1, first)
    log.append(2, first)
    client.do("cuEventRecord", event, first)
    client.do("cuStreamWaitEvent", second, event, 0)
    log.append(3, second)
    log.append(4, second)
    assert log.read() == 1234


def test_a_wait_is_for_the_record_before_it(client):
    log, first, second, event = Log(client), client.stream(), client.stream(), client.event(2)
    log.append(1, first)
    client.do("cuEventRecord", event, first)
    client.do("cuStreamWaitEvent", second, event, 0)
    client.do("cuEventRecord", event, second)  # a later record does not change an earlier wait
    log.append(2, second)
    client.do("cuEventDestroy_v2", event)  # nor does destroying the event
    assert log.read() == 12


def test_an_event_that_was_never_recorded_holds_up_nothing(client):
    log, stream, event = Log(client), client.stream(), client.event()
    client.do("cuStreamWaitEvent", stream, event, 0)
    assert client.code("cuEventQuery", event) == 0
    assert client.code("cuEventSynchronize", event) == 0
    log.append(5, stream)
    assert log.read() == 5


@pytest.mark.parametrize("legacy", [0, 1])
def test_the_legacy_stream_joins_the_blocking_ones(client, legacy):
    log, first, second = Log(client), client.stream(0), client.stream(0)
    log.append(1, first)
    log.append(2, legacy)
    log.append(3, second)
    log.append(4, legacy)
    log.append(5, first)
    assert log.read() == 12345


def test_the_per_thread_stream_is_a_blocking_one_of_each_thread(client):
    log = Log(client)
    log.append(1, 2)
    log.append(2, 0)
    log.append(3, 2)
    assert log.read() == 123
    idents = []

    def other():
        client.do("cuCtxSetCurrent", client.context)
        ident = ctypes.c_uint64()
        client.do("cuStreamGetId", 2, ident)
        idents.append(ident.value)

    other()
    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert idents[0] != idents[1]


def test_the_per_thread_streams_of_ended_threads_do_not_stay(client):
    def other():
        client.do("cuCtxSetCurrent", client.context)
        client.do("cuStreamQuery", 2)

    streams = client.emulator._machine.handles[client.context].streams
    other()
    before = len(streams)
    for _ in range(20):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert len(streams) <= before + 2


def test_a_non_blocking_stream_does_not_join():
    client = Client("lazy")
    log, stream = Log(client), client.stream(1)
    log.append(1, 0)
    log.append(2, stream)
    client.do("cuStreamSynchronize", stream)  # runs only the work that this stream needs
    log.append(3, stream)
    assert log.read() in (213, 231)


def test_random_mode_tries_different_orders_and_repeats_a_seed():
    def orders(seed):
        client = Client("random", seed)
        log, streams = Log(client), [client.stream() for _ in range(3)]
        for digit, stream in zip(range(1, 7), itertools.cycle(streams)):
            log.append(digit, stream)
        return log.read()

    seen = {orders(seed) for seed in range(12)}
    assert len(seen) > 4
    assert orders(5) == orders(5)
    for number in seen:  # 1 before 4, 2 before 5, 3 before 6, each in its stream
        text = str(number)
        assert all(text.index(before) < text.index(after) for before, after in ("14", "25", "36"))


def test_lazy_mode_does_as_little_as_is_allowed():
    client = Client("lazy")
    first, second, memory = client.stream(), client.stream(), client.allocate(8)
    pinned = client.pinned(b"1111")
    for at, stream in ((memory, first), (memory + 4, second)):
        client.do("cuMemcpyHtoDAsync_v2", at, pinned, 4, stream)
    client.do("cuStreamSynchronize", first)
    ctypes.memmove(pinned, b"2222", 4)  # too early for the second copy
    client.do("cuCtxSynchronize")
    assert client.download(memory, 8) == b"11112222"


# -- queries and waits


def test_a_missing_wait_is_found_in_linear_time(capfd):
    """It took the third power of the pending work, which need not have to do with the kernel."""

    def measured(n):
        client = Client("lazy")
        kernel, first, second = client.kernels()("step"), client.stream(), client.stream()
        memory, other, event = client.allocate(4), client.allocate(4), client.event()
        assert client.launch(kernel, [memory, struct.pack("<I", 1)], stream=first) == 0
        client.do("cuEventRecord", event, first)
        for _ in range(n):  # all of this comes after the kernel
            client.do("cuMemsetD8Async", memory, 0, 4, first)
        client.do("cuMemsetD8Async", other, 0, 4, second)
        client.do("cuMemsetD8Async", memory, 0, 4, second)  # and this does not
        taken = steps(client, lambda _: client.do("cuEventSynchronize", event))
        assert sum("a fill, submitted" in report for report in client.emulator.reports) == 1
        return taken

    measured(0)
    none, few, many = map(measured, (0, 20, 200))
    assert many - none <= 12 * (few - none)


def test_queries_come_to_an_end(client):
    stream, event, memory = client.stream(), client.event(), client.allocate(64)
    for _ in range(5):
        client.do("cuMemsetD8Async", memory, 1, 64, stream)
    client.do("cuEventRecord", event, stream)
    client.do("cuMemsetD8Async", memory, 2, 64, stream)
    for name, handle in (("cuEventQuery", event), ("cuStreamQuery", stream)):
        for _ in range(200):
            code = client.code(name, handle)
            if code == 0:
                break
            assert code == 600
        assert code == 0


def test_a_query_before_the_work_is_done_is_600():
    client = Client("lazy")
    stream, event, memory = client.stream(), client.event(), client.allocate(4)
    client.do("cuMemsetD8Async", memory, 1, 4, stream)
    client.do("cuEventRecord", event, stream)
    assert client.code("cuStreamQuery", stream) == 600
    assert client.code("cuEventElapsedTime", OUT, event, event) == 600
    client.do("cuEventSynchronize", event)
    assert client.code("cuStreamQuery", stream) == 0


def test_the_legacy_stream_is_waited_for_with_all_that_it_joins(client):
    memory, stream = client.upload(bytes(4)), client.stream(0)
    client.do("cuMemsetD8Async", memory, 7, 4, stream)
    client.do("cuStreamSynchronize", 0)
    assert client.code("cuStreamQuery", stream) == 0


def test_a_destroyed_stream_still_does_its_work(client):
    log, stream = Log(client), client.stream()
    for digit in (1, 2, 3):
        log.append(digit, stream)
    client.do("cuStreamDestroy_v2", stream)
    assert client.code("cuStreamQuery", stream) == 400
    assert log.read() == 123
    assert client.live() == {"memory": 1, "module": 1}


def test_freeing_waits_for_work_that_uses_the_memory(client):
    source, target = client.upload(b"kept"), client.pinned(bytes(4))
    client.do("cuMemcpyDtoHAsync_v2", target, source, 4, client.stream())
    client.do("cuMemFree_v2", source)
    client.do("cuCtxSynchronize")
    assert ctypes.string_at(target, 4) == b"kept"


def test_unloading_waits_for_the_kernels(client):
    log, stream = Log(client), client.stream()
    loaded = client.get("cuFuncGetModule", log.step)
    log.append(4, stream)
    client.do("cuModuleUnload", loaded)
    assert client.code("cuLaunchKernel", log.step, 1, 1, 1, 1, 1, 1, 0, stream, 0, 0) == 400
    assert client.number(log.at) == 4


# -- time


def test_elapsed_time_is_a_clock(client):
    stream, start, end = client.stream(), client.event(), client.event()
    slept = HostFunction(lambda data: time.sleep(0.03))
    client.do("cuEventRecord", start, stream)
    client.do("cuLaunchHostFunc", stream, ctypes.cast(slept, ctypes.c_void_p).value, 0)
    client.do("cuEventRecord", end, stream)
    client.do("cuStreamSynchronize", stream)
    elapsed = ctypes.c_float()
    for name in ("cuEventElapsedTime", "cuEventElapsedTime_v2"):
        client.do(name, elapsed, start, end)
        assert 25 < elapsed.value < 60_000
    client.do("cuEventElapsedTime", elapsed, end, start)
    assert elapsed.value < -25


def test_elapsed_time_needs_two_recorded_events_with_timing(client):
    timed, untimed, unrecorded = client.event(), client.event(2), client.event()
    for event in (timed, untimed):
        client.do("cuEventRecord", event, 0)
    client.do("cuCtxSynchronize")
    for start, end in ((timed, untimed), (untimed, timed), (timed, unrecorded), (unrecorded, timed)):
        assert client.code("cuEventElapsedTime", OUT, start, end) == 400
    assert client.code("cuEventElapsedTime", OUT, timed, timed) == 0


# -- host functions


def test_a_host_function_has_its_place_in_the_stream(client):
    stream, seen = client.stream(), []
    pinned = client.pinned(bytes(4))
    memory = client.allocate(4)

    @HostFunction
    def look(data):
        seen.append((data, ctypes.string_at(pinned, 4)))

    for value in (1, 2, 3):
        client.do("cuMemsetD8Async", memory, value, 4, stream)
        client.do("cuMemcpyDtoHAsync_v2", pinned, memory, 4, stream)
        client.do("cuLaunchHostFunc", stream, ctypes.cast(look, ctypes.c_void_p).value, value)
    client.do("cuStreamSynchronize", stream)
    assert seen == [(1, b"\x01" * 4), (2, b"\x02" * 4), (3, b"\x03" * 4)]


def test_a_host_function_may_use_managed_memory(monkeypatch):
    """Without concurrent access, too, and after the call that has launched it has returned."""
    client = Client("eager", cma=False)
    memory, stream, returned, found = client.get("cuMemAllocManaged", 4, 1), client.stream(), threading.Event(), []
    client.do("cuMemsetD8_v2", memory, 5, 4)
    protected = []
    monkeypatch.setattr(module("emulator.machine.host_access"), "_protect", lambda *how: protected.append(how))

    def use(data):
        returned.wait(60)
        found.append(list(protected) or ctypes.string_at(memory, 4))

    function = HostFunction(use)
    client.do("cuLaunchHostFunc", stream, ctypes.cast(function, ctypes.c_void_p).value, 0)
    returned.set()
    client.do("cuStreamSynchronize", stream)
    assert found == [b"\5\5\5\5"]


def test_an_error_has_the_reason_of_its_own_thread(client):
    def work():
        client.do("cuCtxSetCurrent", client.context)
        for address in (0x2000, 0x3000):
            assert client.code("cuMemFree_v2", address) == 1

    other = threading.Thread(target=work)
    assert client.code("cuMemFree_v2", 0x1000) == 1
    other.start()
    other.join()
    assert "0x1000" in client.emulator.explain(1)
    assert client.code("cuMemFree_v2", 0x1000) == 1
    assert "0x1000" in client.emulator.explain(1) and client.emulator.explain(1) is None


def test_two_threads_wait_for_each_other_s_streams(client):
    """Work runs in the thread that waits for it; both threads may run the same work, and both calls must return."""
    log, streams = Log(client), [client.stream(), client.stream()]
    events = [client.event(2), client.event(2)]

    def work(mine, other):
        client.do("cuCtxSetCurrent", client.context)
        for _ in range(20):
            client.do("cuMemsetD8Async", memory + 4 * mine, mine, 4, streams[mine])
            client.do("cuEventRecord", events[mine], streams[mine])
            client.do("cuStreamWaitEvent", streams[mine], events[other], 0)
            client.do("cuStreamSynchronize", streams[mine])

    memory = client.allocate(8)
    threads = [threading.Thread(target=work, args=pair) for pair in ((0, 1), (1, 0))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    assert client.download(memory, 8) == bytes(4) + b"\x01" * 4
    assert log.read() == 0


@pytest.mark.parametrize("mode", ["lazy", "random"])
def test_a_launch_waits_if_its_context_holds_1024_pieces_of_work(mode):
    """Meanwhile, calls of other threads wait for it, so that a lock that a host function needs must not be held."""
    client = Client(mode)
    log, stream, queues = Log(client), client.stream(), client.emulator._machine.queues
    release, launched, finished = threading.Event(), [], []
    held = waits_for(client, stream, release)
    for _ in range(1020):
        client.do("cuMemsetD32Async", log.at, 0, 1, stream)

    def launch():
        client.do("cuCtxSetCurrent", client.context)
        for digit in range(1, 8):
            log.append(digit, stream)
            launched.append(digit)

    def allocate():
        client.do("cuCtxSetCurrent", client.context)
        client.allocate(4)
        finished.append(1)

    threads = [threading.Thread(target=work) for work in (launch, allocate)]
    try:
        threads[0].start()
        deadline = time.monotonic() + 30
        while not queues.crowded and time.monotonic() < deadline:
            time.sleep(0.01)
        threads[1].start()
        time.sleep(0.2)
        assert launched == [1, 2, 3] and not finished
    finally:
        release.set()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert finished and held
    assert log.read() == 1234567


@pytest.mark.parametrize("what", ["launch", "share"])
def test_a_call_inside_of_another_one_that_waits_for_a_kernel_holds_no_lock(what):
    """A signal handler or a __del__ may make it: the thread holds the locks of the outer call, too."""
    if what == "share" and not module("emulator.machine.sharing").is_supported():
        pytest.skip("files in memory are of Linux")
    client, order, handle = Client("eager"), [], bytes(64)
    machine, nothing, stream = client.emulator._machine, client.kernels()("nothing"), client.stream()
    memory = client.allocate(4)

    def inside():
        with machine.lock, machine.space.lock:  # as if the outer call had them
            if what == "launch":
                code = client.launch(nothing, [], stream=stream)
            else:
                code = client.code("cuIpcGetMemHandle", handle, memory)
            order.append("inside")
        return code

    def other():
        client.allocate(4)
        order.append("other")
        return 0

    def missed():
        machine.queues.missed(machine.space.find(memory))  # the kernel asks this about memory that was never written
        order.append("missed")
        return 0

    assert client.during_a_kernel(inside, missed, other) == [0, 0, 0]
    assert sorted(order[:2]) == ["missed", "other"]


def test_an_interrupt_ends_a_launch_that_waits():
    client = Client("lazy")
    log, stream, release = Log(client), client.stream(), threading.Event()
    held = waits_for(client, stream, release)
    for _ in range(1023):
        client.do("cuMemsetD32Async", log.at, 0, 1, stream)
    try:
        threading.Timer(0.2, signal.pthread_kill, [threading.get_ident(), signal.SIGINT]).start()
        with pytest.raises(KeyboardInterrupt):
            client.launch(log.step, [log.at, struct.pack("<I", 0)], stream=stream)
            for _ in range(1000):
                time.sleep(0.01)  # the interrupt is raised in the caller, a moment after the call
        assert not client.emulator._machine.queues.crowded
    finally:
        release.set()
    assert client.allocate(4) and held
    assert log.read() == 0


def waits_for(client, stream, release):
    """Queue a host function that waits for an event, and return the C function, which must be kept."""
    function = HostFunction(lambda _: release.wait(30))
    client.do("cuLaunchHostFunc", stream, ctypes.cast(function, ctypes.c_void_p).value, 0)
    return function


def test_a_batch_is_queued_whole_or_not_at_all(client):
    stream, memory = client.stream(), client.upload(bytes(4))
    for kind, code in ((3, 801), (9, 1)):  # a flush of remote writes, and no operation
        batch = struct.pack("<i4xQQI20x", 2, memory, 7, 0) + struct.pack("<i4xQQI20x", kind, 0, 0, 0)
        assert client.code("cuStreamBatchMemOp_v2", stream, 2, batch, 0) == code
    client.do("cuStreamSynchronize", stream)
    assert client.number(memory) == 0


# -- attributes


def test_facts_of_a_stream(client):
    stream = client.get("cuStreamCreateWithPriority", 1, -2)
    priority, flags, context, device = ctypes.c_int(), ctypes.c_uint(), ctypes.c_uint64(), ctypes.c_int(9)
    client.do("cuStreamGetPriority", stream, priority)
    client.do("cuStreamGetFlags", stream, flags)
    client.do("cuStreamGetCtx", stream, context)
    client.do("cuStreamGetDevice", stream, device)
    assert (priority.value, flags.value, context.value, device.value) == (-2, 1, client.context, 0)
    for asked, got in ((-99, -5), (7, 0)):
        clamped = client.get("cuStreamCreateWithPriority", 0, asked)
        client.do("cuStreamGetPriority", clamped, priority)
        assert priority.value == got
    client.do("cuStreamGetFlags", 0, flags)
    assert flags.value == 0


def test_what_is_alive_is_counted_by_kind(client):
    assert client.live() == {}
    stream, event, memory, pinned = client.stream(), client.event(), client.allocate(4), client.pinned(b"1")
    client.kernels()
    assert client.live() == {"stream": 1, "event": 1, "memory": 2, "module": 1}
    client.do("cuMemFree_v2", memory)
    client.do("cuMemFreeHost", pinned)
    client.do("cuStreamDestroy_v2", stream)
    client.do("cuEventDestroy_v2", event)
    assert client.live() == {"module": 1}


def test_nothing_is_left_waiting(client):
    queues = client.emulator._machine.queues
    log, stream = Log(client), client.stream()
    for digit in range(5):
        log.append(digit, stream)
    log.read()
    assert not queues._busy
    assert module("emulator.machine.queues").INSTANT == 0


# -- events that other processes may wait for

SHARED = """
import faulthandler, os, resource, sys, time
from tests.subject import rawcuda, module
faulthandler.dump_traceback_later(20, exit=True)
sharing, emulator = module("emulator.machine.sharing"), module("driver").current().libcuda
machine, queues = emulator._machine, emulator._machine.queues
device = rawcuda.Device(0)
stream, event = device.stream(), device.event(shareable=True)

def record(seconds):
    stream.call(time.sleep, seconds)
    event.record(stream)
    return queues.marks[-1]

def is_reached(entry):
    deadline = time.monotonic() + 10
    while entry[1]._read()[1] < entry[2] and time.monotonic() < deadline:
        time.sleep(0.01)
    with machine.lock:
        return entry not in queues.marks
"""
NO_DESCRIPTORS = (
    SHARED
    + """
entry = record(0.2)
limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (64, limit))
taken = []
try:
    while True:
        taken.append(os.open("/dev/null", 0))
except OSError:
    pass
first, alive = is_reached(entry), sharing.alive(os.getpid())
sys.modules.pop("traceback", None)
machine.keep(ValueError())
for descriptor in taken:
    os.close(descriptor)
print(first, alive, len(emulator.kept_exceptions), is_reached(record(0.1)))
"""
)
FAILING = (
    SHARED
    + """
change, failing = sharing.SharedMark._change, [OSError(5), MemoryError()]
def fail(mark, number=0):
    if number and failing:
        raise failing.pop()
    return change(mark, number)
sharing.SharedMark._change = fail
entry = record(0.2)
print(is_reached(entry), len(failing), len(emulator.kept_exceptions), is_reached(record(0.1)))
"""
)


@pytest.mark.skipif(not module("emulator.machine.sharing").is_supported(), reason="files in memory are of Linux")
def test_a_shared_event_is_reached_although_no_file_can_be_opened(python):
    """Another process waits for it, and the one that recorded it may make no call."""
    result = python(NO_DESCRIPTORS, env={"RAWCUDA_DRIVER": "emulator", "RAWCUDA_EMULATOR": "lazy"})
    assert result.stdout == "True True 1 True\n" and not result.stderr, result.stdout + result.stderr


@pytest.mark.skipif(not module("emulator.machine.sharing").is_supported(), reason="files in memory are of Linux")
def test_a_shared_event_is_reached_after_an_error_on_the_way(python):
    result = python(FAILING, env={"RAWCUDA_DRIVER": "emulator", "RAWCUDA_EMULATOR": "lazy"})
    assert result.stdout == "True 0 2 True\n" and not result.stderr, result.stdout + result.stderr


# -- calls of a __del__ or of a signal handler inside another call


@pytest.mark.parametrize("mode", MODES[:4], ids=lambda mode: f"{mode[0]}{mode[1]}")
def test_a_call_between_any_two_lines_of_the_queues(mode, monkeypatch):
    """Python runs signal handlers there, and a garbage collection may run a __del__: no such call may run work that the
    interrupted call is about to run, or wait for it."""
    client = Client(*mode)
    queues = client.emulator._machine.queues
    log, stream, other = Log(client), client.stream(), client.allocate(4)
    host = ctypes.create_string_buffer(4)
    hit, nth, refused = True, 0, set()

    def wait(seconds):
        raise RuntimeError("this would wait for ever")

    monkeypatch.setattr(queues._changed, "wait", wait)

    def inside():
        codes = [
            client.launch(log.step, [log.at, struct.pack("<I", 2)], stream=stream),
            client.code("cuStreamSynchronize", stream),
            client.code("cuMemsetD32Async", other, 5, 1, stream),
            client.code("cuMemcpyDtoHAsync_v2", host, other, 4, stream),
            client.code("cuMemFree_v2", client.allocate(4)),
        ]
        assert codes[0] == codes[2] == codes[4] == 0
        refused.update((codes[1], codes[3]))

    while hit:
        nth, passed, hit = nth + 1, 0, False

        def trace(frame, event, argument, nth=nth):
            nonlocal passed, hit
            if frame.f_code.co_filename != type(queues).submit.__code__.co_filename:
                return None
            if event == "line":
                passed += 1
                if passed == nth:
                    hit = True
                    inside()
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            log.append(1, stream)
            client.do("cuMemsetD32Async", other, 6, 1, stream)
            client.do("cuStreamSynchronize", stream)
        finally:
            sys.settrace(before)
        assert log.read() in ((12, 21) if hit else (1,)), f"after a call at line {nth}"
        assert client.number(other) in (5, 6) and not queues._busy and not queues._inside and not queues._late
        client.do("cuMemsetD32_v2", log.at, 0, 1)
        client.do("cuCtxSynchronize")
    assert nth > 30 and refused == {0, 800} and not client.emulator.kept_exceptions
