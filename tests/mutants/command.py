"""The command behind `python3 -m tests --mutants`."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
CHECKOUT = HERE.parent.parent
PACKAGE = CHECKOUT / "rawcuda"
MODULES = ["**/*.py"]
LEFT_OUT = (  # tests of texts, of the tests themselves, and of the programs beside the package
    *("test_style*", "test_docstrings*", "test_layers*", "test_harness*", "test_mutants*", "test_clients*"),
    *("test_release*", "test_benchmark*", "test_annotations*", "test_every_call*"),
)
EQUIVALENT = HERE / "equivalent.json"


def modules() -> list[str]:
    """List the modules that mutants change, as paths below the package."""
    return [path.relative_to(PACKAGE).as_posix() for pattern in MODULES for path in sorted(PACKAGE.glob(pattern))]


def files() -> list[str]:
    """List the files of tests that mutants run."""
    patterns = ("null/test_*.py", "emulator/test_*.py", "driver/test_*.py", "interop/test_*.py")
    found = [path for pattern in patterns for path in sorted((CHECKOUT / "tests").glob(pattern))]
    return [
        path.relative_to(CHECKOUT).as_posix()
        for path in found
        if not any(fnmatch(path.name, each) for each in LEFT_OUT)
    ]


def main(arguments: list[str]) -> int:
    """Parse the command line, and run the rest in the environment with the tests' packages."""
    parser = argparse.ArgumentParser(
        "python3 -m tests --mutants", description="Change the package in many small ways, and see which tests notice."
    )
    parser.add_argument("--number", type=int, default=600, help="how many mutants are drawn")
    parser.add_argument("--seed", type=int, help="the seed that draws them; a new one is printed if there is none")
    parser.add_argument("--results", type=Path, metavar="FOLDER", help="keep the results there, and continue a run")
    parser.add_argument("--jobs", type=int, default=1, help="how many processes run tests")
    parser.add_argument("--seconds", type=float, default=9, help="the processor time of the tests for one mutant")
    parser.add_argument("--quick", action="store_true", help="omit tests that do not run what a mutant changes")
    parser.add_argument("--only", default="", metavar="WORDS", help="only mutants whose names contain these words")
    parser.add_argument("--again", action="store_true", help="run the survivors in FOLDER again, on the tests of today")
    parser.add_argument("--here", action="store_true", help="use the packages of this Python; install nothing")
    options = parser.parse_args(arguments)
    if not hasattr(os, "fork"):
        parser.error("mutants need os.fork, so they run on Linux and macOS only")
    if options.number < 1 or options.jobs < 1:
        parser.error("--number and --jobs must be 1 or more")
    if options.again and not options.results:
        parser.error("--again needs --results")
    if not options.here:
        from tests.__main__ import environment

        return subprocess.call([environment(), "-m", "tests", "--mutants", *arguments, "--here"], cwd=CHECKOUT)
    seed = random.SystemRandom().randrange(10**6) if options.seed is None else options.seed
    folder = options.results or Path(tempfile.mkdtemp(prefix="mutants-"))
    folder.mkdir(parents=True, exist_ok=True)
    folder = folder.resolve()
    print(f"seed {seed}; the results are in {folder}", flush=True)
    return Run(folder, seed, options).run()


class Run:
    """A run of the command: the tests are recorded, mutants are drawn and tried, and the survivors are printed."""

    def __init__(self, folder: Path, seed: int, options: argparse.Namespace):
        from . import running
        from .changes import mutants_of, statements_of

        self.folder, self.options = folder, options
        self.log = folder / f"mutants-{seed}.jsonl"
        self.running = running
        sources = {module: (PACKAGE / module).read_text("utf-8") for module in modules()}
        self.key = hashlib.sha256(repr(sorted(sources.items())).encode()).hexdigest()
        self.statements = {module: statements_of(module, source)[0] for module, source in sources.items()}
        everything = [mutant for module, source in sources.items() for mutant in mutants_of(module, source)]
        self.equivalent = equivalent()
        wanted = [mutant for mutant in everything if options.only in mutant.name]
        if not wanted:
            sys.exit(f"no mutant has {options.only!r} in its name; names are like {everything[0].name!r}")
        self.drawn = random.Random(seed).sample(wanted, min(options.number, len(wanted)))
        print(f"{len(self.drawn)} of {len(everything)} mutants of {len(sources)} modules", flush=True)
        running.prepare()

    def run(self) -> int:
        """Do everything, and return 1 if a mutant survives that is not listed as equivalent, or a control fails."""
        from .choice import Map

        wanted = Map(self.statements, [], {}).wanted(self.drawn)
        self.key = hashlib.sha256(repr([self.key, sorted(wanted)]).encode()).hexdigest()
        self.probes = self.running.with_probes(wanted)
        self._in_processes(self._record, files())
        sources = {file: (CHECKOUT / file).read_text("utf-8") for file in files()}
        self.map = Map(self.statements, [self._kept(file) for file in files()], sources)
        print(f"{len(self.map.tests)} tests run statements of these modules", flush=True)
        known = self.results()
        todo = [mutant for mutant in self.drawn if mutant.name not in known]
        if self.options.again:
            todo += [mutant for mutant in self.drawn if known.get(mutant.name, {}).get("outcome") == "survived"]
        controls = [f"control {number}" for number in range(max(1, len(self.drawn) // 50))]
        self._in_processes(self._control, [name for name in controls if name not in known])
        self._in_processes(self._try, todo)
        return self.report()

    def _in_processes(self, function: Any, work: list[Any]) -> None:
        """Call a function with each piece of work, divided among the processes."""
        jobs = min(self.options.jobs, len(work))
        if jobs < 2:
            for each in work:
                function(each)
            return
        children = []
        for job in range(jobs):
            child = os.fork()
            if not child:
                status = 1
                try:
                    for each in work[job::jobs]:
                        function(each)
                    status = 0
                finally:
                    sys.stdout.flush()
                    os._exit(status)
            children.append(child)
        if any([os.waitpid(child, 0)[1] for child in children]):
            raise SystemExit("a process that ran tests failed")

    # -- recording

    def _kept(self, file: str) -> Path:
        around = b"".join(path.read_bytes() for path in sorted((CHECKOUT / "tests").glob("**/conftest.py")))
        content = (CHECKOUT / file).read_bytes() + around + self.key.encode() + sys.version.encode()
        return self.folder / "recorded" / f"{Path(file).stem}-{hashlib.sha256(content).hexdigest()[:16]}.json"

    def _record(self, file: str) -> None:
        kept = self._kept(file)
        if not kept.exists():
            kept.parent.mkdir(exist_ok=True)
            begin = time.monotonic()
            said = self.running.record_file(file, self.probes, kept, kept.with_suffix(".txt"))
            print(f"{file}: {said} in {time.monotonic() - begin:.1f} s", flush=True)

    # -- mutants

    def _try(self, mutant: Any) -> None:
        """Run the best tests in three turns, the last with those that may notice the mutant without running it."""
        from .choice import within

        log = self.folder / f"output-{os.getpid()}.txt"
        close, wide = (self.map.tests_of(mutant, wide=wide) for wide in (False, True))
        ended = self.running.Ended("survived", "", 0.0)
        done: set[str] = set()
        part = self.options.seconds / 10
        turns = (close, part, 6, 2), (close, 3 * part, 30, 8), (wide, 6 * part, 99, 20)
        for tests, seconds, of_a_file, files in turns[: 2 if self.options.quick else 3]:
            rest = [test for test in tests if test.name not in done]
            chosen = within(rest, seconds, of_a_file=of_a_file, files=files) if rest else []
            if chosen:
                more = self.running.run_mutant(mutant, chosen, log)
                ended = more._replace(seconds=more.seconds + ended.seconds)
                done.update(test.name for test in chosen)
            if ended.outcome != "survived":
                break
        self._write(mutant.name, mutant.kind, mutant.line, ended, len(done))

    def _control(self, name: str) -> None:
        """Run the tests of a mutant on the package as it is: they must pass."""
        from .choice import within

        mutant = random.Random(name).choice(self.drawn)
        tests = within(self.map.tests_of(mutant, wide=True), self.options.seconds / 3)
        if tests:
            ended = self.running.run_codes({}, tests, self.folder / f"output-{name.replace(' ', '-')}.txt")
            self._write(name, "control", 0, ended, len(tests))

    def _write(self, name: str, kind: str, line: int, ended: Any, tests: int) -> None:
        row = {"mutant": name, "kind": kind, "line": line, **ended._asdict(), "tests": tests}
        row["seconds"] = round(ended.seconds, 2)
        with open(self.log, "a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        if ended.outcome == "survived" and kind != "control":
            print(f"line {line}: {name}: {tests} tests pass", flush=True)

    def results(self) -> dict[str, dict[str, Any]]:
        """Read the results so far; the last one of a mutant counts."""
        lines = self.log.read_text("utf-8").splitlines() if self.log.exists() else []
        return {row["mutant"]: row for row in map(json.loads, lines)}

    def report(self) -> int:
        """Print how many mutants are detected, and those that are not."""
        known = self.results()
        rows = [known[mutant.name] for mutant in self.drawn if mutant.name in known]
        counts = Counter(row["outcome"] for row in rows)
        survivors = [row for row in rows if row["outcome"] == "survived"]
        listed = [row for row in survivors if row["mutant"] in self.equivalent]
        open_ = [row for row in survivors if row["mutant"] not in self.equivalent]
        controls = [row for row in known.values() if row["kind"] == "control"]
        wrong = [row for row in controls if row["outcome"] != "survived"]
        detected = len(rows) - len(survivors)
        how = ", ".join(f"{number} {outcome}" for outcome, number in sorted(counts.items()))
        print(f"\n{len(rows)} mutants: {detected} detected ({100 * detected / max(1, len(rows)):.1f} %): {how}")
        print(f"{len(listed)} survive and are listed as equivalent, {len(open_)} survive:")
        for row in sorted(open_, key=lambda row: str(row["mutant"])):
            print(f"  line {row['line']}: {row['mutant']}")
        print(f"{len(controls)} controls without a change: {len(wrong)} failed")
        for row in wrong:
            print(f"  {row['mutant']}: {row['outcome']} in {row['test']}")
        return int(bool(open_ or wrong))


def equivalent() -> dict[str, str]:
    """Read the mutants that no test can or should notice, each with the reason."""
    groups = json.loads(EQUIVALENT.read_text("utf-8")) if EQUIVALENT.exists() else []
    return {name: group["why"] for group in groups for name in group["mutants"]}
