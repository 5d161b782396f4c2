"""Creating and releasing the handles that belong to a context: one table, one maker, one releaser.

What it is   `Kind` and the table of kinds; `make`, which creates a handle and gives it to its owner; `Lifetime`, which
             releases it.
What not     the use of a stream, an event, memory, a module or a graph: each has its own room.
Interrupts   The owner's finalizer knows the C memory before the driver writes the handle there: whatever exception is
             raised, a handle that was created is released. Only the caller that gets the Lifetime from its iterator
             `once` makes the releasing call, and it does both in one step of C.
Source       CUDA Driver API, the chapters of the functions in the table; cuThreadExchangeStreamCaptureMode: the capture
             mode "global" forbids unsafe calls in every thread
Read next    stream.py, memory.py
"""

from __future__ import annotations

import _thread  # (threading takes 1 ms to import)
import ctypes
from ctypes import byref
from itertools import chain

from ..errors import CudaError, ForkedAfterInit
from ..owned import Held, Owned, drain, dropped
from ..tracing import careful
from .calls import run, scratches, take_scratch
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
    "STREAM",
    "SURFACE",
    "TEXTURE",
    "TIMED_EVENT",
    "around",
    "beginning",
    "capturing",
    "expect",
    "make",
    "unnoticed",
]

_RELAXED = 2  # CU_STREAM_CAPTURE_MODE_RELAXED


class Kind:
    """A row of the table.

    create     the function that creates the handle: (pointer to the handle, ..., numbers)
    numbers    its usual last arguments, prepared
    release    the function that releases the handle: (handle)
    unnoticed  whether releasing would break a stream capture in some thread, so that the capture mode is exchanged
    waits      whether the context's work must be complete before: cuMemFreeHost and cuModuleUnload also wait for it,
               although this is not documented; the functions that destroy arrays and textures may not, nor does
               cuMemFree_v2 if the memory is of a pool
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
DEVICE = Kind("cuMemAlloc_v2", (), "cuMemFree_v2", unnoticed=True)
# In the order of a stream: released by cuMemFreeAsync; see Lifetime. The CPU waits before it calls cuMemFree_v2, which
# does not wait for work that uses such memory.
ORDERED = Kind("cuMemAllocAsync", (), "cuMemFree_v2", unnoticed=True, waits=True)
POOLED = Kind("cuMemAllocFromPoolAsync", (), "cuMemFree_v2", unnoticed=True, waits=True)
POOL = Kind("cuMemPoolCreate", (), "cuMemPoolDestroy", unnoticed=True)
PINNED = Kind(  # CU_MEMHOSTALLOC_PORTABLE, CU_MEMHOSTALLOC_DEVICEMAP
    "cuMemHostAlloc", (1 | 2,), "cuMemFreeHost", unnoticed=True, waits=True
)
REGISTERED = Kind("cuMemHostRegister_v2", (), "cuMemHostUnregister", unnoticed=True, waits=True)
MANAGED = Kind("cuMemAllocManaged", (1,), "cuMemFree_v2", unnoticed=True)  # CU_MEM_ATTACH_GLOBAL
PITCHED = Kind("cuMemAllocPitch_v2", (), "cuMemFree_v2", unnoticed=True)
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
# Held while a capture begins, and by whoever finds that there is none and therefore waits for a whole context: it would
# break a capture that began in between.
beginning = _thread.RLock()


def make(
    owner: Owned,
    kind: Kind,
    primary: PrimaryContext,
    arguments: tuple[Any, ...],
    by: Calls | None = None,
    stream: Any = None,
) -> None:
    """Create a handle that holds its context, and give it to its owner.

    arguments  the creating function's prepared arguments after the pointer to the handle
    by         the context's calls to use; by default those that make the context current
    stream     for ORDERED and POOLED, an object with queue(), which is kept as long as the memory
    raises     CudaError  from the driver
    """
    lifetime = expect(owner, kind, primary, stream)
    try:
        getattr(by or primary.inside, kind.create)(byref(lifetime), *arguments)
    except CudaError:
        lifetime.value = None
        lifetime.release(late=True)
        raise
    owner._handle = lifetime.value


def expect(owner: Owned, kind: Kind, primary: PrimaryContext, stream: Any = None) -> Lifetime:
    """Return the C memory that a handle will be written to, which its owner releases from now on."""
    if dropped:
        drain()
    lifetime = Lifetime()
    lifetime.kind, lifetime.primary, lifetime.stream = kind, primary, stream
    lifetime.once = iter((lifetime,))
    owner._own(None, lifetime)  # from now on, the finalizer releases what an interrupted creation leaves
    primary.hold(lifetime)
    return lifetime


class Lifetime(ctypes.c_void_p):
    """The C memory that contains one handle, and the release of that handle; it also holds the context.

    As an argument of a prepared call it is the handle; byref() of it is the pointer that the creating function takes.

    stream  for memory that is freed in the order of a stream: an object with queue() and ended()
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
        try:
            if self.value:
                inside = None if primary.current_context() == primary._handle else primary
                if self.stream is not None:
                    self._release_in_order(inside, late)
                elif kind.unnoticed:
                    self._release_unnoticed(inside, kind.waits and not late)
                elif careful or inside is not None:
                    run(zip((primary.function(kind.release),), self.once), inside)
                else:
                    # map() takes this object from the iterator and makes the call in one step of C: no interrupt can
                    # come in between. It saves 300 ns of 600 against run().
                    for _ in map(primary.function(kind.release), self.once):
                        pass
        except (CudaError, ForkedAfterInit):  # the context is lost, or this is a fork()ed child
            pass
        self.once = _never
        primary.users.discard(self)
        if primary.closing:
            primary.let_go(self)

    def _release_unnoticed(self, inside: PrimaryContext | None, waits: bool) -> None:
        """Release memory or a module so that no capture in any thread is broken.

        waits  wait before for the work of the context, unless a stream is being captured
        """
        primary = self.primary
        exchange = _exchange(primary)
        step = zip((primary.function(self.kind.release),), self.once)
        first: tuple[Any, ...] = (exchange,)
        if waits:
            with Held(beginning):
                if not capturing:
                    first = exchange, (primary.function("cuCtxSynchronize"),)
                codes = run(chain(first, step, (exchange,)), inside)
        else:
            codes = run(chain(first, step, (exchange,)), inside)
        _exchanges.append(exchange)
        if len(codes) - (inside is not None) == len(first) + 2:  # this caller made the releasing call
            self._released(codes[len(first)])

    def _released(self, code: int) -> None:
        """Note the code that the releasing call returned."""

    def _release_in_order(self, inside: PrimaryContext | None, late: bool) -> None:
        """Free memory in the order of its stream if only that used it, otherwise after all work that may use it.

        calls   cuMemFreeAsync, cuStreamIsCapturing
        """
        primary, queue, is_leased = self.primary, self.stream.queue(), type(self.stream) is Leased
        is_captured = queue is not None and _is_capturing(primary, queue, inside)
        if queue is not None and not is_captured and not is_leased:
            if not any(run(zip((primary.function("cuMemFreeAsync"),), self.once, (queue,)), inside)[:1]):
                return
            self.once = iter((self,))  # the memory was not freed
        waits = not late and not capturing and (queue is None or is_leased)
        if not waits and self._is_freed_later(None if is_captured else queue, inside):
            return
        self._release_unnoticed(inside, waits and not is_captured)

    def _is_freed_later(self, queue: Any, inside: PrimaryContext | None) -> bool:
        """Queue the release after the work of the legacy default stream and of a closed stream; tell whether it was.

        The CPU does not wait. The legacy stream comes after all streams of other libraries that are not non-blocking.

        queue   the stream in whose order the memory is freed; None: the legacy default stream
        calls   cuMemFreeAsync, cuStreamWaitEvent, cuEventRecord
        """
        primary = self.primary
        function, event, zero = primary.function, ctypes.c_void_p(), _NO_FLAGS
        if _is_capturing(primary, _LEGACY, inside):  # or one that the legacy stream would wait for
            return False
        before: list[Any] = []
        if queue is not None:
            before = [
                (function("cuEventCreate"), byref(event), _NO_TIMING),
                (function("cuEventRecord"), event, _LEGACY),
                (function("cuStreamWaitEvent"), queue, event, zero),
                (function("cuEventDestroy_v2"), event),
            ]
        ended = self.stream.ended()  # (this reference keeps the event)
        if ended is not None:
            before.append((function("cuStreamWaitEvent"), queue or _LEGACY, ended.argument, zero))
        step = zip((function("cuMemFreeAsync"),), self.once, (queue or _LEGACY,))
        codes = run(chain(before, step), inside)[: len(before) + 1]
        if len(codes) == len(before) + 1 and codes[-1]:
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

    __slots__ = ("stream",)

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def queue(self) -> Any:
        """Return the stream as an argument, or None; see Lifetime."""
        return self.stream.queue()

    def ended(self) -> Any:
        """Return the event at the end of the stream's work, or None; see StreamHandle."""
        return self.stream.ended()


_never: Iterator[Lifetime] = iter(())
_LEGACY = ctypes.c_void_p(1)  # CU_STREAM_LEGACY
_NO_FLAGS, _NO_TIMING = ctypes.c_uint(0), ctypes.c_uint(2)  # CU_EVENT_DISABLE_TIMING


def _is_capturing(primary: PrimaryContext, queue: Any, context: PrimaryContext | None) -> bool:
    scratch = take_scratch()
    failed = run(((primary.function("cuStreamIsCapturing"), queue, scratch.to_status),), context)[0]
    status = scratch.words.status
    scratches.append(scratch)
    return bool(failed or status)


def _exchange(primary: PrimaryContext) -> Any:
    """Return a step that exchanges this thread's capture mode with the relaxed one; made twice, it changes nothing."""
    try:
        return _exchanges.pop()
    except IndexError:
        return primary.function("cuThreadExchangeStreamCaptureMode"), ctypes.byref(ctypes.c_uint(_RELAXED))


_exchanges: list[Any] = []  # steps that no thread uses now: making one takes 350 ns


def around(primary: PrimaryContext, steps: Iterable[Any]) -> Iterable[Any]:
    """Surround steps that are taken one by one, each when it is made, in the same way as unnoticed()."""
    exchange = _exchange(primary)
    return chain((exchange,), steps, (exchange,))


def unnoticed(primary: PrimaryContext, steps: tuple[Any, ...]) -> tuple[Any, ...]:
    """Surround steps with changes of this thread's capture mode, so that they do not break a capture.

    calls   cuThreadExchangeStreamCaptureMode
    """
    exchange = _exchange(primary)
    return (exchange, *steps, exchange)
