"""Read `__cuda_array_interface__`: Numba's protocol for device memory, the array interface's dict with a stream.

The protocol  shape, typestr, data (address, read-only) and version must be there; strides, descr, mask and, since version 3,
              stream may. The address is one that the device can use; which device, the dict does not say: strided.py asks
              the driver. It is 0 where there are no elements, and then nobody may be asked about it.
The stream    absent or None: nothing to wait for. 1 the legacy default stream, 2 the per-thread one, above 2 a handle; 0 is
              forbidden, since it could mean either. Before version 3 nothing is said, though work may be pending.
What not      no driver is loaded here; the Description's device is None where a driver has yet to be asked.
Source        Numba-CUDA, "CUDA Array Interface (Version 3)"
Read next     dlpack.py
"""

from __future__ import annotations

from _thread import get_ident
from marshal import dumps
from operator import index

from ..elements.layout import extent
from ..errors import refusal
from .array_interface import check_extent, read_attribute, read_layout, read_pointer
from .description import Description, place

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

__all__ = ["NAME", "UNORDERED", "describe", "known", "left"]

NAME = "cuda_array_interface"
UNORDERED = 0  # a Description's stream: the dict is too old to say what is pending; never a handle


def describe(exporter: Any, kind: type[Description] = Description) -> Description | None:
    """Describe what `__cuda_array_interface__` says, or return None where it is not offered.

    kind     the class to make, with Description's arguments
    returns  a Description whose stream is a handle, None (nothing to wait for) or UNORDERED (nobody knows)
    raises   ProtocolError   malformed: see read_layout, read_pointer; a stream of 0, below 0, a bool or no int
    """
    interface = read_attribute(exporter, NAME, left.pop(get_ident(), None))
    if interface is None:
        return None
    shape, strides, dtype = read_layout(interface, NAME)
    data = interface["data"] if "data" in interface else None
    if data is None:
        raise refusal(NAME, "data", None, "is missing; the protocol requires it")
    address, readonly = read_pointer(data, NAME)
    check_extent(address, shape, strides, dtype.itemsize, NAME)
    stream = _stream(interface)
    _remember(interface, shape, strides, dtype)
    return kind(address, shape, strides, dtype, place(None, readonly, NAME), exporter, stream)


# The short way is cuda_side.py's, for it asks the driver. This is what it looks up: typestr -> shape and strides as bytes, which tell 1 from
# True and 1.0 -> what they mean, and what an address must be above, and at most, so that all has its place.
known: dict[str, dict[bytes, tuple[Any, Any, Any, int, int]]] = {}
left: dict[int, tuple[Any, Any]] = {}  # thread -> an exporter and its dict, which is read once


def _remember(interface: Mapping[str, Any], shape: Any, strides: Any, dtype: Any) -> None:
    if (
        type(interface) is dict
        and type(interface["typestr"]) is str
        and interface.get("descr") is None
        and 0 not in shape
        and all(
            type(ns) is tuple and {int}.issuperset(map(type, ns))
            for ns in (interface["shape"], interface.get("strides") or ())
        )
    ):
        layouts = known.setdefault(interface["typestr"], {})
        if len(layouts) > 1000 or len(known) > 100:
            known.clear()
        low, high = extent(shape, strides, dtype.itemsize)
        layouts[dumps((interface["shape"], interface.get("strides")), 2)] = shape, strides, dtype, -low, 2**64 - high


def _stream(interface: Mapping[str, Any]) -> int | None:
    version = interface["version"] if "version" in interface else 0  # user-made dicts leave it out
    if isinstance(version, bool) or not hasattr(type(version), "__index__") or index(version) < 0:
        raise refusal(NAME, "version", version, "is an int such as 3")
    stream = interface["stream"] if "stream" in interface else None
    if stream is None:
        return None if index(version) >= 3 else UNORDERED
    if isinstance(stream, bool) or not hasattr(type(stream), "__index__"):
        raise refusal(NAME, "stream", stream, "is an int or None; export the stream's handle")
    handle = index(stream)
    if handle == 0:
        raise refusal(
            NAME,
            "stream",
            0,
            "is disallowed, as it is ambiguous between None and the default streams: export 1 for the legacy "
            "default stream, 2 for the per-thread one",
        )
    if not 0 < handle < 2**64:
        raise refusal(NAME, "stream", handle, "is no stream: a handle lies in 1 .. 2**64-1")
    return handle
