"""Types of parameters, read from mangled names and from CUDA C, against what compilers say of 50 declarations.

kernel_declarations.cu has the declarations; kernel_declarations.txt the names that nvcc 13.0 gives the kernels, and the
sizes of their parameters. NVRTC gives the same (tests/driver/test_compile.py compares).
"""

from __future__ import annotations

import ctypes
import re
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from tests.subject import module

mangled, declarations = module("images.mangled"), module("compiler.declarations")
dtypes = module("elements.dtypes")

DATA = Path(__file__).parents[1] / "data"
SOURCE = (DATA / "kernel_declarations.cu").read_text()
KERNELS = {
    line.split()[0]: [int(size) for size in line.split()[1:]]
    for line in (DATA / "kernel_declarations.txt").read_text().splitlines()
}


def of_source(text: str, kernel: str = "k", sizes: Any = None, options: Any = ()) -> Any:
    """Return the types that a source gives a kernel's parameters, as text."""
    read = declarations.Declarations([text], options)
    if sizes is None:
        sizes = [8 if type.stars else 4 for _, type in read._kernels[kernel][0]]
    found = read.parameters(kernel, sizes)
    return None if found is None else [f"{type} {name}".replace("* ", "*") for name, type in found]


# -- mangled names


def test_there_are_fifty() -> None:
    assert len(KERNELS) == 50


@pytest.mark.parametrize("name", KERNELS)
def test_a_mangled_name_has_a_type_for_each_parameter(name: str) -> None:
    types = mangled.parameters(name)
    assert types is not None and len(types) == len(KERNELS[name])
    sizes = {"int": 4, "unsigned int": 4, "float": 4, "double": 8, "bool": 1, "short": 2, "unsigned long long": 8}
    for type, size in zip(types, KERNELS[name]):
        assert size == 8 if type.stars else size == sizes.get(type.name, size), (type, size)


@pytest.mark.skipif(sys.platform != "linux", reason="the demangler of libstdc++ is compared")
@pytest.mark.parametrize("name", KERNELS)
def test_the_types_are_those_of_another_demangler(name: str) -> None:
    try:
        demangle = ctypes.CDLL("libstdc++.so.6").__cxa_demangle
    except OSError:
        pytest.skip("no libstdc++")
    demangle.restype = ctypes.c_void_p
    status, found = ctypes.c_int(), None
    found = demangle(name.encode(), None, None, ctypes.byref(status))
    assert not status.value
    text = ctypes.string_at(found).decode()
    ours = mangled.parameters(name)
    inside = text[text.index("(") + 1 : -1] if not text.startswith("void ") else text[text.rindex("(") + 1 : -1]
    theirs = re.split(r", (?![^<]*>)", inside)
    assert len(theirs) == len(ours)
    for their, our in zip(theirs, ours):
        if "(" in their:  # arrays and functions
            continue
        plain = their.replace(" volatile", "")
        assert plain.count("*") == our.stars, (their, our)
        assert plain.rstrip("*").replace(" const", "").rstrip("*") == our.name, (their, our)
        assert plain.endswith(" const*") == our.reads, (their, our)


@pytest.mark.parametrize(
    "name, types",
    [
        ("_Z1kv", []),
        ("_Z1kIJfiEEvDpT_", ["float", "int"]),
        ("_ZN12_GLOBAL__N_15scaleEPf", ["float *"]),
        ("_Z1kSt4pairIfiEPS_IfiE", ["std::pair<float, int>", "std::pair<float, int> *"]),
        ("_Z1kPN6thrust7complexIfEEPKS1_", ["thrust::complex<float> *", "const thrust::complex<float> *"]),
        ("_ZL5scalePfi", ["float *", "int"]),
        ("_Z5scalePfi.isra.0", ["float *", "int"]),
        ("_Z1kILb1ELin3EEvPDh", ["__half *"]),
    ],
)
def test_other_names(name: str, types: list[str]) -> None:
    assert [str(type) for type in mangled.parameters(name)] == types


@pytest.mark.parametrize(
    "name",
    ["k", "_Z", "_Z5scal", "_Z5scaleP", "_Z1kIJfiEEvDpPT_", "_Z1kIXaaL1EEEvPf", "_Z1kMfi", "_Z1kS5_", "_Z1kT_", "_Z0",
     "_Z1kNE", "_Z1k" + "P" * 2000 + "f", "_ZN1aC1EPf", "_Z1kZ1fvE1s", "_Z1kPS", "_Z1kA", "_Z1kL_Z", "_Z1kIL",
     "_Z" + "1kB" * 2000 + "1kf"],
)  # fmt: skip
def test_what_is_not_understood_has_no_types(name: str) -> None:
    assert mangled.parameters(name) is None


def test_every_beginning_of_a_name_is_read_without_an_error() -> None:
    for name in KERNELS:
        for end in range(len(name)):
            mangled.parameters(name[:end])
            mangled.base_name(name[:end])


# -- sources


@pytest.mark.parametrize("name", KERNELS)
def test_the_source_and_the_name_agree(name: str) -> None:
    read = declarations.Declarations([SOURCE])
    kernel, types = mangled.base_name(name), mangled.parameters(name)
    (declared,) = read._kernels[kernel]
    assert len(declared) == len(types)
    for (_, ours), theirs in zip(declared, types):
        if ours.name:  # (the rest are structures, or stay unknown)
            assert ours.stars == theirs.stars and ours.reads == theirs.reads, (ours, theirs)
            assert mangled.elements(ours) == mangled.elements(theirs), (ours, theirs)
    assert [name for name, _ in read.parameters(name, KERNELS[name])] == [name for name, _ in declared]


def test_most_types_of_the_source_are_known() -> None:
    """Unknown are: structures, enumerations, arrays of arrays, functions and what a template leaves open."""
    read = declarations.Declarations([SOURCE])
    types = [type for found in read._kernels.values() for _, type in found[0]]
    assert sum(not type.name for type in types) == 22 and len(types) == 217


def test_the_names_of_parameters() -> None:
    assert of_source('extern "C" __global__ void k(const float *__restrict__ x, int n) {}') == [
        "const float *x",
        "int n",
    ]


@pytest.mark.parametrize(
    "text, type",
    [
        ("typedef float real; __global__ void k(real *x) {}", "float *x"),
        ("using real = const double; __global__ void k(real *x);", "const double *x"),
        ("#define REAL float\n__global__ void k(REAL *x) {}", "float *x"),
        ("#define P(t) t *\n__global__ void k(P(float) x) {}", "? x"),
        ("#ifdef A\n#define REAL float\n#else\n#define REAL double\n#endif\n__global__ void k(REAL *x) {}", "? x"),
        ("#ifdef A\ntypedef float real;\n#else\ntypedef double real;\n#endif\n__global__ void k(real *x) {}", "? x"),
        ("#if 0\ntypedef double real;\n#else\ntypedef float real;\n#endif\n__global__ void k(real *x) {}", "float *x"),
        ("template <class real> __global__ void k(real *x) {}", "? x"),
        ("typedef float T; template <typename T> __global__ void k(T *x) {}", "? x"),
        ("struct float4 { double a; }; __global__ void k(float4 *x) {}", "? x"),
        ("typedef struct { int i; } half; __global__ void k(half *x) {}", "? x"),
        ("// __global__ void k(int *y)\n__global__ void k(/* double */ float *x) {}", "float *x"),
        ('const char *s = "__global__ void k(int *y) {}"; __global__ void k(float *x) {}', "float *x"),
        ("char c = '\"'; __global__ void k(float *x) {}", "float *x"),
        ("void __global__ __launch_bounds__(64) k(float x[]) {}", "float *x"),
        ("[[gnu::used]] __global__ void k(unsigned char *x = nullptr) {}", "unsigned char *x"),
        ("__global__ void k(a::b *x) {}", "? x"),
        ("__global__ void k(std::uint8_t *x) {}", "unsigned char *x"),
        ("__global__ void k(complex<float> *x) {}", "complex<float> *x"),
        ("__global__ void k(pair<int, float> *x) {}", "? x"),
        ("typedef float real, other; __global__ void k(other *x) {}", "? x"),
    ],
)
def test_a_declaration(text: str, type: str) -> None:
    assert of_source(text, sizes=[8]) == [type]


def test_beside_a_header_only_the_outermost_definitions_are_certain() -> None:
    """The header, which is not read, may give the same name another meaning."""
    for text, type in (
        ('#include "a"\n#ifdef A\n#else\ntypedef double real;\n#endif\n__global__ void k(real *x) {}', "? x"),
        ('#include "a"\nstruct A { typedef int real; };\n__global__ void k(real *x) {}', "? x"),
        ('#include "a"\nnamespace a { using real = int; }\n__global__ void k(real *x) {}', "? x"),
        ('#include "a"\nextern "C" {\ntypedef int real;\n__global__ void k(real *x) {}\n}', "int *x"),
        ('#include "a"\nvoid f() {}\n#ifdef A\n#endif\ntypedef int real;\n__global__ void k(real *x) {}', "int *x"),
        ('#include "a"\n#if 0\n#elif A\n#define real int\n#endif\n__global__ void k(real *x) {}', "? x"),
    ):
        assert of_source(text, sizes=[8]) == [type], text


def test_macros_of_options() -> None:
    text = "__global__ void k(REAL *x) {}"
    assert of_source(text, sizes=[8], options=["-DREAL=double"]) == ["double *x"]
    assert of_source(text, sizes=[8], options=["-D", "REAL=double"]) == ["double *x"]
    text = "#ifndef REAL\n#define REAL float\n#endif\n" + text
    assert of_source(text, sizes=[8]) == ["float *x"]
    assert of_source(text, sizes=[8], options=["--define-macro=REAL=double"]) == ["? x"]


def test_a_macro_that_may_not_be_defined_says_nothing() -> None:
    kernel = "__global__ void k(T *x) {}"
    assert of_source(f"#ifdef A\n#define T double\n#else\ntypedef float T;\n#endif\n{kernel}", sizes=[8]) == ["? x"]
    assert of_source(f"#define T double\n#undef T\ntypedef float T;\n{kernel}", sizes=[8]) == ["? x"]
    assert of_source(f"#ifdef A\n#endif\n#define T float\n{kernel}", sizes=[8]) == ["float *x"]


def test_only_what_stands_below_a_doubtful_condition_is_doubtful() -> None:
    kernel = "__global__ void k(T *x) {}"
    for text, type in (
        ("#ifndef A\n#ifndef B\n#define T float\n#endif\n#endif\n", "float *x"),
        ("#if 0\n#else\n#define T float\n#endif\n", "float *x"),
        ("#ifdef A\n#ifndef B\n#define T float\n#endif\n#endif\n", "? x"),
        ("#ifdef A\n#if 0\n#else\n#define T float\n#endif\n#endif\n", "? x"),
        ("#ifndef A\n#else\n#ifndef B\n#define T float\n#endif\n#endif\n", "? x"),
        ("#ifdef A\n#ifndef B\n#endif\n#endif\n#define T float\n", "float *x"),
        ("#ifndef A\n#ifdef B\n#endif\n#define T float\n#endif\n", "float *x"),
        ("#else\n#endif\n#endif\n#define T float\n", "float *x"),
    ):
        assert of_source(text + kernel, sizes=[8]) == [type], text


def test_a_header_that_is_not_read_may_define_a_macro_that_has_a_default() -> None:
    default, guard = "#ifndef T\n#define T float\n#endif\n", "#ifndef G\n#define G\n#define T float\n#endif\n"
    kernel = "__global__ void k(T *x) {}"
    for text, type in (
        (default, "float *x"),
        ('#include "config.h"\n' + default, "? x"),
        (default + "  #  import <config.h>\n", "? x"),  # this may hold another kernel, which is compiled, too
        ("// #include <config.h>\n" + default, "float *x"),
        ("#include <config.h>\n" + guard, "float *x"),
        ("#include <config.h>\n#define T float\n", "float *x"),
    ):
        assert of_source(text + kernel, sizes=[8]) == [type], text
    for option in ("-include", "--pre-include=config.h", "-includeconfig.h"):
        assert of_source(default + kernel, sizes=[8], options=[option, "config.h"]) == ["? x"], option


def test_blank_lines_are_read_in_linear_time() -> None:
    """This would take minutes if each line looked through those that follow."""
    kernel = "__global__ void k(float *x) {}"
    assert of_source("\n" * 300_000 + kernel, sizes=[8]) == ["float *x"]


@pytest.mark.parametrize(
    "text", ["#ifndef X\n#define A 1\n", "#ifndef X\n#define A 1\n#endif\n", "#if 0\n#else\n#define A 1\n"]
)
def test_directives_are_read_in_linear_time(text: str) -> None:
    """Ten times the text takes at most 12 times the steps."""

    def steps(n: int) -> int:
        count = 0

        def line(*_: Any) -> Any:
            nonlocal count
            count += 1
            return line

        was = sys.gettrace()
        sys.settrace(lambda frame, *_: line if frame.f_code.co_filename == declarations.__file__ else None)
        try:
            declarations.Declarations([text * n])
        finally:
            sys.settrace(was)
        return count

    few, many = steps(50), steps(500)
    assert many <= 12 * few, (few, many)


def test_what_has_no_end_says_nothing() -> None:
    """What comes after it may be part of it, and what comes before may be declared again there."""
    assert of_source("__global__ void k(float *x) {} __global__ void k(double", sizes=[8]) == ["float *x"]
    assert of_source("__global__ void k(double *x; __global__ void k(float *x) {}", sizes=[8]) == ["float *x"]
    assert of_source("__global__ void k(float *x) {} /* __global__ void k(double *x) {}", sizes=[8]) == ["float *x"]
    assert of_source('__global__ void k(float *x) {} // R"(\n__global__ void k(double *x) {}', sizes=[8]) is None
    assert of_source("typedef struct { __global__ void k(float *x) {}", sizes=[8]) is None


def test_macros_that_stand_for_too_many_tokens_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each uses the next one ten times, and the last one is empty: only the steps are many, not what comes of them."""
    monkeypatch.setattr(declarations, "_LONGEST", 1000)
    bomb = "".join(f"#define A{level} {f'A{level + 1} ' * 10}\n" for level in range(5)) + "#define A5\n"
    text = f"{bomb}__global__ void k(float *x) {{}}\nA0\n__global__ void l(float *x) {{}}"
    assert of_source(text, sizes=[8]) == ["float *x"] and of_source(text, "l", sizes=[8]) is None


@pytest.mark.parametrize(
    "around, is_found",
    [
        ("namespace a { %s }", False),
        ("struct A { int n; }; namespace { %s }", False),
        ('extern "C" { void f(); } namespace a::b { %s }', False),
        ('namespace a { extern "C++" { %s } }', False),
        ('extern "C" { extern "C++" %s }', False),
        ('extern "C" { extern "C++" { %s } }', False),
        ("struct A { static %s };", False),
        ('namespace a { extern "C" { int n; } %s }', False),
        ('namespace a { extern "C" void f(); %s }', False),
        ("%s", True),
        ("namespace a { void f() { { } } } %s", True),
        ("} %s", True),
        ('extern "C" %s', True),
        ('namespace a { extern "C" %s }', True),
        ('namespace a { extern "C" { %s } }', True),
        ('extern "C" { namespace a { %s } }', True),
        ('#ifdef __cplusplus\nextern "C" {\n#endif\n%s\n#ifdef __cplusplus\n}\n#endif', True),
    ],
)
def test_a_kernel_in_a_scope_has_a_mangled_name(around: str, is_found: bool) -> None:
    """Another kernel of its name, whose declaration is not understood, got its types: it wrote to read-only memory."""
    text = around % "__global__ void k(const float *x) {}"
    hidden = '\nextern "C" __global__ void (k)(float *x) {}'
    assert of_source(text + hidden) == (["const float *x"] if is_found else None)
    assert of_source(text, "_ZN1a1kEPKf", [8]) == ["const float *x"]


def test_two_declarations_that_differ_say_nothing() -> None:
    text = "#ifdef A\n__global__ void k(float *x) {}\n#else\n__global__ void k(double *x) {}\n#endif"
    assert of_source(text, sizes=[8]) is None
    assert of_source("__global__ void k(float *x); __global__ void k(float *x) {}", sizes=[8]) == ["float *x"]


def test_overloads_are_told_apart_by_the_mangled_name() -> None:
    text = "__global__ void k(float *x) {} __global__ void k(double *y) {} __global__ void k(int n) {}"
    assert of_source(text, "_Z1kPd", [8]) == ["double *y"]
    assert of_source(text, "_Z1ki", [4]) == ["int n"]


def test_what_does_not_fit_the_code_says_nothing() -> None:
    text = "__global__ void k(float *x, int n) {}"
    assert of_source(text, sizes=[8]) is None
    assert of_source(text, sizes=[4, 4]) is None
    assert of_source(text, "other", [8, 4]) is None


def test_every_beginning_of_a_source_is_read_without_an_error() -> None:
    for end in range(0, len(SOURCE), 37):
        declarations.Declarations([SOURCE[:end]])
    for text in ("typedef", "typedef struct", "using", "#define X X\nX", "__global__", "__global__ void k(",
                 "template <", "#define A B B\n#define B A A\nA", "typedef ;", "struct", "__global__ (",
                 "using x ="):  # fmt: skip
        declarations.Declarations([text], ["-D"])


# -- element types


def test_every_element_type_exists() -> None:
    names = {name for type in (*mangled._ELEMENTS, *(f"{v}{n}" for v in mangled._VECTORS for n in range(1, 5)))
             for name in mangled.elements(mangled.CType(type, 1))}  # fmt: skip
    assert all(dtypes.of(name.partition("x")[0] if name[-2:-1] == "x" else name) for name in names)
    assert len(names) > 60


@pytest.mark.parametrize(
    "type, first",
    [("float", "float32"), ("double", "float64"), ("long long", "int64"), ("unsigned int", "uint32"), ("bool", "bool"),
     ("float4", "float32"), ("uchar4", "uint8"), ("double4_16a", "float64"), ("__half2", "float16"),
     ("cuda::std::complex<double>", "complex128")],
)  # fmt: skip
def test_the_element_type_of_a_pointer(type: str, first: str) -> None:
    assert mangled.elements(mangled.CType(type, 1))[0] == first


def test_pointers_to_anything_take_anything() -> None:
    assert mangled.elements(mangled.CType("void", 1)) == mangled.elements(mangled.CType("Matrix", 1)) == ()
    assert mangled.elements(mangled.CType("Matrix", 2))[0] == "uint64"


def test_the_text_of_a_pack_is_counted() -> None:
    """A pack of references to a type with a long name would take cubic time and memory."""
    lengths = []
    for count in (400, 4000):
        name = f"_Z1fI600{'a' * 600}1xI{'S0_' * 400}EJ{'S2_' * count}EEvv"
        tracemalloc.start()
        try:
            assert mangled.parameters(name) is None
            lengths.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    assert max(lengths) < 8 << 20


def test_a_nested_name_is_read_near_the_end_of_the_stack() -> None:
    name = f"_Z1k{'IN1a1b' * 70}"

    def deeper(left: int) -> None:
        if left:
            deeper(left - 1)
        else:
            assert mangled.parameters(name) is None and mangled.base_name(name) == name

    for left in range(0, 900, 50):
        try:
            deeper(left)
        except RecursionError as error:
            frame = error.__traceback__
            while frame.tb_next is not None:
                frame = frame.tb_next
            assert "mangled" not in frame.tb_frame.f_code.co_filename
