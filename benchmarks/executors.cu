// The kernels of benchmarks/executors.py. executors.ptx was compiled from it with NVRTC for compute_75
extern "C" __global__ void add(float *out, const float *a, const float *b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = a[i] + b[i];
}
extern "C" __global__ void mandelbrot(int *out, int w, int h, int most) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= w * h) return;
    float cr = (i % w) * 3.0f / w - 2.0f, ci = (i / w) * 2.0f / h - 1.0f, r = 0, q = 0;
    int k = 0;
    for (; k < most && r * r + q * q < 4; k++) { float t = r * r - q * q + cr; q = 2 * r * q + ci; r = t; }
    out[i] = k;
}
extern "C" __global__ void stencil(float *out, const float *in, int w, int h) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < 1 || y < 1 || x >= w - 1 || y >= h - 1) return;
    int i = y * w + x;
    out[i] = 0.5f * in[i] + 0.125f * (in[i - 1] + in[i + 1] + in[i - w] + in[i + w]);
}
extern "C" __global__ void bodies(float4 *force, const float4 *body, int n) {
    __shared__ float4 tile[256];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float4 me = body[i];
    float x = 0, y = 0, z = 0;
    for (int k = 0; k < n; k += 256) {
        tile[threadIdx.x] = body[k + threadIdx.x];
        __syncthreads();
        for (int j = 0; j < 256; j++) {
            float4 other = tile[j];
            float dx = other.x - me.x, dy = other.y - me.y, dz = other.z - me.z;
            float inverse = rsqrtf(dx * dx + dy * dy + dz * dz + 0.01f);
            float s = other.w * inverse * inverse * inverse;
            x += dx * s; y += dy * s; z += dz * s;
        }
        __syncthreads();
    }
    force[i] = make_float4(x, y, z, 0);
}
extern "C" __global__ void product(float *C, const float *A, const float *B, int n) {
    __shared__ float a[16][16], b[16][16];
    int tx = threadIdx.x, ty = threadIdx.y, x = blockIdx.x * 16 + tx, y = blockIdx.y * 16 + ty;
    float sum = 0;
    for (int k = 0; k < n; k += 16) {
        a[ty][tx] = A[y * n + k + tx];
        b[ty][tx] = B[(k + ty) * n + x];
        __syncthreads();
        for (int j = 0; j < 16; j++) sum += a[ty][j] * b[j][tx];
        __syncthreads();
    }
    C[y * n + x] = sum;
}
extern "C" __global__ void reduce(float *out, const float *in, int n) {
    __shared__ float part[256];
    int t = threadIdx.x, i = blockIdx.x * 256 + t;
    part[t] = i < n ? in[i] : 0.0f;
    __syncthreads();
    for (int k = 128; k; k >>= 1) { if (t < k) part[t] += part[t + k]; __syncthreads(); }
    if (t == 0) out[blockIdx.x] = part[0];
}
extern "C" __global__ void histogram(unsigned *bins, const unsigned *in, int n) {
    __shared__ unsigned part[64];
    for (int i = threadIdx.x; i < 64; i += blockDim.x) part[i] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&part[in[i] & 63], 1);
    __syncthreads();
    for (int i = threadIdx.x; i < 64; i += blockDim.x) atomicAdd(&bins[i], part[i]);
}
