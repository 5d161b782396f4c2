// Patterns that are right, and close to what the checkers report.

extern "C" __global__ void early_return(const int *in, int *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    out[i] = in[i] + 1;
    __syncwarp();
}

extern "C" __global__ void block_reduce(const int *in, int *out, int n)
{
    __shared__ int warps[32];
    int sum = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        sum += in[i];
    for (int step = 16; step; step /= 2)
        sum += __shfl_down_sync(0xffffffffu, sum, step);
    if ((threadIdx.x & 31) == 0)
        warps[threadIdx.x >> 5] = sum;
    __syncthreads();
    if (threadIdx.x < 32) {
        sum = threadIdx.x < blockDim.x / 32 ? warps[threadIdx.x] : 0;
        for (int step = 16; step; step /= 2)
            sum += __shfl_down_sync(0xffffffffu, sum, step);
        if (threadIdx.x == 0)
            atomicAdd(out, sum);
    }
}

extern "C" __global__ void small_block(const int *in, int *out)
{
    int v = in[threadIdx.x];
    for (int step = 16; step; step /= 2) {
        int other = __shfl_down_sync(__activemask(), v, step); // undefined where there is no such thread
        if (threadIdx.x + step < blockDim.x)
            v += other;
    }
    out[threadIdx.x] = v;
}

extern "C" __global__ void test_and_set(const int *in, int *most, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && in[i] > *most)
        atomicMax(most, in[i]);
}

extern "C" __global__ void visited(const int *edges, int *seen, int *order, int *count, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        int node = edges[i] % 32;
        if (!seen[node] && atomicExch(&seen[node], 1) == 0)
            order[atomicAdd(count, 1)] = node;
    }
}

extern "C" __global__ void same_flag(const int *in, int *found, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && in[i] == 7)
        *(volatile int *)found = 1;
}

__device__ int ticket_next, ticket_now, guarded;

extern "C" __global__ void ticket_lock(int *out)
{
    if (threadIdx.x == 0) {
        int mine = atomicAdd(&ticket_next, 1);
        while (atomicAdd(&ticket_now, 0) != mine)
            __nanosleep(20);
        __threadfence();
        guarded += 1;
        __threadfence();
        atomicAdd(&ticket_now, 1);
        out[blockIdx.x] = mine;
    }
}

extern "C" __global__ void release_acquire(int *data, int *flag, int *out)
{
    if (threadIdx.x)
        return;
    if (blockIdx.x == 0) {
        data[0] = 5;
        data[1] = 6;
        asm volatile("st.release.gpu.global.u32 [%0], 1;" ::"l"(flag) : "memory");
    } else {
        int seen;
        do
            asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(flag) : "memory");
        while (!seen);
        out[blockIdx.x] = data[0] + data[1];
    }
}

extern "C" __global__ void producer_consumer(const int *in, int *out, int n)
{
    __shared__ int ring[2][32];
    int lane = threadIdx.x & 31;
    if (threadIdx.x < 32) {
        for (int k = 0; k < n; ++k) {
            if (k > 1)
                asm volatile("bar.sync %0, 64;" ::"r"(3 + (k & 1)) : "memory");
            ring[k & 1][lane] = in[k * 32 + lane];
            asm volatile("bar.arrive %0, 64;" ::"r"(1 + (k & 1)) : "memory");
        }
    } else {
        for (int k = 0; k < n; ++k) {
            asm volatile("bar.sync %0, 64;" ::"r"(1 + (k & 1)) : "memory");
            out[k * 32 + lane] = ring[k & 1][31 - lane];
            if (k + 2 < n)
                asm volatile("bar.arrive %0, 64;" ::"r"(3 + (k & 1)) : "memory");
        }
    }
}

extern "C" __global__ void histogram_of_blocks(const int *in, int *bins, int n)
{
    extern __shared__ int local[];
    for (int k = threadIdx.x; k < 16; k += blockDim.x)
        local[k] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd_block(&local[in[i] & 15], 1);
    __syncthreads();
    for (int k = threadIdx.x; k < 16; k += blockDim.x)
        atomicAdd(&bins[k], local[k]);
}

extern "C" __global__ void bytes_of_neighbours(unsigned char *out)
{
    out[blockIdx.x * blockDim.x + threadIdx.x] = threadIdx.x;
}

extern "C" __global__ void votes_of_a_block(const int *in, int *out)
{
    int some = __syncthreads_or(in[threadIdx.x] > 3), all = __syncthreads_and(1);
    int count = __syncthreads_count(in[threadIdx.x] & 1);
    if (threadIdx.x == 0)
        out[blockIdx.x] = some + all + count;
}

extern "C" __global__ void divergent_warp(const int *in, int *out)
{
    unsigned t = threadIdx.x, mask = __ballot_sync(0xffffffffu, t % 3 == 0);
    int v = in[t];
    if (t % 3 == 0)
        v = __reduce_add_sync(mask, v);
    else
        v = __reduce_max_sync(~mask, v);
    unsigned peers = __match_any_sync(0xffffffffu, v);
    out[t] = v + __popc(peers);
}

extern "C" __global__ void transposed(const float *in, float *out, int n)
{
    __shared__ float tile[16][17];
    int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
    tile[threadIdx.y][threadIdx.x] = in[y * n + x];
    __syncthreads();
    x = blockIdx.y * 16 + threadIdx.x;
    y = blockIdx.x * 16 + threadIdx.y;
    out[y * n + x] = tile[threadIdx.x][threadIdx.y];
}

extern "C" __global__ void lock_with_plain_release(int *lock, int *total)
{
    if (threadIdx.x == 0) {
        while (atomicCAS(lock, 0, 1) != 0) {
        }
        __threadfence();
        *total += 1;
        __threadfence();
        *lock = 0;
    }
}

extern "C" __global__ void lock_with_volatile_release(int *lock, int *total)
{
    if (threadIdx.x == 0) {
        while (atomicExch(lock, 1) != 0) {
        }
        *total += 1;
        __threadfence();
        *(volatile int *)lock = 0;
    }
}

extern "C" __global__ void lock_tested_first(int *lock, int *total)
{
    if (threadIdx.x % 32 == 0) {
        do {
            while (*(volatile int *)lock) {
            }
        } while (atomicCAS(lock, 0, 1));
        __threadfence();
        total[0] += 1;
        __threadfence();
        atomicExch(lock, 0);
    }
}

__device__ unsigned blocks_here;
__device__ volatile unsigned generation;

__device__ void all_blocks()
{
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        unsigned mine = generation;
        if (atomicAdd(&blocks_here, 1) == gridDim.x - 1) {
            blocks_here = 0;
            __threadfence();
            generation = mine + 1;
        } else {
            while (generation == mine) {
            }
        }
        __threadfence();
    }
    __syncthreads();
}

extern "C" __global__ void barrier_by_hand(int *data)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, n = gridDim.x * blockDim.x, v;
    for (int k = 0; k < 3; ++k) {
        v = data[n - 1 - i];
        all_blocks();
        data[i] = v + k;
        all_blocks();
    }
}

// As reductions in several blocks: each thread stores and executes a fence before the block is counted.
__device__ unsigned counted;

extern "C" __global__ void split_reduction(const float *in, float *part, float *out)
{
    __shared__ float sums[64];
    __shared__ bool last;
    int t = threadIdx.x;
    part[blockIdx.x * 64 + t] = in[blockIdx.x * 64 + t];
    __threadfence();
    __syncthreads();
    if (t == 0)
        last = atomicAdd(&counted, 1) == gridDim.x - 1;
    __syncthreads();
    if (last) {
        __threadfence();
        float sum = 0.0f;
        for (int k = 0; k < gridDim.x; ++k)
            sum += part[k * 64 + 63 - t];
        sums[t] = sum;
        __syncthreads();
        if (t == 0) {
            for (int k = 1; k < 64; ++k)
                sum += sums[k];
            *out = sum;
            counted = 0;
        }
    }
}

extern "C" __global__ void flag_after_a_barrier(int *data, int *flag, int *out)
{
    int t = threadIdx.x;
    if (blockIdx.x == 0) {
        for (int k = 0; k < 4; ++k) {
            data[k * 32 + t] = t;
            __threadfence();
            __syncthreads();
            if (t == 31)
                *(volatile int *)flag = k + 1;
        }
    } else {
        for (int k = 0; k < 4; ++k) {
            if (t == 7)
                while (*(volatile int *)flag <= k) {
                }
            __syncthreads();
            out[blockIdx.x * 32 + t] += data[k * 32 + 31 - t];
        }
    }
}

extern "C" __global__ void found_by_one(const int *in, int *found)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (in[i] % 7 == 3 && !*found)
        *(volatile int *)found = 1;
}
