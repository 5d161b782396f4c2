"""Entry points: libraries, which are code that belongs to no context, and their kernels.

How          loading a library checks its whole text, or with the word "deferred" its first use does. The logs are then
             written into the buffers that were given when it was loaded. Each context gets a module of its own when
             it first needs a module, a function or a variable of the library. A CUkernel can be used wherever a
             CUfunction can: it then stands for the function in the current context.
Source       CUDA Driver API, "Library Management"
Read next    modules.py
"""

from __future__ import annotations

from ...interface.thunks import WORD, entry, out, put_address_of, put_uint, put_word, text
from ...machine.codes import Refused
from ...machine.machine import Context, Machine
from .image_entries import image_at, read_file
from .modules import (
    Function,
    LibraryKernel,
    Module,
    Options,
    check_image,
    function_attribute,
    set_function_attribute,
    translated,
    write_parameter,
    write_variable,
)

__all__ = ["Library"]


class Library:
    """A loaded library: its handle is a CUlibrary."""

    __slots__ = ("handle", "machine", "image", "options", "_names", "modules", "kernels")

    def __init__(self, machine: Machine, image: bytes, options: Options) -> None:
        self.handle = 0
        self.machine, self.image, self.options = machine, image, options
        self._names: list[str] | None = None
        self.modules: dict[Context, Module] = {}  # each until it is closed, at the latest with its context
        self.kernels: dict[str, LibraryKernel] = {}

    @property
    def names(self) -> list[str]:
        """Return the names of the kernels; the first time, check the text, and write the logs."""
        if self._names is None:
            self._names = check_image(self.machine, self.image, self.options)
        return self._names

    def module(self) -> Module:
        """Return the module in the current context, which is created on first use."""
        context = self.machine.context()
        self.names  # refuses wrong text
        known = self.modules.get(context)
        if known is not None:
            return known
        made: Module = self.machine.add(translated(self.machine, self.image, Options(0, 0, 0)))
        made.part_of = self
        context.owned[made.handle] = made
        self.modules[context] = made
        return made

    def is_loaded(self) -> bool:
        """Tell whether the module in the current context exists."""
        return self.machine.context() in self.modules

    def function_of(self, name: str) -> Function:
        """Return the function of a kernel in the current context."""
        return self.module().function(name)

    def kernel(self, name: str) -> LibraryKernel:
        """Return the kernel of a name, or refuse the name."""
        if name not in self.names:
            raise Refused(
                500, f"no kernel {name!r} in this library; the kernels are: {', '.join(self.names) or 'none'}"
            )
        found = self.kernels.get(name)
        if found is None:
            found = self.kernels[name] = self.machine.add(LibraryKernel(self, name))
        return found


def _load(machine: Machine, address: int, image: bytes, options: Options) -> None:
    library = Library(machine, image, options)
    if not machine.deferred:
        library.names  # refuses wrong text
    put_word(address, machine.add(library).handle)


@entry(
    "cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *jitOptions, void **jitOptionsValues, "
    "unsigned int numJitOptions, CUlibraryOption *libraryOptions, void **libraryOptionValues, "
    "unsigned int numLibraryOptions)",
    since=12000,
)
def load_data(
    machine: Machine,
    address: int,
    code: int,
    options: int,
    values: int,
    count: int,
    library_options: int,
    library_values: int,
    library_count: int,
) -> None:
    """Load a library from memory; it needs no current context."""
    out(address, code)
    if library_count and not library_options:
        raise Refused(1)
    _load(machine, address, image_at(code, machine.architecture), Options(count, options, values))


@entry(
    "cuLibraryLoadFromFile(CUlibrary *library, const char *fileName, CUjit_option *jitOptions, "
    "void **jitOptionsValues, unsigned int numJitOptions, CUlibraryOption *libraryOptions, void **libraryOptionValues, "
    "unsigned int numLibraryOptions)",
    since=12000,
)
def load_file(
    machine: Machine,
    address: int,
    name: int,
    options: int,
    values: int,
    count: int,
    library_options: int,
    library_values: int,
    library_count: int,
) -> None:
    """Load a library from a file."""
    out(address, name)
    _load(machine, address, read_file(name, machine.architecture), Options(count, options, values))


@entry("cuLibraryUnload(CUlibrary library)", since=12000)
def unload(machine: Machine, handle: int) -> None:
    """Unload a library with its modules, after the work of their contexts."""
    library = machine.get(Library, handle)
    for context in list(library.modules):
        if not context.state:
            machine.queues.complete_context(context)
    library = machine.get(Library, handle)  # another thread may have unloaded it meanwhile, or used it first elsewhere
    for context, module in list(library.modules.items()):
        if not context.state:
            machine.handles.pop(module.handle, None)
            context.owned.pop(module.handle, None)
            module.close()  # (last: after an interrupt, the call can be repeated)
    for kernel in library.kernels.values():
        machine.handles.pop(kernel.handle, None)
    del machine.handles[handle]


@entry("cuLibraryGetModule(CUmodule *pMod, CUlibrary library)", since=12000)
def get_module(machine: Machine, address: int, handle: int) -> None:
    """Write the library's module in the current context."""
    out(address)
    library = machine.get(Library, handle)
    if not library.is_loaded():
        machine.refuse_unsafe()  # as the functions that load modules
    put_word(address, library.module().handle)


@entry("cuLibraryGetKernel(CUkernel *pKernel, CUlibrary library, const char *name)", since=12000)
def get_kernel(machine: Machine, address: int, handle: int, name: int) -> None:
    """Write the handle of a kernel."""
    out(address, name)
    put_word(address, machine.get(Library, handle).kernel(text(name)).handle)


@entry("cuLibraryGetKernelCount(unsigned int *count, CUlibrary lib)", since=12040)
def kernel_count(machine: Machine, address: int, handle: int) -> None:
    """Write the number of kernels."""
    out(address)
    put_uint(address, len(machine.get(Library, handle).names))


@entry("cuLibraryEnumerateKernels(CUkernel *kernels, unsigned int numKernels, CUlibrary lib)", since=12040)
def enumerate_kernels(machine: Machine, address: int, count: int, handle: int) -> None:
    """Write the handles of the kernels, as many as fit."""
    if count:
        out(address)
    library = machine.get(Library, handle)
    for index, name in enumerate(library.names[:count]):
        put_word(address + WORD * index, library.kernel(name).handle)


@entry("cuLibraryGetGlobal(CUdeviceptr *dptr, size_t *bytes, CUlibrary library, const char *name)", since=12000)
def get_global(machine: Machine, address: int, size: int, handle: int, name: int) -> None:
    """Write address and size of a variable in the current context; either pointer may be NULL."""
    write_variable(machine.get(Library, handle).module(), address, size, name)


@entry("cuLibraryGetManaged(CUdeviceptr *dptr, size_t *bytes, CUlibrary library, const char *name)", since=12000)
def get_managed(machine: Machine, address: int, size: int, handle: int, name: int) -> None:
    """Write address and size of a managed variable; either pointer may be NULL."""
    module = machine.get(Library, handle).module()
    if name:
        variable = module.code.variables.get(text(name))
    else:
        variable = None
    if variable is not None and variable.kind != "managed":
        raise Refused(500, f"variable {text(name)!r} is not managed: use cuLibraryGetGlobal")
    write_variable(module, address, size, name)


def _kernel(machine: Machine, handle: int) -> LibraryKernel:
    return machine.get(LibraryKernel, handle)


@entry("cuKernelGetFunction(CUfunction *pFunc, CUkernel kernel)", since=12000)
def get_function(machine: Machine, address: int, handle: int) -> None:
    """Write a kernel's function in the current context."""
    out(address)
    put_word(address, _kernel(machine, handle).function().handle)


@entry("cuKernelGetLibrary(CUlibrary *pLib, CUkernel kernel)", since=12050)
def get_library(machine: Machine, address: int, handle: int) -> None:
    """Write a kernel's library."""
    out(address)
    put_word(address, _kernel(machine, handle).part_of.handle)


@entry("cuKernelGetName(const char **name, CUkernel hfunc)", since=12030)
def get_name(machine: Machine, address: int, handle: int) -> None:
    """Write the address of a kernel's name, which is valid as long as its library."""
    out(address)
    put_address_of(address, _kernel(machine, handle).encoded)


@entry("cuKernelGetParamInfo(CUkernel kernel, size_t paramIndex, size_t *paramOffset, size_t *paramSize)", since=12040)
def parameter_info(machine: Machine, handle: int, index: int, offset: int, size: int) -> None:
    """Write offset and size of a kernel's parameter, or refuse its number; the size pointer may be NULL."""
    write_parameter(_kernel(machine, handle).function(), index, offset, size)


def _on_device(machine: Machine, handle: int, device: int) -> Function:
    """Return a kernel's function in the current context, which must be a context of the device."""
    function = _kernel(machine, handle).function()
    if not 0 <= device < len(machine.devices):
        raise Refused(101)
    if function.module.context.device.ordinal != device:
        raise Refused(
            801,
            f"device {device}: the emulator knows the attributes of a kernel only on the device of the current context",
        )
    return function


@entry("cuKernelGetAttribute(int *pi, CUfunction_attribute attrib, CUkernel kernel, CUdevice dev)", since=12000)
def get_attribute(machine: Machine, address: int, number: int, handle: int, device: int) -> None:
    """Write an attribute of a kernel on a device."""
    out(address)
    function_attribute(machine, address, number, _on_device(machine, handle, device).handle)


@entry("cuKernelSetAttribute(CUfunction_attribute attrib, int val, CUkernel kernel, CUdevice dev)", since=12000)
def set_attribute(machine: Machine, number: int, value: int, handle: int, device: int) -> None:
    """Set an attribute of a kernel on a device."""
    set_function_attribute(machine, _on_device(machine, handle, device).handle, number, value)


@entry("cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config, CUdevice dev)", since=12000)
def set_cache_config(machine: Machine, handle: int, config: int, device: int) -> None:
    """Accept a preference of shared memory or L1 cache for a kernel on a device."""
    if not 0 <= config <= 3:
        raise Refused(1)
    _on_device(machine, handle, device).cache = config
