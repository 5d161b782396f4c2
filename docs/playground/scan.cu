// Prefix sums: a scan in one block
extern "C" __global__ void scan(const int *data, int *sums)
{
    __shared__ int held[64];  // as many as the block has threads
    int i = threadIdx.x;

    held[i] = data[i];
    __syncthreads();

    // After the round with distance 1, each element has the sum of 2 elements, then of 4, then of 8.
    for (int distance = 1; distance < blockDim.x; distance *= 2) {
        int before = i >= distance ? held[i - distance] : 0;
        __syncthreads();  // every thread has read
        held[i] += before;
        __syncthreads();  // every thread has written
    }

    sums[i] = held[i];
}
