// Count the letters of a text: a histogram with atomicAdd
extern "C" __global__ void histogram(const unsigned char *text, int length, int *counts)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= length)
        return;

    int letter = text[i] - 'a';
    if (letter >= 0 && letter < 26)
        atomicAdd(&counts[letter], 1);  // in one step: other threads may count the same letter
}
