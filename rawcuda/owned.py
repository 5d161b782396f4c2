"""Something that is released once: by close(), by its with block, or, as a safety net, after its collection.

What it is   the life of every handle: opened by us and released exactly once, or borrowed and never released.
What not     it knows no driver: the release is a function that it is given.
Why so       a collection may run inside any call, in any thread, also while another thread captures a stream. So the safety
             net only appends to a deque; `drain`, called where a release is harmless, does the rest.
Read next    device.py and memory.py, the first users
"""
from __future__ import annotations

import os
from collections import deque

from .errors import Closed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any, Callable, Optional, TypeVar

    Release = Callable[[bool], object]
    _Self = TypeVar("_Self", bound="Owned")

__all__ = ["Owned", "Ticket", "drain", "dropped", "generation", "outdate"]

dropped: "deque[tuple[int, Release]]" = deque()


# What prepared launches rest on (streams, modules, devices, the process) is looked at once, and then only this: the last list here,
# which is emptied, and another put in its place, when anything of all that goes.
_generations: "list[tuple[list[bool], list[bool]]]" = [([True], [])]     # and whether anybody has it


def generation() -> "list[bool]":
    """Return a list that is not empty until outdate(): ask for it before what it stands for is looked at."""
    now, looked = _generations[-1]
    looked[:] = True,
    return now


def outdate() -> None:
    """Let whatever was prepared be checked once more at its next use.

    Two threads may be here at once, and a fork may come at any time: none leaves the list before it is empty.
    """
    looked = _generations[-1][1]
    if not looked and len(_generations) == 1:
        return
    _generations.append(([True], []))
    for old in _generations[:-1]:
        old[0].clear()
        try:
            _generations.remove(old)
        except ValueError:                  # another thread was faster
            pass


_process = 0                                # asked once in each process, since it costs as much as a foreign call; 0: not yet


def _note_process() -> int:
    global _process
    if not _process and hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_note_process)
    _process = os.getpid()
    return _process


class Ticket:
    """The right to release something once; whoever takes it first has it, in any thread.

    A dropped ticket hands its release to the deque; `__del__` does nothing else, for it may run anywhere.
    """

    __slots__ = ("_release", "_pid")

    def __init__(self, release: "Release") -> None:
        self._release = [release]           # a list, since list.pop is atomic: two closes at once release once
        self._pid = _process or _note_process()

    def take(self) -> "Optional[Release]":
        """Return the release, the first time; None ever after, and in a child of fork()."""
        try:
            release = self._release.pop()
        except IndexError:
            return None
        return release if self._pid == _process else None

    def __del__(self, _append: "Any" = dropped.append) -> None:
        if self._release:
            _append((self._pid, self._release.pop()))


def drain() -> None:
    """Release what was collected without a close; called where our own calls create or release something."""
    while dropped:
        try:
            pid, release = dropped.popleft()
        except IndexError:                  # another thread was faster
            return
        if pid == _process:
            release(True)


class Owned:
    """Be something that has a handle, and is released once.

    A release is a function of one bool: whether it runs late, out of `drain`, and so must not disturb a stream capture.
    It never raises.
    """

    __slots__ = ("_handle", "_ticket", "__weakref__")

    _handle: "Optional[int]"
    _ticket: "Optional[Ticket]"

    def _own(self, handle: int, release: "Optional[Release]") -> None:
        """Take a handle; without a release it is borrowed."""
        self._handle = handle
        self._ticket = Ticket(release) if release is not None else None

    @property
    def handle(self) -> int:
        """Return the C handle as an int; raises Closed after close() or detach()."""
        handle = self._handle
        if handle is None:
            raise Closed(f"this {type(self).__name__} is closed: make a new one, or close it later")
        return handle

    @property
    def closed(self) -> bool:
        """Tell whether close() or detach() was called."""
        return self._handle is None

    @property
    def borrowed(self) -> bool:
        """Tell whether the handle is somebody else's, so that close() releases nothing."""
        return self._ticket is None

    def close(self) -> None:
        """Release it now; a second close does nothing, and no close raises."""
        release = self._ticket.take() if self._ticket is not None else None
        self._handle = None
        self._gone()
        if release is not None:
            release(False)
        if dropped:
            drain()

    def detach(self) -> int:
        """Give the handle away: the caller releases it from now on.

        raises  Closed   after close() or detach()
        """
        handle = self.handle
        if self._ticket is not None and self._ticket.take() is None:
            raise Closed(f"this {type(self).__name__} is closed: its handle cannot be given away")
        self._handle = None
        self._gone()
        return handle

    def _gone(self) -> None:
        """Be told that the handle must not be used any more, before it is released."""

    def __enter__(self: "_Self") -> "_Self":
        self.handle                          # a closed one says so here, not deep inside the block
        return self

    def __exit__(self, kind: "Optional[type[BaseException]]", value: "Optional[BaseException]",
                 traceback: "Optional[TracebackType]") -> None:
        self.close()
