"""The kinds of argument types, by which packing.py chooses the function that packs an argument.

What it is   `kind_of`, the kind of a type; `is_plain`, which tells whether struct itself converts its values; and
             `is_exporter`, a test of a value whose type does not say what it is.
What not     An argument is one of our arrays only because of its type, never because of its attributes. And a kind
             never depends on the attributes of a type, which may change: packing.py remembers kinds.
Source       Python's documentation of ctypes and struct; NumPy, "Scalars"
Read next    packing.py
"""

from __future__ import annotations

import ctypes
import sys

from ...arrays.strided import _MemoryView
from ...elements.dtypes import of
from ...errors import ProtocolError
from ...protocols.choosing import OFFERS
from ...protocols.description import Description
from ...protocols.refusals import means_another
from ...remembered import HEAP
from ..memory.memory import Memory
from .declared_parameters import In, Passed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["is_exporter", "is_numpys_own", "is_plain", "kind_of"]


def kind_of(kind: type) -> str:
    """Return the kind of a type, a key of the dictionaries below; "other" means that each value must be tested.

    It depends on nothing but the bases of the type.
    """
    if kind in _EXACT:
        return _EXACT[kind]
    for bases, sort in _BASES:
        if issubclass(kind, bases):
            return sort
    numpy = sys.modules.get("numpy")  # a NumPy scalar exists only where NumPy was imported
    if issubclass(kind, getattr(numpy, "generic", ())) and not issubclass(kind, str):
        return _numpy_kind(kind, numpy)
    for base, sort in ((int, "integral"), (float, "float"), (complex, "complex"), (str, "text")):
        if issubclass(kind, base):
            return sort
    return "other"


_EXACT: dict[type, str] = {int: "int", bool: "bool", float: "float", type(None): "none", _MemoryView: "own view"}
_BASES: tuple[tuple[type | tuple[type, ...], str], ...] = (
    (bytes, "bytes"),
    (In, "in"),
    (Memory, "memory"),
    (Passed, "passed"),
    (Description, "view"),
    (ctypes._SimpleCData, "ctypes value"),
    ((ctypes.Structure, ctypes.Union), "ctypes structure"),
    (ctypes.Array, "ctypes array"),
    (ctypes._Pointer, "ctypes pointer"),
)


def _numpy_kind(kind: type, numpy: Any) -> str:
    if issubclass(kind, numpy.bool_):
        return "numpy bool"
    if issubclass(kind, numpy.timedelta64):  # (a signedinteger, but not a number)
        return "numpy other"
    for base, sort in (
        (numpy.integer, "numpy integer"),
        (numpy.floating, "numpy float"),
        (numpy.complexfloating, "numpy complex"),
    ):
        if issubclass(kind, base):
            return sort
    try:
        return "numpy float" if of(kind).kind == "float" else "numpy other"  # (those of ml_dtypes)
    except (TypeError, ProtocolError):  # text, dates, structures
        return "numpy other"


def is_numpys_own(kind: type) -> bool:
    """Tell whether a type is one of NumPy's scalars, not a subclass in Python."""
    numpy = sys.modules.get("numpy")
    return issubclass(kind, getattr(numpy, "generic", ())) and not kind.__flags__ & HEAP


def is_plain(kind: type, form: str, size: int) -> bool:
    """Tell whether struct itself converts each value of a type for a slot, or raises an error.

    A NumPy type counts if its values have at most the size of the slot. Its subclasses may have any value. Of numbers
    for 4 bytes, struct does not refuse those that are too large for a float32, and rounds ints of 8 bytes twice.
    """
    if kind is bool or form == "real" and size != 4 and kind in (int, float):
        return True
    numpy = sys.modules.get("numpy")
    if not issubclass(kind, (getattr(numpy, "integer", ()), getattr(numpy, "floating", ()))):
        return False
    try:
        dtype = numpy.dtype(kind)  # type: ignore[union-attr]
    except TypeError:
        return False
    if form == "real" and size != 4:
        size = 8
    return dtype.type is kind and dtype.itemsize <= size and dtype.kind in _PLAIN[form]


_PLAIN = {"address": "iu", "typed": "iu", "integer": "iu", "real": "iuf", "bytes": ""}


def is_exporter(value: Any) -> bool:
    """Tell whether an object of an unknown type is an array: it has a buffer, or an attribute of a protocol."""
    if isinstance(value, type):  # the class has the attribute; only its instances have memory
        return False
    kind = type(value)
    for name in OFFERS:
        if hasattr(kind, name):
            return True
    try:
        memoryview(value).release()
        return True
    except TypeError:
        return any([hasattr(value, name) for name in OFFERS])
    except Exception as refused:
        if not means_another(refused):
            raise
        return True
