"""Names that only annotations use, imported when the annotations are evaluated.

What it is   Public functions and classes are annotated with names that exist when their module runs, so that
             typing.get_type_hints() works. Names that a module has no other reason to import come from here:
             `names.Any`, `names.Graph`. They are imported on access only: importing typing takes milliseconds, and
             a class of a higher floor may not be imported at all.
What not     names for private functions: those are imported under `if TYPE_CHECKING`, as they are never evaluated.
Source       PEP 563 (annotations are text), PEP 562 (a module's __getattr__)
Read next    doors.py
"""

from __future__ import annotations

from . import doors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable as Callable
    from collections.abc import Generator as Generator
    from collections.abc import Iterable as Iterable
    from collections.abc import Iterator as Iterator
    from collections.abc import Mapping as Mapping
    from collections.abc import Sequence as Sequence
    from os import PathLike as PathLike
    from types import TracebackType as TracebackType
    from typing import Any as Any
    from typing import TextIO as TextIO

    from typing_extensions import Self as Self  # (type checkers bring their own)

    from .arrays.strided import StridedView as StridedView
    from .driver import Driver as Driver
    from .gpu.device import Device as Device
    from .gpu.devices.green import GreenContext as GreenContext
    from .gpu.devices.green import Split as Split
    from .gpu.devices.limits import Limits as Limits
    from .gpu.devices.peers import PeerAccess as PeerAccess
    from .gpu.devices.peers import PeerAttributes as PeerAttributes
    from .gpu.graph import Graph as Graph
    from .gpu.graphs.conditions import Condition as Condition
    from .gpu.graphs.executable import Executable as Executable
    from .gpu.graphs.nodes import AllocationNode as AllocationNode
    from .gpu.graphs.nodes import ChildNode as ChildNode
    from .gpu.graphs.nodes import ConditionalNode as ConditionalNode
    from .gpu.graphs.nodes import ExecutableNode as ExecutableNode
    from .gpu.graphs.nodes import Node as Node
    from .gpu.graphs.recording import Recording as Recording
    from .gpu.kernels.kernel import Kernel as Kernel
    from .gpu.kernels.launch import Launch as Launch
    from .gpu.kernels.module import Module as Module
    from .gpu.launches.attributes import KernelAttributes as KernelAttributes
    from .gpu.launches.occupancy import Suggestion as Suggestion
    from .gpu.memories.pool import MemoryPool as MemoryPool
    from .gpu.memories.virtual import VirtualMemory as VirtualMemory
    from .gpu.memory import Memory as Memory
    from .gpu.processes.handles import SharedHandle as SharedHandle
    from .gpu.stream import Event as Event
    from .gpu.stream import Stream as Stream
    from .gpu.streams.attributes import StreamAttributes as StreamAttributes
    from .gpu.textures.arrays import OpaqueArray as OpaqueArray
    from .gpu.textures.mipmapped import MipmappedArray as MipmappedArray
    from .gpu.textures.surfaces import SurfaceObject as SurfaceObject
    from .gpu.textures.textures import TextureObject as TextureObject
    from .loadable import Library as Library

__all__: list[str] = []  # every name is made on access

_ELSEWHERE = {  # names of this package that are not public
    "Library": "loadable",
    "Driver": "driver",
    "Condition": "gpu.graphs.conditions",
    "Executable": "gpu.graphs.executable",
    "Node": "gpu.graphs.nodes",
    "Recording": "gpu.graphs.recording",
    "AllocationNode": "gpu.graphs.nodes",
    "ChildNode": "gpu.graphs.nodes",
    "ConditionalNode": "gpu.graphs.nodes",
    "ExecutableNode": "gpu.graphs.nodes",
    "KernelAttributes": "gpu.launches.attributes",
    "Suggestion": "gpu.launches.occupancy",
    "StreamAttributes": "gpu.streams.attributes",
    "Limits": "gpu.devices.limits",
    "PeerAccess": "gpu.devices.peers",
    "PeerAttributes": "gpu.devices.peers",
    "GreenContext": "gpu.devices.green",
    "Split": "gpu.devices.green",
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name in _ELSEWHERE:
        return getattr(import_module(f".{_ELSEWHERE[name]}", __package__), name)
    for standard in ("typing", "types", "os"):
        found = getattr(import_module(standard), name, None)
        if found is not None:
            return found
    if name == "Self":  # typing has it from Python 3.11 on
        return import_module("typing").Any
    return getattr(doors.facade(), name)
