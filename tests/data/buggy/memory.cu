// Accesses outside memory, to freed memory, misaligned, and to memory that was never written.
// Each kernel is wrong if BUG is defined, and right otherwise. The line of the mistake ends with a mark: its kind.

extern "C" __global__ void past_the_end(const float *in, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
#ifdef BUG
    if (i <= n)
#else
    if (i < n)
#endif
        out[i] = in[i] * 2.0f; // out of bounds
}

struct Grid {
    float *cells;
    int width, height;
    __device__ float &at(int x, int y) { return cells[y * width + x]; }
};

extern "C" __global__ void before_the_start(float *out, float *cells, int width, int height)
{
    Grid grid = {cells, width, height};
    int x = threadIdx.x, y = blockIdx.x;
#ifdef BUG
    int left = x - 1;
#else
    int left = x ? x - 1 : 0;
#endif
    if (x < width && y < height)
        out[y * width + x] = grid.at(left, y) + 1.0f; // out of bounds
}

template <class T> __device__ T *row_of(T *base, int row, int pitch) { return base + row * pitch; }

extern "C" __global__ void wrong_pitch(int *image, int width, int rows)
{
    for (int row = threadIdx.x; row < rows; row += blockDim.x) {
#ifdef BUG
        int *start = row_of(image, row, width + 8);
#else
        int *start = row_of(image, row, width);
#endif
        for (int x = 0; x < width; ++x)
            start[x] = row; // out of bounds
    }
}

extern "C" __global__ void a_null_pointer(int *out, const int *optional)
{
#ifndef BUG
    if (optional)
#endif
        out[threadIdx.x] = optional[threadIdx.x]; // out of bounds
}

extern "C" __global__ void past_shared(const int *in, int *out)
{
    __shared__ int tile[32];
    int t = threadIdx.x;
    tile[t] = in[t];
    __syncthreads();
#ifdef BUG
    out[t] = tile[t] + tile[t + 1]; // out of bounds
#else
    out[t] = tile[t] + tile[(t + 1) % 32];
#endif
}

extern "C" __global__ void dynamic_shared(const double *in, double *out, int n)
{
    extern __shared__ double buffer[];
    int t = threadIdx.x;
#ifdef BUG
    buffer[n + t] = in[t]; // out of bounds
    out[t] = buffer[n + t];
#else
    buffer[t] = in[t];
    out[t] = buffer[t];
#endif
}

extern "C" __global__ void past_local(int *out, const int *index)
{
    int counts[8];
#pragma unroll 1
    for (int k = 0; k < 8; ++k)
        counts[k] = k * k;
#ifdef BUG
    int which = index[threadIdx.x] + 8;
#else
    int which = index[threadIdx.x] & 7;
#endif
    counts[which] += 1; // out of bounds
    out[threadIdx.x] = counts[which & 7];
}

extern "C" __global__ void stale(float *out, const float *freed, const float *kept)
{
#ifdef BUG
    const float *from = freed;
#else
    const float *from = kept;
#endif
    out[threadIdx.x] = from[threadIdx.x]; // use after free
}

struct Node { Node *next; int value; };

extern "C" __global__ void list_of_freed_nodes(int *out)
{
    if (threadIdx.x)
        return;
    Node *head = nullptr;
    for (int k = 0; k < 4; ++k) {
        Node *made = (Node *)malloc(sizeof(Node));
        made->next = head;
        made->value = k;
        head = made;
    }
    int sum = 0;
    while (head) {
#ifdef BUG
        free(head);
        sum += head->value; // use after free
        head = head->next;
#else
        Node *next = head->next;
        sum += head->value;
        free(head);
        head = next;
#endif
    }
    out[0] = sum;
}

extern "C" __global__ void misaligned_vector(const float *in, float4 *out)
{
#ifdef BUG
    const float4 *from = reinterpret_cast<const float4 *>(in + 1);
#else
    const float4 *from = reinterpret_cast<const float4 *>(in + 4);
#endif
    out[threadIdx.x] = from[threadIdx.x]; // misaligned
}

extern "C" __global__ void misaligned_packet(const unsigned char *packet, unsigned *out)
{
    const unsigned char *field = packet + 2 + 4 * threadIdx.x;
#ifdef BUG
    out[threadIdx.x] = *(const unsigned *)field; // misaligned
#else
    out[threadIdx.x] = field[0] | field[1] << 8 | field[2] << 16 | (unsigned)field[3] << 24;
#endif
}

extern "C" __global__ void sum_without_start(const int *in, int *total, int n)
{
    __shared__ int sum;
#ifndef BUG
    if (threadIdx.x == 0)
        sum = 0;
    __syncthreads();
#endif
    if (threadIdx.x == 0) {
        for (int k = 0; k < n; ++k) // never written
            sum += in[k]; // never written
        *total = sum;
    }
}

extern "C" __global__ void scratch_without_start(float *scratch, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
#ifdef BUG
    if (i % 2)
#endif
        scratch[i] = i;
    out[i] = scratch[i] * 0.5f; // never written
}
