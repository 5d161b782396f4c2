"""The launch: a grid that was checked once, arguments that are packed at each call.

What it is   `Launch`, a callable made by Kernel.configure, and `Plan`, all that it knows: one pack_into and one foreign call.
How          each launch in flight has a buffer of its own from a pool, so several threads may use one Launch: list.pop and
             list.append are atomic. A buffer comes with all arguments of the foreign call; its binding has no argument types
             (they are what a ctypes call costs most), so all of them are ctypes objects.
Source       CUDA Driver API, "Execution Control": cuLaunchKernelEx, cuLaunchKernel, cuLaunchCooperativeKernel
Read next    compiled_launch.py, arguments.py
"""

from __future__ import annotations

import ctypes
import struct
import time
from operator import index

from ... import tracing
from ...driver import WRONG_CONTEXT, as_argument
from ...errors import Closed, a_kind, worded
from ...headers import cuda_h
from ...owned import drain
from ...protocols.description import place
from ..stream import Stream, retain, sweep, work_handle
from .arguments import converter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Callable, Union

    from ...protocols.description import Place
    from ..device import Device
    from .kernel import Kernel

    Extent = Union[int, Sequence[int]]

__all__ = ["Launch", "Plan", "as_launch", "extents"]

_PER_THREAD = 2
_CLUSTER_DIMENSION, _COOPERATIVE = 4, 2  # CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, _COOPERATIVE


class _IsLaunch(type):
    def __instancecheck__(cls, thing: object) -> bool:
        return isinstance(getattr(thing, "_plan", None), Plan)


class Launch(metaclass=_IsLaunch):
    """A kernel with its grid, block and stream; call it with the arguments. Any number of threads may.

    It is a plain function, which Python calls for less than any object; this class only tells what it has, and whether something is one.

    raises  TypeError   a wrong number or kind of arguments
            ValueError  a value that its parameter cannot hold, memory that the device cannot reach
            Closed      the module or stream was closed meanwhile
            CudaError   the driver's refusal of the launch; what the kernel does wrong shows at the next synchronising call
    """

    kernel: Kernel
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    stream: Any
    _plan: Plan
    __call__: Callable[..., None]


def as_launch(plan: Plan, function: Any) -> Launch:
    """Give a function that launches what a Launch has."""
    function._plan = plan
    for name in ("kernel", "grid", "block", "shared_bytes", "stream"):
        setattr(function, name, getattr(plan, name))
    return function  # type: ignore[no-any-return]


class Plan:
    """What a launch was prepared with; it does not know its Launch, for a circle would wait for the garbage collector."""

    __slots__ = (
        "kernel",
        "grid",
        "block",
        "shared_bytes",
        "stream",
        "_module",
        "_stream",
        "_needs_context",
        "_converters",
        "_pack",
        "_size",
        "_offsets",
        "_config",
        "_symbol",
        "_function",
        "_head",
        "_tail",
        "_pool",
        "_driver",
        "_primary",
        "_codes",
        "_device",
        "_kinds",
        "_alone",
        "_written",
        "_ours",
        "_theirs",
        "_changes",
        "_strangers",
    )

    def __init__(
        self,
        kernel: Kernel,
        grid: Extent,
        block: Extent,
        shared_bytes: int,
        stream: Any,
        cooperative: bool,
        cluster: Extent | None,
    ) -> None:
        device = kernel.device
        self.kernel, self._module = kernel, kernel.module
        self.grid, self.block = extents("grid", grid), extents("block", block)
        self.shared_bytes = _check_shared(kernel, device, shared_bytes)
        self.stream = stream
        self._stream = work_handle(stream)
        if isinstance(stream, Stream):
            stream._prepared()  # its close outdates what was prepared with it
        if isinstance(stream, Stream) and stream.device is not None and stream.device.ordinal != device.ordinal:
            raise ValueError(f"{stream!r} is of device {stream.device.ordinal}, the kernel of device {device.ordinal}")
        self._needs_context = self._stream <= _PER_THREAD
        self._primary, self._driver = device._primary, device._primary.driver
        clusters = None if cluster is None else extents("cluster", cluster)
        _check_extents(kernel, device, self.grid, self.block, clusters)
        self._prepare_arguments(device)
        self._prepare_call(cooperative, clusters)
        self._pool: list[tuple[Any, Any]] = [self._buffer()]
        # for compiled_launch.py: the kinds of arguments, where arrays are expected to lie, and how often that turned out otherwise
        self._device, self._kinds, self._alone = device, "", False
        self._written: Callable[[], Any]
        self._ours: Place | None = place(("cuda", device.ordinal), False, "memory")
        self._theirs: Place | None = None
        self._changes = self._strangers = 0

    def _prepare_arguments(self, device: Device) -> None:
        parameters, formats, position = self.kernel.parameters, ["<"], 0
        self._converters, self._codes = [], []
        for number, parameter in enumerate(parameters):
            code, convert = converter(
                self.kernel.name, parameter, self.kernel._declared_at(number), device, self._stream
            )
            if parameter.offset > position:
                formats.append(f"{parameter.offset - position}x")
            formats.append(code)
            position = parameter.offset + parameter.size
            self._converters.append(convert)
            self._codes.append(code)
        packing = struct.Struct("".join(formats))
        self._pack, self._size = packing.pack_into, packing.size
        self._offsets = [parameter.offset for parameter in parameters]

    def _prepare_call(self, cooperative: bool, cluster: tuple[int, int, int] | None) -> None:
        """Choose the entry point and bind all but the arguments.

        calls   cuLaunchKernelEx (from 11.8 on), cuLaunchKernel, cuLaunchCooperativeKernel
        """
        self._config: Any = None
        self._head: tuple[Any, ...]  # the arguments before those of the kernel, and after
        self._tail: tuple[None, ...]
        function, stream = as_argument(self.kernel.handle), as_argument(self._stream)
        attributes = []
        if cooperative:
            attributes.append(_attribute(_COOPERATIVE, "cooperative", 1))
        if cluster is not None:
            attributes.append(_attribute(_CLUSTER_DIMENSION, "clusterDim", cluster))
        if cluster is not None or self._driver.has("cuLaunchKernelEx"):
            config = cuda_h.CUlaunchConfig()
            config.gridDimX, config.gridDimY, config.gridDimZ = self.grid
            config.blockDimX, config.blockDimY, config.blockDimZ = self.block
            config.sharedMemBytes, config.hStream = self.shared_bytes, self._stream
            if attributes:
                array = (cuda_h.CUlaunchAttribute * len(attributes))(*attributes)
                config.attrs, config.numAttrs = array, len(attributes)
            self._function, self._head, self._tail = (
                self._driver.raw("cuLaunchKernelEx"),
                (ctypes.byref(config), function),
                (None,),
            )
            self._symbol, self._config = "cuLaunchKernelEx", config
            return
        name = "cuLaunchCooperativeKernel" if cooperative else "cuLaunchKernel"
        numbers = [ctypes.c_uint.from_param(number) for number in (*self.grid, *self.block, self.shared_bytes)]
        self._function, self._head = self._driver.raw(name), (function, *numbers, stream)
        self._symbol, self._tail = name, () if cooperative else (None,)

    def _buffer(self) -> tuple[Any, Any]:
        """Make one launch's buffer: (where to pack, the arguments of the foreign call that reads it).

        Packing into a memoryview costs least, and so does f(*arguments), which ctypes takes as they are; a partial copies them.
        """
        storage = ctypes.create_string_buffer(max(self._size, 1))
        start = ctypes.addressof(storage)
        pointers: Any = (ctypes.c_void_p * max(len(self._offsets), 1))(*(start + offset for offset in self._offsets))
        pointers.storage = storage  # an address keeps nothing alive
        return memoryview(storage).cast("B"), (*self._head, ctypes.byref(pointers), *self._tail)

    def run(self, *arguments: Any) -> None:
        """Launch with these arguments; returns at once."""
        if len(arguments) != len(self._converters):
            raise TypeError(
                f"kernel {self.kernel.name} takes {self.kernel._signature()}; {len(arguments)} arguments were given"
            )
        self._check_open()
        kept: list[Any] = []
        values = [convert(argument, kept) for convert, argument in zip(self._converters, arguments)]
        try:
            entry = self._pool.pop()
        except IndexError:  # every buffer is in use by some other thread
            entry = self._buffer()
        self._pack(entry[0], 0, *values)
        try:
            code = self._run(entry[1])
        finally:
            self._pool.append(entry)  # the driver has copied what was in it
            if kept:  # also when Ctrl-C came just then: the kernel may run
                sweep()
                retain(self.kernel.device, self._stream, kept)
                from ..ordering import hold_back

                hold_back(kept, self._stream, self.kernel.device)
        if code:
            raise self._error(code)

    def _check_open(self) -> None:
        if self._module._handle is None:
            raise Closed(f"the module of kernel {self.kernel.name} is closed: load it again")
        if self.kernel.device._handle is None:
            raise Closed(f"the device of kernel {self.kernel.name} is closed: load it on another Device object")
        if isinstance(self.stream, Stream) and self.stream._handle is None:
            raise Closed(f"the stream of this launch of {self.kernel.name} is closed: configure another launch")
        if self._driver.forked:
            self._driver.refuse_forked(self._symbol)

    def _run(self, arguments: Any) -> int:
        """Make the foreign call, in our context where it matters; on "wrong context" push ours and try once more.

        A stream of our own knows its context, so nothing is pushed for it. The two default streams belong to whichever
        context is current.
        """
        start = time.perf_counter_ns() if tracing.listeners else 0
        if self._needs_context:
            with self._primary.current():
                code = self._function(*arguments)
        else:
            code = self._function(*arguments)
            if code:
                code = self._again(arguments, code)
        if start:
            self._driver.tell(self._symbol, *self._shown(), code, start, time.perf_counter_ns() - start)
        return int(code)

    def _again(self, arguments: Any, code: int) -> int:
        """Answer "wrong context" with ours, once; return any other code as it is."""
        if code not in WRONG_CONTEXT or self._needs_context:
            return code
        with self._primary.current():
            return int(self._function(*arguments))

    def _shown(self) -> tuple[list[str], tuple[Any, ...]]:
        facts = {
            "f": self.kernel,
            "gridDim": self.grid,
            "blockDim": self.block,
            "sharedMemBytes": self.shared_bytes,
            "hStream": cuda_h.CUstream(self._stream),
        }
        return list(facts), tuple(facts.values())

    def _error(self, code: int) -> Exception:
        return self._driver.error(code, self._symbol, *self._shown())


def _attribute(number: int, field: str, value: Any) -> Any:
    attribute = cuda_h.CUlaunchAttribute()
    attribute.id = number
    if field == "clusterDim":
        attribute.value.clusterDim.x, attribute.value.clusterDim.y, attribute.value.clusterDim.z = value
    else:
        setattr(attribute.value, field, value)
    return attribute


# -- checks, once for each configuration


def extents(name: str, given: Extent) -> tuple[int, int, int]:
    """Return x, y, z of a number or of one to three numbers, each at least 1.

    raises  TypeError, ValueError  naming what was given as `name`
    """
    numbers: Any = (given,)
    if not hasattr(type(given), "__index__") or getattr(given, "shape", None):  # (arrays have __index__, too)
        if not hasattr(type(given), "__iter__"):
            raise TypeError(f"{name}={worded(given)}: give an int, or one to three of them")
        numbers = tuple(given)  # type: ignore[arg-type]
    if not 1 <= len(numbers) <= 3:
        raise ValueError(f"{name}={worded(given)}: give one to three numbers, x, y, z")
    for number in numbers:
        if isinstance(number, bool) or not hasattr(type(number), "__index__"):
            raise TypeError(f"{name}={worded(given)}: {worded(number)} is not an int")
    x, y, z = (*(int.__index__(index(number)) for number in numbers), 1, 1)[:3]
    if min(x, y, z) < 1:
        raise ValueError(
            f"{name}={worded(given)}: every dimension is at least 1; launch nothing at all when there is no work"
        )
    return x, y, z


def _check_extents(
    kernel: Kernel, device: Device, grid: tuple[int, ...], block: tuple[int, ...], cluster: tuple[int, int, int] | None
) -> None:
    for name, given, what in (("grid", grid, "MAX_GRID_DIM_"), ("block", block, "MAX_BLOCK_DIM_")):
        for axis, number in zip("XYZ", given):
            limit = device.attribute(what + axis)
            if number > limit:
                raise ValueError(f"{name}={worded(given)}: {axis.lower()} is at most {limit} on this device")
    threads, limit = block[0] * block[1] * block[2], kernel.attributes["max_threads_per_block"]
    if threads > limit:
        raise ValueError(
            f"block={block} has {threads} threads; kernel {kernel.name} takes at most {limit} on this device"
        )
    if cluster is not None and any(extent % part for extent, part in zip(grid, cluster)):
        raise ValueError(f"grid={grid} is not a whole number of clusters of {cluster}")


def _check_shared(kernel: Kernel, device: Device, given: Any) -> int:
    """Check the bytes of dynamic shared memory and return them; ask for more than the default 48 KiB where it is wanted.

    calls   cuFuncSetAttribute
    """
    if isinstance(given, bool) or not hasattr(type(given), "__index__"):
        raise TypeError(f"shared_bytes is an int, not {a_kind(given)}")
    shared_bytes = int.__index__(index(given))
    static = kernel.attributes["shared_bytes"]
    limit = device.attribute("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN") - static
    if not 0 <= shared_bytes <= limit:
        raise ValueError(
            f"shared_bytes={worded(shared_bytes)}: kernel {kernel.name} can have 0 .. {limit} besides its static {static}"
        )
    if shared_bytes > kernel.attributes["max_dynamic_shared_bytes"]:
        with device.current():
            device._primary.driver.cuFuncSetAttribute(
                cuda_h.CUfunction(kernel.handle), cuda_h.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, shared_bytes
            )
        kernel._forget_attributes()
    drain()
    return shared_bytes
