// Assertions, traps, and kernels that never end.


extern "C" __global__ void asserts(const int *in, int *out)
{
    int v = in[threadIdx.x];
#ifdef BUG
    assert(v < 5); // assert
#else
    assert(v < 500);
#endif
    out[threadIdx.x] = v;
}

extern "C" __global__ void traps(const int *in, int *out)
{
    int v = in[threadIdx.x];
#ifdef BUG
    if (v > 5)
#else
    if (v > 500)
#endif
        __trap(); // trap
    out[threadIdx.x] = v;
}

extern "C" __global__ void endless(const int *in, int *out)
{
    int left = in[threadIdx.x] + 1;
    while (left != 0) { // endless
#ifdef BUG
        left += left > 0 ? 1 : -1; // endless
#else
        left += left > 0 ? -1 : 1;
#endif
        out[threadIdx.x] = left;
    }
}

extern "C" __global__ void waits_for_nobody(volatile int *flag, int *out)
{
#ifndef BUG
    if (threadIdx.x == 0)
        *flag = 1;
#endif
    while (*flag == 0) { // endless
    }
    out[threadIdx.x] = 1;
}
