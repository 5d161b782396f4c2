"""From CUDA C to a result: with NVRTC from PyPI, which needs no GPU, and with nvcc where it is installed."""

from __future__ import annotations

import errno
import hashlib
import linecache
import os
import re
import shutil
import struct
import sys
import threading
import types
import warnings
from pathlib import Path
from typing import Any, Callable

import pytest

from tests.__main__ import environment
from tests.conftest import Python
from tests.subject import CHECKOUT, NAME, module, rawcuda

program, cache, nvrtc, request = (module(f"compiler.{name}") for name in ("program", "cache", "nvrtc", "request"))
locate = module("locate")
Build = Callable[..., Any]
pytestmark = pytest.mark.skipif(sys.platform == "darwin", reason="there is no NVRTC for macOS")
NVCC = shutil.which("nvcc")

SOURCE = r"""
template <int N> __device__ float power(float x) { float r = 1; for (int k = 0; k < N; k++) r *= x; return r; }
struct Line { float slope, height; };
__constant__ int factors[4] = {2, 3, 5, 7};
extern "C" __global__ void line(float *out, const float *x, Line by, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = by.slope * power<3>(x[i]) + by.height + factors[i & 3];
}
extern "C" __global__ void turned(float *out, const float *x) {
    __shared__ float tile[64];
    tile[threadIdx.x] = sqrtf(x[blockIdx.x * blockDim.x + threadIdx.x]);
    __syncthreads();
    out[blockIdx.x * blockDim.x + threadIdx.x] = tile[blockDim.x - 1 - threadIdx.x];
}
"""
LINE = '#line 1 "source.cu"\n'  # what NVRTC gets before a source that is not a file
FILL = 'extern "C" __global__ void fill(int *out) { out[threadIdx.x] = VALUE; }'
NOTHING = ".version 7.3\n.target sm_80\n.address_size 64\n.visible .entry k() { ret; }\n"
WARNS = 'extern "C" __global__ void k(int *out) { int unused = 3; *out = 1; }'


@pytest.fixture
def build(device: Any, pytestconfig: pytest.Config) -> Build:
    """Call device.compile; on a GPU whose driver is older than the compiler, skip."""

    def build(*arguments: Any, **options: Any) -> Any:
        try:
            return device.compile(*arguments, **options)
        except rawcuda.Unsupported as error:
            if error.code == 222 and pytestconfig.getoption("driver") == "nvidia":
                pytest.skip(str(error))
            raise

    return build


@pytest.fixture
def afresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the compiler be looked for again, in this test and after it."""
    monkeypatch.setattr(program, "_loaded", [])


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Collect the requests that reach the compiler."""
    loaded, found = program.compiler(), []
    real = type(loaded).compile
    monkeypatch.setattr(type(loaded), "compile", lambda self, *given: (found.append(given[0]), real(self, *given))[1])
    return found


def value(device: Any, made: Any, kernel: str = "fill") -> int:
    """Run a kernel that stores one integer, and return that."""
    with made, device.allocate(4) as out:
        made[kernel].launch(out, grid=1, block=1)
        back = bytearray(4)
        out.copy_to(back)
    return int.from_bytes(back, "little", signed=True)


# -- from source to result


@pytest.mark.parametrize("options", [[], ["--use_fast_math"], ["-G"]], ids=["plain", "fast", "debug"])
def test_from_source_to_result(device: Any, build: Build, options: list[str]) -> None:
    with build(SOURCE, options=options) as made:
        assert [parameter.size for parameter in made["line"].parameters] == [8, 8, 8, 4]
        x = [float(k % 11) for k in range(128)]
        with device.allocate(512) as given, device.allocate(512) as out:
            given.copy_from(struct.pack("<128f", *x))

            def run(kernel: str, *more: Any) -> list[float]:
                made[kernel].launch(out, given, *more, grid=2, block=64)
                back = bytearray(512)
                out.copy_to(back)
                return list(struct.unpack("<128f", back))

            assert run("line", struct.pack("<2f", 0.5, -4), 128) == [
                0.5 * v**3 - 4 + (2, 3, 5, 7)[k & 3] for k, v in enumerate(x)
            ]
            roots = [v**0.5 for v in x]
            assert run("turned") == pytest.approx(roots[63::-1] + roots[:63:-1], rel=1e-6)


def test_templates_by_their_names(device: Any, build: Build) -> None:
    made = build(
        "namespace a { template <class T, int N> __global__ void put(T *out) { *out = N; } __device__ int counter; }"
        "__global__ void plain(int *out) { *out = 9; }",
        names=["a::put<int, 5>", "a::put<int,-6>", "plain", "&a::counter"],
    )
    assert made.kernel("plain", parameters=["pointer"]).parameters[0].size == 8
    assert "plain" in made and "a::put<int, 5>" in made and "a::put<int, 7>" not in made
    assert made.global_("&a::counter").nbytes == 4
    with device.allocate(4) as out:
        for name, wanted in (("a::put<int, 5>", 5), ("a::put<int,-6>", -6), ("plain", 9)):
            made[name].launch(out, grid=1, block=1)
            back = bytearray(4)
            out.copy_to(back)
            assert int.from_bytes(back, "little", signed=True) == wanted
    with pytest.raises(rawcuda.NotFound, match=r"no kernel 'put' in this module: it has .*named in compile\(names"):
        made["put"]
    made.close()


def test_headers_as_text_in_folders_and_beside_the_file(device: Any, build: Build, tmp_path: Path) -> None:
    assert value(device, build(f'#include "v.h"\n{FILL}', headers={"v.h": "#define VALUE 3"})) == 3
    assert value(device, build(f"#include <a/v.h>\n{FILL}", headers={"a/v.h": b"#define VALUE 4"})) == 4
    (tmp_path / "v.h").write_text("#define VALUE 5")
    assert value(device, build(f'#include "v.h"\n{FILL}', options=[f"-I{tmp_path}"])) == 5
    (tmp_path / "k.cu").write_text(f'#include "v.h"\n{FILL}')
    assert value(device, build(tmp_path / "k.cu")) == 5
    assert value(device, build(FILL, options=["-DVALUE=6"])) == 6


def test_the_current_directory_is_not_searched_for_headers(
    build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "v.h").write_text("#define VALUE 5")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(rawcuda.CompileFailed, match="v.h"):
        build(f'#include "v.h"\n{FILL}')


def test_the_toolkits_headers_are_found(device: Any, build: Build) -> None:
    if not locate.headers(program.compiler().version[0]):
        pytest.skip("there are no headers of this major version")
    text = '#include <cuda_fp16.h>\nextern "C" __global__ void k(int *out, half x) { *out = (int)__half2float(x); }'
    with build(text) as made, device.allocate(4) as out:
        made["k"].launch(out, struct.pack("<e", 7), grid=1, block=1)
        assert out.view("int32").tolist() == [7]


@pytest.mark.parametrize(
    ("text", "options", "looks"),
    [
        ("", [], False),
        ("#define X\\\nY", [], False),
        ("#include <v.h>", [], True),
        ("#inc\\\nlude <v.h>", [], True),
        ("#inc\\\r\nlude <v.h>", [], True),
        ("#inc??/\nlude <v.h>", ["-std=c++14"], True),
        ("", ["-include=v.h"], True),
    ],
    ids=["none", "another line", "plain", "joined", "joined with CR", "trigraph", "option"],
)
def test_the_toolkits_headers_are_looked_at_if_one_may_be_included(
    monkeypatch: pytest.MonkeyPatch, text: str, options: list[str], looks: bool
) -> None:
    found, asked = locate.headers, []

    def headers(major: int, *, with_files: bool = True) -> list[str]:
        asked.append(with_files)
        listed: list[str] = found(major, with_files=with_files)
        return listed

    monkeypatch.setattr(locate, "headers", headers)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rawcuda.compile(f"{text}\n{FILL}", options=[*options, "-DVALUE=1"], headers={"v.h": "#define Y 1"})
    assert asked == [looks]


def test_headers_include_headers_of_their_own_folder(device: Any, build: Build, tmp_path: Path) -> None:
    """As those of cooperative groups do."""
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "a.h").write_text('#include "b.h"\n#include "../c.h"\n')
    (tmp_path / "inner" / "b.h").write_text("#define ONE 1\n")
    (tmp_path / "c.h").write_text("#define VALUE (ONE + 6)\n")
    assert value(device, build(f"#include <inner/a.h>\n{FILL}", options=[f"-I{tmp_path}"])) == 7


def test_several_threads_compile_at_once(device: Any, build: Build) -> None:
    build(FILL, options=["-DVALUE=0"]).close()
    found: dict[int, int] = {}

    def work(number: int) -> None:
        found[number] = value(device, device.compile(FILL, options=[f"-DVALUE={number}"]))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {number: number for number in range(4)}


# -- without a device


@pytest.mark.parametrize(
    "output, begins", [("ptx", b"//"), ("cubin", b"\x7fELF"), ("ltoir", None)], ids=["ptx", "cubin", "ltoir"]
)
@pytest.mark.parametrize("target", ["sm_90", "compute_90a"])
def test_bytes(output: str, begins: bytes | None, target: str) -> None:
    made = rawcuda.compile(SOURCE, target, output)
    assert isinstance(made, bytes) and len(made) > 200 and (begins is None or made.startswith(begins))
    if output == "ptx":
        assert f".target {target.replace('compute', 'sm')}\n".encode() in made and not made.endswith(b"\0")
    if output == "cubin":
        image = module("gpu.kernels.image")
        assert image.prepare(made)[0] == "cubin" and {"line", "turned"} <= {*image.cubin_kernels(made)}


def test_names_instantiate_templates() -> None:
    text = "template <class T> __global__ void put(T *out) { *out = 1; }"
    assert b".entry" not in rawcuda.compile(text) and b".entry _Z3put" in rawcuda.compile(text, names=["put<float>"])


# -- the target


class Known:
    """A compiler that only has a version and architectures."""

    kind, path = "NVRTC", "/somewhere/libnvrtc.so"

    def __init__(self, version: tuple[int, int], *architectures: int) -> None:
        self.version, self.architectures = version, list(architectures)


def test_the_target_is_the_devices_or_the_newest_below() -> None:
    known = Known((12, 4), 50, 70, 75, 80, 86, 89, 90)
    choose = program._choose
    assert [str(choose(each, known)) for each in ((9, 0), (8, 7), (12, 1), (5, 0))] == [
        "sm_90",
        "sm_86",
        "sm_90",
        "sm_50",
    ]
    with pytest.raises(rawcuda.Unsupported, match=r"too new for sm_70: .* is sm_75.*nvidia-cuda-nvrtc-cu12==12\.9\.\*"):
        choose((7, 0), Known((13, 0), 75, 80))
    with pytest.raises(rawcuda.Unsupported, match=r"too new for sm_37: .* is sm_50.*nvidia-cuda-nvrtc-cu11==11\.8\.\*"):
        choose((3, 7), known)
    with pytest.raises(rawcuda.Unsupported, match="the oldest that it knows is sm_35$"):
        choose((3, 0), Known((11, 8), 35, 90))


def test_the_device_decides_and_an_option_overrides(
    device: Any, library: Any, build: Build, compilations: list[Any]
) -> None:
    build(FILL, options=["-DVALUE=1"]).close()
    major, minor = device.compute_capability
    known = [number for number in program.compiler().architectures if number <= 10 * major + minor]
    assert compilations[-1].target == (max(known), "")
    for options in (["-arch=compute_75"], ["-arch", "sm_75"], ["--gpu-architecture=compute_75"]):
        build(FILL, options=["-DVALUE=1", *options]).close()
        lines = ("-lineinfo",) if library is not None else ()
        assert compilations[-1].target == (75, "") and compilations[-1].options == ("-DVALUE=1", *lines)


@pytest.mark.parametrize(
    "target, kind, words",
    [
        ("sm_10", rawcuda.Unsupported, "too new for sm_10: the oldest that it knows is sm_"),
        ("sm_99", rawcuda.Unsupported, "does not know sm_99; it knows .*sm_90"),
        ("sm_75a", rawcuda.Unsupported, "does not know sm_75a"),
        ("90", ValueError, "target '90': give an architecture such as"),
        (90, TypeError, "a target is a str .*, not an int"),
    ],
)
def test_targets_that_are_refused(target: Any, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        rawcuda.compile(SOURCE, target)


def test_two_targets_are_refused() -> None:
    with pytest.raises(ValueError, match="options name the architecture sm_80, but target is 'sm_90'"):
        rawcuda.compile(SOURCE, options=["-arch=sm_80"])


def test_an_old_nvrtc_makes_no_lto_ir(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "_loaded", [Known((11, 8), 90)])
    with pytest.raises(rawcuda.Unsupported, match=r"NVRTC 11\.8 .* makes no LTO-IR: CUDA 12\.0 introduced it"):
        rawcuda.compile(SOURCE, output="ltoir")


def test_an_old_nvrtc_compiles_the_same_language() -> None:
    """C++17; before CUDA 12.0, its own default is C++03."""
    for version, given, wanted in (
        ((11, 8), (), ["--std=c++17"]),
        ((11, 8), ("-std=c++14",), []),
        ((11, 8), ("--std", "c++11"), []),
        ((12, 0), (), []),
    ):
        old = object.__new__(nvrtc.Nvrtc)
        old.version = version
        asked = request.Request(b"", "x.cu", False, given, {}, (), request.Target(80), "ptx")
        assert old.options(asked, []) == [*given, *wanted, "--gpu-architecture=compute_80"]


def test_of_several_compilers_the_newest_that_the_driver_accepts(monkeypatch: pytest.MonkeyPatch) -> None:
    known = [Known((13, 5), 75, 90, 121), Known((13, 0), 75, 90), Known((12, 4), 50, 90), Known((11, 8), 35, 89)]
    monkeypatch.setattr(program, "_loaded", known)
    for number, newest, wanted in (
        (90, None, 0),  # the driver takes everything
        (90, (13, 5), 0),
        (90, (13, 4), 1),
        (90, (12, 9), 2),
        (70, (13, 5), 2),  # newer ones do not compile for it
        (37, None, 3),
        (121, (12, 4), 2),
        (30, (12, 4), 2),  # none does: an error will say so
        (90, (11, 4), 3),  # all are too new: an error will name the version
    ):
        assert program._fitting(number, newest) is known[wanted], (number, newest)


def test_the_newest_of_several_places_is_found(afresh: None, monkeypatch: pytest.MonkeyPatch) -> None:
    versions = {"/one": (12, 4), "/two": (13, 1), "/three": (12, 9)}

    def load(path: str) -> Known:
        if path == "/broken":
            raise OSError("not a library")
        return Known(versions[path], 90)

    monkeypatch.setattr(program, "Nvrtc", load)
    monkeypatch.setattr(locate, "nvrtc", lambda: [(path, "a test") for path in ("/one", "/broken", "/two", "/three")])
    assert [each.version for each in program._compilers()] == [(13, 1), (12, 9), (12, 4)]
    assert program.compiler().version == (13, 1)


def test_compilers_are_traced() -> None:
    seen: list[Any] = []
    rawcuda.compile(FILL, options=["-DVALUE=1"])  # the first one loads the compiler
    with rawcuda.trace(seen.append):
        rawcuda.compile(FILL, options=["-DVALUE=1"])
    calls = {event.name: event for event in seen}
    assert list(calls)[0] == "nvrtcCreateProgram" and list(calls)[-1] == "nvrtcDestroyProgram"
    assert "b'-DVALUE=1'" in calls["nvrtcCompileProgram"].arguments["options"]
    assert calls["nvrtcCompileProgram"].result == "NVRTC_SUCCESS" and calls["nvrtcCompileProgram"].elapsed_ns > 1000
    assert calls["nvrtcCreateProgram"].arguments["src"] == f"<bytes of {len(FILL) + len(LINE)}>"
    seen.clear()
    with rawcuda.trace(seen.append), pytest.raises(rawcuda.CompileFailed):
        rawcuda.compile("nonsense")
    assert [event.result for event in seen if event.name == "nvrtcCompileProgram"] == ["NVRTC_ERROR_COMPILATION"]


def test_a_driver_that_is_older_than_the_compiler(python: Python) -> None:
    result = python(
        """
        import ctypes
        from tests.subject import module, rawcuda
        emulator = module("emulator").Emulator()
        refuse = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 5)(lambda *_: 222)
        def version(address):
            ctypes.c_int.from_address(address).value = 12040
            return 0
        version = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(version)
        class Older:
            def address(self, symbol):
                own = {"cuModuleLoadDataEx": refuse, "cuDriverGetVersion": version}.get(symbol)
                return emulator.address(symbol) if own is None else ctypes.cast(own, ctypes.c_void_p).value
        rawcuda.use(Older())
        try:
            rawcuda.Device(0).compile('extern "C" __global__ void k() {}')
        except rawcuda.Unsupported as error:
            print(error.code, error)
        """,
        env={"RAWCUDA_DRIVER": None},
        check=True,
    )
    assert result.stdout.startswith("222 cuModuleLoadDataEx") and "which is of CUDA 12.4" in result.stdout
    assert 'pip install "nvidia-cuda-nvrtc-cu12==12.4.*"' in result.stdout


def test_a_driver_that_is_older_but_of_the_same_major_version(python: Python) -> None:
    """It refuses the PTX, and loads the cubin; the emulator, which cannot, here runs the PTX of the same source."""
    result = python(
        """
        import ctypes
        from tests.subject import module, rawcuda
        emulator = module("emulator").Emulator()
        source = 'extern "C" __global__ void k(float *out, float a) { *out = a; }'
        ptx = rawcuda.compile(source) + bytes(1)
        newest = module("compiler.program").compiler().version
        kind = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 2, *[ctypes.c_size_t] * 3)
        real = kind(emulator.address("cuModuleLoadDataEx"))
        kept = []
        def load(module, image, *options):
            kept.append(ctypes.string_at(image, 4))
            return real(module, ctypes.cast(ctypes.c_char_p(ptx), ctypes.c_void_p).value, *options) if (
                kept[-1] == b"\\x7fELF") else 222
        load = kind(load)
        def version(address):
            ctypes.c_int.from_address(address).value = newest[0] * 1000
            return 0
        version = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(version)
        class Older:
            def address(self, symbol):
                own = {"cuModuleLoadDataEx": load, "cuDriverGetVersion": version}.get(symbol)
                return emulator.address(symbol) if own is None else ctypes.cast(own, ctypes.c_void_p).value
        rawcuda.use(Older())
        device = rawcuda.Device(0)
        made = device.compile(source)
        out = device.empty(1, "float32")
        made["k"].launch(out, 2.5, grid=1, block=1)
        print(out.tolist(), made, made["k"].parameters[1].type, len(kept))
        """,
        env={"RAWCUDA_DRIVER": None},
        check=True,
    )
    assert result.stdout == "[2.5] <Module cubin on device 0: k> f32 2\n"


# -- errors in the source


def test_an_error_has_file_line_and_source_line(build: Build, tmp_path: Path) -> None:
    path = tmp_path / "my kernels.cu"
    path.write_text('#include "v.h"\nextern "C" __global__ void k(float *x)\n{\n    *x = tow;\n}\n')
    with pytest.raises(rawcuda.CompileFailed) as raised:
        build(path, headers={"v.h": "\n#define V 2"})
    error = raised.value
    assert (error.filename, error.lineno, error.text) == (str(path), 4, "*x = tow;")
    assert str(error) == f'{path}:4: error: identifier "tow" is undefined\n    *x = tow;'
    assert "1 error detected" in error.log and error.source == path.read_text()
    assert (error.code, error.name, error.call) == (6, "NVRTC_ERROR_COMPILATION", "nvrtcCompileProgram")


def test_an_error_in_a_header_and_one_after_a_line_directive(build: Build) -> None:
    with pytest.raises(rawcuda.CompileFailed) as raised:
        build(f'#include "v.h"\n{FILL}', headers={"v.h": "#define VALUE 3\nsyntax error;"})
    assert (raised.value.filename, raised.value.lineno, raised.value.text) == ("v.h", 2, "syntax error;")
    with pytest.raises(rawcuda.CompileFailed) as raised:
        build('\n#line 700 "generated.inc"\n' + FILL)
    assert (raised.value.filename, raised.value.lineno) == ("generated.inc", 700)


def test_many_errors_are_counted(build: Build) -> None:
    with pytest.raises(rawcuda.CompileFailed, match=r"u9;\n\.\.\. and 10 more errors; \.log has all of them$"):
        build("__global__ void k() {\n" + "\n".join(f"    u{number};" for number in range(20)) + "\n}")


def test_a_source_that_is_compiled_often_stays_known() -> None:
    """Of other sources, the ones that were compiled last do; the last one's lines are quoted in reports."""
    program, request = module("compiler.program"), types.SimpleNamespace(source=b"first\n", name="one.cu")
    before, earlier = dict(linecache.cache), list(program._remembered)
    try:
        for _ in range(program._MOST_REMEMBERED + 2):
            program._remember(request, b"PTX")
        name = program._remembered[-1]
        assert linecache.getline(name, 1) == "first\n" and program._remembered.count(name) == 1
        for number in range(program._MOST_REMEMBERED - 1):
            program._remember(request, b"PTX %d" % number)
        assert linecache.getline(name, 1) == "first\n"
        program._remember(request, b"one more")
        assert not linecache.getline(name, 1)
        assert len(program._remembered) == program._MOST_REMEMBERED
    finally:
        program._remembered[:] = earlier
        linecache.cache.clear()
        linecache.cache.update(before)


def test_an_error_without_a_line() -> None:
    with pytest.raises(rawcuda.CompileFailed, match="^ptxas fatal .*Unresolved extern function '_Z1gv'"):
        rawcuda.compile("__device__ int g(); __global__ void k(int *x) { *x = g(); }", output="cubin")


@pytest.mark.parametrize(
    "header, words",
    [
        ("nope.h", r'Give its text, headers={"nope.h": "..."}, or its folder, options='),
        ("stdio.h", r"NVRTC compiles without the host's headers: leave stdio\.h out"),
        ("cmath", r"NVRTC compiles without the host's headers: write #include <cuda/std/cmath>"),
        ("float.h", r"NVRTC compiles without the host's headers: write #include <cuda/std/cfloat>"),
        ("iostream", r"NVRTC compiles without the host's headers: leave iostream out"),
        ("cuda_nope.h", r'cuda_nope\.h comes with the CUDA toolkit, or: pip install "nvidia-cuda-runtime'),
        ("cub/nope.cuh", "nvidia-cuda-cccl"),
        ("curand_nope.h", "nvidia-curand"),
    ],
)
def test_a_missing_header(header: str, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locate, "headers", lambda major, **options: [])
    with pytest.raises(rawcuda.CompileFailed, match=words) as raised:
        rawcuda.compile(f"#include <{header}>\n")
    assert raised.value.lineno == 1 and "No folder of headers was found" in str(raised.value)


@pytest.mark.parametrize(
    "name, header",
    [
        ("INFINITY", "cuda/std/cmath"),
        ("FLT_MAX", "cuda/std/cfloat"),
        ("INT_MAX", "cuda/std/climits"),
        ("(uint32_t)1", "cuda/std/cstdint"),
        ("CUDART_PI_F", "math_constants.h"),
    ],
)
def test_an_identifier_that_a_header_declares(name: str, header: str) -> None:
    source = f'extern "C" __global__ void k(float *x) {{ *x = {name}; }}\n'
    with pytest.raises(rawcuda.CompileFailed, match=rf"is declared in a header: #include <{header}>$"):
        rawcuda.compile(source)
    assert rawcuda.compile(f"#include <{header}>\n{source}")


@pytest.mark.parametrize(
    "call, words",
    [
        ("__shfl_down(1.0f, 1)", "__shfl_down was removed from CUDA: write __shfl_down_sync, whose first argument is"),
        ("M_PI", "write CUDART_PI, or CUDART_PI_F, and #include <math_constants.h>"),
    ],
)
def test_an_identifier_that_has_another_name(call: str, words: str) -> None:
    source = f'extern "C" __global__ void k(float *x) {{ *x = {call}; }}\n'
    with pytest.raises(rawcuda.CompileFailed, match=words):
        rawcuda.compile(source)
    right = source.replace("__shfl_down(", "__shfl_down_sync(0xffffffff, ").replace("M_PI", "CUDART_PI")
    assert rawcuda.compile(f"#include <math_constants.h>\n{right}")


def test_an_unknown_option(build: Build) -> None:
    with pytest.raises(
        rawcuda.InvalidUse,
        match="unrecognized option --no-such-thing found. The options were: --no-such.*optimizes by default, and",
    ):
        build(FILL, options=["--no-such-thing"])


@pytest.mark.parametrize("output", ["ptx", "cubin"])
def test_an_option_that_asks_for_other_output(output: str, tmp_path: Path) -> None:
    """NVRTC gave no bytes, and no error."""
    for option in ("-dlto", "--dlink-time-opt"):
        with pytest.raises(ValueError, match=f"made no {output}, since an option asks for other output: leave -dlto"):
            rawcuda.compile(FILL, options=["-DVALUE=1", option], output=output, cache=tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("option", ["-I", "-D", "-arch", "--gpu-architecture", "--include-path"])
def test_an_option_without_its_value(build: Build, option: str) -> None:
    """It would take the next one for it, which is the target."""
    with pytest.raises(ValueError, match=f"options: '{option}' has no value"):
        build(FILL, options=["-DVALUE=1", option])


@pytest.mark.parametrize("option", ["-I", "--include-path", "-isystem", "-include", "-arch"])
def test_an_option_with_an_empty_value(
    build: Build, option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NVRTC takes an empty folder for the current one, which is never searched."""
    (tmp_path / "planted.h").write_text("#define VALUE 1\n", "utf-8")
    monkeypatch.chdir(tmp_path)
    for empty in ([f"{option}="], [f"{option}= "], [option, ""], [option, " "]):
        for options in (empty, [*empty, "-DOTHER"]):
            with pytest.raises(ValueError, match=f"options: '{option}=?' has no value"):
                build('#include "planted.h"\n' + FILL, options=options)


def test_a_byte_order_mark_and_other_line_ends(device: Any, build: Build, tmp_path: Path) -> None:
    text = FILL.replace("{", "{\r\n")
    (tmp_path / "bom.cu").write_bytes(b"\xef\xbb\xbf" + text.encode())
    for source in (tmp_path / "bom.cu", "\ufeff" + text, b"// \xe9\xa9\n" + text.encode()):
        assert value(device, build(source, options=["-DVALUE=7"])) == 7


@pytest.mark.parametrize("other", ["", FILL], ids=["alone", "beside another kernel"])
def test_an_instance_of_a_template_that_was_not_named(build: Build, other: str) -> None:
    module = build("template <class T> __global__ void put(T *out) { *out = 1; }\n" + other, options=["-DVALUE=1"])
    with pytest.raises(rawcuda.NotFound, match=r"'put<float>'.*only the instances .* compile\(names=\[...\]\) gives"):
        module["put<float>"]


def test_a_name_that_is_not_one_of_those_that_were_given(build: Build) -> None:
    text = "template <class T> __global__ void put(T *out) { *out = 1; }"
    module = build(text, names=["put<float>", "put<int>"])
    for name in ("put", "put<double>"):
        with pytest.raises(rawcuda.NotFound, match="it has put<float>, put<int>") as caught:
            module[name]
        assert "mangled" not in str(caught.value) and "_Z" not in str(caught.value)


def test_an_unknown_name_expression(build: Build) -> None:
    with pytest.raises(rawcuda.NotFound, match=r"'scal<float>' in names: identifier \"scal\" is undefined.*source\.cu"):
        build(FILL, options=["-DVALUE=1"], names=["fill", "scal<float>"])


@pytest.mark.parametrize(
    "source, kind, words",
    [
        ("", ValueError, "the source is empty"),
        ("a\0b", ValueError, "the source: 'a.*' has a NUL"),
        (b"// a\n// \xff\n" + FILL.encode(), ValueError, "the source, line 2: byte 8 is 0xff, where a compiler stops"),
        (b"a\0b", ValueError, "it has a NUL at byte 1"),
        ("a\ud800", ValueError, "half of a surrogate pair"),
        ("kernels.cu", ValueError, "'kernels.cu' is not CUDA C; to compile a file, give a pathlib.Path"),
        (Path("/nowhere/kernels.cu"), FileNotFoundError, "kernels.cu"),
        (3, TypeError, "not an int"),
    ],
)
def test_sources_that_are_refused(source: Any, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        rawcuda.compile(source)


@pytest.mark.parametrize(
    "options, kind, words",
    [
        ({"options": "-G"}, TypeError, "options must be a sequence of strings, such as a list, not a str"),
        ({"options": [3]}, TypeError, "options: each must be a str, not an int"),
        ({"options": ["-D\0"]}, ValueError, "has a NUL"),
        ({"names": "fill"}, TypeError, "names must be a sequence of strings"),
        ({"headers": [("a", "b")]}, TypeError, "headers must be a dict"),
        ({"headers": {"a": 3}}, TypeError, "a text a str or bytes, not a str: an int"),
        ({"headers": {"a.h": b"\0"}}, ValueError, "header 'a.h' is not text"),
        ({"cache": 3}, TypeError, "cache must be the path of a folder, not an int"),
        ({"output": "sass"}, ValueError, "output 'sass': give 'ptx', 'cubin' or 'ltoir'"),
    ],
)
def test_arguments_that_are_refused(device: Any, options: dict[str, Any], kind: type[Exception], words: str) -> None:
    for call in [rawcuda.compile] if "output" in options else [rawcuda.compile, device.compile]:
        with pytest.raises(kind, match=words):
            call(FILL, **options)


# -- warnings


def test_a_warning_is_at_the_callers_line(build: Build) -> None:
    for call in (build, rawcuda.compile):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            call(WARNS)
        [warning] = caught
        assert warning.category is UserWarning and warning.filename == __file__
        assert str(warning.message).startswith("source.cu:1: warning: variable") and WARNS in str(warning.message)


def test_a_warning_that_is_made_an_error_leaks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    real = nvrtc.Nvrtc._call
    monkeypatch.setattr(
        nvrtc.Nvrtc, "_call", lambda self, name, *rest: (calls.append(name), real(self, name, *rest))[1]
    )
    with pytest.raises(UserWarning, match="never referenced"):  # the settings of pytest make warnings errors
        rawcuda.compile(WARNS)
    with pytest.raises(rawcuda.CompileFailed):
        rawcuda.compile("nonsense")
    with pytest.raises(rawcuda.NotFound):
        rawcuda.compile(WARNS, names=["nothing<3>"])
    assert calls.count("nvrtcCreateProgram") == calls.count("nvrtcDestroyProgram") == 3


# -- the compiler


def test_without_a_compiler_each_place_is_listed(afresh: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    broken = tmp_path / "libnvrtc.so.13"
    broken.write_bytes(b"not a library")
    monkeypatch.setattr(locate, "nvrtc", lambda: [(str(broken), "the test says so")])
    monkeypatch.setattr(locate, "nvcc", lambda: [("/bin/echo", "the test says so, too")])
    monkeypatch.setenv("CUDA_HOME", "/opt/some/cuda")
    with pytest.raises(rawcuda.CompilerNotFound) as raised:
        rawcuda.compile(FILL)
    text, tried = str(raised.value), raised.value.tried
    assert "pip install nvidia-cuda-nvrtc (or" in text and "/opt/some/cuda  (the environment's CUDA_HOME)" in text
    assert f"{broken}  (the test says so): " in text and "/bin/echo" in text and "it is not nvcc" in text
    assert all(len(place) == 3 for place in tried) and [place[0] for place in tried][:2] == [str(broken), "/bin/echo"]


def test_a_library_that_is_not_nvrtc_and_one_that_is_too_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mapped = locate.mapped_file("libc.so.6")
    if not mapped:
        pytest.skip("no /proc here")
    with pytest.raises(OSError, match="this is not NVRTC"):
        nvrtc.Nvrtc(mapped)
    monkeypatch.setattr(nvrtc, "_OLDEST", (99, 0))
    with pytest.raises(OSError, match=r"NVRTC \d+\.\d+ is too old: 11\.2 or newer is needed"):
        nvrtc.Nvrtc(locate.nvrtc()[0][0])


@pytest.fixture
def linked(python: Python, tmp_path: Path) -> Callable[..., str]:
    """Run a snippet that finds NVRTC through a link, in a folder with a builtins library that is in no safe place."""
    real = Path(os.path.realpath(locate.nvrtc()[0][0]))
    [builtins] = real.parent.glob("libnvrtc-builtins.so.*.*")
    for name in ("here", "kit/lib64"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "here" / builtins.name).write_bytes(b"no library: NVRTC fails with it")
    (tmp_path / "kit/lib64" / real.name).symlink_to(real)
    env = {"LD_LIBRARY_PATH": ":", "CUDA_HOME": str(tmp_path / "kit")}

    def run(code: str, *command: str) -> str:
        return python([*command, "-c", code], cwd=tmp_path / "here", env=env, check=True, timeout=120).stdout

    return run


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="LD_LIBRARY_PATH")
def test_nvrtcs_builtins_are_not_looked_for_in_the_current_folder(linked: Callable[..., str]) -> None:
    without_libcuda = """
from tests.subject import module, rawcuda
locate, nvrtc = module("locate"), module("compiler.nvrtc")
locate.preload = lambda soname: None  # which is refused with such a path, too
"""
    code = f"print(rawcuda.compile({FILL!r}, options=['-DVALUE=1']), module('compiler.program').compiler())"
    said = linked(without_libcuda + code)
    assert "ret;" in said and "<NVRTC" in said
    said = linked(f"""{without_libcuda}
locate.os.path.realpath = locate.os.path.abspath  # as if the library were in the kit, without its builtins
try:
    nvrtc.load(locate.nvrtc()[0][0])
except OSError as error:
    print(error)
""")
    assert re.match(r"libnvrtc-builtins\.so\.\d+\.\d+: no folder in which the system's loader searches", said), said


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="LD_LIBRARY_PATH")
@pytest.mark.parametrize("kind", ["nvrtc", "nvjitlink"])
def test_no_planted_libcuda_is_loaded_by_a_compiler(python: Python, tmp_path: Path, kind: str) -> None:
    """NVRTC and nvJitLink ask the loader for libcuda by name. The planted one is a library without its functions."""
    library = locate.mapped_file("libm.so.6")
    if not library or not getattr(locate, kind)():
        pytest.skip("no library to plant, or no compiler")
    (tmp_path / "libcuda.so.1").write_bytes(Path(library).read_bytes())
    code = {
        "nvrtc": "rawcuda.compile('__global__ void k() {}', 'sm_80')",
        "nvjitlink": f"rawcuda.link([{NOTHING!r}], 'sm_80')",
    }[kind]
    result = python(
        f"""
from tests.subject import rawcuda
try:
    {code}
except (rawcuda.CompilerNotFound, rawcuda.LinkerNotFound) as error:
    print(error)
""",
        cwd=tmp_path,
        env={"LD_LIBRARY_PATH": ":", "LD_DEBUG": "files", "LD_DEBUG_OUTPUT": str(tmp_path / "log")},
        check=True,
        timeout=120,
    )
    [*logs] = tmp_path.glob("log.*")
    initialized = re.findall(r"calling init: (.*libcuda\.so.*)", "".join(each.read_text("utf-8") for each in logs))
    assert logs and not [file for file in initialized if not os.path.isabs(file) or file.startswith(str(tmp_path))]
    if kind == "nvjitlink" and not initialized:
        assert "take '' out of LD_LIBRARY_PATH" in result.stdout


@pytest.mark.heavy
@pytest.mark.skipif(NAME != "rawcuda", reason="the README is about the original")
@pytest.mark.parametrize("package", ["nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu12", "nvidia-cuda-nvrtc-cu11"])
def test_the_readmes_first_example_in_a_fresh_environment(python: Python, package: str, tmp_path: Path) -> None:
    """With only the compiler installed: the newest, and those of CUDA 12 and 11."""
    text = (CHECKOUT / "README.md").read_text("utf-8")
    [source, *_] = re.findall(r"^<!-- file: saxpy.cu -->\n```c\n(.*?)^```", text, re.M | re.S)
    [example, *_] = re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)
    (tmp_path / "saxpy.cu").write_text(source, "utf-8")
    result = python(
        example + "\nfrom rawcuda.compiler.program import compiler\nprint(compiler().path)\n",
        executable=environment([package]),
        env={"RAWCUDA_DRIVER": None, "CUDA_HOME": None, "CUDA_PATH": None},
        check=True,
    )
    first, path = result.stdout.splitlines()
    assert first == "[12.5, 25.0, 37.5]" and "site-packages" in path


# -- nvcc


@pytest.fixture
def with_nvcc(monkeypatch: pytest.MonkeyPatch, afresh: None) -> Any:
    """Have only nvcc."""
    if NVCC is None:
        pytest.skip("nvcc is not installed")
    monkeypatch.setattr(locate, "nvrtc", lambda: [])
    return program.compiler()


def test_nvcc_compiles_where_there_is_no_nvrtc(device: Any, build: Build, with_nvcc: Any, tmp_path: Path) -> None:
    assert with_nvcc.kind == "nvcc" and 90 in with_nvcc.architectures
    assert value(device, build(f'#include "a/v.h"\n{FILL}', headers={"a/v.h": "#define VALUE 3"})) == 3
    (tmp_path / "v.h").write_text("#define VALUE 5")
    (tmp_path / "k.cu").write_text(f'#include "v.h"\n{FILL}')
    assert value(device, build(tmp_path / "k.cu")) == 5
    assert rawcuda.compile(FILL, "sm_90", "cubin", options=["-DVALUE=1"]).startswith(b"\x7fELF")
    assert len(rawcuda.compile(FILL, "sm_90", "ltoir", options=["-DVALUE=1"])) > 100


def test_nvcc_does_not_look_for_programs_in_the_current_folder(
    with_nvcc: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("gcc", "g++", "cc", "c++", "cudafe++", "cicc", "ptxas"):
        (tmp_path / name).write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\nexit 1\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.chdir(tmp_path)
    for first in ("", ".", str(tmp_path)):
        monkeypatch.setenv("PATH", f"{first}{os.pathsep}{os.environ['PATH']}")
        assert b".entry" in rawcuda.compile(FILL, "sm_90", options=["-DVALUE=1"])
    assert not (tmp_path / "ran").exists()


def test_nvccs_errors_and_warnings(build: Build, with_nvcc: Any, tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text('extern "C" __global__ void k(float *x)\n{\n    *x = tow;\n}\n')
    with pytest.raises(rawcuda.CompileFailed) as raised:
        build(tmp_path / "k.cu")
    assert str(raised.value) == f'{tmp_path / "k.cu"}:3: error: identifier "tow" is undefined\n    *x = tow;'
    with pytest.raises(
        rawcuda.CompileFailed, match=r'source\.cu:1: error: nope\.h: No such file(.|\n)*headers={"nope\.h"'
    ):
        build("#include <nope.h>\n")
    with pytest.raises(rawcuda.InvalidUse, match=r"nvcc \(nvcc 1.*Unknown option '--no-such-thing'"):
        build(FILL, options=["--no-such-thing"])
    with pytest.warns(UserWarning, match="source.cu:1: warning: variable"):
        build(WARNS)
    with pytest.raises(ValueError, match=r"header '\.\./v\.h': nvcc needs a relative name"):
        build(FILL, headers={"../v.h": ""})


def test_what_nvcc_makes_depends_on_the_compiler_of_the_host(
    with_nvcc: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """nvcc asks it for the macros that it defines."""
    found, before = program.compiler(), program.compiler().identity()
    (tmp_path / "gcc").write_text("#!/bin/sh\n")
    (tmp_path / "gcc").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    other = found.identity()
    (tmp_path / "gcc").write_text("#!/bin/bash\n")
    assert len({before, other, found.identity()}) == 3
    tmp_path.chmod(0o777)
    assert found.identity() == before  # nvcc does not find it either


@pytest.mark.skipif(os.name != "posix", reason="Windows has no such modes")
def test_an_nvcc_whose_toolkit_can_be_exchanged_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "nvvm/bin").mkdir(parents=True)
    for name in ("bin/nvcc", "bin/nvcc.profile", "nvvm/bin/cicc"):
        (tmp_path / name).write_text("#!/bin/sh\necho release 13.0 compute_90\n")
        (tmp_path / name).chmod(0o755)
    made = module("compiler.nvcc").Nvcc(str(tmp_path / "bin/nvcc"))
    (tmp_path / "nvvm/bin/cicc").chmod(0o777)
    with pytest.raises(PermissionError, match="chmod o-w"):
        module("compiler.nvcc").Nvcc(str(tmp_path / "bin/nvcc"))
    asked = request.Request(b"", "x.cu", False, (), {}, (), request.Target(90), "ptx")
    with pytest.raises(PermissionError, match="chmod o-w"):
        made.compile(asked, [])


def test_nvccs_temporary_files_are_in_a_private_folder(
    with_nvcc: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its PTX, which it reads again, could be exchanged in a folder where every user can put files."""
    nvcc, given = module("compiler.nvcc"), []
    run = nvcc._run

    def look(command: list[str], folder: str = "") -> Any:
        given.append((command, folder))
        return run(command, folder)

    monkeypatch.setattr(nvcc, "_run", look)
    rawcuda.compile(FILL, "sm_90", "cubin", options=["-DVALUE=1"])
    ((command, folder),) = given
    assert folder and command[-1] == os.path.join(folder, "source.cu")
    script = tmp_path / "nvcc"
    script.write_text("#!/bin/sh\necho $TMPDIR\n")
    script.chmod(0o755)
    monkeypatch.setenv("TMPDIR", "/shared")
    assert run([str(script)], "/private")[1] == "/private\n" and run([str(script)])[1] == "/shared\n"


def test_nvcc_refuses_a_header_in_another(build: Build, with_nvcc: Any) -> None:
    for headers in ({"x": "", "x/y": ""}, {"x/y": "", "x": ""}):
        with pytest.raises(ValueError, match="no header's name is a folder of another's"):
            build(FILL, headers=headers)


def test_nvcc_compiles_a_file_with_an_odd_name(build: Build, with_nvcc: Any, tmp_path: Path) -> None:
    path = tmp_path / "b c\nd.cu"
    path.write_text(FILL)
    assert build(path, options=["-DVALUE=1"]) is not None


def test_nvccs_names(device: Any, build: Build, with_nvcc: Any) -> None:
    text = "namespace a { __global__ void put(int *out) { *out = 4; } } __global__ void twice(int *); " + (
        "template <class T> __global__ void t(T *out) {} template __global__ void t<int>(int *);"
    )
    assert value(device, build(text, names=["a::put"]), "a::put") == 4
    nested = "namespace a { namespace f { __global__ void g() {} } }"
    with pytest.raises(rawcuda.NotFound, match="'a::f' in names"):
        build(nested, names=["a::f"])
    with pytest.raises(rawcuda.Unsupported, match=r"names=\['t<int>'\]: nvcc does not report the names of templates"):
        build(text, names=["t<int>"])
    with pytest.raises(rawcuda.NotFound, match="'nothing' in names: source.cu has no kernel of that name"):
        build(text, names=["nothing"])


# -- the cache


def test_the_second_time_the_compiler_is_not_called(
    device: Any, build: Build, compilations: list[Any], tmp_path: Path
) -> None:
    kept = tmp_path / "kept"
    for _ in range(3):
        made = build("template <int N> __global__ void put(int *out) { *out = N; }", names=["put<8>"], cache=str(kept))
        assert value(device, made, "put<8>") == 8
    assert len(compilations) == 1
    [file] = kept.iterdir()
    if os.name == "posix":
        assert kept.stat().st_mode & 0o777 == 0o700 and file.stat().st_mode & 0o777 == 0o600


def test_everything_that_matters_is_part_of_the_key(compilations: list[Any], tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(FILL)
    given: dict[str, Any] = {"options": ["-DVALUE=1"], "cache": tmp_path / "kept"}
    changes: list[tuple[Any, dict[str, Any]]] = [
        (FILL, {}),
        (FILL + "\n", {}),
        (tmp_path / "k.cu", {}),
        (FILL, {"options": ["-DVALUE=2"]}),
        (FILL, {"headers": {"a.h": "1"}}),
        (FILL, {"headers": {"a.h": "2"}}),
        (FILL, {"names": ["fill"]}),
        (FILL, {"target": "sm_80"}),
        (FILL, {"target": "sm_90a"}),
        (FILL, {"output": "cubin"}),
    ]
    for number, (source, change) in enumerate(changes, 1):
        for _ in range(2):
            rawcuda.compile(source, **{**given, **change})
        assert len(compilations) == number, change


def test_the_compiler_of_the_key_is_the_one_that_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = program.compiler()
    before = found.identity()
    monkeypatch.setattr(found, "path", str(tmp_path / "removed meanwhile"))
    assert found.identity() == before
    monkeypatch.setenv("NV_NVVM_VERSION", "nvvm-latest")
    assert found.identity() != before


def test_another_compiler_makes_other_code(compilations: list[Any], tmp_path: Path, monkeypatch: Any) -> None:
    given: dict[str, Any] = {"options": ["-DVALUE=1"], "cache": tmp_path}
    os.chmod(tmp_path, 0o700)
    rawcuda.compile(FILL, **given)
    loaded = program.compiler()
    monkeypatch.setattr(type(loaded), "identity", lambda self: "another")
    rawcuda.compile(FILL, **given)
    assert len(compilations) == 2


def test_headers_on_disk_are_part_of_the_key(compilations: list[Any], tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    (second / "v.h").write_text('#if 1\n#  include "inner.h"\n#endif')
    (second / "inner.h").write_text("#define VALUE 1")
    text = f"#include <v.h>\n{FILL}"

    def build() -> bytes:
        return rawcuda.compile(text, options=[f"-I{first}", "-I", str(second)], cache=tmp_path / "kept")

    assert build() == build() and len(compilations) == 1
    (second / "inner.h").write_text("#define VALUE 2")
    assert b"2;" in build() and len(compilations) == 2
    (first / "v.h").write_text("#define VALUE 77")  # a new one, which hides the other
    assert b"77;" in build() and len(compilations) == 3


@pytest.mark.parametrize(
    "options",
    [["-I {}"], [" -I{}"], ["-I{} "], ["\t-I {}\n"], ["-I", " {}"], ["-I ", "{}"], ["--include-path={} "], [" -I={}"]],
    ids=["between", "before", "after", "both", "before a value", "after -I", "after a value", "before ="],
)
def test_blanks_around_a_folder_do_not_hide_it(compilations: list[Any], tmp_path: Path, options: list[str]) -> None:
    for number in (1, 2):
        (tmp_path / "v.h").write_text(f"#define VALUE {number}")
        given = [each.format(tmp_path) for each in options]
        made = rawcuda.compile(f"#include <v.h>\n{FILL}", options=given, cache=tmp_path / "kept")
        assert f"{number};".encode() in made and len(compilations) == number


def test_code_with_paths_of_sources_belongs_to_the_current_folder(
    compilations: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for option, number in (("-lineinfo", 2), ("-DX", 1)):
        for name in ("a", "b", "a"):
            (tmp_path / name).mkdir(exist_ok=True)
            monkeypatch.chdir(tmp_path / name)
            (tmp_path / name / "k.cu").write_text(FILL)
            made = rawcuda.compile(Path("k.cu"), options=[option, "-DVALUE=1"], cache=tmp_path / "kept")
            assert (str(tmp_path / name / "k.cu").encode() in made) == (option == "-lineinfo")
        assert len(compilations) == number
        compilations.clear()


def test_code_that_depends_on_the_time_is_not_kept(compilations: list[Any], tmp_path: Path) -> None:
    for text, options in (
        ("#define VALUE __TIME__[0]", []),
        ("#define VALUE __DA\\\nTE__[0]", []),
        ('#include "v.h"', []),
        ("", ["-DVALUE=__DATE__[0]"]),
    ):
        compilations.clear()
        for _ in range(2):
            headers = {"v.h": "#define VALUE __DATE__[0]"}
            rawcuda.compile(f"{text}\n{FILL}", options=options, headers=headers, cache=tmp_path / "kept")
        assert len(compilations) == 2 and not list((tmp_path / "kept").iterdir())


def test_code_is_not_kept_if_a_header_changes_while_the_compiler_runs(
    compilations: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    header, kind = tmp_path / "v.h", type(program.compiler())
    compiled = kind.compile

    def meanwhile(self: Any, *arguments: Any) -> Any:
        if len(compilations) == 1:
            header.write_text("#define VALUE 2")  # in an editor
        return compiled(self, *arguments)

    def build() -> bytes:
        return rawcuda.compile(f'#include "v.h"\n{FILL}', options=[f"-I{tmp_path}"], cache=tmp_path / "kept")

    header.write_text("#define VALUE 3")
    assert b"3;" in build() and len(compilations) == 1
    header.write_text("#define VALUE 1")
    monkeypatch.setattr(kind, "compile", meanwhile)
    assert b"2;" in build() and len(compilations) == 2
    header.write_text("#define VALUE 1")
    assert b"1;" in build() and len(compilations) == 3


def test_the_parts_of_a_key_are_counted(compilations: list[Any], tmp_path: Path) -> None:
    """A header and its text are no names."""
    text = "__global__ void k() {} __global__ void f() {} __global__ void g() {}"
    rawcuda.compile(text, names=["k"], headers={"f": "g"}, cache=tmp_path / "kept")
    made = rawcuda.compile(text, names=["k", "f", "g"], cache=tmp_path / "kept")
    assert len(compilations) == 2 and all(f"_Z1{name}v".encode() in made for name in "kfg")


def test_an_empty_header_is_not_a_missing_one(compilations: list[Any], tmp_path: Path) -> None:
    header, text = tmp_path / "v.h", '#if __has_include("v.h")\n#define VALUE 2\n#else\n#define VALUE 1\n#endif\n'

    def build() -> bytes:
        return rawcuda.compile(text + FILL, options=[f"-I{tmp_path}"], cache=tmp_path / "kept")

    assert b"1;" in build()
    header.write_text("")
    assert b"2;" in build() and len(compilations) == 2
    header.unlink()
    assert b"1;" in build() and len(compilations) == 2  # kept from the first time


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
def test_nothing_waits_for_a_pipe_in_the_place_of_a_header(compilations: list[Any], tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "v.h")
    text = '#if 0\n#include "v.h"\n#endif\n#define VALUE 3\n' + FILL
    for number in (1, 2):
        made = rawcuda.compile(text, options=[f"-I{tmp_path}"], cache=tmp_path / "kept")
        assert b"3;" in made and len(compilations) == number  # what the pipe contains is not known


def test_no_header_has_a_null_byte_in_its_name(compilations: list[Any], tmp_path: Path) -> None:
    (tmp_path / "v.h").write_bytes(b'#include "a\0b.h"\n')
    for cache in (None, tmp_path / "kept"):
        with pytest.raises(module("errors").CompileFailed, match="v.h"):
            rawcuda.compile('#include "v.h"\n' + FILL, options=[f"-I{tmp_path}"], cache=cache)


def test_the_folder_above_a_link_is_that_above_its_target(compilations: list[Any], tmp_path: Path) -> None:
    (tmp_path / "there" / "inner").mkdir(parents=True)
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "link").symlink_to("../there/inner")
    for number in (1, 2):
        (tmp_path / "there" / "v.h").write_text(f"#define VALUE {number}")
        options = [f"-I{tmp_path / 'here'}"]
        made = rawcuda.compile(f'#include "link/../v.h"\n{FILL}', options=options, cache=tmp_path / "kept")
        assert f"{number};".encode() in made and len(compilations) == number


def test_an_option_that_looks_for_headers_is_not_cached(compilations: list[Any], tmp_path: Path) -> None:
    text = '#if HAS("v.h")\n#define VALUE 2\n#else\n#define VALUE 1\n#endif\n'
    for _ in range(2):
        rawcuda.compile(text + FILL, options=["-DHAS=__has_include"], cache=tmp_path / "kept")
    assert len(compilations) == 2


def test_a_header_that_a_macro_names_cannot_be_cached(compilations: list[Any], tmp_path: Path) -> None:
    for _ in range(2):
        rawcuda.compile(
            f'#define H "v.h"\n#include H\n{FILL}', headers={"v.h": "#define VALUE 1"}, cache=tmp_path / "c"
        )
    assert len(compilations) == 2 and not list((tmp_path / "c").iterdir())


@pytest.mark.parametrize(
    "directive",
    [
        '#include "v.h"',
        "  #  include <v.h>  // a comment",
        "# /* a comment */ include/**/<v.h>",
        '#inc\\\nlude "v.h"',
        '%:include "v.h"',
        '#if __has_include( "v.h")\n#include "v.h"\n#endif',
        '#if 1 || __has_include("a.h") && __has_include("b.h")\n#include "v.h"\n#endif',
        '#if defined(__has_include)\n#include "v.h"\n#endif',
        '/* a comment\nof * lines */ #include "v.h"',
        '/* a comment\n#include "x */ #include "v.h"',
        '#/* a comment\nof * lines */ include "v.h"',
        '#include/* a comment\nof lines */"v.h"',
        '#\finclude\v"v.h"',
        '\v#include "v.h"',
        '#\rinclude "v.h"',
        '#define S "/*"\n#include "v.h"',
        'constexpr auto raw = R"(/*)";\n#include "v.h"',
        "#include <{folder}/v.h>",
    ],
)
def test_an_include_is_noticed_however_it_is_written(
    compilations: list[Any], tmp_path: Path, directive: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locate, "headers", lambda major, **options: [])
    directive = directive.replace("{folder}", str(tmp_path))
    options = [] if str(tmp_path) in directive else [f"-I{tmp_path}"]
    for number in (1, 2):
        (tmp_path / "v.h").write_text(f"#define VALUE {number}")
        made = rawcuda.compile(f"{directive}\n{FILL}", options=options, cache=tmp_path / "kept")
        assert f"{number};".encode() in made
    assert len(compilations) == 2 and len(list((tmp_path / "kept").iterdir())) == 2


@pytest.mark.parametrize(
    "directive",
    [
        '#define NAME "v.h"\n#include NAME',
        '#include/* a comment\nwith a * star */"v.h"',
        '#define HAS __has_include\n#if HAS("v.h")\n#include "v.h"\n#endif',
        '#define HAS(where) __has_include(where)\n#if HAS("v.h")\n#include "v.h"\n#endif',
        '#define NAME ("v.h")\n#if __has_include NAME\n#include "v.h"\n#endif',
        '#define JOIN(a, b) a##b\n#if JOIN(__has_, include)("v.h")\n#include "v.h"\n#endif',
        '??=include "v.h"',
        '#inc??/\nlude "v.h"',
        '// for some compilers a comment of two lines: \\ \n#include "v.h"',
    ],
)
def test_what_is_not_understood_is_not_cached(compilations: list[Any], tmp_path: Path, directive: str) -> None:
    (tmp_path / "v.h").write_text("#define VALUE 1")
    for _ in range(2):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            options = [f"-I{tmp_path}", "--std=c++11"]  # which has trigraphs
            rawcuda.compile(f"{directive}\n{FILL}", options=options, cache=tmp_path / "kept")
    assert len(compilations) == 2 and not list((tmp_path / "kept").iterdir())


@pytest.mark.parametrize("name", ["hasdef", "isdefined", "is_ifdef"])
def test_a_macro_whose_name_ends_as_a_directive_looks_for_a_header(
    compilations: list[Any], tmp_path: Path, name: str
) -> None:
    """`#ifdef __has_include` and `defined __has_include` look for none, and nothing more of these words was read."""
    text = f'#define {name} __has_include("v.h")\n#if {name}\n#define VALUE 2\n#else\n#define VALUE 1\n#endif\n'
    for number in (1, 2):
        made = rawcuda.compile(text + FILL, options=[f"-I{tmp_path}"], cache=tmp_path / "kept")
        assert f"{number};".encode() in made
        (tmp_path / "v.h").touch()
    assert len(compilations) == 2


@pytest.mark.parametrize(
    ("options", "variable"),
    [
        (["-optf", "FILE"], ""),
        (["--options-file=FILE"], ""),
        (["-Xptxas", "-v,--options-file=FILE"], ""),
        (["-Xcompiler", "-include,FILE"], ""),
        (["--compiler-options=-include,FILE"], ""),
        (["--use-pch=FILE"], ""),
        (["--use-pch", "FILE"], ""),
        ([], "NVCC_APPEND_FLAGS=-optf FILE"),
        (["-ccbin=gcc-12"], ""),
        (["-ccbin", "gcc-12"], ""),
        (["--compiler-bindir=/opt/gcc/bin"], ""),
        ([], "NVCC_CCBIN=gcc-12"),
    ],
)
def test_options_with_files_that_are_not_read_are_not_cached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], variable: str
) -> None:
    if variable:
        monkeypatch.setenv(*variable.split("="))
    assert _key(tmp_path, options, b"int x;") is None


@pytest.mark.parametrize(
    ("options", "variable"),
    [
        (["-include", "x.h"], ""),
        (["-I", "{}/a,{}"], ""),
        ([], "NVCC_PREPEND_FLAGS=-I{}"),
        ([], "CPATH=/nowhere:{}"),
        ([], "CPLUS_INCLUDE_PATH={}"),
    ],
)
def test_headers_in_all_folders_that_nvcc_is_told_are_part_of_the_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], variable: str
) -> None:
    monkeypatch.chdir(tmp_path)
    options = [each.format(tmp_path, tmp_path) for each in options]
    if variable:
        monkeypatch.setenv(*variable.format(tmp_path).split("="))
    keys = []
    for text in ("1", "2"):
        (tmp_path / "x.h").write_text(text)
        source = b"" if "-include" in options else b'#include "x.h"'
        keys += [_key(tmp_path, options, source) for _ in range(2)]
    assert None not in keys and len(set(keys)) == 2


def _key(tmp_path: Path, options: list[str], source: bytes) -> str | None:
    """Return the path that nvcc's code for a request has in a cache."""

    class Nvcc:
        kind = "nvcc"

        def identity(self) -> str:
            return "nvcc"

        def options(self, request: Any, folders: list[str]) -> list[str]:
            return list(request.options)

    asked = request.Request(source, "x.cu", False, tuple(options), {}, (), request.Target(90), "ptx")
    return cache.Store(tmp_path / "kept").path(asked, Nvcc(), [])


def test_what_nvcc_takes_from_unknown_folders_is_not_cached(with_nvcc: Any, tmp_path: Path) -> None:
    rawcuda.compile(f"#include <stdint.h>\n{FILL}", options=["-DVALUE=1"], cache=tmp_path / "kept")
    assert not list((tmp_path / "kept").iterdir())
    rawcuda.compile(FILL, options=["-DVALUE=1"], cache=tmp_path / "kept")
    assert len(list((tmp_path / "kept").iterdir())) == 1


@pytest.mark.skipif(os.name != "posix", reason="Windows does not delete the current folder")
def test_a_deleted_current_folder_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.warns(UserWarning, match="never referenced"):
        exec(
            compile("rawcuda.compile(WARNS, options=['-lineinfo'], cache=folder)", "a relative name", "exec"),
            {"rawcuda": rawcuda, "WARNS": WARNS, "folder": tmp_path / "kept"},
        )


def test_a_warning_comes_from_the_cache_too(compilations: list[Any], tmp_path: Path) -> None:
    for _ in range(2):
        with pytest.warns(UserWarning, match="never referenced"):
            rawcuda.compile(WARNS, cache=tmp_path / "kept")
    assert len(compilations) == 1


def test_a_failure_is_not_kept(tmp_path: Path) -> None:
    for _ in range(2):
        with pytest.raises(rawcuda.CompileFailed):
            rawcuda.compile("nonsense", cache=tmp_path / "kept")
    assert not list((tmp_path / "kept").iterdir())


def test_without_a_descriptor_no_file_of_the_cache_is_called_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(path: str, *given: Any) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    given: dict[str, Any] = {"options": ["-DVALUE=1"], "cache": tmp_path / "kept"}
    rawcuda.compile(FILL, **given)
    monkeypatch.setattr(cache.os, "open", none)
    with pytest.raises(OSError, match="Too many open files"):
        rawcuda.compile(FILL, **given)


@pytest.mark.skipif(os.name != "posix", reason="a user without rights makes no links on Windows")
@pytest.mark.parametrize("damage", ["cut", "changed", "emptied", "a link", "a folder", "a pipe"])
def test_a_damaged_file_is_named_and_left_alone(compilations: list[Any], tmp_path: Path, damage: str) -> None:
    given: dict[str, Any] = {"options": ["-DVALUE=1"], "cache": tmp_path / "kept"}
    made = rawcuda.compile(FILL, **given)
    [file] = (tmp_path / "kept").iterdir()
    data = file.read_bytes()
    broken = {"cut": data[:-1], "changed": data.replace(b"ret;", b"trap"), "emptied": b""}
    file.unlink()
    if damage in broken:
        file.write_bytes(broken[damage])
    elif damage == "a link":
        file.symlink_to(tmp_path)
    elif damage == "a folder":
        file.mkdir()
    else:
        os.mkfifo(file)
    for _ in range(2):
        with pytest.raises(
            rawcuda.CacheDamaged, match=f"a damaged file in the cache: {re.escape(str(file))}: .*delete"
        ) as raised:
            rawcuda.compile(FILL, **given)
        assert raised.value.path == str(file) and list((tmp_path / "kept").iterdir()) == [file]
    file.rmdir() if damage == "a folder" else file.unlink()
    assert rawcuda.compile(FILL, **given) == made == rawcuda.compile(FILL, **given) and len(compilations) == 2
    assert file.read_bytes() == data and list((tmp_path / "kept").iterdir()) == [file]


@pytest.mark.parametrize(
    "content",
    [b"{}\n", b"no JSON\n", b"[]\n", b"\xff\n", b'{"log": ""}\n'],
    ids=["no members", "no JSON", "no object", "no text", "one member"],
)
def test_what_something_else_wrote_into_the_cache_is_damaged(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "foreign"
    path.write_bytes(cache._MAGIC + hashlib.sha256(content).digest() + content)
    with pytest.raises(rawcuda.CacheDamaged, match="something else wrote it: delete it"):
        cache.Store(tmp_path).read(str(path))


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # one at the end of a with block
@pytest.mark.parametrize("line", range(1, 9))
def test_an_interrupt_leaves_no_file_in_the_cache(tmp_path: Path, line: int) -> None:
    store, passed = cache.Store(tmp_path / "kept"), []

    def interrupts(frame: Any, event: str, argument: object) -> Any:
        if frame.f_code.co_filename != cache.__file__:
            return None
        passed.append(event == "line")
        if sum(passed) == line:
            sys.settrace(None)
            raise KeyboardInterrupt
        return interrupts

    sys.settrace(interrupts)
    try:
        store.write(str(tmp_path / "kept" / "made"), cache.Outcome(b"code", "", {}))
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(None)
    assert [path.name for path in (tmp_path / "kept").iterdir()] in ([], ["made"])


def test_folders_that_cannot_be_a_cache(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    for folder, kind in (
        ("", ValueError),
        (b"/tmp", TypeError),
        (3, TypeError),
        (tmp_path / "file", FileExistsError),
        (tmp_path / "dangling", FileExistsError),
        (tmp_path / "file" / "below", NotADirectoryError),
        (tmp_path / ("n" * 300), OSError),
    ):
        with pytest.raises(kind) as refused:
            rawcuda.compile(FILL, options=["-DVALUE=1"], cache=folder)
        if folder == tmp_path / "file":
            assert "it is a file: give the path of a folder" in str(refused.value)
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    for _ in range(2):
        rawcuda.compile(FILL, options=["-DVALUE=1"], cache=tmp_path / "link")
    assert len(list((tmp_path / "real").iterdir())) == 1


def test_an_interrupt_frees_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    real = nvrtc.Nvrtc._call

    def call(self: Any, name: str, *rest: Any) -> None:
        calls.append(name)
        real(self, name, *rest)
        if name == "nvrtcCompileProgram":
            raise KeyboardInterrupt

    monkeypatch.setattr(nvrtc.Nvrtc, "_call", call)
    with pytest.raises(KeyboardInterrupt):
        rawcuda.compile(FILL, options=["-DVALUE=1"])
    assert calls[-1] == "nvrtcDestroyProgram"


def test_a_failed_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cache.os, "replace", full)
    with pytest.raises(OSError, match="No space left"):
        rawcuda.compile(FILL, options=["-DVALUE=1"], cache=tmp_path / "kept")
    assert not list((tmp_path / "kept").iterdir())


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX's")
def test_a_folder_that_others_can_write_to_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for mode in (0o777, 0o720, 0o1777):
        os.chmod(tmp_path, mode)
        with pytest.raises(PermissionError, match=r"its mode is \d+, so that other users can replace the code in it"):
            rawcuda.compile(FILL, cache=tmp_path)
    os.chmod(tmp_path, 0o755)
    rawcuda.compile(FILL, options=["-DVALUE=1"], cache=tmp_path)
    monkeypatch.setattr(cache.os, "geteuid", lambda: 12345)
    with pytest.raises(PermissionError, match=r"user \d+ owns it: give a folder of your own"):
        rawcuda.compile(FILL, cache=tmp_path)


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX's")
def test_the_folders_above_a_new_cache_are_private(tmp_path: Path) -> None:
    """With the umask 002 they were made so that their group could write, and then refused."""
    before = os.umask(0o002)
    try:
        rawcuda.compile(FILL, options=["-DVALUE=1"], cache=tmp_path / "one/two/kept")
    finally:
        os.umask(before)
    assert {(tmp_path / each).stat().st_mode & 0o777 for each in ("one", "one/two", "one/two/kept")} == {0o700}


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX's")
def test_a_folder_that_others_can_exchange_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "above" / "cache"
    folder.mkdir(parents=True, mode=0o700)
    for mode in (0o777, 0o775, 0o757):
        folder.parent.chmod(mode)
        with pytest.raises(PermissionError, match=f"by other users.*: chmod go-w {folder.parent}$"):
            rawcuda.compile(FILL, cache=folder)
    for mode in (0o1777, 0o755):
        folder.parent.chmod(mode)
        rawcuda.compile(FILL, options=["-DVALUE=1"], cache=folder)
    real = os.lstat

    def lstat(path: Any) -> Any:
        status = real(path)
        is_above = os.fspath(path) == str(folder.parent)
        return types.SimpleNamespace(st_mode=status.st_mode, st_uid=4242) if is_above else status

    monkeypatch.setattr(locate.os, "lstat", lstat)
    with pytest.raises(PermissionError, match=f"{folder.parent} belongs to user 4242"):
        rawcuda.compile(FILL, cache=folder)


@pytest.mark.skipif(os.name != "posix", reason="owners are POSIX's")
def test_a_file_of_another_user_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {"options": ["-DVALUE=1"], "cache": tmp_path / "kept"}
    rawcuda.compile(FILL, **given)
    real = os.fstat

    def fstat(descriptor: int) -> Any:
        status = list(real(descriptor))
        status[4] = 4242
        return os.stat_result(status)

    monkeypatch.setattr(cache.os, "fstat", fstat)
    with pytest.raises(rawcuda.CacheDamaged, match="user 4242 owns it: delete it"):
        rawcuda.compile(FILL, **given)


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX's")
@pytest.mark.parametrize("is_relative", [False, True])
def test_nvcc_works_in_no_folder_that_others_can_exchange(
    with_nvcc: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_relative: bool
) -> None:
    tmp_path.chmod(0o777)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", "." if is_relative else str(tmp_path))
    with pytest.raises(PermissionError, match=f"chmod go-w {tmp_path}"):
        rawcuda.compile(FILL, "sm_90", options=["-DVALUE=1"])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("x.h", '#include "v.h"\n'),
        ("folder/x.h", '# include "v.h"\n'),
        ("x.h", '#inc\\\nlude /* a */ "v.h"\n'),
        ("x.h", '#define NAME "v.h"\n#include NAME\n'),
        ("x.h", "\ufeff#define STRING(x) #x\n#include STRING(v.h)\n"),
        ("folder/x.h", '#if __has_include("only.h")\n#define VALUE 3\n#else\n#include "v.h"\n#endif\n'),
        ("x.h", '#include "cuda_fp16.h"\n#ifdef __CUDA_FP16_H__\n#include "v.h"\n#endif\n'),
    ],
    ids=["plain", "in a folder", "joined", "macro", "string", "has_include", "toolkit"],
)
def test_what_a_header_includes_is_not_taken_from_the_current_folder(
    device: Any, build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    (here / "folder").mkdir(parents=True)
    there.mkdir()
    for each in ("v.h", "only.h", "cuda_fp16.h", "folder/v.h", "folder/only.h"):
        (here / each).write_text("#define VALUE 1\n")
    (there / "v.h").write_text("#define VALUE 2\n")
    monkeypatch.chdir(here)
    source = f'#include "{name}"\n{FILL}'
    assert value(device, build(source, headers={name: text}, options=[f"-I{there}"])) == 2
    assert value(device, build(source, headers={name: text, "v.h": "#define VALUE 4\n"})) == 4
    with pytest.raises(rawcuda.CompileFailed, match="v.h"):
        build(source, headers={name: text})


def test_an_error_in_the_text_of_a_header_is_told_by_its_name(build: Build) -> None:
    for name in ("x.h", "a/b.h", 'odd ".h'):
        with pytest.raises(rawcuda.CompileFailed) as raised:
            build(f"#include <{name}>\n{FILL}", headers={name: "\nint x = tow;\n"})
        assert str(raised.value).startswith(f"{name}:2: error: ")


# -- the commands


@pytest.fixture
def cli(capsys: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, str, str]]:
    """Run the command line in this process, in a folder with a source: (status, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RAWCUDA_DRIVER", raising=False)
    (tmp_path / "k.cu").write_text(
        "template <class T> __global__ void scale(T *x, float by) { x[threadIdx.x] *= by; }\n"
        'extern "C" __global__ void twice(float *x) { int unused = BY; x[threadIdx.x] *= 2; }\n'
    )

    def run(*words: object) -> tuple[int, str, str]:
        status = module("__main__").main([str(word) for word in words])
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return status, out, err

    return run


def test_run_compiles(cli: Any) -> None:
    numpy = pytest.importorskip("numpy")
    numpy.save("x.npy", numpy.arange(5, dtype="f4"))
    given = ("x.npy", 10, "--grid", 1, "--block", 5, "--option=-DBY=2", "--out", "0=out.npy")
    status, out, err = cli("run", "k.cu", "scale<float>", *given)
    assert status == 0 and "scale<float>: grid 1, block 5" in out and "k.cu:2: warning: variable" in err
    assert numpy.load("out.npy").tolist() == [0, 10, 20, 30, 40]
    status, out, err = cli("run", "k.cu", "--option=-DBY=2")
    assert status == 0 and out.split("\n")[0] == "twice" and "pointer" in out
    status, out, err = cli("run", "k.cu", "scal<float>", *given)
    assert status == 1 and "'scal<float>' in names" in err
    status, out, err = cli("run", "nope.cu", "scale<float>", *given)
    assert status == 1 and "nope.cu" in err
    Path("k.ptx").write_bytes(rawcuda.compile(FILL, options=["-DVALUE=1"]))
    status, out, err = cli("run", "k.ptx", "--option=-G")
    assert status == 2 and "--option is for the compiler" in err


@pytest.mark.parametrize("option", ["", "-lineinfo", "--generate-line-info", "-G", "--device-debug"])
def test_reports_of_run_name_the_source_line(python: Python, tmp_path: Path, option: str) -> None:
    (tmp_path / "k.cu").write_text('extern "C" __global__ void k(float *x)\n{\n    x[threadIdx.x] *= 2;\n}\n')
    words = ["run", "k.cu", "k", "ones:4:float32", "--grid", "1", "--block", "5", "--driver", "emulator"]
    asked = [f"--option={option}"] if option else []
    result = python(["-m", NAME, *words, *asked], cwd=tmp_path, env={"RAWCUDA_EMULATOR": ""})
    assert result.returncode == 1 and "warning" not in result.stderr
    assert "k.cu:3:5 | x[threadIdx.x] *= 2;" in result.stderr and "thread (4, 0, 0)" in result.stderr, result.stderr


def test_compile_writes_a_file(cli: Any) -> None:
    status, out, err = cli("compile", "k.cu", "--option=-DBY=2")
    assert status == 0 and out.startswith("k.ptx: ptx for sm_90, ") and err.startswith("k.cu:2: warning: variable")
    assert b".target sm_90\n" in Path("k.ptx").read_bytes()
    status, out, err = cli("compile", "k.cu", "--option=-DBY=2", "-o", "there.cubin", "--target", "sm_80")
    assert status == 0 and Path("there.cubin").read_bytes().startswith(b"\x7fELF")
    os.chmod("there.cubin", 0o600)
    status, out, err = cli("compile", "k.cu", "--option=-DBY=3", "-o", "there.cubin", "--target", "sm_80")
    assert status == 0 and os.name == "nt" or os.stat("there.cubin").st_mode & 0o777 == 0o600  # it keeps its mode
    status, out, err = cli("compile", "k.cu", "-o", "there.cubin")
    assert status == 1 and err.startswith('error: k.cu:2: error: identifier "BY" is undefined\n')
    assert Path("there.cubin").read_bytes().startswith(b"\x7fELF")
    status, out, err = cli("compile", "k.cu", "--option=-DBY=2", "-o", "k.cu")
    assert status == 2 and "this is the source" in err
    status, out, err = cli("compile", "nope.cu")
    assert status == 1 and "nope.cu" in err
    assert sorted(path.name for path in Path().iterdir()) == ["k.cu", "k.ptx", "there.cubin"]


def test_the_types_of_parameters_are_those_of_the_compiler() -> None:
    """The names that the compiler gives 50 kernels are those that tests/null/test_kernel_types.py reads."""
    signature = module("gpu.kernels.signature")
    folder = CHECKOUT / "tests" / "data"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a type of the source is deprecated in CUDA 13
        ptx = rawcuda.compile(folder / "kernel_declarations.cu", "sm_90").decode()
    made = {name: [str(each.size) for each in found] for name, found in signature.kernels(ptx).items()}
    listed = [line.split() for line in (folder / "kernel_declarations.txt").read_text().splitlines()]
    assert made == {name: sizes for name, *sizes in listed}
