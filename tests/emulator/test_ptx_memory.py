"""Memory in kernels: every space and width, generic addresses, initializers, and every kind of invalid access."""

from __future__ import annotations

import re
import struct
from typing import Any

import pytest

from tests.emulator.emulator_client import Client
from tests.emulator.ptx_client import HEAD, Fault, Machine, kernel, rejection

BOTH = ".param .u64 out, .param .u64 in"


def fails(
    body: str, code: int, words: str, parameters: str = ".param .u64 out", before: str = "", **launch: object
) -> Fault:
    """Run a kernel on a 40-byte buffer of ints; return its fault."""
    here = Machine(kernel(body, parameters, before=before))
    extra = [0] * parameters.count(",")
    with pytest.raises(Fault, match=words) as caught:
        here.run("k", here.buffer("I", list(range(10))), *extra, **launch)  # type: ignore[arg-type]
    assert caught.value.code == code
    assert "kernel k" in caught.value.report and "block (0, 0, 0)" in caught.value.report
    return caught.value


def values(
    body: str, code: str, count: int, before: str = "", given: tuple = (), head: str = HEAD, **launch: object
) -> list:
    """Run a kernel that fills a buffer; return the content."""
    here = Machine(kernel(body, BOTH if given else ".param .u64 out", head=head, before=before))
    out = here.buffer(code, [0] * count)
    here.run("k", out, *((here.buffer(*given),) if given else ()), **launch)  # type: ignore[arg-type]
    return out.values()


# -- invalid accesses


def test_past_the_end() -> None:
    report = fails(
        "mov.u32 %r1, 7;\n st.global.u32 [%out+40], %r1;",
        700,
        r"^out-of-bounds write of 4 bytes in (.*\n)*    address 0x[0-9a-f]+: "
        r"0 bytes past the end of a 40-byte device allocation",
    ).report
    assert "ptx line 16" in report and "thread (0, 0, 0)" in report


def test_the_last_bytes_past_the_end() -> None:
    fails(
        "ld.global.u64 %d1, [%out+32];\n ld.global.v2.u64 {%d1, %d2}, [%out+32];",
        700,
        r"^out-of-bounds read of 16 bytes in (.*\n)*    address 0x[0-9a-f]+: "
        "the last 8 of 16 bytes lie past the end of a 40-byte",
    )


def test_before_the_start() -> None:
    fails("ld.global.u8 %r1, [%out+-1];", 700, "1 bytes before the start of a 40-byte device allocation")


def test_a_null_pointer() -> None:
    fails("mov.u64 %d1, 0;\n ld.global.u32 %r1, [%d1];", 700, "address 0x0: a null pointer\n")
    fails("mov.u64 %d1, 1048572;\n ld.global.u32 %r1, [%d1];", 700, "a null pointer plus 1048572 bytes\n")
    fails("mov.u64 %d1, 1048576;\n ld.global.u32 %r1, [%d1];", 700, "not device memory; is it a host address")
    fails("mov.u64 %d1, 0;\n ld.u64 %d2, [%d1+-8];", 700, "address 0xfffffffffffffff8: a null pointer minus 8 bytes\n")


@pytest.mark.parametrize(
    "given,words",
    [
        ((1, 0), "argument 2, counted from 0, is 0"),
        ((0, 0), "arguments 1 and 2, counted from 0, are 0"),
        ((1, 1), ""),
    ],
)
def test_the_argument_that_is_a_null_pointer(given: tuple[int, int], words: str) -> None:
    parameters = ".param .u64 out, .param .u64 a, .param .u64 b, .param .u32 count, .param .u32 other"
    here = Machine(kernel("mov.u64 %d1, 0; ld.global.u32 %r1, [%d1+40];", parameters))
    far = [each * (5 << 48) for each in given]
    with pytest.raises(Fault) as caught:
        here.run("k", here.buffer("I", 1), *far, 0, 0)
    named = f"; {words}" if words else ""
    assert f"address 0x28: a null pointer plus 40 bytes{named}\n" in caught.value.report


def test_a_host_address() -> None:
    fails("mov.u64 %d1, 0x7fff12345670;\n ld.global.u32 %r1, [%d1];", 700, "is it a host address")


def test_memory_that_was_freed() -> None:
    here = Machine(kernel("ld.global.u32 %r1, [%out+4];"))
    out = here.buffer("I", 10)
    here.run("k", out)
    here.space.free(out.address)
    with pytest.raises(Fault, match="4 bytes into a 40-byte device allocation that was freed") as caught:
        here.run("k", out)
    assert caught.value.code == 700


@pytest.mark.parametrize("size", [0, (8 << 20) + 1])
def test_no_memory_of_the_device_heap_is_null(size: int) -> None:
    body = f".param .b64 p; st.param.b64 [p], {size}; .param .b64 q; call (q), malloc, (p); ld.param.b64 %d1, [q];"
    before = ".extern .func (.param .b64 r) malloc (.param .b64 a);\n"
    assert values(f"{body} st.global.b64 [%out], %d1;", "Q", 1, before=before) == [0]


def test_memory_that_is_freed_while_the_kernel_runs() -> None:
    """The code has the allocation in its cache, and still finds out that it was freed."""
    body = """
    .param .b64 p;
    st.param.b64 [p], 16;
    .param .b64 q;
    call (q), malloc, (p);
    ld.param.b64 %d1, [q];
    mov.u32 %r1, 0;
L:  ld.global.u32 %r2, [%d1];
    add.u32 %r1, %r1, 1;
    setp.eq.u32 %p1, %r1, 2;
    st.param.b64 [p], %d1;
    @%p1 call free, (p);
    setp.lt.u32 %p1, %r1, 5;
    @%p1 bra L;
"""
    before = ".extern .func (.param .b64 r) malloc (.param .b64 a);\n.extern .func free (.param .b64 a);\n"
    fails(
        body,
        700,
        r"^use-after-free read of 4 bytes in (.*\n)*    address .* "
        "0 bytes into a 16-byte device allocation 'malloc in a kernel' that was freed",
        before=before,
    )


@pytest.mark.parametrize(
    "instruction,width",
    [
        ("ld.global.u16 %h1, [%out+1]", 2),
        ("ld.global.u32 %r1, [%out+2]", 4),
        ("st.global.f64 [%out+4], %g1", 8),
        ("ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%out+8]", 16),
        ("ld.u32 %r1, [%out+2]", 4),
        ("atom.global.add.u32 %r1, [%out+2], 1", 4),
    ],
)
def test_misalignment(instruction: str, width: int) -> None:
    fails(
        f"mov.f64 %g1, 0d0000000000000000;\n {instruction};",
        716,
        rf"^misaligned .* of {width} bytes in (.*\n)*    address 0x[0-9a-f]+ is not a multiple of {width}",
    )


def test_a_misaligned_access_names_the_memory_and_the_argument() -> None:
    here = Machine(kernel("ld.param.u64 %d1, [in]; ld.v2.u32 {%r1, %r2}, [%d1+4];", BOTH))
    with pytest.raises(Fault) as caught:
        here.run("k", here.buffer("I", 1), here.buffer("I", 4))
    assert re.search(
        r"address 0x[0-9a-f]+ is not a multiple of 8: 4 bytes into a 16-byte device allocation at 0x[0-9a-f]+; "
        "this is the memory of argument 1, counted from 0: in\n",
        caught.value.report,
    )


def test_a_misaligned_access_names_the_shared_variable() -> None:
    before = ".extern .shared .align 4 .b8 rest[];\n"
    body = ".shared .align 4 .b8 one[12]; .shared .align 16 .b8 two[20]; mov.u32 %r1, {}; ld.shared.u64 %d1, [%r1+{}];"
    for name, offset, size, kind in (
        ("one", 4, 12, "shared"),
        ("two", 12, 20, "shared"),
        ("rest", 8, 16, "dynamic shared"),
    ):
        words = f"{offset} bytes into the {size}-byte {kind} variable '{name}'"
        fails(body.format(name, offset) + "mov.u32 %r2, rest;", 716, words, before=before, shared=16)


def test_a_misaligned_access_in_a_parameter() -> None:
    body = "mov.b64 %d1, out; cvta.param.u64 %d1, %d1; ld.u32 %r1, [%d1+{}];"
    fails(body.format(2), 716, "parameter address 0x2 is not a multiple of 4: 2 bytes into the kernel's 8 bytes of")
    fails(body.format(8), 700, "parameter address 0x8: 0 bytes past the end of the kernel's 8 bytes of parameters")


def test_shared_memory_has_exact_bounds() -> None:
    body = ".shared .align 4 .b8 kept[10];\n mov.u32 %r1, kept;\n {}"
    fails(
        body.format("ld.shared.u32 %r2, [%r1+8];"),
        700,
        r"^out-of-bounds read of 4 bytes in (.*\n)*    shared address 0x8: "
        "the last 2 of 4 bytes lie past the end of the block's 10 bytes of shared memory",
    )
    fails(
        body.format("st.shared.u8 [%r1+10], %r2;"),
        700,
        "shared address 0xa: 0 bytes past the end of the block's 10 bytes",
    )
    fails(
        body.format("st.shared.u16 [%r1+1], %r2;"),
        716,
        "shared address 0x1 is not a multiple of 2: 1 bytes into the 10-byte shared variable 'kept'",
    )
    fails(
        body.format("ld.shared.u8 %r2, [%r1+-1];"),
        700,
        "shared address 0xffffffff: 1 bytes before the start of the block's 10 bytes",
    )
    fails(
        body.format("cvt.u64.u32 %d1, %r1; cvta.shared.u64 %d1, %d1; ld.u8 %r2, [%d1+10];"),
        700,
        "shared address 0xa: 0 bytes past the end of the block's 10 bytes of shared memory",
    )
    fails(
        body.format("cvt.u64.u32 %d1, %r1; cvta.shared.u64 %d1, %d1; ld.global.u8 %r2, [%d1];"),
        700,
        "a generic address of shared memory, used as a global one",
    )


def test_shared_addresses_wrap_round() -> None:
    """Compilers write kept[63 - t] so: a negative register, and a positive offset."""
    body = (
        ".shared .align 8 .b8 kept[16]; mov.u32 %r1, -8; st.shared.u32 [%r1+{}], 5; ld.shared.u32 %r2, [%r1+{}]; "
        "st.global.u32 [%out], %r2;"
    )
    assert values(body.format(12, 12), "I", 1) == [5]
    fails(body.format(4, 4), 700, r"^out-of-bounds write of 4 bytes in (.*\n)*    shared address 0xfffffffc")
    fails(body.format(24, 24), 700, "shared address 0x10: 0 bytes past the end")
    fails("mov.u32 %r1, -6; st.shared.u32 [%r1+8], 5;", 716, "shared address .* is not a multiple of 4", before="")
    assert values(
        ".shared .b8 kept[4]; mov.u64 %d1, -1; st.shared.u8 [%d1+3], 7; "
        "ld.shared.u8 %r1, [kept+2]; st.global.u32 [%out], %r1;",
        "I",
        1,
    ) == [7]


def test_shared_memory_of_one_kernel_does_not_hide_the_overrun_of_another() -> None:
    other = ".visible .entry big() { .shared .b8 large[4096]; .reg .b32 %r; mov.u32 %r, large; ret; }"
    body = ".shared .align 4 .b8 kept[16];\n mov.u32 %r1, kept;\n ld.shared.u32 %r2, [%r1+16];"
    fails(body, 700, "past the end of the block's 16 bytes", before=other)


def test_local_memory_has_exact_bounds() -> None:
    body = ".local .align 8 .b8 kept[16];\n mov.u64 %d1, kept;\n {}"
    fails(
        body.format("ld.local.u32 %r1, [%d1+16];"),
        700,
        r"^out-of-bounds read of 4 bytes in (.*\n)*    local address 0x[0-9a-f]+: "
        "0 bytes past the end of a function's 16 bytes of variables",
    )
    fails(
        body.replace("16", "12").format("ld.local.u64 %d2, [%d1+8];"),
        700,
        "the last 4 of 8 bytes lie past the end of a function's 12 bytes of variables",
    )
    fails(
        body.format("ld.local.u64 %d2, [%d1+4];"),
        716,
        "is not a multiple of 8: 4 bytes into a function's 16 bytes of variables",
    )
    fails(body.format("ld.local.u32 %r1, [%d1+-4];"), 700, "4 bytes before the start of a function's 16 bytes")
    fails("mov.u64 %d1, 64; ld.local.u32 %r1, [%d1];", 700, "local address 0x40: this thread has no local memory")
    fails(
        body.format("cvta.local.u64 %d1, %d1; st.u8 [%d1+16], %r1;"),
        700,
        "0 bytes past the end of a function's 16 bytes",
    )


def test_constants_have_exact_bounds() -> None:
    before = ".const .align 4 .u32 table[2] = {1, 2};\n"
    fails(
        "ld.const.u32 %r1, [table+8];",
        700,
        "0 bytes past the end of a 8-byte variable allocation '.const table'",
        before=before,
    )


CONSTANTS = ".const .align 16 .b8 c[64] = {1};\n.const .align 4 .b8 other[16];\n.global .align 4 .b8 g[64];\n"


@pytest.mark.parametrize("executor", ["scalar", "numpy"])
@pytest.mark.parametrize("threads", ["%p1", "!%p1"], ids=["all", "some"])
def test_what_is_not_constant_memory_is_not_read_as_such(threads: str, executor: str) -> None:
    """The other threads read constant memory with the same instruction."""
    body = (
        "mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 4; mov.u64 %d1, {}; mov.u64 %d2, c;\n"
        f"@{threads} mov.u64 %d2, %d1;\n setp.eq.u32 %p1, %r1, 2;\n @%p1 mov.u64 %d2, %d1;\n"
        "ld.const.u32 %r2, [%d2+4]; st.global.u32 [%out], %r2;"
    )
    for target in ("%out", "g"):
        here = Machine(kernel(body.format(target), before=CONSTANTS), executor=executor)
        with pytest.raises(
            Fault, match=r"^out-of-bounds read of 4 bytes in (.*\n)*.*which is not constant mem"
        ) as caught:
            here.run("k", here.buffer("I", [0] * 4), block=4)
        assert caught.value.code == 700
    here = Machine(kernel(body.format("other"), before=CONSTANTS), executor=executor)
    here.run("k", here.buffer("I", [0] * 4), block=4)


@pytest.mark.parametrize("executor", ["scalar", "numpy"])
@pytest.mark.parametrize(
    "store",
    ["st.u32 [%d2], 9", "st.global.u32 [%d2+4], 9", "st.global.v2.u32 [%d2+8], {%r1, %r1}",
     "atom.global.add.u32 %r2, [%d2], 1", "red.add.u32 [%d2], 1", "atom.cas.b32 %r2, [%d2], 1, 9"],
)  # fmt: skip
def test_kernels_write_no_constant_memory(store: str, executor: str) -> None:
    before = f"mov.u32 %r1, %tid.x; mov.u64 %d2, c; cvta.const.u64 %d2, %d2;\n{store};"
    here = Machine(kernel(before, before=CONSTANTS), executor=executor)
    with pytest.raises(
        Fault, match=r"bytes in (.*\n)* +address 0x.* '.const c'.*, which kernels may only read"
    ) as caught:
        here.run("k", here.buffer("I", [0]), block=4)
    assert caught.value.code == 700
    assert bytes(here.code.variables["c"].data) == b"\1" + bytes(63)


@pytest.mark.parametrize("executor", ["scalar", "numpy"])
def test_constant_memory_is_read_through_every_address(executor: str) -> None:
    body = """
    mov.u64 %d1, c; ld.const.u32 %r1, [c]; ld.const.u32 %r2, [%d1];
    cvta.const.u64 %d2, %d1; ld.u32 %r3, [%d2]; ld.global.u32 %r4, [%d2]; cvta.to.const.u64 %d3, %d2;
    ld.const.v2.u32 {%r5, %r6}, [%d3]; st.global.v4.u32 [%out], {%r1, %r2, %r3, %r4}; st.global.u32 [%out+16], %r5;
"""
    here = Machine(kernel(body, before=CONSTANTS), executor=executor)
    out = here.buffer("I", [0] * 5)
    for value in (1, 7):
        here.code.variables["c"].data[0] = value
        here.run("k", out, block=4)
        assert out.values() == [value] * 5


def test_a_store_to_constant_memory_that_may_be_late_is_reported() -> None:
    """In the random mode, what delays stores leaves out one that has failed."""
    client = Client("random", seed=1)
    body = (
        "mov.u64 %d1, c; cvta.const.u64 %d1, %d1; st.u32 [%d1], 9; L: ld.volatile.global.u32 %r1, [%out];\n"
        "setp.eq.u32 %p1, %r1, 5; @%p1 bra L;"
    )
    function = client.get("cuModuleGetFunction", client.load(kernel(body, before=CONSTANTS)), b"k")
    assert (
        client.launch(function, [client.upload(bytes(4))], grid=(2, 1, 1)) or client.code("cuCtxSynchronize")
    ) == 700
    assert "which kernels may only read" in client.emulator.reports[-1]


def test_parameters_have_exact_bounds() -> None:
    fails("mov.b64 %d1, out;\n ld.param.u32 %r1, [%d1+8];", 700, "there are 8 bytes of parameters")


def test_a_pointer_to_no_function() -> None:
    body = (
        "P: .callprototype (.param .b32 _) _ (.param .b32 _);\n .param .b32 a; .param .b32 b;\n"
        " st.param.b32 [a], 1;\n call (b), %out, (a), P;"
    )
    fails(body, 718, "call of address 0x[0-9a-f]+, which is not the address of a function")


ARMS = "X0: mov.u32 %r2, 1;\nX1: mov.u32 %r2, 2;\nst.global.u32 [%out], %r2;"
WAYS = {
    "nested": ("", "X0, X1", ARMS),
    "one target": ("", "X0", ARMS),
    "many targets": ("", ", ".join(f"X{at % 2}" for at in range(150)), ARMS),
    "a loop with two entries": (  # cannot be nested
        "mov.u32 %r3, %tid.y; setp.ne.u32 %p1, %r3, 0; @%p1 bra Z;\nY: add.u32 %r3, %r3, 1;\n"
        "Z: add.u32 %r3, %r3, 1; setp.lt.u32 %p1, %r3, 4; @%p1 bra Y;\n", "X0, X1", ARMS,
    ),
    "with undefined values": (".shared .align 4 .b8 s[4]; ld.shared.u32 %r4, [s]; add.u32 %r4, %r4, 1;\n", "X0, X1",
                              f"{ARMS}\nselp.u32 %r5, %r2, %r4, 1;"),
}  # fmt: skip


@pytest.mark.parametrize("executor", ["scalar", "numpy"])
@pytest.mark.parametrize("way", WAYS)
def test_a_branch_beyond_its_table(way: str, executor: str) -> None:
    """The last index of a table is its last target, and each further one has no target."""
    start, targets, arms = WAYS[way]
    count = targets.count(",") + 1
    here = Machine(kernel(
        f"{start}ld.param.u32 %r9, [n]; mov.u32 %r1, %tid.x; setp.ne.u32 %p2, %r1, 3; selp.u32 %r1, 0, %r9, %p2;\n"
        f"T: .branchtargets {targets};\nbrx.idx %r1, T;\n{arms}", ".param .u64 out, .param .u32 n",
    ), executor=executor)  # fmt: skip
    out = here.buffer("I", [0])
    here.run("k", out, count - 1, block=4)
    assert out.values() == [2]
    for wrong in (count, 0xFFFFFFFF):
        with pytest.raises(Fault, match=f"brx.idx has index {wrong}, and the table has {count} targets") as caught:
            here.run("k", out, wrong, block=4)
        assert caught.value.code == 718 and "thread (3, 0, 0)" in caught.value.report
        assert str(caught.value).startswith("a branch beyond its table in k()")


def test_a_trap() -> None:
    fails("trap;", 719, "trap instruction(?!.*cooperative)")


def test_an_assertion() -> None:
    before = """.extern .func __assertfail (.param .b64 m, .param .b64 f, .param .b32 l, .param .b64 n, .param .b64 s);
.global .align 1 .b8 message[6] = {120, 32, 62, 32, 48, 0};
.global .align 1 .b8 file[5] = {97, 46, 99, 117, 0};
"""
    body = """
    .param .b64 m; .param .b64 f; .param .b32 l; .param .b64 n; .param .b64 s;
    mov.u64 %d1, message; mov.u64 %d2, file;
    st.param.b64 [m], %d1; st.param.b64 [f], %d2; st.param.b32 [l], 42; st.param.b64 [n], %d2; st.param.b64 [s], 1;
    call __assertfail, (m, f, l, n, s);
"""
    fails(body, 710, r"a.cu:42: a.cu: block: \[0,0,0\], thread: \[0,0,0\] Assertion `x > 0` failed", before=before)


def test_a_stack_that_overflows() -> None:
    deep = """.func f(.param .b32 n) {
    .local .align 8 .b8 kept[4096];
    .reg .b32 %r<3>; .reg .b64 %d<2>;
    ld.param.u32 %r1, [n]; mov.u64 %d1, kept; st.local.u32 [%d1], %r1; add.u32 %r2, %r1, 1;
    { .param .b32 a; st.param.b32 [a], %r2; call f, (a); }
    ret; }
"""
    fails("{ .param .b32 a; st.param.b32 [a], 0; call f, (a); }", 719, "stack overflow", before=deep)
    fails(
        "{ .param .b32 a; st.param.b32 [a], 0; call f, (a); }",
        719,
        "stack overflow",
        before=deep.replace(".local .align 8 .b8 kept[4096];", ".local .align 8 .b8 kept[8];"),
    )


def test_where_it_was_called_from_and_where_that_is_in_the_source() -> None:
    before = (
        '.file 7 "demo.cu"\n.func f(.param .b64 p) {\n.reg .b64 %d; .reg .b32 %r;\n.loc 7 12 3\n'
        "ld.param.u64 %d, [p];\nld.u32 %r, [%d];\nret; }\n"
    )
    body = ".loc 7 30 1\n{ .param .b64 a; st.param.b64 [a], 8; call f, (a); }"
    report = fails(body, 700, "a null pointer plus 8 bytes", before=before).report
    assert "ptx line 9 (demo.cu:12), called from ptx line 23 (demo.cu:30), kernel k" in report


def test_a_fault_leaves_the_python_source_for_a_debugger() -> None:
    import linecache
    import traceback

    here = Machine(kernel("ld.global.u32 %r1, [%out+400];"))
    with pytest.raises(Fault) as caught:
        here.run("k", here.buffer("I", 1))
    cause = caught.value.__cause__
    assert cause is not None
    lines = [frame for frame in traceback.extract_tb(cause.__traceback__) if frame.filename == here.code.filename]
    assert lines and "L.reach(r_out, 400, " in str(lines[-1].line)
    assert linecache.getline(here.code.filename, 1).startswith("def k0_k(L, B):")
    here.code.unload()
    assert linecache.getline(here.code.filename, 1) == ""


@pytest.mark.parametrize("into_a_file", [False, True])
def test_a_breakpoint_shows_the_registers_by_their_names(into_a_file: bool, tmp_path: Any) -> None:
    """As in pdb: a line of the generated source is found by its PTX line, and the frame has the registers as locals."""
    import bdb
    import linecache

    text = kernel(
        "mov.u32 %r7, %tid.x;\nmul.lo.s32 %r8, %r7, 100;\ncvt.rn.f32.u32 %f3, %r7;\nadd.f32 %f3, %f3, 0f3F000000;\n"
        "st.global.u32 [%out], %r8;"
    )
    dumped = tmp_path / "dumped.py"

    def dump(source: str) -> str:
        dumped.write_text(source)
        return str(dumped)

    here = Machine(text, dump=dump if into_a_file else None, executor="scalar")
    assert (here.code.filename == str(dumped)) == into_a_file
    number = next(at for at, line in enumerate(text.split("\n"), 1) if "st.global" in line)
    source = linecache.getlines(here.code.filename)
    stops = [at for at, line in enumerate(source, 1) if line.rstrip().endswith(f"# {number}")]
    assert stops
    seen = []

    class Debugger(bdb.Bdb):
        def user_line(self, frame: Any) -> None:
            if frame.f_code.co_filename == here.code.filename and frame.f_lineno == stops[0]:
                seen.append({name: frame.f_locals.get(name) for name in ("r_r7", "r_r8", "r_f3", "t")})
            self.set_continue()

    out = here.buffer("I", 1)
    debugger = Debugger()
    assert debugger.set_break(here.code.filename, stops[0]) is None
    debugger.runcall(here.run, "k", out, block=3)
    assert seen == [{"r_r7": t, "r_r8": 100 * t, "r_f3": t + 0.5, "t": t} for t in range(3)] and out.values() == [200]


def test_printf_reaches_pythons_stdout() -> None:
    import contextlib
    import io

    before = """
.extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);
.global .align 1 .b8 format[] = {116, 37, 100, 32, 37, 46, 50, 102, 10, 0};
"""
    body = """
    .local .align 8 .b8 given[16]; .reg .b64 %p1x;
    mov.u32 %r1, %tid.x; st.local.u32 [given], %r1; st.local.f64 [given+8], 0d3FF8000000000000;
    mov.u64 %d1, given; cvta.local.u64 %d2, %d1; mov.u64 %d3, format; cvta.global.u64 %d4, %d3;
    { .param .b64 a; .param .b64 b; .param .b32 c; st.param.b64 [a], %d4; st.param.b64 [b], %d2;
      call (c), vprintf, (a, b); ld.param.b32 %r2, [c]; }
"""
    here = Machine(kernel(body, before=before))
    with contextlib.redirect_stdout(io.StringIO()) as written:
        here.run("k", here.buffer("I", 1), block=2)
    assert written.getvalue() == "t0 1.50\nt1 1.50\n"


# -- valid accesses

LOADS = [
    ("u8", "B", 0x81),
    ("s8", "b", -127),
    ("u16", "H", 0x8102),
    ("s16", "h", -32766),
    ("u32", "I", 0x81020304),
    ("s32", "i", -2130574332),
]


@pytest.mark.parametrize("type,code,value", LOADS)
@pytest.mark.parametrize("register,wide", [("%r1", 32), ("%d1", 64)])
def test_narrow_loads_extend(type: str, code: str, value: int, register: str, wide: int) -> None:
    got = values(
        f"ld.param.u64 %d9, [in]; ld.global.{type} {register}, [%d9]; st.global.u{wide} [%out], {register};",
        "Q",
        1,
        given=(code, [value]),
    )
    assert got == [value & (1 << wide) - 1]


def test_narrow_stores_cut() -> None:
    assert values(
        "mov.u32 %r1, 0x12345678; st.global.u8 [%out], %r1; st.global.u16 [%out+2], %r1; st.global.s8 [%out+4], %r1;",
        "B",
        6,
    ) == [0x78, 0, 0x78, 0x56, 0x78, 0]


def test_vectors_with_sinks_and_constants() -> None:
    body = (
        "ld.param.u64 %d9, [in]; ld.global.v4.u32 {%r1, _, %r2, %f1}, [%d9]; "
        "st.global.v4.f32 [%out], {%f1, 0f3F800000, %r2, %r1};"
    )
    assert values(body, "I", 4, given=("I", [1, 2, 3, 4])) == [4, 0x3F800000, 3, 1]


def test_generic_addresses_reach_every_space() -> None:
    before = ".global .u32 g = 5;\n.const .u32 c = 6;\n"
    body = """
    .shared .u32 s; .local .u32 l;
    mov.u64 %d1, g; cvta.global.u64 %d1, %d1; ld.u32 %r1, [%d1];
    cvta.const.u64 %d2, c; ld.u32 %r2, [%d2];
    mov.u32 %r3, s; cvt.u64.u32 %d3, %r3; cvta.shared.u64 %d3, %d3; st.u32 [%d3], 7; ld.shared.u32 %r3, [s];
    mov.u64 %d4, l; cvta.local.u64 %d4, %d4; st.u32 [%d4], 8; ld.local.u32 %r4, [l];
    cvta.param.u64 %d5, out; ld.u64 %d6, [%d5]; sub.u64 %d6, %d6, %out; cvt.u32.u64 %r5, %d6;
    cvta.to.shared.u64 %d7, %d3; cvt.u32.u64 %r6, %d7;
    isspacep.shared %p1, %d3; selp.u32 %r7, 1, 0, %p1; isspacep.global %p1, %d3; selp.u32 %r8, 1, 0, %p1;
    isspacep.local %p1, %d4; selp.u32 %r9, 1, 0, %p1; isspacep.global %p1, %d1; selp.u32 %r10, 1, 0, %p1;
    isspacep.const %p1, %d2; selp.u32 %r11, 1, 0, %p1;
    st.global.v4.u32 [%out], {%r1, %r2, %r3, %r4}; st.global.v4.u32 [%out+16], {%r5, %r6, %r7, %r8};
    st.global.v2.u32 [%out+32], {%r9, %r10}; st.global.u32 [%out+40], %r11;
"""
    assert values(body, "I", 12, before=before) == [5, 6, 7, 8, 0, 0, 1, 0, 1, 1, 1, 0]


def test_initialisers() -> None:
    before = """
.func f() { ret; }
.global .align 4 .b8 bytes[6] = {1, 2, 0xff};
.global .align 4 .u16 grid[2][3] = {{1, 2}, {3, 4, 5}};
.global .f32 floats[3] = {0f3F800000, -2.5, 1.0};
.global .f64 doubles[2] = {0d3FF8000000000000, 1e10};
.global .s32 numbers[] = {-1, 1 << 4 | 3, ~0, (5 + 2) * 3};
.global .u64 addresses[3] = {bytes, generic(grid) + 4, f};
.global .align 4 .b8 parts[4] = {0xFF(bytes), 0xFF00(bytes), 7, 8};
.global .v2 .f32 pair = {1.5, 2.0};
.global .v2 .u16 pairs[] = {{1, 2}, {3, 4}, {5, 6}};
.global .u8 deep[2][2][2] = {{{1}, {}}, {{3, 4}}};
"""
    here = Machine(kernel("", before=before))
    memory = {name: bytes(found.data) for name, found in here.code.variables.items()}
    base = {name: found.base for name, found in here.code.variables.items()}
    assert memory["bytes"] == b"\1\2\xff\0\0\0"
    assert struct.unpack("<6H", memory["grid"]) == (1, 2, 0, 3, 4, 5)
    assert struct.unpack("<3f", memory["floats"]) == (1.0, -2.5, 1.0)
    assert struct.unpack("<2d", memory["doubles"]) == (1.5, 1e10)
    assert struct.unpack("<4i", memory["numbers"]) == (-1, 19, -1, 21)
    addresses = struct.unpack("<3Q", memory["addresses"])
    assert addresses[:2] == (base["bytes"], base["grid"] + 4) and addresses[2] > 2**48
    assert memory["parts"] == bytes([base["bytes"] & 255, base["bytes"] >> 8 & 255, 7, 8])
    assert struct.unpack("<2f", memory["pair"]) == (1.5, 2.0)
    assert struct.unpack("<6H", memory["pairs"]) == (1, 2, 3, 4, 5, 6)
    assert memory["deep"] == bytes([1, 0, 0, 0, 3, 4, 0, 0])


def test_several_variables_of_one_type() -> None:
    before = ".global .align 8 .u32 a, b[2] = {1, 2}, c = 3;\n.const .f32 x = 1.5, y;\n"
    body = (
        ".shared .u32 s, t[2]; .local .b8 l[3], m; .param .b32 p, q; "
        "st.param.b32 [q], 7; ld.param.b32 %r1, [q]; st.global.u32 [%out], %r1;"
    )
    assert values(body, "I", 1, before=before) == [7]
    found = Machine(HEAD + before).code.variables
    assert {name: bytes(made.data) for name, made in found.items()} == {
        "a": bytes(4),
        "b": struct.pack("<2I", 1, 2),
        "c": struct.pack("<I", 3),
        "x": struct.pack("<f", 1.5),
        "y": bytes(4),
    }
    assert all(found[name].base % 8 == 0 for name in "abc")


@pytest.mark.parametrize(
    "written,value",
    [
        # the .u64 value of each in ptxas 13.0; None: Constant overflow
        ("18446744073709551615", 2**64 - 1),
        ("18446744073709551616", 0),
        ("18446744073709551639", 0x17),
        ("28446744073709551616", 10**19),
        ("184467440737095516150", None),
        ("99999999999999999999", None),
        ("92233720368547758080", None),
        ("36893488147419103231", 2**64 - 1),
        ("0x1234567890abcdef55", 0x34567890ABCDEF55),
        ("0xfffffffffffffffff", None),
        ("0x1ffffffffffffffff", 2**64 - 1),
        ("0x1000000000000000000", 0),
        ("02000000000000000000001", 1),
        ("077777777777777777777777", None),
        ("07777777777777777777777", 2**64 - 1),
        ("0b1" + "0" * 63, 2**63),
        ("0b1" + "0" * 64, None),
        ("0" * 300 + "7", 7),
        ("0x" + "0" * 100 + "5U", 5),
    ],
)
def test_large_integer_constants(written: str, value: int | None) -> None:
    text = HEAD + f".global .u64 x[2] = {{1, {written}}};"
    if value is None:
        assert "Constant overflow" in rejection(text).log
    else:
        assert struct.unpack("<2Q", Machine(text).code.variables["x"].data) == (1, value)


@pytest.mark.parametrize(
    "type,written,value",
    [
        # the same for floating constants in untyped variables
        ("b8", "9.0", 0),
        ("b8", "0d400921fb54442d18", 0x18),
        ("b16", "0d400921fb54442d18", 0x2D18),
        ("b32", "9.0", 0x41100000),
        ("b32", "0f3f800000", 0x3F800000),
        ("b32", "0d400921fb54442d18", 0x40490FDB),
        ("b64", "0f3f800000", 0x3F800000),
        ("b64", "9.0", 0x4022000000000000),
        ("u32", "9.0", None),
        ("s64", "1.", None),
    ],
)
def test_floating_constants_in_untyped_variables(type: str, written: str, value: int | None) -> None:
    text = HEAD + f".global .{type} x = {written};"
    if value is None:
        assert "Initial value type mismatch" in rejection(text).log
    else:
        assert int.from_bytes(Machine(text).code.variables["x"].data, "little") == value


def test_uninitialised_memory_is_poison_and_variables_are_zero() -> None:
    here = Machine(
        kernel(
            ".shared .u32 s; .local .u32 l; "
            "ld.shared.u32 %r1, [s]; ld.local.u32 %r2, [l]; st.global.v2.u32 [%out], {%r1, %r2};",
            before=".global .u32 g;\n",
        )
    )
    fresh = here.buffer("I", 3)
    assert fresh.values() == [0xFBFBFBFB] * 3
    here.run("k", fresh)
    assert fresh.values() == [0xFBFBFBFB] * 3 and bytes(here.code.variables["g"].data) == bytes(4)


def test_a_register_that_was_never_written_is_poison() -> None:
    assert values("st.global.u32 [%out], %r5; st.global.u64 [%out+8], %d5;", "I", 4) == [
        0xFBFBFBFB,
        0,
        0xFBFBFBFB,
        0xFBFBFBFB,
    ]
    assert values("setp.eq.u32 %p1, 1, 2; @%p1 mov.u32 %r5, 3; st.global.u32 [%out], %r5;", "I", 1) == [0xFBFBFBFB]


def test_dynamic_shared_memory_lies_behind_the_static() -> None:
    before = ".extern .shared .align 16 .b8 dynamic[];\n"
    body = """
    .shared .align 4 .b8 fixed[20];
    mov.u32 %r1, dynamic; mov.u32 %r2, fixed; mov.u32 %r3, %dynamic_smem_size; mov.u32 %r4, %total_smem_size;
    st.shared.u32 [%r1+12], %r3; ld.shared.u32 %r5, [%r1+12];
    st.global.v4.u32 [%out], {%r1, %r2, %r4, %r5};
"""
    assert values(body, "I", 4, before=before, shared=16) == [32, 0, 256, 16]  # in units of 256 bytes
    fails(body, 700, "past the end of the block's 44 bytes", before=before, shared=12)


RESERVED = """.version 8.1
.target sm_90
.address_size 64
"""


@pytest.mark.parametrize("size", [0, 4, 1024, 40000])
@pytest.mark.parametrize("executor", ["scalar", "numpy"])
def test_reserved_shared_memory_is_outside_the_kernels_own(size: int, executor: str) -> None:
    body = f"""
    .shared .align 4 .b8 mine[{size + 4}];
    mov.b32 %r1, %reserved_smem_offset_begin; mov.b32 %r2, %reserved_smem_offset_end;
    mov.b32 %r3, %reserved_smem_offset_cap; mov.b32 %r4, %reserved_smem_offset_1; mov.b32 %r5, mine;
    mov.u32 %r6, 7; st.shared.u32 [%r5+{size}], %r6;
    ld.shared.u32 %r7, [%r4+284]; mov.u32 %r8, 9;
    st.shared.u32 [%r4], %r8; st.shared.u32 [%r2+-4], %r8; st.shared.u32 [%r1], %r8;
    cvt.u64.u32 %d1, %r4; cvta.shared.u64 %d1, %d1; ld.u32 %r9, [%d1];
    ld.shared.u32 %r6, [%r5+{size}];
    mov.u32 %r10, %total_smem_size; mov.u32 %r11, %aggr_smem_size; sub.u32 %r11, %r11, %r10;
    st.global.v4.u32 [%out], {{%r1, %r2, %r3, %r4}}; st.global.v4.u32 [%out+16], {{%r6, %r7, %r9, %r11}};
"""
    here = Machine(kernel(body, head=RESERVED), executor=executor)
    here.space.strict = True
    out = here.buffer("I", [0] * 8)
    here.run("k", out)
    begin, end, cap, place, mine, before, after, reserved = out.values()
    assert end - begin == cap == reserved == 1024 and begin >= size + 4 and not begin % 16 and not place % 16
    assert begin <= place and place + 288 <= end  # as cooperative groups need
    assert (mine, before, after) == (7, 0, 9)


@pytest.mark.parametrize("past", [0, 1000])
@pytest.mark.parametrize(
    "how", ["st.shared.u32 [mine+{}], %r1;", "st.shared.u32 [%r2+{}], %r1;", "st.u32 [%d1+{}], %r1;"]
)
def test_past_the_kernels_own_is_not_the_reserved_memory(past: int, how: str) -> None:
    body = f"""
    .shared .align 4 .b8 mine[64];
    mov.b32 %r1, %reserved_smem_offset_1; mov.b32 %r2, mine;
    cvt.u64.u32 %d1, %r2; cvta.shared.u64 %d1, %d1;
    {how.format(64 + past)}
"""
    with pytest.raises(
        Fault, match=rf"^out-of-bounds write of 4 bytes in (.*\n)*.* {past} bytes past the end of the block's 64 bytes"
    ):
        Machine(kernel(body, head=RESERVED)).run("k", 0)


@pytest.mark.parametrize("first", ["names", "calls"])
def test_only_kernels_that_reach_the_name_have_the_reserved_memory(first: str) -> None:
    """A function that both kernels call does not pass it on."""
    kernels = {
        "names": ".entry names() { .reg .b32 %r; mov.b32 %r, %reserved_smem_offset_1; call f; ret; }\n",
        "calls": ".entry calls() { call f; ret; }\n",
    }
    text = RESERVED + ".func f() { ret; }\n" + kernels.pop(first) + "".join(kernels.values())
    prepared = Machine(text).code._unit.prepared
    assert {name: made.reserves for name, made in prepared.items()} == {"names": True, "calls": False, "f": True}


@pytest.mark.parametrize("name", ["begin", "end", "cap", "0", "1"])
def test_reserved_shared_memory_needs_sm_80(name: str) -> None:
    body = f"mov.b32 %r1, %reserved_smem_offset_{name}; st.global.u32 [%out], %r1;"
    older = ".version 7.5\n.target sm_80\n.address_size 64\n", ".version 8.0\n.target sm_75\n.address_size 64\n"
    for head, wanted in zip(older, (r"PTX ISA \.version 7\.6 or later", r"\.target sm_80 or higher")):
        assert re.search(
            f"Feature '%reserved_smem_offset_{name}' requires {wanted}", rejection(kernel(body, head=head)).log
        )


def test_local_memory_is_each_threads_own() -> None:
    body = """
    .local .align 4 .b8 kept[8];
    mov.u32 %r1, %tid.x; mov.u64 %d1, kept;
    st.local.u32 [%d1+4], %r1;
    bar.sync 0;
    ld.local.u32 %r2, [%d1+4];
    mul.wide.u32 %d2, %r1, 4; add.u64 %d2, %out, %d2; st.global.u32 [%d2], %r2;
"""
    assert values(body, "I", 5, block=5) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("threads", [1, 512])
def test_volatile_local_memory(threads: int) -> None:
    """A compiler writes these for a volatile variable whose address is taken; the other orders have no local form."""
    body = """
        .local .align 4 .b8 l[8];
        mov.u32 %r1, %tid.x;
        st.volatile.local.u32 [l+4], %r1;
        ld.volatile.local.u32 %r2, [l+4];
        mad.wide.u32 %out, %r1, 4, %out;
        st.global.u32 [%out], %r2;
    """
    newest, older = (HEAD.replace("7.8", version) for version in ("9.1", "9.0"))
    assert values(body, "I", threads, head=newest, block=(threads, 1, 1)) == [*range(threads)]
    assert "requires PTX ISA .version 9.1 or later" in rejection(kernel(body, head=older)).log
    for access in ("ld.relaxed.cta.local.u32 %r2, [l];", "st.release.cta.local.u32 [l], %r2;"):
        refused = rejection(kernel(f".local .align 4 .b8 l[8];\n{access}"))
        assert "cannot be applied to '.local' space" in refused.log
    assert "'.const' space" in rejection(kernel("ld.volatile.const.u32 %r1, [c];", before=".const .u32 c;\n")).log


def test_a_parameter_block_indexed_by_a_register() -> None:
    body = """
    mov.b64 %d1, table; mov.u32 %r1, %tid.x; mul.wide.u32 %d2, %r1, 4; add.u64 %d1, %d1, %d2;
    ld.param.u32 %r2, [%d1]; add.u64 %d2, %out, %d2; st.global.u32 [%d2], %r2;
"""
    here = Machine(kernel(body, ".param .u64 out, .param .align 4 .b8 table[12]"))
    out = here.buffer("I", 3)
    here.run("k", out, struct.pack("<3I", 7, 8, 9), block=3)
    assert out.values() == [7, 8, 9]
    assert here.code.entries["k"].parameters == [(0, 8), (8, 12)]


def test_a_device_functions_parameter_has_an_address() -> None:
    before = """.func (.param .b32 r) pick(.param .align 4 .b8 table[12], .param .b32 n) {
    .reg .b64 %d<4>; .reg .b32 %r<4>;
    mov.b64 %d1, table; ld.param.u32 %r1, [n]; mul.wide.u32 %d2, %r1, 4; add.u64 %d3, %d1, %d2;
    ld.param.u32 %r2, [%d3]; st.param.b32 [r], %r2; ret; }
"""
    body = """
    .param .align 4 .b8 t[12]; .param .b32 n; .param .b32 r;
    mov.u32 %r1, %tid.x;
    st.param.b32 [t], 10; st.param.b32 [t+4], 20; st.param.b32 [t+8], 30; st.param.b32 [n], %r1;
    call (r), pick, (t, n);
    ld.param.b32 %r2, [r]; mul.wide.u32 %d2, %r1, 4; add.u64 %d2, %out, %d2; st.global.u32 [%d2], %r2;
"""
    assert values(body, "I", 3, before=before, block=3) == [10, 20, 30]


def test_register_parameters_and_several_results() -> None:
    before = """.func (.reg .u32 q, .reg .f32 h) split(.reg .u32 a, .reg .f32 b)
{ shr.u32 q, a, 1; add.f32 h, b, 0f3F000000; ret; }
"""
    body = (
        "mov.f32 %f1, 0f40000000; call (%r1, %f2), split, (9, %f1); "
        "st.global.u32 [%out], %r1; st.global.f32 [%out+4], %f2;"
    )
    assert values(body, "I", 2, before=before) == [4, struct.unpack("<I", struct.pack("<f", 2.5))[0]]


def test_calls_through_pointers() -> None:
    before = """.func (.param .b32 r) one(.param .b32 a)
{ .reg .b32 %r; ld.param.u32 %r, [a]; add.u32 %r, %r, 1; st.param.b32 [r], %r; ret; }
.func (.param .b32 r) two(.param .b32 a)
{ .reg .b32 %r; ld.param.u32 %r, [a]; shl.b32 %r, %r, 4; st.param.b32 [r], %r; ret; }
.global .u64 table[2] = {one, two};
"""
    body = """
    P: .callprototype (.param .b32 _) _ (.param .b32 _);
    mov.u32 %r1, %tid.x; mul.wide.u32 %d1, %r1, 8; mov.u64 %d2, table; add.u64 %d2, %d2, %d1; ld.global.u64 %d3, [%d2];
    { .param .b32 a; .param .b32 b; st.param.b32 [a], 5; call (b), %d3, (a), P; ld.param.b32 %r2, [b]; }
    mul.wide.u32 %d1, %r1, 4; add.u64 %d2, %out, %d1; st.global.u32 [%d2], %r2;
"""
    assert values(body, "I", 2, before=before, block=2) == [6, 80]


def test_exit_inside_a_function_ends_the_thread() -> None:
    before = ".func f() { .reg .pred %p; .reg .b32 %r; mov.u32 %r, %tid.x; setp.gt.u32 %p, %r, 0; @%p exit; ret; }\n"
    body = "call f, (); mov.u32 %r1, %tid.x; mul.wide.u32 %d1, %r1, 4; add.u64 %d1, %out, %d1; st.global.u32 [%d1], 9;"
    assert values(body, "I", 3, before=before, block=3) == [9, 0, 0]


def test_branch_tables() -> None:
    body = """
    mov.u32 %r1, %tid.x;
    T: .branchtargets L0, L1, L2;
    brx.idx %r1, T;
L0: mov.u32 %r2, 100; bra DONE;
L1: mov.u32 %r2, 200; bra DONE;
L2: mov.u32 %r2, 300;
DONE: mul.wide.u32 %d1, %r1, 4; add.u64 %d1, %out, %d1; st.global.u32 [%d1], %r2;
"""
    assert values(body, "I", 3, block=3) == [100, 200, 300]


def test_a_loop_with_two_entries() -> None:
    """Irreducible control flow cannot be nested, but runs."""
    body = """
    mov.u32 %r1, %tid.x; mov.u32 %r2, 0; setp.eq.u32 %p1, %r1, 0;
    @%p1 bra B;
A:  add.u32 %r2, %r2, 1;
B:  add.u32 %r2, %r2, 10;
    setp.lt.u32 %p2, %r2, 40;
    @%p2 bra A;
    mul.wide.u32 %d1, %r1, 4; add.u64 %d1, %out, %d1; st.global.u32 [%d1], %r2;
"""
    assert values(body, "I", 2, block=2) == [43, 44]


def test_special_registers() -> None:
    body = """
    mov.u32 %r1, %tid.y; mov.u32 %r2, %ntid.x; mov.u32 %r3, %ctaid.z; mov.u32 %r4, %nctaid.y;
    mov.u32 %r5, %laneid; mov.u32 %r6, %warpid; mov.u32 %r7, %lanemask_lt; mov.u32 %r8, %lanemask_ge;
    mov.u32 %r9, %tid.x; mov.u32 %r12, %ctaid.y; or.b32 %r10, %r9, %r1; or.b32 %r10, %r10, %r3; or.b32 %r10, %r10, %r12;
    mov.u64 %d1, %clock64; mov.u64 %d2, %globaltimer; mov.u32 %r11, %nwarpid;
    setp.eq.u32 %p1, %r9, 3; setp.eq.and.u32 %p1, %r1, 9, %p1; setp.eq.and.u32 %p1, %r3, 1, %p1;
    setp.eq.and.u32 %p1, %r12, 0, %p1;
    @!%p1 ret;
    st.global.v4.u32 [%out], {%r1, %r2, %r3, %r4}; st.global.v4.u32 [%out+16], {%r5, %r6, %r7, %r8};
    st.global.u32 [%out+32], %r11;
"""
    assert values(body, "I", 9, grid=(1, 2, 2), block=(4, 10)) == [9, 4, 1, 2, 7, 1, 0x7F, 0xFFFFFF80, 2]


def test_copies_that_need_no_thread() -> None:
    body = """
    .shared .align 16 .b8 kept[48];
    ld.param.u64 %d9, [in];
    mov.u32 %r1, kept;
    cp.async.ca.shared.global [%r1], [%d9], 8;
    cp.async.cg.shared.global [%r1+16], [%d9], 16;
    cp.async.ca.shared.global [%r1+32], [%d9], 16, 4;
    cp.async.commit_group; cp.async.wait_group 0; cp.async.wait_all;
    ld.shared.v2.u32 {%r2, %r3}, [%r1]; ld.shared.v4.u32 {%r4, %r5, %r6, %r7}, [%r1+16];
    ld.shared.v4.u32 {%r8, %r9, %r10, %r11}, [%r1+32];
    st.global.v2.u32 [%out], {%r2, %r3}; st.global.v4.u32 [%out+16], {%r4, %r5, %r6, %r7};
    st.global.v4.u32 [%out+32], {%r8, %r9, %r10, %r11};
"""
    here = Machine(kernel(body, BOTH, head=".version 7.8\n.target sm_80\n.address_size 64\n"))
    out = here.buffer("I", [9] * 12)
    here.run("k", out, here.buffer("I", [1, 2, 3, 4]))
    assert out.values() == [1, 2, 9, 9, 1, 2, 3, 4, 1, 0, 0, 0]


def test_unloading_frees_the_variables() -> None:
    here = Machine(kernel("", before=".global .u32 a;\n.const .u32 b = 2;\n.global .attribute(.managed) .u32 m;\n"))
    assert {found.label for found in here.space.live()} == {".global a", ".const b", ".global m"}
    here.code.unload()
    assert not here.space.live()
    here.code.unload()


def test_what_the_driver_reports_of_a_kernel() -> None:
    text = kernel(".local .b8 l[24]; .shared .b8 s[100]; ", before=".const .b8 c[12];\n").replace(
        ".visible .entry k(.param .u64 out)\n", ".visible .entry k(.param .u64 out)\n.reqntid 8, 4\n.minnctapersm 2\n"
    )
    entry = Machine(text).code.entries["k"]
    assert (entry.static_shared, entry.local_bytes, entry.constant_bytes) == (100, 24, 12)
    assert (entry.max_threads, entry.required_block, entry.ptx_version, entry.target) == (32, (8, 4, 1), 78, 75)
    assert 16 <= entry.registers <= 255
    assert Machine(text.replace(".reqntid 8, 4", ".maxntid 64")).code.entries["k"].max_threads == 64


PARTLY = """
.shared .align 16 .b8 s[16]; ld.param.u64 %d1, [in]; ld.param.u64 %d2, [in+8]; cvt.u32.u64 %r9, %d2; mov.u32 %r1, s;
st.shared.v4.u32 [s], {%r9, %r9, %r9, %r9};
cp.async.cg.shared.global [%r1], [%d1], 16, %r9; cp.async.wait_all;
ld.shared.v4.u32 {%r2, %r3, %r4, %r5}, [s]; st.global.v4.u32 [%out], {%r2, %r3, %r4, %r5};
"""


def partly(offset: int, size: int) -> list[int]:
    """Copy `size` of 16 bytes from a buffer of 24 to a row of four; the rest is filled with zeros."""
    here = Machine(kernel(PARTLY, ".param .u64 out, .param .align 8 .b8 in[16]", head=HEAD.replace("sm_75", "sm_80")))
    given, out = here.buffer("I", list(range(1, 7))), here.buffer("I", [9] * 4)
    here.run("k", out, struct.pack("<2Q", given.address + offset, size))
    return out.values()


def test_an_asynchronous_copy_reads_only_what_it_is_told_to() -> None:
    """The last row of a matrix is copied in this way; the memory after it is not accessed."""
    assert (
        partly(16, 8) == [5, 6, 0, 0]
        and partly(16, 0) == [0, 0, 0, 0]
        and partly(0, 16) == [1, 2, 3, 4]
        and partly(0, 6) == [1, 2, 0, 0]
    )
    assert partly(64, 0) == [0] * 4  # and the memory need not exist


@pytest.mark.parametrize("offset,size,code", [(16, 9, 700), (16, 16, 700), (64, 4, 700), (16, 200, 700), (4, 4, 716)])
def test_an_asynchronous_copy_of_too_much(offset: int, size: int, code: int) -> None:
    with pytest.raises(Fault) as caught:
        partly(offset, size)
    assert caught.value.code == code and "kernel k" in caught.value.report and "ptx line" in caught.value.report


SM_80 = HEAD.replace("sm_75", "sm_80")
DISCARD = "cvta.to.global.u64 %d2, %out; {offset} discard{space}.L2 [%d2], 128;"


@pytest.mark.parametrize(
    "offset, space, code, words",
    [
        ("add.u64 %d2, %d2, 64;", ".global", 716, "misaligned write of 128 bytes"),
        ("mov.u64 %d2, 128;", ".global", 700, "a null pointer plus 128 bytes"),
        ("mov.u64 %d2, 128;", "", 700, "a null pointer plus 128 bytes"),
        ("cvta.shared.u64 %d2, s;", "", 700, "which is not in global memory"),
        ("mov.u64 %d2, constant;", ".global", 700, "which is not in global memory"),
    ],
)
def test_a_discard_writes_a_line_of_global_memory(offset: str, space: str, code: int, words: str) -> None:
    """PTX ISA, "discard": it behaves as a weak write of an indeterminate value."""
    before = ".shared .align 128 .b8 s[128]; .const .align 128 .b8 constant[128] = {1};\n"
    here = Machine(kernel(DISCARD.format(offset=offset, space=space), head=SM_80, before=before))
    with pytest.raises(Fault, match=words) as caught:
        here.run("k", here.buffer("I", [0] * 64))
    assert caught.value.code == code


def test_what_was_discarded_is_lost() -> None:
    here = Machine(kernel(DISCARD.format(offset="", space=".global"), head=SM_80))
    out = here.buffer("I", [5] * 64)
    here.run("k", out)
    assert 5 not in out.values()[:32] and out.values()[32:] == [5] * 32
