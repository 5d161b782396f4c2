"""The few doors of CPython itself: its C API, by a binding of our own, and a read-only window on all memory.

What it is   `bind`, a C API function with private argument types; `reader`, which reads a C struct at an address; `bytes_at`.
What not     nothing here writes to memory, and nobody else's binding is touched: `ctypes.pythonapi.X` is one object for the
             whole process, on which other libraries set types, right ones and wrong ones.
Source       Python/C API Reference Manual; ctypes, "PyDLL"
Read next    callback.py, dlpack.py
"""

from __future__ import annotations

import ctypes
import sys
from functools import partial
from struct import Struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["address_of", "bind", "bytes_at", "c_string", "immortal", "reader"]

_api = ctypes.PyDLL(None) if sys.platform != "win32" else ctypes.PyDLL("", handle=sys.dllhandle)  # type: ignore[attr-defined,unused-ignore]


def bind(name: str, result: Any, *arguments: Any) -> Any:
    """Return a function of the C API, called with the GIL held; what it raises is raised."""
    function = _api[name]  # a new object each time, unlike attribute access
    function.restype, function.argtypes = result, arguments
    return function


def address_of(name: str) -> int:
    """Return the address of a function of the C API."""
    return ctypes.cast(_api[name], ctypes.c_void_p).value or 0


_retain = bind("Py_IncRef", None, ctypes.py_object)


def immortal(thing: Any) -> Any:
    """Keep something for good, also beyond the end of the interpreter, and return it: C code has its address."""
    _retain(thing)
    return thing


def c_string(text: bytes) -> Any:
    """Return a C string that is never freed, since C code keeps its address: a capsule's name, a buffer's format."""
    return immortal(ctypes.create_string_buffer(text))


# An address is an offset into a buffer that begins at 0, so struct reads C memory without a foreign call. No copy is made
# and nothing is touched until an offset is read; the window is read-only.
def _open_window() -> memoryview | None:
    try:
        window = memoryview((ctypes.c_char * (2**63 - 1)).from_address(0)).toreadonly()
        probe = ctypes.c_uint64(0x0123456789ABCDEF)
        if Struct("=Q").unpack_from(window, ctypes.addressof(probe)) == (probe.value,):
            return window
    except (ValueError, OverflowError, MemoryError, TypeError):
        pass
    return None


_window = _open_window()


def reader(layout: str) -> partial[tuple[Any, ...]]:
    """Return a function that reads a struct, given as for the struct module, at an address.

    It is a partial of one argument, so that who is in a hurry may call .func(.args[0], address) himself.
    The address is trusted to be readable: callers have it from C code, and have refused null.
    raises  struct.error   the address is 2**63 or more, which is nobody's memory
    """
    struct = Struct("=" + layout)
    if _window is not None:
        return partial(struct.unpack_from, _window)
    return partial(_read_copied, struct)


def _read_copied(struct: Struct, address: int) -> tuple[Any, ...]:
    return struct.unpack(ctypes.string_at(address, struct.size))


def bytes_at(address: int, nbytes: int) -> bytes:
    """Return a copy of the bytes at an address."""
    return ctypes.string_at(address, nbytes)
