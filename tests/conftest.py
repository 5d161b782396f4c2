"""Options, three marks, and fixtures: the driver, a snippet in a new process (`python`), other tests (`rerun`)."""

from __future__ import annotations

import compileall
import contextlib
import gc
import hashlib
import os
import signal
import subprocess
import sys
import textwrap
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Callable

import pytest
from _pytest.runner import runtestprotocol

from .subject import CHECKOUT, FOLDER, NAME, ROOT, module, rawcuda
from .unexpected import Watch

sys.dont_write_bytecode = False  # pytest keeps the rewritten tests: rewriting takes most of the time of a collection

# Without the GIL, CPython 3.13 never frees a class or the code of a function that is made after the first thread was
# started, nor what they refer to.
frees_classes = pytest.mark.skipif(
    sys.version_info[:2] == (3, 13) and not getattr(sys, "_is_gil_enabled", lambda: True)(),
    reason="CPython 3.13 without the GIL frees no classes",
)

# The largest number of tests (parameters not counted) for the emulator only, or for a GPU only. Of the first, two
# dozen are of rawcuda.step(): a GPU does not show its instructions.
CEILINGS = {"emulator_only": 128, "gpu_only": 20}  # one of the 128 runs with --every-call only


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("drivers")
    group.addoption(
        "--driver", choices=("emulator", "nvidia"), default="emulator", help="the driver on which tests/driver runs"
    )
    group.addoption("--mode", choices=("eager", "lazy", "random"), default="eager", help="when the emulator does work")
    group.addoption("--seed", type=int, default=0, help="the seed of the emulator's random mode")
    group.addoption(
        "--plain",
        action="store_true",
        help="run with the fast paths switched off, for views, launches and exports",
    )
    group.addoption(
        "--reuse", action="store_true", help="let the emulator give handles and addresses again at once, as drivers do"
    )
    group.addoption("--minutes", type=float, default=10.0, help="how long tests/attack or tests/load takes")
    group.addoption("--attack-seed", type=int, default=None, help="the seed of the campaign, to repeat a failure")
    group.addoption(
        "--again",
        action="store_true",
        help="leave out the tests that are marked once: a run on another Python or in another mode has seen them",
    )
    group.addoption("--every-call", action="store_true", help="run test_every_call.py, which is left out otherwise")
    group.addoption("--every-line", action="store_true", help="interrupt every call of test_every_call.py at each line")
    group.addoption("--signals", type=int, default=200, help="how many signals test_every_call.py sends")
    group.addoption(
        "--heavy", action="store_true", help="run only the tests that are marked heavy; otherwise they are left out"
    )
    group.addoption(
        "--change",
        default="",
        metavar="COMMIT",
        help="of the heavy tests, only those that every change must pass, and the tenth that this commit selects",
    )
    group.addoption(
        "--third",
        default="",
        metavar="WORD",
        help="only the third of the files that this word selects",
    )


def pytest_configure(config: pytest.Config) -> None:
    if sys.platform == "emscripten":
        from .pyodide.lacking import Lacking, refuse

        refuse()
        config.pluginmanager.register(Lacking())
    elif not hasattr(config, "workerinput"):
        # Tests start processes, which write no bytecode: without that of the package, each takes half a second more.
        compileall.compile_dir(FOLDER, quiet=2)
    if (
        signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    ):  # started in the background, where tests of Ctrl-C would wait for ever
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if config.getoption("reuse"):
        from .reuse import sitecustomize  # noqa: F401
    if config.getoption("driver") == "emulator":  # the emulator respects it; here it is about the GPUs of the machine
        os.environ.pop("CUDA_VISIBLE_DEVICES", None)
    for name in (
        "CI",
        "BUILD_NUMBER",
    ):  # where one is set, pytest looks for all differences of two lists: in cubic time
        os.environ.pop(name, None)
    config.addinivalue_line("markers", "emulator_only(reason): a diagnostic that only the emulator gives")
    config.addinivalue_line("markers", "gpu_only(reason): only a GPU can show this, such as speed or real asynchrony")
    config.addinivalue_line("markers", "counts_handles: the test counts what its interrupts and failures leave behind")
    config.addinivalue_line(
        "markers", "codes(said, ...): 'cuX returned 1': codes that the package may ignore in this test"
    )
    config.addinivalue_line("markers", "tells_freed: what was freed is recognized, as no address is given again")
    config.addinivalue_line("markers", "once: takes a while, and depends little on the Python or on the mode")
    config.addinivalue_line("markers", "heavy: takes a long time; `python3 -m tests --heavy` runs it")
    config.addinivalue_line("markers", "xdist_group(name): heavy tests that one process runs, after one another")
    config.addinivalue_line("markers", "every_change: a heavy test that every change must pass")


def pytest_report_header(config: pytest.Config) -> str:
    driver, mode, seed = (config.getoption(name) for name in ("driver", "mode", "seed"))
    told = f", {mode} mode, seed {seed}" if driver == "emulator" else ""
    if config.getoption("reuse"):
        told += ", handles and addresses are given again"
    return f"package: {NAME}   driver: {driver}{told}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):  # if there are several processes, run the longest tests first
        items.sort(key=lambda item: "rerun" not in getattr(item, "fixturenames", ()))
    skip_other_driver(config, items)
    heavy = config.getoption("heavy")
    again = config.getoption("again")
    left_out = [
        item
        for item in items
        if heavy != (item.get_closest_marker("heavy") is not None)
        or again
        and item.get_closest_marker("once") is not None
    ]
    if config.getoption("reuse"):
        left_out += [item for item in items if item.get_closest_marker("tells_freed") is not None]
    word = config.getoption("third")
    if word:
        left_out += [item for item in items if not in_third(item.nodeid, word)]
    commit = config.getoption("change")
    if commit and heavy:
        rest = [item for item in items if item not in set(left_out) and item.get_closest_marker("every_change") is None]
        chosen = tenth(rest, commit)
        config.stash[CHOSEN] = {item.nodeid for item in chosen}
        left_out += [item for item in rest if item not in chosen]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in set(left_out)]
    if heavy:  # those that take minutes come first: otherwise one process would have one left when the others have none
        items.sort(key=lambda item: not _takes_minutes(item))


def skip_other_driver(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Count the tests for one driver, those that are left out later, too; mark those for the other one as skipped."""
    other = {"emulator": "gpu_only", "nvidia": "emulator_only"}[config.getoption("driver")]
    marked = defaultdict(set)
    for item in items:
        for name in CEILINGS:
            mark = item.get_closest_marker(name)
            if mark is None:
                continue
            if len(mark.args) != 1 or not isinstance(mark.args[0], str) or not mark.args[0]:
                raise pytest.UsageError(f"{item.nodeid}: {name} needs a reason: @pytest.mark.{name}('why')")
            marked[name].add(item.nodeid.partition("[")[0])
            if name == other:
                item.add_marker(pytest.mark.skip(reason=f"{name}: {mark.args[0]}"))
    for name, tests in marked.items():
        if len(tests) > CEILINGS[name]:
            raise pytest.UsageError(
                f"{len(tests)} tests are {name}, above the limit of {CEILINGS[name]}: "
                "make them run on both drivers, or raise the limit in tests/conftest.py if there is a good reason"
            )


# -- the tenth of the heavy tests that a commit selects

CHOSEN = pytest.StashKey["set[str]"]()


def tenth(items: list[pytest.Item], commit: str) -> list[pytest.Item]:
    """Return every tenth of the items, in the order of hashes of their names, from a place that the commit selects.

    Of those that take minutes, every twentieth. The commits of some weeks select each item about equally often, and the
    long ones of a file not together.
    """
    ordered = sorted(items, key=lambda item: hashlib.sha256(item.nodeid.encode()).digest())
    place, chosen = int(hashlib.sha256(commit.encode()).hexdigest(), 16), []
    for takes_minutes, step in ((True, 20), (False, 10)):
        chosen += [item for item in ordered if _takes_minutes(item) is takes_minutes][place % step :: step]
    return chosen


def in_third(name: str, word: str) -> bool:
    """Tell whether a file of tests, or another name, is in the third that a word selects."""
    return hashlib.sha256(f"{word} {name.partition('::')[0]}".encode()).digest()[0] % 3 == 0


def third_of(config: pytest.Config, word: str) -> list[str]:
    """Return the option for a rerun: a change runs a third of the files, --heavy all.

    The commits of some days select each file.
    """
    commit = config.getoption("change")
    return [f"--third={commit}-{word}"] if commit else []


def _takes_minutes(item: pytest.Item) -> bool:
    """Tell whether a test runs other tests, or those of the site."""
    return not {"rerun", "site"}.isdisjoint(getattr(item, "fixturenames", ()))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Run a test of the tenth once more if it fails: a change does not wait for a test that seldom fails by chance."""
    if item.nodeid not in item.config.stash.get(CHOSEN, set()):
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    item.user_properties.append(("told", f"{item.nodeid}: in the tenth that this commit selects"))
    reports = runtestprotocol(item, nextitem=nextitem, log=False)
    if any(report.failed for report in reports):
        first = "\n".join(report.longreprtext for report in reports if report.failed)
        item.user_properties.append(("told", f"{item.nodeid}: failed once, and was run again\n{first}"))
        item._initrequest()  # type: ignore[attr-defined]
        reports = runtestprotocol(item, nextitem=nextitem, log=False)
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Run each test with an exception state of its own, so that later tests do not see "handled" exceptions of it.

    Where a trace function raises on the last line of an `except` block, CPython never ends the handling of the first
    exception: sys.exc_info() keeps it, with the frames, until the stack of that state ends. A generator has its own.
    """
    test = item.runtest

    def runtest() -> Iterator[None]:
        yield test()

    item.runtest = lambda: next(runtest())  # type: ignore[method-assign]
    try:
        return (yield)
    finally:
        item.runtest = test  # type: ignore[method-assign]


Python = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def python(pytestconfig: pytest.Config, tmp_path: os.PathLike[str]) -> Python:
    """Run a snippet in a new process. Tests of fork, exit, a missing libcuda or a bad environment need this.

        result = python('''
            from tests.subject import rawcuda, module
            print(rawcuda.Device(0).name)
        ''')
        assert result.returncode == 0, result.stderr

    It runs in an empty folder, on the driver of this test run, unless `env` changes that (None removes a variable:
    env={"RAWCUDA_DRIVER": None}). `flags` are options of Python ("-S", "-I"). With `check`, an exit status other than 0
    is a failure. `code` may also be a list of arguments, ["-m", "something"].
    """
    driver, mode, seed = (pytestconfig.getoption(name) for name in ("driver", "mode", "seed"))
    tmp = os.fspath(tmp_path)
    paths = [
        str(ROOT),
        str(CHECKOUT),
        *([str(CHECKOUT / "tests" / "reuse")] if pytestconfig.getoption("reuse") else []),
    ]

    def run(
        code: str | list[str],
        *arguments: str,
        env: dict[str, str | None] | None = None,
        flags: tuple[str, ...] = (),
        cwd: os.PathLike[str] | None = None,
        timeout: float = 60,
        check: bool = False,
        executable: str = sys.executable,
    ) -> subprocess.CompletedProcess[str]:
        variables: dict[str, str | None] = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths)),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONFAULTHANDLER": "1",
            "PYTEST_DEBUG_TEMPROOT": tmp,  # pytest deletes old folders beside its own, which may take a minute
            "TESTED_PACKAGE": NAME,
            "RAWCUDA_DRIVER": driver,
            "RAWCUDA_EMULATOR": ",".join((f"random={seed}" if mode == "random" else mode, "devices=2")),
            **(env or {}),
        }
        command = ["-c", textwrap.dedent(code)] if isinstance(code, str) else code
        with subprocess.Popen(
            [executable, *flags, *command, *arguments],
            cwd=cwd or tmp,
            text=True,
            errors="backslashreplace",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={name: value for name, value in variables.items() if value is not None},
        ) as process:
            try:
                out, error = process.communicate(timeout=timeout)
            except subprocess.TimeoutExpired:
                _show_stacks(process.pid)
                try:
                    out, error = process.communicate(timeout=10)
                except subprocess.TimeoutExpired:
                    process.kill()
                    out, error = process.communicate()
                pytest.fail(f"it did not end within {timeout} s:\n{out}\n{error}")
            except BaseException:
                process.kill()
                raise
        result = subprocess.CompletedProcess(process.args, process.returncode, out, error)
        if check and result.returncode:
            pytest.fail(f"exit status {result.returncode}\n{result.stdout}{result.stderr}")
        return result

    return run


def _show_stacks(process: int) -> None:
    """End a process and its children by a signal at which Python prints the stacks of all threads to stderr."""
    try:
        tasks = [each.read_text("ascii") for each in Path(f"/proc/{process}/task").glob("*/children")]
    except OSError:  # it has ended, or the system has no /proc
        tasks = []
    for child in " ".join(tasks).split():
        _show_stacks(int(child))
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, signal.SIGABRT)


Rerun = Callable[..., str]


@pytest.fixture
def rerun(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Rerun:
    """Run other tests from the checkout in a new process; fail with their output, or return it.

    Their last line is printed at the end of this run.
    """

    def run(command: list[str], *, env: dict[str, str] | None = None, timeout: float = 1800) -> str:
        result = subprocess.run(
            command,
            cwd=CHECKOUT,
            timeout=timeout,
            text=True,
            errors="backslashreplace",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTEST_DEBUG_TEMPROOT": str(tmp_path_factory.getbasetemp()), **(env or {})},
        )
        closing = (result.stdout.strip() or "no output").splitlines()[-1].strip("= ")
        request.node.user_properties.append(("told", f"{request.node.nodeid}: {closing}"))
        if result.returncode:
            pytest.fail(f"{' '.join(command)}: exit status {result.returncode}\n{result.stdout}", pytrace=False)
        return result.stdout

    return run


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    lines: dict[str, None] = {}  # a report repeats what earlier ones of its test have told
    for reports in terminalreporter.stats.values():
        for report in reports:
            for name, value in getattr(report, "user_properties", ()):
                if name == "told":
                    lines[value] = None
    if lines:
        terminalreporter.section("told by tests")
        terminalreporter.write("".join(line + "\n" for line in lines))


@pytest.fixture(scope="session")
def library(pytestconfig: pytest.Config) -> Any:
    """Choose the driver, once for each process, whichever test comes first. Return the Emulator, or None on a GPU."""
    option = pytestconfig.getoption
    if option("driver") == "nvidia":
        rawcuda.use("nvidia")
        return None
    executor = os.environ.get("TESTED_EXECUTOR", "auto")
    settings = {"mode": option("mode"), "seed": option("seed"), "devices": 2, "executor": executor}
    emulator = module("emulator").Emulator(**settings, keep_status=True)  # the status of a run is that of its tests
    rawcuda.use(emulator)
    watches.append(Watch(emulator))
    return emulator


watches: list[Watch] = []  # one, after a test has chosen the emulator


@pytest.fixture(autouse=True)
def no_unexpected_codes(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test in which the package was given an error code by the driver, and told nobody; see unexpected.py."""
    yield
    expected = tuple(f"{said} " for mark in request.node.iter_markers("codes") for said in mark.args)
    for watch in watches:
        unexpected = [said for said in watch.take() if not said.startswith(expected)]
        assert not unexpected, "unexpected error codes:\n" + "\n".join(unexpected)


@pytest.fixture
def driver(library: Any) -> Any:
    """Return the bound driver, `rawcuda.cu`."""
    return rawcuda.cu


@pytest.fixture
def device(library: Any) -> Any:
    """Return the first device."""
    return rawcuda.Device(0)


@pytest.fixture(scope="session", autouse=True)
def only_the_subject() -> Iterator[None]:
    """Fail if a run on a copy under another name has imported the original."""
    yield
    if NAME != "rawcuda":
        strays = sorted(name for name in sys.modules if name.partition(".")[0] == "rawcuda")
        assert not strays, f"the package under test is {NAME}, but these were imported, too: {strays}"


@pytest.fixture(scope="session", autouse=True)
def fast_paths_off(pytestconfig: pytest.Config) -> None:
    """With --plain, switch off each fast path of the package. Users do not need such a switch."""
    if pytestconfig.getoption("plain"):
        module("protocols.dlpack_capsule").reader_in_c = lambda *_: None
        module("protocols.dlpack_c_exchange").reader_for_torch = lambda *_: None
        module("protocols.buffer")._offset = 0
        module("tracing").careful.append("plain")


@pytest.fixture(scope="module", autouse=True)
def quick_collections() -> None:
    """Exclude all existing objects from garbage collections, so that collections in tests are fast."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def exports_are_freed() -> Iterator[None]:
    """Check that every tensor that a test exported was freed."""
    exports, sweep = module("dlpack").outstanding, module("dlpack").sweep
    in_browser = sys.platform == "emscripten"  # where no destructor frees what nobody consumed, but the next export
    gc.collect()
    before = len(exports) - (sweep() if in_browser else 0)
    yield
    gc.collect()
    if in_browser:
        sweep()
    assert len(exports) == before
