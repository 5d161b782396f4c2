"""The emulated address space: allocations, windows, frees, and the text about an invalid address."""

from __future__ import annotations

import ctypes
import random
import sys
from pathlib import Path

import pytest

from tests.emulator.ptx_client import Fault, space


@pytest.fixture
def memory() -> space.Space:
    return space.Space()


def test_device_addresses_are_no_host_addresses(memory: space.Space) -> None:
    first, second = memory.allocate(100), memory.allocate(100)
    assert 2**49 <= first.base < second.base and second.base - first.base > 2**29


@pytest.mark.parametrize("alignment", [1, 16, 256, 4096])
def test_a_base_is_aligned_to_no_more_than_asked(memory: space.Space, alignment: int) -> None:
    for _ in range(3):
        base = memory.allocate(10, alignment=alignment).base
        assert base % alignment == 0 and base % (2 * alignment) != 0


def test_addresses_are_not_used_again(memory: space.Space) -> None:
    seen = set()
    for _ in range(50):
        base = memory.allocate(8).base
        memory.free(base)
        seen.add(base)
    assert len(seen) == 50


def test_find_and_window(memory: space.Space) -> None:
    made = memory.allocate(10, label="x", poison=False)
    assert memory.find(made.base) is made and memory.find(made.base + 9) is made
    assert memory.find(made.base + 10) is None and memory.find(made.base - 1) is None
    memory.window(made.base + 2, 3)[:] = b"abc"
    assert bytes(made.data) == b"\0\0abc\0\0\0\0\0"
    assert len(memory.window(made.base, 10)) == 10 and len(memory.window(made.base + 9, 0)) == 0
    for address, size in ((made.base + 5, 6), (made.base - 1, 2), (made.base + 10, 1), (0, 1), (12345, 4)):
        with pytest.raises(Fault) as caught:
            memory.window(address, size)
        assert caught.value.code == 1 and hex(address) in caught.value.report


def test_a_find_among_many(memory: space.Space) -> None:
    rng = random.Random(2)
    made = [memory.allocate(rng.randrange(1, 500)) for _ in range(200)]
    for gone in made[::3]:
        memory.free(gone.base)
    for at, each in enumerate(made):
        inside = each.base + rng.randrange(each.size)
        assert memory.find(inside) is (each if at % 3 else None)
    assert memory.live() == [each for at, each in enumerate(made) if at % 3]


def test_the_words_for_a_place_count_from_the_beginning_of_the_access() -> None:
    words = [space.position(start, 4, 16, "it") for start in (-4, -2, 0, 12, 13, 15, 16, 18)]
    assert words == [
        "4 bytes before the start of it",
        "2 bytes before the start of it",
        "0 bytes into it",
        "12 bytes into it",
        "the last 1 of 4 bytes lie past the end of it",
        "the last 3 of 4 bytes lie past the end of it",
        "0 bytes past the end of it",
        "2 bytes past the end of it",
    ]


@pytest.mark.parametrize("size", [0, -1])
def test_no_size_no_allocation(memory: space.Space, size: int) -> None:
    for call in (
        memory.allocate,
        lambda n: memory.allocate_host(n, kind="pinned"),
        lambda n: memory.register_host(4096, n),
    ):
        with pytest.raises(Fault) as caught:
            call(size)
        assert caught.value.code == 1


def test_too_much(memory: space.Space) -> None:
    for call in (memory.allocate, lambda n: memory.allocate_host(n, kind="pinned")):
        with pytest.raises(Fault) as caught:
            call(1 << 62)
        assert caught.value.code == 2
    assert not memory.live()


def test_wrong_frees(memory: space.Space) -> None:
    made = memory.allocate(64)
    for address, words in (
        (made.base + 8, "8 bytes into a 64-byte device allocation"),
        (0, "null"),
        (made.base + 64, "0 bytes past the end"),
    ):
        with pytest.raises(Fault, match=words) as caught:
            memory.free(address)
        assert caught.value.code == 1
    memory.free(made.base)
    with pytest.raises(Fault, match="that was freed"):
        memory.free(made.base)


def test_a_freed_allocation_refuses_its_old_views(memory: space.Space) -> None:
    made = memory.allocate(64)
    view, _, _ = made.typed("I")
    data = made.data
    memory.free(made.base)
    assert not made.alive
    for old in (view, data):
        with pytest.raises(ValueError, match="released"):
            old[0]


def test_an_exported_buffer_outlives_its_allocation_and_does_not_stop_the_free(memory: space.Space) -> None:
    made = memory.allocate(8)
    array = (ctypes.c_char * 8).from_buffer(made.data)
    memory.free(made.base)
    assert len(bytes(array)) == 8 and memory.find(made.base) is None


def test_fresh_memory_is_poison(memory: space.Space) -> None:
    assert bytes(memory.allocate(4).data) == bytes([space.POISON]) * 4
    assert bytes(memory.allocate_host(4, kind="pinned").data) == bytes([space.POISON]) * 4
    assert bytes(memory.allocate(4, poison=False).data) == bytes(4)
    large = memory.allocate(space.POISONED_UP_TO + 1)
    assert large.data[0] == 0 and large.data[space.POISONED_UP_TO] == 0


def test_pinned_memory_has_its_host_address(memory: space.Space) -> None:
    made = memory.allocate_host(100, kind="pinned", label="p")
    ctypes.memmove(made.base, b"hello", 5)
    assert bytes(made.data[:5]) == b"hello" and made.base < 2**47 and made.base % 4096 == 0 and made.kind == "pinned"
    memory.free(made.base)
    assert ctypes.string_at(made.base, 5) == b"hello"  # still mapped for some time: a late read does not crash
    for _ in range(space.QUARANTINE + 1):
        memory.free(memory.allocate_host(16, kind="managed").base)


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
def test_large_pinned_memory_is_given_back_when_it_is_freed(memory: space.Space) -> None:
    size, kept = space.QUARANTINED // 2, []

    def mapped() -> int:
        ranges = [line.split()[0].split("-") for line in Path("/proc/self/maps").read_text().splitlines()]
        return sum(int(end, 16) - int(begin, 16) == size for begin, end in ranges)

    before = mapped()
    for _ in range(5):
        made = memory.allocate_host(size, kind="pinned", poison=False)
        memory.free(made.base)
        kept.append(made)  # as a cycle of references does that is not collected yet
    assert mapped() - before == 2


def test_registered_memory_belongs_to_somebody_else(memory: space.Space) -> None:
    theirs = ctypes.create_string_buffer(b"0123456789")
    address = ctypes.addressof(theirs)
    made = memory.register_host(address, 10)
    memory.window(address + 3, 2)[:] = b"xy"
    assert theirs.raw[:10] == b"012xy56789" and made.kind == "pinned"
    with pytest.raises(Fault, match="registered or allocated already"):
        memory.register_host(address + 5, 10)
    memory.free(address)
    memory.register_host(address + 5, 5)


def test_typed_views_of_memory_that_is_not_aligned(memory: space.Space) -> None:
    theirs = ctypes.create_string_buffer(64)
    base = (ctypes.addressof(theirs) + 15) // 16 * 16 + 3
    made = memory.register_host(base, 20)
    view, low, length = made.typed("I")
    assert low == base + 1 and length == 16 and len(view) == 4
    view, low, length = made.typed("I", 16)
    assert low == base + 13 and length == 4
    view, low, length = made.typed("d", 8)
    assert (low - base) % 8 == 5 and length == 8
    tiny = memory.register_host(base + 20, 3)
    assert tiny.typed("Q")[2] == 0


def test_a_fault_survives_pickling_and_says_its_report() -> None:
    import pickle

    fault = pickle.loads(pickle.dumps(space.Fault(700, "where and why")))
    assert (fault.code, fault.report, str(fault)) == (700, "where and why", "where and why")
