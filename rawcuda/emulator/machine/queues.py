"""Streams: queues of work, and the rules for when work runs.

What it is   Work, Stream, Event, and Queues, which accepts work and decides when each piece runs.
How          Each piece of work lists what it must wait for: its predecessor in the stream, events, and what the legacy
             default stream joins. All of these were submitted earlier, so there is always work that can run, and every
             wait ends. Work runs in the thread that makes a call; only work before an event that is shared with other
             processes may run in the background (machine/sharing.py). The mode decides when work runs:

             eager   in the call that submits it
             lazy    as late as possible: when a call waits for it, and then only the work that this call needs
             random  at any time between these two, in any order that events and streams permit; a seeded generator
                     chooses

             Short work (copies, fills, event marks) runs with the machine's lock held. A kernel runs with the lock
             released, so that other Python threads can make calls, and only one kernel runs at a time, so that atomics
             are atomic. All host functions run in a separate thread, as in the driver: such a function may wait for a
             lock that the caller of cuLaunchHostFunc holds. Eager mode waits for the function only a short time, and
             then leaves the rest of the stream pending. In that thread, every entry point returns
             CUDA_ERROR_NOT_PERMITTED. An interrupt can leave the queues in an inconsistent state, which `repair`
             corrects.

             A wait for a value in memory is different, because the host may write the value at any time. A call that
             waits for such work looks at the memory every few milliseconds, and runs other work in the meantime. If
             there is no other work and no other thread, nobody can write the value: after a few seconds, the context
             becomes unusable with CUDA_ERROR_LAUNCH_TIMEOUT. A GPU would wait forever.
Source       CUDA Driver API, "Stream synchronization behavior"; Programming Guide, "Asynchronous Concurrent Execution"
Read next    machine.py, recovery.py, entries/tasks/stream_entries.py
"""

from __future__ import annotations

import random
import threading
import time
from collections import deque
from contextlib import contextmanager
from functools import partial

from .codes import Refused
from .native_threads import are_others
from .recovery import RUNNING, is_outside, unlocked
from .space import Fault

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Callable

    from ..entries.graphs.capture import Capture
    from ..entries.graphs.definitions import Node
    from ..entries.hardware.green_entries import GreenContext
    from .machine import Context, Machine
    from .sharing import SharedMark
    from .space import Allocation

__all__ = [
    "INSTANT",
    "KERNEL",
    "HOST",
    "CONTROL",
    "Conditional",
    "Work",
    "Stream",
    "Event",
    "Queues",
    "nothing",
]

INSTANT, KERNEL, HOST, CONTROL = range(4)  # CONTROL: short work that inserts other work behind itself
_PATIENCE = 0.1  # seconds for which eager mode waits for work in another thread
_LOOK_EVERY = 0.005  # seconds between two checks of a value that work waits for
_HOPELESS = 3.0  # seconds after which a wait ends if nobody can write the value
_PENDING = 1024  # pieces of work that a context holds; a launch beyond them waits, as in drivers


def nothing() -> None:
    """Do nothing: empty nodes, waits and marks only occupy a place in the queue."""


class Conditional:
    """A function for Queues.submit(), or for the node of a graph, that depends on more than the order of its stream.

    ready      returns whether the function may run now; None: always
    after      called when the function is submitted; returns further work that it must wait for
    submitted  called with the work that is made from the function
    always     whether the function runs in an unusable context, too
    """

    __slots__ = ("run", "ready", "after", "submitted", "always")

    def __init__(
        self,
        run: Callable[[], None],
        ready: Callable[[], bool] | None = None,
        after: Callable[[], Iterable[Work | None]] | None = None,
        submitted: Callable[[Work], None] | None = None,
        always: bool = False,
    ) -> None:
        self.run, self.ready, self.after, self.submitted, self.always = run, ready, after, submitted, always

    def __call__(self) -> None:
        self.run()


class Work:
    """A piece of work: `run` performs it, after the earlier work of its stream and all work in `after`.

    given, site  for reports, if the work has not run at once: the arguments of a kernel, or the address that it writes
                 to, in 8 bytes; and the line of the program
    """

    __slots__ = (
        "run",
        "name",
        "kind",
        "stream",
        "after",
        "ready",
        "always",
        "runner",
        "begun",
        "done",
        "time_ns",
        "given",
        "site",
    )

    def __init__(self, run: Callable[[], None], name: str, kind: int, stream: Stream) -> None:
        self.run, self.name, self.kind, self.stream = run, name, kind, stream
        self.after: list[Work] = []
        self.ready: Callable[[], bool] | None = None
        self.always = False  # whether it runs in an unusable context, too
        self.runner = 0  # the thread that runs it with the machine's lock released
        self.begun = self.done = False
        self.time_ns = 0
        self.given, self.site = b"", ""

    def can_run(self) -> bool:
        """Tell whether everything that this work waits for is done; it must be the first in its queue."""
        return all(other.done for other in self.after) and (
            self.ready is None or bool(self.stream.context.state) or self.ready()
        )

    def names(self, allocation: Allocation) -> bool:
        """Tell whether an address that was given to this work is inside an allocation."""
        found = [int.from_bytes(self.given[at : at + 8], "little") for at in range(0, len(self.given) - 7, 8)]
        return any(allocation.base <= address < allocation.base + allocation.size for address in found)

    def __repr__(self) -> str:
        return f"<{self.name} in {self.stream!r}>"


class Stream:
    """A queue of work in one context; `blocking` streams synchronize with the legacy default stream.

    shape   attributes: the values that cuStreamSetAttribute set, by number; green: its green context, or None
    """

    __slots__ = (
        "handle",
        "attributes",
        "green",
        "ident",
        "context",
        "flags",
        "priority",
        "blocking",
        "queue",
        "running",
        "last",
        "capture",
        "closed",
    )

    def __init__(self, context: Context, ident: int, *, flags: int = 0, priority: int = 0) -> None:
        self.handle = 0
        self.ident, self.context, self.flags, self.priority = ident, context, flags, priority
        self.blocking = not flags & 1
        self.attributes: dict[int, bytes] = {}
        self.green: GreenContext | None = None
        self.queue: deque[Work] = deque()
        self.running: Work | None = None
        self.last: Work | None = None
        self.capture: Capture | None = None
        self.closed = False

    def __repr__(self) -> str:
        return f"<stream {self.ident}>"


class Event:
    """A mark in a stream: a piece of work that is done when the stream reaches the mark."""

    __slots__ = ("handle", "context", "flags", "_work", "captured", "shared")

    def __init__(self, context: Context, flags: int) -> None:
        self.handle = 0
        self.context, self.flags = context, flags
        self._work: Work | None = None
        self.shared: SharedMark | None = None  # of an event that other processes may open
        self.captured: tuple[Capture, tuple[Node, ...]] | None = None  # recorded during a capture: after these nodes

    @property
    def work(self) -> Work | None:
        """Return the work of the last record in this process, which reaches the mark. Setting it records the event."""
        return self._work

    @work.setter
    def work(self, work: Work | None) -> None:
        self._work = work
        if self.shared is not None and work is not None:
            self.shared.record(work)

    @property
    def reached(self) -> bool:
        """Tell whether the mark is reached; an event that was never recorded counts as reached."""
        if self.shared is not None:
            return self.shared.reached
        return self._work is None or self._work.done

    def close(self) -> None:
        """Close the file that an event shares with other processes."""
        if self.shared is not None:
            self.shared.close()


class Queues:
    """The scheduler of all streams, in one of three modes; every method is called with the machine's lock held.

    Why long  the three modes share all of the state: what waits, what runs, and who waits for whom
    """

    def __init__(self, machine: Machine, mode: str, seed: int) -> None:
        self.mode = mode
        self._machine = machine
        self._random = random.Random(seed)
        self.chance = self._random if mode == "random" else None
        self._changed = threading.Condition(machine.lock)
        self._waiting = 0
        self._late: list[Callable[[], None]] = []  # functions to call when the running work has ended
        self._inside: set[int] = set()  # the threads that run work
        self.crowded = 0  # the thread whose launch waits until its context has room; other threads' calls wait for it
        self._hopeless_from = 0.0  # when a wait for a value that nobody can write ends; 0: no such wait
        self._busy: dict[Stream, None] = {}  # streams with work in their queues, oldest first
        self.marks: list[tuple[Work, SharedMark, int]] = []  # records of shared events that were not reached yet
        self.along = False  # whether a thread runs the work before these marks; see machine/sharing.py
        self._submit_more = {"eager": self._submit_eager, "lazy": self._submit_lazy, "random": self._submit_random}[
            mode
        ]

    # -- accepting work

    def admit(self, stream: Stream) -> None:
        """Refuse work on the legacy default stream that a capture forbids; called before anything is changed."""
        if stream.context.captures and stream is stream.context.legacy:
            stream.context.refuse_implicit()

    def submit(
        self,
        stream: Stream,
        run: Callable[[], None],
        name: str,
        kind: int = INSTANT,
        after: Iterable[Work] = (),
        *,
        waits: bool = False,
    ) -> Work:
        """Queue work and return it, or add it to the graph that the stream captures.

        waits   whether the call must not return before the work is done: it is refused if it cannot wait, and then
                nothing is queued
        """
        context = stream.context
        if stream.capture is not None:
            stream.capture.run(stream, run, name, kind)
            return Work(run, name, kind, stream)  # callers must not wait for this work, because it never runs
        self.admit(stream)
        work = Work(run, name, kind, stream)
        for other in after:
            if not other.done:
                work.after.append(other)
        if type(run) is Conditional:
            work.ready, work.always = run.ready, run.always
            work.after += [
                other for other in (run.after() if run.after else ()) if other is not None and not other.done
            ]
            if run.submitted is not None:
                run.submitted(work)
        if stream.blocking:
            self._join(stream, context, work)
        at_once = kind == INSTANT and not stream.queue and not work.after and self.mode == "eager" and work.can_run()
        if waits and not (at_once and stream.running is None):
            self.refuse_inside_work()
        if at_once:
            self._execute(work)  # nothing to wait for, so it needs no queue
            if work.done:
                return work
        idle, me = not self._busy, threading.get_ident()
        is_nested = me in self._inside
        self._inside.add(me)  # until the queue is consistent
        stream.queue.append(work)
        self._busy[stream] = None
        stream.last = stream.queue[-1]
        if is_nested:
            return work
        self._inside.discard(me)
        if idle and self.mode == "eager" and work.can_run() and not work.done and stream.queue[0] is work:
            self._execute(work)  # no other work could come first
        self.go_on(work)
        return work

    @contextmanager
    def together(self) -> Iterator[None]:
        """Run nothing of what a with block queues before all of it is queued, behind one another."""
        me = threading.get_ident()
        is_nested = me in self._inside
        self._inside.add(me)
        try:
            yield
        finally:
            if not is_nested:
                self._inside.discard(me)

    def go_on(self, work: Work) -> None:
        """Do what submit() does after it has queued some work, in this mode."""
        if threading.get_ident() not in self._inside and not work.done:
            self._submit_more(work)

    def make_room(self, context: Context) -> None:
        """Before a launch, wait until the context can hold its work: a driver waits with a lock of the context held."""
        if not self._is_full(context) or self.inside_work():
            return
        self.crowded = threading.get_ident()
        try:
            self._complete_oldest(context)
        finally:
            self.crowded = 0
            self._changed.notify_all()

    def _complete_oldest(self, context: Context) -> None:
        while self._is_full(context):
            self.complete(next(s.queue[0] for s in self._busy if s.context is context and s.queue))

    def _is_full(self, context: Context) -> bool:
        return sum(len(stream.queue) for stream in tuple(self._busy) if stream.context is context) >= _PENDING

    def wait_for_room(self) -> None:
        """Wait until the launch of another thread has room."""
        while self.crowded not in (0, threading.get_ident()):
            self._changed.wait()

    def follow(self, stream: Stream, pieces: Iterable[tuple[Callable[[], None], str, int]]) -> None:
        """Put work directly behind the piece of work that a stream runs now, which is the first in its queue."""
        for place, (run, name, kind) in enumerate(pieces, 1):
            stream.queue.insert(place, Work(run, name, kind, stream))

    def _join(self, stream: Stream, context: Context, work: Work) -> None:
        """Make the legacy default stream and the blocking streams wait for each other."""
        if stream is not context.legacy:
            last = context.legacy.last
            if last is not None and not last.done:
                work.after.append(last)
            return
        for other in tuple(context.streams.values()):
            last = other.last
            if other.blocking and other is not stream and last is not None and not last.done:
                work.after.append(last)

    def _submit_lazy(self, work: Work) -> None:
        pass

    def _submit_eager(self, work: Work) -> None:
        deadline = 0.0
        while not work.done:
            head = next(iter(self._ready()), None)
            if head is not None:
                self._execute(head)
                continue
            now = time.monotonic()
            deadline = deadline or now + _PATIENCE
            if now >= deadline or not self.is_running():
                return  # another thread runs it and may wait for our caller, or the work waits for a value
            self._wait(deadline - now)

    def _submit_random(self, work: Work) -> None:
        for _ in range(self._random.choice((0, 0, 0, 1, 1, 2, 5))):
            ready = list(self._ready())
            if not ready:
                return
            self._execute(self._random.choice(ready))

    # -- waiting for work

    def complete(self, work: Work | None, until: float | None = None) -> None:
        """Run a piece of work and everything that it needs, and return when it is done.

        units   until: seconds of time.monotonic(); after it, this waits no more for values and host functions
        """
        while work is not None and not work.done:
            self.refuse_inside_work()
            head = self._choose(work)
            if head is not None:
                self._execute(head)
            elif until is None:
                self._wait(None)
            elif time.monotonic() < until:
                self._wait(until - time.monotonic())
            else:
                return

    def is_busy(self) -> bool:
        """Tell whether any work is pending."""
        return any(stream.queue for stream in tuple(self._busy))

    def is_running(self) -> bool:
        """Tell whether any work runs now."""
        return any(stream.running is not None for stream in tuple(self._busy))

    def pending(self, stream: Stream) -> list[Work]:
        """List the work that must be done before a stream is idle; the legacy stream includes all blocking streams."""
        streams = [stream]
        if stream is stream.context.legacy:
            others = list(stream.context.streams.values())  # one C call: a signal handler may make a stream meanwhile
            streams += [other for other in others if other.blocking and other is not stream]
        return [other.last for other in streams if other.last is not None and not other.last.done]

    def missed(self, allocation: Allocation) -> str:
        """Return words about pending work that may write an allocation, and that the running work does not wait for.

        They are for a report of memory that was never written, and "" if there is no such work.
        """
        with self._machine.lock:  # (it is released while a kernel runs)
            work = self._missed(allocation)
        if work is None:
            return ""
        site = f" at {work.site}" * bool(work.site)
        return (
            f"; {work.name}, submitted{site} to another stream, may write it and has not run: let this stream wait for "
            "the other one, stream.wait(other), or use one stream for both"
        )

    def _missed(self, allocation: Allocation) -> Work | None:
        queues = [[*stream.queue] for stream in self._busy]
        next_of: dict[Work, list[Work]] = {}  # the work that waits for a piece of work directly
        for queue in queues:
            for work, following in zip(queue, queue[1:]):
                next_of.setdefault(work, []).append(following)
            for work in queue:
                for other in work.after:
                    next_of.setdefault(other, []).append(work)
        waiting = [stream.running for stream in self._busy if stream.running is not None]
        later = {*waiting}  # the running work, and all that waits for it
        while waiting:
            found = [work for work in next_of.get(waiting.pop(), ()) if work not in later]
            later.update(found)
            waiting += found
        pending = (work for queue in queues for work in queue if not work.done and work not in later)
        return next((work for work in pending if work.names(allocation)), None)

    def complete_context(self, context: Context, until: float | None = None) -> None:
        """Finish all work of a context, as far as `complete` waits for it."""
        for stream in list(context.streams.values()):
            self.complete(stream.last, until)

    def nudge(self, work: Work | None) -> None:
        """Run some of the work that a query asks about, so that a loop of queries ends."""
        if work is None or work.done or self.inside_work():
            return
        while self.mode == "eager":  # in eager mode, only work that waited for a value is left
            ready = next(iter(self._ready()), None)
            if ready is None or work.done:
                return
            self._execute(ready)
        head = self._choose(work)
        if head is not None and (self.mode == "lazy" or self._random.random() < 0.7):
            self._execute(head)

    def push(self, work: Work) -> None:
        """Run a piece of work and what it needs, as far as that can run now."""
        while not work.done and not self._inside:
            head = self._choose(work)
            if head is None:
                return
            self._execute(head)

    def publish(self) -> None:
        """Tell other processes which shared events were reached."""
        for entry in [entry for entry in self.marks if entry[0].done]:
            _, mark, number = entry
            mark.reach(number)
            try:
                self.marks.remove(entry)  # afterwards: what an error or an interrupt ended is done again
            except ValueError:  # a signal handler has removed it
                pass
            if mark.closed:
                mark.close()

    def _ready(self) -> Iterable[Work]:
        """Yield the first work of each queue if it can run now."""
        for stream in list(self._busy):
            head = stream.queue[0] if stream.queue and stream.running is None else None
            if head is not None and head.can_run():
                yield head

    def _choose(self, work: Work) -> Work | None:
        """Return the next work to run so that `work` can end; None: another thread runs it, or it waits for a value."""
        if self.mode == "random":
            ready = list(self._ready())
            if ready:
                return self._random.choice(ready)
        while True:
            if work.stream.running is not None:
                return None
            head = work.stream.queue[0] if work.stream.queue else None
            if head is None:
                return None  # a signal handler has run it
            for other in head.after:
                if not other.done:
                    work = other
                    break
            else:
                # A value that it waits for may be written by any other work.
                return head if head.can_run() else next(iter(self._ready()), None)

    def _wait(self, seconds: float | None) -> None:
        """Wait until another thread finishes work, or a short time if work waits for a value."""
        heads = [stream.queue[0] for stream in tuple(self._busy) if stream.queue]
        blocked = [head for head in heads if head.ready is not None]
        if blocked:
            seconds = _LOOK_EVERY if seconds is None else min(seconds, _LOOK_EVERY)
        if self.is_running():
            self._hopeless_from = 0.0
        elif not blocked:
            if not self.is_busy():
                return  # a signal handler has run all work
            raise RuntimeError(f"no work can run, and none runs: {[list(stream.queue) for stream in self._busy]}")
        elif are_others() or any(getattr(work.ready, "elsewhere", False) for work in blocked):
            self._hopeless_from = 0.0  # another thread may write the value, or another process
        elif not self._hopeless_from:
            self._hopeless_from = time.monotonic() + _HOPELESS
        elif time.monotonic() > self._hopeless_from:
            self._hopeless_from = 0.0
            blocked[0].stream.context.lose(702, f"{blocked[0].name}: nothing is left that could write this value")
            return
        self._waiting += 1
        try:
            self._changed.wait(seconds)
        finally:
            self._waiting -= 1

    # -- running work

    def _execute(self, work: Work) -> None:
        """Run a piece of work in this call, or give a host function to its thread.

        A __del__ method or a signal handler can call the driver between any two steps. Once this thread is in _inside,
        such a call runs no work; if it has run this work before, nothing is left to do.
        """
        me, stream = threading.get_ident(), work.stream
        is_nested = me in self._inside
        self._inside.add(me)
        if not work.done and stream.running is None:
            stream.running = work
            if work.kind == HOST and (work.always or not stream.context.state):
                self._machine.host_thread.give(work)
            else:
                self._run(work)
            if stream.context.state and not is_nested:
                self._drop(stream.context)
        if is_nested:
            return
        self._inside.discard(me)
        while self._late and not self.inside_work():
            run = self._late[0]
            run()
            if run in self._late:
                self._late.remove(run)

    def _drop(self, context: Context) -> None:
        """Run what is left in an unusable context, in which most work does nothing; no later call will wait for it."""
        with self.together():
            while True:
                ready = [work for work in self._ready() if work.stream.context is context]
                if not ready:
                    return
                for work in ready:
                    self._execute(work)

    def _run(self, work: Work) -> None:
        """Run work that was marked as running; in an unusable context, only remove it from its queue.

        An interrupt and a lack of memory are not handled here: `repair` finishes the work, or leaves it in its queue.
        """
        context = work.stream.context
        try:
            if work.always or not context.state:
                if work.kind == KERNEL:
                    self.run_unlocked(work)
                else:
                    work.begun = True
                    work.run()
        except Fault as fault:
            context.lose(fault.code, fault.report)
        except MemoryError:
            raise
        except Exception as caught:
            if is_outside(caught):
                raise
            context.lose(719, f"the emulator itself failed in {work!r}: {caught!r}")
            self._machine.keep(caught)
        self.finish(work)

    def after_work(self, run: Callable[[], None]) -> None:
        """Call a function when the running work has ended; after an interrupt, it may be called twice."""
        self._late.append(run)

    def run_unlocked(self, work: Work) -> None:
        """Run work while other threads may make calls; a kernel also waits until no other kernel runs."""
        work.runner = threading.get_ident()
        unlocked(self._machine, partial(_run, work))

    def inside_work(self) -> bool:
        """Tell whether this call was made while its thread runs work, by a __del__ method or a signal handler.

        Such a call may queue work, but cannot wait for it, because its own thread would have to run it.
        """
        return threading.get_ident() in self._inside

    def refuse_inside_work(self) -> None:
        """Refuse a call that must wait for work if it was made while its thread runs work."""
        if threading.get_ident() in self._inside:
            raise Refused(
                800,
                "a __del__ method that a garbage collection called, or a signal handler, waits for work while its "
                "thread runs an emulated kernel or copy: do not wait in __del__ or in a signal handler",
            )

    def finish(self, work: Work) -> None:
        """Mark work as done, and notify the threads that wait."""
        stream = work.stream
        work.time_ns = time.perf_counter_ns()
        work.done = True
        self._hopeless_from = 0.0
        work.run, work.after = _nothing, []  # releases what they refer to
        if stream.running is work:  # leave() may have finished it before
            stream.running = None
        if stream.queue and stream.queue[0] is work:
            stream.queue.popleft()
            if not stream.queue:
                self._busy.pop(stream, None)
                if stream.closed:
                    stream.context.streams.pop(stream.ident, None)
        if self.marks:
            self.publish()
        if self._waiting:
            self._changed.notify_all()

    def finish_host(self, work: Work) -> None:
        """Finish a host function in the thread of host functions; in eager mode, run the work that waited for it."""
        self.finish(work)
        if work.stream.context.state:
            self._drop(work.stream.context)
        while self.mode == "eager":
            head = next(iter(self._ready()), None)
            if head is None:
                return
            self._execute(head)

    def leave(self) -> None:
        """Count all work that runs as done, and leave it to the threads that run it."""
        for stream in list(self._busy):
            if stream.running is not None:
                self.finish(stream.running)
        self._machine.host_thread.leave()

    # -- after an interrupt

    def repair(self, running: set[Work]) -> None:
        """Correct what an interrupted call of this thread can have left inconsistent.

        Work that had begun counts as done, although perhaps only a part of it was done. Work that had not begun stays
        in its queue. Work that was not in a queue yet is dropped.

        shape   running: the work that calls further down this thread's stack are running
        """
        me = threading.get_ident()
        if not running:
            self._inside.discard(me)
            if self.crowded == me:
                self.crowded = 0
        contexts = [thing for thing in list(self._machine.handles.values()) if hasattr(thing, "per_thread")]
        streams = {stream for context in contexts for stream in list(context.streams.values())}
        for stream in streams | set(self._busy):
            work = stream.running
            if work is not None and work not in running:
                if work.runner in (0, me) and work not in self._machine.host_thread.given:
                    self._stop(work)
            self._repair_queue(stream)
        self._machine.host_thread.ring()
        self._changed.notify_all()

    def _stop(self, work: Work) -> None:
        """Record that work no longer runs, because its call was interrupted."""
        if work.begun and not work.done:
            self._machine.report(999, f"{work.name!r} was interrupted, and perhaps only a part of it was done")
            work.done = True
        work.stream.running = None

    def _repair_queue(self, stream: Stream) -> None:
        """Make the queue of a stream consistent with the state of its work."""
        while stream.queue and stream.queue[0].done:
            stream.queue.popleft()
        last = stream.last
        if last is not None and last is not stream.running and last not in stream.queue:
            last.done = True
        if stream.queue:
            stream.last = stream.queue[-1]
            self._busy[stream] = None
        if stream.queue or stream.running is not None:
            return
        self._busy.pop(stream, None)
        if stream.closed:
            stream.context.streams.pop(stream.ident, None)


def _run(work: Work) -> None:
    if work.kind == KERNEL:
        with RUNNING:
            work.begun = True
            work.run()
    else:
        work.begun = True
        work.run()


def _nothing() -> None:
    raise Refused(999, "work ran twice")
