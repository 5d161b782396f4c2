"""Run the tests from a checkout. This needs Python 3.9 or later, and no installed packages.

    python3 -m tests                     the folders null, emulator, driver, interop, vendored, docs
    python3 -m tests null driver         these folders only
    python3 -m tests --change            what every change must pass, too: a third of the files in lazy and random mode,
                                         and on the oldest and the newest Python of this machine; a vendored copy,
                                         the site, a part in WebAssembly, the instructions of hot calls; and a tenth
                                         of the other heavy tests. The commit selects them
    python3 -m tests --heavy             all tests that the plain command omits: those above, every Python of this
                                         machine, interop with the large libraries (PyTorch, JAX, Warp, DALI,
                                         TensorFlow...), other projects' suites, corrections, campaigns, the harness
    python3 -m tests --heavy reruns      only the heavy tests of these folders
    python3 -m tests --times             the same as without it, and tables of where the processor time goes
    python3 -m tests --attack            the campaign: random programs, objects and inputs, for ten minutes
    python3 -m tests --attack --minutes 60
    python3 -m tests --load              mixed work in 8 threads of each of 4 processes, for half an hour or --minutes
    python3 -m tests --clients           other projects' test suites on the emulator (docs/clients.md); --help says more
    python3 -m tests --pyodide           in CPython for WebAssembly, as in a browser; --help says more
    python3 -m tests --mutants           small changes to the package: which do the tests notice? --help says more
    python3 -m tests --driver nvidia     on a GPU
    python3 -m tests --here              with the packages of this Python; needs no network
    python3 -m tests -- -x -k launch     arguments after -- are passed to pytest

An environment is made once, in .venv/, for each version of Python and of the `test` extra in setup.cfg.
"""

from __future__ import annotations

import argparse
import configparser
import contextlib
import hashlib
import importlib.util
import os
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Iterator
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
# The processor time of `python3 -m tests` and of --change, in minutes: the first as measured, the second as the sum of
# its parts. --times measures it.
MINUTES = {"": 10, "--change": 32}


def main() -> int:
    """Run pytest as the command line requests, and return its exit status."""
    if "--clients" in sys.argv[1:2]:
        from .clients.command import main as run_clients

        return run_clients(sys.argv[2:])
    if "--mutants" in sys.argv[1:2]:
        from .mutants.command import main as run_mutants

        return run_mutants(sys.argv[2:])
    if "--pyodide" in sys.argv[1:2]:
        return subprocess.call([environment(), "-m", "tests.pyodide", *sys.argv[2:]], cwd=CHECKOUT)
    ours, for_pytest = split(sys.argv[1:])
    options = parse(ours)
    on_demand = options.heavy or options.change is not None
    folders = ("null", "emulator", "driver", "interop", "vendored", "docs", *(["reruns"] if on_demand else []))
    tests = [f"tests/{folder}" for folder in options.folders or folders]
    tests += ["--heavy"] if on_demand else []
    tests += ["--change", options.change or commit()] if options.change is not None else []
    tests += ["-p", "tests.times"] if options.times else []
    if options.attack or options.load:
        folder, minutes = ("attack", 10.0) if options.attack else ("load", 30.0)
        tests = [f"tests/{folder}", "--minutes", str(options.minutes or minutes)]
    python = sys.executable if options.here else environment()
    alone = options.here or options.attack or options.load or options.driver == "nvidia"
    cores = min(os.cpu_count() or 1, 4)
    processes = cores if on_demand else cores + 1  # for a tenth of the time, a test of the suite waits
    parallel = [] if alone else [f"--numprocesses={processes}", f"--dist={'loadgroup' if on_demand else 'worksteal'}"]
    kind = "--change" if options.change is not None else "" if not (options.heavy or alone or options.folders) else None
    if kind is not None and not for_pytest:
        print(
            f"pytest {' '.join(tests)}, in {processes} processes: about {MINUTES[kind] / cores:.0f} minutes; "
            "[ %] is how far it is",
            flush=True,
        )
    return subprocess.call(
        [python, "-m", "pytest", *tests, "--driver", options.driver, *parallel, *for_pytest], cwd=CHECKOUT
    )


def commit() -> str:
    """Return the hash of the commit that is checked out, or "none" outside a repository."""
    try:
        done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=CHECKOUT, capture_output=True, text=True)
    except OSError:
        return "none"
    return done.stdout.strip() or "none"


def split(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Divide a command line at its first "--"."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    return arguments[:end], arguments[end + 1 :]


def parse(arguments: list[str]) -> argparse.Namespace:
    """Parse the arguments before "--"."""
    parser = argparse.ArgumentParser(
        "python3 -m tests",
        description=__doc__,
        usage="python3 -m tests [FOLDER ...] [OPTION ...] [-- ...]",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "folders", nargs="*", metavar="FOLDER", help="null, emulator, driver, interop, vendored, docs, reruns"
    )
    parser.add_argument(
        "--driver", choices=("emulator", "nvidia"), default="emulator", help="the driver for the tests in driver/"
    )
    parser.add_argument("--heavy", action="store_true", help="only the tests that take a long time")
    parser.add_argument(
        "--change",
        nargs="?",
        const="",
        metavar="COMMIT",
        help="of those, what every change must pass, and the tenth that this commit selects; without it, HEAD",
    )
    parser.add_argument("--times", action="store_true", help="print where the processor time goes")
    parser.add_argument("--attack", action="store_true", help="only the campaign; the seed is printed")
    parser.add_argument("--load", action="store_true", help="only the load; its figures are printed")
    parser.add_argument("--minutes", type=float, help="how long the campaign (10) or the load (30) takes")
    parser.add_argument("--here", action="store_true", help="use the packages of this Python; install nothing")
    options = parser.parse_args(arguments)
    alone = "--attack" if options.attack else "--load" if options.load else ""
    if alone and (
        options.folders
        or options.heavy
        or options.change is not None
        or options.driver == "nvidia"
        or options.attack
        and options.load
    ):
        parser.error(f"{alone} is a run of its own, on the emulator: omit folders, other runs and --driver")
    if options.minutes is not None and not 0 < options.minutes < 10_000:
        parser.error(f"--minutes {options.minutes:g}: must be more than 0")
    if options.heavy and options.change is not None:
        parser.error("--change is a part of --heavy: give one of them")
    on_demand = options.heavy or options.change is not None
    for folder in options.folders:
        if not (CHECKOUT / "tests" / folder).is_dir():
            parser.error(f"there is no folder tests/{folder}")
    if options.driver == "nvidia" and on_demand and (not options.folders or "reruns" in options.folders):
        parser.error("only the emulator has modes: with --driver nvidia --heavy, give the folders, without reruns")
    if options.here and on_demand and (not options.folders or "reruns" in options.folders):
        parser.error("each Python needs its own environment: with --here --heavy, give the folders, without reruns")
    if options.here and importlib.util.find_spec("pytest") is None:
        parser.error(f"{sys.executable} has no pytest: install it, or omit --here")
    return options


def environment(needed: list[str] | None = None) -> str:
    """Return the Python of an environment with the test extra (or with `needed`); make it if there is none yet."""
    needed = requirements() if needed is None else needed
    key = hashlib.sha256("\n".join([sys.version, sys.base_prefix, *needed]).encode()).hexdigest()[:8]
    folder = CHECKOUT / ".venv" / "{}.{}-{}".format(*sys.version_info[:2], key)
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    complete = folder / "complete"  # written last: an interrupted environment is made again
    with alone(folder.with_name(f"{folder.name}.lock")):  # tests run in several processes
        if not complete.exists():
            make(folder, python, needed)
            complete.touch()
    return str(python)


@contextlib.contextmanager
def alone(path: Path) -> Iterator[None]:
    """Wait until no other process is inside, where the system has such locks."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    path.parent.mkdir(exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def make(folder: Path, python: Path, needed: list[str]) -> None:
    """Make an environment with these packages; exit with the reason if that fails."""
    print(f"making the environment {folder.relative_to(CHECKOUT)} (once; it needs a package index)", flush=True)
    if importlib.util.find_spec("ensurepip") is None:
        sys.exit(
            f"{sys.executable} cannot make environments: install its ensurepip (on Debian: apt install python3-venv), "
            f"or install {', '.join(needed)} and run python3 -m tests --here"
        )
    venv.create(folder, clear=True, with_pip=True)
    said = installed(str(python), needed)
    if said is not None:
        sys.exit(
            f"{said}\npip could not install {', '.join(needed)}; pip's messages are above. Without a network, install "
            "them by other means and run python3 -m tests --here"
        )


def installed(python: str, needed: list[str]) -> str | None:
    """Install packages, with one line that says how far this is; return pip's messages if it fails, otherwise None."""
    begin = time.monotonic()
    with tempfile.TemporaryFile() as messages:
        command = [python, "-m", "pip", "install", "--progress-bar=off", "--disable-pip-version-check", *needed]
        process = subprocess.Popen(command, stdout=messages, stderr=subprocess.STDOUT)
        while True:
            try:
                status = process.wait(timeout=1)
                break
            except subprocess.TimeoutExpired:
                if sys.stdout.isatty():
                    messages.seek(0)
                    steps = messages.read().decode(errors="replace").splitlines()
                    ready = sum(line.startswith("Collecting ") for line in steps)
                    print(f"\r  {time.monotonic() - begin:.0f} s, {ready} packages found", end="", flush=True)
        messages.seek(0)
        text = messages.read().decode(errors="replace")
    if status:
        return text
    number = text.count("\nCollecting ") + text.startswith("Collecting ")
    print(
        "\r" * sys.stdout.isatty() + f"  {number} packages were installed in {time.monotonic() - begin:.0f} s",
        flush=True,
    )
    return None


def requirements(extra: str = "test") -> list[str]:
    """Return the requirements of an extra in setup.cfg."""
    setup = configparser.ConfigParser()
    setup.read(CHECKOUT / "setup.cfg", encoding="utf-8")
    return setup["options.extras_require"][extra].split("\n")[1:]


if __name__ == "__main__":
    sys.exit(main())
