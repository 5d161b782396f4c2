"""`check`: whether the driver of this machine does what this package needs, in one row for each feature.

What it is   the command: it runs the rows of groups/, prints a table, and writes a report as JSON.
What not     it needs no other package, and sends no data.
Read next    rows.py, report.py
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from ...gpu.devices.device import devices
from .. import terminal
from ..commands.compile import write
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
)
from . import rows, workers
from .report import report

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

__all__ = ["main", "make_parser"]

_SHOWN = {rows.OK: "good", rows.FAILED: "bad", rows.MISSING: "quiet", rows.NOT_ASKED: "quiet"}


def make_parser() -> Parser:
    """Return the parser of the command line."""
    parser = Parser(
        "check",
        "Test the driver of this machine in less than a minute: every kind of memory, copy and launch, graphs, the "
        "order of streams, and the exchange with the libraries that are installed. Each row compares its results with "
        "the expected ones. The rows run in another process: one that crashes or hangs does not stop the others. The "
        "exit status is 0 if no row failed.",
        "The report is what you can send, with a bug report or just as it is. It contains the rows, the versions of "
        "the driver, Python and the system, the attributes and limits of the devices, and the environment variables of "
        f"CUDA.\n\nGROUP is one of {', '.join(rows.GROUPS)}.",
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
    parser.add_argument("--seed", metavar="N", type=int, help="run the rows in a random order, which N determines")
    parser.add_argument("--one-process", action="store_true", help="run the rows in this process, for a debugger")
    parser.add_argument("--worker", metavar="ROWS", help=argparse.SUPPRESS)
    add_driver(parser, "without it the GPU's")
    return parser


def main(arguments: list[str]) -> int:
    """Run the rows; return 1 if one failed."""
    options = make_parser().read(arguments)
    if options.worker is not None:
        return workers.worker_main(options.driver, options.device, options.worker)
    if options.group is not None and options.group not in rows.GROUPS:
        raise Refusal(f"{options.group!r} is not a group of rows: the groups are {', '.join(rows.GROUPS)}")
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
        terminal.say(terminal.folded(head), flush=True)
    numbers = workers.chosen(options.group, options.seed)
    alone = options.one_process or not sys.executable
    if alone:
        found = workers.outcomes_here(options.device, numbers)
    else:
        found = workers.outcomes(options.driver, options.device, numbers, options.timeout)
    told = _told(found, quiet, options.seed is None)
    return _finish(told, report(loaded, told, options.seed), options, quiet)


def _told(found: Iterable[rows.Outcome], quiet: bool, grouped: bool) -> list[rows.Outcome]:
    """Print each outcome as it comes, under the name of its group if they come in groups, and return all."""
    told: list[rows.Outcome] = []
    for one in found:
        if not quiet:
            if grouped and (not told or told[-1].group != one.group):
                terminal.say("\n", (one.group, "strong"))
            if grouped:
                name = one.name
            else:
                name = f"{one.group}: {one.name}"
            terminal.say("  ", (f"{one.state:9}", _SHOWN[one.state]), _rest(one, name), flush=True)
        told.append(one)
    return told


def _rest(one: rows.Outcome, name: str) -> str:
    """Return what follows a row's state: its name and a remark, which begins on a new line if it is long."""
    size, line = terminal.width(), f"  {name:40}{one.remark}"
    if one.state != rows.FAILED and "\n" not in one.remark and len(name) < 40 and len(line) + 11 < size:
        return line.rstrip()
    made = "  " + terminal.folded(name, columns=size - 13).replace("\n", "\n" + " " * 13)
    return made + ("\n" + terminal.folded(one.remark, " " * 13) if one.remark else "")


def _why_send(untested: str) -> str:
    if untested:
        return f"it is the first one from {untested}, so please send it, also if every row passed"
    return "send it with a bug report"


def _finish(told: list[rows.Outcome], made: dict[str, Any], options: Any, quiet: bool) -> int:
    """Print the verdict, write the report, and return the exit status."""
    text = json.dumps(made, indent=1) + "\n"
    failed = made["failed"]
    if quiet:
        terminal.say(text, end="")
        if failed:
            return 1
        return 0
    passed, absent, rest = (
        sum(one.state == state for one in told) for state in (rows.OK, rows.MISSING, rows.NOT_ASKED)
    )
    verdict = f"{passed} rows passed, {failed} failed, {absent} not here, {rest} not asked."
    terminal.say("\n", (terminal.folded(verdict), "bad" if failed else "good"))
    if not options.no_report:
        try:
            write(Path(options.json), text.encode())  # which follows no link that somebody has put there
            terminal.say(terminal.folded(f"The report is in {options.json}: {_why_send(made['untested'])}."))
        except OSError as error:
            terminal.say(
                terminal.folded(f"The report could not be written ({error}): --json FILE writes it elsewhere.")
            )
            return 1
    if failed:
        return 1
    return 0
