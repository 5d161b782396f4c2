"""The interface between C and Python: each mistake that a libcuda of Python callbacks can make."""

from __future__ import annotations

import ctypes
import gc
import operator
import os
import shutil
import signal
import subprocess
import sys
import threading
import time

import pytest

from tests.emulator.emulator_client import Client, Failed
from tests.subject import FOLDER, module

thunks = module("emulator.interface.thunks")
HostFunction = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


@pytest.fixture
def client():
    made = Client()
    yield made
    assert not made.emulator.kept_exceptions


def _served(client, function, *, free=False):
    """Make a Python function an entry point, and return it as C code gets it."""
    address = thunks.serve(client.emulator._machine, thunks.Entry("cuTried(int x)", function, free, 0))
    return ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(address)


# -- 1: whatever an entry point raises, the caller gets a code


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize(
    "answer, code, kept",
    [
        (None, 0, None),
        (0, 0, None),
        (600, 600, None),
        (operator.truediv, 999, TypeError),
        (MemoryError(), 2, None),
        (1 << 40, 999, ValueError),
        (-1, 999, ValueError),
        ("0", 999, ValueError),
    ],
)
def test_an_entry_always_returns_a_code(client, answer, code, kept, free):
    def function(machine, x):
        if isinstance(answer, BaseException):
            raise answer
        return answer

    assert _served(client, answer if callable(answer) else function, free=free)(1) == code
    left = [type(exception) for exception in client.emulator.kept_exceptions]
    client.emulator.kept_exceptions.clear()
    assert left == ([kept] if kept else [])
    if kept:
        assert "cuTried" in client.emulator.explain(999)
    assert client.code("cuCtxSynchronize") == 0  # and the lock is released


def test_an_entry_may_be_declared_again_by_its_own_module(monkeypatch):
    """An interrupted import begins again; two functions cannot be one entry."""
    thunks = module("emulator.interface.thunks")
    monkeypatch.setattr(thunks, "ENTRIES", {})

    def declared(name, home):
        def function(machine):
            return 0

        function.__qualname__, function.__module__ = name, home
        return thunks.entry("cuNothing(void)", since=10000)(function)

    first, again = declared("nothing", "a"), declared("nothing", "a")
    assert thunks.ENTRIES["cuNothing"].function is again is not first
    for name, home in (("nothing", "b"), ("other", "a")):
        with pytest.raises(ValueError, match="cuNothing is declared twice"):
            declared(name, home)


def test_an_exception_that_the_client_handles_is_no_interrupt(client):
    try:
        raise KeyError("of the client")
    except KeyError:
        assert _served(client, operator.truediv)(1) == 999
    left = [type(exception) for exception in client.emulator.kept_exceptions]
    client.emulator.kept_exceptions.clear()
    assert left == [TypeError]
    client.emulator.explain(999)  # which would raise an interrupt


# -- 2: Ctrl-C


def test_an_interrupt_comes_again_after_the_return(client):
    codes = []
    function = _served(client, lambda machine, x: signal.raise_signal(signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        codes.append(function(1))
        for _ in range(500):
            time.sleep(0.01)
    assert codes == [999]
    assert not client.emulator.kept_exceptions


def test_an_interrupt_comes_at_once_to_who_asks_for_an_explanation(client):
    function = _served(client, lambda machine, x: signal.raise_signal(signal.SIGINT))
    assert function(1) == 999
    with pytest.raises(KeyboardInterrupt):
        client.emulator.explain(999)
    time.sleep(0.15)  # and not a second time
    assert client.emulator.explain(999) is None


@pytest.mark.parametrize("mode", ["eager", "lazy"])
def test_an_endless_kernel_can_be_interrupted(mode):
    client = Client(mode)
    flag = client.get("cuMemHostAlloc", 4, 0)
    ctypes.memset(flag, 0, 4)
    spin = client.kernels()("spin")
    timer = threading.Timer(0.2, signal.raise_signal, [signal.SIGINT])
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        client.launch(spin, [flag])
        client.code("cuCtxSynchronize")
        for _ in range(500):
            time.sleep(0.01)
    assert client.code("cuCtxSynchronize") == 0  # the kernel has ended, and everything works again
    client.do("cuMemFreeHost", flag)


# -- 3: addresses stay valid


def test_an_address_outlives_its_emulator():
    address = Client().emulator.address("cuDriverGetVersion")
    gc.collect()
    for _ in range(50):
        ctypes.CFUNCTYPE(ctypes.c_int)(lambda: 77)  # could reuse the memory of a freed thunk
    version = ctypes.c_int()
    assert ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(address)(ctypes.addressof(version)) == 0
    assert version.value == 13000


def test_thunks_answer_at_the_end_of_the_interpreter(python):
    result = python("""
        import builtins, ctypes
        from tests.emulator.emulator_client import Client
        client = Client("lazy")

        class Late:
            def __init__(self):
                self.free = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint64)(client.emulator.address("cuMemFree_v2"))
                self.memory = client.allocate(16)

            def __del__(self):
                if self.free(self.memory):
                    import os
                    os._exit(9)

        builtins.late = Late()
        del client
    """)
    assert (result.returncode, result.stderr) == (0, "")


def test_an_address_is_always_the_same(client):
    assert client.emulator.address("cuMemAlloc_v2") == client.emulator.address("cuMemAlloc_v2")
    assert client.emulator.address("cuMemAlloc_v2") != Client().emulator.address("cuMemAlloc_v2")
    assert client.emulator.address("cuNoSuchThing") is None


# -- 4: NULL, and text


def test_null_is_refused_and_never_followed(client):
    entries = module("emulator").Emulator()._entries
    survived = []
    for name, served in sorted(entries.items()):
        parameters = thunks.parse(served.line)[1]
        if any(c_type.endswith("*") for c_type, _ in parameters) and not any(
            "Handle " in c_type for c_type, _ in parameters
        ):
            client.code(name, *[0] * len(parameters))
            client.code("cuCtxSetCurrent", client.context)  # some calls pop it
            survived.append(name)
    assert len(survived) > 100
    assert not client.emulator.kept_exceptions, client.emulator.reports[-3:]


@pytest.mark.parametrize(
    "name, arguments",
    [
        ("cuMemAlloc_v2", (0, 16)),
        ("cuDeviceGetCount", (0,)),
        ("cuDriverGetVersion", (0,)),
        ("cuStreamCreate", (0, 0)),
        ("cuEventCreate", (0, 0)),
        ("cuCtxGetDevice", (0,)),
        ("cuMemHostAlloc", (0, 16, 0)),
        ("cuMemAllocAsync", (0, 16, 0)),
        ("cuMemGetInfo_v2", (0, 0)),
        ("cuDevicePrimaryCtxRetain", (0, 0)),
        ("cuModuleLoadData", (0, 0)),
        ("cuGetErrorName", (1, 0)),
        ("cuMemAllocManaged", (0, 16, 1)),
        ("cuDeviceGetAttribute", (0, 1, 0)),
        ("cuDeviceGetName", (0, 10, 0)),
    ],
)
def test_a_null_out_pointer_is_1(client, name, arguments):
    assert client.code(name, *arguments) == 1


# -- 5 and 6: device addresses


def test_a_device_address_is_no_host_address(client):
    address = client.allocate(64)
    assert address >= 2**49
    assert client.code("cuMemFree_v2", address & 0xFFFFFFFF) == 1  # as a client without argument types would pass it
    client.do("cuMemFree_v2", address)


def test_reading_a_device_address_on_the_host_ends_the_process(python):
    result = python("""
        import ctypes
        from tests.emulator.emulator_client import Client
        client = Client()
        address = client.allocate(64)
        print("before", flush=True)
        print(ctypes.string_at(address, 4))
    """)
    assert result.stdout == "before\n" and result.returncode != 0


@pytest.mark.parametrize("call", [("cuMemHostAlloc", 64, 0), ("cuMemAllocHost_v2", 64), ("cuMemAllocManaged", 64, 1)])
def test_pinned_and_managed_memory_is_at_its_host_address(client, call):
    address = client.get(*call)
    ctypes.memmove(address, b"from the host", 13)
    assert client.get("cuPointerGetAttribute", 3, address) == address
    target = client.allocate(64)
    client.do("cuMemcpy", target, address, 13)
    assert client.download(target, 13) == b"from the host"
    client.do("cuMemFree_v2", target)
    client.do("cuMemFree_v2" if call[0] == "cuMemAllocManaged" else "cuMemFreeHost", address)


def test_a_handle_is_no_address(python):
    result = python("""
        import ctypes
        from tests.emulator.emulator_client import Client
        stream = Client().stream()
        print("before", flush=True)
        print(ctypes.string_at(stream, 4))
    """)
    assert result.stdout == "before\n" and result.returncode != 0


# -- 7: threads


def test_each_python_thread_has_its_own_stack_of_contexts(client):
    seen = []

    def other():
        seen.append(client.get("cuCtxGetCurrent"))
        seen.append(client.code("cuCtxSynchronize"))
        client.do("cuCtxPushCurrent_v2", client.context)
        seen.append(client.get("cuCtxGetCurrent"))

    for _ in range(3):  # the system may reuse the number of a thread
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert seen == [0, 201, client.context] * 3


@pytest.mark.skipif(shutil.which("cc") is None or sys.platform == "win32", reason="no C compiler on this machine")
def test_a_thread_that_c_started_keeps_its_context_between_calls(client, tmp_path):
    """There, each callback into Python gets a new threading.local."""
    (tmp_path / "thread.c").write_text("""
        #include <pthread.h>
        #include <stddef.h>
        typedef int (*call)(void *);
        static call set, get; static void *context, *found; static int codes[2];
        static void *body(void *unused) { codes[0] = set(context); codes[1] = get(&found); return NULL; }
        void *run(call s, call g, void *c) {
            pthread_t thread;
            set = s; get = g; context = c; found = NULL; codes[0] = codes[1] = -1;
            pthread_create(&thread, NULL, body, NULL);
            pthread_join(thread, NULL);
            return codes[0] | codes[1] ? (void *)1 : found;
        }
    """)
    subprocess.run(
        [
            shutil.which("cc"),
            "-shared",
            "-fPIC",
            "-pthread",
            str(tmp_path / "thread.c"),
            "-o",
            str(tmp_path / "thread.so"),
        ],
        check=True,
    )
    run = ctypes.CDLL(str(tmp_path / "thread.so")).run
    run.restype, run.argtypes = ctypes.c_void_p, [ctypes.c_void_p] * 3
    address = client.emulator.address
    assert run(address("cuCtxSetCurrent"), address("cuCtxGetCurrent"), client.context) == client.context


def test_threads_call_at_once(client):
    wrong = []

    def work(number):
        try:
            client.do("cuCtxSetCurrent", client.context)
            stream = client.stream()
            for _ in range(60):
                source = client.upload(bytes([number]) * 256)
                target = client.allocate(256)
                client.do("cuMemcpyDtoDAsync_v2", target, source, 256, stream)
                client.do("cuStreamSynchronize", stream)
                if client.download(target, 256) != bytes([number]) * 256:
                    wrong.append(number)
                client.do("cuMemFree_v2", source)
                client.do("cuMemFree_v2", target)
            client.do("cuStreamDestroy_v2", stream)
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=[number]) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert not client.live()


def test_another_thread_can_call_while_a_kernel_runs(client):
    """The kernel waits for a flag that the other thread sets by a copy. If kernels held the lock, both would hang."""
    flag = client.upload(bytes(4))
    spin = client.kernels()("spin")
    codes = []

    def release():
        client.do("cuCtxSetCurrent", client.context)
        stream = client.stream()
        time.sleep(0.05)
        codes.append(client.code("cuMemcpyHtoDAsync_v2", flag, b"\x01\0\0\0", 4, stream))
        codes.append(client.code("cuStreamSynchronize", stream))
        client.do("cuStreamDestroy_v2", stream)

    thread = threading.Thread(target=release)
    stream = client.stream()
    thread.start()
    client.launch(spin, [flag], stream=stream)
    client.do("cuStreamSynchronize", stream)
    thread.join()
    assert codes == [0, 0]


def test_an_asynchronous_call_does_not_wait_for_a_kernel_of_another_thread(client):
    """In eager mode, too, work after a kernel that another thread runs is postponed after a short time."""
    flag = client.pinned(bytes(4))
    spin = client.kernels()("spin")
    stream, done = client.stream(), client.allocate(4)

    def launch():
        client.do("cuCtxSetCurrent", client.context)
        client.launch(spin, [flag], stream=stream)

    thread = threading.Thread(target=launch)
    thread.start()
    time.sleep(0.05)
    client.do("cuMemsetD32Async", done, 7, 1, stream)  # after the kernel, which waits for us
    assert client.code("cuStreamQuery", stream) == 600
    ctypes.memmove(flag, b"\x01\0\0\0", 4)
    client.do("cuStreamSynchronize", stream)
    thread.join()
    assert client.number(done) == 7


def test_a_call_inside_a_call_is_answered(client):
    """A garbage collection may run a __del__ that calls the driver while the lock is held; so may a callback."""
    kernel, memory = client.kernels()("nothing"), client.allocate(16)
    codes = []
    shared_of = ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_int)(
        lambda threads: codes.extend([client.code("cuMemsetD8_v2", memory, 0, 16), client.launch(kernel, [])]) or 0
    )
    grid, block = ctypes.c_int(), ctypes.c_int()
    client.do(
        "cuOccupancyMaxPotentialBlockSize", grid, block, kernel, ctypes.cast(shared_of, ctypes.c_void_p).value, 0, 0
    )
    assert codes and not any(codes)


LISTING = """
import builtins, faulthandler, os, sys, threading, time
from tests.subject import rawcuda
faulthandler.dump_traceback_later(20, exit=True)
device = rawcuda.Device(0)
flag, stream, other = device.zeros(1, "uint32"), device.stream(), device.stream()
device.synchronize()
stream.wait_value(flag, 1)
held = threading.Event()

def lists():
    with threading._active_limbo_lock:  # as in threading.enumerate(), where a garbage collection calls the driver
        held.set(), time.sleep(0.3)
        other.write_value(flag, 1), other.synchronize()
        time.sleep(40 * (sys.argv[1] == "end"))

def begins():
    held.wait(), time.sleep(0.1)
    device.free_memory

class Late:
    def __del__(self, free=rawcuda.cu.cuMemGetInfo_v2, write=os.write):
        try:
            free(None, None)
        except Exception:  # the driver has ended; modules may be gone, too
            write(1, b"and refused")

threads = [threading.Thread(target=work, daemon=True) for work in (begins, lists)]
for thread in threads:
    thread.start()
held.wait()
if sys.argv[1] == "wait":
    stream.synchronize()
elif sys.argv[1] == "end":
    other.synchronize(), time.sleep(0.5)
    builtins.late = Late()
else:
    threads[0].join()
print("done")
"""


@pytest.mark.parametrize("what", ["wait", "begin", "end"])
def test_a_call_takes_no_lock_of_the_module_threading(python, what):
    """A thread that holds it may wait for the emulator's lock, or have ended with it when the interpreter ends."""
    result = python(LISTING, what, env={"RAWCUDA_DRIVER": "emulator", "RAWCUDA_EMULATOR": "lazy"})
    assert result.stdout == "done\n" + "and refused" * (what == "end"), result.stdout + result.stderr


def test_many_threads_in_random_mode():
    """Several threads use kernels, copies, host functions and events in the same streams."""
    client = Client("random", 3)
    get, failures = client.kernels(), []
    step = get("step")
    streams = [client.stream() for _ in range(3)]
    tick = HostFunction(lambda data: time.sleep(0.0005))
    tick_address = ctypes.cast(tick, ctypes.c_void_p).value

    def work(number):
        try:
            client.do("cuCtxSetCurrent", client.context)
            mine, event = client.upload(bytes(4)), client.event(2)
            client.do("cuCtxSynchronize")
            for turn in range(12):
                stream = streams[(number + turn) % 3]
                client.do("cuStreamWaitEvent", stream, event, 0)
                assert client.launch(step, [mine, turn.to_bytes(4, "little")], stream=stream) == 0
                client.do("cuLaunchHostFunc", stream, tick_address, 0)
                client.do("cuEventRecord", event, stream)
                if turn % 5 == number:
                    client.do("cuStreamSynchronize", stream)
            client.do("cuEventSynchronize", event)
            expected = 0
            for turn in range(12):
                expected = (expected * 10 + turn) & 0xFFFFFFFF
            if client.number(mine) != expected:
                failures.append((number, client.number(mine), expected))
            client.do("cuMemFree_v2", mine)
            client.do("cuEventDestroy_v2", event)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=[number]) for number in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failures and not any(thread.is_alive() for thread in threads)
    assert not client.emulator.kept_exceptions
    assert client.live() == {"stream": 3, "module": 1}


# -- 8: structures by value


def test_a_location_arrives_by_value(client):
    class Location(ctypes.Structure):
        _fields_ = [("type", ctypes.c_int), ("id", ctypes.c_int)]

    managed = client.get("cuMemAllocManaged", 64, 1)
    call = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint64, ctypes.c_size_t, Location, ctypes.c_uint, ctypes.c_void_p)(
        client.emulator.address("cuMemPrefetchAsync_v2")
    )
    where = ctypes.c_int(-9)
    for location, expected in ((Location(1, 0), 0), (Location(2, 0), -1)):
        assert call(managed, 64, location, 0, None) == 0
        client.do("cuMemRangeGetAttribute", where, 4, 4, managed, 64)
        assert where.value == expected
    client.do("cuMemFree_v2", managed)


# -- 9: host functions


@pytest.mark.parametrize("mode", ["eager", "lazy", "random"])
def test_a_host_function_may_not_call_the_driver(mode):
    client, codes = Client(mode), []

    @HostFunction
    def function(data):
        codes.append(client.code("cuMemAlloc_v2", ctypes.c_uint64(), 16))
        codes.append(client.code("cuStreamQuery", 0))
        codes.append(client.code("cuGetErrorName", 800, ctypes.c_uint64()))
        codes.append(data)

    client.do("cuLaunchHostFunc", 0, ctypes.cast(function, ctypes.c_void_p).value, 1234)
    client.do("cuCtxSynchronize")
    assert codes == [800, 800, 0, 1234]
    assert client.code("cuCtxSynchronize") == 0


def test_a_host_function_may_take_what_its_launcher_holds(client):
    """It runs in its own thread; in the caller's thread, in eager mode, it would wait for ever."""
    held, ran = threading.Lock(), []

    @HostFunction
    def function(data):
        with held:
            ran.append(data)

    stream, mark = client.stream(), client.allocate(4)
    with held:
        client.do("cuLaunchHostFunc", stream, ctypes.cast(function, ctypes.c_void_p).value, 5)
        client.do("cuMemsetD32Async", mark, 9, 1, stream)
        assert client.code("cuStreamQuery", stream) == 600 and not ran
    client.do("cuStreamSynchronize", stream)
    assert ran == [5] and client.number(mark) == 9


# -- 10: fork


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_is_told_3_even_if_the_lock_was_held(python):
    result = python("""
        import ctypes, os, threading, time, warnings
        warnings.simplefilter("ignore")
        from tests.emulator.emulator_client import Client
        client = Client()
        held = client.emulator._machine.lock
        def hold():
            with held:
                time.sleep(0.5)
        threading.Thread(target=hold).start()
        time.sleep(0.1)
        child = os.fork()
        if child == 0:
            codes = [client.code("cuInit", 0), client.code("cuMemAlloc_v2", ctypes.c_uint64(), 16),
                     client.code("cuCtxSynchronize"), client.code("cuDriverGetVersion", ctypes.c_int()),
                     client.code("cuGetErrorName", 3, ctypes.c_uint64())]
            os._exit(0 if codes == [3, 3, 3, 0, 0] else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert client.code("cuCtxSynchronize") == 0
    """)
    assert result.returncode == 0, result.stderr


# -- 11: types that differ between systems


def test_no_signature_has_a_c_long():
    source = (FOLDER / "emulator" / "interface" / "thunks.py").read_text(encoding="utf-8")
    assert "ctypes.c_long" not in source and "ctypes.c_ulong" not in source


# -- speed: a call must not take long


def test_a_call_costs_little(client):
    """The limit is generous, for a busy machine: it finds mistakes such as an import or a search in every call."""
    out = ctypes.c_uint64()
    call = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint64)(client.emulator.address("cuCtxGetCurrent"))
    best = min(_seconds(call, ctypes.addressof(out)) for _ in range(20))
    assert best < 20e-6


def _seconds(call, argument, count=200):
    begun = time.perf_counter()
    for _ in range(count):
        call(argument)
    return (time.perf_counter() - begun) / count


def test_a_failed_call_says_which():
    with pytest.raises(Failed, match="cuMemAlloc_v2: 3"):
        Client(start=False).do("cuMemAlloc_v2", ctypes.c_uint64(), 16)


FORKING = """
import os, signal, time
from tests.subject import rawcuda
stream, children = rawcuda.Device(0).stream(), []

def work():
    child = os.fork()
    if child:
        children.append(child)
    else:
        signal.alarm(20)  # ends the child if it waits

stream.call(work)
stream.synchronize()
print(os.waitpid(children[0], 0)[1])
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork()")
def test_a_child_that_returns_from_a_host_function_ends(python):
    result = python(FORKING)
    assert result.stdout == "0\n", result.stdout + result.stderr
