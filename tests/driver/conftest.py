"""After each test, check that nothing is left behind. (tests/conftest.py chooses the driver.)"""

from __future__ import annotations

import ctypes
import gc
import sys
import types
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.subject import module, rawcuda

FAILED = pytest.StashKey[bool]()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out test_every_call.py, whose interrupts leave objects behind, unless it has a process for itself."""
    return True if collection_path.name == "test_every_call.py" and not config.getoption("every_call") else None


@pytest.fixture(autouse=True)
def nothing_left_behind(request: pytest.FixtureRequest, library: Any) -> Iterator[None]:
    """Fail a test that leaves handles alive or a context pushed, or in which an exception was swallowed."""
    before, context = _handles_before(library), _current_context()
    yield
    if request.node.stash.get(FAILED, False):  # the traceback of a failed test keeps its objects alive
        _swallowed(library)
        return
    swallowed, pushed = _swallowed(library), _current_context() != context
    after = _handles(library)
    if after != before:  # check again: pending work may keep alive what it uses
        for each in rawcuda.devices():
            each.synchronize()
        after = _handles(library)
    swallowed += _swallowed(library)
    leaked = {
        kind: f"{before.get(kind, 0)} before, {count} after"
        for kind, count in after.items()
        if count > before.get(kind, 0)
    }
    assert not swallowed, f"swallowed in a callback of the emulator: {swallowed}"
    if request.node.get_closest_marker("counts_handles") is None:
        assert not leaked, f"handles leaked: {leaked}"
    assert not pushed, "the current context is not the same as before"
    if after == before:
        # What is alive now stays, such as emulators that a test made, which are never freed. The collections of later
        # tests, of which each test has two, do not go through it again.
        gc.freeze()


@pytest.fixture
def only_new_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let Device.reset() search only objects that are newer than the test before: all of them take half a second.

    One test in test_reset.py lets it search all objects. There is no gc.get_objects(): a list of all objects refers to
    the tuples that other threads make now, and tuple(generator) then raises SystemError.
    """
    found = types.SimpleNamespace(unfreeze=lambda: None, get_referrers=gc.get_referrers, collect=gc.collect)
    monkeypatch.setattr(module("gpu.devices.resetting"), "gc", found)


def _handles_before(library: Any) -> dict[str, int]:
    """Count as _handles() does, and without a collection if nothing has been made since the last one."""
    counts = {} if library is None else dict(library.live_handles())
    counts.pop("context", None)
    return counts if counts == _counted else _handles(library)


_counted: dict[str, int] = {}  # by the last call of _handles()


def _handles(library: Any) -> dict[str, int]:
    """Count the live handles by kind, after a garbage collection and the release of collected handles.

    Primary contexts are not counted, because they stay retained after their first use.
    """
    gc.collect()
    if sys.platform == "emscripten":
        module("dlpack").sweep()  # no destructor has freed what nobody consumed; the next export would do it
    module("ownership").drain()
    for point in tuple(module("gpu.core.points").retained):  # its event goes with the others
        if not point.is_reached():
            point.wait()
        point.end()
    for primary in module("gpu.core.context")._contexts.values():
        primary.forget()  # kernels of our own that a context keeps
    counts = {} if library is None else dict(library.live_handles())
    counts.pop("context", None)
    _counted.clear()
    _counted.update(counts)
    return counts


def _swallowed(library: Any) -> list[BaseException]:
    """Return the exceptions that the emulator kept because they cannot pass through C code."""
    if library is None:
        return []
    kept = list(library.kept_exceptions)
    library.kept_exceptions.clear()
    return kept


def _current_context() -> int | None:
    """Return the context that is current in this thread."""
    context = module("headers.cuda_h").CUcontext()
    rawcuda.cu.cuCtxGetCurrent(ctypes.byref(context))
    return context.value


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Record which tests failed, so that nothing_left_behind reports no second failure for them."""
    report = yield
    item.stash[FAILED] = item.stash.get(FAILED, False) or report.failed
    return report


@pytest.fixture
def second(library):
    """Return the second device."""
    if len(rawcuda.devices()) < 2:
        pytest.skip("only one device")
    return rawcuda.Device(1)
