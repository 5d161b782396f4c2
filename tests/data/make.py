"""Compile the CUDA C in tests/data/ptx to PTX again.

    python3 tests/data/make.py            needs nvcc (13.0 compiled the committed files); tests only read the results

Each build is one file, named after its source and its options. Debug sections are removed, and paths shortened.
"""
from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent / "ptx"

# source -> suffix of the result -> options of nvcc
BUILDS = {
    "arithmetic": {"sm75": ["-arch=sm_75"], "sm100": ["-arch=sm_100"]},
    "math": {"sm75": ["-arch=sm_75"], "sm90_fast": ["-arch=sm_90", "-use_fast_math"]},
    "half": {"sm75": ["-arch=sm_75"], "sm90": ["-arch=sm_90"]},
    "memory": {"sm75": ["-arch=sm_75"], "sm90": ["-arch=sm_90"], "sm75_debug": ["-arch=sm_75", "-G"],
               "sm90_O0": ["-arch=sm_90", "-Xcicc", "-O0"], "sm100": ["-arch=sm_100"]},
    "together": {"sm75": ["-arch=sm_75"], "sm90": ["-arch=sm_90"]},
}


def main() -> None:
    """Run nvcc for each build."""
    for source, builds in BUILDS.items():
        for suffix, options in builds.items():
            target = HERE / f"{source}.{suffix}.ptx"
            command = ["nvcc", "-w", "-ptx", "-std=c++17", *options, f"{source}.cu", "-o", str(target)]
            subprocess.run(command, cwd=HERE, check=True)
            target.write_text(shortened(target.read_text()))
            print(f"{target.name}: {target.stat().st_size} bytes")


def shortened(text: str) -> str:
    """Remove the parts that depend on the machine, or that only a debugger uses."""
    text = re.sub(r"^\s*\.section\s+\.debug\w*\s*\{[^}]*\}\n?", "", text, flags=re.MULTILINE)
    text = re.sub(r'(\.file\s+\d+\s+)"(?:[^"/]*/)*([^"]*)"[^\n]*', r'\1"\2"', text)
    text = text.replace(", debug\n", "\n")
    return re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE)


if __name__ == "__main__":
    sys.exit(main())
