"""Entry points: memory and events shared with other processes, which the emulator refuses.

How          emulated memory is objects of this process. The calls are there so that a program gets the driver's answer for "not
             here", CUDA_ERROR_NOT_SUPPORTED, with a reason, and not a missing symbol.
Source       CUDA Driver API, "Memory Management" (cuIpc*), "Stream Ordered Memory Allocator" (export and import of pools)
Read next    gaps.py
"""
from __future__ import annotations

from .codes import Refused
from .machine import Machine
from .memory import holding_at
from .thunks import IpcHandle, entry
from .words import out

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

__all__: list[str] = []


def _refuse(what: str) -> NoReturn:
    raise Refused(801, f"{what} cannot be shared with other processes: the emulator's memory is objects of this one")


@entry("cuIpcGetMemHandle(CUipcMemHandle *pHandle, CUdeviceptr dptr)", since=4010)
def get_memory_handle(machine: Machine, handle: int, address: int) -> None:
    """Refuse to share memory."""
    out(handle)
    machine.context()
    _refuse(f"the {holding_at(machine, address).allocation.describe()}")


@entry("cuIpcOpenMemHandle_v2(CUdeviceptr *pdptr, CUipcMemHandle handle, unsigned int Flags)", since=11000)
def open_memory_handle(machine: Machine, address: int, handle: IpcHandle, flags: int) -> None:
    """Refuse to open shared memory."""
    out(address)
    machine.context()
    _refuse(f"the memory behind handle {bytes(handle.reserved).hex()}")


@entry("cuIpcCloseMemHandle(CUdeviceptr dptr)", since=4010)
def close_memory_handle(machine: Machine, address: int) -> None:
    """Refuse memory that was not opened by a handle: none is."""
    machine.context()
    raise Refused(1)


@entry("cuIpcGetEventHandle(CUipcEventHandle *pHandle, CUevent event)", since=4010)
def get_event_handle(machine: Machine, handle: int, event: int) -> None:
    """Refuse to share an event."""
    out(handle)
    machine.event(event)
    _refuse("an event")


@entry("cuIpcOpenEventHandle(CUevent *phEvent, CUipcEventHandle handle)", since=4010)
def open_event_handle(machine: Machine, address: int, handle: IpcHandle) -> None:
    """Refuse to open a shared event."""
    out(address)
    machine.context()
    _refuse(f"the event behind handle {bytes(handle.reserved).hex()}")


@entry("cuMemPoolExportToShareableHandle(void *handle_out, CUmemoryPool pool, CUmemAllocationHandleType handleType, "
       "unsigned long long flags)", since=11020)
def export_pool(machine: Machine, address: int, pool: int, kind: int, flags: int) -> None:
    """Refuse to share a pool."""
    out(address)
    _refuse("a memory pool")


@entry("cuMemPoolImportFromShareableHandle(CUmemoryPool *pool_out, void *handle, CUmemAllocationHandleType handleType, "
       "unsigned long long flags)", since=11020)
def import_pool(machine: Machine, address: int, handle: int, kind: int, flags: int) -> None:
    """Refuse to open a shared pool."""
    out(address)
    _refuse("a memory pool")


@entry("cuMemPoolExportPointer(CUmemPoolPtrExportData *shareData_out, CUdeviceptr ptr)", since=11020)
def export_pointer(machine: Machine, data: int, address: int) -> None:
    """Refuse to share memory of a pool."""
    out(data)
    _refuse("memory of a pool")


@entry("cuMemPoolImportPointer(CUdeviceptr *ptr_out, CUmemoryPool pool, CUmemPoolPtrExportData *shareData)", since=11020)
def import_pointer(machine: Machine, address: int, pool: int, data: int) -> None:
    """Refuse to open shared memory of a pool."""
    out(address, data)
    _refuse("memory of a pool")
