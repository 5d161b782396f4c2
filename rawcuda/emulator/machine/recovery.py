"""Recovery after an exception that left an entry point at an arbitrary place: an interrupt, or a lack of memory.

What it is   `answer`, which turns whatever an entry point raised into a result code; `recover`, which makes the machine
             consistent again; Interrupts, which raises interrupts in the Python code that made the call.
How          Signal handlers run between any two instructions of the main thread, so an interrupt can come between any
             two steps of the machine. No step restores its own state: the exception propagates to the entry point, and
             `recover` compares everything that can be left half done with the thread's stack. A lock that no call on
             the stack holds is released, and work that no call on the stack runs is finished or stays queued. If
             `recover` itself is interrupted, it can be called again. An exception cannot pass through the C code that
             called the entry point. It is kept, the call returns CUDA_ERROR_UNKNOWN, and `claim` raises it as soon as
             the client asks for an explanation of that code. If the client does not ask, a helper thread raises it in
             the calling thread a moment later.
What not     a transaction: an interrupted call may have done its work, or a part of it. Work runs at most once.
             However, calls that change a state which clients restore later (the stack of contexts, the capture mode)
             are always done: an interrupted one is undone and repeated, because a client could not tell what to
             restore.
Source       CPython, "Execution of Python signal handlers"; Objects/exception_handling_notes.txt
Read next    interface/thunks.py, queues.py
"""

from __future__ import annotations

import _thread
import ctypes
import os
import re
import signal
import sys
import threading
import time

from ...interpreter.covering import covered
from .codes import OUT_OF_MEMORY, STICKY, UNKNOWN, Refused
from .space import Fault

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from .machine import Machine
    from .queues import Work

__all__ = [
    "RUNNING",
    "Interrupts",
    "answer",
    "answering",
    "is_outside",
    "recover",
    "tell",
    "undivided",
    "unlocked",
]

RUNNING = threading.RLock()  # held while a kernel runs: generated code rounds numbers in cells that all kernels share
_STANDARD_LIBRARY = os.path.dirname(os.path.abspath(os.__file__)) + os.sep


_RELEASING = re.compile("Free|Destroy|Unload|Release|Reset|Unregister|Pop")  # programs seldom look at their results


def answer(machine: Machine, name: str, caught: BaseException, again: Callable[[], int] | None = None) -> int:
    """Return the code for an exception that left an entry point, and keep the exception unless it is a refusal.

    again  undoes and repeats a call that an interrupt must not divide
    """
    if isinstance(caught, (Refused, Fault)):
        caught.__traceback__ = caught.__context__ = caught.__cause__ = (
            None  # frees them here, where an interrupt is caught
        )
        tell(machine, name, caught.code, caught.report)
        if caught.code in STICKY and not _RELEASING.search(name):
            machine.returned.add(caught.code)
        return machine.refuse(caught.code, caught.report)
    recover(machine)
    caught = _origin(caught)
    if is_outside(caught):
        caught.__traceback__ = caught.__context__ = None
        machine.interrupts.keep(caught)
        if again is not None:
            return again()
        tell(machine, name, UNKNOWN, f"{caught!r} ended the call, and perhaps only a part of its work was done")
        return UNKNOWN
    if isinstance(caught, MemoryError):
        report = "the host has no memory left for the emulated device"
        tell(machine, name, OUT_OF_MEMORY, report)
        return machine.refuse(OUT_OF_MEMORY, report)
    machine.keep(caught)
    tell(machine, name, UNKNOWN, f"the emulator itself failed: {caught!r}")
    machine.report(UNKNOWN, f"{name} failed inside the emulator: {caught!r}")
    return UNKNOWN


def answering(machine: Machine, name: str, function: Callable[..., int], failed: int) -> Any:
    """Return a function for C that answers as another one; if that raises anything, it returns the code `failed`."""

    def call(*arguments: int) -> int:
        try:
            try:
                code = function(*arguments)
            except BaseException as caught:
                code = answer(machine, name, caught) and failed
            return code
        except BaseException as caught:  # a second interrupt
            return answer(machine, name, caught) and failed

    return covered(call)  # type: ignore[arg-type]


def tell(machine: Machine, name: str, code: int, report: str = "") -> None:
    """Tell the observer of refused calls which code other than 0 a call returns, and why, if the reason is known."""
    if machine.refused is not None:
        machine.refused(name, code, report)


# -- which exceptions are interrupts


def _origin(caught: BaseException) -> BaseException:
    """Return the interrupt or the MemoryError that an exception followed, or else the exception itself.

    An interrupt can leave a lock released; the end of the with block of that lock then raises a RuntimeError, too.
    """
    seen: BaseException | None = caught
    while seen is not None and (seen is caught or _was_raised_inside(seen)):
        if is_outside(seen) or isinstance(seen, MemoryError):
            return seen
        seen = seen.__context__
    return caught


def _was_raised_inside(caught: BaseException) -> bool:
    """Tell whether an exception was raised inside the call; otherwise the client was handling it when it called."""
    trace = caught.__traceback__
    return trace is not None and trace.tb_frame.f_code.co_filename.startswith(_PACKAGE)


def is_outside(caught: BaseException) -> bool:
    """Tell whether an exception comes from the user's code (a signal handler or a callback)."""
    if not isinstance(caught, Exception):
        return True  # KeyboardInterrupt, SystemExit
    if isinstance(caught, (Refused, Fault, MemoryError, RecursionError)):
        return False
    trace = caught.__traceback__
    while trace is not None:
        frame = trace.tb_frame
        # (a signal handler may run in a function of the standard library, too)
        if not _is_of_python(frame.f_code.co_filename) and frame.f_globals.get("__name__") != "ptx":
            return True
        trace = trace.tb_next
    return False


def _is_of_python(file: str) -> bool:
    """Tell whether code is this package's or the standard library's, and not that of another package beside it."""
    if file.startswith(_STANDARD_LIBRARY):
        return "-packages" + os.sep not in file or file.startswith(_PACKAGE)
    return file.startswith((_PACKAGE, "<frozen"))


# (the path may contain "..", as in all code of the package)
_PACKAGE = os.path.dirname(os.path.dirname(is_outside.__code__.co_filename)) + os.sep


# -- a consistent machine


def recover(machine: Machine) -> None:
    """Make the machine consistent after an exception left the newest entry point on this thread's stack."""
    depth, running = _calls_below(machine)
    lock = machine.lock
    lock.acquire()
    for other in RUNNING, machine.space.lock:
        if depth <= 0 and not running:
            _release(other)
    machine.queues.repair(running)
    machine.repair()
    _release(lock)
    for _ in range(depth):
        lock.acquire()


def _release(lock: Any) -> None:
    """Release a reentrant lock completely, if this thread holds it."""
    if lock._is_owned():
        lock._release_save()


def unlocked(machine: Any, run: Callable[[], object]) -> None:
    """Call a function with the locks of the machine released, so that other threads can make calls meanwhile.

    They are released completely: a call that a __del__ or a signal handler makes inside of another one holds them more
    than once, and what it waits for may need them.
    """
    inner, held = machine.space.lock, None
    if inner._is_owned():
        held = inner._release_save()
    outer = machine.lock._release_save()
    try:
        run()
    finally:
        machine.lock._acquire_restore(outer)
        if held is not None:
            inner._acquire_restore(held)


def _calls_below(machine: Machine) -> tuple[int, set[Work]]:
    """Return how often the calls below the newest one hold the machine's lock, and the work that they run.

    A collection can run a __del__ inside a call, and the __del__ can make another call. A call that is in
    unlocked() does not hold it.
    """
    depth, running = 0, set()
    frame: Any = sys._getframe(1)
    left = False  # whether the frame of the newest call was passed
    is_unlocked = False  # whether that of unlocked() was
    while frame is not None:
        name = frame.f_code.co_name
        if name in _WATCHED and frame.f_code.co_filename.startswith(_PACKAGE):
            values = frame.f_locals
            if name == "call_entry":
                if values.get("machine") is machine:
                    depth += left and not is_unlocked and not values["free"]
                    left = True
            elif name == "unlocked":
                is_unlocked = is_unlocked or left and values["machine"] is machine
            elif left and values["self"] is machine.queues:
                running.add(values["work"])
        frame = frame.f_back
    return depth, running


_WATCHED = frozenset(("call_entry", "unlocked", "_execute"))


# -- giving the interrupt to the caller


class Interrupts:
    """Exceptions that could not pass through the C caller of an entry point, by the thread that made the call."""

    def __init__(self) -> None:
        self._kept: dict[int, BaseException] = {}

    def keep(self, caught: BaseException) -> None:
        """Keep an exception for the calling thread: `claim` raises it, or a helper thread after a moment."""
        ident = _thread.get_ident()
        caught.__context__ = self._kept.get(ident)  # the older one was not claimed; the newer one is raised
        self._kept[ident] = caught
        try:
            _thread.start_new_thread(self._deliver, (ident, caught))
        except RuntimeError:  # no thread can start: the interpreter ends, or is in a browser
            pass

    def _deliver(self, ident: int, caught: BaseException) -> None:
        time.sleep(_SECONDS)
        if self._kept.get(ident) is not caught:
            return
        if sys.platform != "win32":
            api = ctypes.PyDLL(None)
        else:
            api = ctypes.PyDLL("", handle=vars(sys)["dllhandle"])
        if ident == threading.main_thread().ident:
            # The main thread asks this object for its truth value, which raises. PyThreadState_SetAsyncExc would be
            # simpler, but before Python 3.12 a thread that is about to start has its creator's number: it could get it.
            late = _Late(self, ident, caught)
            _LATE[:] = [*(other for other in _LATE if not other.is_done), late]
            call_soon = api["Py_AddPendingCall"]  # a private binding: that of ctypes.pythonapi is shared
            call_soon.argtypes = [ctypes.c_void_p, ctypes.py_object]
            while call_soon(ctypes.cast(api["PyObject_IsTrue"], ctypes.c_void_p), late):  # there is room for 32 calls
                time.sleep(_SECONDS)
        elif self._kept.pop(ident, None) is not None:
            raise_in = api["PyThreadState_SetAsyncExc"]
            raise_in.argtypes = [ctypes.c_ulong, ctypes.py_object]
            raise_in(ident, type(caught))

    def claim(self) -> None:
        """Raise the exception that is kept for the calling thread, if there is one."""
        if self._kept:
            caught = self._kept.pop(_thread.get_ident(), None)
            if caught is not None:
                try:
                    raise caught
                finally:
                    del caught  # or it would refer to itself, by its traceback and this frame

    def drop(self) -> None:
        """Drop all exceptions that are kept, because the program ends."""
        self._kept.clear()


class _Late:
    """An object whose truth value raises an exception, unless somebody has claimed that exception."""

    __slots__ = ("_interrupts", "_ident", "_caught", "is_done")

    def __init__(self, interrupts: Interrupts, ident: int, caught: BaseException) -> None:
        self._interrupts, self._ident, self.is_done = interrupts, ident, False
        self._caught: BaseException | None = caught

    def __bool__(self) -> bool:
        is_kept = self._interrupts._kept.get(self._ident) is self._caught
        self.is_done, self._caught = True, None  # with its traceback, it keeps what the frames of the call use
        if is_kept:
            self._interrupts.claim()
        return False


_LATE: list[_Late] = []  # kept alive until the main thread has asked for their truth value
_SECONDS = 0.05  # long after the call has returned


# -- a function that no signal divides


def undivided(function: Callable[[], None]) -> Callable[[], None]:
    """Return a version of a function that no signal handler interrupts; handlers that are due run after it."""
    handlers: dict[int, Any] = {}
    late: set[int] = set()

    def collect(number: int, frame: object) -> None:
        late.add(number)

    def hold() -> None:
        if threading.current_thread() is threading.main_thread():  # handlers run only in the main thread
            for number in signal.valid_signals():
                handler = signal.getsignal(number)
                if callable(handler) and handler is not collect:
                    handlers[number] = handler
                    signal.signal(number, collect)

    def run() -> None:
        try:
            hold()
        except BaseException:  # raised by a handler that was not replaced yet; the program ends in any case
            hold()
        try:
            function()
        finally:
            while handlers:
                signal.signal(*handlers.popitem())
            _raise_all(late)

    return covered(run)  # type: ignore[arg-type]


def _raise_all(signals: set[int]) -> None:
    """Raise all signals, even if the handler of one of them raises an exception."""
    while signals:
        try:
            signal.raise_signal(signals.pop())
        finally:
            _raise_all(signals)
