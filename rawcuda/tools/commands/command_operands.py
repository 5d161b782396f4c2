"""The arguments of a kernel on the command line.

What it is   `parse` makes an operand from a word; its `place` returns an argument for a launch.
What not     it knows no kernel: the launch checks whether a number fits its parameter.
Read next    run.py
"""

from __future__ import annotations

import struct

from ...arrays.strided import view as view_of
from ...elements import dtypes, layout, npy
from ...errors import ProtocolError
from .console import Refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ...arrays.strided import StridedView
    from ...gpu.devices.device import Device

__all__ = ["HELP", "Operand", "parse", "extents"]

HELP = """\
An ARG is one of
  FILE.npy            an array, uploaded in C order; the kernel gets its address
  zeros:SHAPE:DTYPE   new memory on the device, filled with zeros     zeros:1000:float32
  empty:SHAPE:DTYPE   the same with undefined contents                empty:64x48:int32
  ones, arange        the same with ones, or with 0, 1, 2, ...        arange:100:int32
  random              the same with random numbers: floats from 0 to 1, integers from 0 to 99,
                      the same in each run                            random:1000:float32
  NUMBER              3  -0x10  2.5  1e-3  inf  nan; converted to the parameter's type
  NUMBER:DTYPE        for a parameter without a type (a half, a cubin's)   2.5:float16
  null                a null pointer
SHAPE is one number or several joined by x; DTYPE is one of NumPy's names, such as float32."""


class Operand:
    """One argument of a kernel: `text` as it was typed, and `place`.

    is_array  whether it is memory on the device, so that it can be downloaded
    """

    is_array = False

    def __init__(self, text: str, value: int | float | bytes | None) -> None:
        self.text, self._value = text, value

    def place(self, device: Device) -> Any:
        """Return an argument for a launch; an array is copied to the device."""
        return self._value


class _File(Operand):
    """A .npy file, read immediately, so that a bad one is refused before any other work."""

    is_array = True

    def __init__(self, text: str) -> None:
        super().__init__(text, None)
        self._array = npy.read(text)

    def place(self, device: Device) -> Any:
        return device.upload(self._array)


class _Fresh(Operand):
    """New memory, and how it is filled: "empty", "zeros", "ones", "arange" or "random"."""

    is_array = True

    def __init__(self, text: str, shape: tuple[int, ...], dtype: dtypes.DType, kind: str) -> None:
        super().__init__(text, None)
        self._shape, self._dtype, self._kind = shape, dtype, kind

    def place(self, device: Device) -> Any:
        view = device.empty(self._shape, self._dtype)
        if self._kind in ("zeros", "ones"):
            view.fill(self._kind == "ones")
        elif self._kind != "empty" and view.size:
            view.copy_from(pack(self._dtype, numbers(self._kind, self._dtype, view.size)).reshape(*self._shape))
        return view


def numbers(kind: str, dtype: dtypes.DType, count: int) -> list[Any]:
    """Return the elements of "arange" or "random"."""
    if kind == "arange":
        found: list[Any] = list(range(count))
    else:
        from random import Random  # imported late: it registers a hook for fork()

        source = Random(0)
        if dtype.kind in ("float", "complex"):
            found = [source.random() for _ in range(count)]
        else:
            found = source.choices(range(2 if dtype.kind == "bool" else 100), k=count)
    if dtype.kind != "complex":
        return found
    return [part for each in found for part in (each, 0.0)]


def pack(dtype: dtypes.DType, elements: list[Any]) -> StridedView:
    """Return a view of numbers in host memory."""
    letter = {"complex64": "f", "complex128": "d"}.get(str(dtype), dtype.format)
    try:
        packed = bytearray(struct.pack(f"<{len(elements)}{letter}", *elements))
    except (struct.error, OverflowError) as error:
        raise Refusal(f"numbers up to {elements[-1]} do not fit {dtype}: {error}") from None
    return view_of(packed).reinterpret(dtype)


_KINDS = ("zeros", "empty", "ones", "arange", "random")


def parse(text: str) -> Operand:
    """Make an operand from a word of the command line.

    raises  Refusal      it has none of the forms in HELP
            ValueError   a .npy file that cannot be used
            OSError      a file that cannot be read
    """
    text = text.strip()
    if text.endswith(".npy"):
        return _File(text)
    if text == "null":
        return Operand(text, None)
    head, colon, rest = text.partition(":")
    if head in _KINDS:
        return _fresh(text, head, *rest.partition(":")[::2])
    number = _number(head)
    if number is None:
        raise Refusal(
            f"argument {text!r} is not FILE.npy, number, zeros:SHAPE:DTYPE, empty:SHAPE:DTYPE (or ones, arange, "
            "random), or null"
        )
    return Operand(text, _packed(number, _dtype(rest, text), text) if colon else number)


def _fresh(text: str, kind: str, shape: str, dtype: str) -> _Fresh:
    sizes, element = extents(shape, f"the shape in {text!r}", least=0), _dtype(dtype, text)
    try:
        layout.checked_size(sizes, element.itemsize)
    except ValueError as error:
        raise Refusal(f"argument {text!r}: {error}") from None
    if kind in ("arange", "random") and element.kind not in ("bool", "int", "uint", "float", "complex"):
        raise Refusal(f"argument {text!r}: {kind} has no elements of {element}")
    if kind == "arange" and element.kind in ("bool", "int", "uint"):
        if element.kind == "bool":
            bits = 1
        else:
            bits = 8 * element.itemsize - (element.kind == "int")
        if layout.size(sizes) > 1 << bits:
            raise Refusal(f"argument {text!r}: {element} cannot hold {layout.size(sizes) - 1}, the last element")
    return _Fresh(text, sizes, element, kind)


def extents(text: str, what: str, *, least: int = 1, most: int = layout.MAX_NDIM) -> tuple[int, ...]:
    """Read "256", "16x16" or "16,16,1".

    raises  Refusal  another form, a number less than `least`, or more than `most` numbers
    """
    parts = text.strip().replace("x", ",").split(",")
    if not all(part.isascii() and part.isdigit() for part in parts) or len(parts) > most:
        raise Refusal(f"{what}: {text.strip()!r} is neither a number nor up to {most} joined by x, such as 16x16")
    numbers = tuple(map(int, parts))
    if min(numbers) < least:
        raise Refusal(f"{what}: {text.strip()!r} contains a number below {least}")
    return numbers


def _number(text: str) -> int | float | None:
    for read in (int, lambda word: int(word, 0), float, float.fromhex if "x" in text.lower() else float):
        try:
            return read(text)
        except (ValueError, OverflowError):
            pass
    return None


def _dtype(name: str, text: str) -> dtypes.DType:
    try:
        dtype = dtypes.of(name)
    except (TypeError, ProtocolError):
        dtype = None
    if dtype is None or dtype.code is None or dtype.typestr[1:2] == "V":
        raise Refusal(f"argument {text!r}: {name!r} is not an element type: give one of NumPy's names, such as float32")
    return dtype


def _packed(number: int | float, dtype: dtypes.DType, text: str) -> bytes:
    """Return a number's bytes in the given dtype, for a parameter without a type."""
    if dtype.kind not in ("bool", "int", "uint", "float"):
        raise Refusal(f"argument {text!r}: a number cannot be {dtype}")
    try:
        return struct.pack("<" + dtype.format, number)
    except (struct.error, OverflowError) as error:
        raise Refusal(f"argument {text!r} does not fit {dtype}: {error}") from None
