"""The emulator's virtual memory: reservations, physical memory, mappings, access."""

from __future__ import annotations

import ctypes
import gc
import itertools
import struct
import tracemalloc

import pytest

from tests.emulator.emulator_client import Client
from tests.emulator.test_ptx_linear import steps
from tests.subject import module

words, virtual = module("emulator.interface.thunks"), module("emulator.entries.memories.virtual_entries")
OUT = ctypes.c_uint64()
GRAIN = module("emulator.machine.answers").Answers().granularity


@pytest.fixture(params=["eager", "lazy", "random"])
def client(request):
    made = Client(request.param, devices=2)
    yield made
    assert not made.emulator.kept_exceptions


def properties(where=1, number=0, handles=0, kind=1):
    return virtual._PROPERTIES.pack(kind, handles, where, number, 0, 0, 0, 0)


def access(*pairs):
    return b"".join(words.ACCESS_DESC.pack(1, ordinal, flags) for ordinal, flags in pairs)


def free(client):
    client.do("cuMemGetInfo_v2", OUT, ctypes.c_uint64())
    return OUT.value


def test_a_life(client):
    assert client.get("cuMemGetAllocationGranularity", properties(), 0) == GRAIN
    before = free(client)
    base = client.get("cuMemAddressReserve", 3 * GRAIN, 0, 0, 0)
    assert base % GRAIN == 0 and client.live() == {"reservation": 1} and free(client) == before
    first, second = (client.get("cuMemCreate", GRAIN, properties(number=device), 0) for device in (0, 1))
    assert client.live() == {"reservation": 1, "physical": 2} and free(client) == before - GRAIN
    client.do("cuMemMap", base, GRAIN, 0, first, 0)
    client.do("cuMemMap", base + GRAIN, GRAIN, 0, second, 0)
    client.do("cuMemSetAccess", base, 2 * GRAIN, access((0, 3), (1, 1)), 2)
    for ordinal, flags in ((0, 3), (1, 1)):
        assert client.get("cuMemGetAccess", words.LOCATION.pack(1, ordinal), base + GRAIN + 5) == flags
    client.do("cuMemsetD8_v2", base, 7, 2 * GRAIN)
    assert client.download(base + GRAIN - 2, 4) == b"\7" * 4
    assert client.get("cuMemRetainAllocationHandle", base + 9) == first
    for _ in range(2):
        client.do("cuMemRelease", first)
    assert client.code("cuMemRelease", first) == 1
    assert client.get("cuMemRetainAllocationHandle", base) == first  # it lives as long as it is mapped
    client.do("cuMemRelease", first)
    client.do("cuMemUnmap", base, 2 * GRAIN)
    assert client.live() == {"reservation": 1, "physical": 1} and free(client) == before
    client.do("cuMemMap", base, GRAIN, 0, second, 0)
    client.do("cuMemSetAccess", base, GRAIN, access((0, 3)), 1)
    assert client.download(base, 2) == b"\7\7"  # the content is that of the memory
    client.do("cuMemUnmap", base, GRAIN)
    client.do("cuMemRelease", second)
    client.do("cuMemAddressFree", base, 3 * GRAIN)
    assert not client.live()


def test_memory_that_is_mapped_twice_has_one_content(client):
    base = client.get("cuMemAddressReserve", 2 * GRAIN, 0, 0, 0)
    memory = client.get("cuMemCreate", GRAIN, properties(), 0)
    for at in (base, base + GRAIN):
        client.do("cuMemMap", at, GRAIN, 0, memory, 0)
    client.do("cuMemSetAccess", base, 2 * GRAIN, access((0, 3)), 1)
    client.do("cuMemsetD8_v2", base, 5, 8)
    assert client.download(base + GRAIN, 8) == b"\5" * 8


def device_memory(client):
    return client.allocate(8 * GRAIN), lambda address: client.do("cuMemFree_v2", address)


def mapped_memory(client):
    base = client.get("cuMemAddressReserve", 8 * GRAIN, 0, 0, 0)
    memory = client.get("cuMemCreate", 8 * GRAIN, properties(), 0)
    client.do("cuMemMap", base, 8 * GRAIN, 0, memory, 0)
    client.do("cuMemSetAccess", base, 8 * GRAIN, access((0, 3)), 1)

    def unmap(address):
        client.do("cuMemUnmap", address, 8 * GRAIN)
        client.do("cuMemRelease", memory)
        client.do("cuMemAddressFree", address, 8 * GRAIN)

    return base, unmap


@pytest.mark.parametrize("made", [device_memory, mapped_memory])
def test_freed_memory_waits_for_no_garbage_collection(client, made):
    """Objects that refer to each other kept its marks of what was written, and all bytes that had been mapped."""
    gc.collect()
    gc.disable()
    tracemalloc.start()
    try:
        for _ in range(4):
            address, free = made(client)
            client.do("cuMemsetD8_v2", address, 7, 8)
            client.do("cuCtxSynchronize")
            free(address)
        assert tracemalloc.get_traced_memory()[0] < 4 * GRAIN
    finally:
        tracemalloc.stop()
        gc.enable()


ROWS = 512


def fill_rows(client, base, pitch):
    client.do("cuMemsetD2D8_v2", base, pitch, 7, 64, ROWS)


def copy_rows(client, base, pitch):
    """Copy to the device, and to the host, which looks for bytes that were never written."""
    for kind, target in ((2, client.allocate(64 * ROWS)), (1, ctypes.create_string_buffer(64 * ROWS))):
        host, device = (ctypes.addressof(target), 0) if kind == 1 else (0, target)
        sides = 0, 0, 2, 0, base, 0, pitch, 0, 0, kind, host, device, 0, 64
        client.do("cuMemcpy2D_v2", words.MEMCPY2D.pack(*sides, 64, ROWS))


@pytest.mark.parametrize("use", [fill_rows, copy_rows])
def test_rows_of_many_mappings_take_as_long_as_those_of_few(use):
    """Each row was looked for in all mappings."""

    def measured(mappings):
        client, size = Client(), mappings * GRAIN
        base = client.get("cuMemAddressReserve", size, 0, 0, 0)
        memory = client.get("cuMemCreate", GRAIN, properties(), 0)
        for at in range(base, base + size, GRAIN):
            client.do("cuMemMap", at, GRAIN, 0, memory, 0)
        client.do("cuMemSetAccess", base, size, access((0, 3)), 1)
        return steps(client, lambda _: use(client, base, size // ROWS))

    measured(2)
    assert measured(64) < 2 * measured(2)


def test_many_mappings_are_made_in_linear_time():
    """Each was compared with all allocations, and each reservation was looked for among all handles."""
    client = Client()
    memory = client.get("cuMemCreate", GRAIN, properties(), 0)

    def lives(count):
        bases = [client.get("cuMemAddressReserve", GRAIN, 0, 0, 0) for _ in range(count)]
        for base in bases:
            client.do("cuMemMap", base, GRAIN, 0, memory, 0)
        for base in bases:
            client.do("cuMemUnmap", base, GRAIN)
            client.do("cuMemAddressFree", base, GRAIN)

    lives(1)
    assert steps(200, lives) <= 12 * steps(20, lives)


def test_freed_memory_is_not_looked_for_in_a_list():
    client = Client()

    class Physical(dict):
        def __iter__(self):
            raise AssertionError("somebody lists all physical memory")

    client.emulator._machine.physical = Physical()
    for _ in range(2):
        client.do("cuMemRelease", client.get("cuMemCreate", GRAIN, properties(), 0))
    assert not client.emulator._machine.physical


def test_what_was_written_through_one_mapping_is_written_in_all():
    """Otherwise, a kernel that reads it would be stopped, because it seems never to have been written."""
    client = Client(strict=True)
    base = client.get("cuMemAddressReserve", 8 * GRAIN, 0, 0, 0)
    memory = client.get("cuMemCreate", 2 * GRAIN, properties(), 0)

    def map_at(place, size):
        client.do("cuMemMap", base + place * GRAIN, size * GRAIN, 0, memory, 0)
        client.do("cuMemSetAccess", base + place * GRAIN, size * GRAIN, access((0, 3)), 1)
        return base + place * GRAIN

    def read(address):
        assert client.launch(client.kernels()("step"), [address, struct.pack("<I", 1)]) == 0
        return client.code("cuCtxSynchronize")

    part, early = map_at(0, 1), map_at(1, 2)
    client.do("cuMemsetD8_v2", part, 7, GRAIN)
    client.do("cuMemUnmap", part, GRAIN)
    assert read(early) == read(map_at(3, 2)) == read(map_at(5, 1)) == 0 and not client.emulator.reports
    assert read(early + GRAIN) == 719  # the other part was not written
    assert "never written" in client.emulator.explain(719)


def test_values_in_memory_without_access_are_refused(client):
    base, stream = client.get("cuMemAddressReserve", GRAIN, 0, 0, 0), client.stream()
    client.do("cuMemMap", base, GRAIN, 0, client.get("cuMemCreate", GRAIN, properties(), 0), 0)
    for rights, codes in ((0, (1, 1)), (1, (0, 1)), (3, (0, 0))):
        client.do("cuMemSetAccess", base, GRAIN, access((0, rights)), 1)
        assert client.code("cuStreamWaitValue32_v2", stream, base, 0, 3) == codes[0]  # not (all bits are set)
        assert client.code("cuStreamWriteValue32_v2", stream, base, 0, 0) == codes[1]
    client.do("cuMemSetAccess", base, GRAIN, access((1, 1)), 1)  # only device 0 may write it
    client.do("cuCtxSetCurrent", client.get("cuDevicePrimaryCtxRetain", 1))
    other = client.stream()
    assert client.code("cuStreamWaitValue32_v2", other, base, 0, 3) == 0
    assert client.code("cuStreamWriteValue32_v2", other, base, 0, 0) == 1
    assert "devices may only read" in client.emulator.explain(1)
    client.do("cuCtxSynchronize")


@pytest.mark.parametrize("bits", [40, 48, 57, 62, 63])
def test_large_alignments(client, bits):
    """A reservation is aligned, or refused; what comes after it is usable."""
    made = []
    for _ in range(2):
        code = client.code("cuMemAddressReserve", OUT, GRAIN, 1 << bits, 0, 0)
        assert code == (0 if bits < 50 else 2)
        made += [OUT.value] if not code else []
    assert len({*made}) == len(made) and not any(base % (1 << bits) or base >> 57 for base in made)
    assert client.download(client.upload(b"1234"), 4) == b"1234"


def test_what_is_refused(client):
    base = client.get("cuMemAddressReserve", 2 * GRAIN, 0, 0, 0)
    memory = client.get("cuMemCreate", GRAIN, properties(), 0)
    for call in (
        ("cuMemAddressReserve", OUT, GRAIN + 1, 0, 0, 0),
        ("cuMemAddressReserve", OUT, 0, 0, 0, 0),
        ("cuMemAddressReserve", OUT, GRAIN, 3, 0, 0),
        ("cuMemAddressReserve", OUT, GRAIN, 0, 0, 1),
        ("cuMemCreate", OUT, 1000, properties(), 0),
        ("cuMemCreate", OUT, 0, properties(), 0),
        ("cuMemCreate", OUT, GRAIN, properties(where=4), 0),
        ("cuMemCreate", OUT, GRAIN, properties(kind=2), 0),
        ("cuMemMap", base, GRAIN, 0, 5, 0),
        ("cuMemMap", base, GRAIN, GRAIN, memory, 0),
        ("cuMemMap", base, 2 * GRAIN, 0, memory, 0),
        ("cuMemMap", base + 4096, GRAIN, 0, memory, 0),
        ("cuMemMap", base + 2 * GRAIN, GRAIN, 0, memory, 0),
        ("cuMemUnmap", base, GRAIN),
        ("cuMemSetAccess", base, GRAIN, access((0, 3)), 1),
        ("cuMemGetAccess", OUT, words.LOCATION.pack(1, 0), base),
        ("cuMemRetainAllocationHandle", OUT, base),
        ("cuMemAddressFree", base, GRAIN),
        ("cuMemAddressFree", base + GRAIN, GRAIN),
        ("cuMemsetD8_v2", base, 0, 1),
    ):
        assert client.code(*call) == 1, call
    assert client.code("cuMemAddressReserve", OUT, 1 << 60, 0, 0, 0) == 2
    for where, size in itertools.product((1, 2), (1 << 40, 1 << 62, 1 << 63, (1 << 64) - GRAIN)):
        assert client.code("cuMemCreate", OUT, size, properties(where=where), 0) == 2
    assert client.code("cuMemCreate", OUT, GRAIN, properties(handles=2), 0) == 801
    assert client.code("cuMemCreate", OUT, GRAIN, properties(number=7), 0) == 101
    client.do("cuMemMap", base, GRAIN, 0, memory, 0)
    assert client.code("cuMemMap", base, GRAIN, 0, memory, 0) == 1
    assert "mapped there already" in client.emulator.explain(1)
    assert client.code("cuMemAddressFree", base, 2 * GRAIN) == 1
    assert "still mapped" in client.emulator.explain(1)
    assert client.code("cuMemUnmap", base, 2 * GRAIN) == 1
    assert client.code("cuMemFree_v2", base) == 1
    assert client.code("cuMemsetD8_v2", base, 0, 1) == 1
    assert "no device was given access" in client.emulator.explain(1)
    client.do("cuMemSetAccess", base, GRAIN, access((0, 3)), 1)
    assert client.code("cuMemsetD8_v2", base + GRAIN - 1, 0, 2) == 1
    assert "where no memory is mapped" in client.emulator.explain(1)


def test_attributes_of_its_pointers(client):
    base = client.get("cuMemAddressReserve", 2 * GRAIN, 0, 0, 0)
    memory = client.get("cuMemCreate", GRAIN, properties(number=1), 0)
    client.do("cuMemMap", base, GRAIN, 0, memory, 0)
    client.do("cuMemSetAccess", base, GRAIN, access((0, 1)), 1)
    ask = lambda number, at: client.get("cuPointerGetAttribute", number, at)  # noqa: E731
    inside = base + 100
    wanted = {1: 0, 2: 2, 3: inside, 8: 0, 9: 1, 11: base, 12: 2 * GRAIN, 13: 1, 16: 1, 17: 0, 18: GRAIN, 19: base}
    assert {number: ask(number, inside) for number in wanted} == wanted
    empty = base + GRAIN
    assert [ask(number, empty) for number in (11, 12, 13)] == [base, 2 * GRAIN, 0]
    assert client.code("cuPointerGetAttribute", OUT, 2, empty) == 1
    assert client.code("cuPointerGetAttribute", OUT, 13, base + 2 * GRAIN) == 1
    OUT.value = 0
    prop = ctypes.create_string_buffer(32)
    client.do("cuMemGetAllocationPropertiesFromHandle", ctypes.addressof(prop), memory)
    assert prop.raw == properties(number=1)


def test_host_memory_can_be_mapped(client):
    base = client.get("cuMemAddressReserve", GRAIN, 0, 0, 0)
    before = free(client)
    memory = client.get("cuMemCreate", GRAIN, properties(where=2), 0)
    client.do("cuMemMap", base, GRAIN, 0, memory, 0)
    client.do("cuMemSetAccess", base, GRAIN, words.ACCESS_DESC.pack(2, 0, 3) + access((0, 3)), 2)
    client.do("cuMemsetD8_v2", base, 5, 8)
    assert client.download(base, 8) == b"\5" * 8 and free(client) == before


@pytest.mark.parametrize("where, flags, code", [(1, 0, 1), (1, 3, 1), (2, 3, 0)])
def test_only_memory_of_the_host_is_a_host_side(client, where, flags, code):
    base, memory = client.get("cuMemAddressReserve", GRAIN, 0, 0, 0), client.allocate(16)
    client.do("cuMemMap", base, GRAIN, 0, client.get("cuMemCreate", GRAIN, properties(where=where), 0), 0)
    client.do("cuMemSetAccess", base, GRAIN, access((0, flags)), 1)
    row = (0, 0, 2, 0, memory, 0, 16), (0, 0, 1, base, 0, 0, 16)
    calls = [
        ("cuMemcpyHtoD_v2", memory, base, 16),
        ("cuMemcpyDtoH_v2", base, memory, 16),
        ("cuMemcpy2D_v2", words.MEMCPY2D.pack(*row[0], *row[1], 16, 1)),
        ("cuMemcpy2D_v2", words.MEMCPY2D.pack(*row[1], *row[0], 16, 1)),
    ]
    for call in calls:
        assert client.code(*call) == code
        assert not code or "the host cannot use it" in client.emulator.explain(1)


def test_unmapping_waits_for_no_work():
    client = Client("lazy")
    base = client.get("cuMemAddressReserve", GRAIN, 0, 0, 0)
    memory = client.get("cuMemCreate", GRAIN, properties(), 0)
    client.do("cuMemMap", base, GRAIN, 0, memory, 0)
    client.do("cuMemSetAccess", base, GRAIN, access((0, 3)), 1)
    stream = client.get("cuStreamCreate", 1)
    client.do("cuMemsetD8Async", base, 5, 8, stream)
    client.do("cuMemUnmap", base, GRAIN)
    assert client.code("cuStreamSynchronize", stream) == 700
