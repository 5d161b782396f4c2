"""The choice of the protocols by which an exporter is read, their order, and the meaning of a refusal.

What it is   `readers`, the table that every view starts from, and `learn`, which fills it.
The order    torch's exchange table, DLPack, CUDA Array Interface, array interface, buffer protocol, Arrow; for NumPy's
             arrays, the buffer protocol before the array interface. After an
             exception that means "not by this protocol", the next one is tried; see refusals.py.
Per type     The protocols of a type are determined when the first of its objects is seen, and the readers to try are
             kept in a table. If the objects of a type cannot have attributes of their own, only the protocols of the
             type are tried. All other objects are tested for each protocol in turn, so that attributes added later to
             a class or an object are honoured. The tables are by the id of a type, and keep no type alive.
One reader   If a type offers a protocol, the module of that protocol may have a reader for objects of this type
             (`reader_for`), which looks up what it learned of the first object. It hands everything unusual to the
             general readers, which try one protocol after the other.
Read next    arrays/strided.py
"""

from __future__ import annotations

import sys
from _weakref import ref

from ..elements.scalars import MASKED
from ..errors import ProtocolError, worded
from ..interpreter.cpython import has_plain_attributes, partial
from ..remembered import Remembered, cannot_change
from .description import Bytes, Description
from .device_memory import gpu
from .refusals import means_another, none_fits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Optional

    Kind = type[Description]
    Reader = Callable[[Any, Kind, Any], Optional[Description]]

__all__ = ["ARROW", "OFFERS", "PROTOCOLS", "Unviewable", "describe", "forget", "learn", "reader_of", "readers"]

# protocol -> the attribute by which it is offered
PROTOCOLS = {
    "dlpack_c_exchange": "__dlpack_c_exchange_api__",
    "dlpack": "__dlpack__",
    "cuda_array_interface": "__cuda_array_interface__",
    "array_interface": "__array_interface__",
    "buffer": "",
    "arrow": "__arrow_c_array__",  # or another one of ARROW
}
ARROW = "__arrow_c_array__", "__arrow_c_device_array__", "__arrow_c_stream__"
# every attribute by which memory is offered, the most common first
OFFERS = "__dlpack__", "__cuda_array_interface__", "__array_interface__", "__dlpack_c_exchange_api__", *ARROW
_ALL = tuple(PROTOCOLS)
_USUAL = _ALL[1:]  # what is tried if no protocol is named; the exchange table is for torch's tensors, or if it is named
# protocol, or None if all are tried -> id of a type -> the reader of its objects. Nothing here keeps a type alive:
# when one is freed, its references in `_types` remove its entries before its id can be another type's. They call C
# functions: an interrupt would be lost in Python code, and leave an entry behind.
_MOST = 500  # types in a table: the number of classes in a program is unlimited
readers: dict[Any, Remembered[int, Reader]] = {name: Remembered(_MOST) for name in (None, *PROTOCOLS)}
_types: dict[int, list[ref[type]]] = {}


def describe(exporter: Any, kind: Kind, stream: Any = None, protocol: str | None = None) -> Description:
    """Describe an exporter's memory.

    kind      the class to make
    stream    the stream that will use CUDA memory, as the user gave it
    raises    ProtocolError   the memory cannot be viewed
              TypeError       the object does not export its memory
              ValueError      no such protocol
    """
    made: Any = reader_of(exporter, protocol)(exporter, kind, stream)
    return made  # type: ignore[no-any-return]


def reader_of(exporter: Any, protocol: Any) -> Reader:
    """Return the reader for an exporter's type.

    raises    ValueError      no such protocol
    """
    try:
        return readers[protocol].answers[id(type(exporter))]
    except (KeyError, TypeError):
        return learn(exporter, protocol)  # type: ignore[no-any-return]


class _Step:
    """A protocol to try. Its reader is made when it is first needed, so that only the modules in use are imported."""

    __slots__ = ("name", "read", "make")

    def __init__(self, name: str, make: Callable[[], Reader]) -> None:
        self.name, self.make = name, make
        self.read: Reader | None = None

    def begin(self) -> Reader:
        """Make the reader."""
        self.read = read = self.make()
        return read


def _in_turn(steps: list[_Step], protocol: str | None) -> Reader:
    """Return a reader that tries protocols until one works; `refused` is the answer of one that was tried before."""

    def read(exporter: Any, kind: Kind, stream: Any, refused: Any = None) -> Description | None:
        refusals = refused and [refused]
        try:
            for step in steps:
                try:
                    made = (step.read or step.begin())(exporter, kind, stream)
                    if made is not None:
                        if not made._place.is_host:
                            gpu.finish_view(made, stream)
                        return made
                except Exception as refusal:
                    if not means_another(refusal):
                        raise
                    refusals = [*(refusals or ()), (step.name, refusal)]
            raise none_fits(exporter, protocol, refusals or [])
        finally:
            refusals = refused = (
                None  # their tracebacks refer to this frame: a reference cycle that keeps the exporter alive
            )

    return read


# -- learning a type


def _module(name: str) -> Any:
    """Return the module that reads a protocol; each is imported when the first type needs it."""
    found: Any
    if name == "dlpack_c_exchange":
        from . import dlpack_c_exchange

        found = dlpack_c_exchange
    elif name == "dlpack":
        from . import dlpack_capsule

        found = dlpack_capsule
    elif name == "cuda_array_interface":
        from . import cuda_array_interface

        found = cuda_array_interface
    elif name == "array_interface":
        from . import array_interface

        found = array_interface
    elif name == "buffer":
        from . import buffer

        found = buffer
    else:
        from . import arrow

        found = arrow
    return found


def forget() -> None:
    """Empty the tables; if another thread learns meanwhile, no entry stays without a reference to its type."""
    kept = list(_types.values())  # until the tables are empty: each reference removes what is known of a type that ends
    _types.clear()  # before the tables: see learn()
    for table in readers.values():
        table.answers.clear()
    kept.clear()


def learn(exporter: Any, protocol: Any) -> Any:
    """Determine the reader for an exporter's type, add it to the table, and return it.

    raises    ValueError      no such protocol
    """
    if protocol is not None and (not isinstance(protocol, str) or protocol not in PROTOCOLS):
        raise ValueError(f"protocol {worded(protocol)}: give one of {', '.join(map(repr, PROTOCOLS))}") from None
    type_ = type(exporter)
    steps = [_Step(name, make) for name, make in _makers_of(type_, exporter, protocol).items()]
    read = _in_turn(steps, protocol)
    if protocol is None and issubclass(type_, Description):
        read = type_._viewed_again  # type: ignore[attr-defined]
    elif protocol is None and issubclass(type_, Bytes):
        read = _view_memory
    elif protocol is None and issubclass(type_, _of_module("numpy.ma", "MaskedArray")):
        read = _refuse_mask
    else:
        read = _reader_for(type_, exporter, steps, protocol, read) or read
    if len(_types) >= _MOST:
        forget()
    number = id(type_)
    if number not in _types:
        tables: list[dict[int, Any]] = [_types, *[table.answers for table in readers.values()]]
        _types[number] = [ref(type_, partial(table.pop, number)) for table in tables]
    readers[protocol].answers[number] = read
    if number not in _types:  # another thread has just forgotten all: nothing would remove this entry
        readers[protocol].answers.pop(number, None)
    return read


def _reader_for(
    type_: type, exporter: Any, steps: list[_Step], protocol: str | None, read_any: Reader
) -> Reader | None:
    """Return the reader that the module of the first protocol that a type offers has for it, or None."""
    own = getattr(exporter, "__dict__", None)
    first = ""
    for step in steps:
        name = PROTOCOLS[step.name]
        if not name or hasattr(type_, name) or isinstance(own, dict) and name in own:
            first = step.name
            break
    rest = [step for step in steps if step.name != first]
    after = _in_turn(rest, protocol)
    read: Reader | None = None
    if issubclass(type_, _of_module("torch", "Tensor")):
        if first == "dlpack_c_exchange" and _module(first).is_torch(type_):
            read = _module("dlpack_c_exchange").reader_for_torch(type_, read_any)
        elif first == "dlpack":
            read = _module("dlpack_c_exchange").reader_by_capsule(type_, read_any)
    elif first == "dlpack":
        read = _module(first).reader_in_c(type_, exporter, read_any, after)
    elif first == "array_interface" and issubclass(type_, _of_module("numpy", "generic")):
        read = None  # its dict does not name every dtype
    elif first in ("cuda_array_interface", "array_interface"):
        read = _module(first).reader_for(read_any, after, steps[0].name == "dlpack")
    return read


def _view_memory(memory: Any, kind: Kind, stream: Any) -> Any:
    """Read a Memory of ours, which makes a view of itself."""
    made = memory.view()
    if stream is None:
        return made
    return made._viewed_again(kind, stream)


def _makers_of(type_: type, exporter: Any, protocol: str | None) -> dict[str, Callable[[], Reader]]:
    """Return the protocols to try on objects of a type, in order, with functions that return the readers."""
    names: Any
    if protocol is None:
        names = _USUAL
    else:
        names = (protocol,)
    if type_.__name__ == "PyCapsule" and _module("dlpack").is_capsule(exporter):
        if "dlpack" in names:
            return {"dlpack": lambda: _module("dlpack").describe_capsule}
        return {}
    if issubclass(type_, type):  # the class has the property; only its instances have memory
        return {}
    if issubclass(type_, _of_module("torch", "Tensor")):
        if protocol is None and _module("dlpack_c_exchange").is_torch(type_):
            names = _ALL
        return {name: partial(_checked, name) for name in names}
    if protocol in (None, "buffer") and issubclass(type_, _of_module("numpy", "generic")):
        return {"buffer": partial(_describe_scalar, ref(type_))}  # its __array_interface__ would make another array
    if protocol is None and _is_fixed(type_):
        names = [name for name in names if _may_offer(type_, name)]
        if issubclass(type_, _of_module("numpy", "ndarray")):
            # NumPy takes 2,700 ns to make the array interface of a structured array, and 220 ns to export its buffer.
            names = [*[name for name in names if name != "array_interface"], "array_interface"]
            return {name: _describe_array if name == "buffer" else partial(_describe_of, name) for name in names}
    made: dict[str, Callable[[], Reader]] = {name: partial(_describe_of, name) for name in names}
    if "buffer" in made and issubclass(type_, _module("buffer").DATA):
        made["buffer"] = partial(_describe_ctypes, ref(type_))
    if "dlpack" in made and hasattr(type_, "__dlpack__"):
        describe = _module("dlpack").describe_for(type_)
        made["dlpack"] = lambda: describe
    return made


def _may_offer(kind: type, name: str) -> bool:
    """Tell whether a type has an attribute of a protocol; any type may have a buffer."""
    return any([hasattr(kind, each) for each in (ARROW if name == "arrow" else (PROTOCOLS[name] or "__class__",))])


class Unviewable(TypeError):
    """The refusal of an exporter whose memory does not say all that the object means."""

    protects = True  # see means_another()


def _refuse_mask(exporter: Any, kind: Kind, stream: Any) -> Description | None:
    raise Unviewable(f"a masked array cannot be viewed, since {MASKED}")


def _describe_of(name: str) -> Reader:
    """Return the reader of a protocol for objects of any type."""
    if name == "arrow":
        return _describe_arrow
    reader: Reader = _module(name).describe
    return reader


def _describe_arrow(exporter: Any, kind: Kind, stream: Any) -> Description | None:
    """Read an object by Arrow; the module is imported only for objects that offer it."""
    if not any([hasattr(exporter, name) for name in ARROW]):
        return None
    try:
        arrow = _module("arrow")
    except NotImplementedError as left_out:  # of a vendored part, so this is no protocol of it
        raise ProtocolError(str(left_out), protocol="arrow", field="") from None
    made: Description | None = arrow.describe(exporter, kind, stream)
    return made


def _describe_array() -> Reader:
    """Return the reader of buffers for arrays of NumPy; it leaves to the array interface what has no buffer."""
    reader: Reader = _module("buffer").describe_array
    return reader


def _describe_scalar(kind: ref[type]) -> Reader:
    """Return the reader for scalars of NumPy."""
    reader: Reader = _module("buffer").scalar_reader_for(kind())
    return reader


def _describe_ctypes(kind: ref[type]) -> Reader:
    """Return the reader of buffers for the objects of a ctypes class."""
    reader: Reader = _module("buffer").describe_for(kind())
    return reader


def _is_fixed(kind: type) -> bool:
    """Tell whether a type is immutable and its objects have no attributes of their own."""
    return cannot_change(kind) and not kind.__dictoffset__ and has_plain_attributes(kind)


def _of_module(module: str, name: str) -> Any:
    """Return a class of a library, or () if the library is not loaded."""
    found = getattr(sys.modules.get(module), name, None)
    if isinstance(found, type):
        return found
    return ()


def _checked(name: str) -> Reader:
    """Return a reader for torch's tensors that first makes the checks which their protocols omit."""
    check_torch, read = _module("dlpack_c_exchange").check_torch, _describe_of(name)

    def checked(tensor: Any, kind: Kind, stream: Any) -> Description | None:
        check_torch(tensor)
        return read(tensor, kind, stream)

    return checked
