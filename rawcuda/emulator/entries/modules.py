"""Entry points: modules, functions and their attributes.

How          loading an image compiles all of its PTX to Python, so that every mistake is reported at that time. The
             messages of the compiler go to the JIT's log buffers. The driver's interface does not pass the length of an
             image: PTX ends with a NUL, and the header of a fatbin contains the length. A fatbin is searched for PTX;
             machine code cannot run.
Source       CUDA Driver API, "Module Management", "Execution Control" (cuFunc*); fatbins as nvcc 11 to 13 write them
             (undocumented: a header of 16 bytes, then members, each with its own header)
Read next    emulator/ptx/, launches.py
"""

from __future__ import annotations

import ctypes
import struct
import sys
import time

from ..codes import Refused
from ..machine import Context, Machine
from ..thunks import (
    entry,
    get_u64,
    out,
    put_address_of,
    put_bytes,
    put_float,
    put_int,
    put_u64,
    put_uint,
    text,
)
from .capabilities import capability_of
from .devices import ATTRIBUTES, FUNCTION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..ptx import Code, Entry

__all__ = ["Module", "Function", "Options", "function_at"]

_INFO, _INFO_SIZE, _ERROR, _ERROR_SIZE, _WALL_TIME, _THREADS = 3, 4, 5, 6, 2, 1
_SETTABLE = {9: (-1, 100), **dict.fromkeys((11, 12, 13), (0, 2**31 - 1)), 14: (0, 1), 15: (0, 2)}  # least, most
_REQUIRED_CLUSTER = 11, 12, 13  # CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, _HEIGHT, _DEPTH
_MAX_DYNAMIC = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES


class Function:
    """A kernel of a module: its handle is a CUfunction."""

    __slots__ = ("handle", "module", "entry", "name", "settings", "cache")

    def __init__(self, module: Module, code: Entry) -> None:
        self.handle = 0
        self.module, self.entry = module, code
        self.name = code.name.encode()  # cuFuncGetName returns its address
        self.settings: dict[int, int] = {_MAX_DYNAMIC: max(0, ATTRIBUTES[8] - code.static_shared), 9: -1}
        self.cache = 0  # a CUfunc_cache

    @property
    def max_threads(self) -> int:
        """Return the most threads that a block of this kernel may have."""
        if self.entry.required_block is not None:
            x, y, z = self.entry.required_block
            return x * y * z
        return min(self.entry.max_threads or ATTRIBUTES[1], ATTRIBUTES[1])

    @property
    def most_shared(self) -> int:
        """Return the most dynamic shared memory that a block of this kernel can be allowed."""
        return capability_of(self.module.machine.architecture).optin - self.entry.static_shared

    @property
    def required_cluster(self) -> tuple[int, int, int] | None:
        """Return the cluster that the code or the attributes require."""
        if self.entry.required_cluster is not None:
            return self.entry.required_cluster
        x, y, z = [self.settings.get(number, 0) for number in _REQUIRED_CLUSTER]
        return (x, y, z) if x and y and z else None

    def attributes(self) -> dict[int, int]:
        """Return every CUfunction_attribute.

        PTX_VERSION is the architecture of the PTX, as drivers answer, which differs from the header.
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


class Module:
    """A loaded module: its code, and a Function for each of its kernels, created on first use."""

    __slots__ = ("handle", "context", "code", "functions", "machine")

    def __init__(self, machine: Machine, context: Context, code: Code) -> None:
        self.handle = 0
        self.machine, self.context, self.code = machine, context, code
        self.functions: dict[str, Function] = {}
        for variable in code.variables.values():
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
        self.code.unload()


# -- loading


class Options:
    """The JIT options of a load: where the logs go, and which values are written back."""

    def __init__(self, count: int, options: int, values: int) -> None:
        if count and not (options and values):
            raise Refused(1)
        numbers = list((ctypes.c_int * count).from_address(options)) if count else []
        if any(not 0 <= number <= 40 for number in numbers):
            raise Refused(1)
        self._places = {number: values + 8 * index for index, number in enumerate(numbers)}

    def log(self, buffer: int, size: int, said: str) -> None:
        """Write as much of a log as fits, and its length."""
        if size not in self._places:
            return
        room = get_u64(self._places[size]) & 0xFFFFFFFF
        address = get_u64(self._places[buffer]) if buffer in self._places else 0
        written = 0
        if address and room:
            cut = said.encode("utf-8", "replace")[: room - 1] + b"\0"
            put_bytes(address, cut)
            written = len(cut) - 1
        put_u64(self._places[size], written)

    def time(self, milliseconds: float) -> None:
        """Write the wall time into the place of the option's value."""
        if _WALL_TIME in self._places:
            put_float(self._places[_WALL_TIME], milliseconds)


def _translated(machine: Machine, image: bytes, options: Options) -> Module:
    """Compile an image into a module without a handle, in the current context, and write the logs."""
    from ..ptx import Rejected, load  # here, because programs that load no kernel need no compiler

    context = machine.context()
    begun = time.perf_counter()
    try:
        code = load(
            image,
            machine.space,
            architecture=divmod(machine.architecture, 10),
            dump=_dump if machine.dump else None,
        )
    except Rejected as rejected:
        options.log(_INFO, _INFO_SIZE, "")
        options.log(_ERROR, _ERROR_SIZE, rejected.log)
        raise Refused(rejected.code, rejected.log) from None
    options.log(_INFO, _INFO_SIZE, code.info)
    options.log(_ERROR, _ERROR_SIZE, "")
    options.time((time.perf_counter() - begun) * 1e3)
    return Module(machine, context, code)


def _dump(source: str) -> str:
    """Write generated source to a file, print the name of the file and return it."""
    import tempfile

    with tempfile.NamedTemporaryFile("w", prefix="ptx-", suffix=".py", delete=False, encoding="utf-8") as file:
        file.write(source)
    sys.stderr.write(f"emulator: the source generated from a module is in {file.name}\n")
    return file.name


def _load_module(machine: Machine, address: int, image: bytes, options: Options) -> None:
    module = machine.add(_translated(machine, image, options))
    module.context.owned[module.handle] = module
    put_u64(address, module.handle)


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
    _load_module(machine, address, _image_at(image), Options(count, options, values))


def _read_file(name: int) -> bytes:
    """Read the image in a file."""
    try:
        with open(text(name), "rb") as file:
            return _image_of_file(file.read())
    except OSError as error:
        raise Refused(301, str(error)) from None


@entry("cuModuleLoad(CUmodule *module, const char *fname)", since=2000)
def load_file(machine: Machine, address: int, name: int) -> None:
    """Load a module from a file."""
    out(address)
    machine.context()
    _load_module(machine, address, _read_file(name), Options(0, 0, 0))


def _module(machine: Machine, handle: int) -> Module:
    machine.context()
    module = machine.get(Module, handle)
    module.context.check()
    return module


@entry("cuModuleUnload(CUmodule hmod)", since=2000)
def unload(machine: Machine, handle: int) -> None:
    """Unload a module after the context's work."""
    module = _module(machine, handle)
    machine.queues.complete_context(module.context)
    module.context.check()
    del machine.handles[handle], module.context.owned[handle]
    module.close()


# -- the content of a module


@entry("cuModuleGetFunction(CUfunction *hfunc, CUmodule hmod, const char *name)", since=2000)
def get_function(machine: Machine, address: int, handle: int, name: int) -> None:
    """Write the handle of a kernel."""
    out(address, name)
    put_u64(address, _module(machine, handle).function(text(name)).handle)


@entry("cuModuleGetGlobal_v2(CUdeviceptr *dptr, size_t *bytes, CUmodule hmod, const char *name)", since=3020)
def get_global(machine: Machine, address: int, size: int, handle: int, name: int) -> None:
    """Write address and size of a variable; either pointer may be NULL."""
    variables = _module(machine, handle).code.variables
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
        put_u64(size, variable.size)


@entry("cuModuleGetFunctionCount(unsigned int *count, CUmodule mod)", since=12040)
def function_count(machine: Machine, address: int, handle: int) -> None:
    """Write the number of a module's kernels."""
    out(address)
    put_uint(address, len(_module(machine, handle).code.entries))


@entry("cuModuleEnumerateFunctions(CUfunction *functions, unsigned int numFunctions, CUmodule mod)", since=12040)
def enumerate_functions(machine: Machine, address: int, count: int, handle: int) -> None:
    """Write the handles of a module's kernels, as many as fit."""
    if count:
        out(address)
    module = _module(machine, handle)
    for index, name in enumerate(list(module.code.entries)[:count]):
        put_u64(address + 8 * index, module.function(name).handle)


# -- functions


def function_at(machine: Machine, handle: int) -> Function:
    """Return the function of a handle."""
    machine.context()
    function = machine.get(Function, handle)
    function.module.context.check()
    return function


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
        raise Refused(800, f"kernel {function.entry.name!r} was compiled with a cluster size")
    least, most = _SETTABLE.get(number, (value, value))
    if not least <= value <= most:
        raise Refused(1, f"function attribute {number} is {value}: it is {least} .. {most}")
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
    put_u64(address, function_at(machine, handle).module.handle)


@entry("cuFuncGetName(const char **name, CUfunction hfunc)", since=12030)
def function_name(machine: Machine, address: int, handle: int) -> None:
    """Write the address of a kernel's name, which is valid as long as its module."""
    out(address)
    put_address_of(address, function_at(machine, handle).name)


@entry("cuFuncGetParamInfo(CUfunction func, size_t paramIndex, size_t *paramOffset, size_t *paramSize)", since=12040)
def parameter_info(machine: Machine, handle: int, index: int, offset: int, size: int) -> None:
    """Write offset and size of a kernel's parameter, or refuse its number; the size pointer may be NULL."""
    parameters = function_at(machine, handle).entry.parameters
    if not 0 <= index < len(parameters):
        raise Refused(1)
    put_u64(offset, parameters[index][0])
    if size:
        put_u64(size, parameters[index][1])


# -- code images

_WRAPPER, _FATBIN = b"\xb1\x43\x62\x46", b"\x50\xed\x55\xba"


def _image_at(address: int) -> bytes:
    """Read a code image and return its PTX; of a cubin, return only the first bytes."""
    if not address:
        raise Refused(1)
    magic = ctypes.string_at(address, 4)
    if magic == _WRAPPER:  # the structure that nvcc links into programs: magic, version, pointer to the fatbin
        return _image_at(ctypes.c_uint64.from_address(address + 8).value)
    if magic == _FATBIN:
        header, size = struct.unpack("<HQ", ctypes.string_at(address + 6, 10))
        return _choose(ctypes.string_at(address, header + size))
    if magic == b"\x7fELF":  # a cubin, which the compiler refuses by these bytes
        return magic
    return ctypes.string_at(address)


def _image_of_file(content: bytes) -> bytes:
    """Return the PTX in a file's content, or a cubin unchanged."""
    return _choose(content) if content[:4] == _FATBIN else content.rstrip(b"\0")


def _choose(fatbin: bytes) -> bytes:
    """Return the newest PTX among the members of a fatbin."""
    best, chosen = -1, None
    for kind, architecture, content in _members(fatbin):
        if kind == 1 and architecture > best:
            best, chosen = architecture, content
    if chosen is None:
        raise Refused(
            209,
            "this fatbin contains no PTX that the emulator can read (it cannot run machine code, and cannot unpack PTX "
            "compressed with zstd: use nvcc --no-compress)",
        )
    return chosen.rstrip(b"\0")


def _members(fatbin: bytes) -> list[tuple[int, int, bytes]]:
    """List the readable members of a fatbin: kind (1 PTX, 2 machine code), architecture, content."""
    at, size = struct.unpack_from("<HQ", fatbin, 6)
    end = at + size
    found = []
    while at + 64 <= min(end, len(fatbin)):
        kind, header, size, packed, architecture, flags, plain = struct.unpack_from("<H2xIQI8xI8xQ8xQ", fatbin, at)
        content = fatbin[at + header : at + header + size]
        if flags & 0x2000:
            found.append((kind, architecture, _unpack_lz4(content[:packed], plain)))
        elif flags & 0x8000:
            found += [(kind, architecture, plainly) for plainly in _unpack_zstd(content[:packed])]
        else:
            found.append((kind, architecture, content))
        at += header + size
    return found


def _unpack_zstd(packed: bytes) -> list[bytes]:
    """Unpack a zstd frame, which needs Python 3.14, or return None."""
    try:
        from compression import zstd  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        return []
    return [zstd.decompress(packed)]


def _unpack_lz4(packed: bytes, size: int) -> bytes:
    """Unpack an LZ4 block, a sequence of literals and copies of earlier output."""
    made = bytearray()
    at = 0
    while at < len(packed) and len(made) < size:
        token = packed[at]
        at += 1
        literals, at = _length(packed, at, token >> 4)
        made += packed[at : at + literals]
        at += literals
        if at + 2 > len(packed) or len(made) >= size:
            break
        distance = packed[at] | packed[at + 1] << 8
        length, at = _length(packed, at + 2, token & 15)
        if not 0 < distance <= len(made):
            raise Refused(200, "this fatbin's compressed PTX is damaged")
        for _ in range(length + 4):  # the copy may overlap its own output
            made.append(made[-distance])
    return bytes(made)


def _length(packed: bytes, at: int, start: int) -> tuple[int, int]:
    """Read an LZ4 length: after 15, bytes are added until one is not 255."""
    more = 255 if start == 15 else 0
    while more == 255:
        more = packed[at]
        at, start = at + 1, start + more
    return start, at
