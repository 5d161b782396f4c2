"""The device code of the checks and the measurements, as PTX text.

What it is   one module, in a string: SOURCE. Its kernels are small, and each is for one row or a few.
What not     they are not tuned. Their PTX has the same old version as in tools/commands/kernels.py, for the same
             reason, except in NEWER.
Source       Parallel Thread Execution ISA, version 6.3; for NEWER, version 8.0
Read next    tools/checking/groups/check_launches.py
"""

from __future__ import annotations

__all__ = ["LINKED", "NEWER", "SOURCE"]

_HEAD = ".version 6.3\n.target sm_50\n.address_size 64\n"

SOURCE = (
    _HEAD
    + """
.visible .global .align 4 .u32 setting = 7;
.extern .shared .align 4 .b8 room[];

.visible .entry nothing() { ret; }

// x[i] = x[i] * by, for each i below n; each thread steps by the number of threads in the grid
.visible .entry scale(.param .u64 x, .param .f32 by, .param .u32 n)
{
    .reg .pred %p;
    .reg .b32 %r<7>;
    .reg .f32 %f<3>;
    .reg .b64 %d<4>;
    ld.param.u64 %d1, [x];
    cvta.to.global.u64 %d1, %d1;
    ld.param.f32 %f1, [by];
    ld.param.u32 %r1, [n];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.u32 %r5, %r2, %r3, %r4;
    mov.u32 %r6, %nctaid.x;
    mul.lo.u32 %r6, %r6, %r3;
NEXT:
    setp.ge.u32 %p, %r5, %r1;
    @%p ret;
    mul.wide.u32 %d2, %r5, 4;
    add.s64 %d3, %d1, %d2;
    ld.global.f32 %f2, [%d3];
    mul.f32 %f2, %f2, %f1;
    st.global.f32 [%d3], %f2;
    add.u32 %r5, %r5, %r6;
    bra NEXT;
}

// copy arguments of several types to memory
.visible .entry keep(.param .u64 out, .param .u8 a, .param .s16 b, .param .s64 c, .param .f64 e,
    .param .align 4 .b8 g[8])
{
    .reg .b16 %h<3>;
    .reg .b32 %r<3>;
    .reg .b64 %d<4>;
    ld.param.u64 %d1, [out];
    cvta.to.global.u64 %d1, %d1;
    ld.param.u8 %h1, [a];
    st.global.u8 [%d1], %h1;
    ld.param.s16 %h2, [b];
    st.global.u16 [%d1+2], %h2;
    ld.param.s64 %d2, [c];
    st.global.u64 [%d1+8], %d2;
    ld.param.b64 %d3, [e];
    st.global.b64 [%d1+16], %d3;
    ld.param.b32 %r1, [g];
    ld.param.b32 %r2, [g+4];
    st.global.b32 [%d1+24], %r1;
    st.global.b32 [%d1+28], %r2;
    ret;
}

// out[i] = i + 1, where i is the number of the thread in the whole grid; x runs fastest, in blocks and in the grid
.visible .entry number(.param .u64 out)
{
    .reg .b32 %r<12>;
    .reg .b64 %d<3>;
    ld.param.u64 %d1, [out];
    cvta.to.global.u64 %d1, %d1;
    mov.u32 %r1, %ctaid.z;
    mov.u32 %r2, %nctaid.y;
    mov.u32 %r3, %ctaid.y;
    mad.lo.u32 %r1, %r1, %r2, %r3;
    mov.u32 %r2, %nctaid.x;
    mov.u32 %r3, %ctaid.x;
    mad.lo.u32 %r1, %r1, %r2, %r3;
    mov.u32 %r2, %ntid.z;
    mov.u32 %r3, %tid.z;
    mad.lo.u32 %r1, %r1, %r2, %r3;
    mov.u32 %r2, %ntid.y;
    mov.u32 %r3, %tid.y;
    mad.lo.u32 %r1, %r1, %r2, %r3;
    mov.u32 %r2, %ntid.x;
    mov.u32 %r3, %tid.x;
    mad.lo.u32 %r1, %r1, %r2, %r3;
    mul.wide.u32 %d2, %r1, 4;
    add.s64 %d1, %d1, %d2;
    add.u32 %r1, %r1, 1;
    st.global.u32 [%d1], %r1;
    ret;
}

// reverse the elements of one block, through dynamic shared memory
.visible .entry turn(.param .u64 x)
{
    .reg .b32 %r<7>;
    .reg .b64 %d<3>;
    ld.param.u64 %d1, [x];
    cvta.to.global.u64 %d1, %d1;
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, %ntid.x;
    mul.wide.u32 %d2, %r1, 4;
    add.s64 %d1, %d1, %d2;
    ld.global.u32 %r3, [%d1];
    sub.u32 %r4, %r2, %r1;
    sub.u32 %r4, %r4, 1;
    shl.b32 %r4, %r4, 2;
    mov.u32 %r5, room;
    add.u32 %r4, %r4, %r5;
    st.shared.u32 [%r4], %r3;
    bar.sync 0;
    shl.b32 %r6, %r1, 2;
    add.u32 %r6, %r6, %r5;
    ld.shared.u32 %r3, [%r6];
    st.global.u32 [%d1], %r3;
    ret;
}

// each thread adds 1
.visible .entry count(.param .u64 at)
{
    .reg .b64 %d;
    ld.param.u64 %d, [at];
    cvta.to.global.u64 %d, %d;
    red.global.add.u32 [%d], 1;
    ret;
}

// each block, of one thread, writes its number plus 1 to x, waits for all blocks, and reads the number of the next one
.visible .entry meet(.param .u64 arrived, .param .u64 x, .param .u64 out)
{
    .reg .pred %p;
    .reg .b32 %r<6>;
    .reg .b64 %d<6>;
    ld.param.u64 %d1, [arrived];
    ld.param.u64 %d2, [x];
    ld.param.u64 %d3, [out];
    cvta.to.global.u64 %d1, %d1;
    cvta.to.global.u64 %d2, %d2;
    cvta.to.global.u64 %d3, %d3;
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %nctaid.x;
    mul.wide.u32 %d4, %r1, 4;
    add.s64 %d5, %d2, %d4;
    add.u32 %r3, %r1, 1;
    st.volatile.global.u32 [%d5], %r3;
    membar.gl;
    red.global.add.u32 [%d1], 1;
WAIT:
    ld.volatile.global.u32 %r4, [%d1];
    setp.lt.u32 %p, %r4, %r2;
    @%p bra WAIT;
    membar.gl;
    rem.u32 %r3, %r3, %r2;
    mul.wide.u32 %d5, %r3, 4;
    add.s64 %d5, %d2, %d5;
    ld.volatile.global.u32 %r5, [%d5];
    add.s64 %d5, %d3, %d4;
    st.global.u32 [%d5], %r5;
    ret;
}

.visible .entry read_setting(.param .u64 out)
{
    .reg .b32 %r;
    .reg .b64 %d;
    ld.param.u64 %d, [out];
    cvta.to.global.u64 %d, %d;
    ld.global.u32 %r, [setting];
    st.global.u32 [%d], %r;
    ret;
}

.visible .entry peek(.param .u64 x, .param .u64 out)
{
    .reg .b32 %r;
    .reg .b64 %d<3>;
    ld.param.u64 %d1, [x];
    ld.param.u64 %d2, [out];
    cvta.to.global.u64 %d1, %d1;
    cvta.to.global.u64 %d2, %d2;
    ld.global.u32 %r, [%d1];
    st.global.u32 [%d2], %r;
    ret;
}

// out[i] = the texture at (i + 0.5, 0.5)
.visible .entry sample(.param .u64 image, .param .u64 out)
{
    .reg .b32 %r;
    .reg .f32 %f<7>;
    .reg .b64 %d<4>;
    ld.param.u64 %d1, [image];
    ld.param.u64 %d2, [out];
    cvta.to.global.u64 %d2, %d2;
    mov.u32 %r, %tid.x;
    cvt.rn.f32.u32 %f1, %r;
    add.f32 %f1, %f1, 0f3F000000;
    mov.f32 %f2, 0f3F000000;
    tex.2d.v4.f32.f32 {%f3, %f4, %f5, %f6}, [%d1, {%f1, %f2}];
    mul.wide.u32 %d3, %r, 4;
    add.s64 %d2, %d2, %d3;
    st.global.f32 [%d2], %f3;
    ret;
}

// add 10 to each element of a surface of one row
.visible .entry paint(.param .u64 image)
{
    .reg .b32 %r<5>;
    .reg .b64 %d;
    ld.param.u64 %d, [image];
    mov.u32 %r1, %tid.x;
    shl.b32 %r2, %r1, 2;
    mov.u32 %r3, 0;
    suld.b.2d.b32.trap {%r4}, [%d, {%r2, %r3}];
    add.u32 %r4, %r4, 10;
    sust.b.2d.b32.trap [%d, {%r2, %r3}], {%r4};
    ret;
}
"""
)

# Two texts for the linker: the first calls a function of the second.
LINKED = (
    _HEAD
    + """
.extern .func (.param .u32 result) twice(.param .u32 x);
.visible .entry main(.param .u64 at)
{
    .reg .b32 %r<3>;
    .reg .b64 %d;
    ld.param.u64 %d, [at];
    cvta.to.global.u64 %d, %d;
    ld.global.u32 %r1, [%d];
    {
        .param .u32 x;
        .param .u32 result;
        st.param.u32 [x], %r1;
        call (result), twice, (x);
        ld.param.u32 %r2, [result];
    }
    st.global.u32 [%d], %r2;
    ret;
}
""",
    _HEAD
    + """
.visible .func (.param .u32 result) twice(.param .u32 x)
{
    .reg .b32 %r;
    ld.param.u32 %r, [x];
    shl.b32 %r, %r, 1;
    st.param.u32 [result], %r;
    ret;
}
""",
)

# Code for compute capability 9.0 and newer.
NEWER = """
.version 8.0
.target sm_90
.address_size 64

// out[block] = the number of blocks in its cluster
.visible .entry cluster(.param .u64 out)
{
    .reg .b32 %r<3>;
    .reg .b64 %d<3>;
    ld.param.u64 %d1, [out];
    cvta.to.global.u64 %d1, %d1;
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %cluster_nctaid.x;
    mul.wide.u32 %d2, %r1, 4;
    add.s64 %d1, %d1, %d2;
    st.global.u32 [%d1], %r2;
    ret;
}

// copy the box at (4, 1) of a tensor of 32-bit numbers to shared memory, and from there to out; a block has 32 threads
.visible .entry tile(.param .align 64 .b8 map[128], .param .u64 out)
{
    .shared .align 128 .b8 box[128];
    .shared .align 8 .b64 arrived;
    .reg .pred %p<3>;
    .reg .b32 %r<6>;
    .reg .b64 %d<5>;
    mov.b64 %d1, map;
    cvta.param.u64 %d1, %d1;
    ld.param.u64 %d2, [out];
    cvta.to.global.u64 %d2, %d2;
    mov.u32 %r1, %tid.x;
    setp.ne.u32 %p1, %r1, 0;
    @%p1 bra READY;
    mbarrier.init.shared.b64 [arrived], 1;
    fence.proxy.async.shared::cta;
    mbarrier.arrive.expect_tx.shared.b64 _, [arrived], 128;
    mov.u32 %r2, 4;
    mov.u32 %r3, 1;
    cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [box], [%d1, {%r2, %r3}], [arrived];
READY:
    bar.sync 0;
WAIT:
    mbarrier.try_wait.parity.shared.b64 %p2, [arrived], 0;
    @!%p2 bra WAIT;
    mov.u32 %r4, box;
    shl.b32 %r5, %r1, 2;
    add.u32 %r4, %r4, %r5;
    ld.shared.u32 %r5, [%r4];
    mul.wide.u32 %d3, %r1, 4;
    add.s64 %d4, %d2, %d3;
    st.global.u32 [%d4], %r5;
    ret;
}
"""
