"""Which protocol an exporter is read by, and what its refusals mean.

What it is   `describe`: the protocols in their order, and for CUDA memory what has to be settled with the driver.
The order    torch's exchange table, DLPack, CUDA Array Interface, array interface, buffer protocol. A BufferError says "not by
             this one", and the next is tried; any other exception is the exporter's own, and ends it.
The way      NumPy's, torch's, JAX's and tvm-ffi's come by the million, so each of these types, and little else, has a short way:
             the same reading, without the questions whose answers the type is. What the short way does not understand, it
             leaves to the long one. `shortcuts` may be emptied: then everything takes the long way.
Read next    strided.py
"""

from __future__ import annotations

import sys

from ..dlpack import is_capsule
from ..errors import ProtocolError
from . import array_interface, buffer, cuda_array_interface, dlpack_c_exchange
from . import dlpack as dlpack_protocol
from .description import HOST, Description

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, Callable, Optional

    Kind = type[Description]
    Shortcut = Callable[..., Optional[Description]]

__all__ = ["PROTOCOLS", "describe", "learn", "on_stream", "shortcuts"]


# -- the short way

# besides these: once one of each was seen, torch's tensors, the types in _OF_OTHERS, and classes that offer the CUDA Array Interface only
shortcuts: dict[type, Shortcut] = {bytearray: buffer.describe_bytes, bytes: buffer.describe_bytes}
on_stream: dict[type, Shortcut] = {}  # those that take a stream
_OF_OTHERS: dict[str, Shortcut] = {
    "numpy.ndarray": dlpack_protocol.describe_ndarray,
    "tvm_ffi.core.Tensor": dlpack_protocol.describe_ndarray,
    "jaxlib._jax.ArrayImpl": dlpack_protocol.describe_jax,
    "jaxlib.xla_extension.ArrayImpl": dlpack_protocol.describe_jax,
}


def learn(exporter: Any) -> None:
    """Enter the short way for an exporter's type, if it is one of those that have one."""
    kind = type(exporter)
    if kind in shortcuts:
        return
    short = _OF_OTHERS.get(f"{kind.__module__}.{kind.__name__}")
    if dlpack_c_exchange.is_torch(kind):
        shortcuts[kind] = dlpack_c_exchange.describe_host_tensor
    elif short is not None:
        if getattr(sys.modules.get(kind.__module__), kind.__name__, None) is kind and dlpack_protocol.can_be_short(
            exporter, short
        ):
            shortcuts[kind] = short
    elif (
        len(shortcuts) < 100 and f"{__package__.rpartition('.')[0]}.gpu.cuda_side" in sys.modules
    ):  # imported where there was CUDA memory
        if hasattr(kind, "__cuda_array_interface__") and not hasattr(kind, "__dlpack__"):
            from ..gpu.cuda_side import describe_known

            shortcuts[kind] = on_stream[kind] = describe_known


# -- the long way


def _cuda_side() -> dlpack_protocol.CudaSide:
    from ..gpu.cuda_side import LoadedSide

    return LoadedSide()


def _by_dlpack(exporter: Any, stream: Any, writable: bool, kind: Kind, streamed: Kind) -> Description | None:
    if is_capsule(exporter):
        made: Description | None = dlpack_protocol.describe_capsule(exporter, kind, readonly=not writable)
    elif getattr(exporter, "__dlpack__", None) is None:
        return None
    else:
        handle = 1
        if stream is not None:
            from ..gpu.stream import handle_of

            handle = handle_of(stream)
        made = dlpack_protocol.describe(exporter, kind, stream=handle, writable=writable, cuda=_cuda_side)
    if made is not None and made._place.device != HOST:
        from ..gpu.cuda_side import check_label, find_managed

        made.stream = stream
        find_managed(made)
        check_label(made)
    return made


def _by_exchange(exporter: Any, stream: Any, writable: bool, kind: Kind, streamed: Kind) -> Description | None:
    made = dlpack_c_exchange.describe(exporter, streamed)
    if made is not None and made.stream is not None:
        from ..gpu.cuda_side import check_label, settle_stream

        settle_stream(made, stream)
        check_label(made)
    return made


def _by_cuda_array_interface(
    exporter: Any, stream: Any, writable: bool, kind: Kind, streamed: Kind
) -> Description | None:
    made = cuda_array_interface.describe(exporter, streamed)
    if made is not None:
        from ..gpu.cuda_side import settle_description

        settle_description(made, stream)
    return made


def _by_array_interface(exporter: Any, stream: Any, writable: bool, kind: Kind, streamed: Kind) -> Description | None:
    return array_interface.describe(exporter, kind)


def _by_buffer(exporter: Any, stream: Any, writable: bool, kind: Kind, streamed: Kind) -> Description | None:
    return buffer.describe(exporter, kind)


PROTOCOLS = {
    "dlpack_c_exchange": _by_exchange,
    "dlpack": _by_dlpack,
    "cuda_array_interface": _by_cuda_array_interface,
    "array_interface": _by_array_interface,
    "buffer": _by_buffer,
}
_UNASKED = tuple(PROTOCOLS.items())[1:]


def describe(
    exporter: Any, stream: Any, protocol: str | None, writable: bool, kind: Kind, streamed: Kind
) -> Description:
    """Describe an exporter's memory, by the protocol that is named or the first that works.

    stream    the stream that will use CUDA memory, as given by the user
    writable  count memory as writable where nothing says that it is not
    kind      the class to make; `streamed`, where the exporter may name a stream that must be held back
    raises    ProtocolError   the memory cannot be viewed
              TypeError       no exporter
              ValueError      no such protocol
    """
    if protocol is not None and protocol not in PROTOCOLS:
        raise ValueError(f"protocol {protocol!r}: give one of {', '.join(map(repr, PROTOCOLS))}")
    refusals: list[tuple[str, BufferError]] = []
    try:
        for name, by in _order(exporter, protocol):
            try:
                made: Description | None = by(exporter, stream, writable, kind, streamed)
            except BufferError as refused:
                refusals.append((name, refused))
                continue
            if made is not None:
                return made
        raise _none_fits(exporter, protocol, refusals)
    finally:
        refusals.clear()  # their tracebacks hold this frame: a circle with the exporter in it


def _order(exporter: Any, protocol: str | None) -> Iterable[tuple[str, Any]]:
    """Choose the protocols to try: the one named; else all, but the exchange table for torch's own tensors only."""
    torch = sys.modules.get("torch")
    is_tensor = torch is not None and isinstance(exporter, getattr(torch, "Tensor", ()))
    if is_tensor:
        dlpack_c_exchange.check_torch(exporter)  # no protocol of a tensor's checks all of this
    if protocol is not None:
        return ((protocol, PROTOCOLS[protocol]),)
    if is_capsule(exporter):
        return (("dlpack", _by_dlpack),)
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(exporter, getattr(numpy, "generic", ())):
        return (("buffer", _by_buffer),)  # another array would be made for its __array_interface__
    return PROTOCOLS.items() if is_tensor and dlpack_c_exchange.is_torch(type(exporter)) else _UNASKED


def _none_fits(exporter: Any, protocol: str | None, refusals: list[tuple[str, BufferError]]) -> Exception:
    what = type(exporter).__name__
    if len(refusals) == 1:
        return refusals[0][1]
    if refusals:
        said = "; ".join(f"{name}: {refused}" for name, refused in refusals)
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
