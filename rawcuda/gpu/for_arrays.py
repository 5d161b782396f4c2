"""The part of views, exports and copies that needs a device or a driver: what protocols/device_memory.py imports.

What it is   `finish_view`, the last step of every view of device-accessible memory: it finds an address's device,
             checks a label, and waits. The other names come from lower modules, for modules that may not import those.
Source       CUDA Driver API, "Unified Addressing": cuPointerGetAttributes; "Primary Context Management"
Read next    gpu/memory/ordering.py
"""

from __future__ import annotations

import ctypes
from functools import partial
from struct import unpack

from .. import driver
from ..errors import DriverNotFound, refusal
from ..interpreter.cpython import Cell
from ..late import Late
from ..protocols.cuda_array_interface import UNORDERED
from ..protocols.description import Description, Place, place
from ..remembered import Remembered
from .copies.contiguous import copy_run, fill_run
from .core.context import ANY_CALLS, FOREIGN, context_of, some_context
from .core.points import finish_context
from .core.stream_arguments import LEGACY, NO_SYNC, PER_THREAD, handle_of, noted_form, queue_of, settled
from .devices.device import Device
from .memory.ordering import (
    check_host_work,
    contexts_of,
    device_of,
    finish,
    follow,
    follow_each,
    keep_foreign,
    make_ready,
    make_wait,
    note,
    pending_handle,
    wait_for,
    wait_on_host,
)
from .streams.stream import Stream

TYPE_CHECKING = False
if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from types import ModuleType
    from typing import Any, Callable

    from ..arrays.strided import StridedView
    from .memory.memory import Memory

    Asker = tuple[ctypes.c_uint64, ctypes.Array[ctypes.c_char], Callable[[], object]]

__all__ = [
    "Device",
    "Stream",
    "borrowed",
    "copies",
    "copy_run",
    "empty_like",
    "empty_on",
    "fill_run",
    "check_host_work",
    "check_label",
    "current_ordinal",
    "device_around",
    "device_of",
    "finish",
    "handle_of",
    "locate",
    "keep_foreign",
    "make_ready",
    "make_wait",
    "note",
    "noted_form",
    "pending_handle",
    "finish_view",
    "synchronize_device",
    "wait_on_host",
    "places_at",
    "settled",
    "wait_for",
    "wait_for_event",
]

# CUpointer_attribute
_MEMORY_TYPE, _ORDINAL, _IS_MANAGED = 2, 9, 8
_TYPE_HOST, _TYPE_DEVICE = 1, 2  # CUmemorytype


# The address to query, three words for the answer, and the prepared call; one thread uses an entry at a time.
_askers: list[Asker] = []


def _asker() -> Asker:
    words, cell = ctypes.create_string_buffer(24), Cell()
    which = (ctypes.c_int * 3)(_MEMORY_TYPE, _ORDINAL, _IS_MANAGED)
    begin = ctypes.addressof(words)
    pointers = (ctypes.c_void_p * 3)(begin, begin + 8, begin + 16)
    arguments = (
        ctypes.c_uint.from_param(3),
        ctypes.byref(which),
        ctypes.byref(pointers),
        cell,
    )
    return cell, words, partial(ANY_CALLS[False].cuPointerGetAttributes, *arguments)


def _read(answer: bytes) -> tuple[str, int] | None:
    type_, ordinal, managed = unpack("I4xI4xB7x", answer)
    if type_ not in (_TYPE_HOST, _TYPE_DEVICE):
        return None  # the driver does not know the address
    if managed:
        return "cuda_managed", ordinal
    if type_ == _TYPE_HOST:
        return ("cuda_host", 0)
    return ("cuda", ordinal)


# The driver's answer -> Places of writable and of read-only memory; device None: unknown
_places_by_answer: Remembered[bytes, tuple[Place, Place]] = Remembered(1000)


def places_at(address: int) -> tuple[Place, Place]:
    """Query where an address is, in one call; return two Places: for writable and for read-only memory.

    Their device is None if the driver does not know the address.

    calls   cuPointerGetAttributes
    """
    try:
        entry = _askers.pop()
    except IndexError:  # other threads use all of them
        entry = None
    cell, words, call = entry = entry or _asker()  # (an error would be shown below the IndexError)
    cell.value = address
    call()
    answer = words.raw
    _askers.append(entry)
    try:
        return _places_by_answer.answers[answer]
    except KeyError:
        where = _read(answer)
        return _places_by_answer.keep(
            answer, (place(where, False, "cuda_array_interface"), place(where, True, "cuda_array_interface"))
        )


def locate(address: int) -> tuple[str, int] | None:
    """Return (kind, ordinal) for an address, or None if the driver does not know it."""
    return places_at(address)[0].device  # type: ignore[return-value]


def finish_view(made: Description, stream: object) -> None:
    """Finish a view of memory that is not, or may not be, pageable host memory.

    It finds the device of an address (the CUDA Array Interface does not tell it, and DLPack gives 0 for all managed
    memory), checks a label against the driver, corrects that of managed memory, and makes the using stream wait for the
    exporting one.
    made    its `stream` is what the exporter gave: a handle, None (no wait is needed) or UNORDERED; it is replaced
    stream  the stream that will use the memory, as the user gave it
    raises  ProtocolError   the driver does not know the address, or reports another device
    """
    where, pending = made._place, made.stream
    made.stream = noted_form(stream)
    if stream is None and (pending is not None or where.protocol.startswith(("dlpack", "arrow"))):
        made.stream = LEGACY  # which the exporter has made to wait; None means that nothing is pending
    if 0 in made._shape:
        return  # no address to query, and no wait is needed
    if where.device is None:
        made._place = places_at(made._ptr)[where.readonly]
        if made._place.device is None:
            raise refusal(
                where.protocol,
                "data",
                hex(made._ptr),
                "is not an address that this driver knows; the exporter is at fault, or it uses another driver",
            )
    elif driver.is_loaded():
        found = locate(made._ptr)
        if found != where.device:
            if found is not None and found[0] == "cuda_managed" and where.device[0] in ("cuda", "cuda_managed"):
                # DLPack does not tell the ordinal of managed memory, and allocators label it as device memory
                made._place = place(found, where.readonly, where.protocol, where.unsaid)
                _follow_said(made, where.device[1] or 0, handle_of(made.stream))
            else:
                _refuse_label(made, found)
    if pending is not None:
        _wait(made, pending, handle_of(made.stream))


def _follow_said(made: Description, ordinal: int, using: int) -> None:
    """Let a default stream of a view's device wait for that of the device that DLPack says: the exporter asked that."""
    said, home = context_of(ordinal), device_of(made)
    if 0 < using <= PER_THREAD and home is not None and home is not said:
        said.hold(FOREIGN)
        follow(home, using, said, using)


def _wait(made: Any, pending: int, using: int) -> None:
    """Make the using stream wait for the stream that the exporter named."""
    if using == NO_SYNC:
        return
    if pending != UNORDERED:
        made.exporting_stream = pending
        if pending == using and (pending > PER_THREAD or made._place.device != ("cuda_host", 0)):
            return
    try:
        driver.current()
    except DriverNotFound:  # without a driver there is no CUDA work
        return
    if pending == UNORDERED:  # before version 3 the exporter does not name its stream
        for primary in contexts_of(made) or [some_context()]:
            synchronize_device(primary.ordinal)
    else:
        follow_each(contexts_of(made) or [some_context()], using, pending)


def wait_for_event(made: Description, stream: object, event: int) -> None:
    """Make the stream that will use a view wait for an event of the exporter's.

    calls   cuStreamWaitEvent
    """
    if handle_of(stream) != NO_SYNC:
        primary = device_of(made) or some_context()
        calls, queue = primary.calls, queue_of(stream)
        calls.cuStreamWaitEvent(queue, ctypes.c_void_p(event), ctypes.c_uint(0))


_UNCHECKED = frozenset(("memory", "cuda_array_interface"))  # our own; the driver has already been asked


def check_label(view: Description) -> None:
    """Check that foreign memory is on the device that its exporter names: nanobind once labelled device memory kDLCPU.

    raises  ProtocolError   the driver in use reports another device
    """
    device, protocol, address = view._place.device, view._place.protocol, view.ptr
    if device is None or protocol in _UNCHECKED or 0 in view.shape or not driver.is_loaded():
        return
    where = locate(address)
    if where != device:
        _refuse_label(view, where)


def _refuse_label(view: Description, where: tuple[str, int | None] | None) -> None:
    """Refuse a view whose label differs from what the driver says, if one of both is device memory.

    Managed memory that is labelled as device memory is usable as such.
    """
    device: Any = view._place.device
    if where is not None and (where[0], device[0]) == ("cuda_managed", "cuda"):
        return
    if (device[0] == "cuda") if where is None else "cuda" in (where[0], device[0]):
        if where is None:
            there = "memory that it does not know"
        else:
            there = f"{where[0]} {where[1]}"
        raise refusal(
            view._place.protocol,
            "device",
            f"{device[0]} {device[1]}",
            f"but the driver says of {view.ptr:#x} that it is {there}; the exporter is at fault",
        )


def device_around(ordinal: int) -> AbstractContextManager[object] | None:
    """Return a context manager that makes a device current, or None if that is not needed.

    It is not needed if no driver is in use, or if the device is the only one: then no other can be current.
    Measured on 3.11: making a Device and its context current takes 4,200 ns of the 15,500 of a view.
    """
    if not driver.is_loaded():
        return None
    if ordinal == 0 and context_of(0).is_alone:
        return None
    return Device(ordinal).current()


def synchronize_device(ordinal: int) -> bool:
    """Wait for all work on a device; return False if no driver is in use."""
    if not driver.is_loaded():
        return False
    device = Device(ordinal)
    device.context
    finish_context(device._primary, "Device.synchronize()")  # (which would also raise what functions have raised)
    return True


# -- functions for arrays on a device


def borrowed(device: Device, address: int, nbytes: int, owner: object) -> Memory:
    """Return a Memory over bytes of another owner; see Memory.borrow."""
    from .memory.memory import Memory

    return Memory.borrow(device, address, nbytes, owner=owner)


@Late
def copies() -> ModuleType:
    """Return copies/device_copy.py: the copies and fills that involve a device."""
    from .copies import device_copy

    return device_copy


def empty_on(ordinal: int, shape: object, dtype: object, kind: str = "device") -> StridedView:
    """Return a new, uninitialized array on a device, in C order."""
    from ..arrays.making import empty

    return empty(Device(ordinal), shape, dtype, kind)


def empty_like(source: StridedView, shape: object = None, dtype: object = None) -> StridedView | None:
    """Return an array in new memory of the same kind as a view's, or None for pinned memory that is not ours.

    For an empty view whose exporter named no device, it is on the current one.
    """
    if source._place.device is None:
        ordinal = current_ordinal()
    else:
        primary = device_of(source)
        if primary is None:
            return None
        ordinal = primary.ordinal
    kind = _KINDS[source.device[0]]
    return empty_on(ordinal, source.shape if shape is None else shape, dtype or source.dtype, kind)


def current_ordinal() -> int:
    """Return the ordinal of the device whose context is current in this thread; 0 if there is none.

    calls   cuCtxGetDevice
    """
    value = ctypes.c_int()
    loaded = driver.current()
    if loaded.current_context() and not loaded.raw("cuCtxGetDevice")(ctypes.byref(value)):
        return value.value
    return 0


_KINDS = {"cuda_host": "pinned", "cuda": "device", "cuda_managed": "managed"}
