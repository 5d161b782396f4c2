"""Green contexts: parts of a device's multiprocessors, for work that must not wait for other work.

What it is   `split`, the function behind Device.split(); GreenContext, which makes streams; Split, a tuple of them.
How          The driver divides the multiprocessors into groups of equal size, and each green context gets as many
             groups as it needs. A stream of a green context belongs to the device's primary context like any other
             stream, so memory, events and kernels can be used on it. Its kernels run only on the multiprocessors of the
             green context.
Order        A green context must be destroyed after its streams: close() closes them first, and a stream keeps its
             green context alive until it is destroyed.
Source       CUDA Driver API, "Green Contexts"
Read next    ranges.py
"""

from __future__ import annotations

import ctypes
from _weakref import ref
from functools import partial
from math import gcd

from ...arguments import SetOnce, as_int
from ...driver import as_argument, dotted
from ...errors import a_kind, unsupported, worded
from ...headers import cuda_h
from ...ownership import drain, dropped
from ..core.handles import GREEN, GREEN_STREAM, shown_handle
from ..core.points import capturing, refuse_wait
from ..core.stream_arguments import InContext
from ..streams.stream import Event, Stream, priority_from

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ...driver import Driver
    from ...gpu.devices.device import Device
    from ..core.context import PrimaryContext

__all__ = ["GreenContext", "Split", "split"]

_SINCE = "cuGreenCtxStreamCreate", 12050  # the newest function that is needed, and the version that brought it
_SM = 1  # CU_DEV_RESOURCE_TYPE_SM


class Split(tuple):  # type: ignore[type-arg]
    """The green contexts that Device.split() made, as a tuple; a with block closes them all."""

    __slots__ = ()

    def close(self) -> None:
        """Close each green context, and with it its streams."""
        for each in reversed(self):
            each.close()

    def __enter__(self) -> Split:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()


class GreenContext(SetOnce, InContext):
    """A part of a device's multiprocessors, made by Device.split().

    device    the Device to which the multiprocessors belong
    sm_count  the number of multiprocessors
    calls     cuGreenCtxCreate, cuGreenCtxDestroy
    """

    __slots__ = ("sm_count", "_streams")
    _instead = "split the device again"

    device: Device
    sm_count: int
    if TYPE_CHECKING:
        _primary: PrimaryContext
        _streams: list[ref[Stream]]

    def __init__(self, *_: object, **__: object) -> None:
        raise TypeError("a GreenContext is made by Device.split()")

    @classmethod
    def _over(cls, device: Device, resources: list[Any]) -> GreenContext:
        """Make a green context of parts of one split."""
        array, descriptor = (cuda_h.CUdevResource * len(resources))(*resources), cuda_h.CUdevResourceDesc()
        device._primary.driver.cuDevResourceGenerateDesc(ctypes.byref(descriptor), array, len(resources))
        made = cls.__new__(cls)
        made.sm_count, made._streams = sum(each.sm.smCount for each in resources), []
        arguments = as_argument(descriptor.value), ctypes.c_int(device.handle), *GREEN.numbers
        made._create(device, GREEN, arguments)
        return made

    @property
    def id(self) -> int:
        """Return a number that no other context of this process has.

        calls   cuGreenCtxGetId
        """
        value = ctypes.c_uint64()
        self._calls.cuGreenCtxGetId(self._argument or self._prepare(), ctypes.byref(value))
        return value.value

    @property
    def context(self) -> int:
        """Return the handle of a CUcontext with these multiprocessors, for other software; it must not be destroyed.

        calls   cuCtxFromGreenCtx
        """
        context = cuda_h.CUcontext()
        self._calls.cuCtxFromGreenCtx(ctypes.byref(context), self._argument or self._prepare())
        return context.value or 0

    def stream(self, priority: int = 0) -> Stream:
        """Make a stream whose kernels run on these multiprocessors.

        calls   cuGreenCtxStreamCreate
        """
        number = priority_from(priority)
        made = Stream.__new__(Stream)
        made._create(self.device, GREEN_STREAM, (self._argument or self._prepare(), GREEN_STREAM.numbers[0], number))
        release: Any = made._release
        release.keeps = self  # a stream must not outlive its green context, also where both are in a cycle
        self._streams.append(ref(made, self._streams.remove))
        if self._handle is None:  # closed by another thread in the meantime
            made.close()
            self.handle
        return made

    def record(self, event: Event | None = None) -> Event:
        """Record in an event all work that is queued in this green context now; by default, in a new event.

        calls   cuGreenCtxRecordEvent
        """
        if event is None:
            event = Event(self.device)
        elif not isinstance(event, Event):
            raise TypeError(f"record() needs an Event, not {a_kind(event)}")
        green = self._argument or self._prepare()
        self._refuse_capture("GreenContext.record()")
        self._calls.cuGreenCtxRecordEvent(green, event._argument or event._prepare())
        return event

    def wait(self, event: Event) -> None:
        """Make later work in all streams of this green context wait for an event.

        calls   cuGreenCtxWaitEvent
        """
        if not isinstance(event, Event):
            raise TypeError(f"wait() needs an Event, not {a_kind(event)}")
        green = self._argument or self._prepare()
        self._refuse_capture("GreenContext.wait()")
        self._calls.cuGreenCtxWaitEvent(green, event._argument or event._prepare())

    def synchronize(self) -> None:
        """Wait until all work in this green context is done."""
        self._refuse_capture("GreenContext.synchronize()")
        with self.record() as event:
            event.synchronize()

    def _refuse_capture(self, what: str) -> None:
        """Refuse what would break the capture of a stream of this green context.

        raises  InvalidUse  the driver would refuse it with 900
        """
        if capturing and dropped:  # a capture that an interrupt left without its end is ended there
            drain()
        for each in tuple(self._streams) if capturing else ():
            stream = each()
            handle = None if stream is None else stream._handle
            if handle is not None:
                refuse_wait(self._calls, what, handle, "a stream of this green context")

    def _closing(self) -> None:
        if dropped:
            drain()  # streams that were garbage-collected must be destroyed first
        for each in tuple(self._streams):
            stream = each()
            if stream is not None:
                stream.close()
        self._argument = None

    def __repr__(self) -> str:
        what = shown_handle(self)
        return f"<GreenContext {what} {self.sm_count} multiprocessors, device {self.device.ordinal}>"


def split(device: Device, sm_counts: tuple[object, ...], rest: bool) -> Split:
    """Make green contexts with at least these numbers of multiprocessors, and one of the rest; see Device.split()."""
    loaded = device._primary.driver
    if not loaded.has(_SINCE[0]):
        raise unsupported(
            f"green contexts need a driver of CUDA {dotted(_SINCE[1])} or newer; the loaded one is of CUDA "
            f"{dotted(loaded.version)}",
        )
    wanted = [_count(each) for each in sm_counts]
    if not wanted:
        raise ValueError("split() needs the number of multiprocessors of each part: split(8), split(8, 16, rest=True)")
    device.context
    whole = cuda_h.CUdevResource()
    loaded.cuDeviceGetDevResource(device.handle, ctypes.byref(whole), _SM)
    total = whole.sm.smCount
    if sum(wanted) > total:
        raise ValueError(
            f"split({', '.join(map(worded, sm_counts))}): device {device.ordinal} has {total} multiprocessors (its "
            "attribute MULTIPROCESSOR_COUNT): ask for fewer"
        )
    groups, left = _divided(loaded, whole, gcd(*wanted) if len(wanted) > 1 else wanted[0])
    if not groups and len(wanted) == 1 and not rest:  # nearly all: the size of a group would be rounded up
        groups = [whole]
    size = groups[0].sm.smCount if groups else 0
    needed = [-(-each // size) if size else 1 for each in wanted]
    if sum(needed) > len(groups):
        raise ValueError(
            f"split({', '.join(map(worded, sm_counts))}): device {device.ordinal} divides its {total} multiprocessors "
            f"into at most {len(groups)} groups of {size or 'this size'}, and {sum(needed)} are needed: ask for fewer"
        )
    shares, at = [], 0
    for number in needed:
        shares.append(groups[at : at + number])
        at += number
    if rest:
        shares.append([*groups[at:], *([left] if left.type == _SM and left.sm.smCount else [])])
        if not shares[-1]:
            raise ValueError(
                f"rest=True: none of the {total} multiprocessors of device {device.ordinal} is left: omit rest=True"
            )
    made: list[GreenContext] = []
    try:
        made.extend(map(partial(GreenContext._over, device), shares))
    except BaseException:
        Split(made).close()
        raise
    return Split(made)


def _divided(loaded: Driver, whole: ctypes.Structure, least: int) -> tuple[list[Any], Any]:
    """Divide multiprocessors into as many groups of at least `least` as possible; return the groups and the rest."""
    number, left = ctypes.c_uint(), cuda_h.CUdevResource()
    loaded.cuDevSmResourceSplitByCount(None, ctypes.byref(number), ctypes.byref(whole), None, 0, least)
    if not number.value:
        return [], left
    groups = (cuda_h.CUdevResource * number.value)()
    loaded.cuDevSmResourceSplitByCount(groups, ctypes.byref(number), ctypes.byref(whole), ctypes.byref(left), 0, least)
    return list(groups[: number.value]), left


def _count(given: object) -> int:
    number = as_int("a number of multiprocessors", given)
    if number < 1:
        raise ValueError(f"{worded(number)} multiprocessors: a part needs at least 1")
    return number
