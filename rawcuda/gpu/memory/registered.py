"""Page-locking of existing host memory.

What it is   `page_lock`, the function behind Memory.register(), and the release of such memory, which keeps the
             exporter.
What not     pinned memory that the driver allocates: memory.py.
Source       CUDA Driver API, "Memory Management": cuMemHostRegister
Read next    memory.py
"""

from __future__ import annotations

import ctypes
from _thread import allocate_lock

from ...arrays import copying
from ...arrays.strided import view
from ...driver import as_argument, current
from ...errors import Closed, ContextLost, CudaError, a_kind, refusal, unsupported
from ...headers.status import HOST_MEMORY_NOT_REGISTERED, SUCCESS
from ...ownership import Owned, drain, dropped
from ...protocols.device_memory import gpu
from ..core.context import PrimaryContext, context_of, held_contexts, primary_of
from ..core.handles import REGISTERED, Lifetime
from ..core.locations import require

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

    from ...arrays.copying import Side
    from ...arrays.strided import StridedView
    from ...gpu.devices.device import Device
    from ...gpu.memory.memory import Memory

    Blank = Callable[..., Memory]

__all__ = ["page_lock"]

_PORTABLE, _MAPPED, _IO, _READ_ONLY = 1, 2, 4, 8  # CU_MEMHOSTREGISTER_...


def page_lock(
    exporter: object, device: Device | None, portable: bool, read_only: bool, io_memory: bool, blank: Blank
) -> Memory:
    """Page-lock an exporter's host memory; see Memory.register.

    blank   makes the Memory: blank(device, context, nbytes, kind, stream)
    calls   cuMemHostRegister_v2
    """
    made = view(exporter)
    side = _check_host(made, read_only)
    primary = _some_context(device)
    memory = blank(gpu.Device(primary.ordinal) if device is None else device, primary, side.form.nbytes, "pinned", None)
    if not memory.nbytes:
        return memory
    require(primary, "HOST_REGISTER_SUPPORTED", "page-locking of existing memory")
    if read_only:
        require(primary, "READ_ONLY_HOST_REGISTER_SUPPORTED", "page-locking of read-only memory")
    flags = _MAPPED
    for wanted, flag in ((portable, _PORTABLE), (read_only, _READ_ONLY), (io_memory, _IO)):
        flags |= flag if wanted else 0
    _register(memory, primary, side.address, memory.nbytes, flags, made)
    _check_same_address(memory)
    return memory


def _check_host(made: StridedView, read_only: bool) -> Side:
    """Check that the memory of a view can be page-locked where it is; return its Side."""
    side = copying.examine(made)
    if side.kind != "host":
        raise ValueError(
            f"an array in {side.kind} memory cannot be page-locked: "
            + ("it is already" if side.kind == "pinned" else "give one in host memory")
        )
    if side.readonly and not read_only and side.form.nbytes:
        raise refusal(
            made._place.protocol,
            "readonly",
            True,
            "devices could write to page-locked memory: give a writable array, or read_only=True",
        )
    if side.run is None and side.form.nbytes:
        raise ValueError(
            f"the elements of shape {made.shape} with strides {made.strides} are not one run of bytes: page-lock the "
            "array that contains them"
        )
    return side


def _some_context(device: object) -> PrimaryContext:
    """Return the context of a device; by default that of the device that is current, or of one that is in use."""
    if device is not None:
        primary = primary_of(device)
        if primary is None:
            raise TypeError(f"device must be a Device, not {a_kind(device)}")
        return primary
    loaded, held = current(), held_contexts()
    if loaded.current_context() is not None:
        ordinal = ctypes.c_int()
        loaded.cuCtxGetDevice(ctypes.byref(ordinal))
        return context_of(ordinal.value)
    if held:
        return held[0]
    return context_of(0)


def _check_same_address(memory: Memory) -> None:
    """Check that page-locked memory has the same address on the device, as unified addressing requires."""
    address, handle = ctypes.c_uint64(), memory.handle
    calls = memory._primary.calls
    try:
        calls.cuMemHostGetDevicePointer_v2(ctypes.byref(address), as_argument(handle), ctypes.c_uint(0))
        if address.value != handle:
            raise unsupported(
                f"device {memory._primary.ordinal} sees the page-locked memory at {address.value:#x} instead of "
                f"{handle:#x}: its attribute CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM is 0; allocate pinned memory",
            )
    except BaseException:
        memory.close()
        raise


class Registration(Lifetime):
    """The release of host memory that was page-locked in place; its exporter is kept until then.

    If the driver does not undo the page-lock, a device may still write to the memory: its exporter is kept forever.
    """

    __slots__ = ("keeps",)

    keeps: object

    def _free(self, late: bool) -> bool:
        """Undo the page-lock after all work of all devices, which may use it; return False if a capture forbids it."""
        for home in held_contexts():
            try:
                if not self._finish(home):
                    return False
            except (Closed, ContextLost):  # its work has ended
                pass
        self._call()
        return True

    def _released(self, code: int) -> None:
        if code not in (SUCCESS, HOST_MEMORY_NOT_REGISTERED):
            still_locked.append(self.keeps)
        self.keeps = None


still_locked: list[object] = []  # the exporters of memory that the driver refused to release


def _register(owner: Owned, primary: PrimaryContext, address: int, nbytes: int, flags: int, keeps: object) -> None:
    """Page-lock host memory in place, and pass it to its owner, which undoes the page-lock.

    keeps   the object that keeps the memory alive
    calls   cuMemHostRegister_v2
    raises  CudaError  from the driver
    """
    if dropped:
        drain()
    lifetime = Registration(address)  # the driver writes no handle: the address serves as one
    lifetime.kind, lifetime.primary, lifetime.stream, lifetime.keeps = REGISTERED, primary, None, keeps
    lifetime.taken, lifetime.recording = allocate_lock(), None
    try:
        owner._own(None, lifetime)
        primary.hold(lifetime)
        primary.calls.cuMemHostRegister_v2(as_argument(address), as_argument(nbytes), ctypes.c_uint(flags))
        owner._handle = address
    except CudaError:
        lifetime.value = lifetime.keeps = None
        lifetime.give_away()
        raise
    except BaseException:  # an interrupt. Later, this release would undo the page-lock of a second attempt
        lifetime.release(True)
        raise
