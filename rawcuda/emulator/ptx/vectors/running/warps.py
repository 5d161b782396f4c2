"""Atomics, and the operations of warps and barriers, for the threads of a chunk.

An atomic is applied in the order of the threads, so each gets the old value that it would get if they ran one after
another.

The operands of a warp operation are arranged in rows of 32 lanes. Lanes that are not in the group are absent; an
operation waits until all lanes that its mask names are there.

Source       PTX ISA, "Parallel Synchronization and Communication Instructions"
Read next    running.py
"""

from __future__ import annotations

from ...running.half import HALVES
from ...translating.unit import SHARED_WINDOW
from .. import halves
from ..floats import flushed, maximum, minimum
from ..late_numpy import np
from ..numeric import count_bits
from .allocations import Trouble
from .local import AllMemory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from .running import Group

    Array = Any

__all__ = ["Threads"]

_FULL = 0xFFFFFFFF
LEAST_TOGETHER = 16  # threads whose atomics are applied at once
_INNER = {
    "add": "add",
    "min": "minimum",
    "max": "maximum",
    "and": "bitwise_and",
    "or": "bitwise_or",
    "xor": "bitwise_xor",
}


class Arranged:
    """The lanes of a warp operation: rows of warps, and for each lane the bits of the lanes that take part with it."""

    __slots__ = ("whole", "rows", "row", "lane", "bits", "present", "ended")

    def __init__(self, whole: bool, rows: int, row: Array, lane: Array, bits: Array, present: Array) -> None:
        self.whole, self.rows, self.row, self.lane, self.bits, self.present = whole, rows, row, lane, bits, present
        self.ended: Array = None  # the lanes that a member mask names although their threads have ended, as bits

    def spread(self, value: Array) -> Array:
        """Arrange values in rows of 32."""
        if not value.ndim:
            return np.broadcast_to(value, (self.rows, 32))
        if self.whole:
            return value.reshape(-1, 32)
        made = np.zeros((self.rows, 32), value.dtype)
        made[self.row, self.lane] = value
        return made

    def collect(self, value: Array) -> Array:
        """Return the values of the lanes that are present."""
        value = np.broadcast_to(value, (self.rows, 32))
        if self.whole:
            return np.ascontiguousarray(value).reshape(-1)
        return value[self.row, self.lane]


class Threads(AllMemory):
    """The operations that involve several threads.

    Why long  it has a method for each operation of its kind
    """

    now: Arranged

    # -- atomics

    def atomic_global(
        self, g: Group, site: int, address: Array, offset: int, kind: str, verb: str, values: tuple[Array, ...],
        returns: bool, selected: Array | None,
    ) -> Array:  # fmt: skip
        """Apply an atomic to global memory; return the old values as bits."""
        width = int(kind[1])
        if selected is None:
            count = g.n
        else:
            count = len(selected)
        if not count:
            return np.empty(0, f"u{width}")
        if selected is not None:
            if address.ndim:
                address = address[selected]
            values = tuple(value[selected] if value.ndim else value for value in values)
        found = self._one(address, offset, width, width, site)
        if found is None:
            made = np.empty(count, f"u{width}")
            for places, _ in self._several(address, offset, width):
                parts = tuple(value[places] if value.ndim else value for value in values)
                part = self._applied(g, address[places], offset, kind, verb, parts, returns, len(places), -1 - site)
                if returns:
                    made[places] = part
            return made
        return self._applied(g, address, offset, kind, verb, values, returns, count, site, found)

    def _applied(
        self, g: Group, address: Array, offset: int, kind: str, verb: str, values: tuple[Array, ...], returns: bool,
        count: int, site: int, found: Any = None,
    ) -> Array:  # fmt: skip
        width = int(kind[1])
        found = found or self._one(address, offset, width, width, site)
        assert found is not None
        held, index = found
        if type(index) is slice:
            index = np.arange(index.start, index.stop, index.step)
        marks = held.marks(width, width)
        if marks is not None:
            if verb != "exch" and site not in self.run.told and not np.all(marks[index]):
                raise Trouble("never written", site=site)
            self.keep(held, marks, index)
            marks[index] = np.WRITTEN[width]
        array = held.view(width, width)[0]
        self.keep(held, array, index)
        if kind == "f4" and verb == "add" and (_is_tiny(values[0]) or _is_tiny(array.view(kind)[index])):
            return _add_flushing(array, np.broadcast_to(index, count), np.broadcast_to(values[0], count))
        return _apply(array, index, count, kind, verb, values, returns)

    def atomic_shared(
        self, g: Group, site: int, address: Array, offset: int, kind: str, verb: str, values: tuple[Array, ...],
        returns: bool, selected: Array | None,
    ) -> Array:  # fmt: skip
        """Apply an atomic to shared memory; return the old values as bits."""
        width = int(kind[1])
        if selected is not None:
            values = tuple(value[selected] if value.ndim else value for value in values)
        index = self._in_shared(g, address, offset, width, width, selected)
        if not len(index):
            return np.empty(0, f"u{width}")
        if self.granule and not self.whole:
            if verb != "exch":
                self._need(index, width, 1)
            for q in self._granules(index, width, 1):
                self.written[q] = 1
            self.changed = True
        return _apply(self.shared(width), index, len(index), kind, verb, values, returns)

    def atomic_generic(
        self, g: Group, site: int, address: Array, offset: int, kind: str, verb: str, values: tuple[Array, ...],
        returns: bool, selected: Array | None,
    ) -> Array:  # fmt: skip
        """Apply an atomic through generic addresses; return the old values as bits."""
        if selected is not None and not len(selected):
            return np.empty(0, f"u{kind[1]}")
        if selected is None or not address.ndim:
            given = address
        else:
            given = address[selected]
        space = self._space(given, offset)
        if space == "shared":
            return self.atomic_shared(
                g, site, address - np.u8(SHARED_WINDOW), offset, kind, verb, values, returns, selected
            )
        if space != "global":
            raise Trouble("an atomic in several state spaces")
        return self.atomic_global(g, site, address, offset, kind, verb, values, returns, selected)

    # -- the lanes of a warp operation

    def ready(self, g: Group, mask: Array | None) -> Array | None:
        """Arrange the lanes of a group; return which threads can continue, or None if all can."""
        threads = self.threads
        if g.lanes is None and threads % 32 == 0:
            rows = self.total // 32
            if mask is None or not mask.ndim and mask == _FULL:
                self.now = Arranged(True, rows, None, None, None, None)
                return None
            present = np.ones((rows, 32), bool)
            self.now = Arranged(True, rows, None, None, None, present)
        else:
            lanes = self.lanes(g)
            wide = -(-threads // 32)
            t = lanes % threads
            warp = lanes // threads * wide + (t >> 5)
            lane = t & 31
            starts = np.empty(len(warp), bool)
            starts[0] = True
            np.not_equal(warp[1:], warp[:-1], out=starts[1:])
            row = np.cumsum(starts) - 1
            rows = int(row[-1]) + 1
            present = np.zeros((rows, 32), bool)
            present[row, lane] = True
            self.now = Arranged(False, rows, row, lane, None, present)
        now = self.now
        here = _packed(present)[:, None]
        if mask is None:
            now.bits = np.broadcast_to(here, (rows, 32))
            return None
        if mask.ndim:
            masks = np.where(present, now.spread(mask), np.u4(0))
        else:
            masks = np.where(present, mask, np.u4(0))
        if not now.collect((masks >> np.LANE.astype(np.u4) & np.u4(1)) != 0).all():
            raise Trouble("a thread that is not in its own member mask")
        if mask.ndim and (now.collect(masks) != now.collect(masks)[0]).any():
            same = _packed(masks[:, :, None] == masks[:, None, :]) & here
        else:
            same = np.broadcast_to(here, (rows, 32))
        now.bits = masks & same
        alive = self._alive(g, rows)
        if self.run.living < self.total:
            now.ended = masks & (self._alive(g, rows, True) & ~alive)[:, None]
        missing = now.collect(masks & ~same & alive[:, None]) != 0
        if missing.any():
            return ~missing
        return None

    def _alive(self, g: Group, rows: int, ended: bool = False) -> Array:
        """Return for each row, as bits, the lanes with threads; without `ended`, only those that have not ended."""
        wide = -(-self.threads // 32)
        made = np.zeros((self.blocks, wide * 32), bool)
        made[:, : self.threads] = ended or self.run.alive.reshape(self.blocks, self.threads)
        bits = _packed(made.reshape(-1, 32))
        if self.now.whole:
            return bits
        lanes = self.lanes(g)
        warp = lanes // self.threads * wide + (lanes % self.threads >> 5)
        found = np.empty(rows, np.intp)
        found[self.now.row] = warp
        return bits[found]

    def _bits(self) -> Array:
        now = self.now
        if now.bits is not None:
            return now.bits
        return np.broadcast_to(np.u4(_FULL), (now.rows, 32))

    # -- warp operations

    def warp_sync(self, g: Group, mask: Array) -> None:
        """Synchronize the threads of a warp."""
        self.end_warp_phase(g)

    def shuffle(
        self, g: Group, site: int | None, mode: str, value: Array, b: Array, c: Array, mask: Array
    ) -> tuple[Array, Array]:
        """Read the values of other lanes; return them, and whether the lane was inside the segment.

        raises  Trouble   a value is undefined, because the lane takes no part; without a site, that does not matter
        """
        self.end_warp_phase(g)
        now = self.now
        uniform = not b.ndim and not c.ndim
        if uniform:
            by = int(b) & 31
        else:
            by = now.spread(b).astype(np.i8) & 31
        if uniform:
            control = int(c)
        else:
            control = now.spread(c).astype(np.i8)
        clamp, segment = control & 31, control >> 8 & 31
        limit = np.LANE & segment | clamp & ~segment & 31
        if mode == "up":
            source = np.LANE - by
            inside = source >= limit
        else:
            source = (
                np.LANE + by if mode == "down" else np.LANE ^ by if mode == "bfly"
                else np.LANE & segment | by & ~segment & 31
            )  # fmt: skip
            inside = source <= limit
        source = np.where(inside, source, np.LANE)
        values = now.spread(value)
        if uniform and now.bits is None:
            return np.ascontiguousarray(values[:, source]).reshape(-1), now.collect(inside)
        source = np.broadcast_to(source, (now.rows, 32))
        if now.ended is not None and now.collect((now.ended >> source.astype(np.u4) & np.u4(1)) * inside).any():
            raise Trouble("a shuffle from a thread that has ended")
        got = np.take_along_axis(values, source, 1)
        member = self._bits() >> source.astype(np.u4) & np.u4(1)
        if site is not None and site not in self.run.told and not now.collect(member).all():
            raise Trouble("a shuffle from a lane that takes no part", site=site)
        return now.collect(np.where(member != 0, got, values)), now.collect(inside)

    def vote(self, g: Group, verb: str, value: Array, mask: Array | None) -> Array:
        """Vote; return the bits of a ballot, or a truth value."""
        self.end_warp_phase(g)
        now = self.now
        bits = self._bits()
        ballot = _packed(now.spread(value))[:, None] & bits
        if verb == "ballot":
            return now.collect(ballot)
        if verb == "all":
            return now.collect(ballot == bits)
        if verb == "any":
            return now.collect(ballot != 0)
        return now.collect((ballot == bits) | (ballot == 0))

    def match(self, g: Group, verb: str, value: Array, mask: Array) -> tuple[Array, Array]:
        """Find the lanes with the same value."""
        self.end_warp_phase(g)
        now, bits = self.now, self._bits()
        values = now.spread(value)
        same = _packed(values[:, :, None] == values[:, None, :]) & bits
        if verb == "any":
            return now.collect(same), np.bool_(True)
        equal = same == bits
        return now.collect(np.where(equal, bits, np.u4(0))), now.collect(equal)

    def reduction(self, g: Group, verb: str, value: Array, mask: Array) -> Array:
        """Reduce over the lanes."""
        self.end_warp_phase(g)
        now = self.now
        values = now.spread(value)
        function: Any = _inner(verb)
        if now.bits is None:
            made = function.reduce(values, axis=1, dtype=values.dtype)[:, None]
        else:
            start = {"add": 0, "or": 0, "xor": 0, "and": -1}.get(verb)
            limits = np.iinfo(values.dtype)
            if start is None:
                if verb == "min":
                    start = limits.max
                else:
                    start = limits.min
            if not limits.min:
                start = start & int(limits.max)
            member = (now.bits[:, :, None] >> np.LANE.astype(np.u4) & np.u4(1)) != 0
            each = np.where(member, values[:, None, :], values.dtype.type(start))
            made = function.reduce(each, axis=2, dtype=values.dtype)
        return now.collect(made).view(np.u4)

    def float_reduction(self, g: Group, verb: str, strict: bool, value: Array, mask: Array) -> Array:
        """Return the smallest or largest float32 over the lanes; strict: a NaN if there is one."""
        self.end_warp_phase(g)
        now = self.now
        values = now.spread(value)[:, None, :]
        if now.bits is not None:
            member = (now.bits[:, :, None] >> np.LANE.astype(np.u4) & np.u4(1)) != 0
            values = np.where(member, values, np.f4(np.nan))
            none = ((values != values) & member).any(axis=2)
        else:
            none = (values != values).any(axis=2)
        if verb == "min":
            pick = minimum
        else:
            pick = maximum
        while values.shape[2] > 1:
            half = values.shape[2] // 2
            values = pick(values[:, :, :half], values[:, :, half:])
        made = values[:, :, 0]
        return now.collect(np.where(none, np.f4(np.nan), made) if strict else made)

    def active(self, g: Group) -> Array:
        """Return the lanes that are active."""
        self.end_warp_phase(g)
        return self.now.collect(self._bits())

    def elect(self, g: Group, mask: Array) -> tuple[Array, Array]:
        """Return the lowest lane, and whether each lane is it."""
        self.end_warp_phase(g)
        bits = self._bits()
        lowest = count_bits((bits & (~bits + np.u4(1))) - np.u4(1))
        return self.now.collect(lowest), self.now.collect(lowest == np.LANE)

    def block_vote(self, g: Group, verb: str, value: Array) -> Array:
        """Return the result of a barrier with a vote."""
        blocks = self.lanes(g) // self.threads
        size = np.bincount(blocks, minlength=self.blocks)
        if value.ndim:
            true = np.bincount(blocks[value], minlength=self.blocks)
        else:
            if value:
                true = size
            else:
                true = size * 0
        if verb == "popc":
            made = true
        elif verb == "and":
            made = true == size
        else:
            made = true > 0
        found = made[blocks]
        if verb == "popc":
            return found.astype(np.u4)
        return found


def _inner(verb: str) -> Any:
    """Return NumPy's function for an atomic or a reduction."""
    return getattr(np, _INNER[verb])


def _packed(truths: Array) -> Array:
    """Pack each 32 truth values into a number."""
    return np.packbits(truths, axis=-1, bitorder="little").view(np.u4)[..., 0]


# -- how an atomic changes memory


def _apply(
    array: Array, index: Array, count: int, kind: str, verb: str, values: tuple[Array, ...], returns: bool
) -> Array:
    """Apply an atomic to elements in order; return the old ones as bits if they are wanted.

    Why long  it has a branch for each way in which the elements of an atomic can meet
    """
    typed = array.view(kind)
    bits = array.dtype
    together = not index.ndim
    if together:
        index = np.broadcast_to(index, count)
    given = [np.broadcast_to(value, count) for value in values]
    simple = verb in _INNER and (kind[0] != "f" or verb == "add")
    if not returns and simple:
        if together and count > 1 and kind[0] != "f":
            place = index[0]
            typed[place] = _inner(verb)(typed[place], _inner(verb).reduce(given[0], dtype=typed.dtype))
        else:
            _inner(verb).at(typed, index, given[0])
            _plain_nan(array, typed, index, kind)
        return np.empty(0, bits)
    if count == 1:
        order, alone = None, True
    elif together:
        order, alone = np.arange(count), False
    else:
        order = np.argsort(index, kind="stable")
        ordered = index[order]
        starts = np.empty(count, bool)
        starts[0] = True
        np.not_equal(ordered[1:], ordered[:-1], out=starts[1:])
        alone = bool(starts.all())
    if alone:
        old = typed[index]
        typed[index] = _updated(verb, old, given)
        _plain_nan(array, typed, index, kind)
        return old.view(bits)
    if verb == "add" and kind[0] != "f":
        sums = given[0][order].cumsum(dtype=typed.dtype)
        before = sums - given[0][order]
        if together:
            made = typed[index[0]] + before
        else:
            first = np.maximum.accumulate(np.where(starts, np.arange(count), 0))
            made = typed[ordered] + (before - before[first])
        old = np.empty(count, typed.dtype)
        old[order] = made
        np.add.at(typed, index, given[0])
        return old.view(bits)
    rank = np.arange(count)
    if not together:
        rank = np.empty(count, np.intp)
        rank[order] = np.arange(count) - np.maximum.accumulate(np.where(starts, np.arange(count), 0))
    turns = int(rank.max()) + 1
    if turns * LEAST_TOGETHER > count:
        return _one_by_one(typed, index, verb, given).view(bits)
    old = np.empty(count, typed.dtype)
    for turn in range(turns):  # the first thread of each address, then the second one, and so on
        places = np.flatnonzero(rank == turn)
        here = index[places]
        old[places] = typed[here]
        typed[here] = _updated(verb, old[places], [value[places] for value in given])
        _plain_nan(array, typed, here, kind)
    return old.view(bits)


def _is_tiny(value: Array) -> bool:
    """Tell whether a number is so small that sums with it may be subnormal."""
    return bool(((value != 0) & (np.abs(value) < np.f4(2.0**-100))).any())


def _add_flushing(array: Array, index: Array, values: Array) -> Array:
    """Add float32 in order, as global memory does, which flushes subnormal numbers; return the old ones as bits."""
    typed = array.view("f4")
    old = np.empty(len(index), "f4")
    for place, (at, value) in enumerate(zip(index.tolist(), flushed(values))):
        old[place] = typed[at]
        typed[at : at + 1] = flushed(flushed(typed[at : at + 1]) + value)
    _plain_nan(array, typed, index, "f4")
    return old.view(array.dtype)


def _plain_nan(array: Array, typed: Array, index: Array, kind: str) -> None:
    if kind == "f4":
        now = typed[index]
        none = now != now
        if none.any():
            array[index[none]] = np.u4(0x7FFFFFFF)


def _updated(verb: str, old: Array, given: list[Array]) -> Array:
    b = given[0]
    if verb == "cas":
        return np.where(old == b, given[1], old)
    if verb == "exch":
        return b
    if verb == "inc":
        return np.where(old >= b, np.u4(0), old + np.u4(1))
    if verb == "dec":
        return np.where((old == 0) | (old > b), b, old - np.u4(1))
    if " " in verb:
        name, type = verb.split()
        return getattr(halves, f"half_{name}")(type, "", old, b)
    return _inner(verb)(old, b)


def _one_by_one(typed: Array, index: Array, verb: str, given: list[Array]) -> Array:
    held: dict[int, Any] = {}
    function: Callable[[Any, Any, Any], Any]
    if " " in verb:
        of_halves = HALVES[f"{verb} "]
        function = lambda x, b, c: of_halves(x, b)
    else:
        function = _SCALAR[verb]
    if typed.dtype.kind == "f":
        if typed.dtype.itemsize == 4:
            function = lambda x, b, c: np.float32(x + b)
        else:
            function = lambda x, b, c: x + b
    elif verb == "add":
        mask = (1 << 8 * typed.dtype.itemsize) - 1
        function = lambda x, b, c: x + b & mask
    if len(given) > 1:
        more = given[1].tolist()
    else:
        more = [0] * len(index)
    old = []
    for place, b, c in zip(index.tolist(), given[0].tolist(), more):
        x = held.get(place)
        if x is None:
            x = typed[place].item()
        old.append(x)
        held[place] = function(x, b, c)
    for place, value in held.items():
        typed[place] = value
    if typed.dtype.itemsize == 4 and typed.dtype.kind == "f":
        places = np.array(list(held))
        _plain_nan(typed.view(np.u4), typed, places, "f4")
    return np.array(old, typed.dtype)


_SCALAR: dict[str, Callable[[Any, Any, Any], Any]] = {
    "cas": lambda x, b, c: c if x == b else x,
    "exch": lambda x, b, c: b,
    "inc": lambda x, b, c: 0 if x >= b else x + 1,
    "dec": lambda x, b, c: b if x == 0 or x > b else x - 1,
    "min": lambda x, b, c: min(x, b),
    "max": lambda x, b, c: max(x, b),
    "and": lambda x, b, c: x & b,
    "or": lambda x, b, c: x | b,
    "xor": lambda x, b, c: x ^ b,
    "add": lambda x, b, c: x + b,
}
