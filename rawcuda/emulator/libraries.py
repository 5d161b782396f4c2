"""Entry points: libraries, and the kernels in them.

Source       CUDA Driver API, "Library Management"
Read next    launches.py
"""
from __future__ import annotations

from .codes import Refused
from .machine import Machine
from .modules import Function, Library, Options, enumerate_into, load_module, put_name, put_parameter, put_variable, read_file
from .modules import set_function_attribute, set_function_cache
from .images import image_at
from .thunks import entry
from .words import out, put_int, put_u64, put_uint, text

__all__: list[str] = []


def _load(machine: Machine, address: int, image: bytes, options: Options, count: int) -> None:
    library = machine.add(Library(machine.add(load_module(machine, image, options))))
    library.context.owned[library.handle] = library
    put_u64(address, library.handle)


@entry("cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *jitOptions, void **jitOptionsValues, "
       "unsigned int numJitOptions, CUlibraryOption *libraryOptions, void **libraryOptionValues, unsigned int numLibraryOptions)",
       since=12000)
def load_data(machine: Machine, address: int, image: int, options: int, values: int, count: int, library_options: int,
              library_values: int, library_count: int) -> None:
    """Load a library from memory."""
    out(address)
    machine.context()
    _load(machine, address, image_at(image), Options(count, options, values), library_count)


@entry("cuLibraryLoadFromFile(CUlibrary *library, const char *fileName, CUjit_option *jitOptions, void **jitOptionsValues, "
       "unsigned int numJitOptions, CUlibraryOption *libraryOptions, void **libraryOptionValues, unsigned int numLibraryOptions)",
       since=12000)
def load_from_file(machine: Machine, address: int, name: int, options: int, values: int, count: int, library_options: int,
                   library_values: int, library_count: int) -> None:
    """Load a library from a file."""
    out(address)
    machine.context()
    _load(machine, address, read_file(name), Options(count, options, values), library_count)


def _library(machine: Machine, handle: int) -> Library:
    machine.context()
    library = machine.get(Library, handle)
    library.context.check()
    return library


@entry("cuLibraryUnload(CUlibrary library)", since=12000)
def unload(machine: Machine, handle: int) -> None:
    """Unload a library, when the context's work is done."""
    library = _library(machine, handle)
    machine.queues.complete_context(library.context)
    library.context.check()
    del machine.handles[handle], library.context.owned[handle]
    library.close()


@entry("cuLibraryGetKernel(CUkernel *pKernel, CUlibrary library, const char *name)", since=12000)
def get_kernel(machine: Machine, address: int, handle: int, name: int) -> None:
    """Find a kernel by name."""
    out(address, name)
    put_u64(address, _library(machine, handle).module.function(text(name)).handle)


@entry("cuLibraryGetKernelCount(unsigned int *count, CUlibrary lib)", since=12040)
def kernel_count(machine: Machine, address: int, handle: int) -> None:
    """Count a library's kernels."""
    out(address)
    put_uint(address, len(_library(machine, handle).module.code.entries))


@entry("cuLibraryEnumerateKernels(CUkernel *kernels, unsigned int numKernels, CUlibrary lib)", since=12040)
def enumerate_kernels(machine: Machine, address: int, count: int, handle: int) -> None:
    """List a library's kernels, as many as fit."""
    enumerate_into(_library(machine, handle).module, address, count)


@entry("cuLibraryGetModule(CUmodule *pMod, CUlibrary library)", since=12000)
def get_module(machine: Machine, address: int, handle: int) -> None:
    """Give a library's module in the current context; the library unloads it."""
    out(address)
    put_u64(address, _library(machine, handle).module.handle)


@entry("cuLibraryGetManaged(CUdeviceptr *dptr, size_t *bytes, CUlibrary library, const char *name)", since=12000)
@entry("cuLibraryGetGlobal(CUdeviceptr *dptr, size_t *bytes, CUlibrary library, const char *name)", since=12000)
def get_global(machine: Machine, address: int, size: int, handle: int, name: int) -> None:
    """Find a variable by name."""
    put_variable(_library(machine, handle).module, address, size, name)


def _kernel(machine: Machine, handle: int) -> Function:
    machine.context()
    return machine.get(Function, handle)


@entry("cuKernelGetFunction(CUfunction *pFunc, CUkernel kernel)", since=12000)
def get_function(machine: Machine, address: int, handle: int) -> None:
    """Give a kernel's function in the current context: here the same handle."""
    out(address)
    put_u64(address, _kernel(machine, handle).handle)


@entry("cuKernelGetLibrary(CUlibrary *pLib, CUkernel kernel)", since=12050)
def get_library(machine: Machine, address: int, handle: int) -> None:
    """Give the library that a kernel is of."""
    out(address)
    module = _kernel(machine, handle).module
    for thing in module.context.owned.values():
        if isinstance(thing, Library) and thing.module is module:
            put_u64(address, thing.handle)
            return
    raise Refused(400, "this kernel belongs to a module, not to a library")


@entry("cuKernelGetAttribute(int *pi, CUfunction_attribute attrib, CUkernel kernel, CUdevice dev)", since=12000)
def get_attribute(machine: Machine, address: int, number: int, handle: int, device: int) -> None:
    """Give an attribute of a kernel on a device."""
    out(address)
    machine.device(device)
    attributes = _kernel(machine, handle).attributes()
    if number not in attributes:
        raise Refused(1)
    put_int(address, attributes[number])


@entry("cuKernelSetAttribute(CUfunction_attribute attrib, int val, CUkernel kernel, CUdevice dev)", since=12000)
def set_attribute(machine: Machine, number: int, value: int, handle: int, device: int) -> None:
    """Set an attribute of a kernel."""
    machine.device(device)
    set_function_attribute(machine, handle, number, value)


@entry("cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config, CUdevice dev)", since=12000)
def set_cache_config(machine: Machine, handle: int, config: int, device: int) -> None:
    """Take a preference between cache and shared memory, which changes nothing."""
    machine.device(device)
    set_function_cache(machine, handle, config)


@entry("cuKernelGetName(const char **name, CUkernel hfunc)", since=12030)
def get_name(machine: Machine, address: int, handle: int) -> None:
    """Give a kernel's name."""
    out(address)
    put_name(address, _kernel(machine, handle))


@entry("cuKernelGetParamInfo(CUkernel kernel, size_t paramIndex, size_t *paramOffset, size_t *paramSize)", since=12040)
def parameter_info(machine: Machine, handle: int, index: int, offset: int, size: int) -> None:
    """Give offset and size of a kernel's parameter."""
    put_parameter(_kernel(machine, handle), index, offset, size)
