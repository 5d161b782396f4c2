"""What keeps bytes after the close() of their owner, and what is closed with it.

What it is   `Lease`, which every export, every graph and some work holds; and `Lender`, an owner of bytes that other
             objects borrow: a Memory, a module with its variables, a library with its modules, a graph with the
             memory of its allocation nodes.
How          An owner that is closed closes what borrows from it. If there are leases, of its own or of borrowers, the
             release goes to an Ending, to which all of them refer: the bytes are freed after the last one.
Read next    ../memory/memory.py
"""

from __future__ import annotations

from _weakref import ref

from ...ownership import Asked, Ending, Owned, _nothing, bound, dropped, ending

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["Lease", "Lender"]


class Lease:
    """An object that keeps the bytes of a Memory after its close(), until this object is deleted."""

    __slots__ = ("memory", "ends", "__weakref__")

    if TYPE_CHECKING:
        memory: object
        ends: list[Ending]  # after close() what makes the release

    def __init__(self, memory: object) -> None:
        self.memory, self.ends = memory, []


class _Borrower(ref):  # type: ignore[type-arg]
    """A weak reference to a borrower, which equals only itself: a subclass of Memory may define when two are equal."""

    __slots__ = ()
    __eq__, __hash__ = object.__eq__, object.__hash__


class Lender(Owned):
    """An owner of bytes that other objects borrow: they are closed with it, and their leases keep the bytes."""

    __slots__ = ("_borrowers",)

    if TYPE_CHECKING:
        _borrowers: dict[ref[Lender], None]

    def _lend(self, borrower: Lender) -> None:
        """Close an object with this owner; raises Closed after close()."""
        there = self._borrowers
        there[_Borrower(borrower, there.pop)] = None
        self.handle  # tested after the borrower was added; close() looks for borrowers afterwards

    def _borrowed(self) -> list[Lender]:
        """Return what borrows from this owner, directly or not: each object after the one that it borrows from."""
        found: list[Lender] = [self]
        for owner in found:  # (the list grows meanwhile; a chain may be longer than Python's stack)
            found += [each for each in [one() for one in [*owner._borrowers]] if each is not None]
        return found[1:]

    def _held_by(self) -> list[Lease]:
        """Return the leases that exist."""
        return []

    def _is_shown(self) -> bool:
        """Tell whether users of an array interface may keep this object."""
        return False

    def _closing(self) -> bool:
        leases, shown = self._held_by(), self._is_shown()
        if self._borrowers:
            borrowers = self._borrowed()
            for borrower in reversed(borrowers):  # so that each has only closed borrowers
                borrower._close()  # (who closes the owner may hold a lock)
            for borrower in borrowers:
                leases += borrower._held_by()
                shown = shown or borrower._is_shown()
        if shown:  # its finalizer frees the bytes
            return True
        if not leases or self._release is None:
            return False
        own = self._ending
        finalizer: Any = _nothing if own is None else own.__del__
        if own is not None and finalizer is not _nothing:  # (an interrupted close() may have done this already)
            end = ending(None)
            for each in leases:
                each.ends.append(end)  # if another thread does the same now, they keep both
            release = finalizer.__self__  # (after reset() it is not self._release any more)
            end.__del__, own.__del__ = bound(dropped.append, Asked(release)), _nothing
        return True
