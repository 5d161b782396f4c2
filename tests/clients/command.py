"""The command behind `python3 -m tests --clients`."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from tests.__main__ import environment

from . import built, report
from .demos import DEMOS, run_all
from .running import results, run_suite
from .suites import SUITES, prepare, site_of


def main(arguments: list[str]) -> int:
    """Run the suites, print the table, and return 1 if a row is worse than the stored one."""
    parser = argparse.ArgumentParser("python3 -m tests --clients", description="Run other projects' tests.")
    parser.add_argument("names", nargs="*", help=f"of {', '.join(SUITES)}; all of them if none")
    parser.add_argument("--programs", action="store_true", help=f"run programs instead: of {', '.join(DEMOS)}")
    parser.add_argument("--runs", type=int, default=1, metavar="N", help="how often each program is run")
    parser.add_argument("--table", type=Path, metavar="FILE", help="build and run the programs of this table instead")
    parser.add_argument("--from", type=Path, metavar="FOLDER", dest="collections", help="where their collections are")
    parser.add_argument("--seconds", type=float, default=600, metavar="N", help="how long each of them may take")
    parser.add_argument("--tinygrad", type=Path, metavar="CHECKOUT", help="the sources of tinygrad, with all its tests")
    parser.add_argument("--sample", action="store_true", help="only some tests of each, in a few minutes")
    parser.add_argument("--results", type=Path, metavar="FOLDER", help="keep the results there, and continue a run")
    parser.add_argument(
        "--store",
        action="store_true",
        help="replace the stored rows and their table in docs/clients.md; with --table, only the table of programs",
    )
    parser.add_argument("--set", default="", metavar="WORDS", dest="words", help="words for RAWCUDA_EMULATOR")
    options = parser.parse_args(arguments)
    if (options.table is None) != (options.collections is None) and not (options.table and options.store):
        parser.error("--table FILE and --from FOLDER belong together")
    if options.table is not None and options.store:
        built.store(built.read(options.table))
        return 0
    if options.table is not None:
        return built.run_all(built.read(options.table), options.collections.resolve(), options.names, options.seconds)
    known = DEMOS if options.programs else SUITES
    for name in options.names:
        if name not in known:
            parser.error(f"{name!r}: must be one of {', '.join(known)}")
    if options.runs < 1:
        parser.error(f"--runs {options.runs}: must be at least 1")
    if options.programs:
        return run_all(options.names, options.runs)
    kept = options.results or Path(tempfile.mkdtemp(prefix="clients-"))
    kept.mkdir(parents=True, exist_ok=True)
    table: dict[str, report.Row] = report.stored()
    said: list[str] = []
    for name in options.names or SUITES:
        suite = SUITES[name]
        python = environment(list(suite.packages))
        with tempfile.TemporaryDirectory() as made:
            folder, tests = prepare(name, python, Path(made), options.tinygrad and options.tinygrad.resolve())
            variables = {key: value.format(site=site_of(python)) for key, value in suite.variables.items()}
            log = kept / f"{name}.jsonl"
            print(f"{name}: the results are in {log}", flush=True)
            found = run_suite(
                python, suite.sample if options.sample else tests, folder, log, variables, words=options.words
            )
        row = report.row_of(name, found, results(log)[2] and not options.sample)
        print(report.text({name: row}))
        said += [
            f"{name}: {line}" for line in report.worse(table.get(name, {"failed": {}, "passed": 0}), row, set(found))
        ]
        if not results(log)[2] or not found:
            said.append(f"{name}: the run did not end; {log.with_suffix('.txt')} has its output")
        table[name] = row
    if options.store:
        report.store(table)
        return 0
    print("\n".join(said) or "no row is worse than the stored one")
    return int(bool(said))
