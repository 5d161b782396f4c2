"""The export of a view through the Arrow C data interface: a schema and an array, each in a capsule.

What it is   `arrow_format`, which tells whether a view can be exported; `arrow_capsules`, the export.
Missing      NaT is null for Arrow, so datetimes and timedeltas are searched for it, and if there is one, the array gets
             a bitmap of its nulls. NaN is a number for Arrow, too.
Lifetime     A consumer moves the struct out of its capsule, and calls `release` once, from any thread. A number in the
             struct's private_data, not its address, identifies what it keeps alive. A struct that was not moved is
             released by its capsule. `release` needs the interpreter: C code must not call it after its end.
What not     device memory, and more than one dimension. Arrow's arrays are immutable, but these share their memory with
             the view: a write through the view changes them, except their bitmap.
Source       Apache Arrow, "The Arrow C data interface", "The Arrow PyCapsule Interface"
Read next    ../protocols/arrow.py
"""

from __future__ import annotations

import ctypes
from functools import partial
from itertools import count

from ..errors import refusal
from ..interpreter.callback import available, callback
from ..interpreter.cpython import bind
from ..protocols.arrow import not_a_time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .strided import StridedView

__all__ = ["arrow_capsules", "arrow_exporter", "arrow_format"]

_FORMATS = {
    "int8": "c",
    "uint8": "C",
    "int16": "s",
    "uint16": "S",
    "int32": "i",
    "uint32": "I",
    "int64": "l",
    "uint64": "L",
    "float16": "e",
    "float32": "f",
    "float64": "g",
}
_UNITS = {"s": "s", "ms": "m", "us": "u", "ns": "n"}


class _Schema(ctypes.Structure):
    """A struct ArrowSchema."""

    _fields_ = [
        ("format", ctypes.c_char_p),
        ("name", ctypes.c_char_p),
        ("metadata", ctypes.c_char_p),
        ("flags", ctypes.c_int64),
        ("n_children", ctypes.c_int64),
        ("children", ctypes.c_void_p),
        ("dictionary", ctypes.c_void_p),
        ("release", ctypes.c_size_t),
        ("private_data", ctypes.c_size_t),
    ]


class _Array(ctypes.Structure):
    """A struct ArrowArray."""

    _fields_ = [
        ("length", ctypes.c_int64),
        ("null_count", ctypes.c_int64),
        ("offset", ctypes.c_int64),
        ("n_buffers", ctypes.c_int64),
        ("n_children", ctypes.c_int64),
        ("buffers", ctypes.c_void_p),
        ("children", ctypes.c_void_p),
        ("dictionary", ctypes.c_void_p),
        ("release", ctypes.c_size_t),
        ("private_data", ctypes.c_size_t),
    ]


_kept: dict[int, Any] = {}  # private_data -> what the struct keeps alive
_structs: dict[int, Any] = {}  # the address of a struct in a capsule -> the struct
_numbers = count(1)
_callbacks: dict[Any, tuple[int, Any]] = {}  # the type of a struct -> its release, the destructor of its capsules
_new_capsule = bind("PyCapsule_New", ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
_NAMES = {_Schema: ctypes.c_char_p(b"arrow_schema"), _Array: ctypes.c_char_p(b"arrow_array")}  # capsules keep them


def arrow_format(view: StridedView) -> str | None:
    """Return the Arrow format of a view's elements, or None if the view cannot be exported in this way."""
    if view.ndim != 1 or not view.is_c_contiguous or not view._place.is_host or not available():
        return None
    dtype = view.dtype
    name, text = dtype.name, dtype.typestr
    if dtype.lanes != 1 or dtype.names:
        return None
    if name in _FORMATS:
        return _FORMATS[name]
    if text[1:3] in ("M8", "m8") and text[4:-1] in _UNITS:
        unit = _UNITS[text[4:-1]]
        if text[1] == "M":
            return f"ts{unit}:"
        return f"tD{unit}"
    if text[:2] in ("|V", "|S") and text[2:].isdigit() and int(text[2:]):
        return f"w:{text[2:]}"
    return None


def arrow_exporter(view: StridedView) -> Any:
    """Return the method `__arrow_c_array__` of a view.

    raises  AttributeError  the view cannot be exported: so hasattr() is False, and consumers try another protocol
    """
    if arrow_format(view) is None:
        raise AttributeError("only views of host memory with one dimension and no gaps are Arrow arrays")
    return partial(arrow_capsules, view)


def arrow_capsules(view: StridedView, requested_schema: Any = None) -> tuple[Any, Any]:
    """Implement `__arrow_c_array__`: return the capsules of an ArrowSchema and an ArrowArray.

    requested_schema  ignored, as the specification permits: the consumer gets the type that the view has
    raises            ProtocolError  (a BufferError) the view cannot be exported
    """
    format_ = arrow_format(view)
    if format_ is None:
        raise refusal("arrow", "format", str(view.dtype), "cannot be exported: use a one-dimensional copy on the host")
    view._check_label()
    held = view._held()
    nulls, valid = _nulls(view)
    buffers = (ctypes.c_void_p * 2)(None if valid is None else ctypes.addressof(valid), view.ptr)
    text = ctypes.create_string_buffer(format_.encode())
    schema = _Schema(format=ctypes.cast(text, ctypes.c_char_p), name=b"", flags=_NULLABLE if nulls else 0)
    array = _Array(length=view.size, null_count=nulls, n_buffers=2, buffers=ctypes.addressof(buffers))
    return _capsule(schema, text), _capsule(array, (buffers, valid, held))


_NULLABLE = 2  # ARROW_FLAG_NULLABLE


def _nulls(view: StridedView) -> tuple[int, Any]:
    """Return the number of elements that are NaT, and a bitmap of those that are not; None if all are valid."""
    if view.dtype.typestr[1:3] not in ("M8", "m8"):
        return 0, None
    nulls, valid = 0, None
    for at in not_a_time(view.ptr, view.size):
        if valid is None:
            valid = (ctypes.c_uint8 * ((view.size + 7) // 8))(*[0xFF] * ((view.size + 7) // 8))
        valid[at // 8] &= ~(1 << at % 8)
        nulls += 1
    return nulls, valid


def _capsule(struct: Any, keeps: Any) -> Any:
    """Put a struct into a capsule."""
    kind = type(struct)
    if kind not in _callbacks:
        _callbacks[kind] = _begin(kind)
    release, destructor = _callbacks[kind]
    number = next(_numbers)
    struct.release, struct.private_data = release, number
    _kept[number] = keeps
    address = ctypes.addressof(struct)
    _structs[address] = struct
    try:
        return _new_capsule(address, _NAMES[kind], destructor)
    except BaseException:
        _kept.pop(number, None)
        _structs.pop(address, None)
        raise


def _begin(kind: Any) -> tuple[int, int]:
    """Return the release of a type of struct, and the destructor of its capsules."""
    at, private = kind.release.offset, kind.private_data.offset
    pointer_of = bind("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)
    kept, structs, name, word = _kept, _structs, _NAMES[kind], ctypes.c_size_t.from_address

    def release(address: Any) -> None:
        word(address + at).value = 0
        kept.pop(word(address + private).value, None)

    def dropped(capsule: Any) -> None:
        address = pointer_of(capsule, name)
        struct = structs.pop(address, None)
        if struct is not None and struct.release:  # it was not moved
            release(address)

    # Consumers end the process if a struct is not released afterwards.
    return callback(release, is_certain=True), callback(dropped)
