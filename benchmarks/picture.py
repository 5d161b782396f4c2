"""Draw the matrix as one SVG: a dot for each row, at its share of its limit on a logarithmic axis, in a lane per family."""

from __future__ import annotations

import math
from html import escape
from typing import Any

WIDTH, LEFT, RIGHT, TOP, LINE = 960, 210, 110, 92, 34
LOW, HIGH = 1 / 16, 64  # what the axis shows; rows beyond are drawn at its ends
COLOURS = {"met": "#2e7d4f", "above": "#b03a2e"}
FONT = "font-family=\"system-ui,'DejaVu Sans',sans-serif\""


def x_of(share: float) -> float:
    """Return where a share of the limit is on the axis."""
    share = min(max(share, LOW), HIGH)
    return LEFT + (math.log(share) - math.log(LOW)) / (math.log(HIGH) - math.log(LOW)) * (WIDTH - LEFT - RIGHT)


def text(x: float, y: float, words: str, size: int = 12, anchor: str = "start", colour: str = "#1f2430") -> str:
    """Write words."""
    style = f'{FONT} font-size="{size}" text-anchor="{anchor}" fill="{colour}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}>{escape(words)}</text>'


def draw(results: list[dict[str, Any]]) -> str:
    """Return an SVG of one or more results; a lane for each family, and in it a line of dots for each result."""
    families = list(dict.fromkeys(row["family"] for result in results for row in result["rows"] if drawn(row)))
    lane = max(LINE, 22 * len(results) + 8)
    height = TOP + lane * len(families) + 46
    pythons = ", ".join("Python " + result["python"] for result in results)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}">',
        f"<title>The cost of each row as a share of its limit, {pythons}</title>",
        f'<rect width="{WIDTH}" height="{height}" fill="#fcfcfa"/>',
        text(16, 28, "What each operation costs, as a share of what its rule allows", 17),
        text(
            16,
            48,
            f"A dot is one kind of call. Left of the line: within the rule. {pythons}; {results[0]['date']}.",
            12,
        ),
    ]
    bottom = TOP + lane * len(families)
    shares = [2.0**power for power in range(round(math.log2(LOW)), round(math.log2(HIGH)) + 1)]
    for share in shares:
        x, limit = x_of(share), share == 1
        stroke = 'stroke="#1f2430" stroke-width="1.5"' if limit else 'stroke="#dfe2e8"'
        parts.append(f'<line x1="{x:.1f}" y1="{TOP - 8}" x2="{x:.1f}" y2="{bottom}" {stroke}/>')
        label = "limit" if limit else f"{share:g} x" if share > 1 else f"1/{1 / share:g}"
        parts += [text(x, y, label, 11, "middle", "#1f2430" if limit else "#5b6475") for y in (TOP - 16, bottom + 18)]
    for number, family in enumerate(families):
        top = TOP + lane * number
        if number % 2 == 0:
            parts.append(f'<rect x="0" y="{top}" width="{WIDTH}" height="{lane}" fill="#1f2430" fill-opacity="0.04"/>')
        parts.append(text(16, top + lane / 2 + 4, family))
        for which, result in enumerate(results):
            middle = top + lane * (which + 0.5) / len(results)
            rows = [row for row in result["rows"] if row["family"] == family and drawn(row)]
            parts += dots(rows, middle, lane / len(results) / 2 - 5, result["python"])
            above = sum(share_of(row) > 1 for row in rows)
            worst = max(rows, key=share_of, default=None)
            if worst and above and x_of(share_of(worst)) < WIDTH - RIGHT - 120:
                parts.append(text(x_of(share_of(worst)) + 8, middle + 3, worst["label"], 10, "start", COLOURS["above"]))
            words = f"{above} of {len(rows)} above" if above else f"all {len(rows)} within"
            parts.append(text(WIDTH - 12, middle + 4, words, 11, "end", COLOURS["above" if above else "met"]))
    parts += [
        text(16, bottom + 38, f"Rows beyond an end of the axis are drawn at that end. {legend(results)}", 11),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def drawn(row: dict[str, Any]) -> bool:
    """Tell whether a row has a place in the picture."""
    return "share" in row or "failed" in row


def share_of(row: dict[str, Any]) -> float:
    """Return a row's share of its limit; a row that fails is at the end of the axis."""
    return float(row["share"]) if "share" in row else float(HIGH)


def legend(results: list[dict[str, Any]]) -> str:
    """Say which line of a lane is which result."""
    if len(results) == 1:
        return ""
    return "In each lane, from the top: " + ", ".join("Python " + result["python"] for result in results) + "."


def dots(rows: list[dict[str, Any]], middle: float, room: float, python: str) -> list[str]:
    """Draw rows as dots, each moved up or down from the middle of its line as far as those left of it need."""
    parts, placed = [], []
    for row in sorted(rows, key=share_of):
        x, share = x_of(share_of(row)), share_of(row)
        offsets = sorted(
            (step * 3.5 * sign for step in range(int(max(room, 0) / 3.5) + 1) for sign in (1, -1)), key=abs
        )
        near = [at for at in placed if x - at[0] < 7]
        y = max(
            offsets,
            key=lambda offset: (min((math.hypot(x - a, offset - b) for a, b in near), default=99) >= 6, -abs(offset)),
        )
        placed.append((x, y))
        colour = COLOURS["above" if share > 1 else "met"]
        what = f"{row['family']}: {row['label']}: " + (
            f"{row['ns']:,.0f} ns, {share:.2f} of its limit (Python {python})"
            if "ns" in row
            else f"fails: {row['failed']}"
        )
        circle = f'<circle cx="{x:.1f}" cy="{middle + y:.1f}" r="3.4" fill="{colour}" fill-opacity="0.75">'
        parts.append(f"{circle}<title>{escape(what)}</title></circle>")
    return parts
