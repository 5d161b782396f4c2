"""Where to look for libcuda, and for the compilers and headers of CUDA, and why each place is tried.

What it is   lists of (path, why). A bare soname is left to the system loader, which has its cache and LD_LIBRARY_PATH.
             `load` loads a library from such a place, and `SharedLibrary` the driver.
What not     it never looks into the current directory (a planted library would run with our rights), and
             does not use ctypes.util.find_library (which starts compilers). What is found is not loaded or run if
             every user of the machine could have put it there: `refuse_planted`.
Source       CUDA on WSL User Guide; Jetson Linux Developer Guide; Microsoft, "Dynamic-link library search order"
Read next    driver.py
"""

from __future__ import annotations

import ctypes
import os
import stat
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    Place = tuple[str, str]

__all__ = [
    "SharedLibrary",
    "libcuda",
    "nvrtc",
    "nvjitlink",
    "nvcc",
    "ptxas",
    "on_path",
    "environment",
    "headers",
    "searched",
    "load",
    "preload",
    "refuse_planted",
    "refuse_toolkit",
    "mapped_file",
    "hidden_gpus",
    "needs_glibc",
]

_WSL = "/usr/lib/wsl/lib/libcuda.so.1"
_LINUX_PLACES = (
    ("/usr/lib/aarch64-linux-gnu/nvidia/libcuda.so.1", "Jetson, JetPack 6 and later"),
    ("/usr/lib/aarch64-linux-gnu/tegra/libcuda.so.1", "Jetson, JetPack 5 and earlier"),
    ("/usr/local/nvidia/lib64/libcuda.so.1", "where container hosts mount the driver"),
    ("/run/opengl-driver/lib/libcuda.so.1", "NixOS"),
)


def _under_wsl() -> bool:
    try:
        with open("/proc/sys/kernel/osrelease", encoding="ascii", errors="replace") as release:
            return "microsoft" in release.read().lower()
    except OSError:
        return False


def libcuda() -> list[Place]:
    """Return the places where the driver may be, best first.

    returns  [(absolute path or bare soname, why it is tried)]
    """
    if sys.platform == "win32":
        # Windows itself sets SystemRoot; the loader is told to look nowhere else.
        system = os.path.join(os.environ.get("SystemRoot", r"C:\Windows"), "System32")
        return [(os.path.join(system, "nvcuda.dll"), "the driver's only place on Windows: System32")]
    places: list[Place] = []
    if _under_wsl():
        # A Linux driver that was installed inside WSL is in the loader's cache, but cannot work there.
        places.append((_WSL, "WSL: the Windows driver's own library, before any that was installed inside WSL"))
    places.append(("libcuda.so.1", "the system loader's search: its cache, LD_LIBRARY_PATH"))
    places += [place for place in _LINUX_PLACES if os.path.isfile(place[0])]
    return places


def _safe(folders: Iterable[str]) -> Iterator[str]:
    """Yield those of a list of folders in which something may be searched: absolute ones, except the current one.

    An empty part of a path means the current folder, and `python -m` puts its absolute path into sys.path.
    """
    try:
        here: os.stat_result | None = os.stat(".")
    except OSError:  # it was deleted
        here = None
    for folder in folders:
        if os.path.isabs(folder):
            try:
                if here is not None and os.path.samestat(os.stat(folder), here):
                    continue
            except OSError:
                pass
            yield folder


def _loader_folders() -> Iterator[str]:
    """Yield the folders in which the system's loader looks for a bare soname, in its order."""
    if sys.platform == "win32":
        return  # load() leaves the search to the system
    yield from _safe(_configured_folders())
    multiarch = f"{os.uname().machine}-linux-gnu"
    yield from (f"/lib/{multiarch}", f"/usr/lib/{multiarch}", "/lib64", "/usr/lib64", "/lib", "/usr/lib")


def _configured_folders() -> Iterator[str]:
    """Yield the folders that LD_LIBRARY_PATH and the loader's configuration name; "" is the current folder.

    The loader has the LD_LIBRARY_PATH with which the process was started, whatever the environment says now.
    """
    for listed in dict.fromkeys([_at_start("LD_LIBRARY_PATH"), os.environ.get("LD_LIBRARY_PATH", "")]):
        yield from listed.replace(";", ":").split(":") if listed else ()
    yield from _configured("/etc/ld.so.conf")


def _at_start(variable: str) -> str:
    """Return the value of a variable of the environment when the process was started; "" if it is not known."""
    try:
        with open("/proc/self/environ", encoding="utf-8", errors="surrogateescape") as file:
            entries = file.read().split("\0")
    except OSError:
        return ""
    return next((each.partition("=")[2] for each in entries if each.startswith(variable + "=")), "")


def _configured(file: str, depth: int = 4) -> Iterator[str]:
    """Yield the folders that a configuration file of the loader names, those of the files that it includes, too."""
    import glob

    try:
        with open(file, encoding="utf-8", errors="surrogateescape") as lines:
            words = [line.partition("#")[0].split() for line in lines]
    except OSError:
        return
    for line in words:
        if line[:1] == ["include"]:
            for pattern in line[1:] if depth else ():
                for each in sorted(glob.glob(os.path.join(os.path.dirname(file), pattern))):
                    yield from _configured(each, depth - 1)
        elif line[:1] != ["hwcap"]:
            yield from (folder for word in line for folder in word.partition("=")[0].replace(",", ":").split(":"))


def _chosen() -> Iterator[Place]:
    """Yield the toolkits that the user has named."""
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        folder = os.environ.get(variable, "")
        if os.path.isabs(folder):
            yield folder, f"the environment's {variable}"


def _installed() -> Iterator[Place]:
    """Yield the toolkits that the user has not named: conda's, those in their default folders, the distribution's."""
    yield sys.prefix, "this Python's environment"
    if sys.platform != "win32":
        yield "/usr/local/cuda", "the toolkit's default folder"
        try:
            versions = sorted((name for name in os.listdir("/usr/local") if name.startswith("cuda-")), reverse=True)
        except OSError:
            versions = []
        for name in versions:
            yield f"/usr/local/{name}", "a toolkit's versioned folder"
        yield "/usr", "the system's own packages"


def _packages() -> Iterator[Place]:
    for folder in _safe(sys.path):
        nvidia = os.path.join(folder, "nvidia")
        try:
            names = sorted(os.listdir(nvidia), reverse=True)
        except OSError:  # missing, not a folder (a zip file), or not readable
            continue
        for name in names:
            yield os.path.join(nvidia, name), f"the Python package nvidia/{name}"


def _roots() -> Iterator[Place]:
    """Yield each folder in which a toolkit, or a part of one, may be installed, best first."""
    yield from _chosen()
    yield from _packages()
    yield from _installed()


def searched() -> list[Place]:
    """Return the folders in which compilers are looked for, whether they exist or not, as a list of (path, why)."""
    packages = [
        (os.path.join(folder, "nvidia"), "Python packages") for folder in _safe(sys.path) if os.path.isdir(folder)
    ]
    return list(dict.fromkeys([*_chosen(), *packages, *_installed()]))


def _found(names: tuple[str, ...], folders: tuple[str, ...]) -> list[Place]:
    """List the files with these names (a prefix if it ends in '*') in these folders of every toolkit and package."""
    found: list[Place] = []
    for root, why in _roots():
        for folder in folders:
            here = os.path.join(root, folder)
            try:
                present = sorted(os.listdir(here))
            except OSError:
                continue
            for name in present:
                path = os.path.join(here, name)
                if any(name == want or want.endswith("*") and name.startswith(want[:-1]) for want in names) and all(
                    os.path.realpath(path) != os.path.realpath(old) for old, _ in found
                ):
                    found.append((path, why))
    return found


def nvrtc() -> list[Place]:
    """Return the NVRTC libraries that exist, as a list of (path, why it was tried)."""
    if sys.platform == "win32":
        places = _found(("nvrtc64_*",), _library_folders())
        return [place for place in places if place[0].endswith(".dll") and not place[0].endswith(".alt.dll")]
    return _found(("libnvrtc.so*",), _library_folders())


def _library_folders() -> tuple[str, ...]:
    if sys.platform == "win32":
        return "bin", "bin/x64", "bin/x86_64", "Library/bin"
    machine = os.uname().machine
    target = {"aarch64": "sbsa"}.get(machine, machine)
    return "lib64", "lib", f"targets/{target}-linux/lib", f"lib/{machine}-linux-gnu"


def nvjitlink() -> list[Place]:
    """Return the nvJitLink libraries that exist, as a list of (path, why it was tried)."""
    if sys.platform == "win32":
        return _found(("nvJitLink_*",), _library_folders())
    return _found(("libnvJitLink.so*",), _library_folders())


def environment() -> dict[str, str]:
    """Return the environment for a program that looks for others, or for libraries and headers, by itself.

    Its lists of folders are without relative ones, the current one, missing ones, and those into which every user can
    put files. An empty PATH would mean the current folder: the system's default stands in its place.
    """
    made = dict(os.environ)
    for name in _LISTS:
        if name in made:
            listed = made[name].replace(";", os.pathsep) if name == "LD_LIBRARY_PATH" else made[name]
            there = [folder for folder in _safe(listed.split(os.pathsep)) if os.path.isdir(folder)]
            folders = [folder for folder in there if not _is_planted(folder)]
            made[name] = os.pathsep.join(folders)
            if not folders:
                del made[name]
    made.setdefault("PATH", os.defpath)
    return made


_LISTS = (
    "PATH", "LD_LIBRARY_PATH",
    "COMPILER_PATH", "LIBRARY_PATH", "CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH",  # of the host's compiler
)  # fmt: skip


def on_path(name: str) -> list[str]:
    """Return the programs of this name in the folders of PATH, except relative ones and the current one."""
    name += ".exe" if sys.platform == "win32" else ""
    paths = (os.path.join(folder, name) for folder in _safe(os.environ.get("PATH", "").split(os.pathsep)))
    return [path for path in dict.fromkeys(paths) if os.access(path, os.X_OK) and not os.path.isdir(path)]


def _programs(name: str) -> list[Place]:
    found = _found((name + (".exe" if sys.platform == "win32" else ""),), ("bin",))
    return found + [(path, "on the PATH") for path in on_path(name) if all(path != old for old, _ in found)]


def ptxas() -> list[Place]:
    """Return the ptxas programs that exist, as a list of (path, why it was tried)."""
    return _programs("ptxas")


def nvcc() -> list[Place]:
    """Return the nvcc programs that exist, as a list of (path, why it was tried)."""
    return _programs("nvcc")


def headers(major: int, *, with_files: bool = True) -> list[str]:
    """Return the folders with the headers of a toolkit of this major version (cuda_fp16.h, ...), [] if there is none.

    with_files  whether they will be read, so that each file must be one that not every user could have put there
    NVIDIA's packages for CUDA 12 put the headers of each library into a folder of its own: all of these are returned.
    """
    for root, _ in _roots():
        for folder in ("include", "targets/x86_64-linux/include", "targets/sbsa-linux/include"):
            here = os.path.join(root, folder)
            if os.path.isfile(os.path.join(here, "cuda_fp16.h")) and _major(here) == major:
                if _is_planted(here, with_files=with_files):
                    continue
                beside = root
                if os.path.basename(root) == "cuda_runtime":
                    beside = os.path.dirname(os.path.dirname(here))
                inner, more = os.path.join(here, "cccl"), [os.path.join(beside, each, "include") for each in _BESIDE]
                found = [each for each in more if os.path.isdir(each) and not _is_planted(each, with_files=with_files)]
                if os.path.isdir(inner) and not _is_planted(inner):
                    found.insert(0, inner)
                return [here, *found]
    return []


def _is_planted(folder: str, *, with_files: bool = False) -> bool:
    """Tell whether every user could have put something into a folder that is searched, or could do so later.

    with_files  whether the files and folders in it are looked at, too
    """
    try:
        refuse_planted(folder)
        if os.path.isdir(folder):
            _refuse_open(folder)
            if with_files:
                _refuse_below(folder)
    except OSError:
        return True
    return False


def _refuse_open(folder: str) -> None:
    """Refuse a folder in which files are searched if every user may add one; the sticky bit does not prevent it."""
    if sys.platform != "win32" and os.stat(folder).st_mode & stat.S_IWOTH:
        raise PermissionError(f"every user can put files into {folder}, so it is not searched: chmod o-w {folder}")


def _refuse_below(folder: str) -> None:
    """Refuse a folder if every user could have put a file or folder in it there."""
    waiting, linked = [folder], set()
    while waiting:
        here = waiting.pop()
        _refuse_open(here)
        with os.scandir(here) as entries:
            found = list(entries)
        for each in found:
            if each.is_symlink() or each.stat(follow_symlinks=False).st_mode & stat.S_IWOTH:
                refuse_planted(each.path)
            if each.is_dir():
                if each.is_symlink():
                    real = os.path.realpath(each.path)
                    if real in linked:
                        continue
                    linked.add(real)
                waiting.append(each.path)


_BESIDE = ("cuda_cccl", "curand")  # packages for CUDA 12 whose headers kernels include


def _major(folder: str) -> int:
    """Return the major version of the cuda.h in a folder, 0 if there is none."""
    try:
        with open(os.path.join(folder, "cuda.h"), encoding="utf-8", errors="replace") as file:
            for line in file:
                if line.startswith("#define CUDA_VERSION "):
                    return int(line.split()[2]) // 1000
    except (OSError, ValueError, IndexError):
        pass
    return 0


def refuse_planted(path: str, *, private: bool = False) -> None:
    """Refuse a library or program that every user of this machine could have put in its place.

    That is a file or a folder above it that everybody may write to. In a folder with the sticky bit, such as /tmp, the
    owner counts: root or this process's user. Elsewhere the owner does not count, since software of a computing centre
    belongs to an account of its own: who names a folder in a path trusts its owner. The folders with the modules of
    this Python are as trusted as the Python that runs, unless `private`.

    path     absolute; a bare soname, which the loader finds, and a path that does not exist are not checked
    private  whether the owner counts everywhere, and a group may not write, either
    raises   PermissionError with the remedy
    """
    if sys.platform == "win32" or not os.path.isabs(path) or not os.path.exists(path):
        return
    if private:
        others, who, option, ours = stat.S_IWGRP | stat.S_IWOTH, "other users", "go-w", []
    else:
        others, who, option, ours = stat.S_IWOTH, "every user", "o-w", _folders_of_python()
    for below in _followed(path):
        while not below.startswith(tuple(ours)):
            mode, owner, above = os.stat(below).st_mode, os.lstat(below).st_uid, os.path.dirname(below)
            if mode & others and not (mode & stat.S_ISVTX and stat.S_ISDIR(mode)):
                raise PermissionError(f"{below} can be written by {who}, so {path} is not used: chmod {option} {below}")
            if private and owner not in (0, os.geteuid()):
                raise PermissionError(f"{below} belongs to user {owner}, so {path} is not used: give another place")
            if above == below:
                break
            if os.stat(above).st_mode & stat.S_IWOTH and owner not in (0, os.geteuid()):
                raise PermissionError(
                    f"{below} was put into {above}, where every user can write, by user {owner}, so {path} is not "
                    "used: install it elsewhere"
                )
            below = above


def refuse_toolkit(path: str) -> None:
    """Refuse an nvcc if every user could have put it, or a program or header of its toolkit, in its place.

    raises  PermissionError with the remedy
    """
    refuse_planted(path)
    folder = os.path.dirname(os.path.realpath(path))
    if os.path.exists(os.path.join(folder, "nvcc.profile")):  # the toolkit is around it
        for name in ("bin", "nvvm", "include", "targets"):
            part = os.path.join(os.path.dirname(folder), name)
            if os.path.isdir(part):
                refuse_planted(part)
                _refuse_below(part)


def _folders_of_python() -> list[str]:
    """Return the folders with the modules of this Python and with what is installed for it."""
    name = f"lib{os.sep}python{sys.version_info[0]}.{sys.version_info[1]}"
    prefixes = {found for each in (sys.prefix, sys.base_prefix) for found in (each, os.path.realpath(each))}
    return [os.path.join(prefix, name + flag, "") for prefix in prefixes for flag in ("", "t")]  # "t": without the GIL


def _followed(path: str) -> Iterator[str]:
    """Yield what an absolute path becomes, link by link: each link can be exchanged, and so can what it names.

    A folder that ".." leaves is yielded, too: if a link is put in its place, ".." leads elsewhere.
    """
    here, rest, links = os.sep, path.split(os.sep)[::-1], 0
    while rest:
        name = rest.pop()
        if name == os.pardir:
            yield here
            here = os.path.dirname(here)
        elif name not in ("", os.curdir):
            here = os.path.join(here, name)
            if os.path.islink(here):
                links += 1
                if links > 40:  # as Linux
                    raise PermissionError(f"{path} has more than 40 links, so it is not used")
                yield os.path.join(here, *rest[::-1])
                target = os.readlink(here)
                rest += target.split(os.sep)[::-1]
                if os.path.isabs(target):
                    here = os.sep
                else:
                    here = os.path.dirname(here)
    yield here


def mapped_file(name: str = "libcuda.so") -> str:
    """Return the file that this process has mapped for a library, or "" if there is none or it is unknown.

    The loader may have been given a bare soname: only the memory map of the process shows which file it chose.
    """
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
            for line in maps:
                path = line.rstrip("\n").partition("/")
                if path[1] and os.path.basename(path[2]).startswith(name):
                    return "/" + path[2]
    except OSError:
        pass
    return ""


def hidden_gpus(*, real: bool = True) -> list[str]:
    """Return the reasons why a driver may see no GPU of this machine, each with its remedy; [] if none was found.

    real  whether it is NVIDIA's driver, which needs a kernel module and device nodes
    """
    found = []
    visible, given = os.environ.get("CUDA_VISIBLE_DEVICES"), os.environ.get("NVIDIA_VISIBLE_DEVICES")
    if visible is not None and not visible.split(",")[0].strip().lstrip("+")[:1].isalnum():  # a UUID has hyphens
        found.append(f"CUDA_VISIBLE_DEVICES is {visible!r}, which hides every GPU: unset it, or name one")
    elif visible is not None:
        found.append(f"CUDA_VISIBLE_DEVICES is {visible!r}: no GPU of this machine has such a number or name")
    in_container = "in a container, start it with the GPU (docker run --gpus all)"
    if real and given in ("", "void", "none"):
        found.append(f"NVIDIA_VISIBLE_DEVICES is {given!r}: {in_container}")
    if real and sys.platform.startswith("linux"):
        if _under_wsl():
            if not os.path.exists("/dev/dxg"):
                found.append("WSL shows no GPU (there is no /dev/dxg): update WSL and the driver of Windows")
        elif not os.path.exists("/proc/driver/nvidia/version"):
            found.append(
                "the kernel module of NVIDIA's driver is not loaded (there is no /proc/driver/nvidia/version): load it "
                f"with modprobe nvidia; {in_container}"
            )
        elif not any(name.startswith("nvidia") and name[6:].isdigit() for name in os.listdir("/dev")):
            found.append(f"there is no /dev/nvidia0: run nvidia-modprobe; {in_container}")
    return found


def needs_glibc() -> str:
    """Return what keeps this Python from loading NVIDIA's libraries, with the remedy, or "".

    They are made for glibc: a Python for another C library, such as Alpine's for musl, finds them and cannot load them.
    """
    if not sys.platform.startswith("linux"):
        return ""
    try:
        if os.confstr("CS_GNU_LIBC_VERSION"):
            return ""
    except (OSError, ValueError):  # what musl does not know
        pass
    return "NVIDIA's libraries need glibc, and this Python uses another C library, such as musl: use a Python for glibc"


def load(path: str) -> tuple[str, ctypes.CDLL]:
    """Load a library by its path or bare soname, and return its path, too; nothing planted is loaded.

    A bare soname is looked up here, along the loader's own path, because the loader itself would also take a library
    of the current folder, or one that every user could have planted.
    raises  OSError  it is not there, cannot be loaded, or is refused by refuse_planted()
    """
    if sys.platform == "win32" or os.path.isabs(path):
        refuse_planted(path)
        return path, ctypes.CDLL(path, mode=ctypes.RTLD_LOCAL)
    try:
        return path, ctypes.CDLL(path, mode=ctypes.RTLD_LOCAL | os.RTLD_NOLOAD)  # this process has loaded it already
    except OSError:
        said = []
    for file in dict.fromkeys(os.path.join(folder, path) for folder in _loader_folders()):
        if os.path.exists(file):
            try:
                refuse_planted(file)
                return file, ctypes.CDLL(file, mode=ctypes.RTLD_LOCAL)
            except OSError as error:
                said.append(str(error))
    raise OSError("; ".join(said) or f"{path}: no folder in which the system's loader searches has such a file")


def preload(soname: str) -> None:
    """Load what another library will ask the system's loader for by its bare name, if it is there: see load().

    If it is not there, a folder of the loader in which somebody could put one is refused, whatever is in it now: the
    other library may ask later, when another folder is the current one.

    raises  PermissionError  the loader could find one that load() does not take
    """
    if sys.platform == "win32":
        return
    try:
        load(soname)
        return
    except OSError:
        pass  # most often there is none
    for folder in _configured_folders():
        if not list(_safe([folder])):
            raise PermissionError(
                f"it asks the system's loader for {soname}; without one that may be loaded, the loader looks into the "
                f"current folder or a relative one, too: take {folder!r} out of LD_LIBRARY_PATH, and start Python again"
            )
        here = folder
        while not os.path.exists(here):  # somebody could make it
            here = os.path.dirname(here)
        for place in (here, *_searched_with(folder)):
            refuse_planted(place)
            _refuse_open(place)
            refuse_planted(os.path.join(place, soname))


# Folders in a folder of the loader, and in each other, in which loaders of glibc look first, for a kind of processor
_KINDS = (
    *"tls glibc-hwcaps x86-64-v2 x86-64-v3 x86-64-v4 x86_64 haswell xeon_phi avx512_1".split(),
    *"aarch64 atomics power9 power10".split(),
)


def _searched_with(folder: str, deepest: int = 4) -> Iterator[str]:
    """Yield a folder of the loader, and those in it that the loader searches with it; none if it does not exist."""
    if os.path.isdir(folder):
        yield folder
        for kind in _KINDS if deepest else ():
            yield from _searched_with(os.path.join(folder, kind), deepest - 1)


class SharedLibrary:
    """A libcuda of this machine, loaded by the system's loader with local symbols."""

    def __init__(self, path: str) -> None:
        if sys.platform == "win32":
            self.path = path
            self._library = ctypes.WinDLL(path, winmode=0x00000800)  # LOAD_LIBRARY_SEARCH_SYSTEM32
        else:
            self.path, self._library = load(path)

    def address(self, symbol: str) -> int | None:
        """Return the address of an exported symbol, or None."""
        try:
            return ctypes.cast(self._library[symbol], ctypes.c_void_p).value
        except AttributeError:
            return None
