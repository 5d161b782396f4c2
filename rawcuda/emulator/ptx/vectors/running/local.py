"""Local memory for arrays, a row for each thread; and accesses through generic addresses.

Read next    warps.py
"""

from __future__ import annotations

from ....machine.space import POISON
from ...translating.unit import LOCAL_WINDOW, PARAMETER_WINDOW, SHARED_WINDOW
from ..late_numpy import np
from ..numeric import spread
from .allocations import M64, SHIFT, Trouble
from .shared import SharedMemory
from .vector_memory import SPAN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .running import Group

    Array = Any

__all__ = ["AllMemory"]


class AllMemory(SharedMemory):
    """The accesses to local memory, and those through generic addresses."""

    def local(self, width: int) -> Array:
        """Return local memory as elements of a width."""
        found = self._local.get(width)
        if found is None:
            if 1 not in self._local:
                self._local[1] = np.full(self.total * self.local_stride, POISON, np.u1)
                if self.watch:
                    self._local_marks[1] = np.zeros(self.total * self.local_stride, np.u1)
            found = self._local[width] = self._local[1].view(np.UNSIGNED[width])
            if self.watch:
                self._local_marks[width] = self._local_marks[1].view(np.UNSIGNED[width])
        return found

    def enter(self, g: Group, low: int, size: int) -> None:
        """Make the frame of a function, with nothing written in it."""
        if not self._local:
            self.local(1)
            return
        rows = self._local[1].reshape(self.total, -1)
        if g.lanes is None:
            lanes = slice(None)
        else:
            lanes = g.lanes
        rows[lanes, low : low + size] = POISON
        if self.watch:
            self._local_marks[1].reshape(self.total, -1)[lanes, low : low + size] = 0

    def never_written(self, site: int) -> None:
        """Let the scalar executor judge the use of a register that no instruction writes."""
        if site not in self.run.told:
            raise Trouble("a register that was never written", site=site)

    def _in_local(
        self, g: Group, address: Array, offset: int, width: int, total: int, selected: Array | None, frames: Any
    ) -> Array:
        place = address + address.dtype.type(offset & (1 << 8 * address.dtype.itemsize) - 1)
        lanes = self.lanes(g)
        if selected is not None:
            if place.ndim:
                place = place[selected]
            lanes = lanes[selected]
            if not len(lanes):
                return lanes
        if place.dtype != np.u4:
            if np.any(place >> np.u8(32)):
                raise Trouble("outside local memory")
            place = place.astype(np.u4)
        inside: Any = False
        for low, size in frames:
            if size >= total:
                inside = inside | (place - np.u4(low) <= np.u4(size - total))
        if not np.all(inside) or total > 1 and (place & np.u4(total - 1)).any():
            raise Trouble("outside local memory, or misaligned")
        return lanes * (self.local_stride // width) + (place >> np.u4(SHIFT[width])).astype(np.i8)

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
            if at:
                where = index + at
            else:
                where = index
            array[where] = value
            if self.watch:
                self._local_marks[width][where] = np.WRITTEN[width]

    # -- generic addresses

    def _space(self, address: Array, offset: int) -> str:
        """Return the state space of generic addresses, or "" if they differ."""
        place = address + np.u8(offset & M64)
        if place.ndim:
            least, most = (int(place.min()), int(place.max()))
        else:
            least, most = (int(place), int(place))
        if most < SHARED_WINDOW or least >= SHARED_WINDOW + 4 * SPAN:
            return "global"
        for name, window in (("shared", SHARED_WINDOW), ("local", LOCAL_WINDOW)):
            if window <= least and most < window + SPAN:
                return name
        if least >= PARAMETER_WINDOW and most < PARAMETER_WINDOW + SPAN:
            raise Trouble("a generic address of a parameter", True)
        return ""

    def _by_space(self, address: Array, offset: int) -> list[Array]:
        which = (address + np.u8(offset & M64)) >> np.u8(40)
        which = np.where(
            (which < np.u8(SHARED_WINDOW >> 40)) | (which > np.u8((SHARED_WINDOW >> 40) + 3)), np.u8(0), which
        )
        return [np.flatnonzero(which == each) for each in np.unique(which)]

    def load_generic(
        self, g: Group, site: int, address: Array, offset: int, width: int, count: int, judged: bool, watched: bool,
        selected: Array | None, frames: Any,
    ) -> list[Array]:  # fmt: skip
        """Load elements through generic addresses as bits."""
        if selected is not None and not len(selected):
            return [np.empty(0, np.UNSIGNED[width])] * count
        if selected is None or not address.ndim:
            given = address
        else:
            given = address[selected]
        space = self._space(given, offset)
        if not space:
            parts = self._by_space(given, offset)
            made = [np.empty(len(given), np.UNSIGNED[width]) for _ in range(count)]
            for places in parts:
                if selected is None:
                    some = places
                else:
                    some = selected[places]
                values = self.load_generic(g, site, address, offset, width, count, judged, watched, some, frames)
                made = [spread(value, places, old, len(given)) for value, old in zip(values, made)]
            return made
        if space == "shared":
            address = address - np.u8(SHARED_WINDOW)
        elif space == "local":
            address = address - np.u8(LOCAL_WINDOW)
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
        if selected is None or not address.ndim:
            given = address
        else:
            given = address[selected]
        space = self._space(given, offset)
        if not space:
            for places in self._by_space(given, offset):
                if selected is None:
                    some = places
                else:
                    some = selected[places]
                self.store_generic(g, site, address, offset, width, values, watched, some, frames)
            return
        if space == "shared":
            address = address - np.u8(SHARED_WINDOW)
        elif space == "local":
            address = address - np.u8(LOCAL_WINDOW)
        getattr(self, f"store_{space}")(g, site, address, offset, width, values, watched, selected, frames)
