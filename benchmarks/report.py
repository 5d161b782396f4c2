"""Reports of results: the matrix as text, and the tables of docs/performance.md."""

from __future__ import annotations

from typing import Any

Result = dict[str, Any]
WORST = 50  # how many rows the page names


def is_above(row: dict[str, Any]) -> bool:
    """Tell whether a row is above its limit; a row whose expression fails counts as above."""
    return "failed" in row or row.get("share", 0) > 1


def in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the worst rows first: failures, then by the share of the limit, then those without a limit."""
    return sorted(rows, key=lambda row: ("failed" not in row, "share" not in row, -row.get("share", row.get("ns", 0))))


def number(value: float | None) -> str:
    """Return nanoseconds as text."""
    return "-" if value is None else f"{value:,.0f}"


def matrix(result: Result) -> list[str]:
    """Return the matrix as lines, worst rows first, then how many rows of each family are above their limit."""
    lines = [f"{'family':25}{'row':34}{'ns':>10}{'cuda.core':>11}{'ratio':>8}{'limit':>10}{'of limit':>10}"]
    for row in in_order([row for row in result["rows"] if "left_out" not in row]):
        line = f"{row['family'][:24]:25}{row['label'][:33]:34}"
        if "failed" in row:
            lines.append(f"{line} fails: {row['failed']}")
            continue
        ratio = f"{row['ratio']:.2f}" if "ratio" in row else "-"
        share = f"{row['share']:.2f}" if "share" in row else "-"
        line += (
            f"{number(row['ns']):>10}{number(row['peer_ns']):>11}{ratio:>8}{number(row.get('limit_ns')):>10}{share:>10}"
        )
        lines.append(line + ("  over" if is_above(row) else ""))
    lines.append("")
    for row in result["rows"]:
        if "left_out" in row:
            lines.append(f"left out: {row['family']}: {row['label']}: {row['left_out']}")
        elif row.get("peer_failed"):
            lines.append(f"no comparison: {row['family']}: {row['label']}: {row['peer_failed']}")
    lines += [f"missing: {library}: {why}" for library, why in result["missing"].items()]
    lines += [
        f"{family:25} {above} of {of} rows are above their limit" for family, (above, of) in counts(result).items()
    ]
    above, of = (sum(column) for column in zip(*counts(result).values())) if counts(result) else (0, 0)
    lines.append(f"{'all':25} {above} of {of} rows are above their limit; measured in {result['took_s']:.0f} s")
    return lines


def counts(result: Result) -> dict[str, tuple[int, int]]:
    """Return, for each family, how many rows are above their limit, and how many have a limit."""
    found: dict[str, tuple[int, int]] = {}
    for row in result["rows"]:
        if "share" in row or "failed" in row:
            above, of = found.get(row["family"], (0, 0))
            found[row["family"]] = above + is_above(row), of + 1
    return found


def tables(results: list[Result]) -> list[str]:
    """Return the tables of docs/performance.md: what was measured, a count per family, the rows above their limit."""
    lines = [
        f"- Python {result['python']}, {result['date']}, {result['machine']}; {', '.join(result['packages'])}"
        for result in results
    ]
    head = " | ".join(f"Python {result['python']}" for result in results)
    lines += ["", f"| rows above their limit | {head} |", "|---|" + "---|" * len(results)]
    all_counts = [counts(result) for result in results]
    for family in dict.fromkeys(name for one in all_counts for name in one):
        cells = ["{} of {}".format(*one[family]) if family in one else "-" for one in all_counts]
        lines.append(f"| {family} | {' | '.join(cells)} |")
    by_key = [
        {(row["family"], row["label"]): row for row in result["rows"] if "ns" in row or "failed" in row}
        for result in results
    ]
    above = {key: row for found in by_key for key, row in found.items() if is_above(row)}
    worst = sorted(above, key=lambda key: -max(one[key].get("share", 1e9) for one in by_key if key in one))
    lines += ["", "| row above its limit | " + " | ".join(f"{head}: ns, of limit" for head in head.split(" | ")) + " |"]
    lines += ["|---|" + "---|" * len(results)]
    for key in worst[:WORST]:
        cells = [cell(one.get(key)) for one in by_key]
        lines.append(f"| {key[0]}: {key[1]} | {' | '.join(cells)} |")
    if len(worst) > WORST:
        lines += ["", f"The {len(worst) - WORST} rows that are nearest to their limits are not listed."]
    return lines


def with_tables(page: str, results: list[Result]) -> str:
    """Return the page with its tables replaced by new ones."""
    before, begin, rest = page.partition("<!-- measured -->\n")
    _, end, after = rest.partition("<!-- end -->")
    if not begin or not end:
        raise ValueError("the page has no place for tables: <!-- measured --> and <!-- end -->")
    return before + begin + "\n".join(tables(results)) + "\n" + end + after


def cell(row: dict[str, Any] | None) -> str:
    """Return a line of the table for a row that is above its limit in one of the results."""
    if row is None:
        return "-"
    if "failed" in row:
        return "fails"
    return f"{number(row['ns'])}, {row['share']:.2f}" if "share" in row else number(row["ns"])
