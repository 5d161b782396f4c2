"""Write docs/performance.md's tables from results: python3 -m benchmarks.report RESULTS.json ...

What stands between <!-- measured --> and <!-- end --> is replaced; the rest of the page is written by hand.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PAGE = Path(__file__).resolve().parent.parent / "docs" / "performance.md"
NAMED = (
    "numpy",
    "torch",
    "jax",
    "cuda-core",
    "cuda-bindings",
    "cupy",
    "numba-cuda",
    "tinygrad",
    "warp-lang",
    "apache-tvm-ffi",
    "mpi4py",
    "pycuda",
)


def number(row: dict[str, Any]) -> str:
    """Word what a row measured: the ratio, or the value with its unit; of what is the measure of others, the time."""
    if "ratio" in row and row["case"] != row["base"]:
        low, high = row.get("ratio_quartiles", (row["ratio"],) * 2)
        return f"{row['ratio']:.2f} ({low:.2f} to {high:.2f})"
    return f"{row['value']:.1f} {row.get('unit', '')}" if "value" in row else f"{row['median_ns']:.0f} ns"


def table(results: list[dict[str, Any]], rows: dict[tuple[str, str], list[Any]], goals: bool) -> list[str]:
    """Write a table: a line for each case, a column for each Python."""
    head = ["path", "case", *(["goal"] if goals else []), *["Python " + result["python"] for result in results]]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for (section, case), found in rows.items():
        goal = next((row["goal"] for row in found if row and "goal" in row), None)
        cells = [
            number(row)
            + ("" if goal is None else " met" if row.get("ratio", row.get("value")) <= goal else " **not met**")
            if row
            else "-"
            for row in found
        ]
        lines.append("| " + " | ".join([section, case, *([f"{goal}"] if goals else []), *cells]) + " |")
    return lines


def gather(results: list[dict[str, Any]], wanted: Any) -> dict[tuple[str, str], list[Any]]:
    """Bring the rows of several runs together."""
    keys = dict.fromkeys(
        (row["section"], row["case"])
        for result in results
        for row in result["rows"]
        if "left_out" not in row and wanted(row)
    )
    return {
        key: [
            next(
                (row for row in result["rows"] if (row["section"], row["case"]) == key and "left_out" not in row), None
            )
            for result in results
        ]
        for key in keys
    }


def main(paths: list[str]) -> None:
    """Replace the tables of the page."""
    results = [json.loads(Path(path).read_text()) for path in paths]
    out = []
    for result in results:
        peers = ", ".join(peer for peer in result["peers"] if peer.startswith(NAMED))
        out.append(
            f"- Python {result['python']}, {result['date']}, {result['machine']}, {result['cores']} cores, "
            f"{'a GPU' if result['gpu'] else 'the stub driver'}; {peers}"
        )
    out += ["", "### Goals", ""] + table(results, gather(results, lambda row: "goal" in row), True)
    out += ["", "### Growth", ""] + table(
        results, gather(results, lambda row: row["section"].startswith("growth")), False
    )
    out += ["", "### Everything else", ""] + table(
        results,
        gather(
            results,
            lambda row: "goal" not in row and not row["section"].startswith("growth") and row.get("ratio") != 1.0,
        ),
        False,
    )
    left = sorted(
        {
            f"{row['case']} ({row['section']}): {row['left_out'][:110]}"
            for result in results
            for row in result["rows"]
            if "left_out" in row
        }
    )
    out += ["", "### Left out", ""] + ["- " + line for line in left]
    before, _, rest = PAGE.read_text().partition("<!-- measured -->\n")
    PAGE.write_text(
        before + "<!-- measured -->\n" + "\n".join(out) + "\n<!-- end -->" + rest.partition("<!-- end -->")[2]
    )


if __name__ == "__main__":
    main(sys.argv[1:])
