"""The test suites of other projects that run on the emulator: where they are, and why some tests fail."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
_PYTEST = ("pytest", "pytest-timeout")


class Reason(NamedTuple):
    """The reason why some tests fail.

    pattern  a regular expression for the test's name, a space and the last line of its error
    whose    "ours", "theirs", or "hardware" for what only a GPU or a network can do, which does not count
    why      a sentence for the table
    """

    pattern: str
    whose: str
    why: str


class Suite(NamedTuple):
    """A test suite.

    packages   what its environment needs, with the version of the program first
    tests      the arguments of pytest
    goal       the percentage of tests that have to pass
    variables  of the environment, in which {site} is the environment's site-packages
    sample     tests that represent the suite in a short run
    """

    packages: tuple[str, ...]
    tests: tuple[str, ...]
    goal: int
    variables: dict[str, str]
    reasons: tuple[Reason, ...]
    sample: tuple[str, ...]


SUITES = {
    "numba-cuda": Suite(
        ("numba-cuda[cu13]==0.30.4", *_PYTEST, "pytest-benchmark", "filecheck", "psutil", "cffi", "ml_dtypes"),
        ("nctests", "--ignore=nctests/benchmarks", "-o", "consider_namespace_packages=true"),
        95,
        {},
        (
            Reason(
                "test_device_arch_specific",
                "theirs",
                "it changes a field of a tensor map, which has 128 bytes, in 4 bytes of shared memory",
            ),
            Reason(
                "CUDAAndCPUCachingTest",
                "theirs",
                "numba 0.68 and numba-cuda mark their shared index of caches in different ways",
            ),
            Reason("test_dispatcher_cpointer|test_struct_model_type_arr", "theirs", "it accesses memory out of bounds"),
            Reason(
                "no attribute 'reserved'", "theirs", "it uses an attribute of IPC handles that cuda.bindings 13.5 lacks"
            ),
            Reason(
                "TestIntrinsic::test_docstring|test_signatures_match_overloaded_api",
                "ours",
                "the command imports these tests as a package of another name",
            ),
            Reason(
                "test_sync_at_matrix_row|test_ex_grid_sync",
                "ours",
                "the launch takes longer than the emulator's time limit",
            ),
            Reason("test_nrt_detect_linked_ptx_file", "ours", "its link of LTO-IR drops functions that only PTX calls"),
            Reason("more than 300 seconds", "ours", "it takes longer than 300 seconds on the emulator"),
            Reason("compiles_quickly", "theirs", "it fails if a program takes more than 30 seconds; no GPU takes part"),
        ),
        ("nctests/cudapy/test_sm.py", "nctests/cudapy/test_warp_ops.py", "nctests/cudadrv/test_linker.py"),
    ),
    "tinygrad": Suite(
        (
            "tinygrad==0.13.0", "numpy", *_PYTEST, "hypothesis", "z3-solver<4.15.4", "tqdm", "torch==2.13.0+cpu",
            "nvidia-cuda-nvrtc", "nvidia-cuda-runtime", "nvidia-cuda-cccl",
        ),
        ("test/test_tiny.py", "test/backend", "--ignore=test/backend/test_multitensor.py"),
        97,
        {"DEV": "CUDA", "CUDA_PATH": "{site}/nvidia/cu13"},
        (
            Reason("URLError", "hardware", "it downloads a data set"),
            Reason("No such file or directory: 'clang'", "hardware", "it compiles for the CPU with clang"),
            Reason(
                "test_arange_cumsum|test_reduce_different_nesting_depth",
                "theirs",
                "its PTX has a race: no barrier between the reads of a loop and the next writes",
            ),
            Reason("fp8e4m3_extreme", "theirs", "it expects the rounding of an older PyTorch; no GPU takes part"),
            Reason("Torch not compiled with CUDA", "hardware", "it needs a CUDA build of PyTorch"),
            Reason(
                "test_fp8e5m2", "theirs", "it expects infinity where its own kernel asks for the largest finite number"
            ),
            Reason(
                "test_symbolic_jit.*invalid argument",
                "ours",
                "it adds a kernel node without blocks to a graph; what NVIDIA's driver does then is not known",
            ),
        ),
        ("test/test_tiny.py",),
    ),
    "triton": Suite(
        ("triton==3.9.0", "numpy", *_PYTEST),
        (str(HERE / "programs" / "suite_triton.py"), "--rootdir", str(HERE / "programs"), "-c", os.devnull),
        100,
        {},
        (),
        (
            *(str(HERE / "programs" / "suite_triton.py"), "--rootdir", str(HERE / "programs"), "-c", os.devnull),
            *("-k", "product or softmax"),
        ),
    ),
}  # fmt: skip


def version_of(suite: Suite) -> str:
    """Return the version of a suite's program."""
    return suite.packages[0].partition("==")[2]


def site_of(python: str) -> Path:
    """Return the site-packages of an environment."""
    command = [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    return Path(subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip())


def prepare(name: str, python: str, folder: Path, checkout: Path | None) -> tuple[Path, tuple[str, ...]]:
    """Return the working directory and the tests of a suite.

    folder    an empty folder, for what has to be made
    checkout  the sources of tinygrad of the stated version; without them, only the tests of its sdist run
    """
    suite = SUITES[name]
    if name == "numba-cuda":  # as a package of another name: the folder above it is named `cuda`, like another package
        tests = site_of(python) / "numba_cuda" / "numba" / "cuda" / "tests"
        (folder / "nctests").symlink_to(tests)
        return folder, suite.tests
    if name != "tinygrad":
        return folder, suite.tests
    if checkout is not None:
        said = re.search(r'^version = "(.+)"', (checkout / "pyproject.toml").read_text(encoding="utf-8"), re.M)
        if said is None or said.group(1) != version_of(suite):
            sys.exit(f"{checkout} is not tinygrad {version_of(suite)}: check out v{version_of(suite)}")
        return checkout, suite.tests
    command = [python, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:", suite.packages[0]]
    if subprocess.run([*command, "--dest", str(folder)]).returncode:
        sys.exit(f"pip could not download the sources of tinygrad {version_of(suite)}; give --tinygrad CHECKOUT")
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(folder)
    (unpacked,) = (each for each in folder.iterdir() if each.is_dir())
    helpers = unpacked / "test" / "helpers.py"
    if not helpers.exists():  # the sdist lacks the module from which this one test takes one name
        (unpacked / "test" / "__init__.py").touch()
        helpers.write_text("CI = True\n", encoding="utf-8")
    return unpacked, ("test/test_tiny.py",)


def reason_of(suite: Suite, test: str, said: str) -> Reason:
    """Return the reason why a test failed."""
    for reason in suite.reasons:
        if re.search(reason.pattern, f"{test} {said}"):
            return reason
    return Reason("", "ours", "not explained yet")
