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

from ..description import Description, Place, place
from ..errors import refusal
from ..layout import extent
from .array_interface import check_extent, read_attribute, read_layout, read_pointer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Callable, Optional

__all__ = ["NAME", "UNORDERED", "describe", "describe_known"]

NAME = "cuda_array_interface"
UNORDERED = 0                    # a Description's stream: the dict is too old to say what is pending; never a handle


def describe(exporter: Any, kind: "type[Description]" = Description) -> "Optional[Description]":
    """Describe what `__cuda_array_interface__` says, or return None where it is not offered.

    kind     the class to make, with Description's arguments
    returns  a Description whose stream is a handle, None (nothing to wait for) or UNORDERED (nobody knows)
    raises   ProtocolError   malformed: see read_layout, read_pointer; a stream of 0, below 0, a bool or no int
    """
    interface = read_attribute(exporter, NAME, _left.pop(get_ident(), None))
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


# Dicts whose layout was checked before: typestr -> shape and strides as bytes, which tell 1 from True and 1.0 -> what they mean.
_layouts: "dict[str, dict[bytes, tuple[Any, Any, Any, int, int]]]" = {}
_left: "dict[int, tuple[Any, Any]]" = {}                 # thread -> an exporter and the dict that was read and left to the long way: it is read once


spot: "Callable[[int, bool], Optional[Place]]"            # cuda_side.spot, which needs a driver; set by who has one


def describe_known(exporter: Any, kind: "type[Description]", stream: Any = None, new: Any = object.__new__, layouts: Any = _layouts,
                   dumps: Any = dumps) -> "Optional[Description]":
    """Describe an object whose class offers this protocol, and no DLPack, the short way: None leaves it to the long one.

    The dict has six entries, a layout that was checked before, a plain address and no stream.
    stream   the stream that will use the memory, as given by the user
    """
    if getattr(exporter, "__dlpack__", None) is not None:
        return None
    try:
        interface = exporter.__cuda_array_interface__
    except (AttributeError, BufferError):
        return None
    try:
        version, extents, typestr = interface["version"], interface["shape"], interface["typestr"]
        if (interface["stream"] is not None or len(interface) != 6 or type(interface) is not dict or type(version) is not int or version < 3):
            return _leave(exporter, interface)
        shape, strides, dtype, low, high = layouts[typestr][dumps((extents, interface["strides"]), 2)]
        address, readonly = interface["data"]
    except (KeyError, ValueError, TypeError, AttributeError):    # not seen before, or with something that is no plain number
        return _leave(exporter, interface)
    if type(address) is not int or type(readonly) is not bool or not low < address <= high:
        return _leave(exporter, interface)
    where = spot(address, readonly)
    if where is None:
        return _leave(exporter, interface)
    made = new(kind)
    made.ptr, made.shape, made.strides, made.dtype, made.place, made.owner, made.stream = address, shape, strides, dtype, where, exporter, stream
    return made  # type: ignore[no-any-return]


def _leave(exporter: Any, interface: Any) -> "Optional[Description]":
    _left[get_ident()] = exporter, interface
    return None


def _remember(interface: "Mapping[str, Any]", shape: Any, strides: Any, dtype: Any) -> None:
    if type(interface) is dict and type(interface["typestr"]) is str and interface.get("descr") is None and 0 not in shape and all(
            type(ns) is tuple and {int}.issuperset(map(type, ns)) for ns in (interface["shape"], interface.get("strides") or ())):
        known = _layouts.setdefault(interface["typestr"], {})
        if len(known) > 1000 or len(_layouts) > 100:
            _layouts.clear()
        low, high = extent(shape, strides, dtype.itemsize)       # what an address must be above, and at most, so that all has its place
        known[dumps((interface["shape"], interface.get("strides")), 2)] = shape, strides, dtype, -low, 2**64 - high


def _stream(interface: "Mapping[str, Any]") -> "Optional[int]":
    version = interface["version"] if "version" in interface else 0      # user-made dicts leave it out
    if isinstance(version, bool) or not hasattr(type(version), "__index__") or index(version) < 0:
        raise refusal(NAME, "version", version, "is an int such as 3")
    stream = interface["stream"] if "stream" in interface else None
    if stream is None:
        return None if index(version) >= 3 else UNORDERED
    if isinstance(stream, bool) or not hasattr(type(stream), "__index__"):
        raise refusal(NAME, "stream", stream, "is an int or None; export the stream's handle")
    handle = index(stream)
    if handle == 0:
        raise refusal(NAME, "stream", 0, "is disallowed, as it is ambiguous between None and the default streams: export 1 for the legacy "
                                  "default stream, 2 for the per-thread one")
    if not 0 < handle < 2**64:
        raise refusal(NAME, "stream", handle, "is no stream: a handle lies in 1 .. 2**64-1")
    return handle
