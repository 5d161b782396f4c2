// Prefix sums: a scan in one block
extern "C" __global__ void scan(const int *data, int *sums)
{
    __shared__ int values[64];  // as many as the block has threads
    int i = threadIdx.x;

    values[i] = data[i];
    __syncthreads();

    // After the first round, each value is the sum of 2 elements, then of 4, then of 8, or of all up to its own.
    #pragma unroll 1
    for (int distance = 1; distance < blockDim.x; distance *= 2) {
        int before = i >= distance ? values[i - distance] : 0;
        __syncthreads();  // all threads have read
        values[i] += before;
        __syncthreads();  // all threads have written
    }

    sums[i] = values[i];
}
