"""Compare how long every kernel of the corpus takes in the emulator, in this checkout and in an earlier revision.

    python3 benchmarks/corpus.py f777e06                    every kernel, the slowest ratios first
    python3 benchmarks/corpus.py f777e06 flow --rounds 40   the builds whose names contain a word, more exactly

The tests of the corpus run once, and every launch is recorded: the kernel, its grid, and the memory that it can reach.
Two processes, one for each revision, then take turns: each loads a build and repeats all of its launches, each of them
three times, of which the shortest counts. A row is the processor time of all launches of one kernel in one build. Its
ratio is the median of the ratios of the rounds.
"""

from __future__ import annotations

import argparse
import gc
import io
import math
import os
import pickle
import statistics
import struct
import subprocess
import sys
import tarfile
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
CHECKOUT = HERE.parent
TESTS = ["tests/driver/test_corpus.py", "tests/driver/test_corpus_numbers.py"]
LOADING = "(loading)"
LEAST = 0.0002  # seconds of a row in the earlier revision, below which the clock is too coarse


def main() -> int:
    """Record, repeat, and print."""
    if sys.argv[1:2] == ["--repeat"]:
        return repeat(*sys.argv[2:])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("revision", help="the earlier revision, as git names it")
    parser.add_argument("words", nargs="*", help="only builds whose names contain one of them")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--rows", type=int, default=25, help="how many rows to print; 0: all")
    parser.add_argument("--tests", help="only tests whose names match, as pytest's -k: for a shorter run")
    parser.add_argument("--launches", type=Path, help="a file of launches, which is recorded if it does not exist")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        earlier, recorded = Path(folder, "earlier"), options.launches or Path(folder, "launches")
        archive = subprocess.run(["git", "archive", options.revision], cwd=CHECKOUT, stdout=subprocess.PIPE, check=True)
        with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
            files.extractall(earlier)
        if not recorded.exists():
            surroundings = {**os.environ, "RAWCUDA_DRIVER": "emulator"}
            command = [sys.executable, "-c", RECORD, str(recorded.resolve()), *TESTS, "-k", options.tests or ""]
            subprocess.run(command, cwd=CHECKOUT, env=surroundings, stdout=subprocess.DEVNULL, check=True)
        print_rows(compare([CHECKOUT, earlier], recorded, options.words, options.rounds), options.rows)
    return 0


# -- the launches of the tests, as (path of the build, kernel, grid, block, bytes of dynamic shared memory, parameters,
# offsets of the addresses in them, memory by address, content of the variables that were changed)

RECORD = """
import pickle, struct, sys
from pathlib import Path
import pytest
from rawcuda.emulator import ptx
from rawcuda.emulator.ptx import ptx_program

into, tests, launches = sys.argv[1], sys.argv[2:], []
paths = {path.read_bytes(): str(path) for path in Path("tests/data/corpus").resolve().glob("*.ptx")}
load, run = ptx_program.load, ptx_program.Entry.run

def loaded(image, *more, **options):
    code = load(image, *more, **options)
    code.benchmarked = paths.get(bytes(image).rstrip(b"\\0"))
    code.initial = {name: bytes(each.data) for name, each in code.variables.items()}
    return code

def ran(self, grid, block, shared, parameters, **options):
    path = getattr(self._code, "benchmarked", None)
    if path and options.get("cluster") is None:
        live = {each.base: each for each in self._code.space.live()}
        places, memory = [], {}
        for at in range(0, len(parameters) - 7, 8):
            (address,) = struct.unpack_from("<Q", parameters, at)
            if address in live:
                places.append(at)
                memory[address] = bytes(live[address].data)
        variables = {name: bytes(each.data) for name, each in self._code.variables.items()}
        variables = {name: data for name, data in variables.items() if data != self._code.initial[name]}
        launches.append((path, self.name, grid, block, shared, bytes(parameters), places, memory, variables))
    run(self, grid, block, shared, parameters, **options)

ptx_program.Entry.run, ptx.load = ran, loaded
code = pytest.main(["-q", "-p", "no:cacheprovider", *tests])
with open(into, "wb") as file:
    pickle.dump(launches, file)
sys.exit(code or not launches)
"""


def repeat(tree: str, recorded: str) -> int:
    """Repeat the launches of the builds that stdin names, with the package of a tree; write the seconds to stdout."""
    answers, sys.stdout = sys.stdout, io.StringIO()  # which kernels print to
    sys.path[:0] = [tree]
    from rawcuda.emulator import ptx
    from rawcuda.emulator.machine import space

    builds = defaultdict(list)
    for path, *launch in pickle.loads(Path(recorded).read_bytes()):
        builds[path].append(launch)
    for line in sys.stdin:
        path = line.rstrip("\n")
        found: dict[str, float] = defaultdict(float)
        image, around = Path(path).read_bytes(), space.Space(watch=True)
        started = time.process_time()
        code = ptx.load(image, around, architecture=target_of(image))
        found[LOADING] = time.process_time() - started
        gc.collect()  # otherwise, the same launches would always pay for the garbage of loading
        for launch in builds[path]:
            try:
                found[launch[0]] += min(run_once(code, around, *launch) for _ in range(3))
            except Exception as reason:  # it needs what is not recorded, such as an address in memory
                found[launch[0]] = math.nan
                print(f"{Path(path).name} {launch[0]} is left out: {str(reason)[:100]!r}", file=sys.stderr)
        code.unload()
        print(repr(dict(found)), file=answers, flush=True)
    return 0


def run_once(
    code: Any, around: Any, name: str, grid: Any, block: Any, shared: int, parameters: bytes, places: list[int],
    memory: dict[int, bytes], variables: dict[str, bytes],
) -> float:  # fmt: skip
    """Return the seconds of a launch, with the memory that it had."""
    for variable, content in variables.items():
        code.variables[variable].data[:] = content
    packed, made = bytearray(parameters), {}
    for at in places:
        (address,) = struct.unpack_from("<Q", parameters, at)
        if address not in made:
            made[address] = around.allocate(len(memory[address]))
            made[address].data[:] = memory[address]
            made[address].wrote(0, len(memory[address]))
        struct.pack_into("<Q", packed, at, made[address].base)
    entry, given = code.entries[name], bytes(packed)
    started = time.process_time()
    try:
        entry.run(grid, block, shared, given)
        return time.process_time() - started
    finally:
        for each in made.values():
            around.free(each.base)


def target_of(image: bytes) -> tuple[int, int]:
    """Return the compute capability of a build."""
    number = image.partition(b".target sm_")[2].split()[0].split(b",")[0].rstrip(b"af")
    return int(number[:-1]), int(number[-1:])


def compare(trees: list[Path], recorded: Path, words: list[str], rounds: int) -> dict[tuple[str, str], list[Any]]:
    """Return the seconds in both trees, for each round, of each build and kernel."""
    paths = sorted({launch[0] for launch in pickle.loads(recorded.read_bytes())})
    paths = [path for path in paths if not words or any(word in Path(path).name for word in words)]
    workers = [
        subprocess.Popen(
            [sys.executable, str(Path(__file__).resolve()), "--repeat", str(tree), str(recorded.resolve())],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for tree in trees
    ]  # fmt: skip
    rows: dict[tuple[str, str], list[Any]] = defaultdict(list)
    for number in range(rounds + 1):
        for path in paths:
            seconds: list[dict[str, float]] = [{}, {}]
            for which in (0, 1) if number % 2 else (1, 0):
                asked, answers = workers[which].stdin, workers[which].stdout
                assert asked is not None and answers is not None
                asked.write(path + "\n")
                asked.flush()
                seconds[which] = eval(answers.readline(), {"nan": math.nan})
            for name in seconds[0] if number else ():  # the first round imports
                if seconds[0][name] + seconds[1][name] > 0:
                    rows[Path(path).stem, name].append((seconds[0][name], seconds[1][name]))
    for worker in workers:
        worker.communicate()
    return rows


def print_rows(rows: dict[tuple[str, str], list[Any]], most: int) -> None:
    """Print the rows, the slowest ratios first, and a line for all."""
    found: list[tuple[float, float, float, str, str]] = []
    for (build, name), both in rows.items():
        ratio = statistics.median(now / max(before, 1e-9) for now, before in both)
        now, before = (statistics.median(each[which] for each in both) for which in (0, 1))
        found.append((ratio, now, before, build, name))
    found.sort(reverse=True)
    launches = [row for row in found if row[4] != LOADING and row[2] >= LEAST]
    loads = [row for row in found if row[4] == LOADING]
    for title, part in (("kernel", launches), ("build, loading", loads)):
        print(f"{'ratio':>7}{'now, ms':>10}{'before, ms':>12}  {title}")
        for ratio, now, before, build, name in part[: most or None]:
            print(f"{ratio:7.2f}{now * 1e3:10.3f}{before * 1e3:12.3f}  {build} {name if name != LOADING else ''}")
        if part:
            now, before = sum(row[1] for row in part), sum(row[2] for row in part)
            median = statistics.median(row[0] for row in part)
            slower = sum(row[0] > 1.1 for row in part)
            print(f"{len(part)} rows: {slower} above 1.10; median {median:.2f}; all together {now / before:.2f}\n")


if __name__ == "__main__":
    sys.exit(main())
