// Arithmetic and conversions, one output array a kernel: out[i] = f(a[i], b[i], c[i]).
#include <stdint.h>
#define MAP(name, to, from, expression)                                                             \
    extern "C" __global__ void name(to *out, const from *a, const from *b, const from *c, int n) {  \
        int i = blockIdx.x * blockDim.x + threadIdx.x;                                               \
        if (i >= n) return;                                                                          \
        from x = a[i], y = b[i], z = c[i];                                                           \
        (void)y; (void)z;                                                                            \
        out[i] = (expression);                                                                       \
    }
// integers
MAP(i32_mix, int, int, (x + y) * z - (x ^ y) + (x & z) - (~y | z))
MAP(i32_divide, int, int, x / (y | 1) + x % (z | 1))
MAP(u32_divide, uint32_t, uint32_t, x / (y | 1) ^ x % (z | 1))
MAP(i32_shift, int, int, (x << (y & 31)) ^ (x >> (z & 31)))
MAP(u32_high, uint32_t, uint32_t, __umulhi(x, y) + __popc(z) + __clz(x) + __ffs(y) + __brev(z))
MAP(i32_extremes, int, int, max(min(x, y), z) + abs(z) + __sad(x, y, 5))
MAP(i64_mix, long long, long long, (x + y) * z - (x ^ y) / (z | 1) + x % (y | 3))
MAP(u64_mix, unsigned long long, unsigned long long, (x * y) ^ __umul64hi(x, z) ^ (x / (y | 1)) ^ (x % (z | 1)))
MAP(i64_high, long long, long long, __mul64hi(x, y) + __popcll(z) + __clzll(x) + (x >> (y & 63)) + (x << (z & 63)))
MAP(u32_bytes, uint32_t, uint32_t, __byte_perm(x, y, z) + __vadd4(x, y) + __vmaxu2(y, z))
MAP(u32_funnel, uint32_t, uint32_t, __funnelshift_l(x, y, z) ^ __funnelshift_r(y, x, z) ^ __funnelshift_lc(x, y, z & 63))
MAP(i32_dot, int, int, __dp4a(x, y, z) + __dp2a_lo(x, y, z))
MAP(i16_mix, short, short, (short)(x * y + (z >> 3) - (x / (y | 1))))
MAP(u8_mix, unsigned char, unsigned char, (unsigned char)(x * y + (z >> 1) - (x % (y | 1))))
// float32
MAP(f32_mix, float, float, x * y + z - x / y)
MAP(f32_fma, float, float, fmaf(x, y, z))
MAP(f32_add_up, float, float, __fadd_ru(x, y))
MAP(f32_add_down, float, float, __fadd_rd(x, y))
MAP(f32_mul_zero, float, float, __fmul_rz(x, y))
MAP(f32_div_up, float, float, __fdiv_ru(x, y))
MAP(f32_fma_down, float, float, __fmaf_rd(x, y, z))
MAP(f32_sqrt, float, float, sqrtf(fabsf(x)))
MAP(f32_sqrt_up, float, float, __fsqrt_ru(fabsf(x)))
MAP(f32_rcp_down, float, float, __frcp_rd(x))
MAP(f32_extremes, float, float, fmaxf(fminf(x, y), z) + copysignf(x, y))
MAP(f32_whole, float, float, floorf(x) + ceilf(y) + truncf(z) + rintf(x))
MAP(f32_round, float, float, roundf(x))
MAP(f32_classes, int, float, isnan(x) + 2 * isinf(y) + 4 * isfinite(z) + 8 * signbit(x))
// float64
MAP(f64_mix, double, double, x * y + z - x / y)
MAP(f64_fma, double, double, fma(x, y, z))
MAP(f64_add_up, double, double, __dadd_ru(x, y))
MAP(f64_mul_down, double, double, __dmul_rd(x, y))
MAP(f64_div_zero, double, double, __ddiv_rz(x, y))
MAP(f64_sqrt, double, double, sqrt(fabs(x)))
MAP(f64_extremes, double, double, fmax(fmin(x, y), z) + floor(x) + rint(y))
// conversions
MAP(f32_to_i32, int, float, (int)x)
MAP(f32_to_u32, unsigned, float, (unsigned)x)
MAP(f32_to_i64, long long, float, (long long)x)
MAP(f32_to_u8, unsigned char, float, (unsigned char)x)
MAP(f32_to_near, int, float, __float2int_rn(x) + __float2int_ru(y) + __float2int_rd(z))
MAP(i32_to_f32, float, int, (float)x)
MAP(u64_to_f32, float, unsigned long long, (float)x)
MAP(i64_to_f32_up, float, long long, __ll2float_ru(x))
MAP(i64_to_f64, double, long long, (double)x)
MAP(f64_to_f32, float, double, (float)x)
MAP(f64_to_f32_zero, float, double, __double2float_rz(x))
MAP(f32_to_f64, double, float, (double)x)
MAP(f64_to_i64, long long, double, (long long)x)
MAP(f64_bits, long long, double, __double_as_longlong(x) ^ __float_as_int((float)y))
