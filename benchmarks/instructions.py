"""Count the processor instructions of one call of each hot row of the matrix, under valgrind's callgrind.

    python3 -m benchmarks --instructions            count, and compare with instructions.txt; status 1 if a row grew
    python3 -m benchmarks --instructions copies     only rows whose family or label contains the word
    python3 -m benchmarks --instructions --write    count, and write instructions.txt

A clock measures everything that the machine does. The number of instructions is the same within 1 % from run to run,
so it shows what a change adds to a call. It is not a time: it tells nothing about who is faster. It depends on the
build of Python and on NumPy, so the file names them, and other builds are not compared with it.

Once in some thousand rows, a number is some percent too large: Python keeps the attributes of types in a table that is
indexed by addresses, and two of them meet in one entry. So a row that grew is counted again in a new process, in which
the addresses are others, and the smaller number counts.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from importlib import metadata
from pathlib import Path
from typing import Any

from . import matrix, stub

FILE = Path(__file__).with_name("instructions.txt")
HOT = (  # families of what programs do for each launch, view or copy
    *("launch, arguments", "launch, bound streams", "launch, given each time", "view, host arrays", "view, CAI"),
    *("events and waits", "copies", "fills"),
)
OTHERS = re.compile(r"torch_|jax_|core_|_core|(?<![.\w])[A-Z][A-Z0-9_]*\b")  # names of other libraries in expressions
GROWTH = 1.03  # two runs differ by up to 0.4 %
WARM, COUNT, TIMES = 150, 60, 3
MARKS = """
#include <valgrind/callgrind.h>
void start(void) { CALLGRIND_ZERO_STATS; }
void stop(void) { CALLGRIND_DUMP_STATS; }
"""
Counts = dict[str, int]


def rows(words: list[str] | None = None) -> list[matrix.Row]:
    """Return the hot rows that need no library but NumPy; of these, the rows that have all the words."""
    return [row for row in matrix.rows(words or []) if row.family in HOT and not OTHERS.search(row.ours)]


def name_of(row: matrix.Row) -> str:
    """Return the name of a row in the file."""
    return f"{row.family}: {row.label}"


def build() -> str:
    """Describe what the numbers depend on, in one line."""
    libc = " ".join(platform.libc_ver())
    return (
        f"{platform.python_implementation()} {' '.join(sys.version.split())}, {platform.machine()}, {libc}, numpy "
        + (metadata.version("numpy"))
    )


def stored() -> tuple[str, Counts]:
    """Read the file: the build that it was made with, and the instructions of each row."""
    described, counts = "", {}
    for line in FILE.read_text("utf-8").splitlines() if FILE.exists() else ():
        if line.startswith("build: "):
            described = line[len("build: ") :]
        elif line and not line.startswith("#"):
            number, _, name = line.strip().partition("  ")
            counts[name] = int(number)
    return described, counts


def text_of(counts: Counts) -> str:
    """Return the text of the file."""
    lines = ["# The processor instructions of one call of each hot row of the matrix, without the loop around it."]
    lines += ["# Made by: python3 -m benchmarks --instructions --write", f"build: {build()}"]
    family = ""
    for row in rows():
        if name_of(row) in counts:
            lines += [""] if row.family != family else []
            family = row.family
            lines.append(f"{counts[name_of(row)]:7}  {name_of(row)}")
    return "\n".join(lines) + "\n"


def unable() -> str:
    """Return why instructions cannot be counted here, or ""."""
    for program in ("valgrind", "cc"):
        if shutil.which(program) is None:
            return f"{program} is not installed (on Debian: apt install valgrind gcc)"
    try:
        metadata.version("numpy")
    except metadata.PackageNotFoundError:
        return "NumPy is not installed in this environment"
    return ""


def count(folder: Path, names: list[str], seed: int = 0) -> tuple[Counts, dict[str, str]]:
    """Count in a process under callgrind; return the instructions of each row, and the rows that failed.

    seed  of the hashes of texts; the size of the environment depends on it, too, and so do the addresses of objects
    """
    driver = stub.build(folder)
    assert driver is not None
    source = folder / "marks.c"
    source.write_text(MARKS)
    marks = folder / "marks.so"
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", str(marks), str(source)], check=True)
    with tempfile.TemporaryDirectory(prefix="callgrind-") as dumps:
        done = subprocess.run(
            ["valgrind", "--tool=callgrind", f"--callgrind-out-file={dumps}/cg", "--compress-strings=yes", "-q"]
            + [sys.executable, "-m", "benchmarks.instructions", str(marks), dumps, *names],
            cwd=FILE.parent.parent,
            env={
                **{name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ},
                **{"RAWCUDA_DRIVER": str(driver), "LD_LIBRARY_PATH": str(folder), "PYTHONHASHSEED": str(seed)},
                **{"OPENBLAS_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1", "PADDING": seed * 1000 * "x"},
            },
            stdout=subprocess.PIPE,
            text=True,
        )
    if done.returncode:
        sys.exit(f"counting ended with status {done.returncode}")
    said = [json.loads(line) for line in done.stdout.splitlines()]
    return (
        {each["row"]: each["count"] for each in said if "count" in each},
        {each["row"]: each["failed"] for each in said if "failed" in each},
    )


def compare(counts: Counts, before: Counts) -> tuple[list[str], list[str]]:
    """Return the lines to print for all rows, and what is wrong: rows that grew, and rows that are not in the file."""
    lines, wrong = [], []
    for name, number in counts.items():
        old = before.get(name)
        if old is None:
            wrong.append(f"{name}: {number} instructions; the row is not in {FILE.name}")
            lines.append(f"{number:8}          -         {name}")
            continue
        grew = number > GROWTH * old
        lines.append(f"{number:8} {old:8} {number / old:8.3f}  {name}{'  GREW' * grew}")
        if grew:
            wrong.append(f"{name}: {number} instructions, {100 * (number / old - 1):.1f} % more than {old}")
    return lines, wrong


def main(words: list[str], write: bool) -> int:
    """Count, print and compare; return 1 if a row grew that the file does not show."""
    described, before = stored()
    why = unable()
    if not why and described != build() and not write:
        why = f"{FILE.name} is for another build: {described}; this is {build()}"
    if why:
        print("\n".join(f"{number:8}  {name}" for name, number in before.items()))
        print(f"not counted: {why}")
        return 0
    with tempfile.TemporaryDirectory(prefix="instructions-") as folder:
        counts, failed = count(Path(folder), [name_of(row) for row in rows(words)])
        for seed in (1, 2):
            if grew := [name for name, number in counts.items() if number > GROWTH * before.get(name, number)]:
                for name, number in count(Path(folder), grew, seed)[0].items():
                    counts[name] = min(counts[name], number)
    lines, wrong = compare(counts, before)
    print("instructions   before    ratio  row")
    print("\n".join(lines))
    if write:
        FILE.write_text(text_of({**before, **counts} if words else counts), "utf-8")
        print(f"written to {FILE}")
        wrong = []
    known = {name_of(row) for row in rows()}
    wrong += [f"{name}: the matrix has no such row any more" for name in before if name not in known and not write]
    wrong += [f"{name}: fails: {error}" for name, error in failed.items()]
    print("\n".join(["", *wrong, f"{len(counts)} rows, {len(wrong)} wrong"]))
    if wrong:
        print(
            "If the growth is worth it, say why in the commit, and put the new numbers into it: "
            "python3 -m benchmarks --instructions --write"
        )
    return int(bool(wrong))


# -- in the process under callgrind


def dumped(folder: str) -> int:
    """Return the instructions in the dump that was just written, and delete it."""
    found = 0
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        with open(path, errors="replace") as file:
            for line in file:
                if line.startswith(("summary:", "totals:")):
                    found = max(found, int(line.split()[1]))
        os.unlink(path)
    return found


def inside(path: str, dumps: str, *wanted: str) -> None:
    """Count each row, and print a line of JSON for it."""
    for library in ("torch", "jax", "cuda.core", "cuda.bindings"):  # importing them takes minutes here
        sys.modules[library] = None  # type: ignore[assignment]
    measure = importlib.import_module("benchmarks.measure")
    things = importlib.import_module("benchmarks.things")
    marks = ctypes.PyDLL(path)
    start, stop = marks.start, marks.stop
    names, _ = things.make()
    context = measure.Context()
    context.libcuda.cuCtxSetCurrent(ctypes.c_void_p(names["d"].context))  # as cuda.core does where rows are timed
    gc.collect()
    gc.freeze()
    gc.disable()

    def counted(statement: str, given: dict[str, Any], current: bool) -> float:
        scope = dict(given)
        exec(f"def run(n_):\n for _ in n_:\n  {statement}\n", scope)  # the rows are this repository's own
        run = scope["run"]
        if not current:
            context.__enter__()
        try:
            run(range(WARM))
            found = []
            for _ in range(TIMES):  # one may include work that is done once, such as the growth of a table
                start()
                run(range(COUNT))
                stop()
                found.append(dumped(dumps) / COUNT)
        finally:
            if not current:
                context.__exit__()
            gc.collect()
        return min(found)

    counted("pass", {}, True)  # with all that was counted since the process started
    empty = counted("pass", {}, True)
    for row in rows():
        if name_of(row) not in wanted:
            continue
        bound = {
            name: made.make() for name, made in names.items() if isinstance(made, things.Bound) and name in row.ours
        }
        told: dict[str, Any] = {"row": name_of(row)}
        try:
            number = counted(row.read.replace("{}", row.ours), {**names, **bound}, row.context)
            told["count"] = round(number - empty)
        except Exception as error:
            told["failed"] = measure.first_line(error)
        print(json.dumps(told), flush=True)
    os._exit(0)


if __name__ == "__main__":
    inside(*sys.argv[1:])
