"""Host functions: the thread that runs them.

What it is   HostThread, of which each machine has one; and `host_function`, which makes a Python function from a
             CUhostFn.
Source       CUDA Driver API, cuLaunchHostFunc
Read next    queues.py, which gives work to the thread
"""

from __future__ import annotations

import _thread
import ctypes
import os
import queue
import threading
from collections import deque

from .recovery import recover

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

    from .machine import Machine
    from .queues import Work

__all__ = ["HostThread", "host_function"]

_HostFunction = ctypes.CFUNCTYPE(None, ctypes.c_size_t)


def host_function(address: int, data: int) -> Callable[[], None]:
    """Return a function that calls a CUhostFn."""
    function = _HostFunction(address)
    return lambda: function(data)


class HostThread:
    """The thread in which host functions run; `ident` is 0 until it has started."""

    def __init__(self, machine: Machine) -> None:
        self.ident = 0
        self.given: deque[Work] = deque()  # the work that it runs, and the work to come
        self._machine = machine
        self._bell: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._started = False
        self._duty = threading.Lock()

    def give(self, work: Work) -> None:
        """Queue a piece of work for this thread, which runs its work in order."""
        self.given.append(work)
        self.ring()

    def ring(self) -> None:
        """Start or wake the thread if it has work; after an interrupt, a second call may be necessary."""
        if not self.given:
            return
        if not self._started:
            try:
                _thread.start_new_thread(self._serve, ())
            except RuntimeError:  # no thread can start: the interpreter ends, or is in a browser
                self._run_here()
                return
            self._started = True
        self._bell.put(None)

    def leave(self) -> None:
        """Leave the function that runs to its thread, which ends after it; a new thread runs the rest."""
        if self.given:
            self.given = deque(work for work in list(self.given)[1:] if not work.done)
            self._bell, self._duty = queue.SimpleQueue(), threading.Lock()
            self.ident, self._started = 0, False
            self.ring()

    def _serve(self) -> None:
        if not self._duty.acquire(False):  # a second thread, started after an interrupt, is not needed
            return
        self.ident = threading.get_ident()
        given, bell = self.given, self._bell
        while given is self.given:
            bell.get()
            while given and given is self.given:
                work = given[0]
                try:
                    work.begun = True
                    work.run()
                    if os.getpid() != self._machine.pid:  # a child of fork() has returned from a host function
                        return
                    with self._machine.lock:
                        given.popleft()
                        self._machine.queues.finish_host(work)
                except BaseException as caught:
                    self._machine.keep(caught)
                    recover(self._machine)

    def _run_here(self) -> None:
        """Run the newest piece of work in the calling thread, with the lock released and calls refused."""
        work = self.given.pop()
        before, self.ident = self.ident, threading.get_ident()
        try:
            self._machine.queues.run_unlocked(work)
        finally:
            self.ident = before
        self._machine.queues.finish_host(work)
