"""A read of memory that was never written, and that another thread of the launch writes later, is told as a race.

The thread that reads lets the others of its block go first, so the values are those of threads that advance together.
"""

from __future__ import annotations

import re
import struct
from typing import Any

import pytest

from tests.emulator.emulator_client import Client
from tests.emulator.ptx_client import kernel

pytestmark = pytest.mark.once
BOTH = ".param .u64 out, .param .u64 in"
# [%d1]: the memory that was never written, [%d2]: the place of the thread there, [%d3]: the one of its result,
# %r1: its number, %r2: the number of threads
START = """
    ld.param.u64 %d1, [in]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %ctaid.x;
    mad.lo.u32 %r1, %r3, %r2, %r1; mov.u32 %r3, %nctaid.x; mul.lo.u32 %r2, %r2, %r3;
    mul.wide.u32 %d4, %r1, 4; add.u64 %d2, %d1, %d4; add.u64 %d3, %out, %d4;
    add.u32 %r4, %r1, 1; rem.u32 %r4, %r4, %r2; mul.wide.u32 %d4, %r4, 4; add.u64 %d4, %d1, %d4;
"""
WRITE, NEXT = "st.global.u32 [%d2], %r1;", "ld.global.u32 %r5, [%d4];"
ADD, PUT = "add.u32 %r5, %r5, 5;", "st.global.u32 [%d3], %r5;"
FIRST_ADDS_ALL = """
    setp.ne.u32 %p1, %r1, 0; @%p1 bra X;
    mov.u32 %r6, 0; mov.u32 %r7, 0;
L:  mul.wide.u32 %d5, %r6, 4; add.u64 %d5, %d1, %d5; ld.global.u32 %r5, [%d5]; add.u32 %r7, %r7, %r5;
    add.u32 %r6, %r6, 1; setp.lt.u32 %p2, %r6, %r2; @%p2 bra L;
    st.global.u32 [%out], %r7;
X:
"""
RACE = (
    r"racecheck: write after read in (?:.*\n)*"
    r"    {} writes address 0x\w+: .* which thread \((\d+), 0, 0\) read at ptx line \d+"
)
NEAR = "a barrier is missing between them, __syncthreads(), or __syncwarp() if all who take part are in one warp"


def run(body: str, *, grid: int = 1, block: int = 32, **options: Any) -> tuple[int, list[int], list[str]]:
    """Run a kernel; return the result, the values and the reports."""
    client = Client(**{"executor": "scalar", **options})
    function = client.get("cuModuleGetFunction", client.load(kernel(START + body, BOTH)), b"k")
    count = grid * block
    out, unwritten = client.upload(bytes(4 * count)), client.allocate(4 * count)
    code = client.launch(function, [out, unwritten], grid=(grid, 1, 1), block=(block, 1, 1))
    code = code or client.code("cuCtxSynchronize")
    values = [] if code else list(struct.unpack(f"<{count}I", client.download(out, 4 * count)))
    return code, values, client.emulator.reports


WAITS = ["", "bar.warp.sync -1;"]


@pytest.mark.parametrize("waits", WAITS, ids=["plain", "waiting"])
@pytest.mark.parametrize("block", [32, 256])
def test_one_thread_uses_what_all_write(block: int, waits: str) -> None:
    """The sum is that of threads that advance together, and the report names both threads."""
    text = waits + WRITE + FIRST_ADDS_ALL
    code, values, reports = run(text, block=block)
    assert (code, values[0]) == (0, sum(range(block)))
    assert values == run(text, block=block, executor="numpy")[1]
    (report,) = reports
    found = re.match(RACE.format(r"thread \(1, 0, 0\)"), report)
    assert found and found[1] == "0" and NEAR in report, report
    assert report.endswith("kernel k, block (0, 0, 0), thread (0, 0, 0)"), report


@pytest.mark.parametrize("waits", WAITS, ids=["plain", "waiting"])
@pytest.mark.parametrize("block", [8, 32, 64, 256])
def test_neighbours(block: int, waits: str) -> None:
    """The first race is reported, and up to 33 threads in a row have the values of threads that advance together."""
    code, values, (report,) = run(waits + WRITE + NEXT + ADD + PUT, block=block)
    found = re.match(RACE.format(r"thread \(1, 0, 0\)"), report)
    assert code == 0 and found and found[1] == "0", report
    if block <= 33:
        assert values == [(t + 1) % block + 5 for t in range(block)]


def test_the_words_for_threads_of_different_warps() -> None:
    body = WRITE + "add.u64 %d4, %d1, 128; " + NEXT + ADD + PUT
    _, _, (report,) = run(body, block=64)
    assert re.match(RACE.format(r"thread \(32, 0, 0\)"), report) and "them, __syncthreads()" in report, report


@pytest.mark.parametrize("body", [WRITE + FIRST_ADDS_ALL, WRITE + NEXT + ADD + PUT], ids=["sum", "neighbours"])
@pytest.mark.parametrize("block", [32, 256])
@pytest.mark.parametrize("waits", WAITS, ids=["plain", "waiting"])
def test_the_same_pair_as_with_racecheck(body: str, block: int, waits: str) -> None:
    def pair(report: str) -> list[list[str]]:
        text = next(line for line in report.split("\n") if " writes address " in line)
        return [
            re.findall(pattern, text)
            for pattern in (r"thread (\(\d+, \d+, \d+\))", r"address (0x\w+)", r"ptx line \d+")
        ]

    found = []
    for options in ({}, {"strict": True}, {"checks": ("racecheck",)}):
        code, _, reports = run(waits + body, block=block, **options)
        assert bool(code) == bool(options)
        found.append(pair(reports[-1]))
    assert found[0] == found[1] == found[2] and len(found[0][0]) == 2


def test_what_a_later_block_writes() -> None:
    """Nothing orders the blocks of this kernel, but an atomic or a fence may."""
    code, _, (report,) = run(NEXT + ADD + PUT + "bar.sync 0;" + WRITE, grid=3, block=1)
    found = re.match(RACE.format(r"thread \(0, 0, 0\) of block \(1, 0, 0\)"), report)
    assert code == 0 and found and found[1] == "0" and "nothing orders the two blocks" in report, report
    for orders in ("membar.gl;", "atom.global.add.u32 %r9, [%out], 0;", "ld.volatile.global.u32 %r9, [%out];"):
        code, _, (report,) = run(NEXT + ADD + PUT + orders + WRITE, grid=3, block=1)
        assert code == 0 and "and never written" in report and "racecheck" not in report, report


def test_the_same_thread_writes_later() -> None:
    """That is no race: what the thread reads was never written. The report names the first thread."""
    for body in (
        NEXT.replace("%d4", "%d2") + ADD + "\n" + PUT + WRITE,
        NEXT.replace("%d4", "%d2") + ADD + "bar.sync 0;\n" + PUT + WRITE,
    ):
        for options in ({}, {"strict": True}):
            code, _, (report,) = run(body, grid=2, block=64, **options)
            assert "and never written; the value reaches a store" in report, report
            assert report.endswith("block (0, 0, 0), thread (0, 0, 0)"), report


SILENT = {
    "a barrier between them": WRITE + "bar.sync 0;" + FIRST_ADDS_ALL,
    "a barrier between neighbours": WRITE + "bar.sync 0;" + NEXT + ADD + PUT,
    "a value that is dropped": NEXT + "setp.eq.u32 %p1, %r1, 999; selp.u32 %r5, %r5, 3, %p1;" + PUT + WRITE,
    "what is only copied": "add.u64 %d4, %d4, 0;" + NEXT.replace("%d4", "%d2") + PUT + WRITE,
    "its own element": WRITE + NEXT.replace("%d4", "%d2") + ADD + PUT,
}


@pytest.mark.parametrize("executor", ["scalar", "numpy"])
@pytest.mark.parametrize("name", SILENT)
def test_correct_kernels_are_silent(name: str, executor: str) -> None:
    for block in (32, 256):
        code, _, reports = run(SILENT[name], block=block, executor=executor, strict=True)
        assert (code, reports) == (0, []), name


def test_a_write_after_a_barrier_is_no_race() -> None:
    """The barrier orders it, so the memory was not written when it was read."""
    code, _, (report,) = run(NEXT + ADD + PUT + "bar.sync 0;" + WRITE, block=64)
    assert code == 0 and "and never written" in report and "racecheck" not in report, report


def test_a_wait_for_a_flag_is_no_race() -> None:
    """A strong read lets no other threads go first: they may have waited for it."""
    body = "ld.volatile.global.u32 %r5, [%d4];" + ADD + PUT + WRITE
    code, _, (report,) = run(body, block=64)
    assert code == 0 and "and never written" in report and "racecheck" not in report, report


def test_an_error_of_a_thread_that_goes_first_names_its_own_place() -> None:
    body = (
        WRITE + "setp.eq.u32 %p3, %r1, 3; @%p3 bra Y;" + NEXT + ADD + PUT + "bra Z;\nY: st.global.u32 [%d2+8192], 1; Z:"
    )
    code, _, reports = run(body, block=64)
    assert code == 700 and "called from" not in reports[-1] and "thread (3, 0, 0)" in reports[-1], reports[-1]
    assert "st.global.u32 [%d2+8192], 1;" in reports[-1]
