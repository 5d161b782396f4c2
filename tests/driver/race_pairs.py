"""Compare two reports of a race: do they name the same pair of accesses?"""

from __future__ import annotations

import re

__all__ = ["is_same_pair"]

_FACTS = r"thread (\(\d+, \d+, \d+\))", r"address (0x[0-9a-f]+)", r"(?:ptx line |kernel\.cu:)(\d+)"
_GROUPS = re.compile(r"which (other threads|threads of warp \d+) (read|wrote)")


def is_same_pair(report: str, checked: str) -> bool:
    """Tell whether a report without racecheck names the threads, the address and the lines of one with it.

    A report that names a group of threads may name fewer of these, but no others.
    """
    here, there = _pair_of(report), _pair_of(checked)
    if _GROUPS.search(report):
        return all(some <= more for some, more in zip(here, there))
    return here == there and len(here[0]) in (1, 2)


def _pair_of(report: str) -> list[set[str]]:
    text = report.partition("\n    at ptx line ")[0]
    return [set(re.findall(pattern, text)) for pattern in _FACTS]
