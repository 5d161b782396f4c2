"""The kernels of `demo` and `doctor`, as PTX text that is written by hand.

What it is   four kernels, each in a string: NOTHING, VECTOR_ADD, SAXPY, MATRIX_PRODUCT. The texts are Python
             strings, not files, so that they can be read from a zip.
What not     they are not tuned.
Why so old   every driver since CUDA 11.4 takes .version 6.3 and .target sm_50 for every device that it supports: it
             compiles the text for the device in use.
Source       Parallel Thread Execution ISA, version 6.3
Read next    demo.py, which launches them
"""

from __future__ import annotations

__all__ = ["NOTHING", "VECTOR_ADD", "SAXPY", "MATRIX_PRODUCT", "TILE"]

TILE = 16  # a block of MATRIX_PRODUCT is TILE by TILE threads

_HEAD = """\
.version 6.3
.target sm_50
.address_size 64
"""

# Store 42 at the pointer: the smallest kernel which shows that code is compiled and launched, and writes to memory.
NOTHING = (
    _HEAD
    + """
.visible .entry store_42(.param .u64 .ptr .align 4 target)
{
    .reg .b32 %r<2>;
    .reg .b64 %rd<3>;

    ld.param.u64        %rd1, [target];
    cvta.to.global.u64  %rd2, %rd1;             // convert a generic address to a global one
    mov.u32             %r1, 42;
    st.global.u32       [%rd2], %r1;
    ret;
}
"""
)

# c[i] = a[i] + b[i], one thread per element.
VECTOR_ADD = (
    _HEAD
    + """
.visible .entry vector_add(
    .param .u64 .ptr .align 4 a,
    .param .u64 .ptr .align 4 b,
    .param .u64 .ptr .align 4 c,
    .param .u32 n
)
{
    .reg .pred %p<2>;
    .reg .b32  %r<6>;
    .reg .f32  %f<4>;
    .reg .b64  %rd<11>;

    mov.u32             %r1, %ctaid.x;          // i = block * threads a block + thread
    mov.u32             %r2, %ntid.x;
    mov.u32             %r3, %tid.x;
    mad.lo.u32          %r4, %r1, %r2, %r3;
    ld.param.u32        %r5, [n];
    setp.ge.u32         %p1, %r4, %r5;          // the last block may have more threads than elements
    @%p1 bra            DONE;

    ld.param.u64        %rd1, [a];
    ld.param.u64        %rd2, [b];
    ld.param.u64        %rd3, [c];
    cvta.to.global.u64  %rd4, %rd1;
    cvta.to.global.u64  %rd5, %rd2;
    cvta.to.global.u64  %rd6, %rd3;
    mul.wide.u32        %rd7, %r4, 4;           // 4 bytes for each element
    add.s64             %rd8, %rd4, %rd7;
    add.s64             %rd9, %rd5, %rd7;
    add.s64             %rd10, %rd6, %rd7;
    ld.global.f32       %f1, [%rd8];
    ld.global.f32       %f2, [%rd9];
    add.rn.f32          %f3, %f1, %f2;
    st.global.f32       [%rd10], %f3;
DONE:
    ret;
}
"""
)

# y[i] = alpha * x[i] + y[i]; each thread steps through the vector by the number of threads in the grid.
SAXPY = (
    _HEAD
    + """
.visible .entry saxpy(
    .param .f32 alpha,
    .param .u64 .ptr .align 4 x,
    .param .u64 .ptr .align 4 y,
    .param .u32 n
)
{
    .reg .pred %p<3>;
    .reg .b32  %r<8>;
    .reg .f32  %f<5>;
    .reg .b64  %rd<8>;

    mov.u32             %r1, %ctaid.x;
    mov.u32             %r2, %ntid.x;
    mov.u32             %r3, %tid.x;
    mad.lo.u32          %r4, %r1, %r2, %r3;     // i, at first
    mov.u32             %r5, %nctaid.x;
    mul.lo.u32          %r6, %r5, %r2;          // the number of threads in the grid
    ld.param.f32        %f1, [alpha];
    ld.param.u64        %rd1, [x];
    ld.param.u64        %rd2, [y];
    cvta.to.global.u64  %rd3, %rd1;
    cvta.to.global.u64  %rd4, %rd2;
    ld.param.u32        %r7, [n];
    setp.ge.u32         %p1, %r4, %r7;
    @%p1 bra            DONE;
NEXT:
    mul.wide.u32        %rd5, %r4, 4;
    add.s64             %rd6, %rd3, %rd5;
    add.s64             %rd7, %rd4, %rd5;
    ld.global.f32       %f2, [%rd6];
    ld.global.f32       %f3, [%rd7];
    fma.rn.f32          %f4, %f1, %f2, %f3;     // rounded once, after the sum
    st.global.f32       [%rd7], %f4;
    add.u32             %r4, %r4, %r6;
    setp.lt.u32         %p2, %r4, %r7;
    @%p2 bra            NEXT;
DONE:
    ret;
}
"""
)

# c = a x b for row-major a (m by k), b (k by n), c (m by n). Each block computes a 16 by 16 tile of c: its threads copy
# 16 by 16 tiles of a and b to shared memory, one element each, wait for one another, and multiply from there.
MATRIX_PRODUCT = (
    _HEAD
    + """
.visible .entry matrix_product(
    .param .u64 .ptr .align 4 a,
    .param .u64 .ptr .align 4 b,
    .param .u64 .ptr .align 4 c,
    .param .u32 m,
    .param .u32 n,
    .param .u32 k
)
{
    .reg .pred %p<8>;
    .reg .b32  %r<32>;
    .reg .f32  %f<12>;
    .reg .b64  %rd<13>;
    .shared .align 4 .b8 tile_a[1024];          // 16 rows of 16 floats
    .shared .align 4 .b8 tile_b[1024];

    ld.param.u64        %rd1, [a];
    ld.param.u64        %rd2, [b];
    ld.param.u64        %rd3, [c];
    cvta.to.global.u64  %rd4, %rd1;
    cvta.to.global.u64  %rd5, %rd2;
    cvta.to.global.u64  %rd6, %rd3;
    ld.param.u32        %r1, [m];
    ld.param.u32        %r2, [n];
    ld.param.u32        %r3, [k];

    mov.u32             %r4, %tid.x;            // column within the tile
    mov.u32             %r5, %tid.y;            // row within the tile
    mov.u32             %r6, %ctaid.x;
    mov.u32             %r7, %ctaid.y;
    shl.b32             %r8, %r6, 4;
    add.u32             %r8, %r8, %r4;          // column of c
    shl.b32             %r9, %r7, 4;
    add.u32             %r9, %r9, %r5;          // row of c
    setp.lt.u32         %p1, %r9, %r1;          // is the row inside c?
    setp.lt.u32         %p2, %r8, %r2;          // is the column inside c?

    mov.u32             %r10, tile_a;
    mov.u32             %r11, tile_b;
    shl.b32             %r12, %r5, 6;           // 64 bytes for each row of a tile
    shl.b32             %r13, %r4, 2;
    add.u32             %r14, %r10, %r12;       // the row of tile_a that this thread reads
    add.u32             %r15, %r11, %r13;       // the column of tile_b
    add.u32             %r16, %r14, %r13;       // the element of tile_a that it copies
    add.u32             %r17, %r15, %r12;       // the element of tile_b

    mov.f32             %f1, 0f00000000;        // the sum
    mov.u32             %r18, 0;                // the start of the tiles along k
    setp.eq.u32         %p3, %r3, 0;
    @%p3 bra            STORE;

NEXT_TILE:
    add.u32             %r19, %r18, %r4;        // column of a
    setp.lt.u32         %p4, %r19, %r3;
    and.pred            %p4, %p4, %p1;
    mov.f32             %f2, 0f00000000;        // beyond the edge, use a zero
    mad.lo.u32          %r20, %r9, %r3, %r19;
    mul.wide.u32        %rd7, %r20, 4;
    add.s64             %rd8, %rd4, %rd7;
    @%p4 ld.global.f32  %f2, [%rd8];
    st.shared.f32       [%r16], %f2;

    add.u32             %r21, %r18, %r5;        // row of b
    setp.lt.u32         %p5, %r21, %r3;
    and.pred            %p5, %p5, %p2;
    mov.f32             %f3, 0f00000000;
    mad.lo.u32          %r22, %r21, %r2, %r8;
    mul.wide.u32        %rd9, %r22, 4;
    add.s64             %rd10, %rd5, %rd9;
    @%p5 ld.global.f32  %f3, [%rd10];
    st.shared.f32       [%r17], %f3;

    bar.sync            0;                      // wait until both tiles are complete
    mov.u32             %r23, %r14;
    mov.u32             %r24, %r15;
    mov.u32             %r25, 0;
NEXT_FOUR:
    ld.shared.f32       %f4, [%r23];
    ld.shared.f32       %f5, [%r24];
    fma.rn.f32          %f1, %f4, %f5, %f1;
    ld.shared.f32       %f6, [%r23+4];
    ld.shared.f32       %f7, [%r24+64];
    fma.rn.f32          %f1, %f6, %f7, %f1;
    ld.shared.f32       %f8, [%r23+8];
    ld.shared.f32       %f9, [%r24+128];
    fma.rn.f32          %f1, %f8, %f9, %f1;
    ld.shared.f32       %f10, [%r23+12];
    ld.shared.f32       %f11, [%r24+192];
    fma.rn.f32          %f1, %f10, %f11, %f1;
    add.u32             %r23, %r23, 16;
    add.u32             %r24, %r24, 256;
    add.u32             %r25, %r25, 4;
    setp.lt.u32         %p6, %r25, 16;
    @%p6 bra            NEXT_FOUR;

    bar.sync            0;                      // wait until no thread reads these tiles any more
    add.u32             %r18, %r18, 16;
    setp.lt.u32         %p7, %r18, %r3;
    @%p7 bra            NEXT_TILE;

STORE:
    and.pred            %p1, %p1, %p2;
    mad.lo.u32          %r26, %r9, %r2, %r8;
    mul.wide.u32        %rd11, %r26, 4;
    add.s64             %rd12, %rd6, %rd11;
    @%p1 st.global.f32  [%rd12], %f1;
    ret;
}
"""
)
