// Memory: strides, vectors, shared, local, constant, globals with initializers, structures, function pointers, recursion.
#include <stdint.h>
#include <stdio.h>
#include <assert.h>
struct Point { char tag; short small; int whole; double pair[2]; };
__device__ int counter = 7;
__device__ float table[4] = {1.5f, -2.25f, 3.0f, 1e-3f};
__constant__ double weights[3] = {0.25, 0.5, 0.25};
__device__ __managed__ int managed = 41;
__device__ const char *message = "hello";
typedef float (*Unary)(float);
__device__ __noinline__ float twice(float x) { return x + x; }
__device__ __noinline__ float square(float x) { return x * x; }
__device__ Unary unaries[2] = {twice, square};
__device__ __noinline__ int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }
__device__ __noinline__ Point moved(Point p, double by) { p.pair[0] += by; p.whole -= 1; return p; }
__device__ __noinline__ void swap(int *a, int *b) { int t = *a; *a = *b; *b = t; }

extern "C" __global__ void vector_add(const float *a, const float *b, float *c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}
extern "C" __global__ void saxpy_strided(float *y, const float *x, float a, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) y[i] = a * x[i] + y[i];
}
extern "C" __global__ void copy_vectors(float4 *to, const float4 *from, uchar4 *bytes, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float4 v = from[i];
    to[i] = make_float4(v.w, v.z, v.y, v.x);
    uchar4 b = bytes[i];
    bytes[i] = make_uchar4(b.y, b.x, b.w, b.z);
}
extern "C" __global__ void transpose(float *to, const float *from, int width, int height) {
    __shared__ float tile[8][9];
    int x = blockIdx.x * 8 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
    if (x < width && y < height) tile[threadIdx.y][threadIdx.x] = from[y * width + x];
    __syncthreads();
    x = blockIdx.y * 8 + threadIdx.x;
    y = blockIdx.x * 8 + threadIdx.y;
    if (x < height && y < width) to[y * height + x] = tile[threadIdx.x][threadIdx.y];
}
extern "C" __global__ void matmul_tiled(const float *A, const float *B, float *C, int n) {
    __shared__ float As[16][16], Bs[16][16];
    int tx = threadIdx.x, ty = threadIdx.y, row = blockIdx.y * 16 + ty, col = blockIdx.x * 16 + tx;
    float sum = 0;
    for (int t = 0; t < n / 16; t++) {
        As[ty][tx] = A[row * n + t * 16 + tx];
        Bs[ty][tx] = B[(t * 16 + ty) * n + col];
        __syncthreads();
        for (int k = 0; k < 16; k++) sum += As[ty][k] * Bs[k][tx];
        __syncthreads();
    }
    C[row * n + col] = sum;
}
extern "C" __global__ void reverse_dynamic(int *data, int n) {
    extern __shared__ int kept[];
    int t = threadIdx.x;
    kept[t] = data[t];
    __syncthreads();
    data[t] = kept[n - 1 - t];
}
extern "C" __global__ void local_array(int *out, const int *in, int n) {
    int i = threadIdx.x, kept[16];
    for (int k = 0; k < 16; k++) kept[k] = in[(i + k) % n] * k;
    int sum = 0;
    for (int k = 0; k < 16; k++) sum += kept[(k * 7 + in[i]) & 15];
    swap(&kept[in[i] & 15], &kept[3]);
    out[i] = sum * 31 + kept[3];
}
extern "C" __global__ void globals(float *out, double *constants) {
    int i = threadIdx.x;
    out[i] = table[i & 3] * 2 + unaries[i & 1](table[i & 3]);
    constants[i] = weights[i % 3];
    if (i == 0) { counter += 5; managed += 1; out[0] = message[1]; }
}
extern "C" __global__ void structures(Point *out, Point given, int n) {
    int i = threadIdx.x;
    if (i < n) { Point p = moved(given, i * 0.5); p.pair[1] = given.pair[i & 1]; p.tag += i; out[i] = p; }
}
extern "C" __global__ void recursion(int *out) { out[threadIdx.x] = fibonacci(threadIdx.x); }
extern "C" __global__ void printing(int n, float x, const char *word) {
    printf("thread %d of %d: %s %5.2f %x %c%%\n", threadIdx.x, n, word, x * threadIdx.x, threadIdx.x + 250, 'a' + threadIdx.x);
}
extern "C" __global__ void asserting(int n) { assert(threadIdx.x < n); }
extern "C" __global__ void heap(int **out) {
    int *made = (int *)malloc(16);
    made[1] = threadIdx.x;
    out[threadIdx.x] = made;
    if (threadIdx.x & 1) { free(made); out[threadIdx.x] = 0; }
}
extern "C" __global__ void bytes_and_shorts(signed char *a, unsigned short *b, long long *c) {
    int i = threadIdx.x;
    c[i] = (long long)a[i] * b[i];
    a[i] = (signed char)(a[i] - 100);
    b[i] = (unsigned short)(b[i] * 3);
}
