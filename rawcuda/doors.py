"""The two imports that point upwards, and their reasons.

What it is   `gpu`: what views and copies need for device memory. It is imported when device memory is first used, so
             that views of host memory work without a driver, and without the files that know one. `facade`: the package
             itself, the only room that knows both the emulator and the tools.
What not     no other import points to a higher floor; tests/null/test_layers.py checks that.
Read next    driver.py, gpu/cuda_side.py
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

__all__ = ["facade", "gpu", "in_use"]

in_use: list[Any] = []  # the driver in use, if any; driver.py adds it


def gpu() -> ModuleType:
    """Return gpu/cuda_side.py: everything that views, exports and copies need for device memory."""
    return _opened[0] if _opened else _open()


_opened: list[ModuleType] = []  # asking the import system each time costs 1,100 ns


def _open() -> ModuleType:
    from .gpu import cuda_side

    _opened.append(cuda_side)
    return _opened[0]


def facade() -> ModuleType:
    """Return the package itself, which opens the emulator and draws pictures of views."""
    from importlib import import_module

    return import_module(__package__ or "")
