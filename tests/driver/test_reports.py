"""What an error of a kernel says: the exception begins with what happened, and has it as attributes."""

from __future__ import annotations

import array
import gc
import re
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.subject import module, rawcuda

errors = module("errors")
pytestmark = [
    pytest.mark.emulator_only("a GPU does not write such reports"),
    pytest.mark.usefixtures("only_new_objects"),
]
# void shift(float *, int): each thread writes 4 bytes behind its element, if the number is 0; else 2 bytes behind it
PTX = """.version 7.8
.target sm_75
.address_size 64
.file 1 "/somewhere/shift.cu"
.visible .entry _Z5shiftPfi(.param .u64 a, .param .u32 b) {
    .reg .b64 %d<4>; .reg .b32 %r<4>; .reg .pred %p;
    ld.param.u64 %d1, [a]; ld.param.u32 %r1, [b]; mov.u32 %r2, %tid.x; mul.wide.u32 %d2, %r2, 4; add.u64 %d1, %d1, %d2;
    setp.eq.u32 %p, %r1, 0;
    .loc 1 7 9
    @%p st.global.u32 [%d1+4], 1;
    .loc 1 8 11
    @!%p st.global.u32 [%d1+2], 1;
    ret;
}
"""


@pytest.fixture
def own(library: Any) -> Any:
    """Return a Device on the last device, which is reset."""
    device = rawcuda.devices()[-1]
    yield device
    device.reset(force=True)
    gc.collect()


def fail(own: Any, code: str = PTX, name: str = "_Z5shiftPfi", number: int = 0, block: int = 4) -> Any:
    """Launch a kernel over four floats, and return the exception of the call that waits."""
    data = own.upload(array.array("f", [1.0] * 4))
    with pytest.raises(errors.ContextLost) as caught:
        own.load(code)[name].launch(data, number, grid=1, block=block)  # here
        own.synchronize()
    return caught.value


LINE = Path(__file__).read_text("utf-8").partition("  # here")[0].count("\n") + 1


@pytest.mark.tells_freed
def test_an_error_begins_with_what_happened_and_has_it_as_attributes(own: Any) -> None:
    error = fail(own)
    first, *rest = str(error).split("\n")
    assert first == "out-of-bounds write of 4 bytes in shift(), shift.cu:7, thread (3, 0, 0) of block (0, 0, 0)"
    assert rest[0].startswith(f"    launched at {__file__}:{LINE} | own.load(code)[name].launch(data, number, grid=1")
    assert re.fullmatch(r"    shift\(float \* = 0x[0-9a-f]+, int = 0\)", rest[-3]), rest
    assert rest[-2].endswith("(/somewhere/shift.cu:7), kernel _Z5shiftPfi, block (0, 0, 0), thread (3, 0, 0)")
    assert re.match(r"cu\w+\(.*\) noticed it: CUDA_ERROR_ILLEGAL_ADDRESS \(700\): .*Call reset\(\)", rest[-1]), rest
    assert (error.code, error.checker, error.kernel) == (700, "memcheck", "_Z5shiftPfi")
    assert (error.file, error.line, error.text) == ("/somewhere/shift.cu", 7, "")
    assert (error.block, error.thread, error.launch) == ((0, 0, 0), (3, 0, 0), f"{__file__}:{LINE}")
    assert error.address % 16 == 0 and f"address {error.address:#x}: 0 bytes past" in str(error)
    assert error.allocation.startswith("a 16-byte device allocation at 0x") and __file__ in error.allocation


def test_a_misaligned_access_and_code_without_lines(own: Any) -> None:
    error = fail(own, re.sub(r"\.loc.*|\.file.*", "", PTX), number=1)
    assert str(error).startswith("misaligned write of 4 bytes in shift(), ptx line 12, thread (0, 0, 0) of block (0, 0")
    assert (error.code, error.file, error.line) == (716, "<ptx>", 12)
    assert error.text == "@!%p st.global.u32 [%d1+2], 1;" and f"    ptx line 12 | {error.text}\n" in str(error)


@pytest.mark.tells_freed
def test_a_later_call_says_that_an_earlier_kernel_failed(own: Any) -> None:
    first = fail(own)
    for call in (own.synchronize, lambda: own.allocate(16)):
        with pytest.raises(errors.ContextLost, match="^an earlier kernel failed: out-of-bounds write of 4 ") as later:
            call()
        assert later.value.__cause__ is first and later.value.line == 7
        assert str(later.value).count("\n") == 1, "the report is that of the cause"


def test_the_first_exception_is_not_kept_alive(own: Any) -> None:
    """Its traceback keeps frames alive. Without it, later calls have an equal one as their cause."""
    whole = str(fail(own))
    gc.collect()
    causes = []
    for _ in range(2):
        with pytest.raises(errors.ContextLost) as later:
            own.synchronize()
        causes.append(later.value.__cause__)
    assert causes[0] is causes[1] and type(causes[0]) is errors.ContextLost
    assert str(causes[0]) == whole and causes[0].line == 7 and causes[0].__traceback__ is None


def test_an_error_after_a_reset_is_a_first_one(own: Any) -> None:
    fail(own)
    own.reset(force=True)
    error = fail(own, number=1)
    assert str(error).startswith("misaligned write") and error.__cause__ is None


def test_what_the_source_says_is_in_the_report(own: Any) -> None:
    compiler = module("compiler.program")
    try:
        compiler.compiler()
    except errors.CompilerNotFound:
        pytest.skip("no compiler for CUDA C is installed")
    source = (
        "struct Pair { float x, y; };\n"
        'extern "C" __global__ void k(const float *in, double scale, unsigned char flag, long long n, Pair pair,\n'
        "                             int *none)\n{\n    if (in[threadIdx.x + n] == scale)\n        "
        "*none = flag + pair.x;\n}\n"
    )
    data = own.upload(array.array("f", [1.0] * 4))
    with own.compile(source) as loaded, pytest.raises(errors.ContextLost) as caught:
        loaded["k"].launch(data, 2.5, 7, -9, bytes(8), None, grid=1, block=4)
        own.synchronize()
    error = caught.value
    assert (error.line, error.text) == (5, "if (in[threadIdx.x + n] == scale)")
    said = re.search(r"\n    k\((.*)\)\n", str(error))
    assert said is not None, str(error)
    pointer, *others = said[1].split(", ")
    assert re.fullmatch(r"const float \*in = 0x[0-9a-f]+", pointer)
    assert others[:2] == ["double scale = 2.5", "unsigned char flag = 7"] and others[2] == "long long n = -9"
    assert others[-1] == "int *none = null" and others[3].endswith("= 0x0")
    assert re.search(r"\n    source\.cu:5:\d+ \| if \(in\[threadIdx\.x \+ n\] == scale\)\n", str(error))
    assert "; this is the memory of argument 0, counted from 0: in\n" in str(error)


WRONG: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "a large block": ((None, 0), {"grid": 1, "block": 4000}),
    "no block": ((None, 0), {"grid": 1, "block": 0}),
    "much shared memory": ((None, 0), {"grid": 1, "block": 1, "shared_bytes": 1 << 30}),
    "no such option": ((None, 0), {"grid": 1, "block": 1, "prio": 1}),
    "too few arguments": ((None,), {"grid": 1, "block": 1}),
    "too many arguments": ((None, 0, 1), {"grid": 1, "block": 1}),
    "a str": (("x", 0), {"grid": 1, "block": 1}),
    "a large number": ((None, 1 << 40), {"grid": 1, "block": 1}),
    "an array of another type": ((array.array("d", [1.0]), 0), {"grid": 1, "block": 1}),
    "an error of the kernel": ((8, 0), {"grid": 1, "block": 1}),
}


@pytest.mark.parametrize("name", WRONG)
def test_no_other_exception_is_shown_before_it(own: Any, name: str) -> None:
    """Python prints the exception that was being handled when another one was raised.

    A thread of its own handles none. That of the tests may still count as handling one, after tests of interrupts.
    """
    arguments, options = WRONG[name]

    def launch() -> None:
        own.load(PTX)["_Z5shiftPfi"].launch(*arguments, **options)
        own.synchronize()

    with ThreadPoolExecutor(1) as pool:
        error = pool.submit(launch).exception()
    assert error is not None
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    assert "During handling" not in text, text


# -- the end of a program

BEGIN = f"""
import sys
from tests.subject import rawcuda
rawcuda.use("emulator")
device = rawcuda.Device(0)
PTX = '''{PTX}'''
data = device.zeros(4, "float32")
device.load(PTX)["_Z5shiftPfi"].launch(data, 0, grid=1, block=4)
"""
BEFORE = 'import atexit; atexit.register(print, "registered before", flush=True)\n'
NOTICES = {
    "nothing": ("print('end')", 1, True),
    "its memory is freed": ("del data; print('end')", 1, True),
    "an exception that is caught": (
        "try: device.synchronize()\nexcept rawcuda.ContextLost: print('end')",
        0,
        False,
    ),
    "an exception": ("print('end')\ndevice.synchronize()", 1, False),
    "a reset": ("device.reset(force=True); print('end')", 0, False),
    "another error": ("print('end')\nraise SystemExit(3)", 1, True),
}


@pytest.mark.parametrize("mode", ["eager", "lazy", "random=3"])
@pytest.mark.parametrize("name", NOTICES)
def test_what_nobody_waited_for_is_reported_at_the_end(python: Any, name: str, mode: str) -> None:
    code, status, reported = NOTICES[name]
    result = python(BEFORE + BEGIN + code, env={"RAWCUDA_EMULATOR": mode, "RAWCUDA_DRIVER": None})
    assert (result.returncode, result.stdout) == (status, "end\nregistered before\n"), result
    begin = (
        "emulator: a kernel failed, and the program has not waited for it:\nout-of-bounds write of 4 bytes in shift()"
    )
    assert result.stderr.startswith(begin) == reported, result.stderr
    assert "Traceback" not in result.stderr or name == "an exception", "no frames of ours"


def test_the_end_does_not_wait_for_a_value_that_a_daemon_thread_may_write(python: Any) -> None:
    code = """
import threading, time
import rawcuda
rawcuda.use("emulator", mode="lazy")
device = rawcuda.Device(0)
device.stream().wait_value(device.zeros(1, "int32"), 1)
threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
print("end")
"""
    result = python(code, env={"RAWCUDA_EMULATOR": None, "RAWCUDA_DRIVER": None})
    assert (result.returncode, result.stdout, result.stderr) == (0, "end\n", ""), result


OWN = BEGIN.replace('"emulator"', "sys.modules['tests.subject'].module('emulator').Emulator(MORE)")  # of the program


@pytest.mark.parametrize(
    ("code", "words", "status"),
    [
        (BEGIN.replace('"emulator"', '"emulator", keep_status=True'), "", 0),
        (BEGIN, "keep_status", 0),
        (OWN.replace("MORE", "keep_status=True"), None, 0),
        (OWN.replace("MORE", "devices=2"), None, 1),
        (OWN.replace("MORE", "mode='lazy'"), None, 1),
    ],
    ids=["use", "a word", "its own emulator", "its own emulator of two devices", "its own lazy emulator"],
)
def test_a_setting_keeps_the_exit_status(python: Any, code: str, words: str | None, status: int) -> None:
    result = python(code, env={"RAWCUDA_EMULATOR": words, "RAWCUDA_DRIVER": None})
    assert result.returncode == status and result.stderr.count("has not waited for it") == 1, result


def test_a_child_of_fork_does_not_report_what_its_parent_did(python: Any) -> None:
    code = "import os\nif not os.fork(): sys.exit(0)\nprint(os.wait()[1])\n"
    code += "try: device.synchronize()\nexcept rawcuda.ContextLost: pass"
    result = python(BEGIN + code, env={"RAWCUDA_DRIVER": None})
    assert (result.returncode, result.stdout, result.stderr) == (0, "0\n", ""), result


# -- settings from Python


def test_use_sets_what_the_variable_sets(python: Any) -> None:
    result = python(
        """
        from tests.subject import rawcuda, module
        for wrong in (lambda: rawcuda.use("nvidia", strict=True), lambda: rawcuda.use("emulator", stric=True),
                      lambda: rawcuda.use("emulator", checkers=["racecheck"], checks=["initcheck"]),
                      lambda: rawcuda.use("emulator", checkers=["memchek"])):
            try:
                wrong()
            except Exception as error:
                print(type(error).__name__, error)
        for _ in range(2):
            rawcuda.use("emulator", checkers="racecheck, synccheck", strict=True, devices=3)
        rawcuda.use("emulator")
        space = module("emulator").shared()._machine.space
        print(len(rawcuda.devices()), space.races, space.meetings, space.copies, space.strict, space.timeout)
        try:
            rawcuda.use("emulator", strict=False)
        except RuntimeError as error:
            print(error)
        """,
        env={"RAWCUDA_EMULATOR": "timeout=9,devices=2", "RAWCUDA_DRIVER": None},
        check=True,
    )
    first, second, both, third, made, last = result.stdout.splitlines()
    assert first == "TypeError use('nvidia', strict=...): only 'emulator' has settings"
    assert second.startswith("TypeError the emulator has no setting 'stric': its settings are ") and "strict" in second
    assert both == "TypeError checks and checkers are two names of one setting: give one of them"
    assert third.startswith("ValueError") and "'memchek'" in third
    assert made == "3 True True False True 9.0"
    assert last.startswith("the emulator is in use already, with other settings: ")


# -- copies to the host


def test_a_copy_of_what_was_never_written_is_told(python: Any) -> None:
    result = python(
        """
        from tests.subject import rawcuda, module
        rawcuda.use("emulator")
        device = rawcuda.Device(0)
        data = device.empty(10, "int32")
        for _ in range(2):
            data.tolist()  # line 7
        data[:2].fill(1)
        data.tolist()
        [report] = module("emulator").shared().reports
        print(report.checker, report.address == data.ptr, report.allocation.split(" at ")[0])
        """,
        env={"RAWCUDA_EMULATOR": "", "RAWCUDA_DRIVER": None},
        check=True,
    )
    assert result.stdout == "initcheck True 0 bytes into a 40-byte device allocation\n"
    assert result.stderr.startswith("emulator: initcheck: cu") and result.stderr.count("\n") == 1
    assert "copies 40 bytes to the host, of which 40 were never written" in result.stderr
    assert result.stderr.endswith("; the call is at <string>:7\n")


def test_a_copy_of_an_array_that_was_never_written_names_the_array(python: Any) -> None:
    code = """
        from tests.subject import rawcuda
        rawcuda.use("emulator")
        rawcuda.Device(0).array((4, 4), "float32").tolist()
        """
    said = python(code, env={"RAWCUDA_EMULATOR": "", "RAWCUDA_DRIVER": None}, check=True).stderr
    assert "of which 64 were never written, the first at byte 0 of the 64 bytes of a CUDA array" in said
