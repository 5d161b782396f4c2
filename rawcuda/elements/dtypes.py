"""The table of element types: for each, its name, DLPack code, typestr, PEP 3118 format and PTX type.

What it is   `DType`, an element type with all its names; `of` finds a type by any of them. A view holds a reference
             to its type instead of a description. Each type of the table exists once. Vectors, structures and others
             are made as they are met, and forgotten, so that two objects of one type are equal.
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
    from collections.abc import Sequence
    from typing import Any

__all__ = [
    "DType",
    "Field",
    "field_of",
    "fields_of",
    "from_dlpack",
    "from_typestr",
    "is_numpys",
    "of",
    "of_numpy",
    "opaque",
    "structure",
    "structured",
]

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


_FACTS = (
    "name", "kind", "itemsize", "code", "bits", "lanes", "packed", "padded", "typestr", "format", "ptx", "descr",
    "reason",
)  # fmt: skip


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
    descr     the fields of a structure, as in the array interface, or None; None too if it cannot express them
    reason    why the elements are only bytes although they have a structure, such as "it is a union"; usually ""
    """

    __slots__ = (*map("_{}".format, _FACTS), "_c_format", "_identity", "_parts")
    if TYPE_CHECKING:
        name = kind = typestr = format = ""
        itemsize = bits = lanes = 0
        packed = padded = False
        code: int | None
        ptx: str | None
        descr: list[Any] | None
        reason = ""
        _identity: str

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
        parts: tuple[Field, ...] = (),
        reason: str = "",
    ) -> None:
        self._name, self._kind, self._itemsize = name, kind, itemsize
        self._code, self._bits, self._lanes = code, bits or 8 * itemsize, lanes
        self._packed, self._padded, self._ptx, self._descr = packed, padded, ptx, descr
        self._parts, self._reason = parts, reason  # the fields of a structure, accessible or not
        self._typestr, self._format = typestr or f"|V{itemsize}", format or f"{itemsize}x"
        inner = [  # (with lengths instead of quotes: each level would escape those of all levels below)
            f"{part.label!r} {part.shape} {part.offset} {len(part.dtype._identity)} {part.dtype._identity}"
            for part in parts
        ]
        told = f"{name} {itemsize} {packed} {padded} {self._typestr} {self._format} {descr!r} {reason}"
        # equal for two objects only if they mean the same
        self._identity = ";".join([f"{len(told)} {told}", *inner]) if inner else told
        self._c_format: list[Any] = []  # the format as a C string, created on first use; the first one stays

    def nbytes(self, count: int) -> int:
        """Return the size in bytes of `count` contiguous elements; packed ones are rounded up to a whole byte."""
        if self.packed:
            return (count * self.bits * self.lanes + 7) // 8
        return count * self.itemsize

    def with_lanes(self, lanes: int) -> DType:
        """Return the type of vectors of `lanes` elements; raises ProtocolError if DLPack has none."""
        if self.code is None:
            raise ProtocolError(
                f"dlpack: dtype {self.name} has no vectors: use a structure", protocol="dlpack", field="dtype.lanes"
            )
        return from_dlpack(self.code, self.bits, lanes, padded=self.padded)

    def c_format(self) -> int:
        """Return the address of the format as a C string, which stays valid as long as this type exists."""
        if not self._c_format:
            self._c_format.append(create_string_buffer(self.format.encode()))
        return addressof(self._c_format[0])

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    def __eq__(self, other: object) -> bool:
        """Compare with a DType, a name, or what of() accepts: numpy.float32, numpy.dtype("f4"), torch.float32."""
        if self is other:
            return True
        if isinstance(other, str):
            return self.name == other or _named(other) == self
        if isinstance(other, DType):  # two protocols may describe one structure, one of them with its format
            mine = self.name, self.kind, self.itemsize, self.packed, self.padded
            return mine == (other.name, other.kind, other.itemsize, other.packed, other.padded)
        if other is None:
            named = None
        else:
            named = _named(other)
        return named is not None and self == named or NotImplemented

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
        if any([part.name for part in self._parts]):
            return _numpy_structure(numpy, self)
        try:
            return numpy.dtype(self.typestr if self.code is None else self.name)
        except TypeError:
            raise TypeError(
                f"NumPy has no dtype for {self.name}: import ml_dtypes, which adds the small ones"
            ) from None

    __numpy_dtype__ = dtype  # the name by which NumPy asks from version 2.4 on

    @property
    def misread(self) -> bool:
        """Tell whether NumPy has a dtype for this, and reads another one from typestr and descr.

        It makes a field of padding. And neither names the types of ml_dtypes, nor fields that overlap.
        """
        if self.kind == "opaque" and not self._parts or self.typestr[1] != "V" or self.lanes > 1:
            return False
        try:
            wanted = self.dtype
        except (TypeError, AttributeError):  # NumPy has none, or is not loaded
            return False
        gaps = sum([part.nbytes for part in self._parts]) != self.itemsize
        return wanted.names is None or gaps or self.descr is None or any([part.dtype.misread for part in self._parts])

    def __hash__(self) -> int:
        return hash(self.name)

    def __reduce__(self) -> tuple[Any, ...]:
        if self.code is not None:
            return from_dlpack, (self.code, self.bits, self.lanes, self.padded)
        if self._parts:
            parts = [(part.label, part.dtype, part.shape, part.offset) for part in self._parts]
            return _restored, (parts, self.itemsize, self.format, self.descr, self.reason)
        if self.reason:
            return opaque, (self.name, self.itemsize, self.typestr, self.format, None, (), self.reason)
        return from_typestr, (self.typestr, self.descr)


_KINDS: dict[int | None, str] = {6: "bool", 0: "int", 1: "uint", 5: "complex"}
_CODES = frozenset(range(18))  # every DLDataTypeCode of dlpack.h 1.3
_BY_NAME: dict[str, DType] = {}
_BY_TYPESTR: dict[str, DType] = {}  # without byte order: "f4"
_BY_DLPACK: dict[tuple[int, int, int, bool], DType] = {}
_VECTORS: Remembered[tuple[int, int, int, bool], DType] = Remembered(1000)  # and packed types, as _BY_DLPACK has others
_OPAQUE: Remembered[str, DType] = Remembered(1000)  # by _identity
_LONGEST = 10_000  # characters of one that is remembered: the names of fields may have any length


def _fill() -> None:
    for name, code, bits, typestr, format, ptx in _TABLE:
        size = (bits + 7) // 8
        if name.startswith("complex"):
            kind = "complex"
        else:
            kind = _KINDS.get(code, "float")  # (None, of types that DLPack lacks, is not there)
        if typestr is None:
            full = None
        else:
            full = ("|" if size == 1 else ORDER) + typestr
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
        if x and _is_number(lanes) and base in _BY_NAME:
            return _BY_NAME[base].with_lanes(int(lanes))
        kind, bracket, unit = spec.partition("[")
        if kind in _DATES and (not bracket or unit.endswith("]")):
            return from_typestr(_DATES[kind] + bracket + unit)
        if _is_number(spec.lstrip("<>=|")[1:].partition("[")[0]) and spec.lstrip("<>=|")[0] in "biufcmMSUVOt":
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
    if is_numpys(spec, "dtype"):
        return of_numpy(spec)
    name = getattr(spec, "name", None)  # the same for the dtypes of many libraries
    if not isinstance(name, str) and isinstance(spec, type):
        name = spec.__name__  # numpy.float32, ml_dtypes.bfloat16
    if not isinstance(name, str):
        try:
            name = str(spec).rpartition(".")[2]  # torch.float32
        except Exception:  # only a guess: the caller refuses an object that is not a dtype
            name = ""
    typestr = getattr(spec, "str", None)  # only this tells the byte order
    swapped = isinstance(typestr, str) and typestr[:1] in "<>" and typestr[:1] != ORDER
    if not swapped and (name in _BY_NAME or name in _NUMPY):
        return _BY_NAME[_NUMPY.get(name, name)]
    if isinstance(typestr, str):
        descr = None
        if getattr(spec, "names", None):
            descr = getattr(spec, "descr", None)
        return from_typestr(typestr, descr)
    if isinstance(spec, type):
        return None
    return _from_numpy_equal(spec)


def is_numpys(thing: object, *names: str) -> bool:
    """Tell whether an object is of one of these classes of NumPy; False if NumPy is not loaded."""
    numpy = sys.modules.get("numpy")
    kinds = tuple([kind for kind in (getattr(numpy, name, None) for name in names) if isinstance(kind, type)])
    return isinstance(thing, kinds)


# The keys in _OPAQUE of structures that were read from NumPy's dtypes, by dtype and by the names of its fields, which
# can be changed. Those that contain other structures are not stored, since the names in these can be changed, too.
_structures: Remembered[Any, str] = Remembered(1000)


def of_numpy(spec: Any, protocol: str = "array_interface", *, inside: bool = False) -> DType:
    """Find the element type that a numpy.dtype names; of() does, and this also names a protocol in the errors.

    inside   whether it is a field, which may be in the other byte order: then it is bytes, with a reason
    raises   ProtocolError   Python objects, strings of variable length, another byte order
    """
    if spec.names is not None:
        return _OPAQUE.answers.get(_structures.answers.get((spec, spec.names), "")) or _read_fields(spec, protocol)
    typestr = spec.str
    if typestr[0] in "<>" and typestr[0] != ORDER:
        plain = from_typestr(ORDER + typestr[1:], protocol=protocol)
        if not inside:
            raise refusal(protocol, "dtype", typestr, "has the other byte order; swap the bytes first")
        format = ""
        if not plain.format.endswith("x"):
            format = {"<": "<", ">": ">"}[typestr[0]] + plain.format
        return opaque(typestr, plain.itemsize, typestr, format, None, (), _SWAPPED)
    if spec.kind == "T":
        raise refusal(
            protocol, "dtype", str(spec), "has its texts elsewhere, which only NumPy can read: use astype('U')"
        )
    named = _BY_NAME.get(_NUMPY.get(spec.name, spec.name))
    if named is not None and named.itemsize == spec.itemsize:
        return named
    return from_typestr(typestr, protocol=protocol)


_SWAPPED = "it has the other byte order: swap the bytes first"


def _read_fields(spec: Any, protocol: str) -> DType:
    parts, nested = [], False
    for name in spec.names:
        inner, offset, *title = spec.fields[name]
        base, shape = inner.subdtype or (inner, ())
        nested = nested or base.names is not None
        if title:
            label = (title[0], name)
        else:
            label = name
        parts.append(Field(label, of_numpy(base, protocol, inside=True), shape, offset))
    made = structure(parts, spec.itemsize)
    if not nested and len(made._identity) < _LONGEST:
        _structures.keep((spec, spec.names), made._identity)
    return made


def _numpy_structure(numpy: Any, dtype: DType) -> Any:
    named = [part for part in dtype._parts if not part.padding]
    fields: dict[str, Any] = {
        "names": [part.name for part in named],
        # (NumPy refuses elements of 0 bytes with a shape)
        "formats": [(part.dtype.dtype, part.shape) if part.shape else part.dtype.dtype for part in named],
        "offsets": [part.offset for part in named],
        "itemsize": dtype.itemsize,
    }
    if any([type(part.label) is tuple for part in named]):
        fields["titles"] = [part.label[0] if type(part.label) is tuple else None for part in named]
    return numpy.dtype(fields)


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
    whole = bits * lanes % 8 == 0
    padded = padded and bits < 8 and not whole
    key = code, bits, lanes, padded
    found = _BY_DLPACK.get(key) or _VECTORS.answers.get(key)
    if found is not None:
        return found
    value = (code, bits, lanes)
    if code not in _CODES:
        raise refusal("dlpack", "dtype.code", value, "is not a type code of DLPack 1.3; convert the array first")
    if not bits or not 0 < lanes < 1 << 16:
        raise refusal("dlpack", "dtype", value, "bits and lanes must be at least 1, and lanes have 16 bits")
    row = _BY_DLPACK.get((code, bits, 1, bits < 8))
    if code == 3 and row is None and bits % 8 == 0:  # kDLOpaqueHandle: bytes without a known meaning
        row = DType(f"|V{bits // 8}", "opaque", bits // 8, code=3, bits=bits)
    if row is None:
        raise refusal("dlpack", "dtype.bits", value, "the type does not exist in this width; convert the array first")
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
        padded=padded,
        ptx=row.ptx if lanes == 1 else None,
    )
    if lanes > 1 and not row.padded and row.typestr[1] != "V":
        made._descr = [("", row.typestr, (lanes,))]
        made._format = f"({lanes}){row.format}"
    return _VECTORS.keep(key, made)


def _is_number(text: str) -> bool:
    """Tell whether a text is a number of up to 18 digits. (To isdigit() alone, "\u00b2" is one.)"""
    return len(text) < 19 and text.isascii() and text.isdigit()


def from_typestr(typestr: object, descr: list[Any] | None = None, *, protocol: str = "array_interface") -> DType:
    """Find the element type that a typestr of the array interfaces names.

    descr    the fields, which are used only if the typestr is a void ("|V12")
    raises   ProtocolError   not a typestr, another byte order, Python objects, bit fields, a descr of another size
    source   NumPy, "The array interface protocol": typestr, descr
    """
    if not isinstance(typestr, str) or not typestr:
        raise refusal(protocol, "typestr", typestr, "must be a str such as '<f4'")
    if typestr[0] in "<>=|":
        order, rest = (typestr[0], typestr[1:])
    else:
        order, rest = ("=", typestr)
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
    if kind not in ("m", "M", "S", "U", "V", "a") and rest not in ("f1", "W4") or not _is_number(digits):
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
        name = {"M": "datetime64", "m": "timedelta64"}[kind]
        return opaque(name + bracket + unit, 8, ORDER + rest, "")
    if kind == "U":
        return opaque(ORDER + rest, size, ORDER + rest, f"{digits}w")
    if rest in ("f1", "W4"):  # ml_dtypes since 0.6 gives each of these to two types
        kind = "V"
    if kind in "Sa":
        return opaque(f"|S{digits}", size, f"|S{digits}", f"{digits}s")
    return opaque(f"|V{digits}", size, f"|V{digits}", "")


def opaque(
    name: str,
    size: int,
    typestr: str = "",
    format: str = "",
    descr: list[Any] | None = None,
    parts: tuple[Field, ...] = (),
    reason: str = "",
) -> DType:
    """Return a type whose elements can only be copied."""
    made = DType(name, "opaque", size, typestr=typestr, format=format, descr=descr, parts=tuple(parts), reason=reason)
    found = _OPAQUE.answers.get(made._identity)
    if found is not None:
        return found
    return _OPAQUE.keep(made._identity, made) if len(made._identity) < _LONGEST else made


# -- structures


class Field:
    """A field of a structure.

    label    the name, or (title, name), as in descr; name is the name alone
    dtype    of its elements; shape has the extents of a field that is an array
    offset   from the beginning of the structure, and nbytes its size, in bytes
    padding  whether it is only padding
    """

    __slots__ = ("label", "name", "dtype", "shape", "offset", "nbytes", "padding")

    def __init__(self, label: Any, dtype: DType, shape: tuple[int, ...] = (), offset: int = 0) -> None:
        self.label, self.name = label, label[1] if isinstance(label, tuple) else label
        self.dtype, self.shape, self.offset = dtype, tuple(shape), offset
        self.nbytes = dtype.itemsize
        for extent in self.shape:
            self.nbytes *= extent
        self.padding = label == "" and not self.shape and dtype.kind == "opaque" and dtype.typestr[1:2] == "V"

    def text(self) -> str:
        """Return the type, and the shape if there is one, as NumPy writes them."""
        dtype = self.dtype
        if any([part.name for part in dtype._parts]) or dtype.kind != "opaque" and dtype.typestr[1] == "V":
            text = dtype.name
        else:
            text = repr("?" if dtype.kind == "bool" else dtype.typestr.lstrip("|"))
        if self.shape:
            return f"{text}, {self.shape!r}"
        return text


def structure(
    fields: Sequence[Field], size: int, *, format: str = "", descr: list[Any] | None = None, reason: str = ""
) -> DType:
    """Return the type of structures with these fields, under NumPy's name for it.

    fields   in the order of their names, at any offsets; padding may be left out
    format   as in PEP 3118; by default, it is made from the fields if it can express them; the same for descr
    reason   why the fields cannot be read; also if one of them has the other byte order
    """
    swapped = next((field for field in fields if field.dtype.reason == _SWAPPED), None)
    if swapped is not None and not reason:
        reason = _SWAPPED
    named = any([field.name for field in fields])
    if named:
        name = _numpy_name(fields, size)
    else:
        name = f"|V{size}"
    whole = _whole(fields, size)
    if descr is None and named and whole is not None:
        descr = _descr_of(whole)
    if format in ("", f"{size}x"):
        format = ""
        if named and whole is not None:
            format = _format_of(whole)
    parts = tuple([field for field in fields if not field.padding])
    return opaque(name, size, f"|V{size}", format, descr, parts, reason)


def _whole(fields: Sequence[Field], size: int) -> list[Field] | None:
    """Return the fields with all padding between them and after them, or None if they overlap or are out of order."""
    whole: list[Field] = []
    end = 0
    for field in fields:
        if field.offset < end or field.offset + field.nbytes > size:
            return None
        if field.offset > end:
            whole.append(_padding(field.offset - end, end))
        whole.append(field)
        end = field.offset + field.nbytes
    if size > end:
        whole.append(_padding(size - end, end))
    return whole


def _padding(size: int, offset: int) -> Field:
    return Field("", opaque(f"|V{size}", size, f"|V{size}"), (), offset)


def _descr_of(whole: list[Field]) -> list[Any] | None:
    """Return fields and padding as in the array interface, or None if that has no name for a type."""
    descr: list[Any] = []
    for field in whole:
        dtype = field.dtype
        kind: Any
        if dtype._parts:
            kind = dtype.descr
        else:
            kind = dtype.typestr
        if kind is None or dtype.kind != "opaque" and dtype.typestr[1] == "V":
            return None
        descr.append((field.label, kind, field.shape) if field.shape else (field.label, kind))
    return descr


def _format_of(whole: list[Field]) -> str:
    """Return fields and padding as in PEP 3118, or "" if a format cannot express them."""
    items = []
    for field in whole:
        dtype = field.dtype
        # native sizes without alignment: "g" has no standard size
        mark = "="
        if dtype.format[-1] == "g":
            mark = "^"
        if dtype._parts or dtype.format[0] in "<>":
            format = dtype.format
        else:
            format = mark + dtype.format
        if field.padding:
            items.append(f"{dtype.itemsize}x")
            continue
        bytes_only = format.endswith("x") and (dtype._parts or dtype.typestr[1] != "V" or dtype.kind != "opaque")
        if not isinstance(field.label, str) or not field.name or ":" in field.name or "\0" in field.name:
            return ""  # (a title, for example)
        if not field.nbytes or bytes_only or dtype.lanes > 1 or dtype.format == "Ze":
            return ""
        shape = ""
        if field.shape:
            shape = f"({','.join(map(str, field.shape))})"
        items.append(f"{shape}{format}:{field.name}:")
    return f"T{{{''.join(items)}}}"


def structured(descr: object, size: int, *, format: str = "", protocol: str = "array_interface") -> DType:
    """Return the type of structures with the fields of a descr; see structure().

    descr    a list of (name or (title, name), typestr or nested descr, shape); padding is ('', '|V4')
    raises   ProtocolError   descr is malformed, or its size is not `size`
    source   NumPy, "The array interface protocol": descr
    """
    fields = _fields(descr, protocol)
    total = sum(field.nbytes for field in fields)
    if total != size:
        raise refusal(protocol, "descr", descr, f"describes {worded(total)} bytes, but the elements have {size}")
    return structure(fields, size, format=format, descr=_descr_of(fields) if fields else None)


def _restored(parts: Any, size: int, format: str, descr: Any, reason: str) -> DType:
    """Return the type that was pickled; raises ValueError if a field is not inside of the structure."""
    fields = []
    for label, dtype, shape, offset in parts:
        numbers = (size, offset, *shape)
        if not isinstance(dtype, DType) or not all(type(number) is int and number >= 0 for number in numbers):
            raise ValueError(f"a damaged pickle: {worded(label)} is no field of a structure")
        fields.append(Field(label, dtype, shape, offset))
        if offset + fields[-1].nbytes > size:
            raise ValueError(f"a damaged pickle: the field {worded(label)} is not inside of {size} bytes")
    return structure(fields, size, format=format, descr=descr, reason=reason)


def fields_of(dtype: DType) -> dict[str, Field]:
    """Return the fields of a structure by name, in order, without padding; empty for another type."""
    if dtype.reason:
        return {}
    return {field.name: field for field in dtype._parts if field.name}


def field_of(dtype: DType, name: str) -> Field:
    """Return a field of a structure; raises IndexError, as NumPy does, if there is no such field."""
    known = fields_of(dtype)
    if name not in known:
        if known:
            there = f"has the fields {', '.join(map(repr, known))}"
        elif dtype.reason:
            there = f"has no fields that can be read ({dtype.reason})"
        else:
            there = "has no fields: only integers, slices, '...' and None are valid indices"
        raise IndexError(f"no field of name {worded(name)}: dtype {dtype} {there}")
    return known[name]


def _fields(descr: object, protocol: str, depth: int = 0) -> list[Field]:
    if not isinstance(descr, (list, tuple)) or depth > 20:
        raise refusal(protocol, "descr", descr, "must be a list of (name, type) tuples, nested at most 20 deep")
    fields, offset = [], 0
    for item in descr:
        field = _field(item, protocol, depth)
        field.offset, offset = offset, offset + field.nbytes
        fields.append(field)
    return fields


def _field(item: object, protocol: str, depth: int) -> Field:
    if not isinstance(item, (list, tuple)) or len(item) not in (2, 3):
        raise refusal(protocol, "descr", item, "must be a tuple (name, type) or (name, type, shape)")
    label, kind = item[0], item[1]
    if isinstance(label, (tuple, list)) and len(label) == 2:
        label = tuple(label)  # (title, name)
    if len(item) == 3:
        shape = item[2]
    else:
        shape = ()
    if isinstance(shape, (tuple, list)):
        shape = tuple(shape)
    else:
        shape = (shape,)
    if isinstance(label, tuple):
        named = all(isinstance(part, str) for part in label)
    else:
        named = isinstance(label, str)
    if not named or len(shape) > 64 or not all(type(extent) is int and 0 <= extent < 2**62 for extent in shape):
        raise refusal(protocol, "descr", item, "must have a name that is a str, and a shape of at most 64 ints")
    if isinstance(kind, (list, tuple)):
        inner = _fields(kind, protocol, depth + 1)
        size = sum(field.nbytes for field in inner)
        dtype = structure(inner, size, descr=_descr_of(inner) if inner else None)
    else:
        dtype = from_typestr(kind, protocol=protocol)
    return Field(label, dtype, shape)


def _numpy_name(fields: Sequence[Field], size: int) -> str:
    """Write a structure's type as NumPy's str() does: a list if the fields fill it in order, else a dict of offsets."""
    named = [field for field in fields if not field.padding]
    ends = [0, *(field.offset + field.nbytes for field in named)]
    if ends == [*(field.offset for field in named), size]:
        return "[" + ", ".join(f"({field.label!r}, {field.text()})" for field in named) + "]"
    texts = [field.text() for field in named]
    lists = (
        ("names", [repr(field.label) for field in named]),
        ("formats", [f"({text})" if field.shape else text for field, text in zip(named, texts)]),
        ("offsets", [str(field.offset) for field in named]),
    )
    inside = ", ".join(f"'{key}': [{', '.join(values)}]" for key, values in lists)
    return f"{{{inside}, 'itemsize': {size}}}"
