"""Which tests run a statement: what is recorded of each test, and the tests that are chosen for a mutant."""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

from .changes import Mutant, Statement


class Test(NamedTuple):
    """A test that passes, how long it takes, and how many statements of the modules it runs."""

    name: str
    seconds: float
    statements: int

    @property
    def file(self) -> str:
        """Return the path of the test's file."""
        return self.name.partition("::")[0]

    @property
    def rank(self) -> float:
        """Return what chosen tests are sorted by: short tests of few statements come first."""
        return (self.seconds + 0.005) * math.sqrt(self.statements + 10)


class Map:
    """The statements of all modules, and the tests that run each of them."""

    def __init__(self, statements: dict[str, list[Statement]], records: list[Path], sources: dict[str, str]):
        self.statements = statements
        self._words = {file: set(re.findall(r"\w+", source)) for file, source in sources.items()}
        self._by_file: dict[str, set[str]] = defaultdict(set)
        self.tests: dict[str, Test] = {}
        self._by_statement: dict[tuple[str, int], set[str]] = defaultdict(set)
        for record in records:
            for name, row in json.loads(record.read_text("utf-8")).items():
                self._add(name, row["seconds"], row["ran"])

    def _add(self, test: str, seconds: float, ran: dict[str, list[int]]) -> None:
        self._by_file[test.partition("::")[0]].add(test)
        self.tests[test] = Test(test, seconds, sum(map(len, ran.values())))
        for module, numbers in ran.items():
            for number in numbers:
                self._by_statement[module, number].add(test)

    def _statements(
        self, module: str = "", place: str | None = None, names: frozenset[str] = frozenset()
    ) -> set[tuple[str, int]]:
        """Return the statements in functions: of a module, of a definition, or with a name."""
        return {
            (each, number)
            for each, statements in self.statements.items()
            if module in ("", each)
            for number, statement in enumerate(statements)
            if statement.in_function
            if place in (None, statement.place) and (not names or names & statement.names)
        }

    def _that_run(self, statements: set[tuple[str, int]]) -> set[str]:
        """Return the tests that run any of these statements."""
        found: set[str] = set()
        for each in statements & self._by_statement.keys():
            found |= self._by_statement[each]
        return found

    def _statement_at(self, module: str, line: int) -> int | None:
        around = [
            (statement.last - statement.first, -number)
            for number, statement in enumerate(self.statements[module])
            if statement.first <= line <= statement.last
        ]
        return -min(around)[1] if around else None

    def _changed_by(self, mutant: Mutant) -> set[tuple[str, int]]:
        """Return the statements that a mutant changes, or that use the table, class or default that it changes."""
        number = self._statement_at(mutant.module, mutant.line)
        if number is None:
            return set()
        statement = self.statements[mutant.module][number]
        if statement.in_function:
            return {(mutant.module, number)}
        found: set[tuple[str, int]] = set()  # it runs when the module is imported
        if statement.place:  # of a class
            for place in {each.place for each in self.statements[mutant.module]}:
                if place.startswith(f"{statement.place}."):
                    found |= self._statements(mutant.module, place)
        for name in statement.defined:
            inner = f"{statement.place}.{name}".strip(".")
            found |= self._statements(mutant.module, inner) or self._statements(names=frozenset([name]))
        return found or self._statements(mutant.module)

    def _around(self, mutant: Mutant) -> set[tuple[str, int]]:
        """Return the statements of the same definition."""
        number = self._statement_at(mutant.module, mutant.line)
        place = None if number is None else self.statements[mutant.module][number].place
        return set() if place is None else self._statements(mutant.module, place)

    def wanted(self, mutants: list[Mutant]) -> set[tuple[str, int]]:
        """Return the statements that tests_of() looks for: those that need a probe."""
        return set().union(*(self._changed_by(mutant) | self._around(mutant) for mutant in mutants))

    def tests_of(self, mutant: Mutant, *, wide: bool = False) -> list[Test]:
        """List the tests that run what a mutant changes, the best first.

        wide  also those that run anything of the same definition, then of the module: a value is often made only once
        """
        number = self._statement_at(mutant.module, mutant.line)
        if number is None:
            return []
        chosen = self._that_run(self._changed_by(mutant))
        defined = self.statements[mutant.module][number].defined
        if not self.statements[mutant.module][number].in_function:
            for file, words in self._words.items():
                if defined & words:  # tests that look at a table run nothing
                    chosen |= self._by_file[file]
        groups = [chosen]
        if wide:
            groups.append(self._that_run(self._around(mutant)) - chosen)
            groups.append(self._that_run(self._statements(mutant.module)) - chosen - groups[1])
        return [
            test
            for group in groups
            for test in sorted((self.tests[name] for name in group), key=lambda test: (test.rank, test.name))
        ]


def within(tests: list[Test], seconds: float, *, of_a_file: int = 25, files: int = 12) -> list[Test]:
    """Choose tests that take this long in all, not too many of one file and of few files, and at least one."""
    chosen: list[Test] = []
    numbers: dict[str, int] = defaultdict(int)
    for test in tests:
        fits = test.seconds <= seconds and numbers.get(test.file, 0) < of_a_file
        if fits and (test.file in numbers or len(numbers) < files) or not chosen:
            chosen.append(test)
            numbers[test.file] += 1
            seconds -= test.seconds + 0.003
    return chosen
