"""The Arrow C data interface, its device variant, and its streams: arrays and columns of pyarrow, polars, pandas, cuDF.

What it is   `describe` reads an object with __arrow_c_device_array__, __arrow_c_array__ or __arrow_c_stream__: numbers,
             dates or runs of bytes of one size, without nulls. A fixed-size list of such elements has two or more
             dimensions.
Streams      A stream of one chunk is viewed; chunks without elements do not count. Several chunks are not one array:
             the refusal has their Descriptions, and copies put them together.
What not     Strings, booleans (one bit each), dictionaries, structures and other lists are refused: they are not
             strided memory. Then copies ask for `__array__`. If one of their elements is null, or if the type is an
             extension type, whose meaning the memory does not tell, the refusal ends the search.
Missing      A view cannot express nulls, so they are refused, also in the members of a structure. A datetime or
             duration of -2**63 is a time for Arrow, but NaT here: it is refused, too.
Lifetime     The array is moved out of its capsule, as the specification says, and is released once, after the last view
             of it. The schema stays in its capsule, which releases it. A stream is moved, too, and released after its
             last chunk was fetched.
Source       Apache Arrow, "The Arrow C data interface", "The Arrow C stream interface", "The Arrow C Device data
             interface", "The Arrow PyCapsule Interface"
Read next    choosing.py
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from struct import calcsize

from .. import tracing
from ..dlpack import taking
from ..elements import layout
from ..elements.dtypes import DType, of
from ..errors import ProtocolError, protecting, refusal
from ..interpreter.cpython import POINTER, bind, reader, untrack, watch_forks, watched
from .description import Description, describe_as, place
from .device_memory import gpu
from .refusals import InChunks, means_another

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    Ints = tuple[int, ...]

__all__ = ["Moved", "Parts", "describe", "facts", "fetch", "not_a_time"]

_is_valid = bind("PyCapsule_IsValid", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)
_pointer_of = bind("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)

# struct ArrowSchema: format, name, metadata; flags, n_children; children, dictionary, release
_read_schema = reader("3P2q3P")
_RELEASE_OF_SCHEMA, _SIZE_OF_SCHEMA = calcsize("3P2q2P"), calcsize("3P2q4P")
# struct ArrowArray: length, null_count, offset, n_buffers, n_children; buffers, children, dictionary, release
_read_array = reader("5q4P")
_RELEASE_OF_ARRAY, _SIZE_OF_ARRAY = calcsize("5q3P"), calcsize("5q5P0q")
_read_device = reader("qiP")  # of struct ArrowDeviceArray, after the array: device_id, device_type, sync_event
# struct ArrowArrayStream: get_schema, get_next, get_last_error, release
_read_stream = reader("4P")
_RELEASE_OF_STREAM, _SIZE_OF_STREAM = calcsize("3P"), calcsize("5P")
_read_pointer = reader("P")

_DEVICES = {1: "cpu", 2: "cuda", 3: "cuda_host", 13: "cuda_managed"}  # ArrowDeviceType, as in DLPack
_ON_DEVICE = 2, 13
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
_Get = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)  # it may wait for a thread that needs the GIL
_LastError = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)


class Moved:
    """The owner of a struct of Arrow that was moved to our memory; it is released when this is freed."""

    __slots__ = ("_struct", "_release")

    def __init__(self, struct: Any) -> None:
        self._struct, self._release = struct, 0
        untrack(self)

    def __del__(self, prototype: Any = _Release, address: Any = ctypes.addressof) -> None:
        if self._release:
            release, self._release = self._release, 0
            prototype(release)(address(self._struct))


def _move(source: int, size: int, at: int) -> Moved:
    """Move a struct out of its capsule; `at` is the offset of its field `release`, which is then null there."""
    owner = Moved(ctypes.create_string_buffer(size))
    ctypes.memmove(owner._struct, source, size)
    release = ctypes.c_size_t.from_address(source + at)
    taken, release.value = release.value, 0
    owner._release = taken  # in this order: after an interrupt, nobody releases it, instead of both
    return owner


class Parts:
    """What an object exports: a schema, and arrays, which share one device.

    schema   the address of the ArrowSchema; `holds` keeps it alive
    arrays   the address of each ArrowArray
    owners   the owner of each array of a stream; None: the array is still in its capsule
    device   (kind, ordinal)
    event    the address of the event to wait for, or 0
    unread   whether the host cannot read the arrays, or must not before the event
    """

    __slots__ = ("schema", "arrays", "owners", "holds", "device", "event", "unread")

    def __init__(self, schema: int, arrays: list[int], holds: Any) -> None:
        self.schema, self.arrays, self.holds = schema, arrays, holds
        self.owners: list[Moved] | None = None
        self.device, self.event, self.unread = ("cpu", 0), 0, False


def describe(exporter: Any, kind: type[Description] = Description, stream: Any = None) -> Description | None:
    """Describe an Arrow array; return None if the object does not offer it.

    raises  ProtocolError  it has nulls, elements that are not strided memory, or a struct that contradicts itself
            InChunks       it is a stream of several chunks
            MemoryError    a stream reports ENOMEM
    """
    made = fetch(exporter)
    if made is None:
        return None
    element = _element(made)
    if made.owners is not None:
        described = [_described(made, number, element, kind) for number in range(len(made.arrays))]
        if tracing.listeners:
            tracing.emit(tracing.Step("arrow", f"{type(exporter).__name__}.__arrow_c_stream__()", _told(described)))
        return _only(described, element, kind)
    if not watched:
        watch_forks()
    with taking:  # two threads may use one capsule at the same time
        described = [_described(made, 0, element, kind)]
        described[0]._owner = _move(made.arrays[0], _SIZE_OF_ARRAY, _RELEASE_OF_ARRAY)
    if tracing.listeners:
        tracing.emit(tracing.Step("arrow", f"{type(exporter).__name__}.__arrow_c_array__()", _told(described)))
    if made.event and made.device[0] != "cpu":
        gpu.wait_for_event(described[0], stream, _read_pointer(made.event)[0])
    return described[0]


def _told(described: list[Description]) -> str:
    shapes = ", ".join([str(each.shape) for each in described])
    if len(described) != 1:
        return f"-> {len(described)} arrays, of shape {shapes}"
    return f"-> shape {shapes}"


def _only(described: list[Description], element: tuple[DType, Ints], kind: type[Description]) -> Description:
    """Return the only chunk with elements; without one, an empty array."""
    dtype, inner = element
    filled = [each for each in described if each.shape[0]]
    if len(filled) == 1:
        return filled[0]
    if not filled:
        shape = (0, *inner)
        made: Description = describe_as(
            kind, 0, shape, layout.c_strides(shape, dtype.itemsize), dtype, place(("cpu", 0), True, "arrow", True), None
        )
        return made
    error = InChunks(
        f"arrow: chunks {len(filled)}: are apart in memory, so they are not one array: combine them first (pyarrow: "
        "combine_chunks(), polars: rechunk()), or copy the elements with upload(), copy() or an assignment",
        protocol="arrow",
        field="chunks",
    )
    error.chunks = filled
    raise error


def fetch(exporter: Any) -> Parts | None:
    """Ask an object for what it exports, by the first of the three interfaces that it offers and does not refuse."""
    refusals: list[Exception] = []
    for name, read in _WAYS:
        ask = getattr(exporter, name, None)
        if ask is not None:
            try:
                return read(ask, exporter)
            except Exception as refused:
                if isinstance(refused, ProtocolError) or not means_another(refused):
                    raise
                refusals.append(refused)
    try:
        if refusals:
            raise refusals[0]
        return None
    finally:
        del refusals  # the traceback of each refers to this frame


def _from_array(ask: Any, exporter: Any) -> Parts:
    pair = ask()
    schema, array = _addresses(pair, b"arrow_array")
    return Parts(schema, [array], pair)


def _from_device_array(ask: Any, exporter: Any) -> Parts:
    pair = ask()
    schema, array = _addresses(pair, b"arrow_device_array")
    made = Parts(schema, [array], pair)
    number, type_, made.event = _read_device(array + _SIZE_OF_ARRAY)
    if type_ not in _DEVICES:
        raise refusal("arrow", "device_type", type_, "is not host or CUDA memory; copy it there first")
    kind, on_device = _DEVICES[type_], type_ in _ON_DEVICE
    made.device = kind, number if on_device and number >= 0 else 0
    made.unread = on_device or (kind != "cpu" and made.event != 0)
    return made


def _open(ask: Any) -> tuple[Moved, Moved]:
    """Ask for a stream, and return its owner and that of its schema."""
    capsule = ask()
    if type(capsule).__name__ != "PyCapsule" or not _is_valid(capsule, b"arrow_array_stream"):
        raise refusal("arrow", "capsule", capsule, "must be a PyCapsule with the name 'arrow_array_stream'")
    address = _pointer_of(capsule, b"arrow_array_stream")
    if not watched:
        watch_forks()
    with taking:
        if not _read_stream(address)[3]:
            raise refusal("arrow", "release", 0, "means that the stream was released or taken already; export it again")
        stream = _move(address, _SIZE_OF_STREAM, _RELEASE_OF_STREAM)
    return stream, _next(stream, 0, _SIZE_OF_SCHEMA, _RELEASE_OF_SCHEMA)


def _from_stream(ask: Any, exporter: Any) -> Parts:
    stream, schema = _open(ask)
    if not hasattr(type(exporter), "__array__"):  # then nulls need not be looked for, and a reader keeps its data
        _element_of(ctypes.addressof(schema._struct))
    owners = []
    while True:
        owner = _next(stream, 1, _SIZE_OF_ARRAY, _RELEASE_OF_ARRAY)
        if not owner._release:
            break
        owners.append(owner)
    made = Parts(ctypes.addressof(schema._struct), [ctypes.addressof(each._struct) for each in owners], schema)
    made.owners = owners
    return made


def facts(exporter: Any, name: str) -> dict[str, Any]:
    """Return the fields of what an object exports by one of the interfaces, by name; no chunk of a stream is fetched.

    name     the attribute
    """
    if name == "__arrow_c_stream__":
        _, schema = _open(getattr(exporter, name))
        return {"format": _text(ctypes.addressof(schema._struct))}
    made = dict(_WAYS)[name](getattr(exporter, name), exporter)
    fields = "length", "null_count", "offset", "n_buffers", "n_children"
    return {"format": _text(made.schema), "device": made.device, **dict(zip(fields, _read_array(made.arrays[0])))}


def _text(schema: int) -> str:
    format_ = _read_schema(schema)[0]
    if format_:
        return ctypes.string_at(format_).decode("utf-8", "replace")
    return ""


# in the order in which they are tried
_WAYS = (
    ("__arrow_c_device_array__", _from_device_array),
    ("__arrow_c_array__", _from_array),
    ("__arrow_c_stream__", _from_stream),
)


def _next(stream: Moved, function: int, size: int, at: int) -> Moved:
    """Call get_schema (0) or get_next (1) of a stream, and return the owner of the struct that it fills.

    at       the offset of the struct's field `release`, which stays null after the last array
    """
    owner, address = Moved(ctypes.create_string_buffer(size)), ctypes.addressof(stream._struct)
    name, functions = ("get_schema", "get_next")[function], _read_stream(address)
    if not functions[function]:
        raise refusal("arrow", name, 0, "is a null pointer; the exporter is at fault")
    code = _Get(functions[function])(address, ctypes.addressof(owner._struct))
    if code:
        text = None
        if functions[2]:
            text = _LastError(functions[2])(address)
        if text:
            said = ctypes.string_at(text).decode("utf-8", "replace")
        else:
            said = os.strerror(abs(code))
        if code == errno.ENOMEM:
            raise MemoryError(f"arrow: {name}: {said}")
        raise refusal("arrow", name, code, f"is the error {errno.errorcode.get(code, 'unknown')} of the stream: {said}")
    owner._release = _read_pointer(ctypes.addressof(owner._struct) + at)[0]
    return owner


# -- one array


def _described(made: Parts, number: int, element: tuple[DType, Ints], kind: type[Description]) -> Description:
    """Check and describe an array of an export; its owner is set if it is not in a capsule."""
    array, (dtype, inner) = made.arrays[number], element
    if not _read_array(array)[8]:
        raise refusal("arrow", "release", 0, "means that the array was released or taken already; export it again")
    address, shape = _layout(array, dtype, inner, made.unread)
    if dtype.typestr[1:3] in ("M8", "m8") and not made.unread:
        for at in not_a_time(address, layout.size(shape)):
            raise protecting(
                "arrow",
                f"element {at}",
                -(2**63),
                f"is a time for Arrow, but NaT in the dtype {dtype}: convert the array first, for example to another "
                "unit",
            )
    strides = [dtype.itemsize]
    for extent in shape[:0:-1]:
        strides.insert(0, strides[0] * extent)
    where = place(made.device, True, "arrow", True)  # Arrow arrays are immutable
    owner = None
    if made.owners:
        owner = made.owners[number]
    described: Description = describe_as(kind, address, shape, tuple(strides), dtype, where, owner)
    return described


_NAT = (-(2**63)).to_bytes(8, sys.byteorder, signed=True)
_STEP = 1 << 17  # elements that are copied to be searched


def not_a_time(address: int, count: int) -> Iterator[int]:
    """Yield the positions of NaT among datetimes or timedeltas, which have 8 bytes."""
    for start in range(0, count, _STEP):
        raw = ctypes.string_at(address + 8 * start, 8 * min(_STEP, count - start))
        at = raw.find(_NAT)
        while at >= 0:
            if at % 8 == 0:
                yield start + at // 8
            at = raw.find(_NAT, at + 1)


def _addresses(pair: Any, name: bytes) -> tuple[int, int]:
    if not isinstance(pair, tuple) or len(pair) != 2:
        raise refusal("arrow", "capsules", pair, "must be a pair of capsules: a schema and an array")
    for capsule, wanted in zip(pair, (b"arrow_schema", name)):
        if type(capsule).__name__ != "PyCapsule" or not _is_valid(capsule, wanted):
            raise refusal("arrow", "capsule", capsule, f"must be a PyCapsule with the name {wanted.decode()!r}")
    return _pointer_of(pair[0], b"arrow_schema"), _pointer_of(pair[1], name)


def _element(made: Parts) -> tuple[DType, Ints]:
    """Return the type of the innermost elements; a refusal ends the search for a protocol if there are nulls."""
    try:
        return _element_of(made.schema)
    except ProtocolError as refused:
        if not refused.protects and refused.field != "schema":
            for array in made.arrays:
                missing = _missing_in(made.schema, array, made.unread)
                if missing:
                    raise protecting(
                        "arrow",
                        "null_count",
                        missing,
                        f"elements are null, which a view cannot represent: fill or drop them. And {refused}",
                    ) from None
        raise


def _element_of(schema: int, depth: int = 0) -> tuple[DType, Ints]:
    """Return the type of the innermost elements, and the extents of the fixed-size lists around them."""
    format_, _, metadata, _, n_children, children, dictionary, release = _read_schema(schema)
    if not format_ or not depth and not release:
        raise refusal("arrow", "schema", hex(format_), "has no format, or was released already; export it again")
    text = ctypes.string_at(format_).decode("utf-8", "replace")
    extension = _extension(metadata)
    if extension:
        raise protecting(
            "arrow",
            "extension type",
            extension,
            f"gives elements of format {text!r} a meaning that their memory does not tell: take the storage (pyarrow: "
            "array.storage), or convert the array first",
        )
    if dictionary:
        raise refusal("arrow", "dictionary", text, "means that the elements are indices; decode the dictionary first")
    if text.startswith("+w:"):
        if not _is_number(text[3:]) or n_children != 1 or depth > _MOST_NESTED:
            raise refusal(
                "arrow", "format", text, f"needs one child, and this has {n_children}; the exporter is at fault"
            )
        dtype, inner = _element_of(_child(children, 0), depth + 1)
        return dtype, (int(text[3:]), *inner)
    if n_children:
        raise refusal(
            "arrow", "format", text, f"has {n_children} children, so it is not strided memory: take one of them"
        )
    return _dtype_of(text), ()


def _child(children: int, at: int) -> int:
    """Return the address of a child of a schema or an array."""
    found: int = children and _read_pointer(children + POINTER * at)[0]
    if not found:
        raise refusal("arrow", "children", hex(children), "is null; the exporter is at fault")
    return found


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 19


def _extension(metadata: int) -> str:
    """Return the name of the extension type in the metadata of a schema, or an empty text."""
    if not metadata:
        return ""
    at, texts = metadata + 4, []
    for _ in range(2 * ctypes.c_int32.from_address(metadata).value):
        size = ctypes.c_int32.from_address(at).value
        texts.append(ctypes.string_at(at + 4, max(size, 0)))
        at += 4 + max(size, 0)
    found = dict(zip(texts[::2], texts[1::2])).get(b"ARROW:extension:name", b"")
    return found.decode("utf-8", "replace")


def _dtype_of(text: str) -> DType:
    if text in _NUMBERS:
        return of(_NUMBERS[text])
    if text[:2] in ("ts", "tD") and text[2:3] in tuple("smun") and (text[:2] == "tD" or text[3:4] == ":"):
        unit = {"s": "s", "m": "ms", "u": "us", "n": "ns"}[text[2]]
        return of(f"<{'M' if text[1] == 's' else 'm'}8[{unit}]")
    if text[:2] == "w:" and _is_number(text[2:]) and 0 < int(text[2:]) < 2**31:
        return of(f"|V{int(text[2:])}")
    if text == "n":
        raise protecting("arrow", "format", text, "holds only nulls: cast it to a type, and fill the nulls")
    if text == "b":
        why = "has one bit for each element, which has no address: cast it to uint8"
    else:
        why = "is not a number, a date or a run of bytes of one size: convert the array first"
    raise refusal("arrow", "format", text, why)


def _layout(array: int, dtype: DType, inner: Ints, unread: bool) -> tuple[int, Ints]:
    """Check a struct ArrowArray, and return the address of its first element and its shape."""
    shape: tuple[int, ...] = ()
    skipped = 0  # elements of the innermost array before the first one
    count = None
    for extent in (*inner, None):
        length, nulls, offset, n_buffers, n_children, buffers, children, dictionary, _ = _read_array(array)
        _check_numbers(length, nulls, offset)
        if dictionary:
            raise refusal("arrow", "dictionary", hex(dictionary), "is not in the schema; the exporter is at fault")
        if count is not None:
            _check_child(length, skipped + count)
        if extent is None:
            wanted = (2, 0)
        else:
            wanted = (1, 1)
        if (n_buffers, n_children) != wanted or not buffers:
            raise refusal(
                "arrow", "n_buffers, n_children", (n_buffers, n_children), f"must be {wanted} for this format"
            )
        valid = _read_pointer(buffers)[0]
        _check_valid(valid, nulls, offset + skipped, length if count is None else count, unread)
        if count is None:
            count = length
        if not shape:
            shape = (length,)
        skipped += offset
        if extent is None:
            break
        shape, count, skipped = (*shape, extent), count * extent, skipped * extent
        array = _child(children, 0)
    data = _read_pointer(buffers + 8)[0]
    if not data and count:
        raise refusal(
            "arrow", "buffers", 0, f"is null, although the array has {count} elements; the exporter is at fault"
        )
    try:
        size = layout.checked_size(shape, dtype.itemsize) * dtype.itemsize
    except ValueError as error:
        raise refusal("arrow", "length", shape, str(error)) from None
    first = 0
    if count:
        first = data + skipped * dtype.itemsize
    if first + size > 2**64:
        raise refusal("arrow", "offset", skipped, "leads out of the address space; the exporter is at fault")
    return first, shape


def _check_numbers(length: int, nulls: int, offset: int) -> None:
    """Check the numbers of a struct ArrowArray."""
    if not 0 <= length < 2**62 or not 0 <= offset < 2**62 or not -1 <= nulls <= length:
        raise refusal(
            "arrow", "length, null_count, offset", (length, nulls, offset), "is impossible; the exporter is at fault"
        )


def _check_child(length: int, wanted: int) -> None:
    """Check that a child has as many elements as its parent says."""
    if length < wanted:
        raise refusal("arrow", "children", length, f"has fewer than {wanted} elements; the exporter is at fault")


def _check_valid(bits: int, nulls: int, first: int, count: int, unread: bool) -> None:
    """Check that no element is null."""
    if nulls < 0 and bits and count and unread:
        raise protecting("arrow", "null_count", -1, "means that nulls were not counted: drop them, or count them first")
    missing = _missing(bits, nulls, first, count, unread)
    if missing:
        raise protecting(
            "arrow", "null_count", missing, "elements are null, which a view cannot represent: fill or drop them"
        )


def _missing(bits: int, nulls: int, first: int, count: int, unread: bool) -> int:
    """Return the number of nulls among some elements of an array."""
    if not nulls or not count or not bits:
        if nulls > 0 and not bits:
            raise refusal("arrow", "null_count", nulls, "needs a bitmap of the nulls; the exporter is at fault")
        return 0
    if unread:
        return abs(nulls)
    begin = first // 8
    raw = int.from_bytes(ctypes.string_at(bits + begin, (first + count + 7) // 8 - begin), "little") >> first % 8
    return count - bin(raw & ((1 << count) - 1)).count("1")


def _missing_in(schema: int, array: int, unread: bool, part: Any = None, depth: int = 0) -> int:
    """Return the number of nulls in an array that cannot be viewed, and in all that it consists of.

    part    the first element and the number of elements that are meant; None: all
    """
    _, _, _, _, n_children, children, dictionary, _ = _read_schema(schema)
    length, nulls, offset, n_buffers, has_children, buffers, parts, indexed, _ = _read_array(array)
    text = _text(schema)
    first, count = part or (0, length)
    _check_numbers(length, nulls, offset)
    _check_child(length, first + count)
    if text == "n":
        return int(count)
    first += offset
    found = 0
    if n_buffers and buffers and not text.startswith(("+u", "+r")):  # unions and runs have no bitmap of their own
        found = _missing(_read_pointer(buffers)[0], nulls, first, count, unread)
    if depth > _MOST_NESTED or n_children != has_children:
        return found
    for at in range(n_children):
        below: Any = None
        if text == "+s":
            below = first, count
        elif text.startswith("+w:") and _is_number(text[3:]):
            below = first * int(text[3:]), count * int(text[3:])
        found += _missing_in(_child(children, at), _child(parts, at), unread, below, depth + 1)
    if dictionary and indexed:
        found += _missing_in(dictionary, indexed, unread, None, depth + 1)
    return found
