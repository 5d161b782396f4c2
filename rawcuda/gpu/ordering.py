"""Order between streams: whose work must be done before whose may begin.

What it is   `make_wait`, `settle` and the like, over views and stream handles; every one of them is for device-accessible memory.
What not     nothing here decides what a stream given from outside means: stream.py's handle_of and the protocols do.
How          an event is recorded on the stream that has the work, and the other stream waits for it, on the device; skipped
             where both are one. The CPU waits only for itself (`settle`).
Source       CUDA Driver API, "Stream Management", "Event Management"; array API standard, `__dlpack__`, stream
Read next    exporting.py
"""

from __future__ import annotations

import ctypes

from .. import driver
from ..errors import refusal
from ..headers import cuda_h

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from ..protocols.description import Description
    from .device import Device

__all__ = ["device_of", "forget_closed", "hold_back", "make_wait", "pending_handle", "settle", "wait_between"]

_LEGACY, _NO_SYNC = 1, -1


def device_of(view: Description) -> Device | None:
    """Return the device that a view's memory belongs to; None where it is host memory that is not ours."""
    from .device import Device
    from .memory import Memory

    if isinstance(view.owner, Memory):
        return view.owner.device
    kind, ordinal = view._place.device or ("cpu", 0)
    return Device(ordinal) if kind in ("cuda", "cuda_managed") and ordinal is not None else None


def pending_handle(view: Description) -> int | None:
    """Return the stream that has the work pending on a view's memory; None if it was viewed without any ordering."""
    forget_closed(view)
    if view.stream is None:
        return _LEGACY
    from .stream import handle_of

    handle = handle_of(view.stream)
    return None if handle == _NO_SYNC else handle


def forget_closed(view: Description) -> None:
    """Wait for all work if the stream that a view was made for is closed by now, and count the view as ready."""
    if view.stream is None:
        return
    from .stream import Stream

    if isinstance(view.stream, Stream) and view.stream.closed:
        from .device import synchronize

        synchronize()
        view.stream = None


def wait_between(waiting: int, working: int, device: Device) -> None:
    """Make one stream wait for what another has now.

    calls   cuEventCreate, cuEventRecord, cuStreamWaitEvent
    """
    if waiting == working:
        return
    from .stream import Event, Stream

    with Event(device) as event:
        event.record(working)
        Stream.from_handle(waiting).wait(event)


def make_wait(consumer: int, view: Description) -> None:
    """Make a consumer's stream wait for what is pending on a view's memory.

    consumer   a handle, or -1: no ordering
    """
    if consumer == _NO_SYNC or 0 in view.shape or not driver.is_loaded():
        return  # (without a driver in use nothing of ours can be pending)
    working = pending_handle(view)
    device = device_of(view)
    if working is not None and device is not None and working != consumer:
        if working > 2 and _is_capturing(working, device):
            raise refusal(
                "dlpack",
                "stream",
                consumer,
                f"cannot wait for the view's stream {working:#x} while that is being captured; export "
                "before the capture, or ask with stream=-1",
            )
        wait_between(consumer, working, device)


def _is_capturing(stream: int, device: Device) -> bool:
    status = ctypes.c_uint()
    with device.current():
        driver.current().cuStreamIsCapturing(cuda_h.CUstream(stream), ctypes.byref(status))
    return status.value != 0


def hold_back(views: Iterable[Any], using: int, device: Device) -> None:
    """Make the streams that exporters named wait for our use of their memory, so that they do not change it meanwhile.

    using    the stream that the use was queued on
    source   CUDA Array Interface (Version 3), "Synchronization": the consumer's duty, where it does not use the stream given
    """
    for view in views:
        theirs = getattr(view, "exporting_stream", None)
        if theirs is not None:
            wait_between(theirs, using, device)


def settle(view: Description) -> None:
    """Wait on the CPU until what is pending on a view's memory is done."""
    if not driver.is_loaded():
        return
    working = pending_handle(view)
    if working is None:
        return
    device = device_of(view)
    if device is None:
        from .device import synchronize

        synchronize()
    else:
        with device.current():
            driver.current().cuStreamSynchronize(cuda_h.CUstream(working))
