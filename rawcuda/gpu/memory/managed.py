"""Managed memory: advice about its use, prefetches and discards.

What it is   the functions behind the methods of ManagedMemory, such as advise(), prefetch() and discard().
What not     it is not necessary for a correct result, because the driver moves managed memory to where it is used.
Source       CUDA Driver API, "Unified Addressing": cuMemAdvise, cuMemPrefetchAsync, cuMemRangeGetAttribute
Read next    memory.py
"""

from __future__ import annotations

import ctypes
from ctypes import byref

from ...arguments import as_choice, as_int, as_list
from ...driver import as_argument
from ...errors import SymbolNotFound, a_kind, unsupported, worded
from ...headers import cuda_h
from ...protocols.description import Bytes
from ...protocols.device_memory import gpu
from ..core import locations
from ..core.context import count
from ..core.stream_arguments import LEGACY, PER_THREAD, home_of, keep_ours, queue_of, settled, work_handle

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from ...gpu.devices.device import Device
    from ...gpu.memory.memory import Memory
    from ..core.context import PrimaryContext
    from ..core.locations import Location

    Run = tuple[int, int, Any]  # an address, a size, and a Location or None

__all__ = [
    "accessed_by",
    "advise",
    "attributes",
    "discard",
    "discard_batch",
    "prefetch",
    "prefetch_batch",
    "replace",
]

_DEVICE, _HOST = 1, 2  # CU_MEM_LOCATION_TYPE_DEVICE, HOST
_CPU, _INVALID = -1, -2  # CU_DEVICE_CPU, CU_DEVICE_INVALID
_ADVICE = {  # CUmem_advise, and whether it needs a location
    "set_read_mostly": (1, False),
    "unset_read_mostly": (2, False),
    "set_preferred_location": (3, True),
    "unset_preferred_location": (4, False),
    "set_accessed_by": (5, True),
    "unset_accessed_by": (6, True),
}
_READ_MOSTLY, _ACCESSED_BY = 1, 3  # CUmem_range_attribute
_OLD_LOCATIONS = 2, 4  # the preferred location, and that of the last prefetch, as devices
_NEW_LOCATIONS = 5, 6, 7, 8  # the same as a type and an id each; from CUDA 13.0 on


def _range(memory: Any, offset: object, nbytes: object) -> tuple[int, int]:
    """Return the address and the size of a part of managed memory."""
    memory.ptr  # raises Closed
    if memory.kind != "managed":
        raise ValueError(
            f"{memory!r} does not move: advice, prefetches and discards are for managed memory, "
            "Device.allocate(nbytes, kind='managed')"
        )
    begin = as_int("offset", offset)
    if nbytes is None:
        size = memory.nbytes - begin
    else:
        size = as_int("nbytes", nbytes)
    if not 0 <= begin <= memory.nbytes:
        raise ValueError(f"offset={worded(begin)} is not in {memory!r}: give 0 to {memory.nbytes}")
    if not 0 <= size <= memory.nbytes - begin:
        raise ValueError(
            f"nbytes={worded(size)} from offset={worded(begin)} on are not a part of {memory!r}, which has "
            f"{memory.nbytes} bytes"
        )
    return memory.ptr + begin, size


def _check_concurrent(where: Location) -> None:
    """Check that the device of a location can use managed memory at the same time as the host."""
    if where.kind == _DEVICE:
        primary = locations.device_from(where.number)._primary
        locations.require(primary, "CONCURRENT_MANAGED_ACCESS", "managed memory that follows advice and prefetches")


def advise(memory: Memory, advice: str, location: object, offset: object, nbytes: object) -> None:
    """Tell the driver how managed memory will be used; see ManagedMemory.advise.

    calls   cuMemAdvise_v2, cuMemAdvise
    """
    number, needs = _ADVICE[as_choice("advice", advice, _ADVICE)]
    begin, size = _range(memory, offset, nbytes)
    if needs and location is None:
        raise ValueError(f"advice {advice!r} needs a location: a Device, 'host' or 'numa:0'")
    if not needs and location is not None:
        raise ValueError(f"advice {advice!r} takes no location: leave {worded(location)} out")
    if needs:
        where = locations.location_from(location)
    else:
        where = locations.Location(_HOST)
    if advice.endswith("accessed_by") and where.kind not in (_DEVICE, _HOST):
        raise ValueError(f"advice {advice!r} is for a Device or 'host', and not for a node: {where.text()!r}")
    _check_concurrent(where)
    primary = memory._primary
    if not size:
        return
    if primary.driver.has("cuMemAdvise_v2"):
        primary.calls.cuMemAdvise_v2(as_argument(begin), as_argument(size), ctypes.c_int(number), where.struct())
    else:
        device = ctypes.c_int(where.device())
        primary.calls.cuMemAdvise(as_argument(begin), as_argument(size), ctypes.c_int(number), device)


def prefetch(memory: Memory, location: object, stream: object, offset: object, nbytes: object) -> None:
    """Move managed memory to where it will be used, in the order of a stream; see ManagedMemory.prefetch."""
    stream = settled(stream)  # (whose code may close the memory)
    queue = queue_of(stream)
    begin, size = _range(memory, offset, nbytes)
    where = locations.location_from(location)
    _check_concurrent(where)
    home_of(stream, memory._primary)  # raises ValueError before anything is queued, which keep_ours() would do later
    _prefetch([(begin, size, where)], memory._primary, queue, stream)
    keep_ours(memory._primary, stream, memory)


def prefetch_batch(memories: Iterable[Memory], location: object, *, stream: object = None) -> None:
    """Move several runs of managed memory, in the order of a stream; nothing is moved if one of them is wrong.

    location  a Device, "host", "numa:0" or "numa:current" for all of them, or a list with one for each
    calls     cuMemPrefetchBatchAsync
    raises    TypeError, ValueError, Unsupported  as ManagedMemory.prefetch(); the message names the run
    """
    stream = settled(stream)
    queue, given = queue_of(stream), as_list("memories", memories, "Memory objects")
    ranges, primary = _several(given, location, True)
    if ranges:
        _prefetch(ranges, home_of(stream, primary), queue, stream)
        for memory in given:
            keep_ours(primary, stream, memory)


def discard(memory: Memory, location: object, stream: object, offset: object, nbytes: object) -> None:
    """Discard the content of managed memory; with a location, prefetch the pages there, without content."""
    stream = settled(stream)
    queue = queue_of(stream)
    begin, size = _range(memory, offset, nbytes)
    if location is None:
        where = None
    else:
        where = locations.location_from(location)
    if where is not None:
        _check_concurrent(where)
    home_of(stream, memory._primary)  # as in prefetch()
    _begin_to_discard((memory,), memory._primary, stream)
    _discard([(begin, size, where)], memory._primary, queue, stream)
    keep_ours(memory._primary, stream, memory)


def _begin_to_discard(memories: Iterable[Any], primary: PrimaryContext, stream: object) -> None:
    """Let a stream wait for what wrote memory last, and note it: what is written later waits for the discard."""
    for memory in memories:
        gpu.make_ready(primary, stream, memory)
        gpu.note(memory, LEGACY if stream is None else stream)


def discard_batch(memories: Iterable[Memory], location: object = None, *, stream: object) -> None:
    """Give up the content of several runs of managed memory, in the order of a stream.

    location  if given, the pages are prefetched there, without content; as for prefetch_batch()
    calls     cuMemDiscardBatchAsync, cuMemDiscardAndPrefetchBatchAsync
    raises    TypeError, ValueError, Unsupported  as ManagedMemory.discard(); the message names the run
    """
    stream = settled(stream)
    queue, given = queue_of(stream), as_list("memories", memories, "Memory objects")
    ranges, primary = _several(given, location, False)
    if ranges:
        home = home_of(stream, primary)
        if work_handle(stream) <= PER_THREAD and any([memory._primary is not home for memory in given]):
            raise ValueError("the memory is of several devices, each with its own default stream: give another stream")
        _begin_to_discard(given, home, stream)
        _discard(ranges, home, queue, stream)
        for memory in given:
            keep_ours(primary, stream, memory)


def _several(given: list[Any], location: object, is_needed: bool) -> tuple[list[Run], Any]:
    """Check several Memory objects and their locations; return the runs that have bytes, and a context."""
    ranges, primary = [], None
    if isinstance(location, (list, tuple)):
        each = location
    else:
        each = [location] * len(given)
    if len(each) != len(given):
        raise ValueError(f"{len(each)} locations for {len(given)} runs of memory: give one for each, or one for all")
    known: dict[int, Any] = {}
    if location is None and not is_needed:
        known = {id(None): None}
    for number, (memory, place) in enumerate(zip(given, each)):
        try:
            if not isinstance(memory, Bytes):
                raise TypeError(f"give a Memory, not {a_kind(memory)}")
            if id(place) not in known:
                known[id(place)] = locations.location_from(place)
                _check_concurrent(known[id(place)])
            where = known[id(place)]
            begin, size = _range(memory, 0, None)
        except Exception as error:
            error.args = (f"memory {number}: {error}", *error.args[1:])
            raise
        primary = primary or memory._primary
        if size:
            ranges.append((begin, size, where))
    return ranges, primary


def _prefetch(ranges: list[Run], primary: PrimaryContext, queue: Any, stream: object) -> None:
    """Prefetch ranges, each an address, a size and a Location: together if the driver can, else one by one.

    calls   cuMemPrefetchBatchAsync, cuMemPrefetchAsync_v2, cuMemPrefetchAsync
    """
    calls, has = primary.calls, primary.driver.has
    if len(ranges) > 1 and work_handle(stream) != LEGACY and has("cuMemPrefetchBatchAsync"):
        calls.cuMemPrefetchBatchAsync(*_arrays(ranges), *_places(ranges), ctypes.c_ulonglong(0), queue)
        return
    for begin, size, where in ranges:
        if not size:
            continue
        if has("cuMemPrefetchAsync_v2"):
            calls.cuMemPrefetchAsync_v2(as_argument(begin), as_argument(size), where.struct(), ctypes.c_uint(0), queue)
        else:
            calls.cuMemPrefetchAsync(as_argument(begin), as_argument(size), ctypes.c_int(where.device()), queue)


def _discard(ranges: list[Run], primary: PrimaryContext, queue: Any, stream: object) -> None:
    """Discard the content of ranges, each an address, a size and a Location or None.

    calls   cuMemDiscardBatchAsync, cuMemDiscardAndPrefetchBatchAsync
    """
    if work_handle(stream) == LEGACY:
        raise ValueError("stream: the legacy default stream cannot discard memory: give another stream")
    calls, none = primary.calls, ctypes.c_ulonglong(0)
    ranges = [each for each in ranges if each[1]]
    if not ranges:
        return
    try:
        if ranges[0][2] is None:
            calls.cuMemDiscardBatchAsync(*_arrays(ranges), none, queue)
        else:
            calls.cuMemDiscardAndPrefetchBatchAsync(*_arrays(ranges), *_places(ranges), none, queue)
    except SymbolNotFound as error:
        raise unsupported(
            f"discarding managed memory needs a driver of CUDA 13.0: {error}",
        ) from None


def _arrays(ranges: list[Run]) -> tuple[object, ...]:
    """Return the addresses, the sizes and the number of ranges, as arguments of a batch."""
    count = len(ranges)
    begins = (ctypes.c_uint64 * count)(*[each[0] for each in ranges])
    sizes = (ctypes.c_size_t * count)(*[each[1] for each in ranges])
    return byref(begins), byref(sizes), as_argument(count)


def _places(ranges: list[Run]) -> tuple[object, ...]:
    """Return the locations of ranges, the number of the first range of each, and how many they are."""
    firsts = [number for number, each in enumerate(ranges) if not number or each[2] is not ranges[number - 1][2]]
    count = len(firsts)
    places = (cuda_h.CUmemLocation * count)(*[ranges[number][2].struct() for number in firsts])
    return byref(places), byref((ctypes.c_size_t * count)(*firsts)), as_argument(count)


# -- the attributes of the pages


def attributes(memory: Memory, offset: object = 0, nbytes: object = None) -> dict[str, Any]:
    """Return what all pages of a part of managed memory have in common; see ManagedMemory.range_attributes.

    calls   cuMemRangeGetAttributes
    """
    begin, size = _range(memory, offset, nbytes)
    is_new = memory._primary.driver.version >= 13000
    numbers = [_READ_MOSTLY, _ACCESSED_BY, *(_NEW_LOCATIONS if is_new else _OLD_LOCATIONS)]
    answers = [(ctypes.c_int * (count() + 1 if number == _ACCESSED_BY else 1))() for number in numbers]
    for answer in answers:
        answer[:] = [0 if is_new and answer is not answers[1] else _INVALID] * len(answer)
    if size:
        many = len(numbers)
        memory._primary.calls.cuMemRangeGetAttributes(
            byref((ctypes.c_void_p * many)(*map(ctypes.addressof, answers))),
            byref((ctypes.c_size_t * many)(*map(ctypes.sizeof, answers))),
            byref((ctypes.c_int * many)(*numbers)),
            as_argument(many),
            as_argument(begin),
            as_argument(size),
        )
    [is_read_mostly], users, *places = map(list, answers)
    if is_new:
        preferred, last = ((kind, number) for [kind], [number] in (places[:2], places[2:]))
        found = [locations.location_of(kind, number if kind != _HOST else 0) for kind, number in (preferred, last)]
    else:
        found = [_old_location(number) for [number] in places]
    return {
        "read_mostly": is_read_mostly == 1,
        "preferred_location": found[0],
        "accessed_by": [_old_location(number) for number in users if number != _INVALID],
        "last_prefetch_location": found[1],
    }


def _old_location(number: int) -> Device | str | None:
    """Return the location that a device number means in attributes of drivers before CUDA 13.0."""
    if number == _CPU:
        return "host"
    if number == _INVALID:
        return None
    return locations.device_from(number)


def accessed_by(memory: Memory) -> locations.Devices:
    """Return the set of locations that access all pages, according to advice; changing the set gives advice."""
    _range(memory, 0, None)

    def read() -> list[object]:
        found: list[object] = attributes(memory)["accessed_by"]
        return found

    def change(added: list[object], removed: list[object]) -> None:
        for each in (*added, *removed):  # check all before the first call
            where = locations.location_from(each)
            if where.kind not in (_DEVICE, _HOST):
                raise ValueError(f"memory is accessed by a Device or 'host', and not by a node: {where.text()!r}")
            _check_concurrent(where)
        for each in added:  # first: if the driver refuses one, no other one has lost its access
            advise(memory, "set_accessed_by", each, 0, None)
        for each in removed:
            advise(memory, "unset_accessed_by", each, 0, None)

    return locations.Devices(read, change)


def replace(memory: Memory, advice: str, location: object) -> None:
    """Set or remove the preferred location of all pages; None removes it."""
    if location is None:
        advise(memory, f"unset_{advice}", None, 0, None)
    else:
        advise(memory, f"set_{advice}", location, 0, None)
