"""The command line on a driver: `run` gives the same numbers as NumPy for PTX of nvcc; demo, doctor, examples."""

from __future__ import annotations

import os
import re
import zipfile
from pathlib import Path

import numpy
import pytest

from tests.driver import kernels
from tests.subject import CHECKOUT, NAME, ROOT, module, rawcuda

# The command line shows these errors to its user.
_SHOWN = "cuModuleLoadDataEx returned 218", "cuModuleLoadDataEx returned 222", "cuMemAlloc_v2 returned 2"
pytestmark = pytest.mark.codes(*_SHOWN)
KERNELS = str(CHECKOUT / "tests" / "data" / "cli" / "kernels.ptx")


@pytest.fixture
def cli(capsys, tmp_path, monkeypatch):
    """Run the command line in this process, in an empty folder, on the tested driver: (status, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RAWCUDA_DRIVER", raising=False)

    def run(*words: object):
        status = module("__main__").main([str(word) for word in words])
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return status, out, err

    return run


def ran(result) -> str:
    status, out, err = result
    assert status == 0 and not err, err
    return out


def refused(result, *findings: str) -> str:
    """Expect a failure with a message of one line, and no output file."""
    status, out, err = result
    assert (status, out) == (1, "") and err.startswith("error: ")
    for finding in findings:
        assert finding in err
    assert not list(Path().glob("out*")) and not list(Path().glob(".*"))
    return err


@pytest.fixture
def numbers():
    return numpy.random.default_rng(7)


# -- run


def test_saxpy(cli, numbers):
    x, y = (numbers.integers(-4096, 4096, 1000).astype("f4") / 8 for _ in range(2))  # small: no result is rounded
    numpy.save("x.npy", x)
    numpy.save("y.npy", y)
    said = ran(
        cli("run", KERNELS, "saxpy", 1000, "2.5", "x.npy", "y.npy", "--grid", 4, "--block", 256, "--out", "3=out.npy")
    )
    head = r"On .*\.\nsaxpy: grid 4, block 256, \d+\.\d{3} ms\nout\.npy: float32 \(1000,\)\n"
    assert re.match(head, said) and "2  x.npy: float32 1000: " in said and "3  y.npy: float32 1000: " in said
    out = numpy.load("out.npy")
    assert out.dtype == "f4" and (out == numpy.float32(2.5) * x + y).all()
    assert (numpy.load("y.npy") == y).all()  # the input is unchanged
    assert sorted(os.listdir()) == ["out.npy", "x.npy", "y.npy"]


def test_options_anywhere_and_an_input_that_is_replaced(cli):
    numpy.save("y.npy", numpy.ones(5, "f4"))
    ran(cli("run", "--block", 32, KERNELS, "saxpy", 5, "--out=3=y.npy", "-1e0", "zeros:5:float32", "--grid=1", "y.npy"))
    ran(
        cli(
            "run", KERNELS, "saxpy", 5, "-2", "y.npy", "y.npy", "--grid", "1x1x1", "--block", "32,1", "--out", "3=y.npy"
        )
    )
    assert numpy.load("y.npy").tolist() == [-1] * 5


def test_integers_of_two_widths_under_a_mangled_name(cli, numbers):
    x = numbers.integers(-(2**31), 2**31, 777, dtype="i4")
    y = numbers.integers(-(2**62), 2**62, 777, dtype="i8")
    numpy.save("x.npy", x)
    numpy.save("y.npy", y)
    ran(
        cli(
            "run",
            KERNELS,
            "_Z6muladdxsPKiPx",
            777,
            -32768,
            "x.npy",
            "y.npy",
            "--grid",
            3,
            "--block",
            64,
            "--out",
            "3=out.npy",
        )
    )
    assert (numpy.load("out.npy") == y + (-32768) * x.astype("i8")).all()


@pytest.mark.parametrize("order", "CF")
def test_stencil_in_two_dimensions(cli, numbers, order):
    grid = numbers.random((45, 70))
    numpy.save("in.npy", numpy.asarray(grid, order=order))  # the kernel gets C order, in whatever order the file is
    ran(
        cli(
            "run",
            KERNELS,
            "stencil",
            "in.npy",
            "empty:45x70:f8",
            45,
            70,
            "--grid",
            "5x6",
            "--block",
            "16x8",
            "--out",
            "1=out.npy",
        )
    )
    wanted = grid.copy()
    wanted[1:-1, 1:-1] = (grid[1:-1, 1:-1] + grid[1:-1, :-2] + grid[1:-1, 2:] + grid[:-2, 1:-1] + grid[2:, 1:-1]) / 5.0
    out = numpy.load("out.npy")
    assert out.shape == (45, 70) and out.flags.c_contiguous and (out == wanted).all()


def test_histogram_with_atomics_and_dynamic_shared_memory(cli, numbers):
    data = numbers.integers(0, 256, 5000, dtype="u1")
    numpy.save("data.npy", data)
    ran(
        cli(
            "run",
            KERNELS,
            "histogram",
            "data.npy",
            5000,
            "zeros:50:uint32",
            50,
            "--grid",
            4,
            "--block",
            64,
            "--shared",
            200,
            "--out",
            "2=out.npy",
        )
    )
    assert (numpy.load("out.npy") == numpy.bincount(data % 50, minlength=50)).all()


def test_a_number_of_a_declared_type(cli):
    numpy.save("x.npy", numpy.arange(32, dtype="f4"))
    words = (
        "run",
        KERNELS,
        "scale_half",
        "1.5:float16",
        "x.npy",
        "empty:32:float32",
        1,
        "--grid",
        1,
        "--block",
        32,
        "--out",
    )
    ran(cli(*words, "2=out.npy"))
    assert (numpy.load("out.npy") == -1.5 * numpy.arange(32)).all()


@pytest.mark.parametrize(
    "grid, block, blocks, threads", [("3", "5", 3, 5), ("2x3", "4x2", 6, 8), ("2,1,3", "2x2x2", 6, 8)]
)
def test_grids_null_and_several_outputs(cli, grid, block, blocks, threads):
    numpy.save("added.npy", numpy.array(7, "i4"))  # 0-d
    for added, plus in (("null", 0), ("added.npy", 7)):
        said = ran(
            cli(
                "run",
                KERNELS,
                "where",
                f"empty:{blocks}x{threads}:int32",
                added,
                "--grid",
                grid,
                "--block",
                block,
                "--out",
                "0=a.npy",
                *([] if added == "null" else ["--out", "1=b.npy"]),
            )
        )
        assert f"a.npy: int32 ({blocks}, {threads})\n" in said
        assert (numpy.load("a.npy") == 1000 * numpy.arange(blocks)[:, None] + numpy.arange(threads) + plus).all()
    assert numpy.load("b.npy").shape == () and numpy.load("b.npy") == 7


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int64", "float16", "complex64", "complex128"])
def test_every_type_passes_through(cli, dtype):
    for shape in ((3, 4), (0,), (), (2, 0, 3)):
        value = (numpy.arange(int(numpy.prod(shape))) % 2).astype(dtype).reshape(shape)
        numpy.save("in.npy", value)
        # saxpy over 0 elements changes nothing: the arrays are only uploaded and downloaded
        ran(
            cli(
                "run",
                KERNELS,
                "saxpy",
                0,
                0,
                "in.npy",
                f"zeros:{'x'.join(map(str, shape)) or 1}:{dtype}",
                "--grid",
                1,
                "--block",
                1,
                "--out",
                "2=a.npy",
                "--out",
                "3=b.npy",
            )
        )
        same, zero = numpy.load("a.npy"), numpy.load("b.npy")
        assert same.dtype == value.dtype and same.shape == shape and (same == value).all()
        assert zero.dtype == value.dtype and zero.shape == (shape or (1,)) and not zero.any()


# -- run: refused arguments, with the messages of the kernel or the device

SAXPY = ("--grid", 1, "--block", 32)


@pytest.mark.parametrize(
    "case, words, findings",
    [
        ("kernel", ("saxpi", 1, 2, "null", "null", *SAXPY), ("no kernel 'saxpi'", "saxpy, _Z6muladdxsPKiPx, stencil")),
        (
            "float",
            ("saxpy", "1.5", 2, "null", "null", *SAXPY),
            ("kernel saxpy: parameter 'saxpy_param_0' is .u32: 1.5 cannot be converted to an integer",),
        ),
        ("wide", ("saxpy", 2**40, 2, "null", "null", *SAXPY), (".u32", str(2**40), "does not fit")),
        ("narrow", ("scale_half", "1:float16", "null", "null", 300, *SAXPY), (".u8", "300", "does not fit")),
        ("large", ("saxpy", 1, "1e39", "null", "null", *SAXPY), (".f32", "1e+39", "does not fit")),
        (
            "untyped",
            ("scale_half", 1, "null", "null", 0, *SAXPY),
            ("scale_half_param_0", "2 bytes", "is ambiguous here"),
        ),
        ("width", ("scale_half", "1:float32", "null", "null", 0, *SAXPY), ("scale_half_param_0", "4 bytes, not 2")),
        ("array", ("saxpy", "zeros:3:int32", 2, "null", "null", *SAXPY), (".u32", "cannot be converted to an integer")),
        ("pointer", ("saxpy", 1, "null", "null", "null", *SAXPY), (".f32", "cannot be converted to a float")),
        ("block", ("saxpy", 1, 2, "null", "null", "--grid", 1, "--block", "32x33"), ("1056 threads", "at most 1024")),
        ("block.z", ("saxpy", 1, 2, "null", "null", "--grid", 1, "--block", "1x1x65"), ("z is at most 64",)),
        ("grid.y", ("saxpy", 1, 2, "null", "null", "--grid", "1x65536", "--block", 1), ("y is at most 65535",)),
        ("shared", ("saxpy", 1, 2, "null", "null", "--shared", 2**30, *SAXPY), ("shared_bytes=1073741824",)),
        ("device", ("saxpy", 1, 2, "null", "null", "--device", 99, *SAXPY), ("there is no device 99",)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_refusals(cli, case, words, findings):
    err = refused(cli("run", KERNELS, *words), *findings)
    assert err.count("\n") <= 2


@pytest.mark.parametrize("words", [(), (1, 2, "null"), (1, 2, "null", "null", 5)])
def test_a_wrong_count_is_seen_before_anything_is_uploaded(cli, words):
    status, out, err = cli("run", KERNELS, "saxpy", *words, *SAXPY)
    assert (status, out) == (2, "")
    assert f"kernel saxpy has 4 parameters, and {len(words)} arguments were given" in err and err.count("\n") == 1
    assert ("a grid of two dimensions is --grid 4x2" in err) == (len(words) > 4)


def test_ptx_that_does_not_compile_tells_the_line(cli):
    Path("bad.ptx").write_text(Path(KERNELS).read_text().replace("ret;", "return;", 1))
    line = next(number for number, text in enumerate(Path("bad.ptx").read_text().splitlines(), 1) if "return;" in text)
    refused(cli("run", "bad.ptx", "saxpy", 1, 2, "null", "null", *SAXPY), "CUDA_ERROR_INVALID_PTX", str(line))


def test_ptx_that_is_too_new(cli):
    Path("new.ptx").write_text(Path(KERNELS).read_text().replace(".version 9.0", ".version 99.0"))
    status, _, err = cli("run", "new.ptx", "saxpy", 1, 2, "null", "null", *SAXPY)
    assert status == 1 and "CUDA_ERROR_UNSUPPORTED_PTX_VERSION" in err and "update the driver" in err


def test_too_much_memory(cli):
    refused(
        cli("run", KERNELS, "saxpy", 1, 2, f"empty:{2**50}:f4", "null", *SAXPY, "--out", "2=out.npy"),
        "CUDA_ERROR_OUT_OF_MEMORY",
    )


def test_a_device_that_is_there_twice_is_chosen(cli):
    if len(rawcuda.devices()) > 1:
        ran(
            cli(
                "run",
                KERNELS,
                "where",
                "empty:1:int32",
                "null",
                "--device",
                1,
                "--grid",
                1,
                "--block",
                1,
                "--out",
                "0=out.npy",
            )
        )
        assert numpy.load("out.npy").tolist() == [0]
    else:
        refused(
            cli("run", KERNELS, "where", "empty:1:int32", "null", "--device", 1, "--grid", 1, "--block", 1),
            "no device 1",
        )


@pytest.mark.emulator_only("a GPU may not notice this")
def test_a_kernel_that_writes_past_the_end_leaves_no_file(python, tmp_path):
    result = python(
        [
            "-m",
            NAME,
            "run",
            KERNELS,
            "overrun",
            "zeros:100:uint8",
            "100",
            "--grid",
            "1",
            "--block",
            "1",
            "--out",
            f"0={tmp_path / 'out.npy'}",
        ]
    )
    assert (result.returncode, result.stdout) == (1, "")
    assert "CUDA_ERROR_ILLEGAL_ADDRESS" in result.stderr and "Traceback" not in result.stderr
    line = next(n for n, text in enumerate(Path(KERNELS).read_text().splitlines(), 1) if "st.global.u8" in text)
    assert f"line {line}" in result.stderr  # where in the PTX
    assert "allocated at" not in result.stderr  # no user's line allocated it
    assert os.listdir(tmp_path) == []


# -- demo


def test_demo(cli):
    out = ran(cli("demo"))
    lines = out.splitlines()
    assert lines[0].startswith("On ")
    assert [line[:16].strip() for line in lines if line.endswith("   right")] == [
        "vector add",
        "saxpy",
        "matrix product",
    ]
    assert lines[-1] == "All 3 results are right: every element was compared."


def test_demo_traces_each_call(cli):
    out = ran(cli("demo", "--trace"))
    assert out.startswith("On ") and "-> CUDA_SUCCESS" not in out and "\033" not in out  # not a terminal
    lines = [line for line in out.splitlines() if re.match(r" *\d+\.\d{3} +\d+\.\d  cu\w+  ", line)]
    assert len(lines) > 40 and len({line.index("  cu") for line in lines}) == 1
    for call in ("cuModuleLoadDataEx ", "cuMemAlloc_v2 ", "cuLaunchKernelEx ", "cuEventElapsedTime "):
        assert call in out
    assert out.count("   right\n") == 3


@pytest.mark.parametrize("kernel", ["VECTOR_ADD", "SAXPY", "MATRIX_PRODUCT"])
def test_demo_finds_a_wrong_result(cli, monkeypatch, kernel):
    kernels = module("tools.commands.kernels")
    text = getattr(kernels, kernel)
    wrong = (
        text.replace("add.rn.f32          %f3, %f1, %f2", "sub.rn.f32          %f3, %f1, %f2")
        .replace("fma.rn.f32          %f4, %f1, %f2, %f3", "fma.rn.f32          %f4, %f1, %f2, %f2")
        .replace("fma.rn.f32          %f1, %f10, %f11, %f1", "fma.rn.f32          %f1, %f10, %f10, %f1")
    )
    assert wrong != text
    monkeypatch.setattr(kernels, kernel, wrong)
    status, out, err = cli("demo")
    assert status == 1 and not err
    assert out.count("   WRONG\n") == 1 and out.count("   right\n") == 2 and out.endswith("1 of 3 results are WRONG.\n")


def test_a_missing_barrier_is_named_by_the_emulator(python):
    result = python("""
        import sys
        from tests.subject import module
        kernels = module("tools.commands.kernels")
        kernels.MATRIX_PRODUCT = kernels.MATRIX_PRODUCT.replace("bar.sync", "// bar.sync", 1)
        sys.exit(module("__main__").main(["demo", "--driver", "emulator"]))
    """)
    assert result.returncode == 1 and "kernel matrix_product" in result.stderr
    assert "racecheck" in result.stderr and "a barrier is missing between them" in result.stderr


# -- doctor


def test_doctor(cli):
    out = ran(cli("doctor"))
    assert "ran: 42 was stored and read back" in out and "A kernel ran on the" in out and out.isascii()
    for fact in (
        f"{NAME} {rawcuda.__version__}",
        "Python",
        "driver\n",
        "entry points",
        "device 0\n",
        "primary context",
        "current in this thread: none",
        rawcuda.Device(0).name,
        "ptxas",
        "nvrtc",
    ):
        assert fact in out


def test_what_is_said_of_a_real_driver(cli, monkeypatch):
    """Treat the tested driver as one of a GPU, to check that the text about a GPU can be made."""
    for name in ("tools.commands.console", "tools.commands.doctor"):
        monkeypatch.setattr(module(name), "is_emulator", lambda loaded: False)
    device, said = rawcuda.Device(0), module("tools.commands.console").first_line(rawcuda.cu)
    assert re.fullmatch(rf"On {re.escape(device.name)}, compute capability \d+\.\d, driver for CUDA \d+\.\d\.", said)
    out = ran(cli("doctor"))
    assert "mapped file " in out and "A kernel ran on the GPU" in out


def test_doctor_tells_of_a_kernel_that_does_nothing(cli, monkeypatch):
    kernels = module("tools.commands.kernels")
    monkeypatch.setattr(kernels, "NOTHING", kernels.NOTHING.replace("42;", "41;"))
    status, out, _ = cli("doctor")
    assert status == 1 and "FAILED: the kernel should have stored 42" in out and "No kernel ran" in out


def test_doctor_tells_what_does_not_compile(cli, monkeypatch):
    monkeypatch.setattr(
        module("tools.commands.kernels"), "NOTHING", ".version 6.3\n.target sm_50\n.address_size 64\nnonsense\n"
    )
    status, out, _ = cli("doctor")
    assert status == 1 and "FAILED: cuModuleLoadDataEx" in out


@pytest.mark.parametrize("call", ["cuDevicePrimaryCtxRetain", "cuDeviceGetName"])
@pytest.mark.parametrize("number", [1, 2])
def test_doctor_tells_of_the_device_that_fails(python, call, number):
    fails = {"RAWCUDA_EMULATOR": f"devices=2,fail={call}:{number}:2"}
    done = python(["-m", NAME, "doctor", "--driver", "emulator"], env=fails)
    assert done.returncode == 1 and f"ran on the emulator, but not on device {number - 1}." in done.stdout
    first, second = done.stdout.split("\ndevice 1\n")
    assert ("ran: 42 was stored" in first, "ran: 42 was stored" in second) == (number == 2, number == 1)
    assert f"FAILED: {call}(" in (first, second)[number - 1]


# -- how it is started


@pytest.mark.parametrize("flags", [("-S",), ("-I", "-S"), ("-B", "-W", "error"), ("-O",), ("-X", "utf8=0")])
def test_started_in_every_way(python, flags):
    if "-I" in flags:  # as PYTHONPATH would
        code = (
            f"import sys, runpy; sys.path.insert(0, {str(ROOT)!r}); sys.argv[1:] = ['demo']; "
            f"runpy.run_module({NAME!r}, run_name='__main__')"
        )
        words = ["-c", code]
    else:
        words = ["-m", NAME, "demo"]
    result = python(words, flags=flags)
    assert result.returncode == 0 and not result.stderr, result.stderr
    assert "All 3 results are right" in result.stdout


def test_started_from_a_zip(python, tmp_path):
    with zipfile.ZipFile(tmp_path / "packed.zip", "w") as archive:
        for path in sorted((ROOT / NAME.split(".")[0]).rglob("*.py")):
            archive.write(path, path.relative_to(ROOT))
    for command in ("demo", "doctor"):
        result = python(["-m", NAME, command], env={"PYTHONPATH": str(tmp_path / "packed.zip")})
        assert result.returncode == 0, result.stdout + result.stderr
    assert "packed.zip" in result.stdout


# The main job, as a program that needs nothing of the tests.
MAIN_JOB = f"""
import array
import {NAME} as rawcuda

host = array.array("f", range(8))
device = rawcuda.Device(0)
x = device.upload(host)
with device.load({kernels.ADD!r}) as loaded, device.allocate(32) as memory:
    out = memory.view("float32")
    loaded["add"].launch(x, rawcuda.view(x), out, 8, grid=1, block=8)
    print(out.download().tolist())
"""
DOUBLED = str([2.0 * number for number in range(8)])
FROZEN = f"""
import importlib.machinery, sys, zipfile

class Frozen:  # gives modules no __file__, as freezing tools do
    def __init__(self, path):
        self.archive = zipfile.ZipFile(path)
        self.names = set(self.archive.namelist())
    def find_spec(self, name, path=None, target=None):
        for is_package in (True, False):
            file = name.replace(".", "/") + ("/__init__.py" if is_package else ".py")
            if file in self.names:
                return importlib.machinery.ModuleSpec(name, self, loader_state=file, is_package=is_package)
    def create_module(self, spec):
        return None
    def exec_module(self, module):
        source = self.archive.read(module.__spec__.loader_state)
        exec(compile(source, f"<frozen {{module.__name__}}>", "exec"), vars(module))

sys.frozen = True
sys.meta_path.insert(0, Frozen(sys.argv[1]))
{MAIN_JOB}
assert not hasattr(rawcuda, "__file__")
"""


@pytest.mark.parametrize("flags", [("-OO",), ("-W", "error", "-X", "dev")], ids=" ".join)
def test_the_main_job_under_flags(python, flags):
    result = python(MAIN_JOB, flags=flags)
    assert (result.stdout.strip(), result.stderr) == (DOUBLED, "")


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """Return the path of a zipped program that does the main job."""
    path = tmp_path_factory.mktemp("zipped") / "program.pyz"
    with zipfile.ZipFile(path, "w") as archive:
        for file in sorted((ROOT / NAME.split(".")[0]).rglob("*.py")):
            archive.write(file, file.relative_to(ROOT))
        archive.writestr("__main__.py", MAIN_JOB)
    return str(path)


def test_the_main_job_as_a_zipped_program(python, program):
    result = python([program], env={"PYTHONPATH": None})
    assert (result.stdout.strip(), result.stderr) == (DOUBLED, "")


def test_the_main_job_in_a_frozen_program(python, program):
    result = python(FROZEN, program, env={"PYTHONPATH": None})
    assert (result.stdout.strip(), result.stderr) == (DOUBLED, "")


# -- examples


@pytest.mark.parametrize("name", ["vector_add", "saxpy_numpy"])
def test_examples(python, name):
    source = (CHECKOUT / "examples" / f"{name}.py").read_text(encoding="utf-8")
    mine = source.replace("import rawcuda\n", f"import {NAME} as rawcuda\n")
    code = f"__file__ = {str(CHECKOUT / 'examples' / (name + '.py'))!r}\nexec(compile({mine!r}, __file__, 'exec'))"
    result = python(code)
    assert result.returncode == 0 and not result.stderr, result.stderr
    assert result.stdout.startswith(rawcuda.Device(0).name + ": ")


def test_the_examples_ptx_is_what_most_drivers_take():
    text = (CHECKOUT / "examples" / "saxpy.ptx").read_text()
    assert ".version 6.3\n" in text and ".target sm_75\n" in text
