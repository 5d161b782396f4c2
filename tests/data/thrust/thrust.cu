#include <thrust/execution_policy.h>
#include <thrust/sort.h>
#include <thrust/scan.h>
#include <thrust/reduce.h>
#include <thrust/unique.h>
#include <thrust/functional.h>
#include <thrust/binary_search.h>
extern "C" __global__ void thrust_each(int *a, int *o, float *f)
{
    int *mine = a + 32 * threadIdx.x, *out = o + 36 * threadIdx.x; float*g=f+32*threadIdx.x;
    thrust::sort(thrust::seq, mine, mine + 32);
    thrust::inclusive_scan(thrust::seq, mine, mine + 32, out);
    out[32] = thrust::reduce(thrust::seq, mine, mine + 32, 0, thrust::maximum<int>());
    out[33] = thrust::lower_bound(thrust::seq, mine, mine + 32, 50) - mine;
    out[34] = thrust::unique(thrust::seq, mine, mine + 32) - mine;
    thrust::stable_sort(thrust::seq, g, g+32, thrust::greater<float>());
}
