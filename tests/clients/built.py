"""Programs that are built from source, of collections that the user has: each is built, run, and judged by its words.

What it is   `read`, which reads a table of programs, `run_all`, which builds and runs them, and `store`, which writes
             the table of docs/clients.md.
How          A table is a file in JSON: a list of objects with the fields of `Program`. public.json is the one of the
             repository; a user may write others. The collections lie in one folder, each under its own name. A program
             is right if it ends with the status 0, prints the words of its own check, and the emulator reports nothing.
Read next    command.py
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PUBLIC = Path(__file__).resolve().with_name("public.json")
PAGE = ROOT / "docs" / "clients.md"
_MARKS = (
    "<!-- the table of programs: --store --table tests/clients/public.json writes it -->",
    "<!-- the end of the table of programs -->",
)
_MADE = "{program}"


class Program(NamedTuple):
    """A program of a collection.

    collection  the folder of the collection, below the folder of all collections
    version     the commit or the version of the collection
    path        the program's folder, below the collection's
    build       the command that builds it in its folder, in which {program} is the file to make
    arguments   its arguments, which may have to make the work small
    expect      the words of its own check
    refuse      words that it prints if a part of its check failed
    reason      why it is not right, if it is known not to be: "theirs: ..." or "ours: ..."
    """

    collection: str
    version: str
    path: str
    build: str
    expect: str
    arguments: str = ""
    refuse: str = ""
    reason: str = ""

    @property
    def name(self) -> str:
        """Return the collection and the path."""
        return f"{self.collection}/{self.path}"


class Verdict(NamedTuple):
    """What a run showed: "right", "wrong", "not built" or "missing", and the line that says why."""

    outcome: str
    why: str = ""


def read(table: Path) -> list[Program]:
    """Read a table of programs."""
    programs = []
    for number, row in enumerate(json.loads(table.read_text(encoding="utf-8"))):
        try:
            program = Program(**row)
        except TypeError as error:
            sys.exit(f"{table}, program {number}: {str(error).partition(' ')[2]}; fields: {', '.join(Program._fields)}")
        if _MADE not in program.build:
            sys.exit(f"{table}, program {number}: the build command must contain {_MADE}, the file to make")
        if not program.expect:
            sys.exit(f"{table}, program {number}: `expect` must be words that the program prints if it is right")
        if program.reason and not program.reason.startswith(("theirs: ", "ours: ")):
            sys.exit(f"{table}, program {number}: the reason must begin with 'theirs: ' or 'ours: '")
        programs.append(program)
    return programs


def judge(program: Program, collections: Path, made: Path, seconds: float) -> Verdict:
    """Build a program, run it on the emulator, and tell whether its own check passed."""
    folder = collections / program.collection / program.path
    if not folder.is_dir():
        return Verdict("missing", f"there is no folder {folder}")
    command = program.build.replace(_MADE, shlex.quote(str(made)))
    build = subprocess.run(
        command,
        shell=True,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if build.returncode or not made.exists():
        return Verdict("not built", _last(build.stdout) or f"status {build.returncode}")
    run = [sys.executable, "-m", "rawcuda", "emulate", "--", str(made), *shlex.split(program.arguments)]
    variables = {**os.environ, "PYTHONPATH": str(ROOT)}
    try:
        result = subprocess.run(
            run, cwd=folder, env=variables, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=seconds
        )
    except subprocess.TimeoutExpired:
        return Verdict("wrong", f"it took more than {seconds:g} seconds")
    reports = [line for line in result.stderr.splitlines() if line.startswith("emulator: ")]
    if result.returncode or reports:
        return Verdict("wrong", reports[0] if reports else f"status {result.returncode}: {_last(result.stderr)}")
    said = result.stdout + result.stderr
    if program.refuse and program.refuse in said:
        return Verdict("wrong", f"it printed {program.refuse!r}; its last line: {_last(result.stdout)}")
    if program.expect not in said:
        return Verdict("wrong", f"it did not print {program.expect!r}; its last line: {_last(result.stdout)}")
    return Verdict("right")


def run_all(programs: list[Program], collections: Path, names: list[str], seconds: float) -> int:
    """Run programs, print a line for each, and return 1 if one is neither right nor known not to be."""
    counts: dict[str, int] = {}
    unknown = 0
    for program in programs:
        if names and not any(name in program.name for name in names):
            continue
        with tempfile.TemporaryDirectory() as folder:
            verdict = judge(program, collections, Path(folder) / "program", seconds)
        counts[verdict.outcome] = counts.get(verdict.outcome, 0) + 1
        known = program.reason if verdict.outcome != "right" else ""
        if program.reason and verdict.outcome == "right":
            known = f"(the table says {program.reason!r}: remove that)"
        unknown += verdict.outcome != "right" and not program.reason
        print(
            " ".join(filter(None, (f"{program.name} {program.version}:", verdict.outcome, verdict.why, known))),
            flush=True,
        )
    print(", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items())) or "no program has such a name")
    return int(bool(unknown) or not counts)


def text(programs: list[Program]) -> str:
    """Return a table of programs as Markdown."""
    lines = []
    for collection in dict.fromkeys((program.collection, program.version) for program in programs):
        lines += [f"{' '.join(collection)}:", ""]
        lines += ["| program | arguments | build line | result |", "|---|---|---|---|"]
        for program in programs:
            if (program.collection, program.version) == collection:
                cells = f"`{program.arguments}`" if program.arguments else "", f"`{program.build}`"
                row = program.path, *cells, program.reason or "right"
                lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |")
        lines.append("")
    return "\n".join(lines)


def store(programs: list[Program]) -> None:
    """Write a table of programs into its page."""
    start, end = _MARKS
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(start)
    PAGE.write_text(f"{before}{start}\n\n{text(programs)}\n{end}{rest.partition(end)[2]}", encoding="utf-8")


def _last(text: str) -> str:
    """Return the last line of a text."""
    lines = text.strip().splitlines()
    return lines[-1] if lines else ""
