"""Ranges that profilers show, and the profiler's switch."""

import io
import json
import shutil
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from tests.subject import CHECKOUT, ROOT, rawcuda

# A profiler's library: it prints what it is told.
INJECTION = r"""
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
typedef struct { uint16_t version, size; uint32_t category; int32_t color_type; uint32_t color; int32_t payload_type,
                 reserved; uint64_t payload; int32_t message_type; const char *message; } Attributes;
typedef const void *(*GetTable)(uint32_t);
typedef struct { size_t size; int (*table)(int, void ****, unsigned *); } Callbacks;
typedef struct { size_t size; uint32_t version, reserved; void (*set)(uint32_t); } Version;
static int depth;
static int push(const Attributes *a)
{
    printf("push %s version %d size %d color %x type %d at %d\n", a->message, a->version, a->size,
           a->color_type ? a->color : 0, a->message_type, depth);
    fflush(stdout);
    return depth++;
}
static int pop(void) { printf("pop\n"); fflush(stdout); return --depth; }
int InitializeInjectionNvtx2(GetTable get)
{
    const Callbacks *callbacks = get(1);
    const Version *version = get(3);
    void ***table;
    unsigned size;
    if (!callbacks || callbacks->size != sizeof *callbacks || !version || version->version != 3) return 0;
    version->set(3);
    if (get(0) || get(77) || callbacks->table(0, &table, &size) || callbacks->table(99, &table, &size)) return 0;
    for (int module = 1; module <= 6; module++)
        if (!callbacks->table(module, &table, &size) || table[0] || !table[1] || table[size]) return 0;
    if (!callbacks->table(1, NULL, &size) || size != 16 || !callbacks->table(1, &table, NULL)) return 0;
    *table[8] = (void *)push;
    *table[11] = (void *)pop;
    return RESULT;
}
"""


def test_threads_use_one_range_at_once():
    made, failed, before = rawcuda.range("shared"), [], sys.getswitchinterval()
    end = time.monotonic() + 1

    def work():
        try:
            while time.monotonic() < end and not failed:
                with made, made:
                    pass
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    sys.setswitchinterval(1e-6)
    try:
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    finally:
        sys.setswitchinterval(before)
    assert not failed and not made._begun


USE = """
    import threading
    from tests.subject import rawcuda
    with rawcuda.range("outer", color="red"):
        with rawcuda.range("inner ü", color=0x123456):
            pass
    @rawcuda.range("work")
    def work(x):
        "Add one."
        return x + 1
    class Kind:
        @rawcuda.range("method")
        def method(self):
            return self
    assert work(3) == 4 and work.__name__ == "work" and work.__doc__ == "Add one."
    kind = Kind()
    assert kind.method() is kind
    try:
        with rawcuda.range("fails"):
            raise KeyError
    except KeyError:
        pass
"""


@pytest.fixture(scope="module")
def injection(tmp_path_factory):
    gcc = shutil.which("gcc")
    if gcc is None:
        pytest.skip("no gcc")

    def build(result=1):
        folder = tmp_path_factory.mktemp("injection")
        (folder / "injection.c").write_text(INJECTION)
        library = folder / "injection.so"
        command = [gcc, "-shared", "-fPIC", f"-DRESULT={result}", "-o", library, folder / "injection.c"]
        subprocess.run(command, check=True, capture_output=True)
        return str(library)

    return build


def test_a_profiler_sees_the_ranges(python, injection):
    result = python(USE, env={"NVTX_INJECTION64_PATH": injection()}, check=True)
    assert result.stdout.splitlines() == [
        "push outer version 3 size 48 color ffd62728 type 1 at 0",
        "push inner ü version 3 size 48 color ff123456 type 1 at 1",
        "pop",
        "pop",
        "push work version 3 size 48 color 0 type 1 at 0",
        "pop",
        "push method version 3 size 48 color 0 type 1 at 0",
        "pop",
        "push fails version 3 size 48 color 0 type 1 at 0",
        "pop",
    ]
    assert not result.stderr


def test_without_a_profiler_nothing_is_loaded(python):
    result = python(USE, env={"NVTX_INJECTION64_PATH": None})
    assert result.returncode == 0 and not result.stdout and not result.stderr


def test_isolated_mode_ignores_the_environment(python, injection):
    found = f"import sys; sys.path[:0] = {[str(ROOT), str(CHECKOUT)]!r}\n" + textwrap.dedent(USE)
    result = python(found, env={"NVTX_INJECTION64_PATH": injection()}, flags=("-E",))
    assert result.returncode == 0 and not result.stdout and not result.stderr


@pytest.mark.parametrize("form", ["by its path", "by its name", "in the current folder"])
def test_a_profiler_that_anyone_could_have_planted_is_not_loaded(python, injection, form):
    path = Path(injection())
    environment = {"NVTX_INJECTION64_PATH": path.name, "LD_LIBRARY_PATH": str(path.parent)}
    assert "push outer" in python(USE, env=environment, check=True).stdout
    if form == "in the current folder":
        environment["LD_LIBRARY_PATH"] = ":"
        code, why = f"import os; os.chdir({str(path.parent)!r})\n", "no folder"
    else:
        path.parent.chmod(0o777)
        code, why = "", "chmod o-w"
    if form == "by its path":
        environment = {"NVTX_INJECTION64_PATH": str(path)}
    result = python(code + textwrap.dedent(USE), env=environment)
    assert result.returncode == 0 and not result.stdout
    assert result.stderr.count("RuntimeWarning") == 1 and why in result.stderr


@pytest.mark.parametrize("path", ["/nowhere/profiler.so", "somewhere/profiler.so", "libc.so.6", "refusing"])
def test_a_profiler_that_does_not_work_is_a_warning(python, injection, path):
    if path == "refusing":
        path = injection(result=0)
    result = python(USE, env={"NVTX_INJECTION64_PATH": path})
    assert result.returncode == 0 and not result.stdout
    assert result.stderr.count("RuntimeWarning") == 1 and path in result.stderr and "are not shown" in result.stderr


def test_ranges_need_no_driver(python):
    result = python(
        """
        from tests.subject import module, rawcuda
        with rawcuda.range("x"):
            pass
        assert not module("driver").is_loaded()
    """,
        env={"RAWCUDA_DRIVER": "/nowhere"},
    )
    assert result.returncode == 0, result.stderr


def test_a_trace_shows_ranges(device):
    heard = []
    around = rawcuda.range("around")
    with rawcuda.trace(heard):
        with around:
            with around:
                device.synchronize()
    lines = [(event.protocol, event.what, event.details.split()[0]) for event in heard if hasattr(event, "protocol")]
    assert lines == [("range", what, "around") for what in ("begin", "begin", "end", "end")]
    names = [event.what if hasattr(event, "what") else event.name for event in heard]
    assert names.index("begin") < names.index("cuCtxSynchronize") < names.index("end")
    with around:
        heard.clear()
        with rawcuda.trace(heard):
            pass
    assert not heard


def test_ranges_in_a_chrome_trace(device):
    file = io.StringIO()
    with rawcuda.trace(file, form="chrome"):
        with rawcuda.range("outer after all"):
            device.synchronize()
    events = [event for event in json.loads(file.getvalue()) if event.get("cat") == "range"]
    assert [(event["ph"], event["name"]) for event in events] == [("B", "outer after all"), ("E", "outer after all")]
    assert events[0]["ts"] < events[1]["ts"] and events[0]["tid"] == events[1]["tid"]


def test_ranges_of_threads_do_not_meet():
    import threading

    around = rawcuda.range("shared")
    with around:
        caught = []

        def leave():
            try:
                around.__exit__(None, None, None)
            except RuntimeError as error:
                caught.append(error)

        thread = threading.Thread(target=leave)
        thread.start()
        thread.join()
        assert "was not entered in this thread" in str(caught[0])
    with pytest.raises(RuntimeError, match="was not entered"):
        around.__exit__(None, None, None)


def test_bad_ranges():
    for wrong in (None, 3, b"x"):
        with pytest.raises(TypeError, match="needs a name"):
            rawcuda.range(wrong)
    for wrong in ("reddish", -1, 2**24, True, 1.0, []):
        with pytest.raises(ValueError, match="color="):
            rawcuda.range("x", color=wrong)

    def generator():
        yield 1

    async def coroutine():
        pass

    for wrong in (generator, coroutine):
        with pytest.raises(TypeError, match="can be suspended"):
            rawcuda.range("x")(wrong)
    with pytest.raises(TypeError, match="decorates a function"):
        rawcuda.range("x")(3)
    with rawcuda.range("with\0zero"), rawcuda.range(""), rawcuda.range("\ud800"):
        pass


def test_star_import_leaves_pythons_range(python):
    result = python("""
        from tests.subject import NAME, rawcuda
        namespace = {}
        exec(f"from {NAME} import *", namespace)
        assert "range" not in namespace and "range" in dir(rawcuda)
    """)
    assert result.returncode == 0, result.stderr


def test_profile(device):
    calls = []
    with rawcuda.trace(lambda event: calls.append(getattr(event, "name", ""))):
        with rawcuda.profile():
            device.synchronize()
        rawcuda.profile.start()
        rawcuda.profile.stop()
    assert calls.count("cuProfilerStart") == calls.count("cuProfilerStop") == 2
    assert calls.index("cuProfilerStart") < calls.index("cuCtxSynchronize") < calls.index("cuProfilerStop")
    with pytest.raises(KeyError):
        with rawcuda.profile():
            raise KeyError
