"""Reading DLPack through Python: `__dlpack_device__`, `__dlpack__`, and the capsule that it returns.

The protocol  Ask for the device; ask for a capsule, with the newest version that we can read and, for CUDA memory only,
              the stream that will use it; then go by the capsule's name, not by the request.
Ownership     A capsule that we requested belongs to its view alone: its own destructor frees the tensor when the last
              view is freed. If another reference to it may exist, it is consumed, as is a capsule given by the user.
Negotiation   An exporter that does not know a keyword raises TypeError: it is called again without the version, but
              with the stream. If it raises BufferError, it is called once more for a legacy capsule. If that fails,
              the first error is raised.
Read-only     A legacy capsule cannot express it. Then the exporter's own array interface is consulted for the same
              address; without one the view is read-only, since immutable arrays (JAX's) come in such capsules.
Source        array API standard, `__dlpack__`, `__dlpack_device__`, `from_dlpack`; "Python Specification for DLPack";
              dlpack.h
Read next     tensor.py
"""

from __future__ import annotations

from _operator import index
from sys import getrefcount, modules

from .. import tracing
from ..dlpack import (
    FLAGS_AT,
    SIZE,
    VERSION,
    Capsule,
    consume,
    identify,
    immortal_names,
    is_capsule,
    names,
    pointers,
    taking,
)
from ..elements.layout import MAX_NDIM
from ..errors import ProtocolError, refusal
from ..interpreter.cpython import POINTER, has_plain_attributes, partial, unpacker, watch_forks, watched, window
from ..remembered import Remembered
from ..tracing import listeners
from .description import Description, place
from .device_memory import gpu
from .refusals import means_another
from .tensor import BY_CAPSULE, MOST_LAYOUTS, NO_FLAGS, describe_tensor, learn, read_versioned

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

__all__ = ["NAME", "describe", "describe_capsule", "describe_for", "is_capsule", "reader_in_c"]

NAME = "dlpack"
_CUDA, _CUDA_HOST, _ROCM_HOST, _CUDA_MANAGED = 2, 3, 11, 13
_HOST = (1, _CUDA_HOST, _ROCM_HOST)
_WITH_STREAM = (_CUDA, _CUDA_MANAGED)


def _count_alone() -> int:
    """Return the getrefcount() of an object that only one local variable refers to."""
    capsule = object()
    return getrefcount(capsule)


_ALONE = _count_alone()


# -- the capsule


def describe_capsule(capsule: Any, kind: type[Description] = Description, stream: Any = None) -> Description | None:
    """Describe the tensor in a capsule that the user gave, and consume it.

    If its fields are refused, it is unchanged. It is consumed before its device is looked for.

    raises    ProtocolError   already consumed, an unknown name, or a tensor that describe_tensor refuses
    """
    if not is_capsule(capsule):
        return None
    if not watched:
        watch_forks()
    with taking:
        address, versioned = identify(capsule)
        made = describe_tensor(kind, BY_CAPSULE, None, address, None if versioned else NO_FLAGS)
        made._owner = consume(capsule)
    return made


# -- exporters whose methods are C functions


def reader_in_c(type_: type, array: Any, read_any: Any, read_others: Any) -> Any:
    """Return a reader for a type whose `__dlpack__` and `__dlpack_device__` are C functions, otherwise None.

    NumPy's arrays and subclasses are of this kind. The device that such a type reports is always the capsule's, so it
    is not asked for. Attributes added later to an object or a class are still honoured: `read_any` reads those.
    Measured on 3.11: 300 ns of 1,250 are saved.

    array      one of its objects, which is exported as a trial, unless the type is NumPy's
    read_any     the reader that tries all protocols, for arrays that are not in host memory
    read_others  the reader that tries all protocols but this one, for arrays that DLPack cannot describe
    Why long   the reader that it returns uses its variables: attributes would take longer
    """
    ask: Any = getattr(type_, "__dlpack__", None)
    say = getattr(type_, "__dlpack_device__", None)
    if {type(ask), type(say)} != {_METHOD} or not has_plain_attributes(type_):
        return None
    name, by_ndim, has_dict = 0, _numpy_readers(ask), type_.__dictoffset__ != 0
    if not by_ndim:
        try:
            trial = ask(array, max_version=VERSION)
            if not identify(trial)[1] or getrefcount(trial) > _ALONE or ask(array, max_version=VERSION) is trial:
                return None
        except (TypeError, BufferError):  # a NumPy older than 2.1, or not this array
            return None
        name = names[hash(trial)]
    can_change = has_dict or type_.__flags__ & _HEAP != 0
    plain: Any = type_.__getattribute__
    ndim_of: Any = by_ndim and modules["numpy"].ndarray.ndim.__get__
    dtype_of: Any = by_ndim and modules["numpy"].ndarray.dtype.__get__
    unfit: Remembered[Any, Any] = Remembered(100)  # the readers of dates, which the array interface names completely

    def read(array: Any, kind: type[Description], stream: Any = None) -> Description | None:
        if can_change:
            its: Any = type(array)
            if (
                its.__dlpack__ is not ask
                or its.__dlpack_device__ is not say
                or its.__getattribute__ is not plain
                or has_dict
                and (own := array.__dict__)
                and ("__dlpack__" in own or "__dlpack_device__" in own)
            ):
                return read_any(array, kind, stream)  # type: ignore[no-any-return]
        if listeners:
            return read_any(array, kind, stream)  # type: ignore[no-any-return]
        try:
            capsule = ask(array, max_version=VERSION)
            if by_ndim:
                unpack = by_ndim[ndim_of(array)] or _numpy_reader(by_ndim, ndim_of(array))
                flags, data, what, seen = unpack(window, pointers[hash(capsule)])
                key = what, flags, seen
                try:
                    extents, steps, dtype, where = _numpy_layouts.answers[key]
                except KeyError:
                    if len(seen) != 16 * what[_NDIM_AT]:  # another thread has given the array another shape meanwhile
                        return read_any(array, kind, stream)  # type: ignore[no-any-return]
                    extents, steps, dtype, where = _learn_of_numpy(key)
                made: Any = kind()
                made._ptr, made._shape, made._strides, made._dtype = data, extents, steps, dtype
                made._place, made._owner, made.stream = where, capsule, None
                made._side = None
                return made  # type: ignore[no-any-return]
            if type(capsule) is not Capsule or names[hash(capsule)] != name or getrefcount(capsule) > _ALONE:
                return read_any(array, kind, stream)  # type: ignore[no-any-return]
            made = describe_tensor(kind, BY_CAPSULE, capsule, pointers[hash(capsule)])
            if made._place.is_host:
                return made  # type: ignore[no-any-return]
        except Exception as refused:
            if type(refused) is not BufferError and not means_another(refused):
                raise
            try:
                of_dtype: Any = by_ndim and dtype_of(array)
                known = None
                if by_ndim:
                    known = unfit.answers.get(of_dtype)
                if known is not None:  # a buffer has no datetimes either, and takes 1,000 ns to refuse them
                    return known(array, kind, stream)  # type: ignore[no-any-return]
                made = read_others(array, kind, stream)
                if by_ndim and made._place.protocol == "array_interface" and made._dtype.typestr[1] in "mM":
                    from .array_interface import reader_for

                    unfit.keep(of_dtype, reader_for(read_any, read_others, False))
                return made  # type: ignore[no-any-return]
            except Exception as again:  # (this error would hide the reason of DLPack)
                if not means_another(again):
                    raise
        return read_any(array, kind, stream)  # type: ignore[no-any-return]

    return read


# NumPy's own function makes a new capsule at each call, with shape and strides directly after the tensor. So its
# capsules are not examined further, one read gets all fields, and one look-up finds their meaning. This saves 250 ns of
# 740 against describe_tensor() and the checks of capsules from other functions.
# (what, flags, shape and strides) -> shape, strides, dtype, Place
_numpy_layouts: Remembered[Any, tuple[tuple[int, ...], tuple[int, ...], Any, Any]] = Remembered(MOST_LAYOUTS)


def _numpy_readers(ask: Any) -> list[Any]:
    """Return a list for functions that read flags, address, `what`, and shape with strides, by number of dimensions.

    The list is empty if `ask` is not NumPy's own function, or if it puts shape and strides elsewhere.
    """
    numpy: Any = modules.get("numpy")
    if numpy is None or numpy.ndarray.__dlpack__ is not ask:
        return []
    whole = numpy.zeros((2, 3, 4))
    for sample in whole, whole[0, 0, :0]:
        try:
            capsule = ask(sample, max_version=VERSION)
        except TypeError:  # a NumPy older than 2.1
            return []
        address, numbers = pointers[hash(capsule)], pointers[hash(capsule)] + SIZE
        major, _, _, _, shape, strides, offset = read_versioned(window, address)
        if (major, shape, strides, offset) != (1, numbers, numbers + 8 * sample.ndim, 0) or not identify(capsule)[1]:
            return []
        immortal_names[names[hash(capsule)]] = True  # it is part of NumPy's library, which is never unloaded
    return [None] * (MAX_NDIM + 1)


def _numpy_reader(by_ndim: list[Any], ndim: int) -> Any:
    made = by_ndim[ndim] = unpacker(f"{FLAGS_AT}xQP16s{SIZE - FLAGS_AT - 24 - POINTER}x{16 * ndim}s")
    return made


_NDIM_AT = 8  # the lowest byte of ndim in `what`, after the type and the number of the device


def _learn_of_numpy(key: tuple[bytes, int, bytes]) -> tuple[Any, Any, Any, Any]:
    """Check a layout as describe_tensor() does, and store its meaning."""
    what, flags, seen = key
    _, _, _, work_out, _ = BY_CAPSULE.answers.get((flags, what) if flags else what) or learn(BY_CAPSULE, flags, what, 0)
    return _numpy_layouts.keep(key, work_out((seen,))[:4])


_METHOD: Any = type(str.upper)  # of a C function that is a method
_HEAP = 1 << 9  # Py_TPFLAGS_HEAPTYPE: a class that Python code made, and can change


# -- every other exporter


def describe_for(type_: type) -> Any:
    """Return describe(), prepared for a type whose `__dlpack__` is a Python function that cannot take max_version."""
    function = getattr(type_, "__dlpack__", None)
    code: Any = getattr(function, "__code__", None)
    if type(function) is not type(describe_for) or code.co_flags & _ANY_KEYWORD or "max_version" in code.co_varnames:
        return describe
    return partial(describe, without_version=code)


_ANY_KEYWORD = 8  # inspect.CO_VARKEYWORDS


def describe(
    exporter: Any, kind: type[Description] = Description, stream: Any = None, without_version: Any = None
) -> Description | None:
    """Describe the tensor from `__dlpack__`, or return None if the exporter does not offer it.

    kind      the class to make, with Description's attributes
    stream    the stream that will use CUDA memory, as the user gave it; exporters of host memory get none
    without_version  the code of functions that would refuse max_version: not giving it saves 800 ns
    raises    ProtocolError   a tensor that describe_tensor refuses, or that contradicts `__dlpack_device__`
              BufferError and any other   raised by the exporter, unchanged
    """
    ask = getattr(exporter, "__dlpack__", None)
    if ask is None:
        return None
    say = getattr(exporter, "__dlpack_device__", None)
    said: Any
    if say is None:
        said = None
    else:
        said = say()
    if said is not None:
        if type(said) is not tuple or len(said) != 2 or type(said[0]) is not int or type(said[1]) is not int:
            said = _two_ints(said)
    if said is not None and said[0] in _WITH_STREAM:
        capsule = _ask_on_stream(ask, said, stream)
    elif without_version is not None and getattr(getattr(ask, "__func__", None), "__code__", None) is without_version:
        capsule = ask()
    else:
        try:
            capsule = ask(max_version=VERSION)
        except (TypeError, BufferError) as first:
            capsule = _ask_again(ask, first, {})
    shared = getrefcount(capsule) > _ALONE  # something else could consume it
    if shared:
        if not watched:
            watch_forks()
        with taking:  # two threads may have got the same capsule
            address, versioned = identify(capsule)
            made = describe_tensor(kind, BY_CAPSULE, capsule, address, None if versioned else NO_FLAGS)
    else:
        address, versioned = identify(capsule)
        made = describe_tensor(kind, BY_CAPSULE, capsule, address, None if versioned else NO_FLAGS)
    if said != made._place.label or not versioned or listeners:
        _check_fetched(exporter, made, address, versioned, said)  # no lock is held: it calls the exporter and listeners
    if shared:
        made._owner = consume(capsule)  # unless something else has consumed it meanwhile
    return made


def _check_fetched(
    exporter: Any, made: Description, address: int, versioned: bool, said: tuple[int, int] | None
) -> None:
    """Report a tensor to the listeners, compare its device with `__dlpack_device__`, and ask whether it is writable."""
    if listeners:
        tell(exporter, made, address, versioned)
    if said is not None and said != made._place.label:
        _compare_devices(said, made)
    if not versioned and _own_word_is_writable(exporter, made):
        made._place = place(made._place.device, False, NAME)


def tell(exporter: Any, made: Description, address: int, versioned: bool = True) -> None:
    """Report the contents of a capsule to the listeners."""
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
    """Check the result of `__dlpack_device__`; Paddle's id may be None."""
    try:
        type_, id_ = said
        return index(type_), 0 if id_ is None else index(id_)
    except (TypeError, ValueError):
        raise refusal(NAME, "__dlpack_device__", said, "must be a pair of ints; the exporter is at fault") from None


def _ask_on_stream(ask: Callable[..., Any], said: tuple[int, int], stream: Any) -> Any:
    """Request CUDA memory with a stream; repeat the request without one only if no work can be pending."""
    handle = gpu.handle_of(stream)
    try:
        around = gpu.device_around(said[1])
    except ValueError as error:
        raise refusal(NAME, "__dlpack_device__", said, f"{error}; the exporter is at fault") from None
    if around is None:
        return _ask_for(ask, said, handle)
    with around:  # torch exports from the current device only
        return _ask_for(ask, said, handle)


def _ask_for(ask: Callable[..., Any], said: tuple[int, int], handle: int) -> Any:
    """Request CUDA memory for a stream, given by its handle."""
    try:
        try:
            return ask(max_version=VERSION, stream=handle)
        except (TypeError, BufferError) as refused:
            return _ask_again(ask, refused, {"stream": handle})
    except Exception as first:
        if isinstance(first, (ProtocolError, MemoryError)):
            raise
        # Exporters refuse a stream with any of six types of exception, so these are not distinguished. None means
        # the legacy stream: that waits for more than the requested -1, never for less.
        if handle == -1:
            again: dict[str, Any] = {"stream": None}
        elif said[0] == _CUDA_MANAGED and gpu.synchronize_device(said[1]):
            again = {}
        else:
            raise
        try:
            try:
                return ask(max_version=VERSION, **again)
            except (TypeError, BufferError) as refused:
                return _ask_again(ask, refused, again)
        except MemoryError:
            raise
        except Exception:
            pass
        raise


def _ask_again(ask: Callable[..., Any], first: Exception, stream: dict[str, Any]) -> Any:
    """Repeat a request without a version, after an exception, but never without the stream."""
    try:
        if isinstance(first, ProtocolError):
            raise first
        try:
            return ask(**stream)
        except BufferError as answer:  # an older exporter has understood this request, and refuses it
            if isinstance(first, TypeError):
                raise answer from None
        except MemoryError:
            raise
        except Exception:  # the keyword was not the reason
            pass
        raise first  # (with its own cause)
    finally:
        del first  # its traceback refers to this frame: a reference cycle that keeps the exporter alive


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
    """Tell whether the exporter's own array interface declares this memory writable."""
    on_host = made._place.device is not None and made._place.device[0] in ("cpu", "cuda_host")
    try:
        interface = getattr(exporter, "__array_interface__" if on_host else "__cuda_array_interface__", None)
        if interface is None:
            return False
        address, readonly = interface["data"]
    except Exception:  # it is not available for this array, so it declares nothing
        return False
    return readonly is False and address == made.ptr
