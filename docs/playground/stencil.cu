// Smooth an array: a stencil with a halo
#define THREADS 16  // of a block
#define RADIUS 2    // each result is the mean of 2 + 1 + 2 elements

extern "C" __global__ void stencil(const float *in, float *out, int count)
{
    __shared__ float values[RADIUS + THREADS + RADIUS];  // those of the block, and a halo on either side
    int first = blockIdx.x * THREADS - RADIUS;

    // There are more values than threads, so some threads read two. Outside of the array, a value is 0.
    #pragma unroll 1
    for (int at = threadIdx.x; at < RADIUS + THREADS + RADIUS; at += THREADS)
        values[at] = first + at >= 0 && first + at < count ? in[first + at] : 0.0f;
    __syncthreads();

    float sum = 0.0f;
    #pragma unroll
    for (int offset = 0; offset <= 2 * RADIUS; offset++)
        sum += values[threadIdx.x + offset];

    int i = blockIdx.x * THREADS + threadIdx.x;
    if (i < count)
        out[i] = sum / (2 * RADIUS + 1);
}
