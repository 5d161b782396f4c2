// Missing and divergent barriers, masks that do not fit, warps that do not synchronize, races between blocks.
// Each kernel is wrong if BUG is defined, and right otherwise. Lines that take part in the mistake end with a mark.
#ifdef BUG
#define ONLY_RIGHT(...)
#define IF_WRONG(wrong, right) wrong
#else
#define ONLY_RIGHT(...) __VA_ARGS__
#define IF_WRONG(wrong, right) right
#endif

extern "C" __global__ void stencil(const float *in, float *out, int n)
{
    __shared__ float tile[66];
    int t = threadIdx.x, i = blockIdx.x * 64 + t;
    tile[t + 1] = i < n ? in[i] : 0.0f; // race
    if (t == 0) {
        tile[0] = i ? in[i - 1] : 0.0f;
        tile[65] = i + 64 < n ? in[i + 64] : 0.0f;
    }
    ONLY_RIGHT(__syncthreads());
    if (i < n)
        out[i] = tile[t] + tile[t + 1] + tile[t + 2]; // race
}

extern "C" __global__ void reverse(int *data)
{
    extern __shared__ int held[];
    int t = threadIdx.x;
    held[t] = data[t]; // race
    ONLY_RIGHT(__syncthreads());
    data[t] = held[blockDim.x - 1 - t]; // race
}

extern "C" __global__ void tiled_product(const float *a, const float *b, float *c, int n)
{
    __shared__ float left[8][8], right[8][8];
    int x = threadIdx.x, y = threadIdx.y, column = blockIdx.x * 8 + x, row = blockIdx.y * 8 + y;
    float sum = 0.0f;
    for (int k = 0; k < n; k += 8) {
        left[y][x] = a[row * n + k + x]; // race
        right[y][x] = b[(k + y) * n + column]; // race
        __syncthreads();
        for (int j = 0; j < 8; ++j)
            sum += left[y][j] * right[j][x]; // race
        ONLY_RIGHT(__syncthreads());
    }
    c[row * n + column] = sum;
}

extern "C" __global__ void tree(const int *in, int *out)
{
    __shared__ int part[128];
    unsigned t = threadIdx.x;
    part[t] = in[t];
    __syncthreads();
    for (unsigned step = 64; step > 0; step >>= 1) {
        if (t < step)
            part[t] += part[t + step]; // race
        ONLY_RIGHT(__syncthreads());
    }
    if (t == 0)
        *out = part[0];
}

extern "C" __global__ void scan(const int *in, int *out)
{
    __shared__ int held[2][64];
    int t = threadIdx.x, now = 0;
    held[0][t] = in[t];
    __syncthreads();
    for (int step = 1; step < 64; step *= 2) {
        int next = IF_WRONG(now, 1 - now);
        held[next][t] = held[now][t] + (t >= step ? held[now][t - step] : 0); // race
        __syncthreads();
        now = next;
    }
    out[t] = held[now][t];
}

extern "C" __global__ void histogram(const unsigned char *in, unsigned *out, int n)
{
    __shared__ unsigned bins[32];
    int t = threadIdx.x;
    if (t < 32)
        bins[t] = 0; // race
    ONLY_RIGHT(__syncthreads());
    for (int i = t; i < n; i += blockDim.x)
        atomicAdd(&bins[in[i] & 31], 1u); // race
    __syncthreads();
    if (t < 32)
        out[t] = bins[t];
}

extern "C" __global__ void votes(const int *in, int *out)
{
    __shared__ int found;
    if (threadIdx.x == 0)
        found = 0;
    __syncthreads();
    if (in[threadIdx.x] > 100)
        atomicAdd(&found, 1); // race
    ONLY_RIGHT(__syncthreads());
    if (threadIdx.x == 1)
        *out = found; // race
}

extern "C" __global__ void barrier_in_a_branch(int *data)
{
    __shared__ int held[64];
    int t = threadIdx.x;
    held[t] = data[t];
    if (IF_WRONG(t < 40, true))
        __syncthreads(); // barrier
    if (t < 40)
        data[t] = held[39 - t];
}

extern "C" __global__ void two_barriers(int *data)
{
    int t = threadIdx.x;
    int odd = t & 1;
#ifdef BUG
    if (odd) {
        data[t] += 1;
        __syncthreads(); // barrier
    } else {
        data[t] -= 1;
        __syncthreads(); // barrier
    }
#else
    data[t] += odd ? 1 : -1;
    __syncthreads();
#endif
    data[t] *= 2;
}

extern "C" __global__ void barrier_in_a_loop(const int *lengths, int *out)
{
    int t = threadIdx.x, sum = 0;
    __shared__ int most;
    if (t == 0)
        most = 0;
    __syncthreads();
    atomicMax(&most, lengths[t]);
    __syncthreads();
    int rounds = IF_WRONG(lengths[t], most);
    for (int k = 0; k < rounds; ++k) {
        if (k < lengths[t])
            sum += k;
        __syncthreads(); // barrier
    }
    out[t] = sum;
    __syncthreads(); // barrier
}

extern "C" __global__ void a_count_that_does_not_fit(int *data)
{
    int t = threadIdx.x;
    if (t < 64)
        asm volatile("bar.sync 1, %0;" ::"r"(IF_WRONG(96, 64)) : "memory"); // barrier
    data[t] += 1;
}

extern "C" __global__ void half_a_warp_shuffles(float *data)
{
    int t = threadIdx.x;
    float v = data[t];
    if (t % 32 < 16) {
        for (int step = 8; step > 0; step /= 2)
            v += __shfl_down_sync(IF_WRONG(0xffffffffu, 0x0000ffffu), v, step); // mask
    }
    if (t % 32 == 0) // the other lanes have added values of lanes that took no part
        data[t] = v;
}

extern "C" __global__ void a_mask_without_the_caller(int *data)
{
    int lane = threadIdx.x & 31;
    unsigned mask = IF_WRONG(0xfffffffeu, 0xffffffffu);
    data[threadIdx.x] = __shfl_xor_sync(mask, data[threadIdx.x], 1) + lane; // mask
}

extern "C" __global__ void a_ballot_of_some(const int *in, int *out, int n)
{
    int t = threadIdx.x;
    unsigned ballot = 0;
#ifdef BUG
    if (t < n)
        ballot = __ballot_sync(0xffffffffu, in[t] > 0); // mask
    __syncthreads(); // barrier
#else
    unsigned some = __ballot_sync(0xffffffffu, t < n);
    if (t < n)
        ballot = __ballot_sync(some, in[t] > 0);
    __syncthreads();
#endif
    out[t] = __popc(ballot);
}

extern "C" __global__ void last_warp(const int *in, int *out)
{
    __shared__ int part[64];
    int t = threadIdx.x;
    part[t] = in[t];
    __syncthreads();
    if (t < 32) {
        for (int step = 32; step > 0; step >>= 1) {
            int other = part[t + step]; // race
            ONLY_RIGHT(__syncwarp());
            if (t < step)
                part[t] += other; // race
            ONLY_RIGHT(__syncwarp());
        }
    }
    if (t == 0)
        *out = part[0];
}

static __device__ void unrolled(IF_WRONG(volatile, ) int *part, int t)
{
    int v = part[t];
    v += part[t + 32]; ONLY_RIGHT(__syncwarp();) part[t] = v; ONLY_RIGHT(__syncwarp();) // race
    v += part[t + 16]; ONLY_RIGHT(__syncwarp();) part[t] = v; ONLY_RIGHT(__syncwarp();) // race
    v += part[t + 8]; ONLY_RIGHT(__syncwarp();) part[t] = v; ONLY_RIGHT(__syncwarp();) // race
    v += part[t + 4]; ONLY_RIGHT(__syncwarp();) part[t] = v; ONLY_RIGHT(__syncwarp();) // race
    v += part[t + 2]; ONLY_RIGHT(__syncwarp();) part[t] = v; ONLY_RIGHT(__syncwarp();) // race
    v += part[t + 1]; ONLY_RIGHT(__syncwarp();) part[t] = v; ONLY_RIGHT(__syncwarp();) // race
}

extern "C" __global__ void volatile_warp(const int *in, int *out)
{
    __shared__ int part[64];
    int t = threadIdx.x;
    part[t] = in[t];
    __syncthreads();
    if (t < 32)
        unrolled(part, t);
    if (t == 0)
        *out = part[0];
}

extern "C" __global__ void neighbours_in_a_warp(int *data)
{
    __shared__ int held[32];
    int lane = threadIdx.x;
    held[lane] = data[lane]; // race
    ONLY_RIGHT(__syncwarp());
    data[lane] = held[lane ^ 1]; // race
}

extern "C" __global__ void counter(int *total, const int *in)
{
    if (in[blockIdx.x * blockDim.x + threadIdx.x] > 0) {
#ifdef BUG
        *total += 1; // race
#else
        atomicAdd(total, 1);
#endif
    }
}

extern "C" __global__ void halo(float *now, float *next, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float *to = IF_WRONG(now, next);
    if (i > 0 && i < n - 1)
        to[i] = (now[i - 1] + now[i + 1]) * 0.5f; // race
}

extern "C" __global__ void decode(const int *text, int *plain, int *sum)
{
    int i = threadIdx.x;
    plain[i] = text[i] ^ 85; // race
#ifndef BUG
    __syncthreads();
#endif
    if (i == 0)
        for (int j = 0; j < blockDim.x; ++j)
            *sum += plain[j]; // race
}

extern "C" __global__ void backwards(const int *text, int *plain, int *sum)
{
    int i = threadIdx.x;
    plain[i] = text[i] ^ 85; // race
#ifndef BUG
    __syncthreads();
#endif
    sum[i] = plain[blockDim.x - 1 - i] * 2; // race
}

extern "C" __global__ void next_element(int *data, int *out)
{
    int i = threadIdx.x;
    data[i] = i; // race
#ifndef BUG
    __syncwarp();
#endif
    out[i] = data[(i + 1) % blockDim.x] * 2; // race
}

extern "C" __global__ void neighbours_block(int *data, int *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
#ifdef BUG
    data[i] = i; // race
    __syncthreads();
    out[i] = data[(i + 1) % (gridDim.x * blockDim.x)]; // race
#else
    data[i] = i;
    __syncthreads();
    out[i] = data[blockIdx.x * blockDim.x + (threadIdx.x + 1) % blockDim.x];
#endif
}

extern "C" __global__ void atomics_of_a_block(int *total)
{
    IF_WRONG(atomicAdd_block, atomicAdd)(total, 1); // race
}

__device__ unsigned arrived;

extern "C" __global__ void last_block(const float *in, float *part, float *out)
{
    __shared__ bool last;
    if (threadIdx.x == 0) {
        float sum = 0.0f;
        for (int k = 0; k < 32; ++k)
            sum += in[blockIdx.x * 32 + k];
        part[blockIdx.x] = sum; // race
        ONLY_RIGHT(__threadfence());
        last = atomicInc(&arrived, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && threadIdx.x == 0) {
        float sum = 0.0f;
        for (int k = 0; k < gridDim.x; ++k)
            sum += part[k]; // race
        *out = sum;
    }
}

extern "C" __global__ void message(int *data, volatile int *flag, int *out)
{
    if (threadIdx.x)
        return;
    if (blockIdx.x == 0) {
        *data = 42; // race
        ONLY_RIGHT(__threadfence());
        *flag = 1;
    } else if (blockIdx.x == 1) {
        while (*flag == 0) {
        }
        __threadfence();
        *out = *data; // race
    }
}

extern "C" __global__ void a_lock(int *lock, int *total)
{
    if (threadIdx.x == 0) {
        while (atomicCAS(lock, 0, 1) != 0) {
        }
        __threadfence();
        *total += 1; // race
        ONLY_RIGHT(__threadfence());
        atomicExch(lock, 0);
    }
}

extern "C" __global__ void bins_without_start(const int *in, int *bins, int n)
{
    __shared__ int counts[64];
    int t = threadIdx.x;
    counts[t] = 0; // race
    ONLY_RIGHT(__syncthreads());
    atomicAdd(&counts[t], 1);
    for (int i = t; i < n; i += blockDim.x)
        atomicAdd(&counts[in[i] & 7], 1); // race
    __syncthreads();
    bins[t] = counts[t];
}

extern "C" __global__ void reset_too_early(int *total, int *out)
{
    int t = threadIdx.x;
    atomicAdd(total, 1); // race
    ONLY_RIGHT(__syncthreads());
    if (t == 5)
        *total = 0; // race
    __syncthreads();
    out[t] = *total;
}

__device__ unsigned finished;

extern "C" __global__ void last_block_of_many(const float *in, float *part, float *out)
{
    __shared__ bool last;
    int t = threadIdx.x, n = gridDim.x * blockDim.x;
    part[blockIdx.x * blockDim.x + t] = in[blockIdx.x * blockDim.x + t] * 2.0f; // race
    ONLY_RIGHT(__threadfence());
    __syncthreads();
    if (t == 0)
        last = atomicAdd(&finished, 1) == gridDim.x - 1;
    __syncthreads();
    if (!last)
        return;
    for (int i = t; i < n; i += blockDim.x)
        out[i] = part[n - 1 - i]; // race
    if (t == 0)
        finished = 0;
}

__device__ unsigned warps_finished;

extern "C" __global__ void last_warp_of_many(const float *in, float *part, float *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, n = gridDim.x * blockDim.x;
    part[i] = in[i]; // race
    ONLY_RIGHT(__threadfence());
    __syncwarp();
    unsigned before = 0;
    if (threadIdx.x % 32 == 0)
        before = atomicInc(&warps_finished, n / 32 - 1);
    before = __shfl_sync(0xffffffffu, before, 0);
    if (before == n / 32 - 1)
        for (int k = threadIdx.x % 32; k < n; k += 32)
            out[k] = part[n - 1 - k]; // race
}

extern "C" __global__ void first_warp_publishes(int *data, int *flag, int *out)
{
    int t = threadIdx.x;
    if (blockIdx.x == 0) {
        if (t >= 32) {
            data[t - 32] = t; // race
            ONLY_RIGHT(__threadfence());
            asm volatile("bar.arrive 1, 64;" ::: "memory");
        } else {
            asm volatile("bar.sync 1, 64;" ::: "memory");
            if (t == 0)
                atomicExch(flag, 1);
        }
    } else if (t < 32) {
        if (t == 0)
            while (atomicAdd(flag, 0) == 0) {
            }
        __syncwarp();
        out[t] = data[31 - t]; // race
    }
}

extern "C" __global__ void fence_of_the_block_only(int *data, int *flag, int *out)
{
    int t = threadIdx.x;
    if (blockIdx.x == 0) {
        data[t] = t; // race
        IF_WRONG(__threadfence_block, __threadfence)();
        __syncthreads();
        if (t == 0)
            *(volatile int *)flag = 1;
    } else {
        if (t == 0)
            while (*(volatile int *)flag == 0) {
            }
        __syncthreads();
        out[t] = data[31 - t]; // race
    }
}
