"""Stores that other blocks see late, as can happen on a GPU if a fence is missing.

What it is   `Delays`. A plain store to global memory is visible to its own block at once. When the block stops running,
             its stores since its last fence are taken back, and other blocks run with the older content. They are
             visible to the block again when it continues, and to all blocks when it reaches a fence or the launch ends.
How          The stores of the running block are recorded with what they replaced. Atomics and strong stores are never
             delayed, nor is an earlier plain store to the same place.
What not     the whole memory model: stores of a block are never seen in another order, and loads are never early.
Source       PTX ISA, "Memory Consistency Model"
Read next    ptx/ptx_program.py, which creates this in the random mode
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import random
    from typing import Any

    from ..running.lookups import Block

__all__ = ["Delays"]

_PART = 2  # bits of an address that are ignored by the test for overlaps


class Delays:
    """The stores of a launch that not all blocks have seen, by block."""

    def __init__(self, choose: random.Random) -> None:
        self._choose = choose
        self._logs: dict[int, list[list[Any]]] = {}  # [address, bytes, view, index, count, the hidden content]
        self._running: dict[int, list[Any]] = {}  # by the id of the entry
        self._parts: dict[int, list[list[Any]]] = {}  # the entries by the parts of memory that they lie in

    def store(self, address: int, total: int, view: Any, index: int, count: int) -> None:
        """Record a plain store of the running block, before it happens."""
        self._add([address, total, view, index, count, view[index : index + count].tolist()])

    def _add(self, entry: list[Any]) -> None:
        self._running[id(entry)] = entry
        for part in range(entry[0] >> _PART, (entry[0] + entry[1] - 1 >> _PART) + 1):
            self._parts.setdefault(part, []).append(entry)

    def touch(self, address: int, total: int) -> None:
        """Make what the running block stored at a place visible, since a strong access follows it."""
        for part in range(address >> _PART, (address + total - 1 >> _PART) + 1):
            for entry in self._parts.pop(part, ()):
                self._running.pop(id(entry), None)

    def flush(self) -> None:
        """Make the stores of the running block visible: it has reached a fence."""
        self._running.clear()
        self._parts.clear()

    def resume(self, block: Block) -> None:
        """Let a block see its own stores again."""
        for entry in self._logs.pop(block.number, []):
            _swap(entry)
            self._add(entry)

    def suspend(self, block: Block) -> None:
        """Hide the stores of a block that stops running: in most cases all, sometimes only the newest ones."""
        log = list(self._running.values())
        self.flush()
        if log and self._choose.random() < 0.2:
            del log[: self._choose.randrange(len(log) + 1)]
        for entry in reversed(log):
            _swap(entry)
        if log:
            self._logs[block.number] = log

    def end(self) -> None:
        """Make all stores visible: the launch has ended, or every block waits, and a GPU delays none forever."""
        for log in self._logs.values():
            for entry in log:
                _swap(entry)
        self._logs.clear()


def _swap(entry: list[Any]) -> None:
    """Exchange the content of memory with that of an entry."""
    _, _, view, index, count, kept = entry
    try:
        now = view[index : index + count].tolist()
        for at, value in enumerate(kept):
            view[index + at] = value
    except (TypeError, ValueError):  # the memory may only be read, and the store has failed; or it was freed
        return
    entry[5] = now
