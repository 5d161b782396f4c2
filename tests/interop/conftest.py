"""Tests here have no driver, even after tests of tests/driver: all memory is host memory, some of it labelled CUDA.

The tests that use the fixture `device` are the device half. They need a GPU (or, in a process that
test_device_half.py starts, the emulator). Their results are written to tests/interop/systems_gpu.json and
docs/systems_gpu.md.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.subject import module

EMULATED = "DEVICE_HALF_ON_THE_EMULATOR"
OUTCOMES = pytest.StashKey["dict[str, dict[str, str]]"]()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Ignore the device half without a GPU; test_device_half.py shows on the emulator that its tests work."""
    if (
        collection_path.name == "test_device_systems.py"
        and config.getoption("driver") != "nvidia"
        and EMULATED not in os.environ
    ):
        return True
    return None


@pytest.fixture(autouse=True)
def no_driver(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the driver that the tests of another folder chose, and the driver of this machine."""
    if "device" not in request.fixturenames:
        monkeypatch.setattr(module("driver"), "_current", None)
        monkeypatch.setattr(module("driver"), "_chosen", "/no/such/libcuda.so.1")  # and none is found


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if "device" in getattr(item, "fixturenames", ()) and (report.when == "call" or report.outcome != "passed"):
        reason = ""
        if report.skipped and isinstance(report.longrepr, tuple):
            reason = f": {report.longrepr[2]}"
        elif report.failed and call.excinfo is not None:
            reason = f": {call.excinfo.exconly().splitlines()[0]}"
        test, _, parameters = item.name.partition("[")
        outcomes = item.config.stash.setdefault(OUTCOMES, {})
        outcomes.setdefault(test, {})[parameters.rstrip("]") or "-"] = report.outcome + reason
    return report


def pytest_sessionfinish(session: pytest.Session) -> None:
    outcomes = session.config.stash.get(OUTCOMES, None)
    if outcomes and session.config.getoption("driver") == "nvidia":
        from tests.interop.device_report import write

        write(outcomes)
