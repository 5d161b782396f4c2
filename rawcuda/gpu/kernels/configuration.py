"""A launch's configuration: grid, block, shared memory and cluster, and their limits for a kernel.

What it is   `extents` and `whole` read user input. `Limits` are read once per kernel, so that the check of another grid
             needs no call of the driver.
What not     it launches nothing; launch.py does.
Source       CUDA Driver API, "Device Management": CUdevice_attribute; "Execution Control": CUfunction_attribute
Read next    launch.py
"""

from __future__ import annotations

from operator import index

from ...errors import a_kind, worded
from ...headers import cuda_h
from ...owned import drain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Union

    from .kernel import Kernel

    Extent = Union[int, Sequence[int]]
    Extents = tuple[int, int, int]

__all__ = ["Limits", "extents", "grant_shared", "whole"]


def extents(name: str, given: Extent) -> Extents:
    """Return x, y, z, given one number or a sequence of one to three numbers, each at least 1.

    raises  TypeError, ValueError  the message names the input as `name`
    """
    if type(given) is int and given > 0:  # (the usual case: 70 ns instead of 250)
        return given, 1, 1
    numbers: Any = given if type(given) is tuple else _numbers(name, given)
    count = len(numbers)
    if count == 3:
        x, y, z = numbers
    elif count == 2:
        (x, y), z = numbers, 1
    elif count == 1:
        (x,), y, z = numbers, 1, 1
    else:
        raise ValueError(f"{name}={worded(given)}: give one to three numbers, x, y, z")
    if not (type(x) is int and type(y) is int and type(z) is int):
        for number in numbers:
            if isinstance(number, bool) or not hasattr(type(number), "__index__"):
                raise TypeError(f"{name}={worded(given)}: {worded(number)} is not an int")
        x, y, z = int.__index__(index(x)), int.__index__(index(y)), int.__index__(index(z))
    if x < 1 or y < 1 or z < 1:
        raise ValueError(
            f"{name}={worded(given)}: every dimension must be at least 1; do not launch if there is no work"
        )
    return x, y, z


def _numbers(name: str, given: Any) -> tuple[Any, ...]:
    if hasattr(type(given), "__index__") and not getattr(given, "shape", None):  # (arrays have __index__, too)
        return (given,)
    if not hasattr(type(given), "__iter__"):
        raise TypeError(f"{name}={worded(given)}: give an int, or a sequence of one to three ints")
    return tuple(given)


def whole(name: str, given: Any) -> int:
    """Return the number given for `name` as a plain int; raises TypeError."""
    if isinstance(given, bool) or not hasattr(type(given), "__index__"):
        raise TypeError(f"{name} must be an int, not {a_kind(given)}")
    return int.__index__(index(given))


class Limits:
    """The largest configuration of a kernel on its device.

    grid, block  the largest x, y, z
    threads      the largest number of threads in a block of this kernel
    static       bytes of shared memory that the kernel declares
    shared       the largest number of bytes of dynamic shared memory; more than `granted` must be requested
    calls        cuDeviceGetAttribute, cuFuncGetAttribute
    """

    __slots__ = ("kernel", "grid", "block", "threads", "static", "shared", "granted")

    def __init__(self, kernel: Kernel) -> None:
        attribute, facts = kernel.device.attribute, kernel.attributes
        self.kernel = kernel.name
        self.grid = attribute("MAX_GRID_DIM_X"), attribute("MAX_GRID_DIM_Y"), attribute("MAX_GRID_DIM_Z")
        self.block = attribute("MAX_BLOCK_DIM_X"), attribute("MAX_BLOCK_DIM_Y"), attribute("MAX_BLOCK_DIM_Z")
        self.threads, self.static = facts["max_threads_per_block"], facts["shared_bytes"]
        self.shared = attribute("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN") - self.static
        self.granted = facts["max_dynamic_shared_bytes"]

    def check(self, grid: Extents, block: Extents, shared_bytes: int, cluster: Extents | None) -> None:
        """Check a configuration; raises ValueError with the value and the limit."""
        (gx, gy, gz), (bx, by, bz) = grid, block
        (most_gx, most_gy, most_gz), (most_bx, most_by, most_bz) = self.grid, self.block
        if gx <= most_gx and gy <= most_gy and gz <= most_gz and bx <= most_bx and by <= most_by and bz <= most_bz:
            if bx * by * bz <= self.threads and 0 <= shared_bytes <= self.shared and cluster is None:
                return
        for name, given, largest in (("grid", grid, self.grid), ("block", block, self.block)):
            for axis, number, limit in zip("xyz", given, largest):
                if number > limit:
                    raise ValueError(f"{name}={worded(given)}: {axis} is at most {limit} on this device")
        threads = block[0] * block[1] * block[2]
        if threads > self.threads:
            raise ValueError(
                f"block={block} has {threads} threads; kernel {self.kernel} takes at most {self.threads} on this device"
            )
        if not 0 <= shared_bytes <= self.shared:
            raise ValueError(
                f"shared_bytes={worded(shared_bytes)}: kernel {self.kernel} can have 0 .. {self.shared} besides its "
                f"static {self.static}"
            )
        if cluster is not None and any(extent % part for extent, part in zip(grid, cluster)):
            raise ValueError(f"grid={grid} is not a whole number of clusters of {cluster}")


def grant_shared(kernel: Kernel, shared_bytes: int) -> None:
    """Request more dynamic shared memory than the kernel may use now; the limit is never reduced.

    calls   cuFuncGetAttribute, cuFuncSetAttribute
    """
    kernel._forget_attributes()  # another Kernel object of the same function may have requested more
    if shared_bytes > kernel.attributes["max_dynamic_shared_bytes"]:
        with kernel.device.current():
            kernel.device._primary.driver.cuFuncSetAttribute(
                cuda_h.CUfunction(kernel.handle), cuda_h.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, shared_bytes
            )
        kernel._forget_attributes()
    drain()
