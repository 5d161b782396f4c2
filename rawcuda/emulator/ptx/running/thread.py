"""The part of a thread that is not in registers: its local memory, its calls, and generic addresses.

Read next    called.py, builtins.py
"""

from __future__ import annotations

from ...machine.codes import ILLEGAL_ADDRESS, INVALID_PC, LAUNCH_FAILED
from ...machine.space import POISON, UNSIGNED, WIDTH, Fault, elements, position
from ..checking.places import misalignment, shared_fault
from ..translating.unit import (
    CLUSTER_BITS,
    CODE_BASE,
    CODE_STEP,
    LOCAL_WINDOW,
    MOST_CALLS,
    PARAMETER_WINDOW,
    SHARED_WINDOW,
)
from . import builtins
from .lookups import LOCAL_LIMIT, Block

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from .lookups import Keep

__all__ = ["Frame", "Thread"]

LOCAL_FIRST = 64
_POISON = bytes((POISON,))


class Frame:
    """The local memory of one call of a function."""

    __slots__ = ("low", "size", "memory", "written", "more", "_views")

    def __init__(self, low: int, memory: bytearray, written: bytearray | None = None) -> None:
        self.low = low
        self.size = len(memory)
        self.memory = memory
        self.written = written  # 0 for each byte that was never written; None: not tracked
        self.more = 0  # bytes that the call has elsewhere: see enter()
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


class Thread:
    """The part of a thread that is not in registers: local memory, calls, generic addresses."""

    __slots__ = ("block", "launch", "place_in_block", "frames", "depth", "next", "more", "placed")

    def __init__(self, block: Block, t: int, tx: int, ty: int, tz: int) -> None:
        self.block = block
        self.launch = block.launch
        self.place_in_block = (t, tx, ty, tz)
        self.frames: list[Frame] = []
        self.depth = 0  # of calls that have a frame, or may call themselves
        self.next = LOCAL_FIRST
        self.more = 0  # the sum of that of the frames
        self.placed: dict[int, Frame] = {}  # those of `frames` that are no function's own, by the id of their memory

    # -- local memory

    def enter(self, size: int, alignment: int, more: int) -> Frame:
        """Create the frame of a function.

        more  the bytes of its arrays of parameters, which count as parts of the frame and have memory of their own
        raises  Fault   the stack is full (719)
        """
        self.depth += 1
        if self.depth > MOST_CALLS:
            self.overflow()
        written = bytearray(size) if self.launch.space.watch else None
        return self._push(alignment, bytearray(_POISON * size), written, more)

    def _push(self, alignment: int, memory: bytearray, written: bytearray | None, more: int = 0) -> Frame:
        low, size = self.next + alignment - 1 & -alignment, len(memory)
        if low + size + self.more + more > LOCAL_LIMIT:
            raise Fault(LAUNCH_FAILED, f"stack overflow: more than {LOCAL_LIMIT} bytes of local memory in one thread")
        self.block.take_local(size + more)
        made = Frame(low, memory, written)
        made.more, self.more = more, self.more + more
        self.frames.append(made)
        self.next = low + size + 32
        return made

    def leave(self) -> None:
        """Remove the frame of the newest function, and the parameters that were placed behind it."""
        self.depth -= 1
        while True:
            gone = self.frames.pop()
            self.next, self.more = gone.low, self.more - gone.more
            self.block.take_local(-gone.size - gone.more)
            if self.placed.pop(id(gone.memory), None) is None:
                return

    def overflow(self) -> None:
        """Report that too many calls are nested.

        raises  Fault   always (719)
        """
        raise Fault(LAUNCH_FAILED, f"stack overflow: more than {MOST_CALLS} calls of device functions are nested")

    def place(self, memory: bytearray) -> int:
        """Return the address in local memory of a parameter or a result of the newest function: see `leave`.

        raises  Fault   the stack is full (719)
        """
        found = self.placed.get(id(memory))
        if found is None:
            found = self.placed[id(memory)] = self._push(64, memory, None)
        return found.low

    def local(self, address: int, code: str, total: int) -> tuple[memoryview, int]:
        """Return the memory of a local access: the view of a frame, and the byte offset in it.

        raises  Fault   misaligned (716), or outside every frame (700)
        """
        address &= 0xFFFFFFFF
        if address % total:
            raise misalignment("local address", address, total, self._whereabouts(address, total))
        for frame in reversed(self.frames):
            if 0 <= address - frame.low <= frame.size - total:
                self.launch.marked = frame.marks(code)
                return frame.view(code), address - frame.low
        raise Fault(ILLEGAL_ADDRESS, f"local address {address:#x}: {self._whereabouts(address, total)}")

    def _whereabouts(self, address: int, nbytes: int) -> str:
        """Return the words for a place in local memory, or next to the nearest frame."""
        if not self.frames:
            return "this thread has no local memory"
        distances = [(max(each.low - address, address - each.low - each.size + 1, 0), each) for each in self.frames]
        _, frame = min(distances, key=lambda each: each[0])
        if id(frame.memory) in self.placed:
            kind = "parameters"
        else:
            kind = "variables"
        return position(address - frame.low, nbytes, frame.size, f"a function's {frame.size} bytes of {kind}")

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
        if 0 <= place < 3 << 40 and not place & 0xFF << 32:  # each space has 32 bits
            if place < 1 << 40:
                return self._shared(place, code, total)
            if place < 2 << 40:
                view, at = self.local(address - LOCAL_WINDOW, code, total)
                return view, at, None
            return self._parameters(address - PARAMETER_WINDOW, code, total)
        keep = self.launch.reach(base, offset, code, total)
        return keep[0], base - keep[1], keep

    def _shared(self, place: int, code: str, total: int) -> tuple[memoryview, int, None]:
        if place >> CLUSTER_BITS:
            return (*self.block.mates.reach(self.block, place, code, total), None)
        if place % total or not self.launch.in_shared(place, total):
            raise shared_fault(self.launch, place, total, total)
        return self.block.shared_view(code), place, None

    def _parameters(self, place: int, code: str, total: int) -> tuple[memoryview, int, None]:
        size = len(self.launch.parameters)
        if place % total or place + total > size:
            where = position(place, total, size, f"the kernel's {size} bytes of parameters")
            if place % total:
                raise misalignment("parameter address", place, total, where)
            raise Fault(ILLEGAL_ADDRESS, f"parameter address {place:#x}: {where}")
        whole = size // WIDTH[code] * WIDTH[code]
        return elements(memoryview(self.launch.parameters)[:whole], code), place, None

    # -- calls

    def callee(self, address: int, prototype: int) -> Callable[..., Any]:
        """Return the function at an address; `prototype`: the number of the signature that the call expects.

        raises  Fault   no function, or one with other parameters or results (718)
        """
        index, rest = divmod(address - CODE_BASE, CODE_STEP)
        if not rest:
            found = self.launch.functions.get(index)
        else:
            found = None
        if found is None:
            raise Fault(INVALID_PC, f"call of address {address:#x}, which is not the address of a function")
        signature, numbers = self.launch.signatures[index], self.launch.prototypes
        if numbers.get(signature) != prototype:
            expected = next(each for each, number in numbers.items() if number == prototype)
            raise Fault(INVALID_PC, f"call of a function {signature} as {expected}")
        return found

    def vprintf(self, text: int, arguments: int) -> int:
        """Format and buffer output of the kernel."""
        return builtins.vprintf(self, text, arguments)

    def assertfail(self, message: int, file: int, line: int, function: int, size: int) -> None:
        """Report a failed assertion.

        raises  Fault   always (710)
        """
        builtins.assertfail(self, message, file, line, function)

    def malloc(self, size: int) -> int:
        """Allocate from the context's heap; return 0 if the size is 0 or does not fit."""
        return builtins.malloc(self, size)

    def free(self, address: int) -> None:
        """Free memory of the context's heap."""
        builtins.free(self, address)

    def cudaGraphSetConditional(self, handle: int, value: int) -> None:
        """Set a condition of a graph."""
        builtins.set_conditional(self, handle, value)
