"""A memoryview of any memory that keeps one of our objects alive, on every version of Python.

What it is   `memoryview_of`: PyMemoryView_FromBuffer makes a memoryview of any layout, but without an owner. We write
             the owner where CPython has it: into the buffer that the memoryview shares with all that are made from it,
             and that drops the owner with the last of them; and into the memoryview, whose `obj` it is.
Why so       An owner may be an object that exports no buffer, as a view before Python 3.12. Nothing of ours is called
             back: a callback that an interrupt, the recursion limit or a lack of memory keeps from its work cannot say
             so, and the memoryview would be of whatever memory the struct named before.
How          The places are those of CPython 3.9 to 3.15. They are compared once with a memoryview of a bytes object,
             which has its address in both.
Source       CPython, Include/cpython/memoryobject.h, Objects/memoryobject.c; Python/C API Reference Manual,
             "MemoryView objects"
Read next    arrays/exporting.py
"""

from __future__ import annotations

import ctypes
import sys
from _ctypes import Py_INCREF as _retain  # it is a method of C; a foreign call of Py_IncRef takes 150 ns more

from .cpython import POINTER, bind

__all__ = ["memoryview_of"]

_HEAD = object.__basicsize__
# PyMemoryViewObject: its size, the buffer, hash, flags, exports, and a Py_buffer, whose second word is `obj`
_BUFFER, _OBJ = _HEAD + POINTER, _HEAD + 6 * POINTER
_OWNER = _HEAD + 3 * POINTER  # _PyManagedBufferObject: flags, exports, and a Py_buffer
_word = ctypes.c_size_t.from_address
_new = bind("PyMemoryView_FromBuffer", ctypes.py_object, ctypes.c_char_p)


def _is_known(exporter: object) -> bool:
    made = memoryview(exporter)  # type: ignore[arg-type]
    return _word(id(made) + _OBJ).value == _word(_word(id(made) + _BUFFER).value + _OWNER).value == id(exporter)


_KNOWN = sys.implementation.name == "cpython" and _is_known(b"-")


def memoryview_of(struct: bytes, owner: object) -> memoryview:
    """Return a memoryview of the memory that a Py_buffer describes.

    struct   the bytes of the Py_buffer
    owner    the object that keeps the memory alive; the memoryview refers to it as `obj`
    raises   BufferError   this interpreter has memoryviews of another layout
    """
    if not _KNOWN:
        raise BufferError("the layout of this interpreter's memoryviews is not known: read the elements with tolist()")
    made: memoryview = _new(struct)
    here, owned = id(made), id(owner)
    _retain(owner)  # for the buffer, which drops this reference
    _word(_word(here + _BUFFER).value + _OWNER).value = owned
    _word(here + _OBJ).value = owned
    return made
