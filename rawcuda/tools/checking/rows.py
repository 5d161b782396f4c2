"""A row of `check`: what it tests, what it needs, and the outcome of a run.

What it is   `row`, a decorator that adds a function to the table; `outcome`, which runs one row and
             returns an Outcome, whatever happens; `Given`, which has what the rows share; `in_thread` and `python`, for
             rows that need another thread or another process.
What not     it prints nothing, and starts no process.
Read next    tools/checking/groups/check_memory.py, workers.py
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from array import array
from typing import NamedTuple

from ...driver import current, dotted
from ...errors import CudaError, SymbolNotFound
from ...gpu.devices.device import Device, devices
from ..commands.console import is_emulator
from . import check_kernels

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    from ...gpu.kernels.kernel import Kernel
    from ...gpu.kernels.module import Module

    F = TypeVar("F", bound=Callable[["Given"], "str | None"])

__all__ = [
    "GROUPS",
    "ROWS",
    "Given",
    "Missing",
    "NotAsked",
    "Outcome",
    "Row",
    "expect",
    "in_thread",
    "outcome",
    "python",
    "row",
]

GROUPS = ("device", "memory", "copies", "launches", "graphs", "order", "exchange", "failures")  # in this order
OK, FAILED, MISSING, NOT_ASKED = "ok", "FAILED", "not here", "not asked"


class Missing(Exception):
    """The device, the driver or the machine lacks an optional feature: the row is skipped."""


class NotAsked(Exception):
    """Drivers may differ in what the row would test, so a failure would say nothing: the row is skipped."""


class Row(NamedTuple):
    """A row of the table.

    needs  the name of a device attribute that must not be 0, or ""
    since  the oldest driver that has this, as a number like that of cuDriverGetVersion: 12030 is CUDA 12.3
    alone  whether the row has a process of its own, since it may crash, or leaves the device in another state
    """

    group: str
    name: str
    run: Callable[[Given], str | None]
    needs: str
    since: int
    alone: bool


class Outcome(NamedTuple):
    """The result of a row.

    state    "ok", "FAILED", "not here" or "not asked"
    remark   what the row found, or why it failed or was skipped
    ms       the time that it took
    answers  what the driver answered to questions whose answers differ between drivers: see Given.answers
    """

    group: str
    name: str
    state: str
    remark: str
    ms: float
    answers: dict[str, int]


class Given:
    """The tools of a row: the device, the kernels (loaded on first use), and functions that make data.

    answers  what the row notes for the report: a question whose answer differs between drivers -> a number
    """

    def __init__(self, device: Device) -> None:
        self.device = device
        self.answers: dict[str, int] = {}
        self._module: Module | None = None

    @property
    def module(self) -> Module:
        """Return the module of kernels.SOURCE."""
        if self._module is None:
            self._module = self.device.load(check_kernels.SOURCE)
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

    def ask(self, question: str, symbol: str, *arguments: Any) -> str:
        """Call a function of the driver in a situation in which drivers may differ; note the code, and return a remark.

        question  the key under which the report has the code
        """
        try:
            current()[symbol](*arguments)
            code, name = 0, "CUDA_SUCCESS"
        except CudaError as error:
            code, name = error.code, error.name
        self.answers[question] = code
        return f"{question}: {name}"

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


ROWS: list[Row] = []


def row(group: str, name: str, *, needs: str = "", since: int = 0, alone: bool = False) -> Callable[[F], F]:
    """Add the decorated function to the table; the function returns a remark, or raises."""

    def add(run: F) -> F:
        ROWS.append(Row(group, name, run, needs, since, alone))
        return run

    return add


def expect(what: str, found: object, wanted: object) -> None:
    """Compare a result.

    raises  AssertionError  they differ
    """
    if found != wanted:
        raise AssertionError(f"{what}: {_short(wanted)} was expected, and {_short(found)} was found")


def in_thread(function: Callable[[], Any]) -> Any:
    """Call a function in a new thread, in which no context is current; return its result, or raise what it raises."""
    found: list[tuple[bool, Any]] = []

    def call() -> None:
        try:
            found.append((True, function()))
        except BaseException as error:  # raised again below
            found.append((False, error))

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join()
    [(is_result, value)] = found
    if not is_result:
        raise value
    return value


def python(code: str) -> list[str]:
    """Return the command of another Python process that imports what this one imports, and runs code."""
    flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]  # -E, -I, -S, -X ...
    path = [each for each in sys.path if isinstance(each, str)]  # import ignores everything else
    return [sys.executable, *flags, "-c", f"import sys; sys.path[:] = {path!r}; {code}"]


def _short(value: object) -> str:
    text = repr(value)
    if len(text) <= 60:
        return text
    return text[:57] + "..."


def outcome(one: Row, given: Given) -> Outcome:
    """Run a row; whatever it raises becomes its outcome, except KeyboardInterrupt."""
    begin = time.perf_counter()
    answers: dict[str, int] = {}
    given.answers = answers
    try:
        version = current().version
        if version < one.since:
            raise Missing(f"it came with CUDA {dotted(one.since)}")
        if one.needs and not given.device.attribute(one.needs):
            raise Missing(f"the device attribute {one.needs} is 0")
        state, remark = OK, one.run(given) or ""
    except Missing as missing:
        state, remark = MISSING, str(missing)
    except SymbolNotFound as error:
        is_older = error.driver_version < 1000 * error.since[0] + 10 * error.since[1]
        state, remark = MISSING if is_older else FAILED, str(error)
    except NotAsked as reason:
        state, remark = NOT_ASKED, str(reason)
    except Exception as error:
        state, remark = FAILED, f"{type(error).__name__}: {error}"
    return Outcome(one.group, one.name, state, remark, round((time.perf_counter() - begin) * 1000, 1), answers)
