"""A replacement of NVRTC that returns PTX instead of cubins; the real library answers all other calls.

What it is   `names` and `open_nvrtc`, for the rows of stand_in_libraries.py; `real`, which finds and loads a real
             library.
How          a program gets the addresses of the real library's functions. Only nvrtcGetCUBIN and nvrtcGetCUBINSize are
             replaced. They return the PTX, which NVRTC also makes if the target is a real architecture. A program can
             pass it to the driver or to a linker like a cubin, because these recognize images by their content.
Source       NVRTC, "User Guide"
Read next    linker.py
"""

from __future__ import annotations

import ctypes
import os
import re

from ... import locate
from ...compiler import nvrtc
from ...headers import nvrtc_h
from ..interface.thunks import keep_for_ever
from ..machine.recovery import answering

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from .. import Emulator
    from .stand_in_libraries import Answers

__all__ = ["keep", "names", "open_nvrtc", "real"]

_Size = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_size_t, ctypes.c_size_t)
_INTERNAL = 11  # NVRTC_ERROR_INTERNAL_ERROR
_MISSING = (
    b"NVRTC_ERROR: there is no real NVRTC, which the emulator needs to compile CUDA C: pip install nvidia-cuda-nvrtc"
)


def names() -> list[str]:
    """Return the names of all functions that any NVRTC exports."""
    return sorted(nvrtc_h.prototypes())


def real(
    places: Callable[[], list[tuple[str, str]]], major: int, load: Callable[[str], ctypes.CDLL] = ctypes.CDLL
) -> ctypes.CDLL | None:
    """Load the real library of a major version, or else the newest one; return None if there is none.

    places  a function of locate.py that returns the places to search
    """
    found = []
    for path, _ in places():
        version = re.search(r"\.so\.(\d+)", os.path.realpath(path))
        if version:
            number = int(version.group(1))
        else:
            number = 0
        found.append((number == major, number, path))
    for _, _, path in sorted(found, key=lambda each: each[:2], reverse=True):
        try:
            locate.refuse_planted(path)
            return load(path)
        except OSError:
            continue
    return None


def keep(function: Any) -> int:
    """Keep a C callback forever, and return its address."""
    keep_for_ever(function)
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def open_nvrtc(emulator: Emulator, major: int) -> Answers:
    """Return the function that returns the addresses of NVRTC's functions."""
    library = real(locate.nvrtc, major, nvrtc.load)
    if library is None:
        text = ctypes.create_string_buffer(_MISSING)
        error = keep(ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_int)(lambda code: ctypes.addressof(text)))
        return lambda name: error if name == "nvrtcGetErrorString" else None
    cubin_size, ptx_size, ptx = library.nvrtcGetCUBINSize, library.nvrtcGetPTXSize, library.nvrtcGetPTX
    for function in (cubin_size, ptx_size, ptx):
        function.argtypes, function.restype = [ctypes.c_size_t, ctypes.c_size_t], ctypes.c_int

    def size(program: int, address: int) -> int:
        code = int(cubin_size(program, address))  # 0 for a virtual architecture
        if code or not ctypes.c_size_t.from_address(address).value:
            return code
        return int(ptx_size(program, address))

    machine = emulator._machine
    functions = {"nvrtcGetCUBINSize": size, "nvrtcGetCUBIN": lambda program, address: int(ptx(program, address))}
    ours = {name: keep(_Size(answering(machine, name, each, _INTERNAL))) for name, each in functions.items()}

    def answers(name: str) -> int | None:
        if name in ours:
            return ours[name]
        try:
            return ctypes.cast(library[name], ctypes.c_void_p).value
        except AttributeError:
            return None

    return answers
