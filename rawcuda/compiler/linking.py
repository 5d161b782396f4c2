"""`link`: links several images of code into one, with nvJitLink.

What it is   the reader of the images that a user gives; the check for symbols that two images define; one link with
             nvJitLink, and the exceptions for its failures.
What not     it does not load code or call the driver's own linker: ../gpu/kernels/driver_linking.py does.
Source       NVIDIA, "nvJitLink" (user guide); the logs of nvJitLink 12.0 to 13.5
Read next    ../gpu/kernels/driver_linking.py

If two images define a symbol, nvJitLink 12 and 13 do not fail: they print a message and take one of the two, or crash.
They also link every member of an archive, not only those that are needed. So `check_symbols` is called first.
"""

from __future__ import annotations

import os
import re

from .. import locate
from ..arguments import as_list
from ..errors import (
    CudaError,
    InvalidUse,
    LinkerNotFound,
    LinkFailed,
    OutOfMemory,
    Unsupported,
    a_kind,
    unsupported,
    worded,
)
from ..headers.status import INVALID_IMAGE
from ..images import containers
from ..images.outline import declarations
from .messages import not_found, pin
from .nvjitlink import Input, Linked, NvJitLink
from .request import OUTPUTS, Target, about, encoded, given_target, read_target, strings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    Options = tuple[str, ...]

__all__ = ["NO_SYMBOLS", "check_symbols", "link", "linkers", "link_with", "read_inputs", "read_options", "undefined"]

_BITCODE = b"BC\xc0\xde"
_THIN = b"!<thin>\n"
_WRAPPER = b"\xb1\x43\x62\x46"
_WORDS = {
    "ptx": "PTX",
    "cubin": "a cubin",
    "ltoir": "LTO-IR",
    "fatbin": "a fatbin",
    "object": "a host object",
    "library": "an archive",
}
_UNDEFINED = re.compile(r"Undefined reference to '([^']+)' in '([^']*)'|Unresolved extern \w+ '([^']+)'")
_TWICE = re.compile(r"Multiple definition of '([^']+)'|Linking globals named '([^']+)'")
_ARCHITECTURE = (2, 16, 17)  # MISSING_ARCH, UNRECOGNIZED_ARCH, UNSUPPORTED_ARCH
NO_SYMBOLS: tuple[str, ...] = ()


def link(inputs: Any, target: str = "sm_90", output: str = "cubin", *, options: Sequence[str] = ()) -> bytes:
    """Link images of code with nvJitLink, without a device.

    inputs   PTX (str or bytes), cubins, fatbins, LTO-IR, host objects and archives (bytes), or files (os.PathLike): a
             sequence of images, or a dict whose keys name them in messages
    target   an architecture, such as "sm_90"
    output   "cubin"; from LTO-IR alone also "ptx" or "ltoir"
    options  for the linker, such as ["-O3", "-maxrregcount=64"]
    raises   LinkFailed      a symbol that no input or several inputs define; PTX that does not compile: .log, .symbols
             LinkerNotFound  there is no nvJitLink
             InvalidUse      an option that the linker does not know
             Unsupported     a target, or a version of LTO-IR, that this version of the linker does not know
             ValueError      no input, an input that is not code, an unknown output
    """
    if not isinstance(output, str) or output not in OUTPUTS:
        raise ValueError(f"output {worded(output)}: give 'cubin', 'ptx' or 'ltoir'")
    wanted = read_target(target)
    given, rest = read_options(options)
    if given is not None and given != wanted:
        raise ValueError(f"options name the architecture {given}, but target is {worded(target)}: give only target")
    read = read_inputs(inputs)
    for each in read:
        if output != "cubin" and "ltoir" not in each.contains:
            raise ValueError(f"output {output!r} can be made only from LTO-IR, but {each.name} is {_WORDS[each.kind]}")
    check_symbols(read)
    return link_with(linkers()[0], read, wanted, output, rest).code


# -- what a user gives


def read_inputs(inputs: Any) -> list[Input]:
    """Read the images to link: a sequence of images or of (name, image) pairs, or a mapping from names to images.

    raises  TypeError   a single image, or an object that is not code
            ValueError  no image, a truncated image, or bytes that are not code
    """
    if isinstance(inputs, (bytearray, memoryview, os.PathLike)):
        raise TypeError(f"inputs must be a sequence of images, such as a list, or a dict, not {a_kind(inputs)}")
    if hasattr(type(inputs), "items"):
        listed = [(name, code) for name, code in inputs.items()]
    else:
        images = as_list("inputs", inputs, "images")
        listed = [each if isinstance(each, tuple) and len(each) == 2 else (None, each) for each in images]
    if not listed:
        raise ValueError("there is nothing to link: give at least one image")
    return [_read_input(number, name, code) for number, (name, code) in enumerate(listed, 1)]


def _read_input(number: int, name: Any, code: Any) -> Input:
    if name is not None and not isinstance(name, str):
        raise TypeError(f"image {number}: its name must be a str, not {a_kind(name)}")
    if name is not None:
        encoded(name, f"the name of image {number}")
    is_text = isinstance(code, str)
    if isinstance(code, os.PathLike):
        name = name or os.fsdecode(code)
        with open(code, "rb") as file:
            data = file.read()
    elif is_text:
        data = encoded(code.rstrip("\0"), f"image {number}")
    elif isinstance(code, (bytes, bytearray, memoryview)):
        data = bytes(code)
    else:
        raise TypeError(
            f"image {number} must be PTX (str or bytes), a cubin, fatbin, LTO-IR, host object or archive (bytes), or "
            f"an os.PathLike, not {a_kind(code)}"
        )
    name = name or f"image {number}"
    try:
        kind = _kind_of(data, is_text)
        if kind == "ptx":
            data = data.rstrip(b"\0")
        contains, defines = _content(kind, data)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    return Input(kind, data, name, contains, defines)


def _kind_of(data: bytes, is_text: bool) -> str:
    """Return the kind of an image, after checking that it is as long as its header says."""
    if not data.strip(b"\0 \t\r\n"):
        raise ValueError("it is empty")
    if not is_text:
        if data[:4] == containers.ELF:
            is_cubin = containers.machine(data) in (containers.CUBIN_MACHINE, 0)
            containers.sections(data, "cubin" if is_cubin else "host object")
            if is_cubin:
                return "cubin"
            return "object"
        if data[:4] == containers.FATBIN:
            return "fatbin"
        if data[:4] == containers.LTOIR:
            return "ltoir"
        if data[:8] == containers.ARCHIVE:
            return "library"
        if data[:8] == _THIN:
            raise ValueError("a thin archive contains only the names of its members: make it without T (ar rcs)")
        if data[:4] == _WRAPPER:
            raise ValueError("a fatbin wrapper only points to the fatbin: give the fatbin itself (nvcc -fatbin)")
        if data[:4] == _BITCODE:
            raise ValueError("bitcode of LLVM is not LTO-IR: compile with output='ltoir', or nvcc -dlto")
    text = data.rstrip(b"\0")
    if b".version" in text and b"\0" not in text:
        return "ptx"
    if is_text and b"\n" not in text and len(text) < 4096:
        raise ValueError(f"{worded(text.decode(), 200)} is not PTX; to link a file, give a pathlib.Path")
    hint = ""
    if b"__global__" in text or b"__device__" in text:
        hint = ": CUDA C must be compiled first, with options=['-rdc=true']"
    raise ValueError(f"it is neither PTX, a cubin, a fatbin, LTO-IR, a host object nor an archive{hint}")


def _content(kind: str, data: bytes) -> tuple[frozenset[str], frozenset[str]]:
    """Return the kinds of device code in an image, and the symbols that it defines for others, except weak ones.

    raises  ValueError  truncated, damaged, or without device code
    """
    kinds, defines = set(), set()
    for member in _members(kind, data):
        kinds.add(member.kind)
        defines |= _defined_in(member)
    if not kinds:
        raise ValueError(f"{_WORDS[kind]} without device code: compile it with nvcc")
    return frozenset(kinds - {""}), frozenset(defines)


def _members(kind: str, data: bytes) -> Iterator[containers.Member]:
    """Yield the device code in an image."""
    if kind in ("ptx", "cubin", "ltoir"):
        yield containers.Member(kind, 0, data)
    elif kind == "fatbin":
        yield from containers.fatbin(data)
    elif kind == "object":
        yield from containers.device_code(data)
    elif kind == "library":
        left = containers.most_unpacked(data)
        for _, content in containers.archive(data):
            if content[:4] == containers.ELF and containers.machine(content) != containers.CUBIN_MACHINE:
                found = containers.device_code(content, left)
                left -= sum(member.size for member in found)
                yield from found
            elif content[:4] == containers.ELF:
                yield containers.Member("cubin", 0, content)
            elif content[:4] == containers.LTOIR:
                yield containers.Member("ltoir", 0, content)
            elif content[:4] == containers.FATBIN:
                found = containers.fatbin(content, most=left)
                left -= sum(member.size for member in found)
                yield from found


def read_options(options: Any) -> tuple[Target | None, Options]:
    """Return the architecture among the options, and the other options.

    raises  TypeError, ValueError  not a sequence of strings, or an option that this package sets
    """
    given, rest = given_target(strings(options, "options"))
    for option in rest:
        if option in ("-ptx", "--ptx"):
            raise ValueError("options: leave -ptx out, and give output='ptx'")
    return given, tuple(option for option in rest if option not in ("-lto", "-dlto", "--dlto", "--lto"))


# -- symbols


def check_symbols(inputs: Sequence[Input]) -> None:
    """Check that no symbol is defined by two images; LTO-IR cannot be checked.

    raises  LinkFailed  two do; .symbols names them
    """
    first: dict[str, str] = {}
    lines, twice = [], []
    for each in inputs:
        for symbol in sorted(each.defines):
            if symbol in first:
                lines.append(f"Multiple definition of '{symbol}' in '{each.name}', first defined in '{first[symbol]}'")
                twice.append(symbol)
            else:
                first[symbol] = each.name
    if twice:
        raise link_failed("link", "\n".join(lines), duplicates(twice), twice)


def duplicates(symbols: Sequence[str]) -> str:
    """Return the remedy for symbols that are defined twice."""
    return f"{_listed(symbols)} must be defined in one image only: in the others, declare it extern, or make it static"


def undefined(symbols: Sequence[str]) -> str:
    """Return the remedy for symbols that are not defined."""
    return f"no image defines {_listed(symbols)}: link the one that does, too (compiled with -rdc=true)"


def _listed(symbols: Sequence[str]) -> str:
    shown = list(dict.fromkeys(symbols))
    return ", ".join(map(repr, shown[:10])) + (f" and {len(shown) - 10} more" if len(shown) > 10 else "")


def _defined_in(member: containers.Member) -> set[str]:
    if member.kind == "ptx":
        listed = declarations(member.code.decode("utf-8", "replace"))
        return {
            each.name
            for each in listed
            if each.defined and (each.linkage == "visible" or each.kind == "entry" and not each.linkage)
        }
    if member.kind == "cubin":
        return {symbol.name for symbol in containers.symbols(member.code) if symbol.binding == 1 and symbol.is_defined}
    return set()


# -- the linker


_loaded: list[NvJitLink] = []  # the nvJitLinks of this machine, the newest first, once they have been found


def linkers() -> list[NvJitLink]:
    """Return the nvJitLinks of this machine, the newest first.

    raises  LinkerNotFound  there is none; the message lists the places
    """
    if not _loaded:
        _loaded[:] = _find()
    return list(_loaded)


def _find() -> list[NvJitLink]:
    found, tried = [], []
    for path, why in locate.nvjitlink():
        try:
            locate.refuse_planted(path)
            found.append(NvJitLink(path))
        except OSError as error:
            tried.append((path, why, str(error)))
    if found:
        return sorted(found, key=lambda each: each.version, reverse=True)
    what = "no linker was found: nvJitLink"
    raise not_found(LinkerNotFound, what, tried, "has no nvJitLink", "it: pip install nvidia-nvjitlink")


def link_with(linker: NvJitLink, inputs: Sequence[Input], target: Target, output: str, options: Options) -> Linked:
    """Link with nvJitLink; the exceptions are those of link()."""
    if not linker.makes(output):
        raise unsupported(
            f"{about(linker)} makes no {output}: CUDA 13.3 introduced it",
            call="link",
        )
    more = []
    if any("ltoir" in each.contains for each in inputs):
        more = ["-lto"]
    more += ["-ptx"] if output == "ptx" else []
    linked = linker.link(inputs, str(target), output, [*more, *options])
    # (after some errors it returns success, and only the log shows them)
    if linked.status or re.search(r"^(?:error|ERROR)\b", linked.log, re.M):
        error = _failure(linked, linker, target, options)
        try:
            raise error
        finally:
            del error  # or the error and this frame would refer to each other
    return linked


def _failure(linked: Linked, linker: NvJitLink, target: Target, options: Options) -> CudaError:
    """Return the exception for a failed link."""
    log, status, added = linked.log.strip(), linked.status, linked.added
    call = linked.call or "nvJitLinkComplete"
    short = " ".join(log.split()).rstrip(".")[:1000] or linked.reason
    which = f"{call} ({about(linker)})"
    kind: type[CudaError] | None = None
    if status in _ARCHITECTURE or "is not defined for option 'gpu-name'" in log:  # by its ptxas, before CUDA 13
        kind, text = Unsupported, f"{which} does not know {target}: {short}"
    elif status in (1, 11) and call == "nvJitLinkCreate" or "is an unsupported option" in log:
        kind, text = InvalidUse, f"{which}: {short}. The options were: {' '.join(options) or 'none'}"
    elif status == 7:
        kind, text = OutOfMemory, f"{which}: it could not start its threads: {short}"
    elif added is not None and added.kind != "ptx" and (status == 14 or "newer version of nvJitLink" in log):
        kind = Unsupported
        text = (
            f"{which}: the LTO-IR in {added.name} was made by another major version of CUDA, or by a newer one: link "
            f"it with the nvJitLink of the compiler that made it, or compile again with "
            f"{pin('nvidia-cuda-nvrtc', linker.version)}. {short}"
        )
    elif "Unsupported .version" in log:
        kind = Unsupported
        if added is not None:
            where = f" in {added.name}"
        else:
            where = ""
        text = f"{which}: the PTX{where} is newer than the linker: pip install --upgrade nvidia-nvjitlink. {short}"
    if kind is not None:
        return kind(text, code=status, name=linked.reason, call=call)
    missing = [match[1] or match[3] for match in _UNDEFINED.finditer(log)]
    twice = [match[1] or match[2] for match in _TWICE.finditer(log)]
    if missing:
        remedy = undefined(missing)
    elif twice:
        remedy = duplicates(twice)
    elif added is not None and added.kind != "ptx":
        remedy = f"{added.name} is {_WORDS[added.kind]} that cannot be linked for {target}: was it made for it?"
        remedy += " A cubin is for one architecture only, and LTO-IR for its own and newer ones"
    elif added is not None:
        remedy = f"{added.name} is PTX that does not compile for {target}"
    else:
        remedy = ""
    return link_failed(call, log or short, remedy, missing or twice, status, linked.reason, about(linker))


def link_failed(
    call: str,
    log: str,
    remedy: str,
    symbols: Sequence[str],
    code: int = INVALID_IMAGE,
    name: str = "CUDA_ERROR_INVALID_IMAGE",
    by: str = "",
) -> LinkFailed:
    """Return the exception for images that cannot be linked; it is not raised."""
    lines = [line for line in log.splitlines() if line.strip()]
    shown = "\n  ".join(lines[:20]) + (
        f"\n  ... and {len(lines) - 20} more lines; .log has all" if len(lines) > 20 else ""
    )
    error = LinkFailed(
        f"{call}{f' ({by})' if by else ''}: {remedy or 'the images cannot be linked'}.\n  {shown}",
        code=code,
        name=name,
        call=call,
    )
    error.log, error.symbols = log, tuple(dict.fromkeys(symbols))
    return error
