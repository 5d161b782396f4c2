"""Compile the CUDA C and the Python of the corpus to PTX again.

    python3 tests/data/corpus/make.py              the committed files (nvcc of CUDA 13.0 compiled them)
    python3 tests/data/corpus/make.py --all FOLDER every source with every option, to read or to test once
    python3 tests/data/corpus/make.py --python     the kernels in Python, with numba-cuda and Triton; a FOLDER may follow

Each build is one file, SOURCE.BUILD.ptx. Comments, indentation and debug sections are removed, paths are shortened to
names and parameters to their numbers, and nvcc's hash of the folder becomes zeros. Tests only read the results.
"""
from __future__ import annotations

import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
SOURCES = ("copies", "halves", "threads", "atomics", "flow", "integers", "math", "variables")
OPTIONS = {
    "sm75": ["-arch=sm_75"], "sm80": ["-arch=sm_80"], "sm90": ["-arch=sm_90"], "sm100": ["-arch=sm_100"], "sm120": ["-arch=sm_120"],
    "sm80_O0": ["-arch=sm_80", "-Xcicc", "-O0"], "sm75_debug": ["-arch=sm_75", "-G"], "sm90_rdc": ["-arch=sm_90", "-rdc=true"],
    "sm90_lines": ["-arch=sm_90", "-lineinfo"], "sm90_fast": ["-arch=sm_90", "-use_fast_math", "-DSINGLE"],
    "sm100_single": ["-arch=sm_100", "-DSINGLE"],
}
COMMITTED = {
    **{source: ["sm75", "sm100"] for source in SOURCES},
    "copies": ["sm75", "sm100", "sm80_O0"],
    "threads": ["sm75", "sm80", "sm100"],
    "flow": ["sm75", "sm80_O0", "sm75_debug", "sm90_rdc", "sm90_lines", "sm120"],
    "atomics": ["sm75", "sm90"],
    "halves": ["sm75", "sm80", "sm100"],
    "variables": ["sm75", "sm80_O0", "sm90_rdc", "sm120"],
    "math": ["sm75", "sm90_fast", "sm100_single"],
}


def main() -> None:
    """Compile what the command line requests."""
    if sys.argv[1:2] == ["--python"]:
        sys.path.insert(0, str(HERE))
        import from_python
        folder = Path(sys.argv[2]) if len(sys.argv) > 2 else HERE
        for name, text in from_python.builds():
            write(folder / f"{name}.ptx", text)
        return
    everything = sys.argv[1:2] == ["--all"]
    folder = Path(sys.argv[2]) if everything else HERE
    jobs = [(source, build) for source in SOURCES for build in (OPTIONS if everything else COMMITTED[source])]
    with ThreadPoolExecutor(2) as pool:
        for _ in pool.map(lambda job: compile_one(folder, *job), jobs):
            pass


def compile_one(folder: Path, source: str, build: str) -> None:
    """Run nvcc for one build."""
    target = folder / f"{source}.{build}.ptx"
    subprocess.run(["nvcc", "-w", "-ptx", "-std=c++17", *OPTIONS[build], f"{source}.cu", "-o", str(target)], cwd=HERE, check=True)
    write(target, target.read_text())


def write(target: Path, text: str) -> None:
    """Write the essential parts of a program to a file."""
    text = re.sub(r"//.*", "", text)
    kept = r"(?!_str\b)" if "function_name" in text else ""          # lines of inlined code refer to the names of their functions there
    text = re.sub(rf"^\s*\.section\s+\.debug{kept}\w*\s*\{{[^}}]*\}}\n?", "", text, flags=re.MULTILINE)
    text = re.sub(r'(\.file\s+\d+\s+)"(?:[^"/]*/)*([^"]*)"[^\n]*', r'\1"\2"', text)
    text = text.replace(", debug\n", "\n")
    text = re.sub(r"\b\w+_param_(\d+)\b", r"p\1", text)
    text = re.sub(r"^[ \t]+|[ \t]+$|^\s*\n", "", text, flags=re.MULTILINE)
    text = re.sub(r"[ \t]+", " ", text)
    for before in ("_INTERNAL_", "__nv_static_31__"):                # followed by nvcc's hash of its working folder
        text = re.sub(rf"(?<={before})[0-9a-f]{{8}}(?=_)", "00000000", text)
        text = re.sub(rf"(?<={codes(before)})(,\d+){{8}}(?=,95)", codes("00000000", ","), text)
    text = re.sub(r"(?<=_GLOBAL__N__)[0-9a-f]{8}(?=_)", "00000000", text)
    target.write_text(text)
    print(f"{target.name}: {target.stat().st_size} bytes", flush=True)


def codes(text: str, before: str = "") -> str:
    """Return a text as the numbers of a .b8 list."""
    return before + ",".join(str(code) for code in text.encode())


if __name__ == "__main__":
    sys.exit(main())
