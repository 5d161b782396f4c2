"""Creation and release of the handles that belong to a context, all by one table.

What it is   `Kind` and the table of kinds; `make`, which creates a handle and gives it to its owner; `Lifetime`, which
             releases it.
What not     the use of a stream, an event, memory, a module or a graph: each of them has its own file.
Interrupts   The owner's finalizer knows the C memory before the driver writes the handle there, so a handle that was
             created is released, whatever exception is raised. Only the caller that gets the Lifetime from its iterator
             `once` makes the releasing call, and it does both in one step of C.
Source       CUDA Driver API, the chapters of the functions in the table; cuThreadExchangeStreamCaptureMode: the capture
             mode "global" forbids unsafe calls in every thread
Read next    stream.py, memory.py
"""

from __future__ import annotations

import _thread  # (threading takes 1 ms to import)
import ctypes
from ctypes import byref
from itertools import chain, repeat

from ..driver import WRONG_CONTEXT
from ..errors import CudaError, ForkedAfterInit
from ..owned import Held, Owned, bound, drain, dropped
from ..tracing import careful
from .calls import UNTRIED, run, scratches, take_scratch
from .context import PrimaryContext

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from .calls import Calls

__all__ = [
    "ARRAY",
    "CLONE",
    "DEVICE",
    "EVENT",
    "EXECUTABLE",
    "GRAPH",
    "GREEN",
    "GREEN_STREAM",
    "IPC_EVENT",
    "IPC_MEMORY",
    "Kind",
    "LINK",
    "Leased",
    "Lifetime",
    "MANAGED",
    "MIPMAPPED",
    "MODULE",
    "ORDERED",
    "PINNED",
    "PITCHED",
    "POOL",
    "POOLED",
    "REGISTERED",
    "SHARED_EVENT",
    "STREAM",
    "SURFACE",
    "TEXTURE",
    "TIMED_EVENT",
    "around",
    "call_unnoticed",
    "beginning",
    "capturing",
    "make",
    "unnoticed",
]

_drop = dropped.append
_NONE = (None,) * 3  # as the second argument of next(): it raises no StopIteration
_RELAXED = 2  # CU_STREAM_CAPTURE_MODE_RELAXED


class Kind:
    """A row of the table.

    create     the function that creates the handle: (pointer to the handle, ..., numbers)
    numbers    its usual last arguments, prepared
    release    the function that releases the handle: (handle)
    unnoticed  whether releasing would break a stream capture in some thread, so that the capture mode is exchanged
    waits      whether the context's work must be complete before the release: cuMemFreeHost and cuModuleUnload wait for
               it themselves, although this is not documented; the functions that destroy arrays and textures may not
               wait for it, and cuMemFree_v2 does not if the memory comes from a pool
    """

    __slots__ = ("create", "numbers", "release", "unnoticed", "waits")

    def __init__(
        self,
        create: str,
        numbers: tuple[int, ...],
        release: str,
        *,
        unnoticed: bool = False,
        waits: bool = False,
    ) -> None:
        self.create, self.release = create, release
        self.numbers = tuple(map(ctypes.c_uint.from_param, numbers))
        self.unnoticed, self.waits = unnoticed, waits


STREAM = Kind("cuStreamCreateWithPriority", (1, 0), "cuStreamDestroy_v2")  # CU_STREAM_NON_BLOCKING, priority 0
EVENT = Kind("cuEventCreate", (2,), "cuEventDestroy_v2")  # CU_EVENT_DISABLE_TIMING
TIMED_EVENT = Kind("cuEventCreate", (0,), "cuEventDestroy_v2")
SHARED_EVENT = Kind("cuEventCreate", (2 | 4,), "cuEventDestroy_v2")  # also CU_EVENT_INTERPROCESS
DEVICE = Kind("cuMemAlloc_v2", (), "cuMemFree_v2", unnoticed=True)
# Stream-ordered memory is released by cuMemFreeAsync; see Lifetime. Where cuMemFree_v2 is called instead, the CPU waits
# first, because that function does not wait for work that uses such memory.
ORDERED = Kind("cuMemAllocAsync", (), "cuMemFree_v2", unnoticed=True, waits=True)
POOLED = Kind("cuMemAllocFromPoolAsync", (), "cuMemFree_v2", unnoticed=True, waits=True)
POOL = Kind("cuMemPoolCreate", (), "cuMemPoolDestroy", unnoticed=True)
PINNED = Kind(  # CU_MEMHOSTALLOC_PORTABLE, CU_MEMHOSTALLOC_DEVICEMAP
    "cuMemHostAlloc", (1 | 2,), "cuMemFreeHost", unnoticed=True, waits=True
)
REGISTERED = Kind("cuMemHostRegister_v2", (), "cuMemHostUnregister", unnoticed=True, waits=True)
MANAGED = Kind("cuMemAllocManaged", (1,), "cuMemFree_v2", unnoticed=True)  # CU_MEM_ATTACH_GLOBAL
PITCHED = Kind("cuMemAllocPitch_v2", (), "cuMemFree_v2", unnoticed=True)
IPC_MEMORY = Kind("cuIpcOpenMemHandle_v2", (), "cuIpcCloseMemHandle", unnoticed=True, waits=True)
IPC_EVENT = Kind("cuIpcOpenEventHandle", (), "cuEventDestroy_v2")
ARRAY = Kind("cuArray3DCreate_v2", (), "cuArrayDestroy", unnoticed=True, waits=True)
MIPMAPPED = Kind("cuMipmappedArrayCreate", (), "cuMipmappedArrayDestroy", unnoticed=True, waits=True)
TEXTURE = Kind("cuTexObjectCreate", (), "cuTexObjectDestroy", unnoticed=True, waits=True)
SURFACE = Kind("cuSurfObjectCreate", (), "cuSurfObjectDestroy", unnoticed=True, waits=True)
LINK = Kind("cuLinkCreate_v2", (), "cuLinkDestroy")
MODULE = Kind("cuModuleLoadDataEx", (), "cuModuleUnload", unnoticed=True, waits=True)
GRAPH = Kind("cuGraphCreate", (0,), "cuGraphDestroy")
CLONE = Kind("cuGraphClone", (), "cuGraphDestroy")
EXECUTABLE = Kind("cuGraphInstantiateWithFlags", (0,), "cuGraphExecDestroy")
GREEN = Kind("cuGreenCtxCreate", (1,), "cuGreenCtxDestroy", unnoticed=True, waits=True)  # CU_GREEN_CTX_DEFAULT_STREAM
GREEN_STREAM = Kind("cuGreenCtxStreamCreate", (1, 0), "cuStreamDestroy_v2")  # CU_STREAM_NON_BLOCKING, priority 0

# The number of each of our captures in progress, and the objects that must live as long as its graph.
capturing: dict[int, list[Any]] = {}
# The lock that is held while a capture begins. Code that waits for a whole context, which is possible only if there is
# no capture, holds it from the check to the end of the wait: the wait would break a capture that began in between.
beginning = _thread.RLock()


def make(
    owner: Owned,
    kind: Kind,
    primary: PrimaryContext,
    arguments: tuple[Any, ...] | None,
    by: Calls | None = None,
    stream: Any = None,
) -> Lifetime:
    """Create a handle that holds its context, and give it to its owner; return the C memory that contains it.

    arguments  the creating function's prepared arguments after the pointer to the handle; None: the caller makes the
               call, and the owner already releases what it writes
    by         the context's calls to use, if the arguments imply the context; by default it is made current
    stream     for ORDERED and POOLED, an object with queue(), which is kept as long as the memory
    raises     CudaError  from the driver
    """
    # What Owned._own(), PrimaryContext.hold() and a prepared call do is written out here: their four frames take 400 ns
    # of 2,100.
    if dropped:
        drain()
    lifetime = Lifetime()
    lifetime.kind, lifetime.primary = kind, primary
    lifetime.stream, lifetime.once = stream, iter((lifetime,))
    owner._handle, owner._release = None, lifetime
    owner.__del__ = bound(_drop, lifetime)  # from now on, the finalizer releases the handle, also after an interrupt
    primary.users.add(lifetime)
    if primary.closing or careful:
        primary.hold(lifetime)
    if arguments is None:
        return lifetime
    create = primary.functions[kind.create]
    code = UNTRIED
    if not careful and (by is primary.direct or primary.current_context() == primary._handle):
        code = create(byref(lifetime), *arguments)
    if code:
        try:
            (by or primary.inside).finish(create, code, (byref(lifetime), *arguments))
        except CudaError:
            lifetime.value = None
            lifetime.release(late=True)
            raise
    owner._handle = lifetime.value
    return lifetime


class Lifetime(ctypes.c_void_p):
    """The C memory that contains one handle, and the release of that handle; it also holds the context.

    As an argument of a prepared call it is the handle; byref() of it is the pointer that the creating function takes.

    stream  for memory that is freed in the order of a stream: that stream, an Ordering, or a Leased
    once    an iterator that yields this object to one caller only: that caller makes the releasing call
    """

    __slots__ = ("kind", "primary", "stream", "once")
    __hash__ = object.__hash__  # objects of ctypes have no hash, since their values can change

    kind: Kind
    primary: PrimaryContext
    stream: Any
    once: Iterator[Lifetime]

    def release(self, late: bool) -> None:
        """Release the handle, unless that was done already, or no handle was created; raise no error.

        late  called from drain(): then it does not wait for work, which would break a capture
        """
        kind, primary = self.kind, self.primary
        codes: list[int | None] = []
        again: Iterator[Lifetime] | None = None
        try:
            waits: bool | None = kind.waits and not late and not capturing
            if self.stream is not None and self.value:
                waits = self._release_in_order(late)
            if waits is not None and (not late or self.value):
                function = primary.functions[kind.release]
                # One step of C takes this object from the iterator and makes the call, so no interrupt comes in
                # between. The handle implies its context, which is pushed only if the driver asks for it.
                if waits or careful:
                    code = self._release_inside(function, self.once, waits)
                else:
                    if kind.unnoticed:
                        exchange = _exchange(primary)
                        change = exchange.calls
                        codes.extend(map(next, (change, map(function, self.once), change), _NONE))
                        _exchanges.append(exchange)
                        code = codes[1]
                    else:
                        codes.extend(map(function, self.once))
                        code = codes[0] if codes else None
                    if code and code in WRONG_CONTEXT:  # nothing was released
                        again = iter((self,))
                        code = self._release_inside(function, again, False)
                if code is not None and type(self) is not Lifetime:
                    self._released(code)
        except (CudaError, ForkedAfterInit):  # the context is lost, or this is a fork()ed child
            pass
        except BaseException:  # an interrupt
            if any(codes) and codes[len(codes) // 2] in WRONG_CONTEXT:
                self.once = again or iter((self,))
            raise
        self.once = _never
        primary.users.discard(self)
        if primary.closing:
            primary.let_go(self)

    def _released(self, code: int) -> None:
        """Note the code that the releasing call returned."""

    def _release_inside(self, function: Any, once: Iterator[Lifetime], waits: bool) -> int | None:
        """Make the releasing call while the context is current; return its code, or None if another caller makes it.

        waits  first wait for the work of the context, unless a stream is being captured
        """
        primary = self.primary
        inside, outer = primary._to_push(), self.kind.unnoticed
        steps: Iterable[Any] = zip((function,), once)
        place = int(outer)
        if waits:
            with Held(beginning):
                if not capturing:
                    place += 1
                    steps = chain(((primary.functions["cuCtxSynchronize"],),), steps)
                codes = run(around(primary, steps) if outer else steps, inside)
        else:
            codes = run(around(primary, steps) if outer else steps, inside)
        is_made = len(codes) == place + 1 + outer + (inside is not None)
        return codes[place] if is_made else None

    def _release_in_order(self, late: bool) -> bool | None:
        """Free memory in the order of a stream, and return None; otherwise, return whether the release has to wait.

        If other libraries may use the memory on streams that are not known, or its stream is closed, it has to wait for
        the context's work, unless that would break a capture. If no stream can be used, the memory is released like
        memory without a stream.

        calls   cuMemFreeAsync, cuStreamIsCapturing
        """
        primary, stream = self.primary, self.stream
        queue, is_leased = stream._argument or stream.queue(), type(stream) is Leased
        if (queue is None or is_leased) and not late and not capturing:
            return True
        if queue is None:
            return None if self._is_freed_later(None) else False
        # A stream of our own implies its context, which is pushed only if the driver asks for it.
        inside, scratch = None, take_scratch()
        ask = primary.functions["cuStreamIsCapturing"]
        failed = UNTRIED if careful or stream._primary is not primary else ask(queue, scratch.to_status)
        if failed and (failed == UNTRIED or failed in WRONG_CONTEXT):
            inside = primary._to_push()
            failed = run(((ask, queue, scratch.to_status),), inside)[0]
        is_capturing = failed or scratch.words.status
        scratches.append(scratch)
        if is_capturing or is_leased:
            return None if self._is_freed_later(None if is_capturing else queue) else False
        free = primary.functions["cuMemFreeAsync"]
        if careful or inside is not None:
            failed = any(run(zip((free,), self.once, (queue,)), inside)[:1])
        else:
            failed = any(map(free, self.once, (queue,)))
        if not failed:
            return None
        self.once = iter((self,))  # the memory was not freed
        return False

    def _is_freed_later(self, queue: Any) -> bool:
        """Queue the release after the work of the legacy default stream and of a closed stream; tell if it was queued.

        The CPU does not wait. The legacy stream comes after all streams of other libraries that are not non-blocking.

        queue   the stream in whose order the memory is freed; None: the legacy default stream
        calls   cuMemFreeAsync, cuStreamWaitEvent, cuEventCreate, cuEventRecord, cuEventDestroy_v2, cuStreamIsCapturing
        """
        primary, event, scratch = self.primary, ctypes.c_void_p(), take_scratch()
        functions, inside = primary.functions, primary._to_push()
        scratch.words.status = 0
        failed = run(((functions["cuStreamIsCapturing"], _LEGACY, scratch.to_status),), inside)[0]
        is_captured = failed or scratch.words.status  # or a stream for which the legacy stream would wait is captured
        scratches.append(scratch)
        if is_captured:
            return False
        before: list[Any] = []
        if queue is not None:
            before = [
                (functions["cuEventCreate"], byref(event), _NO_TIMING),
                (functions["cuEventRecord"], event, _LEGACY),
                (functions["cuStreamWaitEvent"], queue, event, _NO_FLAGS),
                (functions["cuEventDestroy_v2"], event),
            ]
        ended = self.stream.ended()  # (this reference keeps the event)
        if ended is not None:
            before.append((functions["cuStreamWaitEvent"], queue or _LEGACY, ended.argument, _NO_FLAGS))
        step = zip((functions["cuMemFreeAsync"],), self.once, (queue or _LEGACY,))
        codes = run(chain(before, step), inside)
        if len(codes) - (inside is not None) == len(before) + 1 and codes[len(before)]:
            self.once = iter((self,))  # the memory was not freed
            return False
        return True

    def give_away(self) -> bool:
        """Make later calls release nothing; return False if the handle was already released or given away."""
        first = next(self.once, None) is not None
        self.once = _never
        self.primary.users.discard(self)
        if self.primary.closing:
            self.primary.let_go(self)
        return first


class Leased:
    """The stream of memory that other libraries may use, on streams that are not known."""

    __slots__ = ("stream", "_primary", "_argument")

    def __init__(self, stream: Any) -> None:
        self.stream, self._primary, self._argument = stream, stream._primary, None

    def queue(self) -> Any:
        """Return the stream as an argument, or None."""
        return self.stream.queue()

    def ended(self) -> Any:
        """Return the event at the end of the stream's work, or None; see StreamHandle."""
        return self.stream.ended()


_never: Iterator[Lifetime] = iter(())
_LEGACY = ctypes.c_void_p(1)  # CU_STREAM_LEGACY
_NO_FLAGS, _NO_TIMING = ctypes.c_uint(0), ctypes.c_uint(2)  # CU_EVENT_DISABLE_TIMING


class _Exchange:
    """The exchange of this thread's capture mode with the relaxed one; a second exchange restores the mode.

    steps  one step, for calls.run()
    calls  an endless iterator: each item is the code that a call returned
    """

    __slots__ = ("steps", "calls")

    def __init__(self, primary: PrimaryContext) -> None:
        function = primary.driver.brief("cuThreadExchangeStreamCaptureMode")
        argument = byref(ctypes.c_uint(_RELAXED))
        self.steps = ((function, argument),)
        self.calls: Iterator[int] = map(function, repeat(argument))


_exchanges: list[_Exchange] = []  # those that no thread uses now: making one takes 700 ns


def _exchange(primary: PrimaryContext) -> _Exchange:
    """Return an exchange for this thread alone; append it to `_exchanges` afterwards (a lost one is replaced)."""
    try:
        return _exchanges.pop()
    except IndexError:
        return _Exchange(primary)


def around(primary: PrimaryContext, steps: Iterable[Any]) -> Iterable[Any]:
    """Surround an iterator of steps, which yields each step when it is made, in the same way as unnoticed()."""
    exchange = _exchange(primary).steps
    return chain(exchange, steps, exchange)


def call_unnoticed(primary: PrimaryContext, step: tuple[Any, ...]) -> int:
    """Make a call in the same way as unnoticed(), and return its code; its arguments imply their context."""
    exchange = _exchange(primary)
    steps = (*exchange.steps, step, *exchange.steps)
    code = UNTRIED if careful else run(steps)[1]
    if code == UNTRIED or code in WRONG_CONTEXT:
        code = run(steps, primary._to_push())[1]
    _exchanges.append(exchange)
    return code


def unnoticed(primary: PrimaryContext, steps: tuple[Any, ...]) -> tuple[Any, ...]:
    """Surround steps with changes of this thread's capture mode, so that they do not break a capture.

    calls   cuThreadExchangeStreamCaptureMode
    """
    exchange = _exchange(primary).steps
    return (*exchange, *steps, *exchange)
