"""Entry points: modules, libraries, functions and what is known of them.

How          an image is brought to PTX and compiled to Python when it is loaded, all of it, so that a mistake anywhere shows at
             once; what the compiler says goes to the JIT's log buffers. A library is a module that belongs to no context: here it
             is loaded into the current one.
Source       CUDA Driver API, "Module Management", "Library Management", "Execution Control" (cuFunc*)
Read next    ptx/, launches.py
"""
from __future__ import annotations

import ctypes
import sys
import time

from .attributes import ATTRIBUTES, FUNCTION
from .codes import Refused
from .devices import DRIVER_VERSION
from .images import image_at, image_of_file
from .machine import Context, Machine
from .thunks import entry
from .words import get_u64, out, put_bytes, put_float, put_int, put_u64, put_uint, take, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .ptx import Code, Entry

__all__ = ["Module", "Library", "Function", "Options", "load_module", "read_file",
           "enumerate_into", "put_variable", "put_name", "put_parameter", "function_at"]

_INFO, _INFO_SIZE, _ERROR, _ERROR_SIZE, _WALL_TIME, _THREADS = 3, 4, 5, 6, 2, 1
_MAX_DYNAMIC = 8                                 # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES


class Function:
    """A kernel of a module: its handle is a CUfunction, and here a CUkernel, too."""

    __slots__ = ("handle", "module", "entry", "name", "settings")

    def __init__(self, module: Module, code: Entry) -> None:
        self.handle = 0
        self.module, self.entry = module, code
        self.name = code.name.encode()           # cuFuncGetName hands out its address
        self.settings: dict[int, int] = {_MAX_DYNAMIC: max(0, ATTRIBUTES[8] - code.static_shared), 9: -1}

    @property
    def max_threads(self) -> int:
        """Return the most threads that a block of this kernel may have."""
        if self.entry.required_block is not None:
            x, y, z = self.entry.required_block
            return x * y * z
        return min(self.entry.max_threads or ATTRIBUTES[1], ATTRIBUTES[1])

    def attributes(self) -> dict[int, int]:
        """Return every CUfunction_attribute.

        PTX_VERSION is the architecture that the PTX is for, as drivers answer it, whatever the header says.
        """
        code = self.entry
        return {**dict.fromkeys(FUNCTION, 0), 0: self.max_threads, 1: code.static_shared, 2: code.constant_bytes,
                3: code.local_bytes, 4: code.registers, 5: code.target, 6: ATTRIBUTES[75] * 10 + ATTRIBUTES[76], **self.settings}


class Module:
    """A loaded module: its code, and a Function for each of its kernels, made when it is asked for."""

    __slots__ = ("handle", "context", "code", "functions", "machine", "counted")

    def __init__(self, machine: Machine, context: Context, code: Code) -> None:
        self.handle = 0
        self.machine, self.context, self.code = machine, context, code
        self.functions: dict[str, Function] = {}
        self.counted = True                      # as something that the user must unload
        for variable in code.variables.values():
            machine.name_variable(variable, context)

    def function(self, name: str) -> Function:
        """Return the function of a name, refusing one that is not there."""
        found = self.functions.get(name)
        if found is None:
            if name not in self.code.entries:
                raise Refused(500, f"no kernel {name!r} in this module; it has {', '.join(sorted(self.code.entries)) or 'none'}")
            found = self.functions[name] = self.machine.add(Function(self, self.code.entries[name]))
        return found

    def every(self) -> list[Function]:
        """Return all functions."""
        return [self.function(name) for name in self.code.entries]

    def close(self) -> None:
        """Free the variables and forget the functions."""
        for function in self.functions.values():
            self.machine.handles.pop(function.handle, None)
        self.code.unload()


class Library:
    """A module that a program loads without a context, in the one that was current."""

    __slots__ = ("handle", "context", "module")

    def __init__(self, module: Module) -> None:
        self.handle = 0
        self.module, self.context = module, module.context
        module.counted = False                   # the library unloads it

    def close(self) -> None:
        """Unload."""
        self.module.machine.handles.pop(self.module.handle, None)
        self.module.close()


# -- loading

class Options:
    """JIT options: where the logs go, and what is written back."""

    def __init__(self, count: int, options: int, values: int) -> None:
        if count and not (options and values):
            raise Refused(1)
        numbers = list((ctypes.c_int * count).from_address(options)) if count else []
        if any(not 0 <= number <= 40 for number in numbers):
            raise Refused(1)
        self._places = {number: values + 8 * index for index, number in enumerate(numbers)}

    def log(self, buffer: int, size: int, said: str) -> None:
        """Write a log as far as it fits, and how long it is."""
        if size not in self._places:
            return
        room = get_u64(self._places[size]) & 0xFFFFFFFF
        address = get_u64(self._places[buffer]) if buffer in self._places else 0
        written = 0
        if address and room:
            cut = said.encode("utf-8", "replace")[:room - 1] + b"\0"
            put_bytes(address, cut)
            written = len(cut) - 1
        put_u64(self._places[size], written)

    def time(self, milliseconds: float) -> None:
        """Write how long it took, into the value itself."""
        if _WALL_TIME in self._places:
            put_float(self._places[_WALL_TIME], milliseconds)


def load_module(machine: Machine, image: bytes, options: Options) -> Module:
    """Compile an image into a module of the current context, and write the logs; the module has no handle yet."""
    from .ptx import Rejected, load              # only here: programs that load no kernel need no compiler
    context = machine.context()
    begun = time.perf_counter()
    try:
        code = load(image, machine.space, architecture=(ATTRIBUTES[75], ATTRIBUTES[76]), driver_version=DRIVER_VERSION,
                    dump=_dump if machine.dump else None)
    except Rejected as rejected:
        options.log(_INFO, _INFO_SIZE, "")
        options.log(_ERROR, _ERROR_SIZE, rejected.log)
        raise Refused(rejected.code, rejected.log) from None
    options.log(_INFO, _INFO_SIZE, code.info)
    options.log(_ERROR, _ERROR_SIZE, "")
    options.time((time.perf_counter() - begun) * 1e3)
    return Module(machine, context, code)


def _dump(source: str) -> str:
    """Write generated source where a person can read it, and say where."""
    import tempfile
    with tempfile.NamedTemporaryFile("w", prefix="ptx-", suffix=".py", delete=False, encoding="utf-8") as file:
        file.write(source)
    sys.stderr.write(f"emulator: the source that was made of a module is in {file.name}\n")
    return file.name


def _load_module(machine: Machine, address: int, image: bytes, options: Options) -> None:
    module = machine.add(load_module(machine, image, options))
    module.context.owned[module.handle] = module
    put_u64(address, module.handle)


@entry("cuModuleLoadData(CUmodule *module, const void *image)", since=2000)
def load_data(machine: Machine, address: int, image: int) -> None:
    """Load a module from memory."""
    load_data_ex(machine, address, image, 0, 0, 0)


@entry("cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int numOptions, CUjit_option *options, "
       "void **optionValues)", since=2010)
def load_data_ex(machine: Machine, address: int, image: int, count: int, options: int, values: int) -> None:
    """Load a module from memory, with options for the JIT."""
    out(address)
    machine.context()
    _load_module(machine, address, image_at(image), Options(count, options, values))


@entry("cuModuleLoadFatBinary(CUmodule *module, const void *fatCubin)", since=2000)
def load_fat_binary(machine: Machine, address: int, image: int) -> None:
    """Load a module from a fatbin."""
    load_data_ex(machine, address, image, 0, 0, 0)


def read_file(name: int) -> bytes:
    """Read the image in a file."""
    try:
        with open(text(name), "rb") as file:
            return image_of_file(file.read())
    except OSError as error:
        raise Refused(301, str(error)) from None


@entry("cuModuleLoad(CUmodule *module, const char *fname)", since=2000)
def load_file(machine: Machine, address: int, name: int) -> None:
    """Load a module from a file."""
    out(address)
    machine.context()
    _load_module(machine, address, read_file(name), Options(0, 0, 0))


def _module(machine: Machine, handle: int) -> Module:
    machine.context()
    module = machine.get(Module, handle)
    module.context.check()
    return module


@entry("cuModuleUnload(CUmodule hmod)", since=2000)
def unload(machine: Machine, handle: int) -> None:
    """Unload a module, when the context's work is done."""
    module = _module(machine, handle)
    if handle not in module.context.owned:
        raise Refused(400, "this module belongs to a library, which unloads it")
    machine.queues.complete_context(module.context)
    module.context.check()
    del machine.handles[handle], module.context.owned[handle]
    module.close()


# -- what is in a module

@entry("cuModuleGetFunction(CUfunction *hfunc, CUmodule hmod, const char *name)", since=2000)
def get_function(machine: Machine, address: int, handle: int, name: int) -> None:
    """Find a kernel by name."""
    out(address, name)
    put_u64(address, _module(machine, handle).function(text(name)).handle)


def put_variable(module: Module, address: int, size: int, name: int) -> None:
    """Write where a module's variable lies, and its size."""
    if not address and not size:
        raise Refused(1)
    variable = module.code.variables.get(text(name))
    if variable is None:
        raise Refused(500, f"no variable {text(name)!r} in this module; it has {', '.join(sorted(module.code.variables)) or 'none'}")
    if address:
        put_u64(address, variable.base)
    if size:
        put_u64(size, variable.size)


@entry("cuModuleGetGlobal_v2(CUdeviceptr *dptr, size_t *bytes, CUmodule hmod, const char *name)", since=3020)
def get_global(machine: Machine, address: int, size: int, handle: int, name: int) -> None:
    """Find a variable by name; either of address and size may be left out."""
    put_variable(_module(machine, handle), address, size, name)


@entry("cuModuleGetFunctionCount(unsigned int *count, CUmodule mod)", since=12040)
def function_count(machine: Machine, address: int, handle: int) -> None:
    """Count a module's kernels."""
    out(address)
    put_uint(address, len(_module(machine, handle).code.entries))


def enumerate_into(module: Module, address: int, count: int) -> None:
    """Write the handles of a module's kernels, as many as fit."""
    if not count:
        return
    out(address)
    for index, function in enumerate(module.every()[:count]):
        put_u64(address + 8 * index, function.handle)


@entry("cuModuleEnumerateFunctions(CUfunction *functions, unsigned int numFunctions, CUmodule mod)", since=12040)
def enumerate_functions(machine: Machine, address: int, count: int, handle: int) -> None:
    """List a module's kernels, as many as fit."""
    enumerate_into(_module(machine, handle), address, count)


@entry("cuModuleGetLoadingMode(CUmoduleLoadingMode *mode)", since=11070)
def loading_mode(machine: Machine, address: int) -> None:
    """Say that modules are loaded at once."""
    put_int(address, 1)


# -- functions

def function_at(machine: Machine, handle: int) -> Function:
    """Return the function for a handle."""
    machine.context()
    function = machine.get(Function, handle)
    function.module.context.check()
    return function


@entry("cuFuncGetAttribute(int *pi, CUfunction_attribute attrib, CUfunction hfunc)", since=2020)
def function_attribute(machine: Machine, address: int, number: int, handle: int) -> None:
    """Give an attribute of a kernel."""
    out(address)
    attributes = function_at(machine, handle).attributes()
    if number not in attributes:
        raise Refused(1)
    put_int(address, attributes[number])


@entry("cuFuncSetAttribute(CUfunction hfunc, CUfunction_attribute attrib, int value)", since=9000)
def set_function_attribute(machine: Machine, handle: int, number: int, value: int) -> None:
    """Set one of the attributes that can be set."""
    function = function_at(machine, handle)
    if number not in (8, 9, 11, 12, 13, 14, 15):
        raise Refused(1)
    if number == _MAX_DYNAMIC and not 0 <= value <= ATTRIBUTES[97] - function.entry.static_shared:
        raise Refused(1, f"{value} bytes of dynamic shared memory: a block has at most {ATTRIBUTES[97]}, and this kernel's own "
                         f"take {function.entry.static_shared}")
    if number == 9 and not -1 <= value <= 100:
        raise Refused(1)
    function.settings[number] = value


@entry("cuFuncSetCacheConfig(CUfunction hfunc, CUfunc_cache config)", since=3000)
def set_function_cache(machine: Machine, handle: int, config: int) -> None:
    """Take a preference between cache and shared memory, which changes nothing."""
    function_at(machine, handle)
    if not 0 <= config <= 3:
        raise Refused(1)


@entry("cuFuncSetSharedMemConfig(CUfunction hfunc, CUsharedconfig config)", since=4020)
def set_function_shared_config(machine: Machine, handle: int, config: int) -> None:
    """Take a wish for another bank size of shared memory, which changes nothing."""
    function_at(machine, handle)
    if not 0 <= config <= 2:
        raise Refused(1)


@entry("cuFuncGetModule(CUmodule *hmod, CUfunction hfunc)", since=11000)
def function_module(machine: Machine, address: int, handle: int) -> None:
    """Give the module that a kernel is of."""
    out(address)
    put_u64(address, function_at(machine, handle).module.handle)


def put_name(address: int, function: Function) -> None:
    """Write the address of a kernel's name."""
    put_u64(address, ctypes.cast(ctypes.c_char_p(function.name), ctypes.c_void_p).value or 0)


@entry("cuFuncGetName(const char **name, CUfunction hfunc)", since=12030)
def function_name(machine: Machine, address: int, handle: int) -> None:
    """Give a kernel's name, which lasts as long as its module."""
    out(address)
    put_name(address, function_at(machine, handle))


def put_parameter(function: Function, index: int, offset: int, size: int) -> None:
    """Write offset and size of a parameter; the size may be left out."""
    parameters = function.entry.parameters
    if not 0 <= index < len(parameters):
        raise Refused(1)
    put_u64(offset, parameters[index][0])
    if size:
        put_u64(size, parameters[index][1])


@entry("cuFuncGetParamInfo(CUfunction func, size_t paramIndex, size_t *paramOffset, size_t *paramSize)", since=12040)
def parameter_info(machine: Machine, handle: int, index: int, offset: int, size: int) -> None:
    """Give offset and size of a kernel's parameter; beyond the last one is 1."""
    put_parameter(function_at(machine, handle), index, offset, size)


@entry("cuFuncIsLoaded(CUfunctionLoadingState *state, CUfunction function)", since=12040)
def function_is_loaded(machine: Machine, address: int, handle: int) -> None:
    """Say that a kernel is loaded."""
    out(address)
    function_at(machine, handle)
    put_int(address, 1)


@entry("cuFuncLoad(CUfunction function)", since=12040)
def function_load(machine: Machine, handle: int) -> None:
    """Do nothing: every kernel is loaded with its module."""
    function_at(machine, handle)
