"""Memory: device, stream-ordered, pinned and managed, freed by the function that matches its allocation.

What it is   a run of bytes with an address, and the objects that keep it alive: its Memory, and the leases of its
             exports. As an array it is one dimension of uint8, and it exports every protocol as such.
What not     copies (copies/transfer.py), shapes (arrays/strided.py) and the release (gpu/core/handles.py).
Source       CUDA Driver API, "Memory Management", "Stream Ordered Memory Allocator"
Read next    copies/transfer.py
"""

from __future__ import annotations

import ctypes
from _weakref import ref
from functools import partial

from ...arguments import as_bool, as_choice, as_int
from ...arrays import copying, making
from ...driver import as_argument
from ...errors import a_kind, worded
from ...hints import hinted
from ...interpreter.cpython import facts
from ...ownership import Once, Owned, forked, releases_later
from ...protocols.description import Bytes, Description
from ...protocols.device_memory import gpu
from ..core.context import (
    PrimaryContext,
    access_remedy,
    attempt,
    held_contexts,
    is_device,
    peers,
    pool_access,
    primary_of,
)
from ..core.handles import DEVICE, MANAGED, ORDERED, PINNED, POOLED, Leased, Lifetime, make, shown_handle
from ..core.leases import Lease, Lender
from ..core.points import finish_context, sweep
from ..core.stream_arguments import PER_THREAD, Ordering, StreamHandle, is_lasting, noted_form

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, NoReturn

    from ...arrays.strided import StridedView
    from ...gpu.devices.device import Device
    from ...gpu.processes.shared_handles import SharedHandle

__all__ = ["OF_POOLS", "ManagedMemory", "Memory", "allocate", "blank", "size_of"]

_DEVICE = "device"
_KINDS = {_DEVICE: DEVICE, "pinned": PINNED, "managed": MANAGED}


class _OfManaged:
    """A name that only managed memory has; other memory says how to get some."""

    def __get__(self, memory: Memory | None, kind: type[Memory]) -> Any:
        if memory is None:
            return self
        raise AttributeError(
            f"{memory!r} does not move: advice, prefetches and discards are for managed memory, "
            "Device.allocate(nbytes, kind='managed')"
        )

    def __set__(self, memory: Memory, value: object) -> None:
        self.__get__(memory, type(memory))


@hinted
@facts("nbytes", "kind", "device", "readonly")
class Memory(Lender, Bytes):
    """A run of bytes: `ptr` (its address), `nbytes`, `kind`, `device`, and `stream`.

    The bytes are ready in the order of `stream`: the one that it was allocated on, or last copied to or filled on; None
    if nothing is pending. The next copy or fill waits for that, and so does each view that is made.

    If work is pending, close() waits for it. Memory that was allocated on a stream is freed in the order of that stream
    instead: if you use it on another stream, let the first one wait for the second before close(). While an array of
    another library uses the bytes, they are not freed.

    Do not call close() before the operations of other threads on the memory have returned, as in NumPy and cuda.core.
    One that has already read the address may pass it to the driver after the memory was freed. If nothing else has been
    allocated there, a copy or a fill then raises InvalidUse, and a kernel makes the context unusable. Otherwise, they
    access the new allocation. Memory on the host is safe
    in copies and fills: they end with the whole memory, or raise Closed, except for fills and strided copies of managed
    memory, which the device does.

    Device.allocate() makes a Memory, and a view of it is an array.

    >>> device = Device(0)
    >>> with device.allocate(64) as memory:
    ...     memory.nbytes, memory.kind
    (64, 'device')

    units   nbytes is in bytes
    Why long  it is an array of bytes, too, and so it has the protocols of arrays
    """

    __slots__ = (
        *("_nbytes", "_kind", "_device", "_readonly", "stream", "_primary", "_keeps", "_leases", "_uses", "_side"),
        "_shown",
    )
    _is_certain = True  # no one can take the access of its own device away
    readonly: bool  # whether it must not be written: page-locked memory of a read-only exporter
    nbytes: int
    kind: str
    device: Device
    stream: Any
    if TYPE_CHECKING:
        _readonly: bool
        _primary: PrimaryContext
        _keeps: Any
        _side: copying.Side | None
        _leases: list[ref[Lease]]  # of exports; only the first is used
        _uses: list[ref[Lease]]  # of work and graphs, likewise
        _shown: bool  # whether an array interface was read

    def __init__(self, *_: object, **__: object) -> None:
        raise TypeError("Memory is made by Device.allocate(), or by Memory.borrow() for bytes of another owner")

    @classmethod
    def borrow(cls, device: Device, address: int, nbytes: int, *, kind: str = "device", owner: object = None) -> Memory:
        """Return a Memory over bytes of another owner, which close() does not free.

        owner   kept alive as long as this Memory, and until copies and fills that use it are done; after a launch of a
                kernel, keep this Memory until it has run.
                If it is ours, such as a Memory or a view of one, this Memory is closed with it, and what is pending on
                its bytes is pending on these, too; this Memory is read-only if it is a read-only Memory or view
        raises  ValueError  an unknown kind, an impossible address or size, or an owner of ours on another device
        """
        as_choice("kind", kind, _KINDS)
        if not is_device(device):
            raise TypeError(f"memory needs a Device, not {a_kind(device)}")
        address, nbytes = as_int("address", address), as_int("nbytes", nbytes)
        if not 0 <= address < 2**64 or not 0 <= nbytes < 2**63 or address + nbytes > 2**64:
            raise ValueError(f"no memory can have address {worded(address)} and {worded(nbytes)} bytes")
        if cls is Memory or cls is ManagedMemory:
            cls = _CLASSES[kind]
        borrowed = cls.__new__(cls)
        borrowed._describe(device, nbytes, kind, None)
        if isinstance(owner, Memory):
            borrowed._readonly, borrowed.stream = owner.readonly, owner.stream
        elif isinstance(owner, Description):
            borrowed._readonly = owner._place.readonly
            if is_lasting(owner.stream):
                borrowed.stream = owner.stream
        lender = owner
        if isinstance(owner, Description) and isinstance(owner._owner, Lender):
            lender = owner._owner  # what a view shows belongs to its Memory
        theirs: Any = getattr(lender, "device", None) if isinstance(lender, Lender) else None
        if theirs is not None and theirs.ordinal != device.ordinal:  # its close() waits for the work of its own device
            raise ValueError(
                f"the owner is on device {theirs.ordinal}: give Device({theirs.ordinal}) instead of "
                f"Device({device.ordinal}). Streams of other devices that have access may use the memory, too"
            )
        borrowed._keeps = lender
        borrowed._own(address, None)
        if isinstance(lender, Lender):
            lender._lend(borrowed)
        return borrowed

    def _describe(self, device: Any, nbytes: int, kind: str, stream: object) -> None:
        self._device, self._nbytes, self._kind, self.stream = device, nbytes, kind, stream
        self._primary = device._primary
        self._keeps = None
        self._leases, self._uses, self._shown, self._side, self._borrowers = [], [], False, None, {}
        self._readonly = False

    def lease(self) -> Lease:
        """Return an object that keeps the bytes: while it exists, close() closes this Memory, but does not free them.

        Every export of this memory holds it. After the last reference is dropped, one of our next calls waits for the
        device, since we do not know on which stream other libraries used the bytes, and frees them.

        raises  Closed   after close()
        """
        return self._lease(self._leases)

    def _lease_for_work(self) -> Lease:
        """Return a lease for our own work or a graph. Device.reset() ends these; the other leases make it refuse."""
        return self._lease(self._uses)

    def _lease(self, leases: list[ref[Lease]]) -> Lease:
        while True:
            if not leases:
                made = Lease(self)
                leases.append(ref(made))  # if two threads are here, both use the first lease in the list
            for first in leases[:1]:
                lease = first()
                if lease is not None:
                    if self._handle is None:  # tested after the lease was added; close() looks for leases afterwards
                        self.handle  # raises Closed
                    release = self._lender()._release
                    if type(release) is Lifetime and release.stream is not None and type(release.stream) is not Leased:
                        release.stream = Leased(release.stream)
                    return lease
                try:
                    leases.remove(first)  # remove only this one: another thread may just have added one
                except ValueError:  # another thread removed it
                    pass

    @classmethod
    def register(
        cls,
        exporter: object,
        *,
        device: Device | None = None,
        portable: bool = True,
        read_only: bool = False,
        io_memory: bool = False,
    ) -> Memory:
        """Page-lock an array in host memory where it is, and return it as "pinned" memory; close() undoes this.

        Until it is closed, the exporter is kept alive, and devices can access its memory. close() waits for all work of
        all devices, so the array may be used afterwards. It cannot wait in a host function, and while a stream is being
        captured, it waits on that device only for the last copy into the memory or fill of it: synchronize the streams
        that use the memory before. The array then stays page-locked, and is kept alive, until the capture ends.

        exporter   an array whose elements are one run of bytes; for 0 bytes nothing is page-locked
        device     the device in whose context it is page-locked; by default one that is in use
        portable   page-locked for all devices
        read_only  devices only read it; necessary for an exporter that is read-only
        io_memory  it is memory of a device on the bus, mapped into this process
        calls      cuMemHostRegister_v2, cuMemHostUnregister
        raises     ProtocolError  a read-only exporter, without read_only=True
                   ValueError     no host memory, page-locked memory, or elements that are not one run of bytes
                   InvalidUse     a part of the memory is page-locked already
        """
        from . import registered

        portable, read_only, io_memory = (
            as_bool("portable", portable),
            as_bool("read_only", read_only),
            as_bool("io_memory", io_memory),
        )
        memory: Memory = registered.page_lock(
            exporter, device, portable, read_only, io_memory, partial(blank, made=_RegisteredMemory)
        )
        memory._readonly = read_only
        return memory

    def share(self, *, timeout: float = 30.0) -> SharedHandle:
        """Offer device memory to other processes of this machine and user, and return a handle to send to them.

            with memory.share() as handle:
                queue.put(handle)  # the other process calls Memory.from_handle(handle)

        At the end of the with block, no other process can open the memory any more, and the block waits until none has
        it open. Until then the bytes are not freed. All processes use the same bytes: order the accesses yourself, for
        example by a shared event.

        timeout  the largest number of seconds for which the end of the block waits
        calls    cuIpcGetMemHandle, cuMemPoolExportToShareableHandle, cuMemPoolExportPointer,
                 cuMemExportToShareableHandle
        raises   ValueError   pinned or managed memory, or 0 bytes
                 Closed       this memory, or the pool that it is from, is closed
                 Unsupported  memory of a pool, or a VirtualMemory, that was made without shareable=True
        """
        from ..processes.shared_memory import share_memory

        return share_memory(self, timeout)

    @classmethod
    def from_handle(cls, handle: object, *, timeout: float = 30.0) -> Memory:
        """Open memory of another process, on the same GPU; close() gives it back.

        handle   a SharedHandle, or its bytes
        timeout  the largest number of seconds to wait for the answer of that process
        calls    cuIpcOpenMemHandle_v2, cuMemPoolImportPointer, cuMemImportFromShareableHandle
        raises   ValueError    a damaged handle, or one of another machine, of this process, or in use here already
                 Closed        the other process has ended the sharing, or has ended itself
                 TimeoutError  the other process does not answer
                 Unsupported   this process does not see the GPU
        """
        from ..processes.shared_memory import open_memory

        memory: Memory = open_memory(blank, handle, timeout)
        return memory

    @property
    def ptr(self) -> int:
        """Return the address of the first byte; raises Closed if this Memory, or the owner of the bytes, is closed."""
        if isinstance(self._keeps, Owned):
            self._keeps.handle
        return self.handle

    def _lender(self) -> Owned:
        """Return the owner of ours that frees the bytes: this object, or the one from which it borrows them."""
        found: Any = self
        while isinstance(getattr(found, "_keeps", None), Lender):
            found = found._keeps
        return found  # type: ignore[no-any-return]

    def _close_waits(self) -> bool:
        """Tell whether close() waits for pending work: not if another library frees the bytes, whenever it likes."""
        return self._keeps is None or getattr(self._lender(), "_keeps", None) is None

    def _held_by(self) -> list[Lease]:
        first = [lease() for lease in (*self._leases[:1], *self._uses[:1])]
        return [lease for lease in first if lease is not None]

    def _is_shown(self) -> bool:
        return self._shown

    def is_accessible_from(self, device: object) -> bool:
        """Tell whether kernels on a device may use the memory.

        The access of other devices is enabled for plain device memory by Device.enable_peer_access(), for memory of a
        pool by its pool. All devices may use pinned and managed memory that is not from a pool.

        device  a Device or its ordinal
        calls   cuPointerGetAttribute
        raises  ValueError  there is no such device
        """
        from ..core.locations import ordinal_from

        return self._access_from(ordinal_from(device)) != 0

    def _access_from(self, ordinal: int) -> int:
        """Return the access of a device: 0, 1 to read, 3 to read and write."""
        own = self._primary.ordinal
        if ordinal != own or self.kind != "device":  # (a page-locked pool may give access to the host only)
            release, given = self._release, None
            if type(release) is not Lifetime or release.kind is ORDERED or release.kind is POOLED:
                given = pool_access(ordinal, self.ptr)
            if given is not None:
                return given & 1 if self.readonly else given
            if self.kind == "device" and (ordinal, own) not in peers:
                return 0
        if self.readonly:
            return 1
        return 3

    def _remedy(self, ordinal: int) -> str:
        """Return how a device can be given access to this memory, as text for an error."""
        return access_remedy(ordinal, self._primary.ordinal, self.ptr)

    @property
    def is_host_accessible(self) -> bool:
        """Tell whether the CPU can access the memory."""
        return self.kind != "device"

    # -- what only managed memory has: see ManagedMemory

    advise = prefetch = discard = range_attributes = _OfManaged()
    read_mostly = preferred_location = accessed_by = last_prefetch_location = advise

    # -- exports, all through a one-dimensional view of uint8

    def view(self, dtype: object = "uint8") -> StridedView:
        """Return the memory as a one-dimensional array.

        raises  ValueError  nbytes is not a multiple of the element size
        """
        return making.over_memory(self, dtype)

    def copy_from(self, source: object, *, stream: object = None) -> Memory:
        """Copy from an exporter with the same number of bytes, and return self.

        raises  ValueError  it has another number of bytes
        """
        copying.copy(self, source, stream=stream)
        return self

    def copy_to(self, target: object, *, stream: object = None) -> Any:
        """Copy to a writable exporter with the same number of bytes, and return that.

        raises  ValueError  it has another number of bytes
        """
        copying.copy(target, self, stream=stream)
        return target

    def fill(self, value: int, *, stream: object = None) -> Memory:
        """Set every byte to a value from 0 to 255, and return self."""
        copying.fill(self, value, stream)
        return self

    def __dlpack__(
        self,
        *,
        stream: object = None,
        max_version: object = None,
        dl_device: object = None,
        copy: object = None,
    ) -> Any:
        """Export the memory by DLPack; see StridedView."""
        return self.view().__dlpack__(stream=stream, max_version=max_version, dl_device=dl_device, copy=copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return the (device type, id) of DLPack."""
        return self.view().__dlpack_device__()

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Return the CUDA Array Interface, version 3."""
        return self._show(self.view().__cuda_array_interface__)

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """Return the array interface; raises AttributeError if the CPU cannot access the memory."""
        return self._show(self.view().__array_interface__)

    def _show(self, interface: dict[str, Any]) -> dict[str, Any]:
        """Return an array interface. Its users keep this object, so from now on only the finalizer frees the bytes."""
        self._shown = True
        return interface

    def __array__(self, dtype: object = None, copy: bool | None = None) -> Any:
        """Return a NumPy array; raises TypeError if the CPU cannot access the memory."""
        return self.view().__array__(dtype, copy)

    def __len__(self) -> int:
        return self.nbytes

    def __setitem__(self, key: object, value: object) -> NoReturn:
        kind = type(self).__name__
        raise TypeError(f"the bytes of a {kind} are set by copy_from(array), or view(dtype)[...] = value")

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + self.nbytes

    def __deepcopy__(self, memo: object) -> Memory:  # type: ignore[override]
        copied: Memory = self.device.allocate(self.nbytes, kind=self.kind)
        return copied.copy_from(self)

    def __reduce_ex__(self, protocol: object) -> Any:
        """Describe the memory for pickle: the receiver gets a copy of the bytes, on its current device."""
        from ...arrays.pickling import reduce_memory

        return reduce_memory(self, protocol)

    def __repr__(self) -> str:
        where = shown_handle(self)
        return f"<{type(self).__name__} {where} {self.nbytes} bytes, {self.kind}, device {self.device.ordinal}>"


class ManagedMemory(Memory):
    """Memory that the driver moves between the host and devices: Device.allocate(nbytes, kind="managed").

    Its methods tell the driver where the memory will be used. None of them is necessary for a correct result.

    >>> memory = Device(0).allocate(64, kind="managed")
    >>> memory.is_host_accessible, memory.prefetch(Device(0)).nbytes
    (True, 64)
    """

    __slots__ = ()

    def advise(
        self, advice: str, location: object = None, *, offset: int = 0, nbytes: int | None = None
    ) -> ManagedMemory:
        """Tell the driver how managed memory will be used, and return self.

        advice    "set_read_mostly", "set_preferred_location", "set_accessed_by", or "unset_..." for each
        location  a Device, "host", "numa:0" or "numa:current", for the advice about a location
        units     offset and nbytes are in bytes: the part of the memory, by default all of it
        calls     cuMemAdvise_v2
        raises    ValueError   an unknown advice; no location, or one too many; no such part
                  Unsupported  the device cannot use managed memory at the same time as the host
        """
        from . import managed

        managed.advise(self, advice, location, offset, nbytes)
        return self

    def prefetch(
        self, location: object, *, stream: object = None, offset: int = 0, nbytes: int | None = None
    ) -> ManagedMemory:
        """Move managed memory to a Device, the "host" or a "numa:0" node, in the order of a stream; return self.

        units   offset and nbytes are in bytes
        calls   cuMemPrefetchAsync_v2
        raises  ValueError, Unsupported  as for advise()
        """
        from . import managed

        managed.prefetch(self, location, stream, offset, nbytes)
        return self

    def discard(
        self, location: object = None, *, stream: object, offset: int = 0, nbytes: int | None = None
    ) -> ManagedMemory:
        """Give up the content of managed memory, in the order of a stream, and return self.

        Pages that will be overwritten need not be moved. With a location, they are prefetched there, without content.

        units   offset and nbytes are in bytes
        calls   cuMemDiscardBatchAsync, cuMemDiscardAndPrefetchBatchAsync
        raises  ValueError, Unsupported  as for advise()
        """
        from . import managed

        managed.discard(self, location, stream, offset, nbytes)
        return self

    def range_attributes(self, *, offset: int = 0, nbytes: int | None = None) -> dict[str, Any]:
        """Return what all pages of managed memory, or of a part of it, have in common.

        The keys are "read_mostly", "preferred_location", "accessed_by" and "last_prefetch_location".

        units   offset and nbytes are in bytes
        calls   cuMemRangeGetAttributes
        raises  ValueError  no such part
        """
        from . import managed

        found: dict[str, Any] = managed.attributes(self, offset, nbytes)
        return found

    @property
    def read_mostly(self) -> bool:
        """Return whether all managed memory here is advised to be read mostly; it can be set."""
        from . import managed

        return bool(managed.attributes(self)["read_mostly"])

    @read_mostly.setter
    def read_mostly(self, value: bool) -> None:
        self.advise("set_read_mostly" if as_bool("read_mostly", value) else "unset_read_mostly")

    @property
    def preferred_location(self) -> Any:
        """Return the preferred location of all managed memory here, a Device, "host", "numa:0" or None; can be set."""
        from . import managed

        return managed.attributes(self)["preferred_location"]

    @preferred_location.setter
    def preferred_location(self, location: object) -> None:
        from . import managed

        managed.replace(self, "preferred_location", location)

    @property
    def accessed_by(self) -> Any:
        """Return the set of Devices and "host" that will access this managed memory; it can be changed and assigned."""
        from . import managed

        return managed.accessed_by(self)

    @accessed_by.setter
    def accessed_by(self, locations: object) -> None:
        self.accessed_by.replace(locations)

    @property
    def last_prefetch_location(self) -> Any:
        """Return where all managed memory here was prefetched to last: a Device, "host", "numa:0" or None."""
        from . import managed

        return managed.attributes(self)["last_prefetch_location"]


class _RegisteredMemory(Memory):
    """Page-locked memory of an exporter, which the program uses again after close(), also where a lease keeps this."""

    __slots__ = ()

    def _close(self) -> None:
        """Undo the page-lock, and wait for all work, also where a lease or a capture keeps the memory page-locked."""
        if not self._handle:
            return
        super()._close()  # first: an interrupt of the wait leaves it closed
        if not forked and not releases_later():
            try:
                waited = [attempt(finish_context, home, "close()") for home in held_contexts()]
                if not all(waited):  # a stream is being captured: only a wait for another one is possible
                    attempt(gpu.finish, self)
                sweep(now=True)
            except ImportError:  # the interpreter ends and imports nothing more
                pass


_RegisteredMemory.__name__ = Memory.__name__  # so that messages show the public name


class _OfPool(Memory):
    """Memory of a page-locked pool, which may take the access of its own device away."""

    __slots__ = ()
    _is_certain = False


class _ManagedOfPool(ManagedMemory):
    """Managed memory of a pool, which may take the access of its own device away."""

    __slots__ = ()
    _is_certain = False


for _class in (_OfPool, _ManagedOfPool):
    _class.__name__ = _class.__bases__[0].__name__  # so that messages show the public name
OF_POOLS: dict[str, type[Memory]] = {"device": Memory, "pinned": _OfPool, "managed": _ManagedOfPool}
_CLASSES: dict[str, type[Memory]] = {"device": Memory, "pinned": Memory, "managed": ManagedMemory}


def allocate(device: object, nbytes: int, kind: str = "device", stream: object = None) -> Memory:
    """Allocate memory.

    device  a Device, or a PrimaryContext
    units   bytes; for 0 nothing is allocated, and the address is 0
    kind    "device"; "pinned": host memory that the device can access; "managed": migrates between host and device
    stream  if given, "device" memory is allocated and freed in the order of this stream, which may be of another device
    calls   cuMemAlloc_v2, cuMemAllocAsync, cuDeviceGetMemPool, cuMemAllocFromPoolAsync, cuMemHostAlloc,
            cuMemAllocManaged
    raises  OutOfMemory  not enough memory is free
            ValueError   a negative or impossible size, an unknown kind, a stream with another kind than "device"
    """
    row = DEVICE if kind is _DEVICE else _KINDS[as_choice("kind", kind, _KINDS)]
    if type(nbytes) is not int or not 0 <= nbytes < 2**63:
        nbytes = size_of("nbytes", nbytes)
    primary = getattr(device, "_held", None)
    if type(primary) is not PrimaryContext:
        primary = primary_of(device)
    if primary is None:
        raise TypeError(f"memory is allocated on a Device, not on {a_kind(device)}")
    memory = blank(device, primary, nbytes, kind, stream)
    if stream is not None and row is not DEVICE:
        raise ValueError(f"{kind} memory is stream-ordered only if it comes from a pool: give a pool, or no stream")
    if stream is None:
        if nbytes:
            make(memory, row, primary, (as_argument(nbytes),) + row.numbers)  # (a star would take 30 ns more)
    else:
        if isinstance(stream, StreamHandle) and stream._primary is primary:
            ordering: StreamHandle | Ordering = stream
            queue = stream._argument or stream._prepare()
        else:
            ordering, memory.stream = Ordering(stream), noted_form(stream)
            queue = as_argument(ordering.handle)
            if nbytes and ordering.handle > PER_THREAD:  # cuMemAllocAsync would allocate on the device of the stream
                pool = ctypes.c_uint64()
                primary.calls.cuDeviceGetMemPool(ctypes.byref(pool), ctypes.c_int(primary.ordinal))
                arguments = as_argument(nbytes), as_argument(pool.value), queue
                make(memory, POOLED, primary, arguments, ordering)
                return memory
        if nbytes:
            make(memory, ORDERED, primary, (as_argument(nbytes), queue), ordering)
    return memory


def blank(
    device: object, primary: PrimaryContext, nbytes: int, kind: str, stream: object, made: type[Memory] | None = None
) -> Memory:
    """Return a Memory that has no bytes yet; for 0 bytes it is complete. Its class is by default that of its kind."""
    memory = _new(made or _CLASSES[kind])
    memory._device, memory._primary, memory._nbytes = device, primary, nbytes
    memory._kind, memory.stream = kind, stream
    memory._keeps, memory._leases, memory._uses = None, [], []
    memory._shown, memory._readonly, memory._side, memory._borrowers = False, False, None, {}
    if nbytes == 0:
        memory._own(0, Once(_release_nothing))
    return memory


def size_of(name: str, given: object) -> int:
    """Return a number of bytes that a user passes.

    raises  TypeError   not an int
            ValueError  negative, or larger than any memory
    """
    size = given if type(given) is int else as_int(name, given)
    if not 0 <= size < 2**63:
        raise ValueError(f"{name}={worded(size)}: a size must be in 0 .. 2**63-1")
    return size


_new: Callable[[type[Memory]], Memory] = object.__new__


def _release_nothing(late: bool) -> None:
    pass
