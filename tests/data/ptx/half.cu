// Half precision and bfloat16.
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#define MAP(name, type, expression)                                                                    \
    extern "C" __global__ void name(type *out, const type *a, const type *b, const type *c, int n) {  \
        int i = blockIdx.x * blockDim.x + threadIdx.x;                                                 \
        if (i >= n) return;                                                                            \
        type x = a[i], y = b[i], z = c[i];                                                             \
        (void)y; (void)z;                                                                              \
        out[i] = (expression);                                                                         \
    }
MAP(f16_add, __half, __hadd(x, y))
MAP(f16_sub, __half, __hsub(x, y))
MAP(f16_mul, __half, __hmul(x, y))
MAP(f16_fma, __half, __hfma(x, y, z))
MAP(f16_div, __half, __hdiv(x, y))
MAP(f16_saturate, __half, __hadd_sat(x, y))
MAP(f16_extremes, __half, __hmax(__hmin(x, y), z))
MAP(f16_compare, __half, __hlt(x, y) ? __hneg(z) : __habs(x))
MAP(f16_sqrt, __half, hsqrt(__habs(x)))
MAP(f16_through_f32, __half, __float2half(__half2float(x) * 1.5f))
MAP(f16_whole, __half, __int2half_rn(__half2int_rz(x)))
MAP(f16_pair, __half2, __hfma2(x, y, __hadd2(z, __h2div(x, y))))
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
MAP(bf16_add, __nv_bfloat16, __hadd(x, y))
MAP(bf16_mul, __nv_bfloat16, __hmul(x, y))
MAP(bf16_fma, __nv_bfloat16, __hfma(x, y, z))
MAP(bf16_through_f32, __nv_bfloat16, __float2bfloat16(__bfloat162float(x) * 1.1f))
MAP(bf16_pair, __nv_bfloat162, __hadd2(__hmul2(x, y), z))
#endif
