"""Handles that are released exactly once: by close(), by a with block, or, as a safety net, after garbage collection.

What it is   the life cycle of every handle: created by us and released exactly once, or borrowed and never released;
             and the token that tells whether earlier checks still hold.
What not     it knows no driver: each owner passes in the function that releases its handle.
Why so       Garbage collection may run inside any call, in any thread, even while another thread captures a stream. So
             the safety net only appends to a deque; `drain`, called where a release is harmless, does the rest.
At the end   Nothing is released when the process ends: the driver does that. In a child of fork() releases are dropped,
             because the handles belong to the parent.
             A signal may raise KeyboardInterrupt between any two lines. So a step that must not be divided is one call
             of a C function, and every other step may be repeated: a release may be called twice, and releases once.
Read next    tracing.py, gpu/core/handles.py; gpu/core/__init__.py says what hold, retain, lease and drop mean
"""

from __future__ import annotations

from _thread import allocate_lock, get_ident
from collections import deque
from contextlib import nullcontext

from . import tracing
from .errors import Closed, a_kind
from .interpreter.cpython import untrack

TYPE_CHECKING = False
if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from types import TracebackType
    from typing import Any, Callable, NoReturn, Protocol, TypeVar

    from typing_extensions import Self

    class Release(Protocol):
        """The release of one handle; see Owned."""

        def release(self, late: bool) -> object:
            """Release the handle, unless it was released already; return False if it has to be tried again later."""

        def give_away(self) -> bool:
            """Make release() do nothing from now on; tell whether there was still something to release."""

    _Self = TypeVar("_Self", bound="Owned")

__all__ = [
    "Asked",
    "Ending",
    "Once",
    "Owned",
    "bound",
    "calling",
    "drain",
    "dropped",
    "ending",
    "forked",
    "invalidate",
    "is_serving",
    "note_fork",
    "releases_later",
    "unless_inside",
    "serving",
    "token",
    "tokens",
]


# -- the token: launches check streams, modules and devices once, and afterwards only the token

tokens: list[list[bool]] = []  # that were taken and are true; usually at most one


def token() -> list[bool]:
    """Return a token that is true until it is invalidated. Take it before you run the checks that it vouches for."""
    if invalidate not in tracing.observers:
        tracing.observers.append(invalidate)
    for current in tokens[-1:]:  # (another thread may empty the list now)
        return current  # (if another thread invalidates it now, it is false, and vouches for nothing)
    made = [True]
    tokens.append(made)
    return made


def invalidate() -> None:
    """Make every token false that was taken so far: a checked object was closed, or tracing begins.

    Two threads may run this at once, and a fork may come at any time: no token leaves the list before it is false.
    """
    for old in tokens[:]:
        old.clear()
        try:
            tokens.remove(old)  # or another one that is false, since they compare equal
        except ValueError:  # another thread removed it
            pass


# -- releasing

# The pending releases: of objects that were collected without close(), and those that close() could not make at once.
dropped: deque[Release | Asked] = deque()
_first = deque.popleft
# A release may be refused as long as a capture goes on, in which nearly each of our calls drains. So one drain() ends
# after this number of refusals, and the next one goes on with others: these are put at the end.
_MOST_REFUSED = 16
# Not empty in a child of fork(): the handles belong to the parent, and the driver does not work here.
forked: list[bool] = []
serving: list[int] = []  # the threads that run a host function now: they may not call the driver
# A driver that is written in Python adds a function here, which tells whether this thread is inside one of its calls.
calling: list[Callable[[], bool]] = []


def note_fork() -> None:
    """Set `forked`: this is a child of a process that has initialized a driver."""
    forked.append(True)
    tracing.careful.append(forked)
    invalidate()


def is_serving() -> bool:
    """Tell whether this thread runs a host function, in which the driver may not be called."""
    return bool(serving) and get_ident() in serving


def releases_later() -> bool:
    """Tell whether what is closed in this thread now is released later, by the next drain().

    It is in a host function, and if a garbage collection or a signal handler closes it inside a call of a driver that
    is written in Python: other threads may wait for the end of that call, and hold the locks that the release takes.
    """
    if not serving and not calling:
        return False
    return is_serving() or any(inside() for inside in calling)


def unless_inside(lock: Any) -> AbstractContextManager[Any]:
    """Return a lock, or nothing inside a call of a driver that is written in Python: in a __del__ or a signal handler.

    There, another thread may hold the lock, and wait for the end of that call. Such a driver makes no call of another
    thread meanwhile, releases are made later, and waits are refused.
    """
    return nullcontext() if releases_later() else lock


def drain() -> None:
    """Do the pending releases; called where our own calls create or release a handle, launch, or have waited."""
    if releases_later():
        return
    later: list[Release | Asked] = []
    try:
        # A listener of a trace may drop something in each release, so the number of releases is limited.
        for _ in range(len(dropped) + 100):
            if not dropped or len(later) == _MOST_REFUSED:
                break
            later.extend(map(_first, (dropped,)))  # one call of a C function, which no interrupt divides
            release = later[-1]
            try:
                if forked or release.release(True) is not False:
                    later.pop()
            except Exception as error:  # a defect, which should be told once
                if not isinstance(error, (RecursionError, MemoryError, ImportError)):
                    later.pop()
                raise
    except (IndexError, ImportError):  # another thread took the last one; the interpreter ends and imports nothing more
        pass
    finally:
        dropped.extend(later)


class Asked:
    """The release of what close() was called for, where it could not be made: drain() makes it as close() does.

    What was collected is used by no work that retains it, and is released without a wait; what is closed may be used.
    """

    __slots__ = ("_release",)

    def __init__(self, release: Release) -> None:
        self._release = release

    def release(self, late: bool) -> object:
        """Release the handle as close() does; return False if it has to be tried again later."""
        return self._release.release(False)


class Once:
    """A release that calls its function once, no matter how often and in which threads it is called."""

    __slots__ = ("_function", "_taken")

    def __init__(self, function: Callable[[bool], object]) -> None:
        self._function: Callable[[bool], object] | None = function
        self._taken = allocate_lock()  # by the one caller that calls the function; it is not released afterwards

    def release(self, late: bool) -> None:
        """Call the function, unless it was called already."""
        if self._taken.acquire(False):
            function, self._function = self._function, None
            if function is not None:
                function(late)

    def give_away(self) -> bool:
        """Make release() do nothing from now on; tell whether there was still something to release."""
        first = self._taken.acquire(False)
        if first:
            self._function = None
        return first


# types.MethodType: bound(function, x)() calls function(x) without Python code. Making it takes 40 ns, a partial 70
bound: Any = type(Once(bool).release)


_nothing = "".__len__  # a finalizer that does nothing
_new: Any = object.__new__


class Ending:
    """What appends a release to `dropped` when the memory of its owner is freed; the owner itself has no finalizer.

    It is hidden from the garbage collector, so it ends after all finalizers of a cycle: see untrack().
    """

    # __del__ is a slot, so that the finalizer of each object is a C function, in which no Python signal handler can
    # run: it appends to `dropped`.
    __slots__ = ("__del__",)

    if TYPE_CHECKING:
        __del__: Any

    def cancel(self) -> None:
        """Append nothing."""
        self.__del__ = _nothing


def ending(release: Release | Asked | None) -> Ending:
    """Return what makes a release, or none yet, when its owner is freed. The release must not refer to the owner."""
    made: Ending = _new(Ending)
    made.__del__ = _nothing if release is None else bound(dropped.append, release)
    untrack(made)
    return made


class Owned:
    """A handle that is released exactly once, in any thread.

    Its release is an object whose method release() takes a bool: whether it runs late, from `drain`, where nobody asked
    for it now. Several threads may call it, several times; it releases once, and raises nothing but
    interrupts. It must not refer to the owned object, which otherwise would never be collected.
    """

    __slots__ = ("_handle", "_release", "_ending", "__weakref__")

    if TYPE_CHECKING:
        _handle: int | None
        _release: Release | None  # None where the handle is borrowed
        _ending: Ending | None

    def _own(self, handle: int | None, release: Release | None) -> None:
        """Take ownership of a handle, or of what release() will find; without a release the handle is borrowed.

        An earlier release is made later.
        """
        self._release = release
        self._ending = None if release is None else ending(release)
        self._handle = handle

    @property
    def handle(self) -> int:
        """Return the C handle as an int; raises Closed after close() or detach()."""
        handle = self._handle
        if handle is None:
            why = getattr(self._release, "why", "make a new one, or close it later")
            raise Closed(f"this {type(self).__name__} is closed: {why}")
        return handle

    @property
    def closed(self) -> bool:
        """Tell whether close() or detach() was called."""
        return self._handle is None

    @property
    def borrowed(self) -> bool:
        """Tell whether the handle belongs to another owner, so that close() releases nothing."""
        return self._release is None

    def close(self) -> None:
        """Release the handle now; a second close() does nothing. close() raises nothing but interrupts."""
        self._close()
        if dropped:
            drain()

    def _close(self) -> None:
        """Do what close() does, but leave what others have dropped: who holds a lock must not run their finalizers."""
        if self._handle is None:
            return
        release = self._release
        self._handle = None
        try:
            if not self._closing() and release is not None:
                if not forked and (releases_later() or release.release(False) is False):
                    dropped.append(Asked(release))
                self._cancel()
        except ImportError:  # the interpreter ends and imports nothing more: the driver releases everything
            self._cancel()
        except BaseException:  # an interrupt: the next drain() releases the handle
            if not self._closing() and release is not None:
                dropped.append(Asked(release))
            raise

    def detach(self) -> int:
        """Return the handle and give up its ownership: the caller must release it.

        raises  Closed   after close() or detach()
        """
        handle, release = self.handle, self._release
        if release is not None and not release.give_away():
            raise Closed(f"this {type(self).__name__} is closed: its handle cannot be given away")
        self._handle = None
        self._closing()
        return handle

    def _cancel(self) -> None:
        """Release nothing when this object is freed."""
        if self._ending is not None:
            self._ending.cancel()

    def _closing(self) -> bool | None:
        """React to the handle becoming invalid; return True if another object will release it."""
        return None

    def __copy__(self) -> NoReturn:
        raise TypeError(f"{a_kind(self)} has one owner and cannot be copied: pass on the object itself")

    def __deepcopy__(self, memo: object) -> NoReturn:
        self.__copy__()

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError(f"{a_kind(self)} holds a handle of this process and cannot be pickled")

    def __enter__(self) -> Self:
        self.handle  # raises Closed here, not inside the block
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
