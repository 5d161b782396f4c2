"""A plugin of pytest that measures where the processor time of a run goes: `python3 -m tests --times`.

The time is that of the test's process and of the processes that it started and waited for, so that other programs on
the machine change it little. The tables are by file, by fixture, by kind of work, and by test.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest

LONGEST = 40  # tests, files and fixtures in a table
Table = dict[str, list[float]]  # name: seconds, and how often


def used() -> tuple[float, float]:
    """Return the seconds of processor time of this process, and of its children that have ended."""
    now = os.times()
    return now.user + now.system, now.children_user + now.children_system


class Measure:
    """What one process measures: the tests, the fixtures, and the kinds of work that can be told apart inside it."""

    def __init__(self) -> None:
        self.work: Table = {}
        self.depth: dict[str, int] = defaultdict(int)

    def add(self, kind: str, seconds: float) -> None:
        """Add to a kind of work."""
        row = self.work.setdefault(kind, [0.0, 0])
        row[0] += seconds
        row[1] += 1

    def wrapped(self, kind: str, function: Any) -> Any:
        """Return a function that measures another one; calls inside a call of the same kind are counted once."""

        def call(*arguments: Any, **options: Any) -> Any:
            if self.depth[kind]:
                return function(*arguments, **options)
            self.depth[kind] += 1
            begin = time.process_time()
            try:
                return function(*arguments, **options)
            finally:
                self.depth[kind] -= 1
                self.add(kind, time.process_time() - begin)

        return call


measure = Measure()


def pytest_configure(config: pytest.Config) -> None:
    """Measure imports and compilations from now on."""
    import builtins
    import importlib
    import subprocess

    from .subject import module

    builtins.__import__ = measure.wrapped("importing, here", builtins.__import__)
    importlib.import_module = measure.wrapped("importing, here", importlib.import_module)
    for place in (module("compiler.nvrtc").Nvrtc, module("compiler.nvcc").Nvcc):
        place.compile = measure.wrapped("compiling CUDA C, here", place.compile)
    code = module("emulator.ptx.ptx_program").Code
    code.__init__ = measure.wrapped("loading PTX, here", code.__init__)
    wait = subprocess.Popen._wait  # type: ignore[attr-defined]

    def waited(self: Any, *arguments: Any, **options: Any) -> Any:
        before = used()[1]
        try:
            return wait(self, *arguments, **options)
        finally:
            more = used()[1] - before
            if more:
                measure.add(f"process: {named(self.args)}", more)

    subprocess.Popen._wait = waited  # type: ignore[attr-defined]


def named(command: Any) -> str:
    """Return a short name of what a process runs."""
    words = [command] if isinstance(command, (str, bytes)) else [str(each) for each in command]
    program = os.path.basename(str(words[0]))
    if program.startswith("python"):
        if "-m" in words:
            return f"python -m {' '.join(words[words.index('-m') + 1 :][:2])}"[:50]
        return "python, a snippet" if "-c" in words else f"python {os.path.basename(words[-1])}"[:50]
    return program[:50]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[Any]:
    """Put the processor time since the last report into the report."""
    report = yield
    here, children = used()
    before = getattr(measure, "before", (here, children))
    report.cpu = [here - before[0], children - before[1]]
    measure.before = here, children  # type: ignore[attr-defined]
    if measure.work:
        report.work, measure.work = measure.work, {}
    return report


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: Any, request: Any) -> Iterator[Any]:
    """Measure a fixture, with those that it needs."""
    begin = sum(used())
    try:
        return (yield)
    finally:
        measure.add(f"fixture: {fixturedef.argname} ({fixturedef.scope}, {fixturedef.baseid})", sum(used()) - begin)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[Any]:
    """Begin a test."""
    measure.before = used()  # type: ignore[attr-defined]
    return (yield)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the tables."""
    files, tests, functions, work = ({} for _ in range(4))  # type: tuple[Table, Table, Table, Table]
    here = children = 0.0
    for reports in terminalreporter.stats.values():
        for report in reports:
            if not hasattr(report, "cpu"):
                continue
            here, children = here + report.cpu[0], children + report.cpu[1]
            file = report.nodeid.partition("::")[0]
            first = report.when == "call"
            for table, name in ((files, file), (tests, report.nodeid), (functions, report.nodeid.partition("[")[0])):
                row = table.setdefault(name, [0.0, 0])
                row[0] += sum(report.cpu)
                row[1] += first
            for kind, (seconds, number) in getattr(report, "work", {}).items():
                row = work.setdefault(kind, [0.0, 0])
                row[0] += seconds
                row[1] += number
    terminalreporter.section("processor time in seconds, and how often")
    lines = [f"{here:9.1f} in the tests' own processes, {children:.1f} in processes that they started"]
    kinds: Table = {}
    fixtures: Table = {}
    for name, row in work.items():
        (fixtures if name.startswith("fixture: ") else kinds)[name] = row
    for title, table in (
        ("file", files),
        ("kind of work", kinds),
        ("fixture", fixtures),
        ("function", functions),
        ("test", tests),
    ):
        lines += ["", f"by {title} ({len(table)})"]
        ordered = sorted(table.items(), key=lambda item: -item[1][0])
        longest = len(ordered) if title in ("file", "function") else LONGEST
        lines += [f"{seconds:9.2f} {int(number):7} {name}" for name, (seconds, number) in ordered[:longest]]
    terminalreporter.write("".join(line + "\n" for line in lines))
