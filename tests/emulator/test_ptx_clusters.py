"""Errors in kernels of clusters, which the emulator names each time, and the forms of the instructions."""

import pytest

from tests.driver.test_cluster import HEAD, kernel
from tests.emulator import ptx_client
from tests.emulator.ptx_client import Fault, Machine, rejection

FAULTS = {
    "a block that has ended": (
        """
    setp.eq.u32 %p1, %r1, 0;
    @%p1 exit;
    mapa.shared::cluster.u32 %r8, mine, 0;
    ld.shared::cluster.u32 %r7, [%r8];""",
        "block 0 of the cluster, which has ended: a barrier of the cluster must keep it running",
    ),
    "a block that has not started": (
        """
    mapa.shared::cluster.u32 %r8, mine, 1;
    ld.shared::cluster.u32 %r7, [%r8];""",
        "block 1 of the cluster, which has not started",
    ),
    "no such block": (
        """
    mapa.shared::cluster.u32 %r8, mine, 7;
    ld.shared::cluster.u32 %r7, [%r8];""",
        "block 7 of the cluster, which has 2 blocks",
    ),
    "past the end": (
        """
    mapa.shared::cluster.u32 %r8, mine, %r1;
    st.shared::cluster.u32 [%r8+64], %r1;""",
        "shared address 0x40: 0 bytes past the end of the 64 bytes of shared memory of block 0 of the cluster",
    ),
    "misaligned": (
        """
    mapa.shared::cluster.u32 %r8, mine, %r1;
    st.shared::cluster.u32 [%r8+2], %r1;""",
        "is not a multiple of 4: 2 bytes into the 64-byte shared variable 'mine' of block 0 of the cluster",
    ),
    "in the wrong space": (
        """
    mapa.shared::cluster.u32 %r8, mine, %r1;
    st.shared.u32 [%r8], %r1;""",
        "bytes past the end of the 64 bytes of shared memory of block 0 of the cluster",
    ),
    "two arrivals": (
        "barrier.cluster.arrive; barrier.cluster.arrive;",
        "a second barrier.cluster.arrive without barrier.cluster.wait",
    ),
    "a wait alone": ("barrier.cluster.wait;", "barrier.cluster.wait without barrier.cluster.arrive before it"),
    "a block that does not arrive": (
        """
    setp.eq.u32 %p1, %r1, 0;
    @%p1 bra THERE;
    bar.sync 0, 64;
THERE:
    barrier.cluster.arrive;
    barrier.cluster.wait;""",
        "barrier 0 is for 64 threads, and the block has 1",
    ),
    "not shared memory": ("mapa.u64 %rd7, %rd1, 1; st.u32 [%rd7], %r1;", "is not in shared memory"),
}


@pytest.mark.parametrize("what", FAULTS)
def test_errors_in_clusters_are_found(what):
    body, words = FAULTS[what]
    machine = Machine(kernel(body + "\n    st.shared.u32 [mine], %r1;"))
    with pytest.raises(Fault) as raised:
        machine.code.entries["k"].run((4, 1, 1), (1, 1, 1), 0, bytes(8), cluster=(2, 1, 1))
    assert words in str(raised.value)


@pytest.mark.parametrize(
    "body, words",
    [
        ("barrier.cluster.sync;", "required for instruction 'barrier'|Illegal modifier"),
        ("mapa.u32 %r1, %r2, 0;", "is not emulated: use .u64"),
        ("mapa.u64 %rd1, mine, 0;", "Arguments mismatch"),
        ("mapa.shared::cluster.u32 %r1, %rd2, 0;", "Arguments mismatch"),
        ("mapa.shared::cluster.u32 %r1, out, 0;", "Arguments mismatch"),
        ("getctarank.shared::cluster.u32 %rd1, %r2;", "Arguments mismatch"),
        ("ld.shared::cluster.u32 %r1, [out];", "State space mismatch"),
        ("griddepcontrol.signal;", "Illegal modifier"),
    ],
)
def test_forms_that_do_not_exist(body, words):
    reason = rejection(kernel(body))
    assert __import__("re").search(words, reason.log), reason.log


@pytest.mark.parametrize("instruction", ["barrier.cluster.arrive;", "mapa.u64 %rd1, %rd2, 0;", "griddepcontrol.wait;"])
def test_an_older_architecture_is_refused(instruction):
    old = HEAD.replace("sm_90", "sm_80")
    assert "requires .target sm_90 or higher" in rejection(kernel(instruction, head=old)).log


ARRIVES_ELSEWHERE = """
    mov.u32 %r3, barrier;
    mbarrier.init.shared.b64 [%r3], 1;
    fence.mbarrier_init.release.cluster;
    barrier.cluster.arrive; barrier.cluster.wait;
    xor.b32 %r4, %r1, 1;
    mapa.shared::cluster.u32 %r5, mine, %r4;
    mapa.shared::cluster.u32 %r6, barrier, %r4;
    add.u32 %r7, %r1, 10;
    st.shared::cluster.u32 [%r5], %r7;
    {arrives}
WAIT:
    mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p1, [%r3], 0;
    @!%p1 bra WAIT;
    {later}
    ld.shared.u32 %r8, [mine];
    mul.wide.u32 %rd2, %r1, 4;
    add.u64 %rd1, %rd1, %rd2;
    st.global.u32 [%rd1], %r8;
    barrier.cluster.arrive; barrier.cluster.wait;"""


# Another write, and then a phase of the barrier in which the other block does not take part.
ONCE_MORE = """
    st.shared::cluster.u32 [%r5], %r7;
    mbarrier.arrive.shared.b64 %rd9, [%r3];
LATER:
    mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p1, [%r3], 1;
    @!%p1 bra LATER;"""


@pytest.mark.parametrize("place, later", [("there", ""), ("here", ""), ("there", ONCE_MORE)])
def test_an_arrival_at_the_barrier_of_another_block_orders_the_two_blocks(place, later, monkeypatch):
    arrives = {
        "there": "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r6];",
        "here": "mbarrier.arrive.shared.b64 %rd9, [%r3];",
    }
    shared = ".shared .align 16 .b8 mine[64]; .shared .align 8 .b64 barrier;"
    searched = ptx_client.space.Space()
    searched.races = True
    monkeypatch.setattr(ptx_client.space, "Space", lambda: searched)
    machine = Machine(kernel(ARRIVES_ELSEWHERE.format(arrives=arrives[place], later=later), shared=shared))
    out = machine.buffer("I", [0, 0])
    packed = out.address.to_bytes(8, "little")
    if place == "there" and not later:
        machine.code.entries["k"].run((2, 1, 1), (1, 1, 1), 0, packed, cluster=(2, 1, 1))
        assert out.values() == [11, 10]
        return
    with pytest.raises(Fault, match="read after write|write after read"):
        machine.code.entries["k"].run((2, 1, 1), (1, 1, 1), 0, packed, cluster=(2, 1, 1))
