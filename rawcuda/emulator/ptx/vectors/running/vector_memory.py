"""The memory that the threads of a chunk access as arrays: global, shared and local, and the log that undoes stores.

A chunk is a number of blocks that run together. Each access is checked for all its threads at once. If anything is
wrong or not certain, `Trouble` is raised: the stores of the chunk are undone, and the scalar executor runs its blocks.
So each report comes from the scalar executor, and names the same thread as without arrays.

Shared memory has a row for each block, local memory for each thread. The accesses to shared memory since the last
barrier are kept; if two threads have accessed one granule, and one of them wrote, `Trouble` is raised, too.

Read next    shared.py, local.py, warps.py, then running.py
"""

from __future__ import annotations

from ....machine.space import POISON
from ...translating.unit import CLUSTER_BITS, LOCAL_WINDOW, PARAMETER_WINDOW, SHARED_WINDOW
from ..late_numpy import np
from ..numeric import each
from .allocations import M64, SHIFT, Held, Seen, Trouble, moved, taken

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .running import Group, Run

    Array = Any

__all__ = ["SPAN", "Chunk"]

SPAN = 1 << 40
MOST_ALLOCATIONS = 64  # allocations that one access may touch
MOST_SEEN = 16


class Chunk:
    """The memory and the places of the threads of some blocks.

    Why long  compiled kernels call its methods, so what a chunk offers to them is one object
    """

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
        if run.watch:
            self.granule = run.granule
        else:
            self.granule = 0
        self._shared: dict[int, Array] = {}
        self.kept: list[tuple[Any, ...]] = []
        self.writes_kept, self.kept_bytes, self.reads_merged = False, 0, False
        self.older: list[tuple[Any, ...]] = []  # accesses before the last warp operation, by warp
        self.owner: Array | None = None
        self.reader: Array | None = None
        self.whole = self.changed = False  # whether all of it was written
        if self.stride:
            self._shared[1] = np.full(blocks * self.stride, POISON, np.u1)
            if self.granule:
                self.written = np.zeros(blocks * (self.stride // self.granule), np.u1)
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
            at = np.arange(self.first, self.first + self.blocks, dtype=np.i8)
            axis = name[-1]
            place = (
                at % launch.gx if axis == "x" else at // launch.gx % launch.gy if axis == "y"
                else at // (launch.gx * launch.gy)
            )  # fmt: skip
        elif name == "smid":
            place = np.arange(self.first, self.first + self.blocks, dtype=np.i8) % launch.multiprocessors
        else:
            key = (name, self.blocks)
            found = self.run.kept_specials.get(key)
            if found is None:
                found = self.run.kept_specials[key] = self._of_thread(name)
            return found
        if (place == place[0]).all():
            return np.u4(place[0])
        return np.repeat(place.astype(np.u4), self.threads)

    def _of_thread(self, name: str) -> Array:
        launch = self.launch
        t = np.arange(self.threads, dtype=np.i8)
        lane = t & 31
        if name == "tid.x":
            place = t % launch.nx
        elif name == "tid.y":
            place = t // launch.nx % launch.ny
        elif name == "tid.z":
            place = t // (launch.nx * launch.ny)
        elif name == "warpid":
            place = t >> 5
        else:
            eq = 1 << lane
            masks = {"eq": eq, "lt": eq - 1, "le": 2 * eq - 1, "gt": ~(2 * eq - 1), "ge": ~(eq - 1)}
            if name == "laneid":
                place = lane
            else:
                place = masks[name[-2:]] & 0xFFFFFFFF
        if (place == place[0]).all():
            return np.u4(place[0])
        return np.tile(place.astype(np.u4), self.blocks)

    def lanes(self, g: Group) -> Array:
        """Return the numbers of the group's threads in the chunk."""
        if g.lanes is None:
            return self.run.numbers(self.total)
        return g.lanes

    def rows(self, g: Group, stride: int) -> Array:
        """Return the start of each thread's row in shared memory, in elements."""
        found = g.rows.get(stride)
        if found is None:
            key = ("rows", self.blocks, stride)
            whole = self.run.kept_specials.get(key)
            if whole is None:
                whole = np.repeat(np.arange(self.blocks, dtype=np.i8) * stride, self.threads)
                self.run.kept_specials[key] = whole
            found = g.rows[stride] = whole if g.lanes is None else whole[g.lanes]
        return found

    def parameter(self, offset: int, width: int) -> Array:
        """Return a kernel parameter as bits."""
        if offset % width or offset < 0 or offset + width > len(self.launch.parameters):
            raise Trouble("a parameter outside the parameters")
        return np.frombuffer(self.launch.parameters, np.UNSIGNED[width], 1, offset)[0]

    def in_space(self, space: str, address: Array) -> Array:
        """Tell whether generic addresses are in a state space."""
        if space == "shared":  # of this block: its rank in its cluster is 0
            return address - np.u8(SHARED_WINDOW) < np.u8(2 << CLUSTER_BITS)
        if space in ("cluster", "local", "param"):
            window = {"cluster": SHARED_WINDOW, "local": LOCAL_WINDOW, "param": PARAMETER_WINDOW}[space]
            return address - np.u8(window) < np.u8(SPAN)
        return each(lambda place: self.launch.in_space(space, place), np.bool_, address)

    def seen(self, address: Array) -> Seen:
        """Return the facts about an array of addresses."""
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
            raise Trouble("a store to read-only memory")
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
            if address.ndim:
                first = int(address[0])
            else:
                first = int(address)
            held = self.run.hold(first + offset & M64)
            self.run.sites[site] = held
        for attempt in (0, 1):
            _, low, length = held.view(width, total)
            if not address.ndim:
                place = int(address) + offset - low & M64
                if place <= length - total:
                    if place & total - 1:
                        raise Trouble("misaligned")
                    return held, np.i8(place >> SHIFT[width])
            else:
                seen = self.seen(address)
                if seen.low + offset >= low and seen.high + offset + total <= low + length:
                    if offset & width - 1 or low & total - 1:
                        shifted = (address - np.u8(low - offset & M64)).view(np.i8)
                        if int(np.bitwise_or.reduce(shifted)) & total - 1:
                            raise Trouble("misaligned")
                        return held, shifted >> np.i8(SHIFT[width])
                    if (seen.bits | offset) & total - 1 and (address + np.u8(offset & M64) & np.u8(total - 1)).any():
                        raise Trouble("misaligned")
                    return held, moved(seen.index(low, width, total // width), offset // width)
            if not attempt:
                if address.ndim:
                    first = int(address[0])
                else:
                    first = int(address)
                other = self.run.hold(first + offset & M64)
                if other is held:
                    break
                held = self.run.sites[site] = other
        if not address.ndim:
            raise Trouble("outside every allocation")
        return None

    def _several(self, address: Array, offset: int, total: int) -> list[tuple[Array, int]]:
        """Divide the threads of an access by allocation: the places of the threads, and a number of the allocation."""
        place = address + np.u8(offset & M64)
        bases = np.array([each.base for each in self.launch.space.live()], np.u8)
        which = np.searchsorted(bases, place, "right")
        parts = np.unique(which)
        if len(parts) == 1:
            raise Trouble("outside every allocation")
        if len(parts) > MOST_ALLOCATIONS:
            raise Trouble("an access to many allocations", True)
        return [(np.flatnonzero(which == each), int(each)) for each in parts.tolist()]

    def aligned(self, g: Group, address: Array, offset: int, alignment: int, selected: Array | None) -> None:
        """Check the alignment of a load that does not read all bytes of its vector."""
        if selected is not None and address.ndim:
            address = address[selected]
        if address.size and (selected is None or len(selected)):
            bits = int(np.bitwise_or.reduce(address + address.dtype.type(offset & alignment - 1), None))
            if bits & alignment - 1:
                raise Trouble("misaligned")

    def _columns(self, array: Array, index: Any, count: int) -> list[Array]:
        if count == 1:
            return [taken(array, index)]
        if type(index) is not slice and index.ndim and len(index) > 256:
            rows = array[: len(array) // count * count].reshape(-1, count)[index // count]
            return [np.ascontiguousarray(rows[:, at]) for at in range(count)]
        return [taken(array, moved(index, at)) for at in range(count)]

    def load_global(
        self, g: Group, site: int, address: Array, offset: int, width: int, count: int, judged: bool, watched: bool,
        selected: Array | None, frames: Any, told: bool = True, *, constant: bool = False,
    ) -> list[Array]:  # fmt: skip
        """Load elements of global memory, or of constant memory, as bits."""
        if selected is not None:
            if not len(selected):
                return [np.empty(0, np.UNSIGNED[width])] * count
            if address.ndim:
                address = address[selected]
        total = width * count
        found = self._one(address, offset, width, total, site)
        if found is None:
            made = [np.empty(len(address), np.UNSIGNED[width]) for _ in range(count)]
            for places, _ in self._several(address, offset, total):
                parts = self.load_global(
                    g, -1 - site, address[places], offset, width, count, judged, watched, None, (), constant=constant
                )
                for target, part in zip(made, parts):
                    target[places] = part
            return made
        held, index = found
        if constant and not held.allocation.constant:
            raise Trouble("not constant memory")
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

    def load_const(self, *given: Any) -> list[Array]:
        """Load elements of constant memory as bits."""
        return self.load_global(*given, constant=True)

    def store_global(
        self, g: Group, site: int, address: Array, offset: int, width: int, values: tuple[Array, ...], watched: bool,
        selected: Array | None, frames: Any,
    ) -> None:  # fmt: skip
        """Store bits in global memory."""
        if selected is not None:
            if not len(selected):
                return
            if address.ndim:
                address = address[selected]
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
                marks[where] = np.WRITTEN[width]
