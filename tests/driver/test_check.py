"""`check` and `bench`: they pass on a driver that is right, and each row fails on one that is wrong."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Python
from tests.shared import sampled
from tests.subject import CHECKOUT, NAME, module, rawcuda

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
        assert found["answers"]["cuLaunchKernel without a context"] == 201
        asked = {name.split()[0]: code for name, code in found["answers"].items() if name.endswith(" in a capture")}
        refused = {name for name in asked if module("headers.behaviour").of(name).capture != "free"}
        assert len(asked) > 15 and {name for name, code in asked.items() if code == 900} == refused
    assert "0 failed" in result.stdout and "report.json" in result.stdout


@pytest.mark.once
@pytest.mark.emulator_only("modes, drivers and devices that it stands for")
@pytest.mark.parametrize(
    "words",
    sampled(
        [
            "lazy,sm=120,cma=0,deferred,devices=2",
            "cuda=11.4,sm=75,mig",
            "random=5,cuda=12.4,sm=89,devices=2",
            "cuda=11.0,sm=50",
        ]
    ),
)
def test_other_modes_drivers_and_devices_in_a_random_order(python: Python, tmp_path: Path, words: str) -> None:
    """What they lack is not here: no row fails on a driver or a device that works.

    Rows that crash or reset the device have processes of their own, so the order does not matter.
    """
    before = os.times()
    command = [*CHECK, "--seed", "31", "--json", "report.json"]
    result = python(command, env={"RAWCUDA_EMULATOR": words}, timeout=120)
    assert result.returncode == 0 and "0 failed" in result.stdout, result.stdout + result.stderr
    now = os.times()  # of the processors: other processes of the machine may take most of the elapsed time
    assert now.children_user + now.children_system - before.children_user - before.children_system < 60
    report = json.loads((tmp_path / "report.json").read_text("utf-8"))
    names = [row["name"] for row in report["rows"]]
    assert report["seed"] == 31 and names.index("the process ends") == len(names) - 1 > 80
    assert names[:5] != [row.name for row in module("tools.checking.every_row").every()][:5]
    assert "launches: in a thread without a context" in result.stdout


@pytest.mark.parametrize("since, state", [((12, 8), "not here"), ((12, 4), "FAILED"), ((11, 0), "FAILED")])
def test_a_function_that_a_driver_lacks(device: rawcuda.Device, since: tuple[int, int], state: str) -> None:
    """It is not here if it came with a newer driver, and a failure if the driver should have it."""
    rows, lacks = module("tools.checking.rows"), module("errors").SymbolNotFound

    def run(given: object) -> None:
        raise lacks("cuX", symbol="cuX", since=since, driver_version=12040)

    row = rows.Row("group", "name", run, "", 0, False)
    assert rows.outcome(row, rows.Given(device)).state == state


def test_the_order_of_a_seed() -> None:
    chosen = module("tools.checking.workers").chosen
    assert chosen(None, 7) == chosen(None, 7) != chosen(None, 8)
    assert sorted(chosen(None, 7)) == chosen(None) and sorted(chosen("copies", 7)) == chosen("copies")


def test_a_row_that_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, memory = module("tools.checking.rows"), module("tools.checking.groups.check_memory")
    [row] = [row for row in module("tools.checking.every_row").every() if row.run is memory._shared]

    class Exclusive:
        def attribute(self, name: str) -> int:
            return 1

    found = rows.outcome(row, rows.Given(Exclusive()))
    assert found.state == "not asked" and "compute mode" in found.remark


@pytest.mark.parametrize(
    "system, machine, libc, release, name",
    [
        ("Linux", "x86_64", "glibc", "6.1.0", ""),
        ("Linux", "aarch64", "glibc", "6.1.0", "Linux on aarch64"),
        ("Linux", "x86_64", "", "6.1.0", "Linux without glibc on x86_64"),
        ("Linux", "x86_64", "glibc", "5.15.1-microsoft-standard-WSL2", "Linux inside Windows (WSL) on x86_64"),
        ("Windows", "AMD64", "", "11", "Windows on AMD64"),
        ("Darwin", "arm64", "", "24.0", "macOS on arm64"),
    ],
)
def test_the_first_report_from_a_system(
    monkeypatch: pytest.MonkeyPatch, system: str, machine: str, libc: str, release: str, name: str
) -> None:
    report, check = module("tools.checking.report"), module("tools.checking.check")
    for function, answer in ("system", system), ("machine", machine), ("libc_ver", (libc, "")), ("release", release):
        monkeypatch.setattr(report.platform, function, lambda answer=answer: answer)
    assert report.untested_system(on_gpu=False) == name
    assert ("first one from " + name in check._why_send(name)) == bool(name)
    with_gpu = report.untested_system(on_gpu=True)
    assert with_gpu == (name or "Linux on x86_64") + " with a GPU"


def test_the_report_says_whether_it_is_the_first_one(python: Python, tmp_path: Path) -> None:
    """On Linux on x86-64, only a GPU makes a report the first one."""
    result = python([*CHECK, "memory", "--json", "report.json"], timeout=120)
    made = json.loads((tmp_path / "report.json").read_text("utf-8"))
    assert made["untested"] == module("tools.checking.report").untested_system(on_gpu=made["driver"] == "nvidia")
    assert ("it is the first one from" in " ".join(result.stdout.split())) == bool(made["untested"])


def test_what_import_ignores_in_its_path_does_not_reach_another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [Path("a"), *sys.path, "b", None])
    command = module("tools.checking.rows").python("print(sys.path[-1])")
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "b\n"


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
    silent = {name for name, (_, _, nothing, *_) in found.items() if not nothing}
    by_error = {name for name, (_, error, *_) in found.items() if not error}
    assert len(found) > 80 and by_error <= ON_THE_HOST and silent <= ON_THE_HOST
    by_fault = {name: fault[0] for name, (_, _, _, *fault) in found.items() if fault}
    assert len(by_fault) > 10 and set(by_fault.values()) == {"FAILED"}, by_fault


ON_THE_HOST = {"exchange: buffers: array, bytes, ctypes", "exchange: the array interface"}


@pytest.mark.parametrize("name", sorted(ON_THE_HOST))
def test_rows_without_a_driver_can_fail(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, exchange = module("tools.checking.rows"), module("tools.checking.groups.check_exchange")
    [row] = [row for row in module("tools.checking.every_row").every() if f"{row.group}: {row.name}" == name]
    assert rows.outcome(row, rows.Given(None)).state == "ok"
    real = exchange.view
    monkeypatch.setattr(exchange, "view", lambda given: real(bytearray(6)))
    assert rows.outcome(row, rows.Given(None)).state == "FAILED"


def test_a_row_that_fails_leaves_no_thread(device: rawcuda.Device) -> None:
    """It would allocate memory beside all rows that follow in its process."""
    rows = module("tools.checking.rows")
    [row] = [row for row in module("tools.checking.every_row").every() if row.name == "5,000 in a queue"]

    class Refusing:
        def configure(self, **options: Any) -> Any:
            def launch(*arguments: Any) -> None:
                raise RuntimeError("refused")

            return launch

    given, before = rows.Given(device), threading.active_count()
    given.kernel = lambda name: Refusing()
    assert rows.outcome(row, given).remark == "RuntimeError: refused" and threading.active_count() == before


@pytest.mark.emulator_only("RAWCUDA_EMULATOR=fail=")
def test_a_driver_that_fails_in_the_middle(python: Python, tmp_path: Path) -> None:
    env: dict[str, str | None] = {"RAWCUDA_EMULATOR": "fail=cuGraphLaunch:1:1"}
    result = python([*CHECK, "graphs", "--json", "report.json"], env=env, timeout=120)
    assert result.returncode == 1
    found = rows_of(tmp_path / "report.json")
    assert [name for name, state in found.items() if state == "FAILED"] == ["graphs: captured from a stream"]
    assert found["graphs: built by hand"] == found["graphs: the process ends"] == "ok"
    assert "CUDA_ERROR_INVALID_VALUE" in result.stdout and "1 failed" in result.stdout


@pytest.mark.emulator_only("RAWCUDA_EMULATOR=fail=")
def test_a_lost_context_stops_no_other_row(python: Python, tmp_path: Path) -> None:
    """Each row that launches a graph loses its context, and the next row gets a new process."""
    env: dict[str, str | None] = {"RAWCUDA_EMULATOR": "fail=cuGraphLaunch:1:719"}
    result = python([*CHECK, "graphs", "--json", "report.json"], env=env, timeout=120)
    found = rows_of(tmp_path / "report.json")
    assert found.pop("graphs: the process ends") == "ok"
    assert result.returncode == 1 and set(found.values()) == {"FAILED"}
    assert result.stdout.count("CUDA_ERROR_LAUNCH_FAILED") == len(found)


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

    shutil.copytree(FOLDER, tmp_path / "hostile")
    path = tmp_path / "hostile" / "tools" / "checking" / "groups" / "check_copies.py"
    text = path.read_text("utf-8")
    head = "def _device(given: Given) -> None:\n"
    assert text.count(head) == 1
    path.write_text(text.replace(head, f"{head}    import os, signal, time\n    {change}\n"), "utf-8")
    words = ["-m", "hostile", "check", "copies", "--timeout", "3", "--json", "report.json"]
    result = python(words, env={"PYTHONPATH": str(tmp_path)}, timeout=120)
    assert result.returncode == 1, result.stderr
    found = rows_of(tmp_path / "report.json")
    assert [name for name, state in found.items() if state == "FAILED"] == ["copies: device to device"]
    assert len(found) > 10 and finding in " ".join(result.stdout.split()), result.stdout


@pytest.mark.parametrize(
    "change, finding",
    [
        ("atexit.register(os.kill, os.getpid(), signal.SIGSEGV)", "crashed with SIGSEGV"),
        ("atexit.register(os._exit, 7)", "ended with 7"),
        ("atexit.register(time.sleep, 60)", "no answer within 3 s"),
    ],
)
@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_a_process_that_does_not_end_well(python: Python, tmp_path: Path, change: str, finding: str) -> None:
    import shutil

    from tests.subject import FOLDER

    shutil.copytree(FOLDER, tmp_path / "hostile")
    room = tmp_path / "hostile" / "tools" / "checking" / "groups" / "check_copies.py"
    head = "def _device(given: Given) -> None:\n"
    text = room.read_text("utf-8").replace(head, f"{head}    import atexit, os, signal, time\n    {change}\n")
    room.write_text(text, "utf-8")
    words = ["-m", "hostile", "check", "copies", "--timeout", "3", "--json", "report.json"]
    result = python(words, env={"PYTHONPATH": str(tmp_path)}, timeout=120)
    assert result.returncode == 1, result.stderr
    found = rows_of(tmp_path / "report.json")
    assert [name for name, state in found.items() if state == "FAILED"] == ["copies: the process ends"]
    assert finding in " ".join(result.stdout.split()), result.stdout


@pytest.mark.emulator_only("RAWCUDA_EMULATOR=fail=")
def test_a_device_that_cannot_be_reset_after_an_error(python: Python, tmp_path: Path) -> None:
    """cuda.h says that the process must end after such an error: recovery is only a remark."""
    env: dict[str, str | None] = {"RAWCUDA_EMULATOR": "fail=cuDevicePrimaryCtxRetain:2:719"}
    result = python([*CHECK, "failures", "--json", "report.json"], env=env, timeout=120)
    assert result.returncode == 0, result.stdout
    rows = json.loads((tmp_path / "report.json").read_text("utf-8"))["rows"]
    assert any("not usable after a reset" in row["remark"] for row in rows)


def test_the_report_identifies_driver_mode_and_system(python: Python) -> None:
    env: dict[str, str | None] = {"CUDA_CACHE_MAXSIZE": "1234567", "HOME_OF": "nobody"}
    result = python([*CHECK, "device", "--json", "-"], env=env)
    report = json.loads(result.stdout)
    assert report["variables"]["CUDA_CACHE_MAXSIZE"] == "1234567" and "HOME_OF" not in report["variables"]
    assert report["loading"] in ("lazy", "eager") and report["cuda"] >= 11000 and report["system"]
    [device, *_] = report["devices"]
    assert set(device["modes"]) <= {"MIG", "WSL", "WDDM", "TCC", "integrated"}
    assert len(device["attributes"]) > 100 and device["attributes"]["WARP_SIZE"] == 32
    assert device["limits"]["stack_size"] and device["priorities"][0] >= device["priorities"][1]
    assert report["codes"]["700"][0] == "CUDA_ERROR_ILLEGAL_ADDRESS" and report["codes"]["0"][1]


def test_a_report_shows_only_variables_that_it_knows(device: rawcuda.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """A report is for everybody, and the key for NVIDIA's services has a name like that of a setting."""
    monkeypatch.setenv("NVIDIA_API_KEY", "a secret")
    monkeypatch.setenv("CUDA_CACHE_MAXSIZE", "1234567")
    report = module("tools.checking.report")
    monkeypatch.setattr(report, "_codes", lambda loaded: {})  # which asks for codes that do not exist, too
    made = report.report(module("driver").current())
    assert made["variables"]["CUDA_CACHE_MAXSIZE"] == "1234567" and "a secret" not in str(made)


@pytest.mark.emulator_only("RAWCUDA_EMULATOR=mig")
def test_the_report_tells_a_mig_instance_and_finds_what_can_be_found(python: Python) -> None:
    env: dict[str, str | None] = {"RAWCUDA_EMULATOR": "mig,fail=cuCtxGetLimit:1:801,fail=cuCtxGetLimit:2:2"}
    result = python([*CHECK, "exchange", "--json", "-"], env=env)
    [device] = json.loads(result.stdout)["devices"]
    assert device["modes"] == ["MIG"] and "OUT_OF_MEMORY" in device["limits"]["error"] and device["memory"]


@pytest.mark.parametrize(
    "path, build",
    [
        ("/usr/lib/x86_64-linux-gnu/libcuda.so.550.163.01", "550.163.01"),
        ("/usr/lib/wsl/drivers/nv_dispi.inf_amd64_0/libcuda.so.1.1", ""),
        ("", ""),
    ],
)
def test_the_build_of_the_driver(path: str, build: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The name of the current folder is not looked at, where no libcuda is known."""
    if os.path.exists("/proc/driver/nvidia/version"):
        pytest.skip("the kernel module tells the build")
    report = module("tools.checking.report")
    monkeypatch.setattr(report.locate, "mapped_file", lambda: path)
    (tmp_path / "535.104").mkdir()
    monkeypatch.chdir(tmp_path / "535.104")
    assert report._build(report._file()) == build


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


@pytest.mark.skipif(os.name != "posix", reason="a user without rights makes no links on Windows")
def test_the_report_replaces_a_link_and_no_device(tmp_path: Path) -> None:
    """Nobody gave the report its name, so another user may have put a link there, if he can write to the folder."""
    check = module("tools.checking.check")
    made = {"failed": 0, "untested": ""}
    options = argparse.Namespace(no_report=False, json=str(tmp_path / "rawcuda-check.json"))
    (tmp_path / "precious").write_text("precious")
    (tmp_path / "rawcuda-check.json").symlink_to(tmp_path / "precious")
    assert check._finish([], made, options, False) == 0
    assert (tmp_path / "precious").read_text() == "precious"
    assert json.loads((tmp_path / "rawcuda-check.json").read_text()) == made
    os.mkfifo(tmp_path / "pipe")
    options.json = str(tmp_path / "pipe")
    assert check._finish([], made, options, False) == 1 and (tmp_path / "pipe").is_fifo()
    assert sorted(os.listdir(tmp_path)) == ["pipe", "precious", "rawcuda-check.json"]


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
