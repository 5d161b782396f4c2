"""What lives in a context: how each kind is made and released. One table, one maker, one releaser.

What it is   `Kind` and the table of kinds; `make`, which creates a handle and gives it to its owner; `Lifetime`, which releases it.
What not     what one does with a stream, an event, memory, a module or a graph: their own rooms.
Interrupts   a handle that was created is owned, or due for release, whatever exception comes; a handle is released once, by
             one call of `run` that notes by itself that it was made.
Source       CUDA Driver API, the chapters of the functions in the table; cuThreadExchangeStreamCaptureMode: the capture mode
             "global" forbids unsafe calls in every thread
Read next    stream.py, memory.py
"""

from __future__ import annotations

import ctypes

from .. import driver
from ..driver import as_argument
from ..errors import Closed, CudaError, ForkedAfterInit
from ..owned import Owned, drain, dropped
from .calls import run, scratches, take_scratch
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

    create     creates one: (where to put the handle, ..., the usual numbers)
    numbers    those usual numbers
    release    releases one: (handle)
    inside     whether releasing needs the context to be current
    unnoticed  whether releasing would break a stream capture that goes on in any thread, so that the capture mode is exchanged
    waits      whether the context's work must be done before: cuMemFreeHost and cuModuleUnload wait by themselves, too, though
               no manual says so
    """

    __slots__ = ("create", "numbers", "release", "inside", "unnoticed", "waits")

    def __init__(
        self,
        create: str,
        numbers: tuple[int, ...],
        release: str,
        *,
        inside: bool = False,
        unnoticed: bool = False,
        waits: bool = False,
    ) -> None:
        self.create, self.release = create, release
        self.numbers = tuple(map(ctypes.c_uint.from_param, numbers))
        self.inside, self.unnoticed, self.waits = inside, unnoticed, waits


STREAM = Kind("cuStreamCreateWithPriority", (1, 0), "cuStreamDestroy_v2")  # CU_STREAM_NON_BLOCKING, priority 0
PRIORITIZED_STREAM = Kind("cuStreamCreateWithPriority", (), "cuStreamDestroy_v2")  # both numbers are given
EVENT = Kind("cuEventCreate", (2,), "cuEventDestroy_v2")  # CU_EVENT_DISABLE_TIMING
TIMED_EVENT = Kind("cuEventCreate", (0,), "cuEventDestroy_v2")
DEVICE = Kind("cuMemAlloc_v2", (), "cuMemFree_v2", inside=True, unnoticed=True)
ORDERED = Kind("cuMemAllocAsync", (), "cuMemFreeAsync")  # in the order of a stream
PINNED = Kind(  # CU_MEMHOSTALLOC_PORTABLE, CU_MEMHOSTALLOC_DEVICEMAP
    "cuMemHostAlloc", (1 | 2,), "cuMemFreeHost", inside=True, unnoticed=True, waits=True
)
MANAGED = Kind("cuMemAllocManaged", (1,), "cuMemFree_v2", inside=True, unnoticed=True)  # CU_MEM_ATTACH_GLOBAL
MODULE = Kind("cuModuleLoadDataEx", (), "cuModuleUnload", inside=True, unnoticed=True, waits=True)
EXECUTABLE = Kind("cuGraphInstantiateWithFlags", (0,), "cuGraphExecDestroy", inside=True)

# The number of each capture of ours that goes on, and what must live as long as its graph.
capturing: dict[int, list[Any]] = {}


def make(
    owner: Owned, kind: Kind, primary: PrimaryContext, *arguments: Any, calls: Calls | None = None, stream: Any = None
) -> Lifetime:
    """Create a handle of some kind in a context, which it holds from then on, give it to its owner, and return its Lifetime.

    arguments  prepared ones, which come before the usual numbers
    calls      those of the context that suit the stream; those that make it current if none are given
    stream     for ORDERED, what has queue() and needs_context: kept as long as the memory
    raises     CudaError  the driver's own
    """
    if dropped:
        drain()
    scratch = take_scratch()
    words = scratch.words
    lifetime: Lifetime = _new(Lifetime)
    lifetime.kind, lifetime.primary, lifetime.stream, lifetime.codes = kind, primary, stream, []
    words.handle = 0
    try:
        primary.hold(lifetime)
        getattr(calls or primary.inside, kind.create)(scratch.to_handle, *arguments, *kind.numbers)
        owner._own(words.handle, lifetime)
    except CudaError:
        primary.let_go(lifetime)
        raise
    except BaseException:  # an interrupt, before or after the driver's call
        dropped.append((lifetime, words.handle))
        raise
    scratches.append(scratch)
    return lifetime


_new: Any = object.__new__


class Lifetime:
    """The release of one handle. It may be called again after an interrupt: the handle is released once all the same."""

    __slots__ = ("kind", "primary", "stream", "codes")

    kind: Kind
    primary: PrimaryContext
    stream: Any
    codes: list[int]  # not empty once the driver was called to release

    def __call__(self, handle: int, late: bool) -> None:
        """Release the handle; no error is raised.

        late  out of drain(): then nothing is waited for, since that would break a capture
        """
        try:
            if handle and not self.codes:
                if self.stream is None or not self._release_in_order(handle):
                    self._release(handle, late)
        except (CudaError, ForkedAfterInit, Closed):  # the context is lost, or this is a fork()ed child
            pass
        self.primary.let_go(self)

    def _release(self, handle: int, late: bool) -> None:
        kind, primary = self.kind if self.stream is None else DEVICE, self.primary
        step = primary.function(kind.release), as_argument(handle)
        if not kind.inside:
            run((step,), None, self.codes)
            if self.codes[-1] in driver.WRONG_CONTEXT:
                run((step,), primary._to_push())
            return
        steps: tuple[Any, ...] = (step,)
        if kind.waits and not late and not capturing:
            steps = (primary.function("cuCtxSynchronize"),), step
        run(unnoticed(primary, steps) if kind.unnoticed else steps, primary._to_push(), self.codes)

    def _release_in_order(self, address: int) -> bool:
        """Free memory in the order of its stream, if that can still take it; tell whether it did.

        calls   cuMemFreeAsync, cuStreamIsCapturing
        """
        primary, stream = self.primary, self.stream
        queue = stream.queue()
        if queue is None:
            return False
        scratch = take_scratch()
        context = primary._to_push() if stream.needs_context else None
        asked = run(((primary.function("cuStreamIsCapturing"), queue, scratch.to_status),), context)
        captured = asked[0] or scratch.words.status
        scratches.append(scratch)
        if captured:
            return False
        run(((primary.function("cuMemFreeAsync"), as_argument(address), queue),), context, self.codes)
        if self.codes[-1]:
            self.codes.clear()
            return False
        return True


def unnoticed(primary: PrimaryContext, steps: tuple[Any, ...]) -> tuple[Any, ...]:
    """Put steps between two that change this thread's capture mode, so that they do not break a capture, here or elsewhere.

    calls   cuThreadExchangeStreamCaptureMode
    """
    mode = ctypes.c_uint(_RELAXED)
    exchange = primary.function("cuThreadExchangeStreamCaptureMode"), ctypes.byref(mode)
    return (exchange, *steps, exchange)
