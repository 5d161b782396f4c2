"""Access to CPython itself: its C API by a private binding, and a read-only window on all memory.

What it is   `as_argument` prepares a number as an argument of a C function; `bind` returns a C API function with
             private argument types; `type_with_slots` makes a type whose slots are C functions; `reader` and `unpacker`
             read a C struct at an address; `bytes_at` copies bytes.
What not     Nothing here writes to memory, and no other library's binding is changed: `ctypes.pythonapi.X` is one
             object for the whole process, on which other libraries set argument types, right and wrong ones.
Source       Python/C API Reference Manual, PyType_FromSpecWithBases; ctypes, "PyDLL"
Read next    callback.py, dlpack.py
"""

from __future__ import annotations

import ctypes
import os
import sys
from _weakref import ref
from struct import Struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from functools import partial
    from typing import Any, Callable, TypeVar

    _Type = TypeVar("_Type")
else:
    from _functools import partial  # functools itself imports collections, which takes 2 ms of a first view's 5

__all__ = [
    "Cell",
    "IS_NARROW",
    "POINTER",
    "address_of",
    "as_argument",
    "bind",
    "bytes_at",
    "c_string",
    "callbacks_return",
    "converting",
    "facts",
    "free_after_fork",
    "has_plain_attributes",
    "immortal",
    "in_subinterpreter",
    "partial",
    "read_only",
    "reader",
    "type_with_slots",
    "unpacker",
    "untrack",
    "watch_forks",
    "watched",
    "window",
]

POINTER = ctypes.sizeof(ctypes.c_void_p)  # the size of a pointer; a Py_ssize_t has the same
IS_NARROW = POINTER < 8  # in WebAssembly, where a call must have exactly the types of the function

# -- prepared arguments: addresses, handles and sizes in the form that ctypes passes fastest

# Where a pointer has 8 bytes, all of these numbers are passed alike. Where it has 4, as in a browser, a device address
# still has 64 bits, and WebAssembly ends a program that calls a function with other types than its own. There, a
# prepared argument stays a number, since it does not know which of them it is for, and each function gets argument
# types that convert it.
if not IS_NARROW:
    as_argument: Any = ctypes.c_void_p.from_param
    Cell: Any = ctypes.c_void_p
else:
    _number: Any = vars(ctypes.c_uint64.__mro__[1])["value"]  # the member that contains the value of every instance

    def as_argument(number: Any) -> Any:
        """Return the number itself."""
        return number

    class Cell(ctypes.c_uint64):  # type: ignore[no-redef]
        """Memory of 64 bits whose value is None for 0, as that of a c_void_p is."""

        @property
        def value(self) -> Any:
            """Return the number, or None."""
            return _number.__get__(self) or None

        @value.setter
        def value(self, number: int | None) -> None:
            _number.__set__(self, number or 0)


def converting(kind: Any) -> Any:
    """Return a type whose from_param() converts a number, also one that is in another type of ctypes, to a C type."""
    largest = (1 << 8 * ctypes.sizeof(kind)) - 1

    def from_param(cls: type, value: Any) -> Any:
        if isinstance(value, ctypes._SimpleCData) and not isinstance(value, kind):
            value = value.value
        if type(value) is int:
            return kind(min(value, largest))  # (ctypes would cut a size of 2**32 to 0)
        if type(value).__name__ == "CArgObject":  # byref() made it, or the from_param() of another type
            return value
        return kind.from_param(value)

    return type(kind.__name__, (), {"from_param": classmethod(from_param)})


# -- the C API

if sys.platform != "win32":
    _api = ctypes.PyDLL(None)
else:
    _api = ctypes.PyDLL("", handle=vars(sys)["dllhandle"])


def bind(name: str, result: Any, *arguments: Any) -> Any:
    """Return a function of the C API, which is called with the GIL held and may raise."""
    function = _api[name]  # a new object for each access, unlike an attribute
    function.restype, function.argtypes = result, arguments
    return function


def address_of(name: str) -> int:
    """Return the address of a function of the C API."""
    return ctypes.cast(_api[name], ctypes.c_void_p).value or 0


def in_subinterpreter() -> bool:
    """Tell whether this is another interpreter than the main one of the process."""
    identity = bind("PyInterpreterState_GetID", ctypes.c_int64, ctypes.c_void_p)
    return bool(identity(bind("PyInterpreterState_Get", ctypes.c_void_p)()) != 0)


def callbacks_return() -> bool:
    """Tell whether a callback of ctypes returns here.

    Before Python 3.12 the callbacks of ctypes run in the main interpreter only: a thread that is in a subinterpreter
    waits forever for the GIL that it holds (PyGILState_Ensure, "Sub-interpreter support").
    """
    return sys.version_info >= (3, 12) or not in_subinterpreter()


_retain = bind("Py_IncRef", None, ctypes.py_object)


def immortal(thing: Any) -> Any:
    """Keep an object alive forever, even beyond the end of the interpreter, and return it: C code has its address."""
    _retain(thing)
    return thing


# Hides an object from the garbage collector: it is freed when the last reference to it is gone. Python calls the
# finalizers of all objects of a cycle first, and in any order; a __del__ or the end of a generator there may still use
# the others, or save them. So what frees memory has a finalizer and is hidden: it ends with the memory of its owner,
# not before. It must refer to nothing that may refer to it.
untrack = bind("PyObject_GC_UnTrack", None, ctypes.py_object)


def c_string(text: bytes) -> Any:
    """Return a C string that is never freed, since C code keeps its address: a capsule's name, a buffer's format."""
    return immortal(ctypes.create_string_buffer(text))


def type_with_slots(name: str, base: type, flags: int, *slots: tuple[int, int | None]) -> Any:
    """Return a subclass of which some slots are C functions: pairs of the slot's number and the function's address."""

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

    table = (Slot * (len(slots) + 1))(*[Slot(*pair) for pair in slots])
    spec = Spec(name.encode(), 0, 0, flags, table)
    immortal((table, spec))  # some versions keep pointers into both
    return bind("PyType_FromSpecWithBases", ctypes.py_object, ctypes.POINTER(Spec), ctypes.py_object)(spec, (base,))


# An address is an offset into a buffer that begins at 0, so struct reads C memory without a foreign call. Nothing is
# copied, and nothing is accessed until an offset is read; the window is read-only.
def _open_window() -> memoryview | None:
    try:
        window = memoryview((ctypes.c_char * (2**63 - 1)).from_address(0)).toreadonly()
        probe = ctypes.c_uint64(0x0123456789ABCDEF)
        if Struct("=Q").unpack_from(window, ctypes.addressof(probe)) == (probe.value,):
            return window
    except (ValueError, OverflowError, MemoryError, TypeError):
        pass
    return None


window = _open_window()


def unpacker(layout: str) -> Callable[[Any, int], tuple[Any, ...]]:
    """Return a function of (window, address) that reads a struct, given as for the struct module, aligned as in C.

    The address must be readable: callers have it from C code, and have refused null.
    raises  struct.error   the address is 2**63 or more, which no program uses
    """
    struct = Struct("@" + layout)
    if window is not None:
        return struct.unpack_from
    return lambda _, address: struct.unpack(ctypes.string_at(address, struct.size))


def reader(layout: str) -> partial[tuple[Any, ...]]:
    """Return a function of an address that reads a struct; see unpacker(), which costs 30 ns less per call."""
    return partial(unpacker(layout), window)


# tp_getattro has a fixed offset in types, after the head of every object: 16 bytes, or 32 in free-threaded builds.
# A self-check on `object` tells whether it is this one.
_HEAD = object.__basicsize__
_read_getattro, _generic = reader(f"{_HEAD + 16 * POINTER}xP"), address_of("PyObject_GenericGetAttr")
_knows_types = sys.implementation.name == "cpython" and _read_getattro(id(object))[0] == _generic


def has_plain_attributes(kind: type) -> bool:
    """Tell whether a type uses the standard attribute look-up, without a __getattr__ of its own."""
    return _knows_types and bool(_read_getattro(id(kind))[0] == _generic)


def read_only(kind: type, name: str) -> Any:
    """Return a descriptor that reads the slot `_name` of a class under the public name, and refuses to set it.

    It is a member descriptor of C, which is read in 5 ns; a property takes 45 ns. A self-check finds the slot's offset;
    if it finds none, the descriptor is a property.
    """
    slot: Any = vars(kind)[f"_{name}"]
    if _knows_types:
        definition = reader(f"{_HEAD + 3 * POINTER}xP")(id(slot))[0]  # PyMemberDef: name, type, offset, flags, doc
        begin, type_, offset, flags = reader("Pini")(definition)
        if (type_, flags) == (_T_OBJECT_EX, 0) and ctypes.string_at(begin) == f"_{name}".encode():
            text = c_string(name.encode())
            made = Struct("PiniP").pack(ctypes.addressof(text), type_, offset, _READONLY, 0)
            new = bind("PyDescr_NewMember", ctypes.py_object, ctypes.py_object, ctypes.c_void_p)
            return new(kind, ctypes.addressof(immortal(ctypes.create_string_buffer(made, len(made)))))
    return property(slot.__get__)


def facts(*names: str) -> Callable[[type[_Type]], type[_Type]]:
    """Class decorator: these attributes of objects can be read; our own code sets the slots, `_name` for each."""

    def decorate(kind: type[_Type]) -> type[_Type]:
        for name in names:
            setattr(kind, name, read_only(kind, name))
        return kind

    return decorate


watched: list[bool] = []
_in_children: list[Callable[[], object]] = []
_locks: dict[ref[Any], None] = {}


def free_after_fork(lock: Any) -> Any:
    """Return a lock that is free in the children of fork() after watch_forks(), whichever thread held it then."""
    _locks[ref(lock, _locks.pop)] = None
    return lock


def watch_forks(in_child: Callable[[], object] | None = None) -> None:
    """Free these locks in the children of fork() from now on, and call a function there; called on first use."""
    if in_child is not None and in_child not in _in_children:
        _in_children.append(in_child)
    if not watched and hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_begin_child)
        watched.append(True)  # (a second registration, after an interrupt, does no harm)


def _begin_child() -> None:
    for each in tuple(_locks):
        lock = each()
        if lock is not None:
            lock._at_fork_reinit()
    for function in _in_children:
        function()


_T_OBJECT_EX, _READONLY = 16, 1

# Without the GIL, threads must not slice the window at once: CPython 3.13 counts the slices of a memoryview without a
# lock, and at 0 it can no longer be used.
if getattr(sys, "_is_gil_enabled", lambda: True)():
    _sliced = window
else:
    _sliced = None


def bytes_at(address: int, nbytes: int) -> bytes:
    """Return a copy of the bytes at an address, which may be 0 if there are none."""
    if _sliced is None:
        if nbytes:  # (the size of ctypes.string_at() is an int of C)
            content: bytes = (ctypes.c_char * nbytes).from_address(address).raw
            return content
        return b""
    return _sliced[address : address + nbytes].tobytes()  # a foreign call takes 150 ns more
