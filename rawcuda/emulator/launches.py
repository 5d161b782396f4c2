"""Entry points: launching kernels.

How          everything is checked, and the arguments are copied, at the call; the kernel runs when its stream gets there. What goes
             wrong inside it loses the context, and is told by the next call that waits, as on a GPU.
Source       CUDA Driver API, "Execution Control"
Read next    occupancy.py, graphs.py
"""
from __future__ import annotations

import ctypes

from .attributes import ATTRIBUTES
from .codes import Refused
from .machine import Machine
from .modules import Function
from .occupancy import blocks_per_multiprocessor
from .queues import KERNEL
from .thunks import entry
from .words import LAUNCH_ATTRIBUTE, LAUNCH_CONFIG, out, read

TYPE_CHECKING = False
if TYPE_CHECKING:
    Size = tuple[int, int, int]

__all__ = ["cluster_of", "attributes_at"]

_BUFFER, _BUFFER_SIZE = 1, 2                     # CU_LAUNCH_PARAM_BUFFER_POINTER, ..._SIZE; 0 ends the list
_COOPERATIVE, _CLUSTER = 2, 4
_KNOWN = frozenset((0, 1, 2, 3, 4, 5, 6, 8, 9, 10, 11, 14, 16))
_PORTABLE_CLUSTER, _LARGEST_CLUSTER = 8, 16


def _from_buffer(extra: int, need: int) -> bytes:
    """Read the arguments from the buffer that an `extra` list names."""
    buffer, size = 0, 0
    words = (ctypes.c_uint64 * 5).from_address(extra)
    index = 0
    while index < 4 and words[index]:
        if words[index] == _BUFFER:
            buffer = words[index + 1]
        elif words[index] == _BUFFER_SIZE:
            size = ctypes.c_size_t.from_address(words[index + 1]).value if words[index + 1] else 0
        else:
            raise Refused(1)
        index += 2
    if need and not buffer:
        raise Refused(1)
    if size < need:
        raise Refused(1, f"the argument buffer has {size} bytes, and this kernel's parameters take {need}")
    return ctypes.string_at(buffer, need)


def _arguments(function: Function, parameters: int, extra: int) -> bytes:
    """Copy a launch's arguments into one block, laid out as the kernel's parameters."""
    code = function.entry
    need = code.parameter_bytes
    if parameters and extra:
        raise Refused(1, "arguments are given twice, by kernelParams and by extra")
    if not need:
        return b""
    if extra:
        return _from_buffer(extra, need)
    if not parameters:
        raise Refused(1, f"kernel {code.name!r} takes {len(code.parameters)} arguments, and none were given")
    block = bytearray(need)
    pointers = (ctypes.c_uint64 * len(code.parameters)).from_address(parameters)
    for (offset, size), pointer in zip(code.parameters, pointers):
        if not pointer:
            raise Refused(1)
        block[offset:offset + size] = ctypes.string_at(pointer, size)
    return bytes(block)


def _check(function: Function, grid: Size, block: Size, shared: int) -> None:
    """Refuse a launch that no device of this kind could start."""
    if 0 in grid or 0 in block:
        raise Refused(1, f"a grid {grid} of blocks {block} has a zero in it")
    for what, sizes, first in (("grid", grid, 5), ("block", block, 2)):
        for axis, size in enumerate(sizes):
            if size > ATTRIBUTES[first + axis]:
                raise Refused(1, f"{what} {sizes}: its {'xyz'[axis]} is at most {ATTRIBUTES[first + axis]}")
    threads = block[0] * block[1] * block[2]
    if threads > ATTRIBUTES[1]:
        raise Refused(1, f"a block of {block} has {threads} threads: at most {ATTRIBUTES[1]} are allowed")
    code = function.entry
    if code.required_block is not None and tuple(code.required_block) != block:
        raise Refused(1, f"kernel {code.name!r} requires blocks of {tuple(code.required_block)}, not {block}")
    if threads > function.max_threads:
        raise Refused(701, f"kernel {code.name!r} was compiled for at most {function.max_threads} threads a block, not {threads}")
    if shared > function.settings[8]:
        raise Refused(1, f"{shared} bytes of dynamic shared memory: this kernel may have {function.settings[8]} "
                         f"(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES raises it to {ATTRIBUTES[97] - code.static_shared})")


def _check_cluster(function: Function, grid: Size, cluster: Size) -> None:
    if 0 in cluster:
        raise Refused(1, f"a cluster {cluster} has a zero in it")
    size = cluster[0] * cluster[1] * cluster[2]
    if size > (_LARGEST_CLUSTER if function.settings.get(14) else _PORTABLE_CLUSTER):
        raise Refused(912, f"a cluster of {size} blocks: at most {_PORTABLE_CLUSTER}, or {_LARGEST_CLUSTER} for a kernel that allows "
                           "clusters that are not portable")
    if any(blocks % side for blocks, side in zip(grid, cluster)):
        raise Refused(1, f"a grid {grid} cannot be divided into clusters of {cluster}")


def _launch(machine: Machine, handle: int, grid: Size, block: Size, shared: int, stream_handle: int, parameters: int,
            extra: int, *, cooperative: bool = False, cluster: Size = (1, 1, 1)) -> None:
    stream = machine.stream(stream_handle)
    function = machine.get(Function, handle)
    context = function.module.context
    if context is not stream.context:
        raise Refused(400, f"the kernel was loaded in {context!r}, and the stream is of {stream.context!r}")
    _check(function, grid, block, shared)
    if cluster != (1, 1, 1):
        _check_cluster(function, grid, cluster)
    if cooperative:
        most = blocks_per_multiprocessor(function, block[0] * block[1] * block[2], shared) * ATTRIBUTES[16]
        if grid[0] * grid[1] * grid[2] > most:
            raise Refused(720, f"a cooperative grid of {grid}: all blocks must be resident at once, and {most} can be")
    arguments = _arguments(function, parameters, extra)
    run = function.entry.run
    progress = machine.progress

    def work() -> None:
        run(grid, block, shared, arguments, progress=progress, cooperative=cooperative)

    machine.queues.submit(stream, work, function.entry.name, KERNEL)


@entry("cuLaunchKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ, unsigned int blockDimX, "
       "unsigned int blockDimY, unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream, void **kernelParams, "
       "void **extra)", since=4000)
def launch(machine: Machine, handle: int, gx: int, gy: int, gz: int, bx: int, by: int, bz: int, shared: int, stream: int,
           parameters: int, extra: int) -> None:
    """Launch a kernel."""
    _launch(machine, handle, (gx, gy, gz), (bx, by, bz), shared, stream, parameters, extra)


@entry("cuLaunchCooperativeKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ, "
       "unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream, "
       "void **kernelParams)", since=9000)
def launch_cooperative(machine: Machine, handle: int, gx: int, gy: int, gz: int, bx: int, by: int, bz: int, shared: int,
                       stream: int, parameters: int) -> None:
    """Launch a kernel whose blocks may wait for each other."""
    _launch(machine, handle, (gx, gy, gz), (bx, by, bz), shared, stream, parameters, 0, cooperative=True)


def attributes_at(address: int, count: int) -> dict[int, bytes]:
    """Read the attributes of a launch: number -> the 64 bytes of its value."""
    if count:
        out(address)
    found = {}
    for index in range(count):
        number, value = LAUNCH_ATTRIBUTE.unpack(ctypes.string_at(address + index * LAUNCH_ATTRIBUTE.size, LAUNCH_ATTRIBUTE.size))
        if number not in _KNOWN:
            raise Refused(801, f"launch attribute {number} is not emulated")
        found[number] = value
    return found


def cluster_of(attributes: dict[int, bytes]) -> Size:
    """Return the cluster that attributes ask for."""
    value = attributes.get(_CLUSTER)
    if value is None:
        return 1, 1, 1
    x, y, z = (int.from_bytes(value[at:at + 4], "little") for at in (0, 4, 8))
    return x, y, z


@entry("cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f, void **kernelParams, void **extra)", since=11060)
def launch_ex(machine: Machine, config: int, handle: int, parameters: int, extra: int) -> None:
    """Launch a kernel with attributes: a cluster and cooperation are heeded, a priority and hints are taken."""
    gx, gy, gz, bx, by, bz, shared, stream, address, count = read(LAUNCH_CONFIG, config)
    attributes = attributes_at(address, count)
    cooperative = any(attributes.get(_COOPERATIVE, b"")[:4])
    _launch(machine, handle, (gx, gy, gz), (bx, by, bz), shared, stream, parameters, extra, cooperative=cooperative,
            cluster=cluster_of(attributes))
