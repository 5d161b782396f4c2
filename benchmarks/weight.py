"""Measure import time, memory and file sizes of the package: python3 -m benchmarks.weight prints them.

Each import runs in a separate process that finds compiled modules; the order of the imports changes from round to
round. The time is processor time, because other programs may be running. Other packages are measured if they are
installed for this interpreter.
"""

from __future__ import annotations

import importlib.util
import os
import random
import statistics
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROUNDS = 9
IMPORTS = {
    "ctypes": "import ctypes",
    "rawcuda": "import rawcuda",
    "rawcuda and a first view": "import rawcuda; rawcuda.view(bytearray(8))",
    "rawcuda and Device": "import rawcuda; rawcuda.Device",
    "numpy": "import numpy",
    "cuda.bindings": "import cuda.bindings.driver",
    "cuda.core": "import cuda.core",
    "jax": "import jax",
    "torch": "import torch",
}
FIRST_VIEW_MS = 5.0  # the most that import and a first view may take more than ctypes
WHEEL_KB = 800
PROBE = """
import sys, time
before = len(sys.modules)
begun = time.process_time()
{}
took = time.process_time() - begun
peak = [line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')] or [0]
print(took * 1e3, len(sys.modules) - before, int(peak[0]) / 1024)
"""


def once(statement: str, cache: str) -> list[float]:
    """Import in a separate process; return milliseconds of processor time, modules, and the most MiB of memory."""
    env = {**os.environ, "PYTHONPATH": str(HERE.parent), "PYTHONPYCACHEPREFIX": cache}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-c", PROBE.format(statement)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=env, check=True)
    return [float(word) for word in done.stdout.split()[-3:]]


def imports() -> dict[str, list[float]]:
    """Return the medians of each import that is possible here."""
    found: dict[str, list[list[float]]] = {}
    with tempfile.TemporaryDirectory() as cache:
        for name in IMPORTS:
            package = name.split()[0].partition(".")[0]
            if importlib.util.find_spec(package):
                try:
                    once(IMPORTS[name], cache)  # writes the compiled modules
                    found[name] = []
                except subprocess.CalledProcessError:
                    print(f"{name}: its import fails")
        for turn in range(ROUNDS):
            for name in random.Random(turn).sample(list(found), len(found)):
                found[name].append(once(IMPORTS[name], cache))
    return {name: [statistics.median(column) for column in zip(*rows)] for name, rows in found.items()}


def zipped() -> tuple[float, float]:
    """Return the kilobytes of the package's files, and of a zip of them, which is what a wheel is."""
    files = [
        path for path in (HERE.parent / "rawcuda").rglob("*") if path.is_file() and "__pycache__" not in path.parts
    ]
    with tempfile.TemporaryDirectory() as folder:
        packed = Path(folder) / "package.zip"
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in files:
                archive.write(path, path.relative_to(HERE.parent))
        return sum(path.stat().st_size for path in files) / 1000, packed.stat().st_size / 1000


def main() -> None:
    """Print the tables."""
    measured = imports()
    floor = measured["ctypes"]
    print(f"{'import':28}{'ms':>8}{'over ctypes':>14}{'modules':>10}{'MiB over ctypes':>18}")
    for name, (ms, modules, mib) in measured.items():
        line = f"{name:28}{ms:>8.1f}{ms - floor[0]:>14.1f}{modules:>10.0f}{mib - floor[2]:>18.1f}"
        if name == "rawcuda and a first view":
            line += f"   limit {FIRST_VIEW_MS} ms" + ("  over" if ms - floor[0] > FIRST_VIEW_MS else "")
        print(line)
    installed, wheel = zipped()
    print(
        f"files {installed:.0f} kB, zipped {wheel:.0f} kB   limit {WHEEL_KB} kB"
        + ("  over" if wheel > WHEEL_KB else "")
    )


if __name__ == "__main__":
    main()
