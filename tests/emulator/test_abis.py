"""Which ABI a name stands for, and the forms of entry points for the per-thread default stream."""

from __future__ import annotations

import ctypes
import struct

import pytest

from tests.emulator.emulator_client import Client
from tests.subject import module

abis, cuda_h = module("emulator.interface.abis"), module("headers.cuda_h")


@pytest.mark.parametrize(
    "name, version, flags, found",
    [
        ("cuMemAlloc", 2000, 0, ("cuMemAlloc", 0)),
        ("cuMemAlloc", 3010, 0, ("cuMemAlloc", 0)),
        ("cuMemAlloc", 3020, 0, ("cuMemAlloc_v2", 0)),
        ("cuMemAlloc", -1, 3, ("cuMemAlloc_v2", 0)),  # it has no stream
        ("cuMemAlloc", 1990, 0, ("", abis.TOO_OLD)),
        ("cuMemAlloc", 0, 0, ("", abis.TOO_OLD)),
        ("cuMemAlloc_v2", 13000, 0, ("", abis.NOT_FOUND)),  # not a name, but an ABI
        ("cuMemcpy_ptds", 13000, 0, ("", abis.NOT_FOUND)),
        ("", 13000, 0, ("", abis.NOT_FOUND)),
        ("cuMemcpy", 4000, 1, ("cuMemcpy", 0)),
        ("cuMemcpy", 4000, 2, ("", abis.TOO_OLD)),  # the forms came with CUDA 7.0
        ("cuMemcpy", 7000, 2, ("cuMemcpy_ptds", 0)),
        ("cuMemcpyHtoD", 2000, 2, ("", abis.TOO_OLD)),
        ("cuMemcpyHtoD", 7000, 3, ("cuMemcpyHtoD_v2_ptds", 0)),
        ("cuLaunchKernelEx", 11060, 0, ("cuLaunchKernelEx", 0)),  # in the header only from 11.8 on
        ("cuLaunchKernelEx", 11050, 0, ("", abis.TOO_OLD)),
        ("cuStreamBeginCapture", 10000, 2, ("cuStreamBeginCapture_ptsz", 0)),
        ("cuStreamBeginCapture", 10010, 2, ("cuStreamBeginCapture_v2_ptsz", 0)),
        ("cuCtxGetDevice", 12090, 0, ("cuCtxGetDevice", 0)),
        ("cuCtxGetDevice", 13000, 0, ("cuCtxGetDevice_v2", 0)),
        ("cuGraphNodeGetParams", -1, 0, ("", abis.NOT_FOUND)),  # newer than the CUDA that the emulator is of
    ],
)
def test_a_name_and_a_version_stand_for_an_abi(name, version, flags, found):
    assert abis.symbol_of(name, version, flags) == found


@pytest.mark.parametrize("flags", [4, 7, 8, 2**32, 2**63, 2**64 - 1])
def test_unknown_flags_are_refused_and_nothing_is_written(flags):
    client = Client()
    address, status = ctypes.c_uint64(7), ctypes.c_int(-1)
    assert client.code("cuGetProcAddress_v2", b"cuInit", address, 13000, flags, status) == 1
    assert client.code("cuGetProcAddress", b"cuInit", address, 13000, flags) == 1
    assert (address.value, status.value) == (7, -1)


def test_null_is_refused():
    client = Client()
    address = ctypes.c_uint64()
    assert client.code("cuGetProcAddress_v2", 0, address, 13000, 0, 0) == 1
    assert client.code("cuGetProcAddress_v2", b"cuInit", 0, 13000, 0, 0) == 1


def test_stream_null_is_the_threads_own_in_the_forms_for_it():
    client = Client()
    client.do("cuCtxCreate_v2", ctypes.c_uint64(), 0, 0)

    def ident(symbol, stream):
        found = ctypes.c_uint64()
        client.do(symbol, stream, found)
        return found.value

    legacy, own = ident("cuStreamGetId", 1), ident("cuStreamGetId", 2)
    assert legacy != own == ident("cuStreamGetId_ptsz", 0) == ident("cuStreamGetId_ptsz", 2)
    assert legacy == ident("cuStreamGetId", 0) == ident("cuStreamGetId_ptsz", 1)
    assert client.code("cuStreamGetId_ptsz", 0, 0) == 1  # refused, after which 0 is the legacy stream again
    assert ident("cuStreamGetId", 0) == legacy


def test_a_call_inside_a_call_in_the_threads_own_stream(monkeypatch):
    """A __del__ makes a call: stream NULL has the meaning of its form, and stays what it is in the call around it."""
    client, ident, plain = Client(), ctypes.c_uint64(), ctypes.c_uint64()
    space = client.emulator._machine.space
    window = space.window

    def meanwhile(*arguments):
        client.do("cuStreamGetId_ptsz", 0, ident)
        client.do("cuStreamGetId", 0, plain)
        return window(*arguments)

    monkeypatch.setattr(space, "window", meanwhile)
    memory, size = (struct.pack("<Q", value) for value in (client.get("cuMemAllocManaged", 4096, 1), 4096))
    place, first = struct.pack("<2i", 1, 0), struct.pack("<Q", 0)
    client.do("cuMemDiscardAndPrefetchBatchAsync_ptsz", memory, size, 1, place, first, 1, 0, 0)
    own = ident.value
    client.do("cuStreamGetId", 1, ident)
    assert own != plain.value == ident.value


def test_a_copy_in_the_threads_own_stream_does_not_wait_for_a_stream_that_does_not_block():
    """In lazy mode, what a call does not have to wait for is not done when it returns."""
    client = Client("lazy")
    client.do("cuCtxCreate_v2", ctypes.c_uint64(), 0, 0)
    memory, stream, data = ctypes.c_uint64(), ctypes.c_uint64(), (ctypes.c_ubyte * 8)()
    client.do("cuMemAlloc_v2", memory, 8)
    client.do("cuMemsetD8_v2", memory.value, 1, 8)
    client.do("cuStreamCreate", stream, 0)
    client.do("cuMemsetD8Async", memory.value, 2, 8, stream.value)
    client.do("cuMemcpyDtoH_v2_ptds", data, memory.value, 8)
    assert list(data) == [1] * 8  # the thread's own stream and this one do not wait for each other
    client.do("cuMemcpyDtoH_v2", data, memory.value, 8)
    assert list(data) == [2] * 8


def test_only_forms_that_the_header_declares_exist():
    address = Client().emulator.address
    assert address("cuMemcpy_ptds") and not address("cuMemcpy_ptsz") and not address("cuMemAlloc_v2_ptsz")
    assert address("cuLaunchKernel_ptsz") == address("cuLaunchKernel_ptsz") != address("cuLaunchKernel")
    assert not address("cuNothing_ptsz") and not address("_ptsz")
