"""Links and libraries of the emulator, as a C program calls them."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.emulator.emulator_client import HEAD, KERNELS, Client, Failed
from tests.subject import module

OUT = ctypes.c_uint64()
CUBIN, PTX, FATBIN, OBJECT, LIBRARY, NVVM = range(6)
INFO, INFO_SIZE, ERROR, ERROR_SIZE = 3, 4, 5, 6
CALLS = HEAD + ".extern .func f();\n.visible .entry k() { call f; ret; }\n"
DEFINES = HEAD + ".visible .func f() { ret; }\n"


@pytest.fixture
def client() -> Iterator[Any]:
    made = Client()
    yield made
    assert not made.emulator.kept_exceptions


def add(client: Any, state: int, text: str | bytes, kind: int = PTX, name: bytes | None = b"name") -> int:
    """Add an image, and return the code."""
    data = text.encode() if isinstance(text, str) else text
    code: int = client.code("cuLinkAddData_v2", state, kind, data, len(data), name, 0, 0, 0)
    return code


def test_a_link_and_its_image(client: Any, tmp_path: Path) -> None:
    state = begin(client)
    (tmp_path / "f.ptx").write_text(DEFINES)
    assert add(client, state, CALLS) == 0
    assert client.code("cuLinkAddFile_v2", state, PTX, str(tmp_path / "f.ptx").encode(), 0, 0, 0) == 0
    assert client.live() == {"link": 1}
    size, image = ctypes.c_size_t(), ctypes.c_uint64()
    assert client.code("cuLinkComplete", state, image, size) == 0
    text = ctypes.string_at(image.value)
    assert len(text) == size.value and text.startswith(b".version 6.3") and text.count(b".version") == 1
    assert client.code("cuLinkComplete", state, image, size) == 0  # again, the same
    assert add(client, state, DEFINES) == 1 and "complete" in client.emulator.explain(1)
    loaded = client.get("cuModuleLoadData", text)
    assert client.get("cuModuleGetFunction", loaded, b"k")
    client.do("cuModuleUnload", loaded)
    client.do("cuLinkDestroy", state)
    assert not client.live()
    assert client.code("cuLinkDestroy", state) == 400 and add(client, state, CALLS) == 400


def begin(client: Any, *logs: Any) -> int:
    """Begin a link, with the buffers of its logs."""
    if not logs:
        assert client.code("cuLinkCreate_v2", 0, 0, 0, OUT) == 0
        return OUT.value
    error = logs[0]
    options = (ctypes.c_int * 2)(ERROR, ERROR_SIZE)
    values = (ctypes.c_uint64 * 2)(ctypes.addressof(error), len(error))
    logs[1].append((options, values))
    assert client.code("cuLinkCreate_v2", 2, options, values, OUT) == 0
    return OUT.value


def test_the_log_is_of_the_call_that_failed(client: Any) -> None:
    error, kept = ctypes.create_string_buffer(1000), []  # type: ignore[var-annotated]
    state = begin(client, error, kept)
    assert add(client, state, HEAD + ".visible .entry k() { nonsense; }", name=b"bad.ptx") == 218
    assert b"line 4" in error.value
    assert add(client, state, DEFINES, name=b"one") == 0
    for _ in range(2):
        assert add(client, state, DEFINES, name=b"two") == 300
        assert error.value == b"error   : Multiple definition of 'f' in 'two', first defined in 'one'"
    assert add(client, state, HEAD + ".visible .entry k() { nonsense; }", name=b"bad.ptx") == 218
    assert error.value.endswith(b"aborted due to errors")  # a longer one
    client.do("cuLinkDestroy", state)
    state = begin(client, error, kept)
    assert add(client, state, CALLS, name=b"calls.ptx") == 0
    assert client.code("cuLinkComplete", state, OUT, 0) == 999
    assert error.value == b"error   : Undefined reference to 'f' in 'calls.ptx'"
    assert add(client, state, DEFINES) == 0 and client.code("cuLinkComplete", state, OUT, 0) == 0
    client.do("cuLinkDestroy", state)


GRID = (
    HEAD
    + """
.extern .func (.param .b64 r) cudaCGGetIntrinsicHandle(.param .b32 a);
.extern .func (.param .b32 r) cudaCGSynchronize(.param .b64 a, .param .b32 b);
.visible .entry turn(.param .u64 data, .param .u32 scope) {
    .reg .pred %p; .reg .b32 %r<9>; .reg .b64 %d<9>;
    ld.param.u64 %d1, [data]; ld.param.u32 %r7, [scope];
    mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;
    mad.lo.u32 %r4, %r1, %r2, %r3;                  // the thread's number, of 64
    xor.b32 %r5, %r4, 63;                           // the thread at the other end
    mad.wide.u32 %d2, %r4, 4, %d1; mad.wide.u32 %d3, %r5, 4, %d1;
    mov.u32 %r8, 3;
    { .param .b32 a; .param .b64 r; st.param.b32 [a], %r7; call (r), cudaCGGetIntrinsicHandle, (a);
      ld.param.b64 %d4, [r]; }
$loop:
    ld.global.u32 %r6, [%d3]; add.u32 %r6, %r6, 1;
    { .param .b64 a; .param .b32 b; .param .b32 r; st.param.b64 [a], %d4; st.param.b32 [b], 0;
      call (r), cudaCGSynchronize, (a, b); ld.param.b32 %r7, [r]; }
    st.global.u32 [%d2], %r6;
    { .param .b64 a; .param .b32 b; .param .b32 r; st.param.b64 [a], %d4; st.param.b32 [b], 0;
      call (r), cudaCGSynchronize, (a, b); ld.param.b32 %r5, [r]; }
    or.b32 %r7, %r7, %r5;
    sub.u32 %r8, %r8, 1; setp.ne.u32 %p, %r8, 0; @%p bra $loop;
    setp.eq.u32 %p, %r7, 0; @%p bra $end;
    st.global.u32 [%d2], %r7;
$end: ret;
}
"""
)


def archive_of(member: bytes) -> bytes:
    """Return an archive with one member, whose name is in the table of long names."""
    content, names = b"\x7fELF of machine code!", member + b"/\n"
    names += b"\n" * (len(names) % 2)
    parts = ((b"//", names), (b"/0", content))
    return b"!<arch>\n" + b"".join(b"%-48s%-10d`\n%b" % (name, len(inner), inner) for name, inner in parts)


def test_the_grid_functions_of_the_runtime_library(client: Any) -> None:
    state = begin(client)
    assert add(client, state, GRID) == 0
    assert client.code("cuLinkComplete", state, OUT, 0) == 999  # they are not defined
    assert add(client, state, archive_of(b"other.o"), LIBRARY) == 200
    assert add(client, state, archive_of(b"cuda_device_runtime.o"), LIBRARY, b"libcudadevrt.a") == 0
    assert client.code("cuLinkComplete", state, OUT, 0) == 0
    loaded = client.get("cuModuleLoadData", ctypes.string_at(OUT.value))
    client.do("cuLinkDestroy", state)
    kernel = client.get("cuModuleGetFunction", loaded, b"turn")
    memory, values = client.get("cuMemAlloc_v2", 256), (ctypes.c_uint32 * 64)(*range(64))
    cases = (
        (1, True, [66 - at for at in range(64)]),
        (2, True, [1] * 64),  # a handle of no grid, an error
        (1, False, [1] * 64),  # only a cooperative launch has one
    )
    for scope, cooperative, wanted in cases:
        client.do("cuMemcpyHtoD_v2", memory, values, 256)
        given = ctypes.c_uint64(memory), ctypes.c_uint32(scope)
        arguments = (ctypes.c_uint64 * 2)(*map(ctypes.addressof, given))
        if cooperative:
            client.do("cuLaunchCooperativeKernel", kernel, 4, 1, 1, 16, 1, 1, 0, 0, arguments)
        else:
            client.do("cuLaunchKernel", kernel, 4, 1, 1, 16, 1, 1, 0, 0, arguments, 0)
        back = (ctypes.c_uint32 * 64)()
        client.do("cuMemcpyDtoH_v2", back, memory, 256)
        assert list(back) == wanted
    client.do("cuMemFree_v2", memory)
    client.do("cuModuleUnload", loaded)
    assert not client.live()


def test_what_cannot_be_linked(client: Any) -> None:
    state = begin(client)
    elf = b"\x7fELF\2\1\1" + bytes(57)
    for kind, data, code in (
        (CUBIN, elf, 209),
        (NVVM, b"BC\xc0\xde", 801),
        (FATBIN, b"nonsense", 200),
        (FATBIN, struct.pack("<IHHQ", 0xBA55ED50, 1, 16, 99), 200),
        (FATBIN, struct.pack("<IHHQ", 0xBA55ED50, 1, 16, 0), 209),
        (OBJECT, b"nonsense", 200),
        (OBJECT, elf, 200),
        (LIBRARY, b"nonsense", 200),
        (LIBRARY, b"!<arch>\n" + b"x" * 60, 200),
        (PTX, b"nonsense", 200),
        (9, b"nonsense", 1),
    ):
        assert add(client, state, data, kind) == code, (kind, data)
    assert client.code("cuLinkAddData_v2", state, PTX, 0, 0, 0, 0, 0, 0) == 1
    assert client.code("cuLinkAddData_v2", state, PTX, b"x", 0, 0, 0, 0, 0) == 1
    assert client.code("cuLinkAddFile_v2", state, PTX, b"/none.ptx", 0, 0, 0) == 301
    assert client.code("cuLinkComplete", state, OUT, 0) == 1  # nothing was added
    assert client.code("cuLinkCreate_v2", 0, 0, 0, 0) == 1
    client.do("cuLinkDestroy", state)


def test_the_lines_into_which_code_was_inlined_are_of_its_own_files() -> None:
    linking, head = module("emulator.ptx.reading.ptx_linking"), ".version 8.0\n.target sm_80\n.address_size 64\n"
    first = head + '.file 1 "one.cu"\n.visible .func f() { .loc 1 5 1\n ret; }'
    second = head + '.file 1 "two.cu"\n.visible .func g() { .loc 1 7 1, function_name n, inlined_at 1 9 3\n ret; }'
    merger = linking.Merger()
    for number, text in enumerate((first, second)):
        merger.add(linking.Unit(text, f"text {number}", (9, 0)))
    assert ".loc 2 7 1, function_name n, inlined_at 2 9 3" in merger.complete()


def taking(client: Any, *texts: str) -> list[int]:
    """Link texts, launch the kernel k with the address of four words, and return these."""
    state = begin(client)
    for number, text in enumerate(texts):
        assert add(client, state, HEAD + text, name=b"%d" % number) == 0
    assert client.code("cuLinkComplete", state, OUT, 0) == 0
    loaded = client.get("cuModuleLoadData", ctypes.string_at(OUT.value))
    client.do("cuLinkDestroy", state)
    kernel, memory = client.get("cuModuleGetFunction", loaded, b"k"), client.get("cuMemAlloc_v2", 16)
    client.do("cuMemsetD8_v2", memory, 0, 16)
    given, back = ctypes.c_uint64(memory), (ctypes.c_uint32 * 4)()
    arguments = (ctypes.c_uint64 * 1)(ctypes.addressof(given))
    client.do("cuLaunchKernel", kernel, 1, 1, 1, 1, 1, 1, 0, 0, arguments, 0)
    client.do("cuMemcpyDtoH_v2", back, memory, 16)
    client.do("cuMemFree_v2", memory)
    client.do("cuModuleUnload", loaded)
    return list(back)


def kernel(body: str, name: str = "k", linkage: str = ".visible", limits: str = "") -> str:
    """Return the text of a kernel that has the address of the words in q."""
    declared = ".reg .b64 q; .reg .b64 z; .reg .b32 v; .param .b32 o; ld.param.u64 q, [p];"
    return f"{linkage} .entry {name}(.param .u64 p) {limits} {{ {declared} {body} ret; }}\n"


def reads(*names: str) -> str:
    """Return instructions that read variables of 32 bits."""
    return "".join(f"ld.global.u32 v, [{name}]; st.global.u32 [q+{4 * at}], v;" for at, name in enumerate(names))


def function(value: int, linkage: str = "", name: str = "f") -> str:
    """Return the text of a function that returns a number."""
    return f"{linkage} .func (.param .b32 r) {name}() {{ st.param.b32 [r], {value}; ret; }}\n"


TYPE = "type: .callprototype (.param .b32 _) _ ();"
THROUGH = "ld.global.u64 z, [{}]; ld.global.u32 v, [z]; st.global.u32 [q+{}], v;"
CALLED = "ld.global.u64 z, [{}]; call (o), z, (), type; ld.param.b32 v, [o]; st.global.u32 [q+{}], v;"
POINTERS = ".global .u32 g = 1; .global .u64 t[2] = {g, generic(g)};" + kernel(
    THROUGH.format("t", 0) + THROUGH.format("t+8", 4)
)
NESTED = ".global .u32 g = 1; .global .u64 t[2][1] = {{g}, {g}};" + kernel(
    THROUGH.format("t", 0) + THROUGH.format("t+8", 4)
)
FUNCTIONS = function(1) + ".global .u64 t[2] = {f, f};" + kernel(TYPE + CALLED.format("t", 0) + CALLED.format("t+8", 4))
STATIC = {
    "pointers": (POINTERS, ".global .u32 g = 2;", [1, 1, 0, 0]),
    "nested pointers": (NESTED, ".global .u32 g = 2;", [1, 1, 0, 0]),
    "pointers to functions": (FUNCTIONS, function(2), [1, 1, 0, 0]),
    "a function that is declared first": (
        ".func (.param .b32 r) f();"
        + kernel("mov.u64 z, f;" + TYPE + "call (o), z, (), type; ld.param.b32 v, [o]; st.global.u32 [q], v;")
        + function(1),
        function(2),
        [1, 0, 0, 0],
    ),
    "a register of a range": (
        ".global .u32 r1 = 9;" + kernel(".reg .b32 r<5>; mov.u32 r1, 1; add.u32 r2, r1, 1; st.global.u32 [q], r2;"),
        ".global .u32 r1 = 2;",
        [2, 0, 0, 0],
    ),
    "a register in a vector": (
        ".global .u32 a = 9;" + kernel(".reg .b32 a, b; mov.u32 a, 7; mov.u32 b, 8; st.global.v2.u32 [q], {a, b};"),
        ".global .u32 a = 2;",
        [7, 8, 0, 0],
    ),
    "an opcode": (
        ".func exit() { ret; }"
        + kernel(".reg .pred c; setp.eq.u64 c, q, 0; @c exit; call exit; st.global.u32 [q], 3; exit;"),
        ".func exit() { ret; }",
        [3, 0, 0, 0],
    ),
    "a label of another text": (
        kernel("bra done; st.global.u32 [q], 9; done: st.global.u32 [q+4], 3;"),
        ".func done() { ret; }",
        [0, 3, 0, 0],
    ),
    "a label in a table": (
        kernel("mov.u32 v, 1; t: .branchtargets one, done; brx.idx v, t; one: done: st.global.u32 [q], 3;"),
        ".func done() { ret; }",
        [3, 0, 0, 0],
    ),
    "a register of the new name": (
        ".global .u32 g = 1;"
        + kernel(".reg .b32 g$unit0_, g$unit1_; mov.u32 g$unit0_, 8; mov.u32 g$unit1_, 8;" + reads("g")),
        ".global .u32 g = 2;",
        [1, 0, 0, 0],
    ),
    "registers of a range with the new name": (
        ".global .u32 g = 1;" + kernel(".reg .b64 g$unit<2>;" + reads("g")),
        ".global .u32 g = 2;",
        [1, 0, 0, 0],
    ),
}


@pytest.mark.parametrize("linkage", ["", ".visible"])
@pytest.mark.parametrize("case", STATIC)
def test_a_name_of_one_text_is_renamed_where_it_is_a_symbol(client: Any, case: str, linkage: str) -> None:
    text, other, wanted = STATIC[case]
    other = linkage + " " + other
    assert taking(client, text, other) == wanted
    assert taking(client, other, text) == wanted


PAIR = ".weak .global .u32 a = 1, b[2] = {2, 3};" + kernel(reads("a", "b", "b+4"))
WEAK = {
    "one of two": (PAIR, ".visible .global .u32 a = 5;", [5, 2, 3, 0]),
    "the other of two": (PAIR, ".visible .global .u32 b[2] = {6, 7};", [1, 6, 7, 0]),
    "both": (PAIR, ".visible .global .u32 a = 5, b[2] = {6, 7};", [5, 6, 7, 0]),
    "a kernel": (kernel("st.global.u32 [q], 9;", linkage=".weak"), kernel("st.global.u32 [q], 5;"), [5, 0, 0, 0]),
    "a kernel that is named": (
        kernel("st.global.u32 [q], 9;", linkage=".weak") + ".visible .global .u64 t[1] = {k};",
        kernel("st.global.u32 [q], 5;"),
        [5, 0, 0, 0],
    ),
    "a kernel with limits": (
        kernel("st.global.u32 [q], 9;", linkage=".weak", limits=".reqntid 32"),
        kernel("st.global.u32 [q], 5;"),
        [5, 0, 0, 0],
    ),
    "a smaller common variable": (
        ".common .global .u32 a;" + kernel(reads("a")),
        ".visible .global .u32 a[2] = {3, 4};",
        [3, 0, 0, 0],
    ),
    "elements of another size": (
        ".extern .global .align 4 .u32 a[2];" + kernel("mov.u64 z, a[1]; ld.global.u32 v, [z]; st.global.u32 [q], v;"),
        ".visible .global .align 4 .b8 a[8] = {1, 0, 0, 0, 2, 0, 0, 0};",
        [2, 0, 0, 0],
    ),
    "elements of another size of a common variable": (
        ".common .global .align 4 .u32 a[2];" + kernel("mov.u64 z, a[1]; ld.global.u32 v, [z]; st.global.u32 [q], v;"),
        ".visible .global .align 4 .b8 a[12] = {1, 0, 0, 0, 2, 0, 0, 0};",
        [2, 0, 0, 0],
    ),
}


@pytest.mark.parametrize("case", WEAK)
def test_a_definition_that_is_replaced_becomes_a_declaration(client: Any, case: str) -> None:
    text, other, wanted = WEAK[case]
    assert taking(client, text, other) == wanted
    assert taking(client, other, text) == wanted


def test_of_equal_weak_kernels_the_first_one_is_used(client: Any) -> None:
    first, second = (kernel(f"st.global.u32 [q], {value};", linkage=".weak") for value in (1, 2))
    assert taking(client, first, second) == [1, 0, 0, 0] and taking(client, second, first) == [2, 0, 0, 0]


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 0, 2), (1, 2, 0)])
def test_of_common_variables_the_largest_is_used(client: Any, order: tuple[int, ...]) -> None:
    texts = (".common .global .u32 a;", ".common .global .u32 a[4];", ".common .global .u32 a[2];")
    last = ".extern .global .u32 a[];" + kernel("st.global.u32 [a+12], 3;" + reads("a", "a+12"))
    assert taking(client, *(texts[at] for at in order), last) == [0, 3, 0, 0]


SIZE = "Size doesn't match for 'a' in '1', first specified in '0'"
TWICE = "Multiple definition of '{}' in '1', first defined in '0'"
REFUSED = {
    "a larger common variable after": (
        (".visible .global .u32 a = 1;", ".common .global .u32 a[2];"),
        "Common symbol 'a' in file '1' has larger size than initialization",
    ),
    "a larger common variable before": (
        (".common .global .u32 a[2];", ".weak .global .u32 a = 1;"),
        "Common symbol 'a' in file '0' has larger size than initialization",
    ),
    "a smaller one than what is not initialized": ((".weak .global .u32 a[2];", ".common .global .u32 a;"), SIZE),
    "a declaration of another size": ((".extern .global .u32 a;", ".common .global .u32 a[2];"), SIZE),
    "two definitions": ((".visible .global .u32 a;", ".visible .global .u32 a;"), TWICE.format("a")),
    "a definition after a visible declaration": (
        (".visible .func (.param .b32 r) f();" + function(1), function(2, ".visible")),
        TWICE.format("f"),
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_definitions_that_nvlink_refuses_are_refused(client: Any, case: str) -> None:
    texts, wanted = REFUSED[case]
    error, kept = ctypes.create_string_buffer(1000), []  # type: ignore[var-annotated]
    state = begin(client, error, kept)
    assert add(client, state, HEAD + texts[0], name=b"0") == 0
    assert add(client, state, HEAD + texts[1], name=b"1") == 300
    assert error.value.decode() == f"error   : {wanted}"
    client.do("cuLinkDestroy", state)


def test_a_link_belongs_to_its_context(client: Any) -> None:
    context = client.get("cuCtxCreate_v2", 0, 0)
    state = begin(client)
    client.do("cuCtxDestroy_v2", context)
    assert add(client, state, CALLS) != 0 and client.code("cuLinkDestroy", state) != 0


# -- libraries


def load(client: Any, code: str = KERNELS) -> int:
    """Load a library without logs."""
    assert client.code("cuLibraryLoadData", OUT, code.encode(), 0, 0, 0, 0, 0, 0) == 0
    return OUT.value


def test_a_library_and_its_kernels(client: Any) -> None:
    library = load(client)
    assert client.get_int("cuLibraryGetKernelCount", library) == 8 and client.live() == {"library": 1}
    handles = (ctypes.c_uint64 * 3)()
    client.do("cuLibraryEnumerateKernels", handles, 3, library)
    kernel = client.get("cuLibraryGetKernel", library, b"store")
    assert kernel == handles[0]
    assert ctypes.string_at(client.get("cuKernelGetName", kernel)) == b"store"
    assert client.get("cuKernelGetLibrary", kernel) == library
    function = client.get("cuKernelGetFunction", kernel)
    module = client.get("cuLibraryGetModule", library)
    assert client.get("cuModuleGetFunction", module, b"store") == function
    assert client.code("cuModuleUnload", module) == 1 and "belongs to a library" in client.emulator.explain(1)
    offset, size = ctypes.c_size_t(), ctypes.c_size_t()
    client.do("cuKernelGetParamInfo", kernel, 1, offset, size)
    assert (offset.value, size.value) == (8, 4)
    assert client.code("cuKernelGetParamInfo", kernel, 2, offset, size) == 1
    assert client.get_int("cuKernelGetAttribute", 0, kernel, 0) == 1024
    assert client.code("cuKernelSetAttribute", 8, 1000, kernel, 0) == 0
    assert client.get_int("cuFuncGetAttribute", 8, function) == 1000
    assert client.code("cuKernelGetAttribute", OUT, 0, kernel, 77) == 101
    address = client.get("cuMemAlloc_v2", 4)  # a CUkernel is launched like a CUfunction
    first, second = ctypes.c_uint64(address), ctypes.c_uint32(7)
    arguments = (ctypes.c_uint64 * 2)(ctypes.addressof(first), ctypes.addressof(second))
    client.do("cuLaunchKernel", kernel, 1, 1, 1, 1, 1, 1, 0, 0, arguments, 0)
    back = ctypes.c_uint32()
    client.do("cuMemcpyDtoH_v2", back, address, 4)
    assert back.value == 7
    client.do("cuMemFree_v2", address)
    client.do("cuLibraryUnload", library)
    assert not client.live()
    for name in ("cuLibraryUnload", "cuLibraryGetModule"):
        with pytest.raises(Failed, match="400"):
            client.do(name, library) if name == "cuLibraryUnload" else client.get(name, library)


def test_the_variables_of_a_library(client: Any) -> None:
    library = load(client, HEAD + ".visible .global .u32 n = 5;\n.visible .global .attribute(.managed) .u64 m;\n")
    address, size = ctypes.c_uint64(), ctypes.c_size_t()
    client.do("cuLibraryGetGlobal", address, size, library, b"n")
    assert size.value == 4
    client.do("cuLibraryGetManaged", address, size, library, b"m")
    assert size.value == 8
    assert client.code("cuLibraryGetManaged", address, size, library, b"n") == 500
    assert client.code("cuLibraryGetGlobal", address, size, library, b"none") == 500
    assert client.code("cuLibraryGetKernel", OUT, library, b"none") == 500
    client.do("cuLibraryUnload", library)


def test_libraries_that_are_refused(client: Any, tmp_path: Path) -> None:
    assert client.code("cuLibraryLoadData", OUT, b"nonsense", 0, 0, 0, 0, 0, 0) == 200
    assert client.code("cuLibraryLoadData", OUT, (HEAD + ".entry k() { nonsense; }").encode(), 0, 0, 0, 0, 0, 0) == 218
    assert client.code("cuLibraryLoadData", OUT, 0, 0, 0, 0, 0, 0, 0) == 1
    assert client.code("cuLibraryLoadFromFile", OUT, b"/none.ptx", 0, 0, 0, 0, 0, 0) == 301
    (tmp_path / "k.ptx").write_text(KERNELS)
    assert client.code("cuLibraryLoadFromFile", OUT, str(tmp_path / "k.ptx").encode(), 0, 0, 0, 0, 0, 0) == 0
    client.do("cuLibraryUnload", OUT.value)
    assert not client.live()
