// Smooth an array: a stencil with a halo
#define THREADS 16
#define RADIUS 2

extern "C" __global__ void stencil(const float *in, float *out, int count)
{
    __shared__ float held[THREADS + 2 * RADIUS];  // the elements of the block, and the halo on both sides
    int first = blockIdx.x * THREADS - RADIUS;

    for (int at = threadIdx.x; at < THREADS + 2 * RADIUS; at += THREADS) {
        int i = first + at;
        held[at] = i >= 0 && i < count ? in[i] : 0.0f;  // 0 outside the array
    }
    __syncthreads();

    float sum = 0.0f;
    for (int at = threadIdx.x; at <= threadIdx.x + 2 * RADIUS; at++)
        sum += held[at];
    int i = blockIdx.x * THREADS + threadIdx.x;
    if (i < count)
        out[i] = sum / (2 * RADIUS + 1);
}
