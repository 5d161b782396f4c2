"""Measure the two executors of the emulator: thread by thread, and whole blocks as NumPy arrays.

    python3 benchmarks/executors.py                  the table
    python3 benchmarks/executors.py add product      some kernels
    python3 benchmarks/executors.py --draw docs/emulator.svg    also the rates against the number of elements
    python3 benchmarks/executors.py --interrupts                how long an interrupt waits while each kernel runs

The unit is thread-instructions per second: PTX instructions, each counted once for every thread that executes it. The
memory checks are on. A number is the median of several runs in processor time, because other programs may be running;
the scalar executor is measured with fewer elements where it would take minutes. If this Python has numba, the same
kernels run in its simulator, which has no instructions: its rate counts those of our kernel for the same work.
"""

from __future__ import annotations

import argparse
import signal
import statistics
import struct
import sys
import time
from html import escape
from pathlib import Path
from typing import Any, Callable, NamedTuple

HERE = Path(__file__).resolve().parent
PTX = HERE / "executors.ptx"
GOALS = {"product": 3.0, "reduce": 1.0}  # seconds of the largest size
GOAL = 300e6  # thread-instructions a second of the others
SCALAR = {"add": 1 << 16, "mandelbrot": 1 << 13, "stencil": 1 << 16, "bodies": 512, "product": 64, "reduce": 1 << 16,
          "histogram": 1 << 16}  # fmt: skip
NUMBA = {"add": 1 << 13, "mandelbrot": 1 << 11, "stencil": 1 << 13, "bodies": 256, "product": 32, "reduce": 1 << 11,
         "histogram": 1 << 14}  # fmt: skip
LARGE = {"add": 1 << 20, "mandelbrot": 1 << 20, "stencil": 1 << 20, "bodies": 4096, "product": 512, "reduce": 1 << 22,
         "histogram": 1 << 20}  # fmt: skip
WIDTH, HEIGHT, LEFT, TOP, RIGHT = 560, 400, 70, 60, 140


class Measured(NamedTuple):
    """One kernel of one size: the instructions of all threads, and the seconds."""

    instructions: int
    seconds: float

    @property
    def rate(self) -> float:
        """Return thread-instructions per second."""
        return self.instructions / self.seconds


def floats(count: int) -> bytes:
    """Return arbitrary numbers."""
    some = struct.pack("<1000f", *((k * 7919 % 1000) / 500 - 1 for k in range(1000)))
    return (some * (4 * count // len(some) + 1))[: 4 * count]


def work(name: str, n: int) -> tuple[tuple[int, ...], tuple[int, ...], tuple[Any, ...]]:
    """Return grid, block and arguments of a kernel for n elements; bytes are device memory, the first is the result."""
    block = min(n, 256)
    grid = -(-n // block)
    side = 1 << (n.bit_length() - 1) // 2
    rows = n // side
    if name == "add":
        return (grid,), (block,), (bytes(4 * n), floats(n), floats(n), n)
    if name == "mandelbrot":
        return (grid,), (block,), (bytes(4 * n), side, rows, 100)
    if name == "stencil":
        return (-(-side // 16), -(-rows // 8)), (16, 8), (bytes(4 * n), floats(n), side, rows)
    if name == "bodies":
        return (n // 256,), (256,), (bytes(16 * n), floats(4 * n), n)
    if name == "product":
        return (n // 16, n // 16), (16, 16), (bytes(4 * n * n), floats(n * n), floats(n * n), n)
    if name == "reduce":
        return (-(-n // 256),), (256,), (bytes(4 * -(-n // 256)), floats(n), n)
    return (64,), (256,), (bytes(256), bytes(k * 7919 % 251 for k in range(4096)) * (n // 1024), n)


def prepare(name: str, n: int, executor: str) -> tuple[Any, Callable[[], None]]:
    """Load the kernels; return one of them, and a function that runs it once."""
    from rawcuda.emulator import ptx
    from rawcuda.emulator.machine import space

    memory = space.Space(watch=True)
    memory.executor = executor
    entry = ptx.load(PTX.read_bytes(), memory).entries[name]
    grid, block, arguments = work(name, n)
    packed = bytearray(entry.parameter_bytes)
    for value, (offset, size) in zip(arguments, entry.parameters):
        if isinstance(value, bytes):
            made = memory.allocate(len(value))
            made.data[:] = value
            made.wrote(0, len(value))
            value = made.base
        packed[offset : offset + size] = value.to_bytes(size, "little")
    three: Any = lambda size: (*size, 1, 1, 1)[:3]
    return entry, lambda: entry.run(three(grid), three(block), 0, bytes(packed))


def measure(name: str, n: int, executor: str, repeat: int) -> Measured:
    """Time one kernel."""
    entry, run = prepare(name, n, executor)
    seconds = []
    for _ in range(repeat + (executor == "numpy")):
        started = time.process_time()
        run()
        seconds.append(time.process_time() - started)
    arrays = entry._arrays
    instructions = arrays.work if arrays is not None else 0
    return Measured(instructions, max(1e-9, statistics.median(seconds[-repeat:])))  # the first run translates


def interrupted(name: str, executor: str, repeat: int) -> float:
    """Return the longest processor time from the signal of a timer until its exception has left the kernel."""
    _, run = prepare(name, LARGE[name], executor)
    longest = 0.0

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGPROF, stop)
    for number in range(repeat):
        delay = 0.05 + 0.013 * number  # of processor time; the timer of the system is late by up to 4 ms
        due = time.process_time() + delay
        signal.setitimer(signal.ITIMER_PROF, delay)
        try:
            while True:
                run()
        except KeyboardInterrupt:
            longest = max(longest, time.process_time() - due)
    signal.setitimer(signal.ITIMER_PROF, 0)
    return longest


def main() -> None:
    """Measure, print, and draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernels", nargs="*", help=f"of {', '.join(LARGE)}")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--draw", type=Path, metavar="SVG")
    parser.add_argument("--interrupts", action="store_true")
    parser.add_argument("--without-numba", action="store_true")
    options = parser.parse_args()
    sys.path.insert(0, str(HERE.parent))
    if options.interrupts:
        for name in options.kernels or LARGE:
            waits = [f"{1e3 * interrupted(name, executor, options.repeat):.1f}" for executor in ("scalar", "numpy")]
            print(f"{name}: at most {waits[0]} ms thread by thread, {waits[1]} ms as arrays", flush=True)
        return
    from benchmarks import simulated

    print("| kernel | elements | numba, M/s | scalar, M/s | arrays, M/s | arrays, s | goal |")
    print("|---|---|---|---|---|---|---|")
    for name in options.kernels or LARGE:
        large, small = measure(name, LARGE[name], "numpy", options.repeat), SCALAR[name]
        instructions = measure(name, small, "numpy", 1).instructions
        scalar = instructions / measure(name, small, "scalar", 1).seconds
        few = NUMBA[name]
        seconds = simulated.seconds(name, *work(name, few)) if not options.without_numba else None
        instructions = measure(name, few, "numpy", 1).instructions if seconds else 0
        numba = f"{instructions / seconds / 1e6:.3f}" if seconds else "-"
        goal = f"{GOALS[name]:g} s" if name in GOALS else "" if name == "histogram" else f"{GOAL / 1e6:.0f} M/s"
        size = f"{LARGE[name]:,}" if name != "product" else "512 x 512 x 512"
        rates = f"{numba} | {scalar / 1e6:.0f} | {large.rate / 1e6:,.0f}"
        print(f"| {name} | {size} | {rates} | {large.seconds:.3f} | {goal} |")
        sys.stdout.flush()
    if options.draw:
        options.draw.write_text(draw(options.repeat), "utf-8")
        print(options.draw)


# -- the plot


def draw(repeat: int) -> str:
    """Return an SVG of the rates against the number of elements."""
    lines: list[tuple[str, str, list[tuple[int, float]]]] = []
    for name, colour in (("add", "#1f5fa8"), ("stencil", "#2e7d4f"), ("mandelbrot", "#8a4fa3")):
        for executor, most in (("numpy", 20), ("scalar", 14)):
            points = []
            for power in range(6, most + 1, 2):
                instructions = measure(name, 1 << power, "numpy", 1).instructions
                seconds = measure(name, 1 << power, executor, repeat if executor == "numpy" else 1).seconds
                points.append((power, instructions / seconds))
            lines.append((f"{name}, {'arrays' if executor == 'numpy' else 'scalar'}", colour, points))
    return picture(lines)


def picture(lines: list[tuple[str, str, list[tuple[int, float]]]]) -> str:
    """Return the SVG: both axes are logarithmic."""
    import math

    def x_of(power: float) -> float:
        return LEFT + (power - 6) / 14 * (WIDTH - LEFT - RIGHT)

    def y_of(rate: float) -> float:
        return TOP + (math.log10(3e9) - math.log10(max(rate, 1e6))) / (math.log10(3e9) - 6) * (HEIGHT - TOP - 50)

    def text(x: float, y: float, words: str, size: int = 12, anchor: str = "start", colour: str = "#1f2430") -> str:
        style = f'font-family="system-ui,\'DejaVu Sans\',sans-serif" font-size="{size}" text-anchor="{anchor}"'
        return f'<text x="{x:.1f}" y="{y:.1f}" {style} fill="{colour}">{escape(words)}</text>'

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}">',
        "<title>Thread-instructions per second of both executors, against the number of elements</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fcfcfa"/>',
        text(16, 28, "Thread-instructions per second, with memory checks", 16),
        text(16, 46, "whole lines: blocks as NumPy arrays; dashed lines: thread by thread", 12),
    ]
    for rate in (1e6, 1e7, 1e8, 1e9):
        y = y_of(rate)
        parts.append(f'<line x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}" stroke="#dfe2e8"/>')
        parts.append(text(LEFT - 8, y + 4, f"{rate / 1e6:,.0f} M", 11, "end", "#5b6475"))
    for power in range(8, 21, 4):
        parts.append(text(x_of(power), HEIGHT - 28, f"{1 << power:,}", 11, "middle", "#5b6475"))
    parts.append(text(x_of(13), HEIGHT - 8, "elements, one thread each", 12, "middle", "#5b6475"))
    for label, colour, points in lines:
        path = " ".join(f"{x_of(power):.1f},{y_of(rate):.1f}" for power, rate in points)
        dashed = ' stroke-dasharray="5 4"' if label.endswith("scalar") else ""
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"{dashed}/>')
    for ending in sorted({points[-1][0] for _, _, points in lines}):  # labels, in the order of the lines' ends
        ends = [(y_of(points[-1][1]), label, colour) for label, colour, points in lines if points[-1][0] == ending]
        ends.sort()
        x, places = x_of(ending), apart([y for y, _, _ in ends], 15)
        for (y, label, colour), place in zip(ends, places):
            parts.append(f'<path d="M{x + 3:.1f},{y:.1f} L{x + 15:.1f},{place:.1f}" stroke="{colour}"/>')
            parts.append(text(x + 19, place + 4, label, 12, "start", colour))
    return "\n".join([*parts, "</svg>", ""])


def apart(places: list[float], least: float) -> list[float]:
    """Move sorted places apart to a least distance, each group around its own middle."""
    groups = [[place] for place in places]
    number = 1
    while number < len(groups):
        before, group = groups[number - 1], groups[number]
        lower = statistics.mean(before) + least * (len(before) - 1) / 2
        upper = statistics.mean(group) - least * (len(group) - 1) / 2
        if upper - lower < least:
            groups[number - 1 : number + 1] = [before + group]
            number = max(1, number - 1)
        else:
            number += 1
    moved: list[float] = []
    for group in groups:
        middle = statistics.mean(group)
        moved += [middle + least * (index - (len(group) - 1) / 2) for index in range(len(group))]
    return moved


if __name__ == "__main__":
    main()
