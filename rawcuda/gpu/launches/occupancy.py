"""Occupancy: how many blocks or clusters of a kernel run at the same time, and which block is best.

What it is   the functions behind Kernel.max_active_blocks, suggest_block and the other methods about occupancy.
Source       CUDA Driver API, "Occupancy"; "Execution Control": cuFuncSetCacheConfig
Read next    emulator/entries/tasks/launches.py, which has the arithmetic
"""

from __future__ import annotations

import ctypes

from ...errors import worded
from ...given import chosen, flag, whole
from ...headers import cuda_h
from ..context import require
from ..kernels.configuration import Asked, ask, config_of, extents, grant_shared

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..kernels.configuration import Shape
    from ..kernels.kernel import Kernel

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


def cache_config(given: Any) -> int:
    """Return a CUfunc_cache for its name, with or without "prefer_", or its number."""
    if isinstance(given, str) and given.startswith("prefer_"):
        given = given[len("prefer_") :]
    return int(chosen("prefer", given, _CACHE_CONFIGS))


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


def _bytes(name: str, given: Any) -> int:
    number = whole(name, given)
    if not 0 <= number < 1 << 32:
        raise ValueError(f"{name}={worded(number)}: give a number of bytes that a block can have, 0 or more")
    return number


def _threads_in(name: str, given: Any) -> tuple[int, int, int]:
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
        grant_shared(kernel, limits, shared_bytes)


def max_active_blocks(kernel: Kernel, block: Any, shared_bytes: Any, disable_caching_override: Any) -> int:
    """Return how many blocks run on a multiprocessor at the same time."""
    x, y, z = _threads_in("block", block)
    size, flags = _bytes("shared_bytes", shared_bytes), int(flag("disable_caching_override", disable_caching_override))
    _grant(kernel, size)
    blocks, function = ctypes.c_int(), cuda_h.CUfunction(kernel.handle)
    with kernel.device.current():
        kernel._primary.driver.cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
            ctypes.byref(blocks), function, x * y * z, size, flags
        )
    return blocks.value


def available_dynamic_shared(kernel: Kernel, blocks: Any, block: Any) -> int:
    """Return the dynamic shared memory that each of a number of blocks may have."""
    (x, y, z), count = _threads_in("block", block), whole("blocks", blocks)
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


def suggest_block(kernel: Kernel, shared_bytes: Any, limit: Any) -> Suggestion:
    """Return the block with the highest occupancy, and the smallest grid for it."""
    most, size = whole("limit", limit), 0
    raised: list[BaseException] = []
    wanted: list[int] = []
    if not 0 <= most < 1 << 31:
        raise ValueError(f"limit={worded(most)}: give the largest number of threads in a block, or 0 for no limit")
    function_of_block = cuda_h.CUoccupancyB2DSize()  # NULL
    if callable(shared_bytes):

        def ask_caller(threads: int) -> int:  # the driver calls this in our thread, during our call
            if raised:
                return 0
            try:
                size = _bytes(f"shared_bytes({threads})", shared_bytes(threads))
            except BaseException as error:  # an exception must not pass through the driver
                raised.append(error)
                return 0
            wanted.append(size)
            return size

        function_of_block = cuda_h.CUoccupancyB2DSize(ask_caller)
    else:
        size = _bytes("shared_bytes", shared_bytes)
    _grant(kernel, size)
    grid, block, function = ctypes.c_int(), ctypes.c_int(), cuda_h.CUfunction(kernel.handle)
    for again in (True, False):
        with kernel.device.current():
            kernel._primary.driver.cuOccupancyMaxPotentialBlockSize(
                ctypes.byref(grid), ctypes.byref(block), function, function_of_block, size, most
            )
        limits = kernel._limits()
        possible = max([each for each in wanted if each <= limits.shared], default=0)
        if raised or not again or possible <= limits.granted:
            break
        _grant(kernel, possible)  # more than the kernel was allowed before: ask again
    if raised:
        try:
            raise raised[0]
        finally:
            raised.clear()  # its traceback refers to this frame
    if not block.value:
        raise ValueError(f"no block of kernel {kernel.name} fits on the device with this shared memory: use less")
    return Suggestion((block.value, grid.value))


# -- clusters


def cluster_occupancy(
    kernel: Kernel, symbol: str, block: Any, shared_bytes: Any, cluster: Any, options: dict[str, Any]
) -> int:
    """Ask the driver for an occupancy of clusters.

    calls   cuOccupancyMaxPotentialClusterSize, cuOccupancyMaxActiveClusters
    """
    require(kernel, symbol, _CLUSTERS)
    asked: Asked | None = ask(kernel, False, cluster)
    if options:
        from .options import read_options

        asked, shared_bytes, _ = read_options(kernel, False, cluster, options, shared_bytes)
    sides = asked.cluster if asked is not None and asked.cluster is not None else (1, 1, 1)
    config = config_of(0, asked)
    config.gridDimX, config.gridDimY, config.gridDimZ = sides
    config.blockDimX, config.blockDimY, config.blockDimZ = _threads_in("block", block)
    config.sharedMemBytes = size = _bytes("shared_bytes", shared_bytes)
    _grant(kernel, size)
    found, function = ctypes.c_int(), cuda_h.CUfunction(kernel.handle)
    with kernel.device.current():
        getattr(kernel._primary.driver, symbol)(ctypes.byref(found), function, ctypes.byref(config))
    return found.value


def check_cluster(kernel: Kernel, asked: Asked, shape: Shape) -> None:
    """Refuse a cluster of more blocks than this kernel may have on its device.

    calls   cuOccupancyMaxPotentialClusterSize
    raises  ValueError  the message names the largest size, and how to permit a larger one
    """
    x, y, z = asked.cluster or (1, 1, 1)
    mode = dict(asked.values).get(_PORTABLE_MODE)
    options = {} if mode is None else {"portable_cluster_size_mode": int.from_bytes(mode[:4], "little")}
    most = cluster_occupancy(kernel, "cuOccupancyMaxPotentialClusterSize", shape[1], shape[2], None, options)
    if x * y * z > most:
        remedy = ""
        if not kernel._fact(_NON_PORTABLE):
            remedy = "; kernel.attributes.non_portable_cluster_size_allowed = True may allow larger ones on this device"
        raise ValueError(
            f"cluster={asked.cluster} has {x * y * z} blocks; kernel {kernel.name} can have {most} with blocks of "
            f"{shape[1]} threads and {shape[2]} bytes of shared memory{remedy}"
        )


_CLUSTERS, _NON_PORTABLE = "CLUSTER_LAUNCH", 14  # the device attribute, and the CUfunction_attribute
_PORTABLE_MODE = 17  # CU_LAUNCH_ATTRIBUTE_PORTABLE_CLUSTER_SIZE_MODE
