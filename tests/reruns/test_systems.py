"""interop/ again with the large libraries, each group in its own environment.

They are PyTorch, JAX, Warp, DALI, Dr.Jit, TensorFlow and Paddle.
"""

from __future__ import annotations

import re
import sys

import pytest

from tests.__main__ import environment
from tests.conftest import Rerun
from tests.systems_table import ENVIRONMENTS, TOOLS

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.skipif(
        sys.version_info < (3, 11) or not sys.platform.startswith("linux"),
        reason="these libraries have wheels for Linux and Python 3.11 and later",
    ),
]
TESTS = [
    f"tests/interop/test_{name}.py" for name in ("systems", "table", "particular", "live_bugs", "bug_classes")
]  # the others need none of these
EXPECTED = {
    "torch": ("torch",),
    "arrays": ("jax", "warp", "nvidia.dali.tensors", "drjit"),
    "tensorflow": ("tensorflow",),
    "paddle": ("paddle",),
}


@pytest.mark.parametrize("group", ENVIRONMENTS)
def test_interop_tests_pass(rerun: Rerun, group: str) -> None:
    try:
        python = environment([*TOOLS, *ENVIRONMENTS[group]])
    except SystemExit as error:
        if group != "torch":
            raise
        pytest.skip(f"no CPU build of torch 2.13.0 for this Python at hand: {error}")
    output = rerun([python, "-m", "pytest", *TESTS, "-v", "--durations=5"], timeout=900)
    for name in EXPECTED[group]:
        assert re.search(rf"test_theirs_comes_here\[{re.escape(name)}\] PASSED", output), f"{name} was not tested"
    rerun(
        [
            python,
            "-m",
            "pytest",
            "--heavy",
            TESTS[0],
            "-k",
            " or ".join(name.rpartition(".")[2] for name in EXPECTED[group]),
        ],
        timeout=900,
    )
    if group == "torch":  # blocks of these pages need it
        assert "2 passed" in rerun(
            [python, "-m", "pytest", "tests/docs/test_blocks.py"]
            + ["-k", "test_every_block_runs and (README or processes)"]
        )
