"""The table in the shared object: words that both its machine code and Python use.

What it is   the offsets of the words; `build`, which makes the table of a new object; and Table, which reads and writes
             the table of a loaded one.
How          each exported function loads its number and jumps to code that all of them share. In C, this would be:

                 if (journal) write the number, the thread and "running" into the journal
                 if (this function tells the texts of errors) find the text;
                 if (pid && pid != getpid()) return forked;
                 if (ending && (ending > 1 || pthread_self() != main)) return closed;
                 if (!ready) find the functions of Python; if there is no Python, load one and start it
                 if (!ending && !Py_IsInitialized()) return closed;
                 PyGILState_Ensure(), PyErr_Fetch();
                 if (!slots[number] && !resolve) PyRun_SimpleString(script);     // calls attach()
                 if (!slots[number]) resolve(number);                            // makes the C callback
                 if (slots[number] == 1) result = missing;
                 else { PyGC_Disable(); result = slots[number](arguments); PyGC_Enable(); }
                 PyErr_Restore(), PyGILState_Release();
                 write the result into the journal

             So no Python code runs after the interpreter has ended, in a forked child, or with an exception pending;
             and no garbage collection, which may run a finalizer that takes a lock, begins inside a call.
Source       Python/C API Reference Manual, "Initialization, Finalization, and Threads"
Read next    intel.py, elf.py, attaching.py
"""

from __future__ import annotations

import ctypes
import os
import struct
from zlib import crc32

__all__ = ["CODES", "DLSYM", "DLOPEN", "Table", "build"]

# The offsets of words. Words have 32 bits, and pointers 64. intel.py and arm.py use the offsets by name.
MAGIC, PID, LOCK = 0, 8, 12
JOURNAL, RESOLVE = 16, 24  # pointers
CLOSED, FORKED, MISSING, FAILED = CODES = (32, 36, 40, 44)  # the results of calls that no function answers
READY, DEPTH, GCWAS = 48, 52, 56
DLSYM, DLOPEN, API = 64, 72, 80  # pointers, and the pointers to the functions of _API
GCOFF, GCON = 128, 136  # two of these
# offsets from the table, or 0: of texts, and of the end of the digits in the script
LIBPYTHON, PROGRAM, SCRIPT, DIGITS = 176, 180, 184, 188
LIBRARY, STUBS, COUNT, CHECK = 192, 196, 200, 204  # a text; the distance back to the first function; the names
OWNER = 208  # a text: the folder of the package that wrote the object
# How many calls are inside; whether only the thread MAIN (64 bits) may enter (1), or nobody (2).
INSIDE, ENDING, MAIN = 212, 216, 224
# The functions that tell the texts of errors, which are answered without Python: name and text through a pointer, or
# name and text as the result; and where the texts are: rows of code, name, text. A row without a name ends them.
ERRNAME, ERRTEXT, GETNAME, GETTEXT = ERROR_WORDS = (232, 236, 240, 248)
ERRORS = 244
NAMES, SLOTS = 0x100, 0x280

_API = (
    "Py_IsInitialized PyGILState_Ensure PyGILState_Release PyErr_Fetch PyErr_Restore PyRun_SimpleString PyGC_Disable "
    "PyGC_Enable Py_SetProgramName Py_InitializeEx PyEval_SaveThread pthread_self"
).split()
_MAGIC = b"emulated"


def build(
    library: str,
    names: list[str],
    codes: tuple[int, int, int, int],
    texts: dict[int, bytes],
    telling: tuple[str, str, str, str] = ("", "", "", ""),
    errors: dict[int, tuple[bytes, bytes]] | None = None,
    unknown: bytes = b"",
) -> bytearray:
    """Return the table of a new object, without the distance to its functions, which elf.py knows.

    codes  what a function returns after the interpreter has ended, in a forked child, if the function does not exist,
           and if the emulator cannot be started
    telling, errors, unknown  the functions of ERROR_WORDS, name and text of each error, and the text of other codes
    texts  the texts of LIBPYTHON, PROGRAM, OWNER and SCRIPT, the last with 16 zeros for the digits of its address
    """
    table = bytearray(SLOTS + 8 * len(names))
    table[:8] = _MAGIC
    struct.pack_into("<4I", table, CLOSED, *codes)
    struct.pack_into("<2I", table, COUNT, len(names), _check(names))
    for word, name in zip(ERROR_WORDS, telling):
        struct.pack_into("<I", table, word, names.index(name) if name else 2**32 - 1)
    for number, name in enumerate(_API):
        struct.pack_into("32s", table, NAMES + 32 * number, name.encode())
    for word, text in {**texts, LIBRARY: library.encode()}.items():
        if text:
            table += bytes(-len(table) % 8)
            struct.pack_into("<I", table, word, len(table))
            if word == SCRIPT:
                struct.pack_into("<I", table, DIGITS, len(table) + text.index(b"0x0000000000000000") + 18)
            table += text + bytes(4)
    _add_errors(table, errors or {}, unknown)
    return table


def _add_errors(table: bytearray, errors: dict[int, tuple[bytes, bytes]], unknown: bytes) -> None:
    """Add the rows of errors, and their texts behind them; the last row has the text for a code without a row."""
    table += bytes(-len(table) % 8)
    begin = len(table)
    struct.pack_into("<I", table, ERRORS, begin)
    table += bytes(12 * (len(errors) + 1))

    def put(text: bytes) -> int:
        nonlocal table
        table += text + b"\0"
        return len(table) - len(text) - 1

    for number, (code, (name, text)) in enumerate(errors.items()):
        struct.pack_into("<3I", table, begin + 12 * number, code, put(name), put(text))
    struct.pack_into("<3I", table, begin + 12 * len(errors), 0, 0, put(unknown))


def _check(names: list[str]) -> int:
    return crc32("\n".join(names).encode())


class Table:
    """The table of a loaded object.

    raises  ValueError  there is no table at this address
    """

    __slots__ = ("address", "_base")

    def __init__(self, address: int) -> None:
        if ctypes.string_at(address, 8) != _MAGIC:
            raise ValueError(f"there is no table of an emulated library at {address:#x}")
        self.address = address

    def get(self, word: int) -> int:
        """Return a word of 32 bits."""
        return ctypes.c_uint.from_address(self.address + word).value

    def put(self, word: int, value: int) -> None:
        """Write a word of 32 bits."""
        ctypes.c_uint.from_address(self.address + word).value = value

    def get_pointer(self, word: int) -> int:
        """Return a word of 64 bits."""
        return ctypes.c_uint64.from_address(self.address + word).value

    def put_pointer(self, word: int, value: int) -> None:
        """Write a word of 64 bits."""
        ctypes.c_uint64.from_address(self.address + word).value = value

    def text(self, word: int) -> str:
        """Return the text whose offset this word contains."""
        return os.fsdecode(ctypes.string_at(self.address + self.get(word)))

    @property
    def served(self) -> str:
        """Return the name of the library that the object replaces."""
        return self.text(LIBRARY)

    def belongs_to(self, names: list[str]) -> bool:
        """Tell whether the object was written for these names, in this order."""
        return (self.get(COUNT), self.get(CHECK)) == (len(names), _check(names))

    def function(self, number: int) -> int:
        """Return the address of the exported function with this number."""
        return self.address - self.get(STUBS) + 16 * number
