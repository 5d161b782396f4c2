"""The table of element types: for each, its name, DLPack code, typestr, PEP 3118 format and PTX type.

What it is   `DType`, an element type with all its names; `of` finds a type by any of them. Each type exists once, so
             types are compared with `is`, and a view holds a reference to its type instead of a description.
What not     converting values is left to scalars.py, and parsing PEP 3118 text to protocols/pep3118.py.
Source       dlpack.h 1.3, enum DLDataTypeCode; NumPy, "The array interface protocol", typestr and descr; PEP 3118;
             ml_dtypes for the names of the small floats; PTX ISA, "Fundamental types"
Read next    layout.py
"""

from __future__ import annotations

import sys
from ctypes import addressof, create_string_buffer

from ..errors import ProtocolError, refusal, worded
from ..interpreter.cpython import facts
from ..remembered import Remembered, cannot_change

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["DType", "Field", "field_of", "fields_of", "of", "from_dlpack", "from_typestr", "structured", "opaque"]

ORDER = "<" if sys.byteorder == "little" else ">"

# name, DLPack code, bits, typestr without byte order, PEP 3118 format, PTX type of one element (as in ld and st).
# The arrays of ml_dtypes have the typestrs V1 and V2, which do not identify a type: those rows have none.
_TABLE = (
    ("bool", 6, 8, "b1", "?", "u8"),
    ("int8", 0, 8, "i1", "b", "s8"),
    ("int16", 0, 16, "i2", "h", "s16"),
    ("int32", 0, 32, "i4", "i", "s32"),
    ("int64", 0, 64, "i8", "q", "s64"),
    ("uint8", 1, 8, "u1", "B", "u8"),
    ("uint16", 1, 16, "u2", "H", "u16"),
    ("uint32", 1, 32, "u4", "I", "u32"),
    ("uint64", 1, 64, "u8", "Q", "u64"),
    ("float16", 2, 16, "f2", "e", "f16"),
    ("float32", 2, 32, "f4", "f", "f32"),
    ("float64", 2, 64, "f8", "d", "f64"),
    ("float128", None, 128, "f16", "g", None),  # the C compiler's long double, whose format differs between platforms
    ("bfloat16", 4, 16, None, None, "bf16"),
    ("complex32", 5, 32, None, "Ze", None),
    ("complex64", 5, 64, "c8", "Zf", None),
    ("complex128", 5, 128, "c16", "Zd", None),
    ("complex256", None, 256, "c32", "Zg", None),
    ("float8_e3m4", 7, 8, None, None, "b8"),
    ("float8_e4m3", 8, 8, None, None, "b8"),
    ("float8_e4m3b11fnuz", 9, 8, None, None, "b8"),
    ("float8_e4m3fn", 10, 8, None, None, "b8"),
    ("float8_e4m3fnuz", 11, 8, None, None, "b8"),
    ("float8_e5m2", 12, 8, None, None, "b8"),
    ("float8_e5m2fnuz", 13, 8, None, None, "b8"),
    ("float8_e8m0fnu", 14, 8, None, None, "b8"),
    ("float6_e2m3fn", 15, 6, None, None, "b8"),
    ("float6_e3m2fn", 16, 6, None, None, "b8"),
    ("float4_e2m1fn", 17, 4, None, None, "b8"),
    ("int1", 0, 1, None, None, "b8"),
    ("int2", 0, 2, None, None, "b8"),
    ("int4", 0, 4, None, None, "b8"),
    ("uint1", 1, 1, None, None, "b8"),
    ("uint2", 1, 2, None, None, "b8"),
    ("uint4", 1, 4, None, None, "b8"),
)


_FACTS = "name", "kind", "itemsize", "code", "bits", "lanes", "packed", "padded", "typestr", "format", "ptx", "descr"


@facts(*_FACTS)
class DType:
    """An element type and all its names; an instance is never changed.

    name      the name in NumPy or ml_dtypes, which str() returns too; that of a vector is "float32x4"
    kind      "bool" "int" "uint" "float" "complex" or "opaque" (text, dates, structures: only copied)
    itemsize  bytes from one element to the next in a contiguous array, rounded up to a whole byte
    code bits lanes    as in DLPack's DLDataType; code is None if DLPack does not have the type
    packed    whether elements are smaller than a byte and share bytes, so that an element has no address
    padded    whether elements are smaller than a byte, but occupy one each (DLPack's IS_SUBBYTE_TYPE_PADDED)
    typestr   as in the array interfaces; "|V4" if they have no other name for it
    format    as in PEP 3118
    ptx       the type that PTX loads and stores, or None
    descr     the fields of a structure, as in the array interface, or None
    """

    __slots__ = (*map("_{}".format, _FACTS), "_c_format")
    if TYPE_CHECKING:
        name = kind = typestr = format = ""
        itemsize = bits = lanes = 0
        packed = padded = False
        code: int | None
        ptx: str | None
        descr: list[Any] | None

    def __init__(
        self,
        name: str,
        kind: str,
        itemsize: int,
        *,
        code: int | None = None,
        bits: int = 0,
        lanes: int = 1,
        packed: bool = False,
        padded: bool = False,
        typestr: str = "",
        format: str = "",
        ptx: str | None = None,
        descr: list[Any] | None = None,
    ) -> None:
        self._name, self._kind, self._itemsize = name, kind, itemsize
        self._code, self._bits, self._lanes = code, bits or 8 * itemsize, lanes
        self._packed, self._padded, self._ptx, self._descr = packed, padded, ptx, descr
        self._typestr, self._format = typestr or f"|V{itemsize}", format or f"{itemsize}x"
        self._c_format: Any = None  # the format as a C string, created on first use

    def nbytes(self, count: int) -> int:
        """Return the size in bytes of `count` contiguous elements; packed ones are rounded up to a whole byte."""
        return (count * self.bits * self.lanes + 7) // 8 if self.packed else count * self.itemsize

    def with_lanes(self, lanes: int) -> DType:
        """Return the type of vectors of `lanes` elements; raises ProtocolError if DLPack has none."""
        if self.code is None:
            raise ProtocolError(
                f"dlpack: dtype {self.name} has no vectors: use a structure", protocol="dlpack", field="dtype.lanes"
            )
        return from_dlpack(self.code, self.bits, lanes, padded=self.padded)

    def c_format(self) -> int:
        """Return the address of the format as a C string, which stays valid as long as this type exists."""
        if self._c_format is None:
            self._c_format = create_string_buffer(self.format.encode())
        return addressof(self._c_format)

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    def __eq__(self, other: object) -> bool:
        """Compare with a DType, a name, or what of() accepts: numpy.float32, numpy.dtype("f4"), torch.float32."""
        if self is other:
            return True
        if isinstance(other, str):
            return self.name == other or _named(other) is self
        if isinstance(other, DType):  # two protocols may describe one structure, one of them with its format
            mine = self.name, self.itemsize, self.packed, self.padded
            return self.kind == "opaque" and mine == (other.name, other.itemsize, other.packed, other.padded)
        return (other is not None and _named(other) is self) or NotImplemented

    @property
    def names(self) -> tuple[str, ...] | None:
        """Return the names of the fields of a structure, or None."""
        return tuple(fields_of(self)) or None

    @property
    def dtype(self) -> Any:
        """Return the numpy.dtype, which numpy.dtype(this) asks for; raises TypeError if NumPy has no such type."""
        numpy: Any = sys.modules.get("numpy")  # usually, it is the caller
        if numpy is None:
            raise AttributeError("dtype is for NumPy: import numpy first")
        if self.lanes > 1 or self.packed:
            raise TypeError(f"NumPy has no dtype for {self.name}: a view with another reinterpret() may have one")
        parts = fields_of(self)
        if parts:
            return numpy.dtype(
                {
                    "names": list(parts),
                    "formats": [(part.dtype.dtype, part.shape) for part in parts.values()],
                    "offsets": [part.offset for part in parts.values()],
                    "itemsize": self.itemsize,
                }
            )
        try:
            return numpy.dtype(self.typestr if self.code is None else self.name)
        except TypeError:
            raise TypeError(
                f"NumPy has no dtype for {self.name}: import ml_dtypes, which adds the small ones"
            ) from None

    def __hash__(self) -> int:
        return hash(self.name)

    def __reduce__(self) -> tuple[Any, ...]:
        if self.code is not None:
            return from_dlpack, (self.code, self.bits, self.lanes, self.padded)
        if self.descr is None:
            return from_typestr, (self.typestr, self.descr)
        return _structured_as, (self.descr, self.itemsize, self.format)


_KINDS = {6: "bool", 0: "int", 1: "uint", 5: "complex"}
_CODES = frozenset(range(18))  # every DLDataTypeCode of dlpack.h 1.3
_BY_NAME: dict[str, DType] = {}
_BY_TYPESTR: dict[str, DType] = {}  # without byte order: "f4"
_BY_DLPACK: dict[tuple[int, int, int, bool], DType] = {}
_OPAQUE: Remembered[tuple[str, str], DType] = Remembered(1000)  # by name, and size, typestr, format and descr


def _fill() -> None:
    for name, code, bits, typestr, format, ptx in _TABLE:
        size = (bits + 7) // 8
        kind = "complex" if name.startswith("complex") else _KINDS.get(code if code is not None else 2, "float")
        full = None if typestr is None else ("|" if size == 1 else ORDER) + typestr
        dtype = DType(
            name, kind, size, code=code, bits=bits, padded=bits < 8, typestr=full or "", format=format or "", ptx=ptx
        )
        _BY_NAME[name] = dtype
        if typestr is not None:
            _BY_TYPESTR[typestr] = dtype
        if code is not None:
            _BY_DLPACK[code, bits, 1, bits < 8] = dtype


_fill()
_PYTHON = {bool: "bool", int: "int64", float: "float64", complex: "complex128"}
_ALIASES = {
    "half": "float16",
    "single": "float32",
    "float": "float64",
    "double": "float64",
    "int": "int64",
    "longdouble": "float128",
    "complex": "complex128",
    "byte": "int8",
    "uint": "uint64",
}
_DATES = {"datetime64": "M8", "timedelta64": "m8"}
_NUMPY = {
    "bool_": "bool",
    "longdouble": "float128",
    "clongdouble": "complex256",
}  # names of scalar types which are not names of dtypes


def of(spec: object) -> DType:
    """Find the element type that a value names.

    spec     a DType, a name ("float32", "datetime64[ns]"), a typestr ("<f4", "f4"), bool, int, float or complex, a
             NumPy dtype or scalar type, an ml_dtypes type, or a dtype of torch, pandas or pyarrow
    raises   TypeError       no element type has that name
             ProtocolError   the type is not supported: another byte order, Python objects
    """
    if isinstance(spec, DType):
        return spec
    if isinstance(spec, str):
        found = _BY_NAME.get(spec) or _BY_NAME.get(_ALIASES.get(spec, ""))
        if found is not None:
            return found
        base, x, lanes = spec.rpartition("x")
        if x and lanes.isdigit() and base in _BY_NAME:
            return _BY_NAME[base].with_lanes(int(lanes))
        kind, bracket, unit = spec.partition("[")
        if kind in _DATES and (not bracket or unit.endswith("]")):
            return from_typestr(_DATES[kind] + bracket + unit)
        if spec.lstrip("<>=|")[1:].partition("[")[0].isdigit() and spec.lstrip("<>=|")[0] in "biufcmMSUVOt":
            return from_typestr(spec)
        raise TypeError(
            f"no element type is called {worded(spec)}: give a name such as 'float32', or a typestr such as '<f4'"
        )
    known = _known.answers.get(id(spec))
    if known is not None and known[0] is spec:
        return known[1]
    if isinstance(spec, type) and spec in _PYTHON:
        return _BY_NAME[_PYTHON[spec]]
    named = _from_attributes(spec)
    if named is None or getattr(spec, "bit_width", named.bits) != named.bits:  # (pyarrow's bool has 1 bit)
        raise TypeError(f"{worded(spec)} does not name an element type: give a name such as 'float32'")
    if named.name in _BY_NAME and _stays(spec):  # (a dtype with fields can be changed, too)
        _known.keep(id(spec), (spec, named))
    return named


def _stays(spec: object) -> bool:
    """Tell whether the attributes of an object, or of a class, cannot change."""
    if isinstance(spec, type):
        return cannot_change(spec)
    return cannot_change(type(spec)) and not hasattr(spec, "__dict__")


# The dtypes of other libraries that were read already and cannot change, by identity: reading one takes 2 us.
_known: Remembered[int, tuple[object, DType]] = Remembered(64)


def _from_attributes(spec: object) -> DType | None:
    name = getattr(spec, "name", None)  # numpy.dtype('float32').name; the same for ml_dtypes
    if not isinstance(name, str) and isinstance(spec, type):
        name = spec.__name__  # numpy.float32, ml_dtypes.bfloat16
    if not isinstance(name, str):
        try:
            name = str(spec).rpartition(".")[2]  # torch.float32
        except Exception:  # only a guess: the caller refuses an object that is not a dtype
            name = ""
    typestr = getattr(spec, "str", None)  # numpy.dtype('>f4').str: only this tells the byte order
    swapped = isinstance(typestr, str) and typestr[:1] in "<>" and typestr[:1] != ORDER
    if not swapped and (name in _BY_NAME or name in _NUMPY):
        return _BY_NAME[_NUMPY.get(name, name)]
    if isinstance(typestr, str):
        descr = getattr(spec, "descr", None) if getattr(spec, "names", None) else None
        return from_typestr(typestr, descr)
    return None if isinstance(spec, type) else _from_numpy_equal(spec)


def _from_numpy_equal(spec: Any) -> DType | None:
    """Read a dtype of pandas or pyarrow, which names an equal dtype of NumPy; the caller compares the widths."""
    try:
        return of(spec.to_pandas_dtype() if hasattr(spec, "to_pandas_dtype") else spec.numpy_dtype)
    except (AttributeError, NotImplementedError, TypeError, ValueError, ProtocolError):
        return None


def _named(spec: object) -> DType | None:
    """Return the element type that a value names, or None."""
    try:
        return of(spec)
    except (TypeError, ValueError, ProtocolError):
        return None


def from_dlpack(code: int, bits: int, lanes: int = 1, padded: bool = False) -> DType:
    """Find the element type that a DLDataType names.

    padded   whether the tensor's flag IS_SUBBYTE_TYPE_PADDED is set; ignored for types of whole bytes
    raises   ProtocolError   an unknown code, a width that the code does not have, 0 bits or 0 lanes
    source   dlpack.h 1.3, struct DLDataType: an unexpected width of a small float must stop the import
    """
    padded = padded and bits < 8
    found = _BY_DLPACK.get((code, bits, lanes, padded))
    if found is not None:
        return found
    value = (code, bits, lanes)
    if code not in _CODES:
        raise refusal("dlpack", "dtype.code", value, "is not a type code of DLPack 1.3; convert the array first")
    if not bits or not lanes:
        raise refusal("dlpack", "dtype", value, "bits and lanes must be at least 1; the exporter is at fault")
    row = _BY_DLPACK.get((code, bits, 1, bits < 8))
    if code == 3 and row is None and bits % 8 == 0:  # kDLOpaqueHandle: bytes without a known meaning
        row = DType(f"|V{bits // 8}", "opaque", bits // 8, code=3, bits=bits)
    if row is None:
        raise refusal("dlpack", "dtype.bits", value, "the type does not exist in this width; convert the array first")
    whole = bits * lanes % 8 == 0
    packed = bits < 8 and not padded and not whole
    size = (bits * lanes + 7) // 8  # also if padded: dlpack.h pads the vector, not each lane
    made = DType(
        row.name if lanes == 1 else f"{row.name}x{lanes}",
        row.kind,
        size,
        code=code,
        bits=bits,
        lanes=lanes,
        packed=packed,
        padded=padded and not whole,
        ptx=row.ptx if lanes == 1 else None,
    )
    if lanes > 1 and not row.padded and row.typestr[1] != "V":
        made._descr = [("", row.typestr, (lanes,))]
        made._format = f"({lanes}){row.format}"
    return _BY_DLPACK.setdefault((code, bits, lanes, padded), made)


def from_typestr(typestr: object, descr: list[Any] | None = None, *, protocol: str = "array_interface") -> DType:
    """Find the element type that a typestr of the array interfaces names.

    descr    the fields, which are used only if the typestr is a void ("|V12")
    raises   ProtocolError   not a typestr, another byte order, Python objects, bit fields, a descr of another size
    source   NumPy, "The array interface protocol": typestr, descr
    """
    if not isinstance(typestr, str) or not typestr:
        raise refusal(protocol, "typestr", typestr, "must be a str such as '<f4'")
    order, rest = (typestr[0], typestr[1:]) if typestr[0] in "<>=|" else ("=", typestr)
    found = _BY_TYPESTR.get(rest)
    if found is None and len(rest) == 1:
        found = _from_struct_letter(order, rest)  # '=f': NVIDIA DALI writes the letters of struct here
    if found is not None:
        if order not in ("=", "|", ORDER) and found.itemsize > 1:
            raise refusal(protocol, "typestr", typestr, "has the other byte order; swap the bytes first")
        if descr and sum(field.nbytes for field in _fields(descr, protocol)) != found.itemsize:
            raise refusal(protocol, "descr", descr, f"has another size than typestr {typestr!r}")
        return found
    return _from_opaque_typestr(typestr, order, rest, descr, protocol)


def _from_struct_letter(order: str, letter: str) -> DType | None:
    if letter in "lL":
        return _BY_NAME[("int" if letter == "l" else "uint") + ("32" if order in "<>=" else "64")]
    for dtype in _BY_NAME.values():
        if dtype.format == letter:
            return dtype
    return None


_UNITS = frozenset(["Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as", "generic"])


def _from_opaque_typestr(typestr: str, order: str, rest: str, descr: list[Any] | None, protocol: str) -> DType:
    kind = rest[:1]
    digits, bracket, unit = rest[1:].partition("[")
    if kind == "O":
        raise refusal(protocol, "typestr", typestr, "means Python objects, which only Python can read; convert them")
    if kind == "t":
        raise refusal(protocol, "typestr", typestr, "is a bit field: its elements have no address; unpack it to bytes")
    if (
        kind not in ("m", "M", "S", "U", "V", "a")
        and rest not in ("f1", "W4")
        or not digits.isdigit()
        or len(digits) > 18
    ):
        raise refusal(protocol, "typestr", typestr, "is not a type of the array interface; convert the array first")
    size = int(digits) * (4 if kind == "U" else 1)
    named = unit[:-1].partition("/")[0].lstrip("0123456789")  # "25us" and "1D/4" have the units us and D
    if bracket and (kind not in "mM" or unit[-1:] != "]" or named not in _UNITS):
        raise refusal(protocol, "typestr", typestr, "is malformed; it must be a str such as '<f4'")
    if kind in "mMU" and order not in ("=", "|", ORDER):
        raise refusal(protocol, "typestr", typestr, "has the other byte order; swap the bytes first")
    if kind in "mM" and size != 8:
        raise refusal(protocol, "typestr", typestr, "dates and times must have 8 bytes")
    if kind == "V" and descr is not None:
        return structured(descr, size, protocol=protocol)
    if kind in "mM":
        name = ("datetime64" if kind == "M" else "timedelta64") + bracket + unit
        return opaque(name, 8, ORDER + rest, "")
    if kind == "U":
        return opaque(ORDER + rest, size, ORDER + rest, f"{digits}w")
    if rest in ("f1", "W4"):  # ml_dtypes since 0.6 gives each of these to two types
        kind = "V"
    if kind in "Sa":
        return opaque(f"|S{digits}", size, f"|S{digits}", f"{digits}s")
    return opaque(f"|V{digits}", size, f"|V{digits}", "")


def opaque(name: str, size: int, typestr: str = "", format: str = "", descr: list[Any] | None = None) -> DType:
    """Return a type whose elements can only be copied."""
    key = name, f"{size} {typestr} {format} {descr!r}"
    found = _OPAQUE.answers.get(key)
    if found is None:
        found = _OPAQUE.keep(key, DType(name, "opaque", size, typestr=typestr, format=format, descr=descr))
    return found


def structured(descr: object, size: int, *, format: str = "", protocol: str = "array_interface") -> DType:
    """Return the type of structures with these fields, under NumPy's name for it.

    descr    a list of (name or (title, name), typestr or nested descr, shape); padding is ('', '|V4')
    raises   ProtocolError   descr is malformed, or its size is not `size`
    source   NumPy, "The array interface protocol": descr
    """
    fields = _fields(descr, protocol)
    total = sum(field.nbytes for field in fields)
    if total != size:
        raise refusal(protocol, "descr", descr, f"describes {worded(total)} bytes, but the elements have {size}")
    nameless = all(field.label == "''" for field in fields)
    name = f"|V{size}" if nameless else _numpy_name(fields, size)
    return opaque(name, size, f"|V{size}", format, _copied(descr) if fields else None)


def _structured_as(descr: Any, size: int, format: str) -> DType:
    """Return the type that was pickled."""
    return structured(descr, size, format="" if format == f"{size}x" else format)


class Field:
    """A field of a structure.

    name     as in descr; of a field with a title, the name alone
    dtype    of its elements; shape has the extents of a field that is an array
    offset   from the beginning of the structure, and nbytes its size, in bytes
    label    the name as NumPy writes it, and text the type
    padding  whether it is only padding
    """

    __slots__ = ("name", "dtype", "shape", "offset", "nbytes", "label", "text", "padding")

    def __init__(self, label: Any, dtype: DType, shape: tuple[int, ...], text: str) -> None:
        self.name, self.dtype, self.shape, self.offset = label if isinstance(label, str) else label[1], dtype, shape, 0
        self.nbytes = dtype.itemsize
        for extent in shape:
            self.nbytes *= extent
        self.label, self.text = repr(label), f"{text}, {shape!r}" if shape else text
        self.padding = label == "" and not shape and text.startswith("'V")


def fields_of(dtype: DType) -> dict[str, Field]:
    """Return the fields of a structure by name, in order, without padding; empty for another type."""
    found, offset = {}, 0
    for field in _fields(dtype.descr, "array_interface") if dtype.descr and dtype.lanes == 1 else ():
        field.offset = offset
        offset += field.nbytes
        if field.name:
            found[field.name] = field
    return found


def field_of(dtype: DType, name: str) -> Field:
    """Return a field of a structure; raises IndexError, as NumPy does, if there is no such field."""
    known = fields_of(dtype)
    if name not in known:
        there = f"has the fields {', '.join(map(repr, known))}" if known else "has no fields"
        raise IndexError(f"no field of name {worded(name)}: dtype {dtype} {there}")
    return known[name]


def _fields(descr: object, protocol: str, depth: int = 0) -> list[Field]:
    if not isinstance(descr, (list, tuple)) or depth > 20:
        raise refusal(protocol, "descr", descr, "must be a list of (name, type) tuples, nested at most 20 deep")
    return [_field(item, protocol, depth) for item in descr]


def _field(item: object, protocol: str, depth: int) -> Field:
    if not isinstance(item, (list, tuple)) or len(item) not in (2, 3):
        raise refusal(protocol, "descr", item, "must be a tuple (name, type) or (name, type, shape)")
    label, kind = item[0], item[1]
    if isinstance(label, (tuple, list)) and len(label) == 2:
        label = tuple(label)  # (title, name)
    shape = item[2] if len(item) == 3 else ()
    shape = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    named = all(isinstance(part, str) for part in label) if isinstance(label, tuple) else isinstance(label, str)
    if not named or not all(type(extent) is int and 0 <= extent < 2**62 for extent in shape):
        raise refusal(protocol, "descr", item, "must have a name that is a str, and a shape of ints")
    if isinstance(kind, (list, tuple)):
        inner = _fields(kind, protocol, depth + 1)
        dtype = structured(kind, sum(field.nbytes for field in inner), protocol=protocol)
        text = _numpy_name(inner, dtype.itemsize)
    else:
        dtype = from_typestr(kind, protocol=protocol)
        text = repr("?" if dtype.kind == "bool" else dtype.typestr.lstrip("|"))
    return Field(label, dtype, shape, text)


def _numpy_name(fields: list[Field], size: int) -> str:
    """Write a structure's type as NumPy's str() does: a list if it has no padding, else a dict of offsets."""
    if not any(field.padding for field in fields):
        return "[" + ", ".join(f"({field.label}, {field.text})" for field in fields) + "]"
    names, formats, offsets, offset = [], [], [], 0
    for field in fields:
        if not field.padding:
            names.append(field.label)
            formats.append(f"({field.text})" if field.text.endswith(")") else field.text)
            offsets.append(str(offset))
        offset += field.nbytes
    lists = ("names", names), ("formats", formats), ("offsets", offsets)
    inside = ", ".join(f"'{key}': [{', '.join(values)}]" for key, values in lists)
    return f"{{{inside}, 'itemsize': {size}}}"


def _copied(descr: Any) -> list[Any]:
    """Copy a descr, so that later changes to the caller's list do not affect it."""
    return [tuple(_copied(part) if isinstance(part, list) else part for part in field) for field in descr]
