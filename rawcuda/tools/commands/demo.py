"""`demo`: three kernels over generated data, each result checked in plain Python, each timed.

What it is   the shortest way to see the whole path: load, upload, launch, download.
What not     a benchmark: the data are small, and each kernel runs once, immediately after it is compiled.
Why exact    the data are small multiples of 1/8, so that no sum or product is ever rounded, in any order of
             computation: every element must be equal, not merely close.
Read next    kernels.py
"""

from __future__ import annotations

import sys
import time
from array import array
from contextlib import contextmanager, nullcontext
from operator import add, mul

from ... import trace
from ...gpu.devices.device import Device
from .. import terminal
from ..trace_forms import writer
from . import kernels
from .console import NoGpu, Parser, add_driver, advised, chosen_by, connect, first_line, is_emulator

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, Callable

    from ...driver import Driver

__all__ = ["main", "make_parser"]

_BLOCK = 256
_EIGHTHS = [number / 8 for number in range(-512, 512)]
_SMALL = [float(number) for number in range(-8, 9)]


def make_parser() -> Parser:
    """Return the parser of the command line."""
    parser = Parser(
        "demo",
        "Add two vectors, scale and add (saxpy), and multiply two matrices, with kernels of real PTX; "
        "check each result in plain Python, and time it.",
    )
    add_driver(parser, "without it the GPU where there is one, else the emulator")
    parser.add_argument("--trace", action="store_true", help="show each driver call: name, arguments, result, time")
    return parser


def main(arguments: list[str]) -> int:
    """Run the demo; return 0 if every result is right."""
    options = make_parser().read(arguments)
    tracer = _Tracer()
    with trace(tracer.hear) if options.trace else nullcontext():
        loaded, why = _connect(options.driver)
        terminal.say(terminal.folded(first_line(loaded, why)), flush=True)
        tracer.begin()
        if _demonstrate(small=is_emulator(loaded)):
            return 0
        return 1


class _Tracer:
    """The log of a trace, which begins after the first line of output (which says where kernels run)."""

    def __init__(self) -> None:
        self._early: list[Any] | None = []
        self._log: Any = writer(sys.stdout, "calls")

    def hear(self, event: Any) -> None:
        if self._early is not None:
            self._early.append(event)
            return
        try:
            self._log.event(event)
            sys.stdout.flush()
        except BrokenPipeError:  # a listener cannot stop the call that it is notified of; our next line of output will
            pass

    def begin(self) -> None:
        early, self._early = self._early or [], None
        for event in early:
            self._log.event(event)


def _connect(option: str | None) -> tuple[Driver, str]:
    """Return the requested driver, else the GPU's, else the emulator; and the reason."""
    asked = chosen_by(option)
    try:
        return connect(option), asked
    except NoGpu as missing:
        if asked:
            raise advised(missing) from None
        return connect("emulator"), f"no GPU can be used: {missing}"


def _demonstrate(small: bool) -> bool:
    """Run the three kernels; return whether all results are right. `small` data keep a run on the emulator short."""
    if small:
        count = 1 << 16
    else:
        count = 1 << 19
    m, n, k = (60, 70, 52) if small else (250, 300, 200)  # not multiples of a tile
    slim = terminal.narrow()
    terminal.say("" if slim else f"\n{'':40}{'load ms':>9}{'copies ms':>11}{'kernel ms':>11}")
    wrong = 0
    device = Device(0)
    parts: list[tuple[str, str, Callable[..., bool], tuple[int, ...]]] = [
        ("vector add", f"{count} floats", _vector_add, (count,)),
        ("saxpy", f"{count} floats", _saxpy, (count,)),
        ("matrix product", f"{m} x {k} by {k} x {n}", _matrix_product, (m, n, k)),
    ]
    for name, size, run, sizes in parts:
        clock = _Clock(device)
        right = run(device, clock, *sizes)
        times = f"{clock.load:9.2f}{clock.copies:11.2f}{clock.kernel:11.3f}   "
        if slim:
            times = f"\n  load {clock.load:.2f}, copies {clock.copies:.2f},\n  kernel {clock.kernel:.3f} ms: "
        if right:
            said = ("right", "good")
        else:
            said = ("WRONG", "bad")
        terminal.say(f"{name:16}{size if slim else size.ljust(24)}{times}", said, flush=True)
        wrong += not right
    if wrong:
        verdict = f"{wrong} of 3 results are WRONG."
    else:
        verdict = "All 3 results are right: every element was compared."
    terminal.say("\n" + terminal.folded(verdict))
    return not wrong


class _Clock:
    """Sums in milliseconds: `load` and `copies` by the host's clock, `kernel` by the device's own."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.load = self.copies = self.kernel = 0.0

    @contextmanager
    def loading(self) -> Iterator[None]:
        """Time a with block as loading."""
        start = time.perf_counter()
        yield
        self.load += (time.perf_counter() - start) * 1000

    @contextmanager
    def copying(self) -> Iterator[None]:
        """Time a with block as copying."""
        start = time.perf_counter()
        yield
        self.copies += (time.perf_counter() - start) * 1000

    @contextmanager
    def computing(self) -> Iterator[None]:
        """Time the launches in a with block, and wait for them."""
        with self.device.event(timing=True) as start, self.device.event(timing=True) as end:
            start.record()
            yield
            end.record()
            end.synchronize()
            self.kernel += end.elapsed_ms(since=start)


# -- the three kernels. Each: make the data, load, upload, launch, download, compare


def _floats(choices: list[float], count: int, seed: int) -> array[float]:
    from random import Random  # imported late: it registers a hook for fork()

    return array("f", Random(seed).choices(choices, k=count))


def _vector_add(device: Device, clock: _Clock, n: int) -> bool:
    a, b, result = _floats(_EIGHTHS, n, 1), _floats(_EIGHTHS, n, 2), array("f", bytes(4 * n))
    with clock.loading():
        module = device.load(kernels.VECTOR_ADD)
    with module:
        with clock.copying():
            on_device = device.upload(a), device.upload(b), device.empty(n, "float32")
        with clock.computing():
            module["vector_add"].launch(*on_device, n, grid=-(-n // _BLOCK), block=_BLOCK)
        with clock.copying():
            on_device[2].copy_to(result)
    return result == array("f", map(add, a, b))


def _saxpy(device: Device, clock: _Clock, n: int) -> bool:
    alpha, x, y = 2.5, _floats(_EIGHTHS, n, 3), _floats(_EIGHTHS, n, 4)
    result = array("f", bytes(4 * n))
    with clock.loading():
        module = device.load(kernels.SAXPY)
    with module:
        with clock.copying():
            x_there, y_there = device.upload(x), device.upload(y)
        with clock.computing():
            module["saxpy"].launch(alpha, x_there, y_there, n, grid=64, block=_BLOCK)  # each thread takes several
        with clock.copying():
            y_there.copy_to(result)
    return result == array("f", [alpha * p + q for p, q in zip(x, y)])


def _matrix_product(device: Device, clock: _Clock, m: int, n: int, k: int) -> bool:
    a, b, result = _floats(_SMALL, m * k, 5), _floats(_SMALL, k * n, 6), array("f", bytes(4 * m * n))
    tile = kernels.TILE
    with clock.loading():
        module = device.load(kernels.MATRIX_PRODUCT)
    with module:
        with clock.copying():
            on_device = device.upload(a), device.upload(b), device.empty(m * n, "float32")
        with clock.computing():
            module["matrix_product"].launch(
                *on_device, m, n, k, grid=(-(-n // tile), -(-m // tile)), block=(tile, tile)
            )
        with clock.copying():
            on_device[2].copy_to(result)
    columns = [b[column::n] for column in range(n)]
    rows = [a[row * k : (row + 1) * k] for row in range(m)]
    return result == array("f", [sum(map(mul, row, column)) for row in rows for column in columns])
