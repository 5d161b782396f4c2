"""The choice of the protocols by which an exporter is read, their order, and the meaning of a refusal.

What it is   `readers`, the table that every view starts from, and `learn`, which fills it.
The order    torch's exchange table, DLPack, CUDA Array Interface, array interface, buffer protocol. A BufferError
             means "not by this protocol", and the next one is tried; any other exception comes from the exporter and
             is passed on.
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

from ..doors import gpu
from ..errors import ProtocolError, worded
from ..interpreter.cpython import has_plain_attributes, partial
from ..remembered import Remembered, cannot_change
from .description import Bytes, Description

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Optional

    Kind = type[Description]
    Reader = Callable[[Any, Kind, Any], Optional[Description]]

__all__ = ["PROTOCOLS", "Unviewable", "describe", "forget", "learn", "reader_of", "readers"]

# protocol -> the attribute by which it is offered
PROTOCOLS = {
    "dlpack_c_exchange": "__dlpack_c_exchange_api__",
    "dlpack": "__dlpack__",
    "cuda_array_interface": "__cuda_array_interface__",
    "array_interface": "__array_interface__",
    "buffer": "",
    "arrow": "__arrow_c_array__",  # or __arrow_c_device_array__; tried only if it is named
}
_TRIED = tuple(PROTOCOLS)[:-1]
_UNASKED = _TRIED[1:]  # the default; the exchange table is for torch's tensors, or if it is named
# protocol, or None if all are tried -> id of a type -> the reader of its objects. Nothing here keeps a type alive:
# when one is freed, `_types` removes its entries before its id can be another type's.
_MOST = 500  # types in a table: the number of classes in a program is unlimited
readers: dict[Any, Remembered[int, Reader]] = {name: Remembered(_MOST) for name in (None, *PROTOCOLS)}
_types: dict[int, ref[type]] = {}
_side: Any = None  # gpu/cuda_side.py, imported on first use


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
                            (_side or _cuda_side()).settle(made, stream)
                        return made
                except BufferError as refusal:
                    refusals = [*(refusals or ()), (step.name, refusal)]
            raise _none_fits(exporter, protocol, refusals or [])
        finally:
            refusals = refused = (
                None  # their tracebacks refer to this frame: a reference cycle that keeps the exporter alive
            )

    return read


def _cuda_side() -> Any:
    global _side
    _side = gpu()
    return _side


# -- learning a type


def _room(name: str) -> Any:
    """Return the module that reads a protocol; each is imported when the first type needs it."""
    room: Any
    if name == "dlpack_c_exchange":
        from . import dlpack_c_exchange

        room = dlpack_c_exchange
    elif name == "dlpack":
        from . import dlpack

        room = dlpack
    elif name == "cuda_array_interface":
        from . import cuda_array_interface

        room = cuda_array_interface
    elif name == "array_interface":
        from . import array_interface

        room = array_interface
    elif name == "buffer":
        from . import buffer

        room = buffer
    else:
        from . import arrow

        room = arrow
    return room


def forget() -> None:
    """Empty the tables; if another thread learns meanwhile, no entry stays without a reference to its type."""
    _types.clear()  # before the tables: see learn()
    for table in readers.values():
        table.answers.clear()


def learn(exporter: Any, protocol: Any) -> Any:
    """Determine the reader for an exporter's type, add it to the table, and return it.

    raises    ValueError      no such protocol
    """
    if protocol is not None and (not isinstance(protocol, str) or protocol not in PROTOCOLS):
        raise ValueError(f"protocol {worded(protocol)}: give one of {', '.join(map(repr, PROTOCOLS))}")
    kind = type(exporter)
    steps = [_Step(name, make) for name, make in _makers_of(kind, exporter, protocol).items()]
    read = _in_turn(steps, protocol)
    if protocol is None and issubclass(kind, Description):
        read = kind._viewed_again  # type: ignore[attr-defined]
    elif protocol is None and issubclass(kind, Bytes):
        read = _view_memory
    elif protocol is None and issubclass(kind, _of_module("numpy.ma", "MaskedArray")):
        read = _refuse_mask
    else:
        read = _reader_for(kind, exporter, steps, protocol, read) or read
    if len(_types) >= _MOST:
        forget()
    number = id(kind)
    if number not in _types:
        _types[number] = ref(kind, partial(_forget_type, number))
    readers[protocol].answers[number] = read
    if number not in _types:  # another thread has just forgotten all: nothing would remove this entry
        readers[protocol].answers.pop(number, None)
    return read


def _reader_for(
    kind: type, exporter: Any, steps: list[_Step], protocol: str | None, otherwise: Reader
) -> Reader | None:
    """Return the reader that the module of the first protocol that a type offers has for it, or None."""
    own = getattr(exporter, "__dict__", None)
    first = ""
    for step in steps:
        name = PROTOCOLS[step.name]
        if not name or hasattr(kind, name) or isinstance(own, dict) and name in own:
            first = step.name
            break
    rest = [step for step in steps if step.name != first]
    after = _in_turn(rest, protocol) if rest else otherwise
    read: Reader | None = None
    if issubclass(kind, _of_module("torch", "Tensor")):
        if first == "dlpack_c_exchange" and _room(first).is_torch(kind):
            read = _room("dlpack_c_exchange").reader_for_torch(kind, otherwise)
        elif first == "dlpack":
            read = _room("dlpack_c_exchange").reader_by_capsule(kind, otherwise)
    elif first == "dlpack":
        read = _room(first).reader_in_c(kind, exporter, otherwise, after)
    elif first in ("cuda_array_interface", "array_interface"):
        read = _room(first).reader_for(otherwise, after, steps[0].name == "dlpack")
    return read


def _view_memory(memory: Any, kind: Kind, stream: Any) -> Any:
    """Read a Memory of ours, which makes a view of itself."""
    made = memory.view()
    return made if stream is None else made._viewed_again(kind, stream)


def _forget_type(number: int, _: object) -> None:
    _types.pop(number, None)
    for table in readers.values():
        table.answers.pop(number, None)


def _makers_of(kind: type, exporter: Any, protocol: str | None) -> dict[str, Callable[[], Reader]]:
    """Return the protocols to try on objects of a type, in order, with functions that return the readers."""
    names: Any = _UNASKED if protocol is None else (protocol,)
    if kind.__name__ == "PyCapsule" and _room("dlpack").is_capsule(exporter):
        return {"dlpack": lambda: _room("dlpack").describe_capsule} if "dlpack" in names else {}
    if issubclass(kind, type):  # the class has the property; only its instances have memory
        return {}
    if issubclass(kind, _of_module("torch", "Tensor")):
        if protocol is None and _room("dlpack_c_exchange").is_torch(kind):
            names = _TRIED
        return {name: partial(_checked, name) for name in names}
    if protocol is None and issubclass(kind, _of_module("numpy", "generic")):
        names = ("buffer",)  # its __array_interface__ would make another array
    elif protocol is None and _is_fixed(kind):
        names = [name for name in names if hasattr(kind, PROTOCOLS[name] or "__class__")]
        if "array_interface" in names:
            # NumPy takes 2,700 ns to make the array interface of a structured array, and 220 ns to export its buffer.
            names = [*[name for name in names if name != "array_interface"], "array_interface"]
            return {name: _not_last if name == "buffer" else partial(_describe_of, name) for name in names}
    made: dict[str, Callable[[], Reader]] = {name: partial(_describe_of, name) for name in names}
    if "dlpack" in made and hasattr(kind, "__dlpack__"):
        describe = _room("dlpack").describe_for(kind)
        made["dlpack"] = lambda: describe
    return made


class Unviewable(TypeError):
    """The refusal of an exporter whose memory does not say all that the object means."""


def _refuse_mask(exporter: Any, kind: Kind, stream: Any) -> Description | None:
    raise Unviewable(
        "a masked array cannot be viewed, since no protocol can express its mask: give array.filled(value), or its "
        "array.data with all elements"
    )


def _describe_of(name: str) -> Reader:
    """Return the reader of a protocol for objects of any type."""
    reader: Reader = _room(name).describe
    return reader


def _not_last() -> Reader:
    """Return a reader of buffers that leaves to the array interface what they do not describe.

    NumPy raises ValueError for datetimes, and its formats do not always tell where the fields of a structure are.
    """
    read = _room("buffer").describe

    def refusing(exporter: Any, kind: Kind, stream: Any) -> Description | None:
        try:
            made: Description | None = read(exporter, kind, stream)
        except ValueError as error:
            raise BufferError(str(error)) from None
        if made is not None and made.dtype.format == f"{made.dtype.itemsize}x":
            raise BufferError("the format of its buffer gives no more than the size of the elements")
        return made

    return refusing


def _is_fixed(kind: type) -> bool:
    """Tell whether a type is immutable and its objects have no attributes of their own."""
    return cannot_change(kind) and not kind.__dictoffset__ and has_plain_attributes(kind)


def _of_module(module: str, name: str) -> Any:
    """Return a class of a library, or () if the library is not loaded."""
    found = getattr(sys.modules.get(module), name, None)
    return found if isinstance(found, type) else ()


def _checked(name: str) -> Reader:
    """Return a reader for torch's tensors that first makes the checks which their protocols omit."""
    check_torch, read = _room("dlpack_c_exchange").check_torch, _room(name).describe

    def checked(tensor: Any, kind: Kind, stream: Any) -> Description | None:
        check_torch(tensor)
        return read(tensor, kind, stream)  # type: ignore[no-any-return]

    return checked


# -- the error if no protocol fits


def _none_fits(exporter: Any, protocol: str | None, refusals: list[tuple[str, BufferError]]) -> Exception:
    what = type(exporter).__name__
    if len({str(refused) for _, refused in refusals}) == 1:
        return refusals[0][1]
    if refusals:
        said = "; ".join([f"{name}: {refused}" for name, refused in refusals])
        error = ProtocolError(
            f"{what} cannot be viewed by any protocol that it offers. {said}", protocol=refusals[0][0], field=""
        )
        error.__cause__ = refusals[0][1]
        return error
    if protocol is not None:
        return ProtocolError(
            f"{protocol}: {what} does not offer it; leave `protocol` out to try all", protocol=protocol, field=""
        )
    hint = ": make an array of it with array.array or numpy.asarray" if isinstance(exporter, (list, tuple)) else ""
    if hasattr(type(exporter), "__array__"):
        hint = ": its __array__ may be a copy, so give numpy.asarray(object), or copy from it with copy() or upload()"
    return TypeError(
        f"{what} is not an exporter: it has none of __dlpack__, __cuda_array_interface__, __array_interface__ and the "
        f"buffer protocol{hint}"
    )
