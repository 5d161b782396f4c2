"""Loading: the emulator becomes the libcuda.so.1 of a process and of its children.

What it is   `take`, for this process and its children; `prepare`, which makes the folder of files and the
             environment for children; `unusable`, which returns the reason why that is not possible in this process.
How          if an object with the requested SONAME is already loaded, glibc's dlopen() returns it and does not search
             for a file. So this process loads the objects from memory. A child finds the files in the folder, through
             LD_LIBRARY_PATH, which its loader reads when it starts; its first call starts the emulator there.
What not     a replacement of a driver that a program loads by its full path, or that is statically linked.
Source       dlopen(3), ld.so(8), memfd_create(2)
Read next    ../__init__.py, whose impersonate() is for users
"""

from __future__ import annotations

import atexit
import ctypes
import itertools
import os
import re
import stat
import sys
import threading
from functools import partial

from ... import locate
from ...errors import shown
from ..emulated_library import shared
from ..machine.recovery import undivided
from . import symbol_table as layout
from .attaching import ATTACHED, attach
from .elf import SYMBOL, write
from .journal import read, told
from .programs import write_programs
from .stand_in_libraries import LIBRARIES
from .symbol_table import Table, build

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

__all__ = ["VARIABLE", "object_for", "prepare", "remove", "take", "told_here", "unusable"]

_LINKS = {"libcudart.so": "libcudart.so.13"}  # the names by which linkers search
VARIABLE = "RAWCUDA_IMPERSONATES"  # the environment variable that tells children the folder

_NOLOAD = 4  # RTLD_NOLOAD: return what is loaded, or NULL
_PACKAGE = __name__.rpartition(".emulator.")[0]
_FOLDER = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_lock = threading.Lock()

_SCRIPT = """
import os, sys
if "_signal" not in sys.modules:  # a program that is not in Python, where Ctrl-C must not become an exception
    import ctypes, _signal
    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
        ctypes.CDLL(None).signal(_signal.SIGINT, None)  # that of Python works only in the thread that has started it
from importlib import import_module, util
folder = {package!a}
def home(module):
    return os.path.dirname(os.path.abspath(getattr(module, "__file__", None) or ""))
def start(name, late=None):
    module = sys.modules.get(name)
    spec = None
    if sys.version_info < (3, 9) or sys.implementation.name != "cpython":
        raise ImportError("the emulator needs CPython 3.9 or newer, and this is " + sys.version)
    if module is None:
        try:
            spec = util.find_spec(name)
        except Exception:
            pass
        if spec is not None and os.path.dirname(os.path.abspath(spec.origin or "")) == folder:
            module = import_module(name)
    if module is None or home(module) != folder:
        if module is not None or spec is not None or "." in name:  # its parents may not be importable here
            name = "emulated_" + name.replace(".", "_")
        if name not in sys.modules:
            at = os.path.join(folder, "__init__.py")
            spec = util.spec_from_file_location(name, at, submodule_search_locations=[folder])
            sys.modules[name] = module = util.module_from_spec(spec)
            spec.loader.exec_module(module)
    attaching = import_module(name + ".emulator.impersonating.attaching")
    attaching.attach(table, {folder!a})
    if late is not None:
        attaching.raise_later(late)
late = None
try:
    start({name!a})
except BaseException as caught:
    late = caught
if late is not None:  # perhaps an interrupt, which must reach the program: any other error comes again
    start({name!a}, late)
"""


def unusable() -> str:
    """Return the reason why this process cannot load the objects, or "" if it can."""
    what = ""
    if not sys.platform.startswith("linux"):
        what = f"this system is {sys.platform}"
    elif os.uname().machine not in ("x86_64", "aarch64") or sys.maxsize < 2**32:
        what = f"this is {os.uname().machine} with {sys.maxsize.bit_length() + 1}-bit pointers"
    elif sys.implementation.name != "cpython":
        what = f"this is {sys.implementation.name}"
    elif locate.needs_glibc():
        what = "the C library is not glibc (musl does not find a loaded object by its SONAME)"
    return what and f"{what}: impersonation needs CPython and glibc on 64-bit Linux, on x86-64 or arm64"


def object_for(key: str, soname: str, folder: str) -> bytes:
    """Return the file of a library under one of its names, for processes that write their journals into a folder."""
    machine = os.uname().machine
    code: ModuleType
    if machine == "x86_64":
        from . import intel as code
    else:
        from . import arm as code

    library = LIBRARIES[key]
    names = library.names()
    text = _SCRIPT.format(name=_PACKAGE, package=_FOLDER, folder=folder)
    texts = {
        layout.SCRIPT: f'(lambda table, text: exec(text, {{"table": table}}))(0x{0:016x}, {text!a})'.encode(),
        layout.OWNER: os.fsencode(_FOLDER),
        layout.LIBPYTHON: os.fsencode(_libpython()),
        layout.PROGRAM: (sys.executable or "python3").encode("utf-32-le", "surrogatepass"),
    }
    table = build(key, names, library.codes, texts, library.telling, library.errors(), library.unknown)
    return write(machine, code, soname, names, table, library.version)


def _libpython() -> str:
    """Return the file that a program without Python can load, or "" if this interpreter has none."""
    from sysconfig import get_config_var

    path = os.path.join(get_config_var("LIBDIR") or "", get_config_var("INSTSONAME") or "")
    if ".so" in path and os.path.isfile(path):
        return path
    return ""


def prepare() -> tuple[str, dict[str, str]]:
    """Make a folder with the files of all libraries, and return it with the variables that lead children to it.

    raises  OSError  there is no folder that can be written and from which the loader may execute code
    """
    folder = _new_folder()
    try:
        for key, library in LIBRARIES.items():
            for soname in library.sonames:
                with open(os.path.join(folder, soname), "wb") as file:
                    file.write(object_for(key, soname, folder))
        for name, soname in _LINKS.items():
            os.symlink(soname, os.path.join(folder, name))
        programs = write_programs(folder)
    except BaseException:
        remove(folder)
        raise
    before = os.environ.get("LD_LIBRARY_PATH")
    # programs also load compilers by their full paths, unless one is loaded already
    early = [os.path.join(folder, name) for key in LIBRARIES if key != "libcuda" for name in LIBRARIES[key].sonames]
    return folder, {
        "LD_LIBRARY_PATH": f"{folder}:{before}" if before else folder,
        "LD_PRELOAD": ":".join([*early, *filter(None, [os.environ.get("LD_PRELOAD")])]),
        "LIBRARY_PATH": os.pathsep.join(filter(None, [folder, os.environ.get("LIBRARY_PATH")])),  # of linkers
        "PATH": os.pathsep.join([programs, os.environ.get("PATH", os.defpath)]),
        "TRITON_LIBCUDA_PATH": folder,
        "TRITON_PTXAS_PATH": os.path.join(programs, "ptxas"),
        "TRITON_PTXAS_BLACKWELL_PATH": os.path.join(programs, "ptxas"),
        VARIABLE: folder,
    }


def _new_folder() -> str:
    from tempfile import gettempdir, mkdtemp

    tried = []
    for given in (gettempdir(), "/dev/shm", os.path.expanduser("~/.cache")):
        place = os.path.abspath(given)
        try:
            if os.statvfs(place).f_flag & os.ST_NOEXEC:
                raise OSError("it is mounted noexec")
            if re.search(r"[\s:;$]", place):
                raise OSError("LD_LIBRARY_PATH and LD_PRELOAD divide at white space, ':' and ';', and replace '$'")
            locate.refuse_planted(place, private=True)
            return mkdtemp(prefix="", dir=_own_folder(place))
        except OSError as error:
            tried.append(f"{place}: {error.strerror or error}")
    raise OSError(
        f"no folder can hold the libraries for programs to load: {'; '.join(tried)}. Set TMPDIR to a folder that can"
    )


def _own_folder(place: str) -> str:
    """Return a folder in a place that only this user can enter, and which stays there.

    Processes that go on after the folder of the libraries was removed still have it in their paths: nobody else may
    make a folder of its name.
    """
    folder = os.path.join(place, f"emulated-{os.geteuid()}")
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:
        pass
    status = os.lstat(folder)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        raise OSError(f"{os.path.basename(folder)} in it is not a folder of user {os.geteuid()}")
    os.chmod(folder, 0o700)
    return folder


def take() -> None:
    """Become the libcuda.so.1 of this process and of its children.

    raises  RuntimeError         a real libcuda is loaded already, or another copy of this package has taken its place
            NotImplementedError  the emulator cannot do this on this system, processor or interpreter
            OSError              the objects can be loaded neither from memory nor from a folder
            ValueError           RAWCUDA_EMULATOR has an unknown word
    """
    why = unusable()
    if why:
        raise NotImplementedError(why)
    with _lock:
        _take()


def _take() -> None:
    shared()  # before anything is loaded, because its settings may be wrong
    found = {(key, soname): _loaded(soname) for key, library in LIBRARIES.items() for soname in library.sonames}
    for (key, soname), loaded in found.items():
        if loaded is not None:
            _check(key, soname, loaded)
    folder = "" if sys.flags.ignore_environment else os.environ.get(VARIABLE, "")  # that of a parent process
    if os.path.isdir(folder):
        locate.refuse_planted(os.path.abspath(folder))
    else:
        folder, variables = prepare()
        os.environ.update(variables)
        atexit.register(undivided(partial(_finish, folder, os.getpid())))
    for (key, soname), loaded in found.items():
        table = _table_of(loaded or _load(key, soname, folder))
        if table is not None:
            attach(table.address, folder)


def _check(key: str, soname: str, loaded: ctypes.CDLL) -> None:
    """Raise RuntimeError if a library is loaded that cannot be replaced."""
    table = _table_of(loaded)
    if table is None and key == "libcuda":
        raise RuntimeError(
            f"a real {soname} is loaded in this process{_mapped(soname)}: impersonate before a library loads it, or "
            f"start the program with python3 -m {_PACKAGE} emulate"
        )
    mine = [attached.table.address for attached in ATTACHED]
    if table is not None and table.get_pointer(layout.RESOLVE) and table.address not in mine:
        raise RuntimeError(
            f"{soname} of this process is emulated already, by another copy of this package, in "
            f"{table.text(layout.OWNER)}: use that copy, because a process can have only one such library"
        )


def _mapped(soname: str) -> str:
    """Return " from " and the file of a loaded library, or ""."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as file:
            for line in file:
                path = line.rstrip("\n").partition("/")[2]
                if os.path.basename(path).startswith(soname.partition(".so")[0] + ".so"):
                    return f" from /{path}"
    except OSError:
        pass
    return ""


def told_here() -> list[str]:
    """Return lines about the functions that this process and its children have called so far."""
    return told(read(ATTACHED[0].folder if ATTACHED else ""), everything=True)


def _finish(folder: str, pid: int) -> None:
    """Remove the folder; if an exception ends the process, then print the missing functions that it called."""
    if pid == os.getpid():
        lines = told(read(folder)) if hasattr(sys, "last_type") else []
        remove(folder)  # first, since stderr may be full
        for line in lines if sys.stderr is not None else ():  # (print() would write to stdout)
            print(shown(f"{_PACKAGE}: {line}"), file=sys.stderr)


def remove(folder: str) -> None:
    """Remove the folder of files and journals."""
    from shutil import rmtree

    rmtree(folder, ignore_errors=True)


def _loaded(soname: str) -> ctypes.CDLL | None:
    """Return the library that is loaded under a name, or None."""
    try:
        return ctypes.CDLL(soname, mode=_NOLOAD)
    except OSError:
        return None


def _table_of(loaded: ctypes.CDLL) -> Table | None:
    try:
        return Table(ctypes.addressof(ctypes.c_char.in_dll(loaded, SYMBOL)))
    except ValueError:
        return None


def _load(key: str, soname: str, folder: str) -> ctypes.CDLL:
    """Load an object of the folder from memory, or from its file if that is not permitted."""
    path = os.path.join(folder, soname)
    try:
        with open(path, "rb") as source:
            file = source.read()
    except OSError:  # the folder is gone
        file = object_for(key, soname, folder)
    try:
        descriptor = os.memfd_create(soname, os.MFD_CLOEXEC)
        with open(descriptor, "wb", buffering=0) as memory:
            memory.write(file)
            # glibc returns what it loaded before from the same path, so each load uses a path that is never used again
            return ctypes.CDLL(f"/proc/self/{'./' * (1 + next(_loads))}fd/{descriptor}")
    except (OSError, AttributeError):
        return ctypes.CDLL(path)


_loads = itertools.count()
