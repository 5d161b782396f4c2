"""Several copies in one call of the driver.

What it is   `copy_batch`, which checks all copies before it begins the first.
How          Copies that do not depend on each other are given to the driver together, the runs of bytes in one call and
             the pitched boxes in another. The rest is copied one by one: host memory alone, other layouts, copies
             between devices, and everything if one copy depends on another, in a capture, on the legacy default stream,
             or with a driver before CUDA 12.8. The result is always as if the copies were made one after another.
Source       CUDA Driver API, "Memory Management": cuMemcpyBatchAsync, cuMemcpy3DBatchAsync
Read next    device_copy.py
"""

from __future__ import annotations

import ctypes
from ctypes import byref

from ...arguments import as_bool, as_choice, as_list
from ...arrays.copying import CheckedCopy
from ...arrays.host_copy import box_of
from ...driver import as_argument
from ...elements import layout
from ...errors import CudaError, a_kind, worded
from ...headers import cuda_h
from ...protocols.description import Unaddressed
from ..core.points import capture_number
from ..core.stream_arguments import LEGACY, PER_THREAD, home_of, queue_of, settled, work_handle
from ..memory.ordering import PAGEABLE, end_work, keep, make_ready, note, uncaptured

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..core.context import PrimaryContext

__all__ = ["copy_batch"]

_ORDERS = {"stream": 1, "during_api_call": 2, "any": 3}  # CUmemcpySrcAccessOrder
_POINTER = 1  # CU_MEMCPY_OPERAND_TYPE_POINTER
_OVERLAP = 1  # CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE


def copy_batch(pairs: Any, *, stream: Any = None, source_order: str = "stream", prefer_overlap: bool = False) -> None:
    """Copy several sources to their targets, as copy(dst, src) does each; nothing is copied if one pair is wrong.

    pairs           (dst, src) of each copy
    stream          the stream on which device memory is copied; None is the legacy default stream
    source_order    when sources are read: "stream", in the order of the stream; "during_api_call", before this
                    function returns; or "any", at any time: with the last two, no pending work may write them
    prefer_overlap  try to copy while kernels run
    calls           cuMemcpyBatchAsync_v2, cuMemcpy3DBatchAsync_v2, cuStreamSynchronize
    order           if pageable host memory takes part, all is complete on return; otherwise when the stream reaches it
    raises          TypeError   not a pair, or what copy() raises; the message names the pair
                    ValueError  an unknown source_order; "during_api_call" in a capture
                    InvalidUse  a capture, and pageable host memory, or a copy that a graph cannot contain: it contains
                                those before it
    """
    order = _ORDERS[as_choice("source_order", source_order, _ORDERS)]
    prefer_overlap = as_bool("prefer_overlap", prefer_overlap)
    copies = [_checked(number, pair, stream) for number, pair in enumerate(as_list("pairs", pairs, "pairs"))]
    copies = [each for each in copies if not each.walk.is_empty()]
    if stream is None:
        stream = LEGACY
    stream = settled(stream)
    handle = work_handle(stream)
    primary: PrimaryContext | None = None
    for each in copies:
        primary = primary or each.to.primary or each.of.primary
    if primary is None:  # host memory only
        _make_each(copies, stream)
        return
    primary.open()
    home = home_of(stream, primary)
    captured = capture_number(home.calls, handle) is not None
    if captured and order == _ORDERS["during_api_call"]:
        raise ValueError("source_order 'during_api_call': a capture reads its sources when the graph is launched")
    settings = home, stream, handle, order, prefer_overlap, captured
    if any("host" in (each.to.kind, each.of.kind) for each in copies):
        uncaptured(home, handle, PAGEABLE, _copy_all, copies, *settings)
    else:
        _copy_all(copies, *settings)


def _copy_all(
    copies: list[CheckedCopy],
    home: PrimaryContext,
    stream: Any,
    handle: int,
    order: int,
    prefer_overlap: bool,
    captured: bool,
) -> None:
    """Do the copies: together where that is possible, and the others one by one."""
    runs, boxes = _divide(copies, home) if not (captured or handle == LEGACY or _depend(copies)) else ([], [])
    together, (calls, queue) = [*runs, *boxes], (home.calls, queue_of(stream))
    taken = {*together}
    alone = [each for each in copies if each not in taken]
    _make_all_ready(together, home, stream)
    foreign = not all(each.to.waits and each.of.waits for each in together)
    before = [each.dst.stream for each in together]
    waits = order == _ORDERS["during_api_call"] or any("host" in (each.to.kind, each.of.kind) for each in copies)
    try:
        _note_all(together, stream)  # before the calls: an interrupt may end them
        if runs:
            _copy_runs(calls, queue, runs, order, prefer_overlap, home)
        if boxes:
            _copy_boxes(calls, queue, boxes, order, prefer_overlap, home)
        _keep_all(together, home, stream)
        _make_each(alone, stream)
        if waits:
            _wait(copies, home, handle)
    except BaseException as error:
        if foreign or isinstance(error, CudaError):
            end_work(error, home, queue, together)
            _restore(together, before)
        raise


def _make_all_ready(together: list[CheckedCopy], home: PrimaryContext, stream: Any) -> None:
    # Which streams were waited for, in which contexts: one wait for each array would take 60 % of a large batch.
    ready = {(id(None), home), (id(stream), home)}
    for each in together:
        for thing, side in ((each.dst, each.to), (each.src, each.of)):
            if side.kind != "host" and (id(thing.stream), side.primary) not in ready:
                ready.add((id(thing.stream), side.primary))
                make_ready(home, stream, thing)
    for each in together:
        each.dst.ptr, each.src.ptr  # raises Closed: the code of a stream may have closed memory


def _keep_all(together: list[CheckedCopy], home: PrimaryContext, stream: Any) -> None:
    for each in together:
        for thing, side in ((each.dst, each.to), (each.src, each.of)):
            if side.kind != "host":
                keep(home, stream, thing, side)


def _note_all(together: list[CheckedCopy], stream: Any) -> None:
    for each in together:
        if "host" not in (each.to.kind, each.of.kind):  # otherwise it is complete on return
            note(each.dst, stream)


def _restore(together: list[CheckedCopy], streams: list[Any]) -> None:
    for each, stream in zip(together, streams):
        each.dst.stream = stream


def _make_each(copies: list[CheckedCopy], stream: Any) -> None:
    for each in copies:
        each.make(stream)


def _wait(copies: list[CheckedCopy], home: PrimaryContext, handle: int) -> None:
    """Wait until copies on a stream are done; a default stream is one of each device that takes part."""
    contexts = {home}
    if handle <= PER_THREAD:
        contexts.update([side.primary for each in copies for side in (each.to, each.of) if side.primary is not None])
    for primary in contexts:
        primary.calls.cuStreamSynchronize(queue_of(handle))


def _checked(number: int, pair: Any, stream: Any) -> CheckedCopy:
    """Check a pair; every error names it."""
    if not isinstance(pair, (tuple, list)) or len(pair) != 2:
        raise TypeError(f"pair {number} must be (dst, src), not {worded(pair)}")
    try:
        dst, src = pair
        for side in (dst, src):
            if isinstance(side, Unaddressed):
                raise TypeError(
                    f"copy_batch() does not accept {a_kind(side)}, which has no addresses: copy it with "
                    "copy(dst, src) or copy_from()"
                )
        return CheckedCopy(dst, src, stream)
    except Exception as error:
        if error.args and isinstance(error.args[0], str):
            error.args = (f"pair {number}: {error.args[0]}", *error.args[1:])
        raise


def _depend(copies: list[CheckedCopy]) -> bool:
    """Tell whether the target of a copy may share bytes with a side of any copy, itself included."""
    extents: list[tuple[int, int, bool]] = []  # first address, end, whether it is a target
    for each in copies:
        walk = each.walk
        for address, strides, is_target in (
            (walk.target, walk.target_strides, True),
            (walk.source, walk.source_strides, False),
        ):
            low, high = layout.extent(walk.shape, strides, walk.nbytes)
            extents.append((address + low, address + high, is_target))
    furthest, furthest_target = 0, 0  # the largest end so far, of all ranges and of targets
    for first, end, is_target in sorted(extents):
        if first < (furthest if is_target else furthest_target):
            return True
        furthest = max(furthest, end)
        if is_target:
            furthest_target = max(furthest_target, end)
    return False


def _divide(copies: list[CheckedCopy], home: PrimaryContext) -> tuple[list[CheckedCopy], list[CheckedCopy]]:
    """Return the runs of bytes and the pitched boxes that the driver can copy together, if there are at least two."""
    ours = [each for each in copies if {each.to.primary, each.of.primary} <= {home, None}]
    ours = [each for each in ours if each.to.primary is not None or each.of.primary is not None]
    runs = [each for each in ours if not each.walk.shape]
    boxes = [each for each in ours if box_of(each.walk) and "host" not in (each.to.kind, each.of.kind)]
    has = home.driver.has
    return (
        runs if len(runs) > 1 and (has("cuMemcpyBatchAsync_v2") or has("cuMemcpyBatchAsync")) else [],
        boxes if len(boxes) > 1 and (has("cuMemcpy3DBatchAsync_v2") or has("cuMemcpy3DBatchAsync")) else [],
    )


def _copy_runs(
    calls: Any, queue: Any, runs: list[CheckedCopy], order: int, overlap: bool, home: PrimaryContext
) -> None:
    """Copy runs of bytes together.

    calls   cuMemcpyBatchAsync_v2, cuMemcpyBatchAsync
    """
    count = len(runs)
    targets = (ctypes.c_uint64 * count)(*[each.walk.target for each in runs])
    sources = (ctypes.c_uint64 * count)(*[each.walk.source for each in runs])
    sizes = (ctypes.c_size_t * count)(*[each.walk.nbytes for each in runs])
    attributes = cuda_h.CUmemcpyAttributes(srcAccessOrder=order, flags=_OVERLAP if overlap else 0)
    first, failed = ctypes.c_size_t(0), ctypes.c_size_t(0)
    common = byref(targets), byref(sources), byref(sizes), as_argument(count), byref(attributes), byref(first)
    if home.driver.has("cuMemcpyBatchAsync_v2"):
        calls.cuMemcpyBatchAsync_v2(*common, as_argument(1), queue)
    else:
        calls.cuMemcpyBatchAsync(*common, as_argument(1), byref(failed), queue)


def _copy_boxes(
    calls: Any, queue: Any, boxes: list[CheckedCopy], order: int, overlap: bool, home: PrimaryContext
) -> None:
    """Copy pitched boxes together.

    calls   cuMemcpy3DBatchAsync_v2, cuMemcpy3DBatchAsync
    """
    operations = (cuda_h.CUDA_MEMCPY3D_BATCH_OP * len(boxes))()
    for operation, each in zip(operations, boxes):
        walk, box = each.walk, box_of(each.walk)
        assert box is not None
        for operand, address, (pitch, rows) in (
            (operation.dst, walk.target, box[0]),
            (operation.src, walk.source, box[1]),
        ):
            operand.type = _POINTER
            operand.op.ptr.ptr, operand.op.ptr.rowLength, operand.op.ptr.layerHeight = address, pitch, rows
        operation.extent.width, operation.extent.height, operation.extent.depth = walk.nbytes, *box[2:]
        operation.srcAccessOrder, operation.flags = order, _OVERLAP if overlap else 0
    count, none, failed = as_argument(len(boxes)), ctypes.c_ulonglong(0), ctypes.c_size_t(0)
    if home.driver.has("cuMemcpy3DBatchAsync_v2"):
        calls.cuMemcpy3DBatchAsync_v2(count, byref(operations), none, queue)
    else:
        calls.cuMemcpy3DBatchAsync(count, byref(operations), byref(failed), none, queue)
