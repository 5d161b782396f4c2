"""A device, and its primary context.

What it is   Device: facts about one GPU, and the place where streams, events, memory and modules are made.
What not     it makes no context of its own: the primary context is the one that every other library shares, too.
How          the primary context is retained when something first needs it, and stays so (making it anew costs some 0.2 s)
             until a Device of it was closed and nothing of ours lives in it any more. It is pushed round a call that needs
             it, unless it is current already, and popped again: nothing is left pushed.
Source       CUDA Driver API, "Device Management", "Primary Context Management", "Context Management"
Read next    stream.py, memory.py, kernel.py
"""
from __future__ import annotations

import _thread                                           # (threading takes 1 ms to import)
import ctypes
from functools import partial
from operator import index

from . import cuda_h, driver
from .errors import Closed, CudaError, ForkedAfterInit, a_kind, worded
from .owned import Owned, drain, outdate
from .tracing import listeners

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from types import TracebackType
    from typing import Any, Optional, Union

    from .kernel import Module
    from .memory import Memory
    from .strided import StridedView
    from .stream import Event, Stream

__all__ = ["Device", "devices", "synchronize", "PrimaryContext", "AnyContext", "Current", "count", "reaches", "release"]


class PrimaryContext:
    """The primary context of one device, shared by everything of ours that lives in it; one object a device.

    Each Device that used it and each stream, event, memory and module holds it. That count only decides when we release
    our one retain: other libraries have theirs.
    """

    __slots__ = ("ordinal", "driver", "kept", "slow", "_handle", "_users", "_closing", "_lock", "_raw", "prepared", "_makers", "_push", "_pop")

    def __init__(self, ordinal: int, loaded: driver.Driver) -> None:
        self.ordinal, self.driver = ordinal, loaded
        self.slow = loaded.slow
        self._raw: dict[str, Any] = {}
        self.prepared: list[Any] = []      # of memory.py
        self._makers: dict[Any, list[Any]] = {}
        self._push: Any = None
        self._pop = partial(self.raw("cuCtxPopCurrent_v2"), ctypes.byref(ctypes.c_void_p()))
        self._handle: Optional[int] = None
        self._users: list[None] = []       # one for each; list.append and pop are atomic
        self._closing = False
        self.kept: dict[Any, Owned] = {}     # modules of our own, loaded once: they hold this context, and go with it
        self._lock = _thread.RLock()       # a collection inside it may come back here

    def hold(self) -> int:
        """Count one more user and return the context's handle, retaining it if need be.

        calls   cuDevicePrimaryCtxRetain
        """
        # Entered first and looked at after, while let_go() says that it closes and looks after: one of the two sees the other.
        self._users.append(None)
        handle = self._handle
        if handle is not None and not self._closing and not self.slow:
            return handle
        self._users.pop()
        if self.driver.forked:                           # the lock may have been taken in the parent, for good
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
                _peers.difference_update([pair for pair in _peers if self.ordinal in pair])
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
        if listeners or self.slow or self._push():
            self.driver.cuCtxPushCurrent_v2(cuda_h.CUcontext(handle))
        return True

    def leave(self) -> None:
        """Undo an enter() that pushed.

        calls   cuCtxPopCurrent_v2
        """
        # After a sticky error popping reports that error once more; the first one is on its way already.
        if listeners or self.slow:
            release(self.driver, "cuCtxPopCurrent_v2", ctypes.byref(cuda_h.CUcontext()))
        else:
            self._pop()

    # -- prepared calls: a call that is checked in full costs five times as much

    def raw(self, name: str) -> Any:
        """Return a function for prepared arguments; see Driver.raw."""
        function = self._raw.get(name)
        if function is None:
            function = self._raw[name] = self.driver.raw(name)
        return function

    def make(self, call: str, kind: Any, numbers: tuple[int, ...]) -> int:
        """Make a thing of the driver's, in this context, by a call that takes where to put its handle, and numbers.

        No two calls take as many numbers: these tell which call it is. One cell serves the question which context is current and
        the call; where that is another, this one is pushed.
        """
        if not listeners and not self.slow and type(numbers[-1]) is int:     # (True is 1, too, for a dict)
            pool = self._makers.get(numbers)
            if pool is None and -10 <= numbers[-1] <= 10:
                pool = self._makers[numbers] = []
            if pool is not None:
                try:
                    cell, ask, prepared = entry = pool.pop()
                except IndexError:                       # every one is in use by some other thread
                    cell = ctypes.c_void_p()
                    where = ctypes.byref(cell)
                    prepared = partial(self.raw(call), where, *[ctypes.c_int.from_param(number) for number in numbers])
                    entry = cell, ask, prepared = cell, partial(self.raw("cuCtxGetCurrent"), where), prepared
                if not ask() and cell.value == self._handle:
                    failed = prepared()
                else:
                    with self.current():
                        failed = prepared()
                handle = cell.value
                pool.append(entry)
                if not failed:
                    return handle or 0
        with self.current():
            made = kind()                                # (a failure is told by the checked call)
            getattr(self.driver, call)(ctypes.byref(made), *numbers)
        return made.value or 0

    def destroy(self, call: str, kind: Any, handle: int, argument: Any, late: bool) -> None:
        """Release what make() made, and the hold on this context. It knows its context; ours is pushed where the driver wants that."""
        if listeners or self.slow or (self._raw.get(call) or self.raw(call))(argument) in _WRONG:
            try:
                with self.current():
                    release(self.driver, call, kind(handle))
            except (CudaError, ForkedAfterInit):         # the context is lost, or this is a forked child
                pass
        self.let_go()


class Current:
    """Make a context current in this thread for the length of a with block, unless it is already.

    calls   cuCtxGetCurrent, cuCtxPushCurrent_v2, cuCtxPopCurrent_v2
    """

    __slots__ = ("_context", "_pushed")

    def __init__(self, context: PrimaryContext) -> None:
        self._context, self._pushed = context, False

    def __enter__(self) -> None:
        self._pushed = self._context.enter()

    def __exit__(self, kind: "Optional[type[BaseException]]", value: "Optional[BaseException]",
                 traceback: "Optional[TracebackType]") -> None:
        if self._pushed:
            self._pushed = False
            self._context.leave()


def release(loaded: driver.Driver, call: str, *arguments: Any) -> bool:
    """Call something that releases, and tell whether it did; no error is raised (a close must not hide what led to it)."""
    try:
        getattr(loaded, call)(*arguments)
        return True
    except (CudaError, ForkedAfterInit):
        return False


_WRONG = driver.WRONG_CONTEXT
_contexts: dict[int, PrimaryContext] = {}


def _context_of(ordinal: int) -> PrimaryContext:
    # setdefault lets one of several threads win. A lock would have to bear a collection inside it, that comes back here.
    return _contexts.get(ordinal) or _contexts.setdefault(ordinal, PrimaryContext(ordinal, driver.current()))


def _held_contexts() -> list[PrimaryContext]:
    return [primary for primary in tuple(_contexts.values()) if primary._handle is not None]


_stream: Any = None                                      # stream.create and memory.allocate, once they were needed
_allocate: Any = None


class Device(Owned):
    """One GPU, by its ordinal among those that CUDA_VISIBLE_DEVICES leaves.

    units   total_memory and free_memory are bytes
    calls   cuDeviceGet
    raises  TypeError   the ordinal is not an int
            ValueError  there is no such device
    """

    __slots__ = ("ordinal", "primary", "_attributes")

    def __init__(self, ordinal: int = 0) -> None:
        if isinstance(ordinal, bool) or not hasattr(type(ordinal), "__index__"):
            raise TypeError(f"a device's ordinal is an int, not {a_kind(ordinal)}")
        ordinal = int.__index__(index(ordinal))
        loaded, many = driver.current(), count()
        if not 0 <= ordinal < many:
            raise ValueError(f"there is no device {worded(ordinal)}: this driver sees {many}, numbered from 0")
        self.ordinal = ordinal
        self.primary = _context_of(ordinal)
        self._attributes: dict[int, int] = {}
        handle = ctypes.c_int()
        loaded.cuDeviceGet(ctypes.byref(handle), ordinal)
        self._handle, self._ticket = handle.value, None

    # -- the context

    @property
    def context(self) -> int:
        """Return the primary context's handle, retaining it if need be."""
        self.handle
        if self._ticket is None:
            primary = self.primary
            primary.hold()
            self._own(self.handle, lambda late: primary.let_go(closing=not late))
        return self.primary.handle

    def current(self) -> Current:
        """Return a with block in which this device's primary context is current in this thread."""
        self.context
        return self.primary.current()

    def synchronize(self) -> None:
        """Wait until everything that was given to this device's context is done.

        calls   cuCtxSynchronize
        """
        from .stream import sweep
        with self.current():
            self.primary.driver.cuCtxSynchronize()
        sweep()
        drain()

    # -- facts

    @property
    def name(self) -> str:
        """Return the device's name."""
        text = ctypes.create_string_buffer(256)
        self.primary.driver.cuDeviceGetName(text, len(text), self.handle)
        return text.value.decode("utf-8", "replace")

    @property
    def uuid(self) -> str:
        """Return the device's UUID, as nvidia-smi writes it."""
        raw = cuda_h.CUuuid()
        name = "cuDeviceGetUuid_v2" if self.primary.driver.has("cuDeviceGetUuid_v2") else "cuDeviceGetUuid"
        getattr(self.primary.driver, name)(ctypes.byref(raw), self.handle)
        digits = bytes(raw).hex()
        return "GPU-" + "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))

    @property
    def compute_capability(self) -> tuple[int, int]:
        """Return (major, minor)."""
        return self.attribute("COMPUTE_CAPABILITY_MAJOR"), self.attribute("COMPUTE_CAPABILITY_MINOR")

    @property
    def total_memory(self) -> int:
        """Return the device's memory in bytes."""
        size = ctypes.c_size_t()
        self.primary.driver.cuDeviceTotalMem_v2(ctypes.byref(size), self.handle)
        return size.value

    @property
    def free_memory(self) -> int:
        """Return the bytes that are free now; other processes use the device, too."""
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        with self.current():
            self.primary.driver.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))
        return free.value

    def attribute(self, which: Union[str, int]) -> int:
        """Return a device attribute by its name in cuda.h, with or without CU_DEVICE_ATTRIBUTE_, or by its number.

        calls   cuDeviceGetAttribute
        raises  ValueError  no such name
        """
        number = _attribute_number(which) if isinstance(which, str) else which
        known = self._attributes.get(number)
        if known is None:
            value = ctypes.c_int()
            self.primary.driver.cuDeviceGetAttribute(ctypes.byref(value), number, self.handle)
            known = self._attributes[number] = value.value
        return known

    def can_access(self, other: Device) -> bool:
        """Tell whether this device could reach the other's memory.

        calls   cuDeviceCanAccessPeer
        """
        yes = ctypes.c_int()
        self.primary.driver.cuDeviceCanAccessPeer(ctypes.byref(yes), self.handle, other.handle)
        return bool(yes.value)

    def enable_peer_access(self, other: Device) -> None:
        """Let kernels on this device reach the other's memory; done already is fine.

        calls   cuCtxEnablePeerAccess
        raises  Unsupported  these devices cannot
        """
        other_context = cuda_h.CUcontext(other.context)
        with self.current():
            try:
                self.primary.driver.cuCtxEnablePeerAccess(other_context, 0)
            except CudaError as error:
                if error.code != cuda_h.CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED:
                    raise
        _peers.add((self.ordinal, other.ordinal))

    # -- what lives on it

    def stream(self, priority: int = 0) -> Stream:
        """Make a stream that does not wait for the legacy default stream, nor it for this."""
        global _stream
        if _stream is None:                              # (an import statement is dear)
            from .stream import create as _stream
        return _stream(self, priority)  # type: ignore[no-any-return]

    def event(self, timing: bool = False) -> Event:
        """Make an event; with timing, elapsed_ms can be asked of it."""
        from .stream import Event
        return Event(self, timing=timing)

    def allocate(self, nbytes: int, *, kind: str = "device", stream: Any = None) -> Memory:
        """Allocate bytes of "device", "pinned" or "managed" memory; with a stream, in that stream's order."""
        global _allocate
        if _allocate is None:
            from .memory import allocate as _allocate
        return _allocate(self, nbytes, kind=kind, stream=stream)  # type: ignore[no-any-return]

    def empty(self, shape: Union[int, tuple[int, ...]], dtype: Any) -> StridedView:
        """Make an array on this device, in C order, its contents undefined."""
        from .strided import empty
        return empty(self, shape, dtype)

    def upload(self, exporter: Any, *, stream: Any = None) -> StridedView:
        """Copy any exporter's array into new memory of this device, in C order."""
        from .strided import upload
        return upload(self, exporter, stream=stream)

    def load(self, code: Union[str, bytes, os.PathLike[str]]) -> Module:
        """Load PTX (str or bytes), a cubin or fatbin (bytes), or the file at a path (os.PathLike only)."""
        from .kernel import Module
        return Module(self, code)

    def _gone(self) -> None:
        outdate()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Device) and other.ordinal == self.ordinal

    def __hash__(self) -> int:
        return hash(("device", self.ordinal))

    def __repr__(self) -> str:
        return f"<Device {self.ordinal}{' closed' if self.closed else ''}>"


_peers: set[tuple[int, int]] = set()             # (who reaches, whose memory), switched on through us


def reaches(ordinal: int, other: int) -> bool:
    """Tell whether kernels on one device may use another's memory, as far as it was switched on through us."""
    return ordinal == other or (ordinal, other) in _peers


def _attribute_number(name: str) -> int:
    full = name.upper()
    if not full.startswith("CU_DEVICE_ATTRIBUTE_"):
        full = "CU_DEVICE_ATTRIBUTE_" + full
    table = cuda_h.enum("CUdevice_attribute")
    if full not in table:
        import difflib
        near = difflib.get_close_matches(full, table, 3, 0.5)
        raise ValueError(f"no device attribute {name!r}" + (f": did you mean {', '.join(near)}?" if near else ""))
    return table[full]


class AnyContext(Current):
    """Have some context current for the length of a with block, for calls that need one and do not care which.

    An address or a stream's handle says itself which device it is of; but the driver answers only to a thread that has a
    context.

    for_default  the call is about a default stream, which each context has: then ours counts only if there is but one
    raises       ValueError  none is current, and which of several was meant is not known
    """

    __slots__ = ("_unclear",)

    def __init__(self, *, for_default: bool = False) -> None:
        held = _held_contexts()
        super().__init__(held[0] if held else Device(0).primary)
        self._unclear = for_default and len(held) != 1

    def __enter__(self) -> None:
        if self._context.driver.current_context() is None:
            if self._unclear:
                raise ValueError("a default stream belongs to the context that is current, and none is: name the device, "
                                 "with device.current(): ..., or use device.synchronize()")
            if self._context._handle is None:
                self._context.hold()                     # kept: what asks for addresses will soon use them
            super().__enter__()


def count() -> int:
    """Return how many devices this driver sees.

    calls   cuDeviceGetCount
    """
    number = ctypes.c_int()
    driver.current().cuDeviceGetCount(ctypes.byref(number))
    return number.value


def devices() -> list[Device]:
    """List the devices that this driver sees.

    calls   cuDeviceGetCount
    """
    return [Device(ordinal) for ordinal in range(count())]


def synchronize() -> None:
    """Wait until every device is done with all that this package gave it.

    calls   cuCtxSynchronize
    """
    for primary in _held_contexts():
        primary.hold()
        try:
            with primary.current():
                primary.driver.cuCtxSynchronize()
        finally:
            primary.let_go()
    from .stream import sweep
    sweep()
    drain()
