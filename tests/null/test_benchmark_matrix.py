"""The matrix of the benchmarks: each row runs on the stub driver; the report and the picture show the measurements."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.subject import CHECKOUT, NAME

pytestmark = pytest.mark.skipif(NAME != "rawcuda", reason="the benchmarks measure only the package of the checkout")

# Rows that the newest NumPy of Python 3.9 cannot run: its __dlpack__ has no max_version.
CANNOT_RUN = {"a capsule", "NumPy: its own __dlpack__"} if sys.version_info < (3, 10) else set()


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Run each row for a short time, in a process with the stub driver."""
    from benchmarks import stub

    driver = stub.build(tmp_path_factory.mktemp("stub"))
    assert driver is not None
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.measure", "1", "0.01"],
        env={**os.environ, "RAWCUDA_DRIVER": str(driver), "LD_LIBRARY_PATH": str(driver.parent)},
        cwd=CHECKOUT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.skipif(
    sys.platform != "linux" or not (shutil.which("gcc") or shutil.which("cc")),
    reason="the stub driver needs a C compiler",
)
def test_each_row_runs_or_names_the_library_that_it_lacks(measured: list[dict[str, Any]]) -> None:
    from benchmarks import matrix

    rows = {(row["family"], row["label"]): row for row in measured if "label" in row}
    assert list(rows) and rows.keys() == {(row.family, row.label) for row in matrix.rows([])}
    assert {row["label"]: row["failed"] for row in rows.values() if "failed" in row}.keys() <= CANNOT_RUN
    missing = {row["missing"] for row in measured if "missing" in row}
    assert {row["left_out"] for row in rows.values() if "left_out" in row} <= {f"needs {name}" for name in missing}


def test_no_two_rows_have_one_name() -> None:
    from benchmarks import matrix

    names = [(row.family, row.label) for row in matrix.rows([])]
    assert len(names) == len(set(names)) > 400


def test_rows_are_chosen_by_all_the_words() -> None:
    from benchmarks import matrix

    chosen = matrix.rows(["launch", "NUMPY.int32"])
    assert chosen and all("launch" in row.family and "numpy.int32" in row.label for row in chosen)
    assert matrix.rows(["no such row"]) == []


@pytest.mark.parametrize(
    "name,peer,part,limit",
    [
        ("launch", 100, 0, 130),
        ("launch", None, 0, None),
        ("call", 50, 0, 400),
        ("call", 200, 0, 600),
        ("call", None, 0, 400),
    ]
    + [("foreign", 100, 70, 1700), ("other", 10_000, 0, 2500), ("none", 100, 0, None)],
)
def test_a_rule_is_the_larger_of_its_two_limits_and_its_part(name: str, peer: Any, part: float, limit: Any) -> None:
    from benchmarks import matrix

    assert matrix.RULES[name].limit(peer, part) == pytest.approx(limit)


def result(python: str) -> dict[str, Any]:
    """Return a result with a row within its rule, one above it, one that fails, one without a rule, one left out."""
    row = {"family": "f", "ours": "x", "peer": "", "rule": "r", "peer_ns": None, "peer_failed": ""}
    return {
        "python": python,
        "date": "2026-01-01",
        "machine": "a machine",
        "packages": ["numpy 2"],
        "missing": {"torch": "no"},
        "took_s": 1.0,
        "rows": [
            {**row, "label": "within", "ns": 100.0, "limit_ns": 200.0, "share": 0.5},
            {**row, "label": "a <b> above", "ns": 900.0, "limit_ns": 300.0, "share": 3.0},
            {**row, "label": "broken", "failed": "TypeError: no"},
            {**row, "label": "free", "ns": 5000.0},
            {**row, "label": "absent", "left_out": "needs torch"},
        ],
    }


def test_the_report_has_the_worst_rows_first() -> None:
    from benchmarks import report

    lines = "\n".join(report.matrix(result("3.11.7")))
    order = [
        lines.index(words)
        for words in ("broken", "a <b> above", "within", "free", "left out: f: absent", "missing: torch")
    ]
    assert order == sorted(order)
    assert "2 of 3 rows are above their limit" in lines and lines.count("  over") == 1


def test_the_tables_of_the_page_are_replaced() -> None:
    from benchmarks import report

    page = (CHECKOUT / "docs" / "performance.md").read_text("utf-8")
    new = report.with_tables(page, [result("3.11.7"), result("3.13.0")])
    assert "| f | 2 of 3 | 2 of 3 |" in new and "| f: broken | fails | fails |" in new and "f: within" not in new
    outside = [text.partition("<!-- measured -->")[::2] for text in (page, new)]
    assert outside[0][0] == outside[1][0] and page.partition("<!-- end -->")[2] == new.partition("<!-- end -->")[2]
    with pytest.raises(ValueError, match="no place for tables"):
        report.with_tables("nothing", [result("3.11.7")])


def test_the_picture_has_a_dot_for_each_row_with_a_rule(tmp_path: Path) -> None:
    from benchmarks import picture

    root = ElementTree.fromstring(picture.draw([result("3.11.7"), result("3.13.0")]))
    circles = [element for element in root.iter() if element.tag.endswith("circle")]
    assert len(circles) == 6
    right = [float(circle.get("cx", 0)) for circle in circles]
    assert right == sorted(right[:3]) + sorted(right[3:])
    assert "a <b> above: 900 ns, 3.00 of its limit" in {text for circle in circles for text in circle.itertext()}


# -- instructions


def test_a_row_that_grows_is_wrong_and_one_that_shrinks_is_not() -> None:
    from benchmarks import instructions

    before = {"same": 5000, "less": 5000, "little more": 5000, "more": 5000}
    counts = {"same": 5000, "less": 2000, "little more": 5140, "more": 5160, "new": 10}
    lines, wrong = instructions.compare(counts, before)
    assert [each.partition(":")[0] for each in wrong] == ["more", "new"]
    assert len(lines) == len(counts) and [line for line in lines if "GREW" in line] == [lines[3]]
    assert "5160 instructions, 3.2 % more than 5000" in wrong[0]


@pytest.mark.parametrize("again, status", [((5300, 5000), 0), ((5300, 5200), 1)])
def test_a_row_that_grew_is_counted_again_elsewhere(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], again: tuple[int, ...], status: int
) -> None:
    from benchmarks import instructions

    name = "copies: host to host"
    asked = []

    def count(folder: Path, names: list[str], seed: int = 0) -> tuple[dict[str, int], dict[str, str]]:
        asked.append((names, seed))
        return {each: (5250, *again)[seed] if each == name else 5000 for each in names}, {}

    names = [instructions.name_of(row) for row in instructions.rows()]
    monkeypatch.setattr(instructions, "unable", lambda: "")
    monkeypatch.setattr(instructions, "stored", lambda: (instructions.build(), dict.fromkeys(names, 5000)))
    monkeypatch.setattr(instructions, "count", count)
    assert instructions.main([], False) == status
    assert asked == [(names, 0), ([name], 1), ([name], 2)]
    assert f"{name}: 5200 instructions, 4.0 % more" in capsys.readouterr().out or not status


def test_the_file_of_instructions_has_each_hot_row() -> None:
    from benchmarks import instructions

    build, counts = instructions.stored()
    assert build.startswith("CPython 3.") and "numpy" in build
    assert list(counts) == [instructions.name_of(row) for row in instructions.rows()] and len(counts) > 120
    assert all(number > 0 for number in counts.values())


def test_the_file_of_instructions_can_be_read_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from benchmarks import instructions

    counts = {instructions.name_of(row): number for number, row in enumerate(instructions.rows(), 1)}
    monkeypatch.setattr(instructions, "build", lambda: "a build")
    (tmp_path / "file").write_text(instructions.text_of(counts), "utf-8")
    monkeypatch.setattr(instructions, "FILE", tmp_path / "file")
    assert instructions.stored() == ("a build", counts)


@pytest.mark.parametrize("why", ["valgrind is not installed", "another build"])
def test_instructions_are_not_counted_where_they_cannot_be_compared(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], why: str
) -> None:
    from benchmarks import instructions

    monkeypatch.setattr(instructions, "unable", lambda: why if "valgrind" in why else "")
    monkeypatch.setattr(instructions, "build", lambda: "that of somebody else")
    monkeypatch.setattr(instructions, "count", lambda *_: pytest.fail("it counts"))
    assert instructions.main([], False) == 0
    assert f"not counted: {why if 'valgrind' in why else 'instructions.txt is for another build: CPython'}" in (
        capsys.readouterr().out
    )
