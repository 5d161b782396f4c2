"""The corpus of kernels again, compiled by each installed compiler: every source with every option."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import Rerun
from tests.subject import CHECKOUT

pytestmark = pytest.mark.heavy

CORPUS = CHECKOUT / "tests" / "data" / "corpus"
TESTS = ["tests/driver/test_corpus.py", "tests/driver/test_corpus_numbers.py"]


def make(*options: str | Path) -> None:
    """Run the script that compiles the corpus."""
    done = subprocess.run(
        [sys.executable, str(CORPUS / "make.py"), *map(str, options)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=1500,
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not installed")
def test_every_build_of_every_source(rerun: Rerun, tmp_path: Path) -> None:
    make("--all", tmp_path)
    assert len(list(tmp_path.glob("*.ptx"))) > 80
    for mode in ("eager", "lazy", "random"):
        output = rerun(
            [sys.executable, "-m", "pytest", *TESTS, "--mode", mode, "--seed", "5"],
            env={"TESTED_CORPUS": str(tmp_path)},
        )
        assert int(re.findall(r"(\d+) passed", output)[-1]) > 900
    release = subprocess.run(["nvcc", "--version"], stdout=subprocess.PIPE, text=True).stdout
    if "release 13.0," in release:  # the committed files were made by this script
        changed = [
            made.name
            for made in tmp_path.glob("*.ptx")
            if (CORPUS / made.name).exists() and (CORPUS / made.name).read_text() != made.read_text()
        ]
        assert not changed


@pytest.mark.skipif(
    not all(importlib.util.find_spec(name) for name in ("numba", "triton")),
    reason="numba-cuda and Triton are not installed",
)
def test_compilers_of_python(rerun: Rerun, tmp_path: Path) -> None:
    make("--python", tmp_path)
    assert len(list(tmp_path.glob("*.ptx"))) >= 12
    output = rerun(
        [sys.executable, "-m", "pytest", *TESTS, "-k", "numba or triton"], env={"TESTED_CORPUS": str(tmp_path)}
    )
    assert int(re.findall(r"(\d+) passed", output)[-1]) >= 12
