"""The emulator as libcuda.so.1 of a process: what the object exports, and when its functions are safe to call.

Each test runs new processes, because a process cannot undo it. Functions of the C library call the entry points from
where Python code cannot: atexit() after the interpreter has ended, pthread_create() in threads of its own.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.subject import FOLDER, NAME, module

loading = module("emulator.impersonating.loading")
pytestmark = pytest.mark.skipif(bool(loading.unusable()), reason=loading.unusable())

BEGIN = """
import ctypes, gc, os, sys, threading, time, warnings
from tests.subject import module
made = module("emulator").impersonate()
cuda, held, libc = ctypes.CDLL("libcuda.so.1"), ctypes.PyDLL("libcuda.so.1"), ctypes.CDLL(None)
def address(name):
    return ctypes.c_void_p(ctypes.cast(cuda[name], ctypes.c_void_p).value)
def start():
    context = ctypes.c_void_p()
    assert not cuda.cuInit(0) and not cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
    assert not cuda.cuCtxSetCurrent(context)
"""


@pytest.fixture
def records(python, tmp_path):
    """Run a snippet after BEGIN in a folder that keeps its journals, and return these by library."""

    def run(code, *arguments, **options):
        folder = tmp_path / "journals"
        folder.mkdir(exist_ok=True)
        result = python(BEGIN + code, *arguments, env={loading.VARIABLE: str(folder)}, check=True, **options)
        assert not result.stderr, result.stderr
        return {record.pid: record for record in module("emulator.impersonating.journal").read(folder)}

    return run


def only(records, **wanted):
    """Return the one journal of libcuda."""
    (record,) = records.values()
    assert record.served == "libcuda"
    return record


# -- what is exported


def test_all_functions_are_exported_under_both_names(python) -> None:
    result = python(
        BEGIN
        + """
for soname in "libcuda.so.1", "libcuda.so":
    loaded = ctypes.CDLL(soname)
    names = list(module("headers.cuda_h").prototypes())
    addresses = {ctypes.cast(loaded[name], ctypes.c_void_p).value for name in names}
    assert len(addresses) == len(names) > 600
    assert loaded.cuGraphicsGLRegisterBuffer(0, 0, 0) == loaded.cuEGLStreamConsumerConnect(0, 0) == 801
    assert not hasattr(loaded, "cuNothing")
    version = ctypes.c_int()
    assert loaded.cuDriverGetVersion(ctypes.byref(version)) == 0 and version.value == 13000
print("fine")
"""
    )
    assert (result.stdout, result.stderr) == ("fine\n", "")


def test_what_programs_get_from_getprocaddress_is_in_the_object(python) -> None:
    python(
        BEGIN
        + """
table = module("emulator.impersonating.attaching").ATTACHED[0].table
found = ctypes.c_void_p()
for name, version, flags, exported in (
    (b"cuMemAlloc", 13000, 0, "cuMemAlloc_v2"), (b"cuStreamSynchronize", 13000, 2, "cuStreamSynchronize_ptsz")
):
    assert cuda.cuGetProcAddress_v2(name, ctypes.byref(found), version, ctypes.c_uint64(flags), None) == 0
    places = [ctypes.cast(ctypes.CDLL(so)[exported], ctypes.c_void_p).value for so in ("libcuda.so.1", "libcuda.so")]
    assert found.value in places
""",
        check=True,
    )


def test_the_emulator_is_shared_with_our_own_use(python) -> None:
    python(
        BEGIN
        + """
from tests.subject import rawcuda
start()
with rawcuda.Device(0).allocate(64) as memory:
    size = ctypes.c_size_t()
    assert cuda.cuMemGetAddressRange_v2(None, ctypes.byref(size), ctypes.c_uint64(memory.ptr)) == 0
    assert size.value == 64 and made.live_handles()["memory"] == 1
""",
        check=True,
        env={"RAWCUDA_DRIVER": "emulator"},
    )


@pytest.mark.skipif(not (shutil.which("cc") and shutil.which("ld")), reason="there is no C compiler")
def test_a_program_in_c_links_and_runs(python, tmp_path) -> None:
    source = tmp_path / "program.c"
    source.write_text(
        "#include <stdio.h>\nint cuInit(unsigned), cuDeviceGetCount(int *);\n"
        'int main(void) { int n = 0, a = cuInit(0), b = cuDeviceGetCount(&n); printf("%d %d %d\\n", a, b, n); }\n'
    )
    folder, variables = loading.prepare()
    try:
        program = str(tmp_path / "program")
        subprocess.run(["cc", str(source), "-o", program, f"-L{folder}", "-lcuda"], check=True)
        result = subprocess.run(
            [program], env={**os.environ, **variables, "RAWCUDA_EMULATOR": "devices=3"}, capture_output=True, text=True
        )
    finally:
        loading.remove(folder)
    if not loading._libpython():
        assert result.stdout == "999 999 0\n"  # this Python has no library for a program to load
    else:
        assert (result.stdout, result.stderr) == ("0 0 3\n", "")


@pytest.mark.skipif(not (shutil.which("cc") and shutil.which("ld")), reason="there is no C compiler")
@pytest.mark.parametrize(
    ("before", "status"),
    [("", -signal.SIGINT), ("signal(SIGINT, SIG_IGN);", 0), ("signal(SIGINT, leave);", 7)],
)
def test_ctrl_c_ends_a_program_in_c(tmp_path, before, status) -> None:
    if not loading._libpython():
        pytest.skip("this Python has no library for a program to load")
    source = tmp_path / "program.c"
    source.write_text(
        "#include <signal.h>\n#include <stdlib.h>\n#include <unistd.h>\nint cuInit(unsigned);\n"
        "void leave(int number) { _exit(7); }\n"
        f"int main(void) {{ {before} if (cuInit(0)) return 3; raise(SIGINT); return 0; }}\n"
    )
    folder, variables = loading.prepare()
    try:
        program = str(tmp_path / "program")
        subprocess.run(["cc", str(source), "-o", program, f"-L{folder}", "-lcuda"], check=True)
        result = subprocess.run([program], env={**os.environ, **variables}, capture_output=True, text=True)
    finally:
        loading.remove(folder)
    assert (result.returncode, result.stdout, result.stderr) == (status, "", "")


THREADS = """
#include <pthread.h>
#include <signal.h>
int cuInit(unsigned);
static pthread_barrier_t begin;
static void *call(void *code) { pthread_barrier_wait(&begin); *(int *)code = cuInit(0); return 0; }
int main(void) {
    pthread_t threads[8]; int codes[8];
    pthread_barrier_init(&begin, 0, 8);
    for (int i = 0; i < 8; i++) pthread_create(&threads[i], 0, call, &codes[i]);
    for (int i = 0; i < 8; i++) { pthread_join(threads[i], 0); if (codes[i]) return 3; }
    raise(SIGINT);
    return 0;
}
"""


@pytest.mark.skipif(not (shutil.which("cc") and shutil.which("ld")), reason="there is no C compiler")
def test_threads_of_a_program_in_c_may_make_their_first_calls_at_once(tmp_path) -> None:
    if not loading._libpython():
        pytest.skip("this Python has no library for a program to load")
    (tmp_path / "program.c").write_text(THREADS)
    folder, variables = loading.prepare()
    try:
        words = [str(tmp_path / "program.c"), "-o", str(tmp_path / "program"), f"-L{folder}", "-lcuda", "-pthread"]
        subprocess.run(["cc", *words], check=True)
        environment = {**os.environ, **variables}
        result = subprocess.run([str(tmp_path / "program")], env=environment, capture_output=True, text=True)
    finally:
        loading.remove(folder)
    assert (result.returncode, result.stdout, result.stderr) == (-signal.SIGINT, "", "")


# -- exit, exceptions, threads, forks


def test_calls_after_the_interpreter_has_ended_are_refused(records) -> None:
    record = only(
        records("""
start()
for _ in range(1000):
    assert libc.__cxa_atexit(address("cuCtxSynchronize"), None, None) == 0
""")
    )
    assert record.calls["cuCtxSynchronize"] == 1000
    assert [result for _, result, _ in record.last] == [4] * 64


BAD = """
ptx = (b".version 7.0\\n.target sm_70\\n.address_size 64\\n"
    b".entry bad() { .reg .b64 %a; mov.u64 %a, 8; st.global.u32 [%a], 1; ret; }\\0")
loaded, kernel = ctypes.c_void_p(), ctypes.c_void_p()
assert not cuda.cuModuleLoadData(ctypes.byref(loaded), ptx)
assert not cuda.cuModuleGetFunction(ctypes.byref(kernel), loaded, b"bad")
assert not cuda.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, None, None, None)
"""


def test_functions_of_c_run_at_the_end_after_a_failure_that_nobody_has_noticed(python, tmp_path) -> None:
    (tmp_path / "left").touch()
    code = """
start()
at_exit, copy = libc["__cxa_atexit"], libc.strdup
at_exit.argtypes, copy.restype = [ctypes.c_void_p] * 3, ctypes.c_void_p
at_exit(ctypes.cast(libc.remove, ctypes.c_void_p), copy(sys.argv[1].encode()), None)
"""
    result = python(BEGIN + code + BAD, str(tmp_path / "left"))
    assert result.returncode == 1 and "null-pointer write" in result.stderr and not (tmp_path / "left").exists()


@pytest.mark.parametrize("how", ["global", "cycle", "module"])
def test_objects_release_their_memory_while_the_interpreter_ends(records, how) -> None:
    """Destructors in C run after the exit handlers, when modules are torn down. A driver would still serve them."""
    record = only(
        records(
            """
start()
new = ctypes.PyDLL(None).PyCapsule_New
new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p] * 3
name = ctypes.create_string_buffer(b"name")
class Buffer:
    def __init__(self):
        self.memory = ctypes.c_uint64()
        assert cuda.cuMemAlloc_v2(ctypes.byref(self.memory), ctypes.c_size_t(64)) == 0
    def __del__(self, free=cuda.cuMemFree_v2):
        free(self.memory)
kept = [Buffer() for _ in range(500)] + [
    new(1, ctypes.addressof(name), address("cuCtxSynchronize")) for _ in range(500)
]
if sys.argv[1] != "global":
    kept.append(kept)
if sys.argv[1] == "module":
    sys.modules["kept"] = type(sys)("kept")
    sys.modules["kept"].kept = kept
    del kept
""",
            how,
        )
    )
    assert record.calls["cuMemFree_v2"] == record.calls["cuCtxSynchronize"] == 500
    assert {result for _, result, _ in record.last} == {0}


def test_a_pending_exception_survives_a_call(records) -> None:
    record = only(
        records("""
start()
new = ctypes.PyDLL(None).PyCapsule_New
new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p] * 3
name = ctypes.create_string_buffer(b"name")
def capsule(function):
    return new(1, ctypes.addressof(name), address(function))
for number in range(1000):
    for function in "cuCtxSynchronize", "cuGraphicsMapResources", "cuCtxResetPersistingL2Cache":
        try:
            int("x", base=(capsule(function),))
        except TypeError as error:
            assert "tuple" in str(error)
        else:
            raise AssertionError("the exception was lost")
assert not made.kept_exceptions
""")
    )
    assert record.calls["cuCtxSynchronize"] == record.calls["cuGraphicsMapResources"] == 1000
    assert [result for name, result, _ in record.last if name == "cuCtxSynchronize"] == [0] * 21


def test_threads_that_python_did_not_create_can_call(records) -> None:
    record = only(
        records("""
start()
version = (ctypes.c_int * 1000)()
for begin in range(0, 1000, 50):
    threads = (ctypes.c_ulong * 50)()
    for i in range(50):
        at = ctypes.c_void_p(ctypes.addressof(threads) + 8 * i)
        argument = ctypes.c_void_p(ctypes.addressof(version) + 4 * (begin + i))
        assert libc.pthread_create(at, None, address("cuDriverGetVersion"), argument) == 0
    for thread in threads:
        result = ctypes.c_void_p(1)
        assert libc.pthread_join(ctypes.c_ulong(thread), ctypes.byref(result)) == 0
        assert not result.value
assert set(version) == {13000}
""")
    )
    assert record.calls["cuDriverGetVersion"] == 1000


def test_threads_of_c_may_call_while_the_process_ends(python) -> None:
    """Some of them wait for the interpreter when it ends."""
    for _ in range(3):
        result = python(
            BEGIN
            + """
start()
def hammer():
    while True:
        cuda.cuCtxSynchronize()
for _ in range(4):
    threading.Thread(target=hammer, daemon=True).start()
version, thread = ctypes.c_int(), ctypes.c_ulong()
for _ in range(100):
    libc.pthread_create(ctypes.byref(thread), None, address("cuDriverGetVersion"), ctypes.byref(version))
"""
        )
        assert (result.returncode, result.stderr) == (0, "")


def test_a_forked_child_gets_an_error_and_does_not_hang(records) -> None:
    found = records("""
start()
done = threading.Event()
def hammer():
    while not done.is_set():
        cuda.cuCtxSynchronize()
threads = [threading.Thread(target=hammer) for _ in range(4)]
for thread in threads:
    thread.start()
pids = []
for _ in range(10):
    with warnings.catch_warnings():  # from 3.12 on, of a process with threads
        warnings.simplefilter("ignore")
        pids.append(os.fork())
    if not pids[-1]:
        codes = {cuda.cuCtxSynchronize() for _ in range(100)} | {held.cuMemFree_v2(0), cuda.cuInit(0)}
        os._exit(codes != {3})
for pid in pids:
    assert os.waitpid(pid, 0)[1] == 0, pid
done.set()
for thread in threads:
    thread.join()
print(*pids)
""")
    children = [record for record in found.values() if set(record.calls) >= {"cuMemFree_v2"}]
    assert len(children) == 10
    assert all(record.calls["cuCtxSynchronize"] == 100 for record in children)


def test_the_end_without_the_folder_is_quiet(python) -> None:
    """A cleaner of temporary files may have removed it."""
    code = "import shutil; shutil.rmtree(os.environ[sys.argv[1]]); raise KeyError"
    result = python(BEGIN + code, loading.VARIABLE, env={loading.VARIABLE: None})
    assert result.returncode == 1 and result.stderr.count("Traceback") == 1 and result.stderr.endswith("KeyError\n")


def test_a_child_without_cuda_leaves_no_journals(python, tmp_path) -> None:
    result = python(
        BEGIN
        + """
folder = os.environ[sys.argv[1]]
before = len(os.listdir(folder))
for number in range(5):
    if not os.fork():
        if number == 4:
            version = ctypes.c_int()
            assert cuda.cuDriverGetVersion(ctypes.byref(version)) == 0 and version.value
            grandchild = os.fork()
            os._exit(os.waitpid(grandchild, 0)[1] if grandchild else cuda.cuInit(0))
        os._exit(0)
    assert os.wait()[1] == 0
print(len(os.listdir(folder)) - before)
""",
        loading.VARIABLE,
        check=True,
    )
    assert result.stdout == "2\n"  # of the child that called a function, and of its own


def test_a_child_forked_before_the_initialization_can_use_the_emulator(python) -> None:
    python(
        BEGIN
        + """
pid = os.fork()
if not pid:
    start()
    os._exit(cuda.cuCtxSynchronize())
assert os.waitpid(pid, 0)[1] == 0
start()
""",
        check=True,
    )


def test_no_collection_begins_inside_a_call(python) -> None:
    """A finalizer may take a lock that another thread holds, which waits for the emulator."""
    python(
        BEGIN
        + """
start()
machine, inside = made._machine, []
class Node:
    def __init__(self):
        self.own = self
    def __del__(self):
        inside.append(machine.lock._is_owned())
memory = ctypes.c_uint64()
gc.set_threshold(1, 1, 1)
for _ in range(1000):
    Node()
    assert cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(16)) == 0
    assert held.cuMemFree_v2(memory) == 0
assert gc.isenabled() and len(inside) > 500 and not any(inside), (len(inside), sum(inside))
gc.disable()
assert cuda.cuCtxSynchronize() == 0 and not gc.isenabled()
""",
        check=True,
    )


def test_locks_of_a_library_do_not_matter(python) -> None:
    """A thread holds the library's lock during each call; others wait for it, or collect garbage that takes it."""
    python(
        BEGIN
        + """
start()
lock, done, current = threading.RLock(), [], threading.Barrier(4)
context = ctypes.c_void_p()
cuda.cuCtxGetCurrent(ctypes.byref(context))
class Buffer:
    def __init__(self):
        self.own = self
        self.memory = ctypes.c_uint64()
        with lock:
            assert cuda.cuMemAlloc_v2(ctypes.byref(self.memory), ctypes.c_size_t(16)) == 0
    def __del__(self):
        with lock:
            done.append(cuda.cuMemFree_v2(self.memory))
def work():
    cuda.cuCtxSetCurrent(context)
    current.wait()      # each thread collects the others' garbage, which a thread without a context cannot free
    for _ in range(250):
        Buffer()
gc.set_threshold(5)
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
gc.collect()
assert len(done) == 1000 and set(done) == {0}, (len(done), set(done))
""",
        check=True,
    )


def test_texts_of_errors_are_told_at_any_time(python) -> None:
    """A client that asks for the text of error 4, at exit or in a child, gets a pointer that it can read."""
    result = python(
        BEGIN
        + """
def texts():
    for function in cuda.cuGetErrorName, cuda.cuGetErrorString:
        text = ctypes.c_char_p(b"unwritten")
        yield function(4, ctypes.byref(text)), text.value
        yield function(12345, ctypes.byref(text)), text.value
        yield function(4, None)
start()
fine = [(0, b"CUDA_ERROR_DEINITIALIZED"), (1, None), 1, (0, b"driver shutting down"), (1, None), 1]
assert list(texts()) == fine, list(texts())
pid = os.fork()
if not pid:
    os._exit(list(texts()) != fine)
assert os.waitpid(pid, 0)[1] == 0
"""
    )
    assert (result.returncode, result.stderr) == (0, "")


# -- the journal


def test_the_last_call_before_a_crash_is_told(python) -> None:
    result = python(
        ["-m", NAME, "emulate", "--", sys.executable, "-c"],
        """
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")
cuda.cuInit(0)
cuda.cuDeviceGetCount(ctypes.c_void_p(8))
""",
    )
    assert result.returncode == 128 + 11
    assert "was ended by SIGSEGV" in result.stderr
    assert re.search(r"last call: cuDeviceGetCount, in thread 0x[0-9a-f]+, which had not returned", result.stderr)
    assert "before it: cuInit 0" in result.stderr


def test_the_journal_of_a_crashed_process_stays(python, tmp_path) -> None:
    result = python(
        BEGIN + "start()\ncuda.cuCtxSynchronize()\nlibc.abort()", env={"TMPDIR": str(tmp_path), loading.VARIABLE: None}
    )
    assert result.returncode == -6
    (folder,) = tmp_path.glob("emulated-*/*")
    told = python(["-m", NAME, "emulate", "--crashed", str(folder)], check=True).stdout
    assert "last call: cuCtxSynchronize, which returned 0" in told and "before it: cuCtxSetCurrent 0" in told
    assert "there is no such folder" in python(["-m", NAME, "emulate", "--crashed", "/no/folder"]).stderr


@pytest.mark.parametrize("flags", [("-I",), ("-E", "-s"), ("-S",)])
def test_isolated_children_find_the_emulator(python, flags) -> None:
    code = "import ctypes; print(ctypes.CDLL('libcuda.so.1').cuInit(0))"
    result = python(["-m", NAME, "emulate", sys.executable, *flags, "-c", code], check=True)
    assert (result.stdout, result.stderr) == ("0\n", "")


def test_a_package_in_a_folder_with_a_strange_name_serves_children(python, tmp_path) -> None:
    home = tmp_path / "a 'quoted' \"ä\" {folder}"
    shutil.copytree(FOLDER, home / "another")
    code = "import ctypes; print(ctypes.CDLL('libcuda.so.1').cuInit(0))"
    result = python(["-m", "another", "emulate", "-c", code], env={"PYTHONPATH": str(home)}, check=True)
    assert (result.stdout, result.stderr) == ("0\n", "")


def test_what_stops_a_kernel_is_written_to_stderr(python) -> None:
    result = python(
        BEGIN
        + """
start()
ptx = b".version 7.0\\n.target sm_70\\n.address_size 64\\n" + (
    b".visible .entry shift(.param .u64 a) { .reg .b64 d; ld.param.u64 d, [a]; st.global.u32 [d+64], 1; ret; }\\0")
loaded, kernel, memory = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint64()
assert not cuda.cuModuleLoadData(ctypes.byref(loaded), ptx)
assert not cuda.cuModuleGetFunction(ctypes.byref(kernel), loaded, b"shift")
assert not cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(64))
values = (ctypes.c_void_p * 1)(ctypes.addressof(memory))
cuda.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, None, values, None)
print(cuda.cuCtxSynchronize(), cuda.cuCtxSynchronize())
"""
    )
    assert result.stdout == "700 700\n"
    first, *rest = result.stderr.splitlines()
    happened = "out-of-bounds write of 4 bytes in shift(), ptx line 4, thread (0, 0, 0) of block (0, 0, 0)"
    assert first == f"emulator: {happened}"
    assert "kernel shift, block (0, 0, 0), thread (0, 0, 0)" in result.stderr
    assert result.stderr.count("out-of-bounds") == 1, "the error of later calls is the same"


def test_an_interrupt_that_nobody_claimed_does_not_disturb_the_end(python) -> None:
    result = python(
        "import atexit, time\natexit.register(time.sleep, 0.2)  # runs after the emulator's own function\n"
        + BEGIN
        + """
start()
from tests.subject import module
cuda.cuInit(0)
module("emulator").shared()._machine.interrupts.keep(KeyboardInterrupt())
"""
    )
    assert (result.returncode, result.stderr) == (0, "")


STARTS = """
import ctypes, signal, sys, time
from importlib import abc

class Late(Exception):
    pass

def interrupt(number, frame):
    raise (KeyboardInterrupt if sys.argv[2] == "KeyboardInterrupt" else Late)

class Watch(abc.MetaPathFinder):  # interrupts the import of one module
    def find_spec(self, name, path=None, target=None):
        if name.endswith(sys.argv[1]):
            sys.meta_path.remove(self)
            signal.raise_signal(signal.SIGALRM)

signal.signal(signal.SIGALRM, interrupt)
sys.meta_path.insert(0, Watch())
code = -1
try:
    code = ctypes.CDLL("libcuda.so.1").cuInit(0)
    for _ in range(100):
        time.sleep(0.1)
except (KeyboardInterrupt, Late) as caught:
    print(code, type(caught).__name__)
"""


@pytest.mark.parametrize("kind", ["KeyboardInterrupt", "Late"])
@pytest.mark.parametrize("name", [".machine.machine", ".impersonating.attaching", ".device_entries"])
def test_an_interrupt_of_the_first_call_reaches_the_program(python, name: str, kind: str) -> None:
    result = python(["-m", NAME, "emulate", "--", sys.executable, "-c", STARTS, name, kind])
    assert (result.stdout, result.stderr, result.returncode) == (f"0 {kind}\n", "", 0)


def test_an_interrupt_during_the_end_does_not_divide_it(python, tmp_path) -> None:
    result = python(
        BEGIN
        + """
import signal
start()
attaching = module("emulator.impersonating.attaching")
class Interrupting:
    def search(self, name):
        signal.raise_signal(signal.SIGINT)
attaching._RELEASING = Interrupting()
""",
        env={loading.VARIABLE: str(tmp_path)},
    )
    assert result.stderr.count("KeyboardInterrupt") == 1 and result.returncode == 0
    (record,) = module("emulator.impersonating.journal").read(str(tmp_path))
    assert record.ended


def emulated(python, code):
    """Run a program under `emulate` with the status 0, with the status 1, and with --doctor."""
    run = ["-m", NAME, "emulate"]
    return (
        python([*run, *options, sys.executable, "-c", code, status])
        for options, status in (([], "0"), ([], "1"), (["--doctor"], "0"))
    )


def test_what_was_called_in_vain_is_listed_at_the_end(python) -> None:
    code = """
import ctypes, sys
cuda = ctypes.CDLL("libcuda.so.1")
address = ctypes.c_void_p()
for name in b"cuGraphicsMapResources", b"cuNothing":
    cuda.cuGetProcAddress_v2(name, ctypes.byref(address), 13000, ctypes.c_uint64(), None)
print(cuda.cuGraphicsMapResources(), cuda.cuGraphicsMapResources())
sys.exit(int(sys.argv[1]))
"""
    fine, failed, asked = emulated(python, code)
    assert fine.stdout == failed.stdout == asked.stdout == "801 801\n"
    assert fine.stderr == ""
    assert failed.stderr == "emulate: called, but missing in the emulator: cuGraphicsMapResources (2)\n"
    assert "cuGraphicsMapResources (2)" in asked.stderr
    assert "requested with cuGetProcAddress, but missing in the emulator: cuGraphicsMapResources (1)" in asked.stderr
    assert "names that the emulator does not know: cuNothing" in asked.stderr
    assert "libcuda.so.1" in asked.stderr.splitlines()[0]
    here = BEGIN + "cuda.cuGraphicsMapResources()\nif sys.argv[1:]: raise KeyError"
    assert python(here).stderr == ""
    assert "called, but missing in the emulator: cuGraphicsMapResources (1)" in python(here, "fail").stderr


def test_why_the_last_call_was_refused_is_told_if_the_program_fails(python) -> None:
    code = (
        BEGIN
        + """
start()
memory = ctypes.c_uint64()
print(cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(16)), cuda.cuMemsetD8_v2(memory, 0, ctypes.c_size_t(17)))
sys.exit(int(sys.argv[1]))
"""
    )
    fine, failed, asked = emulated(python, code)
    assert fine.stdout == failed.stdout == asked.stdout == "0 1\n"
    assert fine.stderr == ""
    told = "emulate: the last call that was refused: cuMemsetD8_v2 returned 1: "
    assert failed.stderr.startswith(told) and "17 bytes" in failed.stderr and failed.stderr.count("\n") == 1
    assert told in asked.stderr


@pytest.mark.parametrize("where", ["here", "in a child"])
@pytest.mark.parametrize("name,call", [("libcuda.so.1", "cuMemAlloc_v2"), ("libcudart.so.13", "cudaMalloc")])
def test_a_refused_call_is_told_of_a_library_that_is_used(python, where: str, name: str, call: str) -> None:
    code = f"""
if {where!r} == "here" or not os.fork():
    {call == "cuMemAlloc_v2"} and start()
    code = ctypes.CDLL({name!r}).{call}(ctypes.byref(ctypes.c_uint64()), ctypes.c_size_t(1 << 50))
    print(code, *told_here(), sep="\\n", flush=True)
    os._exit(0)
assert os.wait()[1] == 0
"""
    begin = BEGIN + f"from {NAME}.emulator.impersonating.loading import told_here\n"
    said = python(begin + code, check=True).stdout.splitlines()
    assert said[0] == "2" and said[1].startswith("the last call that was refused: "), said
    assert "returned 2: 1125899906842624 bytes were requested" in said[1]


@pytest.mark.parametrize("mode,call", [("eager", "cuLaunchKernel"), ("lazy", "cuCtxSynchronize")])
def test_an_interrupt_is_named_as_the_reason_of_a_failed_call(python, mode: str, call: str) -> None:
    code = (
        BEGIN
        + """
import signal, time
start()
ptx = b".version 7.0\\n.target sm_70\\n.address_size 64\\n.visible .entry spins() { .reg .b32 r; .reg .pred p;" + (
    b"mov.u32 r, 0; L: add.u32 r, r, 1; setp.lt.u32 p, r, 90000000; @p bra L; ret; }\\0")
loaded, kernel = ctypes.c_void_p(), ctypes.c_void_p()
assert not cuda.cuModuleLoadData(ctypes.byref(loaded), ptx)
assert not cuda.cuModuleGetFunction(ctypes.byref(kernel), loaded, b"spins")
signal.signal(signal.SIGALRM, signal.default_int_handler)
signal.setitimer(signal.ITIMER_REAL, 0.3)
try:
    codes = [cuda.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, None, None, None), cuda.cuCtxSynchronize()]
    time.sleep(1)
except KeyboardInterrupt:
    print(*codes, cuda.cuCtxSynchronize())
sys.exit(3)
"""
    )
    result = python(["-m", NAME, "emulate", "--set", mode, sys.executable, "-c", code])
    assert (result.stdout, result.returncode) == ("999 0 0\n" if mode == "eager" else "0 999 0\n", 3)
    words = f"emulate: the last call that was refused: {call} returned 999: KeyboardInterrupt() ended the call"
    assert result.stderr.startswith(words)


# -- NVML


def test_nvml_answers_a_child_that_is_forked_while_another_thread_makes_a_call(python) -> None:
    python(
        BEGIN
        + """
nvml = ctypes.CDLL("libnvidia-ml.so.1")
assert nvml.nvmlInit_v2() == 0
start()
held = threading.Event()
def hold():
    with made._machine.lock:
        held.set()
        time.sleep(1)
threading.Thread(target=hold).start()
held.wait()
child = os.fork()
if not child:
    count = ctypes.c_uint()
    os._exit(nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)) or count.value)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2
""",
        check=True,
        timeout=30,
    )


def test_nvml_says_that_the_devices_are_emulated(python) -> None:
    result = python(
        BEGIN
        + """
nvml = ctypes.CDLL("libnvidia-ml.so.1")
count, handle, text, short = ctypes.c_uint(), ctypes.c_void_p(), ctypes.create_string_buffer(96), (ctypes.c_char * 4)()
assert nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)) == 1  # before nvmlInit
assert nvml.nvmlInit_v2() == 0 and nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)) == 0 and count.value == 2
assert nvml.nvmlDeviceGetHandleByIndex_v2(2, ctypes.byref(handle)) == 2
assert nvml.nvmlDeviceGetHandleByIndex_v2(1, None) == 2
assert nvml.nvmlDeviceGetHandleByIndex_v2(1, ctypes.byref(handle)) == 0
assert nvml.nvmlDeviceGetName(handle, text, 96) == 0 and text.value.endswith(b" emulator")
assert nvml.nvmlDeviceGetName(handle, short, 4) == 7
assert nvml.nvmlDeviceGetUUID(handle, text, 96) == 0
found = ctypes.c_void_p()
assert nvml.nvmlDeviceGetHandleByUUID(text, ctypes.byref(found)) == 0 and found.value == handle.value
assert nvml.nvmlDeviceGetHandleByUUID(b"GPU-x", ctypes.byref(found)) == 6
uuid = ctypes.create_string_buffer(16)
start()
assert cuda.cuDeviceGetUuid_v2(uuid, 1) == 0 and text.value.decode().replace("-", "")[3:] == uuid.raw.hex()
memory, more, allocated = (ctypes.c_uint64 * 3)(), (ctypes.c_uint64 * 5)(), ctypes.c_uint64()
assert cuda.cuMemAlloc_v2(ctypes.byref(allocated), ctypes.c_size_t(4096)) == 0
assert nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(handle)) == 0
assert nvml.nvmlDeviceGetMemoryInfo(handle, memory) == 0 and memory[2] == 4096 and memory[0] - memory[1] == 4096
assert nvml.nvmlDeviceGetMemoryInfo_v2(handle, more) == 0 and more[4] == 4096 and not more[0]
pci = ctypes.create_string_buffer(68)
assert nvml.nvmlDeviceGetPciInfo_v3(handle, pci) == 0 and pci.raw[36:].startswith(b"00000000:01:00.0")
older = ctypes.create_string_buffer(b"?" * 68, 68)
assert nvml.nvmlDeviceGetPciInfo_v2(handle, older) == 0 and older.raw == pci.raw[:36] + bytes(16) + b"?" * 16
assert nvml.nvmlDeviceGetHandleByPciBusId_v2(b"00000000:02:00.0", ctypes.byref(found)) == 0 and found.value == 2
major, minor = ctypes.c_int(), ctypes.c_int()
assert nvml.nvmlDeviceGetCudaComputeCapability(handle, ctypes.byref(major), ctypes.byref(minor)) == 0
assert (major.value, minor.value) == (9, 0)
assert nvml.nvmlSystemGetCudaDriverVersion(ctypes.byref(major)) == 0 and major.value == 13000
assert nvml.nvmlSystemGetDriverVersion(text, 96) == 0 and text.value == b"580.0"
assert nvml.nvmlDeviceGetPowerUsage(handle, ctypes.byref(count)) == 3
nvml.nvmlErrorString.restype = ctypes.c_char_p
assert nvml.nvmlErrorString(3) == b"Not Supported" and nvml.nvmlErrorString(77) == b"unknown error"
assert nvml.nvmlShutdown() == 0 and nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)) == 1 == nvml.nvmlShutdown()
assert not hasattr(nvml, "nvmlDeviceGetNothing")
""",
        check=True,
    )
    assert not result.stderr


# -- the command


def test_the_command_passes_everything_on(python, tmp_path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import sys; print(sys.argv[1:], sys.stdin.read()); sys.exit(7)")
    result = python(["-m", NAME, "emulate", str(script), "-x", "--set", "y"])
    assert (result.returncode, result.stdout) == (7, "['-x', '--set', 'y'] \n")
    assert not result.stderr
    children = "import subprocess, sys; sys.exit(subprocess.call([sys.executable, '-c', sys.argv[1]]))"
    count = (
        "import ctypes; n = ctypes.c_int(); c = ctypes.CDLL('libcuda.so.1'); c.cuInit(0); "
        "c.cuDeviceGetCount(ctypes.byref(n)); print(n.value)"
    )
    result = python(["-m", NAME, "emulate", "--set", "devices=3", "-c", children, count])
    assert (result.returncode, result.stdout, result.stderr) == (0, "3\n", "")


@pytest.mark.parametrize(
    "words",
    [["-"], ["--set", "devices=3", "-"], ["--", "-"], ["-c", "{}"], ["-c{}"], ["-m", "program"], ["-mprogram"]],
    ids=" ".join,
)
def test_a_program_is_given_as_to_the_command_python(python, tmp_path, words: list[str]) -> None:
    program = "import ctypes, sys; print(ctypes.CDLL('libcuda.so.1').cuInit(0), sys.argv[1:]); sys.exit(7)"
    (tmp_path / "program.py").write_text(program)
    command = [sys.executable, "-m", NAME, "emulate", *(word.format(program) for word in words), "-x", "-"]
    result = python(
        f"import subprocess, sys; sys.exit(subprocess.run({command}, input={program!r}, text=True).returncode)"
    )
    assert (result.returncode, result.stdout, result.stderr) == (7, "0 ['-x', '-']\n", "")


@pytest.mark.parametrize(
    "words, said",
    [
        ([], "no program is given"),
        (["--"], "no program is given"),
        (["--set", "devices=x", "true"], "'devices=x' is not one of"),
        (["--set"], "expected one argument"),
        (["--nothing", "true"], "--nothing"),
        (["/no/such/program"], "/no/such/program: No such file or directory"),
    ],
)
def test_a_wrong_command_line_is_refused(python, words, said) -> None:
    result = python(["-m", NAME, "emulate", *words])
    assert result.returncode in (1, 2) and said in result.stderr and "Traceback" not in result.stderr


def test_signals_reach_the_program(python, tmp_path) -> None:
    code = f"""
import os, signal, subprocess, sys, time
program = "import time; print('began', flush=True); time.sleep(60)"
started = subprocess.Popen(
    [sys.executable, "-m", {NAME!r}, "emulate", sys.executable, "-c", program], stdout=subprocess.PIPE
)
started.stdout.readline()
started.send_signal(signal.SIGTERM)
print(started.wait())
"""
    result = python(code, check=True, env={"TMPDIR": str(tmp_path)})
    assert result.stdout == f"{128 + 15}\n"
    assert not list(tmp_path.glob("emulated-*/*"))  # the folder of libraries is removed


@pytest.mark.parametrize("place", ["loading, 'prepare'", "subprocess, 'Popen'"])
def test_a_signal_before_the_program_is_started_reaches_it(python, tmp_path, place) -> None:
    """The folder of libraries was left, and a program that was just started went on alone."""
    code = f"""
import os, signal, subprocess, sys
from tests.subject import module
loading, command = module("emulator.impersonating.loading"), module("tools.commands.emulate_command")
where, name = {place}
real = getattr(where, name)
def signalled(*given, **more):
    made = real(*given, **more)
    os.kill(os.getpid(), signal.SIGTERM)
    return made
setattr(where, name, signalled)
print(command.main([sys.executable, "-c", "import time; time.sleep(60)"]))
"""
    result = python(code, check=True, env={"TMPDIR": str(tmp_path)}, timeout=30)
    assert result.stdout == f"{128 + 15}\n" and "was ended by SIGTERM" in result.stderr
    assert not list(tmp_path.glob("emulated-*/*"))


@pytest.mark.parametrize("to", [">&-", ">/dev/full"])
def test_what_is_printed_at_the_end_keeps_no_folder_and_goes_to_stderr_only(python, tmp_path, to) -> None:
    path = tmp_path / "program.py"
    path.write_text(
        "import ctypes\n"
        "from tests.subject import module\n"
        "module('emulator.impersonating.loading').take()\n"
        "library = ctypes.CDLL('libcuda.so.1')\n"
        "library.cuInit(0), library.cuCoredumpGetAttribute(0, None, None)\n"
        "raise ValueError\n"
    )
    code = f"""
import subprocess, sys
print(subprocess.run(["sh", "-c", "exec \\"$0\\" \\"$1\\" 2{to}", sys.executable, {str(path)!r}]).returncode)
"""
    result = python(code, check=True, env={"TMPDIR": str(tmp_path)})
    assert result.stdout in ("1\n", "120\n")
    assert not list(tmp_path.glob("emulated-*/*"))


@pytest.mark.skipif(not (shutil.which("cc") and shutil.which("ld")), reason="there is no C compiler")
def test_threads_of_a_program_in_c_have_contexts_of_their_own(tmp_path, python) -> None:
    if not loading._libpython():
        pytest.skip("this Python has no library for a program to load")
    source = tmp_path / "threads.c"
    source.write_text(
        """
#include <pthread.h>
#include <stdio.h>
int cuInit(unsigned), cuCtxSynchronize(void), cuDevicePrimaryCtxRetain(void **, int), cuCtxSetCurrent(void *);
int cuMemAlloc_v2(unsigned long long *, size_t), cuMemFree_v2(unsigned long long);
static void *context;
static void *work(void *wrong) {
    unsigned long long memory;
    if (cuCtxSynchronize() != 201 || cuCtxSetCurrent(context)) return wrong;
    for (int i = 0; i < 250; i++) if (cuMemAlloc_v2(&memory, 64) || cuMemFree_v2(memory)) return wrong;
    return 0;
}
int main(void) {
    pthread_t threads[4];
    void *wrong;
    if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0)) return 2;
    for (int i = 0; i < 4; i++) pthread_create(threads + i, 0, work, threads);
    for (int i = 0; i < 4; i++) if (pthread_join(threads[i], &wrong) || wrong) return 3;
    puts("fine");
}
"""
    )
    folder, variables = loading.prepare()
    try:
        program = str(tmp_path / "program")
        subprocess.run(["cc", str(source), "-o", program, f"-L{folder}", "-lcuda", "-lpthread"], check=True)
        result = subprocess.run([program], env={**os.environ, **variables}, capture_output=True, text=True)
    finally:
        loading.remove(folder)
    assert (result.returncode, result.stdout, result.stderr) == (0, "fine\n", "")


# -- what cannot be


def test_a_process_with_a_real_libcuda_is_refused(python, tmp_path) -> None:
    real = tmp_path / "libcuda.so.1"
    symbol = module("emulator.impersonating.elf").SYMBOL.encode()
    real.write_bytes(loading.object_for("libcuda", "libcuda.so.1", "").replace(symbol, symbol.upper()))
    result = python(
        f"""
        import ctypes, os
        from tests.subject import module
        ctypes.CDLL({str(real)!r})
        before = dict(os.environ)
        try:
            module("emulator").impersonate()
        except RuntimeError as error:
            print(error)
        assert before == dict(os.environ)
        """,
        check=True,
    )
    assert f"a real libcuda.so.1 is loaded in this process from {real}" in result.stdout


def test_two_copies_cannot_both_impersonate(python, tmp_path) -> None:
    shutil.copytree(FOLDER, tmp_path / "another")
    result = python(
        BEGIN
        + """
sys.path.insert(0, sys.argv[1])
import another.emulator
assert module("emulator").impersonate() is made  # the same copy may do so again
try:
    another.emulator.impersonate()
except RuntimeError as error:
    print(error)
""",
        str(tmp_path),
        check=True,
    )
    assert "emulated already, by another copy of this package" in result.stdout
    assert str(FOLDER) in result.stdout


@pytest.mark.parametrize(
    "change, said",
    [
        ("sys.platform = 'darwin'", "this system is darwin"),
        ("sys.platform = 'win32'", "this system is win32"),
        ("os.uname = lambda: os.uname_result(('Linux', '', '', '', 'riscv64'))", "this is riscv64"),
        ("os.confstr = lambda name: None", "the C library is not glibc (musl"),
        ("sys.implementation = type(sys.implementation)(name='pypy')", "this is pypy"),
    ],
)
def test_other_systems_get_a_clear_error(python, change, said) -> None:
    result = python(
        f"""
        import os, sys
        from tests.subject import module
        module("emulator.impersonating.loading")
        {change}
        try:
            module("emulator").impersonate()
        except NotImplementedError as error:
            print(error)
        """,
        check=True,
    )
    assert said in result.stdout and "CPython and glibc on 64-bit Linux, on x86-64 or arm64" in result.stdout


def test_without_memory_files_the_folder_serves(python) -> None:
    python(
        """
        import os
        del os.memfd_create
        from tests.subject import module
        module("emulator").impersonate()
        import ctypes
        assert ctypes.CDLL("libcuda.so.1").cuInit(0) == 0
        assert os.environ["LD_LIBRARY_PATH"].split(":")[0] in open("/proc/self/maps").read()
        """,
        check=True,
    )


def test_a_wrong_word_is_refused_before_anything_is_loaded(python) -> None:
    result = python(
        """
        import os
        from tests.subject import module
        try:
            module("emulator").impersonate()
        except ValueError as error:
            print(error)
        assert "libcuda" not in open("/proc/self/maps").read() and "LD_LIBRARY_PATH" not in os.environ
        """,
        env={"RAWCUDA_EMULATOR": "fast", "LD_LIBRARY_PATH": None},
        check=True,
    )
    assert "'fast' is not one of" in result.stdout


# -- the machine code


ASSEMBLERS = {"intel": "as", "arm": "aarch64-linux-gnu-as"}


@pytest.mark.parametrize("processor", ASSEMBLERS)
def test_the_bytes_are_those_of_the_instructions(processor, tmp_path) -> None:
    assembler = shutil.which(ASSEMBLERS[processor])
    if assembler is None or processor == "intel" and os.uname().machine != "x86_64":
        pytest.skip(f"there is no assembler for this processor: {ASSEMBLERS[processor]}")
    code, table = module(f"emulator.impersonating.{processor}"), module("emulator.impersonating.symbol_table")
    words = {name: value for name, value in vars(table).items() if name.isupper() and isinstance(value, int)}
    functions = "ISINIT ENSURE RELEASE FETCH RESTORE RUN GCOFF GCON SETNAME INITEX SAVE SELF".split()
    words.update({name: table.API + 8 * number for number, name in enumerate(functions)})
    lines = [f".set {name}, {value}" for name, value in words.items() if isinstance(value, int)]
    lines += [".intel_syntax noprefix", ".set TABLE, 0"] if processor == "intel" else [".set distance, end"]
    for line in code.SHARED.strip().splitlines():
        lines.append(line if line.endswith(":") else line.partition(" ")[2])
    source, made, plain = tmp_path / "code.s", tmp_path / "code.o", tmp_path / "code.bin"
    source.write_text("\n".join([*lines, "end: .quad 0" if processor == "arm" else ""]) + "\n")
    subprocess.run([assembler, "-o", str(made), str(source)], check=True)
    subprocess.run([assembler[:-2] + "objcopy", "-O", "binary", "-j", ".text", str(made), str(plain)], check=True)
    wanted, got = plain.read_bytes(), code.shared(0)
    if processor == "intel":
        at = code.SHARED.index("????????")
        begin = sum(len(line.split()[0]) // 2 for line in code.SHARED[:at].splitlines()[1:-1] if line[-1] != ":")
        wanted, got = (bytes(text[: begin + 3] + text[begin + 7 :]) for text in (wanted, got))
    assert wanted == got
    for function, name in zip(functions, table._API):
        assert ctypes.sizeof(ctypes.c_void_p) == 8 and function and name


def test_the_object_fits_every_architecture() -> None:
    """Written for both processors, the object has the same names; readelf, where it is installed, finds no fault."""
    elf, table = module("emulator.impersonating.elf"), module("emulator.impersonating.symbol_table")
    for machine, processor in (("x86_64", "intel"), ("aarch64", "arm")):
        names = [f"name{i}" for i in range(700)]
        made = elf.write(
            machine,
            module(f"emulator.impersonating.{processor}"),
            "libx.so.1",
            names,
            table.build("libcuda", names, (4, 3, 801, 999), {}),
        )
        assert made[:4] == b"\x7fELF" and all(name.encode() + b"\0" in made for name in names)
        if shutil.which("readelf"):
            path = Path(os.environ.get("TMPDIR", "/tmp")) / f"readelf-{os.getpid()}"
            path.write_bytes(made)
            try:
                told = subprocess.run(["readelf", "-aW", str(path)], capture_output=True, text=True)
            finally:
                path.unlink()
            assert "arning" not in told.stderr + told.stdout and not told.returncode, told.stderr
            assert "Library soname: [libx.so.1]" in told.stdout and told.stdout.count(" name") > 690


def test_a_full_folder_leaves_the_journal_in_memory(tmp_path, monkeypatch):
    """A mapped file whose bytes were not allocated would end the process at the first call (SIGBUS)."""
    import errno

    journal, allocated = module("emulator.impersonating.journal"), []

    def full(descriptor, offset, size):
        allocated.append(size)
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "posix_fallocate", full)
    made = journal.create(str(tmp_path), "libcuda", 4)
    made.write("more")
    assert allocated == [len(made._memory)]
    assert all(not os.path.getsize(tmp_path / name) for name in os.listdir(tmp_path))


@pytest.mark.parametrize("mode", [0o777, 0o775])
def test_libraries_are_not_put_where_others_could_exchange_them(tmp_path, monkeypatch, mode):
    (tmp_path / "home").mkdir()
    (tmp_path / "home/.cache").mkdir()
    tmp_path.chmod(mode)
    loading = module("emulator.impersonating.loading")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = loading._new_folder()
    os.rmdir(folder)
    assert not folder.startswith(str(tmp_path))
    monkeypatch.setattr(os, "statvfs", lambda path, real=os.statvfs: real("/none" if path == "/dev/shm" else path))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    with pytest.raises(OSError, match=f"chmod go-w {tmp_path}.*Set TMPDIR to a folder"):
        loading._new_folder()


def test_libraries_are_put_into_an_absolute_folder(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", ".")
    monkeypatch.chdir(tmp_path)
    for mode, expected in (0o700, True), (0o777, False):
        tmp_path.chmod(mode)
        folder = module("emulator.impersonating.loading")._new_folder()
        os.rmdir(folder)
        assert os.path.isabs(folder) and folder.startswith(str(tmp_path)) is expected


@pytest.mark.parametrize("name", ["john doe", "a\tb", "$ORIGIN", "a:b", "a;b"])
def test_libraries_are_put_where_the_loader_reads_one_path(tmp_path, monkeypatch, name):
    (tmp_path / name).mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / name))
    folder = module("emulator.impersonating.loading")._new_folder()
    os.rmdir(folder)
    assert not folder.startswith(str(tmp_path))


def test_no_folder_is_left_when_it_cannot_be_filled(tmp_path, monkeypatch):
    loading = module("emulator.impersonating.loading")

    def full(folder):
        raise OSError(28, "full")

    monkeypatch.setattr(loading, "write_programs", full)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(OSError, match="full"):
        loading.prepare()
    assert list(tmp_path.glob("*/*")) == []


def test_nobody_can_take_the_place_of_the_libraries(tmp_path, monkeypatch):
    """A process that goes on has the folder in its paths when its libraries were removed."""
    loading = module("emulator.impersonating.loading")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    tmp_path.chmod(0o1777)
    folder = loading._new_folder()
    loading.remove(folder)
    stays = os.path.dirname(folder)
    assert os.path.dirname(stays) == str(tmp_path) and stat.S_IMODE(os.stat(stays).st_mode) == 0o700
    for mode in (0o711, 0o600):  # an umask took rights away, or gave too many
        os.chmod(stays, mode)
        loading.remove(loading._new_folder())
        assert stat.S_IMODE(os.stat(stays).st_mode) == 0o700
    os.rmdir(stays)
    os.symlink("/tmp", stays)
    assert not loading._new_folder().startswith(str(tmp_path))
    os.unlink(stays)
    monkeypatch.setattr(os, "geteuid", lambda: 4242)  # the folder belongs to another user
    os.mkdir(os.path.join(tmp_path, "emulated-4242"), 0o700)
    with pytest.raises(OSError, match="not a folder of user 4242"):
        loading._own_folder(str(tmp_path))


def test_the_folder_that_a_parent_names_is_not_one_of_everybody(python, tmp_path):
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    code = f"from {NAME}.emulator import impersonate; impersonate()"
    ended = python(code, env={loading.VARIABLE: str(tmp_path / "open")})
    assert ended.returncode and "can be written by every user" in ended.stderr
