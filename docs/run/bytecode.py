"""Compile the package for the Python of a browser, which would take some seconds to do it; this runs in Pyodide.

    python -m docs.run.bytecode TARGET

It writes the __pycache__ folders of rawcuda/ and of page_blocks.py into the folder TARGET.
"""

from __future__ import annotations

import py_compile
import sys
from importlib.util import cache_from_source
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]


def main() -> None:
    """Compile each module, for the place that it has in the browser."""
    target = Path(sys.argv[1])
    sources = {path: path.relative_to(CHECKOUT) for path in sorted((CHECKOUT / "rawcuda").rglob("*.py"))}
    sources[CHECKOUT / "docs" / "run" / "page_blocks.py"] = Path("page_blocks.py")
    for path, place in sources.items():
        py_compile.compile(
            str(path),
            cfile=str(target / cache_from_source(str(place))),
            dfile=f"/package/{place.as_posix()}",
            doraise=True,
            invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
        )


if __name__ == "__main__":
    main()
