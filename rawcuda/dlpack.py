"""DLPack's header as data, and the life of a capsule.

What it is   dlpack.h 1.3 as constants and structs; `identify` and `consume` for a capsule that comes, `export` for one that
             goes. A tensor is handed over as a pointer in a PyCapsule, whose name tells its state:
                 "dltensor_versioned" or "dltensor"             nobody has taken it: dropping the capsule frees the tensor
                 "used_dltensor_versioned" or "used_dltensor"   somebody has, and calls the tensor's deleter when done
What not     it reads no tensor (protocols/dlpack.py does), knows no dtype by name, and no stream.
Rules        a deleter runs exactly once, in any thread, with an exception pending or not, at the end of the interpreter or
             after it. At exit every tensor that is still out gets a deleter that does nothing, and stays in memory for good.
Source       dlpack.h 1.3 (https://github.com/dmlc/dlpack, include/dlpack/dlpack.h); "Python Specification for DLPack";
             Python/C API Reference Manual, "Capsules"
Read next    protocols/dlpack.py
"""

from __future__ import annotations

import ctypes
import sys
from _thread import RLock
from struct import Struct

from . import tracing
from .errors import refusal
from .interpreter.callback import available, callback
from .interpreter.cpython import address_of, bind, c_string, immortal, reader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Ints = tuple[int, ...]
    _Template = tuple[
        list[Any], Any, bytes, bytes, bytes
    ]  # spare blocks of its size, what packs one, a struct's bytes without the pointers

__all__ = [
    "VERSION",
    "DEVICE_TYPES",
    "TYPE_CODES",
    "DLPACK_FLAG_BITMASK_READ_ONLY",
    "DLPACK_FLAG_BITMASK_IS_COPIED",
    "DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED",
    "DLPackVersion",
    "DLDevice",
    "DLDataType",
    "DLTensor",
    "DLManagedTensor",
    "DLManagedTensorVersioned",
    "DLPackExchangeAPIHeader",
    "DLPackExchangeAPI",
    "Consumed",
    "consume",
    "export",
    "export_like",
    "identify",
    "is_capsule",
    "lend",
    "names",
    "outstanding",
    "pointers",
    "template_of",
]

# -- the header

VERSION = 1, 3  # DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION

DEVICE_TYPES = {
    "kDLCPU": 1,
    "kDLCUDA": 2,
    "kDLCUDAHost": 3,
    "kDLOpenCL": 4,
    "kDLVulkan": 7,
    "kDLMetal": 8,
    "kDLVPI": 9,
    "kDLROCM": 10,
    "kDLROCMHost": 11,
    "kDLExtDev": 12,
    "kDLCUDAManaged": 13,
    "kDLOneAPI": 14,
    "kDLWebGPU": 15,
    "kDLHexagon": 16,
    "kDLMAIA": 17,
    "kDLTrn": 18,
}
TYPE_CODES = {
    "kDLInt": 0,
    "kDLUInt": 1,
    "kDLFloat": 2,
    "kDLOpaqueHandle": 3,
    "kDLBfloat": 4,
    "kDLComplex": 5,
    "kDLBool": 6,
    "kDLFloat8_e3m4": 7,
    "kDLFloat8_e4m3": 8,
    "kDLFloat8_e4m3b11fnuz": 9,
    "kDLFloat8_e4m3fn": 10,
    "kDLFloat8_e4m3fnuz": 11,
    "kDLFloat8_e5m2": 12,
    "kDLFloat8_e5m2fnuz": 13,
    "kDLFloat8_e8m0fnu": 14,
    "kDLFloat6_e2m3fn": 15,
    "kDLFloat6_e3m2fn": 16,
    "kDLFloat4_e2m1fn": 17,
}
DLPACK_FLAG_BITMASK_READ_ONLY = 1
DLPACK_FLAG_BITMASK_IS_COPIED = 2
DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED = 4

_pointer = ctypes.c_void_p


class DLPackVersion(ctypes.Structure):
    """8 bytes: a larger minor only adds enumerators; another major may have another layout behind `flags`."""

    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32)]


class DLDevice(ctypes.Structure):
    """8 bytes: device_type is an enumerator of DLDeviceType, device_id 0 for all kinds of host memory and for managed memory."""

    _fields_ = [("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32)]


class DLDataType(ctypes.Structure):
    """4 bytes: bits of one lane, both parts of a complex together."""

    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class DLTensor(ctypes.Structure):
    """48 bytes: strides count elements, and may be null for C order; the first element is at data + byte_offset."""

    _fields_ = [
        ("data", _pointer),
        ("device", DLDevice),
        ("ndim", ctypes.c_int32),
        ("dtype", DLDataType),
        ("shape", _pointer),
        ("strides", _pointer),
        ("byte_offset", ctypes.c_uint64),
    ]


class DLManagedTensor(ctypes.Structure):
    """64 bytes, the struct before 1.0: it has no place for a version, nor for the read-only flag."""

    _fields_ = [("dl_tensor", DLTensor), ("manager_ctx", _pointer), ("deleter", _pointer)]


class DLManagedTensorVersioned(ctypes.Structure):
    """80 bytes: everything up to `flags` is promised to stay where it is in all versions."""

    _fields_ = [
        ("version", DLPackVersion),
        ("manager_ctx", _pointer),
        ("deleter", _pointer),
        ("flags", ctypes.c_uint64),
        ("dl_tensor", DLTensor),
    ]


class DLPackExchangeAPIHeader(ctypes.Structure):
    """16 bytes: the table's version, and where the table of an older one is."""

    _fields_ = [("version", DLPackVersion), ("prev_api", _pointer)]


class DLPackExchangeAPI(ctypes.Structure):
    """56 bytes: a type's table of C functions, which exchange tensors without a capsule and without synchronising."""

    _fields_ = [
        ("header", DLPackExchangeAPIHeader),
        ("managed_tensor_allocator", _pointer),
        ("managed_tensor_from_py_object_no_sync", _pointer),
        ("managed_tensor_to_py_object_no_sync", _pointer),
        ("dltensor_from_py_object_no_sync", _pointer),
        ("current_work_stream", _pointer),
    ]


# -- a capsule that comes

# A capsule keeps its name's address, so the names live for good.
_VERSIONED, _USED_VERSIONED = c_string(b"dltensor_versioned"), c_string(b"used_dltensor_versioned")
_LEGACY, _USED_LEGACY = c_string(b"dltensor"), c_string(b"used_dltensor")
versioned_name, legacy_name = ctypes.byref(_VERSIONED), ctypes.byref(_LEGACY)

# These take a capsule by its address, which only id() of a living capsule, or C, may give; a destructor must not make a
# Python reference to the capsule that is going. The name goes beyond the declared types, as it is: converting it costs more.
get_pointer = bind("PyCapsule_GetPointer", _pointer, _pointer)
_is_valid = bind("PyCapsule_IsValid", ctypes.c_int, _pointer)
_name_of = bind("PyCapsule_GetName", _pointer, _pointer)
_set_name = bind("PyCapsule_SetName", ctypes.c_int, _pointer, _pointer)
_set_destructor = bind("PyCapsule_SetDestructor", ctypes.c_int, _pointer, _pointer)
_new_capsule = bind("PyCapsule_New", ctypes.py_object, _pointer, _pointer, _pointer)

_read_legacy_deleter, _read_versioned_deleter = reader("56xQ"), reader("16xQ")
_Capsule = type(_new_capsule(1, None, None))
taking = RLock()  # held from looking at a capsule to renaming it: two threads may want it


def is_capsule(thing: object) -> bool:
    """Tell whether something is a PyCapsule, of whatever name."""
    return type(thing) is _Capsule


def name_of(capsule: Any) -> bytes | None:
    """Return a capsule's name."""
    address = _name_of(id(capsule))
    return ctypes.string_at(address) if address else None


def identify(capsule: Any) -> tuple[int, bool]:
    """Return the address of the managed tensor in a capsule, and whether it is the versioned one.

    The name decides, whatever was asked for: JAX and TensorFlow answer max_version=(1, 3) with a legacy capsule.
    raises   ProtocolError   not a capsule, another name, or one that says that the tensor was taken already
    """
    if type(capsule) is not _Capsule:
        raise refusal(
            "dlpack",
            "capsule",
            type(capsule).__name__,
            "is what __dlpack__ returned, and no PyCapsule; the exporter is at fault",
        )
    if _is_valid(id(capsule), versioned_name):
        return get_pointer(id(capsule), versioned_name), True
    if _is_valid(id(capsule), legacy_name):
        return get_pointer(id(capsule), legacy_name), False
    name = name_of(capsule)
    used = name in (b"used_dltensor", b"used_dltensor_versioned")
    why = (
        "was consumed already, and can be only once; ask for a new one"
        if used
        else "is no name that DLPack has; give the capsule of a __dlpack__"
    )
    raise refusal("dlpack", "capsule.name", name, why)


# CPython keeps a capsule's pointer and name behind the object's head, and objects lie at multiples of 16: two windows on all memory, 16
# bytes a step, show them at that index, for a third of what the calls cost. A self-check on a capsule of our own finds the place.
def _open_windows(window: Any) -> tuple[Any, Any]:
    probe = _new_capsule(0x123456789A, _versioned_address, None)
    if isinstance(window, memoryview) and not id(probe) % 16:
        words, begin = window.cast("B")[: 2**63 - 16].cast("Q"), id(probe) // 8
        for at in range(2, 8):
            if (words[begin + at], words[begin + at + 1]) == (0x123456789A, _versioned_address):
                return words[at::2], words[at + 1 :: 2]
    return _Called(lambda address: get_pointer(address, _pointer(_name_of(address)))), _Called(_name_of)


class _Called:
    """Look a capsule up by calls, where the place was not found."""

    def __init__(self, call: Any) -> None:
        self.call = call

    def __getitem__(self, index: int) -> Any:
        return self.call(index << 4)


_versioned_address, _legacy_address = ctypes.addressof(_VERSIONED), ctypes.addressof(_LEGACY)
pointers, names = _open_windows(_read_legacy_deleter.args[0])


class Consumed:
    """Own a managed tensor that was taken out of its capsule, and call its deleter when nobody holds this any more."""

    __slots__ = ("_address", "_deleter")

    def __init__(self, address: int, deleter: int) -> None:
        self._address, self._deleter = address, deleter

    def __del__(self, prototype: Any = ctypes.PYFUNCTYPE(None, ctypes.c_void_p), tracing: Any = tracing) -> None:  # noqa: B008
        # With the GIL, as C consumers do it: a deleter need not take it, though it should. A pending exception is put
        # aside by CPython round any __del__. A null deleter means that there is nothing to free.
        if self._deleter:
            deleter, self._deleter = self._deleter, 0
            prototype(deleter)(self._address)
            if tracing.listeners:
                tracing.emit(tracing.Step("dlpack", f"deleter({self._address:#x})", "called by us", self._address))


def consume(capsule: Any) -> Consumed:
    """Take the tensor out of a capsule: rename it, so that its own destructor leaves the tensor alone.

    Everything that could be refused has to be checked before: this is the point of no return.
    raises   ProtocolError   as identify()
    """
    with taking:
        address, versioned = identify(capsule)
        deleter = (_read_versioned_deleter if versioned else _read_legacy_deleter)(address)[0]
        owner = Consumed(address, 0)  # made before the renaming: nothing after it can fail
        _set_name(id(capsule), ctypes.addressof(_USED_VERSIONED if versioned else _USED_LEGACY))
    _set_destructor(id(capsule), None)  # some destructors do not look at the name
    owner._deleter = deleter
    if tracing.listeners:
        tracing.emit(
            tracing.Step("dlpack", "consume", f"renamed to used_dltensor{'_versioned' if versioned else ''}", address)
        )
    return owner


# -- a capsule that goes

# A struct of ours has its shape and strides behind it: (versioned, ndim) -> (the ctypes array, where they begin, what packs it)
_layouts: dict[tuple[bool, int], tuple[Any, int, Any]] = {}


def _layout(versioned: bool, ndim: int) -> tuple[Any, int, Any]:
    tensor = "QiiiBBHQQQ"  # data, device, ndim, dtype, shape, strides, byte_offset
    head = (
        "IIQQQ" + tensor if versioned else tensor + "QQ"
    )  # version, manager_ctx, deleter, flags; manager_ctx, deleter
    struct = Struct(f"={head}{2 * ndim}q")
    made = _layouts[versioned, ndim] = ctypes.c_char * struct.size, struct.size - 16 * ndim, struct.pack_into
    return made


# What is out: the struct's address -> (its bytes, owner, where in it the deleter is, None; or where its
# block goes; or, where there is sweeping, the capsule).
# The entry is what keeps struct and memory alive; whoever takes it out first has freed them, so it is freed once.
outstanding: dict[int, tuple[Any, Any, int, Any]] = {}


class _Exports:
    """What exports need once they begin: two callbacks, and the hook at exit. Nothing of it is made at import."""

    def __init__(self) -> None:
        import atexit

        self.ended = False
        self.nothing = address_of("Py_IsInitialized")  # a C function that is harmless at any time, in any thread
        self.sweeps = not available()
        if self.sweeps:
            self.deleter, self.destructor = _marking_function(), None
        else:
            self.deleter, self.destructor = callback(_deleted), callback(_dropped)
            self.drop = ctypes.c_void_p.from_param(self.destructor)
        atexit.register(self.end)

    def end(self) -> None:
        """Make every tensor that is out, and every later one, harmless to delete; they stay in memory."""
        self.deleter, self.ended = self.nothing, True
        for address, entry in list(outstanding.items()):
            self.silence(address, entry)

    def silence(self, address: int, entry: Any) -> None:
        immortal(entry)
        ctypes.c_uint64.from_address(address + entry[2]).value = self.nothing


_exports: _Exports | None = None


def _begin() -> _Exports:
    global _exports
    made = _Exports()
    if _exports is None:
        _exports = made
    return _exports


def _deleted(address: Any, what: str = "", how: str = "called by the consumer") -> None:
    """Serve as the deleter of all our tensors."""
    entry = outstanding.pop(address, None)
    if entry is not None:
        spare = entry[3]
        if spare is not None and len(spare) < 8:
            spare.append(entry[0])
        if tracing.listeners:
            tracing.emit(tracing.Step("dlpack", what or f"deleter({address:#x})", how, address))


def _dropped(capsule: Any) -> None:
    """Serve as the destructor of all our capsules: free the tensor unless somebody took it."""
    name = names[capsule >> 4]
    if name != _versioned_address and name != _legacy_address:
        if tracing.listeners and name:  # this is how we learn that a consumer has renamed it
            tracing.emit(
                tracing.Step(
                    "dlpack",
                    "capsule dropped",
                    f"it is {ctypes.string_at(name).decode('ascii', 'replace')}: the tensor has an owner, and stays",
                    pointers[capsule >> 4],
                )
            )
        return
    _deleted(pointers[capsule >> 4], "capsule freed", "nobody had consumed it: the tensor went with it")


def export(
    data: int,
    device: tuple[int, int],
    dtype: tuple[int, int, int],
    shape: Ints,
    strides: Ints,
    owner: Any,
    *,
    versioned: bool,
    flags: int = 0,
) -> Any:
    """Make a capsule with a tensor of ours.

    data      the first element's address; byte_offset is 0, for some consumers ignore it
    device    (DLDeviceType, id)
    dtype     (code, bits, lanes)
    units     strides count elements, and are written always: null ones are legal but not everywhere read
    owner     what keeps the memory alive until the deleter has run
    """
    exports = _exports or _begin()
    if exports.sweeps:
        sweep()
    address = lend(data, device, dtype, shape, strides, owner, versioned=versioned, flags=flags)
    try:
        capsule = _new_capsule(address, _versioned_address if versioned else _legacy_address, exports.destructor)
    except BaseException:
        outstanding.pop(address, None)
        raise
    if exports.sweeps:
        outstanding[address] = (*outstanding[address][:3], (capsule, ctypes.c_uint64.from_address(address).value))
    return capsule


# -- the short way out: for a layout that was exported before, the struct is one pack() of what an earlier one has round its pointers

# Blocks of structs that nobody has any more, by their size: where to pack, address, shape's and strides' addresses, what PyCapsule_New is
# given. All of a block is written anew for each export.
_spare: dict[int, list[Any]] = {}
_wrap = bind("PyCapsule_New", ctypes.py_object)
_wrap.argtypes = None


def template_of(capsule: Any) -> _Template | None:
    """Return what a versioned tensor of ours can be copied from, given a capsule with one that is still out; None where nothing can."""
    image = bytes(outstanding[get_pointer(id(capsule), versioned_name)][0])
    if _exports is None or _exports.sweeps or len(image) == 80:  # (without dimensions both pointers are null)
        return None
    return (
        _spare.setdefault(len(image), []),
        Struct(f"=32sQ16sQQ{len(image) - 72}s").pack_into,
        image[:32],
        image[40:56],
        image[72:],
    )


def _block(nbytes: int) -> Any:
    storage, exports = ctypes.create_string_buffer(nbytes), _exports
    address = ctypes.addressof(storage)
    return (
        memoryview(storage).cast("B"),
        address,
        address + 80,
        address + 80 + (nbytes - 80) // 2,
        (ctypes.byref(storage), versioned_name, exports and exports.drop),
    )


def export_like(template: _Template, data: int, owner: Any) -> Any:
    """Make a capsule like an earlier one, with other data."""
    exports: Any = _exports
    spare, pack, before, what, behind = template
    try:
        storage, address, shape, strides, arguments = block = spare.pop()
    except IndexError:
        storage, address, shape, strides, arguments = block = _block(72 + len(behind))
    pack(storage, 0, before, data, what, shape, strides, behind)
    entry = outstanding[address] = block, owner, 16, spare
    try:
        if exports.ended:
            exports.silence(address, entry)
        return _wrap(*arguments)
    except BaseException:
        outstanding.pop(address, None)
        raise


def lend(
    data: int,
    device: tuple[int, int],
    dtype: tuple[int, int, int],
    shape: Ints,
    strides: Ints,
    owner: Any,
    *,
    versioned: bool,
    flags: int = 0,
) -> int:
    """Write a managed tensor, enter it as out, and return its address: export() without a capsule round it."""
    exports = _exports or _begin()
    ndim = len(shape)
    layout = _layouts.get((versioned, ndim)) or _layout(versioned, ndim)
    struct = layout[0]()
    address = ctypes.addressof(struct)
    numbers = address + layout[1]
    tensor = (
        (data, *device, ndim, *dtype, numbers, numbers + 8 * ndim, 0) if ndim else (data, *device, 0, *dtype, 0, 0, 0)
    )
    if versioned:
        layout[2](struct, 0, *VERSION, 0, exports.deleter, flags, *tensor, *shape, *strides)
    else:
        layout[2](struct, 0, *tensor, 0, exports.deleter, *shape, *strides)
    entry = struct, owner, 16 if versioned else 56, None
    outstanding[address] = entry
    if exports.ended:
        exports.silence(address, entry)
    return address


# -- where no callback is safe: deleters that only mark, and a sweep at the next export


def _marking_function() -> int:
    """Return a C function f(void *) that writes the first 8 bytes of what it is given, and needs neither GIL nor Python.

    C's time() does: it stores the seconds since 1970, which are neither a version nor an address.
    """
    libc = ctypes.CDLL(None) if sys.platform != "win32" else ctypes.CDLL("ucrtbase", winmode=0x800)
    function = libc["_time64" if sys.platform == "win32" else "time"]
    return ctypes.cast(function, _pointer).value or 0


def sweep() -> int:
    """Free the tensors that were marked as deleted, and those whose unconsumed capsule nobody but us holds.

    returns  how many were freed
    """
    freed = 0
    for address, entry in list(outstanding.items()):
        if entry[3] is None:
            continue
        capsule, first_word = entry[3]
        marked = ctypes.c_uint64.from_address(address).value != first_word
        unused = name_of(capsule) in (b"dltensor", b"dltensor_versioned")
        alone = sys.getrefcount(capsule) <= 3  # the entry's tuple, this name, the call's argument
        if marked or unused and alone:
            freed += outstanding.pop(address, None) is not None
        del capsule
    return freed
