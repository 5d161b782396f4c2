"""Exporters for tests: DLPack tensors of which each field can be wrong, and objects with any dict as array interface.

They do not use the package under test, so a mistake in it cannot be hidden by the same mistake here.
"""

from __future__ import annotations

import ctypes
import struct
import sys
from collections import deque
from typing import Any

import pytest

_api = ctypes.PyDLL(None) if sys.platform != "win32" else ctypes.PyDLL("", handle=sys.dllhandle)
_new = _api["PyCapsule_New"]
_new.restype, _new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_get_name = _api["PyCapsule_GetName"]
_get_name.restype, _get_name.argtypes = ctypes.c_char_p, [ctypes.py_object]
_name_at = _api["PyCapsule_GetName"]
_name_at.restype, _name_at.argtypes = ctypes.c_char_p, [ctypes.c_void_p]
_VERSIONED = "@IIPPQ"  # what comes before the DLTensor: version, manager_ctx, deleter, flags
_DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_DESTRUCTOR = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
NAMES = {
    name: ctypes.create_string_buffer(name)
    for name in (b"dltensor", b"dltensor_versioned", b"used_dltensor", b"used_dltensor_versioned", b"something_else")
}


def capsule(pointer: int, name: bytes | None, destructor: int = 0) -> Any:
    """Make a PyCapsule."""
    return _new(pointer, ctypes.cast(NAMES[name], ctypes.c_char_p) if name is not None else None, destructor or None)


def name_of(thing: Any) -> bytes | None:
    """Return a capsule's name."""
    name: bytes | None = _get_name(thing)
    return name


class Tensor:
    """A managed tensor with its own memory, which counts how often it was freed.

    Any field may have a wrong value. `shape` and `strides` may be None (a null pointer) or an int (an address). The
    deleter overwrites the struct, so that a later read returns wrong values.
    """

    def __init__(
        self,
        data: Any = None,
        *,
        shape: Any = (2, 3),
        strides: Any = None,
        dtype: tuple[int, int, int] = (2, 32, 1),
        device: tuple[int, int] = (1, 0),
        version: tuple[int, int] | None = (1, 3),
        flags: int = 0,
        byte_offset: int = 0,
        ndim: int | None = None,
        null_deleter: bool = False,
    ) -> None:
        self.values = (ctypes.c_float * 24)(*range(24))
        self.freed = 0
        address = ctypes.addressof(self.values) if data is None else data
        self._keep: list[Any] = []
        head = self._head(
            address,
            device,
            ndim if ndim is not None else len(shape),
            dtype,
            self._pointer(shape),
            self._pointer(strides),
            byte_offset,
        )
        self._deleter = _DELETER(self._delete)
        deleter = 0 if null_deleter else ctypes.cast(self._deleter, ctypes.c_void_p).value
        if version is None:
            raw = head + struct.pack("@PP", 0, deleter)
        else:
            raw = struct.pack(_VERSIONED, *version, 0, deleter, flags) + head
        self.versioned = version is not None
        self.struct = ctypes.create_string_buffer(raw, len(raw))

    def _pointer(self, numbers: Any) -> int:
        if numbers is None or isinstance(numbers, int):
            return numbers or 0
        made = (ctypes.c_int64 * max(len(numbers), 1))(*numbers)
        self._keep.append(made)
        return ctypes.addressof(made)

    @staticmethod
    def _head(
        address: int,
        device: tuple[int, int],
        ndim: int,
        dtype: tuple[int, int, int],
        shape: int,
        strides: int,
        byte_offset: int,
    ) -> bytes:
        try:
            return struct.pack("@PiiiBBHPPQ", address, *device, ndim, *dtype, shape, strides, byte_offset)
        except struct.error:
            if struct.calcsize("P") == 8:
                raise
            pytest.skip("a pointer of 4 bytes cannot describe this memory")

    @property
    def address(self) -> int:
        """Return the struct's address."""
        return ctypes.addressof(self.struct)

    def _delete(self, address: int) -> None:
        assert address == self.address
        self.freed += 1
        ctypes.memset(self.address, 0xEE, len(self.struct))
        for numbers in self._keep:
            ctypes.memset(numbers, 0xEE, ctypes.sizeof(numbers))
        kept = _unfreed.pop(address, None)
        if kept is not None:
            _freed.append(kept)

    def capsule(self, name: bytes | None = None) -> Any:
        """Make a capsule of this tensor. If it is dropped unconsumed, it frees the tensor, as specified."""
        right = b"dltensor_versioned" if self.versioned else b"dltensor"
        made = capsule(self.address, right if name is None else name, ctypes.cast(_destroy, ctypes.c_void_p).value or 0)
        _capsules[id(made)] = right, self
        _unfreed[self.address] = self
        return made


_capsules: dict[int, tuple[bytes, Tensor]] = {}  # by their addresses: what they own while nobody has consumed them
_unfreed: dict[int, Tensor] = {}  # by their addresses: a consumer may live longer than all else that knows a tensor
_freed: deque[Tensor] = deque(maxlen=100)  # the deleter of the last one may still run


@_DESTRUCTOR
def _destroy(address: int) -> None:
    right, tensor = _capsules.pop(address)
    if _name_at(address) == right:
        tensor._delete(tensor.address)


class Exporter:
    """An exporter of one tensor by `__dlpack__`, which records the calls.

    knows     the keywords that it accepts; others raise TypeError, as if the signature did not have them
    raises    exceptions by key: whether a version was requested (True, False), or ("stream", the stream)
    says      the result of __dlpack_device__; None: the tensor's device; False: the method is missing
    """

    def __init__(
        self,
        tensor: Tensor,
        *,
        knows: tuple[str, ...] = ("stream", "max_version", "dl_device", "copy"),
        says: Any = None,
        raises: dict[Any, Exception] | None = None,
        capsule: Any = None,
    ) -> None:
        self.tensor, self.knows, self.says, self.raises, self.asked = tensor, knows, says, raises or {}, []
        self.given = capsule
        if says is not False:
            self.__dlpack_device__ = self._device

    def _device(self) -> Any:
        if self.says is not None:
            return self.says
        start = struct.calcsize(_VERSIONED) if self.tensor.versioned else 0
        return struct.unpack_from("@ii", self.tensor.struct, start + struct.calcsize("@P"))

    def __dlpack__(self, **keywords: Any) -> Any:
        self.asked.append(keywords)
        for word in keywords:
            if word not in self.knows:
                raise TypeError(f"__dlpack__() got an unexpected keyword argument '{word}'")
        error = self.raises.get("max_version" in keywords) or self.raises.get(("stream", keywords.get("stream")))
        if error is not None:
            raise error
        return self.tensor.capsule() if self.given is None else self.given


class Shows:
    """An object with the given dicts (or anything else) as array interfaces; an exception as a value is raised."""

    def __init__(self, cuda: Any = None, host: Any = None) -> None:
        self.cuda, self.host, self.reads = cuda, host, 0

    @property
    def __cuda_array_interface__(self) -> Any:
        return self._show(self.cuda)

    @property
    def __array_interface__(self) -> Any:
        return self._show(self.host)

    def _show(self, what: Any) -> Any:
        if what is None:
            raise AttributeError("not for this array")
        self.reads += 1
        if isinstance(what, Exception):
            raise what
        return what


def interface(view: Any, **changes: Any) -> Shows:
    """Return an exporter of a view's memory by the CUDA Array Interface, with these changes in its dict."""
    layout = {"shape": view.shape, "typestr": view.dtype.typestr, "strides": None}
    return Shows(cuda={**layout, "data": (view.ptr, False), "version": 3, **changes})
