"""A pure-Python module that uses a GPU if there is one. Nothing changes for users who have no GPU.

From the checkout:                 PYTHONPATH=. python3 examples/optional_gpu.py
as if the machine had a GPU:       PYTHONPATH=. RAWCUDA_DRIVER=emulator python3 examples/optional_gpu.py

The module follows these rules. It looks for a device only once, on first use, never at import. It uses the device
only for large arrays. It catches only the exceptions that mean "there is no GPU"; otherwise, an error in the GPU
code would be hidden by the slower code. If rawcuda is copied into the package (`python3 -m rawcuda vendor
mypackage/_vendor/rawcuda`), the import cannot fail.
"""

import math
from array import array
from functools import cache

WORTH_IT = 1000  # elements; for fewer, the copies take longer than the computation. Measure this for your own work.

PTX = """
.version 6.3
.target sm_50
.address_size 64

.visible .entry smooth(.param .u64 out, .param .u64 data, .param .u32 n)
{
    .reg .pred %p<4>;
    .reg .b32  %r<6>;
    .reg .f32  %f<6>;
    .reg .b64  %rd<5>;

    mov.u32             %r1, %ctaid.x;
    mov.u32             %r2, %ntid.x;
    mov.u32             %r3, %tid.x;
    mad.lo.u32          %r4, %r1, %r2, %r3;
    ld.param.u32        %r5, [n];
    setp.ge.u32         %p1, %r4, %r5;
    @%p1 ret;
    ld.param.u64        %rd1, [data];
    mul.wide.u32        %rd2, %r4, 4;
    add.s64             %rd3, %rd1, %rd2;
    ld.f32              %f1, [%rd3];
    mov.f32             %f2, %f1;                   // at each end, the element is its own neighbour
    mov.f32             %f3, %f1;
    setp.eq.u32         %p2, %r4, 0;
    @!%p2 ld.f32        %f2, [%rd3+-4];
    sub.u32             %r5, %r5, 1;
    setp.eq.u32         %p3, %r4, %r5;
    @!%p3 ld.f32        %f3, [%rd3+4];
    add.f32             %f4, %f2, %f3;
    fma.rn.f32          %f4, %f1, 0f40000000, %f4;
    mul.f32             %f4, %f4, 0f3E800000;       // (left + 2 x + right) / 4
    ld.param.u64        %rd1, [out];
    add.s64             %rd4, %rd1, %rd2;
    st.f32              [%rd4], %f4;
    ret;
}
"""


@cache
def gpu():
    """Return (package, device, kernel), or None if there is no GPU. The result is cached."""
    try:
        import rawcuda
    except ImportError:
        return None
    try:
        device = rawcuda.Device(0)
    except (
        rawcuda.DriverNotFound,
        rawcuda.SymbolNotFound,
        rawcuda.CudaError,
    ):  # no driver, a very old driver, or no device
        return None
    return rawcuda, device, device.load(PTX)["smooth"]


def smooth(data):
    """Return (left + 2 x + right) / 4 for each element of an array of 32-bit floats."""
    found = gpu() if len(data) >= WORTH_IT else None
    return smooth_there(data, *found) if found else smooth_here(data)


def smooth_here(data):
    """Compute it in Python."""
    padded = [data[0], *data, data[-1]] if len(data) else []
    return array("f", [(padded[i] + 2 * padded[i + 1] + padded[i + 2]) / 4 for i in range(len(data))])


def smooth_there(data, package, device, kernel):
    """Compute it on the device."""
    n = len(data)
    out = device.empty(n, "float32")
    kernel.launch(out, package.In(device.upload(data)), n, grid=-(-n // 256), block=256)
    result = array("f", bytes(4 * n))
    out.copy_to(result)  # waits for the kernel
    return result


if __name__ == "__main__":
    few, many = array("f", range(10)), array("f", [math.sin(i / 50) for i in range(3000)])
    assert smooth(few) == smooth_here(few) and smooth(array("f")) == array("f")
    assert all(math.isclose(a, b, rel_tol=1e-5, abs_tol=1e-6) for a, b in zip(smooth(many), smooth_here(many)))
    print(f"smooth() of {len(many)} elements went through {gpu()[1].name if gpu() else 'Python: no GPU was found'}")
