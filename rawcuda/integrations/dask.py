"""Views and memory in Dask: it sends them between workers like NumPy arrays, without extra copies on the host.

What it is   importing this module registers serialisers for StridedView and Memory, and lets the workers that this
             process starts import it, too. Without the serialisers, Dask uses pickle. Data that passes through the
             scheduler is then copied several times, because Dask uses protocol 4 of pickle there.
How          the elements are one frame, as in pickling with protocol 5: host memory is not copied; device memory is
             downloaded, and uploaded to the device that receive_on() names in the receiver.
What not     sending device memory without a copy in host memory: that needs UCX, and a GPU in both processes.
Source       Dask.distributed, "Serialization": custom serialization
Read next    ../arrays/pickling.py
"""

from __future__ import annotations

from ..arrays.pickling import rebuild, rebuild_memory, reduce_memory, reduce_view
from ..arrays.strided import StridedView
from .plugins import preload

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["register"]


def register() -> None:
    """Register the serialisers, here and in workers that start later; a second call changes nothing.

    raises  ImportError   distributed is not installed
    """
    from distributed import protocol  # type: ignore[import-not-found,unused-ignore]

    from ..gpu.memory.memory import Memory

    preload(None)
    for kind, pack, unpack in ((StridedView, _pack_view, _unpack_view), (Memory, _pack_memory, _unpack_memory)):
        protocol.dask_serialize.register(kind)(pack)
        protocol.dask_deserialize.register(kind)(unpack)


def _pack_view(view: Any) -> tuple[dict[str, Any], list[Any]]:
    return _packed(reduce_view(view, 5)[1])


def _pack_memory(memory: Any) -> tuple[dict[str, Any], list[Any]]:
    return _packed(reduce_memory(memory, 5)[1])


def _packed(arguments: tuple[Any, ...]) -> tuple[dict[str, Any], list[Any]]:
    """Return the header and the frame, made from the arguments that would be pickled."""
    import pickle

    data = memoryview(arguments[-1])
    return {"with": pickle.dumps(arguments[:-1]), "readonly": data.readonly}, [data]


def _unpack_view(header: dict[str, Any], frames: list[Any]) -> Any:
    return rebuild(*_unpacked(header, frames))


def _unpack_memory(header: dict[str, Any], frames: list[Any]) -> Any:
    return rebuild_memory(*_unpacked(header, frames))


def _unpacked(header: dict[str, Any], frames: list[Any]) -> tuple[Any, ...]:
    """Return the arguments of rebuild(); a frame is copied only if it must be writable and is not."""
    import pickle

    (frame,) = frames or (b"",)
    data = memoryview(frame)
    if data.readonly and not header["readonly"]:
        data = memoryview(bytearray(data))
    return (*pickle.loads(header["with"]), data)


try:
    register()
except ImportError:  # Dask is not installed: the user gets this error from register()
    pass
