"""A launch's configuration: grid, block, shared memory and cluster, and their limits for a kernel.

What it is   `extents` reads user input. `Limits` are read once per kernel, so that the check of another grid
             needs no call of the driver. `LaunchAttributes`: clusters, priority and so on.
             `why_refused` explains a launch that the driver refused.
What not     it launches nothing; launch.py does. options.py reads the options that most programs do not use.
Source       CUDA Driver API, "Device Management": CUdevice_attribute; "Execution Control": CUfunction_attribute,
             CUlaunchAttribute
Read next    launch.py
"""

from __future__ import annotations

from ctypes import addressof, byref, c_int, memmove
from operator import index
from struct import Struct

from ...arguments import as_sequence
from ...errors import worded
from ...headers import cuda_h
from ...ownership import drain
from ...remembered import Remembered, cannot_change
from ..core.context import require

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ...ownership import Owned
    from ..core.context import PrimaryContext
    from .kernel import Kernel
    from .module import Module

    Extents = tuple[int, int, int]
    Shape = tuple[int, int, int, int, int, int, int]  # grid, block, shared_bytes: the first words of a CUlaunchConfig

__all__ = [
    "LaunchAttributes",
    "Limits",
    "attributes_of",
    "config_of",
    "extents",
    "grant_shared",
    "why_refused",
]

_pack_words = Struct("7I").pack_into
_COOPERATIVE, _CLUSTER_DIMENSION = 2, 4  # CU_LAUNCH_ATTRIBUTE_COOPERATIVE, _CLUSTER_DIMENSION
_VALUE = Struct("3I52x")
_LARGEST, _PORTABLE_CLUSTER = 2**32 - 1, 8
_MOST_THREADS, _SHARED_BYTES, _MOST_DYNAMIC = 0, 1, 8  # CUfunction_attribute
_MUST_BE_SET, _REQUIRED = 10, (11, 12, 13)  # of clusters


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
    elif kind in _integers.answers or _is_integer(kind):
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


def _is_integer(kind: type) -> bool:
    """Tell whether all objects of a type are integers, but not bools; they are neither arrays nor sequences."""
    if kind is bool or not hasattr(kind, "__index__") or hasattr(kind, "__len__") or hasattr(kind, "__iter__"):
        return False
    if cannot_change(kind):
        _integers.keep(kind, True)
    return True


# Types whose objects are integers, such as NumPy's: three attributes that are missing take a third of a launch.
_integers: Remembered[type, bool] = Remembered(64)


def _plain(name: str, given: object, number: Any) -> int:
    if type(number) is not bool:
        try:
            return int.__index__(index(number))
        except TypeError:  # also an array, which has __index__
            pass
    raise TypeError(f"{name}={worded(given)}: {worded(number)} is not an int")


def _numbers(name: str, given: object) -> list[Any]:
    try:
        return as_sequence(name, given)
    except TypeError:
        how = ", such as -(-n // threads), which rounds n / threads up" if isinstance(given, float) else ""
        raise TypeError(f"{name}={worded(given)}: give an int{how}, or a sequence of one to three ints") from None


class LaunchAttributes:
    """The attributes of a launch besides its grid, block and shared memory; they are checked, and never change.

    values     (CUlaunchAttributeID, the 64 bytes of its value) for each, in the order of their numbers
    key        the values as bytes, which are equal if the values are
    given      what the user gave: {"priority": -1}
    cluster    blocks in a cluster, or None; `preferred`: in a preferred cluster, likewise
    uses       the events and the memory that the driver uses at each launch, which must stay open
    """

    __slots__ = ("values", "key", "given", "cluster", "preferred", "uses")

    def __init__(
        self,
        values: tuple[tuple[int, bytes], ...],
        given: dict[str, object],
        cluster: Extents | None = None,
        preferred: Extents | None = None,
        uses: tuple[Owned, ...] = (),
    ) -> None:
        self.values, self.given, self.cluster, self.preferred, self.uses = values, given, cluster, preferred, uses
        self.key = b"".join([number.to_bytes(4, "little") + value for number, value in values])

    @property
    def is_large(self) -> bool:
        """Tell whether a cluster has more blocks than every device with clusters supports."""
        x, y, z = self.cluster or (1, 1, 1)
        return x * y * z > _PORTABLE_CLUSTER

    def config(self, config: Any) -> Any:
        """Add these attributes to a CUlaunchConfig, which keeps them alive, and return it."""
        listed = (cuda_h.CUlaunchAttribute * len(self.values))()
        for attribute, (number, value) in zip(listed, self.values):
            attribute.id = number
            memmove(addressof(attribute.value), value, len(value))
        config.attrs, config.numAttrs = listed, len(listed)
        return config


def attributes_of(kernel: Kernel, cooperative: object, cluster: object) -> LaunchAttributes:
    """Return the attributes of a cooperative launch, or of one with clusters.

    raises  Unsupported             the device can do neither
            TypeError, ValueError   `cluster` is not one to three numbers, each at least 1
    """
    values: list[tuple[int, bytes]] = []
    given: dict[str, object] = {}
    blocks = None
    if cooperative:
        require(kernel, "cooperative", "COOPERATIVE_LAUNCH")
        values.append((_COOPERATIVE, _VALUE.pack(1, 0, 0)))
        given["cooperative"] = True
    if cluster is not None:
        blocks = extents("cluster", cluster)
        require(kernel, "cluster", "CLUSTER_LAUNCH")
        if max(blocks) > _LARGEST:
            raise ValueError(f"cluster={worded(cluster)}: no device supports clusters of this size")
        values.append((_CLUSTER_DIMENSION, _VALUE.pack(*blocks)))
        given["cluster"] = blocks
    return LaunchAttributes(tuple(values), given, blocks)


class Limits:
    """The largest configuration of a kernel on its device.

    function     the CUfunction
    grid_x ...   the largest grid in each dimension; block_x ... the largest block
    threads      the largest number of threads in a block of this kernel
    static       bytes of shared memory that the kernel declares
    shared       the largest number of bytes of dynamic shared memory; more than `granted` must be requested
    calls        cuDeviceGetAttribute, cuFuncGetAttribute
    """

    __slots__ = (
        "kernel", "function", "grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z",
        "threads", "static", "shared", "granted",
    )  # fmt: skip

    def __init__(self, kernel: Kernel) -> None:
        attribute, fact = kernel.device.attribute, kernel._fact
        self.kernel, self.function = kernel.name, kernel.handle
        self.grid_x, self.grid_y, self.grid_z = [attribute(f"MAX_GRID_DIM_{axis}") for axis in "XYZ"]
        self.block_x, self.block_y, self.block_z = [attribute(f"MAX_BLOCK_DIM_{axis}") for axis in "XYZ"]
        self.threads, self.static = fact(_MOST_THREADS), fact(_SHARED_BYTES)
        self.shared = attribute("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN") - self.static
        self.granted = fact(_MOST_DYNAMIC)

    def write(self, shape: Shape, attributes: LaunchAttributes | None, words: Any) -> None:
        """Check a configuration, and write it to the first seven words of a CUlaunchConfig.

        shape   grid, block and shared_bytes
        attributes  the other attributes, if there are any
        raises  ValueError  the message names the value and the limit
        """
        gx, gy, gz, bx, by, bz, shared_bytes = shape
        if not (
            gx <= self.grid_x
            and gy <= self.grid_y
            and gz <= self.grid_z
            and bx <= self.block_x
            and by <= self.block_y
            and bz <= self.block_z
            and bx * by * bz <= self.threads
            and 0 <= shared_bytes <= self.shared
            and attributes is None
        ):
            self._check_closely(shape, attributes)
        _pack_words(words, 0, gx, gy, gz, bx, by, bz, shared_bytes)

    def _check_closely(self, shape: Shape, attributes: LaunchAttributes | None) -> None:
        """Raise ValueError if the configuration is not possible."""
        grid, block, shared_bytes = shape[:3], shape[3:6], shape[6]
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
                f"shared_bytes={worded(shared_bytes)}: kernel {self.kernel} can have 0 to {self.shared} bytes, in "
                f"addition to its {self.static} bytes of static shared memory"
            )
        if attributes is None:
            return
        for name, parts in (("cluster", attributes.cluster), ("preferred_cluster", attributes.preferred)):
            if parts is not None and any(extent % part for extent, part in zip(grid, parts)):
                raise ValueError(f"grid={grid} is not a multiple of {name}={parts}: the grid is counted in blocks")


def grant_shared(module: Module, limits: Limits, shared_bytes: int) -> None:
    """Request more dynamic shared memory than a kernel of a module may use now; the limit is never reduced.

    calls   cuFuncGetAttribute, cuFuncSetAttribute
    raises  Closed  the module
    """
    module.handle
    driver, function, found = module.device._primary.driver, cuda_h.CUfunction(limits.function), c_int()
    with module.device.current():
        driver.cuFuncGetAttribute(byref(found), _MOST_DYNAMIC, function)
        if shared_bytes > found.value:  # (other software may have requested more)
            driver.cuFuncSetAttribute(function, _MOST_DYNAMIC, shared_bytes)
            driver.cuFuncGetAttribute(byref(found), _MOST_DYNAMIC, function)
        limits.granted = found.value
    drain()


def config_of(handle: int, attributes: LaunchAttributes | None) -> Any:
    """Return a CUlaunchConfig for a stream; Limits.write sets its first seven words."""
    config = cuda_h.CUlaunchConfig()
    config.hStream = cuda_h.CUstream(handle)
    if attributes is None or not attributes.values:
        return config
    return attributes.config(config)


def why_refused(primary: PrimaryContext, function: object, shape: Shape, attributes: LaunchAttributes | None) -> str:
    """Explain by the kernel's attributes why the driver refused a launch, or return "".

    calls   cuFuncGetAttribute
    """
    value, found = c_int(), []
    with primary.current():
        for number in (_MUST_BE_SET, *_REQUIRED):  # a driver before 11.8 does not know these
            code = primary.driver.raw("cuFuncGetAttribute")(byref(value), c_int(number), function)
            found.append(0 if code else value.value)
    must, *required = found
    cluster = None if attributes is None else attributes.cluster
    if all(required):
        if cluster is not None and list(cluster) != required:
            return f"This kernel has clusters of {tuple(required)} blocks, not of {cluster}."
        if any(extent % part for extent, part in zip(shape, required)):
            return f"This kernel has clusters of {tuple(required)} blocks, which do not divide grid={shape[:3]}."
    elif must and cluster is None:
        return "This kernel must be launched with clusters: give cluster=..."
    return ""
