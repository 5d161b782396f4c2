"""Addresses that a program calculates from names, constants, and declarations: ptxas is the judge of all.

The addresses of parameters of device functions, names plus an offset, windows of generic addresses, calls through
pointers, constant expressions, declarations that are refused.
"""

from __future__ import annotations

import random
import re
import struct
import subprocess
from pathlib import Path

import pytest

from tests.emulator.ptx_client import Fault, Machine, kernel, rejection
from tests.emulator.test_ptx_mutants import PTXAS
from tests.subject import module

containers = module("images.containers")
HEAD = ".version 8.7\n.target sm_90\n.address_size 64\n"
BOTH = pytest.mark.parametrize("executor", ["scalar", "numpy"])
WATCH = pytest.mark.parametrize("watch", [False, True], ids=["plain", "checked"])

# -- parameters of device functions

THROUGH = f"""{HEAD}
.func (.param .b32 r) inner(.param .align 8 .b8 p[8])
{{
    .reg .b32 %r<5>; .reg .b64 %d<5>;
    INNER
    mov.b64 %d1, p;
    ld.param.u32 %r1, [%d1];
    add.u32 %r2, %r1, 1;
    CHANGE
    st.param.b32 [r], %r1;
    ret;
}}
.func (.param .align 8 .b8 r[8]) outer(.param .b32 x)
{{
    .reg .b32 %r<5>; .reg .b64 %d<5>;
    ld.param.u32 %r1, [x];
    OUTER
    .param .align 8 .b8 q[8]; .param .b32 s;
    st.param.b32 [q], %r1; st.param.b32 [q+4], %r1;
    call (s), inner, (q);
    call (s), inner, (q);
    ld.param.b32 %r2, [s];
    mov.b64 %d1, r;
    st.local.b32 [%d1], %r2; st.param.b32 [r+4], %r1;
    ret;
}}
.visible .entry k(.param .u64 out)
{{
    .reg .b32 %r<9>; .reg .b64 %d<5>; .reg .pred %p;
    ld.param.u64 %d1, [out]; mov.u32 %r1, 0;
L:  {{ .param .b32 q; .param .align 8 .b8 s[8];
    st.param.b32 [q], %r1;
    call (s), outer, (q);
    ld.param.b32 %r2, [s]; ld.param.b32 %r3, [s+4]; }}
    add.u32 %r2, %r2, %r3;
    st.global.u32 [%d1], %r2; add.u64 %d1, %d1, 4;
    add.u32 %r1, %r1, 1; setp.lt.u32 %p, %r1, 3000; @%p bra L;
    ret;
}}
"""
LOCAL = ".local .b32 own[4]; mov.u32 %r3, 77; st.local.u32 [own], %r3;"


def through(inner: str = "", outer: str = "", change: str = "") -> str:
    return THROUGH.replace("INNER", inner).replace("OUTER", outer).replace("CHANGE", change)


@WATCH
@pytest.mark.parametrize(
    "frames", [("", ""), (LOCAL, ""), ("", LOCAL), (LOCAL, LOCAL)], ids=["no frame", "inner", "outer", "both"]
)
def test_the_address_of_a_parameter_is_that_of_this_call(frames: tuple[str, str], watch: bool) -> None:
    here = Machine(through(*frames))
    here.space.watch = watch
    out = here.buffer("I", [0] * 3000)
    here.run("k", out)
    assert out.values() == [2 * number for number in range(3000)]


def test_a_function_that_writes_to_its_parameter_does_not_change_that_of_its_caller() -> None:
    here = Machine(through(change="st.local.u32 [%d1], %r2; ld.param.u32 %r2, [p]; add.u32 %r1, %r2, 0;"))
    out = here.buffer("I", [0] * 3000)
    here.run("k", out)
    assert out.values() == [2 * number + 1 for number in range(3000)]


@pytest.mark.parametrize("name", "qs")
def test_the_parameters_of_a_call_have_no_address(name: str) -> None:
    """Only those of the function itself have one."""
    text = THROUGH.replace("ld.param.b32 %r2, [s]; ", f"mov.b64 %d2, {name}; ld.param.b32 %r2, [s]; ")
    text = text.replace(".param .b32 q; .param .align 8", ".param .align 4 .b8 q[4]; .param .align 8")
    text = text.replace("outer(.param .b32 x)", "outer(.param .align 4 .b8 x[4])")
    text = re.sub("INNER|OUTER|CHANGE", "", text)
    assert f"Illegal to take address of parameter '{name}'" in rejection(text).log


# -- names plus an offset

WRAPPED = {
    "ld.shared.u32 %r2, [a+-4];": "shared address 0xfffffffc",
    "st.shared.u32 [a+-4], %r1;": "shared address 0xfffffffc",
    "atom.shared.add.u32 %r2, [a+-4], 1;": "shared address 0xfffffffc",
    "st.shared.v2.u32 [a+-8], {%r1, %r1};": "shared address 0xfffffff8",
    "mov.u32 %r3, a+-4; ld.shared.u32 %r2, [%r3];": "shared address 0xfffffffc",
    "cp.async.ca.shared.global [a+-4], [%out], 4;": "shared address 0xfffffffc",
    "ld.local.u32 %r2, [own+-4];": "local address",
    "ld.param.u32 %r2, [out+-4];": "parameter offset",
}


@BOTH
@pytest.mark.parametrize("body", WRAPPED)
def test_what_lies_before_a_variable_is_not_at_the_other_end(body: str, executor: str) -> None:
    text = ".shared .align 16 .b32 a[64]; .local .align 8 .b32 own[4]; mov.u32 %r1, 5; st.shared.u32 [a+252], %r1;"
    here = Machine(kernel(text + body + "st.global.u32 [%out], %r2;", head=HEAD), executor=executor)
    out = here.buffer("I", [0] * 8)
    with pytest.raises(Fault, match=WRAPPED[body]) as caught:
        here.run("k", out)
    assert caught.value.code == 700


@BOTH
def test_the_address_of_a_name_has_32_bits_except_in_global_memory(executor: str) -> None:
    body = """.shared .align 16 .b32 a[64]; .local .align 8 .b32 own[4];
    mov.u32 %r1, a+-4; mov.u64 %d1, a+-4; mov.u64 %d2, own; mov.u64 %d3, own+-128; sub.u64 %d3, %d2, %d3;
    mov.u64 %d4, out+-4; mov.u64 %d5, g; mov.u64 %d6, g+-4; sub.u64 %d5, %d5, %d6; cvt.u64.u32 %d7, %r1;
    st.global.u64 [%out], %d1; st.global.u64 [%out+8], %d3; st.global.u64 [%out+16], %d4;
    st.global.u64 [%out+24], %d5; st.global.u64 [%out+32], %d7;"""
    here = Machine(kernel(body, before=".global .b32 g;\n"), executor=executor)
    out = here.buffer("Q", [0] * 5)
    here.run("k", out)
    assert out.values()[0::2] == [0xFFFFFFFC] * 3 and out.values()[1] & 0xFFFFFFFF == 128 and out.values()[3] == 4


ACCESSES = ["ld.u32 %r2, [%d1];", "st.u32 [%d1], %r2;"]


@BOTH
@pytest.mark.parametrize(
    "access, space",
    [
        *((access, space) for access in ACCESSES for space in ("shared", "local")),
        ("atom.add.u32 %r3, [%d1], %r2;", "shared"),
    ],
)
def test_4_gib_further_is_nothing(access: str, space: str, executor: str) -> None:
    body = f""".{space} .align 4 .b32 a[4]; mov.u32 %r2, 7; st.{space}.u32 [a], %r2;
    mov.u64 %d1, a; cvta.{space}.u64 %d1, %d1; add.u64 %d1, %d1, 4294967296; {access}
    st.global.u32 [%out], %r2;"""
    here = Machine(kernel(body), executor=executor)
    with pytest.raises(Fault) as caught:
        here.run("k", here.buffer("I", [0] * 8))
    assert caught.value.code == 700


ATOMICS = [
    "atom.global.add.L2::cache_hint.u32 %r1, [{}], 1, %d2;", "red.global.add.L2::cache_hint.u32 [{}], 1, %d2;",
    "atom.global.add.v2.f32 {{%f1, %f2}}, [{}], {{%f1, %f2}};", "red.global.add.v2.f32 [{}], {{%f1, %f2}};",
    "atom.global.add.noftz.v2.f16 {{%h1, %h2}}, [{}], {{%h1, %h2}};",
]  # fmt: skip


@pytest.mark.parametrize("atomic", ATOMICS)
def test_a_global_atomic_is_not_of_shared_memory(atomic: str) -> None:
    start = ".shared .align 16 .b32 a[4]; mov.b16 %h1, 0; mov.b16 %h2, 0; mov.f32 %f1, 0f0; mov.f32 %f2, 0f0;"
    start = start.replace("0f0", "0f00000000") + "mov.u64 %d2, 0; mov.u64 %d1, a; cvta.shared.u64 %d1, %d1;"
    log = rejection(kernel(start + atomic.format("a"), head=HEAD), architecture=(9, 0)).log
    assert "State space mismatch between instruction and address" in log
    here = Machine(kernel(start + atomic.format("%d1"), head=HEAD), architecture=(9, 0))
    with pytest.raises(Fault, match="a generic address of shared memory, used as a global one"):
        here.run("k", here.buffer("I", [0] * 8))


@BOTH
@pytest.mark.parametrize("offset", [400, 2])
def test_a_load_past_the_parameters_that_never_runs_does_no_harm(offset: int, executor: str) -> None:
    body = f"setp.eq.u32 %p1, 1, 1; mov.u32 %r2, 7; @%p1 bra E; ld.param.u32 %r3, [n+{offset}]; mov.u32 %r2, %r3;"
    body += "E: st.global.u32 [%out], %r2;"
    here = Machine(kernel(body, ".param .u64 out, .param .u32 n"), executor=executor)
    out = here.buffer("I", [0])
    here.run("k", out, 3)
    assert out.values() == [7]


# -- calls through pointers

POINTER = f"""{HEAD}
.func (.param .b32 r) bytes(.param .align 4 .b8 p[8])
{{ .reg .b32 %r; ld.param.u32 %r, [p]; st.param.b32 [r], %r; ret; }}
.func (.param .b32 r) word(.param .b32 x) {{ .reg .b32 %r; ld.param.u32 %r, [x]; st.param.b32 [r], %r; ret; }}
.func (.param .f32 r) real(.param .f32 x) {{ .reg .f32 %r; ld.param.f32 %r, [x]; st.param.f32 [r], %r; ret; }}
.func nothing(.param .b32 x) {{ ret; }}
.func (.param .b64 r) wide(.param .b64 x) {{ .reg .b64 %r; ld.param.u64 %r, [x]; st.param.b64 [r], %r; ret; }}
.func (.param .b32 r) two(.param .b32 x, .param .b32 y)
{{ .reg .b32 %r; ld.param.u32 %r, [x]; st.param.b32 [r], %r; ret; }}
.func (.reg .b32 r) register(.reg .u32 x) {{ mov.b32 r, x; ret; }}
.visible .entry k(.param .u64 out)
{{
    .reg .b32 %r<9>; .reg .b64 %d<5>;
    ld.param.u64 %d1, [out]; mov.b64 %d2, CALLED; mov.u32 %r1, 9;
    {{ .param .b32 q; .param .b32 s; st.param.b32 [q], %r1;
    P: .callprototype (.param .b32 _) _ (.param .b32 _);
    call (s), %d2, (q), P;
    ld.param.b32 %r2, [s]; }}
    st.global.u32 [%d1], %r2;
    ret;
}}
"""
SIGNATURES = {
    "bytes": "(8 bytes) -> (b32)", "real": "(f32) -> (f32)", "nothing": "(b32) -> ()", "wide": "(b64) -> (b64)",
    "two": "(b32, b32) -> (b32)",
}  # fmt: skip


@WATCH
@pytest.mark.parametrize("called", SIGNATURES)
def test_a_prototype_that_is_not_that_of_the_function(called: str, watch: bool) -> None:
    here = Machine(POINTER.replace("CALLED", called))
    here.space.watch = watch
    words = re.escape(f"call of a function {SIGNATURES[called]} as (b32) -> (b32)")
    with pytest.raises(Fault, match=words) as caught:
        here.run("k", here.buffer("I", [0]))
    assert caught.value.code == 718


@pytest.mark.parametrize("called", ["word", "register"])
def test_a_prototype_that_fits(called: str) -> None:
    here = Machine(POINTER.replace("CALLED", called))
    out = here.buffer("I", [0])
    here.run("k", out)
    assert out.values() == [9]


# -- constant expressions

CONSTANTS = {
    "-5/2": -2, "-1>>1": -1, "-1>1": 0, "5-7>>1": -1, "(5-7)/2": -1, "-7/2*2": -6, "-5U/2": 0x7FFFFFFFFFFFFFFD,
    "(.s64)0x8000000000000000U>>1": -(1 << 62), "0x8000000000000000>>1": 1 << 62, "0x7fffffffffffffff+1>>1": -(1 << 62),
    "(.u64)-1>>63": 1, "~5/2": 0x7FFFFFFFFFFFFFFD, "-1U<1": 0, "1<<64": 1, "1<<-1": -(1 << 63), "1&&2": 1, "0||0": 0,
    "2||0&&0": 1, "0?2:3": 3, "1?2:1?3:4": 2, "-2<=(1?63:5U)": 1, "WARP_SZ*2": 64, "1|2^3&4": 3, "!5+!0": 1,
}  # fmt: skip


def constant(expression: str) -> int:
    here = Machine(f"{HEAD}.visible .global .b64 z = {expression};\n")
    return int.from_bytes(here.code.variables["z"].data, "little", signed=True)


@pytest.mark.parametrize("expression", CONSTANTS)
def test_constants_are_calculated_as_in_c(expression: str) -> None:
    assert constant(expression) == (CONSTANTS[expression] + (1 << 63)) % (1 << 64) - (1 << 63)


def test_constants_are_calculated_in_operands_too() -> None:
    here = Machine(kernel("mov.u32 %r1, 10; add.s32 %r1, %r1, -5/2; st.global.u32 [%out+8/2], %r1;"))
    out = here.buffer("I", [0, 0])
    here.run("k", out)
    assert out.values() == [0, 8]


def expressions(pick: random.Random, depth: int) -> str:
    if not depth or pick.random() < 0.2:
        return pick.choice(
            "0 1 2 3 5 7 63 64 0x7fffffffffffffff 0x8000000000000000 0xffffffffffffffff 5U 1U WARP_SZ 017".split()
        )
    form = pick.choice(["({})", "-({})", "~({})", "!({})", "(.s64)({})", "(.u64)({})", "({}?{}:{})", *["{}#{}"] * 9])
    form = form.replace("#", pick.choice("+ - * / << >> & | ^ == != < > <= >= && ||".split()))
    return form.format(*(expressions(pick, depth - 1) for _ in range(3)))


@pytest.mark.skipif(PTXAS is None, reason="ptxas is not installed (pip install nvidia-cuda-nvcc)")
@pytest.mark.once
def test_ptxas_calculates_the_same_constants(tmp_path: Path) -> None:
    pick, texts = random.Random(33), {}
    while len(texts) < 400:
        text = expressions(pick, 3)
        try:
            texts[text] = constant(text)
        except Exception as refused:
            assert "Division by zero" in str(refused), text
    path, made = tmp_path / "constants.ptx", tmp_path / "constants.cubin"
    path.write_text(f"{HEAD}.visible .global .b64 z[] = {{ {', '.join(texts)} }};\n")
    subprocess.run([str(PTXAS), "-arch=sm_90", str(path), "-o", str(made)], check=True)
    data = made.read_bytes()
    held = next(each for each in containers.sections(data) if each.name == ".nv.global.init")
    theirs = struct.unpack_from(f"<{len(texts)}q", data, held.offset)
    assert not [(text, ours, value) for (text, ours), value in zip(texts.items(), theirs) if ours != value]


# -- declarations that ptxas refuses

REFUSED = {
    ".extern .global .b32 x = 4;": "No initial value is allowed for external symbol 'x'",
    ".extern .global .b32 x; .visible .global .b64 x;": "Inconsistent redefinition of variable 'x'",
    ".global .v4 .b64 x;": "exceeds 128 bit limit",
    ".common .const .b32 x;": ".common variables must be declared in .global space",
    ".shared .attribute(.managed) .b32 x;": "Illegal attribute '.managed' for symbol 'x'",
    ".global .attribute(.foo) .b32 x;": "Parsing error near '.foo'",
    ".global .f16 x = 0x3c00;": "No initial value is allowed for .f16 type",
    ".global .b32 z; .global .u8 y = 0xfff(z);": "Invalid mask value '0xfff' used in initializer",
    ".global .b32 z; .global .u8 y = 0xff0(z);": "Invalid mask value '0xff0' used in initializer",
    ".global .b32 x[2][0];": "Array of incomplete type",
    ".func (.param .b32 r, .param .b32 s) f() { ret; }": "Multiple return parameters require .reg",
    ".entry k(.param .v2 .b32 p) { ret; }": "A vector cannot be a parameter of an .entry",
    ".entry k() .maxntid 0 { ret; }": "Positive non-zero values expected for .maxntid",
    ".entry k() .maxntid 1,2,3,4 { ret; }": "at most three",
    ".entry k() .reqntid 32 .maxntid 64 { ret; }": "Conflicting directives: .maxntid and .reqntid",
    ".entry k() .reqnctapercluster 2 .maxclusterrank 8 { ret; }": "Conflicting directives: .reqnctapercluster",
    ".entry k() .blocksareclusters { ret; }": ".reqntid and .reqnctapercluster are required",
    ".entry k() .noreturn { ret; }": "'.noreturn' does not belong to this kind of function",
    ".func f() .maxntid 32 { ret; }": "'.maxntid' does not belong to this kind of function",
}


@pytest.mark.parametrize("text", REFUSED)
def test_declarations_that_are_refused(text: str) -> None:
    assert REFUSED[text] in rejection(f"{HEAD}{text}\n").log


@pytest.mark.skipif(PTXAS is None, reason="ptxas is not installed (pip install nvidia-cuda-nvcc)")
@pytest.mark.once
@pytest.mark.parametrize("text", REFUSED)
def test_ptxas_refuses_them_too(text: str, tmp_path: Path) -> None:
    path = tmp_path / "declared.ptx"
    path.write_text(f"{HEAD}{text}\n")
    ran = subprocess.run([str(PTXAS), "-arch=sm_90", str(path), "-o", str(tmp_path / "made")], capture_output=True)
    assert ran.returncode and b"line 4" in ran.stdout + ran.stderr
