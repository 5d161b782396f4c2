"""The two executors agree: the same memory afterwards, and the same reports, for compiled and for random kernels.

A launch runs with each executor in a space of its own, whose allocations have the same addresses. Memory is compared
byte by byte. `TESTED_EXECUTOR=numpy` runs all other tests of PTX and of the corpus with arrays, too.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

np = pytest.importorskip("numpy", minversion="2.0")

from tests.null.ptx_client import DATA, HEAD, Fault, kernel, ptx, space, three  # noqa: E402

CORPUS = DATA.parent / "corpus"


class Outcome:
    """What a launch left behind: memory, reports, output; and whether arrays ran all of it."""

    def __init__(self, memory: list[bytes], reports: list[str], output: str, last: str | None) -> None:
        self.memory, self.reports, self.output, self.last = memory, reports, output, last


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
    return Outcome([bytes(made.data) for made in held], reports, "", last)


def agree(text: str, buffers: Sequence[Any], scalars: Sequence[int] = (), as_arrays: bool | None = True, **options: Any) -> Outcome:
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

WORDS = [
    0, 1, 2, 3, 5, 7, 8, 31, 32, 33, 63, 64, 255, 256, 0x7F, 0x80, 0x7FFF, 0x8000, 0xFFFF, 0x10000, 0x7FFFFFFF, 0x80000000,
    0x80000001, 0xFFFFFFFF, 0xFFFFFFFE, 0x3F800000, 0xBF800000, 0x3F000000, 0x40490FDB, 0x7F800000, 0xFF800000, 0x7FC00000,
    0x00000001 | 0x80000000, 0x007FFFFF, 0x00800000, 0x7F7FFFFF, 0x4B800000, 0x4B000001, 0x33800000, 0x34000000, 0x3C003C00,
    0x7C00FC00, 0x00010001, 0x40E00000, 0x42C80000, 0xC2C80000, 0x5F000000, 0xDF000000, 0x4F000000, 0xCF000000,
]  # fmt: skip


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
            value = struct.unpack("<Q", struct.pack("<d", rng.uniform(-4, 4)))[0] ^ single
            value = value & ~0xFFFFFFFF | single
        made.append(value)
    return made


TABLE = __import__("importlib").import_module(ptx.__name__ + ".translating.opcodes").TABLE
FORMS = __import__("importlib").import_module(ptx.__name__ + ".translating.forms")
BITS = __import__("importlib").import_module(ptx.__name__ + ".reading.syntax").BITS
REGISTER = {1: "%p", 16: "%h", 32: "%r", 64: "%d"}
_LATER = frozenset(  # other tests run these: they access memory, branch, or involve other threads
    "ld ldu st atom red cp bra brx call ret exit trap brkpt bar barrier shfl vote match redux activemask elect nanosleep "
    "prefetch prefetchu discard createpolicy pmevent membar fence griddepcontrol setmaxnreg cvta isspacep mov tex tld4 txq "
    "suld sust sured suq istypep mbarrier mapa getctarank ldmatrix stmatrix movmatrix mma wmma".split()
)


def instructions() -> list[tuple[str, list[str]]]:
    """Return the opcodes with all their types, and the operand types of each."""
    made = []
    for opcode in TABLE.opcodes():
        if opcode in _LATER:
            continue
        for row in TABLE._rows[opcode]:
            form = FORMS.Form(row)
            if form.architecture > (9, 0) or form.result == "!carry":
                continue
            groups = [sorted(group) for group in form.types]
            for types in _products(groups):
                for words in _products([[None] * (not required) + sorted(each) for _, each, required in form.choices]):
                    text = ".".join([opcode, *(word for word in words if word), *types])
                    chosen = [word for word in words if word]
                    shape = form.fit((*chosen, *types))
                    if not isinstance(shape, str):
                        made.append((text, list(zip(form.slots, shape.wanted))))
    return made


def _products(groups: list[list[Any]]) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = [()]
    for group in groups:
        found = [(*one, each) for one in found for each in group]
    return found


def program(text: str, slots: list[Any], count: int) -> str:
    """Return a kernel that computes one instruction of three inputs of 64 bits, and stores 8 bytes."""
    places = {"a": 0, "b": 1, "c": 2, "e": 2}
    loads = ["mov.u32 %r60, %tid.x;", "mul.wide.u32 %d60, %r60, 8;", "add.u64 %d61, %out, %d60;"]
    operands = []
    after = []
    for slot, type in slots:
        if slot.written:
            target = type if type in BITS else "b32"
            if type == "pair":
                operands.append("%p1")
                after.append("selp.u64 %d50, 1, 0, %p1;")
                continue
            bits = max(16, BITS[target]) if target != "pred" else 1
            operands.append(f"{REGISTER[bits]}1")
            after.append(
                {1: "selp.u64 %d50, 1, 0, %p1;", 16: "cvt.u64.u16 %d50, %h1;", 32: "cvt.u64.u32 %d50, %r1;", 64: "mov.b64 %d50, %d1;"}[bits]
            )
        elif type == "constant":
            operands.append("0x1b")
        else:
            number = 40 + places.get(slot.name, 2) + (slot.name == "e") * 3
            bits = max(16, BITS[type]) if type != "pred" else 1
            loads.append(f"ld.global.u64 %d{number}, [%d61+{(places.get(slot.name, 2) + 1) * 8 * count}];")
            if bits == 1:
                loads += [f"cvt.u32.u64 %r{number}, %d{number};", f"and.b32 %r{number}, %r{number}, 1;",
                          f"setp.ne.u32 %p{number - 36}, %r{number}, 0;"]  # fmt: skip
                operands.append(f"%p{number - 36}")
            elif bits == 16:
                loads.append(f"cvt.u16.u64 %h{number - 36}, %d{number};")
                operands.append(f"%h{number - 36}")
            elif bits == 32:
                loads.append(f"cvt.u32.u64 %r{number}, %d{number};")
                operands.append(f"%r{number}")
            else:
                operands.append(f"%d{number}")
    body = "\n".join([*loads, f"{text} {', '.join(operands)};", *after, "st.global.u64 [%d61], %d50;"])
    return kernel(body, head=".version 8.3\n.target sm_90\n.address_size 64\n")


def test_every_instruction_on_registers() -> None:
    """Each form, with and without its optional modifiers, for a hundred triples of numbers."""
    count = 100
    seen: dict[str, int] = {"ran": 0, "not": 0}
    wrong = []
    for number, (text, slots) in enumerate(instructions()):
        source = program(text, slots, count)
        data = struct.pack(f"<{4 * count}Q", *([0] * count + numbers(3 * count, number)))
        try:
            ptx.load(source.encode(), space.Space())
        except ptx.Rejected:
            continue
        try:
            got = agree(source, [data], block=count, as_arrays=None)
        except AssertionError as reason:
            wrong.append(f"{text}: {str(reason)[:200]}")
            continue
        seen["ran" if got.last == "" else "not"] += 1
    assert not wrong, f"{len(wrong)} of {sum(seen.values())}:\n" + "\n".join(wrong[:60])
    assert seen["ran"] > 20 * seen["not"] and seen["ran"] > 500, seen


_ = (HEAD, Path, CORPUS)
