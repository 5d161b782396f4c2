"""A softmax and a matrix product in Triton, without PyTorch: NumPy's arrays are copied through the driver.

The kernels are those of Triton's tutorials, in the plain form that needs no autotuning.
"""

import ctypes

import numpy
import triton
import triton.language as tl

cuda = ctypes.CDLL("libcuda.so.1")


def check(code):
    if code:
        raise RuntimeError(f"the driver returned {code}")


class Array:
    """Memory of a device in the form in which Triton takes it: an object with data_ptr() and a dtype."""

    def __init__(self, values):
        self.values, self.dtype = numpy.ascontiguousarray(values), {2: tl.float16, 4: tl.float32}[values.itemsize]
        self.address, self.size = ctypes.c_uint64(), ctypes.c_size_t(values.nbytes)
        check(cuda.cuMemAlloc_v2(ctypes.byref(self.address), self.size))
        check(cuda.cuMemcpyHtoD_v2(self.address, ctypes.c_void_p(self.values.ctypes.data), self.size))

    def data_ptr(self):
        return self.address.value

    def numpy(self):
        check(cuda.cuCtxSynchronize())
        check(cuda.cuMemcpyDtoH_v2(ctypes.c_void_p(self.values.ctypes.data), self.address, self.size))
        return self.values


@triton.jit
def softmax(out, source, stride, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    place = tl.arange(0, BLOCK)
    x = tl.load(source + row * stride + place, mask=place < columns, other=-float("inf"))
    x = tl.exp(x - tl.max(x, axis=0))
    tl.store(out + row * stride + place, x / tl.sum(x, axis=0), mask=place < columns)


@triton.jit
def product(a, b, c, K, N, M: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_N: tl.constexpr):
    rows, columns = tl.arange(0, M), tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    total = tl.zeros((M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        inner = k + tl.arange(0, BLOCK_K)
        x = tl.load(a + rows[:, None] * K + inner[None, :])
        y = tl.load(b + inner[:, None] * N + columns[None, :])
        total = tl.dot(x, y, total)
    tl.store(c + rows[:, None] * N + columns[None, :], total)


def main():
    check(cuda.cuInit(0))
    context = ctypes.c_void_p()
    check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
    check(cuda.cuCtxSetCurrent(context))
    random = numpy.random.default_rng(1)

    x = random.standard_normal((8, 100), dtype=numpy.float32)
    out = Array(numpy.zeros_like(x))
    softmax[(8,)](out, Array(x), 100, 100, BLOCK=128)
    expected = numpy.exp(x - x.max(1, keepdims=True))
    numpy.testing.assert_allclose(out.numpy(), expected / expected.sum(1, keepdims=True), rtol=1e-5)
    print("softmax: as NumPy")

    for dtype in (numpy.float16, numpy.float32):
        a = random.integers(-4, 5, (32, 64)).astype(dtype)
        b = random.integers(-4, 5, (64, 32)).astype(dtype)
        c = Array(numpy.zeros((32, 32), numpy.float32))
        product[(2,)](Array(a), Array(b), c, 64, 32, M=32, BLOCK_K=32, BLOCK_N=16)
        numpy.testing.assert_allclose(c.numpy(), a.astype(numpy.float32) @ b.astype(numpy.float32))
        print(f"product of {dtype.__name__}: as NumPy")


main()
