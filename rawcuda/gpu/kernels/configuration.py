"""A launch's configuration: grid, block, shared memory and cluster, and their limits for a kernel.

What it is   `extents` and `whole` read user input. `Limits` are read once per kernel, so that the check of another grid
             needs no call of the driver.
What not     it launches nothing; launch.py does.
Source       CUDA Driver API, "Device Management": CUdevice_attribute; "Execution Control": CUfunction_attribute
Read next    launch.py
"""

from __future__ import annotations

from operator import index
from struct import Struct

from ...errors import a_kind, worded
from ...headers import cuda_h
from ...owned import drain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .kernel import Kernel

    Extents = tuple[int, int, int]
    Shape = tuple[Extents, Extents, int]

__all__ = ["Limits", "extents", "grant_shared", "whole"]

_pack_words = Struct("7I").pack_into


def extents(name: str, given: Any) -> Extents:
    """Return x, y, z, given one number or a sequence of one to three numbers, each at least 1.

    raises  TypeError, ValueError  the message names the input as `name`
    """
    kind = type(given)
    if kind is int and given > 0:  # (the usual case: 60 ns instead of 170)
        return given, 1, 1
    numbers: Any
    if kind is tuple or kind is list:
        numbers = given
    elif kind in _integers or _is_integer(kind):
        number = int.__index__(index(given))
        if number > 0:
            return number, 1, 1
        numbers = (number,)
    else:
        numbers = _numbers(name, given)
    count = len(numbers)
    if count == 3:
        x, y, z = numbers
    elif count == 2:
        (x, y), z = numbers, 1
    elif count == 1:
        (x,), y, z = numbers, 1, 1
    else:
        raise ValueError(f"{name}={worded(given)}: give one to three numbers, x, y, z")
    if type(x) is not int:
        x = _plain(name, given, x)
    if type(y) is not int:
        y = _plain(name, given, y)
    if type(z) is not int:
        z = _plain(name, given, z)
    if x < 1 or y < 1 or z < 1:
        raise ValueError(
            f"{name}={worded(given)}: every dimension must be at least 1; do not launch if there is no work"
        )
    return x, y, z


_integers: set[type] = {int}  # types whose objects are integers, but bool; they are neither arrays nor sequences


def _is_integer(kind: type) -> bool:
    """Tell whether all objects of a type are integers, and note it."""
    if kind is bool or hasattr(kind, "__len__") or hasattr(kind, "__iter__") or not hasattr(kind, "__index__"):
        return False
    if len(_integers) >= 256:  # the number of types in a program is unlimited
        _integers.clear()
    _integers.add(kind)
    return True


def _plain(name: str, given: Any, number: Any) -> int:
    kind = type(number)
    if kind not in _integers and (kind is bool or not hasattr(kind, "__index__")):
        raise TypeError(f"{name}={worded(given)}: {worded(number)} is not an int")
    return int.__index__(index(number))


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

    grid_x ...   the largest grid in each dimension; block_x ... the largest block
    threads      the largest number of threads in a block of this kernel
    static       bytes of shared memory that the kernel declares
    shared       the largest number of bytes of dynamic shared memory; more than `granted` must be requested
    calls        cuDeviceGetAttribute, cuFuncGetAttribute
    """

    __slots__ = (
        "kernel", "grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z",
        "threads", "static", "shared", "granted",
    )  # fmt: skip

    def __init__(self, kernel: Kernel) -> None:
        attribute, facts = kernel.device.attribute, kernel.attributes
        self.kernel = kernel.name
        self.grid_x, self.grid_y, self.grid_z = [attribute(f"MAX_GRID_DIM_{axis}") for axis in "XYZ"]
        self.block_x, self.block_y, self.block_z = [attribute(f"MAX_BLOCK_DIM_{axis}") for axis in "XYZ"]
        self.threads, self.static = facts["max_threads_per_block"], facts["shared_bytes"]
        self.shared = attribute("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN") - self.static
        self.granted = facts["max_dynamic_shared_bytes"]

    def write(self, shape: Shape, cluster: Extents | None, words: Any) -> None:
        """Check a configuration, and write it to the first seven words of a CUlaunchConfig.

        shape   grid, block and shared_bytes
        raises  ValueError  the message names the value and the limit
        """
        (gx, gy, gz), (bx, by, bz), shared_bytes = shape
        if not (
            gx <= self.grid_x
            and gy <= self.grid_y
            and gz <= self.grid_z
            and bx <= self.block_x
            and by <= self.block_y
            and bz <= self.block_z
            and bx * by * bz <= self.threads
            and 0 <= shared_bytes <= self.shared
            and cluster is None
        ):
            self._refuse(shape, cluster)
        _pack_words(words, 0, gx, gy, gz, bx, by, bz, shared_bytes)

    def _refuse(self, shape: Shape, cluster: Extents | None) -> None:
        """Raise ValueError if the configuration is not possible."""
        grid, block, shared_bytes = shape
        largest_grid, largest_block = [
            [getattr(self, f"{name}_{axis}") for axis in "xyz"] for name in ("grid", "block")
        ]
        for name, given, largest in (("grid", grid, largest_grid), ("block", block, largest_block)):
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


def grant_shared(kernel: Kernel, limits: Limits, shared_bytes: int) -> None:
    """Request more dynamic shared memory than the kernel may use now; the limit is never reduced.

    calls   cuFuncGetAttribute, cuFuncSetAttribute
    """
    kernel._forget_attributes()  # a kernel with declared parameters may have requested more for the same function
    if shared_bytes > kernel.attributes["max_dynamic_shared_bytes"]:
        with kernel.device.current():
            kernel.device._primary.driver.cuFuncSetAttribute(
                cuda_h.CUfunction(kernel.handle), cuda_h.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, shared_bytes
            )
        kernel._forget_attributes()
    limits.granted = kernel.attributes["max_dynamic_shared_bytes"]
    drain()
