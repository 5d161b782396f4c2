// Threads together: warps, blocks, atomics, divergence, loops of every shape.
#include <stdint.h>
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
extern "C" __global__ void block_sum(const float *in, float *out, int n) {
    __shared__ float parts[32];
    float sum = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) sum += in[i];
    for (int k = 16; k; k >>= 1) sum += __shfl_down_sync(~0u, sum, k);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x < 32) {
        sum = threadIdx.x < blockDim.x / 32 ? parts[threadIdx.x] : 0;
        for (int k = 16; k; k >>= 1) sum += __shfl_xor_sync(~0u, sum, k);
        if (threadIdx.x == 0) out[blockIdx.x] = sum;
    }
}
extern "C" __global__ void scan_warp(const int *in, int *out) {
    int v = in[threadIdx.x];
    for (int k = 1; k < 32; k *= 2) { int u = __shfl_up_sync(~0u, v, k); if ((threadIdx.x & 31) >= k) v += u; }
    out[threadIdx.x] = v;
}
extern "C" __global__ void votes(const int *in, unsigned *out) {
    int v = in[threadIdx.x];
    unsigned b = __ballot_sync(~0u, v & 1);
    out[threadIdx.x * 4] = b;
    out[threadIdx.x * 4 + 1] = __any_sync(~0u, v > 90) | __all_sync(~0u, v >= 0) << 1;
    out[threadIdx.x * 4 + 2] = __match_any_sync(~0u, v & 3);
    out[threadIdx.x * 4 + 3] = (threadIdx.x & 1) ? __activemask() : __popc(b);
}
extern "C" __global__ void histogram(const unsigned char *in, unsigned *bins, int n) {
    __shared__ unsigned part[16];
    if (threadIdx.x < 16) part[threadIdx.x] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&part[in[i] & 15], 1u);
    __syncthreads();
    if (threadIdx.x < 16) atomicAdd(&bins[threadIdx.x], part[threadIdx.x]);
}
extern "C" __global__ void atomics(int *s, unsigned *u, unsigned long long *w, float *f, double *d) {
    int i = threadIdx.x;
    atomicAdd(&s[0], i); atomicSub(&s[1], i); atomicMin(&s[2], 5 - i); atomicMax(&s[3], i - 5);
    atomicAnd(&s[4], ~(1 << i)); atomicOr(&s[5], 1 << i); atomicXor(&s[6], i); s[8 + i] = atomicExch(&s[7], i);
    atomicInc(&u[0], 20); atomicDec(&u[1], 20); atomicMin(&u[2], i * 77u); atomicMax(&u[3], i * 77u);
    atomicCAS(&u[4], i, i + 1);
    atomicAdd(&w[0], 1ull << i); atomicMax(&w[1], (unsigned long long)i << 33); atomicCAS(&w[2], (unsigned long long)i, i + 1ull);
    atomicAdd(f, i * 0.5f);
    unsigned long long *bits = (unsigned long long *)d, old = *bits, seen;
    do { seen = old; old = atomicCAS(bits, seen, __double_as_longlong(__longlong_as_double(seen) + i)); } while (seen != old);
}
extern "C" __global__ void collatz(const unsigned *in, unsigned *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned x = in[i], steps = 0;
    while (x != 1) { if (x & 1) x = 3 * x + 1; else x >>= 1; if (++steps > 1000) break; }
    out[i] = steps;
}
extern "C" __global__ void switches(const int *in, int *out, int n) {
    int i = threadIdx.x, v = 0;
    if (i >= n) return;
    for (int k = 0; k < in[i]; k++) {
        switch ((k + i) % 7) {
        case 0: v += 3; break;
        case 1: v ^= 0x55; continue;
        case 2: v -= k; /* falls through */
        case 3: v *= 3; break;
        case 4: if (v > 100000) { v /= 10; goto done; } break;
        case 5: for (int j = 0; j < 3; j++) { if (j == k) break; v += j; } break;
        default: v = -v;
        }
        v += 1;
    }
done:
    out[i] = v;
}
extern "C" __global__ void spin_lock(int *lock, int *count) {
    bool done = false;
    while (!done) {
        if (atomicCAS(lock, 0, 1) == 0) { *(volatile int *)count = *(volatile int *)count + 1; __threadfence(); atomicExch(lock, 0); done = true; }
    }
}
extern "C" __global__ void hand_over(volatile int *flag, int *out) {
    if (blockIdx.x == 0) { while (*flag == 0) { } out[threadIdx.x] = *flag; }
    else if (threadIdx.x == 0) { __threadfence(); *flag = 17; }
}
extern "C" __global__ void grid_wide(int *data, int n) {
    cg::grid_group grid = cg::this_grid();
    int i = grid.thread_rank();
    if (i < n) data[i] += 1;
    grid.sync();
    int other = i < n ? data[n - 1 - i] : 0;
    grid.sync();
    if (i < n) data[i] += other * 10;
}
extern "C" __global__ void tiles(int *out) {
    auto tile = cg::tiled_partition<8>(cg::this_thread_block());
    int v = threadIdx.x;
    for (int k = 4; k; k /= 2) v += tile.shfl_down(v, k);
    out[threadIdx.x] = tile.shfl(v, 0) + tile.any(threadIdx.x == 9);
}
extern "C" __global__ void missing_barrier(int *out) {
    __shared__ int kept[64];
    kept[threadIdx.x] = threadIdx.x;
    out[threadIdx.x] = kept[63 - threadIdx.x];
}
extern "C" __global__ void half_a_barrier(int *out) {
    if (threadIdx.x < 16) { asm volatile("bar.sync 1, 64;"); }
    out[threadIdx.x] = 1;
}
