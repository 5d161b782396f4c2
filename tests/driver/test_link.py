"""Several images to one: with nvJitLink from PyPI, which needs no GPU, and with the driver's own linker."""

from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Callable

import pytest

from tests.conftest import Python
from tests.driver import kernels
from tests.subject import module, rawcuda

linking, nvjitlink = module("compiler.linking"), module("compiler.nvjitlink")
locate = module("locate")
pytestmark = pytest.mark.skipif(sys.platform == "darwin", reason="there is no nvJitLink for macOS")
NVCC = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
needs_nvjitlink = pytest.mark.skipif(not locate.nvjitlink(), reason="nvJitLink is not installed")
needs_nvcc = pytest.mark.skipif(not os.path.exists(NVCC), reason="nvcc is not installed")

MAIN = """
extern __device__ float twice(float);
extern __device__ int table[4];
extern "C" __global__ void run(float *out, int n) { out[threadIdx.x] = twice(n) + table[threadIdx.x]; }
"""
OTHER = "__device__ int table[4] = {1, 2, 3, 4}; __device__ float twice(float x) { return 2 * x; }"
Code = Callable[..., bytes]


def test_links_work_after_their_thread_did_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(self: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(nvjitlink, "_queues", {})
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", failing)
        with pytest.raises(RuntimeError, match="new thread"):
            nvjitlink._in_one_thread(lambda: 1)
    found: list[object] = []
    waiting = threading.Thread(target=lambda: found.append(nvjitlink._in_one_thread(lambda: 2)), daemon=True)
    waiting.start()
    waiting.join(30)
    assert found == [2]


def test_two_threads_that_link_first_use_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    start, found, other, before = threading.Thread.start, [], [], threading.enumerate()

    def slower(self: threading.Thread) -> None:
        start(self)
        if self.name == "nvJitLink" and not other:
            other.append(True)
            found.append(nvjitlink._in_one_thread(threading.current_thread))  # another thread comes first

    monkeypatch.setattr(nvjitlink, "_queues", {})
    monkeypatch.setattr(threading.Thread, "start", slower)
    assert nvjitlink._in_one_thread(threading.current_thread) is found[0]
    end = time.monotonic() + 30
    while [each for each in threading.enumerate() if each not in before] != found:
        assert time.monotonic() < end
        time.sleep(0.001)


def test_an_interrupt_while_it_waits_does_not_stop_the_thread_of_links(monkeypatch: pytest.MonkeyPatch) -> None:
    """The methods of a threading.Event are Python functions, in which an interrupt leaves a lock held."""
    monkeypatch.setattr(nvjitlink, "_queues", {})
    going = threading.Event()

    def interrupts(frame: Any, event: str, argument: object) -> Any:
        if frame.f_code.co_filename == threading.__file__ and event == "return" and "__enter__" in frame.f_code.co_name:
            raise KeyboardInterrupt
        return interrupts

    nvjitlink._in_one_thread(int)
    sys.settrace(interrupts)
    try:
        nvjitlink._in_one_thread(lambda: going.wait(0.2))
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(None)
    found: list[object] = []
    again = threading.Thread(target=lambda: found.append(nvjitlink._in_one_thread(lambda: 2)), daemon=True)
    again.start()
    again.join(30)
    assert found == [2]


@pytest.mark.skipif(os.name != "posix", reason="a signal that interrupts a wait")
def test_the_end_of_the_process_waits_for_a_link_that_was_interrupted(python: Any) -> None:
    done = python("""
        import os, signal, threading, time
        from tests.subject import module
        nvjitlink, interrupted, came = module("compiler.nvjitlink"), threading.Event(), []
        def once(*_):
            if not came:
                came.append(True)
                raise KeyboardInterrupt
        signal.signal(signal.SIGINT, once)
        def work():
            while not interrupted.wait(0.05):  # a signal that comes just before the wait does not end it
                os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.5)  # meanwhile the program ends
            print("linked")
        try:
            nvjitlink._in_one_thread(work)
        except KeyboardInterrupt:
            print("interrupted", flush=True)
            interrupted.set()
    """)
    assert done.returncode == 0 and done.stdout.split() == ["interrupted", "linked"], done.stderr


def test_an_exit_handler_that_was_registered_before_the_first_link_may_link(python: Any) -> None:
    """Exit handlers run in reverse order, so the one that waits for links runs first."""
    done = python("""
        import atexit, faulthandler, threading
        from tests.subject import module
        nvjitlink = module("compiler.nvjitlink")
        def at_exit():
            faulthandler.dump_traceback_later(20, exit=True)
            print(nvjitlink._in_one_thread(threading.current_thread) is first)
        atexit.register(at_exit)
        first = nvjitlink._in_one_thread(threading.current_thread)
    """)
    assert done.returncode == 0 and done.stdout.split() == ["True"], done.stderr


def compiled(source: str, output: str = "ptx", target: str = "sm_80") -> bytes:
    """Compile a file of a program that has several."""
    made: bytes = rawcuda.compile(source, target, output, options=["-rdc=true"])
    return made


@pytest.fixture(scope="module")
def code() -> Code:
    """Return (main or other, output) -> code, which is compiled once."""
    known: dict[tuple[str, str], bytes] = {}

    def get(which: str, output: str = "ptx") -> bytes:
        if (which, output) not in known:
            known[which, output] = compiled({"main": MAIN, "other": OTHER}[which], output)
        return known[which, output]

    return get


def results(device: Any, made: Any) -> list[float]:
    """Run the kernel of MAIN."""
    with made:
        out = device.empty(4, "float32")
        made["run"].launch(out, 5, grid=1, block=4)
        found: list[float] = out.tolist()
    return found


WANTED = [11.0, 12.0, 13.0, 14.0]

# -- on a device


def test_a_device_function_and_a_variable_of_another_file(device: Any, code: Code, tmp_path: Path) -> None:
    path = tmp_path / "other.ptx"
    path.write_bytes(code("other"))
    text = code("main").decode()
    for inputs in (
        [text, path],
        [code("other"), code("main")],
        (bytearray(code("main") + b"\0"), memoryview(code("other"))),
        {"main.ptx": text, "other.ptx": path},
        [("main", text), path],
        iter([text, code("other")]),
    ):
        made = device.link(inputs)
        assert "run" in made and made["run"].parameters[1].size == 4
        assert results(device, made) == WANTED


@needs_nvjitlink
def test_lto_ir(device: Any, code: Code) -> None:
    made = device.link([code("main", "ltoir"), code("other", "ltoir")], options=["-dlto", "-O3"])
    assert results(device, made) == WANTED
    assert results(device, device.link([code("main", "ltoir"), code("other")])) == WANTED


def test_one_image_is_enough(device: Any) -> None:
    with device.link([kernels.ADD], options=["-lineinfo", "-maxrregcount=64", "-ftz=true"]) as made:
        assert made.names == ["add"]


def test_options_that_the_linker_does_not_know(device: Any, code: Code) -> None:
    with pytest.raises(rawcuda.InvalidUse, match="-nonsense"):
        device.link([code("main"), code("other")], options=["-nonsense"])
    for options, kind in (("-O3", TypeError), ([3], TypeError), (["-ptx"], ValueError), (["-arch=none"], ValueError)):
        with pytest.raises(kind):
            device.link([code("main"), code("other")], options=options)


@needs_nvjitlink
def test_an_old_nvjitlink_is_not_asked_to_destroy_what_it_did_not_make(
    code: Code, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before 12.8, it crashes then."""
    [linker, *_] = linking.linkers()
    images = [code("main"), code("other")]
    for version, is_destroyed in (((12, 6), False), ((12, 8), True)):
        monkeypatch.setattr(linker, "version", version)
        called: list[str] = []
        with rawcuda.trace(lambda event: called.append(event.name)), pytest.raises(rawcuda.InvalidUse):
            rawcuda.link(images, options=["-nonsense"])
        assert called[0] == "nvJitLinkCreate" and ("nvJitLinkDestroy" in called) == is_destroyed, called


@pytest.mark.parametrize(
    "log, kind, words",
    [
        (  # 12.0 to 12.2, for LTO-IR
            "ERROR in nvvmCompileProgram: NVVM_ERROR_INVALID_OPTION\nlibnvvm : error: -O3 is an unsupported option",
            "InvalidUse",
            "-O3 is an unsupported option. The options were: -O3",
        ),
        (  # 12.9, for PTX
            "ptxas fatal   : Value 'sm_35' is not defined for option 'gpu-name'\nERROR NVJITLINK_ERROR_PTX_COMPILE",
            "Unsupported",
            "does not know sm_35: ptxas fatal",
        ),
    ],
)
def test_what_older_linkers_say_late(monkeypatch: pytest.MonkeyPatch, log: str, kind: str, words: str) -> None:
    """About an option or an architecture, when they compile."""

    class Old:
        kind, path, version = "nvJitLink", "/a/linker", (12, 0)

        def makes(self, output: str) -> bool:
            return True

        def link(self, *given: Any) -> Any:
            return nvjitlink.Linked(b"", log, "", 5, "NVJITLINK_ERROR_NVVM_COMPILE", "nvJitLinkComplete")

    monkeypatch.setattr(linking, "_loaded", [Old()])
    with pytest.raises(getattr(rawcuda, kind), match=words):
        rawcuda.link([kernels.ADD], "sm_35", options=["-O3"])


def test_a_missing_symbol_is_named(device: Any, code: Code) -> None:
    with pytest.raises(rawcuda.LinkFailed, match="no image defines '_Z5twicef', 'table': link the one") as raised:
        device.link({"main.ptx": code("main")})
    assert raised.value.symbols == ("_Z5twicef", "table") and "main.ptx" in raised.value.log
    assert isinstance(raised.value, rawcuda.CompileFailed)


@pytest.mark.parametrize("outputs", [("ptx", "ptx"), ("ptx", "cubin"), ("cubin", "cubin")])
def test_a_duplicate_symbol_is_named(device: Any, code: Code, outputs: tuple[str, str]) -> None:
    first, second = (code("other", output) for output in outputs)
    with pytest.raises(rawcuda.LinkFailed, match="'_Z5twicef', 'table' must be defined in one image only") as raised:
        device.link({"main": code("main"), "one": first, "two": second})
    assert raised.value.symbols == ("_Z5twicef", "table")
    assert "Multiple definition of 'table' in 'two', first defined in 'one'" in raised.value.log


def test_ptx_that_does_not_compile(device: Any, code: Code) -> None:
    with pytest.raises(rawcuda.CompileFailed, match="line [0-9]+; error"):
        device.link([code("main").replace(b"ret;", b"rat;"), code("other")])


def test_nothing_is_left_after_an_error(device: Any, code: Code, live: Any) -> None:
    before = live()
    for bad in ([code("main")], [code("other")] * 2, [code("main").replace(b"ret;", b"rat;")], [b"nonsense\n"]):
        with pytest.raises((rawcuda.CompileFailed, ValueError)):
            device.link(bad)
    assert live() == before


@pytest.fixture
def live(device: Any) -> Callable[[], Any]:
    """Return a function that counts the links and modules, where the driver can tell."""
    from tests.subject import module

    library = module("driver").current().libcuda
    count = getattr(library, "live_handles", dict)
    return lambda: {kind: number for kind, number in count().items() if kind in ("link", "module", "library")}


# -- what is linked: names, strengths, sizes; texts that a driver links itself

HEAD = ".version 7.0\n.target sm_50\n.address_size 64\n"
STATIC = (
    HEAD
    + """
.global .u32 hidden = {hidden};
.const .u32 bar[2] = {{{hidden}, 5}};
.visible .global .u32 {name}_global = 7;
.func (.param .b32 r) local(.param .b32 a) {{
    .reg .b32 %x;
    ld.param.b32 %x, [a]; add.u32 %x, %x, {hidden}; st.param.b32 [r], %x; ret;
}}
.visible .entry {name}(.param .u64 p) {{
    .reg .b32 %x; .reg .b64 %p;
    .shared .b32 scratch[32];
    ld.param.u64 %p, [p];
    ld.global.u32 %x, [hidden];
    {{ .param .b32 q; .param .b32 r; st.param.b32 [q], %x; call (r), local, (q); ld.param.b32 %x, [r]; }}
    bar.sync 0;
    st.global.u32 [%p], %x;
    ld.const.u32 %x, [bar];
    st.global.u32 [%p+4], %x;
    ret;
}}
"""
)


def test_names_that_only_one_text_knows_do_not_meet(device: Any) -> None:
    with device.link([STATIC.format(name="one", hidden=3), STATIC.format(name="two", hidden=40)]) as made:
        assert sorted(made.names) == ["one", "two"]
        for name, wanted in (("one", [6, 3]), ("two", [80, 40])):
            out = device.empty(2, "uint32")
            made[name].launch(out, grid=1, block=1)
            assert out.tolist() == wanted
        assert made.global_("one_global").tolist() == 7


def function(linkage: str, value: int | None) -> str:
    """Return a text with a function that returns a number, or only declares it."""
    body = f"{{ .reg .b32 %x; mov.u32 %x, {value}; st.param.b32 [r], %x; ret; }}" if value is not None else ";"
    return f"{HEAD}{linkage} .func (.param .b32 r) get() {body}\n"


def kernel(declared: str = ".extern .func (.param .b32 r) get();") -> str:
    """Return a text with a kernel that calls a function, also by its address."""
    return f"""{HEAD}{declared}
.visible .entry call(.param .u64 p) {{
    .reg .b32 %x, %y; .reg .b64 %p, %f;
    ld.param.u64 %p, [p];
    {{ .param .b32 r; call.uni (r), get; ld.param.b32 %x, [r]; }}
    st.global.u32 [%p], %x;
    ret;
}}
"""


@pytest.mark.parametrize(
    "definitions, wanted",
    [
        ([(".visible", 1)], 1),
        ([(".weak", 2)], 2),
        ([(".weak", 2), (".visible", 1)], 1),
        ([(".visible", 1), (".weak", 2)], 1),
        ([(".weak", 2), (".weak", 3)], 2),
        ([("", 5), (".visible", 1)], 1),
        ([(".extern", None), (".visible", 1), (".extern", None)], 1),
    ],
)
def test_the_strongest_definition_is_used(device: Any, definitions: Any, wanted: int) -> None:
    for order in (1, -1):
        texts = [kernel(), *(function(*each) for each in definitions)][::order]
        if order == -1 and [each[0] for each in definitions] == [".weak", ".weak"]:
            wanted = 3
        with device.link(texts) as made:
            out = device.empty(1, "uint32")
            made["call"].launch(out, grid=1, block=1)
            assert out.tolist() == [wanted]


def test_a_static_function_does_not_satisfy_another_text(device: Any) -> None:
    with pytest.raises(rawcuda.LinkFailed, match="no image defines 'get'"):
        device.link([kernel(), function("", 1)])


def test_what_is_declared_and_not_used_need_not_exist(device: Any) -> None:
    device.link([f"{HEAD}.extern .func (.param .b32 r) get();\n.extern .global .u32 none;", kernels.ADD]).close()


def test_common_and_extern_variables(device: Any) -> None:
    text = HEAD + ".visible .entry k(.param .u64 p) {{ .reg .b32 %x; .reg .b64 %p; ld.param.u64 %p, [p]; {body} ret; }}"
    reads = "ld.global.u32 %x, [n]; st.global.u32 [%p], %x;"
    declared = text.format(body=reads).replace(".visible", ".extern .global .u32 n;\n.visible", 1)
    with device.link([declared, f"{HEAD}.visible .global .u32 n = 9;"]) as made:
        out = device.empty(1, "uint32")
        made["k"].launch(out, grid=1, block=1)
        assert out.tolist() == [9] == [made.global_("n").tolist()]


@pytest.mark.parametrize("turned", [False, True])
def test_types_that_differ(device: Any, turned: bool) -> None:
    """nvcc declares an int[4] of another file as bytes, and defines it as words if they have values."""
    first = HEAD + ".visible .global .align 4 .b32 t[4] = {1, 2, 3, 4};\n"
    body = ".reg .b32 %r; .reg .b64 %d; ld.param.u64 %d, [o]; ld.global.u32 %r, [t+8]; st.global.u32 [%d], %r; ret;"
    second = f"{HEAD}.extern .global .align 4 .b8 t[16];\n.visible .entry k(.param .u64 o) {{ {body} }}\n"
    with device.link([second, first] if turned else [first, second]) as module:
        out = device.zeros(1, "uint32")
        module["k"].launch(out, grid=1, block=1)
        assert out.tolist() == [3]


def test_sizes_that_differ(device: Any) -> None:
    declared = (
        kernel()
        .replace(".extern .func", ".extern .global .u32 n;\n.extern .func")
        .replace("st.global.u32 [%p], %x;", "ld.global.u32 %y, [n]; st.global.u32 [%p], %y;")
    )
    with pytest.raises(rawcuda.LinkFailed, match="Size doesn't match for 'n'"):
        device.link([declared, function(".visible", 1), f"{HEAD}.visible .global .u64 n = 9;"])
    with pytest.raises(rawcuda.LinkFailed, match="for 'get' in"):
        device.link([kernel(), f"{HEAD}.visible .global .u32 get = 9;"])


def test_lines_of_files_stay_apart(device: Any, code: Code) -> None:
    def debug(source: str) -> bytes:
        made: bytes = rawcuda.compile(source, "sm_80", options=["-rdc=true", "-lineinfo"])
        return made

    assert results(device, device.link([debug(MAIN), debug(OTHER)])) == WANTED


# -- other kinds of images, which nvJitLink links for a target


@needs_nvjitlink
def test_every_kind_of_code_and_output(code: Code) -> None:
    for one in ("ptx", "cubin", "ltoir"):
        for two in ("ptx", "cubin", "ltoir"):
            made = rawcuda.link([code("main", one), code("other", two)], "sm_80")
            assert made.startswith(b"\x7fELF") and b"run" in made
    both = [code("main", "ltoir"), code("other", "ltoir")]
    ptx = rawcuda.link(both, "sm_80", "ptx")
    assert b".entry run(" in ptx and b"_Z5twicef" not in ptx and not ptx.endswith(b"\0")
    if linking.linkers()[0].version >= (13, 3):
        assert rawcuda.link(both, "sm_80", "ltoir").startswith(b"\xed\x43\x4e\x7f")


@needs_nvjitlink
@needs_nvcc
def test_fatbins_objects_and_archives(device: Any, code: Code, tmp_path: Path) -> None:
    source = tmp_path / "other.cu"
    source.write_text(OTHER)

    def nvcc(name: str, *options: str) -> Path:
        command = [NVCC, "-rdc=true", *options, str(source), "-o", str(tmp_path / name)]
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        return tmp_path / name

    both = ("-gencode", "arch=compute_80,code=[sm_80,compute_80]", "--no-compress")
    fatbin, plain = nvcc("other.fatbin", "-fatbin", *both), nvcc("other.o", "-c", *both)
    packed = nvcc("packed.o", "-c", "-gencode", "arch=compute_80,code=[sm_80,compute_80]")
    lto = nvcc("lto.o", "-c", "-gencode", "arch=compute_80,code=lto_80")
    archive = tmp_path / "libother.a"
    content = plain.read_bytes()
    member = b"%-16s%-12s%-6s%-6s%-8s%-10d`\n" % (b"other.o/", b"0", b"0", b"0", b"644", len(content))
    archive.write_bytes(b"!<arch>\n" + member + content + b"\n" * (len(content) % 2))
    for other in (fatbin, plain, packed, archive, lto, fatbin.read_bytes()):
        assert rawcuda.link([code("main"), other], "sm_80").startswith(b"\x7fELF"), other
    for other in (fatbin, plain, packed, archive):
        assert results(device, device.link([code("main"), other])) == WANTED, other
    assert results(device, device.link([code("main", "ltoir"), lto])) == WANTED
    source.write_text('extern "C" __global__ void k(float *out, float a, int n) { *out = a * n; }')
    for options in (both, both[:-1]):  # as it is, and compressed
        with device.load(nvcc("k.fatbin", "-fatbin", *options)) as made:
            assert made.names == ["k"] and [parameter.type for parameter in made["k"].parameters] == [
                "u64",
                "f32",
                "u32",
            ]
            out = device.empty(1, "float32")
            made["k"].launch(out, 2.5, 2, grid=1, block=1)
            assert out.tolist() == [5]
    for other in (fatbin, plain, packed, archive):
        with pytest.raises(rawcuda.LinkFailed, match="Multiple definition of 'table'"):
            rawcuda.link([code("main"), code("other"), other], "sm_80")
    with pytest.raises(ValueError, match="truncated"):
        rawcuda.link([plain.read_bytes()[:3000]])
    with pytest.raises(ValueError, match="truncated"):
        rawcuda.link([archive.read_bytes()[:3000]])
    with pytest.raises(ValueError, match="truncated fatbin"):
        rawcuda.link([fatbin.read_bytes()[:200]])


@needs_nvjitlink
def test_missing_and_duplicate_symbols_in_lto_ir(code: Code) -> None:
    main, other = code("main", "ltoir"), code("other", "ltoir")
    with pytest.raises(rawcuda.LinkFailed, match="no image defines '_Z5twicef'"):
        rawcuda.link([main], "sm_80")
    with pytest.raises(rawcuda.LinkFailed, match="'table' must be defined in one image only"):
        rawcuda.link([main, other, other], "sm_80")
    with pytest.raises(rawcuda.LinkFailed, match="'table' must be defined in one image only"):
        rawcuda.link([main, other, code("other")], "sm_80")


@needs_nvjitlink
def test_another_architecture(code: Code) -> None:
    with pytest.raises(rawcuda.LinkFailed, match="main is a cubin that cannot be linked for sm_75: was it made for it"):
        rawcuda.link({"main": code("main", "cubin"), "other": code("other", "cubin")}, "sm_75")
    with pytest.raises(rawcuda.LinkFailed, match="main is PTX that does not compile for sm_75"):
        rawcuda.link({"main": code("main"), "other": code("other")}, "sm_75")
    with pytest.raises(rawcuda.LinkFailed, match="LTO-IR that cannot be linked for sm_75"):
        rawcuda.link([code("main", "ltoir"), code("other", "ltoir")], "sm_75")
    with pytest.raises(rawcuda.Unsupported, match="does not know sm_35"):
        rawcuda.link([code("main"), code("other")], "sm_35")


@needs_nvjitlink
def test_lto_ir_that_is_newer_than_the_linker(code: Code, monkeypatch: pytest.MonkeyPatch) -> None:
    """An older nvJitLink says so in its log, or by its status."""

    def refuse(self: Any, inputs: Any, *_: Any) -> Any:
        said = "ERROR 4 in nvvmAddNVVMContainerToProgram, may need newer version of nvJitLink library"
        return nvjitlink.Linked(b"", said, "", 6, "NVJITLINK_ERROR_INTERNAL", "nvJitLinkAddData", inputs[0])

    monkeypatch.setattr(nvjitlink.NvJitLink, "link", refuse)
    with pytest.raises(rawcuda.Unsupported, match="the LTO-IR in main was made by another major version of CUDA"):
        rawcuda.link({"main": code("main", "ltoir")}, "sm_80")


@needs_nvjitlink
def test_a_damaged_image(code: Code) -> None:
    with pytest.raises(rawcuda.LinkFailed, match="image 1"):
        rawcuda.link([code("main", "ltoir")[:200]], "sm_80")
    with pytest.raises(ValueError, match="image 1: a truncated cubin"):
        rawcuda.link([code("main", "cubin")[:-9]], "sm_80")


# -- what a user may give


@pytest.mark.parametrize(
    "inputs, kind, words",
    [
        ([], ValueError, "nothing to link"),
        ({}, ValueError, "nothing to link"),
        (kernels.ADD, TypeError, "a sequence of images, such as a list, not a str"),
        (b"\x7fELF", TypeError, "not a bytes"),
        (Path("x.ptx"), TypeError, "a sequence"),
        (3, TypeError, "a sequence"),
        (None, TypeError, "a sequence"),
        ([3], TypeError, "image 1 must be PTX"),
        ([None], TypeError, "image 1 must be PTX"),
        ([(3, kernels.ADD)], TypeError, "its name must be a str"),
        ([("a\0b", kernels.ADD)], ValueError, "NUL"),
        (["kernel.ptx"], ValueError, r"image 1: 'kernel.ptx' is not PTX; to link a file, give a pathlib.Path"),
        ([""], ValueError, "image 1: it is empty"),
        ([b"\0\0"], ValueError, "it is empty"),
        ([kernels.ADD, "__global__ void f() {}\n"], ValueError, "image 2: .*CUDA C must be compiled first"),
        ([b"MZ\x90\0\1\2\3"], ValueError, "neither PTX, a cubin, a fatbin, LTO-IR, a host object nor an archive"),
        ([b"BC\xc0\xde1234"], ValueError, "bitcode of LLVM is not LTO-IR"),
        ([b"!<thin>\n1234"], ValueError, "thin archive"),
        ([b"!<arch>\n"], ValueError, "an archive without device code"),
        ([b"!<arch>\n1234"], ValueError, "damaged archive"),
        ([struct.pack("<IIQQ", 0x466243B1, 1, 0, 0)], ValueError, "wrapper"),
        ([b"\x7fELF\2\1\1" + bytes(11) + struct.pack("<H", 62) + bytes(44)], ValueError, "without device code"),
        ([".version 7.0 \ud800"], ValueError, "half of a (surrogate )?pair"),
    ],
)
def test_inputs_that_are_refused(device: Any, inputs: Any, kind: type[Exception], words: str) -> None:
    for link in (rawcuda.link, device.link):
        with pytest.raises(kind, match=words):
            link(inputs)


def test_a_file_that_does_not_exist(device: Any, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        device.link([tmp_path / "none.ptx"])


def test_targets_and_outputs_that_are_refused(code: Code) -> None:
    with pytest.raises(ValueError, match="output 'elf': give 'cubin', 'ptx' or 'ltoir'"):
        rawcuda.link([code("main")], output="elf")
    with pytest.raises(ValueError, match="output 'ptx' can be made only from LTO-IR, but image 2 is PTX"):
        rawcuda.link([code("main", "ltoir"), code("other")], output="ptx")
    with pytest.raises(ValueError, match="options name the architecture sm_90, but target is 'sm_80'"):
        rawcuda.link([code("main")], "sm_80", options=["-arch=sm_90"])
    with pytest.raises(TypeError, match="a target is a str"):
        rawcuda.link([code("main")], 80)


def test_images_as_text_cannot_be_binary(code: Code) -> None:
    with pytest.raises(ValueError, match="is neither PTX"):
        rawcuda.link([code("main", "cubin").decode("latin-1").replace("\0", "\n") + "\n"])


# -- the linker


def test_without_nvjitlink_each_place_is_listed(
    device: Any, code: Code, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broken = tmp_path / "libnvJitLink.so.13"
    broken.write_bytes(b"not a library")
    monkeypatch.setattr(linking, "_loaded", [])
    monkeypatch.setattr(locate, "nvjitlink", lambda: [(str(broken), "the test says so")])
    monkeypatch.setenv("CUDA_HOME", "/opt/some/cuda")
    with pytest.raises(rawcuda.LinkerNotFound) as raised:
        rawcuda.link([code("main"), code("other")])
    text = str(raised.value)
    assert "pip install nvidia-nvjitlink (or" in text and "/opt/some/cuda  (the environment's CUDA_HOME)" in text
    assert f"{broken}  (the test says so): " in text and raised.value.tried[0][0] == str(broken)
    with pytest.raises(rawcuda.LinkerNotFound):
        device.link([code("main", "ltoir"), code("other", "ltoir")])
    assert results(device, device.link([code("main"), code("other")])) == WANTED  # by the driver


def test_a_library_that_is_not_nvjitlink() -> None:
    mapped = locate.mapped_file("libc.so.6")
    if not mapped:
        pytest.skip("no /proc here")
    with pytest.raises(OSError, match="this is not nvJitLink"):
        nvjitlink.NvJitLink(mapped)


@needs_nvjitlink
def test_links_are_traced(device: Any, code: Code) -> None:
    linking.linkers()  # loading the library asks for its version
    images = [code("main"), code("other")]  # compiled now, and not while the trace listens
    seen: list[str] = []
    with rawcuda.trace(lambda event: seen.append(str(event))):
        rawcuda.link(images, "sm_80")
    calls = [line.split("us  ")[1] for line in seen]
    assert re.match(r"nvJitLinkCreate\(handle=.*, options=\[b'-arch=sm_80'\]\) -> NVJITLINK_SUCCESS", calls[0])
    assert sum(call.startswith("nvJitLinkAddData(") for call in calls) == 2
    assert calls[-1].startswith("nvJitLinkDestroy(")


@needs_nvjitlink
def test_several_threads_link_at_once(device: Any, code: Code) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with pytest.raises(rawcuda.LinkFailed):  # after this, nvJitLink keeps a lock
        rawcuda.link([code("main", "cubin")], "sm_75")

    def link(_: int) -> list[float]:
        rawcuda.link([code("main"), code("other")], "sm_80")
        return results(device, device.link([code("main"), code("other")]))

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(link, range(8))) == [WANTED] * 8


def test_a_driver_that_is_older_than_nvjitlink_links_itself(python: Python) -> None:
    """Its cubin could not be loaded. The library has no attribute that tells whether it runs machine code."""
    result = python(
        """
        import ctypes
        from tests.subject import module, rawcuda
        from tests.driver.test_link import MAIN, OTHER, compiled
        emulator = module("emulator").Emulator()
        def version(address):
            ctypes.c_int.from_address(address).value = 11080
            return 0
        version = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(version)
        class Older:
            def address(self, symbol):
                if symbol == "cuDriverGetVersion":
                    return ctypes.cast(version, ctypes.c_void_p).value
                return emulator.address(symbol)
        rawcuda.use(Older())
        calls = []
        with rawcuda.trace(lambda event: calls.append(event.name)):
            print(rawcuda.Device(0).link([compiled(MAIN), compiled(OTHER)]).names)
        print("cuLinkComplete" in calls, "nvJitLinkComplete" in calls)
        """,
        env={"RAWCUDA_DRIVER": None},
        check=True,
    )
    assert result.stdout == "['run']\nTrue False\n"


class OldLinker:
    """An nvJitLink that does not know the device."""

    version = 12, 0


@pytest.mark.emulator_only("its linker of PTX takes the place of the driver's")
def test_a_linker_that_is_older_than_the_device_is_left_out(
    device: Any, library: Any, code: Code, monkeypatch: pytest.MonkeyPatch
) -> None:
    room, tried = module("gpu.kernels.driver_linking"), []

    def link_with(linker: Any, *arguments: Any) -> Any:
        tried.append(linker)
        raise rawcuda.Unsupported("nvJitLink 12.0 does not know sm_120", code=801, name="N", call="nvJitLinkCreate")

    monkeypatch.setattr(library, "runs_machine_code", True, raising=False)
    monkeypatch.setattr(room, "link_with", link_with)
    first, second = OldLinker(), OldLinker()
    monkeypatch.setattr(room, "linkers", lambda: [first, second])
    made = device.link([code("main"), code("other")])
    monkeypatch.undo()
    assert tried == [first, second] and results(device, made) == WANTED
