"""Measure every installed library, and write docs/systems.md with the results.

    python3 -m tests.systems_table                    measure in every environment, then write results and page
    python3 -m tests.systems_table --measure FILE     measure the libraries of this Python, and write only the results
    python3 -m tests.systems_table --page             write the page from the existing results

The results are in tests/interop/systems.json. tests/interop/test_table.py compares them with its own, and fails
if a row gets worse. Remarks and blocks of code are written by hand, in tests/interop/systems_text.py.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "tests" / "interop" / "systems.json"
PAGE = ROOT / "docs" / "systems.md"
PYTHON = "{}.{}".format(*sys.version_info[:2])
TOOLS = ["pytest >= 8", "pytest-xdist >= 3.6", "numpy", "ml_dtypes"]
# The large libraries, in separate environments in .venv/, which are made once, only for --heavy and this program.
ENVIRONMENTS = {
    # pip installs a CPU build, which is ten times smaller, if PIP_EXTRA_INDEX_URL names an index with such builds
    "torch": ["torch == 2.13.0"],
    "arrays": ["jax[cpu] == 0.10.2", "warp-lang == 1.19.0", "nvidia-dali-cuda130 == 2.4.0", "drjit == 1.5.0"],
    "tensorflow": ["tensorflow-cpu == 2.21.0"],
    "paddle": ["paddlepaddle == 3.3.1"],
}
ORDER = ("yes", "bytes", "copy", "no", "none")
WORDS = {"yes": "", "bytes": "as bytes", "copy": "copied", "no": "refused", "none": "has none"}


def measure() -> dict[str, Any]:
    """Measure the installed libraries: {library: {"version": ..., "python": ..., "rows": {row: {case: outcome}}}}."""
    import pytest

    from tests.interop.exchanges import rows_of
    from tests.interop.systems import SYSTEMS

    found = {}
    for kind in SYSTEMS:
        try:
            system = kind().load()
        except pytest.skip.Exception:
            continue
        found[system.name] = {"version": system.version, "python": PYTHON, "rows": rows_of(system)}
    return found


def environments() -> list[str]:
    """Return the Pythons with the libraries; make their environments if they do not exist."""
    from tests.__main__ import environment

    return [environment(), *(environment([*TOOLS, *libraries]) for libraries in ENVIRONMENTS.values())]


def collect() -> dict[str, Any]:
    """Measure in every environment; the rows of NumPy are those of the first one."""
    merged: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for number, python in enumerate(environments()):
            target = Path(folder, f"{number}.json")
            subprocess.run([python, "-m", "tests.systems_table", "--measure", str(target)], cwd=ROOT, check=True)
            for name, found in json.loads(target.read_text("utf-8")).items():
                merged.setdefault(name, found)
    return merged


# -- the page


def page(results: dict[str, Any]) -> str:
    """Return docs/systems.md."""
    from tests.interop.systems import SYSTEMS
    from tests.interop.systems_text import AFTER, BEFORE, ENTRIES

    pythons = sorted({found["python"] for found in results.values()})
    names = [kind.name for kind in SYSTEMS if kind.name in results]  # type: ignore[attr-defined]
    lines = [
        BEFORE,
        f"Measured with Python {' and '.join(pythons)}, on a machine without a GPU.",
        "",
        f"| library | version | direction | {' | '.join(f'`{protocol}`' for protocol in PROTOCOLS)} |",
        f"|---|---|---|{':-:|' * len(PROTOCOLS)}",
    ]
    for name in names:
        title = ENTRIES[name].title
        for direction, words in DIRECTIONS.items():
            marks = [mark(results[name]["rows"], direction, protocol) for protocol in PROTOCOLS]
            first = f"[{title}](#{anchor(title)})" if direction == "takes" else ""
            version = results[name]["version"] if direction == "takes" else ""
            lines.append(f"| {first} | {version} | {words} | {' | '.join(marks)} |")
    lines += ["", AFTER]
    for name in names:
        entry = ENTRIES[name]
        lines += [
            "",
            f"### {entry.title}",
            "",
            *([entry.remark, ""] if entry.remark else []),
            *[remark(row, found) for row, found in results[name]["rows"].items()],
            "",
            "```python",
            entry.lines.strip(),
            "```",
        ]
    return "\n".join(lines) + "\n"


FLOAT8 = ("float8_e4m3fn", "float8_e5m2")
PROTOCOLS = ("dlpack", "dlpack_c_exchange", "cuda_array_interface", "array_interface", "buffer")
DIRECTIONS = {"takes": "takes ours", "gives": "gives to us"}
# What a tick does not promise: each is missing in some protocol or in many libraries.
UNUSUAL = ("reversed", "broadcast", "read-only", "bool", "float16", "complex64", "complex128", "bfloat16", *FLOAT8)
ALL, SOME, NONE = "✓", "(✓)", ""


def anchor(title: str) -> str:
    """Return the anchor of a heading."""
    return re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-")


def mark(rows: dict[str, dict[str, str]], direction: str, protocol: str) -> str:
    """Return a tick if all usual layouts and dtypes work, a tick in parentheses if some do, and else nothing."""
    found = [each for row, each in rows.items() if row.split(" ")[:2] == [direction, protocol]]
    usual = {outcome for each in found for case, outcome in each.items() if case not in UNUSUAL and outcome != "none"}
    return NONE if "yes" not in usual else ALL if usual == {"yes"} else SOME


def remark(row: str, found: dict[str, str]) -> str:
    """Return the line about one direction, protocol and kind of memory."""
    direction, protocol, memory = row.split(" ")
    place = "" if memory == "host" else ", host memory labelled CUDA"
    return (
        f"- {DIRECTIONS[direction]}, `{protocol}`{place}: layouts: {summary(found, False)}. "
        f"Dtypes: {summary(found, True)}."
    )


def summary(found: dict[str, str], dtypes: bool) -> str:
    """Return a summary of a row's layouts, or of its dtypes; each outcome except success has a word before it."""
    from tests.interop.exchanges import DTYPES

    cases = {case: outcome for case, outcome in found.items() if (case in DTYPES) == dtypes}
    if not cases:
        return "–"
    parts = []
    for outcome in (*ORDER, *sorted({o for o in cases.values() if o not in ORDER})):
        those = [case for case, each in cases.items() if each == outcome]
        if those:
            word = WORDS.get(outcome, outcome)
            listed = "all" if len(those) == len(cases) else ", ".join(spans(those))
            parts.append(f"{word}: {listed}" if word else listed)
    return "; ".join(parts)


def spans(names: list[str]) -> list[str]:
    """Abbreviate groups of dtypes: int8 to int64."""
    out = list(names)
    for family in (
        ("int8", "int16", "int32", "int64"),
        ("uint8", "uint16", "uint32", "uint64"),
        ("float16", "float32", "float64"),
        ("float8_e4m3fn", "float8_e5m2"),
        ("complex64", "complex128"),
    ):
        if set(family) <= set(out):
            at = out.index(family[0])
            out = [name for name in out if name not in family]
            out.insert(at, f"{family[0]} to {family[-1]}" if len(family) > 2 else " and ".join(family))
    return out


def worse(known: dict[str, str], now: dict[str, str]) -> list[str]:
    """Return the cases of a row whose outcome is worse than the known one."""
    rank = {outcome: place for place, outcome in enumerate(ORDER)}
    return [
        f"{case}: {known[case]} before, {now.get(case, 'not offered')} now"
        for case in known
        if rank.get(now.get(case, "none"), 9) > rank.get(known[case], 9)
    ]


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        Path(sys.argv[2]).write_text(json.dumps(measure(), indent=1) + "\n", "utf-8")
    else:
        if sys.argv[1:] != ["--page"]:
            RESULTS.write_text(json.dumps(collect(), indent=1) + "\n", "utf-8")
        PAGE.write_text(page(json.loads(RESULTS.read_text("utf-8"))), "utf-8")
