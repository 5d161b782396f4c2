"""Error codes that the package received from the driver and told nobody: each of them fails the test.

What it is   `Watch`, which the emulator tells the code of each failed call. A call of the package that fails must raise
             an exception in the code that called the package; otherwise its code is *unexpected*. Tools such as
             compute-sanitizer and cuda-gdb stop at, or print, every failed call, so that a program without faults must
             make none.
How          The Driver makes the exception for a code. When it is freed, its traceback tells who caught it: its first
             frame is the one that the exception reached. The exceptions of whose handling it was raised have reached
             the same frame.
What not     the codes of calls that tests make themselves, which they check; planned failures, from which the package
             has to recover; the codes of a lost context, which every later call returns again; codes by which a
             function answers a question, such as "not ready" (headers/behaviour.py).
Read next    conftest.py
"""

from __future__ import annotations

import os
import sys
from typing import Any

from .subject import FOLDER, module

__all__ = ["Watch"]

_PACKAGE, _EMULATOR = f"{FOLDER}{os.sep}", f"{FOLDER / 'emulator'}{os.sep}"
_ENDED = (4, 709)  # the driver has ended; the context was destroyed


class Failed:
    """A call of the package that failed: what it is, and what became of its code."""

    def __init__(self, name: str, code: int, where: str) -> None:
        self.name, self.code, self.where = name, code, where
        self.fate = "was ignored"

    def __str__(self) -> str:
        return f"{self.name} returned {self.code} {self.where}; it {self.fate}"


class Watch:
    """The failed calls of the package on an emulator whose fate is not known yet, or that nobody was told about."""

    def __init__(self, emulator: Any) -> None:
        self._calls: list[Failed] = []
        self._again = {*module("emulator.machine.codes").STICKY, *_ENDED}
        self._answers = module("headers.behaviour").answers
        self._planned = module("emulator.machine.failures").PLANNED
        loaded, errors = module("driver"), module("errors")
        self._made, loaded.from_code = loaded.from_code, self._make
        errors.RawCudaError.__del__ = lambda error: self._end(error)
        emulator._machine.refused = self._refused

    def take(self) -> list[str]:
        """Return a text for each call that nobody was told about, and forget these calls."""
        unexpected = [call for call in self._calls if call.fate != _RAISED]
        self._calls = [call for call in self._calls if call.fate == _RAISED]
        return list(map(str, unexpected))

    def _refused(self, name: str, code: int, report: str) -> None:
        """Note a call that failed, if the package made it."""
        if code in self._again or code in self._answers(name):
            return
        if report.startswith(self._planned):
            return
        frame: Any = sys._getframe()
        while frame is not None and (
            frame.f_code.co_filename.startswith((__file__, _EMULATOR)) or frame.f_code.co_name == "guarded"
        ):
            frame = frame.f_back
        if _is_ours(frame):
            self._calls.append(Failed(name, code, _where(frame)))

    def _make(self, code: int, *rest: Any, **named: Any) -> Any:
        """Make the exception for a code, and let it remember the call that it is about."""
        error = self._made(code, *rest, **named)
        for call in reversed(self._calls):
            if (call.name, call.code, call.fate) == (error.call, code, "was ignored"):
                error.failed, call.fate = call, _RAISED
                break
        return error

    def _end(self, error: Any) -> None:
        """Note who caught an exception that ends now."""
        trace = error.__traceback__
        frame = trace and trace.tb_frame
        if frame is None or _is_ours(frame):
            call = vars(error).get("failed")
            if call in self._calls:
                call.fate = f"became an exception, which was caught {_where(frame)}"
            return
        told: Any = error
        while told is not None:
            call = getattr(told, "failed", None)
            if call in self._calls:
                self._calls.remove(call)
            told = told.__context__


_RAISED = "became an exception"


def _is_ours(frame: Any) -> bool:
    return frame is not None and frame.f_code.co_filename.startswith(_PACKAGE)


def _where(frame: Any) -> str:
    """Return the innermost places of a frame in the package, and the first one outside."""
    places = []
    while frame is not None:
        places.append(f"{os.path.relpath(frame.f_code.co_filename, FOLDER.parent)}:{frame.f_lineno}")
        if not _is_ours(frame):
            break
        frame = frame.f_back
    return "at " + " < ".join(places if len(places) < 6 else [*places[:4], "...", places[-1]])
