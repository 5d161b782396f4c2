"""The CUDA driver from plain Python: no compiler, no dependency, one folder to copy.

What it is   every public name, imported on first use (PEP 562), and the choice of the driver. help() of
             each name tells more, such as help(view) or help(Device.allocate).
Functions    use(driver)  choose the driver: "nvidia", "emulator" with its settings, or the path of a library
             devices()  list the devices
             view(x)  view any array, without a copy
             copy(dst, src), copy_batch(pairs)  copy between any two arrays
             prefetch_batch(), discard_batch()  move managed memory before it is used; give up its contents
             compile(source, target), link(images, target)  make device code without a device
             synchronize()  wait for all work of the current device
             explain(x)  show what an object says about its memory
             trace(), profile(), range(name)  show driver calls; start a profiler; name a part of a program
             step(kernel, ...)  what one warp of a kernel does on the emulator, instruction by instruction
             progress(iterable)  show how far a loop has come
             receive_on(device)  choose where arrays are unpickled
Devices      Device(0)  a GPU: it makes memory, arrays, streams, events, modules, textures and graphs
             Stream, Event, Graph  the order of work
Memory       Memory, ManagedMemory, VirtualMemory, MemoryPool, SharedHandle  bytes, and where they come from
             StridedView  an array: bytes with a shape and an element type
             OpaqueArray, MipmappedArray, TextureObject, SurfaceObject, TensorMap  images and tensors
Code         Module, Library, Kernel, Launch  loaded code, its kernels, and a configured launch
             In(x)  pass a read-only array to a kernel
The driver   cu  every function, constant and structure of cuda.h by its C name: cu.cuMemAlloc_v2(...)
             NO_SYNC  a value for stream= that asks for no ordering
Errors       RawCudaError, and under it: CudaError (OutOfMemory, InvalidUse, NotFound, Unsupported, CompileFailed,
             LinkFailed, ContextLost), DriverNotFound, SymbolNotFound, CompilerNotFound, LinkerNotFound,
             CacheDamaged, ForkedAfterInit, Closed, ProtocolError, PtxError
What not     importing it loads no library, reads no environment variable and changes nothing.
Read next    headers/cuda_h.py (the driver's functions, as C declares them), driver.py (the call)
"""

from __future__ import annotations

import sys as _sys

__version__ = "0.1.0"

# One sentence, without a traceback if Python was asked to run the package: python3 -m.
if _sys.version_info < (3, 9):  # noqa: UP036 - an older Python reads this line, too
    raise (SystemExit if _sys.argv[:1] == ["-m"] else ImportError)(
        f"{__name__} needs Python 3.9 or later, and this is {'.'.join(map(str, _sys.version_info[:3]))} "
        f"({_sys.executable}): start it with a later Python, such as python3.12"
    )

# public name: the module that defines it
_HOMES = {
    "use": "driver",
    "trace": "tools.traces",
    "Device": "gpu.devices.device",
    "devices": "gpu.devices.device",
    "synchronize": "gpu.devices.device",
    "Stream": "gpu.streams.stream",
    "Event": "gpu.streams.stream",
    "NO_SYNC": "gpu.streams.stream",
    "Memory": "gpu.memory.memory",
    "ManagedMemory": "gpu.memory.memory",
    "MemoryPool": "gpu.memory.pool",
    "VirtualMemory": "gpu.memory.virtual",
    "Graph": "gpu.graphs.graph",
    "Module": "gpu.kernels.module",
    "Library": "gpu.kernels.libraries",
    "Kernel": "gpu.kernels.kernel",
    "Launch": "gpu.kernels.launch",
    "In": "gpu.kernels.declared_parameters",
    "view": "arrays.strided",
    "copy": "arrays.making",
    "copy_batch": "gpu.copies.batch",
    "prefetch_batch": "gpu.memory.managed",
    "discard_batch": "gpu.memory.managed",
    "StridedView": "arrays.strided",
    "receive_on": "arrays.pickling",
    "OpaqueArray": "gpu.textures.opaque_arrays",
    "MipmappedArray": "gpu.textures.mipmapped",
    "TextureObject": "gpu.textures.texture",
    "SurfaceObject": "gpu.textures.surfaces",
    "TensorMap": "gpu.textures.tensor_map",
    "SharedHandle": "gpu.processes.shared_handles",
    "compile": "compiler.program",
    "profile": "gpu.devices.profiling",
    "range": "gpu.devices.ranges",
    "link": "compiler.linking",
    "explain": "tools.explaining",
    "progress": "tools.progress",
    "step": "tools.steps",
    "RawCudaError": "errors",
    "DriverNotFound": "errors",
    "SymbolNotFound": "errors",
    "CudaError": "errors",
    "OutOfMemory": "errors",
    "InvalidUse": "errors",
    "NotFound": "errors",
    "Unsupported": "errors",
    "CompileFailed": "errors",
    "CompilerNotFound": "errors",
    "CacheDamaged": "errors",
    "LinkFailed": "errors",
    "LinkerNotFound": "errors",
    "ContextLost": "errors",
    "ForkedAfterInit": "errors",
    "Closed": "errors",
    "ProtocolError": "errors",
    "PtxError": "errors",
}

__all__ = [name for name in (*_HOMES, "cu") if name != "range"]  # `import *` must not hide Python's own range

_LEFT_OUT: dict[str, str] = {}  # in a vendored part: what the error says about each public name that the part lacks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .arrays.making import copy as copy
    from .arrays.pickling import receive_on as receive_on
    from .arrays.strided import StridedView as StridedView
    from .arrays.strided import view as view
    from .compiler.linking import link as link
    from .compiler.program import compile as compile
    from .driver import Driver
    from .driver import Library as _Loadable
    from .driver import use as use
    from .errors import CacheDamaged as CacheDamaged
    from .errors import Closed as Closed
    from .errors import CompileFailed as CompileFailed
    from .errors import CompilerNotFound as CompilerNotFound
    from .errors import ContextLost as ContextLost
    from .errors import CudaError as CudaError
    from .errors import DriverNotFound as DriverNotFound
    from .errors import ForkedAfterInit as ForkedAfterInit
    from .errors import InvalidUse as InvalidUse
    from .errors import LinkerNotFound as LinkerNotFound
    from .errors import LinkFailed as LinkFailed
    from .errors import NotFound as NotFound
    from .errors import OutOfMemory as OutOfMemory
    from .errors import ProtocolError as ProtocolError
    from .errors import PtxError as PtxError
    from .errors import RawCudaError as RawCudaError
    from .errors import SymbolNotFound as SymbolNotFound
    from .errors import Unsupported as Unsupported
    from .gpu.copies.batch import copy_batch as copy_batch
    from .gpu.devices.device import Device as Device
    from .gpu.devices.device import devices as devices
    from .gpu.devices.device import synchronize as synchronize
    from .gpu.devices.profiling import profile as profile
    from .gpu.devices.ranges import range as range
    from .gpu.graphs.graph import Graph as Graph
    from .gpu.kernels.declared_parameters import In as In
    from .gpu.kernels.kernel import Kernel as Kernel
    from .gpu.kernels.launch import Launch as Launch
    from .gpu.kernels.libraries import Library as Library
    from .gpu.kernels.module import Module as Module
    from .gpu.memory.managed import discard_batch as discard_batch
    from .gpu.memory.managed import prefetch_batch as prefetch_batch
    from .gpu.memory.memory import ManagedMemory as ManagedMemory
    from .gpu.memory.memory import Memory as Memory
    from .gpu.memory.pool import MemoryPool as MemoryPool
    from .gpu.memory.virtual import VirtualMemory as VirtualMemory
    from .gpu.processes.shared_handles import SharedHandle as SharedHandle
    from .gpu.streams.stream import NO_SYNC as NO_SYNC
    from .gpu.streams.stream import Event as Event
    from .gpu.streams.stream import Stream as Stream
    from .gpu.textures.mipmapped import MipmappedArray as MipmappedArray
    from .gpu.textures.opaque_arrays import OpaqueArray as OpaqueArray
    from .gpu.textures.surfaces import SurfaceObject as SurfaceObject
    from .gpu.textures.tensor_map import TensorMap as TensorMap
    from .gpu.textures.texture import TextureObject as TextureObject
    from .tools.explaining import explain as explain
    from .tools.progress import progress as progress
    from .tools.steps import step as step
    from .tools.traces import trace as trace

    cu: Driver


def _open_emulator(settings: dict[str, Any]) -> _Loadable:
    """Make an emulator with some settings and those of the environment; driver.py calls this."""
    from .emulator import shared

    emulator: _Loadable = shared(**settings)
    return emulator


def _picture(view: StridedView) -> str | None:
    """Draw a view for a notebook; return None in a vendored part without pictures. Views call this."""
    try:
        from .tools.pictures import view_picture
    except (ImportError, NotImplementedError):
        return None
    drawn: str = view_picture(view)
    return drawn


def _graph_picture(graph: Graph) -> str | None:
    """Draw a graph for a notebook; return None in a vendored part without pictures."""
    try:
        from .tools.pictures.graph_pictures import graph_picture
    except (ImportError, NotImplementedError):
        return None
    drawn: str = graph_picture(graph)
    return drawn


def _html(text: str, picture: str) -> str:
    """Return HTML for a notebook. Views and graphs call this if there is a picture."""
    from .tools.pictures.page import shown

    made: str = shown(text, picture)
    return made


def load_ipython_extension(shell: Any) -> None:
    """Add the cell magic %%cuda; `%load_ext` calls this."""
    from .tools.magic import load

    load(shell)


if not TYPE_CHECKING:  # type checkers know the names, so that they find a misspelled one

    def __getattr__(name: str) -> Any:
        if name == "cu" and name in __all__:
            from .driver import InUse

            value: Any = InUse()
        elif name in _HOMES:
            # importlib takes 1 ms to import
            value = getattr(__import__(f"{__name__}.{_HOMES[name]}", fromlist=[name]), name)
        else:
            raise AttributeError(
                f"module {__name__!r} has no attribute {name!r}{_LEFT_OUT.get(name) or _suggestion(name)}"
            )
        globals()[name] = value
        return value


def _suggestion(name: str) -> str:
    """Return the public name that a misspelled name probably means, as text for an error, or ""."""
    from os.path import exists

    modules = [f"{folder}/{name}" for folder in __path__]  # a frozen package has no folder
    if name.startswith("_") or any(exists(module) or exists(module + ".py") for module in modules):
        return ""  # `from . import module` asks for the attribute before it imports the module
    try:
        from .hints import of
    except (ImportError, NotImplementedError):  # a vendored part without it
        hint = ""
    else:
        hint = of("the package", name)
    if hint:
        return f": {hint}"
    from difflib import get_close_matches

    near = get_close_matches(name, __all__, 1)
    if near:
        return f": did you mean {near[0]}?"
    return ""


def _is_for_help() -> bool:
    """Tell whether help() is the caller. It would print the documentation of every class, which is 5,000 lines."""
    from sys import _getframe

    frame: Any = _getframe(2)  # the caller of __dir__
    for _ in (1, 2, 3, 4):  # pydoc asks inspect, which asks dir()
        if frame is None or frame.f_globals.get("__name__") == "pydoc":
            return frame is not None
        frame = frame.f_back
    return False


def __dir__() -> list[str]:
    """List the public names; all other names in this module are internal."""
    if _is_for_help():
        return []
    return sorted({*__all__, *_HOMES, *(name for name in globals() if name.startswith("__"))})
