"""The table of other projects' test suites: how it is made, compared and written."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.clients import command, demos, report, running
from tests.clients.running import Result
from tests.clients.suites import SUITES, reason_of

PASSED, FAILED = Result("passed", ""), Result("failed", "AssertionError: no")


def test_a_row_counts_and_explains() -> None:
    found = {"a": PASSED, "b": FAILED, "c": Result("failed", "urllib.error.URLError: <urlopen error>")}
    row = report.row_of("tinygrad", {**found, "d": Result("skipped", "")}, True)
    assert (row["version"], row["passed"], row["skipped"], row["ended"]) == ("0.13.0", 1, 1, True)
    assert row["failed"] == {"hardware: it downloads a data set": ["c"], "ours: not explained yet": ["b"]}
    assert report.share(row) == 50
    assert "| tinygrad | 0.13.0 | 1 | 1 | 1 | 1 | 50.0 % |" in report.text({"tinygrad": row})


@pytest.mark.parametrize(
    "before, now, words",
    [
        ({"a": PASSED, "b": PASSED}, {"a": PASSED, "b": FAILED}, "b fails now"),
        ({"a": PASSED, "b": FAILED}, {"a": FAILED, "b": PASSED}, "a fails now"),
        ({"a": PASSED, "b": PASSED}, {"a": PASSED, "b": Result("crashed", "")}, "b fails now"),
        ({"a": PASSED, "b": PASSED}, {"a": PASSED, "b": Result("skipped", "")}, "1 tests passed, 2 did before"),
        ({"a": PASSED, "b": FAILED}, {"a": PASSED, "b": PASSED}, ""),
        ({"a": PASSED, "b": FAILED}, {"a": PASSED, "b": FAILED}, ""),
        ({"a": PASSED, "b": PASSED}, {"a": PASSED}, ""),  # a sample
    ],
)
def test_a_worse_row_is_found(before: dict[str, Result], now: dict[str, Result], words: str) -> None:
    rows = [report.row_of("triton", each, True) for each in (before, now)]
    said = report.worse(rows[0], rows[1], set(now))
    assert (words in said[0] and len(said) == 1) if words else not said


def test_results_survive_a_process_that_ends(tmp_path: Path) -> None:
    log = tmp_path / "x.jsonl"
    rows = [{"started": "a"}, {"test": "a", "outcome": "passed", "reason": ""}, {"started": "b"}]
    log.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert running.results(log) == ({"a": PASSED}, "b", False)
    more = [{"test": "b", "outcome": "failed", "reason": "x"}, {"test": "b", "outcome": "passed", "reason": ""}]
    log.write_text("".join(json.dumps(row) + "\n" for row in [*rows, *more, {"finished": 0}]))
    assert running.results(log) == ({"a": PASSED, "b": Result("failed", "x")}, "", True)


def test_the_page_has_the_stored_table() -> None:
    table = report.stored()
    assert set(table) == set(SUITES)
    assert report.text(table) in report.PAGE.read_text(encoding="utf-8")
    for name, row in table.items():
        assert report.share(row) >= SUITES[name].goal


def test_each_reason_says_whose_it_is() -> None:
    for suite in SUITES.values():
        for reason in suite.reasons:
            assert reason.whose in ("ours", "theirs", "hardware") and reason.why
    assert reason_of(SUITES["numba-cuda"], "nothing", "known").whose == "ours"


def test_each_program_has_a_file_and_the_command_knows_its_names(capsys: pytest.CaptureFixture[str]) -> None:
    page = report.PAGE.read_text(encoding="utf-8")
    for name, demo in demos.DEMOS.items():
        assert (demos.PROGRAMS / demo.script).is_file()
        assert f"--programs {name} " in page
    for arguments, said in (
        (["none"], "must be one of numba-cuda, tinygrad, triton"),
        (["--programs", "numba-cuda"], "must be one of numba, "),
        (["--programs", "--runs", "0"], "must be at least 1"),
    ):
        with pytest.raises(SystemExit):
            command.main(arguments)
        assert said in capsys.readouterr().err


@pytest.mark.parametrize("status, said, wanted", [(0, "", 0), (0, "a message at exit", 1), (-11, "", 1)])
def test_a_run_that_ends_badly_counts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], status: int, said: str, wanted: int
) -> None:
    monkeypatch.setattr(demos, "run", lambda *given: subprocess.CompletedProcess([], status, "fine\n", said))
    assert demos.run_all(["numba"], 3) == wanted
    printed = capsys.readouterr().out
    assert printed.startswith("fine\n") and said in printed
    assert f"numba: {0 if wanted else 3} of 3 runs" in printed
