"""The emulated address space: every allocation, found by address and checked to the byte.

What it is   Allocation and Space. A device address is never a host address: device memory starts at 2**49, which no
             x86-64 or arm64 process maps. A host that dereferences a device pointer crashes, as it would with a GPU,
             and a kernel that gets a host pointer is refused. As in CUDA, pinned and managed memory has the same
             address on the host.
How          Three rules make mistakes visible early. A device address is never reused, and neighbours are a gigabyte
             apart, so an access outside an allocation is noticed, and a freed address is recognized. A base has the
             requested alignment and no more, so code that relies on page alignment fails. New memory of up to
             POISONED_UP_TO bytes is filled with POISON, an unlikely number in every type, so a missing initialization
             is noticed.
What not     a memory model: each store is visible at once. In the random mode, ptx/checking/delays.py delays stores.
Read next    ptx/running/lookups.py, which reads and writes memory;
             ptx/translating/emitting/access.py, which generates code for it
"""

from __future__ import annotations

import ctypes
import mmap
import random
import sys
import threading
from bisect import bisect_right, insort
from collections import deque
from copy import copy
from itertools import count

from ...errors import shown
from .codes import INVALID_VALUE, OUT_OF_MEMORY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

__all__ = [
    "Allocation", "FIRST_ADDRESS", "Fault", "NULL", "POISON", "Space", "UNSIGNED", "WIDTH", "elements", "new_memory",
    "position", "say",
]  # fmt: skip

# 0xFB: float32 -2.6e36, float64 -3e288, half -65376, int32 -67372037. Zero and -1 look like valid data, and min and max
# ignore a NaN.
POISON = 0xFB
POISONED_UP_TO = 64 << 20  # filling a larger allocation would touch all of its pages, so it keeps the system's zeros
_ZEROS_FROM = 1 << 20  # variables from this size on are pages of zeros, which the system makes when they are used

FIRST_ADDRESS = 1 << 49
# Where the addresses for calls inside of a call begin, and how many each depth has; a GPU addresses 1 << 57 at most.
_INSIDE, _REGION = 7 << 54, 1 << 48
GAP = 1 << 30
# How many freed host buffers, and how many bytes of them, stay mapped, so that a late read does not crash
QUARANTINE, QUARANTINED = 32, 64 << 20
_MOST_RESERVED = 1 << 47
_NULL_PAGES = 1 << 20  # reports say that an address nearer to 0 than this is a null pointer with an offset
NULL = "a null pointer"
GRAVES = 4096  # how many freed allocations are remembered for reports


# the size in bytes of each format of the struct module
WIDTH = {"B": 1, "b": 1, "H": 2, "h": 2, "I": 4, "i": 4, "f": 4, "Q": 8, "q": 8, "d": 8}

UNSIGNED = {1: "B", 2: "H", 4: "I", 8: "Q"}


def elements(memory: memoryview, code: str) -> memoryview:
    """Return a view of bytes as elements of one type."""
    cast: Any = memory.cast
    view: memoryview = cast(code) if len(memory) else memoryview(bytearray())
    return view


def say(report: str) -> None:
    """Write a report to stderr, or do nothing if that is not possible."""
    if sys.stderr is not None:
        try:
            sys.stderr.write(shown(f"emulator: {report}\n"))
        except Exception:  # stderr is full, closed, or an object of the user that fails; the error has the report, too
            pass


def position(start: int, nbytes: int, size: int, whole: str) -> str:
    """Return the words that describe the place of an access in a piece of memory, or next to it.

    shape   start: where the access begins, in bytes from the start of the memory; negative before it; nbytes: the size
            of the access; size: the size of the memory, in bytes; whole: the words that describe the memory
    """
    if start < 0:
        return f"{-start} bytes before the start of {whole}"
    if start >= size:
        return f"{start - size} bytes past the end of {whole}"
    if start + nbytes > size:
        return f"the last {start + nbytes - size} of {nbytes} bytes lie past the end of {whole}"
    return f"{start} bytes into {whole}"


def _made(allocation: Allocation) -> str:
    if allocation.origin:
        return f", allocated at {allocation.origin}"
    return ""


def _place(allocation: Allocation) -> str:
    return f"{allocation.describe()} at {allocation.base:#x}{_made(allocation)}"


class Fault(Exception):
    """An error inside the emulated device: a CUresult and a report for the user.

    shape   code: the CUresult; report: one or more lines of text
    """

    def __init__(self, code: int, report: str) -> None:
        super().__init__(code, report)
        self.code = code
        self.report = report

    def __str__(self) -> str:
        return self.report


def new_memory(size: int, what: str, poison: bool = True) -> memoryview:
    """Return the bytes of new memory; `what` is for the report of an error.

    raises  Fault   not enough memory (2)
    """
    try:
        if size > (POISONED_UP_TO if poison else _ZEROS_FROM):
            return memoryview(mmap.mmap(-1, size))
        return memoryview(bytearray([POISON if poison else 0]) * size)
    except (MemoryError, OverflowError, OSError, ValueError) as reason:
        raise Fault(OUT_OF_MEMORY, f"{what} of {size} bytes: {reason}") from None


class Allocation:
    """An allocation: its address, its content, and whether it is still allocated."""

    __slots__ = (
        "base",
        "size",
        "kind",
        "data",
        "alive",
        "label",
        "constant",
        "context",
        "origin",
        "written",
        "_views",
        "_keep",
    )

    def __init__(self, base: int, size: int, kind: str, data: memoryview, label: str, keep: object) -> None:
        self.base = base
        self.size = size
        self.kind = kind
        self.data = data
        self.alive = True
        self.label = label
        self.constant = False  # whether it is constant memory, which kernels may only read
        self.context: Any = None  # for the owner of the allocation; the space itself does not use it
        self.origin = ""  # the line of the program that requested it
        self.written: bytearray | None = None  # 0 for each byte that was never written; None: not tracked
        # (of a mapping of virtual memory: all marks of the memory, which may be larger)
        self._views: dict[str, tuple[memoryview, int, int]] = {}
        self._keep = keep

    def __repr__(self) -> str:
        return f"<{self.describe()} at {self.base:#x}>"

    def describe(self) -> str:
        """Return the words that describe this allocation in a report."""
        if self.label:
            label = f" {self.label!r}"
        else:
            label = ""
        if self.kind == "virtual":
            return f"{self.size}-byte mapping of virtual memory{label}"
        return f"{self.size}-byte {self.kind} allocation{label}"

    def typed(self, code: str, granule: int = 0, writable: bool = True) -> tuple[memoryview, int, int]:
        """Return the memory as elements of one type: the view, the address of its element 0, its length in bytes.

        Element 0 is at the first address that is a multiple of granule (the width of an element or a vector). In
        registered host memory this may be past the base.
        """
        width = WIDTH[code]
        if writable:
            key = f"{code}{granule}"
        else:
            key = f"{code}{granule} read-only"
        found = self._views.get(key)
        if found is None:
            skipped = -self.base % (granule or width)
            length = max(0, (self.size - skipped) // width * width)
            view = elements(self.data[skipped : skipped + length], code)
            if not writable:
                view = view.toreadonly()
            found = self._views[key] = (view, self.base + skipped, length)
        return found

    def marks(self, code: str, granule: int = 0) -> memoryview | None:
        """Return a view whose elements are 0 where the elements of `typed` were never written, or None if all were."""
        written = self.written
        if written is None:
            return None
        skipped = -self.base % (granule or WIDTH[code])
        length = max(0, (self.size - skipped) // WIDTH[code] * WIDTH[code])
        return elements(memoryview(written)[skipped : skipped + length], UNSIGNED[WIDTH[code]])

    def settle(self) -> None:
        """Stop tracking writes once every byte was written."""
        if self.written is not None and self.written.find(0) < 0:
            self.written = None

    def wrote(self, start: int, nbytes: int) -> None:
        """Record that bytes were written outside a kernel."""
        if nbytes >= self.size:
            if self.written is not None and self.kind == "virtual":  # other mappings of the memory have the same marks
                self.written[: self.size] = b"\1" * self.size
            self.written = None  # all of it: nothing is left to track
        elif self.written is not None:
            self.written[start : start + nbytes] = b"\1" * nbytes

    def move_to(self, pages: Any) -> None:
        """Move the content to memory that is shared with other processes; no kernel may run meanwhile."""
        moved = memoryview(pages)[: self.size]
        moved[:] = self.data
        self.data, self.written, self._views = moved, None, {}

    def close(self) -> None:
        """End this allocation: from now on, each view that the emulator has of it raises an error."""
        # Who holds this allocation until a garbage collection needs neither pages nor marks.
        self.alive, self._keep, self.written = False, None, None
        for view, _, _ in list(self._views.values()):
            view.release()
        self._views.clear()
        try:
            self.data.release()
        except BufferError:  # in use, for instance by ctypes' from_buffer: this view stays valid until it is released
            pass


class Space:
    """The memory of one emulated machine.

    Why long  what is found at an address, what is said about it, and how kernels run in it are one state
    """

    def __init__(self, *, watch: bool = False, strict: bool = False) -> None:
        self.strict = strict  # whether a read of uninitialized memory stops a kernel, or is only reported
        self.conditions: dict[int, Any] = {}  # the conditions of graphs by handle; kernels set them
        self.executor = "auto"  # how kernels run: "scalar", "numpy", or "auto", the faster one
        self.spent = 0.0  # seconds that the scalar executor took for kernels that could run as arrays
        self.races = False  # whether all memory is searched for races; else only shared memory, less exactly
        self.meetings = False  # whether a doubtful barrier or member mask stops a kernel; else it is only reported
        self.copies = False  # whether copies to the host of memory that was never written are reported
        self.delays = False  # whether plain stores may be visible to other blocks late
        self.timeout = 0.0  # seconds after which a kernel is ended; 0: never
        self.choose = random.Random(0)  # decides how late
        self.watch = watch  # whether writes are tracked, and reads of uninitialized memory are found
        self.warnings: list[str] = []  # findings that stopped no kernel
        self.write_output: Callable[[str], object] | None = None  # for the output of kernels; None: Python's stdout
        self.missed: Callable[[Allocation], str] = lambda allocation: ""  # words about pending work that may write it
        self.told: set[tuple[str, int]] = set()  # the places of these findings: in generated code, or in the program
        self.lock = threading.RLock()  # held while allocations change; kernels allocate and free, too
        self._starts = [FIRST_ADDRESS]  # where the next addresses begin; an entry for each depth of calls inside calls
        self._regions = count(_INSIDE, _REGION)
        self._bases: list[int] = []  # the keys of _live, sorted; _ordered() repairs it after an interrupt
        self._live: dict[int, Allocation] = {}
        self.managed: dict[int, int] = {}  # the sizes of the live managed memory, by address
        self.reserved: dict[int, tuple[int, str]] = {}  # reserved addresses: first -> (size, who reserved them)
        self._graves: deque[tuple[int, int, str]] = deque(maxlen=GRAVES)
        self._quarantine: deque[tuple[object, int]] = deque(maxlen=QUARANTINE)

    def allocate(
        self,
        size: int,
        *,
        kind: str = "device",
        alignment: int = 256,
        label: str = "",
        poison: bool = True,
        base: int | None = None,
    ) -> Allocation:
        """Allocate device memory at a new address, or at one that was reserved.

        raises  Fault   zero size (1), not enough memory (2)
        """
        if size <= 0:
            raise Fault(INVALID_VALUE, f"an allocation of {size} bytes: the size must be positive")
        data = new_memory(size, "an allocation", poison)
        if base is None:
            base = self.new_address(size, alignment)
        made = Allocation(base, size, kind, data, label, None)
        if self.watch and poison and size <= POISONED_UP_TO:
            made.written = bytearray(size)
        return self._enter(made)

    def new_address(self, size: int, alignment: int = 256) -> int:
        """Return a new address, which no other allocation gets.

        raises  Fault   no address with this alignment is left (2)
        """
        step = max(alignment, 1)
        with self.lock:
            try:
                start = self._starts.pop()
            except IndexError:  # a signal handler or a __del__ has come within these lines: it gets other addresses
                start = next(self._regions)
            try:
                last = _INSIDE if start < _INSIDE else start // _REGION * _REGION + _REGION
                # an odd multiple, so that it has no larger alignment
                base = (start + 2 * step - 1) // (2 * step) * (2 * step) + step
                if base + size > last:
                    raise Fault(
                        OUT_OF_MEMORY, f"no {size} bytes with an alignment of {step} are left in the address space"
                    )
                start = (base + size + 2 * GAP - 1) // GAP * GAP
            finally:
                self._starts.append(start)
        return base

    def allocate_host(self, size: int, *, kind: str, label: str = "", poison: bool = True) -> Allocation:
        """Allocate pinned or managed memory, whose device address is its host address.

        raises  Fault   zero size (1), not enough memory (2)
        """
        if size <= 0:
            raise Fault(INVALID_VALUE, f"an allocation of {size} bytes: the size must be positive")
        try:
            pages = mmap.mmap(-1, size)
        except (MemoryError, OverflowError, OSError, ValueError) as reason:
            raise Fault(OUT_OF_MEMORY, f"an allocation of {size} bytes: {reason}") from None
        anchor = ctypes.c_char.from_buffer(pages)
        data = memoryview(pages)
        if poison and size <= POISONED_UP_TO:
            data[:] = bytes([POISON]) * size
        return self._enter(Allocation(ctypes.addressof(anchor), size, kind, data, label, (anchor, pages)))

    def reserve(self, size: int, alignment: int, origin: str) -> int:
        """Reserve addresses at which memory can be mapped, and return the first.

        raises  Fault   zero size (1), more than the largest reservation, or no address is left (2)
        """
        if size <= 0:
            raise Fault(INVALID_VALUE, f"a reservation of {size} bytes: the size must be positive")
        if size > _MOST_RESERVED:
            raise Fault(OUT_OF_MEMORY, f"a reservation of {size} bytes: the size must be at most {_MOST_RESERVED}")
        with self.lock:
            base = self.new_address(size, alignment)
            self.reserved[base] = size, f", reserved at {origin}" if origin else ""
        return base

    def unreserve(self, base: int) -> None:
        """Free reserved addresses; no memory may be mapped at them."""
        size, origin = self.reserved.pop(base)
        self._graves.append((base, size, f"{size}-byte reservation{origin} that was freed"))

    def reservation(self, address: int) -> tuple[int, int] | None:
        """Return the first address and the size of the reservation that contains an address, or None."""
        bases = sorted(self.reserved)
        at = bisect_right(bases, address)
        size, _ = self.reserved.get(bases[at - 1], (0, "")) if at else (0, "")
        if at and address < bases[at - 1] + size:
            return bases[at - 1], size
        return None

    def map(
        self, base: int, data: memoryview, written: bytearray | None, label: str = "", kind: str = "virtual"
    ) -> Allocation:
        """Map memory at reserved addresses."""
        made = Allocation(base, len(data), kind, data, label, None)
        made.written = written
        return self._enter(made)

    def run_of(self, address: int, nbytes: int) -> list[Allocation]:
        """Return the mappings that contain nbytes from address on, without a gap.

        raises  Fault   a part of the range is not mapped (1)
        """
        found: list[Allocation] = []
        at = address
        while at < address + nbytes:
            piece = self.find(at)
            if piece is None or found and piece.kind != "virtual":
                raise Fault(INVALID_VALUE, self.explain(at, address + nbytes - at))
            found.append(piece)
            at = piece.base + piece.size
            if piece.kind != "virtual" and at < address + nbytes:
                raise Fault(INVALID_VALUE, self.explain(address, nbytes))
        return found

    def register_host(self, address: int, size: int, *, label: str = "") -> Allocation:
        """Make host memory of another owner accessible to the device (cuMemHostRegister).

        raises  Fault   zero size, or memory that is registered already (1)
        """
        if size <= 0:
            raise Fault(INVALID_VALUE, f"a registration of {size} bytes: the size must be positive")
        if self.overlapping(address, size) is not None:
            raise Fault(
                INVALID_VALUE, f"memory in the {size} bytes from {address:#x} on is registered or allocated already"
            )
        data = memoryview((ctypes.c_char * size).from_address(address)).cast("B")
        return self._enter(Allocation(address, size, "pinned", data, label or "registered host memory", None))

    def free(self, base: int, where: str = "") -> None:
        """End the allocation that starts at base; `where` is the line of the program that frees it.

        raises  Fault   an unknown address, one inside an allocation, or a second free (1)
        """
        with self.lock:
            bases = self._ordered()
            self.managed.pop(base, None)
            gone = self._live.pop(base, None)
            if gone is not None:
                del bases[bisect_right(bases, base) - 1]
                self._put_aside(gone)
        if gone is None:
            raise Fault(INVALID_VALUE, f"free of {base:#x}: {self.explain(base, 1)}")
        if gone.origin:
            made = f"{_made(gone)},"
        else:
            made = ""
        self._graves.append((base, gone.size, f"{gone.describe()}{made} that was freed" + (where and f" at {where}")))
        gone.close()

    def _put_aside(self, gone: Allocation) -> None:
        if gone._keep is not None:
            self._quarantine.append((gone._keep, gone.size))
        while sum(size for _, size in self._quarantine) > QUARANTINED:
            self._quarantine.popleft()

    def find(self, address: int) -> Allocation | None:
        """Return the live allocation that contains address, or None.

        Kernels look addresses up without the lock, while other threads allocate and free. An allocation that contains
        the address is the right one, even if the list has changed. Other results are checked again with the lock held.
        """
        bases = self._bases
        try:
            found = self._live[bases[bisect_right(bases, address) - 1]]
        except (IndexError, KeyError):  # another thread removed an element
            found = None
        if found is not None and 0 <= address - found.base < found.size:
            return found
        with self.lock:
            bases = self._ordered()
            at = bisect_right(bases, address) - 1
            if at >= 0:
                found = self._live[bases[at]]
            else:
                found = None
        if found is not None and address - found.base < found.size:
            return found
        return None

    def _ordered(self) -> list[int]:
        """Return the bases of all allocations in order; called with the lock held."""
        if len(self._bases) != len(self._live):  # an interrupt came between two changes
            self._bases = sorted(self._live)
        return self._bases

    def window(self, address: int, nbytes: int) -> memoryview:
        """Return a writable view of nbytes of memory from address on.

        raises  Fault   the range is not inside one live allocation (1)
        """
        found = self.find(address)
        if found is None or address - found.base + nbytes > found.size:
            raise Fault(INVALID_VALUE, self.explain(address, nbytes))
        start = address - found.base
        return found.data[start : start + nbytes]

    def live(self) -> list[Allocation]:
        """Return all live allocations, sorted by address."""
        with self.lock:
            return list(map(self._live.__getitem__, self._ordered()))

    def copied(self) -> Space:
        """Return a space with the same allocations at the same addresses, whose content is a copy."""
        made = copy(self)
        made._live = {}
        copies: dict[int, bytearray] = {}
        for each in self.live():
            twin = copy(each)
            twin._views, twin._keep = {}, None
            try:
                whole: Any = each.data.obj
                twin.data = memoryview(_copied(whole, copies))[: each.size]
            except ValueError:  # another thread has freed it
                continue
            if twin.written is not None:
                twin.written = _copied(twin.written, copies)
            made._live[each.base] = twin
        made._bases = [*made._live]
        return made

    def unwritten(self, address: int, nbytes: int) -> str:
        """Return an address that was never written, and the words about it, for an error report."""
        found = self.find(address)
        return f"{self.explain(address, nbytes)}, and never written" + ("" if found is None else self.missed(found))

    def explain(self, address: int, nbytes: int) -> str:
        """Return an address and the words that describe its place, for an error report."""
        return f"address {address:#x}: {self.whereabouts(address, nbytes)}"

    def whereabouts(self, address: int, nbytes: int) -> str:
        """Return the words that describe the place of an access."""
        found = self.find(address)
        if found is not None:
            return position(address - found.base, nbytes, found.size, f"a {_place(found)}")
        around = self.reservation(address)
        if around is not None:
            base, size = around
            return (
                f"{address - base} bytes into a {size}-byte reservation at {base:#x}{self.reserved[base][1]}, "
                "where no memory is mapped"
            )
        for base, size, words in reversed(self._graves):
            if base <= address < base + size:
                return f"{address - base} bytes into a {words}"
        if address >> 63:
            offset = address - (1 << 64)
        else:
            offset = address
        if abs(offset) < _NULL_PAGES:
            return NULL + (f" {'plus' if offset > 0 else 'minus'} {abs(offset)} bytes" if offset else "")
        return self._neighbour(address, nbytes)

    def refuse(self, found: Allocation, address: int, nbytes: int) -> str:
        """Describe an access to memory that the device, or the context, may not use."""
        if found.kind in ("device", "variable"):
            return f"{self.explain(address, nbytes)}, of another context or device, without peer access to it"
        return f"{self.explain(address, nbytes)}, to which this device was given no access"

    def _neighbour(self, address: int, nbytes: int) -> str:
        with self.lock:  # a copy of pageable memory asks for each address: see only the two next to it
            bases = self._ordered()
            at = bisect_right(bases, address)
            before, after = (
                [self._live[base] for base in part] for part in (bases[max(at - 1, 0) : at], bases[at : at + 1])
            )
        near = [(address - each.base - each.size, each) for each in before]
        near += [(each.base - address, each) for each in after]
        near = [each for each in near if each[0] < GAP]
        if not near:
            if address < FIRST_ADDRESS:
                return "not device memory; is it a host address?"
            return "no allocation is near"
        _, which = min(near, key=lambda each: each[0])
        return position(address - which.base, nbytes, which.size, f"a {_place(which)}")

    def overlapping(self, address: int, size: int) -> Allocation | None:
        """Return the last live allocation that has bytes of a range, or None."""
        with self.lock:
            bases = self._ordered()
            at = bisect_right(bases, address + size - 1) - 1
            if at >= 0:
                found = self._live[bases[at]]
            else:
                found = None
        if found is not None and found.base + found.size > address:
            return found
        return None

    def _enter(self, made: Allocation) -> Allocation:
        with self.lock:
            bases = self._ordered()
            self._live[made.base] = made
            insort(bases, made.base)
            if made.kind == "managed":
                self.managed[made.base] = made.size
        return made


def _copied(whole: Any, copies: dict[int, bytearray]) -> bytearray:
    """Return the copy of some memory, which is made once: mappings of virtual memory may have the same memory."""
    if id(whole) not in copies:
        copies[id(whole)] = bytearray(whole)
    return copies[id(whole)]
