"""What the package weighs: import time, modules, memory, the wheel. Run by __main__.py."""

from __future__ import annotations

import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from .timing import tell

HERE = Path(__file__).resolve().parent
OURS = {"rawcuda": "import rawcuda", "rawcuda, view used once": "import rawcuda; rawcuda.view(bytearray(8))"}
PEERS = {
    "ctypes": "import ctypes",
    "numpy": "import numpy",
    "cuda.bindings": "import cuda.bindings.driver",
    "cuda.core": "import cuda.core",
    "cupy": "import cupy",
    "numba-cuda": "from numba import cuda",
    "pycuda": "import pycuda.driver",
    "warp": "import warp",
    "tinygrad": "import tinygrad.runtime.ops_cuda",
    "mpi4py": "from mpi4py import MPI",
    "tvm-ffi": "import tvm_ffi",
    "torch": "import torch",
    "jax": "import jax",
}
PROBE = """
import sys, time
before = len(sys.modules)
begun = time.perf_counter()
{}
took = time.perf_counter() - begun
peak = [line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')] or [0]
print(took * 1e3, len(sys.modules) - before, int(peak[0]) / 1024)
"""


def once(statement: str, cache: str) -> tuple[float, float, float]:
    """Import in a process of its own; return milliseconds, modules more, MiB of memory at the most."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(
        [sys.executable, "-c", PROBE.format(statement)],
        capture_output=True,
        text=True,
        env={**env, "PYTHONPYCACHEPREFIX": cache},
    )
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    ms, modules, mib = map(float, done.stdout.split()[-3:])
    return ms, modules, mib


def imports() -> None:
    """Time imports, interleaved in a shuffled order: a small process runs slower just after a large one."""
    rounds = int(os.environ.get("IMPORT_ROUNDS", "9"))
    with tempfile.TemporaryDirectory() as cache:
        found: dict[str, list[tuple[float, float, float]]] = {}
        for name, statement in {**OURS, **PEERS}.items():
            try:
                once(statement, cache)  # writes the .pyc files, too
                found[name] = []
            except RuntimeError as error:
                tell({"section": "weight: import", "case": name, "left_out": str(error)})
        for turn in range(rounds):
            for name in random.Random(turn).sample(list(found), len(found)):
                found[name].append(once({**OURS, **PEERS}[name], cache))
    floor = statistics.median(row[2] for row in found["ctypes"])
    goals = {"rawcuda": 5.0, "rawcuda, view used once": 10.0}
    for name, measured in found.items():
        ms, modules, mib = (statistics.median(column) for column in zip(*measured))
        tell({"section": "weight: import", "case": name, "value": ms, "unit": "ms"}, goals.get(name))
        tell(
            {"section": "weight: modules more", "case": name, "value": modules, "unit": "modules"},
            25 if name == "rawcuda" else None,
        )
        tell(
            {"section": "weight: memory more than ctypes", "case": name, "value": mib - floor, "unit": "MiB"},
            2 if name == "rawcuda" else None,
        )


def package() -> None:
    """Weigh the source files, and a zip of them, which is what a wheel is."""
    files = [
        path
        for path in (HERE.parent / "rawcuda").rglob("*")
        if path.is_file() and not re.search(r"__pycache__|\.pyc$", str(path))
    ]
    with tempfile.TemporaryDirectory() as folder:
        packed = Path(folder) / "package.zip"
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in files:
                archive.write(path, path.relative_to(HERE.parent))
        tell(
            {
                "section": "weight: wheel",
                "case": "rawcuda, its files compressed",
                "value": packed.stat().st_size / 1000,
                "unit": "kB",
            },
            400,
        )
    tell(
        {
            "section": "weight: installed",
            "case": "rawcuda",
            "value": sum(path.stat().st_size for path in files) / 1e6,
            "unit": "MB",
        },
        1.5,
    )


if __name__ == "__main__":
    imports()
    package()
