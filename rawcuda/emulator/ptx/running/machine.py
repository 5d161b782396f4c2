"""The objects behind generated code: launch, block, thread, local frames, and the look-ups of memory accesses.

The generated code calls these functions only if its own cache of the last allocation does not contain the address, so
they can check everything. An error is a `Fault`; report.py adds kernel, line, block and thread to it.

Read next    scheduler.py, which runs the threads of a block; ../translating/emitting/access.py, whose code calls this
             module
"""

from __future__ import annotations

import sys
import time
from itertools import chain, repeat
from struct import unpack_from

from ...space import POISON, UNSIGNED, WIDTH, Allocation, Fault, Space, elements
from ..translating.unit import CLUSTER_BITS, CODE_BASE, CODE_STEP, LOCAL_WINDOW, PARAMETER_WINDOW, SHARED_WINDOW
from .races import Watch
from .sampling import Pixels, Sampler, open_surface, open_texture

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType
    from typing import Any, Callable

    from ..checking.history import Found, History

    Keep = tuple[memoryview, int, int]

__all__ = ["Block", "Exited", "Frame", "Launch", "Limits", "Thread"]

ILLEGAL_ADDRESS = 700  # CUDA_ERROR_ILLEGAL_ADDRESS
LAUNCH_TIMEOUT = 702  # CUDA_ERROR_LAUNCH_TIMEOUT
ASSERT = 710  # CUDA_ERROR_ASSERT
ILLEGAL_INSTRUCTION = 715  # CUDA_ERROR_ILLEGAL_INSTRUCTION
MISALIGNED_ADDRESS = 716  # CUDA_ERROR_MISALIGNED_ADDRESS
INVALID_PC = 718  # CUDA_ERROR_INVALID_PC
LAUNCH_FAILED = 719  # CUDA_ERROR_LAUNCH_FAILED

LOCAL_LIMIT = 512 << 10  # bytes of local memory of a thread, as on every GPU
LOCAL_FIRST = 64
MOST_CALLS = 1000  # of device functions inside one another; each is a call of Python, and needs its stack
REFILL = 1 << 14


class Exited(Exception):
    """The end of a thread inside a device function."""


class Limits:
    """The limits beyond which a thread is considered endless.

    units   turns: iterations of loops in one thread; rounds: passes over a block in which every thread only waits for
            others; seconds: the time that these passes must take as well
    """

    __slots__ = ("turns", "rounds", "seconds")

    def __init__(self, turns: int = 100_000_000, rounds: int = 10_000, seconds: float = 3.0) -> None:
        self.turns = turns
        self.rounds = rounds
        self.seconds = seconds


class Frame:
    """The local memory of one call of a function."""

    __slots__ = ("low", "size", "memory", "written", "_views")

    def __init__(self, low: int, memory: bytearray, written: bytearray | None = None) -> None:
        self.low = low
        self.size = len(memory)
        self.memory = memory
        self.written = written  # 0 for each byte that was never written; None: not tracked
        self._views: dict[str, memoryview] = {}

    def view(self, code: str) -> memoryview:
        """Return a view of the frame as elements of one type."""
        found = self._views.get(code)
        if found is None:
            whole = self.size // WIDTH[code] * WIDTH[code]
            found = self._views[code] = elements(memoryview(self.memory)[:whole], code)
        return found

    def marks(self, code: str) -> memoryview | None:
        """Return a view whose elements are 0 where the elements of `view` were never written."""
        if self.written is None:
            return None
        width = WIDTH[code]
        return elements(memoryview(self.written)[: self.size // width * width], UNSIGNED[width])


class Quiet:
    """The delays of a launch in which no store is delayed: the functions do nothing."""

    store = touch = flush = resume = suspend = end = staticmethod(lambda *_: None)


class Launch:
    """One run of a kernel over a grid."""

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
        self.shared_at: list[int] = []
        self.space = space
        self.limits = limits
        self.functions: dict[int, Callable[..., Any]] = {}
        self.arity: dict[int, int] = {}
        self.number = 1
        self.offsets: list[int] = []  # of the parameters
        self.site = ""  # the line of the program that launched the kernel
        self.cluster, self.clusters, self.cluster_size = (1, 1, 1), grid, 1
        self.explicit_cluster = False  # whether the launch or the kernel names a size
        self.output: list[str] = []
        self.block: Block | None = None
        self.after_refill: Callable[[], None] | None = None
        self.rights: Callable[[Allocation], int] | None = None  # the access of the device: 0, 1 to read, 3; None: 3
        self.opaque: Callable[[int], Any] | None = None  # the texture or surface of a handle, or None
        self.opened: dict[int, Any] = {}  # those that the kernel has used, by handle
        self.marked: memoryview | None = None  # which elements were written in the memory that `reach` found last
        self._met: set[int] = set()
        self.code_name = ""  # the file name of the generated code
        self.say: Callable[[str, FrameType | Found], str] | None = None  # returns the report of a finding
        self.history: History | None = None  # of all accesses, if the race checker was asked for
        self.delays: Any = Quiet  # of stores that other blocks see late
        self._started = time.perf_counter_ns()
        self._workspace = 0
        self.fuel: Iterator[None] = chain.from_iterable(self._refill())

    # -- memory

    def reach(self, base: int, offset: int, code: str, total: int) -> Keep:
        """Return the memory of an access: the view, the base address of element 0, and the limit of the offset.

        raises  Fault   misaligned (716), or not inside an allocation (700)
        """
        address = base + offset & 0xFFFFFFFFFFFFFFFF
        if address % total:
            raise Fault(MISALIGNED_ADDRESS, f"address {address:#x} is not a multiple of {total}")
        found = self.space.find(address)
        if found is None or address + total > found.base + found.size:
            raise Fault(ILLEGAL_ADDRESS, self._whereabouts(address, total))
        rights = 3 if self.rights is None else self.rights(found)
        if not rights:
            raise Fault(ILLEGAL_ADDRESS, self.space.refuse(found, address, total))
        if found.written is not None and found.base not in self._met:
            self._met.add(found.base)
            found.settle()
        self.marked = found.marks(code, total)
        view, low, length = found.typed(code, total, rights == 3)
        return view, low - offset - (base + offset - address), length - total + 1

    def unwritten(self, base: int, offset: int, total: int, space: str) -> None:
        """Report a read of uninitialized memory, or raise it if the emulator is strict.

        raises  Fault   strict (719)
        """
        frame = sys._getframe(1)
        if not self.space.strict and _place(frame) in self.space.told:
            return
        address = base + offset & 0xFFFFFFFFFFFFFFFF
        if space == "local" or 0 <= address - LOCAL_WINDOW < 1 << 40:
            text = f"local address {address & 0xFFFFFFFF:#x} was never written: its content is undefined"
        else:
            text = f"{self.space.explain(address, total)}, and never written"
        if self.space.strict:
            raise Fault(LAUNCH_FAILED, text)
        self.warn(text, frame, aloud=True)

    def warn(self, text: str, frame: FrameType, *, aloud: bool = False) -> None:
        """Report a finding that does not stop the kernel, once for each place in the code; `aloud`: also on stderr."""
        if _place(frame) not in self.space.told and self.say is not None:
            self.space.told.add(_place(frame))
            self._tell(self.say(text, frame), aloud)

    def _tell(self, report: str, aloud: bool) -> None:
        self.space.warnings.append(report)
        del self.space.warnings[:-1000]
        if aloud and sys.stderr is not None:
            try:
                sys.stderr.write(f"emulator: {report}\n")
            except (OSError, ValueError):  # stderr is full or closed
                pass

    def warn_at(self, found: Found) -> None:
        """Report a finding whose place is in itself, as `warn` does, also on stderr."""
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

    def _whereabouts(self, address: int, total: int) -> str:
        for window, name in ((SHARED_WINDOW, "shared"), (LOCAL_WINDOW, "local"), (PARAMETER_WINDOW, "parameter")):
            if 0 <= address - window < 1 << 40:
                return f"address {address:#x}: a generic address of {name} memory, used as a global one"
        return self.space.explain(address, total)

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
            rank = self.block.cluster_rank + 1 if self.block is not None else 0
            return 0 <= address - SHARED_WINDOW < 1 << 40 and address - SHARED_WINDOW >> CLUSTER_BITS in (0, rank)
        found = {"cluster": SHARED_WINDOW, "local": LOCAL_WINDOW, "param": PARAMETER_WINDOW}.get(space)
        if found is not None:
            return 0 <= address - found < 1 << 40
        held = self.space.find(address)
        constant = held is not None and held.label.startswith(".const ")
        if space == "const":
            return constant
        return not constant and not 0 <= address - SHARED_WINDOW < 4 << 40

    # -- time and special registers

    def clock(self) -> int:
        """Return a number of clock cycles."""
        return (time.perf_counter_ns() - self._started) & 0xFFFFFFFFFFFFFFFF

    def nanoseconds(self) -> int:
        """Return the time of day in nanoseconds."""
        return time.time_ns() & 0xFFFFFFFFFFFFFFFF

    def workspace(self) -> int:
        """Return the memory in which the blocks of a cooperative launch synchronize."""
        if not self._workspace:
            made = self.space.allocate(64, kind="variable", label="cooperative launch", poison=False)
            self._workspace = made.base
            made.data[0:4] = (64).to_bytes(4, "little")
        return self._workspace

    def close(self) -> None:
        """Free the memory that the launch itself allocated."""
        if self._workspace:
            self.space.free(self._workspace)
            self._workspace = 0

    # -- the watchdog

    def look_at_clock(self) -> None:
        """End a kernel that has run for longer than the emulator's time limit.

        raises  Fault   it has (702)
        """
        limit = self.space.timeout
        if limit and time.perf_counter_ns() - self._started > limit * 1e9:
            raise Fault(LAUNCH_TIMEOUT, f"the kernel has run for more than {limit:g} seconds, the limit that was set")

    def _refill(self) -> Iterator[Iterator[None]]:
        """Yield iterations of loops in portions, and check between them whether one thread has used too many.

        Every loop of the generated code takes its iterations from one iterator, which adds no cost to an iteration.
        """
        last: object = None
        here: Block | None = None
        turns = total = 0
        while True:
            block = self.block
            current = (block, block.running, block.switches) if block is not None else None
            turns = turns + REFILL if current == last else 0
            total = total + REFILL if block is here else 0  # of all threads of the block, which may take turns
            last, here = current, block
            if turns > self.limits.turns or total > self.limits.turns * self.threads:
                raise Fault(LAUNCH_TIMEOUT, f"more than {self.limits.turns} loop iterations: this thread does not end")
            self.look_at_clock()
            if self.after_refill is not None:
                self.after_refill()
            yield repeat(None, REFILL)


class Block:
    """A block of threads: its place in the grid and its shared memory."""

    __slots__ = (
        "launch", "x", "y", "z", "number", "shared", "running", "_views", "_watch", "cluster", "cluster_place",
        "cluster_rank", "mates", "present", "late", "switches",
    )  # fmt: skip

    def __init__(self, launch: Launch, x: int, y: int, z: int) -> None:
        self.launch = launch
        self.x, self.y, self.z = x, y, z
        self.number = x + launch.gx * (y + launch.gy * z)
        self.shared = bytearray([POISON]) * launch.shared_bytes
        self.running: int | None = None  # the thread that runs
        self._watch: Watch | None = None
        self._views: dict[str, memoryview] = {}
        self.cluster = (x, y, z)
        self.cluster_place, self.cluster_rank = (0, 0, 0), 0
        self.mates: Any = None  # the Cluster of this block
        self.present: bool | None = None  # whether it runs: None before it has started
        self.switches = 0  # how often another thread began to run, in a block whose threads can wait
        self.late: Any = None  # what its threads have started and not waited for

    def watch(self, granule: int) -> Watch:
        """Return the history of the shared memory, created on first use."""
        if self._watch is None:
            self._watch = Watch(self, granule)
        return self._watch

    def order(self, members: list[int] | None = None, barrier: int = -1, some: bool = True) -> None:
        """Record that the block's threads have synchronized, or may have.

        shape   members: those that met, if any did; some: whether others have not ended
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


class Thread:
    """The part of a thread that is not in registers: local memory, calls, generic addresses."""

    __slots__ = ("block", "launch", "place_in_block", "frames", "next", "placed")

    def __init__(self, block: Block, t: int, tx: int, ty: int, tz: int) -> None:
        self.block = block
        self.launch = block.launch
        self.place_in_block = (t, tx, ty, tz)
        self.frames: list[Frame] = []
        self.next = LOCAL_FIRST
        self.placed: dict[int, Frame] = {}

    # -- local memory

    def enter(self, size: int, alignment: int) -> Frame:
        """Create the frame of a function.

        raises  Fault   the stack is full (719)
        """
        if len(self.frames) >= MOST_CALLS:
            raise Fault(LAUNCH_FAILED, f"stack overflow: more than {MOST_CALLS} calls of device functions are nested")
        low = self.next + alignment - 1 & -alignment
        if low + size > LOCAL_LIMIT:
            raise Fault(LAUNCH_FAILED, f"stack overflow: more than {LOCAL_LIMIT} bytes of local memory in one thread")
        made = Frame(low, bytearray([POISON]) * size, bytearray(size) if self.launch.space.watch else None)
        self.frames.append(made)
        self.next = low + size + 32
        return made

    def leave(self) -> None:
        """Remove the newest frame."""
        gone = self.frames.pop()
        self.next = gone.low

    def place(self, memory: bytearray) -> int:
        """Return an address in local memory for a parameter that is a bytearray."""
        found = self.placed.get(id(memory))
        if found is None or found.memory is not memory:
            low = self.next + 63 & ~63
            found = self.placed[id(memory)] = Frame(low, memory)
            self.next = low + found.size + 32
        return found.low

    def local(self, address: int, code: str, total: int) -> tuple[memoryview, int]:
        """Return the memory of a local access: the view of a frame, and the byte offset in it.

        raises  Fault   misaligned (716), or outside every frame (700)
        """
        address &= 0xFFFFFFFF
        if address % total:
            raise Fault(MISALIGNED_ADDRESS, f"local address {address:#x} is not a multiple of {total}")
        for frame in [*reversed(self.frames), *self.placed.values()]:
            if 0 <= address - frame.low <= frame.size - total:
                self.launch.marked = frame.marks(code)
                return frame.view(code), address - frame.low
        if self.frames:
            frame = min(self.frames, key=lambda each: abs(address - each.low))
            over = address + total - frame.low - frame.size
            side = f"{over} bytes past the end of" if over > 0 else f"{frame.low - address} bytes before"
            raise Fault(
                ILLEGAL_ADDRESS, f"local address {address:#x}: {side} a function's {frame.size} bytes of variables"
            )
        raise Fault(ILLEGAL_ADDRESS, f"local address {address:#x}: this thread has no local memory there")

    def parameter(self, address: int, code: str) -> Any:
        """Read a device function's parameter through its address."""
        view, offset = self.local(address, code, WIDTH[code])
        return view[offset // WIDTH[code]]

    # -- generic addresses

    def reach(self, base: int, offset: int, code: str, total: int) -> tuple[memoryview, int, Keep | None]:
        """Return the memory of a generic access: view, byte offset, and for global memory what the code may cache.

        raises  Fault   misaligned (716), or nothing there (700)
        """
        address = base + offset & 0xFFFFFFFFFFFFFFFF
        place = address - SHARED_WINDOW
        self.launch.marked = None
        if 0 <= place < 3 << 40:
            if place < 1 << 40:
                return self._shared(address, place, code, total)
            if place < 2 << 40:
                view, at = self.local(address - LOCAL_WINDOW, code, total)
                return view, at, None
            return self._parameters(address - PARAMETER_WINDOW, code, total)
        keep = self.launch.reach(base, offset, code, total)
        return keep[0], base - keep[1], keep

    def _shared(self, address: int, place: int, code: str, total: int) -> tuple[memoryview, int, None]:
        if place >> CLUSTER_BITS:
            return (*self.block.mates.reach(self.block, place, code, total), None)
        if place % total:
            raise Fault(MISALIGNED_ADDRESS, f"address {address:#x} is not a multiple of {total}")
        size = len(self.block.shared)
        if place + total > size:
            raise Fault(
                ILLEGAL_ADDRESS,
                f"address {address:#x}: {place + total - size} bytes past the end of {size} bytes of shared memory",
            )
        return self.block.shared_view(code), place, None

    def _parameters(self, place: int, code: str, total: int) -> tuple[memoryview, int, None]:
        size = len(self.launch.parameters)
        if place % total:
            raise Fault(MISALIGNED_ADDRESS, f"parameter address {place:#x} is not a multiple of {total}")
        if place + total > size:
            raise Fault(ILLEGAL_ADDRESS, f"parameter address {place:#x}: there are {size} bytes of parameters")
        whole = size // WIDTH[code] * WIDTH[code]
        return elements(memoryview(self.launch.parameters)[:whole], code), place, None

    # -- calls

    def callee(self, address: int, count: int) -> Callable[..., Any]:
        """Return the function at an address.

        raises  Fault   no function, or one with another number of parameters (718)
        """
        index, rest = divmod(address - CODE_BASE, CODE_STEP)
        found = self.launch.functions.get(index) if not rest else None
        if found is None:
            raise Fault(INVALID_PC, f"call of address {address:#x}, which is not the address of a function")
        if self.launch.arity[index] != count:
            raise Fault(INVALID_PC, f"call of a function of {self.launch.arity[index]} parameters with {count}")
        return found

    def vprintf(self, text: int, arguments: int) -> int:
        """Format and buffer output of the kernel."""
        from .builtins import vprintf

        return vprintf(self, text, arguments)

    def assertfail(self, message: int, file: int, line: int, function: int, size: int) -> None:
        """Report a failed assertion.

        raises  Fault   always (710)
        """
        from .builtins import assertfail

        assertfail(self, message, file, line, function)

    def malloc(self, size: int) -> int:
        """Allocate from the device heap; return 0 if that is impossible."""
        from .builtins import malloc

        return malloc(self, size)

    def free(self, address: int) -> None:
        """Free device heap memory."""
        from .builtins import free

        free(self, address)

    def cudaGraphSetConditional(self, handle: int, value: int) -> None:
        """Set a condition of a graph."""
        from .builtins import set_conditional

        set_conditional(self, handle, value)


def _place(frame: FrameType) -> tuple[str, int]:
    return frame.f_code.co_filename, frame.f_lineno
