"""Copies between the memories of two devices, in the order of a stream of either.

What it is   `copy_across`: one call of the driver for a run of bytes and for a pitched box; for any other layout, a
             kernel of each device that packs or unpacks.
What not     the order of the default streams of both devices, which device_copy.py establishes. Peer access is not
             needed: without it, the driver copies through the host.
Source       CUDA Driver API, "Memory Management": cuMemcpyPeerAsync, cuMemcpy3DPeerAsync; CUDA Programming Guide,
             "Peer-to-Peer Memory Copy"
Read next    device_copy.py
"""

from __future__ import annotations

from ctypes import byref

from ...arrays.host_copy import Walk, box_of
from ...driver import as_argument
from ...elements import layout
from ...headers import cuda_h
from ..core.context import PrimaryContext
from ..core.stream_arguments import queue_of
from ..memory.memory import allocate
from ..memory.ordering import refuse_capture
from ..streams.stream import Stream, record_and_wait
from .strided_kernel import run as run_kernel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["copy_across"]

_DEVICE = 2  # CU_MEMORYTYPE_DEVICE


def copy_across(walk: Walk, to: PrimaryContext, of: PrimaryContext, stream: Any) -> None:
    """Copy between two devices.

    to, of  the contexts of target and source
    stream  as for stream_arguments.work_handle; a default stream is that of the target's context
    calls   cuMemcpyPeerAsync, cuMemcpy3DPeerAsync
    order   returns at once, except for layouts that need a kernel: then the copy is complete on return
    """
    of.open()
    if not _copy_directly(walk, to, of, stream):
        _copy_packed(walk, to, of, stream)


def _copy_directly(walk: Walk, to: PrimaryContext, of: PrimaryContext, stream: Any) -> bool:
    """Copy by one call of the driver if that is possible, and tell whether it was."""
    calls, queue = to.calls, queue_of(stream)
    ends = to.handle, of.handle
    if not walk.shape:
        target, source, there, here, size = map(as_argument, (walk.target, walk.source, *ends, walk.nbytes))
        calls.cuMemcpyPeerAsync(target, there, source, here, size, queue)
        return True
    box = box_of(walk)
    if box is None:
        return False
    what = cuda_h.CUDA_MEMCPY3D_PEER()
    what.dstMemoryType = what.srcMemoryType = _DEVICE
    what.dstDevice, what.srcDevice = walk.target, walk.source
    what.dstContext, what.srcContext = ends
    (what.dstPitch, what.dstHeight), (what.srcPitch, what.srcHeight), what.Height, what.Depth = box
    what.WidthInBytes = walk.nbytes
    calls.cuMemcpy3DPeerAsync(byref(what), queue)
    return True


def _copy_packed(walk: Walk, to: Any, of: Any, stream: Any) -> None:
    """Pack on the source's device, copy one run, unpack on the target's device; wait, and free the buffers."""
    refuse_capture(to, stream, "a copy between devices needs temporary memory for this layout: make it dense first")
    size = layout.size(walk.shape) * walk.nbytes
    packed = layout.c_strides(walk.shape, walk.nbytes)
    with allocate(of, size) as first, allocate(to, size) as second, Stream(of) as sending, Stream(to) as receiving:
        record_and_wait(to, stream, sending)
        run_kernel(
            Walk(walk.nbytes, walk.shape, first.ptr, packed, walk.source, walk.source_strides), of, sending.handle
        )
        record_and_wait(to, sending, receiving)
        _copy_directly(Walk(size, (), second.ptr, (), first.ptr, ()), to, of, receiving)
        run_kernel(
            Walk(walk.nbytes, walk.shape, walk.target, walk.target_strides, second.ptr, packed), to, receiving.handle
        )
        to.calls.cuStreamSynchronize(queue_of(receiving))  # (synchronize() raises what functions of graphs have raised)
