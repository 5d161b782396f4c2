"""Which protocols an exporter is read by, in which order, and what its refusals mean.

What it is   `describe`, which everything that is viewed goes through.
The order    torch's exchange table, DLPack, CUDA Array Interface, array interface, buffer protocol. A BufferError means "not by
             this protocol", and the next one is tried; any other exception is the exporter's own and is raised.
Per type     What a type offers is worked out when the first of its objects is seen, and kept in a table: the readers to try. Of
             a type whose objects cannot have attributes of their own, only what the type offers is tried. All other
             objects are asked for each protocol in turn, so that what is added to a class or an object later counts.
Read next    arrays/strided.py
"""

from __future__ import annotations

import sys

from ..dlpack import Capsule
from ..doors import gpu
from ..errors import ProtocolError, worded
from . import array_interface, buffer, cuda_array_interface, dlpack, dlpack_c_exchange
from .description import Description

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Optional

    Kind = type[Description]
    Reader = Callable[[Any, Kind, Any], Optional[Description]]
    Readers = tuple[tuple[str, Reader], ...]

__all__ = ["PROTOCOLS", "describe", "forget"]

# name -> the attribute that offers it, and what reads it
PROTOCOLS: dict[str, tuple[str, Reader]] = {
    dlpack_c_exchange.NAME: ("__dlpack_c_exchange_api__", dlpack_c_exchange.describe),
    dlpack.NAME: ("__dlpack__", dlpack.describe),
    cuda_array_interface.NAME: ("__cuda_array_interface__", cuda_array_interface.describe),
    array_interface.NAME: ("__array_interface__", array_interface.describe),
    buffer.NAME: ("", buffer.describe),
}
_UNASKED = tuple(PROTOCOLS)[1:]  # the exchange table is for torch's own tensors, or when it is named
# protocol, or None where all are tried -> type -> its readers, in the order in which they are tried
_readers: dict[Any, dict[type, Readers]] = {name: {} for name in (None, *PROTOCOLS)}
_MOST = 500  # types in a table: a program may make classes without end
_side: Any = None  # gpu/cuda_side.py, once it was needed


def describe(exporter: Any, stream: Any, protocol: str | None, kind: Kind) -> Description:
    """Describe an exporter's memory, by the protocol that is named or by the first that works.

    stream    the stream that will use CUDA memory, as the user gave it
    kind      the class to make
    raises    ProtocolError   the memory cannot be viewed
              TypeError       no exporter
              ValueError      no such protocol
    """
    try:
        readers = _readers[protocol][type(exporter)]
    except (KeyError, TypeError):
        readers = _learn(exporter, protocol)
    refusals: Any = None
    for name, read in readers:
        try:
            made = read(exporter, kind, stream)
            if made is not None:
                if not made._place.is_host:
                    (_side or _cuda_side()).settle(made, stream)
                return made
        except BufferError as refused:
            refusals = [*(refusals or ()), (name, refused)]
    try:
        raise _none_fits(exporter, protocol, refusals or [])
    finally:
        refusals = None  # their tracebacks refer to this frame: a cycle that holds the exporter


def _cuda_side() -> Any:
    global _side
    _side = gpu()
    return _side


# -- what is learnt of a type


def forget() -> None:
    """Forget what was learnt."""
    for table in _readers.values():
        table.clear()


def _learn(exporter: Any, protocol: Any) -> Readers:
    """Work out the readers of an exporter's type, and enter them."""
    if protocol is not None and (not isinstance(protocol, str) or protocol not in PROTOCOLS):
        raise ValueError(f"protocol {worded(protocol)}: give one of {', '.join(map(repr, PROTOCOLS))}")
    readers = _readers_of(type(exporter), exporter, protocol)
    table = _readers[protocol]
    if len(table) >= _MOST:
        table.clear()
    table[type(exporter)] = readers
    return readers


def _readers_of(kind: type, exporter: Any, protocol: str | None) -> Readers:
    names: Any = _UNASKED if protocol is None else (protocol,)
    if kind is Capsule:
        return ((dlpack.NAME, dlpack.describe_capsule),) if dlpack.NAME in names else ()
    if issubclass(kind, type):  # the class has the property; only its instances have memory
        return ()
    if issubclass(kind, _of_module("torch", "Tensor")):
        if protocol is None and dlpack_c_exchange.is_torch(kind):
            names = tuple(PROTOCOLS)
        return tuple([(name, _torch_reader(kind, name)) for name in names])
    if protocol is None and issubclass(kind, _of_module("numpy", "generic")):
        return ((buffer.NAME, buffer.describe),)  # another array would be made for its __array_interface__
    fixed = protocol is None and _is_fixed(kind)
    readers = {
        name: read
        for name, (attribute, read) in PROTOCOLS.items()
        if name in names and not (fixed and attribute and not hasattr(kind, attribute))
    }
    in_c = dlpack.reader_in_c(kind, exporter) if dlpack.NAME in readers else None
    if in_c is not None:
        readers[dlpack.NAME] = in_c
    if fixed and array_interface.NAME in readers:
        # NumPy takes 2,700 ns to make the array interface of a structured array, and 220 ns to export its buffer.
        readers[array_interface.NAME] = readers.pop(array_interface.NAME)
    return tuple(readers.items())


def _is_fixed(kind: type) -> bool:
    """Tell whether the attributes of a type's objects are the type's own, for good: nothing can be added to either."""
    return (
        all([one.__flags__ & _HEAP_IMMUTABLE != _HEAP for one in kind.__mro__])
        and not kind.__dictoffset__
        and not hasattr(kind, "__getattr__")
        and kind.__getattribute__ is object.__getattribute__
    )


_HEAP, _HEAP_IMMUTABLE = 1 << 9, 1 << 9 | 1 << 8  # Py_TPFLAGS_HEAPTYPE, and with Py_TPFLAGS_IMMUTABLETYPE (3.10)


def _of_module(module: str, name: str) -> Any:
    """Return a class of a library that is loaded; () where it is not."""
    found = getattr(sys.modules.get(module), name, None)
    return found if isinstance(found, type) else ()


def _torch_reader(kind: type, name: str) -> Reader:
    """Return a reader for torch's tensors and their subclasses; no protocol of theirs checks all that must be checked."""
    read = PROTOCOLS[name][1]
    if name == dlpack_c_exchange.NAME and dlpack_c_exchange.is_torch(kind):
        fast: Reader | None = dlpack_c_exchange.reader_for_torch(kind)
        if fast is not None:  # it checks the same
            return fast

    def checked(tensor: Any, kind: Kind, stream: Any) -> Description | None:
        dlpack_c_exchange.check_torch(tensor)
        return read(tensor, kind, stream)

    return checked


# -- what is said when no protocol fits


def _none_fits(exporter: Any, protocol: str | None, refusals: list[tuple[str, BufferError]]) -> Exception:
    what = type(exporter).__name__
    if len({str(refused) for _, refused in refusals}) == 1:
        return refusals[0][1]
    if refusals:
        said = "; ".join([f"{name}: {refused}" for name, refused in refusals])
        error = ProtocolError(
            f"{what} can be viewed by none of the protocols that it offers. {said}", protocol=refusals[0][0], field=""
        )
        error.__cause__ = refusals[0][1]
        return error
    if protocol is not None:
        return ProtocolError(
            f"{protocol}: {what} does not offer it; leave `protocol` out to try all", protocol=protocol, field=""
        )
    return TypeError(
        f"{what} is no exporter: it has none of __dlpack__, __cuda_array_interface__, __array_interface__ and the "
        "buffer protocol"
    )
