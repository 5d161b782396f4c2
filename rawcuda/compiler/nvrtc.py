"""NVRTC, NVIDIA's compiler as a library: one compilation from end to end.

What it is   `Nvrtc`, a loaded library that compiles a `Request`; `load` loads it. ../headers/nvrtc_h.py declares the
             functions.
What not     it does not choose the target or make exceptions: program.py and messages.py do.
Source       nvrtc.h of CUDA 11.8 to 13.5; NVIDIA, "NVRTC" (user guide)
Read next    nvcc.py
"""

from __future__ import annotations

import ctypes
import glob
import os
import sys

from .. import locate
from ..headers import nvrtc_h
from .request import VARIABLES, CallFailed, Outcome, ToolLibrary, encoded, named

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .request import Request

__all__ = ["Nvrtc", "load"]

_OLDEST = (11, 2)  # the first with nvrtcGetSupportedArchs
_CPP_17 = (12, 0)  # the first whose default is C++17, which is nvcc's since 11.0; before, it is C++03
_NOWHERE = b"/a-folder-that-is-not-there/"  # of a source that is not a file, and of the texts of headers
_CODES = {"ptx": "PTX", "cubin": "CUBIN", "ltoir": "LTOIR"}


def load(path: str) -> ctypes.CDLL:
    """Load an NVRTC, and its builtins library, which it would ask the loader for by name when it compiles.

    The loader could find another one, or one in the current folder. NVRTC also asks for libcuda, which need not exist.
    raises  OSError  one of them is not there, cannot be loaded, or is refused by locate.refuse_planted()
    """
    locate.refuse_planted(path)
    locate.preload("libcuda.so.1")
    for folder in dict.fromkeys(os.path.dirname(each) for each in (path, os.path.realpath(path))):
        for pattern in ("libnvrtc-builtins.so.*", "nvrtc-builtins64_*.dll"):
            for builtins in glob.glob(os.path.join(glob.escape(folder), pattern)):
                locate.load(builtins)
    library, major, minor = ctypes.CDLL(path), ctypes.c_int(), ctypes.c_int()
    try:
        library["nvrtcVersion"](ctypes.byref(major), ctypes.byref(minor))
    except AttributeError as error:
        raise OSError(f"this is not NVRTC: {error}") from None
    if sys.platform != "win32":
        locate.load(f"libnvrtc-builtins.so.{major.value}.{minor.value}")
    return library


class Nvrtc(ToolLibrary):
    """A loaded NVRTC.

    architectures  those that it compiles for, in ascending order: 90 is sm_90
    raises  OSError  it cannot be loaded, is not NVRTC, or is older than CUDA 11.2
    """

    kind, _header, _results = "NVRTC", nvrtc_h, "nvrtcResult"

    def __init__(self, path: str) -> None:
        self.path = path
        status = os.stat(path)  # before it is loaded: the file may be replaced while this process uses the old one
        self._file = f"{os.path.realpath(path)} {status.st_size} {status.st_mtime_ns}"
        self._library = load(path)
        major, minor, count = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
        try:
            self._call("nvrtcVersion", ctypes.byref(major), ctypes.byref(minor))
            self.version = major.value, minor.value
            if self.version < _OLDEST:
                raise OSError(f"NVRTC {major.value}.{minor.value} is too old: 11.2 or newer is needed")
            self._call("nvrtcGetNumSupportedArchs", ctypes.byref(count))
            numbers = (ctypes.c_int * count.value)()
            self._call("nvrtcGetSupportedArchs", numbers)
        except (AttributeError, CallFailed) as error:
            raise OSError(f"this is not NVRTC: {error}") from None
        self.architectures = sorted(numbers)

    def identity(self) -> str:
        """Return a text that changes if this compiler could produce different code."""
        return f"{self.kind} {self.version} {self._file} {[os.environ.get(name) for name in VARIABLES]}"

    def options(self, request: Request, folders: list[str]) -> list[str]:
        """Return the options for a request: the user's own, the target, and the folders of headers."""
        target = f"{request.target.number}{request.target.suffix}"
        made = [*request.options]
        if self.version < _CPP_17 and not any(option.startswith(("-std", "--std")) for option in made):
            made.append("--std=c++17")
        made.append(f"--gpu-architecture={'compute' if request.output == 'ptx' else 'sm'}_{target}")
        if request.output == "ltoir":
            made.append("-dlto")
        return made + [f"-I{folder}" for folder in folders]

    def compile(self, request: Request, folders: list[str]) -> Outcome:
        """Compile, and return an Outcome, also after a failure.

        folders  where to look for headers, after the folders that the options name
        calls    nvrtcCreateProgram, nvrtcAddNameExpression, nvrtcCompileProgram, nvrtcGetProgramLog, nvrtcGetPTX or
                 nvrtcGetCUBIN or nvrtcGetLTOIR, nvrtcGetLoweredName, nvrtcDestroyProgram
        """
        program = nvrtc_h.nvrtcProgram()
        try:
            return self._compile(program, request, folders)
        finally:
            if program:
                self._call("nvrtcDestroyProgram", ctypes.byref(program))

    def _compile(self, program: Any, request: Request, folders: list[str]) -> Outcome:
        """Create the program, which the caller must destroy, and compile it."""
        log = ""
        texts = _placed(request.headers)
        headers, names = _strings(texts.values()), _strings(texts)
        options = _strings(map(os.fsencode, self.options(request, folders)))
        expressions = [encoded(name, "names") for name in request.names]
        source, name = request.source, os.fsencode(request.name)
        if not request.is_file:
            # NVRTC searches the folder of the source, which would be the current directory. Its own option against that
            # also switches off the search in the folder of a header, which CUDA's headers need.
            source, name = named(name, source), _NOWHERE + name
        try:
            self._call("nvrtcCreateProgram", ctypes.byref(program), source, name, len(headers), headers, names)
            for expression in expressions:
                self._call("nvrtcAddNameExpression", program, expression)
            try:
                self._call("nvrtcCompileProgram", program, len(options), options)
            finally:
                raw = self._bytes("nvrtcGetProgramLog", program).replace(_NOWHERE, b"")
                log = raw.rstrip(b"\0").decode("utf-8", "replace")
            code = self._bytes(f"nvrtcGet{_CODES[request.output]}", program)
            lowered = {each: self._lowered(program, each) for each in expressions}
        except CallFailed as failed:
            return Outcome(b"", log, {}, failed.status, self._status_name(failed.status), failed.call)
        if request.output == "ptx":
            code = code.rstrip(b"\0")
        return Outcome(code, log, {each.decode(): there for each, there in lowered.items()})

    def _lowered(self, program: Any, name: bytes) -> str:
        there = ctypes.c_char_p()
        self._call("nvrtcGetLoweredName", program, name, ctypes.byref(there))
        return (there.value or b"").decode("utf-8", "replace")


def _placed(headers: dict[str, bytes]) -> dict[bytes, bytes]:
    """Return the texts of headers in a folder that is not there, and headers of their names that include them.

    NVRTC takes the current directory for the folder of a header without a path, and searches the folder of a header
    before all others.
    """
    made = {}
    for number, (name, text) in enumerate(headers.items()):
        there = encoded(name, "headers")
        if not os.path.isabs(name):
            text = named(there, text[3:] if text.startswith(b"\xef\xbb\xbf") else text)
            made[there] = b'#include "%b%d"\n' % (_NOWHERE, number)
            there = b"%b%d" % (_NOWHERE, number)
        made[there] = text
    return made


def _strings(values: Any) -> Any:
    """Return a C array of strings."""
    listed = list(values)
    return (ctypes.c_char_p * len(listed))(*listed)
