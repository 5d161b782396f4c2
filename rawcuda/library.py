"""What a driver is made of: the one method that a library object must have.

What it is   the type of what use() takes and driver.py calls: the machine's libcuda, the emulator, or a library of
             yours.
What not     nothing imports this room at run time: any object with such a method is a library.
Read next    driver.py
"""

from __future__ import annotations

from typing import Protocol

__all__ = ["Library"]


class Library(Protocol):
    """Anything that knows the addresses of the driver's functions."""

    def address(self, symbol: str) -> int | None:
        """Return the address of an exported symbol, or None."""
