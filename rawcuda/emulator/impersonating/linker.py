"""A replacement of nvJitLink that links PTX and returns PTX: the emulator's linker under the names of this library.

What it is   `names` and `open_nvjitlink`, for the rows of stand_in_libraries.py.
How          PTX, and the PTX in fatbins, objects and archives, is merged into one text, which is returned as the cubin.
             Only LTO-IR needs the real library, which turns it into PTX.
Source       NVIDIA, "nvJitLink" (user guide)
Read next    entries/code/linking_entries.py
"""

from __future__ import annotations

import ctypes
import itertools
import re

from ... import locate
from ...headers import nvjitlink_h
from ..entries.code.linking_entries import images_in
from ..machine.codes import Refused
from ..machine.recovery import answering
from ..ptx import Rejected
from ..ptx.ptx_program import text_of
from ..ptx.reading.ptx_linking import Merger, Unit
from ..ptx.translating.unit import Unit as Checked
from .compilers import keep, real

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from .. import Emulator
    from .stand_in_libraries import Answers

__all__ = ["names", "open_nvjitlink"]

# nvJitLinkResult
_UNKNOWN_OPTION, _MISSING_ARCH, _INVALID, _PTX_COMPILE, _LTO_COMPILE, _INTERNAL, _FINALIZE = 1, 2, 3, 4, 5, 6, 9
_NULL, _WRONG_TYPE, _NO_LTO = 10, 12, 18  # from version 13 on, in place of _INVALID
_KINDS = {1: 0, 2: 1, 4: 2, 5: 3, 6: 4}  # nvJitLinkInputType -> CUjitInputType, as linking_entries.py wants it
_LTOIR, _ANY = 3, 10
_VERSIONS = [f"{major}_{minor}" for major in (12, 13) for minor in range(10)]
_ENTRY = re.compile(r"(\.entry\s+[\w$]+\s*(?:\([^()]*\))?)")


def names() -> list[str]:
    """Return the names of all functions, plain and with the versions of the library."""
    plain = sorted(nvjitlink_h.prototypes())
    return plain + [f"__{name}_{version}" for name in plain for version in _VERSIONS]


class _Link:
    """A link: its options, its inputs and its results."""

    def __init__(self, options: list[str]) -> None:
        self.options = options
        self.inputs: list[tuple[int, bytes, str]] = []
        self.is_completed = False
        self.made = b""
        self.errors = self.info = ""

    def option(self, name: str) -> str | None:
        """Return the value of an option, or None; if it is given several times, the last one counts."""
        found = [each[len(name) + 1 :] for each in self.options if each == name or each.startswith(name + "=")]
        if found:
            return found[-1]
        return None

    @property
    def architecture(self) -> int:
        """Return the number of the target, or 0."""
        found = re.fullmatch(r"(?:sm|compute)_(\d+)[af]?", self.option("-arch") or "")
        if found:
            return int(found.group(1))
        return 0


def _kind_of(kind: int, content: bytes) -> int:
    """Return the kind of an input; if the caller gave none, its first bytes tell."""
    if kind == 1 and content[:4] == b"\x50\xed\x55\xba":
        return 4
    if kind != _ANY:
        return kind
    starts = {b"\x50\xed\x55\xba": 4, b"!<ar": 6, b"\x7fELF": 5, b"\xed\x43\x4e\x7f": _LTOIR}
    return starts.get(content[:4], 2)


def _link(link: _Link, emulator: Emulator, lto: Callable[[_Link, list[tuple[int, bytes, str]]], bytes]) -> int:
    """Link all inputs, write the logs, and return the code."""
    architecture = divmod(emulator._machine.architecture, 10)
    merger, inputs = Merger(), link.inputs
    given = [each for each in inputs if each[0] == _LTOIR]
    if given:
        try:
            inputs = [each for each in inputs if each[0] != _LTOIR] + [(2, lto(link, given), "LTO-IR")]
        except Refused as refused:
            link.errors = f"error   : {refused.report or refused}"
            return _LTO_COMPILE
    try:
        for kind, content, name in inputs:
            for image, inner in images_in(_KINDS[kind], content, name, emulator._machine.architecture):
                unit = Unit(text_of(image), inner, architecture)
                Checked(unit.module, {})
                try:
                    merger.add(unit)
                except Rejected:
                    if kind != 6:
                        raise
        if not merger.units:
            raise Refused(1, "no input contains PTX: the emulator links only PTX")
        text = merger.complete()
    except Rejected as rejected:
        link.errors = rejected.log
        if rejected.line is not None:
            return _PTX_COMPILE
        return _FINALIZE
    except Refused as refused:
        link.errors = f"error   : {refused.report or refused}"
        return _INVALID
    most = link.option("-maxrregcount")
    if most and most.isdecimal():
        text = _ENTRY.sub(rf"\1 .maxnreg {most}", text)
    link.made = text.encode() + b"\0"
    link.info = (
        f"info    : {len(merger.units)} PTX texts were linked to PTX, because the emulator runs no machine code\n"
    )
    return 0


def _real_lto(library: ctypes.CDLL | None, link: _Link, inputs: list[tuple[int, bytes, str]]) -> bytes:
    """Turn LTO-IR into PTX with the real library.

    raises  Refused   there is no real library, or it refuses the input
    """
    if library is None:
        raise Refused(1, "LTO-IR needs the real nvJitLink: pip install nvidia-nvjitlink")
    major = max(int(version[:2]) for version in _VERSIONS if hasattr(library, f"__nvJitLinkCreate_{version}"))

    def call(name: str, *arguments: Any) -> int:
        return int(library[f"__nvJitLink{name}_{major}_0"](*arguments))

    def add_all(handle: ctypes.c_void_p) -> int:
        code = 0
        for _, content, name in inputs:
            code = code or call("AddData", handle, _LTOIR, content, ctypes.c_size_t(len(content)), name.encode())
        return code

    options = [each.encode() for each in link.options if each not in ("-lto", "-ptx")] + [b"-lto", b"-ptx"]
    handle, size = ctypes.c_void_p(), ctypes.c_size_t()
    code = call("Create", ctypes.byref(handle), len(options), (ctypes.c_char_p * len(options))(*options))
    try:
        code = code or add_all(handle) or call("Complete", handle)
        code = code or call("GetLinkedPtxSize", handle, ctypes.byref(size))
        if code:
            call("GetErrorLogSize", handle, ctypes.byref(size))
            log = ctypes.create_string_buffer(size.value + 1)
            call("GetErrorLog", handle, log)
            raise Refused(1, log.value.decode("utf-8", "replace") or f"nvJitLink returned {code}")
        made = ctypes.create_string_buffer(size.value)
        call("GetLinkedPtx", handle, made)
        return made.value
    finally:
        call("Destroy", ctypes.byref(handle))


def open_nvjitlink(emulator: Emulator, major: int) -> Answers:
    """Return the function that returns the addresses of nvJitLink's functions.

    Why long  it is a list of the functions of nvJitLink, which share the links that are open
    """
    links: dict[int, _Link] = {}
    numbers = itertools.count(0x11AC0DE0, 16)
    loaded: list[ctypes.CDLL | None] = []
    word, pointer = ctypes.c_uint, ctypes.c_size_t
    if major > 12:
        null, wrong_type, no_lto = _NULL, _WRONG_TYPE, _NO_LTO
    else:
        null = wrong_type = no_lto = _INVALID

    def library() -> ctypes.CDLL | None:
        if not loaded:
            loaded.append(real(locate.nvjitlink, major))
        return loaded[0]

    def version(first: int, second: int) -> int:
        if not first or not second:
            return null
        found = library()
        if found is not None and hasattr(found, "nvJitLinkVersion"):
            return int(found.nvJitLinkVersion(pointer(first), pointer(second)))
        word.from_address(first).value, word.from_address(second).value = major, 0
        return 0

    def create(address: int, count: int, options: int) -> int:
        if not address or not options:
            return null
        given = list((ctypes.c_char_p * count).from_address(options))
        if None in given:
            return null
        link = _Link([each.decode("utf-8", "replace") for each in given])
        if not link.option("-arch"):
            return _MISSING_ARCH
        if not link.architecture:
            return _UNKNOWN_OPTION
        number = next(numbers)
        links[number] = link
        pointer.from_address(address).value = number
        return 0

    def destroy(address: int) -> int:
        number = address and pointer.from_address(address).value
        if not number:
            return null
        if links.pop(number, None):
            pointer.from_address(address).value = 0
            return 0
        return _INVALID

    def add(link: _Link, kind: int, content: bytes, name: str) -> int:
        if link.is_completed:
            return _INTERNAL
        kind = _kind_of(kind, content)
        if kind == _LTOIR and link.option("-lto") is None:
            link.errors = f"error   : {name}: LTO-IR needs the option -lto"
            return no_lto
        if kind != _LTOIR and kind not in _KINDS:
            link.errors = f"error   : {name}: {kind} is not an nvJitLinkInputType"
            return wrong_type
        link.inputs.append((kind, content, name))
        return 0

    def add_data(number: int, kind: int, data: int, size: int, name: int) -> int:
        if not number:
            return null
        if number not in links or not data or not size:
            return _INVALID
        if name:
            words = ctypes.string_at(name).decode("utf-8", "replace")
        else:
            words = "<input>"
        return add(links[number], kind, ctypes.string_at(data, size), words)

    def add_file(number: int, kind: int, name: int) -> int:
        if not number or not name:
            return null
        if number not in links:
            return _INVALID
        path = ctypes.string_at(name).decode("utf-8", "surrogateescape")
        try:
            with open(path, "rb") as file:
                content = file.read()
        except OSError as error:
            links[number].errors = f"error   : {path}: {error.strerror}"
            return _INVALID
        return add(links[number], kind, content, path)

    def complete(number: int) -> int:
        if not number:
            return null
        if number not in links or not links[number].inputs:
            return _INVALID
        if links[number].is_completed:
            return _INTERNAL
        links[number].is_completed = True
        return _link(links[number], emulator, lambda link, given: _real_lto(library(), link, given))

    def texts(of: Callable[[_Link], bytes]) -> tuple[Callable[[int, int], int], Callable[[int, int], int]]:
        def size(number: int, address: int) -> int:
            if not number or not address:
                return null
            if number not in links:
                return _INVALID
            text = of(links[number])
            if not text:
                return _INTERNAL
            pointer.from_address(address).value = len(text)
            return 0

        def content(number: int, address: int) -> int:
            if not number or not address:
                return null
            if number not in links:
                return _INVALID
            text = of(links[number])
            if not text:
                return _INTERNAL
            ctypes.memmove(address, text, len(text))
            return 0

        return size, content

    cubin_size, cubin = texts(lambda link: link.made)
    error_size, error = texts(lambda link: link.errors.encode(errors="surrogateescape") + b"\0")
    info_size, info = texts(lambda link: link.info.encode(errors="surrogateescape") + b"\0")
    made: dict[str, tuple[Callable[..., int], list[Any]]] = {
        "Version": (version, [pointer, pointer]),
        "Create": (create, [pointer, word, pointer]),
        "Destroy": (destroy, [pointer]),
        "AddData": (add_data, [pointer, ctypes.c_int, pointer, pointer, pointer]),
        "AddFile": (add_file, [pointer, ctypes.c_int, pointer]),
        "Complete": (complete, [pointer]),
    }
    for name, function in (
        ("GetLinkedCubinSize", cubin_size),
        ("GetLinkedCubin", cubin),
        ("GetLinkedPtxSize", cubin_size),
        ("GetLinkedPtx", cubin),
        ("GetErrorLogSize", error_size),
        ("GetErrorLog", error),
        ("GetInfoLogSize", info_size),
        ("GetInfoLog", info),
    ):
        made[name] = function, [pointer, pointer]
    addresses: dict[str, int] = {}

    def answers(symbol: str) -> int | None:
        found = re.fullmatch(r"(?:__)?nvJitLink(\w+?)(?:_1\d_\d)?", symbol)
        if found:
            name = found.group(1)
        else:
            name = ""
        if name in made and name not in addresses:
            function, types = made[name]
            call = answering(emulator._machine, symbol, function, _INTERNAL)
            addresses[name] = keep(ctypes.CFUNCTYPE(ctypes.c_int, *types)(call))
        return addresses.get(name)

    return answers
