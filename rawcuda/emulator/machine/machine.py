"""The state of the emulated machine: devices, contexts, handles, threads.

What it is   the objects behind the entry points, and the look-ups with which nearly all entry points begin.
How          a handle is a number that one dictionary maps to an object. It is not an address (dereferencing it crashes
             the process) and is never reused. One lock protects everything in this module. Each thread has its own
             stack of current contexts. In a thread that C code started, every callback into Python sees a new
             threading.local, so native_threads.py has the states of such threads.
Source       CUDA Driver API, "Context Management", "Primary Context Management"
Read next    queues.py, entries/hardware/contexts.py
"""

from __future__ import annotations

import ctypes
import itertools
import os
import re
import sys
import threading
from weakref import WeakValueDictionary, ref

from ...errors import shown
from .answers import Answers
from .codes import CONTEXT_IS_DESTROYED, STICKY, Refused
from .device_arrays import Array
from .failures import Failures
from .holdings import Heap, Holding, Pool
from .host_access import HostAccess
from .host_thread import HostThread
from .native_threads import NativeThreads, is_of_python
from .queues import Event, Queues, Stream
from .recovery import Interrupts
from .reports import Findings, Report, Reports
from .space import Space, say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any, Callable, TypeVar

    from ..entries.graphs.capture import Capture
    from ..entries.graphs.reservations import Reservation
    from .space import Allocation

    T = TypeVar("T")

__all__ = ["Machine", "Device", "Context", "Thread", "Pool", "Holding"]

_HANDLES_FROM = 0x5A << 8 * ctypes.sizeof(ctypes.c_void_p) - 8  # non-canonical on x86-64, unmapped on arm64
_LISTED = 50  # how many leaks of a kind are listed one by one


class Thread:
    """The state of one calling thread: its stack of current contexts, its capture mode, and what stream 0 means.

    unread  the reason of its newest refused call of each code, or "", until it is asked for
    """

    __slots__ = ("stack", "capture_mode", "null", "unread", "__weakref__")

    def __init__(self) -> None:
        self.stack: list[Context] = []
        self.capture_mode = 0
        self.unread: dict[int, str] = {}
        self.null = 0  # the meaning of stream 0: 2, the per-thread default stream, in a call of a form _ptsz or _ptds


class Device:
    """An emulated GPU.

    shape   ordinal: its number among the visible devices; index: among all; retained: counts the retains of its
            primary context
    """

    def __init__(self, machine: Machine, ordinal: int, index: int) -> None:
        self.machine, self.ordinal, self.index = machine, ordinal, index
        self.primary = Context(machine, self, 0, primary=True)
        self.retained = 0
        self.used = 0  # bytes of device memory
        self.default_pool = machine.add_pool(Pool(self, place=(1, ordinal), default=True))
        self.pool = self.default_pool
        self.graph_pool = machine.add(Pool(self, place=(1, ordinal), default=True))  # of memory that graphs allocate

    def finish(self) -> None:
        """Finish the work that the next release would end; other threads may retain the primary context meanwhile."""
        queues = self.machine.queues
        while self.retained == 1 and any(map(queues.pending, list(self.primary.streams.values()))):
            queues.complete_context(self.primary)

    def release(self, handle: int = 0) -> None:
        """Release the primary context once, with a green context's handle; the last one destroys everything in it."""
        self.finish()
        primary = self.primary
        if not self.retained:
            raise Refused(201)
        if self.retained == 1 and primary.state != CONTEXT_IS_DESTROYED:
            primary.close()
        self.machine.handles.pop(handle, None)
        self.retained = max(self.retained - 1, 0)  # (a green context in it has given back the last one)


class Context:
    """A context with the objects created in it; `state` is 0, 709 (destroyed) or the error that made it unusable."""

    def __init__(self, machine: Machine, device: Device, flags: int, *, primary: bool = False) -> None:
        self.machine, self.device, self.flags, self.primary = machine, device, flags, primary
        self.users = 1  # counted by cuCtxAttach and cuCtxDetach
        self.ident = next(machine.counter)
        self.handle = 0
        self.state = CONTEXT_IS_DESTROYED
        self.captures = 0  # the number of blocking streams that capture
        self.failure: Report | None = None  # what has made it unusable
        self.holdings: dict[int, Holding] = {}  # by address; those of graphs stay while a primary context is closed
        self.open()
        if primary:
            self.state = CONTEXT_IS_DESTROYED  # until it is retained
        machine.add(self)

    def open(self) -> None:
        """Make this context usable and empty."""
        self.state = 0
        self.failure = None
        self.captures = 0
        self.streams: dict[int, Stream] = {}
        self.owned: dict[int, Any] = {}  # streams, events and modules by handle
        self.peers: set[Context] = set()
        self.reached_from: set[Context] = set()  # the contexts that have this one among their peers
        self.limits: dict[int, int] = {}
        self.system_calls: set[str] = set()  # the functions, such as malloc, that its kernels so far may have called
        self.heap = Heap()
        self.cache_config = 0
        self.legacy = self._stream()
        self.per_thread: dict[ref[Thread], Stream] = {}

    def limit(self, number: int) -> int:
        """Return a limit, by the number of its CUlimit."""
        return self.limits.get(number, self.machine.answers.limits[number][0])

    def _stream(self, flags: int = 0, priority: int = 0) -> Stream:
        stream = Stream(self, next(self.machine.counter), flags=flags, priority=priority)
        self.streams[stream.ident] = stream
        return stream

    def new_stream(self, flags: int, priority: int) -> Stream:
        """Create a stream that has a handle."""
        stream = self.machine.add(self._stream(flags, priority))
        self.owned[stream.handle] = stream
        return stream

    def thread_stream(self, thread: Thread) -> Stream:
        """Return the per-thread default stream of a thread; the first call of a thread closes those of ended ones."""
        stream = self.per_thread.get(ref(thread))
        if stream is None:
            for each, left in list(self.per_thread.items()):
                if each() is None and left.capture is None:
                    del self.per_thread[each]
                    left.closed = True
                    if not left.queue and left.running is None:
                        self.streams.pop(left.ident, None)
            stream = self.per_thread[ref(thread)] = self._stream()
        return stream

    def check(self) -> None:
        """Refuse a call in a context that is destroyed or unusable."""
        if self.state:
            raise Refused(self.state)

    def lose(self, code: int, report: str) -> None:
        """Make this context unusable after an error in its work: every later call in it returns `state`."""
        if code == 1:
            code = 700
        elif code not in STICKY:
            code = 719
        if not isinstance(report, Report):
            report = Report(report)
        if not self.state:
            self.state, self.failure = code, report
            self.machine.returned.discard(code)
        Reports.append(self.machine.findings, report)
        self.machine.report(code, report)
        if self.machine.aloud:
            say(report)

    def revive(self) -> None:
        """Make this context usable again after an error in its work; a real driver cannot do this."""
        if self.state != CONTEXT_IS_DESTROYED:
            self.state, self.failure = 0, None

    def refuse_implicit(self) -> None:
        """Refuse work in the legacy default stream, which would wait for a capturing stream."""
        for stream in self.streams.values():
            if stream.blocking and stream.capture is not None:
                stream.capture.invalidate()
        raise Refused(
            906,
            "work in the legacy default stream (0 or 1) waits for every blocking stream, and one of them is "
            "capturing: capture in a non-blocking stream, or submit this work to another stream",
        )

    def close(self) -> None:
        """Finish all work, and release everything that was created in this context."""
        machine = self.machine
        for stream in list(self.streams.values()):
            if stream.capture is not None:
                stream.capture.invalidate()
                stream.capture.leave(stream)
        machine.queues.complete_context(self)
        self._report_leaks()
        for handle, thing in list(self.owned.items()):
            machine.handles.pop(handle, None)
            close = getattr(thing, "close", None)
            if close is not None:
                close()
        for holding in list(self.holdings.values()):
            machine.give_back(holding)
        self.heap.close(machine.space)
        self.state = CONTEXT_IS_DESTROYED
        for peer in self.peers:
            peer.reached_from.discard(self)
        self.streams, self.owned, self.per_thread, self.peers = {}, {}, {}, set()
        for other in self.reached_from:
            other.peers.discard(self)

    def _report_leaks(self) -> None:
        """Report what the user created here and did not release; in an unusable context, nothing counts as a leak."""
        left = [holding for holding in self.holdings.values() if not holding.released]
        things = list(self.owned.values())
        if self.state or not (left or things):
            return
        lines = [
            f"{len(left)} allocations of {sum(holding.allocation.size for holding in left)} bytes were left in "
            f"{self!r} at its end"
        ]
        for holding in left[:_LISTED]:
            made = holding.allocation
            lines.append(
                f"leaked: {holding.flavour} memory, {made.describe()} at {made.base:#x}"
                + (f", allocated at {made.origin}" if made.origin else "")
            )
        lines += [f"leaked: {_worded(type(thing))}, handle {thing.handle:#x}" for thing in things[:_LISTED]]
        more = len(left[_LISTED:]) + len(things[_LISTED:])
        lines += [f"and {more} more"] if more else []
        text = "\n    ".join(lines)
        self.machine.reports.append(text)
        if self.machine.print_leaks:
            print(shown(text), file=sys.stderr)

    def __repr__(self) -> str:
        return f"<{'primary ' if self.primary else ''}context {self.ident} of device {self.device.ordinal}>"


class Machine:
    """The state behind the entry points of one emulator.

    Why long  every entry point looks things up here, and reports here
    """

    def __init__(
        self,
        mode: str,
        seed: int,
        devices: int,
        progress: Callable[[int, int], None] | None,
        dump: bool,
        watch: bool = True,
        strict: bool = False,
        peers: str = "on",
    ) -> None:
        """Make the state of a machine; the arguments are those of Emulator.

        Why long  it has a line for each part of the state
        """
        self.lock = threading.RLock()  # a garbage collection inside a call may run a __del__ that makes a call
        self.pid = 0  # 0 until cuInit
        self.counter = itertools.count(1)
        self.handles: dict[int, Any] = {}
        self.destroyed: set[int] = set()  # the handles of destroyed contexts
        self.kept_exceptions: list[BaseException] = []
        self.reports = Reports()
        self.unread: dict[int, str] = {}
        self.returned: set[int] = set()  # the errors of kernels that calls have returned, except calls that release
        self.progress, self.dump = progress, dump
        self.print_leaks = False
        # called with the name of each call that returns a code other than 0, the code, and the reason or ""
        self.refused: Callable[[str, int, str], None] | None = None
        self.aloud = False  # whether a report is also written to stderr if its error makes a context unusable
        self.met_own_runtime = False  # whether the user was told about NVIDIA's own runtime
        self.architecture = 90  # sm_90
        self.answers = Answers()
        self.cuda = 13000  # the CUDA version that cuDriverGetVersion writes
        self.ptx_version = (9, 5)  # the newest .version
        self.keep_status = False  # whether the exit status stays as it is although a kernel failed unnoticed
        self.mig = False  # whether the devices are MIG instances
        self.concurrent = True  # the attribute CONCURRENT_MANAGED_ACCESS
        self.recorders: dict[int, Any] = {}  # of the next launch, by the thread that makes it
        self.deferred = False  # whether a library is compiled when it is first used
        self.interrupts = Interrupts()
        self.host_thread = HostThread(self)
        self.host_access = HostAccess(self)
        self.queues = Queues(self, mode, seed)
        self.space = Space(watch=watch, strict=strict)
        self.space.missed = self.queues.missed
        self.findings = self.space.warnings = Findings(self.reports)
        self.program: set[str] = set()  # reports name lines of these files rather than lines of other files
        self.address: Callable[[str], int | None]  # Emulator.address, for cuGetProcAddress
        self.failures = Failures()
        self.observers: list[Callable[[], object]] = []  # called when cuInit has succeeded
        self.captures: set[Capture] = set()  # the captures in progress
        # the memory that nodes of graphs allocate, by its address; the nodes, and memory that was not freed, keep it
        self.graph_memory: WeakValueDictionary[int, Reservation] = WeakValueDictionary()
        self.graph_bases: list[int] = []  # these addresses in order, with some of memory that is gone
        self.pools: list[Pool] = []  # the pools that are not destroyed
        self.physical: dict[Any, None] = {}  # every PhysicalMemory of entries/memories/virtual_entries.py
        self.restricted = False  # whether memory has existed to which a device or context may lack some access
        # the current pool of each (type of allocation, type of location, its id), except of devices' own memory
        self.current_pools: dict[tuple[int, int, int], Pool] = {}
        self._local = threading.local()
        self._native_threads = NativeThreads(Thread)
        self.topology = peers
        self.profiling = False  # between cuProfilerStart and cuProfilerStop
        self.count = devices  # the number of all devices; CUDA_VISIBLE_DEVICES may hide some of them
        self.devices = [Device(self, index, index) for index in range(devices)]

    def show_only(self, indices: list[int]) -> None:
        """Keep only these devices, numbered in this order; called before any device is used."""
        self.handles.clear()  # the contexts and pools of the previous devices
        self.pools.clear()
        self.current_pools.clear()
        self.devices = [Device(self, ordinal, index) for ordinal, index in enumerate(indices)]

    def reaches(self, device: Device, other: Device) -> bool:
        """Tell whether a device could be given access to the memory of another one."""
        together = {"on": True, "off": False, "pairs": device.index // 2 == other.index // 2}[self.topology]
        return together and device is not other

    # -- handles

    def add(self, thing: T) -> T:
        """Assign a handle to an object."""
        handle = _HANDLES_FROM + 64 * next(self.counter)
        thing.handle = handle  # type: ignore[attr-defined]
        self.handles[handle] = thing
        return thing

    def get(self, kind: type[T], handle: int) -> T:
        """Return the object of a handle, or refuse the handle."""
        try:
            thing = self.handles[handle]  # (in 3.13 without the GIL, get() of another thread's handle is slow)
        except KeyError:
            thing = None
        if type(thing) is not kind:
            if thing is not None:
                what = _worded(type(thing))
            else:
                what = "no object, or to an object that was destroyed"
            raise Refused(400, f"{handle:#x} is not the handle of {_worded(kind)}: it refers to {what}")
        return thing

    def usable(self, kind: type[T], handle: int) -> T:
        """Return the object of a handle whose context can be used; refuse it without a current context."""
        self.context()
        thing = self.get(kind, handle)
        thing.context.check()  # type: ignore[attr-defined]
        return thing

    def context_of(self, handle: int) -> Context:
        """Return the context of a handle, or refuse the handle with 201 (others are refused with 400)."""
        found = self.handles.get(handle)
        if handle in self.destroyed or type(found) is Context and found.state == CONTEXT_IS_DESTROYED:
            raise Refused(CONTEXT_IS_DESTROYED)
        if type(found) is not Context:
            raise Refused(201, f"{handle:#x} is not the handle of a context")
        return found

    def device(self, ordinal: int) -> Device:
        """Return the device of an ordinal, or refuse the ordinal."""
        if not 0 <= ordinal < len(self.devices):
            raise Refused(101)
        return self.devices[ordinal]

    # -- the calling thread

    def thread(self) -> Thread:
        """Return the state of the calling thread."""
        try:
            return self._local.thread  # type: ignore[no-any-return]
        except AttributeError:
            pass
        if is_of_python():
            thread = Thread()  # a Python thread, for which threading.local works
        else:
            thread = self._native_threads.calling()
        self._local.thread = thread
        return thread

    def context(self) -> Context:
        """Return the calling thread's current context; refuse the call if there is none, or if it is unusable."""
        try:
            stack = self._local.thread.stack
        except AttributeError:
            stack = self.thread().stack
        if not stack:
            raise Refused(201)
        context: Context = stack[-1]
        if context.state:
            raise Refused(context.state)
        return context

    def stream(self, handle: int) -> Stream:
        """Return the stream of a handle: 0 and 1 are the current context's legacy stream, 2 is the per-thread stream.

        In a call of a form _ptsz or _ptds, 0 is the per-thread stream, too.
        """
        context = self.context()
        if handle > 2:
            stream = self.get(Stream, handle)
            if stream.context.state:
                raise Refused(stream.context.state)
            if stream.green is not None and stream.green.handle not in self.handles:
                raise Refused(400, f"the green context of stream {handle:#x} was destroyed: destroy the stream, too")
            return stream
        thread = self.thread()
        if (handle or thread.null) == 2:
            return context.thread_stream(thread)
        return context.legacy

    def event(self, handle: int) -> Event:
        """Return the event of a handle."""
        self.context()
        event = self.get(Event, handle)
        if event.context.state:
            raise Refused(event.context.state)
        return event

    def refuse_unsafe(self) -> None:
        """Refuse a call that could disturb a capture in progress, and invalidate that capture."""
        for capture in tuple(self.captures):
            capture.refuse_unsafe(self.thread())

    # -- memory

    def hold(
        self, allocation: Allocation, context: Context, flavour: str, *, flags: int = 0, pool: Pool | None = None
    ) -> Holding:
        """Register an allocation that a call made for the user, in a context."""
        holding = Holding(allocation, context, flavour, flags, next(self.counter), pool)
        allocation.context = holding
        allocation.origin = _caller(self.program)
        context.holdings[allocation.base] = holding
        if flavour == "device":
            context.device.used += allocation.size
        if pool is not None:
            pool.take(allocation.size)
        return holding

    def caller(self) -> str:
        """Return the file and line of the program's innermost frame."""
        return _caller(self.program)

    def name_variable(self, allocation: Allocation, context: Context) -> None:
        """Record the context of a module's variable, which its module frees, and count its memory."""
        allocation.context = Holding(allocation, context, "variable", 0, next(self.counter))
        if allocation.kind == "variable":  # not managed
            context.device.used += allocation.size

    def give_back(self, holding: Holding, where: str | None = None) -> None:
        """Free an allocation; `where` is the line of the program that frees it, or None for the running one."""
        allocation, context = holding.allocation, holding.context
        if holding.reservation is not None and holding.reservation.stays():
            return
        if self.space.find(allocation.base) is allocation:  # (an interrupt may have come before the next line)
            self.space.free(allocation.base, _caller(self.program) if where is None else where)
        backing = holding.backing
        if backing is not None:  # (first, because `repair` finds what has a holding)
            if not backing.imported and backing.fd >= 0 and backing.is_open_elsewhere():
                self.report(0, f"memory at {allocation.base:#x} was freed while another process has it open")
            backing.close()
        if context.holdings.get(allocation.base) is not holding:
            return
        del context.holdings[allocation.base]
        if holding.flavour == "device":
            context.device.used -= allocation.size
        if holding.pool is not None:
            holding.pool.put_back(allocation.size)

    def repair(self) -> None:
        """Correct what an interrupted call may have left inconsistent: captures, freed memory, sums of bytes."""
        contexts = [thing for thing in self.handles.values() if isinstance(thing, Context)]
        streams = [stream for context in contexts for stream in context.streams.values()]
        for capture in {*self.captures, *(stream.capture for stream in streams if stream.capture is not None)}:
            capture.repair(streams)
        for context in contexts:
            context.captures = sum(s.blocking and s.capture is not None for s in context.streams.values())
            context.heap.repair(self.space)
            for holding in list(context.holdings.values()):
                if self.space.find(holding.allocation.base) is not holding.allocation:  # give_back() was interrupted
                    holding.allocation.close()
                    self.give_back(holding)
        holders = [made.context for made in self.space.live() if made.context is not None]
        for physical in list(self.physical):  # a release or an unmapping was interrupted
            physical.mapped = sum(each.mapping is not None and each.mapping.physical is physical for each in holders)
            physical.forget(self)
        holdings = [holding for context in contexts for holding in context.holdings.values()]
        for device in self.devices:
            device.used = sum(
                holding.allocation.size
                for holding in holdings
                if holding.context.device is device and holding.flavour == "device"
            )
            device.used += sum(thing.size for thing in self.physical if thing.device is device)
            variables = [made for made in self.space.live() if made.kind == "variable" and made.context is not None]
            device.used += sum(made.size for made in variables if made.context.context.device is device)
            arrays = [thing for thing in self.handles.values() if isinstance(thing, Array) and thing.allocation.alive]
            device.used += sum(array.size for array in arrays if array.context.device is device)
        pools = *self.pools, *(device.graph_pool for device in self.devices)
        for pool in {*pools, *(holding.pool for holding in holdings if holding.pool is not None)}:
            reserved, pool.reserved = pool.reserved, 0
            pool.used = sum(holding.allocation.size for holding in holdings if holding.pool is pool)
            pool.take(0)
            pool.trim(0 if pool.closed else reserved)

    def settle_pools(self) -> None:
        """Release what each pool keeps above its threshold; called at the end of calls that wait."""
        for pool in self.pools:
            pool.trim(pool.attributes[4])

    def make_room(self, device: Device, nbytes: int) -> None:
        """Check that enough memory of a device is free; unused memory of its pools is released if necessary."""
        total = self.answers.memory
        if nbytes > total - device.used:
            for pool in self.pools:
                if pool.device is device:
                    pool.trim(0)
        free = total - device.used
        if nbytes > total:
            raise Refused(2, f"{nbytes} bytes were requested, which is more than the {total} bytes of the device")
        if nbytes > free:
            raise Refused(
                2, f"{nbytes} bytes were requested, and {free} of {total} are free: free memory first, or ask for less"
            )

    def add_pool(self, pool: Pool) -> Pool:
        """Assign a handle to a pool."""
        self.pools.append(pool)
        return self.add(pool)

    # -- reports for the user

    def keep(self, caught: BaseException) -> None:
        """Keep an unexpected exception, the newest hundred of them, with its traceback as the text of its cause.

        The frames of a traceback would keep everything that the callers held.
        """
        try:
            from traceback import format_exception

            text = "".join(format_exception(type(caught), caught, caught.__traceback__))
        except Exception as error:  # near the limit of recursion, or the module cannot be read
            text = f"its traceback could not be formatted: {error!r}"
        caught.__traceback__ = caught.__context__ = None
        caught.__cause__ = RuntimeError(text)
        self.kept_exceptions.append(caught)
        del self.kept_exceptions[:-100]

    def report(self, code: int, text: str) -> None:
        """Keep a report for the user."""
        self.reports.append(text)
        self.unread[code] = text

    def refuse(self, code: int, report: str = "") -> int:
        """Return the code; keep the report of this call, or drop an older report of the same code if there is none."""
        self.thread().unread[code] = report
        if report:
            self.report(code, report)
        elif code not in STICKY:
            self.unread.pop(code, None)
        return code

    def explain(self, code: int) -> str | None:
        """Return the newest unread report for a code: that of a call of this thread if it was refused with this code.

        The report of a sticky error stays readable, in all threads.
        """
        if code in STICKY:
            return self.unread.get(code)
        newest = self.unread.pop(code, None)
        return self.thread().unread.pop(code, newest) or None

    def live(self) -> dict[str, int]:
        """Count the objects that the user created and has not released, by kind, except in unusable contexts."""
        counts = dict.fromkeys(_KINDS.split(), 0)
        lost = set()
        for thing in self.handles.values():
            if isinstance(thing, Context):
                if thing.state and thing.state != CONTEXT_IS_DESTROYED:
                    lost.add(thing)
                elif not thing.state:
                    counts["memory"] += sum(not holding.released for holding in thing.holdings.values())
                    counts["context"] += not thing.primary
        for device in self.devices:
            counts["context"] += 0 if device.primary in lost else device.retained
        counts["physical"], counts["reservation"] = len(self.physical), len(self.space.reserved)
        for thing in self.handles.values():
            kind = type(thing).__name__.lower()
            context = getattr(thing, "context", None)
            if kind in counts and kind != "context" and (context is None or not context.state):
                counts[kind] += getattr(thing, "counted", True) and getattr(thing, "part_of", None) is None
        return counts


_KINDS = (
    "memory stream event module link library graph graphexec pool physical reservation greencontext context array "
    "mipmappedarray texture surface"
)


def _worded(kind: type) -> str:
    """Return the name of a kind of object with its article, such as "an event"."""
    name = kind.__name__.lower()
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def _caller(program: set[str]) -> str:
    """Return the file and line that made the call, or "": the innermost Python frame of the program.

    The frame is not in this package, nor in the code that starts Python programs. Frames of installed libraries and of
    the standard library count only if there is no other, because the line that calls a library is more useful than a
    line of the library.
    program  files whose frames always count, such as the file of the running test
    """
    frame: FrameType | None = sys._getframe(1)
    any_frame = outside = ""
    while frame is not None and not (outside and not program):
        name = frame.f_code.co_filename
        if name in program:
            return f"{name}:{frame.f_lineno}"
        if not name.startswith((_HERE, "<frozen ", "<launch ", _RUNPY)):
            any_frame = any_frame or f"{name}:{frame.f_lineno}"
            if not _INSTALLED.search(name) and not name.startswith(_STANDARD):
                outside = outside or f"{name}:{frame.f_lineno}"
        frame = frame.f_back
    return outside or any_frame


# (the path may contain "..", as sys.path does)
_HERE = os.path.dirname(os.path.dirname(os.path.dirname(_caller.__code__.co_filename))) + os.sep
_STANDARD = os.path.dirname(os.path.abspath(os.__file__)) + os.sep
_RUNPY = os.path.join(_STANDARD, "runpy.py")  # frozen from Python 3.11 on
_INSTALLED = re.compile(r"[/\\](site|dist)-packages[/\\]")
