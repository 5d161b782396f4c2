"""Reading a stream of another library: `__cuda_stream__`, and the attributes of older stream classes.

The protocol  A method without arguments that returns (version, handle). The version is 0, the handle is a cudaStream_t
              as an int: 0 and 1 are the legacy default stream, 2 the per-thread one. Nothing is transferred: the caller
              keeps the object alive while it uses the handle. In cuda.core 0.1 the attribute was the tuple itself.
What not      Integers from outside are read by gpu/core/stream_arguments.py's `handle_of`, which calls this for any
             other object.
Source        cuda.core, "Interoperability", CUDA stream protocol
Read next     cuda_array_interface.py
"""

from __future__ import annotations

from .. import tracing
from ..errors import refusal

__all__ = ["handle_from"]

_LEGACY = 1
# Streams from before the protocol: PyTorch < 2.9 and Warp; CuPy < 14; PyCUDA and Numba. Many objects have an attribute
# called "handle", so these count only on a class whose name contains "stream".
_OLDER = ("cuda_stream", "ptr", "handle")


def handle_from(stream: object) -> int:
    """Return the handle of a stream object, 1 for its 0: both are the legacy default stream.

    raises  TypeError      not a stream, or a `__cuda_stream__` that does not return (int, int)
            ProtocolError  a version other than 0, or an impossible handle
    """
    offered = getattr(stream, "__cuda_stream__", None)
    if offered is None:
        handle = _older_handle(stream)
        if handle is None:
            raise TypeError(
                f"{type(stream).__name__} is not a stream: give a Stream, an object with __cuda_stream__(), a handle, "
                "or None"
            )
        version = 0
    else:
        if callable(offered):
            pair = offered()
        else:
            pair = offered
        plain = type(pair) is tuple and len(pair) == 2 and type(pair[0]) is int and type(pair[1]) is int
        version, handle = pair if plain else _checked_pair(pair)
        if tracing.listeners:
            tracing.emit(
                tracing.Step(
                    "cuda_stream", f"{type(stream).__name__}.__cuda_stream__()", f"-> ({version}, {handle:#x})"
                )
            )
    if version != 0:
        raise refusal("cuda_stream", "version", version, "is unknown, only 0 is known; pass the handle as an int")
    if not 0 <= handle < 2**64:
        raise refusal("cuda_stream", "handle", handle, "must be in 0 .. 2**64-1; the stream's library is at fault")
    return handle or _LEGACY


def _checked_pair(pair: object) -> tuple[int, int]:
    if isinstance(pair, tuple) and len(pair) == 2:
        version, handle = pair
        if type(version) is int and type(handle) is int:
            return version, handle
        if not isinstance(version, bool) and not isinstance(handle, bool):
            if hasattr(type(version), "__index__") and hasattr(type(handle), "__index__"):
                return version.__index__(), handle.__index__()
    raise TypeError(f"__cuda_stream__ must return (version, handle), two ints, not {pair!r}")


def _older_handle(stream: object) -> int | None:
    if not any("stream" in kind.__name__.lower() for kind in type(stream).__mro__):
        return None
    for name in _OLDER:
        handle = getattr(stream, name, None)
        handle = getattr(handle, "value", handle)  # Numba has a ctypes object, whose null is None
        if handle is None and name == "handle" and hasattr(stream, name):
            return 0
        if hasattr(type(handle), "__index__") and not isinstance(handle, bool):
            return int(handle)  # type: ignore[arg-type]
    return None
