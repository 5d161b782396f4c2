"""Reading the format strings of the buffer protocol.

The language  The letters of struct, and more: Z before a float makes it complex; T{...} is a structure, whose fields
              may be named `:so:`; (2,3) before an item is a sub-array. @ = < > ! ^ set byte order, sizes and alignment,
              and may change within a format: NumPy writes "T{i:a:=d:b:}" for a packed structure.
Itemsize      The buffer's itemsize decides. If a format does not add up to it (as in older ctypes), the elements are
              opaque bytes.
Source        PEP 3118, "Additions to the struct string-syntax"; struct, "Format Strings"; numpy/_core/_internal.py's
              grammar
Read next     buffer.py
"""

from __future__ import annotations

import struct

from ..elements.dtypes import ORDER, DType, from_typestr, of, opaque, structured
from ..elements.layout import MAX_NDIM
from ..errors import refusal
from ..remembered import Remembered

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["dtype_of"]

# The type of each letter in standard sizes ("=", "<", ">" and "!"); "@" and "^" use the C compiler's sizes.
_LETTERS = {
    "?": "bool",
    "b": "int8",
    "B": "uint8",
    "h": "int16",
    "H": "uint16",
    "i": "int32",
    "I": "uint32",
    "l": "int32",
    "L": "uint32",
    "q": "int64",
    "Q": "uint64",
    "n": "int64",
    "N": "uint64",
    "e": "float16",
    "f": "float32",
    "d": "float64",
    "g": "float128",
    "Ze": "complex32",
    "Zf": "complex64",
    "Zd": "complex128",
    "Zg": "complex256",
    "F": "complex64",
    "D": "complex128",
    "G": "complex256",
}  # F, D and G: ctypes writes complex types so in CPython 3.14
_NATIVE = {"l": "int", "L": "uint"}  # their width is that of a C long
_LONG = str(8 * struct.calcsize("@l"))
_PLAIN_ORDERS = "@=^|" + ORDER

_known: Remembered[tuple[str | None, int], DType] = Remembered(1000)


def dtype_of(format: str | None, itemsize: int) -> DType:
    """Find the element type for a buffer's format and itemsize.

    format   None means "B"
    raises   ProtocolError   Python objects, pointers, or numbers in non-native byte order
    """
    try:
        return _known.answers[format, itemsize]
    except KeyError:
        pass
    found = _read("B" if format is None else format, itemsize)
    return _known.keep((format, itemsize), found) if len(format or "") < 1000 else found


class _Unreadable(Exception):
    """A format that this reader does not know; its bytes can still be copied."""


class _Ambiguous(Exception):
    """A format that does not tell where the fields are; its bytes can still be copied."""


def _read(format: str, itemsize: int) -> DType:
    try:
        items, total = _Reader(format).items("")
    except _Unreadable:
        return _bytes(format, itemsize)
    except _Ambiguous:
        return _bytes("", itemsize)
    gap = itemsize - total
    if len(items) == 1 and isinstance(items[0].kind, list) and 0 < gap == -total % items[0].align:
        # NumPy's format of an aligned structure leaves out the padding at its end, as the formats of struct do.
        items[0].kind.append(("", f"|V{gap}"))
        total = itemsize
    if total != itemsize:
        return _bytes("", itemsize)
    if len(items) == 1 and not items[0].shape and items[0].name == "":
        return _single(items[0], format, itemsize)
    if any(item.is_swapped() for item in items):
        return _bytes(format, itemsize)
    return structured([item.as_field() for item in items], itemsize, format=format, protocol="buffer")


def _bytes(format: str, itemsize: int) -> DType:
    return opaque(f"|V{itemsize}", itemsize, f"|V{itemsize}", format if "\0" not in format else "")


def _single(item: _Item, format: str, itemsize: int) -> DType:
    if item.is_swapped() and isinstance(item.kind, list):
        return _bytes(format, itemsize)
    if item.is_swapped():
        raise refusal("buffer", "format", format, "has the other byte order; swap the bytes first")
    if isinstance(item.kind, list):
        return structured(item.kind, itemsize, format=format, protocol="buffer")
    if isinstance(item.kind, DType):
        return item.kind
    return from_typestr(item.kind, protocol="buffer")


class _Item:
    """An item of a format: its kind (a DType, a typestr or the fields of a structure) and the shape of its sub-array.

    Also its name, size, alignment, and whether its byte order is swapped.
    """

    __slots__ = ("kind", "shape", "size", "align", "swapped", "name")

    def __init__(self, kind: Any, size: int, align: int, swapped: bool = False) -> None:
        self.kind, self.size, self.align, self.swapped = kind, size, align, swapped
        self.shape: tuple[int, ...] = ()
        self.name = ""

    def is_swapped(self) -> bool:
        return self.swapped and self.size > 1

    def as_field(self) -> tuple[Any, ...]:
        if isinstance(self.kind, DType):
            kind = self.kind.typestr
        else:
            kind = self.kind
        if self.shape:
            return (self.name, kind, self.shape)
        return (self.name, kind)


class _Reader:
    """A single pass through a format, from left to right."""

    def __init__(self, text: str) -> None:
        self.text, self.at, self.order = text, 0, "@"
        self.depth = 0

    def items(self, end: str) -> tuple[list[_Item], int]:
        """Read items up to `end`, and return them with their total size; padding becomes unnamed voids."""
        out: list[_Item] = []
        offset = 0
        while True:
            self._skip_spaces_and_orders()
            if self.at >= len(self.text):
                if end:
                    raise _Unreadable
                break
            if end and self.text[self.at] == end:
                self.at += 1
                break
            item = self._item()
            gap = -offset % item.align
            if gap:
                out.append(_Item(f"|V{gap}", gap, 1))
            count = 1
            for n in item.shape:
                count *= n
            offset += gap + item.size * count
            if item.size:
                out.append(item)
        return out, offset

    def _skip_spaces_and_orders(self) -> None:
        while self.at < len(self.text) and self.text[self.at] in "@=<>!^| \t\n":
            if not self.text[self.at].isspace():
                self.order = self.text[self.at]
            self.at += 1

    def _item(self) -> _Item:
        shape = self._shape()
        count = self._number()
        self._skip_spaces_and_orders()  # some exporters write "(2)<i" and "3<i", and NumPy "(2)=3s"
        if count is None:
            count = self._number()
        item = self._one(count)
        item.shape = shape + item.shape
        if item.shape and self.depth and isinstance(item.kind, list):  # (each may have padding at its end)
            raise _Ambiguous
        if self.text[self.at : self.at + 1] == ":":
            end = self.text.find(":", self.at + 1)
            if end < 0:
                raise _Unreadable
            item.name = self.text[self.at + 1 : end]
            self.at = end + 1
        return item

    def _shape(self) -> tuple[int, ...]:
        if self.text[self.at] != "(":
            return ()
        end = self.text.find(")", self.at + 1)
        parts = [part.strip() for part in self.text[self.at + 1 : end].split(",") if part.strip()]
        is_plain = all(part.isascii() and part.isdigit() and len(part) < 19 for part in parts)
        if end < 0 or not is_plain or len(parts) > MAX_NDIM:  # (the product of more would take quadratic time)
            raise _Unreadable
        self.at = end + 1
        return tuple([int(part) for part in parts])

    def _number(self) -> int | None:
        start = self.at
        while self.at < len(self.text) and "0" <= self.text[self.at] <= "9":
            self.at += 1
        if self.at - start > 18:
            raise _Unreadable
        if self.at > start:
            return int(self.text[start : self.at])
        return None

    def _one(self, count: int | None) -> _Item:
        letter = self.text[self.at : self.at + 1]
        self.at += 1
        swapped = self.order not in _PLAIN_ORDERS
        if letter == "T" and self.text[self.at : self.at + 1] == "{":
            return self._structure(count)
        if letter == "Z":
            letter += self.text[self.at : self.at + 1]
            self.at += 1
        if letter in ("O", "&", "X", "z") or (letter[:1] == "Z" and not letter[1:].isalpha()):
            raise refusal(  # "z" and "Z" alone are c_char_p and c_wchar_p of ctypes
                "buffer",
                "format",
                self.text,
                f"contains {'Python objects' if letter == 'O' else 'pointers'}, which have no meaning "
                "elsewhere; convert the array first",
            )
        if count is None:
            number = 1
        else:
            number = count
        if letter == "x" and count is None:  # NumPy writes padding of three bytes as xxx, and as one field elsewhere
            start = self.at
            while self.text[self.at : self.at + 1] == "x":
                self.at += 1
            self.at -= self.at > start and self.text[self.at : self.at + 1] == ":"  # (the last one is a field)
            number = 1 + self.at - start
        if letter in ("s", "p", "x"):
            return _Item(f"|{'S' if letter == 's' else 'V'}{number}", number, 1)
        if letter in ("w", "u"):
            if letter == "w":
                wide = 4
            elif self.order == "@":
                wide = struct.calcsize("@i")
            else:
                wide = 4
            return _Item(f"{ORDER}U{number}", wide * number, wide if self.order == "@" else 1, swapped)
        item = self._scalar(letter, swapped)
        if count is not None:
            item.shape = (count,)
        return item

    def _scalar(self, letter: str, swapped: bool) -> _Item:
        if letter == "c":
            return _Item("|S1", 1, 1)
        if letter == "P":
            return _Item("|V8", 8, 8 if self.order == "@" else 1)
        name = _LETTERS.get(letter)
        if name is None:
            raise _Unreadable  # t, and any letter that is added later
        if letter in _NATIVE and self.order in "@^":
            name = _NATIVE[letter] + _LONG
        dtype = of(name)
        if letter in "nN":
            size = struct.calcsize("@" + letter)
        else:
            size = dtype.itemsize
        if dtype.kind == "complex":
            part = size // 2
        else:
            part = size
        return _Item(dtype, size, part if self.order == "@" else 1, swapped)

    def _structure(self, count: int | None) -> _Item:
        self.depth += 1
        if self.depth > 20:
            raise _Unreadable
        self.at += 1
        start, order = self.at, self.order
        items, size = self.items("}")
        self.depth -= 1
        align = 1
        if self.order == "@":
            align = max([item.align for item in items], default=1)
        if self.depth and size % align:  # NumPy leaves out the padding at its end, sometimes to add it after the field
            raise _Ambiguous
        mixed = order != "@" or any(sign in self.text[start : self.at] for sign in "=<>!^")
        if self.depth and mixed and any(item.align > 1 for item in items):  # NumPy aligns in the outermost structure
            raise _Ambiguous
        whole = _Item([item.as_field() for item in items], size, align, any(item.is_swapped() for item in items))
        if count is not None:
            whole.shape = (count,)
        return whole
