"""The primary context of a device: who holds it, and how it is made current.

What it is   PrimaryContext; `Current`, a with block in which one is current; and `any_context`, for calls that need
             some context and do not care which.
How          it is retained when something first needs it, and stays so (to make it anew takes some 0.2 s) until a
             Device of it was closed and nothing of ours lives in it any more. It is pushed round a call that needs it,
             unless it is current already, and popped again: nothing is left pushed.
Source       CUDA Driver API, "Primary Context Management", "Context Management"
Read next    handles.py, device.py
"""

from __future__ import annotations

import _thread  # (threading takes 1 ms to import)
import ctypes
from functools import partial
from time import perf_counter_ns

from .. import driver
from ..errors import Closed, CudaError, ForkedAfterInit
from ..headers import cuda_h
from ..owned import Owned
from ..tracing import careful
from .calls import Calls, tell

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any

__all__ = [
    "AnyContext",
    "Current",
    "PrimaryContext",
    "any_calls",
    "any_context",
    "context_of",
    "count",
    "held_contexts",
    "peers",
    "primary_of",
    "reaches",
    "release",
]


_call: Any = partial.__call__


class PrimaryContext:
    """The primary context of one device, shared by everything of ours that lives in it; one object a device, for good.

    Each Device that used it and each stream, event, memory, module and graph holds it. That only decides when we
    release our one retain: other libraries have theirs.

    users    what holds it, and the step that releases each: who takes that out makes the call
    closing  whether a Device of it was closed since it was last needed
    direct   prepared calls whose arguments know their context: it is pushed only if the driver asks for it (201, 400)
    inside   prepared calls that need this context to be current
    pushing  the two steps that push and pop it, for calls.run()
    kept     modules of our own, loaded once; pool: events that are not in use. They hold this context, and go with it
    """

    __slots__ = (
        "ordinal",
        "driver",
        "direct",
        "inside",
        "pushing",
        "kept",
        "pool",
        "attributes",
        "_functions",
        "_handle",
        "users",
        "closing",
        "_lock",
        "_pop",
    )

    def __init__(self, ordinal: int, loaded: driver.Driver) -> None:
        self.ordinal, self.driver = ordinal, loaded
        self.direct, self.inside = Calls(loaded, self._to_push), Calls(loaded, self._to_push, self)
        self._pop = loaded.raw("cuCtxPopCurrent_v2"), ctypes.byref(ctypes.c_void_p())
        self.pushing: tuple[Any, Any] = (self._pop, self._pop)  # set when it is retained
        self._functions: dict[str, Any] = {}
        self._handle: int | None = None
        self.users: dict[object, Any] = {}  # each with the step that releases it; entering and popping are atomic
        self.closing = False
        self.kept: dict[Any, Owned] = {}
        self.pool: dict[int, Owned] = {}
        self.attributes: dict[
            Any, Any
        ] = {}  # what does not change of the device; see Device.attribute; its name under None
        self._lock = _thread.RLock()  # a collection inside it may come back here

    def hold(self, user: object) -> int:
        """Count a user and return the context's handle, retaining the context if need be.

        calls   cuDevicePrimaryCtxRetain
        """
        # Entered first and looked at after, while let_go() says that it closes and looks after: one of the two sees the
        # other.
        self.users.setdefault(user)
        handle = self._handle
        if handle is not None and not self.closing and not careful:
            return handle
        self.users.pop(user, None)
        if self.driver.forked:  # the lock may have been taken in the parent, for good
            self.driver.refuse_forked("cuDevicePrimaryCtxRetain")
        with self._lock:
            self._open()
            self.users.setdefault(user)
            assert self._handle is not None
            return self._handle

    def open(self) -> int:
        """Return the context's handle, retaining the context if need be, without holding it: for memory of somebody else's."""
        if self._handle is None:
            if self.driver.forked:
                self.driver.refuse_forked("cuDevicePrimaryCtxRetain")
            with self._lock:
                self._open()
        return self.handle

    def _open(self) -> None:
        if self._handle is None:
            context = cuda_h.CUcontext()
            self.driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), self.ordinal)
            handle = context.value or 0
            self.pushing = (self.driver.raw("cuCtxPushCurrent_v2"), driver.as_argument(handle)), self._pop
            self._handle = handle
        self.closing = False

    def let_go(self, user: object, closing: bool = False) -> None:
        """Count a user no longer; the last one after a Device was closed releases the context. It never raises.

        calls   cuDevicePrimaryCtxRelease_v2
        """
        if closing:
            self.closing = True
        self.users.pop(user, None)
        if not self.closing:
            return
        with self._lock:
            if self.closing and len(self.users) == len(self.kept) + len(self.pool):
                self.forget()
            if not self.users and self.closing and self._handle is not None:
                self._handle = None
                peers.difference_update([pair for pair in peers if self.ordinal in pair])
                release(self.driver, "cuDevicePrimaryCtxRelease_v2", self.ordinal)

    def forget(self) -> None:
        """Close what is kept here; it is made anew when it is next needed."""
        for kept in (self.kept, self.pool):
            while kept:
                kept.popitem()[1].close()

    @property
    def handle(self) -> int:
        """Return the handle; a user must hold the context."""
        handle = self._handle
        if handle is None:
            raise Closed(f"the context of device {self.ordinal} is closed")
        return handle

    def function(self, symbol: str) -> Any:
        """Return a function for prepared arguments, for the steps of calls.run()."""
        function = self._functions.get(symbol)
        if function is None:
            function = self._functions[symbol] = self.driver.raw(symbol)
        return function

    def current(self) -> Current:
        """Return a with block in which this context is current in this thread."""
        return Current(self)

    def _to_push(self) -> PrimaryContext | None:
        """Return this context if it has to be pushed, None where it is current."""
        return None if self.driver.current_context() == self.handle else self

    def __repr__(self) -> str:
        return f"<PrimaryContext of device {self.ordinal}>"


class Current:
    """Context manager that makes a context current in this thread; it is pushed unless it is current already.

    calls   cuCtxGetCurrent, cuCtxPushCurrent_v2, cuCtxPopCurrent_v2
    """

    # __del__ is a slot, filled in one go with pushing and cleared in one go with popping: if an interrupt keeps
    # __exit__ from popping, the finalizer does, which is a C function.
    __slots__ = ("_context", "_pushed", "__del__")

    if TYPE_CHECKING:
        __del__: Any

    def __init__(self, context: PrimaryContext | None) -> None:
        self._context, self._pushed = context, False

    def __enter__(self) -> None:
        context = self._context
        if context is None:
            return
        now, handle = context.driver.current_context(), context.handle
        if now != handle:
            (push, pop), began = context.pushing, perf_counter_ns()
            calls: Any = (
                partial(*push),
                partial(setattr, self, "_pushed", True),
                partial(setattr, self, "__del__", partial(*pop)),
            )
            if any(map(_call, calls)):
                context.inside.cuCtxGetCurrent(ctypes.byref(ctypes.c_void_p()))  # fails likewise, and says why
            if careful:
                tell(push, 0, began)

    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        value: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        # After a sticky error popping reports that error once more; the first one is on its way already.
        if self._pushed and self._context is not None:
            pop, began = self._context.pushing[1], perf_counter_ns()
            calls: Any = (
                partial(setattr, self, "__del__", _nothing),
                partial(setattr, self, "_pushed", False),
                partial(*pop),
            )
            any(map(_call, calls))
            if careful:
                tell(pop, 0, began)


_nothing = "".__len__


def any_context(for_default: bool = False) -> PrimaryContext | None:
    """Return the context to push for a call that needs some context and does not care which; None where one is current.

    An address or a stream's handle says itself which device it is of; but the driver answers only to a thread that has
    a context.

    for_default  the call is about a default stream, which each context has: then ours counts only if there is but one
    raises       ValueError  none is current, and it is not known which of several is meant
    """
    loaded = driver.current()
    if loaded.current_context() is not None:
        return None
    held = held_contexts()
    if for_default and len(held) != 1:
        raise ValueError(
            "a default stream belongs to the context that is current, and none is: name the device, "
            "with device.current(): ..., or use device.synchronize()"
        )
    context = held[0] if held else context_of(0)
    context.open()  # kept: what asks for addresses will soon use them
    return context


class AnyContext(Current):
    """A with block in which some context is current; see any_context."""

    __slots__ = ("_for_default",)

    def __init__(self, *, for_default: bool = False) -> None:
        super().__init__(None)
        self._for_default = for_default

    def __enter__(self) -> None:
        self._context = any_context(self._for_default)
        super().__enter__()


_any_calls: dict[bool, Calls] = {}


def any_calls(for_default: bool) -> Calls:
    """Return the prepared calls for the streams of others, which belong to a context that we do not know."""
    made = _any_calls.get(for_default)
    if made is None:
        made = Calls(driver.current(), partial(any_context, for_default))
        made = _any_calls.setdefault(for_default, made)
    return made


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
    # setdefault lets one of several threads win. A lock would have to bear a collection inside it, that comes back
    # here.
    return _contexts.get(ordinal) or _contexts.setdefault(ordinal, PrimaryContext(ordinal, driver.current()))


def held_contexts() -> list[PrimaryContext]:
    """List the contexts that are retained now."""
    return [primary for primary in tuple(_contexts.values()) if primary._handle is not None]


def reaches(ordinal: int, other: int) -> bool:
    """Tell whether kernels on one device may use another's memory, as far as it was switched on through us."""
    return ordinal == other or (ordinal, other) in peers


def count() -> int:
    """Return how many devices this driver sees.

    calls   cuDeviceGetCount
    """
    number = ctypes.c_int()
    driver.current().cuDeviceGetCount(ctypes.byref(number))
    return number.value


def primary_of(device: Any) -> PrimaryContext | None:
    """Return the context that an open Device holds, which it begins to hold if need be; None where this is no Device.

    raises  Closed   the Device is closed
    """
    primary = getattr(device, "_held", None)
    if type(primary) is PrimaryContext:
        return primary
    primary = device if type(device) is PrimaryContext else getattr(device, "_primary", None)
    if type(primary) is not PrimaryContext:
        return None
    device.context if primary is not device else primary.open()
    return primary
