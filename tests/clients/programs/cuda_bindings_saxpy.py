"""A saxpy with cuda.bindings: NVRTC compiles it to a cubin, and the driver's own functions load and launch it."""

import numpy
from cuda.bindings import driver, nvrtc

CODE = b"""
extern "C" __global__ void saxpy(float a, const float *x, const float *y, float *out, size_t n) {
    size_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = a * x[i] + y[i];
}
"""


def call(function, *arguments):
    error, *results = function(*arguments)
    assert not error, (function, error)
    return results[0] if len(results) == 1 else results


call(driver.cuInit, 0)
device = call(driver.cuDeviceGet, 0)
context = call(driver.cuDevicePrimaryCtxRetain, device)
call(driver.cuCtxSetCurrent, context)
kinds = driver.CUdevice_attribute
major, minor = (
    call(driver.cuDeviceGetAttribute, getattr(kinds, f"CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_{part}"), device)
    for part in ("MAJOR", "MINOR")
)
program = call(nvrtc.nvrtcCreateProgram, CODE, b"saxpy.cu", 0, [], [])
call(nvrtc.nvrtcCompileProgram, program, 1, [f"--gpu-architecture=sm_{major}{minor}".encode()])
cubin = b" " * call(nvrtc.nvrtcGetCUBINSize, program)
call(nvrtc.nvrtcGetCUBIN, program, cubin)
module = call(driver.cuModuleLoadData, numpy.char.array(cubin))
kernel = call(driver.cuModuleGetFunction, module, b"saxpy")

n = 5000
x, y, out = numpy.arange(n, dtype="f4"), numpy.ones(n, "f4"), numpy.zeros(n, "f4")
memory = [call(driver.cuMemAlloc, x.nbytes) for _ in range(3)]
for there, here in zip(memory, (x, y)):
    call(driver.cuMemcpyHtoD, there, here, here.nbytes)
values = [numpy.array([2], "f4"), *(numpy.array([int(each)], "u8") for each in memory), numpy.array([n], "u8")]
addresses = numpy.array([each.ctypes.data for each in values], "u8")
stream = call(driver.cuStreamCreate, 0)
call(driver.cuLaunchKernel, kernel, (n + 255) // 256, 1, 1, 256, 1, 1, 0, stream, addresses.ctypes.data, 0)
call(driver.cuStreamSynchronize, stream)
call(driver.cuMemcpyDtoH, out, memory[2], out.nbytes)
numpy.testing.assert_array_equal(out, 2 * x + y)
for each in memory:
    call(driver.cuMemFree, each)
call(driver.cuStreamDestroy, stream)
call(driver.cuModuleUnload, module)
call(driver.cuDevicePrimaryCtxRelease, device)
print("saxpy: as NumPy")
