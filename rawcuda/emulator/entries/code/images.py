"""Code images: the PTX in what a caller loads or links.

How          callers do not pass the length of an image: PTX ends with a NUL, and the header of a fatbin contains the
             length. A fatbin is searched for PTX; machine code cannot run. LZ4 is unpacked here, and Zstandard in
             images/zstd.py.
Source       fatbins as nvcc 11 to 13 write them (undocumented: a header of 16 bytes, then members, each with its own
             header); LZ4 Block Format Description
Read next    modules.py, linking.py
"""

from __future__ import annotations

import ctypes
import struct

from ....images.zstd import decompress
from ...codes import Refused
from ...thunks import text

__all__ = ["FATBIN", "choose", "image_at", "length_of_fatbin", "optional_ptx", "read_file"]

_WRAPPER, FATBIN = b"\xb1\x43\x62\x46", b"\x50\xed\x55\xba"


def image_at(address: int, device: int) -> bytes:
    """Read a code image, and return its PTX for an architecture such as 90. Of a cubin, return only the first bytes."""
    if not address:
        raise Refused(1)
    magic = ctypes.string_at(address, 4)
    if magic == _WRAPPER:  # the structure that nvcc links into programs: magic, version, pointer to the fatbin
        return image_at(ctypes.c_uint64.from_address(address + 8).value, device)
    if magic == FATBIN:
        header, size = struct.unpack("<HQ", ctypes.string_at(address + 6, 10))
        return choose(ctypes.string_at(address, header + size), device)
    if magic == b"\x7fELF":  # a cubin, which the compiler refuses by these bytes
        return magic
    return ctypes.string_at(address)


def _image_of_file(content: bytes, device: int) -> bytes:
    """Return the PTX in a file's content, or a cubin unchanged."""
    return choose(content, device) if content[:4] == FATBIN else content.rstrip(b"\0")


def length_of_fatbin(fatbin: bytes) -> int:
    """Return the number of bytes of a fatbin, from its header."""
    header, size = struct.unpack_from("<HQ", fatbin, 6)
    return max(16, int(header) + int(size))


def optional_ptx(fatbin: bytes, device: int) -> bytes | None:
    """Return the newest PTX in a fatbin that a device can run, else the oldest PTX, or None if there is none."""
    texts = [(architecture, content) for kind, architecture, content in _members(fatbin) if kind == 1]
    if not texts:
        return None
    older = [each for each in texts if each[0] <= device]
    chosen = max(older, key=lambda each: each[0]) if older else min(texts, key=lambda each: each[0])
    return chosen[1].rstrip(b"\0")


def choose(fatbin: bytes, device: int) -> bytes:
    """Return the PTX that optional_ptx() returns, or refuse a fatbin without PTX."""
    chosen = optional_ptx(fatbin, device)
    if chosen is None:
        raise Refused(
            209,
            "this fatbin contains no PTX, and the emulator cannot run machine code: add PTX, nvcc -gencode "
            "arch=compute_90,code=[sm_90,compute_90]",
        )
    return chosen


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
            try:
                found.append((kind, architecture, decompress(content[:packed])))
            except ValueError:
                raise Refused(200, "this fatbin's compressed code is damaged") from None
        else:
            found.append((kind, architecture, content))
        at += header + size
    return found


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


def read_file(name: int, device: int) -> bytes:
    """Read the image in a file."""
    try:
        with open(text(name), "rb") as file:
            return _image_of_file(file.read(), device)
    except OSError as error:
        raise Refused(301, str(error)) from None
