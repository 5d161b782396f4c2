// The Mandelbrot set: threads that take different numbers of steps
extern "C" __global__ void mandelbrot(int *steps, int width, int height, int limit)
{
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (column >= width || row >= height)
        return;

    // The point c = (a, b). A point is in the set if z = z * z + c stays small, with z = (x, y).
    float a = -2.2f + 3.2f * column / width;
    float b = -1.2f + 2.4f * row / height;
    float x = 0.0f, y = 0.0f;
    int step = 0;
    while (step < limit && x * x + y * y < 4.0f) {
        float next = x * x - y * y + a;
        y = 2.0f * x * y + b;
        x = next;
        step++;
    }
    steps[row * width + column] = step;
}
