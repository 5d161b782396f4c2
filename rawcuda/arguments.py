"""Checks of what callers pass for a parameter; their errors name the parameter, the object and what it should be.

What it is   one function for each kind of parameter that many functions have: an int, a bool, a word, several things;
             and `SetOnce`, a base class whose attributes cannot be set later.
What not     it knows no class of this package, and it converts nothing that int(), float() or list() would not.
Why so       Python's own words ("unhashable type", "'NoneType' object is not iterable") do not say which argument is
             meant; and an object may have a method that always fails, as NumPy's arrays have __index__.
Read next    errors.py
"""

from __future__ import annotations

from operator import index

from .errors import a_kind, worded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

__all__ = [
    "SetOnce",
    "as_function",
    "as_enumerator",
    "as_bool",
    "as_sequence",
    "is_suspended",
    "as_choice",
    "as_float",
    "as_list",
    "as_int",
]


class SetOnce:
    """A base class for objects whose public attributes can be set once, by the code that makes the object.

    _instead  the remedy, for the AttributeError of each later attempt: "make another pool"
    """

    __slots__ = ()
    _instead: str

    def __setattr__(self, name: str, value: object) -> None:
        fact = getattr(type(self), name, None)
        if name[:1] != "_" and (
            type(fact) is _Slot and hasattr(self, name) or isinstance(fact, property) and not fact.fset
        ):
            raise AttributeError(f"{type(self).__name__}.{name} cannot be set: {self._instead}")
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        if name[:1] != "_":
            raise AttributeError(f"{type(self).__name__}.{name} cannot be deleted")
        object.__delattr__(self, name)


def as_int(what: str, given: Any) -> int:
    """Return an int that is given for a parameter as a plain int; raises TypeError, even for a bool.

    what  the subject of the error: the name of the parameter, or words such as "an index"
    """
    if type(given) is int:
        return given
    if type(given) is not bool and hasattr(type(given), "__index__"):
        try:
            return int.__index__(index(given))
        except TypeError:  # an array of several elements
            pass
    raise TypeError(f"{what} must be an int, not {a_kind(given)}")


def as_float(what: str, given: Any) -> float:
    """Return a number that is given for a parameter as a float, which is infinite if it is too large for one.

    raises  TypeError  another object, including a bool, a str or an array with dimensions
    """
    kind = type(given)
    if kind is not bool and (hasattr(kind, "__float__") or hasattr(kind, "__index__")):
        try:
            if not getattr(given, "shape", None):
                return float(given)
        except TypeError:  # NumPy's dates have __float__, too
            pass
        except OverflowError:
            return float("inf")
    raise TypeError(f"{what} must be a number, not {a_kind(given)}")


def as_choice(what: str, given: Any, words: Iterable[str]) -> str:
    """Return a word if it is one of those that a parameter may be; raises ValueError."""
    if isinstance(given, str) and given in words:
        return given
    raise ValueError(f"{what} {worded(given)}: give one of {', '.join(map(repr, words))}")


def as_list(what: str, given: Any, of: str) -> list[Any]:
    """Return the items of an iterable as a list; raises TypeError for anything else, including a str.

    of  words for the items: "devices"
    """
    if not isinstance(given, (str, bytes)) and getattr(type(given), "__iter__", None) is not None:
        try:
            items = iter(given)
        except TypeError:  # an array without dimensions
            pass
        else:
            return list(items)
    raise TypeError(f"{what} must be a sequence of {of}, such as a list, not {a_kind(given)}")


def as_sequence(what: str, given: Any) -> list[Any]:
    """Return the items of a sequence of numbers, or one number, as a list; raises TypeError, even for a set or a dict.

    The items are not checked.
    """
    kind = type(given)
    if kind is tuple or kind is list:
        return list(given)  # another thread may change a list
    if hasattr(kind, "__index__") and not getattr(given, "shape", None):  # (arrays have __index__, too)
        return [given]
    if hasattr(kind, "isdisjoint") or hasattr(kind, "keys"):
        raise TypeError(f"{what} must be an int or a sequence of ints, such as a list, not {a_kind(given)}")
    return as_list(what, given, "ints")


def as_function(what: str, given: Any) -> Any:
    """Return a function that is given for a later call.

    what    what needs the function: "call()"
    raises  TypeError  another object, or a coroutine or generator function, whose call would run none of its code
    """
    if not callable(given):
        raise TypeError(f"{what} needs a function, not {a_kind(given)}")
    if is_suspended(getattr(given, "func", given)):  # (func: of a functools.partial)
        raise TypeError(
            f"{what} needs a plain function, and {worded(given)} is a coroutine or generator function: a call would "
            "run none of its code"
        )
    return given


def is_suspended(function: Any) -> bool:
    """Tell whether a function is a coroutine or generator function, whose call only makes an object."""
    return bool(getattr(getattr(function, "__code__", None), "co_flags", 0) & _SUSPENDED)


_Slot = type(vars(type(as_int))["__globals__"])  # the type of the descriptors of slots
_SUSPENDED = 0x20 | 0x80 | 0x200  # CO_GENERATOR, CO_COROUTINE, CO_ASYNC_GENERATOR


def as_bool(name: str, given: Any) -> bool:
    """Return what is given for a parameter that is a bool: a bool, NumPy's bool, 0 or 1; raises TypeError otherwise."""
    if type(given) is bool:
        return given
    if type(given).__name__.startswith("bool") and getattr(given, "shape", None) == ():  # NumPy's
        given = given.item()
    if not isinstance(given, int) or given not in (0, 1):
        raise TypeError(f"{name}={worded(given)}: give True or False")
    return bool(given)


def as_enumerator(name: str, given: Any, words: tuple[str, ...]) -> int:
    """Return the number of a value of an enumeration, given by its name or its number."""
    if isinstance(given, str):
        if given in words:
            return words.index(given)
    elif isinstance(given, bool) or not hasattr(type(given), "__index__") or getattr(given, "shape", None):
        raise TypeError(f"{name} must be one of {', '.join(map(repr, words))}, not {a_kind(given)}")
    elif 0 <= as_int(name, given) < len(words):
        return as_int(name, given)
    raise ValueError(f"{name}={worded(given)}: give one of {', '.join(map(repr, words))}")
