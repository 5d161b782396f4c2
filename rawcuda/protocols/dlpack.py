"""Read DLPack at Python's level: `__dlpack_device__`, `__dlpack__`, and the tensor in the capsule that comes.

The protocol  ask for the device; ask for a capsule, with the newest version we read and, for CUDA memory only, the stream that
              will use it; go by the capsule's name, not by what was asked. The capsule is kept as it came: when the last view
              goes, its own destructor frees the tensor. A capsule handed to us by the user is consumed instead.
Negotiation   an exporter older than a keyword raises TypeError: it is asked again without the version, the stream kept. One
              that refuses (BufferError) is asked once for the older kind. If that fails, the first error is the one raised.
Read-only     a legacy capsule cannot say. Then the exporter's own array interface is asked about the same address; if it has
              none, the view is read-only, since arrays that must not change (JAX's) come just so.
Source        array API standard, `__dlpack__`, `__dlpack_device__`, `from_dlpack`; "Python Specification for DLPack"; dlpack.h
Read next     dlpack_c_exchange.py
"""
from __future__ import annotations

from functools import partial
from operator import index

from .. import layout, tracing
from ..cpython import reader
from ..description import HOST, Description, Place, place
from ..dlpack import DEVICE_TYPES, VERSION, capsule_names, consume, identify, name_seen, read_capsule, taking
from ..dtypes import from_dlpack
from ..errors import ProtocolError, refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Optional

    from ..dtypes import DType

    Ints = tuple[int, ...]
    Known = tuple[Ints, Ints, DType, Place]

__all__ = ["NAME", "CudaSide", "describe", "describe_capsule", "describe_fields", "describe_jax", "describe_ndarray", "describe_tensor",
           "remember"]

NAME = "dlpack"
_CPU, _CUDA, _CUDA_HOST, _ROCM_HOST, _CUDA_MANAGED = 1, 2, 3, 11, 13
_HOST = (_CPU, _CUDA_HOST, _ROCM_HOST)
_WITH_STREAM = (_CUDA, _CUDA_MANAGED)

# one read of a whole struct: (major,) flags, data, device, ndim, dtype, shape, strides, byte_offset
_read_versioned = reader("I20xQQQiIQQQ")
_read_legacy = reader("QQiIQQQ")
_ints = [reader(f"{n}q") for n in range(2 * layout.MAX_NDIM + 1)]


class CudaSide:
    """What asking for CUDA memory needs of a driver; this one does without, strided.py has the real one."""

    def around(self, ordinal: int) -> Any:
        """Return a with block in which the device is current: torch exports from the current device only."""
        return self

    def settle(self, ordinal: int) -> bool:
        """Wait for all work on the device; tell whether that could be done."""
        return False

    def __enter__(self) -> None: ...
    def __exit__(self, *_: object) -> None: ...


# -- the tensor

# Everything that follows from these fields is worked out, and checked, once: most views look like one seen before.
_known: "dict[tuple[Any, ...], Known]" = {}


def describe_tensor(address: int, versioned: bool, owner: Any, kind: "type[Description]" = Description, *,
                    readonly: bool = True, protocol: str = NAME) -> Description:
    """Describe the managed tensor at an address.

    owner     what keeps the tensor alive
    readonly  what a legacy tensor counts as
    raises    ProtocolError   another major version, and each field that no view can have
    """
    if versioned:
        major, flags, *tensor = _read_versioned(address)
        if major != VERSION[0]:
            raise refusal(protocol, "version.major", major, "is not 1, so what follows may be laid out otherwise; ask with max_version=(1, 3)")
    else:
        flags, tensor = int(readonly), list(_read_legacy(address))
    data, device, ndim, word, shape, strides, offset = tensor
    return describe_fields(flags, data, device, ndim, word, shape, strides, offset, owner, kind, protocol)


def describe_fields(flags: int, data: int, device: int, ndim: int, word: int, shape: int, strides: int, offset: int,
                    owner: Any, kind: "type[Description]", protocol: str) -> Description:
    """Describe a tensor whose struct was read: `device` and `word` are DLDevice and DLDataType as one number each."""
    numbers = _read_numbers(ndim, shape, strides, protocol)
    key = flags, device, word, ndim, numbers, protocol
    known = _known.get(key)
    if known is None:
        if len(_known) > 2000:
            _known.clear()
        known = _known[key] = _learn(flags, device, word, ndim, numbers, protocol)
    address = data + offset
    if address >= 2**64 or not data and known[0].count(0) == 0:
        raise refusal(protocol, "data", data, f"with byte_offset {offset} is no address of elements; the exporter is at fault")
    return kind(address, known[0], known[1], known[2], known[3], owner)


def _read_numbers(ndim: int, shape: int, strides: int, protocol: str) -> Ints:
    """Read extents and, where they are there, strides: in one go if they lie side by side, as they mostly do."""
    if not 0 <= ndim <= layout.MAX_NDIM:
        raise refusal(protocol, "ndim", ndim, f"lies in 0 .. {layout.MAX_NDIM}")
    if ndim == 0:
        return ()                                        # both pointers may be null, or point anywhere
    if not 0xFFF < shape < 2**63 or strides and not 0xFFF < strides < 2**63:
        raise refusal(protocol, "shape" if not 0xFFF < shape < 2**63 else "strides", hex(shape), "is no pointer; the exporter is at fault")
    if strides == shape + 8 * ndim:
        return _ints[2 * ndim](shape)
    extents = _ints[ndim](shape)
    return extents + _ints[ndim](strides) if strides else extents


def _learn(flags: int, device: int, word: int, ndim: int, numbers: Ints, protocol: str) -> "Known":
    """Check a tensor's fields and turn them into what a Description has."""
    code, bits, lanes = word & 0xFF, word >> 8 & 0xFF, word >> 16
    dtype = from_dlpack(code, bits, lanes, bool(flags & 4))
    if dtype.packed:
        raise refusal(protocol, "dtype", (code, bits, lanes), f"packs several {dtype} into a byte, so elements have no address; export them "
                                                       "padded, or in lanes that fill a byte")
    shape = numbers[:ndim]
    if any(n < 0 for n in shape):
        raise refusal(protocol, "shape", shape, "has a negative extent; the exporter is at fault")
    try:
        layout.checked_size(shape, dtype.itemsize)
    except ValueError as error:
        raise refusal(protocol, "shape", shape, str(error)) from None
    if len(numbers) > ndim:
        strides = tuple([stride * dtype.itemsize for stride in numbers[ndim:]])
        low, high = layout.extent(shape, strides, dtype.itemsize)
        if low < -layout.LIMIT or high > layout.LIMIT:
            raise refusal(protocol, "strides", numbers[ndim:], "reach further than any memory; the exporter is at fault")
    else:
        strides = layout.c_strides(shape, dtype.itemsize)
    return shape, strides, dtype, place(_device(device & 0xFFFFFFFF, device >> 32, protocol), bool(flags & 1), protocol)


def _device(type_: int, id_: int, protocol: str) -> "tuple[str, int]":
    id_ -= (id_ & 0x80000000) << 1                       # both are int32
    type_ -= (type_ & 0x80000000) << 1
    if type_ in (_CPU, _ROCM_HOST):
        return "cpu", 0                                  # some exporters leave the id of host memory undefined
    if type_ == _CUDA_HOST:
        return "cuda_host", 0
    if type_ in (_CUDA, _CUDA_MANAGED):
        if id_ < 0:
            raise refusal(protocol, "device.device_id", id_, "is negative; the exporter is at fault")
        return ("cuda" if type_ == _CUDA else "cuda_managed"), id_
    name = next((name for name, number in DEVICE_TYPES.items() if number == type_), "unknown to DLPack 1.3")
    raise refusal(protocol, "device.device_type", type_, f"({name}) is neither host nor CUDA memory; copy it to the host first")


# -- the capsule

# What the short way has seen: DLDevice, ndim and DLDataType as 16 bytes -> the distance from shape to strides, the reader of both
# as (bytes,), a table from that to what they mean, the reader's first argument. One such dict for each value of flags.
_short: "dict[int, dict[bytes, tuple[int, Any, dict[Any, Known], Any]]]" = {}
_read_short = reader("I20xQQ16sQQQ")                     # major, flags, data, those 16 bytes, shape, strides, byte_offset


# A reader is a partial of one argument; called without the partial, with its parts, it costs less.
_parts = read_capsule if isinstance(read_capsule, partial) else partial(lambda _, address: read_capsule(address), None)


def describe_ndarray(array: Any, kind: "type[Description]" = Description, new: Any = object.__new__, peek: Any = _parts.func,
                     at: Any = _parts.args[0], names: Any = capsule_names, read: Any = _read_short.func, window: Any = _read_short.args[0],
                     short: Any = _short, version: Any = VERSION) -> "Optional[Description]":
    """Describe a numpy.ndarray, exactly of that type, the short way; None leaves it to describe().

    Its device need not be asked, nor its struct be doubted: NumPy's C code has made both. What the fields mean is looked up
    by their bytes among what describe_fields() has checked before.
    """
    try:
        capsule = array.__dlpack__(max_version=version)
        pointer, name = peek(at, id(capsule))
        if name not in names:
            name_seen(capsule, name)
        major, flags, data, what, shape, strides, offset = read(window, pointer)
        distance, numbers, known, sized = short[flags][what]
        if strides - shape != distance or offset or major != 1:
            return None
        made = new(kind)
        made.shape, made.strides, made.dtype, made.place = known[numbers(sized, shape)]
    except KeyError:                                     # not seen before
        return _describe_new_ndarray(capsule, kind)
    except (ValueError, TypeError, BufferError):         # a legacy capsule, an older NumPy, an array that DLPack cannot say
        return None
    made.ptr = data
    made.owner = capsule
    made.stream = None
    return made  # type: ignore[no-any-return]


def _describe_new_ndarray(capsule: Any, kind: "type[Description]") -> "Optional[Description]":
    """Describe an array's capsule with every check of its fields, and remember what they mean."""
    address = identify(capsule)[0]
    try:
        made = describe_tensor(address, True, capsule, kind)
    except BufferError:
        return None
    _, flags, _, what, shape, strides, _ = _read_short(address)
    distance = 8 * len(made.shape)
    if strides - shape == distance:
        if len(_short) > 8 or len(_short.get(flags, ())) > 300:
            _short.clear()
        numbers = reader(f"{2 * distance}s")
        known = _short.setdefault(flags, {}).setdefault(what, (distance, numbers.func, {}, numbers.args[0]))[2]
        if len(known) > 1000:
            known.clear()
        known[numbers(shape)] = made.shape, made.strides, made.dtype, made.place
    return made


def describe_capsule(capsule: Any, kind: "type[Description]" = Description, *, readonly: bool = True) -> Description:
    """Describe the tensor in a capsule that the user handed us, and consume it; a refusal leaves it as it was.

    readonly  what a legacy capsule counts as
    raises    ProtocolError   consumed before, another name, or what describe_tensor refuses
    """
    with taking:
        address, versioned = identify(capsule)
        made = describe_tensor(address, versioned, None, kind, readonly=readonly)
        made.owner = consume(capsule)
    return made


def describe(exporter: Any, kind: "type[Description]" = Description, *, stream: int = 1, writable: bool = False,
             cuda: "Callable[[], CudaSide]" = CudaSide) -> "Optional[Description]":
    """Describe what `__dlpack__` gives, or return None where it is not offered.

    kind      the class to make, with Description's arguments
    stream    the handle that CUDA memory will be used on, or -1 for no ordering; exporters of host memory get none
    writable  count memory as writable where nothing says that it is not
    cuda      makes the CudaSide, when it turns out that one is needed
    raises    ProtocolError   what describe_tensor refuses; a capsule that contradicts `__dlpack_device__`
              BufferError and any other   the exporter's own, unchanged
    """
    ask = getattr(exporter, "__dlpack__", None)
    if ask is None or isinstance(exporter, type):
        return None
    said = _asked_device(exporter)
    if said is not None and said[0] in _WITH_STREAM:
        capsule = _ask_on_stream(ask, said, stream, cuda())
    else:
        capsule = _ask(ask, {})
    address, versioned = identify(capsule)
    made = describe_tensor(address, versioned, capsule, kind, readonly=not writable)
    if tracing.listeners:
        tracing.emit(tracing.Step(NAME, f"{type(exporter).__name__}.__dlpack__()", f"-> dltensor{'_versioned' if versioned else ''}, "
                                  f"device {made.place.device}, shape {made.shape}, strides {made.strides}, {made.dtype}", address))
    if said is not None:
        _compare_devices(said, made)
    if not versioned and not writable and _own_word_is_writable(exporter, made):
        made.place = place(made.place.device, False, NAME)
    return made


def _asked_device(exporter: Any) -> "Optional[tuple[int, int]]":
    """Return what `__dlpack_device__` says as two ints; Paddle's id may be None."""
    ask = getattr(exporter, "__dlpack_device__", None)
    if ask is None:
        return None
    said = ask()
    try:
        type_, id_ = said
        return index(type_), 0 if id_ is None else index(id_)
    except (TypeError, ValueError):
        raise refusal(NAME, "__dlpack_device__", said, "is a pair of ints; the exporter is at fault") from None


def _ask_on_stream(ask: "Callable[..., Any]", said: "tuple[int, int]", stream: int, cuda: CudaSide) -> Any:
    """Ask for CUDA memory: always with a stream, and never again without one, unless nothing can be pending."""
    with cuda.around(said[1]):
        try:
            return _ask(ask, {"stream": stream})
        except Exception as first:
            if isinstance(first, ProtocolError):
                raise
            # "Not that stream" comes as any of six types of exception, so none is told from another. None means the
            # legacy stream: more waiting than -1 asked for, never less.
            if stream == -1:
                again: "dict[str, Any]" = {"stream": None}
            elif said[0] == _CUDA_MANAGED and cuda.settle(said[1]):
                again = {}
            else:
                raise
            try:
                return _ask(ask, again)
            except Exception:
                raise first from None


def _ask(ask: "Callable[..., Any]", stream: "dict[str, Any]") -> Any:
    """Call `__dlpack__`, asking for the newest version first; what cannot be understood is left out, but not the stream."""
    try:
        return ask(max_version=VERSION, **stream)
    except (TypeError, BufferError) as first:
        if isinstance(first, ProtocolError):
            raise
        try:
            return ask(**stream)
        except BufferError as answer:                    # to a question that an older exporter did understand
            raise (answer if isinstance(first, TypeError) else first) from None
        except Exception:
            raise first from None                        # it was no matter of keywords


def _compare_devices(said: "tuple[int, int]", made: Description) -> None:
    """Refuse a capsule that contradicts `__dlpack_device__`; torch calls pinned memory 3 there and 1 in the capsule."""
    kind, ordinal = made.place.device or ("cpu", 0)
    if said[0] in _HOST:
        agrees = kind in ("cpu", "cuda_host")
        if agrees and said[0] == _CUDA_HOST and kind == "cpu":
            made.place = place(("cuda_host", 0), made.place.readonly, NAME)
    else:
        agrees = (kind, ordinal) == ({_CUDA: "cuda", _CUDA_MANAGED: "cuda_managed"}.get(said[0]), said[1])
    if not agrees:
        raise refusal(NAME, "__dlpack_device__", said, f"contradicts the capsule, which is on {kind} {ordinal}; the exporter is at fault")


def _own_word_is_writable(exporter: Any, made: Description) -> bool:
    """Tell whether the exporter's own array interface calls this memory writable."""
    on_host = made.place.device is not None and made.place.device[0] in ("cpu", "cuda_host")
    try:
        address, readonly = getattr(exporter, "__array_interface__" if on_host else "__cuda_array_interface__")["data"]
    except Exception:                                    # not offered, or not for this array: then it has not said so
        return False
    return readonly is False and address == made.ptr


# -- JAX

# What the short way has seen: DLDevice, ndim and DLDataType as 16 bytes, with the flags where the capsule is a versioned one -> a reader
# of as many int64 as bytes, a table from shape and strides, read so, to what they mean, the reader's first argument.
_short_jax: "dict[Any, tuple[Any, dict[Any, Known], Any]]" = {}
_read_legacy_short = reader("Q16sQQQ")                   # data, those 16 bytes, shape, strides, byte_offset
_legacy_names: "set[int]" = set()                       # where "dltensor" was read
_elsewhere: "list[bool]" = []                            # not empty once an array was seen that is not in host memory


def describe_jax(array: Any, kind: "type[Description]" = Description, new: Any = object.__new__, peek: Any = _parts.func,
                 at: Any = _parts.args[0]) -> "Optional[Description]":
    """Describe a JAX array, exactly of that type, in host memory, the short way; None leaves it to describe().

    Its device is told by the capsule, which stands for the legacy stream where it is CUDA memory after all; then all is left to describe().
    """
    if _elsewhere or getattr(array, "__array_interface__", None) is not None:
        return None
    try:
        capsule = array.__dlpack__(max_version=VERSION)
        pointer, name = peek(at, id(capsule))
        if name in _legacy_names:
            data, what, shape, strides, offset = _read_legacy_short(pointer)
        elif name in capsule_names:
            major, flags, data, what, shape, strides, offset = _read_short(pointer)
            what = flags, what
            if major != 1:
                return None
        else:
            return _describe_new_jax(capsule, kind, name)
        numbers, known, sized = _short_jax[what]
        if offset or not data:
            return None
        made = new(kind)
        made.shape, made.strides, made.dtype, made.place = known[numbers(sized, shape), strides and numbers(sized, strides)]
    except KeyError:                                     # not seen before
        return _describe_new_jax(capsule, kind, name)
    except (ValueError, TypeError, BufferError):         # another capsule, or an array that DLPack cannot say
        return None
    made.ptr = data
    made.owner = capsule
    made.stream = None
    return made  # type: ignore[no-any-return]


def _describe_new_jax(capsule: Any, kind: "type[Description]", name: int) -> "Optional[Description]":
    """Describe an array's capsule with every check of its fields, and remember what they mean."""
    address, versioned = identify(capsule)
    if name:                                             # the text of that name was just read
        (capsule_names if versioned else _legacy_names).add(name)
    made = describe_tensor(address, versioned, capsule, kind)
    if made.place.device != HOST:
        _elsewhere.append(True)
        return None
    what: Any
    if versioned:
        _, flags, _, what, shape, strides, _ = _read_short(address)
        what = flags, what
    else:
        _, what, shape, strides, _ = _read_legacy_short(address)
    if made.shape and name:
        remember(_short_jax, what, shape, strides, made)
    return made


def remember(short: "dict[Any, Any]", what: Any, shape: int, strides: int, made: Description) -> None:
    """Enter what a tensor's fields mean, and the numbers at two addresses, so that a short way knows them again."""
    if len(short) > 300:
        short.clear()
    numbers = reader(f"{8 * len(made.shape)}s")
    known = short.setdefault(what, (numbers.func, {}, numbers.args[0]))[1]
    if len(known) > 1000:
        known.clear()
    known[numbers(shape), strides and numbers(strides)] = made.shape, made.strides, made.dtype, made.place
