"""The work that all engines here distribute: a product of matrices in blocks, and a sum of data that is streamed.

This module is imported by every worker. A worker uses the GPU that CUDA_VISIBLE_DEVICES gives it, or the emulator
(RAWCUDA_DRIVER=emulator).
"""

import functools
import os
import signal

import numpy

import rawcuda

SIZE, BLOCK = 192, 64  # of the square matrices and of their blocks
CHUNKS, CHUNK, PIECE = 12, 1 << 16, 1 << 13  # elements; a worker's device memory has room for two pieces of a chunk

PTX = """
.version 6.3
.target sm_50
.address_size 64

// c[i, j] += the sum of a[i, k] * b[k, j], for square matrices of n x n
.visible .entry multiply_add(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n)
{
    .reg .pred %p<2>;
    .reg .b32  %r<12>;
    .reg .f32  %f<4>;
    .reg .b64  %rd<12>;

    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %ntid.x;
    mov.u32 %r3, %tid.x;
    mad.lo.u32 %r4, %r1, %r2, %r3;
    mov.u32 %r5, %ctaid.y;
    mov.u32 %r6, %ntid.y;
    mov.u32 %r7, %tid.y;
    mad.lo.u32 %r8, %r5, %r6, %r7;
    ld.param.u32 %r9, [n];
    ld.param.u64 %rd1, [a];
    ld.param.u64 %rd2, [b];
    ld.param.u64 %rd3, [c];
    mad.lo.u32 %r10, %r8, %r9, %r4;
    mul.wide.u32 %rd4, %r10, 4;
    add.s64 %rd3, %rd3, %rd4;
    mul.lo.u32 %r11, %r8, %r9;
    mul.wide.u32 %rd5, %r11, 4;
    add.s64 %rd1, %rd1, %rd5;
    mul.wide.u32 %rd6, %r4, 4;
    add.s64 %rd2, %rd2, %rd6;
    mul.wide.u32 %rd7, %r9, 4;
    ld.global.f32 %f1, [%rd3];
    mov.u32 %r1, 0;
more:
    ld.global.f32 %f2, [%rd1];
    ld.global.f32 %f3, [%rd2];
    fma.rn.f32 %f1, %f2, %f3, %f1;
    add.s64 %rd1, %rd1, 4;
    add.s64 %rd2, %rd2, %rd7;
    add.u32 %r1, %r1, 1;
    setp.lt.u32 %p1, %r1, %r9;
    @%p1 bra more;
    st.global.f32 [%rd3], %f1;
    ret;
}

// sums[i] += data[i] + data[i + threads] + data[i + 2 * threads] ...
.visible .entry add_up(.param .u64 data, .param .u64 sums, .param .u32 count)
{
    .reg .pred %p<3>;
    .reg .b32  %r<9>;
    .reg .b64  %rd<8>;

    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %ntid.x;
    mov.u32 %r3, %tid.x;
    mad.lo.u32 %r4, %r1, %r2, %r3;
    mov.u32 %r5, %nctaid.x;
    mul.lo.u32 %r6, %r5, %r2;
    ld.param.u32 %r7, [count];
    ld.param.u64 %rd1, [data];
    ld.param.u64 %rd2, [sums];
    mul.wide.u32 %rd3, %r4, 8;
    add.s64 %rd2, %rd2, %rd3;
    ld.global.u64 %rd4, [%rd2];
    setp.ge.u32 %p1, %r4, %r7;
    @%p1 bra done;
more:
    mul.wide.u32 %rd5, %r4, 4;
    add.s64 %rd5, %rd1, %rd5;
    ld.global.s32 %r8, [%rd5];
    cvt.s64.s32 %rd6, %r8;
    add.s64 %rd4, %rd4, %rd6;
    add.u32 %r4, %r4, %r6;
    setp.lt.u32 %p2, %r4, %r7;
    @%p2 bra more;
done:
    st.global.u64 [%rd2], %rd4;
    ret;
}
"""


@functools.cache
def kernels():
    """Return the device of this process, and the kernels, which are loaded once."""
    device = rawcuda.Device(0)
    module = device.load(PTX)
    return device, module["multiply_add"], module["add_up"]


def matrices():
    """Return the matrices to be multiplied, and their product as NumPy computes it."""
    random = numpy.random.default_rng(1)
    a, b = (random.integers(-4, 5, (SIZE, SIZE)).astype("float32") for _ in range(2))
    return a, b, a @ b  # exact: the elements are small integers


def blocks_of(matrix):
    """Return the blocks of a matrix by their row and column."""
    steps = range(0, SIZE, BLOCK)
    return {
        (i // BLOCK, j // BLOCK): numpy.ascontiguousarray(matrix[i : i + BLOCK, j : j + BLOCK])
        for i in steps
        for j in steps
    }


def product_of(row, column):
    """Multiply a row of blocks by a column of blocks on the device, and return the array there."""
    device, multiply_add, _ = kernels()
    sums = device.upload(numpy.zeros((BLOCK, BLOCK), "float32"))
    for a, b in zip(row, column):
        there = device.upload(a), device.upload(b)
        multiply_add.launch(*there, sums, BLOCK, grid=(BLOCK // 16, BLOCK // 16), block=(16, 16))
    return sums


def chunk(number):
    """Return one part of the data, which no process holds as a whole."""
    return numpy.random.default_rng(number).integers(-1000, 1000, CHUNK, dtype="int32")


def total_of(number):
    """Sum a chunk on the device: while one stream sums a piece, the other copies the next piece to the device."""
    device, _, add_up = kernels()
    data, threads = chunk(number), 256
    slots = []
    for _ in range(2):
        stream = device.stream()
        pinned = device.allocate(4 * PIECE, kind="pinned").view("int32")
        there = device.empty(PIECE, "int32")
        sums = device.upload(numpy.zeros(threads, "int64"))
        slots.append((stream, pinned, there, sums))
    for piece in range(CHUNK // PIECE):
        stream, pinned, there, sums = slots[piece % 2]
        stream.synchronize()  # until this returns, the pinned memory is in use
        pinned.copy_from(data[piece * PIECE : (piece + 1) * PIECE])
        rawcuda.copy(there, pinned, stream=stream)
        add_up.launch(there, sums, PIECE, grid=2, block=threads // 2, stream=stream)
    result = 0
    for stream, _, _, sums in slots:
        stream.synchronize()
        result += sum(sums.tolist())
    return result


def end_once(marker):
    """Kill this worker, as if its machine had failed, but only once: the file `marker` shows that it was done."""
    try:
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGKILL)


def check(product, total, marker):
    """Compare the results with NumPy's, and check that a worker was lost on the way."""
    _, _, expected = matrices()
    assert numpy.array_equal(product, expected), "the product is wrong"
    assert total == sum(int(chunk(number).sum()) for number in range(CHUNKS)), "the sum is wrong"
    assert os.path.exists(marker), "no worker was lost"
    print(f"a product of {SIZE} x {SIZE} and a sum of {CHUNKS * CHUNK} numbers are right, and a worker was lost")


def assembled(found):
    """Return a matrix from its blocks."""
    rows = range(SIZE // BLOCK)
    return numpy.block([[numpy.asarray(found[i, j]) for j in rows] for i in rows])
