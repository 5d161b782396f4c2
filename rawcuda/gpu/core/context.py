"""The primary context of a device: what holds it, and how it is made current.

What it is   PrimaryContext; `Current`, a context manager that makes it current; and `any_context`, for calls that need
             some current context, no matter which.
How          It is retained when it is first needed, and stays retained (creating it again takes about 0.2 s) until a
             Device that uses it was closed and none of our objects is left in it; or, after it was needed for memory or
             a stream of other software, until the process ends. It is pushed before a call that needs it, unless it is
             current already, and popped afterwards: nothing is left pushed.
Source       CUDA Driver API, "Primary Context Management", "Context Management"
Read next    handles.py, gpu/devices/device.py
"""

from __future__ import annotations

import _thread  # (threading takes 1 ms to import)
import ctypes

from ... import driver
from ...driver import keep_answer, new_answer, take_answer
from ...errors import Closed, CudaError, ForkedAfterInit, a_kind, unsupported
from ...headers import cuda_h
from ...interpreter.cpython import free_after_fork
from ...ownership import forked
from ...protocols.description import Bytes
from ...tracing import careful
from .calls import Calls, report

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Protocol

    from typing_extensions import TypeGuard

    from ...arrays.copying import Side
    from ...gpu.devices.device import Device
    from .points import Event

    class OnDevice(Protocol):
        """A Kernel, a Stream or another object with a device; that of a borrowed stream is None."""

        @property
        def device(self) -> Any:
            """Return the Device."""

        @property
        def _primary(self) -> Any:
            """Return its PrimaryContext."""


__all__ = [
    "ANY_CALLS",
    "AnyContext",
    "Current",
    "FOREIGN",
    "Life",
    "PrimaryContext",
    "attempt",
    "access_remedy",
    "active_contexts",
    "any_context",
    "check_reach",
    "check_version",
    "context_of",
    "count",
    "current_primary",
    "driver_version",
    "forget_peers",
    "held_contexts",
    "no_device",
    "peers",
    "pool_access",
    "primary_of",
    "reaches",
    "require",
    "some_context",
    "uuid_text",
]


_POPPED = ctypes.byref(ctypes.c_void_p())  # where each thread writes the context that it pops; nobody reads it
# A user of each context that was needed for memory or a stream of other software. Nothing removes it: no object of ours
# holds the context for these, and another thread may close a Device while they are used.
FOREIGN = object()
_ALONE, _VERSION = ("alone",), ("version",)  # keys besides the device attributes
_ACCESS_FLAGS, _MEMPOOL_HANDLE = ctypes.c_int(16), ctypes.c_int(17)  # CU_POINTER_ATTRIBUTE_...


class Life:
    """The life of a context, which ends when Device.reset() gives the context another one.

    Graphs note that of each other device that they use.
    """

    __slots__ = ("primary",)

    def __init__(self, primary: PrimaryContext) -> None:
        self.primary = primary

    @property
    def _handle(self) -> int | None:
        """Return the number of the device, and None after the end, as for a handle that is closed."""
        return self.primary.ordinal if self.primary.life is self else None

    def __repr__(self) -> str:
        return f"<context of device {self.primary.ordinal}{', ended by reset()' if self._handle is None else ''}>"


class PrimaryContext:
    """The primary context of a device, shared by all our objects in it; there is exactly one instance per device.

    Each Device that used it and each stream, event, memory, module and graph holds it. These holders only decide when
    we release our own retain of the context; other libraries retain it separately. Its attribute `calls` has the
    driver's functions for prepared arguments, during whose calls the context is current.

    users      the objects that hold it; adding and discarding are atomic
    closing    true until the context is first retained, and from the close() of a Device until the context is needed
               again
    is_current tells whether this context is current in this thread; it takes 130 ns
    push, pop  the driver's functions for Current
    kept       our own modules, each loaded once. They hold this context, and are closed with it
    events     the events of points.py; they are destroyed with the context
    pool       those that no one uses now, a new list for each context
    life       its Life
    destroyed  the handles of memory pools that were destroyed, and are not those of other pools by now
    shared     what is offered to other processes (processes/server.py), with the seconds that its end may wait
    """

    __slots__ = (
        "ordinal",
        "driver",
        "calls",
        "is_current",
        "push",
        "pop",
        "kept",
        "pool",
        "events",
        "destroyed",
        "shared",
        "life",
        "attributes",
        "_handle",
        "users",
        "closing",
        "_lock",
    )

    def __init__(self, ordinal: int, loaded: driver.Driver) -> None:
        self.ordinal, self.driver = ordinal, loaded
        self.is_current: Callable[[], bool] = _prepare_is_current(self)
        self.push, self.pop = loaded.raw("cuCtxPushCurrent_v2"), loaded.raw("cuCtxPopCurrent_v2")
        self.calls = Calls(loaded, self)
        self._handle: int | None = None
        self.users: set[object] = set()
        self.closing = True
        self.kept: dict[object, Any] = {}
        self.pool: list[Event] = []
        self.events: list[Event] = []
        self.destroyed: set[int] = set()
        self.shared: dict[Any, float] = {}
        self.life = Life(self)
        self.attributes: dict[object, Any] = {}  # constant facts about the device, for Device
        self._lock = free_after_fork(_thread.RLock())  # re-entrant, because garbage collection may run while it is held

    def hold(self, user: object) -> int:
        """Add a user and return the context's handle; the context is retained if necessary.

        calls   cuDevicePrimaryCtxRetain
        """
        # The user is added first and `closing` is tested afterwards, while let_go() sets `closing` first and counts the
        # users afterwards: at least one of the two notices the other.
        self.users.add(user)
        handle = self._handle
        if not self.closing and handle is not None and not forked:
            return handle
        self.users.discard(user)
        if forked:  # a thread of the parent may have held the lock at the fork
            self.driver.refuse_forked("cuDevicePrimaryCtxRetain")
        with self._lock:
            self._open()
            self.users.add(user)
            assert self._handle is not None
            return self._handle

    def open(self) -> int:
        """Return the context's handle, retaining the context if necessary but not holding it."""
        if self._handle is None:
            if forked:
                self.driver.refuse_forked("cuDevicePrimaryCtxRetain")
            with self._lock:
                self._open()
        return self.handle

    def _open(self) -> None:
        if self._handle is None:
            context = cuda_h.CUcontext()
            self.driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), self.ordinal)
            self._handle = context.value or 0
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
        with self._lock:
            if self.closing and len(self.users) == len(self.kept):
                self.forget()
            if not self.users and self.closing and self._handle is not None:
                self._handle = None
                forget_peers(self.ordinal)
                attempt(self.driver.cuDevicePrimaryCtxRelease_v2, self.ordinal)

    def forget(self) -> None:
        """Close the kept modules and destroy the events; they are made again when next needed."""
        while self.kept:
            self.kept.popitem()[1].close()
        self.pool = []
        while self.events:
            event = self.events.pop()
            argument, event.argument = event.argument, None
            if self._handle is not None:
                attempt(self.calls.cuEventDestroy_v2, argument)

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

    def call_pushed(self, function: Callable[..., int], arguments: tuple[object, ...]) -> int:
        """Push this context, which is not current, call a raw function, pop the context, and return the code.

        Launches are made in this way where this context is not current, in a third of the time that current() takes.
        """
        argument, pushed = driver.as_argument(self.handle), False
        try:
            code: int = self.push(argument)
            if code:
                raise self.calls.failed(self.push, code, (argument,))
            pushed = True
            code = function(*arguments)
            return code
        finally:
            try:
                if pushed or self.is_current():  # an interrupt may come after the push
                    if self.pop(_POPPED) and self.is_current():  # for want of memory it was not popped
                        self.pop(_POPPED)
            except BaseException:  # before Python 3.11, an interrupt may come here before the pop, too
                if self.is_current():
                    self.pop(_POPPED)
                raise

    @property
    def is_alone(self) -> bool:
        """Tell whether the driver sees no other device."""
        known = self.attributes.get(_ALONE)
        if known is None:
            known = self.attributes[_ALONE] = count() == 1
        return bool(known)

    def __repr__(self) -> str:
        return f"<PrimaryContext of device {self.ordinal}>"


def _prepare_is_current(context: PrimaryContext) -> Callable[[], bool]:
    """Return the function that tells whether a context is current in this thread; nearly every operation calls it."""
    # This is written out, instead of a call of Driver.current_context(): it is in the way of every hot call.
    loaded = context.driver
    ask = loaded.ask_current

    def is_current() -> bool:
        """Tell whether the context is current in this thread.

        calls   cuCtxGetCurrent
        """
        if careful:
            return loaded.current_context() == context._handle
        try:
            mine = take_answer()
        except IndexError:
            mine = new_answer()
        into, answer = mine
        is_ours: bool = not ask(*into) and answer.value == context._handle
        keep_answer(mine)
        return is_ours

    return is_current


class Current:
    """A context manager that makes a context current in this thread, by pushing it unless it is current already.

    It is for one with block at a time: it knows of one push, in one thread.
    raises  ValueError  its with block has not ended
    calls   cuCtxGetCurrent, cuCtxPushCurrent_v2, cuCtxPopCurrent_v2
    """

    __slots__ = ("_context", "_pushed")

    def __init__(self, context: PrimaryContext | None) -> None:
        self._context = context
        self._pushed: bool | None = None  # None outside of the with block

    def __enter__(self) -> None:
        context = self._context
        if self._pushed is not None:
            raise ValueError("the with block of this current() has not ended: call current() again for another one")
        if context is None or context.is_current() and context._handle is not None:
            self._pushed = False
            return
        argument = driver.as_argument(context.handle)
        if forked:
            context.driver.refuse_forked("cuCtxPushCurrent_v2")
        self._pushed = False
        try:
            if careful:
                code = report(context.driver, context.push, (argument,))
            else:
                code = context.push(argument)
            if code:
                raise context.calls.failed(context.push, code, (argument,))
            self._pushed = True
        except BaseException:
            self._pushed = context.is_current()  # an interrupt may come after the push
            self.__exit__()
            raise

    def __exit__(self, *raised: object) -> None:
        # After a sticky error, popping reports the error again; it is ignored, since the error was raised already.
        try:
            context = self._context
            if self._pushed and context is not None:
                if careful:
                    code = report(context.driver, context.pop, (ctypes.byref(ctypes.c_void_p()),))
                else:
                    code = context.pop(_POPPED)
                if code and context.is_current():  # for want of memory it was not popped
                    context.pop(_POPPED)
            self._pushed = None
        except BaseException:  # an interrupt may come before the pop
            context = self._context
            if self._pushed and context is not None and context.is_current():
                context.pop(_POPPED)
            self._pushed = None
            raise


def any_context(for_default: bool = False) -> PrimaryContext | None:
    """Return the context to push for a call that needs some current context; None if there is one already.

    An address or a stream handle implies its device, but the driver needs some current context in order to answer.

    for_default  whether the call is about a default stream: every context has one, so we must hold only one context
    raises       ValueError  no context is current, and we hold none or several
    """
    if driver.current().current_context() is not None:
        return None
    return _to_push(for_default)


def _to_push(for_default: bool) -> PrimaryContext:
    """Return the context to push where none is current; see any_context."""
    if for_default and len(held_contexts()) != 1:
        raise ValueError(
            "a default stream belongs to the current context, and none is current: choose the device, "
            "with device.current(): ..., or use device.synchronize()"
        )
    return some_context()


def current_primary() -> PrimaryContext | None:
    """Return the context that is current in this thread, or None if there is none, or it is not one that we hold."""
    now = driver.current().current_context()
    for primary in tuple(_contexts.values()):
        if primary._handle == now is not None:
            return primary
    return None


def some_context() -> PrimaryContext:
    """Return a context that is in use, by us or else by other software, so that no new context is created.

    It stays retained: the caller needs it for what other software owns.
    """
    found = (held_contexts() or active_contexts() or [context_of(0)])[0]
    found.hold(FOREIGN)
    return found


def active_contexts() -> list[PrimaryContext]:
    """List the primary contexts that exist, whoever retains them.

    calls   cuDevicePrimaryCtxGetState
    """
    found, flags, active = [], ctypes.c_uint(), ctypes.c_int()
    for ordinal in range(count()):
        driver.current().cuDevicePrimaryCtxGetState(ordinal, ctypes.byref(flags), ctypes.byref(active))
        if active.value:
            found.append(context_of(ordinal))
    return found


class AnyContext(Current):
    """A context manager that makes any context current; see any_context."""

    __slots__ = ("_for_default",)

    def __init__(self, *, for_default: bool = False) -> None:
        super().__init__(None)
        self._for_default = for_default

    def __enter__(self) -> None:
        self._context = any_context(self._for_default)
        super().__enter__()


class _AnyContext:
    """Some current context, for the calls on borrowed streams, which belong to an unknown context."""

    _handle: int | None = None

    def __init__(self, for_default: bool) -> None:
        self._for_default = for_default

    def current(self) -> AnyContext:
        """Return a context manager that makes any context current."""
        return AnyContext(for_default=self._for_default)

    def call_pushed(self, function: Callable[..., int], arguments: tuple[object, ...]) -> int:
        """Call a raw function in any context, where none is current, and return the code."""
        return _to_push(self._for_default).call_pushed(function, arguments)


class _AnyCalls(Calls):
    """The prepared calls for borrowed streams, which belong to an unknown context.

    Which context is current does not matter, if there is one. The driver is loaded at the first call.
    """

    def __init__(self, for_default: bool) -> None:
        self._context = _AnyContext(for_default)

    def __getattr__(self, symbol: str) -> Any:
        if symbol == "_driver":
            self._driver = driver.current()
            return self._driver
        return super().__getattr__(symbol)

    def _prepare(self, function: Callable[..., int]) -> Callable[..., int]:
        ask, context, answer, call_carefully = self._driver.ask_current, self._context, self.answer, self.call_carefully

        def call(*arguments: object) -> int:
            if careful:
                return call_carefully(function, arguments)
            try:  # current_context(), written out: its frame takes 6 % of a view by the CUDA array interface
                mine = take_answer()
            except IndexError:
                mine = new_answer()
            into, now = mine
            nowhere = ask(*into) or not now.value
            keep_answer(mine)
            if nowhere:
                code = context.call_pushed(function, arguments)
            else:
                code = function(*arguments)
            if code:
                return answer(function, code, arguments)
            return 0

        return call


ANY_CALLS = _AnyCalls(for_default=False), _AnyCalls(for_default=True)


def attempt(call: Callable[..., object], *arguments: object) -> bool:
    """Make a call that releases or waits, and tell whether it succeeded; an error of it would hide an earlier one."""
    try:
        call(*arguments)
        return True
    except (CudaError, ForkedAfterInit, Closed) as error:
        driver.current().unnoticed(error)
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


def forget_peers(ordinal: int) -> None:
    """Forget the access from and to a device whose context ends."""
    peers.difference_update([pair for pair in peers if ordinal in pair])


def pool_access(ordinal: int, address: int) -> int | None:
    """Return the access that the pool of some memory gives a device: 0, 1 to read, 3 to read and write.

    returns  None  the memory is not of a pool
    calls    cuPointerGetAttribute
    """
    if not address:
        return None
    primary, found = context_of(ordinal), ctypes.c_uint64()
    primary.open()
    ask = primary.calls.cuPointerGetAttribute
    into, where = ctypes.byref(found), driver.as_argument(address)
    # (drivers before CUDA 11.3 do not know the first attribute)
    if attempt(ask, into, _MEMPOOL_HANDLE, where) and found.value and attempt(ask, into, _ACCESS_FLAGS, where):
        return found.value & 0xFFFFFFFF
    return None


def reaches(ordinal: int, other: int, address: int) -> int:
    """Return the access of one device to device memory of another one, which other software may own: 0, 1, or 3.

    That is for the pool of the memory to say; for other memory, it is known as far as we have enabled the access.
    """
    if ordinal == other:
        return 3
    given = pool_access(ordinal, address)
    if given is None:
        return 3 * ((ordinal, other) in peers)
    return given


def access_remedy(ordinal: int, other: int, address: int) -> str:
    """Return how a device can be given access to memory of another one, as text for an error."""
    if pool_access(ordinal, address) is None:
        return f"Device({ordinal}).enable_peer_access(Device({other}))"
    return f'its pool.set_access(Device({ordinal}), "readwrite")'


def check_reach(worker: Any, word: str, thing: Any, side: Side, needed: int = 3) -> None:
    """Check that the device of a stream or a graph can access the memory of a view or a Memory.

    word  for a remedy: "stream" or "graph"
    side  that of the view or the Memory
    needed  1 to read, 3 to write
    """
    working = worker._primary
    if working is None:
        return
    owner = thing if isinstance(thing, Bytes) else thing._owner
    ours = isinstance(owner, Bytes)  # (page-locked and managed memory of a pool is only for the devices that it names)
    if side.kind != "device" and not ours:
        return
    there = side.primary.ordinal
    access = owner._access_from(working.ordinal) if ours else reaches(working.ordinal, there, thing.ptr)
    if access >= needed:
        return
    if ours:
        remedy = owner._remedy(working.ordinal)
    else:
        remedy = access_remedy(working.ordinal, there, thing.ptr)
    what = "write" if access else "access"
    instead = "" if working.ordinal == there else f"give a {word} of device {there}, or "
    raise ValueError(
        f"{worker!r} belongs to device {working.ordinal}, which cannot {what} memory of device {there}: {instead}call "
        f"{remedy} first"
    )


def count() -> int:
    """Return the number of devices that the driver sees.

    calls   cuDeviceGetCount
    """
    number = ctypes.c_int()
    driver.current().cuDeviceGetCount(ctypes.byref(number))
    return number.value


def primary_of(device: object) -> PrimaryContext | None:
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
    return device._primary


def is_device(given: object) -> TypeGuard[Device]:
    """Tell whether an object is a Device, open or closed; streams and memory have a context, too, but are not."""
    return type(getattr(given, "_primary", None)) is PrimaryContext and hasattr(given, "ordinal")


def no_device(what: str, given: object, maker: str) -> TypeError:
    """Return the error for what is given, or not given, in the place of the Device of a new object."""
    instead = "" if given is None else f", not {a_kind(given)}"
    return TypeError(f"{what} needs a Device{instead}: {maker} makes one")


def uuid_text(raw: bytes, kind: str = "GPU") -> str:
    """Return a UUID as nvidia-smi writes it; kind: "GPU" or "MIG"."""
    digits = raw.hex()
    return "-".join((kind, digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


# -- checks of what the driver and the device support


def require(of: OnDevice, option: str, attribute: str) -> int:
    """Return the device attribute that tells whether the device supports an option.

    raises  Unsupported  it is 0
    """
    found: int = of.device.attribute(attribute)
    if not found:
        why = f"{option}: device {of.device.ordinal} does not support it: its attribute {attribute} is {found}"
        raise unsupported(why, "cuLaunchKernelEx")
    return found


def driver_version(of: OnDevice) -> int:
    """Return the CUDA version of the driver, such as 12040."""
    facts = of._primary.attributes
    version: int | None = facts.get(_VERSION)
    if version is None:
        version = facts[_VERSION] = of._primary.driver.version
    return version


def check_version(of: OnDevice, what: str, since: int) -> None:
    """Raise Unsupported if the driver is too old for an option."""
    version = driver_version(of)
    if version < since:
        why = f"{what} needs a driver of CUDA {driver.dotted(since)}; this one is of CUDA {driver.dotted(version)}"
        raise unsupported(why, "cuLaunchKernelEx")
