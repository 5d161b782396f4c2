"""Every instruction that computes with what it reads is reported where nothing was written, in each state space."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = [pytest.mark.emulator_only("a GPU does not write such reports"), pytest.mark.once]
TEXT = """.version 8.1
.target sm_90
.address_size 64
.visible .entry k(.param .u64 out, .param .u64 in) {cluster}{{
    .reg .b64 %d<9>; .reg .b32 %r<40>; .reg .pred %p<9>; .reg .f32 %f<9>;
    .shared .align 128 .b8 tile[1024]; .shared .align 8 .b64 bar; .local .align 16 .b8 own[64];
    ld.param.u64 %d1, [out]; ld.param.u64 %d2, [in]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x;
    mad.lo.u32 %r3, %r2, 32, %r1; mul.wide.u32 %d3, %r3, 4;
    add.u64 %d1, %d1, %d3; mov.u32 %r20, tile; shl.b32 %r21, %r1, 4; add.u32 %r21, %r21, %r20;
    cvt.u64.u32 %d4, %r20; cvta.shared.u64 %d4, %d4; mov.u64 %d5, own; cvta.local.u64 %d5, %d5;
    {start}
    {body}
    {end}
    ret;
}}
"""
MATES = (
    "mov.u32 %r30, %cluster_ctarank; xor.b32 %r31, %r30, 1; mapa.shared::cluster.u32 %r22, %r20, %r31;"
    "cvt.u64.u32 %d6, %r22; cvta.shared.u64 %d6, %d6; mov.u32 %r33, bar;"
    "mapa.shared::cluster.u32 %r34, %r33, %r31; setp.eq.u32 %p2, %r1, 0; @%p2 mbarrier.init.shared.b64 [bar], 32;"
)
SYNC = "barrier.cluster.arrive; barrier.cluster.wait;"
USE = " add.u32 %r5, %r5, 1; st.global.u32 [%d1], %r5;"
FRAGMENT = "{%r10, %r11, %r12, %r13, %r14, %r15, %r16, %r17}"
ROW = "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r5}, [%r21];"
WMMA = f"wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {FRAGMENT}, [%d2];"
FIRST = "setp.ne.u32 %p1, %r1, 0; @%p1 bra X;"  # by one thread
READING = {
    "ld.shared": "ld.shared.u32 %r5, [tile];" + USE,
    "ld of shared memory": "ld.u32 %r5, [%d4];" + USE,
    "ld.relaxed.shared": "ld.relaxed.cta.shared.u32 %r5, [tile];" + USE,
    "ld.acquire of shared memory": "ld.acquire.gpu.u32 %r5, [%d4];" + USE,
    "ld.local": "ld.local.u32 %r5, [own];" + USE,
    "ld.global": "ld.global.u32 %r5, [%d2];" + USE,
    "atom.shared": "atom.shared.add.u32 %r5, [tile], 1;",
    "atom.shared.cas": "atom.shared.cas.b32 %r5, [tile], 1, 2;",
    "atom.shared, 8 bytes": "atom.shared.max.u64 %d7, [tile], 1;",
    "red.shared": "red.shared.add.f32 [tile], 0f3F800000;",
    "atom of shared memory": "atom.add.u32 %r5, [%d4], 1;",
    "red of shared memory": "red.or.b32 [%d4], 1;",
    "atom.global": "atom.global.add.u32 %r5, [%d2], 1;",
    "red.global": "red.global.add.u32 [%d2], 1;",
    "red of local memory": "red.add.u32 [%d5], 1;",
    "ldmatrix": ROW + USE,
    "wmma.load": WMMA + USE.replace("%r5, %r5", "%r5, %r10"),
    "cp.reduce of shared memory": FIRST
    + "fence.proxy.async; cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%d2], [tile], 16; X:",
}
CLUSTER = {
    "ld.shared::cluster": "ld.shared::cluster.u32 %r5, [%r22];" + USE,
    "ld of a mate's shared memory": "ld.u32 %r5, [%d6];" + USE,
    "atom.shared::cluster": "atom.shared::cluster.add.u32 %r5, [%r22], 1;",
    "red of a mate's shared memory": "red.add.u32 [%d6], 1;",
    "red.async": FIRST
    + "red.async.relaxed.cluster.mbarrier::complete_tx::bytes.shared::cluster.add.u32 [%r22], 1, [%r34]; X:",
}
SILENT = {
    "ld.volatile, as if a warp ran in step": "ld.volatile.shared.u32 %r5, [tile+64];" + USE,
    "ld.volatile of shared memory": "ld.volatile.u32 %r5, [%d4];" + USE,
    "a move of ld": "ld.shared.u32 %r5, [tile+64]; st.global.u32 [%d1], %r5;",
    "a move of ldmatrix": ROW + "st.global.u32 [%d1], %r5;",
    "exch": "atom.shared.exch.b32 %r5, [tile+64], 1; atom.exch.b32 %r5, [%d4+128], 1;",
    "exch, then add": "atom.shared.exch.b32 %r5, [tile+64], 1; bar.sync 0; red.shared.add.u32 [tile+64], 1;",
    "cp.async": "cp.async.ca.shared.global [tile+64], [%d2], 4; cp.async.wait_all;",
}
WAYS: dict[str, dict[str, Any]] = {
    "scalar": {"executor": "scalar"},
    "numpy": {"executor": "numpy"},
    "racecheck": {"checks": ("racecheck", "synccheck")},
}


def run(body: str, start: str = "", cluster: bool = False, zeros: bool = False, **options: Any) -> tuple[int, str]:
    """Run a kernel; return the code and the last report of initcheck, or any if there is none."""
    from tests.emulator.emulator_client import Client

    client = Client(**{"strict": True, **options})
    text = TEXT.format(
        cluster=".explicitcluster .reqnctapercluster 2, 1, 1 " if cluster else "",
        start=(MATES + start + SYNC) if cluster else start,
        body=body,
        end=SYNC if cluster else "",
    )
    function = client.get("cuModuleGetFunction", client.load(text), b"k")
    source = client.upload(bytes(4096)) if zeros else client.allocate(4096)
    code = client.launch(function, [client.upload(bytes(4096)), source], grid=(2, 1, 1), block=(32, 1, 1))
    code = code or client.code("cuCtxSynchronize")
    reports = client.emulator.reports
    return code, next((each for each in reports if "never written" in each), reports[-1] if reports else "")


@pytest.mark.parametrize("way", WAYS)
def test_what_computes_with_unwritten_memory_is_reported(way: str) -> None:
    for name, body in {**READING, **CLUSTER}.items():
        code, report = run(body, cluster=name in CLUSTER, **WAYS[way])
        assert code == 719 and report.startswith("initcheck: ") and "never written" in report, (name, code, report)
        assert "kernel k, block (" in report and "ptx line" in report, (name, report)
        code, report = run(body, cluster=name in CLUSTER, **{**WAYS[way], "strict": False})
        assert code == 0 and "never written" in report, (name, code, report)


@pytest.mark.parametrize("way", WAYS)
def test_what_was_written_is_not_reported(way: str) -> None:
    fill = "st.volatile.shared.v4.u32 [%r21], {1, 1, 1, 1}; st.local.u32 [own], 1;"
    fill += "fence.proxy.async; bar.sync 0;"
    for name, body in READING.items():
        assert run(body, fill, zeros=True, **WAYS[way]) == (0, ""), name
    for name, body in CLUSTER.items():
        assert run(body, fill, cluster=True, **WAYS[way]) == (0, ""), name
    for name, body in SILENT.items():
        assert run(body, **WAYS[way]) == (0, ""), name


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "store", ["st.volatile.shared::cluster.u32 [%r22], 1;", "st.volatile.u32 [%d6], 1;",
              "atom.shared::cluster.exch.b32 %r6, [%r22], 1;"],
)  # fmt: skip
def test_what_another_block_of_the_cluster_has_written(store: str, way: str) -> None:
    assert run(store + SYNC + "ld.shared.u32 %r5, [tile];" + USE, cluster=True, **WAYS[way]) == (0, "")
