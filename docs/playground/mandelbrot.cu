// Mandelbrot: points that take different numbers of steps
extern "C" __global__ void mandelbrot(int *steps, int width, int height, int most)
{
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (column >= width || row >= height)
        return;

    float real = -2.2f + 3.2f * column / width;  // the point c, of which z = z * z + c is computed again and again
    float imaginary = -1.2f + 2.4f * row / height;
    float x = 0.0f, y = 0.0f;
    int step = 0;
    while (step < most && x * x + y * y < 4.0f) {
        float next = x * x - y * y + real;
        y = 2.0f * x * y + imaginary;
        x = next;
        step++;
    }
    steps[row * width + column] = step;
}
