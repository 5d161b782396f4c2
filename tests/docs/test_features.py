"""docs/features.md: each row names what is here, and that exists, or says why it is not."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from pathlib import Path
from typing import Any

import pytest

from tests.subject import CHECKOUT, NAME, module, rawcuda

pytestmark = pytest.mark.skipif(NAME != "rawcuda", reason="the page is about the original")

PAGE: Path = CHECKOUT / "docs" / "features.md"
NAMED = re.compile(r"^(\w+(?:\.\w+)*)(?:\((\w+)=\))?$")


def rows(text: str) -> list[list[str]]:
    """Return the cells of each row of the tables, without headings."""
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [row for row in cells if row[0] not in ("feature", "name in cuda.core")]


FEATURES, NAMES = PAGE.read_text("utf-8").split("## Every name of cuda.core")
ROWS, OF_CORE = rows(FEATURES), rows(NAMES)


def names(cell: str) -> list[str]:
    """Return the names in a cell, without commands and literals."""
    return [name for name in re.findall(r"`([^`]+)`", cell) if not name.startswith(("python3 ", '"'))]


def check_names(cell: str) -> None:
    """Check that each name in a cell exists here."""
    for name in names(cell):
        match = NAMED.match(name)
        if match is None or name.endswith("=") or name.startswith(("functools.", ".")):
            continue  # code of another kind
        if match[2] is None:
            resolve(match[1])
            continue
        parameters = inspect.signature(resolve(match[1])).parameters
        assert match[2] in parameters or match[2] in module("gpu.kernels.options").OPTIONS, f"{name} is no option"


def resolve(dotted: str) -> Any:
    """Return what a name such as "Kernel.launch" or "cu.cuInit" is; raises AttributeError."""
    if dotted.startswith("cu."):  # the loaded driver may lack it
        return module("headers.cuda_h").prototypes()[dotted[3:]]
    found: Any = rawcuda
    for part in dotted.split("."):
        found = (
            getattr(found, part)
            if found is rawcuda or not isinstance(found, type)
            else inspect.getattr_static(found, part)
        )
    return found


def test_the_tables_are_read() -> None:
    assert len(ROWS) > 100
    assert all(len(row) == 5 for row in ROWS), [row for row in ROWS if len(row) != 5]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_a_row_names_something_here_or_the_reason_why_not(row: list[str]) -> None:
    here = row[-1]
    assert any(cell != "–" for cell in row[1:4]) or here[:2] != "no", "nobody has this"
    if here.startswith("no"):
        assert re.match(r"no(:| public function:) \S", here), "say why it is not here"
    else:
        assert "`" in here, "name it"
    check_names(here)


def test_no_name_is_made_up() -> None:
    with pytest.raises(AttributeError):
        resolve("Kernel.no_such_method")
    with pytest.raises(AttributeError):
        resolve("no_such_name")


@pytest.mark.parametrize("row", OF_CORE, ids=lambda row: row[0][:40])
def test_a_name_of_cuda_core_has_one_here_or_says_no(row: list[str]) -> None:
    assert len(row) == 2 and (names(row[1]) or row[1].startswith("no") or "word" in row[1])
    check_names(row[1])


def test_every_name_of_cuda_core_is_listed() -> None:
    """Compare the page with the installed package: every public name is listed, and no other."""
    core = pytest.importorskip("cuda.core")
    listed = {name for row in OF_CORE for name in names(row[0])}
    assert len(listed) == sum(len(names(row[0])) for row in OF_CORE), "a name is listed twice"
    public = set(core.__all__)
    for part in pkgutil.iter_modules(core.__path__):
        if part.name.startswith("_"):
            continue
        inside = importlib.import_module(f"cuda.core.{part.name}")
        found = getattr(inside, "__all__", None) or [name for name in vars(inside) if not name.startswith("_")]
        public |= {f"{part.name}.*"} if f"{part.name}.*" in listed else {f"{part.name}.{name}" for name in found}
    assert public - listed == set(), "not on the page"
    assert listed - public == set(), "not in cuda.core"


@pytest.mark.parametrize(
    "name", ["Device", "Stream", "Event", "Buffer", "LaunchConfig", "Kernel", "ObjectCode", "Program"]
)
def test_the_classes_of_cuda_core_are_on_the_page(name: str) -> None:
    assert any(f"`{name}" in row[1] or f"{name}." in row[1] for row in ROWS), name
