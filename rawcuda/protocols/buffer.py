"""Read Python's own protocol for memory: bytes, bytearray, array.array, mmap, memoryview, ctypes, NumPy.

The protocol  an exporter fills a Py_buffer (address, shape, byte strides, format, read-only, suboffsets) and keeps the memory
              where it is until the buffer is released: a bytearray refuses to grow meanwhile. `buf` is the first element,
              not the lowest address.
How           memoryview(obj) asks with FULL_RO, and releases when it goes: the Description holds it. Only the address
              it hides, so a Py_buffer of our own is filled from it for a moment.
What not      host memory only, no driver. Suboffsets (an array of pointers to rows) are no strided memory: refused.
Source        PEP 3118; Python/C API Reference Manual, "Buffer Protocol"
Read next     array_interface.py
"""

from __future__ import annotations

import ctypes

from .. import tracing
from ..errors import refusal
from ..interpreter.cpython import bind, reader
from .description import HOST, Description, place
from .pep3118 import dtype_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["NAME", "Held", "Py_buffer", "address_of", "describe", "describe_bytes", "memoryview_of", "struct_of"]

NAME = "buffer"
_FULL_RO = 0x11C  # PyBUF_FULL_RO: indirect, strided, with a format, read-only is fine


class Py_buffer(ctypes.Structure):
    """The C struct, as in object.h; 80 bytes where pointers have 8."""

    _fields_ = [
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.c_void_p),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", ctypes.c_void_p),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("suboffsets", ctypes.c_void_p),
        ("internal", ctypes.c_void_p),
    ]


_get = bind("PyObject_GetBuffer", ctypes.c_int, ctypes.py_object, ctypes.c_void_p, ctypes.c_int)
_release = bind("PyBuffer_Release", None, ctypes.c_void_p)
_from_buffer = bind("PyMemoryView_FromBuffer", ctypes.py_object, ctypes.c_void_p)
_read_address = reader("Q")
_SIZE = ctypes.sizeof(Py_buffer)
_places = {False: place(HOST, False, NAME), True: place(HOST, True, NAME)}


class Held:
    """Hold a buffer: what a view by this protocol has as its owner. `obj` is the exporter; there is no way to release it early."""

    __slots__ = ("_view",)

    def __init__(self, view: memoryview) -> None:
        self._view = view

    @property
    def obj(self) -> Any:
        """Return the exporter."""
        return self._view.obj

    def __repr__(self) -> str:
        return f"<buffer of {type(self._view.obj).__name__}, {self._view.nbytes} bytes>"


def _call_address(view: memoryview) -> int:
    struct = ctypes.create_string_buffer(_SIZE)  # one a call: another thread may be at it, too
    address = ctypes.addressof(struct)
    _get(view, address, _FULL_RO)
    found: int = _read_address(address)[0]
    _release(address)
    return found


# A memoryview has a Py_buffer inside, and its `buf` is the address: read there, it costs a fraction of what the calls cost. A
# self-check on memoryviews of our own finds the place; where it finds none, the calls do it.
def _find_place() -> int:
    probe = ctypes.create_string_buffer(32)
    address = ctypes.addressof(probe)
    for place_ in range(16, 128, 8):
        read = reader(f"{place_}xQ")
        if all([read(id(view))[0] == address + start for start in (0, 1, 9) for view in [memoryview(probe)[start:]]]):
            return place_
    return 0


_place = _find_place()
_read_buf = reader(f"{_place}xQ")
peeking = _place > 0  # False: by the calls


def address_of(view: memoryview) -> int:
    """Return the address of a memoryview's first element; the view keeps it valid."""
    found: int = _read_buf(id(view))[0] if peeking else _call_address(view)
    return found


def describe_bytes(
    exporter: Any, kind: type[Description] = Description, new: Any = object.__new__
) -> Description | None:
    """Describe a bytearray or bytes, exactly of that type, the short way; None leaves it to describe()."""
    if not peeking:
        return None
    view = memoryview(exporter)
    made = new(kind)
    (made.ptr,) = _read_buf(id(view))
    made.shape, made.strides, made.dtype = (view.nbytes,), _ONE, _BYTE
    made._place = _READONLY if view.readonly else _WRITABLE
    made.owner = held = new(Held)
    held._view = view
    made.stream = None
    return made  # type: ignore[no-any-return]


_ONE, _BYTE = (1,), dtype_of("B", 1)
_WRITABLE, _READONLY = _places[False], _places[True]


def describe(exporter: Any, kind: type[Description] = Description) -> Description | None:
    """Describe what a buffer exporter has, or return None where the object is none.

    kind     the class to make, with Description's arguments
    raises   ProtocolError           suboffsets; a format that means nothing here
             BufferError, ValueError the exporter's own
    """
    try:
        view = memoryview(exporter)
    except TypeError:
        if _has_buffer(exporter):
            raise
        return None
    made = from_memoryview(view, kind)
    if tracing.listeners:
        tracing.emit(
            tracing.Step(
                NAME,
                f"memoryview({type(exporter).__name__})",
                f"-> format {view.format!r}, shape {view.shape}, strides {view.strides}, readonly {view.readonly}",
            )
        )
    return made


_check = bind("PyObject_CheckBuffer", ctypes.c_int, ctypes.py_object)


def _has_buffer(thing: Any) -> bool:
    return bool(_check(thing))


def from_memoryview(view: memoryview, kind: type[Description] = Description) -> Description:
    """Describe what a memoryview shows, and hold it."""
    if view.suboffsets and any(offset >= 0 for offset in view.suboffsets):
        raise refusal(
            NAME,
            "suboffsets",
            view.suboffsets,
            "lead to rows through pointers, which no strided view can say; copy it: "
            "bytes(obj), or memoryview(obj).tolist()",
        )
    return kind(
        address_of(view),
        view.shape or (),
        view.strides or (),
        dtype_of(view.format, view.itemsize),
        _places[view.readonly],
        Held(view),
    )


def struct_of(description: Description, address: int) -> Py_buffer:
    """Fill a Py_buffer with described host memory, which it does NOT keep alive, nor does it the format.

    address   the memory's, or that of any readable byte where there are no elements
    """
    shape, dtype = description.shape, description.dtype
    ndim = len(shape)
    numbers = (ctypes.c_ssize_t * (2 * ndim or 1))(*shape, *description.strides)
    where = ctypes.addressof(numbers)
    nbytes = dtype.itemsize
    for n in shape:
        nbytes *= n
    struct = Py_buffer(
        buf=address,
        len=nbytes,
        itemsize=dtype.itemsize,
        readonly=description._place.readonly,
        ndim=ndim,
        format=dtype.c_format(),
        shape=where if ndim else None,
        strides=where + 8 * ndim if ndim else None,
    )
    struct.numbers = numbers  # lives as long as the struct that points to it
    return struct


def memoryview_of(struct: Py_buffer) -> memoryview:
    """Make a memoryview of what a Py_buffer says, which it does NOT keep alive: the caller must see to that.

    raises    ValueError   more than 64 dimensions
    source    Python/C API Reference Manual, PyMemoryView_FromBuffer: shape and strides are copied, the format is not
    """
    view: memoryview = _from_buffer(ctypes.addressof(struct))
    return view
