"""Compiled code, kept on disk between runs of a program.

What it is   `Store`, a folder with one file for each request. The name of a file is a hash of everything that the code
             depends on, including headers on disk. A file is written under a temporary name and then renamed, so that
             nobody reads an incomplete file.
What not     it deletes nothing: a user may empty the folder at any time. It is used only if the user names a folder.
Source       POSIX rename(): it replaces the target atomically
Read next    program.py
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
import sys
from functools import partial

from .. import locate
from ..errors import CacheDamaged, a_kind, worded
from .request import ABOUT_LINES, BLANKS, Outcome, joined

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from .nvcc import Nvcc
    from .nvrtc import Nvrtc
    from .request import Request

__all__ = ["Store"]

_MAGIC = b"compiled CUDA C, form 1\n"
# Where a header may be named. It may match in comments and strings, too, but misses nothing that a compiler accepts,
# except a __has_include that ## puts together from other parts than __has_. A match without a name is unknown: a macro,
# a trigraph, blanks after a backslash at the end of a line, or the start of a name that a macro completes.
_START = rb"[\n\r][\0-\t\x0b\f\x0e-\x20\xbb\xbf\xef]*"  # of a line, with a byte order mark
_BLANK = rb"[\0-\t\x0b-\x20]"
_HASH = rb"(?:#|%%:)%b*" % _BLANK
_INCLUDE = re.compile(
    rb"(?:(?:%b%b|\*/%b*(?:%b)?)(?:include|import|embed)"
    rb"|_(?<![# \t]ifdef _)(?<![# \t]ifndef _)(?<![ \t(!&|]defined _)(?<![ \t(!&|]defined\(_)_has_(?:include|embed))"
    rb'(?:_next)?\b(?=(?:\(|/\*[^*]*\*/|%b){0,999}(?:"([^"\n]+)"|<([^<>\n]+)>)?)|\?\?[=/]|\\[ \t\f\v]+\r?$|__has_\b'
    % (_START, _HASH, _BLANK, _HASH, _BLANK),
    re.M,
)
_CLOCK = re.compile(rb"__(?:DATE|TIME|TIMESTAMP)__")  # macros for the time of the compilation
_FOLDERS = ("--include-path", "-I", "-isystem", "--system-include")
_BY_OPTION = ("--pre-include", "-include")
# Options that name files which are not read here, such as another host compiler, or define a macro that looks for
# headers or at the time
_UNREAD = re.compile(
    r"(?:^|[=,])--?(?:optf|options-file|Xcompiler|compiler-options|ccbin|compiler-bindir|(?:create-|use-)?pch)"
    r"|__has_|__(?:DATE|TIME)"
)
_MOST_PLACES = 50_000


class Store:
    """A folder of compiled code, which is made if it does not exist, and which only its user can write to.

    raises  TypeError        not a path
            ValueError       an empty path, or one that the system cannot represent
            PermissionError  other users can write to the folder or one above it, or own one (root may): they could
                             replace the code that is run
            OSError          it cannot be made, or is a file
    """

    def __init__(self, folder: Any) -> None:
        if not isinstance(folder, (str, os.PathLike)):
            raise TypeError(f"cache must be the path of a folder, not {a_kind(folder)}")
        if not os.fspath(folder):
            raise ValueError("cache must be the path of a folder, not an empty string")
        try:
            if b"\0" in os.fsencode(folder):
                raise ValueError
        except ValueError:  # also UnicodeEncodeError
            raise ValueError(f"cache={worded(folder)} cannot be the path of a folder") from None
        self.folder = os.path.abspath(os.fsdecode(folder))
        if os.path.exists(self.folder) and not os.path.isdir(self.folder):
            raise FileExistsError(f"cache {self.folder}: it is a file: give the path of a folder")
        folders, above = [self.folder], os.path.dirname(self.folder)
        while not os.path.lexists(above) and above != folders[-1]:
            folders.append(above)
            above = os.path.dirname(above)
        for each in folders[::-1]:  # the mode that os.makedirs() is given is that of the last one only
            os.makedirs(each, mode=0o700, exist_ok=True)
        if sys.platform != "win32":
            status = os.stat(self.folder)
            if status.st_uid != os.geteuid():
                raise PermissionError(f"cache {self.folder}: user {status.st_uid} owns it: give a folder of your own")
            if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                raise PermissionError(
                    f"cache {self.folder}: its mode is {stat.S_IMODE(status.st_mode):o}, so that other users can "
                    "replace the code in it: chmod 700 it, or give another folder"
                )
        locate.refuse_planted(self.folder, private=True)

    def path(self, request: Request, compiler: Nvrtc | Nvcc, folders: list[str]) -> str | None:
        """Return the path of the file for a request; None if the headers that it depends on cannot be determined."""
        state = hashlib.sha256(_MAGIC)

        def add(*parts: bytes) -> None:
            for part in parts:
                state.update(b"%d:" % len(part) + part)

        add(compiler.identity().encode(), request.source, os.fsencode(request.name), request.output.encode())
        options = compiler.options(request, folders)
        add(b"%d options, %d names, %d headers" % (len(options), len(request.names), len(request.headers)))
        add(*map(os.fsencode, options), *map(str.encode, request.names))
        if any(option.startswith(ABOUT_LINES) for option in options):
            add(os.fsencode(_here()))  # the code contains the absolute paths of sources
        for name in sorted(request.headers):
            add(name.encode(), request.headers[name])
        try:
            for path, text in _headers(request, folders, compiler.kind == "NVRTC"):
                add(os.fsencode(path), b"" if text is None else hashlib.sha256(text).digest())
        except _Unknown:
            return None
        return os.path.join(self.folder, state.hexdigest())

    def read(self, path: str) -> Outcome | None:
        """Return the content of a file, or None if there is no such file.

        raises  CacheDamaged  the file was changed after it was written, or this class did not write it
        """
        flags = sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY"))
        try:
            descriptor = os.open(path, os.O_RDONLY | flags)
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM):  # the file itself may be whole
                raise
            raise _damaged(path, str(error.strerror)) from None
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise _damaged(path, "it is not a file")
            if sys.platform != "win32" and status.st_uid != os.geteuid():
                raise _damaged(path, f"user {status.st_uid} owns it")
            with open(descriptor, "rb", closefd=False) as file:
                data = file.read()
        finally:
            os.close(descriptor)
        digest = len(_MAGIC) + 32
        if not data.startswith(_MAGIC) or hashlib.sha256(data[digest:]).digest() != data[len(_MAGIC) : digest]:
            raise _damaged(path, f"its {len(data)} bytes are not those that were written")
        import json

        head, _, code = data[digest:].partition(b"\n")
        try:
            about = json.loads(head)
            return Outcome(code, about["log"], about["names"])
        except (ValueError, KeyError, TypeError):
            raise _damaged(path, "something else wrote it") from None

    def write(self, path: str, outcome: Outcome) -> None:
        """Write a file; after an error, no file is left."""
        import json

        content = json.dumps({"log": outcome.log, "names": outcome.names}).encode() + b"\n" + outcome.code
        aside = os.path.join(self.folder, f"writing-{os.urandom(16).hex()}")  # known before the file is there
        try:
            with open(aside, "xb", opener=partial(os.open, mode=0o600)) as file:
                file.write(_MAGIC + hashlib.sha256(content).digest() + content)
            os.replace(aside, path)
        except BaseException:
            if os.path.exists(aside):  # else an interrupt came before the file was made, or after the renaming
                os.unlink(aside)
            raise

    def __repr__(self) -> str:
        return f"<Store {worded(self.folder, 200)}>"


def _damaged(path: str, why: str) -> CacheDamaged:
    return CacheDamaged(
        f"a damaged file in the cache: {path}: {why}: delete it, and it will be made again. If you do not know how it "
        "was changed, delete the whole folder: its code would have been executed",
        path=path,
    )


class _Unknown(Exception):
    """Headers that cannot be listed: a macro or an option file names one, only a compiler finds it, or too many.

    Or code that depends on the time.
    """


def _headers(request: Request, folders: list[str], complete: bool) -> Iterator[tuple[str, bytes | None]]:
    """Yield each path where a header may be found, and the text of the header, or None if there is no file.

    complete  whether the compiler searches no other folders; nvcc also searches those of the host's compiler

    These are more paths than a compiler reads: each name is looked up in all folders, and #if is ignored. So the cache
    notices every change of a header, and every new header that hides another one.
    """
    options = _options(request, complete)
    searched = [*(os.path.abspath(each) for each in _option_values(options, _FOLDERS)), *folders]
    own = []
    if request.is_file:
        own = [os.path.dirname(os.path.abspath(request.name))]
    seen: set[str] = set()
    real: dict[str, str] = {}  # folders, without links: "link/.." is the folder above the one that the link leads to
    waiting: list[tuple[str, list[str]]] = []

    def find(text: bytes, near: list[str]) -> None:
        if _CLOCK.search(joined(text)):
            raise _Unknown
        for match in _INCLUDE.finditer(b"\n" + joined(text)):
            name = match[1] or match[2]
            if name is None or b"\0" in name:
                raise _Unknown
            waiting.append((os.fsdecode(name), near))

    find(request.source, own)
    for text in request.headers.values():
        find(text, own)
    waiting += [(name, own + [_here()]) for name in _option_values(options, _BY_OPTION)]
    while waiting:
        name, near = waiting.pop()
        is_found = name in request.headers
        for folder in [""] if os.path.isabs(name) else (*near, *searched):
            above, last = os.path.split(os.path.join(folder, name))
            if above not in real:
                real[above] = os.path.realpath(above)
            path = os.path.join(real[above], last)
            is_found = is_found or os.path.isfile(path)
            if path in seen:
                continue
            seen.add(path)
            if len(seen) > _MOST_PLACES:
                raise _Unknown
            try:
                with open(path, "rb", opener=_without_waiting) as file:
                    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                        raise _Unknown
                    text = file.read()
            except OSError:
                yield path, None
                continue
            yield path, text
            find(text, [*near, os.path.dirname(path)] if os.path.dirname(path) not in near else near)
        if not is_found and not complete:
            raise _Unknown


def _options(request: Request, complete: bool) -> list[str]:
    """Return the options of a request, and for nvcc those that it reads from the environment."""
    options = list(request.options)
    if not complete:
        for name in ("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS"):
            options += os.environ.get(name, "").split()
        for name in ("CPATH", "CPLUS_INCLUDE_PATH"):
            options += [f"-I={each}" for each in os.environ.get(name, "").split(os.pathsep) if name in os.environ]
        if os.environ.get("NVCC_CCBIN"):
            options.append("-ccbin")
    if any(_UNREAD.search(option) for option in options):
        raise _Unknown
    return options


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))  # (a FIFO would wait for a writer)


def _here() -> str:
    """Return the current folder, "" if it was deleted."""
    try:
        return os.getcwd()
    except OSError:
        return ""


def _option_values(options: list[str], words: tuple[str, ...]) -> Iterator[str]:
    """Yield the values of an option in all its forms: -I/a, -I=/a, "-I /a", -I /a, --include-path=/a.

    NVRTC removes blanks before a folder; a value may be one of several forms.
    """
    for option, following in zip(options, [*options[1:], ""]):
        word = next((word for word in words if option.startswith(word)), None)
        if word is not None:
            value = option[len(word) :].removeprefix("=") or following
            yield from {value, value.strip(BLANKS), *value.split(",")}
