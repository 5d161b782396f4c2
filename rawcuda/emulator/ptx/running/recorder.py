"""The record of one warp, and the steps of the warp that are made of it.

How          The emulator runs the threads of a warp one after the other. Each lane gets a list of events, one for each
             instruction. `steps` then puts the lanes together, as a warp would execute them: of all lanes, those at the
             lowest place in the text go first, so that lanes that have diverged meet again. A lane does not pass an
             instruction at which it has waited before all lanes that it waited for have shown theirs.
What not     an order of accesses of different lanes that do not wait for each other: values are what each lane saw
Read next    ../translating/recording.py, which writes the calls
"""

from __future__ import annotations

import struct
from collections import Counter

from ...machine.recovery import is_outside
from ...machine.space import WIDTH
from ..checking.history import Found
from ..checking.sources import Sources
from ..translating.unit import LOCAL_WINDOW, PARAMETER_WINDOW, SHARED_WINDOW
from .lookups import Exited
from .undefined import Undefined

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, Callable

    from ..reading.syntax import Module
    from ..translating.recording import Script, Written
    from .lookups import Block, Launch

    Path = tuple[int, ...]
    Log = list[tuple[frozenset[int], dict[str, tuple[Any, ...]]]]
    Kernel = Callable[[Launch, Block], Callable[..., Any]]

__all__ = ["Access", "Recorder", "Step"]

LANES = 32
_FLOATS = {"f32": "<f", "f64": "<d", "f16": "<e"}


class Access:
    """A memory access of one lane.

    kind     "read", "write" or "atomic"
    space    "global", "shared", "local", "const" or "param"
    lane     the lane, 0 to 31
    address  in the space; nbytes: how many bytes from there
    value    the bits of what was read, or of what is there after a write or an atomic: an int, for a vector bytes; None
             if the access failed
    values   the same as a tuple of numbers of the instruction's type
    before   the number that was there before an atomic; None for other accesses
    """

    __slots__ = ("kind", "space", "lane", "address", "nbytes", "value", "values", "before", "_type", "_place")

    def __init__(self, kind: str, space: str, lane: int, address: int, nbytes: int, type: str) -> None:
        self.kind, self.space, self.lane, self.address, self.nbytes = kind, space, lane, address, nbytes
        self.value: int | bytes | None = None
        self.values: tuple[Any, ...] = ()
        self.before: Any = None
        self._type, self._place = type, (b"", 0, 0)

    def __repr__(self) -> str:
        return f"<{self.kind} of {self.nbytes} bytes at {self.space} {self.address:#x} by lane {self.lane}>"

    def place(self, view: Any, index: int, code: str) -> None:
        """Note where the content is."""
        self._place = view, index, self.nbytes // WIDTH[code]
        if self.kind == "atomic":
            self.before = (*_numbers(self._bytes(), self._type), None)[0]

    def _bytes(self) -> bytes:
        view, start, count = self._place
        return bytes(view[start : start + count])

    def finish(self, data: bytes | None = None) -> None:
        """Note the content, which no later instruction can change."""
        if data is None:
            data = self._bytes()
        self._place = b"", 0, 0
        if len(data) == self.nbytes:
            self.values = _numbers(data, self._type)
            if len(self.values) == 1:
                self.value = int.from_bytes(data, "little")
            else:
                self.value = data


def _numbers(data: bytes, type: str) -> tuple[Any, ...]:
    if type[-2:] != "x2":
        width = max(int("".join(filter(str.isdigit, type)).rstrip() or 32) // 8, 1)
    else:
        width = 4
    parts = [data[start : start + width] for start in range(0, len(data) // width * width, width)]
    if type in _FLOATS:
        return tuple([struct.unpack(_FLOATS[type], part)[0] for part in parts])
    return tuple([int.from_bytes(part, "little", signed=type[:1] == "s") for part in parts])


class Step:
    """An instruction that lanes of a warp executed together.

    number       counts the steps from 0
    function     the name of the kernel, or of the device function that it called; depth: how many calls deep
    line         of the PTX text, from 1; text: the instruction as it is written there
    source       "file:line" of the CUDA C that the instruction came from, or None; source_text: this line, or ""
    active       for each lane whether it executed the instruction
    reached      for each lane whether it came here: a lane whose predicate was false came here and was not active
    registers    name -> a tuple of the values of the lanes after this instruction, None where a lane has none; of the
                 function's registers, those that were written until now. It is computed anew each time
    written      the names of the registers that this instruction wrote
    memory       a list of Access
    """

    __slots__ = (
        "number", "function", "depth", "line", "text", "source", "source_text", "active", "reached", "memory",
        "_values", "_log", "_at",
    )  # fmt: skip
    number: int
    function: str
    depth: int
    line: int
    text: str
    source: str | None
    source_text: str
    active: tuple[bool, ...]
    reached: tuple[bool, ...]
    memory: list[Access]
    _values: dict[str, tuple[Any, ...]]  # what this step wrote
    _log: Log  # of the function, in which this step is at _at: what each step adds to the ones before it
    _at: int

    @property
    def written(self) -> tuple[str, ...]:
        """Return the names of the registers that this instruction wrote."""
        return tuple(self._values)

    @property
    def registers(self) -> dict[str, tuple[Any, ...]]:
        """Return the values of the registers that were written until now; they are computed anew each time."""
        made: dict[str, tuple[Any, ...]] = {}
        for added in self._log[: self._at + 1]:
            _add(made, *added)
        return made

    def update(self, registers: dict[str, tuple[Any, ...]]) -> dict[str, tuple[Any, ...]]:
        """Change the registers of the step before, of the same function, to those of this step; return what changed."""
        return _add(registers, *self._log[self._at])

    def __repr__(self) -> str:
        return f"<step {self.number}: line {self.line}, {sum(self.active)} lanes: {self.text}>"


def _add(
    registers: dict[str, tuple[Any, ...]], fresh: frozenset[int], values: dict[str, tuple[Any, ...]]
) -> dict[str, tuple[Any, ...]]:
    """Add what a step did, and return the registers that changed: of lanes that entered the function, all."""
    if fresh:
        for name, held in registers.items():
            registers[name] = tuple([None if lane in fresh else value for lane, value in enumerate(held)])
    registers.update(values)
    if fresh:
        return registers
    return values


class _Event:
    """An instruction that one lane came to."""

    __slots__ = ("at", "path", "acts", "fresh", "written", "memory", "began", "waited")

    def __init__(self, at: int, path: Path, acts: bool, fresh: bool, began: int) -> None:
        self.at, self.path, self.acts, self.fresh = at, path, acts, fresh
        self.written: list[tuple[Written, Any]] | None = None  # None: it has not ended
        self.memory: list[Access] = []
        self.began, self.waited = began, 0  # numbers of passes of the scheduler; waited: 0 if it did not


class _Frame:
    """The registers of a function at one place of the stack.

    entered  the step at which each lane entered it last
    held     register -> the step at which each lane wrote it last, and the value
    log      for each step the lanes that entered the function, and the registers that it wrote
    """

    __slots__ = ("entered", "held", "log")

    def __init__(self) -> None:
        self.entered = [0] * LANES
        self.held: dict[str, list[tuple[int, Any]]] = {}
        self.log: Log = []

    def write(self, number: int, events: dict[int, _Event]) -> None:
        """Add a step."""
        fresh = frozenset([lane for lane, event in events.items() if event.fresh])
        for lane in fresh:
            self.entered[lane] = number
        written: dict[str, list[tuple[int, Any]]] = {}
        for lane, event in events.items():
            for register, value in event.written or ():
                held = written[register.name] = self.held.setdefault(register.name, [(-1, None)] * LANES)
                held[lane] = number, _shown(register, value)
        entered = self.entered
        values = {
            name: tuple([value if time >= entered[lane] else None for lane, (time, value) in enumerate(held)])
            for name, held in written.items()
        }
        self.log.append((fresh, values))


class _Lane:
    """The events of a lane, and the calls in which it is."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.events: list[_Event] = []
        self.path: Path = ()
        self.open: list[_Event] = []
        self.fresh = True
        self.full = False


class Recorder:
    """The record of one warp of a launch.

    block    the index of its block; warp: its number in the block; limit: how many steps are kept
    kernel   the name of the kernel, "" before the launch; ran: whether there was a launch
    error    the report of the launch, if it failed
    """

    def __init__(self, block: tuple[int, int, int], warp: int, limit: int) -> None:
        self.block, self.warp, self.limit = block, warp, limit
        self.error: str | None = None
        self.kernel, self.ran = "", False
        self._lanes = [_Lane(number) for number in range(LANES)]
        self._failed: _Lane | None = None
        self._most = limit + 1
        self._launch: Any = None
        self._number = -1
        self._script: Any = None
        self._module: Any = None

    def attach(self, launch: Launch, plain: Kernel, recorded: Kernel, script: Script, module: Module) -> Kernel:
        """Return the function that makes the threads of a block: the warp runs the recorded form."""
        self.kernel, self.ran = launch.name, True
        self._launch, self._script, self._module = launch, script, module
        x, y, z = self.block
        self._number = x + launch.gx * (y + launch.gy * z)

        def kernel(launch: Launch, block: Block) -> Callable[..., Any]:
            ordinary = plain(launch, block)
            if block.number != self._number:
                return ordinary
            told, blocking = recorded(launch, block), script.prepared[launch.name].blocking

            def thread(t: int, tx: int, ty: int, tz: int) -> Any:
                if t >> 5 != self.warp:
                    if self._failed and not blocking:
                        return None
                    return ordinary(t, tx, ty, tz)
                if blocking:
                    return self._watched(told(t, tx, ty, tz), t, block)
                try:
                    return told(t, tx, ty, tz)
                except Exception as caught:
                    self._fail(caught, t, block)
                    raise

            return thread

        return kernel

    def _watched(self, running: Any, t: int, block: Block) -> Any:
        try:
            yield from running
        except Exception as caught:
            self._fail(caught, t, block)
            raise

    def _fail(self, caught: Exception, t: int, block: Block) -> None:
        """Note which lane failed, and let the other lanes come as far."""
        if isinstance(caught, (Exited, Undefined)) or is_outside(caught) or self._failed is not None:
            return
        self._failed = self._lanes[t & 31]
        self._most = min(self._most, len(self._failed.events))
        if isinstance(caught, Found) or block.run_others is None:
            return
        for _ in range(LANES):
            try:
                block.run_others(t)
                break
            except Exception as other:  # the launch fails with the first error
                if is_outside(other):
                    raise
        block.running = t

    # -- what the recorded form calls

    def _lane(self) -> _Lane | None:
        block = self._launch.block
        if block is None or block.number != self._number or block.running >> 5 != self.warp:
            return None
        lane = self._lanes[block.running & 31]
        return None if lane.full else lane

    def begin(self, at: int, acts: bool) -> None:
        """Note that the running thread has come to a statement; `acts`: whether its predicate is true."""
        lane = self._lane()
        if lane is None:
            return
        if lane.events:
            last = lane.events[-1]
        else:
            last = None
        if last is not None and last.at == at and last.path == lane.path and last.written is None and last.acts:
            last.memory = []  # a load that is executed again, because what it reads is undefined
            if self._script.statements[at].opcode in ("ld", "ldu"):
                return
        if len(lane.events) >= self._most:
            lane.full = True
            if self._failed is not None:
                raise Exited
            return
        lane.events.append(_Event(at, lane.path, bool(acts), lane.fresh, self._launch.block.switches))
        lane.fresh = False

    def enter(self, at: int) -> None:
        """Note that a function is called."""
        lane = self._lane()
        if lane is not None:
            lane.open.append(lane.events[-1])
            lane.path, lane.fresh = (*lane.path, at), True

    def access(self, verb: str, space: str, address: int, nbytes: int, type: str) -> None:
        """Note an access, before its address is checked."""
        lane = self._lane()
        if lane is None:
            return
        space = space.split("::")[0]
        address &= (1 << 64) - 1
        if space == "generic":
            place = address - SHARED_WINDOW
            space = "global"
            for name, start in (("shared", SHARED_WINDOW), ("local", LOCAL_WINDOW), ("param", PARAMETER_WINDOW)):
                if 0 <= place < 3 << 40 and 0 <= address - start < 1 << 40:
                    space, address = name, address - start
        elif space in ("shared", "local"):
            address &= 0xFFFFFFFF
        lane.events[-1].memory.append(Access(verb.split(" ")[0], space, lane.number, address, nbytes, type))

    def holds(self, view: Any, index: int, code: str) -> None:
        """Note where the content of the last access is."""
        lane = self._lane()
        if lane is not None:
            lane.events[-1].memory[-1].place(view, index, code)

    def parameter(self, offset: int, nbytes: int, type: str) -> None:
        """Note a read of a parameter of the kernel."""
        lane = self._lane()
        if lane is not None:
            made = Access("read", "param", lane.number, offset, nbytes, type)
            made.finish(self._launch.parameters[offset : offset + nbytes])
            lane.events[-1].memory.append(made)

    def ended(self, number: int, *values: Any) -> None:
        """Note that the running thread has executed an instruction, and the values that it wrote."""
        lane = self._lane()
        if lane is None:
            return
        event, block = lane.events[-1], self._launch.block
        if number in self._script.calls:  # only now is the call over, after the steps of the function
            if not lane.open:
                return
            event = lane.open.pop()
            lane.path, lane.fresh = event.path, False
        elif block.switches != event.began:
            event.waited = block.switches
        made = event.written = event.written or []
        made += zip(self._script.written[number], values)
        for access in event.memory:
            if access.value is None:
                access.finish()

    # -- the steps

    @property
    def is_full(self) -> bool:
        """Tell whether there were more steps than were kept."""
        return self._failed is None and any(len(lane.events) >= self._most for lane in self._lanes)

    def steps(self) -> Iterator[Step]:
        """Yield the steps of the warp."""
        lanes, places = self._lanes, [0] * LANES
        left = Counter(event.waited for lane in lanes for event in lane.events if event.waited)
        frames: dict[Path, _Frame] = {}
        sources = Sources(self._module)
        for number in range(self.limit):
            here = [lane for lane in lanes if places[lane.number] < len(lane.events)]
            ready = [
                lane
                for lane in here
                if not places[lane.number] or not left[lane.events[places[lane.number] - 1].waited]
            ] or here
            if not ready:
                return
            keys = [(*lane.events[places[lane.number]].path, lane.events[places[lane.number]].at) for lane in ready]
            first = min(keys)
            together = [lane for lane, key in zip(ready, keys) if key == first]
            events = {lane.number: lane.events[places[lane.number]] for lane in together}
            yield self._step(number, events, frames, sources)
            for lane in together:
                event = events[lane.number]
                places[lane.number] += 1
                if event.waited:
                    left[event.waited] -= 1
            if self._failed is not None and places[self._failed.number] >= len(self._failed.events):
                return

    def _step(
        self,
        number: int,
        events: dict[int, _Event],
        frames: dict[Path, _Frame],
        sources: Sources,
    ) -> Step:
        any_event = next(iter(events.values()))
        statement = self._script.statements[any_event.at]
        quotes = sources.source_quotes(statement.line)
        frame = frames.setdefault(any_event.path, _Frame())
        frame.write(number, events)
        step = Step()
        step.number, step.function, step.depth = number, statement.function, len(any_event.path)
        step.line, step.text = statement.line, statement.text
        step.source, step.source_text = (quotes[0].place, quotes[0].text) if quotes else (None, "")
        step.reached = tuple([lane in events for lane in range(LANES)])
        step.active = tuple([lane in events and events[lane].acts for lane in range(LANES)])
        step._log, step._at, step._values = frame.log, len(frame.log) - 1, frame.log[-1][1]
        step.memory = [access for lane in sorted(events) for access in events[lane].memory]
        return step


def _shown(register: Written, value: Any) -> Any:
    """Return a value as the instruction means it: signed, or a float."""
    type = register.type
    if isinstance(value, int) and not isinstance(value, bool):
        if type in _FLOATS and register.bits == int(type[1:]):
            return struct.unpack(_FLOATS[type], value.to_bytes(register.bits // 8, "little"))[0]
        if type[:1] == "s" and value >> register.bits - 1 & 1:
            return value - (1 << register.bits)
    return value
