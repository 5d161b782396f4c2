"""Conversion of Python numbers to the bytes of an element and back, even for types that struct does not have.

What it is   `encode` converts one value, `decode` a run of elements. Half precision, complex, bfloat16 and the small
             floats are included. `converted` does the same for astype(), which never refuses a number.
The range    encode() refuses a number that rounds to one beyond the largest of the type, as struct does for float16
             and float32; and infinities and NaN where the type has none.
What not     a conversion of whole arrays, for which it is too slow.
Source       IEEE 754; OCP 8-bit Floating Point Specification (OFP8); OCP Microscaling Formats (MX) Specification;
             ml_dtypes for the fnuz and b11 variants
Read next    layout.py
"""

from __future__ import annotations

import struct
import sys
from math import copysign, inf, isinf, isnan, nan

from ..arguments import as_int
from ..errors import a_kind, worded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .dtypes import DType

__all__ = ["MASKED", "converted", "decode", "encode", "refuse_masked"]
# exponent bits, mantissa bits, exponent bias, and the meaning of the largest codes: "ieee" infinities and NaNs; "fn"
# one NaN (two with the sign) and no infinity; "fnuz" no infinity, and one NaN, the code of -0; "finite" numbers only
_SMALL = {
    "bfloat16": (8, 7, 127, "ieee"),
    "float8_e3m4": (3, 4, 3, "ieee"),
    "float8_e4m3": (4, 3, 7, "ieee"),
    "float8_e5m2": (5, 2, 15, "ieee"),
    "float8_e4m3fn": (4, 3, 7, "fn"),
    "float8_e4m3fnuz": (4, 3, 8, "fnuz"),
    "float8_e4m3b11fnuz": (4, 3, 11, "fnuz"),
    "float8_e5m2fnuz": (5, 2, 16, "fnuz"),
    "float6_e2m3fn": (2, 3, 1, "finite"),
    "float6_e3m2fn": (3, 2, 3, "finite"),
    "float4_e2m1fn": (2, 1, 1, "finite"),
}


def _small_value(name: str, code: int) -> float:
    if name == "float8_e8m0fnu":  # an exponent only
        if code == 255:
            return nan
        return 2.0 ** (code - 127)
    exponent_bits, mantissa_bits, bias, style = _SMALL[name]
    width = 1 + exponent_bits + mantissa_bits
    code &= (1 << width) - 1
    sign = 1.0
    if code >> (width - 1):
        sign = -1.0
    exponent, mantissa = code >> mantissa_bits & ((1 << exponent_bits) - 1), code & ((1 << mantissa_bits) - 1)
    top = (1 << exponent_bits) - 1
    if style == "ieee" and exponent == top:
        if mantissa:
            return nan
        return sign * inf
    if style == "fn" and exponent == top and mantissa == (1 << mantissa_bits) - 1:
        return nan
    if style == "fnuz" and code == 1 << (width - 1):
        return nan
    scale = 2.0**-mantissa_bits
    if exponent == 0:
        return sign * mantissa * scale * 2.0 ** (1 - bias)
    return sign * (1 + mantissa * scale) * 2.0 ** (exponent - bias)


_tables: dict[str, list[float]] = {}


def _table(name: str) -> list[float]:
    """Return the values of all 256 codes of a one-byte type."""
    found = _tables.get(name)
    if found is None:
        found = _tables[name] = [_small_value(name, code) for code in range(256)]
    return found


def _style(name: str) -> str:
    if name == "float8_e8m0fnu":
        return "exponent"
    return _SMALL[name][3]


def _sign_bit(name: str) -> int:
    """Return the code of -0, which is also the number of codes without a sign."""
    if name == "float8_e8m0fnu":
        return 256
    return 1 << _SMALL[name][0] + _SMALL[name][1]


def _small_code(name: str, value: float) -> int:
    """Return the code nearest to a value, and the even one of two that are equally near.

    Of two powers of two it is the larger one, as in ml_dtypes: neither of them has a mantissa that is even.
    raises  OverflowError  the type has no such number: it is too large, or an infinity, or not positive
            ValueError     the type has no NaN
    """
    style, half = _style(name), _sign_bit(name)
    sign = 0
    if style != "exponent" and copysign(1.0, value) < 0:
        sign = half
    if isnan(value):
        if style == "finite":
            raise ValueError(f"{name} has no NaN")
        return _nan_code(name, sign)
    if isinf(value):
        if style != "ieee":
            raise OverflowError
        return sign | _infinity_code(name)
    if style == "exponent" and value <= 0:
        raise ValueError(f"{name} has neither zero nor negative numbers: {value!r}")
    if name == "bfloat16":
        return sign | _bfloat16_code(abs(value))
    magnitudes = [v for v in _table(name)[:half] if not isnan(v) and not isinf(v)]
    largest, size = magnitudes[-1], abs(value)
    if style != "exponent":
        step, odd = largest - magnitudes[-2], len(magnitudes) - 1 & 1
    else:
        step, odd = largest, 1
    if size > largest + step / 2 or odd and size == largest + step / 2:  # rounds up to a number that the type lacks
        raise OverflowError
    nearest = min([abs(each - size) for each in magnitudes])
    equal = [code for code, each in enumerate(magnitudes) if abs(each - size) == nearest]
    best = max(equal) if style == "exponent" else min(equal, key=lambda code: code & 1)
    if style == "fnuz" and best == 0:
        return best
    return sign | best


def _infinity_code(name: str) -> int:
    return ((1 << _SMALL[name][0]) - 1) << _SMALL[name][1]


def _nan_code(name: str, sign: int) -> int:
    """Return the code of NaN; only the types with infinities keep its sign."""
    style = _style(name)
    if style == "ieee":
        return sign | _infinity_code(name) | 1 << _SMALL[name][1] - 1
    return {"exponent": 255, "fnuz": _sign_bit(name), "fn": _sign_bit(name) - 1}[style]


def _bfloat16_code(size: float) -> int:
    """Round a finite double without a sign to bfloat16 in one step: to nearest, ties to even."""
    if size >= (2 - 2.0**-8) * 2.0**127:
        raise OverflowError
    bits = int.from_bytes(struct.pack(">d", size), "big")
    if (bits >> 52) - 1023 < -126:  # a subnormal bfloat16: a multiple of its smallest unit
        return round(size * 2.0**133)
    kept, rest = bits >> 45, bits & ((1 << 45) - 1)
    kept += rest > 1 << 44 or rest == 1 << 44 and kept & 1
    return kept - ((1023 - 127) << 7)  # with bfloat16's bias


def converted(dtype: DType, value: float) -> bytes:
    """Return the bytes of a float element that is nearest to a number; see StridedView.astype().

    What is too large becomes an infinity, NaN where there is none, and the largest number where there is no NaN either;
    NaN then becomes a zero. So does ml_dtypes.
    """
    try:
        return encode(dtype, value)
    except ValueError:
        pass
    if dtype.name not in _SMALL and dtype.name != "float8_e8m0fnu":
        return encode(dtype, copysign(inf, value))
    style, half = _style(dtype.name), _sign_bit(dtype.name)
    sign = 0
    if style != "exponent" and copysign(1.0, value) < 0:
        sign = half
    if style == "ieee":
        code = sign | _infinity_code(dtype.name)
    elif style == "finite":
        if isnan(value):
            code = sign ^ half
        else:
            code = sign | half - 1
    else:
        code = _nan_code(dtype.name, sign)
        if style == "fn":
            code |= sign
    return code.to_bytes(dtype.itemsize, sys.byteorder)


MASKED = "no protocol can express its mask: give array.filled(value), or its array.data with all elements"


def refuse_masked(value: object) -> None:
    """Refuse an element of a masked array, or such an array without dimensions: the mask would be lost."""
    if issubclass(type(value), getattr(sys.modules.get("numpy.ma"), "MaskedArray", ())):
        raise TypeError(f"a masked array has no plain elements, and {MASKED}")


_ITEMS = ("b", "i", "u", "c", "bool", "int", "uint", "complex")  # the kinds whose item() tells more
_COMPLEX_PART = {"complex32": "e", "complex64": "f", "complex128": "d"}


def encode(dtype: DType, value: Any) -> bytes:
    """Return the bytes of an element with this value.

    value    a number that the type can represent, or the bytes of one element; for an opaque type only bytes
    raises   TypeError    not a number of the right kind, for instance a float for an int
             ValueError   out of range, or bytes of the wrong length
    """
    if isinstance(value, (bytes, bytearray)):
        data = bytes(value)  # another length than len(value) if a subclass says so
        if len(data) != dtype.itemsize:
            raise ValueError(f"an element of {dtype} has {dtype.itemsize} bytes, not {len(data)}")
        return data
    if dtype.lanes > 1 and dtype.kind != "opaque":
        raise TypeError(f"{dtype} is a vector: give the {dtype.itemsize} bytes of one element")
    if dtype.kind == "opaque" or dtype.name in ("float128", "complex256"):
        raise TypeError(
            f"{dtype} is opaque: give the {dtype.itemsize} bytes of one element, such as bytes({dtype.itemsize})"
        )
    try:
        return _encode(dtype, value)
    except (struct.error, OverflowError):
        raise ValueError(f"{worded(value)} does not fit into {dtype}") from None


def _encode(dtype: DType, value: Any) -> bytes:
    if getattr(getattr(value, "dtype", None), "kind", "") in _ITEMS and value.shape == ():
        value = value.item()  # NumPy's bool and ints are no int, and its complex numbers have __float__
    if isinstance(value, int) and dtype.kind in ("float", "complex") and dtype.name not in ("float64", "complex128"):
        value = _sticky(value)
    if dtype.kind == "bool":
        if not isinstance(value, (int, float)):
            value = _complex(dtype, value)
        if value:
            return b"\1"
        return b"\0"
    if dtype.kind in ("int", "uint"):
        if not hasattr(type(value), "__index__"):
            raise TypeError(f"{dtype} takes an int, not {type(value).__name__}")
        number = as_int(f"an element of {dtype}", int(value) if type(value) is bool else value)
        if dtype.bits < 8:
            low = 0
            if dtype.kind == "int":
                low = -(1 << dtype.bits - 1)
            if not low <= number < low + (1 << dtype.bits):
                raise OverflowError
            if dtype.kind == "uint":
                return (number & 0xFF).to_bytes(1, "little")
            return struct.pack("b", number)
        return struct.pack("=" + dtype.format, number)
    if dtype.kind == "complex":
        both, part = _complex(dtype, value), _COMPLEX_PART[dtype.name]
        return struct.pack(f"={part}{part}", both.real, both.imag)
    kind = type(value)
    try:
        if isinstance(value, (str, complex)) or not (hasattr(kind, "__float__") or hasattr(kind, "__index__")):
            raise TypeError  # float() also reads text, in a str and in any buffer
        given = float(value)
    except TypeError:
        raise TypeError(f"{dtype} takes a real number, not {a_kind(value)}") from None
    if isinf(given) and given != value:  # float() makes infinities of large numbers of Decimal and of long double
        raise OverflowError
    if dtype.name in ("float16", "float32", "float64"):
        return struct.pack("=" + dtype.format, given)
    return _small_code(dtype.name, given).to_bytes(dtype.itemsize, sys.byteorder)


def _sticky(number: int) -> int:
    """Return the first 53 bits of an integer, of which the last tells of those that follow.

    As a double it is exact, so that a smaller float is rounded only once.
    """
    more = number.bit_length() - 53
    if more <= 0:
        return number
    size = abs(number)
    kept = (size >> more | bool(size & (1 << more) - 1)) << more
    return kept if number > 0 else -kept


def _complex(dtype: DType, value: Any) -> complex:
    try:
        if not isinstance(value, str):
            made = complex(value)
            if not isinstance(value, (int, float, complex)) and made == made != value and isinf(abs(made)):
                raise OverflowError  # as in _encode()
            return made
    except TypeError:
        pass
    raise TypeError(f"{dtype} takes a number, not {a_kind(value)}")


def decode(dtype: DType, data: bytes) -> list[Any]:
    """Return the values of contiguous elements; those of opaque types and vectors as bytes."""
    size = dtype.itemsize
    if dtype.kind == "opaque" or dtype.lanes > 1 or dtype.name in ("float128", "complex256"):
        if size:
            return [data[i : i + size] for i in range(0, len(data), size)]
        return []
    count = len(data) // size
    if dtype.kind == "complex":
        parts = struct.unpack(f"={2 * count}{_COMPLEX_PART[dtype.name]}", data)
        return list(map(complex, parts[::2], parts[1::2]))
    if dtype.name == "bfloat16":
        codes = struct.unpack(f"={count}H", data)
        return list(struct.unpack(f"={count}f", struct.pack(f"={count}I", *[code << 16 for code in codes])))
    if dtype.kind == "float" and size == 1:
        return [_table(dtype.name)[code] for code in data]
    if dtype.bits < 8:
        half = 1 << dtype.bits - 1
        mask = (1 << dtype.bits) - 1
        return [(code & mask) - (2 * half if dtype.kind == "int" and code & half else 0) for code in data]
    return list(struct.unpack(f"={count}{dtype.format}", data))
