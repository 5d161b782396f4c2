"""Ranges of bytes that an instruction reads or writes as a whole, at a generic address.

What it is   `span`, which checks a range and tells the checkers; functions that load and store matrices, each for one
             lane.
Read next    ptx/running/lookups.py, whose `reach` finds the memory
"""

from __future__ import annotations

import struct
from functools import lru_cache

from ....machine.codes import ILLEGAL_ADDRESS, MISALIGNED_ADDRESS
from ....machine.space import POISON, Fault
from ...translating.unit import CLUSTER_BITS, SHARED_WINDOW
from .matrix_units import BITS_OF, fragment, place_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from ..thread import Thread

__all__ = ["again", "fetch_fragment", "fetch_row", "span", "store_fragment", "store_poison", "store_row", "store_zeros"]


def span(
    thread: Thread, address: int, count: int, unit: int, line: int, *, writes: bool, needs: bool = False
) -> tuple[memoryview, int]:
    """Return the memory of a range, as bytes, and where the range begins.

    shape   needs: whether the instruction uses the content; if it also writes, its writes are atomic

    raises  Fault   not a multiple of the unit (716), not inside one piece of memory (700)
    """
    address &= 0xFFFFFFFFFFFFFFFF
    if address % unit:
        thread.reach(address, 0, "B", unit)  # which raises
    launch = thread.launch
    view, at, _ = thread.reach(address, 0, "B", 1)
    marks = launch.marked
    if count > 1 and at + count > len(view):
        thread.reach(address + count - 1, 0, "B", 1)
        raise Fault(ILLEGAL_ADDRESS, f"{count} bytes at address {address:#x} are not in one piece of memory")
    if writes and view.readonly:
        raise Fault(ILLEGAL_ADDRESS, f"{launch.space.explain(address, count)}, which kernels may only read")
    if launch.history is not None and writes and needs:  # the reductions of a bulk copy are relaxed atomics
        launch.history.atomic(address, count, line, "gpu", "", True)
    elif launch.history is not None and writes:
        launch.history.write(address, count, line, 0, "", None, 0, None)
    elif launch.history is not None:
        launch.history.read(address, count, line, 0)
    place = address - SHARED_WINDOW
    if 0 <= place < 1 << CLUSTER_BITS:
        watch = thread.block._watch
        if watch is not None:
            first = place // watch.granule
            granules = -(-(place + count) // watch.granule) - first
            if writes:
                if needs:
                    watch.need(first, granules, line)
                watch.write(first, granules, line)
            else:
                watch.read(first, granules, False, line)
                if needs:
                    watch.need(first, granules, line)
    elif marks is not None:
        if needs and not any(marks[at : at + count]):
            launch.unwritten(address, count, "generic", line)
        if writes:
            marks[at : at + count] = b"\1" * count
    return view, at


def again(thread: Thread, address: int, count: int, line: int, needs: bool) -> None:
    """Tell the history of races that a bulk copy writes now what it was started for."""
    if thread.launch.history is not None:
        span(thread, address, count, 1, line, writes=True, needs=needs)


# -- ldmatrix and stmatrix: the row that a lane names


def fetch_row(thread: Thread, address: int, lanes: int, size: int, line: int, matters: bool = True) -> bytes:
    """Return the row at the address of this lane; lanes after the last row read nothing.

    shape   matters: whether the result is used for more than a store
    """
    if thread.place_in_block[0] % 32 >= lanes:
        return b""
    view, at = span(thread, address, size, 16, line, writes=False, needs=matters)
    return bytes(view[at : at + size])


def store_row(thread: Thread, address: int, row: bytes, line: int) -> None:
    """Write the row of a matrix."""
    if row:
        view, at = span(thread, address, len(row), 16, line, writes=True)
        view[at : at + len(row)] = row


def store_zeros(thread: Thread, address: int, count: int, line: int) -> None:
    """Fill a range of shared memory with zeros (st.bulk)."""
    if count % 8:
        raise Fault(MISALIGNED_ADDRESS, f"st.bulk of {count} bytes, which is not a multiple of 8")
    if count:
        view, at = span(thread, address, count, 8, line, writes=True)
        view[at : at + count] = bytes(count)


def store_poison(thread: Thread, address: int, line: int) -> None:
    """Forget what 128 bytes of global memory hold (discard), which counts as a write."""
    if not thread.launch.in_space("global", address):
        raise Fault(ILLEGAL_ADDRESS, f"discard of address {address:#x}, which is not in global memory")
    view, at = span(thread, address, 128, 128, line, writes=True)
    view[at : at + 128] = bytes((POISON,)) * 128
    if thread.launch.marked is not None:
        thread.launch.marked[at : at + 128] = bytes(128)


# -- wmma: the elements that a lane holds


@lru_cache(maxsize=512)
def _offsets(shape: str, matrix: str, type: str, by_rows: bool, stride: int, lane: int) -> tuple[list[int], int]:
    """Return the offsets of a lane's elements in bytes (for 4 bits, in half bytes), and the bytes of an element."""
    bits = BITS_OF[type]
    each = fragment(shape, matrix, type) * (max(32 // bits, 1) if type != "b1" else 1)
    if type == "b1":
        wide = 32
    else:
        wide = bits
    found = []
    for at in range(each):
        row, column = place_in(shape, matrix, type, lane, at)
        if type == "b1":
            stride_here = stride // 32
            found.append((row * stride_here + column if by_rows else column * stride_here + row) * 4)
        else:
            found.append((row * stride + column if by_rows else column * stride + row) * wide // (8 if bits > 4 else 4))
    return found, max(wide // 8, 1)


def _default_stride(shape: str, matrix: str, by_rows: bool) -> int:
    m, _, rest = shape[1:].partition("n")
    n, _, k = rest.partition("k")
    rows, columns = {"a": (m, k), "b": (k, n)}.get(matrix, (m, n))
    return int(columns if by_rows else rows)


def _whole(
    thread: Thread, key: str, address: int, stride: int | None, line: int, writes: bool, needs: bool = False
) -> tuple[list[int], int, int, list[tuple[Any, int]]]:
    shape, matrix, type, layout = key.split(".")
    by_rows = layout == "row"
    if stride is None:
        stride = _default_stride(shape, matrix, by_rows)
    if address % 16:
        thread.reach(address, 0, "B", 16)  # which raises
    if stride * BITS_OF[type] % 128:
        raise Fault(
            MISALIGNED_ADDRESS,
            f"the stride of a matrix of {type}, {stride} elements, is not a multiple of 16 bytes",
        )
    offsets, size = _offsets(shape, matrix, type, by_rows, stride, thread.place_in_block[0] % 32)
    halves = BITS_OF[type] == 4
    if halves:
        starts = [offset // 2 for offset in offsets]
    else:
        starts = offsets
    places = [span(thread, address + start, size, size, line, writes=writes, needs=needs) for start in starts]
    return offsets, size, stride, places


def fetch_fragment(
    thread: Thread, key: str, address: int, stride: int | None, line: int, matters: bool = True
) -> tuple[Any, ...]:
    """Return the registers of a wmma fragment.

    shape   key: shape, matrix, type, layout; stride: in elements between rows or columns, or None; matters:
            whether the registers are used for more than a store
    """
    _, _, type, _ = key.split(".")
    offsets, size, _, places = _whole(thread, key, address, stride, line, False, matters)
    if BITS_OF[type] == 4:
        parts = [view[at] >> 4 * (offset & 1) & 15 for (view, at), offset in zip(places, offsets)]
        return tuple(sum(part << 4 * at for at, part in enumerate(parts[i : i + 8])) for i in range(0, len(parts), 8))
    raw = b"".join([bytes(view[at : at + size]) for view, at in places])
    code = {"f64": "d", "f32": "f"}.get(type, "I")
    return struct.unpack(f"<{len(raw) // struct.calcsize(code)}{code}", raw)


def store_fragment(
    thread: Thread, key: str, address: int, stride: int | None, values: Sequence[Any], line: int
) -> None:
    """Write the registers of a wmma fragment."""
    _, _, type, _ = key.split(".")
    _, size, _, places = _whole(thread, key, address, stride, line, True)
    code = {"f64": "d", "f32": "f"}.get(type, "I")
    raw = struct.pack(f"<{len(values)}{code}", *values)
    for number, (view, at) in enumerate(places):
        view[at : at + size] = raw[number * size : number * size + size]
