"""The emulated CUDA runtime, libcudart: what programs see that nvcc builds with -cudart=shared or -cudart=none.

Most tests call the library through ctypes, in new processes, and register code as nvcc's programs do. The last ones
build programs with the compilers of this machine, and run them with the command `emulate`.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import tracemalloc
from pathlib import Path
from unittest.mock import MagicMock

import pytest

from tests.emulator.emulator_client import Client
from tests.null import header_reader
from tests.shared import sampled
from tests.subject import NAME, ROOT, module

loading = module("emulator.impersonating.loading")
pytestmark = pytest.mark.skipif(bool(loading.unusable()), reason=loading.unusable())

BEGIN = r'''
import ctypes, os, struct, sys, threading
from tests.subject import module
emulator = module("emulator").impersonate()
MAJOR = int(os.environ.get("MAJOR", "13"))
cuda = ctypes.CDLL({11: "libcudart.so.11.0", 12: "libcudart.so.12", 13: "libcudart.so.13"}[MAJOR])
by = ctypes.byref
cuda.cudaGetErrorName.restype = cuda.cudaGetErrorString.restype = ctypes.c_char_p
register_fatbin = cuda["__cudaRegisterFatBinary"]
register_fatbin.restype = ctypes.c_void_p

class Dim3(ctypes.Structure):
    _fields_ = [(axis, ctypes.c_uint) for axis in "xyz"]
    def __init__(self, x=1, y=1, z=1):
        super().__init__(x, y, z)

def check(code, wanted=0):
    assert code == wanted, (code, cuda.cudaGetErrorName(code), wanted, emulator.reports[-1:])

def allocate(size):
    pointer = ctypes.c_uint64()
    check(cuda.cudaMalloc(by(pointer), ctypes.c_size_t(size)))
    return pointer

PTX = b"""
.version 6.3
.target sm_50
.address_size 64
.visible .global .align 4 .b8 counter[16];
.visible .entry add(.param .u64 p, .param .u32 v)
{
    .reg .b64 %p; .reg .b32 %v, %old, %t;
    ld.param.u64 %p, [p];
    ld.param.u32 %v, [v];
    atom.global.add.u32 %old, [%p], %v;
    ret;
}
.visible .entry wide(.param .u64 p)
.maxntid 64, 1, 1
{
    ret;
}
.visible .entry count()
{
    .reg .b32 %old; .reg .b64 %at;
    mov.u64 %at, counter;
    atom.global.add.u32 %old, [%at], 1;
    ret;
}
.visible .entry spoil(.param .u64 p)
{
    .reg .b64 %p;
    ld.param.u64 %p, [p];
    st.global.u32 [%p+4096], 1;
    ret;
}
"""
stands = {name: ctypes.create_string_buffer(16) for name in ("add", "wide", "count", "spoil", "absent", "counter")}
kept = []
def register(image=PTX, names=("add", "wide", "count", "spoil", "absent")):
    """Do what the functions do that nvcc writes: register a fatbin, its kernels and its variable."""
    text = ctypes.create_string_buffer(image)
    wrapper = ctypes.create_string_buffer(struct.pack("<IIQQ", 0x466243B1, 1, ctypes.addressof(text), 0))
    kept.extend((text, wrapper))
    handle = ctypes.c_void_p(register_fatbin(wrapper))
    for name in names:
        stand = stands[name]
        cuda["__cudaRegisterFunction"](handle, stand, stand, name.encode(), -1, None, None, None, None, None)
    cuda["__cudaRegisterVar"](handle, stands["counter"], stands["counter"], b"counter", 0, ctypes.c_size_t(16), 0, 0)
    cuda["__cudaRegisterFatBinaryEnd"](handle)
    return handle

def launch(name, *arguments, grid=Dim3(), block=Dim3(), shared=0, stream=None, function="cudaLaunchKernel"):
    pointers = (ctypes.c_void_p * len(arguments))(*map(ctypes.addressof, arguments))
    return cuda[function](stands[name], grid, block, pointers, ctypes.c_size_t(shared), stream)

def read(pointer, count=1):
    words = (ctypes.c_int * count)()
    check(cuda.cudaMemcpy(words, pointer, ctypes.c_size_t(4 * count), 2))
    return list(words)
'''


@pytest.fixture
def run(python):  # type: ignore[no-untyped-def]
    """Run a snippet after BEGIN, with one device, and return what it prints; stderr must be empty."""

    def call(code: str, *, env: dict[str, str] | None = None, stderr: bool = False) -> str:
        result = python(BEGIN + code, env={"RAWCUDA_EMULATOR": "", **(env or {})}, check=True)
        assert stderr or not result.stderr, result.stderr
        return str(result.stdout + (result.stderr if stderr else ""))

    return call


@pytest.mark.parametrize("major", ["11", "12", "13"])
def test_memory_kernels_and_variables(run, major: str) -> None:  # type: ignore[no-untyped-def]
    run(
        """
register()
memory, value = allocate(64), ctypes.c_int(5)
check(cuda.cudaMemset(memory, 0, ctypes.c_size_t(64)))
check(launch("add", memory, value, grid=Dim3(2), block=Dim3(8, 2)))
assert read(memory, 2) == [160, 0]
# variables: by the address of their stand-ins on the host
check(cuda.cudaMemcpyToSymbol(stands["counter"], (ctypes.c_int * 2)(40, 41), ctypes.c_size_t(8), ctypes.c_size_t(8), 1))
check(launch("count", block=Dim3(7)))
words = (ctypes.c_int * 4)()
check(cuda.cudaMemcpyFromSymbol(words, stands["counter"], ctypes.c_size_t(16), ctypes.c_size_t(0), 2))
assert list(words) == [7, 0, 40, 41], list(words)
address, size = ctypes.c_uint64(), ctypes.c_size_t()
check(cuda.cudaGetSymbolAddress(by(address), stands["counter"]))
check(cuda.cudaGetSymbolSize(by(size), stands["counter"]))
assert size.value == 16 and read(address, 3) == [7, 0, 40]
check(cuda.cudaMemcpyToSymbol(stands["counter"], words, ctypes.c_size_t(16), ctypes.c_size_t(8), 1), 1)
check(cuda.cudaMemcpyToSymbol(stands["counter"], words, ctypes.c_size_t(4), ctypes.c_size_t(0), 2), 21)
check(cuda.cudaMemcpyToSymbol(stands["add"], words, ctypes.c_size_t(4), ctypes.c_size_t(0), 1), 13)
# no bytes, and NULL
null = ctypes.c_uint64(9)
check(cuda.cudaMalloc(by(null), ctypes.c_size_t(0)))
assert null.value == 0
check(cuda.cudaFree(None)), check(cuda.cudaFreeHost(None)), check(cuda.cudaFree(memory))
check(cuda.cudaFree(memory), 1)
""",
        env={"MAJOR": major},
    )


def test_launches_that_are_refused(run) -> None:  # type: ignore[no-untyped-def]
    run(
        """
register()
memory, value = allocate(4096), ctypes.c_int(5)
check(cuda.cudaMemset(memory, 0, ctypes.c_size_t(4096)))
for block in Dim3(2048), Dim3(0), Dim3(1, 1, 65), Dim3(32, 33):
    check(launch("add", memory, value, block=block), 9)
for grid in Dim3(1, 65536), Dim3(0), Dim3(1, 1, 70000):
    check(launch("add", memory, value, grid=grid), 9)
assert "the sizes must be 1 to" in emulator.reports[-1]
check(launch("wide", memory, block=Dim3(65)), 1)
check(launch("add", memory, value, shared=48 * 1024 + 1), 1)
check(launch("add", memory, value, shared=2**33), 1)
check(launch("absent", memory), 98)
check(cuda.cudaLaunchKernel(by(value), Dim3(), Dim3(), None, ctypes.c_size_t(0), None), 98)
assert "is not the address of a kernel" in emulator.reports[-1]
check(launch("add", memory, value, grid=Dim3(100000), block=Dim3(1024), function="cudaLaunchCooperativeKernel"), 720)
check(cuda.cudaGetLastError(), 720)
check(launch("add", memory, value, block=Dim3(1024)))
"""
    )


def test_the_last_error_belongs_to_the_thread(run) -> None:  # type: ignore[no-untyped-def]
    run(
        """
check(cuda.cudaSetDevice(7), 101)
check(cuda.cudaPeekAtLastError(), 101), check(cuda.cudaGetLastError(), 101), check(cuda.cudaGetLastError())
check(cuda.cudaSetDevice(7), 101)
check(cuda.cudaMalloc(by(ctypes.c_uint64()), ctypes.c_size_t(8)))  # success does not reset it
seen = []
def other():
    seen.append(cuda.cudaGetLastError())
    seen.append(cuda.cudaMalloc(by(ctypes.c_uint64()), ctypes.c_size_t(2**60)))
    seen.append(cuda.cudaGetLastError())
thread = threading.Thread(target=other)
thread.start(), thread.join()
assert seen == [0, 2, 2], seen
check(cuda.cudaGetLastError(), 101)
assert cuda.cudaGetErrorName(101) == b"cudaErrorInvalidDevice"
assert cuda.cudaGetErrorString(9) == b"invalid configuration argument"
assert cuda.cudaGetErrorName(0) == b"cudaSuccess" and cuda.cudaGetErrorString(7777) == b"unrecognized error code"
check(cuda.cudaGetLastError())  # telling a text is no error
"""
    )


def test_an_error_of_a_kernel_stays_until_the_device_is_reset(run) -> None:  # type: ignore[no-untyped-def]
    told = run(
        """
register()
memory = allocate(64)
check(launch("spoil", memory))
check(cuda.cudaDeviceSynchronize(), 700), check(cuda.cudaGetLastError(), 700)
check(cuda.cudaMalloc(by(memory), ctypes.c_size_t(4)), 700), check(launch("count"), 700)
check(cuda.cudaDeviceReset())
memory = allocate(64)  # the device begins anew, and so does the code
check(launch("count")), check(launch("count"))
words = (ctypes.c_int * 1)()
check(cuda.cudaMemcpyFromSymbol(words, stands["counter"], ctypes.c_size_t(4), ctypes.c_size_t(0), 2))
assert list(words) == [2]
""",
        stderr=True,
    )
    assert "out-of-bounds write of 4 bytes in spoil()" in told and "kernel spoil" in told  # also without libcuda


def test_a_configuration_waits_for_its_launch(run) -> None:  # type: ignore[no-untyped-def]
    run(
        """
register()
push, pop = cuda["__cudaPushCallConfiguration"], cuda["__cudaPopCallConfiguration"]
def popped():
    grid, block, shared, stream = Dim3(), Dim3(), ctypes.c_size_t(), ctypes.c_uint64()
    check(pop(by(grid), by(block), by(shared), by(stream)))
    return grid.x, block.y, shared.value, stream.value
assert push(Dim3(2), Dim3(1, 3), ctypes.c_size_t(4), ctypes.c_void_p(5)) == 0
assert push(Dim3(6), Dim3(1, 7), ctypes.c_size_t(8), None) == 0  # of a launch among the arguments
seen = []
thread = threading.Thread(target=lambda: seen.append(pop(*(by(ctypes.create_string_buffer(16)) for _ in range(4)))))
thread.start(), thread.join()
assert seen == [52]
assert popped() == (6, 7, 8, 0) and popped() == (2, 3, 4, 5)
check(pop(*(by(ctypes.create_string_buffer(16)) for _ in range(4))), 52)
# the stand-in of CUDA 12 and 13
kernel, memory, value = ctypes.c_void_p(), allocate(64), ctypes.c_int(3)
check(cuda.cudaMemset(memory, 0, ctypes.c_size_t(64)))
check(cuda["__cudaGetKernel"](by(kernel), stands["add"]))
pointers = (ctypes.c_void_p * 2)(ctypes.addressof(memory), ctypes.addressof(value))
check(cuda["__cudaLaunchKernel"](kernel, Dim3(), Dim3(4), pointers, ctypes.c_size_t(0), None))
assert read(memory) == [12]
check(cuda.cudaGetKernel(by(kernel), stands["add"]))  # a cudaKernel_t is accepted instead of the stand-in
check(cuda.cudaLaunchKernel(kernel, Dim3(), Dim3(), pointers, ctypes.c_size_t(0), None))
assert read(memory) == [15]
"""
    )


def test_code_that_is_unregistered_is_gone(run) -> None:  # type: ignore[no-untyped-def]
    run(
        """
first = register()
check(launch("count"))
second = register(PTX.replace(b"count()", b"again()"), names=())
cuda["__cudaUnregisterFatBinary"](first)
check(launch("count"), 98)
check(cuda.cudaMemcpyToSymbol(stands["counter"], b"1234", ctypes.c_size_t(4), ctypes.c_size_t(0), 1))  # of the second
cuda["__cudaUnregisterFatBinary"](second), cuda["__cudaUnregisterFatBinary"](second)
check(cuda.cudaMemcpyToSymbol(stands["counter"], b"1234", ctypes.c_size_t(4), ctypes.c_size_t(0), 1), 13)
"""
    )


@pytest.mark.parametrize("major", ["11", "12", "13"])
def test_the_success_of_managed_variables_is_no_last_error(run, major: str) -> None:  # type: ignore[no-untyped-def]
    """Code of nvcc calls __cudaInitModule at the first use of a managed variable; it returns 1 for success."""
    run(
        """
managed = b".visible .global .attribute(.managed) .align 4 .b8 total[4];"
handle = register(PTX.replace(b".visible .global", managed + b"\\n.visible .global", 1))
place = ctypes.c_uint64()
cuda["__cudaRegisterManagedVar"](handle, by(place), b"total", b"total", 0, ctypes.c_size_t(4), 0, 0)
assert cuda["__cudaInitModule"](handle) == 1 and place.value
check(cuda.cudaGetLastError())
cuda.cudaSetDevice(99)
assert cuda["__cudaInitModule"](handle) == 1
check(cuda.cudaGetLastError(), 101)  # that of the earlier call
""",
        env={"MAJOR": major},
    )


def test_code_that_cannot_run_is_refused_when_it_is_used(run) -> None:  # type: ignore[no-untyped-def]
    run(
        """
elf = b"\\x7fELF" + bytes(60)
member = struct.pack("<HHIQ12I", 2, 0x101, 64, len(elf), 0, 0, 0, 90, 0, 0, 0x11, 0, 0, 0, 0, 0) + elf
register(struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(member)) + member)
memory = allocate(4)
check(launch("count"), 209)
assert cuda.cudaGetErrorName(209) == b"cudaErrorNoKernelImageForDevice" and "add PTX" in emulator.reports[-1]
"""
    )


def test_the_null_stream_of_the_forms_for_threads(run) -> None:  # type: ignore[no-untyped-def]
    run(
        """
register()
memory, value, status, graph = allocate(64), ctypes.c_int(1), ctypes.c_int(), ctypes.c_void_p()
check(cuda.cudaMemset(memory, 0, ctypes.c_size_t(64)))
check(cuda.cudaStreamBeginCapture_ptsz(None, 2))
check(launch("add", memory, value, function="cudaLaunchKernel_ptsz"))
check(cuda.cudaStreamIsCapturing_ptsz(None, by(status)))
assert status.value == 1
check(cuda.cudaStreamIsCapturing(ctypes.c_void_p(2), by(status)))  # cudaStreamPerThread
assert status.value == 1
check(cuda.cudaStreamEndCapture_ptsz(None, by(graph)))
check(cuda.cudaStreamIsCapturing(None, by(status)))  # the legacy stream
assert status.value == 0
check(launch("add", memory, value)), check(cuda.cudaStreamEndCapture(None, by(ctypes.c_void_p())), 401)
count = ctypes.c_size_t()
check(cuda.cudaGraphGetNodes(graph, None, by(count)))
assert count.value == 1
"""
    )


def test_the_null_stream_of_a_call_inside_a_call(run) -> None:  # type: ignore[no-untyped-def]
    """A __del__ makes calls: each has the stream of its own form, and so has the call around them."""
    run(
        """
memory, status, machine = allocate(64), ctypes.c_int(), emulator._machine
streams, stream_of = [], machine.stream
def stream(handle):
    if not streams:
        streams.append(None)
        check(cuda.cudaStreamIsCapturing_ptsz(None, by(status))), check(cuda.cudaStreamIsCapturing(None, by(status)))
    streams.append(stream_of(handle))
    return streams[-1]
machine.stream = stream
check(cuda.cudaMemsetAsync_ptsz(memory, 1, ctypes.c_size_t(64), None))
_, own, plain, outer = streams
assert own is outer is not plain and plain is plain.context.legacy
"""
    )


def test_copies_of_every_kind(run) -> None:  # type: ignore[no-untyped-def]
    run(
        """
size = ctypes.c_size_t
host, other = ctypes.create_string_buffer(bytes(range(256)), 256), ctypes.create_string_buffer(256)
one, two, pitch = allocate(256), allocate(256), size()
check(cuda.cudaMemcpy(one, host, size(256), 1)), check(cuda.cudaMemcpy(two, one, size(256), 3))
check(cuda.cudaMemcpy(other, two, size(256), 4)), check(cuda.cudaMemcpy(other, host, size(8), 0))
assert other.raw == host.raw
check(cuda.cudaMemcpy(other, two, size(256), 5), 21)
emulator._machine.answers.attributes[11], graph, node = 100, ctypes.c_void_p(), ctypes.c_void_p()  # MAX_PITCH
check(cuda.cudaMemcpy(other, host, size(256), 0)), check(cuda.cudaGraphCreate(by(graph), 0))
check(cuda.cudaGraphAddMemcpyNode1D(by(node), graph, None, size(0), two, one, size(256), 3))
check(cuda.cudaGraphDestroy(graph))
emulator._machine.answers.attributes[11] = 2**31 - 1
check(cuda.cudaMemcpy(one, ctypes.c_uint64(one.value + 2**40), size(256), 1), 1)  # the source is not on the host
check(cuda.cudaMemcpy(one, host, size(257), 1), 1)
check(cuda.cudaMemcpy(None, None, size(0), 1))
rows = ctypes.c_uint64()
check(cuda.cudaMallocPitch(by(rows), by(pitch), size(20), size(5)))
assert pitch.value >= 20 and pitch.value % 32 == 0
check(cuda.cudaMemset2D(rows, pitch, 0x103, size(20), size(5)))
check(cuda.cudaMemcpy2D(rows, pitch, host, size(16), size(16), size(4), 1))
check(cuda.cudaMemcpy2D(other, size(20), rows, pitch, size(20), size(5), 2))
assert other.raw[:100] == b"".join(host.raw[16 * i : 16 * i + 16] + bytes([3] * 4) for i in range(4)) + bytes([3] * 20)
check(cuda.cudaMemcpy2D(other, size(8), rows, pitch, size(20), size(5), 2), 12)
# slices, of which the last one does not fit: none is filled
structures, filled = module("emulator.runtime.runtime_structures"), allocate(64)
check(cuda.cudaMemset(filled, 0, size(64)))
slices = structures.PitchedPointer(filled.value, 8, 8, 4)
check(cuda.cudaMemset3D(slices, 7, structures.Extent(8, 3, 3)), 1)
check(cuda.cudaMemcpy(other, filled, size(64), 2))
assert other.raw[:64] == bytes(64)
check(cuda.cudaMemset3D(slices, 7, structures.Extent(8, 3, 2)))
check(cuda.cudaMemcpy(other, filled, size(64), 2))
assert other.raw[:64] == (bytes([7] * 24) + bytes(8)) * 2
# a box of a box: position and extent of pitched memory are in bytes
Copy = module("emulator.runtime.runtime_structures").Copy
copy = Copy(kind=2)
copy.source.pointer, copy.source.pitch, copy.source.xsize, copy.source.ysize = rows.value, pitch.value, 20, 2
copy.source_position.x, copy.source_position.y, copy.source_position.z = 1, 1, 1
copy.target.pointer, copy.target.pitch, copy.target.xsize, copy.target.ysize = ctypes.addressof(other), 4, 4, 1
copy.extent.width, copy.extent.height, copy.extent.depth = 4, 1, 1
check(cuda.cudaMemcpy3D(by(copy)))
assert other.raw[:4] == host.raw[49:53], other.raw[:4]
copy.source_array = 77
check(cuda.cudaMemcpy3D(by(copy)), 1)
# pinned and managed memory
pinned, managed = ctypes.c_void_p(), ctypes.c_void_p()
check(cuda.cudaHostAlloc(by(pinned), size(64), 0)), check(cuda.cudaMallocManaged(by(managed), size(64), 1))
ctypes.memset(pinned, 9, 64), ctypes.memset(managed, 8, 64)
stream = ctypes.c_void_p()
check(cuda.cudaStreamCreate(by(stream)))
check(cuda.cudaMemcpyAsync(one, pinned, size(64), 1, stream))
check(cuda.cudaMemcpyAsync(managed, one, size(32), 3, stream))
check(cuda.cudaStreamSynchronize(stream))
assert ctypes.string_at(managed, 64) == bytes([9] * 32 + [8] * 32)
for pointer, kind in (one, 2), (pinned, 1), (managed, 3), (ctypes.c_void_p(ctypes.addressof(host)), 0):
    told = module("emulator.runtime.runtime_structures").pointer_attributes(13).structure()
    check(cuda.cudaPointerGetAttributes(by(told), pointer))
    assert (told.type, told.device) == (kind, 0 if kind else -2), (kind, told.type, told.device)
check(cuda.cudaFreeHost(pinned)), check(cuda.cudaFree(managed)), check(cuda.cudaStreamDestroy(stream))
"""
    )


def test_textures_arrays_and_surfaces(run) -> None:  # type: ignore[no-untyped-def]
    run(
        """
structures, size = module("emulator.runtime.runtime_structures"), ctypes.c_size_t
channels = structures.ChannelFormat(32, 0, 0, 0, 2)
array, texture, surface = ctypes.c_uint64(), ctypes.c_uint64(), ctypes.c_uint64()
check(cuda.cudaMallocArray(by(array), by(channels), size(8), size(4), 2))
host = (ctypes.c_float * 32)(*range(32))
other = (ctypes.c_float * 32)()
check(cuda.cudaMemcpy2DToArray(array, size(0), size(0), host, size(32), size(32), size(4), 1))
for left in (32, 64):
    check(cuda.cudaMemcpyToArray(array, size(left), size(0), host, size(32), 1), 1)
    check(cuda.cudaMemcpyFromArray(other, array, size(left), size(1), size(32), 2), 1)
check(cuda.cudaMemcpyFromArray(other, array, size(20), size(1), size(40), 2))  # from the middle of a row on
assert list(other)[:10] == list(range(13, 23))
for left, count in ((16, 32), (0, 64)):  # past the last row: nothing is copied
    check(cuda.cudaMemcpyToArray(array, size(left), size(3), host, size(count), 1), 1)
check(cuda.cudaMemcpyFromArray(other, array, size(0), size(3), size(32), 2))
assert list(other)[:8] == list(range(24, 32))
told, extent, flags = structures.ChannelFormat(), structures.Extent(), ctypes.c_uint()
check(cuda.cudaArrayGetInfo(by(told), by(extent), by(flags), array))
assert bytes(told) == bytes(channels) and (extent.width, extent.height, extent.depth, flags.value) == (8, 4, 0, 2)
for wrong in ((32, 8, 0, 0, 2), (8, 8, 8, 0, 1), (64, 0, 0, 0, 2), (0, 8, 0, 0, 1), (8, 0, 0, 0, 7)):
    code = cuda.cudaMallocArray(by(ctypes.c_uint64()), by(structures.ChannelFormat(*wrong)), size(8), size(4), 0)
    assert code == (1 if wrong == (8, 8, 8, 0, 1) else 20), (wrong, code)
resource, sampling = structures.Resource(0), (structures.Texture * 2)()
resource.of.array = array.value
sampling[0].address_mode[0], sampling[0].normalized, sampling[0].border_color[1] = 1, 1, 2.5
check(cuda.cudaCreateTextureObject(by(texture), by(resource), sampling, None))
check(cuda.cudaCreateSurfaceObject(by(surface), by(resource)))
again, read_back = structures.Resource(), (structures.Texture * 2)()
check(cuda.cudaGetTextureObjectResourceDesc(by(again), texture))
check(cuda.cudaGetTextureObjectTextureDesc(read_back, texture))
assert again.type == 0 and again.of.array == array.value and bytes(read_back[0]) == bytes(sampling[0])
check(cuda.cudaGetSurfaceObjectResourceDesc(by(again), surface))
check(cuda.cudaDestroyTextureObject(texture)), check(cuda.cudaDestroySurfaceObject(surface))
check(cuda.cudaFreeArray(array))
linear, memory = structures.Resource(2), allocate(512)
linear.of.linear.pointer, linear.of.linear.size = memory.value, 512
linear.of.linear.format = structures.ChannelFormat(8, 8, 8, 8, 1)
check(cuda.cudaCreateTextureObject(by(texture), by(linear), sampling, None))
check(cuda.cudaGetTextureObjectResourceDesc(by(again), texture))
assert again.of.linear.size == 512 and bytes(again.of.linear.format) == bytes(linear.of.linear.format)
"""
    )


@pytest.mark.parametrize("major", [11, 12, 13])
def test_properties_of_a_device(run, major: int) -> None:  # type: ignore[no-untyped-def]
    run(
        """
structures = module("emulator.runtime.runtime_structures")
for function, layout in {11: [("", 11)], 12: [("", 11), ("_v2", 12)], 13: [("", 13)]}[MAJOR]:
    kind = structures.device_properties(layout).structure
    memory = (ctypes.c_char * (ctypes.sizeof(kind) + 8))(*b"\\xee" * (ctypes.sizeof(kind) + 8))
    told = kind.from_buffer(memory)
    check(cuda["cudaGetDeviceProperties" + function](by(told), 1))
    assert memory.raw[-8:] == b"\\xee" * 8  # nothing is written behind it
    value = ctypes.c_int()
    for name, numbers in structures.device_properties(layout).numbers.items():
        for index, number in enumerate(numbers):
            check(cuda.cudaDeviceGetAttribute(by(value), number, 1))
            found = getattr(told, name)
            assert (found[index] if len(numbers) > 1 else found) == value.value, name
    assert b"emulator" in told.name and told.totalGlobalMem >> 30 and told.uuid and told.major >= 9
check(cuda.cudaGetDeviceProperties(by(told), 2), 101)
version, count, device = ctypes.c_int(), ctypes.c_int(), ctypes.c_int(5)
check(cuda.cudaRuntimeGetVersion(by(version)))
assert version.value // 1000 == MAJOR
check(cuda.cudaGetDeviceCount(by(count))), check(cuda.cudaGetDevice(by(device)))
assert (count.value, device.value) == (2, 0)
memory = allocate(64)
check(cuda.cudaSetDevice(1)), check(cuda.cudaGetDevice(by(device)))
assert device.value == 1
other = allocate(64)
check(cuda.cudaMemset(memory, 1, ctypes.c_size_t(64)))
check(cuda.cudaMemcpyPeer(other, 1, memory, 0, ctypes.c_size_t(64)))
assert read(other) == [0x01010101]
check(cuda.cudaDeviceEnablePeerAccess(0, 0)), check(cuda.cudaDeviceEnablePeerAccess(0, 0), 704)
told = structures.pointer_attributes(MAJOR).structure()
check(cuda.cudaPointerGetAttributes(by(told), other))
assert told.device == 1
check(cuda.cudaDeviceReset())  # of the current device only
check(cuda.cudaSetDevice(0))
assert read(memory) == [0x01010101]
register()
attributes = structures.function_attributes(MAJOR).structure()
check(cuda.cudaFuncGetAttributes(by(attributes), stands["wide"]))
assert attributes.maxThreadsPerBlock == 64 and attributes.ptxVersion == 50
check(cuda.cudaFuncSetAttribute(stands["wide"], 8, 1000)), check(cuda.cudaFuncSetAttribute(stands["wide"], 8, 10**6), 1)
blocks = ctypes.c_int()
check(cuda.cudaOccupancyMaxActiveBlocksPerMultiprocessor(by(blocks), stands["add"], 1024, ctypes.c_size_t(0)))
assert blocks.value == 2
""",
        env={"MAJOR": str(major), "RAWCUDA_EMULATOR": "devices=2"},
    )


def test_graphs_name_kernels_by_their_stand_ins(run) -> None:  # type: ignore[no-untyped-def]
    run(
        """
register()
size, memory, value, host = ctypes.c_size_t, allocate(64), ctypes.c_int(4), (ctypes.c_int * 1)()
graph, node, copy, symbol, executable = (ctypes.c_void_p() for _ in range(5))
check(cuda.cudaMemset(memory, 0, size(64)))
check(cuda.cudaGraphCreate(by(graph), 0))
pointers = (ctypes.c_void_p * 2)(ctypes.addressof(memory), ctypes.addressof(value))
words = struct.pack("<Q7I4xQQ", ctypes.addressof(stands["add"]), 1, 1, 1, 2, 1, 1, 0, ctypes.addressof(pointers), 0)
check(cuda.cudaGraphAddKernelNode(by(node), graph, None, size(0), words))
told = ctypes.create_string_buffer(b"x" * 64, 64)
check(cuda.cudaGraphKernelNodeGetParams(node, told))
assert told.raw[:36] == words[:36] and told.raw[56:] == b"x" * 8  # the structure has 56 bytes
check(cuda.cudaGraphAddMemcpyNode1D(by(copy), graph, by(node), size(1), host, memory, size(4), 2))
target = stands["counter"], memory, size(4), size(4), 3
check(cuda.cudaGraphAddMemcpyNodeToSymbol(by(symbol), graph, by(node), size(1), *target))
box = module("emulator.runtime.runtime_structures").Copy()
check(cuda.cudaGraphMemcpyNodeGetParams(copy, by(box)))
assert (box.kind, box.source.pointer, box.target.pointer) == (2, memory.value, ctypes.addressof(host))
assert (box.extent.width, box.extent.height, box.extent.depth) == (4, 1, 1)
check(cuda.cudaGraphInstantiate(by(executable), graph, ctypes.c_uint64(0)))
for total in 8, 16:
    check(cuda.cudaGraphLaunch(executable, None)), check(cuda.cudaDeviceSynchronize())
    assert host[0] == total
words = (ctypes.c_int * 2)()
check(cuda.cudaMemcpyFromSymbol(words, stands["counter"], size(8), size(0), 2))
assert list(words) == [0, 16]
"""
    )


def test_calls_that_are_those_of_the_driver(run) -> None:  # type: ignore[no-untyped-def]
    """Some of each family, with every kind of parameter: structures by value, pointers to results, sizes, handles."""
    run(
        """
size, structures = ctypes.c_size_t, module("emulator.runtime.runtime_structures")
host, other = ctypes.create_string_buffer(bytes(range(256)), 256), ctypes.create_string_buffer(256)
one, managed, stream, event = allocate(256), ctypes.c_uint64(), ctypes.c_void_p(), ctypes.c_void_p()
check(cuda.cudaMemcpy2D(one, size(32), host, size(16), size(16), size(8), 4))
check(cuda.cudaMemcpy2D(other, size(16), one, size(32), size(16), size(8), 4))
assert other.raw[:128] == host.raw[:128]
check(cuda.cudaStreamCreateWithFlags(by(stream), 1)), check(cuda.cudaMallocManaged(by(managed), size(64), 1))
check(cuda.cudaMemPrefetchAsync(managed, size(64), structures.Location(1, 0), 0, stream))
check(cuda.cudaMemAdvise(managed, size(64), 1, structures.Location(1, 0)))
check(cuda.cudaIpcOpenMemHandle(by(managed), structures.Handle(), 1), 400)
free, total = size(), size()
check(cuda.cudaMemGetInfo(by(free), by(total)))
assert 0 < free.value < total.value
check(cuda.cudaStreamDestroy(None), 400)
elapsed = ctypes.c_float()
check(cuda.cudaEventCreate(by(event))), check(cuda.cudaEventElapsedTime(by(elapsed), event, event), 400)
pool, most, stored = ctypes.c_void_p(), ctypes.c_uint64(2**63), ctypes.c_uint64()
check(cuda.cudaDeviceGetDefaultMemPool(by(pool), 0)), check(cuda.cudaMemPoolSetAttribute(pool, 4, by(most)))
check(cuda.cudaMemPoolGetAttribute(pool, 4, by(stored)))
assert stored.value == 2**63
check(cuda.cudaMallocFromPoolAsync(by(one), size(100), pool, stream)), check(cuda.cudaFreeAsync(one, stream))
least, greatest, limit = ctypes.c_int(1), ctypes.c_int(1), size()
check(cuda.cudaDeviceGetStreamPriorityRange(by(least), by(greatest)))
check(cuda.cudaDeviceSetLimit(0, size(4096))), check(cuda.cudaDeviceGetLimit(by(limit), 0))
assert (least.value, greatest.value < 0, limit.value) == (0, True, 4096)
text, device = ctypes.create_string_buffer(20), ctypes.c_int(5)
check(cuda.cudaDeviceGetPCIBusId(text, 20, 0)), check(cuda.cudaDeviceGetByPCIBusId(by(device), text))
assert device.value == 0
flags = ctypes.c_uint()
check(cuda.cudaSetDeviceFlags(1)), check(cuda.cudaGetDeviceFlags(by(flags))), check(cuda.cudaInitDevice(0, 0, 0))
assert flags.value == 1
"""
    )


def test_a_capture_into_a_graph_may_end_without_writing_it(run) -> None:  # type: ignore[no-untyped-def]
    run(
        """
register()
stream, graph, count, size = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_size_t
check(cuda.cudaStreamCreate(by(stream))), check(cuda.cudaGraphCreate(by(graph), 0))
check(cuda.cudaStreamBeginCaptureToGraph(stream, graph, None, None, size(0), 0))
check(launch("count", stream=stream)), check(cuda.cudaStreamEndCapture(stream, None))
check(cuda.cudaGraphGetNodes(graph, None, by(count)))
assert count.value == 1
check(cuda.cudaStreamBeginCapture(stream, 0)), check(cuda.cudaStreamEndCapture(stream, None), 1)
check(cuda.cudaStreamEndCapture(stream, by(ctypes.c_void_p())))
"""
    )


def test_a_function_that_is_not_emulated_says_so(run) -> None:  # type: ignore[no-untyped-def]
    told = run(
        """
check(cuda.cudaGraphicsUnregisterResource(None), 801), check(cuda.cudaGraphicsUnregisterResource(None), 801)
check(cuda.cudaGetLastError(), 801)
check(cuda.cudaGLSetGLDevice(0), 801)
""",
        stderr=True,
    )
    assert told.splitlines() == [
        f"emulator: {name} returned 801: the emulated CUDA runtime does not have this function"
        for name in ("cudaGraphicsUnregisterResource", "cudaGLSetGLDevice")
    ]


def test_threads_that_launch_first_share_the_code(run) -> None:  # type: ignore[no-untyped-def]
    run(
        """
import time
register()
entry, loads = module("emulator.interface.thunks").ENTRIES["cuLibraryLoadData"], []
load = entry.function
def slow(*arguments):
    loads.append(None)
    time.sleep(0.5)
    return load(*arguments)
entry.function = slow
codes, begin = [], threading.Barrier(8)
def work():
    check(cuda.cudaFree(None))  # the thread has a context
    begin.wait()
    codes.extend(launch("count") for _ in range(5))
threads = [threading.Thread(target=work) for _ in range(8)]
[thread.start() for thread in threads], [thread.join() for thread in threads]
assert codes == [0] * 40 and len(loads) == 1, (codes, loads)
words = (ctypes.c_int * 1)()
check(cuda.cudaMemcpyFromSymbol(words, stands["counter"], ctypes.c_size_t(4), ctypes.c_size_t(0), 2))
assert words[0] == 40, words[0]
"""
    )


def test_the_state_of_ended_threads_does_not_stay(run) -> None:  # type: ignore[no-untyped-def]
    run(
        """
import gc
memory, stream = allocate(64), ctypes.c_void_p(2)  # the per-thread default stream
def work():
    check(cuda.cudaMemsetAsync(memory, 0, ctypes.c_size_t(64), stream)), check(cuda.cudaStreamSynchronize(stream))
    check(cuda.cudaSetDevice(5), 101)
    begin.wait(), begin.wait()
    check(cuda.cudaGetLastError(), 101), check(cuda.cudaGetLastError())  # the error of this thread alone
for _ in range(5):
    begin = threading.Barrier(3)
    threads = [threading.Thread(target=work) for _ in range(2)]
    [thread.start() for thread in threads]
    begin.wait()
    check(cuda.cudaGetLastError())
    begin.wait()
    [thread.join() for thread in threads]
gc.collect()
state = next(each for each in gc.get_objects() if type(each).__name__ == "Runtime")
primary = emulator._machine.devices[0].primary
assert len(state._threads) == 1 and len(primary.per_thread) <= 2, (len(state._threads), len(primary.per_thread))
"""
    )


def test_versions_have_states_of_their_own_and_share_the_device(run) -> None:  # type: ignore[no-untyped-def]
    run(
        """
old = ctypes.CDLL("libcudart.so.12")
memory = allocate(64)
check(old.cudaMemset(memory, 1, ctypes.c_size_t(64)))
assert read(memory) == [0x01010101]
check(old.cudaSetDevice(5), 101), check(cuda.cudaGetLastError()), check(old.cudaGetLastError(), 101)
register()
check(old.cudaLaunchKernel(stands["count"], Dim3(), Dim3(), None, ctypes.c_size_t(0), None), 98)
libcuda = ctypes.CDLL("libcuda.so.1")
context, current = ctypes.c_void_p(), ctypes.c_void_p()
check(libcuda.cuDevicePrimaryCtxRetain(by(context), 0)), check(libcuda.cuCtxGetCurrent(by(current)))
assert context.value == current.value
found = ctypes.c_void_p()
check(cuda.cudaGetDriverEntryPoint(b"cuMemAlloc", by(found), ctypes.c_uint64(0), None))
assert found.value == ctypes.cast(libcuda.cuMemAlloc_v2, ctypes.c_void_p).value
status = ctypes.c_int(9)
check(cuda.cudaGetDriverEntryPoint(b"cuNothing", by(found), ctypes.c_uint64(0), by(status)))
assert found.value is None and status.value == 1
"""
    )


def test_a_forked_child_gets_an_error_with_a_text(run) -> None:  # type: ignore[no-untyped-def]
    run(
        """
memory = allocate(64)
child = os.fork()
if not child:
    code = cuda.cudaMalloc(by(memory), ctypes.c_size_t(64))
    fine = code == 3 == cuda.cudaGetLastError() and cuda.cudaGetErrorString(code) == b"initialization error"
    os._exit(0 if fine and cuda.cudaGetErrorName(code) == b"cudaErrorInitializationError" else 9)
assert os.waitpid(child, 0)[1] == 0
check(cuda.cudaFree(memory))
"""
    )


def test_a_reset_adds_no_retain() -> None:
    client = Client(start=False)
    find = module("emulator.runtime.serving").open_runtime(client.emulator, 12)
    allocate = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t)(find("cudaMalloc"))
    reset, memory = ctypes.CFUNCTYPE(ctypes.c_int)(find("cudaDeviceReset")), ctypes.c_uint64()
    for _ in range(3):
        assert allocate(ctypes.addressof(memory), 64) == 0
        assert client.emulator.live_handles()["context"] == 1
        assert reset() == 0


def test_a_forked_child_takes_no_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread of the parent may have held it at the fork."""
    structures, client = module("emulator.runtime.runtime_structures"), Client()
    pitched, extent = structures.PitchedPointer(client.allocate(64), 8, 8, 4), structures.Extent(8, 4, 2)
    address = module("emulator.runtime.serving").open_runtime(client.emulator, 12)("cudaMemset3D")
    fill = ctypes.CFUNCTYPE(ctypes.c_int, structures.PitchedPointer, ctypes.c_int, structures.Extent)(address)
    assert fill(pitched, 1, extent) == 0
    lock = MagicMock()
    monkeypatch.setattr(client.emulator._machine, "lock", lock)
    child = os.getpid() + 1
    monkeypatch.setattr(os, "getpid", lambda: child)
    assert fill(pitched, 1, extent) == 3 and client.emulator.live_handles()["memory"] == 1
    assert not lock.__enter__.called


def test_a_fill_of_too_many_slices_is_refused_at_the_first_one_that_does_not_fit() -> None:
    structures, client = module("emulator.runtime.runtime_structures"), Client()
    address = module("emulator.runtime.serving").open_runtime(client.emulator, 12)("cudaMemset3D")
    fill = ctypes.CFUNCTYPE(ctypes.c_int, structures.PitchedPointer, ctypes.c_int, structures.Extent)(address)
    memory = client.allocate(4096)
    client.do("cuMemsetD8_v2", memory, 7, 4096)
    tracemalloc.start()
    try:
        for pitch, width, depth in ((64, 65, 2), (64, 64, 100_000), (64, 64, 2**49), (0, 64, 2**49)):
            assert fill(structures.PitchedPointer(memory, pitch, 64, 1), 1, structures.Extent(width, 1, depth)) == 1
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
    assert client.download(memory, 4096) == b"\7" * 4096
    assert fill(structures.PitchedPointer(memory, 0, 64, 0), 1, structures.Extent(64, 1, 1)) == 0


def test_whoever_asks_for_the_table_of_the_own_runtime_is_told_what_to_do(run) -> None:  # type: ignore[no-untyped-def]
    told = run(
        """
libcuda, table = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
assert libcuda.cuGetExportTable(by(table), bytes(16)) == 3  # not initialized
assert libcuda.cuInit(0) == 0
for _ in range(2):
    assert libcuda.cuGetExportTable(by(table), bytes.fromhex("6bd5fb6c5bf4e74a8987d93912fd9df9")) == 801
assert libcuda.cuGetExportTable(by(table), bytes(16)) == 801
""",
        stderr=True,
    )
    assert told.count("emulator: ") == told.count("-cudart=shared") == 1


# -- programs that compilers build

INCLUDES = [path.parent for path in header_reader.find_headers("cuda_runtime_api.h")]


def emulate(program: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run a program with the command."""
    if not loading._libpython():
        pytest.skip("this Python has no library for a program to load")
    return subprocess.run(
        [sys.executable, "-m", NAME, "emulate", *options, str(program)],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": str(ROOT), "RAWCUDA_EMULATOR": ""},
    )


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_a_program_in_c_is_linked_with_the_folder_and_runs(tmp_path: Path) -> None:
    """The linker finds libcudart.so in the folder of `emulate`, and the program asks for the version of its symbols."""
    if not INCLUDES:
        pytest.skip("no cuda_runtime_api.h was found: pip install nvidia-cuda-runtime, or set CUDA_HEADERS")
    source, program = tmp_path / "program.c", tmp_path / "program"
    source.write_text(
        """
#include <cuda_runtime_api.h>
#include <stdio.h>
int main(void) {
    float host[4] = {1, 2, 3, 4}, back[4] = {0};
    void *memory;
    struct cudaDeviceProp told;
    struct cudaChannelFormatDesc channels = cudaCreateChannelDesc(8, 16, 24, 32, cudaChannelFormatKindUnsigned);
    cudaError_t error = cudaMalloc(&memory, sizeof host);
    error = error ? error : cudaMemcpy(memory, host, sizeof host, cudaMemcpyHostToDevice);
    error = error ? error : cudaMemset(memory, 0, 4);
    error = error ? error : cudaMemcpy(back, memory, sizeof host, cudaMemcpyDeviceToHost);
    error = error ? error : cudaGetDeviceProperties(&told, 0);
    printf("%s %g %g %d %d %d\\n", cudaGetErrorString(error), back[0], back[3], told.warpSize, channels.z, channels.f);
    printf("%s\\n", cudaGetErrorName(cudaSetDevice(99)));
    return error;
}
"""
    )
    folder, variables = loading.prepare()
    try:
        subprocess.run(
            ["cc", "-I", str(INCLUDES[-1]), str(source), "-o", str(program), f"-L{folder}", "-lcudart"], check=True
        )
    finally:
        loading.remove(folder)
    made = program.read_bytes()
    major = [path.name for path in (INCLUDES[-1].parent / "lib").glob("libcudart.so.1*")]
    assert b"libcudart.so.13\0" in made or major and major[0].encode() in made
    result = emulate(program)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == "no error 0 4 32 24 1\ncudaErrorInvalidDevice\n"


PROGRAM = r"""
#include <cstdio>
#include <thread>
__constant__ float factors[4];
__device__ int counter;
__managed__ int total;
template <class T, int N> __global__ void scale(T *x, int n) {
    extern __shared__ T part[];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    part[threadIdx.x] = i < n ? x[i] : T(0);
    __syncthreads();
    if (i < n) { x[i] = part[threadIdx.x] * N * factors[1]; atomicAdd(&counter, 1); }
}
__global__ void sum(int n) { atomicAdd(&total, n); }
static void host_function(void *data) { *(int *)data += 1; }
extern int other_unit(int);
#define TRY(call) if (cudaError_t error = call) { printf("%s: %s\n", #call, cudaGetErrorString(error)); return 1; }
int main() {
    const int n = 100;
    float host[n], given[4] = {0, 0.5f, 0, 0}, *x, milliseconds = -1;
    for (int i = 0; i < n; i++) host[i] = i;
    TRY(cudaMalloc(&x, sizeof host));
    cudaStream_t stream; cudaEvent_t begin, end;
    TRY(cudaStreamCreate(&stream)); TRY(cudaEventCreate(&begin)); TRY(cudaEventCreate(&end));
    TRY(cudaMemcpyToSymbol(factors, given, sizeof given)); TRY(cudaDeviceSynchronize());
    TRY(cudaMemcpyAsync(x, host, sizeof host, cudaMemcpyHostToDevice, stream));
    TRY(cudaEventRecord(begin, stream));
    scale<float, 4><<<4, 32, 32 * sizeof(float), stream>>>(x, n);
    TRY(cudaGetLastError());
    TRY(cudaEventRecord(end, stream));
    TRY(cudaMemcpyAsync(host, x, sizeof host, cudaMemcpyDeviceToHost, stream));
    int called = 0, count = 0, least, best;
    TRY(cudaLaunchHostFunc(stream, host_function, &called));
    TRY(cudaStreamSynchronize(stream)); TRY(cudaEventElapsedTime(&milliseconds, begin, end));
    TRY(cudaMemcpyFromSymbol(&count, counter, sizeof count));
    TRY(cudaOccupancyMaxPotentialBlockSize(&least, &best, sum));
    total = 5;
    std::thread thread([] { sum<<<1, 8>>>(2); cudaDeviceSynchronize(); });
    thread.join();
    sum<<<1, 4096>>>(1);
    printf("%g %d %d %d %d %d ", host[99], count, called, milliseconds >= 0, best, total);
    printf("%s %d\n", cudaGetErrorName(cudaGetLastError()), other_unit(20));
    return cudaDeviceReset();
}
"""
UNIT = r"""
__device__ int twice(int);
static __global__ void sum(int *x) { *x = twice(*x) + 2; }
int other_unit(int value) {
    int *x;
    cudaMallocManaged(&x, sizeof *x);
    *x = value;
    sum<<<1, 1>>>(x);
    return cudaDeviceSynchronize() ? -1 : *x;
}
"""
DEVICE = "__device__ int twice(int x) { return 2 * x; }\n"


def build(tmp_path: Path, sources: dict[str, str], *options: str) -> Path:
    """Build a program with nvcc."""
    for name, text in sources.items():
        (tmp_path / name).write_text(text)
    command = ["nvcc", "-arch=sm_80", *options, "-o", "program", *sources]
    made = subprocess.run(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert made.returncode == 0, made.stdout
    return tmp_path / "program"


needs_nvcc = pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc on this machine")


@needs_nvcc
@pytest.mark.parametrize("options", sampled([(), ("-rdc=true",), ("--default-stream", "per-thread")]), ids=" ".join)
def test_a_program_with_the_shared_runtime_runs_unchanged(tmp_path: Path, options: tuple[str, ...]) -> None:
    sources = {"program.cu": PROGRAM, "unit.cu": UNIT}
    if options == ("-rdc=true",):
        sources["device.cu"] = DEVICE
    else:
        sources["unit.cu"] = DEVICE + UNIT.replace("__device__ int twice(int);", "")
    program = build(tmp_path, sources, "-cudart=shared", *options)
    for settings in "eager", "lazy":
        result = emulate(program, "--set", settings)
        assert (result.returncode, result.stderr) == (0, ""), result.stdout
        assert result.stdout == "198 100 1 1 1024 21 cudaErrorInvalidConfiguration 42\n"


@needs_nvcc
def test_a_program_with_its_own_runtime_is_told_what_to_do(tmp_path: Path) -> None:
    result = emulate(build(tmp_path, {"program.cu": PROGRAM, "unit.cu": DEVICE + UNIT.split("\n", 2)[2]}))
    assert result.returncode == 1 and "operation not supported" in result.stdout
    assert result.stderr.count("-cudart=shared") == 1 and "NVIDIA's own CUDA runtime" in result.stderr


@needs_nvcc
def test_the_output_of_kernels_is_in_order_with_that_of_the_program(tmp_path: Path) -> None:
    text = r"""
#include <cstdio>
__global__ void speak(int i) { printf("kernel %d ä\n", i); }
int main() {
    for (int i = 0; i < 3; i++) { printf("program %d\n", i); speak<<<1, 1>>>(i); cudaDeviceSynchronize(); }
    puts("end");
}
"""
    result = emulate(build(tmp_path, {"program.cu": text}, "-cudart=shared"))
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.split("\n") == [
        *(line for i in range(3) for line in (f"program {i}", f"kernel {i} ä")),
        "end",
        "",
    ]


@needs_nvcc
def test_a_library_without_a_runtime_finds_the_one_of_emulate(tmp_path: Path) -> None:
    text = DEVICE + UNIT.split("\n", 2)[2].replace("int other_unit", 'extern "C" int other_unit')
    library = build(tmp_path, {"unit.cu": text}, "-cudart=none", "-shared", "-Xcompiler", "-fPIC")
    script = tmp_path / "script.py"
    script.write_text(f"import ctypes\nprint(ctypes.CDLL({str(library)!r}).other_unit(4))\n")
    result = emulate(script)
    assert (result.stdout, result.stderr) == ("10\n", "")
