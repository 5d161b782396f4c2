"""Instructions of every family that compilers emit for tensor cores, barriers, copies, small floats and video.

What it is   `FORMS`, valid instructions, by the target that they need at least; `text_of`, a module with some of them.
             Each is our own; ptxas judges all of them in test_ptx_units.py.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

__all__ = ["DECLARED", "FORMS", "mutants", "text_of"]

DECLARED = """
    .reg .pred %p<9>; .reg .b16 %h<9>; .reg .b32 %r<40>; .reg .f32 %f<40>; .reg .b64 %d<20>; .reg .f64 %g<40>;
    .reg .b128 %q<4>; .reg .b8 %b<4>; .shared .align 128 .b8 s[4096]; .shared .align 8 .b64 bar;
"""


def group(stem: str, first: int, count: int) -> str:
    """Return registers in braces."""
    return "{" + ", ".join(f"%{stem}{first + at}" for at in range(count)) + "}"


_STEM = {"f32": "f", "f64": "g"}
_BITS = {"f16": 16, "bf16": 16, "tf32": 32, "f32": 32, "f64": 64, "s4": 4, "u4": 4, "b1": 1, "s32": 32}


def mma(shape: str, d: str, a: str, b: str, c: str, words: str = "row.col", groups: int = 1) -> str:
    """Return an mma."""
    m, n, k = (int(each) for each in shape.replace("m", "").replace("n", " ").replace("k", " ").split())
    operands = []
    for at, (type, count) in enumerate(((d, m * n), (a, m * k), (b, k * n), (c, m * n))):
        wide = 2048 if type == "f64" else 1024
        registers = max(count * groups * _BITS.get(type, 8) // wide, 1)
        operands.append(group(_STEM.get(type, "r"), at * 8, registers))
    before, _, after = words.partition("|")
    after = f".{after}" if after else ""
    return f"mma.sync.aligned.{shape}.{before}.{d}.{a}.{b}.{c}{after} {', '.join(operands)};"


def products() -> Iterator[tuple[str, str]]:
    """Yield (target, instruction) for mma."""
    for way in ("row.row", "row.col", "col.row", "col.col"):
        yield "70", mma("m8n8k4", "f32", "f16", "f16", "f32", way, 4)
        yield "70", mma("m8n8k4", "f16", "f16", "f16", "f16", way, 4)
    yield "70", mma("m8n8k4", "f32", "f16", "f16", "f16", "row.col", 4)
    for shape, least in (("m16n8k8", "75"), ("m16n8k16", "80")):
        yield least, mma(shape, "f32", "f16", "f16", "f32")
        yield least, mma(shape, "f16", "f16", "f16", "f16")
        yield "80", mma(shape, "f32", "bf16", "bf16", "f32")
    for shape in ("m16n8k4", "m16n8k8"):
        yield "80", mma(shape, "f32", "tf32", "tf32", "f32")
    for shape, least in (("m8n8k4", "80"), ("m16n8k4", "90"), ("m16n8k8", "90"), ("m16n8k16", "90")):
        yield least, mma(shape, "f64", "f64", "f64", "f64")
    for shape, least in (("m8n8k16", "75"), ("m16n8k16", "80"), ("m16n8k32", "80")):
        for a, b in (("s8", "s8"), ("s8", "u8"), ("u8", "u8")):
            yield least, mma(shape, "s32", a, b, "s32")
            yield least, mma(shape, "s32", a, b, "s32", "row.col.satfinite")
    for shape, least in (("m8n8k32", "75"), ("m16n8k32", "80"), ("m16n8k64", "80")):
        for a, b in (("s4", "s4"), ("u4", "s4")):
            yield least, mma(shape, "s32", a, b, "s32", "row.col.satfinite")
    for shape, least in (("m8n8k128", "75"), ("m16n8k128", "80"), ("m16n8k256", "80")):
        yield least, mma(shape, "s32", "b1", "b1", "s32", "row.col|xor.popc")
        yield "80", mma(shape, "s32", "b1", "b1", "s32", "row.col|and.popc")
    for a, b in (("e4m3", "e4m3"), ("e5m2", "e4m3")):
        yield "89", mma("m16n8k32", "f32", a, b, "f32")
        yield "89", mma("m16n8k16", "f32", a, b, "f32")
        yield "89", mma("m16n8k32", "f16", a, b, "f16")
        yield "89", mma("m16n8k16", "f16", a, b, "f16")
    for a, b in (("e4m3", "e2m1"), ("e3m2", "e2m3")):
        yield "120a", mma("m16n8k32", "f32", a, b, "f32", "row.col.kind::f8f6f4")
        yield "120a", mma("m16n8k32", "f16", a, b, "f16", "row.col.kind::f8f6f4")


def fragments() -> Iterator[tuple[str, str]]:
    """Yield (target, instruction) for wmma."""
    kinds = (
        ("m16n16k16 m8n32k16 m32n8k16", "f16", "f32", "70"), ("m16n16k16 m8n32k16 m32n8k16", "f16", "f16", "70"),
        ("m16n16k16 m8n32k16 m32n8k16", "bf16", "f32", "80"), ("m16n16k16 m8n32k16 m32n8k16", "s8", "s32", "75"),
        ("m16n16k16", "u8", "s32", "75"), ("m16n16k8", "tf32", "f32", "80"), ("m8n8k4", "f64", "f64", "80"),
        ("m8n8k32", "s4", "s32", "75"), ("m8n8k128", "b1", "s32", "75"),
    )  # fmt: skip
    for shapes, ab, c, least in kinds:
        for shape in shapes.split():
            m, n, k = (int(each) for each in shape.replace("m", "").replace("n", " ").replace("k", " ").split())
            wide = 2048 if ab == "f64" else 1024
            counts = [8 if ab == "f16" else max(count * _BITS.get(ab, 8) // wide, 1) for count in (m * k, k * n)]
            of_c = m * n * _BITS[c] // (2048 if c == "f64" else 1024)
            stem, held = _STEM.get(ab, "r"), _STEM.get(c, "r")
            a, b = group(stem, 0, counts[0]), group(stem, 8, counts[1])
            accumulated, made = group(held, 16, of_c), group(held, 24, of_c)
            yield least, f"wmma.load.a.sync.aligned.row.{shape}.global.{ab} {a}, [%d1], %r39;"
            yield least, f"wmma.load.b.sync.aligned.col.{shape}.shared.{ab} {b}, [%r38];"
            yield least, f"wmma.load.c.sync.aligned.col.{shape}.{c} {accumulated}, [%d1], 64;"
            yield least, f"wmma.store.d.sync.aligned.row.{shape}.global.{c} [%d1], {made}, %r39;"
            types = f"{c}.{c}" if ab == "f16" else f"{c}.{ab}.{ab}.{c}"
            way = ".xor.popc" if ab == "b1" else ""
            end = ".satfinite" if ab[0] in "su" else ""
            yield least, f"wmma.mma{way}.sync.aligned.row.col.{shape}.{types}{end} {made}, {a}, {b}, {accumulated};"


_TX = "mbarrier::complete_tx::bytes"


def moves() -> Iterator[tuple[str, str]]:
    """Yield (target, instruction) for small matrices, barriers and copies."""
    for count in (1, 2, 4):
        for way in ("", ".trans"):
            registers = group("r", 0, count)
            yield "75", f"ldmatrix.sync.aligned.m8n8.x{count}{way}.shared.b16 {registers}, [%r9];"
            yield "75", f"ldmatrix.sync.aligned.m8n8.x{count}{way}.b16 {registers}, [%d9];"
            yield "90", f"stmatrix.sync.aligned.m8n8.x{count}{way}.shared.b16 [%r9], {registers};"
    yield "75", "movmatrix.sync.aligned.m8n8.trans.b16 %r1, %r2;"
    for text in (
        "cp.async.ca.shared.global [s], [%d1], 4;", "cp.async.cg.shared.global [%r1+16], [%d1+32], 16;",
        "cp.async.ca.shared.global [%r1], [%d1], 8, %r2;", "cp.async.ca.shared.global.L2::128B [%r1], [%d1], 8;",
        "cp.async.cg.shared.global [%r1], [%d1], 16, %p1;",
        "cp.async.cg.shared.global.L2::cache_hint [%r1], [%d1], 16, %d2;",
        "cp.async.commit_group;", "cp.async.wait_group 3;", "cp.async.wait_all;",
        "cp.async.mbarrier.arrive.shared.b64 [bar];", "cp.async.mbarrier.arrive.noinc.shared.b64 [%r1];",
        "cp.async.mbarrier.arrive.b64 [%d1];",
        "mbarrier.init.shared.b64 [bar], 5;", "mbarrier.init.b64 [%d1], %r1;", "mbarrier.inval.shared.b64 [%r1+8];",
        "mbarrier.arrive.shared.b64 %d1, [bar];", "mbarrier.arrive.b64 %d1, [%d2];",
        "mbarrier.arrive.noComplete.shared.b64 %d1, [bar], 2;", "mbarrier.arrive_drop.shared.b64 %d1, [bar];",
        "mbarrier.arrive_drop.noComplete.shared.b64 %d1, [bar], 1;",
        "mbarrier.test_wait.shared.b64 %p1, [bar], %d1;", "mbarrier.test_wait.parity.shared.b64 %p1, [bar], %r1;",
        "mbarrier.pending_count.b64 %r1, %d1;",
    ):  # fmt: skip
        yield "80", text
    for text in (
        "mbarrier.arrive.shared.b64 %d1, [bar], 2;", "mbarrier.arrive.shared::cluster.b64 _, [%r1];",
        "mbarrier.arrive.release.cta.shared::cta.b64 %d1, [bar];", "mbarrier.arrive.shared.b64 _, [bar];",
        "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r1], 4;",
        "mbarrier.arrive.expect_tx.shared.b64 %d1, [bar], 64;",
        "mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 _, [%r1], %r2;",
        "mbarrier.arrive_drop.expect_tx.shared.b64 %d1, [bar], 64;", "mbarrier.expect_tx.shared.b64 [bar], 16;",
        "mbarrier.expect_tx.relaxed.cta.shared.b64 [bar], 64;", "mbarrier.complete_tx.shared.b64 [bar], 32;",
        "mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [%r1], 64;",
        "mbarrier.try_wait.shared.b64 %p1, [bar], %d1;", "mbarrier.try_wait.shared.b64 %p1, [bar], %d1, %r1;",
        "mbarrier.try_wait.parity.shared.b64 %p1, [bar], %r1;",
        "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p1, [bar], %r1, 1000;",
        "mbarrier.test_wait.acquire.cta.shared::cta.b64 %p1, [bar], %d1;",
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [s], [%d1], 64, [bar];",
        "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [s], [%d1], %r1, [%r2];",
        f"cp.async.bulk.shared::cluster.global.{_TX}.L2::cache_hint [%r3], [%d1], %r1, [%r2], %d2;",
        f"cp.async.bulk.shared::cluster.global.{_TX}.multicast::cluster [%r3], [%d1], 16, [%r2], %h1;",
        "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r1], [s], %r2, [%r3];",
        "cp.async.bulk.global.shared::cta.bulk_group [%d1], [s], 128;",
        "cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint [%d1], [%r1], %r2, %d2;",
        "cp.async.bulk.prefetch.L2.global [%d1], 64;", "cp.async.bulk.commit_group;", "cp.async.bulk.wait_group 1;",
        "cp.async.bulk.wait_group.read 0;",
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u64 [%d1], [s], 64;",
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%d1], [%r1], %r2;",
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.noftz.bf16 [%d1], [%r1], %r2;",
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.max.f16 [%d1], [%r1], %r2;",
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.inc.u32 [%d1], [%r1], %r2;",
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.xor.b64 [%d1], [%r1], %r2;",
        f"cp.reduce.async.bulk.shared::cluster.shared::cta.{_TX}.add.s32 [%r1], [%r2], %r3, [%r4];",
        f"cp.reduce.async.bulk.shared::cluster.shared::cta.{_TX}.and.b32 [%r1], [%r2], 16, [%r4];",
        "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r1], %r2, [%r3];",
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%r1], {%f1, %f2, %f3, %f4}, [%r3];",
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.b64 [%r1], {%d1, %d2}, [%r3];",
        "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u64 [%r1], %d2, [%r3];",
        "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.min.s32 [%r1], %r2, [%r3];",
        "fence.proxy.async;", "fence.proxy.async.shared::cta;", "fence.proxy.async.global;",
        "fence.mbarrier_init.release.cluster;", "fence.proxy.tensormap::generic.release.gpu;",
        "fence.proxy.tensormap::generic.acquire.sys [%d1], 128;", "prefetch.tensormap [%d1];",
        "prefetch.param.tensormap [p];", "applypriority.global.L2::evict_normal [%d1], 128;",
        "discard.global.L2 [%d1], 128;", "griddepcontrol.wait;", "elect.sync %r1|%p1, %r2;",
    ):  # fmt: skip
        yield "90", text
    coordinates = ["%r11", "%r12", "%r13", "%r14", "%r15"]
    for rank in range(1, 6):
        at = f"[%d1, {{{', '.join(coordinates[:rank])}}}]"
        into = f"cp.async.bulk.tensor.{rank}d.shared::cluster.global"
        yield "90", f"{into}.mbarrier::complete_tx::bytes [s], {at}, [bar];"
        yield "90", f"{into}.tile.mbarrier::complete_tx::bytes.multicast::cluster [%r1], {at}, [%r2], %h1;"
        yield "90", f"{into}.tile.mbarrier::complete_tx::bytes.L2::cache_hint [%r1], {at}, [%r2], %d2;"
        yield "90", f"cp.async.bulk.tensor.{rank}d.global.shared::cta.bulk_group {at}, [%r1];"
        yield "90", f"cp.async.bulk.tensor.{rank}d.global.shared::cta.tile.bulk_group {at}, [s];"
        yield "90", f"cp.reduce.async.bulk.tensor.{rank}d.global.shared::cta.add.tile.bulk_group {at}, [%r1];"
        yield "90", f"cp.async.bulk.prefetch.tensor.{rank}d.L2.global.tile {at};"
    for field, value in (("global_address", "b64"), ("rank", "b32")):
        register = "%d2" if value == "b64" else "%r2"
        yield "90a", f"tensormap.replace.tile.{field}.shared::cta.b1024.{value} [%d1], {register};"
    for field, value in (
        ("box_dim", "b32"),
        ("global_dim", "b32"),
        ("global_stride", "b64"),
        ("element_stride", "b32"),
    ):
        register = "%d2" if value == "b64" else "%r2"
        yield "90a", f"tensormap.replace.tile.{field}.global.b1024.{value} [%d1], 1, {register};"
    yield "90a", "tensormap.replace.tile.swizzle_mode.global.b1024.b32 [%d1], 2;"
    yield (
        "90",
        ("tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%d1], [%d2], 128;"),
    )


def numbers() -> Iterator[tuple[str, str]]:
    """Yield (target, instruction) for small floats and video instructions."""
    for kind in ("e4m3x2", "e5m2x2"):
        yield "89", f"cvt.rn.satfinite.{kind}.f32 %h1, %f1, %f2;"
        yield "89", f"cvt.rn.satfinite.relu.{kind}.f16x2 %h1, %r1;"
        yield "89", f"cvt.rn.relu.f16x2.{kind} %r1, %h1;"
    for kind in ("e2m3x2", "e3m2x2"):
        yield "100a", f"cvt.rn.satfinite.relu.{kind}.f32 %h1, %f1, %f2;"
        yield "100a", f"cvt.rn.f16x2.{kind} %r1, %h1;"
    yield "100a", "{ .reg .b8 t; cvt.rn.satfinite.e2m1x2.f32 t, %f1, %f2; cvt.rn.f16x2.e2m1x2 %r1, t; }"
    yield "100a", "cvt.rp.satfinite.ue8m0x2.f32 %h1, %f1, %f2;"
    yield "100a", "cvt.rz.ue8m0x2.bf16x2 %h1, %r2;"
    yield "100a", "cvt.rn.bf16x2.ue8m0x2 %r1, %h2;"
    for kind in ("e4m3x4", "e5m2x4", "e2m3x4", "e3m2x4"):
        yield "100a", f"cvt.rs.relu.satfinite.{kind}.f32 %r1, {{%f1, %f2, %f3, %f4}}, %r2;"
    yield "100a", "cvt.rs.satfinite.e2m1x4.f32 %h1, {%f1, %f2, %f3, %f4}, %r2;"
    for kind in ("f16x2", "bf16x2"):
        yield "100a", f"cvt.rs.relu.satfinite.{kind}.f32 %r1, %f1, %f2, %r2;"
    yield "80", "cvt.rna.tf32.f32 %r1, %f1;"
    yield "80", "createpolicy.range.global.L2::evict_last.L2::evict_first.b64 %d1, [%d2], 4096, 8192;"
    yield "80", "createpolicy.cvt.L2.b64 %d1, %d2;"
    yield "100a", "st.bulk.weak.shared::cta [%d1], 64, 0;"
    yield (
        "80",
        (
            "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f1,%f2,%f3,%f4}, {%r1,%r2,%r3,%r4}, {%r5,%r6}, "
            "{0f00000000, %f2, 0f3F800000, %f4};"
        ),
    )
    yield "90", "atom.global.cas.b128 %q1, [%d1], %q2, %q3;"
    yield "90", "atom.relaxed.gpu.shared.exch.b128 %q1, [s], %q2;"
    yield "90", "atom.acq_rel.sys.exch.b128 %q1, [%d1], %q2;"
    for verb in ("vadd", "vsub", "vabsdiff", "vmin", "vmax"):
        yield "75", f"{verb}.s32.u32.s32.sat %r1, %r2.b0, %r3.h1;"
        yield "75", f"{verb}.u32.u32.u32.add %r1, %r2.b3, %r3, %r4;"
        yield "75", f"{verb}.s32.s32.s32.sat %r1.b2, %r2, %r3.h0, %r4;"
        for lanes, letter in (("2", "h"), ("4", "b")):
            yield "75", f"{verb}{lanes}.s32.u32.s32.sat %r1, %r2, %r3, %r4;"
            yield "75", f"{verb}{lanes}.u32.u32.u32.add %r1.{letter}0, %r2, %r3, %r4;"
    yield "75", "vavrg2.s32.s32.s32 %r1.h1, %r2.h32, %r3.h01, %r4;"
    yield "75", "vavrg4.u32.u32.u32.add %r1.b31, %r2.b7531, %r3, %r4;"
    for verb in ("vshl", "vshr"):
        yield "75", f"{verb}.s32.s32.u32.sat.clamp %r1, %r2.h0, %r3.b1;"
        yield "75", f"{verb}.u32.u32.u32.wrap.add %r1, %r2, %r3, %r4;"
    yield "75", "vmad.s32.s32.u32 %r1, %r2.h0, -%r3.h1, %r4;"
    yield "75", "vmad.u32.u32.u32.po.shr15 %r1, %r2.b0, %r3.h1, %r4;"
    yield "75", "vmad.s32.s32.s32.sat.shr7 %r1, %r2, %r3, -%r4;"
    yield "75", "vset.s32.u32.lt %r1, %r2.b0, %r3;"
    yield "75", "vset.u32.u32.ne.min %r1, %r2, %r3.h1, %r4;"
    yield "75", "vset2.s32.s32.ge %r1, %r2, %r3, %r4;"
    yield "75", "vset4.u32.u32.gt.add %r1, %r2, %r3, %r4;"
    yield "75", "mov.v2.u32 {%r1, %r2}, {%r3, %r4};"
    yield "75", "{ .reg .v4 .f32 v; mov.v4.f32 v, {%f1, %f2, %f3, %f4}; mov.f32 %f5, v.x; add.f32 v.w, v.y, v.z; }"
    yield "75", "{ .reg .v2 .u64 v; ld.global.v2.u64 v, [%d1]; st.global.v2.u64 [%d1+16], v; }"


FORMS = [*products(), *fragments(), *moves(), *numbers()]


def text_of(target: str, instructions: list[str], version: str = "8.8") -> str:
    """Return a module with a line of a kernel for each instruction, from line 6 on."""
    head = (
        f".version {version}\n.target sm_{target}\n.address_size 64\n.visible .entry k(.param .align 64 .b8 p[128]) {{"
    )
    return "\n".join([head, DECLARED.replace("\n", " "), *instructions, "ret;", "}", ""])


# -- mutants

_OPERAND = re.compile(r"\{[^}]*\}|\[[^\]]*\]|[^,\s][^,]*")
_TARGETS = ("75", "80", "89", "90", "100a", "120a")
_OTHERS = ("%r1", "%d1", "%f1", "%g1", "%h1", "%p1", "%q1", "[%d1]", "[%r1]", "[s]", "{%r1, %r2}", "{%f1}", "16", "_")


def parts(instruction: str) -> tuple[list[str], list[str]]:
    """Return the words of an opcode, and the operands."""
    opcode, _, rest = instruction.rstrip(";").partition(" ")
    return opcode.split("."), [each.strip() for each in _OPERAND.findall(rest)]


def mutants(pick: random.Random) -> Iterator[tuple[str, str]]:
    """Yield (target, instruction) without end: valid instructions with one thing changed."""
    known = [(target, text) for target, text in FORMS if text[0] != "{"]
    words_of: dict[str, list[str]] = {}
    operands_of: dict[str, list[str]] = {}
    for _, text in known:
        words, operands = parts(text)
        words_of.setdefault(words[0], []).extend(words[1:])
        operands_of.setdefault(words[0], []).extend(operands)
    while True:
        target, text = pick.choice(known)
        target = {"70": "75"}.get(target, target)
        words, operands = parts(text)
        opcode = words[0]
        way = pick.randrange(8)
        at = pick.randrange(1, len(words)) if len(words) > 1 else 0
        if way <= 1 and at:
            words[at] = pick.choice(words_of[opcode])
        elif way == 2 and at:
            del words[at]
        elif way == 3 and at:
            words.insert(at, pick.choice(words_of[opcode]))
        elif way == 4 and operands:
            operands[pick.randrange(len(operands))] = pick.choice(operands_of[opcode])
        elif way == 5 and operands:
            operands[pick.randrange(len(operands))] = pick.choice(_OTHERS)
        elif way == 6 and operands:
            if pick.random() < 0.5:
                del operands[pick.randrange(len(operands))]
            else:
                operands.insert(pick.randrange(len(operands) + 1), pick.choice(operands_of[opcode]))
        else:
            target = pick.choice(_TARGETS)
        yield target, f"{'.'.join(words)} {', '.join(operands)};"
