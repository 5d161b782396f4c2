"""`doctor`: what this machine has, which drivers were tried, and whether a kernel really runs.

What it is   facts in sections, as many as can be found: a failure in one does not stop the others.
What not     it repairs nothing, and sends no data.
Read next    locate.py, which knows the places
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import subprocess
import sys
import textwrap
import time

from ... import __version__, driver, locate
from ...errors import CudaError, DriverNotFound, RawCudaError
from ...gpu.device import Device, devices
from ...headers import cuda_h
from . import kernels
from .console import (
    PACKAGE,
    PROGRAM,
    VARIABLE,
    NoGpu,
    Parser,
    add_driver,
    chosen_by,
    connect,
    is_emulator,
)

__all__ = ["main"]

_WIDTH = 19
FORMS = ("_ptsz", "_ptds")  # of functions, for the per-thread default stream
_EMULATOR = f"{PACKAGE.rpartition('.')[2].upper()}_EMULATOR"
# Environment variables that change what CUDA does. Their values are shown.
_VARIABLES = (
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
    "CUDA_HOME",
    "CUDA_PATH",
    "CUDA_DISABLE_PTX_JIT",
    "CUDA_FORCE_PTX_JIT",
    "CUDA_CACHE_DISABLE",
    "CUDA_LAUNCH_BLOCKING",
    "CUDA_MODULE_LOADING",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "NVIDIA_VISIBLE_DEVICES",
    VARIABLE,
    _EMULATOR,
)


def main(arguments: list[str]) -> int:
    """Print the facts; return 0 if a kernel ran on the requested driver."""
    parser = Parser(
        "doctor",
        "Tell which driver was tried, why, and what it said; the devices; the tools; what the emulator "
        "lacks. A tiny kernel is run, and the exit status is 0 when that worked.",
    )
    add_driver(parser, "without it the GPU's")
    options = parser.read(arguments)
    _platform()
    loaded, why_not = _driver(options.driver)
    ran = False
    if loaded is not None:
        try:
            for device in devices():
                with device:
                    ran = _device(device) or ran
        except RawCudaError as error:
            why_not = str(error)
    _tools()
    _gaps()
    print()
    if ran and loaded is not None:
        print(f"A kernel ran {'on the emulator' if is_emulator(loaded) else 'on the GPU'}: everything works.")
        return 0
    print(f"No kernel ran{f': {why_not}' if why_not else ''}.")
    if loaded is None or not is_emulator(loaded):
        print(f"Without a GPU, kernels run on the emulator: {PROGRAM} demo --driver emulator")
    return 1


def _section(title: str) -> None:
    print(f"\n{title}")


def _fact(what: str, text: object) -> None:
    """Print a fact: `what` in the first column, all lines of the text in the second."""
    lines = str(text).splitlines() or [""]
    print(f"  {what:{_WIDTH}}{lines[0]}".rstrip())
    for line in lines[1:]:
        print(" " * (_WIDTH + 2) + line)


# -- the platform


def _platform() -> None:
    print(f"{PACKAGE} {__version__}")
    _fact("from", os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    _fact(
        "Python",
        f"{platform.python_implementation()} {platform.python_version()}, {8 * struct.calcsize('P')} bits, "
        f"{sys.executable or 'embedded'}",
    )
    _fact("system", platform.platform())
    for name in _VARIABLES:
        if name in os.environ:
            ignored = " (ignored: -E or -I)" if name in (VARIABLE, _EMULATOR) and sys.flags.ignore_environment else ""
            _fact(name, (os.environ[name] or "(empty)") + ignored)


# -- the driver


def _driver(option: str | None) -> tuple[driver.Driver | None, str]:
    """Load the driver; return it, or None and the reason."""
    asked = chosen_by(option)
    _section("driver")
    _fact("chosen by", asked or f"nothing, so the GPU's (--driver or {VARIABLE} choose another)")
    if asked in ("", "--driver nvidia", f"{VARIABLE}=nvidia"):
        _tries()
    _fact("kernel module", _kernel_module())
    try:
        loaded = connect(option)
    except NoGpu as missing:
        if isinstance(missing.__cause__, CudaError):  # it was loaded, and cuInit failed
            _library(driver.Driver(driver.chosen_library()))
            _fact("cuInit", _wrapped(str(missing.__cause__)))
        else:
            _fact("loaded", f"none: {missing if isinstance(missing.__cause__, DriverNotFound) else missing.__cause__}")
        return None, str(missing)
    _library(loaded)
    return loaded, ""


def _library(loaded: driver.Driver) -> None:
    """Print what a driver tells before it is initialized."""
    _fact("loaded", repr(loaded).strip("<>"))
    if not is_emulator(loaded):
        _fact("mapped file", locate.mapped_file() or "unknown: this system does not tell")
    version = f"{loaded.version // 1000}.{loaded.version % 1000 // 10}"
    _fact("CUDA version", version)
    known = [each for each in cuda_h.prototypes().values() if not each.old and not each.name.endswith(FORMS)]
    newer = [each.name for each in known if each.since[0] * 1000 + each.since[1] * 10 > loaded.version]
    missing = [each.name for each in known if each.name not in newer and not loaded.has(each.name)]
    text = f"{len(known) - len(newer) - len(missing)} of the {len(known)} known here"
    if newer:
        text += f"; {len(newer)} came after CUDA {version}"
    if missing:
        text += f"; it lacks {len(missing)}: {', '.join(missing[:6])}{', ...' if len(missing) > 6 else ''}"
    _fact("entry points", _wrapped(text))


def _tries() -> None:
    """Try each place as driver.py does, until one loads."""
    for number, (path, why) in enumerate(locate.libcuda()):
        try:
            driver.SharedLibrary(path)
            said = "loads"
        except OSError as error:
            said = str(error)
        _fact("tried" if not number else "", f"{path}  ({why})\n  {said}")
        if said == "loads":
            return


def _kernel_module() -> str:
    if not sys.platform.startswith("linux"):
        return "not asked on this system"
    try:
        with open("/proc/driver/nvidia/version", encoding="ascii", errors="replace") as file:
            return file.readline().strip().partition(":")[2].strip()
    except OSError as error:
        there = "; /dev/nvidiactl is there" if os.path.exists("/dev/nvidiactl") else "; no /dev/nvidiactl either"
        return f"{error.strerror}: /proc/driver/nvidia/version" + there


# -- a device


def _device(device: Device) -> bool:
    """Print a device's facts, run a kernel on it, and return whether that worked."""
    _section(f"device {device.ordinal}")
    major, minor = device.compute_capability
    _fact("name", device.name)
    _fact("uuid", device.uuid)
    _fact("capability", f"{major}.{minor}, {device.attribute('MULTIPROCESSOR_COUNT')} multiprocessors")
    _fact(
        "pci",
        f"{device.attribute('PCI_DOMAIN_ID'):04x}:{device.attribute('PCI_BUS_ID'):02x}:"
        f"{device.attribute('PCI_DEVICE_ID'):02x}",
    )
    _fact(
        "can",
        ", ".join(
            text
            for name, text in (
                ("MANAGED_MEMORY", "managed memory"),
                ("MEMORY_POOLS_SUPPORTED", "stream-ordered memory"),
                ("COOPERATIVE_LAUNCH", "cooperative launches"),
                ("PAGEABLE_MEMORY_ACCESS", "reaching all host memory"),
                ("CONCURRENT_KERNELS", "concurrent kernels"),
            )
            if device.attribute(name)
        )
        or "none of what was asked",
    )
    _fact("primary context", _context_state(device))
    try:
        total, free = device.total_memory, device.free_memory
        _fact("memory", f"{total / 2**30:.1f} GiB, {free / 2**30:.1f} GiB of it free")
        _fact("kernel", _run_kernel(device))
        return True
    except (RawCudaError, ValueError, AssertionError) as error:
        _fact("kernel", f"FAILED: {error}")
        return False


def _context_state(device: Device) -> str:
    """Return whether the primary context is active, and which context is current in this thread."""
    flags, active, now = ctypes.c_uint(), ctypes.c_int(), cuda_h.CUcontext()
    loaded = driver.current()
    try:
        loaded.cuDevicePrimaryCtxGetState(device.handle, ctypes.byref(flags), ctypes.byref(active))
        loaded.cuCtxGetCurrent(ctypes.byref(now))
    except RawCudaError as error:
        return str(error)
    return (
        f"{'active' if active.value else 'inactive'}, flags {flags.value:#x}; "
        f"current in this thread: {f'{now.value:#x}' if now.value else 'none'}"
    )


def _run_kernel(device: Device) -> str:
    """Load and run the smallest kernel, and return the outcome as text."""
    begin = time.perf_counter()
    with device.load(kernels.NOTHING) as module, device.allocate(4) as memory:
        loading = time.perf_counter()
        module["store_42"].launch(memory, grid=1, block=1)
        result = bytearray(4)
        memory.copy_to(result)
        end = time.perf_counter()
    if int.from_bytes(result, sys.byteorder) != 42:
        raise AssertionError(f"the kernel should have stored 42, and {result.hex()} was read back")
    return (
        f"ran: 42 was stored and read back (context and code {(loading - begin) * 1000:.1f} ms, "
        f"run {(end - loading) * 1000:.2f} ms)"
    )


# -- other tools


def _tools() -> None:
    _section("compilers (for CUDA C: nvrtc or nvcc; the driver compiles PTX) and linkers (or the driver)")
    for what, places, version in (
        ("nvrtc", locate.nvrtc(), _nvrtc_version),
        ("nvjitlink", locate.nvjitlink(), _nvjitlink_version),
        ("nvcc", locate.nvcc(), _release),
        ("ptxas", locate.ptxas(), _release),
    ):
        for number, (path, why) in enumerate(places):
            _fact(what if not number else "", f"{path}  {version(path)}  ({why})")
        if not places:
            _fact(what, "not found")


def _nvjitlink_version(path: str) -> str:
    return _nvrtc_version(path, "nvJitLinkVersion")


def _nvrtc_version(path: str, function: str = "nvrtcVersion") -> str:
    major, minor = ctypes.c_int(), ctypes.c_int()
    try:
        library = ctypes.CDLL(path)
        library[function](ctypes.byref(major), ctypes.byref(minor))
    except (OSError, AttributeError) as error:
        return str(error)
    return f"{major.value}.{minor.value}"


def _release(path: str) -> str:
    try:
        done = subprocess.run(
            [path, "--version"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    lines = done.stdout.decode("utf-8", "replace").split("release ")
    return lines[1].split(",")[0] if len(lines) > 1 else "of unknown version"


def _gaps() -> None:
    from ...emulator import GAPS

    _section("what the emulator does not do")
    for what, why in GAPS:
        print(textwrap.fill(what, 100, initial_indent="  ", subsequent_indent="    "))
        print(textwrap.fill(why, 100, initial_indent="      ", subsequent_indent="      "))


def _wrapped(text: str) -> str:
    return "\n".join(part for line in text.splitlines() for part in textwrap.wrap(line, 78))
