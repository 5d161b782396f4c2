// Saxpy: y = a * x + y, with a loop over the grid
extern "C" __global__ void saxpy(int count, float a, const float *x, float *y)
{
    int threads = gridDim.x * blockDim.x;  // of the whole grid

    // A thread computes every element that is a multiple of `threads` away from its first one, so any grid will do.
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += threads)
        y[i] = a * x[i] + y[i];
}
