"""Interleaved timing: what holds on a shared machine is the ratio of two cases that were timed side by side.

Every round times each case once, in an order that turns by one each round, so that a slow stretch of the machine falls on all
alike. A ratio is taken within each round; what is told is its median over the rounds, with the middle half of the times.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import timeit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

ROUNDS, BATCH_MS = int(os.environ.get("ROUNDS", "40")), float(os.environ.get("BATCH_MS", "2"))


class Section:
    """Cases that are compared with one of them.

    base   the case that ratios are to
    goals  {case: the largest ratio that is wanted}
    """

    def __init__(self, title: str, base: str | None = None, goals: dict[str, float] | None = None) -> None:
        self.title, self.base, self.goals = title, base, goals or {}
        self.cases: list[tuple[str, timeit.Timer, int, list[float]]] = []
        self.left_out: dict[str, str] = {}

    def add(self, name: str, statement: str, per: int = 1, **names: Any) -> None:
        """Enter a statement; one that fails is left out, and named with its reason."""
        timer = timeit.Timer(statement, globals=names)
        try:
            timer.timeit(20)
        except Exception as error:
            self.leave_out(name, error)
            return
        self.cases.append((name, timer, per, []))

    def leave_out(self, name: str, why: Any) -> None:
        text = f"{type(why).__name__}: {why}" if isinstance(why, BaseException) else str(why)
        self.left_out[name] = text.splitlines()[0][:200] if text else ""

    def run(self, rounds: int = ROUNDS, batch_ms: float = BATCH_MS) -> None:
        """Time all cases, and write a line of JSON for each."""
        loops = []
        for _, timer, per, _ in self.cases:  # noqa: B007
            n = 1
            while timer.timeit(n) < batch_ms / 4000 and n < 10**7:
                n *= 2
            loops.append(max(1, int(n * batch_ms / 1000 / max(timer.timeit(n), 1e-9))))
        for turn in range(rounds):
            order = list(range(len(self.cases)))
            for i in order[turn % len(order) :] + order[: turn % len(order)]:
                _, timer, per, times = self.cases[i]
                times.append(timer.timeit(loops[i]) / loops[i] / per * 1e9)
        base = next((times for name, _, _, times in self.cases if name == self.base), None)
        for name, _, _, times in self.cases:
            low, middle, high = quartiles(times)
            row = {"section": self.title, "case": name, "median_ns": middle, "low_ns": low, "high_ns": high}
            if base is not None:
                ratios = [a / b for a, b in zip(times, base)]
                row.update(base=self.base, ratio=statistics.median(ratios), ratio_quartiles=quartiles(ratios)[::2])
            tell(row, self.goals.get(name))
        for name, why in self.left_out.items():
            tell({"section": self.title, "case": name, "left_out": why})


def quartiles(numbers: list[float]) -> tuple[float, float, float]:
    """Return the first quartile, the median, the third quartile."""
    if len(numbers) < 2:
        return (numbers[0],) * 3
    low, middle, high = statistics.quantiles(numbers, n=4, method="inclusive")
    return low, middle, high


def tell(row: dict[str, Any], goal: float | None = None) -> None:
    """Write one result for whoever started this process."""
    if goal is not None:
        row["goal"] = goal
    row["python"] = ".".join(map(str, sys.version_info[:2]))
    print(json.dumps(row), flush=True)
