"""Modules: code that is loaded on a device, its kernels and its variables.

What it is   `Module`: PTX, a cubin or a fatbin, loaded. `module[name]` is a kernel.
What not     it does not compile CUDA C (compiler/program.py) or launch kernels (launch.py).
Source       CUDA Driver API, "Module Management"
Read next    kernel.py, signature.py
"""

from __future__ import annotations

import ctypes
import os

from ...arguments import as_list
from ...arrays import making
from ...elements.dtypes import of
from ...errors import CompileFailed, CudaError, NotFound, a_kind, from_code, worded
from ...headers import cuda_h
from ...headers.status import (
    INVALID_IMAGE,
    INVALID_PTX,
    JIT_COMPILATION_DISABLED,
    JIT_COMPILER_NOT_FOUND,
    NO_BINARY_FOR_GPU,
    NOT_FOUND,
    UNSUPPORTED_PTX_VERSION,
)
from ...hints import hinted
from ...images import mangled, outline
from ...interpreter.cpython import facts
from ...ownership import invalidate
from ..core.calls import reworded
from ..core.context import is_device, no_device
from ..core.handles import MODULE, make, shown_handle
from ..core.leases import Lender
from ..memory.memory import ManagedMemory, Memory
from . import image
from .declared_parameters import declared
from .kernel import Kernel, Known

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any, Callable, NoReturn

    from ...arrays.strided import StridedView
    from ...compiler.declarations import Declarations
    from ...driver import Driver
    from ...elements.dtypes import DType
    from ...gpu.devices.device import Device
    from ...images.mangled import CType
    from ...images.outline import Declaration
    from ..core.context import PrimaryContext
    from .configuration import Limits
    from .signature import Parameter

__all__ = ["Logs", "Module", "Variable", "loaded_with_logs", "read_code"]

_LOG_BYTES = 64 << 10
_INFO, _INFO_SIZE, _ERROR, _ERROR_SIZE = 3, 4, 5, 6  # CU_JIT_INFO_LOG_BUFFER and its size, the same for errors
_IS_MANAGED = 8  # CU_POINTER_ATTRIBUTE_IS_MANAGED
_LAZY = 2  # CU_MODULE_LAZY_LOADING
_MORE_SHARED = "\nMore is there as dynamic shared memory: `extern __shared__ float s[];`, and shared_bytes= of a launch"
# the driver could not make code from the image
_JIT_CODES = (
    INVALID_IMAGE,
    NO_BINARY_FOR_GPU,
    INVALID_PTX,
    JIT_COMPILER_NOT_FOUND,
    UNSUPPORTED_PTX_VERSION,
    JIT_COMPILATION_DISABLED,
)


@hinted
@facts("device", "info_log")
class Module(Lender):
    """Code loaded on a device; `module[name]` is a kernel, and iteration yields the names of the kernels.

    Device.compile() makes a module of CUDA C, and Device.load() of PTX, a cubin or a fatbin.

    >>> device = Device(0)
    >>> module = device.load(".version 6.3 .target sm_50 .address_size 64 .visible .entry nothing() { ret; }")
    >>> list(module)
    ['nothing']

    code    PTX as str or bytes, a cubin or fatbin as bytes, or a file as os.PathLike
    names   other names for kernels and variables: {"scale<float>": "_Z5scaleIfEvPT_"}
    ptx     the PTX that a cubin was made of, for the types of its parameters and variables
    calls   cuModuleLoadDataEx, cuModuleUnload, cuThreadExchangeStreamCaptureMode
    raises  CompileFailed  PTX that does not compile: .log and .source
            Unsupported    PTX newer than the driver, a cubin for another architecture
            ValueError     truncated, or not code
    """

    __slots__ = (
        "_device",
        "_info_log",
        "_data",
        "_kind",
        "_signatures",
        "_names",
        "_other_names",
        "_functions",
        "_limits",
        "_known",
        "_variables",
        "_written",
        "_library",
        "_source",
        "_declarations",
    )

    device: Device
    info_log: str
    if TYPE_CHECKING:
        _device: Device
        _info_log: str
        _variables: dict[str, Declaration | int] | None  # as image.variables() lists them; None: not read yet

    def __init__(
        self,
        device: Device = None,  # type: ignore[assignment]
        code: object = None,
        *,
        names: Mapping[str, str] | None = None,
        ptx: bytes | None = None,
    ) -> None:
        if not is_device(device):
            raise no_device("Module", device, "device.load(code), or device.compile(source),")
        self._kind, data = read_code(code)
        self._device, self._borrowers = device, {}
        device.context
        self._info_log = _load(self, device._primary, self._kind, data)
        self._know(data, names, None)
        if ptx is not None:
            self._signatures = image.signatures("ptx", ptx)
            self._variables = image.variables("ptx", ptx)

    def _know(self, data: bytes, names: object, library: object) -> None:
        """Store what the image says about its kernels; its variables are read when one is needed."""
        self._data, self._library = data, library
        self._source: tuple[list[str], tuple[str, ...]] | None = None  # CUDA C, and the compiler's options
        self._declarations: Declarations | None = None
        self._other_names = other_names(names)
        self._signatures = image.signatures(self._kind, data)
        if self._kind == "ptx":
            self._names: list[str] | None = list(self._signatures)
        else:
            self._names = None
        if self._kind == "cubin":
            self._names = image.cubin_kernels(data)
        self._functions: dict[str, int] = {}
        self._limits: dict[int, Limits] = {}  # by the CUfunction: kernels with declared parameters have the same
        self._known: dict[str, Known] = {}  # no Kernel objects, which would make a cycle: they refer to their module
        self._variables = None
        self._written: dict[str, list[Any]] = {}  # as Variable._written, by name

    # -- kernels

    def __setitem__(self, name: str, value: object) -> NoReturn:
        raise TypeError(f"a variable of a module is set by module.global_({worded(name)}).copy_from(array)")

    def __getitem__(self, name: str) -> Kernel:
        """Return a kernel by its name.

        raises  NotFound  there is no such kernel; the message lists the existing ones
        """
        known = None
        if self._handle is not None and isinstance(name, str):
            known = self._known.get(name)
        if known is None:
            there = self._in_code(name)
            known = self._known.setdefault(name, Known(self, there, self._function(there), None))
        return Kernel._of(self, name, known)

    def kernel(self, name: str, parameters: Sequence[object] | None = None) -> Kernel:
        """Return a kernel whose parameters are declared: each a dtype, a PTX type, "pointer", In, or a ctypes type.

        raises  ValueError  the number or the sizes of the parameters differ from the code's
                TypeError   an object that does not declare a parameter
                NotFound    there is no such kernel
        """
        if parameters is None:
            return self[name]
        declarations = as_list("parameters", parameters, "declarations, one for each parameter")
        there = self._in_code(name)
        known = Known(self, there, self._function(there), [declared(what) for what in declarations])
        return Kernel._of(self, name, known)

    def _said(self, name: str, parameters: Sequence[Parameter]) -> list[tuple[str, CType]] | None:
        """Return the names and types of a kernel's parameters from CUDA C or its C++ name, or None."""
        source = self._cuda_c()
        if source is not None:
            said: list[tuple[str, CType]] | None = source.parameters(name, [one.size for one in parameters])
            if said is not None:
                return said
        types = mangled.parameters(name)
        if types is None or len(types) != len(parameters):
            return None
        return [("", type) for type in types]

    def _cuda_c(self) -> Declarations | None:
        """Return what the CUDA C declares; None if it is not known."""
        if self._declarations is None and self._source is not None:
            from ...compiler.declarations import Declarations

            self._declarations = Declarations(*self._source)
        return self._declarations

    def _in_code(self, name: object) -> Any:
        """Return the name in the code for a name that a user gives."""
        if isinstance(name, str):
            return self._other_names.get(name, name)
        return name

    def _function(self, name: str) -> int:
        if not isinstance(name, str):
            raise TypeError(f"a kernel's name must be a str, not {a_kind(name)}")
        self.handle
        if name not in self._functions:
            function = cuda_h.CUfunction()
            self._get("kernel", "cuModuleGetFunction", name, ctypes.byref(function))
            self._functions[name] = function.value or 0
        return self._functions[name]

    def _get(self, what: str, call: str, name: str, *arguments: object) -> None:
        encoded = name.encode("utf-8", "surrogatepass")
        module = cuda_h.CUmodule(self.handle)
        try:
            if b"\0" in encoded:
                raise NotFound(f"{name!r} is not a name", code=NOT_FOUND, name="CUDA_ERROR_NOT_FOUND", call=call)
            with self.device.current():
                getattr(self.device._primary.driver, call)(*arguments, module, encoded)
        except NotFound as error:
            if what == "kernel":
                there = self._no_kernel(name) or f"it has {_listed(self.names, name, self._other_names)}"
            else:
                there = f"it has {_listed(list(self._declared()), name, {})}; a static variable may have no name there"
            message = f"no {what} {worded(name, 500)} in this module: {there}"
            raise reworded(error, message, NotFound) from None

    def _no_kernel(self, name: str) -> str:
        """Return what a name means that is not that of a kernel, as text for an error, or ""."""
        if name in self._declared():
            return f"it is a variable: module.global_({worded(name)})"
        source, found = self._cuda_c(), []
        if self._kind == "ptx":
            found = [each.name for each in outline.declarations(self._data.decode("utf-8", "replace"))]
        if name in found or source is not None and source.has_device_function(name):
            return "it is a function of the device: only kernels, which are __global__, can be launched"
        return ""

    @property
    def names(self) -> list[str]:
        """Return the names of the kernels that the driver or the code lists.

        calls   cuModuleGetFunctionCount, cuModuleEnumerateFunctions, cuFuncGetName
        """
        if self._names is None:
            self._names = self._enumerate()
        return list(self._names)

    def _can_enumerate(self) -> bool:
        has = self.device._primary.driver.has
        return bool(has("cuModuleEnumerateFunctions") and has("cuFuncGetName"))

    def _enumerate(self) -> list[str]:
        loaded, module, count = self.device._primary.driver, cuda_h.CUmodule(self.handle), ctypes.c_uint()
        if not self._can_enumerate():
            return image.kernels(self._kind, self._data) or []
        with self.device.current():
            loaded.cuModuleGetFunctionCount(ctypes.byref(count), module)
            functions = (cuda_h.CUfunction * count.value)()
            if count.value:
                loaded.cuModuleEnumerateFunctions(functions, count.value, module)
            names, text = [], ctypes.c_char_p()
            for function in functions:
                loaded.cuFuncGetName(ctypes.byref(text), function)
                names.append((text.value or b"").decode("utf-8", "replace"))
        return names

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str):
            return False
        if self._can_enumerate():
            return self._in_code(name) in self.names
        try:  # an older driver cannot list the names in a fatbin
            return bool(self._function(self._in_code(name)))
        except NotFound:
            return False

    def __len__(self) -> int:
        return len(self.names)

    # -- variables

    @property
    def variables(self) -> list[str]:
        """Return the names of the global and constant variables that the code declares.

        In PTX, variables that are neither .visible nor .weak are included; not every driver finds these by name.
        """
        self.handle
        return list(self._declared())

    def _declared(self) -> dict[str, Declaration | int]:
        if self._variables is None:
            self._variables = image.variables(self._kind, self._data)
        return self._variables

    def global_(self, name: str) -> Variable:
        """Return a variable of the module as memory; it is valid until the module is closed.

        It has the element type and the shape that the PTX declares; a cubin contains only the size in bytes.
        calls   cuModuleGetGlobal_v2, cuPointerGetAttribute
        raises  NotFound  there is no such variable
        """
        if not isinstance(name, str):
            raise TypeError(f"a variable's name must be a str, not {a_kind(name)}")
        there, address, size = self._in_code(name), cuda_h.CUdeviceptr(), ctypes.c_size_t()
        self._get("variable", "cuModuleGetGlobal_v2", there, ctypes.byref(address), ctypes.byref(size))
        said = self._declared().get(there.lstrip("&"))
        if said is None or isinstance(said, int):
            managed = self._is_managed(address)
        else:
            managed = said.managed
        cls, kind = Variable, "device"
        if managed:
            cls, kind = ManagedVariable, "managed"
        made: Any = cls.borrow(self.device, address.value or 0, size.value, kind=kind, owner=self)
        made._name, made._written = name, self._written.setdefault(there, made._written)
        made._dtype, made._shape = _type_of(said, size.value)
        return made  # type: ignore[no-any-return]

    def _is_managed(self, address: Any) -> bool:
        value = ctypes.c_uint()
        try:
            with self.device.current():
                self.device._primary.driver.cuPointerGetAttribute(
                    ctypes.cast(ctypes.byref(value), ctypes.c_void_p), _IS_MANAGED, address
                )
        except CudaError:
            return False
        return bool(value.value)

    @property
    def loading_mode(self) -> str:
        """Return "lazy" if the driver loads a kernel when it is first used, and "eager" if it has loaded all of them.

        The environment variable CUDA_MODULE_LOADING sets it, before the driver is initialized.
        calls   cuModuleGetLoadingMode
        raises  SymbolNotFound  a driver before CUDA 11.7, which loads eagerly
        """
        self.handle
        mode = ctypes.c_uint()
        self.device._primary.driver.cuModuleGetLoadingMode(ctypes.byref(mode))
        if mode.value == _LAZY:
            return "lazy"
        return "eager"

    def _closing(self) -> bool:
        invalidate()
        return super()._closing()

    def __repr__(self) -> str:
        if self.closed:
            return "<Module closed>"
        listed = self._names or []  # what is known without the driver
        said = ", ".join(listed[:4]) + (f" and {len(listed) - 4} more kernels" if len(listed) > 4 else "")
        return f"<Module {self._kind} on device {self.device.ordinal}{said and ': ' + said}>"


@facts("name", "dtype", "shape")
class Variable(Memory):
    """A variable of a module: its memory, and its type as the code declares it.

    name   as it was given to global_()
    dtype  the element type; uint8 if only the size is known
    shape  () for a single element

    copy(), copy_from() and copy_to() copy its bytes, as for every Memory. view() and exports have the declared type.
    """

    __slots__ = ("_name", "_dtype", "_shape", "_written")

    name: str
    dtype: DType
    shape: tuple[int, ...]
    if TYPE_CHECKING:
        _name: str
        _written: list[Any]  # the stream on which it was written last; all objects of the variable share it
        _dtype: DType
        _shape: tuple[int, ...]

    def _describe(self, device: Any, nbytes: int, kind: str, stream: object) -> None:
        self._written = [None]
        super()._describe(device, nbytes, kind, stream)

    @property
    def stream(self) -> Any:
        """Return the stream on which the variable was written last, or None."""
        return self._written[0]

    @stream.setter
    def stream(self, stream: object) -> None:
        self._written[0] = stream

    def view(self, dtype: object = None) -> StridedView:
        """Return the variable as an array of its own type and shape, or in one dimension of another type.

        raises  ValueError  nbytes is not a multiple of the element size
        """
        if dtype is not None:
            return making.over_memory(self, dtype)
        flat = making.over_memory(self, self.dtype)
        if len(self.shape) == 1:
            return flat
        return flat.reshape(self.shape)

    def tolist(self) -> Any:
        """Return the value, as a number or as nested lists of numbers."""
        return self.view().tolist()

    def download(self) -> StridedView:
        """Return a copy in host memory."""
        return self.view().download()

    def __repr__(self) -> str:
        where = shown_handle(self)
        return (
            f"<Variable {self.name} {self.dtype} {self.shape} {where} {self.nbytes} bytes, {self.kind}, device "
            f"{self.device.ordinal}>"
        )


class ManagedVariable(Variable, ManagedMemory):
    """A managed variable of a module."""

    __slots__ = ()


def _type_of(said: Any, nbytes: int) -> tuple[DType, tuple[int, ...]]:
    """Return the element type and shape of a variable; bytes if the code declares no type of this size."""
    dtype = getattr(said, "dtype", "")
    if dtype:
        element, count = of(dtype), 1
        for extent in said.shape:
            count *= extent
        if count * element.itemsize == nbytes:
            return element, said.shape
    return of("uint8"), (nbytes,)


def read_code(code: Any) -> tuple[str, bytes]:
    """Return the kind and the bytes of the code that a user gives; see image.prepare()."""
    if isinstance(code, os.PathLike):
        with open(code, "rb") as file:
            code = file.read()
    return image.prepare(code)


def _load(module: Module, primary: PrimaryContext, kind: str, data: bytes) -> str:
    """Load an image, give its handle to the module, and return the compiler's info log."""

    def load(logs: Logs) -> None:
        options, values = ctypes.byref(logs.options), ctypes.byref(logs.values)
        make(module, MODULE, primary, (ctypes.c_char_p(data), ctypes.c_uint(4), options, values))

    return loaded_with_logs(load, Logs(), primary.driver, kind, data)


class Logs:
    """The buffers for the logs of a compilation, and the options that name them, with their values.

    A driver that compiles a library later, when a device first needs it, writes into them then. So they live as long as
    the library.
    more    other CUjit_options, and their values
    """

    __slots__ = ("info", "errors", "options", "values")

    def __init__(self, more: Mapping[int, int] | None = None) -> None:
        self.info, self.errors = (ctypes.create_string_buffer(_LOG_BYTES) for _ in range(2))
        # A size is passed as the pointer itself; the driver overwrites it with the log's length.
        chosen = {
            _INFO: ctypes.addressof(self.info),
            _INFO_SIZE: _LOG_BYTES,
            _ERROR: ctypes.addressof(self.errors),
            _ERROR_SIZE: _LOG_BYTES,
            **(more or {}),
        }
        self.options = (ctypes.c_uint * len(chosen))(*chosen)
        self.values = (ctypes.c_void_p * len(chosen))(*chosen.values())


def loaded_with_logs(load: Callable[[Logs], object], logs: Logs, driver: Driver, kind: str, data: bytes) -> str:
    """Call a function that loads or compiles an image, and return the info log.

    raises  CudaError  from the function, with the log
    """
    try:
        load(logs)
    except CudaError as error:
        log = logs.errors.value.decode("utf-8", "replace").strip("\n")
        if error.code not in _JIT_CODES or not log:
            raise
        name, text = driver.describe(error.code)
        more = _MORE_SHARED if "uses too much shared data" in log else ""
        told = from_code(error.code, name, text, error.call, error.arguments, log + more)
        if isinstance(told, CompileFailed):
            told.log, told.source = log, data[:-1].decode("utf-8", "replace") if kind == "ptx" else ""
        try:
            raise told from None
        finally:
            del told  # otherwise its traceback refers to this frame, and this frame to the error
    said: bytes = logs.info.value
    return said.decode("utf-8", "replace")


def other_names(given: Any) -> dict[str, str]:
    """Return the other names for kernels and variables as a dict of its own; raises TypeError."""
    if given is None:
        return {}
    if not hasattr(type(given), "items"):
        raise TypeError(f"names must be a dict from other names to those in the code, not {a_kind(given)}")
    found = dict(given.items())
    for each in (each for pair in found.items() for each in pair):
        if not isinstance(each, str):
            raise TypeError(f"names must be a dict of str, not with {a_kind(each)}")
    return found


def _listed(names: list[str], wanted: str, given: dict[str, str]) -> str:
    """Return names as text, with what explains why a name is not one of them.

    given  the names in the code, by the names that compile(names=[...]) was given
    """
    users = {there: name for name, there in given.items()}
    shown = ", ".join(users.get(name, name) for name in names[:20]) or "none that can be listed"
    if len(names) > 20:
        shown += f" and {len(names) - 20} more"
    if any(f"{wanted}<" in name for name in given):
        shown += "; of a template, give an instance that is named in compile(names=[...]), with its arguments"
    elif "<" in wanted:
        shown += "; the compiler makes only the instances of a template that compile(names=[...]) gives"
    elif any(name.startswith("_Z") and f"{len(wanted)}{wanted}" in name for name in names if name not in users):
        shown += '; C++ names are mangled, unless the kernel is declared extern "C" or named in compile(names=[...])'
    return shown
