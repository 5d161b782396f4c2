"""Functions: memory of the device, of the host, managed memory, and what a pointer points to.

Source       CUDA Runtime API, "Memory Management", "Unified Addressing"
Read next    runtime_copies.py
"""

from __future__ import annotations

import ctypes

from ..interface.thunks import out, put_bytes, put_word
from .runtime_structures import Extent, PitchedPointer, pointer_attributes
from .state import Runtime, runtime

__all__: list[str] = []

_WIDEST_ELEMENT = 16  # bytes: so a pitch fits elements of any type


@runtime("cudaMalloc")
def malloc(state: Runtime, address: int, size: int) -> None:
    """Allocate memory of the device; 0 bytes are NULL."""
    out(address)
    if size:
        state.do("cuMemAlloc_v2", address, size)
    else:
        put_word(address, 0)


@runtime("cudaMallocPitch")
def malloc_pitch(state: Runtime, address: int, pitch: int, width: int, height: int) -> None:
    """Allocate rows of memory of the device."""
    out(address, pitch)
    if width and height:
        state.do("cuMemAllocPitch_v2", address, pitch, width, height, _WIDEST_ELEMENT)
    else:
        put_word(address, 0)
        put_word(pitch, 0)


@runtime("cudaMalloc3D")
def malloc_3d(state: Runtime, address: int, extent: Extent) -> None:
    """Allocate slices of rows of memory of the device."""
    out(address)
    pointer, pitch = ctypes.c_uint64(), ctypes.c_size_t()
    malloc_pitch(state, ctypes.addressof(pointer), ctypes.addressof(pitch), extent.width, extent.height * extent.depth)
    put_bytes(address, bytes(PitchedPointer(pointer.value, pitch.value, extent.width, extent.height)))


@runtime("cudaFree")
def free(state: Runtime, address: int) -> None:
    """Free memory of the device, or managed memory; NULL is allowed."""
    if address:
        state.do("cuMemFree_v2", address)


@runtime("cudaMallocManaged")
def malloc_managed(state: Runtime, address: int, size: int, flags: int) -> None:
    """Allocate managed memory."""
    state.do("cuMemAllocManaged", address, size, flags)


@runtime("cudaMallocHost")
def malloc_host(state: Runtime, address: int, size: int) -> None:
    """Allocate pinned memory of the host."""
    host_alloc(state, address, size, 0)


@runtime("cudaHostAlloc")
def host_alloc(state: Runtime, address: int, size: int, flags: int) -> None:
    """Allocate pinned memory of the host; 0 bytes are NULL."""
    out(address)
    if size:
        state.do("cuMemHostAlloc", address, size, flags)
    else:
        put_word(address, 0)


@runtime("cudaFreeHost")
def free_host(state: Runtime, address: int) -> None:
    """Free pinned memory; NULL is allowed."""
    if address:
        state.do("cuMemFreeHost", address)


@runtime("cudaHostRegister")
def host_register(state: Runtime, address: int, size: int, flags: int) -> None:
    """Pin memory of the program."""
    state.do("cuMemHostRegister_v2", address, size, flags)


_TYPE, _DEVICE_POINTER, _HOST_POINTER, _MANAGED, _ORDINAL = 2, 3, 4, 8, 9  # CUpointer_attribute
_UNREGISTERED, _IS_MANAGED = 0, 3  # cudaMemoryType; 1 and 2, host and device, are those of the driver


@runtime("cudaPointerGetAttributes")
def get_pointer_attributes(state: Runtime, address: int, pointer: int) -> None:
    """Write what a pointer points to; memory that CUDA does not know is not an error."""
    out(address)
    numbers = (ctypes.c_int * 5)(_TYPE, _DEVICE_POINTER, _HOST_POINTER, _MANAGED, _ORDINAL)
    values = [ctypes.c_uint(), ctypes.c_uint64(), ctypes.c_uint64(), ctypes.c_uint(), ctypes.c_int()]
    data = (ctypes.c_uint64 * 5)(*map(ctypes.addressof, values))
    state.do("cuPointerGetAttributes", 5, numbers, data, pointer)
    kind, device, host, managed, ordinal = (value.value for value in values)
    made = pointer_attributes(state.major).structure()
    made.type, made.device = _IS_MANAGED if managed else kind, ordinal
    made.devicePointer, made.hostPointer = device, host
    if not kind:
        made.type, made.hostPointer = _UNREGISTERED, pointer if state.major > 12 else 0
    put_bytes(address, bytes(made))
