"""Tensor cores, barriers in shared memory, copies that arrive late, small floats and video instructions: their values.

The expected numbers are NumPy's, in double precision, or those of ml_dtypes, or of a few lines of Python here.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.emulator.ptx_client import Fault, Machine, kernel, ptx, space
from tests.emulator.ptx_forms import FORMS, group, mma, mutants, products, text_of
from tests.emulator.test_ptx_mutants import PTXAS, ours, verdict

pytestmark = pytest.mark.once  # with other Pythons and modes, they would show the same

np = pytest.importorskip("numpy")
small_types = pytest.importorskip("ml_dtypes")

HEAD = ".version 8.8\n.target sm_{}\n.address_size 64\n"


def head(target: str = "90") -> str:
    return HEAD.format(target)


def machine(text: str, target: str = "90", **options: Any) -> Machine:
    number = int(target.rstrip("af"))
    return Machine(text, architecture=(number // 10, number % 10), **options)


# -- what is accepted


@pytest.mark.parametrize("target", sorted({target for target, _ in FORMS}))
def test_every_form_is_taken(target: str) -> None:
    for needed, instruction in FORMS:
        if needed == target:
            assert ours(text_of("75" if target == "70" else target, [instruction])) == "", instruction


def judged(count: int, folder: Path) -> tuple[int, list[str]]:
    """Return how many of the first mutants are judged alike, and the others."""
    alike, others = 0, []
    for _, (target, instruction) in zip(range(count), mutants(random.Random(14))):
        text = text_of(target, [instruction])
        theirs, mine = verdict(text, folder, "-O0"), ours(text)
        if bool(theirs) == bool(mine):
            alike += 1
        else:
            others.append(f"sm_{target} {instruction} {'missed: ' + theirs if theirs else 'wrong: ' + mine}")
    return alike, others


@pytest.mark.skipif(PTXAS is None, reason="ptxas is not installed (pip install nvidia-cuda-nvcc)")
def test_ptxas_takes_every_form_and_judges_some_mutants_alike(tmp_path: Path) -> None:
    for target in sorted({target for target, _ in FORMS}):
        least = "75" if target == "70" else target
        text = text_of(least, [instruction for needed, instruction in FORMS if needed == target])
        assert verdict(text, tmp_path, "-O0") == "", target
    alike, others = judged(60, tmp_path)
    assert alike >= 57, others


@pytest.mark.heavy
@pytest.mark.skipif(PTXAS is None, reason="ptxas is not installed (pip install nvidia-cuda-nvcc)")
def test_400_mutants_are_judged_alike(tmp_path: Path) -> None:
    alike, others = judged(400, tmp_path)
    print(f"{alike} of 400 mutants are judged as by ptxas, {alike / 4:.1f} %")
    assert alike >= 380, others


@pytest.mark.parametrize(
    "target,instruction,words",
    [
        ("75", "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f0,%f1,%f2,%f3}, {%r1,%r2,%r3,%r4}, {%r5,%r6}, "
         "{%f0,%f1,%f2,%f3};", "sm_80"),
        ("90", "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f0,%f1}, {%r1,%r2}, {%r3}, {%f0,%f1,%f2,%f3};",
         "Arguments mismatch"),
        ("90", "mma.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f0,%f1,%f2,%f3}, {%r1,%r2}, {%r3}, "
         "{%f0,%f1,%f2,%f3};", "sync"),
        ("90", "mma.sync.aligned.m16n8k8.row.row.f32.f16.f16.f32 {%f0,%f1,%f2,%f3}, {%r1,%r2}, {%r3}, "
         "{%f0,%f1,%f2,%f3};", "row|col"),
        ("90", "mma.sync.aligned.m16n8k7.row.col.f32.f16.f16.f32 {%f0}, {%r1}, {%r3}, {%f0};", "Illegal modifier"),
        ("90", "mma.sync.aligned.m16n8k8.row.col.f32.f32.f32.f32 {%f0}, {%r1}, {%r3}, {%f0};", "Illegal modifier"),
        ("90", "mma.sp.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 {%f0}, {%r1}, {%r2}, {%f1}, %r1, 0;", "sparse"),
        ("90a", "wgmma.fence.sync.aligned;", "warp group"), ("100a", "tcgen05.wait::ld.sync.aligned;", "warp group"),
        ("90", "multimem.red.relaxed.sys.global.add.u32 [%d1], %r1;", "multicast"),
        ("75", "mbarrier.init.shared.b64 [bar], 1;", "sm_80"),
        ("90", "mbarrier.arrive.shared.b64 %d1, [bar], 0;", "out of"),
        ("80", "mbarrier.arrive.shared.b64 %d1, [bar], 2;", "noComplete"),
        ("90", "mbarrier.arrive.shared::cluster.b64 %d1, [%r1];", "Arguments mismatch"),
        ("80", "mbarrier.try_wait.shared.b64 %p1, [bar], %d1;", "sm_90"),
        ("90", "cp.async.ca.shared.global [s], [%d1], 12;", "4, 8 or 16"),
        ("90", "cp.async.cg.shared.global [s], [%d1], 4;", "16 with"),
        ("90", "cp.async.bulk.global.shared::cta.bulk_group [%d1], [s], 24;", "multiple of 16"),
        ("80", "cp.async.bulk.commit_group;", "sm_90"),
        ("90", "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [s], [%d1, {%r1}], [bar];",
         "Arguments mismatch"),
        ("90", "cp.async.bulk.tensor.3d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [s], "
         "[%d1, {%r1, %r2, %r3}], [bar], {%h1};", "only the mode tile"),
        ("75", "ldmatrix.sync.aligned.m8n8.x3.shared.b16 {%r1,%r2,%r3}, [s];", "Illegal modifier"),
        ("75", "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r1}, [s];", "Arguments mismatch"),
        ("80", "stmatrix.sync.aligned.m8n8.x1.shared.b16 [s], {%r1};", "sm_90"),
        ("80", "cvt.rn.satfinite.e4m3x2.f32 %h1, %f1, %f2;", "sm_89"),
        ("90", "cvt.rn.satfinite.e2m1x2.f32 %b1, %f1, %f2;", "sm_100"),
        ("100", "cvt.rn.satfinite.e2m3x2.f32 %h1, %f1, %f2;", "architecture-specific"),
        ("90", "cvt.rn.e4m3x2.f32 %h1, %f1, %f2;", "satfinite"), ("75", "vadd.s32.s32 %r1, %r2, %r3;", "types"),
        ("75", "vadd.s32.s32.s32 %r1, %r2.b4, %r3;", "selector"),
        ("75", "vadd4.s32.s32.s32 %r1.b01, %r2, %r3, %r4;", "Arguments mismatch"),
        ("75", "{ .reg .v4 .f64 v; }", "wider than 128 bits"), ("75", "{ .reg .e4m3 v; }", "a type"),
        ("75", "mov.v2.u32 {%r1, %r2}, {%r3};", "mismatch for instruction 'mov'"),
    ],
)  # fmt: skip
def test_what_ptxas_refuses_is_refused_with_its_reason(target: str, instruction: str, words: str) -> None:
    assert re.search(
        re.escape(words).replace(r"row\|col", "(row|col|illegal|Illegal)"), ours(text_of(target, [instruction]))
    )


# -- products


def element(matrix: str, m: int, bits: int, lane: int, at: int) -> tuple[int, int]:
    """Return row and column of an element of a fragment, as the figures of the ISA show them."""
    row, column = lane // 4, lane % 4
    if matrix == "c":
        return row + 8 * (at // 2), 2 * column + at % 2
    each = max(32 // bits, 1)
    word, part = at // each, at % each
    if matrix == "a":
        return (row + 8 * (word % 2), (word // 2) * 4 * each + column * each + part) if m == 16 else (
            row, word * 4 * each + column * each + part
        )  # fmt: skip
    return word * 4 * each + column * each + part, row


def volta(matrix: str, layout: str, type: str, lane: int, at: int) -> tuple[int, int]:
    upper = lane // 16 * 4
    if matrix == "c":
        if type == "f32":
            return (lane & 1) + upper + (at & 2), (at & 4) + (lane & 2) + (at & 1)
        return lane % 4 + upper, at
    if (matrix, layout) in (("a", "row"), ("b", "col")):
        place = lane % 4 + upper, at % 4
    else:
        place = at % 4 + upper, lane % 4
    return place if matrix == "a" else place[::-1]


CODES = {"f16": np.float16, "f32": np.float32, "f64": np.float64, "s32": np.int32, "s8": np.int8, "u8": np.uint8}
SMALL = {
    "bf16": small_types.bfloat16, "e4m3": small_types.float8_e4m3fn, "e5m2": small_types.float8_e5m2,
    "e2m3": small_types.float6_e2m3fn, "e3m2": small_types.float6_e3m2fn, "e2m1": small_types.float4_e2m1fn,
}  # fmt: skip
BITS = {"f16": 16, "bf16": 16, "tf32": 32, "f32": 32, "f64": 64, "s4": 4, "u4": 4, "b1": 1, "s32": 32}


def values_of(type: str, shape: tuple[int, int], pick: Any, extreme: bool) -> tuple[Any, Any]:
    """Return random numbers of a type as double (or int), and their bits."""
    count = shape[0] * shape[1]
    if type == "b1":
        bits = pick.integers(0, 2, count)
        return bits.reshape(shape), bits.reshape(shape)
    if type in ("s4", "u4", "s8", "u8", "s32"):
        wide = 32 if type == "s32" else BITS.get(type, 8)
        low, high = (0, 1 << wide) if type[0] == "u" else (-(1 << wide - 1), 1 << wide - 1)
        found = (
            pick.choice([low, high - 1], count)
            if extreme
            else pick.integers(low, high, count) >> (4 if wide == 32 else 0)
        )
        return found.reshape(shape).astype(object), (found & (1 << wide) - 1).reshape(shape)
    found = pick.normal(size=count) * (10.0 ** pick.integers(-3, 3, count) if extreme else 1.0)
    if type == "tf32":
        raw = found.astype(np.float32).view(np.uint32)
        return (raw & 0xFFFFE000).view(np.float32).astype(float).reshape(shape), raw.reshape(shape)
    made = found.astype(SMALL.get(type) or CODES[type])
    if type in SMALL and type != "bf16":
        made = np.clip(
            found, -float(small_types.finfo(made.dtype).max), float(small_types.finfo(made.dtype).max)
        ).astype(made.dtype)
    raw = made.view({2: np.uint16, 4: np.uint32, 8: np.uint64, 1: np.uint8}[made.dtype.itemsize])
    if type == "e2m1":
        raw = raw << 2
    return made.astype(float).reshape(shape), raw.reshape(shape)


def packed(bits: Any, wide: int, count: int, place: Any) -> bytes:
    """Return the registers of all lanes: `count` elements of a lane, `place` says which."""
    made = bytearray()
    for lane in range(32):
        word = 0
        for at in range(count):
            word |= int(bits[place(lane, at)]) << wide * at
        size = max(count * wide // 8, 4)
        made += word.to_bytes(size, "little")
    return bytes(made)


PRODUCTS = sorted(
    {(target, text.split(" ")[0]) for target, text in products() if "m8n8k4" not in text or "f64" in text}
)


@pytest.mark.parametrize("target,opcode", PRODUCTS, ids=lambda each: each)
def test_products_are_those_of_numpy(target: str, opcode: str) -> None:
    words = opcode.split(".")
    shape = words[3]
    m, n, k = (int(each) for each in re.findall(r"\d+", shape))
    types = [word for word in words if word in BITS or word in SMALL or word in ("s8", "u8")]
    run_product(target, opcode, (m, n, k), types, lambda matrix, bits, lane, at: element(matrix, m, bits, lane, at))


def run_product(target: str, opcode: str, shape: tuple[int, int, int], types: list[str], place: Any) -> None:
    m, n, k = shape
    d, a, b, c = types
    text = next(text for _, text in products() if text.startswith(opcode + " "))
    made = re.findall(r"\{([^}]*)\}", text)
    body = ["mov.u32 %r39, %laneid;"]
    parameters = [".param .u64 out", ".param .u64 a", ".param .u64 b", ".param .u64 c"]
    for name, registers, type in zip("abc", made[1:], (a, b, c)):
        items = registers.split(", ")
        size = 8 if type == "f64" else 4
        body += [f"ld.param.u64 %d1, [{name}];", f"mad.wide.u32 %d1, %r39, {size * len(items)}, %d1;"]
        kind = {"f64": "f64", "f32": "f32"}.get(type, "b32")
        body += [f"ld.global.{kind} {item}, [%d1+{at * size}];" for at, item in enumerate(items)]
    body.append(text)
    items = made[0].split(", ")
    size = 8 if d == "f64" else 4
    body.append(f"mad.wide.u32 %d1, %r39, {size * len(items)}, %out;")
    kind = {"f64": "f64", "f32": "f32"}.get(d, "b32")
    body += [f"st.global.{kind} [%d1+{at * size}], {item};" for at, item in enumerate(items)]
    code = machine(
        kernel("\n".join(body), ", ".join(parameters), head=head("75" if target == "70" else target)).replace(
            ".reg .f64 %g<32>", ".reg .f64 %g<40>"
        ),
        "75" if target == "70" else target,
    )  # fmt: skip
    for extreme in (False, True):
        pick = np.random.default_rng(3 + extreme)
        av, ab = values_of(a, (m, k), pick, extreme)
        bv, bb = values_of(b, (k, n), pick, extreme)
        cv, cb = values_of(c, (m, n), pick, extreme)
        given = []
        for matrix, type, bits, count in (
            ("a", a, ab, m * k // 32),
            ("b", b, bb, k * n // 32),
            ("c", c, cb, m * n // 32),
        ):
            wide = BITS.get(type, 8)
            raw = packed(bits, wide, count, lambda lane, at, matrix=matrix, wide=wide: place(matrix, wide, lane, at))
            given.append(code.buffer("B", raw))
        out = code.buffer("B", bytes(32 * size * len(items)))
        code.run("k", out, *given, block=32)
        if a == "b1":
            way = np.logical_xor if "xor" in opcode else np.logical_and
            wanted = way(av[:, :, None], bv[None]).sum(1) + cv
        else:
            wanted = av @ bv + cv
        found = np.zeros((m, n), object)
        raw = np.frombuffer(out.raw(), {"f16": "f2", "f32": "f4", "f64": "f8", "s32": "i4"}[d]).reshape(32, -1)
        for lane in range(32):
            for at in range(m * n // 32):
                found[place("c", BITS[d], lane, at)] = raw[lane, at].item()
        if d == "s32":
            clamped = np.clip(wanted, -(1 << 31), (1 << 31) - 1) if "satfinite" in opcode else (
                (wanted + (1 << 31)) % (1 << 32) - (1 << 31)
            )  # fmt: skip
            assert (found == clamped).all()
        else:
            scale = np.abs(av.astype(float)) @ np.abs(bv.astype(float)) + np.abs(cv.astype(float))
            error = {"f16": 2.0**-11, "f32": 2.0**-24, "f64": k * 2.0**-53}[d]
            finite = np.abs(wanted.astype(float)) < {"f16": 65504.0}.get(d, np.inf)
            difference = np.abs(found.astype(float) - wanted.astype(float))
            assert (difference <= error * scale + 2.0**-24)[finite].all()
            assert np.isinf(found.astype(float)[~finite]).all()


@pytest.mark.parametrize("layouts", ["row.row", "row.col", "col.row", "col.col"])
@pytest.mark.parametrize("type", ["f32", "f16"])
def test_four_small_products_of_a_warp(layouts: str, type: str) -> None:
    """The first tensor cores multiplied four pairs of matrices of 8 by 4 in the groups of a warp."""
    text = mma("m8n8k4", type, "f16", "f16", type, layouts, 4)
    count = 8 if type == "f32" else 4
    kind = "f32" if type == "f32" else "b32"
    stem = "f" if type == "f32" else "r"
    body = ["mov.u32 %r39, %laneid;"]
    for name, first, registers, held, letter in (
        ("a", 8, 2, "b32", "r"),
        ("b", 16, 2, "b32", "r"),
        ("c", 24, count, kind, stem),
    ):
        body += [f"ld.param.u64 %d1, [{name}];", f"mad.wide.u32 %d1, %r39, {4 * registers}, %d1;"]
        body += [f"ld.global.{held} %{letter}{first + at}, [%d1+{4 * at}];" for at in range(registers)]
    body += [text, f"mad.wide.u32 %d1, %r39, {4 * count}, %out;"]
    body += [f"st.global.{kind} [%d1+{4 * at}], %{stem}{at};" for at in range(count)]
    code = Machine(kernel("\n".join(body), ".param .u64 out, .param .u64 a, .param .u64 b, .param .u64 c"))
    pick = np.random.default_rng(5)
    code_of = np.float32 if type == "f32" else np.float16
    a, b = (pick.normal(size=(4, *shape)).astype(np.float16) for shape in ((8, 4), (4, 8)))
    c = pick.normal(size=(4, 8, 8)).astype(code_of)
    la, lb = layouts.split(".")
    fragments = [np.zeros((32, 4), np.float16), np.zeros((32, 4), np.float16), np.zeros((32, 8), code_of)]
    for matrix, layout, source, made in (
        ("a", la, a, fragments[0]),
        ("b", lb, b, fragments[1]),
        ("c", "", c, fragments[2]),
    ):
        for lane in range(32):
            for at in range(made.shape[1]):
                made[lane, at] = source[lane % 16 // 4][volta(matrix, layout, type, lane, at)]
    out = code.buffer("B", bytes(32 * 4 * count))
    code.run("k", out, *(code.buffer("B", each.tobytes()) for each in fragments), block=32)
    found = np.frombuffer(out.raw(), code_of).reshape(32, 8)
    wanted = a.astype(float) @ b.astype(float) + c
    for lane in range(32):
        for at in range(8):
            expected = wanted[lane % 16 // 4][volta("c", "", type, lane, at)]
            assert abs(found[lane, at] - expected) < (1e-6 if type == "f32" else 1e-2)


def fragment_forms() -> Iterator[tuple[str, str, str, str]]:
    for shapes, ab, c, target in (
        ("m16n16k16 m8n32k16 m32n8k16", "f16", "f32", "75"), ("m16n16k16 m32n8k16", "f16", "f16", "75"),
        ("m16n16k16 m8n32k16 m32n8k16", "bf16", "f32", "80"), ("m16n16k16 m8n32k16 m32n8k16", "s8", "s32", "75"),
        ("m16n16k16", "u8", "s32", "75"), ("m16n16k8", "tf32", "f32", "80"), ("m8n8k4", "f64", "f64", "80"),
        ("m8n8k32", "s4", "s32", "75"), ("m8n8k32", "u4", "s32", "75"),
    ):  # fmt: skip
        for shape in shapes.split():
            for layouts in ("row.row", "col.col", "row.col") if ab[1:] != "4" else ("row.col",):
                yield shape, ab, c, f"{target} {layouts}"


@pytest.mark.parametrize("shape,ab,c,rest", list(fragment_forms()))
def test_fragments_from_and_to_memory(shape: str, ab: str, c: str, rest: str) -> None:
    """wmma: what is loaded, multiplied and stored is the product, for every layout and with strides."""
    target, layouts = rest.split()
    la, lb = layouts.split(".")
    m, n, k = (int(each) for each in re.findall(r"\d+", shape))
    wide = 2048 if ab == "f64" else 1024
    counts = [8 if ab == "f16" else max(size * BITS.get(ab, 8) // wide, 1) for size in (m * k, k * n)]
    of_c = m * n * BITS[c] // (2048 if c == "f64" else 1024)
    stem, held = {"f64": "g"}.get(ab, "r"), {"f32": "f", "f64": "g"}.get(c, "r")
    a, b, acc = group(stem, 0, counts[0]), group(stem, 8, counts[1]), group(held, 16, of_c)
    types = f"{c}.{c}" if ab == "f16" else f"{c}.{ab}.{ab}.{c}"
    strides = [max(k if la == "row" else m, 32) + 32, max(n if lb == "row" else k, 32) + 32, n + 32, m + 32]
    body = f"""
    ld.param.u64 %d1, [a]; ld.param.u64 %d2, [b]; ld.param.u64 %d3, [c];
    wmma.load.a.sync.aligned.{la}.{shape}.global.{ab} {a}, [%d1], {strides[0]};
    wmma.load.b.sync.aligned.{lb}.{shape}.{ab} {b}, [%d2], {strides[1]};
    wmma.load.c.sync.aligned.row.{shape}.global.{c} {acc}, [%d3], {strides[2]};
    wmma.mma.sync.aligned.{la}.{lb}.{shape}.{types} {acc}, {a}, {b}, {acc};
    wmma.store.d.sync.aligned.col.{shape}.global.{c} [%out], {acc}, {strides[3]};
    """
    code = machine(
        kernel(body, ".param .u64 out, .param .u64 a, .param .u64 b, .param .u64 c", head=head(target)), target
    )
    pick = np.random.default_rng(7)
    av, ar = values_of(ab, (m, k), pick, False)
    bv, br = values_of(ab, (k, n), pick, False)
    cv, cr = values_of(c, (m, n), pick, False)
    given = []
    for bits, by_rows, stride, type in (
        (ar, la == "row", strides[0], ab),
        (br, lb == "row", strides[1], ab),
        (cr, True, strides[2], c),
    ):
        lines = bits if by_rows else bits.T
        room = np.zeros((lines.shape[0], stride), np.uint64)
        room[:, : lines.shape[1]] = lines
        if BITS.get(type, 8) == 4:
            room = room[:, ::2] | room[:, 1::2] << np.uint64(4)
        size = max(BITS.get(type, 8) // 8, 1)
        given.append(code.buffer("B", room.astype(f"u{size}").tobytes()))
    size = BITS[c] // 8
    out = code.buffer("B", bytes(n * strides[3] * size))
    code.run("k", out, *given, block=32)
    found = np.frombuffer(out.raw(), {"f16": "f2", "f32": "f4", "f64": "f8", "s32": "i4"}[c]).reshape(n, -1)[:, :m].T
    wanted = av @ bv + cv
    if c == "s32":
        assert (found == wanted).all()
    else:
        assert np.allclose(
            found.astype(float),
            wanted.astype(float),
            rtol=2e-3 if c == "f16" else 1e-6,
            atol=1e-2 if c == "f16" else 1e-5,
        )


MATRICES = """
    .shared .align 128 .b8 s[4096];
    mov.u32 %r30, %laneid;
    shl.b32 %r31, %r30, 4;
    ld.param.u64 %d1, [a];
    mul.wide.u32 %d2, %r31, 1; add.s64 %d2, %d2, %d1;
    ld.global.v4.b32 {%r1, %r2, %r3, %r4}, [%d2];
    mov.u32 %r32, s; add.u32 %r33, %r32, %r31;
    st.shared.v4.b32 [%r33], {%r1, %r2, %r3, %r4};
    bar.warp.sync 0xffffffff;
"""


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("turned", ["", ".trans"])
def test_loads_and_stores_of_small_matrices(count: int, turned: str) -> None:
    registers = group("r", 1, count)
    body = f"""{MATRICES}
    ldmatrix.sync.aligned.m8n8.x{count}{turned}.shared.b16 {registers}, [%r33];
    add.u32 %r33, %r33, 1024;
    stmatrix.sync.aligned.m8n8.x{count}.shared.b16 [%r33], {registers};
    bar.warp.sync 0xffffffff;
    ld.shared.v4.b32 {{%r1, %r2, %r3, %r4}}, [%r33];
    mul.wide.u32 %d3, %r31, 1; add.s64 %d3, %out, %d3;
    setp.lt.u32 %p1, %r30, {8 * count};
    @%p1 st.global.v4.b32 [%d3], {{%r1, %r2, %r3, %r4}};
    """
    code = machine(kernel(body, ".param .u64 out, .param .u64 a", head=head()))
    source = np.arange(256, dtype=np.uint16).reshape(4, 8, 8)
    out = code.buffer("H", [0] * 256)
    code.run("k", out, code.buffer("H", source.ravel().tolist()), block=32)
    wanted = source[:count].transpose(0, 2, 1) if turned else source[:count]
    assert (np.array(out.values())[: 64 * count].reshape(wanted.shape) == wanted).all()


def test_a_row_of_a_matrix_past_the_end_is_a_fault() -> None:
    text = "{m} mov.u32 %r33, 0x10000000; stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r33], {{%r1}};"
    code = machine(kernel(text.format(m=MATRICES), ".param .u64 out, .param .u64 a", head=head()))
    with pytest.raises(Fault, match="write of 16 bytes"):
        code.run("k", 0, code.buffer("H", [0] * 256), block=32)


def test_a_matrix_is_transposed_in_registers() -> None:
    body = f"""{MATRICES}
    ldmatrix.sync.aligned.m8n8.x1.shared.b16 {{%r5}}, [%r33];
    movmatrix.sync.aligned.m8n8.trans.b16 %r6, %r5;
    mul.wide.u32 %d3, %r30, 4; add.s64 %d3, %out, %d3;
    st.global.b32 [%d3], %r6;
    """
    code = machine(kernel(body, ".param .u64 out, .param .u64 a", head=head()))
    source = np.arange(256, dtype=np.uint16)
    out = code.buffer("H", [0] * 64)
    code.run("k", out, code.buffer("H", source.tolist()), block=32)
    assert (np.array(out.values()).reshape(8, 8) == source[:64].reshape(8, 8).T).all()


def test_a_whole_warp_must_take_part() -> None:
    text = mma("m16n8k8", "f32", "f16", "f16", "f32")
    code = machine(
        kernel(f"mov.u32 %r8, 0; mov.u32 %r9, 0; mov.u32 %r16, 0; {text}", head=head()).replace("%f<32>", "%f<40>")
    )
    with pytest.raises(Fault, match="mma by 16 lanes.*needs all 32"):
        code.run("k", 0, block=16)


# -- copies that arrive late


class Watched(Machine):
    """A module in a space that finds what is read before it is written."""

    def __init__(self, text: str, **options: Any) -> None:
        self.space = space.Space(watch=True)
        self.code = ptx.load(text.encode(), self.space, **options)


def copies(body: str, watch: bool = False) -> Machine:
    before = ".shared .align 128 .b8 s[1024]; .shared .align 8 .b64 bar;\n"
    start = """
    mov.u32 %r30, %tid.x; shl.b32 %r31, %r30, 4;
    ld.param.u64 %d1, [a];
    cvt.u64.u32 %d2, %r31; add.s64 %d3, %d1, %d2; add.s64 %d4, %out, %d2;
    mov.u32 %r32, s; add.u32 %r33, %r32, %r31;
    """
    text = kernel(start + body, ".param .u64 out, .param .u64 a", head=head(), before=before)
    return Watched(text) if watch else machine(text)


READ = "ld.shared.v4.b32 {%r1, %r2, %r3, %r4}, [%r33]; st.global.v4.b32 [%d4], {%r1, %r2, %r3, %r4};"


def ran(code: Machine, values: list[int], threads: int, count: int = 0, **options: Any) -> list[int]:
    out = code.buffer("I", [0] * (count or 4 * threads))
    code.run("k", out, code.buffer("I", values), block=threads, **options)
    return out.values()


@pytest.mark.parametrize("end", ["cp.async.wait_all;", "cp.async.commit_group; cp.async.wait_group 0;"])
def test_a_copy_arrives_when_its_thread_waits(end: str) -> None:
    values = list(range(128))
    assert ran(copies(f"cp.async.cg.shared.global [%r33], [%d3], 16; {end} {READ}"), values, 32) == values


@pytest.mark.parametrize("end", ["", "cp.async.commit_group;", "cp.async.commit_group; cp.async.wait_group 1;"])
def test_a_read_before_the_wait_is_found(end: str) -> None:
    poisoned = ran(copies(f"st.shared.b32 [%r33], %r30; cp.async.cg.shared.global [%r33], [%d3], 16; {end} {READ}"),
                   list(range(128)), 32)  # fmt: skip
    assert set(poisoned) == {0xFBFBFBFB}


def test_a_read_before_the_wait_is_reported() -> None:
    body = f"cp.async.cg.shared.global [%r33], [%d3], 16; {READ}".replace("st.global", "add.u32 %r1, %r1, 1; st.global")
    with pytest.raises(Fault, match="asynchronous copy, started by thread .* at ptx line.*nobody has waited"):
        ran(copies(body, watch=True), list(range(128)), 32)
    ended = body.replace("ld.shared", "cp.async.wait_all; ld.shared")
    assert ran(copies(ended, watch=True), list(range(128)), 32)[:2] == [1, 1]


def test_the_groups_of_copies_complete_in_order() -> None:
    body = """
    add.u32 %r34, %r33, 512;
    cp.async.cg.shared.global [%r33], [%d3], 16; cp.async.commit_group;
    cp.async.cg.shared.global [%r34], [%d3], 16; cp.async.commit_group;
    cp.async.wait_group 1;
    ld.shared.b32 %r1, [%r33]; ld.shared.b32 %r2, [%r34];
    cp.async.wait_group 0;
    ld.shared.b32 %r3, [%r34]; mov.u32 %r4, 7;
    st.global.v4.b32 [%d4], {%r1, %r2, %r3, %r4};
    """
    assert ran(copies(body), [5, 6, 7, 8], 1) == [5, 0xFBFBFBFB, 5, 7]


def test_what_a_copy_leaves_out_is_zero() -> None:
    body = f"""
    mov.u32 %r35, 6; cp.async.ca.shared.global [%r33], [%d3], 8, %r35;
    setp.eq.u32 %p1, %r30, 0; cp.async.ca.shared.global [%r33+8], [%d3], 8, %p1;
    cp.async.wait_all; {READ}
    """
    assert ran(copies(body), [0x11111111, 0x22222222, 3, 4], 1) == [0x11111111, 0x2222, 0, 0]


@pytest.mark.parametrize(
    "body,words",
    [
        ("add.s64 %d3, %d3, 4; cp.async.cg.shared.global [%r33], [%d3], 16;", "not a multiple of 16"),
        ("add.u32 %r33, %r33, 4; cp.async.ca.shared.global [%r33], [%d3], 8;", "not a multiple of 8"),
        ("add.s64 %d3, %d3, 65536; cp.async.ca.shared.global [%r33], [%d3], 4;", "past the end"),
        ("add.u32 %r33, %r33, 4096; cp.async.ca.shared.global [%r33], [%d3], 4;", "past the end"),
        ("cp.async.bulk.global.shared::cta.bulk_group [%out], [%r32+4], 16;", "not a multiple of 16"),
        ("mov.u32 %r35, 20; cp.async.bulk.global.shared::cta.bulk_group [%out], [%r32], %r35;", "multiple of 16"),
        ("cp.async.bulk.global.shared::cta.bulk_group [%out], [%r32], 2048;", "past the end"),
        ("mbarrier.arrive.shared.b64 %d5, [bar];", "there is no mbarrier"),
        ("mbarrier.init.shared.b64 [bar], 1; mbarrier.inval.shared.b64 [bar]; mbarrier.arrive.shared.b64 %d5, [bar];",
         "there is no mbarrier"),
        ("mbarrier.init.shared.b64 [%r32+4], 1;", "not a multiple of 8"),
        ("mov.u32 %r35, 1048576; mbarrier.init.shared.b64 [bar], %r35;", "1 to 1048575"),
        ("mbarrier.init.shared.b64 [bar], 0;", "count of 0, not 1 to 1048575"),  # ptxas takes it
        ("mbarrier.init.shared.b64 [bar], 2; mbarrier.arrive.shared.b64 %d5, [bar], 0x100000000;", "0 arrivals"),
        ("mbarrier.init.shared.b64 [bar], 2; mbarrier.arrive.shared.b64 %d5, [bar], 3;", "3 arrivals.*2 of 2"),
        ("mbarrier.init.shared.b64 [bar], 1; mbarrier.arrive.noComplete.shared.b64 %d5, [bar], 1;", "completes"),
        ("mbarrier.init.b64 [%d1], 1;", "not in shared memory"),
        ("wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 {%r1,%r2,%r3,%r4,%r5,%r6,%r7,%r8}, [%r32+8], 16;",
         "address 0x8 is not a multiple of 16: 8 bytes into the 1024-byte shared variable 's'"),
        ("wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 {%r1,%r2,%r3,%r4,%r5,%r6,%r7,%r8}, [%r32], 17;",
         "stride of a matrix of f16, 17 elements, is not a multiple of 16 bytes"),
        ("wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 {%r1,%r2,%r3,%r4,%r5,%r6,%r7,%r8}, [%r32+1024], 16;",
         "past the end"),
        ("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r1}, [%r32+2];", "not a multiple of 16"),
        ("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r1}, [%r32+4096];", "past the end"),
    ],
)  # fmt: skip
def test_wrong_addresses_and_counts_are_faults(body: str, words: str) -> None:
    code = copies(body)
    with pytest.raises(Fault, match=words):
        ran(code, [1, 2, 3, 4], 1)


# -- barriers in shared memory


def test_a_barrier_counts_phases_and_bytes() -> None:
    """Every result of one thread's operations, step by step."""
    steps = [
        ("mbarrier.init.shared.b64 [bar], 2;", None),
        ("mbarrier.arrive.shared.b64 %d5, [bar]; mbarrier.test_wait.shared.b64 %p1, [bar], %d5;", 0),
        ("mbarrier.pending_count.b64 %r1, %d5; setp.eq.u32 %p1, %r1, 2;", 1),
        ("mbarrier.test_wait.parity.shared.b64 %p1, [bar], 0;", 0),
        ("mbarrier.test_wait.parity.shared.b64 %p1, [bar], 1;", 1),
        ("mbarrier.arrive.shared.b64 %d6, [bar]; mbarrier.test_wait.shared.b64 %p1, [bar], %d5;", 1),
        ("mbarrier.test_wait.parity.shared.b64 %p1, [bar], 0;", 1),
        ("mbarrier.arrive.expect_tx.shared.b64 %d5, [bar], 64; mbarrier.arrive.shared.b64 _, [bar];"
         "mbarrier.try_wait.shared.b64 %p1, [bar], %d5;", 0),
        ("mbarrier.complete_tx.shared.b64 [bar], 48; mbarrier.test_wait.shared.b64 %p1, [bar], %d5;", 0),
        ("mbarrier.complete_tx.shared.b64 [bar], 16; mbarrier.test_wait.shared.b64 %p1, [bar], %d5;", 1),
        ("mbarrier.arrive_drop.shared.b64 %d5, [bar]; mbarrier.arrive.shared.b64 %d6, [bar];"
         "mbarrier.test_wait.shared.b64 %p1, [bar], %d5;", 1),
        ("mbarrier.arrive.shared.b64 %d5, [bar]; mbarrier.try_wait.shared.b64 %p1, [bar], %d5, 100;", 1),
    ]  # fmt: skip
    body = ""
    wanted = []
    for text, result in steps:
        body += text + "\n"
        if result is not None:
            body += f"selp.u32 %r1, 1, 0, %p1; st.global.u32 [%out+{4 * len(wanted)}], %r1;\n"
            wanted.append(result)
    assert ran(copies(body), [0], 1, len(wanted)) == wanted


WAIT = "again: mbarrier.try_wait.parity.shared.b64 %p9, [bar], 0; @!%p9 bra again;"
INIT = "setp.ne.u32 %p1, %r30, 0; @!%p1 mbarrier.init.shared.b64 [bar], {}; bar.sync 0;"


def test_copies_arrive_on_a_barrier() -> None:
    for verb, count in (("", 32), (".noinc", 33)):
        body = f"""
        {INIT.format(count)}
        cp.async.cg.shared.global [%r33], [%d3], 16;
        cp.async.mbarrier.arrive{verb}.shared.b64 [bar];
        {"@!%p1 " if verb else ""}mbarrier.arrive.shared.b64 %d5, [bar];
        {WAIT}
        xor.b32 %r31, %r31, 496; add.u32 %r33, %r32, %r31; {READ}
        """
        values = list(range(128))
        wanted = [values[4 * (31 - at // 4) + at % 4] for at in range(128)]
        assert ran(copies(body), values, 32) == wanted


def test_a_wait_that_never_ends_is_reported() -> None:
    from tests.emulator.ptx_client import ptx

    limits = ptx.Limits(rounds=10, seconds=0.05) if hasattr(ptx, "Limits") else None
    code = copies(f"{INIT.format(2)} @%p1 bra later; mbarrier.arrive.shared.b64 %d5, [bar]; later: {WAIT}")
    with pytest.raises(Fault) as caught:
        ran(code, [0], 4, **({"limits": limits} if limits else {}))
    assert caught.value.code in (702, 719)


def test_bulk_copies_in_and_out() -> None:
    body = f"""
    {INIT.format(1)}
    @%p1 bra later;
    mbarrier.arrive.expect_tx.shared.b64 %d5, [bar], 512;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [s], [%d1], 512, [bar];
    later: {WAIT}
    ld.shared.b32 %r1, [%r33]; add.u32 %r1, %r1, 1000; st.shared.b32 [%r33], %r1;
    fence.proxy.async.shared::cta; bar.sync 0;
    @%p1 bra over;
    cp.async.bulk.global.shared::cta.bulk_group [%out], [s], 512;
    cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0;
    over:
    """
    values = list(range(128))
    wanted = [value + 1000 * (at % 4 == 0) for at, value in enumerate(values)]
    assert ran(copies(body), values, 32) == wanted


SEVENS = "mov.b32 %r5, 7; st.shared.v4.b32 [s], {%r5, %r5, %r5, %r5}; fence.proxy.async.shared::cta;"
OUT_OF_SHARED = "cp.async.bulk.global.shared::cta.bulk_group [%out], [s], 16; cp.async.bulk.commit_group;"


def test_a_bulk_copy_to_global_memory_writes_after_it_has_read() -> None:
    """A wait with .read is for the source: it may be written then, and the target has the old content."""
    body = f"""
    {SEVENS} {OUT_OF_SHARED}
    cp.async.bulk.wait_group.read 0;
    mov.b32 %r6, 9; st.shared.b32 [s], %r6;
    ld.global.b32 %r7, [%out]; st.global.b32 [%out+16], %r7;
    cp.async.bulk.wait_group 0;
    ld.global.b32 %r7, [%out]; st.global.b32 [%out+20], %r7;
    """
    assert ran(copies(body), [0], 1, 8) == [7, 7, 7, 7, 0, 7, 0, 0]


@pytest.mark.parametrize("wait, report", [
    ("", "racecheck: write after read"), ("cp.async.bulk.wait_group.read 0;", "racecheck: write after read"),
    ("cp.async.bulk.wait_group 0;", ""),
])  # fmt: skip
def test_a_read_of_the_target_of_a_bulk_copy_that_was_not_waited_for(wait: str, report: str) -> None:
    """The last thread copies, so that the others read before its end, which ends the copy; a barrier is no wait."""
    from tests.emulator.emulator_client import Client

    body = f"""
    mov.u32 %r30, %tid.x; setp.ne.u32 %p1, %r30, 31; @%p1 bra ready;
    {SEVENS} {OUT_OF_SHARED} {wait}
    ready: bar.sync 0; @!%p1 bra over;
    ld.global.b32 %r7, [%out]; mul.wide.u32 %d2, %r30, 4; add.s64 %d2, %d2, %out; st.global.b32 [%d2+16], %r7;
    over:
    """
    client = Client(strict=True, checks=("racecheck",))
    text = kernel(body, head=head(), before=".shared .align 128 .b8 s[1024];\n")
    function = client.get("cuModuleGetFunction", client.load(text), b"k")
    client.launch(function, [client.upload(bytes(256))], block=(32, 1, 1))
    assert client.code("cuCtxSynchronize") == (719 if report else 0)
    assert [each[: len(report)] for each in client.emulator.reports] == ([report] if report else [])


def test_a_bulk_copy_that_is_not_waited_for_has_not_arrived() -> None:
    body = f"{INIT.format(1)} mbarrier.expect_tx.shared.b64 [bar], 64; "
    body += "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [s], [%d1], 64, [bar]; " + READ
    assert set(ran(copies(body), list(range(16)), 1)) == {0xFBFBFBFB}


@pytest.mark.parametrize(
    "verb,type",
    [("add", "u32"), ("add", "s32"), ("add", "u64"), ("add", "f32"), ("add", "f64"), ("min", "s32"), ("max", "u64"),
     ("min", "s64"), ("inc", "u32"), ("dec", "u32"), ("and", "b32"), ("or", "b64"), ("xor", "b32"),
     ("add.noftz", "f16"), ("max", "f16"), ("add.noftz", "bf16"), ("min", "bf16")],
)  # fmt: skip
def test_reductions_in_bulk(verb: str, type: str) -> None:
    body = f"""
    ld.global.v4.b32 {{%r1, %r2, %r3, %r4}}, [%d3]; st.shared.v4.b32 [%r33], {{%r1, %r2, %r3, %r4}};
    cp.reduce.async.bulk.global.shared::cta.bulk_group.{verb}.{type} [%out], [s], 16;
    cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
    """
    pick = np.random.default_rng(11)
    kind = SMALL.get(type) or CODES.get(type) or np.dtype(("i" if type[0] == "s" else "u") + str(int(type[1:]) // 8))
    kind = np.dtype(kind)
    if kind.kind in "iu":
        info = np.iinfo(kind)
        a, b = (pick.integers(info.min, info.max, 16 // kind.itemsize, dtype=kind, endpoint=True) for _ in range(2))
    else:
        a, b = (pick.normal(size=16 // kind.itemsize).astype(kind) for _ in range(2))
    code = copies(body)
    out = code.buffer("B", a.tobytes())
    code.run("k", out, code.buffer("B", b.tobytes()), block=1)
    found = np.frombuffer(out.raw(), kind)
    with np.errstate(over="ignore"):
        wanted = {
            "add": lambda: a + b, "min": lambda: np.minimum(a, b), "max": lambda: np.maximum(a, b),
            "inc": lambda: np.where(a >= b, 0, a + 1), "dec": lambda: np.where((a == 0) | (a > b), b, a - 1),
            "and": lambda: a & b, "or": lambda: a | b, "xor": lambda: a ^ b,
        }[verb.partition(".")[0]]()  # fmt: skip
    assert (found == wanted.astype(kind)).all()


TX = "mbarrier::complete_tx::bytes"


def test_blocks_of_a_cluster_send_to_each_other() -> None:
    """A copy to all blocks, a copy between blocks, stores and sums that arrive on the barrier of another block."""
    body = f"""
    mov.u32 %r40, %cluster_ctarank; xor.b32 %r41, %r40, 1;
    {INIT.format(1)}
    mapa.shared::cluster.u32 %r42, %r32, %r41; mov.u32 %r43, bar; mapa.shared::cluster.u32 %r44, %r43, %r41;
    @%p1 bra ready;
    st.shared.b32 [s+256], 5;
    mbarrier.arrive.expect_tx.shared.b64 %d5, [bar], 116;
    ready: barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
    @%p1 bra later;
    setp.ne.u32 %p2, %r40, 0; cvt.u16.u32 %h1, 3;
    @!%p2 cp.async.bulk.shared::cluster.global.{TX}.multicast::cluster [s], [%d1], 64, [bar], %h1;
    add.u32 %r45, %r42, 128;
    cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r45], [s+512], 32, [%r44];
    add.u32 %r45, %r42, 192; add.u32 %r46, %r40, 70; mov.u32 %r47, 71;
    st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.u32 [%r45], {{%r46, %r47, %r46, %r47}}, [%r44];
    add.u32 %r45, %r42, 256;
    red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%r45], %r46, [%r44];
    later: {WAIT}
    @%p1 bra over;
    ld.shared.v4.b32 {{%r1, %r2, %r3, %r4}}, [s+16];
    ld.shared.b32 %r5, [s+192]; ld.shared.b32 %r6, [s+256];
    mul.lo.u32 %r48, %r40, 24; cvt.u64.u32 %d7, %r48; add.s64 %d7, %d7, %out;
    st.global.v2.b32 [%d7], {{%r1, %r2}}; st.global.v2.b32 [%d7+8], {{%r3, %r4}};
    st.global.v2.b32 [%d7+16], {{%r5, %r6}};
    over: barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
    """
    code = copies(body)
    out = code.buffer("I", [0] * 12)
    code.run("k", out, code.buffer("I", list(range(16))), grid=2, block=32, cluster=(2, 1, 1))
    assert out.values() == [4, 5, 6, 7, 71, 76, 4, 5, 6, 7, 70, 75]


# -- small floats, video instructions, vector registers


def each(bodies: str, inputs: Any, target: str, outputs: int = 1) -> Any:
    """Run instructions for each row of inputs %r1, %r2, ... (and %f1, ... with the same bits); return %r20, ..."""
    inputs = np.ascontiguousarray(inputs, np.uint32)
    count, width = inputs.shape
    start = "mov.u32 %r30, %tid.x; mov.u32 %r31, %ctaid.x; mad.lo.u32 %r30, %r31, 256, %r30; "
    start += f"mad.wide.u32 %d3, %r30, {4 * width}, %d1;"
    loads = "".join(
        f"ld.global.b32 %r{at + 1}, [%d3+{4 * at}]; mov.b32 %f{at + 1}, %r{at + 1};\n" for at in range(width)
    )
    ends = f"mad.wide.u32 %d4, %r30, {4 * outputs}, %out;" + "".join(
        f"st.global.b32 [%d4+{4 * at}], %r{20 + at};" for at in range(outputs)
    )
    body = f"ld.param.u64 %d1, [a]; {start}\n{loads}\n{bodies}\n{ends}"
    code = machine(kernel(body, ".param .u64 out, .param .u64 a", head=head(target)), target)
    rows = -(-count // 256) * 256
    padded = np.zeros((rows, width), np.uint32)
    padded[:count] = inputs
    out = code.buffer("I", [0] * (rows * outputs))
    code.run("k", out, code.buffer("B", padded.tobytes()), grid=rows // 256, block=256)
    return np.frombuffer(out.raw(), np.uint32).reshape(rows, outputs)[:count]


def floats(count: int) -> Any:
    pick = np.random.default_rng(2)
    special = [
        0.0,
        -0.0,
        np.inf,
        -np.inf,
        np.nan,
        1.0,
        448.0,
        464.0,
        465.0,
        57344.0,
        65536.0,
        6.0,
        7.5,
        28.0,
        1e-8,
        2.0**-10,
    ]
    made = pick.normal(size=count) * 10.0 ** pick.integers(-8, 6, count)
    made[: len(special)] = special
    return made.astype(np.float32)


@pytest.mark.parametrize("name,target", [("e4m3", "89"), ("e5m2", "89"), ("e2m3", "100a"), ("e3m2", "100a")])
def test_conversions_to_and_from_small_floats(name: str, target: str) -> None:
    kind = SMALL[name]
    a, b = floats(1024), floats(1024)[::-1]
    body = (
        f"cvt.rn.satfinite.{name}x2.f32 %h1, %f1, %f2; cvt.u32.u16 %r20, %h1; cvt.rn.f16x2.{name}x2 %r21, %h1;"
        f"cvt.rn.satfinite.relu.{name}x2.f32 %h1, %f1, %f2; cvt.u32.u16 %r22, %h1;"
    )
    found = each(body, np.stack([a, b], 1).view(np.uint32), target, 3)
    most = float(small_types.finfo(kind).max)
    has_nan = name in ("e4m3", "e5m2")
    for shift, value in ((8, a), (0, b)):
        clipped = np.where(np.isnan(value), most, np.clip(value, -most, most)).astype(kind).view(np.uint8)
        wanted = np.where(np.isnan(value), 0x7F if has_nan else 0x1F, clipped)
        assert (found[:, 0] >> shift & 0xFF == wanted).all()
        halves = (found[:, 1] >> 2 * shift & 0xFFFF).astype(np.uint16).view(np.float16)
        real = ~np.isnan(value)
        assert (halves == wanted.astype(np.uint8).view(kind).astype(np.float16))[real].all()
        positive = np.where(value < 0, 0, wanted)
        assert (found[:, 2] >> shift & 0x7F == positive & 0x7F).all()


def test_conversions_of_four_bits_and_of_scales() -> None:
    a, b = floats(1024), floats(1024)[::-1]
    body = """
    { .reg .b8 t; cvt.rn.satfinite.e2m1x2.f32 t, %f1, %f2; cvt.rn.f16x2.e2m1x2 %r20, t; }
    cvt.rp.satfinite.ue8m0x2.f32 %h1, %f1, %f2; cvt.u32.u16 %r21, %h1; cvt.rn.bf16x2.ue8m0x2 %r22, %h1;
    """
    found = each(body, np.stack([a, b], 1).view(np.uint32), "100a", 3)
    for shift, value in ((16, a), (0, b)):
        wanted = np.where(np.isnan(value), 6, np.clip(value, -6, 6)).astype(SMALL["e2m1"]).astype(np.float16)
        assert ((found[:, 0] >> shift & 0xFFFF).astype(np.uint16).view(np.float16) == wanted).all()
        scale = found[:, 1] >> shift // 2 & 0xFF
        real = np.isfinite(value) & (value != 0)
        powers = np.ceil(np.log2(np.abs(value[real].astype(float))))
        assert (scale[real] == np.clip(powers + 127, 0, 254)).all() and (scale[np.isnan(value)] == 0xFF).all()
        back = ((found[:, 2] >> shift & 0xFFFF) << 16).view(np.float32)
        assert (back[real] == 2.0 ** (scale[real].astype(float) - 127)).all()


def test_random_rounding_is_fair() -> None:
    """cvt.rs rounds up as often as the random bits say."""
    value = np.full(4096, 1.0 + 3 / 4 / 8, np.float32)  # three quarters of the way between two neighbours of e4m3
    extra = np.arange(4096, dtype=np.uint32) * 16
    body = "mov.b32 %r5, %r2; cvt.rs.satfinite.e4m3x4.f32 %r20, {%f1, %f1, %f1, %f1}, %r5;"
    found = each(body, np.stack([value.view(np.uint32), extra | extra << 16], 1), "100a")
    low = (found[:, 0] & 0xFF).astype(np.uint8).view(SMALL["e4m3"]).astype(float)
    assert set(low) == {1.0, 1.125} and abs((low == 1.125).mean() - 0.75) < 0.01


def signed(value: int, bits: int) -> int:
    return value - (value >> bits - 1 << bits)


def chosen(value: int, part: str, type: str) -> int:
    bits = {"": 32, "b": 8, "h": 16}[part[:1]]
    value = value >> (int(part[1:]) * bits if part else 0) & (1 << bits) - 1
    return signed(value, bits) if type == "s32" else value


EXTREMES = [0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x80, 0x7F80FF01, 0x8000FFFF]


def words(count: int, width: int) -> Any:
    pick = np.random.default_rng(9)
    made = pick.integers(0, 1 << 32, (count, width), dtype=np.uint32)
    made[: len(EXTREMES) ** 2, :2] = [(x, y) for x in EXTREMES for y in EXTREMES]
    return made


@pytest.mark.parametrize("verb", ["vadd", "vsub", "vabsdiff", "vmin", "vmax"])
@pytest.mark.parametrize("types", ["s32.s32.s32", "u32.s32.u32", "s32.u32.s32", "u32.u32.u32"])
def test_video_instructions(verb: str, types: str) -> None:
    d, a, b = types.split(".")
    operations = {
        "vadd": lambda x, y: x + y, "vsub": lambda x, y: x - y, "vabsdiff": lambda x, y: abs(x - y), "vmin": min,
        "vmax": max,
    }  # fmt: skip
    forms = [
        (".sat", "", "", "b3"),
        ("", "", "h1", "b0"),
        (".add", "", "", ""),
        (".max", "", "b1", "h0"),
        (".sat", "b2", "", "h1"),
    ]
    body = ""
    for at, (more, place, pa, pb) in enumerate(forms):
        third = ", %r3" if place or more in (".add", ".max") else ""
        dot = [f".{each}" if each else "" for each in (place, pa, pb)]
        body += (
            f"mov.b32 %r{20 + at}, %r3; {verb}.{types}{more} %r{20 + at}{dot[0]}, %r1{dot[1]}, %r2{dot[2]}{third};\n"
        )
    inputs = words(256, 3)
    found = each(body, inputs, "75", len(forms))
    for row, results in zip(inputs.tolist(), found.tolist()):
        for (more, place, pa, pb), result in zip(forms, results):
            value = operations[verb](chosen(row[0], pa, a), chosen(row[1], pb, b))
            bits = 8 if place else 32
            if more == ".sat":
                low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if d == "s32" else (0, (1 << bits) - 1)
                value = min(max(value, low), high)
            if more == ".add":
                value += row[2]
            if more == ".max":
                value, third = value & 0xFFFFFFFF, row[2]
                value = max(signed(value, 32), signed(third, 32)) if d == "s32" else max(value, third)
            wanted = row[2] & ~0xFF0000 | (value & 0xFF) << 16 if place else value & 0xFFFFFFFF
            assert result == wanted, (more, place, pa, pb, row)


def test_other_video_instructions() -> None:
    body = """
    vmad.s32.s32.u32 %r20, %r1.h0, %r2.b1, %r3; vmad.u32.u32.u32.po.shr7 %r21, %r1.h1, %r2.h0, %r3;
    vmad.s32.s32.s32.sat.shr15 %r22, %r1, -%r2, %r3; vset.s32.u32.lt %r23, %r1.b0, %r2;
    vset.u32.u32.ge.add %r24, %r1, %r2.h1, %r3; vshl.u32.u32.u32.clamp %r25, %r1, %r2.b0;
    vshr.s32.s32.u32.wrap %r26, %r1.h1, %r2;
    """
    inputs = words(256, 3)
    for (x, y, z), found in zip(inputs.tolist(), each(body, inputs, "75", 7).tolist()):
        third = signed(z, 32)
        wanted = [
            chosen(x, "h0", "s32") * chosen(y, "b1", "u32") + third, (x >> 16) * (y & 0xFFFF) + z + 1 >> 7,
            min(max((-signed(x, 32) * signed(y, 32) + third) >> 15, -(1 << 31)), (1 << 31) - 1),
            int(chosen(x, "b0", "s32") < y), int(x >= y >> 16) + z, x << min(y & 0xFF, 32),
            chosen(x, "h1", "s32") >> (y & 31),
        ]  # fmt: skip
        assert found == [value & 0xFFFFFFFF for value in wanted]


@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("verb", ["vadd", "vsub", "vavrg", "vabsdiff", "vmin", "vmax", "vset"])
def test_video_instructions_on_lanes(count: int, verb: str) -> None:
    bits = 32 // count
    operations = {
        "vadd": lambda x, y: x + y, "vsub": lambda x, y: x - y, "vabsdiff": lambda x, y: abs(x - y), "vmin": min,
        "vmax": max, "vavrg": lambda x, y: x + y + 1 >> 1 if x + y >= 0 else x + y >> 1,
        "vset": lambda x, y: int(x < y),
    }  # fmt: skip
    name = f"{verb}{count}"
    types, more = ("u32.s32", ".lt") if verb == "vset" else ("s32.u32.s32", "")
    kinds = ("u32", "s32") if verb == "vset" else ("u32", "s32")
    sat = "" if verb == "vset" else ".sat"
    letter, mask, turned = ("h", "1", "03") if count == 2 else ("b", "20", "4107")
    body = f"""
    {name}.{types}{more} %r20, %r1, %r2, %r3; {name}.{types}{more}{sat} %r21.{letter}{mask}, %r1, %r2, %r3;
    {name}.{types}{more}.add %r22, %r1.{letter}{turned}, %r2, %r3;
    """
    inputs = words(256, 3)
    for (x, y, z), found in zip(inputs.tolist(), each(body, inputs, "75", 3).tolist()):
        both = [(x | y << 32) >> bits * at & (1 << bits) - 1 for at in range(2 * count)]

        def lane(number: int, type: str, both: list[int] = both) -> int:
            return signed(both[number], bits) if type == "s32" else both[number]

        plain = [operations[verb](lane(at, kinds[0]), lane(count + at, kinds[1])) for at in range(count)]
        low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if sat else (0, 1)
        whole = (1 << bits) - 1
        masked = z
        for at in range(count):
            if str(at) in mask:
                masked = masked & ~(whole << at * bits) | (min(max(plain[at], low), high) & whole) << at * bits
        moved = sum(
            operations[verb](lane(int(turned[count - 1 - at]), kinds[0]), lane(count + at, kinds[1]))
            for at in range(count)
        )
        assert found == [
            sum((value & whole) << at * bits for at, value in enumerate(plain)),
            masked,
            z + moved & 0xFFFFFFFF,
        ]


def test_vector_registers() -> None:
    body = """
    .reg .v4 .f32 v; .reg .v2 .b32 w;
    mov.v4.f32 v, {%f1, %f2, %f1, %f2}; add.f32 v.w, v.x, v.y; mov.b32 %r20, v.a;
    mov.v2.b32 w, {%r1, %r2}; mov.v2.b32 w, {w.y, w.x}; mov.b32 %r21, w.r; st.global.v2.b32 [%d3], w;
    ld.global.v2.b32 w, [%d3]; mov.b32 %r22, w.y;
    """
    pick = np.random.default_rng(1)
    inputs = pick.normal(size=(64, 2)).astype(np.float32)
    found = each(body, inputs.view(np.uint32), "75", 3)
    assert (found[:, 0].view(np.float32) == inputs[:, 0] + inputs[:, 1]).all()
    assert (found[:, 1:] == inputs.view(np.uint32)[:, ::-1]).all()


def test_atomics_of_128_bits() -> None:
    body = """
    .reg .b128 %q<4>;
    mov.b64 %d5, 5; mov.b64 %d6, 6; mov.b64 %d7, 7;
    ld.global.v2.b64 {%d8, %d9}, [%d1];
    mov.b128 %q1, {%d8, %d9}; mov.b128 %q2, {%d5, %d6};
    atom.global.cas.b128 %q3, [%d1], %q1, %q2; mov.b128 {%d10, %d11}, %q3;
    atom.global.cas.b128 %q3, [%d1], %q1, %q1; mov.b128 {%d12, %d13}, %q3;
    mov.b128 %q2, {%d7, %d8}; atom.global.exch.b128 %q3, [%d1], %q2;
    ld.global.v2.b64 {%d14, %d15}, [%d1];
    st.global.v2.b64 [%out], {%d10, %d11}; st.global.v2.b64 [%out+16], {%d12, %d13};
    st.global.v2.b64 [%out+32], {%d14, %d15};
    """
    for watch in (False, True):
        code = copies(body, watch=watch)
        out = code.buffer("Q", [0] * 6)
        code.run("k", out, code.buffer("Q", [1 << 63, 3]), block=1)
        assert out.values() == [1 << 63, 3, 5, 6, 7, 1 << 63]


@pytest.mark.parametrize("watch", [False, True])
@pytest.mark.parametrize("space", [".shared::cta", ""])
def test_zeros_in_bulk(space: str, watch: bool) -> None:
    body = f"""
    mov.b32 %r5, 7; st.shared.v4.b32 [%r33], {{%r5, %r5, %r5, %r5}};
    mov.u64 %d5, 16; cvt.u64.u32 %d6, %r33; setp.eq.u32 %p1, %r30, 1;
    @%p1 st.bulk.weak{space} [%d6], %d5, 0;
    {READ}
    """
    before = ".shared .align 128 .b8 s[1024];\n"
    start = "mov.u32 %r30, %tid.x; shl.b32 %r31, %r30, 4; cvt.u64.u32 %d2, %r31; add.s64 %d4, %out, %d2;"
    start += "mov.u32 %r32, s; add.u32 %r33, %r32, %r31;"
    if not space:  # the address is generic
        body = body.replace("cvt.u64.u32 %d6, %r33;", "cvt.u64.u32 %d6, %r33; cvta.shared.u64 %d6, %d6;")
    text = kernel(f"{start} {body}", head=head("100"), before=before)
    code = Watched(text, architecture=(10, 0)) if watch else machine(text, "100")
    out = code.buffer("I", [1] * 12)
    code.run("k", out, block=3)
    assert out.values() == [7] * 4 + [0] * 4 + [7] * 4


@pytest.mark.parametrize(
    "opcode",
    ["mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64.{}", "wmma.mma.sync.aligned.row.col.m8n8k4.{}.f64.f64.f64.f64"],
)
@pytest.mark.parametrize(
    "mode, sign, bits", [("rn", "3", 0), ("rz", "3", 0), ("rp", "3", 1), ("rm", "3", 0), ("rm", "B", 1), ("rp", "B", 0)]
)
def test_a_product_of_float64_is_rounded_as_it_says(opcode: str, mode: str, sign: str, bits: int) -> None:
    """1 + 2**-60, or the negative of it: only the rounding away from 0 gives the next number."""
    body = f"""mov.u32 %r1, %tid.x; and.b32 %r2, %r1, 3; setp.eq.u32 %p1, %r2, 0;
    mov.f64 %g1, 0d0000000000000000; @%p1 mov.f64 %g1, 0d3E10000000000000; mov.f64 %g2, %g1;
    @%p1 mov.f64 %g2, 0d{sign}E10000000000000; mov.f64 %g3, 0d{sign}FF0000000000000; mov.f64 %g4, %g3;
    {opcode.format(mode)} {{%g5,%g6}}, {{%g1}}, {{%g2}}, {{%g3,%g4}};
    setp.eq.u32 %p1, %r1, 0; @%p1 st.global.f64 [%out], %g5;"""
    machine = Machine(kernel(body, ".param .u64 out").replace(".target sm_75", ".target sm_80"))
    out = machine.buffer("Q", 1)
    machine.run("k", out, block=32)
    assert out.values()[0] & 1 == bits


@pytest.mark.parametrize(
    "opcode",
    ["mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64", "wmma.mma.sync.aligned.row.col.m8n8k4.rn.f64.f64.f64.f64"],
)
def test_a_product_of_float64_is_not_rounded_before_the_sum(opcode: str) -> None:
    """The square of 1 + 2**-30, minus 1 + 2**-29."""
    body = f"""mov.u32 %r1, %tid.x; and.b32 %r2, %r1, 3; setp.eq.u32 %p1, %r2, 0;
    mov.f64 %g1, 0d0000000000000000; @%p1 mov.f64 %g1, 0d3FF0000000400000; mov.f64 %g2, 0dBFF0000000800000;
    {opcode} {{%g3,%g4}}, {{%g1}}, {{%g1}}, {{%g2,%g2}};
    mul.wide.u32 %d1, %r1, 16; add.u64 %d1, %out, %d1; st.global.v2.f64 [%d1], {{%g3,%g4}};"""
    machine = Machine(kernel(body, ".param .u64 out").replace(".target sm_75", ".target sm_80"))
    out = machine.buffer("d", 64)
    machine.run("k", out, block=32)
    assert out.values() == [2.0**-60] * 64
