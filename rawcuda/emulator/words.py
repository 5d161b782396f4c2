"""Words of C memory: reading and writing what a caller's pointers point to.

What it is   one small function a kind of word, and the layouts of the structures that entry points take.
What not     it checks no pointer beyond NULL: like the driver, it trusts the caller, and a wild pointer ends the process.
Source       cuda.h; the layouts are those of the 64-bit ABIs, where a pointer and size_t have 8 bytes
Read next    copies.py, launches.py, which read structures
"""
from __future__ import annotations

import ctypes
import struct

from .codes import Refused

__all__ = ["out", "put_int", "put_uint", "put_u64", "put_float", "put_byte", "put_bytes", "get_int", "get_u64", "get_bytes",
           "text", "MEMCPY2D", "MEMCPY3D", "LAUNCH_CONFIG", "LAUNCH_ATTRIBUTE", "POOL_PROPS", "LOCATION", "ACCESS_DESC",
           "read", "take"]

_Int, _Uint, _U64, _Float, _Byte = ctypes.c_int, ctypes.c_uint, ctypes.c_uint64, ctypes.c_float, ctypes.c_ubyte


def out(*pointers: int) -> None:
    """Refuse a NULL out-pointer."""
    if 0 in pointers:
        raise Refused(1)


def put_int(address: int, value: int) -> None:
    """Write an int, refusing NULL."""
    if not address:
        raise Refused(1)
    _Int.from_address(address).value = value


def put_uint(address: int, value: int) -> None:
    """Write an unsigned int, refusing NULL."""
    if not address:
        raise Refused(1)
    _Uint.from_address(address).value = value


def put_u64(address: int, value: int) -> None:
    """Write a handle, a pointer or a size, refusing NULL."""
    if not address:
        raise Refused(1)
    _U64.from_address(address).value = value


def put_float(address: int, value: float) -> None:
    """Write a float, refusing NULL."""
    if not address:
        raise Refused(1)
    _Float.from_address(address).value = value


def put_byte(address: int, value: int) -> None:
    """Write a byte, refusing NULL."""
    if not address:
        raise Refused(1)
    _Byte.from_address(address).value = value


def put_bytes(address: int, value: bytes) -> None:
    """Write bytes, refusing NULL."""
    if not address:
        raise Refused(1)
    ctypes.memmove(address, value, len(value))


def get_int(address: int) -> int:
    """Read an int, refusing NULL."""
    if not address:
        raise Refused(1)
    return _Int.from_address(address).value


def get_u64(address: int) -> int:
    """Read a pointer or a size, refusing NULL."""
    if not address:
        raise Refused(1)
    return _U64.from_address(address).value


def get_bytes(address: int, count: int) -> bytes:
    """Read bytes, refusing NULL."""
    if not address:
        raise Refused(1)
    return ctypes.string_at(address, count)


def text(address: int) -> str:
    """Read a C string, refusing NULL."""
    if not address:
        raise Refused(1)
    return ctypes.string_at(address).decode("utf-8", "surrogateescape")


# x: the padding that a C compiler inserts before an 8-byte member, or at the end
_SIDE_2D = "2Q i4x QQQ Q"                        # x, y; memory type; host, device, array; pitch
_SIDE_3D = "4Q i4x QQQ Q 2Q"                     # x, y, z, level; type; host, device, array; context; pitch, height
MEMCPY2D = struct.Struct("<" + _SIDE_2D * 2 + "2Q")
MEMCPY3D = struct.Struct("<" + _SIDE_3D * 2 + "3Q")       # and CUDA_MEMCPY3D_PEER, whose contexts are reserved in this one
LAUNCH_CONFIG = struct.Struct("<7I4x QQ I4x")             # grid, block, shared bytes; stream, attributes; their number
LAUNCH_ATTRIBUTE = struct.Struct("<i4x 64s")
LOCATION = struct.Struct("<2i")
POOL_PROPS = struct.Struct("<2i 2i QQ H54x")              # type, handle types; location; security, largest size; usage
ACCESS_DESC = struct.Struct("<2i i")


def read(layout: struct.Struct, address: int) -> tuple[int, ...]:
    """Read a structure, refusing NULL."""
    if not address:
        raise Refused(1)
    return layout.unpack(ctypes.string_at(address, layout.size))


def take(address: int, count: int) -> list[int]:
    """Read an array of pointers or sizes."""
    if not count:
        return []
    if not address:
        raise Refused(1)
    return list((_U64 * count).from_address(address))
