"""The errors for arguments that a kernel's parameter does not take.

What it is   Functions that are called as those that pack: (slot, argument, kept). Each raises an error that names
             kernel, parameter, value and remedy.
Read next    packing.py
"""

from __future__ import annotations

import ctypes

from .kinds import is_exporter, kind_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from .packing import Kept
    from .parameters import Slot

__all__ = [
    "ARRAYS",
    "refuse_address",
    "refuse_bytes",
    "refuse_integer",
    "refuse_kind",
    "refuse_numpy",
    "refuse_object",
    "refuse_order",
    "refuse_pointer",
    "refuse_real",
    "refuse_sequence",
    "refuse_size",
]

ARRAYS = {"none", "in", "memory", "own view", "view", "ctypes array", "ctypes pointer"}


def refuse_size(slot: Slot, argument: Any, kept: object) -> NoReturn:
    """Refuse a value of another size."""
    slot.refuse(ValueError, argument, f"has {ctypes.sizeof(argument)} bytes, not {slot.size}")


def refuse_kind(slot: Slot, argument: object, kept: object) -> NoReturn:
    """Refuse a ctypes value of another kind."""
    slot.refuse(TypeError, argument, "is of another kind: give a ctypes type of the parameter's kind, or a number")


def refuse_pointer(slot: Slot, argument: object, kept: object) -> NoReturn:
    """Refuse a ctypes pointer."""
    why = "points to host memory: give the array; to pass an address, give an int or a c_void_p"
    slot.refuse(TypeError, argument, why)


def refuse_sequence(slot: Slot, argument: object, kept: object) -> NoReturn:
    """Refuse a list or a tuple."""
    if slot.form in ("integer", "real"):
        slot.refuse(TypeError, argument, "is not a number: give one of its elements, such as x.shape[0] for x.shape")
    why = "is not an array: make one with array.array or numpy.asarray, and give device.upload(it)"
    slot.refuse(TypeError, argument, why)


def refuse_numpy(slot: Slot, argument: Any, kept: object) -> NoReturn:
    """Refuse a NumPy scalar that is neither an int nor a float."""
    slot.refuse(TypeError, argument, f"({argument.dtype}) is neither an int nor a float: give bytes(it)")


def refuse_object(slot: Slot, argument: object, kept: object) -> NoReturn:
    """Refuse an argument that is not a texture, a surface or a tensor map."""
    makers = {"texture": "device.texture(...)", "surface": "device.surface(array)"}
    maker = makers.get(slot.type, "TensorMap.tiled(view, box=...)")
    slot.refuse(TypeError, argument, f"is not one: {maker} makes one")


def refuse_order(slot: Slot, argument: object, kept: object) -> NoReturn:
    """Refuse big-endian bytes."""
    why = "is big-endian, and CUDA is little-endian: give a ctypes.Structure, or x.astype(x.dtype.newbyteorder('='))"
    slot.refuse(ValueError, argument, why)


def refuse_address(slot: Slot, argument: object, kept: Kept) -> NoReturn:
    """Refuse what is neither an array nor an address."""
    if isinstance(argument, (list, tuple)):
        refuse_sequence(slot, argument, kept)
    if slot.type == "pointer" or slot.form == "bytes":
        remedy = "give an array that the device can access, such as device.upload(array)"
        if isinstance(argument, (int, float, complex)):
            remedy = "look at the order of the arguments; device.full(1, number, dtype) has one number in memory"
        slot.refuse(TypeError, argument, f"is neither an array nor an address: {remedy}")
    refuse_integer(slot, argument, kept)


def refuse_integer(slot: Slot, argument: object, kept: Kept) -> NoReturn:
    """Refuse what is not an integer."""
    _refuse_number(slot, argument, "an integer")


def refuse_real(slot: Slot, argument: object, kept: Kept) -> NoReturn:
    """Refuse what is not a real number."""
    _refuse_number(slot, argument, "a float")


def _refuse_number(slot: Slot, argument: object, wanted: str) -> NoReturn:
    if isinstance(argument, (list, tuple)) and not is_exporter(argument):
        refuse_sequence(slot, argument, None)
    if isinstance(argument, complex) or getattr(getattr(argument, "dtype", None), "kind", "") == "c":
        remedy = "give its .real or its .imag"
    elif isinstance(argument, str):
        remedy = "give " + ("float(it)" if wanted == "a float" else "int(it)")
    elif not _is_array(argument) and wanted == "an integer" and hasattr(type(argument), "__float__"):
        remedy = "look at the order of the arguments, or round it"
    else:
        remedy = "give a number"
        if hasattr(argument, "item"):
            remedy += ", such as its item(); for an array, look at the order of the arguments"
    slot.refuse(TypeError, argument, f"cannot be converted to {wanted}: {remedy}")


def refuse_bytes(slot: Slot, argument: object, kept: Kept) -> NoReturn:
    """Refuse what has no bytes of the parameter's size."""
    if isinstance(argument, (int, float, complex)):
        slot.refuse(
            TypeError,
            argument,
            "is ambiguous here: declare the type, "
            f"module.kernel({slot.kernel!r}, parameters=[...]), or give a ctypes or NumPy scalar",
        )
    why = f"cannot be passed here: give bytes, as of struct.pack(), or a ctypes or NumPy value, of {slot.size} bytes"
    slot.refuse(TypeError, argument, why)


def _is_array(value: object) -> bool:
    sort = kind_of(type(value))
    return sort in ARRAYS - {"none"} or sort == "other" and is_exporter(value)
