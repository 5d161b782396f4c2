"""Invalid PTX is rejected when it is loaded, with the line and the words of ptxas; and hostile text does no harm."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.emulator.ptx_client import DATA, HEAD, Machine, Rejected, kernel, ptx, rejection, space
from tests.shared import together
from tests.subject import module

needs_ptxas = pytest.mark.skipif(shutil.which("ptxas") is None, reason="ptxas is not installed")

DECLARED = """
    .reg .pred %p<5>; .reg .b16 %h<5>; .reg .b32 %r<9>; .reg .s32 %s<9>; .reg .u32 %u<9>; .reg .f32 %f<9>;
    .reg .b64 %rd<9>; .reg .u64 %ud<9>; .reg .f64 %fd<9>; .reg .u16 %uh<4>; .reg .f16 %hf<4>;
"""
TX = ".mbarrier::complete_tx::bytes"
VARIABLES = ".global .u32 gv; .shared .u32 sv; .const .u32 cv;\n"
SM90 = ".version 7.8\n.target sm_90\n.address_size 64\n" + VARIABLES
SM100A = ".version 8.8\n.target sm_100a\n.address_size 64\n" + VARIABLES


def one(instruction: str, name: str = "k") -> str:
    """Return a kernel with one line of code."""
    return f".visible .entry {name}(.param .u64 a)\n{{{DECLARED}{instruction}\nret;\n}}\n"


def judged(verdict: str, file: str = "judged.txt") -> list[str]:
    """Return the instructions for which ptxas gave this verdict."""
    lines = (DATA / file).read_text().splitlines()
    return [line[10:] for line in lines if line[:9].strip() == verdict]


def test_ptxas_verdicts_are_many() -> None:
    assert len(judged("takes")) > 300 and len(judged("refuses")) > 150


@together("instruction", judged("takes"))
def test_what_ptxas_takes_is_taken(instruction: str) -> None:
    Machine(SM90 + one(instruction))


@together("instruction", judged("refuses"))
def test_what_ptxas_refuses_is_rejected(instruction: str) -> None:
    reason = rejection(SM90 + one(instruction))
    assert reason.code == 218 and reason.line in range(8, 12)
    assert reason.log.startswith(f"ptxas application ptx input, line {reason.line}; error   : ")


def test_the_order_of_modifiers_is_named() -> None:
    words = "Modifiers of 'cp' in another order than in the name of the instruction, 'cp.async.ca.shared.global'"
    assert words in rejection(SM90 + one("cp.async.ca.global.shared [%r1], [%rd1], 4;")).log


@together("instruction", judged("takes", "judged_100a.txt"))
def test_what_ptxas_takes_for_an_architecture_of_its_own_is_taken(instruction: str) -> None:
    Machine(SM100A + one(instruction), architecture=(10, 0))


@together("instruction", judged("refuses", "judged_100a.txt"))
def test_what_ptxas_refuses_for_an_architecture_of_its_own_is_rejected(instruction: str) -> None:
    assert rejection(SM100A + one(instruction), architecture=(10, 0)).line in range(8, 12)


def test_two_integers_of_16_bits_are_in_a_register_without_a_sign() -> None:
    head = SM90.replace("7.8", "8.0")
    Machine(head + one("add.u16x2 %r1, %r2, %r3;"))
    for registers in ("%u1, %r2, %r3", "%r1, %s2, %r3", "%r1, %r2, %f3"):
        assert "Arguments mismatch" in rejection(head + one(f"add.u16x2 {registers};")).log


def test_a_tensor_map_is_changed_only_where_ptxas_has_the_instruction() -> None:
    text = one("tensormap.replace.tile.rank.global.b1024.b32 [%rd1], %r1;")
    assert "not supported on .target 'sm_90'" in rejection(SM90.replace("7.8", "8.3") + text).log
    Machine(SM90.replace("7.8", "8.3").replace("sm_90", "sm_90a") + text)


@together("instruction", judged("not here"))
def test_what_is_refused_knowingly_is_said_so(instruction: str) -> None:
    assert re.search("not emulated|Illegal modifier '.v2'", rejection(SM90 + one(instruction)).log)


@needs_ptxas
@pytest.mark.parametrize("target, head, file", [("sm_90", SM90, "judged.txt"), ("sm_100a", SM100A, "judged_100a.txt")])
def test_ptxas_still_says_so(tmp_path: Path, target: str, head: str, file: str) -> None:
    """Accepted instructions are checked in one module; of the rejected ones, one in ten is checked, each alone."""
    path = tmp_path / "x.ptx"

    def takes(text: str) -> bool:
        path.write_text(head + text)
        done = subprocess.run(
            ["ptxas", f"-arch={target}", "-O0", str(path), "-o", str(tmp_path / "out")], capture_output=True
        )
        return done.returncode == 0

    taken = [text for text in judged("takes", file) if not re.search(r"\bk\b", text)]
    assert takes("".join(one(text, f"k{at}") for at, text in enumerate(taken)))
    assert not [text for text in judged("refuses", file)[::10] if takes(one(text))]


# -- what newer versions and architectures introduced: an instruction, a head that has it, and heads that do not

QUAD = "{ .reg .b128 %q; mov.b128 %q, {%rd1, %rd2};"
INTRODUCED = [
    *(
        (f"mov.u32 %r1, %{name};", "7.8 sm_90", "7.7 sm_87", "9.0 sm_89")
        for name in ("clusterid.x", "nclusterid.y", "cluster_ctaid.z", "cluster_nctaid.x", "cluster_ctarank",
                     "cluster_nctarank")
    ),
    ("cvt.u64.u32 %rd1, %cluster_ctarank;", "7.8 sm_90", "9.0 sm_89"),
    ("mov.pred %p1, %is_explicit_cluster;", "7.8 sm_90", "7.7 sm_87", "9.0 sm_89"),
    ("mov.u32 %r1, %aggr_smem_size;", "8.1 sm_90", "8.0 sm_90", "9.0 sm_89"),
    ("mov.b32 %r1, %reserved_smem_offset_begin;", "7.6 sm_80", "7.5 sm_80", "9.0 sm_75"),
    ("mov.u64 %rd1, %current_graph_exec;", "8.0 sm_50", "7.8 sm_90"),
    # words that several instructions share
    ("ld.weak.u32 %r1, [%rd1];", "6.0 sm_70", "9.0 sm_60"),
    ("red.release.add.u32 [%rd1], %r1;", "6.0 sm_70", "9.0 sm_60"),
    ("atom.relaxed.add.u32 %r1, [%rd1], 1;", "6.0 sm_70", "9.0 sm_60"),
    ("atom.cta.add.u32 %r1, [%rd1], 1;", "6.0 sm_60", "9.0 sm_50"),
    ("atom.shared::cta.add.u32 %r1, [sv], 1;", "7.8 sm_50", "7.7 sm_87"),
    ("isspacep.shared::cta %p1, %rd1;", "7.8 sm_50", "7.7 sm_87"),
    ("ld.L1::no_allocate.u32 %r1, [%rd1];", "7.4 sm_70", "7.3 sm_86", "9.0 sm_60"),
    ("st.L1::evict_last.u32 [%rd1], %r1;", "7.4 sm_70", "7.3 sm_86", "9.0 sm_60"),
    ("ld.global.L2::128B.u32 %r1, [gv];", "7.4 sm_75", "7.3 sm_86", "9.0 sm_70"),
    ("cvt.rn.satfinite.f16.f32 %h1, %f1;", "8.1 sm_70", "8.0 sm_90", "9.0 sm_60"),
    # forms of one instruction
    ("bar.cta.sync 0;", "7.8 sm_50", "7.7 sm_87"),
    ("barrier.cta.arrive 0, 32;", "7.8 sm_50", "7.7 sm_87"),
    ("isspacep.param %p1, %rd1;", "7.7 sm_70", "7.6 sm_87", "9.0 sm_60"),
    ("cvta.param::entry.u64 %rd1, %rd2;", "8.3 sm_70", "8.2 sm_90", "9.0 sm_60"),
    ("set.eq.u16.f16 %h1, %h2, %h3;", "6.5 sm_70", "6.4 sm_75", "9.0 sm_52"),
    ("set.eq.u32.bf16 %r1, %h2, %h3;", "7.8 sm_90", "9.0 sm_89"),
    ("set.lt.f16x2.f16x2 %r1, %r2, %r3;", "6.0 sm_53", "9.0 sm_52"),
    ("red.add.noftz.f16 [%rd1], %h1;", "6.3 sm_70", "6.2 sm_70", "9.0 sm_60"),
    ("atom.add.noftz.bf16x2 %r1, [%rd1], %r2;", "7.8 sm_90", "9.0 sm_89"),
    ("tanh.approx.bf16x2 %r1, %r2;", "7.8 sm_90", "9.0 sm_89"),
    ("cvt.rn.satfinite.e4m3x2.f32 %h1, %f1, %f2;", "8.1 sm_89", "8.0 sm_89", "9.0 sm_87"),
    ("max.f32 %f1, %f2, %f3, %f4;", "8.8 sm_100", "8.7 sm_100", "9.0 sm_90"),
    ("ld.v8.u32 {%r1,%r2,%r3,%r4,%r5,%r6,%r7,%r8}, [%rd1];", "8.8 sm_100", "8.7 sm_100", "9.0 sm_90"),
    ("redux.sync.min.f32 %f1, %f2, %r1;", "8.6 sm_100a", "8.6 sm_100", "8.7 sm_120a"),
    ("cvt.rs.f16x2.f32 %r1, %f1, %f2, %r2;", "8.7 sm_100a", "8.8 sm_100f", "8.7 sm_120a"),
    ("mbarrier.arrive.release.cta.b64 %rd1, [%rd2];", "8.0 sm_80", "7.8 sm_90", "9.0 sm_75"),
    ("mbarrier.arrive.relaxed.cta.b64 %rd1, [%rd2];", "8.6 sm_90", "8.5 sm_90", "9.0 sm_89"),
    ("mbarrier.test_wait.acquire.cta.b64 %p1, [%rd1], %rd2;", "8.0 sm_80", "7.8 sm_90", "9.0 sm_75"),
    ("mbarrier.try_wait.relaxed.cta.b64 %p1, [%rd1], %rd2;", "8.6 sm_90", "8.5 sm_90", "9.0 sm_89"),
    ("atom.global.cas.b16 %h1, [gv], %h2, %h3;", "6.3 sm_70", "6.2 sm_70", "9.0 sm_60"),
    (f"{QUAD} st.relaxed.sys.b128 [%rd1], %q; }}", "8.4 sm_70", "8.3 sm_90"),
    (f"{QUAD} ld.mmio.relaxed.sys.b128 %q, [%rd1]; }}", "8.4 sm_70", "8.3 sm_90"),
    (".reg .b128 %q;", "8.3 sm_70", "8.2 sm_90", "9.0 sm_60"),
    ("{ .shared .b128 q; }", "8.3 sm_70", "8.2 sm_90", "9.0 sm_60"),
]  # fmt: skip


def headed(head: str, instruction: str) -> str:
    """Return a module of a version and an architecture, with one instruction."""
    return ".version {}\n.target {}\n.address_size 64\n".format(*head.split()) + VARIABLES + one(instruction)


@together("row", INTRODUCED)
def test_what_is_newer_than_the_module_is_refused(row: tuple[str, ...]) -> None:
    instruction, takes, *refuses = row
    for head in (takes, *refuses):
        architecture = divmod(int(head.split("sm_")[1].rstrip("af")), 10)
        if head is takes:
            Machine(headed(head, instruction), architecture=architecture)
        else:
            assert rejection(headed(head, instruction), architecture=architecture).line == 9


@needs_ptxas
@pytest.mark.heavy
def test_ptxas_takes_and_refuses_the_same_versions(tmp_path: Path) -> None:
    path = tmp_path / "x.ptx"

    def takes(head: str, instruction: str) -> bool:
        path.write_text(headed(head, instruction))
        arch = re.sub("sm_[5-7].", "sm_75", head.split()[1])
        done = subprocess.run(["ptxas", f"-arch={arch}", "-O0", path, "-o", tmp_path / "out"], capture_output=True)
        return done.returncode == 0

    for instruction, *heads in INTRODUCED:
        assert [head for head in heads if takes(head, instruction)] == heads[:1], instruction


# -- state spaces: what an instruction takes without a modifier, but not with it

SPACES = [
    ("ld.volatile.shared.u32 %r1, [sv];", "ld.volatile.local.u32 %r1, [%rd1];"),
    ("st.volatile.u32 [%rd1], %r1;", "st.volatile.local.u32 [%rd1], %r1;"),
    ("ld.acquire.gpu.L2::64B.u32 %r1, [sv];", "ld.acquire.gpu.shared.L2::64B.u32 %r1, [sv];"),
    ("ld.volatile.global.L2::64B.u32 %r1, [gv];", "ld.volatile.shared::cta.L2::64B.u32 %r1, [sv];"),
    ("ld.relaxed.gpu.L1::evict_first.u32 %r1, [%rd1];", "ld.relaxed.gpu.shared.L1::evict_first.u32 %r1, [sv];"),
    ("st.release.gpu.global.L1::no_allocate.u32 [gv], %r1;", "st.release.gpu.shared.L1::no_allocate.u32 [sv], %r1;"),
    ("ld.v4.b64 {%rd1,%rd2,%rd3,%rd4}, [%rd5];", "ld.shared.v4.b64 {%rd1,%rd2,%rd3,%rd4}, [%rd5];"),
    (f"st.async.weak.shared::cluster{TX}.v2.b64 [%r1], {{%rd1,%rd2}}, [%r2];",
     f"st.async.weak.shared::cluster{TX}.v4.b64 [%r1], {{%rd1,%rd2,%rd3,%rd4}}, [%r2];"),
    ("st.bulk.weak.shared::cta [%rd1], 16, 0;", "st.bulk.weak.shared [%rd1], 16, 0;"),
]  # fmt: skip


@together("row", SPACES)
def test_modifiers_that_a_state_space_does_not_have(row: tuple[str, str]) -> None:
    Machine(SM100A + one(row[0]), architecture=(10, 0))
    assert rejection(SM100A + one(row[1]), architecture=(10, 0)).line == 9


@needs_ptxas
@pytest.mark.heavy
def test_ptxas_refuses_the_same_state_spaces(tmp_path: Path) -> None:
    path = tmp_path / "x.ptx"

    def takes(instruction: str) -> bool:
        path.write_text(SM100A + one(instruction))
        done = subprocess.run(["ptxas", "-arch=sm_100a", "-O0", path, "-o", tmp_path / "out"], capture_output=True)
        return done.returncode == 0

    assert not [row for row in SPACES if not takes(row[0]) or takes(row[1])]


# -- a register plus a constant: an instruction, and whether architectures before sm_90, and since, have it

SUMS = [
    ("add.u32 %r1, %r2+4, %r3;", True, True),
    ("shfl.sync.idx.b32 %r1, %r2+4, %r3, %r4, %r5;", False, True),
    ("shfl.sync.idx.b32 %r1, %r2, %r3, %r4, %r5+4;", False, True),
    ("vote.sync.any.pred %p1, %p2, %r2+4;", False, True),
    ("match.any.sync.b64 %r1, %rd2+4, %r3;", False, True),
    ("redux.sync.add.u32 %r1, %r2+4, %r3;", False, True),
    ("bar.warp.sync %r1+4;", False, True),
    ("vadd.u32.u32.u32 %r1, %r2+4, %r3;", False, False),
    ("activemask.b32 %r1+4;", False, False),
    ("mov.u32 %r1+4, %r1;", False, False),
    ("add.u32 %r1+4, %r1, %r3;", False, False),
    ("shfl.sync.idx.b32 %r1+4, %r2, %r3, %r4, %r5;", False, False),
]
SUM_HEADS = ("8.8 sm_89", "8.8 sm_90")


@together("row", SUMS)
def test_a_sum_is_read_and_not_by_each_instruction(row: tuple[str, bool, bool]) -> None:
    instruction, *taken = row
    for head, takes in zip(SUM_HEADS, taken):
        if takes:
            Machine(headed(head, instruction), architecture=(9, 0))
        else:
            assert rejection(headed(head, instruction), architecture=(9, 0)).line == 9


@needs_ptxas
@pytest.mark.heavy
def test_ptxas_reads_the_same_sums(tmp_path: Path) -> None:
    path = tmp_path / "x.ptx"

    def takes(head: str, instruction: str) -> bool:
        path.write_text(headed(head, instruction))
        done = subprocess.run(
            ["ptxas", f"-arch={head.split()[1]}", "-O0", path, "-o", tmp_path / "out"], capture_output=True
        )
        return done.returncode == 0

    for instruction, *taken in SUMS:
        assert [takes(head, instruction) for head in SUM_HEADS] == taken, instruction


# -- calls: a parameter, arguments or results that fit, and others that do not

PASSED = (
    ".reg .b32 b; .reg .u32 u; .reg .f32 f; .reg .b64 d; .reg .u64 ud; .reg .f64 fd; .reg .b16 h; .reg .f16x2 hh; "
    ".reg .v2 .f32 v; .param .b32 pb; .param .f32 pf; .param .u32 pu; .param .align 8 .b32 pw; .param .b64 pd; "
    ".param .align 4 .b8 bytes[8]; .param .align 4 .b32 words[2]; .param .align 8 .b8 wide[8];"
)
PARAMETERS = [
    (".reg .b32 p", "b u f hh", "h d fd v"),
    (".reg .u32 p", "b u hh", "f h d"),
    (".reg .f32 p", "b f hh", "u h d"),
    (".reg .b64 p", "d ud fd", "b f"),
    (".reg .f64 p", "d fd", "ud b f"),
    (".reg .v2 .u32 p", "v", "b u"),
    (".param .b32 p", "b u f pb pf pu", "h d pw pd bytes k gv a %clock64"),
    (".param .u32 p", "b u pb pu", "f pf d"),
    (".param .align 8 .b32 p", "pw", "b pb pd"),
    (".param .align 4 .b8 p[8]", "bytes words", "wide d pd pb"),
    (".param .b64 p", "d pd", "wide bytes b"),
    (".param .b16 p", "h", "b hh"),
    (".reg .u16 p", "", "h"),
]
CONSTANTS = [
    (".reg .u32 p", "1", "1.5"),
    (".param .b32 p", "1 1.5", ""),
    (".reg .f32 p", "1.5", "1"),
    (".param .align 8 .b32 p", "1", ""),
    (".param .align 4 .b8 p[8]", "", "1"),
]
ARGUMENT, RESULT = ".func g({}) {{ ret; }} call g, ({});", ".func ({}) g() {{ ret; }} call ({}), g;"
CALLS = [
    (form.format(parameter, given), fits)
    for rows, forms in ((PARAMETERS, (ARGUMENT, RESULT)), (CONSTANTS, (ARGUMENT,)))
    for form in forms
    for parameter, good, bad in rows
    for words, fits in ((good, True), (bad, False))
    for given in words.split()
]


def calling(call: str) -> str:
    """Return a module with a function, and a kernel that calls it."""
    function, brace, instruction = call.partition("} ")
    kernel = f".visible .entry k(.param .u64 a)\n{{ {PASSED}\n{instruction}\nret;\n}}\n"
    return f".version 8.3\n.target sm_90\n.address_size 64\n{VARIABLES}{function}{brace}\n{kernel}"


@together("row", CALLS)
def test_arguments_and_results_have_the_type_of_their_parameter(row: tuple[str, bool]) -> None:
    call, fits = row
    if fits:
        Machine(calling(call))
    else:
        assert rejection(calling(call)).line == 8


@needs_ptxas
@pytest.mark.heavy
def test_ptxas_compares_the_same_types(tmp_path: Path) -> None:
    path = tmp_path / "x.ptx"

    def takes(call: str) -> bool:
        path.write_text(calling(call))
        done = subprocess.run(["ptxas", "-arch=sm_90", "-O0", path, "-o", tmp_path / "out"], capture_output=True)
        return done.returncode == 0

    assert not [call for call, fits in CALLS if takes(call) != fits]


# -- the image as a whole


@pytest.mark.parametrize(
    "image,code,words",
    [
        (b"", 200, "empty"),
        (b"   \n", 200, "empty"),
        (b"hello", 200, "neither PTX text nor a cubin"),
        (b"\xff\xfe\x00\x01", 200, "neither"),
        (b"\x7fELF\x02\x01\x01", 209, "cubin"),
        (b"\x50\xed\x55\xba", 209, "fatbin"),
        (b".version 5.1\n.target sm_50\n.address_size 64\n", 222, "Unsupported .version 5.1"),
        (
            b".version 8.6\n.target sm_100\n.address_size 64\n",
            209,
            "'sm_100' cannot be compiled to architecture 'sm_90'",
        ),
        (b".version 6.3\n.target sm_50\n.address_size 32\n", 218, "address_size 64"),
        (b".target sm_50\n", 218, "Missing .version"),
        (b".version 6.3\n", 218, "Missing .target"),
        (b".version x\n.target sm_50", 218, "expected a version"),
        (b".version 6.3\n.target debug\n", 218, "Target sm_NN expected"),
        (b".version 6.3\n.target sm_50, nonsense\n", 218, "Unsupported .target 'nonsense'"),
        (b".version 6.6\n.target sm_50\n", 222, "Unsupported .version 6.6"),
        (b".version 7.7\n.target sm_90\n", 218, "line 2; .* PTX .version 7.7 does not support .target sm_90"),
        (b".version 7.8\n.target sm_90a\n", 218, "does not support"),
        (b".version 8.7\n.target sm_100f\n", 218, "does not support"),
    ],
)
def test_images(image: bytes, code: int, words: str) -> None:
    reason = rejection(image)
    assert reason.code == code and re.search(words, reason.log)


@pytest.mark.parametrize("version", ["9.0", "9.5"])
def test_newer_versions_are_read(version: str) -> None:
    """A new compiler writes a new number and mostly the same instructions; only an unknown instruction is refused."""
    Machine(HEAD.replace("7.8", version))
    assert rejection(HEAD.replace("7.8", version) + ".visible .entry k() { newest.u32 %r1; ret; }").code == 218


def test_the_newest_version_that_a_driver_knows() -> None:
    version_of = module("emulator.ptx.reading.header").version_of
    assert [version_of(11000 + 10 * minor) for minor in range(9)] == [(7, minor) for minor in range(9)]
    assert [version_of(12000 + 10 * minor)[1] for minor in range(10)] == [0, 1, 2, 3, 4, 5, 5, 6, 7, 8]
    assert [version_of(13000 + 10 * minor) for minor in range(6)] == [(9, minor) for minor in range(6)]
    assert version_of(12000)[0] == version_of(12090)[0] == 8 and version_of(10020) == (6, 5)


@pytest.mark.parametrize("version", ["9.6", "10.2", "99.0"])
def test_versions_that_no_driver_knows(version: str) -> None:
    reason = rejection(HEAD.replace("7.8", version))
    assert reason.code == 222 and f"Unsupported .version {version}" in reason.log


def test_an_older_architecture_takes_less() -> None:
    assert rejection(HEAD.replace("sm_75", "sm_86"), architecture=(8, 0)).code == 209
    Machine(HEAD.replace("sm_75", "sm_80"), architecture=(8, 6))
    Machine(HEAD.replace("sm_75", "sm_90a").replace("7.8", "8.0"), architecture=(9, 0))
    Machine(HEAD.replace("sm_75", "sm_120").replace("7.8", "8.7"), architecture=(12, 0))


@pytest.mark.parametrize(
    "head",
    [
        ".version 9.4294967296\n.target sm_75\n",
        ".version 7.10\n.target sm_75\n",
        ".version 007.8\n.target sm_75\n",
        ".version 7.8\n.target sm_75\n.target sm_75\n",
        ".version 7.8\n.target sm_75, texmode_independent\n",
        ".version 7.8\n.target sm_80, sm_75\n",
    ],
)
def test_odd_heads_that_ptxas_takes(head: str) -> None:
    assert Machine(head + ".address_size 64\n").code.entries == {}


def test_a_trailing_nul_ends_the_text() -> None:
    assert list(Machine((kernel("") + "\0garbage").encode()).code.entries) == ["k"]


def test_the_log_names_the_line() -> None:
    text = kernel("add.s32 %r1, %r2, %r3;\nadd.s32 %r1, %r2, %f3;")
    assert rejection(text).log == (
        "ptxas application ptx input, line 16; error   : Arguments mismatch for instruction 'add'\n"
        "ptxas fatal   : Ptx assembly aborted due to errors"
    )
    assert rejection(text).line == 16 and str(rejection(text)) == rejection(text).log


@pytest.mark.parametrize(
    "text,words",
    [
        ("istypep.texref %p1, %d1;", "'istypep.texref' is not emulated: textures"),
        ("wgmma.fence.sync.aligned;", "warp group"),
        (".local .b32 a[2][0];", "Array of incomplete type"),
        (".shared .b32 a[2][];", "Parsing error near ']'"),
    ],
)
def test_opcodes_that_are_refused_are_named_with_their_line(text: str, words: str) -> None:
    assert re.search(words, rejection(kernel(text)).log)


@pytest.mark.parametrize(
    "text",
    [
        "mma.sp.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 {%f1,%f2,%f3,%f4},{%r1},{%r2},{%f1,%f2,%f3,%f4},%r1,0;",
        "tcgen05.wait::ld.sync.aligned;",
        "wgmma.wait_group.sync.aligned 0;",
        "multimem.red.relaxed.sys.global.add.u32 [%d1], %r1;",
        "alloca.u64 %d1, 16;",
    ],
)
def test_what_is_not_emulated_is_refused_with_opcode_and_line(text: str) -> None:
    head = ".version 8.8\n.target sm_100a\n.address_size 64\n"
    body = "mov.u32 %r1, 1;\n" + text
    reason = rejection(kernel(body, head=head), architecture=(10, 0))
    line = kernel(body, head=head).split("\n").index(text) + 1
    assert reason.code == 218 and reason.line == line and f"line {line}; " in reason.log
    assert "not emulated" in reason.log and (
        text.split(".")[0] in reason.log or "Cluster" in reason.log or "addresses" in reason.log
    ), reason.log


@pytest.mark.parametrize(
    "text,words",
    [
        ("call nowhere, ();", "Unknown symbol 'nowhere'"),
        ("call (%r1), g, ();", "wrong number of parameters"),
        ("bra NOWHERE;", "Unknown symbol 'NOWHERE'"),
        ("{ X: } bra X;", "Unknown symbol 'X'"),
        ("X: X: ret;", "Duplicate definition of label 'X'"),
        (".reg .b32 %q; .reg .f32 %q;", "Duplicate definition of variable '%q'"),
        (".shared .b8 s[50000]; mov.u32 %r1, s;", "too much shared data"),
        (".local .b8 l[600000];", "too much local data"),
        pytest.param(".param .b8 a[300000]; .param .b8 b[300000];", "too much local data", id="arrays of parameters"),
        ("ld.param.u64 %d1, [nothing];", "Unknown symbol 'nothing'"),
        ("@%r1 ret;", "must be a predicate"),
        (".param .b32 p; ld.param.b64 %d1, [p];", "past the end of parameter"),
        ("call k, (%out);", "kernel 'k'"),
    ],
)
def test_what_names_refer_to(text: str, words: str) -> None:
    assert words in rejection(kernel(text, before=".func g() { ret; }\n")).log


MALFORMED = {  # ptxas refuses these, too
    ".global .u32 a[2][2] = {1, 2};": "expected '{'",
    ".global .u32 a[2][2] = {{1, 2, 3}, {4}};": "Too many initial values",
    ".global .u32 a[2] = 1;": "expected '{'",
    ".global .u32 a[2] = {1, };": "expected an initial value",
    ".global .u32 a[2] = {{1}, 2};": "nested too deeply",
    ".global .v2 .f32 a = {1.0};": "Incorrect number of elements in vector initializer",
    ".global .v2 .f32 a = 1.0;": "expected '{'",
    ".global .u32 _;": "expected a variable name",
    ".global .u32 $;": "expected a variable name",
    ".global .u32 .v2 a;": "Parsing error near '.v2'",
    ".global .u32 .align 8 a;": "Parsing error near '.align'",
    ".global .v2 .align 8 .u32 a;": "Parsing error near '.align': expected a type",
    ".global .v2 .v2 .u32 a;": "Parsing error near '.v2': expected a type",
    ".visible .extern .global .u32 a;": "Parsing error near '.extern'",
    ".visible .visible .entry e() { ret; }": "Parsing error near '.visible'",
    ".entry _() { ret; }": "expected a function name",
    ".entry e(.param .b8 a[]) { ret; }": "cannot be an incomplete array",
    ".entry e() .minnctapersm { ret; }": "Parsing error near '{': expected a number",
    ".entry e() .maxntid 8, { ret; }": "Parsing error near '{': expected a number",
    ".entry e() { t: t: .branchtargets t; ret; }": "Duplicate definition of 't'",
    ".entry e() { t: .callprototype _ (); t: .callprototype _ (); ret; }": "Duplicate definition of 't'",
    ".entry e() { t: .callprototype e (); ret; }": "expected '_'",
    ".entry e(.param .b32 %r1) { .reg .b64 %r1; ret; }": "Duplicate definition of variable '%r1'",
    ".entry e(.param .b32 %r1) { .reg .b64 %r<2>; ret; }": "Duplicate definition of variable '%r'",
    ".entry e(.param .b32 x) { x: ret; }": "Duplicate definition of label 'x'",
    ".func f(.reg .b32 %r1) { .shared .b32 %r1; ret; }": "Duplicate definition of variable '%r1'",
    ".func (.reg .b32 %r1) f() { .reg .b32 %r<2>; ret; }": "Duplicate definition of variable '%r'",
    ".entry e() { .reg .b32 x; x: ret; }": "Duplicate definition of label 'x'",
    ".entry e() { x: .reg .b32 x; ret; }": "Duplicate definition of variable 'x'",
    ".entry e() { x: .shared .b32 x; ret; }": "Duplicate definition of variable 'x'",
}


@needs_ptxas
def test_ptxas_refuses_malformed_declarations(tmp_path: Path) -> None:
    path, taken = tmp_path / "x.ptx", []
    for text in MALFORMED:
        path.write_text(HEAD + text)
        if not subprocess.run(
            ["ptxas", "-arch=sm_75", str(path), "-o", str(tmp_path / "out")], capture_output=True
        ).returncode:
            taken.append(text)
    assert not taken


@pytest.mark.parametrize(
    "text,words",
    [
        (".global .u32 a = {1};", "constant"),
        (".global .u32 a[2] = {1, 2, 3};", "Too many initial values"),
        (".global .u64 a = nothing;", "Unknown symbol"),
        (".global .f32 a = 1;", "type mismatch"),
        (".global .u32 a = 1.0;", "type mismatch"),
        (".global .u32 a[99999999999];", "too large"),
        (".global .align 3 .u32 a;", "not a power of two"),
        (".shared .u32 a = 1;", "Initial value not allowed"),
        (".global .u32 a; .global .f32 a;", "Duplicate definition"),
        (".const .b8 a[70000];", "too much global constant data"),
        (".reg .b32 %r;", "not allowed at module scope"),
        (".func f() { ret; } .func f() { ret; }", "Duplicate definition of function 'f'"),
        (".func f(); .func f(.param .b32 x) { ret; }", "conflicts"),
        (".entry e(.param .b8 x[40000]) { ret; }", "parameter space overflowed"),
        (".global .texref t;", "textures"),
        (".entry e() {", "ends too early"),
        (".global .u32 a = 1/0;", "Division by zero"),
        (".alias a, b;", "not emulated"),
        ("garbage", "expected a directive"),
        ("/* open", "Unterminated comment"),
        ('.file 1 "open', "Unterminated string"),
        (".global .u32 \u00e9;", "Unexpected character"),
        (".entry e(.reg .u32 x) { ret; }", "must be in .param space"),
        *((text, words) for text, words in MALFORMED.items()),
    ],
)
def test_declarations(text: str, words: str) -> None:
    assert words in rejection(HEAD + text).log


NUMBERED = {  # declarations in one block, and whether ptxas takes them
    ".reg .b32 %v1; .reg .b32 %v<3>;": False,
    ".reg .b32 %v<3>; .reg .b32 %v1;": False,
    ".reg .b32 %v3; .reg .b64 %v5, %v<4>;": False,
    ".reg .b32 %v3, %v9; .reg .b32 %v<3>;": True,
    ".reg .b32 %v<3>; .reg .b32 %v3;": True,
    ".reg .v2 .b32 %v1; .reg .b32 %v<3>;": False,
    ".shared .b32 v1; .reg .b32 v<3>;": False,
    ".reg .b32 v<3>; .local .b32 v1;": False,
    ".reg .b32 %v0; .reg .b32 %v<3>;": True,
    ".reg .b32 %v<3>; .reg .b32 %v0;": False,
    ".reg .b32 %v01; .reg .b32 %v<3>;": True,
    ".reg .b32 %v<3>; .reg .b32 %v01;": False,
    ".reg .b32 %v<3>; .reg .b32 %v4294967297;": False,
    ".reg .b32 %v<3>; mov.b32 %v01, 1; mov.b32 %v1, %v01;": True,
    ".reg .b32 %v<12>; .reg .b32 %v1<3>;": True,
    ".reg .b32 %v1<3>; .reg .b32 %v10;": True,
    ".reg .b32 %v1<3>; mov.b32 %v10, 1;": False,
    ".reg .b32 %v1; { .reg .b32 %v<3>; }": True,
    ".reg .b32 %v<3>; { .reg .b32 %v1; }": True,
    "{ .reg .b32 %v1; } .reg .b32 %v<3>;": True,
}


@pytest.mark.parametrize("text", NUMBERED)
def test_a_name_and_a_range_of_registers_that_has_it(text: str, tmp_path: Path) -> None:
    if NUMBERED[text]:
        Machine(kernel(text))
    else:
        assert rejection(kernel(text)).code == 218
    if shutil.which("ptxas"):
        (tmp_path / "x.ptx").write_text(kernel(text))
        command = ["ptxas", "-arch=sm_90", str(tmp_path / "x.ptx"), "-o", str(tmp_path / "out")]
        assert (subprocess.run(command, capture_output=True).returncode == 0) == NUMBERED[text]


def test_ranges_are_compared_with_names_in_linear_time() -> None:
    many = 20000
    names = ", ".join(f"%v{number}" for number in range(4 * 10**9, 4 * 10**9 + many))
    ranges = ", ".join(f"%v{'x' * (1 + number % 9)}{number}_<4000000000>" for number in range(many))
    began = time.process_time()
    Machine(kernel(f".reg .b32 {names}, %v<4000000000>;\n.reg .b32 {ranges};"))
    assert time.process_time() - began < 20


def test_a_string_has_only_ascii() -> None:
    """Comments may have other characters: the newest ptxas takes them."""
    for text in ('.file 1 "gr\u00f6\u00dfe.cu"\n', '.entry e() { .pragma "\u00e9"; ret; }'):
        assert "Unexpected non-ASCII character" in rejection(HEAD + text).log
    Machine(HEAD + "// gr\u00f6\u00dfe\n.entry e() { /* \u00e9 */ ret; }")


@pytest.mark.parametrize("version, target, most", [("8.0", 90, 4352), ("8.1", 60, 4352), ("8.1", 70, 32764)])
def test_the_size_of_the_parameters_depends_on_version_and_target(
    version: str, target: int, most: int, tmp_path: Path
) -> None:
    text = f".version {version}\n.target sm_{target}\n.address_size 64\n"
    text += ".entry k(.param .b8 a, .param .b8 p[{}]) {{}}"
    assert Machine(text.format(most - 1)).code.entries["k"].parameter_bytes == most
    reason = rejection(text.format(most))
    words = "Formal parameter space overflowed" if most > 4352 else "parameter size larger than 4352 bytes' requires"
    assert reason.code == 218 and words in reason.log
    if shutil.which("ptxas"):
        for size in (most - 1, most):
            (tmp_path / "x.ptx").write_text(text.format(size))
            command = ["ptxas", "-arch=sm_90", str(tmp_path / "x.ptx"), "-o", str(tmp_path / "out")]
            assert (subprocess.run(command, capture_output=True).returncode == 0) == (size < most)


def test_a_variable_declared_before_it_is_defined() -> None:
    here = Machine(HEAD + ".extern .global .u32 a;\n.global .u64 where = a;\n.visible .global .u32 a = 5;\n")
    found = here.code.variables
    assert bytes(found["a"].data) == b"\5\0\0\0" and int.from_bytes(found["where"].data, "little") == found["a"].base
    assert (
        "Unresolved extern variable 'x'"
        in rejection(kernel("ld.global.u32 %r1, [x];", before=".extern .global .u32 x;\n")).log
    )
    assert "Unresolved extern function 'x'" in rejection(kernel("call x, ();", before=".extern .func x();\n")).log


# -- hostile text

HOSTILE = [
    "import",
    "class",
    "lambda",
    "None",
    "__import__",
    "L",
    "B",
    "T4",
    "thread",
    "fuel",
    "yield",
    "_",
    "__class__",
    "os$system",
    "exec$",
    "$",
    "r_r1",
    "a" * 300,
    "INF",
    "at",
    "self",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_names_that_mean_something_in_python(name: str) -> None:
    """Such names are used for registers, labels, kernels, functions, variables and parameters, with and without `%`."""
    if name in ("_", "$"):
        name += "x"
    text = (
        HEAD
        + f"""
.global .u32 v{name} = 3;
.func (.param .b32 {name}) f{name}(.param .b32 p{name})
{{ .reg .b32 %{name}; ld.param.b32 %{name}, [p{name}]; st.param.b32 [{name}], %{name}; ret; }}
.visible .entry k{name}(.param .u64 {name})
{{
    .reg .b64 %{name}; .reg .b64 %{name}1; .reg .b32 {name}r; .reg .pred {name}p;
    ld.param.u64 %{name}, [{name}];
    ld.global.u32 {name}r, [v{name}];
    setp.eq.u32 {name}p, {name}r, 3;
    @{name}p bra L{name};
    ret;
L{name}:
    {{ .reg .b32 {name}r; .param .b32 a; .param .b32 b; mov.u32 {name}r, 41;
      st.param.b32 [a], {name}r; call (b), f{name}, (a); ld.param.b32 {name}r, [b];
      st.global.u32 [%{name}], {name}r; }}
    ret;
}}
"""
    )
    here = Machine(text)
    out = here.buffer("I", [0])
    here.run(f"k{name}", out)
    assert out.values() == [41]


@pytest.mark.parametrize(
    "text",
    [
        "%r1; import os",
        "r1);print(1",
        'x"y',
        "x\ny",
        "x;y",
        "x y",
        "x#y",
        "x\\y",
        "x'y",
        "x{y}",
        "\u0131",
        "x\u2028y",
        "x\x00y",
        "{a}",
        "{M}",
        "%(x)s",
    ],
)
def test_names_with_anything_else_in_them_are_no_names(text: str) -> None:
    for body in (
        f".reg .b32 {text};",
        f"{text}: bra {text};",
        f"mov.u32 {text}, 1;",
        f"add.{text} %r1, %r1, 1;",
        f"{text} %r1;",
    ):
        try:
            made = Machine(kernel(body.replace("\x00", "\x01")))
        except Rejected:
            continue
        assert "import" not in made.code.source and "print" not in made.code.source


def test_nothing_of_the_text_reaches_the_source() -> None:
    """The source contains only integers, rewritten floats, checked names with a prefix, and words of the package."""
    source = "".join(
        Machine((DATA / f"{build}.ptx").read_text()).code.source
        for build in ("memory.sm75", "together.sm75", "half.sm75")
    )
    allowed = re.compile(
        r"""[a-z]\d*_\w* | \b_\b | \d+\.\d+(e[+-]?\d+)? | 0x[0-9a-f]+ | \d+ | \#\ \d+ | '[\w, .|]*' | [A-Za-z]\w*
            | [\s+\-*/%&|^~<>=!()\[\]{},.:;]""",
        re.VERBOSE,
    )
    rest = allowed.sub("", re.sub(r"#[^\n]*", "", source))
    assert rest == ""
    own = set(re.findall(r"(?<![\w'.])[A-Za-z_]\w*", re.sub(r"'[^']*'|#[^\n]*|\d[\w.+-]*", "", source)))
    words = {word for word in own if not re.match(r"[rkfp]\d*_", word)}
    assert len(words) < 250, sorted(words)


def test_strings_and_comments_reach_nothing() -> None:
    text = kernel(
        '// __import__("os").system("x")\n/* """ ; */ .pragma "x\\"; import os";\n', before='.file 1 "a\\"b.cu"\n'
    )
    assert "import" not in Machine(text).code.source


@pytest.mark.parametrize(
    "make",
    [
        lambda n: kernel("{" * n + "}" * n),
        lambda n: kernel("mov.u32 %r1, " + "(" * n + "1" + ")" * n + ";"),
        lambda n: kernel("mov.u32 %r1, " + "-" * n + "1;"),
        lambda n: HEAD + ".global .u32 a" + "[1]" * n + " = " + "{" * n + "1" + "}" * n + ";",
        lambda n: HEAD + ".global .u32 a = " + "1+" * n + "1;",
        lambda n: kernel("mov.u32 %r1, " + "9" * n + ";"),
        lambda n: kernel("mov.f32 %f1, 1." + "9" * n + ";"),
        lambda n: kernel(".reg .b32 %x<" + "9" * n + ">;"),
        lambda n: kernel("mov.u32 %r1, 0x" + "f" * n + ";"),
        lambda n: kernel(f"mov.u32 %r{'9' * n}, 1;"),
        lambda n: HEAD + "/*" * n,
        lambda n: HEAD + '"' * n,
        lambda n: HEAD + ".version " * n,
        lambda n: kernel("add" + ".s32" * n + " %r1, %r1, 1;"),
        lambda n: kernel("mov.b64 %d1, {" + "%r1," * n + "%r1};"),
        lambda n: HEAD + ".visible " * n + ".entry k() { ret; }",
        lambda n: kernel("@%p1 " * n + "ret;"),
        lambda n: HEAD + "#" * n,
        lambda n: HEAD + "(" * n,
    ],
)
def test_deep_long_and_huge_text_is_judged_quickly(make: object) -> None:
    started = time.perf_counter()
    for size in (70, 5000, 100_000):
        try:
            ptx.load(make(size).encode(), space.Space())  # type: ignore[operator]
        except Rejected as reason:
            assert reason.log and len(reason.log) < 1000
    assert time.perf_counter() - started < 60  # steps that grow with the square of the size would take hours


def test_a_constant_expression_may_be_long_but_not_deep() -> None:
    here = Machine(HEAD + ".global .u32 a = " + "1+" * 3000 + "1;")
    assert int.from_bytes(here.code.variables["a"].data, "little") == 3001


@pytest.mark.parametrize(
    "body",
    [
        "".join(f"setp.eq.u32 %p1, %r1, {n};\n@%p1 bra X{n};\nadd.u32 %r2, %r2, 1;\nX{n}:\n" for n in range(3000)),
        "".join(f"setp.eq.u32 %p1, %r1, {n};\n@%p1 bra X{n};\n" for n in range(300))
        + "".join(f"X{n}: add.u32 %r2, %r2, 1;\n" for n in range(300)),
        "".join(f"L{n}:\n" for n in range(60))
        + "".join(
            f"A{n}: add.u32 %r2, %r2, 1;\nsetp.lt.u32 %p1, %r2, {n};\n@%p1 bra A{max(0, n - 30)};\n" for n in range(200)
        ),
        "".join(f"O{n}: add.u32 %r2, %r2, 1;\n" for n in range(40))
        + "".join(f"setp.lt.u32 %p1, %r2, {n};\n@%p1 bra O{39 - n};\n" for n in range(40)),
        "mov.u32 %r2, 5;\n"
        + "".join(f"setp.eq.u32 %p1, %r2, {n};\n@%p1 bra C{n};\n" for n in range(100))
        + "bra E;\n"
        + "".join(f"C{n}: add.u32 %r3, %r3, {n};\nbra E;\n" for n in range(100))
        + "E:\n",
    ],
    ids=["many ifs", "many labels", "backward tangle", "deep loops", "a long ladder"],
)
def test_large_flow_is_planned_quickly_and_runs(body: str) -> None:
    started = time.perf_counter()
    here = Machine(kernel("mov.u32 %r1, 7; mov.u32 %r2, 0; mov.u32 %r3, 0;\n" + body))
    assert time.perf_counter() - started < 60
    here.run("k", here.buffer("I", 1))


def test_a_rejection_frees_what_was_allocated() -> None:
    memory = space.Space()
    with pytest.raises(Rejected):
        ptx.load(kernel("mov.u32 %f1, 1;", before=".global .u32 a;\n").encode(), memory)
    assert not memory.live()


def test_loading_raises_no_recursion_limit() -> None:
    limit = sys.getrecursionlimit()
    Machine(kernel(""))
    assert sys.getrecursionlimit() == limit
