"""Triton kernels without PyTorch: NumPy's arrays are copied through the driver, which Triton's own launcher then uses.

The kernels are those of Triton's tutorials, in the plain form that needs no autotuning.
"""

import ctypes

import numpy
import pytest
import triton
import triton.language as tl

cuda = ctypes.CDLL("libcuda.so.1")
random = numpy.random.default_rng(1)


def check(code):
    if code:
        raise RuntimeError(f"the driver returned {code}")


class Array:
    """Memory of a device in the form in which Triton takes it: an object with data_ptr() and a dtype."""

    def __init__(self, values):
        self.values = numpy.ascontiguousarray(values)
        self.dtype = getattr(tl, str(values.dtype))
        self.address, self.size = ctypes.c_uint64(), ctypes.c_size_t(values.nbytes)
        check(cuda.cuMemAlloc_v2(ctypes.byref(self.address), self.size))
        check(cuda.cuMemcpyHtoD_v2(self.address, ctypes.c_void_p(self.values.ctypes.data), self.size))

    def data_ptr(self):
        return self.address.value

    def numpy(self):
        check(cuda.cuCtxSynchronize())
        check(cuda.cuMemcpyDtoH_v2(ctypes.c_void_p(self.values.ctypes.data), self.address, self.size))
        return self.values


def start():
    """Make the primary context current."""
    check(cuda.cuInit(0))
    made = ctypes.c_void_p()
    check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(made), 0))
    check(cuda.cuCtxSetCurrent(made))


@pytest.fixture(autouse=True, scope="module")
def context():
    start()


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = place < n
    tl.store(out + place, tl.load(x + place, mask=inside) + tl.load(y + place, mask=inside), mask=inside)


@triton.jit
def softmax(out, source, stride, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    place = tl.arange(0, BLOCK)
    x = tl.load(source + row * stride + place, mask=place < columns, other=-float("inf"))
    x = tl.exp(x - tl.max(x, axis=0))
    tl.store(out + row * stride + place, x / tl.sum(x, axis=0), mask=place < columns)


@triton.jit
def normalize(x, weight, bias, out, columns, BLOCK: tl.constexpr):
    row, place = tl.program_id(0), tl.arange(0, BLOCK)
    inside = place < columns
    value = tl.load(x + row * columns + place, mask=inside, other=0.0)
    mean = tl.sum(value, axis=0) / columns
    rest = tl.where(inside, value - mean, 0.0)
    scale = 1 / tl.sqrt(tl.sum(rest * rest, axis=0) / columns + 1e-5)
    made = rest * scale * tl.load(weight + place, mask=inside) + tl.load(bias + place, mask=inside)
    tl.store(out + row * columns + place, made, mask=inside)


@triton.jit
def histogram(x, counts, n, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = place < n
    tl.atomic_add(counts + tl.load(x + place, mask=inside, other=0), 1, mask=inside)


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


@triton.jit
def running_sum(x, out, BLOCK: tl.constexpr):
    place = tl.arange(0, BLOCK)
    tl.store(out + place, tl.cumsum(tl.load(x + place), axis=0))


@pytest.mark.parametrize("n", [1, 1000, 4096])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "float64"])
def test_add(n, dtype):
    x, y = (random.integers(-100, 100, n).astype(dtype) for _ in range(2))
    out = Array(numpy.zeros(n, dtype))
    add[(triton.cdiv(n, 512),)](Array(x), Array(y), out, n, BLOCK=512)
    numpy.testing.assert_array_equal(out.numpy(), x + y)


@pytest.mark.parametrize("columns", [1, 100, 781])
def test_softmax(columns):
    x = random.standard_normal((8, columns), dtype=numpy.float32)
    out = Array(numpy.zeros_like(x))
    softmax[(8,)](out, Array(x), columns, columns, BLOCK=triton.next_power_of_2(columns))
    expected = numpy.exp(x - x.max(1, keepdims=True))
    numpy.testing.assert_allclose(out.numpy(), expected / expected.sum(1, keepdims=True), rtol=1e-5)


def test_layer_norm():
    x = random.standard_normal((4, 200), dtype=numpy.float32)
    weight, bias = (random.standard_normal(200, dtype=numpy.float32) for _ in range(2))
    out = Array(numpy.zeros_like(x))
    normalize[(4,)](Array(x), Array(weight), Array(bias), out, 200, BLOCK=256)
    expected = (x - x.mean(1, keepdims=True)) / numpy.sqrt(x.var(1, keepdims=True) + 1e-5) * weight + bias
    numpy.testing.assert_allclose(out.numpy(), expected, rtol=1e-4, atol=1e-5)


def test_histogram():
    x = random.integers(0, 16, 1000).astype(numpy.int32)
    counts = Array(numpy.zeros(16, numpy.int32))
    histogram[(4,)](Array(x), counts, 1000, BLOCK=256)
    numpy.testing.assert_array_equal(counts.numpy(), numpy.bincount(x, minlength=16))


def test_running_sum():
    x = random.integers(0, 9, 256).astype(numpy.int32)
    out = Array(numpy.zeros_like(x))
    running_sum[(1,)](Array(x), out, BLOCK=256)
    numpy.testing.assert_array_equal(out.numpy(), numpy.cumsum(x))


@pytest.mark.parametrize("dtype", [numpy.float16, numpy.float32])
@pytest.mark.parametrize("size", [16, 32])
def test_product(size, dtype):
    a = random.integers(-4, 5, (size, 64)).astype(dtype)
    b = random.integers(-4, 5, (64, 32)).astype(dtype)
    c = Array(numpy.zeros((size, 32), numpy.float32))
    product[(2,)](Array(a), Array(b), c, 64, 32, M=size, BLOCK_K=32, BLOCK_N=16)
    numpy.testing.assert_allclose(c.numpy(), a.astype(numpy.float32) @ b.astype(numpy.float32))
