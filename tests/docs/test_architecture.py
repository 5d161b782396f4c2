"""docs/architecture.md agrees with the code: every name on the page exists.

The page writes a module as its path in the package (`gpu/streams/stream.py`), a function or a class with parentheses
after it (`handle_of()`, `Stream.wait()`), and a table in capital letters (`PROTOTYPES`). A step of a path names its
modules and functions before its first colon.
"""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

import pytest

from tests.subject import CHECKOUT, FOLDER, NAME

pytestmark = pytest.mark.skipif(NAME != "rawcuda", reason="the page is about the original")

PAGE = CHECKOUT / "docs" / "architecture.md"
MODULE = re.compile(r"`([\w/]+\.py)`")
FUNCTION = re.compile(r"`(?:([\w.]+)\(\)|([A-Z_]{3,}))`")
ELSEWHERE = ("tests/", "docs/", "examples/", "benchmarks/")
QUESTIONS = 25


def section(title: str) -> str:
    """Return the text between a heading of the second level and the next one."""
    parts = re.split(r"^## (.*)$", PAGE.read_text("utf-8"), flags=re.M)
    found = dict(zip(parts[1::2], parts[2::2]))
    assert title in found, f"the page has no section {title!r}: it has {list(found)}"
    return found[title]


def modules() -> set[str]:
    """Return the path of each module that has code; the `__init__.py` of a folder usually has none."""
    code = (ast.FunctionDef, ast.ClassDef)
    return {
        path.relative_to(FOLDER).as_posix()
        for path in FOLDER.rglob("*.py")
        if path.name != "__init__.py" or any(isinstance(node, code) for node in ast.parse(path.read_bytes()).body)
    }


@functools.cache
def names_in(module: str) -> frozenset[str]:
    """Return the names that a module defines: functions, classes, variables, and methods as `Class.method`."""
    found = set()
    for node in ast.walk(ast.parse((FOLDER / module).read_bytes())):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{inner.name}" for inner in node.body if isinstance(inner, ast.FunctionDef)}
        if isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {target.id for target in targets if isinstance(target, ast.Name)}
    return frozenset(found)


def missing(text: str) -> list[str]:
    """Return the functions in a text that none of the modules in the text defines."""
    named = [module for module in MODULE.findall(text) if (FOLDER / module).exists()]
    names = [function or table for function, table in FUNCTION.findall(text)]
    return [name for name in names if not any(name in names_in(module) for module in named)]


def questions() -> list[list[str]]:
    """Return the rows of the table of questions: question, module, function."""
    lines = [line for line in section("Where is ...?").splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


def test_every_module_on_the_page_exists() -> None:
    named = set(MODULE.findall(PAGE.read_text("utf-8")))
    wrong = [
        module
        for module in named
        if not (CHECKOUT if module.startswith(ELSEWHERE) else FOLDER).joinpath(module).exists()
    ]
    assert not wrong, f"not in the package: {sorted(wrong)}"


def test_every_step_names_functions_that_its_modules_define() -> None:
    wrong = []
    for title in ("The path of `view(x)`", "The path of a launch", "The path of a PTX text"):
        steps = re.findall(r"^\d+\. (.*(?:\n   .*)*)", section(title), re.M)
        assert len(steps) >= 4, title
        for step in steps:
            head = " ".join(step.split()).partition(": ")[0]
            assert MODULE.search(head), f"{title}: no module in {head!r}"
            wrong += [f"{title}: {head}: {name}" for name in missing(head)]
    assert not wrong, "\n".join(wrong)


def test_every_question_has_a_module_and_a_function_in_it() -> None:
    rows = questions()
    assert len(rows) >= QUESTIONS and len({row[0] for row in rows}) == len(rows)
    for row in rows:
        assert len(row) == 3 and row[0].endswith("?") and MODULE.search(row[1]) and FUNCTION.search(row[2]), row
    wrong = [f"{row[0]} {name}() is not in {row[1]}" for row in rows for name in missing(f"{row[1]} {row[2]}")]
    assert not wrong, "\n".join(wrong)


def test_the_names_of_a_module_are_found() -> None:
    assert {"Stream", "Stream.wait", "Event.record"} <= names_in("gpu/streams/stream.py")
    assert "PROTOTYPES" in names_in("headers/functions.py") and "from_code" in names_in("errors.py")
    assert missing("`gpu/streams/stream.py` `Stream.wait()` `Stream.no_such()` `NO_SUCH`") == [
        "Stream.no_such",
        "NO_SUCH",
    ]
    assert "dlpack.py" in modules() and "gpu/__init__.py" not in modules() and Path(FOLDER, "__init__.py").exists()


def test_the_page_can_be_read_in_one_sitting() -> None:
    assert len(PAGE.read_text("utf-8").splitlines()) <= 200


def test_every_folder_of_the_package_is_on_the_page() -> None:
    folders = {path.parent.name for path in FOLDER.glob("*/__init__.py")}
    text = PAGE.read_text("utf-8").partition("## The path of")[0]
    assert not [folder for folder in folders if f"`{folder}/`" not in text]
