"""Allocations and addresses as arrays, and the exception that gives a chunk to the scalar executor.

Read next    vector_memory.py
"""

from __future__ import annotations

from ..late_numpy import np

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ....machine.space import Allocation

    Array = Any

__all__ = ["M64", "SHIFT", "Held", "Seen", "Trouble", "moved", "taken"]

SHIFT = {1: 0, 2: 1, 4: 2, 8: 3, 16: 4, 32: 5}
M64 = (1 << 64) - 1


class Trouble(Exception):
    """A reason to run a chunk with the scalar executor; `lasting`: it will occur in every chunk."""

    def __init__(self, reason: str, lasting: bool = False, site: int | None = None) -> None:
        super().__init__(reason)
        self.lasting = lasting
        self.site = site  # the access that gives an undefined value: it is reported only once


class Held:
    """An allocation as arrays."""

    __slots__ = ("allocation", "base", "size", "bytes", "logged", "saved", "writable", "_views", "_marks")

    def __init__(self, allocation: Allocation, writable: bool) -> None:
        self.allocation, self.writable = allocation, writable
        self.base, self.size = allocation.base, allocation.size
        self.bytes = np.frombuffer(allocation.data, np.u1)
        self.logged = 0
        self.saved = False
        self._views: dict[tuple[int, int], tuple[Array, int, int]] = {}
        self._marks: dict[tuple[int, int], Array] = {}

    def view(self, width: int, total: int) -> tuple[Array, int, int]:
        """Return elements of a width, the address of the first, and the length in bytes."""
        found = self._views.get((width, total))
        if found is None:
            skipped = -self.base % total
            length = max(0, (self.size - skipped) // width * width)
            elements = self.bytes[skipped : skipped + length].view(np.UNSIGNED[width])
            found = self._views[width, total] = (elements, self.base + skipped, length)
        return found

    def marks(self, width: int, total: int) -> Array | None:
        """Return elements that are 0 where memory was never written, or None if all of it was."""
        written = self.allocation.written
        if written is None:
            return None
        found = self._marks.get((width, total))
        if found is None:
            skipped = -self.base % total
            length = max(0, (self.size - skipped) // width * width)
            whole = np.frombuffer(written, np.u1)
            found = self._marks[width, total] = whole[skipped : skipped + length].view(np.UNSIGNED[width])
        return found

    def twins(self, copied: Held) -> dict[int, Array | None]:
        """Return the arrays of a copy of the allocation, by the id of the array of this one."""
        found: dict[int, Array | None] = {id(self.bytes): copied.bytes}
        found.update((id(array), copied.view(*key)[0]) for key, (array, _, _) in self._views.items())
        found.update((id(array), copied.marks(*key)) for key, array in self._marks.items())
        return found


class Seen:
    """The facts about an array of addresses: its bounds, all bits that are set, and the indexes made from it.

    The code often accesses the memory at one register with several offsets.
    """

    __slots__ = ("address", "low", "high", "bits", "indexes")

    def __init__(self, address: Array) -> None:
        self.address = address
        self.low, self.high = int(address.min()), int(address.max())
        self.bits = int(np.bitwise_or.reduce(address))
        self.indexes: dict[Any, Any] = {}

    def index(self, base: int, width: int, count: int) -> Any:
        """Return the indexes of elements in an allocation: an array, or a slice if the threads are neighbours."""
        key = (base, width, count)
        found = self.indexes.get(key)
        if found is None:
            address = self.address
            n, total = len(address), width * count
            if n > 1 and self.high - self.low == (n - 1) * total and int(address[0]) == self.low:
                if bool((address[1:] - address[:-1] == address.dtype.type(total)).all()):
                    start = (self.low - base) // width
                    found = slice(start, start + n * count, count)
            if found is None:
                if base:
                    found = (address - np.u8(base & M64)).view(np.i8) >> np.i8(SHIFT[width])
                else:
                    found = (address >> np.u8(SHIFT[width])).view(np.i8)
            self.indexes[key] = found
        return found


def moved(index: Any, by: int) -> Any:
    """Return indexes that are increased by a number of elements."""
    if not by:
        return index
    if type(index) is slice:
        return slice(index.start + by, index.stop + by, index.step)
    return index + by


def taken(array: Array, index: Any) -> Array:
    """Return a copy of some elements."""
    if type(index) is slice:
        return array[index].copy()
    return array[index]
