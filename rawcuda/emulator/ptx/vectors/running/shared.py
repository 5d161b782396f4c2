"""Shared memory for arrays: a row for each block, and the search for races.

The accesses since the last barrier are kept and checked later, because most phases of a kernel only read or only write.
If there was a write, the check at the end of the phase looks for granules that two threads have accessed. A warp
operation may also order the threads of one warp: accesses before it are then compared by warp.

Read next    local.py
"""

from __future__ import annotations

from ..late_numpy import np
from .allocations import SHIFT, Trouble
from .vector_memory import Chunk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .running import Group

    Array = Any

__all__ = ["SharedMemory"]

MOST_KEPT = 48 << 20  # bytes of indexes of accesses between two barriers
MOST_LOOKED = 8
MOST_OLDER = 400
_SEVERAL = -2


class SharedMemory(Chunk):
    """The accesses to shared memory."""

    def shared(self, width: int) -> Array:
        """Return shared memory as elements of a width."""
        found = self._shared.get(width)
        if found is None:
            if 1 not in self._shared:
                raise Trouble("no shared memory")
            found = self._shared[width] = self._shared[1].view(np.UNSIGNED[width])
        return found

    def _in_shared(
        self, g: Group, address: Array, offset: int, width: int, total: int, selected: Array | None
    ) -> Array:
        """Return the indexes of an access to shared memory."""
        shift = SHIFT[width]
        if address.ndim and selected is None and not offset % width:
            seen = self.seen(address)
            if seen.low + offset >= 0 and seen.high + offset + total <= self.shared_bytes:
                found: Array = seen.indexes.get(("shared", width))
                if found is None:
                    found = self.rows(g, self.stride // width) + (
                        address >> address.dtype.type(shift) if shift else address
                    ).astype(np.i8)
                    seen.indexes["shared", width] = found
                if (seen.bits | offset) & total - 1:
                    if (address + address.dtype.type(offset & 0xFFFFFFFF) & address.dtype.type(total - 1)).any():
                        raise Trouble("misaligned")
                if offset:
                    return found + offset // width
                return found
        if offset:
            address = address + address.dtype.type(offset & (1 << 8 * address.dtype.itemsize) - 1)
        rows = self.rows(g, self.stride // width)
        if selected is not None:
            if address.ndim:
                address = address[selected]
            rows = rows[selected]
            if not len(rows):
                return rows
        if address.ndim:
            highest, crooked = int(address.max()), total > 1 and int(np.bitwise_or.reduce(address)) & total - 1
        else:
            highest, crooked = int(address), int(address) & total - 1
        if crooked or highest + total > self.shared_bytes:
            raise Trouble("outside shared memory, or misaligned")
        if not address.ndim:
            return rows + (highest >> shift)
        return rows + ((address >> address.dtype.type(shift)) if shift else address).astype(np.i8)

    def load_shared(
        self, g: Group, site: int, address: Array, offset: int, width: int, count: int, judged: bool, watched: bool,
        selected: Array | None, frames: Any,
    ) -> list[Array]:  # fmt: skip
        """Load elements of shared memory as bits."""
        array = self.shared(width)
        if not address.ndim and g.lanes is None and selected is None:  # all threads of a block read the same place
            start = int(address) + offset & (1 << 8 * address.dtype.itemsize) - 1
            if start & width * count - 1 or start + width * count > self.shared_bytes:
                raise Trouble("outside shared memory, or misaligned")
            row = self.stride // width
            index = np.arange(start // width, self.blocks * row, row)
            if self.granule:
                self._note(False, index, width, count, watched, judged, None if self.threads > 1 else self.lanes(g))
            return [np.repeat(array[index + at], self.threads) for at in range(count)]
        index = self._in_shared(g, address, offset, width, width * count, selected)
        if self.granule and len(index):
            if selected is None:
                lanes = self.lanes(g)
            else:
                lanes = self.lanes(g)[selected]
            self._note(False, index, width, count, watched, judged, lanes)
        return [array[index + at if at else index] for at in range(count)]

    def store_shared(
        self, g: Group, site: int, address: Array, offset: int, width: int, values: tuple[Array, ...], watched: bool,
        selected: Array | None, frames: Any,
    ) -> None:  # fmt: skip
        """Store bits in shared memory."""
        if selected is not None:
            values = tuple(value[selected] if value.ndim else value for value in values)
        index = self._in_shared(g, address, offset, width, width * len(values), selected)
        if not len(index):
            return
        if self.granule:
            if selected is None:
                lanes = self.lanes(g)
            else:
                lanes = self.lanes(g)[selected]
            self._note(True, index, width, len(values), watched, False, lanes)
            if self.run.same_values and len(values) == 1 and width == self.granule and not watched:
                self._note_same(index, width, values[0])
        array = self.shared(width)
        for at, value in enumerate(values):
            array[index + at if at else index] = value

    def _note_same(self, index: Array, width: int, value: Array) -> None:
        """Count threads that store the same value at the same place as one: the scalar executor has reported them."""
        array = self.shared(width)
        array[index] = value
        if (array[index] == value).all():
            writes, _, _, count, lanes = self.kept[-1]
            last = np.zeros(len(self.written), np.int64)
            last[index] = lanes
            self.kept[-1] = (writes, index, width, count, last[index])

    def _granules(self, index: Array, width: int, count: int) -> list[Array]:
        """Return the granules of an access, an array for each granule of a thread's access."""
        factor = width // self.granule
        if factor > 1:
            start = index * factor
        else:
            start = index
        return [start + at if at else start for at in range(factor * count)]

    def _need(self, index: Array, width: int, count: int) -> None:
        """Check that the memory that an access reads was written."""
        granules = self._granules(index, width, count)
        some = self.written[granules[0]]
        for q in granules[1:]:
            some = some | self.written[q]
        if not some.all():
            raise Trouble("shared memory that was never written")

    def _note(
        self, writes: bool, index: Array, width: int, count: int, watched: bool, judged: bool, lanes: Array | None
    ) -> None:
        """Check and keep an access to shared memory; without lanes, by all threads of each block."""
        if writes:
            if not self.whole:
                for q in self._granules(index, width, count):
                    self.written[q] = 1
                self.changed = True
        elif judged and not self.whole:
            self._need(index, width, count)
        if watched:
            return
        self.kept.append((writes, index, width, count, lanes))
        self.writes_kept = self.writes_kept or writes
        self.kept_bytes += index.nbytes
        if self.kept_bytes > MOST_KEPT:
            self._merge_reads()

    def _merge_reads(self) -> None:
        """To save memory, replace the kept reads by a number per granule: its one reader, or a mark for several."""
        if self.reader is None:
            self.reader = np.zeros(len(self.written), np.int32)
        reader = self.reader
        rest = []
        for entry in self.kept:
            writes, index, width, count, lanes = entry
            if writes:
                rest.append(entry)
                continue
            for q in self._granules(index, width, count):
                if lanes is None:
                    reader[q] = _SEVERAL
                    continue
                mine = (lanes + 1).astype(np.int32)
                before = reader[q]
                reader[q] = np.where((before == 0) | (before == mine), mine, _SEVERAL)
                other = (reader[q] != mine) & (reader[q] != _SEVERAL)
                if other.any():
                    reader[q[other]] = _SEVERAL
        self.reads_merged = True
        self.kept = rest
        self.kept_bytes = sum(entry[1].nbytes for entry in rest)
        if self.kept_bytes > MOST_KEPT:
            self._check(rest)
            raise Trouble("too many stores between two barriers", True)

    def _check(self, kept: list[tuple[Any, ...]]) -> None:
        """Check that no two threads have accessed one granule, if one of them wrote."""
        if self.owner is None:
            self.owner = np.zeros(len(self.written), np.int32)
        owner = self.owner
        touched = []
        bad = False
        for writes, index, width, count, lanes in kept:
            if writes:
                mine = (lanes + 1).astype(np.int32)
                for q in self._granules(index, width, count):
                    touched.append(q)
                    owner[q] = mine
                    if self.reads_merged and self.reader is not None:
                        who = self.reader[q]
                        bad = bad or bool(((who != 0) & (who != mine)).any())
        for _, index, width, count, lanes in kept:
            if lanes is None:
                mine = None
            else:
                mine = (lanes + 1).astype(np.int32)
            for q in self._granules(index, width, count):
                who = owner[q]
                if mine is None:
                    wrong = who != 0
                else:
                    wrong = (who != 0) & (who != mine)
                bad = bad or bool(wrong.any())
            if bad:
                break
        for q in touched:
            owner[q] = 0
        if bad:
            raise Trouble("a race")

    def _checked(self) -> None:
        """Check the kept accesses, and forget them."""
        if self.kept or self.reads_merged:
            if self.writes_kept:
                self._check(self.kept)
            if self.reads_merged and self.reader is not None:
                self.reader[:] = 0
                self.reads_merged = False
            self.kept, self.kept_bytes, self.writes_kept = [], 0, False

    def end_phase(self) -> None:
        """Check the accesses since the last barrier of the block."""
        if not self.granule:
            return
        older = self.older
        if older:
            self.older = []
            recent = self._by_warp()
            if any(entry[0] for entry in older + recent):
                self._check(older + recent)
        self._checked()
        if self.changed and not self.whole:
            self.changed = False
            used = -(-self.shared_bytes // self.granule)
            self.whole = bool(self.written.reshape(self.blocks, -1)[:, :used].all())

    def _by_warp(self) -> list[tuple[Any, ...]]:
        """Return the kept accesses with the number of the warp instead of the thread."""
        key = ("warps", self.total)
        warps = self.run.kept_specials.get(key)
        if warps is None:
            lanes = self.run.numbers(self.total)
            warps = lanes // self.threads * -(-self.threads // 32) + lanes % self.threads // 32
            self.run.kept_specials[key] = warps
        one = self.threads <= 32
        return [
            (w, i, b, c, (i // (self.stride // b) if one else None) if n is None else warps[n])
            for w, i, b, c, n in self.kept
        ]

    def end_warp_phase(self, g: Group) -> None:
        """Check the accesses since the last operation of the warps, if all threads that made them take part in it."""
        if not self.granule or not self.kept or self.reads_merged:
            return
        if g.n != self.run.living:
            here = np.zeros(self.total, bool)
            here[self.lanes(g)] = True
            if len(self.kept) > MOST_LOOKED or not all(n is not None and here[n].all() for _, _, _, _, n in self.kept):
                return
        older = self._by_warp()
        self._checked()
        self.older += older
        if len(self.older) > MOST_OLDER:
            raise Trouble("too many accesses between two barriers", True)
