"""The limits of a multiprocessor, by compute capability, and how many blocks of a kernel fit on one.

How          The number of blocks is the smallest of those that its threads, block slots, registers and shared memory
             allow. Registers are allocated to warps in units of 256, and the register file is divided into parts, each
             for some of the warps. Shared memory is allocated to blocks in units. A multiprocessor divides its memory
             between shared memory and the L1 cache, and only a few sizes of shared memory are possible. The driver
             selects the smallest size that holds the preferred percentage, but at least one block; without a
             preference, it selects the largest size.
Source       CUDA Programming Guide, "Technical specifications per compute capability"; cuda_occupancy.h
Read next    entries/tasks/launches.py
"""

from __future__ import annotations

from ...ptx.program import REGISTERS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..code.modules import Function

__all__ = ["Capability", "available_shared", "blocks_per_multiprocessor", "capability_of"]

_WARP, _REGISTER_UNIT, _MOST_REGISTERS = 32, 256, 255
_MOST_BLOCK, _SHARED = 1024, 48 << 10


class Capability:
    """The limits of a multiprocessor; sizes are in bytes.

    threads, blocks  how many of them are resident at the same time at most
    shared           the most shared memory; sizes: the possible sizes of it; optin: the most for one block
    unit, reserved   the unit in which blocks get shared memory, and what the system uses of it in each block
    parts            into how many parts the register file is divided
    """

    __slots__ = ("threads", "blocks", "shared", "sizes", "optin", "unit", "reserved", "parts")

    def __init__(self, row: str) -> None:
        threads, blocks, optin, unit, reserved, parts, sizes = row.split()
        self.threads, self.blocks, self.unit, self.parts = int(threads), int(blocks), int(unit), int(parts)
        self.optin, self.reserved = int(optin) << 10, int(reserved)
        self.sizes = [int(size) << 10 for size in sizes.split(",")]
        self.shared = self.sizes[-1]

    def attributes(self) -> dict[int, int]:
        """Return the device attributes for these limits, by number."""
        return {39: self.threads, 81: self.shared, 97: self.optin, 106: self.blocks, 111: self.reserved}

    def size_for(self, wanted: int) -> int:
        """Return the smallest size of shared memory that holds a number of bytes, or the largest size."""
        return next((size for size in self.sizes if size >= wanted), self.shared)


_LARGE, _SMALL = "0,8,16,32,64,100,132,164,196,228", "0,8,16,32,64,100"
# architecture: threads, blocks, KiB for one block, unit, reserved, parts, sizes in KiB
_TABLE = {
    50: "2048 32 48 256 0 4 64",
    52: "2048 32 48 256 0 4 96",
    53: "2048 32 48 256 0 4 64",
    60: "2048 32 48 256 0 2 64",
    61: "2048 32 48 256 0 4 96",
    62: "2048 32 48 256 0 4 64",
    70: "2048 32 96 256 0 4 0,8,16,32,64,96",
    75: "1024 16 64 256 0 4 32,64",
    80: "2048 32 163 128 1024 4 0,8,16,32,64,100,132,164",
    86: f"1536 16 99 128 1024 4 {_SMALL}",
    87: "1536 16 163 128 1024 4 0,8,16,32,64,100,132,164",
    89: f"1536 24 99 128 1024 4 {_SMALL}",
    90: f"2048 32 227 128 1024 4 {_LARGE}",
    100: f"2048 32 227 128 1024 4 {_LARGE}",
    101: f"1536 24 227 128 1024 4 {_LARGE}",
    103: f"2048 32 227 128 1024 4 {_LARGE}",
    110: f"1536 24 227 128 1024 4 {_LARGE}",
    120: f"1536 24 99 128 1024 4 {_SMALL}",
}
_known: dict[int, Capability] = {}


def capability_of(architecture: int) -> Capability:
    """Return the limits of an architecture such as 90, or of the newest one in the table that is not newer."""
    found = _known.get(architecture)
    if found is None:
        row = max((number for number in _TABLE if number <= architecture), default=50)
        found = _known[architecture] = Capability(_TABLE[row])
    return found


_CACHE_PERCENTAGES = {1: 100, 2: 0, 3: 50}  # CU_FUNC_CACHE_PREFER_SHARED, _L1, _EQUAL


def _preferred(function: Function, limits: Capability) -> int:
    """Return the size of shared memory that the kernel prefers."""
    percentage = function.settings[9]
    if percentage < 0:
        percentage = _CACHE_PERCENTAGES.get(function.cache, 100)
    return limits.size_for(limits.shared * percentage // 100)


def _block_limit(function: Function, limits: Capability, most: int) -> int:
    """Return the most shared memory that a block may have, including the part that the system uses."""
    return (limits.optin if most > _SHARED else _SHARED) + limits.reserved


def blocks_per_multiprocessor(function: Function, threads: int, shared: int) -> int:
    """Return how many blocks of a kernel fit on one multiprocessor."""
    limits = capability_of(function.module.machine.architecture)
    if not 0 < threads <= function.max_threads:
        return 0
    most = function.settings[8]
    total = -(-(function.entry.static_shared + limits.reserved + shared) // limits.unit) * limits.unit
    if shared > most or total > _block_limit(function, limits, function.entry.static_shared + limits.reserved + most):
        return 0
    warps = -(-threads // _WARP)
    a_warp = -(-max(function.entry.registers, 1) * _WARP // _REGISTER_UNIT) * _REGISTER_UNIT
    if function.entry.registers > _MOST_REGISTERS or a_warp * (-(-warps // limits.parts) * limits.parts) > REGISTERS:
        return 0
    by_registers = REGISTERS // limits.parts // a_warp * limits.parts // warps
    room = _preferred(function, limits)
    by_shared = (room if room >= total else limits.size_for(total)) // total if total else limits.blocks
    return min(limits.blocks, limits.threads // _WARP // warps, by_registers, by_shared)


def available_shared(function: Function, blocks: int) -> int:
    """Return how much dynamic shared memory each block may have if a number of blocks share a multiprocessor."""
    limits = capability_of(function.module.machine.architecture)
    most = _block_limit(function, limits, limits.shared)
    room = most
    if blocks > 1:
        room = _preferred(function, limits) or limits.size_for(1)
    share = min(room // blocks // limits.unit * limits.unit, most) - limits.reserved - function.entry.static_shared
    return max(0, min(share, function.settings[8]))
