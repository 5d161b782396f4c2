// Transpose a matrix: a grid with two dimensions
extern "C" __global__ void transpose(const int *in, int *out, int rows, int columns)
{
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;

    if (row < rows && column < columns)
        out[column * rows + row] = in[row * columns + column];
}
