// Copies, layouts of structures, local arrays, qualifiers, templates.
#include <stdint.h>
#define HERE (blockIdx.x * blockDim.x + threadIdx.x)
template <class T> __device__ void copy_all(T *to, const T *from, int n, int stride) {
    for (int i = HERE; i < n; i += gridDim.x * blockDim.x) to[i] = from[i * stride];
}
#define COPY(name, type) extern "C" __global__ void name(type *to, const type *from, int n, int stride) { copy_all(to, from, n, stride); }
COPY(copy_1, uint8_t)
COPY(copy_2, short)
COPY(copy_4, float)
COPY(copy_8, double)
COPY(copy_16, float4)
COPY(copy_long2, longlong2)
COPY(copy_char4, uchar4)
COPY(copy_short4, short4)

// the cache operators and the read-only path
extern "C" __global__ void qualifiers(float *__restrict__ to, const float *__restrict__ from, volatile int *flag, int n) {
    int i = HERE;
    if (i >= n) return;
    float a = __ldg(from + i), b = __ldcs(from + i), c = __ldcg(from + i), d = __ldca(from + i), e = __ldlu(from + i), f = __ldcv(from + i);
    *flag = 7;
    float g = __ldg((const float4 *)from + i / 4).w + *flag;
    __stcs(to + i, a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + g);
}

// rows of an odd pitch, shuffled bytes
struct __attribute__((packed)) Record { uint8_t tag; int32_t number; uint16_t small; double wide; };
extern "C" __global__ void packed_records(Record *to, const Record *from, int n) {
    int i = HERE;
    if (i >= n) return;
    Record r = from[i];
    r.number += r.tag; r.small ^= 0x0f0f; r.wide *= 2;
    to[n - 1 - i] = r;
}

// structures by value: nested, odd sizes, arrays in them
struct Inner { char c; short s[3]; };
struct Outer { int a; Inner in[2]; double d; unsigned char tail[5]; };
struct Odd { char text[7]; };
extern "C" __global__ void by_value(int *out, Outer o, Odd odd, char c, short s, bool yes, float3 v, Inner in, double d) {
    int i = threadIdx.x;
    int sum = o.a + o.in[i % 2].c + o.in[i % 2].s[i % 3] + (int)o.d + o.tail[i % 5];
    out[i] = sum * 3 + odd.text[i % 7] + c + s + yes + (int)(v.x + 2 * v.y + 4 * v.z) + in.c * in.s[i % 3] + (int)d;
}
struct Big { int values[300]; };
extern "C" __global__ void big_parameter(int *out, Big big, int n) { for (int i = HERE; i < n; i += blockDim.x) out[i] = big.values[(i * 7) % 300]; }
extern "C" __global__ void changed_parameter(int *out, Big big) {
    big.values[threadIdx.x] += 5; big.values[(threadIdx.x + 1) % 300] = 9;
    out[threadIdx.x] = big.values[threadIdx.x] + big.values[threadIdx.x + 1];
}

// local memory
extern "C" __global__ void local_sort(int *out, const int *in) {
    int v[16];
    for (int k = 0; k < 16; k++) v[k] = in[HERE * 16 + k];
    for (int k = 1; k < 16; k++) {
        int x = v[k], j = k;
        while (j > 0 && v[j - 1] > x) { v[j] = v[j - 1]; j--; }
        v[j] = x;
    }
    for (int k = 0; k < 16; k++) out[HERE * 16 + k] = v[k];
}
extern "C" __global__ void local_bytes(uint64_t *out, const uint64_t *in, int turn) {
    union { uint64_t w; uint8_t b[8]; uint16_t h[4]; } u, r;
    u.w = in[HERE];
    for (int k = 0; k < 8; k++) r.b[k] = u.b[(k + turn) & 7];
    r.h[turn & 3] += 0x101;
    out[HERE] = r.w;
}
template <int N, class T> struct Matrix {
    T m[N][N];
    __device__ Matrix operator*(const Matrix &o) const {
        Matrix r;
        for (int i = 0; i < N; i++) for (int j = 0; j < N; j++) { T s = 0; for (int k = 0; k < N; k++) s += m[i][k] * o.m[k][j]; r.m[i][j] = s; }
        return r;
    }
};
extern "C" __global__ void matrix_power(long long *out, long long n) {
    Matrix<3, long long> base = {{{1, 1, 0}, {1, 0, 1}, {0, 1, 1}}}, r = {{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}};
    for (long long k = n + threadIdx.x; k; k >>= 1) { if (k & 1) r = r * base; base = base * base; }
    for (int i = 0; i < 9; i++) out[threadIdx.x * 9 + i] = r.m[i / 3][i % 3];
}
extern "C" __global__ void __launch_bounds__(64, 2) bounded(int *out) { out[HERE] = HERE; }
extern "C" __global__ void strides_3d(int *out, int sx, int sy, int sz) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y, z = blockIdx.z * blockDim.z + threadIdx.z;
    out[x * sx + y * sy + z * sz] = x + 100 * y + 10000 * z;
}
extern "C" __global__ void clocks(long long *out) {
    long long a = clock64(); unsigned b = clock(); unsigned long long t;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
    __nanosleep(20);
    long long c = clock64();
    out[0] = c >= a; out[1] = b == 0 ? 1 : b; out[2] = (long long)t > 0;
}
