"""Measure how fast the emulator runs kernels thread by thread, and compare it with numba's CUDA simulator.

    python3 benchmarks/emulator.py                    this Python
    python3 benchmarks/emulator.py python3.9 python3.13   these Pythons, one after the other
    python3 benchmarks/emulator.py --only product     one kernel
    python3 benchmarks/emulator.py --unchecked        without the memory checker
    python3 benchmarks/emulator.py --json             lines of JSON, for another program
    python3 benchmarks/emulator.py --opcodes          the rate of every opcode, the slowest first (opcodes.py)
    python3 benchmarks/emulator.py --opcodes fma cvt --forms    of some, with all of their forms

The unit is thread-instructions per second: PTX instructions, each counted once for every thread that executes it. One
run is traced to count them. numba's simulator has no instructions, so the times for the same work are compared. Each
number is the best of several runs, in processor time, because other programs may be running.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import struct
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType
from typing import Any, Callable

HERE = Path(__file__).resolve().parent
PTX = HERE / "emulator.ptx"
GOALS = {
    "polynomial": 20e6,
    "add": 20e6,
    "product": 5e6,
    "reduce": 5e6,
    "mandelbrot": 5e6,
    "histogram": 5e6,
}  # a second, on a two-core machine
SECONDS = {"add": 0.100, "product": 0.250}


def floats(count: int) -> bytes:
    """Make arbitrary numbers."""
    return struct.pack(f"<{count}f", *((k * 7919 % 1000) / 500 - 1 for k in range(count)))


# kernel -> grid, block, arguments: bytes are device memory, the first is the result
WORK: dict[str, tuple[tuple[int, ...], tuple[int, ...], tuple[Any, ...]]] = {
    "add": ((256,), (256,), (bytes(4 << 16), floats(1 << 16), floats(1 << 16), 1 << 16)),
    "polynomial": ((128,), (256,), (bytes(4 << 15), floats(1 << 15), 1 << 15)),
    "product": ((8, 8), (8, 8), (bytes(4 << 12), floats(1 << 12), floats(1 << 12), 64)),
    "reduce": ((64,), (128,), (bytes(4 * 64), floats(64 * 128))),
    "mandelbrot": ((32,), (64,), (bytes(4 * 2048), 64, 32, 64)),
    "histogram": ((8,), (128,), (bytes(4 * 64), bytes(k * 7919 % 251 for k in range(4 << 14)), 1 << 14)),
}


def main() -> int:
    """Measure with the Pythons of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pythons", nargs="*", help="interpreters; none: this one")
    parser.add_argument("--only", choices=WORK, action="append")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--unchecked", action="store_true")
    parser.add_argument("--opcodes", nargs="*", metavar="OPCODE")
    parser.add_argument("--forms", action="store_true")
    options = parser.parse_args()
    if options.opcodes is not None:
        sys.path.insert(0, str(HERE.parent))
        from benchmarks import opcodes

        return opcodes.report(options.opcodes, options.repeat, options.forms)
    if options.pythons:
        more = [
            f"--repeat={options.repeat}",
            *(["--json"] if options.json else []),
            *(["--unchecked"] if options.unchecked else []),
            *(f"--only={name}" for name in options.only or ()),
        ]
        return max(subprocess.call([python, str(Path(__file__).resolve()), *more]) for python in options.pythons)
    sys.path.insert(0, str(HERE.parent))
    checked = not options.unchecked
    rows = [measure(name, options.repeat, checked) for name in options.only or WORK]
    print_rows(rows, overheads(options.repeat, checked), options.json)
    return 0


def package() -> tuple[Any, Any]:
    """Return the loader and the memory space of the emulator."""
    from rawcuda.emulator import ptx
    from rawcuda.emulator.machine import space

    return ptx, space


def prepare(name: str, checked: bool = True) -> tuple[Any, Callable[..., None]]:
    """Load the kernels; return the code, and a function that runs one kernel once."""
    ptx, space = package()
    memory = space.Space(watch=checked)
    memory.executor = "scalar"  # executors.py measures the other one
    code = ptx.load(PTX.read_bytes(), memory)
    entry = code.entries[name]
    grid, block, arguments = WORK[name]
    packed = bytearray(entry.parameter_bytes)
    for value, (offset, size) in zip(arguments, entry.parameters):
        if isinstance(value, bytes):
            made = memory.allocate(len(value))
            made.data[:] = value
            made.wrote(0, len(value))
            value = made.base
        packed[offset : offset + size] = value.to_bytes(size, "little")
    three: Any = lambda size: (*size, 1, 1, 1)[:3]

    def run(blocks: tuple[int, ...] = grid) -> None:
        entry.run(three(blocks), three(block), 0, bytes(packed))

    return code, run


def measure(name: str, repeat: int, checked: bool = True) -> dict[str, Any]:
    """Time one kernel here and, where numba is installed, in its simulator."""
    code, run = prepare(name, checked)
    grid, block, _ = WORK[name]
    blocks = threads = 1
    for extent in grid:
        blocks *= extent
    for extent in block:
        threads *= extent
    executed = count(code, run, threads)
    seconds = best(run, repeat)
    from benchmarks import simulated

    part = {"add": 16, "polynomial": 8, "product": 8, "reduce": 8}.get(name, 1)  # all of their blocks do the same
    numba = simulated.seconds(name, *WORK[name], part) if os.environ.get("BENCHMARK_NUMBA") != "0" else None
    return {
        "kernel": name,
        "threads": blocks * threads,
        "instructions": executed,
        "seconds": seconds,
        "a_second": executed / seconds,
        "numba_seconds": numba,
        "goal": GOALS[name],
        "limit_seconds": SECONDS.get(name),
    }


def best(function: Callable[[], None], repeat: int) -> float:
    """Return the seconds of the fastest of several runs."""
    found = float("inf")
    for _ in range(repeat):
        started = time.process_time()
        function()
        found = min(found, time.process_time() - started)
    return found


def count(code: Any, run: Callable[[], None], threads: int) -> int:
    """Count the PTX instructions that all threads execute, by tracing the Python lines that implement them."""
    total = 0
    last: dict[int, int] = {}
    lines = [(line.line, line.text.startswith("def ")) for line in code.lines]

    def local(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal total
        if event == "line":
            number = lines[frame.f_lineno - 1][0]
            if last.get(id(frame)) != number:
                last[id(frame)] = number
                total += threads if frame.f_code.co_name != "thread" else 1  # computed once for all threads
        return local

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        if frame.f_code.co_filename != code.filename:
            return None
        if event == "call" and frame.f_lasti <= 0:
            last.pop(id(frame), None)
        return local

    sys.settrace(trace)
    try:
        run()
    finally:
        sys.settrace(None)
    return total


def overheads(repeat: int, checked: bool = True) -> dict[str, float]:
    """Return milliseconds to load a typical kernel, and microseconds of a launch of one block and of an entry point."""
    ptx, space = package()
    texts = re.split(r"(?m)^(?=\.visible \.entry )", PTX.read_text())
    load = [
        best(lambda text=text: ptx.load((texts[0] + text).encode(), space.Space(watch=checked)), repeat)
        for text in texts[1:]
    ]  # type: ignore[misc]
    _, run = prepare("add", checked)
    return {
        "load_ms": sum(load) / len(load) * 1e3,
        "smallest_launch_us": best(lambda: run((1,)), 4 * repeat) * 1e6,
        "entry_us": entry_us(),
    }


def entry_us() -> float:
    """Return the microseconds of one call of an entry point."""
    import ctypes

    from rawcuda.emulator import Emulator

    emulator = Emulator()
    initialise = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint)(emulator.address("cuInit"))
    assert initialise(0) == 0
    function = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(emulator.address("cuDeviceGetCount"))
    count = ctypes.c_int()
    address = ctypes.addressof(count)

    def calls() -> None:
        for _ in range(2000):
            function(address)

    return best(calls, 5) / 2000 * 1e6


def print_rows(rows: list[dict[str, Any]], rest: dict[str, float], as_json: bool) -> None:
    """Print a table, or a line of JSON each."""
    if as_json:
        for row in rows:
            print(json.dumps({"python": platform.python_version(), **row}))
        print(json.dumps({"python": platform.python_version(), **rest}))
        return
    print(f"Python {platform.python_version()}, {platform.machine()}, {os.cpu_count()} cores")
    head = f"{'kernel':12}{'threads':>9}{'instructions':>14}{'ms':>9}{'M a second':>12}{'goal':>7}"
    print(f"{head}{'numba ms':>11}{'times':>8}")
    for row in rows:
        seconds, numba = row["seconds"], row["numba_seconds"]
        beside = f"{numba * 1e3:>11.0f}{numba / seconds:>8.0f}" if numba else f"{'-':>11}{'-':>8}"
        line = f"{row['kernel']:12}{row['threads']:>9}{row['instructions']:>14}{seconds * 1e3:>9.1f}"
        print(f"{line}{row['a_second'] / 1e6:>12.1f}{row['goal'] / 1e6:>7.0f}{beside}")
    block, entry = rest["smallest_launch_us"], rest["entry_us"]
    load = f"a kernel loads in {rest['load_ms']:.1f} ms"
    print(f"{load}; one block of 256 threads takes {block:.0f} us; an entry point {entry:.1f} us\n")


if __name__ == "__main__":
    sys.exit(main())
