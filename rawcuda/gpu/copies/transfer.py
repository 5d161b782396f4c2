"""Copies of memory by address: 1-D, 2-D and 3-D, between host and device.

What it is   a function for each shape of copy.
What not     it knows neither bounds nor objects: device_copy.py checks, calls, and waits if an exception is raised
             between the call and the wait. `device` is a Device or its context.
Order        A copy that involves pageable host memory is complete on return; any other is in stream order.
Source       CUDA Driver API, "Memory Management"; "API synchronization behavior"
Read next    strided_kernel.py
"""

from __future__ import annotations

import ctypes

from ...driver import as_argument
from ...headers import cuda_h
from ...ownership import drain
from ..core.points import sweep
from ..core.stream_arguments import queue_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..core.context import PrimaryContext

__all__ = ["copy_bytes", "copy_2d", "copy_3d"]

# kinds of memory: "host" is pageable; "pinned" is accessible to both; "device" and "managed" have device addresses
_HOST_KINDS = ("host", "pinned")
_HOST, _DEVICE = 1, 2  # CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_DEVICE


def _perform(name: str, arguments: tuple[Any, ...], kinds: tuple[str, str], device: Any, stream: Any) -> None:
    """Call a function; wait if a side is pageable: nothing keeps that memory, and its owner may use it at once."""
    primary: PrimaryContext = getattr(device, "_primary", device)
    primary.open()
    calls, queue = primary.calls, queue_of(stream)
    getattr(calls, name)(*arguments, queue)
    if "host" in kinds:
        calls.cuStreamSynchronize(queue)
    sweep()
    drain()


def copy_bytes(
    target: int, source: int, nbytes: int, *, target_kind: str, source_kind: str, device: Any, stream: Any
) -> None:
    """Copy a run of bytes between any two memories.

    units   bytes
    stream  in any form that queue_of takes
    calls   cuMemcpyAsync, cuStreamSynchronize
    order   done on return if either side is pageable, else when the stream reaches it
    """
    if nbytes == 0:
        return
    arguments = as_argument(target), as_argument(source), as_argument(nbytes)
    _perform("cuMemcpyAsync", arguments, (target_kind, source_kind), device, stream)


def _set_side(description: Any, side: str, address: int, kind: str, pitch: int) -> None:
    host = kind in _HOST_KINDS
    setattr(description, f"{side}MemoryType", _HOST if host else _DEVICE)
    setattr(description, f"{side}Host" if host else f"{side}Device", address)
    setattr(description, f"{side}Pitch", pitch)


def copy_2d(
    target: int,
    target_pitch: int,
    source: int,
    source_pitch: int,
    width_bytes: int,
    height: int,
    *,
    target_kind: str,
    source_kind: str,
    device: Any,
    stream: Any,
) -> None:
    """Copy a pitched rectangle between any two memories.

    shape   height rows of width_bytes; each pitch is at least width_bytes
    units   bytes; rows
    calls   cuMemcpy2DAsync_v2, cuStreamSynchronize
    order   done on return if either side is pageable, else when the stream reaches it
    raises  ValueError  a pitch smaller than the width
    """
    if min(target_pitch, source_pitch) < width_bytes:
        raise ValueError(
            f"a pitch of {min(target_pitch, source_pitch)} bytes is smaller than the width of {width_bytes}"
        )
    if width_bytes == 0 or height == 0:
        return
    what = cuda_h.CUDA_MEMCPY2D()
    _set_side(what, "src", source, source_kind, source_pitch)
    _set_side(what, "dst", target, target_kind, target_pitch)
    what.WidthInBytes, what.Height = width_bytes, height
    _perform("cuMemcpy2DAsync_v2", (ctypes.byref(what),), (target_kind, source_kind), device, stream)


def copy_3d(
    target: int,
    target_pitch: int,
    target_rows: int,
    source: int,
    source_pitch: int,
    source_rows: int,
    width_bytes: int,
    height: int,
    depth: int,
    *,
    target_kind: str,
    source_kind: str,
    device: Any,
    stream: Any,
) -> None:
    """Copy a pitched box between any two memories.

    shape   depth layers of height rows of width_bytes; a layer begins pitch * rows bytes after the previous one
    units   bytes; rows
    calls   cuMemcpy3DAsync_v2, cuStreamSynchronize
    order   done on return if either side is pageable, else when the stream reaches it
    raises  ValueError  a pitch smaller than the width, or fewer rows than the height
    """
    if min(target_pitch, source_pitch) < width_bytes or min(target_rows, source_rows) < height:
        raise ValueError(
            f"a box of {height} rows of {width_bytes} bytes does not fit pitches of {target_pitch} and "
            f"{source_pitch} bytes with {target_rows} and {source_rows} rows per layer"
        )
    if width_bytes == 0 or height == 0 or depth == 0:
        return
    what = cuda_h.CUDA_MEMCPY3D()
    _set_side(what, "src", source, source_kind, source_pitch)
    _set_side(what, "dst", target, target_kind, target_pitch)
    what.srcHeight, what.dstHeight = source_rows, target_rows
    what.WidthInBytes, what.Height, what.Depth = width_bytes, height, depth
    _perform("cuMemcpy3DAsync_v2", (ctypes.byref(what),), (target_kind, source_kind), device, stream)
