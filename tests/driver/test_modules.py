"""What a module has: variables with their types, declared pointers, parameters of cubins, lazy loading; libraries."""

from __future__ import annotations

import array
import copy
import ctypes
import gc
import pickle
import struct
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Python
from tests.driver import kernels
from tests.subject import module, rawcuda

image = module("gpu.kernels.image")
no_compiler = pytest.mark.skipif(sys.platform == "darwin", reason="there is no NVRTC for macOS")

HEAD = ".version 7.0\n.target sm_50\n.address_size 64\n"
VARIABLES = (
    HEAD
    + """
// .visible .global .f32 comment[2];
.visible .global .align 4 .f32 grid[2][3] = {{1.0, 2.0, 3.0}, {4.0}};
.visible .global .attribute(.managed) .align 8 .s64 shared_counter = -7;
.visible .const .align 8 .v2 .s16 pairs[2] = {{1, -2}, {3, -4}};
.visible .global .align 4 .b8 bytes[8];
.visible .global .f64 one = 0d4004000000000000, two;
.visible .global .b32 octal[010];
.extern .shared .align 16 .b8 dynamic[];
.visible .entry touch() { ret; }
"""
)
COUNTER = (
    HEAD
    + """
.visible .global .u32 n = 3;
.visible .entry count(.param .u64 p)
{
    .reg .b32 %x; .reg .b64 %p;
    ld.param.u64 %p, [p];
    ld.global.u32 %x, [n];
    st.global.u32 [%p], %x;
    add.u32 %x, %x, 1;
    st.global.u32 [n], %x;
    ret;
}
"""
)

# -- variables


def test_variables_have_the_type_that_the_ptx_gives(device: Any) -> None:
    with device.load(VARIABLES) as made:
        assert made.variables == ["grid", "shared_counter", "pairs", "bytes", "one", "two", "octal"]
        types = {name: (str(made.global_(name).dtype), made.global_(name).shape) for name in made.variables}
        assert types == {
            "grid": ("float32", (2, 3)),
            "shared_counter": ("int64", ()),
            "pairs": ("int16", (2, 2)),
            "bytes": ("uint8", (8,)),
            "one": ("float64", ()),
            "two": ("float64", ()),
            "octal": ("uint32", (8,)),
        }
        grid = made.global_("grid")
        assert grid.tolist() == [[1, 2, 3], [4, 0, 0]] == grid.view().tolist() == rawcuda.view(grid).tolist()
        assert made.global_("one").tolist() == 2.5 and made.global_("pairs").tolist() == [[1, -2], [3, -4]]
        assert grid.view("uint8").shape == (24,) and grid.nbytes == 24 and grid.name == "grid"
        assert str(rawcuda.view(grid).dtype) == "float32" and grid.__cuda_array_interface__["shape"] == (2, 3)
        assert "grid float32 (2, 3)" in repr(grid) and list(made) == made.names == ["touch"]
    with pytest.raises(rawcuda.Closed):
        grid.tolist()
    with pytest.raises(rawcuda.Closed):
        made.variables


def test_a_variable_is_still_memory(device: Any) -> None:
    with device.load(VARIABLES) as made:
        grid = made.global_("grid")
        assert isinstance(grid, rawcuda.Memory) and grid.borrowed
        grid.copy_from(struct.pack("<6f", *range(6)))
        back = bytearray(24)
        grid.copy_to(back)
        assert struct.unpack("<6f", back) == (0, 1, 2, 3, 4, 5)
        grid.view()[1].fill(9)
        assert grid.download().tolist() == [[0, 1, 2], [9, 9, 9]]
        with pytest.raises(TypeError, match="a Variable has one owner and cannot be copied"):
            copy.copy(grid)


def test_all_objects_of_a_variable_know_where_it_was_written(device: Any) -> None:
    with device.load(VARIABLES) as made, device.stream() as stream:
        made.global_("octal").fill(5, stream=stream)
        assert made.global_("octal").stream is stream and made.global_("one").stream is None
        assert set(made.global_("octal").view("uint8").tolist()) == {5}


def test_managed_variables(device: Any) -> None:
    with device.load(VARIABLES) as made:
        counter = made.global_("shared_counter")
        assert counter.kind == "managed" and counter.is_host_accessible and made.global_("grid").kind == "device"
        assert counter.view().device[0] == "cuda_managed"
        assert isinstance(counter, rawcuda.ManagedMemory) and counter.read_mostly is False
        device.synchronize()
        assert memoryview(counter.view("int64").memoryview())[0] == -7


def test_a_name_that_does_not_exist(device: Any) -> None:
    with device.load(VARIABLES) as made:
        with pytest.raises(rawcuda.NotFound, match="no variable 'nope'.*grid"):
            made.global_("nope")
        with pytest.raises(TypeError, match="a variable's name must be a str"):
            made.global_(3)


# -- declared pointers


SCALE = (
    HEAD
    + """
.visible .entry scale(.param .u64 data, .param .f32 by, .param .u32 n)
{
    .reg .pred %q; .reg .b32 %i, %n; .reg .f32 %v, %b; .reg .b64 %d, %o;
    ld.param.u64 %d, [data];
    ld.param.f32 %b, [by];
    ld.param.u32 %n, [n];
    mov.u32 %i, %tid.x;
    setp.ge.u32 %q, %i, %n;
    @%q ret;
    mul.wide.u32 %o, %i, 4;
    add.u64 %d, %d, %o;
    ld.global.f32 %v, [%d];
    mul.f32 %v, %v, %b;
    st.global.f32 [%d], %v;
    ret;
}
"""
)


@pytest.mark.parametrize(
    "declared", ["float32*", "f32 *", "const float32*", "float32 const *", ctypes.POINTER(ctypes.c_float)]
)
def test_a_declared_element_type(device: Any, declared: Any) -> None:
    made = device.load(SCALE)
    kernel = made.kernel("scale", parameters=[declared, "float32", "int32"])
    right, wrong = device.upload(array.array("f", [1, 2])), device.upload(array.array("d", [1, 2]))
    memory = device.allocate(8)
    for given in (right, memory, right.ptr, rawcuda.In(right), right[:], None):
        kernel.launch(given, 2.0, 0 if given is None else 2, grid=1, block=2)
    assert right.tolist() == [16, 32]
    for given in (wrong, rawcuda.In(wrong), rawcuda.view(wrong), wrong.reinterpret("int32"), Foreign(wrong)):
        for launch in (kernel.launch, lambda *a, **how: kernel.configure(**how)(*a)):
            with pytest.raises(TypeError, match=r"parameter 'data' is float32\*: .* has elements of (float64|int32)"):
                launch(given, 2.0, 2, grid=1, block=2)
    with pytest.raises(TypeError, match="neither an array nor an address"):
        kernel.launch(2.5, 2.0, 2, grid=1, block=2)
    kernel.launch(Foreign(right), 0.5, 2, grid=1, block=2)
    assert right.tolist() == [8, 16]


class Foreign:
    """An array of another library."""

    def __init__(self, view: Any) -> None:
        self.view = view

    @property
    def __cuda_array_interface__(self) -> Any:
        return self.view.__cuda_array_interface__


def test_a_pointer_to_anything(device: Any) -> None:
    kernel = device.load(SCALE).kernel("scale", parameters=["void*", "float32", "int32"])
    kernel.launch(device.upload(array.array("d", [1, 2])), 2.0, 2, grid=1, block=2)


def test_a_variable_keeps_its_type_as_an_argument(device: Any) -> None:
    kernel = device.load(SCALE).kernel("scale", parameters=["float32*", "float32", "int32"])
    with device.load(VARIABLES) as made:
        kernel.launch(made.global_("grid"), 2.0, 2, grid=1, block=2)
        assert made.global_("grid").tolist()[0] == [2, 4, 3]
        with pytest.raises(TypeError, match="has elements of float64"):
            kernel.launch(made.global_("one"), 2.0, 2, grid=1, block=2)


@pytest.mark.parametrize(
    "declared, words",
    [
        ("float*", r"'float32\*'\?"),
        ("int*", r"'int32\*'\?"),
        ("f4", r"'float32'\?"),  # (a typestr, which could be confused with a type of PTX: see u8)
        ("nope*", "no element type is called 'nope'"),
        ("*", r"such as 'float32\*'"),
        ("float32**", r"such as 'float32\*'"),
        ("float32* restrict", "declares no parameter"),
    ],
)
def test_pointers_that_are_refused(device: Any, declared: str, words: str) -> None:
    with pytest.raises(TypeError, match=words):
        device.load(SCALE).kernel("scale", parameters=[declared, "float32", "int32"])


# -- cubins, which the emulator does not run

PARAMETERS = """
struct S { char c; double d; };
extern "C" __global__ void k(float *o, int n, char c, S s, short h, const int *q) { o[0] = n + c + s.d + h + *q; }
extern "C" __global__ void none() {}
__device__ int table[4] = {1, 2, 3, 4};
__device__ __noinline__ float helper(float x) { return x * table[2]; }
extern "C" __global__ void uses(float *x) { *x = helper(*x); }
"""
LAYOUT = [(0, 8), (8, 4), (12, 1), (16, 16), (32, 2), (40, 8)]


@no_compiler
@pytest.mark.parametrize("target", ["sm_75", "sm_90", "sm_120"])
def test_the_parameters_of_a_cubin(target: str) -> None:
    made = rawcuda.compile(PARAMETERS, target, "cubin", options=["-rdc=true"])
    found = image.signatures("cubin", made)
    assert [(parameter.offset, parameter.size) for parameter in found["k"]] == LAYOUT and found["none"] == []
    assert sorted(image.kernels("cubin", made)) == ["k", "none", "uses"]  # not the device function
    assert image.variables("cubin", made) == {"table": 16}


@no_compiler
def test_parameters_that_are_large() -> None:
    source = 'struct B { char x[20000]; }; extern "C" __global__ void k(const B b, int *o) { o[0] = b.x[19999]; }'
    made = rawcuda.compile(source, "sm_90", "cubin")
    assert [(p.offset, p.size) for p in image.signatures("cubin", made)["k"]] == [(0, 20000), (20000, 8)]


@no_compiler
def test_a_damaged_cubin_has_no_parameters() -> None:
    from random import Random

    made, chance = rawcuda.compile(PARAMETERS, "sm_90", "cubin"), Random(1)
    for _ in range(300):
        damaged = bytearray(made)
        for _ in range(4):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        for read in (image.signatures, image.variables):
            assert isinstance(read("cubin", bytes(damaged)), dict)


@no_compiler
@pytest.mark.gpu_only("the emulator runs no machine code")
def test_a_launch_of_a_cubin_checks_its_arguments(device: Any) -> None:
    major, minor = device.compute_capability
    target = f"sm_{major}{minor}"
    made = device.load(rawcuda.compile('extern "C" __global__ void k(float *o, int n) { *o = n; }', target, "cubin"))
    with pytest.raises(TypeError):
        made["k"].launch(1, grid=1, block=1)
    out = device.empty(1, "float32")
    made["k"].launch(out, ctypes.c_int(3), grid=1, block=1)
    made.kernel("k", parameters=["float32*", "int32"]).launch(out, 4, grid=1, block=1)
    assert out.tolist() == [4]


# -- loading


def test_lazy_loading(python: Python) -> None:
    code = """
        from tests.subject import rawcuda
        from tests.driver.test_modules import COUNTER
        device = rawcuda.Device(0)
        made = device.load(COUNTER)
        kernel = made["count"]
        print(made.loading_mode, kernel.is_loaded, end=" ")
        kernel.load()
        print(kernel.is_loaded, end=" ")
        other = device.load(COUNTER)["count"]
        before = other.is_loaded
        other.launch(device.empty(1, "uint32"), grid=1, block=1)
        print(before, other.is_loaded)
    """
    assert python(code, env={"CUDA_MODULE_LOADING": "LAZY"}, check=True).stdout == "lazy False True False True\n"
    assert python(code, env={"CUDA_MODULE_LOADING": "EAGER"}, check=True).stdout == "eager True True True True\n"


# -- libraries


def counted(made: Any) -> int:
    """Run the kernel of COUNTER."""
    out = made.device.empty(1, "uint32")
    made["count"].launch(out, grid=1, block=1)
    [found] = out.tolist()
    return int(found)


def test_a_library_is_loaded_once_for_several_devices() -> None:
    library = rawcuda.Library(COUNTER)
    assert library.names == list(library) == ["count"] and len(library) == 1 and "count" in library
    assert library.variables == ["n"] and "nope" not in library and repr(library) == "<Library ptx, 1 kernels>"
    for device in rawcuda.devices():
        made = library.module(device)
        assert made.device is device and library.module(device) is made
        assert [counted(made), counted(made)] == [3, 4] and made.global_("n").tolist() == 5
        assert made["count"].parameters[0].size == 8
    library.close()
    library.close()
    assert library.closed and made.closed and repr(library) == "<Library closed>"
    for wrong in (lambda: library.module(device), lambda: library.names, lambda: made["count"], lambda: made.handle):
        with pytest.raises(rawcuda.Closed):
            wrong()


def test_a_library_reads_its_code_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read = []

    def noting(name: str) -> Any:
        before = getattr(image, name)
        return lambda *given: [read.append(name), before(*given)][1]

    with rawcuda.Library(COUNTER) as library:
        for name in ("kernels", "variables"):
            monkeypatch.setattr(image, name, noting(name))
        for _ in range(3):
            assert "count" in library and list(library) == library.names == ["count"] and len(library) == 1
            assert library.variables == ["n"] and repr(library) == "<Library ptx, 1 kernels>"
            library.names.clear()
    assert read == ["kernels", "variables"]


def test_the_variables_of_a_library_know_where_they_were_written_without_its_module(device: Any) -> None:
    """Nothing needs to keep the Module: the library is one, and so is the memory of its variables."""
    with rawcuda.Library(".version 6.3 .target sm_50 .address_size 64 .visible .global .u32 word = 1;") as library:
        with device.stream() as stream:
            library.module(device).global_("word").fill(7, stream=stream)
            gc.collect()
            assert library.module(device).global_("word").stream is stream
            assert library.module(device).global_("word").tolist() == 0x07070707


def test_a_module_keeps_its_library(device: Any) -> None:
    made = rawcuda.Library(COUNTER).module(device)
    gc.collect()
    device.stream().close()
    assert counted(made) == 3


def test_a_library_in_a_with_block_and_its_release(device: Any) -> None:
    loaded = module("driver").current().libcuda
    count = getattr(loaded, "live_handles", dict)
    before = count().get("library"), count().get("module")
    with rawcuda.Library(COUNTER) as library, pytest.raises(ZeroDivisionError):
        library.module(device)
        1 / 0
    rawcuda.Library(COUNTER)
    gc.collect()
    device.stream().close()
    assert (count().get("library"), count().get("module")) == before
    with pytest.raises(rawcuda.Closed), library:
        pass


def test_a_library_is_given_away_once() -> None:
    library = rawcuda.Library(COUNTER)
    handle = library.detach()
    assert library.closed and handle
    rawcuda.cu.cuLibraryUnload(module("headers.cuda_h").CUlibrary(handle))
    with pytest.raises(rawcuda.Closed):
        library.detach()


def test_a_library_closes_while_its_kernel_is_waiting(device: Any) -> None:
    with rawcuda.Library(COUNTER) as library, device.stream() as stream:
        out = device.empty(1, "uint32")
        library.module(device)["count"].launch(out, grid=1, block=1, stream=stream)
        library.close()
        stream.synchronize()
        assert out.tolist() == [3]


def test_other_names_and_files(device: Any, tmp_path: Path) -> None:
    (tmp_path / "code.ptx").write_text(COUNTER)
    with rawcuda.Library(tmp_path / "code.ptx", names={"my::count": "count"}) as library:
        assert "my::count" in library and counted_as(library.module(device), "my::count") == 3


def counted_as(made: Any, name: str) -> int:
    """Run the kernel of COUNTER under another name."""
    out = made.device.empty(1, "uint32")
    made[name].launch(out, grid=1, block=1)
    return int(out.tolist()[0])


def test_libraries_that_cannot_be_loaded(device: Any) -> None:
    with pytest.raises(rawcuda.CompileFailed, match="line [0-9]+; error") as raised:
        rawcuda.Library(COUNTER.replace("ret;", "rat;"))
    assert "rat" in raised.value.source and raised.value.log
    for code, kind in ((b"", ValueError), (3, TypeError), ("code.ptx", ValueError), (b"\x7fELF", ValueError)):
        with pytest.raises(kind):
            rawcuda.Library(code)
    with rawcuda.Library(COUNTER) as library:
        with pytest.raises(TypeError, match="a library's module is on a Device, not on an int"):
            library.module(0)
        for wrong in (lambda: copy.copy(library), lambda: pickle.dumps(library)):
            with pytest.raises(TypeError, match="Library"):
                wrong()


def test_a_driver_without_libraries_loads_modules(python: Python) -> None:
    result = python(
        """
        from tests.subject import module, rawcuda
        from tests.attack.parsers import fatbin, member
        from tests.driver.test_modules import COUNTER, counted
        emulator = module("emulator").Emulator()
        class Older:
            def address(self, symbol):
                return None if symbol.startswith(("cuLibrary", "cuKernel")) else emulator.address(symbol)
        rawcuda.use(Older())
        with rawcuda.Library(COUNTER) as library:
            made = library.module(rawcuda.Device(0))
            print(library.names, counted(made), library.module(rawcuda.Device(0)) is made)
        print(made.closed)
        with rawcuda.Library(fatbin(member(1, COUNTER.encode()))) as library:
            print(counted(library.module(rawcuda.Device(0))))
        """,
        env={"RAWCUDA_DRIVER": None},
        check=True,
    )
    assert result.stdout == "['count'] 3 True\nTrue\n3\n"


def test_names_that_a_module_has_not(device):
    with device.load(kernels.ADD) as loaded:
        assert "add" in loaded and "sub" not in loaded and 5 not in loaded
