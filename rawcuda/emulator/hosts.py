"""Host functions: the thread that runs them.

What it is   one thread an emulator, started when the first host function is due. Whatever runs in it may not call the driver:
             every entry point answers CUDA_ERROR_NOT_PERMITTED there.
Why          the driver, too, runs them in a thread of its own. A function that takes a lock which the caller of
             cuLaunchHostFunc holds works there, so it must here.
Source       CUDA Driver API, cuLaunchHostFunc
Read next    queues.py
"""
from __future__ import annotations

import ctypes
import queue
import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

    from .machine import Machine
    from .queues import Work

__all__ = ["HostThread", "host_function", "stream_callback"]

_HostFunction = ctypes.CFUNCTYPE(None, ctypes.c_size_t)
_StreamCallback = ctypes.CFUNCTYPE(None, ctypes.c_size_t, ctypes.c_int, ctypes.c_size_t)


def host_function(address: int, data: int) -> Callable[[], None]:
    """Make the work of a CUhostFn."""
    function = _HostFunction(address)
    return lambda: function(data)


def stream_callback(address: int, stream: int, data: int) -> Callable[[], None]:
    """Make the work of a CUstreamCallback, whose second argument is the stream's result."""
    function = _StreamCallback(address)
    return lambda: function(stream, 0, data)


class HostThread:
    """The thread in which host functions run; `ident` is 0 until it has started."""

    def __init__(self, machine: Machine) -> None:
        self.ident = 0
        self._machine = machine
        self._given: queue.SimpleQueue[Work] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def give(self, work: Work) -> None:
        """Run a piece of work in this thread, after what it was given before."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name="host functions", daemon=True)
            try:
                self._thread.start()
            except RuntimeError:                 # the interpreter is ending and starts no more threads
                self._thread = None
                self._run(work)
                return
        self._given.put(work)

    def _serve(self) -> None:
        self.ident = threading.get_ident()
        while True:
            work = self._given.get()
            work.run()
            with self._machine.lock:
                self._machine.queues.finish_host(work)

    def _run(self, work: Work) -> None:
        """Run a piece of work in the calling thread, with the lock open and calls refused."""
        before, self.ident = self.ident, threading.get_ident()
        try:
            with self._machine.unlocked():
                work.run()
        finally:
            self.ident = before
        self._machine.queues.finish_host(work)
