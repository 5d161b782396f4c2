"""The choice of the function that packs an argument: a table for each kind of parameter, by the type of the argument.

What it is   `table_for` gives a slot its table, which is filled when a type is first seen. kinds.py classifies types,
             and the dictionaries _ADDRESS, _INTEGER, _REAL and _BYTES contain the function that packs each kind into
             each form of slot. So each kind of argument costs only its own packing, and no kind is tried before
             another.
How          A packer is a function of the slot, the argument and `Kept`. It returns the value for the slot's struct
             format. The type alone chooses the packer. It checks the value at each call (range, size, read-only,
             accessible, open), and refuses it with an error that names kernel, parameter, value and remedy.
What not     It writes nothing to memory: launch.py does, with struct.
Source       PTX ISA, "Fundamental Types"; cuLaunchKernel
Read next    kinds.py
"""

from __future__ import annotations

import ctypes
import sys
from operator import index

from ...arrays.strided import view
from ...elements.ctypes_types import is_swapped
from ...elements.dtypes import of
from ...elements.layout import is_c_contiguous, is_f_contiguous
from ...elements.scalars import encode
from ...errors import Closed, ProtocolError
from ...protocols.choosing import Unviewable
from ...protocols.description import Description
from ...remembered import Remembered
from ..core.context import access_remedy
from ..core.stream_arguments import PER_THREAD, StreamHandle, work_handle
from ..memory.memory import ManagedMemory, Memory
from ..memory.ordering import device_of, follow
from .argument_errors import (
    ARRAYS,
    refuse_address,
    refuse_bytes,
    refuse_integer,
    refuse_kind,
    refuse_numpy,
    refuse_object,
    refuse_order,
    refuse_pointer,
    refuse_real,
    refuse_size,
)
from .declared_parameters import OBJECTS, In, Passed, ctypes_letter
from .kinds import is_exporter, is_numpys_own, is_plain, kind_of
from .parameters import Slot

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _weakref import ref
    from typing import Any, Callable, NoReturn

    from ...elements.dtypes import DType
    from .launch import Prepared

    Packer = Callable[[Slot, Any, "Kept"], Any]

__all__ = ["RAN", "Kept", "Packers", "table_for"]


class Kept(list):  # type: ignore[type-arg]
    """The views of other libraries' arrays in one launch, kept until its stream has completed the launch.

    launch  a weak reference to the Prepared in the order of whose stream they are viewed; None: a node has no stream
    """

    __slots__ = ("launch",)

    launch: ref[Prepared] | None

    @property
    def stream(self) -> object:
        """Return the Stream of the launch, which the code of an argument may close, or the handle of another stream."""
        prepared = None if self.launch is None else self.launch()
        if prepared is None:
            return None
        if isinstance(prepared.stream, StreamHandle):
            return prepared.stream
        return prepared.handle


# -- tables


class Packers:
    """The packers for one kind of slot, by the type of the argument; filled when a type is first seen.

    A packer is chosen by the bases of the type alone, which do not change. It tests each value for the rest.

    plain  the types whose values struct itself converts for the slot, or refuses. The generated functions pass these
           unchanged, which saves 60 ns for each such argument: 360 of 1,280 for a kernel with six NumPy integers.
    """

    __slots__ = ("packers", "plain", "_kept", "_form", "_type", "_size", "_converts")

    def __init__(self, form: str, type: str, size: int, converts: bool) -> None:
        self._form, self._type, self._size, self._converts = form, type, size, converts
        self.packers: Remembered[object, Packer] = Remembered(256)
        self._kept: Remembered[object, bool] = Remembered(256)
        self.plain = self._kept.answers

    def packer(self, kind: type) -> Packer:
        """Return the packer for a type."""
        found = self.packers.answers.get(kind)
        if found is None:
            found = self.packers.keep(kind, self._choose(kind))
            if self._form != "bytes" and is_plain(kind, self._form, self._size):
                self._kept.keep(kind, True)
        return found

    def _choose(self, kind: type) -> Packer:
        """Return the packer for a type; everything that depends only on the type is decided here, once."""
        sort = kind_of(kind)
        packer = self._packer_of(kind, sort)
        if sort not in _NUMBERS or kind in (float, complex) or is_numpys_own(kind):
            return packer
        if sort == "integral" and packer is _pack_index:  # index() returns an int as it is
            return packer
        return _running(packer)

    def _packer_of(self, kind: type, sort: str) -> Packer:
        size, form = self._size, self._form
        if form == "bytes":
            if self._converts and self._type in OBJECTS:
                return _OBJECT.get(sort, refuse_object)
            if sort == "ctypes array" and size == 8 != ctypes.sizeof(kind):
                return _pack_address_bytes  # not passed by value: an array in host memory
            if self._converts and sort in _CONVERTED:
                if sort == "other":
                    return _pack_other_converted
                return _CONVERTERS.get(self._type, _pack_complex)
            if self._converts and sort == "numpy other":
                return refuse_numpy
            if (size != 8 or self._converts) and sort in ARRAYS and sort != "ctypes array":
                return refuse_bytes
            packer = _BYTES.get(sort, refuse_bytes)
            if packer is _pack_ctypes and ctypes.sizeof(kind) != size:
                return refuse_size
            if packer is _pack_ctypes and is_swapped(kind):
                if sort == "ctypes value":
                    return _pack_swapped
                return refuse_order
            return packer
        if sort in ("ctypes value", "ctypes structure"):
            letter = ctypes_letter(kind) if sort == "ctypes value" else ""
            if ctypes.sizeof(kind) != size:
                return refuse_size
            if not letter or (letter == "f") != (form == "real"):
                return refuse_kind
            if is_swapped(kind):
                return _pack_swapped
        if sort == "numpy integer" and form != "real" and is_plain(kind, form, size):
            return _pack_plain
        if form == "typed" and sort in _TYPED:
            return _TYPED[sort]
        if form in ("address", "typed"):
            return _ADDRESS.get(sort, refuse_address)
        if form == "real":
            return _REAL.get(sort, refuse_real)
        return _INTEGER.get(sort, refuse_integer)


_tables: Remembered[tuple[str, str, int, bool], Packers] = Remembered(256)


def table_for(slot: Slot) -> Packers:
    """Return the table of a slot, which equal slots share."""
    form = slot.form
    key = form, slot.type if form in ("bytes", "real") else "", slot.size, slot.converts and form == "bytes"
    try:
        return _tables.answers[key]
    except KeyError:
        return _tables.keep(key, Packers(*key))


RAN = None  # in a Kept: code of an argument ran, after which the others are checked again
# Numbers whose subclasses may have an __index__, a __float__ or a tobytes() of their own.
_NUMBERS = {"integral", "float", "complex"} | {
    f"numpy {each}" for each in ("bool", "integer", "float", "complex", "other")
}


def _running(packer: Packer) -> Packer:
    """Return a packer that notes that the code of an argument may have run."""

    def packed(slot: Slot, argument: object, kept: Kept) -> object:
        kept.append(RAN)
        return packer(slot, argument, kept)

    return packed


# -- numbers


def _pack_int(slot: Slot, argument: int, kept: Kept) -> int:
    """Pack a plain int, in the form that every struct format of 8 bytes takes: as a signed integer."""
    if slot.low <= argument <= slot.high:
        if argument < _HALF:
            return argument
        return argument - _WHOLE
    slot.refuse_range(argument)


_HALF, _WHOLE = 1 << 63, 1 << 64


def _pack_bool(slot: Slot, argument: object, kept: Kept) -> int:
    if argument:
        return 1
    return 0


def _pack_plain(slot: Slot, argument: Any, kept: Kept) -> int:
    return index(argument)


def _pack_index(slot: Slot, argument: Any, kept: Kept) -> int:
    number = index(argument)
    if type(number) is not int:  # a subclass, whose operators may do anything
        number = int.__index__(number)
    if slot.low <= number < _HALF and number <= slot.high:  # (another call takes 40 ns)
        return number
    return _pack_int(slot, number, kept)


def _refuse_bytes_as_array(slot: Slot, argument: bytes, kept: Kept) -> NoReturn:
    slot.refuse(TypeError, argument, "is no array that the device can access: give device.upload(it)")


def _pack_number_of_bytes(slot: Slot, argument: bytes, kept: Kept) -> object:
    return slot.unpack(_pack_bytes(slot, argument, kept))[0]


def _pack_ctypes(slot: Slot, argument: Any, kept: Kept) -> object:
    """Pack the bytes in an object's memory, even if its class redefines .value or __bytes__."""
    return slot.unpack(argument)[0]


def _pack_swapped(slot: Slot, argument: Any, kept: Kept) -> object:
    """Pack a number of ctypes in the other byte order."""
    return slot.unpack(memoryview(argument).tobytes()[::-1])[0]


def _pack_real(slot: Slot, argument: Any, kept: Kept) -> float:
    """Pack a number that is not too large; infinities and NaN are accepted."""
    limit = slot.limit
    try:
        number = float(argument)
        if -limit < number < limit or number != number or number - number != 0 and argument == number:
            if slot.size < 8 and not -_EXACT < number < _EXACT and kind_of(type(argument)) in ("int", "numpy integer"):
                return _rounded_to_odd(index(argument))
            return number
    except OverflowError:  # an int
        pass
    slot.refuse(
        ValueError,
        argument,
        f"does not fit: its magnitude must be below {min(limit, sys.float_info.max):.9g}",
    )


_EXACT = 2.0**53  # an int beyond it may have more bits than a float


def _rounded_to_odd(number: int) -> float:
    """Return a float that rounds to a shorter type as the int does: its last bit says whether others follow."""
    extra = number.bit_length() - 53
    kept = number >> extra
    return float((kept | (kept << extra != number)) << extra)


# -- addresses


def _pack_null(slot: Slot, argument: None, kept: Kept) -> int:
    return 0


_PLAIN = Memory, ManagedMemory  # these classes; the devices of a subclass may have other rights


def _pack_memory(slot: Slot, argument: Memory, kept: Kept) -> int:
    if argument.device.ordinal != slot.ordinal or argument.readonly or type(argument) not in _PLAIN:
        access = 3
        if argument._handle is not None:
            access = argument._access_from(slot.ordinal)
        if not access:
            slot.refuse_place(argument, ("cuda", argument.device.ordinal), argument._remedy(slot.ordinal))
        if access != 3 and not slot.reads:  # (CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
            slot.refuse(ValueError, argument, "is read-only here: wrap it in In(...) if the kernel only reads it")
        _keep_elsewhere(slot, argument, kept)
    address = argument._handle
    if address is not None and argument._keeps is None:  # (memory with an owner checks that, too)
        return address
    try:
        return argument.ptr
    except Closed as error:
        _name(slot, error)
        raise


def _pack_view(slot: Slot, argument: Description, kept: Kept) -> int:
    place = argument._place
    if place not in slot.places:
        _check_place(slot, argument, argument, kept)
    try:
        address = argument.ptr
    except Closed as error:
        _name(slot, error)
        raise
    if type(argument) is argument._streamed:  # the stream that its exporter named waits for the launch
        kept.append(argument)
    return address


def _pack_foreign(slot: Slot, argument: object, kept: Kept) -> int:
    """Pack the address of another library's array, after viewing it for the launch's stream."""
    try:
        made = view(argument, kept.stream)
        if made._place not in slot.places:
            _check_place(slot, made, argument, kept)
            _follow_default(slot, made, kept.stream)
        address = made.ptr
    except (Closed, ProtocolError) as error:
        _name(slot, error)
        raise
    except Unviewable as error:
        slot.refuse(TypeError, argument, str(error))
    kept.append(made)
    return address


def _pack_passed(slot: Slot, argument: Passed, kept: Kept) -> bytes | int:
    """Pack a texture, a surface or a tensor map, which is kept until the stream has completed the launch."""
    try:
        value, source = argument._pass(slot)
    except Closed as error:
        _name(slot, error)
        raise
    kept.extend((argument, source))  # (the memory of a tensor map may be replaced)
    owner = getattr(source, "_owner", source)
    if isinstance(owner, Memory):
        _keep_elsewhere(slot, owner, kept)
    return value


def _pack_passed_bytes(slot: Slot, argument: Passed, kept: Kept) -> bytes:
    value = _pack_passed(slot, argument, kept)
    if type(value) is bytes:
        return value
    return int(value).to_bytes(8, "little")


def _pack_typed(slot: Slot, argument: Memory | Description, kept: Kept) -> int:
    """Pack the address of a view, of a variable, or of memory, whose bytes may be elements of any type."""
    if isinstance(argument, Memory):
        _check_element(slot, argument, getattr(argument, "dtype", None))
        return _pack_memory(slot, argument, kept)
    _check_element(slot, argument, argument.dtype)
    _check_dense(slot, argument, argument)
    return _pack_view(slot, argument, kept)


def _pack_typed_foreign(slot: Slot, argument: object, kept: Kept) -> int:
    address = _pack_foreign(slot, argument, kept)
    _check_element(slot, argument, kept[-1].dtype)
    _check_dense(slot, argument, kept[-1])
    return address


def _check_element(slot: Slot, argument: object, dtype: DType | None) -> None:
    """Check that an array has the declared element type; dtype is None for bytes, which have none."""
    if dtype is None or dtype is slot.element or dtype == slot.element or dtype in slot.others:
        return
    if not slot.known:
        why = f"has elements of {dtype}: convert it, or declare '{dtype}*' if the kernel takes that"
        slot.refuse(TypeError, argument, why)
    if dtype.kind == "opaque":  # structures, text and dates: the source may name them in any way
        return
    if slot.words.endswith("**"):
        why = (
            f"has elements of {dtype}, and not addresses: an array is one block of memory, so let the kernel take "
            f'"{slot.words[:-1]}" and index it with row * columns + column; or give an array of the addresses of the '
            "rows, as uint64"
        )
        slot.refuse(TypeError, argument, why)
    why = (
        f'has elements of {dtype}: convert it, with astype("{slot.element}") before it is uploaded; if it has the '
        f'bytes of {slot.element}, give view(it).reinterpret("{slot.element}")'
    )
    slot.refuse(TypeError, argument, why)


def _check_dense(slot: Slot, argument: object, made: Description) -> None:
    """Check that an array for a typed pointer is in C order, without gaps."""
    shape, strides, itemsize = made.shape, made.strides, made.dtype.itemsize
    if strides == slot.dense or is_c_contiguous(shape, strides, itemsize):
        return
    if is_f_contiguous(shape, strides, itemsize):
        other = "view(it).T, which is in C order, to a kernel that expects column after column"
    else:
        other = "view(it).ptr to a kernel that calculates with strides"
    why = (
        f"is not in C order (its strides are {strides}), and a kernel gets only an address: give a copy in C order, "
        f"c = view(it).copy(), and view(it).copy_from(c) after it if the kernel writes it; or {other}"
    )
    slot.refuse(ValueError, argument, why)


def _pack_object(slot: Slot, argument: object, kept: Kept) -> bytes:
    """Pack an object, or the number of its handle, into a parameter that is declared to take only such objects."""
    if isinstance(argument, Passed):
        if argument.declares == slot.type:
            return _pack_passed_bytes(slot, argument, kept)
    elif slot.size == 8:
        return (_pack_index(slot, argument, kept) % _WHOLE).to_bytes(8, "little")
    refuse_object(slot, argument, kept)


def _pack_in(slot: Slot, argument: In, kept: Kept) -> object:
    inner, reader = argument.exporter, slot._reader or slot.reader()
    packer = reader.table.packer(type(inner))
    if packer is not _pack_in:
        return packer(reader, inner, kept)
    inner = _innermost(slot, inner)
    return reader.table.packer(type(inner))(reader, inner, kept)


def _innermost(slot: Slot, given: object) -> object:
    for _ in range(10):
        if not isinstance(given, In):
            return given
        given = given.exporter
    slot.refuse(ValueError, given, "contains itself, or is nested more than ten levels deep: write In(array)")


def _pack_other_address(slot: Slot, argument: object, kept: Kept) -> int:
    kept.append(RAN)
    if not is_exporter(argument) and hasattr(type(argument), "__index__"):
        return _pack_index(slot, argument, kept)
    try:
        return (_pack_foreign if slot.element is None else _pack_typed_foreign)(slot, argument, kept)
    except TypeError:  # from the exporter, or because this is not an exporter
        if is_exporter(argument):
            raise
    refuse_address(slot, argument, kept)


def _check_place(slot: Slot, made: Description, given: object, kept: Kept) -> None:
    """Check that the kernel may use the memory of a view, and store its Place if that is always true."""
    place = made._place
    where, access, owner = place.device or ("cuda", None), 3, made.owner
    if not isinstance(owner, Memory):
        owner = None
        access = slot.access_to(made)
        if not access:
            remedy = "" if where[0] == "cpu" else access_remedy(slot.ordinal, where[1] or 0, made.ptr)
            slot.refuse_place(given, where, remedy)
            access = 3  # host memory that the device can access
    elif owner._handle is not None:  # (the address of closed memory raises Closed)
        access = owner._access_from(slot.ordinal)
        if not access:
            slot.refuse_place(given, ("cuda", owner.device.ordinal), owner._remedy(slot.ordinal))
    if (place.readonly or access != 3) and not slot.reads:
        slot.refuse(ValueError, given, "is read-only: wrap it in In(...) if the kernel only reads it")
    if owner is not None:
        _keep_elsewhere(slot, owner, kept)
    if owner is not None and place.home != slot.ordinal:  # other memory of this Place may need another answer
        return
    if where[0] == "cuda_host" or where[1] == slot.ordinal:
        slot.suitable.keep(place, True)


def _follow_default(slot: Slot, made: Description, stream: object) -> None:
    """Let a default stream of the kernel's device wait for that of the array's, which has waited for the exporter."""
    handle, home, primary = work_handle(stream), device_of(made), slot.device._primary
    if handle <= PER_THREAD and home is not None and home is not primary:
        follow(primary, handle, home, handle)


def _keep_elsewhere(slot: Slot, memory: Memory, kept: Kept) -> None:
    """Keep our memory of another device until the launch is done: close() waits for the work of its own device only."""
    if memory.device.ordinal != slot.ordinal and memory._handle is not None:
        kept.append(memory._lease_for_work())


def _name(slot: Slot, error: Exception) -> None:
    """Put the kernel and the parameter before the message of an error; the caller raises the error again."""
    error.args = (f"{slot.place}: {error}",)


# -- bytes


def _pack_bytes(slot: Slot, argument: bytes, kept: Kept) -> bytes:
    size = bytes.__len__(argument)
    if size != slot.size:
        lacks = slot.form == "bytes" and slot.size - 8 < size < slot.size and not size % 4
        padding = ": struct.pack() adds no padding at the end, so add it, as x" if lacks else ""
        slot.refuse(ValueError, argument, f"has {size} bytes, not {slot.size}{padding}")
    # A subclass may define __len__ and __bytes__ in any way: use the bytes that it contains.
    if type(argument) is bytes:
        return argument
    return bytes.__getitem__(argument, slice(None))


def _other_size(dtype: Any, size: int) -> str:
    """Return what to do about a structure of NumPy that has another size than that of C."""
    numpy: Any = sys.modules["numpy"]  # the caller's
    fields = [(name, dtype[name]) for name in dtype.names]
    if numpy.dtype(fields, align=True).itemsize == size:
        return ": a dtype has the padding of C with numpy.dtype(fields, align=True)"
    narrow = [(name, f"{each.kind}4" if each.kind in "iuf" and each.itemsize == 8 else each) for name, each in fields]
    if numpy.dtype(narrow, align=True).itemsize == size:
        return ': the int and float of Python have 8 bytes, those of C 4: write "i4" and "f4" for the fields'
    return ""


def _pack_numpy_bytes(slot: Slot, argument: Any, kept: Kept) -> bytes:
    data: bytes = argument.tobytes()
    if len(data) != slot.size:
        padding = ""
        if argument.dtype.names:
            padding = _other_size(argument.dtype, slot.size)
        slot.refuse(ValueError, argument, f"({argument.dtype}) has {len(data)} bytes, not {slot.size}{padding}")
    if not argument.dtype.isnative:
        refuse_order(slot, argument, kept)
    return data


def _pack_address_bytes(slot: Slot, argument: object, kept: Kept) -> bytes:
    address: int = _ADDRESS[kind_of(type(argument))](slot, argument, kept)
    return address.to_bytes(8, "little")


def _pack_other_bytes(slot: Slot, argument: object, kept: Kept) -> bytes:
    kept.append(RAN)
    if slot.size == 8 and is_exporter(argument):
        return _pack_foreign(slot, argument, kept).to_bytes(8, "little")
    refuse_bytes(slot, argument, kept)


def _pack_other_converted(slot: Slot, argument: object, kept: Kept) -> bytes:
    kept.append(RAN)
    if is_exporter(argument):
        refuse_bytes(slot, argument, kept)
    return _CONVERTERS.get(slot.type, _pack_complex)(slot, argument, kept)


def _pack_bfloat16(slot: Slot, argument: object, kept: Kept) -> bytes:
    """Round to bfloat16 once, to nearest, ties to even: a conversion through float32 would round twice."""
    if hasattr(type(argument), "__index__") or hasattr(type(argument), "__float__"):
        number = _pack_real(slot, argument, kept)
    else:
        refuse_real(slot, argument, kept)
    return encode(_BFLOAT16, number)


_BFLOAT16 = of("bfloat16")


def _pack_complex(slot: Slot, argument: object, kept: Kept) -> bytes:
    try:
        return encode(_COMPLEX[slot.type], argument)
    except TypeError as error:
        slot.refuse(TypeError, argument, f"cannot be converted: {error}")
    except ValueError as error:
        slot.refuse(ValueError, argument, f"does not fit: {error}")


_COMPLEX = {"c64": of("complex64"), "c128": of("complex128")}
_CONVERTERS = {"bf16": _pack_bfloat16}  # the other types are complex


# -- arguments whose type does not say what they are


def _pack_other_integer(slot: Slot, argument: object, kept: Kept) -> int:
    kept.append(RAN)
    if hasattr(type(argument), "__index__") and not is_exporter(argument):
        return _pack_index(slot, argument, kept)
    refuse_integer(slot, argument, kept)


def _pack_other_real(slot: Slot, argument: object, kept: Kept) -> float:
    kept.append(RAN)
    kind = type(argument)
    if (hasattr(kind, "__float__") or hasattr(kind, "__index__")) and not is_exporter(argument):
        return _pack_real(slot, argument, kept)
    refuse_real(slot, argument, kept)


# -- the packers of each kind of argument; kinds that are not listed are refused

_CONVERTED = {"int", "bool", "integral", "float", "complex", "other"} | {
    "numpy bool",
    "numpy integer",
    "numpy float",
    "numpy complex",
}

_INTEGER: dict[str, Packer] = {
    "int": _pack_int,
    "bool": _pack_bool,
    "numpy bool": _pack_bool,
    "integral": _pack_index,
    "numpy integer": _pack_index,
    "bytes": _pack_number_of_bytes,
    "ctypes value": _pack_ctypes,
    "numpy other": refuse_numpy,
    "other": _pack_other_integer,
}
_ADDRESS: dict[str, Packer] = {
    **_INTEGER,
    "none": _pack_null,
    "memory": _pack_memory,
    "own view": _pack_view,
    "view": _pack_view,
    "ctypes array": _pack_foreign,
    "in": _pack_in,
    "passed": _pack_passed,
    "ctypes pointer": refuse_pointer,
    "other": _pack_other_address,
}
_TYPED: dict[str, Packer] = {
    "bytes": _refuse_bytes_as_array,
    "memory": _pack_typed,
    "own view": _pack_typed,
    "view": _pack_typed,
    "ctypes array": _pack_typed_foreign,
}
_REAL: dict[str, Packer] = {
    "int": _pack_real,
    "bool": _pack_real,
    "numpy bool": _pack_real,
    "integral": _pack_real,
    "numpy integer": _pack_real,
    "float": _pack_real,
    "numpy float": _pack_real,
    "bytes": _pack_number_of_bytes,
    "ctypes value": _pack_ctypes,
    "numpy other": refuse_numpy,
    "other": _pack_other_real,
}
_OBJECT: dict[str, Packer] = {  # of a parameter that is declared as a texture, a surface or a tensor map
    **dict.fromkeys(("passed", "int", "integral", "numpy integer"), _pack_object),
    "in": _pack_in,
    "bytes": _pack_bytes,
}
_BYTES: dict[str, Packer] = {
    "bytes": _pack_bytes,
    "ctypes value": _pack_ctypes,
    "ctypes structure": _pack_ctypes,
    "ctypes array": _pack_ctypes,
    "numpy bool": _pack_numpy_bytes,
    "numpy integer": _pack_numpy_bytes,
    "numpy float": _pack_numpy_bytes,
    "numpy complex": _pack_numpy_bytes,
    "numpy other": _pack_numpy_bytes,
    "none": _pack_address_bytes,
    "memory": _pack_address_bytes,
    "own view": _pack_address_bytes,
    "view": _pack_address_bytes,
    "ctypes pointer": _pack_address_bytes,
    "in": _pack_in,
    "passed": _pack_passed_bytes,
    "other": _pack_other_bytes,
}
