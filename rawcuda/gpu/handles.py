"""Creating and releasing the handles that belong to a context: one table, one maker, one releaser.

What it is   `Kind` and the table of kinds; `make`, which creates a handle and gives it to its owner; `Lifetime`, which
             releases it.
What not     the use of a stream, an event, memory, a module or a graph: each has its own room.
Interrupts   A handle that was created is owned, or its release is pending, whatever exception is raised. Releasing it
             and removing its Lifetime from the context's users is one step: only the thread that removes it, before or
             after an interrupt, releases it.
Source       CUDA Driver API, the chapters of the functions in the table; cuThreadExchangeStreamCaptureMode: the capture
             mode "global" forbids unsafe calls in every thread
Read next    stream.py, memory.py
"""

from __future__ import annotations

import ctypes
from itertools import chain, starmap

from ..driver import as_argument
from ..errors import CudaError, ForkedAfterInit
from ..owned import Owned, drain, dropped
from ..tracing import careful
from .calls import Scratch, invoke, run, scratches, take_scratch
from .context import PrimaryContext

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .calls import Calls

__all__ = [
    "DEVICE",
    "EVENT",
    "EXECUTABLE",
    "Kind",
    "Lifetime",
    "MANAGED",
    "MODULE",
    "ORDERED",
    "PINNED",
    "PRIORITIZED_STREAM",
    "STREAM",
    "TIMED_EVENT",
    "capturing",
    "make",
    "unnoticed",
]

_RELAXED = 2  # CU_STREAM_CAPTURE_MODE_RELAXED


class Kind:
    """A row of the table.

    create     the function that creates the handle: (pointer to the handle, ..., numbers)
    numbers    its usual last arguments
    release    the function that releases the handle: (handle)
    unnoticed  whether releasing would break a stream capture in some thread, so that the capture mode is exchanged
    waits      whether the context's work must be done first: cuMemFreeHost and cuModuleUnload wait by themselves, too,
               though no manual says so
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
PRIORITIZED_STREAM = Kind("cuStreamCreateWithPriority", (), "cuStreamDestroy_v2")  # the caller passes both numbers
EVENT = Kind("cuEventCreate", (2,), "cuEventDestroy_v2")  # CU_EVENT_DISABLE_TIMING
TIMED_EVENT = Kind("cuEventCreate", (0,), "cuEventDestroy_v2")
DEVICE = Kind("cuMemAlloc_v2", (), "cuMemFree_v2", unnoticed=True)
# In the order of a stream: released by cuMemFreeAsync while the stream can still be used; see Lifetime.
ORDERED = Kind("cuMemAllocAsync", (), "cuMemFree_v2", unnoticed=True)
PINNED = Kind(  # CU_MEMHOSTALLOC_PORTABLE, CU_MEMHOSTALLOC_DEVICEMAP
    "cuMemHostAlloc", (1 | 2,), "cuMemFreeHost", unnoticed=True, waits=True
)
MANAGED = Kind("cuMemAllocManaged", (1,), "cuMemFree_v2", unnoticed=True)  # CU_MEM_ATTACH_GLOBAL
MODULE = Kind("cuModuleLoadDataEx", (), "cuModuleUnload", unnoticed=True, waits=True)
EXECUTABLE = Kind("cuGraphInstantiateWithFlags", (0,), "cuGraphExecDestroy")

# The number of each of our captures in progress, and the objects that must live as long as its graph.
capturing: dict[int, list[Any]] = {}


def make(
    owner: Owned, kind: Kind, primary: PrimaryContext, *arguments: Any, by: Calls | None = None, stream: Any = None
) -> Lifetime:
    """Create a handle that holds its context, give it to its owner, and return its Lifetime.

    arguments  prepared arguments, which precede the kind's numbers
    by         the context's calls to use; by default those that make the context current
    stream     for ORDERED, an object with queue(), which is kept as long as the memory
    raises     CudaError  from the driver
    """
    if dropped:
        drain()
    try:
        scratch = scratches.pop()
    except IndexError:
        scratch = Scratch()
    words = scratch.words
    lifetime: Lifetime = _new(Lifetime)
    lifetime.kind, lifetime.primary, lifetime.stream = kind, primary, stream
    words.handle = 0
    try:
        primary.hold(lifetime)
        getattr(by or primary.inside, kind.create)(scratch.to_handle, *arguments, *kind.numbers)
        handle = words.handle
        primary.users[lifetime] = [primary.function(kind.release), as_argument(handle)]
        owner._own(handle, lifetime)
    except CudaError:
        primary.let_go(lifetime)
        raise
    except BaseException:  # an interrupt, before or after the call of the driver
        dropped.append((lifetime, words.handle))
        raise
    scratches.append(scratch)
    return lifetime


_new: Any = object.__new__


class Lifetime:
    """The release of one handle, which also holds the context."""

    __slots__ = ("kind", "primary", "stream")

    kind: Kind
    primary: PrimaryContext
    stream: Any

    def __call__(self, handle: int, late: bool) -> None:
        """Release the handle, unless that was done already; raise no error.

        late  called from drain(): then it does not wait for work, which would break a capture
        """
        kind, primary = self.kind, self.primary
        try:
            step = primary.users[self]
        except KeyError:
            return
        try:
            if step is None:  # an interrupt came before the handle was owned
                step = primary.users[self] = [primary.function(kind.release), as_argument(handle)]
            if not handle:  # ... before it was created
                primary.let_go(self)
            elif self.stream is not None:
                self._release_in_order(step)
            elif kind.unnoticed:
                waits = kind.waits and not late and not capturing
                exchange = _exchange(primary)
                before = (exchange, (primary.function("cuCtxSynchronize"),)) if waits else (exchange,)
                self._once(primary._to_push(), before, (exchange,))
                _exchanges.append(exchange)
            else:
                self._release_anywhere()
        except (CudaError, ForkedAfterInit):  # the context is lost, or this is a fork()ed child
            primary.let_go(self)
        if primary.closing:
            primary.let_go(self)

    def _once(self, context: PrimaryContext | None = None, before: tuple[Any, ...] = (), after: Any = ()) -> list[int]:
        """Make the releasing call, between others, unless another thread has made it."""
        # dict.pop gives the step to one caller only, and starmap calls it immediately: no interrupt can come in
        # between.
        users = self.primary.users
        nothing = self.primary.function("cuDriverGetVersion"), _somewhere
        return run(chain(before, map(users.pop, (self,), (nothing,)), after), context)

    def _release_anywhere(self) -> None:
        """Release what needs nothing but its context to be current."""
        primary = self.primary
        if careful or primary.driver.current_context() != primary._handle:
            self._once(primary._to_push())
            return
        try:  # as in _once(), without what that needs for other steps: 800 ns less of 1,500
            [_] = starmap(invoke, map(primary.users.pop, (self,)))
        except KeyError:  # another thread was faster
            pass

    def give_away(self) -> bool:
        """Make later calls release nothing; return False if the handle was already released or given away."""
        step = self.primary.users.pop(self, None)
        if self.primary.closing:
            self.primary.let_go(self)
        return step is not None

    def _release_in_order(self, step: list[Any]) -> None:
        """Free memory in the order of its stream if that can still be used, otherwise like memory without a stream.

        calls   cuMemFreeAsync, cuStreamIsCapturing
        """
        primary, stream = self.primary, self.stream
        queue = stream.queue()
        context = primary._to_push()
        if queue is not None and not _is_capturing(primary, queue, context):
            again = [*step]
            step[:] = primary.function("cuMemFreeAsync"), step[1], queue
            if not self._once(context)[0]:
                return
            primary.users[self] = again  # the memory was not freed
        exchange = _exchange(primary)
        self._once(context, (exchange,), (exchange,))
        _exchanges.append(exchange)


_somewhere = ctypes.byref(ctypes.c_int())


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


def unnoticed(primary: PrimaryContext, steps: tuple[Any, ...]) -> tuple[Any, ...]:
    """Surround steps with changes of this thread's capture mode, so that they do not break a capture.

    calls   cuThreadExchangeStreamCaptureMode
    """
    exchange = _exchange(primary)
    return (exchange, *steps, exchange)
