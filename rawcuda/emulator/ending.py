"""The end of a program: kernels that failed, although no call has told the program so.

What it is   `watch_end`: when Python ends, it runs the work that is still queued, writes the reports of such kernels to
             stderr, and makes the exit status 1, so that a script that launches and does not wait is not silent.
How          A function of atexit cannot change the exit status, and os._exit() in it would leave out the functions that
             were registered before. So it asks the C library to end the process with that status when Python has ended:
             exit() calls what was registered last first. In glibc, a second exit() there goes on with the others;
             elsewhere, they are left out.
What not     it reports nothing that an exception or a returned code has told the program; and nothing in a program that
             is not in Python, which ends without ending Python: its functions of C's atexit() may run in a child of
             fork(), or in a signal handler in the middle of an emulated kernel, where Python code would wait for ever.
Source       CPython, Py_RunMain; Itanium C++ ABI, 3.3.6.3 "Runtime API": __cxa_atexit
Read next    emulated_library.py, machine/machine.py
"""

from __future__ import annotations

import atexit
import ctypes
import os
import sys
import time

from .machine.codes import STICKY
from .machine.space import say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .machine.machine import Machine
    from .machine.reports import Report

__all__ = ["watch_end"]

_PATIENCE = 3.0  # seconds


def watch_end(machine: Machine) -> None:
    """Look for unnoticed failures of kernels when Python ends."""
    atexit.register(_end, machine)


def _end(machine: Machine) -> None:
    if machine.pid != os.getpid():  # not in use, or a child of fork(), which did not launch the kernels
        return
    unnoticed = _unnoticed(machine)
    for report in unnoticed if not machine.aloud else ():  # (else they were written when they were found)
        say(f"a kernel failed, and the program has not waited for it:\n{report}")
    if unnoticed and not machine.keep_status:
        _exit_with(1)


def _unnoticed(machine: Machine) -> list[Report]:
    """Return the reports of contexts that a kernel has made unusable, if the program does not know it."""
    contexts = [thing for thing in machine.handles.values() if hasattr(thing, "failure")]
    if machine.queues.mode != "eager" and not hasattr(sys, "last_type"):  # (an exception has ended the program)
        with machine.lock:
            machine.host_access.around(_complete)(machine, contexts)
    lost = [context for context in contexts if context.failure is not None and context.state in STICKY]
    if machine.aloud:  # other clients look at the codes that calls return
        return [context.failure for context in lost if context.state not in machine.returned]
    return [context.failure for context in lost if context.failure.origin is None]


def _complete(machine: Machine, contexts: list[Any]) -> None:
    until = time.monotonic() + _PATIENCE  # a host function, or the thread that writes a value, may never end
    for context in contexts:
        if not context.state:
            machine.queues.complete_context(context, until)


def _exit_with(status: int) -> None:
    """Make the exit status of this process another one, once Python has ended."""
    try:
        library = ctypes.CDLL(None)
        at_exit = library["__cxa_atexit"]
        end = "exit" if hasattr(library, "gnu_get_libc_version") else "_exit"
        ways = [ctypes.cast(library[name], ctypes.c_void_p) for name in (end, "fflush")]
    except (AttributeError, TypeError):  # Windows
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    at_exit.argtypes = [ctypes.c_void_p] * 3
    for way, argument in zip(ways, (status, None)):  # what is registered last is called first: fflush(NULL)
        at_exit(way, argument, None)
