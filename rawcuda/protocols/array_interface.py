"""Reading `__array_interface__`, NumPy's protocol: a dict with the address and the layout of host memory.

The protocol  shape, typestr and version are required; data, strides, descr, mask and offset are optional. `data` is
              (address, read-only), an object with the buffer protocol, or missing: then the exporter itself is such an
              object. `offset` is used only with a buffer. Strides are in bytes; for C order they may be None or
              missing. The dict owns nothing: its reader must keep the exporter alive.
Care          The attribute is read once, because it may be computed at each access. AttributeError means "not
              offered"; any other exception comes from the exporter and is passed on.
Source        NumPy, "The array interface protocol", version 3
Read next     cuda_array_interface.py, which reads the same dict with a stream
"""

from __future__ import annotations

from _operator import index, itemgetter
from itertools import islice
from marshal import dumps, loads
from sys import modules

from .. import tracing
from ..elements import layout
from ..elements.dtypes import DType, from_typestr, is_numpys, of_numpy
from ..errors import protecting, refusal, worded
from ..remembered import Remembered
from .buffer import Held, address_of
from .description import HOST, Description, describe_as, place
from .refusals import means_another

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Callable

    from .description import Place

    Ints = tuple[int, ...]
    Meaning = tuple[Ints, Ints, DType, int, int, Any]

__all__ = [
    "NAME",
    "check_address",
    "check_interface",
    "describe",
    "from_interface",
    "meaning_of",
    "owner_of",
    "reader_by",
    "reader_for",
    "read_attribute",
    "read_layout",
    "read_pointer",
]

NAME = "array_interface"


def read_attribute(exporter: Any, protocol: str) -> Any:
    """Return the dict of an exporter by one of the two protocols, or None; see check_interface."""
    try:
        if protocol == NAME:
            interface = exporter.__array_interface__
        else:
            interface = exporter.__cuda_array_interface__
    except AttributeError:
        return None
    return check_interface(exporter, interface, protocol)


def check_interface(exporter: Any, interface: Any, protocol: str) -> Any:
    """Return the value of an exporter's attribute after a check, or None if it does not offer the protocol.

    raises   ProtocolError   the value is not a mapping
    """
    if not isinstance(interface, dict) and not (hasattr(interface, "keys") and hasattr(interface, "__getitem__")):
        if isinstance(exporter, type):  # the class has the property; only its instances have memory
            return None
        raise refusal(protocol, f"__{protocol}__", interface, "must be a dict; the exporter is at fault")
    if tracing.listeners:
        tracing.emit(tracing.Step(protocol, f"{type(exporter).__name__}.__{protocol}__", f"-> {dict(interface)!r}"))
    return interface


_DECIDE = "shape", "strides", "typestr", "descr", "mask", "version", "stream"  # the meaning, with the protocol
_REQUIRED = "shape", "typestr"  # a dict without these is refused, and never remembered


class _Form:
    """The dicts with the same keys: `values` gets what decides their meaning, and `known` has the meanings seen.

    The meaning of a dict, except its data, is determined once. The values are looked up as bytes, which distinguish 1
    from True and from 1.0.

    size    the number of keys. A dict with as many that has each of `decide`, "data" and `others` has no other key
    decide  the keys of `values`
    others  the remaining keys, without "data"
    """

    __slots__ = ("size", "decide", "values", "others", "known")

    def __init__(self, keys: tuple[Any, ...]) -> None:
        self.decide = decide = [key for key in _DECIDE if key in keys or key in _REQUIRED]
        self.size, self.values = len(keys), itemgetter(*decide)
        self.others = [key for key in keys if key not in decide and key != "data"]
        self.known: Remembered[bytes, Meaning] = Remembered(1000)


_forms: Remembered[tuple[Any, ...], _Form] = Remembered(100)  # by the protocol and the keys


def _form_of(interface: dict[str, Any], protocol: str) -> _Form:
    keys = protocol, *interface
    return _forms.answers.get(keys) or _forms.keep(keys, _Form(keys[1:]))


def _is_plain(value: Any) -> bool:
    """Tell whether a value that marshal read consists of ints and texts, so that marshal writes nothing else like it.

    marshal writes any buffer as bytes, so a number of NumPy may look like an array of another type.
    """
    kind = type(value)
    return kind is int or kind is str or value is None or (kind is tuple or kind is list) and all(map(_is_plain, value))


def owner_of(exporter: Any, interface: Any) -> Any:
    """Return what keeps the memory alive: the exporter, or the dict if it has "__ref".

    NumPy's scalars make an array for the dict, which refers to it by this key.
    """
    if "__ref" in interface:
        return interface
    return exporter


def meaning_of(interface: Any, protocol: str, stream_of: Any = None) -> Meaning:
    """Read and check everything in an interface except its data; see read_layout.

    stream_of  the function that reads the stream and the version
    returns    (shape, byte strides, dtype, *layout.bounds(), stream)
    """
    known: Any = None
    if type(interface) is dict:
        form = _form_of(interface, protocol)
        try:
            key = dumps(form.values(interface), 2)
            found = form.known.answers.get(key)
            if found is not None:
                return found
            values = None
            if len(key) < 1000:
                values = loads(key)
            if values and _is_plain(values):  # what is stored is read from the key: the dict may change meanwhile
                interface, known = dict(zip(form.decide, values)), form.known
        except (KeyError, ValueError):  # one of these is missing, or has a value that marshal does not write
            pass
    extents, strides, dtype = read_layout(interface, protocol)
    low, high = layout.bounds(extents, strides, dtype.itemsize)
    if stream_of is None:
        stream = None
    else:
        stream = stream_of(interface)
    made = extents, strides, dtype, low, high, stream
    if known is not None:
        known.keep(key, made)
    return made


def _ints(protocol: str, field: str, value: Any) -> Ints:
    """Read a tuple of ints; other sequences and NumPy's ints are accepted, bools are not."""
    try:
        if isinstance(value, (str, bytes)) or hasattr(value, "keys") or not hasattr(value, "__getitem__"):
            raise TypeError
        numbers = tuple(islice(value, layout.MAX_NDIM + 1))
        if bool in map(type, numbers):
            raise TypeError
        return tuple([int(index(n)) for n in numbers])
    except TypeError:
        raise refusal(protocol, field, value, "must be a tuple of ints") from None


def _get(interface: Mapping[str, Any], key: str) -> Any:
    """Return the value of a key in any mapping; None if it is missing."""
    try:
        return interface[key]
    except KeyError:
        return None


def _require(interface: Mapping[str, Any], key: str, protocol: str) -> Any:
    value = _get(interface, key)
    if value is None:
        raise refusal(protocol, key, None, "is missing; the protocol requires it")
    return value


def read_layout(interface: Mapping[str, Any], protocol: str) -> tuple[Ints, Ints, DType]:
    """Read and check shape, strides and dtype.

    returns  (shape, byte strides, dtype); missing strides mean C order, with the item size of the typestr
    raises   ProtocolError   a missing or malformed key, a negative extent, a shape too large, a mask, or strides of
                             another length
    """
    shape = _ints(protocol, "shape", _require(interface, "shape", protocol))
    typestr = _require(interface, "typestr", protocol)
    descr = _get(interface, "descr")
    if descr is not None and not isinstance(descr, list):
        raise refusal(protocol, "descr", descr, "must be a list of fields")
    if descr in ([("", typestr)], [["", typestr]]):
        descr = None  # this is the default
    dtype = from_typestr(typestr, descr, protocol=protocol)
    if len(shape) > layout.MAX_NDIM:
        raise refusal(protocol, "shape", shape, f"has more than {layout.MAX_NDIM} dimensions")
    if any(n < 0 for n in shape):
        raise refusal(protocol, "shape", shape, "has a negative extent; the exporter is at fault")
    try:
        layout.checked_size(shape, dtype.itemsize)
    except ValueError as error:
        raise refusal(protocol, "shape", shape, str(error)) from None
    if _get(interface, "mask") is not None:
        raise protecting(
            protocol, "mask", "of invalid elements", "cannot be kept by a view; fill or compress the array first"
        )
    given = _get(interface, "strides")
    if given is None:
        return shape, layout.c_strides(shape, dtype.itemsize), dtype
    strides = _ints(protocol, "strides", given)
    if len(strides) != len(shape):
        raise refusal(protocol, "strides", strides, f"have another length than shape {shape}; the exporter is at fault")
    if any(abs(n) > layout.LIMIT for n in strides):
        raise refusal(protocol, "strides", strides, "do not fit into 64 bits")
    return shape, strides, dtype


def read_pointer(data: Any, protocol: str) -> tuple[int, bool]:
    """Read `data` of the form (address, read-only); None as an address (of some empty arrays) means 0."""
    if not isinstance(data, (tuple, list)) or len(data) != 2:
        raise refusal(protocol, "data", data, "must be (address, read-only)")
    address, readonly = data
    if isinstance(address, bool):
        raise refusal(protocol, "data", data, "must have an address that is an int, not a bool")
    if address is None:
        address = 0
    try:
        address = index(address)
    except TypeError:
        raise refusal(protocol, "data", data, "must have an address that is an int") from None
    if not 0 <= address < 2**64:
        raise refusal(protocol, "data", data, "must have an address in 0 .. 2**64-1")
    if not isinstance(readonly, (bool, int)) and type(readonly).__name__ not in ("bool_", "bool"):
        raise refusal(protocol, "data", data, "must have a read-only flag that is a bool")
    return address, bool(readonly)


def check_address(address: int, meaning: Meaning, protocol: str) -> None:
    """Check that the elements lie within the address space, and that only an empty array is at address 0."""
    shape, strides, _, low, high, _ = meaning
    if not low <= address <= high:
        raise layout.misplaced(protocol, address, shape, strides)


def describe(exporter: Any, kind: type[Description] = Description, stream: Any = None) -> Description | None:
    """Describe the memory by `__array_interface__`, or return None if it is not offered.

    kind     the class to make, with Description's arguments
    raises   ProtocolError   malformed: see read_layout, read_pointer; or a buffer too small for the shape
    """
    interface = read_attribute(exporter, NAME)
    if interface is None:
        return None
    if is_numpys(exporter, "ndarray", "generic") and _is_numpys_own(exporter, interface):
        return _from_numpy(exporter, interface, kind)
    return from_interface(exporter, interface, kind)


def _is_numpys_own(exporter: Any, interface: Any) -> bool:
    """Tell whether a dict is about the array itself: a subclass may export other memory."""
    own, numpy = type(exporter).__array_interface__, modules["numpy"]
    return own is numpy.ndarray.__array_interface__ or own is numpy.generic.__array_interface__


def _from_numpy(exporter: Any, interface: Any, kind: type[Description]) -> Description:
    """Describe an array or a scalar of NumPy, whose dtype may say more than the dict: for example bfloat16.

    The dict has no name for the dtypes of other libraries, and for fields that overlap or are out of order.
    """
    numpy: Any = modules["numpy"]
    own = numpy.ndarray if isinstance(exporter, numpy.ndarray) else numpy.generic  # a subclass may say something else
    shape, strides, dtype = (getattr(own, name).__get__(exporter) for name in ("shape", "strides", "dtype"))
    dtype = of_numpy(dtype, NAME)
    address, readonly = read_pointer(interface["data"], NAME)
    owner: Any = exporter
    if "__ref" in interface:  # for this, a scalar makes an array, which only the dict keeps alive
        owner, readonly, dtype = interface, True, of_numpy(interface["__ref"].dtype, NAME)
    made: Description = describe_as(kind, address, shape, strides, dtype, place(HOST, readonly, NAME), owner)
    return made


def from_interface(exporter: Any, interface: Any, kind: type[Description]) -> Description:
    """Describe the memory by the value of an `__array_interface__`; see describe()."""
    meaning = meaning_of(interface, NAME, _check_version)
    shape, strides, dtype = meaning[:3]
    data = _get(interface, "data")
    if isinstance(data, (tuple, list)):
        address, readonly = read_pointer(data, NAME)
        owner = owner_of(exporter, interface)
        check_address(address, meaning, NAME)
    else:
        address, readonly, owner = _in_buffer(exporter if data is None else data, interface, shape, strides, dtype)
    made: Description = describe_as(kind, address, shape, strides, dtype, place(HOST, readonly, NAME), owner)
    return made


def reader_for(read_any: Any, read_others: Any, can_have_dlpack: bool) -> Any:
    """Return a reader for a type whose objects have `__array_interface__`; see reader_by."""
    earlier: tuple[str, ...] = ()
    if can_have_dlpack:
        earlier = ("__dlpack__", "__cuda_array_interface__")
    return reader_by(
        NAME, earlier, from_interface, (place(HOST, False, NAME), place(HOST, True, NAME)), read_any, read_others
    )


def reader_by(
    protocol: str,
    earlier: tuple[str, ...],
    from_interface: Callable[[Any, Any, Any], Description],
    places: tuple[Place, Place],
    read_any: Any,
    read_others: Any,
    cuda: Any = None,
) -> Any:
    """Return a reader for the objects of a type: a dict whose keys and values are known only has its data read.

    earlier         attributes of protocols that come first, in case an object or its class gets one later
    from_interface  the function that reads any dict
    places          the Places of writable and of read-only memory
    read_any        the reader that tries all protocols, for everything unusual
    read_others     the reader that tries all protocols but this one
    cuda            for CUDA memory: the names of gpu/for_arrays.py, which finishes views of it
    Why long        the reader that it returns uses its variables: attributes would take longer
    """
    attribute, listeners = f"__{protocol}__", tracing.listeners
    first = ""
    if earlier:
        first = earlier[0]
    form = _Form(())

    def read(exporter: Any, kind: type[Description], stream: Any = None) -> Description | None:
        nonlocal form
        if listeners or first and hasattr(exporter, first) or len(earlier) > 1 and hasattr(exporter, earlier[1]):
            return read_any(exporter, kind, stream)  # type: ignore[no-any-return]
        try:
            interface: Any = getattr(exporter, attribute, _MISSING)
            try:
                like = form  # (another thread may replace it)
                if type(interface) is dict and len(interface) == like.size:
                    shape, strides, dtype, low, high, pending = like.known.answers[dumps(like.values(interface), 2)]
                    address, readonly = data = interface["data"]
                    for key in like.others:
                        interface[key]  # raises KeyError
                    plain = type(data) is tuple and type(address) is int and type(readonly) is bool
                    if plain and low <= address <= high:
                        made: Any = (kind if pending is None else kind._streamed)()
                        made._ptr, made._shape, made._strides, made._dtype = address, shape, strides, dtype
                        made._side = None
                        made._owner = owner_of(exporter, interface) if like.others else exporter
                        if cuda is not None and low and pending is None:  # finish_view() in short, which saves 100 ns
                            found = cuda.places_at(address)[readonly]
                            if found.device is not None:
                                made._place = found
                                made.stream = None if stream is None else cuda.noted_form(stream)
                                return made  # type: ignore[no-any-return]
                        made._place, made.stream = places[readonly], pending
                        if cuda is not None:
                            cuda.finish_view(made, stream)
                        return made  # type: ignore[no-any-return]
            except (KeyError, ValueError, TypeError):  # new, or unusual
                pass
            if interface is not _MISSING:
                if type(interface) is not dict:
                    interface = check_interface(exporter, interface, protocol)
                made = from_interface(exporter, interface, kind)
                if type(interface) is dict:
                    form = _form_of(interface, protocol)
                if cuda is not None:
                    cuda.finish_view(made, stream)
                return made  # type: ignore[no-any-return]
        except Exception as refused:
            if not means_another(refused):
                raise
            return read_others(exporter, kind, stream, (protocol, refused))  # type: ignore[no-any-return]
        return read_others(exporter, kind, stream)  # type: ignore[no-any-return]

    return read


_MISSING: Any = object()


def _check_version(interface: Mapping[str, Any]) -> None:
    version = _require(interface, "version", NAME)  # the specification allows versions above 3
    if isinstance(version, bool) or not hasattr(type(version), "__index__") or index(version) < 0:
        raise refusal(NAME, "version", version, "must be an int such as 3")


def _in_buffer(
    holder: Any, interface: Mapping[str, Any], shape: Ints, strides: Ints, dtype: DType
) -> tuple[int, bool, object]:
    """Locate the memory in a buffer, `offset` bytes after its start, and check that the buffer is large enough."""
    offset = _get(interface, "offset") or 0
    try:
        view = memoryview(holder)
        offset = index(offset)
    except TypeError:
        raise refusal(
            NAME, "data", type(holder).__name__, "must be (address, read-only), or an object with the buffer protocol"
        ) from None
    if not view.c_contiguous:
        raise refusal(NAME, "data", type(holder).__name__, "is a buffer with gaps; give a contiguous one")
    low, high = layout.extent(shape, strides, dtype.itemsize)
    if low != high and not 0 <= offset + low <= offset + high <= view.nbytes or not 0 <= offset <= view.nbytes:
        raise refusal(
            NAME,
            "shape",
            shape,
            f"with strides {worded(strides)} and offset {worded(offset)} leads out of a buffer of {view.nbytes} bytes",
        )
    return address_of(view) + offset, view.readonly, Held(view)
