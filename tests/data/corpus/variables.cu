// Variables of a module: initialized, pointers to each other, constant, managed, shared.
#include <stdint.h>
struct Node { int value; Node *next; };
__device__ int plain = 42;
__device__ float numbers[8] = {1.5f, -2.25f, 3.0f, 1e-40f, 1e30f};
__device__ double precise[3] = {0.1, -1e300, 5e-324};
__device__ char text[] = "corpus \"quoted\"\n";
__device__ short small[2][3] = {{1, -2, 3}, {4, 5}};
__device__ unsigned long long wide = 0xfedcba9876543210ull;
__device__ uint8_t bytes[5] = {250, 251, 252, 253, 254};
extern __device__ Node second;
__device__ Node head = {1, &second};
__device__ Node second = {2, nullptr};
__device__ float *inside = numbers + 2;
__device__ int *to_plain = &plain;
__device__ int **to_pointer = &to_plain;
__device__ struct { char tag; short pad; const char *name; double d[2]; } mixed = {'m', 7, "a name", {2.5, -0.0}};
__constant__ float weights[4] = {0.25f, 0.5f, 0.75f, 1.0f};
__constant__ int64_t offsets[2] = {1ll << 40, -1};
__constant__ const float *constant_pointer = numbers + 1;
__managed__ int managed_value = 11;
__managed__ double managed_array[4];
__device__ volatile int counter;
__device__ int grown[1000];
namespace inner { __device__ int named = 5; }
static __device__ int hidden = 6;
extern "C" __global__ void read_all(double *out) {
    int k = 0;
    out[k++] = plain; out[k++] = numbers[0]; out[k++] = numbers[3] * 1e30f * 1e10f; out[k++] = numbers[7]; out[k++] = precise[0]; out[k++] = precise[1];
    out[k++] = precise[2]; out[k++] = text[8]; out[k++] = sizeof text; out[k++] = text[15]; out[k++] = small[0][1]; out[k++] = small[1][1]; out[k++] = small[1][2];
    out[k++] = (double)(wide >> 32); out[k++] = bytes[4]; out[k++] = head.value; out[k++] = head.next->value; out[k++] = head.next->next == nullptr;
    out[k++] = *inside; out[k++] = **to_pointer; out[k++] = mixed.tag; out[k++] = mixed.pad; out[k++] = mixed.name[3]; out[k++] = mixed.d[0];
    out[k++] = weights[2]; out[k++] = (double)offsets[0]; out[k++] = (double)offsets[1]; out[k++] = *constant_pointer; out[k++] = managed_value;
    out[k++] = managed_array[3]; out[k++] = counter; out[k++] = grown[999]; out[k++] = inner::named; out[k++] = hidden;
}
extern "C" __global__ void change(int by) { plain += by; numbers[1] += by; managed_value *= by; managed_array[threadIdx.x] = threadIdx.x * 0.5; *to_plain += 1; }
extern "C" __global__ void lookup(float *out, const int *index) { out[threadIdx.x] = weights[index[threadIdx.x] & 3] + numbers[index[threadIdx.x]]; }
extern "C" __global__ void follow(int *out, Node *from) { int s = 0; for (Node *n = from; n; n = n->next) s = s * 10 + n->value; *out = s; }
extern "C" __global__ void addresses(uint64_t *out) { out[0] = (uint64_t)&plain; out[1] = (uint64_t)&numbers[3]; out[2] = (uint64_t)text; out[3] = (uint64_t)&head; }
extern "C" __global__ void spaces(int *out) {
    __shared__ int s; int l[2]; l[threadIdx.x & 1] = 1;
    out[0] = __isGlobal(out); out[1] = __isShared(&s); out[2] = __isLocal(l); out[3] = __isConstant(weights); out[4] = __isGlobal(&plain); out[5] = __isShared(out);
    int *p = threadIdx.x + blockDim.x == 1 ? &s : l; *p = 9; out[6] = s;
}
extern __shared__ int dynamic_ints[];
__shared__ int fixed[3];
__device__ __noinline__ void through_shared(int k) { dynamic_ints[k] = k * fixed[1]; }
extern "C" __global__ void module_shared(int *out) {
    if (threadIdx.x == 0) { fixed[1] = 7; }
    __syncthreads(); through_shared(threadIdx.x); __syncthreads();
    unsigned size; asm("mov.u32 %0, %%dynamic_smem_size;" : "=r"(size));
    out[threadIdx.x] = dynamic_ints[blockDim.x - 1 - threadIdx.x] + size;
}
