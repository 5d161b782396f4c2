"""The interface of a library: the one method that an object passed to use() must have.

What it is   the type of the argument of use(), which driver.py calls: the machine's libcuda, the emulator, or your own
             library.
What not     no room imports this at run time: any object with the method is a library.
Read next    driver.py
"""

from __future__ import annotations

from typing import Protocol

__all__ = ["Library"]


class Library(Protocol):
    """An object that knows the addresses of the driver's functions."""

    def address(self, symbol: str) -> int | None:
        """Return the address of an exported symbol, or None."""
