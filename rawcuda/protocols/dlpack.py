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
from struct import Struct, unpack

from .. import tracing
from ..dlpack import DEVICE_TYPES, VERSION, consume, identify, is_capsule, names, pointers, taking
from ..elements import layout
from ..elements.dtypes import from_dlpack
from ..errors import ProtocolError, refusal
from ..interpreter.cpython import reader
from .description import HOST, Description, Place, place

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from ..elements.dtypes import DType

    Ints = tuple[int, ...]
    Known = tuple[Ints, Ints, DType, Place]
    Kind = tuple[int, Any, Any, dict[tuple[bytes, ...], Known], Callable[[tuple[bytes, ...]], Known]]

__all__ = [
    "NAME",
    "CudaSide",
    "can_be_short",
    "describe",
    "describe_capsule",
    "describe_fields",
    "describe_jax",
    "describe_ndarray",
    "describe_tensor",
    "meet",
    "read_legacy",
]

NAME = "dlpack"
_CPU, _CUDA, _CUDA_HOST, _ROCM_HOST, _CUDA_MANAGED = 1, 2, 3, 11, 13
_HOST = (_CPU, _CUDA_HOST, _ROCM_HOST)
_WITH_STREAM = (_CUDA, _CUDA_MANAGED)

# one read of a whole struct: (major, flags,) data, 16 bytes with device, ndim and dtype, shape, strides, byte_offset
_read_versioned, read_legacy = reader("I20xQQ16sQQQ"), reader("Q16sQQQ")


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

# Everything that follows from a tensor's fields is worked out, and checked, once: most look like one seen before. First come the fields that are
# no numbers: DLDevice, ndim and DLDataType as 16 bytes, with the flags if there are any -> Kind. In it, shape and strides as bytes -> Known.
_kinds: dict[str, dict[Any, Kind]] = {NAME: {}, "dlpack_c_exchange": {}}


def meet(
    kinds: dict[Any, Kind], flags: int, what: bytes, protocol: str, apart: int | None = None, anywhere: bool = False
) -> Kind:
    """Work out what fields mean that are no numbers, and enter it.

    apart     the bytes from shape to strides, if they are mostly as many
    anywhere  take memory of all kinds, not the host's only
    returns   (apart, a function that reads shape and strides so far apart, else either of them, its first argument, what is known of
              the bytes that it returns, a function that works it out where they are new)
    raises    ProtocolError   what no view can have
              KeyError        memory elsewhere
              ValueError      no distance for so many extents
    """
    type_, id_, ndim, code, bits, lanes = unpack("iiiBBH", what)
    if not 0 <= ndim <= layout.MAX_NDIM:
        raise refusal(protocol, "ndim", ndim, f"lies in 0 .. {layout.MAX_NDIM}")
    dtype = from_dlpack(code, bits, lanes, bool(flags & 4))
    if dtype.packed:
        raise refusal(
            protocol,
            "dtype",
            (code, bits, lanes),
            f"packs several {dtype} into a byte, so elements have no address; export them "
            "padded, or in lanes that fill a byte",
        )
    where = place(_device(type_, id_, protocol), bool(flags & 1), protocol)
    if where.device != HOST and not anywhere:
        raise KeyError(where)
    extent = 8 * ndim
    if apart is None:
        apart, form = extent, f"{extent}s"
    elif not extent <= apart <= 1024:
        raise ValueError(apart)
    else:
        form = f"{2 * extent}s" if apart == extent else f"{extent}s{apart - extent}x{extent}s"
    read = reader(form)
    known: dict[tuple[bytes, ...], Known] = {}
    if len(kinds) >= 100:
        kinds.clear()
    work_out = partial(_work_out, known, ndim, Struct(f"{2 * ndim}q"), dtype, where)
    kind = kinds[(flags, what) if flags else what] = apart, read.func, read.args[0], known, work_out
    return kind


def _work_out(
    known: dict[tuple[bytes, ...], Known], ndim: int, both: Struct, dtype: DType, where: Place, seen: tuple[bytes, ...]
) -> Known:
    """Check extents and, if there are any, strides, and enter what they mean."""
    raw, itemsize = b"".join(seen), dtype.itemsize
    if len(raw) == both.size:
        numbers = both.unpack(raw)
    else:
        numbers = unpack(f"{ndim}q", raw)
        numbers += layout.c_strides(numbers, 1)
    shape, strides, total, low, high = numbers[:ndim], [], itemsize, 0, itemsize
    for n, step in zip(shape, numbers[ndim:]):
        step *= itemsize
        strides.append(step)
        if n < 0:
            raise refusal(where.protocol, "shape", shape, "has a negative extent; the exporter is at fault")
        total *= n or 1
        if step < 0:
            low += (n - 1) * step
        else:
            high += (n - 1) * step
    if total > layout.LIMIT:
        try:
            layout.checked_size(shape, itemsize)
        except ValueError as error:
            raise refusal(where.protocol, "shape", shape, str(error)) from None
    if (low < -layout.LIMIT or high > layout.LIMIT) and 0 not in shape:
        raise refusal(
            where.protocol, "strides", numbers[ndim:], "reach further than any memory; the exporter is at fault"
        )
    if len(known) >= 1000:
        known.clear()
    made = known[seen] = shape, tuple(strides), dtype, where
    return made


def describe_tensor(
    address: int,
    versioned: bool,
    owner: Any,
    kind: type[Description] = Description,
    *,
    readonly: bool = True,
    protocol: str = NAME,
) -> Description:
    """Describe the managed tensor at an address.

    owner     what keeps the tensor alive
    readonly  what a legacy tensor counts as
    raises    ProtocolError   another major version, and each field that no view can have
    """
    if versioned:
        major, flags, *tensor = _read_versioned(address)
        if major != VERSION[0]:
            raise refusal(
                protocol,
                "version.major",
                major,
                "is not 1, so what follows may be laid out otherwise; ask with max_version=(1, 3)",
            )
    else:
        flags, tensor = int(readonly), [*read_legacy(address)]
    return describe_fields(owner, kind, protocol, flags, *tensor)


def describe_fields(
    owner: Any,
    kind: type[Description],
    protocol: str,
    flags: int,
    data: int,
    what: bytes,
    shape: int,
    strides: int,
    offset: int,
) -> Description:
    """Describe a tensor whose struct was read: `what` is DLDevice, ndim and DLDataType as they lie there."""
    kinds = _kinds[protocol]
    extent, numbers, sized, known, work_out = kinds.get((flags, what) if flags else what) or meet(
        kinds, flags, what, protocol, anywhere=True
    )
    for field, pointer in ("shape", shape), ("strides", strides):
        if extent and not 0xFFF < pointer < 2**63 and (pointer or field == "shape"):
            raise refusal(protocol, field, hex(pointer), "is no pointer; the exporter is at fault")
    # without dimensions both pointers may be null, or point anywhere
    seen = () if not extent else numbers(sized, shape) + numbers(sized, strides) if strides else numbers(sized, shape)
    extents, steps, dtype, where = known.get(seen) or work_out(seen)
    address = data + offset
    if address >= 2**64 or not data and 0 not in extents:
        raise refusal(
            protocol, "data", data, f"with byte_offset {offset} is no address of elements; the exporter is at fault"
        )
    return kind(address, extents, steps, dtype, where, owner)


def _device(type_: int, id_: int, protocol: str) -> tuple[str, int]:
    if type_ in (_CPU, _ROCM_HOST):
        return "cpu", 0  # some exporters leave the id of host memory undefined
    if type_ == _CUDA_HOST:
        return "cuda_host", 0
    if type_ in (_CUDA, _CUDA_MANAGED):
        if id_ < 0:
            raise refusal(protocol, "device.device_id", id_, "is negative; the exporter is at fault")
        return ("cuda" if type_ == _CUDA else "cuda_managed"), id_
    name = next((name for name, number in DEVICE_TYPES.items() if number == type_), "unknown to DLPack 1.3")
    raise refusal(
        protocol, "device.device_type", type_, f"({name}) is neither host nor CUDA memory; copy it to the host first"
    )


# -- the capsule

_unpack, _window, _new = (
    _read_versioned.func,
    _read_versioned.args[0],
    object.__new__,
)  # a partial, called with its parts, costs less
_ndarrays: dict[Any, Kind] = {}


def can_be_short(array: Any, way: Any) -> bool:
    """Tell whether arrays of a type can go a short way: describe_ndarray's, if the C code of them all answers with a versioned capsule.

    On all of them a capsule is found by its hash, which is its address by 16; unlike id() it raises no audit event.
    """
    try:
        return 16 * object.__hash__(array) == id(array) and (
            way is describe_jax or identify(array.__dlpack__(max_version=VERSION))[1]
        )
    except (TypeError, BufferError):  # an older NumPy, or not this array
        return False


def describe_ndarray(array: Any, kind: type[Description] = Description) -> Description | None:
    """Describe a numpy.ndarray or a tvm-ffi Tensor, exactly of that type, the short way; None leaves it to describe().

    What kind of capsule comes need not be asked: C code that nobody can change has made it. (Null pointers are not `apart`.)
    """
    try:
        capsule = array.__dlpack__(max_version=VERSION)
        major, flags, data, what, shape, strides, offset = _unpack(_window, pointers[hash(capsule)])
        try:
            apart, numbers, sized, known, work_out = _ndarrays[(flags, what) if flags else what]
        except KeyError:
            apart, numbers, sized, known, work_out = meet(_ndarrays, flags, what, NAME, strides - shape)
        if strides - shape != apart or offset or not data or major != 1:
            return None
        made = _new(kind)
        seen = numbers(sized, shape)
        try:
            made.shape, made.strides, made.dtype, made._place = known[seen]
        except KeyError:
            made.shape, made.strides, made.dtype, made._place = work_out(seen)
    except (
        KeyError,
        ValueError,
        TypeError,
        BufferError,
    ):  # not in host memory, or nothing that DLPack can say, or a view have
        return None
    made.ptr = data
    made.owner = capsule
    made.stream = None
    return made


def describe_capsule(capsule: Any, kind: type[Description] = Description, *, readonly: bool = True) -> Description:
    """Describe the tensor in a capsule that the user handed us, and consume it; a refusal leaves it as it was.

    readonly  what a legacy capsule counts as
    raises    ProtocolError   consumed before, another name, or what describe_tensor refuses
    """
    with taking:
        address, versioned = identify(capsule)
        made = describe_tensor(address, versioned, None, kind, readonly=readonly)
        made.owner = consume(capsule)
    return made


def describe(
    exporter: Any,
    kind: type[Description] = Description,
    *,
    stream: int = 1,
    writable: bool = False,
    cuda: Callable[[], CudaSide] = CudaSide,
) -> Description | None:
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
        tracing.emit(
            tracing.Step(
                NAME,
                f"{type(exporter).__name__}.__dlpack__()",
                f"-> dltensor{'_versioned' if versioned else ''}, "
                f"device {made._place.device}, shape {made.shape}, strides {made.strides}, {made.dtype}",
                address,
            )
        )
    if said is not None:
        _compare_devices(said, made)
    if not versioned and not writable and _own_word_is_writable(exporter, made):
        made._place = place(made._place.device, False, NAME)
    return made


def _asked_device(exporter: Any) -> tuple[int, int] | None:
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


def _ask_on_stream(ask: Callable[..., Any], said: tuple[int, int], stream: int, cuda: CudaSide) -> Any:
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
                again: dict[str, Any] = {"stream": None}
            elif said[0] == _CUDA_MANAGED and cuda.settle(said[1]):
                again = {}
            else:
                raise
            try:
                return _ask(ask, again)
            except Exception:
                raise first from None


def _ask(ask: Callable[..., Any], stream: dict[str, Any]) -> Any:
    """Call `__dlpack__`, asking for the newest version first; what cannot be understood is left out, but not the stream."""
    try:
        return ask(max_version=VERSION, **stream)
    except (TypeError, BufferError) as first:
        if isinstance(first, ProtocolError):
            raise
        try:
            return ask(**stream)
        except BufferError as answer:  # to a question that an older exporter did understand
            raise (answer if isinstance(first, TypeError) else first) from None
        except Exception:
            raise first from None  # it was no matter of keywords


def _compare_devices(said: tuple[int, int], made: Description) -> None:
    """Refuse a capsule that contradicts `__dlpack_device__`; torch calls pinned memory 3 there and 1 in the capsule."""
    kind, ordinal = made._place.device or ("cpu", 0)
    if said[0] in _HOST:
        agrees = kind in ("cpu", "cuda_host")
        if agrees and said[0] == _CUDA_HOST and kind == "cpu":
            made._place = place(("cuda_host", 0), made._place.readonly, NAME)
    else:
        agrees = (kind, ordinal) == ({_CUDA: "cuda", _CUDA_MANAGED: "cuda_managed"}.get(said[0]), said[1])
    if not agrees:
        raise refusal(
            NAME,
            "__dlpack_device__",
            said,
            f"contradicts the capsule, which is on {kind} {ordinal}; the exporter is at fault",
        )


def _own_word_is_writable(exporter: Any, made: Description) -> bool:
    """Tell whether the exporter's own array interface calls this memory writable."""
    on_host = made._place.device is not None and made._place.device[0] in ("cpu", "cuda_host")
    try:
        address, readonly = getattr(exporter, "__array_interface__" if on_host else "__cuda_array_interface__")["data"]
    except Exception:  # not offered, or not for this array: then it has not said so
        return False
    return readonly is False and address == made.ptr


# -- JAX

_arrays: dict[Any, Kind] = {}
_unpack_legacy = read_legacy.func
_seen_names: dict[int, bool] = {}  # where a name was read, which never moves: whether it is that of a versioned capsule
_elsewhere: list[bool] = []  # not empty once an array was seen that is not in host memory


def describe_jax(array: Any, kind: type[Description] = Description) -> Description | None:
    """Describe a JAX array, exactly of that type, in host memory, the short way; None leaves it to describe().

    Its device is told by the capsule, which stands for the legacy stream where it is CUDA memory after all; then all is left to describe().
    """
    if _elsewhere or getattr(array, "__array_interface__", None) is not None:
        return None
    try:
        capsule = array.__dlpack__(max_version=VERSION)
        if not is_capsule(capsule):
            return None
        here = hash(capsule)
        versioned = _seen_names.get(names[here])
        if versioned is None:
            versioned = identify(capsule)[1]
            if len(_seen_names) < 100:
                _seen_names[names[here]] = versioned
        if versioned:
            major, flags, data, what, shape, strides, offset = _unpack(_window, pointers[here])
        else:
            data, what, shape, strides, offset = _unpack_legacy(_window, pointers[here])
            major, flags = 1, 1  # a legacy tensor counts as read-only
        try:
            _, numbers, sized, known, work_out = _arrays[(flags, what) if flags else what]
        except KeyError:
            _, numbers, sized, known, work_out = meet(_arrays, flags, what, NAME)
        if offset or not data or shape < 4096 or 0 < strides < 4096 or major != 1:
            return None
        made = _new(kind)
        seen = numbers(sized, shape)
        if strides:
            seen += numbers(sized, strides)
        try:
            made.shape, made.strides, made.dtype, made._place = known[seen]
        except KeyError:
            made.shape, made.strides, made.dtype, made._place = work_out(seen)
    except KeyError:  # not in host memory
        _elsewhere.append(True)
        return None
    except (ValueError, TypeError, BufferError):  # an array that DLPack cannot say, or no view have
        return None
    made.ptr = data
    made.owner = capsule
    made.stream = None
    return made
