"""The types of a kernel's parameters, as C++ compilers write them into its name: "_Z5scalePfi" takes float * and int.

What it is   `CType`, a type as far as a launch needs it; `is_signed`, whether an integer type has a sign; `elements`,
             the element types that an array for such a pointer may have; `parameters`, a reader of mangled names.
What not     it does not turn a name into text for people. A name that contains a lambda, an expression or a pointer to
             a member gives no types.
Source       Itanium C++ ABI, 5.1 "External Names (a.k.a. Mangling)"; CUDA C++ Programming Guide, "Built-in
             Vector Types"
Read next    ../compiler/declarations.py
"""

from __future__ import annotations

import ctypes
import re
from typing import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

__all__ = ["CType", "base_name", "elements", "is_signed", "parameters"]


class CType(NamedTuple):
    """The type of a parameter.

    name   the type at the end of all pointers, such as "unsigned int" or "float4"; "" if it is not known
    stars  the number of pointers and references before it
    reads  whether what the outermost pointer points to is const
    const  whether the type itself is const
    """

    name: str
    stars: int = 0
    reads: bool = False
    const: bool = False

    def pointer(self) -> CType:
        """Return the type of a pointer to this type."""
        return CType(self.name, self.stars + 1, self.const)

    def __str__(self) -> str:
        before = ""
        if self.reads and self.stars == 1 or self.const and not self.stars:
            before = "const "
        return before + (self.name or "?") + (" " + "*" * self.stars if self.stars else "")


def is_signed(type: CType) -> bool | None:
    """Tell whether an integer type is signed; None for other types, and for char, which differs between compilers."""
    if type.stars or type.name not in _SIGNED:
        return None
    return not type.name.startswith("unsigned ")


_SIGNED = frozenset(
    f"{sign}{width}" for sign in ("", "unsigned ") for width in ("short", "int", "long", "long long")
) | {"signed char", "unsigned char"}


# -- the element types of arrays

_LONG = ctypes.sizeof(ctypes.c_long) == 8  # elsewhere the width of a long depends on where the code was compiled
_BYTE, _SHORT = ("int8", "uint8", "bool"), ("int16", "uint16")
_BYTES_OF_FLOATS = ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu")
# For each type its own element type first. Integers may have either sign, as in a launch's numbers. Bits of floats
# that NumPy lacks, or that C programs keep as integers, are passed as integers of their width.
_ELEMENTS: dict[str, tuple[str, ...]] = {
    "bool": ("bool", "uint8", "int8"),
    "char": (*_BYTE, *_BYTES_OF_FLOATS),
    "signed char": (*_BYTE, *_BYTES_OF_FLOATS),
    "unsigned char": ("uint8", "int8", "bool", *_BYTES_OF_FLOATS),
    "short": (*_SHORT, "float16", "bfloat16"),
    "unsigned short": ("uint16", "int16", "float16", "bfloat16"),
    "int": ("int32", "uint32"),
    "unsigned int": ("uint32", "int32"),
    "long": ("int64", "uint64") if _LONG else (),
    "unsigned long": ("uint64", "int64") if _LONG else (),
    "long long": ("int64", "uint64"),
    "unsigned long long": ("uint64", "int64"),
    "float": ("float32",),
    "double": ("float64",),
    "__half": ("float16", *_SHORT),
    "__nv_bfloat16": ("bfloat16", *_SHORT),
    "__nv_fp8_e4m3": ("float8_e4m3fn", "uint8", "int8"),
    "__nv_fp8_e5m2": ("float8_e5m2", "uint8", "int8"),
    "complex<float>": ("complex64", "float32"),
    "complex<double>": ("complex128", "float64"),
}
_VECTORS = {
    "char": "char", "uchar": "unsigned char", "short": "short", "ushort": "unsigned short", "int": "int",
    "uint": "unsigned int", "long": "long", "ulong": "unsigned long", "longlong": "long long",
    "ulonglong": "unsigned long long", "float": "float", "double": "double", "__half": "__half",
    "__nv_bfloat16": "__nv_bfloat16",
}  # fmt: skip
_VECTOR = re.compile(r"(u?(?:char|short|int|long|longlong)|float|double|__half|__nv_bfloat16)([1-4])(?:_(?:16|32)a)?\Z")
_COMPLEX = re.compile(r"(?:std|cuda|thrust|cupy)?(?:::\w+)*(?:::)?(complex<(?:float|double)>)\Z")


def elements(type: CType) -> tuple[str, ...]:
    """Return the names of the element types that an array for a pointer may have, its own first; () if any may be.

    type  of the parameter: a pointer
    """
    if type.stars > 1:
        return "uint64", "int64"  # addresses
    found = _ELEMENTS.get(type.name)
    if found is not None:
        return found
    matched = _COMPLEX.match(type.name)
    if matched:
        return _ELEMENTS[matched[1]]
    matched = _VECTOR.match(type.name)
    if matched:
        return _of_vector(_VECTORS[matched[1]], int(matched[2]))
    return ()


def _of_vector(base: str, lanes: int) -> tuple[str, ...]:
    """Return the element types for a vector: those of its lanes, vectors of these, and what has the same bits."""
    found = _ELEMENTS[base]
    if lanes == 1 or not found:
        return found
    whole: tuple[str, ...] = {("float", 2): ("complex64",), ("double", 2): ("complex128",)}.get((base, lanes), ())
    width = int(re.sub(r"\D", "", found[0]) or 8) * lanes
    if found[0].startswith(("int", "uint")) and width in (16, 32, 64):
        whole = f"uint{width}", f"int{width}"  # the pixels of an image
    return (*found, *(f"{each}x{lanes}" for each in found), *whole)


# -- mangled names

_BUILT_IN = {
    "v": "void", "b": "bool", "c": "char", "a": "signed char", "h": "unsigned char", "s": "short",
    "t": "unsigned short", "i": "int", "j": "unsigned int", "l": "long", "m": "unsigned long", "x": "long long",
    "y": "unsigned long long", "n": "__int128", "o": "unsigned __int128", "f": "float", "d": "double",
    "e": "long double", "w": "wchar_t", "Dh": "__half", "DF16_": "_Float16", "DF16b": "__bf16", "Dn": "nullptr_t",
    "Ds": "char16_t", "Di": "char32_t",
}  # fmt: skip
_STD = {"a": "allocator", "b": "basic_string", "s": "string", "i": "istream", "o": "ostream", "d": "iostream"}
_DEEPEST = 150
_LONGEST = 1 << 16  # of a name
_MOST = 1 << 20  # characters of all names that are made of it, where a type of a pack counts as 100


def parameters(name: str) -> list[CType] | None:
    """Return the types of a function's parameters from its mangled name; None if that is not one, or not understood."""
    read = _read(name)
    if read is None:
        return None
    return read[1]


def base_name(name: str) -> str:
    """Return the name of a function without namespaces and arguments of templates: "scale" of "_Z5scaleIfEvPT_"."""
    read = _read(name)
    if read is None:
        return name
    return read[0]


def _read(name: str) -> tuple[str, list[CType]] | None:
    if not name.startswith("_Z") or len(name) > _LONGEST:
        return None
    reader = _Reader(name)
    try:
        reader.name()
        return reader.last, reader.function()
    except (_NotUnderstood, IndexError, ValueError, RecursionError):  # the name ends early, or a number is none
        return None


class _NotUnderstood(Exception):
    pass


class _Reader:
    """A position in a mangled name, and what may be referred to by S_, S0_ ... (found) and T_, T0_ ... (given)."""

    def __init__(self, text: str) -> None:
        self.text, self.at, self.depth = text, 2, 0
        self.found: list[Any] = []
        self.given: list[Any] = []
        self.last = ""  # the last part of the name that was read
        self.has_arguments = False
        self.left = _MOST

    # What is read is a CType, or the name of a template as a str.

    def function(self) -> list[CType]:
        """Return the types of the parameters; the name has been read, and its last part stays in .last."""
        if self.has_arguments:
            self._type()  # functions made from templates have the type of their result first
        base = self.last
        types: list[CType] = []
        if not base or self.at >= len(self.text):
            self._fail()
        while self.at < len(self.text) and self.text[self.at] != ".":
            types += self._types()
        if types and types[0] == CType("void"):
            types = types[1:]
        self.last = base
        return [type._replace(const=False) for type in types]

    def _fail(self) -> NoReturn:
        raise _NotUnderstood

    def _taken(self, prefix: str) -> bool:
        if self.text.startswith(prefix, self.at):
            self.at += len(prefix)
            return True
        return False

    def _counted(self, name: str) -> str:
        """Return a name; what a name refers to may be written out again and again, so all of it is counted."""
        self.left -= len(name)
        if self.left < 0:
            self._fail()
        return name

    def _peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def _next(self) -> str:
        self.at += 1
        return self.text[self.at - 1]

    # -- names

    def name(self) -> str:
        """Read the name of a function or a class, and set has_arguments if it ends with arguments of a template."""
        self.has_arguments = False
        if self._taken("N"):
            return self._nested()
        if self._peek() == "S" and self.text[self.at + 1] != "t":
            name = self._substitution()
            if type(name) is not str or self._peek() != "I":
                self._fail()
            return self._counted(name + self._arguments())
        name = ("std::" if self._taken("St") else "") + self._unqualified()
        if self._peek() == "I":
            self.found.append(name)
            name += self._arguments()
        return self._counted(name)

    def _nested(self) -> str:
        while self._peek() in ("r", "V", "K"):
            self.at += 1
        name: Any = ""
        while not self._taken("E"):
            self.has_arguments = False
            if self._peek() == "I":
                name += self._arguments()
            elif self._peek() == "S" and self.text[self.at + 1] != "t":
                name = self._substitution()
                name = self._counted(name if type(name) is str else name.name)
                continue
            elif self._peek() == "T":
                self._fail()
            else:
                name += ("::" if name else "") + ("std" if self._taken("St") else self._unqualified())
                if name == "std":
                    continue
            self._counted(name)
            if self._peek() != "E":
                self.found.append(name)
        if not name:
            self._fail()
        return str(name)

    def _unqualified(self) -> str:
        self._deeper()
        self._taken("L")  # of a static function
        size = 0
        if not self._peek().isdigit():
            self._fail()
        while self._peek().isdigit():
            size = 10 * size + int(self._next())
            if size > len(self.text):
                self._fail()
        name = self.text[self.at : self.at + size]
        if not size or len(name) != size:
            self._fail()
        self.at += size
        while self._taken("B"):
            self._unqualified()
        self.depth -= 1
        self.last = name
        return name

    def _arguments(self) -> str:
        """Read the arguments of a template, and return them as text."""
        last = self.last
        self._taken("I")
        given = []
        while not self._taken("E"):
            given.append(self._argument())
        self.given, self.has_arguments, self.last = given, True, last
        return self._counted(f"<{self._text_of(given)}>")

    def _text_of(self, given: Any) -> str:
        """Return an argument of a template as text, or those of a pack."""
        if isinstance(given, list):
            return ", ".join(map(self._text_of, given))
        return self._counted(str(given)).strip()

    def _argument(self) -> Any:
        self._deeper()
        made = self._any_argument()
        self.depth -= 1
        return made

    def _any_argument(self) -> Any:
        if self._taken("L"):
            if self._peek() == "_":
                self._fail()
            self._type()
            end = self.text.index("E", self.at)
            value, self.at = self.text[self.at : end], end + 1
            return value
        if self._taken("J"):
            pack = []
            while not self._taken("E"):
                pack.append(self._argument())
            return pack
        if self._peek() == "X":
            self._fail()
        return self._inner()

    def _number(self) -> int:
        """Read what follows S or T: _ is 0, 0_ is 1 ..., in base 36."""
        if self._taken("_"):
            return 0
        end = self.text.index("_", self.at)
        digits, self.at = self.text[self.at : end], end + 1
        if not (digits.isascii() and digits.isalnum()):  # int() would take a sign
            self._fail()
        return int(digits, 36) + 1

    def _substitution(self) -> Any:
        self.at += 1
        if self._peek() in _STD:
            self.last = _STD[self._next()]
            return "std::" + self.last
        found = self.found[self._number()]
        if type(found) is str:
            self.last = found.rpartition("::")[2]
        return found

    # -- types

    def _inner(self) -> CType:
        """Read a type inside of another, or an argument of a template, without a change of what these were."""
        kept = self.given, self.has_arguments, self.last
        try:
            return self._type()
        finally:
            self.given, self.has_arguments, self.last = kept

    def _types(self) -> list[CType]:
        """Read a type, or all those of a pack."""
        if not self._taken("Dp"):
            return [self._inner()]
        if self._peek() != "T":
            self._fail()
        self.at += 1
        pack = self.given[self._number()]
        if not isinstance(pack, list) or not all(isinstance(each, CType) for each in pack):
            self._fail()
        self.left -= 100 * len(pack)
        if self.left < 0:
            self._fail()
        self.found += [CType(""), CType("")]  # the parameter of the template, and its expansion
        return list(pack)

    def _type(self) -> CType:
        self._deeper()
        made = self._kind()
        self.depth -= 1
        return made

    def _deeper(self) -> None:
        self.depth += 1
        if self.depth > _DEEPEST:
            self._fail()

    def _kind(self) -> CType:
        const = False
        start = self.at
        while self._peek() in ("r", "V", "K"):
            const |= self._next() == "K"
        if self.at > start:
            made = self._inner()._replace(const=const)
            self.found.append(made)
            return made
        letter = self._peek()
        if letter in ("P", "R", "O"):
            self.at += 1
            made = self._inner().pointer()
        elif letter == "D" or letter in _BUILT_IN:
            code = next((code for code in ("DF16_", "DF16b", self.text[self.at : self.at + 2], letter)
                         if code in _BUILT_IN and self._taken(code)), None)  # fmt: skip
            if code is not None:
                return CType(_BUILT_IN[code])
            return self._fail()
        elif letter == "A":
            self.at = self.text.index("_", self.at) + 1
            made = self._inner()  # as a parameter it would be a pointer; so this is behind one: float (*rows)[10]
        elif letter == "F":
            self.at += 1
            self._taken("Y")
            while not self._taken("E"):
                self._inner()
            made = CType("")
        elif letter == "T":
            self.at += 1
            given = self.given[self._number()]
            if self._peek() == "I" or not isinstance(given, CType):
                self._fail()
            made = given
        elif letter == "S" and self.text[self.at + 1] != "t":
            found = self._substitution()
            if self._peek() != "I":
                return CType(found) if isinstance(found, str) else found
            if type(found) is not str:
                self._fail()
            made = CType(self._counted(found + self._arguments()))
        else:
            made = CType(self._class_name())
        self.found.append(made)
        return made

    def _class_name(self) -> str:
        if self._peek() not in ("N", "S") and not self._peek().isdigit():
            self._fail()
        return self.name()
