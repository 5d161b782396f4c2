"""Virtual memory: addresses first, memory later, so that an array grows without moving.

What it is   VirtualMemory: a range of reserved addresses, and the memory that is mapped at them, each piece of one
             device, with the access that each device has to all of it.
How          The views of one size share an owner, so that shrink() can tell whether a view still uses the memory.
Threads      A lock is held while mappings or rights change. Before it is taken, the arguments are read, and what work
             has used is released: both may run code of the user, which may wait for another lock, whose owner may wait
             for this one.
What not     multicast objects.
Source       CUDA Driver API, "Virtual Memory Management"
Read next    memory.py
"""

from __future__ import annotations

from _thread import RLock
from ctypes import byref
from math import lcm

from ...arguments import as_bool, as_list
from ...arrays import making
from ...driver import as_argument
from ...errors import CudaError, worded
from ...headers import cuda_h
from ...interpreter.cpython import facts, free_after_fork
from ...ownership import drain, dropped
from ..core import locations
from ..core.context import context_of, no_device, primary_of
from ..core.handles import shown_handle
from ..core.points import sweep
from ..core.reservation import NO_FLAGS, Piece, Reservation, granularity, properties
from .memory import Memory, size_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from ...arrays.strided import StridedView
    from ...gpu.devices.device import Device

__all__ = ["VirtualMemory"]

_DEVICE = 1  # CU_MEM_LOCATION_TYPE_DEVICE
_NOWHERE = 1 << 64  # an offset beyond every mapping


class _Window(Memory):
    """The part of virtual memory that was mapped when a view was made, for that view and those derived from it."""

    __slots__ = ()
    _is_certain = False

    def _access_from(self, ordinal: int) -> int:
        return self._keeps._access_from(ordinal)  # type: ignore[no-any-return]

    def _remedy(self, ordinal: int) -> str:
        return str(self._keeps._remedy(ordinal))


_Window.__name__ = Memory.__name__  # so that messages show the public name


def _part(rights: dict[int, int], ordinals: Iterable[int]) -> dict[int, int]:
    """Return the access rights of some devices."""
    return {ordinal: rights.get(ordinal, 0) for ordinal in ordinals}


def _losing(known: dict[int, int], rights: dict[int, int]) -> list[int]:
    """Return the devices that will have less access than they have."""
    return [ordinal for ordinal, flags in rights.items() if known.get(ordinal, 0) > flags]


@facts("granularity", "reserved", "shareable")
class VirtualMemory(locations.PeerAccess, Memory):
    """Memory at reserved addresses: it can grow without moving, also with the memory of other devices.

    `nbytes` is the size of the memory that is mapped without a gap from the first address on; `reserved` is the size to
    which it can grow. All sizes are multiples of `granularity`. A kernel that accesses an address at which no memory is
    mapped fails. A VirtualMemory can be used like any other Memory.

    It is made with its own name.

    >>> device = Device(0)
    >>> memory = VirtualMemory(device, 1, reserve=1 << 24)
    >>> memory.grow(memory.nbytes + 1)  # in place: the address stays
    <VirtualMemory ... of 16777216 bytes, device 0>

    device   the Device whose memory is mapped, unless map() or grow() names another one
    reserve  the size of the reserved range of addresses; by default nbytes
    access   the access of this device: "readwrite", "read" or "none"
    peers    other Devices, which get the same access
    shareable  whether share() can offer it to other processes
    units    nbytes, reserve and granularity are in bytes; nbytes and reserve are rounded up
    calls    cuMemAddressReserve, cuMemCreate, cuMemMap, cuMemSetAccess, cuMemGetAllocationGranularity
    raises   OutOfMemory  not enough memory or not enough addresses are free
             Unsupported  the device has no virtual memory management, or cannot reach a peer
    Why long  growing, mapping, shrinking and unmapping change the same pieces, and undo each other if one fails
    """

    __slots__ = ("_granularity", "_reserved", "_shareable", "_reservation", "_lock")
    borrow = Memory.borrow  # it returns a Memory: only addresses that this package reserved can grow

    granularity: int
    reserved: int
    shareable: bool
    if TYPE_CHECKING:
        _reservation: Reservation
        _lock: RLock  # held while mappings or rights change

    def __init__(
        self,
        device: Device = None,  # type: ignore[assignment]
        nbytes: int = 0,
        *,
        reserve: int | None = None,
        access: str = "readwrite",
        peers: Sequence[Device] = (),
        shareable: bool = False,
    ) -> None:
        primary = primary_of(device)
        if primary is None:
            raise no_device("VirtualMemory", device, "device.virtual_memory(nbytes)")
        size = size_of("nbytes", nbytes)
        room = size if reserve is None else size_of("reserve", reserve)
        if room < size:
            raise ValueError(f"reserve={worded(room)} is less than nbytes={worded(size)}: reserve at least this size")
        if not room:
            raise ValueError("nbytes=0: give reserve=, the number of bytes that the memory may grow to")
        rights = {primary.ordinal: locations.right_from(access)}
        for peer in as_list("peers", peers, "devices"):
            ordinal = locations.ordinal_from(peer)
            locations.require_peer(ordinal, primary.ordinal, "virtual memory of it")
            rights[ordinal] = rights[primary.ordinal]
        locations.require(primary, "VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED", "virtual memory management")
        if as_bool("shareable", shareable):
            locations.require(primary, "HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED", "memory for other processes")
        if dropped:
            drain()
        self._describe(device, 0, "device", None)
        self._shareable = bool(shareable)
        self._lock = free_after_fork(RLock())
        self._granularity = granularity(primary)
        self._reserved = -(-room // self.granularity) * self.granularity
        reservation = self._reservation = Reservation(primary, self.reserved)
        reservation.rights = rights
        self._own(None, reservation)
        primary.hold(reservation)
        try:
            primary.calls.cuMemAddressReserve(
                byref(reservation.address),
                as_argument(self.reserved),
                as_argument(self.granularity),
                as_argument(0),
                NO_FLAGS,
            )
            self._handle = reservation.address.value
            if size:
                self.grow(size)
        except BaseException:
            self._handle = reservation.address.value  # so that close() has something to release
            self.close()
            raise

    # -- mapping

    def grow(self, nbytes: int, *, device: object = None) -> VirtualMemory:
        """Map memory until at least nbytes are mapped, without moving what is there, and return self.

        device  the Device whose memory is added; by default that of the existing memory
        units   bytes in total, rounded up to the granularity
        raises  ValueError   more than is reserved
                OutOfMemory  too little memory is free
        """
        self.handle
        wanted, ordinal = size_of("nbytes", nbytes), self._ordinal(device)
        with self._lock:
            self._grow(wanted, ordinal)
            return self

    def _grow(self, wanted: int, ordinal: int) -> None:
        self._begin()
        self._require(ordinal)
        grain = lcm(self.granularity, granularity(context_of(ordinal)))
        begin, gaps = self.nbytes, []
        beyond = [(piece.offset, piece.end) for piece in self._reservation.mapped() if piece.offset >= begin]
        for following, after in (*beyond, (_NOWHERE, _NOWHERE)):
            if begin >= wanted:
                break
            if begin % grain:
                raise ValueError(
                    f"{begin} bytes are mapped, which is not a multiple of the granularity of device {ordinal}, {grain}"
                )
            end = begin + -(-(wanted - begin) // grain) * grain
            if end > self.reserved:
                raise ValueError(
                    f"nbytes={worded(wanted)}: {self.reserved} bytes were reserved; make one with a larger reserve="
                )
            if following > begin:
                gaps.append((begin, min(end, following) - begin))
            begin = after
        self._map(gaps, ordinal)

    def map(self, offset: int, nbytes: int, *, device: object = None) -> VirtualMemory:
        """Map memory at a free place of the reserved range, and return self.

        device  the Device whose memory it is
        units   bytes; both must be multiples of the granularity of the device
        raises  ValueError   beyond the reserved range, not a multiple of the granularity, or mapped already
                OutOfMemory  too little memory is free
        """
        self.handle
        begin, size, ordinal = size_of("offset", offset), size_of("nbytes", nbytes), self._ordinal(device)
        with self._lock:
            self._map_at(begin, size, ordinal)
            return self

    def _map_at(self, begin: int, size: int, ordinal: int) -> None:
        self._begin()
        self._require(ordinal)
        grain = lcm(self.granularity, granularity(context_of(ordinal)))
        for name, number in (("offset", begin), ("nbytes", size)):
            if number % grain:
                raise ValueError(
                    f"{name}={number} is not a multiple of the granularity of device {ordinal}, {grain} bytes: "
                    f"give {-(-number // grain) * grain}"
                )
        if not size:
            raise ValueError(f"nbytes=0: map at least one multiple of the granularity, {grain} bytes")
        if begin + size > self.reserved:
            raise ValueError(
                f"{size} bytes from byte {begin} on end beyond the {self.reserved} bytes that were reserved: make "
                "one with a larger reserve="
            )
        for piece in self._reservation.mapped():
            if piece.offset < begin + size and begin < piece.end:
                raise ValueError(
                    f"{size} bytes from byte {begin} on cannot be mapped: at bytes {piece.offset} to {piece.end}, "
                    f"memory of device {piece.ordinal} is mapped already; unmap() it first"
                )
        self._map([(begin, size)], ordinal)

    def unmap(self, offset: int, nbytes: int) -> VirtualMemory:
        """Wait for all work, unmap memory, and return self; the addresses stay reserved.

        units   bytes; the range must consist of whole mappings
        calls   cuMemUnmap, cuMemRelease
        raises  ValueError  the range is not mapped, or contains a part of a mapping; a view or an export still uses it
        """
        self.handle
        begin, size = size_of("offset", offset), size_of("nbytes", nbytes)
        self._whole(begin, size)
        self._finish("unmap()")
        with self._lock:
            self._begin()
            self._take(self._whole(begin, size), "unmap()")
            return self

    def _whole(self, begin: int, size: int) -> list[Piece]:
        """Return the mappings of which a range consists."""
        end = begin + size
        mapped = self._reservation.mapped()
        pieces = [each for each in mapped if each.offset < end and begin < each.end]
        covered = begin
        for piece in pieces:
            covered = piece.end if piece.offset == covered else -1
        if not pieces or covered != end:
            there = ", ".join(f"{each.offset} to {each.end}" for each in mapped)
            raise ValueError(
                f"the {size} bytes from byte {begin} on are not whole mappings: mapped are the bytes {there or 'none'}"
            )
        return pieces

    def shrink(self, nbytes: int) -> VirtualMemory:
        """Wait for all work, unmap every mapping that begins at or beyond nbytes, and return self.

        units   bytes; at least this number stays mapped
        raises  ValueError  a view or an export still uses the memory
                InvalidUse  a stream is being captured, so it cannot wait
        """
        self.handle
        size = size_of("nbytes", nbytes)
        if self._beyond(size):
            self._finish("shrink()")
        with self._lock:
            self._begin()
            pieces = self._beyond(size)
            if pieces:
                self._take(pieces, "shrink()")
            return self

    def _beyond(self, size: int) -> list[Piece]:
        """Return the mappings that begin at an offset or beyond it."""
        return [each for each in self._reservation.mapped() if each.offset >= size]

    @property
    def mappings(self) -> tuple[tuple[int, int, int], ...]:
        """Return (offset, size in bytes, ordinal of the device) of each mapping, by offset."""
        return tuple((piece.offset, piece.size, piece.ordinal) for piece in self._reservation.mapped())

    def _begin(self) -> None:
        """Begin a change: finish what an interrupt may have left."""
        self.handle
        self._reservation.tidy()
        self._measure()

    def _finish(self, what: str) -> None:
        """Wait for all work, and release what it has used, such as leases of this memory for other devices' streams."""
        self._reservation.wait(what)
        sweep(now=True)

    def _ordinal(self, device: object) -> int:
        return self._primary.ordinal if device is None else locations.ordinal_from(device)

    def _require(self, ordinal: int) -> None:
        """Check that memory of a device can be mapped."""
        if ordinal != self._primary.ordinal:
            for user, flags in self._reservation.rights.items():
                if flags:
                    locations.require_peer(user, ordinal, "the memory to be mapped")
            locations.require(context_of(ordinal), "VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED", "virtual memory management")

    def _map(self, gaps: list[tuple[int, int]], ordinal: int) -> None:
        """Map memory at (offset, size in bytes) of each gap; after an exception, at none."""
        reservation = self._reservation
        pieces = [Piece(self.handle, begin, size, ordinal) for begin, size in gaps]
        reservation.pieces += pieces
        try:
            self._map_each(pieces, properties(ordinal, self.shareable))
            _set_there(pieces, True)
        except BaseException:
            _set_there(pieces, False)
            reservation.tidy()
            raise
        self._measure()

    def _map_each(self, pieces: list[Piece], wanted: Any) -> None:
        calls = self._primary.calls
        for piece in pieces:
            size = as_argument(piece.size)
            calls.cuMemCreate(byref(piece.handle), size, byref(wanted), NO_FLAGS)
            calls.cuMemMap(piece.address, size, as_argument(0), piece.handle, NO_FLAGS)
            self._apply(piece.offset, piece.size, self._reservation.rights)

    def _take(self, pieces: list[Piece], what: str) -> None:
        """Wait again, and unmap pieces that no view and no export uses: other threads may make views meanwhile."""
        self._reservation.wait(what, is_locked=True)
        begin = pieces[0].offset
        self._check_unused(begin)
        self._nbytes = min(self.nbytes, begin)  # before views are looked for again: _window() reads it at its end
        try:
            self._check_unused(begin)
        except BaseException:
            self._measure()
            raise
        _set_there(pieces, False)
        self._measure()
        self._reservation.tidy()

    def _measure(self) -> None:
        """Find out how much memory is mapped without a gap; copies must read the size again."""
        size = 0
        for piece in self._reservation.mapped():
            if piece.offset != size:
                break
            size = piece.end
        self._nbytes, self._side = size, None

    def _check_unused(self, begin: int) -> None:
        """Check that no view and no export uses the bytes from an offset on."""
        views: Any = self._borrowed()
        if any(each._is_shown() for each in (self, *views)):
            raise ValueError(
                f"the bytes from {begin} on cannot be unmapped: the array interface of this memory was read, and who "
                "reads it keeps only the Memory. Give a view of it instead, memory.view(), which can be dropped"
            )
        used = max(((each._handle or 0) + each.nbytes - self.handle for each in views), default=0)
        leased = any(each._held_by() for each in (self, *views))
        if used > begin or leased:
            raise ValueError(
                f"the bytes from {begin} on cannot be unmapped: "
                + (
                    "an export, a graph or work that is not done uses the memory"
                    if leased
                    else f"there is a view of {used} bytes"
                )
                + "; drop it first"
            )

    # -- access

    def _apply(self, begin: int, size: int, rights: dict[int, int]) -> None:
        """Give devices access to a range of mappings.

        calls   cuMemSetAccess
        """
        wanted = (cuda_h.CUmemAccessDesc * len(rights))()
        for each, (ordinal, flags) in zip(wanted, rights.items()):
            each.location, each.flags = locations.Location(_DEVICE, ordinal).struct(), flags
        self._primary.calls.cuMemSetAccess(
            as_argument(self.handle + begin), as_argument(size), byref(wanted), as_argument(len(rights))
        )

    def set_access(self, device: object, access: str) -> None:
        """Give a device access to all memory that is mapped now and later, or take the access away.

        device  a Device or its ordinal
        access  "none", "read" or "readwrite"
        order   before access is taken away, all work of the device is completed
        calls   cuMemSetAccess
        raises  Unsupported  the device cannot reach the memory
                InvalidUse   a stream of it is being captured, and access is taken away
        """
        flags = locations.right_from(access)
        self._set_access({locations.ordinal_from(device): flags})

    def _set_access(self, rights: dict[int, int]) -> None:
        known = self._reservation.rights
        self.handle
        locations.finish_work(_losing(known, rights), "set_access()")
        with self._lock:
            self._begin()
            self._check_rights(rights)
            before = _part(known, rights)
            locations.finish_work(_losing(known, rights), "set_access()", is_locked=True)
            try:
                self._apply_to_all(rights)
            except BaseException:
                self._apply_to_all(before, careful=False)
                raise
            known.update(rights)

    def _check_rights(self, rights: dict[int, int]) -> None:
        """Check that devices can reach all memory that is mapped, before they get access."""
        homes = {self._primary.ordinal, *(piece.ordinal for piece in self._reservation.mapped())}
        for ordinal in [each for each, flags in rights.items() if flags]:
            for home in homes:
                locations.require_peer(ordinal, home, "virtual memory on it")

    def _apply_to_all(self, rights: dict[int, int], careful: bool = True) -> None:
        """Give devices access to all memory that is mapped; if not careful, continue after an error."""
        for piece in self._reservation.mapped() if rights else ():
            try:
                self._apply(piece.offset, piece.size, rights)
            except CudaError:
                if careful:
                    raise

    def access(self, device: object) -> str:
        """Return the access of a device: "none", "read" or "readwrite".

        device  a Device or its ordinal
        """
        self.handle
        return locations.right_of(self._reservation.rights.get(locations.ordinal_from(device), 0))

    def _peers(self) -> list[Device]:
        rights, own = self._reservation.rights, self._primary.ordinal
        return [locations.device_from(each) for each, flags in rights.items() if flags and each != own]

    def _access_from(self, ordinal: int) -> int:
        return self._reservation.rights.get(ordinal, 0)

    def _remedy(self, ordinal: int) -> str:
        return f'its VirtualMemory.set_access(Device({ordinal}), "readwrite")'

    # -- views

    def view(self, dtype: object = "uint8") -> StridedView:
        """Return the memory that is mapped now without a gap as a one-dimensional array; the array does not grow.

        raises  ValueError  nbytes is not a multiple of the element size
        """
        made = making.over_memory(self._window(), dtype)
        made.stream = self.stream  # the window is new, or as old as the first view of this size
        return made

    def _window(self) -> _Window:
        """Return the owner of views of the present size."""
        address, size = self.handle, self.nbytes
        found = (each for each in self._borrowed() if type(each) is _Window and each.nbytes == size)
        made = next((each for each in found if each._handle is not None), None)
        if made is None:
            made = _Window.__new__(_Window)
            made._describe(self.device, size, "device", None)
            made._keeps = self
            made._own(address if size else 0, None)
            self._lend(made)
        if self.nbytes < size:  # tested after it was lent: _take() looks for views afterwards
            return self._window()
        return made

    def __repr__(self) -> str:
        where = shown_handle(self)
        return f"<VirtualMemory {where} {self.nbytes} of {self.reserved} bytes, device {self.device.ordinal}>"


def _set_there(pieces: list[Piece], is_there: bool) -> None:
    for piece in pieces:
        piece.is_there = is_there
