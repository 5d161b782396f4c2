"""What a browser lacks: a test that asks for it is skipped there, with this as its reason."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import threading
from collections.abc import Iterator
from typing import Any, Callable

import pytest

__all__ = ["Imports", "refuse"]


def refuse() -> None:
    """Replace what cannot work by functions that skip the test which calls them."""
    replaced: Any = subprocess.Popen
    replaced.__init__ = _skipping("processes")
    replaced.__del__ = lambda self: None
    thread: Any = threading.Thread
    thread.start = _skipping("threads")
    for module, name in (os, "fork"), (signal, "setitimer"), (signal, "alarm"), (asyncio, "run"):
        setattr(module, name, _skipping(name))


class Imports:
    """A plugin that skips a file or a test which imports a module that is not there."""

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_call(self) -> Iterator[None]:
        outcome: Any = yield
        error = None if outcome.excinfo is None else outcome.excinfo[1]
        if "does not fit a pointer, which has" in str(error):
            outcome.force_exception(pytest.skip.Exception("in a browser DLPack exports no device memory"))
        elif isinstance(error, ModuleNotFoundError) or type(error).__name__ == "CompilerNotFound":
            what = error.name if isinstance(error, ModuleNotFoundError) else "compiler for CUDA C"
            outcome.force_exception(pytest.skip.Exception(f"in a browser there is no {what}"))

    @pytest.hookimpl(hookwrapper=True)
    def pytest_make_collect_report(self, collector: pytest.Collector) -> Iterator[None]:
        report = (yield).get_result()  # type: ignore[misc]
        lacking = re.search(r"ModuleNotFoundError: No module named '([\w.]+)'", str(report.longrepr))
        if report.failed and lacking:
            report.outcome = "skipped"
            report.longrepr = str(collector.path), None, f"Skipped: in a browser there is no {lacking[1]}"


def _skipping(what: str) -> Callable[..., None]:
    def skip(*_: object, **__: object) -> None:
        pytest.skip(f"in a browser there is no {what}")

    return skip
