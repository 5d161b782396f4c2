"""Kernels: the facts about a function of a module, and its launches.

What it is   `Kernel`: its parameters, its attributes, and configure() and launch(), which check a configuration.
What not     it loads no code (module.py), and packs no argument (packing.py).
Source       CUDA Driver API, "Execution Control", "Occupancy"
Read next    configuration.py, launch.py
"""

from __future__ import annotations

import ctypes

from ... import names
from ...errors import InvalidUse
from ...headers import cuda_h
from ..stream import Stream
from .arguments import Declared
from .configuration import Limits, extents, grant_shared, whole
from .launch import Launch, Packing, prepare, stream_handle
from .signature import Parameter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .configuration import Extents, Shape

__all__ = ["Kernel", "Known"]

_LEGACY = 1  # CU_STREAM_LEGACY

# Our name of a function attribute, and its number: CU_FUNC_ATTRIBUTE_...
_ATTRIBUTES = {
    "max_threads_per_block": 0,
    "shared_bytes": 1,
    "constant_bytes": 2,
    "local_bytes": 3,
    "registers": 4,
    "ptx_version": 5,
    "binary_version": 6,
    "max_dynamic_shared_bytes": 8,
    "preferred_shared_carveout": 9,
}
_MOST_KEPT = 256  # streams for which a kernel keeps launches


class Known:
    """The facts about a function of a module; all Kernel objects of one name share them. They keep no module alive.

    idle  the launches that Kernel.launch keeps for later calls, by their stream; a call takes one and puts it back
    """

    __slots__ = ("function", "parameters", "declared", "attributes", "limits", "packing", "idle")

    def __init__(self, module: names.Module, name: str, function: int, wanted: list[Declared] | None) -> None:
        self.function, self.declared = function, wanted
        self.attributes: dict[str, int] = {}
        self.limits: Limits | None = None  # these two are made at the first launch
        self.packing: Packing | None = None
        self.idle: dict[Any, list[Launch]] = {}
        self.parameters = _read_parameters(module, name, function)
        if wanted is not None:
            self.parameters = _agree(name, self.parameters, wanted)


class Kernel:
    """A kernel of a module.

    name        as in the code
    parameters  [Parameter]: name, offset, size, type
    """

    __slots__ = ("module", "name", "_known", "_idle", "_primary")

    def __init__(self, module: names.Module, name: str, known: Known) -> None:
        self.module, self.name, self._known, self._idle = module, name, known, known.idle
        self._primary = module.device._primary

    @property
    def handle(self) -> int:
        """Return the CUfunction; raises Closed if the module is closed."""
        self.module.handle
        return self._known.function

    @property
    def device(self) -> names.Device:
        """Return the device that the module is on."""
        return self.module.device

    # -- parameters

    @property
    def parameters(self) -> list[Parameter]:
        """Return the parameters.

        raises  TypeError  a cubin with a driver before 12.4, which does not list them: they must be declared
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
        return None if declared is None else declared[index]

    # -- facts

    @property
    def attributes(self) -> dict[str, int]:
        """Return the driver's facts about the compiled kernel; sizes are in bytes, versions are such as 75.

        calls   cuFuncGetAttribute
        """
        known = self._known.attributes
        if not known:
            value, known = ctypes.c_int(), {}  # stored when it is complete: several threads may be here
            with self.device.current():
                for name, number in _ATTRIBUTES.items():
                    self.device._primary.driver.cuFuncGetAttribute(
                        ctypes.byref(value), number, cuda_h.CUfunction(self.handle)
                    )
                    known[name] = value.value
            self._known.attributes = known
        return dict(known)

    def _forget_attributes(self) -> None:
        self._known.attributes = {}

    def occupancy(self, block: int | names.Sequence[int], shared_bytes: int = 0) -> int:
        """Return the number of blocks of this kernel that a multiprocessor can run at the same time.

        calls   cuOccupancyMaxActiveBlocksPerMultiprocessor
        """
        x, y, z = extents("block", block)
        blocks = ctypes.c_int()
        with self.device.current():
            self.device._primary.driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(
                ctypes.byref(blocks), cuda_h.CUfunction(self.handle), x * y * z, shared_bytes
            )
        return blocks.value

    # -- launches

    def configure(
        self,
        *,
        grid: int | names.Sequence[int],
        block: int | names.Sequence[int],
        shared_bytes: int = 0,
        stream: names.Any = None,
        cooperative: bool = False,
        cluster: int | names.Sequence[int] | None = None,
    ) -> Launch:
        """Check a configuration once, and return a callable that takes the arguments.

        grid, block   blocks in the grid and threads in a block: a number, or up to three, x first
        shared_bytes  dynamic shared memory; above 48 KiB it is requested from the driver
        stream        the stream to launch on; None is the legacy default stream
        cooperative   all blocks run at the same time, so that they can synchronize
        cluster       blocks in a cluster (compute capability 9.0)
        raises        ValueError, TypeError  a number that is not possible for this kernel or device
        """
        handle = stream_handle(stream, self._primary)
        launch = self._prepare(
            (extents("grid", grid), extents("block", block), whole("shared_bytes", shared_bytes)),
            handle,
            stream,
            bool(cooperative),
            None if cluster is None else extents("cluster", cluster),
        )
        launch.kernel = self
        return launch

    def launch(
        self,
        *args: names.Any,
        grid: int | names.Sequence[int],
        block: int | names.Sequence[int],
        shared_bytes: int = 0,
        stream: names.Any = None,
        cooperative: bool = False,
        cluster: int | names.Sequence[int] | None = None,
    ) -> None:
        """Launch once; see configure for the configuration, Launch for the arguments.

        A call takes a launch that an earlier one has prepared for the stream, and changes its grid, block and shared
        memory if they are others: so each configuration costs nearly the same, whether it was used before or not.
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
        shape = (
            extents("grid", grid),
            extents("block", block),
            shared_bytes if type(shared_bytes) is int else whole("shared_bytes", shared_bytes),
        )
        key: Any = handle
        if cooperative or cluster is not None:
            key = handle, bool(cooperative), None if cluster is None else extents("cluster", cluster)
        try:
            idle = self._idle[key]
            launch = idle.pop()  # no other thread has it now
        except LookupError:
            idle, launch = self._another(key, shape)
        if launch._shape != shape:  # this saves 300 ns of 1,350 where the shape is the same as before
            limits: Any = self._known.limits
            limits.write(shape, None if key is handle else key[2], launch._words)
            launch._shape = shape
            if shape[2] > limits.granted:
                grant_shared(self, limits, shape[2])
        launch(*args)
        idle.append(launch)

    def _another(self, key: Any, shape: Any) -> tuple[list[Launch], Launch]:
        """Return a launch for a stream, and the list to put it into after its use."""
        handle, cooperative, cluster = key if type(key) is tuple else (key, False, None)
        launch = self._prepare(shape, handle, None, cooperative, cluster)
        if len(self._idle) >= _MOST_KEPT:
            self._idle.clear()
        return self._idle.setdefault(key, []), launch

    def _prepare(self, shape: Shape, handle: int, stream: Any, cooperative: bool, cluster: Extents | None) -> Launch:
        """Check a configuration, and return a Launch that does not refer to this kernel."""
        self.module.handle  # raises Closed
        known = self._known
        limits = known.limits
        if limits is None:
            limits = known.limits = Limits(self)
        packing = known.packing
        if packing is None:
            packing = known.packing = Packing(self)
        launch = prepare(packing, self.module, handle, stream, cooperative, cluster)
        limits.write(shape, cluster, launch._words)
        launch._shape = shape
        if shape[2] > limits.granted:
            grant_shared(self, limits, shape[2])
        return launch

    def __call__(self, *args: names.Any, **named: names.Any) -> names.NoReturn:
        raise TypeError(f"a kernel is launched with a grid and a block: {self._how()}")

    def __getitem__(self, configuration: names.Any) -> names.NoReturn:
        raise TypeError(f"a kernel takes its grid and block by name, not in brackets: {self._how()}")

    def _how(self) -> str:
        return (
            f"{self.name}.launch(..., grid=blocks, block=threads), or configure(grid=blocks, block=threads) and call "
            "the result with the arguments"
        )

    def __repr__(self) -> str:
        return f"<Kernel {self.name}>"


def _read_parameters(module: names.Module, name: str, function: int) -> list[Parameter] | None:
    """Return the parameters in the PTX if the driver agrees, else the driver's offsets and sizes, else None."""
    said, told = module._signatures.get(name), _ask_driver(module, function)
    if said is not None and (not told or [(p.offset, p.size) for p in said] == told):
        return said
    return None if told is None else [Parameter("", offset, size, "") for offset, size in told]


def _ask_driver(module: names.Module, function: int) -> list[tuple[int, int]] | None:
    """Return each parameter's offset and size, or None if the driver does not list them.

    calls   cuFuncGetParamInfo
    """
    loaded = module.device._primary.driver
    if not loaded.has("cuFuncGetParamInfo"):
        return None
    offset, size = ctypes.c_size_t(), ctypes.c_size_t()
    found: list[tuple[int, int]] = []
    with module.device.current():
        while True:
            try:
                loaded.cuFuncGetParamInfo(
                    cuda_h.CUfunction(function), len(found), ctypes.byref(offset), ctypes.byref(size)
                )
            except InvalidUse:  # past the last one
                return found
            found.append((offset.value, size.value))


def _agree(name: str, have: list[Parameter] | None, wanted: list[Declared]) -> list[Parameter]:
    """Lay out declared parameters as C does, and compare them with those of the code and the driver.

    raises  ValueError  another number of parameters, or another size
    """
    laid, offset = [], 0
    for index, one in enumerate(wanted):
        offset = (offset + one.alignment - 1) // one.alignment * one.alignment
        known = have[index].name if have is not None and index < len(have) else ""
        laid.append(
            Parameter(known, offset, one.size, one.type if one.type != "pointer" else "u64", one.type == "pointer")
        )
        offset += one.size
    if have is not None:
        if len(have) != len(laid):
            raise ValueError(f"kernel {name} has {len(have)} parameters; {len(laid)} were declared")
        for index, (ours, theirs) in enumerate(zip(laid, have)):
            if ours.size != theirs.size:
                raise ValueError(
                    f"kernel {name}: parameter {index} has {theirs.size} bytes; it was declared with {ours.size}"
                )
            ours.offset = theirs.offset  # .align may be larger than in C
    return laid
