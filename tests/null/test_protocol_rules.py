"""docs/protocols.md and the tests hold each other: no row without a test or a reason, no numbered test without a row."""
from __future__ import annotations

import re

from tests.subject import CHECKOUT

TABLE = CHECKOUT / "docs" / "protocols.md"
NUMBERED = re.compile(r"^def (test_(\d+_\d+)\w*)\(", re.M)


def rows():
    """Yield (rule, demand, tests, state) of every row."""
    for line in TABLE.read_text("utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if len(cells) == 4 and re.match(r"\d+\.\d+$", cells[0]):
            yield cells[0], cells[1], re.findall(r"`(\w+)::(\w+)`", cells[2]), cells[3]


def all_tests():
    """Return the names of all tests, by file."""
    return {path.stem: set(re.findall(r"^def (test_\w+)", path.read_text("utf-8"), re.M))
            for folder in ("null", "driver", "interop") for path in (CHECKOUT / "tests" / folder).glob("test_*.py")}


def test_every_row_has_a_test_or_a_reason():
    there = all_tests()
    numbers = [rule for rule, *_ in rows()]
    assert len(numbers) == len(set(numbers)) > 120
    for rule, demand, named, state in rows():
        assert demand and (state == "tested") == bool(named), f"{rule}: {state}"
        assert state == "tested" or len(state) > 8, f"{rule} has no test, and no reason"
        for file, name in named:
            assert name in there.get(file, ()), f"{rule}: {file}::{name} is not there"


def test_every_numbered_test_has_its_rows():
    listed = {(file, name): set() for _, _, named, _ in rows() for file, name in named}
    for rule, _, named, _ in rows():
        for test in named:
            listed[test].add(rule)
    for folder in ("null", "driver", "interop"):
        for path in sorted((CHECKOUT / "tests" / folder).glob("test_*.py")):
            for name, first in NUMBERED.findall(path.read_text("utf-8")):
                rule = first.replace("_", ".")
                if not any(rule == known for known, *_ in rows()):
                    continue                             # a number that is no rule's: 1_000_layouts
                assert rule in listed.get((path.stem, name), ()), f"{path.stem}::{name} is not in the row of {rule}: run the table's tests anew"
