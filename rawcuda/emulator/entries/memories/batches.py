"""Entry points: several copies in one call.

How          the copies of a batch are one piece of work. They run in reverse order (in random mode in any order),
             because no order is promised. A batch in which a copy depends on another is refused. A source that
             may be read at any time is read in the call. A call waits for copies to pageable memory.
Source       CUDA Driver API, "Memory Management": cuMemcpyBatchAsync, cuMemcpy3DBatchAsync
Read next    copy_entries.py
"""

from __future__ import annotations

import ctypes
import struct
from heapq import merge
from itertools import repeat

from ...interface.thunks import WORD, entry, read, take
from ...machine.codes import Refused
from ...machine.machine import Machine
from .copy_entries import Box, any_box, move, refuse_read_only, rows_of, span_of
from .unwritten import checked

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__: list[str] = []

_STREAM, _DURING_CALL, _ANY = 1, 2, 3  # CUmemcpySrcAccessOrder
_ATTRIBUTES = struct.Struct("<i 2i 2i I")  # order of access to the source; hints for source and target; flags
_OPERAND = struct.Struct("i QNN 2i 0Q")  # type; pointer, length of a row, rows of a layer, hint
_ADDRESS = ctypes.c_uint64
_OPERATION_SIZE = (2 * _OPERAND.size + 3 * WORD + 8 + 7) // 8 * 8  # both operands, the extent, order and flags
_POINTER, _ARRAY = 1, 2


class _Copy:
    """A copy of a batch: both boxes, its extents, and when the source is read."""

    __slots__ = ("target", "source", "width", "height", "depth")

    def __init__(self, target: Box, source: Box, width: int, height: int, depth: int, order: int) -> None:
        self.target, self.source, self.width, self.height, self.depth = target, source, width, height, depth
        if order != _STREAM:
            source.stage(width, height, depth)

    def run(self) -> None:
        """Copy."""
        move(self.target, self.source, self.width, self.height, self.depth)

    def range(self, box: Box) -> tuple[int, int]:
        """Return the range of addresses of a side."""
        return box.start, box.start + span_of(box, self.width, self.height, self.depth)

    def rows(self, box: Box) -> Iterable[tuple[int, int]]:
        """Return the range of addresses of each row of a side."""
        return rows_of(box, self.width, self.height, self.depth)


def _overlap(ranges: Iterable[tuple[tuple[int, int], bool]]) -> int:
    """Return where a target begins to overlap another range, or 0.

    Each range says whether it is of a target. They come in order.
    """
    furthest = furthest_target = 0  # the largest end so far, of all ranges and of targets
    for (first, end), is_target in ranges:
        if first < (furthest if is_target else furthest_target):
            return first
        furthest, furthest_target = max(furthest, end), max(furthest_target, end if is_target else 0)
    return 0


def _submit(machine: Machine, handle: int, copies: Callable[[], list[_Copy]]) -> None:
    stream = machine.stream(handle)
    if stream is stream.context.legacy:
        raise Refused(1, "a batch cannot be submitted to the legacy default stream: use another stream")
    if stream.capture is not None:
        raise Refused(900, "a batch of copies cannot be captured: capture single copies")  # the capture stays valid
    made = copies()
    for each in made:
        refuse_read_only(machine, each.target)
    sides = [(each, side, side is each.target) for each in made for side in (each.target, each.source)]
    if _overlap(sorted((each.range(side), is_target) for each, side, is_target in sides)):
        found = _overlap(merge(*(zip(each.rows(side), repeat(is_target)) for each, side, is_target in sides)))
        if found:
            raise Refused(1, f"{found:#x} and the target of a copy overlap in the same batch: use two batches")
    chance = machine.queues.chance
    made = chance.sample(made, len(made)) if chance is not None else made[::-1]
    works = [
        checked(machine, each.target, each.source, (each.width, each.height, each.depth), each.run) for each in made
    ]

    def run() -> None:
        for work in works:
            work()

    pageable = any(box.allocation is None and box.image is None for each in made for box in (each.target, each.source))
    submitted = machine.queues.submit(stream, run, "a batch of copies", waits=pageable)
    if any(each.target.allocation is None for each in made):  # nobody keeps pageable memory until it is written later
        machine.queues.complete(submitted)
        stream.context.check()


def _order(order: int, flags: int) -> int:
    if order not in (_STREAM, _DURING_CALL, _ANY) or flags & ~1:
        raise Refused(1, f"srcAccessOrder {order} must be 1 to 3, and flags {flags:#x} must be 0 or 1")
    return order


@entry(
    "cuMemcpyBatchAsync(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count, CUmemcpyAttributes *attrs, "
    "size_t *attrsIdxs, size_t numAttrs, size_t *failIdx, CUstream hStream)",
    since=12080,
)
def copy_batch_v1(
    machine: Machine,
    targets: int,
    sources: int,
    sizes: int,
    count: int,
    attributes: int,
    firsts: int,
    number: int,
    failed: int,
    stream: int,
) -> None:
    """Copy several runs of bytes. The index of a refused copy is not written."""
    copy_batch(machine, targets, sources, sizes, count, attributes, firsts, number, stream)


@entry(
    "cuMemcpyBatchAsync_v2(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count, CUmemcpyAttributes "
    "*attrs, size_t *attrsIdxs, size_t numAttrs, CUstream hStream)",
    since=13000,
)
def copy_batch(
    machine: Machine,
    targets: int,
    sources: int,
    sizes: int,
    count: int,
    attributes: int,
    firsts: int,
    number: int,
    stream: int,
) -> None:
    """Copy several runs of bytes."""
    if not 0 < number <= count:
        raise Refused(1, f"{number} attributes for {count} copies: must be at least 1, and not more than the copies")
    starts = take(firsts, number)
    if starts[0] or starts != sorted(set(starts)) or starts[-1] >= count:
        raise Refused(1, f"attrsIdxs {starts}: must be {number} increasing indices below {count}, from 0 on")
    orders = []
    for index, start in enumerate(starts):
        order, _, _, _, _, flags = read(_ATTRIBUTES, attributes + index * _ATTRIBUTES.size)
        if index + 1 < number:
            following = starts[index + 1]
        else:
            following = count
        orders += [_order(order, flags)] * (following - start)

    def copies() -> list[_Copy]:
        made = []
        ranges = take(targets, count, _ADDRESS), take(sources, count, _ADDRESS), take(sizes, count)
        for target, source, size, order in zip(*ranges, orders):
            if not size:
                raise Refused(1, "a copy of zero bytes in a batch: leave it out")
            boxes = any_box(machine, target, size, size, size), any_box(machine, source, size, size, size)
            made.append(_Copy(*boxes, size, 1, 1, order))
        return made

    _submit(machine, stream, copies)


@entry(
    "cuMemcpy3DBatchAsync(size_t numOps, CUDA_MEMCPY3D_BATCH_OP *opList, size_t *failIdx, unsigned long long flags, "
    "CUstream hStream)",
    since=12080,
)
def copy_3d_batch_v1(machine: Machine, count: int, operations: int, failed: int, flags: int, stream: int) -> None:
    """Copy several boxes. The index of a refused copy is not written."""
    copy_3d_batch(machine, count, operations, flags, stream)


@entry(
    "cuMemcpy3DBatchAsync_v2(size_t numOps, CUDA_MEMCPY3D_BATCH_OP *opList, unsigned long long flags, CUstream "
    "hStream)",
    since=13000,
)
def copy_3d_batch(machine: Machine, count: int, operations: int, flags: int, stream: int) -> None:
    """Copy several boxes."""
    if flags or not count or not operations:
        raise Refused(1)

    def side(at: int, width: int, height: int, depth: int) -> Box:
        kind, pointer, row, rows, _, _ = read(_OPERAND, at)
        if kind == _ARRAY:
            raise Refused(801, "arrays (texture memory) are not emulated in batches")
        pitch, rows = row or width, rows or height
        if kind != _POINTER or pitch < width or rows < height:
            raise Refused(
                1, f"rows of {width} bytes and layers of {height} rows do not fit into {pitch} bytes and {rows} rows"
            )
        span = (depth - 1) * pitch * rows + (height - 1) * pitch + width
        return any_box(machine, pointer, pitch, pitch * rows, span)

    def copies() -> list[_Copy]:
        made = []
        for index in range(count):
            at = operations + index * _OPERATION_SIZE
            width, height, depth = (ctypes.c_size_t * 3).from_address(at + 2 * _OPERAND.size)
            order, flags = (ctypes.c_uint32 * 2).from_address(at + 2 * _OPERAND.size + 3 * WORD)
            if not (width and height and depth):
                raise Refused(1, "a box of zero bytes in a batch: leave it out")
            target = side(at + _OPERAND.size, width, height, depth)
            made.append(_Copy(target, side(at, width, height, depth), width, height, depth, _order(order, flags)))
        return made

    _submit(machine, stream, copies)
