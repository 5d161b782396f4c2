"""Creation and release of the handles that belong to a context, all by one table.

What it is   `Kind` and the table of kinds; `make`, which creates a handle and gives it to its owner; `Lifetime`, which
             releases it.
What not     the use of a stream, an event, memory, a module or a graph: each of them has its own file.
How          A release that has to wait for work, but would break a capture if it did, is not made: it stays in
             `dropped` (ownership.py), and the next drain() tries again.
Source       CUDA Driver API, the chapters of the functions in the table; "Stream Ordered Memory Allocator": cuMemFree
             does not wait for the work that uses memory of a pool
Read next    gpu/streams/stream.py, gpu/memory/memory.py
"""

from __future__ import annotations

import ctypes
from _thread import RLock, allocate_lock
from ctypes import byref

from ...driver import NoRoom
from ...errors import CudaError, ForkedAfterInit
from ...headers.status import NOT_PERMITTED, OUT_OF_MEMORY, STREAM_CAPTURE_UNSUPPORTED
from ...interpreter.cpython import Cell, free_after_fork
from ...ownership import Owned, drain, dropped, ending, invalidate, tokens
from .context import PrimaryContext
from .points import capture_number, capturing, finish_context

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _thread import LockType
    from typing import Any

    from ...ownership import Release

__all__ = [
    "AGAIN",
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
    "destroying",
    "make",
    "shown_handle",
]

# The errors after which a release is tried again: nothing was released. The second one is that of a host function of
# other software, of which we do not know.
AGAIN = OUT_OF_MEMORY, NOT_PERMITTED

# Held while a stream is destroyed, and while memory is freed on a stream: two threads may close the two.
destroying = free_after_fork(RLock())


class Kind:
    """A row of the table.

    create      the function that creates the handle: (pointer to the handle, ..., numbers)
    numbers     its usual last arguments, prepared
    release     the function that releases the handle: (handle)
    needs_idle  whether the context's work must be complete before the release: cuMemFreeHost and cuModuleUnload wait
                for it themselves, although this is not documented; the functions that destroy arrays and textures may
                not wait for it, and cuMemFree_v2 does not if the memory comes from a pool
    unretained  whether this holds for what was collected, too: work does not retain it, and the driver may not wait
    again       whether the release may be called twice: an interrupted one is repeated
    is_stream   whether the handle is a stream
    """

    __slots__ = ("create", "numbers", "release", "needs_idle", "unretained", "again", "is_stream")

    def __init__(
        self,
        create: str,
        numbers: tuple[int, ...],
        release: str,
        *,
        needs_idle: bool = False,
        unretained: bool = False,
        again: bool = False,
    ) -> None:
        self.create, self.release = create, release
        self.numbers = tuple(map(ctypes.c_uint.from_param, numbers))
        self.needs_idle, self.unretained, self.again = needs_idle, unretained, again
        self.is_stream = release == "cuStreamDestroy_v2"


STREAM = Kind("cuStreamCreateWithPriority", (1, 0), "cuStreamDestroy_v2")  # CU_STREAM_NON_BLOCKING, priority 0
EVENT = Kind("cuEventCreate", (2,), "cuEventDestroy_v2")  # CU_EVENT_DISABLE_TIMING
TIMED_EVENT = Kind("cuEventCreate", (0,), "cuEventDestroy_v2")
SHARED_EVENT = Kind("cuEventCreate", (2 | 4,), "cuEventDestroy_v2")  # also CU_EVENT_INTERPROCESS
DEVICE = Kind("cuMemAlloc_v2", (), "cuMemFree_v2")
# Stream-ordered memory is released by cuMemFreeAsync; see Lifetime. Where cuMemFree_v2 is called instead, the CPU waits
# first, because that function does not wait for work that uses such memory.
ORDERED = Kind("cuMemAllocAsync", (), "cuMemFree_v2", needs_idle=True, unretained=True)
POOLED = Kind("cuMemAllocFromPoolAsync", (), "cuMemFree_v2", needs_idle=True, unretained=True)
POOL = Kind("cuMemPoolCreate", (), "cuMemPoolDestroy")
# CU_MEMHOSTALLOC_PORTABLE, CU_MEMHOSTALLOC_DEVICEMAP
PINNED = Kind("cuMemHostAlloc", (1 | 2,), "cuMemFreeHost", needs_idle=True)
REGISTERED = Kind("cuMemHostRegister_v2", (), "cuMemHostUnregister", again=True)  # Registration waits
MANAGED = Kind("cuMemAllocManaged", (1,), "cuMemFree_v2")  # CU_MEM_ATTACH_GLOBAL
PITCHED = Kind("cuMemAllocPitch_v2", (), "cuMemFree_v2")
IPC_MEMORY = Kind("cuIpcOpenMemHandle_v2", (), "cuIpcCloseMemHandle", needs_idle=True, unretained=True)
IPC_EVENT = Kind("cuIpcOpenEventHandle", (), "cuEventDestroy_v2")
ARRAY = Kind("cuArray3DCreate_v2", (), "cuArrayDestroy", needs_idle=True)
MIPMAPPED = Kind("cuMipmappedArrayCreate", (), "cuMipmappedArrayDestroy", needs_idle=True)
TEXTURE = Kind("cuTexObjectCreate", (), "cuTexObjectDestroy", needs_idle=True)
SURFACE = Kind("cuSurfObjectCreate", (), "cuSurfObjectDestroy", needs_idle=True)
LINK = Kind("cuLinkCreate_v2", (), "cuLinkDestroy")
MODULE = Kind("cuModuleLoadDataEx", (), "cuModuleUnload", needs_idle=True)
GRAPH = Kind("cuGraphCreate", (0,), "cuGraphDestroy")
CLONE = Kind("cuGraphClone", (), "cuGraphDestroy")
EXECUTABLE = Kind("cuGraphInstantiateWithFlags", (0,), "cuGraphExecDestroy")
# CU_GREEN_CTX_DEFAULT_STREAM
GREEN = Kind("cuGreenCtxCreate", (1,), "cuGreenCtxDestroy", needs_idle=True, unretained=True)
GREEN_STREAM = Kind("cuGreenCtxStreamCreate", (1, 0), "cuStreamDestroy_v2")  # CU_STREAM_NON_BLOCKING, priority 0


def make(
    owner: Owned,
    kind: Kind,
    primary: PrimaryContext,
    arguments: tuple[object, ...] | None,
    stream: object = None,
    is_locked: bool = False,
) -> Lifetime:
    """Create a handle that holds its context, and give it to its owner; return the C memory that contains it.

    arguments  the creating function's prepared arguments after the pointer to the handle; None: the caller makes the
               call, and the owner already releases what it writes
    stream     for ORDERED and POOLED, an object with queue() and end(), which is kept as long as the memory
    is_locked  as for retain(): the caller has drained before it took its lock
    raises     CudaError  from the driver
    """
    if dropped and not is_locked:
        drain()
    lifetime = Lifetime()
    lifetime.kind, lifetime.primary, lifetime.stream, lifetime.taken = kind, primary, stream, allocate_lock()
    lifetime.capture = lifetime.recording = None
    owner._handle, owner._release = None, lifetime
    owner._ending = ending(lifetime)
    primary.users.add(lifetime)
    if primary.closing:
        primary.hold(lifetime)
    if arguments is None:
        return lifetime
    try:
        getattr(primary.calls, kind.create)(byref(lifetime), *arguments)
    except CudaError:
        lifetime.value = None
        lifetime.give_away()
        raise
    owner._handle = lifetime.value
    if kind is POOL:
        primary.destroyed.discard(lifetime.value)
    if capturing and stream is not None:
        lifetime.capture = number = capture_number(primary.calls, arguments[-1])
        noted = None if number is None else capturing.get(number)
        if noted is not None:
            noted.allocated.append(lifetime)
    return lifetime


class Lifetime(Cell):  # type: ignore[misc]
    """The C memory that contains one handle, and the release of that handle; it also holds the context.

    As an argument of a prepared call it is the handle; byref() of it is the pointer that the creating function takes.

    stream  None: kind.needs_idle decides whether it waits for work; a stream, or an Ordering: memory that is freed in
            its order; a Leased: all work of the context must be done before
    taken   the lock that the one caller takes that releases the handle; it is not released afterwards
    capture  the number of our capture that allocated the memory: it belongs to the graph, and each launch allocates it
    recording  the release of the capture into this graph that is in progress, which is made before; otherwise None
    keeps   what must be released after it; not set where there is nothing
    begun   True as soon as the releasing call may have been made, which must not be made twice, unless kind.again
    """

    __slots__ = ("begun", "capture", "keeps", "kind", "primary", "recording", "stream", "taken")
    __hash__ = object.__hash__  # objects of ctypes have no hash, since their values can change

    kind: Kind
    primary: PrimaryContext
    stream: Any
    taken: LockType
    capture: int | None
    begun: bool
    keeps: object
    recording: Release | None

    def release(self, late: bool) -> bool:
        """Release the handle, unless that was done already, or no handle was created; raise no error.

        late     called from drain(): nobody asked for this release now, so it does not wait for the end of a stream
        returns  False if a capture or a host function forbids the release, or memory is short: try again later
        """
        failed = 0
        if tokens and self.kind is MODULE:  # it may have been collected, and a function of one of its kernels not
            invalidate()
        recording = self.recording
        if recording is not None and recording.release(late) is False:  # the driver must not go on to capture into it
            return False
        if not self.taken.acquire(False):
            return True
        try:
            if self.value is not None and not self._free(late):
                self.taken.release()
                return False
        except CudaError as error:  # the context is lost, or the host has no memory left for the release
            failed = error.code
            self.primary.driver.unnoticed(error)
            if failed in AGAIN:
                self.taken.release()
                return False
        except ForkedAfterInit:
            pass
        except BaseException as error:  # an interrupt, most likely of the wait before the releasing call
            if isinstance(error, NoRoom) or not hasattr(self, "begun") or self.kind.again:
                self.taken.release()  # the next call goes on
            raise
        if type(self) is not Lifetime:
            self._released(failed)
        self.primary.let_go(self)
        return True

    def _released(self, code: int) -> None:
        """Note the code that the releasing call returned."""

    def _free(self, late: bool) -> bool:
        """Make the releasing call; return False if a capture forbids it now."""
        # What was collected is used by no work that retains it, so a late release need not wait for the context.
        if self.kind.needs_idle and (not late or self.kind.unretained) and self.stream is None:
            self.stream = Leased(None)  # it may be used on any stream; also if drain() has to try again
        if self.stream is not None:
            return self._free_in_order(late)
        if self.kind.is_stream:
            with destroying:
                self._call()
        else:
            self._call()
        return True

    def _call(self) -> None:
        """Make the releasing call of the table."""
        call = getattr(self.primary.calls, self.kind.release)
        if self.kind is POOL:  # memory from it may exist, and tells this handle
            self.primary.destroyed.add(self.value)
        self.begun = True
        call(self)

    def _free_in_order(self, late: bool) -> bool:
        """Release a handle after the work that uses it; return False if a capture forbids it now.

        Memory of a stream is freed in the order of the stream. If the streams that use it are not known, or the end of
        the stream's work is not, all work of the context must be done before.
        """
        primary, stream = self.primary, self.stream
        if type(stream) is not Leased:
            with destroying:
                queue = stream.queue()
                freed = None if queue is None else self._free_on(queue)
            if freed is not None:
                return freed
            end = stream.end()
            if end is not None:
                if late and not end.is_reached():
                    return False
                end.wait()
                self._call()
                return True
        if not self._finish(primary):
            return False
        self._call()
        return True

    def _finish(self, primary: PrimaryContext) -> bool:
        """Wait for all work of a context; return False if a capture forbids it now."""
        try:
            return finish_context(primary)
        except CudaError as error:
            if error.code == STREAM_CAPTURE_UNSUPPORTED:  # other software captures a stream of this context
                return False
            raise

    def _free_on(self, queue: object) -> bool | None:
        """Free memory on a stream, given as an argument.

        returns  False if a capture forbids it now; None if the stream does not exist any more
        calls    cuMemFreeAsync, cuStreamIsCapturing
        """
        primary, status = self.primary, ctypes.c_uint()
        try:
            primary.calls.cuStreamIsCapturing(queue, byref(status))
            if status.value and (self.capture is None or capture_number(primary.calls, queue) != self.capture):
                return False  # it would be freed in each launch of the graph, which does not allocate it
            self.begun = True
            primary.calls.cuMemFreeAsync(self, queue)
        except CudaError as error:  # a stream of other software that was destroyed: memory was not freed
            if error.code in AGAIN:
                raise
            primary.driver.unnoticed(error)
            if self.capture is None:
                return None  # (otherwise no launch of the graph has allocated it, or one has freed it)
        return True

    def give_away(self) -> bool:
        """Make later calls release nothing; return False if the handle was already released or given away."""
        first: bool = self.taken.acquire(False)
        self.primary.let_go(self)
        return first


class Leased:
    """Stands for the stream of what may be used on streams that are not known.

    stream  the stream on which it was allocated, which is kept alive; None: no stream
    """

    __slots__ = ("stream",)

    def __init__(self, stream: object) -> None:
        self.stream = stream


def shown_handle(owned: Owned) -> str:
    """Return the handle of an object for its repr: a hexadecimal number, or "closed"."""
    handle = owned._handle
    if handle is None:
        return "closed"
    return hex(handle)
