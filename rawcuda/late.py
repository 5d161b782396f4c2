"""Modules that are imported when one of their names is first used.

What it is   `Late`, a decorator of a function that imports a module; it takes the function's place.
What not     A function that is seldom called contains a plain import statement instead. In one that is called often,
             such a statement would take 300 ns and more at each call.
Read next    protocols/device_memory.py
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

__all__ = ["Late"]


class _Names:
    """The names of a module that was imported; a class with __getattr__ would take 100 ns longer for each of them."""

    __slots__ = ("__dict__", "_load")


class Late(_Names):
    """The names of a module; the module is imported when the first of them is used.

        @Late
        def exporting():
            from . import exporting
            return exporting

        exporting.dlpack_device(view)

    After the import, the attributes of this object are the dict of the module itself. So each costs what an attribute
    costs, and a name that is changed in the module is changed here.
    """

    __slots__ = ()

    def __init__(self, load: Callable[[], ModuleType]) -> None:
        self._load = load

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # inspect and doctest ask every object for some of these
            raise AttributeError(name)
        found = self._load()
        if not getattr(found.__spec__, "_initializing", False):  # else the import may fail yet
            self.__dict__ = found.__dict__
            self.__class__ = _Names  # type: ignore[assignment]
        return getattr(found, name)
