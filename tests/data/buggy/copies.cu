// Asynchronous copies that a thread reads, overwrites or starts too early: cp.async in groups, bulk copies on an mbarrier.
// Each kernel is wrong if BUG is defined, and right otherwise. Lines that take part in the mistake end with a mark.
#ifdef BUG
#define ONLY_RIGHT(...)
#define IF_WRONG(wrong, right) wrong
#else
#define ONLY_RIGHT(...) __VA_ARGS__
#define IF_WRONG(wrong, right) right
#endif
#define SHARED(p) ((unsigned)__cvta_generic_to_shared(p))
#define COPY(to, from) asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(SHARED(to)), "l"(from) : "memory")
#define COMMIT() asm volatile("cp.async.commit_group;" ::: "memory")
#define WAIT(n) asm volatile("cp.async.wait_group " #n ";" ::: "memory")
#define INIT(b, n) asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(SHARED(b)), "r"(n) : "memory")
#define EXPECT(b, n) \
    asm volatile("{ .reg .b64 s; mbarrier.arrive.expect_tx.shared.b64 s, [%0], %1; }" ::"r"(SHARED(b)), "r"(n) : "memory")
#define UNTIL(b, phase) \
    asm volatile("{ .reg .pred p; L: mbarrier.try_wait.parity.shared.b64 p, [%0], %1; @!p bra L; }" ::"r"(SHARED(b)), \
                 "r"(phase) : "memory")
#define BULK_IN(to, from, n, b) \
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(SHARED(to)), \
                 "l"(from), "r"(n), "r"(SHARED(b)) : "memory")
#define BULK_OUT(to, from, n) \
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2; cp.async.bulk.commit_group;" ::"l"(to), \
                 "r"(SHARED(from)), "r"(n) : "memory")
#define BULK_READ() asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory")
#define PROXY() asm volatile("fence.proxy.async.shared::cta;" ::: "memory")

extern "C" __global__ void copy_without_wait(const float *in, float *out)
{
    __shared__ float tile[64];
    int t = threadIdx.x;
    COPY(&tile[t], &in[t]); // copy
    COMMIT();
    ONLY_RIGHT(WAIT(0));
    __syncthreads();
    out[t] = tile[63 - t] + 1.0f; // copy
}

extern "C" __global__ void copy_without_commit(const float *in, float *out)
{
    __shared__ float tile[64];
    int t = threadIdx.x;
    COPY(&tile[t], &in[t]); // copy
    ONLY_RIGHT(COMMIT());
    WAIT(0);
    __syncthreads();
    out[t] = tile[t]; // copy
}

extern "C" __global__ void one_group_too_few(const float *in, float *out, int tiles)
{
    __shared__ float tile[2][64];
    int t = threadIdx.x;
    float sum = 0.0f;
    COPY(&tile[0][t], &in[t]); // copy
    COMMIT();
    for (int k = 0; k < tiles; ++k) {
        if (k + 1 < tiles)
            COPY(&tile[k + 1 & 1][t], &in[64 * (k + 1) + t]); // copy
        ONLY_RIGHT(COMMIT());
        WAIT(1);
        __syncthreads();
        sum += tile[k & 1][63 - t]; // copy
        __syncthreads();
        IF_WRONG(COMMIT(), );
    }
    out[t] = sum;
}

extern "C" __global__ void barrier_before_the_wait(const float *in, float *out)
{
    __shared__ float tile[64];
    int t = threadIdx.x;
    COPY(&tile[t], &in[t]); // copy
    COMMIT();
    IF_WRONG(__syncthreads(), WAIT(0)); // copy
    IF_WRONG(WAIT(0), __syncthreads()); // copy
    out[t] = tile[63 - t]; // copy
}

extern "C" __global__ void no_barrier_after_the_wait(const float *in, float *out)
{
    __shared__ float tile[64];
    int t = threadIdx.x;
    COPY(&tile[t], &in[t]); // copy
    COMMIT();
    WAIT(0); // copy
    ONLY_RIGHT(__syncthreads());
    out[t] = tile[t > 0 ? t - 1 : 0]; // copy
}

extern "C" __global__ void reads_the_next_thread(const float *in, float *out)
{
    __shared__ float tile[64];
    int t = threadIdx.x;
    COPY(&tile[t], &in[t]); // copy
    COMMIT();
    WAIT(0);
    ONLY_RIGHT(__syncthreads());
    out[t] = tile[t + 1 & 63]; // copy
}

extern "C" __global__ void copy_over_what_is_read(const float *in, float *out, int tiles)
{
    __shared__ float tile[64];
    int t = threadIdx.x;
    float sum = 0.0f;
    for (int k = 0; k < tiles; ++k) {
        COPY(&tile[t], &in[64 * k + t]); // copy
        COMMIT();
        WAIT(0);
        __syncthreads();
        sum += tile[63 - t]; // copy
        ONLY_RIGHT(__syncthreads());
    }
    out[t] = sum;
}

extern "C" __global__ void store_over_a_copy(const float *in, float *out)
{
    __shared__ float tile[64];
    int t = threadIdx.x;
    COPY(&tile[t], &in[t]); // copy
    COMMIT();
    ONLY_RIGHT(WAIT(0));
    if (t < 8)
        tile[t] = -1.0f; // copy
    WAIT(0);
    __syncthreads();
    out[t] = tile[63 - t];
}

extern "C" __global__ void bulk_without_wait(const float *in, float *out)
{
    __shared__ alignas(16) float tile[64];
    __shared__ alignas(8) unsigned long long full;
    int t = threadIdx.x;
    if (t == 0)
        INIT(&full, 1);
    __syncthreads();
    if (t == 0) {
        EXPECT(&full, 256);
        BULK_IN(tile, in, 256, &full); // copy
    }
    IF_WRONG(__syncthreads(), UNTIL(&full, 0));
    out[t] = tile[63 - t]; // copy
}

extern "C" __global__ void one_thread_waits(const float *in, float *out)
{
    __shared__ alignas(16) float tile[64];
    __shared__ alignas(8) unsigned long long full;
    int t = threadIdx.x;
    if (t == 0)
        INIT(&full, 1);
    __syncthreads();
    if (t == 0) {
        EXPECT(&full, 256);
        BULK_IN(tile, in, 256, &full); // copy
        UNTIL(&full, 0);
    }
    ONLY_RIGHT(__syncthreads());
    out[t] = tile[63 - t]; // copy
}

extern "C" __global__ void bulk_without_fence(const float *in, float *out)
{
    __shared__ alignas(16) float tile[64];
    int t = threadIdx.x;
    tile[t] = in[t] * 2.0f; // copy
    ONLY_RIGHT(PROXY());
    __syncthreads();
    if (t == 0) {
        BULK_OUT(out, tile, 256); // copy
        BULK_READ();
    }
}

extern "C" __global__ void source_overwritten(const float *in, float *out)
{
    __shared__ alignas(16) float tile[64];
    int t = threadIdx.x;
    tile[t] = in[t] * 2.0f;
    PROXY();
    __syncthreads();
    if (t == 0) {
        BULK_OUT(out, tile, 256); // copy
        ONLY_RIGHT(BULK_READ());
    }
    __syncthreads();
    tile[63 - t] = in[t]; // copy
    __syncthreads();
    out[64 + t] = tile[t];
}

#define CLUSTER() asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory")

extern "C" __global__ void __cluster_dims__(2, 1, 1) neighbours_in_a_cluster(const float *in, float *out)
{
    __shared__ float held[32];
    unsigned t = threadIdx.x, rank, to;
    held[t] = 0.0f;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(to) : "r"(SHARED(&held[t])), "r"(rank ^ 1u));
    CLUSTER();
    asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(to), "f"(in[32 * rank + t]) : "memory"); // cluster
    ONLY_RIGHT(CLUSTER());
    out[32 * rank + t] = held[t] + 1.0f; // cluster
    CLUSTER();
}

__device__ unsigned clusters_finished;

extern "C" __global__ void __cluster_dims__(2, 1, 1) last_cluster(const float *in, float *part, float *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, n = gridDim.x * blockDim.x;
    unsigned rank, before = 0;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    part[i] = in[i]; // race
    ONLY_RIGHT(__threadfence());
    asm volatile("barrier.cluster.arrive;\nbarrier.cluster.wait;" ::: "memory");
    if (threadIdx.x == 0 && rank == 1)
        before = atomicInc(&clusters_finished, gridDim.x / 2 - 1);
    if (__syncthreads_or(before == gridDim.x / 2 - 1))
        for (int k = threadIdx.x; k < n; k += blockDim.x)
            out[k] = part[n - 1 - k]; // race
}
