"""The emulator as libcuda.so.1 of a process: what the object exports, and when its functions are safe to call.

Each test runs new processes, because a process cannot undo it. Functions of the C library call the entry points from
where Python code cannot: atexit() after the interpreter has ended, pthread_create() in threads of its own.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
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
    assert record.library == "libcuda"
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


def test_calls_of_finalizers_at_exit_do_no_harm(records) -> None:
    """A finalizer that C code calls, while modules are torn down: a capsule of a module that nothing else holds."""
    record = only(
        records("""
start()
new = ctypes.PyDLL(None).PyCapsule_New
new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p] * 3
name = ctypes.create_string_buffer(b"name")
gc.freeze()
kept = [[new(1, ctypes.addressof(name), address("cuCtxSynchronize")) for _ in range(1000)]]
kept.append(kept)
sys.modules["kept"] = type(sys)("kept")
sys.modules["kept"].kept = kept
del kept
""")
    )
    assert record.calls.get("cuCtxSynchronize", 0) in (0, 1000)
    assert {result for _, result, _ in record.last} <= {0, 4}


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
lock, done = threading.RLock(), []
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
    for _ in range(250):
        Buffer()
gc.set_threshold(5)
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
gc.collect()
assert done == [0] * 1000, len(done)
""",
        check=True,
    )


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


def test_what_was_called_in_vain_is_listed_at_the_end(python) -> None:
    code = """
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")
address = ctypes.c_void_p()
for name in b"cuGraphicsMapResources", b"cuNothing":
    cuda.cuGetProcAddress_v2(name, ctypes.byref(address), 13000, ctypes.c_uint64(), None)
print(cuda.cuGraphicsMapResources(), cuda.cuGraphicsMapResources())
"""
    short, long = (
        python(["-m", NAME, "emulate", *options, sys.executable, "-c"], code) for options in ([], ["--doctor"])
    )
    assert short.stdout == long.stdout == "801 801\n"
    assert short.stderr == "emulate: called in vain, since the emulator lacks it: cuGraphicsMapResources (2)\n"
    assert "asked for in vain with cuGetProcAddress: cuGraphicsMapResources (1)" in long.stderr
    assert "names that the emulator does not know: cuNothing" in long.stderr
    assert "libcuda.so.1" in long.stderr.splitlines()[0]


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
    shutil.copytree(FOLDER, tmp_path / "another", ignore=shutil.ignore_patterns("__pycache__"))
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


@pytest.mark.parametrize("room", ASSEMBLERS)
def test_the_bytes_are_those_of_the_instructions(room, tmp_path) -> None:
    assembler = shutil.which(ASSEMBLERS[room])
    if assembler is None or room == "intel" and os.uname().machine != "x86_64":
        pytest.skip(f"there is no assembler for this processor: {ASSEMBLERS[room]}")
    code, table = module(f"emulator.impersonating.{room}"), module("emulator.impersonating.table")
    words = {name: value for name, value in vars(table).items() if name.isupper() and isinstance(value, int)}
    functions = "ISINIT ENSURE RELEASE FETCH RESTORE RUN GCOFF GCON SETNAME INITEX SAVE SELF".split()
    words.update({name: table.API + 8 * number for number, name in enumerate(functions)})
    lines = [f".set {name}, {value}" for name, value in words.items() if isinstance(value, int)]
    lines += [".intel_syntax noprefix", ".set TABLE, 0"] if room == "intel" else [".set distance, end"]
    for line in code.SHARED.strip().splitlines():
        lines.append(line if line.endswith(":") else line.partition(" ")[2])
    source, made, plain = tmp_path / "code.s", tmp_path / "code.o", tmp_path / "code.bin"
    source.write_text("\n".join([*lines, "end: .quad 0" if room == "arm" else ""]) + "\n")
    subprocess.run([assembler, "-o", str(made), str(source)], check=True)
    subprocess.run([assembler[:-2] + "objcopy", "-O", "binary", "-j", ".text", str(made), str(plain)], check=True)
    wanted, got = plain.read_bytes(), code.shared(0)
    if room == "intel":
        at = code.SHARED.index("????????")
        begin = sum(len(line.split()[0]) // 2 for line in code.SHARED[:at].splitlines()[1:-1] if line[-1] != ":")
        wanted, got = (bytes(text[: begin + 3] + text[begin + 7 :]) for text in (wanted, got))
    assert wanted == got
    for function, name in zip(functions, table._API):
        assert ctypes.sizeof(ctypes.c_void_p) == 8 and function and name


def test_the_object_fits_every_architecture() -> None:
    """Written for both processors, the object has the same names; readelf, where it is installed, finds no fault."""
    elf, table = module("emulator.impersonating.elf"), module("emulator.impersonating.table")
    for machine, room in (("x86_64", "intel"), ("aarch64", "arm")):
        names = [f"name{i}" for i in range(700)]
        made = elf.write(
            machine,
            module(f"emulator.impersonating.{room}"),
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
