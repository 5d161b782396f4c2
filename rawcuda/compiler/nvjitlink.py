"""nvJitLink, NVIDIA's linker as a library: its functions as nvJitLink.h declares them, and one link from end to end.

What it is   `PROTOTYPES`, the C text of each function that this package calls; and `NvJitLink`, a loaded library that
             links `Input`s.
What not     it chooses no target, and words no error; linking.py does.
Source       nvJitLink.h of CUDA 12.0 to 13.5
Read next    linking.py

A library exports each function under a name with a version, such as __nvJitLinkCreate_12_0; the header's inline
functions call these. Newer libraries also export the plain names.
"""

from __future__ import annotations

import ctypes
import os
import re
from typing import NamedTuple

from .request import reported

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

__all__ = ["Input", "Linked", "NvJitLink", "PROTOTYPES", "STATUSES"]

PROTOTYPES = r"""
nvJitLinkResult nvJitLinkCreate(nvJitLinkHandle *handle, uint32_t numOptions, const char * const *options);
        // 12.0  begin a link
nvJitLinkResult nvJitLinkDestroy(nvJitLinkHandle *handle);   // 12.0  free a link
nvJitLinkResult nvJitLinkAddData(nvJitLinkHandle handle, nvJitLinkInputType inputType, const void *data, size_t size,
        const char *name);   // 12.0  add an image
nvJitLinkResult nvJitLinkComplete(nvJitLinkHandle handle);   // 12.0  link what was added
nvJitLinkResult nvJitLinkGetLinkedCubinSize(nvJitLinkHandle handle, size_t *size);   // 12.0  get the cubin's size
nvJitLinkResult nvJitLinkGetLinkedCubin(nvJitLinkHandle handle, void *cubin);   // 12.0  get the cubin
nvJitLinkResult nvJitLinkGetLinkedPtxSize(nvJitLinkHandle handle, size_t *size);   // 12.0  get the PTX's size
nvJitLinkResult nvJitLinkGetLinkedPtx(nvJitLinkHandle handle, char *ptx);   // 12.0  get the PTX
nvJitLinkResult nvJitLinkGetLinkedLTOIRSize(nvJitLinkHandle handle, size_t *size);   // 13.0  get the LTO-IR's size
nvJitLinkResult nvJitLinkGetLinkedLTOIR(nvJitLinkHandle handle, void *ltoir);   // 13.0  get the LTO-IR
nvJitLinkResult nvJitLinkGetErrorLogSize(nvJitLinkHandle handle, size_t *size);   // 12.0  get the error log's size
nvJitLinkResult nvJitLinkGetErrorLog(nvJitLinkHandle handle, char *log);   // 12.0  get the error log
nvJitLinkResult nvJitLinkGetInfoLogSize(nvJitLinkHandle handle, size_t *size);   // 12.0  get the info log's size
nvJitLinkResult nvJitLinkGetInfoLog(nvJitLinkHandle handle, char *log);   // 12.0  get the info log
nvJitLinkResult nvJitLinkVersion(unsigned int *major, unsigned int *minor);   // 12.3  get the library's CUDA version
"""

STATUSES = {
    name: number
    for number, name in enumerate(
        "SUCCESS UNRECOGNIZED_OPTION MISSING_ARCH INVALID_INPUT PTX_COMPILE NVVM_COMPILE INTERNAL THREADPOOL "
        "UNRECOGNIZED_INPUT FINALIZE NULL_INPUT INCOMPATIBLE_OPTIONS INCORRECT_INPUT_TYPE ARCH_MISMATCH "
        "OUTDATED_LIBRARY MISSING_FATBIN UNRECOGNIZED_ARCH UNSUPPORTED_ARCH LTO_NOT_ENABLED".split()
    )
}
_KINDS = {"cubin": 1, "ptx": 2, "ltoir": 3, "fatbin": 4, "object": 5, "library": 6}  # nvJitLinkInputType
_CODES = {"cubin": "Cubin", "ptx": "Ptx", "ltoir": "LTOIR"}
_TYPES: dict[str, Any] = {
    "uint32_t": ctypes.c_uint32,
    "size_t": ctypes.c_size_t,
    "nvJitLinkInputType": ctypes.c_int,
    "unsigned int *": ctypes.POINTER(ctypes.c_uint),
    "size_t *": ctypes.POINTER(ctypes.c_size_t),
    "char *": ctypes.c_char_p,
    "void *": ctypes.c_char_p,
    "const char *": ctypes.c_char_p,
    "const void *": ctypes.c_char_p,
    "const char * const *": ctypes.POINTER(ctypes.c_char_p),
    "nvJitLinkHandle": ctypes.c_void_p,
    "nvJitLinkHandle *": ctypes.POINTER(ctypes.c_void_p),
}


class Input(NamedTuple):
    """An image to link.

    kind      "ptx", "cubin", "ltoir", "fatbin", "object" (of the host, with device code) or "library" (an archive)
    data      its bytes
    name      for messages
    contains  the kinds of device code in it
    """

    kind: str
    data: bytes
    name: str
    contains: frozenset[str]


class Linked(NamedTuple):
    """What a linker answered.

    code    b"" if it failed
    log     its errors and warnings
    info    its other messages
    status  0 for success, else the linker's own number
    reason  the name of the status, such as "NVJITLINK_ERROR_INVALID_INPUT"
    call    the function that failed
    added   the input that it was called for, or None
    """

    code: bytes
    log: str
    info: str
    status: int = 0
    reason: str = ""
    call: str = ""
    added: Input | None = None


def prototypes() -> dict[str, list[tuple[str, Any]]]:
    """Return the (name, ctypes type) of each function's parameters, by its name."""
    text = re.sub(r"//.*", "", PROTOTYPES)
    found = {}
    for name, inside in re.findall(r"nvJitLinkResult (\w+)\(([^)]*)\);", text):
        parts = [re.fullmatch(r"(.*?)(\w+)", " ".join(part.split())) for part in inside.split(",")]
        found[name] = [(part[2], _TYPES[part[1].strip()]) for part in parts if part is not None]
    return found


class _Failed(Exception):
    """A call did not succeed: its name and its status."""

    def __init__(self, call: str, status: int) -> None:
        super().__init__(call, status)
        self.call, self.status = call, status


class NvJitLink:
    """A loaded nvJitLink.

    path     its file
    version  (major, minor)
    raises   OSError  it cannot be loaded, or is not nvJitLink
    """

    kind = "nvJitLink"

    def __init__(self, path: str) -> None:
        self.path = path
        self._library, self._functions = ctypes.CDLL(path), prototypes()
        self._suffix = next(
            (f"_{major}_{minor}" for major in range(20, 11, -1) for minor in range(20, -1, -1)
             if hasattr(self._library, f"__nvJitLinkCreate_{major}_{minor}")),
            "",
        )  # fmt: skip
        major, minor = ctypes.c_uint(), ctypes.c_uint()
        try:
            self._call("nvJitLinkVersion", ctypes.byref(major), ctypes.byref(minor))
            self.version = major.value, minor.value
        except (AttributeError, _Failed):  # before CUDA 12.3
            if not self._suffix:
                raise OSError("this is not nvJitLink: it does not export nvJitLinkVersion") from None
            _, *numbers = self._suffix.split("_")
            self.version = int(numbers[0]), int(numbers[1])

    def _call(self, name: str, *arguments: Any) -> None:
        try:
            function = self._library[f"__{name}{self._suffix}"] if self._suffix else self._library[name]
        except AttributeError:
            function = self._library[name]
        parameters = self._functions[name]
        function.argtypes, function.restype = [kind for _, kind in parameters], ctypes.c_int
        status = reported(name, [parameter for parameter, _ in parameters], function, arguments, _status_name)
        if status:
            raise _Failed(name, status)

    def link(self, inputs: Sequence[Input], target: str, output: str, options: Sequence[str]) -> Linked:
        """Link; a failure is a Linked, too.

        target  such as "sm_90"
        output  "cubin"; "ptx" or "ltoir" if all inputs are LTO-IR
        calls   nvJitLinkCreate, nvJitLinkAddData, nvJitLinkComplete, nvJitLinkGetLinkedCubin or nvJitLinkGetLinkedPtx
                or nvJitLinkGetLinkedLTOIR, nvJitLinkGetErrorLog, nvJitLinkGetInfoLog, nvJitLinkDestroy
        """
        handle = ctypes.c_void_p()
        try:
            return self._link(handle, inputs, [f"-arch={target}", *options], output)
        finally:
            if handle:
                self._call("nvJitLinkDestroy", ctypes.byref(handle))

    def _link(self, handle: ctypes.c_void_p, inputs: Sequence[Input], options: list[str], output: str) -> Linked:
        """Begin the link, for the caller to free, and complete it."""
        given = (ctypes.c_char_p * len(options))(*map(os.fsencode, options))
        added: Input | None = None
        code = b""
        failed = _Failed("", 0)
        try:
            self._call("nvJitLinkCreate", ctypes.byref(handle), len(options), given)
            for added in inputs:
                name = added.name.replace("\0", "?").encode("utf-8", "replace")
                self._call("nvJitLinkAddData", handle, _KINDS[added.kind], added.data, len(added.data), name)
            added = None
            self._call("nvJitLinkComplete", handle)
            code = self._bytes(f"nvJitLinkGetLinked{_CODES[output]}", handle)
        except _Failed as error:
            failed = error
        log = info = ""
        if handle:
            log, info = (
                self._bytes(f"nvJitLinkGet{which}Log", handle).rstrip(b"\0").decode("utf-8", "replace")
                for which in ("Error", "Info")
            )
        if output == "ptx":
            code = code.rstrip(b"\0")
        return Linked(code, log, info, failed.status, _status_name(failed.status), failed.call, added)

    def _bytes(self, call: str, handle: ctypes.c_void_p) -> bytes:
        size = ctypes.c_size_t()
        self._call(f"{call}Size", handle, ctypes.byref(size))
        data = ctypes.create_string_buffer(max(1, size.value))
        if size.value:
            self._call(call, handle, data)
        return data.raw[: size.value]

    def makes(self, output: str) -> bool:
        """Tell whether this version makes a kind of code."""
        return output != "ltoir" or self.version >= (13, 0)

    def __repr__(self) -> str:
        return f"<nvJitLink {self.version[0]}.{self.version[1]} {self.path}>"


def _status_name(status: int) -> str:
    word = next((word for word, number in STATUSES.items() if number == status), "unknown")
    return "NVJITLINK_SUCCESS" if status == 0 else f"NVJITLINK_ERROR_{word}"
