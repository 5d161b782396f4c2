"""Access of one device to the memory of another.

What it is   `enable`, `disable` and PeerAccess, which implement the methods of Device; PeerAttributes.
How          The driver stores only whether one context has access to another. This module counts users: it ends the
             access when the last PeerAccess is closed and enable_peer_access() was undone. It never ends access that
             other software has enabled. The last user waits for the work that may use the memory. No lock is held in
             the meantime: a host function, or a thread for which one waits, may need it. The pairs of devices are in
             `peers` of gpu/core/context.py, for `reaches`.
What not     memory that is allocated in the order of a stream: its pool says which devices have access.
Source       CUDA Driver API, "Peer Context Memory Access", cuDeviceGetP2PAttribute
Read next    limits.py
"""

from __future__ import annotations

import _thread
import ctypes
from collections import namedtuple

from ...errors import CudaError, ForkedAfterInit
from ...headers import cuda_h
from ...headers.status import INVALID_VALUE, PEER_ACCESS_ALREADY_ENABLED, STREAM_CAPTURE_UNSUPPORTED
from ...interpreter.cpython import free_after_fork
from ...ownership import Owned, invalidate
from ..core.context import attempt, peers
from ..core.points import finish_context

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...gpu.devices.device import Device
    from ..core.context import PrimaryContext

__all__ = ["PeerAccess", "PeerAttributes", "attributes_of", "disable", "enable", "forget_links"]

_lock = free_after_fork(_thread.RLock())  # re-entrant, because garbage collection may run while it is held


class _Link:
    """The access of one context to another: its users, and whether other software had enabled it before.

    last  the newest user that was the last one, and ends the access after its wait, if no other came in the meantime
    """

    __slots__ = ("users", "lasting", "foreign", "last")

    def __init__(self, foreign: bool) -> None:
        self.users: set[object] = set()
        self.lasting, self.foreign = False, foreign
        self.last: object = None


_links: dict[tuple[int, int], _Link] = {}  # by the accessing device and that of the memory


class PeerAccess(Owned):
    """The access of a device to the memory of another, until this object is closed.

    device, other  the accessing device, and the device of the memory
    calls          cuCtxEnablePeerAccess, cuCtxDisablePeerAccess
    """

    __slots__ = ("device", "other")

    def __init__(self, device: Device, other: Device) -> None:
        device.context, other.context  # both contexts are retained now
        self.device, self.other = device, other
        use = _Use(device._primary, other._primary)
        self._own(None, use)  # the finalizer undoes what an interrupt leaves
        use.begin()
        self._handle = 1

    def _closing(self) -> None:
        invalidate()  # launches check again whether the device reaches the memory

    def __repr__(self) -> str:
        pair = f"of device {self.device.ordinal} to device {self.other.ordinal}"
        return f"<PeerAccess {pair}{' closed' if self.closed else ''}>"


class _Use:
    """The release of a PeerAccess; its link counts it, and it holds both contexts."""

    __slots__ = ("here", "there")

    def __init__(self, here: PrimaryContext, there: PrimaryContext) -> None:
        self.here, self.there = here, there

    def begin(self) -> None:
        self.here.hold(self)
        self.there.hold(self)
        try:
            if self.here is not self.there:  # a device always reaches its own memory
                with _lock:
                    _open(self.here, self.there).users.add(self)
        except BaseException:
            self._let_go()
            raise

    def release(self, late: bool) -> bool:
        """Give up the access; the last user ends it. Return False if a capture forbids that now: try again later."""
        link = self._leave()
        if link is not None:
            if not link.foreign and not _finish(self.here):
                return False
            with _lock:
                if link.last is self:
                    _end(self.here, self.there, link)
        self._let_go()
        return True

    def _leave(self) -> _Link | None:
        """Leave the users of the access; return it if there are no others."""
        with _lock:
            link = _links.get((self.here.ordinal, self.there.ordinal))
            if link is None:
                return None
            link.users.discard(self)
            if link.users or link.lasting:
                return None
            link.last = self
            return link

    def give_away(self) -> bool:
        """Leave the access enabled."""
        with _lock:
            link = _links.get((self.here.ordinal, self.there.ordinal))
            if link is not None and self in link.users:
                link.users.discard(self)
                link.lasting = True
        self._let_go()
        return True

    def _let_go(self) -> None:
        self.here.let_go(self)
        self.there.let_go(self)


def _open(here: PrimaryContext, there: PrimaryContext) -> _Link:
    """Return the link between two contexts, which is enabled if necessary; the lock is held."""
    pair = here.ordinal, there.ordinal
    link = _links.get(pair)
    if link is not None and pair in peers:  # (pairs are removed from `peers` when a context ends)
        return link
    foreign = False
    try:
        here.calls.cuCtxEnablePeerAccess(cuda_h.CUcontext(there.handle), ctypes.c_uint(0))
    except CudaError as error:
        foreign = error.code == PEER_ACCESS_ALREADY_ENABLED
        if not foreign:
            raise
    link = _links[pair] = _Link(foreign)
    peers.add(pair)
    return link


def _finish(here: PrimaryContext) -> bool:
    """Wait for the kernels that may use the memory; return False if a capture forbids that. It raises no error."""
    try:
        return finish_context(here)
    except CudaError as error:  # other software may capture a stream of this context; or the context is lost
        return error.code != STREAM_CAPTURE_UNSUPPORTED
    except ForkedAfterInit:
        return True


def _end(here: PrimaryContext, there: PrimaryContext, link: _Link) -> None:
    """End the access if it has no users any more; the lock is held. It raises no error."""
    pair = here.ordinal, there.ordinal
    if link.users or link.lasting or _links.get(pair) is not link or pair not in peers:
        return
    peers.discard(pair)
    _links.pop(pair, None)
    invalidate()
    if not link.foreign:  # (otherwise it stays enabled, but other software may end it without notice)
        attempt(here.calls.cuCtxDisablePeerAccess, cuda_h.CUcontext(there._handle or 0))


def forget_links(ordinal: int) -> None:
    """Forget the access from and to a device whose context was destroyed."""
    with _lock:
        _forget(ordinal)


def _forget(ordinal: int) -> None:
    for pair in [pair for pair in _links if ordinal in pair]:
        _links.pop(pair, None)


def enable(device: Device, other: Device) -> None:
    """Let kernels on one device access the memory of another from now on; do nothing if they already can.

    calls   cuCtxEnablePeerAccess
    raises  Unsupported  these devices cannot reach each other's memory
    """
    device.context, other.context
    if device._primary is not other._primary:
        with _lock:
            _open(device._primary, other._primary).lasting = True


def disable(device: Device, other: Device) -> None:
    """Undo enable(); the access ends when no PeerAccess is open and no stream is being captured.

    calls   cuCtxDisablePeerAccess
    raises  ValueError  enable() was not called, or was undone already
            InvalidUse  a stream of the device is being captured
    """
    _lasting(device, other)
    finish_context(device._primary, "disable_peer_access()")
    with PeerAccess(device, other):  # it ends the access if it is the last user
        with _lock:
            _lasting(device, other).lasting = False


def _lasting(device: Device, other: Device) -> _Link:
    """Return the access that enable() gave.

    raises  ValueError  enable() was not called, or was undone already
    """
    pair = device.ordinal, other.ordinal
    link = _links.get(pair)
    if link is not None and link.lasting and pair in peers:
        return link
    why = "it was not enabled"
    if link is not None and link.users:
        why = "a PeerAccess is open: close it"
    raise ValueError(f"device {pair[0]} has no access to device {pair[1]} that disable_peer_access() could end: {why}")


class PeerAttributes(
    namedtuple(
        "PeerAttributes",
        "performance_rank access_supported native_atomics_supported array_access_supported only_partial_native_atomics",
    )
):
    """Properties of the connection from one device to another; a lower performance_rank is faster."""

    __slots__ = ()


def attributes_of(device: Device, other: Device) -> PeerAttributes:
    """Return the properties of a connection; those that an older driver does not know are None.

    calls   cuDeviceGetP2PAttribute
    raises  ValueError  both are the same device
    """
    if device.ordinal == other.ordinal:
        raise ValueError(f"device {device.ordinal} is not connected to itself: give another device")
    found: list[int | None] = []
    for number in range(1, 6):  # CU_DEVICE_P2P_ATTRIBUTE_...
        value = ctypes.c_int()
        try:
            device._primary.driver.cuDeviceGetP2PAttribute(ctypes.byref(value), number, device.handle, other.handle)
        except CudaError as error:
            if error.code != INVALID_VALUE:
                raise
            found.append(None)
        else:
            found.append(value.value if number == 1 else bool(value.value))
    return PeerAttributes(*found)
