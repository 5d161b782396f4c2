"""The objects behind generated code: the launch, its blocks, and the look-ups of memory accesses.

The generated code calls these functions only if its own cache of the last allocation does not contain the address, so
they can check everything. An error is a `Fault`; report.py adds kernel, line, block and thread to it.

Read next    thread.py; scheduler.py, which runs the threads of a block; ../translating/emitting/access.py, whose code
             calls this module
"""

from __future__ import annotations

import sys
import time
from collections import deque
from itertools import chain, repeat
from struct import unpack_from

from ...machine.codes import ILLEGAL_ADDRESS, LAUNCH_FAILED, LAUNCH_TIMEOUT, MISALIGNED_ADDRESS
from ...machine.holdings import Heap
from ...machine.space import POISON, WIDTH, Allocation, Fault, Space, elements, say
from ..checking.history import Found
from ..checking.places import misalignment, shared_fault, whereabouts
from ..reading.operands import RESERVED
from ..translating.unit import CLUSTER_BITS, LOCAL_WINDOW, PARAMETER_WINDOW, SHARED_WINDOW
from .cluster import Cluster
from .later_writes import OTHERS_FIRST, LaterWrites
from .races import Unwritten, Watch
from .sampling import Pixels, Sampler, open_surface, open_texture
from .undefined import Mark, Undefined

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import FrameType
    from typing import Any, Callable

    from ..checking.history import History
    from ..checking.sources import Sources
    from ..ptx_program import Entry

    Keep = tuple[memoryview, int, int]

__all__ = ["Block", "Exited", "Launch", "Limits", "Quiet"]


LOCAL_LIMIT = 512 << 10  # bytes of local memory of a thread, as on every GPU
MOST_LOCAL = 1 << 30  # bytes of local memory of all blocks that wait for each other
_MOST_REFILL, _FIRST_REFILL = 1 << 12, 1 << 6  # loop iterations until the clock is looked at
_SLOW_REFILL = 200_000_000  # nanoseconds, after which it is looked at more often
NOWHERE = 1 << CLUSTER_BITS  # an offset behind all shared memory
_POISON = bytes((POISON,))
_REACHED = {  # what reports an undefined value
    "address": "an address", "branch": "a branch", "call": "a call", "callee": "the address of a call",
    "lane": "the lane of a shuffle", "predicate": "the predicate of an instruction", "store": "a store",
}  # fmt: skip


class Exited(Exception):
    """The exception that ends a thread inside a device function."""


class Limits:
    """The limits beyond which a thread is considered endless.

    units   turns: iterations of loops in one thread; seconds: how long no block ends before the state of all resident
            blocks is compared; rounds: passes over them after which a loop is endless that only counts while it waits
    """

    __slots__ = ("turns", "rounds", "seconds")

    def __init__(self, turns: int = 100_000_000, rounds: int = 10_000, seconds: float = 3.0) -> None:
        self.turns = turns
        self.rounds = rounds
        self.seconds = seconds


class Quiet:
    """A stand-in for Delays in a launch that delays no store: its functions do nothing."""

    store = touch = flush = resume = suspend = end = staticmethod(lambda *_: None)


class Launch:
    """One run of a kernel over a grid.

    Why long  compiled kernels call its methods, so what a run offers to them is one object
    """

    # What most launches never change:
    number = 1
    site = ""  # the line of the program that launched the kernel
    cluster, cluster_size = (1, 1, 1), 1
    explicit_cluster = False  # whether the launch or the kernel names a size
    after_refill: Callable[[], None] | None = None
    rights: Callable[[Allocation], int] | None = None  # the access to an allocation: 0, 1 (read) or 3; None: always 3
    opaque: Callable[[int], Any] | None = None  # returns the texture or surface of a handle, or None
    marked: memoryview | None = None  # which elements were written in the memory that `reach` found last
    kernel: Entry | None = None  # for reports
    sources: Sources | None = None  # what reports have read of them
    code_name = ""  # the file name of the generated code
    say: Callable[[str, FrameType | Found], str] | None = None  # returns the report of a finding
    cooperative = False  # whether all of its blocks may synchronize with each other
    resident = 0  # how many of its blocks fit on the device at the same time; 0: all
    multiprocessors = 4  # of the device
    output_size = 1 << 20  # characters of the buffer of output (CU_LIMIT_PRINTF_FIFO_SIZE)
    heap_size = 8 << 20  # bytes that malloc can allocate (CU_LIMIT_MALLOC_HEAP_SIZE)
    local_bytes = 0  # of the threads of all blocks that have not ended
    _workspace, _refused = 0, False
    tracked: Callable[[int], tuple[Callable[..., Any], dict[int, int]]] | None = None  # see Code.tracked
    register_name: Callable[[int, int], str] | None = None  # returns the name of a register of a function
    tracking = False  # whether the running instruction finds undefined values in `mark`
    mark: Mark | None = None
    marking = False  # whether a thread tracks undefined values
    recorder: Any = None  # of the steps of one warp

    def __init__(
        self,
        name: str,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        parameters: bytes,
        static_shared: int,
        dynamic_shared: int,
        space: Space,
        limits: Limits,
    ) -> None:
        self.name = name
        self.gx, self.gy, self.gz = grid
        self.nx, self.ny, self.nz = block
        self.threads = self.nx * self.ny * self.nz
        self.warps = (self.threads + 31) // 32
        self.parameters = parameters
        self.dynamic_shared = dynamic_shared
        self.shared_bytes = static_shared + dynamic_shared
        self.reserved_at, self.shared_end = NOWHERE, self.shared_bytes  # what the system reserves: see reserve()
        self.shared_at: list[int] = []
        self.space = space
        self.limits = limits
        self.functions: dict[int, Callable[..., Any]] = {}
        self._warned: set[tuple[int, int]] = set()
        self.signatures: dict[int, str] = {}  # of device functions, by their numbers
        self.prototypes: dict[str, int] = {}  # the numbers of the signatures that calls through pointers expect
        self.clusters = grid
        self.output: deque[bytes] = deque()
        self.heap = Heap()
        self.printed = self.kept = 0  # bytes: of all output, and of what the buffer still has
        self.block: Block | None = None
        self.history: History | None = None  # of all accesses, if the race checker is on
        self.delays: Any = Quiet  # of stores that other blocks see late
        self.later = LaterWrites(self)
        self.opened: dict[int, Any] = {}  # the textures and surfaces that the kernel has used, by handle
        self._met: set[int] = set()
        self._started = time.perf_counter_ns()
        self.fuel: Iterator[None] = chain.from_iterable(self._refill())

    # -- memory

    def reserve(self) -> None:
        """Add the shared memory that the system reserves to each block, behind the kernel's own and a gap.

        Only the blocks of kernels that name it have it. On a GPU, it is in front of the kernel's own, in all blocks.
        """
        self.reserved_at = -(-self.shared_bytes // RESERVED) * RESERVED + RESERVED
        self.shared_end = self.reserved_at + RESERVED

    def in_shared(self, place: int, total: int) -> bool:
        """Tell whether an access to the shared memory of a block is inside the kernel's own or what is reserved."""
        return place + total <= self.shared_bytes or self.reserved_at <= place <= self.shared_end - total

    def outside(self, address: int, total: int) -> None:
        """Report an access between the kernel's own shared memory and what the system reserves.

        raises  Fault   always (700)
        """
        raise shared_fault(self, address, total, 1)

    def allocated_shared(self) -> int:
        """Return the size of the shared memory of a block, in the units in which it is allocated."""
        if self.kernel is None or self.kernel.target >= 80:
            unit = 128
        else:
            unit = 256
        return -(-self.shared_bytes // unit) * unit

    def reach(self, base: int, offset: int, code: str, total: int) -> Keep:
        """Return the memory of an access: the view, the base address of element 0, and the limit of the offset.

        raises  Fault   misaligned (716), or not inside an allocation (700)
        """
        address = base + offset & 0xFFFFFFFFFFFFFFFF
        if address % total:
            raise misalignment("address", address, total, whereabouts(self, address, total))
        found = self.space.find(address)
        if found is None or address + total > found.base + found.size:
            raise Fault(ILLEGAL_ADDRESS, f"address {address:#x}: {whereabouts(self, address, total)}")
        if self.rights is None:
            rights = 3
        else:
            rights = self.rights(found)
        if not rights:
            raise Fault(ILLEGAL_ADDRESS, self.space.refuse(found, address, total))
        if found.written is not None and found.base not in self._met:
            self._met.add(found.base)
            found.settle()
        self.marked = found.marks(code, total)
        view, low, length = found.typed(code, total, rights == 3 and not found.constant)
        return view, low - offset - (base + offset - address), length - total + 1

    def constant(self, base: int, offset: int, code: str, total: int) -> Keep:
        """Return the memory of an access to constant memory, as `reach` does.

        raises  Fault   misaligned (716), or not inside an allocation of constant memory (700)
        """
        kept = self.reach(base, offset, code, total)
        address = base + offset & 0xFFFFFFFFFFFFFFFF
        found = self.space.find(address)
        if found is not None and not found.constant:
            text = f"address {address:#x}: {whereabouts(self, address, total)}, which is not constant memory"
            raise Fault(ILLEGAL_ADDRESS, text)
        return kept

    # -- undefined values

    def _words(self, address: int, total: int, space: str) -> str:
        """Return the words for a read of memory that was never written."""
        address &= 0xFFFFFFFFFFFFFFFF
        if space == "local" or 0 <= address - LOCAL_WINDOW < 1 << 40:
            text = f"local address {address & 0xFFFFFFFF:#x} was never written: its content is undefined"
        else:
            text = self.space.unwritten(address, total)
        return f"initcheck: invalid read of {total} bytes of {space} memory: {text}"

    def _located(self, found: Found, line: int) -> Found:
        """Add the place in the code to a report, and the running thread; return the report."""
        block = self.block
        found.line, found.block = line, block.number if block is not None else 0
        if block is not None:
            found.thread = block.running or 0
        else:
            found.thread = 0
        frame: Any = sys._getframe(1)
        frames = []
        while frame is not None and frame.f_code is not OTHERS_FIRST:
            if frame.f_code.co_filename == self.code_name:
                frames.append(frame)
            frame = frame.f_back
        # Not of the first one, whose line is given: CPython reads the whole table of a function to find a line.
        found.callers = tuple([caller.f_lineno for caller in frames[1:]])
        return found

    def tracks(self, line: int) -> bool:
        """Tell whether an undefined value that a line gives needs a mark: not if it was reported for this line.

        raises  Undefined   it needs one, and the function does not track undefined values
        """
        if not self.space.strict and ((self.code_name, -line) in self.space.told or line in self.later.lines):
            return False
        if not self.tracking:
            raise Undefined
        return True

    def undefined_at(self, address: int, total: int, space: str, line: int, strong: bool = False) -> None:
        """Tell the running thread that what it reads was never written, unless another thread writes it now.

        raises  Undefined   unless the function tracks undefined values
        """
        tracks = self.tracks(line)
        found = self._located(Found(LAUNCH_FAILED, ""), line)  # `reaches` finds the words: few are reported
        race = not strong and space != "local" and self.later.others_first(found, address & 0xFFFFFFFFFFFFFFFF, total)
        if tracks:
            if race:
                self.mark = Mark(self.later.races[line], True)
            else:
                self.mark = Mark(found, False, (address, total, space))

    def unwritten(self, address: int, total: int, space: str, line: int) -> None:
        """Report at once that an instruction uses memory that was never written, or raise it if the emulator is strict.

        raises  Fault   strict (719)
        """
        self.report(self._located(Found(LAUNCH_FAILED, self._words(address, total, space)), line))

    def never_written(self, function: int, register: int, line: int) -> Mark:
        """Return the mark of a register that no instruction has written; both are numbers."""
        if self.register_name is not None:
            name = self.register_name(function, register)
        else:
            name = ""
        text = f"initcheck: register {name[:80]} was never written: its content is undefined"
        return Mark(self._located(Found(LAUNCH_FAILED, text), line), False)

    def reaches(self, mark: Mark, what: str, line: int) -> None:
        """Report that something depends on an undefined value, or raise it if the emulator is strict.

        shape   what: a key of _REACHED, or an opcode
        raises  Fault   strict (719)
        """
        found = mark.found
        if not found.report:
            found.report = self._words(*mark.where)
        if " ptx line " not in found.report and line != found.line:
            found.report += f"; the value reaches {_REACHED.get(what) or f'an operand of {what!r}'} at ptx line {line}"
        found = self.later.races.get(found.line, found)
        address, total, space = mark.where
        if not total or space == "local" or self.space.strict or found is not mark.found:
            self.report(found)
        else:
            self.later.keep(found, address & 0xFFFFFFFFFFFFFFFF, total)

    def report(self, found: Found) -> None:
        """Report an undefined value, or raise it if the emulator is strict.

        raises  Fault   strict (719)
        """
        if isinstance(found, Unwritten):
            found.watch.report(found)
        elif self.space.strict:
            raise found
        else:
            self.warn_at(found)

    def track(self, found: Undefined, index: int, state: dict[str, Any]) -> Any:
        """Continue a function, in which an undefined value has arisen, in the form that tracks undefined values.

        shape   index: the number of the function; state: its variables
        """
        trace: Any = found.__traceback__
        found.__traceback__ = None
        assert self.tracked is not None
        self.marking = True
        run, starts = self.tracked(index)
        return run(self, starts.get(trace.tb_lineno, 0), state, found)

    def start(self, index: int, thread: Any, given: tuple[Any, ...], marks: Sequence[Mark | None]) -> Any:
        """Call a function with undefined arguments."""
        assert self.tracked is not None
        run, _ = self.tracked(index)
        return run(self, -1, {"T": thread}, Undefined(marks, given))

    def warn(self, text: str, frame: FrameType, *, aloud: bool = False) -> None:
        """Report a finding that does not stop the kernel, once for each place in the code; `aloud`: also on stderr."""
        if self.has_warned(frame):
            return
        self._warned.add((id(frame.f_code), frame.f_lasti))
        if _place(frame) not in self.space.told and self.say is not None:
            self.space.told.add(_place(frame))
            self._tell(self.say(text, frame), aloud)

    def has_warned(self, frame: FrameType) -> bool:
        """Tell whether `warn` was called for an instruction.

        This does not ask for f_lineno, which takes time in proportion to the code before the instruction.
        """
        return (id(frame.f_code), frame.f_lasti) in self._warned

    def _tell(self, report: str, aloud: bool) -> None:
        self.space.warnings.append(report)
        if aloud:
            say(report)

    def warn_at(self, found: Found) -> None:
        """Report a finding that knows its own place, as `warn` does, also on stderr."""
        key = (self.code_name, -found.line)
        if key not in self.space.told and self.say is not None:
            self.space.told.add(key)
            self._tell(self.say(found.report, found), True)

    def index_of(self, t: int) -> tuple[int, int, int]:
        """Return the index of a thread in its block."""
        return t % self.nx, t // self.nx % self.ny, t // self.nx // self.ny

    def index_of_block(self, number: int) -> tuple[int, int, int]:
        """Return the index of a block in the grid."""
        return number % self.gx, number // self.gx % self.gy, number // self.gx // self.gy

    def parameter(self, offset: int, code: str) -> Any:
        """Read a kernel parameter.

        raises  Fault   past the parameters (700), misaligned (716)
        """
        width = WIDTH[code]
        if offset % width:
            raise Fault(MISALIGNED_ADDRESS, f"parameter offset {offset} is not a multiple of {width}")
        if offset < 0 or offset + width > len(self.parameters):
            raise Fault(
                ILLEGAL_ADDRESS, f"parameter offset {offset}: there are {len(self.parameters)} bytes of parameters"
            )
        return unpack_from("<" + code, self.parameters, offset)[0]

    def texture(self, handle: int) -> Sampler:
        """Return the texture of a handle."""
        return open_texture(self, handle)

    def surface(self, handle: int) -> Pixels:
        """Return the surface of a handle."""
        return open_surface(self, handle)

    def in_space(self, space: str, address: int) -> bool:
        """Tell whether a generic address is in a state space (isspacep)."""
        if space == "shared":  # of this block; that of the others is in the same window, above it
            if self.block is not None:
                rank = self.block.cluster_rank + 1
            else:
                rank = 0
            return 0 <= address - SHARED_WINDOW < 1 << 40 and address - SHARED_WINDOW >> CLUSTER_BITS in (0, rank)
        found = {"cluster": SHARED_WINDOW, "local": LOCAL_WINDOW, "param": PARAMETER_WINDOW}.get(space)
        if found is not None:
            return 0 <= address - found < 1 << 40
        held = self.space.find(address)
        constant = held is not None and held.constant
        if space == "const":
            return constant
        return not constant and not 0 <= address - SHARED_WINDOW < 4 << 40

    # -- output, time and special registers

    def print(self, text: bytes) -> None:
        """Buffer output until the launch ends; if the buffer is full, the oldest output is lost, except this text."""
        if text:
            self.output.append(text)
            self.printed += len(text)
            self.kept += len(text)
            while self.kept > self.output_size and len(self.output) > 1:
                self.kept -= len(self.output.popleft())

    def clock(self) -> int:
        """Return a number of clock cycles."""
        return (time.perf_counter_ns() - self._started) & 0xFFFFFFFFFFFFFFFF

    def nanoseconds(self) -> int:
        """Return the time of day in nanoseconds."""
        return time.time_ns() & 0xFFFFFFFFFFFFFFFF

    def workspace(self) -> int:
        """Return the memory in which the blocks of a cooperative launch synchronize; 0 in other launches."""
        if not self.cooperative:
            self._refused = True
            return 0
        if not self._workspace:
            made = self.space.allocate(64, kind="variable", label="cooperative launch", poison=False)
            self._workspace = made.base
            made.data[0:4] = (64).to_bytes(4, "little")
        return self._workspace

    def trap(self) -> None:
        """Stop the kernel.

        raises  Fault   always (719)
        """
        text = "the kernel executed a trap instruction"
        if self._refused:
            text += (
                ", as this_grid().sync() of cooperative groups does in a launch that is not cooperative: launch the "
                "kernel with cooperative=True"
            )
        raise Fault(LAUNCH_FAILED, text)

    def close(self) -> None:
        """Free the memory that the launch itself allocated, and break the cycles of references to the launch."""
        if self._workspace:
            self.space.free(self._workspace)
            self._workspace = 0
        self.block = self.say = None
        self.fuel = iter(())

    # -- the watchdog

    def look_at_clock(self) -> None:
        """End a kernel that has run for longer than the emulator's time limit.

        raises  Fault   the time is over (702)
        """
        limit = self.space.timeout
        if limit and time.perf_counter_ns() - self._started > limit * 1e9:
            raise Fault(LAUNCH_TIMEOUT, f"the kernel has run for more than {limit:g} seconds (timeout={limit:g})")

    def _refill(self) -> Iterator[Iterator[None]]:
        """Yield loop iterations in portions, and check between the portions whether one thread has used too many.

        Portions grow while they take little time, and shrink when they take much: single instructions can be slow.
        Every loop of the generated code takes its iterations from one iterator, which adds no cost to an iteration.
        Straight-line code and a device function that calls others take one now and then, too: see translate.py. Each
        warp looks at the clock when it begins to run.
        """
        last: object = None
        here: Block | None = None
        turns = total = 0
        portion, started = _FIRST_REFILL, time.perf_counter_ns()
        while True:
            block = self.block
            if block is not None:
                current = (block, block.running, block.switches)
            else:
                current = None
            if current == last:
                turns = turns + portion
            else:
                turns = 0
            total = total + portion if block is here else 0  # of all threads of the block: they may alternate
            last, here = current, block
            if turns > self.limits.turns or total > self.limits.turns * self.threads:
                text = f"more than {self.limits.turns} loop iterations or calls: this thread does not end"
                raise Fault(LAUNCH_TIMEOUT, text)
            self.look_at_clock()
            if time.perf_counter_ns() - started > _SLOW_REFILL:
                portion = max(portion // 8, 1)
            else:
                portion = min(portion * 2, _MOST_REFILL)
            if self.after_refill is not None:
                self.after_refill()
            started = time.perf_counter_ns()
            yield repeat(None, portion)


class Block:
    """A block of threads: its place in the grid and its shared memory."""

    cluster_place, cluster_rank = (0, 0, 0), 0
    running: int | None = None  # the thread that runs
    present: bool | None = None  # whether the block runs; None before it has started
    switches = 0  # how often another thread began to run, in a block whose threads can wait
    can_wait = False  # whether its threads can
    run_others: Callable[[int], None] | None = None  # runs the threads that are ready, beside the one that runs

    def __init__(self, launch: Launch, x: int, y: int, z: int) -> None:
        self.launch = launch
        self.x, self.y, self.z = x, y, z
        self.number = x + launch.gx * (y + launch.gy * z)
        self.shared = bytearray(_POISON * launch.shared_end)
        if launch.reserved_at < launch.shared_end:
            self.shared[launch.reserved_at :] = bytes(RESERVED)
        self.together: Any = None  # the Cluster of this block, once it is needed
        self.late: Any = None  # what its threads have started and not waited for
        self._watch: Watch | None = None
        self._views: dict[str, memoryview] = {}
        self.cluster = (x, y, z)
        self.local_bytes = 0  # of all threads

    def end(self) -> None:
        """Delete the references back to the block, so that it is freed without a garbage collection."""
        if self._watch is not None:
            self._watch.end()
        self._watch = self.together = self.late = self.run_others = None
        self.launch.local_bytes -= self.local_bytes
        self.local_bytes = 0

    def take_local(self, count: int) -> None:
        """Count bytes of local memory that a thread takes, or gives back.

        raises  Fault   the threads of all blocks that wait for each other have too much of it (719)
        """
        self.local_bytes += count
        self.launch.local_bytes += count
        if self.launch.local_bytes > MOST_LOCAL:
            raise Fault(
                LAUNCH_FAILED,
                f"the blocks that wait for each other have more than {MOST_LOCAL} bytes of local memory, the limit of "
                "the emulator: launch fewer blocks, or use less local memory",
            )

    @property
    def mates(self) -> Any:
        """Return the cluster of this block: one of its own, unless the launch has larger ones."""
        if self.together is None:
            self.together = Cluster([self])
        return self.together

    def watch(self, granule: int) -> Watch:
        """Return the history of the shared memory, created on first use."""
        if self._watch is None:
            self._watch = Watch(self, granule)
        return self._watch

    def order(self, members: list[int] | None = None, barrier: int = -1, some: bool = True) -> None:
        """Record that the block's threads have synchronized, or may have.

        shape   members: the threads that met, if any did; some: whether other threads still run
        """
        if self._watch is not None:
            self._watch.order()
            self._watch.notice_all()
        if members is not None and self.launch.history is not None:
            self.launch.history.meet([self], members if some else None, barrier)

    def order_warp(self, warp: int, members: list[int], some: bool) -> None:
        """Record that threads of a warp have synchronized; `some`: not all of them."""
        if self._watch is not None:
            self._watch.order_warp(warp)
        if self.launch.history is not None:
            self.launch.history.meet([self], members, warp=-1 if some else warp)

    def shared_view(self, code: str) -> memoryview:
        """Return a view of the block's shared memory as elements of one type."""
        found = self._views.get(code)
        if found is None:
            whole = len(self.shared) // WIDTH[code] * WIDTH[code]
            found = self._views[code] = elements(memoryview(self.shared)[:whole], code)
        return found


def _place(frame: FrameType) -> tuple[str, int]:
    return frame.f_code.co_filename, frame.f_lineno
