"""Print the matrix: every operation of the package with every kind of argument, compared with cuda.core.

    python3 -m benchmarks                                       all rows, worst first; writes to build/benchmarks
    python3 -m benchmarks launch numpy                          the rows whose family or label contains both words
    python3 -m benchmarks --rounds 5                            quicker and less exact
    python3 -m benchmarks --draw A.json B.json --to speed.svg   draw results again
    python3 -m benchmarks --table A.json B.json                 replace the tables of docs/performance.md
    python3 -m benchmarks --instructions                        count the instructions of hot rows (instructions.py)
    python3 -m benchmarks --instructions --write                the same, and write instructions.txt

It runs in the environment of this interpreter, which needs cuda.core. It builds a driver whose functions return at
once, so that no GPU takes part. It never fails because a time is too long; --instructions fails if a row has grown.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import subprocess
import sys
from datetime import date
from importlib import metadata
from pathlib import Path
from typing import Any

from . import instructions, matrix, picture, report, stub

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "docs" / "performance.md"
FOLDER = HERE.parent / "build" / "benchmarks"
INSTALL = 'python3 -m pip install "cuda-core==1.2.*" "cuda-bindings==13.*" numpy ml_dtypes jax torch'
NAMED = ("cuda-core", "cuda-bindings", "numpy", "ml_dtypes", "jax", "torch")


def measure(words: list[str], rounds: int, batch_ms: float) -> dict[str, Any]:
    """Run measure.py on the stub driver in a separate process, and return its output."""
    driver = stub.build(FOLDER / "stub")
    if driver is None:
        sys.exit("the stub driver needs a C compiler: install gcc or clang, as cc")
    env = {**os.environ, "RAWCUDA_DRIVER": str(driver), "LD_LIBRARY_PATH": str(driver.parent)}
    command = [sys.executable, "-X", "faulthandler", "-m", "benchmarks.measure", str(rounds), str(batch_ms), *words]
    done = subprocess.run(command, env=env, cwd=HERE.parent, stdout=subprocess.PIPE, text=True)
    said = [json.loads(line) for line in done.stdout.splitlines()]
    if done.returncode:
        sys.exit(
            f"measure.py ended with {done.returncode}; find the row at fault by its family: python3 -m benchmarks view"
        )
    order = {(row.family, row.label): number for number, row in enumerate(matrix.rows([]))}
    return {
        "python": platform.python_version(),
        "date": date.today().isoformat(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "packages": [f"{name} {metadata.version(name)}" for name in NAMED if is_installed(name.replace("-", "."))],
        "rows": sorted((row for row in said if "label" in row), key=lambda row: order[row["family"], row["label"]]),
        "missing": {row["missing"]: row["why"] for row in said if "missing" in row},
        "took_s": next((row["took_s"] for row in said if "took_s" in row), 0.0),
    }


def is_installed(module: str) -> bool:
    """Tell whether a module is installed, without importing it."""
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # its package is not installed either
        return False


def main() -> None:
    """Read the command line, measure, print, and draw."""
    parser = argparse.ArgumentParser(
        prog="python3 -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("words", nargs="*", help="only rows whose family or label contains all of these")
    parser.add_argument("--rounds", type=int, default=25, help="how often each row is timed (25)")
    parser.add_argument("--batch", type=float, default=1.0, metavar="MS", help="duration of each measurement (1 ms)")
    parser.add_argument("--draw", nargs="+", type=Path, metavar="JSON", help="draw results without measuring")
    parser.add_argument(
        "--table", nargs="+", type=Path, metavar="JSON", help="replace the tables of the page without measuring"
    )
    parser.add_argument("--to", type=Path, default=FOLDER / "matrix.svg", help="where --draw writes")
    parser.add_argument(
        "--instructions", action="store_true", help="count instructions, and compare them with the file"
    )
    parser.add_argument("--write", action="store_true", help="with --instructions: write the file")
    options = parser.parse_args()
    if options.instructions:
        sys.exit(instructions.main(options.words, options.write))
    given = [json.loads(path.read_text()) for path in options.draw or options.table or ()]
    if options.draw:
        options.to.write_text(picture.draw(given))
        print(options.to)
    elif options.table:
        PAGE.write_text(report.with_tables(PAGE.read_text("utf-8"), given), "utf-8")
        print(PAGE)
    else:
        if not is_installed("cuda.core"):
            print(f"cuda.core is not installed, so most rows have no limit. To compare with it:\n    {INSTALL}\n")
        result = measure(options.words, options.rounds, options.batch)
        print("\n".join(report.matrix(result)))
        if not options.words:
            where = FOLDER / f"matrix-{result['python']}.json"
            where.write_text(json.dumps(result, indent=1))
            where.with_suffix(".svg").write_text(picture.draw([result]))
            print(f"\n{where}\n{where.with_suffix('.svg')}")


if __name__ == "__main__":
    main()
