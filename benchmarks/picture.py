"""Draw the matrix as one SVG: a lane for each family, and in it a dot for each row, at its share of its limit."""

from __future__ import annotations

import math
from html import escape
from typing import Any

WIDTH, LEFT, RIGHT, TOP, LINE = 570, 140, 90, 108, 34
LOW, HIGH = 1 / 16, 64  # the range of the axis; rows outside it are drawn at its ends
COLOURS = {"met": "#2e7d4f", "above": "#b03a2e"}
FONT = "font-family=\"system-ui,'DejaVu Sans',sans-serif\""


def x_of(share: float) -> float:
    """Return where a share of the limit is on the axis."""
    share = min(max(share, LOW), HIGH)
    return LEFT + (math.log(share) - math.log(LOW)) / (math.log(HIGH) - math.log(LOW)) * (WIDTH - LEFT - RIGHT)


def text(x: float, y: float, words: str, size: int = 12, anchor: str = "start", colour: str = "#1f2430") -> str:
    """Return a text element."""
    style = f'{FONT} font-size="{size}" text-anchor="{anchor}" fill="{colour}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}>{escape(words)}</text>'


def draw(results: list[dict[str, Any]]) -> str:
    """Return an SVG of one or more results; a lane for each family, and in it a line of dots for each result."""
    families = list(dict.fromkeys(row["family"] for result in results for row in result["rows"] if drawn(row)))
    lane = max(LINE, 22 * len(results) + 8)
    height = TOP + lane * len(families) + 46
    pythons = ", ".join("Python " + result["python"] for result in results)
    date = results[0]["date"]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}">',
        f"<title>The cost of each row as a share of its limit, {pythons}</title>",
        f'<rect width="{WIDTH}" height="{height}" fill="#fcfcfa"/>',
        text(16, 28, "What each operation costs, as a share of its limit", 17),
        text(16, 48, "A dot is one kind of call; left of the line it is within its limit."),
        text(16, 66, f"{pythons}; {date}."),
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
            if not rows:
                parts.append(text(WIDTH - 12, middle + 4, "not measured", 11, "end", "#5b6475"))
                continue
            parts += dots(rows, middle, lane / len(results) / 2 - 5) + worst_label(rows, middle)
            above = sum(share_of(row) > 1 for row in rows)
            words = f"{above} of {len(rows)} above" if above else f"all {len(rows)} within"
            parts.append(text(WIDTH - 12, middle + 4, words, 11, "end", COLOURS["above" if above else "met"]))
    parts += [
        text(16, bottom + 38, f"Rows beyond an end of the axis are drawn at that end. {legend(results)}", 11),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def drawn(row: dict[str, Any]) -> bool:
    """Tell whether a row appears in the picture."""
    return "share" in row or "failed" in row


def share_of(row: dict[str, Any]) -> float:
    """Return a row's share of its limit; a row that fails is at the end of the axis."""
    return float(row["share"]) if "share" in row else float(HIGH)


def legend(results: list[dict[str, Any]]) -> str:
    """Return the text that explains which line of a lane is which result."""
    if len(results) == 1:
        return ""
    return "In each lane, from the top: " + ", ".join("Python " + result["python"] for result in results) + "."


def dots(rows: list[dict[str, Any]], middle: float, room: float) -> list[str]:
    """Draw rows as dots. Each is moved up or down as far as the dots on its left require."""
    parts: list[str] = []
    placed: list[tuple[float, float]] = []
    steps = range(int(max(room, 0) / 3.5) + 1)
    offsets = sorted((step * 3.5 * sign for step in steps for sign in (1, -1)), key=abs)
    for row in sorted(rows, key=share_of):
        x = x_of(share_of(row))
        near = [at for at in placed if x - at[0] < 7]
        free = (y for y in offsets if all(math.hypot(x - a, y - b) >= 6 for a, b in near))
        placed.append((x, next(free, 0.0)))
        cost = f"{row['ns']:,.0f} ns, {row['share']:.2f} of its limit" if "ns" in row else "fails"
        circle = f'<circle cx="{x:.1f}" cy="{middle + placed[-1][1]:.1f}" r="3.4" fill="{colour_of(row)}">'
        parts.append(f"{circle}<title>{escape(row['label'])}: {cost}</title></circle>")
    return ['<g fill-opacity="0.75">', *parts, "</g>"]


def colour_of(row: dict[str, Any]) -> str:
    """Return the colour of a row."""
    return COLOURS["above" if share_of(row) > 1 else "met"]


def worst_label(rows: list[dict[str, Any]], middle: float) -> list[str]:
    """Write the label of the worst row next to its dot, if the row is above its limit and the text has room."""
    worst = max(rows, key=share_of)
    x = x_of(share_of(worst)) + 8
    if share_of(worst) <= 1 or x + 6 * len(worst["label"]) > WIDTH - RIGHT + 10:
        return []
    return [text(x, middle + 3, worst["label"], 10, "start", COLOURS["above"])]
