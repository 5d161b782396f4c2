"""Locations of memory, and access rights of devices: the words that users give, and the numbers of the driver.

What it is   `Location`: a device, the host or a NUMA node of the host; the access rights of a device: "none", "read",
             "readwrite"; `Devices`, a set of devices that is stored in the driver; `PeerAccess`, the part of memory and
             of pools that has such a set.
What not     the calls that take them: gpu/memory/pool.py.
Source       CUDA Driver API, "Data types used by CUDA driver": CUmemLocation, CUmemAccessDesc, CUmemAccess_flags
Read next    gpu/memory/pool.py
"""

from __future__ import annotations

from collections.abc import MutableSet

from ...arguments import as_int, as_list
from ...errors import Unsupported, a_kind, unsupported, worded
from ...headers import cuda_h
from ...headers.status import PEER_ACCESS_UNSUPPORTED
from ...protocols.device_memory import gpu
from ..core.context import PrimaryContext, context_of, count, is_device
from ..core.points import finish_context

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any, Callable, TypeVar

    from ...gpu.devices.device import Device

    _Item = TypeVar("_Item")
    _Change = Callable[[list[object], list[object]], None]

__all__ = [
    "Devices",
    "Location",
    "PeerAccess",
    "device_from",
    "finish_work",
    "location_from",
    "location_of",
    "ordinal_from",
    "require",
    "require_peer",
    "right_from",
    "right_of",
]

_NONE, _DEVICE, _HOST, _NUMA, _CURRENT = range(5)  # CUmemLocationType
_CPU, _INVALID = -1, -2  # CU_DEVICE_CPU, CU_DEVICE_INVALID

_RIGHTS = {"none": 0, "read": 1, "readwrite": 3}  # CUmemAccess_flags


class Location:
    """A place for memory: `kind` and `number` are those of a CUmemLocation, `text` is for messages."""

    __slots__ = ("kind", "number")

    def __init__(self, kind: int, number: int = 0) -> None:
        self.kind, self.number = kind, number

    def struct(self) -> Any:
        """Return the CUmemLocation."""
        return cuda_h.CUmemLocation(type=self.kind, id=self.number)

    def device(self) -> int:
        """Return the number for functions of drivers before CUDA 12.2: a device, or CU_DEVICE_CPU.

        raises  Unsupported  a NUMA node, for which there is no number
        """
        if self.kind in (_NUMA, _CURRENT):
            raise unsupported(
                f"{self.text()!r}: drivers before CUDA 12.2 have no NUMA nodes: give 'host', or update the driver",
            )
        if self.kind == _DEVICE:
            return self.number
        return _CPU

    def text(self) -> str:
        """Return this location as text; except for a device, location_from() can read it."""
        words = {_HOST: "host", _NUMA: f"numa:{self.number}", _CURRENT: "numa:current"}
        return words.get(self.kind, f"device {self.number}")

    def public(self) -> Device | str:
        """Return this location as a user writes it: a Device, "host" or "numa:0"."""
        if self.kind == _DEVICE:
            return device_from(self.number)
        return self.text()


def location_from(given: object) -> Location:
    """Read a location: a Device, "host", "numa:" with the number of a node, or "numa:current".

    raises  TypeError   another object
            ValueError  another text
            Closed      a closed Device
    """
    if isinstance(given, str):
        word, _, node = given.partition(":")
        if given == "host":
            return Location(_HOST)
        if word == "numa" and node == "current":
            return Location(_CURRENT)
        if word == "numa" and node.isdecimal() and node.isascii() and len(node) < 10:
            return Location(_NUMA, int(node))
        raise ValueError(
            f"location {worded(given)}: give a Device, 'host', 'numa:0' (the number of a node) or 'numa:current'"
        )
    return Location(_DEVICE, ordinal_from(given, "a location must be a Device, 'host' or 'numa:0'"))


def location_of(kind: int, number: int) -> Device | str | None:
    """Return a location from the driver as a user writes it; None stands for no location or for several."""
    if kind == _NONE or number == _INVALID:
        return None
    return Location(kind, number).public()


def ordinal_from(given: object, what: str = "a device must be a Device") -> int:
    """Return the ordinal of a Device, or of an int that is one.

    raises  TypeError   another object
            ValueError  there is no such device
            Closed      a closed Device
    """
    if is_device(given):
        given.handle  # raises Closed
        return given.ordinal
    if isinstance(given, bool) or not hasattr(type(given), "__index__") or getattr(given, "shape", None):
        raise TypeError(f"{what}, not {a_kind(given)}")
    number = as_int(what, given)
    if not 0 <= number < count():
        raise ValueError(f"there is no device {worded(number)}: this driver sees {count()}, numbered from 0")
    return number


def device_from(ordinal: int) -> Device:
    """Return a Device."""
    device: Device = gpu.Device(ordinal)
    return device


def right_from(given: object) -> int:
    """Return the number of a right: "none", "read" or "readwrite".

    raises  ValueError  another word
    """
    flags = _RIGHTS.get(given) if isinstance(given, str) else None
    if flags is None:
        raise ValueError(f"access {worded(given)}: give 'none', 'read' or 'readwrite'")
    return flags


def right_of(flags: int) -> str:
    """Return the word for the rights that the driver reports."""
    if flags & 2:
        return "readwrite"
    if flags & 1:
        return "read"
    return "none"


def require(primary: PrimaryContext, attribute: str, what: str) -> None:
    """Check that a device has a feature.

    calls   cuDeviceGetAttribute
    raises  Unsupported  it does not have it; the message names the device attribute
    """
    device = device_from(primary.ordinal)
    try:
        has = device.attribute(attribute)
    except ValueError:  # (also InvalidUse) the driver is older than the attribute
        has = 0
    if not has:
        raise unsupported(
            f"device {primary.ordinal} or its driver has no {what}: the device attribute {attribute} is 0",
        )


def finish_work(ordinals: Iterable[int], what: str = "", is_locked: bool = False) -> bool:
    """Wait for all work of devices, before they lose access to memory; see finish_context()."""
    contexts = [context_of(ordinal) for ordinal in ordinals]
    return all([finish_context(context, what, is_locked) for context in contexts if context._handle is not None])


def require_peer(ordinal: int, other: int, what: str) -> None:
    """Check that a device can reach the memory of another.

    calls   cuDeviceCanAccessPeer
    raises  Unsupported  it cannot
    """
    if ordinal != other and not device_from(ordinal).can_reach(device_from(other)):
        raise Unsupported(
            f"device {ordinal} cannot reach the memory of device {other}, so it has no access to {what}: copy the "
            "bytes instead",
            code=PEER_ACCESS_UNSUPPORTED,
            name="CUDA_ERROR_PEER_ACCESS_UNSUPPORTED",
        )


class Devices(MutableSet):  # type: ignore[type-arg]
    """A set of devices that is stored in the driver: reading it asks the driver, and changing it calls the driver.

    read    returns the locations that are in the set now
    change  gets the locations to add and those to remove
    """

    __slots__ = ("_read", "_change")

    def __init__(self, read: Callable[[], Sequence[object]], change: _Change) -> None:
        self._read, self._change = read, change

    @classmethod
    def _from_iterable(cls, items: Iterable[_Item]) -> set[_Item]:
        return set(items)

    def __contains__(self, item: object) -> bool:
        return _public(item) in self._read()

    def __iter__(self) -> Iterator[Any]:
        return iter(self._read())

    def __len__(self) -> int:
        return len(self._read())

    def add(self, value: object) -> None:
        """Add a device."""
        self._change([value], [])

    def discard(self, value: object) -> None:
        """Remove a device, if it is in the set."""
        if value in self:
            self._change([], [_public(value)])

    def replace(self, values: Iterable[object]) -> None:
        """Make the set contain these devices and no others."""
        wanted = [location_from(value).public() for value in as_list("a set of devices", values, "devices")]
        now = self._read()
        self._change([each for each in wanted if each not in now], [each for each in now if each not in wanted])

    def __repr__(self) -> str:
        return f"{{{', '.join(map(repr, self._read()))}}}"


class PeerAccess:
    """The part of memory, and of a pool, that says which other devices have access.

    A class has _peers(), which returns these devices, and _set_access(rights), with the new rights by ordinal.
    """

    __slots__ = ()

    @property
    def peer_accessible_by(self: Any) -> Any:
        """Return the set of the other devices that have access, which can be changed, or replaced by assignment."""
        self.handle
        return Devices(self._peers, self._change_peers)

    @peer_accessible_by.setter
    def peer_accessible_by(self: Any, devices: object) -> None:
        given = as_list("peer_accessible_by", devices, "devices")
        Devices(self._peers, self._change_peers).replace([device_from(ordinal_from(device)) for device in given])

    def _change_peers(self: Any, added: list[object], removed: list[object]) -> None:
        for device in (*added, *removed):
            if ordinal_from(device) == self._primary.ordinal:
                raise ValueError(f"{device!r} is the device of this memory, not a peer of it")
        # (in one call: where one device cannot get access, no other one loses it)
        rights = {ordinal_from(device): 0 for device in removed}
        rights.update({ordinal_from(device): 3 for device in added})
        self._set_access(rights)


def _public(given: object) -> object:
    """Return the Device for an ordinal, and any other object unchanged."""
    try:
        return device_from(ordinal_from(given))
    except (TypeError, ValueError):  # (also Closed)
        return given
