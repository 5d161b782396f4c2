"""A row of `check`: what it tests, what it needs, and the outcome of a run.

What it is   `row`, a decorator that adds a function to the table; `every`, the table; `outcome`, which runs one row and
             returns an Outcome, whatever happens; `Given`, which has what the rows share.
What not     it prints nothing, and starts no process.
Read next    groups/memory.py, workers.py
"""

from __future__ import annotations

import time
from array import array
from typing import NamedTuple

from ...driver import current
from ...gpu.device import Device, devices
from ..commands.console import is_emulator
from . import kernels

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    from ...gpu.kernels.kernel import Kernel
    from ...gpu.kernels.module import Module

    F = TypeVar("F", bound=Callable[["Given"], "str | None"])

__all__ = ["Given", "Missing", "Outcome", "Row", "every", "expect", "outcome", "row"]

OK, FAILED, MISSING = "ok", "FAILED", "not here"


class Missing(Exception):
    """The device, the driver or the machine lacks an optional feature: the row is skipped."""


class Row(NamedTuple):
    """A row of the table.

    needs  the name of a device attribute that must not be 0, or ""
    since  the oldest driver that has this, as a number like that of cuDriverGetVersion: 12030 is CUDA 12.3
    """

    group: str
    name: str
    run: Callable[[Given], str | None]
    needs: str
    since: int


class Outcome(NamedTuple):
    """The result of a row: its state ("ok", "FAILED" or "not here"), a remark, and the time that it took."""

    group: str
    name: str
    state: str
    remark: str
    ms: float


class Given:
    """The tools of a row: the device, the kernels (loaded on first use), and functions that make data."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self._module: Module | None = None

    @property
    def module(self) -> Module:
        """Return the module of kernels.SOURCE."""
        if self._module is None:
            self._module = self.device.load(kernels.SOURCE)
        return self._module

    def kernel(self, name: str) -> Kernel:
        """Return one of the kernels."""
        return self.module[name]

    def other(self) -> Device:
        """Return a second device.

        raises  Missing  there is none
        """
        found = devices()
        if len(found) < 2:
            raise Missing("this machine has one device")
        return next(each for each in found if each != self.device)

    def scaled(self, data: Any, stream: Any = None) -> None:
        """Multiply float32 elements by 2 with a kernel, and wait for it."""
        self.kernel("scale").launch(data, 2.0, data.size, grid=2, block=64, stream=stream)
        self.device.synchronize()

    def on_gpu(self) -> bool:
        """Tell whether the driver is a real one."""
        return not is_emulator(current())

    def forget(self) -> None:
        """Load the code again on the next use, because the device is reset."""
        self._module = None

    def close(self) -> None:
        """Unload the code."""
        if self._module is not None:
            self._module.close()


def floats(count: int) -> array[float]:
    """Return count small numbers that float32 holds exactly."""
    return array("f", [float(number % 1000 - 500) / 4 for number in range(count)])


_ROWS: list[Row] = []


def row(group: str, name: str, *, needs: str = "", since: int = 0) -> Callable[[F], F]:
    """Add the decorated function to the table; the function returns a remark, or raises."""

    def add(run: F) -> F:
        _ROWS.append(Row(group, name, run, needs, since))
        return run

    return add


def every() -> list[Row]:
    """Return the table; the group that may make the context unusable comes last."""
    from .groups import copies, exchange, facts, failures, graphs, launches, memory, order  # noqa: F401

    groups = "device memory copies launches graphs order exchange failures".split()
    return sorted(_ROWS, key=lambda each: groups.index(each.group))


def expect(what: str, found: object, wanted: object) -> None:
    """Compare a result.

    raises  AssertionError  they differ
    """
    if found != wanted:
        raise AssertionError(f"{what}: {_short(wanted)} was expected, and {_short(found)} was found")


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def outcome(one: Row, given: Given) -> Outcome:
    """Run a row; whatever it raises becomes its outcome, except KeyboardInterrupt."""
    begin = time.perf_counter()
    try:
        version = current().version
        if version < one.since:
            raise Missing(f"it came with CUDA {one.since // 1000}.{one.since % 1000 // 10}")
        if one.needs and not given.device.attribute(one.needs):
            raise Missing(f"the device attribute {one.needs} is 0")
        state, remark = OK, one.run(given) or ""
    except Missing as missing:
        state, remark = MISSING, str(missing)
    except Exception as error:
        state, remark = FAILED, f"{type(error).__name__}: {error}"
    return Outcome(one.group, one.name, state, remark, round((time.perf_counter() - begin) * 1000, 1))
