"""Functions: the code of the program, which it registers before main() begins, and its kernels and variables.

How          nvcc makes functions that register each fatbin, with the addresses of the kernels' and variables' stand-ins
             on the host, which identify them afterwards. A fatbin becomes a library of the driver when it is first
             used, and each context gets a module of its own. The fatbin of a program that nvcc has linked (-rdc=true)
             contains only machine code, and the PTX is in the fatbins from which it was linked; they are linked again.
             Managed variables need their memory before the program uses them: nvcc calls __cudaInitModule for this.
Source       crt/host_runtime.h and crt/link.stub of CUDA 11.8 to 13.0; fatbinary_section.h
Read next    runtime_launches.py
"""

from __future__ import annotations

import ctypes

from ..entries.code.image_entries import length_of_fatbin
from ..entries.code.linking_entries import DEVICE_RUNTIME
from ..interface.thunks import get_word, out, put_address_of, put_word, text
from ..machine.codes import NOT_FOUND, Refused
from .state import Runtime, runtime

__all__ = ["Fatbin", "Kernel", "Variable", "kernel_of", "variable_at"]

_INVALID_SYMBOL, _INVALID_FUNCTION = 13, 98
_LINKED = 2  # the version of the structure around a fatbin that was made of other fatbins
_PTX, _FATBINARY = 1, 2  # CUjitInputType


class Fatbin:
    """A fatbin that the program has registered; its library is loaded when it is first used.

    address  of the structure around the fatbin
    memory   what the program gets as its handle: the address of this memory
    """

    __slots__ = ("address", "loaded", "memory", "managed")

    def __init__(self, address: int) -> None:
        self.address, self.loaded = address, 0
        self.memory = (ctypes.c_uint64 * 2)()
        self.managed: list[Variable] = []

    @property
    def handle(self) -> int:
        """Return the handle of the program."""
        return ctypes.addressof(self.memory)

    def load(self, state: Runtime) -> int:
        """Return the handle of the library: there is one, even if several threads need it at the same time."""
        with state.machine.lock:
            if not self.loaded:
                is_linked = ctypes.c_uint.from_address(self.address + 4).value == _LINKED
                if is_linked:
                    self.loaded = self._link(state)
                else:
                    self.loaded = _library(state, self.address)
            return self.loaded

    def _link(self, state: Runtime) -> int:
        """Link the fatbins, to which a list of addresses points that ends with NULL."""
        link, code, size = ctypes.c_uint64(), ctypes.c_uint64(), ctypes.c_size_t()
        state.do("cuLinkCreate_v2", 0, 0, 0, link)
        try:
            self._add_all(state, link.value)
            state.do("cuLinkAddData_v2", link.value, _PTX, _address(DEVICE_RUNTIME), len(DEVICE_RUNTIME), 0, 0, 0, 0)
            state.do("cuLinkComplete", link.value, code, size)
            return _library(state, code.value)
        finally:
            state.call("cuLinkDestroy", link.value)

    def _add_all(self, state: Runtime, link: int) -> None:
        """Add each of the fatbins to a link."""
        at = get_word(self.address + 16)
        while get_word(at):
            length = length_of_fatbin(ctypes.string_at(get_word(at), 16))
            state.do("cuLinkAddData_v2", link, _FATBINARY, get_word(at), length, 0, 0, 0, 0)
            at += 8

    def close(self, state: Runtime) -> None:
        """Unload the library."""
        if self.loaded:
            state.call("cuLibraryUnload", self.loaded)
            self.loaded = 0


class Kernel:
    """A kernel that the program has registered."""

    __slots__ = ("fatbin", "name", "handle")

    def __init__(self, fatbin: Fatbin, name: str) -> None:
        self.fatbin, self.name, self.handle = fatbin, name.encode(), 0

    def load(self, state: Runtime) -> int:
        """Return its handle, a CUkernel, which the driver also takes where it wants a CUfunction."""
        if not self.handle:
            library, found = self.fatbin.load(state), ctypes.c_uint64()
            code = state.call("cuLibraryGetKernel", found, library, _address(self.name))
            if code:
                raise Refused(_INVALID_FUNCTION if code == NOT_FOUND else code)
            self.handle = found.value
        return self.handle


class Variable:
    """A variable that the program has registered.

    host  its address on the host; for a managed variable, that of the pointer to it
    """

    __slots__ = ("fatbin", "name", "host", "size", "is_managed")

    def __init__(self, fatbin: Fatbin, name: str, host: int, size: int, is_managed: bool) -> None:
        self.fatbin, self.name, self.host, self.size = fatbin, name.encode(), host, size
        self.is_managed = is_managed

    def place(self, state: Runtime) -> tuple[int, int]:
        """Return its address and size in the current context."""
        pointer, size = ctypes.c_uint64(), ctypes.c_size_t()
        library = self.fatbin.load(state)
        code = state.call("cuLibraryGetGlobal", pointer, size, library, _address(self.name))
        if code:
            raise Refused(_INVALID_SYMBOL if code == NOT_FOUND else code)
        return pointer.value, size.value


def _library(state: Runtime, image: int) -> int:
    return state.get("cuLibraryLoadData", image, 0, 0, 0, 0, 0, 0)


def _address(name: bytes) -> int:
    return ctypes.cast(ctypes.c_char_p(name), ctypes.c_void_p).value or 0


# -- registration


@runtime("__cudaRegisterFatBinary", context=False, records=False)
def register_fatbin(state: Runtime, address: int) -> int:
    """Register a fatbin, and return its handle."""
    fatbin = Fatbin(address)
    state.fatbins[fatbin.handle] = fatbin
    return fatbin.handle


@runtime("__cudaRegisterFatBinaryEnd", context=False, records=False)
def end_registration(state: Runtime, handle: int) -> None:
    """End the registration of a fatbin, with all of its kernels and variables."""


@runtime("__cudaUnregisterFatBinary", context=False, records=False)
def unregister_fatbin(state: Runtime, handle: int) -> None:
    """Forget a fatbin with its kernels and variables, and unload its library."""
    fatbin = state.fatbins.pop(handle, None)
    if fatbin is not None:
        for known in state.kernels, state.variables:
            for host in [host for host, thing in known.items() if thing.fatbin is fatbin]:
                del known[host]
        fatbin.close(state)


@runtime("__cudaRegisterFunction", context=False, records=False)
def register_function(state: Runtime, handle: int, host: int, device: int, name: int, limit: int, *_: int) -> None:
    """Register a kernel."""
    state.kernels[host] = Kernel(_fatbin(state, handle), text(name))


@runtime("__cudaRegisterVar", context=False, records=False)
def register_variable(
    state: Runtime, handle: int, host: int, address: int, name: int, external: int, size: int, constant: int, _: int
) -> None:
    """Register a variable."""
    state.variables[host] = Variable(_fatbin(state, handle), text(name), host, size, False)


@runtime("__cudaRegisterManagedVar", context=False, records=False)
def register_managed(
    state: Runtime, handle: int, host: int, address: int, name: int, external: int, size: int, constant: int, _: int
) -> None:
    """Register a managed variable."""
    fatbin = _fatbin(state, handle)
    state.variables[host] = Variable(fatbin, text(name), host, size, True)
    fatbin.managed.append(state.variables[host])


@runtime("__cudaInitModule", records=False)  # 1 is its success
def initialize_module(state: Runtime, handle: int) -> int:
    """Write the addresses of a fatbin's managed variables into the program's pointers, and return 1."""
    for variable in _fatbin(state, handle).managed:
        put_word(variable.host, variable.place(state)[0])
    return 1


def _fatbin(state: Runtime, handle: int) -> Fatbin:
    found = state.fatbins.get(handle)
    if found is None:
        raise Refused(1, f"{handle:#x} is not the handle of a fatbin that the program has registered")
    return found


# -- kernels and variables


def kernel_of(state: Runtime, host: int) -> int:
    """Return the handle of a kernel for its address on the host; the handle of a kernel is returned as it is."""
    found = state.kernels.get(host)
    if found is not None:
        return found.load(state)
    if host in state.machine.handles:
        return host
    raise Refused(
        _INVALID_FUNCTION,
        f"{host:#x} is not the address of a kernel that the program has registered: pass the kernel itself, "
        "and link the code in which it is defined",
    )


def variable_at(state: Runtime, host: int, size: int = 0, offset: int = 0) -> int:
    """Return the address of a variable for its address on the host, or refuse a range that is not inside it."""
    found = state.variables.get(host)
    if found is None:
        raise Refused(_INVALID_SYMBOL, f"{host:#x} is not the address of a variable that the program has registered")
    address, length = found.place(state)
    if offset + size > length:
        raise Refused(
            1, f"{size} bytes from byte {offset} on of variable {found.name.decode()!r}, which has {length} bytes"
        )
    return address + offset


@runtime("cudaGetSymbolAddress")
def symbol_address(state: Runtime, address: int, host: int) -> None:
    """Write the address of a variable."""
    out(address)
    put_word(address, variable_at(state, host))


@runtime("cudaGetSymbolSize")
def symbol_size(state: Runtime, address: int, host: int) -> None:
    """Write the size of a variable."""
    out(address)
    variable_at(state, host)
    put_word(address, state.variables[host].place(state)[1])


@runtime("cudaGetFuncBySymbol")
def function_by_symbol(state: Runtime, address: int, host: int) -> None:
    """Write the CUfunction of a kernel in the current context."""
    out(address)
    state.do("cuKernelGetFunction", address, kernel_of(state, host))


@runtime("cudaGetKernel")
def get_kernel(state: Runtime, address: int, host: int) -> None:
    """Write the CUkernel of a kernel."""
    out(address)
    put_word(address, kernel_of(state, host))


@runtime("__cudaGetKernel", context=False)
def get_kernel_of_stub(state: Runtime, address: int, host: int) -> None:
    """Write the kernel's address on the host, which is the handle for __cudaLaunchKernel: so nothing is loaded yet."""
    out(address)
    put_word(address, host)


@runtime("cudaFuncGetName")
def function_name(state: Runtime, address: int, host: int) -> None:
    """Write the address of a kernel's name."""
    out(address)
    found = state.kernels.get(host)
    if found is not None:
        put_address_of(address, found.name)
    else:
        state.do("cuFuncGetName", address, kernel_of(state, host))
