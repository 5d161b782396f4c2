"""Exceptions at any place inside the emulator: interrupts, a lack of memory, and what users' own handlers raise.

After each of them a plain launch and a synchronisation work, every lock is free, no work ran twice, and the exception
has reached the Python code that made the call.
"""

from __future__ import annotations

import _thread
import contextlib
import ctypes
import gc
import linecache
import operator
import os
import signal
import sys
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from tests.emulator.emulator_client import HEAD, KERNELS, Client
from tests.shared import each_opcode
from tests.subject import FOLDER, module

FOLDER_OF_EMULATOR = str(FOLDER / "emulator")
recovery = module("emulator.machine.recovery")
RUNNING = recovery.RUNNING
HOST = ctypes.CFUNCTYPE(None, ctypes.c_size_t)


class Program:
    """A client with a kernel that counts how often it ran, and the calls that are interrupted."""

    def __init__(self, mode):
        self.client = client = Client(mode, seed=3)
        self.module = client.get("cuModuleLoadData", KERNELS.encode() + b"\0")
        self.kernel = client.get("cuModuleGetFunction", self.module, b"step\0")
        self.stream, self.other, self.event = client.stream(), client.stream(), client.get("cuEventCreate", 0)
        self.cell = client.allocate(8)
        client.do("cuMemsetD32_v2", self.cell, 0, 2)
        self.count = 0
        self.host = HOST(lambda data: setattr(self, "count", self.count + 1))

    def launch(self):
        at, digit = ctypes.c_uint64(self.cell), ctypes.c_uint32(1)
        parameters = (ctypes.c_void_p * 2)(ctypes.addressof(at), ctypes.addressof(digit))
        return self.client.code(
            "cuLaunchKernel", self.kernel, 1, 1, 1, 1, 1, 1, 0, self.stream, ctypes.addressof(parameters), 0
        )

    def set_and_record(self):
        codes = [self.client.code("cuMemsetD32Async", self.cell, 7, 1, self.stream)]
        codes.append(self.client.code("cuEventRecord", self.event, self.stream))
        codes.append(self.client.code("cuStreamWaitEvent", self.other, self.event, 0))
        codes.append(self.client.code("cuMemsetD32Async", self.cell + 4, 7, 1, self.other))
        codes.append(self.client.code("cuStreamSynchronize", self.other))
        return max(codes)

    def allocate_and_free(self):
        at = ctypes.c_uint64()
        code = self.client.code("cuMemAlloc_v2", ctypes.addressof(at), 64)
        return code or self.client.code("cuMemFree_v2", at.value)

    def call_host(self):
        address = ctypes.cast(self.host, ctypes.c_void_p).value
        return self.client.code("cuLaunchHostFunc", self.stream, address, 0) or self.synchronize()

    def capture(self):
        graph = ctypes.c_uint64()
        code = self.client.code("cuStreamBeginCapture_v2", self.stream, 0) or self.launch()
        return self.client.code("cuStreamEndCapture", self.stream, ctypes.addressof(graph)) or code

    def make_and_destroy(self):
        context = self.client.get("cuCtxCreate_v2", 0, 0)
        stream = self.client.stream()
        self.client.allocate(16)
        return self.client.code("cuStreamDestroy_v2", stream) or self.client.code("cuCtxDestroy_v2", context)

    def load(self):
        loaded = ctypes.c_uint64()
        text = ctypes.create_string_buffer((HEAD + ".global .u32 g;\n.entry k() { ret; }").encode())
        code = self.client.code("cuModuleLoadData", ctypes.addressof(loaded), ctypes.addressof(text))
        return code or self.client.code("cuModuleUnload", loaded.value)

    def synchronize(self):
        return self.client.code("cuCtxSynchronize")

    def check(self):
        """Check from another thread that everything still works, and that nobody holds a lock."""
        client, failed = self.client, []
        self.client.code("cuStreamEndCapture", self.stream, ctypes.c_uint64())  # if the capture was interrupted

        def work():
            try:
                client.do("cuCtxSetCurrent", client.context)
                assert self.synchronize() == 0
                client.do("cuMemsetD32_v2", self.cell, 1, 1)
                assert self.synchronize() == 0
                assert self.launch() == 0 and self.synchronize() == 0
                assert client.number(self.cell) == 11
                client.do("cuMemFree_v2", client.allocate(16))
            except BaseException as caught:
                failed.append(caught)

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        thread.join(10)
        assert not thread.is_alive(), f"a call hangs: the lock is {client.emulator._machine.lock}"
        assert not failed, failed
        assert not client.emulator.kept_exceptions, client.emulator.reports[-3:]
        machine = client.emulator._machine
        assert not machine.lock._is_owned() and not RUNNING._is_owned() and not machine.captures
        client.do("cuCtxSetCurrent", client.context)


def before_its_try(frame):
    """Tell whether an entry point is at a line of which a trace function hears before the try statement has begun."""
    if sys.version_info >= (3, 11) or frame.f_code.co_name != "call_entry":
        return False
    return linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip() == "try:"


def raise_at(place, call, error):
    """Make a call with an exception at a traced line of the emulator; return what it raised, and if it got there."""
    passed = 0

    def trace(frame, event, argument):
        nonlocal passed
        if not frame.f_code.co_filename.startswith(FOLDER_OF_EMULATOR):
            return None
        if event == "line" and not before_its_try(frame):  # an interrupt does not behave as exceptions at other events
            passed += 1
            if passed == place:
                raise error
        return trace

    raised = None
    sys.settrace(trace)
    try:
        call()
    except BaseException as caught:
        raised = caught
    finally:
        sys.settrace(None)
    return raised, passed >= place


@pytest.mark.parametrize("mode", ["eager", "lazy"])
@pytest.mark.parametrize(
    "call", ["launch", "set_and_record", "allocate_and_free", "call_host", "capture", "make_and_destroy", "load"]
)
@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_an_exception_at_any_line_leaves_everything_working(call, mode, error):
    program = Program(mode)
    emulator = program.client.emulator
    getattr(program, call)()  # binds the functions, so that all places are inside them
    step = {"load": 41, "capture": 3, "make_and_destroy": 3}.get(call, 1)
    place, arrived = 1, 0
    while True:
        raised, reached = raise_at(place, getattr(program, call), error)
        try:
            emulator.explain(999)
        except error as late:
            raised = late
        if not reached:
            break
        arrived += isinstance(raised, error)
        try:
            program.check()
        except BaseException as caught:
            raise AssertionError(f"after {error.__name__} at place {place} of {call}: {caught}") from caught
        place += step
    assert place > 20 and (error is MemoryError or arrived == (place - 1) // step)
    assert program.count <= place * 2


@pytest.mark.parametrize("call", ["cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2", "cuCtxSetCurrent", "exchange"])
def test_an_interrupt_does_not_divide_what_brackets_other_calls(call):
    """As in a real driver, the call is done, then the interrupt comes: clients can always pop what they push."""
    client = Client()
    thread, mode = client.emulator._machine.thread(), ctypes.c_uint()
    context = thread.stack[-1]
    arguments = {"cuCtxPopCurrent_v2": 0, "exchange": ctypes.addressof(mode)}.get(call, client.context)
    name = "cuThreadExchangeStreamCaptureMode" if call == "exchange" else call
    client.code(name, arguments)  # binds the function
    depth = {"cuCtxPushCurrent_v2": 3, "cuCtxPopCurrent_v2": 1}.get(call, 2)
    for place in range(1, 1000):
        thread.stack[:], thread.capture_mode, mode.value, codes = [context] * 2, 0, 2, []
        raised, reached = raise_at(place, lambda: codes.append(client.code(name, arguments)), KeyboardInterrupt)
        assert raised is None and codes == [0], place
        assert thread.stack == [context] * depth, place
        if call == "exchange":
            assert (thread.capture_mode, mode.value) == (2, 0), place
        if not reached:
            break
        with pytest.raises(KeyboardInterrupt):
            client.emulator.explain(999)
    assert place > 5


def test_an_interrupt_reaches_the_caller_wherever_it_comes():
    program = Program("eager")
    program.launch()  # binds the function
    for place in range(1, 1000):
        raised, reached = raise_at(place, program.launch, KeyboardInterrupt)
        if not reached:
            break
        assert raised is None  # nothing goes through the C code
        with pytest.raises(KeyboardInterrupt):
            program.client.emulator.explain(999)
    assert place > 50
    program.check()


@pytest.mark.parametrize("mode", ["eager", "lazy"])
def test_an_interrupted_launch_runs_at_most_once(mode):
    program, numbers = Program(mode), set()
    client = program.client

    def run():
        return program.launch() or program.synchronize()

    run()  # binds the functions
    for place in range(1, 2000, 3):
        client.do("cuMemsetD32_v2", program.cell, 1, 1)
        program.synchronize()
        _, reached = raise_at(place, run, KeyboardInterrupt)
        try:
            client.emulator.explain(999)
        except KeyboardInterrupt:
            pass
        program.synchronize()
        numbers.add(client.number(program.cell))
        if not reached:
            break
    assert numbers == {1, 11}  # each run appends the digit 1


def test_an_interrupt_before_the_first_line_reaches_the_caller(monkeypatch):
    """The signal comes between the client's code and the entry point, where only C code runs."""
    ignored = []
    monkeypatch.setattr(sys, "unraisablehook", ignored.append)
    client = Client()
    function = ctypes.CFUNCTYPE(ctypes.c_int)(client.emulator.address("cuCtxSynchronize"))
    calls = [_thread.interrupt_main, function]
    assert list(map(operator.methodcaller("__call__"), calls)) == [None, 999] and not ignored
    with pytest.raises(KeyboardInterrupt):
        client.emulator.explain(999)
    assert function() == 0


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers that signal")
@pytest.mark.parametrize("mode", ["eager", "lazy", "random"])
def test_real_signals_leave_everything_working(mode, monkeypatch):
    """Several hundred signals at random moments, of which each raises exactly one KeyboardInterrupt."""
    ignored, sent, caught = [], 0, 0
    monkeypatch.setattr(sys, "unraisablehook", ignored.append)
    program = Program(mode)

    def handler(number, frame):
        nonlocal sent
        sent += 1
        raise KeyboardInterrupt

    def make_calls(seconds):  # a function of its own: in 3.13, a try around a loop does not cover the loop's jumps
        already = sent
        signal.setitimer(signal.ITIMER_REAL, seconds)
        for call in calls:
            if call() == 999:
                emulator.explain(999)
        while sent == already:  # the system may give the signal to another thread, which runs later on a busy machine
            time.sleep(0.001)

    before = signal.signal(signal.SIGALRM, handler)
    emulator = program.client.emulator
    calls = [program.launch, program.launch, program.synchronize, program.allocate_and_free, program.set_and_record]
    try:
        deadline, place = time.monotonic() + 4, 0
        while sent < 600 and time.monotonic() < deadline:
            place += 1
            try:
                make_calls(20e-6 + place * 7919 % 400 * 1e-6)
            except KeyboardInterrupt:
                caught += 1
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
            try:
                emulator.explain(999)
            except KeyboardInterrupt:
                caught += 1
            program.check()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert not ignored, [(each.exc_value, each.object, each.err_msg) for each in ignored]
    assert sent > 100 and caught == sent


class Late(Exception):
    """What a user's signal handler raises when something takes too long."""


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers that signal")
def test_the_exception_of_a_signal_handler_ends_a_kernel_and_reaches_the_caller():
    client = Client()
    kernel = client.get("cuModuleGetFunction", client.get("cuModuleLoadData", KERNELS.encode() + b"\0"), b"spin\0")
    flag = client.allocate(4)
    client.do("cuMemsetD32_v2", flag, 0, 1)

    def handler(number, frame):
        raise Late("three tenths of a second")

    at = ctypes.c_uint64(flag)
    parameters = (ctypes.c_void_p * 1)(ctypes.addressof(at))
    before = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        assert client.code("cuLaunchKernel", kernel, 1, 1, 1, 1, 1, 1, 0, 0, ctypes.addressof(parameters), 0) == 999
        with pytest.raises(Late, match="three tenths"):
            client.emulator.explain(999)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert client.code("cuCtxSynchronize") == 0 and not client.emulator.kept_exceptions


def test_an_exception_that_comes_before_the_last_one_was_claimed_keeps_it_as_its_context():
    emulator = Client().emulator
    first, second = KeyboardInterrupt("first"), Late("second")

    def claim():
        emulator._machine.interrupts.keep(first)
        emulator._machine.interrupts.keep(second)
        with pytest.raises(Late, match="second") as caught:
            emulator.explain(999)
        assert caught.value is second and second.__context__ is first
        emulator.explain(999)

    # In another thread: tests that raise at each line may leave this one in the state of handling an exception.
    with ThreadPoolExecutor(1) as pool:
        pool.submit(claim).result()


def test_what_a_progress_function_raises_reaches_the_caller():
    def progress(done, total):
        raise Late("told")

    client = Client(progress=progress)
    text = HEAD + ".entry k() { .reg .b32 %r; .reg .pred %p; mov.u32 %r, 0;\nL: add.u32 %r, %r, 1;\n"
    text += "setp.lt.u32 %p, %r, 300000000; @%p bra L; ret; }"  # its first report ends it
    kernel = client.get("cuModuleGetFunction", client.get("cuModuleLoadData", text.encode() + b"\0"), b"k\0")
    assert client.code("cuLaunchKernel", kernel, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0) == 999
    with pytest.raises(Late, match="told"):
        client.emulator.explain(999)
    assert client.code("cuCtxSynchronize") == 0


def spin(seconds):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        pass


def test_an_exception_that_nobody_claims_is_raised_in_the_thread_a_moment_later():
    interrupts = module("emulator.machine.recovery").Interrupts()
    kept = Late("once", 3)
    interrupts.keep(kept)
    with pytest.raises(Late) as caught:
        spin(5)
    assert caught.value is kept
    interrupts.keep(kept)
    with pytest.raises(Late):
        interrupts.claim()
    spin(0.2)  # it does not come twice


@pytest.mark.parametrize("how", ["claimed", "late"])
def test_an_exception_that_was_raised_keeps_nothing_of_the_call(how):
    """Memory of another process stayed open, because a frame of an interrupted copy used it."""
    interrupts, kept = module("emulator.machine.recovery").Interrupts(), []

    class Used:
        pass

    def call():
        used = Used()
        kept.append(weakref.ref(used))
        interrupts.keep(Late())
        if how == "claimed":
            interrupts.claim()
        spin(5)

    gc.disable()
    try:
        with contextlib.suppress(Late):
            call()
        spin(0.3)  # until the helper thread has ended
        assert kept[0]() is None
    finally:
        gc.enable()


def test_a_late_exception_comes_in_no_thread_that_is_about_to_start(monkeypatch):
    """Before Python 3.12, such a thread has the number of the thread that creates it."""
    recovery = module("emulator.machine.recovery")
    monkeypatch.setattr(recovery, "_SECONDS", 0.0)
    interrupts, ran, unraisable = recovery.Interrupts(), [], []
    monkeypatch.setattr(sys, "unraisablehook", unraisable.append)

    def start(number):
        for _ in range(20):
            _thread.start_new_thread(ran.append, (number,))

    came = 0
    for number in range(100):
        try:
            interrupts.keep(Late(number))  # which may come before this returns
            start(number)
            spin(2)
        except Late:
            came += 1
    assert came == 100 and not unraisable


def served(machine, function):
    """Return a C function that an entry of this machine is."""
    thunks = module("emulator.interface.thunks")
    address = thunks.serve(machine, thunks.Entry("cuTried(int x)", function, False, 0))
    return ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(address)


def test_a_nested_call_of_a_collection_keeps_the_lock_of_the_outer_one():
    """An interrupt in a call that a __del__ makes inside another call must not open the outer call's lock."""
    client = Client()
    machine = client.emulator._machine
    owned = []

    def inner(machine, x):
        raise KeyboardInterrupt

    def outer(machine, x):
        inside(1)
        owned.append(machine.lock._is_owned())

    inside = served(machine, inner)
    assert served(machine, outer)(1) == 0 and owned == [True] and not machine.lock._is_owned()
    with pytest.raises(KeyboardInterrupt):
        client.emulator.explain(999)


def test_a_call_inside_of_two_others_leaves_the_lock_released_that_the_second_one_has_released():
    """The second call runs a kernel, in which a __del__ makes a call that ends with an interrupt."""
    client = Client()
    machine = client.emulator._machine
    owned = []

    def inner(machine, x):
        raise KeyboardInterrupt

    def work():
        inside(1)
        owned.append(machine.lock._is_owned())
        recovery._release(machine.lock)

    def middle(machine, x):
        recovery.unlocked(machine, work)
        owned.append(machine.lock._is_owned())

    def outer(machine, x):
        between(1)
        owned.append(machine.lock._is_owned())

    inside, between = served(machine, inner), served(machine, middle)
    assert served(machine, outer)(1) == 0 and owned == [False, True, True] and not machine.lock._is_owned()
    with pytest.raises(KeyboardInterrupt):
        client.emulator.explain(999)


# -- memory that changes while a kernel looks addresses up


def find_with_a_change_at(place, space, address, change):
    """Find an address, while at one step of the search another thread could change the space, and does.

    What another thread does in between happens in this one: so it comes at that step in every run. While the lock is
    held, no other thread could come. Returns what was found, and whether the step was reached.
    """
    passed = 0

    def trace(frame, event, argument):
        nonlocal passed
        if frame.f_code is not type(space).find.__code__:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode" and not space.lock._is_owned():
            passed += 1
            if passed == place:
                change()
        return trace

    sys._getframe().f_trace_opcodes = True  # 3.12 reports opcodes only if a frame asks for them before settrace
    sys.settrace(trace)
    try:
        found = space.find(address)
    finally:
        sys.settrace(None)
    return found, passed >= place


@pytest.mark.parametrize("change", ["allocate", "free", "both", "free all"])
def test_an_address_is_found_whatever_changes_in_between(change):
    for place in range(1, 200):
        space = module("emulator.machine.space").Space()
        older = [space.allocate(64) for _ in range(20)]
        made = space.allocate(64)
        younger = [space.allocate(64) for _ in range(20)]

        def others():
            if change != "allocate":
                for allocation in [*older, *younger] if change == "free all" else [older[0]]:
                    space.free(allocation.base)
            if change in ("allocate", "both"):
                space.allocate(64)

        found, reached = find_with_a_change_at(place, space, made.base + 63, others)
        assert found is made
        if not reached:
            break
    assert 20 < place < 199


def test_an_address_is_found_while_others_allocate_and_free():
    space = module("emulator.machine.space").Space()
    stop, failed = threading.Event(), []

    def other():
        mine = [space.allocate(64) for _ in range(20)]
        while not stop.is_set():
            space.free(mine.pop(0).base)
            mine.append(space.allocate(64))

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    threads = [threading.Thread(target=other, daemon=True) for _ in range(3)]
    try:
        for thread in threads:
            thread.start()
        deadline = time.monotonic() + 1
        while time.monotonic() < deadline and not failed:
            made = space.allocate(64)  # younger than what the others free
            for _ in range(50):
                if space.find(made.base + 63) is not made or space.find(made.base + 64) is not None:
                    failed.append(made)
            space.free(made.base)
    except Exception as caught:
        failed.append(caught)
    finally:
        stop.set()
        sys.setswitchinterval(before)
        for thread in threads:
            thread.join()
    assert not failed


@pytest.mark.parametrize("call", ["allocate", "free"])
def test_a_space_is_whole_after_an_exception_at_any_line(call):
    for place in range(1, 200):
        space = module("emulator.machine.space").Space()
        first, second = space.allocate(64), space.allocate(64)
        run = (lambda: space.allocate(64)) if call == "allocate" else (lambda: space.free(first.base))
        raised, reached = raise_at(place, run, KeyboardInterrupt)
        while space.lock._is_owned():
            space.lock.release()  # recover() does
        assert space.find(second.base) is second and second in space.live()
        assert {space.find(made.base) for made in space.live()} == set(space.live())
        assert space.find(space.allocate(8).base) is not None
        if not reached:
            break
    assert place > 5


# -- where the output of kernels goes


PRINT = (
    HEAD
    + """.extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);
.global .b8 s[] = {104, 195, 169, 10, 0};
.entry k()
{
    .reg .b64 %d;
    { .param .b32 r; .param .b64 a; .param .b64 b; mov.u64 %d, s; st.param.b64 [a], %d; st.param.b64 [b], 0;
      call (r), vprintf, (a, b); }
    ret;
}
"""
)


class Full:
    """A stream on which nothing can be written."""

    encoding = "utf-8"

    def write(self, text):
        raise OSError(28, "No space left on device")


class Ascii(list):
    """A stream that takes only ASCII."""

    encoding = "ascii"

    def write(self, text):
        text.encode("ascii")
        self.append(text)

    def flush(self):
        pass


def closed():
    import io

    made = io.StringIO()
    made.close()
    return made


@pytest.mark.parametrize("stdout, why", [(None, "None"), (closed(), "closed"), (Full(), "No space"), (Ascii(), "")])
def test_a_kernel_prints_where_nothing_can_be_printed(stdout, why, monkeypatch):
    client = Client()
    kernel = client.get("cuModuleGetFunction", client.get("cuModuleLoadData", PRINT.encode() + b"\0"), b"k\0")
    monkeypatch.setattr(sys, "stdout", stdout)
    client.do("cuLaunchKernel", kernel, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0)
    client.do("cuCtxSynchronize")
    if why:
        assert why in client.emulator.reports[-1] and "kernel k" in client.emulator.reports[-1]
    else:
        assert stdout == ["h\\xe9\n"] and not client.emulator.reports


def test_signals_during_an_undivided_function_are_handled_after_it() -> None:
    done: list[object] = []

    def work() -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.raise_signal(number)
        done.append("work")

    before = signal.signal(signal.SIGTERM, lambda number, frame: done.append(number))
    try:
        with pytest.raises(KeyboardInterrupt):
            recovery.undivided(work)()
        assert done == ["work", signal.SIGTERM]
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        recovery.undivided(partial(signal.raise_signal, signal.SIGTERM))()
        assert done == ["work", signal.SIGTERM, signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_signal_before_the_handlers_are_replaced_does_not_divide_the_function(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done: list[str] = []
    real = signal.valid_signals
    interrupts = [KeyboardInterrupt()]

    def interrupted() -> Any:
        if interrupts:
            raise interrupts.pop()
        return real()

    monkeypatch.setattr(signal, "valid_signals", interrupted)
    recovery.undivided(partial(done.append, "work"))()
    assert done == ["work"] and not interrupts


@pytest.mark.parametrize(
    ("files", "outside"),
    [
        (["struct.py"], False),
        (["re.py", "/home/program.py"], True),
        (["re.py", "struct.py", "/home/program.py"], True),
        (["site-packages/timeouts/plugin.py"], True),
        ([str(FOLDER / "driver.py"), "re.py"], True),
        ([FOLDER_OF_EMULATOR + "/machine/x.py", "re.py"], False),
    ],
)
def test_what_a_handler_raises_comes_from_outside_wherever_it_ran(files: list[str], outside: bool) -> None:
    """A signal handler may run in a function of the standard library that the emulator has called."""
    call: Any = partial(int, "x")
    for file in files[::-1]:
        space: dict[str, Any] = {"call": call}
        exec(compile("def run():\n    call()", recovery._STANDARD_LIBRARY * (file[0] != "/") + file, "exec"), space)
        call = space["run"]
    with pytest.raises(ValueError) as caught:
        call()
    error = caught.value
    assert error.__traceback__ is not None
    assert recovery.is_outside(error.with_traceback(error.__traceback__.tb_next)) == outside  # (without this frame)


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("name", ["cuMemHostRegister_v2", "cuMemHostUnregister"])
def test_host_memory_can_be_registered_again_after_an_interrupt_at_any_line(name: str) -> None:
    client, page = Client("eager"), ctypes.create_string_buffer(4096)
    address = ctypes.addressof(page)

    def register() -> int:
        return int(client.code("cuMemHostRegister_v2", address, 4096, 2))

    def unregister() -> int:
        return int(client.code("cuMemHostUnregister", address))

    place, is_there = 0, True
    while is_there:
        place += 1
        if name == "cuMemHostUnregister":
            assert register() == 0
        call = register if name == "cuMemHostRegister_v2" else unregister
        _, is_there = raise_at(place, call, KeyboardInterrupt())
        client.emulator._machine.interrupts.drop()
        assert unregister() in (0, 713), place
        assert register() == 0 and unregister() == 0, place
    assert place > 20


@pytest.mark.parametrize("mode", ["eager", "lazy"])
@pytest.mark.parametrize("name", ["cuMemFree_v2", "cuMemFreeAsync", "cuIpcCloseMemHandle"])
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_of_a_free_leaves_no_record_of_memory_that_is_gone(name: str, mode: str, monkeypatch: Any) -> None:
    if not module("emulator.machine.sharing").is_supported():
        pytest.skip("files in memory are of Linux")
    owner, client = Client(mode), Client(mode)
    machine, handle, opened = client.emulator._machine, (ctypes.c_char * 64)(), ctypes.c_uint64()
    given = owner.allocate(4096)
    owner.do("cuIpcGetMemHandle", handle, given)
    by_value = type("Handle", (ctypes.Structure,), {"_fields_": [("bytes", ctypes.c_char * 64)]}).from_buffer(handle)
    function = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, type(by_value), ctypes.c_uint)
    call = function(client.emulator.address("cuIpcOpenMemHandle_v2"))
    monkeypatch.setattr(module("emulator.entries.memories.ipc"), "_refuse_own", lambda pid: None)

    def open_or_allocate() -> int:
        if name != "cuIpcCloseMemHandle":
            return int(client.allocate(4096))
        assert call(ctypes.addressof(opened), by_value, 1) == 0
        return opened.value

    def free(address: int) -> int:
        return int(client.code(name, address, *([0] if name == "cuMemFreeAsync" else [])))

    assert free(open_or_allocate()) == 0
    client.do("cuCtxSynchronize")
    files, used = len(os.listdir("/proc/self/fd")), machine.devices[0].used
    place, is_there = 0, True
    while is_there:
        place += 1
        address = open_or_allocate()
        found = machine.space.find(address)
        _, is_there = raise_at(place, lambda: free(address), KeyboardInterrupt())  # noqa: B023
        machine.interrupts.drop()
        client.do("cuCtxSynchronize")
        for holding in list(machine.handles[client.context].holdings.values()):
            assert machine.space.find(holding.allocation.base) is holding.allocation, place
        assert found.alive is (machine.space.find(address) is found), place
        address = open_or_allocate()
        client.do("cuMemsetD8_v2", address, 1, 4096)
        assert free(address) == 0, place
        client.do("cuCtxSynchronize")
        for holding in list(machine.handles[client.context].holdings.values()):  # what was not freed
            assert not holding.released and free(holding.allocation.base) == 0, place
        client.do("cuCtxSynchronize")
        assert machine.devices[0].used == used, place
    assert place > 20
    # (two lines of Backing.close() have a descriptor in a variable only)
    assert len(os.listdir("/proc/self/fd")) <= files + 2


def physical(client: Client) -> int:
    virtual = module("emulator.entries.memories.virtual_entries")
    return int(client.get("cuMemCreate", 2 << 20, virtual._PROPERTIES.pack(1, 0, 1, 0, 0, 0, 0, 0), 0))


def mapped(client: Client) -> int:
    base, made = client.get("cuMemAddressReserve", 2 << 20, 0, 0, 0), physical(client)
    client.do("cuMemMap", base, 2 << 20, 0, made, 0)
    client.do("cuMemRelease", made)
    return int(base)


def library(client: Client) -> int:
    made = client.get("cuLibraryLoadData", VARIABLE, 0, 0, 0, 0, 0, 0)
    client.get("cuLibraryGetModule", made)
    return int(made)


VARIABLE = HEAD.encode() + b".visible .global .u32 g[16];\n.visible .entry k() { ret; }\0"
DESCRIPTION = module("emulator.entries.texturing.array_entries")._ARRAY_3D.pack(16, 16, 0, 0x20, 1, 0)
RELEASES: dict[str, Any] = {
    "cuMemUnmap": (mapped, [2 << 20]),
    "cuMemRelease": (physical, []),
    "cuModuleUnload": (lambda client: client.get("cuModuleLoadData", VARIABLE), []),
    "cuLibraryUnload": (library, []),
    "cuArrayDestroy": (lambda client: client.get("cuArray3DCreate_v2", DESCRIPTION), []),
    "cuMipmappedArrayDestroy": (lambda client: client.get("cuMipmappedArrayCreate", DESCRIPTION, 4), []),
    "cuEventDestroy_v2": (lambda client: client.get("cuEventCreate", 6), []),
}


@pytest.mark.parametrize("name", list(RELEASES))
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupted_release_can_be_repeated_and_leaves_nothing(name: str) -> None:
    if name.startswith("cuEvent") and not module("emulator.machine.sharing").is_supported():
        pytest.skip("files in memory are of Linux")
    create, more = RELEASES[name]
    client = Client("lazy")
    machine, files = client.emulator._machine, len(os.listdir("/proc/self/fd")) if name.startswith("cuEvent") else 0
    before = machine.devices[0].used, len(machine.handles), len(machine.physical), len(machine.space.live())
    place, is_there = 0, True
    while is_there:
        place += 1
        handle = create(client)
        _, is_there = raise_at(place, lambda: client.code(name, handle, *more), KeyboardInterrupt())  # noqa: B023
        machine.interrupts.drop()
        assert client.code(name, handle, *more) in (0, 1, 400), place
        if name == "cuMemUnmap":
            client.do("cuMemAddressFree", handle, 2 << 20)
        left = machine.devices[0].used, len(machine.handles), len(machine.physical), len(machine.space.live())
        assert left == before and not machine.handles[client.context].owned, place
    assert place > 10
    if files:  # (two lines of Backing.close() have a descriptor in a variable only)
        assert len(os.listdir("/proc/self/fd")) <= files + 2


@pytest.mark.parametrize("name", ["cuStreamBeginCaptureToGraph", "cuStreamEndCapture"])
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_graph_can_be_used_after_an_interrupt_of_a_capture_into_it(name: str) -> None:
    client, made = Client("lazy"), ctypes.c_uint64()
    stream, graph = client.stream(), client.get("cuGraphCreate", 0)

    def begin() -> int:
        return int(client.code("cuStreamBeginCaptureToGraph", stream, graph, 0, 0, 0, 1))

    def end() -> int:
        return int(client.code("cuStreamEndCapture", stream, made))

    place, is_there = 0, True
    while is_there:
        place += 1
        if name == "cuStreamEndCapture":
            assert begin() == 0
        call = end if name == "cuStreamEndCapture" else begin
        _, is_there = raise_at(place, call, KeyboardInterrupt())
        client.emulator._machine.interrupts.drop()
        assert end() in (0, 401, 901), place  # the interrupted call has begun it, or not; or it is broken
        assert begin() == 0 and end() == 0, place
    assert place > 20


@pytest.mark.parametrize("name", ["cuDevicePrimaryCtxRelease_v2", "cuGreenCtxDestroy"])
def test_an_interrupted_wait_for_the_last_work_of_a_device_loses_no_release(name: str) -> None:
    green = module("emulator.entries.hardware.green_entries")
    place, is_there, lost = 0, True, 0
    while is_there:
        place += 1
        client, handle = Client("lazy"), 0
        device = client.emulator._machine.devices[0]
        client.do("cuMemsetD32Async", client.allocate(4), 1, 1, client.stream())
        if name == "cuGreenCtxDestroy":
            resource = ctypes.create_string_buffer(green._RESOURCE.size)
            client.do("cuDeviceGetDevResource", 0, resource, 1)
            handle = client.get("cuGreenCtxCreate", client.get("cuDevResourceGenerateDesc", resource, 1), 0, 1)
            client.do("cuDevicePrimaryCtxRelease_v2", 0)
        _, is_there = raise_at(place, lambda: client.code(name, handle), KeyboardInterrupt())  # noqa: B023
        client.emulator._machine.interrupts.drop()
        client.code(name, handle)
        lost += bool(device.retained)
        assert device.retained or device.primary.state == 709, place
    assert place > 50
    assert lost <= (name == "cuGreenCtxDestroy")  # between its handle and its retain: a release must not come twice


def test_a_heap_is_closed_from_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """From the beginning, the time would grow with the square of the pieces, of which a kernel may leave 500,000."""
    space, heap, freed = module("emulator.machine.space").Space(), module("emulator.machine.holdings").Heap(), []
    made = [heap.allocate(space, 16, 1 << 20) for _ in range(50)]
    free = space.free
    monkeypatch.setattr(space, "free", lambda address: freed.append(address) or free(address))
    heap.close(space)
    assert freed == sorted(made, reverse=True) and heap.used == 0 and not space.live()


def test_the_heap_forgets_what_an_interrupted_kernel_has_freed() -> None:
    space, heap = module("emulator.machine.space").Space(), module("emulator.machine.holdings").Heap()
    place, is_there = 0, True
    while is_there:
        place += 1
        address = heap.allocate(space, 96, 1 << 20)
        _, is_there = raise_at(place, lambda: heap.free(space, address), KeyboardInterrupt())  # noqa: B023
        heap.repair(space)
        assert heap.used == (96 if space.find(address) else 0), place
        heap.close(space)
        assert heap.used == 0 and not space.live(), place
    assert place > 10


def test_what_a_signal_handler_allocates_inside_of_an_allocation_has_other_addresses():
    space = module("emulator.machine.space").Space()
    made = []

    def allocate():
        made.append(space.new_address(64))

    assert each_opcode({type(space).new_address.__code__}, allocate, allocate) > 20
    made.sort()
    assert all(second - first >= 64 for first, second in zip(made, made[1:]))


def test_reservations_are_found_after_a_signal_handler_has_reserved_inside_of_an_allocation():
    space = module("emulator.machine.space").Space()
    made = []

    def reserve():
        made.append(space.reserve(64, 256, ""))

    assert each_opcode({type(space).new_address.__code__}, reserve, reserve) > 20
    assert made != sorted(made)
    for base in made:
        assert space.reservation(base) == space.reservation(base + 63) == (base, 64)
        assert space.reservation(base - 1) is space.reservation(base + 64) is None


def test_a_signal_handler_may_make_a_stream_while_the_streams_are_asked():
    class Stream:
        last = None

        @property
        def blocking(self):
            context.streams[object()] = context.legacy  # what a signal handler may do between two of them
            return True

    context = SimpleNamespace(legacy=Stream())
    context.legacy.context, context.streams = context, {1: Stream(), 2: Stream()}
    queues = module("emulator.machine.queues").Queues
    assert queues.pending(SimpleNamespace(), context.legacy) == [] and len(context.streams) == 4
