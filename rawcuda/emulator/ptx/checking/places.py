"""The words for the place of an access that is misaligned, or outside memory.

What it is   `whereabouts`, for an address of global memory; `shared_fault`, for one of shared memory; `misalignment`,
             for one of any memory. For local memory, see ../running/thread.py. All use the words of `position`.
Read next    machine/space.py, which words the places of allocations; ../running/report.py, which names the argument
"""

from __future__ import annotations

from ...machine.space import Fault, position
from ..translating.unit import LOCAL_WINDOW, PARAMETER_WINDOW, SHARED_WINDOW

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..running.lookups import Launch

__all__ = ["barrier_missing", "misalignment", "shared_fault", "whereabouts"]

_ILLEGAL_ADDRESS, _MISALIGNED_ADDRESS = 700, 716


def misalignment(what: str, address: int, unit: int, place: str) -> Fault:
    """Return the fault of an access to a misaligned address.

    shape   what: the kind of the address, such as "shared address"; unit: what the address must be a multiple of, in
            bytes; place: the words for the memory that is there
    """
    return Fault(_MISALIGNED_ADDRESS, f"{what} {address:#x} is not a multiple of {unit}: {place}")


def whereabouts(launch: Launch, address: int, nbytes: int) -> str:
    """Return the words for the place of an access to global memory."""
    for window, name in ((SHARED_WINDOW, "shared"), (LOCAL_WINDOW, "local"), (PARAMETER_WINDOW, "parameter")):
        if 0 <= address - window < 1 << 40:
            return f"a generic address of {name} memory, used as a global one"
    return launch.space.whereabouts(address, nbytes)


def shared_fault(launch: Launch, address: int, nbytes: int, unit: int, rank: int | None = None) -> Fault:
    """Return the fault of an access to shared memory that is misaligned, or else outside it.

    shape   unit: what the address must be a multiple of; rank: of the block in the cluster, or None: the running block
    """
    place = _in_shared(launch, address - (1 << 32) if address >> 31 else address, nbytes, rank)
    if address % unit:
        return misalignment("shared address", address, unit, place)
    return Fault(_ILLEGAL_ADDRESS, f"shared address {address:#x}: {place}")


def _in_shared(launch: Launch, start: int, nbytes: int, rank: int | None) -> str:
    """Return the words for a place in the shared memory of a block, by its variable, or for a place outside of it."""
    size, block, of = launch.shared_bytes, launch.block, ""
    if launch.cluster_size > 1 and (block is not None or rank is not None):
        of = f" of block {block.cluster_rank if rank is None and block is not None else rank} of the cluster"
    if launch.kernel is not None and 0 <= start <= size - nbytes:
        for offset, length, name in launch.kernel.shared_names:
            if length:
                kind, length = ("shared", length)
            else:
                kind, length = ("dynamic shared", size - offset)
            if offset <= start < offset + length:
                return position(start - offset, nbytes, length, f"the {length}-byte {kind} variable {name!r}{of}")
    if launch.reserved_at <= start < launch.shared_end:
        size = launch.shared_end - launch.reserved_at
        return position(start - launch.reserved_at, nbytes, size, f"the {size} bytes that the system reserves{of}")
    if of:
        whole = f"the {size} bytes of shared memory{of}"
    else:
        whole = f"the block's {size} bytes of shared memory"
    return position(start, nbytes, size, whole) + _dynamic(launch)


def _dynamic(launch: Launch) -> str:
    """Return the words for the dynamic shared memory of a launch, if its kernel uses any."""
    if launch.kernel is not None:
        names = [name for _, length, name in launch.kernel.shared_names if not length]
    else:
        names = []
    if not names:
        return ""
    if launch.dynamic_shared:
        given = f"{launch.dynamic_shared} bytes of"
    else:
        given = "no"
    return (
        f"; the launch gave the kernel {given} dynamic shared memory, for {names[0]!r}: launch(..., shared_bytes=...), "
        "or the third number in <<<grid, block, bytes>>>"
    )


def barrier_missing(warp: bool, kind: str = "") -> str:
    """Return what to do about a race of two threads of a block; `warp` tells whether one warp has both."""
    if warp:
        barrier = "__syncthreads(), or __syncwarp() if all who take part are in one warp"
    else:
        barrier = "__syncthreads()"
    wrong = "; if each is to write an element of its own, an index is wrong, or the array is too small"
    return f"a barrier is missing between them, {barrier}{wrong if kind == 'write after write' else ''}"
