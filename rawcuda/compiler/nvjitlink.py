"""nvJitLink, NVIDIA's linker as a library: one link from end to end.

What it is   `NvJitLink`, a loaded library that links `Input`s. The functions are declared in ../headers/nvjitlink_h.py.
What not     it does not choose the target or make exceptions: linking.py does.
Source       nvJitLink.h of CUDA 12.0 to 13.5
Read next    linking.py

All links run in one separate thread. If nvJitLink 13 rejects a cubin, it does not release a lock. The same thread can
acquire this lock again, but links in other threads would wait forever.

A library exports each function under a name with a version, such as __nvJitLinkCreate_12_0; the header's inline
functions call these. Newer libraries also export the plain names.
"""

from __future__ import annotations

import _thread
import atexit
import ctypes
import os
from typing import NamedTuple

from .. import locate
from ..headers import nvjitlink_h
from .request import CallFailed, ToolLibrary

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Callable

__all__ = ["Input", "Linked", "NvJitLink"]

_KINDS = {"cubin": 1, "ptx": 2, "ltoir": 3, "fatbin": 4, "object": 5, "library": 6}  # nvJitLinkInputType
_DESTROYS_WHAT_FAILED = 12, 8  # older versions crash when a link is destroyed whose creation failed
_CODES = {"cubin": "Cubin", "ptx": "Ptx", "ltoir": "LTOIR"}


class Input(NamedTuple):
    """An image to link.

    kind      "ptx", "cubin", "ltoir", "fatbin", "object" (of the host, with device code) or "library" (an archive)
    data      its bytes
    name      for messages
    contains  the kinds of device code in it
    defines   the symbols that it defines for other images, except weak ones
    """

    kind: str
    data: bytes
    name: str
    contains: frozenset[str]
    defines: frozenset[str] = frozenset()


class Linked(NamedTuple):
    """The result of a link.

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


class NvJitLink(ToolLibrary):
    """A loaded nvJitLink.

    raises   OSError  it cannot be loaded, or is not nvJitLink
    """

    kind, _header, _results = "nvJitLink", nvjitlink_h, "nvJitLinkResult"

    def __init__(self, path: str) -> None:
        self.path = path
        locate.preload("libcuda.so.1")  # for which it asks the loader by name
        self._library = ctypes.CDLL(path)
        self._suffix = next(
            (f"_{major}_{minor}" for major in range(20, 11, -1) for minor in range(20, -1, -1)
             if hasattr(self._library, f"__nvJitLinkCreate_{major}_{minor}")),
            "",
        )  # fmt: skip
        major, minor = ctypes.c_uint(), ctypes.c_uint()
        try:
            self._call("nvJitLinkVersion", ctypes.byref(major), ctypes.byref(minor))
            self.version = major.value, minor.value
        except (AttributeError, CallFailed):  # before CUDA 12.3
            if not self._suffix:
                raise OSError("this is not nvJitLink: it does not export nvJitLinkVersion") from None
            _, *numbers = self._suffix.split("_")
            self.version = int(numbers[0]), int(numbers[1])

    def _function(self, name: str) -> Any:
        if self._suffix:
            try:
                return self._library[f"__{name}{self._suffix}"]
            except AttributeError:
                pass
        return super()._function(name)

    def link(self, inputs: Sequence[Input], target: str, output: str, options: Sequence[str]) -> Linked:
        """Link, and return a Linked, also after a failure.

        target  such as "sm_90"
        output  "cubin"; "ptx" or "ltoir" if all inputs are LTO-IR
        calls   nvJitLinkCreate, nvJitLinkAddData, nvJitLinkComplete, nvJitLinkGetLinkedCubin or nvJitLinkGetLinkedPtx
                or nvJitLinkGetLinkedLTOIR, nvJitLinkGetErrorLog, nvJitLinkGetInfoLog, nvJitLinkDestroy
        """

        def work() -> Linked:
            handle = nvjitlink_h.nvJitLinkHandle()
            try:
                return self._link(handle, inputs, [f"-arch={target}", *options], output)
            finally:
                if handle:
                    self._call("nvJitLinkDestroy", ctypes.byref(handle))

        return _in_one_thread(work)

    def _link(self, handle: Any, inputs: Sequence[Input], options: list[str], output: str) -> Linked:
        """Create the link, which the caller must destroy if there is one afterwards, and complete it."""
        given = (ctypes.c_char_p * len(options))(*map(os.fsencode, options))
        added: Input | None = None
        code = b""
        failed = CallFailed("", 0)
        try:
            self._call("nvJitLinkCreate", ctypes.byref(handle), len(options), given)
            for added in inputs:
                name = added.name.replace("\0", "?").encode("utf-8", "replace")
                self._call("nvJitLinkAddData", handle, _KINDS[added.kind], added.data, len(added.data), name)
            added = None
            self._call("nvJitLinkComplete", handle)
            code = self._bytes(f"nvJitLinkGetLinked{_CODES[output]}", handle)
        except CallFailed as error:
            failed = error
        log = info = ""
        if handle:
            log, info = (
                self._bytes(f"nvJitLinkGet{which}Log", handle).rstrip(b"\0").decode("utf-8", "replace")
                for which in ("Error", "Info")
            )
        if failed.call == "nvJitLinkCreate" and self.version < _DESTROYS_WHAT_FAILED:
            handle.value = None  # so that it is not destroyed
        if output == "ptx":
            code = code.rstrip(b"\0")
        return Linked(code, log, info, failed.status, self._status_name(failed.status), failed.call, added)

    def makes(self, output: str) -> bool:
        """Tell whether this version can make a kind of code."""
        return output != "ltoir" or self.version >= nvjitlink_h.prototypes()["nvJitLinkGetLinkedLTOIR"].since


def _in_one_thread(work: Callable[[], Linked]) -> Linked:
    """Call a function in the thread for links, and return what it returns or raise what it raises.

    An interrupt ends the wait, but not the link itself.
    """
    made: list[Linked] = []
    raised: list[BaseException] = []
    # An interrupt may leave the lock in a threading.Event held, whose methods are Python functions.
    running = _thread.allocate_lock()
    running.acquire()

    def run() -> None:
        try:
            made.append(work())
        except BaseException as error:
            raised.append(error)
        running.release()

    _queue().put(run)
    running.acquire()
    if raised:
        raise raised[0]
    return made[0]


_queues: dict[int, Any] = {}  # by process id: a child of fork() does not have the threads of its parent


def _queue() -> Any:
    """Return the queue of the thread for links, which is started on first use."""
    import queue
    import threading

    pid = os.getpid()
    known = _queues.get(pid)
    if known is None:
        made: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()

        def serve() -> None:
            for work in iter(made.get, None):
                work()

        thread = threading.Thread(target=serve, name="nvJitLink", daemon=True)
        thread.start()  # first: without it nothing would answer
        known = _queues.setdefault(pid, made)
        if known is not made:  # another thread was faster
            made.put(None)
        else:
            atexit.register(_finish, pid, made)
    return known


def _finish(pid: int, queue: Any) -> None:
    """Wait for a link that goes on after an interrupt: it would crash in the exit handlers of nvJitLink.

    The thread does not end, since an exit handler that was registered earlier runs later and may link.
    """
    if pid == os.getpid():
        idle = _thread.allocate_lock()
        idle.acquire()
        queue.put(idle.release)
        idle.acquire(timeout=_PATIENCE)


_PATIENCE = 60.0  # seconds
