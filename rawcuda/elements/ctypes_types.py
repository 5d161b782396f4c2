"""Element types of ctypes: read from the classes themselves, by `_fields_` and by the offsets of the fields.

What it is   `of_ctypes`, which finds the element type of a ctypes class, and `is_swapped`. The formats that ctypes
             writes for the buffer protocol are not used for structures: before Python 3.12 they leave out padding, base
             classes and packing, and up to today they do not tell bit fields.
What not     arrays: a buffer gives their shape. `element_of` returns the class of their elements.
Source       Python's documentation of ctypes, "Structured data types", "Fundamental data types"
Read next    scalars.py
"""

from __future__ import annotations

import ctypes

from ..errors import refusal
from .dtypes import _SWAPPED, ORDER, DType, Field, of, opaque, structure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["DATA", "element_of", "is_swapped", "of_ctypes"]

DATA: Any = ctypes._SimpleCData.__mro__[1]  # the base class of all ctypes objects
_ARRAY, _SIMPLE, _UNION, _STRUCTURE = ctypes.Array, ctypes._SimpleCData, ctypes.Union, ctypes.Structure
_SIGNED, _UNSIGNED, _COMPLEX = "bhilqv", "BHILQP", "CDEFG"  # (CPython 3.14 gave complex numbers several letters)


class _Probe(ctypes.Structure):
    _fields_ = [("field", ctypes.c_byte)]


_Descriptor: Any = type(vars(_Probe)["field"])


def element_of(kind: Any) -> Any:
    """Return the class of the elements of a ctypes array; of any other class, the class itself."""
    while issubclass(kind, _ARRAY):
        kind = kind._type_
    return kind


def is_swapped(kind: Any) -> bool:
    """Tell whether values of a ctypes class, or parts of them, are in the other byte order."""
    kind = element_of(kind)
    if issubclass(kind, (_STRUCTURE, _UNION)):
        return any([is_swapped(entry[1]) for base in kind.__mro__ for entry in vars(base).get("_fields_", ())])
    big, little = getattr(kind, "__ctype_be__", None), getattr(kind, "__ctype_le__", None)
    if ORDER == "<":
        other = big
    else:
        other = little
    return other in kind.__mro__ and big is not little  # (a byte has no order)


def of_ctypes(kind: Any) -> DType:
    """Find the element type of a ctypes class that is not an array.

    returns  for a union, a structure with bit fields, and parts in the other byte order: bytes, with a reason
    raises   ProtocolError   pointers, functions or Python objects, also within a structure
    """
    if issubclass(kind, _UNION):
        for entry in _entries(kind):
            of_ctypes(element_of(entry[1]))  # may refuse it
        return _bytes(kind, "it is a union, whose fields share their bytes: reinterpret() it as the one that is valid")
    if issubclass(kind, _STRUCTURE):
        return _of_structure(kind)
    code = getattr(kind, "_type_", None)
    if not issubclass(kind, _SIMPLE) or code in ("z", "Z", "O", "X"):
        what = "a pointer"
        if code == "O":
            what = "a Python object"
        raise refusal(
            "buffer", "type", kind.__name__, f"is {what}, which has no meaning elsewhere; leave it out, or use c_void_p"
        )
    dtype = _of_simple(code, ctypes.sizeof(kind))
    if dtype is None:
        return _bytes(kind, f"{kind.__name__} of {ctypes.sizeof(kind)} bytes is no element type")
    if is_swapped(kind):
        swapped = (">" if ORDER == "<" else "<") + dtype.typestr[1:]
        return opaque(swapped, dtype.itemsize, swapped, swapped[0] + dtype.format, None, (), _SWAPPED)
    return dtype


def _bytes(kind: Any, reason: str) -> DType:
    size = ctypes.sizeof(kind)
    return opaque(f"|V{size}", size, f"|V{size}", "", None, (), reason)


def _of_simple(code: Any, size: int) -> DType | None:
    """Return the element type for a code of ctypes, or None: long double and wchar_t differ between platforms."""
    name = ""
    if code in tuple(_SIGNED):
        name = f"int{8 * size}"
    elif code in tuple(_UNSIGNED):
        name = f"uint{8 * size}"
    elif code in ("f", "d", "g"):
        name = f"float{8 * size}"
    elif code in tuple(_COMPLEX):
        name = f"complex{8 * size}"
    elif code == "?" and size == 1:
        name = "bool"
    elif code == "c":
        name = "|S1"
    elif code == "u" and size == 4:
        name = "U1"
    try:
        return of(name)
    except TypeError:
        return None


def _entries(kind: Any) -> list[tuple[Any, ...]]:
    """Return the entries of `_fields_`, those of base classes first, each with the class that it belongs to."""
    return [
        (*entry[:2], base, *entry[2:]) for base in reversed(kind.__mro__) for entry in vars(base).get("_fields_", ())
    ]


def _of_structure(kind: Any) -> DType:
    fields: dict[str, Field] = {}
    reason = ""
    for name, type_, base, *width in _entries(kind):
        shape: tuple[int, ...] = ()
        inner = type_
        while issubclass(inner, _ARRAY):
            shape, inner = (*shape, inner._length_), inner._type_
        dtype = of_ctypes(inner)
        place = vars(base).get(name)
        if width:
            reason = reason or "it has bit fields, which are parts of bytes"
            continue
        field = Field(name, dtype, shape)
        if type(place) is not _Descriptor or place.size != field.nbytes:  # (a class of arrays can change, too)
            reason = reason or f"its field {name!r} was changed after the class was made"
        else:
            fields.pop(name, None)  # a field of the same name hides the one of a base class, or an earlier one
            field.offset, fields[name] = place.offset, field
    if reason:
        return _bytes(kind, reason)
    return structure(list(fields.values()), ctypes.sizeof(kind))
