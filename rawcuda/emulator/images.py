"""Code images: how long they are, and the PTX inside a fatbin.

What it is   an image has no length in the driver's interface: PTX ends at a NUL, a cubin and a fatbin say it in their headers.
What not     it runs no machine code: a cubin is refused with 209, as one for another GPU is; a fatbin is searched for PTX.
Source       ELF-64 header; the fatbin layout as nvcc 11 to 13 write it (NVIDIA documents none: a 16-byte header, then members,
             each with a header that gives kind, header size, padded size, and for compressed members a method and two sizes)
Read next    modules.py
"""
from __future__ import annotations

import ctypes
import struct

from .codes import Refused

__all__ = ["image_at", "image_of_file"]

_WRAPPER, _FATBIN, _ELF = b"\xb1\x43\x62\x46", b"\x50\xed\x55\xba", b"\x7fELF"


def image_at(address: int) -> bytes:
    """Read a code image, and return the PTX in it; a cubin comes back as it is."""
    if not address:
        raise Refused(1)
    magic = ctypes.string_at(address, 4)
    if magic == _WRAPPER:                        # what nvcc links into programs: magic, version, pointer to the fatbin
        return image_at(ctypes.c_uint64.from_address(address + 8).value)
    if magic == _FATBIN:
        header, size = struct.unpack("<HQ", ctypes.string_at(address + 6, 10))
        return _choose(ctypes.string_at(address, header + size))
    if magic == _ELF:
        return ctypes.string_at(address, _elf_size(ctypes.string_at(address, 64)))
    return ctypes.string_at(address)


def image_of_file(content: bytes) -> bytes:
    """Return the PTX in a file's content; a cubin comes back as it is."""
    return _choose(content) if content[:4] == _FATBIN else content.rstrip(b"\0")


def _elf_size(header: bytes) -> int:
    """Find where an ELF file ends: after its section or program headers, which cubins have last."""
    programs, sections = struct.unpack_from("<QQ", header, 32)
    program_size, program_count, section_size, section_count = struct.unpack_from("<4H", header, 54)
    return int(max(programs + program_size * program_count, sections + section_size * section_count, 64))


def _choose(fatbin: bytes) -> bytes:
    """Choose the newest PTX among a fatbin's members."""
    best, chosen = -1, None
    for kind, architecture, content in _members(fatbin):
        if kind == 1 and architecture > best:
            best, chosen = architecture, content
    if chosen is None:
        raise Refused(209, "this fatbin holds no PTX that the emulator can read (machine code it cannot run; PTX that is "
                           "compressed with zstd it cannot unpack: nvcc --no-compress leaves it plain)")
    return chosen.rstrip(b"\0")


def _members(fatbin: bytes) -> list[tuple[int, int, bytes]]:
    """List the members of a fatbin that can be read: kind (1 PTX, 2 machine code), architecture, content."""
    at, = struct.unpack_from("<H", fatbin, 6)
    end = at + struct.unpack_from("<Q", fatbin, 8)[0]
    found = []
    while at + 64 <= min(end, len(fatbin)):
        kind, _, header, size = struct.unpack_from("<HHIQ", fatbin, at)
        packed, = struct.unpack_from("<I", fatbin, at + 16)
        architecture, = struct.unpack_from("<I", fatbin, at + 28)
        flags, = struct.unpack_from("<Q", fatbin, at + 40)
        plain, = struct.unpack_from("<Q", fatbin, at + 56)
        content = fatbin[at + header:at + header + size]
        if flags & 0x2000:
            found.append((kind, architecture, _unpack_lz4(content[:packed], plain)))
        elif flags & 0x8000:
            found += [(kind, architecture, plainly) for plainly in _unpack_zstd(content[:packed])]
        else:
            found.append((kind, architecture, content))
        at += header + size
    return found


def _unpack_zstd(packed: bytes) -> list[bytes]:
    """Unpack a zstd frame where Python can, which is from 3.14 on."""
    try:
        from compression import zstd             # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        return []
    return [zstd.decompress(packed)]


def _unpack_lz4(packed: bytes, size: int) -> bytes:
    """Unpack one LZ4 block: literals, then a copy of what was written before, again and again."""
    made = bytearray()
    at = 0
    while at < len(packed) and len(made) < size:
        token = packed[at]
        at += 1
        literals, at = _length(packed, at, token >> 4)
        made += packed[at:at + literals]
        at += literals
        if at + 2 > len(packed) or len(made) >= size:
            break
        distance = packed[at] | packed[at + 1] << 8
        length, at = _length(packed, at + 2, token & 15)
        if not 0 < distance <= len(made):
            raise Refused(200, "this fatbin's compressed PTX is damaged")
        for _ in range(length + 4):              # it may overlap what it makes
            made.append(made[-distance])
    return bytes(made)


def _length(packed: bytes, at: int, start: int) -> tuple[int, int]:
    """Read an LZ4 length: 15 means that more bytes follow, as long as they are 255."""
    if start == 15:
        while True:
            more = packed[at]
            at, start = at + 1, start + more
            if more != 255:
                break
    return start, at
