"""How many blocks of a kernel fit on one multiprocessor.

How          The number of blocks is the smallest of those that its threads, block slots, registers and shared memory
             allow. Registers are allocated to warps in units of 256, and the register file is divided into parts, each
             for some of the warps. Shared memory is allocated to blocks in units. A multiprocessor divides its memory
             between shared memory and the L1 cache, and only a few sizes of shared memory are possible. The driver
             selects the smallest size that holds the preferred percentage, but at least one block; without a
             preference, it selects the largest size.
Source       CUDA Programming Guide, "Technical specifications per compute capability"; cuda_occupancy.h
Read next    entries/tasks/launch_entries.py
"""

from __future__ import annotations

from ...machine.answers import Capability, capability_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..code.modules import Function

__all__ = ["available_shared", "blocks_per_multiprocessor"]

_WARP, _REGISTER_UNIT, _MOST_REGISTERS = 32, 256, 255
_MOST_BLOCK, _SHARED = 1024, 48 << 10


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
    from ...ptx.ptx_program import REGISTERS  # imported here, because programs that load no kernel need no compiler

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
    if total:
        by_shared = (room if room >= total else limits.size_for(total)) // total
    else:
        by_shared = limits.blocks
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
