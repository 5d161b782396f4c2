"""The memory that the threads of a chunk access as arrays: global, shared and local, and the log that undoes stores.

A chunk is a number of blocks that run together. Each access is checked for all its threads at once. If anything is
wrong or not certain, `Trouble` is raised: the stores of the chunk are undone, and the scalar executor runs its blocks.
So each report comes from the scalar executor, and names the thread that it always named.

Shared memory has a row for each block, local memory for each thread. The accesses to shared memory since the last
barrier are kept; if two threads have accessed one granule, and one of them wrote, that is a trouble too.

Read next    warps.py, then running.py
"""

from __future__ import annotations

import numpy as np

from ...space import POISON
from ..translating.unit import CLUSTER_BITS, LOCAL_WINDOW, PARAMETER_WINDOW, SHARED_WINDOW
from .numeric import spread

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ...space import Allocation
    from .running import Group, Run

    Array = Any

__all__ = ["Chunk", "Trouble"]

u1, u4, u8, i8 = np.uint8, np.uint32, np.uint64, np.int64
_UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
_SHIFT = {1: 0, 2: 1, 4: 2, 8: 3, 16: 4, 32: 5}
_WRITTEN = {1: np.uint8(1), 2: np.uint16(0x101), 4: np.uint32(0x1010101), 8: np.uint64(0x101010101010101)}
_M64 = (1 << 64) - 1
_SPAN = 1 << 40
MOST_ALLOCATIONS = 64  # that one access may touch
MOST_LOGGED = 64 << 20
MOST_KEPT = 48 << 20  # bytes of indexes of accesses to shared memory between two barriers
MOST_SEEN = 16
MOST_LOOKED = 8
MOST_OLDER = 400
_SEVERAL = np.int32(-2)


class Trouble(Exception):
    """Something that the scalar executor has to judge; `lasting`: it will occur in every chunk."""

    def __init__(self, reason: str, lasting: bool = False, site: int | None = None) -> None:
        super().__init__(reason)
        self.lasting = lasting
        self.site = site  # the access to memory that was never written: it is reported only once


class Held:
    """An allocation as arrays."""

    __slots__ = ("allocation", "base", "size", "bytes", "logged", "saved", "writable", "_views", "_marks")

    def __init__(self, allocation: Allocation, writable: bool) -> None:
        self.allocation, self.writable = allocation, writable
        self.base, self.size = allocation.base, allocation.size
        self.bytes = np.frombuffer(allocation.data, u1)
        self.logged = 0
        self.saved = False
        self._views: dict[tuple[int, int], tuple[Array, int, int]] = {}
        self._marks: dict[tuple[int, int], Array] = {}

    def view(self, width: int, total: int) -> tuple[Array, int, int]:
        """Return elements of a width, the address of the first, and the length in bytes."""
        found = self._views.get((width, total))
        if found is None:
            skipped = -self.base % total
            length = max(0, (self.size - skipped) // width * width)
            elements = self.bytes[skipped : skipped + length].view(_UNSIGNED[width])
            found = self._views[width, total] = (elements, self.base + skipped, length)
        return found

    def marks(self, width: int, total: int) -> Array | None:
        """Return elements that are 0 where memory was never written, or None if all of it was."""
        written = self.allocation.written
        if written is None:
            return None
        found = self._marks.get((width, total))
        if found is None:
            skipped = -self.base % total
            length = max(0, (self.size - skipped) // width * width)
            whole = np.frombuffer(written, u1)
            found = self._marks[width, total] = whole[skipped : skipped + length].view(_UNSIGNED[width])
        return found


class Seen:
    """An array of addresses that was looked at: its bounds, its lowest bits, and the indexes made from it.

    The code often accesses the memory at one register with several offsets.
    """

    __slots__ = ("address", "low", "high", "bits", "indexes")

    def __init__(self, address: Array) -> None:
        self.address = address
        self.low, self.high = int(address.min()), int(address.max())
        self.bits = int(np.bitwise_or.reduce(address))
        self.indexes: dict[Any, Any] = {}

    def index(self, base: int, width: int, count: int) -> Any:
        """Return the indexes of elements in an allocation: an array, or a slice if the threads are neighbours."""
        key = (base, width, count)
        found = self.indexes.get(key)
        if found is None:
            address = self.address
            n, total = len(address), width * count
            if n > 1 and self.high - self.low == (n - 1) * total and int(address[0]) == self.low:
                if bool((address[1:] - address[:-1] == address.dtype.type(total)).all()):
                    start = (self.low - base) // width
                    found = slice(start, start + n * count, count)
            if found is None:
                found = (
                    ((address - u8(base & _M64)).view(i8) >> i8(_SHIFT[width]))
                    if base
                    else (address >> u8(_SHIFT[width])).view(i8)
                )
            self.indexes[key] = found
        return found


def moved(index: Any, by: int) -> Any:
    """Return the indexes some elements further."""
    if not by:
        return index
    if type(index) is slice:
        return slice(index.start + by, index.stop + by, index.step)
    return index + by


def taken(array: Array, index: Any) -> Array:
    """Return a copy of elements."""
    return array[index].copy() if type(index) is slice else array[index]


class Chunk:
    """The memory and the places of the threads of some blocks."""

    def __init__(self, run: Run, first: int, blocks: int) -> None:
        launch = run.launch
        self.run, self.launch = run, launch
        self.first, self.blocks = first, blocks
        self.threads = launch.threads
        self.total = blocks * launch.threads
        self.watch = run.watch
        self.log: list[tuple[Any, ...]] = []
        self.logged = 0
        self._specials: dict[str, Array] = {}
        self._seen: dict[int, Seen] = {}
        # shared memory
        self.shared_bytes = launch.shared_bytes
        self.stride = -(-launch.shared_bytes // 16) * 16
        self.granule = run.granule if run.watch else 0
        self._shared: dict[int, Array] = {}
        self.kept: list[tuple[Any, ...]] = []
        self.writes_kept, self.kept_bytes, self.reads_merged = False, 0, False
        self.older: list[tuple[Any, ...]] = []  # accesses before the last warp operation, by warp
        self.owner: Array | None = None
        self.reader: Array | None = None
        self.whole = self.changed = False  # whether all of it was written
        if self.stride:
            self._shared[1] = np.full(blocks * self.stride, POISON, u1)
            if self.granule:
                self.written = np.zeros(blocks * (self.stride // self.granule), u1)
        else:
            self.granule = 0
        # local memory
        self.local_stride = -(-run.program.local_bytes // 16) * 16
        self._local: dict[int, Array] = {}
        self._local_marks: dict[int, Array] = {}

    # -- the places of threads

    def special(self, g: Group, name: str) -> Array:
        """Return a special register of the threads."""
        found = self._specials.get(name)
        if found is None:
            found = self._specials[name] = self._special(name)
        if g.lanes is None or not found.ndim:
            return found
        return found[g.lanes]

    def _special(self, name: str) -> Array:
        launch = self.launch
        if name.startswith("ctaid"):
            at = np.arange(self.first, self.first + self.blocks, dtype=i8)
            axis = name[-1]
            place = (
                at % launch.gx if axis == "x" else at // launch.gx % launch.gy if axis == "y"
                else at // (launch.gx * launch.gy)
            )  # fmt: skip
        elif name == "smid":
            place = np.arange(self.first, self.first + self.blocks, dtype=i8) % 132
        else:
            key = (name, self.blocks)
            found = self.run.kept_specials.get(key)
            if found is None:
                found = self.run.kept_specials[key] = self._of_thread(name)
            return found
        if (place == place[0]).all():
            return u4(place[0])
        return np.repeat(place.astype(u4), self.threads)

    def _of_thread(self, name: str) -> Array:
        launch = self.launch
        t = np.arange(self.threads, dtype=i8)
        lane = t & 31
        place = {
            "tid.x": lambda: t % launch.nx,
            "tid.y": lambda: t // launch.nx % launch.ny,
            "tid.z": lambda: t // (launch.nx * launch.ny),
            "laneid": lambda: lane,
            "warpid": lambda: t >> 5,
            "lanemask_eq": lambda: 1 << lane,
            "lanemask_lt": lambda: (1 << lane) - 1,
            "lanemask_le": lambda: (2 << lane) - 1,
            "lanemask_gt": lambda: 0xFFFFFFFF & (-2 << lane),
            "lanemask_ge": lambda: 0xFFFFFFFF & (-1 << lane),
        }[name]()
        if (place == place[0]).all():
            return u4(place[0])
        return np.tile(place.astype(u4), self.blocks)

    def lanes(self, g: Group) -> Array:
        """Return the numbers of the group's threads in the chunk."""
        return self.run.numbers(self.total) if g.lanes is None else g.lanes

    def rows(self, g: Group, stride: int) -> Array:
        """Return the start of each thread's row in shared memory, in elements."""
        found = g.rows.get(stride)
        if found is None:
            key = ("rows", self.blocks, stride)
            whole = self.run.kept_specials.get(key)
            if whole is None:
                whole = np.repeat(np.arange(self.blocks, dtype=i8) * stride, self.threads)
                self.run.kept_specials[key] = whole
            found = g.rows[stride] = whole if g.lanes is None else whole[g.lanes]
        return found

    def parameter(self, offset: int, width: int) -> Array:
        """Return a kernel parameter as bits."""
        if offset % width or offset < 0 or offset + width > len(self.launch.parameters):
            raise Trouble("a parameter outside the parameters")
        return np.frombuffer(self.launch.parameters, _UNSIGNED[width], 1, offset)[0]

    def in_space(self, space: str, address: Array) -> Array:
        """Tell whether generic addresses are in a state space."""
        if space == "shared":  # of this block: its rank in its cluster is 0
            return address - u8(SHARED_WINDOW) < u8(2 << CLUSTER_BITS)
        if space in ("cluster", "local", "param"):
            window = {"cluster": SHARED_WINDOW, "local": LOCAL_WINDOW, "param": PARAMETER_WINDOW}[space]
            return address - u8(window) < u8(_SPAN)
        from .numeric import each

        return each(lambda place: self.launch.in_space(space, place), np.bool_, address)

    def seen(self, address: Array) -> Seen:
        """Return what is known of an array of addresses."""
        found = self._seen.get(id(address))
        if found is None or found.address is not address:
            if len(self._seen) >= MOST_SEEN:
                self._seen.clear()
            found = self._seen[id(address)] = Seen(address)
        return found

    # -- undoing

    def keep(self, held: Held | None, array: Array, index: Any) -> None:
        """Record elements before they change."""
        if held is not None and held.saved:
            return
        if held is not None and not held.writable:
            raise Trouble("a store in memory that is only readable")
        old = taken(array, index)
        self.log.append((held, array, index, old))
        size = old.nbytes + getattr(index, "nbytes", 0)
        self.logged += size
        if held is not None:
            held.logged += size
            if held.logged > max(2 * held.size, 1 << 22):
                self._save(held)

    def _save(self, held: Held) -> None:
        """Replace the records of an allocation by a copy of its content at the beginning of the chunk."""
        mine = [entry for entry in self.log if entry[0] is held]
        rest = [entry for entry in self.log if entry[0] is not held]
        now = [(array, array.copy()) for array in (held.bytes, held.marks(1, 1)) if array is not None]
        for _, array, index, old in reversed(mine):
            array[index] = old
        before = [(held, array, slice(None), array.copy()) for array, _ in now]
        for array, content in now:
            array[:] = content
        self.log = before + rest
        held.saved = True

    def undo(self) -> None:
        """Restore global memory as it was at the beginning of the chunk."""
        for _, array, index, old in reversed(self.log):
            array[index] = old
        self.log.clear()

    def close(self) -> None:
        """Forget the log."""
        for entry in self.log:
            if entry[0] is not None:
                entry[0].logged, entry[0].saved = 0, False
        self.log.clear()

    # -- global memory

    def _one(self, address: Array, offset: int, width: int, total: int, site: int) -> tuple[Held, Any] | None:
        """Return the allocation of an access and the indexes in it, or None if there are several allocations."""
        held = self.run.sites.get(site)
        if held is None or not held.allocation.alive:
            first = int(address[0]) if address.ndim else int(address)
            held = self.run.hold(first + offset & _M64)
            self.run.sites[site] = held
        for attempt in (0, 1):
            _, low, length = held.view(width, total)
            if not address.ndim:
                place = int(address) + offset - low & _M64
                if place <= length - total:
                    if place & total - 1:
                        raise Trouble("misaligned")
                    return held, i8(place >> _SHIFT[width])
            else:
                seen = self.seen(address)
                if seen.low + offset >= low and seen.high + offset + total <= low + length:
                    if offset & width - 1 or low & total - 1:
                        shifted = (address - u8(low - offset & _M64)).view(i8)
                        if int(np.bitwise_or.reduce(shifted)) & total - 1:
                            raise Trouble("misaligned")
                        return held, shifted >> i8(_SHIFT[width])
                    if (seen.bits | offset) & total - 1 and (address + u8(offset & _M64) & u8(total - 1)).any():
                        raise Trouble("misaligned")
                    return held, moved(seen.index(low, width, total // width), offset // width)
            if not attempt:
                first = int(address[0]) if address.ndim else int(address)
                other = self.run.hold(first + offset & _M64)
                if other is held:
                    break
                held = self.run.sites[site] = other
        if not address.ndim:
            raise Trouble("outside every allocation")
        return None

    def _several(self, address: Array, offset: int, total: int) -> list[tuple[Array, int]]:
        """Divide the threads of an access by allocation: places, and an address of the allocation."""
        place = address + u8(offset & _M64)
        bases = np.array([each.base for each in self.launch.space.live()], u8)
        which = np.searchsorted(bases, place, "right")
        parts = np.unique(which)
        if len(parts) == 1:
            raise Trouble("outside every allocation")
        if len(parts) > MOST_ALLOCATIONS:
            raise Trouble("an access to many allocations", True)
        return [(np.flatnonzero(which == each), int(each)) for each in parts.tolist()]

    def _columns(self, array: Array, index: Any, count: int) -> list[Array]:
        if count == 1:
            return [taken(array, index)]
        if type(index) is not slice and index.ndim and len(index) > 256:
            rows = array[: len(array) // count * count].reshape(-1, count)[index // count]
            return [np.ascontiguousarray(rows[:, at]) for at in range(count)]
        return [taken(array, moved(index, at)) for at in range(count)]

    def load_global(
        self, g: Group, site: int, address: Array, offset: int, width: int, count: int, judged: bool, watched: bool,
        selected: Array | None, frames: Any, told: bool = True,
    ) -> list[Array]:  # fmt: skip
        """Load elements of global memory as bits."""
        if selected is not None:
            if not len(selected):
                return [np.empty(0, _UNSIGNED[width])] * count
            address = address[selected] if address.ndim else address
        total = width * count
        found = self._one(address, offset, width, total, site)
        if found is None:
            made = [np.empty(len(address), _UNSIGNED[width]) for _ in range(count)]
            for places, _ in self._several(address, offset, total):
                parts = self.load_global(g, -1 - site, address[places], offset, width, count, judged, watched, None, ())
                for target, part in zip(made, parts):
                    target[places] = part
            return made
        held, index = found
        if self.watch and judged and site not in self.run.told:
            marks = held.marks(width, total)
            if marks is not None:
                some = self._columns(marks, index, count)
                none = some[0] == 0
                for each in some[1:]:
                    none = none & (each == 0)
                if none.any():
                    raise Trouble("never written", site=site)
        values = self._columns(held.view(width, total)[0], index, count)
        if selected is not None and not address.ndim:
            values = [np.broadcast_to(value, len(selected)) for value in values]
        return values

    load_const = load_global

    def store_global(
        self, g: Group, site: int, address: Array, offset: int, width: int, values: tuple[Array, ...], watched: bool,
        selected: Array | None, frames: Any,
    ) -> None:  # fmt: skip
        """Store bits in global memory."""
        if selected is not None:
            if not len(selected):
                return
            address = address[selected] if address.ndim else address
            values = tuple(value[selected] if value.ndim else value for value in values)
        total = width * len(values)
        found = self._one(address, offset, width, total, site)
        if found is None:
            for places, _ in self._several(address, offset, total):
                parts = tuple(value[places] if value.ndim else value for value in values)
                self.store_global(g, -1 - site, address[places], offset, width, parts, watched, None, ())
            return
        held, index = found
        array = held.view(width, total)[0]
        marks = held.marks(width, total)
        for at, value in enumerate(values):
            where = moved(index, at)
            if not address.ndim and value.ndim:
                value = value[-1]
            self.keep(held, array, where)
            array[where] = value
            if marks is not None:
                self.keep(held, marks, where)
                marks[where] = _WRITTEN[width]

    # -- shared memory

    def shared(self, width: int) -> Array:
        """Return shared memory as elements of a width."""
        found = self._shared.get(width)
        if found is None:
            if 1 not in self._shared:
                raise Trouble("no shared memory")
            found = self._shared[width] = self._shared[1].view(_UNSIGNED[width])
        return found

    def _in_shared(
        self, g: Group, address: Array, offset: int, width: int, total: int, selected: Array | None
    ) -> Array:
        """Return the indexes of an access to shared memory."""
        shift = _SHIFT[width]
        if address.ndim and selected is None and not offset % width:
            seen = self.seen(address)
            if seen.low + offset >= 0 and seen.high + offset + total <= self.shared_bytes:
                found: Array = seen.indexes.get(("shared", width))
                if found is None:
                    found = self.rows(g, self.stride // width) + (
                        address >> address.dtype.type(shift) if shift else address
                    ).astype(i8)
                    seen.indexes["shared", width] = found
                if (seen.bits | offset) & total - 1:
                    if (address + address.dtype.type(offset & 0xFFFFFFFF) & address.dtype.type(total - 1)).any():
                        raise Trouble("misaligned")
                return found + offset // width if offset else found
        if offset:
            address = address + address.dtype.type(offset & (1 << 8 * address.dtype.itemsize) - 1)
        rows = self.rows(g, self.stride // width)
        if selected is not None:
            address = address[selected] if address.ndim else address
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
        return rows + ((address >> address.dtype.type(shift)) if shift else address).astype(i8)

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
            lanes = self.lanes(g) if selected is None else self.lanes(g)[selected]
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
            lanes = self.lanes(g) if selected is None else self.lanes(g)[selected]
            self._note(True, index, width, len(values), watched, False, lanes)
            if self.run.same_values and len(values) == 1 and width == self.granule and not watched:
                self._note_same(index, width, values[0])
        array = self.shared(width)
        for at, value in enumerate(values):
            array[index + at if at else index] = value

    def _note_same(self, index: Array, width: int, value: Array) -> None:
        """Let threads that store the same value at the same place count as one: the scalar executor has reported it."""
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
        start = index * factor if factor > 1 else index
        return [start + at if at else start for at in range(factor * count)]

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
            granules = self._granules(index, width, count)
            some = self.written[granules[0]]
            for q in granules[1:]:
                some = some | self.written[q]
            if not some.all():
                raise Trouble("shared memory that was never written")
        if watched:
            return
        self.kept.append((writes, index, width, count, lanes))
        self.writes_kept = self.writes_kept or writes
        self.kept_bytes += index.nbytes
        if self.kept_bytes > MOST_KEPT:
            self._merge_reads()

    def _merge_reads(self) -> None:
        """Reduce the kept reads to the one thread that read a granule, or a mark for several, to save memory."""
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
            mine = None if lanes is None else (lanes + 1).astype(np.int32)
            for q in self._granules(index, width, count):
                who = owner[q]
                wrong = who != 0 if mine is None else (who != 0) & (who != mine)
                bad = bad or bool(wrong.any())
            if bad:
                break
        for q in touched:
            owner[q] = 0
        if bad:
            raise Trouble("a race")

    def _checked(self) -> None:
        """Check what was kept, and forget it."""
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

    # -- local memory

    def local(self, width: int) -> Array:
        """Return local memory as elements of a width."""
        found = self._local.get(width)
        if found is None:
            if 1 not in self._local:
                self._local[1] = np.full(self.total * self.local_stride, POISON, u1)
                if self.watch:
                    self._local_marks[1] = np.zeros(self.total * self.local_stride, u1)
            found = self._local[width] = self._local[1].view(_UNSIGNED[width])
            if self.watch:
                self._local_marks[width] = self._local_marks[1].view(_UNSIGNED[width])
        return found

    def enter(self, g: Group, low: int, size: int) -> None:
        """Make the frame of a function, with nothing written in it."""
        if not self._local:
            self.local(1)
            return
        rows = self._local[1].reshape(self.total, -1)
        lanes = slice(None) if g.lanes is None else g.lanes
        rows[lanes, low : low + size] = POISON
        if self.watch:
            self._local_marks[1].reshape(self.total, -1)[lanes, low : low + size] = 0

    def _in_local(
        self, g: Group, address: Array, offset: int, width: int, total: int, selected: Array | None, frames: Any
    ) -> Array:
        place = address + address.dtype.type(offset & (1 << 8 * address.dtype.itemsize) - 1)
        if place.dtype != u4:
            place = place.astype(u4)
        lanes = self.lanes(g)
        if selected is not None:
            place = place[selected] if place.ndim else place
            lanes = lanes[selected]
            if not len(lanes):
                return lanes
        inside: Any = False
        for low, size in frames:
            if size >= total:
                inside = inside | (place - u4(low) <= u4(size - total))
        if not np.all(inside) or total > 1 and (place & u4(total - 1)).any():
            raise Trouble("outside local memory, or misaligned")
        return lanes * (self.local_stride // width) + (place >> u4(_SHIFT[width])).astype(i8)

    def load_local(
        self, g: Group, site: int, address: Array, offset: int, width: int, count: int, judged: bool, watched: bool,
        selected: Array | None, frames: Any,
    ) -> list[Array]:  # fmt: skip
        """Load elements of local memory as bits."""
        index = self._in_local(g, address, offset, width, width * count, selected, frames)
        array = self.local(width)
        if self.watch and judged and len(index) and site not in self.run.told:
            marks = self._local_marks[width]
            some = marks[index]
            for at in range(1, count):
                some = some | marks[index + at]
            if not some.all():
                raise Trouble("local memory that was never written", site=site)
        return [array[index + at if at else index] for at in range(count)]

    def store_local(
        self, g: Group, site: int, address: Array, offset: int, width: int, values: tuple[Array, ...], watched: bool,
        selected: Array | None, frames: Any,
    ) -> None:  # fmt: skip
        """Store bits in local memory."""
        if selected is not None:
            values = tuple(value[selected] if value.ndim else value for value in values)
        index = self._in_local(g, address, offset, width, width * len(values), selected, frames)
        array = self.local(width)
        for at, value in enumerate(values):
            where = index + at if at else index
            array[where] = value
            if self.watch:
                self._local_marks[width][where] = _WRITTEN[width]

    # -- generic addresses

    def _space(self, address: Array, offset: int) -> str:
        """Return the state space of generic addresses, or "" if they differ."""
        place = address + u8(offset & _M64)
        least, most = (int(place.min()), int(place.max())) if place.ndim else (int(place), int(place))
        if most < SHARED_WINDOW or least >= SHARED_WINDOW + 4 * _SPAN:
            return "global"
        for name, window in (("shared", SHARED_WINDOW), ("local", LOCAL_WINDOW)):
            if window <= least and most < window + _SPAN:
                return name
        if least >= PARAMETER_WINDOW and most < PARAMETER_WINDOW + _SPAN:
            raise Trouble("a generic address of a parameter", True)
        return ""

    def _by_space(self, address: Array, offset: int) -> list[Array]:
        which = (address + u8(offset & _M64)) >> u8(40)
        which = np.where((which < u8(SHARED_WINDOW >> 40)) | (which > u8((SHARED_WINDOW >> 40) + 3)), u8(0), which)
        return [np.flatnonzero(which == each) for each in np.unique(which)]

    def load_generic(
        self, g: Group, site: int, address: Array, offset: int, width: int, count: int, judged: bool, watched: bool,
        selected: Array | None, frames: Any,
    ) -> list[Array]:  # fmt: skip
        """Load elements through generic addresses as bits."""
        if selected is not None and not len(selected):
            return [np.empty(0, _UNSIGNED[width])] * count
        given = address if selected is None or not address.ndim else address[selected]
        space = self._space(given, offset)
        if not space:
            parts = self._by_space(given, offset)
            made = [np.empty(len(given), _UNSIGNED[width]) for _ in range(count)]
            for places in parts:
                some = places if selected is None else selected[places]
                values = self.load_generic(g, site, address, offset, width, count, judged, watched, some, frames)
                made = [spread(value, places, old, len(given)) for value, old in zip(values, made)]
            return made
        if space == "shared":
            address = address - u8(SHARED_WINDOW)
            judged = False
        elif space == "local":
            address = address - u8(LOCAL_WINDOW)
        load = getattr(self, f"load_{space}")
        loaded: list[Array] = load(g, site, address, offset, width, count, judged, watched, selected, frames)
        return loaded

    def store_generic(
        self, g: Group, site: int, address: Array, offset: int, width: int, values: tuple[Array, ...], watched: bool,
        selected: Array | None, frames: Any,
    ) -> None:  # fmt: skip
        """Store bits through generic addresses."""
        if selected is not None and not len(selected):
            return
        given = address if selected is None or not address.ndim else address[selected]
        space = self._space(given, offset)
        if not space:
            for places in self._by_space(given, offset):
                some = places if selected is None else selected[places]
                self.store_generic(g, site, address, offset, width, values, watched, some, frames)
            return
        if space == "shared":
            address = address - u8(SHARED_WINDOW)
        elif space == "local":
            address = address - u8(LOCAL_WINDOW)
        getattr(self, f"store_{space}")(g, site, address, offset, width, values, watched, selected, frames)
