"""Rows in another process, so that a crash, a hang or a lost context ends that row only.

What it is   `outcomes` starts a worker, which runs rows in order and sends a line of JSON before and after each. If the
             worker ends, stays silent for too long, or has lost its context, another one continues with the next row. A
             row that is alone has a worker of its own. `work` is the worker.
What not     two rows never run at the same time.
Read next    check.py
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import time
from random import Random

from ...driver import current
from ...errors import RawCudaError
from ...gpu.devices.device import Device
from ..commands.console import PACKAGE, choose
from .every_row import every
from .rows import FAILED, OK, Given, Outcome, outcome, python

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import IO, Any

__all__ = ["outcomes", "outcomes_here", "work"]


def chosen(group: str | None, seed: int | None = None) -> list[int]:
    """Return the numbers of the rows, of one group or of all, in the order of the table or in a random one."""
    numbers = [number for number, one in enumerate(every()) if group in (None, one.group)]
    if seed is not None:
        Random(seed).shuffle(numbers)
    return numbers


def outcomes_here(ordinal: int, numbers: list[int]) -> Iterator[Outcome]:
    """Run rows in this process; those that would have one of their own come last."""
    rows, given = every(), Given(Device(ordinal))
    for number in sorted(numbers, key=lambda each: rows[each].alone):
        yield outcome(rows[number], given)
    try:
        given.close()
    except RawCudaError:  # each row has reported it
        pass


def work(ordinal: int, numbers: list[int]) -> int:
    """Run rows as a worker: write lines of JSON to the standard output, which nothing else may use meanwhile."""
    lines = os.fdopen(os.dup(1), "w", encoding="ascii")
    os.dup2(2, 1)  # what kernels and libraries print

    def tell(**told: Any) -> None:
        lines.write(json.dumps(told) + "\n")
        lines.flush()

    rows, given = every(), None
    for number in numbers:
        tell(begun=number)
        if given is None:
            given = Given(Device(ordinal))
        found = outcome(rows[number], given)
        tell(ended=number, outcome=found)
        if found.state == FAILED and _is_lost(given):
            return 3
    return 0


def _is_lost(given: Given) -> bool:
    """Tell whether the context cannot be used any more."""
    try:
        given.device.synchronize()
        current().cuCtxGetCurrent  # noqa: B018
    except Exception:
        return True
    return False


def outcomes(driver: str | None, ordinal: int, numbers: list[int], seconds: float) -> Iterator[Outcome]:
    """Run rows in workers, and yield each outcome.

    seconds  that a row may take
    """
    rows, unused = every(), list(numbers)
    ends: list[tuple[str, float]] = []
    while unused:
        count = next((at for at, number in enumerate(unused) if rows[number].alone), len(unused)) or 1
        left, unused = unused[:count], unused[count:]
        yield from _outcomes_of(driver, ordinal, left, seconds, ends)
    if ends:
        bad = [why for why, _ in ends if why]
        took = round(sum(took for _, took in ends), 1)
        yield Outcome(rows[numbers[-1]].group, "the process ends", FAILED if bad else OK, "; ".join(bad), took, {})


def _outcomes_of(
    driver: str | None, ordinal: int, left: list[int], seconds: float, ends: list[tuple[str, float]]
) -> Iterator[Outcome]:
    """Run rows in one worker, or in more if one ends before its last row; add how the last one ended to `ends`."""
    while left:
        worker = _Worker(driver, ordinal, left)
        try:
            yield from _told_by(worker, left, seconds)
            if not left and not worker.lost:
                ends.append(_end_of(worker, seconds))
        finally:
            worker.end()


def _told_by(worker: _Worker, left: list[int], seconds: float) -> Iterator[Outcome]:
    """Yield the outcomes of the rows that a worker runs, and take them from `left`, until it has none or has ended."""
    begun = None
    while left:
        told = worker.line(seconds)
        if "begun" in told:
            begun = told["begun"]
        elif "ended" in told:
            left.remove(told["ended"])
            begun = None
            yield Outcome(*told["outcome"])
        else:
            worker.lost = True
            if begun is None and told["why"] == "":  # it ended between two rows, since the context was lost
                return
            if begun is None:
                dead = left.pop(0)
            else:
                dead = begun
            if dead in left:
                left.remove(dead)
            one, why = every()[dead], told["why"] or "the process ended"
            yield Outcome(one.group, one.name, FAILED, f"{why}{worker.last_words()}", 1000 * told["waited"], {})
            return


def _end_of(worker: _Worker, seconds: float) -> tuple[str, float]:
    """Wait until a worker ends by itself after its last row: finalizers run, and the driver ends.

    Return what is wrong with its end, or "", and the milliseconds that it took.
    """
    begin = time.perf_counter()
    why = worker.line(seconds).get("why", "the process wrote after its last row")
    return f"{why}{worker.last_words()}" if why else "", (time.perf_counter() - begin) * 1000


class _Worker:
    """A process that runs rows; `lost` tells whether it ended before its last one."""

    def __init__(self, driver: str | None, ordinal: int, numbers: list[int]) -> None:
        from queue import Queue
        from threading import Thread

        words = ["check", "--worker", ",".join(map(str, numbers)), "--device", str(ordinal)]
        words += ["--driver", driver] if driver is not None else []
        self._errors: IO[bytes] = tempfile.TemporaryFile()
        self.lost = False
        self._process = subprocess.Popen(
            python(f"from {PACKAGE}.__main__ import main; sys.exit(main({words!r}))"),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            encoding="ascii",
            errors="replace",
        )
        self._lines: Queue[str] = Queue()
        Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put("")

    def line(self, seconds: float) -> dict[str, Any]:
        """Return the worker's next message: a row has begun or ended, or the reason why there is no message."""
        from queue import Empty

        try:
            line = self._lines.get(timeout=seconds)
        except Empty:
            return {"why": f"no answer within {seconds:g} s, so the process was ended", "waited": seconds}
        if line:
            try:
                told = json.loads(line)
            except ValueError:
                told = None
            if isinstance(told, dict):
                return told
            return {"why": f"the process wrote {line[:60]!r}", "waited": 0}
        try:  # the pipe is closed, and finalizers may still run
            code = self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return {"why": f"no answer within {seconds:g} s, so the process was ended", "waited": seconds}
        if code in (0, 3):
            why = ""
        else:
            why = f"the process ended with {code}"
        if code < 0:
            try:
                why = f"the process crashed with {signal.Signals(-code).name}"
            except ValueError:
                why = f"the process crashed with signal {-code}"
        return {"why": why, "waited": 0}

    def last_words(self) -> str:
        """Return the last line that the process wrote to its standard error, as text for a remark."""
        self.end()
        self._errors.seek(0)
        lines = self._errors.read()[-2000:].decode("utf-8", "replace").strip().splitlines()
        if lines:
            return f": {lines[-1]}"
        return ""

    def end(self) -> None:
        """End the process."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()


def worker_main(driver: str | None, ordinal: int, numbers: str) -> int:
    """Run the worker that a command line starts."""
    choose(driver)
    return work(ordinal, [int(number) for number in numbers.split(",")])
