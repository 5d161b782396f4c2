"""CUB's primitives for blocks and warps, compiled from their headers, give NumPy's results."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, Callable

import pytest

from .test_units_compiled import cache, needs_cccl
from .texture_kernels import needs_compiler

np = pytest.importorskip("numpy")

pytestmark = [needs_compiler, needs_cccl, pytest.mark.once]
OPTIONS = ["--std=c++17"]

# C++ type: dtype
TYPES = {
    "int": "i4", "unsigned": "u4", "float": "f4", "double": "f8", "long long": "i8", "unsigned char": "u1",
    "short": "i2",
}  # fmt: skip


def numbers(type: str, count: int) -> Any:
    """Return random numbers of a type, of both signs and without rounding errors in their sums."""
    pick = np.random.default_rng(count)
    kind = np.dtype(TYPES[type])
    if kind.kind == "f":
        return (pick.integers(-1000, 1000, count) / 8).astype(kind)
    info = np.iinfo(kind)
    return pick.integers(max(info.min, -100_000), min(info.max, 100_000), count, dtype=kind, endpoint=True)


Run = Callable[..., Any]


@pytest.fixture
def run(device: Any) -> Iterator[Run]:
    """Return a function that runs an instance of a template with one block.

    All instances are compiled and loaded together, once in each test: their code has thousands of lines.
    """
    codes: dict[str, Any] = {}

    def run(source: str, kernels: list[str], number: int, given: Any, out: Any, threads: int) -> Any:
        if source not in codes:
            codes[source] = open.enter_context(device.compile(source, names=kernels, options=OPTIONS, cache=cache()))
        made = device.upload(out)
        codes[source][kernels[number]].launch(device.upload(given), made, grid=1, block=threads)
        return np.asarray(made.download()).copy()

    with contextlib.ExitStack() as open:
        yield run


REDUCE = """
#include <cub/block/block_reduce.cuh>
struct Larger { template <typename T> __device__ T operator()(T a, T b) const { return a < b ? b : a; } };
template <typename T, int B, int I, cub::BlockReduceAlgorithm A> __global__ void k(const T *in, T *out)
{
    using Reduce = cub::BlockReduce<T, B, A>;
    __shared__ typename Reduce::TempStorage room;
    T items[I];
    for (int i = 0; i < I; ++i) items[i] = in[threadIdx.x * I + i];
    T sum = Reduce(room).Sum(items);
    __syncthreads();
    T most = Reduce(room).Reduce(items, Larger());
    __syncthreads();
    T part = Reduce(room).Sum(items[0], B - 5);
    if (threadIdx.x == 0) { out[0] = sum; out[1] = most; out[2] = part; }
}
"""


REDUCTIONS = [
    ("int", 128, 4, "WARP_REDUCTIONS"), ("float", 96, 1, "RAKING"), ("double", 64, 3, "WARP_REDUCTIONS"),
    ("unsigned char", 256, 2, "WARP_REDUCTIONS"), ("long long", 33, 2, "RAKING_COMMUTATIVE_ONLY"),
]  # fmt: skip


def test_block_reduce(run: Run) -> None:
    for number in range(len(REDUCTIONS)):
        type, block, items, _ = REDUCTIONS[number]
        a = numbers(type, block * items)
        kernels = ["k<{}, {}, {}, cub::BLOCK_REDUCE_{}>".format(*each) for each in REDUCTIONS]
        found = run(REDUCE, kernels, number, a, np.zeros(3, a.dtype), block)
        wanted = [a.sum(dtype=a.dtype), a.max(), a.reshape(block, items)[: block - 5, 0].sum(dtype=a.dtype)]
        assert found.tolist() == [each.item() for each in wanted]


SCAN = """
#include <cub/block/block_scan.cuh>
#include <cub/block/block_load.cuh>
#include <cub/block/block_store.cuh>
template <typename T, int B, int I, cub::BlockScanAlgorithm A, cub::BlockLoadAlgorithm L, cub::BlockStoreAlgorithm S>
__global__ void k(const T *in, T *out)
{
    using Scan = cub::BlockScan<T, B, A>;
    using Load = cub::BlockLoad<T, B, I, L>;
    using Store = cub::BlockStore<T, B, I, S>;
    __shared__ union {
        typename Scan::TempStorage scan; typename Load::TempStorage load; typename Store::TempStorage store;
    } room;
    T items[I], sums[I], total;
    Load(room.load).Load(in, items, B * I - 3, T(7));
    __syncthreads();
    Scan(room.scan).InclusiveSum(items, sums, total);
    __syncthreads();
    Store(room.store).Store(out, sums);
    __syncthreads();
    Scan(room.scan).ExclusiveSum(items, sums);
    __syncthreads();
    Store(room.store).Store(out + B * I, sums, B * I - 1);
    if (threadIdx.x == 0) out[2 * B * I] = total;
}
"""


SCANS = [
    ("int", 128, 4, "RAKING", "TRANSPOSE", "TRANSPOSE"), ("float", 64, 2, "WARP_SCANS", "DIRECT", "STRIPED"),
    ("double", 96, 3, "RAKING_MEMOIZE", "WARP_TRANSPOSE", "WARP_TRANSPOSE"),
    ("short", 160, 1, "RAKING", "VECTORIZE", "VECTORIZE"), ("long long", 32, 5, "WARP_SCANS", "STRIPED", "DIRECT"),
]  # fmt: skip


def test_block_scan_load_and_store(run: Run) -> None:
    for number in range(len(SCANS)):
        type, block, items, _, load, store = SCANS[number]
        count = block * items
        a = numbers(type, count)
        kernels = [
            "k<{}, {}, {}, cub::BLOCK_SCAN_{}, cub::BLOCK_LOAD_{}, cub::BLOCK_STORE_{}>".format(*each) for each in SCANS
        ]
        found = run(SCAN, kernels, number, a, np.zeros(2 * count + 1, a.dtype), block)
        held = a.copy()
        held[-3:] = 7

        def blocked(values: Any) -> Any:
            """Return what each thread holds, thread by thread."""
            return values.reshape(items, block).T.ravel() if load == "STRIPED" else values

        def stored(values: Any) -> Any:
            return values.reshape(block, items).T.ravel() if store == "STRIPED" else values

        sums = blocked(held).cumsum(dtype=a.dtype)
        assert (found[:count] == stored(sums)).all() and found[-1] == sums[-1]
        assert (found[count : 2 * count - 1] == stored(sums - blocked(held))[:-1]).all() and found[2 * count - 1] == 0


SORT = """
#include <cub/block/block_radix_sort.cuh>
#include <cub/block/block_merge_sort.cuh>
struct Less { template <typename T> __device__ bool operator()(T a, T b) const { return a < b; } };
template <typename T, int B, int I> __global__ void k(const T *in, T *out)
{
    using Radix = cub::BlockRadixSort<T, B, I>;
    using Pairs = cub::BlockRadixSort<T, B, I, int>;
    using Merge = cub::BlockMergeSort<T, B, I>;
    __shared__ union {
        typename Radix::TempStorage radix; typename Pairs::TempStorage pairs; typename Merge::TempStorage merge;
    } room;
    T items[I];
    int places[I];
    for (int i = 0; i < I; ++i) items[i] = in[threadIdx.x * I + i];
    Radix(room.radix).Sort(items);
    for (int i = 0; i < I; ++i) out[threadIdx.x * I + i] = items[i];
    __syncthreads();
    for (int i = 0; i < I; ++i) items[i] = in[places[i] = threadIdx.x * I + i];
    Pairs(room.pairs).SortDescending(items, places);
    for (int i = 0; i < I; ++i) out[B * I + threadIdx.x * I + i] = in[places[i]];
    __syncthreads();
    for (int i = 0; i < I; ++i) items[i] = in[threadIdx.x * I + i];
    Merge(room.merge).Sort(items, Less());
    for (int i = 0; i < I; ++i) out[2 * B * I + threadIdx.x * I + i] = items[i];
}
"""


SORTS = [("unsigned", 64, 3), ("int", 128, 2), ("float", 32, 4), ("double", 64, 1), ("unsigned char", 128, 3)]


def test_block_sorts(run: Run) -> None:
    for number in range(len(SORTS)):
        type, block, items = SORTS[number]
        a = numbers(type, block * items)
        kernels = ["k<{}, {}, {}>".format(*each) for each in SORTS]
        found = run(SORT, kernels, number, a, np.zeros((3, a.size), a.dtype), block)
        assert (found == [np.sort(a), np.sort(a)[::-1], np.sort(a)]).all()


EXCHANGE = """
#include <cub/block/block_exchange.cuh>
#include <cub/block/block_discontinuity.cuh>
#include <cub/block/block_adjacent_difference.cuh>
#include <cub/block/block_histogram.cuh>
#include <cub/block/block_shuffle.cuh>
struct Differs { template <typename T> __device__ bool operator()(T a, T b) const { return a != b; } };
struct Minus { template <typename T> __device__ T operator()(T a, T b) const { return a - b; } };
template <typename T, int B, int I, cub::BlockHistogramAlgorithm A> __global__ void k(const T *in, int *out)
{
    using Exchange = cub::BlockExchange<T, B, I>;
    using Flags = cub::BlockDiscontinuity<T, B>;
    using Change = cub::BlockAdjacentDifference<T, B>;
    using Count = cub::BlockHistogram<unsigned char, B, I, 16, A>;
    using Shuffle = cub::BlockShuffle<T, B>;
    __shared__ union {
        typename Exchange::TempStorage exchange; typename Flags::TempStorage flags; typename Change::TempStorage change;
        typename Count::TempStorage count; typename Shuffle::TempStorage shuffle;
    } room;
    __shared__ unsigned bins[16];
    T items[I], moved[I];
    int flags[I];
    const int t = threadIdx.x;
    for (int i = 0; i < I; ++i) items[i] = in[t * I + i];
    Exchange(room.exchange).BlockedToStriped(items, moved);
    for (int i = 0; i < I; ++i) out[t * I + i] = moved[i];
    __syncthreads();
    Exchange(room.exchange).StripedToBlocked(items, moved);
    for (int i = 0; i < I; ++i) out[B * I + t * I + i] = moved[i];
    __syncthreads();
    Flags(room.flags).FlagHeads(flags, items, Differs());
    for (int i = 0; i < I; ++i) out[2 * B * I + t * I + i] = flags[i];
    __syncthreads();
    Flags(room.flags).FlagTails(flags, items, Differs());
    for (int i = 0; i < I; ++i) out[3 * B * I + t * I + i] = flags[i];
    __syncthreads();
    Change(room.change).SubtractLeft(items, moved, Minus());
    for (int i = 0; i < I; ++i) out[4 * B * I + t * I + i] = moved[i];
    __syncthreads();
    unsigned char kinds[I];
    for (int i = 0; i < I; ++i) kinds[i] = (unsigned char)((int)items[i] & 15);
    Count(room.count).Histogram(kinds, bins);
    __syncthreads();
    for (int i = t; i < 16; i += B) out[6 * B * I + i] = bins[i];
    T other = T(0);
    Shuffle(room.shuffle).Offset(items[0], other, 1);
    out[5 * B * I + t] = t < B - 1 ? (int)other : 0;
}
"""


EXCHANGES = [("int", 64, 4, "ATOMIC"), ("short", 96, 3, "SORT"), ("float", 128, 1, "ATOMIC")]


def test_block_exchange_discontinuity_difference_and_histogram(run: Run) -> None:
    for number in range(len(EXCHANGES)):
        type, block, items, _ = EXCHANGES[number]
        count = block * items
        a = np.random.default_rng(1).integers(0, 4, count).cumsum().astype(TYPES[type]) // 2
        kernels = ["k<{}, {}, {}, cub::BLOCK_HISTO_{}>".format(*each) for each in EXCHANGES]
        found = run(EXCHANGE, kernels, number, a, np.zeros(6 * count + 16, "i4"), block)
        parts = found[: 6 * count].reshape(6, count)
        whole = a.astype("i4")
        assert (parts[0] == whole.reshape(items, block).T.ravel()).all()
        assert (parts[1] == whole.reshape(block, items).T.ravel()).all()
        differs = whole[1:] != whole[:-1]
        assert (parts[2] == np.append(True, differs)).all() and (parts[3] == np.append(differs, True)).all()
        assert (parts[4] == np.append(whole[0], np.diff(whole))).all()
        assert (parts[5, :block] == np.append(whole[::items][1:], 0)).all()
        assert (found[6 * count :] == np.bincount(whole & 15, minlength=16)).all()


WARP = """
#include <cub/warp/warp_reduce.cuh>
#include <cub/warp/warp_scan.cuh>
#include <cub/warp/warp_merge_sort.cuh>
#include <cub/warp/warp_exchange.cuh>
struct Less { template <typename T> __device__ bool operator()(T a, T b) const { return a < b; } };
struct Larger { template <typename T> __device__ T operator()(T a, T b) const { return a < b ? b : a; } };
template <typename T, int W, int I> __global__ void k(const T *in, T *out)
{
    using Reduce = cub::WarpReduce<T, W>;
    using Scan = cub::WarpScan<T, W>;
    using Sort = cub::WarpMergeSort<T, I, W>;
    using Exchange = cub::WarpExchange<T, I, W>;
    constexpr int N = 128 / W;
    __shared__ typename Reduce::TempStorage reduce[N];
    __shared__ typename Scan::TempStorage scan[N];
    __shared__ typename Sort::TempStorage sort[N];
    __shared__ typename Exchange::TempStorage exchange[N];
    const int t = threadIdx.x, w = t / W, count = 128 * I;
    T items[I], sum, before;
    for (int i = 0; i < I; ++i) items[i] = in[t * I + i];
    T whole = Reduce(reduce[w]).Sum(items[0]);
    __syncwarp();
    T most = Reduce(reduce[w]).Reduce(items[0], Larger());
    Scan(scan[w]).InclusiveSum(items[0], sum);
    __syncwarp();
    Scan(scan[w]).ExclusiveScan(items[0], before, T(1), Larger());
    if (t % W == 0) { out[t] = whole; out[128 + t] = most; }
    out[256 + t] = sum;
    out[384 + t] = before;
    __syncwarp();
    Sort(sort[w]).Sort(items, Less());
    for (int i = 0; i < I; ++i) out[512 + t * I + i] = items[i];
    __syncwarp();
    Exchange(exchange[w]).BlockedToStriped(items, items);
    for (int i = 0; i < I; ++i) out[512 + count + t * I + i] = items[i];
}
"""


WARPS = [("int", 32, 2), ("float", 16, 3), ("double", 8, 1), ("unsigned char", 32, 4), ("short", 4, 2)]


def test_warp_primitives(run: Run) -> None:
    for number in range(len(WARPS)):
        type, width, items = WARPS[number]
        a = numbers(type, 128 * items)
        count = a.size
        kernels = ["k<{}, {}, {}>".format(*each) for each in WARPS]
        found = run(WARP, kernels, number, a, np.zeros(512 + 2 * count, a.dtype), 128)
        first = a.reshape(128, items)[:, 0].reshape(-1, width)
        assert (found[:128:width] == first.sum(1, dtype=a.dtype)).all() and (found[128:256:width] == first.max(1)).all()
        assert (found[256:384].reshape(-1, width) == first.cumsum(1, dtype=a.dtype)).all()
        before = np.maximum.accumulate(np.concatenate([np.ones((len(first), 1), a.dtype), first], 1), 1)[:, :-1]
        assert (found[384:512].reshape(-1, width) == before).all()
        ordered = np.sort(a.reshape(-1, width * items), 1)
        assert (found[512 : 512 + count].reshape(ordered.shape) == ordered).all()
        striped = ordered.reshape(-1, items, width).transpose(0, 2, 1).reshape(ordered.shape)
        assert (found[512 + count :].reshape(ordered.shape) == striped).all()
