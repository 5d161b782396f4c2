"""The arguments that a kernel's parameter accepts, and the errors for all others.

What it is   `Slot`, a parameter of a kernel as its launches see it: how it is packed, and errors that name kernel,
             parameter, value and remedy. `declared` reads a user's declaration of a parameter, and `In` marks an array
             that the kernel only reads.
What not     it packs nothing: packing.py has a function for each type of argument.
The rules    An integer parameter takes any integer that fits its width, signed or unsigned (nvcc writes int as .u32).
             A float parameter takes real numbers that fit. Eight bytes that may be an address take arrays and None.
             A parameter with only a known size takes bytes, ctypes and NumPy values of exactly that size.
Source       PTX ISA, "Fundamental Types"; CUDA Driver API, cuLaunchKernel
Read next    packing.py
"""

from __future__ import annotations

import ctypes
from struct import Struct

from ... import names
from ...arrays.strided import _MemoryView
from ...elements.dtypes import of
from ...errors import ProtocolError, a_kind, worded
from ...remembered import Remembered
from ..context import reaches

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from ...elements.dtypes import DType
    from ...protocols.description import Place
    from ..device import Device
    from .signature import Parameter

__all__ = [
    "Declared",
    "In",
    "OBJECTS",
    "Passed",
    "Slot",
    "ctypes_letter",
    "declared",
    "refuse_kind",
    "refuse_numpy",
    "refuse_object",
    "refuse_order",
    "refuse_pointer",
    "refuse_sequence",
    "refuse_size",
]


class In:
    """A marker for an array that a kernel only reads: In(x) as an argument, or In as the declaration of a parameter.

    start, owner, _place  those of the array, if it is one of ours: launches read them here as they do from an array
    """

    __slots__ = ("start", "owner", "_exporter", "_place")

    def __init__(self, exporter: names.Any) -> None:
        self.exporter = exporter

    @property
    def exporter(self) -> names.Any:
        """Return the array, which may be replaced."""
        return self._exporter

    @exporter.setter
    def exporter(self, exporter: names.Any) -> None:
        self._exporter, self._place = exporter, None
        if type(exporter) is _MemoryView:
            self.start, self.owner = exporter.start, exporter.owner
            self._place = exporter._place

    def __repr__(self) -> str:
        return "In(In(...))" if isinstance(self.exporter, In) else f"In({self.exporter!r})"


class Passed:
    """An object that a launch passes by value: a texture or a surface (8 bytes), or a tensor map (128 bytes).

    declares  the type of a parameter that takes only such objects, a key of OBJECTS
    """

    __slots__ = ()
    declares = ""

    def _pass(self, slot: Slot) -> int | bytes:
        """Return the value for the kernel, after checking that the object is open and that the parameter takes it."""
        raise NotImplementedError


class Declared:
    """A declared parameter: `type` (a PTX type, "pointer", "" for bytes), `size`, `alignment`, `reads`.

    element  for a pointer: the DType of the elements of the arrays that it accepts, or None for all
    """

    __slots__ = ("type", "size", "alignment", "reads", "ctype", "element")

    def __init__(
        self,
        type: str,
        size: int,
        alignment: int,
        reads: bool = False,
        ctype: Any = None,
        element: DType | None = None,
    ) -> None:
        self.type, self.size, self.alignment, self.reads, self.ctype = type, size, alignment, reads, ctype
        self.element = element


# Names of NumPy types, and the PTX types that they declare.
_NAMES = {
    "bool": "u8",
    "bool_": "u8",
    "int8": "s8",
    "uint8": "u8",
    "int16": "s16",
    "uint16": "u16",
    "int32": "s32",
    "uint32": "u32",
    "int64": "s64",
    "uint64": "u64",
    "float16": "f16",
    "bfloat16": "bf16",
    "float32": "f32",
    "float64": "f64",
    "complex64": "c64",
    "complex128": "c128",
}
_INTEGERS = {1: "b", 2: "h", 4: "i"}
_FLOATS = {"f16": "e6x", "f32": "f4x", "f64": "d"}  # and the struct formats of their cells
# The least number that rounds to infinity: half a unit in the last place above the greatest finite number.
_TOO_LARGE = {"f16": 65520.0, "bf16": (2 - 2**-8) * 2.0**127, "f32": (2 - 2**-24) * 2.0**127, "f64": float("inf")}


# The types of parameters that take objects: size and alignment.
OBJECTS = {"texture": (8, 8), "surface": (8, 8), "tensor map": (128, 64)}
_OBJECT_NAMES = {"cudaTextureObject_t": "texture", "cudaSurfaceObject_t": "surface", "CUtensorMap": "tensor map"}


def declared(what: Any) -> Declared:
    """Read a declaration of a parameter.

    what    a dtype ("float32", a NumPy dtype), a PTX type ("f32"), a ctypes type; for arrays "pointer", In (which the
            kernel only reads), or their element type with a star: "float32*", "const float32*"; "texture", "surface",
            "tensor map", or their classes
    raises  TypeError  the object is none of these
    """
    if isinstance(what, type) and issubclass(what, Passed) and what.declares:
        return Declared(what.declares, *OBJECTS[what.declares])
    if isinstance(what, str) and _OBJECT_NAMES.get(what, what) in OBJECTS:
        kind = _OBJECT_NAMES.get(what, what)
        return Declared(kind, *OBJECTS[kind])
    if isinstance(what, str) and what.rstrip().endswith("*"):
        return _declared_pointer(what)
    if isinstance(what, type) and issubclass(what, ctypes._Pointer):
        return Declared("pointer", 8, 8, element=_element(what._type_, what))
    if what is In or isinstance(what, str) and what == "pointer":
        return Declared("pointer", 8, 8, reads=what is In)
    if isinstance(what, type) and issubclass(what, (ctypes._SimpleCData, ctypes.Structure, ctypes.Union, ctypes.Array)):
        letter, size = ctypes_letter(what), ctypes.sizeof(what)
        return Declared(letter + str(size * 8) if letter else "", size, ctypes.alignment(what), ctype=what)
    name = what if isinstance(what, str) else getattr(what, "name", None) or getattr(what, "__name__", "")
    name = str(name).lstrip(".")
    ptx = _NAMES.get(name, name)
    if ptx[:1] in ("u", "s") and ptx[1:] in ("8", "16", "32", "64") or ptx in (*_FLOATS, "bf16", "c64", "c128"):
        size = int("".join(filter(str.isdigit, ptx))) // 8
        return Declared(ptx, size, size // 2 if ptx[0] == "c" else size)
    hint = {"int": ": int32 or int64?", "float": ": float32 or float64?"}.get(name) or _hint(what)
    raise TypeError(
        f"{worded(what)} declares no parameter"
        f"{hint or ': give a dtype (int32), a PTX type (u32), pointer, In, or a ctypes type'}"
    )


def _hint(what: Any) -> str:
    """Return the words for the name that declares what a typestr means, or ""."""
    try:  # (a typestr is no declaration, because PTX's u8 has 1 byte and NumPy's has 8)
        name = of(what).name
    except (TypeError, ProtocolError):
        return ""
    return f": {name!r}?" if name in _NAMES else ""


def _declared_pointer(text: str) -> Declared:
    """Read "float32*" or "const float32*"; "void*" takes arrays of every type."""
    words = text.replace("*", " * ").split()
    reads = words[0] == "const" or words[1:2] == ["const"]
    words = [word for word in words if word != "const"]
    if len(words) != 2 or words[1] != "*":
        raise TypeError(f"{text!r} declares no parameter: give an element type with a star, such as 'float32*'")
    hint = {"int": "int32*", "float": "float32*", "double": "float64*", "long": "int64*", "char": "int8*"}.get(words[0])
    if hint is not None:
        raise TypeError(f"{text!r} declares no parameter: {hint!r}?")
    return Declared("pointer", 8, 8, reads, element=None if words[0] == "void" else _element(words[0], text))


def _element(what: Any, given: Any) -> DType:
    """Return the element type of a pointer."""
    if isinstance(what, str):
        what = what.lstrip(".")
        what = next((name for name, ptx in _NAMES.items() if ptx == what and not name.startswith("bool")), what)
    elif isinstance(what, type) and issubclass(what, ctypes._SimpleCData):
        letter = ctypes_letter(what)
        what = f"{ {'u': 'uint', 's': 'int', 'f': 'float'}[letter] }{ctypes.sizeof(what) * 8}" if letter else what
    try:
        found = of(what)
    except (TypeError, ProtocolError) as error:
        raise TypeError(f"{given!r} declares no parameter: {error}") from None
    if found.packed:
        raise TypeError(f"{given!r} declares no parameter: {found} elements share bytes")
    return found


def ctypes_letter(kind: Any) -> str:
    """Return the PTX letter ("u", "s" or "f") of a ctypes class, or "" if it is not a number."""
    code = getattr(kind, "_type_", None)
    if not isinstance(code, str):
        return ""
    return "f" if code in "fd" else "s" if code in "bhilq" else "u" if code in "BHILQ?P" else ""


class Slot:
    """A parameter of a kernel on a device: how an argument is packed into it, and how one is refused.

    form      "address" (8 bytes that take a number or an array), "typed" (the same, for arrays of one element type),
              "integer", "real" or "bytes"
    element   of a "typed" slot: the DType of the arrays
    format    the struct format of its cell: a launch packs each argument into a cell of its own, of 8 bytes or more
    type      from the declaration, or else from the code: a PTX type, "pointer", or "" if only the size is known
    converts  whether a "bytes" slot was declared with a type, so that numbers are converted to it
    reads     whether the kernel only reads the memory behind an address
    low high  the range of integers, signed or unsigned
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
        "converts",
        "reads",
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
        self.type = kind = parameter.type if wanted is None else wanted.type
        self.size = size = parameter.size
        self.element = None if wanted is None else wanted.element
        self.converts = wanted is not None and bool(kind)
        self.reads = reads or wanted is not None and wanted.reads
        bits = size * 8
        self.low, self.high = -(1 << bits - 1), (1 << bits) - 1
        self.limit = _TOO_LARGE.get(kind, 0.0)
        self.suitable: Remembered[Place, bool] = Remembered(64)  # the Places that this parameter takes
        self.places = self.suitable.answers
        self._reader: Slot | None = None
        if size == 8 and kind in ("pointer", "u64", "s64"):
            self.form, self.format, value = "address" if self.element is None else "typed", "P", "q"
        elif kind[:1] in ("u", "s") and size in _INTEGERS:
            self.form, self.format, value = (
                "integer",
                "P",
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
            wanted = Declared(self.type, self.size, 1, element=self.element) if self.converts else None
            reader = Slot(self.kernel, self.parameter, wanted, self.device, reads=True)
            reader.table = self.table
            self._reader = reader
        return reader

    # -- refusals

    @property
    def place(self) -> str:
        """Return the text that names kernel and parameter."""
        parameter = self.parameter
        return f"kernel {self.kernel}: " + (
            f"parameter {parameter.name!r}" if parameter.name else f"the parameter at byte {parameter.offset}"
        )

    def refuse(self, kind: type[Exception], argument: Any, why: str) -> NoReturn:
        """Raise an error that names kernel, parameter and argument."""
        if self.element is not None:
            shown = f"{self.element}*"
        elif self.type in OBJECTS:
            shown = f"a {self.type}"
        elif self.type and self.type != "pointer":
            shown = f".{self.type}"
        else:
            shown = self.type or f"{self.size} bytes without a type"
        raise kind(f"{self.place} is {shown}: {_worded(argument)} {why}")

    def refuse_place(self, argument: Any, where: tuple[str, int | None], owner: Any = None) -> None:
        """Refuse memory that the device cannot access; return for host memory that it can access (HMM, Grace).

        owner  the Memory, if it is ours
        """
        kind, ordinal = where
        if kind == "cpu":
            if self.device.attribute("PAGEABLE_MEMORY_ACCESS"):
                return
            self.refuse(
                ValueError,
                argument,
                f"is in host memory, which device {self.ordinal} cannot access: "
                'device.upload(it), or allocate it as "pinned" or "managed"'
                + ("; for the bytes of a structure, give bytes(it)" if self.form == "bytes" else ""),
            )
        remedy = f"Device({self.ordinal}).enable_peer_access(Device({ordinal}))"
        self.refuse(
            ValueError,
            argument,
            f"is on device {ordinal}, to which device {self.ordinal} was not given access: "
            f"{remedy if owner is None else owner._remedy(self.ordinal)}, or copy it",
        )

    def can_reach(self, where: tuple[str, int | None]) -> bool:
        """Tell whether the device can access memory of a kind and ordinal, according to its label."""
        kind, ordinal = where  # (None is the ordinal of an empty array whose exporter named none: nothing is accessed)
        return kind != "cpu" and (kind != "cuda" or ordinal is None or reaches(self.ordinal, ordinal))


def _worded(value: Any) -> str:
    shown = issubclass(type(value), (int, float, complex, str, bytes, type(None)))  # its __class__ may say otherwise
    return worded(value) if shown else a_kind(value)


# -- refusals, which are called as the functions that pack: (slot, argument, kept)


def refuse_size(slot: Slot, argument: Any, kept: Any) -> NoReturn:
    """Refuse a value of another size."""
    slot.refuse(ValueError, argument, f"has {ctypes.sizeof(argument)} bytes, not {slot.size}")


def refuse_kind(slot: Slot, argument: Any, kept: Any) -> NoReturn:
    """Refuse a ctypes value of another kind."""
    slot.refuse(TypeError, argument, "is of another kind: give a ctypes type of the parameter's kind, or a number")


def refuse_pointer(slot: Slot, argument: Any, kept: Any) -> NoReturn:
    """Refuse a ctypes pointer."""
    why = "points to host memory: give the array; to pass an address, give an int or a c_void_p"
    slot.refuse(TypeError, argument, why)


def refuse_sequence(slot: Slot, argument: Any, kept: Any) -> NoReturn:
    """Refuse a list or a tuple."""
    why = "is not an array: make one with array.array or numpy.asarray, and give device.upload(it)"
    slot.refuse(TypeError, argument, why)


def refuse_numpy(slot: Slot, argument: Any, kept: Any) -> NoReturn:
    """Refuse a NumPy scalar that is neither an int nor a float."""
    slot.refuse(TypeError, argument, f"({argument.dtype}) is neither an int nor a float: give bytes(it)")


def refuse_object(slot: Slot, argument: Any, kept: Any) -> NoReturn:
    """Refuse an argument that is not a texture, a surface or a tensor map."""
    makers = {"texture": "device.texture(...)", "surface": "device.surface(array)"}
    maker = makers.get(slot.type, "TensorMap.tiled(view, box=...)")
    slot.refuse(TypeError, argument, f"is not one: {maker} makes one")


def refuse_order(slot: Slot, argument: Any, kept: Any) -> NoReturn:
    """Refuse big-endian bytes."""
    why = "is big-endian, and CUDA is little-endian: give a ctypes.Structure, or x.astype(x.dtype.newbyteorder('='))"
    slot.refuse(ValueError, argument, why)
