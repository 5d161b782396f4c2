// Multiply matrices, tile by tile
#define TILE 4

extern "C" __global__ void tiled_product(const float *a, const float *b, float *c, int size)
{
    __shared__ float a_tile[TILE][TILE], b_tile[TILE][TILE];
    int x = threadIdx.x, y = threadIdx.y;
    int row = blockIdx.y * TILE + y, column = blockIdx.x * TILE + x;
    float sum = 0.0f;

    for (int start = 0; start < size; start += TILE) {
        a_tile[y][x] = a[row * size + start + x];
        b_tile[y][x] = b[(start + y) * size + column];
        __syncthreads();  // both tiles are complete
        for (int k = 0; k < TILE; k++)
            sum += a_tile[y][k] * b_tile[k][x];
        __syncthreads();  // nobody reads them any more
    }

    c[row * size + column] = sum;
}
