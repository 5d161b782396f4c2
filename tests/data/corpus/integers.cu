// Integers and conversions: out[i] = f(a[i], b[i], c[i]).
#include <stdint.h>
#define MAP(name, to, from, expression)                                                             \
    extern "C" __global__ void k_##name(to *out, const from *a, const from *b, const from *c, int n) {  \
        int i = blockIdx.x * blockDim.x + threadIdx.x;                                               \
        if (i >= n) return;                                                                          \
        from x = a[i], y = b[i], z = c[i];                                                           \
        (void)y; (void)z;                                                                            \
        out[i] = (expression);                                                                       \
    }
typedef int8_t i8; typedef uint8_t u8; typedef int16_t i16; typedef uint16_t u16; typedef int32_t i32; typedef uint32_t u32;
typedef long long i64; typedef unsigned long long u64; typedef float f32; typedef double f64;
#define ALU(t)                              \
    MAP(t##_mul, t, t, x * y + z)           \
    MAP(t##_div, t, t, x / y)               \
    MAP(t##_mod, t, t, x % y)               \
    MAP(t##_bits, t, t, (x & ~y) ^ (x | z)) \
    MAP(t##_min, t, t, x < y ? x : y)
ALU(i8) ALU(u8) ALU(i16) ALU(u16) ALU(i32) ALU(u32) ALU(i64) ALU(u64)
MAP(i32_shifts, i32, i32, (x >> (y & 31)) + (i32)((u32)x << (z & 31)))
MAP(u64_shifts, u64, u64, (x >> (y & 63)) + (x << (z & 63)))
MAP(i64_shifts, i64, i64, x >> (y & 63))
MAP(u32_by_3, u32, u32, x / 3 + x % 10 + x / 1000003)
MAP(i64_by_7, i64, i64, x / 7 + x % 1000)
MAP(umulhi, u32, u32, __umulhi(x, y))
MAP(mulhi, i32, i32, __mulhi(x, y))
MAP(umul64hi, u64, u64, __umul64hi(x, y))
MAP(mul64hi, i64, i64, __mul64hi(x, y))
MAP(mul24, i32, i32, __mul24(x, y))
MAP(umul24, u32, u32, __umul24(x, y))
MAP(sad, u32, i32, __sad(x, y, (u32)z))
MAP(usad, u32, u32, __usad(x, y, z))
MAP(hadd, i32, i32, __hadd(x, y))
MAP(urhadd, u32, u32, __urhadd(x, y))
MAP(popc, i32, u32, __popc(x) * 100 + __clz(y))
MAP(popcll, i32, u64, __popcll(x) * 100 + __clzll(y))
MAP(ffs, i32, i32, __ffs(x) * 100 + __ffsll((i64)y << 20))
MAP(brev, u32, u32, __brev(x))
MAP(brevll, u64, u64, __brevll(x))
MAP(byte_perm, u32, u32, __byte_perm(x, y, z))
MAP(funnel_l, u32, u32, __funnelshift_l(x, y, z))
MAP(funnel_r, u32, u32, __funnelshift_r(x, y, z))
MAP(funnel_lc, u32, u32, __funnelshift_lc(x, y, z))
MAP(funnel_rc, u32, u32, __funnelshift_rc(x, y, z))
MAP(fns, u32, u32, __fns(x, y & 31, (i32)(z % 5) - 2))
MAP(dp4a, i32, i32, __dp4a(x, y, z))
MAP(dp4a_u, u32, u32, __dp4a(x, y, z))
MAP(dp2a_lo, i32, i32, __dp2a_lo(x, y, z))
MAP(dp2a_hi, u32, u32, __dp2a_hi(x, y, z))
MAP(vadd4, u32, u32, __vadd4(x, y))
MAP(vsubss2, u32, u32, __vsubss2(x, y))
MAP(vabsdiffu4, u32, u32, __vabsdiffu4(x, y))
MAP(vmaxs2, u32, u32, __vmaxs2(x, y))
MAP(vminu4, u32, u32, __vminu4(x, y))
MAP(vcmpgts4, u32, u32, __vcmpgts4(x, y))
MAP(wide_product, u64, u64, (u64)((unsigned __int128)x * y >> 70) ^ (u64)((unsigned __int128)x * z))
MAP(wide_quotient, u64, u64, (u64)((((unsigned __int128)x << 64) | y) / (z | 1)))
MAP(wide_sum, i64, i64, (i64)(((__int128)x + y - z) >> 3))
MAP(rotate, u32, u32, x << 7 | x >> 25)
MAP(fields, i32, i32, ((x << 5) >> 20) + ((u32)y << 3 >> 25) + (z >> 8 & 0xff))
MAP(divergent, u32, u32, x & 1 ? y / (z | 1) : y & 2 ? z * x : x ^ y)
__device__ u64 power(u64 b, u64 e, u64 m) { u64 r = 1; for (b %= m; e; e >>= 1) { if (e & 1) r = (u64)((unsigned __int128)r * b % m); b = (u64)((unsigned __int128)b * b % m); } return r; }
MAP(modular_power, u64, u64, power(x, y & 0xffff, z | 2))
// every pair of types, as C converts
#define FROM(f) extern "C" __global__ void from_##f(i8 *o0, u8 *o1, i16 *o2, u16 *o3, i32 *o4, u32 *o5, i64 *o6, u64 *o7, f32 *o8, f64 *o9, const f *in, int n) { \
    int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= n) return; f x = in[i];                                                \
    o0[i] = (i8)x; o1[i] = (u8)x; o2[i] = (i16)x; o3[i] = (u16)x; o4[i] = (i32)x; o5[i] = (u32)x; o6[i] = (i64)x; o7[i] = (u64)x; o8[i] = (f32)x; o9[i] = (f64)x; }
FROM(i8) FROM(u8) FROM(i16) FROM(u16) FROM(i32) FROM(u32) FROM(i64) FROM(u64) FROM(f32) FROM(f64)
// each rounding
#define ROUNDED(f, t, stem) extern "C" __global__ void stem(t *rn, t *rz, t *ru, t *rd, const f *in, int n) { \
    int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= n) return; f x = in[i];                           \
    rn[i] = __##stem##_rn(x); rz[i] = __##stem##_rz(x); ru[i] = __##stem##_ru(x); rd[i] = __##stem##_rd(x); }
ROUNDED(f32, i32, float2int) ROUNDED(f32, u32, float2uint) ROUNDED(f32, i64, float2ll) ROUNDED(f32, u64, float2ull)
ROUNDED(f64, i32, double2int) ROUNDED(f64, u32, double2uint) ROUNDED(f64, i64, double2ll) ROUNDED(f64, u64, double2ull)
ROUNDED(i32, f32, int2float) ROUNDED(u32, f32, uint2float) ROUNDED(i64, f32, ll2float) ROUNDED(u64, f32, ull2float)
ROUNDED(i64, f64, ll2double) ROUNDED(u64, f64, ull2double) ROUNDED(f64, f32, double2float)
MAP(hiloint, f64, f64, __hiloint2double(__double2loint(x), __double2hiint(y)))
MAP(bits_of_float, u32, f32, __float_as_uint(x) ^ __float_as_uint(y) << 1)
