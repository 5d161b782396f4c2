"""Events that several processes use.

What it is   `share_event`, the function behind Event.share(), and `open_event`, behind Event.from_handle().
How          the driver can only share events that were created for this. Any other event is replaced: a new one is
             recorded after it, and takes its place in the Event.
Source       CUDA Driver API, "Memory Management": cuIpcGetEventHandle, cuIpcOpenEventHandle
Read next    gpu/streams/stream.py
"""

from __future__ import annotations

import ctypes
from _thread import allocate_lock
from _weakref import ref
from ctypes import byref

from ...driver import as_argument
from ...headers import cuda_h
from ...ownership import drain, dropped, invalidate
from ..core.context import PrimaryContext
from ..core.handles import IPC_EVENT, Lifetime
from . import server
from .opening import Opened, device_with
from .shared_handles import SharedHandle, checked_timeout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from ...gpu.streams.stream import Event
    from ...ownership import Ending
    from ..core.handles import Kind

__all__ = ["Keeper", "exchange", "open_event", "open_part", "share_event"]


class Keeper:
    """An object that keeps a shared event from being destroyed; if the Event is closed, its Ending moves here."""

    __slots__ = ("ending", "__weakref__")

    if TYPE_CHECKING:
        ending: Ending


def share_event(event: Event, timeout: object, keepers: dict[object, ref[Keeper]]) -> SharedHandle:
    """Offer an event that was made for other processes; see Event.share.

    keepers  of the shared events, by their releases
    calls    cuIpcGetEventHandle
    """
    server.check_system()
    seconds = checked_timeout(timeout)
    raw = cuda_h.CUipcEventHandle()
    event._primary.calls.cuIpcGetEventHandle(byref(raw), as_argument(event.handle))
    for release, known in list(keepers.items()):
        if known() is None:
            keepers.pop(release, None)
    there = keepers.get(event._release)
    keeper = (None if there is None else there()) or Keeper()
    keepers[event._release] = ref(keeper)
    event.handle  # tested after the keeper was added; close() looks for it after it has closed
    return SharedHandle._make("event", event.device, 0, bytes(raw), [], keeper, seconds)


def exchange(event: object, other: object, slots: tuple[str, ...]) -> None:
    """Let two events exchange their handles; after an exception, each has its own."""
    mine, theirs = ([getattr(each, slot) for slot in slots] for each in (event, other))
    try:
        _set(event, slots, theirs)
        _set(other, slots, mine)
        invalidate()
    except BaseException:
        _set(event, slots, mine)
        _set(other, slots, theirs)
        raise


def _set(event: object, slots: tuple[str, ...], values: list[Any]) -> None:
    for slot, value in zip(slots, values):
        setattr(event, slot, value)


def open_event(blank: Callable[..., Event], given: object, timeout: object) -> Event:
    """Open an event of another process; see Event.from_handle.

    blank   makes the Event: blank(device, context)
    calls   cuIpcOpenEventHandle
    """
    opened = Opened(given, "event", timeout)
    try:
        opened.begin()
        device = device_with(opened.handle.device, "the event")
        device.context
        primary = device._primary
        event = blank(device, primary)
        event._own(None, opened)
        if len(opened.answer.payload) != ctypes.sizeof(cuda_h.CUipcEventHandle) or opened.answer.descriptors:
            raise ValueError(
                f"process {opened.handle.pid} sent an answer that does not describe an event: use the same version of "
                "this package in both processes"
            )
        raw = cuda_h.CUipcEventHandle.from_buffer_copy(opened.answer.payload)
        part = open_part(opened, primary, IPC_EVENT)
        primary.calls.cuIpcOpenEventHandle(byref(part), raw)
    except BaseException:
        opened.abandon()
        raise
    event._handle = part.value
    return event


def open_part(opened: Opened, primary: PrimaryContext, kind: Kind) -> Lifetime:
    """Return the C memory for one handle of the driver, which `opened` releases."""
    if dropped:
        drain()
    part = Lifetime()
    part.kind, part.primary, part.stream, part.recording = kind, primary, None, None
    part.taken = allocate_lock()
    opened.parts.append(part)
    primary.hold(part)
    return part
