"""Clusters: their numbers, their barrier, and the shared memory of their blocks; dependent launches."""

import pytest

from tests.subject import module

errors = module("errors")

HEAD = ".version 8.0\n.target sm_90\n.address_size 64\n"


def kernel(body, *, name="k", limits="", shared=".shared .align 16 .b8 mine[64];", head=HEAD):
    """Return PTX of a kernel k(out), in which %rd1 is out, %r1 the block and %r2 the thread."""
    return f"""{head}
.visible .entry {name}(.param .u64 out) {limits}
{{
    .reg .pred %p<8>;
    .reg .b32 %r<40>;
    .reg .b64 %rd<40>;
    {shared}
    ld.param.u64 %rd1, [out];
    cvta.to.global.u64 %rd1, %rd1;
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %tid.x;
{body}
    ret;
}}
"""


@pytest.fixture(autouse=True)
def clusters(device):
    if not device.attribute("CLUSTER_LAUNCH"):
        pytest.skip("this device has no clusters")


def run(device, code, count, *, name="k", **options):
    with device.load(code) as loaded:
        out = device.empty(count, "uint32")
        out.fill(0)
        try:
            loaded[name].launch(out, **options)
            return out.tolist()
        finally:
            out.owner.close()


def stored(*registers, block="%r1", each=None):
    """Return code that stores special registers at out[block * n + i]."""
    count = each or len(registers)
    lines = [
        f"    mul.lo.u32 %r30, {block}, {4 * count};",
        "    cvt.u64.u32 %rd30, %r30;",
        "    add.u64 %rd30, %rd1, %rd30;",
    ]
    for at, register in enumerate(registers):
        lines += [f"    mov.u32 %r31, {register};", f"    st.global.u32 [%rd30+{4 * at}], %r31;"]
    return "\n".join(lines)


def test_the_numbers_of_blocks_and_clusters(device):
    code = kernel(
        """
    mov.u32 %r3, %ctaid.y;
    mov.u32 %r4, %nctaid.x;
    mad.lo.u32 %r1, %r3, %r4, %r1;
"""
        + stored(
            "%clusterid.x", "%clusterid.y", "%nclusterid.x", "%nclusterid.y", "%cluster_ctaid.x", "%cluster_ctaid.y",
            "%cluster_nctaid.x", "%cluster_nctaid.y", "%cluster_ctarank", "%cluster_nctarank",
        )
    )  # fmt: skip
    found = run(device, code, 8 * 10, grid=(4, 2), block=1, cluster=(2, 2))
    for y in range(2):
        for x in range(4):
            at = 10 * (x + 4 * y)
            rank = x % 2 + 2 * y
            assert found[at : at + 10] == [x // 2, 0, 2, 1, x % 2, y, 2, 2, rank, 4], (x, y)
    alone = run(device, code, 8 * 10, grid=(4, 2), block=1)
    assert alone[10 * 5 : 10 * 6] == [1, 1, 4, 2, 0, 0, 1, 1, 0, 1]


def test_whether_a_cluster_was_asked_for(device):
    code = kernel(
        """
    mov.pred %p1, %is_explicit_cluster;
    selp.u32 %r3, 1, 0, %p1;
"""
        + stored("%r3")
    )
    assert run(device, code, 2, grid=2, block=1) == [0, 0]
    assert run(device, code, 2, grid=2, block=1, cluster=1) == [1, 1]
    assert run(device, code, 2, grid=2, block=1, cluster=2) == [1, 1]


# Each block writes 100 + its rank to its own memory, and reads that of the next block after a barrier.
NEIGHBOUR = """
    mov.u32 %r3, %cluster_ctarank;
    mov.u32 %r4, %cluster_nctarank;
    add.u32 %r5, %r3, 100;
    setp.ne.u32 %p1, %r2, 0;
    @%p1 bra MEET;
    st.shared.u32 [mine+4], %r5;
MEET:
    barrier.cluster.arrive;
    barrier.cluster.wait;
    add.u32 %r6, %r3, 1;
    rem.u32 %r6, %r6, %r4;
    {read}
    barrier.cluster.arrive.release;
    barrier.cluster.wait.acquire;
""" + stored("%r7")

READS = {
    "shared::cluster, 32 bits": """
    mapa.shared::cluster.u32 %r8, mine, %r6;
    ld.shared::cluster.u32 %r7, [%r8+4];""",
    "shared::cluster, 64 bits": """
    mov.u64 %rd5, mine;
    mapa.shared::cluster.u64 %rd6, %rd5, %r6;
    ld.shared::cluster.u32 %r7, [%rd6+4];""",
    "generic": """
    mov.u64 %rd5, mine;
    cvta.shared.u64 %rd5, %rd5;
    mapa.u64 %rd6, %rd5, %r6;
    ld.u32 %r7, [%rd6+4];""",
    "generic, from the cluster's space": """
    mapa.shared::cluster.u32 %r8, mine, %r6;
    cvt.u64.u32 %rd5, %r8;
    cvta.shared::cluster.u64 %rd6, %rd5;
    ld.u32 %r7, [%rd6+4];""",
    "an atomic": """
    mapa.shared::cluster.u32 %r8, mine, %r6;
    atom.shared::cluster.add.u32 %r7, [%r8+4], 0;""",
    "a generic atomic": """
    mov.u64 %rd5, mine;
    cvta.shared.u64 %rd5, %rd5;
    mapa.u64 %rd6, %rd5, %r6;
    atom.add.u32 %r7, [%rd6+4], 0;""",
    "relaxed": """
    mapa.shared::cluster.u32 %r8, mine, %r6;
    ld.relaxed.cluster.shared::cluster.u32 %r7, [%r8+4];""",
}


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("threads", [1, 33])
def test_a_block_reads_the_shared_memory_of_another(device, read, threads):
    code = kernel(NEIGHBOUR.replace("{read}", READS[read]))
    assert run(device, code, 8, grid=8, block=threads, cluster=4) == [101, 102, 103, 100] * 2
    assert run(device, code, 8, grid=8, block=threads, cluster=8) == [101, 102, 103, 104, 105, 106, 107, 100]
    assert run(device, code, 4, grid=4, block=threads) == [100] * 4


def test_a_store_and_a_reduction_in_another_block(device):
    code = kernel(
        """
    mov.u32 %r3, %cluster_ctarank;
    st.shared.u32 [mine], 0;
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
    mapa.shared::cluster.u32 %r8, mine, 0;
    red.shared::cluster.add.u32 [%r8], 5;
    setp.ne.u32 %p1, %r3, 1;
    mapa.shared::cluster.u32 %r9, mine, 0;
    @!%p1 st.shared::cluster.v2.u32 [%r9+8], {%r3, %r3};
    barrier.cluster.arrive.relaxed;
    barrier.cluster.wait;
    ld.shared.u32 %r7, [mine];
    ld.shared.u32 %r10, [mine+12];
"""
        + stored("%r7", "%r10")
    )
    found = run(device, code, 8, grid=4, block=1, cluster=2)
    assert found[0:2] == [10, 1] and found[4:6] == [10, 1] and found[2] == found[6] == 0


def test_the_rank_of_an_address_and_its_space(device):
    code = kernel(
        """
    mov.u64 %rd5, mine;
    cvta.shared.u64 %rd6, %rd5;
    mapa.u64 %rd7, %rd6, 1;
    getctarank.u64 %r10, %rd7;
    getctarank.u64 %r11, %rd6;
    mapa.shared::cluster.u32 %r8, mine, 1;
    getctarank.shared::cluster.u32 %r12, %r8;
    isspacep.shared::cluster %p1, %rd7;
    isspacep.shared::cta %p2, %rd7;
    isspacep.shared::cluster %p3, %rd6;
    isspacep.shared %p4, %rd6;
    isspacep.global %p5, %rd7;
    selp.u32 %r13, 1, 0, %p1;
    selp.u32 %r14, 1, 0, %p2;
    selp.u32 %r15, 1, 0, %p3;
    selp.u32 %r16, 1, 0, %p4;
    selp.u32 %r17, 1, 0, %p5;
"""
        + stored("%r10", "%r11", "%r12", "%r13", "%r14", "%r15", "%r16", "%r17")
    )
    assert run(device, code, 16, grid=2, block=1, cluster=2) == [
        1, 0, 1, 1, 0, 1, 1, 0,
        1, 1, 1, 1, 1, 1, 1, 0,
    ]  # fmt: skip


def test_the_barrier_waits_for_every_warp_of_every_block_many_times(device):
    code = kernel(
        """
    mov.u32 %r3, %cluster_ctarank;
    mapa.shared::cluster.u32 %r8, mine, 0;
    setp.ne.u32 %p1, %r2, 0;
    @!%p1 st.shared.u32 [mine], 0;
    mov.u32 %r4, 0;
AGAIN:
    barrier.cluster.arrive;
    barrier.cluster.wait;
    red.shared::cluster.add.u32 [%r8], 1;
    barrier.cluster.arrive;
    barrier.cluster.wait;
    add.u32 %r4, %r4, 1;
    ld.shared::cluster.u32 %r5, [%r8];
    mov.u32 %r6, %ntid.x;
    mul.lo.u32 %r6, %r6, 3;
    mul.lo.u32 %r6, %r6, %r4;
    setp.ne.u32 %p2, %r5, %r6;
    @%p2 trap;
    setp.lt.u32 %p3, %r4, 5;
    @%p3 bra AGAIN;
    barrier.cluster.arrive;
    barrier.cluster.wait;
"""
        + stored("%r5")
    )
    assert run(device, code, 6, grid=6, block=70, cluster=3) == [70 * 3 * 5] * 6


def test_threads_that_have_ended_are_not_waited_for(device):
    code = kernel(
        """
    setp.ge.u32 %p1, %r2, 8;
    @%p1 exit;
    st.shared.u32 [mine], %r1;
    barrier.cluster.arrive;
    barrier.cluster.wait;
    mapa.shared::cluster.u32 %r8, mine, 1;
    ld.shared::cluster.u32 %r7, [%r8];
    barrier.cluster.arrive;
    barrier.cluster.wait;
"""
        + stored("%r7")
    )
    assert run(device, code, 4, grid=4, block=64, cluster=2) == [1, 1, 3, 3]


def test_blocks_pass_a_value_on_by_polling(device):
    code = kernel(
        """
    mov.u32 %r3, %cluster_ctarank;
    st.shared.u32 [mine], 0;
    barrier.cluster.arrive;
    barrier.cluster.wait;
    setp.eq.u32 %p1, %r3, 1;
    @%p1 bra FIRST;
WAIT:
    ld.acquire.cluster.shared::cta.u32 %r7, [mine];
    setp.eq.u32 %p2, %r7, 0;
    @%p2 bra WAIT;
    bra END;
FIRST:
    mapa.shared::cluster.u32 %r8, mine, 0;
    mov.u32 %r7, 77;
    st.release.cluster.shared::cluster.u32 [%r8], %r7;
END:
    barrier.cluster.arrive;
    barrier.cluster.wait;
"""
        + stored("%r7")
    )
    assert run(device, code, 2, grid=2, block=1, cluster=2) == [77, 77]


def test_in_a_device_function(device):
    code = (
        HEAD
        + """
.func (.reg .u32 %result) beside(.reg .u32 %at, .reg .u32 %rank)
{
    .reg .b32 %r<4>;
    mapa.shared::cluster.u32 %r1, %at, %rank;
    barrier.cluster.arrive;
    barrier.cluster.wait;
    ld.shared::cluster.u32 %result, [%r1];
    barrier.cluster.arrive;
    barrier.cluster.wait;
    ret;
}
"""
    )
    code = kernel(
        """
    st.shared.u32 [mine], %r1;
    mov.u32 %r3, mine;
    mov.u32 %r4, 1;
    call (%r7), beside, (%r3, %r4);
"""
        + stored("%r7"),
        head=code,
    )
    assert run(device, code, 4, grid=4, block=1, cluster=2) == [1, 1, 3, 3]


def test_dependent_launches_see_what_came_before(device):
    if device.compute_capability < (9, 0):
        pytest.skip("dependent launches need compute capability 9.0")
    code = kernel("""
    griddepcontrol.wait;
    mul.lo.u32 %r30, %r1, 4;
    cvt.u64.u32 %rd30, %r30;
    add.u64 %rd30, %rd1, %rd30;
    ld.global.u32 %r5, [%rd30];
    mad.lo.u32 %r5, %r5, 3, 1;
    st.global.u32 [%rd30], %r5;
    griddepcontrol.launch_dependents;
""")
    with device.load(code) as loaded, device.stream() as stream:
        out = device.empty(4, "uint32")
        out.fill(1, stream=stream)
        launch = loaded["k"].configure(grid=4, block=1, stream=stream, programmatic_stream_serialization=True)
        for _ in range(4):
            launch(out)
        assert out.download(stream=stream).tolist() == [121] * 4
        out.owner.close()


# -- kernels that were compiled with a cluster


def test_a_kernel_may_require_a_size(device):
    code = kernel(stored("%cluster_nctarank"), limits=".explicitcluster .reqnctapercluster 2, 1, 1")
    assert run(device, code, 4, grid=4, block=1) == [2] * 4
    assert run(device, code, 4, grid=4, block=1, cluster=2) == [2] * 4
    for options in ({"grid": 3}, {"grid": 4, "cluster": 4}):
        with pytest.raises(errors.InvalidUse, match=r"This kernel has clusters of \(2, 1, 1\) blocks"):
            run(device, code, 4, block=1, **options)
    with device.load(code) as loaded:
        attributes = loaded["k"].attributes
        assert attributes.required_cluster == (2, 1, 1) and attributes.required_cluster_width == 2
        with pytest.raises(errors.InvalidUse, match="was compiled with a cluster size"):
            attributes.required_cluster = 4
        assert attributes.required_cluster == (2, 1, 1)


def test_a_kernel_may_require_that_there_is_one(device):
    code = kernel(stored("%cluster_nctarank"), limits=".explicitcluster")
    assert run(device, code, 4, grid=4, block=1, cluster=2) == [2] * 4
    with device.load(code) as loaded:
        assert loaded["k"].attributes.cluster_size_must_be_set is True
    with pytest.raises(errors.InvalidUse, match="must be launched with clusters: give cluster="):
        run(device, code, 4, grid=4, block=1)


def test_a_kernel_may_limit_the_size(device):
    code = kernel(stored("%cluster_nctarank"), limits=".maxclusterrank 2")
    assert run(device, code, 4, grid=4, block=1, cluster=2) == [2] * 4
    with pytest.raises(errors.CudaError):
        run(device, code, 4, grid=4, block=1, cluster=4)


@pytest.mark.emulator_only("a GPU runs this")
def test_a_grid_that_is_counted_in_clusters_is_refused(device):
    code = kernel(
        stored("%cluster_nctarank"),
        limits=".reqntid 1, 1, 1 .explicitcluster .reqnctapercluster 2, 1, 1 .blocksareclusters",
        head=HEAD.replace("8.0", "9.0"),
    )
    with pytest.raises(errors.Unsupported, match="blocksareclusters"):
        run(device, code, 4, grid=2, block=1)


def test_the_required_size_can_be_set(device):
    with device.load(kernel(stored("%cluster_nctarank"))) as loaded:
        out = device.empty(4, "uint32")
        k = loaded["k"]
        assert k.attributes.required_cluster is None
        k.attributes.required_cluster = 2
        assert k.attributes.required_cluster == (2, 1, 1)
        k.launch(out, grid=4, block=1)
        assert out.tolist() == [2] * 4
        k.attributes.required_cluster = None
        k.launch(out, grid=4, block=1)
        assert out.tolist() == [1] * 4
        out.owner.close()


@pytest.mark.parametrize("nth", [1, 2, 3])
def test_an_interrupted_change_of_the_required_size_leaves_the_old_one(device, monkeypatch, nth):
    driver, calls = device._primary.driver, []
    call = driver.cuFuncSetAttribute

    def interrupted(*arguments):
        calls.append(arguments)
        call(*arguments)
        if len(calls) == nth:
            raise KeyboardInterrupt

    with device.load(kernel(stored("%cluster_nctarank"))) as loaded:
        attributes = loaded["k"].attributes
        attributes.required_cluster = 2, 2, 1
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setitem(driver.__dict__, "cuFuncSetAttribute", interrupted)
            attributes.required_cluster = 1, 4, 2
        assert attributes.required_cluster == (2, 2, 1)


def test_clusters_of_more_than_eight(device):
    with device.load(kernel(stored("%cluster_nctarank"))) as loaded:
        out, k = device.empty(16, "uint32"), loaded["k"]
        with pytest.raises(ValueError, match="non_portable_cluster_size_allowed = True"):
            k.launch(out, grid=16, block=1, cluster=16)
        k.attributes.non_portable_cluster_size_allowed = True
        if k.max_potential_cluster_size(1) >= 16:
            k.launch(out, grid=16, block=1, cluster=16)
            assert out.tolist() == [16] * 16
        with pytest.raises(ValueError, match="has 64 blocks; kernel k can have "):
            k.launch(out, grid=64, block=1, cluster=64)
        out.owner.close()
