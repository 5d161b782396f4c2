"""Entry points: modules, functions and their attributes.

How          loading an image compiles all of its PTX to Python, so every mistake is reported at that time. The
             messages of the compiler go to the log buffers in the JIT options.
Source       CUDA Driver API, "Module Management", "Execution Control" (cuFunc*)
Read next    image_entries.py, emulator/ptx/, entries/tasks/launch_entries.py
"""

from __future__ import annotations

import ctypes
import os
import time

from ...interface.thunks import (
    WORD,
    entry,
    get_word,
    out,
    put_address_of,
    put_bytes,
    put_float,
    put_int,
    put_u64,
    put_uint,
    put_word,
    text,
)
from ...machine.codes import Refused
from ...machine.machine import Context, Machine
from ...machine.space import say
from ..hardware.device_entries import FUNCTION
from .image_entries import image_at, read_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ...ptx import Code, Entry
    from .code_libraries import Library

__all__ = [
    "Function",
    "LibraryKernel",
    "Module",
    "Options",
    "check_image",
    "function_at",
    "launched_function",
    "log_options",
    "translated",
    "write_parameter",
    "write_variable",
]

_REGISTERS = 0
_INFO, _INFO_SIZE, _ERROR, _ERROR_SIZE, _WALL_TIME, _THREADS = 3, 4, 5, 6, 2, 1
_SETTABLE = {9: (-1, 100), **dict.fromkeys((11, 12, 13), (0, 2**31 - 1)), 14: (0, 1), 15: (0, 2)}  # least, most
_REQUIRED_CLUSTER = 11, 12, 13  # CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, _HEIGHT, _DEPTH
_MAX_DYNAMIC = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES


class Function:
    """A kernel of a module: its handle is a CUfunction."""

    __slots__ = ("handle", "module", "entry", "name", "settings", "cache", "loaded", "prepared")

    def __init__(self, module: Module, code: Entry) -> None:
        self.handle = 0
        self.loaded = not is_lazy()
        self.module, self.entry = module, code
        self.name = code.name.encode()  # cuFuncGetName returns its address
        self.settings: dict[int, int] = {
            _MAX_DYNAMIC: max(0, module.machine.answers.attributes[8] - code.static_shared),
            9: -1,
        }
        self.cache = 0  # a CUfunc_cache
        self.prepared: Any = None  # what entries/older/launching.py sets

    @property
    def max_threads(self) -> int:
        """Return the largest number of threads that a block of this kernel may have."""
        if self.entry.required_block is not None:
            x, y, z = self.entry.required_block
            return x * y * z
        most = self.module.machine.answers.attributes[1]
        return min(self.entry.max_threads or most, most)

    @property
    def most_shared(self) -> int:
        """Return how much dynamic shared memory a block of this kernel can be allowed at most."""
        return self.module.machine.answers.attributes[97] - self.entry.static_shared

    @property
    def required_cluster(self) -> tuple[int, int, int] | None:
        """Return the cluster that the code or the attributes require."""
        if self.entry.required_cluster is not None:
            return self.entry.required_cluster
        x, y, z = [self.settings.get(number, 0) for number in _REQUIRED_CLUSTER]
        if x and y and z:
            return (x, y, z)
        return None

    def attributes(self) -> dict[int, int]:
        """Return every CUfunction_attribute.

        CU_FUNC_ATTRIBUTE_PTX_VERSION is the architecture of the PTX, as in drivers; cuda.h describes it differently.
        """
        code, cluster = self.entry, self.required_cluster or (0, 0, 0)
        return {
            **dict.fromkeys(FUNCTION, 0),
            10: int(code.explicit_cluster and code.required_cluster is None),
            **dict(zip(_REQUIRED_CLUSTER, cluster)),
            0: self.max_threads,
            1: code.static_shared,
            2: code.constant_bytes,
            3: code.local_bytes,
            4: code.registers,
            5: code.target,
            6: self.module.machine.architecture,
            **self.settings,
        }


class LibraryKernel:
    """A kernel of a library: its handle is a CUkernel, which also serves as a function in the current context."""

    __slots__ = ("handle", "part_of", "name", "encoded")

    def __init__(self, library: Library, name: str) -> None:
        self.handle = 0
        self.part_of, self.name = library, name
        self.encoded = name.encode()  # cuKernelGetName returns its address

    def function(self) -> Function:
        """Return the function in the current context."""
        return self.part_of.function_of(self.name)


class Module:
    """A loaded module: its code, and a Function for each of its kernels, created on first use.

    part_of  the Library that it belongs to, or None
    """

    __slots__ = ("handle", "context", "code", "functions", "machine", "part_of")

    def __init__(self, machine: Machine, context: Context, code: Code) -> None:
        self.handle = 0
        self.part_of: Library | None = None
        self.machine, self.context, self.code = machine, context, code
        self.functions: dict[str, Function] = {}
        for variable in code.allocations:
            machine.name_variable(variable, context)

    def function(self, name: str) -> Function:
        """Return the function of a name, or refuse the name."""
        found = self.functions.get(name)
        if found is None:
            if name not in self.code.entries:
                raise Refused(
                    500,
                    f"no kernel {name!r} in this module; the kernels are: "
                    f"{', '.join(sorted(self.code.entries)) or 'none'}",
                )
            found = self.functions[name] = self.machine.add(Function(self, self.code.entries[name]))
        return found

    def close(self) -> None:
        """Free the variables and destroy the functions."""
        for function in self.functions.values():
            self.machine.handles.pop(function.handle, None)
        for variable in self.code.allocations:
            if variable.kind == "variable" and self.machine.space.find(variable.base) is variable:
                self.context.device.used -= variable.size
        self.code.unload()
        if self.part_of is not None:
            self.part_of.modules.pop(self.context, None)


# -- loading


class Options:
    """The JIT options of a load: where the logs go, and which values are written back."""

    def __init__(self, count: int, options: int, values: int) -> None:
        if count and not (options and values):
            raise Refused(1)
        if count:
            numbers = list((ctypes.c_int * count).from_address(options))
        else:
            numbers = []
        if any(not 0 <= number <= 40 for number in numbers):
            raise Refused(1)
        self._places = {number: values + WORD * index for index, number in enumerate(numbers)}
        # (read once: the length of a log is written where the size of its buffer is, and a log may be written again)
        self._given = {number: get_word(place) for number, place in self._places.items()}

    def log(self, buffer: int, size: int, said: str) -> None:
        """Write as much of a log as fits, and its length."""
        if size not in self._places:
            return
        room, address, written = self._given[size] & 0xFFFFFFFF, self._given.get(buffer, 0), 0
        if address and room:
            cut = said.encode("utf-8", "replace")[: room - 1] + b"\0"
            put_bytes(address, cut)
            written = len(cut) - 1
        put_word(self._places[size], written)

    def most_registers(self) -> int:
        """Return the limit of the registers of a thread, or 0."""
        return self._given.get(_REGISTERS, 0) & 0xFFFFFFFF

    def time(self, milliseconds: float) -> None:
        """Write the wall time into the place of the option's value."""
        if _WALL_TIME in self._places:
            put_float(self._places[_WALL_TIME], milliseconds)


def log_options(options: Options, info: str, errors: str) -> None:
    """Write both logs."""
    options.log(_INFO, _INFO_SIZE, info)
    options.log(_ERROR, _ERROR_SIZE, errors)


def translated(machine: Machine, image: bytes, options: Options) -> Module:
    """Compile an image into a module without a handle, in the current context, and write the logs."""
    from ...ptx import Rejected, load  # imported here, because programs that load no kernel need no compiler

    context = machine.context()
    begun = time.perf_counter()
    try:
        code = load(
            image,
            machine.space,
            architecture=divmod(machine.architecture, 10),
            newest=machine.ptx_version,
            dump=_dump if machine.dump else None,
            most_registers=options.most_registers(),
        )
    except Rejected as rejected:
        log_options(options, "", rejected.log)
        raise Refused(rejected.code, rejected.log) from None
    try:
        machine.make_room(context.device, sum(made.size for made in code.allocations if made.kind == "variable"))
    except Refused:
        code.unload()
        raise
    log_options(options, code.info, "")
    options.time((time.perf_counter() - begun) * 1e3)
    return Module(machine, context, code)


def check_image(machine: Machine, image: bytes, options: Options) -> list[str]:
    """Check a whole image that belongs to no context yet, write the logs, and return the names of its kernels."""
    from ...ptx import Rejected
    from ...ptx.ptx_program import text_of
    from ...ptx.reading.parser import parse
    from ...ptx.translating.unit import Unit

    try:
        module = parse(text_of(image), divmod(machine.architecture, 10), machine.ptx_version)
        Unit(module, {})
    except Rejected as rejected:
        log_options(options, "", rejected.log)
        raise Refused(rejected.code, rejected.log) from None
    log_options(options, "", "")
    return [function.name for function in module.functions.values() if function.entry and function.body is not None]


def _dump(source: str) -> str:
    """Write generated source to a file, print the name of the file and return it."""
    import tempfile

    with tempfile.NamedTemporaryFile("w", prefix="ptx-", suffix=".py", delete=False, encoding="utf-8") as file:
        file.write(source)
    say(f"the source generated from a module is in {file.name}")
    return file.name


def _load_module(machine: Machine, address: int, image: bytes, options: Options) -> None:
    module = machine.add(translated(machine, image, options))
    module.context.owned[module.handle] = module
    put_word(address, module.handle)


@entry(
    "cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int numOptions, CUjit_option *options, "
    "void **optionValues)",
    since=2010,
)
@entry("cuModuleLoadData(CUmodule *module, const void *image)", since=2000)
@entry("cuModuleLoadFatBinary(CUmodule *module, const void *fatCubin)", since=2000)
def load_data(machine: Machine, address: int, image: int, count: int = 0, options: int = 0, values: int = 0) -> None:
    """Load a module from memory, with options for the JIT."""
    out(address)
    machine.context()
    _load_module(machine, address, image_at(image, machine.architecture), Options(count, options, values))


@entry("cuModuleLoad(CUmodule *module, const char *fname)", since=2000)
def load_file(machine: Machine, address: int, name: int) -> None:
    """Load a module from a file."""
    out(address)
    machine.context()
    _load_module(machine, address, read_file(name, machine.architecture), Options(0, 0, 0))


@entry("cuModuleUnload(CUmodule hmod)", since=2000)
def unload(machine: Machine, handle: int) -> None:
    """Unload a module after the context's work."""
    module = machine.usable(Module, handle)
    if module.part_of is not None:
        raise Refused(1, "this module belongs to a library: unload the library (cuLibraryUnload)")
    machine.queues.complete_context(module.context)
    machine.usable(Module, handle)  # another thread may have unloaded it meanwhile
    module.close()  # (first: after an interrupt, the call can be repeated)
    module.context.owned.pop(handle, None)
    del machine.handles[handle]


# -- the content of a module


@entry("cuModuleGetFunction(CUfunction *hfunc, CUmodule hmod, const char *name)", since=2000)
def get_function(machine: Machine, address: int, handle: int, name: int) -> None:
    """Write the handle of a kernel."""
    out(address, name)
    put_word(address, machine.usable(Module, handle).function(text(name)).handle)


@entry("cuModuleGetGlobal_v2(CUdeviceptr *dptr, size_t *bytes, CUmodule hmod, const char *name)", since=3020)
def get_global(machine: Machine, address: int, size: int, handle: int, name: int) -> None:
    """Write address and size of a variable; either pointer may be NULL."""
    write_variable(machine.usable(Module, handle), address, size, name)


def write_variable(module: Module, address: int, size: int, name: int) -> None:
    """Write address and size of a module's variable, or refuse the name."""
    variables = module.code.variables
    if not address and not size:
        raise Refused(1)
    variable = variables.get(text(name))
    if variable is None:
        raise Refused(
            500,
            f"no variable {text(name)!r} in this module; the variables are: {', '.join(sorted(variables)) or 'none'}",
        )
    if address:
        put_u64(address, variable.base)
    if size:
        put_word(size, variable.size)


@entry("cuModuleGetFunctionCount(unsigned int *count, CUmodule mod)", since=12040)
def function_count(machine: Machine, address: int, handle: int) -> None:
    """Write the number of a module's kernels."""
    out(address)
    put_uint(address, len(machine.usable(Module, handle).code.entries))


@entry("cuModuleEnumerateFunctions(CUfunction *functions, unsigned int numFunctions, CUmodule mod)", since=12040)
def enumerate_functions(machine: Machine, address: int, count: int, handle: int) -> None:
    """Write the handles of a module's kernels, as many as fit."""
    if count:
        out(address)
    module = machine.usable(Module, handle)
    for index, name in enumerate(list(module.code.entries)[:count]):
        put_word(address + WORD * index, module.function(name).handle)


# -- functions


def function_at(machine: Machine, handle: int) -> Function:
    """Return the function of a handle, and load it. A CUkernel stands for its function in the current context."""
    function = _known_function(machine, handle)
    function.loaded = True
    return function


def launched_function(machine: Machine, handle: int) -> Function:
    """Return the function of a handle for a launch, and load it; its context need not be current."""
    try:
        kernel = machine.handles[handle]
    except KeyError:
        kernel = None
    if isinstance(kernel, LibraryKernel):
        function = kernel.function()
    else:
        function = machine.get(Function, handle)
    function.loaded = True
    return function


def _known_function(machine: Machine, handle: int) -> Function:
    machine.context()
    kernel = machine.handles.get(handle)
    if isinstance(kernel, LibraryKernel):
        function = kernel.function()
    else:
        function = machine.get(Function, handle)
    function.module.context.check()
    return function


def is_lazy() -> bool:
    """Tell whether kernels are loaded when they are first used, as drivers do since CUDA 12.2."""
    return os.environ.get("CUDA_MODULE_LOADING", "").upper() != "EAGER"


@entry("cuModuleGetLoadingMode(CUmoduleLoadingMode *mode)", since=11070)
def loading_mode(machine: Machine, address: int) -> None:
    """Write whether kernels are loaded lazily (2) or eagerly (1)."""
    out(address)
    put_int(address, 2 if is_lazy() else 1)


@entry("cuFuncIsLoaded(CUfunctionLoadingState *state, CUfunction function)", since=12040)
def is_loaded(machine: Machine, address: int, handle: int) -> None:
    """Write whether a kernel is loaded."""
    out(address)
    put_int(address, int(_known_function(machine, handle).loaded))


@entry("cuFuncLoad(CUfunction function)", since=12040)
def load_function(machine: Machine, handle: int) -> None:
    """Load a kernel now."""
    function_at(machine, handle)


@entry("cuFuncGetAttribute(int *pi, CUfunction_attribute attrib, CUfunction hfunc)", since=2020)
def function_attribute(machine: Machine, address: int, number: int, handle: int) -> None:
    """Write an attribute of a kernel."""
    out(address)
    attributes = function_at(machine, handle).attributes()
    if number not in attributes:
        raise Refused(1)
    put_int(address, attributes[number])


@entry("cuFuncSetAttribute(CUfunction hfunc, CUfunction_attribute attrib, int value)", since=9000)
def set_function_attribute(machine: Machine, handle: int, number: int, value: int) -> None:
    """Set an attribute that can be set."""
    function = function_at(machine, handle)
    if number not in (8, 9, 11, 12, 13, 14, 15):
        raise Refused(1)
    if number == _MAX_DYNAMIC and not 0 <= value <= function.most_shared:
        raise Refused(
            1,
            f"{value} bytes of dynamic shared memory: a block of this kernel has at most {function.most_shared}, "
            f"besides {function.entry.static_shared} for its own variables",
        )
    if number in _REQUIRED_CLUSTER and function.entry.required_cluster is not None:
        raise Refused(800, f"kernel {function.entry.name!r} was compiled with a cluster size, which cannot be changed")
    least, most = _SETTABLE.get(number, (value, value))
    if not least <= value <= most:
        raise Refused(1, f"function attribute {number} is {value}: must be {least} to {most}")
    function.settings[number] = value


@entry("cuFuncSetCacheConfig(CUfunction hfunc, CUfunc_cache config)", since=3000)
def set_cache_config(machine: Machine, handle: int, config: int) -> None:
    """Accept a preference of shared memory or L1 cache."""
    function = function_at(machine, handle)
    if not 0 <= config <= 3:
        raise Refused(1)
    function.cache = config


@entry("cuFuncGetModule(CUmodule *hmod, CUfunction hfunc)", since=11000)
def function_module(machine: Machine, address: int, handle: int) -> None:
    """Write a kernel's module."""
    out(address)
    put_word(address, _known_function(machine, handle).module.handle)


@entry("cuFuncGetName(const char **name, CUfunction hfunc)", since=12030)
def function_name(machine: Machine, address: int, handle: int) -> None:
    """Write the address of a kernel's name, which is valid as long as its module."""
    out(address)
    put_address_of(address, _known_function(machine, handle).name)


@entry("cuFuncGetParamInfo(CUfunction func, size_t paramIndex, size_t *paramOffset, size_t *paramSize)", since=12040)
def parameter_info(machine: Machine, handle: int, index: int, offset: int, size: int) -> None:
    """Write offset and size of a kernel's parameter, or refuse its number; the size pointer may be NULL."""
    write_parameter(_known_function(machine, handle), index, offset, size)


def write_parameter(function: Function, index: int, offset: int, size: int) -> None:
    """Write offset and size of a parameter, or refuse its number."""
    parameters = function.entry.parameters
    if not 0 <= index < len(parameters):
        raise Refused(1)
    put_word(offset, parameters[index][0])
    if size:
        put_word(size, parameters[index][1])
