"""Fill in the tests of docs/protocols.md: python3 -m tests.protocol_table

The demands and reasons in the table are written by hand. The tests of a row are found by their names: test_2_10_2_13_x
belongs to the rows 2.10 and 2.13. A test whose docstring begins with "2.10:" belongs to the row 2.10.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "docs" / "protocols.md"
FOLDERS = ("null", "driver", "interop")
_NAMED = re.compile(r"^def (test_\w+)\(.*\n(?:    \"\"\"(\d+\.\d+):)?", re.M)
_PREFIX = re.compile(r"((?:\d+_\d+_)*\d+_\d+)(?=_|$)")
_RANGE = re.compile(r"(\d+)_(\d+)_to_\1_(\d+)_")


def rules_of(name: str, told: str = "") -> list[str]:
    """Return the rows to which a test belongs, by its name or the beginning of its docstring."""
    if told:
        return [told]
    rest = name[len("test_") :]
    span = _RANGE.match(rest)
    if span:
        return [f"{span[1]}.{n}" for n in range(int(span[2]), int(span[3]) + 1)]
    found = _PREFIX.match(rest)
    return [f"{a}.{b}" for a, b in re.findall(r"(\d+)_(\d+)", found[1])] if found else []


def numbered_tests() -> dict[str, list[str]]:
    """Return, for each row, its tests as `file::name`."""
    out: dict[str, list[str]] = {}
    for folder in FOLDERS:
        for path in sorted((ROOT / "tests" / folder).glob("test_*.py")):
            for name, told in _NAMED.findall(path.read_text("utf-8")):
                for rule in rules_of(name, told):
                    out.setdefault(rule, []).append(f"`{path.stem}::{name}`")
    return out


def rows(text: str) -> list[list[str]]:
    """Return the cells of every row: rule, demand, tests, state."""
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in text.splitlines()]
    return [row for row in cells if len(row) == 4 and re.match(r"\d+\.\d+$", row[0])]


def filled(text: str) -> str:
    """Return the page with the current tests; a row that has lost its tests is marked."""
    tests = numbered_tests()
    for rule, demand, old, state in rows(text):
        new = ", ".join(tests.get(rule, ())) or "–"
        state_now = "tested" if rule in tests else "LOST: write a test or a reason" if state == "tested" else state
        text = text.replace(f"| {rule} | {demand} | {old} | {state} |", f"| {rule} | {demand} | {new} | {state_now} |")
    return text


if __name__ == "__main__":
    TABLE.write_text(filled(TABLE.read_text("utf-8")), "utf-8")
