"""The run of programs that are built from source: what is right, wrong, not built and missing."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.clients import built, command
from tests.subject import module

loading = module("emulator.impersonating.loading")
pytestmark = pytest.mark.skipif(bool(loading.unusable()), reason=loading.unusable())

CALL = (
    "import ctypes; cu = ctypes.CDLL('libcuda.so.1'); cu.cuInit(0); "
    "context = ctypes.c_void_p(); cu.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0); cu.cuCtxSetCurrent(context); "
)
LEAVE = "print('sum 6'); raise SystemExit(0)"
ROW = {"collection": "sums", "version": "1.0", "path": "one", "expect": "sum 6"}


def build(text: str) -> str:
    """Return a build command that makes a program of Python statements."""
    return f"printf '%s\\n' '#!{sys.executable}' \"$TEXT\" > {{program}}; chmod +x {{program}}".replace(
        '"$TEXT"', "'" + text.replace("'", "'\\''") + "'"
    )


@pytest.fixture
def run(tmp_path: Path, capfd: pytest.CaptureFixture[str]):  # type: ignore[no-untyped-def]
    """Return a function that runs a table, and returns the status and what was printed."""
    (tmp_path / "sums" / "one").mkdir(parents=True)

    def runs(*rows: dict[str, str], names: tuple[str, ...] = ()) -> tuple[int, str]:
        table = tmp_path / "table.json"
        table.write_text(json.dumps([{**ROW, **row} for row in rows]), encoding="utf-8")
        status = command.main([*names, "--table", str(table), "--from", str(tmp_path), "--seconds", "60"])
        return status, capfd.readouterr().out

    return runs


def test_a_program_is_right_by_the_words_of_its_own_check(run) -> None:  # type: ignore[no-untyped-def]
    status, said = run({"build": build(CALL + LEAVE)}, {"build": build(LEAVE.replace("6", "7"))})
    assert said.splitlines() == [
        "sums/one 1.0: right",
        "sums/one 1.0: wrong it did not print 'sum 6'; its last line: sum 7",
        "1 right, 1 wrong",
    ]
    assert status == 1


def test_the_arguments_reach_the_program(run) -> None:  # type: ignore[no-untyped-def]
    text = "import sys; print('sum', int(sys.argv[1]) + int(sys.argv[2]))"
    assert run({"build": build(text), "arguments": "2 4"}) == (0, "sums/one 1.0: right\n1 right\n")


@pytest.mark.parametrize(
    "text, why",
    [
        ("print('sum 6'); raise SystemExit(3)", "status 3: "),
        ("import sys; print('sum 6'); print('emulator: memcheck: bad', file=sys.stderr)", "emulator: memcheck: bad"),
    ],
)
def test_a_status_or_a_report_is_wrong(run, text: str, why: str) -> None:  # type: ignore[no-untyped-def]
    status, said = run({"build": build(text)})
    assert said.startswith(f"sums/one 1.0: wrong {why}") and status == 1


def test_words_of_a_part_that_failed_are_wrong(run) -> None:  # type: ignore[no-untyped-def]
    text = "print('sum 6'); print('sum 7 FAIL')"
    assert run({"build": build(text), "refuse": "FAIL"}) == (
        1,
        "sums/one 1.0: wrong it printed 'FAIL'; its last line: sum 7 FAIL\n1 wrong\n",
    )
    assert run({"build": build(text), "refuse": "ERROR"}) == (0, "sums/one 1.0: right\n1 right\n")


def test_a_known_reason_is_named_and_does_not_fail_the_run(run) -> None:  # type: ignore[no-untyped-def]
    reason = "theirs: it adds wrongly"
    status, said = run({"build": build("print('sum 7')"), "reason": reason})
    assert said.splitlines()[0].endswith(f"its last line: sum 7 {reason}") and status == 0
    status, said = run({"build": build("print('sum 6')"), "reason": reason})
    assert "right (the table says" in said and status == 0


def test_what_is_missing_or_does_not_build_is_named(run) -> None:  # type: ignore[no-untyped-def]
    status, said = run({"path": "two", "build": "cp no {program}"}, {"build": "echo no compiler; false {program}"})
    first, second, last = said.splitlines()
    assert first.startswith("sums/two 1.0: missing there is no folder") and last == "1 missing, 1 not built"
    assert second == "sums/one 1.0: not built no compiler" and status == 1


def test_names_choose_programs(run) -> None:  # type: ignore[no-untyped-def]
    rows = {"build": build(LEAVE)}, {"path": "two", "build": "cp no {program}"}
    assert run(*rows, names=("one",)) == (0, "sums/one 1.0: right\n1 right\n")
    assert run(*rows, names=("three",)) == (1, "no program has such a name\n")


@pytest.mark.parametrize(
    "row, words",
    [
        ({}, "missing 1 required positional argument: 'build'"),
        ({"build": "cp {program}", "color": "red"}, "unexpected keyword argument 'color'"),
        ({"build": "make"}, "must contain {program}"),
        ({"build": "cp {program}", "expect": ""}, "`expect` must be words"),
        ({"build": "cp {program}", "reason": "unknown"}, "must begin with 'theirs: ' or 'ours: '"),
    ],
)
def test_a_wrong_table_is_refused(run, row: dict[str, str], words: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(SystemExit) as caught:
        run(row)
    assert words in str(caught.value) and "program 0" in str(caught.value)


def test_both_options_are_needed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.main(["--table", "table.json"])
    assert "belong together" in capsys.readouterr().err


def test_the_page_has_the_table_of_the_repository() -> None:
    """Write it with: python3 -m tests --clients --store --table tests/clients/public.json."""
    programs = built.read(built.PUBLIC)
    assert built.text(programs) in built.PAGE.read_text(encoding="utf-8")
    assert len({program.name for program in programs}) == len(programs)
    assert len([program for program in programs if not program.reason]) >= 30
    assert not any(program.reason.startswith("ours: ") for program in programs)


def test_a_table_is_written_into_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page, table = tmp_path / "page.md", tmp_path / "table.json"
    start, end = built._MARKS
    page.write_text(f"before\n\n{start}\n\nold\n\n{end}\n\nafter\n", encoding="utf-8")
    monkeypatch.setattr(built, "PAGE", page)
    rows = {"build": "cat a | b {program}", "arguments": "2 4"}, {"build": "cp {program}", "reason": "theirs: it is"}
    table.write_text(json.dumps([{**ROW, **row} for row in rows]), encoding="utf-8")
    assert command.main(["--store", "--table", str(table)]) == 0
    assert page.read_text(encoding="utf-8") == (
        f"before\n\n{start}\n\n"
        "sums 1.0:\n\n"
        "| program | arguments | build line | result |\n|---|---|---|---|\n"
        "| one | `2 4` | `cat a \\| b {program}` | right |\n"
        "| one |  | `cp {program}` | theirs: it is |\n\n"
        f"{end}\n\nafter\n"
    )
