"""The primary context of a device, and the calls of ours that are made in it with every argument prepared.

What it is   PrimaryContext, and `Current` and `AnyContext`, with blocks in which a context is current.
How          it is retained when something first needs it, and stays so (making it anew costs some 0.2 s) until a Device of it
             was closed and nothing of ours lives in it any more. It is pushed round a call that needs it, unless it is
             current already, and popped again: nothing is left pushed.
Source       CUDA Driver API, "Primary Context Management", "Context Management"
Read next    device.py
"""

from __future__ import annotations

import _thread  # (threading takes 1 ms to import)
import ctypes
from functools import partial

from .. import driver
from ..errors import Closed, CudaError, ForkedAfterInit
from ..headers import cuda_h
from ..owned import Owned
from ..tracing import careful

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any, Callable

__all__ = [
    "EVENT",
    "STREAM",
    "TIMED_EVENT",
    "AnyContext",
    "Calls",
    "Current",
    "PrimaryContext",
    "context_of",
    "held_contexts",
    "peers",
    "release",
]

# What a context makes by prepared calls: what makes it, with which numbers, and what releases it.
STREAM, EVENT, TIMED_EVENT = 0, 1, 2
_MADE: tuple[tuple[str, tuple[int, ...], str, Any], ...] = (
    ("cuStreamCreateWithPriority", (1, 0), "cuStreamDestroy_v2", cuda_h.CUstream),  # CU_STREAM_NON_BLOCKING, priority 0
    ("cuEventCreate", (2,), "cuEventDestroy_v2", cuda_h.CUevent),  # CU_EVENT_DISABLE_TIMING
    ("cuEventCreate", (0,), "cuEventDestroy_v2", cuda_h.CUevent),
)


class Calls:
    """Calls whose arguments were all prepared, and the words that they read and write: a checked call costs five times as much.

    A context has a pool of these: whoever takes one out is alone with it. A call is a function and its arguments, f(*arguments),
    which ctypes takes as they are (a partial copies them), and returns a CUresult.

    words   a handle or address, a size, the capture mode, whether a stream is being captured, the current context
    calls   those of _MADE, cuCtxGetCurrent, cuMemAlloc_v2, cuMemAllocAsync, cuMemFree_v2, cuMemFreeAsync, cuStreamIsCapturing,
            cuThreadExchangeStreamCaptureMode
    """

    __slots__ = (
        "words",
        "context",
        "ask",
        "now",
        "make",
        "allocate",
        "allocate_in_order",
        "out",
        "size",
        "free",
        "free_in_order",
        "handle",
        "exchange",
        "mode",
        "is_capturing",
        "capturing",
    )

    def __init__(self, context: PrimaryContext) -> None:
        cells = (ctypes.c_uint64 * 5)()
        self.words, self.context = memoryview(cells).cast("B").cast("Q"), context
        self.words[2] = 2  # CU_STREAM_CAPTURE_MODE_RELAXED; exchanged, then back again
        self.out, _, mode, self.capturing, now = [ctypes.byref(cells, 8 * i) for i in range(5)]
        self.handle, self.size = ctypes.c_uint64.from_buffer(cells), ctypes.c_uint64.from_buffer(cells, 8)
        self.now, self.mode = (now,), (mode,)

        def call(name: str) -> Any:  # what an old driver does not have fails, and so is left to checked calls
            return context.raw(name) if context.driver.has(name) else lambda *_: 1

        self.ask = call("cuCtxGetCurrent")
        self.make = [(call(name), (self.out, *map(ctypes.c_int.from_param, numbers))) for name, numbers, _, _ in _MADE]
        self.allocate, self.allocate_in_order = call("cuMemAlloc_v2"), call("cuMemAllocAsync")
        self.free, self.free_in_order = call("cuMemFree_v2"), call("cuMemFreeAsync")
        self.exchange, self.is_capturing = call("cuThreadExchangeStreamCaptureMode"), call("cuStreamIsCapturing")

    def in_context(self, call: Any, arguments: Any) -> int:
        """Make a call while the context is current; it is pushed and popped again where it is not."""
        context = self.context
        failed: int = self.ask(*self.now)
        if not failed:
            if self.words[4] == context._handle:
                return call(*arguments)  # type: ignore[no-any-return]
            failed = context._push()
            if not failed:
                failed = call(*arguments)
                context._pop()
        return failed


class PrimaryContext:
    """The primary context of one device, shared by everything of ours that lives in it; one object a device, for good.

    Each Device that used it and each stream, event, memory and module holds it. That count only decides when we release
    our one retain: other libraries have theirs.
    """

    __slots__ = (
        "ordinal",
        "driver",
        "kept",
        "releases",
        "pool",
        "_handle",
        "_users",
        "_closing",
        "_lock",
        "_raw",
        "_push",
        "_pop",
    )

    def __init__(self, ordinal: int, loaded: driver.Driver) -> None:
        self.ordinal, self.driver = ordinal, loaded
        self._raw: dict[str, Any] = {}
        self.pool: list[Calls] = []
        self.releases = tuple([self._releaser(which) for which in range(len(_MADE))])
        self._push: Any = None
        self._pop = partial(self.raw("cuCtxPopCurrent_v2"), ctypes.byref(ctypes.c_void_p()))
        self._handle: int | None = None
        self._users: list[None] = []  # one for each; list.append and pop are atomic
        self._closing = False
        self.kept: dict[Any, Owned] = {}  # modules of our own, loaded once: they hold this context, and go with it
        self._lock = _thread.RLock()  # a collection inside it may come back here

    def hold(self) -> int:
        """Count one more user and return the context's handle, retaining it if need be.

        calls   cuDevicePrimaryCtxRetain
        """
        # Entered first and looked at after, while let_go() says that it closes and looks after: one of the two sees the other.
        self._users.append(None)
        handle = self._handle
        if handle is not None and not self._closing and not careful:
            return handle
        self._users.pop()
        if self.driver.forked:  # the lock may have been taken in the parent, for good
            self.driver.refuse_forked("cuDevicePrimaryCtxRetain")
        with self._lock:
            if self._handle is None:
                context = cuda_h.CUcontext()
                self.driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), self.ordinal)
                self._handle = context.value
                self._push = partial(self.raw("cuCtxPushCurrent_v2"), driver.as_argument(self._handle or 0))
            self._closing = False
            self._users.append(None)
            assert self._handle is not None
            return self._handle

    def let_go(self, closing: bool = False) -> None:
        """Count one user less; the last one after a Device was closed releases the context. It never raises.

        calls   cuDevicePrimaryCtxRelease_v2
        """
        if closing:
            self._closing = True
        self._users.pop()
        if not self._closing:
            return
        with self._lock:
            if self._closing and len(self._users) == len(self.kept):
                self.forget()
            if not self._users and self._closing and self._handle is not None:
                self._handle = None
                peers.difference_update([pair for pair in peers if self.ordinal in pair])
                release(self.driver, "cuDevicePrimaryCtxRelease_v2", self.ordinal)

    def forget(self) -> None:
        """Close what is kept here; it is made anew when it is next needed."""
        while self.kept:
            self.kept.popitem()[1].close()

    @property
    def handle(self) -> int:
        """Return the handle; a user must hold the context."""
        handle = self._handle
        if handle is None:
            raise Closed(f"the context of device {self.ordinal} is closed")
        return handle

    def current(self) -> Current:
        """Return a with block in which this context is current in this thread."""
        return Current(self)

    def enter(self) -> bool:
        """Make this context current in this thread, unless it is; tell whether that calls for leave().

        calls   cuCtxGetCurrent, cuCtxPushCurrent_v2
        """
        handle = self._handle or self.handle
        if self.driver.current_context() == handle:
            return False
        if careful or self._push():
            self.driver.cuCtxPushCurrent_v2(cuda_h.CUcontext(handle))
        return True

    def leave(self) -> None:
        """Undo an enter() that pushed.

        calls   cuCtxPopCurrent_v2
        """
        # After a sticky error popping reports that error once more; the first one is on its way already.
        if careful:
            release(self.driver, "cuCtxPopCurrent_v2", ctypes.byref(cuda_h.CUcontext()))
        else:
            self._pop()

    # -- prepared calls

    def raw(self, name: str) -> Any:
        """Return a function for prepared arguments; see Driver.raw."""
        function = self._raw.get(name)
        if function is None:
            function = self._raw[name] = self.driver.raw(name)
        return function

    def make(self, which: int) -> int:
        """Make a stream or an event, and hold this context for it. Where that is not done at once, return 0: make_checked() tells why."""
        self._users.append(None)  # as hold() does
        if not careful and not self._closing and self._handle is not None:
            try:
                calls = self.pool.pop()
            except IndexError:
                calls = Calls(self)
            call, arguments = calls.make[which]
            failed = calls.in_context(call, arguments)
            handle = calls.words[0]
            self.pool.append(calls)
            if not failed:
                return handle
        self.let_go()
        return 0

    def make_checked(self, which: int, *numbers: int) -> int:
        """Make a stream or an event, with other numbers than make() does if any are given, and hold this context for it."""
        call, usual, _, kind = _MADE[which]
        self.hold()
        try:
            made = kind()
            with self.current():
                getattr(self.driver, call)(ctypes.byref(made), *(numbers or usual))
            return made.value or 0
        except BaseException:
            self.let_go()
            raise

    def _releaser(self, which: int) -> Callable[[int, bool], None]:
        """Write what releases a stream or an event. It knows its context; ours is pushed where the driver wants that."""
        _, _, call, kind = _MADE[which]
        prepared, wrong = self.raw(call), driver.WRONG_CONTEXT

        def destroy(handle: int, late: bool, byref: Any = ctypes.byref, at: Any = ctypes.c_char.from_address) -> None:
            if careful or prepared(byref(at(handle))) in wrong:  # (as driver.as_argument makes it)
                try:
                    with self.current():
                        release(self.driver, call, kind(handle))
                except (CudaError, ForkedAfterInit):  # the context is lost, or this is a forked child
                    pass
            self.let_go()

        return destroy


class Current:
    """Make a context current in this thread for the length of a with block, unless it is already.

    calls   cuCtxGetCurrent, cuCtxPushCurrent_v2, cuCtxPopCurrent_v2
    """

    __slots__ = ("_context", "_pushed")

    def __init__(self, context: PrimaryContext) -> None:
        self._context, self._pushed = context, False

    def __enter__(self) -> None:
        self._pushed = self._context.enter()

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._pushed:
            self._pushed = False
            self._context.leave()


class AnyContext(Current):
    """Have some context current for the length of a with block, for calls that need one and do not care which.

    An address or a stream's handle says itself which device it is of; but the driver answers only to a thread that has a
    context.

    for_default  the call is about a default stream, which each context has: then ours counts only if there is but one
    raises       ValueError  none is current, and which of several was meant is not known
    """

    __slots__ = ("_unclear",)

    def __init__(self, *, for_default: bool = False) -> None:
        held = held_contexts()
        super().__init__(held[0] if held else context_of(0))
        self._unclear = for_default and len(held) != 1

    def __enter__(self) -> None:
        if self._context.driver.current_context() is None:
            if self._unclear:
                raise ValueError(
                    "a default stream belongs to the context that is current, and none is: name the device, "
                    "with device.current(): ..., or use device.synchronize()"
                )
            if self._context._handle is None:
                self._context.hold()  # kept: what asks for addresses will soon use them
            super().__enter__()


def release(loaded: driver.Driver, call: str, *arguments: Any) -> bool:
    """Call something that releases, and tell whether it did; no error is raised (a close must not hide what led to it)."""
    try:
        getattr(loaded, call)(*arguments)
        return True
    except (CudaError, ForkedAfterInit):
        return False


_contexts: dict[int, PrimaryContext] = {}
peers: set[tuple[int, int]] = set()  # (who reaches, whose memory), switched on through us


def context_of(ordinal: int) -> PrimaryContext:
    """Return the one PrimaryContext of a device, which exists."""
    # setdefault lets one of several threads win. A lock would have to bear a collection inside it, that comes back here.
    return _contexts.get(ordinal) or _contexts.setdefault(ordinal, PrimaryContext(ordinal, driver.current()))


def held_contexts() -> list[PrimaryContext]:
    """List the contexts that are retained now."""
    return [primary for primary in tuple(_contexts.values()) if primary._handle is not None]
