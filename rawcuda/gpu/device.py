"""Devices: facts about a GPU, and the methods that make streams, events, memory and modules on it.

What not     it creates no context of its own: the primary context (context.py) is the one that other libraries use,
             too.
Source       CUDA Driver API, "Device Management"
Read next    copies/device_copy.py
"""

from __future__ import annotations

import ctypes
from operator import index

from .. import driver, names
from ..arrays import making
from ..errors import CudaError, a_kind, worded
from ..headers import cuda_h
from ..owned import Held, Owned, drain, dropped, invalidate
from ..tracing import careful
from .context import Current, context_of, count, peers, reaches
from .memory import Memory, allocate
from .ordering import synchronize_contexts
from .retention import retained, sweep
from .stream import Event, Stream

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .context import PrimaryContext

__all__ = ["Device", "count", "devices", "reaches", "synchronize"]


_NAME, _UUID = ("name",), ("uuid",)  # keys beside the attributes, which have names and numbers


class Device(Owned):
    """A GPU, given by its ordinal among the devices that CUDA_VISIBLE_DEVICES allows.

    units   total_memory and free_memory are in bytes
    calls   cuDeviceGet
    raises  TypeError   the ordinal is not an int
            ValueError  the device does not exist
    """

    __slots__ = ("ordinal", "_primary", "_held")

    if TYPE_CHECKING:
        _held: PrimaryContext | None  # the context, while this is open and holds it

    def __init__(self, ordinal: int = 0) -> None:
        if type(ordinal) is not int:
            if isinstance(ordinal, bool) or not hasattr(type(ordinal), "__index__"):
                raise TypeError(f"a device's ordinal must be an int, not {a_kind(ordinal)}")
            ordinal = int.__index__(index(ordinal))
        known = None if careful else _known.get(ordinal)
        primary, handle = known or _look_up(ordinal)
        self.ordinal, self._primary, self._held = ordinal, primary, None
        self._own(handle, None)

    # -- the context

    @property
    def context(self) -> int:
        """Return the primary context's handle; the context is retained if necessary."""
        handle, primary = self.handle, self._primary
        if self._held is None:
            with Held(primary._lock):
                if self._held is None:
                    use = _Use(primary)
                    primary.hold(use)
                    self._own(handle, use)
                    self._held = primary
        return primary.handle

    def current(self) -> Current:
        """Return a context manager that makes this device's primary context current in this thread."""
        self.context
        return self._primary.current()

    def synchronize(self) -> None:
        """Wait until all work in this device's context is done.

        calls   cuCtxSynchronize
        """
        if self._held is None:
            self.context
        self._primary.inside.cuCtxSynchronize()
        if retained:
            sweep(now=True)
        if dropped:
            drain()

    # -- facts

    @property
    def name(self) -> str:
        """Return the device's name."""
        known = self._primary.attributes.get(_NAME)
        if known is None or self._handle is None:
            text = ctypes.create_string_buffer(256)
            self._primary.driver.cuDeviceGetName(text, len(text), self.handle)
            known = self._primary.attributes[_NAME] = text.value.decode("utf-8", "replace")
        return known

    @property
    def uuid(self) -> str:
        """Return the device's UUID, as nvidia-smi writes it."""
        known = self._primary.attributes.get(_UUID)
        if known is None or self._handle is None:
            raw = cuda_h.CUuuid()
            name = "cuDeviceGetUuid_v2" if self._primary.driver.has("cuDeviceGetUuid_v2") else "cuDeviceGetUuid"
            getattr(self._primary.driver, name)(ctypes.byref(raw), self.handle)
            digits = bytes(raw).hex()
            known = "GPU-" + "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
            self._primary.attributes[_UUID] = known
        return known

    @property
    def compute_capability(self) -> tuple[int, int]:
        """Return (major, minor)."""
        return self.attribute("COMPUTE_CAPABILITY_MAJOR"), self.attribute("COMPUTE_CAPABILITY_MINOR")

    @property
    def total_memory(self) -> int:
        """Return the size of the device's memory in bytes."""
        size = ctypes.c_size_t()
        self._primary.driver.cuDeviceTotalMem_v2(ctypes.byref(size), self.handle)
        return size.value

    @property
    def free_memory(self) -> int:
        """Return the number of bytes that are free now; other processes may change it."""
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        with self.current():
            self._primary.driver.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))
        return free.value

    def attribute(self, which: str | int) -> int:
        """Return a device attribute by its name in cuda.h, with or without CU_DEVICE_ATTRIBUTE_, or by its number.

        calls   cuDeviceGetAttribute
        raises  ValueError  an unknown name
        """
        known = self._primary.attributes.get(which) if type(which) is str else None
        if known is None or self._handle is None:
            known = self._ask_attribute(which)
        return known

    def _ask_attribute(self, which: Any) -> int:
        if isinstance(which, str):
            number = _attribute_number(which)
        elif isinstance(which, bool) or not hasattr(type(which), "__index__"):
            raise TypeError(f"an attribute must be a name in cuda.h or its number, not {a_kind(which)}")
        else:
            number = int.__index__(index(which))
        known = self._primary.attributes
        if number not in known or self._handle is None:
            value = ctypes.c_int()
            self._primary.driver.cuDeviceGetAttribute(ctypes.byref(value), number, self.handle)
            known[number] = value.value
        if type(which) is str:
            known[which] = known[number]
        return int(known[number])

    def can_access(self, other: Device) -> bool:
        """Tell whether this device can be given access to the memory of another.

        calls   cuDeviceCanAccessPeer
        """
        _check_device(other)
        yes = ctypes.c_int()
        self._primary.driver.cuDeviceCanAccessPeer(ctypes.byref(yes), self.handle, other.handle)
        return bool(yes.value)

    def enable_peer_access(self, other: Device) -> None:
        """Let kernels on this device access the memory of another; does nothing if they already can.

        calls   cuCtxEnablePeerAccess
        raises  Unsupported  the hardware does not support it between these devices
        """
        _check_device(other)
        other_context = cuda_h.CUcontext(other.context)
        with self.current():
            try:
                self._primary.driver.cuCtxEnablePeerAccess(other_context, 0)
            except CudaError as error:
                if error.code != cuda_h.CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED:
                    raise
        peers.add((self.ordinal, other.ordinal))

    # -- objects on the device

    def stream(self, priority: int = 0) -> Stream:
        """Make a non-blocking stream: it and the legacy default stream do not wait for each other."""
        return Stream(self, priority=priority) if priority else Stream(self)

    def event(self, timing: bool = False) -> Event:
        """Make an event; with timing, its elapsed_ms() can be used."""
        return Event(self, timing=timing) if timing else Event(self)

    def graph(self) -> names.Graph:
        """Return a new graph without nodes; see Graph."""
        from .graph import Graph

        return Graph(self)

    def allocate(
        self, nbytes: int, *, kind: str = "device", stream: names.Any = None, pool: names.MemoryPool | None = None
    ) -> Memory:
        """Allocate "device", "pinned" or "managed" memory; if a stream or a pool is given, in the stream's order."""
        if pool is not None:
            from .memories.pool import allocate_from

            memory: Memory = allocate_from(self, pool, nbytes, kind, stream)
            return memory
        return allocate(self, nbytes, kind=kind, stream=stream)

    def register(self, exporter: names.Any, *, read_only: bool = False) -> Memory:
        """Page-lock an array in host memory where it is; see Memory.register."""
        return Memory.register(exporter, device=self, read_only=read_only)

    @property
    def pool(self) -> names.MemoryPool:
        """Return the pool of stream-ordered memory; another MemoryPool of this device can be assigned.

        calls   cuDeviceGetMemPool, cuDeviceSetMemPool
        """
        from .memories.pool import MemoryPool

        return MemoryPool.current(self)

    @pool.setter
    def pool(self, pool: names.MemoryPool) -> None:
        from .memories.pool import set_pool

        set_pool(self, pool)

    @property
    def default_pool(self) -> names.MemoryPool:
        """Return the pool that this device has from the start.

        calls   cuDeviceGetDefaultMemPool
        """
        from .memories.pool import MemoryPool

        return MemoryPool.default(self)

    def memory_pool(self, *, kind: str = "device", max_size: int = 0, location: names.Any = None) -> names.MemoryPool:
        """Make a pool of this device's memory, or of "pinned" or "managed" memory that it has access to."""
        from .memories.pool import MemoryPool

        return MemoryPool(self, kind=kind, max_size=max_size, location=location)

    def virtual_memory(
        self, nbytes: int = 0, *, reserve: int | None = None, peers: names.Sequence[Device] = ()
    ) -> names.VirtualMemory:
        """Make memory that can grow to `reserve` bytes without moving; see VirtualMemory."""
        from .memories.virtual import VirtualMemory

        return VirtualMemory(self, nbytes, reserve=reserve, peers=peers)

    def empty(self, shape: int | tuple[int, ...], dtype: names.Any) -> names.StridedView:
        """Return a new, uninitialized array on this device, in C order."""
        return making.empty(self, shape, dtype)

    def upload(self, exporter: names.Any, *, stream: names.Any = None) -> names.StridedView:
        """Copy an exporter's array into new memory on this device, in C order."""
        return making.upload(self, exporter, stream=stream)

    def load(self, code: str | bytes | names.PathLike[str]) -> names.Module:
        """Load PTX (str or bytes), a cubin or fatbin (bytes), or the file at a path (os.PathLike only)."""
        from .kernels.module import Module

        return Module(self, code)

    def compile(
        self,
        source: str | bytes | names.PathLike[str],
        *,
        options: names.Sequence[str] = (),
        headers: names.Mapping[str, str | bytes] | None = None,
        names: names.Sequence[str] = (),
        cache: str | names.PathLike[str] | None = None,
    ) -> names.Module:
        """Compile CUDA C for this device with NVRTC, and load it; the arguments are those of compiler/program.py.

        names   with names=["scale<float>"], the module has a kernel module["scale<float>"]
        raises  CompileFailed     errors in the source
                CompilerNotFound  there is neither NVRTC nor nvcc
                Unsupported       the compiler is too new for this device, or for its driver
        """
        from ..compiler.program import compile_for
        from .kernels.module import Module

        built = compile_for(self.compute_capability, source, options, headers, names, cache)
        try:
            return Module(self, built.code, names=built.names)
        except CudaError as error:
            raise built.explain(error, self._primary.driver.version) from None

    def _closing(self) -> None:
        self._held = None
        invalidate()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Device) and other.ordinal == self.ordinal

    def __hash__(self) -> int:
        return hash(("device", self.ordinal))

    def __repr__(self) -> str:
        return f"<Device {self.ordinal}{' closed' if self.closed else ''}>"


class _Use:
    """The release of a Device, by which it holds its context."""

    __slots__ = ("primary",)

    def __init__(self, primary: PrimaryContext) -> None:
        self.primary = primary

    def release(self, late: bool) -> None:
        """Let go of the context; after close() it may be released."""
        self.primary.let_go(self, closing=not late)

    def give_away(self) -> bool:
        """Release the context; a CUdevice itself needs no release."""
        self.release(False)
        return True


_known: dict[int, tuple[PrimaryContext, int]] = {}  # by ordinal: the context and the CUdevice, which never change


def _look_up(ordinal: int) -> tuple[PrimaryContext, int]:
    loaded, many = driver.current(), count()
    if not 0 <= ordinal < many:
        raise ValueError(f"there is no device {worded(ordinal)}: this driver sees {many}, numbered from 0")
    handle = ctypes.c_int()
    loaded.cuDeviceGet(ctypes.byref(handle), ordinal)
    known = _known[ordinal] = context_of(ordinal), handle.value
    return known


def _check_device(other: object) -> None:
    if not isinstance(other, Device):
        raise TypeError(f"the other device must be a Device, not {a_kind(other)}")


def _attribute_number(name: str) -> int:
    full = name.upper()
    if not full.startswith("CU_DEVICE_ATTRIBUTE_"):
        full = "CU_DEVICE_ATTRIBUTE_" + full
    table = cuda_h.enum("CUdevice_attribute")
    if full not in table:
        import difflib

        near = difflib.get_close_matches(full, table, 3, 0.5)
        raise ValueError(f"unknown device attribute {name!r}" + (f": did you mean {', '.join(near)}?" if near else ""))
    return table[full]


def devices() -> list[Device]:
    """List the devices that this driver sees.

    calls   cuDeviceGetCount
    """
    return [Device(ordinal) for ordinal in range(count())]


def synchronize() -> None:
    """Wait until every device has completed all work that this package queued.

    calls   cuCtxSynchronize
    """
    synchronize_contexts()
    if dropped:
        drain()
