"""Draw the goals and what was measured: python plot.py RESULTS.json writes RESULTS.svg."""

from __future__ import annotations

import json
import sys
from pathlib import Path


def main(path: Path) -> None:
    """Draw one bar a goal: the ratio measured over the ratio wanted."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    result = json.loads(path.read_text())
    rows = [row for row in result["rows"] if "goal" in row and ("ratio" in row or "value" in row)]
    names = [row["section"] for row in rows]
    parts = [row.get("ratio", row.get("value", 0)) / row["goal"] for row in rows]
    figure, axes = pyplot.subplots(figsize=(9, 0.32 * len(rows) + 1.2))
    axes.barh(names, parts, color=["tab:green" if part <= 1 else "tab:red" for part in parts])
    axes.axvline(1, color="black", linewidth=1)
    axes.set_xscale("log")
    axes.invert_yaxis()
    axes.set_xlabel(f"measured / goal (1: met; left is faster); Python {result['python']}, {result['date']}")
    figure.tight_layout()
    figure.savefig(path.with_suffix(".svg"))
    print(path.with_suffix(".svg"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
