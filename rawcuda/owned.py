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
from functools import partial

from . import tracing
from .errors import Closed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any, Callable, TypeVar

    Release = Callable[[int, bool], object]
    _Self = TypeVar("_Self", bound="Owned")

__all__ = ["Owned", "drain", "dropped", "generation", "outdate"]

dropped: deque[tuple[Release, int]] = deque()


# What prepared launches rest on (streams, modules, devices, the process) is looked at once, and then only this: the last list here,
# which is emptied, and another put in its place, when anything of all that goes.
_generations: list[tuple[list[bool], list[bool]]] = [([True], [])]  # and whether anybody has it


def generation() -> list[bool]:
    """Return a list that is not empty until outdate(): ask for it before what it stands for is looked at."""
    now, looked = _generations[-1]
    looked[:] = (True,)
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
        except ValueError:  # another thread was faster
            pass


tracing.observers.append(outdate)

forked: list[
    bool
] = []  # not empty in a child of fork(): what was owned before belongs to the parent, and no driver works here
_watched: list[bool] = []


def _watch_forks() -> None:
    _watched.append(True)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=partial(forked.append, True))


def drain() -> None:
    """Release what was collected without a close; called where our own calls create or release something."""
    while dropped:
        try:
            release, handle = dropped.popleft()
        except IndexError:  # another thread was faster
            return
        if not forked:
            release(handle, True)


class Owned:
    """Be something that has a handle, and is released once, by whoever takes `_release` from it first, in any thread.

    A release is a function of the handle and of one bool: whether it runs late, out of `drain`, and so must not disturb a
    stream capture. It never raises. It does not know the owned thing, which would else never be collected.
    """

    __slots__ = ("_handle", "_release", "__weakref__")

    _handle: int | None
    _release: Release | None  # None: borrowed; deleted when it was taken, since only one thread can do that

    def _own(self, handle: int, release: Release | None) -> None:
        """Take a handle; without a release it is borrowed."""
        if release is not None and not _watched:
            _watch_forks()
        self._release = release
        self._handle = handle

    def _take(self) -> Release | None:
        """Return the release, the first time; None ever after, for what is borrowed, and in a child of fork()."""
        try:
            release = self._release
            if release is not None:
                del self._release
        except AttributeError:  # it was taken before
            return None
        return None if forked else release

    def __del__(self, _append: Any = dropped.append) -> None:
        # Only hands the release on, for it may run anywhere.
        try:
            handle = self._handle
            if handle is not None and self._release is not None:
                self._handle = None  # (whoever brings this back to life shall find it closed)
                _append((self._release, handle))
        except AttributeError:  # never finished
            pass

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
        return getattr(self, "_release", 0) is None

    def close(self) -> None:
        """Release it now; a second close does nothing, and no close raises."""
        handle = self._handle
        if handle is None:
            return
        try:  # as _take() does
            release = self._release
            if release is not None:
                del self._release
        except AttributeError:  # another thread was faster
            release = None
        self._handle = None
        self._gone()
        if release is not None and not forked:
            release(handle, False)
        if dropped:
            drain()

    def detach(self) -> int:
        """Give the handle away: the caller releases it from now on.

        raises  Closed   after close() or detach()
        """
        handle = self.handle
        if not self.borrowed and self._take() is None:
            raise Closed(f"this {type(self).__name__} is closed: its handle cannot be given away")
        self._handle = None
        self._gone()
        return handle

    def _gone(self) -> None:
        """Be told that the handle must not be used any more, before it is released."""

    def __enter__(self: _Self) -> _Self:
        self.handle  # a closed one says so here, not deep inside the block
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
