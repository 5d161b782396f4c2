// The math library, one output array a kernel: out[i] = f(a[i], b[i], c[i]).
#define MAP(name, to, from, expression)                                                             \
    extern "C" __global__ void name(to *out, const from *a, const from *b, const from *c, int n) {  \
        int i = blockIdx.x * blockDim.x + threadIdx.x;                                               \
        if (i >= n) return;                                                                          \
        from x = a[i], y = b[i], z = c[i];                                                           \
        (void)y; (void)z;                                                                            \
        out[i] = (expression);                                                                       \
    }
// float32
MAP(f32_fmod, float, float, fmodf(x, y))
MAP(f32_sin, float, float, sinf(x))
MAP(f32_cos, float, float, cosf(x))
MAP(f32_exp, float, float, expf(x))
MAP(f32_exp2, float, float, exp2f(x))
MAP(f32_expm1, float, float, expm1f(x))
MAP(f32_log, float, float, logf(fabsf(x)))
MAP(f32_log2, float, float, log2f(fabsf(x)))
MAP(f32_log10, float, float, log10f(fabsf(x)))
MAP(f32_log1p, float, float, log1pf(fabsf(x)))
MAP(f32_pow, float, float, powf(fabsf(x), y))
MAP(f32_tanh, float, float, tanhf(x))
MAP(f32_sinh, float, float, sinhf(x))
MAP(f32_cosh, float, float, coshf(x))
MAP(f32_asin, float, float, asinf(x))
MAP(f32_acos, float, float, acosf(x))
MAP(f32_atan, float, float, atanf(x))
MAP(f32_atan2, float, float, atan2f(x, y))
MAP(f32_hypot, float, float, hypotf(x, y))
MAP(f32_cbrt, float, float, cbrtf(x))
MAP(f32_rsqrt, float, float, rsqrtf(fabsf(x)))
MAP(f32_erf, float, float, erff(x))
MAP(f32_erfc, float, float, erfcf(x))
MAP(f32_ldexp, float, float, ldexpf(x, (int)y) + (float)ilogbf(z))
MAP(f32_fast, float, float, __sinf(x) + __cosf(y) + __expf(z) + __logf(fabsf(x)) + __fdividef(x, y))
// float64
MAP(f64_sin, double, double, sin(x))
MAP(f64_cos, double, double, cos(x))
MAP(f64_exp, double, double, exp(x))
MAP(f64_log, double, double, log(fabs(x)))
MAP(f64_pow, double, double, pow(fabs(x), y))
MAP(f64_tanh, double, double, tanh(x))
MAP(f64_atan2, double, double, atan2(x, y))
MAP(f64_cbrt, double, double, cbrt(x))
MAP(f64_erf, double, double, erf(x))
