"""The rules, and the rows of matrix.txt that they apply to."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

TABLE = Path(__file__).with_name("matrix.txt")


class Rule(NamedTuple):
    """The most that a row may cost: the larger of ratio x peer and ns, plus the row's part, plus extra nanoseconds."""

    text: str
    ratio: float = 0.0
    ns: float = 0.0
    extra: float = 0.0

    def limit(self, peer: float | None, part: float) -> float | None:
        """Return the limit in nanoseconds; None if there is no rule, or only a ratio and no peer."""
        most = max(self.ratio * (peer or 0.0), self.ns)
        return most + part + self.extra if most else None


RULES = {
    "launch": Rule("a launch: 1.3 x cuda.core", 1.3),
    "foreign": Rule("a launch with an array of another library: 1.3 x cuda.core + its view + 1.5 us", 1.3, 0, 1500),
    "host": Rule("a view of a host array that cuda.core takes: 1.2 x cuda.core", 1.2),
    "other": Rule("a view of anything else: 2.5 us", 0, 2500),
    "cai": Rule("a view by the CUDA Array Interface: 0.9 x cuda.core", 0.9),
    "torch": Rule("a view of a torch tensor: 0.3 x cuda.core", 0.3),
    "call": Rule("an event, query, wait, copy or fill: the larger of 3 x cuda.core and 400 ns", 3, 400),
    "create": Rule("creation and release: 2.5 x cuda.core", 2.5),
    "array": Rule("indexing, reshaping, exporting: 2 us", 0, 2000),
    "asarray": Rule("numpy.asarray(view) and memoryview(): 4 us", 0, 4000),
    "fact": Rule("facts and cu calls: the larger of 3 x cuda.core and 2 us", 3, 2000),
    "none": Rule("no rule"),
}


class Row(NamedTuple):
    """One row of the matrix. Its expressions are Python; peer and part are "" if there is none."""

    family: str
    label: str
    ours: str
    peer: str
    rule: Rule
    part: str
    read: str  # a statement in which {} stands for the expression
    context: bool  # whether a context is current while our expression is timed


def rows(words: list[str]) -> list[Row]:
    """Return the rows whose family and label contain all the words; every row if no word is given."""
    found = []
    family, settings = "", {}
    for line in TABLE.read_text("utf-8").splitlines():
        if line.startswith("["):
            family, settings = line.strip("[]"), {"read": "{}", "context": "current"}
        elif "|" not in line:
            name, separator, value = line.partition(": ")
            if separator and not line.startswith("#"):
                settings[name] = value
        elif not line.startswith("#"):
            label, ours, peer, rule, part, *_ = [*(cell.strip() for cell in line.split("|")), "", "", ""]
            if all(word.lower() in f"{family}: {label}".lower() for word in words):
                chosen = RULES[rule or settings["rule"]]
                context = settings["context"] != "none"
                peer = "" if peer == "-" else peer
                found.append(Row(family, label, ours, peer, chosen, part, settings["read"], context))
    return found
