"""Build the site: python3 -m tests.site [FOLDER]

It builds into build/site/ (or the folder), in an environment with the packages of the extra `site`, and fails on every
warning. To look at the site, with the search: python3 -m http.server --directory build/site
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.__main__ import CHECKOUT, environment, requirements
from tests.pyodide.command import NotInstalled, pyodide


def build(folder: Path, *, quiet: bool = False) -> subprocess.CompletedProcess[str]:
    """Build the site; the result has the exit status and, if quiet, the messages."""
    command = [environment(requirements("site")), "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    return subprocess.run(
        command + ["--quiet"] * quiet,
        cwd=CHECKOUT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1", "RAWCUDA_PYODIDE": runs()},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE if quiet else None,
        stderr=subprocess.STDOUT if quiet else None,
        text=True,
    )


def runs() -> str:
    """Return the folder of Pyodide; "" where it cannot be installed: the site then has no Run buttons."""
    try:
        return str(pyodide())
    except NotInstalled as missing:
        print(f"the blocks of the site get no Run buttons: {missing}")
        return ""


if __name__ == "__main__":
    sys.exit(build(Path(sys.argv[1]).resolve() if sys.argv[1:] else CHECKOUT / "build" / "site").returncode)
