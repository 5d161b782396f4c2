"""Occupancy: how many blocks or clusters of a kernel run at the same time, and which block is best.

What it is   the functions behind Kernel.max_active_blocks, suggest_block and the other methods about occupancy.
Source       CUDA Driver API, "Occupancy"; "Execution Control": cuFuncSetCacheConfig
Read next    emulator/entries/tasks/launch_entries.py, which has the arithmetic
"""

from __future__ import annotations

import ctypes

from ...arguments import as_bool, as_enumerator, as_int
from ...errors import worded
from ...headers import cuda_h
from ..core.context import require
from .configuration import LaunchAttributes, attributes_of, config_of, extents, grant_shared

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Callable

    from .configuration import Shape
    from .kernel import Kernel

__all__ = [
    "Suggestion",
    "available_dynamic_shared",
    "cache_config",
    "check_cluster",
    "cluster_occupancy",
    "max_active_blocks",
    "suggest_block",
]

_CACHE_CONFIGS = "none", "shared", "l1", "equal"  # CU_FUNC_CACHE_PREFER_...


def cache_config(given: object) -> int:
    """Return a CUfunc_cache for its name, with or without "prefer_", or its number."""
    if isinstance(given, str) and given.startswith("prefer_"):
        given = given[len("prefer_") :]
    return int(as_enumerator("prefer", given, _CACHE_CONFIGS))


class Suggestion(tuple):  # type: ignore[type-arg]
    """A block and a grid, as (block, grid): numbers of threads and of blocks."""

    __slots__ = ()

    @property
    def block(self) -> int:
        """Return the number of threads in a block."""
        return self[0]  # type: ignore[no-any-return]

    @property
    def grid(self) -> int:
        """Return the smallest number of blocks with which the whole device is used."""
        return self[1]  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return f"Suggestion(block={self[0]}, grid={self[1]})"


def _bytes(name: str, given: object) -> int:
    number = as_int(name, given)
    if not 0 <= number < 1 << 32:
        raise ValueError(f"{name}={worded(number)}: give a number of bytes that a block can have, 0 or more")
    return number


def _threads_in(name: str, given: object) -> tuple[int, int, int]:
    x, y, z = extents(name, given)
    if max(x, y, z, x * y * z) >= 1 << 31:
        raise ValueError(f"{name}={worded(given)}: a block has at most 1024 threads")
    return x, y, z


def _grant(kernel: Kernel, shared_bytes: int) -> None:
    """Request dynamic shared memory as a launch does, so that the result applies to a launch.

    calls   cuFuncGetAttribute, cuFuncSetAttribute
    """
    limits = kernel._limits()
    if limits.granted < shared_bytes <= limits.shared:
        grant_shared(kernel.module, limits, shared_bytes)


def max_active_blocks(kernel: Kernel, block: object, shared_bytes: object, disable_caching_override: object) -> int:
    """Return how many blocks run on a multiprocessor at the same time."""
    x, y, z = _threads_in("block", block)
    size, flags = (
        _bytes("shared_bytes", shared_bytes),
        int(as_bool("disable_caching_override", disable_caching_override)),
    )
    _grant(kernel, size)
    blocks, function = ctypes.c_int(), cuda_h.CUfunction(kernel.handle)
    with kernel.device.current():
        kernel._primary.driver.cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
            ctypes.byref(blocks), function, x * y * z, size, flags
        )
    return blocks.value


def available_dynamic_shared(kernel: Kernel, blocks: object, block: object) -> int:
    """Return the dynamic shared memory that each of a number of blocks may have."""
    (x, y, z), count = _threads_in("block", block), as_int("blocks", blocks)
    if not 0 < count < 1 << 31:
        raise ValueError(f"blocks={worded(count)}: give the number of blocks on a multiprocessor, at least 1")
    fitting = max_active_blocks(kernel, (x, y, z), 0, False)
    if count > fitting:
        raise ValueError(
            f"blocks={count}: at most {fitting} blocks of {x * y * z} threads of kernel {kernel.name} fit on a "
            "multiprocessor"
        )
    size, function = ctypes.c_size_t(), cuda_h.CUfunction(kernel.handle)
    with kernel.device.current():
        kernel._primary.driver.cuOccupancyAvailableDynamicSMemPerBlock(ctypes.byref(size), function, count, x * y * z)
    return size.value


def suggest_block(kernel: Kernel, shared_bytes: object, limit: object) -> Suggestion:
    """Return the block with the highest occupancy, and the smallest grid for it."""
    most = as_int("limit", limit)
    if not 0 <= most < 1 << 31:
        raise ValueError(f"limit={worded(most)}: give the largest number of threads in a block, or 0 for no limit")
    if callable(shared_bytes):
        found = _best_block(kernel, shared_bytes, most)
    else:
        size = _bytes("shared_bytes", shared_bytes)
        _grant(kernel, size)
        grid, block, function = ctypes.c_int(), ctypes.c_int(), cuda_h.CUfunction(kernel.handle)
        no_function = cuda_h.CUoccupancyB2DSize()  # NULL
        with kernel.device.current():
            kernel._primary.driver.cuOccupancyMaxPotentialBlockSize(
                ctypes.byref(grid), ctypes.byref(block), function, no_function, size, most
            )
        found = Suggestion((block.value, grid.value))
    if not found.block:
        raise ValueError(f"no block of kernel {kernel.name} fits on the device with this shared memory: use less")
    return found


def _best_block(kernel: Kernel, shared_of: Callable[[int], object], most: int) -> Suggestion:
    """Do what cuOccupancyMaxPotentialBlockSize does, with a Python function.

    The driver would call the function while it holds a lock, and the function needs the interpreter's lock: another
    thread that calls the driver without releasing the interpreter's lock would wait for ever.
    """
    limits, device = kernel._limits(), kernel.device
    largest, warp = min(limits.threads, most or limits.threads), device.attribute("WARP_SIZE")
    best = threads_of_best = blocks_of_best = 0
    for threads in (largest, *range((largest - 1) // warp * warp, 0, -warp)):
        size = _bytes(f"shared_bytes({threads})", shared_of(threads))
        blocks = 0
        if size <= limits.shared:
            blocks = max_active_blocks(kernel, threads, size, False)
        if blocks * threads > best:
            best, threads_of_best, blocks_of_best = blocks * threads, threads, blocks
    return Suggestion((threads_of_best, blocks_of_best * device.attribute("MULTIPROCESSOR_COUNT")))


# -- clusters


def cluster_occupancy(
    kernel: Kernel, symbol: str, block: object, shared_bytes: object, cluster: object, options: Mapping[str, object]
) -> int:
    """Ask the driver for an occupancy of clusters.

    calls   cuOccupancyMaxPotentialClusterSize, cuOccupancyMaxActiveClusters
    """
    require(kernel, symbol, _CLUSTERS)
    attributes: LaunchAttributes | None = attributes_of(kernel, False, cluster)
    if options:
        from .options import read_options

        attributes, shared_bytes, _ = read_options(kernel, False, cluster, options, shared_bytes)
    if attributes is not None and attributes.cluster is not None:
        sides = attributes.cluster
    else:
        sides = (1, 1, 1)
    config = config_of(0, attributes)
    config.gridDimX, config.gridDimY, config.gridDimZ = sides
    config.blockDimX, config.blockDimY, config.blockDimZ = _threads_in("block", block)
    config.sharedMemBytes = size = _bytes("shared_bytes", shared_bytes)
    _grant(kernel, size)
    found, function = ctypes.c_int(), cuda_h.CUfunction(kernel.handle)
    with kernel.device.current():
        getattr(kernel._primary.driver, symbol)(ctypes.byref(found), function, ctypes.byref(config))
    return found.value


def check_cluster(kernel: Kernel, attributes: LaunchAttributes, shape: Shape) -> None:
    """Refuse a cluster of more blocks than this kernel may have on its device.

    calls   cuOccupancyMaxPotentialClusterSize
    raises  ValueError  the message names the largest size, and how to permit a larger one
    """
    x, y, z = attributes.cluster or (1, 1, 1)
    mode = dict(attributes.values).get(_PORTABLE_MODE)
    if mode is None:
        options = {}
    else:
        options = {"portable_cluster_size_mode": int.from_bytes(mode[:4], "little")}
    most = cluster_occupancy(kernel, "cuOccupancyMaxPotentialClusterSize", shape[3:6], shape[6], None, options)
    if x * y * z > most:
        remedy = ""
        if not kernel._fact(_NON_PORTABLE):
            remedy = "; kernel.attributes.non_portable_cluster_size_allowed = True may allow larger ones on this device"
        raise ValueError(
            f"cluster={attributes.cluster} has {x * y * z} blocks; kernel {kernel.name} can have {most} with blocks of "
            f"{shape[3:6]} threads and {shape[6]} bytes of shared memory{remedy}"
        )


_CLUSTERS, _NON_PORTABLE = "CLUSTER_LAUNCH", 14  # the device attribute, and the CUfunction_attribute
_PORTABLE_MODE = 17  # CU_LAUNCH_ATTRIBUTE_PORTABLE_CLUSTER_SIZE_MODE
