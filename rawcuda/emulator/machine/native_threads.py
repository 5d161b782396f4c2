"""Which threads there are, and the states of those that C code has started.

What it is   `NativeThreads`, of which each machine has one; `is_of_python` and `are_others`, which ask as
             threading.enumerate() and threading.active_count() do, but take no lock. A thread that holds the lock of
             these may wait for the machine's: a garbage collection there may run a __del__ that calls the driver.
How          Python sees a new threading.local in each call from such a thread, and the number that the system gives it
             (threading.get_native_id()) may be that of a thread that has ended. So it gets a number in the
             thread-specific storage of C, which is empty in each new thread.
Source       Python/C API Reference Manual, "Thread Specific Storage (TSS) API"
Read next    machine.py
"""

from __future__ import annotations

import ctypes
import itertools
import os
import sys
import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from .machine import Thread

    Storage = tuple[int, Callable[[int], Any], Callable[[int, int], int]]  # its key, and how to read and write it

__all__ = ["NativeThreads", "are_others", "is_of_python"]

_FEW = 64
_TASKS = "/proc/self/task"
_numbers = itertools.count(1)
_storages: dict[str, Storage] = {}  # the only one, which all machines share, from the first use on
_active: dict[int, threading.Thread] = vars(threading)["_active"]  # the threads that run, by their numbers
_starting: dict[threading.Thread, threading.Thread] = vars(threading)["_limbo"]
_Dummy: type = vars(threading)["_DummyThread"]  # of a thread that C code has started


def is_of_python() -> bool:
    """Tell whether the module threading has started the calling thread, or it is the main thread."""
    thread = _active.get(threading.get_ident())
    return thread is not None and type(thread) is not _Dummy


def are_others() -> bool:
    """Tell whether the module threading knows of more than one thread."""
    return len(_active) + len(_starting) > 1


class NativeThreads:
    """The states of the threads that C code has started, by a number that no two threads of the process have.

    make  returns the state of a new thread
    """

    def __init__(self, make: Callable[[], Thread]) -> None:
        self._make = make
        self._known: dict[int, tuple[int, Thread]] = {}  # with the number that the system gives the thread
        self._most = _FEW  # when so many are known, those that have ended are forgotten

    def calling(self) -> Thread:
        """Return the state of the calling thread."""
        number = _number()
        found = self._known.get(number)
        if found is None:
            if len(self._known) >= self._most:
                self._forget_ended()
                self._most = max(_FEW, 2 * len(self._known))
            found = self._known[number] = threading.get_native_id(), self._make()
        return found[1]

    def _forget_ended(self) -> None:
        """Forget the threads that have ended, where the system tells which there are."""
        if os.path.exists(f"{_TASKS}/{threading.get_native_id()}"):
            for number, (ident, _) in list(self._known.items()):
                if not os.path.exists(f"{_TASKS}/{ident}"):
                    self._known.pop(number, None)


def _number() -> int:
    """Return the number of the calling thread."""
    key, read, write = _storages.get("") or _storages.setdefault("", _new_storage())
    number = read(key)
    if number is None:
        number = next(_numbers)
        write(key, number)
    return int(number)


def _new_storage() -> Storage:
    # a private binding: that of ctypes.pythonapi is shared
    if sys.platform != "win32":
        api = ctypes.PyDLL(None)
    else:
        api = ctypes.PyDLL("", handle=vars(sys)["dllhandle"])
    allocate, create = api["PyThread_tss_alloc"], api["PyThread_tss_create"]
    read, write = api["PyThread_tss_get"], api["PyThread_tss_set"]
    allocate.restype = read.restype = ctypes.c_void_p
    create.argtypes, read.argtypes = [ctypes.c_void_p], [ctypes.c_void_p]
    write.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    key = allocate()
    if key is None or create(key):
        raise MemoryError("The system has no more thread-specific storage")
    return key, read, write
