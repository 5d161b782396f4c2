"""Reading Python's buffer protocol: bytes, bytearray, array.array, mmap, memoryview, ctypes, NumPy.

The protocol  An exporter fills a Py_buffer (address, shape, byte strides, format, read-only, suboffsets) and does not
              move the memory until the buffer is released: for instance, a bytearray refuses to grow. `buf` is the
              address of the first element, not the lowest address.
How           memoryview(obj) requests a buffer with FULL_RO, and releases it when it is freed: the Description holds
              it. A memoryview does not give the address, so that is read from its C struct.
The type      The format of a structure may say less than the exporter knows, or be wrong. So ctypes objects and the
              arrays and scalars of NumPy are asked for their own type, also behind a memoryview.
What not      Host memory only, no driver. Suboffsets (an array of pointers to rows) are not strided memory, and are
              refused.
Source        PEP 3118; Python/C API Reference Manual, "Buffer Protocol"
Read next     array_interface.py
"""

from __future__ import annotations

import ctypes
from struct import Struct
from sys import modules

from .. import tracing
from ..elements import layout
from ..elements.ctypes_types import DATA, element_of, of_ctypes
from ..elements.dtypes import is_numpys, of_numpy
from ..errors import refusal
from ..interpreter.cpython import POINTER, bind, partial, reader, unpacker, window
from ..remembered import Remembered
from .description import HOST, Description, place
from .pep3118 import dtype_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..elements.dtypes import DType

__all__ = [
    "DATA",
    "NAME",
    "Held",
    "Py_buffer",
    "address_of",
    "buffer_at",
    "describe",
    "describe_array",
    "describe_for",
    "describe_scalar",
    "scalar_reader_for",
]

NAME = "buffer"
_FULL_RO = 0x11C  # PyBUF_FULL_RO: indirect, strided, with a format, may be read-only


class Py_buffer(ctypes.Structure):
    """The C struct of object.h; 80 bytes if pointers have 8."""

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
_read_address = reader("P")
_SIZE = ctypes.sizeof(Py_buffer)
_PLACES = place(HOST, False, NAME), place(HOST, True, NAME)


class Held:
    """The owner of a view by this protocol: a buffer that is not released while this exists. `obj` is the exporter.

    The buffer cannot be released early.
    """

    __slots__ = ("_view",)

    def __init__(self, view: memoryview) -> None:
        self._view = view

    @property
    def obj(self) -> object:
        """Return the exporter."""
        return self._view.obj

    def __repr__(self) -> str:
        return f"<buffer of {type(self._view.obj).__name__}, {self._view.nbytes} bytes>"


def _call_address(view: memoryview) -> int:
    struct = ctypes.create_string_buffer(_SIZE)  # a new one for each call: another thread may be here
    address = ctypes.addressof(struct)
    _get(view, address, _FULL_RO)
    found: int = _read_address(address)[0]
    _release(address)
    return found


# A memoryview contains a Py_buffer, and its `buf` is the address. Reading it there saves 1,100 ns of 1,300 against
# requesting another buffer. A self-check on our own memoryviews finds its offset; if it finds none, we request one.
def _find_offset() -> int:
    probe = ctypes.create_string_buffer(32)
    address = ctypes.addressof(probe)
    for offset in range(2 * POINTER, 16 * POINTER, POINTER):
        read = reader(f"{offset}xP")
        if all([read(id(view))[0] == address + start for start in (0, 1, 9) for view in [memoryview(probe)[start:]]]):
            return offset
    return 0


_offset = _find_offset()
_read_buf = unpacker(f"{_offset}xP")


def address_of(view: memoryview) -> int:
    """Return the address of a memoryview's first element; the view keeps it valid."""
    found: int
    if _offset:
        found = _read_buf(window, id(view))[0]
    else:
        found = _call_address(view)
    return found


_check = bind("PyObject_CheckBuffer", ctypes.c_int, ctypes.py_object)


def describe(
    exporter: Any, kind: type[Description] = Description, stream: Any = None, dtype: DType | None = None
) -> Description | None:
    """Describe the memory of a buffer exporter, or return None if the object does not export a buffer.

    kind     the class to make
    dtype    the element type, if it is known; otherwise the format gives it, or the object's own type
    raises   ProtocolError           suboffsets, or an unsupported format
             BufferError, ValueError raised by the exporter
    """
    try:
        view = memoryview(exporter)
    except TypeError:
        if _check(exporter):
            raise
        return None
    itemsize = view.itemsize
    if itemsize < 0:
        raise refusal(NAME, "itemsize", itemsize, "is negative; the exporter is at fault")
    if dtype is None:
        dtype = dtype_of(view.format, itemsize)
        if dtype._kind == "opaque":
            dtype = _own_word(view, dtype)
    elif dtype._itemsize != itemsize and view.nbytes:
        dtype = dtype_of("", itemsize)
    if view.suboffsets and any(offset >= 0 for offset in view.suboffsets):
        raise refusal(
            NAME,
            "suboffsets",
            view.suboffsets,
            "lead to rows through pointers, which a strided view cannot express; copy it: "
            "bytes(obj), or memoryview(obj).tolist()",
        )
    if tracing.listeners:
        tracing.emit(
            tracing.Step(
                NAME,
                f"memoryview({type(exporter).__name__})",
                f"-> format {view.format!r}, shape {view.shape}, strides {view.strides}, readonly {view.readonly}",
            )
        )
    made = kind()
    if _offset:
        (made._ptr,) = _read_buf(window, id(view))
    else:
        (made._ptr,) = (_call_address(view),)
    shape, strides = view.shape or (), view.strides or ()
    # One dimension without gaps, as most buffers have, needs no call, which would be 10 % of a copy from bytes.
    if len(shape) != 1 or strides != (itemsize,) or not 0 <= shape[0] * itemsize < layout.LIMIT - made._ptr:
        low, high = layout.checked_bounds(NAME, shape, strides, itemsize)
        if not low <= made._ptr <= high:
            raise layout.misplaced(NAME, made._ptr, shape, strides)
    made._shape, made._strides, made._dtype = shape, strides, dtype
    made._place, made._owner, made.stream = _PLACES[view.readonly], Held(view), None
    made._side = None
    return made


# -- exporters that know more than their format says


def describe_for(kind: type) -> Any:
    """Return describe(), or for a class of ctypes whose formats are not exact, a reader that has its element type.

    raises   ProtocolError   of_ctypes() refuses the class
    """
    if not issubclass(kind, DATA):
        return describe
    element = element_of(kind)
    if getattr(element, "_type_", "P") in tuple("?cbBhHiIlLqQfd"):
        return describe
    return partial(_describe_ctypes, of_ctypes(element))


def _describe_ctypes(dtype: DType, exporter: Any, kind: type[Description], stream: Any = None) -> Description | None:
    if dtype.reason and dtype.typestr[1] != "V":  # a number, of which nothing else can be read
        raise refusal(NAME, "type", type(exporter).__name__, f"cannot be viewed: {dtype.reason}")
    return describe(exporter, kind, stream, dtype)


def _own_word(view: memoryview, dtype: DType) -> DType:
    """Return the element type by the word of the object behind a memoryview, unless the memoryview was cast."""
    source: Any = view.obj
    if isinstance(source, Description):
        if (source.dtype.format, source.dtype.itemsize) == (view.format, view.itemsize):
            return source.dtype
        return dtype
    if isinstance(source, DATA):
        word = of_ctypes(element_of(type(source)))
    elif is_numpys(source, "ndarray", "generic"):
        word = of_numpy(source.dtype, NAME)
    else:
        return dtype
    if memoryview(source).format != view.format:
        return dtype
    # (3.9 gives empty arrays itemsize 0)
    if word.itemsize == view.itemsize or not view.nbytes:
        return word
    return dtype


def describe_array(array: Any, kind: type[Description], stream: Any = None) -> Description | None:
    """Describe an array of NumPy, whose buffer has no titles of fields, and not always their offsets.

    raises   BufferError   NumPy has no buffer for its dtype: for dates, and for fields that overlap
    """
    try:
        return describe(array, kind, stream, of_numpy(array.dtype, NAME))
    except ValueError as error:
        if isinstance(error, BufferError):
            raise
        raise BufferError(str(error)) from None


def scalar_reader_for(kind: type) -> Any:
    """Return describe() for a class of NumPy's numbers, whose buffers are exact, and else describe_scalar()."""
    numpy: Any = modules["numpy"]
    exact = issubclass(kind, (numpy.number, numpy.bool_)) and not issubclass(kind, numpy.timedelta64)
    if exact:
        return describe
    return describe_scalar


def describe_scalar(scalar: Any, kind: type[Description], stream: Any = None) -> Description:
    """Describe a scalar of NumPy, which has no dimensions, although its buffer may be one of bytes, or missing.

    A scalar without a buffer is copied, as NumPy itself does for the array interface; a scalar never changes.
    """
    dtype = of_numpy(scalar.dtype, NAME)
    try:
        view = memoryview(scalar)
    except (TypeError, ValueError):
        view = None
    if view is None or view.nbytes != dtype.itemsize or not view.nbytes:
        array = modules["numpy"].asarray(scalar)
        dtype = of_numpy(array.dtype, NAME)  # (text of no length becomes one of length 1)
        view = memoryview(array.view(f"V{dtype.itemsize}"))  # there are buffers of bytes for every dtype
    made: Any = describe(view, kind, stream)
    made._shape, made._strides, made._dtype, made._place = (), (), dtype, _PLACES[True]
    return made  # type: ignore[no-any-return]


# -- exported buffers

_begin = Struct("PP").pack
# (shape, strides, id of the dtype, read-only) -> the rest of a Py_buffer, and a tuple of what it refers to. Making it
# takes 1,500 ns.
_layouts: Remembered[tuple[Any, ...], tuple[bytes, object]] = Remembered(1000)


def buffer_at(
    address: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: DType, readonly: bool
) -> tuple[bytes, object]:
    """Return a Py_buffer for C code, and the object that keeps its shape, its strides and its format alive.

    address   of the first element, or of any readable byte if there are no elements
    """
    key = shape, strides, id(dtype), readonly
    try:
        rest, kept = _layouts.answers[key]
    except KeyError:
        rest, kept = _new_layout(key, dtype)
    return _begin(address, 0) + rest, kept


def _new_layout(key: tuple[Any, ...], dtype: DType) -> tuple[bytes, object]:
    shape, strides, _, readonly = key
    ndim, nbytes = len(shape), dtype.itemsize
    for n in shape:
        nbytes *= n
    numbers = (ctypes.c_ssize_t * max(2 * ndim, 1))(*shape, *strides)
    start = ctypes.addressof(numbers)
    rest = Struct("nniiPPPPP").pack(
        nbytes, dtype.itemsize, readonly, ndim, dtype.c_format(), start if ndim else 0,
        start + POINTER * ndim if ndim else 0, 0, 0,
    )  # fmt: skip
    return _layouts.keep(key, (rest, (numbers, dtype)))
