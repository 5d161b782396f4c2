"""The test harness itself: its marks, its leak check, its command line. Each must find a deliberate fault.

They test no part of the package, so most of them are heavy.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
import sys
import textwrap
from pathlib import Path
from typing import Callable

import pytest

from tests.conftest import CEILINGS, Python, in_third, tenth
from tests.subject import CHECKOUT, NAME

pytestmark = pytest.mark.skipif(NAME != "rawcuda", reason="the harness is tested only with the original")
heavy = pytest.mark.heavy

Suite = Callable[..., "tuple[int, str]"]


@pytest.fixture
def suite(python: Python, tmp_path: Path) -> Suite:
    """Run a new test file under this harness; return exit status and output."""

    def run(
        code: str,
        *options: str,
        plugins: tuple[str, ...] = ("tests.conftest", "tests.driver.conftest"),
        env: dict[str, str] | None = None,
    ) -> tuple[int, str]:
        (tmp_path / "test_it.py").write_text(
            "import ctypes, pytest\nfrom tests.subject import rawcuda, module\n" + textwrap.dedent(code)
        )
        loaded = [word for plugin in plugins for word in ("-p", plugin)]
        result = python(
            [
                "-m",
                "pytest",
                "-c",
                os.devnull,
                "--rootdir",
                ".",
                "-p",
                "no:cacheprovider",
                *loaded,
                "test_it.py",
                *options,
            ],
            env=env,
        )
        return result.returncode, result.stdout + result.stderr

    return run


# -- objects that a test leaves behind


def test_a_clean_test_passes(suite: Suite) -> None:
    status, output = suite("""
        def test_clean(device, driver, library):
            with device.stream() as stream:
                memory = device.allocate(100, stream=stream)
                device.allocate(100)                       # collected, and so released
                memory.close()
            assert library.live_handles()["context"] >= 1 and driver is rawcuda.cu
    """)
    assert status == 0, output


@heavy
@pytest.mark.parametrize(
    "fault, said",
    [
        ("kept.append(device.stream())", "handles leaked: {'stream': '0 before, 1 after'}"),
        ("kept.append(device.allocate(10))", "handles leaked: {'memory': '0 before, 1 after'}"),
        ("driver.cuEventCreate(ctypes.byref(event()), 0)", "No context|INVALID_CONTEXT"),
        (
            "rawcuda.cu.cuCtxPushCurrent_v2(module('headers.cuda_h').CUcontext(device.context))",
            "the current context is not the same as before",
        ),
        ("library.kept_exceptions.append(ZeroDivisionError('x'))", "ZeroDivisionError('x')"),
        ("import warnings; warnings.warn('x')", ""),
    ],
)
def test_a_test_that_leaves_something_behind_fails(suite: Suite, fault: str, said: str) -> None:
    status, output = suite(
        f"""
        kept, event = [], module("headers.cuda_h").CUevent
        def test_faulty(device, driver, library):
            {fault}
    """,
        "-W",
        "error",
    )
    assert status == 1 and any(words in output for words in said.split("|")), output


@heavy
def test_a_failing_test_is_not_blamed_for_what_its_traceback_holds(suite: Suite) -> None:
    status, output = suite("""
        def test_failing(device):
            stream = device.stream()
            assert stream is None
    """)
    assert status == 1 and "1 failed" in output and "error" not in output.splitlines()[-1], output


# -- error codes that nobody was told about


def test_a_code_that_the_package_keeps_to_itself_fails_a_test(suite: Suite) -> None:
    status, output = suite("""
        context, calls, header = (module(name) for name in ("gpu.core.context", "gpu.core.calls", "headers.cuda_h"))
        def test_caught(device, driver):
            assert not context.attempt(driver.cuEventDestroy_v2, header.CUevent(64))
        def test_ignored(device, driver):
            calls.report(driver, driver.raw("cuStreamDestroy_v2"), (ctypes.c_void_p(64),))
        def test_raised(device, driver):
            with pytest.raises(rawcuda.InvalidUse):
                driver.cuEventDestroy_v2(header.CUevent(64))
        def test_explained(device):
            event = device.event(timing=True)
            with pytest.raises(rawcuda.InvalidUse, match="record"):
                event.elapsed_ms(event)
        def test_planned(device, driver, library):
            library.fail("cuDeviceGetCount", 1, 999)
            assert not context.attempt(driver.cuDeviceGetCount, None)
            library.fail_no_more()
        def test_asked_in_the_test(driver):
            assert driver.raw("cuDeviceGetCount")(None) == 1
    """)
    assert status == 1 and "6 passed, 2 errors" in output, output
    assert "cuEventDestroy_v2 returned 201 at" in output and "which was caught at" in output, output
    assert "cuStreamDestroy_v2 returned 201 at" in output and "; it was ignored" in output, output


# -- the marks


@heavy
@pytest.mark.parametrize(
    "driver, ran, skipped", [("emulator", "emulator_only", "gpu_only"), ("nvidia", "gpu_only", "emulator_only")]
)
def test_a_mark_skips_on_the_other_side(suite: Suite, driver: str, ran: str, skipped: str) -> None:
    status, output = suite(
        """
        @pytest.mark.emulator_only("only there")
        def test_emulator_only():
            pass
        @pytest.mark.gpu_only("only there")
        def test_gpu_only():
            pass
    """,
        "--driver",
        driver,
        "-v",
        plugins=("tests.conftest",),
    )
    assert (
        status == 0 and f"test_{ran} PASSED" in output and f"test_{skipped} SKIPPED ({skipped}: only there)" in output
    ), output


@heavy
@pytest.mark.parametrize("mark", ["emulator_only", "gpu_only(7)", "gpu_only('')"])
def test_a_mark_needs_its_reason(suite: Suite, mark: str) -> None:
    status, output = suite(
        f"""
        @pytest.mark.{mark}
        def test_it():
            pass
    """,
        plugins=("tests.conftest",),
    )
    assert status == pytest.ExitCode.USAGE_ERROR and "needs a reason" in output, output


@heavy
@pytest.mark.parametrize("mark", CEILINGS)
@pytest.mark.parametrize("above", [0, 1])
def test_a_mark_has_a_ceiling(suite: Suite, mark: str, above: int) -> None:
    status, output = suite(
        f"""
        for number in range({CEILINGS[mark] + above}):
            @pytest.mark.{mark}("why")
            @pytest.mark.parametrize("counted_once", [1, 2])
            def each(counted_once):
                pass
            globals()[f"test_{{number}}"] = each
    """,
        "-q",
        plugins=("tests.conftest",),
    )
    assert status == (pytest.ExitCode.USAGE_ERROR if above else 0) and ("above the limit" in output) == bool(above), (
        output
    )


@heavy
@pytest.mark.parametrize("options, ran", [((), "light"), (("--heavy",), "heavy")])
def test_what_is_heavy_runs_only_on_demand(suite: Suite, options: tuple[str, ...], ran: str) -> None:
    status, output = suite(
        """
        def test_light(): print("ran light")
        @pytest.mark.heavy
        def test_heavy(): print("ran heavy")
    """,
        "-s",
        *options,
        plugins=("tests.conftest",),
    )
    assert status == 0 and f"ran {ran}" in output and "1 passed, 1 deselected" in output, output


@heavy
def test_a_copy_is_tested_without_the_original(suite: Suite, tmp_path: Path) -> None:
    (tmp_path / "renamed.py").touch()
    status, output = suite(
        "import rawcuda\ndef test_it(): pass",
        plugins=("tests.conftest",),
        env={"TESTED_PACKAGE": "renamed", "PYTHONPATH": f"{tmp_path}{os.pathsep}{CHECKOUT}"},
    )
    assert status == 1 and "these were imported, too: ['rawcuda" in output, output


def test_no_test_imports_the_original_by_its_name() -> None:
    """The copy's runs are heavy, so an `import rawcuda` in what they run would be noticed late."""
    programs = CHECKOUT / "tests" / "clients" / "programs"  # of users, who know it by its name
    files = [file for file in (CHECKOUT / "tests").rglob("*.py") if programs not in file.parents]
    strays = []
    for file in files:
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
            if any(name.partition(".")[0] == "rawcuda" for name in names):
                strays.append(f"{file.relative_to(CHECKOUT)}:{node.lineno}")
    assert len(files) > 100 and not strays, f"write `from tests.subject import rawcuda`: {strays}"


# -- python3 -m tests


@heavy
@pytest.mark.parametrize(
    "arguments, said",
    [
        (["nowhere"], "there is no folder tests/nowhere"),
        (["--driver", "nvidia", "--heavy"], "only the emulator has modes"),
        (["--here", "--heavy"], "each Python needs its own environment"),
        (["--driver", "cuda"], "invalid choice"),
    ],
)
def test_a_wrong_command_line_is_refused(python: Python, arguments: list[str], said: str) -> None:
    result = python(["-m", "tests", *arguments])
    assert result.returncode == 2 and said in result.stderr, result.stdout + result.stderr


@heavy
def test_what_follows_two_dashes_is_for_pytest(python: Python) -> None:
    result = python(["-m", "tests", "vendored", "--here", "--", "--collect-only", "-q", "-k", "runs_its_demo"])
    assert result.returncode == 0 and "1/" in result.stdout.splitlines()[-1], result.stdout + result.stderr


@heavy
def test_a_failure_is_the_exit_status(python: Python) -> None:
    result = python(["-m", "tests", "vendored", "--here", "--", "-k", "no_test_is_called_this"])
    assert result.returncode == pytest.ExitCode.NO_TESTS_COLLECTED, result.stdout + result.stderr


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Make a checkout without environments, with only the files that making one needs."""
    folder = tmp_path / "checkout"
    (folder / "tests").mkdir(parents=True)
    for name in ("setup.cfg", "tests/__init__.py", "tests/__main__.py"):
        shutil.copy(CHECKOUT / name, folder / name)
    return folder


@heavy
def test_without_a_network_it_says_what_to_do(python: Python, checkout: Path) -> None:
    env = {"PYTHONPATH": None, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": None, "PIP_CONFIG_FILE": os.devnull}
    result = python(["-m", "tests"], cwd=checkout, env=env)
    assert result.returncode == 1 and "python3 -m tests --here" in result.stderr, result.stdout + result.stderr
    assert not list(checkout.glob(".venv/*/complete")), "a failed environment is used by the next run"


@heavy
def test_without_ensurepip_it_says_what_to_do(python: Python, checkout: Path) -> None:
    result = python(
        """
        import importlib.util, sys
        find_spec = importlib.util.find_spec
        importlib.util.find_spec = lambda name: None if name == "ensurepip" else find_spec(name)
        from tests.__main__ import environment
        environment()
    """,
        env={"PYTHONPATH": str(checkout)},
    )
    assert result.returncode == 1 and "install its ensurepip" in result.stderr, result.stderr


def test_the_ci_runs_the_newcomers_command_first() -> None:
    commands = [
        line for line in (CHECKOUT / ".ci/run").read_text("utf-8").splitlines() if line.startswith("python3 -m tests")
    ]
    assert commands[0] == "python3 -m tests" and len(commands) > 1
    assert os.access(CHECKOUT / ".ci/run", os.X_OK) or sys.platform == "win32"


@heavy
def test_the_folders_of_the_long_tests_can_be_collected(python: Python) -> None:
    """Only the heavy half runs them, so an import that breaks there would be noticed late."""
    for folder in ("attack", "load", "reruns"):
        arguments = ["-m", "pytest", "--heavy", "--collect-only", "-q", "-p", "no:cacheprovider", f"tests/{folder}"]
        result = python(arguments, cwd=CHECKOUT)
        assert result.returncode in (0, 5), result.stdout + result.stderr  # (5: none is marked heavy)


# -- sweeps in one test


@heavy
def test_each_wrong_value_of_a_sweep_is_told(suite: Suite) -> None:
    status, output = suite(
        """
        from tests.shared import together
        @together("number", range(30))
        def test_sweep(number, tmp_path):
            assert tmp_path.exists()
            assert number not in (7, 21), f"no {number}"
        @together("number", ())
        def test_of_nothing(number): pass
        @pytest.mark.skip(reason="kept")
        @together("number", (1,))
        def test_marked(number): pass
    """,
        plugins=("tests.conftest",),
    )
    assert status == 1 and "2 failed, 1 skipped" in output, output
    assert "2 of 30 are wrong" in output and "no 7" in output and "no 21" in output and "has no number" in output


# -- what every change must pass

FLAKY = """
    import pathlib
    @pytest.mark.heavy
    @pytest.mark.every_change
    def test_always(): print("ran always")
    @pytest.mark.heavy
    @pytest.mark.parametrize("number", range(20))
    def test_seldom(number, request):
        path = pathlib.Path(f"tried-{number}")
        path.write_text(path.read_text() + "x" if path.exists() else "x")
        assert len(path.read_text()) > TRIES
"""


@heavy
@pytest.mark.parametrize("tries, ended", [(1, "3 passed"), (2, "2 failed, 1 passed")])
def test_a_change_runs_a_tenth_of_the_rest_and_repeats_what_fails(
    suite: Suite, tmp_path: Path, tries: int, ended: str
) -> None:
    code = FLAKY.replace("TRIES", str(tries))
    status, output = suite(code, "--heavy", "--change", "0123abc", "-s", plugins=("tests.conftest",))
    assert status == (ended != "3 passed") and ended in output.splitlines()[-1] and "ran always" in output, output
    assert output.count("in the tenth that this commit selects") == output.count("failed once, and was run again") == 2
    assert [path.read_text() for path in tmp_path.glob("tried-*")] == ["xx", "xx"]


@heavy
def test_what_takes_minutes_comes_first(suite: Suite) -> None:
    code = """
        import pytest
        pytestmark = pytest.mark.heavy
        def test_short(): print("short")
        def test_long(rerun): print("long")
    """
    status, output = suite(code, "--heavy", "-s", plugins=("tests.conftest",))
    assert status == 0 and output.index("long") < output.index("short"), output


@heavy
def test_the_tenths_of_many_commits_are_everything() -> None:
    class Item:
        def __init__(self, number: int) -> None:
            self.nodeid = f"test_{number}"

            self.fixturenames = ["rerun"] if number < 30 else []

    items = [Item(number) for number in range(73)]
    tenths = [tuple(each.nodeid for each in tenth(items, f"commit {number}")) for number in range(400)]
    assert len(set(tenths)) == 20
    assert {name for each in set(tenths) for name in each} == {each.nodeid for each in items}
    long = {each.nodeid for each in items if each.fixturenames}
    assert {len(long.intersection(each)) for each in tenths} == {1, 2}
    assert {len(each) - len(long.intersection(each)) for each in tenths} == {4, 5}
    assert tenth(items, "a") == tenth(items[::-1], "a")


@heavy
def test_the_thirds_of_many_words_are_everything() -> None:
    names = [f"tests/driver/test_{number}.py::test_it" for number in range(300)]
    thirds = [{name for name in names if in_third(name, f"commit {number}")} for number in range(40)]
    assert set().union(*thirds) == set(names) and all(60 < len(each) < 140 for each in thirds)
    assert all(in_third(f"{name}[parameter]", "commit 1") == (name in thirds[1]) for name in names)


@heavy
@pytest.mark.skipif(os.name == "nt", reason="a shell of POSIX")
@pytest.mark.parametrize("fails", [False, True])
def test_making_an_environment_shows_the_messages_of_pip_only_if_it_fails(
    python: Python, checkout: Path, tmp_path: Path, fails: bool
) -> None:
    """A program in the place of Python writes what pip would write; no pip runs."""
    program = tmp_path / "in_the_place_of_python"
    program.write_text(f"#!/bin/sh\necho Collecting a\necho WARNING: a page of it\nexit {int(fails)}\n")
    program.chmod(0o700)
    code = f"import tests.__main__ as command; print(command.installed({str(program)!r}, ['a']))"
    result = python(code, env={"PYTHONPATH": str(checkout)}, check=True)
    lines = result.stdout.splitlines()
    if fails:
        assert lines == ["Collecting a", "WARNING: a page of it", ""]
    else:
        assert re.fullmatch(r"  1 packages were installed in \d+ s", lines[0]) and lines[1:] == ["None"]


def test_the_text_of_each_correction_stands_in_its_module() -> None:
    from tests.mutants.corrections import CORRECTIONS, why_wrong

    wrong = {f"{row.module}: {row.defect}": why_wrong(row) for row in CORRECTIONS}
    assert not {row: why for row, why in wrong.items() if why}


def test_the_test_of_each_correction_exists(request: pytest.FixtureRequest) -> None:
    """It is looked for among the tests of this run, if these are whole files."""
    from tests.mutants.corrections import CORRECTIONS

    option = request.config.getoption
    if any(map(option, ("keyword", "markexpr", "again", "lf"))) or any("::" in word for word in request.config.args):
        pytest.skip("only a part of the tests was collected")
    names = {item.nodeid for item in request.session.items}
    files = {name.partition("::")[0] for name in names}
    tests = {f"tests/{row.test}" for row in CORRECTIONS if sys.version_info < row.before}
    assert not {test for test in tests - names if test.partition("::")[0] in files}
