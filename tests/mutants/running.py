"""Run tests on mutants: each in a process that is forked from one that has imported everything except the package.

No file of the checkout is changed: the process that runs the tests, and all processes that it starts, get the changed
module from a folder of their own (startup/sitecustomize.py).
"""

from __future__ import annotations

import gc
import importlib
import importlib.util
import json
import marshal
import os
import resource
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest

from .changes import Mutant, mutated, statements_of
from .choice import Test

HERE = Path(__file__).resolve().parent
CHECKOUT = HERE.parent.parent
PACKAGE = CHECKOUT / "rawcuda"
LARGEST = 4 << 30  # bytes of data of a process that runs tests
SHORT = 0.05  # seconds: tests that are shorter run first
OPTIONS = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--tb=line", "-W", "ignore"]


def _startup() -> ModuleType:
    spec = importlib.util.spec_from_file_location("mutants_startup", HERE / "startup" / "sitecustomize.py")
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


startup = _startup()


def module_name(path: str) -> str:
    """Return the name of a module, given its path below the package."""
    return ".".join(("rawcuda", *Path(path).with_suffix("").parts)).replace(".__init__", "")


def prepare() -> None:
    """Import what every test needs and no mutant changes."""
    sys.path.insert(0, str(CHECKOUT))
    os.environ.update(OPENBLAS_NUM_THREADS="1", HYPOTHESIS_STORAGE_DIRECTORY=tempfile.mkdtemp(prefix="hypothesis-"))
    for name in ("numpy", "hypothesis", "ml_dtypes"):
        if importlib.util.find_spec(name) is not None:
            importlib.import_module(name)
    early = [name for name in sys.modules if name.partition(".")[0] == "rawcuda"]
    assert not early, f"imported before it could be replaced: {early}"
    gc.collect()
    gc.freeze()


class Ended(NamedTuple):
    """How the tests of a mutant ended, which test noticed it, and after how long."""

    outcome: str  # "survived", or why it is detected: "failed", "crashed", "time"
    test: str
    seconds: float


class _Chosen:
    """A plugin that runs only the chosen tests, short ones first, and tells the parent process about them."""

    def __init__(self, names: dict[str, float] | None, told: int, record: Any = None, folder: str = ""):
        self.names, self.told, self.record, self.folder = names, told, record, folder
        self.number = 0

    def tell(self, **row: object) -> None:
        """Send a row to the parent process."""
        os.write(self.told, json.dumps(row).encode() + b"\n")

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Select and sort the tests."""
        names = self.names
        if names is not None:
            chosen = [item for item in items if item.nodeid in names]
            chosen.sort(key=lambda item: (names[item.nodeid] > SHORT, item.nodeid.partition("::")[0]))
            items[:] = chosen
        self.tell(collected=len(items))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[Any]:
        """Tell which test runs, and record what it runs."""
        self.number += 1
        path = os.path.join(self.folder, str(self.number))
        if self.record is not None:
            os.environ["MUTANT_RECORD"] = path
            self.record.start(path)
        self.tell(started=item.nodeid, path=path)
        start = _cost()
        result = yield
        self.tell(ended=item.nodeid, seconds=_cost() - start)
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Tell about failures and skips."""
        if report.outcome != "passed":
            self.tell(test=report.nodeid, outcome=report.outcome)


def _cost() -> float:
    """Return the seconds of processor time so far, with child processes, and a little for the time of waiting."""
    return sum(os.times()[:4]) + time.perf_counter() / 50


def _into_children(folder: str) -> None:
    """Give the replaced modules to all processes that tests start, whatever environment these get."""
    start = str(HERE / "startup")
    os.environ["PYTHONPATH"] = os.pathsep.join([start, *filter(None, [os.environ.get("PYTHONPATH")])])
    original = subprocess.Popen.__init__

    def init(self: Any, *arguments: Any, **options: Any) -> None:
        env = options.get("env")
        if env is not None:
            paths = [start, *(each for each in env.get("PYTHONPATH", "").split(os.pathsep) if each and each != start)]
            ours = {key: os.environ[key] for key in ("MUTANT_MODULES", "MUTANT_RECORD") if key in os.environ}
            options["env"] = {**env, **ours, "PYTHONPATH": os.pathsep.join(paths)}
        original(self, *arguments, **options)

    subprocess.Popen.__init__ = init  # type: ignore[method-assign]


def _run_here(files: list[str], plugin: _Chosen, modules: str, log: str, stop: bool) -> None:
    """Run tests in this process, a child that ends with pytest's status."""
    os.setsid()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_DATA, (LARGEST, LARGEST))
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    empty = os.open(os.devnull, os.O_RDONLY)
    for target, source in ((0, empty), (1, output), (2, output)):
        os.dup2(source, target)
    os.chdir(CHECKOUT)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    startup.install(modules)
    _into_children(modules)
    status = 3
    try:
        temporary = f"--basetemp={os.path.dirname(modules)}/tests"
        seed = ["--hypothesis-seed=0"] if "hypothesis" in sys.modules else []
        status = int(pytest.main([*OPTIONS, *seed, temporary, *(["-x"] if stop else []), *files], plugins=[plugin]))
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


class Limits(NamedTuple):
    """How much processor time a test may take, in seconds: what its recording took, multiplied, and some more.

    idle  seconds of waiting, which are more if the machine has more to do than it has cores
    """

    times: float = 20
    more: float = 5
    idle: float = 30


LIMITS = Limits()


def _used(process: int) -> float:
    """Return the processor time of a process in seconds, or 0 where the system has no /proc."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text("ascii").rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def _watch(child: int, told: int, seconds: dict[str, float], limits: Limits) -> tuple[list[dict[str, Any]], str]:
    """Read what a child tells until it ends or takes too long; return the rows and the test that took too long."""
    rows: list[dict[str, Any]] = []
    rest, running, expected = b"", "collection", 10.0
    begin, used = time.monotonic(), _used(child)
    while True:
        ready, _, _ = select.select([told], [], [], 0.5)
        if not ready:
            waited = (time.monotonic() - begin) / max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
            if _used(child) - used > limits.times * expected + limits.more or waited > limits.idle + 2 * expected:
                return rows, running
            continue
        data = os.read(told, 1 << 16)
        if not data:
            return rows, ""
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            rows.append(json.loads(line))
            running = rows[-1].get("started", running)
            if "outcome" not in rows[-1]:
                expected = seconds.get(running, 2.0) if "started" in rows[-1] else 2.0
                begin, used = time.monotonic(), _used(child)


def _fork(
    files: list[str],
    names: dict[str, float] | None,
    codes: dict[str, Any],
    log: Path,
    limits: Limits,
    *,
    record: str = "",
) -> tuple[list[dict[str, Any]], str, int]:
    """Run tests in a child; return what it told, the test that took too long or "", and the status of the child."""
    folder = tempfile.mkdtemp(prefix="mutant-")
    try:
        modules = os.path.join(folder, "modules")
        os.mkdir(modules)
        for name, code in codes.items():
            Path(modules, name).write_bytes(marshal.dumps(code))
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            os.close(reading)
            recorder = startup.record() if record else None
            _run_here(files, _Chosen(names, writing, recorder, record), modules, str(log), names is not None)
        os.close(writing)
        try:
            rows, late = _watch(child, reading, names or {}, limits)
        finally:
            _end(child)
            _, status = os.waitpid(child, 0)
            os.close(reading)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return rows, late, status


def _end(child: int) -> None:
    """End a child and the processes that it started, if it still runs a second after its last word."""
    for _ in range(100):
        if os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
            break
        time.sleep(0.01)
    try:
        os.killpg(child, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass


def run_mutant(mutant: Mutant, tests: list[Test], log: Path) -> Ended:
    """Run tests on a mutant until one fails."""
    path = PACKAGE / mutant.module
    code = mutated(path.read_text("utf-8"), mutant.number, str(path))
    return run_codes({module_name(mutant.module): code}, tests, log)


def run_codes(codes: dict[str, Any], tests: list[Test], log: Path, limits: Limits = LIMITS) -> Ended:
    """Run tests until one fails, with other code for some modules, or with none: a control."""
    begin = time.monotonic()
    names = {test.name: test.seconds for test in tests}
    rows, late, status = _fork(sorted({test.file for test in tests}), names, codes, log, limits)
    failed = [row["test"] for row in rows if row.get("outcome") == "failed"]
    started = [row["started"] for row in rows if "started" in row]
    outcome, test = "survived", ""
    if failed:
        outcome, test = "failed", failed[0]
    elif late:
        outcome, test = "time", late
    elif status == 2 << 8:  # a module could not be imported
        outcome, test = "failed", "collection"
    elif status not in (0, 5 << 8) or not _complete(rows):  # 5: the change took the tests' parameters away
        outcome, test = "crashed", started[-1] if started else "collection"
    return Ended(outcome, test, time.monotonic() - begin)


def not_passing(tests: list[Test], log: Path) -> list[str]:
    """Run tests on the unchanged package; return those that fail, are skipped, or do not exist."""
    names = {test.name: test.seconds for test in tests}
    rows, _, _ = _fork(sorted({test.file for test in tests}), names, {}, log, LIMITS)
    ended, told = ({row[key] for row in rows if key in row} for key in ("ended", "test"))
    return sorted(set(names) - (ended - told))


def _complete(rows: list[dict[str, Any]]) -> bool:
    """Tell whether all tests ran: a process may also end with status 0 in the middle of a test."""
    return [row["collected"] for row in rows if "collected" in row] == [sum("ended" in row for row in rows)]


def with_probes(wanted: set[tuple[str, int]]) -> dict[str, Any]:
    """Compile each module that has some of these statements, with a probe at each of them."""
    codes: dict[str, Any] = {}
    for module in {module for module, _ in wanted}:
        path = PACKAGE / module
        tree = statements_of(module, path.read_text("utf-8"), wanted)[1]
        codes[module_name(module)] = compile(tree, str(path), "exec", dont_inherit=True)
    return codes


def record_file(file: str, codes: dict[str, Any], kept: Path, log: Path) -> dict[str, Any]:
    """Run a file of tests and write which statements each test that passes runs; `codes` are with_probes()."""
    with tempfile.TemporaryDirectory(prefix="record-") as folder:
        limits = Limits(more=300, idle=300)
        rows, late, status = _fork([file], None, codes, log, limits, record=folder)
        without = {row["test"] for row in rows if "outcome" in row}
        paths = {row["started"]: row["path"] for row in rows if "started" in row}
        found: dict[str, Any] = {}
        for row in rows:
            if "ended" in row and row["ended"] not in without:
                ran: dict[str, list[int]] = {}
                path = Path(paths[row["ended"]])
                for line in sorted(set(path.read_text("ascii").splitlines())) if path.exists() else ():
                    module, number = line.split()
                    ran.setdefault(module, []).append(int(number))
                found[row["ended"]] = {"seconds": round(row["seconds"], 4), "ran": ran}
    if late or status not in (0, 1 << 8, 5 << 8):
        print(f"{file}: ended with status {status}, {late or 'no test'} was late; see {log}", flush=True)
    kept.write_text(json.dumps(found), "utf-8")
    return {"passed": len(found), "left out": len(without)}
