"""A buffer exporter for Python 3.9 to 3.11, where a class written in Python cannot be one.

What it is   a heap type whose bf_getbuffer slot is a callback of ours: it hands out a Py_buffer that was filled before, and
             names its own object, which keeps the memory alive.
What not     from 3.12 on `__buffer__` does it, and nothing here is used.
Why so       PyMemoryView_FromBuffer makes a memoryview of any layout, but without an owner. Nothing pends when a buffer is
             asked for, so a plain callback is safe here; it cannot raise, and so it grants whatever is asked. Therefore the
             object is wrapped in a memoryview at once, which answers for itself to everybody else.
Source       Python/C API Reference Manual, "Buffer Object Structures", PyType_FromSpecWithBases
Read next    strided.py
"""

from __future__ import annotations

import ctypes

from ..protocols.buffer import Py_buffer
from .cpython import bind, immortal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["exporter_of"]

_BF_GETBUFFER, _FLAGS = 1, 1 << 18  # Py_bf_getbuffer, Py_TPFLAGS_DEFAULT
_retain = bind("Py_IncRef", None, ctypes.py_object)
_type: Any = None


def exporter_of(owner: Any, struct: Py_buffer) -> Any:
    """Return an object whose buffer is what a struct says, and that keeps `owner` alive."""
    global _type
    if _type is None:
        _type = _make_type()
    made = _type()
    made.owner, made.struct = owner, struct
    return made


def _make_type() -> Any:
    class Slot(ctypes.Structure):  # PyType_Slot
        _fields_ = [("slot", ctypes.c_int), ("function", ctypes.c_void_p)]

    class Spec(ctypes.Structure):  # PyType_Spec
        _fields_ = [
            ("name", ctypes.c_char_p),
            ("basicsize", ctypes.c_int),
            ("itemsize", ctypes.c_int),
            ("flags", ctypes.c_uint),
            ("slots", ctypes.POINTER(Slot)),
        ]

    class Holder:
        __slots__ = ("owner", "struct")

    prototype = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p, ctypes.c_int)
    fill = immortal(prototype(_fill))
    slots = (Slot * 2)(Slot(_BF_GETBUFFER, ctypes.cast(fill, ctypes.c_void_p).value), Slot(0, None))
    spec = Spec(f"{__name__}.Exporter".encode(), 0, 0, _FLAGS, slots)
    immortal((slots, spec))
    return bind("PyType_FromSpecWithBases", ctypes.py_object, ctypes.POINTER(Spec), ctypes.py_object)(spec, (Holder,))


def _fill(exporter: Any, address: int, flags: int) -> int:
    """Fill a caller's Py_buffer; the flags are not looked at, since only a memoryview ever asks, for everything."""
    ctypes.memmove(address, ctypes.addressof(exporter.struct), ctypes.sizeof(Py_buffer))
    _retain(exporter)  # PyBuffer_Release takes it back
    Py_buffer.from_address(address).obj = id(exporter)
    return 0
