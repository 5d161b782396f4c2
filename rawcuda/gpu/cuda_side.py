"""What views of CUDA memory need of a driver: which device an address is on, whether a label is right, and waiting.

What it is   the part of view() that is imported only when an exporter says that its memory is CUDA's.
Source       CUDA Driver API, "Unified Addressing": cuPointerGetAttribute; "Primary Context Management"
Read next    ordering.py
"""

from __future__ import annotations

import ctypes
from _thread import get_ident
from marshal import dumps
from struct import unpack

from .. import driver
from ..errors import CudaError, DriverNotFound, refusal
from ..protocols.cuda_array_interface import UNORDERED, known, left
from ..protocols.description import Description, Place, place
from ..protocols.dlpack import CudaSide
from ..tracing import careful
from .context import AnyContext
from .device import Device
from .ordering import device_of, wait_between
from .queue import NO_SYNC, handle_of
from .spans import copy_span, fill_span

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "LoadedSide",
    "copies",
    "copy_span",
    "empty_like",
    "empty_on",
    "fill_span",
    "check_label",
    "describe_known",
    "find_managed",
    "locate",
    "settle_description",
    "settle_stream",
    "spot",
]

# CUpointer_attribute
_MEMORY_TYPE, _ORDINAL, _IS_MANAGED = 2, 9, 8
_TYPE_HOST, _TYPE_DEVICE = 1, 2  # CUmemorytype


def _attribute(address: int, which: int) -> int | None:
    """Ask the driver about an address; None where it does not know it.

    calls   cuPointerGetAttribute
    """
    value = ctypes.c_uint64()
    try:
        with AnyContext():
            driver.current().cuPointerGetAttribute(ctypes.byref(value), which, address)
    except CudaError as error:
        if error.code == 1:  # CUDA_ERROR_INVALID_VALUE: not memory of this driver's
            return None
        raise
    return value.value & 0xFFFFFFFF


# The address to ask about, three words to be filled in, the call that does and its arguments; for one thread each.
_askers: list[tuple[Any, Any, Any, Any]] = []


def _asker() -> tuple[Any, Any, Any, Any]:
    loaded, words, cell = driver.current(), ctypes.create_string_buffer(24), ctypes.c_uint64()
    which = (ctypes.c_int * 3)(_MEMORY_TYPE, _ORDINAL, _IS_MANAGED)
    begin = ctypes.addressof(words)
    pointers = (ctypes.c_void_p * 3)(begin, begin + 8, begin + 16)
    arguments = (
        ctypes.c_uint.from_param(3),
        ctypes.byref(which),
        ctypes.byref(pointers),
        ctypes.c_void_p.from_buffer(cell),
    )
    return cell, words, loaded.raw("cuPointerGetAttributes"), arguments


def _read(answer: bytes) -> tuple[str, int] | None:
    type_, ordinal, managed = unpack("I4xI4xB7x", answer)
    if type_ not in (_TYPE_HOST, _TYPE_DEVICE):
        return None  # unknown, or worth an error: the single calls tell
    if managed:
        return "cuda_managed", ordinal
    return ("cuda_host", 0) if type_ == _TYPE_HOST else ("cuda", ordinal)


_spots: dict[bytes, tuple[Place, Place]] = {}  # of writable memory, and of read-only memory


def spot(address: int) -> tuple[Place, Place] | None:
    """Ask all three things in one call and return the Places that the CUDA Array Interface gives such memory, writable and read-only.

    None where that does not tell: no context is current, it is nobody's memory, calls are traced.
    calls   cuPointerGetAttributes
    """
    if careful:
        return None
    try:
        cell, words, call, arguments = entry = _askers.pop()
    except IndexError:  # every one is in use by some other thread
        cell, words, call, arguments = entry = _asker()
    cell.value = address
    failed, answer = call(*arguments), words.raw
    _askers.append(entry)
    if failed:
        return None
    try:
        return _spots[answer]
    except KeyError:
        where = _read(answer)
        if where is None:
            return None
        if len(_spots) >= 1000:
            _spots.clear()
        made = _spots[answer] = place(where, False, "cuda_array_interface"), place(where, True, "cuda_array_interface")
        return made


def describe_known(exporter: Any, kind: type[Description], stream: Any = None) -> Description | None:
    """Describe an object whose class offers the CUDA Array Interface, and no DLPack, the short way: None leaves it to the long one.

    The dict has six entries, all but `data` as one that was checked before, a plain address and no stream.
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
        shape, strides, dtype, low, high = known[typestr][dumps((extents, interface["strides"]), 2)]
        address, readonly = interface["data"]
        if (
            interface["stream"] is None
            and type(interface) is dict
            and len(interface) == 6
            and type(version) is int
            and version > 2
            and type(address) is int
            and low < address <= high
            and type(readonly) is bool
        ):
            where = spot(address)
            if where is not None:
                made = _new(kind)
                made.ptr, made.shape, made.strides, made.dtype, made._place = (
                    address,
                    shape,
                    strides,
                    dtype,
                    where[readonly],
                )
                made.owner, made.stream = exporter, stream
                return made
    except (
        KeyError,
        ValueError,
        TypeError,
        AttributeError,
    ):  # not seen before, or with something that is no plain number
        pass
    left[get_ident()] = exporter, interface  # read once
    return None


_new = object.__new__


def locate(address: int) -> tuple[str, int] | None:
    """Return the device record of an address, or None where the driver does not know it."""
    places = spot(address)
    if places is not None:
        return places[0].device  # type: ignore[return-value]
    type_ = _attribute(address, _MEMORY_TYPE)
    if type_ is None:
        return None
    ordinal = _attribute(address, _ORDINAL) or 0
    if (_attribute(address, _IS_MANAGED) or 0) & 0xFF:
        return "cuda_managed", ordinal
    return ("cuda_host", 0) if type_ == _TYPE_HOST else ("cuda", ordinal)


def settle_description(made: Description, stream: Any) -> None:
    """Find the device of a CUDA Array Interface's address, and make the using stream wait for the exporting one.

    stream  the stream that will use the memory, as given by the user
    raises  ProtocolError   the driver does not know the address
    """
    if 0 in made.shape:
        made.stream = stream
        return  # no address to ask about, and nothing to wait for
    where = locate(made.ptr)
    if where is None:
        raise refusal(
            "cuda_array_interface",
            "data",
            hex(made.ptr),
            "is no address that this driver knows; the exporter is at fault, or uses another driver",
        )
    made._place = place(where, made._place.readonly, made._place.protocol)
    settle_stream(made, stream)


def settle_stream(made: Description, stream: Any) -> None:
    """Make the using stream wait for the one that a Description says is at work, and note it in its place.

    stream  the stream that will use the memory, as given by the user
    """
    using, pending = handle_of(stream), made.stream
    made.stream = stream
    if pending is None or using == NO_SYNC:
        return
    if pending != UNORDERED and hasattr(made, "exporting_stream"):
        made.exporting_stream = pending
    try:
        driver.current()
    except DriverNotFound:  # then the memory only claims to be CUDA's
        return
    device = Device((made._place.device or ("cuda", 0))[1] or 0)
    if pending == UNORDERED:
        device.synchronize()  # before version 3 nobody says which stream is at work
    else:
        wait_between(using, pending, device)


def find_managed(made: Description) -> None:
    """Find the device of managed memory: DLPack says 0 for all of it."""
    if made._place.device and made._place.device[0] == "cuda_managed" and driver.is_loaded() and 0 not in made.shape:
        where = locate(made.ptr)
        if where is not None and where[0] == "cuda_managed":
            made._place = place(where, made._place.readonly, made._place.protocol)


def check_label(view: Description) -> None:
    """See that foreign memory is where its exporter says, before it is touched: nanobind once called device memory kDLCPU.

    raises  ProtocolError   the driver in use says otherwise
    """
    device, protocol = view._place.device, view._place.protocol
    if device is None or not protocol.startswith("dlpack") or 0 in view.shape or not driver.is_loaded():
        return
    where = locate(view.ptr)
    if (
        where is None
        and device[0] == "cuda"
        or where is not None
        and where != device
        and "cuda" in (where[0], device[0])
    ):
        there = "memory that it does not know" if where is None else f"{where[0]} {where[1]}"
        raise refusal(
            protocol,
            "device",
            f"{device[0]} {device[1]}",
            f"but the driver says of {view.ptr:#x} that it is {there}; the exporter is at fault",
        )


class LoadedSide(CudaSide):
    """What asking for CUDA memory needs of a driver, where one is in use."""

    def around(self, ordinal: int) -> Any:
        """Return a with block in which the device is current."""
        if not driver.is_loaded():
            return self
        return Device(ordinal).current()

    def settle(self, ordinal: int) -> bool:
        """Wait for all work on the device; False where no driver is in use."""
        if not driver.is_loaded():
            return False
        Device(ordinal).synchronize()
        return True


# -- what arrays need of a device


def copies() -> Any:
    """Return the copies and fills in which a device takes part."""
    from .copies import device_copy

    return device_copy


def empty_on(ordinal: int, shape: Any, dtype: Any, kind: str = "device") -> Any:
    """Make an array on a device, in C order, its contents undefined."""
    from ..arrays.making import empty

    return empty(Device(ordinal), shape, dtype, kind)


def empty_like(source: Any) -> Any:
    """Make an array in new memory of the kind that a view's memory has; None for pinned memory of somebody else's."""
    primary = device_of(source)
    if primary is None:
        return None
    return empty_on(primary.ordinal, source.shape, source.dtype, _KINDS[source.device[0]])


_KINDS = {"cuda_host": "pinned", "cuda": "device", "cuda_managed": "managed"}
