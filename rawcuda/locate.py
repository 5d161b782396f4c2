"""Where to look for libcuda, nvrtc and ptxas, and why each place is tried.

What it is   lists of (path, why). A bare soname is left to the system loader, which has its cache and LD_LIBRARY_PATH.
What not     it loads nothing, never looks into the current directory (a planted library would run with our rights), and
             does not use ctypes.util.find_library (which starts compilers).
Source       CUDA on WSL User Guide; Jetson Linux Developer Guide; Microsoft, "Dynamic-link library search order"
Read next    driver.py
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    Place = tuple[str, str]

__all__ = ["libcuda", "nvrtc", "ptxas", "mapped_file"]

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


def _toolkits() -> Iterator[Place]:
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        folder = os.environ.get(variable, "")
        if os.path.isabs(folder):
            yield folder, f"the environment's {variable}"
    if sys.platform != "win32":
        yield "/usr/local/cuda", "the toolkit's default folder"
        try:
            versions = sorted((name for name in os.listdir("/usr/local") if name.startswith("cuda-")), reverse=True)
        except OSError:
            versions = []
        for name in versions:
            yield f"/usr/local/{name}", "a toolkit's versioned folder"


def _packages() -> Iterator[Place]:
    for folder in sys.path:
        nvidia = os.path.join(folder, "nvidia")
        if os.path.isabs(folder):
            try:
                names = sorted(os.listdir(nvidia), reverse=True)
            except OSError:  # missing, not a folder (a zip file), or not readable
                continue
            for name in names:
                yield os.path.join(nvidia, name), f"the Python package nvidia/{name}"


def _found(names: tuple[str, ...], folders: tuple[str, ...]) -> list[Place]:
    """List the files with these names (a prefix if it ends in '*') in these folders of every toolkit and package."""
    found: list[Place] = []
    for root, why in (*_toolkits(), *_packages()):
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
        return [
            place for place in _found(("nvrtc64_*",), ("bin", "bin/x64", "bin/x86_64")) if place[0].endswith(".dll")
        ]
    return _found(("libnvrtc.so*",), ("lib64", "lib", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib"))


def ptxas() -> list[Place]:
    """Return the ptxas programs that exist, as a list of (path, why it was tried)."""
    name = "ptxas.exe" if sys.platform == "win32" else "ptxas"
    found = _found((name,), ("bin",))
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        path = os.path.join(folder, name)
        if os.path.isabs(folder) and os.access(path, os.X_OK) and all(path != old for old, _ in found):
            found.append((path, "on the PATH"))
    return found


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
