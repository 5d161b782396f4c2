"""The parameters of kernels, as read from PTX."""

import pytest

from tests.subject import module

signature, errors = module("gpu.kernels.signature"), module("errors")


def only(text):
    (parameters,) = signature.kernels(text).values()
    return [(p.name, p.offset, p.size, p.type, p.pointer) for p in parameters]


def test_types_offsets_and_pointers():
    assert only(""".visible .entry k(
        .param .u64 a, .param .u32 n, .param .f64 x, .param .u8 flag, .param .u64 .ptr .global .align 4 p)""") == [
        ("a", 0, 8, "u64", False),
        ("n", 8, 4, "u32", False),
        ("x", 16, 8, "f64", False),
        ("flag", 24, 1, "u8", False),
        ("p", 32, 8, "u64", True),
    ]


def test_arrays_are_bytes_and_align():
    assert only(".entry k(.param .u8 c, .param .align 16 .b8 s[20], .param .b8 t[3], .param .align 2 .b8 h[2])") == [
        ("c", 0, 1, "u8", False),
        ("s", 16, 20, "", False),
        ("t", 36, 3, "", False),
        ("h", 40, 2, "", False),
    ]


def test_an_array_of_wider_elements():
    assert only(".entry k(.param .f32 v[3], .param .align 8 .b64 w[2])") == [
        ("v", 0, 12, "", False),
        ("w", 16, 16, "", False),
    ]


def test_the_alignment_behind_ptr_is_not_the_parameters():
    assert only(".entry k(.param .u32 n, .param .u64 .ptr.shared.align 1 p)") == [
        ("n", 0, 4, "u32", False),
        ("p", 8, 8, "u64", True),
    ]


def test_no_parameters():
    assert signature.kernels(".entry a { ret; } .entry b() { ret; }") == {"a": [], "b": []}


def test_comments_strings_and_odd_names():
    text = """// .entry no()
    /* .entry nor(
       .param .u32 x) */
    .file 1 ".entry not()"
    .visible .entry _Z1kPf( .param .u32 _Z1kPf_param_0 /* , */ ) { } .entry $x$(.param .f32 %p) {}"""
    assert list(signature.kernels(text)) == ["_Z1kPf", "$x$"]
    assert [p.name for p in signature.kernels(text)["$x$"]] == ["%p"]


@pytest.mark.parametrize(
    "parameter",
    [
        ".param .u7 x",
        ".param x",
        ".param .u32",
        ".param .b8 x[",
        ".param .b8 x[0]",
        ".param .align x .b8 y[2]",
        ".param .b8 x[99999999999]",
    ],
)
def test_what_cannot_be_read_names_line_and_text(parameter):
    if parameter.endswith("["):
        parameter += "q]"
    with pytest.raises(errors.PtxError) as raised:
        signature.kernels("\n\n.entry k(\n" + parameter + ")")
    assert raised.value.lineno == 3 and raised.value.text == parameter and "kernel k" in str(raised.value)


def test_megabytes_are_read_quickly_enough_to_be_usable():
    text = ".section .debug { " + ".b8 1\n" * 300_000 + " }\n.entry k(.param .u32 n) { ret; }"
    assert list(signature.kernels(text)) == ["k"]


def test_octal_and_hexadecimal_sizes_as_in_c():
    assert only(".entry k(.param .align 010 .b8 s[020], .param .align 0x8 .b8 t[0x18U])") == [
        ("s", 0, 16, "", False),
        ("t", 16, 24, "", False),
    ]


# in the forms of the compilers: nvcc 13, numba-cuda, Triton
def test_nvcc():
    text = """
.visible .entry _Z4tmplIhLi200EEvPT_S0_(
	.param .u64 .ptr .align 1 _Z4tmplIhLi200EEvPT_S0__param_0,
	.param .u8 _Z4tmplIhLi200EEvPT_S0__param_1
)
.maxntid 128, 1, 1
.minnctapersm 2
{
	ret;
}
"""
    assert [p[1:] for p in only(text)] == [(0, 8, "u64", True), (8, 1, "u8", False)]


def test_numba_and_triton():
    text = """
	// .globl	_ZN6cudapy8__main__3addB2v1B96cw51cXTLSUwv1sCUt9Uw1VEw0NRRQPKzLTg4gaGKFsG2oMQGEYakJSQB1\
PQBk0Bynm21OiwU1a0UoLGhDpQE8oxrNQE_3dE5ArrayIfLi1E1C7mutable7alignedE
.visible .entry _ZN6cudapy3addE(
	.param .b64 _ZN6cudapy3addE_param_0,
	.param .b32 _ZN6cudapy3addE_param_1
)
{ ret; }
.visible .entry add_kernel(
	.param .u64 .ptr .global .align 1 add_kernel_param_0,
	.param .u32 add_kernel_param_1
)
.reqntid 128
{
	.loc 1 30 0 // .entry not_this(.param .u32 x)
	.file 1 "/a/.entry nor_this(.param .u32 y)"
	ret;
}
"""
    found = signature.kernels(text)
    assert list(found) == ["_ZN6cudapy3addE", "add_kernel"]
    assert [(p.size, p.type) for p in found["_ZN6cudapy3addE"]] == [(8, "b64"), (4, "b32")]
    assert [(p.size, p.pointer) for p in found["add_kernel"]] == [(8, True), (4, False)]


@pytest.mark.parametrize(
    "declaration",
    [".param .b8 s[0]", ".param .b8 s[99999999]", ".param .align x .b8 s[4]", ".param .u33 x", ".param", "x"],
)
def test_what_cannot_be_read_says_where(declaration):
    with pytest.raises(errors.PtxError, match="kernel k: ") as raised:
        signature.kernels(f"\n\n.entry k(\n{declaration})")
    assert raised.value.lineno == 3
