"""Host functions: Python functions that a stream calls."""

import contextlib
import ctypes
import gc
import sys
import threading
import weakref

import pytest

from tests.driver import kernels
from tests.subject import module, rawcuda

cuda_h, errors = module("headers.cuda_h"), module("errors")
tracing, ownership = module("tracing"), module("ownership")


class Broken(Exception):
    pass


def raiser(error):
    def raise_it():
        raise error

    return raise_it


def test_functions_run_in_stream_order(device):
    seen = []
    with device.stream() as stream, device.allocate(4, kind="pinned") as memory:
        inside = memory.view().memoryview()  # (making one waits for pending work)
        memory.fill(1, stream=stream)
        stream.call(lambda: seen.append(bytes(inside)))
        memory.fill(2, stream=stream)
        stream.call(seen.append, "second")
        stream.call(lambda *given: seen.append(given), 1, None, "x")
        stream.synchronize()
    assert seen == [b"\1" * 4, "second", (1, None, "x")]


def test_later_work_waits_for_the_function(device):
    gate = threading.Event()
    with device.stream() as stream, device.allocate(4, kind="pinned") as memory:
        inside = memory.view("uint32").memoryview()
        inside[0] = 1
        stream.call(gate.wait, 60)
        stream.write_value(memory, 7)
        assert stream.query() is False and inside[0] == 1
        timer = threading.Timer(0.05, gate.set)
        timer.start()
        stream.synchronize()
        assert inside[0] == 7
        timer.join()


def test_a_function_runs_in_another_thread_without_ours(device):
    where = []
    with device.stream() as stream:
        stream.call(lambda: where.append(threading.get_ident()))
        stream.synchronize()
    assert where and where[0] != threading.get_ident()


@pytest.mark.parametrize("kind", ["ours", "legacy", "per_thread", "borrowed", "blocking"])
def test_every_kind_of_stream(device, kind):
    seen = []
    own = device.stream()
    stream = {
        "ours": own,
        "legacy": rawcuda.Stream.legacy,
        "per_thread": rawcuda.Stream.per_thread,
        "borrowed": rawcuda.Stream.from_handle(own.handle),
        "blocking": device.stream(nonblocking=False),
    }[kind]
    with device.current():
        stream.call(seen.append, 1)
        stream.synchronize()
        stream.call(raiser(Broken("x")))
        with pytest.raises(Broken):
            stream.synchronize()
        stream.synchronize()
    stream.close()
    own.close()
    assert seen == [1]


def test_an_exception_is_raised_by_the_next_synchronization_of_that_stream(device):
    with device.stream() as one, device.stream() as two:
        error = Broken("from the function")
        one.call(raiser(error))
        one.call(raiser(Broken("second")))
        two.call(int)
        two.synchronize()
        with pytest.raises(Broken, match="from the function") as caught:
            one.synchronize()
        assert caught.value is error
        with pytest.raises(Broken, match="second"):  # none is lost
            one.synchronize()
        one.synchronize()


@pytest.mark.parametrize("wait", ["device", "all"])
def test_the_device_raises_too(device, wait):
    with device.stream() as stream:
        stream.call(raiser(Broken("once")))
        with pytest.raises(Broken, match="once"):
            device.synchronize() if wait == "device" else rawcuda.synchronize()
        stream.synchronize()
        device.synchronize()


def test_a_closed_stream_leaves_its_exception_to_the_device(device):
    stream = device.stream()
    stream.call(raiser(Broken("late")))
    stream.close()
    with device.stream() as other:  # it may get the handle of the closed one
        other.synchronize()
    with pytest.raises(Broken, match="late"):
        device.synchronize()


def test_an_ended_thread_leaves_its_exception_to_the_device(device):
    """The identifier of a thread that has ended is used again, nearly always at once."""

    def first():
        with device.current():
            rawcuda.Stream.per_thread.call(raiser(Broken("of the first thread")))

    def second():
        with device.current():
            rawcuda.Stream.per_thread.call(done.append, "function")
            rawcuda.Stream.per_thread.synchronize()
        done.append("thread")

    done = []
    for work in (first, second):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert done == ["function", "thread"]
    with pytest.raises(Broken, match="of the first thread"):
        device.synchronize()


def test_even_an_exit_is_passed_on(device):
    with device.stream() as stream:
        stream.call(raiser(SystemExit(3)))
        with pytest.raises(SystemExit):
            stream.synchronize()


def test_a_function_may_not_call_the_driver(device):
    with device.stream() as stream, device.event() as event:
        for use in (lambda: device.allocate(4), stream.synchronize, lambda: stream.record(event), device.synchronize):
            stream.call(use)
            with pytest.raises(rawcuda.InvalidUse, match="host function may not call the driver"):
                stream.synchronize()
        stream.synchronize()


def test_a_function_is_refused_before_the_driver_is_asked(device):
    """A driver may wait for ever instead: cuLaunchHostFunc does not promise a refusal."""
    nothing, careful = kernels.HEAD + ".visible .entry nothing() { ret; }", list(tracing.careful)
    with device.load(nothing) as loaded, device.stream() as stream, device.event() as event:
        launch = loaded["nothing"].configure(grid=1, block=1, stream=stream)
        launch()
        uses = [launch, event.query, stream.query, lambda: rawcuda.cu.cuDeviceGetCount(None), device.synchronize]
        for use in uses:
            stream.call(use)
            with pytest.raises(rawcuda.InvalidUse, match="let it tell another thread") as raised:
                stream.synchronize()
            assert raised.value.code == 800
        launch()
        stream.synchronize()
    assert tracing.careful == careful and not ownership.serving


def test_what_a_function_closes_is_released_later(device):
    memory, event, heard = device.allocate(64), device.event(), []
    with device.stream() as stream:
        with rawcuda.trace(lambda each: heard.append(each.thread)):
            stream.call(memory.close)
            stream.call(event.close)
            stream.synchronize()
            assert memory.closed and event.closed
            device.allocate(4).close()  # this releases them
    assert {*heard} == {threading.get_ident()}


@pytest.mark.parametrize("kind", ["texture", "pinned", "virtual"])
def test_what_a_function_closes_is_released_after_the_work_that_uses_it(device, kind):
    """The work may be on other streams, so all work of the context must be done, as if it were closed elsewhere."""
    made, ending = {
        "texture": (lambda: device.texture(array), "cuTexObjectDestroy"),
        "pinned": (lambda: device.allocate(64, kind="pinned"), "cuMemFreeHost"),
        "virtual": (lambda: device.virtual_memory(64), "cuMemUnmap"),
    }[kind]
    calls = []
    with device.stream() as stream, device.array((4, 4), "float32") as array:
        used = made()
        with rawcuda.trace(lambda event: calls.append(getattr(event, "name", ""))):
            stream.call(used.close)
            stream.synchronize()  # this releases it
        assert used.closed and calls.index("cuCtxSynchronize") < calls.index(ending), calls


def test_what_ends_with_a_function_is_released_later(device):
    """The last reference to the function is that of the stream: finalizers run where it ran, after it."""
    gate, refused, thread = threading.Event(), [], threading.get_ident()

    class Job:
        def __init__(self):
            self.memory, self.event = device.allocate(4), device.event()

        def wait(self):
            gate.wait(60)

        def __del__(self):
            self.memory.close()
            try:
                self.event.synchronize()
            except errors.InvalidUse as error:
                refused.append((threading.get_ident() != thread, "host function" in str(error)))

    with device.stream() as stream:
        stream.call(Job().wait)
        gate.set()
        stream.synchronize()
    device.synchronize()
    assert refused == [(True, True)]


CLOSED_THERE = {
    "memory": lambda device: device.allocate(64),
    "memory of a stream": lambda device: device.allocate(64, stream=rawcuda.Stream.per_thread),
    "pinned": lambda device: device.allocate(64, kind="pinned"),
    "virtual": lambda device: device.virtual_memory(64),
    "stream": lambda device: device.stream(),
    "event": lambda device: device.event(),
    "module": lambda device: device.load(kernels.ADD),
    "library": lambda device: rawcuda.Library(kernels.ADD),
}


REFUSED = ("cuCtxGetCurrent", "cuCtxPushCurrent_v2", "cuLibraryUnload", "cuThreadExchangeStreamCaptureMode")


@pytest.mark.codes(*(f"{name} returned 800" for name in REFUSED))
@pytest.mark.parametrize("kind", CLOSED_THERE)
def test_what_a_function_of_other_software_closes_is_released_later(device, library, kind):
    """We do not know that it is one: the driver refuses the release."""
    if library is None:
        pytest.skip("a driver may wait for ever")
    with device.stream() as stream, device.current():
        before = library.live_handles()
        made = CLOSED_THERE[kind](device)
        function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: made.close())
        rawcuda.cu.cuLaunchHostFunc(cuda_h.CUstream(stream.handle), ctypes.cast(function, ctypes.c_void_p).value, None)
        stream.synchronize()
        assert made.closed
        gc.collect()
        ownership.drain()
        assert library.live_handles() == before


def test_a_function_lives_until_it_has_run(device):
    class Function:
        def __call__(self):
            seen.append(1)

    seen, gate, function = [], threading.Event(), Function()
    gone = weakref.ref(function)
    with device.stream() as stream:
        stream.call(gate.wait, 60)
        stream.call(function)
        del function
        gc.collect()
        assert gone() is not None
        gate.set()
        stream.synchronize()
        gc.collect()
        assert seen == [1] and gone() is None


def test_functions_in_a_graph_run_in_each_launch(device):
    class Function:
        def __call__(self):
            seen.append(1)

    seen, function = [], Function()
    gone = weakref.ref(function)
    with device.stream() as stream, device.stream() as other:
        with stream.capture() as graph:
            stream.call(function)
        del function
        stream.synchronize()
        assert not seen
        graph.launch(stream)
        graph.launch(other)
        stream.synchronize()
        other.synchronize()
        assert seen == [1, 1] and gone() is not None
        graph.close()
        device.synchronize()
        del graph
        gc.collect()
        device.synchronize()
        assert gone() is None


@pytest.mark.parametrize("how", ["captured", "added"])
def test_a_graph_whose_function_refers_to_it_is_collected(device, how):
    class Pipeline:
        def __init__(self, stream):
            self.calls = 0
            if how == "captured":
                with stream.capture() as self.graph:
                    stream.call(self.count)
            else:
                self.graph = device.graph()
                self.graph.callback(self.count)
            self.executable = self.graph.instantiate()

        def count(self):
            self.calls += 1

    with device.stream() as stream:
        one = Pipeline(stream)
        for _ in range(2):
            gc.collect()
            one.executable.launch(stream)
        stream.synchronize()
        assert one.calls == 2
        known = weakref.ref(one)
        del one
        gc.collect()
        assert known() is None


def test_no_python_code_runs_when_a_function_of_a_graph_is_let_go_of(device):
    """Python prints an exception of a signal handler in such code, and ignores it; the entry would stay, too."""
    functions, ran = module("gpu.core.host_functions"), []
    number, made = functions._in_graph(print, ())
    was = sys.getprofile()
    sys.setprofile(lambda frame, event, _: ran.append(frame.f_code.co_name) if event == "call" else None)
    del made
    sys.setprofile(was)
    assert number not in functions._graph_calls and not ran


def test_an_exception_in_a_graph_is_raised_where_that_is_waited_for(device):
    with device.stream() as stream, device.stream() as other:
        with stream.capture() as graph:
            stream.call(raiser(Broken("in a graph")))
        graph.launch(other)
        with pytest.raises(Broken, match="in a graph"):
            other.synchronize()
        graph.launch(other)
        with pytest.raises(Broken):
            device.synchronize()
        graph.close()


@pytest.mark.parametrize("how", ["a node", "joined"])
def test_an_exception_in_a_graph_is_raised_by_a_wait_for_a_stream_of_another_device(device, how):
    if len(rawcuda.devices()) < 2:
        pytest.skip("needs two devices")
    there = rawcuda.Device(1)
    with device.stream() as stream, there.stream() as other:
        if how == "a node":
            graph, last = device.graph(), other
            graph.callback(raiser(Broken("in a graph")))
        else:
            with stream.capture() as graph:
                other.wait(stream)
                other.call(raiser(Broken("in a graph")))
                stream.wait(other)
            last = stream
        for wait in last.synchronize, last.device.synchronize:
            graph.launch(last)
            with pytest.raises(Broken, match="in a graph"):
                wait()
        graph.close()


@pytest.mark.parametrize("wrong", [None, 3, "f", b"", (), [print]])
def test_what_is_no_function(device, wrong):
    with device.stream() as stream:
        with pytest.raises(TypeError, match="call\\(\\) needs a function"):
            stream.call(wrong)
    with pytest.raises(rawcuda.Closed):
        stream.call(print)


def test_many_functions_and_threads(device):
    seen = []

    def queue(number):
        with device.stream() as stream:
            for step in range(50):
                stream.call(seen.append, (number, step))
            stream.synchronize()

    threads = [threading.Thread(target=queue, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in range(4):
        assert [step for other, step in seen if other == number] == list(range(50))


def test_a_trace_shows_the_call(device):
    heard = []
    with device.stream() as stream:
        with rawcuda.trace(lambda event: heard.append(event.name if hasattr(event, "name") else "")):
            stream.call(int)
            stream.synchronize()
    assert "cuLaunchHostFunc" in heard


def test_a_function_after_a_kernel_sees_its_result(device):
    with device.load(kernels.ADD) as loaded, device.stream() as stream:
        import array

        ones = device.upload(array.array("f", [1.0] * 4))
        out = device.allocate(16, kind="pinned").view("float32")
        seen, inside = [], out.memoryview()
        loaded["add"].launch(ones, ones, out, 4, grid=1, block=4, stream=stream)
        stream.call(lambda: seen.append(list(inside)))
        stream.synchronize()
        assert seen == [[2.0] * 4]


def test_functions_are_waited_for_at_the_end_of_python(python):
    """A function that is still to run, runs; an exception that nobody has seen is printed."""
    result = python("""
        from tests.subject import rawcuda
        device = rawcuda.Device(0)
        stream = device.stream()
        def fail():
            raise ValueError("unseen")
        stream.call(lambda: print("it ran", flush=True))
        stream.call(fail)
    """)
    assert result.returncode == 0 and result.stdout == "it ran\n" and "ValueError: unseen" in result.stderr, result


def test_a_function_that_runs_at_the_end_of_python_is_waited_for(python):
    """It was stopped in the middle, and a file that it wrote was half-written."""
    result = python("""
        import threading, time
        from tests.subject import rawcuda
        stream, begun = rawcuda.Device(0).stream(), threading.Event()
        def save():
            begun.set()
            for number in range(5):
                print(number, flush=True)
                time.sleep(0.2)
        stream.call(save)
        begun.wait(0.5)  # (the emulator does not begin it yet in its other modes)
    """)
    assert result.returncode == 0 and result.stdout.split() == ["0", "1", "2", "3", "4"], result


def test_at_the_end_of_python_other_streams_are_not_waited_for(python):
    """Their work may wait for something that will not come."""
    code = """
        import threading, time
        from tests.subject import rawcuda
        device = rawcuda.Device(0)
        stream, other, flag = device.stream(), device.stream(), device.zeros(1, "uint32")
        device.synchronize()
        threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()  # it may write the flag, for all we know
        other.wait_value(flag[0], 1)
        stream.call(time.sleep, 0.1)
        stream.call(print, "it ran")
    """
    env = {"RAWCUDA_DRIVER": "emulator", "RAWCUDA_EMULATOR": "lazy"}
    assert python(code, env=env, timeout=20).stdout == "it ran\n"


@pytest.mark.parametrize("mode", ["lazy", "random"])
def test_no_lock_of_ours_is_held_while_the_driver_waits_for_a_host_function(python, mode):
    """A launch waits for room behind the function, other calls wait for the launch, and the function closes things."""
    result = python(
        """
        import faulthandler, threading
        faulthandler.dump_traceback_later(50, exit=True)
        from tests.driver import kernels
        from tests.subject import rawcuda

        device = rawcuda.Device(0)
        at, stream, go, waiting = device.empty(1, "float32").fill(0), device.stream(), threading.Event(), []
        launch = device.load(kernels.ADD)["add"].configure(grid=1, block=1, stream=stream)
        other = device.stream()
        makers = [device.stream, device.event, lambda: device.allocate(64), lambda: device.allocate(64, stream=other)]
        things = [[make() for make in makers for _ in range(5)] for _ in range(2)]
        device.synchronize()

        def function():
            go.wait(40)
            for thing in things[0]:
                thing.close()

        def launches():
            for _ in range(10):
                launch(at, at, at, 1)

        def closes():
            for thing in things[1]:
                thing.close()

        def makes():
            for make in makers:
                make().close()
            with device.stream() as captured, captured.capture():
                at.fill(1, stream=captured)

        stream.call(function)
        for _ in range(1020):
            at.fill(1, stream=stream)
        threads = [threading.Thread(target=work) for work in (launches, closes, makes)]
        for thread in threads:
            thread.start()
            thread.join(0.3)
            waiting.append(thread.is_alive())
        go.set()
        for thread in threads:
            thread.join()
        stream.synchronize()
        print(waiting, at.tolist())
        """,
        env={"RAWCUDA_EMULATOR": mode},
        timeout=90,
    )
    assert result.stdout == "[True, True, True] [1024.0]\n" and not result.returncode, result


class Compared:
    """An exporter whose comparison has no truth value, as that of an array."""

    __hash__ = None

    def __init__(self, array):
        self.__cuda_array_interface__ = dict(array.__cuda_array_interface__)
        self.array = array

    def __eq__(self, other):
        raise AssertionError("nobody compares it")


@pytest.mark.filterwarnings("ignore:nothing was captured")
@pytest.mark.parametrize("whose", ["ours", "theirs", "none"])
def test_a_call_that_the_driver_refuses_keeps_nothing(device, whose, monkeypatch):
    """Whether the stream is not captured, or is captured by us or by other software."""

    class Function:
        def __call__(self):
            raise AssertionError("the driver refused the call")

    function = Function()
    gone = weakref.ref(function)
    error = errors.from_code(1, "CUDA_ERROR_INVALID_VALUE", "invalid argument", "cuLaunchHostFunc", [], "")

    def refuse(*arguments):
        raise error

    target, compared = device.zeros(4, "int32"), Compared(device.zeros(4, "int32"))
    with device.stream() as stream, device.current():
        graph = cuda_h.CUgraph()
        if whose == "theirs":
            rawcuda.cu.cuStreamBeginCapture_v2(cuda_h.CUstream(stream.handle), 1)
        monkeypatch.setitem(vars(device._primary.calls), "cuLaunchHostFunc", refuse)
        with stream.capture() if whose == "ours" else contextlib.nullcontext():
            if whose == "ours":  # what the graph keeps comes first
                target.copy_from(compared, stream=stream)
            with pytest.raises(errors.InvalidUse):
                stream.call(function)
            del function
            error.__traceback__ = None
            gc.collect()
            assert gone() is None
        if whose == "theirs":
            rawcuda.cu.cuStreamEndCapture(cuda_h.CUstream(stream.handle), ctypes.byref(graph))
            rawcuda.cu.cuGraphDestroy(graph)


def test_the_table_of_many_open_streams_is_seldom_searched(device, monkeypatch):
    functions, asked = module("gpu.core.host_functions"), []
    stale = functions.Origin.is_stale
    monkeypatch.setattr(functions.Origin, "is_stale", lambda origin: [asked.append(origin), stale(origin)][1])
    streams = [device.stream() for _ in range(300)]
    for stream in streams:
        stream.call(int)
    device.synchronize()
    assert len(asked) < 1200
    for stream in streams:
        stream.close()
    for _ in range(1200):
        with device.stream() as stream:
            stream.call(int)
            stream.synchronize()
    assert len(functions._origins) < 900


def test_only_the_last_exceptions_wait_to_be_raised(device, monkeypatch):
    """Nobody waits for a stream that was closed, so the exceptions of its functions would be kept for ever."""
    printed = []
    monkeypatch.setattr("sys.excepthook", lambda kind, error, traceback: printed.append(error))
    most = module("gpu.core.host_functions")._MOST_KEPT
    for number in range(most + 3):
        with device.stream() as stream:
            stream.call(raiser(Broken(number)))
            stream.record().synchronize()
    assert [error.args[0] for error in printed] == [0, 1, 2]
    for number in range(most):
        with pytest.raises(Broken) as caught:
            device.synchronize()
        assert caught.value.args == (number + 3,)
    device.synchronize()
