"""The request to a compiler, and its result: the records that all modules of this folder use.

What it is   `Request`, a source with everything that affects its translation; `Outcome`, the code or the failure; and
             the checks of what a user gives for a request.
What not     it does not choose the target, and reads no file but the source.
Read next    nvrtc.py
"""

from __future__ import annotations

import ctypes
import os
import re
import time
from typing import NamedTuple

from .. import tracing
from ..arguments import as_list
from ..errors import a_kind, worded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any, Callable, TypeVar

    Status = TypeVar("Status")

__all__ = [
    "ABOUT_LINES",
    "BLANKS",
    "CallFailed",
    "OUTPUTS",
    "Outcome",
    "Request",
    "Target",
    "ToolLibrary",
    "VARIABLES",
    "about",
    "given_target",
    "joined",
    "named",
    "read_source",
    "read_target",
    "reported",
    "strings",
    "texts",
]

OUTPUTS = ("ptx", "cubin", "ltoir")
# Options that put the paths and lines of sources into the code
ABOUT_LINES = ("-G", "--device-debug", "-generate-line-info", "--generate-line-info", "-lineinfo", "--lineinfo")
BLANKS = " \t\n\v\f\r"  # what NVRTC removes at both ends of an option
VARIABLES = ("NV_NVVM_VERSION", "LLVM_OVERRIDE_PRODUCER")  # which the compilers themselves read
NAMELESS = "source.cu"  # the name of a source that is not a file, for messages
_TARGET = re.compile(r"(?:sm|compute|lto)_(\d{2,3})([af]?)\Z", re.ASCII)
_ARCHITECTURE = ("--gpu-architecture", "-arch")
# Options whose value may be the next argument: the last one would take an option that we add as its value. NVRTC takes
# an empty folder for the current one.
_WITH_VALUE = frozenset(
    "-I --include-path -isystem --system-include -D --define-macro -U --undefine-macro -include --pre-include "
    "-maxrregcount --maxrregcount -std --std -Xptxas --ptxas-options -Xcompiler --compiler-options -o".split()
)


class Target(NamedTuple):
    """An architecture: 90 is that of compute capability 9.0; the suffix "a" or "f" adds its special instructions."""

    number: int
    suffix: str = ""

    def __str__(self) -> str:
        return f"sm_{self.number}{self.suffix}"


class Request(NamedTuple):
    """A source, and everything else that determines the code.

    source   CUDA C
    name     the source's name in messages; a path if the source was read from a file
    is_file  whether it was: then the file's folder is searched for headers
    options  for the compiler, as its documentation lists them
    headers  the name of a header in #include: its text
    names    the name expressions whose names in the code are wanted, such as "f<int>"
    output   one of OUTPUTS
    """

    source: bytes
    name: str
    is_file: bool
    options: tuple[str, ...]
    headers: dict[str, bytes]
    names: tuple[str, ...]
    target: Target
    output: str


class Outcome(NamedTuple):
    """The result of a compilation.

    code    b"" if it failed
    log     its messages, also after success
    names   name expression: name in the code
    status  0 for success, else the compiler's own number
    reason  the name of the status, such as "NVRTC_ERROR_COMPILATION"
    call    the function or program that failed
    """

    code: bytes
    log: str
    names: dict[str, str]
    status: int = 0
    reason: str = ""
    call: str = ""


# -- calls


def reported(
    name: str,
    parameters: Sequence[str],
    function: Callable[..., Status],
    arguments: Sequence[Any],
    worded_status: Callable[[Status], str],
) -> Status:
    """Call a function of a compiler or linker, tell the listeners of traces, and return its status.

    parameters     their names
    worded_status  the name of a status, for the listeners
    """
    if not tracing.listeners:
        return function(*arguments)
    began = time.perf_counter_ns()
    status = function(*arguments)
    elapsed = time.perf_counter_ns() - began
    shown = {parameter: _shown(value) for parameter, value in zip(parameters, arguments)}
    tracing.emit(tracing.Call(name, shown, worded_status(status), elapsed, began))
    return status


class CallFailed(Exception):
    """A failed call of a compiler or linker; the arguments are the name of the function and its status."""

    def __init__(self, call: str, status: int) -> None:
        super().__init__(call, status)
        self.call, self.status = call, status


class ToolLibrary:
    """A loaded library that compiles or links.

    path     its file
    version  (major, minor)
    """

    kind = ""  # its name
    _header: Any  # the module of headers/ that declares its functions
    _results: str  # the enumeration of its statuses
    path: str
    version: tuple[int, int]
    _library: Any

    def _function(self, name: str) -> Any:
        return self._library[name]  # each access makes a new object: other users of the library set other types

    def _call(self, name: str, *arguments: Any) -> None:
        function = self._function(name)
        parameters = self._header.prototypes()[name].parameters
        function.argtypes, function.restype = [kind for _, kind in parameters], ctypes.c_int
        status = reported(name, [parameter for parameter, _ in parameters], function, arguments, self._status_name)
        if status:
            raise CallFailed(name, status)

    def _bytes(self, call: str, handle: Any) -> bytes:
        """Return what a function of a name writes, whose size another one says."""
        size = ctypes.c_size_t()
        self._call(f"{call}Size", handle, ctypes.byref(size))
        data = ctypes.create_string_buffer(max(1, size.value))
        if size.value:
            self._call(call, handle, data)
        return data.raw[: size.value]

    def _status_name(self, status: int) -> str:
        names: dict[int, str] = {number: name for name, number in self._header.enum(self._results).items()}
        return names.get(status, f"{self.kind.upper()}_ERROR {status}")

    def __repr__(self) -> str:
        return f"<{self.kind} {self.version[0]}.{self.version[1]} {self.path}>"


def about(tool: Any) -> str:
    """Return the name, the version and the file of a compiler or linker, as text for an error."""
    return f"{tool.kind} {tool.version[0]}.{tool.version[1]} ({tool.path})"


def _shown(value: Any) -> str:
    """Return an argument as text: the target of a pointer, a short value, or the length of a long value."""
    value = getattr(value, "_obj", value)  # the object that byref() was called with
    if hasattr(value, "_length_"):
        if len(value) and isinstance(value[0], bytes) and len(value) <= 64:
            return "[" + ", ".join(_shown(each) for each in value) + "]"
        return f"<{len(value)} elements>"
    value = getattr(value, "value", value)
    if isinstance(value, (bytes, str)) and len(value) > 40:
        return f"<{type(value).__name__} of {len(value)}>"
    if type(value) is int and value > 0xFFFFFFFF:
        return hex(value)
    return worded(value, 80)


# -- what a user gives


def read_source(source: Any) -> tuple[bytes, str, bool]:
    """Return the text of a source, its name, and whether it is a file.

    raises  TypeError   neither a str, bytes nor an os.PathLike
            ValueError  empty, or with a NUL, where a compiler would stop reading; the name of a file, as a str
    """
    name, is_file = NAMELESS, False
    if isinstance(source, os.PathLike):
        name, is_file = os.fsdecode(source), True
        with open(source, "rb") as file:
            text = file.read()
    elif isinstance(source, str):
        text = encoded(source, "the source")
    elif isinstance(source, (bytes, bytearray)):
        text = bytes(source)
    else:
        raise TypeError(f"the source must be CUDA C (str or bytes) or an os.PathLike, not {a_kind(source)}")
    if text[:3] == b"\xef\xbb\xbf":  # a byte order mark, which compilers refuse
        text = text[3:]
    if not text.strip():
        raise ValueError(f"{name if is_file else 'the source'} is empty")
    if b"\0" in text:
        raise ValueError(f"{name if is_file else 'the source'} is not CUDA C: it has a NUL at byte {text.index(0)}")
    _check_bytes(text, name if is_file else "the source")
    if not is_file and b"\n" not in text and text.endswith((b".cu", b".cuh", b".cpp", b".h")):
        raise ValueError(f"{worded(source, 200)} is not CUDA C; to compile a file, give a pathlib.Path")
    return text, name, is_file


def read_target(target: Any) -> Target:
    """Read a target such as "sm_90" or "compute_100a".

    raises  TypeError, ValueError  it is not one
    """
    if not isinstance(target, str):
        raise TypeError(f'a target is a str such as "sm_90", not {a_kind(target)}')
    match = _TARGET.match(target)
    if match is None:
        raise ValueError(f'target {worded(target)}: give an architecture such as "sm_90"')
    return Target(int(match[1]), match[2])


def given_target(options: tuple[str, ...]) -> tuple[Target | None, tuple[str, ...]]:
    """Return the architecture among the options, and the other options, without blanks at their ends, as in NVRTC.

    raises  ValueError  an option has no value, or an empty one
    """
    options = tuple(option.strip(BLANKS) for option in options)
    found, rest, waiting = None, [], iter(options)
    for option, following in zip(options, (*options[1:], "")):
        word, equals, value = option.partition("=")
        if (word in _WITH_VALUE or word in _ARCHITECTURE) and not (value if equals else following):
            raise ValueError(f"options: {option!r} has no value")
    for option in waiting:
        word, equals, value = option.partition("=")
        if word in _ARCHITECTURE:
            found = read_target(value if equals else next(waiting, ""))
        else:
            rest.append(option)
    return found, tuple(rest)


def strings(values: Any, what: str) -> tuple[str, ...]:
    """Check that values is a sequence of strings, and return it as a tuple.

    raises  TypeError   it is a single string, or an item is not a string
            ValueError  a string that C cannot represent
    """
    return tuple(_checked(as_list(what, values, "strings"), what))


def _checked(values: Iterable[Any], what: str) -> Iterator[str]:
    for value in values:
        if not isinstance(value, str):
            raise TypeError(f"{what}: each must be a str, not {a_kind(value)}")
        encoded(value, what)
        yield value


def named(name: bytes, text: bytes) -> bytes:
    """Return a text of C with a directive that gives it a name in messages."""
    quoted = name.replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n")
    return b'#line 1 "%b"\n%b' % (quoted, text)


def joined(text: bytes) -> bytes:
    """Return a text with its lines joined as the preprocessor joins those that end with a backslash."""
    return text.replace(b"\\\r\n", b"").replace(b"\\\n", b"")


def texts(headers: Any) -> dict[str, bytes]:
    """Check the headers, a mapping from names to texts, and return their bytes.

    raises  TypeError, ValueError  another type, or a NUL in a name or a text
    """
    if not hasattr(type(headers), "items"):
        raise TypeError(f"headers must be a dict from the names in #include to texts, not {a_kind(headers)}")
    found = {}
    for name, text in headers.items():
        if not isinstance(name, str) or not isinstance(text, (str, bytes)):
            raise TypeError(f"headers: a name is a str and a text a str or bytes, not {a_kind(name)}: {a_kind(text)}")
        encoded(name, "headers")
        if isinstance(text, str):
            found[name] = encoded(text, f"header {name!r}")
        else:
            found[name] = text
        if b"\0" in found[name]:
            raise ValueError(f"header {name!r} is not text: it has a NUL at byte {found[name].index(0)}")
        _check_bytes(found[name], f"header {name!r}")
    return found


def _check_bytes(text: bytes, what: str) -> None:
    """Reject the byte 0xff, which NVRTC takes for the end of the text without a message."""
    at = text.find(b"\xff")
    if at >= 0:
        raise ValueError(
            f"{what}, line {text.count(bytes((10,)), 0, at) + 1}: byte {at} is 0xff, where a compiler stops reading: "
            "save it as UTF-8"
        )


def encoded(text: str, what: str) -> bytes:
    """Return a string's UTF-8.

    raises  ValueError  it contains a NUL or half of a surrogate pair, which no compiler accepts
    """
    try:
        data = text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(
            f"{what}: character {error.start} is {text[error.start]!r}, half of a surrogate pair, which is no character"
        ) from None
    if b"\0" in data:
        raise ValueError(f"{what}: {worded(text)} has a NUL")
    return data
