"""The mutation tests themselves: what changes there are, and that deliberate faults are noticed, as they should be."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Python
from tests.subject import CHECKOUT, NAME

pytestmark = [
    pytest.mark.heavy,  # they test the tests
    pytest.mark.skipif(NAME != "rawcuda", reason="mutants are made of the original"),
    pytest.mark.skipif(not hasattr(os, "fork"), reason="mutants run in forked processes"),
]

SOURCE = '''
"""A module."""
from __future__ import annotations
__all__ = ["f"]
TYPE_CHECKING = False
if TYPE_CHECKING:
    LIMIT: int = 2 + 3
def f(a: int, b, c=4) -> str:
    """Return 1 + 1."""
    if a < b and not c:
        raise ValueError(f"{a + 1} is < {b}")
    try:
        self.x = g(a, b)
    except KeyError:
        h()
    finally:
        i("a message", "word")
    return a
'''
CHANGES = [
    "constant: 4 -> 5",
    "negated condition: a < b and not c -> the opposite",
    "boolean: a < b and not c -> or",
    "comparison: a < b -> <=",
    "comparison: a < b -> >=",
    "boolean: not c -> its operand",
    'removed raise: raise ValueError(f"{a + 1} is < {b}") -> removed',
    "removed except: h() -> without except 0",
    'removed finally: i("a message", "word") -> without finally',
    "removed statement: self.x = g(a, b) -> removed",
    "swapped arguments: g(a, b) -> swapped",
    "removed statement: h() -> removed",
    'removed statement: i("a message", "word") -> removed',
    'swapped arguments: i("a message", "word") -> swapped',
    "constant: \"word\" -> 'word_'",
    "returned value: return a -> return None",
]
# Mutants of the package, and a test that notices each: in its own process, or in one that it starts.
NOTICED = {
    "ownership.py: Owned._close: not forked -> its operand": "test_owned.py::test_close_releases_once",
    "ownership.py: drain: forked or release.release(True) is not False -> and": (
        "test_owned.py::test_a_forked_child_releases_nothing"
    ),
    "ownership.py: Once.release: function(late) -> removed": "test_owned.py::test_dropping_only_enqueues",
}
# What the process that runs tests must notice: the text of a module, and how the test ends.
HOSTILE = {
    "while True: pass": "time",
    "import ctypes; ctypes.string_at(8)": "crashed",
    "kept = bytearray(64 << 30)": "failed",
    "import os; os._exit(0)": "crashed",
}
RUN = """
    import json, sys
    from pathlib import Path
    from tests.mutants import command, running
    from tests.mutants.changes import mutants_of
    from tests.mutants.choice import Test

    modules = ["ownership.py", "driver.py"]
    running.prepare()
    log, short = Path(sys.argv[3]), running.Limits(0, 1, 5)
    asked = json.loads(sys.argv[1])
    found = [each for module in modules for each in mutants_of(module, (command.PACKAGE / module).read_text("utf-8"))]
    for mutant in found:
        if mutant.name in asked:
            tests = [Test(f"tests/null/{asked[mutant.name]}", 1.0, 10)]
            print(json.dumps([mutant.name, running.run_mutant(mutant, tests, log).outcome]))
    test = [Test("tests/null/test_owned.py::test_close_releases_once", 0.01, 10)]
    for text in json.loads(sys.argv[2]):
        codes = {"rawcuda.ownership": compile(text, "ownership.py", "exec")}
        print(json.dumps([text, running.run_codes(codes, test, log, short).outcome]))
    print(json.dumps(["control", running.run_codes({}, test, log).outcome]))
"""


def test_what_may_change_does() -> None:
    from tests.mutants.changes import mutants_of

    assert [f"{each.kind}: {each.change}" for each in mutants_of("a.py", SOURCE)] == CHANGES


def test_each_change_compiles_to_something_else() -> None:
    from tests.mutants.changes import mutants_of, mutated

    found = mutants_of("a.py", SOURCE)
    codes = {mutated(SOURCE, mutant.number, "a.py") for mutant in found}
    assert len(codes | {compile(SOURCE, "a.py", "exec", dont_inherit=True)}) == len(found) + 1


def test_probes_record_what_runs() -> None:
    from tests.mutants.changes import statements_of

    text = "x = 1\ndef f(a):\n    'text'\n    if a:\n        y = a\n    elif a is None:\n        y = x\n    return y\n"
    found, tree = statements_of("a.py", text)
    ran: set[tuple[str, int]] = set()
    space: dict[str, Any] = {"_ran_": ran.add}
    exec(compile(tree, "a.py", "exec"), space)
    assert {(found[number].first, found[number].in_function) for _, number in ran} == {(1, False), (2, False)}
    ran.clear()
    space["f"](None)
    assert {found[number].first for _, number in ran} == {4, 6, 7, 8}


def test_tests_are_chosen_by_what_they_run(tmp_path: Path) -> None:
    from tests.mutants.changes import mutants_of, statements_of
    from tests.mutants.choice import Map, within

    text = "x = 1\ndef f(a=2):\n    if a > 3:\n        a = 4\n    return a\ndef g():\n    return x\n"
    found, _ = statements_of("a.py", text)
    [small, large, other] = (
        [number for number, each in enumerate(found) if each.first in lines] for lines in ((3, 5), (3, 4, 5), (7,))
    )
    record = tmp_path / "record.json"
    rows = {"t::small": (0.1, small), "t::large": (0.2, large), "t::other": (0.3, other), "u::none": (0.4, [])}
    record.write_text(json.dumps({name: {"seconds": s, "ran": {"a.py": ran}} for name, (s, ran) in rows.items()}))
    tests = Map({"a.py": found}, [record], {"u": "x is not y"})
    names = {
        (mutant.change, wide): [test.name for test in tests.tests_of(mutant, wide=wide)]
        for mutant in mutants_of("a.py", text)
        for wide in (False, True)
    }
    assert names["4 -> 5", False] == ["t::large"]
    assert names["4 -> 5", True] == ["t::large", "t::small", "t::other"]
    assert names["a > 3 -> >=", False] == ["t::small", "t::large"]
    assert names["2 -> 3", False] == ["t::small", "t::large"] and names["1 -> 2", False] == ["t::other", "u::none"]
    assert [test.name for test in within([*tests.tests.values()], 0.25)] == ["t::small"]


def test_mutants_are_noticed_and_nothing_else_is(python: Python, tmp_path: Path) -> None:
    asked = json.dumps(NOTICED), json.dumps([*HOSTILE]), str(tmp_path / "log.txt")
    result = python(RUN, *asked, cwd=CHECKOUT, timeout=600, check=True)
    ended = dict(json.loads(line) for line in result.stdout.splitlines())
    assert ended == {**dict.fromkeys(NOTICED, "failed"), **HOSTILE, "control": "survived"}


def test_each_listed_mutant_exists_and_has_a_reason() -> None:
    from tests.mutants.changes import mutants_of
    from tests.mutants.command import EQUIVALENT, PACKAGE

    groups = json.loads(EQUIVALENT.read_text("utf-8"))
    listed = [name for group in groups for name in group["mutants"]]
    modules = {name.partition(":")[0] for name in listed}
    found = {each.name for module in modules for each in mutants_of(module, (PACKAGE / module).read_text("utf-8"))}
    assert not set(listed) - found and len(set(listed)) == len(listed)
    assert all(len(group["why"]) > 20 and group["mutants"] for group in groups)
