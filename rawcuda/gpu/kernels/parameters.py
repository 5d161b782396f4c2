"""The arguments that a kernel's parameter accepts, and the errors for all others.

What it is   `Slot`, a parameter of a kernel as its launches see it: how it is packed, and errors that name kernel,
             parameter, value and remedy.
What not     it packs nothing: packing.py has a function for each type of argument.
The rules    An integer parameter takes integers of its range. The range is that of both signs if only PTX tells the
             type, because nvcc writes int as .u32. NumPy and ctypes integers are passed as C converts them.
             A float parameter takes real numbers that fit. Eight bytes that may be an address take arrays and None: not
             those of a signed type, but an unsigned one, in which programs pass addresses and textures.
             A parameter with only a known size takes bytes, ctypes and NumPy values of exactly that size.
Source       PTX ISA, "Fundamental Types"; CUDA Driver API, cuLaunchKernel
Read next    packing.py
"""

from __future__ import annotations

from struct import Struct

from ...errors import a_kind, worded
from ...interpreter.cpython import IS_NARROW
from ...remembered import Remembered
from ..core.context import reaches
from .declared_parameters import OBJECTS, Declared

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from ...protocols.description import Description, Place
    from ..devices.device import Device
    from .signature import Parameter

__all__ = ["Slot"]


# A cell of 8 bytes for an integer or an address. P takes signed and unsigned numbers, where pointers have that size.
_CELL = "q" if IS_NARROW else "P"
_INTEGERS = {1: "b", 2: "h", 4: "i", 8: "q"}
_FLOATS = {"f16": "e6x", "f32": "f4x", "f64": "d"}  # and the struct formats of their cells
# The least number that rounds to infinity: half a unit in the last place above the greatest finite number.
_TOO_LARGE = {"f16": 65520.0, "bf16": (2 - 2**-8) * 2.0**127, "f32": (2 - 2**-24) * 2.0**127, "f64": float("inf")}


class Slot:
    """A parameter of a kernel on a device: how an argument is packed into it, and how one is refused.

    form      "address" (8 bytes that take a number or an array), "typed" (the same, for arrays of one element type),
              "integer", "real" or "bytes"
    element   of a "typed" slot: the DType of the arrays
    others    the DTypes that it takes besides
    known     whether its type is from the source
    dense     the strides of most arrays for it: of one dimension, without gaps
    format    the struct format of its cell: a launch packs each argument into a cell of its own, of 8 bytes or more
    type      from the declaration, or else from the code: a PTX type, "pointer", or "" if only the size is known
    converts  whether a "bytes" slot was declared with a type, so that numbers are converted to it
    reads     whether the kernel only reads the memory behind an address
    signed    whether an integer is signed; None if only PTX tells its type
    words     the type as errors show it
    low high  the range of integers
    limit     the smallest magnitude that does not fit into a float slot
    places    Places of memory that the kernel may always use; packing.py adds them
    unpack    the function of struct that reads a value of this size and form from a buffer
    table     the type of an argument -> the function that packs it; from packing.py
    """

    __slots__ = (
        "kernel",
        "parameter",
        "device",
        "ordinal",
        "form",
        "format",
        "type",
        "size",
        "element",
        "others",
        "known",
        "dense",
        "converts",
        "reads",
        "signed",
        "words",
        "low",
        "high",
        "limit",
        "suitable",
        "places",
        "unpack",
        "table",
        "_reader",
    )

    def __init__(
        self, kernel: str, parameter: Parameter, wanted: Declared | None, device: Device, reads: bool = False
    ) -> None:
        self.table: Any = None
        self.kernel, self.parameter, self.device, self.ordinal = kernel, parameter, device, device.ordinal
        self.size = size = parameter.size
        if wanted is not None:
            self.type, self.element, self.others = wanted.type, wanted.element, wanted.others
            self.known, self.signed = wanted.known, wanted.signed
        else:
            self.type, self.element, self.others, self.known, self.signed = parameter.type, None, (), False, None
        kind, signed = self.type, self.signed
        self.dense = None
        if self.element is not None:
            self.dense = (self.element.itemsize,)
        self.converts = wanted is not None and bool(kind)
        self.reads = reads or wanted is not None and wanted.reads
        self.words = self._words(wanted)
        half = 1 << size * 8 - 1
        self.low, self.high = 0 if signed is False else -half, half - 1 if signed else 2 * half - 1
        self.limit = _TOO_LARGE.get(kind, 0.0)
        self.suitable: Remembered[Place, bool] = Remembered(64)  # the Places that this parameter takes
        self.places = self.suitable.answers
        self._reader: Slot | None = None
        if size == 8 and kind in ("pointer", "u64", "s64") and not signed:
            self.form, self.format, value = "address" if self.element is None else "typed", _CELL, "q"
        elif kind in (f"u{size * 8}", f"s{size * 8}"):  # of 8 bytes, only a signed one
            self.form, self.format, value = (
                "integer",
                _CELL,
                _INTEGERS[size],
            )  # (the kernel reads the low bytes of the cell)
        elif kind in _FLOATS:
            self.form, self.format, value = "real", _FLOATS[kind], _FLOATS[kind][0]
        else:
            self.form, self.format, value = "bytes", f"{size}s{-size % 8}x", f"{size}s"
        self.unpack = Struct(value).unpack_from

    def reader(self) -> Slot:
        """Return the slot to use for an argument that is wrapped in In."""
        if self.reads:
            return self
        reader = self._reader
        if reader is None:
            wanted = None
            if self.converts:
                wanted = Declared(self.type, self.size, 1, element=self.element, others=self.others, known=self.known)
                wanted.signed = self.signed
            reader = Slot(self.kernel, self.parameter, wanted, self.device, reads=True)
            reader.table = self.table
            self._reader = reader
        return reader

    # -- refusals

    def _words(self, wanted: Declared | None) -> str:
        if wanted is not None and wanted.words:
            return wanted.words
        if self.element is not None:
            return f"{self.element}*"
        if self.type in OBJECTS:
            return f"a {self.type}"
        if self.type and self.type != "pointer":
            return f".{self.type}"
        return self.type or f"{self.size} bytes without a type"

    @property
    def place(self) -> str:
        """Return the text that names kernel and parameter."""
        parameter = self.parameter
        return f"kernel {self.kernel}: " + (
            f"parameter {parameter.name!r}" if parameter.name else f"the parameter at byte {parameter.offset}"
        )

    def refuse(self, kind: type[Exception], argument: object, why: str) -> NoReturn:
        """Raise an error that names kernel, parameter and argument."""
        raise kind(f"{self.place} is {self.words}: {_worded(argument)} {why}")

    def refuse_range(self, number: int) -> NoReturn:
        """Refuse an integer that is out of range."""
        remedy, other = "", "int" if self.signed is False else "uint"
        bits = self.size * 8
        if self.signed is not None and -(1 << bits - 1) <= number < 1 << bits:  # (in the range of the other sign)
            meant = number - (1 << bits) if self.signed else number + (1 << bits)
            remedy = f"; ctypes.c_{other}{bits}({number}) passes its bits, which are those of {meant}"
        self.refuse(ValueError, number, f"does not fit: it holds {self.low} .. {self.high}{remedy}")

    def refuse_place(self, argument: object, where: tuple[str, int | None], remedy: str) -> None:
        """Refuse memory that the device cannot access; return for host memory that it can access (HMM, Grace).

        remedy  how the device can be given access to memory of another one
        """
        kind, ordinal = where
        if kind == "cpu":
            if self.device.attribute("PAGEABLE_MEMORY_ACCESS"):
                return
            self.refuse(
                ValueError,
                argument,
                f"is in host memory, which device {self.ordinal} cannot access: "
                "x = device.upload(it) before the launch, and x.copy_to(it) after it if the kernel writes it; or use "
                'device.allocate(nbytes, kind="pinned")'
                + ("; for the bytes of a structure, give bytes(it)" if self.form == "bytes" else ""),
            )
        self.refuse(
            ValueError,
            argument,
            f"is on device {ordinal}, to which device {self.ordinal} was not given access: {remedy}, or copy it",
        )

    def access_to(self, made: Description) -> int:
        """Return the access of the device to the memory of a view: 0, 1 to read, 3 to read and write."""
        kind, ordinal = made._place.device or ("cuda", None)  # (None: an exporter of an empty array has named none)
        if kind == "cpu":
            return 0
        if kind != "cuda" or ordinal is None:
            return 3
        return reaches(self.ordinal, ordinal, made.ptr)


def _worded(value: object) -> str:
    shown = issubclass(type(value), (int, float, complex, str, bytes, type(None)))  # its __class__ may say otherwise
    if shown:
        return worded(value)
    return a_kind(value)
