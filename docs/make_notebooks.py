"""Make a notebook of each chapter of the course: python3 docs/make_notebooks.py [FOLDER]

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

sys.path.insert(0, "../..")  # the checkout; not needed if rawcuda is installed"""


def notebook(text: str) -> dict[str, Any]:
    """Return a notebook of a page, in version 4.5 of the format."""
    cells = []
    lines = text.splitlines()
    at = 0
    ends = {block.line: block for block in pages.blocks(text)}
    for language, code, line, end, above in pages.fenced(text):
        block = ends.get(line)
        if language != "python" or block is None:
            continue
        before = "\n".join(lines[at : line - 2])
        if pages.REMARK.match(above):
            before = before.rpartition(above)[0]
        cells.append(cell("markdown", before))
        last = (block.shown or "").strip().splitlines()[-1:]
        cells.append(cell("code", code, raises=any(map(RAISED.search, last))))
        at = after_output(lines, end) if block.shown is not None else end
    cells.append(cell("markdown", "\n".join(lines[at:])))
    kept = [cells[0], cell("code", FIRST), *cells[1:]]
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
    """Return every notebook: name of the file -> text."""
    return {
        f"{page.stem}.ipynb": json.dumps(notebook(page.read_text("utf-8")), indent=1, ensure_ascii=False) + "\n"
        for page in sorted((HERE / "course").glob("*.md"))
    }


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "notebooks"
    folder.mkdir(exist_ok=True)
    for name, text in notebooks().items():
        (folder / name).write_text(text, "utf-8")
        print(folder / name)
