"""The command line without a driver: usage, refusals, listings, and the messages on a machine without a GPU."""

from __future__ import annotations

import array
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy
import pytest

from tests.subject import NAME, ROOT, module, rawcuda

KERNELS = str(Path(__file__).parents[1] / "data" / "cli" / "kernels.ptx")
PROGRAM = f"python3 -m {NAME}"

# Run the command line without a libcuda, even if this machine has one.
NO_GPU = """
    import sys
    from tests.subject import module
    module("locate").libcuda = lambda: [("/nowhere/libcuda.so.1", "the test says so")]
    sys.exit(module("__main__").main(sys.argv[1:]))
"""


@pytest.fixture
def cli(capsys):
    """Run the command line in this process: (exit status, stdout, stderr)."""

    def run(*words: str):
        status = module("__main__").main(list(words))
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return status, out, err

    return run


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Change to a folder with x.npy and y.npy, and files that are not arrays."""
    monkeypatch.chdir(tmp_path)
    numpy.save("x.npy", numpy.arange(10, dtype="f4"))
    numpy.save("y.npy", numpy.ones(10, dtype="f4"))
    numpy.save("objects.npy", numpy.array([{}], dtype=object), allow_pickle=True)
    Path("short.npy").write_bytes(Path("x.npy").read_bytes()[:-1])
    Path("text.txt").write_text("hello")
    Path("source.txt").write_text('extern "C" __global__ void saxpy() {}')
    Path("empty.ptx").write_text("")
    Path("nul.ptx").write_bytes(b".version 6.3\0.target sm_50")
    Path("bare.ptx").write_text(".version 6.3\n.target sm_50\n.address_size 64\n.visible .func f() { ret; }\n")
    Path("cut.cubin").write_bytes(b"\x7fELF\x02\x01\x01")
    Path("fat.fatbin").write_bytes(b"\x50\xed\x55\xba\x01\x00\x10\x00" + bytes(8))
    return tmp_path


# -- help and version


@pytest.mark.parametrize("words", [(), ("--help",), ("-h",), ("help",)])
def test_help(cli, words):
    status, out, err = cli(*words)
    assert status == 0 and not err
    assert out.startswith(f"usage: {PROGRAM} ")
    assert all(name in out for name in ("demo", "run", "doctor"))


@pytest.mark.parametrize("command", ["demo", "run", "doctor"])
def test_help_of_a_command(cli, command):
    status, out, err = cli(command, "--help")
    assert status == 0 and not err
    assert out.startswith(f"usage: {PROGRAM} {command} ") and "--driver" in out and "emulator" in out


def test_help_of_run_tells_its_syntax(cli):
    _, out, _ = cli("run", "--help")
    assert all(
        word in out
        for word in ("zeros:SHAPE:DTYPE", "empty:SHAPE:DTYPE", "null", "numbered from 0", "--out", "NUMBER:DTYPE")
    )


@pytest.mark.parametrize("words", [("--version",), ("-V",)])
def test_version(cli, words):
    assert cli(*words) == (0, f"{NAME} {rawcuda.__version__}\n", "")


# -- a wrong command line: exit status 2, one line

ARGUMENTS = ("3", "2.0", "x.npy", "y.npy", "--grid", "1", "--block", "32")
WRONG = {
    "no command": (("frobnicate",), "'frobnicate' is not a command: the commands are demo, run, "),
    "no file": (("run",), "arguments are required: FILE; see"),
    "unknown option": (("demo", "--fast"), "--fast"),
    "abbreviated option": (("demo", "--tr"), "--tr"),
    "surplus word": (("doctor", "now"), "now"),
    "driver": (("run", KERNELS, "saxpy", *ARGUMENTS, "--driver", "amd"), "give nvidia, emulator, or a path"),
    "driver by soname": (("demo", "--driver", "libcuda.so.1"), "or a path such as ./libcuda.so.1"),
    "empty driver": (("demo", "--driver", ""), "--driver '': give nvidia"),
    "no grid": (("run", KERNELS, "saxpy", "1", "--block", "1"), "--grid is missing"),
    "no block": (("run", KERNELS, "saxpy", "1", "--grid", "1"), "--block is missing"),
    "grid of text": (("run", KERNELS, "saxpy", "--grid", "many", "--block", "1"), "--grid: 'many'"),
    "grid of 0": (("run", KERNELS, "saxpy", "--grid", "0", "--block", "1"), "--grid: '0' contains a number below 1"),
    "negative block": (("run", KERNELS, "saxpy", "--grid", "1", "--block", "-1"), "--block: '-1'"),
    "4-D block": (("run", KERNELS, "saxpy", "--grid", "1", "--block", "1x1x1x1"), "--block: '1x1x1x1'"),
    "open grid": (("run", KERNELS, "saxpy", "--grid", "4,", "--block", "1"), "--grid: '4,'"),
    "shared": (
        ("run", KERNELS, "saxpy", "--shared", "lots", *ARGUMENTS),
        "--shared: invalid number of bytes value: 'lots'",
    ),
    "negative shared": (("run", KERNELS, "saxpy", "--shared", "-4", *ARGUMENTS), "--shared: invalid number of bytes"),
    "device": (("run", KERNELS, "saxpy", "--device", "first", *ARGUMENTS), "--device"),
    "word": (
        ("run", KERNELS, "saxpy", "three", *ARGUMENTS),
        "argument 'three' is not FILE.npy, number, zeros:SHAPE:DTYPE",
    ),
    "text file": (("run", KERNELS, "saxpy", "text.txt", *ARGUMENTS), "argument 'text.txt' is not FILE.npy"),
    "zeros without dtype": (("run", KERNELS, "saxpy", "zeros:3", *ARGUMENTS), "'' is not an element type"),
    "zeros of text": (("run", KERNELS, "saxpy", "zeros:3:text", *ARGUMENTS), "'text' is not an element type"),
    "zeros of dates": (("run", KERNELS, "saxpy", "zeros:3:M8[s]", *ARGUMENTS), "'M8[s]' is not an element type"),
    "zeros of long double": (
        ("run", KERNELS, "saxpy", "zeros:3:float128", *ARGUMENTS),
        "'float128' is not an element type",
    ),
    "zeros of bfloat16": (("run", KERNELS, "saxpy", "zeros:3:bfloat16", *ARGUMENTS), "'bfloat16' is not an element"),
    "zeros of nothing": (("run", KERNELS, "saxpy", "zeros::f4", *ARGUMENTS), "the shape in 'zeros::f4'"),
    "negative shape": (("run", KERNELS, "saxpy", "zeros:-3:f4", *ARGUMENTS), "the shape in 'zeros:-3:f4'"),
    "too large a shape": (("run", KERNELS, "saxpy", f"zeros:{2**40}x{2**40}:f4", *ARGUMENTS), "2**63"),
    "65-D shape": (("run", KERNELS, "saxpy", f"zeros:{'x'.join('1' * 65)}:f4", *ARGUMENTS), "the shape in"),
    "number of no type": (("run", KERNELS, "saxpy", "3:", *ARGUMENTS), "'' is not an element type"),
    "number too large": (("run", KERNELS, "saxpy", "300:uint8", *ARGUMENTS), "'300:uint8' does not fit uint8"),
    "float in an int": (("run", KERNELS, "saxpy", "2.5:int32", *ARGUMENTS), "'2.5:int32' does not fit int32"),
    "float too large": (("run", KERNELS, "saxpy", "1e39:float32", *ARGUMENTS), "'1e39:float32' does not fit float32"),
    "half too large": (("run", KERNELS, "saxpy", "70000:float16", *ARGUMENTS), "'70000:float16' does not fit float16"),
    "complex": (("run", KERNELS, "saxpy", "1:complex64", *ARGUMENTS), "a number cannot be complex64"),
    "out without index": (("run", KERNELS, "saxpy", *ARGUMENTS, "--out", "r.npy"), "give I=FILE.npy"),
    "out of text": (("run", KERNELS, "saxpy", *ARGUMENTS, "--out", "y=r.npy"), "give I=FILE.npy"),
    "out negative": (("run", KERNELS, "saxpy", *ARGUMENTS, "--out=-1=r.npy"), "give I=FILE.npy"),
    "out without file": (("run", KERNELS, "saxpy", *ARGUMENTS, "--out", "3="), "give I=FILE.npy"),
    "out as text": (("run", KERNELS, "saxpy", *ARGUMENTS, "--out", "3=r.txt"), "must end in .npy"),
    "out past the end": (
        ("run", KERNELS, "saxpy", *ARGUMENTS, "--out", "4=r.npy"),
        "there are 4 arguments, numbered from 0",
    ),
    "out of a number": (
        ("run", KERNELS, "saxpy", *ARGUMENTS, "--out", "1=r.npy"),
        "argument 1, '2.0', is not an array",
    ),
    "compile into the source": (
        ("compile", "empty.ptx"),
        "empty.ptx: this is the source; give the result another name",
    ),
    "out twice": (("run", KERNELS, "saxpy", *ARGUMENTS, "--out", "2=r.npy", "--out", "3=./r.npy"), "written twice"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_command_line(cli, files, case):
    words, finding = WRONG[case]
    before = sorted(os.listdir())
    status, out, err = cli(*words)
    assert (status, out) == (2, "")
    assert err.startswith("error: ") and finding in err and err.count("\n") == 1
    assert sorted(os.listdir()) == before


# -- files that cannot be used: exit status 1, one line, before a driver is loaded

BAD = {
    "missing": (("run", "missing.ptx", "saxpy", *ARGUMENTS), "error: missing.ptx: No such file or directory"),
    "folder": (("run", "."), "error: .: Is a directory"),
    "CUDA C": (
        ("run", "source.txt", "saxpy", *ARGUMENTS),
        "source.txt: the code is not PTX (no .version), cubin or fatbin: CUDA C must be compiled first",
    ),
    "missing CUDA C": (("run", "missing.cu", "saxpy", *ARGUMENTS), "missing.cu"),
    "text": (("run", "text.txt", "saxpy", *ARGUMENTS), "text.txt: the code is not PTX (no .version), cubin or fatbin"),
    "empty": (("run", "empty.ptx", "saxpy", *ARGUMENTS), "empty.ptx: the code is empty"),
    "NUL": (("run", "nul.ptx", "saxpy", *ARGUMENTS), "nul.ptx: the code is neither PTX (it has a NUL"),
    "truncated cubin": (("run", "cut.cubin", "saxpy", *ARGUMENTS), "cut.cubin: a truncated cubin"),
    "no kernel to list": (("run", "bare.ptx"), "bare.ptx: this PTX contains no .entry"),
    "fatbin to list": (("run", "fat.fatbin"), "fat.fatbin: a fatbin is compressed"),
    "missing array": (("run", KERNELS, "saxpy", "missing.npy", *ARGUMENTS), "missing.npy"),
    "pickle": (("run", KERNELS, "saxpy", "objects.npy", *ARGUMENTS), "objects.npy: holds pickled Python objects"),
    "truncated": (("run", KERNELS, "saxpy", "short.npy", *ARGUMENTS), "short.npy: is truncated"),
    "no folder for -o": (("compile", "source.txt", "-o", "no/r.ptx"), "no such folder"),
    "no folder for the figures": (("bench", "--driver", "emulator", "--json", "no/r.json"), "no such folder"),
    "no folder for out": (("run", KERNELS, "saxpy", *ARGUMENTS, "--out", "3=no/r.npy"), "no such folder"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_file(cli, files, case):
    words, finding = BAD[case]
    before = sorted(os.listdir())
    status, out, err = cli(*words)
    assert (status, out) == (1, "")
    assert err.startswith("error: ") and finding in err and err.count("\n") == 1
    assert sorted(os.listdir()) == before


def test_an_error_never_names_a_file_that_is_there_for_a_moment(cli, files, monkeypatch):
    """`compile` and `vendor` write beside the place and rename: the error of the system is about the place."""

    def full(*_, **given):
        raise OSError(28, "No space left on device", str(files / ".something.random"))

    with monkeypatch.context() as patch, pytest.raises(OSError, match="No space left on device: .*/r.ptx'"):
        patch.setattr(os, "open", full)
        module("tools.commands.compile").write(files / "r.ptx", b"code")
    monkeypatch.setattr(module("tools.commands.vendor").tempfile, "mkdtemp", full)
    assert cli("vendor", "taken") == (1, "", "error: taken: No space left on device\n")


@pytest.mark.parametrize("after", [False, True], ids=["before it", "after it"])
def test_an_interrupt_when_a_result_is_renamed_remains_an_interrupt(files, monkeypatch, after):
    rename, before = os.replace, sorted(os.listdir())

    def interrupted(*paths):
        if after:
            rename(*paths)
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        module("tools.commands.compile").write(files / "z.ptx", b"code")
    assert sorted(os.listdir()) == before + ["z.ptx"] * after


@pytest.mark.skipif(os.name != "posix", reason="on Windows, a path has at most 260 characters")
def test_a_result_may_have_every_name_that_a_file_may_have(files):
    path = files / ("n" * 255)
    module("tools.commands.compile").write(path, b"code")
    assert path.read_bytes() == b"code"


@pytest.mark.skipif(os.name != "posix", reason="Windows has no such modes, and a user without rights makes no links")
def test_a_result_does_not_get_the_mode_of_what_a_link_names(files):
    """Another user may have put the link there, to a file of which everybody may read and write."""
    (files / "open").write_text("")
    (files / "open").chmod(0o666)
    (files / "r.ptx").symlink_to(files / "open")
    before = os.umask(0o077)
    try:
        module("tools.commands.compile").write(files / "r.ptx", b"code")
    finally:
        os.umask(before)
    assert not (files / "r.ptx").is_symlink() and (files / "r.ptx").stat().st_mode & 0o777 == 0o600


def test_debug_shows_the_traceback(files, capsys):
    assert module("__main__").main(["run", "missing.ptx", "saxpy", "--debug", *ARGUMENTS]) == 1
    error = capsys.readouterr().err
    assert error.startswith("Traceback (most recent call last):") and "\nFileNotFoundError: " in error, error


def test_what_nobody_expected_is_said_to_be_so(cli, monkeypatch):
    def fail(*_):
        raise KeyError("lost")

    monkeypatch.setattr(module("tools.commands.demo"), "main", fail)
    status, out, err = cli("demo")
    assert status == 1 and err == "error: KeyError: 'lost' (unexpected: --debug shows where)\n"


# -- numbers


@pytest.mark.parametrize(
    "text, value",
    [
        ("3", 3),
        ("-3", -3),
        ("007", 7),
        ("0x10", 16),
        ("-0x10", -16),
        ("0b101", 5),
        ("1_000", 1000),
        ("2.5", 2.5),
        ("-1e-3", -0.001),
        (".5", 0.5),
        ("inf", float("inf")),
        ("-inf", float("-inf")),
        ("0x1.8p1", 3.0),
        ("1e400", float("inf")),
        (str(2**64), 2**64),
        ("3:int32", b"\3\0\0\0"),
        ("-1:int8", b"\xff"),
        ("1.5:float16", b"\0\x3e"),
        ("2:f8", bytes(7) + b"\x40"),
        ("0xff:uint8", b"\xff"),
        ("1:bool", b"\1"),
        ("null", None),
    ],
)
def test_numbers(text, value):
    found = module("tools.commands.command_operands").parse(text)
    assert found._value == value and type(found._value) is type(value) and not found.is_array


def test_nan():
    value = module("tools.commands.command_operands").parse("nan")._value
    assert value != value


@pytest.mark.parametrize(
    "words",
    [
        ["-3", "-1e-3", "-inf", "-.5", "-0x10", "-nan", "--grid", "2"],
        ["--grid", "2", "-3", "-1e-3", "-inf", "-.5", "-0x10", "-nan"],
        ["-3", "-1e-3", "--grid", "2", "-inf", "-.5", "-0x10", "-nan"],
    ],
)
def test_negative_numbers_are_arguments_wherever_options_stand(words):
    options = module("tools.commands.run").make_parser().read(["f.ptx", "k", *words])
    assert [word.strip() for word in options.arguments] == ["-3", "-1e-3", "-inf", "-.5", "-0x10", "-nan"]
    assert options.grid == "2" and options.kernel == "k"


# -- listing


def test_listing(cli):
    status, out, err = cli("run", KERNELS)
    assert status == 0 and not err
    lines = [line.split(None, 1) for line in out.splitlines()]
    assert [words[0] for words in lines if not words[0].isdigit()] == [
        "saxpy",
        "_Z6muladdxsPKiPx",
        "stencil",
        "histogram",
        "scale_half",
        "where",
        "overrun",
    ]
    assert out.startswith("saxpy\n   0  u32 ") and "   1  f32 " in out and "   2  u64, or a pointer " in out
    assert "   0  2 bytes without a type " in out


def test_a_line_break_in_a_name_begins_no_line(cli, files, monkeypatch):
    run = module("tools.commands.run")
    monkeypatch.setattr(run.image, "cubin_kernels", lambda data: ["first\nsecond: verified"])
    Path("named.cubin").write_bytes(b"")
    monkeypatch.setattr(run, "_prepared", lambda options: (None, "cubin", b""))
    _, out, _ = cli("run", "named.cubin")
    assert out.splitlines()[0] == "first\\nsecond: verified"


def test_listing_of_declared_pointers(cli, files):
    Path("mine.ptx").write_text(module("tools.commands.kernels").NOTHING)
    assert cli("run", "mine.ptx") == (0, "store_42\n   0  pointer                     target\n", "")


# -- no GPU


def test_run_never_takes_the_emulator_by_itself(python, files):
    words = [
        "run",
        KERNELS,
        "saxpy",
        "10",
        "2",
        str(files / "x.npy"),
        str(files / "y.npy"),
        "--grid=1",
        "--block=32",
        f"--out=3={files / 'r.npy'}",
    ]
    result = python(NO_GPU, *words, env={"RAWCUDA_DRIVER": None})
    assert (result.returncode, result.stdout) == (1, "")
    assert re.match(r"error: no GPU can be used: .*/nowhere/libcuda\.so\.1: ", result.stderr)
    assert result.stderr.count("\n") == 2
    assert "add --driver emulator" in result.stderr and "doctor shows what was tried" in result.stderr
    assert not (files / "r.npy").exists()


def test_demo_says_why_it_is_not_on_the_gpu(python):
    result = python(NO_GPU, "demo", env={"RAWCUDA_DRIVER": None})
    assert result.returncode == 0, result.stderr
    first = result.stdout.splitlines()[0]
    assert first.startswith("On the emulator (no GPU can be used: ")
    assert "/nowhere/libcuda.so.1: " in result.stdout


@pytest.mark.parametrize(
    "words, variable", [(("--driver", "nvidia"), None), ((), "nvidia"), (("--driver", "/nowhere/libcuda.so.2"), None)]
)
def test_demo_does_what_it_is_told(python, words, variable):
    result = python(NO_GPU, "demo", *words, env={"RAWCUDA_DRIVER": variable})
    assert (result.returncode, result.stdout) == (1, "")
    assert (
        result.stderr.startswith("error: ")
        and "/nowhere/libcuda.so" in result.stderr
        and result.stderr.count("\n") == 1
    )


def test_a_wrong_variable(python):
    result = python(NO_GPU, "demo", env={"RAWCUDA_DRIVER": "amd"})
    assert result.returncode == 1 and "RAWCUDA_DRIVER is 'amd'" in result.stderr and result.stderr.count("\n") == 1


def test_doctor_without_a_gpu(python):
    result = python(NO_GPU, "doctor", env={"RAWCUDA_DRIVER": None})
    assert result.returncode == 1 and not result.stderr
    assert "/nowhere/libcuda.so.1  (the test says so)" in result.stdout
    loader = ("cannot open shared object file", "Error loading shared library")  # of glibc and musl
    assert any(words in result.stdout for words in loader) or sys.platform != "linux"
    out = " ".join(result.stdout.split())
    assert "No kernel ran" in out and "demo --driver emulator" in out
    assert result.stdout.startswith("No kernel ran") and "--limits" in result.stdout
    assert result.stdout.isascii()


def test_doctor_lists_the_limits_of_the_emulator_when_asked(python):
    out = python(NO_GPU, "doctor", "--limits", env={"RAWCUDA_DRIVER": None}).stdout
    for what, _ in module("emulator").GAPS:
        assert what.split()[0] in out


def test_doctor_as_json(python):
    result = python(NO_GPU, "doctor", "--json", env={"RAWCUDA_DRIVER": None})
    found = json.loads(result.stdout)
    assert result.returncode == 1 and not found["ran"] and found["verdict"].startswith("No kernel ran")
    assert ["Python", "system"] == [what for what, _ in found["facts"][f"{NAME} {rawcuda.__version__}"][1:3]]


def test_a_library_that_is_no_driver(python, tmp_path):
    (tmp_path / "libcuda.so.1").write_bytes(b"not a library")
    result = python(["-m", NAME, "doctor", "--driver", "./libcuda.so.1"])
    assert result.returncode == 1 and str(tmp_path / "libcuda.so.1") in result.stdout and not result.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="a script is used as ptxas")
def test_doctor_finds_compilers(python, tmp_path):
    (tmp_path / "toolkit" / "bin").mkdir(parents=True)
    (tmp_path / "toolkit" / "lib64").mkdir()
    ptxas, nvrtc = tmp_path / "toolkit" / "bin" / "ptxas", tmp_path / "toolkit" / "lib64" / "libnvrtc.so.12"
    ptxas.write_text("#!/bin/sh\necho Cuda compilation tools, release 12.4, V12.4.99\n")
    ptxas.chmod(0o755)
    nvrtc.write_bytes(b"not a library")
    out = python(NO_GPU, "doctor", env={"RAWCUDA_DRIVER": None, "CUDA_HOME": str(tmp_path / "toolkit")}).stdout
    out = re.sub(r"\s+", " ", out).replace(" 12.4 ", "  12.4  ").replace(" (the env", "  (the env").replace("   ", "  ")
    assert f"{ptxas}  12.4  (the environment's CUDA_HOME)" in out
    assert re.search(
        rf"{re.escape(str(nvrtc))} +.*libnvrtc.so.12: .* *\(the environment's CUDA_HOME\)", out
    )  # the message of the loader


@pytest.mark.skipif(sys.platform == "win32", reason="scripts are used as ptxas")
@pytest.mark.parametrize(
    "script, finding", [("#!/bin/sh\nexit 3\n", "unknown version"), ("#!/nowhere/sh\n", "No such file")]
)
def test_doctor_survives_a_broken_ptxas(tmp_path, script, finding):
    (tmp_path / "ptxas").write_text(script)
    (tmp_path / "ptxas").chmod(0o755)
    assert finding in module("tools.commands.doctor")._release(str(tmp_path / "ptxas"))


@pytest.mark.skipif(os.name != "posix", reason="a script is used as nvcc, and Windows has no such modes")
def test_doctor_runs_no_compiler_whose_toolkit_every_user_can_change(tmp_path, monkeypatch):
    """It says of such an nvcc what compile() says."""
    doctor, nvcc, profile = (
        module("tools.commands.doctor"),
        tmp_path / "bin" / "nvcc",
        tmp_path / "bin" / "nvcc.profile",
    )
    nvcc.parent.mkdir()
    nvcc.write_text("#!/bin/sh\necho release 12.9, V12.9.1\n")
    nvcc.chmod(0o755)
    profile.touch()
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    for mode, said in (
        (0o644, f"{nvcc}  12.9  ("),
        (0o666, f"{profile} can be written by every user, so {profile} is"),
    ):
        profile.chmod(mode)
        facts = doctor._Facts()
        doctor._tools(facts)
        assert said in str(facts._sections)


# -- long work on the emulator

SPIN = """
.version 6.3
.target sm_50
.address_size 64
.visible .entry spin(.param .u32 n)
{
    .reg .pred %p<2>;
    .reg .b32  %r<3>;
    ld.param.u32  %r1, [n];
    mov.u32       %r2, 0;
NEXT:
    add.u32       %r2, %r2, 1;
    setp.lt.u32   %p1, %r2, %r1;
    @%p1 bra      NEXT;
    ret;
}
"""


@pytest.fixture
def spin(tmp_path):
    """Start `run` of a slow kernel with a terminal as standard error; return the process and the terminal."""
    pty = pytest.importorskip("pty", reason="terminals of POSIX")
    started = []

    def start(blocks: int, turns: int):
        (tmp_path / "spin.ptx").write_text(SPIN)
        ours, theirs = pty.openpty()
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                NAME,
                "run",
                str(tmp_path / "spin.ptx"),
                "spin",
                str(turns),
                "--driver",
                "emulator",
                "--grid",
                str(blocks),
                "--block",
                "1",
            ],
            stdout=subprocess.PIPE,
            stderr=theirs,
            stdin=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": str(ROOT), "RAWCUDA_EMULATOR": "", "PYTHONDONTWRITEBYTECODE": "1"},
        )
        os.close(theirs)
        started.append((process, ours))
        return process, ours

    yield start
    for process, ours in started:
        process.kill()
        process.wait()
        process.stdout.close()
        os.close(ours)


def read_terminal(ours: int) -> str:
    """Read everything until the other side is closed."""
    text = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:  # Linux returns EIO at the end
            piece = b""
        if not piece:
            return text.decode()
        text += piece


def test_long_work_shows_progress_and_clears_it(spin):
    turns, steps = 80_000, []
    while len(steps) < 3:  # until the work is long on this machine: nothing is shown in the first second
        process, ours = spin(400, turns)
        shown = read_terminal(ours)
        assert process.wait() == 0
        steps = re.findall(r"\rspin: (\d+) % of 400 blocks, \d+ s left", shown)
        turns *= 4
        assert turns < 80_000 * 4**6, shown
    assert list(map(int, steps)) == sorted(map(int, steps))
    assert re.search(r"\r +\r$", shown)  # nothing is left on the line
    assert process.stdout.read().decode().splitlines()[1].startswith("spin: grid 400, block 1, ")


def test_short_work_shows_nothing(spin):
    start = time.monotonic()
    process, ours = spin(4, 100)
    shown = read_terminal(ours)
    assert process.wait() == 0
    assert shown == "" or time.monotonic() - start > 1, shown  # a busy machine may take longer than a second


def test_ctrl_c_ends_quietly(spin):
    process, ours = spin(2**30, 1000)
    begun = os.read(ours, 65536)  # the first progress: the kernel runs
    assert b"spin:" in begun
    process.send_signal(signal.SIGINT)
    rest = read_terminal(ours)
    assert process.wait(timeout=20) == 130
    assert "Traceback" not in rest and "error" not in rest and re.search(r"\r +\r$", rest)
    assert process.stdout.read() == b""


def test_nobody_reads_the_output(python):
    result = python("""
        import os, subprocess, sys
        from tests.subject import NAME
        ours, theirs = os.pipe()
        os.close(ours)
        for words in (["doctor", "--driver", "emulator"], ["demo", "--driver", "emulator"],
                      ["demo", "--trace", "--driver", "emulator"], ["--help"]):
            done = subprocess.run([sys.executable, "-m", NAME, *words], stdout=theirs, stderr=subprocess.PIPE)
            assert (done.returncode, done.stderr) == (141, b""), done
    """)
    assert result.returncode == 0, result.stderr


# -- the shipped PTX


def shipped():
    kernels = module("tools.commands.kernels")
    return {name: getattr(kernels, name) for name in kernels.__all__ if isinstance(getattr(kernels, name), str)}


def test_shipped_ptx_is_what_every_driver_takes():
    assert set(shipped()) == {"NOTHING", "VECTOR_ADD", "SAXPY", "MATRIX_PRODUCT"}
    for text in shipped().values():
        lines = text.splitlines()
        assert lines[:3] == [".version 6.3", ".target sm_50", ".address_size 64"] and text.isascii()


# -- terminals


def started(words, **how):
    """Start the command line in a new process, with closed or unusual streams."""
    env = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{Path(__file__).parents[2]}", "RAWCUDA_DRIVER": "emulator"}
    env.update(how.pop("env", {}))
    command = [sys.executable, "-m", NAME, *words]
    return subprocess.run(command, env=env, timeout=120, stdin=subprocess.DEVNULL, **how)


@pytest.mark.skipif(sys.platform == "win32", reason="a shell of POSIX")
@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
@pytest.mark.parametrize("words", ["doctor", "check device --no-report", "run missing.ptx"])
def test_a_closed_stream_changes_no_exit_status(words, closed):
    env = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{Path(__file__).parents[2]}", "RAWCUDA_DRIVER": "emulator"}
    done = subprocess.run(
        f"{sys.executable} -m {NAME} {words} {closed}",
        shell=True,
        env=env,
        timeout=120,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert done.returncode == ("missing" in words)
    assert "Traceback" not in done.stderr and "Exception ignored" not in done.stderr, done.stderr


def test_inspect_shows_a_file_that_cannot_be_viewed(cli, files):
    numpy.save("big.npy", numpy.arange(6, dtype=">f4").reshape(2, 3))
    status, out, err = cli("inspect", "big.npy")
    assert status == 0 and not err
    for said in ("'descr': '>f4'", "'shape': (2, 3)", "from byte 128 on: 00 00 00 00 3f 80 00 00", "native byte order"):
        assert said in out
    assert cli("inspect", "objects.npy")[0] == 0
    status, _, err = cli("inspect", "big.npy", "--svg", "big.svg")
    assert status == 1 and "native byte order" in err and not os.path.exists("big.svg")
    Path("cut.npy").write_bytes(Path("big.npy").read_bytes()[:50])
    status, _, err = cli("inspect", "cut.npy")
    assert status == 1 and "cut.npy: is truncated within its header" in err


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
@pytest.mark.parametrize(
    "words, unbuffered",
    [(each, "") for each in ("", "--version", "run --help", "doctor", "manual", "check device --no-report")]
    + [("emulate --help", "1"), ("doctor --limits", "1")],
)
def test_a_full_disk_is_an_error(words, unbuffered):
    """Also in the buffers that the interpreter would write at exit, where a failure is status 120."""
    with open("/dev/full", "w") as full:
        done = started(
            words.split(), env={"PYTHONUNBUFFERED": unbuffered}, stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert (done.returncode, done.stderr) == (1, "error: [Errno 28] No space left on device\n")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
@pytest.mark.parametrize("words, status", [("doctor", 0), ("no-such-command", 2), ("run missing.ptx --debug", 1)])
def test_a_full_disk_below_the_messages_changes_no_exit_status(words, status):
    with open("/dev/full", "w") as full:
        done = started(words.split(), stdout=subprocess.PIPE, stderr=full, text=True)
    assert done.returncode == status


def test_a_reader_that_stops_early():
    with subprocess.Popen(
        [sys.executable, "-m", NAME, "doctor", "--limits"],
        env={**os.environ, "PYTHONPATH": str(ROOT), "RAWCUDA_DRIVER": "emulator"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        process.stdout.close()
        said = process.stderr.read()
    assert process.returncode == 141 and not said


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_a_terminal_without_utf_8_loses_nothing(files, encoding):
    Path("grün €.ptx").write_text(module("tools.commands.kernels").NOTHING)
    done = started(
        ["run", "grün €.ptx", "store_42", "zeros:1:int32", "--grid=1", "--block=1"],
        env={"PYTHONIOENCODING": encoding},
        capture_output=True,
    )
    assert done.returncode == 0 and b"store_42: grid 1" in done.stdout, done.stderr
    wrong = started(["run", "grün €.ptx", "nothing"], env={"PYTHONIOENCODING": encoding}, capture_output=True)
    assert wrong.returncode == 1 and b"Traceback" not in wrong.stderr
    shown = wrong.stderr.decode(encoding)
    assert ("€" if encoding == "utf-8" else "\\u20ac") in shown and "nothing" in shown


def on_a_terminal(words, columns, **env):
    """Run a command on a terminal of this width; return what it shows."""
    import fcntl
    import pty
    import struct
    import termios

    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    variables = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "NO_COLOR", "TERM")}
    process = subprocess.Popen(
        [sys.executable, "-m", NAME, *words],
        env={**variables, "PYTHONPATH": str(ROOT), "RAWCUDA_DRIVER": "emulator", "TERM": "xterm", **env},
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    shown = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # the end, on Linux
            break
        if not part:
            break
        shown += part
    os.close(ours)
    assert process.wait() == 0, shown
    return shown.decode("utf-8", "replace").replace("\r\n", "\n")


@pytest.mark.skipif(sys.platform == "win32", reason="terminals of POSIX")
@pytest.mark.parametrize("columns", [0, 48, 80, 200])
@pytest.mark.parametrize("words", [("doctor",), ("check", "device", "--no-report"), ("--help",), ("run", "--help")])
def test_output_fits_the_terminal(columns, words):
    shown = re.sub("\033\\[[0-9;]*m", "", on_a_terminal(words, columns))
    if columns == 48:
        lines = [line for line in shown.splitlines() if NAME not in line or len(NAME) < 10]  # a long name stays whole
        assert max(map(len, lines)) <= columns, shown
    assert len(shown) > 300


@pytest.mark.skipif(sys.platform == "win32", reason="terminals of POSIX")
@pytest.mark.parametrize(
    "env, coloured", [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False), ({"NO_COLOR": ""}, True)]
)
def test_colours_are_for_terminals_that_show_them(env, coloured):
    assert ("\033[" in on_a_terminal(("check", "device", "--no-report"), 80, **env)) is coloured


def test_no_colours_in_a_file(python):
    out = python(["-m", NAME, "doctor"], env={"FORCE_COLOR": None}).stdout
    assert "\033" not in out
    assert "\033[32m" in python(["-m", NAME, "doctor"], env={"FORCE_COLOR": "1", "NO_COLOR": None}).stdout


# -- the manual and completions


def test_every_command_and_option_is_in_the_manual_and_in_each_completion(cli):
    commands = module("__main__").COMMANDS
    texts = [
        cli("manual")[1].replace("\\-", "-"),
        *(cli("manual", "--completion", s)[1] for s in ("bash", "zsh", "fish")),
    ]
    for name in commands:
        for action in module("__main__").parser_of(name)._actions:
            if action.help == "==SUPPRESS==":
                continue
            for word in action.option_strings:
                forms = (word, f"-l {word[2:]} ", f"-s {word[1:]} ")
                assert all(any(form in text for form in forms) for text in texts), (name, word)
        assert all(name in text for text in texts)
    assert cli("manual", "--completion", "tcsh")[0] == 2


@pytest.mark.skipif(sys.platform == "win32", reason="bash")
def test_completion_in_bash(cli, tmp_path):
    import shutil

    if shutil.which("bash") is None:
        pytest.skip("bash is not installed")
    name = NAME.rpartition(".")[2]
    (tmp_path / "script").write_text(cli("manual", "--completion", "bash")[1])
    (tmp_path / "kernel.ptx").write_text("")

    def completed(*words):
        line = " ".join(f"'{word}'" for word in words)
        code = f"source ./script; COMP_WORDS=({name} {line}); COMP_CWORD={len(words)}; _{name}; echo ${{COMPREPLY[@]}}"
        done = subprocess.run(["bash", "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
        assert not done.stderr
        return done.stdout.split()

    assert completed("do") == ["doctor"] and completed("doctor", "--l") == ["--limits"]
    assert "view" in completed("vendor", "--only", "") and completed("run", "ker") == ["kernel.ptx"]


# -- run


@pytest.mark.parametrize(
    "word, values",
    [
        ("ones:3:int8", [1, 1, 1]),
        ("arange:2x2:float32", [[0.0, 1.0], [2.0, 3.0]]),
        ("arange:2:complex64", [0j, 1 + 0j]),
        ("arange:0:int32", []),
        ("zeros:2:bool", [False, False]),
    ],
)
def test_generated_data(python, word, values):
    code = """
        import sys
        from tests.subject import module, rawcuda
        print(module("tools.commands.command_operands").parse(sys.argv[1]).place(rawcuda.Device(0)).tolist())
    """
    assert python(code, word, env={"RAWCUDA_DRIVER": "emulator"}).stdout == f"{values}\n"


def test_random_data_are_the_same_in_each_run(python):
    code = """
        from tests.subject import module, rawcuda
        for dtype in ("float32", "int16", "bool", "complex128", "float16"):
            for _ in range(2):
                data = module("tools.commands.command_operands").parse(f"random:50:{dtype}")
                print(data.place(rawcuda.Device(0)).tolist())
    """
    lines = python(code, env={"RAWCUDA_DRIVER": "emulator"}).stdout.splitlines()
    assert len(lines) == 10 and lines[::2] == lines[1::2] and len({*lines}) == 5
    floats, integers = eval(lines[0]), eval(lines[2])
    assert 0 <= min(floats) < max(floats) < 1 and 0 <= min(integers) < max(integers) < 100


@pytest.mark.parametrize(
    "word, finding",
    [
        ("arange:300:uint8", "uint8 cannot hold 299, the last element"),
        ("arange:129:int8", "int8 cannot hold 128"),
        ("arange:3:bool", "bool cannot hold 2"),
        ("random:3:text", "'text' is not an element type"),
        ("random:-1:f4", "the shape in"),
        (f"random:{2**63}:f4", "2**63"),
    ],
)
def test_generated_data_that_is_refused(cli, word, finding):
    status, out, err = cli("run", KERNELS, "saxpy", word, "--grid", "1", "--block", "1")
    assert (status, out) == (2, "") and finding in err and err.count("\n") == 1


def test_the_kernels_name_is_checked_first(cli, files):
    """Before options and arguments are looked at, and before a compiler or a driver is used."""
    assert cli("run", KERNELS, "saxpi")[2].endswith(
        "did you mean saxpy? It has saxpy, _Z6muladdxsPKiPx, stencil, histogram, scale_half, where, overrun\n"
    )
    Path("mine.cu").write_text('extern "C" __global__ void __launch_bounds__(128) scale(float *x) {}\n')
    status, _, err = cli("run", "mine.cu", "scake", "what is this")
    assert status == 1 and err == "error: mine.cu has no kernel 'scake': did you mean scale? It has scale\n"
    for word in ("ones:4:float32", "2.5", "x.npy"):
        status, _, err = cli("run", "mine.cu", word, "10", "--grid", "1", "--block", "1")
        expected = f"'{word}' is an argument; the name of the kernel comes before: mine.cu KERNEL {word}"
        assert status == 1 and err == f"error: {expected}\n"


def test_a_file_of_many_kernels_is_neither_listed_nor_compared_as_a_whole(cli, files, monkeypatch):
    """Comparing two names of 200 letters takes 2 ms, and a library may have thousands of kernels."""
    head = ".version 7.0\n.target sm_75\n.address_size 64\n"
    Path("many.ptx").write_text(head + "".join(f".visible .entry k{number}() {{ ret; }}\n" for number in range(1500)))
    run, compared = module("tools.commands.run"), []
    monkeypatch.setattr(run, "get_close_matches", lambda word, names, most: compared.extend(names) or ["k7"])
    status, _, err = cli("run", "many.ptx", "k1500")
    names = ", ".join(f"k{number}" for number in range(20))
    assert err == f"error: many.ptx has no kernel 'k1500': did you mean k7? It has {names} and 1480 more\n"
    assert status == 1 and len(compared) == 1000
    monkeypatch.setattr(run.image, "cubin_kernels", lambda data: ["same"] * 30)
    with pytest.raises(ValueError, match="It has same$"):
        run._look_for("other", "many.cubin", ("cubin", b""))


@pytest.mark.parametrize("numbers, mean", [
    ([float("inf"), float("-inf")], "nan"), ([float("inf"), 1.0], "inf"), ([1e308] * 3, "1e+308"), ([1.0, 2.0], "1.5"),
])  # fmt: skip
def test_the_mean_of_a_result_is_shown_whatever_the_numbers(numbers, mean):
    """A sum that fails must not end `rawcuda run` after a right launch."""
    run = module("tools.commands.run")
    assert run.summary(rawcuda.view(array.array("d", numbers))).endswith(f", mean {mean}")
