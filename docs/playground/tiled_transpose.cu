// Transpose a matrix through a tile in shared memory
#define TILE 8

extern "C" __global__ void tiled_transpose(const float *in, float *out, int rows, int columns)
{
    __shared__ float tile[TILE][TILE + 1];  // + 1 puts the elements of a column into different banks
    int column = blockIdx.x * TILE + threadIdx.x;
    int row = blockIdx.y * TILE + threadIdx.y;
    if (row < rows && column < columns)
        tile[threadIdx.y][threadIdx.x] = in[row * columns + column];
    __syncthreads();

    // Threads that are neighbors have read neighbors in memory. They write neighbors, too: only the tile is transposed.
    int new_column = blockIdx.y * TILE + threadIdx.x;
    int new_row = blockIdx.x * TILE + threadIdx.y;
    if (new_row < columns && new_column < rows)
        out[new_row * rows + new_column] = tile[threadIdx.x][threadIdx.y];
}
