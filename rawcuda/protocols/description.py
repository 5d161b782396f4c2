"""The description of an exporter's memory, in one form for all protocols.

What it is   `Description`: address, shape, byte strides, dtype, and where the memory lies. Every protocol returns one.
What not     It has no methods and no __init__: one is made and its fields are set in 94 ns, which takes 121 with
             `object.__new__` and 177 with an __init__. StridedView (arrays/strided.py) is the subclass that users see.
Why so       A program may hold a million views. What many views have in common (device, read-only, protocol) is
             stored once, in a shared `Place`, and a view refers to it.
Read next    tensor.py
"""

from __future__ import annotations

from ..interpreter.cpython import read_only
from ..remembered import Remembered

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Optional

    from ..elements.dtypes import DType

    Ints = tuple[int, ...]
    Where = Optional[tuple[str, Optional[int]]]

__all__ = [
    "Bytes",
    "Description",
    "Examined",
    "Place",
    "describe_as",
    "place",
    "HOST",
    "KINDS",
    "OwnedCapsule",
    "Unaddressed",
]

HOST = "cpu", 0
KINDS = {"cpu": 1, "cuda": 2, "cuda_host": 3, "cuda_managed": 13}  # the DLDeviceType of each
_MEMORY_KINDS = {"cpu": "host", "cuda_host": "pinned", "cuda": "device", "cuda_managed": "managed"}


class Examined:
    """Something that keeps in `_side` what copies and fills found out about it: a Bytes or a Description."""

    __slots__ = ()

    if TYPE_CHECKING:
        _side: Any


class Bytes(Examined):
    """An exporter whose copies transfer all bytes, whatever the dtype of the other side: Memory."""

    __slots__ = ()

    if TYPE_CHECKING:
        _handle: Any
        handle: Any
        device: Any
        _primary: Any
        _lease_for_work: Any
        _remedy: Any
        _access_from: Any
        is_accessible_from: Any

        def view(self) -> Any:
            """Return the memory as an array of bytes."""

        def copy_from(self, source: Any, *, stream: Any = None) -> Any:
            """Copy all bytes from an exporter."""


class Unaddressed:
    """Elements without addresses, which no protocol describes: a CUDA array of gpu/textures/, which copies itself."""

    __slots__ = ()

    if TYPE_CHECKING:

        def copy_from(self, source: Any, *, stream: Any = None) -> Any:
            """Copy from an exporter."""

        def copy_to(self, target: Any, *, stream: Any = None) -> Any:
            """Copy to an exporter."""


class OwnedCapsule:
    """The `owner` of a view whose memory is kept alive by a capsule's tensor.

    The capsule itself is not shown: a caller could consume it, and so free the memory under the view.
    """

    __slots__ = ("_capsule",)

    def __init__(self, capsule: object) -> None:
        self._capsule = capsule

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OwnedCapsule) and other._capsule is self._capsule

    def __hash__(self) -> int:
        return hash(self._capsule)

    def __repr__(self) -> str:
        return "<the capsule of a view's tensor>"


class Place:
    """The properties that many views share.

    device    (kind, ordinal), or None while it is unknown
    readonly  whether the memory must not be written
    protocol  the protocol that the memory was described by
    unsaid    read-only only because the protocol could not say more (a legacy DLPack capsule)
    kind      "host" (pageable), "pinned", "device" or "managed"
    is_host   pageable host memory, which needs nothing of a driver
    label     the (type, id) of such memory in DLPack, or None while the device is unknown
    home      the ordinal of the device of our memory, if its access cannot be taken away; else None
    frozen    the same Place, but explicitly declared read-only
    """

    __slots__ = ("device", "readonly", "protocol", "unsaid", "home", "kind", "is_host", "label", "frozen")

    def __init__(self, device: Where, readonly: bool, protocol: str, unsaid: bool, home: int | None) -> None:
        self.device, self.readonly, self.protocol, self.unsaid, self.home = device, readonly, protocol, unsaid, home
        self.kind, self.is_host = "device", device == HOST
        if device is not None:
            self.kind = _MEMORY_KINDS[device[0]]
        self.label = device and (KINDS[device[0]], device[1])
        if readonly and not unsaid:
            self.frozen = self
        else:
            self.frozen = place(device, True, protocol, home=home)


_places: Remembered[tuple[Where, bool, str, bool, int | None], Place] = Remembered(1000)


def place(device: Where, readonly: bool, protocol: str, unsaid: bool = False, home: int | None = None) -> Place:
    """Return the one Place with these properties, so that Places can be compared with `is`."""
    key = device, readonly, protocol, unsaid, home
    try:
        return _places.answers[key]
    except KeyError:
        return _places.keep(key, Place(device, readonly, protocol, unsaid, home))


class Description(Examined):
    """A region of strided memory.

    ptr      address of the first element (not the lowest address where a stride is negative); 0 if there are no
             elements
    shape    a tuple of extents
    strides  bytes from one element to the next in each dimension, a tuple of the same length
    dtype    the DType
    _place   the Place: device, read-only, protocol
    owner    what keeps the memory alive
    stream   the stream in whose order the memory is ready, as the user gave it, or 1 for the default stream; None:
             nothing is pending
    _side    what copies and fills found out about it; set by the first one
    """

    __slots__ = ("_ptr", "_shape", "_strides", "_dtype", "_place", "_owner", "stream", "_side")

    ptr: int
    shape: Ints
    strides: Ints
    dtype: DType
    owner: Any
    if TYPE_CHECKING:
        _ptr: int
        _shape: Ints
        _strides: Ints
        _dtype: DType
    _place: Place
    _owner: Any
    stream: Any
    _side: Any
    _streamed: Any  # the class to make where the exporter may name a stream of its own
    _viewed: Any  # the one class of views of exporters, set by strided.py: a reader is fastest if it makes only this


for _name in (
    "ptr",
    "shape",
    "strides",
    "dtype",
    "owner",
):  # users can only read them; a change would lead out of the memory
    setattr(Description, _name, read_only(Description, _name))
Description._streamed = Description._viewed = Description


def describe_as(
    kind: Any, ptr: int, shape: Ints, strides: Ints, dtype: DType, place: Place, owner: object, stream: Any = None
) -> Any:
    """Make a Description of a class; nothing is checked. Hot paths set the fields themselves."""
    made = kind()
    made._ptr, made._shape, made._strides, made._dtype = ptr, shape, strides, dtype
    made._place, made._owner, made.stream, made._side = place, owner, stream, None
    return made
