// Add up an array: a tree of sums in shared memory
extern "C" __global__ void block_sum(const int *data, int count, int *sums)
{
    __shared__ int partial[64];  // as many as a block has threads
    int i = blockIdx.x * blockDim.x + threadIdx.x;

    partial[threadIdx.x] = i < count ? data[i] : 0;
    __syncthreads();

    // In each round, the first `half` threads add the sum that is `half` places after their own.
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half)
            partial[threadIdx.x] += partial[threadIdx.x + half];
        __syncthreads();  // the sums of this round are complete
    }

    if (threadIdx.x == 0)
        sums[blockIdx.x] = partial[0];
}
