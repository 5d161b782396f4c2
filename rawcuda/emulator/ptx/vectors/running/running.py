"""The run of a kernel as arrays: chunks of blocks, groups of threads, branches, barriers.

The threads of a chunk are in groups. All threads of a group are at the same node, and a group's registers are arrays.
The group at the smallest node runs next; groups that meet at a node become one. A branch divides a group, and a
barrier holds it until all living threads of its blocks have arrived.

A `Trouble` undoes the chunk, and the scalar executor runs its blocks.

Read next    ptx/vectors/executor_choice.py, which decides what runs here
"""

from __future__ import annotations

from heapq import heappop, heappush
from time import monotonic

from ..late_numpy import np
from ..naming import names as names_of_arrays
from .allocations import Held, Trouble
from .warps import Threads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from ....machine.space import Space
    from ...running.lookups import Launch
    from ..writing.value_graph import Node, Program
    from ..writing.writing import Writer

    Array = Any

__all__ = ["Compiled", "Group", "Run"]

LANES = 1 << 15  # of a chunk, if its blocks are not larger
MOST_MEMORY = 64 << 20  # bytes of shared and local memory of a chunk
SECONDS_TO_PROBE = 5.0  # of a chunk, before one of its threads runs alone, to find out whether it ends
MOST_PROBED = 1 << 30  # bytes of memory that are copied for such a run
BARRIERS = 1 << 40  # sites from this number on are barriers
LOOK = 16  # nodes between two looks at the clock
PATIENCE = 0.03  # seconds before the speed is judged


def places_in(bits: int) -> list[int]:
    """Return the numbers of the bits that are set, in order."""
    digits, found = f"{bits:b}"[::-1], []
    place = digits.find("1")
    while place >= 0:
        found.append(place)
        place = digits.find("1", place + 1)
    return found


class Compiled:
    """A kernel's nodes as Python functions."""

    def __init__(self, writer: Writer, program: Program, scalar_names: dict[str, Any], filename: str) -> None:
        self.program = program
        self.source = writer.text
        self.sites = writer.sites
        names = names_of_arrays()
        for (kind, bits), name in writer.constants.items():
            width = int(kind[1])
            unsigned = names[f"u{width}"](bits)
            if kind[0] == "f":
                names[name] = unsigned.view(names[kind])
            else:
                names[name] = unsigned
        for source, name in writer.lambdas.items():
            names[name] = eval(compile(source, filename, "eval", dont_inherit=True), scalar_names)
        names["__builtins__"] = {"__import__": __import__}  # NumPy imports on demand
        names["__name__"] = "ptx"
        exec(compile(self.source, filename, "exec", dont_inherit=True), names)
        nodes = program.nodes
        self.functions: list[Callable[..., Any]] = [names[f"n{node.number}"] for node in nodes]
        self.masks: list[Any] = [names.get(f"m{node.number}") for node in nodes]
        self.live = [places_in(node.live) for node in nodes]
        # glibc returns the memory of large arrays to the system, and zeroes it again, until one of this size was freed
        np.empty(31 << 20, np.uint8)
        self.meets = any(node.kind in ("bar", "warp") for node in nodes)


class Group:
    """Threads that are at the same node, and their registers.

    shape   lanes: the numbers of the threads in the chunk, in order, or None for all of them
    """

    __slots__ = ("lanes", "n", "regs", "rows", "turns")

    def __init__(self, lanes: Array | None, n: int, regs: list[Any], turns: int) -> None:
        self.lanes = lanes
        self.n = n
        self.regs = regs
        self.rows: dict[int, Array] = {}
        self.turns = turns


class Run:
    """One launch.

    Why long  what a launch has, its chunks, its probe and its end are one state
    """

    def __init__(self, compiled: Compiled, launch: Launch, watch: bool, granule: int) -> None:
        self.compiled, self.program, self.launch = compiled, compiled.program, launch
        self.watch, self.granule = watch, granule
        self.sites: dict[int, Held] = {}
        self.told: set[int] = set()  # accesses whose undefined values were reported
        self.same_values = False  # whether stores of the same value by several threads were reported
        self.kept_specials: dict[Any, Array] = {}
        self._held: dict[int, Held] = {}
        self.alive: Array = None
        self.living = 0
        self.work = 0
        self.look: Callable[[], None] | None = None
        self.probe: Callable[[int, int, Space], None] | None = None
        self.probe_after = SECONDS_TO_PROBE
        self.slow = 1.0  # seconds of a thread-instruction in the scalar executor
        self.patient = False  # whether to continue even if it is slow
        self.seconds = 0.0

    def numbers(self, count: int) -> Array:
        """Return the numbers of all threads of a chunk."""
        found = self.kept_specials.get(count)
        if found is None:
            found = self.kept_specials[count] = np.arange(count, dtype=np.int64)
        return found

    def hold(self, address: int) -> Held:
        """Return the allocation that contains an address."""
        launch = self.launch
        found = launch.space.find(address)
        if found is None:
            raise Trouble("outside every allocation")
        held = self._held.get(found.base)
        if held is None or held.allocation is not found:
            if launch.rights is None:
                rights = 3
            else:
                rights = launch.rights(found)
            if not rights:
                raise Trouble("memory of another device or context")
            if found.written is not None:
                found.settle()
            held = self._held[found.base] = Held(found, rights == 3 and not found.constant)
        return held

    def chunk_blocks(self) -> int:
        """Return how many blocks run together."""
        launch = self.launch
        local = self.program.local_bytes + self.program.parameter_bytes
        each = launch.shared_bytes + launch.threads * local * 2
        blocks = max(1, LANES // launch.threads)
        if each:
            blocks = max(1, min(blocks, MOST_MEMORY // each))
        return blocks

    # -- one chunk

    def run_chunk(self, first: int, blocks: int) -> None:
        """Run some blocks.

        raises  Trouble   after the stores of the chunk were undone
        """
        memory = Threads(self, first, blocks)
        started, work = monotonic(), self.work
        try:
            with np.errstate(all="ignore"):
                self._run(memory, started, work)
                memory.end_phase()
        except Exception:
            memory.undo()
            raise
        finally:
            memory.close()
            self.seconds += monotonic() - started

    def _run(self, memory: Threads, started: float, work: int) -> None:
        """Run groups of threads through the nodes of the program until all have ended.

        Why long  the loop and its inner functions share the groups that wait; attributes would take longer
        """
        compiled = self.compiled
        nodes, functions, live = self.program.nodes, compiled.functions, compiled.live
        meets = compiled.meets
        if meets:
            self.alive, self.living = np.ones(memory.total, bool), memory.total
        limit = self.launch.limits.turns
        waiting: dict[int, list[Group]] = {}  # groups by node
        order: list[int] = []  # the keys of `waiting`, a heap
        parked: dict[int, list[Group]] = {}  # at barriers
        stuck: dict[int, list[Group]] = {}  # at warp operations
        g: Group | None = Group(None, memory.total, [None] * self.program.places, 0)
        here = 0
        steps = 0

        def cut(group: Group, condition: Array, number: int) -> Group:
            """Return the part of a group that goes to a node."""
            where = np.flatnonzero(condition)
            if group.lanes is None:
                lanes = where
            else:
                lanes = group.lanes[where]
            regs: list[Any] = [None] * len(group.regs)
            old = group.regs
            for place in live[number]:
                value = old[place]
                if value is not None and value.ndim and (value.ndim == 1 or len(value) > 1):
                    value = value[where]
                regs[place] = value
            return Group(lanes, len(lanes), regs, group.turns + (number <= here))

        def end(lanes: Array | None) -> None:
            """Record that threads have ended."""
            if meets:
                self.alive[slice(None) if lanes is None else lanes] = False
                self.living -= memory.total if lanes is None else len(lanes)

        def send(node: Node | None, group: Group, condition: Array) -> None:
            """Send a part of a group to a node."""
            if node is not None:
                arrive(node.number, cut(group, condition, node.number))
            elif meets:
                where = np.flatnonzero(condition)
                end(where if group.lanes is None else group.lanes[where])

        def arrive(number: int, group: Group) -> None:
            found = waiting.get(number)
            if found is None:
                waiting[number] = [group]
                heappush(order, number)
            else:
                found.append(group)

        while True:
            if g is None:
                if order:
                    here = heappop(order)
                    g = _merged(waiting.pop(here), live[here], memory.total)
                elif parked:
                    steps += 1
                    if not steps % LOOK:
                        self._glance(started, work)
                    for number, groups in self._released(memory, parked):
                        g = _merged(groups, live[number], memory.total)
                        functions[number](g, g.regs, memory)
                        self.work += nodes[number].cost * g.n
                        target = nodes[number].targets[0]
                        if target is None:
                            end(g.lanes)
                        else:
                            arrive(target.number, g)
                    g = None
                    continue
                elif stuck:
                    raise Trouble("threads of a warp wait for others")
                else:
                    return
            node = nodes[here]
            kind = node.kind
            if kind == "warp":
                if here in stuck:
                    g = _merged([g, *stuck.pop(here)], live[here], memory.total)
                can = memory.ready(g, compiled.masks[here](g, g.regs, memory))
                if can is not None:
                    stuck[here] = [cut(g, ~can, here)]
                    if can.any():
                        g = cut(g, can, here)
                    else:
                        g = None
                    if g is None:
                        continue
                    if memory.ready(g, compiled.masks[here](g, g.regs, memory)) is not None:
                        raise Trouble("odd member masks")
            elif kind == "bar":
                parked.setdefault(here, []).append(g)
                g = None
                continue
            elif kind == "trouble":
                raise Trouble("the kernel calls a function of the system, or stops", True)
            result = functions[here](g, g.regs, memory)
            self.work += node.cost * g.n
            steps += 1
            if not steps % LOOK:
                self._glance(started, work)
                if monotonic() - started > self.probe_after:
                    self._probe(memory, g)
            targets = node.targets
            if kind == "if":
                taken, passed = targets
                if not result.ndim:
                    if result:
                        following = taken
                    else:
                        following = passed
                elif result.all():
                    following = taken
                elif not result.any():
                    following = passed
                else:
                    if g.turns > limit:
                        raise Trouble("an endless loop", True)
                    send(taken, g, result)
                    send(passed, g, ~result)
                    g = None
                    continue
            elif kind == "switch":
                if (result >= len(targets)).any():
                    raise Trouble("a branch beyond its table")
                if result.ndim:
                    for at in np.unique(result).tolist():
                        send(targets[at], g, result == at)
                    g = None
                    continue
                following = targets[int(result)]
            else:
                if targets:
                    following = targets[0]
                else:
                    following = None
            if following is None:
                end(g.lanes)
                g = None
                continue
            if following.number <= here:
                g.turns += 1
                if g.turns > limit:
                    raise Trouble("an endless loop", True)
            here = following.number
            if order and order[0] <= here or here in waiting:
                arrive(here, g)
                g = None

    def _released(self, memory: Threads, parked: dict[int, list[Group]]) -> list[tuple[int, list[Group]]]:
        """Return the groups that pass their barrier, by node.

        raises  Trouble   not all living threads of a block reach the barrier, or they wait at different barriers
        """
        count = sum(group.n for groups in parked.values() for group in groups)
        if len(parked) > 1 or count != self.living:
            blocks = memory.blocks
            living = self.alive.reshape(blocks, -1).sum(axis=1)
            arrived, places = np.zeros(blocks, np.int64), np.zeros(blocks, np.int64)
            for groups in parked.values():
                here = np.zeros(blocks, np.int64)
                for group in groups:
                    here += np.bincount(memory.lanes(group) // memory.threads, minlength=blocks)
                arrived += here
                places += here > 0
            if (arrived != living).any():
                raise Trouble("a barrier that not all threads of a block reach")
            if (places > 1).any():
                raise Trouble("threads of a block at different barriers")
        if self.living < memory.total:
            self._ended(memory, parked)
        memory.end_phase()
        released = list(parked.items())
        parked.clear()
        return released

    def _ended(self, memory: Threads, parked: dict[int, list[Group]]) -> None:
        """Let the scalar executor report threads that ended before a barrier, once for each barrier."""
        some = self.alive.reshape(memory.blocks, -1)
        partly = some.any(axis=1) & ~some.all(axis=1)
        for number, groups in parked.items():
            site = BARRIERS + number
            if site not in self.told and any(partly[memory.lanes(g) // memory.threads].any() for g in groups):
                raise Trouble("threads have ended before a barrier", site=site)

    def _glance(self, started: float, work: int) -> None:
        """Look at the clock: report progress, and stop a kernel that is slower as arrays."""
        if self.look is not None:
            self.look()
        self.launch.look_at_clock()
        seconds = monotonic() - started
        if not self.patient and seconds > PATIENCE and seconds > self.slow * (self.work - work):
            raise Trouble("too slow as arrays", True)

    def _probe(self, memory: Threads, g: Group) -> None:
        """Run the first thread of a group from its beginning with the scalar executor, which notices if it never ends.

        It runs in a copy of all memory, in which the stores of the chunk are undone: other threads of the host write
        to the memory itself meanwhile.

        raises  Fault   it never ends (702)
        """
        self.probe_after *= 4
        space = self.launch.space
        if self.probe is None or sum(each.size for each in space.live()) > MOST_PROBED:
            return
        copies = space.copied()
        twins: dict[int, Array | None] = {}
        for held in {entry[0] for entry in memory.log}:
            found = copies.find(held.base)
            if found is not None and held.allocation.alive:
                twins.update(held.twins(Held(found, True)))
        for _, array, index, old in reversed(memory.log):
            twin = twins.get(id(array))
            if twin is not None:
                twin[index] = old
        block, thread = divmod(int(memory.lanes(g)[0]), memory.threads)
        self.probe(memory.first + block, thread, copies)


def _merged(groups: list[Group], live: list[int], total: int) -> Group:
    """Return one group of the threads of several, in their order."""
    if len(groups) == 1:
        return groups[0]
    lanes = np.concatenate([group.lanes for group in groups])
    n = len(lanes)
    order = np.argsort(lanes, kind="stable")
    regs: list[Any] = [None] * len(groups[0].regs)
    for place in live:
        values = [group.regs[place] for group in groups]
        if any(value is None for value in values):
            continue
        first = values[0]
        if all(value is first for value in values):
            if not first.ndim or first.ndim == 2 and len(first) == 1:
                regs[place] = first
                continue
        if not any(value.ndim for value in values):
            raw = first.tobytes()
            if all(value.tobytes() == raw for value in values):
                regs[place] = first
                continue
        if first.ndim == 2:
            whole = [np.broadcast_to(value, (group.n, value.shape[1])) for value, group in zip(values, groups)]
        else:
            whole = [value if value.ndim else np.full(group.n, value) for value, group in zip(values, groups)]
        regs[place] = np.concatenate(whole)[order]
    return Group(None if n == total else lanes[order], n, regs, max(group.turns for group in groups))
