// The kernels of benchmarks/emulator.py. Compiled with nvcc -ptx -arch=sm_75 emulator.cu; write() in tests/data/corpus/make.py removes comments
extern "C" __global__ void add(float *out, const float *a, const float *b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = a[i] + b[i];
}
extern "C" __global__ void polynomial(float *out, const float *in, int n) {        // straight line, float32
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float x = in[i], y = x * 0.5f + 1.25f, z = x - y;
#pragma unroll
    for (int k = 0; k < 8; k++) { y = y * x + z; z = z - x * 0.25f; x = x * 0.5f; y = y + x; }
    out[i] = y * z;
}
extern "C" __global__ void product(float *C, const float *A, const float *B, int n) {  // two barriers for each 8 steps
    __shared__ float a[8][8], b[8][8];
    int x = blockIdx.x * 8 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
    float sum = 0;
    for (int k = 0; k < n; k += 8) {
        a[threadIdx.y][threadIdx.x] = A[y * n + k + threadIdx.x];
        b[threadIdx.y][threadIdx.x] = B[(k + threadIdx.y) * n + x];
        __syncthreads();
        for (int j = 0; j < 8; j++) sum += a[threadIdx.y][j] * b[j][threadIdx.x];
        __syncthreads();
    }
    C[y * n + x] = sum;
}
extern "C" __global__ void reduce(float *out, const float *in) {                   // a barrier for each dozen instructions
    __shared__ float part[128];
    int t = threadIdx.x;
    part[t] = in[blockIdx.x * 128 + t];
    __syncthreads();
    for (int k = 64; k; k >>= 1) { if (t < k) part[t] += part[t + k]; __syncthreads(); }
    if (t == 0) out[blockIdx.x] = part[0];
}
extern "C" __global__ void mandelbrot(int *out, int w, int h, int most) {          // loops that end here and there
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= w * h) return;
    float cr = (i % w) * 3.0f / w - 2.0f, ci = (i / w) * 2.0f / h - 1.0f, r = 0, q = 0;
    int k = 0;
    for (; k < most && r * r + q * q < 4; k++) { float t = r * r - q * q + cr; q = 2 * r * q + ci; r = t; }
    out[i] = k;
}
extern "C" __global__ void histogram(unsigned *bins, const unsigned *in, int n) {  // atomics on shared memory
    __shared__ unsigned part[64];
    for (int i = threadIdx.x; i < 64; i += blockDim.x) part[i] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&part[in[i] & 63], 1);
    __syncthreads();
    for (int i = threadIdx.x; i < 64; i += blockDim.x) atomicAdd(&bins[i], part[i]);
}
