"""The plugin of pytest: tests run on the emulator, and the checker's findings are failures."""

from __future__ import annotations

import re
import sys

import pytest

from tests.shared import sampled
from tests.subject import NAME, module

loading = module("emulator.impersonating.loading")
pytestmark = pytest.mark.skipif(bool(loading.unusable()), reason=loading.unusable())

SUITE = '''
import ctypes, pytest
PTX = b""".version 6.3
.target sm_50
.address_size 64
.visible .entry writes(.param .u64 p) { .reg .b64 %rd<3>; .reg .b32 %r<3>;
    ld.param.u64 %rd1, [p]; mov.u32 %r2, %tid.x; mul.wide.u32 %rd2, %r2, 4; add.u64 %rd1, %rd1, %rd2;
    st.global.u32 [%rd1], %r2; ret; }
.visible .entry reads(.param .u64 p) { .reg .b64 %rd<3>; .reg .b32 %r<3>;
    ld.param.u64 %rd1, [p]; ld.global.u32 %r1, [%rd1]; add.u32 %r1, %r1, 1; st.global.u32 [%rd1+4], %r1; ret; }
\\0"""
cuda = ctypes.CDLL("libcuda.so.1")
context, loaded = ctypes.c_void_p(), ctypes.c_void_p()
assert not cuda.cuInit(0) and not cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
assert not cuda.cuCtxSetCurrent(context) and not cuda.cuModuleLoadData(ctypes.byref(loaded), PTX)

def run(name, threads, keep=False):
    memory, kernel = ctypes.c_uint64(), ctypes.c_void_p()
    cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(60))  # allocated
    cuda.cuModuleGetFunction(ctypes.byref(kernel), loaded, name)
    arguments = (ctypes.c_void_p * 1)(ctypes.addressof(memory))
    cuda.cuLaunchKernel(kernel, 1, 1, 1, threads, 1, 1, 0, None, arguments, None)  # launched
    code = cuda.cuCtxSynchronize()
    keep or cuda.cuMemFree_v2(memory)
    return code

def test_right():
    assert run(b"writes", 15) == 0

@pytest.mark.parametrize("again", [1, 2])
def test_uninitialized(again):
    assert run(b"reads", 1) == 0

def test_outside():
    run(b"writes", 16)

def test_outside_and_noticed():
    assert run(b"writes", 16) == 0, "noticed"

@pytest.fixture
def broken():
    run(b"writes", 16)

def test_with_a_broken_fixture(broken):
    pass

@pytest.mark.emulate(reports=True)
def test_expected():
    assert run(b"writes", 16) == 700

def test_pending():  # in the lazy mode, the kernel runs after the test
    memory, kernel = ctypes.c_uint64(), ctypes.c_void_p()
    cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(60))
    cuda.cuModuleGetFunction(ctypes.byref(kernel), loaded, b"writes")
    arguments = (ctypes.c_void_p * 1)(ctypes.addressof(memory))
    cuda.cuLaunchKernel(kernel, 1, 1, 1, 16, 1, 1, 0, None, arguments, None)

def test_leaking():
    assert run(b"writes", 15, keep=True) == 0

def test_refused_call():
    assert cuda.cuMemFree_v2(ctypes.c_uint64(8)) == 1
'''
WRONG = {
    "test_uninitialized[1]": "never written",
    "test_uninitialized[2]": "never written",
    "test_outside": "past the end of a 60-byte device allocation",
    "test_outside_and_noticed": "past the end",
    "test_pending": "past the end",
}
LAUNCHED = SUITE[: SUITE.index("# launched")].count("\n") + 1


@pytest.fixture
def suite(python, tmp_path):
    """Run the tests of SUITE with the plugin.

    tests/mutants replaces the plugin by hooks of imports, which that of pytest's assertions would pass over, and gives
    options of our own conftest to pytest.
    """

    def run(*options, before="", env=None, **more):
        (tmp_path / "test_suite.py").write_text(SUITE)
        (tmp_path / "conftest.py").write_text(before)
        words = ["-m", "pytest", "-p", f"{NAME}.emulate", "-p", "no:cacheprovider", "--assert=plain", "-rA"]
        return python([*words, str(tmp_path), *options], env={"PYTEST_ADDOPTS": None, **(env or {})}, **more)

    return run


@pytest.mark.parametrize("settings", sampled(["eager", "lazy", "random=3"]))
def test_findings_are_failures_with_the_line_of_the_launch(suite, tmp_path, settings) -> None:
    result = suite("--emulate", settings, env={"RAWCUDA_EMULATOR": None})
    out = result.stdout
    assert result.returncode == 1 and "error" not in result.stderr.lower(), result.stderr
    failed = set(re.findall(r"^FAILED .*::(\S+)", out, re.M))
    assert failed == set(WRONG), out
    assert re.findall(r"^ERROR .*::(\S+)", out, re.M) == ["test_with_a_broken_fixture"]
    for name, words in WRONG.items():
        part = re.search(rf"^_+ {re.escape(name)} _+\n(.*?)^(_____|====)", out, re.M | re.S)
        assert part and words in part[1], (name, out)
        if "pending" not in name:
            assert f"{tmp_path / 'test_suite.py'}:{LAUNCHED}: the kernel that is launched here is wrong" in part[1]
            assert ">   cuda.cuLaunchKernel(kernel, 1, 1, 1, threads" in part[1]
    assert f"CUDA: <emulator, {settings.replace('=', ' seed ')}" in out


FIXTURES = """
import ctypes, threading, pytest
from test_suite import cuda

@pytest.fixture
def gate():
    event = threading.Event()
    yield event
    event.set()

def test_a_function_that_a_fixture_lets_go_on(gate):
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: gate.wait())
    gate.function = function
    assert cuda.cuLaunchHostFunc(None, function, None) == 0

@pytest.fixture
def word():
    memory = ctypes.c_void_p()
    assert cuda.cuMemAllocHost_v2(ctypes.byref(memory), ctypes.c_size_t(4)) == 0
    value = ctypes.c_uint.from_address(memory.value)
    value.value = 0
    yield memory
    value.value = 1

def test_a_value_that_a_fixture_writes(word):
    assert cuda.cuStreamWaitValue32_v2(None, ctypes.c_uint64(word.value), 1, 0) == 0
"""


def test_work_may_wait_for_the_end_of_a_fixture(suite, tmp_path) -> None:
    (tmp_path / "test_fixtures.py").write_text(FIXTURES)
    out = suite("-k", "fixture and not broken").stdout
    assert "2 passed" in out and "failed" not in out, out


STUCK = """
import ctypes, threading, time
from test_suite import cuda

go = threading.Event()
function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: go.wait())
callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)(lambda *_: go.wait())
called = threading.Event()
other = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: called.set())

def test_fails_before_the_event():
    stream = ctypes.c_void_p()
    assert cuda.cuStreamCreate(ctypes.byref(stream), 1) == 0 == cuda.cuLaunchHostFunc(stream, function, None)
    assert not any(cuda.cuStreamAddCallback(stream, callback, None, 0) for _ in range(2))
    assert cuda.cuStreamQuery(stream) == 0, "its own failure"
    go.set()

def test_later():
    threading.Thread(target=go.wait, daemon=True).start()  # which might write the value
    stream, memory = ctypes.c_void_p(), ctypes.c_uint64()
    assert cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(4)) == 0 == cuda.cuMemsetD32_v2(memory, 0, 1)
    assert cuda.cuStreamCreate(ctypes.byref(stream), 1) == 0 == cuda.cuStreamWaitValue32_v2(stream, memory, 1, 0)

def test_last():
    memory = ctypes.c_uint64()
    assert cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(4)) == 0 == cuda.cuMemsetD32_v2(memory, 0, 1)
    for _ in range(2):
        assert cuda.cuLaunchHostFunc(None, other, None) == 0 == cuda.cuCtxSynchronize()
        assert called.is_set()
        called.clear()
        go.set()  # the functions that were left return
        time.sleep(0.05)
    assert cuda.cuMemFree_v2(memory) == 0
"""


def test_work_that_never_ends_is_told_and_not_waited_for(suite, tmp_path) -> None:
    (tmp_path / "test_stuck.py").write_text(STUCK)
    before = f"import {NAME}.emulate as plugin; plugin._PATIENCE_AT_END = 1.5"
    out = suite("-k", "stuck", "--durations", "0", "--durations-min", "1", before=before, timeout=60).stdout
    assert re.findall(r"^FAILED .*::(\S+)", out, re.M) == ["test_fails_before_the_event"], out
    assert re.findall(r"^ERROR .*::(\S+)", out, re.M) == ["test_fails_before_the_event", "test_later"], out
    assert "its own failure" in out and "a host function in <stream " in out, out
    assert len(re.findall(r"has not ended 1.5 seconds after the test", out.partition("short test summary")[0])) == 2
    assert not re.search(r"s \w+ .*::test_last", out), out


def test_a_conftest_cannot_name_the_plugin(python, tmp_path) -> None:
    (tmp_path / "conftest.py").write_text(f'pytest_plugins = ["{NAME}.emulate"]')
    (tmp_path / "test_one.py").write_text("def test_one(): pass")
    result = python(["-m", "pytest", "-p", "no:cacheprovider", str(tmp_path)])
    assert result.returncode == 4 and f"-p {NAME}.emulate" in result.stderr and "INTERNAL" not in result.stdout


@pytest.mark.parametrize("flag", ["-E", "-I"])
def test_words_that_would_be_ignored_are_refused(suite, python, tmp_path, flag) -> None:
    code = f"import sys; sys.path[:0] = {sys.path!r}; import pytest; sys.exit(pytest.main())"
    result = python(["-c", code, "-p", f"{NAME}.emulate", "--emulate", "strict"], flags=(flag,))
    assert result.returncode == 4 and "which python -E and -I ignore" in result.stderr


AFTERWARDS = """
import unittest
from test_suite import pytest, run

def test_skipped():
    run(b"writes", 16)
    pytest.skip("afterwards")

def test_skipped_without_a_module():
    run(b"writes", 16)
    pytest.importorskip("no_such_module")

@pytest.fixture
def skipping():
    run(b"writes", 16)
    pytest.skip("afterwards")

def test_skipped_by_a_fixture(skipping):
    pass

def test_skipped_before():
    pytest.skip("before")

def test_xfail():
    run(b"writes", 16)
    pytest.xfail("afterwards")

@pytest.mark.xfail(reason="it is wrong")
def test_marked():
    run(b"writes", 16)

@pytest.mark.xfail(reason="it is wrong")
def test_marked_and_failed():
    run(b"writes", 16)
    assert False

@pytest.mark.xfail(reason="it is wrong")
def test_marked_and_failed_without_findings():
    assert False

class TestOfUnittest(unittest.TestCase):
    def test_unittest_skipped(self):
        run(b"writes", 16)
        self.skipTest("afterwards")

    def test_unittest_failed(self):
        run(b"writes", 16)
        self.fail("noticed")

    def test_unittest_skipped_before(self):
        self.skipTest("before")
"""


@pytest.mark.parametrize("processes", sampled([[], ["-n", "2"]]), ids=["one process", "two processes"])
def test_what_is_found_before_a_test_is_skipped_or_fails_as_expected_is_shown(suite, tmp_path, processes) -> None:
    if processes:
        pytest.importorskip("xdist")
    (tmp_path / "test_afterwards.py").write_text(AFTERWARDS)
    out = suite(*processes, "-k", "skipped or xfail or marked or unittest").stdout
    assert re.search(r"4 failed, 2 skipped,.* 4 xfailed, 1 error in", out), out
    assert re.findall(r"^ERROR .*::(\S+)", out, re.M) == ["test_skipped_by_a_fixture"]
    assert set(re.findall(r"^FAILED .*::(\S+)", out, re.M)) == {
        "test_skipped", "test_skipped_without_a_module", "test_unittest_skipped", "test_unittest_failed"
    }  # fmt: skip
    for name in ("test_skipped", "test_skipped_without_a_module", "test_unittest_skipped", "test_unittest_failed"):
        part = re.search(rf"^_+ (?:\w+\.)?{name} _+\n(.*?)^(_____|====)", out, re.M | re.S)
        assert part and "past the end of a 60-byte device allocation" in part[1], (name, out)
    expected = out.partition("findings in tests that were expected to fail")[2].partition("=====\n")[2]
    expected = expected.partition("\n====")[0]
    assert expected.count("past the end of a 60-byte device allocation") == 3
    assert set(re.findall(r"::(\w+): ", expected)) == {"test_xfail", "test_marked", "test_marked_and_failed"}


def test_leaks_are_reported_or_failures(suite, tmp_path) -> None:
    line = SUITE[: SUITE.index("# allocated")].count("\n") + 1
    left = rf"60-byte device allocation at 0x[0-9a-f]+, allocated at {tmp_path / 'test_suite.py'}:{line}"
    told = suite("--emulate-leaks", "-k", "leaking or right").stdout
    assert "2 passed" in told and re.search(rf"test_leaking: {left}", told) and "test_right:" not in told
    told = suite("--emulate-leaks=fail", "-k", "leaking or right").stdout
    assert re.search(r"2 passed.*, 1 error in", told) and re.search(left, told)
    told = suite("-k", "leaking").stdout
    assert "1 passed" in told and "allocated at" not in told


def test_leaks_in_a_context_that_a_test_creates_are_reported(suite, tmp_path) -> None:
    (tmp_path / "test_contexts.py").write_text("""
from test_suite import ctypes, cuda, run

def test_own_context():
    context, memory = ctypes.c_void_p(), ctypes.c_uint64()
    assert cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0) == 0
    assert cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(61)) == 0
    assert cuda.cuCtxPopCurrent_v2(None) == 0

def test_destroyed_context():
    context, memory = ctypes.c_void_p(), ctypes.c_uint64()
    assert cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0) == 0
    assert cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(62)) == 0
    assert cuda.cuCtxDestroy_v2(context) == 0
""")
    told = suite("--emulate-leaks=fail", "-k", "context and not suite").stdout
    assert re.search(r"2 passed.*, 1 error in", told) and "62-byte" not in told, told
    assert re.search(r"^61-byte device allocation at 0x[0-9a-f]+, allocated at .*test_contexts.py:7$", told, re.M), told


def test_several_processes_report_to_one(suite) -> None:
    pytest.importorskip("xdist")
    told = suite("-n", "2", "--emulate-leaks", "--emulate-doctor").stdout
    assert set(re.findall(r"^FAILED .*::(\S+)", told, re.M)) == set(WRONG)
    assert re.search(r"test_leaking: 60-byte device allocation", told) and "cuLaunchKernel (" in told


def test_the_library_is_there_before_a_conftest(suite) -> None:
    before = "import ctypes; assert ctypes.CDLL('libcuda.so.1').cuInit(0) == 0"
    assert "1 passed" in suite("-k", "right", before=before).stdout


def test_what_was_called_is_told_on_demand(suite) -> None:
    told = suite("--emulate-doctor", "-k", "right").stdout
    assert "driver calls" in told and "cuLaunchKernel (1)" in told


def test_control_characters_of_names_are_escaped(suite, tmp_path) -> None:
    (tmp_path / "test_\x1b[32m.py").write_text("""
from test_suite import ctypes, cuda, loaded

def test_names():
    memory, kernel = ctypes.c_uint64(), ctypes.c_void_p()
    cuda.cuGetProcAddress_v2(b"cu\\x1b[31m", ctypes.byref(kernel), 13000, ctypes.c_uint64(0), None)
    cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(61))
    cuda.cuModuleGetFunction(ctypes.byref(kernel), loaded, b"writes")
    arguments = (ctypes.c_void_p * 1)(ctypes.addressof(memory))
    cuda.cuLaunchKernel(kernel, 1, 1, 1, 16, 1, 1, 0, None, arguments, None)
""")
    out = suite("-k", "names", "--emulate-leaks", "--emulate-doctor").stdout
    assert re.search(r"^\S*test_\\x1b\[32m.py:10: the kernel that is launched here is wrong$", out, re.M), out
    assert re.search(r"::test_names: 61-byte device allocation .* at \S*test_\\x1b\[32m.py:7$", out, re.M), out
    assert "names that the emulator does not know: cu\\x1b[31m\n" in out, out


def test_what_was_called_is_told_after_a_test_has_cleared_the_environment(suite, tmp_path) -> None:
    (tmp_path / "test_cleared.py").write_text("import os\ndef test_cleared(): os.environ.clear()\n")
    out = suite("--emulate-doctor", "-k", "cleared or right").stdout
    assert "2 passed" in out and "cuLaunchKernel (1)" in out and "INTERNALERROR" not in out, out


def test_wrong_words_are_refused(suite) -> None:
    result = suite("--emulate", "fast")
    assert result.returncode == 4 and "'fast' is not one of" in result.stderr and "Traceback" not in result.stderr
