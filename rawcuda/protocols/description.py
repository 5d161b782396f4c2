"""What an exporter says of its memory, in one form for all protocols.

What it is   `Description`: address, shape, byte strides, dtype, and where the memory lies; what the protocols return.
What not     it can do nothing: strided.py's StridedView is a Description that can.
Why so       a view of a million arrays is a million of these. What many views have in common (device, read-only, protocol)
             is one shared `Place`.
Read next    dlpack.py
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Optional

    from ..elements.dtypes import DType

    Ints = tuple[int, ...]
    Where = Optional[tuple[str, Optional[int]]]

__all__ = ["Bytes", "Description", "Place", "place", "HOST", "KINDS"]

HOST = "cpu", 0
KINDS = ("cpu", "cuda", "cuda_host", "cuda_managed")


class Bytes:
    """An exporter of which copies take all bytes, whatever dtype the other side has: gpu/memory.py's Memory."""

    __slots__ = ()


class Place:
    """What views share: `device` (kind, ordinal) or None while it is unknown, `readonly`, `protocol`; see `place`."""

    __slots__ = ("device", "readonly", "protocol")

    def __init__(self, device: Where, readonly: bool, protocol: str) -> None:
        self.device, self.readonly, self.protocol = device, readonly, protocol


_places: dict[tuple[Where, bool, str], Place] = {}


def place(device: Where, readonly: bool, protocol: str) -> Place:
    """Return the one Place that says this."""
    key = device, readonly, protocol
    found = _places.get(key)
    if found is None:
        if len(_places) > 1000:  # ordinals come from outside: what grows without end is a leak
            _places.clear()
        found = _places.setdefault(key, Place(device, readonly, protocol))
    return found


class Description:
    """Describe strided memory.

    ptr      address of the first element (not the lowest, where a stride is negative); 0 is allowed for no elements
    shape    a tuple of extents
    strides  bytes from one element to the next, a tuple as long
    dtype    the DType
    place    what it shares with others: device, read-only, protocol
    owner    what keeps the memory alive
    stream   the stream in whose order the memory is ready, as it was given; None: nothing is said, or nothing pends
    """

    __slots__ = ("ptr", "shape", "strides", "dtype", "_place", "owner", "stream")

    ptr: int
    shape: Ints
    strides: Ints
    dtype: DType
    _place: Place
    owner: Any
    stream: Any

    def __init__(
        self, ptr: int, shape: Ints, strides: Ints, dtype: DType, place: Place, owner: object, stream: Any = None
    ) -> None:
        self.ptr, self.shape, self.strides, self.dtype = ptr, shape, strides, dtype
        self._place, self.owner, self.stream = place, owner, stream
