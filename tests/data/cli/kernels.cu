// Kernels for the tests of the command line; compiled with   nvcc -ptx -arch=sm_75 kernels.cu
#include <cuda_fp16.h>

extern "C" __global__ void saxpy(int n, float a, const float *x, float *y)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = a * x[i] + y[i];
}

// y = k * x + y on integers of two widths, by a grid-stride loop; a C++ name, as nvcc mangles it
__global__ void muladd(long long n, short k, const int *x, long long *y)
{
    for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n; i += (long long)gridDim.x * blockDim.x)
        y[i] += (long long)k * x[i];
}

// The mean of a cell and its four neighbours; the edge is unchanged.
extern "C" __global__ void stencil(const double *in, double *out, int rows, int columns)
{
    int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= rows || column >= columns)
        return;
    int at = row * columns + column;
    if (row == 0 || column == 0 || row == rows - 1 || column == columns - 1)
        out[at] = in[at];
    else
        out[at] = (in[at] + in[at - 1] + in[at + 1] + in[at - columns] + in[at + columns]) / 5.0;
}

// Each block counts in shared memory, whose size the launch gives, and adds its counts to those of all others.
extern "C" __global__ void histogram(const unsigned char *data, unsigned n, unsigned *counts, unsigned bins)
{
    extern __shared__ unsigned mine[];
    for (unsigned bin = threadIdx.x; bin < bins; bin += blockDim.x)
        mine[bin] = 0;
    __syncthreads();
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&mine[data[i] % bins], 1u);
    __syncthreads();
    for (unsigned bin = threadIdx.x; bin < bins; bin += blockDim.x)
        atomicAdd(&counts[bin], mine[bin]);
}

// A half as a parameter: in PTX, only its size of two bytes is known.
extern "C" __global__ void scale_half(__half k, const float *x, float *y, bool negate)
{
    int i = threadIdx.x;
    float value = __half2float(k) * x[i];
    y[i] = negate ? -value : value;
}

// The index of the thread, and a pointer that may be null.
extern "C" __global__ void where(int *out, const int *added)
{
    int block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    int thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    out[block * blockDim.x * blockDim.y * blockDim.z + thread] = 1000 * block + thread + (added ? *added : 0);
}

// One byte past the end.
extern "C" __global__ void overrun(unsigned char *out, unsigned n)
{
    out[n] = 1;
}
