"""Add two vectors on the GPU with a kernel in PTX. This needs only Python and rawcuda.

From the checkout:            PYTHONPATH=. python3 examples/vector_add.py
on a machine without a GPU:   PYTHONPATH=. RAWCUDA_DRIVER=emulator python3 examples/vector_add.py
"""

from array import array

import rawcuda

PTX = """
.version 6.3
.target sm_50
.address_size 64

.visible .entry vector_add(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n)
{
    .reg .pred %p<2>;
    .reg .b32  %r<6>;
    .reg .f32  %f<4>;
    .reg .b64  %rd<8>;

    mov.u32             %r1, %ctaid.x;
    mov.u32             %r2, %ntid.x;
    mov.u32             %r3, %tid.x;
    mad.lo.u32          %r4, %r1, %r2, %r3;     // i = block * threads per block + thread
    ld.param.u32        %r5, [n];
    setp.ge.u32         %p1, %r4, %r5;          // the last block may have more threads than elements
    @%p1 ret;
    ld.param.u64        %rd1, [a];
    ld.param.u64        %rd2, [b];
    ld.param.u64        %rd3, [c];
    mul.wide.u32        %rd4, %r4, 4;           // 4 bytes per element
    add.s64             %rd5, %rd1, %rd4;
    add.s64             %rd6, %rd2, %rd4;
    add.s64             %rd7, %rd3, %rd4;
    ld.f32              %f1, [%rd5];
    ld.f32              %f2, [%rd6];
    add.f32             %f3, %f1, %f2;
    st.f32              [%rd7], %f3;
    ret;
}
"""

n = 10_000
a = array("f", range(n))
b = array("f", [2.5] * n)
c = array("f", bytes(4 * n))

device = rawcuda.Device(0)
kernel = device.load(PTX)["vector_add"]

a_there, b_there = device.upload(a), device.upload(b)  # upload() accepts any exporter
c_there = device.empty(n, "float32")
kernel.launch(a_there, b_there, c_there, n, grid=-(-n // 256), block=256)
c_there.copy_to(c)  # waits for the kernel

assert c == array("f", [x + 2.5 for x in range(n)])
print(f"{device.name}: {n} sums are right, and the last one is {c[-1]}")
