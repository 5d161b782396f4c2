"""The types of parameters: integers that must fit, handles, addresses, text, functions.

What it is   ctypes types whose from_param() refuses what does not fit; ctypes calls it on each argument. A header's own
             types (its handles, its structures) are made of these by reader.py.
Source       ctypes, "Specifying the required argument types", "Structure/union alignment"
Read next    reader.py
"""

from __future__ import annotations

import ctypes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "Integer",
    "Int",
    "UnsignedInt",
    "LongLong",
    "UnsignedLongLong",
    "Size",
    "UnsignedChar",
    "UnsignedShort",
    "Enumerator",
    "Handle",
    "VoidPointer",
    "ConstVoidPointer",
    "String",
    "Callback",
    "Float",
    "Flattened",
    "Aligned",
    "by_value",
]

_POINTERS = 1 << 8 * ctypes.sizeof(ctypes.c_void_p)  # one more than the largest address, and the largest size
_BOOLEANS = ("bool", "bool_")  # the names of Python's and NumPy's types; both have an __index__


class Integer:
    """An integer parameter: it refuses values that its C type cannot hold, which ctypes would silently truncate."""

    c_name = ""
    machine: Any = ctypes.c_int  # the plain ctypes type of the same width and sign
    low, high = 0, 0

    @classmethod
    def from_param(cls, value: Any) -> Any:
        """Check one argument.

        raises  TypeError   not an integer; True and False are not integers here
                ValueError  an integer that the C type cannot hold
        """
        if type(value) is not int:
            value = cls._number(value)
        if cls.low <= value <= cls.high:
            return cls.machine(value)
        raise ValueError(f"{_shown(value)} does not fit: {cls.c_name} holds {cls.low} to {cls.high}")

    @classmethod
    def _number(cls, value: Any) -> int:
        """Return the int value of another integer: of an object with __index__, or a ctypes integer of its width."""
        kind = type(value)
        if hasattr(kind, "__index__") and kind.__name__ not in _BOOLEANS:
            return int(kind.__index__(value))
        if (
            isinstance(value, ctypes._SimpleCData)
            and kind._type_ in "bBhHiIlLqQ"
            and ctypes.sizeof(value) == ctypes.sizeof(cls.machine)
        ):
            return int(value.value)
        raise TypeError(f"{cls.c_name} takes an integer, not {_article(value)}")


def _shown(value: int) -> str:
    """Return an integer as text for an error; Python refuses to print very long ones."""
    if value.bit_length() <= 128:
        return str(value)
    return f"an integer of {value.bit_length()} bits"


def _article(value: Any) -> str:
    """Return the text for an argument in an error."""
    if value is None or isinstance(value, (bool, float)):
        return repr(value)
    if isinstance(value, int):
        return _shown(value)
    return f"{'an' if type(value).__name__[0] in 'aeiouAEIO' else 'a'} {type(value).__name__}"


class Int(Integer, ctypes.c_int):
    """A parameter of the C type int."""

    c_name, machine, low, high = "int", ctypes.c_int, -(2**31), 2**31 - 1


class UnsignedInt(Integer, ctypes.c_uint):
    """A parameter of the C type unsigned int."""

    c_name, machine, high = "unsigned int", ctypes.c_uint, 2**32 - 1


class LongLong(Integer, ctypes.c_longlong):
    """A parameter of the C type long long."""

    c_name, machine, low, high = "long long", ctypes.c_longlong, -(2**63), 2**63 - 1


class UnsignedLongLong(Integer, ctypes.c_ulonglong):
    """A parameter of the C type unsigned long long."""

    c_name, machine, high = "unsigned long long", ctypes.c_ulonglong, 2**64 - 1


class Size(Integer, ctypes.c_size_t):
    """A parameter of the C type size_t."""

    c_name, machine, high = "size_t", ctypes.c_size_t, _POINTERS - 1


class UnsignedChar(Integer, ctypes.c_ubyte):
    """A parameter of the C type unsigned char."""

    c_name, machine, high = "unsigned char", ctypes.c_ubyte, 2**8 - 1


class UnsignedShort(Integer, ctypes.c_ushort):
    """A parameter of the C type unsigned short."""

    c_name, machine, high = "unsigned short", ctypes.c_ushort, 2**16 - 1


class Enumerator(Integer, ctypes.c_uint):
    """A parameter of an enumeration."""

    c_name, machine, high = "an enum", ctypes.c_uint, 2**32 - 1  # values that only newer drivers know are allowed


class Handle(ctypes.c_void_p):
    """A pointer to an object of the driver. Each kind is a type; a parameter takes its own kind, or None for NULL."""

    @classmethod
    def from_param(cls, value: Any) -> Any:
        """Check one argument.

        raises  TypeError  neither this kind of handle nor None
        """
        if value is None or type(value) is cls:
            return value
        if type(value) is int:
            remedy = f": if this is one, write {cls.__name__}({value:#x})"
        else:
            remedy = ""
        raise TypeError(f"this takes a {cls.__name__} or None, not {_article(value)}{remedy}")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.value or 0:#x})"


class VoidPointer(ctypes.c_void_p):
    """void *: an address, None, or a ctypes array, pointer or byref(...)."""

    wanted, takes_bytes = "an address, None, or a ctypes array, pointer or byref()", False

    @classmethod
    def from_param(cls, value: Any) -> Any:
        """Check one argument.

        raises  TypeError   a handle, or something that has no address
                ValueError  an integer that is not an address
        """
        if value is None:
            return None
        kind = type(value)
        if kind is int or (
            hasattr(kind, "__index__")
            and not hasattr(kind, "__len__")  # arrays have both
            and kind.__name__ not in _BOOLEANS
        ):
            address = kind.__index__(value)
            if 0 <= address < _POINTERS:
                return ctypes.c_void_p(address)
            raise ValueError(f"{_shown(address)} is not an address: it is below 0, or above {_POINTERS - 1:#x}")
        if isinstance(value, bytes) and not cls.takes_bytes:
            raise TypeError("bytes cannot be written to: give a bytearray by (ctypes.c_char * n).from_buffer(...)")
        if not isinstance(value, (str, bool, Handle)):
            try:
                return ctypes.c_void_p.from_param(value)
            except TypeError:
                pass
        raise TypeError(f"this takes {cls.wanted}, not {_article(value)}")


class ConstVoidPointer(VoidPointer):
    """const void *: the same, and bytes."""

    wanted, takes_bytes = "an address, None, bytes, or a ctypes array, pointer or byref()", True


class String(ctypes.c_char_p):
    """const char *: bytes, None, or an array of char."""

    @classmethod
    def from_param(cls, value: Any) -> Any:
        """Check one argument.

        raises  TypeError   not bytes; a str must be encoded
                ValueError  bytes with a zero byte inside, at which C would stop reading
        """
        if type(value) is bytes and 0 in value.rstrip(b"\0"):
            raise ValueError(f"{value!r} has a zero byte inside, at which C stops reading: leave it out")
        if isinstance(value, str):
            raise TypeError("this takes bytes, not a str: use its .encode()")
        return ctypes.c_char_p.from_param(value)


class Callback(ctypes.c_void_p):
    """A pointer to a function: a ctypes function of its type, its address, or None."""

    c_name = ""
    function: Any = None  # the ctypes type of the function

    @classmethod
    def from_param(cls, value: Any) -> Any:
        """Check one argument.

        raises  TypeError   another type of function, or a Python function, whose ctypes function nothing keeps alive
                ValueError  an integer that is not an address
        """
        if value is None or isinstance(value, cls.function):
            return ctypes.c_void_p.from_param(value)
        if type(value) is int:
            return VoidPointer.from_param(value)
        raise TypeError(
            f"this takes a function made with {cls.c_name}(...), its address or None, not {_article(value)}"
        )


class Float(ctypes.c_float):
    """A float parameter: it takes what float() of an integer or a float takes, but not True, False or text."""

    @classmethod
    def from_param(cls, value: Any) -> Any:
        """Check one argument.

        raises  TypeError  neither an integer nor a float
        """
        if isinstance(value, ctypes.c_float):
            return value
        kind = type(value)
        is_real = hasattr(kind, "__float__") and not issubclass(kind, complex)  # before 3.10, complex has it, too
        if not (is_real or hasattr(kind, "__index__")) or kind.__name__ in _BOOLEANS:
            raise TypeError(f"float takes a number, not {_article(value)}")
        return ctypes.c_float(float(value))


class Flattened(ctypes.Structure):
    """A structure with unnamed unions: its positional arguments are those of a C initializer without braces."""

    _order: tuple[str, ...] = ()

    def __init__(self, *values: Any, **members: Any) -> None:
        if len(values) > len(self._order):
            raise TypeError(f"{type(self).__name__} takes {len(self._order)} values, not {len(values)}")
        given = dict(zip(self._order, values))
        twice = [name for name in members if name in given]
        if twice:
            raise TypeError(f"{type(self).__name__}: {twice[0]} is given by its position and by its name")
        super().__init__(**given, **members)


class Aligned(ctypes.Structure):
    """A structure that must begin at a multiple of `_alignment` bytes, which ctypes alone does not ensure."""

    _alignment = 1

    def __new__(cls, *values: Any, **members: Any) -> Any:
        room = bytearray(ctypes.sizeof(cls) + cls._alignment)
        start = ctypes.addressof((ctypes.c_char * 1).from_buffer(room))
        return cls.from_buffer(room, -start % cls._alignment)


def by_value(structure: Any) -> Any:
    """Return the type for a parameter that is a whole structure, not a pointer to it.

    ctypes cannot pass a structure with a union inside; then it is a structure of the same form without the union, and
    its from_param() copies what it is given. The from_param() of ctypes crashes for byref().
    """
    has_union = _has_union(structure)

    def from_param(cls: Any, value: Any) -> Any:
        if not isinstance(value, (structure, cls)):
            raise TypeError(f"this takes a {structure.__name__} itself, not {_article(value)}")
        if has_union:
            return cls.from_buffer_copy(value)
        return value

    members = {"__doc__": structure.__doc__, "from_param": classmethod(from_param)}
    if not has_union:
        return type(structure.__name__, (structure,), members)
    flat: Any = type(structure.__name__, (ctypes.Structure,), members)
    flat._fields_ = list(_without_unions(structure))
    if ctypes.sizeof(flat) != ctypes.sizeof(structure):
        raise NotImplementedError(f"{structure.__name__} cannot be passed by value: its union is larger than expected")
    return flat


def _has_union(kind: Any) -> bool:
    return issubclass(kind, ctypes.Union) or any(_has_union(field[1]) for field in getattr(kind, "_fields_", ()))


def _without_unions(structure: Any) -> Any:
    """Yield the fields of a structure, each union replaced by its first member."""
    for name, kind in structure._fields_:
        if issubclass(kind, ctypes.Union):
            yield kind._fields_[0]  # as a C initializer does
        else:
            yield name, kind
