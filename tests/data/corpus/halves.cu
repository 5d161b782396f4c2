// Half precision and bfloat16: out[i] = f(a[i], b[i], c[i]) on bit patterns.
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#define MAP(name, to, type, expression)                                                              \
    extern "C" __global__ void name(to *out, const type *a, const type *b, const type *c, int n) {   \
        int i = blockIdx.x * blockDim.x + threadIdx.x;                                               \
        if (i >= n) return;                                                                          \
        type x = a[i], y = b[i], z = c[i];                                                           \
        (void)y; (void)z;                                                                            \
        out[i] = (expression);                                                                       \
    }
#define BOTH(p, t, t2)                                       \
    MAP(p##_add, t, t, __hadd(x, y))                         \
    MAP(p##_sub, t, t, __hsub(x, y))                         \
    MAP(p##_mul, t, t, __hmul(x, y))                         \
    MAP(p##_fma, t, t, __hfma(x, y, z))                      \
    MAP(p##_div, t, t, __hdiv(x, y))                         \
    MAP(p##_min, t, t, __hmin(x, y))                         \
    MAP(p##_max_nan, t, t, __hmax_nan(x, y))                 \
    MAP(p##_neg, t, t, __hneg(x))                            \
    MAP(p##_abs, t, t, __habs(x))                            \
    MAP(p##_fma_relu, t, t, __hfma_relu(x, y, z))            \
    MAP(p##_add_sat, t, t, __hadd_sat(x, y))                 \
    MAP(p##_sqrt, t, t, hsqrt(x))                            \
    MAP(p##_rcp, t, t, hrcp(x))                              \
    MAP(p##_floor, t, t, hfloor(x))                          \
    MAP(p##_rint, t, t, hrint(x))                            \
    MAP(p##_trunc, t, t, htrunc(x))                          \
    MAP(p##_compare, int, t, (__hlt(x, y) ? 1 : 0) | (__hge(x, y) ? 2 : 0) | (__hne(x, y) ? 4 : 0) | (__hequ(x, y) ? 8 : 0) | (__hisnan(x) ? 16 : 0) | (__hgtu(x, y) ? 32 : 0))
BOTH(f16, __half, __half2)
#define NEW (!defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800)        // bfloat16 arithmetic needs sm_80
#if NEW
BOTH(bf16, __nv_bfloat16, __nv_bfloat162)
MAP(bf16_exp, __nv_bfloat16, __nv_bfloat16, hexp(x))
MAP(bf16_cos, __nv_bfloat16, __nv_bfloat16, hcos(x))
MAP(bf16_pairs, __nv_bfloat162, __nv_bfloat162, __hfma2(x, y, __hsub2(z, __hmul2(x, x))))
MAP(bf16_pair_masks, unsigned, __nv_bfloat162, __hge2_mask(x, y) ^ (__hbne2(y, z) ? 0xff00ffu : 0))
#endif
MAP(f16_exp, __half, __half, hexp(x))
MAP(f16_log2, __half, __half, hlog2(x))
MAP(f16_sin, __half, __half, hsin(x))
// pairs
MAP(f16_pairs, __half2, __half2, __hfma2(x, y, __hsub2(z, __hmul2(x, x))))
MAP(f16_pair_swap, __half2, __half2, __lowhigh2highlow(__hmax2(x, y)))
MAP(f16_pair_masks, unsigned, __half2, __hlt2_mask(x, y) ^ (__hbeq2(y, z) ? 0xff00ffu : 0))
// conversions
MAP(f16_to_f32, float, __half, __half2float(x))
MAP(f32_to_f16, __half, float, __float2half(x))
MAP(f32_to_f16_up, __half, float, __float2half_ru(x))
MAP(f32_to_f16_down, __half, float, __float2half_rd(x))
MAP(f32_to_f16_zero, __half, float, __float2half_rz(x))
MAP(f64_to_f16, __half, double, __double2half(x))
MAP(i32_to_f16, __half, int, __int2half_rn(x))
MAP(u64_to_f16, __half, unsigned long long, __ull2half_ru(x))
MAP(f16_to_i32, int, __half, __half2int_rd(x))
MAP(f16_to_u16, unsigned short, __half, __half2ushort_rz(x))
MAP(f16_to_i64, long long, __half, __half2ll_rn(x))
MAP(bf16_to_f32, float, __nv_bfloat16, __bfloat162float(x))
MAP(f32_to_bf16, __nv_bfloat16, float, __float2bfloat16(x))
MAP(f32_to_bf16_zero, __nv_bfloat16, float, __float2bfloat16_rz(x))
MAP(f32_to_bf16_up, __nv_bfloat16, float, __float2bfloat16_ru(x))
MAP(f64_to_bf16, __nv_bfloat16, double, __double2bfloat16(x))
MAP(i32_to_bf16, __nv_bfloat16, int, __int2bfloat16_rn(x))
MAP(bf16_to_i32, int, __nv_bfloat16, __bfloat162int_rz(x))
MAP(f32s_to_pair, __half2, float2, __float22half2_rn(x))
MAP(f32s_to_bf16_pair, __nv_bfloat162, float2, __float22bfloat162_rn(x))
MAP(pair_to_f32s, float2, __half2, __half22float2(x))
