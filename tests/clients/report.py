"""The table of clients: what passed and failed, and why; its file, its page, and the comparison of two of them."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

from .running import Result
from .suites import SUITES, reason_of, version_of

TABLE = Path(__file__).resolve().with_name("table.json")
PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "clients.md"
_MARKS = "<!-- the table: python3 -m tests --clients writes it -->", "<!-- the end of the table -->"

Row = dict[str, Any]


def row_of(name: str, found: dict[str, Result], ended: bool) -> Row:
    """Return the row of a suite: its version, the numbers, and the names of the tests that failed, by their reasons."""
    suite = SUITES[name]
    outcomes = Counter(result.outcome for result in found.values())
    failed: dict[str, list[str]] = {}
    for test, result in sorted(found.items()):
        if result.outcome in ("failed", "crashed"):
            reason = reason_of(suite, test, result.reason)
            failed.setdefault(f"{reason.whose}: {reason.why}", []).append(re.sub(r"^\S*/programs/", "", test))
    return {
        "version": version_of(suite),
        "passed": outcomes["passed"],
        "skipped": outcomes["skipped"],
        "failed": failed,
        "ended": ended,
    }


def share(row: Row) -> float:
    """Return the percentage of tests that passed, without those that need real hardware."""
    failed = sum(len(tests) for why, tests in row["failed"].items() if not why.startswith("hardware"))
    passed: int = row["passed"]
    return 100 * passed / max(passed + failed, 1)


def worse(stored: Row, made: Row, ran: set[str]) -> list[str]:
    """Return what is worse in a new row than in the stored one: tests that newly fail, or that are no longer there.

    ran  the tests that have a result; tests of the stored row that did not run are left out
    """
    known = {test for tests in stored["failed"].values() for test in tests}
    said = [f"{test} fails now ({why})" for why, tests in made["failed"].items() for test in tests if test not in known]
    if len(ran) >= stored["passed"] and made["passed"] < stored["passed"] and not said:
        said.append(f"{made['passed']} tests passed, {stored['passed']} did before")
    return said


def stored() -> dict[str, Row]:
    """Return the stored table."""
    return dict(json.loads(TABLE.read_text(encoding="utf-8")))


def store(table: dict[str, Row]) -> None:
    """Write the table into its file and into its page."""
    TABLE.write_text(json.dumps(table, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    start, end = _MARKS
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(start)
    PAGE.write_text(f"{before}{start}\n\n{text(table)}\n{end}{rest.partition(end)[2]}", encoding="utf-8")


def text(table: dict[str, Row]) -> str:
    """Return the table as Markdown."""
    lines = [
        "| program | version | passed | failed | needs a GPU or a network | skipped by itself | share |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, row in sorted(table.items()):
        counts = Counter({why: len(tests) for why, tests in row["failed"].items() if why.startswith("hardware")})
        needs = sum(counts.values())
        failed = sum(len(tests) for tests in row["failed"].values()) - needs
        lines.append(
            f"| {name}{'' if row['ended'] else ', a part'} | {row['version']} | {row['passed']} | {failed} "
            f"| {needs} | {row['skipped']} | {share(row):.1f} % |"
        )
    lines += ["", "| program | tests | whose | the reason |", "|---|---|---|---|"]
    for name, row in sorted(table.items()):
        order = sorted((why.partition(":")[0], -len(tests), why) for why, tests in row["failed"].items())
        for whose, count, why in order:
            lines.append(f"| {name} | {-count} | {whose} | {why.partition(': ')[2]} |")
    return "\n".join(lines) + "\n"
