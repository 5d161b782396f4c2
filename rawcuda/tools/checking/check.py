"""`check`: whether the driver of this machine does what this package needs, in one row for each feature.

What it is   the command: it runs the rows of groups/, prints a table, and writes a report as JSON.
What not     it needs no other package, and sends no data.
Read next    rows.py
"""

from __future__ import annotations

import argparse
import json
import platform
import sys

from ... import __version__, driver
from ...errors import RawCudaError
from ...gpu.device import devices
from .. import terminal
from ..commands.console import (
    PACKAGE,
    NoGpu,
    Parser,
    Refusal,
    add_driver,
    advised,
    chosen_by,
    connect,
    first_line,
    is_emulator,
)
from . import rows, workers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

__all__ = ["main", "make_parser"]

GROUPS = ("device", "memory", "copies", "launches", "graphs", "order", "exchange", "failures")
_SHOWN = {rows.OK: "good", rows.FAILED: "bad", rows.MISSING: "quiet"}


def make_parser() -> Parser:
    """Return the parser of the command line."""
    parser = Parser(
        "check",
        "Test the driver of this machine in less than a minute: every kind of memory, copy and launch, graphs, the "
        "order of streams, and the exchange with the libraries that are installed. Each row compares its results with "
        "the expected ones. The rows run in another process: one that crashes or hangs does not stop the others. The "
        "exit status is 0 if no row failed.",
        "The report is what you can send with a bug report. It contains the rows, the versions of the driver, Python "
        f"and the system, and the names of the devices.\n\nGROUP is one of {', '.join(GROUPS)}.",
    )
    parser.add_argument("group", metavar="GROUP", nargs="?", help="run the rows of one group only")
    parser.add_argument("--device", metavar="N", type=int, default=0, help="which GPU, numbered from 0")
    parser.add_argument(
        "--json",
        metavar="FILE",
        default=f"{PACKAGE.rpartition('.')[2]}-check.json",
        help="write the report to this file; - prints the report instead of the table (default: %(default)s)",
    )
    parser.add_argument("--no-report", action="store_true", help="write no report")
    parser.add_argument("--timeout", metavar="SECONDS", type=float, default=60, help="for each row (default: 60)")
    parser.add_argument("--one-process", action="store_true", help="run the rows in this process, for a debugger")
    parser.add_argument("--worker", metavar="ROWS", help=argparse.SUPPRESS)
    add_driver(parser, "without it the GPU's")
    return parser


def main(arguments: list[str]) -> int:
    """Run the rows; return 1 if one failed."""
    options = make_parser().read(arguments)
    if options.worker is not None:
        return workers.worker_main(options.driver, options.device, options.worker)
    if options.group is not None and options.group not in GROUPS:
        raise Refusal(f"{options.group!r} is not a group of rows: the groups are {', '.join(GROUPS)}")
    if not 0 < options.timeout < 1e6:
        raise Refusal(f"--timeout {options.timeout:g}: give a number of seconds above 0")
    try:
        loaded = connect(options.driver)
    except NoGpu as missing:
        raise advised(missing) from None
    head = first_line(loaded, chosen_by(options.driver))
    count = len(devices())
    if not 0 <= options.device < count:
        raise Refusal(f"--device {options.device}: this machine has {count} devices, numbered from 0")
    quiet = options.json == "-"
    if not quiet:
        print(terminal.folded(head), flush=True)
    numbers = workers.chosen(options.group)
    alone = options.one_process or not sys.executable
    found = (
        workers.outcomes_here(options.device, numbers)
        if alone
        else workers.outcomes(options.driver, options.device, numbers, options.timeout)
    )
    told = _told(found, quiet)
    return _finish(told, report(loaded, told), options, quiet)


def _told(found: Iterable[rows.Outcome], quiet: bool) -> list[rows.Outcome]:
    """Print each outcome as it comes, under the name of its group, and return all."""
    told: list[rows.Outcome] = []
    for one in found:
        if not quiet:
            if not told or told[-1].group != one.group:
                print(f"\n{terminal.painted(one.group, 'strong')}")
            print(_line(one), flush=True)
        told.append(one)
    return told


def _line(one: rows.Outcome) -> str:
    """Return the lines of a row: its state, its name and a remark, which begins on a new line if it is long."""
    state, size = terminal.painted(f"{one.state:8}", _SHOWN[one.state]), terminal.width()
    line = f"  {'':8}  {one.name:40}{one.remark}"
    if one.state != rows.FAILED and "\n" not in one.remark and len(line) < size:
        return f"  {state}  {one.name:40}{one.remark}".rstrip()
    made = f"  {state}  " + terminal.folded(one.name, columns=size - 12).replace("\n", "\n" + " " * 12)
    return made + ("\n" + terminal.folded(one.remark, " " * 12) if one.remark else "")


def report(loaded: driver.Driver, told: list[rows.Outcome]) -> dict[str, Any]:
    """Return what the JSON file contains."""
    found = []
    for device in devices():
        try:
            major, minor = device.compute_capability
            found.append({"name": device.name, "compute_capability": f"{major}.{minor}", "memory": device.total_memory})
        except RawCudaError as error:
            found.append({"error": str(error)})
    return {
        "package": PACKAGE,
        "version": __version__,
        "driver": "emulator" if is_emulator(loaded) else "nvidia",
        "cuda": loaded.version,
        "python": platform.python_version(),
        "system": platform.platform(),
        "devices": found,
        "failed": sum(one.state == rows.FAILED for one in told),
        "rows": [one._asdict() for one in told],
    }


def _finish(told: list[rows.Outcome], made: dict[str, Any], options: Any, quiet: bool) -> int:
    """Print the verdict, write the report, and return the exit status."""
    text = json.dumps(made, indent=1) + "\n"
    failed = made["failed"]
    if quiet:
        print(text, end="")
        return 1 if failed else 0
    passed, absent = (sum(one.state == state for one in told) for state in (rows.OK, rows.MISSING))
    verdict = f"{passed} rows passed, {failed} failed, {absent} not here."
    print("\n" + terminal.painted(terminal.folded(verdict), "bad" if failed else "good"))
    if not options.no_report:
        try:
            with open(options.json, "w", encoding="utf-8") as file:
                file.write(text)
            print(terminal.folded(f"The report is in {options.json}: send it with a bug report."))
        except OSError as error:
            print(terminal.folded(f"The report could not be written ({error}): --json FILE writes it elsewhere."))
            return 1
    return 1 if failed else 0
