"""`compile`: from CUDA C to code, with an installed compiler, for a target that it knows.

What it is   the choice of the compiler and of the target, one compilation through the cache, and its warnings.
What not     it loads no code: `Device.compile` does.
Source       NVIDIA, "NVRTC" (user guide); "CUDA Toolkit Release Notes" (which architectures a version dropped)
Read next    ../gpu/devices/device.py
"""

from __future__ import annotations

import os
from contextlib import suppress

from .. import locate
from ..errors import CompilerNotFound, CudaError, NotFound, Unsupported, shown, unsupported, worded
from ..headers.status import NOT_FOUND, UNSUPPORTED_PTX_VERSION
from ..hints import no_such_option
from .cache import Store
from .messages import diagnostics, failure, not_found, pin
from .nvcc import Nvcc
from .nvrtc import Nvrtc
from .request import (
    ABOUT_LINES,
    OUTPUTS,
    Outcome,
    Request,
    Target,
    about,
    given_target,
    joined,
    read_source,
    read_target,
    strings,
    texts,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from os import PathLike
    from typing import Any, NoReturn

__all__ = ["Built", "compile", "compile_for", "compiler"]

# (number, version): the last CUDA version that compiles for architectures below the number.
_LAST_FOR = ((50, (11, 8)), (75, (12, 9)))
_OLDEST = 35  # the oldest architecture that a version on PyPI compiles for


class Built:
    """Code for a device, and where it comes from.

    names  name expression: name in the code
    """

    __slots__ = ("code", "names", "compiler", "_request", "_cache")

    def __init__(self, outcome: Outcome, compiler: Nvrtc | Nvcc, request: Request, cache: Any) -> None:
        self.code, self.names, self.compiler = outcome.code, outcome.names, compiler
        self._request, self._cache = request, cache

    @property
    def source(self) -> tuple[list[str], tuple[str, ...]]:
        """Return the texts that were compiled, and the options, for the types of the kernels' parameters."""
        request = self._request
        texts = [each.decode("utf-8", "replace") for each in (request.source, *request.headers.values())]
        return texts, request.options

    def machine_code(self, error: CudaError, driver_version: int) -> bytes | None:
        """Return a cubin, if the driver refused the PTX only because its minor version is newer; None otherwise.

        Drivers load the cubins of all versions of their major version ("minor version compatibility").
        """
        if error.code != UNSUPPORTED_PTX_VERSION or self.compiler.version[0] != driver_version // 1000:
            return None
        return _compile(self._request._replace(output="cubin"), self.compiler, self._cache).code

    def explain(self, error: CudaError, driver_version: int) -> CudaError:
        """Return the error for code that the driver refused; it names the compiler version that the driver accepts."""
        if error.code != UNSUPPORTED_PTX_VERSION:
            return error
        driver = driver_version // 1000, driver_version % 1000 // 10
        return Unsupported(
            f"{error.call}: {error.name} ({error.code}): {about(self.compiler)} makes PTX that is newer than the "
            f"driver, which is of CUDA {_dotted(driver)}. Update the driver, or install the compiler of its version: "
            f"pip install {pin('nvidia-cuda-nvrtc', driver)}",
            code=error.code,
            name=error.name,
            call=error.call,
            arguments=error.arguments,
        )


def compile(
    source: str | bytes | PathLike[str],
    target: str = "sm_90",
    output: str = "ptx",
    *,
    options: Sequence[str] = (),
    headers: Mapping[str, str | bytes] | None = None,
    names: Sequence[str] = (),
    cache: str | PathLike[str] | None = None,
    **unknown: NoReturn,
) -> bytes:
    """Compile CUDA C, without a device.

    source   CUDA C as str or bytes, or a file as os.PathLike, whose folder is then searched for headers
    target   an architecture, such as "sm_90"
    output   "ptx", "cubin" or "ltoir"
    options  for the compiler, such as ["--use_fast_math", "-I/some/folder"]
    headers  a dict: what #include names, and its text
    names    expressions for the kernels to make of templates, such as ["scale<float>"]
    cache    a folder in which compiled code is kept; other users must not be able to write to it
    raises   CompileFailed     errors in the source: .log, and the .filename, .lineno and .text of the first one
             CompilerNotFound  there is neither NVRTC nor nvcc
             InvalidUse        an option that the compiler does not know
             NotFound          a name expression that the source does not have
             Unsupported       a target that this version of the compiler does not know
             CacheDamaged      a file in the cache that is not what was written there
             ValueError        another output, also if it is one of options that asks for it
             TypeError         an option that does not exist
    """
    if unknown:
        raise no_such_option("compile", unknown)
    if not isinstance(output, str) or output not in OUTPUTS:
        raise ValueError(f"output {worded(output)}: give 'ptx', 'cubin' or 'ltoir'")
    wanted = read_target(target)
    given, rest = given_target(strings(options, "options"))
    if given is not None and given != wanted:
        raise ValueError(f"options name the architecture {given}, but target is {worded(target)}: give only target")
    text, name, is_file = read_source(source)
    loaded = _fitting(wanted.number, None)
    _check_known(wanted, loaded)
    request = Request(
        text, name, is_file, rest, texts({} if headers is None else headers), strings(names, "names"), wanted, output
    )
    return _compile(request, loaded, cache).code


def compile_for(
    capability: tuple[int, int],
    newest: tuple[int, int] | None,
    source: Any,
    options: Any,
    headers: Any,
    expressions: Any,
    cache: Any,
    lines: bool = False,
) -> Built:
    """Compile CUDA C to PTX for a device.

    newest  the driver's CUDA version; None if it accepts the PTX of every compiler
    lines   whether to add -lineinfo to the options, unless one of them is about lines; the instructions are the same

    The target is the device's architecture, or the newest one below it that the compiler knows, or the one
    that options name.
    """
    given, rest = given_target(strings(options, "options"))
    if lines and not any(option.startswith(ABOUT_LINES) for option in rest):
        rest += ("-lineinfo",)
    text, name, is_file = read_source(source)
    wanted = strings(expressions, "names")
    loaded = _fitting(10 * capability[0] + capability[1] if given is None else given.number, newest)
    if given is None:
        given = _choose(capability, loaded)
    else:
        _check_known(given, loaded)
    request = Request(text, name, is_file, rest, texts({} if headers is None else headers), wanted, given, "ptx")
    return Built(_compile(request, loaded, cache), loaded, request, cache)


# -- the compiler

_MOST_REMEMBERED, _NUL = 64, b"\0"
_remembered: list[str] = []  # the keys of linecache of the sources that are kept for reports, the oldest first
_loaded: list[Nvrtc | Nvcc] = []  # the compilers that can be used, the newest first, once they have been found


def compiler() -> Nvrtc | Nvcc:
    """Return the newest NVRTC that loads, or else the first nvcc that runs.

    raises  CompilerNotFound  there is none; the message lists the places
    """
    return _compilers()[0]


def _compilers() -> list[Nvrtc | Nvcc]:
    if not _loaded:
        _loaded[:] = _find()
    return _loaded


def _fitting(number: int, newest: tuple[int, int] | None) -> Nvrtc | Nvcc:
    """Return the newest compiler that is not newer than the driver and compiles for an architecture.

    If there is none, it is the newest one that the driver accepts, or else the oldest: an error will name the remedy.
    """
    known = _compilers()
    accepted = [each for each in known if newest is None or each.version <= newest]
    for each in accepted:
        if min(each.architectures, default=0) <= number:
            return each
    return (accepted or known[-1:])[0]


def _find() -> list[Nvrtc | Nvcc]:
    """Load every NVRTC; without one, run the nvccs until one works."""
    tried: list[tuple[str, str, str]] = []
    found: list[Nvrtc | Nvcc] = []
    for kind, places in ((Nvrtc, locate.nvrtc), (Nvcc, locate.nvcc)):
        for path, why in places():
            try:
                locate.refuse_planted(path)
                found.append(kind(path))
                if kind is Nvcc:
                    break
            except OSError as error:
                tried.append((path, why, str(error)))
        if found:
            return sorted(found, key=lambda each: each.version, reverse=True)
    what, lacks = "no compiler for CUDA C was found: neither NVRTC nor nvcc", "has neither NVRTC nor nvcc"
    raise not_found(CompilerNotFound, what, tried, lacks, "NVRTC: pip install nvidia-cuda-nvrtc")


def _dotted(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"


# -- the target


def _choose(capability: tuple[int, int], loaded: Nvrtc | Nvcc) -> Target:
    """Return the device's architecture, or the newest one below it that the compiler knows, whose PTX also runs."""
    number = 10 * capability[0] + capability[1]
    fitting = [known for known in loaded.architectures if known <= number]
    if not fitting:
        raise _too_new(Target(number), loaded)
    return Target(max(fitting))


def _check_known(target: Target, loaded: Nvrtc | Nvcc) -> None:
    if target.number in loaded.architectures:
        return
    if target.number < min(loaded.architectures, default=0):
        raise _too_new(target, loaded)
    listed = ", ".join(f"sm_{number}" for number in loaded.architectures)
    raise unsupported(
        f"{about(loaded)} does not know {target}; it knows {listed}. Take one of these, or install a newer compiler",
        call="compile",
    )


def _too_new(target: Target, loaded: Nvrtc | Nvcc) -> Unsupported:
    remedy = next(
        f". The last version for it is {_dotted(version)}: pip install {pin('nvidia-cuda-nvrtc', version)}"
        for number, version in (*_LAST_FOR, (1000, (0, 0)))
        if target.number < number
    )
    return unsupported(
        f"{about(loaded)} is too new for {target}: the oldest that it knows is sm_{min(loaded.architectures)}"
        + (remedy if target.number >= _OLDEST else ""),
        call="compile",
    )


# -- one compilation


def _compile(request: Request, loaded: Nvrtc | Nvcc, cache: Any) -> Outcome:
    if request.output == "ltoir" and loaded.version < (12, 0):
        raise unsupported(
            f"{about(loaded)} makes no LTO-IR: CUDA 12.0 introduced it",
            call="compile",
        )
    if cache is None:
        store = None
    else:
        store = Store(cache)
    folders = []  # nvcc has its own
    if loaded.kind == "NVRTC":
        texts = request.source, *request.headers.values(), " ".join(request.options).encode("utf-8", "replace")
        # (to look at 2,000 headers takes 9 ms; a trigraph may join lines, too)
        includes = any(b"include" in joined(text) or b"??/" in text for text in texts)
        folders = locate.headers(loaded.version[0], with_files=includes)
    if store is None:
        path = None
    else:
        path = store.path(request, loaded, folders)
    if store is None or path is None:
        outcome = None
    else:
        outcome = store.read(path)
    if outcome is None:
        outcome = loaded.compile(request, folders)
        if outcome.status:
            error = failure(outcome, request, loaded, folders)
            try:
                raise error
            finally:
                del error  # or the error and this frame would refer to each other
        if not outcome.code:
            raise ValueError(
                f"{about(loaded)} made no {request.output}, since an option asks for other output: leave -dlto and "
                "-optix-ir out of options; output='ltoir' makes LTO-IR"
            )
        _check_names(request, outcome, loaded)
        if store is not None and path is not None and store.path(request, loaded, folders) == path:
            store.write(path, outcome)  # unless a header has changed since, and the compiler may have read the new one
    if request.output == "ptx":
        _remember(request, outcome.code)
    for each in diagnostics(outcome.log, request):
        if each.kind == "warning":
            _warn(f"{each}" + (f"\n    {each.quoted}" if each.quoted else ""))
    return outcome


def _remember(request: Request, code: bytes) -> None:
    """Keep the source of some PTX for reports that quote a line of it, as the interpreter keeps that of its modules."""
    import hashlib
    import linecache

    name = f"<source of {hashlib.sha1(code.rstrip(_NUL), usedforsecurity=False).hexdigest()}>"
    lines = request.source.decode(errors="replace").splitlines(True)
    linecache.cache[name] = len(request.source), None, lines, request.name
    with suppress(ValueError):  # if it was there, it becomes the newest
        _remembered.remove(name)
    _remembered.append(name)
    if len(_remembered) > _MOST_REMEMBERED:
        linecache.cache.pop(_remembered.pop(0), None)


def _check_names(request: Request, outcome: Outcome, loaded: Nvrtc | Nvcc) -> None:
    missing = [name for name in request.names if name not in outcome.names]
    if not missing:
        return
    if any("<" in name for name in missing) or request.output != "ptx":
        raise unsupported(
            f"names={missing!r}: nvcc does not report the names of templates; NVRTC does: pip install "
            f"{pin('nvidia-cuda-nvrtc', loaded.version)}",
            call="nvcc",
        )
    raise NotFound(
        f"{' and '.join(map(repr, missing))} in names: {request.name} has no kernel of that name, or several",
        code=NOT_FOUND,
        name="CUDA_ERROR_NOT_FOUND",
        call="nvcc",
    )


def _warn(text: str) -> None:
    """Issue a warning that names the line outside of this package that called it."""
    import sys
    import warnings

    level, frame = 1, sys._getframe()
    here = frame.f_code.co_filename  # a frozen module has no __file__
    home = os.path.dirname(os.path.dirname(_absolute(here))) + os.sep
    while frame.f_back is not None and _absolute(frame.f_code.co_filename).startswith(home):
        frame, level = frame.f_back, level + 1
    warnings.warn(shown(text), stacklevel=level)


def _absolute(path: str) -> str:
    """Return an absolute path; if the current folder was deleted, the path as it is."""
    try:
        return os.path.abspath(path)
    except OSError:
        return path
