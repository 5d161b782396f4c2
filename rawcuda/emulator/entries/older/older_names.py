"""Entry points of earlier versions of CUDA that newer entry points replace.

What not     entry points that take addresses of 32 bits, and texture and surface references.
Source       CUDA Driver API, "Device Management [DEPRECATED]", "Context Management [DEPRECATED]"; cuda.h
Read next    launching.py
"""

from __future__ import annotations

import ctypes
import struct

from ...interface.thunks import entry, out, put_bytes, put_int, put_uint, put_word
from ...machine.codes import Refused
from ...machine.machine import Machine
from ...machine.queues import HOST, Conditional
from ..code import linking_entries, modules
from ..graphs import executables
from ..hardware import contexts, device_entries
from ..tasks import stream_entries, value_entries

__all__: list[str] = []

_Callback = ctypes.CFUNCTYPE(None, ctypes.c_size_t, ctypes.c_int, ctypes.c_size_t)

# entry points with the same parameters as their successors, and the same effect
for _line, _since, _function in (
    ("cuCtxDestroy(CUcontext ctx)", 2000, contexts.destroy),
    ("cuDevicePrimaryCtxRelease(CUdevice dev)", 7000, contexts.primary_release),
    ("cuDevicePrimaryCtxReset(CUdevice dev)", 7000, contexts.primary_reset),
    ("cuDevicePrimaryCtxSetFlags(CUdevice dev, unsigned int flags)", 7000, contexts.primary_set_flags),
    ("cuEventDestroy(CUevent hEvent)", 2000, stream_entries.event_destroy),
    ("cuStreamDestroy(CUstream hStream)", 2000, stream_entries.destroy),
    (
        "cuLinkCreate(unsigned int numOptions, CUjit_option *options, void **optionValues, CUlinkState *stateOut)",
        5050,
        linking_entries.create,
    ),
    (
        "cuLinkAddData(CUlinkState state, CUjitInputType type, void *data, size_t size, const char *name, "
        "unsigned int numOptions, CUjit_option *options, void **optionValues)",
        5050,
        linking_entries.add_data,
    ),
    (
        "cuLinkAddFile(CUlinkState state, CUjitInputType type, const char *path, unsigned int numOptions, "
        "CUjit_option *options, void **optionValues)",
        5050,
        linking_entries.add_file,
    ),
    (
        "cuStreamWaitValue32(CUstream stream, CUdeviceptr addr, cuuint32_t value, unsigned int flags)",
        8000,
        value_entries.wait_32,
    ),
    (
        "cuStreamWaitValue64(CUstream stream, CUdeviceptr addr, cuuint64_t value, unsigned int flags)",
        9000,
        value_entries.wait_64,
    ),
    (
        "cuStreamWriteValue32(CUstream stream, CUdeviceptr addr, cuuint32_t value, unsigned int flags)",
        8000,
        value_entries.write_32,
    ),
    (
        "cuStreamWriteValue64(CUstream stream, CUdeviceptr addr, cuuint64_t value, unsigned int flags)",
        9000,
        value_entries.write_64,
    ),
):
    entry(_line, since=_since)(_function)
_push = entry("cuCtxPushCurrent(CUcontext ctx)", since=2000, save=contexts.save_stack)(contexts.push)
_pop = entry("cuCtxPopCurrent(CUcontext *pctx)", since=2000, save=contexts.save_stack)(contexts.pop)


@entry("cuDeviceComputeCapability(int *major, int *minor, CUdevice dev)", since=2000)
def compute_capability(machine: Machine, major: int, minor: int, device: int) -> None:
    """Write the compute capability of a device."""
    out(major, minor)
    device_entries.attribute(machine, major, 75, device)
    device_entries.attribute(machine, minor, 76, device)


@entry("cuDeviceGetProperties(CUdevprop *prop, CUdevice dev)", since=2000)
def properties(machine: Machine, address: int, device: int) -> None:
    """Write a CUdevprop, the properties of a device in CUDA 1."""
    out(address)
    machine.device(device)
    numbers = [machine.answers.attributes[number] for number in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14)]
    put_bytes(address, struct.pack("<14i", *numbers))


@entry("cuCtxAttach(CUcontext *pctx, unsigned int flags)", since=2000)
def attach(machine: Machine, address: int, flags: int) -> None:
    """Add a user of the current context, and write the handle of the context."""
    out(address)
    if flags:
        raise Refused(1)
    context = machine.context()
    context.users += 1
    put_word(address, context.handle)


@entry("cuCtxDetach(CUcontext ctx)", since=2000)
def detach(machine: Machine, handle: int) -> None:
    """Remove one user of the current context; the last one destroys the context."""
    context = machine.context()
    if context.handle != handle:
        raise Refused(201, f"context {handle:#x} is not current: only the current context can be detached")
    if context.users == 1:
        contexts.destroy(machine, handle)
    else:
        context.users -= 1


@entry("cuCtxGetApiVersion(CUcontext ctx, unsigned int *version)", since=3020)
def api_version(machine: Machine, handle: int, address: int) -> None:
    """Write the version of the interface that a context was made for."""
    out(address)
    contexts.given(machine, handle)
    put_uint(address, 3020)


@entry(
    "cuCtxCreate_v3(CUcontext *pctx, CUexecAffinityParam *paramsArray, int numParams, unsigned int flags, "
    "CUdevice dev)",
    since=11040,
)
def create_v3(machine: Machine, address: int, parameters: int, count: int, flags: int, device: int) -> None:
    """Create a context and push it; a limit of multiprocessors is not supported."""
    if parameters or count:
        raise Refused(801, "CUexecAffinityParam is not emulated: pass NULL and 0")
    contexts.create_v2(machine, address, flags, device)


@entry("cuDeviceGetExecAffinitySupport(int *pi, CUexecAffinityType type, CUdevice dev)", since=11040)
def affinity_support(machine: Machine, address: int, kind: int, device: int) -> None:
    """Write 0: the number of multiprocessors cannot be limited."""
    out(address)
    machine.device(device)
    if kind:
        raise Refused(1)
    put_int(address, 0)


@entry("cuFuncSetSharedMemConfig(CUfunction hfunc, CUsharedconfig config)", since=4020)
def set_bank_size(machine: Machine, handle: int, config: int) -> None:
    """Do nothing, like every device since Maxwell: the width of a bank is fixed."""
    modules.function_at(machine, handle)
    if not 0 <= config <= 2:
        raise Refused(1)


@entry("cuProfilerInitialize(const char *configFile, const char *outputFile, CUoutput_mode outputMode)", since=4000)
def initialize_profiler(machine: Machine, config: int, output: int, mode: int) -> None:
    """Refuse the call, as drivers have done since CUDA 11."""
    raise Refused(801)


@entry(
    "cuGraphInstantiate_v2(CUgraphExec *phGraphExec, CUgraph hGraph, CUgraphNode *phErrorNode, char *logBuffer, "
    "size_t bufferSize)",
    since=11000,
)
@entry(
    "cuGraphInstantiate(CUgraphExec *phGraphExec, CUgraph hGraph, CUgraphNode *phErrorNode, char *logBuffer, "
    "size_t bufferSize)",
    since=10000,
)
def instantiate(machine: Machine, address: int, graph: int, node: int, log: int, size: int) -> None:
    """Create an executable graph; the log stays empty, and the node at fault is NULL, also if the call is refused."""
    out(address)
    if log and size:
        put_bytes(log, b"\0")
    if node:
        put_word(node, 0)
    executables.instantiate(machine, address, graph, 0)


@entry("cuStreamBeginCapture(CUstream hStream)", since=10000)
def begin_capture(machine: Machine, handle: int) -> None:
    """Begin a capture, in the global mode."""
    from ..graphs import capture

    capture.begin(machine, handle, 0)


@entry(
    "cuStreamAddCallback(CUstream hStream, CUstreamCallback callback, void *userData, unsigned int flags)", since=5000
)
def add_callback(machine: Machine, handle: int, callback: int, data: int, flags: int) -> None:
    """Queue a call of a host function that gets the stream and a status, also after an error; it cannot be captured."""
    stream = machine.stream(handle)
    if not callback or flags:
        raise Refused(1)
    if stream.capture is not None:
        stream.capture.invalidate()
        raise Refused(900, "cuStreamAddCallback cannot be captured: cuLaunchHostFunc can")
    function = _Callback(callback)
    call = Conditional(lambda: function(handle, stream.context.state, data), always=True)
    machine.queues.submit(stream, call, "a callback of a stream", HOST)
