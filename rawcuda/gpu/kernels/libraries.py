"""Libraries: code that is loaded once and used on several devices.

What it is   `Library`: PTX, a cubin or a fatbin for all devices. library.module(device) is its module on a device.
What not     it does not compile CUDA C. With a driver before CUDA 12.0, each module is loaded separately.
Source       CUDA Driver API, "Library Management"
Read next    module.py
"""

from __future__ import annotations

import ctypes
from _thread import allocate_lock
from _weakref import ref
from ctypes import byref

from ... import driver
from ...errors import Closed, CudaError, ForkedAfterInit, a_kind
from ...headers import cuda_h
from ...headers.status import STREAM_CAPTURE_UNSUPPORTED
from ...interpreter.cpython import facts
from ...ownership import drain, dropped, invalidate
from ..core.calls import relaxed
from ..core.handles import AGAIN
from ..core.leases import Lender
from ..core.points import finish_context
from . import image
from .module import Logs, Module, loaded_with_logs, other_names, read_code

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _thread import LockType
    from collections.abc import Iterator, Mapping
    from typing import Any

    from ..core.context import PrimaryContext
    from ..devices.device import Device

__all__ = ["Library"]


class _Loaded(ctypes.c_void_p):
    """The C memory that contains the handle of a library, and its release; see gpu/core/handles.py."""

    __slots__ = ("driver", "keeps", "taken", "used")
    __hash__ = object.__hash__

    driver: driver.Driver
    used: set[PrimaryContext]  # in which the library has been asked for its module
    keeps: object  # the code and the logs, which the driver may use until the library is unloaded
    taken: LockType  # the lock that the one caller takes that unloads the library

    def release(self, late: bool) -> bool:
        """Unload the library without breaking a capture, unless that was done already; raise no error.

        It waits for the work of the contexts first, as for MODULE of gpu/core/handles.py.

        returns  False if memory is short, or a capture or a host function of other software forbids it: try again later
        calls   cuCtxSynchronize, cuLibraryUnload, cuThreadExchangeStreamCaptureMode
        """
        if not self.value or self.taken.locked():
            return True
        if not late and not all(map(_finished, tuple(self.used))):  # (before the lock: an interrupt may end the wait)
            return False
        if not self.taken.acquire(False):
            return True
        invalidate()
        try:
            with relaxed(self.driver):
                self.driver.cuLibraryUnload(cuda_h.CUlibrary(self.value))
        except (CudaError, ForkedAfterInit) as error:
            self.driver.unnoticed(error)
            if getattr(error, "code", 0) in AGAIN:
                self.taken.release()
                return False
        return True

    def give_away(self) -> bool:
        """Make later calls release nothing; return False if the handle was already released or given away."""
        first: bool = self.taken.acquire(False)
        return first


def _finished(primary: PrimaryContext) -> bool:
    """Wait for all work of a context, unless it has ended; return False if that is not possible now."""
    try:
        return primary._handle is None or finish_context(primary)
    except (CudaError, Closed, ForkedAfterInit) as error:
        primary.driver.unnoticed(error)
        return getattr(error, "code", 0) not in (*AGAIN, STREAM_CAPTURE_UNSUPPORTED)


@facts("info_log")
class Library(Lender):
    """Code for all devices: `library.module(device)` is a Module, which is loaded once for each device.

    It is made with its own name.

    >>> library = Library(".version 6.3 .target sm_50 .address_size 64 .visible .entry nothing() { ret; }")
    >>> module = library.module(Device(0))
    >>> list(module)
    ['nothing']

    code    as for Module: PTX as str or bytes, a cubin or fatbin as bytes, or a file as os.PathLike
    names   other names for kernels and variables: {"scale<float>": "_Z5scaleIfEvPT_"}
    calls   cuLibraryLoadData, cuCtxSynchronize, cuLibraryUnload
    raises  CompileFailed  PTX that does not compile: .log and .source
            Unsupported    PTX newer than the driver, a cubin for another architecture
            ValueError     truncated, or not code
    """

    __slots__ = ("_info_log", "_logs", "_data", "_kind", "_names", "_modules", "_written", "_kernels", "_variables")

    info_log: str
    if TYPE_CHECKING:
        _info_log: str
        _kernels: list[str] | None  # their names; None: not listed yet
        _variables: list[str] | None

    def __init__(self, code: object, *, names: Mapping[str, str] | None = None) -> None:
        self._kind, self._data = read_code(code)
        self._names = other_names(names)
        self._kernels = self._variables = None
        self._modules: dict[int, ref[Module]] = {}  # a module keeps its library alive
        self._written: dict[int, dict[str, list[Any]]] = {}  # Module._written, which outlives the Module, by device
        self._borrowers = {}
        self._info_log, self._logs = "", Logs()
        loaded = driver.current()
        if dropped:
            drain()
        if not loaded.has("cuLibraryLoadData"):  # before CUDA 12.0
            self._own(0, _Nothing())
            return
        release = _Loaded()
        release.driver, release.taken, release.used = loaded, allocate_lock(), set()
        release.keeps = self._data, self._logs
        self._own(None, release)  # from now on, the finalizer releases what an interrupted call leaves

        def load(logs: Logs) -> None:
            data = ctypes.cast(ctypes.c_char_p(self._data), ctypes.c_void_p)
            numbers = ctypes.cast(logs.options, ctypes.POINTER(ctypes.c_uint))
            pointers = ctypes.cast(logs.values, ctypes.POINTER(ctypes.c_void_p))
            handle = ctypes.cast(byref(release), ctypes.POINTER(cuda_h.CUlibrary))
            loaded.cuLibraryLoadData(handle, data, numbers, pointers, len(logs.options), None, None, 0)

        self._info_log = loaded_with_logs(load, self._logs, loaded, self._kind, self._data)
        self._handle = release.value or 0

    def module(self, device: Device) -> Module:
        """Return the module of this library on a device; it is closed with the library.

        calls   cuLibraryGetModule, cuThreadExchangeStreamCaptureMode
        raises  Closed     after close()
                TypeError  not a Device
                CudaError  code that cannot be loaded on this device; a driver may compile only here
        """
        self.handle
        if not hasattr(type(device), "compute_capability"):
            raise TypeError(f"a library's module is on a Device, not on {a_kind(device)}")
        known = self._modules.get(device.ordinal)
        made = known() if known is not None else None
        if made is None or made.closed or made.device.closed:
            made = self._on(device)
            made._written = self._written.setdefault(device.ordinal, made._written)
            self._lend(made)
            self._modules[device.ordinal] = ref(made)
        return made

    def _on(self, device: Device) -> Module:
        if isinstance(self._release, _Nothing):
            return Module(device, self._data[:-1] if self._kind != "ptx" else self._data, names=self._names)
        handle, loaded = cuda_h.CUmodule(), device._primary.driver
        if isinstance(self._release, _Loaded):
            self._release.used.add(device._primary)

        def load(logs: Logs) -> None:  # the driver may compile only now
            with device.current(), relaxed(loaded):
                loaded.cuLibraryGetModule(byref(handle), cuda_h.CUlibrary(self.handle))

        self._info_log = loaded_with_logs(load, self._logs, loaded, self._kind, self._data)
        made: Module = object.__new__(Module)
        made._kind, made._device, made._info_log, made._borrowers = self._kind, device, self.info_log, {}
        made._own(handle.value or 0, None)
        made._know(self._data, self._names, self)
        return made

    @property
    def names(self) -> list[str]:
        """Return the names of the kernels that the driver or the code lists.

        calls   cuLibraryGetKernelCount, cuLibraryEnumerateKernels, cuKernelGetName
        """
        library = cuda_h.CUlibrary(self.handle)
        if self._kernels is None:
            self._kernels = self._enumerate(library)
        return list(self._kernels)

    def _enumerate(self, library: cuda_h.CUlibrary) -> list[str]:
        loaded, known = driver.current(), None
        if self._kind != "fatbin":
            known = image.kernels(self._kind, self._data)
        if known is not None:
            return known
        if library.value and all(map(loaded.has, ("cuLibraryEnumerateKernels", "cuKernelGetName"))):
            count, text, found = ctypes.c_uint(), ctypes.c_char_p(), []
            loaded.cuLibraryGetKernelCount(byref(count), library)
            kernels = (cuda_h.CUkernel * count.value)()
            if count.value:
                loaded.cuLibraryEnumerateKernels(kernels, count.value, library)
            for kernel in kernels:
                loaded.cuKernelGetName(byref(text), kernel)
                found.append((text.value or b"").decode("utf-8", "replace"))
            return found
        return image.kernels(self._kind, self._data) or []

    @property
    def variables(self) -> list[str]:
        """Return the names of the global and constant variables that the code declares."""
        self.handle
        if self._variables is None:
            self._variables = list(image.variables(self._kind, self._data))
        return list(self._variables)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._names.get(name, name) in self.names

    def __len__(self) -> int:
        return len(self.names)

    def _closing(self) -> bool:
        invalidate()
        return super()._closing()

    def __repr__(self) -> str:
        if self.closed:
            return "<Library closed>"
        return f"<Library {self._kind}, {len(self.names)} kernels>"


class _Nothing:
    """The release of a library that the driver does not know."""

    __slots__ = ()

    def release(self, late: bool) -> None:
        """Release nothing."""

    def give_away(self) -> bool:
        """Return True: the library itself has no handle."""
        return True
