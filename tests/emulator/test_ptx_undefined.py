"""Undefined values are reported where something depends on them, and nowhere else, in both executors.

A case is a kernel whose %r5 is undefined, or that makes an undefined value itself, and what the report says; "" if
nothing depends on the value. %r1 is 1, %r2 the thread's number, [%d3] the place of the thread's result.
"""

from __future__ import annotations

import random
import re
import struct
from typing import Any

import pytest

from tests.emulator import test_ptx_opcodes as opcodes
from tests.emulator.emulator_client import Client
from tests.emulator.ptx_client import Buffer, Machine, kernel, ptx, space

pytestmark = pytest.mark.once
TEXT = """.version 8.3
.target sm_90
.address_size 64
{functions}
.visible .entry k(.param .u64 out, .param .u32 n) {{
    .reg .b32 %r<40>; .reg .f32 %f<20>; .reg .b64 %d<20>; .reg .f64 %g<9>; .reg .pred %p<20>; .reg .b16 %h<9>;
    .shared .align 16 .b8 s[1024]; .local .align 16 .b8 own[64];
    ld.param.u64 %d1, [out]; ld.param.u32 %r1, [n]; mov.u32 %r2, %tid.x; mul.wide.u32 %d2, %r2, 4;
    add.u64 %d3, %d1, %d2;
    {start}
    {body}
    ret;
}}
"""
START = "ld.shared.u32 %r5, [s+64];"
NO, YES = "setp.gt.u32 %p1, %r1, 5;", "setp.lt.u32 %p1, %r1, 5;"
STORE = " st.global.u32 [%d3], %r7;"
SUM = "add.u32 %r6, %r5, 1; "
JUMP = " @%p3 bra X; st.global.u32 [%d3], 1; X:"
NEVER = "never written"
COMPUTED = {
    "selp drops it": (SUM + NO + "selp.u32 %r7, %r6, %r2, %p1;" + STORE, ""),
    "selp chooses it": (SUM + YES + "selp.u32 %r7, %r6, %r2, %p1;" + STORE, "a store"),
    "selp chooses it, then a sum": (YES + "selp.u32 %r7, %r5, %r2, %p1; add.u32 %r7, %r7, 1;" + STORE, "a store"),
    "selp drops it, then a sum": (NO + "selp.u32 %r7, %r5, %r2, %p1; add.u32 %r7, %r7, 1;" + STORE, ""),
    "selp is decided by it": ("setp.eq.u32 %p1, %r5, 1; selp.u32 %r7, 3, 4, %p1;" + STORE, "a store"),
    "slct drops it": (SUM + "slct.u32.s32 %r7, %r2, %r6, %r1;" + STORE, ""),
    "slct chooses it": (SUM + "slct.u32.s32 %r7, %r6, %r2, %r1;" + STORE, "a store"),
    "slct is decided by it": ("slct.u32.s32 %r7, 1, 2, %r5;" + STORE, "a store"),
    "a predicate drops it": (SUM + "mov.u32 %r7, 0;" + NO + "@%p1 mov.u32 %r7, %r6;" + STORE, ""),
    "a predicate keeps it": (SUM + "mov.u32 %r7, 0;" + YES + "@%p1 mov.u32 %r7, %r6;" + STORE, "a store"),
    "a predicate writes over it": (SUM + "mov.u32 %r7, %r6;" + YES + "@%p1 mov.u32 %r7, 3;" + STORE, ""),
    "an undefined predicate": ("setp.eq.u32 %p1, %r5, 1; mov.u32 %r7, 0; @%p1 mov.u32 %r7, 1;" + STORE, "a store"),
    "a predicate of a store": ("setp.eq.u32 %p1, %r5, 1; @%p1 st.global.u32 [%d3], 1;", "predicate"),
    "a predicate of a load": ("setp.eq.u32 %p1, %r5, 1; @%p1 ld.global.u32 %r7, [%d3];", "predicate"),
    "a branch": ("setp.eq.u32 %p3, %r5, 1;" + JUMP, "a branch"),
    "an indirect branch": ("and.b32 %r6, %r5, 1; t: .branchtargets A, B; brx.idx %r6, t; A: B:", "a branch"),
    "an address": ("and.b32 %r5, %r5, 4; cvt.u64.u32 %d4, %r5; add.u64 %d5, %d1, %d4; ld.global.u32 %r7, [%d5];",
                   "an address"),
    "an address of a store": ("and.b32 %r5, %r5, 4; mov.u32 %r6, s; add.u32 %r6, %r6, %r5; st.volatile.shared.u32 "
                              "[%r6], %r2;", "an address"),
    "and with false": ("setp.eq.u32 %p2, %r5, 1;" + NO + "and.pred %p3, %p1, %p2;" + JUMP, ""),
    "and with true": ("setp.eq.u32 %p2, %r5, 1;" + YES + "and.pred %p3, %p1, %p2;" + JUMP, "a branch"),
    "or with true": ("setp.eq.u32 %p2, %r5, 1;" + YES + "or.pred %p3, %p2, %p1;" + JUMP, ""),
    "or with false": ("setp.eq.u32 %p2, %r5, 1;" + NO + "or.pred %p3, %p2, %p1;" + JUMP, "a branch"),
    "xor of predicates": ("setp.eq.u32 %p2, %r5, 1;" + NO + "xor.pred %p3, %p2, %p1;" + JUMP, "a branch"),
    "setp.and with false": (NO + "setp.eq.and.u32 %p3, %r5, 1, %p1;" + JUMP, ""),
    "setp.and with true": (YES + "setp.eq.and.u32 %p3, %r5, 1, %p1;" + JUMP, "a branch"),
    "setp.or with true": (YES + "setp.eq.or.u32 %p3, %r5, 1, %p1;" + JUMP, ""),
    "a false comparison and": ("setp.eq.u32 %p1, %r5, 1; setp.eq.and.u32 %p3, %r1, 7, %p1;" + JUMP, ""),
    "a true comparison and": ("setp.eq.u32 %p1, %r5, 1; setp.eq.and.u32 %p3, %r1, 1, %p1;" + JUMP, "a branch"),
    "and with 0": ("and.b32 %r6, %r5, 0; add.u32 %r7, %r6, 1;" + STORE, ""),
    "and with bits": ("and.b32 %r6, %r5, 6; add.u32 %r7, %r6, 1;" + STORE, "a store"),
    "or with all ones": ("or.b32 %r6, %r5, 0xffffffff; add.u32 %r7, %r6, 1;" + STORE, ""),
    "itself minus itself": ("sub.u32 %r7, %r5, %r5;" + STORE, ""),
    "itself xor itself": ("xor.b32 %r7, %r5, %r5;" + STORE, ""),
    "a product with 0": ("mul.lo.u32 %r7, %r5, 0;" + STORE, "a store"),
    "a quotient": ("div.u32 %r7, %r5, 3;" + STORE, "a store"),
    "the smaller one": ("min.u32 %r7, %r5, 1;" + STORE, "a store"),
    "the larger float": ("mov.b32 %f1, %r5; max.f32 %f2, %f1, 0f3F800000; mov.b32 %r7, %f2;" + STORE, "a store"),
    "a float that is dropped": ("mov.b32 %f1, %r5; fma.rn.f32 %f2, %f1, %f1, %f1;" + NO
                                + "selp.f32 %f3, %f2, 0f3F800000, %p1; mov.b32 %r7, %f3;" + STORE, ""),
    "a conversion": ("cvt.rn.f32.u32 %f1, %r5; st.global.f32 [%d3], %f1;", "a store"),
    "half precision": ("add.f16x2 %r7, %r5, %r5;" + STORE, "a store"),
    "a video instruction": ("vadd.u32.u32.u32 %r7, %r5.b0, %r2;" + STORE, "a store"),
    "a carry": ("add.cc.u32 %r6, %r5, 1; addc.u32 %r7, %r2, 0;" + STORE, "a store"),
    "a carry from before": ("add.cc.u32 %r6, %r2, 1; addc.u32 %r7, %r2, 0;" + STORE, ""),
    "a copy": ("mov.u32 %r7, %r5;" + STORE, ""),
    "nothing": (SUM + "st.global.u32 [%d3], 1;", ""),
    "the other part": ("mov.b64 %d6, {%r5, %r2}; mov.b64 {%r6, %r8}, %d6; add.u32 %r7, %r8, 1;" + STORE, ""),
    "its part": ("mov.b64 %d6, {%r5, %r2}; mov.b64 {%r6, %r8}, %d6; add.u32 %r7, %r6, 1;" + STORE, "a store"),
    "prmt of the other register": ("prmt.b32 %r6, %r2, %r5, 0x2301; add.u32 %r7, %r6, 1;" + STORE, ""),
    "prmt of it": ("prmt.b32 %r6, %r2, %r5, 0x2341; add.u32 %r7, %r6, 1;" + STORE, "a store"),
    "an atomic": (SUM + "red.global.add.u32 [%d3], %r6;", "'red'"),
    "a vote": ("setp.eq.u32 %p1, %r5, 1; vote.sync.ballot.b32 %r7, %p1, -1;" + STORE, "'vote'"),
    "a reduction": ("redux.sync.add.u32 %r7, %r5, -1;" + STORE, "'redux'"),
    "another lane": (SUM + "shfl.sync.bfly.b32 %r7, %r6, 1, 31, -1;" + STORE, "a store"),
    "another lane that drops it": (SUM + "shfl.sync.bfly.b32 %r6, %r6, 1, 31, -1;" + NO
                                   + "selp.u32 %r7, %r6, 3, %p1;" + STORE, ""),
    "a lane of one thread": ("mov.u32 %r6, 4; setp.eq.u32 %p2, %r2, 3; @%p2 ld.shared.u32 %r6, [s+32];"
                             "shfl.sync.idx.b32 %r7, %r6, 3, 31, -1; add.u32 %r7, %r7, 1;" + STORE, "a store"),
    "which lane": ("and.b32 %r6, %r5, 3; shfl.sync.idx.b32 %r7, %r2, %r6, 31, -1;" + STORE, "the lane of a shuffle"),
    "a loop": ("mov.u32 %r9, 0; mov.u32 %r8, 0; A: ld.shared.u32 %r6, [s+128]; add.u32 %r8, %r8, %r6;"
               "add.u32 %r9, %r9, 1; setp.lt.u32 %p2, %r9, 10; @%p2 bra A;" + NO + "selp.u32 %r7, %r8, %r9, %p1;"
               + STORE, ""),
    "barriers": (SUM + "bar.sync 0; bar.sync 0;" + NO + "selp.u32 %r7, %r6, 1, %p1;"
                 + STORE, ""),
}  # fmt: skip
LOW = " cvt.u32.u64 %r7, %d7;" + STORE
HIGH = " shr.u64 %d7, %d7, 32;" + LOW
BITS = {  # the low half of %d6 is defined, as is the high half of %d8
    "cvt of the low half": ("mov.b64 %d7, %d6;" + LOW, ""),
    "cvt of the high half": ("mov.b64 %d7, %d6;" + HIGH, "a store"),
    "cvt of 16 bits": ("cvt.s64.s16 %d7, %d6;" + HIGH, ""),
    "cvt of 8 bits": ("cvt.u64.u8 %d7, %d6;" + LOW, ""),
    "cvt of an undefined sign": ("cvt.s64.s32 %d7, %d8;" + HIGH, "a store"),
    "cvt to 16 bits": ("cvt.u16.u64 %h1, %d6; cvt.u32.u16 %r7, %h1;" + STORE, ""),
    "cvt that saturates": ("cvt.sat.u32.u64 %r7, %d6;" + STORE, "a store"),
    "cvt to a float": ("cvt.rn.f32.u64 %f1, %d6; st.global.f32 [%d3], %f1;", "a store"),
    "cvt of 16 bits to a float": ("cvt.rn.f32.u16 %f1, %d6; st.global.f32 [%d3], %f1;", ""),
    "and with the low half": ("and.b64 %d7, %d6, 0xffff;" + HIGH, ""),
    "and with both halves": ("and.b64 %d7, %d6, 0x10000ffff;" + HIGH, "a store"),
    "and of two halves": ("and.b64 %d7, %d6, %d8;" + LOW, "a store"),
    "and with a register": ("cvt.u64.u32 %d9, %r1; and.b64 %d7, %d6, %d9;" + HIGH, ""),
    "or with the high half": ("or.b64 %d7, %d6, 0xffffffff00000000; add.u64 %d7, %d7, 1;" + HIGH, ""),
    "or of two halves": ("or.b64 %d7, %d6, %d8;" + LOW, "a store"),
    "or of two halves, high": ("or.b64 %d7, %d8, %d6;" + HIGH, "a store"),
    "lop3": ("mov.b64 {%r8, %r9}, %d6; lop3.b32 %r7, %r8, %r1, %r2, 0x96;" + STORE, ""),
    "lop3 of the other half": ("mov.b64 {%r8, %r9}, %d6; lop3.b32 %r7, %r8, %r1, %r9, 0x96;" + STORE, "a store"),
    "shl and shr": ("shl.b64 %d7, %d6, 48; shr.s64 %d7, %d7, 48;" + HIGH, ""),
    "shl of the undefined half": ("shl.b64 %d7, %d8, 8;" + LOW, "a store"),
    "shl of all bits": ("shl.b64 %d7, %d6, 64;" + LOW, ""),
    "shr of the defined half": ("shr.u64 %d7, %d8, 40;" + LOW, ""),
    "shr of the undefined sign": ("shr.s64 %d7, %d6, 32;" + HIGH, "a store"),
    "shr by a register": ("shr.u64 %d7, %d6, %r1;" + LOW, "a store"),
    "bfe of the low half": ("bfe.u64 %d7, %d6, 3, 20;" + LOW, ""),
    "bfe of both halves": ("bfe.u64 %d7, %d6, 30, 4;" + LOW, "a store"),
    "bfe beyond the end": ("bfe.s64 %d7, %d8, 48, 200;" + HIGH, ""),
    "bfi into the undefined half": ("bfi.b64 %d7, %d6, %d8, 0, 32;" + LOW, ""),
    "bfi of the undefined half": ("bfi.b64 %d7, %d8, %d6, 8, 4;" + LOW, "a store"),
    "bfi that leaves a bit": ("bfi.b64 %d7, %d6, %d8, 0, 31;" + LOW, "a store"),
    "a sum, low": ("add.s64 %d7, %d6, 1;" + LOW, ""),
    "a sum, high": ("add.s64 %d7, %d8, 1;" + HIGH, "a store"),
    "a product, low": ("mul.lo.s64 %d7, %d6, %d6;" + LOW, ""),
    "a product, high": ("mul.hi.u64 %d7, %d6, %d6;" + LOW, "a store"),
    "a quotient of a half": ("div.u64 %d7, %d6, 3;" + LOW, "a store"),
    "a store of the low half": ("st.global.u32 [%d3], %d6;", ""),
    "a store of the other half": ("st.global.u32 [%d3], %d8;", "a store"),
}  # fmt: skip
HALVES = START + SUM + "mov.b64 %d6, {%r2, %r6}; mov.b64 %d8, {%r6, %r2};"
SOURCES = {
    "a vector": ("ld.shared.v2.u32 {%r5, %r6}, [s+64]; add.u32 %r7, %r5, %r6;" + STORE, NEVER),
    "global memory": ("ld.global.u32 %r5, [%d3+2048]; add.u32 %r7, %r5, 1;" + STORE, NEVER),
    "global memory, dropped": ("ld.global.u32 %r5, [%d3+2048];" + SUM + NO + "selp.u32 %r7, %r6, 1, %p1;" + STORE, ""),
    "generic addresses": ("ld.u32 %r5, [%d3+2048]; add.u32 %r7, %r5, 1;" + STORE, NEVER),
    "generic addresses, dropped": ("ld.u32 %r5, [%d3+2048];" + SUM + NO + "selp.u32 %r7, %r6, 1, %p1;" + STORE, ""),
    "local memory": ("ld.local.u32 %r5, [own]; add.u32 %r7, %r5, 1;" + STORE, NEVER),
    "local memory, dropped": ("ld.local.u32 %r5, [own];" + SUM + NO + "selp.u32 %r7, %r6, 1, %p1;" + STORE, ""),
    "a strong load": ("ld.relaxed.cta.shared.u32 %r5, [s]; add.u32 %r7, %r5, 1;" + STORE, NEVER),
    "a strong load, dropped": ("ld.relaxed.cta.shared.u32 %r5, [s];" + SUM + NO + "selp.u32 %r7, %r6, 1, %p1;"
                               + STORE, ""),
    "a register": ("add.u32 %r7, %r30, 1;" + STORE, "register %r30 was never written"),
    "a register, dropped": ("add.u32 %r6, %r30, 1;" + NO + "selp.u32 %r7, %r6, 1, %p1;" + STORE, ""),
    "a register, copied": ("mov.u32 %r7, %r30;" + STORE, ""),
    "a predicate register": ("@%p9 bra X; st.global.u32 [%d3], 1; X:", "register %p9 was never written"),
    "a float register": ("add.f32 %f1, %f9, %f9; st.global.f32 [%d3], %f1;", "register %f9 was never written"),
}  # fmt: skip
FUNCTIONS = """
.func (.param .b32 q) picks(.param .b32 a, .param .b32 b) {
    .reg .b32 %r<5>; .reg .pred %p<3>; .local .align 4 .b32 x[4]; .reg .b64 %d<3>;
    ld.param.u32 %r1, [a]; ld.param.u32 %r2, [b]; st.local.u32 [x], 7; setp.gt.u32 %p1, %r2, 5; add.u32 %r1, %r1, 1;
    selp.u32 %r3, %r1, %r2, %p1; ld.local.u32 %r4, [x]; add.u32 %r3, %r3, %r4; st.param.b32 [q], %r3; ret;
}
.func (.param .b32 q) reads(.param .b32 a) {
    .reg .b32 %r<5>; .shared .b32 z; ld.shared.u32 %r1, [z]; ld.param.u32 %r2, [a]; add.u32 %r1, %r1, %r2;
    bar.warp.sync -1; st.param.b32 [q], %r1; ret;
}
.func (.reg .b32 %q) plain(.reg .b32 %a) { .reg .b32 %r<3>; add.u32 %q, %a, 2; ret; }
"""
CALL = "{{ .param .b32 a; .param .b32 b; .param .b32 q; st.param.b32 [a], %r5; st.param.b32 [b], {b}; " \
       "call (q), picks, (a, b); ld.param.b32 %r6, [q]; }} add.u32 %r7, %r6, 1;" + STORE  # fmt: skip
READS = "{ .param .b32 a; .param .b32 q; st.param.b32 [a], %r1; call (q), reads, (a); ld.param.b32 %r6, [q]; }"
CALLS = {
    "an argument, dropped": (CALL.format(b="%r1"), ""),
    "an argument, chosen": (CALL.format(b="9"), "a store"),
    "a result": (READS + "add.u32 %r7, %r6, 1;" + STORE, "a store"),
    "a result, dropped": (READS + NO + "selp.u32 %r7, %r6, 1, %p1;" + STORE, ""),
    "registers": ("call (%r7), plain, (%r5);" + STORE, "a store"),
    "registers, dropped": ("call (%r6), plain, (%r5);" + NO + "selp.u32 %r7, %r6, 1, %p1;" + STORE, ""),
}
WAYS: dict[str, dict[str, Any]] = {
    "scalar": {"executor": "scalar"},
    "numpy": {"executor": "numpy"},
    "strict": {"strict": True},
    "checked": {"checks": ("racecheck", "synccheck", "initcheck")},
}


def run(body: str, start: str = "", functions: str = "", block: int = 32, **options: Any) -> tuple[int, list[str], Any]:
    """Run a kernel; return the code, the reports and the results."""
    client = Client(**options)
    text = TEXT.format(functions=functions, start=start, body=body.replace("; ", ";\n"))
    function = client.get("cuModuleGetFunction", client.load(text), b"k")
    out = client.allocate(4096)
    client.do("cuMemsetD8_v2", out, 0, 1024)
    code = client.launch(function, [out, 1], block=(block, 1, 1))
    code = code or client.code("cuCtxSynchronize")
    results = struct.unpack("<256I", client.download(out, 1024)) if not code else ()
    return code, client.emulator.reports, results


def check(cases: dict[str, tuple[str, str]], way: str, start: str = "", functions: str = "", block: int = 32) -> None:
    """Check that each case is reported, or silent."""
    for name, (body, wanted) in cases.items():
        code, reports, _ = run(body, start, functions, block, **WAYS[way])
        assert code == (719 if wanted and way == "strict" else 0), (name, code, reports)
        assert len(reports) == bool(wanted), (name, reports)
        if wanted:
            assert wanted in reports[0] and "kernel k, block (0, 0, 0)" in reports[0], (name, reports)
            assert reports[0].startswith(("initcheck: ", "synccheck: ")), (name, reports)


@pytest.mark.parametrize("way", WAYS)
def test_what_is_computed_from_unwritten_memory(way: str) -> None:
    check(COMPUTED, way, START)


@pytest.mark.parametrize("way", WAYS)
def test_where_undefined_values_come_from(way: str) -> None:
    check(SOURCES, way)


@pytest.mark.parametrize("way", WAYS)
def test_calls(way: str) -> None:
    check(CALLS, way, START, FUNCTIONS)


@pytest.mark.parametrize("way", WAYS)
def test_registers_with_some_undefined_bits(way: str) -> None:
    check(BITS, way, HALVES)


OPERATIONS = (
    "and.b64 {a}, {b}, {c};", "or.b64 {a}, {b}, {c};", "xor.b64 {a}, {b}, {c};", "not.b64 {a}, {b};",
    "and.b64 {a}, {b}, {mask};", "or.b64 {a}, {b}, {mask};", "add.s64 {a}, {b}, {c};", "sub.s64 {a}, {b}, {c};",
    "mul.lo.u64 {a}, {b}, {c};", "shl.b64 {a}, {b}, {n};", "shr.u64 {a}, {b}, {n};", "shr.s64 {a}, {b}, {n};",
    "bfe.u64 {a}, {b}, {n}, {m};", "bfe.s64 {a}, {b}, {n}, {m};", "bfi.b64 {a}, {b}, {c}, {n}, {m};",
    "cvt.s64.s32 {a}, {b};", "cvt.u64.u16 {a}, {b};", "cvt.s64.s8 {a}, {b};", "cvt.u64.u32 {a}, {b};",
    "mov.b64 {{%r8, %r9}}, {b}; mov.b64 {a}, {{%r9, %r8}};", "selp.b64 {a}, {b}, {c}, %p1;",
)  # fmt: skip


def test_what_depends_on_undefined_bits_is_reported() -> None:
    """Random programs: if the result is another one when the undefined bits are, there is a report."""
    chance = random.Random(5)
    reported = 0
    for number in range(80):
        registers = ["%d6", "%d8", "%d7"]
        body = NO + "mov.b64 %d7, 0x123456789abcdef;"
        for _ in range(chance.randint(1, 6)):
            a, b, c = (chance.choice(registers) for _ in range(3))
            mask = chance.getrandbits(63) >> chance.choice((0, 31, 50))
            n, m = chance.choice((0, 8, 32, 40)), chance.choice((1, 8, 24, 32))
            body += chance.choice(OPERATIONS).format(a=a, b=b, c=c, mask=mask, n=n, m=m)
        body += f"mov.b64 %d7, {chance.choice(registers)};" + chance.choice((LOW, HIGH))
        results = set()
        for fill in (0, 0xFFFFFFFE, 0x5A5A1233):
            code, reports, found = run(body, HALVES.replace(START, f"mov.u32 %r5, {fill};"), executor="scalar")
            assert code == 0 and not reports, body
            results.add(found)
        code, reports, _ = run(body, HALVES, executor="scalar")
        assert code == 0 and (reports or len(results) == 1), (number, body)
        reported += bool(reports)
    assert 10 < reported < 70


SHUFFLE = "shfl.sync.{mode} %r6, %r2, {lane}, 31, {mask};"
ABSENT = "reads the value of lane"
SHUFFLES = {
    "a sum of a small block": (
        "mov.u32 %r6, %r2; mov.u32 %r9, 16; A: shfl.sync.down.b32 %r8, %r6, %r9, 31, -1; add.u32 %r6, %r6, %r8;"
        "shr.u32 %r9, %r9, 1; setp.gt.u32 %p1, %r9, 0; @%p1 bra A; setp.eq.u32 %p2, %r2, 0;"
        "@%p2 st.global.u32 [%d1], %r6;",
        f"{ABSENT} 16 of its warp, which has no thread",
    ),
    "lanes that are there": ("shfl.sync.bfly.b32 %r7, %r2, 3, 31, 15;" + STORE, ""),
    "beyond the segment": ("shfl.sync.down.b32 %r7, %r2, 3, 0x1c03, 15;" + STORE, ""),
    "stored as it is": ("shfl.sync.down.b32 %r7, %r2, 4, 31, 15;" + STORE, f"{ABSENT} 4 of its warp"),
    "not in the mask": ("shfl.sync.idx.b32 %r7, %r2, 9, 31, 15;" + STORE, f"{ABSENT} 9 of its warp"),
    "dropped by the lane": (
        "shfl.sync.down.b32 %r6, %r2, 1, 31, 15; setp.lt.u32 %p1, %r2, 3; selp.u32 %r7, %r6, 0, %p1;" + STORE, "",
    ),
    "dropped by a predicate": (
        "mov.u32 %r7, %r2; shfl.sync.down.b32 %r6, %r2, 1, 31, 15; setp.lt.u32 %p1, %r2, 3;"
        "@%p1 add.u32 %r7, %r7, %r6;" + STORE, "",
    ),
    "into an address": (
        "shfl.sync.down.b32 %r6, %r2, 1, 31, 15; and.b32 %r6, %r6, 3; mul.wide.u32 %d4, %r6, 4; add.u64 %d4, %d1, %d4;"
        "st.global.u32 [%d4], 1;", "an address",
    ),
    "only whether it is inside": (
        "shfl.sync.down.b32 %r6|%p1, %r2, 1, 31, 15; selp.u32 %r7, 1, 2, %p1;" + STORE, "",
    ),
}  # fmt: skip


@pytest.mark.parametrize("way", ["scalar", "numpy", "strict"])
def test_shuffles_from_lanes_that_take_no_part(way: str) -> None:
    check(SHUFFLES, way, block=4)


def test_a_lane_that_is_not_in_the_mask() -> None:
    body = "setp.gt.u32 %p1, %r2, 7; @%p1 bra X; shfl.sync.down.b32 %r7, %r2, 1, 31, 255;" + STORE + " X:"
    for executor in ("scalar", "numpy"):
        code, reports, _ = run(body, executor=executor)
        assert (
            code == 0 and len(reports) == 1 and "lane 8 of its warp, which is not in the member mask 0xff" in reports[0]
        )


def test_the_report_says_where_the_value_goes() -> None:
    code, (report,), _ = run(SUM + "\n" + STORE.replace("%r7", "%r6"), START)
    assert code == 0
    found = re.search(r"shared address 0x40 was never written.*the value reaches a store at ptx line (\d+)", report)
    assert found and f"ptx line {found[1]} | st.global.u32 [%d3], %r6;" in report


def test_an_error_in_the_tracked_form_names_its_own_place() -> None:
    code, (report, *_), _ = run(SUM + "\nld.global.u32 %r7, [%d3+8192];", START, executor="scalar")
    assert code == 700 and "out-of-bounds" in report and "called from" not in report
    assert re.search(r"\n    ptx line \d+ \| ld.global.u32 %r7, \[%d3\+8192\];\n", report), report
    code, (report, *_), _ = run(READS + "ld.global.u32 %r7, [%d3+8192];", START, FUNCTIONS, executor="scalar")
    assert code == 700 and "called from" not in report, report


def test_without_checks_nothing_is_tracked() -> None:
    code, reports, results = run(SUM + STORE.replace("%r7", "%r6"), START, checked=False)
    assert (code, reports) == (0, [])


def test_each_launch_is_judged_anew() -> None:
    """A value that one launch drops is reported when another one uses it."""
    client = Client(executor="numpy")
    body = "setp.eq.u32 %p1, %r1, 7; add.u32 %r6, %r5, 1; selp.u32 %r7, %r6, 3, %p1;" + STORE
    loaded = client.load(TEXT.format(functions="", start=START, body=body))
    function = client.get("cuModuleGetFunction", loaded, b"k")
    out = client.upload(bytes(4096))
    for number, reports in ((1, 0), (2, 0), (7, 1), (1, 1), (7, 1)):
        assert client.launch(function, [out, number], grid=(4, 1, 1), block=(128, 1, 1)) == 0
        assert len(client.emulator.reports) == reports, number


class Watched(Machine):
    """A module in a space that checks for memory that was never written."""

    def __init__(self, text: str) -> None:
        self.space = space.Space(watch=True)
        self.space.executor = "scalar"
        self.code = ptx.load(text.encode(), self.space)

    def buffer(self, code: str, values: Any) -> Buffer:
        made = super().buffer(code, values)
        made.memory.wrote(0, made.memory.size)
        return made


CASES = [*opcodes.INTEGERS, *opcodes.FLOATS, *opcodes.CONVERSIONS]


@pytest.mark.parametrize("part", range(8))
def test_the_tracked_form_computes_the_same(part: int) -> None:
    """After a value that is undefined and dropped, every opcode gives what it gives without it."""
    for text, classes, *_ in CASES[part::8]:
        rows = opcodes.rows_for(text, classes)[:24]
        plain = opcodes.build(text, classes)
        start = (
            ".shared .b32 never; .reg .b32 %dropped; ld.shared.u32 %dropped, [never]; add.u32 %dropped, %dropped, 1;"
        )
        at = plain.index("mov.u32 %r60, %tid.x;")
        made = []
        for source in (plain, f"{plain[:at]}{start}\n{plain[at:]}"):
            here = Watched(source)
            flat = [number for row in rows for number in (*row, 0, 0, 0, 0)[:4]]
            out = here.buffer("Q", len(rows))
            here.run("k", out, here.buffer("Q", flat), block=len(rows))
            made.append(out.values())
            assert not here.space.warnings, text
        assert here.code._tracked, "the tracked form did not run"
        assert made[0] == made[1], text


def test_the_tracked_form_follows_the_same_flow() -> None:
    """Loops, calls, frames, barriers and warps give the same after a value that is undefined and dropped."""
    body = """
    {start} mov.u32 %r3, %tid.x; mov.u32 %r4, 0; mov.u32 %r5, 0;
    .shared .align 4 .b8 s[256]; .local .align 4 .b32 mine[4];
LOOP: st.local.u32 [mine+4], %r4; shl.b32 %r6, %r3, 2; mov.u32 %r7, s; add.u32 %r7, %r7, %r6; st.shared.u32 [%r7], %r4;
    bar.sync 0; xor.b32 %r8, %r6, 12; mov.u32 %r9, s; add.u32 %r9, %r9, %r8; ld.shared.u32 %r10, [%r9]; bar.sync 0;
    {{ .param .b32 a; .param .b32 q; st.param.b32 [a], %r10; call (q), twice, (a); ld.param.b32 %r10, [q]; }}
    shfl.sync.bfly.b32 %r11, %r10, 5, 31, -1; ld.local.u32 %r12, [mine+4]; add.u32 %r5, %r5, %r11;
    add.u32 %r5, %r5, %r12; add.u32 %r4, %r4, 1; and.b32 %r13, %r3, 1; setp.eq.u32 %p2, %r13, 0; @%p2 bra EVEN;
    add.u32 %r5, %r5, 100; EVEN: setp.lt.u32 %p1, %r4, 7; @%p1 bra LOOP;
    mul.wide.u32 %d2, %r3, 4; add.u64 %d3, %out, %d2; st.global.u32 [%d3], %r5;
"""
    function = """.func (.param .b32 q) twice(.param .b32 a) { .reg .b32 %r<4>; .local .b32 x[2]; ld.param.u32 %r1, [a];
    st.local.u32 [x], %r1; ld.local.u32 %r2, [x]; add.u32 %r2, %r2, %r2; st.param.b32 [q], %r2; ret; }
"""
    made = []
    for start in ("", ".shared .b32 never; ld.shared.u32 %r20, [never]; add.u32 %r20, %r20, 1;"):
        text = kernel(body.format(start=start))
        at = text.index(".visible .entry")
        here = Watched(text[:at] + function + text[at:])
        out = here.buffer("I", [0] * 64)
        here.run("k", out, block=64)
        assert not here.space.warnings
        made.append(out.values())
        assert bool(here.code._tracked) is bool(start)
    assert made[0] == made[1] and len(set(made[0])) == 2
