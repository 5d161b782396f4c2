"""PTX for tests of graphs: kernels whose effects show an order or a cluster, and kernels that set a condition."""

from tests.driver.kernels import HEAD

# step: *at = *at * 10 + digit
STEP = (
    HEAD
    + """
.visible .entry step(.param .u64 at, .param .u32 digit)
{
    .reg .b64 %d<3>;
    .reg .b32 %r<4>;
    ld.param.u64 %d1, [at];
    ld.param.u32 %r1, [digit];
    cvta.to.global.u64 %d2, %d1;
    ld.global.u32 %r2, [%d2];
    mad.lo.u32 %r3, %r2, 10, %r1;
    st.global.u32 [%d2], %r3;
    ret;
}
"""
)

# cluster: *at = the number of blocks in a cluster
CLUSTER = """
.version 7.8
.target sm_90
.address_size 64
.visible .entry cluster(.param .u64 at)
{
    .reg .b64 %d1;
    .reg .b32 %r1;
    ld.param.u64 %d1, [at];
    cvta.to.global.u64 %d1, %d1;
    mov.u32 %r1, %cluster_nctaid.x;
    st.global.u32 [%d1], %r1;
    ret;
}
"""

# countdown: condition = --*at.  choose: condition = *at.  As nvcc 13 writes a call of cudaGraphSetConditional.
CONDITIONS = (
    HEAD
    + """
.extern .func cudaGraphSetConditional
(
    .param .b64 cudaGraphSetConditional_param_0,
    .param .b32 cudaGraphSetConditional_param_1
)
;
.visible .entry countdown(.param .u64 condition, .param .u64 at)
{
    .reg .b64 %d<4>;
    .reg .b32 %r<3>;
    ld.param.u64 %d1, [condition];
    ld.param.u64 %d2, [at];
    cvta.to.global.u64 %d3, %d2;
    ld.global.u32 %r1, [%d3];
    add.s32 %r2, %r1, -1;
    st.global.u32 [%d3], %r2;
    {
    .reg .b32 temp_param_reg;
    .param .b64 param0;
    st.param.b64 [param0+0], %d1;
    .param .b32 param1;
    st.param.b32 [param1+0], %r2;
    call.uni
    cudaGraphSetConditional,
    (
    param0,
    param1
    );
    }
    ret;
}
.visible .entry choose(.param .u64 condition, .param .u64 at)
{
    .reg .b64 %d<4>;
    .reg .b32 %r<2>;
    ld.param.u64 %d1, [condition];
    ld.param.u64 %d2, [at];
    cvta.to.global.u64 %d3, %d2;
    ld.global.u32 %r1, [%d3];
    {
    .param .b64 param0;
    st.param.b64 [param0+0], %d1;
    .param .b32 param1;
    st.param.b32 [param1+0], %r1;
    call.uni cudaGraphSetConditional, (param0, param1);
    }
    ret;
}
"""
)
