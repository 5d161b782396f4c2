"""Code that tests in several folders use: sweeps, names of dtypes, C arithmetic, threads, the command of a browser."""

from __future__ import annotations

import gc
import inspect
import shutil
import sys
import threading
import traceback
from collections.abc import Iterable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Callable

import pytest

__all__ = [
    "NUMBERS",
    "browser_command",
    "each_opcode",
    "quotient",
    "rest",
    "run_threads",
    "sampled",
    "together",
    "wrap",
]

NUMBERS = (  # the dtypes of numbers that NumPy and this package have
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "float32",
    "float64",
    "complex64",
    "complex128",
)


# -- sweeps


def sampled(values: Iterable[Any], first: int = 3) -> list[Any]:
    """Return the parameters of a sweep: every third value is tested in the suite, and all others with each change.

    first  how many values there are for each that is in the suite
    """
    later = [pytest.mark.heavy, pytest.mark.every_change]
    return [pytest.param(value, marks=later if number % first else []) for number, value in enumerate(values)]


def together(name: str, values: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Like pytest.mark.parametrize, but one test for all values, which fails with the message of each wrong one.

    For checks that take less time than what pytest does for a test, and that leave nothing behind.
    """
    rows = list(values)

    def made(function: Callable[..., None]) -> Callable[..., None]:
        def run(**fixtures: Any) -> None:
            assert rows, f"{function.__name__} has no {name}"
            wrong = []
            for value in rows:
                try:
                    function(**{name: value}, **fixtures)
                except Exception:
                    wrong.append(f"{name} = {value!r}:\n{traceback.format_exc()}")
            if wrong:
                raise AssertionError(f"{len(wrong)} of {len(rows)} are wrong\n" + "\n".join(wrong[:20]))

        signature = inspect.signature(function)
        others = [each for each in signature.parameters.values() if each.name != name]
        run.__name__, run.__doc__, run.__module__ = function.__name__, function.__doc__, function.__module__
        vars(run).update(vars(function), __signature__=signature.replace(parameters=others))  # with its marks
        return run

    return made


# -- C arithmetic


def wrap(value: int, bits: int, signed: bool) -> int:
    """Truncate an integer to a C type."""
    value &= (1 << bits) - 1
    return value - (value >> bits - 1 << bits) if signed else value


def quotient(a: int, b: int) -> int:
    """Divide integers as C does."""
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def rest(a: int, b: int) -> int:
    """Return the remainder as C does."""
    return a - quotient(a, b) * b


# -- threads


def run_threads(work: Callable[[int], object], *collections: int) -> None:
    """Call work(number) in eight threads, which switch as often as possible; fail with the first traceback.

    collections  the thresholds of the garbage collector meanwhile
    """
    failures: list[str] = []

    def guarded(number: int) -> None:
        try:
            work(number)
        except BaseException:
            failures.append(traceback.format_exc())

    interval, thresholds = sys.getswitchinterval(), gc.get_threshold()
    sys.setswitchinterval(1e-6)
    gc.set_threshold(*collections or thresholds)
    try:
        threads = [threading.Thread(target=guarded, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
        gc.set_threshold(*thresholds)
    assert not failures, failures[0]


# -- a browser


def browser_command(profile: Path, *options: Any) -> list[str] | None:
    """Return a command that runs Chromium without a window and without a network, or None if it is not installed."""
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    return found and [
        found,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        f"--user-data-dir={profile}",
        *map(str, options),
    ]


def each_opcode(codes: set[CodeType], work: Callable[[], object], meanwhile: Callable[[], object]) -> int:
    """Do `work` again and again, and something else meanwhile: the n-th time before the n-th opcode of these codes.

    A signal handler may run there. Returns the number of times.
    """
    done: list[int] = []
    seen: list[str] = []

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        if frame.f_code not in codes:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            seen.append(event)
            if len(seen) == number:
                sys.settrace(None)
                done.append(number)
                meanwhile()
        return trace

    was = sys.gettrace()
    for number in range(1, 1000):
        seen.clear()
        sys._getframe().f_trace_opcodes = True  # 3.12 reports opcodes only if a frame asks for them before settrace
        sys.settrace(trace)
        try:
            work()
        finally:
            sys.settrace(was)
        if len(done) < number:
            return number
    raise AssertionError("it has no end")
