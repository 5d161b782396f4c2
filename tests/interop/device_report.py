"""Write the results of the device half to tests/interop/systems_gpu.json, and make docs/systems_gpu.md from them."""

from __future__ import annotations

import datetime
import importlib.metadata
import json
import platform
from collections import Counter
from pathlib import Path
from typing import Any

from tests.subject import rawcuda

__all__ = ["table", "write"]

ROOT = Path(__file__).resolve().parents[2]
RESULTS, PAGE = ROOT / "tests" / "interop" / "systems_gpu.json", ROOT / "docs" / "systems_gpu.md"
PROJECTS = (
    "torch",
    "cupy",
    "cupy-cuda12x",
    "cupy-cuda13x",
    "jax",
    "jaxlib",
    "numba-cuda",
    "cuda-core",
    "cuda-bindings",
    "triton",
    "warp-lang",
    "nvidia-dali-cuda120",
    "nvidia-dali-cuda130",
    "pycuda",
    "nanobind",
    "numpy",
)


def write(outcomes: dict[str, dict[str, str]]) -> None:
    """Write both files."""
    device, version = rawcuda.Device(0), rawcuda.cu.version
    versions = {}
    for project in PROJECTS:
        try:
            versions[project] = importlib.metadata.version(project)
        except importlib.metadata.PackageNotFoundError:
            continue
    said = {
        "gpu": device.name,
        "compute_capability": list(device.compute_capability),
        "driver": version,
        "python": platform.python_version(),
        "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
        "versions": versions,
        "outcomes": outcomes,
    }
    RESULTS.write_text(json.dumps(said, indent=1) + "\n", "utf-8")
    PAGE.write_text(table(said), "utf-8")


def table(said: dict[str, Any]) -> str:
    """Return the page: a row for each test, a column for each library, and then all failures."""
    outcomes: dict[str, dict[str, str]] = said["outcomes"]
    systems = sorted({key.split("-")[0] for cells in outcomes.values() for key in cells if key != "-"})
    lines = [
        "# Array systems on a GPU",
        "",
        "Written by `python3 -m tests interop --driver nvidia`; not by hand.",
        "",
        f"{said['gpu']}, compute capability {'.'.join(map(str, said['compute_capability']))}, "
        f"CUDA driver {said['driver']}, Python {said['python']}, "
        f"{said['date']}. " + ", ".join(f"{name} {version}" for name, version in said["versions"].items()) + ".",
        "",
        "Passed/run; a dash: nothing of it can be done, or the library is not there.",
        "",
        "| test | " + " | ".join(systems) + " |",
        "|---|" + "---|" * len(systems),
    ]
    for test, cells in outcomes.items():
        row = []
        for system in systems:
            counts = Counter(outcome.partition(":")[0] for key, outcome in cells.items() if key.split("-")[0] == system)
            run = counts["passed"] + counts["failed"]
            row.append(f"{counts['passed']}/{run}" if run else "–")
        if any(cell != "–" for cell in row):
            lines.append(f"| {test.removeprefix('test_').replace('_', ' ')} | " + " | ".join(row) + " |")
    alone = [
        f"- {test.removeprefix('test_').replace('_', ' ')}: {cells['-']}"
        for test, cells in outcomes.items()
        if "-" in cells
    ]
    failed = [
        f"- `{test}[{key}]` {outcome}"
        for test, cells in outcomes.items()
        for key, outcome in cells.items()
        if outcome.startswith("failed")
    ]
    skipped = sorted(
        {
            outcome
            for cells in outcomes.values()
            for outcome in cells.values()
            if outcome.startswith("skipped") and "installed" in outcome
        }
    )
    lines += [
        "",
        "## Tests of one library",
        "",
        *alone,
        "",
        "## Failed",
        "",
        *(failed or ["Nothing."]),
        "",
        "## Not there",
        "",
        *[f"- {s}" for s in skipped],
    ]
    return "\n".join(lines) + "\n"
