"""Entry points: primary contexts, contexts, the stack of current contexts, limits, the profiler, peers.

Source       CUDA Driver API, "Primary Context Management", "Context Management", "Peer Context Memory Access",
             "Profiler Control"
Read next    entries/tasks/stream_entries.py
"""

from __future__ import annotations

import ctypes
from functools import partial

from ...interface.thunks import entry, out, put_int, put_u64, put_uint, put_word
from ...machine.codes import Refused
from ...machine.machine import Context, Machine

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

__all__: list[str] = []

_FLAGS = 0xFF
_SCHEDULING = 7  # CU_CTX_SCHED_MASK
_PARAMETERS = 24  # the size of CUctxCreateParams


def given(machine: Machine, handle: int) -> Context:
    """Return the context of a handle, or the current one for NULL."""
    if not handle:
        return machine.context()
    context = machine.context_of(handle)
    context.check()
    return context


def _check_flags(flags: int) -> None:
    if flags & ~_FLAGS:
        raise Refused(1, f"flags {flags:#x} of a context are unknown")
    if flags & _SCHEDULING not in (0, 1, 2, 4):
        raise Refused(1, f"flags {flags:#x}: a context has only one of CU_CTX_SCHED_SPIN, _YIELD and _BLOCKING_SYNC")


# -- primary contexts


@entry("cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice dev)", since=7000)
def primary_retain(machine: Machine, address: int, device: int) -> None:
    """Retain a device's primary context, and initialize it if it is not active."""
    out(address)
    held = machine.device(device)
    primary = held.primary
    if primary.state == 709:
        primary.open()
    primary.check()
    held.retained += 1
    put_word(address, primary.handle)


@entry("cuDevicePrimaryCtxRelease_v2(CUdevice dev)", since=11000)
def primary_release(machine: Machine, device: int) -> None:
    """Release a primary context; the last release destroys everything in it."""
    machine.device(device).release()


@entry("cuDevicePrimaryCtxReset_v2(CUdevice dev)", since=11000)
def primary_reset(machine: Machine, device: int) -> None:
    """Destroy everything in a primary context; the number of its retains does not change."""
    held = machine.device(device)
    if held.primary.state != 709:
        held.primary.close()


@entry("cuDevicePrimaryCtxSetFlags_v2(CUdevice dev, unsigned int flags)", since=11000)
def primary_set_flags(machine: Machine, device: int, flags: int) -> None:
    """Set the flags of a primary context."""
    _check_flags(flags)
    machine.device(device).primary.flags = flags


@entry("cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int *flags, int *active)", since=7000)
def primary_state(machine: Machine, device: int, flags: int, active: int) -> None:
    """Write whether a primary context is active, and its flags."""
    out(flags, active)
    primary = machine.device(device).primary
    put_uint(flags, primary.flags)
    put_int(active, int(primary.state != 709))


# -- contexts that a program creates


@entry("cuCtxCreate_v2(CUcontext *pctx, unsigned int flags, CUdevice dev)", since=3020)
def create_v2(machine: Machine, address: int, flags: int, device: int) -> None:
    """Create a context and push it."""
    out(address)
    _check_flags(flags)
    context = Context(machine, machine.device(device), flags)
    machine.restricted = True
    machine.thread().stack.append(context)
    put_word(address, context.handle)


@entry(
    "cuCtxCreate_v4(CUcontext *pctx, CUctxCreateParams *ctxCreateParams, unsigned int flags, CUdevice dev)", since=12050
)
def create_v4(machine: Machine, address: int, parameters: int, flags: int, device: int) -> None:
    """Create a context and push it; affinity and graphics parameters are not supported."""
    if parameters and any(ctypes.string_at(parameters, _PARAMETERS)):
        raise Refused(
            801,
            "affinity and graphics parameters (CUctxCreateParams) are not emulated: pass NULL, or members that are 0",
        )
    create_v2(machine, address, flags, device)


@entry("cuCtxDestroy_v2(CUcontext ctx)", since=4000)
def destroy(machine: Machine, handle: int) -> None:
    """Destroy a context and everything in it, and pop it if it is current."""
    context = machine.context_of(handle)
    if context.primary:
        raise Refused(201)
    context.close()
    machine.destroyed.add(handle)
    machine.handles.pop(handle, None)
    stack = machine.thread().stack
    if stack and stack[-1] is context:
        stack.pop()


# -- the current context


def save_stack(machine: Machine, argument: int) -> Callable[[], object]:
    """Return a function that restores the calling thread's stack of contexts."""
    stack = machine.thread().stack
    return partial(stack.__setitem__, slice(None), stack[:])


@entry("cuCtxPushCurrent_v2(CUcontext ctx)", since=4000, save=save_stack)
def push(machine: Machine, handle: int) -> None:
    """Push a context, which becomes the current one."""
    machine.thread().stack.append(machine.context_of(handle))


@entry("cuCtxPopCurrent_v2(CUcontext *pctx)", since=4000, save=save_stack)
def pop(machine: Machine, address: int) -> None:
    """Pop the current context; the one below becomes current."""
    stack = machine.thread().stack
    if not stack:
        raise Refused(201)
    context = stack.pop()
    if address:
        put_word(address, context.handle)


@entry("cuCtxSetCurrent(CUcontext ctx)", since=4000, save=save_stack)
def set_current(machine: Machine, handle: int) -> None:
    """Replace the current context; NULL pops it."""
    stack = machine.thread().stack
    if handle:
        context = machine.context_of(handle)
    else:
        context = None
    if stack:
        stack.pop()
    if context is not None:
        stack.append(context)


@entry("cuCtxGetCurrent(CUcontext *pctx)", since=4000)
def get_current(machine: Machine, address: int) -> None:
    """Write the current context, or NULL."""
    stack = machine.thread().stack
    put_word(address, stack[-1].handle if stack else 0)


# -- properties of a context


@entry("cuCtxGetDevice(CUdevice *device)", since=2000)
@entry("cuCtxGetDevice_v2(CUdevice *device, CUcontext ctx)", since=13000)
def get_device(machine: Machine, address: int, handle: int = 0) -> None:
    """Write a context's device."""
    out(address)
    put_int(address, given(machine, handle).device.ordinal)


@entry("cuCtxGetFlags(unsigned int *flags)", since=7000)
def get_flags(machine: Machine, address: int) -> None:
    """Write the current context's flags."""
    out(address)
    put_uint(address, machine.context().flags)


@entry("cuCtxSetFlags(unsigned int flags)", since=12010)
def set_flags(machine: Machine, flags: int) -> None:
    """Set the current context's flags."""
    _check_flags(flags)
    machine.context().flags = flags


@entry("cuCtxGetId(CUcontext ctx, unsigned long long *ctxId)", since=12000)
def get_id(machine: Machine, handle: int, address: int) -> None:
    """Write a number that is unique among all contexts."""
    out(address)
    put_u64(address, given(machine, handle).ident)


@entry("cuCtxSynchronize(void)", since=2000)
@entry("cuCtxSynchronize_v2(CUcontext ctx)", since=13000)
def synchronize(machine: Machine, handle: int = 0) -> None:
    """Finish all work of a context."""
    context = given(machine, handle)
    if any(stream.capture is not None for stream in context.streams.values()):
        for stream in context.streams.values():
            if stream.capture is not None:
                stream.capture.invalidate()
        raise Refused(900, "a context cannot be synchronized while one of its streams is capturing: end it first")
    machine.queues.complete_context(context)
    context.check()
    machine.settle_pools()


# CUlimit -> the functions whose first use fixes it: PRINTF_FIFO_SIZE, MALLOC_HEAP_SIZE
_LIMITED = {1: frozenset(("vprintf",)), 2: frozenset(("malloc", "free"))}


def _limit(machine: Machine, number: int) -> tuple[int, int]:
    if number == 3 and machine.architecture >= 90:
        raise Refused(215, "CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH exists only below compute capability 9.0")
    if number not in machine.answers.limits:
        raise Refused(215)
    return machine.answers.limits[number]


@entry("cuCtxSetLimit(CUlimit limit, size_t value)", since=3010)
def set_limit(machine: Machine, limit: int, value: int) -> None:
    """Set a limit: those of printf and malloc have an effect, and must be set before a kernel uses these functions.

    A value that is too large is clamped if the limit is a hint, else refused.
    """
    context = machine.context()
    _, largest = _limit(machine, limit)
    for name in sorted(_LIMITED.get(limit, frozenset()) & context.system_calls):
        raise Refused(1, f"limit {limit} must be set before the first launch of a kernel that calls {name}")
    if value > largest and limit < 5:
        raise Refused(1 if limit == 0 else 2, f"limit {limit} is {value}: must be at most {largest}")
    context.limits[limit] = min(value, largest)


@entry("cuCtxGetLimit(size_t *pvalue, CUlimit limit)", since=3010)
def get_limit(machine: Machine, address: int, limit: int) -> None:
    """Write a limit."""
    out(address)
    context = machine.context()
    _limit(machine, limit)
    put_word(address, context.limit(limit))


@entry("cuCtxGetCacheConfig(CUfunc_cache *pconfig)", since=3020)
def get_cache_config(machine: Machine, address: int) -> None:
    """Write the preferred division between L1 cache and shared memory."""
    put_int(address, machine.context().cache_config)


@entry("cuCtxSetCacheConfig(CUfunc_cache config)", since=3020)
def set_cache_config(machine: Machine, config: int) -> None:
    """Set the preferred division between L1 cache and shared memory, which has no effect."""
    context = machine.context()
    if not 0 <= config <= 3:
        raise Refused(1)
    context.cache_config = config


@entry("cuCtxGetSharedMemConfig(CUsharedconfig *pConfig)", since=4020)
def get_bank_size(machine: Machine, address: int) -> None:
    """Write the width of shared memory banks, which is always 4 bytes."""
    machine.context()
    put_int(address, 1)


@entry("cuCtxSetSharedMemConfig(CUsharedconfig config)", since=4020)
def set_bank_size(machine: Machine, config: int) -> None:
    """Do nothing, like every device since Maxwell: the width of a bank is fixed."""
    machine.context()
    if not 0 <= config <= 2:
        raise Refused(1)


@entry("cuCtxResetPersistingL2Cache(void)", since=11000)
def reset_persisting(machine: Machine) -> None:
    """Reset the lines of the L2 cache that persist: there are none."""
    machine.context()


# -- the profiler


@entry("cuProfilerStart(void)", since=4000)
def profiler_start(machine: Machine) -> None:
    """Begin profiling: only this state is kept."""
    machine.context()
    machine.profiling = True


@entry("cuProfilerStop(void)", since=4000)
def profiler_stop(machine: Machine) -> None:
    """End profiling."""
    machine.context()
    machine.profiling = False


@entry("cuCtxGetStreamPriorityRange(int *leastPriority, int *greatestPriority)", since=5050)
def priority_range(machine: Machine, least: int, greatest: int) -> None:
    """Write the range of stream priorities; either pointer may be NULL."""
    machine.context()
    if least:
        put_int(least, machine.answers.priorities[0])
    if greatest:
        put_int(greatest, machine.answers.priorities[1])


# -- peers


@entry("cuCtxEnablePeerAccess(CUcontext peerContext, unsigned int Flags)", since=4000)
def enable_peer(machine: Machine, handle: int, flags: int) -> None:
    """Enable access of the current context to another device's memory."""
    context, peer = machine.context(), machine.context_of(handle)
    if flags:
        raise Refused(1)
    if peer.device is context.device:
        raise Refused(101)
    if not machine.reaches(context.device, peer.device):
        raise Refused(217)
    if peer in context.peers:
        raise Refused(704)
    peer.reached_from.add(context)
    context.peers.add(peer)


@entry("cuCtxDisablePeerAccess(CUcontext peerContext)", since=4000)
def disable_peer(machine: Machine, handle: int) -> None:
    """Disable access to another device's memory."""
    context, peer = machine.context(), machine.context_of(handle)
    if peer not in context.peers:
        raise Refused(705)
    context.peers.remove(peer)
    peer.reached_from.discard(context)
