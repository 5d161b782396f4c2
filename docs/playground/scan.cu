// Prefix sums: a scan in one block
extern "C" __global__ void scan(const int *data, int *sums)
{
    __shared__ int values[64];  // as many as the block has threads
    int i = threadIdx.x;

    values[i] = data[i];
    __syncthreads();

    // Each value is the sum of `distance` elements. A round adds the sum of the `distance` elements before them.
    #pragma unroll 1
    for (int distance = 1; distance < blockDim.x; distance *= 2) {
        int before = i >= distance ? values[i - distance] : 0;
        __syncthreads();  // all threads have read
        values[i] += before;
        __syncthreads();  // all threads have written
    }

    sums[i] = values[i];
}
