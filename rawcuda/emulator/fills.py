"""Entry points: fills, of 1, 2 or 4 bytes an element, in one row or many.

Source       CUDA Driver API, "Memory Management" (cuMemset*)
Read next    modules.py
"""
from __future__ import annotations

from .codes import Refused
from .copies import device_box
from .machine import Machine
from .thunks import entry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional

__all__: list[str] = []


def _fill(machine: Machine, address: int, pitch: int, value: int, width: int, count: int, height: int,
          handle: Optional[int]) -> None:
    """Queue a fill of `height` rows of `count` elements of `width` bytes."""
    stream = machine.stream(handle or 0)
    if address % width or (height > 1 and pitch % width):
        raise Refused(1, f"{address:#x} (pitch {pitch}) is not aligned to the {width} bytes of an element")
    if not count or not height:
        return
    nbytes = count * width
    if height > 1 and pitch < nbytes:
        raise Refused(1, f"rows of {nbytes} bytes do not fit into a pitch of {pitch}")
    box = device_box(machine, address, pitch, 0, (height - 1) * pitch + nbytes)
    row = value.to_bytes(width, "little") * count

    def run() -> None:
        memory, at = box.rows(0)
        for index in range(height):
            memory[at + index * pitch:at + index * pitch + nbytes] = row

    work = machine.queues.submit(stream, run, "a fill")
    if handle is None and not box.is_device:
        machine.queues.complete(work)
        stream.context.check()


@entry("cuMemsetD8_v2(CUdeviceptr dstDevice, unsigned char uc, size_t N)", since=3020)
def fill_8(machine: Machine, address: int, value: int, count: int) -> None:
    """Fill bytes."""
    _fill(machine, address, 0, value, 1, count, 1, None)


@entry("cuMemsetD8Async(CUdeviceptr dstDevice, unsigned char uc, size_t N, CUstream hStream)", since=3020)
def fill_8_async(machine: Machine, address: int, value: int, count: int, stream: int) -> None:
    """Fill bytes, in stream order."""
    _fill(machine, address, 0, value, 1, count, 1, stream)


@entry("cuMemsetD2D8_v2(CUdeviceptr dstDevice, size_t dstPitch, unsigned char uc, size_t Width, size_t Height)", since=3020)
def fill_2d_8(machine: Machine, address: int, pitch: int, value: int, width: int, height: int) -> None:
    """Fill rows of bytes."""
    _fill(machine, address, pitch, value, 1, width, height, None)


@entry("cuMemsetD2D8Async(CUdeviceptr dstDevice, size_t dstPitch, unsigned char uc, size_t Width, size_t Height, "
       "CUstream hStream)", since=3020)
def fill_2d_8_async(machine: Machine, address: int, pitch: int, value: int, width: int, height: int, stream: int) -> None:
    """Fill rows of bytes, in stream order."""
    _fill(machine, address, pitch, value, 1, width, height, stream)


@entry("cuMemsetD16_v2(CUdeviceptr dstDevice, unsigned short us, size_t N)", since=3020)
def fill_16(machine: Machine, address: int, value: int, count: int) -> None:
    """Fill 2-byte elements."""
    _fill(machine, address, 0, value, 2, count, 1, None)


@entry("cuMemsetD16Async(CUdeviceptr dstDevice, unsigned short us, size_t N, CUstream hStream)", since=3020)
def fill_16_async(machine: Machine, address: int, value: int, count: int, stream: int) -> None:
    """Fill 2-byte elements, in stream order."""
    _fill(machine, address, 0, value, 2, count, 1, stream)


@entry("cuMemsetD2D16_v2(CUdeviceptr dstDevice, size_t dstPitch, unsigned short us, size_t Width, size_t Height)", since=3020)
def fill_2d_16(machine: Machine, address: int, pitch: int, value: int, width: int, height: int) -> None:
    """Fill rows of 2-byte elements."""
    _fill(machine, address, pitch, value, 2, width, height, None)


@entry("cuMemsetD2D16Async(CUdeviceptr dstDevice, size_t dstPitch, unsigned short us, size_t Width, size_t Height, "
       "CUstream hStream)", since=3020)
def fill_2d_16_async(machine: Machine, address: int, pitch: int, value: int, width: int, height: int, stream: int) -> None:
    """Fill rows of 2-byte elements, in stream order."""
    _fill(machine, address, pitch, value, 2, width, height, stream)


@entry("cuMemsetD32_v2(CUdeviceptr dstDevice, unsigned int ui, size_t N)", since=3020)
def fill_32(machine: Machine, address: int, value: int, count: int) -> None:
    """Fill 4-byte elements."""
    _fill(machine, address, 0, value, 4, count, 1, None)


@entry("cuMemsetD32Async(CUdeviceptr dstDevice, unsigned int ui, size_t N, CUstream hStream)", since=3020)
def fill_32_async(machine: Machine, address: int, value: int, count: int, stream: int) -> None:
    """Fill 4-byte elements, in stream order."""
    _fill(machine, address, 0, value, 4, count, 1, stream)


@entry("cuMemsetD2D32_v2(CUdeviceptr dstDevice, size_t dstPitch, unsigned int ui, size_t Width, size_t Height)", since=3020)
def fill_2d_32(machine: Machine, address: int, pitch: int, value: int, width: int, height: int) -> None:
    """Fill rows of 4-byte elements."""
    _fill(machine, address, pitch, value, 4, width, height, None)


@entry("cuMemsetD2D32Async(CUdeviceptr dstDevice, size_t dstPitch, unsigned int ui, size_t Width, size_t Height, "
       "CUstream hStream)", since=3020)
def fill_2d_32_async(machine: Machine, address: int, pitch: int, value: int, width: int, height: int, stream: int) -> None:
    """Fill rows of 4-byte elements, in stream order."""
    _fill(machine, address, pitch, value, 4, width, height, stream)
