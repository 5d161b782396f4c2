"""Reading an object by each protocol, and writing down its answers, with the bytes of structs beside their meaning.

What it is   a function per protocol. Capsules that it requests are dropped unconsumed, and buffers are released.
What not     no driver is loaded: CUDA memory is requested with stream=-1, since nothing is read from it. No pointer is
             followed before the system has confirmed that the memory can be read.
Read next    quirks.py
"""

from __future__ import annotations

import ctypes
import sys
from struct import unpack

from ...dlpack import (
    DEVICE_TYPES,
    TYPE_CODES,
    VERSION,
    DLManagedTensor,
    DLManagedTensorVersioned,
    DLPackExchangeAPI,
    identify,
    is_capsule,
)
from ...dlpack import name_of as name_of_capsule
from ...errors import worded
from ...interpreter.cpython import POINTER, bind
from ...interpreter.peeking import peek
from ...protocols import array_interface, arrow, buffer, choosing, cuda_array_interface, cuda_stream, dlpack_c_exchange
from ...protocols.choosing import ARROW
from ...protocols.description import Description, describe_as
from ...protocols.tensor import BY_CAPSULE, NO_FLAGS, describe_tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any, Callable

    Meanings = Mapping[str, Callable[[Any], str]]

__all__ = ["ASKED", "Finding", "peek", "raised"]


class Finding:
    """The answer of one protocol.

    lines  the text
    facts  the fields by name
    made   the Description of these fields; if it is None, `refusal` says why
    """

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.facts: dict[str, Any] = {}
        self.made: Description | None = None
        self.refusal: str = ""

    def read(self, how: Callable[[], Description | None]) -> None:
        """Make the Description, without a reference to the exporter, or store the reason why there is none."""
        try:
            made = how()
        except Exception as error:
            self.refusal = raised(error)
        else:
            self.made = made and describe_as(
                Description, made.ptr, made.shape, made.strides, made.dtype, made._place, None
            )

    def peek(self, what: str, address: int, nbytes: int) -> bytes | None:
        """Return the bytes at a pointer, or note that they cannot be read."""
        raw = peek(address, nbytes)
        if raw is None:
            self.refusal = f"{what} points to {address:#x}, where no memory can be read: the exporter is at fault"
        return raw


def raised(error: BaseException) -> str:
    """Return an exception as text: its class and the first line of its message."""
    try:
        text = str(error).strip().partition("\n")[0][:300]
    except Exception:
        text = "(its text raises, too)"
    if text:
        return f"{type(error).__name__}: {text}"
    return type(error).__name__


# -- bytes


def _int64s(raw: bytes | None) -> tuple[int, ...] | None:
    return raw and tuple(memoryview(raw).cast("q"))  # type: ignore[return-value]


def _fields(kind: Any, raw: bytes, start: int = 0, before: str = "") -> Iterator[tuple[str, bytes, int, int, bool]]:
    """Yield (name, bytes, offset, value, whether it is a pointer) of each number in a struct, including nested ones."""
    for name, type_ in kind._fields_:
        offset = start + getattr(kind, name).offset
        if issubclass(type_, ctypes.Structure):
            yield from _fields(type_, raw, offset, "" if name == "dl_tensor" else f"{before}{name}.")
        else:
            part = raw[offset : offset + ctypes.sizeof(type_)]
            is_signed = type_ in (ctypes.c_int32, ctypes.c_int, ctypes.c_int64, ctypes.c_ssize_t)
            yield (
                before + name,
                part,
                offset,
                int.from_bytes(part, sys.byteorder, signed=is_signed),
                type_ is ctypes.c_void_p,
            )


def _show(finding: Finding, kind: Any, raw: bytes, where: str, meanings: Meanings) -> dict[str, int]:
    """Write down the fields of a struct, each beside its bytes, and return their values."""
    fields = list(_fields(kind, raw))
    values = {name: value for name, _, _, value, _ in fields}
    finding.facts.update(values)
    wide = max(21, *map(len, values))
    finding.lines += [
        f"{kind.__name__} {where}, {len(raw)} bytes:",
        f"  {'at':>4}  {'bytes, lowest address first':<27} {'field':<{wide}} {'value':<16} meaning",
    ]
    for name, part, offset, value, is_pointer in fields:
        if name in meanings:
            means = meanings[name](value)
        else:
            means = ""
        shown = hex(value) if is_pointer else value
        finding.lines.append(f"  {offset:>4}  {part.hex(' '):<27} {name:<{wide}} {shown:<16} {means}".rstrip())
    return values


# -- DLPack


def _name(names: Mapping[str, int], number: int) -> str:
    return next((name for name, value in names.items() if value == number), "unknown to DLPack 1.3")


_TENSOR: Meanings = {
    "version.major": lambda v: "" if v == 1 else "another layout: the fields after flags cannot be read",
    "deleter": lambda v: "the consumer of the tensor calls it once" if v else "null: there is nothing to free",
    "manager_ctx": lambda v: "private to the producer",
    "flags": lambda v: " | ".join(
        ["READ_ONLY"] * (v & 1) + ["IS_COPIED"] * (v >> 1 & 1) + ["IS_SUBBYTE_TYPE_PADDED"] * (v >> 2 & 1)
    ),
    "data": lambda v: f"{v % 256} past a multiple of 256" if v % 256 else "",
    "device.device_type": lambda v: _name(DEVICE_TYPES, v),
    "dtype.code": lambda v: _name(TYPE_CODES, v),
    "dtype.bits": lambda v: "of one lane",
    "byte_offset": lambda v: "added to data" if v else "",
    "strides": lambda v: "" if v else "null: C order",
}


def _tensor(finding: Finding, capsule: Any) -> None:
    """Show the managed tensor in a capsule."""
    address, versioned = identify(capsule)
    kind: Any = DLManagedTensor
    if versioned:
        kind = DLManagedTensorVersioned
    raw = finding.peek("the capsule", address, ctypes.sizeof(kind))
    if raw is None:
        return
    said = _show(finding, kind, raw, f"at {address:#x}", _TENSOR)
    finding.facts["versioned"] = versioned
    ndim = said["ndim"]
    if said.get("version.major", 1) == 1 and 0 < ndim <= 64:  # the reader itself refuses values out of bounds
        for name, unit in (("shape", "elements"), ("strides", "elements, not bytes")):
            numbers = finding.facts[f"{name}_read"] = None
            if said[name]:
                numbers = finding.facts[f"{name}_read"] = _int64s(finding.peek(name, said[name], 8 * ndim))
            if finding.refusal:
                return
            if numbers:
                finding.lines.append(f"  {name} at {said[name]:#x}: {numbers} {unit}")
    if versioned:
        flags = None
    else:
        flags = NO_FLAGS
    finding.read(lambda: describe_tensor(Description, BY_CAPSULE, None, address, flags))


def _dlpack(obj: Any, finding: Finding) -> bool:
    if is_capsule(obj):  # it stays as it is
        finding.facts["name"] = name = name_of_capsule(obj)
        finding.lines.append(
            f"a PyCapsule named {worded(name)}"
            + ": the tensor was not consumed; dropping the capsule frees it"
            * (name in (b"dltensor", b"dltensor_versioned"))
        )
        _tensor(finding, obj)
        return True
    ask = getattr(obj, "__dlpack__", None)
    if ask is None or isinstance(obj, type):
        return False
    stream = {}
    try:
        said = finding.facts["said_device"] = obj.__dlpack_device__()
        kind, _ = map(int, (said[0], said[1] or 0))
        if kind in (2, 13):
            stream = {"stream": -1}
        else:
            stream = {}
        finding.lines.append(f"__dlpack_device__() -> {worded(said)}   {_name(DEVICE_TYPES, kind)}")
    except Exception as error:
        finding.lines.append(f"__dlpack_device__() is not a pair of ints: {raised(error)}")
    capsules = [_ask(finding, ask, {"max_version": VERSION, **stream}, "first"), _ask(finding, ask, stream, "legacy")]
    if not capsules[0] and not capsules[1]:
        finding.refusal = finding.facts["legacy"]
    else:
        _tensor(finding, (capsules[0] or capsules[1])[0])
    return True


def _ask(finding: Finding, ask: Callable[..., Any], keywords: dict[str, Any], which: str) -> list[Any]:
    """Call `__dlpack__` and note the result; return [capsule], or [] if it raised."""
    question = f"__dlpack__({', '.join(f'{key}={value!r}' for key, value in keywords.items())})"
    try:
        capsule = ask(**keywords)
    except Exception as error:
        finding.facts[which] = raised(error)
        finding.lines.append(f"{question} raises {raised(error)}")
        return []
    if is_capsule(capsule):
        finding.facts[which] = name = name_of_capsule(capsule)
    else:
        finding.facts[which] = name = None
    finding.lines.append(f"{question} -> {f'a capsule named {worded(name)}' if name else worded(capsule)}")
    return [capsule]


def _exchange(obj: Any, finding: Finding) -> bool:
    kind = type(obj)
    offered = getattr(kind, "__dlpack_c_exchange_api__", None) or getattr(kind, "__c_dlpack_exchange_api__", None)
    if offered is None:
        return False
    get = bind("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
    if is_capsule(offered):
        address = get(offered, b"dlpack_exchange_api")
    else:
        address = int(offered)
    raw = finding.peek("it", address, ctypes.sizeof(DLPackExchangeAPI))
    if raw is not None:
        _show(finding, DLPackExchangeAPI, raw, f"at {address:#x}", {})
        if dlpack_c_exchange.is_torch(kind):
            finding.read(lambda: dlpack_c_exchange.describe(obj))
        else:
            finding.lines.append("not called: view() reads only torch's own tensors this way by default")
    return True


# -- the array interfaces


def _stream_meaning(value: Any) -> str:
    known = {
        "None": "no wait is needed",
        "0": "forbidden: it could mean either default stream",
        "1": "the legacy default stream",
        "2": "the per-thread default stream",
    }
    return known.get(worded(value), "the handle of a stream to wait for" if type(value) is int else "no stream")


_KEYS: Meanings = {
    "typestr": lambda v: "byte order, kind, bytes of an element",
    "data": lambda v: "(address, read-only)",
    "stream": _stream_meaning,
    "strides": lambda v: "C order" if v is None else "bytes",
    "descr": lambda v: "an element's fields",
}


def _interface(
    obj: Any, finding: Finding, protocol: str, describe: Callable[[Any], Description | None], required: str
) -> bool:
    said = array_interface.read_attribute(obj, protocol)
    if said is None:
        return False
    facts = finding.facts
    facts.update({str(key): said[key] for key in said.keys()})
    for key in dict.fromkeys([*facts, *required.split()]):
        if key in _KEYS:
            means = _KEYS[key](facts.get(key))
        else:
            means = ""
        finding.lines.append(f"{key:<9} {worded(facts[key], 90) if key in facts else '(missing)':<32} {means}".rstrip())
    finding.read(lambda: describe(obj))
    return True


# -- the buffer protocol, and streams

_check, _release = (
    bind("PyObject_CheckBuffer", ctypes.c_int, ctypes.py_object),
    bind("PyBuffer_Release", None, ctypes.c_void_p),
)
_get = bind("PyObject_GetBuffer", ctypes.c_int, ctypes.py_object, ctypes.c_void_p, ctypes.c_int)


def _arrays_of(struct: buffer.Py_buffer) -> dict[str, Any]:
    """Read the arrays that a Py_buffer points to."""
    raw = {name: peek(getattr(struct, name) or 0, POINTER * struct.ndim) for name in ("shape", "strides", "suboffsets")}
    return {name: found and unpack(f"{struct.ndim}n", found) for name, found in raw.items()}


def _buffer(obj: Any, finding: Finding) -> bool:
    if not _check(obj):
        return False
    struct = buffer.Py_buffer()
    _get(obj, ctypes.addressof(struct), 0x11C)  # PyBUF_FULL_RO
    try:
        format_ = "B"
        if struct.format:
            format_ = ctypes.string_at(struct.format).decode("latin-1")
        read = _arrays_of(struct)
        _show(
            finding,
            buffer.Py_buffer,
            bytes(struct),
            "for PyBUF_FULL_RO, released again",
            {
                "buf": lambda v: "the first element, not the lowest address",
                "obj": lambda v: "the exporter, which is kept alive",
                "len": lambda v: "bytes of all elements, without gaps",
                "readonly": lambda v: "read-only" if v else "writable",
                "format": lambda v: worded(format_, 90),
                "shape": lambda v: f"{read['shape']}",
                "strides": lambda v: f"{read['strides']} bytes" if v else "null: C order",
                "suboffsets": lambda v: f"{read['suboffsets']}" * bool(v),
            },
        )
    finally:
        _release(ctypes.addressof(struct))
    finding.facts.update({f"{name}_read": value for name, value in read.items()})
    finding.read(lambda: choosing.describe(obj, Description, None, "buffer"))
    return True


_HOST = ("cpu", 0)


def _arrow(obj: Any, finding: Finding) -> bool:
    if isinstance(obj, type):
        offered = []
    else:
        offered = [name for name in ARROW if getattr(obj, name, None) is not None]
    for name in offered:
        finding.facts[name] = said = {}
        try:
            said.update(arrow.facts(obj, name))
            finding.lines.append(f"{name}() -> {', '.join([f'{key} {value!r}' for key, value in said.items()])}")
        except Exception as error:
            finding.lines.append(f"{name}() raises {raised(error)}")
    if offered == ["__arrow_c_stream__"]:
        finding.lines.append("no chunk is fetched here, since some objects give each chunk only once")
    elif offered and finding.facts[offered[0]].get("device", _HOST) == _HOST:  # else a driver would wait for its event
        finding.read(lambda: arrow.describe(obj))
    return bool(offered)


def _stream(obj: Any, finding: Finding) -> bool:
    offered = getattr(obj, "__cuda_stream__", None)
    if offered is None or isinstance(obj, type):
        return False
    if callable(offered):
        finding.facts["pair"] = pair = offered()
    else:
        finding.facts["pair"] = pair = offered
    handle = cuda_stream.handle_from(obj)
    finding.lines.append(
        f"-> {worded(pair)}   version, cudaStream_t; to the driver {handle:#x}, {_stream_meaning(handle)}"
    )
    return True


# protocol, by view()'s name and in the order in which view() tries them: (the attribute of an object, the function that
# reads it, and returns whether the object offers it)
ASKED: dict[str, tuple[str, Callable[[Any, Finding], bool]]] = {
    "dlpack_c_exchange": ("__dlpack_c_exchange_api__", _exchange),
    "dlpack": ("__dlpack__", _dlpack),
    "cuda_array_interface": (
        "__cuda_array_interface__",
        lambda obj, finding: _interface(
            obj,
            finding,
            "cuda_array_interface",
            cuda_array_interface.describe,
            "shape typestr data version strides stream",
        ),
    ),
    "array_interface": (
        "__array_interface__",
        lambda obj, finding: _interface(
            obj, finding, "array_interface", array_interface.describe, "shape typestr data version strides"
        ),
    ),
    "buffer": ("the buffer protocol", _buffer),
    "arrow": ("the Arrow C interfaces", _arrow),
    "cuda_stream": ("__cuda_stream__", _stream),
}
