"""The Arrow C data interface, and the Arrow C device data interface: arrays of pyarrow, polars, cuDF.

What it is   `describe` reads an object with __arrow_c_device_array__ or __arrow_c_array__: an array of numbers, dates
             or runs of bytes of one size, without nulls. A fixed-size list of such elements has two or more dimensions.
What not     It is tried only if the caller names the protocol, as in view(x, protocol="arrow"). Strings, booleans (one
             bit each), dictionaries and structures are refused: they are not strided memory.
Lifetime     The array is moved out of its capsule, as the specification says, and is released once, after the last view
             of it. The schema stays in its capsule, which releases it.
Source       Apache Arrow, "The Arrow C data interface", "The Arrow C Device data interface", "The Arrow PyCapsule
             Interface"
Read next    choosing.py
"""

from __future__ import annotations

import ctypes

from ..dlpack import taking
from ..doors import gpu
from ..elements import layout
from ..elements.dtypes import DType, of
from ..errors import refusal
from ..interpreter.cpython import bind, reader
from .description import Description, describe_as, place

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Ints = tuple[int, ...]

__all__ = ["Moved", "describe"]

_is_valid = bind("PyCapsule_IsValid", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)
_pointer_of = bind("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)

# struct ArrowSchema: format, name, metadata; flags, n_children; children, dictionary, release
_read_schema = reader("QQQqqQQQ")
# struct ArrowArray: length, null_count, offset, n_buffers, n_children; buffers, children, dictionary, release
_read_array = reader("qqqqqQQQQ")
_RELEASE_OF_ARRAY, _SIZE_OF_ARRAY = 64, 80
_read_device = reader("qi4xQ")  # of struct ArrowDeviceArray, after the array: device_id, device_type, sync_event
_read_pointer = reader("Q")

_DEVICES = {1: "cpu", 2: "cuda", 3: "cuda_host", 13: "cuda_managed"}  # ArrowDeviceType, as in DLPack
_NUMBERS = {
    "c": "int8",
    "C": "uint8",
    "s": "int16",
    "S": "uint16",
    "i": "int32",
    "I": "uint32",
    "l": "int64",
    "L": "uint64",
    "e": "float16",
    "f": "float32",
    "g": "float64",
    "tdD": "int32",
    "tts": "int32",
    "ttm": "int32",
    "ttu": "int64",
    "ttn": "int64",
    "tdm": "<M8[ms]",
    "tiM": "int32",
}
_MOST_NESTED = 8


_Release = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)


class Moved:
    """The owner of an ArrowArray that was moved out of its capsule; it is released when this is freed."""

    __slots__ = ("_struct", "_release")

    def __init__(self, struct: Any) -> None:
        self._struct, self._release = struct, 0

    def __del__(self, prototype: Any = _Release, address: Any = ctypes.addressof) -> None:
        if self._release:
            release, self._release = self._release, 0
            prototype(release)(address(self._struct))


def describe(exporter: Any, kind: type[Description], stream: Any) -> Description | None:
    """Describe an Arrow array; return None if the object does not offer it.

    raises  ProtocolError  it has nulls, elements that are not strided memory, or a struct that contradicts itself
    """
    on_device = hasattr(type(exporter), "__arrow_c_device_array__")
    if not on_device and not hasattr(type(exporter), "__arrow_c_array__"):
        return None
    if not on_device and not hasattr(exporter, "__arrow_c_array__"):  # a property may say that this one cannot
        return None
    pair = exporter.__arrow_c_device_array__() if on_device else exporter.__arrow_c_array__()
    name = b"arrow_device_array" if on_device else b"arrow_array"
    schema, array = _addresses(pair, name)
    dtype, inner = _element_of(schema)
    device, event = ("cpu", 0), 0
    if on_device:
        number, type_, event = _read_device(array + _SIZE_OF_ARRAY)
        if type_ not in _DEVICES:
            raise refusal("arrow", "device_type", type_, "is not host or CUDA memory; copy it there first")
        device = _DEVICES[type_], number if _DEVICES[type_] in ("cuda", "cuda_managed") and number >= 0 else 0
    owner = Moved(ctypes.create_string_buffer(_SIZE_OF_ARRAY))
    with taking:  # two threads may use one capsule at the same time
        release = _read_array(array)[8]
        if not release:
            raise refusal("arrow", "release", 0, "means that the array was released or taken already; export it again")
        address, shape = _layout(array, dtype, inner, device[0])
        ctypes.memmove(owner._struct, array, _SIZE_OF_ARRAY)
        ctypes.c_uint64.from_address(array + _RELEASE_OF_ARRAY).value = 0
        owner._release = release
    strides = [dtype.itemsize]
    for extent in shape[:0:-1]:
        strides.insert(0, strides[0] * extent)
    where = place(device, True, "arrow", True)  # Arrow arrays are immutable
    made: Description = describe_as(kind, address, shape, tuple(strides), dtype, where, owner)
    if event and device[0] != "cpu":
        gpu().wait_for_event(made, stream, _read_pointer(event)[0])
    return made


def _addresses(pair: Any, name: bytes) -> tuple[int, int]:
    if not isinstance(pair, tuple) or len(pair) != 2:
        raise refusal("arrow", "capsules", pair, "must be a pair of capsules: a schema and an array")
    for capsule, wanted in zip(pair, (b"arrow_schema", name)):
        if type(capsule).__name__ != "PyCapsule" or not _is_valid(capsule, wanted):
            raise refusal("arrow", "capsule", capsule, f"must be a PyCapsule with the name {wanted.decode()!r}")
    return _pointer_of(pair[0], b"arrow_schema"), _pointer_of(pair[1], name)


def _element_of(schema: int, depth: int = 0) -> tuple[DType, Ints]:
    """Return the type of the innermost elements, and the extents of the fixed-size lists around them."""
    format_, _, _, _, n_children, children, dictionary, release = _read_schema(schema)
    if not format_ or not depth and not release:
        raise refusal("arrow", "schema", hex(format_), "has no format, or was released already; export it again")
    text = ctypes.string_at(format_).decode("utf-8", "replace")
    if dictionary:
        raise refusal("arrow", "dictionary", text, "means that the elements are indices; decode the dictionary first")
    if text.startswith("+w:"):
        if not text[3:].isdigit() or n_children != 1 or not children or depth > _MOST_NESTED:
            raise refusal(
                "arrow", "format", text, f"needs one child, and this has {n_children}; the exporter is at fault"
            )
        dtype, inner = _element_of(_read_pointer(children)[0], depth + 1)
        return dtype, (int(text[3:]), *inner)
    if n_children:
        raise refusal(
            "arrow", "format", text, f"has {n_children} children, so it is not strided memory: take one of them"
        )
    return _dtype_of(text), ()


def _dtype_of(text: str) -> DType:
    if text in _NUMBERS:
        return of(_NUMBERS[text])
    if text[:2] in ("ts", "tD") and text[2:3] in tuple("smun") and (text[:2] == "tD" or text[3:4] == ":"):
        unit = {"s": "s", "m": "ms", "u": "us", "n": "ns"}[text[2]]
        return of(f"<{'M' if text[1] == 's' else 'm'}8[{unit}]")
    if text[:2] == "w:" and text[2:].isdigit() and 0 < int(text[2:]) < 2**31:
        return of(f"|V{int(text[2:])}")
    why = {
        "n": "holds only nulls",
        "b": "has one bit for each element, which has no address: cast it to uint8",
    }.get(text, "is not a number, a date or a run of bytes of one size: convert the array first")
    raise refusal("arrow", "format", text, why)


def _layout(array: int, dtype: DType, inner: Ints, device: str) -> tuple[int, Ints]:
    """Check a struct ArrowArray, and return the address of its first element and its shape."""
    shape: tuple[int, ...] = ()
    skipped = 0  # elements of the innermost array before the first one
    count = None
    for extent in (*inner, None):
        length, nulls, offset, n_buffers, n_children, buffers, children, dictionary, _ = _read_array(array)
        if not 0 <= length < 2**62 or not 0 <= offset < 2**62 or dictionary or nulls < -1 or nulls > length:
            raise refusal("arrow", "length, offset", (length, offset), "is impossible; the exporter is at fault")
        if count is not None and length < skipped + count:
            raise refusal(
                "arrow", "children", length, f"has fewer than {skipped + count} elements; the exporter is at fault"
            )
        wanted = (2, 0) if extent is None else (1, 1)
        if (n_buffers, n_children) != wanted or not buffers:
            raise refusal(
                "arrow", "n_buffers, n_children", (n_buffers, n_children), f"must be {wanted} for this format"
            )
        valid = _read_pointer(buffers)[0]
        _check_valid(valid, nulls, offset + skipped, length if count is None else count, device)
        count = length if count is None else count
        if not shape:
            shape = (length,)
        skipped += offset
        if extent is None:
            break
        shape, count, skipped = (*shape, extent), count * extent, skipped * extent
        if not children or not _read_pointer(children)[0]:
            raise refusal("arrow", "children", hex(children), "is null; the exporter is at fault")
        array = _read_pointer(children)[0]
    data = _read_pointer(buffers + 8)[0]
    if not data and count:
        raise refusal(
            "arrow", "buffers", 0, f"is null, although the array has {count} elements; the exporter is at fault"
        )
    try:
        size = layout.checked_size(shape, dtype.itemsize) * dtype.itemsize
    except ValueError as error:
        raise refusal("arrow", "length", shape, str(error)) from None
    first = data + skipped * dtype.itemsize if count else 0
    if first + size > 2**64:
        raise refusal("arrow", "offset", skipped, "leads out of the address space; the exporter is at fault")
    return first, shape


def _check_valid(bits: int, nulls: int, first: int, count: int, device: str) -> None:
    """Check that no element is null."""
    if not bits or not nulls or not count:
        return
    if nulls < 0 and device == "cuda":
        raise refusal("arrow", "null_count", -1, "means that nulls were not counted: drop them, or count them first")
    begin = first // 8
    raw = int.from_bytes(ctypes.string_at(bits + begin, (first + count + 7) // 8 - begin), "little") >> first % 8
    missing = count - bin(raw & ((1 << count) - 1)).count("1")
    if missing:
        raise refusal(
            "arrow", "null_count", missing, "elements are null, which a view cannot represent: fill or drop them"
        )
