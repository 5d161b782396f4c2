"""Measure rows of the matrix on the stub driver, in a process that __main__.py starts: one line of JSON for each row.

On a shared machine, only the ratio of two expressions that are timed together is reliable. So each round times every
row once: our expression, that of the peer, and the part that the rule adds, immediately one after the other. In each
round, the time of a row is divided by its limit; the median of these ratios is reported.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import random
import re
import statistics
import sys
import time
import timeit
from typing import Any

from . import matrix, things

LIBRARIES = {"np": "numpy", "torch": "torch", "jax": "jax"}
WARM = 5  # runs before each batch, in which an expression computes again what other rows have invalidated
# The processor time of this thread: nothing here waits, so other programs on the machine are all that it leaves out.
CLOCK = time.thread_time if sys.platform != "win32" else time.perf_counter  # (which has steps of 16 ms on Windows)
UPPER = re.compile(r"(?<![.\w])[A-Z][A-Z0-9_]*\b")


class Timed:
    """A row with its statements, compiled, and the times of each round in nanoseconds."""

    def __init__(self, row: matrix.Row, names: dict[str, Any]) -> None:
        self.row = row
        self.peer_failed = ""
        self.timers: dict[str, timeit.Timer] = {}
        self.loops: dict[str, int] = {}
        self.times: dict[str, list[float]] = {}
        launches = {
            name: made.make() for name, made in names.items() if isinstance(made, things.Bound) and name in row.ours
        }
        names = {**names, **launches}
        for part, expression in (("ours", row.ours), ("peer", row.peer), ("part", row.part)):
            if expression:
                statement = expression if part == "part" else row.read.replace("{}", expression)
                self.timers[part] = timeit.Timer(statement, timer=CLOCK, globals=names)
                self.times[part] = []

    def prepare(self, batch_ns: float, context: Context) -> None:
        """Run each statement, and find how often it fits into a batch; raises what our expression raises."""
        for part in list(self.timers):
            try:
                took = self.once(part, 20, context)
                for _ in range(
                    4
                ):  # the shortest of several: an interruption must not leave a row with batches that are too short
                    loops = min(max(1, int(batch_ns / 4 / took)), 10**6)
                    took = min(took, self.once(part, loops, context))
                self.loops[part] = max(1, int(batch_ns / took))
            except Exception as error:
                if part == "ours":
                    raise
                self.peer_failed = first_line(error)
                del self.timers[part]

    def once(self, part: str, loops: int, context: Context) -> float:
        """Return the nanoseconds of one run of a statement, over a number of runs."""
        timer = self.timers[part]
        warm = min(loops, WARM)
        if part == "ours" and not self.row.context:
            with context:
                timer.timeit(warm)
                return timer.timeit(loops) / loops * 1e9
        timer.timeit(warm)
        return timer.timeit(loops) / loops * 1e9

    def round(self, context: Context) -> None:
        """Time each statement once."""
        for part in self.timers:
            self.times[part].append(self.once(part, self.loops[part], context))

    def result(self) -> dict[str, Any]:
        """Return what was measured."""
        row, medians = self.row, {part: statistics.median(self.times[part]) for part in self.timers}
        made = describe(row) | {"ns": medians["ours"], "peer_ns": medians.get("peer"), "peer_failed": self.peer_failed}
        rounds = len(self.times["ours"])
        peers: list[Any] = self.times["peer"] if "peer" in self.timers else [None] * rounds
        parts = self.times["part"] if "part" in self.timers else [0.0] * rounds
        limits = [limit for peer, part in zip(peers, parts) if (limit := row.rule.limit(peer, part))]
        if "peer" in self.timers:
            made["ratio"] = statistics.median(a / b for a, b in zip(self.times["ours"], peers))
        if limits:
            made["limit_ns"] = statistics.median(limits)
            made["share"] = statistics.median(a / b for a, b in zip(self.times["ours"], limits))
        return made


class Context:
    """Context manager in which no context is current."""

    def __init__(self) -> None:
        self.libcuda = ctypes.CDLL("libcuda.so.1")
        self.kept = ctypes.c_void_p()

    def __enter__(self) -> None:
        self.libcuda.cuCtxGetCurrent(ctypes.byref(self.kept))
        self.libcuda.cuCtxSetCurrent(None)

    def __exit__(self, *_: object) -> None:
        self.libcuda.cuCtxSetCurrent(self.kept)


def first_line(error: Exception) -> str:
    """Return an error as one line."""
    return f"{type(error).__name__}: {error}".splitlines()[0][:160]


def describe(row: matrix.Row) -> dict[str, Any]:
    """Return what identifies a row."""
    return {"family": row.family, "label": row.label, "ours": row.ours, "peer": row.peer, "rule": row.rule.text}


def lacks(row: matrix.Row, missing: dict[str, str]) -> str:
    """Return the missing library that our expression needs; "" if it needs none."""
    for prefix, library in LIBRARIES.items():
        if library in missing and re.search(rf"\b{prefix}_", f"{row.ours} {row.part}"):
            return library
    if "cuda.core" in missing and re.search(r"\bcore_|_core\b", row.ours):
        return "cuda.core"
    return "cuda.core" if "cuda.core" in missing and UPPER.search(row.ours + " " + row.part) else ""


def main(words: list[str], rounds: int, batch_ms: float) -> None:
    """Measure the rows that have all the words, and print a line of JSON for each of them."""
    begun = time.perf_counter()
    names, missing = things.make()
    context = Context()
    for library, why in missing.items():
        print(json.dumps({"missing": library, "why": why}))
    timed = []
    for row in matrix.rows(words):
        library = lacks(row, missing)
        if library:
            print(json.dumps(describe(row) | {"left_out": f"needs {library}"}))
            continue
        if "cuda.core" in missing:
            row = row._replace(peer="")
        one = Timed(row, names)
        try:
            one.prepare(batch_ms * 1e6, context)
            timed.append(one)
        except Exception as error:
            print(json.dumps(describe(row) | {"failed": first_line(error)}))
    gc.collect()
    gc.freeze()  # the objects that the libraries made are not part of what is timed
    gc.disable()
    for turn in range(rounds):
        gc.collect()
        for one in random.Random(turn).sample(timed, len(timed)):
            one.round(context)
    for one in timed:
        print(json.dumps(one.result()))
    print(json.dumps({"took_s": time.perf_counter() - begun}), flush=True)
    os._exit(0)  # some libraries cannot shut down on a driver that does nothing


if __name__ == "__main__":
    main(sys.argv[3:], int(sys.argv[1]), float(sys.argv[2]))
