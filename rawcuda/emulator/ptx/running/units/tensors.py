"""Tensor maps: what their bytes mean, and the copies of boxes that they describe.

What it is   `tensor_in` and `tensor_out`, copies of a box between global and shared memory; changes that a kernel
             makes to a map.
How          A copy to shared memory fills the elements outside the tensor, and a copy from it leaves them out. A
             swizzle permutes the 16-byte parts of each 128 bytes or less of shared memory by the bits of the address
             above them.
Source       PTX ISA, "Tensors", "cp.async.bulk.tensor", "tensormap.replace"; CUDA Driver API, "Tensor Map Object
             Management"
Read next    bulk.py
"""

from __future__ import annotations

import struct
from itertools import product

from ....machine.codes import LAUNCH_FAILED
from ....machine.space import Fault
from ....machine.tensor_map_layout import LAYOUT, MAGIC, SIZE, SIZES
from ...checking.places import shared_fault
from .late_units import Late, combine
from .span_units import again, span

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, Callable

    from ..thread import Thread

__all__ = [
    "TensorMap",
    "tensor_in",
    "tensor_map_copy",
    "tensor_map_replace",
    "tensor_out",
]

# magic; type, rank, interleave, swizzle, promotion, fill, the least rank of the form; address; extents; strides; steps;
# and the box
_TYPES = ("", "", "u32", "s32", "u64", "s64", "f16", "f32", "f64", "bf16", "f32", "f32", "f32")
_NAN = {2: b"\xff\x7f", 4: b"\xff\xff\xff\x7f", 8: b"\xff\xff\xff\xff\xff\xff\xff\x7f"}


class TensorMap:
    """A tensor map that a kernel uses."""

    __slots__ = ("type", "rank", "swizzle", "fill", "address", "extents", "strides", "steps", "box", "size")

    def __init__(self, data: bytes) -> None:
        fields: list[Any]
        magic, *fields = LAYOUT.unpack_from(data)
        if magic != MAGIC:
            raise Fault(LAUNCH_FAILED, "these 128 bytes are not a tensor map that cuTensorMapEncodeTiled has made")
        self.type, self.rank, interleave, self.swizzle, _, self.fill, form, self.address = fields[:8]
        rank = self.rank
        self.extents, self.strides = fields[8 : 8 + rank], fields[13 : 13 + rank - 1]
        self.steps, self.box = fields[17 : 17 + rank], fields[22 : 22 + rank]
        if not 0 < rank <= 5 or self.type >= len(SIZES) or not all((*self.steps, *self.box)):
            raise Fault(
                LAUNCH_FAILED, f"a bad tensor map: rank {rank}, type {self.type}, box {self.box}, steps {self.steps}"
            )
        if form != 1:
            raise Fault(LAUNCH_FAILED, "copies with a tensor map of the form im2col are not emulated")
        if interleave:
            raise Fault(LAUNCH_FAILED, "copies with an interleaved tensor map are not emulated")
        if self.fill and "f" not in _TYPES[self.type]:
            raise Fault(LAUNCH_FAILED, "a bad tensor map: it fills with NaN, which its elements, integers, do not have")
        if self.swizzle > 3:
            raise Fault(LAUNCH_FAILED, f"copies with the swizzle {self.swizzle} of a tensor map are not emulated")
        self.size = SIZES[self.type]
        if self.swizzle and self.box[0] * self.size > self.span:
            raise Fault(
                LAUNCH_FAILED,
                f"a bad tensor map: the inner dimension of its box has {self.box[0] * self.size} bytes: this swizzle "
                f"permits at most {self.span}",
            )

    @property
    def span(self) -> int:
        """Return the bytes inside of which the swizzle moves parts."""
        return 16 << int(self.swizzle)

    @property
    def nbytes(self) -> int:
        """Return the bytes of a box in shared memory."""
        total = int(self.size)
        for side, step in zip(self.box, self.steps):
            total *= -(-side // step)
        return int(total)

    def rows(self, start: tuple[int, ...]) -> Iterator[tuple[int, int, int, int]]:
        """Yield the rows of a box: offset in global memory, elements before and inside the tensor, place in the box.

        shape   start: the coordinates, innermost first; a row that is outside the tensor has no elements inside
        """
        counts = [-(-side // step) for side, step in zip(self.box, self.steps)]
        inner, step = counts[0], self.steps[0]
        if start[0] < 0:
            before = min(max(-(start[0] // step), 0), inner)
        else:
            before = 0
        inside = 0
        if start[0] + before * step < self.extents[0]:
            inside = min(inner - before, (self.extents[0] - 1 - start[0] - before * step) // step + 1)
        place = 0
        for outer in product(*(range(count) for count in reversed(counts[1:]))):
            offset, fits = (start[0] + before * step) * self.size, True
            for axis, at in enumerate(reversed(outer), 1):
                coordinate = start[axis] + at * self.steps[axis]
                fits = fits and 0 <= coordinate < self.extents[axis]
                offset += coordinate * self.strides[axis - 1]
            yield offset, before, inside if fits else 0, place
            place += inner * self.size

    def reach(self) -> int:
        """Return the bytes of shared memory that a copy needs: with a swizzle, whole spans of it."""
        if self.swizzle:
            return -(-self.nbytes // self.span) * self.span
        return self.nbytes

    def runs(self, base: int) -> list[tuple[int, int]]:
        """Return the ranges of shared memory that a box at `base` has, as offsets and lengths.

        A swizzle that is wider than what is left for its last span leaves holes there.
        """
        if not self.swizzle or not self.nbytes % self.span:
            return [(0, self.nbytes)]
        whole = self.nbytes // self.span * self.span
        last = [(self.swizzled(base + at) - base, min(16, self.nbytes - at)) for at in range(whole, self.nbytes, 16)]
        if whole:
            return [(0, whole), *last]
        return last

    def swizzled(self, place: int) -> int:
        """Return the shared address of a byte of a box."""
        if not self.swizzle:
            return place
        mask = (1 << int(self.swizzle)) - 1
        return place ^ (place >> 7 & mask) << 4


def _open(thread: Thread, address: int) -> TensorMap:
    if address % 64:
        try:
            thread.reach(address, 0, "B", 64)  # which raises
        except Fault as found:
            raise Fault(found.code, f"the tensor map: {found.report}") from None
    view, at, _ = thread.reach(address, 0, "B", 1)
    if at + SIZE > len(view):
        thread.reach(address + SIZE - 1, 0, "B", 1)
    return TensorMap(bytes(view[at : at + SIZE]))


def _check_place(thread: Thread, made: TensorMap, place: int, coordinates: tuple[int, ...]) -> None:
    if len(coordinates) != made.rank:
        raise Fault(LAUNCH_FAILED, f"{len(coordinates)} coordinates for a tensor map of {made.rank} dimensions")
    if place % 128:
        raise shared_fault(thread.launch, place, made.nbytes, 128)


_OUTSIDE = memoryview(b""), 0  # the place of a row that is outside of the tensor


def tensor_in(
    thread: Thread, late: Late, address: int, coordinates: tuple[int, ...], target: int, barrier: int, ranks: int,
    line: int,
) -> None:  # fmt: skip
    """Start the copy of a box to shared memory."""
    made = _open(thread, address)
    _check_place(thread, made, target & 0xFFFFFF, coordinates)
    late.home(target, False, made.reach())  # checked first: the rows of a box that does not fit may be very many
    rows = list(made.rows(coordinates))
    places = [
        span(thread, made.address + offset, (inside - 1) * made.steps[0] * made.size + made.size, 1, line, writes=False)
        if inside else _OUTSIDE
        for offset, _, inside, _ in rows
    ]  # fmt: skip
    count, size, step = made.nbytes, made.size, made.steps[0]
    if made.fill:
        fill = _NAN[size]
    else:
        fill = bytes(size)
    width = -(-made.box[0] // step)

    def data() -> bytes:
        raw = bytearray()
        for (_, before, inside, _), (view, at) in zip(rows, places):
            if step == 1:
                middle = bytes(view[at : at + inside * size])
            else:
                middle = b"".join(bytes(view[at + i * step * size :][:size]) for i in range(inside))
            if not inside:
                before = 0
            raw += fill * before + middle + fill * (width - before - inside)
        if not made.swizzle:
            return bytes(raw)
        turned = bytearray(made.reach())
        for at in range(0, count, 16):
            to, part = made.swizzled(base + at) - base, raw[at : at + 16]
            turned[to : to + len(part)] = part
        return bytes(turned)

    base = target & 0xFFFFFF
    late.bulk_in(target, data, count, barrier, ranks, line, made.runs(base), len(rows))


def tensor_out(
    thread: Thread, late: Late, address: int, coordinates: tuple[int, ...], source: int, verb: str, line: int
) -> None:
    """Start the copy of a box from shared memory, or its combination with the tensor."""
    made = _open(thread, address)
    _check_place(thread, made, source & 0xFFFFFF, coordinates)
    block, base = late.home(source, False, made.reach())
    rows = [row for row in made.rows(coordinates) if row[2]]
    size, step = made.size, made.steps[0]
    ranges = [(made.address + offset, (inside - 1) * step * size + size) for offset, _, inside, _ in rows]
    places = [span(thread, *each, 1, line, writes=True, needs=bool(verb)) for each in ranges]
    type = _TYPES[made.type]
    if verb and not type:
        raise Fault(LAUNCH_FAILED, "a reduction needs elements of 32 or 64 bits, or halves")
    if block is late.block:
        leaves = [(base + at, length) for at, length in made.runs(base)]
    else:
        leaves = []
    for at, length in leaves:
        late.leaving(at, length, line)
    if verb in ("and", "or", "xor"):
        type = f"u{size * 8}"

    def read() -> Callable[[bool], None]:
        for at, length in leaves:
            late.left(at, length)
        elements = [
            bytes(block.shared[of : of + size])
            for _, before, inside, place in rows
            for of in [made.swizzled(base + place + (before + number) * size) for number in range(inside)]
        ]

        def store(waited: bool) -> None:
            for each in ranges if waited else ():
                again(thread, *each, line, bool(verb))
            targets = [
                view[to : to + size]
                for (_, _, inside, _), (view, at) in zip(rows, places)
                for to in range(at, at + inside * step * size, step * size)
            ]
            for target, element in zip(targets, elements):
                if verb:
                    combine(verb, type, target, element)
                else:
                    target[:] = element

        return store

    late.start_store(read, len(rows))


# -- maps that a kernel changes


_FIELDS = {"rank": 1, "interleave_layout": 2, "swizzle_mode": 3, "fill_mode": 5, "elemtype": 0, "global_address": 7}


def tensor_map_replace(thread: Thread, address: int, field: str, at: int, value: int, line: int) -> None:
    """Change a field of a tensor map."""
    view, start = span(thread, address, SIZE, 64, line, writes=True)
    magic, *fields = LAYOUT.unpack_from(bytes(view[start : start + SIZE]))
    if magic != MAGIC:
        raise Fault(LAUNCH_FAILED, "these 128 bytes are not a tensor map that cuTensorMapEncodeTiled has made")
    if field == "global_dim":
        fields[8 + at] = value
    elif field == "global_stride":
        fields[13 + at] = value
    elif field == "element_stride":
        fields[17 + at] = value & 0xFF
    elif field == "box_dim":
        fields[22 + at] = value & 0xFFFF
    else:
        if field == "rank":
            fields[_FIELDS[field]] = value + 1
        else:
            fields[_FIELDS[field]] = value
    try:
        made = LAYOUT.pack(magic, *fields)
    except struct.error:
        raise Fault(LAUNCH_FAILED, f"tensormap.replace of {field} with {value}, which is too large for it") from None
    view[start : start + LAYOUT.size] = made


def tensor_map_copy(thread: Thread, target: int, source: int, line: int) -> None:
    """Copy a tensor map from shared to global memory; only lane 0 does it, as all lanes would write the same."""
    if thread.place_in_block[0] % 32 == 0:
        view, at = span(thread, source, SIZE, 128, line, writes=False)
        to, place = span(thread, target, SIZE, 128, line, writes=True)
        to[place : place + SIZE] = view[at : at + SIZE]
