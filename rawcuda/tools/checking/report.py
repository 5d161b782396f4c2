"""The report of `check`: what identifies the driver, its mode, the system and the devices, and what the rows found.

What it is   `report`, which returns what the JSON file contains. A fact that cannot be found is its error.
What not     nothing in it names the user or the machine, except what is in the paths of libcuda and in the values of
             the environment variables that change what CUDA does.
Read next    rows.py
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
import sys

from ... import __version__, driver, locate
from ...errors import RawCudaError
from ...gpu.devices.device import Device, devices
from ...headers import cuda_h
from ..commands.console import PACKAGE, VARIABLES, is_emulator
from . import rows

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

__all__ = ["report", "untested_system"]

_LAZY = 2  # CU_MODULE_LAZY_LOADING


def report(loaded: driver.Driver, told: Sequence[rows.Outcome] = (), seed: int | None = None) -> dict[str, Any]:
    """Return what the JSON file contains."""
    answers: dict[str, int] = {}
    for one in told:
        answers.update(one.answers)
    file = _file()
    return {
        "package": PACKAGE,
        "version": __version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "untested": untested_system(on_gpu=not is_emulator(loaded)),
        "driver": "emulator" if is_emulator(loaded) else "nvidia",
        "cuda": loaded.version,
        "build": _tried(lambda: _build(file)),
        "file": file,
        "loading": _tried(lambda: _loading(loaded)),
        "variables": {name: os.environ[name] for name in sorted(VARIABLES) if name in os.environ},
        "devices": [_tried(lambda device=device: _device(device)) for device in devices()],  # type: ignore[misc]
        "codes": _tried(lambda: _codes(loaded)),
        "seed": seed,
        "failed": sum(one.state == rows.FAILED for one in told),
        "answers": answers,
        "rows": [one._asdict() for one in told],
    }


def untested_system(*, on_gpu: bool) -> str:
    """Return the name of this system if nobody has reported a run on one like it, or "".

    on_gpu  whether the driver is NVIDIA's: so far, the only reports are from the emulator on Linux on x86-64
    """
    name, machine = platform.system() or sys.platform, platform.machine()
    name = {"Darwin": "macOS"}.get(name, name)
    if name == "Linux":
        if _is_wsl():
            name = "Linux inside Windows (WSL)"
        elif platform.libc_ver()[0] != "glibc":
            name = "Linux without glibc"
    if (name, machine) == ("Linux", "x86_64") and not on_gpu:
        return ""
    return f"{name} on {machine}" + (" with a GPU" if on_gpu else "")


def _is_wsl() -> bool:
    return "microsoft" in platform.release().lower()


def _tried(find: Callable[[], Any]) -> Any:
    """Return a fact, or the error that finding it raised."""
    try:
        return find()
    except (RawCudaError, OSError) as error:
        return {"error": str(error)}


def _file() -> str:
    """Return the path of libcuda without links, or "" if it is not known."""
    mapped = locate.mapped_file()
    if mapped:
        return os.path.realpath(mapped)
    return ""  # (realpath("") is the current folder)


def _build(text: str) -> str:
    """Return the version of NVIDIA's driver, as nvidia-smi shows it, or "" if neither a file nor its path tells it.

    text  the path of libcuda, which has the version in its name on most systems
    """
    if sys.platform.startswith("linux") and os.path.exists("/proc/driver/nvidia/version"):
        with open("/proc/driver/nvidia/version", encoding="ascii", errors="replace") as file:
            text = file.readline()
    found = re.search(r"\d{3}\.\d+(\.\d+)?", text)
    if found:
        return found[0]
    return ""


def _loading(loaded: driver.Driver) -> str:
    """Return whether kernels are loaded when they are first used ("lazy") or with their module ("eager")."""
    mode = ctypes.c_uint()
    if not loaded.has("cuModuleGetLoadingMode"):  # before CUDA 11.7
        return "eager"
    loaded.cuModuleGetLoadingMode(ctypes.byref(mode))
    if mode.value == _LAZY:
        return "lazy"
    return "eager"


def _device(device: Device) -> dict[str, Any]:
    """Return the facts about a device."""
    major, minor = device.compute_capability
    return {
        "name": device.name,
        "compute_capability": f"{major}.{minor}",
        "memory": device.total_memory,
        "modes": _modes(device),
        "attributes": _tried(lambda: dict(device.attributes)),
        "limits": _tried(lambda: dict(device.limits)),
        "priorities": _tried(lambda: list(device.stream_priorities)),
    }


def _modes(device: Device) -> list[str]:
    """Return what changes how a driver behaves: "MIG", "WSL", "WDDM", "TCC", "integrated"; most devices have none."""
    found = {
        "MIG": device.uuid.startswith("MIG-"),
        "WSL": _is_wsl(),
        "WDDM": sys.platform == "win32" and not device.attribute("TCC_DRIVER"),
        "TCC": sys.platform == "win32" and bool(device.attribute("TCC_DRIVER")),
        "integrated": bool(device.attribute("INTEGRATED")),
    }
    return [name for name, is_so in found.items() if is_so]


def _codes(loaded: driver.Driver) -> dict[str, list[str]]:
    """Return the driver's names and texts of the result codes that it knows."""
    found = {str(code): list(loaded.describe(code)) for code in sorted(cuda_h.results())}
    return {code: known for code, known in found.items() if known[1] != "no text"}
