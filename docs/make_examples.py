"""Compile the examples of the playground and run them, for docs/run/examples.json: python3 -m docs.make_examples

An example is a kernel, docs/playground/NAME.cu, and the program that launches it, NAME.py. There is no compiler in a
browser, so docs/run/examples.json has the PTX that NVRTC makes, and what the program prints on the emulator. The PTX
names the lines of NAME.cu.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(CHECKOUT))

FOLDER = CHECKOUT / "docs" / "playground"
PLACE = CHECKOUT / "docs" / "run" / "examples.json"
TARGET = "compute_75"  # the oldest one that NVRTC 13 knows, so that most GPUs can run the PTX
NAMES = (  # in the order of the page: the easier ones come first
    "scale",
    "saxpy",
    "transpose",
    "histogram",
    "block_sum",
    "warp_sum",
    "scan",
    "tiled_transpose",
    "tiled_product",
    "stencil",
    "mandelbrot",
    "missing_barrier",
)


def compiled(name: str) -> str:
    """Return the PTX of an example, with the lines of NAME.cu."""
    import rawcuda

    source = (FOLDER / f"{name}.cu").read_text("utf-8")
    ptx = rawcuda.compile(source, TARGET, options=["-lineinfo"]).decode("utf-8")
    return re.sub(r'(\.file\t1) ".*source\.cu"', rf'\1 "{name}.cu"', ptx).strip() + "\n"


def printed(program: str, ptx: str) -> str:
    """Run a program on the emulator, beside its PTX, and return what it prints.

    If it raises, the first line of the error follows, and ... stands for the rest of a report, which has addresses.
    """
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "kernel.ptx").write_text(ptx, "utf-8")
        (Path(folder) / "program.py").write_text(program, "utf-8")
        done = subprocess.run(
            [sys.executable, "program.py"],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(CHECKOUT), "RAWCUDA_DRIVER": "emulator", "RAWCUDA_EMULATOR": ""},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
    raised = re.search(r"^(?:\w+\.)*(\w+: .*)$", done.stderr, re.M)
    return done.stdout + (f"{raised[1]}\n...\n" if raised else done.stderr)


def made(name: str) -> dict[str, str]:
    """Return an example, as the page reads it."""
    cuda, python = ((FOLDER / f"{name}.{suffix}").read_text("utf-8") for suffix in ("cu", "py"))
    ptx = compiled(name)
    title = cuda.partition("\n")[0].removeprefix("//").strip()
    return {"name": name, "title": title, "cuda": cuda, "ptx": ptx, "python": python, "output": printed(python, ptx)}


def as_text(examples: list[dict[str, str]]) -> str:
    """Return the text of the file, in which each field has a line."""
    return json.dumps(examples, indent=1, ensure_ascii=False) + "\n"


def main() -> None:
    """Write the file."""
    PLACE.write_text(as_text([made(name) for name in NAMES]), "utf-8")


if __name__ == "__main__":
    main()
