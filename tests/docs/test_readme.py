"""The README in a new environment: it is installed as written, and the console script runs."""

from __future__ import annotations

import html
import os
import re
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from tests.conftest import Python
from tests.subject import CHECKOUT, NAME

from . import pages

pytestmark = pytest.mark.skipif(NAME != "rawcuda", reason="the README is about the original")

README = (CHECKOUT / "README.md").read_text("utf-8")


def test_it_has_what_a_newcomer_looks_for() -> None:
    """What it is in two sentences, two commands, a picture, how to install, CUDA C, libraries, links."""
    first = README.split("\n\n")[1]
    assert len(re.findall(r"[.!?](?:\s|$)", first)) == 2
    order = [
        "rawcuda demo",
        "python3 -m tests\n",
        "![",
        "pip install .",
        "__global__",
        "rawcuda doctor",
        "three libraries",
    ]
    assert [README.index(each) for each in order] == sorted(README.index(each) for each in order)
    assert README[: README.index("![")].count("\n") < 40  # both commands are on the first screen
    left_out = [block.left_out for block in pages.blocks(README) if block.left_out]
    assert all("network" in why or "not installed" in why for why in left_out)
    files = [block for block in pages.blocks(README) if block.language == "file"]
    assert [len(block.code.splitlines()) for block in files] == [5]  # five lines of CUDA C


BLOCKS = [block for block in pages.blocks(README) if block.language == "python"]


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_a_block_runs_alone_and_says_what_it_needs(python: Python, number: int) -> None:
    block = BLOCKS[number]
    assert block.code.startswith("# This needs ") and "import rawcuda" in block.code
    if block.left_out:
        pytest.skip(block.left_out)
    result = python(block.code)
    assert result.returncode == 0, result.stdout + result.stderr


def test_the_session_in_the_picture_is_about_the_kernel_in_the_text() -> None:
    picture = (CHECKOUT / "docs" / "pictures" / "session.svg").read_text("utf-8")
    [kernel] = [block for block in pages.blocks(README) if block.language == "file"]
    for line in kernel.code.splitlines():
        assert html.escape(line).replace(" ", "\N{NO-BREAK SPACE}") in picture


@pytest.mark.heavy
def test_it_is_installed_as_written(tmp_path: Path) -> None:
    """The packages of this environment are visible, so that no network is needed for setuptools."""
    venv.create(tmp_path / "new", with_pip=False, system_site_packages=False)
    python = tmp_path / "new" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    install = [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-build-isolation", "--quiet"]
    copy = tmp_path / "checkout"
    import shutil

    shutil.copytree(CHECKOUT, copy, ignore=shutil.ignore_patterns(".*", "__pycache__", "build", "*.egg-info"))
    env = {**os.environ, "PYTHONPATH": "", "RAWCUDA_DRIVER": ""}
    wheel = [sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "--quiet", "-w", str(tmp_path)]
    subprocess.run([*wheel, str(copy)], check=True)
    [built] = tmp_path.glob("*.whl")
    subprocess.run([*install, "--no-deps", "--no-index", str(built)], check=True)
    script = python.with_name("rawcuda.exe" if os.name == "nt" else "rawcuda")
    for words in (["--version"], ["demo", "--driver", "emulator"], ["check", "--driver", "emulator", "--no-report"]):
        done = subprocess.run([script, *words], cwd=tmp_path, env=env, capture_output=True, text=True)
        assert done.returncode == 0 and not done.stderr, done.stdout + done.stderr
