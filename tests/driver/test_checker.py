"""The emulator's memory checker refuses each mistake, with kernel, line, block, thread, address and allocation."""

from __future__ import annotations

import ctypes
import itertools
import random
import re
import struct
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.driver.race_pairs import is_same_pair
from tests.subject import module

pytestmark = pytest.mark.emulator_only("a GPU does not write such reports")
CORPUS = Path(__file__).resolve().parent.parent / "data" / "corpus"
HEAD = ".version 7.8\n.target sm_75\n.address_size 64\n.const .align 8 .b8 table[32] = {1, 2, 3};\n"
REGISTERS = (
    ".reg .b64 %d<8>;\n.reg .b32 %r<12>;\n.reg .f32 %f<4>;\n.reg .pred %p<4>;\n"
    ".shared .align 8 .b8 tile[1024];\n.local .align 8 .b8 own[64];\n"
)
START = (
    "ld.param.u64 %d1, [out];\nld.param.u64 %d2, [in];\nmov.u32 %r1, %tid.x;\nmul.wide.u32 %d3, %r1, 4;\n"
    "add.u64 %d4, %d2, %d3;\nadd.u64 %d5, %d1, %d3;\n"
)
START += "mov.u32 %r2, tile;\nshl.b32 %r3, %r1, 2;\nadd.u32 %r4, %r2, %r3;\n"


def text(body: str, lines: bool = True) -> str:
    """Return the PTX of a kernel in which each line belongs to one line of a .cu file."""
    found = []
    for number, line in enumerate(body.strip().split("\n"), 1):
        found.append((f".loc 1 {100 + number} 1\n" if lines else "") + line)
    file = '.file 1 "kernel.cu"\n' if lines else ""
    return (
        HEAD
        + file
        + ".visible .entry k(.param .u64 out, .param .u64 in) {\n"
        + REGISTERS
        + START
        + "\n".join(found)
        + "\nret;\n}\n"
    )


class Bench:
    """An emulator with one module, called only through its entry points."""

    def __init__(self, body: str, **options: Any) -> None:
        from tests.emulator.emulator_client import Client

        self.client = Client(**{"strict": True, **options})
        self.function = self.client.get("cuModuleGetFunction", self.client.load(text(body)), b"k")
        self.out, self.source = self.client.allocate(400), self.client.allocate(400)

    def run(self, threads: int = 64, blocks: int = 1) -> int:
        code = self.client.launch(self.function, [self.out, self.source], grid=(blocks, 1, 1), block=(threads, 1, 1))
        return code or self.client.code("cuCtxSynchronize")

    @property
    def report(self) -> str:
        return self.client.emulator.reports[-1]


USE = "ld.global.u32 %r5, [%d4];\nadd.u32 %r5, %r5, 1;\nst.global.u32 [%d5], %r5;"
LOCAL = "mov.u64 %d6, own;\n"
MISTAKES = {
    # kind: body, code, text of the report, the line of kernel.cu that it names
    "global, past the end": (
        "ld.global.u32 %r5, [%d4+400];",
        700,
        "0 bytes past the end of a 400-byte device allocation at 0x",
        101,
    ),
    "global, before the start": (
        "st.global.u32 [%d2+-4], 1;",
        700,
        "4 bytes before the start of a 400-byte device allocation at 0x",
        101,
    ),
    "global, misaligned": (
        "ld.global.u32 %r5, [%d4+2];",
        716,
        "is not a multiple of 4: 2 bytes into a 400-byte device allocation at 0x",
        101,
    ),
    "global, a vector misaligned": ("ld.global.v2.u32 {%r5, %r6}, [%d2+396];", 716, "not a multiple of 8", 101),
    "global, null": ("mov.u64 %d6, 0;\nst.global.u32 [%d6], 1;", 700, "address 0x0: a null pointer\n", 102),
    "global, null and an offset": (
        "mov.u64 %d6, 0;\nst.global.u32 [%d6+40], 1;",
        700,
        "address 0x28: a null pointer plus 40 bytes\n",
        102,
    ),
    "global, null, before": ("mov.u64 %d6, 0;\nld.u32 %r5, [%d6+-4];", 700, "a null pointer minus 4 bytes", 102),
    "global, null, misaligned": (
        "mov.u64 %d6, 0;\nst.global.u32 [%d6+2], 1;",
        716,
        "address 0x2 is not a multiple of 4: a null pointer plus 2 bytes",
        102,
    ),
    "global, an unsigned index below 0": (
        "sub.u32 %r5, %r1, 3;\nmul.wide.u32 %d6, %r5, 4;\nadd.u64 %d6, %d2, %d6;\nst.global.u32 [%d6], 1;",
        700,
        "no allocation is near; it is element 4294967293 of argument 1, counted from 0: in: an unsigned index has "
        "become -3, which wraps around",
        104,
    ),
    "global, far away": ("add.u64 %d6, %d2, 8589934588;\nst.global.u32 [%d6], 1;", 700, "no allocation is near\n", 102),
    "global, never written": (USE, 719, "0 bytes into a 400-byte device allocation at 0x", 101),
    "global, never written, atomic": ("atom.global.add.u32 %r5, [%d4], 1;", 719, "and never written", 101),
    "generic, past the end": (
        "ld.u32 %r5, [%d4+400];",
        700,
        "0 bytes past the end of a 400-byte device allocation at 0x",
        101,
    ),
    "generic, never written": (
        USE.replace("ld.global", "ld"),
        719,
        "0 bytes into a 400-byte device allocation at 0x",
        101,
    ),
    "shared, past the end": (
        "st.shared.u32 [%r4+1024], 1;",
        700,
        "shared address 0x400: 0 bytes past the end of the block's 1024 bytes of shared memory",
        101,
    ),
    "shared, before the start": (
        "st.shared.u32 [%r4+-8], 1;",
        700,
        "shared address 0xfffffff8: 8 bytes before the start of the block's 1024 bytes of shared memory",
        101,
    ),
    "shared, generic, past the end": (
        "cvt.u64.u32 %d6, %r4;\ncvta.shared.u64 %d6, %d6;\nst.u32 [%d6+1028], 1;",
        700,
        "shared address 0x404: 4 bytes past the end of the block's 1024 bytes of shared memory",
        103,
    ),
    "shared, misaligned": (
        "st.shared.u32 [%r4+2], 1;",
        716,
        "shared address 0x2 is not a multiple of 4: 2 bytes into the 1024-byte shared variable 'tile'",
        101,
    ),
    "shared, never written": (
        "ld.shared.u32 %r5, [%r4];\nadd.u32 %r5, %r5, 1;\nst.global.u32 [%d5], %r5;",
        719,
        "shared address 0x0 was never written",
        101,
    ),
    "shared, never written, atomic": (
        "setp.ge.u32 %p1, %r1, 32;\n@%p1 st.shared.u32 [%r4+-128], 0;\nred.shared.add.u32 [%r4], 1;",
        719,
        "shared address 0x0 was never written",
        103,
    ),
    "shared, read after write": (
        "st.shared.u32 [%r4], %r1;\nxor.b32 %r6, %r4, 4;\nld.shared.u32 %r5, [%r4];\nst.shared.u32 [%r6], 77;",
        719,
        "which thread (0, 0, 0) wrote at ptx line",
        101,
    ),
    "local, past the end": (
        LOCAL + "st.local.u32 [%d6+64], 1;",
        700,
        "0 bytes past the end of a function's 64 bytes of variables",
        102,
    ),
    "local, before the start": (
        LOCAL + "ld.local.u32 %r5, [%d6+-4];",
        700,
        "4 bytes before the start of a function's 64 bytes of variables",
        102,
    ),
    "local, misaligned": (
        LOCAL + "ld.local.u64 %d7, [%d6+4];",
        716,
        "is not a multiple of 8: 4 bytes into a function's 64 bytes of variables",
        102,
    ),
    "local, never written": (
        LOCAL + "st.local.u32 [%d6+4], 1;\nld.local.u32 %r5, [%d6+8];\nadd.u32 %r5, %r5, 1;\nst.global.u32 [%d5], %r5;",
        719,
        "was never written",
        103,
    ),
    "local, generic, never written": (
        "mov.u64 %d6, own;\ncvta.local.u64 %d6, %d6;\nld.u32 %r5, [%d6+8];\nadd.u32 %r5, %r5, 1;\n"
        "st.global.u32 [%d5], %r5;",
        719,
        "was never written",
        103,
    ),
    "constant, past the end": (
        "mov.u64 %d6, table;\nld.const.u32 %r5, [%d6+32];",
        700,
        "0 bytes past the end of a 32-byte variable allocation '.const table' at 0x",
        102,
    ),
    "constant, misaligned": (
        "mov.u64 %d6, table;\nld.const.u32 %r5, [%d6+1];",
        716,
        "is not a multiple of 4: 1 bytes into a 32-byte variable allocation '.const table' at 0x",
        102,
    ),
    "trap": ("trap;", 719, "trap", 101),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_names_kernel_lines_block_and_thread(name: str) -> None:
    body, code, words, line = MISTAKES[name]
    bench = Bench(body)
    assert bench.run() == code
    report = bench.report
    assert words in report
    assert re.search(
        rf"ptx line \d+ \(kernel\.cu:{line}\), kernel k, block \(0, 0, 0\), thread \(\d+, 0, 0\)$", report
    ), report
    assert re.search(r"address 0x[0-9a-f]+", report) or name == "trap"
    if "device allocation at" in words:
        assert "allocated at " in report and "emulator_client.py" in report


LOOPS = {
    "a loop without end": "L: add.u32 %r5, %r5, 1;\nsetp.ge.u32 %p1, %r5, 0;\n@%p1 bra L;",
    "a flag that nobody sets": (
        "st.global.u32 [%d5], 0;\nL: ld.volatile.global.u32 %r5, [%d5];\nsetp.eq.u32 %p1, %r5, 0;\n@%p1 bra L;"
    ),
}


def test_a_vector_that_begins_inside() -> None:
    bench = Bench("ld.global.v2.u32 {%r5, %r6}, [%d2+400];")
    bench.source = bench.client.allocate(404)
    assert bench.run() == 700
    assert (
        "the last 4 of 8 bytes lie past the end of a 404-byte device allocation at 0x" in bench.report
        and "kernel.cu:101" in bench.report
    )


@pytest.mark.parametrize("name", LOOPS)
def test_an_endless_loop_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module("emulator.ptx.running.lookups").Limits.__init__, "__defaults__", (40_000, 50, 0.0))
    bench = Bench(LOOPS[name])
    assert bench.run() == 702
    assert (
        re.search(r"ptx line \d+ \(kernel\.cu:10[124]\)", bench.report) and "kernel k, block (0, 0, 0)" in bench.report
    ), bench.report
    assert "thread (0, 0, 0)" in bench.report or "64 threads (first: (0, 0, 0))" in bench.report


def test_memory_that_was_given_back_is_named() -> None:
    bench = Bench(USE)
    bench.client.do("cuMemFree_v2", bench.source)
    assert bench.run() == 700
    assert "0 bytes into a 400-byte device allocation" in bench.report and "that was freed" in bench.report
    assert (
        "kernel.cu:101" in bench.report and "thread (0, 0, 0)" in bench.report and "emulator_client.py" in bench.report
    )


@pytest.mark.parametrize("offset, words", [(0, ""), (4, "4 bytes inside a 400-byte device allocation")])
def test_a_wrong_free_is_refused(offset: int, words: str) -> None:
    bench = Bench("ret;")
    if not offset:
        bench.client.do("cuMemFree_v2", bench.source)
    assert bench.client.code("cuMemFree_v2", bench.source + offset) == 1
    assert words in bench.report and f"{bench.source + offset:#x}" in bench.report


# -- races

WRITE = "st.shared.u32 [%r4], %r1;\n"
READ = (
    "xor.b32 %r6, %r1, {lane};\nshl.b32 %r6, %r6, 2;\nadd.u32 %r6, %r6, %r2;\nld.shared.u32 %r5, [%r6];\n"
    "add.u32 %r5, %r5, 1;\nst.global.u32 [%d5], %r5;"
)
ORDERED = {
    "a barrier": (WRITE + "bar.sync 0;\n" + READ.format(lane=32), 0),
    "no barrier": (WRITE + "bar.sync 0;\nst.shared.u32 [%r4], 9;\n" + READ.format(lane=32), 719),
    "a warp's barrier, within the warp": (WRITE + "bar.warp.sync -1;\n" + READ.format(lane=1), 0),
    "a warp's barrier, between warps": (
        WRITE + "bar.sync 0;\nst.shared.u32 [%r4], 9;\nbar.warp.sync -1;\n" + READ.format(lane=32),
        719,
    ),
    "read, then written": (WRITE + "bar.sync 0;\n" + READ.format(lane=1) + "\nst.shared.u32 [%r4], 9;", 719),
    "read, a warp's barrier, written": (
        WRITE + "bar.sync 0;\n" + READ.format(lane=1) + "\nbar.warp.sync -1;\nst.shared.u32 [%r4], 9;",
        0,
    ),
    "read by other warps, a warp's barrier, written": (
        WRITE + "bar.sync 0;\n" + READ.format(lane=32) + "\nbar.warp.sync -1;\nst.shared.u32 [%r4], 9;",
        719,
    ),
    "all write one place": ("st.shared.u32 [tile], %r1;", 719),
    "all write the same": ("st.shared.u32 [tile], 3;", 0),
    "neighbouring bytes": ("add.u32 %r6, %r2, %r1;\nst.shared.u8 [%r6], %r1;", 0),
    "atomics": ("st.volatile.shared.u32 [tile], 0;\nbar.sync 0;\natom.shared.add.u32 %r5, [tile], 1;", 0),
    "volatile, at generic addresses": (
        "cvt.u64.u32 %d6, %r4;\ncvta.shared.u64 %d6, %d6;\nxor.b64 %d7, %d6, 4;\nst.volatile.u32 [%d6], %r1;\n"
        "ld.volatile.u32 %r5, [%d7];\nst.volatile.u32 [%d7], %r5;",
        0,
    ),
    "volatile": (
        "st.volatile.shared.u32 [%r4], %r1;\n" + READ.format(lane=1).replace("ld.shared", "ld.volatile.shared"),
        0,
    ),
}


@pytest.mark.parametrize("name", ORDERED)
def test_races_in_shared_memory(name: str) -> None:
    body, code = ORDERED[name]
    bench = Bench(body)
    assert bench.run() == code, bench.client.emulator.reports
    if code:
        assert (
            re.match(r"racecheck: (read|write) after (read|write) in k\(\), kernel\.cu:", bench.report)
            and "with no barrier in between" in bench.report
            and "kernel.cu:" in bench.report
        )
    elif name == "all write the same":
        assert (
            "the same value" in bench.report
            and "kernel.cu:101" in bench.report
            and len(bench.client.emulator.reports) == 1
        )
    else:
        assert not bench.client.emulator.reports


@pytest.mark.parametrize("executor", ["numpy", "scalar"])
def test_without_racecheck_the_same_pair_is_named(executor: str) -> None:
    for body in [body for body, code in ORDERED.values() if code]:
        plain, checked = Bench(body, executor=executor), Bench(body, checks=["racecheck"])
        assert plain.run() == checked.run() == 719
        assert is_same_pair(plain.report, checked.report), (plain.report, checked.report)


def test_a_compiled_kernel_is_reported_with_the_line_of_its_source() -> None:
    from tests.emulator.emulator_client import Client

    client = Client(strict=True)
    code = (CORPUS / "flow.sm90_lines.ptx").read_bytes()
    function = client.get("cuModuleGetFunction", client.load(code), b"collatz")
    assert client.launch(function, [client.allocate(4), client.upload(bytes(4)), 64], block=(64, 1, 1)) in (0, 719, 700)
    assert client.code("cuCtxSynchronize") in (700, 719)
    report = client.emulator.reports[-1]
    assert re.search(
        r"ptx line \d+ \(.*flow\.cu:\d+\), kernel collatz, block \(0, 0, 0\), thread \(\d+, 0, 0\)", report
    ), report
    assert "4-byte device allocation at 0x" in report and "emulator_client.py" in report


# -- programs without a mistake


def test_what_is_only_moved_may_be_anything() -> None:
    bench = Bench("ld.global.u32 %r5, [%d4];\nmov.b32 %r6, %r5;\nst.global.u32 [%d5], %r6;")
    assert bench.run() == 0 and len(bench.client.download(bench.source, 400)) == 400


def test_what_nobody_wrote_is_only_reported_unless_all_is_strict(capsys: pytest.CaptureFixture[str]) -> None:
    bench = Bench(USE, strict=False)
    assert bench.run() == 0
    assert len(bench.client.emulator.reports) == 1
    assert (
        "and never written" in bench.report and "kernel.cu:101" in bench.report and "thread (0, 0, 0)" in bench.report
    )
    assert bench.run() == 0 and len(bench.client.emulator.reports) == 1  # once for each line of a kernel
    assert capsys.readouterr().err == f"emulator: {bench.report}\n"


SHUFFLES = {
    # a shuffle by the lanes of a mask in a block of some threads: what is reported
    "a lane that is not in the mask": (
        "idx.b32 %r5, %r1, 20, 31", 0xFFFF, 32, "(0, 0, 0)", "20", "is not in the member mask 0xffff"
    ),
    "a lane without a thread": ("idx.b32 %r5, %r1, 20, 31", 0xFFFFFFFF, 18, "(0, 0, 0)", "20", "has no thread"),
    "a segment of eight lanes": (
        "idx.b32 %r5, %r1, 1, 0x181f", 0xF0FF, 32, "(12, 0, 0)", "9", "is not in the member mask 0xf0ff"
    ),
    "each lane the next one": (
        "idx.b32 %r5, %r1, %r9, 31", 0xFFFF, 32, "(15, 0, 0)", "16", "is not in the member mask 0xffff"
    ),
    "the end of a reduction": (
        "down.b32 %r5, %r1, 8, 31", 0xFFFF, 32, "(8, 0, 0)", "16", "is not in the member mask 0xffff"
    ),
    "a butterfly": ("bfly.b32 %r5, %r1, 16, 31", 0xFFFFFFFF, 20, "(4, 0, 0)", "20", "has no thread"),
    "the start of a scan": (
        "up.b32 %r5, %r1, 8, 0", 0xFF00, 32, "(8, 0, 0)", "0", "is not in the member mask 0xff00"
    ),
    "a lane in the mask": ("idx.b32 %r5, %r1, 15, 31", 0xFFFF, 32, "", "", ""),
    "a lane behind the segment": ("idx.b32 %r5, %r1, 20, 15", 0xFFFF, 32, "", "", ""),
}  # fmt: skip


@pytest.mark.parametrize("name", SHUFFLES)
@pytest.mark.parametrize("checks", [["synccheck"], []], ids=["synccheck", "other"])
def test_a_lane_that_takes_no_part_is_reported_if_its_value_is_stored(name: str, checks: list[str]) -> None:
    shuffle, mask, threads, thread, lane, why = SHUFFLES[name]
    bench = Bench(
        f"add.u32 %r9, %r1, 1;\nmov.u32 %r10, {mask};\nshr.u32 %r10, %r10, %r1;\nand.b32 %r10, %r10, 1;\n"
        f"setp.eq.u32 %p1, %r10, 0;\n@%p1 bra END;\nshfl.sync.{shuffle}, {mask};\nst.global.u32 [%d5], %r5;\nEND:",
        checks=checks,
        strict=False,
    )
    assert bench.run(threads) == 0
    words = f"\n    thread {thread} reads the value of lane {lane} of its warp, which {why}: the value is undefined; "
    assert [(report.checker, words in report) for report in bench.client.emulator.reports] == (
        [("synccheck", True)] if why else []
    )


@pytest.mark.parametrize("error", [OSError, ValueError, RuntimeError])
def test_a_stderr_that_fails_does_not_stop_a_kernel(error: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing:
        def write(self, text: str) -> None:
            raise error(text)

    monkeypatch.setattr(sys, "stderr", Failing())
    bench = Bench(USE, strict=False)
    assert bench.run() == 0 and "and never written" in bench.report


@pytest.mark.parametrize("how", ["upload", "fill", "copy", "unchecked", "partly"])
def test_what_was_written_may_be_read(how: str) -> None:
    bench = Bench(USE.replace("ld.global.u32", "ld.global.b32"), **({"checked": False} if how == "unchecked" else {}))
    do = bench.client.do
    if how == "upload":
        do("cuMemcpyHtoD_v2", bench.source, bytes(400), 400)
    elif how == "fill":
        do("cuMemsetD32_v2", bench.source, 7, 100)
    elif how == "copy":
        do("cuMemcpyDtoD_v2", bench.source, bench.client.upload(bytes(400)), 400)
    elif how == "partly":
        for at in range(0, 400, 4):
            do("cuMemsetD8_v2", bench.source + at, 7, 1)
    assert bench.run() == 0


def read_back(bench: Bench, how: str) -> None:
    """Copy 400 bytes to the host."""
    client, target = bench.client, ctypes.create_string_buffer(400)
    host = ctypes.addressof(target)
    if how == "unified":
        client.do("cuMemcpy", host, bench.source, 400)
    elif how == "stream":
        client.do("cuMemcpyDtoHAsync_v2", host, bench.source, 400, 0)
        client.do("cuCtxSynchronize")
    elif how == "rows":
        sides = (0, 0, 2, 0, bench.source, 0, 40, 0, 0, 1, host, 0, 0, 40)
        client.do("cuMemcpy2D_v2", module("emulator.interface.thunks").MEMCPY2D.pack(*sides, 40, 10))
    else:
        client.do("cuMemcpyDtoH_v2", host, bench.source, 400)


@pytest.mark.parametrize(
    "how, call",
    [
        ("plain", "cuMemcpyDtoH_v2"),
        ("unified", "cuMemcpy"),
        ("stream", "cuMemcpyDtoHAsync_v2"),
        ("rows", "cuMemcpy2D_v2"),
    ],
)
def test_a_copy_to_the_host_of_what_nobody_wrote_is_reported_on_demand(
    how: str, call: str, capsys: pytest.CaptureFixture[str]
) -> None:
    bench = Bench(USE, strict=False, checks=["initcheck"])
    reports = bench.client.emulator.reports
    bench.client.do("cuMemsetD8_v2", bench.source, 7, 300)
    for _ in range(2):
        read_back(bench, how)
    (report,) = reports
    assert re.search(
        rf"^initcheck: {call} copies 400 bytes to the host, of which 100 were never written, the first at address "
        r"0x[0-9a-f]+: 300 bytes into a 400-byte device allocation at 0x[0-9a-f]+, allocated at "
        r".*emulator_client.py:\d+; a kernel whose grid is too small, or too small in one dimension, leaves a part "
        r"unwritten; the call is at .*emulator_client.py:\d+$",
        report,
    )
    assert capsys.readouterr().err == f"emulator: {report}\n"
    bench.client.do("cuMemsetD8_v2", bench.source, 7, 400)
    bench.client.emulator._machine.space.told.clear()
    read_back(bench, how)
    assert len(reports) == 1


def test_a_copy_to_the_host_of_what_nobody_wrote_is_not_reported_otherwise() -> None:
    """Without the word, it is told only if nothing of it was written; a copy on the device is never told."""
    bench = Bench(USE, strict=False, checks=["racecheck"])
    bench.client.do("cuMemsetD8_v2", bench.source, 0, 4)
    read_back(bench, "plain")
    assert not bench.client.emulator.reports
    bench = Bench(USE, strict=False, checks=["initcheck"])
    bench.client.do("cuMemcpyDtoD_v2", bench.source, bench.client.allocate(400), 400)  # the target stays unwritten
    assert not bench.client.emulator.reports
    read_back(bench, "plain")
    assert "copies 400 bytes to the host, of which 400 were never written" in bench.report


def test_a_copy_of_unwritten_memory_stays_unwritten() -> None:
    bench = Bench(USE)
    bench.client.do("cuMemcpyDtoD_v2", bench.source, bench.client.allocate(400), 400)
    assert bench.run() == 719 and "never written" in bench.report


# -- memory that pending work on another stream would have written


ORDERS = {
    # name: (the calls, the line that the report of the copy or of the kernel names, or None)
    "a fill on the default stream": (
        """
        x = device.zeros(32, "float32")  # the work
        add.launch(x, y, out, 32, grid=1, block=32, stream=second)
        second.synchronize()
        """,
        "a fill",
    ),
    "a kernel on another stream": (
        """
        x = device.empty(32, "float32")
        add.launch(y, y, x, 32, grid=1, block=32, stream=first)  # the work
        add.launch(x, y, out, 32, grid=1, block=32, stream=second)
        second.synchronize()
        """,
        "add",
    ),
    "a copy on another stream": (
        """
        x = device.empty(32, "float32")
        x.copy_from(y, stream=first)  # the work
        add.launch(x, y, out, 32, grid=1, block=32, stream=second)
        second.synchronize()
        """,
        "a copy",
    ),
    "a result that is read too early": (
        """
        add.launch(y, y, out, 32, grid=1, block=32, stream=first)  # the work
        out.tolist()
        """,
        "add",
    ),
    "work that comes later": (
        """
        x = device.empty(32, "float32")
        add.launch(x, y, out, 32, grid=1, block=32, stream=first)
        second.wait(first)
        add.launch(y, y, x, 32, grid=1, block=32, stream=second)
        first.synchronize()
        """,
        None,
    ),
    "work with other memory": (
        """
        x = device.empty(32, "float32")
        device.zeros(32, "float32")
        add.launch(x, y, out, 32, grid=1, block=32, stream=second)
        second.synchronize()
        """,
        None,
    ),
}


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("name", ORDERS)
def test_a_missing_wait_is_named_where_memory_was_never_written(python: Any, name: str, strict: bool) -> None:
    calls, work = ORDERS[name]
    start = """
        import array
        from tests.driver import kernels
        from tests.subject import rawcuda
        rawcuda.use("emulator", mode="lazy", strict=STRICT)
        device = rawcuda.Device(0)
        add = device.load(kernels.ADD)["add"]
        first, second = device.stream(), device.stream()
        y, out = device.upload(array.array("f", range(32))), device.empty(32, "float32")
    """
    code = start.replace("STRICT", str(strict)) + calls
    result = python(code, env={"RAWCUDA_DRIVER": None, "RAWCUDA_EMULATOR": None})
    assert "never written" in result.stderr, result.stderr
    words = rf"never written.*; {work}, submitted at (\S+) to another stream, may write it and has not run: let this "
    found = re.search(words, result.stderr)
    assert ("submitted" in result.stderr) == (work is not None) == (found is not None), result.stderr
    if found is not None:
        line = int(found[1].rpartition(":")[2])
        assert code.split("\n")[line - 1].endswith("# the work"), (line, result.stderr)


# -- barriers


def test_a_warp_that_parts_before_a_barrier() -> None:
    bench = Bench("setp.lt.u32 %p1, %r1, 7;\n@%p1 bra A;\nbar.sync 0;\nbra B;\nA: bar.sync 0;\nB: mov.u32 %r5, 0;")
    assert bench.run() == 719
    assert re.search(
        r"barrier divergence in k\(\), kernel\.cu:103, (.*\n)*"
        r"    thread \(0, 0, 0\) waits at ptx line \d+ \(kernel.cu:105\), "
        r"and thread \(7, 0, 0\) of the same warp at ptx line \d+ \(kernel.cu:103\)(.*\n)*"
        r".*kernel k, block \(0, 0, 0\)",
        bench.report,
    ), bench.report


@pytest.mark.parametrize(
    "body",
    [
        "setp.lt.u32 %p1, %r1, 32;\n@%p1 bra A;\nbar.sync 0;\nbra B;\nA: bar.sync 0;\nB: mov.u32 %r5, 0;",
        "setp.lt.u32 %p1, %r1, 7;\n@%p1 bra A;\nbarrier.sync 0;\nbra B;\nA: barrier.sync 0;\nB: mov.u32 %r5, 0;",
        "setp.lt.u32 %p1, %r1, 7;\n@%p1 ret;\nbar.sync 0;",
    ],
)
def test_barriers_that_are_no_mistake(body: str) -> None:
    assert Bench(body).run() == 0


def test_a_deadlock_says_who_waits_where() -> None:
    bench = Bench("setp.lt.u32 %p1, %r1, 32;\n@%p1 bra A;\nbar.sync 1;\nA: bar.sync 2, 64;")
    assert bench.run() == 719 and "deadlock" in bench.report and "kernel k, block (0, 0, 0)" in bench.report
    for words in (
        r"32 threads \(first: \(32, 0, 0\)\) at barrier 1, ptx line \d+ \(kernel.cu:103\)",
        r"32 threads \(first: \(0, 0, 0\)\) at barrier 2.*, ptx line \d+ \(kernel.cu:104\)",
    ):
        assert re.search(words, bench.report), bench.report


# -- leaks, peers, frees in a kernel


@pytest.mark.parametrize("ends", ["cuDevicePrimaryCtxReset_v2", "cuDevicePrimaryCtxRelease_v2", "cuCtxDestroy_v2"])
def test_leaks_are_listed_at_the_end_of_a_context(ends: str, capsys: pytest.CaptureFixture[str]) -> None:
    bench = Bench("ret;", leaks=True)
    client, context = bench.client, 0
    if ends == "cuCtxDestroy_v2":
        context = client.get("cuCtxCreate_v2", 0, 0)
        bench.source = client.allocate(400)
    else:
        client.do("cuMemFree_v2", bench.out)
    client.stream()
    client.do("cuMemFreeAsync", client.get("cuMemAllocAsync", 16, 0), 0)  # released: no leak
    client.do(ends, context)
    assert "1 allocations of 400 bytes were left" in bench.report
    assert (
        f"400-byte device allocation at {bench.source:#x}, allocated at" in bench.report
        and "a stream, handle 0x" in bench.report
    )
    assert bench.report in capsys.readouterr().err


def test_no_leak_no_report() -> None:
    from tests.emulator.emulator_client import Client

    client = Client()
    client.do("cuMemFree_v2", client.allocate(100))
    client.do("cuDevicePrimaryCtxRelease_v2", 0)
    assert client.emulator.reports == []


@pytest.mark.parametrize("pool", [False, True])
@pytest.mark.parametrize("enabled", [False, True])
def test_a_kernel_reaches_another_devices_memory_as_a_peer_only(enabled: bool, pool: bool) -> None:
    bench = Bench("st.global.u32 [%d4], 7;", devices=2)
    client = bench.client
    other = client.get("cuDevicePrimaryCtxRetain", 1)
    client.do("cuCtxPushCurrent_v2", other)
    bench.source = client.get("cuMemAllocAsync", 400, 0) if pool else client.allocate(400)
    client.do("cuCtxSetCurrent", client.context)
    if enabled and pool:
        client.do("cuMemPoolSetAccess", client.get("cuDeviceGetMemPool", 1), struct.pack("<iii", 1, 0, 3), 1)
    elif enabled:
        client.do("cuCtxEnablePeerAccess", other, 0)
    assert bench.run() == (0 if enabled else 700)
    if not enabled:
        assert "without peer access" in bench.report and "kernel.cu:101" in bench.report


def test_memory_freed_from_inside_a_kernel_is_freed_at_its_end() -> None:
    bench = Bench(
        "mov.u32 %r5, 0;\nL: add.u32 %r5, %r5, 1;\nsetp.lt.u32 %p1, %r5, 60000;\n@%p1 bra L;", executor="scalar"
    )
    codes: list[int] = []

    def progress(done: int, total: int) -> None:
        codes.append(bench.client.code("cuMemFree_v2", bench.source))

    bench.client.emulator.progress = progress
    assert bench.run() == 0
    assert codes[:2] == [0, 1] or codes == [0], codes
    assert bench.client.emulator.live_handles()["memory"] == 1


# -- random programs of loads, stores and barriers, compared with a model that examines every pair of accesses

Step = "tuple[str, int, int, int]"  # kind; partner (lane ^ partner), width and first byte of an access


def steps_of(pick: random.Random) -> list[Step]:
    """Return a random program: the steps that each thread does in order."""
    made: list[Step] = []
    for _ in range(pick.randint(1, 6)):
        kind = pick.choice(["load", "load", "store", "bar.sync 0", "bar.warp.sync -1"])
        width = pick.choice([4, 4, 2, 1])
        made.append((kind, pick.choice([0, 0, 1, 4, 31, 32, 33, 63]), width, pick.randrange(0, 4, width)))
    return made


def body_of(steps: list[Step]) -> str:
    """Return a program as PTX; each store writes a different value."""
    lines = ["st.shared.u32 [%r4], %r1;\nbar.sync 0;"]
    for number, (kind, partner, width, first) in enumerate(steps, 1):
        place = f"xor.b32 %r6, %r1, {partner};\nshl.b32 %r6, %r6, 2;\nadd.u32 %r6, %r6, %r2;\n"
        if kind == "load":
            lines.append(f"{place}ld.shared.u{8 * width} %r7, [%r6+{first}];\nadd.u32 %r7, %r7, 1;")
        elif kind == "store":
            lines.append(f"{place}add.u32 %r8, %r1, {64 + 16 * number};\nst.shared.u{8 * width} [%r6+{first}], %r8;")
        else:
            lines.append(f"{kind};")
    return "\n".join(lines)


def races(steps: list[Step]) -> bool:
    """Tell whether two threads access one byte, at least one of them writing, without synchronization in between."""
    met: dict[int, list[tuple[int, str, int, int]]] = {}
    block = warp = 0
    for kind, partner, width, first in steps:
        block += kind.startswith("bar.sync")
        warp += kind.startswith("bar")
        if not kind.startswith("bar"):
            for t in range(64):
                for byte in range(first, first + width):
                    met.setdefault(4 * (t ^ partner) + byte, []).append((t, kind, block, warp))
    return any(
        a[0] != b[0] and "store" in (a[1], b[1]) and a[2] == b[2] and (a[0] // 32 != b[0] // 32 or a[3] == b[3])
        for each in met.values()
        for a, b in itertools.combinations(each, 2)
    )


def test_races_of_random_programs() -> None:
    from tests.emulator.emulator_client import Client

    found = 0
    for seed in range(40):
        steps = steps_of(random.Random(seed))
        client = Client()
        function = client.get("cuModuleGetFunction", client.load(text(body_of(steps))), b"k")
        code = client.launch(function, [0, 0], block=(64, 1, 1)) or client.code("cuCtxSynchronize")
        assert code == (719 if races(steps) else 0), (seed, steps, client.emulator.reports)
        assert not code or client.emulator.reports[-1].startswith("racecheck: ")
        found += code == 719
    assert 5 < found < 35


@pytest.mark.parametrize("mode", ["eager", "lazy"])
def test_a_report_names_the_line_that_launched_the_kernel(mode: str) -> None:
    """Even if the kernel runs later, in a call that waits."""
    bench = Bench("ld.global.u32 %r5, [%d4+400];", mode=mode)
    code = bench.client.launch(bench.function, [bench.out, bench.source], grid=(1, 1, 1), block=(64, 1, 1))
    assert (code or bench.client.code("cuCtxSynchronize")) == 700
    place = r"\n    launched at .*emulator_client\.py:\d+ \| .*\n    ptx line \d+ \| ld\.global\.u32 (.*\n)*    at ptx"
    assert re.search(place, bench.report), bench.report
