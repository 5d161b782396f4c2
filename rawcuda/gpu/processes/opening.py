"""The receiver's side of sharing: what a process that opens a handle holds, and how it is released.

What it is   `Opened`, which asks the owner, and releases what was opened: the driver's handles, in order, and then the
             connection to the owner.
Read next    shared_events.py, shared_memory.py
"""

from __future__ import annotations

from ...errors import Unsupported
from ...headers.status import INVALID_DEVICE
from ...ownership import drain, dropped
from ...protocols.device_memory import gpu
from ..core.context import count
from . import server
from .shared_handles import checked_timeout, handle_from

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...gpu.devices.device import Device
    from ...ownership import Release

__all__ = ["Opened", "device_with"]

_open_here: dict[bytes, Opened] = {}  # by the keys of their handles


class Opened:
    """The release of what was opened by a handle.

    opened = Opened(given, "memory", timeout)
    try:
        opened.begin()
        ...
    except BaseException:
        opened.abandon()  # also of what an interrupt left half-done
        raise

    raises  ValueError  the handle is damaged, of another machine or kind, or of this process
    """

    __slots__ = ("handle", "timeout", "answer", "parts")

    def __init__(self, given: object, kind: str, timeout: object) -> None:
        server.check_system()
        self.timeout = checked_timeout(timeout)
        self.handle = handle_from(given, kind)
        self.answer = server.Answer()
        self.parts: list[Release] = []  # releases, the last one first

    def begin(self) -> None:
        """Ask the owner of the handle for the data that is needed to open it.

        raises  ValueError    the handle is open here already
                Closed        the owner has ended the sharing, or has ended itself
                TimeoutError  the owner does not answer in time
        """
        handle = self.handle
        drain()  # what was dropped is not open any more
        if _open_here.setdefault(handle._key, self) is not self:
            raise ValueError(f"{handle!r} is open in this process already: use that object, or close it first")
        server.ask(self.answer, handle._address, handle._key, handle.pid, self.timeout)

    def release(self, late: bool) -> bool:
        """Release the driver's handles, and then tell the owner; a second call does nothing.

        returns  False if a capture forbids to wait for the work that may use them: try again later
        """
        for part in reversed(tuple(self.parts)):
            if part.release(late) is False:
                return False
        self.leave()
        return True

    def abandon(self) -> None:
        """Release what was opened so far: opening it has failed."""
        dropped.append(self)
        drain()

    def leave(self) -> None:
        """Tell the owner that this process does not use it any more."""
        self.answer.close()
        if _open_here.get(self.handle._key) is self:
            del _open_here[self.handle._key]

    def give_away(self) -> bool:
        """Release nothing from now on; the owner continues to count this process as a user."""
        return all([part.give_away() for part in self.parts])


def device_with(uuid: str, what: str) -> Device:
    """Return the Device with a UUID.

    raises  Unsupported   this process does not see it
    """
    for ordinal in range(count()):
        device: Device = gpu.Device(ordinal)
        if device.uuid[4:] == uuid[4:]:  # a handle does not say whether it is the UUID of a GPU or of a MIG instance
            return device
    raise Unsupported(
        f"{what} is on {uuid}, which this process does not see: look at CUDA_VISIBLE_DEVICES, and use the same driver "
        "in both processes",
        code=INVALID_DEVICE,
        name="CUDA_ERROR_INVALID_DEVICE",
    )
