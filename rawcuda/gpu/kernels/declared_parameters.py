"""The parameters of a kernel as a program declares them, and as the code and the driver describe them.

What it is   `declared` reads a declaration of a parameter; `read_parameters` and `agree` compare declarations with what
             the code and the driver say. All of this is done once, when a kernel is looked up. `In` and `Passed` are
             kinds of arguments that declare their parameters, too.
Source       PTX ISA, "Fundamental Types"; CUDA Driver API, cuFuncGetParamInfo
Read next    parameters.py
"""

from __future__ import annotations

import ctypes

from ...arrays.strided import _MemoryView
from ...elements.dtypes import of
from ...errors import InvalidUse, ProtocolError, worded
from ...headers import cuda_h
from ...images.mangled import elements, is_signed
from .signature import Parameter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ...elements.dtypes import DType
    from ...images.mangled import CType
    from .module import Module
    from .parameters import Slot

__all__ = [
    "Declared",
    "In",
    "OBJECTS",
    "Passed",
    "agree",
    "ctypes_letter",
    "declared",
    "from_source",
    "named",
    "read_parameters",
]


class In:
    """A marker for an array that a kernel only reads: In(x) as an argument, or In as the declaration of a parameter.

    >>> In(view(b"abc"))  # bytes are read-only, and a kernel gets them only as In
    In(<StridedView uint8 (3,) ... read-only, by buffer: [97, 98, 99]>)

    _ptr, _owner, _place  those of the array, if it is one of ours: launches read them here as they do from an array
    """

    __slots__ = ("_ptr", "_owner", "_exporter", "_place")

    def __init__(self, exporter: object) -> None:
        self.exporter = exporter

    @property
    def exporter(self) -> Any:
        """Return the array, which may be replaced."""
        return self._exporter

    @exporter.setter
    def exporter(self, exporter: Any) -> None:
        self._exporter, self._place = exporter, None
        if type(exporter) is _MemoryView:
            self._ptr, self._owner = exporter._ptr, exporter._owner
            self._place = exporter._place

    def __repr__(self) -> str:
        if isinstance(self.exporter, In):
            return "In(In(...))"
        return f"In({self.exporter!r})"


class Passed:
    """An object that a launch passes by value: a texture or a surface (8 bytes), or a tensor map (128 bytes).

    declares  the type of a parameter that takes only such objects, a key of OBJECTS
    """

    __slots__ = ()
    declares = ""

    def _pass(self, slot: Slot) -> tuple[int | bytes, object]:
        """Return the value for the kernel, and the view or the array whose elements the kernel accesses through it.

        The object must be open, and the parameter take it.
        """
        raise NotImplementedError


class Declared:
    """A declared parameter: `type` (a PTX type, "pointer", "" for bytes), `size`, `alignment`, `reads`.

    element  for a pointer: the DType of the elements of the arrays that it accepts, or None for all
    others   the DTypes that it accepts besides, if the type is from the source: those with the same bits
    known    whether the type is from the source, and not the user's
    signed   whether an integer is signed; None if it takes the numbers of both ranges
    words    the type as errors show it, if it is not a PTX type
    """

    __slots__ = ("type", "size", "alignment", "reads", "ctype", "element", "others", "known", "signed", "words")

    def __init__(
        self,
        type: str,
        size: int,
        alignment: int,
        reads: bool = False,
        ctype: object = None,
        element: DType | None = None,
        others: tuple[DType, ...] = (),
        known: bool = False,
        signed: bool | None = None,
        words: str = "",
    ) -> None:
        self.type, self.size, self.alignment, self.reads, self.ctype = type, size, alignment, reads, ctype
        self.element, self.others, self.known = element, others, known
        self.signed, self.words = signed, words


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


# The types of parameters that take objects: size and alignment.
OBJECTS = {"texture": (8, 8), "surface": (8, 8), "tensor map": (128, 64)}
_OBJECT_NAMES = {"cudaTextureObject_t": "texture", "cudaSurfaceObject_t": "surface", "CUtensorMap": "tensor map"}


def declared(what: object) -> Declared:
    """Read a declaration of a parameter.

    what    a dtype ("float32", a NumPy dtype), a PTX type ("f32"), a ctypes type; for arrays "pointer", In (which the
            kernel only reads), or their element type with a star: "float32*", "const float32*"; "texture", "surface",
            "tensor map", or their classes. "u32" takes negative numbers, too, as nvcc writes it for an int
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
        signed = letter == "s" if letter in ("u", "s") and getattr(what, "_type_", "") not in ("P", "?") else None
        return Declared(
            letter + str(size * 8) if letter else "", size, ctypes.alignment(what), ctype=what, signed=signed
        )
    if isinstance(what, str):
        name: object = what
    else:
        name = getattr(what, "name", None) or getattr(what, "__name__", "")
    name = str(name).lstrip(".")
    ptx = _NAMES.get(name, name)
    if (
        ptx[:1] in ("u", "s")
        and ptx[1:] in ("8", "16", "32", "64")
        or ptx in ("f16", "f32", "f64", "bf16", "c64", "c128")
    ):
        size = int("".join(filter(str.isdigit, ptx))) // 8
        signed = None
        if ptx[0] == "s" or ptx[0] == "u" and name != ptx and not name.startswith("bool"):
            signed = ptx[0] == "s"
        return Declared(ptx, size, size // 2 if ptx[0] == "c" else size, signed=signed)
    hint = {"int": ": int32 or int64?", "float": ": float32 or float64?"}.get(name) or _hint(what)
    raise TypeError(
        f"{worded(what)} declares no parameter"
        f"{hint or ': give a dtype (int32), a PTX type (u32), pointer, In, or a ctypes type'}"
    )


def from_source(parameter: Parameter, type: CType) -> Declared | None:
    """Return what the type in the source or in a C++ name says of a parameter; None if it says nothing."""
    signed = is_signed(type)
    if signed is not None and parameter.type[:1] in ("u", "s"):
        return Declared(
            parameter.type,
            parameter.size,
            parameter.size,
            known=True,
            signed=signed,
            words=str(type._replace(const=False)),
        )
    if not type.stars or parameter.size != 8 or parameter.type not in ("", "u64", "s64", "b64"):
        return None
    found = tuple([_vector(name) if name[-2] == "x" else of(name) for name in elements(type)])
    if not found and not type.reads:
        return None
    element = found[0] if found else None
    words = str(type) if type.stars > 1 else ""  # (an array for it has addresses, and not the elements of the name)
    return Declared("pointer", 8, 8, type.reads, element=element, others=found[1:], known=True, words=words)


def _vector(name: str) -> DType:
    base, _, lanes = name.rpartition("x")
    return of(base).with_lanes(int(lanes))


def named(parameter: Parameter, name: str) -> Parameter:
    """Return a parameter with the name that the source gives it, if there is one."""
    if not name:
        return parameter
    return Parameter(name, parameter.offset, parameter.size, parameter.type, parameter.pointer)


def _hint(what: object) -> str:
    """Return the words for the name that declares what a typestr means, or ""."""
    try:  # (a typestr is no declaration, because PTX's u8 has 1 byte and NumPy's has 8)
        name = of(what).name
    except (TypeError, ProtocolError):
        return ""
    if name in _NAMES:
        return f": {name!r}?"
    return ""


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


def _element(what: object, given: object) -> DType:
    """Return the element type of a pointer."""
    if isinstance(what, str):
        what = what.lstrip(".")
        what = next((name for name, ptx in _NAMES.items() if ptx == what and not name.startswith("bool")), what)
    elif isinstance(what, type) and issubclass(what, ctypes._SimpleCData):
        letter = ctypes_letter(what)
        if letter:
            what = f"{ {'u': 'uint', 's': 'int', 'f': 'float'}[letter] }{ctypes.sizeof(what) * 8}"
    try:
        found = of(what)
    except (TypeError, ProtocolError) as error:
        raise TypeError(f"{given!r} declares no parameter: {error}") from None
    if found.packed:
        raise TypeError(f"{given!r} declares no parameter: {found} elements share bytes")
    return found


def ctypes_letter(kind: object) -> str:
    """Return the PTX letter ("u", "s" or "f") of a ctypes class, or "" if it is not a number."""
    code = getattr(kind, "_type_", None)
    if not isinstance(code, str):
        return ""
    if code in "fd":
        return "f"
    if code in "bhilq":
        return "s"
    if code in "BHILQ?P":
        return "u"
    return ""


def read_parameters(module: Module, name: str, function: int) -> list[Parameter] | None:
    """Return the parameters from the PTX if the driver agrees, else the driver's offsets and sizes, else None."""
    said, told = module._signatures.get(name), _ask_driver(module, function)
    if said is not None and (not told or [(p.offset, p.size) for p in said] == told):
        return said
    if told is None:
        return None
    return [Parameter("", offset, size, "") for offset, size in told]


def _ask_driver(module: Module, function: int) -> list[tuple[int, int]] | None:
    """Return each parameter's offset and size, or None if the driver does not list them.

    calls   cuFuncGetParamInfo
    """
    loaded = module.device._primary.driver
    if not loaded.has("cuFuncGetParamInfo"):
        return None
    offset, size = ctypes.c_size_t(), ctypes.c_size_t()
    found: list[tuple[int, int]] = []
    with module.device.current():
        while True:
            try:
                loaded.cuFuncGetParamInfo(
                    cuda_h.CUfunction(function), len(found), ctypes.byref(offset), ctypes.byref(size)
                )
            except InvalidUse:  # past the last one
                return found
            found.append((offset.value, size.value))


def agree(name: str, have: list[Parameter] | None, wanted: list[Declared]) -> list[Parameter]:
    """Calculate the offsets of declared parameters as C does, and compare them with those of the code and the driver.

    raises  ValueError  another number of parameters, or another size
    """
    laid, offset = [], 0
    for index, one in enumerate(wanted):
        offset = (offset + one.alignment - 1) // one.alignment * one.alignment
        known = ""
        if have is not None and index < len(have):
            known = have[index].name
        laid.append(
            Parameter(known, offset, one.size, one.type if one.type != "pointer" else "u64", one.type == "pointer")
        )
        offset += one.size
    if have is not None:
        if len(have) != len(laid):
            raise ValueError(f"kernel {name} has {len(have)} parameters, but {len(laid)} were declared")
        for index, (ours, theirs) in enumerate(zip(laid, have)):
            if ours.size != theirs.size:
                raise ValueError(
                    f"kernel {name}: parameter {index} has {theirs.size} bytes, but it was declared with {ours.size}"
                )
            ours._offset = theirs.offset  # .align may be larger than in C
    return laid
