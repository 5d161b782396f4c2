"""A plugin of pytest that runs tests which use CUDA on the emulator: `pytest -p` with the name of this module.

What it is   the emulator becomes this process's libcuda.so.1 before the first conftest is imported. If a kernel makes
             an invalid access, or the checkers find another error, the test fails, even if it is skipped afterwards,
             and the message gives the line of the launch. After an error that makes a context unusable, the next test
             can use it again.
What not     it adds no fixture and no assertion: tests need no change.
Read next    emulator/impersonating/loading.py
"""

from __future__ import annotations

import gc
import linecache
import re
import sys
import time
import unittest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator
    from typing import Any

    from .emulator.machine.holdings import Holding
    from .emulator.machine.queues import Work

__all__ = ["pytest_addoption"]

_MARK, _LEAK, _EXPECTED = "emulate", "memory left allocated", "found in a test that was expected to fail"
_SETTINGS = "RAWCUDA_EMULATOR"
_PATIENCE, _PATIENCE_AT_END = 1.0, 30.0  # seconds to wait for values and host functions


def pytest_addoption(parser: Any, pluginmanager: Any) -> None:
    """Add the options, and register the object that has the hooks."""
    group = parser.getgroup("emulate", "CUDA on the emulator")
    group.addoption("--emulate", metavar="WORDS", default="", help=f"words for {_SETTINGS}, such as strict or lazy")
    group.addoption(
        "--emulate-leaks",
        nargs="?",
        const="report",
        choices=("report", "fail"),
        help="report the memory that each test leaves allocated, or let the test fail",
    )
    group.addoption("--emulate-doctor", action="store_true", help="show the functions that were called or are missing")
    pluginmanager.register(_follower())


def _follower() -> Any:
    """Return an object with the hooks that need pytest's decorators.

    Why long  pytest's decorators exist only once pytest is imported, so the class with all hooks is made here
    """
    import pytest

    from .errors import shown

    class Follower:
        """The hooks around tests."""

        emulator: Any = None

        @pytest.hookimpl(hookwrapper=True, tryfirst=True)
        def pytest_load_initial_conftests(self, early_config: Any) -> Generator[None, Any, None]:
            """Impersonate libcuda before any conftest.py is imported."""
            import os

            from .emulator import impersonate

            given = early_config.known_args_namespace.emulate
            if given and sys.flags.ignore_environment:
                raise pytest.UsageError(
                    f"--emulate {given}: the emulator reads its words from {_SETTINGS}, which python -E and -I ignore: "
                    "leave these out"
                )
            words = [os.environ.get(_SETTINGS, ""), given]
            os.environ[_SETTINGS] = ",".join(word for word in words if word)
            try:
                self.emulator = impersonate()
                self.emulator._machine.aloud = False  # reports become failures of tests
            except (RuntimeError, NotImplementedError, OSError, ValueError) as error:
                raise pytest.UsageError(str(error)) from None
            yield

        def pytest_configure(self, config: Any) -> None:
            """Describe the mark, and choose what is reported."""
            if self.emulator is None:  # a conftest.py has named it, after the imports that it comes before
                raise pytest.UsageError(f"give {__name__} on the command line of pytest: -p {__name__}")
            config.addinivalue_line(
                "markers", f"{_MARK}(reports=True): the checker's reports are expected in this test"
            )
            self.leaks, self.doctor = config.getoption("emulate_leaks"), config.getoption("emulate_doctor")

        def pytest_report_header(self) -> str:
            """Say where kernels run."""
            return f"CUDA: {self.emulator!r} (no GPU is used)"

        @pytest.hookimpl(hookwrapper=True)
        def pytest_runtest_protocol(self, item: Any) -> Generator[None, Any, None]:
            """Make reports name lines of the test's file where possible."""
            machine = self.emulator._machine
            machine.program = {str(getattr(item, "path", "") or item.fspath)}
            machine.space.told.clear()  # findings that an earlier test had
            if self.leaks:
                self.before = _allocations(self.emulator)
            else:
                self.before = {}
            yield
            machine.program = set()

        @pytest.hookimpl(hookwrapper=True)
        def pytest_runtest_setup(self, item: Any) -> Generator[None, Any, None]:
            """Fail the test if there are findings in its fixtures."""
            outcome = yield
            self.judge(item, "setup", outcome)

        @pytest.hookimpl(hookwrapper=True)
        def pytest_runtest_call(self, item: Any) -> Generator[None, Any, None]:
            """Fail the test if there are findings."""
            outcome = yield
            self.judge(item, "call", outcome)

        @pytest.hookimpl(hookwrapper=True)
        def pytest_runtest_teardown(self, item: Any) -> Generator[None, Any, None]:
            """Fail the test if there are findings at the end of its fixtures, or leaks if the options say so."""
            outcome = yield
            self.judge(item, "teardown", outcome)
            if self.leaks:
                left = self.leaked(self.before)
            else:
                left = []
            if self.leaks == "report":
                item.user_properties += [(_LEAK, text) for text in left]  # pytest-xdist's workers send these on
            elif left and outcome.excinfo is None:
                text = "\n".join(["the test left memory allocated:", *left])
                outcome.force_exception(pytest.fail.Exception(text, pytrace=False))

        def judge(self, item: Any, when: str, outcome: Any) -> None:
            """Finish all work, take the findings, and fail the test if there are any."""
            patience = _PATIENCE_AT_END if when == "teardown" else _PATIENCE  # the end of a fixture may let work go on
            found = _take(self.emulator, patience, when == "teardown")
            mark = item.get_closest_marker(_MARK)
            if not found or mark is not None and mark.kwargs.get("reports"):
                return
            text = shown("\n\n".join(map(_worded, found)))
            raised = _raised(item, outcome)
            if raised is None or isinstance(raised, (pytest.skip.Exception, unittest.SkipTest)):
                vars(item).pop("_excinfo", None)  # set by a test of unittest: pytest would report it instead
                outcome.force_exception(pytest.fail.Exception(text, pytrace=False))
            else:
                item.add_report_section(when, "emulator", text)
            if isinstance(raised, pytest.xfail.Exception) or item.get_closest_marker("xfail") is not None:
                item.user_properties.append((_EXPECTED, text))  # pytest shows no report of such a test

        def leaked(self, before: dict[int, Holding]) -> list[str]:
            """Return a line for each allocation that is not in `before` and was not freed."""
            gc.collect()
            after = _allocations(self.emulator)
            return [
                f"{holding.allocation.describe()} at {base:#x}"
                + (f", allocated at {shown(holding.allocation.origin)}" if holding.allocation.origin else "")
                for base, holding in after.items()
                if base not in before
            ]

        def pytest_terminal_summary(self, terminalreporter: Any) -> None:
            """Show the findings in tests that were expected to fail, leaks, and the functions that were called."""
            expected = {
                f"{report.nodeid}: {text}": None
                for report in terminalreporter.stats.get("xfailed", ())
                for name, text in report.user_properties
                if name == _EXPECTED
            }
            if expected:
                terminalreporter.section("findings in tests that were expected to fail")
                for line in expected:
                    terminalreporter.write_line(line)
            left = {
                f"{report.nodeid}: {text}": None
                for reports in terminalreporter.stats.values()
                for report in reports
                for name, text in getattr(report, "user_properties", ())
                if name == _LEAK
            }
            if left:
                terminalreporter.section("memory that tests left allocated")
                for line in left:
                    terminalreporter.write_line(line)
            if self.doctor:
                from .emulator.impersonating.loading import told_here

                terminalreporter.section("driver calls")
                for line in told_here():
                    terminalreporter.write_line(shown(line))

    return Follower()


def _allocations(emulator: Any) -> dict[int, Holding]:
    """Return the allocations of all contexts, by address."""
    machine = emulator._machine
    with machine.lock:
        return _held(machine)


def _held(machine: Any) -> dict[int, Holding]:
    return {
        base: holding
        for context in _contexts(machine)
        for base, holding in context.holdings.items()
        if not holding.released
    }


def _take(emulator: Any, patience: float, is_end: bool) -> list[str]:
    """Finish all work, return the findings since the last call, and make lost contexts usable again.

    patience  seconds to wait for values and host functions
    is_end    whether work that has not ended by then is a finding, and is dropped
    """
    machine, until = emulator._machine, time.monotonic() + patience
    if machine.pid:
        with machine.lock:
            _complete(machine, until)
            if is_end:
                _drop(machine)
    found = list(machine.findings)
    machine.findings.clear()
    if found:
        with machine.lock:
            _revive(machine)
    return found


def _complete(machine: Any, until: float) -> None:
    for context in _contexts(machine):
        machine.queues.complete_context(context, until)


def _drop(machine: Any) -> None:
    """Make each context with work that has not ended unusable, so that this work does nothing and counts as done.

    What runs in another thread, such as a host function, cannot be ended: it is left to that thread.
    """
    for work in _pending(machine):
        text = (
            f"{work.name} in {work.stream!r} has not ended {_PATIENCE_AT_END:g} seconds after the test: let it end "
            "before the test does, or in a fixture, also if the test fails"
        )
        work.stream.context.lose(702, text)
    while _pending(machine):  # the callbacks of cuStreamAddCallback begin in an unusable context, too
        machine.queues.leave()
        _complete(machine, 0.0)


def _pending(machine: Any) -> list[Work]:
    """Return the first work of each stream that still has work."""
    streams = [stream for context in _contexts(machine) for stream in list(context.streams.values())]
    return [stream.queue[0] for stream in streams if stream.queue]


def _revive(machine: Any) -> None:
    for context in _contexts(machine):
        context.revive()


def _raised(item: Any, outcome: Any) -> BaseException | None:
    """Return what a test raised, or None; for a test of unittest, pytest keeps this in the item."""
    if outcome.excinfo is not None:
        raised: BaseException = outcome.excinfo[1]
        return raised
    kept = getattr(item, "_excinfo", None)
    return kept[0].value if kept else None


def _contexts(machine: Any) -> list[Any]:
    return [thing for thing in machine.handles.values() if type(thing).__name__ == "Context"]


def _worded(finding: str) -> str:
    """Return the text of a finding, with the line of the launch first."""
    place = getattr(finding, "launch", "")
    if not place:
        return finding
    file, _, number = place.rpartition(":")
    line = linecache.getline(file, int(number)).strip()
    begin = f"{place}: the kernel that is launched here is wrong\n" + (f">   {line}\n" if line else "")
    return begin + re.sub(r"\n    launched at .*", "", finding, count=1)
