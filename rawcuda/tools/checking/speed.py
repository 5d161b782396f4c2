"""The measurements of `bench`: what each row does, and how a figure is made of its times.

What it is   ROWS, and `measure`, which prepares a row, times it, and returns a Figure.
What not     limits: no figure makes the command fail.
Read next    bench.py
"""

from __future__ import annotations

import statistics
import time
from typing import NamedTuple

from ...arrays.making import copy
from ...arrays.strided import view
from ...driver import current
from .rows import Given

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    F = TypeVar("F", bound=Callable[..., Any])

__all__ = ["Figure", "ROWS", "Speed", "measure"]

_MIB = 1 << 20


class Speed(NamedTuple):
    """A row: `prepare` returns the work, its wait, and the amount of one call: operations, bytes or flops.

    unit  "us" for the time of one call; "GB/s" or "GFLOP/s" for a rate
    """

    name: str
    unit: str
    prepare: Callable[[Given, bool], tuple[Callable[[], object], Callable[[], object], float]]


class Figure(NamedTuple):
    """A measured row: the median, the smallest and the largest value; or an error."""

    name: str
    unit: str
    value: float
    low: float
    high: float
    error: str


ROWS: list[Speed] = []


def _row(name: str, unit: str) -> Callable[[F], F]:
    def add(prepare: F) -> F:
        ROWS.append(Speed(name, unit, prepare))
        return prepare

    return add


def measure(one: Speed, given: Given, rounds: int, *, small: bool) -> Figure:
    """Time a row; `small` keeps the amounts of data small."""
    try:
        work, wait, amount = one.prepare(given, small)
        calls = _calls(work, wait)
        found = []
        for _ in range(rounds):
            begin = time.perf_counter()
            for _ in range(calls):
                work()
            wait()
            took = (time.perf_counter() - begin) / calls
            found.append(took * 1e6 / amount if one.unit == "us" else amount / took / 1e9)
        return Figure(one.name, one.unit, statistics.median(found), min(found), max(found), "")
    except Exception as error:
        return Figure(one.name, one.unit, 0.0, 0.0, 0.0, f"{type(error).__name__}: {error}")


def _calls(work: Any, wait: Any, seconds: float = 0.02) -> int:
    """Return how many calls of the work take about this long, after a first call that is not counted."""
    work(), wait()  # noqa: B018
    begin = time.perf_counter()
    work(), wait()  # noqa: B018
    return max(1, min(10_000, int(seconds / max(time.perf_counter() - begin, 1e-7))))


def _nothing() -> None:
    pass


@_row("a call of the driver by its C name", "us")
def _call(given: Given, small: bool) -> Any:
    import ctypes

    found, driver = ctypes.c_int(), current()
    pointer = ctypes.byref(found)
    return lambda: driver.cuDriverGetVersion(pointer), _nothing, 1


@_row("view() of a bytearray", "us")
def _view(given: Given, small: bool) -> Any:
    data = bytearray(64)
    return lambda: view(data), _nothing, 1


@_row("launch of a configured kernel", "us")
def _configured(given: Given, small: bool) -> Any:
    launch = given.kernel("nothing").configure(grid=1, block=1)
    return launch, given.device.synchronize, 1


@_row("launch with three arguments", "us")
def _arguments(given: Given, small: bool) -> Any:
    x, launch = given.device.empty(32, "float32").fill(1), given.kernel("scale").configure(grid=1, block=32)
    return lambda: launch(x, 1.0, 32), given.device.synchronize, 1


@_row("launch and wait for its end", "us")
def _wait(given: Given, small: bool) -> Any:
    launch: Any = given.kernel("nothing").configure(grid=1, block=1)
    wait: Any = given.device.synchronize
    return lambda: (launch(), wait()), _nothing, 1


@_row("graph of 100 kernels, for each kernel", "us")
def _graph(given: Given, small: bool) -> Any:
    stream = given.device.stream()
    launch = given.kernel("nothing").configure(grid=1, block=1, stream=stream)
    with stream.capture() as graph:
        for _ in range(100):
            launch()
    graph.launch(stream)
    return lambda: graph.launch(stream), stream.synchronize, 100


@_row("allocate and free 1 MiB", "us")
def _allocate(given: Given, small: bool) -> Any:
    return lambda: given.device.allocate(_MIB).close(), _nothing, 1


@_row("allocate and free 1 MiB in stream order", "us")
def _stream_ordered(given: Given, small: bool) -> Any:
    stream = given.device.stream()
    return lambda: given.device.allocate(_MIB, stream=stream).close(), stream.synchronize, 1


def _copies(name: str, target: str, source: str, factor: int) -> None:
    @_row(f"copy, {name}", "GB/s")
    def copied(given: Given, small: bool) -> Any:
        size = (4 if small else 256) * _MIB

        def make(kind: str) -> Any:
            if kind == "pageable":
                return view(bytearray(size))
            return given.device.allocate(size, kind=kind).view()

        there, here = make(target), make(source)
        return lambda: copy(there, here), given.device.synchronize, factor * size


for _copy in (
    ("pageable host to device", "device", "pageable", 1),
    ("device to pageable host", "pageable", "device", 1),
    ("page-locked host to device", "device", "pinned", 1),
    ("device to page-locked host", "pinned", "device", 1),
    ("device to device, read and written", "device", "device", 2),
):
    _copies(*_copy)


@_row("fill", "GB/s")
def _fill(given: Given, small: bool) -> Any:
    there = given.device.empty((1 if small else 64) * _MIB, "float32")
    return lambda: there.fill(1), given.device.synchronize, there.nbytes


@_row("transpose of a matrix, read and written", "GB/s")
def _transpose(given: Given, small: bool) -> Any:
    if small:
        side = 64
    else:
        side = 8192
    there, here = (given.device.empty((side, side), "float32").fill(1) for _ in range(2))
    return lambda: copy(there, here.T), given.device.synchronize, 2 * there.nbytes


@_row("x = 2 x with a kernel, read and written", "GB/s")
def _scale(given: Given, small: bool) -> Any:
    count = 1 << (12 if small else 26)
    x, launch = given.device.empty(count, "float32").fill(1), given.kernel("scale").configure(grid=1024, block=256)
    if small:
        launch = given.kernel("scale").configure(grid=4, block=256)
    return lambda: launch(x, 1.0, count), given.device.synchronize, 2 * x.nbytes


@_row("matrix product with a simple kernel", "GFLOP/s")
def _product(given: Given, small: bool) -> Any:
    from ..commands.kernels import MATRIX_PRODUCT, TILE

    if small:
        side = 32
    else:
        side = 1024
    a, b, c = (given.device.empty((side, side), "float32").fill(1) for _ in range(3))
    kernel = given.device.load(MATRIX_PRODUCT)["matrix_product"]
    launch = kernel.configure(grid=(side // TILE, side // TILE), block=(TILE, TILE))
    return lambda: launch(a, b, c, side, side, side), given.device.synchronize, 2.0 * side**3
