"""Under `emulate`, compilers and linkers make PTX where programs ask for machine code."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from tests.conftest import Python
from tests.subject import NAME, module

loading = module("emulator.impersonating.loading")
locate = module("locate")
pytestmark = pytest.mark.skipif(bool(loading.unusable()), reason=loading.unusable())
needs_nvrtc = pytest.mark.skipif(not locate.nvrtc(), reason="the real NVRTC compiles")

PTX = """.version 7.8
.target sm_80
.address_size 64
"""
CALLER = (
    PTX
    + """.extern .func (.param .b32 r) twice(.param .b32 x);
.visible .entry k(.param .u64 out) { .reg .b64 %d; .reg .b32 %r; ld.param.u64 %d, [out];
{ .param .b32 a; .param .b32 b; st.param.b32 [a], 21; call (b), twice, (a); ld.param.b32 %r, [b]; }
st.global.u32 [%d], %r; ret; }
"""
)
CALLED = (
    PTX
    + """.visible .func (.param .b32 r) twice(.param .b32 x) { .reg .b32 %r; ld.param.b32 %r, [x];
shl.b32 %r, %r, 1; st.param.b32 [r], %r; ret; }
"""
)
LINK = """
import ctypes
library = ctypes.CDLL(SONAME)
def check(code):
    assert not code, code
def link(texts, *options):
    handle = ctypes.c_void_p()
    given = (ctypes.c_char_p * len(options))(*options)
    code = library.nvJitLinkCreate(ctypes.byref(handle), len(options), given)
    if code:
        return code, b""
    for kind, text in texts:
        check(library.nvJitLinkAddData(handle, kind, text, ctypes.c_size_t(len(text)), b"input"))
    code, size = library.nvJitLinkComplete(handle), ctypes.c_size_t()
    what = "ErrorLog" if code else "LinkedCubin"
    check(library["nvJitLinkGet" + what + "Size"](handle, ctypes.byref(size)))
    made = ctypes.create_string_buffer(size.value)
    check(library["nvJitLinkGet" + what](handle, made))
    check(library.nvJitLinkDestroy(ctypes.byref(handle)))
    return code, made.raw
"""


@pytest.fixture
def emulated(python: Python):
    """Run a snippet under `emulate`, and return what it printed."""

    def run(code: str, *, check: bool = True) -> str:
        result = python(["-m", NAME, "emulate", "--", sys.executable, "-c", code], check=check, timeout=120)
        return result.stdout + result.stderr

    return run


@needs_nvrtc
@pytest.mark.parametrize("soname", ["libnvrtc.so.12", "libnvrtc.so.13"])
def test_nvrtc_returns_ptx_as_the_cubin(emulated, soname: str) -> None:
    said = emulated(f"""
import ctypes
nvrtc, cuda = ctypes.CDLL({soname!r}), ctypes.CDLL("libcuda.so.1")
def check(code):
    assert not code, code
program, size = ctypes.c_void_p(), ctypes.c_size_t()
source = b'extern "C" __global__ void k(int *out) {{ *out = 42; }}'
check(nvrtc.nvrtcCreateProgram(ctypes.byref(program), source, b"a.cu", 0, None, None))
check(nvrtc.nvrtcCompileProgram(program, 1, (ctypes.c_char_p * 1)(b"-arch=sm_80")))
check(nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size)))
made = ctypes.create_string_buffer(size.value)
check(nvrtc.nvrtcGetCUBIN(program, made))
assert b".target sm_80" in made.raw and made.raw[-1:] == b"\\0", made.raw[:60]
context, module, function = (ctypes.c_void_p() for _ in range(3))
check(cuda.cuInit(0)); check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
check(cuda.cuCtxSetCurrent(context)); check(cuda.cuModuleLoadData(ctypes.byref(module), made))
check(cuda.cuModuleGetFunction(ctypes.byref(function), module, b"k"))
check(nvrtc.nvrtcCreateProgram(ctypes.byref(program), b"mistake", b"a.cu", 0, None, None))
assert nvrtc.nvrtcCompileProgram(program, 0, None) == 6
nvrtc.nvrtcGetErrorString.restype = ctypes.c_char_p
print(nvrtc.nvrtcGetErrorString(6).decode())
check(nvrtc.nvrtcCompileProgram(program, 0, None) - 6)
""")
    assert "NVRTC_ERROR_COMPILATION" in said


@needs_nvrtc
def test_nvrtcs_builtins_are_loaded_with_it(emulated) -> None:
    """Or else NVRTC would ask the loader for them, which may search the current folder."""
    said = emulated("""
import ctypes
numbers = ctypes.c_int(), ctypes.c_int()
ctypes.CDLL("libnvrtc.so.13").nvrtcVersion(*map(ctypes.byref, numbers))
print([line for line in open("/proc/self/maps") if "libnvrtc-builtins" in line])
""")
    assert "libnvrtc-builtins" in said


def test_nvrtc_says_where_it_can_be_had(emulated, monkeypatch: pytest.MonkeyPatch) -> None:
    said = emulated("""
import ctypes, sys
sys.path[:] = [each for each in sys.path if "site-packages" not in each]
import os
os.environ.pop("CUDA_HOME", None); os.environ.pop("CUDA_PATH", None)
nvrtc = ctypes.CDLL("libnvrtc.so.13")
nvrtc.nvrtcGetErrorString.restype = ctypes.c_char_p
print(nvrtc.nvrtcGetErrorString(11).decode())
""")
    assert "pip install nvidia-cuda-nvrtc" in said or "NVRTC_ERROR_INTERNAL_ERROR" in said  # a toolkit has one, too


@pytest.mark.parametrize("soname", ["libnvJitLink.so.12", "libnvJitLink.so.13"])
def test_nvjitlink_links_ptx_to_ptx(emulated, soname: str) -> None:
    said = emulated(
        f"SONAME = {soname!r}"
        + LINK
        + f"""
code, made = link([(2, {CALLER.encode()!r}), (2, {CALLED.encode()!r})], b"-arch=sm_80", b"-maxrregcount=40")
assert not code and made.count(b".entry") == 1 and b"twice" in made and b".maxnreg 40" in made, made
assert link([(10, {CALLER.encode()!r}), (1, {CALLED.encode()!r})], b"-arch=sm_80")[0] == 0
code, log = link([(2, {CALLER.encode()!r})], b"-arch=sm_80")
assert code == 9 and b"Undefined reference to 'twice'" in log, (code, log)
code, log = link([(2, b"nonsense")], b"-arch=sm_80")
assert code and log, (code, log)
code, log = link([(1, b"\\x7fELF" + bytes(60))], b"-arch=sm_80")
assert code == 3 and b"machine code" in log, (code, log)
assert link([], b"-lto") == (2, b"") and link([], b"-arch=new") == (1, b"")
assert link([], b"-arch=sm_80")[0] == 3
handle = ctypes.c_void_p(1)
assert library.nvJitLinkComplete(handle) == 3 and library.nvJitLinkDestroy(ctypes.byref(handle)) == 3
assert hasattr(library, "__nvJitLinkCreate_" + SONAME[-2:] + "_0")
print("linked")
"""
    )
    assert "linked" in said


@pytest.mark.parametrize("soname,wanted", [("libnvJitLink.so.12", 3), ("libnvJitLink.so.13", 10)])
def test_nvjitlink_refuses_null(emulated, soname: str, wanted: int) -> None:
    said = emulated(f"""
import ctypes
library, handle, null = ctypes.CDLL({soname!r}), ctypes.c_void_p(), ctypes.c_void_p()
options, here = (ctypes.c_char_p * 1)(b"-arch=sm_80"), ctypes.byref(ctypes.c_uint64())
def call(name, *arguments):
    return library["nvJitLink" + name](*arguments)
assert call("Create", ctypes.byref(handle), 1, options) == 0
assert call("Version", here, None) == call("Version", None, here) == {wanted}
assert call("Create", None, 1, options) == call("Create", here, 1, None) == call("Create", here, 0, None) == {wanted}
assert call("Create", here, 1, (ctypes.c_char_p * 1)()) == {wanted}
assert call("Destroy", None) == call("Destroy", ctypes.byref(null)) == {wanted}
assert call("AddData", None, 2, b"x", ctypes.c_size_t(1), b"x") == {wanted}
assert call("AddFile", None, 2, b"/none") == call("AddFile", handle, 2, None) == {wanted}
assert call("Complete", None) == {wanted}
for name in "LinkedCubin", "LinkedPtx", "ErrorLog", "InfoLog":
    for each in "Get" + name, "Get" + name + "Size":
        assert call(each, handle, None) == call(each, None, here) == {wanted}, each
print("refused")
""")
    assert "refused" in said


@pytest.mark.parametrize("soname,codes", [("libnvJitLink.so.12", [3, 3]), ("libnvJitLink.so.13", [12, 18])])
def test_nvjitlink_refuses_what_the_real_one_refuses(emulated, soname: str, codes: list[int]) -> None:
    said = emulated(f"""
import ctypes
library, handle, size = ctypes.CDLL({soname!r}), ctypes.c_void_p(), ctypes.c_size_t(77)
text, made = {CALLED.encode()!r}, ctypes.create_string_buffer(4000)
def call(name, *arguments):
    return library["nvJitLink" + name](*arguments)
def add(kind, nbytes=len(text)):
    return call("AddData", handle, kind, text, ctypes.c_size_t(nbytes), b"input")
assert call("Create", ctypes.byref(handle), 1, (ctypes.c_char_p * 1)(b"-arch=sm_80")) == 0
assert call("GetLinkedCubinSize", handle, ctypes.byref(size)) == call("GetLinkedCubin", handle, made) == 6
assert size.value == 77 and add(2, 0) == 3 and [add(99), add(3)] == {codes}
assert add(2) == 0 and call("Complete", handle) == 0 and call("Complete", handle) == add(2) == 6
assert call("GetLinkedCubinSize", handle, ctypes.byref(size)) == call("GetLinkedCubin", handle, made) == 0
assert made.raw[: size.value - 1].count(b".func") == 1
assert call("Destroy", ctypes.byref(handle)) == 0 and handle.value is None
print("refused")
""")
    assert "refused" in said


@needs_nvrtc
@pytest.mark.skipif(not locate.nvjitlink(), reason="LTO-IR needs the real nvJitLink")
def test_lto_ir_goes_through_the_real_library(emulated) -> None:
    said = emulated(
        "SONAME = 'libnvJitLink.so.13'"
        + LINK
        + """
nvrtc = ctypes.CDLL("libnvrtc.so.13")
program, size = ctypes.c_void_p(), ctypes.c_size_t()
source = b'extern "C" __device__ int twice(int x) { return 2 * x; }'
check(nvrtc.nvrtcCreateProgram(ctypes.byref(program), source, b"a.cu", 0, None, None))
check(nvrtc.nvrtcCompileProgram(program, 3, (ctypes.c_char_p * 3)(b"-arch=sm_80", b"-dlto", b"-rdc=true")))
check(nvrtc.nvrtcGetLTOIRSize(program, ctypes.byref(size)))
made = ctypes.create_string_buffer(size.value)
check(nvrtc.nvrtcGetLTOIR(program, made))
check(nvrtc.nvrtcCreateProgram(ctypes.byref(program), b'extern "C" __device__ int twice(int); '
    b'extern "C" __global__ void k(int *out) { *out = twice(21); }', b"b.cu", 0, None, None))
check(nvrtc.nvrtcCompileProgram(program, 3, (ctypes.c_char_p * 3)(b"-arch=sm_80", b"-dlto", b"-rdc=true")))
check(nvrtc.nvrtcGetLTOIRSize(program, ctypes.byref(size)))
other = ctypes.create_string_buffer(size.value)
check(nvrtc.nvrtcGetLTOIR(program, other))
code, text = link([(3, made.raw), (3, other.raw)], b"-arch=sm_80", b"-lto")
assert not code and b".entry k" in text and b"42" in text, (code, text[:400])
code, log = link([(3, b"no LTO-IR at all")], b"-arch=sm_80", b"-lto")
assert code == 5 and log
print("linked")
"""
    )
    assert "linked" in said


def test_ptxas_passes_ptx_on(python: Python, tmp_path: Path) -> None:
    (tmp_path / "x.ptx").write_text(CALLED)
    (tmp_path / "bad.ptx").write_text(CALLED.replace("shl.b32", "shl.b33"))

    def ptxas(*words: str) -> tuple[int, str]:
        done = python(["-m", NAME, "emulate", "--", "ptxas", *words], cwd=tmp_path)
        return done.returncode, done.stdout + done.stderr

    code, said = ptxas("-v", "--gpu-name=sm_90", "-O", "3", "x.ptx", "-o", "x.cubin")
    assert code == 0 and (tmp_path / "x.cubin").read_text() == CALLED, said
    assert "release 13.0" in ptxas("--version")[1]
    assert ptxas("bad.ptx", "-o", "bad.cubin")[0] == 255 and not (tmp_path / "bad.cubin").exists()
    assert "line 5" in ptxas("bad.ptx", "-o", "bad.cubin")[1]
    assert ptxas("-arch", "sm_70", "x.ptx", "-o", "y.cubin")[0] == 255  # .target sm_80 is newer
    assert ptxas("none.ptx", "-o", "y.cubin")[0] == 255 and ptxas("-o", "y.cubin")[0] == 255


def test_the_programs_name_folders_that_are_not_utf_8(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = module("emulator.impersonating.programs")
    package = Path("/caf\udce9/site", *programs.__name__.split("."))
    monkeypatch.setattr(programs, "__file__", f"{package}.py")
    for executable, word in ("/caf\udce9/python", b"exec '/caf\xe9/python' -c"), (None, b"exec python3 -c"):
        monkeypatch.setattr(sys, "executable", executable)
        folder = tmp_path / str(executable is None)
        folder.mkdir()
        content = Path(programs.write_programs(str(folder)), "ptxas").read_bytes()
        assert word in content and b" '/caf\xe9/site' " in content


def test_values_of_options_of_ptxas_are_no_inputs(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    source, made = tmp_path / "x.ptx", tmp_path / "x.cubin"
    source.write_text(CALLED)
    words = """-fmad false --fmad true -optf /dev/null -split-compile 2 --device-function-maxrregcount 32 -pic false
    -allow-expensive-optimizations true -Ofc max -flcm cg --register-usage-level 5 -maxntid 32 -minnctapersm 1"""
    code = module("emulator.impersonating.programs").main(["ptxas", *words.split(), str(source), "-o", str(made)])
    assert (code, *capfd.readouterr()) == (0, "", "") and made.read_text() == CALLED


def test_the_programs_import_nothing_from_the_current_folder(python: Python, tmp_path: Path) -> None:
    here = tmp_path / "here"
    here.mkdir()
    (here / "x.ptx").write_text(CALLED)
    for name in (
        "sitecustomize",
        "usercustomize",
        "importlib",
        "__future__",
        "re",
        "shlex",
        "signal",
        "bisect",
        "ast",
        NAME,
    ):
        (here / f"{name}.py").write_text("raise SystemExit('it was planted')")
    code = f"""
import os, subprocess
for command in ["ptxas", "x.ptx", "-o", "x.cubin"], ["nvcc", "--version"]:
    for path in {{}}, {{"PYTHONPATH": ":/none"}}:  # with an empty part, the absolute folder is in sys.path
        environment = {{**os.environ, **path}}
        run = subprocess.run
        done = run(command, cwd={str(here)!r}, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        print(done.stdout.decode())
"""
    done = python(["-m", NAME, "emulate", "--", sys.executable, "-c", code], timeout=120)
    said = done.stdout + done.stderr
    assert "planted" not in said and (here / "x.cubin").read_text() == CALLED, said


@pytest.mark.parametrize(
    ("given", "made"),
    [
        (["-odir", "out"], ["-o", "out/x.cubin"]),
        (["--output-directory=out"], ["-o", "out/x.cubin"]),
        (["-odir", "out", "-o", "y"], []),
        ([], ["-o", "x.cubin"]),
    ],
)
def test_a_cubin_of_nvcc_has_its_folder_and_name(given: list[str], made: list[str]) -> None:
    options = module("emulator.impersonating.programs").options_for_ptx
    assert options(["-cubin", *given, "in/x.cu"]) == ["--ptx", *given, "in/x.cu", *made]
    assert options(["-c", *given, "in/x.cu"]) == ["-c", *given, "in/x.cu"]


@pytest.mark.skipif(not shutil.which("nvcc"), reason="the real nvcc compiles")
def test_nvcc_makes_ptx_as_a_cubin(python: Python, tmp_path: Path) -> None:
    (tmp_path / "x.cu").write_text('extern "C" __global__ void k(int *out) { *out = 42; }')

    def nvcc(*words: str) -> tuple[int, str]:
        done = python(["-m", NAME, "emulate", "--", "nvcc", *words], cwd=tmp_path, timeout=120)
        return done.returncode, done.stdout + done.stderr

    code, said = nvcc("-cubin", "-gencode", "arch=compute_80,code=sm_80", "x.cu")
    assert code == 0 and ".target sm_80" in (tmp_path / "x.cubin").read_text(), said
    assert nvcc("--cubin", "-arch=sm_90", "-o", "y.bin", "x.cu")[0] == 0
    assert ".entry k" in (tmp_path / "y.bin").read_text()
    assert "Cuda compilation tools" in nvcc("--version")[1]


def test_a_cubin_that_arrives_anyway_says_how_to_get_ptx() -> None:
    from .emulator_client import Client

    client = Client()
    import ctypes

    image = ctypes.create_string_buffer(b"\x7fELF" + bytes(200))
    place = ctypes.c_uint64()
    assert client.code("cuModuleLoadData", ctypes.addressof(place), ctypes.addressof(image)) == 209
    report = client.emulator.reports[-1]
    assert "emulate" in report and "-ptx" in report and "compute_90" in report
