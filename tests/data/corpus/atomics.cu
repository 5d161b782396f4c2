// Every atomic operation, on global and on shared memory; the returned values are stored, too.
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#define ATOMIC(name, type, operation)                                                                     \
    extern "C" __global__ void name(type *cell, type *seen, const type *value, int n) {                   \
        int i = blockIdx.x * blockDim.x + threadIdx.x;                                                    \
        if (i < n) { type v = value[i]; (void)v; seen[i] = operation; } }                                 \
    extern "C" __global__ void name##_shared(type *out, type *seen, const type *value, int n) {           \
        __shared__ type kept[1]; type *cell = kept; int i = threadIdx.x;                                  \
        if (i == 0) kept[0] = out[0];                                                                     \
        __syncthreads();                                                                                  \
        if (i < n) { type v = value[i]; (void)v; seen[i] = operation; }                                   \
        __syncthreads();                                                                                  \
        if (i == 0) out[0] = kept[0]; }                                                                   \
    extern "C" __global__ void name##_unread(type *cell, const type *value, int n) {                      \
        int i = blockIdx.x * blockDim.x + threadIdx.x;                                                    \
        if (i < n) { type v = value[i]; (void)v; (void)(operation); } }
typedef unsigned long long u64;
typedef long long i64;
ATOMIC(add_i32, int, atomicAdd(cell, v))
ATOMIC(sub_u32, unsigned, atomicSub(cell, v))
ATOMIC(min_i32, int, atomicMin(cell, v))
ATOMIC(max_u32, unsigned, atomicMax(cell, v))
ATOMIC(and_b32, unsigned, atomicAnd(cell, v))
ATOMIC(or_b32, unsigned, atomicOr(cell, v))
ATOMIC(xor_b32, unsigned, atomicXor(cell, v))
ATOMIC(exch_b32, int, atomicExch(cell, v))
ATOMIC(cas_b32, unsigned, atomicCAS(cell, v, v + 1))
ATOMIC(inc_u32, unsigned, atomicInc(cell, v))
ATOMIC(dec_u32, unsigned, atomicDec(cell, v))
ATOMIC(add_u64, u64, atomicAdd(cell, v))
ATOMIC(min_i64, i64, atomicMin(cell, v))
ATOMIC(max_u64, u64, atomicMax(cell, v))
ATOMIC(and_b64, u64, atomicAnd(cell, v))
ATOMIC(or_b64, u64, atomicOr(cell, v))
ATOMIC(xor_b64, u64, atomicXor(cell, v))
ATOMIC(exch_b64, u64, atomicExch(cell, v))
ATOMIC(cas_b64, u64, atomicCAS(cell, v, v * 2))
ATOMIC(cas_b16, unsigned short, atomicCAS(cell, v, (unsigned short)(v + 1)))
ATOMIC(add_f32, float, atomicAdd(cell, v))
ATOMIC(exch_f32, float, atomicExch(cell, v))
ATOMIC(add_f64, double, atomicAdd(cell, v))
ATOMIC(add_f16, __half, atomicAdd(cell, v))
ATOMIC(add_f16x2, __half2, atomicAdd(cell, v))
ATOMIC(add_bf16, __nv_bfloat16, atomicAdd(cell, v))
ATOMIC(add_bf16x2, __nv_bfloat162, atomicAdd(cell, v))
ATOMIC(block_add, int, atomicAdd_block(cell, v))
ATOMIC(system_max, int, atomicMax_system(cell, v))
#if __CUDA_ARCH__ >= 900
extern "C" __global__ void add_float4(float4 *cell, float4 *seen, const float4 *value, int n) {
    int i = threadIdx.x;
    if (i < n) seen[i] = atomicAdd(cell, value[i]);
}
extern "C" __global__ void add_float2(float2 *cell, float2 *seen, const float2 *value, int n) {
    int i = threadIdx.x;
    if (i < n) seen[i] = atomicAdd(cell, value[i]);
}
#endif
extern "C" __global__ void max_float(float *cell, const float *value, int n) {      // through compare and swap
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int *bits = (int *)cell, old = *bits, seen;
    do { seen = old; if (__int_as_float(seen) >= value[i]) break; old = atomicCAS(bits, seen, __float_as_int(value[i])); } while (seen != old);
}
extern "C" __global__ void lock_step(int *lock, int *shared_count) {                // one thread after another, by a lock
    for (bool done = false; !done;) {
        if (atomicCAS(lock, 0, 1) == 0) { int v = *(volatile int *)shared_count; *(volatile int *)shared_count = v + 1; __threadfence(); atomicExch(lock, 0); done = true; }
    }
}
