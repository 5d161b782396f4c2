"""Launches check arrays against the types that CUDA C, or a C++ name, gives the parameters of a kernel."""

from __future__ import annotations

import array
import ctypes
import sys
from typing import Any

import pytest

from tests.subject import rawcuda

pytestmark = pytest.mark.skipif(sys.platform == "darwin", reason="there is no NVRTC for macOS")

SOURCE = """
typedef float real;
extern "C" __global__ void twice(real *__restrict__ out, const float *x, int n) {
    if (threadIdx.x < n) out[threadIdx.x] = 2 * x[threadIdx.x];
}
__global__ void add(int *counts) { counts[threadIdx.x] += 1; }
template <typename T> __global__ void put(T *out, T value) { out[threadIdx.x] = value; }
extern "C" __global__ void pairs(float2 *p) { p[threadIdx.x].y = 5; }
extern "C" __global__ void anything(void *p, struct Unknown *q) { }
extern "C" __global__ void numbers(
    long long *out, int n, unsigned u, long long l, size_t z, char c, short s, unsigned char b)
{ out[0] = n; out[1] = u; out[2] = l; out[3] = z; out[4] = c; out[5] = s; out[6] = b; }
__global__ void first(long long *out, int n) { out[0] = n; }
extern "C" __global__ void rows(float **x) { x[threadIdx.x][0] = 7; }
"""


@pytest.fixture(scope="module")
def kernels() -> Any:
    device = rawcuda.Device(0)
    try:
        return device, device.compile(SOURCE, names=["add", "put<double>", "first"])
    except rawcuda.Unsupported as error:
        if error.code == 222:
            pytest.skip(str(error))
        raise


def floats(device: Any, count: int = 8, letter: str = "f") -> Any:
    return device.upload(array.array(letter, range(count)))


@pytest.mark.parametrize("options", [{"grid": 1, "block": 8}])
def test_float64_for_a_pointer_to_float_is_refused(kernels: Any, options: Any) -> None:
    device, module = kernels
    right, wrong = floats(device), floats(device, letter="d")
    module["twice"].launch(right, right, 8, **options)
    assert right.tolist() == [0, 2, 4, 6, 8, 10, 12, 14]
    with pytest.raises(TypeError, match=r"'out' is float32\*.* float64.*astype\(\"float32\"\)"):
        module["twice"].launch(wrong, right, 8, **options)
    for given in (wrong, rawcuda.In(wrong)):
        with pytest.raises(TypeError, match=r"'x' is float32\*.* float64.*astype\(\"float32\"\)"):
            module["twice"].launch(right, given, 8, **options)
    module["twice"].launch(right, wrong.reinterpret("float32"), 8, **options)


@pytest.mark.parametrize(
    "options", [["-Dreal=double"], [" -Dreal=double"], ["\t-D\treal=double\n"], [" -D", " real=double "]]
)
def test_blanks_around_an_option_do_not_hide_a_macro(options: list[str]) -> None:
    device = rawcuda.Device(0)
    source = """
    #ifndef real
    #define real float
    #endif
    extern "C" __global__ void first(real *out) { out[0] = 1; }
    """
    with device.compile(source, options=options) as module:
        out = floats(device, letter="d")
        module["first"].launch(out, grid=1, block=1)
        assert out[0] == 1


def test_a_pointer_to_pointers_takes_addresses_and_no_table(kernels: Any) -> None:
    """The remedy is not to convert the elements of the table to addresses."""
    device, module = kernels
    first, second = floats(device), floats(device)
    with pytest.raises(TypeError, match=r"'x' is float \*\*: .* not addresses: .* take \"float \*\" and") as raised:
        module["rows"].launch(first, grid=1, block=1)
    assert "astype" not in str(raised.value)
    addresses = device.upload(array.array("Q", [first.ptr, second.ptr]))
    module["rows"].launch(addresses, grid=1, block=2)
    device.synchronize()
    assert first[0] == 7 and second[0] == 7


def test_a_shape_for_a_number_is_not_to_be_uploaded(kernels: Any) -> None:
    device, module = kernels
    x = floats(device)
    with pytest.raises(TypeError, match=r"'n' is int: a tuple is not a number: give one of its elements") as raised:
        module["twice"].launch(x, x, x.shape, grid=1, block=8)
    assert "upload" not in str(raised.value)


def test_names_are_those_of_the_source(kernels: Any) -> None:
    assert [each.name for each in kernels[1]["twice"].parameters] == ["out", "x", "n"]
    assert [each.name for each in kernels[1]["put<double>"].parameters] == ["out", "value"]


def test_const_takes_read_only_arrays_and_the_rest_does_not(kernels: Any) -> None:
    device, module = kernels
    plain = floats(device)
    made = rawcuda.view(Frozen(plain))
    module["twice"].launch(plain, made, 8, grid=1, block=8)
    with pytest.raises(ValueError, match="'out' is float32.*read-only"):
        module["twice"].launch(made, plain, 8, grid=1, block=8)
    device.synchronize()


class Frozen:
    """An array that is read-only."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        interface = dict(inner.__cuda_array_interface__)
        self.__cuda_array_interface__ = {**interface, "data": (interface["data"][0], True)}


def test_an_array_in_another_order_is_refused(kernels: Any) -> None:
    device, module = kernels
    wide, right = floats(device, 16), floats(device)
    for given in (wide[::2], wide[::-1], wide.reshape((4, 4))[:, :2]):
        with pytest.raises(
            ValueError, match=r"'out' is float32.*not in C order.*view\(it\)\.copy\(\), and .* or view\(it\).ptr"
        ):
            module["twice"].launch(given, right, 8, grid=1, block=8)
    square = wide.reshape((4, 4))
    with pytest.raises(ValueError, match=r"not in C order \(its strides are \(4, 16\)\).*or view\(it\).T"):
        module["twice"].launch(square.T, right, 8, grid=1, block=8)
    module["twice"].launch(square.T.T, right, 8, grid=1, block=8)
    module["twice"].launch(wide[::2].ptr, right, 8, grid=1, block=8)
    for given in (wide[8:], square, wide.reshape((1, 16))[:, :9], wide.reshape((1, 16)).T):
        module["twice"].launch(given, right, 8, grid=1, block=8)
    device.synchronize()


def test_bytes_are_no_array(kernels: Any) -> None:
    device, module = kernels
    with pytest.raises(TypeError, match=r"no array that the device can access: give device\.upload\(it\)"):
        module["twice"].launch(b"abcdefgh", None, 0, grid=1, block=8)


def test_what_has_no_element_type_is_taken(kernels: Any) -> None:
    device, module = kernels
    with device.allocate(32) as memory:
        module["twice"].launch(memory, memory, 8, grid=1, block=8)
        module["twice"].launch(memory.ptr, None, 0, grid=1, block=8)
        device.synchronize()


def test_types_from_a_mangled_name(kernels: Any) -> None:
    device, module = kernels
    counts = floats(device, letter="i")
    loaded = device.load(rawcuda.compile(SOURCE, "sm_75"))  # of which only the names say something
    for each in (module, loaded):
        kernel = each["_Z3addPi"]
        kernel.launch(counts, grid=1, block=8)
        kernel.launch(counts.reinterpret("uint32"), grid=1, block=8)  # of the other sign
        with pytest.raises(TypeError, match=r"is int32\*.*int64"):
            kernel.launch(floats(device, letter="q"), grid=1, block=8)
    assert counts.tolist() == [each + 4 for each in range(8)]
    kernel = kernels[1]["put<double>"]
    with pytest.raises(TypeError, match=r"is float64\*.*float32"):
        kernel.launch(floats(device), 1.0, grid=1, block=8)


def test_vectors_take_their_lanes_and_complex_numbers(kernels: Any) -> None:
    device, module = kernels
    lanes = floats(device, 16)
    module["pairs"].launch(lanes, grid=1, block=8)
    module["pairs"].launch(lanes.reinterpret("complex64"), grid=1, block=8)
    assert lanes.tolist()[1::2] == [5.0] * 8
    with pytest.raises(TypeError, match=r"is float32\*.*float64"):
        module["pairs"].launch(floats(device, letter="d"), grid=1, block=8)


def test_unknown_types_take_everything(kernels: Any) -> None:
    device, module = kernels
    for letter in "fdiqB":
        given = floats(device, letter=letter)
        module["anything"].launch(given, given[::2], grid=1, block=1)
    device.synchronize()


LEAST = (-(2**31), 0, -(2**63), 0, -128, -(2**15), 0)
GREATEST = (2**31 - 1, 2**32 - 1, 2**63 - 1, 2**64 - 1, 127, 2**15 - 1, 255)


def test_the_numbers_of_each_integer_type(kernels: Any) -> None:
    device, module = kernels
    out = device.zeros(7, "int64")
    launch = module["numbers"].configure(grid=1, block=1)
    for given in (LEAST, GREATEST):
        launch(out, *given)
        assert out.reinterpret("uint64").tolist() == [each % 2**64 for each in given]


@pytest.mark.parametrize(
    "at, number, words",
    [
        (
            0,
            3_000_000_000,
            r"'n' is int: .* does not fit: it holds -2147483648 \.\. 2147483647; ctypes\.c_uint32\(3.*-12949",
        ),
        (0, 2**32, r"'n' is int: 4294967296 does not fit: it holds -2147483648 \.\. 2147483647$"),
        (
            1,
            -1,
            r"'u' is unsigned int: -1 does not fit: it holds 0 \.\. 4294967295; ctypes\.c_int32\(-1\).*of 4294967295",
        ),
        (2, 2**63, r"'l' is long long: .* does not fit"),
        (3, -1, r"'z' is unsigned long long: -1 does not fit: it holds 0 \.\. 18446744073709551615"),
        (5, 2**15, r"'s' is short: 32768 does not fit"),
        (6, -1, r"'b' is unsigned char: -1 does not fit"),
    ],
)
def test_numbers_of_the_other_sign_are_refused(kernels: Any, at: int, number: int, words: str) -> None:
    device, module = kernels
    out = device.zeros(7, "int64")
    given = [*GREATEST[:at], number, *GREATEST[at + 1 :]]
    with pytest.raises(ValueError, match="^kernel numbers: parameter " + words):
        module["numbers"].launch(out, *given, grid=1, block=1)
    assert out.tolist() == [0] * 7


def test_the_sign_of_a_type_in_a_mangled_name(kernels: Any) -> None:
    device, module = kernels
    out = device.zeros(1, "int64")
    for kernel in (module["first"], device.load(rawcuda.compile(SOURCE, "sm_75"))["_Z5firstPxi"]):
        with pytest.raises(ValueError, match="is int: 2147483648 does not fit"):
            kernel.launch(out, 2**31, grid=1, block=1)


def test_numbers_of_ctypes_and_numpy_are_converted_as_in_c(kernels: Any) -> None:
    numpy = pytest.importorskip("numpy")
    device, module = kernels
    out = device.zeros(7, "int64")
    launch = module["numbers"].configure(grid=1, block=1)
    for given in (ctypes.c_uint32(2**32 - 5), numpy.uint32(2**32 - 5), numpy.int8(-5)):
        launch(out, given, 1, 1, 1, 1, 1, 1)
        assert out.tolist()[0] == -5
    launch(out, 1, numpy.int32(-1), ctypes.c_uint64(2**64 - 1), numpy.int64(-1), 1, 1, 1)
    assert out.tolist()[1:4] == [2**32 - 1, -1, -1]
    with pytest.raises(ValueError, match="'n' is int: .*3000000000.* does not fit"):  # (more bytes than the parameter)
        launch(out, numpy.int64(3_000_000_000), 1, 1, 1, 1, 1, 1)


def test_a_declaration_wins(kernels: Any) -> None:
    device, module = kernels
    wrong = floats(device, letter="d")
    module.kernel("twice", ["pointer", "float64*", "int32"]).launch(wrong, wrong, 8, grid=1, block=8)
    device.synchronize()
