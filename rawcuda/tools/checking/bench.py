"""`bench`: how fast the driver of this machine is when it is called through this package.

What it is   the command: each row times one operation, and gives the median of several rounds; also as JSON.
What not     a comparison with other packages: the repository's benchmarks do that. On the emulator, the figures tell
             nothing about a GPU.
Read next    speed.py
"""

from __future__ import annotations

import json
from pathlib import Path

from ...gpu.devices.device import Device, devices
from .. import terminal
from ..commands.compile import write
from ..commands.console import (
    NoGpu,
    Parser,
    Refusal,
    add_driver,
    advised,
    check_folder,
    chosen_by,
    connect,
    first_line,
    is_emulator,
)
from . import rows, speed
from .report import report

__all__ = ["main", "make_parser"]


def make_parser() -> Parser:
    """Return the parser of the command line."""
    parser = Parser(
        "bench",
        "Measure the driver of this machine: calls, launches, copies, allocations, graphs, kernels. Each figure is the "
        "median of several rounds.",
    )
    parser.add_argument("words", metavar="WORD", nargs="*", help="measure only the rows that contain every word")
    parser.add_argument("--device", metavar="N", type=int, default=0, help="which GPU, numbered from 0")
    parser.add_argument("--json", metavar="FILE", help="also write the figures to this file; - prints only JSON")
    parser.add_argument("--rounds", metavar="N", type=int, default=7, help="how often each row is timed (default: 7)")
    add_driver(parser, "without it the GPU's")
    return parser


def main(arguments: list[str]) -> int:
    """Measure; return 1 if a row failed."""
    options = make_parser().read(arguments)
    if options.rounds < 1:
        raise Refusal(f"--rounds {options.rounds}: give 1 or more")
    quiet = options.json == "-"
    if not quiet and options.json is not None:
        check_folder(options.json)
    try:
        loaded = connect(options.driver)
    except NoGpu as missing:
        raise advised(missing) from None
    if not 0 <= options.device < len(devices()):
        raise Refusal(f"--device {options.device}: this machine has {len(devices())} devices, numbered from 0")
    wanted = [one for one in speed.ROWS if all(word in one.name for word in options.words)]
    if not wanted:
        raise Refusal(
            f"no row contains {' and '.join(options.words)}: the rows are {', '.join(r.name for r in speed.ROWS)}"
        )
    if not quiet:
        terminal.say(terminal.folded(first_line(loaded, chosen_by(options.driver))) + "\n", flush=True)
    given, figures, failed = rows.Given(Device(options.device)), [], 0
    for one in wanted:
        figure = speed.measure(one, given, options.rounds, small=is_emulator(loaded))
        figures.append(figure._asdict())
        failed += bool(figure.error)
        if not quiet:
            _show(figure)
    made = {**report(loaded, []), "failed": failed, "rows": figures}
    if options.json is not None:
        text = json.dumps(made, indent=1) + "\n"
        if quiet:
            terminal.say(text, end="")
        else:
            write(Path(options.json), text.encode())
    if failed:
        return 1
    return 0


def _show(figure: speed.Figure) -> None:
    """Print a row: its name, the figure, and its unit."""
    if figure.error:
        terminal.say((terminal.folded(f"{figure.name}: FAILED: {figure.error}", "    ", ""), "bad"), flush=True)
        return
    value = f"{figure.value:10,.3f} {figure.unit}"
    if len(figure.name) + len(value) + 2 > terminal.width() or terminal.narrow():
        terminal.say(f"{terminal.folded(figure.name)}\n{value}", flush=True)
    else:
        terminal.say(f"{figure.name:44}{value}", flush=True)
