"""A memoryview of any memory that keeps an object of ours alive, on every Python.

What it is   `memoryview_of`: PyMemoryView_FromBuffer makes a memoryview of any layout, but without an owner. So a short-lived
             object of a heap type, whose bf_getbuffer slot is a callback of ours, is asked for its buffer. It hands out a
             Py_buffer that was filled before, and names the object that keeps the memory alive as the exporter.
Why so       The `obj` of the memoryview is that object (a view), never the short-lived one. What is asked of `obj` later is
             answered by itself: before Python 3.12 a view exports no buffer, and from then on its __buffer__ answers.
Source       Python/C API Reference Manual, "Buffer Object Structures", PyType_FromSpecWithBases
Read next    arrays/exporting.py
"""

from __future__ import annotations

import ctypes

from .cpython import bind, immortal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["memoryview_of"]

_BF_GETBUFFER, _FLAGS = 1, 1 << 18  # Py_bf_getbuffer, Py_TPFLAGS_DEFAULT
_PY_BUFFER = 80  # bytes of a Py_buffer
_retain = bind("Py_IncRef", None, ctypes.py_object)
_type: Any = None


def memoryview_of(struct: Any, owner: object) -> memoryview:
    """Return a memoryview of what a Py_buffer says.

    struct   a ctypes object that begins with the Py_buffer; its `obj` is id(owner)
    owner    what keeps the memory alive; the memoryview refers to it as `obj`
    """
    exporter = (_type or _begin())()
    exporter.owner, exporter.address = owner, ctypes.addressof(struct)
    return memoryview(exporter)


def _begin() -> Any:
    global _type
    _type = _make_type()
    return _type


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
        __slots__ = ("owner", "address")

    prototype = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p, ctypes.c_int)
    fill = immortal(prototype(_fill))
    slots = (Slot * 2)(Slot(_BF_GETBUFFER, ctypes.cast(fill, ctypes.c_void_p).value), Slot(0, None))
    spec = Spec(f"{__name__}.Exporter".encode(), 0, 0, _FLAGS, slots)
    immortal((slots, spec))
    return bind("PyType_FromSpecWithBases", ctypes.py_object, ctypes.POINTER(Spec), ctypes.py_object)(spec, (Holder,))


def _fill(exporter: Any, address: int, flags: int) -> int:
    """Fill a caller's Py_buffer. Only memoryview_of() asks, and for a read-only buffer: the flags need no answer."""
    ctypes.memmove(address, exporter.address, _PY_BUFFER)
    _retain(exporter.owner)  # PyBuffer_Release takes this reference back
    return 0
