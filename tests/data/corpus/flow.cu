// Control: loops, switches, recursion, pointers to functions, output, assertions.
#include <stdio.h>
#include <assert.h>
#define HERE (blockIdx.x * blockDim.x + threadIdx.x)
extern "C" __global__ void collatz(int *out, const unsigned *in, int n) {
    int i = HERE;
    if (i >= n) return;
    unsigned x = in[i]; int steps = 0;
    while (x != 1) { x = x & 1 ? 3 * x + 1 : x >> 1; if (++steps > 1000) break; }
    out[i] = steps;
}
extern "C" __global__ void mandelbrot(int *out, int w, int h, int most) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= w || y >= h) return;
    float cr = x * 3.0f / w - 2.0f, ci = y * 2.0f / h - 1.0f, r = 0, i = 0; int k = 0;
    for (; k < most && r * r + i * i < 4; k++) { float t = r * r - i * i + cr; i = 2 * r * i + ci; r = t; }
    out[y * w + x] = k;
}
extern "C" __global__ void dense_switch(int *out, const int *in, int n) {      // brx.idx
    int i = HERE;
    if (i >= n) return;
    int v = in[i], r = i;
    switch (v) {
    case 0: r = r * 3 + 1; break;
    case 1: r ^= 0x5a5a; /* falls through */
    case 2: r -= v; break;
    case 3: for (int k = 0; k < r; k++) { if (k % 7 == 5) break; r += k; } break;
    case 4: r = __popc(r); break;
    case 5: return;
    case 6: r = r << 5 | r >> 3; break;
    case 7: r = -r; break;
    case 8: r = r % 10; break;
    case 9: if (r & 1) { r = 77; break; } r = 78; break;
    default: r = -1;
    }
    out[i] = r;
}
extern "C" __global__ void sparse_switch(int *out, const long long *in, int n) {
    int i = HERE;
    if (i >= n) return;
    switch (in[i]) { case -5: out[i] = 1; break; case 1000000: out[i] = 2; break; case 1ll << 40: out[i] = 3; break; case 'x': out[i] = 4; break; default: out[i] = 5; }
}
extern "C" __global__ void nested_loops(int *out, int n) {
    int i = HERE, total = 0;
    for (int a = 0; a < n; a++) {
        if (a == i) continue;
        for (int b = a; b < n; b++) {
            if (b % 5 == i % 5) continue;
            if (b > a + 6) break;
            int c = 0;
            do { total += c; if (total > 500) goto end; } while (++c < b);
        }
    }
end:
    out[i] = total;
}
__device__ __noinline__ int ackermann(int m, int n) { return m == 0 ? n + 1 : n == 0 ? ackermann(m - 1, 1) : ackermann(m - 1, ackermann(m, n - 1)); }
extern "C" __global__ void recursion(int *out) { out[threadIdx.x] = ackermann(threadIdx.x % 3, threadIdx.x / 3); }
__device__ int odd(int n);
__device__ __noinline__ int even(int n) { return n == 0 ? 1 : odd(n - 1); }
__device__ __noinline__ int odd(int n) { return n == 0 ? 0 : even(n - 1); }
extern "C" __global__ void mutual(int *out) { out[threadIdx.x] = even(threadIdx.x) * 2 + odd(threadIdx.x); }
__device__ void quick(int *a, int lo, int hi) {
    if (lo >= hi) return;
    int p = a[(lo + hi) / 2], i = lo, j = hi;
    while (i <= j) { while (a[i] < p) i++; while (a[j] > p) j--; if (i <= j) { int t = a[i]; a[i++] = a[j]; a[j--] = t; } }
    quick(a, lo, j); quick(a, i, hi);
}
extern "C" __global__ void quicksort(int *data, int n) { quick(data + HERE * n, 0, n - 1); }
typedef int (*Operation)(int, int);
__device__ int plus(int a, int b) { return a + b; }
__device__ int times(int a, int b) { return a * b; }
__device__ int first(int a, int b) { __syncwarp(); return a - (b & 1); }
__device__ Operation table[3] = {plus, times, first};
extern "C" __global__ void pointers(int *out, const int *which) { int i = threadIdx.x; out[i] = table[which[i]](i, i + 3); }
extern "C" __global__ void chosen(int *out, int k) { Operation f = k == 0 ? plus : k == 1 ? times : table[2]; out[threadIdx.x] = f(threadIdx.x, f(2, 3)); }
struct Shape { __device__ virtual int area(int k) const { return k; } int w; __device__ Shape(int w) : w(w) {} };
struct Square : Shape { __device__ Square(int w) : Shape(w) {} __device__ int area(int k) const override { return w * w + k; } };
struct Box : Shape { int h; __device__ Box(int w, int h) : Shape(w), h(h) {} __device__ int area(int k) const override { return w * h - k; } };
extern "C" __global__ void virtuals(int *out) {
    int i = threadIdx.x;
    Square s(i); Box b(i, 5); Shape p(0);
    Shape *all[3] = {&s, &b, &p};
    out[i] = all[i % 3]->area(i);
}
template <class F> __device__ double integrate(F f, double a, double b, int n) { double h = (b - a) / n, s = 0; for (int k = 0; k < n; k++) s += f(a + (k + 0.5) * h); return s * h; }
extern "C" __global__ void lambdas(double *out, double power) { int i = threadIdx.x; out[i] = integrate([=](double x) { return x * x * power + i; }, 0, 1 + i, 16); }
extern "C" __global__ void early(int *out, int n) {      // some threads exit, the others still synchronize
    __shared__ int s[64];
    int t = threadIdx.x;
    if (t >= n) return;
    s[t] = t;
    __syncwarp(__activemask());
    out[t] = s[(t ^ 1) < n ? t ^ 1 : t];
}
extern "C" __global__ void printing(int n, double x, const char *word) {
    int i = threadIdx.x;
    printf("%d|%5d|%-5d|%05d|%+d|%u|%x|%X|%o|%c\n", i, n, n, n, n, (unsigned)n, n, n, n, 'a' + i);
    printf("%f|%.3f|%10.2e|%g|%lld|%llx|%s|%%|%hhd|%5s|\n", x, x, x, x, (long long)n << 33, 0xdeadbeefcafeull, word, (signed char)(n + 200), "ab");
    printf("plain\n");
}
extern "C" __global__ void count_printed(int *out, int n) { out[0] = printf("%d %d %f\n", n, n, 1.5f); out[1] = printf("none\n"); }
extern "C" __global__ void asserting(int n) { assert(threadIdx.x < n && "too many"); }
extern "C" __global__ void trapping(int n) { if (threadIdx.x == n) __trap(); }
extern "C" __global__ void heap(int *out) {
    int *p = (int *)malloc(40), *q = new int[4];
    for (int k = 0; k < 10; k++) p[k] = k * threadIdx.x;
    q[3] = p[9]; int s = 0;
    for (int k = 0; k < 10; k++) s += p[k];
    out[threadIdx.x] = s + q[3];
    free(p); delete[] q;
}
