"""The machine that is emulated: devices, contexts, handles, threads.

What it is   the state behind the entry points, and the look-ups that nearly all of them begin with.
How          a handle is a number that stands for an object in one dictionary; it is no address (reading it as one ends the
             process, as using a handle as a pointer should) and is never used again. One lock guards everything here.
             Each thread has its own stack of current contexts. In a thread that C code started, every call-back into Python
             sees a new threading.local, so such threads are told apart by the number that the system gives them.
Source       CUDA Driver API, "Context Management", "Primary Context Management"
Read next    contexts.py, queues.py
"""

from __future__ import annotations

import itertools
import os
import sys
import threading

from .codes import STICKY, Refused
from .queues import Event, HostThread, Queues, Stream
from .recovery import Interrupts
from .space import Space

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, TypeVar

    from .entries.graphs import Capture
    from .space import Allocation

    T = TypeVar("T")

__all__ = ["Machine", "Device", "Context", "Thread", "Pool", "Holding"]

_DESTROYED = 709
_HANDLES_FROM = 0x5A << 56  # non-canonical on x86-64, unmapped on arm64
TOTAL_MEMORY = 4 << 30
_LISTED = 50  # leaks of a kind that are named one by one


class Thread:
    """What the driver keeps for each thread: its stack of current contexts, and its capture mode."""

    __slots__ = ("stack", "capture_mode")

    def __init__(self) -> None:
        self.stack: list[Context] = []
        self.capture_mode = 0


class Pool:
    """A memory pool of one device: attributes, and what is allocated from it."""

    __slots__ = ("handle", "device", "maximum", "attributes", "used", "used_high", "access", "default", "counted")

    def __init__(self, device: Device, *, maximum: int = 0, default: bool = False) -> None:
        self.handle = 0
        self.device, self.maximum, self.default = device, maximum, default
        self.counted = not default  # as something that the user must destroy
        self.attributes = {1: 1, 2: 1, 3: 1, 4: 0}
        self.used = self.used_high = 0
        self.access: dict[int, int] = {device.ordinal: 3}


class Holding:
    """What entry points know of an allocation: whose it is, how it was made, and whether it was given back."""

    __slots__ = ("allocation", "context", "flavour", "flags", "pool", "released", "ident", "attributes")

    def __init__(
        self, allocation: Allocation, context: Context, flavour: str, flags: int, ident: int, pool: Pool | None = None
    ) -> None:
        self.allocation, self.context, self.flavour, self.flags, self.pool = allocation, context, flavour, flags, pool
        self.released = False  # given back in stream order: the user is done with it
        self.ident = ident  # CU_POINTER_ATTRIBUTE_BUFFER_ID
        self.attributes: dict[int, int] = {}


class Device:
    """An emulated GPU; `retained` counts who holds its primary context."""

    def __init__(self, machine: Machine, ordinal: int) -> None:
        self.machine, self.ordinal = machine, ordinal
        self.primary = Context(machine, self, 0, primary=True)
        self.retained = 0
        self.used = 0  # bytes of device memory
        self.default_pool = machine.add(Pool(self, default=True))
        self.pool = self.default_pool


class Context:
    """A context: everything that is made in it, and `state`, which is 0, 709 (destroyed) or the error that lost it."""

    def __init__(self, machine: Machine, device: Device, flags: int, *, primary: bool = False) -> None:
        self.machine, self.device, self.flags, self.primary = machine, device, flags, primary
        self.ident = next(machine.counter)
        self.handle = 0
        self.state = _DESTROYED
        self.captures = 0  # blocking streams that are capturing
        self.open()
        if primary:
            self.state = _DESTROYED  # until somebody retains it
        machine.add(self)

    def open(self) -> None:
        """Make this context ready and empty."""
        self.state = 0
        self.captures = 0
        self.streams: dict[int, Stream] = {}
        self.owned: dict[int, Any] = {}  # streams, events and modules by handle
        self.holdings: dict[int, Holding] = {}  # by address
        self.peers: set[Context] = set()
        self.limits: dict[int, int] = {}
        self.legacy = self._stream()
        self.per_thread: dict[Thread, Stream] = {}

    def _stream(self, flags: int = 0, priority: int = 0) -> Stream:
        stream = Stream(self, next(self.machine.counter), flags=flags, priority=priority)
        self.streams[stream.ident] = stream
        return stream

    def new_stream(self, flags: int, priority: int) -> Stream:
        """Make a stream that has a handle."""
        stream = self.machine.add(self._stream(flags, priority))
        self.owned[stream.handle] = stream
        return stream

    def thread_stream(self, thread: Thread) -> Stream:
        """Return the per-thread default stream of a thread."""
        stream = self.per_thread.get(thread)
        if stream is None:
            stream = self.per_thread[thread] = self._stream()
        return stream

    def check(self) -> None:
        """Refuse to go on in a context that is destroyed or lost."""
        if self.state:
            raise Refused(self.state)

    def lose(self, code: int, report: str) -> None:
        """Lose this context to an error in its work: from now on every call in it returns that error."""
        code = code if code in STICKY else 700 if code == 1 else 719
        if not self.state:
            self.state = code
        self.machine.report(code, report)

    def refuse_implicit(self) -> None:
        """Refuse work in the legacy default stream, which would wait for a stream that captures."""
        for stream in self.streams.values():
            if stream.blocking and stream.capture is not None:
                stream.capture.invalidate()
        raise Refused(
            906,
            "work in the legacy default stream (0 or 1) waits for every blocking stream, and one of them is "
            "capturing. Capture in a non-blocking stream, or give the work a stream of its own.",
        )

    def close(self) -> None:
        """Finish all work, and give back everything that was made here."""
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
        self.state = _DESTROYED
        self.streams, self.owned, self.per_thread, self.peers = {}, {}, {}, set()

    def _report_leaks(self) -> None:
        """Report what the user made here and did not give back; what an error lost is no leak."""
        left = [holding for holding in self.holdings.values() if not holding.released]
        things = list(self.owned.values())
        if self.state or not (left or things):
            return
        lines = [
            f"{len(left)} allocations of {sum(holding.allocation.size for holding in left)} bytes were left in {self!r} at its end"
        ]
        for holding in left[:_LISTED]:
            made = holding.allocation
            lines.append(
                f"leaked: {holding.flavour} memory, {made.describe()} at {made.base:#x}"
                + (f", allocated at {made.origin}" if made.origin else "")
            )
        lines += [f"leaked: a {type(thing).__name__.lower()}, handle {thing.handle:#x}" for thing in things[:_LISTED]]
        more = len(left[_LISTED:]) + len(things[_LISTED:])
        lines += [f"and {more} more"] if more else []
        text = "\n    ".join(lines)
        self.machine.reports.append(text)
        if self.machine.print_leaks:
            print(text, file=sys.stderr)

    def __repr__(self) -> str:
        return f"<{'primary ' if self.primary else ''}context {self.ident} of device {self.device.ordinal}>"


class Machine:
    """Everything behind the entry points of one emulator."""

    def __init__(
        self,
        mode: str,
        seed: int,
        devices: int,
        progress: Callable[[int, int], None] | None,
        dump: bool,
        watch: bool = True,
        strict: bool = False,
    ) -> None:
        self.lock = threading.RLock()  # a collection inside a call may run a __del__ that calls
        self.pid = 0  # 0 until cuInit
        self.counter = itertools.count(1)
        self.handles: dict[int, Any] = {}
        self.kept_exceptions: list[BaseException] = []
        self.reports: list[str] = []
        self.unread: dict[int, str] = {}
        self.progress, self.dump = progress, dump
        self.print_leaks = False
        self.architecture = 90  # sm_90
        self.interrupts = Interrupts()
        self.host_thread = HostThread(self)
        self.queues = Queues(self, mode, seed)
        self.space = Space(watch=watch, strict=strict)
        self.space.warnings = self.reports
        self.address: Callable[[str], int | None]  # the emulator's own, for cuGetProcAddress
        self.captures: set[Capture] = set()  # those that are going on
        self._local = threading.local()
        self._foreign: dict[int, Thread] = {}
        self.devices = [Device(self, ordinal) for ordinal in range(devices)]

    # -- handles

    def add(self, thing: T) -> T:
        """Give a thing its handle."""
        handle = _HANDLES_FROM + 64 * next(self.counter)
        thing.handle = handle  # type: ignore[attr-defined]
        self.handles[handle] = thing
        return thing

    def get(self, kind: type[T], handle: int) -> T:
        """Return the living thing that a handle stands for, refusing all else."""
        thing = self.handles.get(handle)
        if type(thing) is not kind:
            what = type(thing).__name__.lower() if thing is not None else "nothing, or something that is gone"
            raise Refused(400, f"{handle:#x} is no {kind.__name__.lower()}'s handle: it stands for {what}")
        return thing

    def device(self, ordinal: int) -> Device:
        """Return a device, refusing an ordinal that none has."""
        if not 0 <= ordinal < len(self.devices):
            raise Refused(101)
        return self.devices[ordinal]

    # -- who is calling

    def thread(self) -> Thread:
        """Return what is kept for the calling thread."""
        try:
            return self._local.thread  # type: ignore[no-any-return]
        except AttributeError:
            pass
        ident = threading.get_ident()
        if any(thread.ident == ident and type(thread) is not _DUMMY for thread in threading.enumerate()):
            thread = Thread()  # a Python thread, for which threading.local is right
        else:
            thread = self._foreign.setdefault(threading.get_native_id(), Thread())
        self._local.thread = thread
        return thread

    def context(self) -> Context:
        """Return the calling thread's current context; refuse if there is none, or if it is lost."""
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
        """Return the stream for a handle; 0 and 1 are the current context's legacy one, 2 this thread's."""
        context = self.context()
        if handle > 2:
            stream = self.get(Stream, handle)
            if stream.context.state:
                raise Refused(stream.context.state)
            return stream
        return context.thread_stream(self.thread()) if handle == 2 else context.legacy

    def event(self, handle: int) -> Event:
        """Return the event for a handle."""
        self.context()
        event = self.get(Event, handle)
        if event.context.state:
            raise Refused(event.context.state)
        return event

    def refuse_unsafe(self) -> None:
        """Refuse a call that may synchronise, if that could disturb a capture that is going on."""
        for capture in tuple(self.captures):
            capture.refuse_unsafe(self.thread())

    # -- memory

    def hold(
        self, allocation: Allocation, context: Context, flavour: str, *, flags: int = 0, pool: Pool | None = None
    ) -> Holding:
        """Keep an allocation that a call made for the user, in a context."""
        holding = Holding(allocation, context, flavour, flags, next(self.counter), pool)
        allocation.context = holding
        allocation.origin = _caller()
        context.holdings[allocation.base] = holding
        if flavour in ("device", "pool"):
            context.device.used += allocation.size
        if pool is not None:
            pool.used += allocation.size
            pool.used_high = max(pool.used_high, pool.used)
        return holding

    def name_variable(self, allocation: Allocation, context: Context) -> None:
        """Note whose a module's variable is; its module frees it."""
        allocation.context = Holding(allocation, context, "variable", 0, next(self.counter))

    def give_back(self, holding: Holding) -> None:
        """Free an allocation."""
        allocation, context = holding.allocation, holding.context
        if context.holdings.pop(allocation.base, None) is None:
            return
        self.space.free(allocation.base)
        if holding.flavour in ("device", "pool"):
            context.device.used -= allocation.size
        if holding.pool is not None:
            holding.pool.used -= allocation.size

    def repair(self) -> None:
        """Correct what an interrupted call can have left inconsistent: captures, and the sums of allocated bytes."""
        contexts = [thing for thing in self.handles.values() if isinstance(thing, Context)]
        streams = [stream for context in contexts for stream in context.streams.values()]
        for capture in {*self.captures, *(stream.capture for stream in streams if stream.capture is not None)}:
            capture.repair(streams)
        for context in contexts:
            context.captures = sum(s.blocking and s.capture is not None for s in context.streams.values())
        holdings = [holding for context in contexts for holding in context.holdings.values()]
        for device in self.devices:
            flavours = ("device", "pool")
            device.used = sum(
                holding.allocation.size
                for holding in holdings
                if holding.context.device is device and holding.flavour in flavours
            )
        for pool in [thing for thing in self.handles.values() if isinstance(thing, Pool)]:
            pool.used = sum(holding.allocation.size for holding in holdings if holding.pool is pool)

    # -- what people read

    def report(self, code: int, text: str) -> None:
        """Keep a report for people."""
        self.reports.append(text)
        del self.reports[:-1000]
        self.unread[code] = text

    def refuse(self, code: int, report: str = "") -> int:
        """Return a code from an entry, with its report; an older report of the same code is not about this."""
        if report:
            self.report(code, report)
        elif code not in STICKY:
            self.unread.pop(code, None)
        return code

    def explain(self, code: int) -> str | None:
        """Return the newest unread report for a code; what lost a context stays readable."""
        return self.unread.get(code) if code in STICKY else self.unread.pop(code, None)

    def live(self) -> dict[str, int]:
        """Count what a user has made and not given back, by kind; what a lost context took with it does not count."""
        counts = dict.fromkeys(("memory", "stream", "event", "module", "graph", "graphexec", "pool", "context"), 0)
        lost = set()
        for thing in self.handles.values():
            if isinstance(thing, Context):
                if thing.state and thing.state != _DESTROYED:
                    lost.add(thing)
                elif not thing.state:
                    counts["memory"] += sum(not holding.released for holding in thing.holdings.values())
                    counts["context"] += not thing.primary
        for device in self.devices:
            counts["context"] += 0 if device.primary in lost else device.retained
        for thing in self.handles.values():
            kind = type(thing).__name__.lower()
            context = getattr(thing, "context", None)
            if kind in counts and kind != "context" and (context is None or not context.state):
                counts[kind] += getattr(thing, "counted", True)
        return counts


def _caller() -> str:
    """Say which line of whose Python asked, the first outside of this package."""
    frame = sys._getframe(1)
    while frame.f_code.co_filename.startswith(_HERE):
        if frame.f_back is None:
            return ""
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_DUMMY = getattr(threading, "_DummyThread", None)
