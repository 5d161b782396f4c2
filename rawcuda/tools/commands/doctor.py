"""`doctor`: what this machine has, which drivers were tried, and whether a kernel really runs.

What it is   a verdict, then facts in sections, as many as can be found: a failure in one does not stop the others.
What not     it repairs nothing, and sends no data.
Read next    locate.py, which lists the places
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import struct
import subprocess
import sys
import time
from functools import partial

from ... import __version__, driver, locate
from ...compiler.nvjitlink import NvJitLink
from ...compiler.nvrtc import Nvrtc
from ...errors import CudaError, DriverNotFound, RawCudaError
from ...gpu.devices.device import Device, devices
from ...headers import cuda_h
from .. import terminal
from . import kernels
from .console import (
    EMULATOR,
    PACKAGE,
    PROGRAM,
    VARIABLE,
    VARIABLES,
    NoGpu,
    Parser,
    add_driver,
    chosen_by,
    connect,
    is_emulator,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["main", "make_parser"]

_WIDTH = 19
FORMS = ("_ptsz", "_ptds")  # of functions, for the per-thread default stream


def make_parser() -> Parser:
    """Return the parser of the command line."""
    parser = Parser(
        "doctor",
        "Tell whether a kernel runs, which driver was tried and what it said, the devices, and the tools. The exit "
        "status is 0 if a tiny kernel ran on each device.",
    )
    parser.add_argument("--limits", action="store_true", help="list what the emulator does not do, and why")
    parser.add_argument("--json", action="store_true", help="print the facts as JSON, for a bug report")
    add_driver(parser, "without it the GPU's")
    return parser


def main(arguments: list[str]) -> int:
    """Print the verdict and the facts; return 0 if a kernel ran on each device of the requested driver."""
    options = make_parser().read(arguments)
    facts = _Facts()
    _platform(facts)
    loaded, why_not = _driver(facts, options.driver)
    ran: list[int] = []  # the numbers of the devices
    failed: list[int] = []
    if loaded is not None:
        try:
            for device in devices():
                (ran if _device(facts, device) else failed).append(device.ordinal)
        except RawCudaError as error:
            why_not = str(error)
    _tools(facts)
    if options.limits:
        from ...emulator import GAPS

        facts.section("what the emulator does not do")
        for what, why in GAPS:
            facts.add(what, why)
    where = "the emulator" if loaded is not None and is_emulator(loaded) else "the GPU"
    if ran and failed:
        verdict = f"A kernel ran on {where}, but not on device {', '.join(map(str, failed))}."
    elif ran:
        verdict = f"A kernel ran on {where}: everything works."
    else:
        verdict = f"No kernel ran{f': {why_not}' if why_not else ''}."
    works = bool(ran) and not failed
    facts.show(verdict, works, options)
    if not ran and not options.json and (loaded is None or not is_emulator(loaded)):
        terminal.say(
            "\n" + terminal.folded(f"Without a GPU, kernels run on the emulator: {PROGRAM} demo --driver emulator")
        )
    return int(not works)


class _Facts:
    """Facts in sections, in the order in which they were found."""

    def __init__(self) -> None:
        self._sections: list[tuple[str, list[tuple[str, str]]]] = []

    def section(self, title: str) -> None:
        """Begin a section."""
        self._sections.append((title, []))

    def add(self, what: str, text: object) -> None:
        """Add a fact to the last section; its text may have several lines."""
        self._sections[-1][1].append((what, str(text)))

    def show(self, verdict: str, ran: bool, options: Any) -> None:
        """Print the verdict, then the facts; or everything as JSON."""
        if options.json:
            terminal.say(json.dumps({"verdict": verdict, "ran": ran, "facts": dict(self._sections)}, indent=1))
            return
        terminal.say((terminal.folded(verdict), "good" if ran else "bad"))
        for title, facts in self._sections:
            terminal.say("\n", (terminal.folded(title), "strong"))
            for what, text in facts:
                self._show(what, text)
        if not options.limits:
            terminal.say("\n" + terminal.folded("doctor --limits lists what the emulator does not do."))

    def _show(self, what: str, text: str) -> None:
        """Print a fact: what it is in the first column, its text in the second; on a narrow terminal, below."""
        if terminal.narrow() or len(what) > _WIDTH - 1:
            terminal.say(terminal.folded(what, "  "))
            if text:
                terminal.say(terminal.folded(text, "      "))
        else:
            terminal.say(terminal.folded(text, " " * (_WIDTH + 2), f"  {what:{_WIDTH}}").rstrip())


# -- the platform


def _platform(facts: _Facts) -> None:
    facts.section(f"{PACKAGE} {__version__}")
    facts.add("from", os.path.abspath(_platform.__code__.co_filename + "/../../.."))
    facts.add(
        "Python",
        f"{platform.python_implementation()} {platform.python_version()}, {8 * struct.calcsize('P')} bits, "
        f"{sys.executable or 'embedded'}",
    )
    facts.add("system", platform.platform())
    for name in VARIABLES:
        if name in os.environ:
            ignored = ""
            if name in (VARIABLE, EMULATOR) and sys.flags.ignore_environment:
                ignored = " (ignored: -E or -I)"
            facts.add(name, (os.environ[name] or "(empty)") + ignored)


# -- the driver


def _driver(facts: _Facts, option: str | None) -> tuple[driver.Driver | None, str]:
    """Load the driver; return it, or None and the reason."""
    asked = chosen_by(option)
    facts.section("driver")
    facts.add("chosen by", asked or f"default: the GPU's (--driver or {VARIABLE} chooses another)")
    if asked in ("", "--driver nvidia", f"{VARIABLE}=nvidia"):
        _tries(facts)
    facts.add("kernel module", _kernel_module())
    try:
        loaded = connect(option)
    except NoGpu as missing:
        if isinstance(missing.__cause__, CudaError):  # it was loaded, and cuInit failed
            _library(facts, driver.Driver(driver.chosen_library()))
            facts.add("cuInit", str(missing.__cause__))
        else:
            facts.add(
                "loaded", f"none: {missing if isinstance(missing.__cause__, DriverNotFound) else missing.__cause__}"
            )
        return None, str(missing)
    _library(facts, loaded)
    return loaded, ""


def _library(facts: _Facts, loaded: driver.Driver) -> None:
    """Print what a driver tells before it is initialized."""
    facts.add("loaded", repr(loaded).strip("<>"))
    if not is_emulator(loaded):
        facts.add("mapped file", locate.mapped_file() or "unknown: this system does not tell")
    version = driver.dotted(loaded.version)
    facts.add("CUDA version", version)
    known = [each for each in cuda_h.prototypes().values() if not each.old and not each.name.endswith(FORMS)]
    newer = [each.name for each in known if each.since[0] * 1000 + each.since[1] * 10 > loaded.version]
    missing = [each.name for each in known if each.name not in newer and not loaded.has(each.name)]
    text = f"{len(known) - len(newer) - len(missing)} of the {len(known)} known here"
    if newer:
        text += f"; {len(newer)} came after CUDA {version}"
    if missing:
        text += f"; it lacks {len(missing)}: {', '.join(missing[:6])}{', ...' if len(missing) > 6 else ''}"
    facts.add("entry points", text)


def _tries(facts: _Facts) -> None:
    """Try each place as driver.py does, until one loads."""
    for number, (path, why) in enumerate(locate.libcuda()):
        try:
            driver.SharedLibrary(path)
            said = "loads"
        except OSError as error:
            said = str(error)
        facts.add("tried" if not number else "", f"{path}  ({why})\n  {said}")
        if said == "loads":
            return


def _kernel_module() -> str:
    if not sys.platform.startswith("linux"):
        return "not asked on this system"
    try:
        with open("/proc/driver/nvidia/version", encoding="ascii", errors="replace") as file:
            return file.readline().strip().partition(":")[2].strip()
    except OSError as error:
        there = "; no /dev/nvidiactl either"
        if os.path.exists("/dev/nvidiactl"):
            there = "; /dev/nvidiactl is there"
        return f"{error.strerror}: /proc/driver/nvidia/version" + there


# -- a device


def _device(facts: _Facts, device: Device) -> bool:
    """Print a device's facts, run a kernel on it, and return whether that worked."""
    facts.section(f"device {device.ordinal}")
    try:
        with device:
            _ask_device(facts, device)
            facts.add("kernel", _run_kernel(device))
        return True
    except (RawCudaError, ValueError, AssertionError) as error:
        facts.add("kernel", f"FAILED: {error}")
        return False


def _ask_device(facts: _Facts, device: Device) -> None:
    major, minor = device.compute_capability
    facts.add("name", device.name)
    facts.add("uuid", device.uuid)
    facts.add("capability", f"{major}.{minor}, {device.attribute('MULTIPROCESSOR_COUNT')} multiprocessors")
    facts.add(
        "pci",
        f"{device.attribute('PCI_DOMAIN_ID'):04x}:{device.attribute('PCI_BUS_ID'):02x}:"
        f"{device.attribute('PCI_DEVICE_ID'):02x}",
    )
    facts.add(
        "can",
        ", ".join(
            text
            for name, text in (
                ("MANAGED_MEMORY", "managed memory"),
                ("MEMORY_POOLS_SUPPORTED", "stream-ordered memory"),
                ("COOPERATIVE_LAUNCH", "cooperative launches"),
                ("PAGEABLE_MEMORY_ACCESS", "access to all host memory"),
                ("CONCURRENT_KERNELS", "concurrent kernels"),
            )
            if device.attribute(name)
        )
        or "none of those that doctor looks for",
    )
    facts.add("primary context", _context_state(device))
    total, free = device.total_memory, device.free_memory
    facts.add("memory", f"{total / 2**30:.1f} GiB, {free / 2**30:.1f} GiB of it free")


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


def _tools(facts: _Facts) -> None:
    facts.section("compilers (for CUDA C: nvrtc or nvcc; the driver compiles PTX) and linkers (or the driver)")
    for what, places, version in (
        ("nvrtc", locate.nvrtc(), partial(_version_of, Nvrtc)),
        ("nvjitlink", locate.nvjitlink(), partial(_version_of, NvJitLink)),
        ("nvcc", locate.nvcc(), _release),
        ("ptxas", locate.ptxas(), _release),
    ):
        for number, (path, why) in enumerate(places):
            facts.add(what if not number else "", f"{path}  {version(path)}  ({why})")
        if not places:
            facts.add(what, "not found")


def _version_of(kind: type[Nvrtc | NvJitLink], path: str) -> str:
    try:
        locate.refuse_planted(path)
        major, minor = kind(path).version
    except OSError as error:
        return str(error)
    return f"{major}.{minor}"


def _release(path: str) -> str:
    try:
        locate.refuse_toolkit(path)
        done = subprocess.run(
            [path, "--version"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=10,
            check=False,
            env=locate.environment(),
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    lines = done.stdout.decode("utf-8", "replace").split("release ")
    if len(lines) > 1:
        return lines[1].split(",")[0]
    return "of unknown version"
