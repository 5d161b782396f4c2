"""docs/features.md: each row names what is here, and that exists, or says why it is not."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from tests.subject import CHECKOUT, NAME, module, rawcuda

pytestmark = pytest.mark.skipif(NAME != "rawcuda", reason="the page is about the original")

PAGE: Path = CHECKOUT / "docs" / "features.md"
NAMED = re.compile(r"^(\w+(?:\.\w+)*)(?:\((\w+)=\))?$")


def rows() -> list[list[str]]:
    """Return the cells of each row of the tables, without headings."""
    lines = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [row for row in cells if row[0] != "feature"]


ROWS = rows()


def names(cell: str) -> list[str]:
    """Return the names in a cell, without commands."""
    return [name for name in re.findall(r"`([^`]+)`", cell) if not name.startswith("python3 ")]


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
    for name in names(here):
        match = NAMED.match(name)
        if match is None or name.endswith("=") or name.startswith(("functools.", ".")):
            continue  # code of another kind
        if match[2] is None:
            resolve(match[1])
            continue
        parameters = inspect.signature(resolve(match[1])).parameters
        assert match[2] in parameters or match[2] in module("gpu.launches.options").OPTIONS, f"{name} is no option"


def test_no_name_is_made_up() -> None:
    with pytest.raises(AttributeError):
        resolve("Kernel.no_such_method")
    with pytest.raises(AttributeError):
        resolve("no_such_name")


@pytest.mark.parametrize(
    "name", ["Device", "Stream", "Event", "Buffer", "LaunchConfig", "Kernel", "ObjectCode", "Program"]
)
def test_the_classes_of_cuda_core_are_on_the_page(name: str) -> None:
    assert any(f"`{name}" in row[1] or f"{name}." in row[1] for row in ROWS), name
