"""Measure the package beside its peers, and hold the result against the goals.

    python3 -m benchmarks                 make an environment with the peers, measure, print and write results/
    python3 -m benchmarks --python PATH   use the peers of an environment that there is already
    python3 -m benchmarks --only views    one part: views launches weight gpu
    python3 -m benchmarks --rounds 20     shorter

Without a GPU the driver is a stub of C functions that return at once (stub.c): what is measured is the wrappers' own cost. With
one, it is NVIDIA's driver, and what only a GPU can tell is added (gpu.py). Peers that cannot be installed or do not start are
told by name. Absolute times are one machine's, on one day; the ratios, taken within interleaved rounds, are what to read.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import platform
import subprocess
import sys
import venv
from datetime import date
from pathlib import Path

from . import stub

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

HERE = Path(__file__).resolve().parent
PEERS = (
    "numpy",
    "matplotlib",
    "cuda-core",
    "cuda-bindings",
    "jax",
    "cupy-cuda13x",
    "numba-cuda",
    "tinygrad",
    "warp-lang",
    "apache-tvm-ffi",
    "mpi4py",
    "torch==2.13.0",
    "pycuda",
)
PARTS = {
    "views": [["benchmarks.views"]],
    "launches": [["benchmarks.launches", part] for part in ("4", "12", "exporter", "calls", "growth")],
    "weight": [["benchmarks.weight"]],
    "gpu": [["benchmarks.gpu"]],
}


def has_gpu() -> bool:
    """Tell whether NVIDIA's driver is here and sees a device."""
    try:
        driver = ctypes.CDLL("libcuda.so.1" if sys.platform != "win32" else "nvcuda.dll")
        count = ctypes.c_int()
        return driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0 and count.value > 0
    except (OSError, AttributeError):
        return False


def environment(folder: Path) -> Path:
    """Make an environment with each peer that can be installed, and return its interpreter."""
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
    for peer in PEERS:
        marker = folder / (peer + ".tried")
        if marker.exists():
            continue
        print(f"installing {peer} ...", flush=True)
        try:
            done = subprocess.run(
                [str(python), "-m", "pip", "install", "-q", peer], capture_output=True, text=True, timeout=900
            )
            why = "" if done.returncode == 0 else (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        except subprocess.TimeoutExpired:
            why = "15 minutes were not enough"
        marker.write_text(why)
    return python


def measure(python: Path, parts: list[str], gpu: bool, folder: Path, rounds: int) -> list[dict[str, Any]]:
    """Run each part in a process of its own, and return the rows."""
    env = {**os.environ, "PYTHONPATH": str(HERE.parent), "PYTHONDONTWRITEBYTECODE": "1", "ROUNDS": str(rounds)}
    env.setdefault("BATCH_MS", "0.4")
    if not gpu:
        made = stub.build(folder / "stub")
        if made is None:
            print("no C compiler for the stub driver: only views and weight are measured")
            parts = [part for part in parts if part in ("views", "weight")]
        else:
            env.update(RAWCUDA_DRIVER=str(made), LD_LIBRARY_PATH=str(made.parent))
        parts = [part for part in parts if part != "gpu"]
    rows: list[dict[str, Any]] = []
    for part in parts:
        for arguments in PARTS[part]:
            try:
                done = subprocess.run(
                    [str(python), "-m", *arguments],
                    env=env,
                    capture_output=True,
                    text=True,
                    timeout=1800,
                    cwd=HERE.parent,
                )
                lines, code = done.stdout, done.returncode
            except subprocess.TimeoutExpired as late:
                lines, code = (late.stdout or b"").decode(), -1
            for line in lines.splitlines():
                if line.startswith("{"):
                    rows.append(json.loads(line))
                    print(as_text(rows[-1]), flush=True)
            if code:
                rows.append(
                    {"section": " ".join(arguments), "case": "the whole part", "left_out": f"ended with {code}"}
                )
                print(as_text(rows[-1]), (done.stderr.strip().splitlines() or [""])[-1] if code > 0 else "")
    return rows


def as_text(row: dict[str, Any]) -> str:
    """Word a row for the screen."""
    head = f"{row['section'][:58]:58} {row['case'][:48]:48}"
    if "left_out" in row:
        return f"{head} left out: {row['left_out'][:90]}"
    if "value" in row:
        met = (
            ""
            if "goal" not in row
            else ("  goal met" if row["value"] <= row["goal"] else "  NOT MET") + f" (at most {row['goal']})"
        )
        return f"{head} {row['value']:12.2f} {row.get('unit', '')}{met}"
    text = f"{head} {row['median_ns']:10.0f} ns [{row['low_ns']:.0f} .. {row['high_ns']:.0f}]"
    if "ratio" in row:
        text += f"  x{row['ratio']:.2f}"
    if "goal" in row:
        text += f"  {'goal met' if row.get('ratio', 99) <= row['goal'] else 'NOT MET'} (at most {row['goal']})"
    return text


def main() -> None:
    """Read the command line, measure, and write results."""
    parser = argparse.ArgumentParser(prog="python3 -m benchmarks", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--python", type=Path, help="an interpreter whose environment has the peers")
    parser.add_argument("--only", choices=list(PARTS), action="append")
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument(
        "--folder",
        type=Path,
        default=HERE.parent / "build" / "benchmarks",
        help="for the environment, the stub and the results",
    )
    options = parser.parse_args()
    gpu = has_gpu()
    python = options.python or environment(options.folder / "environment-{}.{}".format(*sys.version_info[:2]))
    rows = [
        {"section": "peers", "case": marker.stem, "left_out": "it could not be installed: " + marker.read_text()}
        for marker in sorted(python.parent.parent.glob("*.tried"))
        if marker.read_text()
    ]
    rows += measure(python, options.only or list(PARTS), gpu, options.folder, options.rounds)
    facts = subprocess.run(
        [str(python), "-c", "import sys; print(sys.version.split()[0])"], capture_output=True, text=True
    ).stdout.strip()
    versions = subprocess.run(
        [str(python), "-m", "pip", "list", "--format=freeze"], capture_output=True, text=True
    ).stdout.split()
    result = {
        "date": date.today().isoformat(),
        "python": facts,
        "machine": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "gpu": gpu,
        "peers": versions,
        "rows": rows,
    }
    options.folder.mkdir(parents=True, exist_ok=True)
    where = options.folder / f"results-{facts}{'-gpu' if gpu else ''}.json"
    where.write_text(json.dumps(result, indent=1))
    drawn = subprocess.run([str(python), str(HERE / "plot.py"), str(where)], capture_output=True, text=True)
    print(f"\n{where}", drawn.stdout.strip() or "(no plot: matplotlib is not there)")


if __name__ == "__main__":
    main()
