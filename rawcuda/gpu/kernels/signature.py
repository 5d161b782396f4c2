"""Kernel signatures from PTX text: their names, and each parameter's type, size and offset.

What it is   a reader of `.entry` lines only; `Parameter`, the record that a launch checks arguments against.
What not     it does not validate PTX: the driver's compiler does.
Source       PTX ISA, "Kernel and Function Directives: .entry", "Parameter State Space", "Kernel Function Parameters"
Read next    arguments.py
"""

from __future__ import annotations

from ...errors import PtxError
from ...images.outline import blanked
from ...interpreter.cpython import facts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Parameter", "kernels"]

_SIZES = {"8": 1, "16": 2, "32": 4, "64": 8, "128": 16}
_HANDLES = (".texref", ".samplerref", ".surfref")  # opaque 64-bit handles


@facts("name", "offset", "size", "type", "pointer")
class Parameter:
    """A parameter of a kernel.

    name     as in the CUDA C, or as in the PTX, or "" if only the driver describes it (a cubin)
    offset   bytes from the start of the parameters
    size     bytes
    type     a PTX fundamental type such as "u32" or "f32"; "" if only the size is known (an array of .b8, a cubin)
    pointer  whether it was declared with .ptr
    """

    __slots__ = ("_name", "_offset", "_size", "_type", "_pointer")

    name: str
    offset: int
    size: int
    type: str
    pointer: bool

    def __init__(self, name: str, offset: int, size: int, type: str, pointer: bool = False) -> None:
        self._name, self._offset, self._size, self._type, self._pointer = name, offset, size, type, pointer

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Parameter) and all(getattr(self, s) == getattr(other, s) for s in self.__slots__)

    __hash__ = None  # type: ignore[assignment]

    def words(self) -> str:
        """Return the type as PTX writes it: ".u32", or ".b8[12]" if only the size is known."""
        if self.type:
            return f".{self.type}"
        return f".b8[{self.size}]"

    def __repr__(self) -> str:
        return f"<Parameter {self.name or '?'} {self.words()}{' .ptr' if self.pointer else ''} at {self.offset}>"


def kernels(text: str) -> dict[str, list[Parameter]]:
    """Return each kernel of a PTX text with its parameters, in the order of the text.

    units   offsets and sizes are in bytes
    raises  PtxError  an .entry whose parameters cannot be read
    """
    import re  # imported only when PTX is loaded

    plain = blanked(text)  # comments and strings may contain anything, even ".entry"
    found: dict[str, list[Parameter]] = {}
    line, counted = 1, 0
    for match in re.finditer(r"\.entry\s+([A-Za-z_$%][\w$]*)\s*(?:\(([^()]*)\))?", plain):
        line += plain.count("\n", counted, match.start())
        counted = match.start()
        found[match.group(1)] = list(_parameters(match.group(2) or "", line, match.group(1)))
    return found


def _parameters(text: str, line: int, kernel: str) -> Iterator[Parameter]:
    offset = 0
    for part in text.split(",") if text.strip() else ():
        parameter, alignment = _parameter(part, line, kernel)
        offset = (offset + alignment - 1) // alignment * alignment
        parameter._offset = offset
        offset += parameter.size
        yield parameter


def _parameter(text: str, line: int, kernel: str) -> tuple[Parameter, int]:
    """Read a `.param` declaration, and return it, with an offset of 0, and its alignment.

    In ".param .u64 .ptr .global .align 8 name" the .align after .ptr is that of the memory it points to.
    """
    words = text.replace("[", " [ ").replace("]", " ] ").replace(".", " .").split()
    kind, pointer, alignment, lanes, index = "", False, 0, 1, 0
    while index < len(words) and words[index].startswith("."):
        word = words[index]
        if word == ".align" and index + 1 < len(words):
            index += 1
            if not pointer:
                alignment = _number(words[index], line, kernel, text)
        elif word == ".ptr":
            pointer = True
        elif word in (".v2", ".v4"):
            lanes = int(word[2])
        elif word in _HANDLES:
            kind = ".b64"
        elif word[1:2] in "bsuf" and _scalar(word):
            kind = word
        index += 1
    size = _scalar(kind)
    if size is None or index >= len(words):
        raise PtxError(f"kernel {kernel}: cannot read the parameter {text.strip()!r}", ("<ptx>", line, 1, text.strip()))
    name, rest = words[index], words[index + 1 :]
    alignment = alignment or size * lanes
    if rest:  # an array: only its size is kept
        count = 1
        for word in rest:
            if word not in "[]":
                count *= _number(word, line, kernel, text)
                _check_size(count, line, kernel, text)
        return Parameter(name, 0, size * lanes * count, "", pointer), alignment
    return Parameter(name, 0, size * lanes, kind[1:] if lanes == 1 else "", pointer), alignment


def _scalar(kind: str) -> int | None:
    """Return the size of a fundamental type such as ".u32", or None for other words."""
    if kind in (".f16x2", ".bf16x2"):
        return 4
    if kind == ".bf16":
        return 2
    if kind[1:2] in tuple("bsuf"):
        return _SIZES.get(kind[2:])
    return None


def _number(text: str, line: int, kernel: str, where: str) -> int:
    try:
        text = text.rstrip("U")
        number = int(text, 8 if text[:1] == "0" and text.isdigit() else 0)  # a leading 0 is octal, as in C
    except ValueError:
        number = 0
    _check_size(number, line, kernel, where)
    return number


def _check_size(number: int, line: int, kernel: str, where: str) -> None:
    if not 0 < number < 2**16:  # all of a kernel's parameters have at most 32,764 bytes
        raise PtxError(f"kernel {kernel}: no size: {number} in {where.strip()!r}", ("<ptx>", line, 1, where.strip()))
