"""A memoryview of any memory that keeps one of our objects alive, on every version of Python.

What it is   `memoryview_of`: PyMemoryView_FromBuffer makes a memoryview of any layout, but without an owner. So we
             request a buffer from a short-lived object of a heap type, whose bf_getbuffer slot is a callback. It
             returns a Py_buffer that was filled in advance, and that names the object which keeps the memory alive as
             the exporter.
Why so       The `obj` of the memoryview is that object (a view), never the short-lived one. Later requests to `obj`
             are answered by that object: before Python 3.12 a view exports no buffer, from then on its __buffer__
             does.
How          No Python code runs between the start and the end of the callback, so that no signal handler can leave the
             Py_buffer unfilled: the short-lived object is a functools.partial of memmove, and the callback calls it.
Source       Python/C API Reference Manual, "Buffer Object Structures"; ctypes, "Function
             prototypes"
Read next    arrays/exporting.py
"""

from __future__ import annotations

import ctypes
import sys
from _ctypes import Py_INCREF as _retain  # it is a method of C; a foreign call of Py_IncRef takes 150 ns more

from .cpython import IS_NARROW, POINTER, callbacks_return, immortal, partial, type_with_slots

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["memoryview_of"]

_BF_GETBUFFER, _FLAGS = 1, 1 << 18  # Py_bf_getbuffer, Py_TPFLAGS_DEFAULT
_PY_BUFFER = 9 * POINTER + 8  # bytes of a Py_buffer
_made: list[Any] = []  # the type and the function, made on first use


def memoryview_of(struct: bytes, owner: object) -> memoryview:
    """Return a memoryview of the memory that a Py_buffer describes.

    struct   the bytes of the Py_buffer; its `obj` is id(owner)
    owner    the object that keeps the memory alive; the memoryview refers to it as `obj`
    """
    exporter, copy = _made or _begin()
    one = exporter(copy, source=struct)
    _retain(owner)  # PyBuffer_Release drops this reference
    return memoryview(one)


def _begin() -> list[Any]:
    if not callbacks_return():
        raise BufferError(
            "this is a subinterpreter, in which a memoryview of this memory cannot be made before Python 3.12: "
            "read the elements with tolist() or tobytes(), or use the main interpreter"
        )
    # int bf_getbuffer(exporter, Py_buffer *, int flags): the flags, which may be ignored, are always those of
    # memoryview(). partial.__call__(exporter, address) calls copy(address, source=...), which must return 0.
    prototype: Any = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p)
    call: Any = partial.__call__
    if IS_NARROW:  # WebAssembly permits no call that leaves a parameter out
        prototype = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p, ctypes.c_int)
        call = _call_without_flags
    fill = immortal(prototype(call))
    slot = _BF_GETBUFFER, ctypes.cast(fill, ctypes.c_void_p).value
    _made[:] = type_with_slots(f"{__name__}.Exporter", partial, _FLAGS, slot), _copier()
    return _made


def _call_without_flags(exporter: Any, address: int, flags: int) -> int:
    exporter(address)
    return 0


def _copier() -> Any:
    """Return memmove as copy(target, source=address), which copies a Py_buffer and returns 0."""
    if IS_NARROW:
        return _copy
    if sys.platform != "win32":
        libc = ctypes.PyDLL(None)
    else:
        libc = ctypes.PyDLL("ucrtbase", winmode=0x800)
    prototype = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
    copy: Any = prototype(("memmove", libc), ((1, "target"), (1, "source"), (1, "nbytes", _PY_BUFFER)))
    copy.restype = (0).__mul__  # of the pointer that memmove returns
    return copy


def _copy(target: int, source: bytes) -> None:
    ctypes.memmove(target, source, _PY_BUFFER)
