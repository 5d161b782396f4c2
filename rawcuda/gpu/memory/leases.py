"""What keeps bytes after the close() of their owner, and what is closed with it.

What it is   `Lease`, which every export, every graph and some work holds; and `Lender`, an owner of bytes that other
             objects borrow: a Memory, a module with its variables, a library with its modules.
How          An owner that is closed closes what borrows from it. If there are leases, of its own or of borrowers, the
             last of them gets its finalizer, so that the bytes are freed after the last lease.
Read next    memory.py
"""

from __future__ import annotations

from _thread import allocate_lock
from _weakref import ref

from ...ownership import Owned, _nothing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ...gpu.memory.memory import Memory

__all__ = ["Lease", "Lender"]


class Lease:
    """An object that keeps the bytes of a Memory after its close(), until this object is deleted."""

    # __del__ is a slot, as in Owned: it receives the Memory's finalizer when the Memory is closed
    __slots__ = ("memory", "__del__", "__weakref__")

    if TYPE_CHECKING:
        memory: object  # after close() another Lease, if that has to live as long
        __del__: Callable[[], object]

    def __init__(self, memory: Memory) -> None:
        self.memory, self.__del__ = memory, _nothing  # (an object whose finalizer is not set takes longer to delete)


class Lender(Owned):
    """An owner of bytes that other objects borrow: they are closed with it, and their leases keep the bytes."""

    __slots__ = ("_borrowers",)

    if TYPE_CHECKING:
        _borrowers: dict[ref[Lender], None] | tuple[()]  # () until there is one

    def _lend(self, borrower: Lender) -> None:
        """Close an object with this owner; raises Closed after close()."""
        with _lending:
            there: dict[ref[Lender], None] = self._borrowers or {}
            self._borrowers = there
            there[ref(borrower, there.pop)] = None
        self.handle  # tested after the borrower was added; close() looks for borrowers afterwards

    def _borrowed(self) -> list[Lender]:
        """Return what borrows from this owner, directly or not."""
        found = [each for each in [one() for one in [*self._borrowers]] if each is not None]
        for each in tuple(found):
            found += each._borrowed()
        return found

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
            for each in borrowers:
                each.close()
            for each in borrowers:
                leases += each._held_by()
                shown = shown or each._is_shown()
        if shown:  # its finalizer frees the bytes
            return True
        if not leases or self._release is None:
            return False
        for one, other in zip(leases, leases[1:]):
            one.memory = other  # so that the last one ends after all
        if self.__del__ is not _nothing:  # (an interrupted close() may have done this already)
            leases[-1].__del__, self.__del__ = self.__del__, _nothing
        return True


_lending = allocate_lock()
