"""Devices: facts about a GPU, and the methods that make streams, events, memory and modules on it.

What not     it creates no context of its own: the primary context (gpu/core/context.py) is the one that other libraries
             use, too.
Source       CUDA Driver API, "Device Management"
Read next    copies/device_copy.py
"""

from __future__ import annotations

import ctypes

from ... import driver
from ...arguments import as_bool, as_int
from ...arrays import making
from ...errors import CudaError, a_kind, worded
from ...hints import hinted, no_such_option
from ...ownership import drain, dropped, invalidate
from ...tracing import careful
from ..core.context import Current, context_of, count, reaches
from ..core.points import finish_context, retained, sweep
from ..core.stream_arguments import failed
from ..memory.memory import Memory, allocate
from ..memory.ordering import synchronize_contexts
from ..streams.stream import Event, Stream, new_event, new_stream
from .device_facts import Facts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from os import PathLike
    from typing import NoReturn

    from ...arrays.strided import StridedView
    from ...gpu.devices.green import Split
    from ...gpu.devices.peers import PeerAccess, PeerAttributes
    from ...gpu.graphs.graph import Graph
    from ...gpu.kernels.module import Module
    from ...gpu.memory.pool import MemoryPool
    from ...gpu.memory.virtual import VirtualMemory
    from ...gpu.textures.mipmapped import MipmappedArray
    from ...gpu.textures.opaque_arrays import OpaqueArray
    from ...gpu.textures.surfaces import SurfaceObject
    from ...gpu.textures.texture import TextureObject
    from ..core.context import PrimaryContext

__all__ = ["Device", "count", "devices", "reaches", "synchronize"]


@hinted
class Device(Facts):
    """A GPU, given by its ordinal among the devices that CUDA_VISIBLE_DEVICES allows.

    `Device(0)` is the first GPU; devices() lists all of them.

    >>> device = Device(0)
    >>> x = device.upload(b"abc")
    >>> x.tolist()
    [97, 98, 99]

    units   total_memory and free_memory are in bytes
    calls   cuDeviceGet
    raises  TypeError   the ordinal is not an int
            ValueError  the device does not exist
    Why long  everything else is made by a method of a device; most of them are one line and a docstring
    """

    __slots__ = ()

    def __init__(self, ordinal: int = 0) -> None:
        if type(ordinal) is not int:
            ordinal = as_int("a device's ordinal", ordinal)
        known = None if careful else _known.get(ordinal)
        primary, handle = known or _look_up(ordinal)
        self._ordinal, self._primary, self._held = ordinal, primary, None
        self._own(handle, None)

    # -- the context

    @property
    def context(self) -> int:
        """Return the primary context's handle; the context is retained if necessary."""
        handle, primary = self.handle, self._primary
        if self._held is None:
            with primary._lock:
                if self._held is None:
                    use = _Use(primary)
                    primary.hold(use)
                    self._own(handle, use)
                    self._held = primary
        return primary.handle

    def current(self) -> Current:
        """Return a context manager that makes this device's primary context current in this thread.

        The with blocks of a thread have to end in the reverse order: do not await, nor yield, inside of one.
        """
        self.context
        return self._primary.current()

    def synchronize(self) -> None:
        """Wait until all work in this device's context is done; raise the exception of a function of Stream.call().

        calls   cuCtxSynchronize
        raises  InvalidUse  one of our captures is in progress on this device
        """
        if self._held is None:
            self.context
        finish_context(self._primary, "Device.synchronize()")
        if retained:
            sweep(now=True)
        if dropped:
            drain()
        if failed:
            _raise_failed(self.ordinal)

    def reset(self, *, force: bool = False) -> None:
        """Destroy the context with everything in it, even after an error that made it unusable, and create a new one.

        Every object that was made on this device is closed. The Device itself works as before. Launches of graphs of
        other devices that use memory of this one, or work on it, raise Closed.

        Arrays of other libraries that use pinned or managed memory must be dropped first. A Memory or a view counts as
        one as long as it exists, if its array interface was read.

        What is shared with other processes is shared no longer: reset() waits as the end of the sharing does.

        force   necessary on a GPU, where the context also belongs to all other libraries in the process
        calls   cuDevicePrimaryCtxReset_v2
        raises  InvalidUse  without force on a GPU, while a stream is being captured, while arrays use such memory, or
                            if another process still has memory or an event open after the timeout of share()
        """
        from .resetting import reset

        reset(self, as_bool("force", force))

    # -- other devices

    def can_reach(self, other: Device | int) -> bool:
        """Tell whether this device can be given access to the memory of another; it always has access to its own.

        other   a Device, or its ordinal
        calls   cuDeviceCanAccessPeer
        """
        there = _other(other)
        if there.ordinal == self.ordinal:
            self.handle, there.handle  # raises Closed
            return True
        yes = ctypes.c_int()
        self._primary.driver.cuDeviceCanAccessPeer(ctypes.byref(yes), self.handle, there.handle)
        return bool(yes.value)

    def enable_peer_access(self, other: Device | int) -> None:
        """Let kernels on this device access the memory of another, until disable_peer_access(); may be called again.

        calls   cuCtxEnablePeerAccess
        raises  Unsupported  the hardware does not support it between these devices
        """
        from .peers import enable

        enable(self, _other(other))

    def disable_peer_access(self, other: Device | int) -> None:
        """Undo enable_peer_access(), after all work on this device is done.

        The access stays enabled while a PeerAccess is open, or if other software has enabled it.

        calls   cuCtxDisablePeerAccess
        raises  ValueError  enable_peer_access() was not called, or was undone already
        """
        from .peers import disable

        disable(self, _other(other))

    def peer_access(self, other: Device | int) -> PeerAccess:
        """Let kernels on this device access the memory of another, until the returned object is closed.

            with device.peer_access(other):
                ...

        raises  Unsupported  the hardware does not support it between these devices
        """
        from .peers import PeerAccess

        return PeerAccess(self, _other(other))

    def peer_attributes(self, other: Device | int) -> PeerAttributes:
        """Return the properties of the connection to another device, such as its speed rank and whether atomics work.

        calls   cuDeviceGetP2PAttribute
        raises  ValueError  the other device is this one
        """
        from .peers import attributes_of

        return attributes_of(self, _other(other))

    # -- objects on the device

    def stream(self, priority: int = 0, *, nonblocking: bool = True) -> Stream:
        """Make a stream: it and the legacy default stream do not wait for each other, unless nonblocking is false."""
        if nonblocking is True and type(priority) is int and not priority:
            return new_stream(self)
        return Stream(self, priority=priority, nonblocking=nonblocking)

    def event(self, timing: bool = False, *, blocking: bool = False, shareable: bool = False) -> Event:
        """Make an event; with timing, its elapsed_ms() can be used; with blocking, synchronize() lets the CPU sleep.

        shareable  made for Event.share()
        """
        if timing is not False or blocking is not False or shareable is not False:
            return Event(self, timing=timing, blocking=blocking, shareable=shareable)
        return new_event(self)

    def split(self, *sm_counts: int, rest: bool = False) -> Split:
        """Divide the multiprocessors into green contexts; each argument is the minimum size of one of them.

            small, large = device.split(8, rest=True)
            stream = small.stream()

        rest    also make a green context of the multiprocessors that are left, the last one in the returned tuple
        calls   cuDeviceGetDevResource, cuDevSmResourceSplitByCount, cuDevResourceGenerateDesc, cuGreenCtxCreate
        raises  ValueError   the device cannot be divided in this way
                Unsupported  the driver is older than CUDA 12.5, or the device has no green contexts
        """
        from .green import split

        return split(self, sm_counts, as_bool("rest", rest))

    def graph(self) -> Graph:
        """Return a new graph without nodes; see Graph."""
        from ..graphs.graph import Graph

        return Graph(self)

    def allocate(
        self,
        nbytes: int,
        *,
        kind: str = "device",
        stream: object = None,
        pool: MemoryPool | None = None,
        **unknown: NoReturn,
    ) -> Memory:
        """Allocate "device", "pinned" or "managed" memory; if a stream or a pool is given, in the stream's order."""
        if unknown:
            raise no_such_option("allocate", unknown)
        if pool is not None:
            from ..memory.pool import allocate_from

            memory: Memory = allocate_from(self, pool, nbytes, kind, stream)
            return memory
        return allocate(self, nbytes, kind, stream)

    def register(self, exporter: object, *, read_only: bool = False) -> Memory:
        """Page-lock an array in host memory where it is; see Memory.register."""
        return Memory.register(exporter, device=self, read_only=read_only)

    @property
    def pool(self) -> MemoryPool:
        """Return the pool of stream-ordered memory; another MemoryPool of this device can be assigned.

        calls   cuDeviceGetMemPool, cuDeviceSetMemPool
        """
        from ..memory.pool import MemoryPool

        return MemoryPool.current(self)

    @pool.setter
    def pool(self, pool: MemoryPool) -> None:
        from ..memory.pool import set_pool

        set_pool(self, pool)

    @property
    def default_pool(self) -> MemoryPool:
        """Return the pool that this device has from the start.

        calls   cuDeviceGetDefaultMemPool
        """
        from ..memory.pool import MemoryPool

        return MemoryPool.default(self)

    def memory_pool(
        self, *, kind: str = "device", max_size: int = 0, location: object = None, shareable: bool = False
    ) -> MemoryPool:
        """Make a pool of this device's memory, or of "pinned" or "managed" memory that it has access to."""
        from ..memory.pool import MemoryPool

        return MemoryPool(self, kind=kind, max_size=max_size, location=location, shareable=shareable)

    def virtual_memory(
        self,
        nbytes: int = 0,
        *,
        reserve: int | None = None,
        peers: Sequence[Device] = (),
        shareable: bool = False,
    ) -> VirtualMemory:
        """Make memory that can grow to `reserve` bytes without moving; see VirtualMemory."""
        from ..memory.virtual import VirtualMemory

        return VirtualMemory(self, nbytes, reserve=reserve, peers=peers, shareable=shareable)

    def empty(
        self, shape: int | tuple[int, ...], dtype: object, *, stream: object = None, **unknown: NoReturn
    ) -> StridedView:
        """Return a new, uninitialized array on this device, in C order.

        stream  if given, the memory is allocated and freed in the order of this stream, as by allocate()
        """
        if unknown:
            raise no_such_option("empty", unknown)
        return making.empty(self, shape, dtype, "device", stream)

    def zeros(
        self, shape: int | tuple[int, ...], dtype: object, *, stream: object = None, **unknown: NoReturn
    ) -> StridedView:
        """Return a new array on this device, in C order, of which every byte is set to 0 when the stream reaches it.

        stream  in whose order it is set; unlike empty(stream=), the memory is there at once, for every stream
        """
        if unknown:
            raise no_such_option("zeros", unknown)
        return making.zeros(self, shape, dtype, stream)

    def full(
        self,
        shape: int | tuple[int, ...],
        fill_value: object,
        dtype: object,
        *,
        stream: object = None,
        **unknown: NoReturn,
    ) -> StridedView:
        """Return a new array on this device, in C order, whose elements are set to a value when the stream reaches it.

        fill_value  a number that the dtype can represent, or the bytes of one element
        stream      as for zeros()
        raises      ValueError  the number does not fit
        """
        if unknown:
            raise no_such_option("full", unknown)
        return making.full(self, shape, fill_value, dtype, stream)

    def upload(self, exporter: object, *, stream: object = None, **unknown: NoReturn) -> StridedView:
        """Copy an exporter's array into new memory on this device, in C order.

        stream  in whose order it is copied; the memory is there at once, as for zeros()
        """
        if unknown:
            raise no_such_option("upload", unknown)
        return making.upload(self, exporter, stream=stream)

    def empty_pitched(self, shape: int | tuple[int, ...], dtype: object) -> StridedView:
        """Return a new, uninitialized array whose rows are aligned, with gaps between them; see textures/pitched.py."""
        from ..textures.pitched import empty_pitched

        made: StridedView = empty_pitched(self, shape, dtype)
        return made

    def array(
        self,
        source: object,
        dtype: object = None,
        *,
        channels: int | None = None,
        layered: bool = False,
        cubemap: bool = False,
        surface: bool = False,
        gather: bool = False,
        stream: object = None,
    ) -> OpaqueArray:
        """Make a CUDA array for textures and surfaces: of a shape and a dtype, or from an exporter, which is copied.

        channels  the components of an element, 1, 2 or 4; those of an exporter are its last dimension
        layered, cubemap, surface, gather  what the array is made for; see textures/opaque_arrays.py
        raises    ValueError  what no array can be, or what exceeds the limits of the device
        """
        from ..textures.formats import Form
        from ..textures.opaque_arrays import OpaqueArray, shape_or_view

        shape, element, count, data = shape_or_view(source, dtype, channels, stream)
        made = OpaqueArray.create(self, Form(shape, element, count, layered, cubemap, surface, gather))
        if data is None:
            return made
        return made.copy_from(data, stream=stream)

    def mipmapped_array(
        self,
        source: object,
        dtype: object = None,
        *,
        levels: int | None = None,
        channels: int | None = None,
        layered: bool = False,
        cubemap: bool = False,
        surface: bool = False,
        stream: object = None,
    ) -> MipmappedArray:
        """Make a mipmapped array: of the shape and the dtype of level 0, or from an exporter, copied into level 0.

        levels  None: all, down to a single element; see textures/mipmapped.py
        """
        from ..textures.formats import Form
        from ..textures.mipmapped import MipmappedArray
        from ..textures.opaque_arrays import shape_or_view

        shape, element, count, data = shape_or_view(source, dtype, channels, stream)
        made = MipmappedArray.create(self, Form(shape, element, count, layered, cubemap, surface), levels)
        if data is not None:
            made[0].copy_from(data, stream=stream)
        return made

    def texture(self, source: object, *, channels: int | None = None, **options: object) -> TextureObject:
        """Make a texture over an array, or over the memory of a view of one or two dimensions; no data is copied.

        channels  of a view, whose last dimension they are; 1 if it is not given
        options   address_mode, filter_mode, read_mode, normalized_coords, border_color, ...; see TextureOptions
        raises    ValueError  memory that a texture cannot read, or options that cannot be combined
                  TypeError   an unknown option
        """
        from ..textures.texture import TextureObject, TextureOptions

        return TextureObject.create(self, source, channels, TextureOptions.read(options))

    def surface(self, array: OpaqueArray) -> SurfaceObject:
        """Make a surface over an array that was made with surface=True, so that kernels can write it."""
        from ..textures.surfaces import SurfaceObject

        return SurfaceObject.create(self, array)

    def load(self, code: str | bytes | PathLike[str]) -> Module:
        """Load PTX (str or bytes), a cubin or fatbin (bytes), or the file at a path (os.PathLike only)."""
        from ..kernels.module import Module

        return Module(self, code)

    def compile(
        self,
        source: str | bytes | PathLike[str],
        *,
        options: Sequence[str] = (),
        headers: Mapping[str, str | bytes] | None = None,
        names: Sequence[str] = (),
        cache: str | PathLike[str] | None = None,
        **unknown: NoReturn,
    ) -> Module:
        """Compile CUDA C for this device with NVRTC, and load it; the arguments are those of compiler/program.py.

        On the emulator, -lineinfo is added to the options, so that its reports name the lines of the source.

        names   with names=["scale<float>"], the module has a kernel module["scale<float>"]
        raises  CompileFailed     errors in the source
                CompilerNotFound  there is neither NVRTC nor nvcc
                Unsupported       the compiler is too new for this device, or for its driver
                TypeError         an option that does not exist
        """
        if unknown:
            raise no_such_option("compile", unknown)
        from ...compiler.program import compile_for
        from ..kernels.module import Module

        loaded = self._primary.driver
        newest = None
        if not getattr(loaded.libcuda, "reads_every_ptx", False):
            newest = loaded.version // 1000, loaded.version % 1000 // 10
        lines = getattr(loaded.libcuda, "names_lines", False)
        built = compile_for(self.compute_capability, newest, source, options, headers, names, cache, lines)
        try:
            made = Module(self, built.code, names=built.names)
            made._source = built.source
            return made
        except CudaError as error:
            explained = built.explain(error, loaded.version)
            cubin = built.machine_code(error, loaded.version)
        try:
            if cubin is not None:
                made = Module(self, cubin, names=built.names, ptx=built.code)
                made._source = built.source
                return made
        except CudaError:
            pass
        try:
            raise explained from None
        finally:
            del explained  # otherwise its traceback refers to this frame, and this frame to the error

    def link(
        self,
        inputs: Iterable[object],
        *,
        options: Sequence[str] = (),
    ) -> Module:
        """Link images of code for this device, and load the result; see compiler/linking.py.

        inputs  PTX, cubins, fatbins, LTO-IR, host objects and archives: str, bytes or os.PathLike, in a sequence, or in
                a dict whose keys name them in messages
        raises  LinkFailed      a symbol that no input defines, or two: .log and .symbols
                LinkerNotFound  LTO-IR, and there is no nvJitLink
                Unsupported     a kind of input that this driver or linker cannot take
        """
        from ..kernels.driver_linking import link_for
        from ..kernels.module import Module

        return Module(self, link_for(self, inputs, options))

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
    """The release of a Device; as a user of the context, it keeps the context retained."""

    __slots__ = ("primary",)
    survives = True  # Device.reset()

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


def _other(other: object) -> Device:
    """Return another device, given as a Device or by its ordinal."""
    if isinstance(other, Device):
        return other
    if isinstance(other, bool) or not hasattr(type(other), "__index__") or getattr(other, "shape", None):
        raise TypeError(f"other must be a Device or its ordinal, not {a_kind(other)}")
    return Device(as_int("other", other))


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
    if failed:
        _raise_failed(None)


def _raise_failed(ordinal: int | None) -> None:
    from ..core.host_functions import raise_from_device

    raise_from_device(ordinal)
