"""Python functions as C functions.

What it is   `entry`, which declares an entry point by its C prototype; `serve`, which creates a C function pointer for
             it (a thunk); and functions that read and write the C memory to which a caller's pointers point.
What not     a check of pointers other than NULL: like the driver, it trusts the caller, and an invalid pointer
             crashes the process.
How          every pointer and handle is declared as an integer of its width. NULL then arrives as 0 (with c_void_p it
             would be None), and text is not cut at a NUL. Structures by value arrive as ctypes structures. Each
             emulator has its own thunks, so a thunk needs no look-up to find its emulator. A thunk is created on first
             use and never freed, not even when the interpreter ends: clients keep addresses, and the address of a freed
             thunk may call another thunk. The prototypes are written here and not taken from the table that clients
             use, so that a mistake in one of the two is found. Tests compare both with cuda.h, and the widths of the
             types, which are the table's, with the C compiler.
Source       CUDA Driver API; cuda.h, for the layouts of structures; ctypes, "Callback functions"
Read next    machine/machine.py, machine/recovery.py, then a module of entry points, such as
             entries/tasks/stream_entries.py
"""

from __future__ import annotations

import ctypes
import os
import re
import struct
import sys
import threading
from functools import partial

from ...headers import cuda_h
from ...interpreter.covering import covered
from ..machine.codes import DEINITIALIZED, NAMES, NOT_INITIALIZED, NOT_PERMITTED, Refused
from ..machine.native_threads import are_others
from ..machine.recovery import answer, tell

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Optional, TypeVar

    from ..machine.machine import Machine

    F = TypeVar("F", bound=Callable[..., Optional[int]])
    Save = Callable[..., Callable[[], object]]

__all__ = [
    "Entry",
    "ENTRIES",
    "entry",
    "serve",
    "keep_for_ever",
    "wrapped",
    "parse",
    "Location",
    "out",
    "put_int",
    "put_uint",
    "put_u64",
    "put_word",
    "put_float",
    "put_bytes",
    "put_address_of",
    "get_int",
    "get_u64",
    "get_word",
    "text",
    "MEMCPY2D",
    "MEMCPY3D",
    "LAUNCH_CONFIG",
    "LAUNCH_ATTRIBUTE",
    "POOL_PROPS",
    "LOCATION",
    "ACCESS_DESC",
    "read",
    "take",
    "WORD",
]


class Location(ctypes.Structure):
    """CUmemLocation, which is passed by value."""

    _fields_ = [("type", ctypes.c_int), ("id", ctypes.c_int)]


# c_long has 32 bits on Windows, so no prototype uses it. CUDAAPI is __stdcall there, which x64 ignores.
_SCALARS: dict[str, Any] = {
    "int": ctypes.c_int,
    "unsigned int": ctypes.c_uint,
    "size_t": ctypes.c_size_t,
    "float": ctypes.c_float,
    "unsigned char": ctypes.c_ubyte,
    "unsigned short": ctypes.c_ushort,
    "unsigned long long": ctypes.c_uint64,
    "cuuint32_t": ctypes.c_uint32,
    "cuuint64_t": ctypes.c_uint64,
    "CUmemLocation": Location,
}


def _ctype(c_type: str) -> Any:
    """Return the ctypes type for a C type: addresses and handles are integers of a pointer's width."""
    if c_type.endswith("*"):
        return ctypes.c_size_t
    if c_type in _SCALARS:
        return _SCALARS[c_type]
    kind = cuda_h.HEADER.type_of(c_type)
    if issubclass(kind, cuda_h.Enumerator):
        return ctypes.c_int
    if issubclass(kind, cuda_h.Integer):  # with a name of its own
        return kind.machine
    if issubclass(kind, ctypes.Structure):
        return kind
    return ctypes.c_size_t


def parse(line: str) -> tuple[str, list[tuple[str, str]]]:
    """Split a C prototype into its name and the (type, name) of each parameter."""
    name, inside = re.fullmatch(r"(\w+)\((.*)\)", line.strip(), re.S).groups()  # type: ignore[union-attr]
    parameters = []
    if inside.strip() != "void":
        for piece in inside.split(","):
            c_type, parameter = re.fullmatch(r"\s*(.*?)\s*(\w+)\s*", piece, re.S).groups()  # type: ignore[union-attr]
            parameters.append((re.sub(r"\s*\*", " *", c_type).replace("* *", "**"), parameter))
    return name, parameters


class Entry:
    """An entry point: its C prototype, and the function that implements it."""

    __slots__ = ("name", "line", "function", "free", "since", "save")

    def __init__(
        self, line: str, function: Callable[..., int | None], free: bool, since: int, save: Save | None = None
    ) -> None:
        self.name = line.partition("(")[0]
        self.line, self.function, self.free, self.since, self.save = line, function, free, since, save

    def prototype(self) -> Any:
        """Return the ctypes function type of this entry."""
        return ctypes.CFUNCTYPE(ctypes.c_int, *(_ctype(c_type) for c_type, _ in parse(self.line)[1]))


ENTRIES: dict[str, Entry] = {}


def entry(line: str, *, since: int, free: bool = False, save: Save | None = None) -> Callable[[F], F]:
    """Declare an entry point by its C prototype, as in cuda.h, with the exported name.

    line   name(parameters); the function gets the machine, then each parameter as an int or float
    free   whether the entry needs no cuInit and no lock, and may be called from a host function
    since  the CUDA version that introduced it, as 1000 * major + 10 * minor
    save   for a call that an interrupt must not divide: it gets the same arguments, and returns a function that undoes
           what the entry may have done. An interrupted call is undone, done again, and reports its own result.
    """

    def declare(function: F) -> F:
        made = Entry(line, function, free, since, save)
        if not is_again(ENTRIES.get(made.name), function):
            raise ValueError(f"{made.name} is declared twice")
        ENTRIES[made.name] = made
        return function

    return declare


def is_again(known: Any, function: Any) -> bool:
    """Tell whether a declared function is new, or the same one: an interrupted import of its module begins again."""
    return known is None or (known.function.__module__, known.function.__qualname__) == (
        function.__module__,
        function.__qualname__,
    )


def serve(machine: Machine, served: Entry) -> int:
    """Create the C function of an entry point, which is never freed, and return its address."""
    thunk = served.prototype()(wrapped(machine, served))
    keep_for_ever(thunk)
    return ctypes.cast(thunk, ctypes.c_void_p).value or 0


def keep_for_ever(thing: Any) -> None:
    """Keep an object alive until the process ends; a list would be cleared when the interpreter ends."""
    if sys.platform != "win32":
        api = ctypes.PyDLL(None)
    else:
        api = ctypes.PyDLL("", handle=vars(sys)["dllhandle"])
    retain = api["Py_IncRef"]  # a private binding: that of ctypes.pythonapi is shared
    retain.argtypes, retain.restype = [ctypes.py_object], None
    retain(thing)


def wrapped(machine: Machine, served: Entry) -> Callable[..., int]:
    """Wrap an entry so that it always returns a code.

    ctypes only prints an exception that leaves a callback, and the caller reads an undefined result, which is often 0.
    The outer try statement comes first, so that it covers the whole function (see `covered`). Its body has one exit, at
    its end. The inner statement handles exceptions of the entry, and the outer one handles an interrupt meanwhile.

    Why long  the function that it returns uses its variables, and every way out of that function is in one place
    """
    function, free, lock, worker, name = served.function, served.free, machine.lock, machine.host_thread, served.name
    finalizing = sys.is_finalizing
    getpid, get_ident, save, failures = os.getpid, threading.get_ident, served.save, machine.failures
    if not free:
        function = machine.host_access.around(function)
    lacking = machine.answers.contextless.get(name, 0)
    captures = machine.captures if machine.answers.is_unsafe(name) else ()

    def why_not() -> int:
        """Return the error of a call that must not wait for the lock, or 0."""
        if machine.pid != getpid():  # a fork may have copied the lock while it was held
            return NOT_INITIALIZED
        if worker.ident == get_ident():
            return NOT_PERMITTED
        if finalizing() and are_others():  # they have ended wherever they were: a wait would never end
            return DEINITIALIZED
        return 0

    def do_again(arguments: Any, undo: Callable[[], object] | None) -> int:
        with lock:
            if undo is not None:  # None: the interrupt came before the call did anything
                undo()
            return function(machine, *arguments) or 0

    def begin() -> None:
        """Wait for another thread's launch that waits for room, and refuse the call if it is not allowed now."""
        if machine.queues.crowded:
            machine.queues.wait_for_room()
        if lacking and not machine.thread().stack:
            raise Refused(lacking, "no context is current in this thread")
        if captures:
            machine.refuse_unsafe()

    def returned(code: int) -> int:
        """Return a code if it is a CUresult. (ctypes would convert 2**40 to the C int 0, which means success.)"""
        if code not in NAMES:
            raise ValueError(f"{code!r} is not a CUresult")
        tell(machine, name, code)
        return code

    def call_entry(*arguments: Any, undo: Any = None) -> int:
        try:
            try:
                if failures.plan:
                    failures.check(machine, name)
                if free:
                    code = function(machine, *arguments)
                else:
                    code = why_not()
                    if not code:
                        with lock:
                            begin()
                            if save is not None:
                                undo = save(machine, *arguments)
                            code = function(machine, *arguments)
                if code:
                    code = returned(code)
                else:
                    code = 0
            except BaseException as caught:
                code = answer(machine, name, caught, save and partial(do_again, arguments, undo))
            return code
        except BaseException as caught:
            return answer(machine, name, caught, save and partial(do_again, arguments, undo))

    made: Any = covered(call_entry)  # type: ignore[arg-type]
    made.__name__ = made.__qualname__ = name
    return made  # type: ignore[no-any-return]


# -- C memory. Handles, pointers to host memory and size_t are words, which have the size of a pointer (4 bytes in a
# browser). Addresses of device memory have 64 bits everywhere.

WORD = ctypes.sizeof(ctypes.c_void_p)
_Int, _Uint, _U64, _Word, _Float = ctypes.c_int, ctypes.c_uint, ctypes.c_uint64, ctypes.c_size_t, ctypes.c_float


def out(*pointers: int) -> None:
    """Refuse a NULL out-pointer."""
    if 0 in pointers:
        raise Refused(1)


def put_int(address: int, value: int) -> None:
    """Write an int, refusing NULL."""
    if not address:
        raise Refused(1)
    _Int.from_address(address).value = value


def put_uint(address: int, value: int) -> None:
    """Write an unsigned int, refusing NULL."""
    if not address:
        raise Refused(1)
    _Uint.from_address(address).value = value


def put_u64(address: int, value: int) -> None:
    """Write an address of device memory, or another integer of 64 bits, refusing NULL."""
    if not address:
        raise Refused(1)
    _U64.from_address(address).value = value


def put_word(address: int, value: int) -> None:
    """Write a handle, a pointer to host memory or a size, refusing NULL."""
    if not address:
        raise Refused(1)
    _Word.from_address(address).value = value


def put_float(address: int, value: float) -> None:
    """Write a float, refusing NULL."""
    if not address:
        raise Refused(1)
    _Float.from_address(address).value = value


def put_bytes(address: int, value: bytes) -> None:
    """Write bytes, refusing NULL."""
    if not address:
        raise Refused(1)
    ctypes.memmove(address, value, len(value))


def put_address_of(address: int, value: bytes) -> None:
    """Write the address of bytes, which must stay alive, refusing NULL."""
    put_word(address, ctypes.cast(ctypes.c_char_p(value), ctypes.c_void_p).value or 0)


def get_int(address: int) -> int:
    """Read an int, refusing NULL."""
    if not address:
        raise Refused(1)
    return _Int.from_address(address).value


def get_u64(address: int) -> int:
    """Read an integer of 64 bits, refusing NULL."""
    if not address:
        raise Refused(1)
    return _U64.from_address(address).value


def get_word(address: int) -> int:
    """Read a handle, a pointer or a size, refusing NULL."""
    if not address:
        raise Refused(1)
    return _Word.from_address(address).value


def text(address: int) -> str:
    """Read a C string, refusing NULL."""
    if not address:
        raise Refused(1)
    return ctypes.string_at(address).decode("utf-8", "surrogateescape")


# Structures in the C compiler's own layout, which pads them: P is a pointer or a handle, N is size_t, Q has 64 bits.
_SIDE_2D = "2N i PQP N"  # x, y; memory type; host, device, array; pitch
_SIDE_3D = "4N i PQP P 2N"  # x, y, z, level; type; host, device, array; context; pitch, height
MEMCPY2D = struct.Struct(_SIDE_2D * 2 + "2N 0Q")
MEMCPY3D = struct.Struct(_SIDE_3D * 2 + "3N 0Q")  # also CUDA_MEMCPY3D_PEER, whose contexts are reserved words here
LAUNCH_CONFIG = struct.Struct("7I PP I 0P")  # grid, block, shared bytes; stream, attributes; their number
LAUNCH_ATTRIBUTE = struct.Struct("<i4x 64s")
LOCATION = struct.Struct("2i")
POOL_PROPS = struct.Struct("2i 2i PN H54x")  # type, handle types; location; security, largest size; usage
ACCESS_DESC = struct.Struct("2i i")


def read(layout: struct.Struct, address: int) -> tuple[Any, ...]:
    """Read a structure, refusing NULL."""
    if not address:
        raise Refused(1)
    return layout.unpack(ctypes.string_at(address, layout.size))


def take(address: int, count: int, kind: Any = _Word) -> list[int]:
    """Read an array of handles, pointers or sizes, or of another kind of integers."""
    if not count:
        return []
    if not address:
        raise Refused(1)
    return list((kind * count).from_address(address))
