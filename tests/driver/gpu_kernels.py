"""CUDA C for test_gpu.py: kernels that show when and where a GPU runs them. They compile for every architecture."""

from __future__ import annotations

# spin:      runs for so many nanoseconds
# meet:      sets flags[mine] and waits, for at most so many nanoseconds, until the other flag is set; was it?
# places:    counts the blocks on each multiprocessor
# together:  each block waits until all blocks have begun
# scale:     x[i] *= by
# heights:   calls itself, so that it needs a stack
KERNELS = """
typedef unsigned long long u64;
static __device__ u64 now() { u64 t; asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t)); return t; }
static __device__ void pass(u64 ns) { for (u64 end = now() + ns; now() < end;); }

extern "C" __global__ void spin(u64 ns) { pass(ns); }

extern "C" __global__ void meet(volatile unsigned *flags, int mine, u64 ns)
{
    flags[mine] = 1;
    __threadfence_system();
    for (u64 end = now() + ns; !flags[1 - mine] && now() < end;);
    flags[2 + mine] = flags[1 - mine];
}

extern "C" __global__ void places(unsigned *seen, u64 ns)
{
    unsigned at;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(at));
    if (threadIdx.x == 0) atomicAdd(&seen[at], 1u);
    pass(ns);
}

extern "C" __global__ void together(unsigned *count)
{
    if (threadIdx.x == 0) {
        atomicAdd(count, 1u);
        while (atomicAdd(count, 0u) < gridDim.x);
    }
    __syncthreads();
}

extern "C" __global__ void scale(float *x, float by, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) x[i] *= by;
}

extern "C" __global__ void reversed(float *x)  // through dynamic shared memory
{
    extern __shared__ float kept[];
    kept[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = kept[blockDim.x - 1 - threadIdx.x];
}

static __device__ __noinline__ int height(volatile int *at, int left)
{
    volatile int frame[16];
    for (int i = 0; i < 16; ++i) frame[i] = left + i;
    if (left == 0) return frame[*at];
    return height(at, left - 1) + frame[*at];
}
extern "C" __global__ void heights(int *out, int depth) { out[1] = height(out, depth); }

__managed__ int counter = 5;
__device__ float table[1 << 24];
extern "C" __global__ void count() { counter += 1; table[threadIdx.x] = counter; }
"""

# Two dependent launches: the first one begins the second one early, and waits until it has begun.
DEPENDENT = """
typedef unsigned long long u64;
static __device__ u64 now() { u64 t; asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t)); return t; }
extern "C" __global__ void first(volatile unsigned *flags, u64 ns)
{
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
    for (u64 end = now() + ns; !flags[0] && now() < end;);
    flags[1] = flags[0];
    flags[2] = 7;
}
extern "C" __global__ void second(volatile unsigned *flags)
{
    flags[0] = 1;
    __threadfence();
    asm volatile("griddepcontrol.wait;" ::: "memory");
    flags[3] = flags[2];
}
"""

# The blocks of a cluster wait for each other by polling shared memory, so that they must run at the same time.
CLUSTER = """
extern "C" __global__ void ring(unsigned *out)
{
    __shared__ unsigned mine;
    unsigned rank, count, theirs, got, at = (unsigned)__cvta_generic_to_shared(&mine);
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(count));
    mine = 0;
    asm volatile("barrier.cluster.arrive; barrier.cluster.wait;" ::: "memory");
    asm("mapa.shared::cluster.u32 %0, %1, %2;"
        : "=r"(theirs) : "r"(at), "r"((rank + 1) % count));
    asm volatile("st.release.cluster.shared::cluster.u32 [%0], %1;" :: "r"(theirs), "r"(rank + 100) : "memory");
    do asm volatile("ld.acquire.cluster.shared::cta.u32 %0, [%1];" : "=r"(got) : "r"(at) : "memory");
    while (got == 0);
    out[blockIdx.x] = got;
    asm volatile("barrier.cluster.arrive; barrier.cluster.wait;" ::: "memory");
}
"""

# One bulk copy of a box of 8 rows of 32 floats, described by a tensor map.
TENSOR = """
typedef unsigned long long u64;
struct alignas(64) TensorMap { unsigned char bytes[128]; };
extern "C" __global__ void tile(const __grid_constant__ TensorMap map, int x, int y, float *out)
{
    __shared__ alignas(128) float box[8 * 32];
    __shared__ alignas(8) u64 barrier;
    unsigned meeting = (unsigned)__cvta_generic_to_shared(&barrier), to = (unsigned)__cvta_generic_to_shared(box), done;
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(meeting) : "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
            :: "r"(meeting), "r"((unsigned)sizeof(box)) : "memory");
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
            " [%0], [%1, {%3, %4}], [%2];" :: "r"(to), "l"(&map), "r"(meeting), "r"(x), "r"(y) : "memory");
    }
    __syncthreads();
    do asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
        : "=r"(done) : "r"(meeting) : "memory");
    while (!done);
    for (int i = threadIdx.x; i < 8 * 32; i += blockDim.x) out[i] = box[i];
}
"""

# Textures and surfaces.
IMAGES = """
extern "C" __global__ void between(cudaTextureObject_t image, float step, float *out)
{
    out[threadIdx.x] = tex2D<float>(image, 0.5f + threadIdx.x * step, 0.5f);
}
extern "C" __global__ void paint(cudaSurfaceObject_t image)
{
    surf2Dwrite((float)(10 * threadIdx.y + threadIdx.x), image, threadIdx.x * 4, threadIdx.y);
}
extern "C" __global__ void level(cudaTextureObject_t image, float *out, float step)
{
    out[threadIdx.x] = tex2DLod<float>(image, 0.5f, 0.5f, threadIdx.x * step);
}
"""

# source: the oldest architecture that it is compiled for
SOURCES = {KERNELS: 75, IMAGES: 75, DEPENDENT: 90, CLUSTER: 90, TENSOR: 90}
