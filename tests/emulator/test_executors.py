"""The two executors agree: the same memory afterwards, and the same reports, for compiled and for random kernels.

A launch runs with each executor in a space of its own, whose allocations have the same addresses. Memory is compared
byte by byte. `TESTED_EXECUTOR=numpy` runs all other tests of PTX and of the corpus with arrays, too.
"""

from __future__ import annotations

import _thread
import functools
import gc
import random
import struct
import subprocess
import sys
import weakref
from collections.abc import Sequence
from typing import Any

import pytest

np = pytest.importorskip("numpy", minversion="2.0")

from tests.emulator.ptx_client import EXECUTOR, Fault, kernel, module, ptx, space, three  # noqa: E402
from tests.emulator.random_programs import START, random_data, random_program  # noqa: E402
from tests.shared import sampled  # noqa: E402
from tests.subject import CHECKOUT  # noqa: E402

pytestmark = pytest.mark.once  # with other Pythons and modes, they would show the same


class Outcome:
    """What a launch left behind: memory and reports; and why arrays did not run all of it, or ""."""

    def __init__(self, memory: list[bytes], reports: list[str], last: str | None) -> None:
        self.memory, self.reports, self.last = memory, reports, last


def launch(
    text: str, executor: str, buffers: Sequence[Any], scalars: Sequence[int] = (), *, name: str = "k",
    grid: Any = 1, block: Any = 32, shared: int = 0, watch: bool = True, strict: bool = False, **options: Any,
) -> Outcome:  # fmt: skip
    """Run a kernel once; a buffer is bytes, or a number of bytes that stay uninitialized."""
    memory = space.Space(watch=watch, strict=strict)
    memory.executor = executor
    code = ptx.load(text.encode(), memory, **options)
    entry = code.entries[name]
    held = []
    for content in buffers:
        size = content if isinstance(content, int) else len(content)
        made = memory.allocate(size)
        if not isinstance(content, int):
            made.data[:] = content
            made.wrote(0, size)
        held.append(made)
    values = [*(made.base for made in held), *scalars]
    packed = bytearray(entry.parameter_bytes)
    for value, (offset, size) in zip(values, entry.parameters):
        packed[offset : offset + size] = (value & (1 << 8 * size) - 1).to_bytes(size, "little")
    reports: list[str] = []
    try:
        entry.run(three(grid), three(block), shared, bytes(packed))
    except Fault as fault:
        reports.append(f"{fault.code}: {fault.report}")
    reports += memory.warnings
    arrays = entry._arrays
    last = None if arrays is None else arrays.reason or arrays.last
    if last == "" and executor == "numpy":
        assert "each(" not in arrays.compiled().source  # which would be thread by thread
    return Outcome([bytes(made.data) for made in held], reports, last)


def agree(
    text: str, buffers: Sequence[Any], scalars: Sequence[int] = (), as_arrays: bool | None = True, **options: Any
) -> Outcome:
    """Run with both executors and compare; `as_arrays`: whether arrays must have run all of it."""
    want = launch(text, "scalar", buffers, scalars, **options)
    got = launch(text, "numpy", buffers, scalars, **options)
    assert got.reports == want.reports
    for number, (one, other) in enumerate(zip(got.memory, want.memory)):
        assert one == other, f"buffer {number}: {differences(one, other)}"
    if as_arrays is not None:
        assert (got.last == "") is as_arrays, got.last
    return got


def differences(one: bytes, other: bytes) -> str:
    """Return the first words that differ."""
    words = len(one) // 4
    pairs = zip(struct.unpack(f"<{words}I", one[: 4 * words]), struct.unpack(f"<{words}I", other[: 4 * words]))
    return ", ".join(f"[{at}] {a:#x} {b:#x}" for at, (a, b) in enumerate(pairs) if a != b)[:300]


# -- every row of the table that computes on registers, with numbers of all kinds

WORDS = (
    0, 1, 2, 3, 5, 7, 8, 31, 32, 33, 63, 64, 255, 256, 0x7F, 0x80, 0x7FFF, 0x8000, 0xFFFF, 0x10000, 0x7FFFFFFF,
    0x80000000, 0x80000001, 0xFFFFFFFF, 0xFFFFFFFE, 0x3F800000, 0xBF800000, 0x3F000000, 0x40490FDB, 0x7F800000,
    0xFF800000, 0x7FC00000, 0x007FFFFF, 0x00800000, 0x7F7FFFFF, 0x4B800000, 0x4B000001, 0x33800000, 0x34000000,
    0x3C003C00, 0x7C00FC00, 0x00010001, 0x40E00000, 0x42C80000, 0xC2C80000, 0x5F000000, 0xDF000000, 0x4F000000,
    0xCF000000,
)  # fmt: skip
COUNT = 64  # threads of a kernel, each with three numbers of its own
TOGETHER = 40  # instructions in a kernel
TABLE = module("emulator.ptx.translating.table.opcodes").TABLE
Form = module("emulator.ptx.translating.table.forms").Form
BITS = module("emulator.ptx.reading.syntax").BITS
REGISTER = {1: "%p", 16: "%h", 32: "%r", 64: "%d"}
# other tests run these, which access memory, branch, wait, or take their operands apart
ELSEWHERE = frozenset(
    "ld ldu st atom red cp bra brx call ret exit trap brkpt bar barrier shfl vote match redux activemask elect "
    "nanosleep prefetch prefetchu discard createpolicy pmevent membar fence griddepcontrol setmaxnreg isspacep mov "
    "cvta".split()
)


def numbers(count: int, seed: int) -> list[int]:
    """Return 64-bit numbers: edges, and random ones of every size."""
    rng = random.Random(seed)
    made = []
    for _ in range(count):
        kind = rng.randrange(4)
        if kind == 0:
            value = rng.choice(WORDS) << 32 | rng.choice(WORDS)
        elif kind == 1:
            value = rng.getrandbits(64)
        elif kind == 2:
            value = rng.getrandbits(rng.randrange(1, 65))
        else:
            single = struct.unpack("<I", struct.pack("<f", rng.uniform(-4, 4) * 2.0 ** rng.randrange(-20, 20)))[0]
            value = struct.unpack("<Q", struct.pack("<d", rng.uniform(-4, 4)))[0] & ~0xFFFFFFFF | single
        made.append(value)
    return made


def products(groups: list[list[Any]]) -> list[tuple[Any, ...]]:
    """Return all choices of one of each group."""
    found: list[tuple[Any, ...]] = [()]
    for group in groups:
        found = [(*one, each) for one in found for each in group]
    return found


def instructions() -> list[tuple[str, list[Any]]]:
    """Return the opcodes with all their modifiers and types, and the slots and types of the operands of each."""
    made = []
    for opcode in TABLE.opcodes():
        for row in TABLE._rows[opcode] if opcode not in ELSEWHERE else ():
            form = Form(row)
            if form.since[1] > (9, 0) or form.result in ("!carry",):
                continue
            words = [[""] * (not required) + sorted(each) for _, each, required in form.choices]
            for types in products([sorted(group) for group in form.types]):
                for chosen in products(words):
                    modifiers = [*filter(None, chosen), *types]
                    shape = form.fit(tuple(modifiers))
                    if not isinstance(shape, str):
                        made.append((".".join([opcode, *modifiers]), list(zip(form.slots, shape.wanted))))
    return made


def computed(text: str, slots: list[Any], at: int) -> list[str] | None:
    """Return the lines that compute one instruction from registers, and put the result into %d1."""
    operands, after = [], ""
    for slot, type in slots:
        if slot.written:
            bits = 1 if type == "pair" else max(16, BITS.get(type, 64))
            operands.append(f"{REGISTER[bits]}1")
            after = {
                1: "selp.u64 %d1, 1, 0, %p1;",
                16: "cvt.u64.u16 %d1, %h1;",
                32: "cvt.u64.u32 %d1, %r1;",
                64: "",
            }[bits if type != "pred" else 1]
            if type == "pred":
                operands[-1] = "%p1"
        elif type == "constant":
            operands.append(str((at * 37 + 11) % 128))
        elif type not in BITS or BITS[type] > 64:
            return None
        else:
            number = {"a": 2, "b": 3, "c": 4}.get(slot.name, 5)
            bits = max(16, BITS[type]) if type != "pred" else 1
            operands.append(f"{REGISTER[bits]}{number}")
    return [f"{text} {', '.join(operands)};", after]


def kernel_of(parts: list[list[str]]) -> str:
    """Return a kernel of some instructions."""
    lines = ["mov.u32 %r60, %tid.x;", "mul.wide.u32 %d60, %r60, 8;", "add.u64 %d60, %out, %d60;"]
    for number in (2, 3, 4, 5):
        lines += [
            f"ld.global.u64 %d{number}, [%d60+{8 * COUNT * (TOGETHER + number - 2)}];",
            f"cvt.u32.u64 %r{number}, %d{number};",
            f"cvt.u16.u64 %h{number}, %d{number};",
            f"and.b32 %r61, %r{number}, 1;",
            f"setp.ne.u32 %p{number}, %r61, 0;",
        ]
    lines += [line for part in parts for line in part]
    return kernel("\n".join(lines), head=".version 8.3\n.target sm_90\n.address_size 64\n")


def accepted(batch: list[tuple[str, list[str]]]) -> str:
    """Return a kernel of the instructions that are legal: other tests judge the illegal ones."""
    while True:
        text = kernel_of([part for _, part in batch])
        try:
            ptx.load(text.encode(), space.Space()).unload()
            return text
        except ptx.Rejected as reason:
            line = text.split("\n")[(reason.line or 1) - 1]
            left = [(name, part) for name, part in batch if part[0] != line]
            assert len(left) < len(batch), f"{line}: {reason}"
            batch = left


@functools.cache
def forms() -> list[tuple[str, list[str]]]:
    """Return all forms with the lines that compute each, in an order by chance."""
    computing = [(text, computed(text, slots, at)) for at, (text, slots) in enumerate(instructions())]
    found = [(text, lines) for text, lines in computing if lines is not None]
    random.Random(5).shuffle(found)
    return found


@pytest.mark.parametrize("share", sampled(range(12 if EXECUTOR == "numpy" else 3)))
def test_every_instruction_on_registers(share: int) -> None:
    """Each form with its modifiers, for 64 triples of numbers; a quarter of them, unless all tests run with arrays."""
    seen = alone = 0
    wrong = []
    batches = [forms()[start : start + TOGETHER] for start in range(0, len(forms()), TOGETHER)]
    for number in range(share, len(batches), 12):
        batch = [
            (name, [*lines, f"st.global.u64 [%d60+{8 * COUNT * at}], %d1;"])
            for at, (name, lines) in enumerate(batches[number])
        ]
        text = accepted(batch)
        data = struct.pack(f"<{COUNT * (TOGETHER + 4)}Q", *([0] * COUNT * TOGETHER), *numbers(4 * COUNT, number))
        want = launch(text, "scalar", [data], block=COUNT, watch=False)
        got = launch(text, "numpy", [data], block=COUNT, watch=False)
        assert not want.reports and not got.reports
        seen += 1
        alone += got.last == ""
        for at, (name, _) in enumerate(batch):
            here = slice(8 * COUNT * at, 8 * COUNT * (at + 1))
            if want.memory[0][here] != got.memory[0][here]:
                wrong.append(f"{name}: {differences(got.memory[0][here], want.memory[0][here])}")
    assert not wrong, "\n".join(wrong[:40])
    assert seen > 5 and alone >= seen - 2, (seen, alone)


# -- threads that go different ways, and memory

WAYS = {
    "a diamond": (
        "setp.lt.u32 %p1, %r1, 13;\n@%p1 bra A;\nadd.u32 %r2, %r1, 5;\nbra B;\nA: mul.lo.u32 %r2, %r1, 3;\nB:"
    ),
    "a loop that ends here and there": (
        "mov.u32 %r2, 0;\nL: add.u32 %r2, %r2, %r1;\nsetp.lt.u32 %p1, %r2, 200;\nadd.u32 %r2, %r2, 1;\n@%p1 bra L;"
    ),
    "guards": (
        "mov.u32 %r2, 9;\nsetp.gt.u32 %p1, %r1, 20;\n@%p1 add.u32 %r2, %r1, 1;\n@!%p1 ld.global.u32 %r2, [%d2+4];"
    ),
    "a guard that is written": (
        "setp.gt.u32 %p1, %r1, 20;\nsetp.gt.u32 %p2, %r1, 50;\n@%p1 setp.gt.u32 %p1|%p2, %r1, 40;\n"
        "@!%p2 setp.gt.u32 %p3|%p2, %r1, 10;\nselp.u32 %r2, 5, 3, %p1;\n@%p2 add.u32 %r2, %r2, 10;"
    ),
    "a constant that is a NaN": "mov.f32 %r2, 0f7fc00000;\nadd.u32 %r2, %r2, %r1;",
    "threads that leave": "setp.gt.u32 %p1, %r1, 40;\n@%p1 ret;\nadd.u32 %r2, %r1, 100;",
    "a barrier": (
        ".shared .align 4 .b8 s[1024];\nmov.u32 %r3, s;\nshl.b32 %r4, %r1, 2;\nadd.u32 %r4, %r3, %r4;\n"
        "st.shared.u32 [%r4], %r1;\nbar.sync 0;\nmov.u32 %r5, %ntid.x;\nsub.u32 %r5, %r5, %r1;\n"
        "sub.u32 %r5, %r5, 1;\n"
        "shl.b32 %r5, %r5, 2;\nadd.u32 %r5, %r3, %r5;\nld.shared.u32 %r2, [%r5];"
    ),
    "a shuffle": "shfl.sync.bfly.b32 %r2|%p1, %r1, 5, 31, -1;",
    "a shuffle of some lanes": (
        "and.b32 %r3, %r1, 1;\nsetp.eq.u32 %p1, %r3, 0;\nmov.u32 %r2, 7;\n"
        "@%p1 shfl.sync.down.b32 %r2, %r1, 2, 31, 0x55555555;"
    ),
    "votes": (
        "setp.gt.u32 %p1, %r1, 9;\nvote.sync.ballot.b32 %r2, %p1, -1;\nactivemask.b32 %r3;\nxor.b32 %r2, %r2, %r3;"
    ),
    "a match": "and.b32 %r3, %r1, 3;\nmatch.any.sync.b32 %r2, %r3, -1;",
    "a reduction": "redux.sync.add.u32 %r2, %r1, -1;\nredux.sync.max.s32 %r3, %r1, -1;\nadd.u32 %r2, %r2, %r3;",
    "a counter": "atom.global.add.u32 %r2, [%d3], 3;",
    "counters": (
        "and.b32 %r3, %r1, 7;\nmul.wide.u32 %d5, %r3, 4;\nadd.u64 %d5, %d3, %d5;\natom.global.inc.u32 %r2, [%d5], 3;"
    ),
    "one exchange after another": "atom.global.exch.b32 %r2, [%d3], %r1;",
    "the smallest": "red.global.min.s32 [%d3], %r1;\nmov.u32 %r2, 1;",
    "float counters": (
        "cvt.rn.f32.u32 %f1, %r1;\nand.b32 %r3, %r1, 3;\nmul.wide.u32 %d5, %r3, 4;\nadd.u64 %d5, %d3, %d5;\n"
        "red.global.add.f32 [%d5], %f1;\nmov.u32 %r2, 1;"
    ),
    "local memory": (
        ".local .align 8 .b8 own[64];\nmov.u64 %d5, own;\nand.b32 %r3, %r1, 7;\nmul.wide.u32 %d6, %r3, 8;\n"
        "add.u64 %d6, %d5, %d6;\nst.local.u64 [%d6], %d1;\nld.local.u32 %r2, [%d6];"
    ),
    "a generic address": (
        ".local .align 8 .b8 own[64];\nmov.u64 %d5, own;\ncvta.local.u64 %d5, %d5;\nst.u32 [%d5+12], %r1;\n"
        "setp.lt.u32 %p1, %r1, 30;\nselp.b64 %d5, %d5, %d3, %p1;\nld.u32 %r2, [%d5+12];"
    ),
    "vectors": "shl.b32 %r3, %r1, 3;\nand.b32 %r3, %r3, 63;\ncvt.u64.u32 %d5, %r3;\nadd.u64 %d5, %d3, %d5;\n"
    "ld.global.v2.u32 {%r2, %r4}, [%d5];\nadd.u32 %r2, %r2, %r4;",
    "a read past the end": "ld.global.u32 %r2, [%d2+300];",
    "a misaligned store": "st.global.u32 [%d2+2], %r1;\nmov.u32 %r2, 0;",
    "shared memory that was never written": (
        ".shared .align 4 .b8 s[1024];\nshl.b32 %r4, %r1, 2;\nld.shared.u32 %r2, [%r4];\nadd.u32 %r2, %r2, 1;"
    ),
    "a race": (
        ".shared .align 4 .b8 s[1024];\nshl.b32 %r4, %r1, 2;\nst.shared.u32 [%r4], %r1;\nxor.b32 %r4, %r4, 128;\n"
        "ld.shared.u32 %r2, [%r4];"
    ),
    "a barrier that some do not reach": "setp.lt.u32 %p1, %r1, 5;\nmov.u32 %r2, 0;\n@%p1 bar.sync 1, 64;",
    "a trap": "mov.u32 %r2, 0;\nsetp.eq.u32 %p1, %r1, 37;\n@%p1 trap;",
}
# The threads whose guard is false keep all bits of a register that is wider than what the others load.
WAYS |= {
    f"a guarded load of {kind} into {width} bits": (
        f".reg .b{width} %wide, %more;\n.reg .b64 %all;\nsetp.gt.u32 %p1, %r1, 20;\nmov.u64 %all, 0x89abcdef87654321;\n"
        f"cvt.u{width}.u64 %wide, %all;\nmov.b{width} %more, %wide;\n"
        f"@%p1 ld.global.{kind} %wide, [%d3+{int(kind[1:]) // 8}];\n"
        f"@!%p1 ld.global.v2.{kind} {{%more, %wide}}, [%d3+{2 * int(kind[1:]) // 8}];\ncvt.u64.u{width} %all, %wide;\n"
        f"{{ .reg .b64 %also;\ncvt.u64.u{width} %also, %more;\nadd.u64 %all, %all, %also; }}\n"
        "{ .reg .b32 %low, %high;\nmov.b64 {%low, %high}, %all;\nxor.b32 %r2, %low, %high; }"
    )
    for kind, width in (
        ("u8", 16), ("s8", 16), ("b8", 32), ("s8", 64), ("u16", 32), ("s16", 64), ("b32", 64), ("s32", 64),
    )
}  # fmt: skip
WRONG = ("read past", "misaligned", "never written", "a race", "do not reach", "trap")


@pytest.mark.parametrize("watch", [True, False], ids=["checked", "unchecked"])
@pytest.mark.parametrize("name", WAYS)
def test_ways(name: str, watch: bool) -> None:
    text = kernel(f"{START}{WAYS[name]}\nst.global.u32 [%d1], %r2;", ".param .u64 out, .param .u64 extra")
    text = text.replace(".version 7.8\n.target sm_75", ".version 7.8\n.target sm_80")
    wrong = any(words in name for words in WRONG)
    if wrong and not watch and name not in ("a read past the end", "a misaligned store"):
        pytest.skip("only the checker finds it")
    extra = struct.pack("<64I", *(k * 2654435761 & 0x7FFFFFFF for k in range(64)))
    if name in ("a read past the end",):
        extra = extra[:256]
    for block, grid in ((64, 5), (50, 3), (1, 2)):
        if block == 1 and wrong:
            continue
        undefined = "shuffle" in name and block % 32 > 0 and watch  # from lanes that have no thread
        odd = wrong or undefined
        got = agree(
            text, [bytes(4 * 64 * 5), extra], block=block, grid=grid, watch=watch, as_arrays=None if odd else True
        )
        assert bool(got.reports) is odd


def test_what_nobody_wrote_is_reported_once_and_only_once() -> None:
    text = kernel(
        f"{START}ld.global.u32 %r2, [%d1+4];\nadd.u32 %r2, %r2, 1;\nst.global.u32 [%d2], %r2;",
        ".param .u64 out, .param .u64 extra",
    )
    got = agree(text, [4 * 64 * 700, bytes(256)], block=64, grid=690, as_arrays=None)
    assert len(got.reports) == 1 and "never written" in got.reports[0]


def test_a_fault_leaves_the_memory_that_the_scalar_executor_leaves() -> None:
    """What later threads of the chunk stored is undone; what earlier threads stored stays."""
    body = (
        f"{START}st.global.u32 [%d1], %r22;\nsetp.eq.u32 %p1, %r22, 1000;\n@%p1 st.global.u32 [%d3+4096], 1;\n"
        "st.global.u32 [%d1], 7;"
    )
    text = kernel(body, ".param .u64 out, .param .u64 extra")
    got = agree(text, [bytes(4 * 64 * 64), bytes(256)], block=64, grid=64, as_arrays=None)
    words = struct.unpack("<4096I", got.memory[0])
    assert words[999] == 7 and words[1000] == 1000 and words[1001] == 0
    assert "block (15, 0, 0), thread (40, 0, 0)" in got.reports[0]


def test_a_chunk_that_writes_much_can_be_undone() -> None:
    """The log of stores becomes a copy of the allocation."""
    body = (
        f"{START}mov.u32 %r2, 0;\nL: st.global.u32 [%d1], %r2;\nadd.u32 %r2, %r2, 1;\nsetp.lt.u32 %p1, %r2, 300;\n"
        "@%p1 bra L;\nsetp.eq.u32 %p1, %r22, 100;\n@%p1 st.global.u32 [%d3+4096], 1;"
    )
    text = kernel(body, ".param .u64 out, .param .u64 extra")
    got = agree(text, [bytes(4 * 64 * 64), bytes(256)], block=64, grid=64, as_arrays=None)
    assert struct.unpack("<4096I", got.memory[0])[98:103] == (299, 299, 299, 0, 0)


# -- random programs


@pytest.mark.parametrize("first", range(0, 240 if EXECUTOR == "numpy" else 60, 30))
def test_random_programs(first: int) -> None:
    alone = 0
    for seed in range(first, first + 30):
        try:
            got = agree(random_program(seed), random_data(seed), block=64, grid=3, as_arrays=None)
        except AssertionError as reason:
            raise AssertionError(f"seed {seed}") from reason
        alone += got.last == ""
    assert alone > 20, alone


# -- which executor runs


def test_small_launches_run_thread_by_thread() -> None:
    text = kernel("mov.u32 %r1, 1;\nst.global.u32 [%out], %r1;")
    assert launch(text, "auto", [bytes(4)], block=32).last is None


def test_a_long_kernel_changes_over_in_the_middle() -> None:
    body = (
        f"{START}mov.u32 %r2, 0;\nL: add.u32 %r2, %r2, 3;\nsetp.lt.u32 %p1, %r2, 900;\n@%p1 bra L;\n"
        "add.u32 %r2, %r2, %r22;\nst.global.u32 [%d1], %r2;"
    )
    text = kernel(body, ".param .u64 out, .param .u64 extra")
    memory = space.Space()
    code = ptx.load(text.encode(), memory)
    out = memory.allocate(4 * 64 * 1000)
    seen: list[int] = []
    code.entries["k"].run(
        (1000, 1, 1),
        (64, 1, 1),
        0,
        struct.pack("<QQ", out.base, out.base),
        progress=lambda done, total: seen.append(done),
    )
    words = struct.unpack("<64000I", bytes(out.data))
    assert words == tuple(900 + k for k in range(64000))
    arrays = code.entries["k"]._arrays
    assert arrays is not None and arrays._compiled is not None and seen == sorted(seen)


def test_without_numpy_all_runs_thread_by_thread() -> None:
    """Also if arrays are asked for."""
    text = kernel(START + "st.global.u32 [%d1], %r22;", ".param .u64 out, .param .u64 extra")
    program = f"""
import sys
sys.modules["numpy"] = None
from {ptx.__name__.rpartition(".")[0]} import ptx
from {ptx.__name__.rpartition(".")[0]}.machine import space
for executor in ("auto", "numpy"):
    memory = space.Space()
    memory.executor, memory.spent = executor, 9.0
    entry = ptx.load({text!r}.encode(), memory).entries["k"]
    out = memory.allocate(4 * 64 * 4000)
    entry.run((4000, 1, 1), (64, 1, 1), 0, out.base.to_bytes(8, "little") * 2)
    assert bytes(out.data[-4:]) == (64 * 4000 - 1).to_bytes(4, "little")
    print(entry._arrays.reason)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=CHECKOUT)
    assert done.stdout == "NumPy 2.0 or later is not installed\n" * 2, done.stderr


def test_an_endless_kernel_ends() -> None:
    text = kernel("L: bra L;")
    memory = space.Space()
    memory.executor = "numpy"
    code = ptx.load(text.encode(), memory)
    with pytest.raises(Fault, match="does not end") as caught:
        code.entries["k"].run((4, 1, 1), (64, 1, 1), 0, bytes(8), limits=ptx.Limits(turns=100_000))
    assert caught.value.code == 702


def test_a_chunk_that_takes_long_is_probed(monkeypatch: pytest.MonkeyPatch) -> None:
    """One thread runs alone: an endless one is found long before arrays have made as many iterations."""
    running = module("emulator.ptx.vectors.running.running")
    monkeypatch.setattr(running, "SECONDS_TO_PROBE", 0.2)
    memory = space.Space()
    memory.executor = "numpy"
    body = f"{START}mov.u32 %r2, 0;\nL: add.u32 %r2, %r2, %r1;\nst.global.u32 [%d1], %r2;\nbra L;"
    code = ptx.load(kernel(body, ".param .u64 out, .param .u64 extra").encode(), memory)
    out = memory.allocate(4 * 64 * 64)
    packed = struct.pack("<QQ", out.base, out.base)
    with pytest.raises(Fault, match="does not end"):
        code.entries["k"].run((64, 1, 1), (64, 1, 1), 0, packed, limits=ptx.Limits(turns=1_000_000))


@pytest.mark.parametrize("watch", [False, True])
def test_a_probe_changes_no_memory_and_begins_with_that_of_the_chunk(
    monkeypatch: pytest.MonkeyPatch, watch: bool
) -> None:
    """What other threads of the host write meanwhile stays; functions do not remember the memory of other blocks."""
    running, program = module("emulator.ptx.vectors.running.running"), module("emulator.ptx.ptx_program")
    arrays = module("emulator.ptx.vectors.executor_choice").Arrays
    monkeypatch.setattr(running, "SECONDS_TO_PROBE", -1.0)
    monkeypatch.setattr(running, "PATIENCE", 1e9)
    monkeypatch.setattr(arrays, "_waited", lambda self, launch, total, scalar: scalar(0, 1) or 1)
    monkeypatch.setattr(arrays, "_judged", None)  # nothing is wrong
    memory = space.Space(watch=watch)
    count = ".func count(.reg .b64 %a)\n{ .reg .b32 %r; ld.global.u32 %r, [%a]; add.u32 %r, %r, 1;\n"
    count += "st.global.u32 [%a], %r; ret; }\n"
    body = f"{START}mov.u32 %r2, 0;\nst.global.u32 [%d1], %r2;\nL: call count, (%d1);\nadd.u32 %r2, %r2, 1;\n"
    body += "setp.lt.u32 %p1, %r2, 100;\n@%p1 bra L;"
    entry = ptx.load(kernel(body, ".param .u64 out, .param .u64 extra", before=count).encode(), memory).entries["k"]
    out, other = memory.allocate(4 * 64 * 64), memory.allocate(256)
    seen: list[Any] = []
    run_alone = program.run_alone

    def probe(kernel: Any, launch: Any, number: int, thread: int, *rest: Any) -> None:
        at = 4 * (64 * number + thread)
        copied, now = launch.space.find(out.base), bytes(out.data)
        assert bytes(copied.data[at : at + 4]) == b"\xfb" * 4 and not any((copied.written or b"")[at : at + 4])
        run_alone(kernel, launch, number, thread, *rest)
        assert bytes(copied.data[at : at + 4]) == struct.pack("<I", 100) and bytes(out.data) == now
        other.data[len(seen)] = 7
        seen.append((launch, launch.functions))

    monkeypatch.setattr(program, "run_alone", probe)
    entry.run((64, 1, 1), (64, 1, 1), 0, struct.pack("<QQ", out.base, other.base))
    assert seen and struct.unpack("<4096I", bytes(out.data)) == (100,) * 4096
    assert bytes(other.data[: len(seen)]) == b"\7" * len(seen)
    assert all(launch.functions is not functions for launch, functions in seen)


@pytest.mark.parametrize("wrong", [False, True])
def test_a_launch_leaves_nothing_behind(wrong: bool) -> None:
    """What a launch refers to, such as the contexts that decide about access, is not kept by the kernel."""
    memory = space.Space()
    memory.executor = "numpy"
    body = f"{START}{WAYS['a trap' if wrong else 'a diamond']}\nst.global.u32 [%d1], %r2;"
    code = ptx.load(kernel(body, ".param .u64 out, .param .u64 extra").encode(), memory)
    out = memory.allocate(4 * 64 * 64)

    class Rights:
        def __call__(self, allocation: Any) -> int:
            return 3

    rights = Rights()
    kept = weakref.ref(rights)
    try:
        code.entries["k"].run((64, 1, 1), (64, 1, 1), 0, struct.pack("<QQ", out.base, out.base), rights=rights)
    except Fault:
        assert wrong
    del rights
    gc.collect()
    assert kept() is None


def test_an_interrupt_stops_arrays_at_once() -> None:
    """No step begins after an interrupt, and no step has more threads than a chunk."""
    memory = space.Space()
    memory.executor = "numpy"
    body = f"""{START}ld.global.u32 %r3, [%d3];\nmov.u32 %r2, 0;
L: add.u32 %r2, %r2, 1;\nst.global.u32 [%d1], %r2;\nsetp.lt.u32 %p1, %r2, %r3;\n@%p1 bra L;"""
    entry = ptx.load(kernel(body, ".param .u64 out, .param .u64 extra").encode(), memory).entries["k"]
    out, extra = memory.allocate(4 * 64 * 4096), memory.allocate(256)
    packed, steps = struct.pack("<QQ", out.base, extra.base), []
    extra.data[:4] = struct.pack("<I", 1)
    extra.wrote(0, 256)
    entry.run((4096, 1, 1), (64, 1, 1), 0, packed)
    functions = entry._arrays._compiled.functions

    def counted(function: Any) -> Any:
        def step(group: Any, *rest: Any) -> Any:
            steps.append(group.n)
            if len(steps) == 50:
                _thread.interrupt_main()
            return function(group, *rest)

        return step

    functions[:] = [counted(each) for each in functions]
    extra.data[:4] = struct.pack("<I", 1 << 30)
    with pytest.raises(KeyboardInterrupt):
        entry.run((4096, 1, 1), (64, 1, 1), 0, packed)
    assert len(steps) == 50 and max(steps) <= module("emulator.ptx.vectors.running.running").LANES


def test_an_interrupt_during_the_import_of_numpy_does_not_break_it(python: Any) -> None:
    result = python(
        """
        import signal, sys
        from tests.subject import module, rawcuda

        class Interrupting:
            def find_spec(self, name, path=None, target=None):
                if name == "numpy.linalg":  # in the middle of the import
                    sys.meta_path.remove(self)
                    signal.raise_signal(signal.SIGINT)

        np = module("emulator.ptx.vectors.late_numpy").np
        sys.meta_path.insert(0, Interrupting())
        assert "numpy" not in sys.modules
        try:
            np.uint8
        except KeyboardInterrupt:
            print("interrupted")
        print(np.arange(3).tolist())
        import numpy
        print(numpy.matrix.__name__)
        """,
        env={"RAWCUDA_DRIVER": "emulator"},
        check=True,
    )
    assert result.stdout.split("\n") == ["interrupted", "[0, 1, 2]", "matrix", ""]


@pytest.mark.parametrize("executor", ["scalar", "numpy"])
@pytest.mark.parametrize(
    "body",
    [
        ".reg .b32 %x, %y; ld.global.s16 %x, [g]; add.f32 %y, %x, %x; st.global.f32 [o], %y; ret;",
        ".reg .b16 %h; .reg .b32 %x; mov.b16 %h, 0; mov.b32 %x, {%h, 0f00000001}; st.global.b32 [o], %x; ret;",
    ],
    ids=["a negative number read into a register of floats", "a float as half of a register"],
)
def test_bits_that_no_number_has(executor, body, python):
    """Legal PTX, on which an executor failed itself."""
    text = (
        ".version 8.0\n.target sm_80\n.address_size 64\n.global .align 4 .s16 g[2] = {-1, 0};\n.global .b32 o;\n"
        f".entry k() {{ {body} }}"
    )
    python(
        f"""
        from tests.subject import rawcuda
        device = rawcuda.Device(0)
        device.load({text!r})["k"].launch(grid=1, block=1)
        device.synchronize()
        """,
        env={"RAWCUDA_DRIVER": "emulator", "RAWCUDA_EMULATOR": f"executor={executor}"},
        check=True,
    )


@pytest.mark.parametrize("place", ["global", "generic global", "shared", "generic shared"])
@pytest.mark.parametrize("returns", [True, False])
def test_sums_of_float32_flush_subnormal_numbers_in_global_memory_only(place: str, returns: bool) -> None:
    """ptxas makes ATOMG.E.ADD.F32.FTZ.RN or REDG of them for global memory, and FADD with a CAS for shared memory."""
    tiny = 0x00400000  # half of the smallest normal number
    where = "%d1" if "global" in place else "%d4"
    space = "" if "generic" in place else f".{place}"
    add = f"atom{space}.add.f32 %f3, [{where}], %f2;" if returns else f"red{space}.add.f32 [{where}], %f2;"
    text = kernel(
        f"""mov.u32 %r1, %tid.x; mul.wide.u32 %d2, %r1, 4; ld.param.u64 %d3, [in]; add.u64 %d3, %d3, %d2;
        ld.global.f32 %f2, [%d3]; mov.f32 %f3, 0f00000000; add.u64 %d1, %out, %d2;
        .shared .align 4 .b8 held[256]; mov.u64 %d4, held; {"cvta.shared.u64 %d4, %d4;" * (not space)}
        add.u64 %d4, %d4, %d2; ld.global.f32 %f4, [%d1];
        mov.u64 %d5, held; add.u64 %d5, %d5, %d2; st.shared.f32 [%d5], %f4;
        {add}
        {"" if "global" in place else "ld.shared.f32 %f4, [%d5]; st.global.f32 [%d1], %f4;"}""",
        ".param .u64 out, .param .u64 in",
    )
    held = np.array([tiny, 0x80400000, 0x3F800000, 0x00C00000] * 16, "u4")
    given = np.array([tiny, 0, tiny, 0x80800000] * 16, "u4")
    kept, flushed = [0x00800000, 0x80400000, 0x3F800000, tiny], [0, 0, 0x3F800000, 0]
    got = agree(text, [held.tobytes(), given.tobytes()], block=64)
    assert np.frombuffer(got.memory[0], "u4")[:4].tolist() == (flushed if "global" in place else kept)
