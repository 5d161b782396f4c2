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


__all__ = ["Kernel"]

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
_MOST_KEPT = 256  # launches that a kernel keeps prepared


class Kernel:
    """A kernel of a module.

    name        as in the code
    parameters  [Parameter]: name, offset, size, type
    """

    __slots__ = (
        "module",
        "name",
        "_function",
        "_parameters",
        "_declared",
        "_attributes",
        "_limits",
        "_packing",
        "_launches",
        "_primary",
    )

    def __init__(self, module: names.Module, name: str, function: int, wanted: list[Declared] | None) -> None:
        self.module, self.name, self._function, self._declared = module, name, function, wanted
        self._attributes: dict[str, int] = {}
        self._limits: Limits | None = None  # these three are made at the first launch
        self._packing: Packing | None = None
        self._launches: dict[Any, Launch] = {}
        self._primary = module.device._primary
        self._parameters = self._read_parameters()
        if wanted is not None:
            self._parameters = _agree(name, self._parameters, wanted)

    @property
    def handle(self) -> int:
        """Return the CUfunction; raises Closed if the module is closed."""
        self.module.handle
        return self._function

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
        if self._parameters is None:
            raise TypeError(
                f"kernel {self.name}: neither the code nor the driver lists its parameters (a cubin needs a driver of "
                f"CUDA 12.4): declare them, module.kernel({self.name!r}, parameters=[...])"
            )
        return list(self._parameters)

    def _declared_at(self, index: int) -> Declared | None:
        return None if self._declared is None else self._declared[index]

    def _read_parameters(self) -> list[Parameter] | None:
        """Return the parameters in the PTX if the driver agrees, else the driver's offsets and sizes, else None."""
        said, told = self.module._signatures.get(self.name), self._ask_driver()
        if said is not None and (not told or [(p.offset, p.size) for p in said] == told):
            return said
        return None if told is None else [Parameter("", offset, size, "") for offset, size in told]

    def _ask_driver(self) -> list[tuple[int, int]] | None:
        """Return each parameter's offset and size, or None if the driver does not list them.

        calls   cuFuncGetParamInfo
        """
        loaded = self.device._primary.driver
        if not loaded.has("cuFuncGetParamInfo"):
            return None
        offset, size = ctypes.c_size_t(), ctypes.c_size_t()
        found: list[tuple[int, int]] = []
        with self.device.current():
            while True:
                try:
                    loaded.cuFuncGetParamInfo(
                        cuda_h.CUfunction(self._function), len(found), ctypes.byref(offset), ctypes.byref(size)
                    )
                except InvalidUse:  # past the last one
                    return found
                found.append((offset.value, size.value))

    # -- facts

    @property
    def attributes(self) -> dict[str, int]:
        """Return the driver's facts about the compiled kernel; sizes are in bytes, versions are such as 75.

        calls   cuFuncGetAttribute
        """
        known = self._attributes
        if not known:
            value, known = ctypes.c_int(), {}  # stored when it is complete: several threads may be here
            with self.device.current():
                for name, number in _ATTRIBUTES.items():
                    self.device._primary.driver.cuFuncGetAttribute(
                        ctypes.byref(value), number, cuda_h.CUfunction(self.handle)
                    )
                    known[name] = value.value
            self._attributes = known
        return dict(known)

    def _forget_attributes(self) -> None:
        self._attributes, self._limits = {}, None

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
        cooperative   all blocks run at once and may synchronise
        cluster       blocks in a cluster (compute capability 9.0)
        raises        ValueError, TypeError  a number that is not possible for this kernel or device
        """
        handle = stream_handle(stream, self.device)
        if isinstance(stream, Stream):
            stream.queue()  # from now on, closing it invalidates the token
        launch = self._prepare(
            extents("grid", grid),
            extents("block", block),
            whole("shared_bytes", shared_bytes),
            handle,
            bool(cooperative),
            None if cluster is None else extents("cluster", cluster),
        )
        launch.kernel, launch.stream = self, stream
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

        The prepared launch is kept for later calls with the same values, in whatever form they are given.
        """
        if stream is None:
            handle = _LEGACY
        elif type(stream) is Stream and stream._primary is self._primary and stream._handle is not None:
            handle = stream._handle
        else:
            handle = stream_handle(stream, self.module.device)
        key = (
            extents("grid", grid),
            extents("block", block),
            shared_bytes if type(shared_bytes) is int else whole("shared_bytes", shared_bytes),
            handle,
            True if cooperative else False,
            None if cluster is None else extents("cluster", cluster),
        )
        launch = self._launches.get(key)
        if launch is None:
            launch = self._prepare(*key)
            if len(self._launches) >= _MOST_KEPT:
                self._launches.clear()
            self._launches[key] = launch
        launch(*args)

    def _prepare(
        self,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        shared_bytes: int,
        handle: int,
        cooperative: bool,
        cluster: tuple[int, int, int] | None,
    ) -> Launch:
        """Check a configuration, and return a Launch that refers neither to this kernel nor to the stream object."""
        self.module.handle  # raises Closed
        limits = self._limits
        if limits is None:
            limits = self._limits = Limits(self)
        limits.check(grid, block, shared_bytes, cluster)
        if shared_bytes > limits.granted:
            grant_shared(self, shared_bytes)
        packing = self._packing
        if packing is None:
            packing = self._packing = Packing(self)
        return prepare(packing, self.module, grid, block, shared_bytes, handle, cooperative, cluster)

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
