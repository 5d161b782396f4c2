"""What the functions of cuda.h do beside what they are called for, as data: in captures, and while work is pending.

What it is   `of(symbol)`, the Behaviour of a function, and `answers(symbol)`, the codes by which a function answers a
             question. A row of the tables holds for all functions that it lists. Their names have no version: what
             holds for cuMemAlloc holds for cuMemAlloc_v2. `ANYWHERE` are the functions that a host function may call.
What not     what a function returns. What no source tells is not in the tables: the emulator then permits the call, and
             `check` may ask a GPU.
Source       the numbers in the tables:
             1  CUDA Driver API, cuThreadExchangeStreamCaptureMode: calls that are potentially unsafe
             2  CUDA Programming Guide, "CUDA Graphs", prohibited and unhandled operations
             3  pytorch/pytorch#105182 and #148594: cuEventQuery breaks a capture of another thread;
                ROCm/rocm-systems#3169: cuEventSynchronize does, too
             4  vllm-project/vllm#36587, NVIDIA/Fuser#635: loading a module breaks a capture
             5  CUDA Driver API, cuMemFree: it may wait for work, but does not for memory of a pool
             6  CUDA Driver API, "API synchronization behavior"
             7  CUDA Programming Guide, "Lazy Loading": a library may be compiled when it is first used
             8  CUDA Driver API, the description of the function: how long its arguments must stay valid
             9  CUDA Driver API, cuLaunchHostFunc: the function must not make CUDA calls
             10 pytorch/pytorch, c10/cuda/CUDACachingAllocator.cpp: cuMemUnmap does not wait for work in all cases
             11 NVIDIA/cuopt#1753 and rapidsai/rmm#2518: cudaMemcpyBatchAsync is refused in a capture, and does not
                break it; batches of boxes are taken to be the same
             12 CUDA Driver API, cuStreamAddCallback, cuCtxRecordEvent, cuCtxWaitEvent and the same of green contexts:
                what they say about captures
Read next    functions.py
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["ANYWHERE", "Behaviour", "answers", "functions", "of"]


class Behaviour(NamedTuple):
    """What a function does beside what it is called for.

    capture  "unsafe": while a stream is captured, the call is refused with 900 and breaks the capture, unless the
             capture modes permit it; "captured": it is refused for a captured stream, or for a context that has one;
             "free": it disturbs no capture
    waits    what it waits for: "context", "stream", "event", "memory" (work that may use the memory), or ""
    keeps    what of the caller's memory the driver uses after the call, or ""
    sources  the numbers of the sources
    """

    capture: str
    waits: str
    keeps: str
    sources: tuple[int, ...]


_FREE = Behaviour("free", "", "", ())

# capture | waits for | keeps | sources | functions
_TABLE = """
unsafe   | -       | -     | 1   | cuMemAlloc cuMemAllocPitch cuMemAllocManaged cuMemAllocHost cuMemHostAlloc
unsafe   | -       | the memory, until it is unregistered | 1 8 | cuMemHostRegister
unsafe   | -       | -     | 1 10 | cuMemUnmap
unsafe   | -       | -     | 1   | cuArrayCreate cuArray3DCreate cuMipmappedArrayCreate
unsafe   | memory  | -     | 1 5 | cuMemFree
unsafe   | context | -     | 1   | cuMemFreeHost cuMemHostUnregister cuArrayDestroy cuMipmappedArrayDestroy
unsafe   | context | -     | 1   | cuIpcCloseMemHandle
unsafe   | -       | -     | 4   | cuModuleLoad cuModuleLoadData cuModuleLoadDataEx cuModuleLoadFatBinary
unsafe   | context | -     | 4   | cuModuleUnload cuLibraryUnload
unsafe   | -       | -     | 3   | cuEventQuery
unsafe   | event   | -     | 3   | cuEventSynchronize
unsafe   | stream  | -     | 2 6 | cuMemcpy cuMemcpyHtoD cuMemcpyDtoH cuMemcpyDtoD cuMemcpyHtoA cuMemcpyAtoH
unsafe   | stream  | -     | 2 6 | cuMemcpyDtoA cuMemcpyAtoD cuMemcpyAtoA cuMemcpy2D cuMemcpy2DUnaligned cuMemcpy3D
unsafe   | stream  | -     | 2 6 | cuMemcpyPeer cuMemcpy3DPeer
captured | context | -     | 2   | cuCtxSynchronize
captured | stream  | -     | 2   | cuStreamSynchronize
captured | -       | -     | 2   | cuStreamQuery cuStreamAttachMemAsync
captured | -       | -     | 12  | cuCtxRecordEvent cuCtxWaitEvent cuGreenCtxRecordEvent cuGreenCtxWaitEvent
captured | -       | page-locked memory, until it is copied | 6 11 | cuMemcpyBatchAsync cuMemcpy3DBatchAsync
captured | -       | the function and its argument, until it was called | 8 9 12 | cuStreamAddCallback
free     | -       | page-locked memory, until it is copied | 6 | cuMemcpyAsync cuMemcpyHtoDAsync cuMemcpyDtoHAsync
free     | -       | page-locked memory, until it is copied | 6 | cuMemcpyHtoAAsync cuMemcpyAtoHAsync
free     | -       | page-locked memory, until it is copied | 6 | cuMemcpy2DAsync cuMemcpy3DAsync
free     | -       | the code and the buffers of logs, until it is unloaded | 7 | cuLibraryLoadData
free     | -       | the buffers of logs, until the link is destroyed | 8 | cuLinkCreate
free     | -       | the function and its argument, until it was called | 8 9 | cuLaunchHostFunc
free     | -       | the function and its argument, as long as the graph | 8 9 | cuGraphAddHostNode
free     | -       | the function and its argument, as long as the graph | 8 9 | cuGraphHostNodeSetParams
free     | -       | the function and its argument, as long as the graph | 8 9 | cuGraphExecHostNodeSetParams
"""

# What a host function may call: functions that read constants. Any other call may wait for ever, or be refused.
ANYWHERE = frozenset(
    "cuInit cuDriverGetVersion cuGetErrorName cuGetErrorString cuGetProcAddress cuGetExportTable".split()
)

# Codes that are answers to a question, and codes that differ between drivers: function | codes | what they tell
_ANSWERS = """
cuCtxGetLimit          | 215 801 201 1 | the device does not have the limit, or the driver does not know it
cuCtxEnablePeerAccess  | 704           | the access was enabled already, perhaps by other software
cuCtxDisablePeerAccess | 705           | the access was disabled already, perhaps by other software
cuDeviceGetAttribute   | 1             | the driver does not know the attribute
cuDeviceGetByPCIBusId  | 101 1         | no device that CUDA can use has this address
cuFuncGetParamInfo     | 1             | there is no further parameter: before CUDA 13.2, nothing tells their number
cuGraphNodeFindInClone | 1             | the graph is not a clone, or has no such node
cuEventQuery           | 600           | the work before the event is not done
cuStreamQuery          | 600           | the work of the stream is not done
"""
_DIFFERENT = """
cuLaunchKernel      | 201 400 1 | no context is current
cuLaunchKernelEx    | 201 400 1 | no context is current
cuMemHostUnregister | 0 713     | another context is current than that in which the memory was registered
cuLibraryLoadData   | 0 218     | the code is wrong: a driver that compiles later says so when a module is asked for
cuMemFree           | 0 700     | work that failed: a driver that does not wait for it says so later
"""

_known: dict[str, Behaviour] = {}


def functions() -> dict[str, Behaviour]:
    """Return the behaviour of each function in the table, by its name without a version."""
    if not _known:
        found: dict[str, Behaviour] = {}
        for line in _TABLE.strip().splitlines():
            capture, waits, keeps, sources, names = (piece.strip() for piece in line.split("|"))
            row = Behaviour(capture, waits.strip("-"), keeps.strip("-"), tuple(map(int, sources.split())))
            found.update((name, row) for name in names.split())
        _known.update(found)
    return _known


def of(symbol: str) -> Behaviour:
    """Return the behaviour of a function, which may have any of its exported names."""
    return functions().get(_plain(symbol), _FREE)


def answers(symbol: str) -> tuple[int, ...]:
    """Return the codes by which a function answers a question; every other code but 0 is an error."""
    return codes(_ANSWERS).get(_plain(symbol), ((), ""))[0]


def codes(table: str) -> dict[str, tuple[tuple[int, ...], str]]:
    """Return the codes in a table, and what they tell, by the name of the function without a version."""
    rows = ([piece.strip() for piece in line.split("|")] for line in table.strip().splitlines())
    return {name: (tuple(map(int, numbers.split())), told) for name, numbers, told in rows}


def _plain(symbol: str) -> str:
    if symbol.endswith(("_ptsz", "_ptds")):
        name = symbol[:-5]
    else:
        name = symbol
    plain, _, version = name.rpartition("_v")
    if version.isdecimal():
        return plain
    return name
