"""A kernel's arguments: what may be given for a parameter, and what is packed for it.

What it is   `converter` makes, for one parameter of one launch, the function that checks an argument and turns it into a
             value for struct; `declared` reads what a user says of a parameter.
What not     it launches nothing, and decides nothing about grids or streams.
The rules    an integer parameter takes any integer that its width holds, signed or unsigned (nvcc writes int as .u32); a
             float parameter takes real numbers that fit it; 8 bytes that may be an address take arrays and None; what has
             only a size takes bytes, ctypes and NumPy values of just that size.
Source       PTX ISA, "Fundamental Types"; CUDA Driver API, cuLaunchKernel
Read next    launch.py
"""

from __future__ import annotations

import ctypes
import sys
from operator import index

from ...errors import Closed, ProtocolError, a_kind, worded
from ...protocols.description import Description
from ..context import reaches
from ..memory import Memory
from .signature import Parameter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, NoReturn

    from ..device import Device

    Convert = Callable[[Any, list[Any]], Any]

__all__ = ["In", "Declared", "declared", "converter"]


class In:
    """Wrap a read-only array that a kernel only reads: In(x) as an argument, or In as a parameter's declaration."""

    __slots__ = ("exporter",)

    def __init__(self, exporter: Any) -> None:
        self.exporter = exporter

    def __repr__(self) -> str:
        return f"In({self.exporter!r})"


class Declared:
    """What a user declared of a parameter: `type` (a PTX type, "pointer", "" for bytes), `size`, `alignment`, `reads`."""

    __slots__ = ("type", "size", "alignment", "reads", "ctype")

    def __init__(self, type: str, size: int, alignment: int, reads: bool = False, ctype: Any = None) -> None:
        self.type, self.size, self.alignment, self.reads, self.ctype = type, size, alignment, reads, ctype


# what NumPy calls a type: what PTX calls it
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
_STRUCT = {"f16": "e", "f32": "f", "f64": "d"}
_UNSIGNED = {1: "B", 2: "H", 4: "I", 8: "Q"}
# The least number that rounds to infinity: half a unit in the last place above the greatest finite one.
_TOO_LARGE = {"f16": 65520.0, "bf16": (2 - 2**-8) * 2.0**127, "f32": (2 - 2**-24) * 2.0**127, "f64": float("inf")}


def _size(type: str) -> int:
    return int("".join(filter(str.isdigit, type))) // 8


def declared(what: Any) -> Declared:
    """Read a declaration: a dtype ("float32", a NumPy dtype), a PTX type ("f32"), "pointer", In, or a ctypes type.

    raises  TypeError  none of these
    """
    if what is In or what == "pointer":
        return Declared("pointer", 8, 8, reads=what is In)
    if isinstance(what, type) and issubclass(what, (ctypes._SimpleCData, ctypes.Structure, ctypes.Union, ctypes.Array)):
        kind = _ctypes_kind(what)
        size = ctypes.sizeof(what)
        return Declared(kind + str(size * 8) if kind else "", size, ctypes.alignment(what), ctype=what)
    name = what if isinstance(what, str) else getattr(what, "name", None) or getattr(what, "__name__", "")
    name = str(name).lstrip(".")
    ptx = _NAMES.get(name, name)
    if ptx[:1] in ("u", "s") and ptx[1:] in ("8", "16", "32", "64") or ptx in (*_STRUCT, "bf16", "c64", "c128"):
        size = _size(ptx)
        return Declared(ptx, size, size // 2 if ptx[0] == "c" else size)
    hint = {"int": ": int32 or int64?", "float": ": float32 or float64?"}.get(name, "")
    raise TypeError(
        f"{what!r} declares no parameter{hint or ': give a dtype name, a PTX type, pointer, In, or a ctypes type'}"
    )


def _ctypes_kind(kind: Any) -> str:
    """Return the PTX letter of a ctypes class, "" for one that has only bytes."""
    code = getattr(kind, "_type_", None)
    if not isinstance(code, str):
        return ""
    return "f" if code in "fd" else "s" if code in "bhilq" else "u" if code in "BHILQ?P" else ""


def converter(
    kernel: str, parameter: Parameter, wanted: Declared | None, device: Device, stream: int
) -> tuple[str, Convert]:
    """Make what one parameter of one launch needs.

    wanted   what was declared of it, if anything
    stream   the launch's stream: exporters given on the fly are viewed in its order
    returns  (struct format, function(argument, kept)). The function raises TypeError or ValueError that name kernel and
             parameter; what it appends to `kept` must live until the stream has passed the launch.
    """
    maker = _Maker(kernel, parameter, wanted, device, stream)
    kind = wanted.type if wanted is not None else parameter.type
    if kind == "pointer" or wanted is None and kind == "" and parameter.pointer:
        return "Q", maker.address
    if kind[:1] in ("u", "s") and parameter.size in _UNSIGNED:
        return _UNSIGNED[parameter.size], maker.integer()
    if kind in _STRUCT:
        return _STRUCT[kind], maker.real(kind)
    return f"{parameter.size}s", maker.raw


class _Maker:
    """The conversions for one parameter of one launch."""

    def __init__(self, kernel: str, parameter: Parameter, wanted: Declared | None, device: Device, stream: int) -> None:
        self.kernel, self.parameter, self.wanted, self.device, self.stream = kernel, parameter, wanted, device, stream
        self.reads = wanted is not None and wanted.reads
        self.type = wanted.type if wanted is not None else parameter.type

    def _refuse(self, kind: type[Exception], argument: Any, why: str) -> NoReturn:
        shown = (
            f".{self.type}"
            if self.type and self.type != "pointer"
            else self.type or f"{self.parameter.size} bytes without a type"
        )
        raise kind(f"{self._place()} is {shown}: {_worded(argument)} {why}")

    def _place(self) -> str:
        parameter = self.parameter
        return f"kernel {self.kernel}: " + (
            f"parameter {parameter.name!r}" if parameter.name else f"the parameter at byte {parameter.offset}"
        )

    # -- integers

    def integer(self) -> Convert:
        """Return the conversion to an unsigned int of the parameter's width."""
        bits = self.parameter.size * 8
        low, high, mask = -(1 << bits - 1), (1 << bits) - 1, (1 << bits) - 1
        slow = self._integer

        def convert(argument: Any, kept: list[Any]) -> int:
            if type(argument) is int and low <= argument <= high:
                return argument & mask
            return slow(argument, kept, low, high)

        return convert

    def _integer(self, argument: Any, kept: list[Any], low: int, high: int) -> int:
        if self.parameter.size == 8 and isinstance(argument, (Memory, Description)):  # our own arrays, on the fast path
            return self.address(argument, kept)
        plain = self._plain(argument)
        if isinstance(plain, bytes):
            return int.from_bytes(plain, "little")
        if plain is None or _is_exporter(plain):
            if self.parameter.size == 8:
                return self.address(plain, kept)
            self._refuse(TypeError, argument, "cannot go into an integer: give a number" + _item_hint(plain))
        if not hasattr(type(plain), "__index__"):
            self._refuse(
                TypeError,
                argument,
                "cannot go into an integer"
                + (
                    ": round it yourself, or is the parameter another one?" if hasattr(type(plain), "__float__") else ""
                ),
            )
        number = int.__index__(index(plain))  # a plain int, whatever a subclass makes of its operators
        if not low <= number <= high:
            self._refuse(ValueError, argument, f"does not fit: it holds {low} .. {high}")
        return number & high

    # -- floats

    def real(self, kind: str) -> Convert:
        """Return the conversion to a float of the parameter's width."""
        limit, slow = _TOO_LARGE[kind], self._real

        def convert(argument: Any, kept: list[Any]) -> float:
            if type(argument) is float and -limit < argument < limit:
                return argument
            return slow(argument, limit)

        return convert

    def _real(self, argument: Any, limit: float) -> float:
        plain = self._plain(argument)
        if isinstance(plain, bytes):
            import struct

            return struct.unpack("<" + _STRUCT[self.type], plain)[0]  # type: ignore[no-any-return]
        if plain is None or isinstance(plain, str) or _is_exporter(plain):
            self._refuse(TypeError, argument, "cannot go into a float: give a number" + _item_hint(plain))
        if (
            isinstance(plain, complex)
            or not hasattr(type(plain), "__float__")
            and not hasattr(type(plain), "__index__")
        ):
            self._refuse(TypeError, argument, "cannot go into a float")
        try:
            number = float(plain)
        except OverflowError:
            number = limit
        if limit <= abs(number) and not (isinstance(plain, float) and abs(number) == float("inf")):
            self._refuse(
                ValueError,
                argument,
                f"does not fit: the greatest magnitude is below {min(limit, sys.float_info.max):.9g}",
            )
        return number

    # -- addresses

    def address(self, argument: Any, kept: list[Any]) -> int:
        """Return the address behind an array, a Memory or None, seen to be one that the device may use."""
        try:
            return self._address(argument, kept)
        except (Closed, ProtocolError) as error:  # theirs say nothing of the parameter
            error.args = (f"{self._place()}: {error}",)
            raise

    def _address(self, argument: Any, kept: list[Any]) -> int:
        reads = self.reads
        while isinstance(argument, In):
            argument, reads = argument.exporter, True
        given = argument
        if argument is None:
            return 0
        if isinstance(argument, Memory):
            if argument.kind == "device" and not reaches(self.device.ordinal, argument.device.ordinal):
                self._refuse_place(argument, ("cuda", argument.device.ordinal))
            return argument.ptr
        if not isinstance(argument, Description):  # (a StridedView is one)
            plain = self._plain(argument)
            if isinstance(plain, bytes):
                return int.from_bytes(plain, "little")
            if not _is_exporter(plain):
                if self.type and hasattr(type(plain), "__index__"):
                    return self._integer(plain, kept, -(1 << 63), (1 << 64) - 1)
                self._refuse(TypeError, argument, "is neither an array nor an address")
            if isinstance(plain, ctypes._Pointer):
                self._refuse(
                    TypeError,
                    argument,
                    "points to host memory: give the array; to pass an address, give an int or a c_void_p",
                )
            from ...arrays.strided import view  # arrays are a floor above

            argument = view(plain, stream=self.stream)
            kept.append(argument)
        kind, ordinal = argument.device
        if kind == "cpu" or kind == "cuda" and not reaches(self.device.ordinal, ordinal):
            self._refuse_place(given, (kind, ordinal))
        if argument.readonly and not reads:
            self._refuse(ValueError, given, "is read-only: wrap it in In(...) if the kernel only reads it")
        address: int = argument.ptr
        return address

    def _refuse_place(self, argument: Any, where: tuple[str, int]) -> None:
        device = self.device
        if where[0] == "cpu":
            if device.attribute("PAGEABLE_MEMORY_ACCESS"):
                return  # this device reads all host memory (HMM, Grace)
            self._refuse(
                ValueError,
                argument,
                f"lies in host memory, which device {device.ordinal} cannot reach: "
                'device.upload(it), or allocate it as "pinned" or "managed"',
            )
        self._refuse(
            ValueError,
            argument,
            f"lies on device {where[1]}, which device {device.ordinal} was not given access "
            f"to: Device({device.ordinal}).enable_peer_access(Device({where[1]})), or copy it",
        )

    # -- bytes

    def raw(self, argument: Any, kept: list[Any]) -> bytes:
        """Return exactly the parameter's bytes."""
        plain = self._plain(argument, raw=True)
        if isinstance(plain, bytes):
            return plain
        if self.type in ("c64", "c128", "bf16") and self.wanted is not None:
            return self._declared_bytes(argument)
        if self.parameter.size == 8 and (plain is None or isinstance(plain, (In, Memory)) or _is_exporter(plain)):
            return self.address(plain, kept).to_bytes(8, "little")
        if isinstance(plain, (int, float, complex)):
            self._refuse(
                TypeError,
                argument,
                "could mean several things there: declare the type, "
                f"module.kernel({self.kernel!r}, parameters=[...]), or give a ctypes or NumPy scalar",
            )
        self._refuse(
            TypeError,
            argument,
            f"cannot go there: give bytes, or a ctypes or NumPy value, of {self.parameter.size} bytes",
        )

    def _declared_bytes(self, argument: Any) -> bytes:
        import struct

        if self.type == "bf16":
            return _bfloat16(self._real(argument, _TOO_LARGE["bf16"]))
        try:
            pair = complex(argument)
            return struct.pack("<ff" if self.type == "c64" else "<dd", pair.real, pair.imag)
        except (TypeError, OverflowError) as error:
            self._refuse(
                ValueError if isinstance(error, OverflowError) else TypeError, argument, f"cannot go there: {error}"
            )

    # -- what every conversion does first

    def _plain(self, argument: Any, raw: bool = False) -> Any:
        """Unwrap values of ctypes and NumPy: to bytes of exactly the parameter's size, or to a Python number.

        A ctypes value has a width of its own, which must be the parameter's; a NumPy scalar is a number among others, but
        for a parameter without a type it is its bytes.
        """
        size = self.parameter.size
        if isinstance(argument, bytes):
            if len(argument) != size:
                self._refuse(ValueError, argument, f"has {len(argument)} bytes, not {size}")
            return argument
        if (
            isinstance(argument, (ctypes._SimpleCData, ctypes.Structure, ctypes.Union))
            or raw
            and isinstance(argument, ctypes.Array)
        ):
            have, kind = ctypes.sizeof(argument), _ctypes_kind(type(argument))
            if have != size:
                if raw and isinstance(argument, ctypes.Array) and size == 8:
                    return argument  # not by value, then: an array in host memory
                self._refuse(ValueError, argument, f"has {have} bytes, not {size}")
            if not raw and ("f" in (kind, self.type[:1]) and kind != self.type[:1] or not kind):
                self._refuse(TypeError, argument, "is of another kind")
            return bytes(argument)
        numpy = sys.modules.get("numpy")  # a NumPy scalar exists only where NumPy was imported
        if numpy is not None and isinstance(argument, numpy.generic) and not isinstance(argument, str):
            if raw and not (self.wanted is not None and self.type):
                if argument.nbytes != size:
                    self._refuse(ValueError, argument, f"has {argument.nbytes} bytes, not {size}")
                return argument.tobytes()
            if argument.dtype.kind not in "biufc":  # a date's item() may be a bare count, a void's its bytes
                self._refuse(TypeError, argument, f"({argument.dtype}) is no number")
            return float(argument) if argument.dtype.kind == "f" else argument.item()  # a longdouble's item() is itself
        return argument


def _bfloat16(number: float) -> bytes:
    """Round to bfloat16, to nearest and ties to even, once: by way of float32 it would be twice."""
    from math import frexp, ldexp
    from struct import pack

    if number - number == 0 and number != 0:  # finite: keep 8 bits, fewer below the least normal number
        exponent = max(frexp(number)[1], -125)
        number = ldexp(round(ldexp(number, 8 - exponent)), exponent - 8)
    return pack("<f", number)[2:]  # exact now: its upper half


def _is_exporter(value: Any) -> bool:
    """Tell whether something is an array rather than a number (a torch tensor has __index__ and __float__, too)."""
    if isinstance(value, (int, float, complex, str)):
        return False
    if isinstance(value, (Memory, In)) or any(
        hasattr(type(value), name)
        for name in ("__dlpack__", "__cuda_array_interface__", "__array_interface__", "__dlpack_c_exchange_api__")
    ):
        return True
    try:
        memoryview(value).release()
        return True
    except TypeError:
        return any(hasattr(value, name) for name in ("__cuda_array_interface__", "__array_interface__"))
    except (BufferError, ValueError):
        return True


def _item_hint(value: Any) -> str:
    return " (its .item()?)" if hasattr(value, "item") else ""


def _worded(value: Any) -> str:
    return worded(value) if isinstance(value, (int, float, complex, str, bytes, type(None))) else a_kind(value)
