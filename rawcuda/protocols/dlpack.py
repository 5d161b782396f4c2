"""Read DLPack at Python's level: `__dlpack_device__`, `__dlpack__`, and the capsule that comes.

The protocol  Ask for the device; ask for a capsule, with the newest version that we read and, for CUDA memory only,
              the stream that will use it; go by the capsule's name, not by what was asked.
Ownership     A capsule that we fetched belongs to its view alone: its own destructor frees the tensor when the last
              view goes. If anything else could hold the capsule, it is consumed, as is one that the user handed to us.
Negotiation   An exporter older than a keyword raises TypeError: it is asked again without the version, the stream
              kept. One that refuses (BufferError) is asked once for the older kind. If that fails, the first error is
              raised.
Read-only     A legacy capsule cannot say. Then the exporter's own array interface is asked about the same address; if
              it has none, the view is read-only, since immutable arrays (JAX's) come in such capsules.
Source        array API standard, `__dlpack__`, `__dlpack_device__`, `from_dlpack`; "Python Specification for DLPack";
              dlpack.h
Read next     tensor.py
"""

from __future__ import annotations

from operator import index
from sys import getrefcount, modules

from .. import tracing
from ..dlpack import VERSION, Capsule, consume, identify, is_capsule, names, pointers, taking
from ..doors import gpu
from ..elements.layout import MAX_NDIM
from ..errors import ProtocolError, refusal
from ..interpreter.cpython import has_plain_attributes, unpacker, window
from .description import Description, place
from .tensor import BY_CAPSULE, LEGACY, describe_tensor, read_versioned

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

__all__ = ["NAME", "describe", "describe_capsule", "is_capsule", "reader_in_c"]

NAME = "dlpack"
_CUDA, _CUDA_HOST, _ROCM_HOST, _CUDA_MANAGED = 2, 3, 11, 13
_ON_HOST, _INTS = (1, 0), [int, int]
_HOST = (1, _CUDA_HOST, _ROCM_HOST)
_WITH_STREAM = (_CUDA, _CUDA_MANAGED)


def _count_alone() -> int:
    """Return what getrefcount() says of an object that only one local variable holds."""
    capsule = object()
    return getrefcount(capsule)


_ALONE = _count_alone()


# -- the capsule


def describe_capsule(capsule: Any, kind: type[Description] = Description, stream: Any = None) -> Description | None:
    """Describe the tensor in a capsule that the user handed to us, and consume it; a refusal leaves it as it was.

    raises    ProtocolError   consumed before, another name, or what describe_tensor refuses
    """
    if not is_capsule(capsule):
        return None
    with taking:
        address, versioned = identify(capsule)
        made = describe_tensor(kind, BY_CAPSULE, None, address, None if versioned else LEGACY)
        made._owner = consume(capsule)
    return made


# -- exporters whose types answer in C


def reader_in_c(type_: type, array: Any, otherwise: Any, rest: Any) -> Any:
    """Return a reader for the arrays of a type whose `__dlpack__` and `__dlpack_device__` are C functions; else None.

    NumPy's arrays and subclasses are of this kind. Such a type says of its device what it puts into the capsule, so
    the device need not be asked. What an object or a class was given since is still honoured: `otherwise` reads it.
    Measured on 3.11: 300 ns of 1,250 are saved.

    array      one of them, which is exported for a trial
    otherwise  the reader that tries all protocols, for arrays that are not in host memory
    rest       the reader that tries all protocols but this one, for arrays that DLPack cannot describe
    """
    ask: Any = getattr(type_, "__dlpack__", None)
    say = getattr(type_, "__dlpack_device__", None)
    if {type(ask), type(say)} != {_METHOD} or not has_plain_attributes(type_):
        return None
    try:
        trial = ask(array, max_version=VERSION)
        if not identify(trial)[1] or getrefcount(trial) > _ALONE or ask(array, max_version=VERSION) is trial:
            return None
    except (TypeError, BufferError):  # a NumPy older than 2.1, or not this array
        return None
    name, has_dict, listeners = names[hash(trial)], type_.__dictoffset__ != 0, tracing.listeners
    can_change = has_dict or type_.__flags__ & _HEAP != 0
    plain: Any = type_.__getattribute__
    by_ndim = _numpy_readers(ask)
    ndim_of: Any = by_ndim and modules["numpy"].ndarray.ndim.__get__

    def read(array: Any, kind: type[Description], stream: Any = None) -> Description | None:
        if listeners or (
            can_change
            and (
                type(array).__dlpack__ is not ask
                or type(array).__dlpack_device__ is not say
                or type(array).__getattribute__ is not plain
                or has_dict
                and ("__dlpack__" in (own := array.__dict__) or "__dlpack_device__" in own)
            )
        ):
            return otherwise(array, kind, stream)  # type: ignore[no-any-return]
        key = None
        try:
            capsule = ask(array, max_version=VERSION)
            if by_ndim:
                flags, data, what, seen = by_ndim[ndim_of(array)](window, pointers[hash(capsule)])
                key = what, flags, seen
                try:
                    extents, steps, dtype, where = _numpy_layouts[key]
                    made: Any = kind()
                    made.ptr, made.shape, made.strides, made.dtype = data, extents, steps, dtype
                    made._place, made._owner, made.stream = where, capsule, None
                    return made  # type: ignore[no-any-return]
                except KeyError:
                    pass
            elif type(capsule) is not Capsule or names[hash(capsule)] != name or getrefcount(capsule) > _ALONE:
                return otherwise(array, kind, stream)  # type: ignore[no-any-return]
            made = describe_tensor(kind, BY_CAPSULE, capsule, pointers[hash(capsule)])
            if made._place.is_host:
                if key:
                    _meet_numpys(key, made)
                return made  # type: ignore[no-any-return]
        except BufferError:
            try:
                return rest(array, kind, stream)  # type: ignore[no-any-return]
            except (BufferError, TypeError):  # whose words leave out why DLPack could not
                pass
        return otherwise(array, kind, stream)  # type: ignore[no-any-return]

    return read


# NumPy's own function makes a new capsule at each call, with shape and strides right behind the tensor. So capsules of
# its are not looked at further, one read gets all fields, and one look-up tells what they mean. This saves 250 ns of
# 740 against describe_tensor() and the checks of capsules from other functions.
_numpy_layouts: dict[Any, tuple[tuple[int, ...], tuple[int, ...], Any, Any]] = {}  # (what, flags, shape and strides) ->


def _numpy_readers(ask: Any) -> list[Any]:
    """Return what reads flags, address, `what`, and shape with strides, by the number of dimensions.

    There is nothing in the list if `ask` is not NumPy's own function, or if it puts shape and strides elsewhere.
    """
    numpy: Any = modules.get("numpy")
    if numpy is None or numpy.ndarray.__dlpack__ is not ask:
        return []
    whole = numpy.zeros((2, 3, 4))
    for sample in (whole, whole.T, whole[:, ::-1, ::2], whole[0], whole[0, 0], whole[0, 0, :0], whole[0, 0, 0:1]):
        capsule, behind = ask(sample, max_version=VERSION), 8 * sample.ndim
        address = pointers[hash(capsule)]
        major, _, _, _, shape, strides, offset = read_versioned(window, address)
        if (major, shape, strides, offset) != (1, address + _SIZE, address + _SIZE + behind, 0):
            return []
    readers: list[Any] = [unpacker(f"24xQQ16s24x{16 * ndim}s") for ndim in range(MAX_NDIM + 1)]
    return readers


_SIZE = 80  # of a DLManagedTensorVersioned


def _meet_numpys(key: tuple[bytes, int, bytes], made: Description) -> None:
    """Enter a layout that describe_tensor() has checked."""
    if len(_numpy_layouts) >= 1000:  # what comes from outside must not grow without limit
        _numpy_layouts.clear()
    _numpy_layouts[key] = made.shape, made.strides, made.dtype, made._place


_METHOD: Any = type(str.upper)  # of a C function that is a method
_HEAP = 1 << 9  # Py_TPFLAGS_HEAPTYPE: a class that Python code made, and can change


# -- every other exporter


def describe(exporter: Any, kind: type[Description] = Description, stream: Any = None) -> Description | None:
    """Describe what `__dlpack__` gives, or return None where it is not offered.

    kind      the class to make, with Description's attributes
    stream    the stream that CUDA memory will be used on, as the user gave it; exporters of host memory get none
    raises    ProtocolError   what describe_tensor refuses; a capsule that contradicts `__dlpack_device__`
              BufferError and any other   the exporter's own, unchanged
    """
    ask = getattr(exporter, "__dlpack__", None)
    if ask is None:
        return None
    say = getattr(exporter, "__dlpack_device__", None)
    said: Any = None if say is None else say()
    if said is not None and (type(said) is not tuple or [*map(type, said)] != _INTS):
        said = _two_ints(said)
    if said is not None and said[0] in _WITH_STREAM:
        capsule = _ask_on_stream(ask, said, stream)
    else:
        try:
            capsule = ask(max_version=VERSION)
        except (TypeError, BufferError) as first:
            capsule = _ask_again(ask, first, {})
    if getrefcount(capsule) <= _ALONE:  # nothing else can consume it
        return _describe_fetched(exporter, capsule, said, kind)
    with taking:  # two threads may have been given the same one
        made = _describe_fetched(exporter, capsule, said, kind)
        made._owner = consume(capsule)
    return made


def _describe_fetched(
    exporter: Any, capsule: Any, said: tuple[int, int] | None, kind: type[Description]
) -> Description:
    address, versioned = identify(capsule)
    made = describe_tensor(kind, BY_CAPSULE, capsule, address, None if versioned else LEGACY)
    if tracing.listeners:
        tell(exporter, made, address, versioned)
    if said is not None and (said != _ON_HOST or not made._place.is_host):
        _compare_devices(said, made)
    if not versioned and _own_word_is_writable(exporter, made):
        made._place = place(made._place.device, False, NAME)
    return made


def tell(exporter: Any, made: Description, address: int, versioned: bool = True) -> None:
    """Tell the listeners what a capsule said."""
    tracing.emit(
        tracing.Step(
            NAME,
            f"{type(exporter).__name__}.__dlpack__()",
            f"-> dltensor{'_versioned' if versioned else ''}, "
            f"device {made._place.device}, shape {made.shape}, strides {made.strides}, {made.dtype}",
            address,
        )
    )


def _two_ints(said: Any) -> tuple[int, int]:
    """Read what `__dlpack_device__` says; Paddle's id may be None."""
    try:
        type_, id_ = said
        return index(type_), 0 if id_ is None else index(id_)
    except (TypeError, ValueError):
        raise refusal(NAME, "__dlpack_device__", said, "is a pair of ints; the exporter is at fault") from None


def _ask_on_stream(ask: Callable[..., Any], said: tuple[int, int], stream: Any) -> Any:
    """Ask for CUDA memory: always with a stream, and never again without one, unless nothing can be pending."""
    cuda = gpu()
    handle = cuda.handle_of(stream)
    with cuda.device_around(said[1]):  # torch exports from the current device only
        try:
            try:
                return ask(max_version=VERSION, stream=handle)
            except (TypeError, BufferError) as refused:
                return _ask_again(ask, refused, {"stream": handle})
        except Exception as first:
            if isinstance(first, ProtocolError):
                raise
            # "Not that stream" comes as any of six types of exception, so none is told from another. None means the
            # legacy stream: more waiting than -1 asked for, never less.
            if handle == -1:
                again: dict[str, Any] = {"stream": None}
            elif said[0] == _CUDA_MANAGED and cuda.settle_device(said[1]):
                again = {}
            else:
                raise
            try:
                try:
                    return ask(max_version=VERSION, **again)
                except (TypeError, BufferError) as refused:
                    return _ask_again(ask, refused, again)
            except Exception:
                raise first from None


def _ask_again(ask: Callable[..., Any], first: Exception, stream: dict[str, Any]) -> Any:
    """Ask again without a version, after an exception. The stream is never left out."""
    try:
        if isinstance(first, ProtocolError):
            raise first
        try:
            return ask(**stream)
        except BufferError as answer:  # to a question that an older exporter did understand
            raise (answer if isinstance(first, TypeError) else first) from None
        except Exception:
            raise first from None  # it was not a matter of keywords
    finally:
        del first  # its traceback refers to this frame: a cycle that holds the exporter


def _compare_devices(said: tuple[int, int], made: Description) -> None:
    """Refuse a capsule that contradicts `__dlpack_device__`; torch calls pinned memory 3 there and 1 in the capsule."""
    kind, ordinal = made._place.device or ("cpu", 0)
    if said[0] in _HOST:
        agrees = kind in ("cpu", "cuda_host")
        if agrees and said[0] == _CUDA_HOST and kind == "cpu":
            made._place = place(("cuda_host", 0), made._place.readonly, NAME, made._place.unsaid)
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
        interface = getattr(exporter, "__array_interface__" if on_host else "__cuda_array_interface__", None)
        if interface is None:
            return False
        address, readonly = interface["data"]
    except Exception:  # not for this array: then it has not said so
        return False
    return readonly is False and address == made.ptr
