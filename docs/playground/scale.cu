// Scale a vector
extern "C" __global__ void scale(float *data, float factor, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)  // the last block may have more threads than elements
        data[i] *= factor;
}
