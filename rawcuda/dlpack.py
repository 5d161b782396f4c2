"""DLPack's header as data, and the life cycle of a capsule.

What it is   dlpack.h 1.3 as constants and structs; `identify` and `consume` for imported capsules, `export` for new
             ones. A tensor is passed as a pointer in a PyCapsule, whose name tells its state:
                 "dltensor_versioned" or "dltensor"            not consumed: the capsule frees the tensor
                 "used_dltensor_versioned" or "used_dltensor"  consumed: the consumer calls the tensor's deleter
What not     it reads no tensor (protocols/dlpack_capsule.py does), and knows neither names of dtypes nor streams.
Rules        A deleter runs exactly once, in any thread, with or without a pending exception, at the end of the
             interpreter or after it. At exit every tensor that was not yet deleted gets a deleter that does nothing,
             and is never freed.
Source       dlpack.h 1.3 (https://github.com/dmlc/dlpack, include/dlpack/dlpack.h); "Python Specification for DLPack";
             Python/C API Reference Manual, "Capsules"
Read next    protocols/dlpack_capsule.py
"""

from __future__ import annotations

import ctypes
import sys
from _thread import RLock
from struct import Struct, calcsize, pack
from struct import error as StructError

from . import tracing
from .errors import refusal
from .interpreter.callback import available, callback
from .interpreter.cpython import (
    IS_NARROW,
    POINTER,
    address_of,
    bind,
    c_string,
    free_after_fork,
    immortal,
    reader,
    unpacker,
    untrack,
    watch_forks,
    window,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Ints = tuple[int, ...]
    _Out = tuple["_Block", Any]  # the tensor, and the object that keeps its memory alive

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
    "Capsule",
    "Template",
    "export",
    "identify",
    "immortal_names",
    "is_capsule",
    "lend",
    "names",
    "outstanding",
    "pointers",
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
    """8 bytes: a larger minor version only adds enumerators; another major one may change the layout after `flags`."""

    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32)]


class DLDevice(ctypes.Structure):
    """8 bytes: device_type is an enumerator of DLDeviceType; device_id is 0 for host and managed memory."""

    _fields_ = [("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32)]


class DLDataType(ctypes.Structure):
    """4 bytes: `bits` is the size of one lane, with both parts of a complex number."""

    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class DLTensor(ctypes.Structure):
    """48 bytes: strides are in elements, and may be null for C order; the first element is at data + byte_offset."""

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
    """64 bytes, the struct before version 1.0: it has neither a version nor a read-only flag."""

    _fields_ = [("dl_tensor", DLTensor), ("manager_ctx", _pointer), ("deleter", _pointer)]


class DLManagedTensorVersioned(ctypes.Structure):
    """80 bytes: the members up to `flags` have the same place in all versions."""

    _fields_ = [
        ("version", DLPackVersion),
        ("manager_ctx", _pointer),
        ("deleter", _pointer),
        ("flags", ctypes.c_uint64),
        ("dl_tensor", DLTensor),
    ]


FLAGS_AT, SIZE = DLManagedTensorVersioned.flags.offset, ctypes.sizeof(DLManagedTensorVersioned)


class DLPackExchangeAPIHeader(ctypes.Structure):
    """16 bytes: the table's version, and the address of a table of an older version."""

    _fields_ = [("version", DLPackVersion), ("prev_api", _pointer)]


class DLPackExchangeAPI(ctypes.Structure):
    """56 bytes: a type's table of C functions, which exchange tensors without a capsule and without synchronizing."""

    _fields_ = [
        ("header", DLPackExchangeAPIHeader),
        ("managed_tensor_allocator", _pointer),
        ("managed_tensor_from_py_object_no_sync", _pointer),
        ("managed_tensor_to_py_object_no_sync", _pointer),
        ("dltensor_from_py_object_no_sync", _pointer),
        ("current_work_stream", _pointer),
    ]


# -- imported capsules

# A capsule stores the address of its name, so the names are never freed.
_VERSIONED, _USED_VERSIONED = c_string(b"dltensor_versioned"), c_string(b"used_dltensor_versioned")
_LEGACY, _USED_LEGACY = c_string(b"dltensor"), c_string(b"used_dltensor")
versioned_name, legacy_name = ctypes.byref(_VERSIONED), ctypes.byref(_LEGACY)

# These take a capsule by its address, from id() or from C: a destructor must not make a Python reference to the dying
# capsule. The name is passed beyond the declared types, because a conversion costs more; WebAssembly has another place
# for arguments beyond them.
get_pointer = bind("PyCapsule_GetPointer", _pointer, _pointer, *[_pointer] * IS_NARROW)
_name_of = bind("PyCapsule_GetName", _pointer, _pointer)
_set_name = bind("PyCapsule_SetName", ctypes.c_int, _pointer, _pointer)
_set_destructor = bind("PyCapsule_SetDestructor", ctypes.c_int, _pointer, _pointer)
_new_capsule = bind("PyCapsule_New", ctypes.py_object, _pointer, _pointer, _pointer)

_read_legacy_deleter, _read_versioned_deleter = (
    reader(f"{kind.deleter.offset}xP") for kind in (DLManagedTensor, DLManagedTensorVersioned)
)
_read_name = unpacker("19s")
Capsule = type(_new_capsule(1, None, None))
# Held from the first look at a capsule until it is renamed: two threads may try to consume it.
taking = free_after_fork(RLock())


def is_capsule(thing: object) -> bool:
    """Tell whether an object is a PyCapsule, with any name."""
    return type(thing) is Capsule


def name_of(capsule: Any) -> bytes | None:
    """Return a capsule's name."""
    address = _name_of(id(capsule))
    if address:
        return ctypes.string_at(address)
    return None


def identify(capsule: Any) -> tuple[int, bool]:
    """Return the address of the managed tensor in a capsule, and whether it is the versioned one.

    The name decides, not the request: JAX and TensorFlow answer max_version=(1, 3) with a legacy capsule.
    raises   ProtocolError   not a capsule, an unknown name, or a name which says that it was consumed
    """
    if type(capsule) is not Capsule:
        raise refusal(
            "dlpack",
            "capsule",
            type(capsule).__name__,
            "is what __dlpack__ returned, but not a PyCapsule; the exporter is at fault",
        )
    here = hash(capsule)
    name = names[here]
    if name in immortal_names:
        return pointers[here], immortal_names[name]
    # Reading 19 bytes saves 250 ns of 330 against PyCapsule_IsValid; they must not cross the end of a page.
    if 0xFFF < name < 2**63 and name & 0xFFF < 0xFE0:
        text = _read_name(window, name)[0]
    else:
        text = _padded(name)
    if text == b"dltensor_versioned\0":
        return pointers[here], True
    if text[:9] == b"dltensor\0":
        return pointers[here], False
    used = name_of(capsule) in (b"used_dltensor", b"used_dltensor_versioned")
    why = "is not a name of DLPack; give a capsule from __dlpack__"
    if used:
        why = "was consumed already, and can be consumed only once; request a new one"
    raise refusal("dlpack", "capsule.name", name_of(capsule), why)


def _padded(name: int) -> bytes:
    """Return the name at an address, padded like the result of _read_name()."""
    return (ctypes.string_at(name) if name else b"").ljust(19, b"\0")


# CPython stores a capsule's pointer and name after the object's head, and objects are aligned to 16 bytes. So two views
# of all memory, with steps of 16 bytes, show them at the index hash(capsule), its address / 16: 100 ns less of 140
# per read than by calls. A self-check finds their offset; if it finds none, the calls are made.
def _open_windows() -> tuple[Any, Any]:
    probe = _new_capsule(0x123456789A, _versioned_address, None)
    if window is not None and 16 * hash(probe) == id(probe):
        words, begin = window.cast("B")[: 2**63 - 16].cast("Q"), id(probe) // 8
        for at in range(2, 8):
            if (words[begin + at], words[begin + at + 1]) == (0x123456789A, _versioned_address):
                return words[at::2], words[at + 1 :: 2]
    return _Called(lambda address: get_pointer(address, _pointer(_name_of(address)))), _Called(
        lambda at: _name_of(at) or 0
    )


_BITS = 8 * POINTER
_IS_ALIGNED = POINTER == 8  # whether objects are aligned to 16 bytes


class _Called:
    """A look-up of capsules by calls, for when the offset was not found."""

    def __init__(self, call: Any) -> None:
        self.call = call

    def __getitem__(self, here: int) -> Any:
        # hash() rotates an address by 4 bits
        return self.call((here << 4 | here >> _BITS - 4 & 0xF) & (1 << _BITS) - 1)


_versioned_address, _legacy_address = ctypes.addressof(_VERSIONED), ctypes.addressof(_LEGACY)
pointers, names = _open_windows()
immortal_names = {_versioned_address: True, _legacy_address: False}  # their text cannot change: True if versioned
_Deleter = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
_undeleted: list[Consumed] = []  # whose deleter could not be called for want of memory: the next consume() calls it


class Consumed:
    """The owner of a managed tensor from a consumed capsule; it calls the tensor's deleter when it is freed."""

    __slots__ = ("_address", "_deleter")

    def __init__(self, address: int, deleter: int) -> None:
        self._address, self._deleter = address, deleter
        untrack(self)

    def __del__(
        self, prototype: Any = _Deleter, pointer: Any = _pointer, late: Any = _undeleted, tracing: Any = tracing
    ) -> None:
        # With the GIL, as C consumers do: a deleter should take it, but not all do. CPython saves a pending exception
        # around any __del__. A null deleter means that there is nothing to free.
        if self._deleter:
            try:
                deleter, address = prototype(self._deleter), pointer(self._address)
            except MemoryError:
                late.append(self)
                return
            self._deleter = 0
            deleter(address)
            if tracing.listeners:
                tracing.emit(tracing.Step("dlpack", f"deleter({self._address:#x})", "called by us", self._address))


def consume(capsule: Any) -> Consumed:
    """Consume a capsule: rename it, so that its destructor does not free the tensor, and return the tensor's owner.

    Callers must check everything before; the tensor cannot be refused afterwards.
    raises   ProtocolError   as for identify()
    """
    if _undeleted:
        try:
            _undeleted.pop().__del__()
        except IndexError:  # another thread took the last one
            pass
    with taking:
        address, versioned = identify(capsule)
        deleter = (_read_versioned_deleter if versioned else _read_legacy_deleter)(address)[0]
        owner = Consumed(address, 0)  # made before the renaming: nothing after it can fail
        _set_name(id(capsule), ctypes.addressof(_USED_VERSIONED if versioned else _USED_LEGACY))
    _set_destructor(id(capsule), None)  # some destructors ignore the name
    owner._deleter = deleter
    if tracing.listeners:
        how = f"renamed to used_dltensor{'_versioned' if versioned else ''}"
        tracing.emit(tracing.Step("dlpack", "consume", how, address))
    return owner


# -- exported capsules

# Each exported tensor's address -> what keeps it and its memory alive; only one caller can remove, and so free, it.
outstanding: dict[int, _Out] = {}


class _Exports:
    """The callbacks and the exit hook that exports need; created at the first export, not at import."""

    def __init__(self) -> None:
        import atexit

        self.ended = False
        self.nothing = address_of("Py_IsInitialized")  # a C function that is harmless at any time, in any thread
        self.sweeps = not available()
        if self.sweeps:
            self.deleter, self.drop = _marking_function(), None
        else:
            self.deleter, self.drop = callback(_deleted), _pointer.from_param(callback(_dropped))
        atexit.register(self.end)

    def end(self) -> None:
        """Give every exported tensor, and every later one, a deleter that does nothing; they stay in memory."""
        self.deleter, self.ended = self.nothing, True
        for out in list(outstanding.values()):
            self.silence(out)

    def silence(self, out: Any) -> None:
        immortal(out)
        ctypes.c_size_t.from_address(out[0].address + out[0].deleter_at).value = self.nothing


_exports: _Exports | None = None
_beginning = free_after_fork(RLock())  # what is made below may start a garbage collection, which may export


def _begin() -> _Exports:
    global _exports
    watch_forks()
    with _beginning:
        made = _exports or _Exports()
        if _exports is None:
            _exports = made
        return _exports


def _deleted(address: Any, what: str = "", how: str = "called by the consumer") -> None:
    """Delete one of our tensors: the deleter of all of them."""
    out = outstanding.pop(address, None)
    if out is not None:
        block = out[0]
        if len(block.spare) < 32:
            block.spare.append(block)
        if tracing.listeners:
            tracing.emit(tracing.Step("dlpack", what or f"deleter({address:#x})", how, address))


def _dropped(capsule: Any) -> None:
    """Free the tensor of one of our capsules unless it was consumed: the destructor of all of them."""
    if _exports is None:  # the interpreter ends, and has cleared this module
        return
    here = capsule >> 4
    if not _IS_ALIGNED:
        here |= (capsule & 0xF) << _BITS - 4
    name = names[here]
    if name != _versioned_address and name != _legacy_address:
        if tracing.listeners and name:  # only here we learn that a consumer has renamed it
            tracing.emit(
                tracing.Step(
                    "dlpack",
                    "capsule dropped",
                    f"it is {ctypes.string_at(name).decode('ascii', 'replace')}: the tensor has an owner, and stays",
                    pointers[here],
                )
            )
        return
    _deleted(pointers[here], "capsule freed", "it was not consumed: the tensor is freed with it")


class _Block:
    """Memory for one of our tensors, followed by its shape and strides.

    spare    the list of free blocks of this form. Reusing one saves 1,000 ns of 2,100 per export.
    """

    __slots__ = ("bytes", "address", "shape", "strides", "wrapped", "deleter_at", "spare", "capsule", "first_word")

    def __init__(self, form: _Form) -> None:
        storage = ctypes.create_string_buffer(form.nbytes)
        self.bytes, self.spare = memoryview(storage).cast("B"), form.spare
        self.address = ctypes.addressof(storage)
        numbers = self.address + form.head
        if form.ndim:
            self.shape, self.strides = (numbers, numbers + 8 * form.ndim)
        else:
            self.shape, self.strides = (0, 0)
        if form.versioned:
            name = versioned_name
        else:
            name = legacy_name
        self.wrapped = ctypes.byref(storage), name, None if _exports is None else _exports.drop
        self.deleter_at = form.kind.deleter.offset
        self.capsule: Any = None  # used only with sweep(): the capsule, and the original first word of the tensor
        self.first_word: int | None = None


_PACKED = calcsize("P16sPP")  # the bytes of a DLTensor before byte_offset, without the gap that may be there


class _Form:
    """The form of a tensor, given its ABI and its number of dimensions: how it is packed, and the free blocks."""

    __slots__ = ("versioned", "ndim", "kind", "head", "rest", "nbytes", "spare", "pack")

    def __init__(self, versioned: bool, ndim: int) -> None:
        self.versioned, self.ndim = versioned, ndim
        self.kind = DLManagedTensorVersioned if versioned else DLManagedTensor
        self.head = ctypes.sizeof(self.kind)
        self.nbytes = self.head + 16 * ndim
        self.spare: list[_Block] = []
        # before data; data; device, ndim and dtype; shape, strides; the rest
        if versioned:
            before = DLManagedTensorVersioned.dl_tensor.offset
        else:
            before = 0
        self.rest = self.head - before - _PACKED
        self.pack = Struct(f"{before}sP16sPP{self.nbytes - before - _PACKED}s").pack_into


_forms: dict[tuple[bool, int], _Form] = {}


class Template:
    """The common part of all exports of one layout: all members of the tensor except its addresses.

    device    (DLDeviceType, id)
    dtype     (code, bits, lanes)
    units     strides are in elements, and never null: that is legal, but some consumers do not support it
    flags     of DLPack; a legacy tensor (versioned=False) has none
    """

    __slots__ = ("form", "device", "before", "what", "behind")

    def __init__(
        self,
        device: tuple[int, int],
        dtype: tuple[int, int, int],
        shape: Ints,
        strides: Ints,
        *,
        versioned: bool,
        flags: int = 0,
    ) -> None:
        deleter, ndim = (_exports or _begin()).deleter, len(shape)
        found = _forms.get((versioned, ndim))
        self.form = found or _forms.setdefault((versioned, ndim), _Form(versioned, ndim))
        self.device, self.what = device, pack("=iiiBBH", *device, ndim, *dtype)
        # version, manager_ctx, deleter, flags; or after the tensor: manager_ctx, deleter. byte_offset is 0: some
        # consumers ignore it
        if versioned:
            self.before = pack("IIPPQ", *VERSION, 0, deleter, flags)
        else:
            self.before = b""
        self.behind = (b"" if versioned else pack("PP", 0, deleter)).rjust(self.form.rest, b"\0")
        self.behind += pack(f"={2 * ndim}q", *shape, *strides)


def export(template: Template, data: int, owner: Any, in_capsule: bool = True) -> Any:
    """Write a managed tensor, register it as exported, and return a new capsule with it; see lend().

    data      the first element's address
    owner     the object that keeps the memory alive until the deleter has run
    """
    exports: Any = _exports
    if in_capsule and exports.sweeps:
        return _export_to_be_swept(template, data, owner)
    form = template.form
    try:
        block = form.spare.pop()
    except IndexError:
        block = _Block(form)
    try:
        form.pack(block.bytes, 0, template.before, data, template.what, block.shape, block.strides, template.behind)
    except StructError:
        form.spare.append(block)
        why = f"does not fit a pointer, which has {POINTER} bytes here: copy the array to the host first"
        raise refusal("dlpack", "data", hex(data), why) from None
    out = outstanding[block.address] = block, owner
    if exports.ended:
        exports.silence(out)
    if not in_capsule:
        return block
    try:
        return _wrap(*block.wrapped)
    except BaseException:
        if outstanding.get(block.address) is out:  # (a capsule that is dropped frees the block for another export)
            outstanding.pop(block.address, None)
        raise


def lend(template: Template, data: int, owner: Any) -> _Block:
    """Export without a capsule: return the block with the tensor."""
    return export(template, data, owner, False)  # type: ignore[no-any-return]


_wrap = bind("PyCapsule_New", ctypes.py_object)
_wrap.argtypes = None  # all three arguments are prepared


# -- for interpreters without safe callbacks: deleters that only mark, and a sweep at the next export


def _marking_function() -> int:
    """Return a C function f(void *) that overwrites the first 8 bytes of its argument without the GIL.

    This is C's time(): it stores the seconds since 1970, which are neither a version nor an address. WebAssembly
    permits no call of a function that returns something else; only Python code runs there, so it may be a callback.
    """
    if IS_NARROW:
        return ctypes.cast(immortal(_Deleter(_mark)), _pointer).value or 0
    if sys.platform != "win32":
        libc = ctypes.CDLL(None)
    else:
        libc = ctypes.CDLL("ucrtbase", winmode=0x800)
    function = libc["_time64" if sys.platform == "win32" else "time"]
    return ctypes.cast(function, _pointer).value or 0


def _mark(address: int) -> None:
    ctypes.memset(address, 0xFF, 8)


def _export_to_be_swept(template: Template, data: int, owner: Any) -> Any:
    """Return a new capsule without a destructor; `outstanding` refers to it, so that sweep() can check it."""
    sweep()
    block = lend(template, data, owner)
    block.first_word = ctypes.c_uint64.from_address(block.address).value
    block.capsule = capsule = _wrap(*block.wrapped)
    return capsule


def _count_alone() -> int:
    """Return the getrefcount() of an object that only an attribute and a local variable refer to."""
    block = _Block(_Form(False, 0))
    block.capsule = capsule = object()
    return sys.getrefcount(capsule)


def sweep() -> int:
    """Free the tensors that are marked as deleted, and those whose unconsumed capsule only we refer to.

    The count is read before the name: if only we refer to the capsule, nobody can consume it and so change its name.
    returns  the number of tensors freed
    """
    alone, freed = _count_alone(), 0
    for address, (block, _) in list(outstanding.items()):
        capsule = block.capsule
        if block.first_word is None:
            continue
        gone = ctypes.c_uint64.from_address(address).value != block.first_word
        if not gone and capsule is not None and sys.getrefcount(capsule) <= alone:
            gone = name_of(capsule) in (b"dltensor", b"dltensor_versioned")
            if not gone:
                block.capsule = None  # it was consumed, and is no longer needed
        if gone and outstanding.pop(address, None) is not None:
            freed += 1
        del block, capsule
    return freed
