"""Things that are released exactly once: by close(), by a with block, or, as a safety net, after their collection.

What it is   the life of every handle: made by us and released exactly once, or borrowed and never released; and the
             token that tells whether checks made earlier still hold.
What not     it knows no driver: the release is a function that it is given.
Why so       a collection may run inside any call, in any thread, also while another thread captures a stream. So the
             safety net only appends to a deque; `drain`, called where a release is harmless, does the rest.
             A signal may raise KeyboardInterrupt between any two lines. So what must not be done half is one call of a
             C function, and what may be repeated is: a release can be asked for again, and releases once.
Read next    tracing.py, gpu/handles.py
"""

from __future__ import annotations

import os
from collections import deque
from functools import partial

from . import names, tracing
from .errors import Closed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Protocol, TypeVar

    class Release(Protocol):
        """What releases a handle; see Owned."""

        def __call__(self, handle: int, late: bool) -> object:
            """Release the handle, unless that was done."""

        def give_away(self) -> bool:
            """Release nothing from now on; tell whether that was the first use of this."""

    Entry = tuple[Release, int]  # a release that is due, and the handle
    _Self = TypeVar("_Self", bound="Owned")

__all__ = ["Once", "Owned", "drain", "dropped", "forked", "invalidate", "token"]


# -- the token: launches check streams, modules and devices once, and from then on only the token

_tokens: list[tuple[list[bool], list[bool]]] = [
    ([True], [])
]  # the current token last; and whether anybody has taken it


def token() -> list[bool]:
    """Return a token that is true until it is invalidated. Take it before you run the checks that it vouches for."""
    if invalidate not in tracing.observers:
        tracing.observers.append(invalidate)
    current, taken = _tokens[-1]
    taken[:] = (True,)
    return current


def invalidate() -> None:
    """Make every token false that was taken so far.

    Something that was checked is closed now, or calls are traced from now on.

    Two threads may be here at once, and a fork may come at any time: no token leaves the list before it is false.
    """
    taken = _tokens[-1][1]
    if not taken and len(_tokens) == 1:
        return
    _tokens.append(([True], []))
    for old in _tokens[:-1]:
        old[0].clear()
        try:
            _tokens.remove(old)
        except ValueError:  # another thread was faster
            pass


# -- releasing

dropped: deque[Entry] = deque()  # what was collected without a close, and what an interrupt kept from being released
forked: list[
    bool
] = []  # not empty in a child of fork(): what was owned before belongs to the parent, and no driver works here
_watched: list[bool] = []


def _watch_forks() -> None:
    _watched.append(True)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=partial(forked.append, True))


def drain() -> None:
    """Release what is due; called where our own calls create or release something."""
    due: list[Entry] = []
    try:
        while dropped:  # a release may drop something else
            try:
                due.extend(iter(dropped.popleft, None))
            except IndexError:  # no more: they are ours now, and no other thread's
                pass
            while due:
                release, handle = due[-1]
                if not forked:
                    release(handle, True)
                due.pop()
    except BaseException:  # an interrupt: the rest is released by the next drain()
        dropped.extend(due)
        raise


class Once:
    """A release that calls a function once, whoever calls it, and how often."""

    __slots__ = ("_functions",)

    def __init__(self, function: Callable[[int, bool], object]) -> None:
        self._functions = iter((function,))  # gives the function to one caller only

    def __call__(self, handle: int, late: bool) -> None:
        for function in self._functions:
            function(handle, late)

    def give_away(self) -> bool:
        """Release nothing from now on; tell whether that was the first use of this."""
        return bool([*self._functions])


class Owned:
    """A handle that is released exactly once, in any thread.

    A release is a function of the handle and of one bool: whether it runs late, out of `drain`, and so must not disturb
    a stream capture. It may be called several times, by several threads, and releases once; it raises nothing but
    interrupts. It must not refer to the owned object, which would then never be collected.
    """

    # __del__ is a slot, so that each object's finalizer is a C function, in which no signal handler of Python's can
    # run: it appends to `dropped`.
    __slots__ = ("_handle", "_release", "__del__", "__weakref__")

    if TYPE_CHECKING:
        _handle: int | None
        _release: Release | None  # None where the handle is borrowed
        __del__: Any

    def _own(self, handle: int, release: Release | None) -> None:
        """Take a handle; without a release it is borrowed."""
        self._release = release
        if release is not None:
            if not _watched:
                _watch_forks()
            self.__del__ = partial(dropped.append, (release, handle))
        self._handle = handle

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
        return self._release is None

    def close(self) -> None:
        """Release it now; a second close does nothing, and no close raises."""
        handle, release = self._handle, self._release
        if handle is None:
            return
        try:
            self._handle = None
            if not self._closing() and release is not None:
                if not forked:
                    release(handle, False)
                self.__del__ = _nothing
        except BaseException:  # an interrupt: the next drain() releases it
            if not self._closing() and release is not None:
                dropped.append((release, handle))
            raise
        if dropped:
            drain()

    def detach(self) -> int:
        """Give the handle away: the caller releases it from now on.

        raises  Closed   after close() or detach()
        """
        handle, release = self.handle, self._release
        if release is not None and not release.give_away():
            raise Closed(f"this {type(self).__name__} is closed: its handle cannot be given away")
        self._handle = None
        self._closing()
        return handle

    def _closing(self) -> bool | None:
        """Take note that the handle must not be used any more; tell whether somebody else sees to its release."""
        return None

    def __copy__(self) -> names.NoReturn:
        raise TypeError(f"a {type(self).__name__} has one owner and cannot be copied: pass the object itself on")

    def __deepcopy__(self, memo: object) -> names.NoReturn:
        self.__copy__()

    def __reduce_ex__(self, protocol: object) -> names.NoReturn:
        raise TypeError(f"a {type(self).__name__} holds a handle of this process and cannot be pickled")

    def __enter__(self) -> names.Self:
        self.handle  # a closed one says so here, not deep inside the block
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: names.TracebackType | None
    ) -> None:
        self.close()


_nothing = "".__len__  # a finalizer that does nothing
