"""Compile the examples of the playground and run them, for docs/run/examples.json: python3 -m docs.make_examples

An example is a kernel, docs/playground/NAME.cu, and the program that launches it, NAME.py. There is no compiler in a
browser, so docs/run/examples.json has the PTX that NVRTC makes, and what the program prints on the emulator.
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

    If it raises, its output ends with the error, in which ... stands for addresses and for the name of the program.
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
    return done.stdout + error_of(done.stderr)


TRACEBACK = re.compile(r"Traceback \(most recent call last\):\n(?: [^\n]*\n)+(?:[\w.]+\.)?(\w+: .*)\Z", re.S)


def error_of(stderr: str) -> str:
    """Return the error at the end of a traceback, or all of it if it has none; "" if nothing was written."""
    raised = TRACEBACK.search(stderr)
    text = re.sub(r"0x[0-9a-f]{6,}", "...", raised[1] if raised else stderr)
    return re.sub(r"launched at \S*program\.py:", "launched at ...:", text)


def made(name: str) -> dict[str, str]:
    """Return an example, as the page reads it."""
    cuda, python = ((FOLDER / f"{name}.{suffix}").read_text("utf-8") for suffix in ("cu", "py"))
    ptx = compiled(name)
    title = cuda.partition("\n")[0].removeprefix("//").strip()
    return {"name": name, "title": title, "cuda": cuda, "ptx": ptx, "python": python, "output": printed(python, ptx)}


def main() -> None:
    """Write the file."""
    PLACE.write_text(json.dumps([made(name) for name in NAMES], indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    main()
