"""PyCUDA's arrays and this package in one process, on one driver: views in both directions, copies, launches, streams.

The package is that of the checkout, on the driver that PyCUDA has, which is the emulator's where a GPU is missing.
"""

import sys
from pathlib import Path

import numpy
import pycuda.driver as driver
from pycuda import gpuarray

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
import rawcuda  # noqa: E402

LAYOUTS = {
    "contiguous": lambda a: a,
    "part": lambda a: a[1:],
    "strided": lambda a: a[:, ::2],
    "transposed": lambda a: a.T,
    "empty": lambda a: a[:0],
}
DTYPES = "int8 int16 int32 int64 uint8 uint32 float32 float64 complex64 complex128".split()
SCALE = """
.version 6.3
.target sm_50
.address_size 64
.visible .entry twice(.param .u64 p) {
    .reg .b64 %a; .reg .b32 %t; .reg .f32 %f;
    ld.param.u64 %a, [p];
    mov.u32 %t, %tid.x;
    mad.wide.u32 %a, %t, 4, %a;
    ld.global.f32 %f, [%a];
    add.f32 %f, %f, %f;
    st.global.f32 [%a], %f;
    ret;
}
"""


def main() -> None:
    """Run everything in the primary context, which is also that of the package."""
    device = rawcuda.Device(0)
    for name in DTYPES:
        whole = numpy.arange(12).reshape(3, 4).astype(name)
        for layout, part in LAYOUTS.items():
            theirs, expected = part(gpuarray.to_gpu(whole)), part(whole)
            made = rawcuda.view(theirs)
            assert made.dtype == name and made.shape == expected.shape and made.protocol == "cuda_array_interface", (
                layout
            )
            assert made.download().tolist() == expected.tolist(), (name, layout)
            if expected.size:
                assert (made.ptr, made.strides, made.device) == (theirs.ptr, theirs.strides, ("cuda", 0)), layout
                assert not made.readonly
            assert device.upload(theirs).tolist() == expected.tolist(), (name, layout)
    print(f"views and uploads: {len(LAYOUTS)} layouts of {len(DTYPES)} dtypes, as NumPy")

    whole = numpy.arange(12, dtype="float32").reshape(3, 4)
    theirs = gpuarray.to_gpu(whole)
    rawcuda.copy(theirs, whole[::-1])
    numpy.testing.assert_array_equal(theirs.get(), whole[::-1])
    rawcuda.view(theirs)[1] = [7, 8, 9, 10]
    numpy.testing.assert_array_equal(theirs.get()[1], [7, 8, 9, 10])
    print("copies and assignments: as NumPy")

    flat = gpuarray.to_gpu(whole.ravel())
    with device.load(SCALE) as loaded:
        loaded["twice"].launch(flat, grid=1, block=12)
        rawcuda.synchronize()
    numpy.testing.assert_array_equal(flat.get(), 2 * whole.ravel())
    print("a launch with a GPUArray: as NumPy")

    ours = device.upload(whole)
    borrowed = gpuarray.GPUArray(ours.shape, numpy.dtype("float32"), gpudata=ours.ptr, base=ours)
    numpy.testing.assert_array_equal((2 * borrowed).get(), 2 * whole)
    print("a GPUArray over our memory: as NumPy")

    stream = driver.Stream()
    waiting = gpuarray.to_gpu_async(whole, stream=stream)
    stream.synchronize()  # its array interface names no stream
    assert rawcuda.view(waiting, stream=stream.handle).download().tolist() == whole.tolist()
    print("an array of a stream: as NumPy")


driver.init()
context = driver.Device(0).retain_primary_context()
context.push()
main()
context.detach()  # or the context's destructor would detach a primary context, which is an error
