"""The functions of each version of the runtime, read from their C text, and the ctypes types of their parameters.

What it is   `functions`, the functions that a major version exports; and Function, which has the types of one of them.
How          every pointer and handle is declared as an integer of a pointer's width, as in interface/thunks.py.
             Structures by value arrive as ctypes structures.
Read next    state.py
"""

from __future__ import annotations

import ctypes
import re

from .prototypes import OTHERS, PROTOTYPES
from .runtime_structures import STRUCTURES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["MAJORS", "Function", "functions"]

MAJORS = (11, 12, 13)
_LINE = re.compile(r"([\w ]+?[ *]*)(\w+)\(([^)]*)\);\s*(?://\s*(.*))?\Z", re.S)
_WIDTHS: dict[str, Any] = {
    "int": ctypes.c_int,
    "unsigned int": ctypes.c_uint,
    "cudaError_t": ctypes.c_int,
    "cudaStreamAttrID": ctypes.c_int,
    "cudaKernelNodeAttrID": ctypes.c_int,
    **STRUCTURES,
}


class Parameter:
    """A parameter: its C type and its name."""

    __slots__ = ("c_type", "name")

    def __init__(self, text: str) -> None:
        found = re.fullmatch(r"(.*?)(\w+)", " ".join(text.split()))
        if found is None:
            raise ValueError(f"{text!r} is not a parameter")
        self.c_type, self.name = found.group(1).strip(), found.group(2)

    @property
    def width(self) -> Any:
        """Return the ctypes type."""
        if self.c_type.endswith("*"):
            return ctypes.c_size_t
        if self.c_type.startswith("enum "):
            return ctypes.c_int
        return _WIDTHS.get(self.c_type, ctypes.c_size_t)


class Function:
    """A function of the runtime.

    line        its C prototype
    returns     the C type of its result
    majors      the versions that have it
    form        "ptsz" or "ptds", if there is also a form with this suffix
    driver      the function of the driver that does the same, or ""
    """

    __slots__ = ("line", "name", "returns", "parameters", "majors", "form", "driver")

    def __init__(self, line: str) -> None:
        found = _LINE.match(line)
        if found is None:
            raise ValueError(f"{line!r} is not a line of the table")
        returns, self.name, inside, marks = found.groups()
        self.line = " ".join(line.partition(";")[0].split())
        self.returns = returns.strip()
        if inside.strip() == "void":
            self.parameters = []
        else:
            self.parameters = [Parameter(each) for each in inside.split(",")]
        words = (marks or "").split()
        if "=" in words:
            self.driver = words[words.index("=") + 1]
        else:
            self.driver = ""
        self.form = next((word for word in words if word in ("ptsz", "ptds")), "")
        self.majors = _range(words[0] if words and words[0][0].isdigit() else "11-13")

    def prototype(self) -> Any:
        """Return the ctypes function type. A structure is returned in memory to whose address the first word points."""
        widths = [parameter.width for parameter in self.parameters]
        if self.returns == "void":
            return ctypes.CFUNCTYPE(None, *widths)
        if self.returns in STRUCTURES:
            return ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_size_t, *widths)
        return ctypes.CFUNCTYPE(ctypes.c_size_t if self.returns.endswith("*") else ctypes.c_int, *widths)


def _range(text: str) -> range:
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def _lines() -> list[str]:
    lines: list[str] = []
    for line in PROTOTYPES.strip().splitlines():
        if line.startswith(" "):
            lines[-1] += " " + line.strip()
        else:
            lines.append(line)
    return lines


_READ: dict[int, dict[str, Function | None]] = {}


def functions(major: int) -> dict[str, Function | None]:
    """Return the functions that a version exports by their names, with forms; None is one of which only that is known.

    major  11, 12 or 13
    """
    if not _READ:
        for each in MAJORS:
            _READ[each] = {}
        for line in _lines():
            function = Function(line)
            for each in function.majors:
                _READ[each][function.name] = function
                if function.form:
                    _READ[each][f"{function.name}_{function.form}"] = function
        for versions, names in OTHERS.items():
            for each in _range(versions):
                _READ[each].update(dict.fromkeys(names.split()))
    return _READ[major]
