"""The two imports that point upwards, and why.

What it is   `gpu`: what views and copies need where memory is on a device; loading it earlier would load a driver's files for host
             memory. `facade`: the emulator and the tools, which only the façade knows.
What not     no other room imports from a floor above its own; tests/null/test_layers.py checks that.
Read next    driver.py, gpu/cuda_side.py
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

__all__ = ["facade", "gpu", "in_use"]

in_use: list[bool] = []  # not empty once a driver is in use; driver.py sees to it


def gpu() -> ModuleType:
    """Return gpu/cuda_side.py: everything that views, exports and copies need where memory is on a device."""
    from .gpu import cuda_side

    return cuda_side


def facade() -> ModuleType:
    """Return the package itself: it makes the emulator, and has the tools."""
    from importlib import import_module

    return import_module(__package__ or "")
