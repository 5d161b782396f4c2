"""Run tests in Pyodide, CPython for WebAssembly, under Node.js: python3 -m tests --pyodide [FILE ...]

Pointers have 4 bytes there, and there are no threads, processes or other libraries: a test that asks for one is
skipped. Without files, it runs those of tests/null and tests/driver that LEFT_OUT does not name. It needs Node.js and
npm, which installs Pyodide once, into .venv/.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
VERSION = "314.0.7"
PURE = ("_pytest", "pytest", "pluggy", "iniconfig", "packaging", "pygments", "py.py")  # what pytest consists of
_TOGETHER = 1  # files of tests that one process runs: what a skipped test leaves behind would disturb the next file
_MINUTES = 10  # that one process may take

# Files of tests that are not run there, and why. (Single tests are skipped where they ask for what is missing.)
_WIDE = "they are about layouts with pointers of 8 bytes, or about tables of C functions"
_SAME = "they read the checkout, which is the same everywhere"
LEFT_OUT = {
    **dict.fromkeys(
        [f"tests/null/test_dlpack_{name}.py" for name in ("exchange", "struct", "table")],
        _WIDE,
    ),
    **dict.fromkeys(
        [
            f"tests/null/test_{name}.py"
            for name in (
                "annotations",
                "behaviour",
                "benchmark_matrix",
                "clients",
                "clients_built",
                "commands",
                "docstrings",
                "harness",
                "import",
                "layers",
                "mutants",
                "package",
                "real_libcuda",
                "release",
                "style",
                "vendor",
            )
        ],
        _SAME,
    ),
    "tests/null/test_dlpack_export.py": "no callback is safe in a destructor there, so capsules are freed later",
}


class NotInstalled(Exception):
    """Pyodide is not there, and could not be installed."""


def pyodide() -> Path:
    """Return the folder of Pyodide; install it if it is not there.

    raises  NotInstalled  there is no npm, or it fails
    """
    folder = CHECKOUT / ".venv" / f"pyodide-{VERSION}"
    found = folder / "node_modules" / "pyodide"
    if not (folder / "complete").exists():
        if shutil.which("npm") is None or shutil.which("node") is None:
            raise NotInstalled("this needs Node.js with npm: install them (on Debian: apt install nodejs npm)")
        print(f"installing Pyodide {VERSION} into {folder.relative_to(CHECKOUT)} (once)", flush=True)
        command = ["npm", "install", "--no-save", "--no-audit", "--no-fund", f"--prefix={folder}", f"pyodide@{VERSION}"]
        folder.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode:
            raise NotInstalled(f"npm could not install Pyodide {VERSION}: {done.stdout}")
        (folder / "complete").touch()
    return found


def packages() -> Path:
    """Return a folder with pytest's packages, which are in Python only, from this environment."""
    folder = CHECKOUT / ".venv" / f"pyodide-{VERSION}" / "packages"
    if not folder.exists():
        import pytest

        source, made = Path(pytest.__file__).parents[1], folder.with_suffix(f".{os.getpid()}")
        for path in source.iterdir():
            if path.name in PURE or path.name.partition("-")[0] in PURE and path.name.endswith(".dist-info"):
                if path.is_dir():
                    shutil.copytree(path, made / path.name, ignore=shutil.ignore_patterns("__pycache__"))
                else:
                    shutil.copy2(path, made / path.name)
        made.replace(folder)
    return folder


def start(
    *words: str, timeout: float | None = None, places: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a module in Pyodide, in the checkout, and return its output, with the exit status.

    places  other folders of this machine, and where the module sees them
    """
    command = ["node", str(Path(__file__).with_name("run.mjs")), str(pyodide()), f"{CHECKOUT}=/checkout"]
    command += [f"{folder}={place}" for folder, place in (places or {}).items()] + ["--", *words]
    try:
        return subprocess.run(
            command,
            cwd=CHECKOUT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout,
            errors="replace",
        )
    except subprocess.TimeoutExpired as late:
        said = late.stdout.decode(errors="replace") if isinstance(late.stdout, bytes) else late.stdout or ""
        return subprocess.CompletedProcess(command, 124, f"{said}\nit took more than {timeout:g} seconds")


def files() -> list[str]:
    """Return the files of tests that can run."""
    found = [path for folder in ("null", "driver") for path in sorted((CHECKOUT / "tests" / folder).glob("test_*.py"))]
    return [name for name in (path.relative_to(CHECKOUT).as_posix() for path in found) if name not in LEFT_OUT]


def run(names: list[str]) -> tuple[str, int]:
    """Run files of tests in one process; return its output and exit status."""
    done = start(
        "pytest",
        *names,
        "-v",
        "--tb=short",
        "-rfEs",
        "--continue-on-collection-errors",
        "-p",
        "no:cacheprovider",
        "-o",
        "addopts=",
        timeout=60 * _MINUTES,
        places={str(packages()): "/packages"},
    )
    text = "\n".join(line for line in done.stdout.splitlines() if not line.startswith(("    at ", "async function ")))
    return text, done.returncode


def main(arguments: list[str]) -> int:
    """Run files of tests, and print what failed, how many were skipped for which reason, and the sum."""
    parser = argparse.ArgumentParser("python3 -m tests --pyodide", description=__doc__)
    parser.add_argument("files", nargs="*", metavar="FILE", help="files of tests; without them, all that can run")
    parser.add_argument("--output", type=Path, help="a file for the whole output")
    options = parser.parse_args(arguments)
    names, began = options.files or files(), time.monotonic()
    parts = [names[at : at + _TOGETHER] for at in range(0, len(names), _TOGETHER)]
    try:
        pyodide()
    except NotInstalled as missing:
        sys.exit(str(missing))
    packages()
    print(f"{len(names)} files of tests, in Pyodide {VERSION}", flush=True)
    sums: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    failed = False
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for part, (text, status) in zip(parts, pool.map(run, parts)):
            if options.output:
                with options.output.open("a", encoding="utf-8") as file:
                    file.write(text)
            closing = re.findall(r"^=+ (.* in [\d.]+s.*?) =+$", text, re.M)
            for number, word in re.findall(
                r"(\d+) (passed|failed|skipped|errors?|xfailed)", closing[-1] if closing else ""
            ):
                sums[word] += int(number)
            for number, why in re.findall(r"^SKIPPED \[(\d+)\] [^:]+(?::\d+)?: (.*)$", text, re.M):
                reasons[why] += int(number)
            if status not in (0, 5):
                failed = True
                print(text if not closing else "\n".join(re.findall(r"^(?:FAILED|ERROR) .*$", text, re.M)))
            print(f"{part[0]} ...: {closing[-1] if closing else f'the process ended with status {status}'}", flush=True)
    for why, count in reasons.most_common(12):
        print(f"skipped {count}: {why}")
    total = ", ".join(f"{count} {word}" for word, count in sorted(sums.items()))
    print(f"=== {total or 'no tests ran'} in {time.monotonic() - began:.2f}s ===")
    return int(failed or not sums["passed"])
