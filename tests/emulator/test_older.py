"""Entry points of earlier versions of CUDA, each called as a program of its time does."""

from __future__ import annotations

import ctypes
import struct
import time

import pytest

from .emulator_client import Client

PTX = """.version 6.3
.target sm_50
.address_size 64
.visible .entry k(.param .u64 out, .param .f32 scale, .param .u32 more)
{ .reg .b64 %d<3>; .reg .b32 %r<4>; .reg .f32 %f<4>; .reg .b32 %b<3>;
ld.param.u64 %d0, [out]; ld.param.f32 %f0, [scale]; ld.param.u32 %r0, [more];
mov.u32 %r1, %tid.x; mov.u32 %b0, %ctaid.x; mov.u32 %b1, %ntid.x; mad.lo.u32 %r1, %b0, %b1, %r1;
cvt.rn.f32.u32 %f1, %r1; cvt.rn.f32.u32 %f2, %r0; fma.rn.f32 %f1, %f1, %f0, %f2;
mul.wide.u32 %d1, %r1, 4; add.u64 %d1, %d0, %d1; st.global.f32 [%d1], %f1; ret; }
"""


@pytest.fixture
def client() -> Client:
    return Client()


def set_float(client: Client, function: int, offset: int, value: float) -> int:
    kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_size_t, ctypes.c_int, ctypes.c_float)
    return kind(client.emulator.address("cuParamSetf"))(function, offset, value)  # type: ignore[no-any-return]


def prepared(client: Client) -> tuple[int, int]:
    """Return a kernel whose block and arguments are set, and the address of its results."""
    function = client.get("cuModuleGetFunction", client.load(PTX), b"k")
    out = client.allocate(32)
    client.do("cuFuncSetBlockShape", function, 4, 1, 1)
    client.do("cuFuncSetSharedSize", function, 0)
    place = ctypes.c_uint64(out)
    client.do("cuParamSetv", function, 0, ctypes.addressof(place), 8)
    assert set_float(client, function, 8, 0.5) == 0
    client.do("cuParamSeti", function, 12, 3)
    client.do("cuParamSetSize", function, 16)
    return function, out


def test_a_launch_in_several_calls(client: Client) -> None:
    function, out = prepared(client)
    client.do("cuLaunch", function)
    assert client.download(out, 16) == struct.pack("<4f", 3, 3.5, 4, 4.5)
    assert set_float(client, function, 8, 1.0) == 0
    client.do("cuLaunchGrid", function, 2, 1)
    assert client.download(out, 32) == struct.pack("<8f", *range(3, 11))
    client.do("cuParamSeti", function, 12, 0)
    client.do("cuLaunchGridAsync", function, 2, 1, client.stream())
    client.do("cuCtxSynchronize")
    assert client.download(out, 32) == struct.pack("<8f", *range(8))


@pytest.mark.parametrize(
    "name, arguments",
    [
        ("cuFuncSetBlockShape", (0, 1, 1)),
        ("cuFuncSetBlockShape", (4, -1, 1)),
        ("cuParamSeti", (-4, 0)),
        ("cuParamSeti", (4093, 0)),
        ("cuParamSetSize", (4097,)),
        ("cuParamSetv", (0, 0, 8)),
        ("cuParamSetv", (0, 1, 2**32 - 1)),
        ("cuLaunchGrid", (0, 1)),
        ("cuLaunchGrid", (1, -1)),
    ],
)
def test_wrong_numbers_are_refused(client: Client, name: str, arguments: tuple[int, ...]) -> None:
    function, _ = prepared(client)
    assert client.code(name, function, *arguments) == 1
    assert set_float(client, function, 2**31 - 1, 0.0) == set_float(client, function, -1, 0.0) == 1


def test_a_launch_with_too_few_arguments_is_refused(client: Client) -> None:
    function, _ = prepared(client)
    client.do("cuParamSetSize", function, 8)
    assert client.code("cuLaunch", function) == 1


def test_attached_contexts_are_counted(client: Client) -> None:
    context = client.get("cuCtxCreate_v2", 0, 0)
    assert client.get("cuCtxAttach", 0) == context
    client.do("cuCtxDetach", context)
    assert client.get("cuCtxGetCurrent") == context
    assert client.code("cuCtxAttach", 0, 0) == client.code("cuCtxDetach", context + 8) - 200 == 1
    client.do("cuCtxDetach", context)
    assert client.get("cuCtxGetCurrent") != context
    assert [client.code("cuCtxDetach", client.context) for _ in range(3)] == [201] * 3  # of a primary context


def test_other_names_do_the_same(client: Client) -> None:
    major, minor = ctypes.c_int(), ctypes.c_int()
    client.do("cuDeviceComputeCapability", ctypes.addressof(major), ctypes.addressof(minor), 0)
    assert (major.value, minor.value) == (9, 0)
    made = client.get("cuCtxCreate_v3", 0, 0, 0, 0)
    version = ctypes.c_uint()
    client.do("cuCtxGetApiVersion", made, ctypes.addressof(version))
    assert version.value == 3020
    assert client.get("cuCtxPopCurrent") == made
    client.do("cuCtxPushCurrent", made)
    client.do("cuCtxDestroy", made)
    assert client.get_int("cuDeviceGetExecAffinitySupport", 0, 0) == 0
    client.do("cuStreamDestroy", client.stream())
    client.do("cuEventDestroy", client.event())
    assert client.code("cuProfilerInitialize", 0, 0, 0) == 801
    found = (ctypes.c_int * 14)()
    client.do("cuDeviceGetProperties", ctypes.addressof(found), 0)
    assert list(found[:5]) == [1024, 1024, 1024, 64, 2**31 - 1] and found[9] == 32


def test_a_stream_calls_back_with_its_handle(client: Client) -> None:
    called = []
    kind = ctypes.CFUNCTYPE(None, ctypes.c_size_t, ctypes.c_int, ctypes.c_size_t)
    function = kind(lambda *arguments: called.append(arguments))
    address, stream = ctypes.cast(function, ctypes.c_void_p).value, client.stream()
    client.do("cuStreamAddCallback", stream, address, 7, 0)
    client.do("cuStreamSynchronize", stream)
    assert called == [(stream, 0, 7)]
    assert client.code("cuStreamAddCallback", stream, 0, 7, 0) == 1
    assert client.code("cuStreamAddCallback", stream, address, 7, 1) == 1
    client.do("cuStreamBeginCapture", stream)
    assert client.code("cuStreamAddCallback", stream, address, 7, 0) == 900


@pytest.mark.parametrize("name", ["cuGraphInstantiate", "cuGraphInstantiate_v2"])
def test_graphs_are_instantiated_with_a_log(client: Client, name: str) -> None:
    graph, node, log = client.get("cuGraphCreate", 0), ctypes.c_uint64(5), ctypes.create_string_buffer(b"old", 8)
    made = client.get(name, graph, ctypes.addressof(node), ctypes.addressof(log), 8)
    assert made and node.value == 0 and log.value == b""
    client.do("cuGraphLaunch", made, 0)
    client.do("cuGraphExecDestroy", made)


def test_a_kernel_of_a_library_has_a_preference_for_the_cache(client: Client) -> None:
    text = ctypes.create_string_buffer(PTX.encode())
    library = client.get("cuLibraryLoadData", ctypes.addressof(text), 0, 0, 0, 0, 0, 0)
    kernel = client.get("cuLibraryGetKernel", library, b"k")
    client.do("cuKernelSetCacheConfig", kernel, 2, 0)
    assert client.code("cuKernelSetCacheConfig", kernel, 4, 0) == 1
    assert client.code("cuKernelSetCacheConfig", kernel, 0, 5) == 101


@pytest.mark.parametrize("mode", ["eager", "lazy", "random"])
def test_a_callback_is_called_after_an_error(mode: str) -> None:
    """It is called with the code of the error, also if another stream is the one that is waited for."""
    client, called = Client(mode), []
    kind = ctypes.CFUNCTYPE(None, ctypes.c_size_t, ctypes.c_int, ctypes.c_size_t)
    function = kind(lambda *arguments: called.append(arguments))
    address, get = ctypes.cast(function, ctypes.c_void_p).value, client.kernels()
    flag, first, second, reached = client.pinned(bytes(4)), client.stream(), client.stream(), client.event()
    client.do("cuStreamWaitValue32_v2", first, flag, 1, 1)  # so that the work is pending in each mode
    assert not client.launch(get("trap"), [], stream=first)
    client.do("cuEventRecord", reached, first)
    client.do("cuStreamAddCallback", first, address, 7, 0)
    client.do("cuStreamAddCallback", first, address, 8, 0)
    client.do("cuStreamWaitEvent", second, reached, 0)
    client.do("cuStreamAddCallback", second, address, 9, 0)
    ctypes.memmove(flag, b"\1\0\0\0", 4)
    assert client.code("cuEventSynchronize", reached) == 719
    for _ in range(500):
        if len(called) == 3:
            break
        time.sleep(0.01)
    assert sorted(called) == [(first, 719, 7), (first, 719, 8), (second, 719, 9)]
