// Cooperative groups and cuda::atomic_ref, which are right. groups.ptx is compiled from this, because the headers of both
// are in a package of their own: rawcuda compile --arch sm_80 groups.cu
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cuda/atomic>
namespace cg = cooperative_groups;

extern "C" __global__ void grid_barrier(int *data, int n)
{
    cg::grid_group grid = cg::this_grid();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    data[i] = i;
    grid.sync();
    int v = data[n - 1 - i];
    grid.sync();
    data[i] = v;
}

extern "C" __global__ void tiles(const int *in, int *out)
{
    __shared__ int held[64];
    cg::thread_block block = cg::this_thread_block();
    cg::thread_block_tile<8> tile = cg::tiled_partition<8>(block);
    int t = block.thread_rank();
    held[t] = in[t];
    tile.sync();
    int v = held[t ^ 7];
    for (int step = tile.size() / 2; step; step /= 2)
        v += tile.shfl_down(v, step);
    block.sync();
    if (tile.thread_rank() == 0)
        out[t / 8] = v;
    cg::coalesced_group active = cg::coalesced_threads();
    if (active.thread_rank() == 0)
        atomicAdd(&out[8], (int)active.size());
}

extern "C" __global__ void atomic_message(int *data, int *flag, int *out)
{
    cuda::atomic_ref<int, cuda::thread_scope_device> ready(*flag);
    if (threadIdx.x)
        return;
    if (blockIdx.x == 0) {
        data[0] = 5;
        ready.store(1, cuda::memory_order_release);
    } else {
        while (ready.load(cuda::memory_order_acquire) == 0) {
        }
        out[blockIdx.x] = data[0];
    }
}

extern "C" __global__ void atomic_lock(int *lock, int *total)
{
    cuda::atomic_ref<int, cuda::thread_scope_device> held(*lock);
    if (threadIdx.x == 0) {
        while (held.exchange(1, cuda::memory_order_acquire)) {
        }
        *total += 1;
        held.store(0, cuda::memory_order_release);
    }
}

extern "C" __global__ void reduced(const int *in, int *out)
{
    auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    int sum = cg::reduce(warp, in[threadIdx.x], cg::plus<int>());
    if (warp.thread_rank() == 0)
        out[threadIdx.x / 32] = sum;
}
