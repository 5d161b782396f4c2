// Floating point: out[i] = f(a[i], b[i], c[i]).
#define MAP(name, type, expression)                                                                     \
    extern "C" __global__ void k_##name(type *out, const type *a, const type *b, const type *c, int n) {   \
        int i = blockIdx.x * blockDim.x + threadIdx.x;                                                 \
        if (i >= n) return;                                                                            \
        type x = a[i], y = b[i], z = c[i];                                                             \
        (void)y; (void)z;                                                                              \
        out[i] = (expression);                                                                         \
    }
#define F1(f) MAP(f, float, f(x))
#define F2(f) MAP(f, float, f(x, y))
#define D1(f) MAP(f, double, f(x))
#define D2(f) MAP(f, double, f(x, y))
F1(sinf) F1(cosf) F1(tanf) F1(asinf) F1(acosf) F1(atanf) F1(sinhf) F1(coshf) F1(tanhf) F1(asinhf) F1(acoshf) F1(atanhf)
F1(expf) F1(exp2f) F1(exp10f) F1(expm1f) F1(logf) F1(log2f) F1(log10f) F1(log1pf) F1(sqrtf) F1(rsqrtf) F1(cbrtf)
F1(erff) F1(erfcf) F1(lgammaf) F1(tgammaf) F1(sinpif) F1(cospif) F1(normcdff) F1(erfinvf)
F1(floorf) F1(ceilf) F1(truncf) F1(roundf) F1(rintf) F1(fabsf) F1(logbf)
F2(powf) F2(atan2f) F2(hypotf) F2(fmodf) F2(remainderf) F2(fdimf) F2(fmaxf) F2(fminf) F2(copysignf) F2(nextafterf)
MAP(norm3d, float, norm3df(x, y, z))
MAP(divide, float, x / y)
MAP(reciprocal, float, 1.0f / x)
MAP(contracted, float, x * y + z)
MAP(scaled, float, ldexpf(x, 5) + scalbnf(y, -3) + ilogbf(z))
MAP(parts, float, ({ int e; float m = frexpf(x, &e); float w; float r = modff(y, &w); m * 4 + e + r + w; }))
MAP(both, float, ({ float s, k; sincosf(x, &s, &k); s * 2 + k; }))
MAP(classes, float, (isnan(x) ? 1 : 0) + (isinf(x) ? 2 : 0) + (isfinite(y) ? 4 : 0) + (signbit(z) ? 8 : 0))
MAP(saturated, float, __saturatef(x))
#ifndef SINGLE          // some builds are for the rest only
// each rounding
#define EACH(type, stem, arguments) extern "C" __global__ void each_##stem(type *rn, type *rz, type *ru, type *rd, const type *a, const type *b, const type *c, int n) { \
    int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= n) return; type x = a[i], y = b[i], z = c[i]; (void)y; (void)z;       \
    rn[i] = __##stem##_rn arguments; rz[i] = __##stem##_rz arguments; ru[i] = __##stem##_ru arguments; rd[i] = __##stem##_rd arguments; }
EACH(float, fadd, (x, y)) EACH(float, fmul, (x, y)) EACH(float, fmaf, (x, y, z)) EACH(float, fdiv, (x, y)) EACH(float, fsqrt, (x)) EACH(float, frcp, (x))
EACH(double, dadd, (x, y)) EACH(double, dmul, (x, y)) EACH(double, fma, (x, y, z)) EACH(double, ddiv, (x, y)) EACH(double, dsqrt, (x)) EACH(double, drcp, (x))
#endif
// intrinsics: their accuracy is in the programming guide
MAP(fast_sin, float, __sinf(x)) MAP(fast_cos, float, __cosf(x)) MAP(fast_exp, float, __expf(x)) MAP(fast_exp10, float, __exp10f(x))
MAP(fast_log, float, __logf(x)) MAP(fast_log2, float, __log2f(x)) MAP(fast_pow, float, __powf(x, y)) MAP(fast_divide, float, __fdividef(x, y))
MAP(fast_rsqrt, float, __frsqrt_rn(x))
#ifndef SINGLE
D1(sin) D1(cos) D1(exp) D1(log) D1(tanh) D1(cbrt) D1(erf) D1(asin) D1(atan) D1(sqrt) D1(rsqrt) D1(log2) D1(expm1) D1(sinh) D1(rint) D1(floor)
D2(pow) D2(atan2) D2(hypot) D2(fmod)
MAP(dscaled, double, ldexp(x, 40) + ilogb(z))
MAP(horner, double, ((x * y + z) * y - x) * y + z * x)
#endif
