"""The messages of a compiler, as exceptions and warnings.

What it is   a reader of the log: `diagnostics`; and `failure`, which makes the exception for an `Outcome` that failed,
             with the user's file name and line, and the source line below it.
What not     it does not raise or print anything.
Source       the logs of NVRTC 11.8 to 13.5, nvcc 13.0 and, for headers that nvcc does not find, GCC
Read next    cache.py
"""

from __future__ import annotations

import re
from typing import NamedTuple

from .. import locate
from ..errors import (
    CompileFailed,
    CompilerNotFound,
    CudaError,
    InvalidUse,
    NotFound,
    OutOfMemory,
    Unsupported,
    worded,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .nvcc import Nvcc
    from .nvrtc import Nvrtc
    from .request import Outcome, Request

__all__ = ["Diagnostic", "diagnostics", "failure", "not_found", "pin"]

# "file(3): error: text" of NVIDIA's front end; "file:3:10: fatal error: text" of the host compiler
_LINE = re.compile(
    r"^(?P<file>\S.*?)(?:\((?P<line>\d{1,9})\)|:(?P<line2>\d{1,9}):\d+): "
    r"(?P<kind>catastrophic error|fatal error|error|warning)(?: #(?P<number>[\w-]+))?: (?P<text>.*)$",
    re.M,
)
_UNDEFINED = re.compile(r'identifier "(\w+)" is undefined')
_MISSING = re.compile(r'(?:could not|cannot) open source file "([^"]*)"|fatal error: (\S+): No such file')
_EXPRESSIONS = "__nv_name_map"  # NVRTC's name for the text that it makes of the name expressions
_MOST_SHOWN = 10
_LONGEST = 500
_STANDARD = {"assert.h", "float.h", "limits.h", "math.h", "stddef.h", "stdint.h", "stdio.h", "stdlib.h", "string.h"}
# Standard headers that <cuda/std/...> has, too, and what people most often use of them without an #include.
_IN_CUDA_STD = {"float.h": "cfloat", "limits.h": "climits", "math.h": "cmath", "stddef.h": "cstddef",
                "stdint.h": "cstdint"}  # fmt: skip
_IN_CUDA_STD |= {name: name for name in "algorithm array atomic bit cassert cfloat chrono climits cmath complex "
                 "concepts cstddef cstdint functional initializer_list iterator limits numeric optional span tuple "
                 "type_traits utility variant".split()}  # fmt: skip
_DECLARED_IN = {
    "cuda/std/cmath": "INFINITY NAN",
    "cuda/std/cfloat": "FLT_MAX FLT_MIN FLT_EPSILON DBL_MAX DBL_MIN DBL_EPSILON",
    "cuda/std/climits": "CHAR_BIT INT_MAX INT_MIN UINT_MAX LONG_MAX LLONG_MAX LLONG_MIN",
    "cuda/std/cstdint": "int8_t uint8_t int16_t uint16_t int32_t uint32_t int64_t uint64_t intptr_t uintptr_t SIZE_MAX",
    "cuda_fp16.h": "half half2 __half __half2",
    "cuda_bf16.h": "__nv_bfloat16 __nv_bfloat162",
    "math_constants.h": "CUDART_INF_F CUDART_INF CUDART_NAN_F CUDART_NAN CUDART_PI_F CUDART_PI",
}
_REPLACED = {  # what older code, and code of the host, calls something
    "__shfl __shfl_up __shfl_down __shfl_xor __ballot __any __all": (
        "{0} was removed from CUDA: write {0}_sync, whose first argument is the mask of the lanes, such as 0xffffffff"
    ),
    "M_PI": "{0} is a macro of the host's headers: write CUDART_PI, or CUDART_PI_F, and #include <math_constants.h>",
}


class Diagnostic(NamedTuple):
    """A message about a line; quoted is the source line, or "" if it is unknown."""

    file: str
    line: int
    kind: str
    number: str
    text: str
    quoted: str

    def __str__(self) -> str:
        said = f"{self.file}:{self.line}: {self.kind.rpartition(' ')[2]}: {self.text}"
        return said + (f" [{self.number}]" if self.number else "")


def diagnostics(log: str, request: Request) -> list[Diagnostic]:
    """Read the messages of a log that are about a line of a source."""
    found: list[Diagnostic] = []
    sources: dict[str, list[bytes]] = {}
    for match in _LINE.finditer(log):
        file, line = match["file"], int(match["line"] or match["line2"])
        if file not in sources:
            sources[file] = _lines_of(file, request)
        end = log.find("\n", match.end() + 1)
        below = log[match.end() + 1 : end if end >= 0 else len(log)]
        if 0 < line <= len(sources[file]):
            quoted = sources[file][line - 1].decode("utf-8", "replace")
        else:
            quoted = ""
        quoted = quoted.strip() or (below.strip() if below.startswith("  ") else "")
        found.append(Diagnostic(file, line, match["kind"], match["number"] or "", match["text"], quoted))
    return found


def _lines_of(file: str, request: Request) -> list[bytes]:
    """Return the lines of the source, or of a header that was given as text; [] if its messages count others."""
    if file == request.name:
        text = request.source
    else:
        text = request.headers.get(file, b"")
    if b"#line" in text:
        return []
    return text.splitlines()


def failure(outcome: Outcome, request: Request, compiler: Nvrtc | Nvcc, folders: list[str]) -> CudaError:
    """Return the exception for an outcome that failed; it is not raised.

    folders  where headers were looked for
    """
    log = outcome.log.strip()
    about = f"{outcome.call} ({compiler.kind} {compiler.version[0]}.{compiler.version[1]})"
    errors = [each for each in diagnostics(log, request) if "error" in each.kind]
    kind: type[CudaError] = CompileFailed
    text, first = log or f"{about}: {outcome.reason}, without a message", None
    if outcome.status == 5 and "gpu-architecture" in log or "--nv_arch" in log:
        kind, text = Unsupported, f"{about} does not know {request.target}: {_short(log)}"
    elif outcome.status == 5:
        kind = InvalidUse
        text = f"{about}: {_short(log)}. The options were: {' '.join(compiler.options(request, folders))}"
        if "unrecognized option" in log and compiler.kind == "NVRTC":
            text += "; NVRTC optimizes by default, and lacks options that only nvcc has, such as -O3 and -Xptxas"
    elif outcome.status == 1:
        kind, text = OutOfMemory, f"{about}: out of host memory"
    elif outcome.status == 7:
        kind = CudaError
        text = (
            f"{about}: {outcome.reason}: its builtins library, of the same version and in the same folder as "
            f"{compiler.path}, could not be used: install the compiler's package again. {_short(log)}"
        )
    elif outcome.status != 6:
        kind, text = CudaError, f"{about}: {outcome.reason} ({outcome.status}). {_short(log)}"
    elif errors and all(each.file.startswith(_EXPRESSIONS) for each in errors):
        kind = NotFound
        text = _about_expressions(errors, request)
    elif errors:
        first = errors[0]
        text = "\n".join(_shown(each) for each in errors[:_MOST_SHOWN])
        if len(errors) > _MOST_SHOWN:
            text += f"\n... and {len(errors) - _MOST_SHOWN} more errors; .log has all of them"
        text += _hint(log, compiler, folders) or _about_undefined(errors)
    error = kind(
        text,
        code=outcome.status,
        name=outcome.reason,
        call=outcome.call,
        arguments=(f"name={request.name!r}", f"options={list(request.options)!r}"),
    )
    if isinstance(error, CompileFailed):
        error.log, error.source = outcome.log, request.source.decode("utf-8", "replace")
        if first is not None:
            error.filename, error.lineno, error.text = first.file, first.line, first.quoted
    return error


def _short(log: str) -> str:
    return " ".join(log.split()).rstrip(".")[:1000]


def _shown(each: Diagnostic) -> str:
    """Return a message and the line that it is about, each shortened if it is very long, as in generated files."""
    said, quoted = (text if len(text) <= _LONGEST else text[:_LONGEST] + " ..." for text in (str(each), each.quoted))
    return said + (f"\n    {quoted}" if quoted else "")


def _about_expressions(errors: list[Diagnostic], request: Request) -> str:
    """Return the message for errors in name expressions; NVRTC reports them in the order of the expressions."""
    wrong = [name for name in request.names if any(name in each.quoted for each in errors)] or list(request.names)
    said = "; ".join(dict.fromkeys(each.text for each in errors if not each.text.startswith("Error in parsing")))
    return (
        f"{' and '.join(worded(name, 200) for name in wrong)} in names: {said[:1000]}. Each must name a kernel or "
        f"variable of {request.name} as C++ code after the last line"
        ' of the source would, such as "space::scale<float>"'
    )


def _hint(log: str, compiler: Nvrtc | Nvcc, folders: list[str]) -> str:
    """Return a remedy for a header that was not found, or ""."""
    match = _MISSING.search(log)
    if match is None:
        return ""
    name = match[1] or match[2]
    where = "\nNo folder of headers was found"
    if folders:
        where = f"\nHeaders were looked for in {', '.join(folders)}"
    if name.startswith(("cuda", "cooperative_groups", "curand", "cub/", "thrust/", "nv/")) and compiler.kind == "NVRTC":
        packages = pin("nvidia-cuda-runtime", compiler.version)
        if name.startswith(("cuda/", "cub/", "thrust/", "nv/")):
            packages += f" {pin('nvidia-cuda-cccl', compiler.version)}"
        elif name.startswith("curand"):
            packages = pin("nvidia-curand", compiler.version, exact=False)
        return f"{where}. {name} comes with the CUDA toolkit, or: pip install {packages}"
    if (name in _STANDARD or name.isidentifier()) and compiler.kind == "NVRTC":  # C++ has <cmath>, <type_traits>
        remedy = f"leave {name} out; most of the standard functions are built in"
        if name in _IN_CUDA_STD:
            remedy = f"write #include <cuda/std/{_IN_CUDA_STD[name]}>"
        return f"{where}. NVRTC compiles without the host's headers: {remedy}"
    return f'{where}. Give its text, headers={{"{name}": "..."}}, or its folder, options=["-I/the/folder"]'


def _about_undefined(errors: list[Diagnostic]) -> str:
    """Return which header declares an identifier that is undefined, or what replaces it, or ""."""
    for each in errors:
        match = _UNDEFINED.search(each.text)
        for header, names in _DECLARED_IN.items():
            if match and match[1] in names.split():
                return f"\n{match[1]} is declared in a header: #include <{header}>"
        for replaced, text in _REPLACED.items():
            if match and match[1] in replaced.split():
                return "\n" + text.format(match[1])
    return ""


def pin(package: str, version: tuple[int, int], *, exact: bool = True) -> str:
    """Return what pip installs for a CUDA version; before 13, the name of the package ends with the major version."""
    if version[0] >= 13:
        name = package
    else:
        name = f"{package}-cu{version[0]}"
    if exact:
        return f'"{name}=={version[0]}.{version[1]}.*"'
    return f'"{name}"'


def not_found(
    kind: type[CompilerNotFound], what: str, tried: list[tuple[str, str, str]], lacks: str, install: str
) -> CompilerNotFound:
    """Return the exception for compilers or linkers of which none can be used; it lists all places.

    tried    (file, why it was tried, what was wrong)
    lacks    what is wrong with each folder that was searched
    install  what to install, and how
    """
    folders = locate.searched()
    package = install.rpartition(" ")[2]
    remedy = f"Install {install} (or, for a driver older than CUDA 13, pip install {package}-cu12)"
    lines = [f"  {path}  ({why}): {said}" for path, why, said in tried]
    lines += [f"  {path}  ({why})" for path, why in folders] + [locate.needs_glibc() or remedy]
    return kind(
        f"{what}. Looked in:\n" + "\n".join(lines), tried=[*tried, *((path, why, lacks) for path, why in folders)]
    )
