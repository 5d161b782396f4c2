"""Launches in several calls, as before CUDA 4: a function keeps its block, its arguments and its shared memory.

Source       CUDA Driver API, "Execution Control [DEPRECATED]"
Read next    entries/tasks/launch_entries.py
"""

from __future__ import annotations

import ctypes
import struct

from ...interface.thunks import entry, out
from ...machine.codes import Refused
from ...machine.machine import Machine
from ..code.modules import Function, function_at
from ..tasks.launch_entries import launch

__all__: list[str] = []

_MOST_BYTES = 4096


class _Prepared:
    """The block, the shared memory and the arguments that calls before a launch have set."""

    __slots__ = ("block", "shared", "size", "arguments")

    def __init__(self) -> None:
        self.block, self.shared, self.size = (1, 1, 1), 0, 0
        self.arguments = bytearray(_MOST_BYTES)


def _prepared(machine: Machine, handle: int) -> _Prepared:
    function: Function = function_at(machine, handle)
    if function.prepared is None:
        function.prepared = _Prepared()
    return function.prepared  # type: ignore[no-any-return]


@entry("cuFuncSetBlockShape(CUfunction hfunc, int x, int y, int z)", since=2000)
def set_block(machine: Machine, handle: int, x: int, y: int, z: int) -> None:
    """Set the block of later launches."""
    if x < 1 or y < 1 or z < 1:
        raise Refused(1)
    _prepared(machine, handle).block = x, y, z


@entry("cuFuncSetSharedSize(CUfunction hfunc, unsigned int bytes)", since=2000)
def set_shared(machine: Machine, handle: int, size: int) -> None:
    """Set the bytes of dynamic shared memory of later launches."""
    _prepared(machine, handle).shared = size


@entry("cuParamSetSize(CUfunction hfunc, unsigned int numbytes)", since=2000)
def set_size(machine: Machine, handle: int, size: int) -> None:
    """Set the size of all arguments."""
    if size > _MOST_BYTES:
        raise Refused(1)
    _prepared(machine, handle).size = size


def _set(machine: Machine, handle: int, offset: int, content: bytes) -> None:
    if not 0 <= offset <= _MOST_BYTES - len(content):
        raise Refused(1, f"{len(content)} bytes at offset {offset}: all arguments have at most {_MOST_BYTES} bytes")
    _prepared(machine, handle).arguments[offset : offset + len(content)] = content


@entry("cuParamSeti(CUfunction hfunc, int offset, unsigned int value)", since=2000)
def set_integer(machine: Machine, handle: int, offset: int, value: int) -> None:
    """Set an argument to an integer of 32 bits."""
    _set(machine, handle, offset, struct.pack("<I", value))


@entry("cuParamSetf(CUfunction hfunc, int offset, float value)", since=2000)
def set_float(machine: Machine, handle: int, offset: int, value: float) -> None:
    """Set an argument to a float of 32 bits."""
    _set(machine, handle, offset, struct.pack("<f", value))


@entry("cuParamSetv(CUfunction hfunc, int offset, void *ptr, unsigned int numbytes)", since=2000)
def set_bytes(machine: Machine, handle: int, offset: int, pointer: int, size: int) -> None:
    """Set an argument to some bytes."""
    out(pointer)
    if size > _MOST_BYTES:
        raise Refused(1)
    _set(machine, handle, offset, ctypes.string_at(pointer, size))


@entry("cuLaunchGridAsync(CUfunction f, int grid_width, int grid_height, CUstream hStream)", since=2000)
def launch_grid_async(machine: Machine, handle: int, width: int, height: int, stream: int) -> None:
    """Launch a grid of two dimensions in a stream."""
    if width < 1 or height < 1:
        raise Refused(1)
    found = _prepared(machine, handle)
    content = ctypes.create_string_buffer(bytes(found.arguments[: found.size]), max(found.size, 1))
    size = ctypes.c_size_t(found.size)
    # CU_LAUNCH_PARAM_BUFFER_POINTER, CU_LAUNCH_PARAM_BUFFER_SIZE, CU_LAUNCH_PARAM_END
    extra = (ctypes.c_size_t * 5)(1, ctypes.addressof(content), 2, ctypes.addressof(size), 0)
    launch(machine, handle, width, height, 1, *found.block, found.shared, stream, 0, ctypes.addressof(extra))


@entry("cuLaunchGrid(CUfunction f, int grid_width, int grid_height)", since=2000)
def launch_grid(machine: Machine, handle: int, width: int, height: int) -> None:
    """Launch a grid of two dimensions."""
    launch_grid_async(machine, handle, width, height, 0)


@entry("cuLaunch(CUfunction f)", since=2000)
def launch_block(machine: Machine, handle: int) -> None:
    """Launch one block."""
    launch_grid_async(machine, handle, 1, 1, 0)
