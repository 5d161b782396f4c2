"""Mixed work in 8 threads of each of 4 processes: nothing fails, hangs or stays behind, and memory does not grow."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from statistics import median
from typing import Any

import pytest

from tests.subject import CHECKOUT, NAME, ROOT

PROCESSES, THREADS = 4, 8
LONG = 600.0  # seconds: in shorter runs, what is made once still grows, so the memory is not checked


def start(number: int, seconds: float) -> subprocess.Popen[str]:
    """Start a process of the load.

    All of its threads share one arena of glibc's malloc: otherwise each has its own, a block of some megabytes comes to
    lie in one after another, and resident memory grows for as long as that takes, although no more of it is in use.
    """
    path = os.pathsep.join(dict.fromkeys((str(ROOT), str(CHECKOUT))))
    return subprocess.Popen(
        [sys.executable, "-X", "faulthandler", "-m", "tests.load.worker", str(seconds), str(THREADS), str(number)],
        cwd=CHECKOUT,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={
            **os.environ,
            "PYTHONPATH": path,
            "TESTED_PACKAGE": NAME,
            "PYTHONDONTWRITEBYTECODE": "1",
            "MALLOC_ARENA_MAX": "1",
        },
    )


def growth(samples: list[tuple[float, int]]) -> tuple[float, float]:
    """Return the resident memory of the last quarter in MB, and its growth since the second quarter as a fraction."""
    sizes = [size for _, size in samples]
    quarter = max(1, len(sizes) // 4)
    early, late = median(sizes[quarter : 2 * quarter] or sizes), median(sizes[-quarter:])
    return late / 1e6, late / early - 1


def test_load(request: pytest.FixtureRequest, pytestconfig: pytest.Config) -> None:
    seconds = pytestconfig.getoption("minutes") * 60
    processes = [start(number, seconds) for number in range(PROCESSES)]
    reports: list[dict[str, Any]] = []
    try:
        for number, process in enumerate(processes):
            out, errors = process.communicate(timeout=seconds + 600)
            assert process.returncode == 0, f"process {number}: exit status {process.returncode}: {errors[-3000:]}"
            reports.append(json.loads(out.splitlines()[-1]))
    finally:
        for process in processes:
            process.kill()
    done: Counter[str] = Counter()
    for report in reports:
        done.update(report["rounds"])
        assert not report["errors"], report["errors"][0]
        for name in ("hanging", "kept"):
            assert not report[name], (report["mode"], name, report[name])
        left = sum(report["left"].values()) + report["exports"]  # an interrupt may lose the object that is being made
        assert left <= report["interrupts"], (report["mode"], report["interrupts"], report["left"])
        assert len(report["rounds"]) >= 5 or seconds < 60
    opened = [report["opened"] for report in reports]
    assert all(each[-1] <= each[len(each) // 4] for each in opened), f"open files: {opened}"
    memory = [growth(report["samples"]) for report in reports]
    slowest = max((value, name) for report in reports for name, value in report["slowest"].items())
    lock = max((value, place) for report in reports for place, value in report["locks"].items())
    sizes = ", ".join(f"{size:.0f} MB {part:+.1%}" for size, part in memory)
    request.node.user_properties += [
        ("told", f"load: {seconds:g} s, {sum(done.values()):,} operations, "
         f"{sum(report['interrupts'] for report in reports):,} interrupts; memory and its growth: {sizes}"),
        ("told", f"load: the slowest call: {slowest[1]}, {slowest[0]:.3f} s; the lock that was held longest: "
         f"{lock[1]}, {lock[0]:.3f} s"),
    ]  # fmt: skip
    if seconds >= LONG:
        assert max(part for _, part in memory) <= 0.01, sizes
