"""A plugin for pytest in a client's own environment: it writes each result at once, and stops when the context is lost.

After an error that ends the context, every later test of the process would fail, too. So the run stops then, and
running.py starts another one, which leaves out the tests that have a result.
"""

from __future__ import annotations

import ctypes
import json
import os

import pytest

_PATH = os.environ["CLIENT_RESULTS"]
_LOST = frozenset((700, 702, 710, 714, 715, 716, 717, 718, 719))


def _write(**row):
    with open(_PATH, "a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


def _rows():
    try:
        with open(_PATH, encoding="utf-8") as file:
            return [json.loads(line) for line in file]
    except FileNotFoundError:
        return []


@pytest.fixture(scope="class")
def initialize_from_pytest_config(request):
    """Do what the conftest.py of numba-cuda's repository does, which its wheel lacks."""
    request.cls._dump_failed_filechecks = False


def pytest_collection_modifyitems(config, items):
    """Leave out what has a result already."""
    done = {row["test"] for row in _rows() if "test" in row}
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in done])
    items[:] = [item for item in items if item.nodeid not in done]


def pytest_runtest_logstart(nodeid, location):
    """Write which test runs, so that a crash can be attributed."""
    _write(started=nodeid)


@pytest.hookimpl(trylast=True)
def pytest_runtest_logreport(report):
    """Write the result of a test."""
    if getattr(report, "context", None) is not None and hasattr(report, "sub_test_description"):
        return
    if report.when == "setup" and report.passed:
        return
    outcome = report.outcome
    if hasattr(report, "wasxfail"):
        outcome = "skipped" if report.skipped else "passed"
    if report.when == "teardown" and outcome != "failed":
        return
    reason = ""
    if outcome == "failed":
        text = str(report.longrepr).strip().splitlines()
        reason = next(
            (line for line in reversed(text) if line[:1].isalpha() and "Error" in line), text[-1] if text else ""
        )
    elif outcome == "skipped" and isinstance(report.longrepr, tuple):
        reason = str(report.longrepr[2])
    _write(test=report.nodeid, outcome=outcome, reason=reason[:400])


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item, nextitem):
    """Stop the run when the context is lost."""
    yield
    try:
        code = ctypes.CDLL("libcuda.so.1").cuCtxSynchronize()
    except OSError:
        return
    if code in _LOST:
        item.session.shouldstop = "the context is lost"


def pytest_sessionfinish(session, exitstatus):
    """Write that all tests have run."""
    if not session.shouldstop:
        _write(finished=int(exitstatus))
