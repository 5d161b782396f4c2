"""cuda.core's example: a templated saxpy that NVRTC compiles to a cubin, launched on a stream."""

import numpy
from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch

CODE = """
template<typename T>
__global__ void saxpy(const T a, const T* x, const T* y, T* out, size_t N) {
    const unsigned int tid = threadIdx.x + blockIdx.x * blockDim.x;
    for (size_t i = tid; i < N; i += gridDim.x * blockDim.x) out[i] = a * x[i] + y[i];
}
"""


def main():
    device = Device()
    device.set_current()
    stream = device.create_stream()
    options = ProgramOptions(std="c++17", arch=f"sm_{device.arch}")
    names = ("saxpy<float>", "saxpy<double>")
    module = Program(CODE, code_type="c++", options=options).compile("cubin", name_expressions=names)
    for name, dtype in zip(names, (numpy.float32, numpy.float64)):
        kernel, n = module.get_kernel(name), 5000
        x, y = numpy.arange(n, dtype=dtype), numpy.ones(n, dtype)
        size = x.nbytes
        from cuda.bindings import driver

        buffers = [device.allocate(size, stream=stream) for _ in range(3)]
        for buffer, values in zip(buffers, (x, y)):
            (error,) = driver.cuMemcpyHtoDAsync(int(buffer.handle), values.ctypes.data, size, stream.handle)
            assert error == 0, error
        config = LaunchConfig(grid=32, block=256)
        scalar = dtype(2.5)
        launch(stream, config, kernel, scalar, *buffers, numpy.uint64(n))
        result = numpy.empty_like(x)
        (error,) = driver.cuMemcpyDtoHAsync(result.ctypes.data, int(buffers[2].handle), size, stream.handle)
        assert error == 0, error
        stream.sync()
        numpy.testing.assert_array_equal(result, scalar * x + y)
        for buffer in buffers:
            buffer.close(stream)
        print(f"{name}: as NumPy")
    stream.close()


main()
