"""Reading a DLPack tensor: the C struct, no matter how its address was obtained.

What it is   `describe_tensor`, by which every DLPack tensor is read: from a capsule, from a C exchange table, or given
             to our own exchange table.
How          Most tensors look like an earlier one. So everything that follows from a tensor's fields is checked once
             and stored in tables: first by the fields other than sizes (device, ndim, dtype and flags, as bytes), then
             by shape and strides, as bytes. A tensor like an earlier one costs two reads and two look-ups.
What not     Nothing here depends on capsules, or on the caller that requested the tensor.
Source       dlpack.h 1.3, struct DLTensor, DLManagedTensor, DLManagedTensorVersioned
Read next    dlpack_capsule.py
"""

from __future__ import annotations

from struct import Struct, unpack

from ..dlpack import DEVICE_TYPES, FLAGS_AT, VERSION
from ..elements import layout
from ..elements.dtypes import from_dlpack
from ..errors import refusal
from ..interpreter.cpython import partial, unpacker, window
from ..remembered import Remembered
from .description import Description, Place, place

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from ..elements.dtypes import DType

    Ints = tuple[int, ...]
    Layout = tuple[Ints, Ints, DType, Place, int, int]  # shape, strides, dtype, place, and layout.bounds()
    # apart, together, known, work_out, separately: see learn()
    Kind = tuple[int, Any, Remembered[Any, Layout], Callable[[Any], Layout], Callable[[int, int], Any]]
    Kinds = Remembered[Any, Kind]

__all__ = ["BY_CAPSULE", "BY_TABLE", "NO_FLAGS", "MOST_LAYOUTS", "Moved", "describe_tensor", "learn", "read_versioned"]

MOST_LAYOUTS = 8000  # in a table, which then takes about 3 MB
NO_FLAGS = -1  # the flags of a tensor without flags: whether it is read-only is unknown
_CPU, _CUDA, _CUDA_HOST, _ROCM_HOST, _CUDA_MANAGED = 1, 2, 3, 11, 13

# One read for a whole struct: (major, flags,) data, 16 bytes with device, ndim and dtype, shape, strides, byte_offset
read_versioned, _read_plain = unpacker(f"I{FLAGS_AT - 4}xQP16sPPQ"), unpacker("P16sPPQ")

# The tensors seen by each protocol: (flags and) 16 bytes -> Kind; in that, shape and strides as bytes -> Layout
BY_CAPSULE: Kinds = Remembered(100)
BY_TABLE: Kinds = Remembered(100)


class Moved(Exception):
    """The tensor's memory was replaced while it was being read."""


def describe_tensor(
    kind: type[Description], kinds: Kinds, owner: Any, address: int, flags: int | None = None, within: Any = None
) -> Description:
    """Describe the tensor at an address.

    kind      the class to make
    kinds     BY_CAPSULE or BY_TABLE: the protocol by which it was obtained
    owner     the object that keeps the tensor's memory alive
    address   of a DLManagedTensorVersioned; if `flags` is given, of a DLTensor, which has no flags of its own
    flags     DLPack's flags, or NO_FLAGS: the memory is treated as read-only
    within    a torch storage that must contain all elements; it is checked after the tensor was read
    raises    ProtocolError   another major version, or a field that is not possible in a view
              Moved           the elements are not within the storage
    """
    if flags is None:
        major, flags, data, what, shape, strides, offset = read_versioned(window, address)
        if major != 1:
            raise _other_version(kinds, major)
    else:
        data, what, shape, strides, offset = _read_plain(window, address)
    try:
        learned = kinds.answers[(flags, what) if flags else what]
    except KeyError:
        learned = None
    # (a refusal would be shown below the KeyError)
    apart, together, known, work_out, separately = learned or learn(kinds, flags, what, strides - shape)
    if strides - shape == apart and 0xFFF < shape < 0x7FFFFFFFFFFFFFFF:
        seen = together(window, shape)
    else:
        seen = separately(shape, strides)
    try:
        worked_out = known.answers[seen]
    except KeyError:
        worked_out = None
    shape_, steps, dtype, where, low, high = worked_out or work_out(seen)
    begin, data = data, data + offset
    if not low <= data <= high or not begin and low:
        raise _misplaced(_protocol_of(kinds), begin, offset, shape_, steps)
    if within is not None and low:
        begin = within.data_ptr()
        if data < begin or data - high > begin + within.nbytes() - 0x10000000000000000:
            raise Moved
    made = kind()
    made._ptr, made._shape, made._strides, made._dtype = data, shape_, steps, dtype
    made._place, made._owner, made.stream = where, owner, None
    made._side = None
    return made


def _protocol_of(kinds: Kinds) -> str:
    if kinds is BY_CAPSULE:
        return "dlpack"
    return "dlpack_c_exchange"


def _misplaced(protocol: str, data: int, offset: int, shape: Ints, strides: Ints) -> Exception:
    """Return the error for elements that lie at no address, or outside of the address space."""
    if data and data + offset < 2**64:
        return layout.misplaced(protocol, data + offset, shape, strides)
    why = f"with byte_offset {offset} is not an address of elements; the exporter is at fault"
    return refusal(protocol, "data", data, why)


def _other_version(kinds: Kinds, major: int) -> Exception:
    return refusal(
        _protocol_of(kinds),
        "version.major",
        major,
        f"is not {VERSION[0]}, so the layout may differ; request max_version={VERSION}",
    )


def learn(kinds: Kinds, flags: int, what: bytes, distance: int) -> Any:
    """Check the fields other than sizes, and store their meaning.

    distance  the bytes from shape to strides in this tensor
    returns   the distance from shape to strides at which one read gets both; the function that reads both; the known
              layouts; the function that determines a new layout; the function that reads shape and strides separately
    raises    ProtocolError   a field that is not possible in a view
    """
    type_, id_, ndim, code, bits, lanes = unpack("iiiBBH", what)
    protocol = _protocol_of(kinds)
    legacy = flags == NO_FLAGS
    if not 0 <= ndim <= layout.MAX_NDIM:
        raise refusal(protocol, "ndim", ndim, f"must be in 0 .. {layout.MAX_NDIM}")
    dtype = from_dlpack(code, bits, lanes, not legacy and bool(flags & 4))
    if dtype.packed:
        raise refusal(
            protocol,
            "dtype",
            (code, bits, lanes),
            f"packs several {dtype} into a byte, so elements have no address; export them padded, or in lanes that "
            "fill a byte",
        )
    where = place(_device(type_, id_, protocol), legacy or bool(flags & 1), protocol, legacy)
    known: Remembered[Any, Layout] = Remembered(MOST_LAYOUTS)
    work_out = partial(_work_out, known, ndim, Struct(f"{2 * ndim}q").unpack, dtype, where)
    separately = partial(_read_separately, ndim, unpacker(f"{8 * ndim}s"), protocol)
    # NumPy stores strides directly after the shape, torch at a fixed distance: then one read gets both.
    extent = 8 * ndim
    if ndim and extent < distance <= 1024:
        apart = distance
    else:
        apart = extent
    together: Any = _read_nothing
    if ndim:
        together = unpacker(f"{2 * extent}s" if apart == extent else f"{extent}s{apart - extent}x{extent}s")
    return kinds.keep((flags, what) if flags else what, (apart, together, known, work_out, separately))


def _read_nothing(window: Any, shape: int) -> tuple[bytes, ...]:
    """Return the shape and strides of an array without dimensions."""
    return ()


def _read_separately(ndim: int, read: Any, protocol: str, shape: int, strides: int) -> tuple[bytes, ...]:
    """Read shape and, unless it is null, strides; without dimensions both pointers are ignored."""
    if not ndim:
        return ()
    for field, pointer in ("shape", shape), ("strides", strides):
        if not 0xFFF < pointer < 2**63 and (pointer or field == "shape"):
            raise refusal(protocol, field, hex(pointer), "is not a pointer; the exporter is at fault")
    extents: tuple[bytes, ...] = read(window, shape)
    if strides:
        extents += read(window, strides)
    return extents


def _work_out(
    known: Remembered[Any, Layout], ndim: int, unpack: Any, dtype: DType, where: Place, seen: tuple[bytes, ...]
) -> Layout:
    """Check the shape and, if present, the strides, and store their meaning."""
    raw, itemsize = seen[0] if len(seen) == 1 else b"".join(seen), dtype.itemsize
    if len(raw) == 16 * ndim:
        numbers: Ints = unpack(raw)
        shape, steps = numbers[:ndim], numbers[ndim:]
    else:  # the strides are null
        shape = Struct(f"{ndim}q").unpack(raw)
        steps = layout.c_strides(shape, 1)
    strides = tuple([step * itemsize for step in steps])
    low, high = layout.checked_bounds(where.protocol, shape, strides, itemsize)
    return known.keep(seen, (shape, strides, dtype, where, low, high))


def _device(type_: int, id_: int, protocol: str) -> tuple[str, int]:
    if type_ in (_CPU, _ROCM_HOST):
        return "cpu", 0  # some exporters leave the id undefined for host memory
    if type_ == _CUDA_HOST:
        return "cuda_host", 0
    if type_ in (_CUDA, _CUDA_MANAGED):
        if id_ < 0:
            raise refusal(protocol, "device.device_id", id_, "is negative; the exporter is at fault")
        return ("cuda" if type_ == _CUDA else "cuda_managed"), id_
    name = next((name for name, number in DEVICE_TYPES.items() if number == type_), "unknown to DLPack 1.3")
    raise refusal(
        protocol, "device.device_type", type_, f"({name}) is neither host nor CUDA memory; copy it to the host first"
    )
