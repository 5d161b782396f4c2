"""PTX that the tests launch. Every driver since 11.4 accepts it, and any GPU since Maxwell runs it."""

HEAD = ".version 6.3\n.target sm_50\n.address_size 64\n"

# c[i] = a[i] + b[i] for i < n
ADD = (
    HEAD
    + """
.visible .entry add(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n)
{
    .reg .pred %p<2>;
    .reg .b32 %r<6>;
    .reg .f32 %f<4>;
    .reg .b64 %rd<9>;
    ld.param.u64 %rd1, [a];
    ld.param.u64 %rd2, [b];
    ld.param.u64 %rd3, [c];
    ld.param.u32 %r1, [n];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.s32 %r5, %r2, %r3, %r4;
    setp.ge.u32 %p1, %r5, %r1;
    @%p1 bra DONE;
    mul.wide.u32 %rd4, %r5, 4;
    cvta.to.global.u64 %rd5, %rd1;
    add.s64 %rd6, %rd5, %rd4;
    ld.global.f32 %f1, [%rd6];
    cvta.to.global.u64 %rd5, %rd2;
    add.s64 %rd6, %rd5, %rd4;
    ld.global.f32 %f2, [%rd6];
    add.f32 %f3, %f1, %f2;
    cvta.to.global.u64 %rd5, %rd3;
    add.s64 %rd6, %rd5, %rd4;
    st.global.f32 [%rd6], %f3;
DONE:
    ret;
}
"""
)


def echo(*types):
    """Return PTX of a kernel `echo(out, ...)` that stores each parameter's bytes at out, each on a 16-byte slot.

    types  PTX types such as ".u32", or a number of bytes for ".align 8 .b8 x[n]"
    """
    parameters, body = [".param .u64 out"], []
    for index, kind in enumerate(types):
        if isinstance(kind, int):
            parameters.append(f".param .align 8 .b8 p{index}[{kind}]")
            for at in range(kind):
                body.append(f"ld.param.u8 %w, [p{index}+{at}];\n st.global.u8 [%o+{index * 16 + at}], %w;")
        else:
            bits = kind.lstrip(".usbf").split("x")[0]
            parameters.append(f".param {kind} p{index}")
            register = {"8": "%w", "16": "%w", "32": "%r", "64": "%d"}[bits]
            body.append(
                f"ld.param.{'u8' if bits == '8' else 'b' + bits} {register}, [p{index}];\n "
                f"st.global.{'u8' if bits == '8' else 'b' + bits} [%o+{index * 16}], {register};"
            )
    return (
        HEAD + f".visible .entry echo({', '.join(parameters)})\n{{\n .reg .b64 %o;\n .reg .b16 %w;\n .reg .b32 %r;\n "
        ".reg .b64 %d;\n ld.param.u64 %o, [out];\n cvta.to.global.u64 %o, %o;\n " + "\n ".join(body) + "\n ret;\n}\n"
    )


# stores to address 0x10: an illegal address on any device
FAULT = (
    HEAD
    + """
.visible .entry fault()
{
    .reg .b64 %a;
    mov.u64 %a, 16;
    st.global.u32 [%a], 1;
    ret;
}
"""
)

# variables: an initialized array, a kernel that doubles it, and a kernel without arguments that does nothing
GLOBALS = (
    HEAD
    + """
.visible .global .align 4 .u32 table[4] = {1, 2, 3, 4};
.visible .const .align 4 .f32 factor = 0f40000000;
.visible .entry twice()
{
    .reg .b32 %r<3>;
    .reg .b64 %d<4>;
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %d1, %r1, 4;
    mov.u64 %d2, table;
    add.s64 %d3, %d2, %d1;
    ld.global.u32 %r2, [%d3];
    shl.b32 %r2, %r2, 1;
    st.global.u32 [%d3], %r2;
    ret;
}
.visible .entry nothing() { ret; }
"""
)

# out[blockIdx * ntid + tid] = ntid - 1 - tid, through dynamic shared memory and a barrier
REVERSE = (
    HEAD
    + """
.extern .shared .align 4 .b8 dynamic[];
.visible .entry reverse(.param .u64 out)
{
    .reg .b32 %r<9>;
    .reg .b64 %d<4>;
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, %ntid.x;
    mov.u32 %r3, dynamic;
    shl.b32 %r4, %r1, 2;
    add.s32 %r5, %r3, %r4;
    st.shared.u32 [%r5], %r1;
    bar.sync 0;
    sub.s32 %r6, %r2, %r1;
    sub.s32 %r6, %r6, 1;
    shl.b32 %r6, %r6, 2;
    add.s32 %r5, %r3, %r6;
    ld.shared.u32 %r7, [%r5];
    mov.u32 %r8, %ctaid.x;
    mad.lo.s32 %r8, %r8, %r2, %r1;
    ld.param.u64 %d1, [out];
    cvta.to.global.u64 %d1, %d1;
    mul.wide.u32 %d2, %r8, 4;
    add.s64 %d3, %d1, %d2;
    st.global.u32 [%d3], %r7;
    ret;
}
"""
)
