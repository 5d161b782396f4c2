"""`check` and `bench`: they pass on a driver that is right, and each row fails on one that is wrong."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from tests.conftest import Python
from tests.subject import CHECKOUT, NAME, module

CHECK = ["-m", NAME, "check"]
BENCH = ["-m", NAME, "bench"]


def rows_of(path: Path) -> dict[str, str]:
    return {f"{row['group']}: {row['name']}": row["state"] for row in json.loads(path.read_text("utf-8"))["rows"]}


def test_every_row_passes_or_says_why_not(python: Python, tmp_path: Path, pytestconfig: pytest.Config) -> None:
    result = python([*CHECK, "--json", "report.json"], timeout=120)
    assert result.returncode == 0 and not result.stderr, result.stdout + result.stderr
    found = json.loads((tmp_path / "report.json").read_text("utf-8"))
    assert found["failed"] == 0 and len(found["rows"]) > 70 and found["devices"][0]["name"]
    absent = {row["name"]: row["remark"] for row in found["rows"] if row["state"] == "not here"}
    assert all(absent.values())
    if pytestconfig.getoption("driver") == "emulator":  # which has two devices here
        assert set(absent) <= {"torch", "cupy", "jax", "warp", "numba", "numpy", "pyarrow", "CUDA C that is compiled"}
    assert "0 failed" in result.stdout and "report.json" in result.stdout


def test_it_needs_nothing_that_is_installed(python: Python) -> None:
    result = python([*CHECK, "--no-report"], flags=("-S",), timeout=120)
    assert result.returncode == 0 and "numpy" in result.stdout and "not installed" in result.stdout, result.stdout


@pytest.mark.heavy
@pytest.mark.emulator_only("a driver with one wrong function")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="each wrong driver is in a fork")
def test_each_row_can_fail(python: Python) -> None:
    result = python(["-m", "tests.driver.check_mutants"], cwd=CHECKOUT, timeout=600)
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    silent = {name for name, (_, _, nothing) in found.items() if not nothing}
    by_error = {name for name, (_, error, _) in found.items() if not error}
    assert len(found) > 65 and by_error <= ON_THE_HOST and silent <= ON_THE_HOST


ON_THE_HOST = {"exchange: buffers: array, bytes, ctypes", "exchange: the array interface"}


@pytest.mark.parametrize("name", sorted(ON_THE_HOST))
def test_rows_without_a_driver_can_fail(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, exchange = module("tools.checking.rows"), module("tools.checking.groups.exchange")
    [row] = [row for row in rows.every() if f"{row.group}: {row.name}" == name]
    assert rows.outcome(row, None).state == "ok"
    real = exchange.view
    monkeypatch.setattr(exchange, "view", lambda given: real(bytearray(6)))
    assert rows.outcome(row, None).state == "FAILED"


@pytest.mark.emulator_only("RAWCUDA_EMULATOR=fail=")
def test_a_driver_that_fails_in_the_middle(python: Python, tmp_path: Path) -> None:
    env: dict[str, str | None] = {"RAWCUDA_EMULATOR": "fail=cuGraphLaunch:1:1"}
    result = python([*CHECK, "--json", "report.json"], env=env, timeout=120)
    assert result.returncode == 1
    found = rows_of(tmp_path / "report.json")
    assert [name for name, state in found.items() if state == "FAILED"] == ["graphs: captured from a stream"]
    assert found["graphs: built by hand"] == found["failures: a closed object is refused"] == "ok"
    assert "CUDA_ERROR_INVALID_VALUE" in result.stdout and "1 failed" in result.stdout


@pytest.mark.emulator_only("RAWCUDA_EMULATOR=fail=")
def test_a_lost_context_stops_no_other_row(python: Python, tmp_path: Path) -> None:
    """Each row that launches a graph loses its context, and the next row gets a new process."""
    env: dict[str, str | None] = {"RAWCUDA_EMULATOR": "fail=cuGraphLaunch:1:719"}
    result = python([*CHECK, "graphs", "--json", "report.json"], env=env, timeout=120)
    assert result.returncode == 1 and set(rows_of(tmp_path / "report.json").values()) == {"FAILED"}
    assert result.stdout.count("CUDA_ERROR_LAUNCH_FAILED") == 6


@pytest.mark.parametrize(
    "change, finding",
    [
        ("os.kill(os.getpid(), signal.SIGSEGV)", "crashed with SIGSEGV"),
        ("os._exit(7)", "ended with 7"),
        ("time.sleep(60)", "no answer within 3 s"),
        ("print('noise'); os.write(1, b'more noise\\n'); raise ValueError('told')", "ValueError: told"),
    ],
)
@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_a_row_that_crashes_or_hangs_stops_no_other(python: Python, tmp_path: Path, change: str, finding: str) -> None:
    """The worker runs the package from another folder, in which one row is changed."""
    import shutil

    from tests.subject import FOLDER

    shutil.copytree(FOLDER, tmp_path / "hostile", ignore=shutil.ignore_patterns("__pycache__"))
    room = tmp_path / "hostile" / "tools" / "checking" / "groups" / "copies.py"
    text = room.read_text("utf-8")
    head = "def _device(given: Given) -> None:\n"
    assert text.count(head) == 1
    room.write_text(text.replace(head, f"{head}    import os, signal, time\n    {change}\n"), "utf-8")
    words = ["-m", "hostile", "check", "copies", "--timeout", "3", "--json", "report.json"]
    result = python(words, env={"PYTHONPATH": str(tmp_path)}, timeout=120)
    assert result.returncode == 1, result.stderr
    found = rows_of(tmp_path / "report.json")
    assert [name for name, state in found.items() if state == "FAILED"] == ["copies: device to device"]
    assert len(found) > 10 and finding in " ".join(result.stdout.split()), result.stdout


def test_the_report_alone(python: Python) -> None:
    result = python([*CHECK, "device", "--json", "-"])
    assert result.returncode == 0 and {row["group"] for row in json.loads(result.stdout)["rows"]} == {"device"}


@pytest.mark.parametrize(
    "words, finding",
    [
        (("nothing",), "'nothing' is not a group of rows: the groups are device, memory"),
        (("--device", "99"), "--device 99: this machine has "),
        (("--timeout", "0"), "--timeout 0: give a number of seconds above 0"),
    ],
)
def test_a_wrong_command_line(python: Python, words: tuple[str, ...], finding: str) -> None:
    result = python([*CHECK, *words])
    assert result.returncode == 2 and finding in result.stderr and result.stderr.count("\n") == 1


def test_a_report_that_cannot_be_written(python: Python) -> None:
    result = python([*CHECK, "device", "--json", "nowhere/report.json"])
    assert result.returncode == 1 and "could not be written" in result.stdout and "0 failed" in result.stdout


def test_bench(python: Python) -> None:
    result = python([*BENCH, "--rounds", "1", "--json", "-"], timeout=120)
    assert result.returncode == 0, result.stderr
    rows = json.loads(result.stdout)["rows"]
    assert len(rows) > 15 and all(row["value"] > 0 and not row["error"] for row in rows)


@pytest.mark.emulator_only("RAWCUDA_EMULATOR=fail=")
def test_bench_on_a_driver_that_fails(python: Python) -> None:
    result = python([*BENCH, "fill", "launch", "--rounds", "1"])
    assert result.returncode == 2 and "no row contains fill and launch" in result.stderr
    env: dict[str, str | None] = {"RAWCUDA_EMULATOR": "fail=cuMemAlloc_v2:1:2"}
    result = python([*BENCH, "copy", "--rounds", "1"], env=env)
    assert result.returncode == 1 and result.stdout.count("FAILED") == 1 and result.stdout.count("GB/s") == 4


@pytest.mark.parametrize("command", ["demo", "doctor", "check", "bench"])
def test_nothing_is_wider_than_the_terminal(python: Python, command: str) -> None:
    words = {"check": ["launches", "--no-report"], "bench": ["fill", "--rounds", "1"]}.get(command, [])
    result = python(["-m", NAME, command, *words], env={"COLUMNS": "48", "NO_COLOR": "1"})
    assert result.returncode == 0 and max(map(len, result.stdout.splitlines())) <= 48, result.stdout
