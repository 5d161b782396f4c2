"""Events that several processes use.

What it is   `share_event`, the function behind Event.share(), and `open_event`, behind Event.from_handle().
How          the driver can only share events that were created for this. Any other event is replaced: a new one is
             recorded after it, and takes its place in the Event.
Source       CUDA Driver API, "Memory Management": cuIpcGetEventHandle, cuIpcOpenEventHandle
Read next    ../stream.py
"""

from __future__ import annotations

from _weakref import ref
from ctypes import byref
from functools import partial

from ...driver import as_argument
from ...headers import cuda_h
from ...owned import drain, dropped, invalidate
from ..context import PrimaryContext
from ..handles import IPC_EVENT, Lifetime
from . import server
from .handles import SharedHandle, checked_timeout
from .opening import Opened, begin, device_with

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["Keeper", "exchange", "open_event", "open_part", "share_event"]


class Keeper:
    """An object that keeps a shared event from being destroyed; if the Event is closed, its finalizer moves here."""

    __slots__ = ("__del__", "__weakref__")

    if TYPE_CHECKING:
        __del__: Any

    def __init__(self) -> None:
        self.__del__ = _nothing


_nothing = "".__len__
_call: Any = partial.__call__


def share_event(event: Any, timeout: Any, keepers: dict[Any, ref[Keeper]]) -> SharedHandle:
    """Offer an event that was made for other processes; see Event.share.

    keepers  of the shared events, by their releases
    calls    cuIpcGetEventHandle
    """
    server.check_system()
    seconds = checked_timeout(timeout)
    raw = cuda_h.CUipcEventHandle()
    event._primary.inside.cuIpcGetEventHandle(byref(raw), as_argument(event.handle))
    for release, known in list(keepers.items()):
        if known() is None:
            keepers.pop(release, None)
    there = keepers.get(event._release)
    keeper = (None if there is None else there()) or Keeper()
    keepers[event._release] = ref(keeper)
    event.handle  # tested after the keeper was added; close() looks for it after it has closed
    return SharedHandle._make("event", event, 0, bytes(raw), [], keeper, seconds)


def exchange(event: Any, other: Any, slots: tuple[str, ...]) -> None:
    """Let two events exchange their handles, in one step that no interrupt divides."""
    mine, theirs = [getattr(event, slot) for slot in slots], [getattr(other, slot) for slot in slots]
    steps = [partial(setattr, event, slot, value) for slot, value in zip(slots, theirs)]
    steps += [partial(setattr, other, slot, value) for slot, value in zip(slots, mine)]
    any(map(_call, steps))
    invalidate()


def open_event(blank: Any, given: Any, timeout: Any) -> Any:
    """Open an event of another process; see Event.from_handle.

    blank   makes the Event: blank(device, context)
    calls   cuIpcOpenEventHandle
    """
    opened = begin(given, "event", timeout)
    try:
        device = device_with(opened.handle.device, "the event")
        device.context
        primary = device._primary
        event = blank(device, primary)
        event._own(None, opened)
        raw = cuda_h.CUipcEventHandle.from_buffer_copy(opened.answer.payload)
        part = open_part(opened, primary, IPC_EVENT)
        primary.inside.cuIpcOpenEventHandle(byref(part), raw)
    except BaseException:
        opened.release(True)
        raise
    event._handle = part.value
    return event


def open_part(opened: Opened, primary: PrimaryContext, kind: Any) -> Lifetime:
    """Return the C memory for one handle of the driver, which `opened` releases."""
    if dropped:
        drain()
    part = Lifetime()
    part.kind, part.primary, part.stream = kind, primary, None
    part.once = iter((part,))
    opened.parts.append(part)
    primary.hold(part)
    return part
