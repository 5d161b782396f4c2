"""Threads that synchronize: warps, barriers, atomics, waiting loops, grids; and the errors if they do not."""

from __future__ import annotations

import gc
import random
import struct

import pytest

from tests.emulator.ptx_client import DATA, EXECUTOR, HEAD, Fault, Machine, kernel, ptx, space

pytestmark = pytest.mark.once  # with other Pythons and modes, they would show the same

BUILDS = pytest.mark.parametrize("here", ["sm75", "sm90"], indirect=True)


@pytest.fixture(scope="module")
def here(request: pytest.FixtureRequest) -> Machine:
    """The kernels of one build of together.cu."""
    return Machine((DATA / f"together.{request.param}.ptx").read_text())


@BUILDS
class TestCompiled:
    def test_block_sum(self, here: Machine) -> None:
        values = [float(i % 13) for i in range(1000)]
        out = here.buffer("f", 3)
        here.run("block_sum", here.buffer("f", values), out, 1000, grid=3, block=128)
        assert sum(out.values()) == sum(values) and all(out.values())

    def test_warp_scan(self, here: Machine) -> None:
        values = [(i * 7) % 11 for i in range(64)]
        out = here.buffer("i", 64)
        here.run("scan_warp", here.buffer("i", values), out, block=64)
        assert out.values() == [sum(values[i // 32 * 32 : i + 1]) for i in range(64)]

    def test_votes(self, here: Machine) -> None:
        values = [random.Random(i).randrange(99) for i in range(64)]
        out = here.buffer("I", 256)
        here.run("votes", here.buffer("i", values), out, block=64)
        for t in range(64):
            warp = values[t // 32 * 32 : t // 32 * 32 + 32]
            ballot = sum((v & 1) << lane for lane, v in enumerate(warp))
            assert out.values()[t * 4] == ballot
            assert out.values()[t * 4 + 1] == any(v > 90 for v in warp) | 2
            assert out.values()[t * 4 + 2] == sum((v & 3 == values[t] & 3) << lane for lane, v in enumerate(warp))
            assert out.values()[t * 4 + 3] == (0xAAAAAAAA if t & 1 else bin(ballot).count("1"))

    def test_histogram(self, here: Machine) -> None:
        values = [random.Random(5).randrange(256) for _ in range(500)]
        bins = here.buffer("I", [0] * 16)
        here.run("histogram", here.buffer("B", values), bins, 500, grid=2, block=64)
        assert bins.values() == [sum(v & 15 == k for v in values) for k in range(16)]

    def test_atomics(self, here: Machine) -> None:
        n = 32
        s = here.buffer("i", [0, 0, 1000, -1000, -1, 0, 0, -7] + [0] * n)
        u, w = here.buffer("I", [0, 0, 10**9, 0, 0]), here.buffer("Q", [0, 0, 0])
        f, d = here.buffer("f", [0.0]), here.buffer("d", [0.5])
        here.run("atomics", s, u, w, f, d, block=n)
        got = s.values()
        xor = 0
        for i in range(n):
            xor ^= i
        assert got[:8] == [496, -496, -26, 26, 0, -1, xor, 31] and got[8:] == [-7, *range(31)]
        assert u.values() == [32 % 21, (20 - (n - 1)) % 21, 0, 31 * 77, 32]
        assert w.values() == [2**32 - 1, 31 << 33, 32]
        assert f.values() == [248.0] and d.values() == [496.5]

    def test_loops_that_differ_between_threads(self, here: Machine) -> None:
        def steps(x: int) -> int:
            count = 0
            while x != 1:
                x = 3 * x + 1 if x & 1 else x >> 1
                count += 1
            return count

        out = here.buffer("I", 70)
        here.run("collatz", here.buffer("I", list(range(1, 71))), out, 70, grid=3, block=32)
        assert out.values() == [steps(x) for x in range(1, 71)]

    def test_switches_and_jumps_out_of_loops(self, here: Machine) -> None:
        def reference(i: int, n: int) -> int:
            v = 0
            for k in range(n):
                case = (k + i) % 7
                if case == 0:
                    v += 3
                elif case == 1:
                    v ^= 0x55
                    continue
                elif case in (2, 3):
                    v = ((v - k if case == 2 else v) * 3 + 2**31) % 2**32 - 2**31
                elif case == 4:
                    if v > 100000:
                        return int(v / 10)
                elif case == 5:
                    for j in range(3):
                        if j == k:
                            break
                        v += j
                else:
                    v = -v
                v += 1
            return v

        given = [(i * 5) % 40 for i in range(32)]
        out = here.buffer("i", 32)
        here.run("switches", here.buffer("i", given), out, 32, block=32)
        assert out.values() == [reference(i, n) for i, n in enumerate(given)]

    def test_a_spin_lock_lets_others_run(self, here: Machine) -> None:
        lock, count = here.buffer("i", [0]), here.buffer("i", [0])
        here.run("spin_lock", lock, count, grid=3, block=40)
        assert count.values() == [120] and lock.values() == [0]

    def test_a_block_may_wait_for_a_later_one(self, here: Machine) -> None:
        flag, out = here.buffer("i", [0]), here.buffer("i", [0] * 8)
        here.run("hand_over", flag, out, grid=2, block=8)
        assert out.values() == [17] * 8

    def test_waiting_for_nobody_ends(self, here: Machine) -> None:
        flag, out = here.buffer("i", [0]), here.buffer("i", [0] * 8)
        with pytest.raises(Fault, match="waits in a loop") as caught:
            here.run("hand_over", flag, out, grid=1, block=8, limits=ptx.Limits(rounds=50, seconds=0))
        assert caught.value.code == 702

    def test_grid_barrier(self, here: Machine) -> None:
        data = here.buffer("i", list(range(20)))
        here.run("grid_wide", data, 20, grid=3, block=8, cooperative=True)
        assert data.values() == [i + 1 + (20 - i) * 10 for i in range(20)]

    def test_only_a_cooperative_launch_has_a_grid_barrier(self, here: Machine) -> None:
        data = here.buffer("i", list(range(20)))
        with pytest.raises(Fault, match=r"trap instruction.* with cooperative=True") as caught:
            here.run("grid_wide", data, 20, grid=3, block=8)
        assert caught.value.code == 719

    def test_tiles(self, here: Machine) -> None:
        out = here.buffer("i", 32)
        here.run("tiles", out, block=32)
        assert out.values() == [sum(range(t // 8 * 8, t // 8 * 8 + 8)) + (t // 8 == 1) for t in range(32)]

    def test_a_missing_barrier_gives_wrong_numbers_every_time(self, here: Machine) -> None:
        here.space.executor = "scalar"  # arrays run the threads in step: the checker finds it there
        out = here.buffer("i", 64)
        here.run("missing_barrier", out, block=64)
        right = list(range(63, -1, -1))
        here.space.executor = EXECUTOR
        assert out.values()[32:] == right[32:] and out.values()[:32] != right[:32]

    def test_a_barrier_that_some_never_reach_is_reported(self, here: Machine) -> None:
        out = here.buffer("i", 64)
        with pytest.raises(
            Fault,
            match=r"deadlock in (.*\n)*.*16 threads \(first: \(0, 0, 0\)\) at barrier 1 for 64 threads"
            r".*48 threads have ended",
        ) as caught:
            here.run("half_a_barrier", out, block=64)
        assert caught.value.code == 719


# -- kernels written by hand

WARP = """
    mov.u32 %r1, %laneid;
    mul.lo.u32 %r2, %r1, 3;
    {operation}
    mul.wide.u32 %d1, %r1, 8;
    add.u64 %d2, %out, %d1;
    selp.u32 %r9, 1, 0, %p1;
    st.global.v2.u32 [%d2], {{%r3, %r9}};
"""


def shuffle(mode: str, lane: int, b: int, c: int) -> tuple[int, bool]:
    """Return the result by the pseudocode of the PTX ISA."""
    bval, cval, mask = b & 31, c & 31, c >> 8 & 31
    max_lane, min_lane = (lane & mask) | (cval & ~mask), lane & mask
    if mode == "up":
        j, valid = lane - bval, lane - bval >= max_lane
    elif mode == "down":
        j, valid = lane + bval, lane + bval <= max_lane
    elif mode == "bfly":
        j, valid = lane ^ bval, (lane ^ bval) <= max_lane
    else:
        j = min_lane | (bval & ~mask)
        valid = j <= max_lane
    return (j if valid else lane), valid


@pytest.mark.parametrize("mode", ["up", "down", "bfly", "idx"])
@pytest.mark.parametrize("c", [0, 31, 0x1F1F, 0x181F, 0x1C00, 0x100F])
@pytest.mark.parametrize("b", [0, 1, 5, 16, 31])
def test_shuffle(mode: str, b: int, c: int) -> None:
    here = Machine(kernel(WARP.format(operation=f"shfl.sync.{mode}.b32 %r3|%p1, %r2, {b}, {c}, -1;")))
    out = here.buffer("I", 64)
    here.run("k", out, block=32)
    want = [shuffle(mode, lane, b, c) for lane in range(32)]
    assert out.values() == [number for source, valid in want for number in (source * 3, int(valid))]


@pytest.mark.parametrize(
    "operation,expected",
    [
        (
            "setp.gt.u32 %p2, %r1, 9; vote.sync.ballot.b32 %r3, %p2, 0xffffffff; setp.ne.u32 %p1, %r3, 0;",
            lambda t: (0xFFFFFC00, 1),
        ),
        ("setp.gt.u32 %p2, %r1, 9; mov.u32 %r3, 5; vote.sync.uni.pred %p1, %p2, -1;", lambda t: (5, 0)),
        ("setp.lt.u32 %p2, %r1, 99; mov.u32 %r3, 5; vote.sync.all.pred %p1, %p2, -1;", lambda t: (5, 1)),
        ("setp.eq.u32 %p2, %r1, 9; mov.u32 %r3, 5; vote.sync.any.pred %p1, !%p2, -1;", lambda t: (5, 1)),
        (
            "shr.u32 %r4, %r1, 2; match.any.sync.b32 %r3, %r4, -1; setp.eq.u32 %p1, 0, 0;",
            lambda t: (15 << t // 4 * 4, 1),
        ),
        ("mov.u32 %r4, 7; match.all.sync.b32 %r3|%p1, %r4, -1;", lambda t: (0xFFFFFFFF, 1)),
        ("match.all.sync.b32 %r3|%p1, %r1, -1;", lambda t: (0, 0)),
        ("activemask.b32 %r3; setp.eq.u32 %p1, 0, 0;", lambda t: (0xFFFFFFFF, 1)),
        ("bar.warp.sync 0xffffffff; mov.u32 %r3, 1; setp.eq.u32 %p1, 0, 1;", lambda t: (1, 0)),
        (
            "setp.lt.u32 %p1, %r1, 8; mov.u32 %r3, 0; @%p1 shfl.sync.idx.b32 %r3, %r2, 7, 31, 0xff;",
            lambda t: (21 * (t < 8), t < 8),
        ),
    ],
)
def test_votes_and_matches(operation: str, expected: object) -> None:
    here = Machine(kernel(WARP.format(operation=operation)))
    out = here.buffer("I", 64)
    here.run("k", out, block=32)
    assert out.values() == [int(number) for t in range(32) for number in expected(t)]  # type: ignore[operator]


@pytest.mark.parametrize(
    "operation,want", [("add.u32", 496 * 3), ("min.u32", 0), ("max.s32", 93), ("xor.b32", 32), ("or.b32", 127)]
)
def test_reductions_of_a_warp(operation: str, want: int) -> None:
    head = ".version 7.8\n.target sm_80\n.address_size 64\n"
    text = WARP.format(operation=f"redux.sync.{operation} %r3, %r2, -1; setp.eq.u32 %p1, 0, 0;")
    here = Machine(kernel(text, head=head))
    out = here.buffer("I", 64)
    here.run("k", out, block=32)
    assert out.values()[::2] == [want] * 32


def test_elect() -> None:
    head = ".version 8.0\n.target sm_90\n.address_size 64\n"
    here = Machine(kernel(WARP.format(operation="elect.sync %r3|%p1, -1;"), head=head))
    out = here.buffer("I", 64)
    here.run("k", out, block=32)
    assert out.values() == [number for t in range(32) for number in (0, int(t == 0))]


def test_shuffle_without_sync_serves_those_who_are_there() -> None:
    head = ".version 6.0\n.target sm_50\n.address_size 64\n"
    here = Machine(kernel(WARP.format(operation="shfl.bfly.b32 %r3|%p1, %r2, 1, 31;"), head=head))
    out = here.buffer("I", 64)
    here.run("k", out, block=32)
    assert out.values()[::2] == [(t ^ 1) * 3 for t in range(32)]


def test_a_thread_outside_the_mask_it_gives_is_reported() -> None:
    here = Machine(kernel(WARP.format(operation="shfl.sync.idx.b32 %r3|%p1, %r2, 0, 31, 1;")))
    with pytest.raises(Fault, match="thread 1 is not in the member mask 0x1"):
        here.run("k", here.buffer("I", 64), block=32)


def test_a_warp_that_waits_for_a_lane_elsewhere_is_reported() -> None:
    body = """
    mov.u32 %r1, %laneid;
    setp.eq.u32 %p1, %r1, 3;
    @%p1 bar.sync 2, 32;
    vote.sync.ballot.b32 %r3, %p1, -1;
"""
    here = Machine(kernel(body))
    with pytest.raises(
        Fault,
        match=r"deadlock in (.*\n)*.*31 threads \(first: \(0, 0, 0\)\) at vote.ballot with member mask 0xffffffff, "
        r"ptx line \d+; 1 threads",
    ):
        here.run("k", here.buffer("I", 1), block=32)


def test_a_divergent_warp_can_still_shuffle_within_masks() -> None:
    """With independent thread scheduling, each half of the warp waits for itself."""
    body = """
    mov.u32 %r1, %laneid;
    setp.lt.u32 %p1, %r1, 16;
    @%p1 bra LOW;
    shfl.sync.idx.b32 %r2, %r1, 31, 31, 0xffff0000;
    bra DONE;
LOW:
    shfl.sync.idx.b32 %r2, %r1, 3, 31, 0x0000ffff;
DONE:
    mul.wide.u32 %d1, %r1, 4;
    add.u64 %d2, %out, %d1;
    st.global.u32 [%d2], %r2;
"""
    here = Machine(kernel(body))
    out = here.buffer("I", 32)
    here.run("k", out, block=32)
    assert out.values() == [3] * 16 + [31] * 16


@pytest.mark.parametrize(
    "verb,want", [("popc.u32 %r3, 0, %p1", 21), ("and.pred %p2, 0, %p1", 0), ("or.pred %p2, 0, %p1", 1)]
)
def test_barrier_reductions(verb: str, want: int) -> None:
    result = "" if "popc" in verb else "selp.u32 %r3, 1, 0, %p2;"
    body = f"""
    mov.u32 %r1, %tid.x;
    setp.lt.u32 %p1, %r1, 21;
    bar.red.{verb};
    {result}
    mul.wide.u32 %d1, %r1, 4;
    add.u64 %d2, %out, %d1;
    st.global.u32 [%d2], %r3;
"""
    here = Machine(kernel(body))
    out = here.buffer("I", 40)
    here.run("k", out, block=40)
    assert out.values() == [want] * 40


ARRIVING = """
    .shared .align 4 .b8 kept[128]; mov.u32 %r1, %tid.x; setp.ge.u32 %p1, %r1, 32; shl.b32 %r2, %r1, 2;
    ARRIVE
    @%p1 bra SECOND;
    bar.sync 1, 64; ld.shared.u32 %r4, [%r2]; st.global.u32 [%out], %r4; ret;
SECOND:
    bar.sync 2, 32; mov.u32 %r3, 7; st.shared.u32 [%r2+-128], %r3; bar.sync 1, 64;
"""


def test_a_phase_is_complete_without_threads_that_wait() -> None:
    """64 threads arrive, which is a phase; the barrier begins another one."""
    arrive = "bar.arrive 1, 64; bar.sync 3, 64;"
    here = Machine(kernel(ARRIVING.replace("ARRIVE", arrive)))
    out = here.buffer("I", [0])
    here.run("k", out, block=64)
    assert out.values() == [7]


def test_threads_that_arrive_for_the_next_phase_are_counted() -> None:
    """The arrivals of a warp and its wait are a phase; those of the other warp belong to the next one."""
    here = Machine(kernel(ARRIVING.replace("ARRIVE", "bar.arrive 1, 64;")), executor="scalar")
    here.run("k", here.buffer("I", [0]), block=64)


def test_arriving_is_not_waiting() -> None:
    """Producers arrive and continue; consumers wait for all 64."""
    body = """
    .shared .align 4 .b8 kept[256];
    mov.u32 %r1, %tid.x;
    mov.u32 %r5, kept;
    setp.lt.u32 %p1, %r1, 32;
    shl.b32 %r2, %r1, 2;
    add.u32 %r3, %r5, %r2;
    @%p1 bra CONSUME;
    st.shared.u32 [%r3+-128], %r1;
    bar.arrive 3, 64;
    bra DONE;
CONSUME:
    bar.sync 3, 64;
    ld.shared.u32 %r4, [%r3];
    mul.wide.u32 %d1, %r1, 4;
    add.u64 %d2, %out, %d1;
    st.global.u32 [%d2], %r4;
DONE:
"""
    here = Machine(kernel(body))
    out = here.buffer("I", 32)
    here.run("k", out, block=64)
    assert out.values() == list(range(32, 64))


def test_threads_that_ended_do_not_hold_a_barrier_up() -> None:
    body = """
    mov.u32 %r1, %tid.x;
    setp.gt.u32 %p1, %r1, 4;
    @%p1 exit;
    bar.sync 0;
    mul.wide.u32 %d1, %r1, 4;
    add.u64 %d2, %out, %d1;
    st.global.u32 [%d2], %r1;
"""
    here = Machine(kernel(body))
    out = here.buffer("I", [9] * 8)
    here.run("k", out, block=8)
    assert out.values() == [0, 1, 2, 3, 4, 9, 9, 9]


def test_a_barrier_in_a_function_that_is_called() -> None:
    before = """
.shared .align 4 .b8 kept[64];
.func (.param .b32 result) exchange(.param .b32 mine)
{
    .reg .b32 %r<8>;
    ld.param.u32 %r1, [mine];
    mov.u32 %r2, %tid.x;
    shl.b32 %r3, %r2, 2;
    mov.u32 %r4, kept;
    add.u32 %r5, %r4, %r3;
    st.shared.u32 [%r5], %r1;
    bar.sync 0;
    xor.b32 %r3, %r3, 4;
    add.u32 %r5, %r4, %r3;
    ld.shared.u32 %r6, [%r5];
    st.param.b32 [result], %r6;
    ret;
}
"""
    body = """
    mov.u32 %r1, %tid.x;
    mad.lo.u32 %r2, %r1, 10, 1;
    {
    .param .b32 a; .param .b32 b;
    st.param.b32 [a], %r2;
    call.uni (b), exchange, (a);
    ld.param.b32 %r3, [b];
    }
    mul.wide.u32 %d1, %r1, 4;
    add.u64 %d2, %out, %d1;
    st.global.u32 [%d2], %r3;
"""
    here = Machine(kernel(body, before=before))
    out = here.buffer("I", 16)
    here.run("k", out, block=16)
    assert out.values() == [(t ^ 1) * 10 + 1 for t in range(16)]
    assert here.code.entries["k"].static_shared == 64


def test_an_endless_loop_is_ended() -> None:
    here = Machine(kernel("L: add.u32 %r1, %r1, 1;\n bra L;"))
    with pytest.raises(
        Fault, match=r"this thread does not end\n(.*\n)*.*ptx line \d+, kernel k, block \(0, 0, 0\), thread \(0, 0, 0\)"
    ) as caught:
        here.run("k", here.buffer("I", 1), grid=2, block=1, limits=ptx.Limits(turns=10**5))
    assert caught.value.code == 702


def test_long_loops_of_many_threads_are_not_endless() -> None:
    body = """
    mov.u32 %r1, 0;
L:  add.u32 %r1, %r1, 1;
    setp.lt.u32 %p1, %r1, 1500;
    @%p1 bra L;
    st.global.u32 [%out], %r1;
"""
    here = Machine(kernel(body))
    out = here.buffer("I", 1)
    here.run("k", out, block=64, limits=ptx.Limits(turns=40_000))
    assert out.values() == [1500]


def test_progress_is_told_now_and_then() -> None:
    seen: list[tuple[int, int]] = []
    here = Machine(
        kernel("mov.u32 %r1, 0;\nL: add.u32 %r1, %r1, 1;\n setp.lt.u32 %p1, %r1, 60000;\n @%p1 bra L;"),
        executor="scalar",
    )
    here.run("k", here.buffer("I", 1), grid=60, block=1, progress=lambda done, total: seen.append((done, total)))
    assert seen and all(total == 60 and 0 <= done <= 60 for done, total in seen) and len(seen) < 60
    assert seen == sorted(seen)


@pytest.mark.parametrize(
    "read, asked",
    [
        ("", 0),  # only the write needs no stamps
        ("ld.shared.u32 %r4, [%r2];", 1),  # after the barrier
        ("@%p1 ld.shared.u32 %r4, [%r2];", 1),  # in a branch after the barrier
        ("shfl.sync.bfly.b32 %r4, %r1, 2, 31, -1; ld.shared.u32 %r4, [%r2];", 1),  # after the last shuffle
        (
            "L: ld.shared.u32 %r4, [%r2]; shfl.sync.bfly.b32 %r4, %r1, 2, 31, -1; @%p1 bra L;",
            2,
        ),  # again in a loop
        ("@%p1 bar.warp.sync -1; ld.shared.u32 %r4, [%r2];", 2),  # some threads meet once more
    ],
)
def test_the_stamps_of_reads_are_asked_for_where_a_read_follows(read: str, asked: int) -> None:
    body = f"""
    .shared .align 4 .b8 tile[128];
    mov.u32 %r1, %tid.x; shl.b32 %r2, %r1, 2; mov.u32 %r3, tile; add.u32 %r2, %r2, %r3;
    setp.gt.u32 %p1, %r1, 99;
    shfl.sync.bfly.b32 %r5, %r1, 1, 31, -1;
    shfl.sync.bfly.b32 %r5, %r5, 2, 31, -1;
    st.shared.u32 [%r2], %r5;
    bar.sync 0;
    {read}
    """
    code = ptx.load(kernel(body).encode(), space.Space(watch=True))
    assert code.source.count("mine = watch_mine()") == asked
    code.entries["k"].run((1, 1, 1), (32, 1, 1), 0, bytes(8))


@pytest.mark.parametrize("build", ["sm75", "sm90"])
def test_a_launch_leaves_nothing_for_the_garbage_collector(build: str) -> None:
    around = space.Space(watch=True)
    entry = ptx.load((DATA / f"together.{build}.ptx").read_bytes(), around).entries["block_sum"]
    values, out = around.allocate(400), around.allocate(12)
    values.data[:] = bytes(400)
    values.wrote(0, 400)
    parameters = struct.pack("<QQi", values.base, out.base, 100)
    entry.run((3, 1, 1), (64, 1, 1), 0, parameters)
    gc.collect()
    gc.disable()
    try:
        entry.run((3, 1, 1), (64, 1, 1), 0, parameters)
        assert gc.collect() == 0
    finally:
        gc.enable()


# -- blocks that wait for each other

SET = "membar.gl; st.volatile.global.u32 [%out], 5;"
WAITS = {
    "a volatile flag": "W: ld.volatile.global.u32 %r9, [%out]; setp.eq.u32 %p3, %r9, 0; @%p3 bra W;",
    "an acquire": "W: ld.acquire.gpu.global.u32 %r9, [%out]; setp.eq.u32 %p3, %r9, 0; @%p3 bra W;",
    "past the L1 cache": "W: ld.global.cg.u32 %r9, [%out]; setp.eq.u32 %p3, %r9, 0; @%p3 bra W;",
    "a weak read and a fence": "W: membar.gl; ld.global.u32 %r9, [%out]; setp.eq.u32 %p3, %r9, 0; @%p3 bra W;",
    "a weak read and a pause": "W: nanosleep.u32 50; ld.global.u32 %r9, [%out]; setp.eq.u32 %p3, %r9, 0; @%p3 bra W;",
    "an atomic": "W: atom.global.or.b32 %r9, [%out], 0; setp.eq.u32 %p3, %r9, 0; @%p3 bra W;",
    "an atomic that adds 0": "W: atom.global.add.u32 %r9, [%out], 0; setp.eq.u32 %p3, %r9, 0; @%p3 bra W;",
    "a bounded wait": """mov.u32 %r8, 0;
        W: ld.volatile.global.u32 %r9, [%out]; setp.ne.u32 %p3, %r9, 0; @%p3 bra J;
        add.u32 %r8, %r8, 1; setp.lt.u32 %p3, %r8, 100000000; @%p3 bra W; J:""",
    "a vote of the block": """W: ld.volatile.global.u32 %r9, [%out]; setp.ne.u32 %p3, %r9, 0;
        barrier.red.or.pred %p4, 0, %p3; @!%p4 bra W;""",
    "one thread and a flag in shared memory": """.shared .align 4 .b8 flag[4];
        W: setp.ne.u32 %p3, %r1, 0; @%p3 bra S; ld.volatile.global.u32 %r9, [%out]; st.shared.u32 [flag], %r9;
        S: bar.sync 0; ld.shared.u32 %r9, [flag]; bar.sync 0; setp.eq.u32 %p3, %r9, 0; @%p3 bra W;""",
    "a branch that sets a register": """mov.u32 %r8, 0;
        W: ld.volatile.global.u32 %r9, [%out]; setp.eq.u32 %p3, %r9, 0; @%p3 bra S; mov.u32 %r8, 1;
        S: setp.eq.u32 %p4, %r8, 0; @%p4 bra W;""",
    "local memory": """.local .align 4 .b8 kept[4]; mov.u64 %d9, kept;
        W: ld.volatile.global.u32 %r9, [%out]; st.local.u32 [%d9], %r9; ld.local.u32 %r8, [%d9];
        setp.eq.u32 %p3, %r8, 0; @%p3 bra W;""",
    "a function": """
        W: { .param .b64 a; .param .b32 b; st.param.b64 [a], %out; call (b), ready, (a); ld.param.b32 %r9, [b]; }
        setp.eq.u32 %p3, %r9, 0; @%p3 bra W;""",
    "a pointer to a function": """mov.u64 %d9, ready;
        W: { .param .b64 a; .param .b32 b; st.param.b64 [a], %out; P: .callprototype (.param .b32 _) _ (.param .b64 _);
        call (b), %d9, (a), P; ld.param.b32 %r9, [b]; }
        setp.eq.u32 %p3, %r9, 0; @%p3 bra W;""",
}
READY = """.func (.param .b32 r) ready(.param .b64 a) {
    .reg .b64 %d; .reg .b32 %r; ld.param.b64 %d, [a]; ld.volatile.u32 %r, [%d]; st.param.b32 [r], %r; ret; }
"""


def waiting(how: str, for_the_last: bool = True) -> str:
    """Return a kernel whose first block waits for the last one, or the last one for the first one."""
    waits, sets = ("0", "%r3") if for_the_last else ("%r3", "0")
    return kernel(
        f"""
    mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %nctaid.x; sub.u32 %r3, %r3, 1;
    setp.ne.u32 %p1, %r2, {waits}; @%p1 bra other;
    {WAITS[how]}
    bar.sync 0; st.global.u32 [%out+4], 6; ret;
    other: setp.ne.u32 %p1, %r2, {sets}; @%p1 ret; setp.ne.u32 %p1, %r1, 0; @%p1 ret;
    {SET}
""",
        before=READY,
    )


@pytest.mark.parametrize("how", WAITS)
def test_blocks_wait_whatever_their_size(how: str) -> None:
    for for_the_last in (True, False):
        for executor in ("auto", "numpy", "scalar"):
            here = Machine(waiting(how, for_the_last), executor=executor)
            here.space.spent = 9.0
            for block, grid in ((1, 2), (33, 5), (256, 3), (1024, 2)):
                out = here.buffer("I", [0, 0])
                here.run("k", out, grid=grid, block=block)
                assert out.values() == [5, 6], (for_the_last, executor, block)
            assert here.code.entries["k"].waits


@pytest.mark.parametrize("how", WAITS)
def test_an_endless_wait_is_reported_in_all_of_its_forms(how: str) -> None:
    text = waiting(how).replace(SET, "")
    here = Machine(text)
    out = here.buffer("I", [0, 0])
    with pytest.raises(Fault, match=r"endless loop in (.*\n)*    every remaining thread waits in a loop") as caught:
        here.run("k", out, grid=2, block=64, limits=ptx.Limits(rounds=50, seconds=0))
    assert caught.value.code == 702


ALONE = {
    "a counter of work": "W: atom.global.add.u32 %r9, [%out], 1; setp.lt.u32 %p3, %r9, 40; @%p3 bra W;",
    "a weak read of the next place": """mov.u64 %d9, %out;
        W: membar.gl; ld.global.u32 %r9, [%d9]; add.u64 %d9, %d9, 4; setp.eq.u32 %p3, %r9, 1; @%p3 bra W;""",
    "a counter beside a weak read": """mov.u32 %r8, 0;
        W: membar.gl; ld.global.u32 %r9, [%out]; add.u32 %r8, %r8, 1; setp.lt.u32 %p3, %r8, %r9; @%p3 bra W;""",
    "a flag of the block": """.shared .align 4 .b8 flag[4];
        W: bar.sync 0; st.shared.u32 [flag], 0; bar.sync 0; ld.shared.u32 %r9, [flag];
        setp.ne.u32 %p3, %r9, 0; @%p3 bra W;""",
    "an atomic whose result ends nothing": """mov.u32 %r8, 0;
        W: atom.global.or.b32 %r9, [%out], 2; add.u32 %r8, %r8, 1; setp.lt.u32 %p3, %r8, 9; @%p3 bra W;
        st.global.u32 [%out+4], %r9;""",
    "a volatile local variable": """.local .align 4 .b8 kept[4]; mov.u64 %d9, kept; st.volatile.local.u32 [%d9], 0;
        W: ld.volatile.local.u32 %r9, [%d9]; add.u32 %r9, %r9, 1; st.volatile.local.u32 [%d9], %r9;
        setp.lt.u32 %p3, %r9, 5; @%p3 bra W;""",
}


@pytest.mark.parametrize("how", ALONE)
def test_other_loops_do_not_wait(how: str) -> None:
    """Kernels with them may run as arrays."""
    assert not Machine(kernel(ALONE[how], head=HEAD.replace("7.8", "9.1"))).code.entries["k"].waits


def test_a_counter_that_is_taken_back_is_a_lock() -> None:
    body = """W: atom.global.add.u32 %r9, [%out], 1; setp.eq.u32 %p3, %r9, 0; @%p3 bra J;
        red.global.add.u32 [%out], -1; bra W; J: red.global.add.u32 [%out], -1;"""
    assert Machine(kernel(body)).code.entries["k"].waits


BARRIER = """
    atom.global.add.u32 %r1, [%out], 1; mov.u32 %r2, %nctaid.x;
    W: ld.volatile.global.u32 %r1, [%out]; setp.lt.u32 %p1, %r1, %r2; @%p1 bra W;
"""


def test_only_as_many_blocks_start_as_fit() -> None:
    here = Machine(kernel(BARRIER))
    out = here.buffer("I", [0])
    here.run("k", out, grid=6, block=1, resident=6)
    assert out.values() == [6]
    out = here.buffer("I", [0])
    with pytest.raises(Fault, match="the 4 blocks that fit on the device at the same time all wait, and 2 ") as caught:
        here.run("k", out, grid=6, block=1, resident=4, limits=ptx.Limits(seconds=0))
    assert caught.value.code == 702


def test_more_blocks_than_fit_run_if_none_of_them_needs_a_later_one() -> None:
    here = Machine(waiting("a volatile flag"))
    out = here.buffer("I", [0, 0])
    here.run("k", out, grid=40, block=2, resident=2)
    assert out.values() == [5, 6]


def test_long_work_of_another_block_is_not_an_endless_wait() -> None:
    """While block 0 waits, the others exchange 3000 messages: no state of memory comes back."""
    body = """
    mov.u32 %r1, %ctaid.x; setp.eq.u32 %p1, %r1, 0; mov.u32 %r5, 3000; @%p1 bra W;
    A: ld.volatile.global.u32 %r2, [%out]; setp.ge.u32 %p2, %r2, %r5; @%p2 bra J;
    and.b32 %r3, %r2, 1; add.u32 %r3, %r3, 1; setp.ne.u32 %p3, %r3, %r1; @%p3 bra A;
    add.u32 %r2, %r2, 1; st.volatile.global.u32 [%out], %r2; bra A;
    W: ld.volatile.global.u32 %r2, [%out]; setp.lt.u32 %p2, %r2, %r5; @%p2 bra W;
    st.global.u32 [%out+4], 1; J:
"""
    here = Machine(kernel(body))
    out = here.buffer("I", [0, 0])
    here.run("k", out, grid=3, block=1, limits=ptx.Limits(rounds=5, seconds=0))
    assert out.values() == [3000, 1]
