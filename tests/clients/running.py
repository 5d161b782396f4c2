"""Run a client's test suite to its end, whatever its tests do to the process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent


class Result(NamedTuple):
    """The result of one test: "passed", "failed", "skipped" or "crashed", and the last line of its error."""

    outcome: str
    reason: str


def results(path: Path) -> tuple[dict[str, Result], str, bool]:
    """Read the results so far, the test that was started last without a result, and whether the suite has ended."""
    found: dict[str, Result] = {}
    running, ended = "", False
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        row = json.loads(line)
        if "started" in row:
            running = row["started"]
        elif "test" in row:
            if row["outcome"] != "passed" or row["test"] not in found:
                found[row["test"]] = Result(row["outcome"], row["reason"])
            running = "" if running == row["test"] else running
        else:
            ended = True
    return found, running, ended


def run_suite(
    python: str,
    tests: Sequence[str],
    folder: Path,
    log: Path,
    variables: Mapping[str, str],
    *,
    seconds: int = 300,
    words: str = "",
) -> dict[str, Result]:
    """Run pytest on the emulator until every test has a result, and return the results.

    python     the interpreter of the client's environment
    folder     the working directory
    log        a file for the results, which are continued if it exists; the output is in the same file with .txt
    words      for RAWCUDA_EMULATOR
    variables  of the environment
    """
    environment = {
        **os.environ,
        **variables,
        "CLIENT_RESULTS": str(log),
        "RAWCUDA_EMULATOR": words,
        "PYTHONPATH": str(HERE),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    command = [
        *(sys.executable, "-m", "rawcuda", "emulate", "--", "env", f"PYTHONPATH={HERE}", python, "-m", "pytest"),
        *("-q", "-p", "plugin", "-p", "no:cacheprovider", "--timeout", str(seconds), "--timeout-method", "thread"),
        *("--tb", "native", *tests),
    ]
    root = HERE.parent.parent
    while True:
        before = len(results(log)[0])
        with open(log.with_suffix(".txt"), "a", encoding="utf-8") as output:
            status = subprocess.run(
                command, cwd=folder, env={**environment, "PYTHONPATH": str(root)}, stdout=output, stderr=output
            ).returncode
        found, running, ended = results(log)
        if running and not ended:
            with open(log, "a", encoding="utf-8") as file:
                reason = f"the process ended with status {status}, or the test took more than {seconds} seconds"
                file.write(json.dumps({"test": running, "outcome": "crashed", "reason": reason}) + "\n")
        elif ended or len(found) == before:
            return found
