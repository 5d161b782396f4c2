"""The memory of the host: what is mapped, and managed memory on a device without concurrent access.

What it is   `is_mapped`, which tells whether the host has some memory. HostAccess, which takes the access to the pages
             of managed memory away while work is pending. An access is then a segmentation fault, as it is on Windows,
             WSL2 and Tegra.
What not     it does nothing in the eager mode, in which no work is pending, nor while a host function runs, which may
             use the memory, nor on Windows, which has no mprotect().
How          the pages are accessible inside each call, since the emulated devices are this process, too; and while the
             emulator itself runs work, at the end of a program or before a shared event. While a kernel runs in one
             thread, they are therefore accessible to the others.
Source       CUDA Programming Guide, "Unified Memory", coherency and concurrency
Read next    queues.py
"""

from __future__ import annotations

import ctypes
import faulthandler
import mmap

from .space import say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from .machine import Machine

__all__ = ["HostAccess", "is_mapped"]

_NOTHING, _READ_AND_WRITE = 0, 3  # PROT_NONE; PROT_READ and PROT_WRITE


def is_mapped(address: int, size: int, access: str = "r") -> bool:
    """Tell whether the host can read, or with "rw" also write, all of a range of its memory.

    Elsewhere than on Linux, this is not known: True.
    """
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:
            lines = file.read().splitlines()
    except OSError:
        return True
    at, low, high = address, 0, len(lines)
    while low < high:  # "7f00-7f10 rw-p ...", sorted by address: look for the first one that ends behind `at`
        middle = (low + high) // 2
        if _range_of(lines[middle])[1] > at:
            high = middle
        else:
            low = middle + 1
    for line in lines[low:]:
        first, end = _range_of(line)
        if at >= address + size or first > at or not line.split(" ", 2)[1].startswith(access):
            break
        at = end
    return at >= address + size


def _range_of(line: str) -> tuple[int, int]:
    first, end = line.split(" ", 1)[0].split("-")
    return int(first, 16), int(end, 16)


class HostAccess:
    """The access of the host to the managed memory of a machine."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._calls = 0  # the calls that are being made
        self._taken: list[tuple[int, int]] = []  # address and size of the pages that are not accessible
        self._said = False

    def around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a version of a function that gives the access at its beginning, and takes it if work is pending.

        It is for each entry, and for all that runs work outside of the entries: work may use managed memory.
        """
        if self._machine.concurrent:
            return function

        def call(machine: Machine, *arguments: Any) -> Any:
            self._give()
            self._calls += 1
            try:
                return function(machine, *arguments)
            finally:
                self._calls -= 1
                if not self._calls and machine.queues.is_busy() and not machine.queues.is_running():
                    self._take()

        return call

    def _give(self) -> None:
        while self._taken:
            _protect(*self._taken[-1], _READ_AND_WRITE)
            self._taken.pop()

    def _take(self) -> None:
        if not self._said:
            self._said = True
            say("cma=0: a segmentation fault is an access of the host to managed memory while work is pending")
            if not faulthandler.is_enabled():
                try:
                    faulthandler.enable()  # it writes the line
                except (AttributeError, OSError, RuntimeError, ValueError):  # stderr is closed, or no file
                    pass
        for place in _joined(self._machine.space.managed):
            self._taken.append(place)
            _protect(*place, _NOTHING)


def _joined(sizes: dict[int, int]) -> list[tuple[int, int]]:
    """Return address and size of the pages of allocations, of neighbours together."""
    found: list[tuple[int, int]] = []
    for address, size in sorted(sizes.copy().items()):
        whole = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
        if found and sum(found[-1]) == address:
            address, before = found.pop()
            whole += before
        found.append((address, whole))
    return found


def _protect(address: int, size: int, rights: int) -> None:
    if _mprotect is not None:
        _mprotect(ctypes.c_void_p(address), ctypes.c_size_t(size), ctypes.c_int(rights))


_mprotect = getattr(ctypes.CDLL(None), "mprotect", None) if hasattr(mmap, "PROT_READ") else None
