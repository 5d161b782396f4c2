"""Code images: the PTX in what a caller loads or links.

How          callers do not pass the length of an image: PTX ends with a NUL, and the header of a fatbin contains the
             length. A fatbin is searched for PTX; machine code cannot run.
Read next    ../../../images/containers.py, modules.py, linking_entries.py
"""

from __future__ import annotations

import ctypes
import struct

from ....images.containers import FATBIN, fatbin
from ...interface.thunks import text
from ...machine.codes import Refused

__all__ = ["choose", "image_at", "length_of_fatbin", "optional_ptx", "read_file"]

_WRAPPER = b"\xb1\x43\x62\x46"


def image_at(address: int, device: int) -> bytes:
    """Read a code image, and return its PTX for an architecture such as 90. Of a cubin, return only the first bytes."""
    if not address:
        raise Refused(1)
    magic = ctypes.string_at(address, 4)
    if magic == _WRAPPER:  # the structure that nvcc links into programs: magic, version, pointer to the fatbin
        return image_at(ctypes.c_size_t.from_address(address + 8).value, device)
    if magic == FATBIN:
        header, size = struct.unpack("<HQ", ctypes.string_at(address + 6, 10))
        return choose(ctypes.string_at(address, header + size), device)
    if magic == b"\x7fELF":  # a cubin, which the compiler refuses by these bytes
        return magic
    return ctypes.string_at(address)


def _image_of_file(content: bytes, device: int) -> bytes:
    """Return the PTX in a file's content, or a cubin unchanged."""
    if content[:4] == FATBIN:
        return choose(content, device)
    return content.rstrip(b"\0")


def length_of_fatbin(header: bytes) -> int:
    """Return the number of bytes of a fatbin, from its header."""
    size, body = struct.unpack_from("<HQ", header, 6)
    return max(16, int(size) + int(body))


def optional_ptx(image: bytes, device: int) -> bytes | None:
    """Return the newest PTX in a fatbin that a device can run, else the oldest PTX, or None if there is none."""
    try:
        texts = [(member.architecture, member.code) for member in fatbin(image, ("ptx",)) if member.kind == "ptx"]
    except ValueError as error:
        raise Refused(200, str(error)) from None
    if not texts:
        return None
    older = [each for each in texts if each[0] <= device]
    return (max(older, key=lambda each: each[0]) if older else min(texts, key=lambda each: each[0]))[1]


def choose(image: bytes, device: int) -> bytes:
    """Return the PTX that optional_ptx() returns, or refuse a fatbin without PTX."""
    chosen = optional_ptx(image, device)
    if chosen is None:
        raise Refused(
            209,
            "this fatbin contains no PTX, and the emulator cannot run machine code: add PTX, nvcc -gencode "
            "arch=compute_90,code=[sm_90,compute_90]",
        )
    return chosen


def read_file(name: int, device: int) -> bytes:
    """Read the image in a file."""
    try:
        with open(text(name), "rb") as file:
            return _image_of_file(file.read(), device)
    except OSError as error:
        raise Refused(301, str(error)) from None
