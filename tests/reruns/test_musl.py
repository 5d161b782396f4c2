"""Tests with musl in the place of glibc: a CPython that is built for it here, on this machine's kernel.

This needs GCC, make, and an apt that can download Debian's packages; nothing is installed. The first run unpacks musl
and builds zlib, libffi and CPython in .venv/, which takes some minutes. What differs from glibc is the loader of
libraries, the size of the stacks of threads, and that NVIDIA's libraries cannot be loaded. It is not Alpine Linux.
"""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.null import real_drivers
from tests.subject import CHECKOUT, NAME

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.skipif(NAME != "rawcuda", reason="this runs the checkout"),
    pytest.mark.xdist_group("musl"),
]

MACHINE = platform.machine()
VERSION = "3.13"  # of Python
MUSL = ("trixie", ("musl", "musl-dev", "musl-tools"))  # a suite of Debian, and its packages
SOURCES = (("trixie", (f"python{VERSION}",)), ("bookworm", ("zlib", "libffi")))
WHEELS = ("pytest >= 8", "numpy")
ROOT = CHECKOUT / ".venv" / f"musl-{VERSION}"
PYTHON = ROOT / f"trixie-source/root/python{VERSION}/python"  # it runs where it was built

# GCC as a compiler for musl, which finds the headers of Linux, and says what it compiles for.
COMPILER = """#!/bin/sh
[ "$1" = --print-multiarch ] && exec echo {machine}-linux-musl
exec {gcc} "$@" -specs {specs} -idirafter {headers}
"""

# The files of tests: all that need no driver, and those about what differs.
FILES = {
    "null": ("null",),
    "driver": tuple(
        f"driver/test_{name}.py" for name in ("copies", "kernel", "launch", "modules", "process", "stream")
    ),
}
# The first needs pytest's cache; why the second one finds a registration of the module random was not examined.
LEFT_OUT = (
    "tests/null/test_harness.py::test_the_test_of_each_correction_exists",
    "tests/null/test_import.py::test_importing_every_module_loads_no_library",
    # these compile CUDA C
    "tests/null/test_benchmark_matrix.py::test_each_row_runs_or_names_the_library_that_it_lacks",
    "tests/null/test_vendor.py::test_a_part_works_alone_in_a_bare_interpreter[compiler]",
)


def _done(command: list[str], **options: object) -> None:
    """Run a command; skip the test if it fails."""
    done = subprocess.run(  # type: ignore[call-overload]
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options
    )
    if done.returncode:
        pytest.skip(f"{shlex.join(command)}: {done.stdout[-500:]}")


@pytest.fixture(scope="module")
def python(pytestconfig: pytest.Config) -> Path:
    """Return a Python for musl; build it if there is none."""
    if pytestconfig.getoption("change"):
        pytest.skip("this takes too long for each change: `python3 -m tests --heavy reruns -- -k musl` runs it")
    if not sys.platform.startswith("linux") or platform.libc_ver()[0] != "glibc":
        pytest.skip("this builds a Python for musl beside glibc")
    missing = [program for program in ("gcc", "make") if shutil.which(program) is None]
    if missing:
        pytest.skip(f"there is no {' or '.join(missing)} (on Debian: apt install build-essential)")
    if not (ROOT / "complete").exists():
        shutil.rmtree(ROOT, ignore_errors=True)
        _make()
        (ROOT / "complete").touch()
    return PYTHON


def _unpacked(name: str, suite: str, packages: tuple[str, ...], *, source: bool = False) -> Path:
    """Unpack packages, and return the folder."""
    reason = real_drivers.unpack(ROOT / name, suite, packages, source=source)
    if reason:
        pytest.skip(reason)
    return ROOT / name / "root"


def _make() -> None:
    """Build the libraries and CPython, and install the wheels."""
    ROOT.mkdir(parents=True)
    compiler = _compiler(_unpacked("musl", *MUSL))
    folders = [_unpacked(f"{suite}-source", suite, packages, source=True) for suite, packages in SOURCES]
    prefix = ROOT / "usr"
    variables = {**os.environ, "CC": str(compiler), "CFLAGS": "-O2 -fPIC"}
    libffi = ["--disable-shared", "--disable-docs", "--disable-multi-os-directory", f"--host={MACHINE}-linux-musl"]
    for name, words in (("zlib", ["--static"]), ("libffi", libffi)):
        _done(["./configure", *words, f"--prefix={prefix}"], cwd=folders[1] / name, env=variables)
        _done(["make", "install"], cwd=folders[1] / name, env=variables)
    del variables["CFLAGS"]
    given = ["PKG_CONFIG=false", "OPT=-DNDEBUG -O1"]  # to be built quickly
    for name, short in (("LIBFFI", "ffi"), ("ZLIB", "z")):
        given += [f"{name}_CFLAGS=-I{prefix}/include", f"{name}_LIBS=-L{prefix}/lib -l{short}"]
    words = [f"--prefix={prefix}", "--without-ensurepip", "--disable-test-modules", *given]
    _done(["./configure", *words], cwd=PYTHON.parent, env=variables)
    _done(["make", f"-j{os.cpu_count()}"], cwd=PYTHON.parent, env=variables)
    place = ["--target", str(prefix / f"lib/python{VERSION}/site-packages"), "--only-binary=:all:"]
    place += ["--python-version", VERSION, "--platform", f"musllinux_1_2_{MACHINE}"]
    _done([sys.executable, "-m", "pip", "install", "--quiet", *place, *WHEELS])


def _compiler(musl: Path) -> Path:
    """Make the compiler for musl, and return it. Its name is not gcc, which an nvcc would run."""
    compiler, headers = ROOT / "bin" / "cc", ROOT / "headers"
    for folder in (compiler.parent, headers):
        folder.mkdir()
    for name, place in (("linux", ""), ("asm-generic", ""), ("asm", f"{MACHINE}-linux-gnu")):
        (headers / name).symlink_to(Path("/usr/include", place, name))
    text = (musl / f"usr/lib/{MACHINE}-linux-musl/musl-gcc.specs").read_text("utf-8")
    specs = ROOT / "specs"
    specs.write_text(text.replace("/usr/", f"{musl}/usr/").replace("/lib/ld-musl", f"{musl}/usr/lib/ld-musl"), "utf-8")
    compiler.write_text(
        COMPILER.format(machine=MACHINE, gcc=shutil.which("gcc"), specs=specs, headers=headers), "utf-8"
    )
    compiler.chmod(0o755)
    return compiler


def start(python: Path, *words: str, timeout: float) -> subprocess.CompletedProcess[str]:
    """Run that Python in the checkout, where `cc` compiles for musl, too."""
    variables = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "RAWCUDA"))}
    return subprocess.run(
        [str(python), *words],
        cwd=CHECKOUT,
        env={
            **variables,
            "PATH": f"{ROOT / 'bin'}:{os.environ['PATH']}",
            "PYTHONPYCACHEPREFIX": str(ROOT / "bytecode"),
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=timeout,
    )


def test_it_is_musl(python: Path) -> None:
    code = "import ctypes, os; print('CS_GNU_LIBC_VERSION' in os.confstr_names, open('/proc/self/maps').read())"
    said = start(python, "-c", code, timeout=60).stdout
    assert "ld-musl" in said or "musl/libc.so" in said, said
    assert "libc.so.6" not in said


@pytest.mark.parametrize("part", FILES)
def test_the_tests_pass_on_musl(python: Path, part: str) -> None:
    files = [f"tests/{name}" for name in FILES[part]]
    options = [
        "-q",
        "--tb=short",
        "-rfE",
        "-p",
        "no:cacheprovider",
        "-o",
        "addopts=",
        *(f"--deselect={name}" for name in LEFT_OUT),
    ]
    done = start(python, "-m", "pytest", *files, *options, timeout=5400)
    print(done.stdout)
    assert done.returncode == 0 and " passed" in done.stdout.splitlines()[-1], done.stdout


@pytest.mark.parametrize(
    "command", ["demo --driver emulator", "doctor --driver emulator", "check --driver emulator --no-report"]
)
def test_the_commands_run_on_musl(python: Path, command: str) -> None:
    done = start(python, "-m", "rawcuda", *command.split(), timeout=900)
    print(done.stdout)
    assert done.returncode == 0, done.stdout


def test_the_error_says_that_the_driver_needs_glibc(python: Path) -> None:
    """With NVIDIA's own driver, which is found."""
    found, reason = real_drivers.drivers(CHECKOUT / ".venv" / "libcuda")
    if not found:
        pytest.skip(reason)
    code = f"import rawcuda; rawcuda.use({str(found[0])!r}); rawcuda.Device(0)"
    done = start(python, "-c", code, timeout=60)
    assert done.returncode == 1 and "symbol not found" in done.stdout, done.stdout
    assert "need glibc" in done.stdout and "use a Python for glibc, or run on the emulator" in done.stdout
