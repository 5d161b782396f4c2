"""Format and types of the code: `ruff check`, `ruff format`, `mypy --strict`, for the whole and each vendored part."""

from __future__ import annotations

import ast
import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.subject import CHECKOUT, FOLDER, NAME, module

pytestmark = pytest.mark.skipif(NAME != "rawcuda", reason="the tests below check copies")

LONGEST = 120
LONG = {ast.FunctionDef: 60, ast.AsyncFunctionDef: 60, ast.ClassDef: 300}  # lines
PARTS = ["all", *sorted(module("tools.commands.vendor").PARTS)]
RUFF = (["check", "--output-format", "concise"], ["format", "--check"])


def copies(test: Any) -> Any:
    """Mark a test of a copy: one process runs all of them, so that each copy is made once."""
    for mark in (pytest.mark.heavy, pytest.mark.every_change, pytest.mark.xdist_group("copies")):
        test = mark(test)
    return test


def passes(*words: str | Path, cwd: Path) -> None:
    """Run a module of this Python's environment; its exit status must be 0."""
    if importlib.util.find_spec(str(words[0])) is None:
        pytest.skip(f"{words[0]} is not installed")
    result = subprocess.run(
        [sys.executable, "-m", *words],
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert result.returncode == 0, result.stdout


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder for mypy's cache, which it fills with the standard library."""
    return tmp_path_factory.mktemp("mypy")


@pytest.fixture(scope="module", params=PARTS)
def copy(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Vendor the whole or a part, and return the folder of the copy."""
    folder = tmp_path_factory.mktemp("vendored") / f"part_{request.param}"
    words = ["vendor", str(folder), *(["--only", request.param] if request.param != "all" else [])]
    assert module("__main__").main(words) == 0
    return folder


@pytest.mark.parametrize("words", RUFF, ids=" ".join)
def test_ruff_has_nothing_to_say_of_the_checkout(words: list[str]) -> None:
    passes("ruff", *words, "--no-cache", cwd=CHECKOUT)


@copies
@pytest.mark.parametrize("words", RUFF, ids=" ".join)
def test_ruff_has_nothing_to_say_of_a_copy(copy: Path, words: list[str]) -> None:
    passes("ruff", *words, "--no-cache", "--config", CHECKOUT / "pyproject.toml", copy.name, cwd=copy.parent)


def test_types_are_strictly_right(cache: Path) -> None:
    passes("mypy", "--strict", "--cache-dir", cache, "-p", NAME, cwd=CHECKOUT)


@copies
def test_types_of_a_copy_are_strictly_right(copy: Path, cache: Path) -> None:
    passes(
        "mypy",
        "--strict",
        "--warn-unreachable",
        "--cache-dir",
        cache,
        "--config-file=",
        "-p",
        copy.name,
        cwd=copy.parent,
    )


def test_no_line_is_longer_than_120() -> None:
    """This runs without ruff, and in files that ruff does not check."""
    wrong = [
        f"{path}:{number}: {len(line)} characters"
        for path in sorted(CHECKOUT.rglob("*.py"))
        if not any(part.startswith(".") or part in ("data", "build") for part in path.relative_to(CHECKOUT).parts)
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if len(line) > LONGEST
    ]
    assert not wrong, "\n".join(wrong)


def test_aliases_of_types_are_right_for_the_oldest_python() -> None:
    """The newest mypy does not judge for 3.9, where `X | None` is no type; annotations are not evaluated."""
    wrong = [
        f"{path}:{node.lineno}: write Optional[...] in an alias of a type"
        for path in sorted(FOLDER.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Assign)
        for part in ast.walk(node.value)
        if isinstance(part, ast.BinOp)
        and isinstance(part.op, ast.BitOr)
        and any(isinstance(side, ast.Constant) and side.value is None for side in (part.left, part.right))
    ]
    assert not wrong, "\n".join(wrong)


def test_what_is_long_says_why() -> None:
    """No length is forbidden, but a reader is told why there is no shorter form."""
    wrong = [
        f"{path}:{node.lineno}: {node.name}: say in the docstring, after 'Why long', why it is no shorter"
        for path in sorted(FOLDER.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
        and (node.end_lineno or 0) - node.lineno >= LONG[type(node)]
        and not re.search(r"^Why long {2,}\S", ast.get_docstring(node) or "", re.M)
    ]
    assert not wrong, "\n".join(wrong)
