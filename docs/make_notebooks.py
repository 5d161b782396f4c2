"""Make a notebook of each chapter of both courses: python3 docs/make_notebooks.py [FOLDER]

Text becomes Markdown cells, and each block of Python a code cell. The output that the page shows is left out, because
the notebook shows its own. A cell that raises an exception on purpose has the tag "raises-exception", so that a run of
the whole notebook goes on. The notebooks have no outputs, and the same page always gives the same file.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from tests.docs import pages  # noqa: E402

RAISED = re.compile(r"^(\.\.\.)?[\w.]*(Error|Use|Closed|Unsupported|ContextLost|NotFound|OutOfMemory|Failed)\b.*", re.M)
FIRST = """\
import sys

sys.path.insert(0, "{checkout}")  # the checkout; not needed if rawcuda is installed"""
COURSES = {"course": ".", "kernels": "kernels"}  # a folder in docs/: that of its notebooks in docs/notebooks/


def notebook(text: str, checkout: str) -> dict[str, Any]:
    """Return a notebook of a page, in version 4.5 of the format.

    checkout  the way from the notebook's folder to the checkout
    """
    cells = []
    lines = text.splitlines()
    at = 0
    ends = {block.line: block for block in pages.blocks(text)}
    for language, code, line, end, above in pages.fenced(text):
        block = ends.get(line)
        if language != "python" or block is None or block.role == "solution":  # which stays folded, in the text
            continue
        before = "\n".join(lines[at : line - 2])
        if pages.REMARK.match(above) or pages.NOT_IN_BROWSER.match(above) or pages.ROLE.match(above):
            before = before.rpartition(above)[0]
        cells.append(cell("markdown", before))
        cells.append(cell("code", code, raises=bool(RAISED.search(block.shown or ""))))
        at = after_output(lines, end) if block.shown is not None else end
    cells.append(cell("markdown", "\n".join(lines[at:])))
    kept = [cells[0], cell("code", FIRST.format(checkout=checkout)), *cells[1:]]
    kept = [each for each in kept if "".join(each["source"]).strip()]
    for number, each in enumerate(kept):
        each["id"] = hashlib.sha256(f"{number}{each['source']}".encode()).hexdigest()[:8]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {
        "cells": kept,
        "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def after_output(lines: list[str], end: int) -> int:
    """Return the number of the line below the output that follows a block."""
    start = next(number for number in range(end, len(lines)) if lines[number].startswith("```"))
    return next(number for number in range(start + 1, len(lines)) if lines[number].startswith("```")) + 1


def cell(kind: str, text: str, raises: bool = False) -> dict[str, Any]:
    """Return a cell."""
    if kind == "markdown":
        text = re.sub(r"\]\((\d\d-[\w-]+)\.md", r"](\1.ipynb", text)
    made: dict[str, Any] = {
        "cell_type": kind,
        "id": "",
        "metadata": {"tags": ["raises-exception"]} if raises else {},
        "source": text.strip("\n").splitlines(keepends=True),
    }
    if kind == "code":
        made.update(execution_count=None, outputs=[])
    return made


def notebooks() -> dict[str, str]:
    """Return every notebook: path of the file -> text."""
    made = {}
    for course, folder in COURSES.items():
        for page in sorted((HERE / course).glob("*.md")):
            path = (Path(folder) / f"{page.stem}.ipynb").as_posix()
            text = page.read_text("utf-8")
            if folder != ".":  # one folder deeper than the page, and the notebooks of the course are in between
                text = re.sub(r"\]\(\.\./\.\./course/([\w-]+)\.md", r"](../\1.ipynb", text.replace("](../", "](../../"))
            found = notebook(text, "/".join([".."] * (path.count("/") + 2)))
            made[path] = json.dumps(found, indent=1, ensure_ascii=False) + "\n"
    return made


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "notebooks"
    for name, text in notebooks().items():
        (folder / name).parent.mkdir(exist_ok=True, parents=True)
        (folder / name).write_text(text, "utf-8")
        print(folder / name)
