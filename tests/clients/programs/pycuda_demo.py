"""PyCUDA's first example: an array is doubled by a kernel that nvcc compiles; and a GPUArray."""

import numpy
import pycuda.autoinit  # noqa: F401
import pycuda.driver as driver
from pycuda import gpuarray
from pycuda.compiler import SourceModule

a = numpy.random.default_rng(1).standard_normal((4, 4)).astype(numpy.float32)
memory = driver.mem_alloc(a.nbytes)
driver.memcpy_htod(memory, a)
module = SourceModule("""
__global__ void doublify(float *a)
{
    int idx = threadIdx.x + threadIdx.y * 4;
    a[idx] *= 2;
}
""")
module.get_function("doublify")(memory, block=(4, 4, 1))
doubled = numpy.empty_like(a)
driver.memcpy_dtoh(doubled, memory)
numpy.testing.assert_array_equal(doubled, a * 2)
print("doublify: as NumPy")
numpy.testing.assert_array_equal((2 * gpuarray.to_gpu(a)).get(), 2 * a)
print("GPUArray: as NumPy")
