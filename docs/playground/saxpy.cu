// Saxpy: y = a * x + y, with a loop over the grid
extern "C" __global__ void saxpy(int count, float a, const float *x, float *y)
{
    int first = blockIdx.x * blockDim.x + threadIdx.x;
    int threads = gridDim.x * blockDim.x;  // of the whole grid

    // With 32 threads, thread 3 computes the elements 3, 35, 67, 99. So a grid of any size computes all elements.
    #pragma unroll 1  // one copy of the body, which is easier to read
    for (int i = first; i < count; i += threads)
        y[i] = a * x[i] + y[i];
}
