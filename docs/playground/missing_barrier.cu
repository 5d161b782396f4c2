// Find the missing barrier
extern "C" __global__ void missing_barrier(int *data)
{
    __shared__ int held[64];  // as many as the block has threads
    int i = threadIdx.x;

    held[i] = data[i];
    data[i] = held[blockDim.x - 1 - i];
}
