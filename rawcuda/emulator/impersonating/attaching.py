"""The connection between a loaded shared object and the emulator, which provides the functions behind its exports.

What it is   `attach`, which connects an object to the emulator. The machine code calls it, through a script, in the
             first call of an exported function, unless impersonate() has called it already. `raise_later`, for an
             interrupt of this first call.
How          a process has one emulator, however many objects are loaded: one for each name and each copy of a file.
Read next    journal.py, loading.py
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import os
import re
import sys
import threading
import time

from ...interpreter.covering import covered
from ..emulated_library import shared
from ..interface.abis import form_of
from ..interface.thunks import ENTRIES, keep_for_ever
from ..machine.recovery import answer, is_outside, undivided
from . import symbol_table as layout
from .journal import Journal, create
from .stand_in_libraries import LIBRARIES
from .symbol_table import Table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from .stand_in_libraries import Answers

__all__ = ["ATTACHED", "attach", "raise_later"]

_Resolve = ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_uint)
_MISSING = 1  # in a slot: the library exports the name, but the emulator has no such function
_lock = threading.RLock()


class Attached:
    """A loaded object whose calls this copy of the package answers."""

    __slots__ = ("table", "names", "journal", "folder", "is_used", "resolve")
    resolve: Callable[[int], int]

    def __init__(self, table: Table, names: list[str], folder: str) -> None:
        self.is_used = False  # whether a function of it was called
        self.table, self.names, self.folder = table, names, folder
        self.begin()

    def begin(self) -> None:
        """Begin the journal of this process; a forked child begins a new one."""
        self.journal: Journal = create(self.folder, self.table.served, len(self.names))
        self.table.put_pointer(layout.JOURNAL, self.journal.address)


ATTACHED: list[Attached] = []
_watched: list[bool] = []  # whether forks and the end of the process are watched


def attach(address: int, folder: str) -> None:
    """Connect the object whose table is at this address to the emulator, which then answers its calls.

    folder  the folder in which the journal is written
    raises  RuntimeError  another version of this package wrote the object
    """
    with _lock:
        table = Table(address)
        library = LIBRARIES[table.served]
        if table.get_pointer(layout.RESOLVE):
            return
        names = library.names()
        if not table.belongs_to(names):
            raise RuntimeError(
                f"the {library.sonames[0]} that is loaded was written by another version of this package, in "
                f"{table.text(layout.OWNER)}: start the program with `emulate` of this version"
            )
        machine = shared()._machine
        attached = Attached(table, names, folder)
        opened: list[Answers] = []

        def resolve(number: int) -> int:
            try:
                if not opened:  # on first use, because it may load another library, which takes time
                    opened.append(library.open(shared()))
                    attached.is_used = True
                found = opened[0](names[number])
                if not found or library.lacks(names[number]):
                    attached.journal.absent(number)
                found = found or _MISSING
                table.put_pointer(layout.SLOTS + 8 * number, found)
                return found
            except BaseException as caught:
                answer(machine, names[number], caught)
                return 0

        attached.resolve = resolve
        if library.initializes:
            _follow(attached)
        if table.served == "libcuda":
            _lead_back(attached)
        if sys.version_info < (3, 10):  # newer versions have PyGC_Disable
            table.put_pointer(layout.GCOFF, _pointer(ctypes.CFUNCTYPE(ctypes.c_int)(_collect_no_more)))
            table.put_pointer(layout.GCON, _pointer(ctypes.CFUNCTYPE(ctypes.c_int)(_collect)))
        resolver = _pointer(_Resolve(covered(resolve)))  # type: ignore[arg-type]
        if not _watched:
            _watched.append(True)
            os.register_at_fork(after_in_child=_forked)
            atexit.register(undivided(_ended))
        ATTACHED.append(attached)
        table.put_pointer(layout.RESOLVE, resolver)


def raise_later(caught: BaseException) -> None:
    """Raise an interrupt that came while the emulator was started, in this thread of the program, a moment later."""
    if is_outside(caught):
        caught.__traceback__ = caught.__context__ = None
        shared()._machine.interrupts.keep(caught)


def _pointer(callback: Any) -> int:
    """Return the address of a C function, which is never freed."""
    keep_for_ever(callback)
    return ctypes.cast(callback, ctypes.c_void_p).value or 0


def _collect_no_more() -> int:
    """Switch garbage collections off, as PyGC_Disable does."""
    before = gc.isenabled()
    gc.disable()
    return int(before)


def _collect() -> int:
    gc.enable()
    return 0


def _follow(attached: Attached) -> None:
    """Make reports visible, and make cuInit write the process id into the table of a library that initializes it."""
    table, machine = attached.table, shared()._machine
    if machine.refused is None:
        machine.aloud, machine.refused = True, _refused
        machine.space.write_output = _output_of_program()
    machine.observers.append(lambda: table.put(layout.PID, machine.pid))
    table.put(layout.PID, machine.pid)


def _refused(name: str, code: int, report: str) -> None:
    """Record that a call was refused, if the reason is known, in the journal of a library that this process uses."""
    used = [attached for attached in ATTACHED if attached.is_used]
    if report and used:
        used[0].journal.refused(f"{name} returned {code}: {report}")


def _output_of_program() -> Callable[[str], object] | None:
    """Return a function that writes to C's stdout if the program is not Python, or else None.

    The buffer of C's stdout has what the program has printed, so its lines and those of kernels stay in order.
    """
    is_python = (getattr(sys, "argv", None) or [""])[0] or hasattr(sys, "ps1")
    if is_python:
        return None
    library = ctypes.CDLL(None)
    stdout, write = ctypes.c_void_p.in_dll(library, "stdout"), library.fwrite
    write.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_void_p]

    def put(text: str) -> None:
        content = text.encode("utf-8", "surrogateescape")
        write(content, 1, len(content), stdout)

    return put


def _lead_back(attached: Attached) -> None:
    """Make cuGetProcAddress return functions of the object."""
    table, machine = attached.table, shared()._machine
    numbers = {name: number for number, name in enumerate(attached.names)}

    def address(symbol: str) -> int | None:
        number = numbers.get(symbol)
        if number is None:
            attached.journal.write(symbol)
        elif form_of(symbol, ENTRIES) is not None:
            return table.function(number)
        else:
            attached.journal.asked(number)
        return None

    if not any(other.table.served == "libcuda" for other in ATTACHED):
        machine.address = address


def _forked() -> None:
    """Begin new journals in a child.

    A library that the parent has not used is attached again by its first call: a child without CUDA leaves no journals.
    """
    attached, ATTACHED[:] = list(ATTACHED), []
    for each in attached:
        table = each.table
        if table.get(layout.DEPTH) and table.get(layout.GCWAS):
            gc.enable()  # another thread of the parent was in a call, at whose end it would have done this
        table.put(layout.DEPTH, 0)
        table.put(layout.INSIDE, 0)
        if each.is_used:
            each.begin()
            ATTACHED.append(each)
        else:
            table.put_pointer(layout.JOURNAL, 0)
            table.put_pointer(layout.RESOLVE, 0)


def _ended() -> None:
    """Answer only this thread from now on, until modules are cleared; wait until no other thread is in a call.

    A thread that waits for the interpreter lock when the interpreter ends would never return. This thread, however,
    still calls the driver to release the program's objects: first those of modules that nothing else refers to, then
    those of the other modules, which the interpreter clears one by one, the newest first. The module that is added
    here is the newest, so it is cleared before any module of ours.
    """
    if ATTACHED:
        shared()._machine.interrupts.drop()  # a late one would be raised in this function, and end it
    for attached in ATTACHED:
        for number, name in enumerate(attached.names if shared()._machine.pid and attached.is_used else ()):
            if _RELEASING.search(name) and not attached.table.get_pointer(layout.SLOTS + 8 * number):
                attached.resolve(number)  # now, while modules can still be imported
        attached.journal.ended()
        attached.table.put_pointer(layout.MAIN, threading.get_ident())
        attached.table.put(layout.ENDING, 1)
    until = time.monotonic() + _PATIENCE
    while any(attached.table.get(layout.INSIDE) for attached in ATTACHED) and time.monotonic() < until:
        time.sleep(0.001)
    name = f"{__name__}.last"
    last = type(sys)(name)
    keep_for_ever(last)  # a module with no other reference would be freed at once, and not cleared in its turn
    vars(last)["_end"] = _End([ctypes.c_uint.from_address(each.table.address + layout.ENDING) for each in ATTACHED])
    sys.modules[name] = last


class _End:
    """An object whose finalizer makes all functions return an error, in every thread."""

    def __init__(self, words: list[ctypes.c_uint]) -> None:
        self._words = words

    def __del__(self) -> None:
        for word in self._words:
            word.value = 2


_RELEASING = re.compile(
    "^(__)?cu.*(Free|Destroy|Unload|Release|Reset|Detach|Pop|Push|Current|CtxGetDevice|Synchronize|Query|Unregister|"
    "Unmap|LastError)"
)
_PATIENCE = 1.0  # seconds
