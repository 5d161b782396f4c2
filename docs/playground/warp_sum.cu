// Add up the values of a warp: __shfl_down_sync
extern "C" __global__ void warp_sum(const float *data, float *sums)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = data[i];  // there are as many elements as threads

    // Each lane adds the sum of the lane that is `distance` places above it. In the end, lane 0 has the sum of all 32.
    #pragma unroll
    for (int distance = 16; distance > 0; distance /= 2)
        sum += __shfl_down_sync(0xffffffff, sum, distance);

    if (threadIdx.x % 32 == 0)
        sums[i / 32] = sum;
}
