"""Write the tables of docs/strictness.md from rawcuda/headers/behaviour.py: python3 -m tests.behaviour_table"""

from __future__ import annotations

import re
from typing import Any

from .subject import CHECKOUT, module

__all__ = ["PAGE", "filled", "sources"]

PAGE = CHECKOUT / "docs" / "strictness.md"
_CAPTURE = {
    "unsafe": "refused (900), and the capture breaks, unless the capture modes permit it",
    "captured": "refused (900) for a captured stream, or its context",
    "free": "permitted",
}
_WAITS = {"context": "all work of the context", "stream": "the work of the stream", "event": "the event"}
_WAITS.update({"memory": "work that may use the memory; not if it comes from a pool", "": "nothing"})


def sources(behaviour: Any) -> dict[int, str]:
    """Return the sources in the docstring of the table, by their numbers."""
    text = re.search(r"numbers in the tables:\n(.*?)\nRead next", behaviour.__doc__, re.S)[1]  # type: ignore[index]
    found = re.findall(r"^ +(\d+)  ?(.*(?:\n {16}.*)*)", text, re.M)
    return {int(number): re.sub(r"\s+", " ", words) for number, words in found}


def _tables(behaviour: Any) -> dict[str, list[str]]:
    rows: dict[Any, list[str]] = {}
    for name, row in behaviour.functions().items():
        rows.setdefault(row, []).append(name)
    calls = ["| functions | in a capture | waits for | keeps | source |", "|---|---|---|---|---|"]
    for row, names in rows.items():
        listed = ", ".join(f"`{name}`" for name in names)
        numbers = ", ".join(map(str, row.sources))
        calls.append(
            f"| {listed} | {_CAPTURE[row.capture]} | {_WAITS[row.waits]} | {row.keeps or 'nothing'} | {numbers} |"
        )
    listed = [f"{number}. {words}" for number, words in sources(behaviour).items()]
    tables = {"calls": calls, "sources": listed}
    for title, table in (("answers", behaviour._ANSWERS), ("different", behaviour._DIFFERENT)):
        tables[title] = ["| function | codes | meaning |", "|---|---|---|"]
        for name, (numbers, told) in behaviour.codes(table).items():
            tables[title].append(f"| `{name}` | {', '.join(map(str, numbers))} | {told} |")
    anywhere = ", ".join(f"`{name}`" for name in sorted(behaviour.ANYWHERE))
    tables["anywhere"] = [anywhere]
    return tables


def filled(text: str) -> str:
    """Return the page with the current tables, each between its two comments."""
    for name, lines in _tables(module("headers.behaviour")).items():
        begin, end = f"<!-- {name} -->\n", "\n<!-- end -->"
        before, _, rest = text.partition(begin)
        text = before + begin + "\n" + "\n".join(lines) + "\n" + end + rest.partition(end)[2]
    return text


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text("utf-8")), "utf-8")
