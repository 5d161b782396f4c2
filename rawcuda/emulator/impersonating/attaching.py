"""What the machine code of a shared object calls: who answers a function, in the process that loaded the object.

What it is   `attach`, which the first call of an object makes, by its own script or by impersonate().
How          a process has one emulator, however many objects are loaded: one for each name and each copy of a file.
Read next    loading.py
"""

from __future__ import annotations

import ctypes
import os
import threading

from ..abis import of_thread
from ..thunks import ENTRIES, keep_for_ever
from . import table as layout
from .libraries import LIBRARIES
from .table import Table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .. import Emulator

__all__ = ["ATTACHED", "attach", "emulator"]

_Resolve = ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_uint)
_MISSING = 1  # in a slot: the library exports the name, and no function answers
ATTACHED: list[Table] = []
_lock = threading.RLock()
_made: list[Emulator] = []


def emulator() -> Emulator:
    """Return the emulator of this process, with the settings of the environment if it is a new one."""
    with _lock:
        if not _made:
            from .. import Emulator

            _made.append(Emulator.from_environment())
            os.register_at_fork(after_in_child=_forked)
        return _made[0]


def attach(address: int) -> None:
    """Let the functions of the object that has its table at this address be answered by the emulator.

    raises  RuntimeError  another version of this package wrote the object
    """
    with _lock:
        table = Table(address)
        library = LIBRARIES[table.library]
        if table.get_pointer(layout.RESOLVE):
            return
        names = library.names()
        if not table.belongs_to(names):
            raise RuntimeError(
                f"the {library.sonames[0]} that is loaded was written by another version of this package: start "
                "the program again"
            )
        answers = library.open(emulator())

        def resolve(number: int) -> int:
            try:
                found = answers(names[number]) or _MISSING
            except Exception as error:
                emulator().kept_exceptions.append(error)
                return 0
            table.put_pointer(table.slot(number), found)
            return found

        if table.library == "libcuda":
            _lead_back(table, names)
        callback = _Resolve(resolve)
        keep_for_ever(callback)
        ATTACHED.append(table)
        table.put_pointer(layout.RESOLVE, ctypes.cast(callback, ctypes.c_void_p).value or 0)


def _lead_back(table: Table, names: list[str]) -> None:
    """Let cuGetProcAddress return functions of the object, and cuInit write the process's number into its table."""
    machine = emulator()._machine
    numbers = {name: number for number, name in enumerate(names)}

    def address(symbol: str) -> int | None:
        is_served = symbol in ENTRIES or of_thread(symbol, ENTRIES) is not None
        return table.function(numbers[symbol]) if is_served and symbol in numbers else None

    if not any(other.library == "libcuda" for other in ATTACHED):
        machine.address = address
    machine.observers.append(lambda: table.put(layout.PID, machine.pid))
    table.put(layout.PID, machine.pid)


def _forked() -> None:
    """Start to count anew in a child: the calls of the parent's other threads do not end there."""
    for table in ATTACHED:
        table.put(layout.DEPTH, 0)
