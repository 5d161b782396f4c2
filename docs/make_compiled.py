"""Compile the CUDA C of the pages, for browsers, in which there is no compiler: python3 -m docs.make_compiled

It runs the blocks of the pages, with NVRTC, and writes what NVRTC returned into docs/run/compiled.json. In a browser,
docs/run/page_blocks.py finds it there.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(CHECKOUT))

from docs.run.page_blocks import key_of  # noqa: E402
from tests.docs import pages  # noqa: E402

PLACE = CHECKOUT / "docs" / "run" / "compiled.json"
FOLDERS = ("course", "kernels", "howto")


class Recorder:
    """A compiler that keeps what it has compiled."""

    def __init__(self, compiler: Any) -> None:
        self._compiler = compiler
        self.made: dict[str, list[Any]] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._compiler, name)

    def compile(self, request: Any, folders: list[str]) -> Any:
        """Compile, and keep the outcome, without the name of this folder."""
        outcome = self._compiler.compile(request, folders)
        code = outcome.code.replace(f"{os.getcwd()}/".encode(), b"") if request.output == "ptx" else b""
        self.made[key_of(request)] = [code.decode("latin-1"), *outcome[1:]]
        return outcome


def compile_page(page: Path) -> int:
    """Run a page in this process and this folder; write what was compiled to stdout, and return the failed blocks."""
    os.environ.update(RAWCUDA_DRIVER="emulator", COLUMNS="100")
    from rawcuda.compiler import program

    recorder: Any = Recorder(program.compiler())
    program._loaded[:] = [recorder]
    pages.RUN = ("python",)
    with contextlib.redirect_stdout(sys.stderr):
        failed = pages.run(page)
    made = {"version": recorder.version, "architectures": recorder.architectures, "compiled": recorder.made}
    json.dump(made, sys.stdout)
    return failed


def main() -> int:
    """Run each page in a process of its own, and write the file; return how many blocks failed."""
    failed, whole = 0, {}
    found = [CHECKOUT / "docs" / "index.md"]
    found += [page for folder in FOLDERS for page in sorted((CHECKOUT / "docs" / folder).glob("*.md"))]
    for page in found:
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                [sys.executable, __file__, str(page)], cwd=folder, capture_output=True, text=True, check=False
            )
        if done.returncode:
            failed += 1
            print(f"{page.name}: {done.stderr}")
        made = json.loads(done.stdout)
        whole = {**made, "compiled": {**whole.get("compiled", {}), **made["compiled"]}}
        print(f"{page.name}: {len(whole['compiled'])} compiled so far", flush=True)
    PLACE.write_text(json.dumps(whole, indent=0, sort_keys=True) + "\n", "utf-8")
    return failed


if __name__ == "__main__":
    sys.exit(compile_page(Path(sys.argv[1])) if sys.argv[1:] else main())
