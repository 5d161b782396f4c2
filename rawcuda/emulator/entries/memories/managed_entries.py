"""Entry points: advice about managed memory, prefetches and discards.

What it is   a record about each page of managed memory: its preferred location, the processors that will access it,
             whether it is read mostly, and the location of its last prefetch. The queries return what all pages of a
             range have in common.
What not     a migration: managed memory never moves. The content of a discarded range is an unlikely value.
Source       CUDA Driver API, "Unified Addressing"
Read next    pools.py
"""

from __future__ import annotations

import ctypes
from bisect import bisect_left, bisect_right

from ...interface.thunks import LOCATION, Location, entry, get_int, out, put_int, read, take
from ...machine.codes import Refused
from ...machine.machine import Holding, Machine
from ...machine.queues import nothing
from ...machine.space import POISON

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

__all__: list[str] = []

_NONE, _DEVICE, _HOST, _NUMA, _CURRENT = range(5)  # CUmemLocationType
_CPU, _INVALID = -1, -2  # CU_DEVICE_CPU, CU_DEVICE_INVALID
_PAGE = 4096
_READ_MOSTLY, _PREFERRED, _ACCESSED_BY, _PREFETCHED = range(4)
_UNADVISED = (False, (_NONE, 0), frozenset(), (_NONE, 0))  # type: tuple[Any, ...]


class Pages:
    """Facts about the pages of an allocation, as the longest runs with the same facts, each with its first page."""

    __slots__ = ("first", "facts")

    def __init__(self) -> None:
        self.first = [0]
        self.facts: list[tuple[Any, ...]] = [_UNADVISED]

    def _divide(self, page: int) -> int:
        """Make a run begin at a page, and return its number."""
        index = bisect_left(self.first, page)
        if self.first[index : index + 1] != [page]:
            self.first.insert(index, page)
            self.facts.insert(index, self.facts[index - 1])
        return index

    def change(self, begin: int, end: int, which: int, make: Any) -> None:
        """Replace a fact about the pages from begin to end: make(old) returns the new one."""
        first, last = self._divide(begin), self._divide(end)
        for index in range(first, last):
            facts = list(self.facts[index])
            facts[which] = make(facts[which])
            self.facts[index] = tuple(facts)
        runs = range(first, last + 1)
        begins = [index for index in runs if not index or self.facts[index] != self.facts[index - 1]]
        self.first[first : last + 1] = [self.first[index] for index in begins]
        self.facts[first : last + 1] = [self.facts[index] for index in begins]

    def each(self, begin: int, end: int, which: int) -> Iterator[Any]:
        """Yield a fact about each run of pages from begin to end."""
        for index in range(bisect_right(self.first, begin) - 1, bisect_left(self.first, end)):
            yield self.facts[index][which]

    def common(self, begin: int, end: int, which: int) -> Any:
        """Return the fact that all pages have in common; if they differ, return that of pages without advice."""
        found = set(self.each(begin, end, which))
        if len(found) == 1:
            return found.pop()
        return _UNADVISED[which]


def _managed(machine: Machine, address: int, nbytes: int) -> tuple[Holding, Pages, int, int]:
    """Return the holding of managed memory, its pages, and the numbers of the first page of a range and of its end."""
    machine.context()
    if not nbytes:
        raise Refused(1, "a range of zero bytes: the size must be positive")
    machine.space.window(address, nbytes)
    allocation = machine.space.find(address)
    holding: Holding | None = allocation.context if allocation is not None else None
    if allocation is None or holding is None or allocation.kind != "managed":
        raise Refused(1, f"{machine.space.explain(address, nbytes)}, not managed memory")
    pages = holding.pages = holding.pages or Pages()
    begin = address - allocation.base
    return holding, pages, begin // _PAGE, -(-(begin + nbytes) // _PAGE)


def _check_concurrent(machine: Machine) -> None:
    """Refuse what only devices can do that use managed memory at the same time as the host."""
    if not machine.concurrent:
        raise Refused(101, "CONCURRENT_MANAGED_ACCESS is 0: no prefetch, no discard, and no advice about a device")


def _place(machine: Machine, kind: int, number: int) -> tuple[int, int]:
    """Check a location, and return it as it is reported."""
    if kind == _DEVICE:
        machine.device(number)
        _check_concurrent(machine)
        return kind, number
    if kind == _HOST:
        return kind, 0
    if kind == _CURRENT:
        return _NUMA, 0
    if kind != _NUMA:
        raise Refused(1, f"{kind} is not a CUmemLocationType that memory can have")
    if number:
        raise Refused(101, f"the emulated host has one NUMA node, 0, and no node {number}")
    return kind, number


def _of_device(number: int) -> tuple[int, int]:
    """Return the location that a device number means in functions of drivers before CUDA 12.2."""
    if number == _CPU:
        return (_HOST, 0)
    return (_DEVICE, number)


def _old(place: tuple[int, int]) -> int:
    """Return the number for a location in attributes of drivers before CUDA 13.0."""
    return {_DEVICE: place[1], _NONE: _INVALID}.get(place[0], _CPU)


def _prefetch(machine: Machine, address: int, nbytes: int, place: tuple[int, int], stream: int) -> None:
    _, pages, begin, end = _managed(machine, address, nbytes)
    place = _place(machine, *place)
    _check_concurrent(machine)  # of the stream's device, also if the target is the host
    machine.queues.submit(machine.stream(stream), nothing, "a prefetch")
    pages.change(begin, end, _PREFETCHED, lambda _: place)


@entry(
    "cuMemPrefetchAsync_v2(CUdeviceptr devPtr, size_t count, CUmemLocation location, unsigned int flags, CUstream "
    "hStream)",
    since=12020,
)
def prefetch(machine: Machine, address: int, nbytes: int, location: Location, flags: int, stream: int) -> None:
    """Record where a range is prefetched to."""
    if flags:
        raise Refused(1)
    _prefetch(machine, address, nbytes, (location.type, location.id), stream)


@entry("cuMemPrefetchAsync(CUdeviceptr devPtr, size_t count, CUdevice dstDevice, CUstream hStream)", since=8000)
def prefetch_v1(machine: Machine, address: int, nbytes: int, device: int, stream: int) -> None:
    """Record where a range is prefetched to; -1 is the host."""
    _prefetch(machine, address, nbytes, _of_device(device), stream)


def _advise(machine: Machine, address: int, nbytes: int, advice: int, place: tuple[int, int]) -> None:
    _, pages, begin, end = _managed(machine, address, nbytes)
    if advice in (1, 2):
        pages.change(begin, end, _READ_MOSTLY, lambda _: advice == 1)
    elif advice == 3:
        there = _place(machine, *place)
        pages.change(begin, end, _PREFERRED, lambda _: there)
    elif advice == 4:
        pages.change(begin, end, _PREFERRED, lambda _: (_NONE, 0))
    elif advice in (5, 6):
        if place[0] not in (_DEVICE, _HOST):
            raise Refused(1, f"location type {place[0]}: this advice needs a device (1) or the host (2)")
        user = frozenset((_place(machine, *place),))
        pages.change(begin, end, _ACCESSED_BY, lambda users: users | user if advice == 5 else users - user)
    else:
        raise Refused(1, f"{advice} is not a CUmem_advise")


@entry("cuMemAdvise_v2(CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUmemLocation location)", since=12020)
def advise(machine: Machine, address: int, nbytes: int, advice: int, location: Location) -> None:
    """Record advice about a range."""
    _advise(machine, address, nbytes, advice, (location.type, location.id))


@entry("cuMemAdvise(CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUdevice device)", since=8000)
def advise_v1(machine: Machine, address: int, nbytes: int, advice: int, device: int) -> None:
    """Record advice about a range; device -1 is the host."""
    _advise(machine, address, nbytes, advice, _of_device(device))


# -- queries


@entry(
    "cuMemRangeGetAttribute(void *data, size_t dataSize, CUmem_range_attribute attribute, CUdeviceptr devPtr, "
    "size_t count)",
    since=8000,
)
def range_attribute(machine: Machine, data: int, size: int, number: int, address: int, nbytes: int) -> None:
    """Write what all pages of a range have in common."""
    out(data)
    _, pages, begin, end = _managed(machine, address, nbytes)
    if number == 3:
        if not size or size % 4:
            raise Refused(1, f"dataSize {size}: an array of ints has a positive multiple of 4 bytes")
        users = frozenset.intersection(*pages.each(begin, end, _ACCESSED_BY))
        found = sorted(map(_old, users), key=lambda device: (device < 0, device))
        for index in range(size // 4):
            put_int(data + 4 * index, found[index] if index < len(found) else _INVALID)
        return
    if size != 4:
        raise Refused(1, f"dataSize {size}: attribute {number} has 4 bytes")
    preferred, prefetched = pages.common(begin, end, _PREFERRED), pages.common(begin, end, _PREFETCHED)
    answers = {
        1: int(all(pages.each(begin, end, _READ_MOSTLY))),
        2: _old(preferred),
        4: _old(prefetched),
        5: preferred[0],
        6: preferred[1],
        7: prefetched[0],
        8: prefetched[1],
    }
    if number not in answers:
        raise Refused(1, f"{number} is not a CUmem_range_attribute")
    put_int(data, answers[number])


@entry(
    "cuMemRangeGetAttributes(void **data, size_t *dataSizes, CUmem_range_attribute *attributes, size_t numAttributes, "
    "CUdeviceptr devPtr, size_t count)",
    since=8000,
)
def range_attributes(
    machine: Machine, data: int, sizes: int, attributes: int, count: int, address: int, nbytes: int
) -> None:
    """Write several attributes of a range."""
    out(data, sizes, attributes)
    if not count:
        raise Refused(1)
    for index, (target, size) in enumerate(zip(take(data, count), take(sizes, count))):
        range_attribute(machine, target, size, get_int(attributes + 4 * index), address, nbytes)


@entry("cuStreamAttachMemAsync(CUstream hStream, CUdeviceptr dptr, size_t length, unsigned int flags)", since=6000)
def attach(machine: Machine, handle: int, address: int, nbytes: int, flags: int) -> None:
    """Accept the attachment of a whole managed allocation to a stream, which has no effect."""
    stream = machine.stream(handle)
    if stream.capture is not None:
        stream.capture.invalidate()
        raise Refused(900, "memory cannot be attached to a capturing stream: end the capture first")
    machine.queues.admit(stream)
    holding = _managed(machine, address, nbytes or 1)[0]
    if flags == 4 and stream is machine.context().legacy:
        raise Refused(1, "memory cannot be attached to the legacy default stream alone: use another stream")
    if flags not in (1, 2, 4) or address != holding.allocation.base or nbytes not in (0, holding.allocation.size):
        raise Refused(1)


# -- batches


def _batch(
    machine: Machine, addresses: int, sizes: int, count: int, flags: int, stream: int
) -> list[tuple[Pages, int, int, int, int]]:
    """Check the ranges of a batch; return for each its pages, the first page and the end, its address and its size."""
    _check_concurrent(machine)
    if flags or not count:
        raise Refused(1)
    if machine.stream(stream) is machine.context().legacy:
        raise Refused(1, "a batch cannot be submitted to the legacy default stream: use another stream")
    ranges = list(zip(take(addresses, count, ctypes.c_uint64), take(sizes, count)))
    return [(*_managed(machine, address, nbytes)[1:], address, nbytes) for address, nbytes in ranges]


def _places(machine: Machine, locations: int, firsts: int, number: int, count: int) -> list[tuple[int, int]]:
    """Return the location of each entry of a batch: locations[k] is that of the entries from firsts[k] on."""
    if not 0 < number <= count:
        raise Refused(1, f"{number} locations for {count} ranges: must be at least 1, and not more than the ranges")
    starts = take(firsts, number)
    if starts[0] or starts != sorted(set(starts)) or starts[-1] >= count:
        raise Refused(1, f"prefetchLocIdxs {starts}: must be {number} increasing indices below {count}, from 0 on")
    places: list[tuple[int, int]] = []
    for index, start in enumerate(starts):
        kind, node = read(LOCATION, locations + index * LOCATION.size)
        if index + 1 < number:
            following = starts[index + 1]
        else:
            following = count
        places += [_place(machine, kind, node)] * (following - start)
    return places


@entry(
    "cuMemPrefetchBatchAsync(CUdeviceptr *dptrs, size_t *sizes, size_t count, CUmemLocation *prefetchLocs, size_t "
    "*prefetchLocIdxs, size_t numPrefetchLocs, unsigned long long flags, CUstream hStream)",
    since=13000,
)
def prefetch_batch(
    machine: Machine,
    addresses: int,
    sizes: int,
    count: int,
    locations: int,
    firsts: int,
    number: int,
    flags: int,
    stream: int,
) -> None:
    """Record where several ranges are prefetched to."""
    ranges = _batch(machine, addresses, sizes, count, flags, stream)
    places = _places(machine, locations, firsts, number, count)
    machine.queues.submit(machine.stream(stream), nothing, "a batch of prefetches")
    for (pages, begin, end, _, _), place in zip(ranges, places):
        pages.change(begin, end, _PREFETCHED, lambda _, place=place: place)


@entry(
    "cuMemDiscardBatchAsync(CUdeviceptr *dptrs, size_t *sizes, size_t count, unsigned long long flags, CUstream "
    "hStream)",
    since=13000,
)
def discard_batch(machine: Machine, addresses: int, sizes: int, count: int, flags: int, stream: int) -> None:
    """Discard the content of several ranges: a driver promises nothing about any byte of them."""
    ranges = _batch(machine, addresses, sizes, count, flags, stream)
    windows = [machine.space.window(address, nbytes) for _, _, _, address, nbytes in ranges]

    def run() -> None:
        for window in windows:
            window[:] = bytes([POISON]) * len(window)

    machine.queues.submit(machine.stream(stream), run, "a batch of discards")


@entry(
    "cuMemDiscardAndPrefetchBatchAsync(CUdeviceptr *dptrs, size_t *sizes, size_t count, CUmemLocation *prefetchLocs, "
    "size_t *prefetchLocIdxs, size_t numPrefetchLocs, unsigned long long flags, CUstream hStream)",
    since=13000,
)
def discard_and_prefetch_batch(
    machine: Machine,
    addresses: int,
    sizes: int,
    count: int,
    locations: int,
    firsts: int,
    number: int,
    flags: int,
    stream: int,
) -> None:
    """Discard the content of several ranges, and record where they are prefetched to."""
    _places(machine, locations, firsts, number, count)
    discard_batch(machine, addresses, sizes, count, flags, stream)
    prefetch_batch(machine, addresses, sizes, count, locations, firsts, number, flags, stream)
