// Transpose a matrix through a tile in shared memory
#define TILE 8

extern "C" __global__ void tiled_transpose(const float *in, float *out, int rows, int columns)
{
    __shared__ float tile[TILE][TILE + 1];  // the column more avoids conflicts of banks
    int column = blockIdx.x * TILE + threadIdx.x;
    int row = blockIdx.y * TILE + threadIdx.y;
    if (row < rows && column < columns)
        tile[threadIdx.y][threadIdx.x] = in[row * columns + column];
    __syncthreads();

    // The threads of a row of the block now write a row of the result: neighbors in memory, as when they read.
    column = blockIdx.y * TILE + threadIdx.x;
    row = blockIdx.x * TILE + threadIdx.y;
    if (row < columns && column < rows)
        out[row * rows + column] = tile[threadIdx.x][threadIdx.y];
}
