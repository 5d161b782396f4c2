"""The primary context of a device: what holds it, and how it is made current.

What it is   PrimaryContext; `Current`, a context manager that makes it current; and `any_context`, for calls that need
             some current context, no matter which.
How          It is retained when it is first needed, and stays retained (creating it again takes about 0.2 s) until a
             Device that uses it was closed and none of our objects is left in it. It is pushed before a call that needs
             it, unless it is current already, and popped afterwards: nothing is left pushed.
Source       CUDA Driver API, "Primary Context Management", "Context Management"
Read next    handles.py, device.py
"""

from __future__ import annotations

import _thread  # (threading takes 1 ms to import)
import ctypes
from functools import partial
from time import perf_counter_ns

from .. import driver
from ..errors import Closed, CudaError, ForkedAfterInit, Unsupported
from ..headers import cuda_h
from ..owned import Held, Owned
from ..tracing import careful
from .calls import Calls, refused, tell

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
    "check_version",
    "context_of",
    "count",
    "driver_version",
    "held_contexts",
    "peers",
    "primary_of",
    "reaches",
    "release",
    "require",
    "some_context",
    "unsupported",
]


_call: Any = partial.__call__
_ALONE, _VERSION = ("alone",), ("version",)  # keys besides the device attributes


class _Functions(dict):  # type: ignore[type-arg]
    """The driver's functions that take prepared arguments, by symbol; each is bound on first use."""

    def __init__(self, loaded: driver.Driver) -> None:
        self._driver = loaded

    def __missing__(self, symbol: str) -> Any:
        function = self[symbol] = self._driver.raw(symbol)
        return function


class PrimaryContext:
    """The primary context of a device, shared by all our objects in it; there is exactly one instance per device.

    Each Device that used it and each stream, event, memory, module and graph holds it. These holders only decide when
    we release our own retain of the context; other libraries retain it separately.

    users      the objects that hold it; adding and discarding are atomic
    closing    true until the context is first retained, and from the close() of a Device until the context is needed
               again
    direct     prepared calls whose arguments imply their context: it is pushed only if the driver asks for it, by
               returning 201 or 400
    inside     prepared calls that need this context to be current
    pushing    the two steps that push and pop it, for calls.run(); push makes the first
    functions  the driver's functions that take prepared arguments, by symbol, for the steps of calls.run()
    kept       our own modules, each loaded once; pool: unused events; ends: events at the end of the work of closed
               streams. They hold this context, and are closed with it
    """

    __slots__ = (
        "ordinal",
        "driver",
        "direct",
        "inside",
        "pushing",
        "push",
        "kept",
        "pool",
        "ends",
        "attributes",
        "functions",
        "current_context",
        "_forks",
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
        self.pushing: tuple[Any, Any] = (self._pop, self._pop)  # this and push are set when the context is retained
        self.push: Any = None
        self.functions, self.current_context = _Functions(loaded), loaded.current_context
        self._forks = loaded.forks
        self._handle: int | None = None
        self.users: set[object] = set()
        self.closing = True
        self.kept: dict[Any, Owned] = {}
        self.pool: list[Owned] = []
        self.ends: dict[int | None, Any] = {}
        self.attributes: dict[Any, Any] = {}  # constant facts about the device, for Device
        self._lock = _thread.RLock()  # re-entrant, because garbage collection may run while it is held

    def hold(self, user: object) -> int:
        """Add a user and return the context's handle; the context is retained if necessary.

        calls   cuDevicePrimaryCtxRetain
        """
        # The user is added first and `closing` is tested afterwards, while let_go() sets `closing` first and counts the
        # users afterwards: at least one of the two notices the other.
        self.users.add(user)
        handle = self._handle
        if not self.closing and handle is not None and not self._forks:
            return handle
        self.users.discard(user)
        if self.driver.forked:  # a thread of the parent may have held the lock at the fork
            self.driver.refuse_forked("cuDevicePrimaryCtxRetain")
        with Held(self._lock):
            self._open()
            self.users.add(user)
            assert self._handle is not None
            return self._handle

    def open(self) -> int:
        """Return the context's handle, retaining the context if necessary but not holding it: for foreign memory."""
        if self._handle is None:
            if self.driver.forked:
                self.driver.refuse_forked("cuDevicePrimaryCtxRetain")
            with Held(self._lock):
                self._open()
        return self.handle

    def _open(self) -> None:
        if self._handle is None:
            context = cuda_h.CUcontext()
            self.driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), self.ordinal)
            handle = context.value or 0
            function, argument = self.driver.raw("cuCtxPushCurrent_v2"), driver.as_argument(handle)
            self.pushing, self.push = ((function, argument), self._pop), partial(function, argument)
            self._handle = handle
        self.closing = False

    def let_go(self, user: object, closing: bool = False) -> None:
        """Remove a user; the last one after a Device was closed releases the context. It never raises.

        calls   cuDevicePrimaryCtxRelease_v2
        """
        if closing:
            self.closing = True
        self.users.discard(user)
        if not self.closing:
            return
        with Held(self._lock):
            if self.closing and len(self.users) == len(self.kept) + len(self.pool) + len(self.ends):
                self.forget()
            if not self.users and self.closing and self._handle is not None:
                self._handle = None
                _forget_peers(self.ordinal)
                release(self.driver, "cuDevicePrimaryCtxRelease_v2", self.ordinal)

    def forget(self) -> None:
        """Close the kept modules and events; they are made again when next needed."""
        kept: Any
        while self.pool:
            self.pool.pop().close()
        for kept in (self.kept, self.ends):
            while kept:
                kept.popitem()[1].close()

    @property
    def handle(self) -> int:
        """Return the handle; the caller must hold the context."""
        handle = self._handle
        if handle is None:
            raise Closed(f"the context of device {self.ordinal} is closed")
        return handle

    def current(self) -> Current:
        """Return a context manager that makes this context current in this thread."""
        return Current(self)

    @property
    def is_alone(self) -> bool:
        """Tell whether the driver sees no other device."""
        known = self.attributes.get(_ALONE)
        if known is None:
            known = self.attributes[_ALONE] = count() == 1
        return bool(known)

    def _to_push(self) -> PrimaryContext | None:
        """Return this context if it has to be pushed, or None if it is current."""
        return None if self.driver.current_context() == self.handle else self

    def __repr__(self) -> str:
        return f"<PrimaryContext of device {self.ordinal}>"


class Current:
    """A context manager that makes a context current in this thread, by pushing it unless it is current already.

    calls   cuCtxGetCurrent, cuCtxPushCurrent_v2, cuCtxPopCurrent_v2
    """

    # __del__ is a slot, set in one step with pushing and cleared in one step with popping: if an interrupt keeps
    # __exit__ from popping, the finalizer, which is a C function, pops.
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
            failed = next(filter(None, map(_call, calls)), 0)  # stops at the first code that is not 0
            if failed:
                raise refused(push, failed, context)
            if careful:
                tell(push, 0, began)

    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        value: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        # After a sticky error, popping reports the error again; it is ignored, since the error was raised already.
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
    """Return the context to push for a call that needs some current context; None if there is one already.

    An address or a stream handle implies its device, but the driver needs some current context in order to answer.

    for_default  whether the call is about a default stream: every context has one, so we must hold only one context
    raises       ValueError  no context is current, and we hold none or several
    """
    loaded = driver.current()
    if loaded.current_context() is not None:
        return None
    held = held_contexts()
    if for_default and len(held) != 1:
        raise ValueError(
            "a default stream belongs to the current context, and none is current: choose the device, "
            "with device.current(): ..., or use device.synchronize()"
        )
    context = some_context()
    context.open()  # it stays retained: a caller that asks about addresses will soon use them
    return context


def some_context() -> PrimaryContext:
    """Return a context that is in use, by us or else by other software, so that no new context is created.

    calls   cuDevicePrimaryCtxGetState
    """
    for held in held_contexts():
        return held
    flags, active = ctypes.c_uint(), ctypes.c_int()
    for ordinal in range(count()):
        driver.current().cuDevicePrimaryCtxGetState(ordinal, ctypes.byref(flags), ctypes.byref(active))
        if active.value:
            return context_of(ordinal)
    return context_of(0)


class AnyContext(Current):
    """A context manager that makes any context current; see any_context."""

    __slots__ = ("_for_default",)

    def __init__(self, *, for_default: bool = False) -> None:
        super().__init__(None)
        self._for_default = for_default

    def __enter__(self) -> None:
        self._context = any_context(self._for_default)
        super().__enter__()


_any_calls: dict[bool, Calls] = {}


def any_calls(for_default: bool) -> Calls:
    """Return the prepared calls for borrowed streams, which belong to an unknown context."""
    made = _any_calls.get(for_default)
    if made is None:
        made = Calls(driver.current(), partial(any_context, for_default))
        made = _any_calls.setdefault(for_default, made)
    return made


def release(loaded: driver.Driver, call: str, *arguments: Any) -> bool:
    """Call a releasing function, and tell whether it succeeded; raise no error, which would hide an earlier one."""
    try:
        getattr(loaded, call)(*arguments)
        return True
    except (CudaError, ForkedAfterInit):
        return False


_contexts: dict[int, PrimaryContext] = {}
peers: set[tuple[int, int]] = set()  # (the accessing device, the device of the memory), enabled by us


def context_of(ordinal: int) -> PrimaryContext:
    """Return the only PrimaryContext of an existing device."""
    # If several threads are here, setdefault keeps the first object. A lock would have to allow garbage collection to
    # re-enter.
    return _contexts.get(ordinal) or _contexts.setdefault(ordinal, PrimaryContext(ordinal, driver.current()))


def held_contexts() -> list[PrimaryContext]:
    """List the contexts that are retained now."""
    return [primary for primary in tuple(_contexts.values()) if primary._handle is not None]


def _forget_peers(ordinal: int) -> None:
    peers.difference_update([pair for pair in peers if ordinal in pair])


def reaches(ordinal: int, other: int) -> bool:
    """Tell whether kernels on one device may use another's memory, as far as we have enabled the access."""
    return ordinal == other or (ordinal, other) in peers


def count() -> int:
    """Return the number of devices that the driver sees.

    calls   cuDeviceGetCount
    """
    number = ctypes.c_int()
    driver.current().cuDeviceGetCount(ctypes.byref(number))
    return number.value


def primary_of(device: Any) -> PrimaryContext | None:
    """Return the context that an open Device holds, or begins to hold; None if the object is not a Device.

    raises  Closed   the Device is closed
    """
    primary = getattr(device, "_held", None)
    if type(primary) is PrimaryContext:
        return primary
    if type(device) is PrimaryContext:
        device.open()
        return device
    if not is_device(device):
        return None
    device.context
    primary = device._primary
    return primary  # type: ignore[no-any-return]


def is_device(given: Any) -> bool:
    """Tell whether an object is a Device, open or closed; streams and memory have a context, too, but are not."""
    return type(getattr(given, "_primary", None)) is PrimaryContext and hasattr(given, "ordinal")


# -- checks of what the driver and the device support; `of` is a Kernel, a Stream or another object with a device


def unsupported(message: str, call: str = "cuLaunchKernelEx") -> Unsupported:
    """Return the error for what the device or the driver does not support."""
    return Unsupported(message, code=801, name="CUDA_ERROR_NOT_SUPPORTED", call=call)


def require(of: Any, option: str, attribute: str) -> int:
    """Return the device attribute that tells whether the device supports an option.

    raises  Unsupported  it is 0
    """
    found: int = of.device.attribute(attribute)
    if not found:
        raise unsupported(
            f"{option}: device {of.device.ordinal} does not support it: its attribute {attribute} is {found}"
        )
    return found


def driver_version(of: Any) -> int:
    """Return the CUDA version of the driver, such as 12040."""
    facts = of._primary.attributes
    version: int | None = facts.get(_VERSION)
    if version is None:
        version = facts[_VERSION] = of._primary.driver.version
    return version


def check_version(of: Any, what: str, since: int) -> None:
    """Raise Unsupported if the driver is too old for an option."""
    version = driver_version(of)
    if version < since:
        raise unsupported(f"{what} needs a driver of CUDA {_words(since)}; this one is of CUDA {_words(version)}")


def _words(version: int) -> str:
    return f"{version // 1000}.{version % 1000 // 10}"
