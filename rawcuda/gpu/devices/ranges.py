"""Ranges: named parts of a program that profilers show, by NVTX.

What it is   `range`, a context manager and decorator.
How          NVTX has no library of its own: a profiler (Nsight Systems, Nsight Compute) starts the program with the
             environment variable NVTX_INJECTION64_PATH, which names a library of the profiler. Its function
             InitializeInjectionNvtx2 gets a function of ours that returns tables of pointers, and it writes the
             addresses of its own functions into them. A range calls these functions. It is also a step of a trace.
Cost         Without a profiler and a trace, entering and leaving a range calls nothing.
Source       NVTX 3: nvToolsExt.h (nvtxRangePushEx, nvtxEventAttributes_t), nvtxDetail/nvtxInit.h and nvtxTypes.h
Read next    profiling.py
"""

from __future__ import annotations

import _thread
import ctypes
from time import perf_counter_ns

from ... import locate, tracing
from ...arguments import as_int, is_suspended
from ...errors import a_kind, worded
from ...interpreter.cpython import free_after_fork, immortal
from ...tracing import listeners

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import TypeVar

    _Result = TypeVar("_Result")

__all__ = ["range"]

_VARIABLE, _INITIALIZE = "NVTX_INJECTION64_PATH", b"InitializeInjectionNvtx2"
_VERSION = 3  # NVTX_VERSION
# The number of entries of each module of NVTX: core, CUDA, OpenCL, CUDART, core 2, synchronization (NVTX_CBID_..._SIZE)
_SIZES = {1: 16, 2: 9, 3: 15, 4: 7, 5: 16, 6: 7}
_CORE, _PUSH, _POP = 1, 8, 11  # NVTX_CB_MODULE_CORE, NVTX_CBID_CORE_RangePushEx, NVTX_CBID_CORE_RangePop
_CALLBACKS, _VERSION_INFO = 1, 3  # NVTX_ETID_...
_ARGB, _ASCII = 1, 1  # NVTX_COLOR_ARGB, NVTX_MESSAGE_TYPE_ASCII
_COLORS = {
    "blue": 0x1F77B4,
    "brown": 0x8C564B,
    "cyan": 0x17BECF,
    "green": 0x2CA02C,
    "grey": 0x7F7F7F,
    "olive": 0xBCBD22,
    "orange": 0xFF7F0E,
    "pink": 0xE377C2,
    "purple": 0x9467BD,
    "red": 0xD62728,
    "yellow": 0xFFD700,
}


class _Attributes(ctypes.Structure):
    """The structure nvtxEventAttributes_t."""

    _fields_ = [
        ("version", ctypes.c_uint16),
        ("size", ctypes.c_uint16),
        ("category", ctypes.c_uint32),
        ("colorType", ctypes.c_int32),
        ("color", ctypes.c_uint32),
        ("payloadType", ctypes.c_int32),
        ("reserved0", ctypes.c_int32),
        ("payload", ctypes.c_uint64),
        ("messageType", ctypes.c_int32),
        ("message", ctypes.c_char_p),
    ]


_Initialize = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
_GetExportTable = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_uint32)
_GetTable = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
_SetVersion = ctypes.CFUNCTYPE(None, ctypes.c_uint32)
_PushEx = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
_Pop = ctypes.CFUNCTYPE(ctypes.c_int)


class _Callbacks(ctypes.Structure):  # NvtxExportTableCallbacks
    _fields_ = [("struct_size", ctypes.c_size_t), ("GetModuleFunctionTable", _GetTable)]


class _VersionInfo(ctypes.Structure):  # NvtxExportTableVersionInfo
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("version", ctypes.c_uint32),
        ("reserved0", ctypes.c_uint32),
        ("SetInjectionNvtxVersion", _SetVersion),
    ]


class _Profiler:
    """The functions of a profiler; None if there is no profiler, or if it has no such function."""

    __slots__ = ("push", "pop", "loaded")

    def __init__(
        self, push: Callable[..., int] | None = None, pop: Callable[..., int] | None = None, library: object = None
    ) -> None:
        self.push, self.pop, self.loaded = push, pop, library


_found: list[_Profiler] = []  # the profiler, after it was looked for
_lock = free_after_fork(_thread.RLock())


def _profiler() -> _Profiler:
    if not _found:
        with _lock:
            if not _found:
                _found.append(_load())
    return _found[0]


def _load() -> _Profiler:
    """Load the library that the environment names, and let it write its functions into the tables."""
    import os
    import sys

    if sys.flags.ignore_environment:
        path = ""
    else:
        path = os.environ.get(_VARIABLE, "")
    if not path:
        return _Profiler()
    if os.path.basename(path) != path and not os.path.isabs(path):  # relative to whatever folder is current
        return _refused(path, "the path is not absolute")
    try:
        library = locate.load(path)[1]
        address = ctypes.cast(library[_INITIALIZE.decode()], ctypes.c_void_p).value or 0
    except (OSError, AttributeError) as error:
        return _refused(path, str(error))
    slots = {module: (ctypes.c_void_p * size)() for module, size in _SIZES.items()}
    tables = {module: _pointers(slots[module]) for module in slots}

    def get_table(module: int, table: int | None, size: int | None) -> int:
        found = tables.get(module)
        if found is None:
            return 0
        if size:
            ctypes.c_uint.from_address(size).value = _SIZES[module]
        if table:
            ctypes.c_void_p.from_address(table).value = ctypes.addressof(found)
        return 1

    callbacks = _Callbacks(ctypes.sizeof(_Callbacks), _GetTable(get_table))
    version = _VersionInfo(ctypes.sizeof(_VersionInfo), _VERSION, 0, _SetVersion(_nothing))
    exported = {_CALLBACKS: ctypes.addressof(callbacks), _VERSION_INFO: ctypes.addressof(version)}
    get_export_table = _GetExportTable(exported.get)
    # The profiler keeps these addresses, also after the interpreter has ended.
    immortal((slots, tables, callbacks, version, get_export_table, library))
    if not _Initialize(address)(ctypes.cast(get_export_table, ctypes.c_void_p)):
        return _refused(path, f"its {_INITIALIZE.decode()} failed")
    push, pop = slots[_CORE][_PUSH], slots[_CORE][_POP]
    if not push or not pop:  # the profiler does not record ranges
        return _Profiler(library=library)
    return _Profiler(_PushEx(push), _Pop(pop), library)


def _pointers(slots: ctypes.Array[ctypes.c_void_p]) -> ctypes.Array[ctypes.c_void_p]:
    """Return an array of pointers to slots: the entry 0 is not used, and after the last one is NULL."""
    start, width = ctypes.addressof(slots), ctypes.sizeof(ctypes.c_void_p)
    inside = [None, *(start + width * index for index in _numbers(1, len(slots))), None]
    return (ctypes.c_void_p * len(inside))(*inside)


def _nothing(version: int) -> None:
    pass


def _refused(path: str, why: str) -> _Profiler:
    import warnings

    warnings.warn(f"{_VARIABLE}={path}: ranges are not shown, because {why}", RuntimeWarning, stacklevel=5)
    return _Profiler()


_numbers = range  # Python's own; the class below has the same name


class range:  # noqa: A001
    """A named part of the program, which a profiler shows; as a context manager, or as a decorator of a function.

        with range("load"):
            ...

        @range("solve", color="red")
        def solve(): ...

    color   a name such as "red", or a number 0xRRGGBB; by default the profiler chooses
    raises  TypeError   a name that is not a str
            ValueError  an unknown color
    """

    __slots__ = ("name", "_attributes", "_begun")

    def __init__(self, name: str, *, color: str | int | None = None) -> None:
        if not isinstance(name, str):
            raise TypeError(f"a range needs a name, a str, not {a_kind(name)}")
        self.name, self._begun = name, []  # type: ignore[var-annotated]
        self._attributes = _Attributes(_VERSION, ctypes.sizeof(_Attributes))
        if color is not None:
            self._attributes.colorType, self._attributes.color = _ARGB, 0xFF000000 | _color(color)
        self._attributes.messageType = _ASCII
        self._attributes.message = name.encode("utf-8", "replace").replace(b"\0", b" ")

    def __enter__(self) -> range:
        profiler = _found[0] if _found else _profiler()
        # Each __enter__ has its own entry, so that a range may be entered again inside itself, and by other threads.
        self._begun.append((_thread.get_ident(), profiler.pop, perf_counter_ns() if listeners else 0))
        if profiler.push is not None:
            profiler.push(ctypes.byref(self._attributes))
        if listeners:
            tracing.emit(tracing.Step("range", "begin", self.name))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        me = _thread.get_ident()
        for entry in reversed(tuple(self._begun)):  # other threads may change the list meanwhile
            if entry[0] == me:
                break
        else:
            raise RuntimeError(f"the range {self.name!r} was not entered in this thread: use it in a with block")
        self._begun.remove(entry)
        _, pop, began = entry
        if pop is not None:
            pop()
        if listeners and began:
            tracing.emit(tracing.Step("range", "end", f"{self.name} after {(perf_counter_ns() - began) / 1000:.1f} us"))

    def __call__(self, function: Callable[..., _Result]) -> Callable[..., _Result]:
        """Return the function with this range around each call; refuse generator and coroutine functions."""
        if not callable(function):
            raise TypeError(f"a range decorates a function, not {a_kind(function)}")
        if is_suspended(function):
            raise TypeError(
                f"{worded(function)} is a generator or coroutine function, whose run can be suspended: use the range "
                "inside it"
            )
        from functools import wraps

        @wraps(function)
        def inside(*arguments: object, **named: object) -> _Result:
            with self:
                return function(*arguments, **named)

        return inside

    def __reduce_ex__(self, protocol: object) -> tuple[object, ...]:
        color = None
        if self._attributes.colorType:
            color = self._attributes.color & 0xFFFFFF
        return _again, (self.name, color)

    def __repr__(self) -> str:
        return f"<range {self.name!r}>"


def _again(name: str, color: int | None) -> range:
    """Make a range that was pickled or copied; it is not entered."""
    return range(name, color=color)


def _color(given: object) -> int:
    if isinstance(given, str) and given in _COLORS:
        return _COLORS[given]
    if hasattr(type(given), "__index__") and not isinstance(given, bool) and 0 <= as_int("color", given) <= 0xFFFFFF:
        return as_int("color", given)
    raise ValueError(f"color={worded(given)}: give a number 0xRRGGBB, or one of {', '.join(map(repr, _COLORS))}")
