// With a mistake: find the missing barrier
extern "C" __global__ void reverse(int *data)
{
    __shared__ int values[64];  // as many as the block has threads
    int i = threadIdx.x;

    values[i] = data[i];
    data[i] = values[blockDim.x - 1 - i];
}
