// Multiply two matrices, tile by tile
#define TILE 4

extern "C" __global__ void tiled_product(const float *a, const float *b, float *c, int size)
{
    __shared__ float a_tile[TILE][TILE], b_tile[TILE][TILE];
    int x = threadIdx.x, y = threadIdx.y;
    int column = blockIdx.x * TILE + x;
    int row = blockIdx.y * TILE + y;
    float sum = 0.0f;

    #pragma unroll 1
    for (int start = 0; start < size; start += TILE) {
        a_tile[y][x] = a[row * size + start + x];
        b_tile[y][x] = b[(start + y) * size + column];
        __syncthreads();  // both tiles are complete
        #pragma unroll
        for (int k = 0; k < TILE; k++)
            sum += a_tile[y][k] * b_tile[k][x];
        __syncthreads();  // no thread needs these tiles any more
    }

    c[row * size + column] = sum;
}
