"""Entry points: copies of one, two and three dimensions; fills with elements of 1, 2 or 4 bytes.

What it is   all of cuMemcpy* and cuMemset*; those of one row of an array are in entries/texturing/array_entries.py.
How          every form is reduced to one: a copy of a box of rows. The call checks the box to the byte; the copy runs
             in stream order. The call stages the content of a pageable source, as the driver does. A call waits for a
             copy to pageable memory, and for one between hosts, for which nothing is staged. Pinned memory is never
             staged, so a program that overwrites it too early gets wrong results here. The forms without a stream
             (here None) use the legacy default stream, and wait unless both sides are on a device.
Source       CUDA Driver API, "API synchronization behavior", "Memory Management"
Read next    entries/code/modules.py
"""

from __future__ import annotations

import ctypes
from bisect import bisect_left, bisect_right
from heapq import merge
from itertools import repeat

from ...interface.thunks import MEMCPY2D, MEMCPY3D, entry, read
from ...machine.codes import Refused
from ...machine.device_arrays import Array
from ...machine.machine import Machine
from ...machine.queues import Stream
from ...machine.space import FIRST_ADDRESS, Fault
from .memory_entries import access_of, allocation_at
from .unwritten import checked

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from ...machine.space import Allocation

__all__ = [
    "Box",
    "any_box",
    "array_box",
    "copy_boxes",
    "copy_work",
    "device_box",
    "fill_work",
    "host_box",
    "move",
    "refuse_read_only",
    "rows_of",
    "sides_of",
    "span_of",
    "stream_of",
]

_HOST, _DEVICE, _ARRAY, _UNIFIED = 1, 2, 3, 4
_PIECE = 1 << 18  # how many elements a fill writes at once


class Box:
    """A box of rows of bytes in memory: where it begins, the pitch of rows and planes, and the allocation."""

    __slots__ = ("start", "pitch", "plane", "allocation", "pieces", "joined", "image", "element")

    def __init__(
        self,
        start: int,
        pitch: int,
        plane: int,
        allocation: Allocation | None,
        pieces: list[Allocation] | None = None,
    ) -> None:
        self.start, self.pitch, self.plane = start, pitch, plane
        self.pieces = pieces  # the mappings of virtual memory that contain the box, if there are several
        self.joined = None if pieces is None else _Joined(pieces)
        self.allocation = allocation  # None: pageable host memory
        self.image: memoryview | None = None  # the staged content, without gaps between its rows
        self.element = 0  # the size of an element of an array, in bytes; 0: this is not in an array

    @property
    def is_host(self) -> bool:
        """Tell whether this is host memory, pageable or pinned."""
        return self.allocation is None or self.allocation.kind == "pinned"

    @property
    def is_device(self) -> bool:
        """Tell whether the host cannot access this memory."""
        return self.allocation is not None and self.allocation.kind in ("device", "variable", "virtual", "array")

    def rows(self, span: int) -> tuple[Any, int]:
        """Return memory that contains this box, and the offset of the box in it."""
        if self.image is not None:
            return self.image, 0
        if self.allocation is None:
            return memoryview((ctypes.c_char * span).from_address(self.start)).cast("B"), 0
        for piece in self.pieces or (self.allocation,):
            if not piece.alive:
                raise Fault(700, f"a copy ran after its memory, a {piece.describe()}, was freed")
        data = self.allocation.data if self.joined is None else self.joined
        return data, self.start - self.allocation.base

    def steps(self, width: int, height: int) -> tuple[int, int]:
        """Return how far rows and planes are apart in the memory that rows() returns."""
        if self.image is not None:
            return width, width * height
        return self.pitch, self.plane

    def stage(self, width: int, height: int, depth: int) -> None:
        """Keep what the rows contain now; what lies between them may not even be readable."""
        memory, at = self.rows(span_of(self, width, height, depth))
        if depth == 1 and (height == 1 or self.pitch == width):
            width, height = width * height, 1
        image, offset = bytearray(), at - self.start
        for begin, end in rows_of(self, width, height, depth):
            image += memory[begin + offset : end + offset]
        self.image = memoryview(image)

    def wrote(self, at: int, nbytes: int) -> None:
        """Record that bytes were written, from an offset in the memory that rows() returns."""
        if self.joined is not None:
            self.joined.wrote(at, nbytes)
        elif self.allocation is not None:
            self.allocation.wrote(at, nbytes)


class _Joined:
    """The bytes of several mappings that follow each other, for reading and writing slices."""

    __slots__ = ("_pieces", "_firsts")

    def __init__(self, pieces: list[Allocation]) -> None:
        self._pieces, self._firsts = pieces, [piece.base - pieces[0].base for piece in pieces]

    def parts(self, begin: int, end: int) -> Iterator[tuple[Allocation, int, int, int]]:
        """Yield each piece of a range with its range in the piece, and where that is in the whole range."""
        for index in range(bisect_right(self._firsts, begin) - 1, bisect_left(self._firsts, end)):
            piece, first = self._pieces[index], self._firsts[index]
            low, high = max(begin, first), min(end, first + piece.size)
            yield piece, low - first, high - first, low - begin

    def __getitem__(self, which: slice) -> bytes:
        parts = self.parts(which.start, which.stop)
        return b"".join(piece.data[low:high] for piece, low, high, _ in parts)

    def __setitem__(self, which: slice, data: Any) -> None:
        source = memoryview(data)
        for piece, low, high, at in self.parts(which.start, which.stop):
            piece.data[low:high] = source[at : at + high - low]

    def wrote(self, begin: int, nbytes: int) -> None:
        """Record that bytes were written."""
        for piece, low, high, _ in self.parts(begin, begin + nbytes):
            piece.wrote(low, high - low)


def host_box(machine: Machine, address: int, pitch: int, plane: int, span: int) -> Box:
    """Describe host memory, which is pinned if an allocation contains it."""
    if not address:
        raise Refused(1, "the host pointer is NULL: pass the address of host memory")
    allocation = allocation_at(machine, address)
    if allocation is None:
        if address >= FIRST_ADDRESS:
            raise Refused(
                1,
                f"{address:#x} cannot be a host pointer: {machine.space.explain(address, span)}",
            )
        return Box(address, pitch, plane, None)
    if allocation.kind == "virtual":
        is_of_device = allocation.context.mapping.physical.device is not None
    else:
        is_of_device = allocation.kind in ("device", "variable")
    if is_of_device:
        raise Refused(
            1, f"the host pointer of a copy is {machine.space.explain(address, span)}: the host cannot use it"
        )
    machine.space.window(address, span)
    return Box(address, pitch, plane, allocation)


def device_box(machine: Machine, address: int, pitch: int, plane: int, span: int) -> Box:
    """Describe memory that a device can access, or refuse a range that is not inside one allocation.

    Several mappings of virtual memory without a gap count as one.
    """
    allocation = allocation_at(machine, address)
    if allocation is not None and allocation.kind == "virtual":
        return _virtual_box(machine, address, pitch, plane, span)
    if allocation is None or address - allocation.base + span > allocation.size:
        raise Refused(1, machine.space.explain(address, span))
    return Box(address, pitch, plane, allocation)


def _virtual_box(machine: Machine, address: int, pitch: int, plane: int, span: int) -> Box:
    """Describe virtual memory, which the current device or the device of the memory must be able to access."""
    try:
        pieces = machine.space.run_of(address, span)
    except Fault as fault:
        raise Refused(fault.code, fault.report) from None
    here = machine.context().device.ordinal
    for piece in pieces:
        mapping = piece.context.mapping
        if mapping.physical.device is None:
            owner = here
        else:
            owner = mapping.physical.device.ordinal
        if not (mapping.access.get(here) or mapping.access.get(owner)):
            raise Refused(
                1, f"{machine.space.explain(address, span)}, to which no device was given access: call cuMemSetAccess"
            )
    return Box(address, pitch, plane, pieces[0], pieces if len(pieces) > 1 else None)


def refuse_read_only(machine: Machine, box: Box) -> None:
    """Refuse to write to memory that every device may only read (cuMemHostRegister, cuMemSetAccess)."""
    if not machine.restricted or box.allocation is None or not box.start:
        return
    context = machine.context()
    for piece in box.pieces or (box.allocation,):
        holding = piece.context
        if getattr(holding, "flavour", "") == "registered":
            is_writable = access_of(holding, context) == 3
        elif piece.kind == "virtual":
            is_writable = 3 in holding.mapping.access.values()
        else:
            continue
        if not is_writable:
            raise Refused(1, f"{machine.space.explain(box.start, 1)}, which devices may only read")


def array_box(machine: Machine, handle: int, start: tuple[int, int, int], extents: tuple[int, int, int]) -> Box:
    """Describe part of an array: its start and its extents are in bytes, rows and slices."""
    found = machine.get(Array, handle)
    offset, pitch, plane = found.place(*start, *extents)
    box = Box(offset, pitch, plane, found.allocation)
    box.element = found.element
    return box


def any_box(machine: Machine, address: int, pitch: int, plane: int, span: int) -> Box:
    """Describe memory by its address alone, as unified addressing does."""
    if machine.space.find(address) is None and 0 < address < FIRST_ADDRESS:
        return Box(address, pitch, plane, None)
    return device_box(machine, address, pitch, plane, span)


_BOXES = {_HOST: host_box, _DEVICE: device_box, _UNIFIED: any_box}


def move(target: Box, source: Box, width: int, height: int, depth: int) -> None:
    """Copy the rows of one box to another."""
    to, at = target.rows(span_of(target, width, height, depth))
    taken, whence = source.rows(span_of(source, width, height, depth))
    pitch, beyond = source.steps(width, height)
    if depth == 1 and (height == 1 or target.pitch == pitch == width):
        to[at : at + width * height] = taken[whence : whence + width * height]
        _mark(target, at, source, whence, width * height)
        return
    for plane in range(depth):
        for row in range(height):
            first = at + plane * target.plane + row * target.pitch
            begin = whence + plane * beyond + row * pitch
            to[first : first + width] = taken[begin : begin + width]
            _mark(target, first, source, begin, width)


def _mark(target: Box, at: int, source: Box, whence: int, nbytes: int) -> None:
    """Record what was written. A copy of uninitialized memory is uninitialized; only its use is an error."""
    if target.allocation is None or target.pieces is None and target.allocation.written is None:
        return
    if source.allocation is not None and source.image is None:
        known = source.allocation.written
    else:
        known = None
    if known is None or target.pieces is not None or source.pieces is not None or target.allocation.written is None:
        target.wrote(at, nbytes)
    else:
        target.allocation.written[at : at + nbytes] = known[whence : whence + nbytes]


def span_of(box: Box, width: int, height: int, depth: int) -> int:
    """Return the number of bytes from the first of a box to its last."""
    return (depth - 1) * box.plane + (height - 1) * box.pitch + width


def rows_of(box: Box, width: int, height: int, depth: int) -> Iterator[tuple[int, int]]:
    """Yield where each row of a box begins and ends, in order."""
    for plane in range(depth):
        for row in range(height):
            at = box.start + plane * box.plane + row * box.pitch
            yield at, at + width


def _overlap(target: Box, source: Box, width: int, height: int, depth: int) -> bool:
    """Tell whether a row of the target overlaps one of the source, unless both are the same rows."""
    if (target.element or source.element) and target.allocation is not source.allocation:
        return False  # the start of a box in an array is not an address
    first, second = sorted((target, source), key=lambda box: box.start)
    if first.start + span_of(first, width, height, depth) <= second.start:
        return False
    extents = width, height, depth
    if all(row == other for row, other in zip(rows_of(target, *extents), rows_of(source, *extents))):
        return False
    ends = [0, 0]  # of the last row of each side
    # No lists: each row of them takes some hundred bytes.
    for (begin, end), side in merge(*(zip(rows_of(box, *extents), repeat(box is source)) for box in (target, source))):
        if begin < ends[1 - side]:
            return True
        ends[side] = end
    return False


def _work(machine: Machine, target: Box, source: Box, extents: tuple[int, int, int]) -> Callable[[], None]:
    """Check both sides of a copy, and return the function that does it.

    A driver copies in parallel: if a part of the source is in the target, the result is undefined.
    """
    refuse_read_only(machine, target)
    if target.element and source.element and target.element != source.element:
        raise Refused(
            1, f"elements of {source.element} bytes cannot be copied to elements of {target.element}: use equal sizes"
        )
    if _overlap(target, source, *extents):
        raise Refused(
            1, f"the source {source.start:#x} and the target {target.start:#x} of a copy overlap: copy to other memory"
        )
    return checked(machine, target, source, extents, lambda: move(target, source, *extents))


def stream_of(machine: Machine, handle: int | None) -> Stream:
    """Return the stream of a copy or fill; those without a stream cannot be captured, because they wait for it."""
    stream = machine.stream(handle or 0)
    if handle is None and stream.capture is not None:  # in a form _ptds
        stream.capture.invalidate()
        raise Refused(900, "the default stream of this thread is capturing: use a form with a stream (Async)")
    return stream


def copy_boxes(
    machine: Machine,
    stream: Stream,
    target: Box,
    source: Box,
    width: int,
    height: int = 1,
    depth: int = 1,
    *,
    waits: bool,
) -> None:
    """Queue a copy, and wait for it if the driver would.

    A copy to pageable memory is always waited for, since nobody keeps that memory until it is written later.
    """
    queues, extents = machine.queues, (width, height, depth)
    function = _work(machine, target, source, extents)
    between_hosts = target.is_host and source.is_host
    # a captured copy reads its host memory in each launch
    if source.allocation is None and not between_hosts and stream.capture is None:
        if waits:
            for earlier in queues.pending(stream):
                queues.complete(earlier)
            stream.context.check()
        source.stage(*extents)
    if stream.capture is not None:  # an array copy that no CUDA_MEMCPY3D describes
        stream.capture.run(stream, function, "a copy", type=1)
        return
    seen = not target.is_device or not (
        source.is_device or source.allocation is None
    )  # whether the host could observe the target or the source before the copy ended
    now = (waits and seen) or between_hosts or target.allocation is None
    work = queues.submit(stream, function, "a copy", waits=now)
    if not work.done and not now:
        work.given, work.site = (target.start & (1 << 64) - 1).to_bytes(8, "little"), machine.caller()
    if now:
        queues.complete(work)
        stream.context.check()


def _captured_kind(machine: Machine, address: int) -> int:
    """Return the CUmemorytype of an address in a node of a graph."""
    is_host = machine.space.find(address) is None and 0 < address < FIRST_ADDRESS
    if is_host:
        return _HOST
    return _DEVICE


def _capture(stream: Stream, words: tuple[int, ...]) -> None:
    """Add a copy to the graph that a stream captures; it reads its source in each launch."""
    assert stream.capture is not None
    stream.capture.copy(stream, words)


def copy_work(machine: Machine, words: tuple[int, ...]) -> Callable[[], None]:
    """Check a copy, given by the members of a CUDA_MEMCPY3D, and return the function that does it."""
    target, source, extents = sides_of(words)
    return _work(machine, target.box(machine, *extents), source.box(machine, *extents), extents)


def sides_of(words: tuple[int, ...]) -> tuple[_Side, _Side, tuple[int, int, int]]:
    """Return target, source and extents of a copy, given by the members of a CUDA_MEMCPY3D."""
    (sx, sy, sz, sl, sk, sh, sd, sa, s0, sp, sr, tx, ty, tz, tl, tk, th, td, ta, t0, tp, tr, *extents) = words
    if sl or tl:
        raise Refused(1, f"srcLOD {sl}, dstLOD {tl}: must be 0; a level of a mipmapped array is an array of its own")
    if s0 or t0:
        raise Refused(1, f"reserved0 {s0:#x}, reserved1 {t0:#x}: must be NULL")
    width, height, depth = extents
    target = _Side(tx, ty, tz, tk, th, td, ta, tp, tr)
    return target, _Side(sx, sy, sz, sk, sh, sd, sa, sp, sr), (width, height, depth)


# -- one row


def _bytes(machine: Machine, target: int, source: int, nbytes: int, kinds: tuple[int, int], handle: int | None) -> None:
    """Copy bytes in a stream; without one, copy in the legacy stream and wait."""
    stream = stream_of(machine, handle)
    if not nbytes:
        return
    if stream.capture is not None:
        sides = [(0, 0, 0, 0, _captured_kind(machine, end), end, end, 0, 0, 0, 1) for end in (source, target)]
        _capture(stream, (*sides[0], *sides[1], nbytes, 1, 1))
        return
    copy_boxes(
        machine,
        stream,
        _BOXES[kinds[0]](machine, target, nbytes, nbytes, nbytes),
        _BOXES[kinds[1]](machine, source, nbytes, nbytes, nbytes),
        nbytes,
        waits=handle is None,
    )


@entry("cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount, CUstream hStream)", since=4000)
@entry("cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount)", since=4000)
def copy(machine: Machine, target: int, source: int, nbytes: int, stream: int | None = None) -> None:
    """Copy between any two addresses."""
    _bytes(machine, target, source, nbytes, (_UNIFIED, _UNIFIED), stream)


@entry(
    "cuMemcpyHtoDAsync_v2(CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount, CUstream hStream)", since=3020
)
@entry("cuMemcpyHtoD_v2(CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount)", since=3020)
def host_to_device(machine: Machine, target: int, source: int, nbytes: int, stream: int | None = None) -> None:
    """Copy from host to device."""
    _bytes(machine, target, source, nbytes, (_DEVICE, _HOST), stream)


@entry("cuMemcpyDtoHAsync_v2(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream)", since=3020)
@entry("cuMemcpyDtoH_v2(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount)", since=3020)
def device_to_host(machine: Machine, target: int, source: int, nbytes: int, stream: int | None = None) -> None:
    """Copy from device to host."""
    _bytes(machine, target, source, nbytes, (_HOST, _DEVICE), stream)


@entry(
    "cuMemcpyDtoDAsync_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream)", since=3020
)
@entry("cuMemcpyDtoD_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount)", since=3020)
def device_to_device(machine: Machine, target: int, source: int, nbytes: int, stream: int | None = None) -> None:
    """Copy on the device; the host never waits."""
    _bytes(machine, target, source, nbytes, (_DEVICE, _DEVICE), stream)


def _meet(machine: Machine, ends: tuple[int, ...], handle: int | None) -> tuple[int, ...]:
    """Finish all work of both contexts of a copy between contexts, unless the copy is in stream order."""
    current = machine.context()
    if handle is None:
        machine.queues.refuse_inside_work()
    for end in ends:
        context = machine.context_of(end)
        if handle is None and context is not current:
            machine.queues.complete_context(context)
    if handle is None:
        machine.queues.complete_context(current)
    return ends


@entry(
    "cuMemcpyPeerAsync(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice, CUcontext srcContext, "
    "size_t ByteCount, CUstream hStream)",
    since=4000,
)
@entry(
    "cuMemcpyPeer(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice, CUcontext srcContext, size_t "
    "ByteCount)",
    since=4000,
)
def copy_peer(
    machine: Machine,
    target: int,
    target_context: int,
    source: int,
    source_context: int,
    nbytes: int,
    stream: int | None = None,
) -> None:
    """Copy between two contexts' memory."""
    ends = _meet(machine, (target_context, source_context), stream)
    device_to_device(machine, target, source, nbytes, stream)
    _meet(machine, ends, stream)


# -- rows and planes


class _Side:
    """One side of a 2-D or 3-D copy, as its structure describes it."""

    def __init__(
        self, x: int, y: int, z: int, kind: int, host: int, device: int, array: int, pitch: int, rows: int
    ) -> None:
        if kind not in _BOXES and kind != _ARRAY:
            raise Refused(1, f"{kind} is not a CUmemorytype")
        self.x, self.y, self.z, self.kind, self.pitch, self.rows, self.array = x, y, z, kind, pitch, rows, array
        if kind == _HOST:
            self.address = host
        elif kind == _ARRAY:
            self.address = array
        else:
            self.address = device

    def words(self) -> tuple[int, ...]:
        """Return the members of a CUDA_MEMCPY3D for this side."""
        if self.kind == _ARRAY:
            address = 0
        else:
            address = self.address
        return self.x, self.y, self.z, 0, self.kind, address, address, self.array, 0, self.pitch, self.rows

    def box(self, machine: Machine, width: int, height: int, depth: int) -> Box:
        """Return the Box of this side."""
        if self.kind == _ARRAY:
            return array_box(machine, self.address, (self.x, self.y, self.z), (width, height, depth))
        if not self.address:  # with an offset, it would not look like NULL any more
            raise Refused(1, "a pointer of the copy is NULL: pass the address of memory")
        pitch = self.pitch or (self.x + width if height * depth == 1 else 0)
        if pitch < self.x + width or self.pitch > machine.answers.attributes[11]:
            raise Refused(1, f"rows of {width} bytes from byte {self.x} on do not fit into a pitch of {pitch}")
        if depth > 1 and self.rows < self.y + height:
            raise Refused(1, f"{height} rows from row {self.y} on do not fit into planes of {self.rows} rows")
        plane = pitch * (self.rows or height)
        start = self.address + self.z * plane + self.y * pitch + self.x
        return _BOXES[self.kind](machine, start, pitch, plane, (depth - 1) * plane + (height - 1) * pitch + width)


def _rectangles(
    machine: Machine, target: _Side, source: _Side, width: int, height: int, depth: int, handle: int | None
) -> None:
    stream = stream_of(machine, handle)
    if not (width and height and depth):
        return
    if stream.capture is not None:
        _capture(stream, (*source.words(), *target.words(), width, height, depth))
        return
    copy_boxes(
        machine,
        stream,
        target.box(machine, width, height, depth),
        source.box(machine, width, height, depth),
        width,
        height,
        depth,
        waits=handle is None,
    )


@entry("cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *pCopy, CUstream hStream)", since=3020)
@entry("cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *pCopy)", since=3020)
@entry("cuMemcpy2D_v2(const CUDA_MEMCPY2D *pCopy)", since=3020)
def copy_2d(machine: Machine, address: int, stream: int | None = None) -> None:
    """Copy a rectangle."""
    sx, sy, sk, sh, sd, sa, sp, tx, ty, tk, th, td, ta, tp, width, height = read(MEMCPY2D, address)
    _rectangles(
        machine,
        _Side(tx, ty, 0, tk, th, td, ta, tp, 0),
        _Side(sx, sy, 0, sk, sh, sd, sa, sp, 0),
        width,
        height,
        1,
        stream,
    )


@entry("cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *pCopy, CUstream hStream)", since=3020)
@entry("cuMemcpy3D_v2(const CUDA_MEMCPY3D *pCopy)", since=3020)
def copy_3d(machine: Machine, address: int, stream: int | None = None) -> None:
    """Copy a box."""
    _copy_box(machine, read(MEMCPY3D, address), stream)


def _copy_box(machine: Machine, words: tuple[int, ...], stream: int | None) -> None:
    target, source, extents = sides_of(words)
    _rectangles(machine, target, source, *extents, stream)


@entry("cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER *pCopy, CUstream hStream)", since=4000)
@entry("cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER *pCopy)", since=4000)
def copy_3d_peer(machine: Machine, address: int, stream: int | None = None) -> None:
    """Copy a box between two contexts' memory."""
    words = [*read(MEMCPY3D, address)]
    contexts, words[8], words[19] = (words[8], words[19]), 0, 0  # CUDA_MEMCPY3D has reserved members there
    ends = _meet(machine, tuple(end for end in contexts if end), stream)
    _copy_box(machine, tuple(words), stream)
    _meet(machine, ends, stream)


# -- fills


def fill_work(
    machine: Machine, address: int, pitch: int, value: int, width: int, count: int, height: int
) -> Callable[[], None]:
    """Check a fill of `height` rows of `count` elements of `width` bytes, and return the function that does it."""
    if address % width or (height > 1 and pitch % width):
        raise Refused(1, f"address {address:#x} and pitch {pitch} must be multiples of an element, {width} bytes")
    nbytes = count * width
    if height > 1 and pitch < nbytes:
        raise Refused(1, f"rows of {nbytes} bytes do not fit into a pitch of {pitch}")
    box = device_box(machine, address, pitch, 0, (height - 1) * pitch + nbytes)
    refuse_read_only(machine, box)

    def run() -> None:
        memory, at = box.rows(0)
        piece = value.to_bytes(width, "little") * min(count, _PIECE)
        for first in range(at, at + height * pitch, pitch) if height > 1 else (at,):
            for begin in range(first, first + nbytes, len(piece)):
                end = min(begin + len(piece), first + nbytes)
                memory[begin:end] = piece[: end - begin]
            box.wrote(first, nbytes)

    return run


def _fill(
    machine: Machine, address: int, pitch: int, value: int, width: int, count: int, height: int, handle: int | None
) -> None:
    """Queue a fill of `height` rows of `count` elements of `width` bytes."""
    stream = stream_of(machine, handle)
    if not count or not height:
        if address % width or (height > 1 and pitch % width):
            raise Refused(1, f"address {address:#x} and pitch {pitch} must be multiples of an element, {width} bytes")
        return
    if stream.capture is not None:
        stream.capture.fill(stream, address, pitch, value, width, count, height)
        return
    run = fill_work(machine, address, pitch, value, width, count, height)
    waits = handle is None and not device_box(machine, address, 0, 0, 1).is_device
    work = machine.queues.submit(stream, run, "a fill", waits=waits)
    if not work.done and not waits:
        work.given, work.site = address.to_bytes(8, "little"), machine.caller()
    if waits:
        machine.queues.complete(work)
        stream.context.check()


def _declare_fills(bits: int, kind: str, name: str) -> None:
    """Declare the four fills with elements of some width: of a range and of rows, synchronous and in stream order."""
    run = f"(CUdeviceptr dstDevice, {kind} {name}, size_t N"
    rows = f"(CUdeviceptr dstDevice, size_t dstPitch, {kind} {name}, size_t Width, size_t Height"

    @entry(f"cuMemsetD{bits}Async{run}, CUstream hStream)", since=3020)
    @entry(f"cuMemsetD{bits}_v2{run})", since=3020)
    def fill(machine: Machine, address: int, value: int, count: int, stream: int | None = None) -> None:
        _fill(machine, address, 0, value, bits // 8, count, 1, stream)

    @entry(f"cuMemsetD2D{bits}Async{rows}, CUstream hStream)", since=3020)
    @entry(f"cuMemsetD2D{bits}_v2{rows})", since=3020)
    def fill_2d(
        machine: Machine, address: int, pitch: int, value: int, count: int, height: int, stream: int | None = None
    ) -> None:
        _fill(machine, address, pitch, value, bits // 8, count, height, stream)


for _element in ((8, "unsigned char", "uc"), (16, "unsigned short", "us"), (32, "unsigned int", "ui")):
    _declare_fills(*_element)
