"""CUDA C++ that uses tensor cores, asynchronous copies, barriers and small floats, compiled with NVIDIA's headers."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import pytest

from tests.subject import module, rawcuda

from .texture_kernels import needs_compiler

np = pytest.importorskip("numpy")
locate, program = module("locate"), module("compiler.program")

pytestmark = [needs_compiler, pytest.mark.once]


def has(name: str) -> bool:
    """Tell whether a header of CUDA is installed."""
    try:
        folders = locate.headers(program.compiler().version[0])
    except rawcuda.CompilerNotFound:
        return False
    return any(Path(folder, name).is_file() for folder in folders)


needs_mma = pytest.mark.skipif(not has("crt/mma.h"), reason="mma.h is not installed (pip install nvidia-cuda-crt)")
needs_cccl = pytest.mark.skipif(not has("cuda/barrier"), reason="libcu++ is missing (pip install nvidia-cuda-cccl)")
OPTIONS = ["--std=c++17", "-diag-suppress=20054"]


def cache() -> Path:
    """Return a folder in which compiled code stays for the runs in other modes."""
    folder = Path(tempfile.gettempdir(), f"compiled-for-tests-{getattr(os, 'getuid', int)()}")
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def run(device: Any, source: str, *given: Any, out: Any, grid: Any = 1, block: int = 64, names: Any = ()) -> Any:
    """Compile and run a kernel named k; return what it wrote to its last argument."""
    with device.compile(source, options=OPTIONS, names=names, cache=cache()) as code:
        made = device.upload(out)
        code["k"].launch(*[device.upload(each) for each in given], made, grid=grid, block=block)
        return np.asarray(made.download()).copy()


# -- nvcuda::wmma


WMMA = """
#include <mma.h>
using namespace nvcuda;
extern "C" __global__ void k(const {ab} *a, const {ab} *b, {c} *c)
{{
    wmma::fragment<wmma::matrix_a, {shape}, {type}, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, {shape}, {type}, wmma::col_major> fb;
    wmma::fragment<wmma::accumulator, {shape}, {c}> fc;
    wmma::fill_fragment(fc, ({c})1);
    for (int at = 0; at < 2; ++at) {{
        wmma::load_matrix_sync(fa, a + at * {k}, 2 * {k});
        wmma::load_matrix_sync(fb, b + at * {k}, 2 * {k});
        wmma::mma_sync(fc, fa, fb, fc);
    }}
    for (int i = 0; i < fc.num_elements; ++i) fc.x[i] = fc.x[i] + fc.x[i];
    wmma::store_matrix_sync(c, fc, {n}, wmma::mem_row_major);
}}
"""
FRAGMENTS = [
    ("16, 16, 16", "half", "half", "float"), ("32, 8, 16", "half", "half", "half"),
    ("8, 32, 16", "half", "half", "float"),
    ("16, 16, 16", "signed char", "signed char", "int"), ("16, 16, 16", "unsigned char", "unsigned char", "int"),
    ("16, 16, 8", "float", "wmma::precision::tf32", "float"), ("8, 8, 4", "double", "double", "double"),
]  # fmt: skip
KINDS = {"half": "f2", "signed char": "i1", "unsigned char": "u1", "float": "f4", "double": "f8", "int": "i4"}


@needs_mma
@pytest.mark.parametrize("shape,ab,type,c", FRAGMENTS)
def test_fragments_of_mma_h(device: Any, shape: str, ab: str, type: str, c: str) -> None:
    m, n, k = map(int, shape.split(","))
    pick = np.random.default_rng(1)
    if KINDS[ab][0] == "f":
        a, b = (pick.integers(-8, 8, (rows, 2 * k)).astype(KINDS[ab]) / 4 for rows in (m, n))
        a, b = a.astype(KINDS[ab]), b.astype(KINDS[ab])
    else:
        low = -128 if ab == "signed char" else 0
        a, b = (pick.integers(low, low + 256, (rows, 2 * k)).astype(KINDS[ab]) for rows in (m, n))
    found = run(
        device,
        WMMA.format(shape=shape, ab=ab, type=type, c=c, n=n, k=k),
        a,
        b,
        out=np.zeros((m, n), KINDS[c]),
        block=32,
    )
    wanted = 2 * (a.astype(float) @ b.astype(float).T + 1)
    assert (found == wanted.astype(KINDS[c])).all()


@needs_mma
def test_a_tiled_product_on_tensor_cores(device: Any) -> None:
    """Four warps, tiles in shared memory, a loop with barriers: a product of 64 by 64 by 32."""
    source = """
    #include <mma.h>
    using namespace nvcuda;
    extern "C" __global__ void k(const half *a, const half *b, float *c)
    {
        __shared__ __align__(32) half sa[32][16], sb[16][32];
        int warp = threadIdx.x / 32, row = warp / 2, column = warp % 2;
        wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
        wmma::fill_fragment(sum, 0.0f);
        for (int at = 0; at < 32; at += 16) {
            for (int i = threadIdx.x; i < 512; i += blockDim.x) {
                sa[i / 16][i % 16] = a[(blockIdx.y * 32 + i / 16) * 32 + at + i % 16];
                sb[i / 32][i % 32] = b[(at + i / 32) * 64 + blockIdx.x * 32 + i % 32];
            }
            __syncthreads();
            wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
            wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> fb;
            wmma::load_matrix_sync(fa, &sa[row * 16][0], 16);
            wmma::load_matrix_sync(fb, &sb[0][column * 16], 32);
            wmma::mma_sync(sum, fa, fb, sum);
            __syncthreads();
        }
        wmma::store_matrix_sync(c + (blockIdx.y * 32 + row * 16) * 64 + blockIdx.x * 32 + column * 16, sum, 64,
                                wmma::mem_row_major);
    }
    """
    pick = np.random.default_rng(2)
    a, b = pick.normal(size=(64, 32)).astype("f2"), pick.normal(size=(32, 64)).astype("f2")
    found = run(device, source, a, b, out=np.zeros((64, 64), "f4"), grid=(2, 2), block=128)
    assert np.allclose(found, a.astype(float) @ b.astype(float), rtol=1e-5, atol=1e-5)


# -- cuda_pipeline.h, cuda::pipeline, cuda::barrier, cooperative groups


def test_the_pipeline_of_c(device: Any) -> None:
    source = """
    #include <cuda_pipeline.h>
    extern "C" __global__ void k(const float4 *a, float *c)
    {
        __shared__ float4 s[2][32];
        __pipeline_memcpy_async(&s[0][threadIdx.x], a + threadIdx.x, 16);
        __pipeline_commit();
        for (int at = 0; at < 4; ++at) {
            if (at < 3) __pipeline_memcpy_async(&s[at + 1 & 1][threadIdx.x], a + 32 * (at + 1) + threadIdx.x, 16);
            __pipeline_commit();
            __pipeline_wait_prior(1);
            __syncthreads();
            float4 v = s[at & 1][31 - threadIdx.x];
            c[32 * at + threadIdx.x] = v.x + 2 * v.y + 3 * v.z + 4 * v.w;
            __syncthreads();
        }
    }
    """
    a = np.arange(512, dtype="f4")
    found = run(device, source, a, out=np.zeros(128, "f4"), block=32)
    assert (found == (a.reshape(4, 32, 4)[:, ::-1] @ np.array([1, 2, 3, 4], "f4")).ravel()).all()


BARRIERS = {
    "pipeline": """
    #include <cuda/pipeline>
    #include <cooperative_groups.h>
    namespace cg = cooperative_groups;
    extern "C" __global__ void k(const int *a, int *c)
    {
        auto block = cg::this_thread_block();
        __shared__ int s[2][64];
        __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
        auto pipe = cuda::make_pipeline(block, &state);
        for (int at = 0; at < 4; ++at) {
            pipe.producer_acquire();
            cuda::memcpy_async(block, s[at & 1], a + 64 * at, cuda::aligned_size_t<4>(256), pipe);
            pipe.producer_commit();
            pipe.consumer_wait();
            c[at * 64 + threadIdx.x] = s[at & 1][63 - threadIdx.x];
            pipe.consumer_release();
        }
    }""",
    "barrier": """
    #include <cuda/barrier>
    extern "C" __global__ void k(const int *a, int *c)
    {
        __shared__ cuda::barrier<cuda::thread_scope_block> bar;
        __shared__ int s[64];
        if (threadIdx.x == 0) init(&bar, blockDim.x);
        __syncthreads();
        for (int at = 0; at < 4; ++at) {
            s[threadIdx.x] = a[at * 64 + threadIdx.x];
            auto token = bar.arrive();
            bar.wait(std::move(token));
            c[at * 64 + threadIdx.x] = s[63 - threadIdx.x];
            bar.arrive_and_wait();
        }
    }""",
    "copy that arrives": """
    #include <cuda/barrier>
    extern "C" __global__ void k(const int *a, int *c)
    {
        __shared__ cuda::barrier<cuda::thread_scope_block> bar;
        __shared__ alignas(16) int s[256];
        if (threadIdx.x == 0) init(&bar, blockDim.x);
        __syncthreads();
        cuda::memcpy_async(s + 4 * threadIdx.x, a + 4 * threadIdx.x, cuda::aligned_size_t<16>(16), bar);
        bar.arrive_and_wait();
        for (int at = 0; at < 4; ++at) c[at * 64 + threadIdx.x] = s[at * 64 + 63 - threadIdx.x];
    }""",
    "bulk copies": """
    #include <cuda/barrier>
    #include <cuda/ptx>
    namespace ptx = cuda::ptx;
    extern "C" __global__ void k(const int *a, int *c)
    {
        __shared__ alignas(16) int s[256], t[256];
        __shared__ cuda::barrier<cuda::thread_scope_block> bar;
        if (threadIdx.x == 0) {
            init(&bar, blockDim.x);
            ptx::fence_proxy_async(ptx::space_shared);
        }
        __syncthreads();
        cuda::barrier<cuda::thread_scope_block>::arrival_token token;
        if (threadIdx.x == 0) {
            cuda::device::memcpy_async_tx(s, a, cuda::aligned_size_t<16>(1024), bar);
            token = cuda::device::barrier_arrive_tx(bar, 1, 1024);
        } else
            token = bar.arrive();
        bar.wait(std::move(token));
        for (int at = 0; at < 4; ++at) t[at * 64 + threadIdx.x] = s[at * 64 + 63 - threadIdx.x];
        ptx::fence_proxy_async(ptx::space_shared);
        __syncthreads();
        if (threadIdx.x == 0) {
            ptx::cp_async_bulk(ptx::space_global, ptx::space_shared, c, t, 1024);
            ptx::cp_async_bulk_commit_group();
            ptx::cp_async_bulk_wait_group_read(ptx::n32_t<0>());
        }
    }""",
    "group copies": """
    #include <cooperative_groups.h>
    #include <cooperative_groups/memcpy_async.h>
    namespace cg = cooperative_groups;
    extern "C" __global__ void k(const int *a, int *c)
    {
        auto block = cg::this_thread_block();
        __shared__ alignas(16) int s[256];
        cg::memcpy_async(block, s, a, 1024);
        cg::wait(block);
        for (int at = 0; at < 4; ++at) c[at * 64 + threadIdx.x] = s[at * 64 + 63 - threadIdx.x];
    }""",
}


@needs_cccl
@pytest.mark.parametrize("name", BARRIERS)
def test_barriers_and_pipelines(device: Any, name: str) -> None:
    if name == "bulk copies" and device.attribute("COMPUTE_CAPABILITY_MAJOR") < 9:
        pytest.skip("bulk copies need compute capability 9.0")
    a = np.arange(256, dtype="i4") * 3 + 1
    found = run(device, BARRIERS[name], a, out=np.zeros(256, "i4"))
    assert (found == a.reshape(4, 64)[:, ::-1].ravel()).all()


def test_cooperative_groups(device: Any) -> None:
    source = """
    #include <cooperative_groups.h>
    #include <cooperative_groups/reduce.h>
    #include <cooperative_groups/scan.h>
    namespace cg = cooperative_groups;
    extern "C" __global__ void k(const int *a, int *c)
    {
        auto block = cg::this_thread_block();
        auto tile = cg::tiled_partition<16>(block);
        auto warp = cg::tiled_partition<32>(block);
        int t = threadIdx.x, v = a[t];
        c[t] = cg::reduce(tile, v, cg::plus<int>());
        c[64 + t] = cg::inclusive_scan(tile, v);
        c[128 + t] = cg::exclusive_scan(warp, v, cg::less<int>());
        auto same = cg::labeled_partition(warp, v & 3);
        c[192 + t] = cg::reduce(same, v, cg::greater<int>());
        c[256 + t] = same.size();
        auto odd = cg::binary_partition(warp, v & 1);
        c[320 + t] = odd.num_threads() * 100 + odd.thread_rank();
        if (t % 3 == 0) c[384 + t] = cg::coalesced_threads().size();
        c[448 + t] = warp.shfl_xor(v, 5) + warp.match_any(v & 7);
    }
    """
    a = (np.random.default_rng(3).permutation(64) - 20).astype("i4")
    found = run(device, source, a, out=np.zeros(512, "i4")).reshape(8, 64)
    warps = a.reshape(2, 32)
    assert (found[0] == np.repeat(a.reshape(4, 16).sum(1), 16)).all()
    assert (found[1] == a.reshape(4, 16).cumsum(1).ravel()).all()
    assert (found[2].reshape(2, 32)[:, 1:] == np.minimum.accumulate(warps, 1)[:, :-1]).all()
    for t in range(64):
        warp = warps[t // 32]
        same, odd = warp[warp & 3 == a[t] & 3], warp & 1 == a[t] & 1
        assert (found[3, t], found[4, t]) == (same.max(), len(same))
        assert found[5, t] == odd.sum() * 100 + odd[: t % 32].sum()
        assert t % 3 or found[6, t] in (10, 11)
        match = sum(1 << at for at in range(32) if warp[at] & 7 == a[t] & 7)
        assert int(found[7, t]) & 0xFFFFFFFF == int(warp[t % 32 ^ 5]) + match & 0xFFFFFFFF


def test_blocks_of_a_cluster(device: Any) -> None:
    if device.attribute("COMPUTE_CAPABILITY_MAJOR") < 9:
        pytest.skip("clusters need compute capability 9.0")
    source = """
    #include <cooperative_groups.h>
    namespace cg = cooperative_groups;
    extern "C" __global__ void __cluster_dims__(4, 1, 1) k(const int *a, int *c)
    {
        __shared__ int s[64];
        auto cluster = cg::this_cluster();
        s[threadIdx.x] = a[blockIdx.x * 64 + threadIdx.x];
        cluster.sync();
        int sum = 0;
        for (int rank = 0; rank < cluster.num_blocks(); ++rank) sum += *cluster.map_shared_rank(&s[threadIdx.x], rank);
        atomicAdd(cluster.map_shared_rank(&s[threadIdx.x], cluster.block_rank() ^ 1), 0);
        c[blockIdx.x * 64 + threadIdx.x] = sum;
        cluster.sync();
    }
    """
    a = np.arange(512, dtype="i4")
    found = run(device, source, a, out=np.zeros(512, "i4"), grid=8)
    assert (found.reshape(2, 4, 64) == a.reshape(2, 4, 64).sum(1)[:, None]).all()


# -- small floats, SIMD intrinsics


def test_floats_of_eight_bits(device: Any) -> None:
    kinds = pytest.importorskip("ml_dtypes")
    source = """
    #include <cuda_fp8.h>
    extern "C" __global__ void k(const float *a, float *c)
    {
        float v = a[threadIdx.x];
        c[threadIdx.x] = float(__nv_fp8_e4m3(v));
        c[256 + threadIdx.x] = float(__nv_fp8_e5m2(v));
    }
    """
    a = (np.random.default_rng(4).normal(size=256) * 10.0 ** np.arange(-4, 4).repeat(32)).astype("f4")
    found = run(device, source, a, out=np.zeros((2, 256), "f4"), block=256)
    for row, kind, most in ((found[0], kinds.float8_e4m3fn, 448), (found[1], kinds.float8_e5m2, 57344)):
        assert (row == np.clip(a, -most, most).astype(kind).astype("f4")).all()


def test_intrinsics_on_bytes_and_half_words(device: Any) -> None:
    source = """
    extern "C" __global__ void k(const unsigned *a, unsigned *c)
    {
        unsigned x = a[threadIdx.x], y = a[64 + threadIdx.x], *out = c + 8 * threadIdx.x;
        out[0] = __vadd4(x, y); out[1] = __vabsdiffu4(x, y); out[2] = __vmaxs2(x, y); out[3] = __vcmpgtu4(x, y);
        out[4] = __vavgu4(x, y); out[5] = __vsadu4(x, y); out[6] = __vaddss2(x, y); out[7] = __dp4a((int)x, (int)y, 7);
    }
    """
    a = np.random.default_rng(5).integers(0, 1 << 32, (2, 64), dtype="u4")
    found = run(device, source, a, out=np.zeros((64, 8), "u4"))
    x, y = (a[at].view("u1").reshape(64, 4).astype(int) for at in range(2))
    p, q = (a[at].view("i2").reshape(64, 2).astype(int) for at in range(2))
    s, t = (a[at].view("i1").reshape(64, 4).astype(int) for at in range(2))

    def joined(values: Any, type: str) -> Any:
        return np.ascontiguousarray(values.astype(type)).view("u4")[:, 0]

    wanted = [
        joined(x + y, "u1"), joined(abs(x - y), "u1"), joined(np.maximum(p, q), "i2"), joined((x > y) * 255, "u1"),
        joined(x + y + 1 >> 1, "u1"), abs(x - y).sum(1), joined(np.clip(p + q, -32768, 32767), "i2"),
        ((s * t).sum(1) + 7).astype("i4").view("u4"),
    ]  # fmt: skip
    for at, expected in enumerate(wanted):
        assert (found[:, at] == expected).all(), at
