"""A client that is independent of this package: NVIDIA's cuda.bindings, with the emulator as its libcuda.

The test builds a library of ten lines, which is never installed. It has the name of libcuda, and passes every look-up
to the emulator.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys

import pytest

SHIM = """
typedef int (*question)(const char *, void **, int, unsigned long long, int *);
question answer;
int cuGetProcAddress_v2(const char *symbol, void **function, int version, unsigned long long flags, int *status)
{ return answer(symbol, function, version, flags, status); }
"""

PROGRAM = """
import array, ctypes, sys
from tests.driver import kernels
from tests.subject import module

mode, path = sys.argv[1:]
shim = ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
emulator = module("emulator").Emulator(mode)
ctypes.c_void_p.in_dll(shim, "answer").value = emulator.address("cuGetProcAddress_v2")
from cuda.bindings import driver as cu

def ok(result):
    assert result[0] == cu.CUresult.CUDA_SUCCESS, (result, emulator.reports[-1:])
    return result[1] if len(result) == 2 else result[1:]

ok(cu.cuInit(0))
device = ok(cu.cuDeviceGet(0))
assert b"emulator" in ok(cu.cuDeviceGetName(64, device))
assert ok(cu.cuDeviceGetAttribute(cu.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device)) == 9
context = ok(cu.cuDevicePrimaryCtxRetain(device))
ok(cu.cuCtxSetCurrent(context))
stream, start, end = ok(cu.cuStreamCreate(1)), ok(cu.cuEventCreate(0)), ok(cu.cuEventCreate(0))

n = 1000
a, b, c = array.array("f", range(n)), array.array("f", [2.0] * n), array.array("f", bytes(4 * n))
da, db, dc = [ok(cu.cuMemAlloc(4 * n)) for _ in range(3)]
for there, here in ((da, a), (db, b)):
    ok(cu.cuMemcpyHtoDAsync(there, here.buffer_info()[0], 4 * n, stream))
loaded = ok(cu.cuModuleLoadData(kernels.ADD.encode() + b"\\0"))
add = ok(cu.cuModuleGetFunction(loaded, b"add"))
arguments = (int(da), int(db), int(dc), n), (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)
ok(cu.cuEventRecord(start, stream))
ok(cu.cuLaunchKernel(add, 4, 1, 1, 256, 1, 1, 0, stream, arguments, 0))
config, attribute = cu.CUlaunchConfig(), cu.CUlaunchAttribute()
config.gridDimX, config.gridDimY, config.gridDimZ = 4, 1, 1
config.blockDimX, config.blockDimY, config.blockDimZ = 256, 1, 1
config.hStream = stream
attribute.id, attribute.value.priority = cu.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PRIORITY, -1
config.attrs, config.numAttrs = [attribute], 1
ok(cu.cuLaunchKernelEx(config, add, arguments, 0))
ok(cu.cuEventRecord(end, stream))
ok(cu.cuMemcpyDtoHAsync(c.buffer_info()[0], dc, 4 * n, stream))
ok(cu.cuStreamSynchronize(stream))
assert list(c) == [value + 2.0 for value in range(n)]
assert ok(cu.cuEventElapsedTime(start, end)) > 0
assert ok(cu.cuFuncGetParamInfo(add, 3)) == (24, 4)

rectangle = cu.CUDA_MEMCPY2D()
rectangle.srcMemoryType, rectangle.srcDevice, rectangle.srcPitch = cu.CUmemorytype.CU_MEMORYTYPE_DEVICE, da, 40
rectangle.dstMemoryType, rectangle.dstHost = cu.CUmemorytype.CU_MEMORYTYPE_HOST, c.buffer_info()[0]
rectangle.dstPitch = 40
rectangle.WidthInBytes, rectangle.Height = 8, 3
ok(cu.cuMemcpy2D(rectangle))
assert (c[0], c[1], c[2], c[10], c[11], c[20]) == (0, 1, 4, 10, 11, 20)

kind = cu.CUpointer_attribute.CU_POINTER_ATTRIBUTE_MEMORY_TYPE
assert ok(cu.cuPointerGetAttribute(kind, da)) == 2
ordered = ok(cu.cuMemAllocAsync(100, stream))
ok(cu.cuMemFreeAsync(ordered, stream))
ok(cu.cuStreamBeginCapture(stream, cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL))
ok(cu.cuLaunchKernel(add, 4, 1, 1, 256, 1, 1, 0, stream, arguments, 0))
graph = ok(cu.cuStreamEndCapture(stream))
ready = ok(cu.cuGraphInstantiate(graph, 0))
ok(cu.cuGraphLaunch(ready, stream))
ok(cu.cuStreamSynchronize(stream))

assert cu.cuMemAlloc(0)[0] == 1 and cu.cuMemFree(12345)[0] == 1
assert cu.cuModuleGetFunction(loaded, b"no_such")[0] == 500
assert ok(cu.cuGetErrorName(cu.CUresult(700))) == b"CUDA_ERROR_ILLEGAL_ADDRESS"

ok(cu.cuGraphExecDestroy(ready)), ok(cu.cuGraphDestroy(graph))
ok(cu.cuModuleUnload(loaded)), ok(cu.cuStreamDestroy(stream))
for event in (start, end):
    ok(cu.cuEventDestroy(event))
for memory in (da, db, dc):
    ok(cu.cuMemFree(memory))
ok(cu.cuDevicePrimaryCtxRelease(device))
assert not any(emulator.live_handles().values()), emulator.live_handles()
assert not emulator.kept_exceptions, emulator.kept_exceptions
print("all is well")
"""


@pytest.mark.skipif(shutil.which("cc") is None or sys.platform != "linux", reason="no C compiler on this machine")
@pytest.mark.skipif(
    not (importlib.util.find_spec("cuda") and importlib.util.find_spec("cuda.bindings")),
    reason="cuda-bindings is not installed",
)
@pytest.mark.parametrize("mode", ["eager", "lazy", "random"])
def test_cuda_bindings(python, tmp_path, mode):
    (tmp_path / "shim.c").write_text(SHIM)
    library = tmp_path / "libcuda.so.1"
    subprocess.run(
        [
            shutil.which("cc"),
            "-shared",
            "-fPIC",
            "-Wl,-soname,libcuda.so.1",
            str(tmp_path / "shim.c"),
            "-o",
            str(library),
        ],
        check=True,
    )
    result = python(PROGRAM, mode, str(library))
    assert result.stdout == "all is well\n", result.stderr
