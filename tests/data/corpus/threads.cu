// Threads that synchronize: shared memory, warps, blocks, a whole grid.
#include <stdint.h>
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
#include <cuda_pipeline.h>
namespace cg = cooperative_groups;
#define ALL 0xffffffffu
#define HERE (blockIdx.x * blockDim.x + threadIdx.x)
template <class T> __device__ void transpose_tile(T *to, const T *from, int w, int h) {
    __shared__ T tile[16][17];
    int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
    if (x < w && y < h) tile[threadIdx.y][threadIdx.x] = from[y * w + x];
    __syncthreads();
    x = blockIdx.y * 16 + threadIdx.x; y = blockIdx.x * 16 + threadIdx.y;
    if (x < h && y < w) to[y * h + x] = tile[threadIdx.x][threadIdx.y];
}
extern "C" __global__ void transpose_float(float *to, const float *from, int w, int h) { transpose_tile(to, from, w, h); }
extern "C" __global__ void transpose_byte(uint8_t *to, const uint8_t *from, int w, int h) { transpose_tile(to, from, w, h); }
extern "C" __global__ void transpose_double2(double2 *to, const double2 *from, int w, int h) { transpose_tile(to, from, w, h); }
template <class T> __device__ T block_reduce(T v) {
    __shared__ T part[32];
    for (int k = 16; k; k >>= 1) v += __shfl_down_sync(ALL, v, k);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
    __syncthreads();
    v = threadIdx.x < blockDim.x / 32 ? part[threadIdx.x] : T(0);
    if (threadIdx.x < 32) for (int k = 16; k; k >>= 1) v += __shfl_xor_sync(ALL, v, k);
    return v;
}
#define REDUCE(name, type) extern "C" __global__ void name(type *out, const type *in, int n) {  \
    type v = 0;                                                                                 \
    for (int i = HERE; i < n; i += gridDim.x * blockDim.x) v += in[i];                          \
    v = block_reduce(v);                                                                        \
    if (threadIdx.x == 0) out[blockIdx.x] = v; }
REDUCE(reduce_int, int)
REDUCE(reduce_float, float)
REDUCE(reduce_double, double)
REDUCE(reduce_long, long long)
extern "C" __global__ void tree_reduce(int *out, const int *in) {      // one barrier for each step, a grid of blocks
    extern __shared__ int shared[];
    shared[threadIdx.x] = in[HERE];
    __syncthreads();
    for (int s = blockDim.x / 2; s; s >>= 1) { if (threadIdx.x < s) shared[threadIdx.x] = max(shared[threadIdx.x], shared[threadIdx.x + s]); __syncthreads(); }
    if (!threadIdx.x) atomicMax(out, shared[0]);
}
extern "C" __global__ void scan_block(int *out, const int *in) {       // Hillis and Steele, dynamic shared memory of two types
    extern __shared__ __align__(16) unsigned char raw[];
    int *a = (int *)raw, *b = a + blockDim.x; short *last = (short *)(b + blockDim.x);
    int t = threadIdx.x;
    a[t] = in[HERE];
    __syncthreads();
    for (unsigned k = 1; k < blockDim.x; k *= 2) {
        b[t] = t >= k ? a[t] + a[t - k] : a[t];
        __syncthreads();
        int *s = a; a = b; b = s;
    }
    if (t == blockDim.x - 1) *last = (short)a[t];
    __syncthreads();
    out[HERE] = a[t] * 2 - *last;
}
extern "C" __global__ void matrix_product(float *C, const float *A, const float *B, int n) {
    __shared__ float a[8][8], b[8][8];
    int x = blockIdx.x * 8 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
    float sum = 0;
    for (int k = 0; k < n; k += 8) {
        a[threadIdx.y][threadIdx.x] = A[y * n + k + threadIdx.x];
        b[threadIdx.y][threadIdx.x] = B[(k + threadIdx.y) * n + x];
        __syncthreads();
#pragma unroll
        for (int j = 0; j < 8; j++) sum += a[threadIdx.y][j] * b[j][threadIdx.x];
        __syncthreads();
    }
    C[y * n + x] = sum;
}
extern "C" __global__ void histogram_shared(unsigned *bins, const uint8_t *in, int n) {
    __shared__ unsigned part[64];
    for (int i = threadIdx.x; i < 64; i += blockDim.x) part[i] = 0;
    __syncthreads();
    for (int i = HERE; i < n; i += gridDim.x * blockDim.x) atomicAdd(&part[in[i] >> 2], 1);
    __syncthreads();
    for (int i = threadIdx.x; i < 64; i += blockDim.x) atomicAdd(&bins[i], part[i]);
}
extern "C" __global__ void shuffles(int *out, const int *in) {
    int t = threadIdx.x, v = in[t], *o = out + t * 10;
    o[0] = __shfl_sync(ALL, v, 5); o[1] = __shfl_sync(ALL, v, t + 3, 8); o[2] = __shfl_up_sync(ALL, v, 2, 16); o[3] = __shfl_down_sync(ALL, v, 3, 4);
    o[4] = __shfl_xor_sync(ALL, v, 7); o[5] = __shfl_xor_sync(ALL, v, 20, 16);
    double d = __shfl_sync(ALL, v * 0.5, 31 - t); long long q = __shfl_up_sync(ALL, (long long)v << 33, 1);
    o[6] = (int)(d * 2); o[7] = (int)(q >> 33); o[8] = __shfl_sync(ALL, v, -1); o[9] = 0;
    if (t & 1) o[9] = __shfl_sync(0xaaaaaaaa, v, 3);
}
extern "C" __global__ void votes(unsigned *out, const int *in) {
    int t = threadIdx.x, v = in[t]; unsigned *o = out + t * 12; int same;
    o[0] = __ballot_sync(ALL, v & 1); o[1] = __any_sync(ALL, v > 90); o[2] = __all_sync(ALL, v >= 0); o[3] = __match_any_sync(ALL, v & 3);
    o[4] = __match_all_sync(ALL, v > -1, &same); o[5] = same; o[6] = __match_any_sync(ALL, (long long)(v & 1) << 40); o[7] = 0; o[8] = 0;
    if (t < 10) { o[7] = __ballot_sync(0x3ff, v & 2); o[8] = __popc(__activemask()); }
    __syncwarp();
    o[9] = __syncthreads_count(v & 1); o[10] = __syncthreads_and(v >= 0) * 2 + __syncthreads_or(v == 1234567); o[11] = __match_all_sync(ALL, v, &same) + same;
}
extern "C" __global__ void warp_reduce(int *out, const int *in) {
#if __CUDA_ARCH__ >= 800
    int v = in[HERE]; int *o = out + HERE * 7; unsigned u = v;
    o[0] = __reduce_add_sync(ALL, v); o[1] = __reduce_min_sync(ALL, v); o[2] = __reduce_max_sync(ALL, v); o[3] = __reduce_and_sync(ALL, u);
    o[4] = __reduce_or_sync(ALL, u); o[5] = __reduce_xor_sync(ALL, u); o[6] = 0;
    if (threadIdx.x % 32 < 7) o[6] = __reduce_max_sync(0x7f, u);
#endif
}
extern "C" __global__ void groups(int *out, const int *in) {
    auto block = cg::this_thread_block(); auto tile = cg::tiled_partition<8>(block); int v = in[HERE], *o = out + HERE * 6;
    o[0] = cg::reduce(tile, v, cg::plus<int>()); o[1] = cg::reduce(tile, v, cg::less<int>()); o[2] = cg::inclusive_scan(tile, v);
    o[3] = tile.shfl_xor(v, 3); o[4] = tile.meta_group_rank() * 100 + tile.thread_rank(); o[5] = 0;
    if (v & 1) { auto active = cg::coalesced_threads(); o[5] = active.size() * 100 + active.thread_rank(); }
}
extern "C" __global__ void grid_sync(int *data, int rounds) {
    auto grid = cg::this_grid(); int n = grid.size(), i = grid.thread_rank();
    for (int k = 0; k < rounds; k++) { int v = data[(i + 1) % n]; grid.sync(); data[i] += v; grid.sync(); }
}
extern "C" __global__ void pipeline(int *out, const int *in, int n) {          // cp.async where there is one
    __shared__ __align__(16) int stage[2][128];
    int t = threadIdx.x, sum = 0;
    __pipeline_memcpy_async(&stage[0][t * 4], in + t * 4, 16); __pipeline_commit();
    for (int k = 0; k < n; k++) {
        if (k + 1 < n) __pipeline_memcpy_async(&stage[(k + 1) & 1][t * 4], in + (k + 1) * 128 + t * 4, 16);
        __pipeline_commit(); __pipeline_wait_prior(1); __syncthreads();
        for (int j = 0; j < 4; j++) sum += stage[k & 1][(t * 4 + j * 33) % 128] * (k + 1);
        __syncthreads();
    }
    out[t] = sum;
}
extern "C" __global__ void last_block(int *out, const int *in, int *counter, volatile int *part) {     // a fence and a ticket
    __shared__ bool last;
    int v = block_reduce(in[HERE]);
    if (threadIdx.x == 0) { part[blockIdx.x] = v; __threadfence(); last = atomicAdd(counter, 1) == gridDim.x - 1; }
    __syncthreads();
    if (last && threadIdx.x == 0) { int s = 0; for (int k = 0; k < gridDim.x; k++) s += part[k]; *out = s; }
}
extern "C" __global__ void named_barriers(int *out) {     // each half of a block uses its own barrier
    __shared__ int s[128];
    int t = threadIdx.x, half = t / 64;
    s[t] = t * t;
    asm volatile("bar.sync %0, 64;" ::"r"(half + 1) : "memory");
    out[t] = s[half * 64 + 63 - t % 64];
}
extern "C" __global__ void aggregate(int *counter, int *out, const int *in) {   // one atomic for each warp
    int t = threadIdx.x;
    if (in[t] % 3 == 0) {
        unsigned mask = __activemask(); int leader = __ffs(mask) - 1, lane = t & 31, base = 0;
        if (lane == leader) base = atomicAdd(counter, __popc(mask));
        base = __shfl_sync(mask, base, leader);
        out[base + __popc(mask & ((1u << lane) - 1))] = in[t];
    }
}
