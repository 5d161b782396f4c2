"""The addresses and the physical memory behind a VirtualMemory, and their release.

What it is   `Piece`, memory of one device that is mapped; `Reservation`, the addresses with all pieces in them, which
             releases everything in the right order.
How          A piece is in the list of its reservation before the first driver call for it. So the release of the
             reservation finds it after any exception, and so does tidy(), before the next change. The steps that made
             a piece are undone in the opposite order; the driver refuses to undo a step that was not done, which does
             no harm.
Source       CUDA Driver API, "Virtual Memory Management"
Read next    gpu/memory/virtual.py
"""

from __future__ import annotations

import ctypes
from _thread import RLock, allocate_lock
from ctypes import byref

from ...driver import as_argument
from ...errors import CudaError
from ...headers import cuda_h
from ...headers.status import STREAM_CAPTURE_UNSUPPORTED
from ...interpreter.cpython import free_after_fork
from .calls import relaxed
from .context import PrimaryContext, attempt
from .handles import AGAIN
from .locations import Location, finish_work

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["NO_FLAGS", "Piece", "Reservation", "granularity", "properties"]

_DEVICE, _PINNED, _MINIMUM = 1, 1, 0  # CU_MEM_LOCATION_TYPE_DEVICE, CU_MEM_ALLOCATION_TYPE_PINNED, ..._MINIMUM
NO_FLAGS = ctypes.c_ulonglong(0)


class Piece:
    """Memory of one device that is mapped, or about to be, at an offset of a reservation.

    is_there  whether it is mapped; otherwise it is being mapped or undone, or an interrupt stopped that
    handle    C memory for the handle, 0 until it was created
    kept      whether it stays mapped when it is undone
    """

    __slots__ = ("address", "offset", "size", "ordinal", "is_there", "handle", "kept")

    def __init__(self, address: int, offset: int, size: int, ordinal: int) -> None:
        self.offset, self.size, self.ordinal, self.is_there = offset, size, ordinal, False
        self.handle = ctypes.c_uint64()
        self.address, self.kept = as_argument(address + offset), False

    @property
    def end(self) -> int:
        """Return the offset of the first byte behind this piece."""
        return self.offset + self.size

    def undo(self, primary: PrimaryContext) -> None:
        """Unmap the memory and release it, as far as that was not done already; raise no error."""
        with _undoing:
            if not self.handle.value:
                return
            with relaxed(primary.driver):
                if not self.kept:
                    attempt(primary.calls.cuMemUnmap, self.address, as_argument(self.size))
                handle = ctypes.c_uint64(self.handle.value)
                self.handle.value = 0  # before the release: after an interrupt, it must not be released twice
                attempt(primary.calls.cuMemRelease, handle)


_undoing = free_after_fork(RLock())


class Reservation:
    """The release of virtual memory: of its pieces, then of its addresses.

    address  C memory for the first address, 0 until it was reserved
    taken    the lock that the one caller takes that releases everything
    rights   the CUmemAccess_flags of each device for all pieces, by ordinal
    """

    __slots__ = ("primary", "address", "size", "pieces", "taken", "rights")

    def __init__(self, primary: PrimaryContext, size: int) -> None:
        self.primary, self.size = primary, size
        self.address = ctypes.c_uint64()
        self.taken = allocate_lock()
        self.pieces: list[Piece] = []
        self.rights: dict[int, int] = {}

    def release(self, late: bool) -> bool:
        """Unmap and release everything, unless that was done already; raise no error.

        returns  False if a capture forbids to wait for the work that may use it: try again later
        """
        if not self.taken.acquire(False):
            return True
        try:
            done = self._release()
        except BaseException:  # an interrupt, most likely in the wait: the next call goes on
            self.taken.release()
            raise
        if not done:
            self.taken.release()
        return done

    def _release(self) -> bool:
        primary = self.primary
        if self.pieces:  # (work does not retain our own memory, and cuMemUnmap need not wait for it)
            try:
                if not self.wait():
                    return False
            except CudaError as error:
                primary.driver.unnoticed(error)
                if error.code in (STREAM_CAPTURE_UNSUPPORTED, *AGAIN):  # 900: other software captures
                    return False
        for piece in reversed(tuple(self.pieces)):
            attempt(piece.undo, primary)
        if self.address.value:
            address, self.address.value = as_argument(self.address.value), 0  # as in Piece.undo()
            with relaxed(primary.driver):
                attempt(primary.calls.cuMemAddressFree, address, as_argument(self.size))
        primary.let_go(self)
        return True

    def mapped(self) -> list[Piece]:
        """Return the pieces that are mapped, by offset."""
        return sorted((piece for piece in self.pieces if piece.is_there), key=lambda piece: piece.offset)

    def tidy(self) -> None:
        """Undo every piece that is not mapped, or only in part."""
        for piece in [each for each in self.pieces if not each.is_there]:
            piece.undo(self.primary)
            self.pieces.remove(piece)

    def wait(self, what: str = "", is_locked: bool = False) -> bool:
        """Wait for the work of every device that has access; see finish_context()."""
        rights = self.rights.copy()  # (another thread may change it meanwhile)
        return finish_work((ordinal for ordinal, flags in rights.items() if flags), what, is_locked)

    def give_away(self) -> bool:
        """Release only our handles of the memory, which exists as long as it is mapped; later calls release nothing."""
        first = self.taken.acquire(False)
        for piece in self.pieces:
            piece.kept = True
            piece.undo(self.primary)
        self.primary.let_go(self)
        return first


def properties(ordinal: int, shareable: bool = False) -> Any:
    """Return the CUmemAllocationProp of memory of a device, perhaps with file descriptors for other processes."""
    return cuda_h.CUmemAllocationProp(
        type=_PINNED, requestedHandleTypes=int(shareable), location=Location(_DEVICE, ordinal).struct()
    )


def granularity(primary: PrimaryContext) -> int:
    """Return the number of bytes of which sizes of memory of a device must be multiples.

    calls   cuMemGetAllocationGranularity
    """
    known = primary.attributes.get(_KEY)
    if known is None:
        size, wanted = ctypes.c_size_t(), properties(primary.ordinal)
        primary.open()
        primary.calls.cuMemGetAllocationGranularity(byref(size), byref(wanted), ctypes.c_int(_MINIMUM))
        known = primary.attributes[_KEY] = size.value
    return int(known)


_KEY = ("granularity of virtual memory",)
