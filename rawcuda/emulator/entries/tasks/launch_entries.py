"""Entry points: launches of kernels, and occupancy, which is calculated with the published formulas.

How          the call checks everything and copies the arguments; the kernel runs when its stream reaches it. An error
             inside the kernel makes the context unusable, and the next call that waits returns it, as on a GPU.
             attribute_entries.py reads the attributes of a launch, entries/hardware/capabilities.py counts blocks.
Source       CUDA Driver API, "Execution Control", "Occupancy"
Read next    graphs/
"""

from __future__ import annotations

import ctypes
from _thread import get_ident

from ...interface.thunks import LAUNCH_CONFIG, entry, out, put_int, put_word, read
from ...machine.codes import Refused
from ...machine.device_arrays import Surface, Texture
from ...machine.machine import Machine
from ...machine.queues import KERNEL
from ..code.modules import Function, function_at, launched_function
from ..hardware.capabilities import available_shared as dynamic_shared
from ..hardware.capabilities import blocks_per_multiprocessor
from ..memories.memory_entries import access_of
from .attribute_entries import attributes_at, check_attributes, cluster_of, events_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

    from ...machine.machine import Context
    from ...machine.space import Allocation
    from ...ptx.running.recorder import Recorder

    Size = tuple[int, int, int]

__all__ = ["kernel_work", "read_arguments"]

_BUFFER, _BUFFER_SIZE = 1, 2  # CU_LAUNCH_PARAM_BUFFER_POINTER, ..._SIZE; 0 ends the list
_COOPERATIVE, _CLUSTER = 2, 4
_TRUE = b"\1".ljust(64, b"\0")
_PORTABLE_CLUSTER, _LARGEST_CLUSTER = 8, 16


def _from_buffer(extra: int, need: int) -> bytes:
    """Read the arguments from the buffer that an `extra` list names."""
    buffer, size = 0, 0
    words = (ctypes.c_size_t * 5).from_address(extra)
    index = 0
    while index < 4 and words[index]:
        if words[index] == _BUFFER:
            buffer = words[index + 1]
        elif words[index] == _BUFFER_SIZE:
            if words[index + 1]:
                size = ctypes.c_size_t.from_address(words[index + 1]).value
            else:
                size = 0
        else:
            raise Refused(1)
        index += 2
    if need and not buffer:
        raise Refused(1)
    if size < need:
        raise Refused(1, f"the argument buffer has {size} bytes, but the parameters of this kernel need {need}")
    return ctypes.string_at(buffer, need)


def read_arguments(function: Function, parameters: int, extra: int) -> bytes:
    """Copy a launch's arguments into one block with the layout of the kernel's parameters."""
    code = function.entry
    need = code.parameter_bytes
    if parameters and extra:
        raise Refused(1, "both kernelParams and extra contain arguments: pass only one of them")
    if not need:
        return b""
    if extra:
        return _from_buffer(extra, need)
    if not parameters:
        raise Refused(1, f"kernel {code.name!r} takes {len(code.parameters)} arguments, but none were passed")
    block = bytearray(need)
    pointers = (ctypes.c_size_t * len(code.parameters)).from_address(parameters)
    for (offset, size), pointer in zip(code.parameters, pointers):
        if not pointer:
            raise Refused(1)
        block[offset : offset + size] = ctypes.string_at(pointer, size)
    return bytes(block)


def _check(function: Function, grid: Size, block: Size, shared: int) -> None:
    """Refuse a launch that exceeds the limits of the device or the kernel."""
    if 0 in grid or 0 in block:
        raise Refused(1, f"a grid of {grid} blocks of {block} threads: every size must be at least 1")
    limits = function.module.machine.answers.attributes
    for what, sizes, first in (("grid", grid, 5), ("block", block, 2)):
        for axis, size in enumerate(sizes):
            if size > limits[first + axis]:
                raise Refused(1, f"{what} {sizes}: {'xyz'[axis]} must be at most {limits[first + axis]}")
    threads = block[0] * block[1] * block[2]
    if threads > limits[1]:
        raise Refused(1, f"a block of {block} has {threads} threads: at most {limits[1]} are permitted")
    code = function.entry
    if code.required_block is not None and tuple(code.required_block) != block:
        raise Refused(1, f"kernel {code.name!r} requires a block of {tuple(code.required_block)}, not {block}")
    if threads > function.max_threads:
        raise Refused(
            1,  # numba-cuda's tests, which run on GPUs, expect this code
            f"kernel {code.name!r} was compiled for at most {function.max_threads} threads per block, not {threads}",
        )
    if shared > function.settings[8]:
        raise Refused(
            1,
            f"{shared} bytes of dynamic shared memory: this kernel may have {function.settings[8]} "
            f"(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES raises it to at most {function.most_shared})",
        )


def _cluster(function: Function, attributes: dict[int, bytes]) -> Size | None:
    """Return the cluster of a launch: that of its attributes, or the one that the kernel requires."""
    code, required = function.entry, function.required_cluster
    if code.blocks_are_clusters:
        raise Refused(
            801, f"kernel {code.name!r}: a grid that is counted in clusters (.blocksareclusters) is not emulated"
        )
    if _CLUSTER in attributes:
        given = cluster_of(attributes)
    else:
        given = None
    if required is not None:
        if given is not None and given != required:
            raise Refused(912, f"kernel {code.name!r} requires clusters of {required}, not of {given}")
        return required
    if given is None and code.explicit_cluster:
        raise Refused(912, f"kernel {code.name!r} must be launched with clusters")
    return given


def _check_cluster(function: Function, grid: Size, cluster: Size) -> None:
    if function.module.machine.architecture < 90:
        raise Refused(801, "clusters need compute capability 9.0: device attribute 120, CLUSTER_LAUNCH, is 0")
    if 0 in cluster:
        raise Refused(1, f"a cluster of {cluster}: every size must be at least 1")
    size, most = cluster[0] * cluster[1] * cluster[2], function.entry.most_in_cluster
    if most and size > most:
        raise Refused(
            912, f"a cluster of {size} blocks: kernel {function.entry.name!r} was compiled for at most {most}"
        )
    if size > (_LARGEST_CLUSTER if function.settings.get(14) else _PORTABLE_CLUSTER):
        raise Refused(
            912,
            f"a cluster of {size} blocks: at most {_PORTABLE_CLUSTER}, or {_LARGEST_CLUSTER} for a kernel that allows "
            "non-portable cluster sizes",
        )
    if any(blocks % side for blocks, side in zip(grid, cluster)):
        raise Refused(1, f"a grid of {grid} blocks cannot be divided into clusters of {cluster}")


def _rights(context: Context) -> Callable[[Allocation], int]:
    """Return a function that returns the access of a kernel to an allocation: 0, 1 to read, 3 to read and write."""

    def rights(allocation: Allocation) -> int:
        holding = allocation.context
        if holding is None:
            return 3
        return access_of(holding, context)

    return rights


def _opaque(machine: Machine, context: Context) -> Callable[[int], Texture | Surface | None]:
    """Return a function that returns the texture or the surface of a handle in a context, or None."""

    def find(handle: int) -> Texture | Surface | None:
        found = machine.handles.get(handle)
        if isinstance(found, (Texture, Surface)) and found.context is context:
            return found
        return None

    return find


def kernel_work(
    machine: Machine,
    function: Function,
    grid: Size,
    block: Size,
    shared: int,
    arguments: bytes,
    attributes: dict[int, bytes],
    recorder: Recorder | None = None,
) -> Callable[[], None]:
    """Check a launch, and return the function that runs its kernel."""
    context = function.module.context
    _check(function, grid, block, shared)
    cluster = _cluster(function, attributes)
    cooperative = any(attributes.get(_COOPERATIVE, b"")[:4])
    if cluster is not None:
        _check_cluster(function, grid, cluster)
    resident = 0
    if cooperative or function.entry.waits:
        resident = (
            blocks_per_multiprocessor(function, block[0] * block[1] * block[2], shared) * machine.answers.attributes[16]
        )
    if cooperative and grid[0] * grid[1] * grid[2] > resident:
        raise Refused(
            720,
            f"a cooperative grid of {grid}: all blocks must be resident at the same time, and only {resident} fit",
        )
    run, progress, site = function.entry.run, machine.progress, machine.caller()
    if machine.restricted or len(machine.devices) > 1:
        rights = _rights(function.module.context)
    else:
        rights = None

    def work() -> None:
        context.system_calls |= function.entry.system_calls
        run(
            grid,
            block,
            shared,
            arguments,
            progress=progress,
            cooperative=cooperative,
            rights=rights,
            cluster=cluster,
            resident=resident,
            multiprocessors=machine.answers.attributes[16],
            opaque=_opaque(machine, context),
            site=site,
            output_size=context.limit(1),
            heap=context.heap,
            heap_size=context.limit(2),
            recorder=recorder,
        )

    return work


def _launch(
    machine: Machine,
    handle: int,
    grid: Size,
    block: Size,
    shared: int,
    stream_handle: int,
    parameters: int,
    extra: int,
    attributes: dict[int, bytes] | None = None,
) -> None:
    stream = machine.stream(stream_handle)
    function = launched_function(machine, handle)
    context = function.module.context
    if context is not stream.context:
        raise Refused(400, f"the kernel was loaded in {context!r}, but the stream belongs to {stream.context!r}")
    code = machine.answers.elsewhere.get("cuLaunchKernel", 0)
    if code and machine.context() is not context:
        raise Refused(code, f"the kernel was loaded in {context!r}, and another context is current")
    _check(function, grid, block, shared)
    chosen = attributes or {}
    check_attributes(machine, stream, chosen)
    arguments = read_arguments(function, parameters, extra)
    if stream.capture is not None:
        stream.capture.launch(stream, function, grid, block, shared, arguments, chosen)
        for event in events_of(machine, chosen):
            event.captured = stream.capture, stream.capture.mark(stream)
        return
    machine.queues.make_room(context)
    if machine.recorders:
        recorder = machine.recorders.pop(get_ident(), None)
    else:
        recorder = None
    work = kernel_work(machine, function, grid, block, shared, arguments, chosen, recorder)
    queued = machine.queues.submit(stream, work, function.entry.name, KERNEL)
    if not queued.done:
        queued.given, queued.site = arguments, machine.caller()
    for event in events_of(machine, chosen):
        event.work, event.captured = queued, None


@entry(
    "cuLaunchKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ, unsigned "
    "int blockDimX, "
    "unsigned int blockDimY, unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream, void "
    "**kernelParams, "
    "void **extra)",
    since=4000,
)
def launch(
    machine: Machine,
    handle: int,
    gx: int,
    gy: int,
    gz: int,
    bx: int,
    by: int,
    bz: int,
    shared: int,
    stream: int,
    parameters: int,
    extra: int,
) -> None:
    """Launch a kernel."""
    _launch(machine, handle, (gx, gy, gz), (bx, by, bz), shared, stream, parameters, extra)


@entry(
    "cuLaunchCooperativeKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ, "
    "unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream "
    "hStream, "
    "void **kernelParams)",
    since=9000,
)
def launch_cooperative(
    machine: Machine,
    handle: int,
    gx: int,
    gy: int,
    gz: int,
    bx: int,
    by: int,
    bz: int,
    shared: int,
    stream: int,
    parameters: int,
) -> None:
    """Launch a kernel whose blocks may wait for each other."""
    _launch(machine, handle, (gx, gy, gz), (bx, by, bz), shared, stream, parameters, 0, {_COOPERATIVE: _TRUE})


@entry("cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f, void **kernelParams, void **extra)", since=11060)
def launch_ex(machine: Machine, config: int, handle: int, parameters: int, extra: int) -> None:
    """Launch a kernel with attributes."""
    gx, gy, gz, bx, by, bz, shared, stream, address, count = read(LAUNCH_CONFIG, config)
    _launch(
        machine,
        handle,
        (gx, gy, gz),
        (bx, by, bz),
        shared,
        stream,
        parameters,
        extra,
        attributes_at(address, count),
    )


# -- occupancy

_WARP = 32
_BlockToShared = ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_int)


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


@entry(
    "cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *numBlocks, CUfunction func, int blockSize, "
    "size_t dynamicSMemSize, unsigned int flags)",
    since=7000,
)
@entry(
    "cuOccupancyMaxActiveBlocksPerMultiprocessor(int *numBlocks, CUfunction func, int blockSize, size_t "
    "dynamicSMemSize)",
    since=6050,
)
def max_active_blocks(machine: Machine, address: int, handle: int, threads: int, shared: int, flags: int = 0) -> None:
    """Write how many blocks fit on one multiprocessor."""
    out(address)
    function = function_at(machine, handle)
    if threads <= 0 or flags & ~1:
        raise Refused(1)
    put_int(address, blocks_per_multiprocessor(function, threads, shared))


def _shared_of(callback: int, shared: int) -> Callable[[int], int]:
    """Return a function that maps a block size to bytes of shared memory; it calls the caller's function, if any."""
    if not callback:
        return lambda threads: shared
    function = _BlockToShared(callback)
    return lambda threads: int(function(threads))


@entry(
    "cuOccupancyMaxPotentialBlockSizeWithFlags(int *minGridSize, int *blockSize, CUfunction func, "
    "CUoccupancyB2DSize blockSizeToDynamicSMemSize, size_t dynamicSMemSize, int blockSizeLimit, unsigned int flags)",
    since=7000,
)
@entry(
    "cuOccupancyMaxPotentialBlockSize(int *minGridSize, int *blockSize, CUfunction func, "
    "CUoccupancyB2DSize blockSizeToDynamicSMemSize, size_t dynamicSMemSize, int blockSizeLimit)",
    since=6050,
)
def max_potential_block(
    machine: Machine, grid: int, block: int, handle: int, callback: int, shared: int, limit: int, flags: int = 0
) -> None:
    """Write the block size with the highest occupancy, the largest if there are several."""
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
    put_int(grid, best[2] * machine.answers.attributes[16])


@entry(
    "cuOccupancyAvailableDynamicSMemPerBlock(size_t *dynamicSmemSize, CUfunction func, int numBlocks, int blockSize)",
    since=10020,
)
def available_shared(machine: Machine, address: int, handle: int, blocks: int, threads: int) -> None:
    """Write how much dynamic shared memory each block may have if a number of blocks must fit on a multiprocessor."""
    out(address)
    function = function_at(machine, handle)
    if blocks <= 0 or threads <= 0 or blocks > blocks_per_multiprocessor(function, threads, 0):
        raise Refused(1)
    put_word(address, dynamic_shared(function, blocks))


def _config(machine: Machine, handle: int, config: int) -> tuple[Function, int, int, Size]:
    """Read a launch's configuration: (function, threads, shared memory, cluster)."""
    function = function_at(machine, handle)
    _, _, _, bx, by, bz, shared, stream, address, count = read(LAUNCH_CONFIG, config)
    attributes = attributes_at(address, count)
    check_attributes(machine, machine.stream(stream), attributes)
    cluster = function.required_cluster or cluster_of(attributes)
    if not bx * by * bz or 0 in cluster:
        raise Refused(1)
    return function, bx * by * bz, shared, cluster


def _most_clusters(function: Function, threads: int, shared: int, size: int) -> int:
    """Return how many clusters of a number of blocks fit on all multiprocessors, which form one group."""
    blocks = blocks_per_multiprocessor(function, threads, shared)
    return blocks * function.module.machine.answers.attributes[16] // size


@entry(
    "cuOccupancyMaxPotentialClusterSize(int *clusterSize, CUfunction func, const CUlaunchConfig *config)", since=11070
)
def max_cluster(machine: Machine, address: int, handle: int, config: int) -> None:
    """Write the largest cluster size, a power of two."""
    out(address)
    function, threads, shared, _ = _config(machine, handle, config)
    if function.settings.get(14):
        largest = _LARGEST_CLUSTER
    else:
        largest = _PORTABLE_CLUSTER
    while largest and not _most_clusters(function, threads, shared, largest):
        largest //= 2
    put_int(address, largest)


@entry("cuOccupancyMaxActiveClusters(int *numClusters, CUfunction func, const CUlaunchConfig *config)", since=11070)
def max_active_clusters(machine: Machine, address: int, handle: int, config: int) -> None:
    """Write how many clusters fit on the device at the same time; a size that is not permitted is refused."""
    out(address)
    function, threads, shared, (x, y, z) = _config(machine, handle, config)
    if x * y * z > (_LARGEST_CLUSTER if function.settings.get(14) else _PORTABLE_CLUSTER):
        raise Refused(
            912, f"a cluster of {x * y * z} blocks: at most {_PORTABLE_CLUSTER}, or {_LARGEST_CLUSTER} if non-portable"
        )
    put_int(address, _most_clusters(function, threads, shared, x * y * z))
