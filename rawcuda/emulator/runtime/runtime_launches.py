"""Functions: launches, the attributes of kernels, host functions.

How          `kernel<<<grid, block, shared, stream>>>(...)` is two calls: one keeps the configuration, and the stand-in
             of the kernel takes it and launches. Each thread has a stack of configurations, because the arguments of a
             kernel may contain another launch.
Source       CUDA Runtime API, "Execution Control"; crt/host_runtime.h
Read next    runtime_graphs.py
"""

from __future__ import annotations

import ctypes

from ..interface.thunks import LAUNCH_CONFIG, out, put_bytes, put_word, read
from ..machine.codes import Refused
from .code import kernel_of
from .runtime_structures import Dim3, function_attributes
from .state import Runtime, runtime

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__: list[str] = []

_INVALID_CONFIGURATION, _MISSING_CONFIGURATION = 9, 52
_LARGEST_WORD = 2**32 - 1


@runtime("__cudaPushCallConfiguration", context=False)
def push_configuration(state: Runtime, grid: Dim3, block: Dim3, shared: int, stream: int) -> None:
    """Keep the configuration of the next launch."""
    state.thread().configurations.append((bytes(grid), bytes(block), shared, stream))


@runtime("__cudaPopCallConfiguration", context=False)
def pop_configuration(state: Runtime, grid: int, block: int, shared: int, stream: int) -> None:
    """Write the configuration that was kept last, and forget it."""
    kept = state.thread().configurations
    if not kept:
        raise Refused(_MISSING_CONFIGURATION)
    sizes = kept.pop()
    put_bytes(grid, sizes[0])
    put_bytes(block, sizes[1])
    put_word(shared, sizes[2])
    put_word(stream, sizes[3])


def _sizes(state: Runtime, grid: Any, block: Any, shared: int) -> tuple[int, ...]:
    """Return the sizes of a launch, or refuse those that exceed the limits of the device."""
    sizes = (grid.x, grid.y, grid.z, block.x, block.y, block.z)
    threads = block.x * block.y * block.z
    known = state.machine.answers.attributes
    limits = [known[number] for number in (5, 6, 7, 2, 3, 4)]
    if 0 in sizes or threads > known[1] or any(size > most for size, most in zip(sizes, limits)):
        raise Refused(
            _INVALID_CONFIGURATION,
            f"a grid of {sizes[:3]} blocks of {sizes[3:]} threads: the sizes must be 1 to {tuple(limits[:3])} and 1 to "
            f"{tuple(limits[3:])}, and a block has at most {known[1]} threads",
        )
    if shared > _LARGEST_WORD:
        raise Refused(1, f"{shared} bytes of dynamic shared memory")
    return sizes


@runtime("cudaLaunchKernel", "__cudaLaunchKernel")
def launch_kernel(
    state: Runtime, kernel: int, grid: Dim3, block: Dim3, arguments: int, shared: int, stream: int
) -> None:
    """Launch a kernel."""
    handle = kernel_of(state, kernel)
    state.do("cuLaunchKernel", handle, *_sizes(state, grid, block, shared), shared, stream, arguments, 0)


@runtime("cudaLaunchCooperativeKernel")
def launch_cooperative_kernel(
    state: Runtime, kernel: int, grid: Dim3, block: Dim3, arguments: int, shared: int, stream: int
) -> None:
    """Launch a kernel whose blocks may wait for each other."""
    handle = kernel_of(state, kernel)
    state.do("cuLaunchCooperativeKernel", handle, *_sizes(state, grid, block, shared), shared, stream, arguments)


@runtime("cudaLaunchKernelExC")
def launch_kernel_ex(state: Runtime, configuration: int, kernel: int, arguments: int) -> None:
    """Launch a kernel with attributes."""
    out(configuration)
    shared = ctypes.c_size_t.from_address(configuration + 24).value
    _sizes(state, Dim3.from_address(configuration), Dim3.from_address(configuration + 12), shared)
    words = read(LAUNCH_CONFIG, configuration)
    made = ctypes.create_string_buffer(LAUNCH_CONFIG.pack(*words), LAUNCH_CONFIG.size)
    state.do("cuLaunchKernelEx", made, kernel_of(state, kernel), arguments, 0)


@runtime("cudaFuncGetAttributes")
def get_function_attributes(state: Runtime, address: int, kernel: int) -> None:
    """Write the attributes of a kernel."""
    out(address)
    handle = kernel_of(state, kernel)
    layout = function_attributes(state.major)
    made = layout.structure()
    for name, (number,) in layout.numbers.items():
        setattr(made, name, state.get("cuFuncGetAttribute", number, handle, kind=ctypes.c_int))
    put_bytes(address, bytes(made))


@runtime("cudaKernelSetAttributeForDevice")
def set_kernel_attribute(state: Runtime, kernel: int, number: int, value: int, device: int) -> None:
    """Set an attribute of a kernel on a device."""
    state.do("cuKernelSetAttribute", number, value, kernel, device)
