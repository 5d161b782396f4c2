"""Memory of every kind, pools, pointers; copies and fills of every form."""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import mmap
import os
import random
import struct
import subprocess
import sys
import tracemalloc

import pytest

from tests.emulator.emulator_client import HEAD, Client
from tests.emulator.test_ptx_linear import steps
from tests.subject import ROOT, module

words = module("emulator.interface.thunks")
OUT = ctypes.c_uint64()
HOST, DEVICE, ARRAY, UNIFIED = 1, 2, 3, 4


@pytest.fixture(params=["eager", "lazy", "random"])
def client(request):
    made = Client(request.param)
    yield made
    assert not made.emulator.kept_exceptions


# -- allocating


def test_device_memory(client):
    memory = client.allocate(100)
    assert memory % 256 == 0
    base, size = ctypes.c_uint64(), ctypes.c_uint64()
    client.do("cuMemGetAddressRange_v2", base, size, memory + 99)
    assert (base.value, size.value) == (memory, 100)
    client.do("cuMemGetAddressRange_v2", base, 0, memory)
    assert client.code("cuMemGetAddressRange_v2", base, size, memory + 100) == 500
    assert client.code("cuMemFree_v2", memory + 4) == 1
    assert "only its start" in client.emulator.explain(1)
    client.do("cuMemFree_v2", memory)
    assert client.code("cuMemFree_v2", memory) == 1
    assert "freed" in client.emulator.explain(1)
    assert client.allocate(100) != memory  # an address is not used again


def test_a_question_for_a_host_address_does_not_list_all_allocations(client, monkeypatch):
    """Copies of pageable memory ask it, and took time in proportion to the number of live allocations."""
    client.allocate(4)
    listed = []
    monkeypatch.setattr(type(client.emulator._machine.space), "live", lambda self: listed.append(self) or [])
    assert client.code("cuPointerGetAttribute", OUT, 2, ctypes.addressof(OUT)) == 1 and not listed


def test_device_memory_is_no_host_side(client):
    first, second = client.allocate(64), client.allocate(64)
    for call in (("cuMemcpyHtoD_v2", first, second, 64), ("cuMemcpyDtoH_v2", first, second, 64)):
        assert client.code(*call) == 1 and "the host cannot use it" in client.emulator.explain(1)


def test_fills_that_are_pending_need_little_memory(client):
    """Each kept a row of its target's size."""
    nbytes, stream = 1 << 24, client.stream()
    memory = client.allocate(nbytes)
    tracemalloc.start()
    try:
        for value in range(4):
            client.do("cuMemsetD32Async", memory, value, nbytes // 4, stream)
        client.do("cuStreamSynchronize", stream)
        assert tracemalloc.get_traced_memory()[1] < nbytes // 2
    finally:
        tracemalloc.stop()
    assert client.download(memory + nbytes - 8, 8) == struct.pack("2I", 3, 3)


def test_fresh_memory_is_not_zero(client):
    assert any(client.download(client.allocate(64), 64))


def test_pitched_memory(client):
    pitch = ctypes.c_uint64()
    memory = client.get("cuMemAllocPitch_v2", pitch, 100, 7, 4)
    assert pitch.value % 512 == 0 and pitch.value >= 100 and memory % 512 == 0
    size = ctypes.c_uint64()
    client.do("cuMemGetAddressRange_v2", 0, size, memory)
    assert size.value == 7 * pitch.value
    client.do("cuMemFree_v2", memory)


@pytest.mark.parametrize(
    "made, freed, wrong",
    [
        ("cuMemAlloc_v2", "cuMemFree_v2", ["cuMemFreeHost", "cuMemHostUnregister"]),
        ("cuMemAllocHost_v2", "cuMemFreeHost", ["cuMemFree_v2", "cuMemHostUnregister"]),
    ],
)
def test_memory_goes_back_the_way_it_came(client, made, freed, wrong):
    memory = client.get(made, 64)
    for name in wrong:
        assert client.code(name, memory) in (1, 713)
    if made != "cuMemAlloc_v2":
        assert client.code("cuMemFreeAsync", memory, 0) == 1
    client.do(freed, memory)
    assert not client.live()


def test_device_memory_is_freed_in_stream_order_too(client):
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    client.do("cuMemGetInfo_v2", free, total)
    before, stream, memory = free.value, client.stream(), client.allocate(64)
    client.do("cuMemsetD32Async", memory, 1, 16, stream)
    assert client.code("cuMemFreeAsync", memory + 4, stream) == 1
    client.do("cuMemFreeAsync", memory, stream)
    assert client.code("cuMemFreeAsync", memory, stream) == 1 and client.code("cuMemFree_v2", memory) == 1
    client.do("cuStreamSynchronize", stream)
    client.do("cuStreamDestroy_v2", stream)
    client.do("cuMemGetInfo_v2", free, total)
    assert not client.live() and free.value == before


def test_registered_memory_is_the_caller_s(client):
    buffer = ctypes.create_string_buffer(b"0123456789abcdef", 16)
    address = ctypes.addressof(buffer)
    client.do("cuMemHostRegister_v2", address, 16, 0)
    assert client.live() == {"memory": 1}
    assert client.code("cuMemHostRegister_v2", address + 4, 4, 0) == 712
    assert client.get("cuMemHostGetDevicePointer_v2", address, 0) == address
    target = client.allocate(16)
    client.do("cuMemcpyDtoD_v2", target, address, 16)
    client.do("cuCtxSynchronize")
    assert client.download(target, 16) == buffer.raw
    assert client.code("cuMemFreeHost", address) == 1
    assert client.code("cuMemHostUnregister", address + 4) == 713
    client.do("cuMemHostUnregister", address)
    assert client.code("cuMemHostUnregister", address) == 713
    assert buffer.raw == b"0123456789abcdef"
    assert client.code("cuMemHostRegister_v2", address, 16, 4) == 801


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells which memory exists")
def test_only_memory_that_exists_can_be_registered(client):
    size = 16 * mmap.PAGESIZE
    pages = mmap.mmap(-1, size)
    address = ctypes.addressof(ctypes.c_char.from_buffer(pages))
    for start, nbytes in ((address, 1 << 40), (0x10000, 4096), (address, -address), (address + 1, -1), (1 << 49, 4)):
        assert client.code("cuMemHostRegister_v2", start, nbytes, 0) == 1
        assert "the host does not have all of" in client.emulator.explain(1)
    client.do("cuMemHostRegister_v2", address, size, 0)
    client.do("cuMemHostUnregister", address)
    client.do("cuMemHostRegister_v2", address + 3, 7, 0)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells which memory the host can write")
@pytest.mark.parametrize("first", [0, 1])
def test_memory_that_the_host_can_only_read_is_registered_as_such(client, first):
    """The first write ended the process."""
    pages = mmap.mmap(-1, 2 * mmap.PAGESIZE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(pages))
    change = ctypes.CDLL(None).mprotect
    change.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    assert change(address + mmap.PAGESIZE, mmap.PAGESIZE, 1) == 0  # PROT_READ
    whole = address + first * mmap.PAGESIZE, (2 - first) * mmap.PAGESIZE
    assert client.code("cuMemHostRegister_v2", *whole, 0) == 1
    assert "CU_MEMHOSTREGISTER_READ_ONLY (8) is required" in client.emulator.explain(1)
    client.do("cuMemHostRegister_v2", *whole, 8)
    assert client.code("cuMemsetD8_v2", whole[0], 1, 16) == 1
    client.do("cuMemHostUnregister", whole[0])
    client.do("cuMemHostRegister_v2", address, mmap.PAGESIZE, 0)
    client.do("cuMemHostUnregister", address)


def test_attributes_of_registered_memory(client):
    buffer = ctypes.create_string_buffer(64)
    address = ctypes.addressof(buffer)
    for flags, access in ((1, 3), (9, 1)):
        client.do("cuMemHostRegister_v2", address, 64, flags)
        inside = address + 8
        wanted = {
            1: client.context,
            2: 1,
            3: inside,
            4: inside,
            8: 0,
            9: 0,
            11: address,
            12: 64,
            13: 1,
            16: access,
            17: 0,
        }
        assert {number: client.get("cuPointerGetAttribute", number, inside) for number in wanted} == wanted
        assert client.get("cuMemHostGetFlags", inside) & 0xFFFFFFFF == flags | 2
        client.do("cuMemHostUnregister", address)
    assert client.code("cuPointerGetAttribute", OUT, 2, address) == 1


def test_flags_of_pinned_memory(client):
    flags = ctypes.c_uint()
    for asked in (0, 1, 4):
        memory = client.get("cuMemHostAlloc", 16, asked)
        client.do("cuMemHostGetFlags", flags, memory)
        assert flags.value == asked | 2  # memory is always mapped under unified addressing
    assert client.code("cuMemHostGetFlags", flags, client.allocate(4)) == 1
    assert client.code("cuMemHostGetDevicePointer_v2", OUT, memory, 1) == 1


# -- pools


def test_memory_in_stream_order(client):
    stream = client.stream()
    memory = client.get("cuMemAllocAsync", 16, stream)
    client.do("cuMemsetD8Async", memory, 3, 16, stream)
    back = client.pinned(bytes(16))
    client.do("cuMemcpyDtoHAsync_v2", back, memory, 16, stream)
    client.do("cuMemFreeAsync", memory, stream)
    assert client.live() == {"memory": 1, "stream": 1}  # the user has freed it, whenever the memory is released
    assert client.code("cuMemFreeAsync", memory, stream) == 1
    assert client.code("cuMemFree_v2", memory) == 1
    client.do("cuStreamSynchronize", stream)
    assert ctypes.string_at(back, 16) == b"\x03" * 16
    assert client.code("cuMemsetD8Async", memory, 3, 16, stream) == 1
    also = client.get("cuMemAllocAsync", 16, stream)
    client.do("cuMemFree_v2", also)  # allowed, and waits
    assert not client.emulator.kept_exceptions


def test_use_after_a_stream_ordered_free_in_another_stream_is_found():
    client = Client("lazy")
    first, second = client.stream(), client.stream()
    memory, back = client.get("cuMemAllocAsync", 16, first), client.pinned(bytes(16))
    client.do("cuMemcpyDtoHAsync_v2", back, memory, 16, second)  # this is not ordered before the free
    client.do("cuMemFreeAsync", memory, first)
    client.do("cuStreamSynchronize", first)
    assert client.code("cuStreamSynchronize", second) == 700
    assert "freed" in client.emulator.explain(700)


def _properties(**changes):
    values = {"type": 1, "handles": 0, "where": 1, "ordinal": 0, "security": 0, "maximum": 0, "usage": 0, **changes}
    return words.POOL_PROPS.pack(*values.values())


def test_pools(client):
    default = client.get("cuDeviceGetDefaultMemPool", 0)
    assert client.get("cuDeviceGetMemPool", 0) == default
    assert client.code("cuMemPoolDestroy", default) == 1
    pool = client.get("cuMemPoolCreate", _properties(maximum=100))
    assert client.live() == {"pool": 1}
    memory = client.get("cuMemAllocFromPoolAsync", 60, pool, 0)
    assert client.get("cuPointerGetAttribute", 17, memory) == pool
    assert client.code("cuMemAllocFromPoolAsync", OUT, 60, pool, 0) == 2
    used = ctypes.c_uint64()
    client.do("cuMemPoolGetAttribute", pool, 7, used)
    assert used.value == 60
    client.do("cuMemFreeAsync", memory, 0)
    client.do("cuCtxSynchronize")
    client.do("cuMemPoolGetAttribute", pool, 7, used)
    assert used.value == 0
    client.do("cuMemPoolGetAttribute", pool, 8, used)
    assert used.value == 60
    client.do("cuMemPoolSetAttribute", pool, 8, ctypes.c_uint64(0))
    client.do("cuMemPoolGetAttribute", pool, 8, used)
    assert used.value == 0
    client.do("cuDeviceSetMemPool", 0, pool)
    assert client.get("cuDeviceGetMemPool", 0) == pool
    memory = client.get("cuMemAllocAsync", 16, 0)
    assert client.get("cuPointerGetAttribute", 17, memory) == pool
    client.do("cuMemPoolTrimTo", pool, 0)
    client.do("cuMemPoolDestroy", pool)
    assert client.get("cuDeviceGetMemPool", 0) == default
    client.do("cuMemFreeAsync", memory, 0)
    client.do("cuCtxSynchronize")
    assert not client.live()


def test_attributes_and_access_of_pools(client):
    pool = client.get("cuDeviceGetDefaultMemPool", 0)
    threshold, flag, flags = ctypes.c_uint64(1 << 40), ctypes.c_int(0), ctypes.c_int()
    client.do("cuMemPoolSetAttribute", pool, 4, threshold)
    threshold.value = 0
    client.do("cuMemPoolGetAttribute", pool, 4, threshold)
    assert threshold.value == 1 << 40
    client.do("cuMemPoolSetAttribute", pool, 2, flag)
    client.do("cuMemPoolGetAttribute", pool, 2, flags)
    assert flags.value == 0
    client.do("cuMemPoolGetAccess", flags, pool, words.LOCATION.pack(1, 0))
    assert flags.value == 3
    assert client.code("cuMemPoolSetAccess", pool, words.ACCESS_DESC.pack(1, 0, 0), 1) == 1  # its own device
    assert client.code("cuMemPoolSetAttribute", pool, 5, threshold) == 1
    assert client.code("cuMemPoolCreate", OUT, _properties(handles=2)) == 801
    assert client.code("cuMemPoolCreate", OUT, _properties(where=4)) == 1  # the node of the current thread


@pytest.mark.parametrize("place", [35, 87])
def test_the_reserved_bytes_of_the_properties_of_a_pool_must_be_0(client, place):
    properties = bytearray(_properties())
    properties[place] = 1
    assert client.code("cuMemPoolCreate", OUT, bytes(properties)) == 1
    assert "must be 0" in client.emulator.explain(1)
    graph, node = client.get("cuGraphCreate", 0), ctypes.create_string_buffer(bytes(properties), 120)
    ctypes.c_uint64.from_buffer(node, 104).value = 64  # its size
    assert client.code("cuGraphAddMemAllocNode", OUT, graph, 0, 0, node) == 1
    node[place] = 0
    client.do("cuGraphAddMemAllocNode", OUT, graph, 0, 0, node)


def test_a_pool_keeps_memory_until_it_is_trimmed_or_a_call_waits(client):
    mib = 1 << 20
    free, total = ctypes.c_uint64(), ctypes.c_uint64()

    def numbers(pool):
        found = []
        for number in (5, 6, 7, 8):  # reserved now and at most, used now and at most
            client.do("cuMemPoolGetAttribute", pool, number, OUT)
            found.append(OUT.value)
        client.do("cuMemGetInfo_v2", free, total)
        return [*found, total.value - free.value]

    pool = client.get("cuMemPoolCreate", _properties())
    first, second = (client.get("cuMemAllocFromPoolAsync", 3 * mib, pool, 0) for _ in range(2))
    assert numbers(pool) == [6 * mib, 6 * mib, 6 * mib, 6 * mib, 6 * mib]
    client.do("cuMemPoolSetAttribute", pool, 4, ctypes.c_uint64(5 * mib))
    client.do("cuMemFreeAsync", first, 0)
    client.do("cuStreamSynchronize", 0)
    assert numbers(pool) == [4 * mib, 6 * mib, 3 * mib, 6 * mib, 4 * mib]
    client.do("cuMemFreeAsync", second, 0)
    client.do("cuCtxSynchronize")
    assert numbers(pool) == [4 * mib, 6 * mib, 0, 6 * mib, 4 * mib]
    for number in (6, 8):
        client.do("cuMemPoolSetAttribute", pool, number, ctypes.c_uint64(0))
    assert numbers(pool) == [4 * mib, 4 * mib, 0, 0, 4 * mib]
    client.do("cuMemPoolTrimTo", pool, 3 * mib)
    assert numbers(pool)[0] == 2 * mib
    # the memory that a pool keeps is given back where another allocation needs it
    big = client.get("cuMemAlloc_v2", total.value)
    assert numbers(pool)[0] == 0
    assert client.code("cuMemAllocFromPoolAsync", OUT, 1, pool, 0) == 2
    client.do("cuMemFree_v2", big)
    last = client.get("cuMemAllocFromPoolAsync", 1, pool, 0)
    client.do("cuMemPoolDestroy", pool)
    assert client.download(last, 1) and client.live() == {"memory": 1}
    client.do("cuMemFree_v2", last)
    client.do("cuMemGetInfo_v2", free, total)
    assert free.value == total.value and not client.live()


@pytest.mark.parametrize("kind, where", [(1, (2, 0)), (1, (3, 0)), (2, (0, 0)), (2, (1, 0)), (2, (2, 7))])
def test_pools_of_host_and_managed_memory(client, kind, where):
    location = words.LOCATION.pack(*where)
    default = client.get("cuMemGetDefaultMemPool", location, kind)
    assert client.get("cuMemGetMemPool", location, kind) == default
    pool = client.get("cuMemPoolCreate", words.POOL_PROPS.pack(kind, 0, *where, 0, 0, 0))
    client.do("cuMemSetMemPool", location, kind, pool)
    assert client.get("cuMemGetMemPool", location, kind) == pool
    memory = client.get("cuMemAllocFromPoolAsync", 64, pool, 0)
    assert client.get("cuPointerGetAttribute", 2, memory) == (1 if kind == 1 else 2)
    assert client.get("cuPointerGetAttribute", 8, memory) == (kind == 2)
    assert client.get("cuPointerGetAttribute", 16, memory) == (3 if kind == 2 else 0)  # at first only the host's
    client.do("cuMemPoolSetAccess", pool, words.ACCESS_DESC.pack(1, 0, 3), 1)
    assert client.get("cuPointerGetAttribute", 16, memory) == 3
    client.do("cuMemPoolDestroy", pool)
    assert client.get("cuMemGetMemPool", location, kind) == default
    client.do("cuMemFreeAsync", memory, 0)
    client.do("cuCtxSynchronize")
    assert not client.live()
    for bad in ((1, (0, 0)), (2, (4, 0)), (3, (2, 0))):
        assert client.code("cuMemGetDefaultMemPool", OUT, words.LOCATION.pack(*bad[1]), bad[0]) == 1
    assert client.code("cuMemGetDefaultMemPool", OUT, words.LOCATION.pack(3, 9), 1) == 101
    assert client.code("cuMemSetMemPool", words.LOCATION.pack(1, 0), 1, default) == 1


# -- attributes of pointers


def test_attributes_of_pointers(client):
    attribute = lambda number, address: client.get("cuPointerGetAttribute", number, address)  # noqa: E731
    device, pinned, managed = client.allocate(64), client.pinned(bytes(64)), client.get("cuMemAllocManaged", 64, 1)
    ordered = client.get("cuMemAllocAsync", 64, 0)
    for address, kind in ((device, 2), (pinned, 1), (managed, 2), (ordered, 2)):
        inside = address + 10
        assert attribute(2, inside) == kind
        assert attribute(3, inside) == inside
        assert attribute(8, inside) == (address == managed)
        assert attribute(9, inside) == 0
        assert (attribute(11, inside), attribute(12, inside)) == (address, 64)
        assert attribute(1, inside) == (0 if address == ordered else client.context)
    assert client.code("cuPointerGetAttribute", OUT, 4, device) == 1  # it has no host pointer
    assert attribute(4, pinned) == pinned and attribute(4, managed) == managed
    assert len({attribute(7, address) for address in (device, pinned, managed, ordered)}) == 4
    assert client.code("cuPointerGetAttribute", OUT, 99, device) == 1
    client.do("cuPointerSetAttribute", ctypes.c_int(1), 6, device)
    assert attribute(6, device) == 1


def test_plain_host_memory_is_not_known(client):
    buffer = ctypes.create_string_buffer(16)
    address = ctypes.addressof(buffer)
    for number in (1, 2, 3, 7, 8, 9):
        assert client.code("cuPointerGetAttribute", OUT, number, address) == 1
    numbers = (ctypes.c_int * 3)(2, 9, 12)
    kind, ordinal, size = ctypes.c_int(5), ctypes.c_int(5), ctypes.c_uint64(5)
    places = (ctypes.c_uint64 * 3)(*[ctypes.addressof(place) for place in (kind, ordinal, size)])
    client.do("cuPointerGetAttributes", 3, numbers, places, address)  # this is not an error here
    assert (kind.value, ordinal.value, size.value) == (0, -2, 0)
    client.do("cuPointerGetAttributes", 3, numbers, places, client.allocate(7))
    assert (kind.value, ordinal.value, size.value) == (2, 0, 7)


def test_advice_about_managed_memory(client):
    managed, value = client.get("cuMemAllocManaged", 64, 1), ctypes.c_int(5)
    client.do("cuMemAdvise", managed, 64, 1, 0)
    client.do("cuMemRangeGetAttribute", value, 4, 1, managed, 64)
    assert value.value == 1
    client.do("cuMemAdvise", managed, 64, 3, -1)
    client.do("cuMemRangeGetAttribute", value, 4, 2, managed, 64)
    assert value.value == -1
    client.do("cuMemPrefetchAsync", managed, 64, 0, 0)
    assert client.code("cuMemPrefetchAsync", client.allocate(64), 64, 0, 0) == 1
    assert client.code("cuMemPrefetchAsync", managed, 65, 0, 0) == 1
    assert client.code("cuMemAdvise", managed, 64, 9, 0) == 1
    client.do("cuStreamAttachMemAsync", client.get("cuStreamCreate", 0), managed, 0, 4)
    assert client.code("cuStreamAttachMemAsync", 0, managed, 0, 4) == 1  # which is no specific stream


def test_prefetches_of_many_parts_take_linear_time():
    """Each looked for its part from the first one on."""
    client, page = Client(), 4096

    def measured(count):
        managed = client.get("cuMemAllocManaged", count * page, 1)
        parts = [(managed + at * page, page, at % 2 - 1) for at in range(count)]  # on the host, on the device ...
        return steps(parts, lambda _: [client.do("cuMemPrefetchAsync", *part, 0) for part in parts])

    measured(4)
    assert measured(400) <= 12 * measured(40)


def test_parts_of_managed_memory_with_the_same_facts_are_one(client):
    count, page = 16, 4096
    managed = client.get("cuMemAllocManaged", count * page, 1)
    holding = client.emulator._machine.space.find(managed).context
    for part in (*range(0, count, 2), *range(1, count, 2)):
        client.do("cuMemPrefetchAsync", managed + part * page, page, 0, 0)
    client.do("cuMemAdvise", managed + page, page, 1, 0), client.do("cuMemAdvise", managed + page, page, 2, 0)
    assert holding.pages.first == [0, count]
    value = ctypes.c_int()
    client.do("cuMemAdvise", managed + page, page, 1, 0)
    for first, size, wanted in ((0, 1, 0), (1, 1, 1), (2, 1, 0), (0, 2, 0), (1, 2, 0), (0, count, 0)):
        client.do("cuMemRangeGetAttribute", value, 4, 1, managed + first * page, size * page)
        assert value.value == wanted, (first, size)


def test_memory_of_malloc_in_a_kernel_is_for_kernels_only(client):
    """Programming Guide, "Dynamic Global Memory Allocation": it cannot be used in any runtime or driver API call."""
    kernel = """.extern .func (.param .b64 r) malloc(.param .b64 n);
    .visible .entry heap(.param .u64 at) {
        .reg .b64 %d<3>; .param .b64 n; .param .b64 r;
        ld.param.u64 %d1, [at]; st.param.b64 [n], 512; call (r), malloc, (n); ld.param.b64 %d2, [r];
        st.global.u64 [%d1], %d2; ret;
    }"""
    at, other = client.upload(bytes(8)), client.allocate(512)
    stream, host = client.stream(), ctypes.create_string_buffer(512)
    client.launch(client.get("cuModuleGetFunction", client.load(HEAD + kernel), b"heap"), [at])
    (memory,) = struct.unpack("<Q", client.download(at, 8))
    client.emulator._machine.answers.attributes[14] = 16  # CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT
    texture = struct.pack("<i4x QiIQ", 2, memory, 0x20, 1, 64).ljust(144, b"\0")
    for name, *arguments in (
        ("cuMemcpyDtoH_v2", host, memory, 8),
        ("cuMemcpyDtoD_v2", other, memory, 8),
        ("cuMemcpyAsync", memory, other, 8, stream),
        ("cuMemsetD8_v2", memory, 1, 8),
        ("cuStreamWriteValue32_v2", stream, memory, 1, 0),
        ("cuStreamWaitValue32_v2", stream, memory, 1, 0),
        ("cuMemGetAddressRange_v2", OUT, 0, memory),
        ("cuPointerGetAttribute", OUT, 2, memory),
        ("cuTexObjectCreate", OUT, texture, bytes(104), 0),
        ("cuMemHostUnregister", memory),
        ("cuMemFree_v2", memory),
    ):
        assert client.code(name, *arguments) == 1, name
        assert "only kernels can use what malloc allocated" in client.emulator.explain(1), name
    assert _batch(client, [(other, memory, 8)], stream) == 1


def test_only_one_of_two_threads_frees_memory(client):
    """A free waits for work; meanwhile, another thread may free the same memory."""
    for name, memory in (("cuMemFree_v2", client.allocate(16)), ("cuMemFreeHost", client.pinned(bytes(16)))):
        free = lambda name=name, memory=memory: client.code(name, memory)  # noqa: E731
        assert sorted(client.during_a_kernel(free, free)) == [0, 1]
        assert "freed" in client.emulator.explain(1)


@pytest.mark.skipif(not module("emulator.machine.sharing").is_supported(), reason="files in memory are of Linux")
def test_two_threads_that_share_memory_get_the_same_handle(client):
    """Moving memory to a file waits for kernels; meanwhile, another thread may share the same memory, or free it."""
    memory = client.upload(b"abcd")
    handles = [ctypes.create_string_buffer(64) for _ in range(3)]
    share = [lambda handle=handle: client.code("cuIpcGetMemHandle", handle, memory) for handle in handles[:2]]
    assert client.during_a_kernel(*share) == [0, 0]
    assert handles[0].raw == handles[1].raw != bytes(64)
    pool = client.get("cuMemPoolCreate", words.POOL_PROPS.pack(1, 1, 1, 0, 0, 0, 0))
    other = client.get("cuMemAllocFromPoolAsync", 16, pool, 2)
    client.do("cuStreamSynchronize", 2)
    assert client.during_a_kernel(
        lambda: client.code("cuMemPoolExportPointer", handles[2], other), lambda: client.code("cuMemFree_v2", other)
    ) == [1, 0]
    assert "freed" in client.emulator.explain(1)


@pytest.mark.skipif(not module("emulator.machine.sharing").is_supported(), reason="files in memory are of Linux")
def test_descriptors_of_pools_and_of_physical_memory_are_told_apart(client):
    pool, descriptor = client.get("cuMemPoolCreate", words.POOL_PROPS.pack(1, 1, 1, 0, 0, 0, 0)), ctypes.c_int()
    client.do("cuMemPoolExportToShareableHandle", descriptor, pool, 1, 0)
    assert client.code("cuMemImportFromShareableHandle", OUT, descriptor.value, 1) == 400
    client.do("cuMemPoolImportFromShareableHandle", OUT, descriptor.value, 1, 0)
    os.close(descriptor.value)
    physical = client.get("cuMemCreate", 2 << 20, struct.pack("<4i", 1, 1, 1, 0).ljust(32, b"\0"), 0)
    client.do("cuMemExportToShareableHandle", descriptor, physical, 1, 0)
    assert client.code("cuMemPoolImportFromShareableHandle", OUT, descriptor.value, 1, 0) == 400
    client.do("cuMemImportFromShareableHandle", OUT, descriptor.value, 1)
    os.close(descriptor.value)


_OWNER = """
import ctypes, sys
from tests.emulator.emulator_client import Client
client, handle = Client(), ctypes.create_string_buffer(64)
client.do("cuIpcGetMemHandle", handle, client.allocate(16))
print(handle.raw.hex(), flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def opened(client):
    """Open memory of another process, and yield its address."""
    owner = subprocess.Popen(
        [sys.executable, "-c", f"import sys; sys.path[:] = {sys.path!r}\n{_OWNER}"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with owner:
        handle = (ctypes.c_char * 64).from_buffer_copy(bytes.fromhex(owner.stdout.readline()))
        by_value = type("Handle", (ctypes.Structure,), {"_fields_": [("bytes", ctypes.c_char * 64)]}).from_buffer(
            handle
        )
        function = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, type(by_value), ctypes.c_uint)
        assert function(client.emulator.address("cuIpcOpenMemHandle_v2"))(ctypes.addressof(OUT), by_value, 1) == 0
        yield OUT.value
        owner.stdin.close()


@pytest.mark.skipif(not module("emulator.machine.sharing").is_supported(), reason="files in memory are of Linux")
def test_only_one_of_two_threads_closes_memory_of_another_process(client):
    with opened(client) as memory:
        close = lambda: client.code("cuIpcCloseMemHandle", memory)  # noqa: E731
        assert sorted(client.during_a_kernel(close, close)) == [0, 1]


@pytest.mark.skipif(not module("emulator.machine.sharing").is_supported(), reason="files in memory are of Linux")
def test_memory_of_another_process_is_mapped_for_one_context():
    """Others need access to its device, as for memory of this process."""
    client, access = Client(devices=2), ctypes.c_int()
    home, other = client.context, client.get("cuDevicePrimaryCtxRetain", 1)

    def seen_by(context):
        client.do("cuCtxSetCurrent", context)
        client.do("cuPointerGetAttribute", access, 16, memory)  # CU_POINTER_ATTRIBUTE_ACCESS_FLAGS
        return access.value

    with opened(client) as memory:
        assert (seen_by(home), seen_by(other)) == (3, 0)
        client.do("cuCtxEnablePeerAccess", home, 0)
        assert seen_by(other) == 3
        client.do("cuCtxSetCurrent", home)
        client.do("cuIpcCloseMemHandle", memory)


# -- one row


def _memory(client, kind, content):
    """Make memory of a kind with `content`; return (address, function that reads it, object that keeps it alive)."""
    if kind == "device":
        address = client.upload(content)
        client.do("cuCtxSynchronize")
        return address, lambda: client.download(address, len(content)), None
    if kind == "pageable":
        buffer = ctypes.create_string_buffer(content, len(content))
        return ctypes.addressof(buffer), lambda: buffer.raw, buffer
    address = client.pinned(content) if kind == "pinned" else client.get("cuMemAllocManaged", len(content), 1)
    ctypes.memmove(address, content, len(content))
    return address, lambda: ctypes.string_at(address, len(content)), None


KINDS = ("device", "pinned", "managed", "pageable")


@pytest.mark.parametrize("waits", [True, False])
@pytest.mark.parametrize("target_kind, source_kind", list(itertools.product(KINDS, repeat=2)))
def test_unified_copies_between_all_kinds(client, target_kind, source_kind, waits):
    source, _, kept_source = _memory(client, source_kind, b"0123456789")
    target, read, kept_target = _memory(client, target_kind, bytes(10))
    if waits:
        client.do("cuMemcpy", target + 2, source + 1, 5)
    else:
        client.do("cuMemcpyAsync", target + 2, source + 1, 5, client.stream())
    client.do("cuCtxSynchronize")
    assert read() == b"\0\0" + b"12345" + b"\0\0\0"
    del kept_source, kept_target


def test_a_pageable_source_is_read_at_the_call_and_a_pinned_one_is_not():
    client = Client("lazy")
    stream, memory = client.stream(), client.allocate(8)
    pageable = ctypes.create_string_buffer(b"then", 4)
    pinned = client.pinned(b"then")
    client.do("cuMemcpyHtoDAsync_v2", memory, pageable, 4, stream)
    client.do("cuMemcpyHtoDAsync_v2", memory + 4, pinned, 4, stream)
    ctypes.memmove(pageable, b"now!", 4)
    ctypes.memmove(pinned, b"now!", 4)
    client.do("cuStreamSynchronize", stream)
    assert client.download(memory, 8) == b"thennow!"


@pytest.mark.parametrize("how", ["bytes", "rows", "batch", "array"])
def test_a_pageable_target_is_written_before_the_call_returns(client, how):
    """CUDA Driver API, "API synchronization behavior": it may be freed then."""
    stream, target, source = client.stream(), ctypes.create_string_buffer(b"old.", 4), client.allocate(4)
    place = ctypes.addressof(target)
    client.do("cuMemsetD8Async", source, 65, 4, stream)
    if how == "bytes":
        client.do("cuMemcpyDtoHAsync_v2", target, source, 4, stream)
    elif how == "rows":
        sides = (0, 0, DEVICE, 0, source, 0, 2), (0, 0, HOST, place, 0, 0, 2)
        client.do("cuMemcpy2DAsync_v2", words.MEMCPY2D.pack(*sides[0], *sides[1], 2, 2), stream)
    elif how == "batch":
        assert _batch(client, [(place, source, 4)], stream) == 0
    else:
        array = client.get("cuArrayCreate_v2", struct.pack("<QQ iI", 4, 1, 1, 1))
        sides = (0, 0, DEVICE, 0, source, 0, 4), (0, 0, ARRAY, 0, 0, array, 0)
        client.do("cuMemcpy2DAsync_v2", words.MEMCPY2D.pack(*sides[0], *sides[1], 4, 1), stream)
        client.do("cuMemcpyAtoHAsync_v2", target, array, 0, 4, stream)
    assert target.raw == b"AAAA"


def test_a_copy_between_hosts_reads_a_pageable_source_in_stream_order(client):
    """It waits for the earlier work of its stream, whose results it must copy."""
    stream, first, second = client.stream(), ctypes.create_string_buffer(4), ctypes.create_string_buffer(4)
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: ctypes.memmove(first, b"new.", 4))
    client.do("cuLaunchHostFunc", stream, ctypes.cast(function, ctypes.c_void_p).value, 0)
    client.do("cuMemcpyAsync", second, first, 4, stream)
    assert second.raw == b"new."


def test_forms_without_a_stream_wait_unless_both_sides_are_on_the_device():
    client = Client("lazy")
    source, target, pinned = client.upload(b"abcd"), client.upload(b"...."), client.pinned(b"efgh")
    client.do("cuCtxSynchronize")
    client.do("cuMemcpyDtoD_v2", target, source, 4)
    assert client.code("cuStreamQuery", 0) == 600
    client.do("cuMemcpyHtoD_v2", target, pinned, 4)  # from pinned memory it waits
    assert client.code("cuStreamQuery", 0) == 0
    client.do("cuMemcpyDtoH_v2", pinned, source, 4)
    assert ctypes.string_at(pinned, 4) == b"abcd"
    client.do("cuMemsetD8_v2", target, 1, 4)
    assert client.code("cuStreamQuery", 0) == 600
    client.do("cuMemsetD8_v2", pinned, 1, 4)  # the host could read it
    assert ctypes.string_at(pinned, 4) == b"\x01" * 4


@pytest.mark.parametrize("mode", ["lazy", "random"])
def test_managed_memory_is_settled_when_a_call_without_a_stream_returns(mode):
    client = Client(mode)
    managed, memory = client.get("cuMemAllocManaged", 4, 1), client.allocate(4)
    ctypes.memmove(managed, b"sent", 4)
    client.do("cuMemcpyHtoD_v2", memory, managed, 4)
    ctypes.memmove(managed, b"....", 4)
    assert client.download(memory, 4) == b"sent"
    client.do("cuMemsetD8_v2", managed, 65, 4)
    assert ctypes.string_at(managed, 4) == b"AAAA"
    client.do("cuMemcpy", managed, memory, 4)
    assert ctypes.string_at(managed, 4) == b"sent"


def test_an_upload_from_pageable_memory_may_still_be_under_way():
    """The data is only staged when the call returns; a non-blocking stream does not wait for it, as documented."""
    client = Client("lazy")
    memory, stream, back = client.allocate(4), client.stream(), client.pinned(bytes(4))
    client.do("cuMemcpyHtoD_v2", memory, b"data", 4)
    client.do("cuMemcpyDtoHAsync_v2", back, memory, 4, stream)
    client.do("cuStreamSynchronize", stream)
    assert ctypes.string_at(back, 4) != b"data"


def test_a_device_address_where_a_host_pointer_belongs_is_refused(client):
    memory = client.allocate(16)
    freed = client.allocate(16)
    client.do("cuMemFree_v2", freed)
    buffer = ctypes.create_string_buffer(16)
    assert client.code("cuMemcpyHtoD_v2", memory, freed, 16) == 1
    assert "cannot be a host pointer" in client.emulator.explain(1)
    assert client.code("cuMemcpyDtoH_v2", buffer, ctypes.addressof(buffer), 16) == 1
    assert "is it a host address" in client.emulator.explain(1)
    assert client.code("cuMemcpyHtoD_v2", memory, 0, 16) == 1


@pytest.mark.parametrize("place", [(0, 0, 0), (16, 0, 0), (0, 1, 0), (0, 0, 1)])
@pytest.mark.parametrize("kind", [HOST, DEVICE, UNIFIED])
@pytest.mark.parametrize("is_source", [True, False])
def test_null_is_refused_with_an_offset_too(client, kind, is_source, place):
    """It was taken for pageable memory at a small address, and ended the process."""
    x, y, z = place
    memory = client.allocate(4096)
    sides = [(x, y, z, 0, kind, 0, 0, 0, 0, 64, 4), (0, 0, 0, 0, DEVICE, 0, memory, 0, 0, 64, 4)]
    source, target = sides if is_source else sides[::-1]
    box = words.MEMCPY3D.pack(*source, *target, 16, 2, 2)
    calls = [("cuMemcpy3D_v2", box), ("cuMemcpy3DAsync_v2", box, client.stream())]
    if not z:
        sides = [(x, y, kind, 0, 0, 0, 64), (0, 0, DEVICE, 0, memory, 0, 64)]
        source, target = sides if is_source else sides[::-1]
        calls.append(("cuMemcpy2D_v2", words.MEMCPY2D.pack(*source, *target, 16, 2)))
    for call in calls:
        assert client.code(*call) == 1
        assert "NULL" in client.emulator.explain(1)


@pytest.mark.parametrize("member", [8, 19], ids=["reserved0", "reserved1"])
def test_the_reserved_members_of_a_box_must_be_null(client, member):
    """A C program has them if it does not clear the structure. Those of CUDA_MEMCPY3D_PEER are contexts."""
    memory = client.allocate(64)
    side = [0, 0, 0, 0, DEVICE, 0, memory, 0, 0, 16, 1]
    values = [*side, *side, 16, 1, 1]
    values[member] = client.context
    box = words.MEMCPY3D.pack(*values)
    for call in (("cuMemcpy3D_v2", box), ("cuMemcpy3DAsync_v2", box, 0)):
        assert client.code(*call) == 1
        assert "must be NULL" in client.emulator.explain(1)
    graph = client.get("cuGraphCreate", 0)
    assert client.code("cuGraphAddMemcpyNode", OUT, graph, 0, 0, box, client.context) == 1
    client.do("cuMemcpy3DPeer", box)
    client.do("cuMemcpy3DPeerAsync", box, 0)


def test_copies_between_devices():
    client = Client(devices=2)
    second = client.get("cuDevicePrimaryCtxRetain", 1)
    here = client.upload(b"over there")
    client.do("cuCtxPushCurrent_v2", second)
    there = client.allocate(10)
    client.do("cuCtxPopCurrent_v2", OUT)
    client.do("cuMemcpyPeer", there, second, here, client.context, 10)
    client.do("cuMemcpyPeerAsync", there, second, here, client.context, 4, client.stream())
    client.do("cuCtxSynchronize")
    assert client.download(there, 10) == b"over there"
    assert client.code("cuMemcpyPeer", there, 77, here, client.context, 10) == 201
    sides = [
        (0, 0, 0, 0, DEVICE, 0, address, 0, context, 10, 1)
        for address, context in ((here, client.context), (there, 77))
    ]
    block = words.MEMCPY3D.pack(*sides[0], *sides[1], 10, 1, 1)
    assert client.code("cuMemcpy3DPeer", block) == client.code("cuMemcpy3DPeerAsync", block, 0) == 201


@pytest.mark.parametrize("mode", [("eager", 0), ("lazy", 0), ("random", 1), ("random", 2)])
def test_a_copy_between_devices_comes_after_all_work_of_both_and_before_what_follows(mode):
    client = Client(*mode, devices=2)
    second = client.get("cuDevicePrimaryCtxRetain", 1)
    here = client.upload(b"1111")
    client.do("cuCtxPushCurrent_v2", second)
    there, source, stream = client.allocate(4), client.pinned(b"2222"), client.stream()
    client.do("cuMemcpyHtoDAsync_v2", there, source, 4, stream)
    client.do("cuCtxPopCurrent_v2", OUT)
    client.do("cuMemcpyPeer", here, client.context, there, second, 4)
    client.do("cuCtxPushCurrent_v2", second)
    client.do("cuMemsetD8Async", there, 0x33, 4, stream)
    client.do("cuStreamSynchronize", stream)
    client.do("cuCtxPopCurrent_v2", OUT)
    assert client.download(here, 4) == b"2222" and client.download(there, 4) == b"3333"


# -- rectangles and boxes


def _side(kind, address, pitch=0, x=0, y=0, z=None, rows=0):
    place = (address, 0, 0) if kind == HOST else (0, address, 0)
    return (x, y, kind, *place, pitch) if z is None else (x, y, z, 0, kind, *place, 0, pitch, rows)


def _model(target, source, extent, target_at, source_at):
    """Copy a box between byte strings: *_at is (x, y, z, pitch, rows)."""
    result = bytearray(target)
    (width, height, depth), (tx, ty, tz, tp, tr), (sx, sy, sz, sp, sr) = extent, target_at, source_at
    for z, y in itertools.product(range(depth), range(height)):
        at, whence = ((tz + z) * tr + ty + y) * tp + tx, ((sz + z) * sr + sy + y) * sp + sx
        result[at : at + width] = source[whence : whence + width]
    return bytes(result)


@pytest.mark.parametrize("seed", range(12))
def test_boxes_of_any_shape(client, seed):
    chance = random.Random(seed)
    extent = [chance.randint(1, 5) for _ in range(3)]
    places = []
    for _ in range(2):
        at = [chance.randint(0, 3) for _ in range(3)]
        pitch, rows = at[0] + extent[0] + chance.randint(0, 3), at[1] + extent[1] + chance.randint(0, 3)
        places.append((*at, pitch, rows))
    size = [(at[2] + extent[2]) * at[3] * at[4] for at in places]
    contents = [bytes(chance.randrange(256) for _ in range(nbytes)) for nbytes in size]
    kinds = [chance.choice(KINDS) for _ in range(2)]
    made = [_memory(client, kind, content) for kind, content in zip(kinds, contents)]
    flavours = [
        UNIFIED if chance.random() < 0.3 else HOST if kind in ("pinned", "pageable") else DEVICE for kind in kinds
    ]
    (target, read, _), (source, _, _) = made
    sides = [
        _side(UNIFIED if flavour == UNIFIED else flavour, address, at[3], at[0], at[1], at[2], at[4])
        for flavour, (address, _, _), at in zip(flavours, made, places)
    ]
    block = words.MEMCPY3D.pack(*sides[1], *sides[0], *extent)
    name = chance.choice(["cuMemcpy3D_v2", "cuMemcpy3DAsync_v2", "cuMemcpy3DPeer", "cuMemcpy3DPeerAsync"])
    client.do(name, block, *([client.stream()] if "Async" in name else []))
    client.do("cuCtxSynchronize")
    assert read() == _model(contents[0], contents[1], extent, *places)


@pytest.mark.parametrize("name", ["cuMemcpy2D_v2", "cuMemcpy2DUnaligned_v2", "cuMemcpy2DAsync_v2"])
def test_rectangles(client, name):
    content = bytes(range(60))
    source = client.upload(content)
    target = ctypes.create_string_buffer(b"." * 40, 40)
    block = words.MEMCPY2D.pack(
        *_side(DEVICE, source, 12, 2, 1), *_side(HOST, ctypes.addressof(target), 10, 1, 1), 5, 3
    )
    client.do("cuCtxSynchronize")
    client.do(name, block, *([client.stream()] if "Async" in name else []))
    client.do("cuCtxSynchronize")
    assert target.raw == _model(b"." * 40, content, (5, 3, 1), (1, 1, 0, 10, 4), (2, 1, 0, 12, 5))


@pytest.mark.parametrize(
    "change, code",
    [
        ({}, 0),
        ({"pitch": 4}, 1),
        ({"height": 5}, 1),
        ({"kind": ARRAY}, 400),
        ({"kind": 9}, 1),
        ({"height": 0}, 0),
        ({"width": 0}, 0),
        ({"x": 6}, 1),
        ({"pitch": 0, "height": 1}, 0),
        ({"pitch": 0}, 1),
        ({"pitch": 4, "height": 1}, 1),
        ({"pitch": 1 << 31}, 1),
    ],
)
def test_rectangles_that_do_not_fit(client, change, code):
    values = {"pitch": 10, "x": 0, "width": 5, "height": 4, "kind": DEVICE, **change}
    source, target = client.upload(bytes(40)), client.allocate(40)
    block = words.MEMCPY2D.pack(
        *_side(DEVICE, source, 10),
        *_side(values["kind"], target, values["pitch"], values["x"]),
        values["width"],
        values["height"],
    )
    assert client.code("cuMemcpy2D_v2", block) == code
    assert client.code("cuMemcpy2DAsync_v2", block, 0) == code


# source x and y, target x and y, extent, pitch: copies between parts of one memory of 60 bytes
@pytest.mark.parametrize(
    "places, extent, pitch, code",
    [
        ((0, 0, 1, 0), (4, 1), 12, 1),
        ((4, 0, 0, 0), (5, 1), 12, 1),
        ((0, 0, 4, 0), (4, 1), 12, 0),
        ((4, 0, 0, 0), (4, 1), 12, 0),
        ((1, 1, 1, 1), (4, 3), 12, 0),  # onto itself
        ((0, 0, 6, 0), (6, 5), 12, 0),  # two columns side by side
        ((0, 0, 5, 0), (6, 5), 12, 1),
        ((0, 0, 0, 1), (12, 3), 12, 1),
        ((0, 0, 0, 2), (12, 2), 12, 0),
        ((0, 0, 4, 1), (6, 2), 12, 1),
        ((0, 0, 8, 1), (4, 2), 12, 0),
    ],
)
@pytest.mark.parametrize("kind", ["device", "pinned", "pageable", "array"])
def test_the_sides_of_a_copy_may_not_overlap(client, kind, places, extent, pitch, code):
    """A driver copies in parallel, so the result would be undefined; only a copy of all rows onto themselves is not."""
    sx, sy, tx, ty = places
    if kind == "array":
        address = client.get("cuArrayCreate_v2", struct.pack("<QQ iI", 12, 5, 1, 1))
    else:
        address, _, kept = _memory(client, kind, bytes(60))
    number, place = {
        "device": (DEVICE, (0, address, 0)), "array": (ARRAY, (0, 0, address)),
    }.get(kind, (HOST, (address, 0, 0)))  # fmt: skip
    sides = [(x, y, number, *place, pitch) for x, y in ((sx, sy), (tx, ty))]
    block = words.MEMCPY2D.pack(*sides[0], *sides[1], *extent)
    client.do("cuCtxSynchronize")
    assert client.code("cuMemcpy2D_v2", block) == code
    assert client.code("cuMemcpy2DAsync_v2", block, client.stream()) == code
    if code:
        assert "of a copy overlap: copy to other memory" in client.emulator.explain(1)
    if kind == "device" and extent[1] == 1:
        assert client.code("cuMemcpyDtoD_v2", address + tx, address + sx, extent[0]) == code
        stream = client.stream()
        client.do("cuStreamBeginCapture_v2", stream, 2)
        assert client.code("cuMemcpyAsync", address + tx, address + sx, extent[0], stream) == code
        client.code("cuStreamEndCapture", stream, OUT)
    client.do("cuCtxSynchronize")


@pytest.mark.parametrize("how", ["inside", "pageable", "batch"])
def test_a_copy_of_many_rows_needs_little_memory(client, how):
    """Each row took some hundred bytes: while the sides were compared, and while a pageable source was staged."""
    rows, stream = 10_000, client.stream()
    memory, content = client.upload(b"abcd" * rows), ctypes.create_string_buffer(b"xyzw" * rows)
    source = (0, 0, HOST, ctypes.addressof(content), 0, 0, 4) if how == "pageable" else (0, 0, DEVICE, 0, memory, 0, 4)
    block = words.MEMCPY2D.pack(*source, 2, 0, DEVICE, 0, memory, 0, 4, 2, rows)
    operand = struct.Struct("<i4x QQQ 2i")
    sides = operand.pack(1, memory, 4, rows, 0, 0) + operand.pack(1, memory + 2, 4, rows, 0, 0)
    client.do("cuCtxSynchronize")
    tracemalloc.start()
    try:
        if how == "batch":
            client.do("cuMemcpy3DBatchAsync_v2", 1, sides + struct.pack("<3Q 2I", 2, rows, 1, 1, 0), 0, stream)
        else:
            client.do("cuMemcpy2DAsync_v2", block, stream)
        assert tracemalloc.get_traced_memory()[1] < 100 * rows
    finally:
        tracemalloc.stop()
    client.do("cuStreamSynchronize", stream)
    assert client.download(memory, 4 * rows) == (b"abxy" if how == "pageable" else b"abab") * rows


# -- fills


@pytest.mark.parametrize("bits", [8, 16, 32])
@pytest.mark.parametrize("suffix", ["_v2", "Async"])
def test_fills(client, bits, suffix):
    width, value = bits // 8, 0xA1B2C3D4 & (1 << bits) - 1
    element = value.to_bytes(width, "little")
    memory, stream = client.upload(bytes(64)), [client.stream()] * (suffix == "Async")
    client.do("cuCtxSynchronize")
    client.do(f"cuMemsetD{bits}{suffix}", memory + width, value, 3, *stream)
    client.do(f"cuMemsetD2D{bits}{suffix}", memory + 32, 12, value, 2, 2, *stream)
    client.do("cuCtxSynchronize")
    expected = bytearray(64)
    expected[width : 4 * width] = element * 3
    for row in (32, 44):
        expected[row : row + 2 * width] = element * 2
    assert client.download(memory, 64) == bytes(expected)
    if width > 1:
        assert client.code(f"cuMemsetD{bits}_v2", memory + 1, 0, 1) == 1  # not aligned
    assert client.code(f"cuMemsetD{bits}_v2", memory, 0, 64 // width + 1) == 1
    assert client.code(f"cuMemsetD2D{bits}_v2", memory, width, 0, 2, 2) == 1  # rows overlap


def test_a_value_wider_than_the_element_is_cut(client):
    memory = client.upload(bytes(4))
    client.do("cuMemsetD8_v2", memory, 0x1FF, 1)
    assert client.download(memory, 1) == b"\xff"


def test_large_copies(client):
    content = struct.pack("<Q", 0x0123456789ABCDEF) * (1 << 17)
    assert client.download(client.upload(content), len(content)) == content


def test_a_copy_of_bytes_has_no_pitch(client):
    """The largest pitch of a device does not limit how many bytes can be copied, in a graph either."""
    client.emulator._machine.answers.attributes[11] = 100  # CU_DEVICE_ATTRIBUTE_MAX_PITCH
    source, target, stream = client.upload(b"x" * 200), client.upload(bytes(200)), client.stream()
    client.do("cuCtxSynchronize")
    client.do("cuStreamBeginCapture_v2", stream, 2)
    client.do("cuMemcpyAsync", target, source, 200, stream)
    client.do("cuStreamEndCapture", stream, OUT)
    executable = client.get("cuGraphInstantiateWithFlags", OUT.value, 0)
    client.do("cuGraphLaunch", executable, stream)
    client.do("cuStreamSynchronize", stream)
    assert client.download(target, 200) == b"x" * 200
    block = words.MEMCPY2D.pack(*_side(DEVICE, source, 101), *_side(DEVICE, target, 100), 100, 1)
    assert client.code("cuMemcpy2D_v2", block) == 1


def test_an_event_for_other_processes_has_no_timing(client):
    assert client.code("cuEventCreate", OUT, 4) == 1
    event = client.get("cuEventCreate", 6)
    assert client.code("cuIpcGetEventHandle", bytes(64), event) == 0
    plain = client.get("cuEventCreate", 2)
    assert client.code("cuIpcGetEventHandle", bytes(64), plain) == 1
    for each in (event, plain):
        client.do("cuEventDestroy_v2", each)


# -- batches


def _batch(client, pairs, stream, order=1, name="cuMemcpyBatchAsync_v2"):
    count = len(pairs)
    targets, sources, sizes = (struct.pack(f"<{count}Q", *column) for column in zip(*pairs))
    attributes = struct.pack("<i 2i 2i I", order, 0, 0, 0, 0, 0)
    failed = () if "_v2" in name else (0,)
    return client.code(name, targets, sources, sizes, count, attributes, struct.pack("<Q", 0), 1, *failed, stream)


@pytest.mark.parametrize("name", ["cuMemcpyBatchAsync_v2", "cuMemcpyBatchAsync"])
def test_copies_in_a_batch(client, name):
    stream = client.stream()
    sources = [client.upload(bytes([number]) * 16) for number in range(4)]
    targets = [client.allocate(16) for _ in range(4)]
    client.do("cuCtxSynchronize")
    pairs = [(target, source, 16) for target, source in zip(targets, sources)]
    assert _batch(client, pairs, stream, name=name) == 0
    client.do("cuStreamSynchronize", stream)
    assert [client.download(target, 16) for target in targets] == [bytes([number]) * 16 for number in range(4)]
    for bad in ([(targets[0], sources[0], 17)], [(targets[0], sources[0], 0)], [*pairs, (1 << 50, sources[0], 16)]):
        assert _batch(client, bad, stream, name=name) == 1
    assert _batch(client, pairs, stream, order=0, name=name) == 1
    assert _batch(client, pairs, stream, order=4, name=name) == 1
    for legacy in (0, 1):
        assert _batch(client, pairs, legacy, name=name) == 1
    for dependent in (
        [(targets[0], sources[0], 16), (targets[1], targets[0], 16)],
        [(targets[0], sources[0], 16), (targets[0] + 8, sources[1], 8)],
        [(targets[0], targets[0] + 8, 8), (targets[0] + 4, sources[1], 8)],
    ):
        assert _batch(client, dependent, stream, name=name) == 1
        assert "overlap in the same batch" in client.emulator.explain(1)
    client.do("cuStreamBeginCapture_v2", stream, 2)
    assert _batch(client, pairs, stream, name=name) == 900
    client.do("cuStreamEndCapture", stream, ctypes.c_uint64())  # it was not broken


def test_a_batch_does_not_write_memory_that_devices_may_only_read(client):
    buffer, source, stream = ctypes.create_string_buffer(b"." * 64, 64), client.upload(b"x" * 64), client.stream()
    client.do("cuCtxSynchronize")
    client.do("cuMemHostRegister_v2", buffer, 64, 8)
    assert client.code("cuMemcpyAsync", buffer, source, 64, stream) == 1
    assert _batch(client, [(ctypes.addressof(buffer), source, 64)], stream) == 1
    assert "devices may only read" in client.emulator.explain(1)
    operand = struct.Struct("<i4x QQQ 2i")
    sides = operand.pack(1, source, 8, 8, 0, 0) + operand.pack(1, ctypes.addressof(buffer), 8, 8, 0, 0)
    assert client.code("cuMemcpy3DBatchAsync_v2", 1, sides + struct.pack("<3Q 2I", 8, 8, 1, 1, 0), 0, stream) == 1
    client.do("cuStreamSynchronize", stream)
    assert buffer.raw == b"." * 64
    client.do("cuMemHostUnregister", buffer)


def test_batches_in_the_stream_of_the_thread(client):
    """In the forms for it, stream NULL is not the legacy stream."""
    source, target = client.upload(b"x" * 16), client.allocate(16)
    client.do("cuCtxSynchronize")
    for name in ("cuMemcpyBatchAsync_v2", "cuMemcpyBatchAsync"):
        assert _batch(client, [(target, source, 16)], 0, name=f"{name}_ptsz") == 0
        assert _batch(client, [(target, source, 16)], 1, name=f"{name}_ptsz") == 1
    memory, size = struct.pack("<Q", client.get("cuMemAllocManaged", 4096, 1)), struct.pack("<Q", 4096)
    assert client.code("cuMemDiscardBatchAsync_ptsz", memory, size, 1, 0, 0) == 0
    assert client.code("cuMemDiscardBatchAsync_ptsz", memory, size, 1, 0, 1) == 1
    assert client.code("cuMemDiscardBatchAsync", memory, size, 1, 0, 0) == 1


@pytest.mark.parametrize("begin, nbytes", [(0, 8192), (10, 100), (4000, 200), (1, 8190)])
def test_every_byte_of_a_discarded_range_is_discarded(client, begin, nbytes):
    """CUDA Driver API, cuMemDiscardBatchAsync: a read from a discarded range returns an indeterminate value."""
    memory, stream = client.get("cuMemAllocManaged", 8192, 1), client.stream()
    ctypes.memset(memory, 7, 8192)
    ranges = struct.pack("<Q", memory + begin), struct.pack("<Q", nbytes)
    client.do("cuMemDiscardBatchAsync", *ranges, 1, 0, stream)
    client.do("cuStreamSynchronize", stream)
    changed = [at for at, byte in enumerate(ctypes.string_at(memory, 8192)) if byte != 7]
    assert changed == list(range(begin, begin + nbytes))


@pytest.mark.parametrize("order, wanted", [(1, b"new"), (2, b"old"), (3, b"old")])
def test_when_a_batch_reads_its_sources(order, wanted):
    """In stream order, what was written before the copies run; otherwise what is there at the call."""
    client = Client("lazy")
    stream, source, target = client.stream(), client.pinned(b"old"), client.allocate(3)
    assert _batch(client, [(target, source, 3)], stream, order) == 0
    ctypes.memmove(source, b"new", 3)
    client.do("cuStreamSynchronize", stream)
    assert client.download(target, 3) == wanted


def test_boxes_in_a_batch_may_interleave(client):
    """Two halves of a matrix; not if a row of one reaches into the other."""
    stream, source, target = client.stream(), client.upload(bytes(range(64))), client.upload(bytes(64))
    client.do("cuCtxSynchronize")
    operand = struct.Struct("<i4x QQQ 2i")

    def half(left, width):
        sides = operand.pack(1, source + left, 16, 4, 0, 0) + operand.pack(1, target + left, 16, 4, 0, 0)
        return sides + struct.pack("<3Q 2I", width, 4, 1, 1, 0)

    assert client.code("cuMemcpy3DBatchAsync_v2", 2, half(0, 9) + half(8, 8), 0, stream) == 1
    assert client.code("cuMemcpy3DBatchAsync_v2", 2, half(0, 8) + half(8, 8), 0, stream) == 0
    client.do("cuStreamSynchronize", stream)
    assert client.download(target, 64) == bytes(range(64))


def test_a_batch_does_not_read_more_indices_than_it_has_entries(client, monkeypatch):
    """Nothing may be behind them."""
    stream, source, read = client.stream(), client.upload(b"x" * 16), []
    memory = client.get("cuMemAllocManaged", 4096, 1)
    for name in ("batches", "managed_entries"):
        entries = module(f"emulator.entries.memories.{name}")
        monkeypatch.setattr(
            entries, "take", lambda at, count, *kind, take=entries.take: read.append(count) or take(at, count, *kind)
        )
    pairs = [struct.pack("<Q", word) for word in (client.allocate(16), source, 16)]
    code = client.code("cuMemcpyBatchAsync_v2", *pairs, 1, struct.pack("<6i", 1, 0, 0, 0, 0, 0), bytes(16), 2, stream)
    assert code == 1
    pairs = [struct.pack("<Q", word) for word in (memory, 4096)]
    code = client.code("cuMemPrefetchBatchAsync", *pairs, 1, struct.pack("<4i", 1, 0, 1, 0), bytes(16), 2, 0, stream)
    assert code == 1 and 2 not in read


def test_boxes_in_a_batch(client):
    stream = client.stream()
    source, target = client.upload(bytes(range(64))), client.upload(bytes(64))
    client.do("cuCtxSynchronize")
    operand = struct.Struct("<i4x QQQ 2i")

    def operation(extent, row, rows, order=1, kind=1):
        sides = operand.pack(kind, source, row, rows, 0, 0) + operand.pack(kind, target, row, rows, 0, 0)
        return sides + struct.pack("<3Q 2I", *extent, order, 0)

    assert client.code("cuMemcpy3DBatchAsync_v2", 1, operation((2, 2, 2), 4, 4), 0, stream) == 0
    client.do("cuStreamSynchronize", stream)
    wanted = bytearray(64)
    for plane, row, column in itertools.product(range(2), repeat=3):
        at = plane * 16 + row * 4 + column
        wanted[at] = at
    assert client.download(target, 64) == wanted
    for bad in (((2, 2, 2), 1, 4), ((2, 2, 2), 4, 1), ((0, 2, 2), 4, 4), ((2, 2, 9), 4, 4)):
        assert client.code("cuMemcpy3DBatchAsync_v2", 1, operation(*bad), 0, stream) == 1
    assert client.code("cuMemcpy3DBatchAsync_v2", 1, operation((2, 2, 2), 4, 4, order=0), 0, stream) == 1
    assert client.code("cuMemcpy3DBatchAsync_v2", 1, operation((2, 2, 2), 4, 4, kind=2), 0, stream) == 801
    assert client.code("cuMemcpy3DBatchAsync_v2", 0, operation((2, 2, 2), 4, 4), 0, stream) == 1


@pytest.mark.parametrize("mode", ["lazy", "random"])
def test_memory_of_a_pool_is_freed_without_a_wait(mode):
    """cuMemFree_v2 waits for the work that uses other memory, but not for that which uses memory of a pool."""
    client = Client(mode, 3)
    stream = client.stream()
    memory = client.get("cuMemAllocAsync", 16, stream)
    client.do("cuStreamSynchronize", stream)
    other = client.allocate(16)
    gate = client.pinned(bytes(4))
    for address in (other, memory):
        client.do("cuStreamWaitValue32_v2", stream, gate, 1, 1)  # until the host writes 1
        client.do("cuMemsetD8Async", address, 5, 16, stream)
        if address == other:
            ctypes.c_uint.from_address(gate).value = 1
        client.do("cuMemFree_v2", address)
        if address == other:
            client.do("cuStreamSynchronize", stream)
            ctypes.c_uint.from_address(gate).value = 0
    ctypes.c_uint.from_address(gate).value = 1
    assert client.code("cuStreamSynchronize", stream) == 700
    assert "freed" in client.emulator.explain(700)


# -- calls of a __del__ that a garbage collection calls inside a kernel


def test_a_call_that_cannot_wait_inside_a_kernel_queues_nothing(client, monkeypatch):
    """Its caller gets an error and frees the memory: nothing may be written there later."""
    stream, kernel = client.stream(flags=0), client.kernels()("nothing")
    source, other = client.upload(b"1" * 64), client.allocate(64)
    array = client.get("cuArrayCreate_v2", struct.pack("2N 2I", 64, 0, 1, 1))
    client.do("cuMemsetD8_v2", other, 2, 64)
    page, pinned = ctypes.create_string_buffer(b"." * 64, 64), client.pinned(b"." * 64)
    host = ctypes.addressof(page)
    rows = words.MEMCPY2D.pack(*_side(DEVICE, source, 8, 0, 0), *_side(HOST, host, 8, 0, 0), 8, 8)
    box = words.MEMCPY3D.pack(*_side(DEVICE, source, 8, 0, 0, 0, 8), *_side(HOST, host, 8, 0, 0, 0, 8), 8, 8, 1)
    calls = [
        ("cuMemcpyDtoH_v2", host, source, 64),
        ("cuMemcpyDtoHAsync_v2", host, source, 64, stream),
        ("cuMemcpyAsync", host, source, 64, stream),
        ("cuMemcpy", pinned, source, 64),
        ("cuMemcpyHtoD_v2", other, pinned, 64),
        ("cuMemcpyHtoA_v2", array, 0, pinned, 64),
        ("cuMemcpyAtoH_v2", host, array, 0, 64),
        ("cuMemcpyAtoHAsync_v2", host, array, 0, 64, stream),
        ("cuMemcpy2D_v2", rows),
        ("cuMemcpy2DAsync_v2", rows, stream),
        ("cuMemcpy3D_v2", box),
        ("cuMemcpy3DAsync_v2", box, stream),
        ("cuMemcpyPeer", other, client.context, source, client.context, 64),
        ("cuMemsetD8_v2", pinned, 3, 64),
        ("cuMemsetD2D8_v2", pinned, 8, 3, 8, 8),
    ]
    codes = []
    queues, entry = client.emulator._machine.queues, module("emulator.ptx.ptx_program").Entry
    run = entry.run

    def call_and_run(self, *arguments, **options):
        if not codes:
            before = [len(each.queue) for each in queues._busy]
            codes.extend((client.code(*call), call[0]) for call in calls)
            codes.append((_batch(client, [(host, source, 64)], stream), "a batch"))
            codes.append((_batch(client, [(other, host, 64)], stream), "a batch from pageable memory"))
            assert [len(each.queue) for each in queues._busy] == before
        return run(self, *arguments, **options)

    monkeypatch.setattr(entry, "run", call_and_run)
    assert client.launch(kernel, [], stream=stream) == 0
    client.do("cuCtxSynchronize")
    assert [each for each in codes if each[0] != 800] == [] and len(codes) == len(calls) + 2
    assert "do not wait in __del__" in client.emulator.explain(800)
    assert page.raw == ctypes.string_at(pinned, 64) == b"." * 64
    assert client.download(other, 64) == b"\2" * 64
