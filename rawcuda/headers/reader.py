"""The reader of a header's C text: it finds one name, and turns that declaration into a Python object.

What it is   `Header`, the text of one C header; `Prototype`, a function of it. A name is searched for in the text when
             it is first used, and only its own lines are parsed.
What not     a C parser: it knows the style of the texts in this folder, in which each declaration begins a line.
Source       the C standard's declarations; ctypes, "Structures and unions"
Read next    functions.py, structures.py, enumerations.py: the texts; cuda_h.py, which explains their form
"""

from __future__ import annotations

import _thread  # (threading takes 1 ms to import)
import ctypes

from .c_types import (
    Aligned,
    Callback,
    ConstVoidPointer,
    Enumerator,
    Flattened,
    Float,
    Handle,
    Int,
    Integer,
    LongLong,
    Size,
    String,
    UnsignedChar,
    UnsignedInt,
    UnsignedLongLong,
    UnsignedShort,
    VoidPointer,
    by_value,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any, Callable

__all__ = ["Header", "Prototype", "Prototypes"]

_PARAMETERS: dict[str, Any] = {  # C type -> ctypes type of a parameter; the same for every header
    "int": Int,
    "unsigned int": UnsignedInt,
    "unsigned": UnsignedInt,
    "size_t": Size,
    "float": Float,
    "unsigned char": UnsignedChar,
    "unsigned short": UnsignedShort,
    "long long": LongLong,
    "unsigned long long": UnsignedLongLong,
    "cuuint32_t": UnsignedInt,
    "uint32_t": UnsignedInt,
    "cuuint64_t": UnsignedLongLong,
    "void *": VoidPointer,
    "const void *": ConstVoidPointer,
    "const char *": String,
}
_MEMBERS: dict[str, Any] = {  # C type -> ctypes type of a structure's member, or of what a pointer points to
    "char": ctypes.c_char,
    "float": ctypes.c_float,
    "double": ctypes.c_double,
    "void": None,
    "void *": ctypes.c_void_p,
    "const void *": ctypes.c_void_p,
    "const char *": ctypes.c_char_p,
}


_FUNCTION: Any = getattr(ctypes, "_CFuncPtr")  # noqa: B009  (the base class of all types of functions)


class Prototype:
    """A function of a library, as its line in a header's text declares it."""

    __slots__ = ("line", "name", "since", "doc", "marks", "_header", "_parameters")

    def __init__(self, line: str, comment: str, header: Header) -> None:
        head, _, self.doc = comment.partition("  ")
        version, *self.marks = head.split()
        major, _, minor = version.partition(".")
        self.line = line  # the C text
        self.name = line[: line.index("(")].split()[-1].lstrip("*")
        self.since = int(major), int(minor)  # the CUDA version whose library first had it
        self._header = header
        self._parameters: tuple[tuple[str, Any], ...] | None = None

    @property
    def returns(self) -> Any:
        """Return the ctypes type of the result."""
        text = self.line[: self.line.index("(") - len(self.name)].rstrip()
        if text.endswith("*"):
            return ctypes.c_char_p
        return ctypes.c_int

    @property
    def abi(self) -> tuple[int, int]:
        """Return the CUDA version by which cuGetProcAddress knows this ABI; for a few, earlier than `since`."""
        version = next((mark[4:] for mark in self.marks if mark.startswith("abi=")), "")
        major, _, minor = version.partition(".")
        if version:
            return (int(major), int(minor))
        return self.since

    @property
    def old(self) -> bool:
        """Tell whether this is an ABI that no header since CUDA 11.7 offers; libcuda exports it for old programs."""
        return "old" in self.marks

    @property
    def parameters(self) -> tuple[tuple[str, Any], ...]:
        """Return (name, ctypes type) of each parameter; the line is parsed on first access."""
        if self._parameters is None:
            inside = self.line[self.line.index("(") + 1 : -2]
            if inside == "void":
                self._parameters = ()
            else:
                self._parameters = tuple(map(self._parameter, inside.split(", ")))
        return self._parameters

    @property
    def parameter_texts(self) -> dict[str, str]:
        """Return the C type of each parameter by its name."""
        inside = self.line[self.line.index("(") + 1 : -2]
        split = [max(text.rfind(" "), text.rfind("*")) + 1 for text in inside.split(", ")]
        return {
            text[start:]: text[:start].rstrip() for text, start in zip(inside.split(", "), split) if inside != "void"
        }

    def _parameter(self, text: str) -> tuple[str, Any]:
        """Split `unsigned int *count` into the name and the type."""
        start = max(text.rfind(" "), text.rfind("*")) + 1
        return text[start:], self._header.type_of(text[:start].rstrip())

    @property
    def machine_types(self) -> tuple[Any, ...]:
        """Return the parameters' plain ctypes types, for a function of this type that is written in Python.

        Integers arrive there as int, every pointer and handle as an address or None, a structure as itself.
        """
        return tuple(
            kind.machine
            if issubclass(kind, Integer)
            else kind
            if issubclass(kind, ctypes.Structure)
            else ctypes.c_float
            if issubclass(kind, ctypes.c_float)
            else ctypes.c_void_p
            for _, kind in self.parameters
        )

    def __repr__(self) -> str:
        return f"<{self.line}>"


class Prototypes:
    """Every function of a header by its exported name: a mapping that parses a line when its name is asked for."""

    def __init__(self, header: Header, texts: Callable[[], Iterator[str]]) -> None:
        self._header, self._texts = header, texts
        self._found: dict[str, Prototype] = {}
        self._all: dict[str, Prototype] = {}

    def __getitem__(self, name: str) -> Prototype:
        found = self._found.get(name) or self._find(name)
        if found is None:
            raise KeyError(name + self._header.note)
        return found

    def get(self, name: str, default: Any = None) -> Any:
        """Return the prototype of a function, or `default`."""
        found = self._found.get(name) or self._find(name)
        if found is None:
            return default
        return found

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.get(name) is not None

    def __iter__(self) -> Iterator[str]:
        return iter(self._read_all())

    def __len__(self) -> int:
        return len(self._read_all())

    def keys(self) -> Iterable[str]:
        """Return all names."""
        return self._read_all().keys()

    def values(self) -> Iterable[Prototype]:
        """Return all prototypes."""
        return self._read_all().values()

    def items(self) -> Iterable[tuple[str, Prototype]]:
        """Return (name, prototype) of all functions."""
        return self._read_all().items()

    def _find(self, name: str) -> Prototype | None:
        """Search the texts for one name."""
        if not name.isidentifier():
            return None
        plain, _, form = name.rpartition("_")
        for wanted in (name, plain if form in ("ptsz", "ptds") else ""):
            for text in self._texts() if wanted else ():
                at = text.find(f"{wanted}(")
                while at >= 0:
                    start = text.rfind("\n", 0, at) + 1
                    # not in a comment, not a parameter, not the end of another name
                    if text[start] not in "/ \n" and "//" not in text[start:at] and text[at - 1] in " *":
                        found = self._declared(text, start)
                        if wanted == name:
                            return self._found.setdefault(name, found)
                        if form in found.marks:
                            return self._found.setdefault(name, self._per_thread(found))
                        return None
                    at = text.find(f"{wanted}(", at + 1)
        return None

    def _declared(self, text: str, start: int) -> Prototype:
        """Parse the declaration that begins at a place."""
        middle = text.index("//", start)
        code = " ".join(text[start:middle].split())
        return Prototype(code, text[middle + 2 : text.index("\n", middle)].strip(), self._header)

    def _per_thread(self, plain: Prototype) -> Prototype:
        """Return the form of a function in which stream NULL is the default stream of the thread."""
        if "ptsz" in plain.marks:
            form = "ptsz"
        else:
            form = "ptds"
        line = plain.line.replace(f"{plain.name}(", f"{plain.name}_{form}(", 1)
        since = max(plain.since, (7, 0))
        marks = "".join(f" {mark}" for mark in plain.marks if mark != form)
        comment = f"{since[0]}.{since[1]}{marks}  {plain.doc}; stream NULL is the default stream of the thread"
        return Prototype(line, comment, self._header)

    def _read_all(self) -> dict[str, Prototype]:
        if not self._all:
            found: dict[str, Prototype] = {}
            for text in self._texts():
                start = 0
                while start < len(text):
                    end = text.find("\n", start) + 1 or len(text)
                    if text[start] not in "/ \n":
                        plain = self._declared(text, start)
                        if "ptsz" in plain.marks or "ptds" in plain.marks:
                            forms = [self._per_thread(plain)]
                        else:
                            forms = []
                        for each in (plain, *forms):
                            found[each.name] = self._found.setdefault(each.name, each)
                    start = end
            self._all = found
        return self._all


class Header:
    """The text of a C header.

    module                     the name of the module that shows it, for the classes that are made
    functions, enums, types    functions that return its texts; they import them when they are first called
    """

    def __init__(
        self,
        module: str,
        functions: Callable[[], Iterator[str]],
        enums: Callable[[], str],
        types: Callable[[], str],
    ) -> None:
        self.module, self._enum_text, self._type_text = module, enums, types
        self.prototypes = Prototypes(self, functions)
        self._enums: dict[str, dict[str, int]] = {}
        self._parameters = dict(_PARAMETERS)
        self._made: dict[str, Any] = {}  # types and IntEnums that are complete
        self._begun: dict[str, Any] = {}  # those that the thread with the lock is making
        self._lock = _thread.RLock()  # so that two threads get the same class

    @property
    def note(self) -> str:
        """Return what a vendored part says about rows that it lacks, to be appended to an error; "" in the whole."""
        text = self._enum_text()
        if text.startswith("\n/* this copy is"):
            return f"; {text[4 : text.index(' */')]}"
        return ""

    # -- enumerations and constants

    def enum(self, name: str) -> dict[str, int]:
        """Return the enumerators of one enum by name; "#define" stands for the constants that are not in any.

        raises  KeyError  no enum of that name
        """
        found = self._enums.get(name)
        if found is None:
            if name == "#define":
                found = self._defines()
            else:
                found = self._enumerators(name)
            found = self._enums.setdefault(name, found)
        return found

    def _enumerators(self, name: str) -> dict[str, int]:
        lines = self._enum_lines(name)
        if not lines:
            raise KeyError(name)
        found = {}
        for line in lines.splitlines():
            word, _, value = line.partition("//")[0].strip().rstrip(",").partition(" = ")
            found[word] = int(value)
        return found

    def _enum_lines(self, name: str) -> str:
        """Return the lines of the enumerators of one enum, "" if there is no such enum."""
        text = self._enum_text()
        start = text.find(f"\nenum {name} {{")
        if start < 0:
            return ""
        return text[text.index("\n", start + 1) + 1 : text.index("\n};", start) + 1]

    def _defines(self) -> dict[str, int]:
        found = {}
        for line in self._enum_text().splitlines():
            if line.startswith("#define "):
                _, name, value = line.partition("//")[0].split()
                found[name] = int(value)
        return found

    def enums(self) -> list[str]:
        """Return the names of all enums."""
        return [line.split()[1] for line in self._enum_text().splitlines() if line.startswith("enum ")]

    def constant(self, name: str) -> int | None:
        """Return the value of an enumerator or of a constant, or None."""
        text = self._enum_text()
        for before, between in (("\n    ", " = "), ("\n#define ", " ")):
            at = text.find(f"{before}{name}{between}")
            if at >= 0:
                value = text[at + len(before) + len(name) + len(between) : text.index("\n", at + 1)]
                return int(value.partition("//")[0].strip().rstrip(","))
        return None

    # -- types

    def names(self) -> list[str]:
        """Return the names of all types: integers, handles, functions, structures, unions and other names of these."""
        found = []
        for line in self._type_text().splitlines():
            code = line.partition("//")[0].strip()
            if line.startswith(("struct ", "union ")):
                found.append(line.split()[1])
            elif line.startswith("typedef ") and "(*" in line:
                found.append(line.partition("(*")[2].partition(")")[0])
            elif line.startswith("typedef "):
                found.append(code.rstrip(";").split()[-1].lstrip("*"))
        return found

    def look_up(self, name: str) -> Any:
        """Return what a name of the header stands for: an int, an IntEnum class or a type; None if it has none."""
        found = self._made.get(name)
        if found is None and name.isupper():  # most likely a constant
            found = self.constant(name)
        if found is None:
            with self._lock:
                found = self._made.get(name) or self._begun.get(name) or self._make(name)
        if found is not None:
            return found
        return self.constant(name)

    def attribute(self, name: str, module: dict[str, Any]) -> Any:
        """Return what a name stands for, and keep it in the module's namespace; for the module's __getattr__."""
        if name.startswith("_"):
            found = None
        else:
            found = self.look_up(name)
        if found is None:
            raise AttributeError(f"module {self.module!r} has no attribute {name!r}")
        return module.setdefault(name, found)

    def all_names(self, module: dict[str, Any]) -> list[str]:
        """Return every name of the header and of the module's namespace; for the module's __dir__."""
        constants = [name for each in [*self.enums(), "#define"] for name in self.enum(each)]
        return sorted({*module, *self.names(), *self.enums(), *constants})

    def type_of(self, text: str) -> Any:
        """Return the ctypes type of a parameter, such as `const CUlaunchConfig *`; it refuses what does not fit."""
        kind = self._parameters.get(text)
        if kind is None and text.endswith(" const"):  # the parameter itself is not changed inside the function
            kind = self.type_of(text[: -len(" const")])
        if kind is None:
            if text.endswith("*"):
                kind = ctypes.POINTER(self._member(_pointed(text)))
            else:
                kind = self._required(text)
                if issubclass(kind, ctypes.Structure):
                    kind = by_value(kind)
                elif issubclass(kind, _FUNCTION):
                    kind = type(text, (Callback,), {"c_name": text, "function": kind, "__module__": self.module})
                elif not issubclass(kind, (Integer, Handle)):
                    kind = Enumerator
            kind = self._parameters.setdefault(text, kind)
        return kind

    def _required(self, name: str) -> Any:
        """Return a type; for an enum, that of its integers: its IntEnum is made only when its name is read."""
        with self._lock:
            found = self._made.get(name) or self._begun.get(name) or self._make_type(name)
        if found is None:
            lines = self._enum_lines(name)
            if not lines:
                raise KeyError(f"{name} is not a type of {self.module}")
            if " = -" in lines:
                found = Int
            else:
                found = Enumerator
        if issubclass(found, int):
            return Enumerator
        return found

    def _member(self, text: str) -> Any:
        """Return the ctypes type of a structure's member, or of what a pointer points to."""
        kind = _MEMBERS.get(text)
        if kind is None and text != "void":
            if text.endswith("*"):
                return ctypes.POINTER(self._member(_pointed(text)))
            kind = _PARAMETERS.get(text) or self._required(text)
            if issubclass(kind, Integer):
                return kind.machine
        return kind

    def _make(self, name: str) -> Any:
        """Make a type or an IntEnum; the lock is held."""
        found = self._make_type(name)
        if found is None and self._enum_lines(name):
            import enum

            functional: Any = enum.IntEnum
            found = functional(name, self.enum(name), module=self.module)
            found.__doc__ = f"The enumeration {name}."
            found = self._made.setdefault(name, found)
        return found

    def _make_type(self, name: str) -> Any:
        """Make a type that is not an enum; the lock is held."""
        text = self._type_text()
        for after in (";", " {", ")("):
            at = text.find(f"{name}{after}")
            while at >= 0:
                start = text.rfind("\n", 0, at) + 1
                line = text[start:at]
                if line.startswith("typedef ") and line[-1] in " *" and after != " {":
                    return self._made.setdefault(name, self._typedef(name, text, start))
                if after == " {" and line in ("struct ", "union "):
                    try:
                        base = ctypes.Structure if line[0] == "s" else ctypes.Union
                        kind = self._structure(name, base, text[start : text.index("\n};", start)])
                        return self._made.setdefault(name, kind)
                    finally:  # (an interrupt here leaves it in both)
                        self._begun.pop(name, None)
                at = text.find(f"{name}{after}", at + 1)
        return None

    def _typedef(self, name: str, text: str, start: int) -> Any:
        """Make the type of a typedef: an integer, a handle, a function, or another name of a type."""
        end = text.index(";", start)
        code = " ".join(text[start + len("typedef ") : end].split())
        rest = text[
            end + 1 : text.index("\n", text.index("//", end) if "\n        //" in text[end : end + 12] else end)
        ]
        members = {"__doc__": _documentation(rest), "__module__": self.module}
        if "(*" in code:
            returned, _, parameters = code.partition(f" (*{name})(")
            if parameters == "void)":
                kinds = []
            else:
                kinds = [self._argument(each) for each in parameters[:-1].split(", ")]
            return ctypes.CFUNCTYPE(self._argument(f"{returned} x") if returned != "void" else None, *kinds)
        origin = code[: -len(name)].rstrip()
        if origin.endswith("*"):
            return type(name, (Handle,), members)
        if origin in _PARAMETERS:
            return type(name, (_PARAMETERS[origin],), {**members, "c_name": name})
        return self._make(origin)

    def _argument(self, text: str) -> Any:
        """Return the ctypes type of an argument of a function that the driver calls."""
        start = max(text.rfind(" "), text.rfind("*")) + 1
        kind = self._member(text[:start].rstrip())
        if kind is ctypes.c_uint and text.startswith("CU"):
            return ctypes.c_int
        return kind

    def _structure(self, name: str, base: Any, text: str) -> Any:
        """Make a structure or union; it is known while its members are read, as one may point to it."""
        first, *lines = text.split("\n")
        members: dict[str, Any] = {"__doc__": _documentation(first), "__module__": self.module}
        if base is ctypes.Structure and "\n    };" in text:
            base = Flattened
        alignment = next(
            (line.partition("_Alignas(")[2].partition(")")[0] for line in lines if "_Alignas(" in line), ""
        )
        if alignment:
            base, members["_alignment"] = Aligned, int(alignment)
        kind: Any = type(name, (base,), members)
        self._begun[name] = kind
        self._fill(kind, iter(lines))
        return kind

    def _fill(self, kind: Any, lines: Iterator[str]) -> str:
        """Give a structure its members; return what follows the } that ends it."""
        fields: list[Any] = []
        unnamed: list[str] = []
        after = ""
        for line in lines:
            code = line.partition("//")[0].strip().rstrip(";")
            if code.startswith("}"):
                after = code[1:].strip()
                break
            if code in ("struct {", "union {"):
                base = ctypes.Structure if code[0] == "s" else ctypes.Union
                inner: Any = type(f"_{kind.__name__.lstrip('_')}_{len(fields)}", (base,), {"__module__": self.module})
                called = self._fill(inner, lines)
                if not called:
                    called = f"_{len(fields)}"
                    unnamed.append(called)
                fields.append((called, inner))
            else:
                fields.append(self._field(code))
        kind._anonymous_ = unnamed
        kind._fields_ = fields
        if issubclass(kind, Flattened):
            kind._order = tuple(member._fields_[0][0] if name in unnamed else name for name, member, *_ in fields)
        return after

    def _field(self, code: str) -> tuple[Any, ...]:
        """Return the ctypes field of a member such as `unsigned int reserved[16]`."""
        if code.startswith("_Alignas("):
            code = code.partition(") ")[2]
        code, _, bits = code.partition(" : ")
        code, *counts = code.replace("]", "").split("[")
        start = max(code.rfind(" "), code.rfind("*")) + 1
        text = code[:start].rstrip()
        if counts and text == "char":
            kind: Any = ctypes.c_ubyte
        else:
            kind = self._member(text)
        for count in reversed(counts):
            kind = kind * int(count)
        if bits:
            return (code[start:], kind, int(bits))
        return (code[start:], kind)


def _pointed(text: str) -> str:
    """Return the type that a pointer type points to."""
    inner = text[:-1].rstrip()
    if inner.endswith(" const"):
        inner = inner[: -len(" const")]
    if inner.startswith("const ") and inner not in _MEMBERS:
        inner = inner[len("const ") :]
    return inner


def _documentation(text: str) -> str:
    """Return the comment of a line as a docstring."""
    comment = text.partition("//")[2].strip()
    version, _, doc = comment.partition("  ")
    if version[:1].isdigit() and "." in version and " " not in version:
        comment = doc
    if comment:
        return comment[:1].upper() + comment[1:] + "."
    return ""
