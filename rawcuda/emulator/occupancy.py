"""Entry points: occupancy, by the published formulas.

How          how many blocks fit on a multiprocessor is the least of what its threads, block slots, registers and shared memory allow.
             Registers are given out to warps in units of 256, shared memory in units of 128 bytes, and each block costs 1 KiB more.
Source       CUDA occupancy calculator's formulas (cuda_occupancy.h), for compute capability 9.0
Read next    launches.py
"""
from __future__ import annotations

import ctypes

from .attributes import ATTRIBUTES
from .codes import Refused
from .machine import Machine
from .modules import Function, function_at
from .thunks import entry
from .words import LAUNCH_CONFIG, out, put_int, put_u64, read

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

__all__ = ["blocks_per_multiprocessor"]

_WARP, _REGISTER_UNIT, _SHARED_UNIT, _PARTITIONS = 32, 256, 128, 4
_BlockToShared = ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_int)


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def blocks_per_multiprocessor(function: Function, threads: int, shared: int) -> int:
    """Return how many blocks of a kernel fit on one multiprocessor."""
    warps = -(-threads // _WARP)
    if not 0 < threads <= function.max_threads:
        return 0
    total_shared = function.entry.static_shared + shared
    if total_shared > ATTRIBUTES[97]:
        return 0
    by_warps = ATTRIBUTES[39] // _WARP // warps
    a_warp = _round_up(max(function.entry.registers, 1) * _WARP, _REGISTER_UNIT)
    warps_by_registers = ATTRIBUTES[82] // _PARTITIONS // a_warp * _PARTITIONS
    by_registers = warps_by_registers // warps
    by_shared = ATTRIBUTES[81] // _round_up(total_shared + ATTRIBUTES[111], _SHARED_UNIT)
    return min(ATTRIBUTES[106], by_warps, by_registers, by_shared)


@entry("cuOccupancyMaxActiveBlocksPerMultiprocessor(int *numBlocks, CUfunction func, int blockSize, size_t dynamicSMemSize)",
       since=6050)
def max_active_blocks(machine: Machine, address: int, handle: int, threads: int, shared: int) -> None:
    """Say how many blocks fit on one multiprocessor."""
    max_active_blocks_with_flags(machine, address, handle, threads, shared, 0)


@entry("cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *numBlocks, CUfunction func, int blockSize, "
       "size_t dynamicSMemSize, unsigned int flags)", since=7000)
def max_active_blocks_with_flags(machine: Machine, address: int, handle: int, threads: int, shared: int, flags: int) -> None:
    """Say how many blocks fit on one multiprocessor."""
    out(address)
    function = function_at(machine, handle)
    if threads <= 0 or flags & ~1:
        raise Refused(1)
    put_int(address, blocks_per_multiprocessor(function, threads, shared))


def _shared_of(callback: int, shared: int) -> Callable[[int], int]:
    """Return the shared memory that a block of some size takes: told by the caller's function, if there is one."""
    if not callback:
        return lambda threads: shared
    function = _BlockToShared(callback)
    return lambda threads: int(function(threads))


@entry("cuOccupancyMaxPotentialBlockSize(int *minGridSize, int *blockSize, CUfunction func, "
       "CUoccupancyB2DSize blockSizeToDynamicSMemSize, size_t dynamicSMemSize, int blockSizeLimit)", since=6050)
def max_potential_block(machine: Machine, grid: int, block: int, handle: int, callback: int, shared: int, limit: int) -> None:
    """Find the block size of the highest occupancy."""
    max_potential_block_with_flags(machine, grid, block, handle, callback, shared, limit, 0)


@entry("cuOccupancyMaxPotentialBlockSizeWithFlags(int *minGridSize, int *blockSize, CUfunction func, "
       "CUoccupancyB2DSize blockSizeToDynamicSMemSize, size_t dynamicSMemSize, int blockSizeLimit, unsigned int flags)",
       since=7000)
def max_potential_block_with_flags(machine: Machine, grid: int, block: int, handle: int, callback: int, shared: int, limit: int,
                                   flags: int) -> None:
    """Find the block size of the highest occupancy, the largest of several."""
    out(grid, block)
    function = function_at(machine, handle)
    if limit < 0 or flags & ~1:
        raise Refused(1)
    most = min(function.max_threads, limit or function.max_threads)
    shared_of = _shared_of(callback, shared)
    best = (0, 0, 0)
    for threads in [most, *range(_round_up(most, _WARP) - _WARP, 0, -_WARP)]:
        blocks = blocks_per_multiprocessor(function, threads, shared_of(threads))
        if blocks * threads > best[0]:
            best = (blocks * threads, threads, blocks)
    put_int(block, best[1])
    put_int(grid, best[2] * ATTRIBUTES[16])


@entry("cuOccupancyAvailableDynamicSMemPerBlock(size_t *dynamicSmemSize, CUfunction func, int numBlocks, int blockSize)",
       since=10020)
def available_shared(machine: Machine, address: int, handle: int, blocks: int, threads: int) -> None:
    """Say how much dynamic shared memory each block may have if so many are to fit on one multiprocessor."""
    out(address)
    function = function_at(machine, handle)
    if blocks <= 0 or threads <= 0 or blocks > blocks_per_multiprocessor(function, threads, 0):
        raise Refused(1)
    share = ATTRIBUTES[81] // blocks // _SHARED_UNIT * _SHARED_UNIT - ATTRIBUTES[111] - function.entry.static_shared
    put_u64(address, max(0, min(share, ATTRIBUTES[97] - function.entry.static_shared)))


def _config(machine: Machine, handle: int, config: int) -> tuple[Function, int, int, int]:
    """Read a launch's configuration: (function, threads, shared memory, blocks of a cluster)."""
    from .launches import attributes_at, cluster_of
    function = function_at(machine, handle)
    _, _, _, bx, by, bz, shared, _, address, count = read(LAUNCH_CONFIG, config)
    x, y, z = cluster_of(attributes_at(address, count))
    if not bx * by * bz or not x * y * z:
        raise Refused(1)
    return function, bx * by * bz, shared, x * y * z


@entry("cuOccupancyMaxPotentialClusterSize(int *clusterSize, CUfunction func, const CUlaunchConfig *config)", since=11070)
def max_cluster(machine: Machine, address: int, handle: int, config: int) -> None:
    """Say how large a cluster may be."""
    out(address)
    function, threads, shared, _ = _config(machine, handle, config)
    fits = blocks_per_multiprocessor(function, threads, shared) * ATTRIBUTES[16]
    largest = 16 if function.settings.get(14) else 8
    while largest > fits:
        largest //= 2
    put_int(address, largest)


@entry("cuOccupancyMaxActiveClusters(int *numClusters, CUfunction func, const CUlaunchConfig *config)", since=11070)
def max_active_clusters(machine: Machine, address: int, handle: int, config: int) -> None:
    """Say how many clusters fit on the device at once."""
    out(address)
    function, threads, shared, size = _config(machine, handle, config)
    put_int(address, blocks_per_multiprocessor(function, threads, shared) * ATTRIBUTES[16] // size)
