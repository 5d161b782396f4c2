"""The way into a process: the emulator becomes its libcuda.so.1, and that of its children.

What it is   `impersonate`, for this process and its children; `prepare`, which makes the folder of files and the
             environment for children; `unusable`, the reason why that is not possible here.
How          glibc's dlopen() returns an object that is already loaded under the SONAME that is asked for, and looks
             for no file then. So this process loads the objects from memory. A child finds the files in the folder,
             through LD_LIBRARY_PATH, which its loader reads when it starts; its first call starts the emulator there.
What not     a file that a program names by its whole path, or a static copy: they are out of reach.
Source       dlopen(3), ld.so(8), memfd_create(2)
Read next    ../__init__.py, whose impersonate() is for users
"""

from __future__ import annotations

import atexit
import ctypes
import itertools
import os
import sys
import threading

from . import table as layout
from .attaching import attach, emulator
from .elf import SYMBOL, write
from .libraries import LIBRARIES
from .table import Table, build

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .. import Emulator

__all__ = ["impersonate", "prepare", "unusable"]

_NOLOAD = 4  # RTLD_NOLOAD: return what is loaded, or NULL
_PACKAGE = __name__.rpartition(".emulator.")[0]
_FOLDER = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_lock = threading.Lock()

_SCRIPT = """
import os, sys
from importlib import import_module, util
name, folder = {name!r}, {folder!r}
def home(module):
    return os.path.dirname(os.path.abspath(getattr(module, "__file__", None) or ""))
module = sys.modules.get(name)
if module is None:
    try:
        spec = util.find_spec(name)
    except Exception:
        spec = None
    if spec is not None and os.path.dirname(os.path.abspath(spec.origin or "")) == folder:
        module = import_module(name)
if module is None or home(module) != folder:
    if module is not None or spec is not None:
        name = "emulated_" + name.replace(".", "_")
    if name not in sys.modules:
        at = os.path.join(folder, "__init__.py")
        spec = util.spec_from_file_location(name, at, submodule_search_locations=[folder])
        sys.modules[name] = module = util.module_from_spec(spec)
        spec.loader.exec_module(module)
import_module(name + ".emulator.impersonating.attaching").attach(table)
"""


def unusable() -> str:
    """Return the reason why this process cannot load such objects, or ""."""
    what = ""
    if not sys.platform.startswith("linux"):
        what = f"this system is {sys.platform}"
    elif os.uname().machine not in ("x86_64", "aarch64") or sys.maxsize < 2**32:
        what = f"this is {os.uname().machine} with {sys.maxsize.bit_length() + 1}-bit pointers"
    elif sys.implementation.name != "cpython":
        what = f"this is {sys.implementation.name}"
    elif "CS_GNU_LIBC_VERSION" not in os.confstr_names or not _glibc():
        what = "the C library is not glibc (musl does not find a loaded object by its SONAME)"
    return what and f"{what}: impersonation needs CPython and glibc on 64-bit Linux, on x86-64 or arm64"


def _glibc() -> str | None:
    try:
        return os.confstr("CS_GNU_LIBC_VERSION")
    except (OSError, ValueError):
        return None


def object_for(key: str, soname: str) -> bytes:
    """Return the file of a library under one of its names."""
    from . import intel

    library = LIBRARIES[key]
    names = library.names()
    text = _SCRIPT.format(name=_PACKAGE, folder=_FOLDER)
    texts = {
        layout.SCRIPT: f'(lambda table, text: exec(text, {{"table": table}}))(0x{0:016x}, {text!r})'.encode(),
        layout.LIBPYTHON: os.fsencode(_libpython()),
        layout.PROGRAM: sys.executable.encode("utf-32-le") if sys.executable else b"",
    }
    return write("x86_64", intel, soname, names, build(key, names, library.codes, texts))


def _libpython() -> str:
    """Return the file that a program without Python can load, or "" if this interpreter has none."""
    from sysconfig import get_config_var

    path = os.path.join(get_config_var("LIBDIR") or "", get_config_var("INSTSONAME") or "")
    return path if ".so" in path and os.path.isfile(path) else ""


def prepare() -> tuple[str, dict[str, str]]:
    """Make a folder with the files of all libraries, and return it with the variables that lead children to it."""
    from tempfile import mkdtemp

    folder = mkdtemp(prefix="emulated-")
    for key, library in LIBRARIES.items():
        for soname in library.sonames:
            with open(os.path.join(folder, soname), "wb") as file:
                file.write(object_for(key, soname))
    before = os.environ.get("LD_LIBRARY_PATH")
    # programs find compilers by whole paths, too, unless one is loaded already
    early = [os.path.join(folder, name) for key in LIBRARIES if key != "libcuda" for name in LIBRARIES[key].sonames]
    return folder, {
        "LD_LIBRARY_PATH": f"{folder}:{before}" if before else folder,
        "LD_PRELOAD": ":".join([*early, *filter(None, [os.environ.get("LD_PRELOAD")])]),
        "TRITON_LIBCUDA_PATH": folder,
    }


def _loaded(soname: str) -> ctypes.CDLL | None:
    """Return what is loaded under a name, or None."""
    try:
        return ctypes.CDLL(soname, mode=_NOLOAD)
    except OSError:
        return None


def _table_of(loaded: ctypes.CDLL) -> Table | None:
    try:
        return Table(ctypes.addressof(ctypes.c_char.in_dll(loaded, SYMBOL)))
    except ValueError:
        return None


def impersonate() -> Emulator:
    """Make the emulator the libcuda.so.1 of this process and its children, and return it.

    raises  RuntimeError  a real libcuda is loaded, or another copy of this package does the same
            NotImplementedError  this system, processor or interpreter cannot
    """
    why = unusable()
    if why:
        raise NotImplementedError(why)
    with _lock:
        for key, library in LIBRARIES.items():
            for soname in library.sonames:
                _take(key, soname)
        if not _folders:
            folder, variables = prepare()
            _folders.append(folder)
            os.environ.update(variables)
            atexit.register(_remove, folder, os.getpid())
    return emulator()


_folders: list[str] = []


def _remove(folder: str, pid: int) -> None:
    from shutil import rmtree

    if pid == os.getpid():
        rmtree(folder, ignore_errors=True)


def _take(key: str, soname: str) -> None:
    loaded = _loaded(soname)
    if loaded is None:
        loaded = _load(object_for(key, soname), soname)
    table = _table_of(loaded)
    if table is None:
        raise RuntimeError(f"{soname} is loaded already")
    attach(table.address)


def _load(file: bytes, soname: str) -> ctypes.CDLL:
    """Load an object from memory."""
    descriptor = os.memfd_create(soname, os.MFD_CLOEXEC)
    with open(descriptor, "wb") as memory:
        memory.write(file)
        memory.flush()
        # glibc finds what it has loaded under the same path again: so a path that nobody else uses, and each only once
        return ctypes.CDLL(f"/proc/self/{'./' * (1 + next(_loads))}fd/{descriptor}")


_loads = itertools.count()
