"""Run the tests from a checkout. This needs Python 3.9 or later, and no installed packages.

    python3 -m tests                     the folders null, driver, interop, vendored and docs
    python3 -m tests null driver         these folders only
    python3 -m tests --heavy             only the tests that the plain command omits: those marked heavy, driver again
                                         in every mode of the emulator, all again without fast paths, null, driver
                                         and interop again on every other Python of this machine, and interop with
                                         the large libraries (PyTorch, JAX, Warp, DALI, TensorFlow...)
    python3 -m tests --heavy reruns      only the heavy tests of these folders
    python3 -m tests --attack            the campaign: random programs, objects and inputs, for ten minutes
    python3 -m tests --attack --minutes 60
    python3 -m tests --load              mixed work in 8 threads of each of 4 processes, for half an hour or --minutes
    python3 -m tests --clients           other projects' test suites on the emulator (docs/clients.md); --help says more
    python3 -m tests --mutants           small changes to the package: which do the tests notice? --help says more
    python3 -m tests --driver nvidia     on a GPU
    python3 -m tests --here              with the packages of this Python; needs no network
    python3 -m tests -- -x -k launch     arguments after -- are passed to pytest

An environment is made once, in .venv/, for each version of Python and of the `test` extra in setup.cfg.
"""

from __future__ import annotations

import argparse
import configparser
import hashlib
import importlib.util
import os
import subprocess
import sys
import venv
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent


def main() -> int:
    """Run pytest as the command line requests, and return its exit status."""
    if "--clients" in sys.argv[1:2]:
        from .clients.command import main as run_clients

        return run_clients(sys.argv[2:])
    if "--mutants" in sys.argv[1:2]:
        from .mutants.command import main as run_mutants

        return run_mutants(sys.argv[2:])
    ours, for_pytest = split(sys.argv[1:])
    options = parse(ours)
    folders = ("null", "driver", "interop", "vendored", "docs", *(["reruns"] if options.heavy else []))
    tests = [f"tests/{folder}" for folder in options.folders or folders]
    tests += ["--heavy"] if options.heavy else []
    if options.attack or options.load:
        folder, minutes = ("attack", 10.0) if options.attack else ("load", 30.0)
        tests = [f"tests/{folder}", "--minutes", str(options.minutes or minutes)]
    python = sys.executable if options.here else environment()
    parallel = (
        []
        if options.here or options.attack or options.load or options.driver == "nvidia"
        else ["--numprocesses=auto", "--maxprocesses=4", "--dist=worksteal"]
    )
    return subprocess.call(
        [python, "-m", "pytest", *tests, "--driver", options.driver, *parallel, *for_pytest], cwd=CHECKOUT
    )


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
    parser.add_argument("folders", nargs="*", metavar="FOLDER", help="null, driver, interop, vendored, docs, reruns")
    parser.add_argument(
        "--driver", choices=("emulator", "nvidia"), default="emulator", help="the driver for the tests in driver/"
    )
    parser.add_argument("--heavy", action="store_true", help="only the tests that take a long time")
    parser.add_argument("--attack", action="store_true", help="only the campaign; the seed is printed")
    parser.add_argument("--load", action="store_true", help="only the load; its figures are printed")
    parser.add_argument("--minutes", type=float, help="how long the campaign (10) or the load (30) takes")
    parser.add_argument("--here", action="store_true", help="use the packages of this Python; install nothing")
    options = parser.parse_args(arguments)
    alone = "--attack" if options.attack else "--load" if options.load else ""
    if alone and (options.folders or options.heavy or options.driver == "nvidia" or options.attack and options.load):
        parser.error(f"{alone} is a run of its own, on the emulator: omit folders, other runs and --driver")
    if options.minutes is not None and not 0 < options.minutes < 10_000:
        parser.error(f"--minutes {options.minutes:g}: must be more than 0")
    for folder in options.folders:
        if not (CHECKOUT / "tests" / folder).is_dir():
            parser.error(f"there is no folder tests/{folder}")
    if options.driver == "nvidia" and options.heavy and (not options.folders or "reruns" in options.folders):
        parser.error("only the emulator has modes: with --driver nvidia --heavy, give the folders, without reruns")
    if options.here and options.heavy and (not options.folders or "reruns" in options.folders):
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
    if complete.exists():
        return str(python)
    print(f"making {folder} with {', '.join(needed)} (once; it needs a package index)", flush=True)
    if importlib.util.find_spec("ensurepip") is None:
        sys.exit(
            f"{sys.executable} cannot make environments: install its ensurepip (on Debian: apt install python3-venv), "
            "or install the above and run python3 -m tests --here"
        )
    venv.create(folder, clear=True, with_pip=True)
    install = subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *needed])
    if install.returncode:
        sys.exit(
            f"pip could not install {', '.join(needed)}; pip's messages are above. Without a network, install them by "
            "other means and run python3 -m tests --here"
        )
    complete.touch()
    return str(python)


def requirements(extra: str = "test") -> list[str]:
    """Return the requirements of an extra in setup.cfg."""
    setup = configparser.ConfigParser()
    setup.read(CHECKOUT / "setup.cfg", encoding="utf-8")
    return setup["options.extras_require"][extra].split("\n")[1:]


if __name__ == "__main__":
    sys.exit(main())
