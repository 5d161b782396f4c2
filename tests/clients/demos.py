"""Programs of other projects' users, each run on the emulator in an environment of its own.

What it is   `DEMOS`, and `run`, which makes the environment and runs a program once.
How          PyCUDA has no wheels. So its sources are compiled in its environment, against the headers of the wheels of
             the CUDA toolkit, and linked with the emulator's libcuda.so. Its SourceModule needs nvcc, which is in those
             wheels, too.
Read next    programs/, command.py
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import NamedTuple

from tests.__main__ import environment

from .suites import SUITES, site_of

PROGRAMS = Path(__file__).resolve().parent / "programs"
ROOT = PROGRAMS.parents[2]


class Demo(NamedTuple):
    """A program.

    script     its file in the folder programs
    packages   what its environment needs
    variables  of the environment, in which {site} is the environment's site-packages
    """

    script: str
    packages: tuple[str, ...]
    variables: dict[str, str]


_PACKAGES = ("numba-cuda[cu13]", "cuda-core[cu13]", "tinygrad", "nvidia-cuda-nvrtc>=13,<14", "numpy", "pytest")
_TOOLKIT = tuple(
    f"nvidia-{name}>=13,<14"
    for name in ("cuda-nvcc", "cuda-crt", "nvvm", "cuda-runtime", "cuda-cccl", "cuda-profiler-api")
)
_FOR_PYCUDA = ("setuptools", "wheel", "numpy", "pytools", "platformdirs", "mako", *_TOOLKIT)
DEMOS = {
    "numba": Demo("numba_saxpy.py", _PACKAGES, {}),
    "tinygrad": Demo("tinygrad_step.py", _PACKAGES, {"DEV": "CUDA"}),
    "triton": Demo("triton_kernels.py", SUITES["triton"].packages, {}),
    "cuda.core": Demo("cuda_core_saxpy.py", _PACKAGES, {}),
    "cuda.bindings": Demo("cuda_bindings_saxpy.py", _PACKAGES, {}),
    "pycuda": Demo("pycuda_demo.py", _FOR_PYCUDA, {"CUDA_HOME": "{site}/nvidia/cu13"}),
    "pycuda-arrays": Demo("pycuda_arrays.py", _FOR_PYCUDA, {"CUDA_HOME": "{site}/nvidia/cu13"}),
}
_PYCUDA = "pycuda==2026.1"


def python_of(name: str) -> str:
    """Return the Python of a program's environment; make the environment if there is none yet."""
    python = environment(list(DEMOS[name].packages))
    if DEMOS[name].packages is _FOR_PYCUDA:
        _add_pycuda(python)
    return python


def run(name: str, folder: Path, seconds: float | None = None) -> subprocess.CompletedProcess[str]:
    """Run a program once, in a folder."""
    demo, python = DEMOS[name], python_of(name)
    variables = {key: value.format(site=site_of(python)) for key, value in demo.variables.items()}
    variables |= {"PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore", "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [*_emulated(), "env", "-u", "PYTHONPATH", python, str(PROGRAMS / demo.script)],
        env={**os.environ, **variables},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=seconds,
        stdin=subprocess.DEVNULL,
    )


def run_all(names: list[str], runs: int) -> int:
    """Run programs several times each, print what they print, and return 1 if a run failed or wrote to stderr."""
    failed = 0
    for name in names or DEMOS:
        wrong: list[str] = []
        for number in range(runs):
            with tempfile.TemporaryDirectory() as folder:
                result = run(name, Path(folder))
            if number == 0:
                print(result.stdout, end="")
            if result.returncode or result.stderr:
                wrong.append(f"run {number}: status {result.returncode}\n{result.stderr}")
        print(f"{name}: {runs - len(wrong)} of {runs} runs ended with status 0 and without a message", flush=True)
        print("".join(wrong[:3]), end="")
        failed += bool(wrong)
    return int(bool(failed))


def _emulated() -> list[str]:
    return [sys.executable, "-m", "rawcuda", "emulate", "--"]


def _add_pycuda(python: str) -> None:
    """Compile PyCUDA in an environment; this takes some minutes."""
    site = site_of(python)
    if (site / "pycuda").is_dir():
        return
    toolkit = site / "nvidia" / "cu13"
    print(f"compiling {_PYCUDA} (once; it needs a C++ compiler)", flush=True)
    with tempfile.TemporaryDirectory() as made:
        command = [python, "-m", "pip", "download", "--quiet", "--no-deps", "--no-build-isolation"]
        subprocess.run([*command, "--no-binary", "pycuda", "--dest", made, _PYCUDA], check=True)
        (archive,) = Path(made).glob("*.tar.gz")
        with tarfile.open(archive) as packed:
            packed.extractall(made)
        (sources,) = (each for each in Path(made).iterdir() if each.is_dir())
        (sources / "siteconf.py").write_text(
            f'CUDA_ROOT = "{toolkit}"\nCUDA_ENABLE_CURAND = False\nCXXFLAGS = ["-O0", "-g0", "-w"]\n', encoding="utf-8"
        )
        install = [python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", str(sources)]
        subprocess.run([*_emulated(), *install], env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True)
