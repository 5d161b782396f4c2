"""Reading `__cuda_array_interface__`: Numba's protocol for device memory, the array interface's dict with a stream.

The protocol  shape, typestr, data (address, read-only) and version are required; strides, descr, mask and, since
              version 3, stream are optional. The address is valid on a device, but the dict does not name the device,
              so gpu/for_arrays.py asks the driver. For an empty array the address is 0, and the driver is not asked.
The stream    Missing or None: nothing to wait for. 1 is the legacy default stream, 2 the per-thread one, above 2 a
              handle; 0 is forbidden, because it could mean either. Before version 3 the dict has no stream, though
              work may be pending.
What not      describe() loads no driver; the Description's device is None until the driver was asked.
Source        Numba-CUDA, "CUDA Array Interface (Version 3)"
Read next     dlpack_capsule.py
"""

from __future__ import annotations

from _operator import index

from ..errors import refusal
from ..tracing import listeners
from .array_interface import check_address, check_interface, meaning_of, owner_of, read_pointer, reader_by
from .description import Description, place
from .device_memory import gpu

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

__all__ = ["NAME", "UNORDERED", "describe", "reader_for"]

NAME = "cuda_array_interface"
UNORDERED = 0  # a Description's stream if the dict is too old to name one; never a handle


def describe(exporter: Any, kind: type[Description] = Description, stream: Any = None) -> Description | None:
    """Describe the memory by `__cuda_array_interface__`, or return None if it is not offered.

    kind     the class to make
    returns  a Description whose stream is a handle, None (nothing to wait for) or UNORDERED (unknown), and whose device
             is None; for_arrays.finish_view() replaces both
    raises   ProtocolError   malformed: see read_layout, read_pointer; a stream of 0, below 0, a bool or not an int
    """
    try:
        interface = exporter.__cuda_array_interface__
    except AttributeError:
        return None
    if type(interface) is not dict or listeners:
        interface = check_interface(exporter, interface, NAME)
        if interface is None:
            return None
    return _from_interface(exporter, interface, kind)


def reader_for(read_any: Any, read_others: Any, can_have_dlpack: bool) -> Any:
    """Return a reader for a type whose objects have `__cuda_array_interface__`; see reader_by."""
    earlier: tuple[str, ...] = ()
    if can_have_dlpack:
        earlier = ("__dlpack__",)
    return reader_by(NAME, earlier, _from_interface, _UNLOCATED, read_any, read_others, gpu)


def _from_interface(exporter: Any, interface: Any, kind: type[Description]) -> Description:
    """Describe the memory by the value of a `__cuda_array_interface__`; see describe()."""
    meaning = meaning_of(interface, NAME, _stream)
    shape, strides, dtype, low, high, pending = meaning
    data = None
    if "data" in interface:
        data = interface["data"]
    if type(data) is tuple and len(data) == 2 and type(data[0]) is int and type(data[1]) is bool:
        address, readonly = data
    elif data is None:
        raise refusal(NAME, "data", None, "is missing; the protocol requires it")
    else:
        address, readonly = read_pointer(data, NAME)
    if not low <= address <= high:
        check_address(read_pointer(data, NAME)[0], meaning, NAME)
    made: Description = (kind if pending is None else kind._streamed)()
    made._ptr, made._shape, made._strides, made._dtype = address, shape, strides, dtype
    made._place, made._owner, made.stream = _UNLOCATED[readonly], owner_of(exporter, interface), pending
    made._side = None
    return made


_UNLOCATED = place(None, False, NAME), place(None, True, NAME)


def _stream(interface: Mapping[str, Any]) -> int | None:
    # dicts written by users often lack it
    version = 0
    if "version" in interface:
        version = interface["version"]
    stream = None
    if "stream" in interface:
        stream = interface["stream"]
    if stream is None and type(version) is int and version >= 3:
        return None
    if isinstance(version, bool) or not hasattr(type(version), "__index__") or index(version) < 0:
        raise refusal(NAME, "version", version, "must be an int such as 3")
    if stream is None:
        if index(version) >= 3:
            return None
        return UNORDERED
    if isinstance(stream, bool) or not hasattr(type(stream), "__index__"):
        raise refusal(NAME, "stream", stream, "must be an int or None; export the stream's handle")
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
        raise refusal(NAME, "stream", handle, "is not a stream: a handle is in 1 .. 2**64-1")
    return handle
