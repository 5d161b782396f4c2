"""Kernels: the facts about a function of a module, and its launches.

What it is   `Kernel`: its parameters, its attributes, and configure() and launch(), which check a configuration.
What not     it does not load code (module.py) or pack arguments (packing.py).
Source       CUDA Driver API, "Execution Control", "Occupancy"
Read next    configuration.py, launch.py
"""

from __future__ import annotations

import ctypes
from collections import deque

from ...arguments import as_bool, as_int
from ...headers import cuda_h
from ...hints import hinted
from ...interpreter.cpython import facts
from ...remembered import Remembered
from ..streams.stream import Stream
from .configuration import Limits, attributes_of, extents, grant_shared
from .declared_parameters import agree, from_source, named, read_parameters
from .launch import Launch, Packing, Prepared, function_of, stream_handle

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Callable, NoReturn

    from ...gpu.devices.device import Device
    from ...gpu.kernels.launch_attributes import KernelAttributes
    from ...gpu.kernels.module import Module
    from ...gpu.kernels.occupancy import Suggestion
    from ..core.context import PrimaryContext
    from .configuration import LaunchAttributes, Shape
    from .declared_parameters import Declared
    from .signature import Parameter

    Idle = tuple[Prepared, Callable[..., None]]

__all__ = ["Kernel", "Known"]

_LEGACY = 1  # CU_STREAM_LEGACY

_SETTABLE = frozenset((8, 9, 11, 12, 13, 14, 15, 17))  # the CUfunction_attributes that can be set
_MOST_KEPT = 256  # streams for which a kernel keeps launches, and sets of options


class Known:
    """The facts about a function of a module; all Kernel objects of one name share them. They keep no module alive.

    facts  the CUfunction_attributes that were read, by their numbers; only those that cannot be set are kept
    attributes  the attributes of launches that were read from user input, by the values given
    idle   the launches that Kernel.launch keeps for later calls, by their stream and the bytes of their attributes; a
           call takes one and puts it back
    """

    __slots__ = ("function", "parameters", "declared", "facts", "limits", "packing", "attributes", "idle")

    def __init__(self, module: Module, name: str, function: int, wanted: list[Declared] | None) -> None:
        self.function = function
        self.declared: Sequence[Declared | None] | None = wanted
        self.facts: dict[int, int] = {}
        self.attributes: Remembered[object, LaunchAttributes] = Remembered(_MOST_KEPT)
        self.limits: Limits | None = None  # these two are made at the first launch
        self.packing: Packing | None = None
        self.idle: Remembered[object, deque[Idle]] = Remembered(_MOST_KEPT)
        self.parameters = read_parameters(module, name, function)
        said = module._said(name, self.parameters or [])
        if said is not None and self.parameters is not None:
            self.parameters = [named(one, its) for one, (its, _) in zip(self.parameters, said)]
        if wanted is not None:
            self.parameters = agree(name, self.parameters, wanted)
        elif said is not None and self.parameters is not None:
            self.declared = [from_source(one, type) for one, (_, type) in zip(self.parameters, said)]


@hinted
@facts("module", "name")
class Kernel:
    """A kernel of a module.

    `module[name]` is a kernel.

    >>> device = Device(0)
    >>> module = device.load(".version 6.3 .target sm_50 .address_size 64 .visible .entry nothing() { ret; }")
    >>> kernel = module["nothing"]
    >>> kernel.launch(grid=1, block=32)

    name        as in the code
    parameters  [Parameter]: name, offset, size, type
    Why long    it has a method for each question about a kernel
    """

    __slots__ = ("_module", "_name", "_known", "_idle", "_primary")

    module: Module
    name: str
    if TYPE_CHECKING:
        _module: Module
        _name: str
        _known: Known
        _idle: Remembered[object, deque[Idle]]
        _primary: PrimaryContext

    def __init__(self, *_: object, **__: object) -> None:
        raise TypeError("a Kernel is made by module[name], or by module.kernel(name)")

    @classmethod
    def _of(cls, module: Module, name: str, known: Known) -> Kernel:
        made = cls.__new__(cls)
        made._module, made._name, made._known, made._idle = module, name, known, known.idle
        made._primary = module.device._primary
        return made

    @property
    def handle(self) -> int:
        """Return the CUfunction; raises Closed if the module is closed."""
        self.module.handle
        return self._known.function

    @property
    def device(self) -> Device:
        """Return the device that the module is on."""
        return self.module.device

    # -- parameters

    @property
    def parameters(self) -> list[Parameter]:
        """Return the parameters.

        raises  TypeError  neither the code nor the driver lists them: they must be declared
        """
        parameters = self._known.parameters
        if parameters is None:
            raise TypeError(
                f"kernel {self.name}: neither the code nor the driver lists its parameters (a cubin needs a driver of "
                f"CUDA 12.4): declare them, module.kernel({self.name!r}, parameters=[...])"
            )
        return list(parameters)

    def _declared_at(self, index: int) -> Declared | None:
        declared = self._known.declared
        if declared is None:
            return None
        return declared[index]

    # -- facts

    @property
    def attributes(self) -> KernelAttributes:
        """Return the driver's facts about the compiled kernel, by name; some can be set. See KernelAttributes."""
        from .launch_attributes import KernelAttributes

        return KernelAttributes(self)

    def _fact(self, number: int) -> int:
        """Return a CUfunction_attribute.

        calls   cuFuncGetAttribute
        """
        known = self._known.facts
        if number not in known or self.module._handle is None:
            value, function = ctypes.c_int(), cuda_h.CUfunction(self.handle)
            with self.device.current():
                self._primary.driver.cuFuncGetAttribute(ctypes.byref(value), number, function)
            if number in _SETTABLE:
                return value.value
            known[number] = value.value
        return known[number]

    def _set_fact(self, number: int, value: int) -> None:
        """Set a CUfunction_attribute.

        calls   cuFuncSetAttribute
        """
        function = cuda_h.CUfunction(self.handle)
        with self.device.current():
            self._primary.driver.cuFuncSetAttribute(function, number, value)

    def set_cache_config(self, prefer: object) -> None:
        """Tell the driver to prefer "shared" memory, "l1" cache, "equal" parts, or "none"; it may choose another.

        calls   cuFuncSetCacheConfig
        """
        from .occupancy import cache_config

        function = cuda_h.CUfunction(self.handle)
        with self.device.current():
            self._primary.driver.cuFuncSetCacheConfig(function, cache_config(prefer))

    @property
    def is_loaded(self) -> bool:
        """Tell whether the kernel's code is on the device; with lazy loading, it is loaded at the first use.

        calls   cuFuncIsLoaded
        """
        state, function = ctypes.c_uint(), cuda_h.CUfunction(self.handle)
        with self.device.current():
            self._primary.driver.cuFuncIsLoaded(ctypes.byref(state), function)
        return state.value == 1  # CU_FUNCTION_LOADING_STATE_LOADED

    def load(self) -> None:
        """Load the kernel's code now, so that its first launch takes no longer than the others.

        calls   cuFuncLoad
        """
        function = cuda_h.CUfunction(self.handle)
        with self.device.current():
            self._primary.driver.cuFuncLoad(function)

    # -- occupancy

    def max_active_blocks(
        self, block: int | Sequence[int], shared_bytes: int = 0, *, disable_caching_override: bool = False
    ) -> int:
        """Return the number of blocks of this kernel that a multiprocessor can run at the same time.

        block         threads in a block: a number, or up to three
        shared_bytes  dynamic shared memory of a block
        disable_caching_override  if a block fits only without caching of global memory, return 0 instead of the number
                      of blocks without caching
        calls         cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags
        raises        ValueError  a negative number; a block or shared memory that does not fit gives 0
        """
        from .occupancy import max_active_blocks

        found: int = max_active_blocks(self, block, shared_bytes, disable_caching_override)
        return found

    def suggest_block(self, shared_bytes: object = 0, *, limit: int = 0) -> Suggestion:
        """Return (block, grid): the block with the highest occupancy, and the smallest grid that fills the device.

        shared_bytes  dynamic shared memory of a block: a number, or a function of the number of threads in a block
        limit         the largest block; 0 is the kernel's own limit
        calls         cuOccupancyMaxPotentialBlockSize, cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags
        raises        ValueError, TypeError  an impossible number, also from the function; any exception of the function
        """
        from .occupancy import suggest_block

        return suggest_block(self, shared_bytes, limit)

    def available_dynamic_shared(self, blocks: int, block: int | Sequence[int]) -> int:
        """Return how many bytes of dynamic shared memory each block may have if `blocks` run on a multiprocessor.

        calls   cuOccupancyAvailableDynamicSMemPerBlock
        raises  ValueError  this number of blocks does not fit on a multiprocessor
        """
        from .occupancy import available_dynamic_shared

        found: int = available_dynamic_shared(self, blocks, block)
        return found

    def max_potential_cluster_size(self, block: int | Sequence[int], shared_bytes: int = 0, **options: object) -> int:
        """Return the largest number of blocks in a cluster with this block; `options` are those of configure().

        calls   cuOccupancyMaxPotentialClusterSize
        raises  Unsupported  the device has no clusters
        """
        from .occupancy import cluster_occupancy

        found: int = cluster_occupancy(self, "cuOccupancyMaxPotentialClusterSize", block, shared_bytes, None, options)
        return found

    def max_active_clusters(
        self,
        block: int | Sequence[int],
        shared_bytes: int = 0,
        *,
        cluster: int | Sequence[int] | None = None,
        **options: object,
    ) -> int:
        """Return the number of clusters of this kernel that the device can run at the same time.

        cluster  blocks in a cluster; None is the size that the kernel was compiled with
        options  those of configure()
        calls    cuOccupancyMaxActiveClusters
        raises   Unsupported  the device has no clusters
        """
        from .occupancy import cluster_occupancy

        found: int = cluster_occupancy(self, "cuOccupancyMaxActiveClusters", block, shared_bytes, cluster, options)
        return found

    # -- launches

    def configure(
        self,
        *surplus: object,
        grid: int | Sequence[int] | None = None,
        block: int | Sequence[int] | None = None,
        shared_bytes: int = 0,
        stream: object = None,
        cooperative: bool = False,
        cluster: int | Sequence[int] | None = None,
        **options: object,
    ) -> Launch:
        """Check a configuration once, and return a callable that takes the arguments.

        grid, block   blocks in the grid and threads in a block: a number, or up to three, x first; both are needed
        shared_bytes  dynamic shared memory; above 48 KiB it is requested from the driver
        stream        the stream to launch on; None is the legacy default stream
        cooperative   all blocks run at the same time, so that they can synchronize
        cluster       blocks in a cluster (compute capability 9.0); the grid is counted in blocks, too
        options       priority, programmatic_stream_serialization, programmatic_event, launch_completion_event,
                      mem_sync_domain, mem_sync_domain_map, preferred_cluster, cluster_scheduling_policy,
                      access_policy_window, preferred_shared_carveout and the others of options.py; an
                      option that is None is left out
        raises        ValueError, TypeError  a number that is not possible for this kernel or device
                      Unsupported  this device or driver does not have an option
        """
        handle = stream_handle(stream, self._primary)
        attributes = None
        if cooperative is not False or cluster is not None or options:
            attributes, shared_bytes = self._read_attributes(cooperative, cluster, options, shared_bytes)
        if surplus or grid is None or block is None:
            raise self._without_shape("configure", surplus, grid, block)
        shape = *extents("grid", grid), *extents("block", block), as_int("shared_bytes", shared_bytes)
        return Launch._of(self, self._prepare(shape, handle, stream, attributes))

    def launch(
        self,
        *args: object,
        grid: int | Sequence[int] | None = None,
        block: int | Sequence[int] | None = None,
        shared_bytes: int = 0,
        stream: object = None,
        cooperative: bool = False,
        cluster: int | Sequence[int] | None = None,
        **options: object,
    ) -> None:
        """Launch once; see configure for the configuration, Launch for the arguments. Grid and block are needed.

        A call takes a launch that an earlier call has prepared for the stream, and changes its grid, block and shared
        memory if they are different. So a new configuration costs nearly the same as one that was used before.
        """
        handle: int | None
        if stream is None:
            handle = _LEGACY
        elif not (
            isinstance(stream, Stream)
            and (stream._primary is self._primary or stream._primary is None)
            and (handle := stream._handle) is not None
        ):
            handle = stream_handle(stream, self._primary)
        key: object = handle
        attributes = None
        if cooperative is not False or cluster is not None or options:
            attributes, shared_bytes = self._read_attributes(cooperative, cluster, options, shared_bytes)
            if attributes is not None:
                key = handle, attributes.key
        if type(shared_bytes) is not int:
            shared_bytes = as_int("shared_bytes", shared_bytes)
        shape: Shape
        if type(grid) is int and type(block) is int and grid > 0 and block > 0:  # (saves 200 ns of 1,000)
            shape = grid, 1, 1, block, 1, 1, shared_bytes
        elif grid is None or block is None:
            raise self._without_shape("launch", args, grid, block)
        else:
            shape = *extents("grid", grid), *extents("block", block), shared_bytes
        try:
            idle = self._idle.answers[key]
            prepared, function = pair = idle.pop()  # no other thread has it now
        except LookupError:
            idle, pair = self._another(key, shape, handle, attributes)
            prepared, function = pair
        prepared.attributes = attributes
        if prepared.shape != shape:
            self._set_shape(prepared, shape)
        prepared.stream = stream  # the code of an argument may close it, and what the attributes use
        function(*args)
        prepared.stream = prepared.attributes = None  # keep nothing until the next call: that would be a leak
        idle.append(pair)

    def _read_attributes(
        self, cooperative: object, cluster: object, options: dict[str, object], shared_bytes: object
    ) -> tuple[LaunchAttributes | None, Any]:
        """Read the options of a launch; return its attributes and its shared memory, which an option may give.

        The result for options that are numbers and names is kept, and used again for the same options.
        """
        if cluster is not None:
            cluster = extents("cluster", cluster)
        known, cooperative = self._known.attributes, cooperative is not None and as_bool("cooperative", cooperative)
        key: object = cooperative, cluster
        if not (options or cooperative or cluster):
            return None, shared_bytes
        if options:
            key = cooperative, cluster, *options.items(), *map(type, options.values())
        try:
            return known.answers[key], shared_bytes
        except (KeyError, TypeError):  # a new configuration, or one with a list, which cannot be a key
            pass
        if not options:
            made: LaunchAttributes | None = attributes_of(self, cooperative, cluster)
        else:
            from .options import read_options

            made, shared_bytes, is_plain = read_options(self, cooperative, cluster, options, shared_bytes)
            if not is_plain:
                return made, shared_bytes
        if made is not None:
            known.keep(key, made)
        return made, shared_bytes

    def _another(
        self, key: object, shape: Shape, handle: int, attributes: LaunchAttributes | None
    ) -> tuple[deque[Idle], Idle]:
        """Return a launch for a stream, after the queue to put it into after its use."""
        try:
            prepared = self._prepare(shape, handle, None, attributes)
        except Exception as error:
            error.__suppress_context__ = True  # the LookupError of launch() would be shown before it
            raise
        return self._idle.keep(key, deque()), (prepared, function_of(prepared))

    def _limits(self) -> Limits:
        """Return the limits of this kernel, which are read at its first launch; there is one object for a function."""
        limits = self._known.limits
        if limits is None:
            there = self.module._limits
            limits = there.get(self._known.function) or there.setdefault(self._known.function, Limits(self))
            self._known.limits = limits
        return limits

    def _prepare(self, shape: Shape, handle: int, stream: object, attributes: LaunchAttributes | None) -> Prepared:
        """Check a configuration, and prepare its launches; the result does not keep this kernel alive."""
        self.module.handle  # raises Closed
        packing = self._known.packing
        if packing is None:
            packing = self._known.packing = Packing(self)
        prepared = Prepared(packing, self.module, handle, stream, attributes)
        self._set_shape(prepared, shape)
        if attributes is not None and attributes.is_large:
            from .occupancy import check_cluster

            check_cluster(self, attributes, shape)
        return prepared

    def _set_shape(self, prepared: Prepared, shape: Shape) -> None:
        """Check grid, block and shared memory, and give them to a launch that no other thread uses now."""
        limits = self._limits()
        limits.write(shape, prepared.attributes, prepared.words)
        prepared.shape = shape
        if shape[6] > limits.granted:
            grant_shared(self.module, limits, shape[6])

    def __call__(self, *args: object, **named: object) -> NoReturn:
        raise TypeError(f"a kernel is launched with a grid and a block: {self._how()}")

    def __getitem__(self, configuration: object) -> NoReturn:
        raise TypeError(f"a kernel takes its grid and block by name, not in brackets: {self._how()}")

    def _without_shape(self, method: str, given: tuple[object, ...], grid: object, block: object) -> TypeError:
        """Return the error for a launch without grid= or block=, or for a configuration with arguments."""
        lacking = " and ".join(f"{name}=" for name, value in (("grid", grid), ("block", block)) if value is None)
        text = f"{self.name}.{method}() needs {lacking}" if lacking else f"{self.name}.{method}() takes no arguments"
        too_many = len(given) == len(self.parameters) + 2
        place = "first" if _is_shape(given[:2], too_many) else "last" if _is_shape(given[-2:], too_many) else ""
        if method == "launch" and lacking and place:
            text += f": the grid and the block are not the {place} arguments, they are given by name"
            if len(given) == 3 and type(given[2]) in (tuple, list):
                text += ", and the arguments of the kernel one by one, not as a tuple"
        return TypeError(f"{text}: {self._how()}")

    def _how(self) -> str:
        return (
            f"{self.name}.launch(..., grid=blocks, block=threads), or configure(grid=blocks, block=threads) and call "
            "the result with the arguments"
        )

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a Kernel belongs to a driver's handle of this process, and cannot be copied or pickled")

    def __repr__(self) -> str:
        if self.module.closed:
            return f"<Kernel {self.name} of a closed module>"
        known = self._known.parameters
        words = [f"{'pointer' if p.pointer else p.type or f'{p.size} bytes'} {p.name}".rstrip() for p in known or ()]
        said = "parameters unknown" if known is None else ", ".join(words)
        return f"<Kernel {self.name}({said}) on device {self.module.device.ordinal}>"


def _is_shape(given: tuple[object, ...], numbers: bool) -> bool:
    """Tell whether two values look like a grid and a block; `numbers`: even if both are numbers."""
    kinds = {type(each) for each in given}
    return len(given) == 2 and kinds <= {tuple, list, int} and (numbers or kinds != {int})
