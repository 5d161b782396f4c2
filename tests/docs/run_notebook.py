"""Execute notebooks, and print their outputs as JSON: {name: [text of each code cell]}; or raise what a cell raised.

    python run_notebook.py NOTEBOOK ... [--html FOLDER]

It runs in an environment with nbclient and ipykernel (and nbconvert for --html), so it imports nothing of the tests.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient


def text_of(cell: nbformat.NotebookNode) -> str:
    """Return what a cell printed, the last line of its traceback, and the text of its result."""
    parts = []
    for output in cell.outputs:
        if output.output_type == "stream":
            parts.append(output.text)
        elif output.output_type == "error":
            parts.append(f"{output.ename}: {output.evalue}\n")
        elif "text/html" in output.data:
            parts.append(output.data["text/html"])
    return "".join(parts)


def main() -> None:
    """Execute the notebooks."""
    words = sys.argv[1:]
    folder = Path(words[words.index("--html") + 1]) if "--html" in words else None
    found = {}
    for word in words[: words.index("--html")] if folder else words:
        path = Path(word)
        notebook = nbformat.read(path, as_version=4)
        nbformat.validate(notebook)
        NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(path.parent)}}).execute()
        found[path.name] = [text_of(cell) for cell in notebook.cells if cell.cell_type == "code"]
        if folder:
            from nbconvert import HTMLExporter

            exporter = HTMLExporter()
            (folder / f"{path.stem}.html").write_text(exporter.from_notebook_node(notebook)[0], "utf-8")
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
